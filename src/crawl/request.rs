//! The request of an item: a fresh path per ID, everything else shared. The hot path: bytes are
//! copied into the buffer of a connection, and nothing is allocated.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    ACCEPT, CONNECTION, CONTENT_LENGTH, HOST, HeaderName, HeaderValue, TRANSFER_ENCODING,
    USER_AGENT,
};
use http::{HeaderMap, Method};

use super::ids::IdFormat;
use super::proxy::Absolute;
use super::redirects::Chain;
use super::reuse::After;
use super::targets::{RequestTarget, Targets};
use super::template::PLACE;
use super::{excerpt, redact};

/// Default `User-Agent`.
const USER_AGENT_VALUE: &str = concat!("crawlmark/", env!("CARGO_PKG_VERSION"));

/// Longest body that is copied after its head: one write of a joined buffer costs less than two
/// writes.
const FLAT_BODY_BYTES: usize = 16 << 10;

/// Parts of a request other than its URL: those of every request of a crawl, or of a line of a
/// request file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RequestShape {
    method: Method,
    host_header: HostHeader,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Bytes,
    /// True if the body has places for the ID. Its length is then no header of the shape.
    has_id_in_body: bool,
    /// True if the value of a header has places for the ID.
    has_id_in_headers: bool,
    /// Text of IDs; none for plain numbers.
    id_format: Option<IdFormat>,
    /// Texts beside headers and body that reports must not repeat.
    withheld: Vec<String>,
}

/// Source of the `Host` header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum HostHeader {
    /// The host of the URL.
    OfUrl,
    /// A `Host` header that was typed; it is one of the headers.
    Typed,
}

/// Reason why a request cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// Not a method.
    #[error("--method {0} is not an HTTP method: write letters, as in GET")]
    Method(String),
    /// A method that HTTP/1.1 clients may not use for items.
    #[error(
        "--method {0} cannot be used for a crawl: use GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS"
    )]
    Unsupported(String),
    /// Not `name: value`.
    #[error(
        "--header `{0}` cannot be sent (its value is not shown): write it on one line, as `name: value`"
    )]
    Header(String),
    /// No colon, so that its name cannot be told from its value.
    #[error("--header has no colon (its text is not shown): write `name: value`")]
    NoColon,
    /// More than one `Host`.
    #[error("--header Host is given twice: keep one of them")]
    TwoHosts,
    /// A header that frames the message.
    #[error("--header {0} is set by crawlmark itself: remove it")]
    Framing(HeaderName),
}

impl RequestShape {
    /// Requests with headers as typed (`name: value`) and a body, which may have places for the ID.
    ///
    /// # Errors
    /// When the method or a header is no such thing, or is not the caller's to choose.
    pub fn new(method: &str, headers: &[String], body: Bytes) -> Result<Self, ShapeError> {
        let mut map = HeaderMap::new();
        map.insert(USER_AGENT, HeaderValue::from_static(USER_AGENT_VALUE));
        map.insert(ACCEPT, HeaderValue::from_static("*/*"));
        let (id_format, withheld) = (None, Vec::new());
        Self::build(
            map,
            self::method(method)?,
            headers,
            Self {
                id_format,
                withheld,
                ..Self::with_body(body)
            },
        )
    }

