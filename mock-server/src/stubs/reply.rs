//! Response of a stub: the `response` of a mapping, read and checked once when stubs are loaded, so
//! that responding is mostly copying. The server renders it for each request.
//!
//! It must not send or wait, and its random values must stay a function of the given draws.
//!
//! Source: `ResponseDefinition`, `Body`, `StubResponseRenderer`, `Response.Builder.configureDelay` of
//! WireMock 3.13.

use super::node::{Node, Problem, with_digits};
use super::template::{Failed, Occasion, Template};
use crate::draw::{Draws, Stream};
use crate::fault::Fault;
use crate::latency::{Latency, MAX_HOLD};
use crate::text::{BASE64, SettingError};
use base64::Engine;
use bytes::Bytes;
use hyper::StatusCode;
use hyper::ext::ReasonPhrase;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, TRANSFER_ENCODING};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

/// The one transformer that is served.
const TEMPLATES: &str = "response-template";

const FIELDS: &str = "\
    status statusMessage headers body jsonBody base64Body bodyFileName fixedDelayMilliseconds delayDistribution \
    chunkedDribbleDelay fault transformers transformerParameters fromConfiguredStub";

const PROXY_FIELDS: [&str; 4] = [
    "proxyBaseUrl",
    "proxyUrlPrefixToRemove",
    "additionalProxyRequestHeaders",
    "removeProxyRequestHeaders",
];

/// Answer of one stub.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    status: StatusCode,
    reason: Option<ReasonPhrase>,
    headers: Vec<(HeaderName, Fill<HeaderValue>)>,
    body: Fill<Bytes>,
    /// Delay of the answer, or of the fault.
    pub(crate) delays: Delays,
    /// Pieces that the body comes in, if it does.
    pub(crate) dribble: Option<Dribble>,
    /// Fault of the answer, once it has been held back.
    pub(crate) fault: Option<Fault>,
}

const FAULTS: [(&str, Fault); 4] = [
    ("CONNECTION_RESET_BY_PEER", Fault::Reset),
    ("EMPTY_RESPONSE", Fault::Drop),
    ("MALFORMED_RESPONSE_CHUNK", Fault::MalformedChunk),
    ("RANDOM_DATA_THEN_CLOSE", Fault::Garbage),
];

/// One answer, ready to be sent.
#[derive(Debug)]
pub(crate) struct Rendered<'r> {
    pub(crate) status: StatusCode,
    pub(crate) reason: Option<&'r ReasonPhrase>,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: Bytes,
}

impl Reply {
    /// Reads the object under `response`; without it, an empty 200.
    pub(crate) fn read(node: Option<&Node<'_>>, files: &Files) -> Result<Self, Problem> {
        let nothing = Value::Object(Map::new());
        let empty = Node::root(&nothing);
        let node = node.unwrap_or(&empty);
        node.only(FIELDS, &PROXY_FIELDS)?;
        let templates = Templates::read(node)?;
        let body = body(node, files, templates)?;
        let status = node.read("status", status)?.unwrap_or(StatusCode::OK);
        let reason = node.read("statusMessage", reason_phrase)?;
        let headers = node.read("headers", |headers| fields(headers, templates, &body))?;
        Ok(Self {
            status,
            reason: reason.or_else(|| number_as_reason(status)),
            headers: headers.unwrap_or_default(),
            body,
            delays: Delays::read(node, "fixedDelayMilliseconds")?,
            dribble: node.read("chunkedDribbleDelay", Dribble::read)?,
            fault: node.read("fault", |fault| fault.choice("fault", &FAULTS))?,
        })
    }

    /// The answer, if it is the same for all requests.
    pub(crate) fn ready(&self) -> Option<Rendered<'_>> {
        self.filled(|_| Err(())).ok()
    }

    /// The answer for a request. A template that fails on what the client sent is a 500.
    pub(crate) fn render(&self, occasion: &Occasion<'_>, draws: &mut Draws) -> Rendered<'_> {
        self.filled(|template| template.render(occasion, draws))
            .unwrap_or_else(|failed: Failed| Rendered {
                status: StatusCode::INTERNAL_SERVER_ERROR,
                reason: None,
                headers: vec![(CONTENT_TYPE, HeaderValue::from_static("text/plain"))],
                body: Bytes::from(failed.to_string()),
            })
    }

    fn filled<E>(
        &self,
        mut fill: impl FnMut(&Template) -> Result<String, E>,
    ) -> Result<Rendered<'_>, E> {
        let body = match &self.body {
            Fill::Ready(body) => body.clone(),
            Fill::Template(template) => fill(template)?.into(),
        };
        let mut headers = Vec::with_capacity(self.headers.len());
        for (name, value) in &self.headers {
            let value = match value {
                Fill::Ready(value) => value.clone(),
                Fill::Template(template) => sanitised(&fill(template)?),
            };
            headers.push((name.clone(), value));
        }
        Ok(Rendered {
            status: self.status,
            reason: self.reason.as_ref(),
            headers,
            body,
        })
    }
}

