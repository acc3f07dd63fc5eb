//! Patterns for a value of a request: `{"equalTo": "x"}` and its kin
//! (`matching/StringValuePatternJsonDeserializer.java` and the classes that it names;
//! `matching/MultiValuePatternDeserializer.java`).
//!
//! It must not know which value of the request it is given.

use super::json_path::{JsonPath, document, java_text};
use super::json_pattern::JsonPattern;
use super::node::{Node, Problem, parse_json};
use super::whole_regex::WholeRegex;
use serde_json::Value;
use std::borrow::Cow;
use std::cell::OnceCell;

/// A value that may be there or not, and the JSON in it, read when first asked for.
#[derive(Debug, Default)]
pub(crate) struct Subject<'t> {
    text: Option<Cow<'t, str>>,
    json: OnceCell<Option<Value>>,
}

impl<'t> Subject<'t> {
    /// A value that is there.
    pub(crate) fn new(text: impl Into<Cow<'t, str>>) -> Self {
        Self {
            text: Some(text.into()),
            json: OnceCell::new(),
        }
    }

    /// A value that may be there.
    pub(crate) fn maybe(text: Option<impl Into<Cow<'t, str>>>) -> Self {
        Self {
            text: text.map(Into::into),
            json: OnceCell::new(),
        }
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
            (Value::Array(_), Some(ValuePattern::EqualToJson(_))) => vec![java_text(&found)],
            (Value::Array(elements), _) => elements.iter().map(java_text).collect(),
            _ => vec![java_text(&found)],
        };
        match pattern {
            None => !texts.is_empty(),
            Some(ValuePattern::Absent) => texts.is_empty(),
            Some(pattern) => texts
                .into_iter()
                .any(|text| pattern.is_match(&Subject::new(text))),
        }
    }
}

/// Pattern for one value.
#[derive(Clone, Debug)]
pub(crate) enum ValuePattern {
    /// Not there.
    Absent,
    /// Equal to this text.
    EqualTo(String),
    /// Equal to this text, in upper or lower case.
    EqualToAnyCase(String),
    /// Has this text in it.
    Contains(String),
    /// Does not have this text in it; or is not there.
    DoesNotContain(String),
    /// The expression matches all of it.
    Matches(WholeRegex),
    /// The expression does not match all of it; or it is not there.
    DoesNotMatch(WholeRegex),
    /// JSON that is like this.
    EqualToJson(JsonPattern),
    /// JSON in which this path leads to something, or to what fits.
    MatchesJsonPath(JsonPath, Option<Box<Self>>),
    /// Not that.
    Not(Box<Self>),
    /// All of these.
    And(Vec<Self>),
    /// One of these.
    Or(Vec<Self>),
}

/// Operators that are served, and their options.
const OPERATORS: [(&str, &str); 11] = [
    ("equalTo", "caseInsensitive"),
    ("contains", ""),
    ("doesNotContain", ""),
    ("matches", ""),
    ("doesNotMatch", ""),
    ("equalToJson", "ignoreArrayOrder ignoreExtraElements"),
    ("matchesJsonPath", ""),
    ("absent", ""),
    ("not", ""),
    ("and", ""),
    ("or", ""),
];