    /// Return the shape of a request with a method, headers (`name: value`) and a body of its own;
    /// the rest is as in this one.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn own(
        &self,
        method: Option<&str>,
        headers: &[String],
        body: Option<Bytes>,
    ) -> Result<Self, ShapeError> {
        self.own_with(
            method,
            headers,
            Self::with_body(body.unwrap_or_else(|| self.body.clone())),
        )
    }

    /// Return the shape of a recorded request, as [`Self::own`]: `{id}` in what was recorded is
    /// text.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn recorded(
        &self,
        method: Option<&str>,
        headers: &[String],
        body: Option<Bytes>,
    ) -> Result<Self, ShapeError> {
        let Some(body) = body else {
            return self.own(method, headers, None);
        };
        let own = self.own_with(
            method,
            headers,
            Self {
                has_id_in_body: false,
                ..Self::with_body(body)
            },
        )?;
        Ok(Self {
            has_id_in_headers: self.has_id_in_headers,
            ..own
        })
    }

    fn own_with(
        &self,
        method: Option<&str>,
        headers: &[String],
        shape: Self,
    ) -> Result<Self, ShapeError> {
        let mut map: HeaderMap = self.headers.iter().cloned().collect();
        map.remove(CONTENT_LENGTH);
        let method = method.map_or_else(|| Ok(self.method.clone()), self::method)?;
        // What this one withholds, it withholds itself.
        Self::build(
            map,
            method,
            headers,
            Self {
                id_format: self.id_format,
                ..shape
            },
        )
    }

    fn with_body(body: Bytes) -> Self {
        let has_id_in_body = places(&body).next().is_some();
        let (method, headers, withheld) = (Method::GET, Vec::new(), Vec::new());
        let (host_header, has_id_in_headers, id_format) = (HostHeader::OfUrl, false, None);
        Self {
            method,
            host_header,
            headers,
            body,
            has_id_in_body,
            has_id_in_headers,
            id_format,
            withheld,
        }
    }

    /// Complete `shape`: headers as typed replace those of `map`.
    fn build(
        mut map: HeaderMap,
        method: Method,
        headers: &[String],
        shape: Self,
    ) -> Result<Self, ShapeError> {
        // RFC 9110, 8.6: also of no body, where the method expects one.
        let expects_body = matches!(method, Method::POST | Method::PUT | Method::PATCH);
        if !shape.has_id_in_body && (expects_body || !shape.body.is_empty()) {
            map.insert(CONTENT_LENGTH, HeaderValue::from(shape.body.len()));
        }
        let typed: Vec<_> = headers
            .iter()
            .map(|text| header(text))
            .collect::<Result<_, _>>()?;
        if typed.iter().filter(|(name, _)| *name == HOST).count() > 1 {
            return Err(ShapeError::TwoHosts);
        }
        for (name, _) in &typed {
            map.remove(name);
        }
        for (name, value) in typed {
            map.append(name, value);
        }
        let host_header = if map.contains_key(HOST) {
            HostHeader::Typed
        } else {
            HostHeader::OfUrl
        };
        let headers = map
            .iter()
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let has_id_in_headers = map
            .values()
            .any(|value| places(value.as_bytes()).next().is_some());
        Ok(Self {
            method,
            host_header,
            headers,
            has_id_in_headers,
            ..shape
        })
    }

    /// Add texts that reports must not repeat: parts of credentials.
    #[must_use]
    pub fn withholding<'a>(mut self, texts: impl Iterator<Item = &'a str>) -> Self {
        self.withheld.extend(texts.map(str::to_owned));
        self
    }

    /// Set the text of IDs.
    #[must_use]
    pub fn with_ids(self, id_format: Option<IdFormat>) -> Self {
        Self { id_format, ..self }
    }

    /// True if the body or a header has a place for the ID.
    #[must_use]
    pub const fn has_id(&self) -> bool {
        self.has_id_in_body || self.has_id_in_headers
    }

    /// True if a header has a place for the ID.
    pub(super) const fn has_id_in_headers(&self) -> bool {
        self.has_id_in_headers
    }

    /// Length of the body, bytes.
    #[must_use]
    pub const fn body_bytes(&self) -> usize {
        self.body.len()
    }

    /// The method.
    #[must_use]
    pub const fn method(&self) -> &Method {
        &self.method
    }

    /// Append the path of the request for item `id`, whose target is given.
    pub(super) fn write_path(&self, target: &RequestTarget<'_>, id: u64, output: &mut Vec<u8>) {
        output.extend_from_slice(target.before.as_bytes());
        if let Some(after) = target.after {
            IdFormat::write_or_plain(self.id_format, id, output);
            output.extend_from_slice(after.as_bytes());
        }
    }

    /// Append a text with `id` in its places.
    fn write_with_id(&self, text: &[u8], id: u64, output: &mut Vec<u8>) {
        let mut end = 0;
        for at in places(text) {
            output.extend_from_slice(&text[end..at]);
            IdFormat::write_or_plain(self.id_format, id, output);
            end = at + PLACE.len();
        }
        output.extend_from_slice(&text[end..]);
    }

    /// Return the body of the request for item `id`. Allocates only if that has a place for the ID.
    pub(crate) fn body(&self, id: u64) -> Bytes {
        if !self.has_id_in_body {
            return self.body.clone();
        }
        let mut body = Vec::with_capacity(self.body.len() + 20);
        self.write_with_id(&self.body, id, &mut body);
        body.into()
    }

    /// Return the length of a body that no header of the shape holds: one with a place for the ID.
    pub(crate) fn length_of(&self, body: &Bytes) -> Option<HeaderValue> {
        self.has_id_in_body.then(|| HeaderValue::from(body.len()))
    }

    /// Return the headers of the request for item `id` that `is_sent` allows, and apart from them
    /// the value of a `Host` that was typed.
    pub(crate) fn fields(
        &self,
        id: u64,
        is_sent: impl Fn(&HeaderName) -> bool,
    ) -> (HeaderMap, Option<HeaderValue>) {
        let sent = self
            .headers
            .iter()
            .filter(|(name, _)| is_sent(name))
            .map(|(name, value)| {
                let mut text = Vec::new();
                if self.has_id_in_headers {
                    self.write_with_id(value.as_bytes(), id, &mut text);
                    // Letters and digits are valid in every value.
                    let replaced = HeaderValue::from_maybe_shared(Bytes::from(text));
                    return (name.clone(), replaced.unwrap_or_else(|_| value.clone()));
                }
                (name.clone(), value.clone())
            });
        let mut headers: HeaderMap = sent.collect();
        let host = headers.remove(HOST);
        (headers, host)
    }

    /// The names of the headers. Values may be secrets.
    #[must_use]
    pub fn header_names(&self) -> Vec<&str> {
        let of_url = (self.host_header == HostHeader::OfUrl).then_some(HOST.as_str());
        of_url
            .into_iter()
            .chain(self.headers.iter().map(|(name, _)| name.as_str()))
            .collect()
    }

    /// Return the name of this client, as robots.txt has it: the product in its `User-Agent`.
    #[must_use]
    pub fn product(&self) -> &str {
        let agent = self
            .headers
            .iter()
            .find(|(name, _)| *name == USER_AGENT)
            .and_then(|(_, agent)| agent.to_str().ok());
        let agent = agent.unwrap_or_default();
        agent
            .split(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_'))
            .next()
            .unwrap_or_default()
    }

    /// Return what reports must not repeat: the values of its headers, but for the default
    /// `User-Agent`, its body, and texts to withhold.
    pub(super) fn texts(&self) -> Vec<Cow<'_, str>> {
        let typed = self
            .headers
            .iter()
            .filter(|(_, value)| *value != USER_AGENT_VALUE);
        let values = typed.map(|(_, value)| value.as_bytes());
        let withheld = self.withheld.iter().map(String::as_bytes);
        values
            .chain([self.body.as_ref()])
            .chain(withheld)
            .map(String::from_utf8_lossy)
            .collect()
    }

    /// Return the parts of credentials that are shorter than the words that are removed from
    /// excerpts, but no mere punctuation.
    pub(super) fn short_secrets(&self) -> impl Iterator<Item = &str> {
        let is_short =
            |text: &&str| text.len() < excerpt::SHORTEST && text.contains(char::is_alphanumeric);
        self.withheld.iter().map(String::as_str).filter(is_short)
    }
}

