//! One place in a mapping file: a JSON value and its JSON pointer, so that every problem with it is
//! reported with its place. All code that reads mapping files uses it.
//!
//! It must not know what a stub is.

use crate::text::{Words, list, meaning};
use jsonc_parser::{CollectOptions, ParseOptions, ast, parse_to_ast};
use serde::Deserialize;
use serde_json::{Number, Value};
use std::fmt;

/// Problem at one place of a mapping file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {what}", place(pointer))]
pub struct Problem {
    /// Place, as a JSON pointer (RFC 6901) into the file; empty for the whole document.
    pub pointer: String,
    /// The problem.
    pub what: ValueProblem,
}

pub(crate) fn place(pointer: &str) -> &str {
    if pointer.is_empty() {
        "the whole document"
    } else {
        pointer
    }
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

/// JSON as WireMock reads it: with comments and texts in single quotes (Jackson's `ALLOW_COMMENTS`
/// and `ALLOW_SINGLE_QUOTES`, set in its `common/Json.java`). Each liberty is named, so that a new
/// version of the parser cannot bring a new one unseen.
const LIBERTIES: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_single_quoted_strings: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: false,
    allow_missing_commas: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// Read JSON, or say where it is none. Of fields that come twice the last one counts, as for
/// Jackson. A number in the `jsonBody` of a response keeps its digits: [`with_digits`] gives them
/// back.
pub(crate) fn parse_json(text: &[u8]) -> Result<Value, String> {
    let text = str::from_utf8(text).map_err(|error| format!("not UTF-8: {error}"))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let parsed = parse_to_ast(text, &CollectOptions::default(), &LIBERTIES).map_err(|error| {
        let (line, column) = (error.line_display(), error.column_display());
        format!("line {line}, column {column}: {}", error.kind())
    })?;
    parsed
        .value
        .map_or(Ok(Value::Null), |value| value_of(value, "", false))
}

/// Stands before the digits of a number that is kept as a text. No character of Unicode.
const DIGITS: &str = "\u{fdd0}";

/// The same where a text of JSON begins.
const QUOTED_DIGITS: &str = "\"\u{fdd0}";

/// `key` is that of the value's field.
fn value_of(parsed: ast::Value<'_>, key: &str, is_body: bool) -> Result<Value, String> {
    Ok(match parsed {
        ast::Value::StringLit(text) => text.value.into(),
        ast::Value::BooleanLit(literal) => literal.value.into(),
        ast::Value::NullKeyword(_) => Value::Null,
        ast::Value::Array(array) => array
            .elements
            .into_iter()
            .map(|value| value_of(value, "", is_body))
            .collect::<Result<_, _>>()?,
        ast::Value::Object(object) => {
            let fields = object.properties.into_iter().map(|field| {
                let name = field.name.into_string();
                let is_body = is_body || key == "response" && name == "jsonBody";
                let value = value_of(field.value, &name, is_body)?;
                Ok((name, value))
            });
            Value::Object(fields.collect::<Result<_, String>>()?)
        }
        ast::Value::NumberLit(number) if is_body => format!("{DIGITS}{}", number.value).into(),
        ast::Value::NumberLit(number) => {
            let read = number.value.parse::<Number>();
            read.map_err(|error| format!("`{}`: {error}", number.value))?
                .into()
        }
    })
}

/// Give the numbers in a text of JSON that [`parse_json`] read their digits back.
pub(crate) fn with_digits(json: &str) -> String {
    let mut parts = json.split(QUOTED_DIGITS);
    let mut written = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (digits, rest) = part.split_once('"').unwrap_or((part, ""));
        written.push_str(digits);
        written.push_str(rest);
    }
    written
}

/// A value and its place.
#[derive(Clone, Debug)]
pub(crate) struct Node<'v> {
    value: &'v Value,
    pointer: String,
}

impl<'v> Node<'v> {
    /// A whole document.
    pub(crate) fn root(value: &'v Value) -> Self {
        Self::at(value, String::new())
    }

    /// A value at a place of a document.
    pub(crate) fn at(value: &'v Value, pointer: String) -> Self {
        Self { value, pointer }
    }

