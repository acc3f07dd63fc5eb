//! Several requests per item: the requests of a line after its first, and the values that they
//! take from responses.
//!
//! Read from a request file and shared by the shards. It must not know how a request is sent.

use std::sync::Arc;

use http::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use regex::bytes::Regex;
use serde_json::Value;

use super::ids::IdFormat;
use super::shape::RequestShape;
use super::targets::RequestTarget;
use super::template::{PLACE, Template, TemplateError, encoded};

/// Longest value, bytes.
const MOST_VALUE: usize = 64 << 10;

/// Longest body that values are taken from, bytes: as JSON it takes 16 times the memory.
pub(crate) const MOST_BODY: usize = 1 << 20;

/// Longest path and query with values in it, bytes.
const MOST_PATH: usize = 64 << 10;

/// Most requests of a line.
pub(crate) const MOST_STEPS: usize = 64;

/// Most pages of a request.
const MOST_PAGES: u32 = 1_000_000;

/// Characters of a value that are percent-encoded in a URL: all but the unreserved ones (RFC 3986,
/// 2.3), so that a value is one part of a path or query and nothing else.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// A regular expression. Two are the same when they are written the same.
#[derive(Debug, Clone)]
struct Pattern(Regex);

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Eq for Pattern {}

/// Place of a value in a response.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    /// A JSON pointer (RFC 6901) to a text, a number or a boolean of the body.
    Json(String),
    /// A header.
    Header(String),
    /// The first group of a pattern in the body, or all that it matches.
    Regex(Pattern),
    /// The link to the next page in the header `Link` (RFC 8288).
    Link,
}

impl Source {
    fn parse(text: &str) -> Result<Self, String> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        match kind {
            "json" if rest.is_empty() || rest.starts_with('/') => Ok(Self::Json(rest.to_owned())),
            "header" if !rest.is_empty() => Ok(Self::Header(rest.to_owned())),
            "regex" if !rest.is_empty() => Regex::new(rest)
                .map(|regex| Self::Regex(Pattern(regex)))
                .map_err(|_| format!("`{text}` is not a regular expression: correct it")),
            "link" if rest.is_empty() => Ok(Self::Link),
            _ => Err(format!(
                "`{text}` is no place of a value: write json:/pointer, header:NAME or regex:PATTERN"
            )),
        }
    }

    const fn is_in_body(&self) -> bool {
        matches!(self, Self::Json(_) | Self::Regex(_))
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Json(pointer) => write!(f, "json:{pointer}"),
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Regex(pattern) => write!(f, "regex:{}", pattern.0),
            Self::Link => f.write_str("link"),
        }
    }
}

/// A value that is taken from a response.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Extract {
    name: String,
    from: Source,
}

/// Pages of a request: each response has the URL of the next.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pages {
    from: Source,
    most: u32,
}

/// What a response of a flow is read for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Takes {
    extracts: Vec<Extract>,
    pages: Option<Pages>,
    /// True if its request is sent once for all items of a shard, which use its values.
    pub(crate) is_shared: bool,
    /// True if its responses are saved although others follow; none for those of pages alone.
    pub(crate) save: Option<bool>,
}

