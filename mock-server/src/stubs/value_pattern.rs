//! Patterns for a value of a request: `{"equalTo": "x"}` and its kin
//! (`matching/StringValuePatternJsonDeserializer.java` and the classes that it names;
//! `matching/MultiValuePatternDeserializer.java`).
//!
//! It must not know which value of the request it is given.

use super::json_path::{JsonPath, document, java_text};
use super::json_pattern::JsonPattern;
use super::json_schema::JsonSchema;
use super::node::{Node, Problem, parse_json};
use super::whole_regex::WholeRegex;
use crate::text::BASE64;
use base64::Engine;
use serde_json::Value;
use std::borrow::Cow;
use std::cell::OnceCell;
use std::fmt;
use std::sync::Arc;

/// A value that may be there or not, and the JSON in it, read when first asked for.
#[derive(Debug, Default)]
pub(crate) struct Subject<'t> {
    text: Option<Cow<'t, str>>,
    /// The bytes that the text was read from, where that may have lost some.
    raw: Option<&'t [u8]>,
    json: OnceCell<Option<Value>>,
}

impl<'t> Subject<'t> {
    /// A value that is there.
    pub(crate) fn new(text: impl Into<Cow<'t, str>>) -> Self {
        Self::maybe(Some(text))
    }

    /// A value that may be there.
    pub(crate) fn maybe(text: Option<impl Into<Cow<'t, str>>>) -> Self {
        Self {
            text: text.map(Into::into),
            raw: None,
            json: OnceCell::new(),
        }
    }

    /// A body: as text an empty one is absent, and any other UTF-8.
    pub(crate) fn body(bytes: &'t [u8]) -> Self {
        let text = (!bytes.is_empty()).then(|| String::from_utf8_lossy(bytes));
        Self {
            raw: Some(bytes),
            ..Self::maybe(text)
        }
    }

    fn bytes(&self) -> Option<&[u8]> {
        self.raw.or(self.text.as_deref().map(str::as_bytes))
    }

    fn json(&self) -> Option<&Value> {
        self.json
            .get_or_init(|| {
                let text = self.text.as_deref()?;
                // The strict reader is the faster one, and most bodies are strict.
                serde_json::from_str(text)
                    .ok()
                    .or_else(|| parse_json(text.as_bytes()).ok())
            })
            .as_ref()
    }

    /// True if `path` leads to something, or, with a pattern, to something that fits it.
    fn leads(&self, path: &JsonPath, pattern: Option<&ValuePattern>) -> bool {
        let found = match (self.json(), self.text.as_deref()) {
            (Some(Value::Null), _) => return false,
            (Some(json), _) => path.find(json),
            (None, Some(text)) => match document(text) {
                Some(text)
                    if !text
                        .as_str()
                        .is_some_and(|text| text.trim_start().starts_with('<')) =>
                {
                    path.find(&text)
                }
                _ => return false,
            },
            (None, None) => Value::Null,
        };
        let texts: Vec<_> = match (&found, pattern) {
            (Value::Null, _) => Vec::new(),
            (Value::Object(fields), None) => fields.keys().map(Cow::from).collect(),
            (Value::Array(_), Some(pattern)) if matches!(pattern.kind, Kind::EqualToJson) => {
                vec![java_text(&found)]
            }
            (Value::Array(elements), _) => elements.iter().map(java_text).collect(),
            _ => vec![java_text(&found)],
        };
        match pattern {
            None => !texts.is_empty(),
            Some(pattern) if pattern.is_absent() => texts.is_empty(),
            Some(pattern) => texts
                .into_iter()
                .any(|text| pattern.is_match(&Subject::new(text))),
        }
    }
}

/// What is asked of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// 0 for a match, else 1.
    Match,
    /// 0 for a match, else how far a value is from one: up to 1.
    Distance,
}