/// A part of an answer.
#[derive(Clone, Debug)]
enum Fill<T> {
    /// Same for all requests.
    Ready(T),
    /// Made for each request.
    Template(Template),
}

impl<T> Fill<T> {
    /// Reads a text that is a template if templates are on. One without gaps is none.
    fn read(
        node: &Node<'_>,
        text: &str,
        templates: Templates<'_>,
        ready: impl FnOnce(&Node<'_>, &str) -> Result<T, Problem>,
    ) -> Result<Self, Problem> {
        let Templates::On(parameters) = templates else {
            return ready(node, text).map(Self::Ready);
        };
        let template = Template::compile(text, parameters).map_err(|what| node.problem(what))?;
        match template.constant() {
            Some(text) => ready(node, text).map(Self::Ready),
            None => Ok(Self::Template(template)),
        }
    }
}

/// Templates of a stub.
#[derive(Clone, Copy, Debug)]
enum Templates<'v> {
    /// Texts are texts.
    Off,
    /// Texts are templates, with these parameters.
    On(Option<&'v Value>),
}

impl<'v> Templates<'v> {
    fn read(node: &Node<'v>) -> Result<Self, Problem> {
        let parameters = node.get("transformerParameters");
        if let Some(parameters) = &parameters {
            drop(parameters.fields()?);
        }
        let transformers = node.read("transformers", |transformers| {
            transformers.list(|transformer| match transformer.text()? {
                TEMPLATES => Ok(()),
                name => Err(transformer.unsupported(format!("the transformer `{name}`"))),
            })
        })?;
        if transformers.unwrap_or_default().is_empty() {
            return Ok(Self::Off);
        }
        Ok(Self::On(parameters.map(|parameters| parameters.value())))
    }

    /// For files: none if the parameter `disableBodyFileTemplating` says so.
    fn in_files(self) -> Self {
        match self {
            Self::On(Some(parameters)) if parameters["disableBodyFileTemplating"] == true => {
                Self::Off
            }
            other => other,
        }
    }
}

/// Takes the first that is there of `body`, `jsonBody`, `base64Body` and `bodyFileName`. An empty
/// `body` is there.
fn body(node: &Node<'_>, files: &Files, templates: Templates<'_>) -> Result<Fill<Bytes>, Problem> {
    if let Some(field) = node.get("body") {
        return Fill::read(&field, field.text()?, templates, text_body);
    }
    if let Some(field) = node.get("jsonBody") {
        let text = with_digits(&field.value().to_string());
        return Fill::read(&field, &text, templates, text_body);
    }
    if let Some(field) = node.get("base64Body") {
        let bytes = BASE64
            .decode(field.text()?)
            .map_err(|error| field.malformed(format!("no base64: {error}")))?;
        return Ok(Fill::Ready(bytes.into()));
    }
    let Some(field) = node.get("bodyFileName") else {
        return Ok(Fill::Ready(Bytes::new()));
    };
    let name = field.text()?;
    if name.contains("{{") {
        return Err(field.unsupported(format!("a body file whose name is a template (`{name}`)")));
    }
    let bytes = files.read(name).map_err(|error| field.malformed(error))?;
    let templates @ Templates::On(_) = templates.in_files() else {
        return Ok(Fill::Ready(bytes));
    };
    let text = str::from_utf8(&bytes).map_err(|error| {
        let what = format!("`{name}` is to be a template, but is not UTF-8: {error}");
        field.malformed(what)
    })?;
    Fill::read(&field, text, templates, text_body)
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "the values of headers can be wrong"
)]
fn text_body(_: &Node<'_>, text: &str) -> Result<Bytes, Problem> {
    Ok(Bytes::copy_from_slice(text.as_bytes()))
}

/// Reads `{"Name":"value","Other":["one","two"]}`. Framing is left to the server: of the headers
/// about it only the length of a body that HEAD does not get is kept.
fn fields(
    node: &Node<'_>,
    templates: Templates<'_>,
    body: &Fill<Bytes>,
) -> Result<Vec<(HeaderName, Fill<HeaderValue>)>, Problem> {
    let is_empty = matches!(body, Fill::Ready(body) if body.is_empty());
    let mut all = Vec::new();
    for (name, field) in node.fields()? {
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| field.malformed(format!("`{name}` is not a valid header name")))?;
        let mut values = if field.value().is_array() {
            field.list(|value| Fill::read(value, value.text()?, templates, line))?
        } else {
            vec![Fill::read(&field, field.text()?, templates, line)?]
        };
        if values.is_empty() {
            return Err(field.malformed("a header without a value: write \"\" for an empty one"));
        }
        // Of several types Jetty sends the last.
        if name == CONTENT_TYPE {
            values.drain(..values.len() - 1);
        }
        if name != TRANSFER_ENCODING && (name != CONTENT_LENGTH || is_empty) {
            all.extend(values.into_iter().map(|value| (name.clone(), value)));
        }
    }
    Ok(all)
}

