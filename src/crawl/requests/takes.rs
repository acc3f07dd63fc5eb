//! Values that a request file takes from responses: the forms of their places, and what they find.
//!
//! Read from a request file and shared by the shards. It must not know which request a value is for.

use std::hash::{Hash, Hasher};

use regex::bytes::Regex;
use serde_json::value::RawValue;

use super::json_pointer::{self, split_each};
use super::redact;
use super::values::{TakenValue, ValueKind, Values, has_place, without_places};

/// Longest value, bytes.
const MOST_VALUE: usize = 64 << 10;

/// Longest body that values are taken from, bytes.
pub(crate) const MOST_BODY: usize = 1 << 20;

/// Most pages of a request.
const MOST_PAGES: u32 = 1_000_000;

/// Most items of a list that later requests are made for, and most bytes of their values: what an
/// item in flight may hold.
pub(crate) const MOST_ITEMS: usize = 10_000;
pub(crate) const MOST_ITEM_BYTES: usize = 1 << 20;

/// Row of the table of places: how it is written, and how it is read.
struct Form {
    example: &'static str,
    /// Read a place; none if it is of another form.
    read: fn(&str) -> Option<Kind>,
}

/// All forms of `extract` and `next`, as the book lists them (how-to/flows.md).
const FORMS: [Form; 7] = [
    Form {
        example: "json:/items/*/id",
        read: json,
    },
    Form {
        example: "json:/user/token",
        read: json,
    },
    Form {
        example: "header:Location:page=(\\w+)",
        read: |text| {
            let (name, text) = text.strip_prefix("header:")?.split_once(':')?;
            Some(Kind::Header(name.to_owned(), Some(pattern(text)?)))
        },
    },
    Form {
        example: "header:X-Request-Id",
        read: |text| {
            let name = text.strip_prefix("header:")?;
            let is_name = !name.is_empty() && !name.contains(':');
            is_name.then(|| Kind::Header(name.to_owned(), None))
        },
    },
    Form {
        example: "regex:version=(\\w+)",
        read: |text| pattern(text.strip_prefix("regex:")?).map(Kind::Regex),
    },
    Form {
        example: "link",
        read: |text| (text == "link").then_some(Kind::Link),
    },
    Form {
        example: "/list?cursor={cursor}",
        read: |text| {
            let starts = ["/", "?", "http://", "https://"];
            let is_url = starts.iter().any(|start| text.starts_with(start));
            is_url.then_some(Kind::Template)
        },
    },
];

/// What each form takes, as the book says it.
#[cfg(test)]
const TAKES: [&str; 7] = [
    "this value in each entry of a list, to send [requests for each entry](pages-and-lists.md#request-each-item-of-a-list)",
    "the string, number or boolean at this JSON pointer (RFC 6901) in the body",
    "the match of this regular expression in a header with this name: its first group or, without groups, the whole match",
    "the first header with this name",
    "the match of this regular expression in the body: its first group or, without groups, the whole match. In HTML and XML, references such as `&amp;` are decoded",
    "for `next`: the link with `rel=\"next\"` in the header `Link` (RFC 8288)",
    "for `next`: the URL of the next page, with values of this response",
];

/// Read a JSON pointer, perhaps into each item of one list.
fn json(text: &str) -> Option<Kind> {
    let pointer = text.strip_prefix("json:")?;
    let is_pointer = pointer.is_empty() || pointer.starts_with('/');
    let of_item = split_each(pointer).and_then(|(_, rest)| split_each(rest));
    (is_pointer && of_item.is_none()).then(|| Kind::Json(pointer.to_owned()))
}

/// Read a regular expression.
fn pattern(text: &str) -> Option<Regex> {
    Regex::new(text).ok().filter(|_| !text.is_empty())
}

/// Return the first group of a pattern in a text, or all that matches.
fn find<'a>(pattern: &Regex, text: &'a [u8]) -> Option<&'a [u8]> {
    let groups = pattern.captures(text)?;
    Some(groups.get(1).or_else(|| groups.get(0))?.as_bytes())
}

/// Place of a value in a response. Two are the same when they are written the same.
#[derive(Debug, Clone)]
struct Source {
    text: String,
    kind: Kind,
}