fn method(text: &str) -> Result<Method, ShapeError> {
    let method =
        Method::from_bytes(text.as_bytes()).map_err(|_| ShapeError::Method(text.to_owned()))?;
    if method == Method::CONNECT {
        Err(ShapeError::Unsupported(method.to_string()))
    } else {
        Ok(method)
    }
}

/// Positions of the places for the ID in a body.
fn places(body: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let is_place = |part: &[u8]| part == PLACE.as_bytes();
    body.windows(PLACE.len())
        .enumerate()
        .filter(move |(_, part)| is_place(part))
        .map(|(at, _)| at)
}

fn header(text: &str) -> Result<(HeaderName, HeaderValue), ShapeError> {
    let bad = || ShapeError::Header(redact::header(text));
    let (name, value) = text.split_once(':').ok_or(ShapeError::NoColon)?;
    let name = HeaderName::from_bytes(name.trim().as_bytes()).map_err(|_| bad())?;
    if [CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION].contains(&name) {
        return Err(ShapeError::Framing(name));
    }
    Ok((
        name,
        HeaderValue::from_str(value.trim()).map_err(|_| bad())?,
    ))
}

/// Writes requests of one shape.
#[derive(Debug)]
pub(super) struct Writer {
    targets: Arc<Targets>,
    /// Shape of the requests of lines without one of their own.
    shape: RequestShape,
    /// Bytes after the path: the end of the request line, and the start of the `Host` header or all
    /// of it.
    after_path: Vec<u8>,
    host_value: HostValue,
    /// Headers after `Host`, the blank line, and the body if that is short.
    end: Vec<u8>,
    /// End of the last request of a connection, with a `Connection` header.
    last_end: Vec<u8>,
    /// Body that is sent from where it is; empty if it is in the ends.
    long_body: Bytes,
    /// Bytes before and after the ID, if all requests but the last of a connection share them:
    /// those of a crawl of one URL template.
    around_id: Option<[Vec<u8>; 2]>,
}

