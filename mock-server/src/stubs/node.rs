//! One place in a mapping file: a JSON value and its JSON pointer, so that every problem with it is
//! reported with its place. All code that reads mapping files uses it.
//!
//! It must not know what a stub is.

use super::text::{self, Document};
use crate::text::{MAX_HOLD, Words, list, meaning};
use serde::ser::{Error as _, SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Number, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;
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

/// A value and its place.
#[derive(Clone, Debug)]
pub(crate) struct Node<'v> {
    value: &'v Value,
    pointer: String,
    numbers: Option<&'v BTreeMap<String, String>>,
}

impl<'v> Node<'v> {
    /// A whole document that was made here.
    pub(crate) fn root(value: &'v Value) -> Self {
        Self {
            value,
            pointer: String::new(),
            numbers: None,
        }
    }

    /// A whole document that was read.
    pub(crate) fn of(document: &'v Document) -> Self {
        Self {
            numbers: Some(&document.numbers),
            ..Self::root(&document.value)
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

    /// A text, to keep.
    pub(crate) fn owned_text(&self) -> Result<String, Problem> {
        self.text().map(str::to_owned)
    }

    /// A number.
    pub(crate) fn number(&self) -> Result<f64, Problem> {
        self.value.as_f64().ok_or_else(|| self.expected("a number"))
    }

    /// True if the field `key` of an object says true; absent is false. The texts "true" and
    /// "false" will do, as they do for WireMock.
    pub(crate) fn is_set(&self, key: &str) -> Result<bool, Problem> {
        let set = self.read(key, |field| {
            let text = field.scalar()?;
            text.parse().map_err(|_| field.expected("true or false"))
        });
        Ok(set?.unwrap_or(false))
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

    /// Refuse every field of an object that is not among `known`, names with a space between, `null`
    /// or not: WireMock refuses them, too, and a field that is misspelt would otherwise be an answer
    /// that is quietly not the one asked for.
    pub(crate) fn only(&self, known: &str) -> Result<(), Problem> {
        for (key, field) in self.fields()? {
            if !known.split(' ').any(|known| known == key) {
                return Err(field.malformed(unknown_field(key, known)));
            }
        }
        Ok(())
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
        Self {
            value,
            pointer: text::child(&self.pointer, token),
            numbers: self.numbers,
        }
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

    /// Read all elements of an array.
    pub(crate) fn list<T>(
        &self,
        read: impl Fn(&Self) -> Result<T, Problem>,
    ) -> Result<Vec<T>, Problem> {
        self.elements()?.map(|element| read(&element)).collect()
    }

    /// Read one of some words.
    pub(crate) fn choice<T: Copy>(&self, what: &str, words: &Words<T>) -> Result<T, Problem> {
        let given = self.text()?;
        meaning(words, given).ok_or_else(|| {
            let right = list(words);
            self.malformed(format!("`{given}` is not a valid {what}: write {right}"))
        })
    }

    /// The digits of a number as they were written.
    pub(crate) fn digits(&self, number: &Number) -> String {
        let kept = self.numbers.and_then(|numbers| numbers.get(&self.pointer));
        kept.cloned()
            .unwrap_or_else(|| text::plain(&number.to_string()))
    }

    /// A text, or a number or a truth value as the text that stands in the file, as Jackson reads
    /// it where a text is asked for.
    pub(crate) fn scalar(&self) -> Result<Cow<'v, str>, Problem> {
        match self.value {
            Value::Number(number) => Ok(Cow::Owned(self.digits(number))),
            Value::Bool(truth) => Ok(Cow::Borrowed(if *truth { "true" } else { "false" })),
            _ => self.text().map(Cow::Borrowed),
        }
    }

    /// A whole number of 32 bits; from a fraction its whole part, from a text the number that it
    /// spells, as Jackson does.
    pub(crate) fn whole(&self) -> Result<i32, Problem> {
        let wide = match self.value {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "a float is cut off and saturates, and is judged after"
            )]
            Value::Number(number) => number
                .as_i64()
                .or_else(|| number.as_f64().map(|number| number as i64)),
            Value::String(text) => text.trim().parse().ok(),
            _ => return Err(self.expected("a whole number")),
        };
        wide.and_then(|wide| i32::try_from(wide).ok())
            .ok_or_else(|| self.malformed("expected a whole number of 32 bits"))
    }

    /// A delay in whole milliseconds, up to [`MAX_HOLD`].
    pub(crate) fn milliseconds(&self) -> Result<u32, Problem> {
        let whole = self.whole()?;
        self.as_delay(whole.into())?;
        Ok(whole.unsigned_abs())
    }

    /// A delay in milliseconds, up to [`MAX_HOLD`].
    pub(crate) fn delay(&self) -> Result<f64, Problem> {
        self.as_delay(self.number()?)
    }

    fn as_delay(&self, milliseconds: f64) -> Result<f64, Problem> {
        let most = MAX_HOLD.as_secs_f64() * 1000.0;
        if (0.0..=most).contains(&milliseconds) {
            return Ok(milliseconds);
        }
        Err(self.malformed(format!(
            "a delay of {milliseconds} ms is not from 0 to {most} ms, an hour"
        )))
    }
}

/// Members in the order of the file, numbers with their digits.
impl Serialize for Node<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.value() {
            Value::Number(number) => {
                let digits = RawValue::from_string(self.digits(number));
                digits.map_err(S::Error::custom)?.serialize(serializer)
            }
            Value::Array(elements) => {
                let mut list = serializer.serialize_seq(Some(elements.len()))?;
                for element in self.elements().into_iter().flatten() {
                    list.serialize_element(&element)?;
                }
                list.end()
            }
            Value::Object(fields) => {
                let mut map = serializer.serialize_map(Some(fields.len()))?;
                for (name, field) in self.fields().into_iter().flatten() {
                    map.serialize_entry(name, &field)?;
                }
                map.end()
            }
            other => other.serialize(serializer),
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
    use proptest::prelude::*;
    use serde_json::json;

