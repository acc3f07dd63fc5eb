//! One place in a mapping file: a JSON value and its JSON pointer, so that every problem with it is
//! reported with its place. All code that reads mapping files uses it.
//!
//! It must not know what a stub is.

use serde_json::Value;
use std::fmt;

/// Problem at one place of a mapping file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {what}", if pointer.is_empty() { "the whole document" } else { pointer })]
pub struct Problem {
    /// Place, as a JSON pointer (RFC 6901) into the file; empty for the whole document.
    pub pointer: String,
    /// The problem.
    pub what: ValueProblem,
}

/// Problem with a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueProblem {
    /// Not what WireMock's format asks for. WireMock would refuse it or misread it, too.
    Malformed(String),
    /// A feature of WireMock that is not served here.
    Unsupported(String),
}

impl fmt::Display for ValueProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(what) => f.write_str(what),
            Self::Unsupported(feature) => write!(f, "{feature} is not supported"),
        }
    }
}

/// A value and its place.
#[derive(Clone, Debug)]
pub(crate) struct Node<'v> {
    value: &'v Value,
    pointer: String,
}

impl<'v> Node<'v> {
    /// The whole document.
    pub(crate) fn root(value: &'v Value) -> Self {
        Self {
            value,
            pointer: String::new(),
        }
    }

    /// The value itself.
    pub(crate) fn value(&self) -> &'v Value {
        self.value
    }

    /// Return its place: a JSON pointer (RFC 6901).
    pub(crate) fn pointer(&self) -> &str {
        &self.pointer
    }

    /// Return the number of values that hold this one.
    pub(crate) fn depth(&self) -> usize {
        self.pointer.matches('/').count()
    }

    /// The field `key` of an object. `null` counts as absent, as it does for WireMock; so does any
    /// field of a value that is no object.
    pub(crate) fn get(&self, key: &str) -> Option<Self> {
        let value = self.value.get(key).filter(|value| !value.is_null())?;
        Some(self.child(value, key))
    }

    /// The fields of an object, `null`s included.
    pub(crate) fn fields(
        &self,
    ) -> Result<impl Iterator<Item = (&'v str, Self)> + use<'v, '_>, Problem> {
        let Value::Object(fields) = self.value else {
            return Err(self.expected("an object"));
        };
        Ok(fields
            .iter()
            .map(|(key, value)| (key.as_str(), self.child(value, key))))
    }

    /// The elements of an array.
    pub(crate) fn elements(&self) -> Result<impl Iterator<Item = Self> + use<'v, '_>, Problem> {
        let Value::Array(elements) = self.value else {
            return Err(self.expected("an array"));
        };
        Ok(elements
            .iter()
            .enumerate()
            .map(|(index, value)| self.child(value, &index.to_string())))
    }

    /// A text.
    pub(crate) fn text(&self) -> Result<&'v str, Problem> {
        self.value.as_str().ok_or_else(|| self.expected("a text"))
    }

    /// A whole number of 64 bits.
    pub(crate) fn integer(&self) -> Result<i64, Problem> {
        self.value
            .as_i64()
            .ok_or_else(|| self.expected("a whole number"))
    }

    /// A number.
    pub(crate) fn number(&self) -> Result<f64, Problem> {
        self.value.as_f64().ok_or_else(|| self.expected("a number"))
    }

    /// `true` or `false`.
    pub(crate) fn truth(&self) -> Result<bool, Problem> {
        self.value
            .as_bool()
            .ok_or_else(|| self.expected("true or false"))
    }

    /// True if the field `key` of an object says true; absent is false. The texts "true" and
    /// "false" will do, as they do for WireMock.
    pub(crate) fn is_set(&self, key: &str) -> Result<bool, Problem> {
        match self.get(key) {
            None => Ok(false),
            Some(field) => match field.value {
                Value::String(text) if text == "true" => Ok(true),
                Value::String(text) if text == "false" => Ok(false),
                _ => field.truth(),
            },
        }
    }

    /// The value is not what the format asks for.
    pub(crate) fn malformed(&self, what: impl Into<String>) -> Problem {
        self.problem(ValueProblem::Malformed(what.into()))
    }

    /// The value asks for something that is not served here; `feature` reads before "is not
    /// supported".
    pub(crate) fn unsupported(&self, feature: impl Into<String>) -> Problem {
        self.problem(ValueProblem::Unsupported(feature.into()))
    }

    /// Give a problem with the value its place.
    pub(crate) fn problem(&self, what: ValueProblem) -> Problem {
        Problem {
            pointer: self.pointer.clone(),
            what,
        }
    }

    /// Return the fields of an object that are not among `known`, names with a space between, each
    /// as a problem that says which known field is like it.
    pub(crate) fn unknown_fields(&self, known: &str) -> Result<Vec<Problem>, Problem> {
        let unknown = self
            .fields()?
            .filter(|(key, _)| !known.split(' ').any(|known| known == *key));
        Ok(unknown
            .map(|(key, field)| field.malformed(unknown_field(key, known)))
            .collect())
    }

    /// Refuse every field of an object that is not among `known`, `null` or not: WireMock refuses
    /// them, too, and a field that is misspelt would otherwise be an answer that is quietly not the
    /// one asked for.
    pub(crate) fn only(&self, known: &str) -> Result<(), Problem> {
        self.unknown_fields(known)?
            .into_iter()
            .next()
            .map_or(Ok(()), Err)
    }

    /// True for a text, an array or an object with nothing in it.
    pub(crate) fn is_empty(&self) -> bool {
        match self.value {
            Value::String(text) => text.is_empty(),
            Value::Array(elements) => elements.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            _ => false,
        }
    }

    fn expected(&self, what: &str) -> Problem {
        let found = match self.value {
            Value::Null => "null",
            Value::Bool(_) => "true or false",
            Value::Number(_) => "a number",
            Value::String(_) => "a text",
            Value::Array(_) => "an array",
            Value::Object(_) => "an object",
        };
        self.malformed(format!("expected {what}, found {found}"))
    }

    fn child(&self, value: &'v Value, token: &str) -> Self {
        let token = token.replace('~', "~0").replace('/', "~1");
        Self {
            value,
            pointer: format!("{}/{token}", self.pointer),
        }
    }
}