/// Pattern for one value.
#[derive(Clone)]
pub(crate) struct ValuePattern {
    kind: Kind,
    test: Arc<Test>,
}

type Test = dyn Fn(&Subject<'_>) -> bool + Send + Sync;

/// What is to be known of an operator beside its test.
#[derive(Clone, Debug)]
enum Kind {
    /// The one that a value must not be there for.
    Absent,
    /// The one whose misses are near or far from this text.
    EqualTo(String),
    /// The one that looks at an array as a whole.
    EqualToJson,
    Other,
}

impl fmt::Debug for ValuePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

/// Reads a pattern of an operator, from the object around it and its operand.
type Read = fn(&Node<'_>, &Node<'_>) -> Result<ValuePattern, Problem>;

/// The operators: an operator is one row, with its name, the names of its options, and how it is
/// read and tested.
const OPERATORS: &[(&str, &str, Read)] = &[
    ("equalTo", "caseInsensitive", |node, operand| {
        let expected: String = operand.to()?;
        let kind = Kind::EqualTo(expected.clone());
        let pattern = if node.is_set("caseInsensitive")? {
            of_text(move |text| is_equal_in_any_case(text, &expected))
        } else {
            of_text(move |text| text == expected)
        };
        Ok(ValuePattern { kind, ..pattern })
    }),
    ("contains", "", |_, operand| {
        let part: String = operand.to()?;
        Ok(of_text(move |text| text.contains(&part)))
    }),
    ("doesNotContain", "", |_, operand| {
        let part: String = operand.to()?;
        Ok(of_text(move |text| text.contains(&part)).inverted())
    }),
    ("matches", "", |_, operand| {
        let regex = WholeRegex::read(operand)?;
        Ok(of_text(move |text| regex.is_match(text)))
    }),
    ("doesNotMatch", "", |_, operand| {
        let regex = WholeRegex::read(operand)?;
        Ok(of_text(move |text| regex.is_match(text)).inverted())
    }),
    ("binaryEqualTo", "", |_, operand| {
        let bytes = BASE64
            .decode(operand.text()?)
            .map_err(|error| operand.malformed(format!("not base 64: {error}")))?;
        Ok(of_subject(move |subject| subject.bytes() == Some(&bytes)))
    }),
    (
        "equalToJson",
        "ignoreArrayOrder ignoreExtraElements",
        |node, operand| {
            let expected = JsonPattern::read(node, operand)?;
            Ok(ValuePattern {
                kind: Kind::EqualToJson,
                ..of_subject(move |subject| {
                    subject.json().is_some_and(|json| expected.is_match(json))
                })
            })
        },
    ),
    ("matchesJsonPath", "", |_, operand| {
        // A path, or `{"expression": .., "equalTo": ..}` with any operator.
        let (path, pattern) = match operand.get("expression") {
            None => (JsonPath::read(operand)?, None),
            Some(path) => {
                let pattern = ValuePattern::read_beside(operand, "expression")?;
                (JsonPath::read(&path)?, Some(pattern))
            }
        };
        Ok(of_subject(move |subject| {
            subject.leads(&path, pattern.as_ref())
        }))
    }),
    ("matchesJsonSchema", "schemaVersion", |node, operand| {
        let schema = JsonSchema::read(node, operand)?;
        Ok(of_subject(move |subject| {
            let text = subject.text.as_deref();
            text.is_some_and(|text| schema.is_match(text, subject.json()))
        }))
    }),
    ("absent", "", |_, operand| {
        if *operand.value() == Value::Bool(false) {
            let what = "`absent` means absent whatever it says; for a value that must be there write `matches`: `.*`";
            return Err(operand.malformed(what));
        }
        Ok(ValuePattern {
            kind: Kind::Absent,
            ..of_subject(|subject| subject.text.is_none())
        })
    }),
    ("anything", "", |_, operand| {
        operand.text().map(|_| of_subject(|_| true))
    }),
    ("not", "", |_, operand| {
        ValuePattern::read(operand).map(ValuePattern::inverted)
    }),
    ("and", "", |_, operand| {
        let all = operands(operand)?;
        Ok(of_subject(move |subject| {
            all.iter().all(|pattern| pattern.is_match(subject))
        }))
    }),
    ("or", "", |_, operand| {
        let all = operands(operand)?;
        Ok(of_subject(move |subject| {
            all.iter().any(|pattern| pattern.is_match(subject))
        }))
    }),
];

/// Operators of WireMock, 4.x included, that are not served.
const UNSUPPORTED: [&str; 11] = [
    "matchesPathTemplate",
    "equalToXml",
    "matchesXPath",
    "before",
    "after",
    "equalToDateTime",
    "equalToNumber",
    "greaterThanNumber",
    "greaterThanEqualNumber",
    "lessThanNumber",
    "lessThanEqualNumber",
];

fn of_subject(test: impl Fn(&Subject<'_>) -> bool + Send + Sync + 'static) -> ValuePattern {
    ValuePattern {
        kind: Kind::Other,
        test: Arc::new(test),
    }
}

/// A pattern for a value that must be there and pass a test.
fn of_text(test: impl Fn(&str) -> bool + Send + Sync + 'static) -> ValuePattern {
    of_subject(move |subject| subject.text.as_deref().is_some_and(&test))
}

fn operands(node: &Node<'_>) -> Result<Vec<ValuePattern>, Problem> {
    let operands = node.list(ValuePattern::read)?;
    if operands.len() < 2 {
        return Err(node.malformed("expected at least two patterns"));
    }
    Ok(operands)
}

impl ValuePattern {
    /// Reads an object with one operator and its options.
    ///
    /// Of several operators WireMock takes the first and ignores the others; here they are an
    /// error.
    pub(crate) fn read(node: &Node<'_>) -> Result<Self, Problem> {
        Self::read_beside(node, "")
    }

    /// Reads an object with one operator, its options, and the field `other`.
    fn read_beside(node: &Node<'_>, other: &str) -> Result<Self, Problem> {
        let found: Vec<_> = node
            .fields()?
            .filter_map(|(key, operand)| {
                let row = OPERATORS.iter().find(|row| row.0 == key)?;
                Some((row, operand))
            })
            .collect();
        match found.as_slice() {
            [] => {
                let known: Vec<&str> = OPERATORS.iter().map(|(operator, ..)| *operator).collect();
                node.only(&format!("{} {other}", known.join(" ")), &UNSUPPORTED)?;
                Err(node.malformed("an operator is missing, such as `equalTo`"))
            }
            [((operator, options, read), operand)] => {
                node.only(&[operator, options, other].join(" "), &UNSUPPORTED)?;
                read(node, operand)
            }
            [((one, ..), _), ((another, ..), _), ..] => Err(node.malformed(format!(
                "`{one}` and `{another}` exclude each other; combine with `and` or `or`"
            ))),
        }
    }

    fn inverted(self) -> Self {
        of_subject(move |subject| !self.is_match(subject))
    }

    /// True if only a value that is not there fits.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self.kind, Kind::Absent)
    }

    /// True if the value is as it must be.
    pub(crate) fn is_match(&self, subject: &Subject<'_>) -> bool {
        (self.test)(subject)
    }

    /// Compare a value with those that fit.
    pub(crate) fn compare(&self, subject: &Subject<'_>, measure: Measure) -> f64 {
        match (&self.kind, subject.text.as_deref()) {
            _ if self.is_match(subject) => 0.0,
            (Kind::EqualTo(expected), Some(text)) if measure == Measure::Distance => {
                difference(expected, text)
            }
            _ => 1.0,
        }
    }
}

/// Longest texts, in characters, of which the whole counts for a distance: it takes the product of
/// both lengths.
const COMPARED: usize = 256;

/// Share of the characters in which two texts differ, by Levenshtein.
pub(crate) fn difference(one: &str, other: &str) -> f64 {
    let [one, other] = [one, other].map(|text| text.chars().take(COMPARED).collect::<String>());
    1.0 - strsim::normalized_levenshtein(&one, &other)
}

/// The mean of distances; 0 where there are none.
pub(crate) fn mean(distances: impl Iterator<Item = f64>) -> f64 {
    let (count, sum) = distances.fold((0.0, 0.0), |(count, sum), one| (count + 1.0, sum + one));
    if count > 0.0 { sum / count } else { 0.0 }
}

/// Pattern for the values of one name.
#[derive(Clone, Debug)]
pub(crate) enum MultiPattern {
    /// One of them must be this; where there is none, nothing must be.
    ///
    /// WireMock looks only at the value that is nearest to the pattern
    /// (`matching/MultiValuePattern.java`, `getBestMatch`). That is the same, except for `equalTo`
    /// in any case: there a near miss can hide a hit. Here it does not.
    Any(ValuePattern),
    /// There must be as many values as patterns, and each pattern must fit one of them.
    HasExactly(Vec<ValuePattern>),
    /// There must be values, and each pattern must fit one of them.
    Includes(Vec<ValuePattern>),
}

impl MultiPattern {
    /// Reads an object with one operator, `hasExactly` and `includes` among them.
    pub(crate) fn read(node: &Node<'_>) -> Result<Self, Problem> {
        for (key, variant) in [
            ("hasExactly", Self::HasExactly as fn(_) -> _),
            ("includes", Self::Includes as fn(_) -> _),
        ] {
            if let Some(patterns) = node.get(key) {
                node.only(key, &[])?;
                return patterns.list(ValuePattern::read).map(variant);
            }
        }
        ValuePattern::read(node).map(Self::Any)
    }

    /// Compare values with those that fit.
    pub(crate) fn compare<'t>(
        &self,
        values: impl Iterator<Item = Cow<'t, str>>,
        measure: Measure,
    ) -> f64 {
        let mut values = values.map(Subject::new).peekable();
        let patterns = match self {
            Self::Any(pattern) if values.peek().is_none() => {
                return pattern.compare(&Subject::default(), measure);
            }
            Self::Any(pattern) => {
                return values
                    .map(|value| pattern.compare(&value, measure))
                    .fold(1.0, f64::min);
            }
            Self::HasExactly(patterns) | Self::Includes(patterns) => patterns,
        };
        let values: Vec<_> = values.collect();
        let is_other_number = matches!(self, Self::HasExactly(_)) && patterns.len() != values.len();
        // Neither fits a name without values, whatever it holds.
        if values.is_empty() || is_other_number {
            return 1.0;
        }
        mean(patterns.iter().map(|pattern| {
            values
                .iter()
                .map(|value| pattern.compare(value, measure))
                .fold(1.0, f64::min)
        }))
    }
}