fn line(node: &Node<'_>, text: &str) -> Result<HeaderValue, Problem> {
    latin_1(text)
        .and_then(|bytes| HeaderValue::from_maybe_shared(Bytes::from(bytes)).ok())
        .ok_or_else(|| node.malformed("a header is one line of ISO 8859-1"))
}

fn status(field: &Node<'_>) -> Result<StatusCode, Problem> {
    match field.to::<i32>()? {
        ..=0 => Ok(StatusCode::OK),
        status @ 100..=199 => Err(field.unsupported(format!(
            "the status {status}, which announces another response,"
        ))),
        status => {
            let known = u16::try_from(status).map(StatusCode::from_u16);
            let Ok(Ok(known)) = known else {
                let what = format!("`{status}` is not an HTTP status: write 200 to 999");
                return Err(field.malformed(what));
            };
            Ok(known)
        }
    }
}

/// Jetty writes the number as the reason of a status that has none.
fn number_as_reason(status: StatusCode) -> Option<ReasonPhrase> {
    let number = status.as_str().as_bytes();
    let is_known = status.canonical_reason().is_some();
    ReasonPhrase::try_from(number).ok().filter(|_| !is_known)
}

fn reason_phrase(node: &Node<'_>) -> Result<ReasonPhrase, Problem> {
    latin_1(node.text()?)
        .and_then(|bytes| ReasonPhrase::try_from(bytes).ok())
        .ok_or_else(|| node.malformed("a status message is one line of ISO 8859-1"))
}

/// The bytes of a text in ISO 8859-1, if it has them.
fn latin_1(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|char| u8::try_from(char).ok()).collect()
}

/// Clean a text that a client had a say in as Jetty does: what is no byte of ISO 8859-1, or would
/// break the line, is a space.
pub(crate) fn sanitised(text: &str) -> HeaderValue {
    let bytes: Vec<u8> = text
        .chars()
        .map(|char| {
            u8::try_from(char)
                .ok()
                .filter(|byte| matches!(byte, b'\t' | b' '..=b'~' | 0x80..))
                .unwrap_or(b' ')
        })
        .collect();
    HeaderValue::from_maybe_shared(Bytes::from(bytes)).unwrap_or(HeaderValue::from_static(""))
}

/// The delays of one stub, or of the settings of all.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Delays {
    /// `fixedDelayMilliseconds` of a stub, `fixedDelay` of the settings.
    fixed: Option<Duration>,
    /// `delayDistribution`.
    random: Option<Latency>,
}

impl Delays {
    /// Reads the settings, `{"fixedDelay":500,"delayDistribution":{..}}`. `extended` and
    /// `proxyPassThrough`, which are about what is not served here, may be there.
    pub(crate) fn of_settings(node: &Node<'_>) -> Result<Self, Problem> {
        let known = "fixedDelay delayDistribution extended proxyPassThrough";
        node.only(known, &[])?;
        Self::read(node, "fixedDelay")
    }

    fn read(node: &Node<'_>, fixed: &str) -> Result<Self, Problem> {
        Ok(Self {
            fixed: node.read(fixed, delay)?,
            random: node.read("delayDistribution", distribution)?,
        })
    }

    /// Draw from `latency`, and from no other distribution.
    pub(crate) fn follow(&mut self, latency: Latency) {
        self.random = Some(latency);
    }

    /// Return how long an answer is held: both parts together, each from `settings` if it is not
    /// the stub's. At most two [`MAX_HOLD`].
    pub(crate) fn hold(&self, settings: &Self, seed: u64, ordinal: u64) -> Duration {
        let random = self.random.as_ref().or(settings.random.as_ref());
        self.fixed.or(settings.fixed).unwrap_or_default()
            + random.map_or(Duration::ZERO, |random| {
                random.drawn(ordinal, || Draws::new(Stream::Stub, seed, ordinal))
            })
    }
}

/// A delay in whole milliseconds, up to an hour.
fn delay(node: &Node<'_>) -> Result<Duration, Problem> {
    let delay = Duration::from_millis(node.to()?);
    if delay > MAX_HOLD {
        return Err(node.malformed("a delay is an hour at most"));
    }
    Ok(delay)
}