impl Takes {
    /// Read names and places of values, as in `token` and `json:/token`, and those of pages.
    ///
    /// # Errors
    /// When one of them is no such thing.
    pub(crate) fn new<'a>(
        extracts: impl Iterator<Item = (&'a str, &'a str)>,
        next: Option<&str>,
        pages: Option<u32>,
    ) -> Result<Self, String> {
        let mut read = Self::default();
        for (name, from) in extracts {
            let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic())
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            if !is_name || name == "id" {
                return Err(format!(
                    "`{name}` cannot name a value: use letters, digits and _, as in `token`, and another name than `id`"
                ));
            }
            let from = Source::parse(from)?;
            let name = name.to_owned();
            read.extracts.push(Extract { name, from });
        }
        read.pages = match (next, pages) {
            (None, None) => None,
            (Some(next), Some(most)) if (1..=MOST_PAGES).contains(&most) => Some(Pages {
                from: Source::parse(next)?,
                most,
            }),
            _ => {
                return Err(
                    "pages need both `next` (link, or json:/pointer) and `pages`, their most, from 1 to 1,000,000"
                        .to_owned(),
                );
            }
        };
        Ok(read)
    }

    /// Names of the values.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.extracts.iter().map(|extract| extract.name.as_str())
    }

    /// Places of what is taken: the values, then the next page.
    fn sources(&self) -> impl Iterator<Item = &Source> {
        let next = self.pages.iter().map(|pages| &pages.from);
        self.extracts.iter().map(|it| &it.from).chain(next)
    }

    /// Return the header of each place, as `value` finds it by its name; none of one in a body.
    pub(crate) fn headers(
        &self,
        value: impl Fn(&str) -> Option<Vec<u8>>,
        links: impl Fn() -> Option<Vec<u8>>,
    ) -> Vec<Option<Vec<u8>>> {
        self.sources()
            .map(|source| match source {
                Source::Header(name) => value(name),
                Source::Link => links(),
                Source::Json(_) | Source::Regex(_) => None,
            })
            .collect()
    }

    /// Take the values from a good response: its headers, as [`Self::headers`] has them, and its
    /// body of `length` bytes, as far as it was kept.
    ///
    /// # Errors
    /// When a value is missing or too long. The reason names it and its place.
    pub(crate) fn take(
        &self,
        headers: &[Option<Vec<u8>>],
        body: &[u8],
        length: usize,
    ) -> Result<Taken, String> {
        if length > MOST_BODY && self.sources().any(Source::is_in_body) {
            return Err(format!(
                "the body has {length} bytes, more than the {MOST_BODY} that values are taken from"
            ));
        }
        let has_json = self.sources().any(|it| matches!(it, Source::Json(_)));
        let json = has_json.then(|| serde_json::from_slice::<Value>(body).ok());
        let json = json.flatten();
        let found: Vec<_> = self
            .sources()
            .enumerate()
            .map(|(at, source)| match source {
                Source::Json(pointer) => scalar(json.as_ref()?.pointer(pointer)?),
                Source::Regex(pattern) => {
                    let groups = pattern.0.captures(body)?;
                    utf8(groups.get(1).or_else(|| groups.get(0))?.as_bytes())
                }
                Source::Header(_) => utf8(headers.get(at)?.as_deref()?),
                Source::Link => next_link(std::str::from_utf8(headers.get(at)?.as_deref()?).ok()?),
            })
            .collect();
        let mut values = Vec::with_capacity(self.extracts.len());
        for (Extract { name, from }, value) in self.extracts.iter().zip(&found) {
            let value = value
                .as_ref()
                .ok_or_else(|| format!("{{{name}}}: the response has no {from}"))?;
            if value.len() > MOST_VALUE {
                return Err(format!(
                    "{{{name}}}: {from} has {} bytes, more than {MOST_VALUE}",
                    value.len()
                ));
            }
            values.push((name.clone(), value.clone()));
        }
        let next = found.into_iter().nth(self.extracts.len()).flatten();
        Ok(Taken {
            values: Values(values),
            next: next.filter(|next| !next.is_empty()),
        })
    }

    /// True if its responses are saved, also those that are not the last of their item.
    pub(crate) fn is_saved(&self) -> bool {
        self.save.unwrap_or(self.pages.is_some())
    }

    /// Most pages of its request.
    pub(crate) fn pages(&self) -> u32 {
        self.pages.as_ref().map_or(1, |pages| pages.most)
    }
}

/// Return a text, a number or a boolean as it is sent.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn utf8(bytes: &[u8]) -> Option<String> {
    String::from_utf8(bytes.to_vec()).ok()
}

/// Return the target of the first link with the relation `next` (RFC 8288, 3).
fn next_link(links: &str) -> Option<String> {
    let mut rest = links;
    while let Some((target, after)) = rest.split_once('<')?.1.split_once('>') {
        // Parameters end where the next target begins.
        let (parameters, next) = after.split_at(after.find('<').unwrap_or(after.len()));
        let is_next = parameters.split([';', ',']).any(|parameter| {
            let (name, value) = parameter.split_once('=').unwrap_or_default();
            let mut relations = value.trim().trim_matches('"').split_ascii_whitespace();
            name.trim().eq_ignore_ascii_case("rel")
                && relations.any(|relation| relation.eq_ignore_ascii_case("next"))
        });
        if is_next {
            return Some(target.to_owned());
        }
        rest = next;
    }
    None
}

/// Values taken from a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) values: Values,
    /// URL of the next page.
    pub(crate) next: Option<String>,
}

/// Values of an item, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Values(Vec<(String, String)>);

impl Values {
    /// Return these values and, where they are missing here, those of earlier responses.
    pub(crate) fn over(mut self, earlier: &Self) -> Self {
        for (name, value) in &earlier.0 {
            if !self.0.iter().any(|(other, _)| other == name) {
                self.0.push((name.clone(), value.clone()));
            }
        }
        self
    }