/// Kind of a place.
#[derive(Debug, Clone)]
enum Kind {
    /// A JSON pointer to a text, a number or a boolean of the body, or of each item of a list.
    Json(String),
    /// A header, or what a pattern finds in one.
    Header(String, Option<Regex>),
    /// What a pattern finds in the body.
    Regex(Regex),
    /// The link to the next page in the header `Link`.
    Link,
    /// A URL with places for values, not taken from the response itself.
    Template,
}

impl Source {
    fn parse(text: &str) -> Result<Self, String> {
        let kind = FORMS.iter().find_map(|form| (form.read)(text)).ok_or_else(|| {
            let examples: Vec<_> = FORMS.iter().map(|form| form.example).collect();
            let examples = examples.join(", ");
            format!("`{text}` is no place of a value, or has no valid regular expression: write it as one of {examples}")
        })?;
        let text = text.to_owned();
        Ok(Self { text, kind })
    }

    /// Return the pointers to a list, and to the value in each of its items, if it is in such.
    fn each(&self) -> Option<(&str, &str)> {
        match &self.kind {
            Kind::Json(pointer) => split_each(pointer),
            _ => None,
        }
    }

    const fn is_in_body(&self) -> bool {
        matches!(self.kind, Kind::Json(_) | Kind::Regex(_))
    }

    /// True if it is a place of `next` alone.
    const fn is_of_next(&self) -> bool {
        matches!(self.kind, Kind::Link | Kind::Template)
    }
}

impl PartialEq for Source {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Source {}

impl Hash for Source {
    fn hash<H: Hasher>(&self, to: &mut H) {
        self.text.hash(to);
    }
}

/// Reason why a value cannot be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    Absent,
    /// Null.
    Null,
    /// A list or an object.
    Nested,
    NoJson,
    NoList,
    NoText,
    NoUrl,
    TooLong(usize),
    TooMany,
}

impl Missing {
    /// Describe what is wrong at a place.
    fn at(self, Source { text: place, .. }: &Source) -> String {
        match self {
            Self::Absent => format!("the response has no {place}"),
            Self::Null => format!("{place} is null"),
            Self::Nested => format!("{place} is a list or an object: take a value in it"),
            Self::NoJson => format!("the body is not JSON, and has no {place}"),
            Self::NoList => format!("{place}: there is no list"),
            Self::NoText => format!("{place} is not in UTF-8"),
            Self::NoUrl => format!(
                "{place} is a number or a boolean and no URL: take it with `extract`, and write `next` as a URL with its place"
            ),
            Self::TooLong(bytes) => format!("{place} has {bytes} bytes, more than {MOST_VALUE}"),
            Self::TooMany => format!("{place} has more than {MOST_ITEMS} items"),
        }
    }
}

/// A value that is taken from a response.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Extract {
    name: String,
    from: Source,
}

/// Pages of a request: each response leads to the next.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Pages {
    from: Source,
    most: u32,
    /// Names of values that only requests for pages have: missing on the last page, and nothing on
    /// the first.
    own: Vec<String>,
}

/// A good response that values are taken from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TakenFrom<'a> {
    /// Headers of the places, as [`Takes::headers`] has them.
    pub(crate) headers: &'a [Option<Vec<u8>>],
    /// The body, as far as it was kept.
    pub(crate) body: &'a [u8],
    /// Length of the whole body, bytes.
    pub(crate) length: usize,
    /// True if the body is HTML or XML.
    pub(crate) is_markup: bool,
}

