//! `request.…`: the fields of the request that templates can use.

use super::{Occasion, Value, unsupported};
use crate::stubs::node::ValueProblem;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{HOST, HeaderName};
use percent_encoding::percent_decode_str;
use std::borrow::Cow;

/// A part of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Method,
    Scheme,
    Host,
    Port,
    BaseUrl,
    /// Path and query as they were sent.
    Url,
    Path,
    /// A segment of the path, or a variable in it.
    PathPart(String),
    Query(String, Pick),
    Header(HeaderName, Pick),
    Cookie(String, Pick),
    Body,
    BodyAsBase64,
    ClientIp,
}

/// Choice among several values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pick {
    /// All, written as the first.
    All,
    /// Counted from 0.
    At(usize),
    Last,
}

impl Field {
    /// The field of the path `request.{parts}`; nothing if it is one that no request has.
    pub(super) fn parse(parts: &[&str]) -> Result<Option<Self>, ValueProblem> {
        let unsupported =
            |parts: &[&str]| unsupported(format!("`request.{}` in a template", parts.join(".")));
        let field = match *parts {
            // The old spelling of all that is in the first line of a request.
            ["requestLine", ref rest @ ..] => match *rest {
                [] => return unsupported(parts),
                [
                    "method" | "scheme" | "host" | "port" | "baseUrl" | "url" | "pathSegments"
                    | "query" | "clientIp",
                    ..,
                ]
                | ["path"] => return Self::parse(rest),
                _ => return Ok(None),
            },
            ["method"] => Self::Method,
            ["scheme"] => Self::Scheme,
            ["host"] => Self::Host,
            ["port"] => Self::Port,
            ["baseUrl"] => Self::BaseUrl,
            ["url"] => Self::Url,
            ["path" | "pathSegments"] => Self::Path,
            ["path" | "pathSegments", part] => Self::PathPart(part.to_owned()),
            ["body"] => Self::Body,
            ["bodyAsBase64"] => Self::BodyAsBase64,
            ["clientIp"] => Self::ClientIp,
            ["query", name, ref pick @ ..] => {
                return Ok(Pick::parse(pick).map(|pick| Self::Query(name.to_owned(), pick)));
            }
            ["cookies", name, ref pick @ ..] => {
                return Ok(Pick::parse(pick).map(|pick| Self::Cookie(name.to_owned(), pick)));
            }
            ["headers", name, ref pick @ ..] => {
                // What is no name of a header is in no request.
                let name = HeaderName::from_bytes(name.as_bytes()).ok();
                return Ok(name
                    .zip(Pick::parse(pick))
                    .map(|(name, pick)| Self::Header(name, pick)));
            }
            []
            | [
                "query" | "headers" | "cookies" | "id" | "parts" | "multipart" | "binary",
                ..,
            ] => {
                return unsupported(parts);
            }
            _ => return Ok(None),
        };
        Ok(Some(field))
    }

    /// Return the field of a request.
    pub(super) fn value<'r>(&self, occasion: &Occasion<'r>) -> Value<'r> {
        let asked = occasion.asked;
        match self {
            Self::Method => Value::owned(asked.method.as_str().to_uppercase()),
            Self::Scheme => Value::Text(Cow::Borrowed(occasion.scheme.name())),
            Self::Host => Value::Text(asked.host().unwrap_or_default()),
            Self::Port => Value::Integer(port(occasion).into()),
            Self::BaseUrl => {
                let host = asked.host().unwrap_or_default();
                let (scheme, port) = (occasion.scheme.name(), port(occasion));
                let is_usual = port == occasion.scheme.port();
                Value::owned(if is_usual {
                    format!("{scheme}://{host}")
                } else {
                    format!("{scheme}://{host}:{port}")
                })
            }
            Self::Url => Value::Text(Cow::Borrowed(asked.url())),
            Self::Path => Value::List {
                items: segments(occasion),
                written: path(occasion),
            },
            Self::PathPart(name) => path_part(name, occasion).map_or(Value::Missing, Value::Text),
            Self::Query(name, pick) => pick.of(asked.query_values(name)),
            Self::Header(name, pick) => pick.of(asked.header_values(name)),
            Self::Cookie(name, pick) => pick.of(asked.cookie_values(name)),
            Self::Body => Value::Text(String::from_utf8_lossy(asked.body)),
            Self::BodyAsBase64 => Value::owned(STANDARD.encode(asked.body)),
            Self::ClientIp => Value::Text(asked.client_text()),
        }
    }
}

impl Pick {
    fn parse(parts: &[&str]) -> Option<Self> {
        match *parts {
            [] => Some(Self::All),
            ["first"] => Some(Self::At(0)),
            ["last"] => Some(Self::Last),
            [index] => index.parse().ok().map(Self::At),
            _ => None,
        }
    }

    fn of<'v>(self, values: impl Iterator<Item = Cow<'v, str>>) -> Value<'v> {
        let items: Vec<_> = values.collect();
        let index = match self {
            Self::All => {
                return match items.first().cloned() {
                    Some(written) => Value::List { items, written },
                    None => Value::Missing,
                };
            }
            Self::At(index) => Some(index),
            Self::Last => items.len().checked_sub(1),
        };
        index
            .and_then(|index| items.into_iter().nth(index))
            .map_or(Value::Missing, Value::Text)
    }
}

/// The port that the client means to talk to.
fn port(occasion: &Occasion<'_>) -> u16 {
    let host = occasion
        .asked
        .headers
        .get(HOST)
        .and_then(|host| host.to_str().ok());
    // The colons of an address of version 6 are in brackets.
    let port = host
        .and_then(|host| host.rsplit_once(':'))
        .filter(|(_, port)| !port.contains(']'));
    port.and_then(|(_, port)| port.parse().ok())
        .unwrap_or(occasion.scheme.port())
}

/// The path as a whole: decoded, but as it was sent if the stub has variables in it.
fn path<'r>(occasion: &Occasion<'r>) -> Cow<'r, str> {
    let path = occasion.asked.path();
    if occasion.path_variables.is_empty() {
        percent_decode_str(path).decode_utf8_lossy()
    } else {
        Cow::Borrowed(path)
    }
}

/// The parts between the slashes that are not empty.
fn segments<'r>(occasion: &Occasion<'r>) -> Vec<Cow<'r, str>> {
    path(occasion)
        .split('/')
        .filter(|segment| !segment.is_empty())
        .map(|segment| Cow::Owned(segment.to_owned()))
        .collect()
}

fn path_part<'r>(name: &str, occasion: &Occasion<'r>) -> Option<Cow<'r, str>> {
    let mut variables = occasion.path_variables.iter();
    match variables.rfind(|(known, _)| *known == name) {
        Some((_, value)) => Some(Cow::Borrowed(value)),
        None => segments(occasion).into_iter().nth(name.parse().ok()?),
    }
}
