//! Parts of a request other than its URL: method, headers and body, with places for the ID.

use std::borrow::Cow;
use std::hash::{Hash, Hasher};

use bytes::Bytes;
use http::header::{
    ACCEPT, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName, HeaderValue,
    TRANSFER_ENCODING, USER_AGENT,
};
use http::{HeaderMap, Method};

use super::redact;
use super::template::PLACE;
use super::values::{Context, Values};
use crate::ids::IdFormat;

/// Shortest word of a header or body that is removed from what reports repeat, bytes.
pub(crate) const SHORTEST_WORD: usize = 6;

/// Default `User-Agent`.
const USER_AGENT_VALUE: &str = concat!("crawlmark/", env!("CARGO_PKG_VERSION"));

/// Parts of a request other than its URL: those of every request of a crawl, or of a line of a
/// request file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RequestShape {
    pub(crate) method: Method,
    /// True if a `Host` was typed; it is one of the headers.
    pub(crate) has_host: bool,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: Bytes,
    /// True if the body has places for the ID. Its length is then no header of the shape.
    has_id_in_body: bool,
    framing: Framing,
    /// True if the value of a header has places for the ID.
    pub(crate) has_id_in_headers: bool,
    /// Text of IDs; none for plain numbers.
    pub(crate) id_format: Option<IdFormat>,
    /// Texts beside headers and body that reports must not repeat.
    withheld: Vec<String>,
}

/// Framing of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Framing {
    Plain,
    /// One message of gRPC. Its prefix is part of the body, but for one with places for the ID.
    Message,
}

/// Bytes before a message of gRPC: a flag, which is 1 if it is compressed, and its length.
pub(crate) const MESSAGE_PREFIX: usize = 5;

/// Return the prefix of a message of so many bytes that is not compressed. A body of 4 GiB is no
/// message.
fn message_prefix(length: usize) -> [u8; MESSAGE_PREFIX] {
    let [a, b, c, d] = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    [0, a, b, c, d]
}

/// Reason why a request cannot be made, which begins with the flag.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ShapeError(String);

