//! The headers of a stub's answer.
//!
//! They are sent as ISO 8859-1, as WireMock's server (Jetty) sends them.

use super::Templates;
use super::body::Body;
use crate::draw::Draws;
use crate::stubs::node::{Node, Problem};
use crate::stubs::template::{Failed, Occasion, Template};
use bytes::Bytes;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, TRANSFER_ENCODING};
use serde_json::Value;
use std::borrow::Cow;

/// All headers in order.
#[derive(Clone, Debug)]
pub(super) enum Headers {
    /// Same for all requests.
    Static(Vec<(HeaderName, HeaderValue)>),
    /// Some are made for each request.
    Templated(Vec<(HeaderName, Text)>),
}

/// The value of one header.
#[derive(Clone, Debug)]
pub(super) enum Text {
    Static(HeaderValue),
    Templated(Template),
}

impl Headers {
    /// Reads `{"Name":"value","Other":["one","two"]}`. Framing is left to the server: a
    /// `Transfer-Encoding` of chunks and the true `Content-Length` of `body` are taken out, other
    /// lengths of a body are refused.
    pub(super) fn read(
        node: Option<&Node<'_>>,
        templates: &Templates<'_>,
        body: &Body,
    ) -> Result<Self, Problem> {
        let mut all = Vec::new();
        if let Some(node) = node {
            for (name, field) in node.fields()? {
                let known = HeaderName::from_bytes(name.as_bytes())
                    .map_err(|_| field.malformed(format!("`{name}` is not a valid header name")))?;
                let is_empty = field.value().as_array().is_some_and(Vec::is_empty);
                if is_empty {
                    return Err(
                        field.malformed("a header without a value: write \"\" for an empty one")
                    );
                }
                let mut values: Vec<_> = if field.value().is_array() {
                    field.elements()?.collect()
                } else {
                    vec![field]
                };
                if known == CONTENT_TYPE {
                    // Jetty keeps the last of several.
                    values.drain(..values.len() - 1);
                }
                for value in values {
                    let text = Text::read(&value, templates)?;
                    if !is_framing(&known, &text, body).map_err(|what| value.unsupported(what))? {
                        all.push((known.clone(), text));
                    }
                }
            }
        }
        Ok(Self::settled(all))
    }

    fn settled(all: Vec<(HeaderName, Text)>) -> Self {
        let fixed = all.iter().map(|(name, text)| match text {
            Text::Static(value) => Some((name.clone(), value.clone())),
            Text::Templated(_) => None,
        });
        match fixed.collect() {
            Some(fixed) => Self::Static(fixed),
            None => Self::Templated(all),
        }
    }

    pub(super) fn render(
        &self,
        occasion: &Occasion<'_>,
        draws: &mut Draws,
    ) -> Result<Cow<'_, [(HeaderName, HeaderValue)]>, Failed> {
        match self {
            Self::Static(all) => Ok(Cow::Borrowed(all)),
            Self::Templated(all) => {
                let rendered = all
                    .iter()
                    .map(|(name, text)| Ok((name.clone(), text.render(occasion, draws)?)));
                rendered.collect::<Result<Vec<_>, Failed>>().map(Cow::Owned)
            }
        }
    }
}

impl Text {
    fn read(node: &Node<'_>, templates: &Templates<'_>) -> Result<Self, Problem> {
        let text = match node.value() {
            // WireMock reads these as if they were not there, and says nothing.
            other @ (Value::Number(_) | Value::Bool(_)) => {
                return Err(node.malformed(format!("a header is a text: write \"{other}\"")));
            }
            _ => node.text()?,
        };
        if let Templates::On(parameters) = templates {
            let template =
                Template::compile(text, *parameters).map_err(|what| node.problem(what))?;
            return match template.constant() {
                Some(text) => Self::fixed(node, text),
                None => Ok(Self::Templated(template)),
            };
        }
        Self::fixed(node, text)
    }

    fn fixed(node: &Node<'_>, text: &str) -> Result<Self, Problem> {
        latin_1(text)
            .and_then(|bytes| HeaderValue::from_maybe_shared(Bytes::from(bytes)).ok())
            .map(Self::Static)
            .ok_or_else(|| node.malformed("a header is one line of ISO 8859-1"))
    }

    fn render(&self, occasion: &Occasion<'_>, draws: &mut Draws) -> Result<HeaderValue, Failed> {
        match self {
            Self::Static(value) => Ok(value.clone()),
            Self::Templated(template) => Ok(sanitised(&template.render(occasion, draws)?)),
        }
    }
}

/// True if a header is about how the body is framed, and says nothing but what the server does
/// anyway.
fn is_framing(name: &HeaderName, text: &Text, body: &Body) -> Result<bool, String> {
    let value = match text {
        Text::Static(value) => value.to_str().ok(),
        Text::Templated(_) => None,
    };
    match *name {
        TRANSFER_ENCODING if value.is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) => {
            return Ok(true);
        }
        CONTENT_LENGTH => {
            let length = value.and_then(|length| length.parse::<usize>().ok());
            if let (Some(length), Body::Static(body)) = (length, body) {
                if length == body.len() {
                    return Ok(true);
                }
                // The answer to HEAD has the length of a body that is not sent.
                if body.is_empty() {
                    return Ok(false);
                }
            }
        }
        TRANSFER_ENCODING => {}
        _ => return Ok(false),
    }
    Err(format!("a {name} other than the body's own"))
}

/// The bytes of a text in ISO 8859-1, if it has them.
pub(super) fn latin_1(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|char| u8::try_from(char).ok()).collect()
}

/// Clean a text that a client had a say in as Jetty does: what is no byte of ISO 8859-1, or would
/// break the line, is a space.
pub(crate) fn sanitised(text: &str) -> HeaderValue {
    let byte = |char| {
        u8::try_from(char)
            .ok()
            .filter(|byte| matches!(byte, b'\t' | b' '..=b'~' | 0x80..))
            .unwrap_or(b' ')
    };
    let bytes: Vec<u8> = text.chars().map(byte).collect();
    HeaderValue::from_maybe_shared(Bytes::from(bytes)).unwrap_or(HeaderValue::from_static(""))
}