/// Milliseconds as a latency is written.
fn time(node: &Node<'_>, key: &str) -> Result<String, Problem> {
    let milliseconds: f64 = node.need(key, Node::to)?;
    Ok(format!("{:.0}us", milliseconds * 1000.0))
}

/// A `delayDistribution`, as the latency that has the same one. WireMock draws again what is above
/// the maximum of a log-normal one, here it is cut to it.
fn distribution(node: &Node<'_>) -> Result<Latency, Problem> {
    node.only("type lower upper milliseconds median sigma maxValue", &[])?;

    let text = match node.need("type", Node::text)? {
        "uniform" => format!("uniform:{},{}", time(node, "lower")?, time(node, "upper")?),
        "fixed" => format!("fixed:{}", time(node, "milliseconds")?),
        "lognormal" => {
            let sigma: f64 = node.need("sigma", Node::to)?;
            let max = node
                .get("maxValue")
                .map_or(Ok("1h".to_owned()), |_| time(node, "maxValue"))?;
            format!("lognormal:{},{sigma},{max}", time(node, "median")?)
        }
        _ => return Err(node.malformed("the type is lognormal, uniform or fixed")),
    };
    latency_of(node, &text)
}

/// A model of `--latency`.
pub(crate) fn latency_of(node: &Node<'_>, text: &str) -> Result<Latency, Problem> {
    text.parse()
        .map_err(|error: SettingError| node.malformed(error.to_string()))
}

/// In how many pieces a body is sent, and over what time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dribble {
    pub(crate) pieces: NonZeroUsize,
    pub(crate) total: Duration,
}

impl Dribble {
    /// Reads `{"numberOfChunks":5,"totalDuration":1000}`.
    fn read(node: &Node<'_>) -> Result<Self, Problem> {
        node.only("numberOfChunks totalDuration", &[])?;
        Ok(Self {
            pieces: node.need("numberOfChunks", Node::to)?,
            total: node.need("totalDuration", delay)?,
        })
    }
}

/// Bodies by their names, in base 64, or why they cannot be had.
pub(crate) type Bodies = BTreeMap<String, Result<String, String>>;

/// Source of body files: WireMock's `__files`, next to `mappings`. They are read when stubs are
/// loaded or added, never by a request for a stub.
#[derive(Clone, Debug)]
pub(crate) enum Files {
    /// Nowhere, as for stubs that come without a folder.
    None,
    /// In this folder, which need not exist until a stub names a file.
    Under(PathBuf),
    /// Read before, so that all processes have the same.
    Read(Bodies),
}

impl Files {
    /// Read the body files that stubs name.
    pub(crate) fn bodies<'s>(&self, stubs: impl Iterator<Item = &'s Value>) -> Bodies {
        stubs
            .filter_map(|stub| stub["response"]["bodyFileName"].as_str())
            .map(|name| {
                let body = self.read(name).map(|bytes| BASE64.encode(bytes));
                (name.to_owned(), body)
            })
            .collect()
    }

    /// The content of the file `name`, a path in the folder with `/` between its parts. A `/` in
    /// front means the folder itself, as it does for WireMock. Nothing from outside that folder is
    /// handed out, whatever a stub names.
    fn read(&self, name: &str) -> Result<Bytes, String> {
        let root = match self {
            Self::Under(root) => root,
            Self::Read(bodies) => {
                let body = bodies
                    .get(name)
                    .cloned()
                    .unwrap_or_else(|| Err(format!("`{name}` was not read")))?;
                let bytes = BASE64.decode(body).map_err(|error| error.to_string())?;
                return Ok(bytes.into());
            }
            Self::None => return Err(format!("there is no folder of body files for `{name}`")),
        };
        let relative = Path::new(name.trim_start_matches('/'));
        let mut parts = relative.components();
        let stays = parts.all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        let read = if stays {
            within(root, relative)
        } else {
            Ok(None)
        };
        match read {
            Ok(None) => Err(format!("`{name}` is outside the folder of body files")),
            Ok(Some(bytes)) => Ok(bytes.into()),
            Err(error) => Err(format!("the body file `{name}` cannot be read: {error}")),
        }
    }
}

/// The content of a file below a folder; none if a link leads out of it.
fn within(root: &Path, relative: &Path) -> io::Result<Option<Vec<u8>>> {
    // Links are followed before the comparison, so one that leads out is seen to do so.
    let real = root.join(relative).canonicalize()?;
    if !real.starts_with(root.canonicalize()?) {
        return Ok(None);
    }
    if !real.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    std::fs::read(real).map(Some)
}

#[cfg(test)]
mod tests;