/// Meaning of `{id}` in a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Text {
    /// Its place.
    Template,
    /// Itself.
    Literal,
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
        Self::build(map, method, headers, body, Text::Template)
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
        let body = body.unwrap_or_else(|| self.body.slice(self.prefix_bytes()..));
        self.own_with(method, headers, body, Text::Template)
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
        let own = self.own_with(method, headers, body, Text::Literal)?;
        Ok(Self {
            has_id_in_headers: self.has_id_in_headers,
            ..own
        })
    }

    fn own_with(
        &self,
        method: Option<&str>,
        headers: &[String],
        body: Bytes,
        text: Text,
    ) -> Result<Self, ShapeError> {
        let mut map: HeaderMap = self.headers.iter().cloned().collect();
        map.remove(CONTENT_LENGTH);
        let method = method.unwrap_or(self.method.as_str());
        // What this one withholds, it withholds itself.
        let own = Self::build(map, method, headers, body, text)?.with_ids(self.id_format);
        Ok(if self.framing == Framing::Message {
            own.as_message()
        } else {
            own
        })
    }

    /// Make a shape: headers as typed replace those of `map`.
    fn build(
        mut map: HeaderMap,
        method: &str,
        headers: &[String],
        body: Bytes,
        text: Text,
    ) -> Result<Self, ShapeError> {
        let method = self::method(method)?;
        let has_id_in_body = text == Text::Template && places(&body).next().is_some();
        // RFC 9110, 8.6: also of no body, where the method expects one.
        let expects_body = matches!(method, Method::POST | Method::PUT | Method::PATCH);
        if !has_id_in_body && (expects_body || !body.is_empty()) {
            map.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        }
        let typed: Vec<_> = headers
            .iter()
            .map(|text| header(text))
            .collect::<Result<_, _>>()?;
        if typed.iter().filter(|(name, _)| *name == HOST).count() > 1 {
            return Err(ShapeError(
                "--header Host is given twice: keep one of them".to_owned(),
            ));
        }
        for (name, _) in &typed {
            map.remove(name);
        }
        for (name, value) in typed {
            map.append(name, value);
        }
        Ok(Self {
            method,
            has_host: map.contains_key(HOST),
            has_id_in_headers: map
                .values()
                .any(|value| places(value.as_bytes()).next().is_some()),
            headers: map
                .iter()
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            body,
            has_id_in_body,
            framing: Framing::Plain,
            id_format: None,
            withheld: Vec::new(),
        })
    }

    /// Hash what is asked for, without secrets and the name of this client.
    pub(super) fn hash_content(&self, to: &mut impl Hasher) {
        self.method.hash(to);
        for (name, value) in self.headers.iter().filter(|(name, _)| *name != USER_AGENT) {
            name.hash(to);
            if !redact::is_secret(name.as_str()) {
                value.hash(to);
            }
        }
        self.body.hash(to);
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

    /// Send the body as one message of gRPC.
    #[must_use]
    pub fn as_message(mut self) -> Self {
        self.headers.retain(|(name, _)| *name != CONTENT_LENGTH);
        if !self.has_id_in_body {
            self.body = [&message_prefix(self.body.len()), &*self.body]
                .concat()
                .into();
        }
        self.framing = Framing::Message;
        self
    }

    /// Bytes before the body's own: the prefix of a message.
    fn prefix_bytes(&self) -> usize {
        if self.framing == Framing::Message && !self.has_id_in_body {
            MESSAGE_PREFIX
        } else {
            0
        }
    }

    /// Return the shape with an ID and values in the places of its headers and body, as the content
    /// type of the body needs them.
    ///
    /// # Errors
    /// With the name of a header that cannot hold its value.
    pub(crate) fn filled(&self, id: &str, values: &Values) -> Result<Self, HeaderName> {
        let body = &self.body[self.prefix_bytes()..];
        let context = match self.framing {
            Framing::Plain => {
                let content_type = self.values(&CONTENT_TYPE).next().map(HeaderValue::as_bytes);
                Context::of_body(content_type, || values.bare(body))
            }
            Framing::Message => Context::Text,
        };
        let body = Bytes::from(values.fill(body, id, context));
        let length = HeaderValue::from(body.len());
        let mut headers = Vec::with_capacity(self.headers.len() + 1);
        for (name, value) in &self.headers {
            let value = if *name == CONTENT_LENGTH {
                length.clone()
            } else {
                let filled = values.fill(value.as_bytes(), id, Context::Text);
                HeaderValue::from_bytes(&filled).map_err(|_| name.clone())?
            };
            headers.push((name.clone(), value));
        }
        if self.has_id_in_body {
            headers.push((CONTENT_LENGTH, length));
        }
        let filled = Self {
            headers,
            body,
            has_id_in_body: false,
            has_id_in_headers: false,
            method: self.method.clone(),
            withheld: self.withheld.clone(),
            framing: Framing::Plain,
            ..*self
        };
        Ok(match self.framing {
            Framing::Plain => filled,
            Framing::Message => filled.as_message(),
        })
    }

    /// True if the body or a header has a place for the ID.
    #[must_use]
    pub const fn has_id(&self) -> bool {
        self.has_id_in_body || self.has_id_in_headers
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

    /// Append a text with `id` in its places.
    pub(crate) fn write_with_id(&self, text: &[u8], id: u64, output: &mut Vec<u8>) {
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
        if self.framing == Framing::Message {
            body.extend_from_slice(&message_prefix(0));
        }
        self.write_with_id(&self.body, id, &mut body);
        if self.framing == Framing::Message {
            let prefix = message_prefix(body.len() - MESSAGE_PREFIX);
            body[..MESSAGE_PREFIX].copy_from_slice(&prefix);
        }
        body.into()
    }

    /// Return the length of a body that no header of the shape holds: one with a place for the ID.
    pub(crate) fn length_of(&self, body: &Bytes) -> Option<HeaderValue> {
        let is_missing = self.has_id_in_body && self.framing == Framing::Plain;
        is_missing.then(|| HeaderValue::from(body.len()))
    }

    /// The values of a header.
    pub(crate) fn values(&self, name: &HeaderName) -> impl Iterator<Item = &HeaderValue> {
        self.headers
            .iter()
            .filter(move |(other, _)| other == name)
            .map(|(_, value)| value)
    }

    /// The names of the headers. Values may be secrets.
    #[must_use]
    pub fn header_names(&self) -> Vec<&str> {
        let of_url = (!self.has_host).then_some(HOST.as_str());
        of_url
            .into_iter()
            .chain(self.headers.iter().map(|(name, _)| name.as_str()))
            .collect()
    }

    /// Return the name of this client, as robots.txt has it: the product in its `User-Agent`.
    #[must_use]
    pub fn product(&self) -> &str {
        let agent = self
            .values(&USER_AGENT)
            .next()
            .and_then(|agent| agent.to_str().ok())
            .unwrap_or_default();
        agent
            .split(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_'))
            .next()
            .unwrap_or_default()
    }

    /// Return what reports must not repeat: the values of its headers, but for the default
    /// `User-Agent`, its body, and texts to withhold.
    pub(crate) fn texts(&self) -> Vec<Cow<'_, str>> {
        let values = self
            .headers
            .iter()
            .filter(|(_, value)| *value != USER_AGENT_VALUE)
            .map(|(_, value)| value.as_bytes());
        let withheld = self.withheld.iter().map(String::as_bytes);
        values
            .chain([&self.body[self.prefix_bytes()..]])
            .chain(withheld)
            .map(String::from_utf8_lossy)
            .collect()
    }

    /// Return the parts of credentials that are shorter than the words that are removed from
    /// excerpts, but no mere punctuation.
    pub(crate) fn short_secrets(&self) -> impl Iterator<Item = &str> {
        self.withheld
            .iter()
            .map(String::as_str)
            .filter(|text| text.len() < SHORTEST_WORD && text.contains(char::is_alphanumeric))
    }
}

fn method(text: &str) -> Result<Method, ShapeError> {
    match Method::from_bytes(text.as_bytes()) {
        Ok(Method::CONNECT) => Err(ShapeError(format!(
            "--method {text} cannot be used for a crawl: use GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS"
        ))),
        Ok(method) => Ok(method),
        Err(_) => Err(ShapeError(format!(
            "--method {text} is not an HTTP method: write letters, as in GET"
        ))),
    }
}

/// Positions of the places for the ID in a body.
fn places(body: &[u8]) -> impl Iterator<Item = usize> + '_ {
    body.windows(PLACE.len())
        .enumerate()
        .filter(|(_, part)| *part == PLACE.as_bytes())
        .map(|(at, _)| at)
}