/// Place of the value of the `Host` header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HostValue {
    /// In the bytes that all requests share: it was typed, or there is one host.
    Shared,
    /// Value of the request's target.
    OfTarget,
}

impl Writer {
    pub(super) fn new(shape: &RequestShape, targets: &Arc<Targets>) -> Self {
        let mut headers = Vec::new();
        for (name, value) in &shape.headers {
            headers.extend([b"\r\n", name.as_str().as_bytes(), b": ", value.as_bytes()].concat());
        }
        let (after_path, host_value) = match (shape.host_header, targets.hosts()) {
            (HostHeader::Typed, _) => (b" HTTP/1.1".to_vec(), HostValue::Shared),
            (HostHeader::OfUrl, [host]) => (
                [b" HTTP/1.1\r\nhost: ", host.header().as_bytes()].concat(),
                HostValue::Shared,
            ),
            (HostHeader::OfUrl, _) => (b" HTTP/1.1\r\nhost: ".to_vec(), HostValue::OfTarget),
        };
        let is_long = shape.body.len() > FLAT_BODY_BYTES;
        let (body, long_body) = if is_long {
            (Bytes::new(), shape.body.clone())
        } else {
            (shape.body.clone(), Bytes::new())
        };
        let start = [shape.method.as_str().as_bytes(), b" "].concat();
        let end = [&headers, &b"\r\n\r\n"[..], &body].concat();
        let around_id = targets
            .only()
            .filter(|target| {
                host_value == HostValue::Shared && target.shape.is_none() && !shape.has_id()
            })
            .and_then(|target| {
                let after_id = target.after?.as_bytes();
                Some([
                    [&start[..], target.before.as_bytes()].concat(),
                    [after_id, &after_path, &end].concat(),
                ])
            });
        Self {
            targets: Arc::clone(targets),
            shape: shape.clone(),
            after_path,
            host_value,
            around_id,
            end,
            last_end: [&headers, &b"\r\nconnection: close\r\n\r\n"[..], &body].concat(),
            long_body,
        }
    }

