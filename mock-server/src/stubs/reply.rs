//! Response of a stub: the `response` of a mapping, read and checked once when stubs are loaded, so
//! that responding is mostly copying. The server renders it for each request.
//!
//! It must not send or wait, and its random values must stay a function of the given draws.
//!
//! | room | for |
//! |---|---|
//! | `fields`, `json` | values read and written as Jackson does |
//! | `files`, `body`, `headers` | files of bodies, bodies, header fields |
//! | `delay`, `dribble` | delays; bodies in pieces |
//! | `tests` | responses compared with WireMock's |
//!
//! Source: `ResponseDefinition`, `Body`, `StubResponseRenderer` of WireMock 3.13.

mod body;
mod delay;
mod dribble;
mod fields;
mod files;
mod headers;
mod json;

pub(crate) use delay::Delays;
pub(crate) use dribble::Dribble;
pub(crate) use files::Files;

use super::node::{Node, Problem};
use super::template::{Failed, Occasion};
use crate::draw::Draws;
use body::Body;
use bytes::Bytes;
use headers::Headers;
pub(crate) use headers::sanitised;
use hyper::StatusCode;
use hyper::ext::ReasonPhrase;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use serde_json::Value;
use std::borrow::Cow;

/// The one transformer that is served.
const TEMPLATES: &str = "response-template";

const FIELDS: &str = "\
    status statusMessage headers body jsonBody base64Body bodyFileName fixedDelayMilliseconds delayDistribution \
    chunkedDribbleDelay fault transformers transformerParameters fromConfiguredStub proxyBaseUrl \
    proxyUrlPrefixToRemove additionalProxyRequestHeaders removeProxyRequestHeaders";

/// Answer of one stub.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    status: StatusCode,
    reason: Option<ReasonPhrase>,
    headers: Headers,
    body: Body,
    /// Delay of the answer, or of the breakage.
    pub(crate) delays: Delays,
    /// Pieces that the body comes in, if it does.
    pub(crate) dribble: Option<Dribble>,
    /// Breakage of the connection instead of an answer, once it has been held back.
    pub(crate) breakage: Option<Breakage>,
}

/// Breakage of a connection by a stub: `fault`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Breakage {
    /// Reset (RST).
    ConnectionReset,
    /// Closed without a byte.
    EmptyResponse,
    /// After the head of a 200 with chunked encoding come bytes that are no chunk, and it is
    /// closed.
    MalformedChunk,
    /// Bytes that are no HTTP, and the end of the connection.
    RandomDataThenClose,
}

impl Breakage {
    const ALL: [(&'static str, Self); 4] = [
        ("CONNECTION_RESET_BY_PEER", Self::ConnectionReset),
        ("EMPTY_RESPONSE", Self::EmptyResponse),
        ("MALFORMED_RESPONSE_CHUNK", Self::MalformedChunk),
        ("RANDOM_DATA_THEN_CLOSE", Self::RandomDataThenClose),
    ];

    fn read(node: &Node<'_>) -> Result<Self, Problem> {
        let name = node.text()?;
        Self::ALL
            .into_iter()
            .find_map(|(known, breakage)| (known == name).then_some(breakage))
            .ok_or_else(|| {
                let known = Self::ALL.map(|(known, _)| known).join(", ");
                node.malformed(format!(
                    "`{name}` is not a valid fault: write one of {known}"
                ))
            })
    }
}

/// One answer, ready to be sent.
#[derive(Debug)]
pub(crate) struct Rendered<'r> {
    /// 200 to 999.
    pub(crate) status: StatusCode,
    /// The text after the status, if it is not the usual one.
    pub(crate) reason: Option<&'r ReasonPhrase>,
    /// In the order of the stub; a name may come more than once. Neither `Transfer-Encoding` nor
    /// the `Content-Length` of a body is among them: framing is the server's.
    pub(crate) headers: Cow<'r, [(HeaderName, HeaderValue)]>,
    /// The body. Of a reply without templates it is the same memory every time.
    pub(crate) body: Bytes,
}

impl Reply {
    /// Reads the `response` of a stub. Without one, the answer is an empty 200.
    ///
    /// Of several bodies one is taken: `body`, else `jsonBody`, else `base64Body`, else
    /// `bodyFileName`.
    ///
    /// # Errors
    ///
    /// A field is unknown, or its value is not what WireMock's format asks for; a delay is absurd;
    /// a body file is not there; or the answer needs something that is not served here: a proxy,
    /// another transformer, another helper in a template.
    pub(crate) fn read(node: Option<&Node<'_>>, files: &Files) -> Result<Self, Problem> {
        let nothing = Value::Object(serde_json::Map::new());
        let empty = Node::root(&nothing);
        let node = node.unwrap_or(&empty);
        node.only(FIELDS)?;
        refuse_proxies(node)?;
        let templates = Templates::read(node)?;
        let body = Body::read(node, files, &templates)?;
        let status = status(node)?;
        let reason = node
            .get("statusMessage")
            .map(|reason| reason_phrase(&reason))
            .transpose()?;
        Ok(Self {
            status,
            reason: reason.or_else(|| number_as_reason(status)),
            headers: Headers::read(node.get("headers").as_ref(), &templates, &body)?,
            body,
            delays: Delays::of_stub(node)?,
            dribble: node
                .get("chunkedDribbleDelay")
                .map(|dribble| Dribble::read(&dribble))
                .transpose()?,
            breakage: node
                .get("fault")
                .map(|fault| Breakage::read(&fault))
                .transpose()?,
        })
    }