/// What a response of a flow is read for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Takes {
    extracts: Vec<Extract>,
    pages: Option<Pages>,
    /// True if its request is sent once for all items of a shard, which use its values.
    pub(crate) is_shared: bool,
    /// True if its responses are saved although others follow; none for those of pages and of
    /// elements of a list alone.
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
            let source = Source::parse(from)?;
            if source.is_of_next() {
                return Err(format!("`{from}` is a place of `next`: write it there"));
            }
            let name = name.to_owned();
            read.extracts.push(Extract { name, from: source });
        }
        let mut lists: Vec<_> = read.each().map(|(_, (list, _))| list).collect();
        lists.dedup();
        if lists.len() > 1 {
            return Err("its values are in each item of several lists: take one list".to_owned());
        }
        read.pages = match (next, pages) {
            (None, None) => None,
            (Some(next), Some(most)) if (1..=MOST_PAGES).contains(&most) => Some(Pages {
                from: Source::parse(next)?,
                most,
                own: Vec::new(),
            }),
            _ => {
                return Err(
                    "pages need both `next` (link, json:/pointer, or a URL) and `pages`, their most, from 1 to 1,000,000"
                        .to_owned(),
                );
            }
        };
        if read.pages.iter().any(|pages| pages.from.each().is_some()) {
            return Err("`next` is one URL: write json:/pointer without *".to_owned());
        }
        Ok(read)
    }

    /// Read the URL of the next page, which may have places for the values `earlier` and its own; so
    /// may the `text` of its request, which is its headers and body.
    ///
    /// # Errors
    /// When it has a place for something else.
    pub(crate) fn read_next(&mut self, earlier: &[String], text: &str) -> Result<(), String> {
        let pages = self
            .pages
            .as_mut()
            .filter(|it| matches!(it.from.kind, Kind::Template));
        let Some(Pages {
            from: Source { text: url, .. },
            own,
            ..
        }) = pages
        else {
            return Ok(());
        };
        let names: Vec<_> = self
            .extracts
            .iter()
            .filter(|it| it.from.each().is_none())
            .map(|extract| extract.name.clone())
            .collect();
        if without_places(&without_places(url, earlier), &names).contains(['{', '}']) {
            return Err(format!(
                "`next` {} has a place for a value that no response so far has: add it to `extract`",
                redact::url(url)
            ));
        }
        own.extend(names.into_iter().filter(|name| {
            has_place(url, name) || has_place(text, name) && !earlier.contains(name)
        }));
        Ok(())
    }

    /// Values that the request for the first page has in the places of those of pages: nothing.
    pub(crate) fn on_first_page(&self) -> Values {
        let own = self.pages.iter().flat_map(|pages| &pages.own);
        Values(
            own.map(|name| (name.clone(), TakenValue::NOTHING))
                .collect(),
        )
    }

    /// Return what leads to a page after the first, whose path is known.
    pub(crate) fn page_at(&self, path: &str) -> NextPage {
        self.pages
            .iter()
            .find(|it| matches!(it.from.kind, Kind::Template))
            .map_or_else(
                || NextPage::Url(path.to_owned()),
                |pages| NextPage::Template(pages.from.text.clone()),
            )
    }

    /// Names of the values that later requests have.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.extracts
            .iter()
            .map(|extract| extract.name.as_str())
            .filter(|name| !self.is_of_pages(name))
    }

    /// True if a value is for the URL of the next page, and may be missing.
    fn is_of_pages(&self, name: &str) -> bool {
        let mut own = self.pages.iter().flat_map(|pages| &pages.own);
        own.any(|own| own == name)
    }

    /// True if later requests are made for each item of a list.
    pub(crate) fn has_list(&self) -> bool {
        self.each().next().is_some()
    }

    /// Values in each item of a list, with the list, and their places in an item.
    fn each(&self) -> impl Iterator<Item = (&Extract, (&str, &str))> {
        self.extracts
            .iter()
            .filter_map(|extract| Some((extract, extract.from.each()?)))
    }

    /// Places of what is taken: the values, then the next page.
    fn sources(&self) -> impl Iterator<Item = &Source> {
        let next = self.pages.iter().map(|pages| &pages.from);
        self.extracts.iter().map(|it| &it.from).chain(next)
    }

    /// True if something is taken from the body.
    pub(crate) fn reads_body(&self) -> bool {
        self.sources().any(Source::is_in_body)
    }

    /// Return the text of a header for each place, given the values of all headers by name; none of
    /// a place in the body.
    pub(crate) fn headers(&self, values: impl Fn(&str) -> Vec<Vec<u8>>) -> Vec<Option<Vec<u8>>> {
        self.sources()
            .map(|source| match &source.kind {
                Kind::Header(name, None) => values(name).into_iter().next(),
                Kind::Header(name, Some(pattern)) => {
                    let values = values(name);
                    let found = values.iter().find_map(|value| find(pattern, value));
                    found.map(<[u8]>::to_vec)
                }
                Kind::Link => Some(values("link").join(&b", "[..])),
                _ => None,
            })
            .collect()
    }

    /// Take the values from a good response.
    ///
    /// # Errors
    /// When a value is missing or too long. The reason names it and its place.
    pub(crate) fn take(&self, from: &TakenFrom<'_>) -> Result<Taken, String> {
        if from.length > MOST_BODY && self.reads_body() {
            return Err(format!(
                "the body has {} bytes, more than the {MOST_BODY} that values are taken from",
                from.length
            ));
        }
        let has_json = self.sources().any(|it| matches!(it.kind, Kind::Json(_)));
        let document = has_json
            .then(|| json_pointer::document(from.body))
            .flatten();
        let mut taken = Taken::default();
        let mut is_last = false;
        for (at, Extract { name, from: place }) in self.extracts.iter().enumerate() {
            if place.each().is_some() {
                continue;
            }
            let value = value(place, at, from, document);
            if self.is_of_pages(name) && is_none(&value) {
                is_last = true;
                continue;
            }
            let value = value.map_err(|missing| format!("{{{name}}}: {}", missing.at(place)))?;
            taken.values.0.push((name.clone(), value));
        }
        taken.items = self.items(document)?;
        if let Some(Pages { from: place, .. }) = self.pages.as_ref().filter(|_| !is_last) {
            let next = next_page(place, self.extracts.len(), from, document);
            taken.next = next.map_err(|missing| missing.at(place))?;
        }
        Ok(taken)
    }

    /// Take the values of each item of the list.
    fn items(&self, document: Option<&RawValue>) -> Result<Vec<Values>, String> {
        let Some((Extract { from, .. }, (list, _))) = self.each().next() else {
            return Ok(Vec::new());
        };
        let failed = |missing: Missing| missing.at(from);
        let document = document.ok_or_else(|| failed(Missing::NoJson))?;
        let list = json_pointer::find(document, list).ok_or_else(|| failed(Missing::NoList))?;
        // So is an empty list written by some.
        if list.get() == "null" {
            return Ok(Vec::new());
        }
        let items = json_pointer::each(list).ok_or_else(|| failed(Missing::NoList))?;
        if items.len() > MOST_ITEMS {
            return Err(failed(Missing::TooMany));
        }
        let of_item = |item: &RawValue| {
            let values = self.each().map(|(Extract { name, .. }, (_, rest))| {
                let value = json_pointer::find(item, rest)
                    .ok_or(Missing::Absent)
                    .and_then(scalar)
                    .map_err(|missing| format!("{{{name}}}: {}", failed(missing)))?;
                Ok((name.clone(), value))
            });
            values.collect::<Result<_, _>>().map(Values)
        };
        items.into_iter().map(of_item).collect()
    }

    /// Most pages of its request; 0 of one without `next`.
    pub(crate) fn pages(&self) -> u32 {
        self.pages.as_ref().map_or(0, |pages| pages.most)
    }
}