/// Problems of several values, gathered so that a reader of mapping files can name them all at
/// once.
#[derive(Debug, Default)]
pub(crate) struct Problems(Vec<Problem>);

impl Problems {
    /// Keeps the problem, or passes the value on.
    pub(crate) fn take<T>(&mut self, read: Result<T, Problem>) -> Option<T> {
        read.map_err(|problem| self.0.push(problem)).ok()
    }

    /// Keeps the problems, or passes the value on.
    pub(crate) fn take_all<T>(&mut self, read: Result<T, Vec<Problem>>) -> Option<T> {
        read.map_err(|problems| self.0.extend(problems)).ok()
    }

    /// Keeps the problems of unknown fields.
    pub(crate) fn unknown_fields(&mut self, node: &Node<'_>, known: &str) {
        let unknown = self.take(node.unknown_fields(known));
        self.0.extend(unknown.into_iter().flatten());
    }

    /// The value, if nothing was wrong.
    pub(crate) fn or<T>(self, value: Option<T>) -> Result<T, Vec<Problem>> {
        match value {
            Some(value) if self.0.is_empty() => Ok(value),
            _ => Err(self.0),
        }
    }
}

/// Names an unknown field and the known ones that it may have been meant for: the alike, or all of
/// them.
fn unknown_field(key: &str, known: &str) -> String {
    // No field has so long a name; measuring a text of megabytes would take its time.
    let shown: String = key.chars().take(64).collect();
    let lower = shown.to_lowercase();
    let likeness =
        |name: &str| strsim::normalized_damerau_levenshtein(&lower, &name.to_lowercase());
    let alike: Vec<&str> = known
        .split(' ')
        .filter(|name| likeness(name) > 0.6)
        .collect();
    match alike.as_slice() {
        [] => format!(
            "unknown field `{shown}`; known here: {}",
            known.replace(' ', ", ")
        ),
        alike => format!(
            "unknown field `{shown}`; did you mean {}?",
            alike.join(" or ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_problem_names_its_place() {
        let document = json!({"mappings": [{"request": {"url/path": 3, "none": null}}]});
        let root = Node::root(&document);
        let stub = root
            .get("mappings")
            .unwrap()
            .elements()
            .unwrap()
            .next()
            .unwrap();
        let request = stub.get("request").unwrap();
        assert!(request.get("none").is_none());
        let problem = request.get("url/path").unwrap().text().unwrap_err();
        assert_eq!(
            problem.to_string(),
            "/mappings/0/request/url~1path: expected a text, found a number"
        );
        assert_eq!(
            root.elements().err().unwrap().to_string(),
            "the whole document: expected an array, found an object"
        );
        let unsupported = request.unsupported("a custom matcher");
        assert_eq!(
            unsupported.to_string(),
            "/mappings/0/request: a custom matcher is not supported"
        );
        assert_eq!(request.get("url/path").unwrap().depth(), 4);
        let numbers = json!({"float": 1.5, "whole": 2});
        let number = |key| Node::root(&numbers).get(key).unwrap().number().unwrap();
        assert_eq!(
            [number("float"), number("whole")].map(|number| number.to_string()),
            ["1.5", "2"]
        );
        // What a pointer says, serde_json finds.
        assert_eq!(
            document.pointer(request.get("url/path").unwrap().pointer()),
            Some(&json!(3))
        );
    }

    #[test]
    fn unknown_fields_are_named_with_what_may_have_been_meant() {
        let document = json!({"urlPaht": "/", "zebra": 1, "url": "/", "URLPATH": null});
        let known = "url urlPath urlPathPattern";
        let mut problems = Problems::default();
        problems.unknown_fields(&Node::root(&document), known);
        problems.unknown_fields(&Node::root(&json!([])), known);
        let said: Vec<_> = problems
            .or(Some(()))
            .unwrap_err()
            .iter()
            .map(ToString::to_string)
            .collect();
        let expected = [
            "/urlPaht: unknown field `urlPaht`; did you mean urlPath?",
            "/zebra: unknown field `zebra`; known here: url, urlPath, urlPathPattern",
            "/URLPATH: unknown field `URLPATH`; did you mean urlPath?",
            "the whole document: expected an object, found an array",
        ];
        assert_eq!(said, expected);
    }
}