    /// Return a text with its places filled: `{name}` by the value, changed by `write`, and `{id}`
    /// by `id`. Other braces are text.
    fn fill(&self, text: &[u8], id: &str, write: impl Fn(&str) -> String) -> Vec<u8> {
        let (mut filled, mut rest) = (Vec::with_capacity(text.len()), text);
        while let Some(at) = rest.iter().position(|&byte| byte == b'{') {
            filled.extend_from_slice(&rest[..at]);
            rest = &rest[at..];
            let named = self.0.iter().find(|(name, _)| is_place(rest, name));
            let length = if rest.starts_with(PLACE.as_bytes()) {
                filled.extend_from_slice(id.as_bytes());
                PLACE.len()
            } else if let Some((name, value)) = named {
                filled.extend_from_slice(write(value).as_bytes());
                name.len() + 2
            } else {
                filled.push(b'{');
                1
            };
            rest = &rest[length..];
        }
        filled.extend_from_slice(rest);
        filled
    }
}

/// True if a text begins with the place of a value.
fn is_place(text: &[u8], name: &str) -> bool {
    text.get(1..=name.len()) == Some(name.as_bytes()) && text.get(name.len() + 1) == Some(&b'}')
}

/// A request of a line after its first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Its URL with `0` in the place of each value.
    pub(super) template: Template,
    /// Its path and query, encoded, with places for the ID and for values.
    pub(super) path: String,
    pub(super) shape: RequestShape,
    /// Its method; none for that of the flags.
    pub(super) method: Option<Method>,
    pub(crate) takes: Arc<Takes>,
    /// Numbers of its host and of its template.
    pub(super) host: u32,
    pub(super) group: u8,
}

impl Step {
    /// Read a request whose URL has places for the values `names`.
    ///
    /// # Errors
    /// When it is no URL, or has a place for something else.
    pub(crate) fn new(
        url: &str,
        shape: RequestShape,
        method: Option<Method>,
        takes: Takes,
        names: &[String],
    ) -> Result<Self, TemplateError> {
        let start = url.find("://").map_or(0, |at| at + 3);
        let start = url[start..]
            .find(['/', '?'])
            .map_or(url.len(), |at| start + at);
        let (origin, path) = url.split_at(start);
        let places = names.iter().map(|name| format!("{{{name}}}"));
        let bare = places
            .chain([PLACE.to_owned()])
            .fold(path.to_owned(), |path, place| path.replace(&place, "0"));
        Ok(Self {
            template: [origin, &bare].concat().parse()?,
            path: encoded(path),
            shape,
            method,
            takes: Arc::new(takes),
            host: 0,
            group: 0,
        })
    }

    /// True if its request has a place for the ID.
    pub(super) fn has_id(&self) -> bool {
        self.path.contains(PLACE) || self.shape.has_id()
    }
}

/// Requests of a line beside its first, and what is taken from responses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// What is taken from the response to the first request.
    pub(crate) first: Arc<Takes>,
    pub(crate) steps: Vec<Step>,
}

impl Flow {
    /// What is taken from the response to request `number`, counted from 0.
    pub(crate) fn takes(&self, number: usize) -> &Arc<Takes> {
        let step = number.checked_sub(1).and_then(|at| self.steps.get(at));
        step.map_or(&self.first, |step| &step.takes)
    }

    /// Return request `number` of item `id`, counted from 0, with these values; none beyond the
    /// last.
    ///
    /// # Errors
    /// When a value cannot stand where it is to be sent.
    pub(crate) fn request(
        &self,
        number: usize,
        id: u64,
        values: &Values,
    ) -> Result<Option<StepRequest>, String> {
        let Some(step) = number.checked_sub(1).and_then(|at| self.steps.get(at)) else {
            return Ok(None);
        };
        let path = values.fill(step.path.as_bytes(), &id_text(&step.shape, id), |value| {
            percent_encode(value.as_bytes(), RESERVED).to_string()
        });
        if path.len() > MOST_PATH {
            return Err(format!(
                "the URL of request {} has {} bytes with its values, more than {MOST_PATH}",
                number + 1,
                path.len()
            ));
        }
        StepRequest {
            number,
            page: 1,
            host: step.host as usize,
            path: String::from_utf8_lossy(&path).into_owned(),
            shape: step.shape.clone(),
        }
        .filled(id, values)
        .map(Some)
    }
}