/// Take the value at a place, whose number is `at`.
fn value(
    place: &Source,
    at: usize,
    from: &TakenFrom<'_>,
    document: Option<&RawValue>,
) -> Result<TakenValue, Missing> {
    let found = match &place.kind {
        Kind::Json(pointer) => {
            let document = document.ok_or(Missing::NoJson)?;
            return scalar(json_pointer::find(document, pointer).ok_or(Missing::Absent)?);
        }
        Kind::Regex(pattern) => find(pattern, json_pointer::unmarked(from.body)),
        _ => from.headers.get(at).and_then(Option::as_deref),
    };
    let found = found.ok_or(Missing::Absent)?;
    let text = std::str::from_utf8(found).map_err(|_| Missing::NoText)?;
    let text = if from.is_markup && matches!(place.kind, Kind::Regex(_)) {
        html_escape::decode_html_entities(text).into_owned()
    } else {
        text.to_owned()
    };
    bounded(text, ValueKind::Plain)
}

/// Return a text, a number or a boolean of JSON.
fn scalar(value: &RawValue) -> Result<TakenValue, Missing> {
    let text = value.get();
    match text.as_bytes().first() {
        Some(b'"') => {
            let text = serde_json::from_str(text).map_err(|_| Missing::NoText)?;
            bounded(text, ValueKind::Text)
        }
        Some(b'{' | b'[') => Err(Missing::Nested),
        Some(b'n') => Err(Missing::Null),
        _ => bounded(text.to_owned(), ValueKind::Literal),
    }
}