/// As Java's `equalsIgnoreCase`, but that a letter may be several in upper case.
fn is_equal_in_any_case(one: &str, other: &str) -> bool {
    fn folded(text: &str) -> impl Iterator<Item = char> {
        text.chars()
            .flat_map(char::to_uppercase)
            .flat_map(char::to_lowercase)
    }
    folded(one).eq(folded(other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pattern(value: &Value) -> Result<ValuePattern, Problem> {
        ValuePattern::read(&Node::root(value))
    }

    #[test]
    fn operators_that_are_not_compared_with_wiremock() {
        let table = [
            (json!({"equalToJson": [1]}), "[ 1.0 ]", "[1, 2]"),
            (
                json!({"matchesJsonSchema": {"type": "object", "required": ["a"]}}),
                "{\"a\": 1}",
                "{}",
            ),
            // A number is a text, too, where only a text will do.
            (
                json!({"matchesJsonSchema": "{\"type\": \"string\"}"}),
                "12",
                "[12]",
            ),
            (
                json!({"matchesJsonSchema": {"type": "string"}, "schemaVersion": "V7"}),
                "no JSON",
                "{}",
            ),
            // An array of schemas means each element in draft 7, and nothing since 2020-12.
            (
                json!({"matchesJsonSchema": {"items": [{"type": "null"}]}, "schemaVersion": "V7"}),
                "[null]",
                "[1]",
            ),
            (json!({"binaryEqualTo": "YWI="}), "ab", "a"),
            (
                json!({"equalToJson": {"a": 1}}),
                "{'a': 1} // lenient",
                "{a: 1}",
            ),
        ];
        for (read, hit, miss) in table {
            let read_pattern = pattern(&read).unwrap();
            assert!(read_pattern.is_match(&Subject::new(hit)), "{read} on {hit}");
            assert!(
                hit == miss || !read_pattern.is_match(&Subject::new(miss)),
                "{read} on {miss}"
            );
            assert!(
                !read_pattern.is_match(&Subject::default()),
                "{read} on nothing"
            );
        }
        let anything = pattern(&json!({"anything": "(always)"})).unwrap();
        assert!(anything.is_match(&Subject::default()) && anything.is_match(&Subject::new("x")));
        // A schema that leads back to itself without an end comes to one.
        for schema in [
            json!({"$ref": "#"}),
            json!({"allOf": [{"not": {"$ref": "#"}}]}),
        ] {
            if let Ok(pattern) = pattern(&json!({"matchesJsonSchema": schema})) {
                let _ = pattern.is_match(&Subject::new("[{}]"));
            }
        }
        let absent = pattern(&json!({"absent": null})).unwrap();
        assert!(absent.is_match(&Subject::default()) && !absent.is_match(&Subject::new("")));
    }

    #[test]
    fn what_is_no_pattern_is_refused_at_its_place() {
        for (read, pointer) in [
            (json!({"equalsTo": "a"}), "/equalsTo"),
            (json!({}), ""),
            (json!("a"), ""),
            (json!({"equalTo": 1}), "/equalTo"),
            (json!({"equalTo": "a", "contains": "b"}), ""),
            (
                json!({"contains": "a", "caseInsensitive": true}),
                "/caseInsensitive",
            ),
            (json!({"and": [{"equalTo": "a"}]}), "/and"),
            (json!({"not": {"matches": "("}}), "/not/matches"),
            (json!({"absent": false}), "/absent"),
            (json!({"matchesJsonPath": "$.a.min()"}), "/matchesJsonPath"),
            (
                json!({"matchesJsonPath": {"equalTo": "a"}}),
                "/matchesJsonPath",
            ),
            (
                json!({"matchesJsonPath": {"expression": "$", "equals": "a"}}),
                "/matchesJsonPath/equals",
            ),
            (
                json!({"matchesJsonSchema": {"type": 1}}),
                "/matchesJsonSchema",
            ),
            (
                json!({"matchesJsonSchema": {"$ref": "http://127.0.0.1/a"}}),
                "/matchesJsonSchema",
            ),
            (
                json!({"matchesJsonSchema": {"$ref": "file:///etc/hostname"}}),
                "/matchesJsonSchema",
            ),
            (
                json!({"matchesJsonSchema": {"nullable": true}}),
                "/matchesJsonSchema",
            ),
            (
                json!({"matchesJsonSchema": {}, "schemaVersion": "V8"}),
                "/schemaVersion",
            ),
            (json!({"binaryEqualTo": "?"}), "/binaryEqualTo"),
            (json!({"anything": true}), "/anything"),
            (json!({"equalToNumber": 3}), "/equalToNumber"),
            (json!({"matches": "(?U)a"}), "/matches"),
        ] {
            assert_eq!(pattern(&read).unwrap_err().pointer, pointer, "{read}");
        }
    }
}