/// Operators of WireMock, 4.x included, that are not served.
const UNSUPPORTED: [&str; 14] = [
    "binaryEqualTo",
    "anything",
    "matchesPathTemplate",
    "matchesJsonSchema",
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
        let row = |key: &str| OPERATORS.iter().find(|row| row.0 == key);
        let found = node.fields()?;
        let found: Vec<_> = found
            .filter_map(|(key, operand)| Some((row(key)?, operand)))
            .collect();
        match found.as_slice() {
            [] => {
                let known = OPERATORS.map(|(operator, _)| operator).join(" ");
                node.only(&format!("{known} {other}"), &UNSUPPORTED)?;
                Err(node.malformed("an operator is missing, such as `equalTo`"))
            }
            [((operator, options), operand)] => {
                node.only(&[operator, options, other].join(" "), &UNSUPPORTED)?;
                Self::operation(node, operator, operand)
            }
            [((one, _), _), ((another, _), _), ..] => Err(node.malformed(format!(
                "`{one}` and `{another}` exclude each other; combine with `and` or `or`"
            ))),
        }
    }

    fn operation(node: &Node<'_>, operator: &str, operand: &Node<'_>) -> Result<Self, Problem> {
        Ok(match operator {
            "equalTo" if node.is_set("caseInsensitive")? => Self::EqualToAnyCase(operand.to()?),
            "equalTo" => Self::EqualTo(operand.to()?),
            "contains" => Self::Contains(operand.to()?),
            "doesNotContain" => Self::DoesNotContain(operand.to()?),
            "matches" => Self::Matches(WholeRegex::read(operand)?),
            "doesNotMatch" => Self::DoesNotMatch(WholeRegex::read(operand)?),
            "equalToJson" => Self::EqualToJson(JsonPattern::read(node, operand)?),
            "matchesJsonPath" => Self::json_path(operand)?,
            "not" => Self::Not(Box::new(Self::read(operand)?)),
            "and" => Self::And(Self::operands(operand)?),
            "or" => Self::Or(Self::operands(operand)?),
            "absent" if *operand.value() == Value::Bool(false) => {
                let what = "`absent` means absent whatever it says; for a value that must be there write `matches`: `.*`";
                return Err(operand.malformed(what));
            }
            _ => Self::Absent,
        })
    }

    /// Reads a path, or `{"expression": .., "equalTo": ..}` with any operator.
    fn json_path(operand: &Node<'_>) -> Result<Self, Problem> {
        let Some(expression) = operand.get("expression") else {
            return Ok(Self::MatchesJsonPath(JsonPath::read(operand)?, None));
        };
        let pattern = Self::read_beside(operand, "expression")?;
        Ok(Self::MatchesJsonPath(
            JsonPath::read(&expression)?,
            Some(Box::new(pattern)),
        ))
    }

    fn operands(node: &Node<'_>) -> Result<Vec<Self>, Problem> {
        let operands = node.list(Self::read)?;
        if operands.len() < 2 {
            return Err(node.malformed("expected at least two patterns"));
        }
        Ok(operands)
    }

    /// True if the value is as it must be.
    pub(crate) fn is_match(&self, subject: &Subject<'_>) -> bool {
        let text = subject.text.as_deref();
        match self {
            Self::Absent => text.is_none(),
            Self::EqualTo(expected) => text == Some(expected),
            Self::EqualToAnyCase(expected) => {
                text.is_some_and(|text| is_equal_in_any_case(text, expected))
            }
            Self::Contains(part) => text.is_some_and(|text| text.contains(part.as_str())),
            Self::DoesNotContain(part) => text.is_none_or(|text| !text.contains(part.as_str())),
            Self::Matches(regex) => text.is_some_and(|text| regex.is_match(text)),
            Self::DoesNotMatch(regex) => text.is_none_or(|text| !regex.is_match(text)),
            Self::EqualToJson(pattern) => subject.json().is_some_and(|json| pattern.is_match(json)),
            Self::MatchesJsonPath(path, pattern) => subject.leads(path, pattern.as_deref()),
            Self::Not(pattern) => !pattern.is_match(subject),
            Self::And(patterns) => patterns.iter().all(|pattern| pattern.is_match(subject)),
            Self::Or(patterns) => patterns.iter().any(|pattern| pattern.is_match(subject)),
        }
    }
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

    /// True if the values are as they must be.
    pub(crate) fn is_match<'t>(&self, values: impl Iterator<Item = Cow<'t, str>>) -> bool {
        let mut values = values.map(Subject::new).peekable();
        match self {
            Self::Any(pattern) if values.peek().is_none() => pattern.is_match(&Subject::default()),
            Self::Any(pattern) => values.any(|value| pattern.is_match(&value)),
            Self::HasExactly(patterns) => {
                let values: Vec<_> = values.collect();
                patterns.len() == values.len() && are_all_met(patterns, &values)
            }
            Self::Includes(patterns) => are_all_met(patterns, &values.collect::<Vec<_>>()),
        }
    }
}

/// `hasExactly` and `includes` never fit a name without values, whatever they hold.
fn are_all_met(patterns: &[ValuePattern], values: &[Subject<'_>]) -> bool {
    !values.is_empty()
        && patterns
            .iter()
            .all(|pattern| values.iter().any(|value| pattern.is_match(value)))
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
                json!({"matchesJsonSchema": {"type": "text"}}),
                "/matchesJsonSchema",
            ),
            (json!({"equalToNumber": 3}), "/equalToNumber"),
            (json!({"matches": "(?U)a"}), "/matches"),
        ] {
            assert_eq!(pattern(&read).unwrap_err().pointer, pointer, "{read}");
        }
    }
}