fn bounded(text: String, kind: ValueKind) -> Result<TakenValue, Missing> {
    if text.len() > MOST_VALUE {
        return Err(Missing::TooLong(text.len()));
    }
    Ok(TakenValue { text, kind })
}

/// True if there is nothing at a place: what a last page has in the place of a next one.
fn is_none(value: &Result<TakenValue, Missing>) -> bool {
    match value {
        Ok(value) => {
            value.text.is_empty() || value.kind == ValueKind::Literal && value.text == "false"
        }
        Err(missing) => matches!(missing, Missing::Absent | Missing::Null | Missing::Nested),
    }
}

/// Take the next page.
fn next_page(
    place: &Source,
    at: usize,
    from: &TakenFrom<'_>,
    document: Option<&RawValue>,
) -> Result<Option<NextPage>, Missing> {
    match place.kind {
        Kind::Template => return Ok(Some(NextPage::Template(place.text.clone()))),
        Kind::Link => {
            let links = from.headers.get(at).and_then(Option::as_deref);
            let links = links.and_then(|links| std::str::from_utf8(links).ok());
            return Ok(links.and_then(next_link).map(NextPage::Url));
        }
        // Such as the response with status 204 after the last page.
        _ if place.is_in_body() && from.body.is_empty() => return Ok(None),
        _ => {}
    }
    let value = value(place, at, from, document);
    if is_none(&value) {
        return Ok(None);
    }
    let TakenValue { text, kind } = value?;
    if kind == ValueKind::Literal {
        return Err(Missing::NoUrl);
    }
    Ok(Some(NextPage::Url(text)))
}

/// Return the target of the first link with the relation `next` (RFC 8288, 3).
fn next_link(links: &str) -> Option<String> {
    let mut rest = links;
    loop {
        let start = rest.trim_start_matches([',', ' ', '\t']);
        let (target, parameters) = start.strip_prefix('<')?.split_once('>')?;
        let relation;
        (relation, rest) = relation_of(parameters);
        let mut relations = relation.split_ascii_whitespace();
        if relations.any(|relation| relation.eq_ignore_ascii_case("next")) {
            return Some(target.to_owned());
        }
    }
}

/// Read the parameters of a link. Return the first `rel`, and what follows the link.
fn relation_of(parameters: &str) -> (String, &str) {
    let (mut relation, mut rest) = (None, parameters.trim_start());
    while let Some(parameter) = rest.strip_prefix(';') {
        let end = parameter.find(['=', ';', ',']).unwrap_or(parameter.len());
        let (name, after) = parameter.split_at(end);
        let value;
        (value, rest) = match after.strip_prefix('=') {
            Some(after) => parameter_value(after.trim_start()),
            None => (String::new(), after),
        };
        if name.trim().eq_ignore_ascii_case("rel") {
            relation.get_or_insert(value);
        }
        rest = rest.trim_start();
    }
    // What is no parameter is left out up to the next link.
    let next = rest.find(',').unwrap_or(rest.len());
    (relation.unwrap_or_default(), &rest[next..])
}

/// Read a token or a quoted string (RFC 9110, 5.6.4). Return it, and what follows it.
fn parameter_value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let (token, rest) = text.split_at(text.find([';', ',']).unwrap_or(text.len()));
        return (token.trim().to_owned(), rest);
    };
    let (mut value, mut chars) = (String::new(), quoted.chars());
    while let Some(char) = chars.next() {
        match char {
            '"' => break,
            '\\' => value.extend(chars.next()),
            _ => value.push(char),
        }
    }
    (value, chars.as_str())
}

/// What leads to the next page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NextPage {
    /// A URL, which may be relative, as the response has it.
    Url(String),
    /// A URL with places for values.
    Template(String),
}