    /// Overwrite `output` with the request for item `id`, or with that of its chain of redirects;
    /// with a `Connection` header if it is the last of its connection, in absolute form for a proxy
    /// that forwards it. Return the part of the body to send after it.
    pub(super) fn write(
        &self,
        (id, chain): (u64, Option<&Chain>),
        after: After,
        (output, absolute): (&mut Vec<u8>, Option<&Absolute>),
    ) -> &[u8] {
        output.clear();
        if let (Some([before, after]), None, After::Keep, None) =
            (&self.around_id, chain, after, absolute)
        {
            output.extend_from_slice(before);
            IdFormat::write_or_plain(self.shape.id_format, id, output);
            output.extend_from_slice(after);
            return &self.long_body;
        }
        let target = self.targets.of(id);
        let shape = target.shape.unwrap_or(&self.shape);
        output.extend_from_slice(
            chain
                .map_or(&shape.method, |chain| &chain.method)
                .as_str()
                .as_bytes(),
        );
        output.push(b' ');
        output.extend_from_slice(absolute.map_or(&[], |absolute| &absolute.origin));
        match chain {
            Some(chain) => output.extend_from_slice(chain.path.as_bytes()),
            None => shape.write_path(&target, id, output),
        }
        if chain.is_some() || target.shape.is_some() || shape.has_id() {
            self.write_rest((shape, target.host), (id, chain), after, (output, absolute));
            return &[];
        }
        output.extend_from_slice(&self.after_path);
        if self.host_value == HostValue::OfTarget {
            output.extend_from_slice(self.targets.hosts()[target.host].header().as_bytes());
        }
        output.extend_from_slice(absolute.map_or(&[], |absolute| &absolute.header));
        output.extend_from_slice(if after == After::Close {
            &self.last_end
        } else {
            &self.end
        });
        &self.long_body
    }

    /// Append what follows the path of a request of its own: `Host` and the other headers of
    /// `shape`, and the body.
    fn write_rest(
        &self,
        (shape, host): (&RequestShape, usize),
        (id, chain): (u64, Option<&Chain>),
        after: After,
        (output, absolute): (&mut Vec<u8>, Option<&Absolute>),
    ) {
        let start_field = |output: &mut Vec<u8>, name: &HeaderName| {
            output.extend_from_slice(b"\r\n");
            output.extend_from_slice(name.as_str().as_bytes());
            output.extend_from_slice(b": ");
        };
        let is_sent = |name: &HeaderName| chain.is_none_or(|chain| chain.sends(name));
        output.extend_from_slice(b" HTTP/1.1");
        if shape.host_header == HostHeader::OfUrl || !is_sent(&HOST) {
            let host = chain.map_or(host, |chain| chain.host);
            start_field(output, &HOST);
            output.extend_from_slice(self.targets.hosts()[host].header().as_bytes());
        }
        output.extend_from_slice(absolute.map_or(&[], |absolute| &absolute.header));
        for (name, value) in shape.headers.iter().filter(|(name, _)| is_sent(name)) {
            start_field(output, name);
            if shape.has_id_in_headers {
                shape.write_with_id(value.as_bytes(), id, output);
            } else {
                output.extend_from_slice(value.as_bytes());
            }
        }
        let body = if is_sent(&CONTENT_LENGTH) {
            shape.body(id)
        } else {
            Bytes::new()
        };
        if let Some(length) = shape.length_of(&body).filter(|_| is_sent(&CONTENT_LENGTH)) {
            start_field(output, &CONTENT_LENGTH);
            output.extend_from_slice(length.as_bytes());
        }
        output.extend_from_slice(if after == After::Close {
            b"\r\nconnection: close"
        } else {
            b""
        });
        output.extend_from_slice(b"\r\n\r\n");
        output.extend_from_slice(&body);
    }
}

#[cfg(test)]
mod tests {
    use super::super::template::Template;
    use super::*;

    fn shape(headers: &[&str], body: &'static str) -> Result<RequestShape, ShapeError> {
        let headers: Vec<String> = headers.iter().map(|&text| text.to_owned()).collect();
        RequestShape::new("GET", &headers, Bytes::from_static(body.as_bytes()))
    }