    /// The value itself.
    pub(crate) fn value(&self) -> &'v Value {
        self.value
    }

    /// Return its place: a JSON pointer (RFC 6901).
    pub(crate) fn pointer(&self) -> &str {
        &self.pointer
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
            return Err(self.malformed("expected an object"));
        };
        Ok(fields
            .iter()
            .map(|(key, value)| (key.as_str(), self.child(value, key))))
    }

    /// Read all elements of an array.
    pub(crate) fn list<T>(
        &self,
        read: impl Fn(&Self) -> Result<T, Problem>,
    ) -> Result<Vec<T>, Problem> {
        let Value::Array(elements) = self.value else {
            return Err(self.malformed("expected an array"));
        };
        elements
            .iter()
            .enumerate()
            .map(|(index, value)| read(&self.child(value, &index.to_string())))
            .collect()
    }

    fn child(&self, value: &'v Value, token: &str) -> Self {
        let token = token.replace('~', "~0").replace('/', "~1");
        Self {
            value,
            pointer: format!("{}/{token}", self.pointer),
        }
    }

    /// The value as a text, a number or any other type.
    pub(crate) fn to<T: Deserialize<'v>>(&self) -> Result<T, Problem> {
        T::deserialize(self.value).map_err(|error| self.malformed(error.to_string()))
    }

    /// A text.
    pub(crate) fn text(&self) -> Result<&'v str, Problem> {
        self.to()
    }

    /// True if the field `key` of an object is true; absent is false.
    pub(crate) fn is_set(&self, key: &str) -> Result<bool, Problem> {
        Ok(self.read(key, Self::to)?.unwrap_or(false))
    }

    /// One of some words.
    pub(crate) fn choice<T: Copy>(&self, what: &str, words: &Words<T>) -> Result<T, Problem> {
        let given = self.text()?;
        meaning(words, given).ok_or_else(|| {
            let right = list(words);
            self.malformed(format!("`{given}` is not a valid {what}: write {right}"))
        })
    }

    /// Read the field `key`, if it is there and not `null`.
    pub(crate) fn read<T>(
        &self,
        key: &str,
        read: impl FnOnce(&Self) -> Result<T, Problem>,
    ) -> Result<Option<T>, Problem> {
        self.get(key).map(|field| read(&field)).transpose()
    }

    /// Read the field `key`, which must be there.
    pub(crate) fn need<T>(
        &self,
        key: &str,
        read: impl FnOnce(&Self) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        self.read(key, read)?
            .ok_or_else(|| self.malformed(format!("the field {key} is missing")))
    }

    /// Refuse every field of an object that is not among `known`, names with a space between, `null`
    /// or not: WireMock refuses them, too, and a field that is misspelt would otherwise be an answer
    /// that is quietly not the one asked for. Refuse fields of `features` that are not served, unless
    /// nothing is in them.
    pub(crate) fn only(&self, known: &str, features: &[&str]) -> Result<(), Problem> {
        for (key, field) in self.fields()? {
            if features.contains(&key) {
                if !field.is_empty() {
                    return Err(field.unsupported(format!("`{key}`")));
                }
            } else if !known.split(' ').any(|known| known == key) {
                let known = known.trim().replace(' ', ", ");
                // A text of megabytes may stand there.
                let key: String = key.chars().take(64).collect();
                return Err(field.malformed(format!("unknown field `{key}`; known here: {known}")));
            }
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        match self.value {
            Value::String(text) => text.is_empty(),
            Value::Array(elements) => elements.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            Value::Null => true,
            _ => false,
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_problem_has_the_place_of_its_value() {
        let value = json!({"a/b": [{"c~": 1}, null]});
        let root = Node::root(&value);
        let list = root.get("a/b").unwrap();
        let problem = list.list(|one| one.need("c~", Node::text)).unwrap_err();
        assert_eq!(problem.pointer, "/a~1b/0/c~0");
        assert_eq!(root.only("a b", &[]).unwrap_err().pointer, "/a~1b");
        assert!(root.only("x a/b", &[]).is_ok());
        let problem = root.only("x", &["host"]).unwrap_err();
        assert!(!problem.to_string().contains("host"), "{problem}");
    }

    #[test]
    fn numbers_of_a_body_keep_their_digits() {
        let text = r#"{"response":{"jsonBody":{"a":[1.50,1e3,-0.0,12345678901234567890123],"b":"1.50"}},"jsonBody":1.50}"#;
        let read = parse_json(text.as_bytes()).unwrap();
        assert_eq!(read["jsonBody"], json!(1.5), "of a pattern");
        assert_eq!(
            with_digits(&read.to_string()),
            text.replace("\"jsonBody\":1.50", "\"jsonBody\":1.5")
        );
    }

    #[test]
    fn json_is_read_with_jacksons_liberties_and_no_others() {
        let read = |text: &str| parse_json(text.as_bytes());
        let text = "\u{feff}// one\n{'a': 'it\\'s', /* two */ \"b\": 1, \"b\": 2}";
        assert_eq!(read(text), Ok(json!({"a": "it's", "b": 2})));
        for wrong in [
            "{a: 1}", "[1,]", "[1 2]", "[0x1]", "[+1]", "[.5]", "[1e999]", "{} {}",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert!(
            read("{\n  \"a\": }")
                .unwrap_err()
                .starts_with("line 2, column 8")
        );
        assert!(parse_json(b"\"\xff\"").is_err());
        assert!(read(&"[".repeat(100_000)).is_err());
    }
}