/// Values taken from a response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) values: Values,
    /// Values of each item of a list.
    pub(crate) items: Vec<Values>,
    pub(crate) next: Option<NextPage>,
    /// True of the response that the target does not have an element of a list.
    pub(crate) is_missing: bool,
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::super::values::PLACES;
    use super::*;

    fn take_with(
        from: &str,
        headers: &[(&str, &str)],
        body: &str,
        is_markup: bool,
    ) -> Result<Option<TakenValue>, String> {
        let takes = Takes::new([("a", from)].into_iter(), None, None)?;
        let headers = takes.headers(|name| {
            let named = headers
                .iter()
                .filter(|(other, _)| other.eq_ignore_ascii_case(name));
            named.map(|(_, value)| value.as_bytes().to_vec()).collect()
        });
        let read = takes.take(&TakenFrom {
            headers: &headers,
            body: body.as_bytes(),
            length: body.len(),
            is_markup,
        })?;
        Ok(read.values.0.into_iter().next().map(|(_, value)| value))
    }

    fn take(from: &str, body: &str) -> Option<String> {
        let fields = [
            ("X-A", "of header"),
            ("x-a", "id=2"),
            ("Location", "/cb?code=a%2Fb&x=1"),
        ];
        let value = take_with(from, &fields, body, false);
        value.ok().flatten().map(|value| value.text)
    }

    fn next(from: &str, body: &str) -> Result<Option<NextPage>, String> {
        let extract = [("cursor", "json:/c")].into_iter();
        let extract = extract.filter(|_| from.starts_with('/'));
        let mut takes = Takes::new(extract, Some(from), Some(9)).unwrap();
        takes.read_next(&[], "")?;
        let headers = takes.headers(|_| Vec::new());
        let read = takes.take(&TakenFrom {
            headers: &headers,
            body: body.as_bytes(),
            length: body.len(),
            is_markup: false,
        });
        read.map(|taken| taken.next)
    }

    #[test]
    fn a_value_is_found_where_its_place_says() {
        let body = r#"{"a": "x", "b": {"c/d": [1.50, true, 1e5, 123456789012345678901234567890]}, "n": null, "t": "k=1 k=22", "s": "\u0041\n"}"#;
        for (from, found) in [
            ("json:/a", Some("x")),
            ("json:/b/c~1d/0", Some("1.50")),
            ("json:/b/c~1d/1", Some("true")),
            ("json:/b/c~1d/2", Some("1e5")),
            ("json:/b/c~1d/3", Some("123456789012345678901234567890")),
            ("json:/s", Some("A\n")),
            ("json:/n", None),
            ("json:/b", None),
            ("json:/b/x", None),
            ("json:", None),
            ("header:x-a", Some("of header")),
            ("header:x-a:id=(\\d)", Some("2")),
            ("header:location:code=([^&]+)", Some("a%2Fb")),
            ("header:location:z", None),
            ("header:x-b", None),
            ("regex:k=(\\d\\d)", Some("22")),
            ("regex:k=\\d", Some("k=1")),
            ("regex:z", None),
        ] {
            assert_eq!(take(from, body).as_deref(), found, "{from}");
            let mark = format!("\u{feff}{body}");
            assert_eq!(take(from, &mark).as_deref(), found, "{from}");
        }
        let long = "1".repeat(MOST_BODY + 1);
        assert_eq!(take("json:", &long), None);
        assert_eq!(take("regex:1+", &long[..MOST_BODY]), None);
        assert_eq!(take("regex:1", &long[..MOST_BODY]).as_deref(), Some("1"));
    }

    #[test]
    fn character_references_are_read_in_markup_alone() {
        let html = r#"<input value="a+b/c==&amp;d&#x27;&#43;&eacute;&unknown;&">"#;
        for (is_markup, found) in [
            (true, "a+b/c==&d'+\u{e9}&unknown;&"),
            (false, "a+b/c==&amp;d&#x27;&#43;&eacute;&unknown;&"),
        ] {
            let value = take_with("regex:value=\"([^\"]+)\"", &[], html, is_markup);
            assert_eq!(value.unwrap().unwrap().text, found);
        }
    }

    #[test]
    fn a_last_page_leads_to_none() {
        let url = |text: &str| Ok(Some(NextPage::Url(text.to_owned())));
        for (value, expected) in [
            ("\"/a?p=2\"", url("/a?p=2")),
            ("\"2\"", url("2")),
            ("null", Ok(None)),
            ("\"\"", Ok(None)),
            ("false", Ok(None)),
            ("{}", Ok(None)),
            ("[]", Ok(None)),
        ] {
            let body = format!("{{\"c\": {value}}}");
            assert_eq!(next("json:/c", &body), expected, "{value}");
            let template = "/list?c={cursor}";
            let is_next = expected.unwrap().is_some();
            let expected = is_next.then(|| NextPage::Template(template.to_owned()));
            assert_eq!(next(template, &body), Ok(expected), "{value}");
        }
        assert_eq!(next("json:/c", "{}"), Ok(None));
        assert_eq!(next("/list?c={cursor}", "{}"), Ok(None));
        // A page cannot end the list without a word.
        for value in ["2", "true"] {
            assert!(next("json:/c", &format!("{{\"c\": {value}}}")).is_err());
        }
        assert!(next("json:/c", "<html>").is_err() && next("/?c={cursor}", "<html>").is_err());
        assert_eq!(next("json:/c", ""), Ok(None));
        let number = next("/?c={cursor}", r#"{"c": 0}"#).unwrap();
        assert!(number.is_some());
    }

    #[test]
    fn the_book_has_each_form() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/src/measure/flows.md");
        let page = fs::read_to_string(page).unwrap();
        let forms = FORMS
            .iter()
            .zip(TAKES)
            .map(|(form, takes)| (format!("`{}`", form.example), takes));
        let places = PLACES
            .iter()
            .map(|(place, how)| ((*place).to_owned(), *how));
        for (first, second) in forms.chain(places) {
            // As in a file of JSON.
            let first = first.replace('\\', "\\\\");
            let row = format!("| {first} | {second} |");
            assert!(
                page.contains(&row),
                "docs/src/measure/flows.md lacks: {row}"
            );
        }
        for form in &FORMS {
            assert!((form.read)(form.example).is_some());
            assert!(Source::parse(form.example).is_ok());
        }
    }

    /// A link as a target may write it, and its target if it is the next page.
    fn link() -> impl Strategy<Value = (String, Option<String>)> {
        let parameter = prop_oneof![
            Just("title=\"a, <b>; rel=\\\"next\\\"\"".to_owned()),
            Just("title*=UTF-8''x".to_owned()),
            Just("type=text/html".to_owned()),
            Just("flag".to_owned()),
            "[a-z]{1,5} ?= ?\"[a-z,;<>=/ ]{0,9}\""
                .prop_filter("no relation", |it| !it.starts_with("rel")),
        ];
        let relation = prop::sample::select(vec![
            ("rel=next", true),
            ("REL=\"next\"", true),
            ("rel=\"last NEXT\"", true),
            ("rel = \"ne\\xt\"", true),
            ("rel=prev", false),
            ("rel=\"nextish\"", false),
            ("rev=next", false),
            ("rel=prev; rel=next", false),
        ]);
        let parameters = prop::collection::vec(parameter, 0..3);
        (
            "[a-z/?=,;&%\"]{0,12}",
            parameters.clone(),
            relation,
            parameters,
        )
            .prop_map(|(target, before, (relation, is_next), after)| {
                let all = before.into_iter().chain([relation.to_owned()]).chain(after);
                let all: Vec<_> = all.collect();
                (
                    format!("<{target}>; {}", all.join(" ; ")),
                    is_next.then_some(target),
                )
            })
    }

    proptest! {
        #[test]
        fn the_next_link_is_that_of_the_relation(links in prop::collection::vec(link(), 0..5), separator in ", ?| , ,") {
            let text: Vec<_> = links.iter().map(|(link, _)| link.as_str()).collect();
            let next = links.iter().find_map(|(_, next)| next.clone());
            prop_assert_eq!(next_link(&text.join(&separator)), next);
        }

        #[test]
        fn no_text_makes_it_panic(links in "[<>;,=\" \\\\relnxt]{0,40}|\\PC{0,30}", from in "(json:|header:|regex:|/)?[a-z/*:{}(]{0,12}", body in "[\\[\\]{}\":,a0\\\\n]{0,40}") {
            let _ = next_link(&links);
            let _ = take_with(&from, &[("x", &links)], &body, true);
            if Takes::new([].into_iter(), Some(&from), Some(2)).is_ok() {
                let _ = next(&from, &body);
            }
        }
    }
}