    fn writer(urls: &[&str], shape: &RequestShape) -> Writer {
        let targets = Targets::collect(urls.iter().map(|url| url.parse::<Template>())).unwrap();
        Writer::new(shape, &Arc::new(targets))
    }

    /// The request for item `id`, as it is sent.
    fn text(writer: &Writer, id: u64, after: After) -> String {
        let mut output = b"the last one".to_vec();
        let rest = writer.write((id, None), after, (&mut output, None));
        String::from_utf8([&output, rest].concat()).unwrap()
    }

    #[test]
    fn a_request_is_the_template_with_the_id_in_it() {
        let shape = shape(&["x-a: 1", "User-Agent: me"], "").unwrap();
        let writer = writer(&["http://h:81/a/{id}?b=1", "http://i/fixed"], &shape);
        for id in [0, 7, u64::MAX] {
            let (path, host) = if id % 2 == 0 {
                (format!("/a/{id}?b=1"), "h:81")
            } else {
                ("/fixed".to_owned(), "i")
            };
            let head = format!(
                "GET {path} HTTP/1.1\r\nhost: {host}\r\naccept: */*\r\nx-a: 1\r\nuser-agent: me\r\n\r\n"
            );
            assert_eq!(text(&writer, id, After::Keep), head);
        }
    }

    #[test]
    fn a_single_template_is_written_as_one_of_several_is() {
        let long = vec![b'x'; FLAT_BODY_BYTES + 1];
        for (headers, body) in [
            (&[][..], Bytes::new()),
            (&["host: other"], Bytes::from("body")),
            (&["a: b"], long.into()),
        ] {
            let headers: Vec<String> = headers.iter().map(|&text: &&str| text.to_owned()).collect();
            let shape = RequestShape::new("POST", &headers, body).unwrap();
            for url in [
                "http://h:81/{id}",
                "http://h/a/{id}/b?c=d",
                "http://h/fixed",
            ] {
                let whole = writer(&[url], &shape);
                assert_eq!(whole.around_id.is_some(), url.contains("{id}"));
                let parts = Writer {
                    around_id: None,
                    ..writer(&[url], &shape)
                };
                for (id, after) in [
                    (0, After::Keep),
                    (10, After::Close),
                    (u64::MAX, After::Keep),
                ] {
                    assert_eq!(text(&whole, id, after), text(&parts, id, after));
                }
            }
        }
    }

    #[test]
    fn an_id_in_a_body_or_a_header_is_replaced_and_counted() {
        let headers = ["x-a: <{id}{id}>", "x-b: {i"];
        let shape = shape(&headers, "{id}-{id}")
            .unwrap()
            .with_ids("width=3".parse().ok());
        for url in ["http://h/a/{id}", "http://h/a"] {
            let request = text(&writer(&[url], &shape), 7, After::Keep);
            assert!(
                request.contains("\r\ncontent-length: 7\r\n")
                    && request.ends_with("\r\n\r\n007-007"),
                "{request}"
            );
            assert!(
                request.contains("\r\nx-a: <007007>\r\nx-b: {i\r\n"),
                "{request}"
            );
        }
        let (fields, _) = shape.fields(7, |name| name != "x-b");
        assert_eq!(
            (&fields["x-a"], fields.get("x-b")),
            (&"<007007>".parse().unwrap(), None)
        );
    }

    #[test]
    fn a_method_that_expects_a_body_says_that_there_is_none() {
        for (method, has_length) in [
            ("POST", true),
            ("PUT", true),
            ("PATCH", true),
            ("GET", false),
            ("DELETE", false),
            ("HEAD", false),
        ] {
            let shape = RequestShape::new(method, &[], Bytes::new()).unwrap();
            let recorded = self::shape(&[], "")
                .unwrap()
                .own(Some(method), &[], None)
                .unwrap();
            for shape in [shape, recorded] {
                let request = text(&writer(&["http://h/"], &shape), 0, After::Keep);
                assert_eq!(
                    request.contains("\r\ncontent-length: 0\r\n"),
                    has_length,
                    "{request}"
                );
            }
        }
    }

