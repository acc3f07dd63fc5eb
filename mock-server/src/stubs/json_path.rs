//! JSON paths: `matchesJsonPath` (`matching/MatchesJsonPathPattern.java`), and `jsonPath` in
//! templates.
//!
//! A library for RFC 9535 reads and follows them, where WireMock has Jayway's `JsonPath`. The two
//! agree on most paths; one on which they do not is refused.
//!
//! It must not know where a document comes from.

use super::node::{Node, Problem, ValueProblem};
use jsonpath_rust::parser::model::{JpQuery, Segment, Selector};
use jsonpath_rust::parser::parse_json_path;
use jsonpath_rust::query::js_path_process;
use serde_json::Value;
use std::borrow::Cow;

/// A path, compiled.
#[derive(Clone, Debug)]
pub(crate) struct JsonPath {
    /// The path, cut in front of each filter.
    parts: Vec<JpQuery>,
    /// True if it leads to one place at most.
    is_definite: bool,
}

impl JsonPath {
    /// Reads the text of a path.
    pub(crate) fn read(node: &Node<'_>) -> Result<Self, Problem> {
        Self::parse(node.text()?).map_err(|what| node.problem(what))
    }

    /// Compile a path.
    pub(crate) fn parse(text: &str) -> Result<Self, ValueProblem> {
        let refused = || ValueProblem::Unsupported(format!("the JSON path `{text}`"));
        let segments = parse_json_path(text).map_err(|_| refused())?.segments;
        if !segments.iter().all(means_the_same) {
            return Err(refused());
        }
        let mut path = Self {
            parts: vec![JpQuery::new(Vec::new())],
            is_definite: segments.iter().all(|segment| {
                matches!(
                    segment,
                    Segment::Selector(Selector::Name(_) | Selector::Index(_))
                )
            }),
        };
        for segment in segments {
            match path.parts.last_mut() {
                Some(part) if !matches!(segment, Segment::Selector(Selector::Filter(_))) => {
                    part.segments.push(segment);
                }
                _ => path.parts.push(JpQuery::new(vec![segment])),
            }
        }
        Ok(path)
    }

    /// Return what the path leads to: of a path to one place what is there, `null` if nothing is;
    /// of any other a list.
    pub(crate) fn find(&self, document: &Value) -> Value {
        let [first, others @ ..] = &self.parts[..] else {
            return Value::Null;
        };
        let mut found = values(first, document);
        for part in others {
            // To Jayway a filter for an object is about the object itself; in the standard it is
            // about its members.
            found = found
                .into_iter()
                .map(|value| match value {
                    object @ Value::Object(_) => Value::Array(vec![object]),
                    other => other,
                })
                .flat_map(|value| values(part, &value))
                .collect();
        }
        if self.is_definite {
            found.pop().unwrap_or_default()
        } else {
            Value::Array(found)
        }
    }
}

fn values(path: &JpQuery, document: &Value) -> Vec<Value> {
    let found = js_path_process(path, document).unwrap_or_default();
    found.into_iter().map(|found| found.val().clone()).collect()
}

/// True if Jayway finds the same with a segment: it makes an object of several names, knows no
/// steps, and looks for filters behind `..` in other places. `$` within a filter would mean a part
/// of the document.
fn means_the_same(segment: &Segment) -> bool {
    match segment {
        Segment::Descendant(inner) => {
            matches!(
                **inner,
                Segment::Selector(Selector::Name(_) | Selector::Index(_) | Selector::Wildcard)
            )
        }
        Segment::Selectors(several) => several.iter().all(|one| matches!(one, Selector::Index(_))),
        Segment::Selector(Selector::Filter(filter)) => !filter.to_string().contains('$'),
        Segment::Selector(Selector::Slice(_, _, step)) => step.is_none(),
        Segment::Selector(Selector::Name(_) | Selector::Index(_) | Selector::Wildcard) => true,
    }
}

/// Read a text as Jayway's reader does: what is no JSON, nor begins like an object or an array, is
/// a text.
pub(crate) fn document(text: &str) -> Option<Value> {
    match serde_json::from_str(text) {
        Ok(json) => Some(json),
        Err(_) if text.trim_start().starts_with(['{', '[']) => None,
        Err(_) => Some(Value::String(text.to_owned())),
    }
}

/// A value as Java's `toString` writes it; arrays and objects as JSON.
pub(crate) fn java_text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        Value::Number(number) if number.is_f64() => {
            Cow::Owned(java_double(number.as_f64().unwrap_or_default()))
        }
        other => Cow::Owned(other.to_string()),
    }
}

/// Java's `Double.toString` of a number of JSON: the shortest digits, with an exponent below 10^-3
/// and from 10^7 on.
pub(crate) fn java_double(real: f64) -> String {
    if real == 0.0 || (1e-3..1e7).contains(&real.abs()) {
        return format!("{real:?}");
    }
    let text = format!("{real:e}");
    match text.split_once('e') {
        Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0E{exponent}"),
        _ => text.replace('e', "E"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_lead_where_jayway_goes() {
        let store = json!({
            "book": [{"title": "A", "price": 8.95, "isbn": "1"}, {"title": "B", "price": 22}, {"title": "C", "isbn": null}],
            "bicycle": {"colour": "red", "tags": []}, "none": null,
        });
        for (path, expected) in [
            ("$.bicycle.colour", json!("red")),
            ("$['bicycle']['colour']", json!("red")),
            ("$.book[0].title", json!("A")),
            ("$.book[-1].title", json!("C")),
            ("$.book[7].title", json!(null)),
            ("$.none", json!(null)),
            ("$.bicycle.tags", json!([])),
            ("$.book[*].title", json!(["A", "B", "C"])),
            ("$.book[0,1].title", json!(["A", "B"])),
            ("$.book[1:].title", json!(["B", "C"])),
            ("$..colour", json!(["red"])),
            ("$..nothing", json!([])),
            ("$.book[?(@.price < 10)].title", json!(["A"])),
            ("$.book[?(@.isbn)].title", json!(["A", "C"])),
            (
                "$.book[?(@.title == 'B' || @.price == 8.95)].title",
                json!(["A", "B"]),
            ),
            ("$..book[?(!@.isbn)].title", json!(["B"])),
            // An object is asked about itself, not about its members.
            ("$.bicycle[?(@.colour == 'red')].colour", json!(["red"])),
            ("$[?(@.bicycle)].bicycle.colour", json!(["red"])),
            ("$.bicycle.colour[?(@ == 'red')]", json!([])),
        ] {
            assert_eq!(
                JsonPath::parse(path).unwrap().find(&store),
                expected,
                "{path}"
            );
        }
    }

    #[test]
    fn other_paths_are_refused() {
        for path in [
            "",
            "a",
            "$.",
            "$['a','b']",
            "$.a[0:3:2]",
            "$..[?(@.a)]",
            "$.a.length()",
            "$.a[?(@.b =~ /c/)]",
            "$.a[?(@.b == $.c)]",
            "$.a[?(@.b.size() == 2)]",
        ] {
            let refused = JsonPath::parse(path).unwrap_err();
            assert_eq!(
                refused,
                ValueProblem::Unsupported(format!("the JSON path `{path}`"))
            );
        }
    }
}