/// Parse a header as typed. Its value may be a secret, and without a colon all of it.
fn header(text: &str) -> Result<(HeaderName, HeaderValue), ShapeError> {
    let Some((name, value)) = text.split_once(':') else {
        return Err(ShapeError(
            "--header has no colon (its text is not shown): write `name: value`".to_owned(),
        ));
    };
    let name = HeaderName::from_bytes(name.trim().as_bytes()).ok();
    let value = HeaderValue::from_str(value.trim()).ok();
    match name.zip(value) {
        Some((CONNECTION, _)) => Err(ShapeError(
            "--header connection is set by crawlmark itself: use --disable-keepalive for a connection of its own for each request, or remove it"
                .to_owned(),
        )),
        Some((name, _)) if [CONTENT_LENGTH, TRANSFER_ENCODING].contains(&name) => {
            Err(ShapeError(format!(
                "--header {name} is set by crawlmark itself: remove it"
            )))
        }
        Some(header) => Ok(header),
        None => Err(ShapeError(format!(
            "--header `{}` cannot be sent (its value is not shown): write it on one line, as `name: value`",
            redact::header(text)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_its_own_length_and_lines_inherit_the_framing() {
        let shape = |body: &'static str| {
            let shape = RequestShape::new("POST", &[], Bytes::from(body)).unwrap();
            shape.as_message()
        };
        let line = |shape: &RequestShape, body: Option<&'static str>| {
            shape.own(None, &[], body.map(Bytes::from)).unwrap()
        };
        for (shape, id, sent) in [
            (shape("ab"), 7, &b"\0\0\0\0\x02ab"[..]),
            (shape(""), 7, b"\0\0\0\0\0"),
            (shape("<{id}>"), 123, b"\0\0\0\0\x05<123>"),
            (line(&shape("ab"), None), 7, b"\0\0\0\0\x02ab"),
            (line(&shape("ab"), Some("c")), 7, b"\0\0\0\0\x01c"),
            (line(&shape("<{id}>"), None), 5, b"\0\0\0\0\x03<5>"),
            (line(&shape("ab"), Some("{id}")), 10, b"\0\0\0\0\x0210"),
        ] {
            let body = shape.body(id);
            assert_eq!(body, sent, "{shape:?}");
            assert_eq!(shape.length_of(&body), None);
            assert!(shape.values(&CONTENT_LENGTH).next().is_none());
        }
        assert!(shape("secret").texts().contains(&Cow::from("secret")));
    }
}