    #[test]
    fn an_id_has_its_format() {
        let shape = shape(&[], "").unwrap().with_ids("hex,width=4".parse().ok());
        assert!(
            text(&writer(&["http://h/a/{id}.json"], &shape), 255, After::Keep)
                .starts_with("GET /a/00ff.json HTTP")
        );
    }

    #[test]
    fn a_proxy_gets_the_whole_url_and_its_credentials() {
        let writer = writer(
            &["http://h:81/a/{id}"],
            &shape(&["host: other"], "").unwrap(),
        );
        let header = b"\r\nproxy-authorization: Basic x".to_vec();
        let absolute = Absolute {
            proxy: String::new(),
            origin: b"http://h:81".to_vec(),
            header,
        };
        let mut output = Vec::new();
        writer.write((7, None), After::Keep, (&mut output, Some(&absolute)));
        let sent = String::from_utf8(output).unwrap();
        assert!(
            sent.starts_with("GET http://h:81/a/7 HTTP/1.1\r\n"),
            "{sent}"
        );
        assert_eq!(
            sent.matches("\r\nproxy-authorization: Basic x\r\n").count(),
            1,
            "{sent}"
        );
        assert!(
            sent.contains("\r\nhost: other\r\n") && sent.ends_with("\r\n\r\n"),
            "{sent}"
        );
    }

    #[test]
    fn a_typed_host_is_the_only_one() {
        assert_eq!(
            shape(&["Host: other", "host: two"], "").unwrap_err(),
            ShapeError::TwoHosts
        );
        let shape = shape(&["Host: other"], "").unwrap();
        let request = text(&writer(&["http://h/"], &shape), 0, After::Keep);
        assert_eq!(request.match_indices("host: ").count(), 1);
        assert!(
            request.starts_with("GET / HTTP/1.1\r\n") && request.contains("\r\nhost: other\r\n"),
            "{request}"
        );
        assert_eq!(
            shape
                .header_names()
                .iter()
                .filter(|name| **name == "host")
                .count(),
            1
        );
    }

    #[test]
    fn the_last_request_of_a_connection_says_so() {
        let writer = writer(&["http://h/{id}"], &shape(&[], "body").unwrap());
        assert!(!text(&writer, 0, After::Keep).contains("connection"));
        assert!(
            text(&writer, 0, After::Close)
                .ends_with("content-length: 4\r\nconnection: close\r\n\r\nbody")
        );
    }

    #[test]
    fn a_long_body_is_not_copied() {
        let body = Bytes::from(vec![b'x'; FLAT_BODY_BYTES + 1]);
        for (body, behind) in [(body.slice(1..), 0), (body.clone(), body.len())] {
            let shape = RequestShape::new("POST", &[], body.clone()).unwrap();
            let writer = writer(&["http://h/{id}"], &shape);
            assert_eq!(
                writer
                    .write((0, None), After::Keep, (&mut Vec::new(), None))
                    .len(),
                behind
            );
            assert!(
                text(&writer, 0, After::Keep)
                    .as_bytes()
                    .ends_with(&[b"\r\n\r\n", &body[..]].concat())
            );
        }
    }

    #[test]
    fn what_is_no_header_says_so_without_its_value() {
        let error = |text: &str| shape(&[text], "").unwrap_err().to_string();
        assert!(error("authorization").contains("name: value"));
        assert!(error("content-length: 5").contains("crawlmark itself"));
        for text in [
            "bad name: secret",
            "secret",
            "Bearer\nsecret",
            "x-a: 1\nsecret",
            "x-a\n secret: 2",
        ] {
            assert!(
                !error(text).contains("secret") && !error(text).contains('\n'),
                "{}",
                error(text)
            );
        }
    }
}