    /// The answer to any request, if none of it is made for each. Nothing is allocated.
    pub(crate) fn ready(&self) -> Option<Rendered<'_>> {
        let (Headers::Static(headers), Body::Static(body)) = (&self.headers, &self.body) else {
            return None;
        };
        let (status, reason) = (self.status, self.reason.as_ref());
        Some(Rendered {
            status,
            reason,
            headers: Cow::Borrowed(headers),
            body: body.clone(),
        })
    }

    /// The answer to one request.
    ///
    /// A template can fail on what a client sends (`math` on what is missing): then the answer is a
    /// 500 that says so, as it is WireMock's.
    pub(crate) fn render(&self, occasion: &Occasion<'_>, draws: &mut Draws) -> Rendered<'_> {
        self.try_render(occasion, draws)
            .unwrap_or_else(|failed| Rendered {
                status: StatusCode::INTERNAL_SERVER_ERROR,
                reason: None,
                headers: Cow::Owned(vec![(CONTENT_TYPE, HeaderValue::from_static("text/plain"))]),
                body: Bytes::from(failed.to_string()),
            })
    }

    fn try_render(
        &self,
        occasion: &Occasion<'_>,
        draws: &mut Draws,
    ) -> Result<Rendered<'_>, Failed> {
        // The body first, then the headers, as WireMock does: the order of the draws is part of the
        // answer.
        let body = self.body.render(occasion, draws)?;
        let headers = self.headers.render(occasion, draws)?;
        Ok(Rendered {
            status: self.status,
            reason: self.reason.as_ref(),
            headers,
            body,
        })
    }
}

/// Treatment of a stub's texts: as templates or not.
#[derive(Clone, Copy, Debug)]
pub(super) enum Templates<'v> {
    /// They are texts.
    Off,
    /// They are templates, with these `transformerParameters`.
    On(Option<&'v Value>),
}

impl<'v> Templates<'v> {
    fn read(node: &Node<'v>) -> Result<Self, Problem> {
        let parameters = node.get("transformerParameters");
        if let Some(parameters) = &parameters {
            let _ = parameters.fields()?;
        }
        let mut on = false;
        if let Some(transformers) = node.get("transformers") {
            for transformer in transformers.elements()? {
                let name = transformer.text()?;
                if name != TEMPLATES {
                    return Err(transformer.unsupported(format!("the transformer `{name}`")));
                }
                on = true;
            }
        }
        Ok(if on {
            Self::On(parameters.map(|parameters| parameters.value()))
        } else {
            Self::Off
        })
    }
}

/// Refuse anything but `null` and emptiness in a field about proxying.
fn refuse_proxies(node: &Node<'_>) -> Result<(), Problem> {
    let names = [
        "proxyBaseUrl",
        "proxyUrlPrefixToRemove",
        "additionalProxyRequestHeaders",
        "removeProxyRequestHeaders",
    ];
    let found = names
        .iter()
        .filter_map(|name| node.get(name))
        .find(|field| !field.is_empty());
    found.map_or(Ok(()), |field| {
        Err(field.unsupported("answering as a proxy"))
    })
}

fn status(node: &Node<'_>) -> Result<StatusCode, Problem> {
    let Some(field) = node.get("status") else {
        return Ok(StatusCode::OK);
    };
    match fields::whole(&field)? {
        ..=0 => Ok(StatusCode::OK),
        status @ 100..=199 => Err(field.unsupported(format!(
            "the status {status}, which announces another response,"
        ))),
        status => u16::try_from(status)
            .ok()
            .and_then(|status| StatusCode::from_u16(status).ok())
            .ok_or_else(|| {
                field.malformed(format!(
                    "`{status}` is not an HTTP status: write 200 to 999"
                ))
            }),
    }
}

/// Return Jetty's text after a status that has no usual one: the status once more.
fn number_as_reason(status: StatusCode) -> Option<ReasonPhrase> {
    if status.canonical_reason().is_some() {
        return None;
    }
    ReasonPhrase::try_from(status.as_str().as_bytes()).ok()
}

fn reason_phrase(node: &Node<'_>) -> Result<ReasonPhrase, Problem> {
    let text = fields::text(node)?;
    headers::latin_1(&text)
        .and_then(|bytes| ReasonPhrase::try_from(bytes).ok())
        .ok_or_else(|| node.malformed("a status message is one line of ISO 8859-1"))
}

#[cfg(test)]
mod tests;