    fn rewritten(given: &str) -> String {
        serde_json::to_string(&Node::of(&text::parse(given.as_bytes()).unwrap())).unwrap()
    }

    /// As WireMock 3.13.2 answers a `jsonBody`.
    #[test]
    fn json_is_written_in_its_order_and_numbers_keep_their_digits() {
        for (given, expected) in [
            (
                r#" { "b" : 1 , "a" : [ 1.0, -2.5, null, true ] } "#,
                r#"{"b":1,"a":[1.0,-2.5,null,true]}"#,
            ),
            (r#"{"z":1.0,"a":2,"z":3}"#, r#"{"z":3,"a":2}"#),
            (r#"{"z":1.50,"z":1}"#, r#"{"z":1}"#),
            ("[1.50, 1.10, 100]", "[1.50,1.10,100]"),
            (
                "[1e3, 1E+2, 1.5e2, 0.1e1, -1.5e3]",
                "[1000,100,150,1,-1500]",
            ),
            ("[1.0e-7, 1e-3, 12.30E-2]", "[0.00000010,0.001,0.1230]"),
            ("[-0.0, -0, 0e5, 0.000]", "[0.0,0,0,0.000]"),
            ("12345678901234567890", "12345678901234567890"),
            ("100000000000000000000", "100000000000000000000"),
            (
                "0.10000000000000000000000001",
                "0.10000000000000000000000001",
            ),
        ] {
            assert_eq!(rewritten(given), expected, "{given}");
        }
        assert!(text::parse(b"[1, 1e400]").is_err_and(|error| error.column == 5));
    }

    proptest! {
        #[test]
        fn what_is_written_is_the_same_value(float in any::<f64>().prop_filter("JSON", |float| float.is_finite()), text in "\\PC*") {
            let value = json!({"number": float, "text": text});
            let back: Value = serde_json::to_value(Node::root(&value)).unwrap();
            prop_assert_eq!(back["number"].as_f64(), Some(float));
            prop_assert_eq!(&back["text"], &value["text"]);
        }
    }
}