fn id_text(shape: &RequestShape, id: u64) -> String {
    let mut text = Vec::new();
    IdFormat::write_or_plain(shape.id_format, id, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Request of an item after its first, as it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StepRequest {
    /// Its number among the requests of its line, counted from 0.
    pub(crate) number: usize,
    /// Its page, counted from 1.
    pub(crate) page: u32,
    pub(crate) host: usize,
    pub(crate) path: String,
    pub(crate) shape: RequestShape,
}

impl StepRequest {
    /// Return it with ID and values in its headers and body.
    ///
    /// # Errors
    /// When a value cannot stand in a header.
    pub(crate) fn filled(self, id: u64, values: &Values) -> Result<Self, String> {
        let text = id_text(&self.shape, id);
        let shape = self
            .shape
            .filled(|part| values.fill(part, &text, str::to_owned))
            .map_err(|header| {
                format!(
                    "header {header} of request {} cannot hold its value",
                    self.number + 1
                )
            })?;
        Ok(Self { shape, ..self })
    }

    pub(crate) fn target(&self) -> RequestTarget<'_> {
        RequestTarget {
            host: self.host,
            before: &self.path,
            after: None,
            shape: Some(&self.shape),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::Uri;
    use proptest::prelude::*;

    use super::*;

    fn takes(from: &str) -> Takes {
        Takes::new([("a", from)].into_iter(), None, None).unwrap()
    }

    fn flow(url: &str, headers: &[String], body: &str) -> Flow {
        let shape = RequestShape::new("POST", headers, Bytes::from(body.to_owned())).unwrap();
        let step = Step::new(url, shape, None, Takes::default(), &["a".to_owned()]).unwrap();
        let first = Arc::new(takes("json:/a"));
        let steps = vec![step];
        Flow { first, steps }
    }

    #[test]
    fn a_value_is_found_where_its_place_says() {
        let body = br#"{"a": "x", "b": {"c/d": [1.50, true]}, "n": null, "t": "k=1 k=22"}"#;
        let fields = [("X-A", "of header"), ("x-a", "second")];
        let value = |name: &str| {
            let field = fields
                .iter()
                .find(|(other, _)| other.eq_ignore_ascii_case(name));
            field.map(|(_, value)| value.as_bytes().to_vec())
        };
        for (from, found) in [
            ("json:/a", Some("x")),
            ("json:/b/c~1d/0", Some("1.5")),
            ("json:/b/c~1d/1", Some("true")),
            ("json:/n", None),
            ("json:/b", None),
            ("json:/b/x", None),
            ("json:", None),
            ("header:x-a", Some("of header")),
            ("header:x-b", None),
            ("regex:k=(\\d\\d)", Some("22")),
            ("regex:k=\\d", Some("k=1")),
            ("regex:z", None),
        ] {
            let takes = takes(from);
            let headers = takes.headers(value, || None);
            let filled = takes.take(&headers, body, body.len());
            let expected = found.map(|found| Values(vec![("a".to_owned(), found.to_owned())]));
            assert_eq!(filled.ok().map(|filled| filled.values), expected, "{from}");
        }
        let long = vec![b'1'; MOST_BODY + 1];
        assert!(takes("json:").take(&[None], &long, long.len()).is_err());
        assert!(takes("regex:1").take(&[None], &long, MOST_BODY).is_ok());
        assert!(takes("regex:1+").take(&[None], &long, MOST_BODY).is_err());
    }

    #[test]
    fn the_next_link_is_that_of_the_relation() {
        for (links, next) in [
            ("<a>; rel=next", Some("a")),
            ("<a>;rel=\"next\"", Some("a")),
            (
                "<a>; rel=prev, <b?x=1,2>; title=\"x\"; REL=\"last NEXT\"",
                Some("b?x=1,2"),
            ),
            ("<a>; rel=nextish", None),
            ("<a; rel=next", None),
            ("a>; rel=next", None),
            ("", None),
        ] {
            assert_eq!(next_link(links).as_deref(), next, "{links}");
        }
    }

    proptest! {
        #[test]
        fn whatever_a_value_is_a_request_keeps_its_form(value in "\\PC{0,20}|[\\x00-\\xff]{0,20}|[{}/?#%& a-z]{0,20}", id: u64) {
            let values = Values(vec![("a".to_owned(), value.clone())]);
            let flow = flow(
                "http://h/x/{a}/{id}?y={a}&z={b}".replace("{b}", "{id}").as_str(),
                &["x-a: <{a}>{b}".to_owned()],
                "{\"n\": {id}, \"a\": {{a}}}",
            );
            let Ok(request) = flow.request(1, id, &values) else {
                prop_assert!(value.chars().any(char::is_control), "{value:?}");
                return Ok(());
            };
            let request = request.unwrap();
            let uri: Uri = request.path.parse().unwrap();
            prop_assert_eq!(uri.path().matches('/').count(), 3);
            prop_assert_eq!(uri.query().unwrap().split(['&', '=']).count(), 4);
            let body = format!("{{\"n\": {id}, \"a\": {{{value}}}}}");
            prop_assert_eq!(&request.shape.body, body.as_bytes());
            let header = |name: &str| {
                let (_, value) = request.shape.headers.iter().find(|(other, _)| *other == name).unwrap();
                value.as_bytes().to_vec()
            };
            prop_assert_eq!(header("content-length"), body.len().to_string().into_bytes());
            prop_assert_eq!(header("x-a"), format!("<{value}>{{b}}").into_bytes());
        }
    }
}
