//! Patterns for a value of a request: `{"equalTo": "x"}` and its kin
//! (`matching/StringValuePatternJsonDeserializer.java` and the classes that it names;
//! `matching/MultiValuePatternDeserializer.java`).
//!
//! It must not know which value of the request it is given.

use super::json_path::{JsonPath, document, java_text};
use super::json_pattern::JsonPattern;
use super::json_schema::JsonSchema;
use super::node::{Node, Problem};
use super::path_template::PathTemplate;
use super::text;
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
        let read = || {
            let text = self.text.as_deref()?;
            // The strict reader is the faster one, and most bodies are strict.
            serde_json::from_str(text)
                .ok()
                .or_else(|| Some(text::parse(text.as_bytes()).ok()?.value))
        };
        self.json.get_or_init(read).as_ref()
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
    /// Anything, also nothing.
    Anything,
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
    /// A path of this template, with or without a query behind it.
    MatchesPathTemplate(PathTemplate),
    /// JSON that is like this.
    EqualToJson(JsonPattern),
    /// JSON in which this path leads to something, or to what fits.
    MatchesJsonPath(JsonPath, Option<Box<Self>>),
    /// JSON of this schema.
    MatchesJsonSchema(JsonSchema),
    /// Not that.
    Not(Box<Self>),
    /// All of these.
    And(Vec<Self>),
    /// One of these.
    Or(Vec<Self>),
}

/// All operators that are served, as they are written.
const OPERATORS: &str = "\
    equalTo contains doesNotContain matches doesNotMatch matchesPathTemplate equalToJson matchesJsonPath \
    matchesJsonSchema absent anything not and or";

/// Operators of WireMock, 4.x included, that are not served.
const UNSUPPORTED: &str = "\
    equalToXml matchesXPath before after equalToDateTime equalToNumber greaterThanNumber greaterThanEqualNumber lessThanNumber lessThanEqualNumber";

/// True if `names` has this one, with spaces around.
fn is_among(names: &str, name: &str) -> bool {
    names.split(' ').any(|known| known == name)
}

/// Greatest depth of a pattern in its document. Patterns are read recursively, and a stack has an
/// end.
const MAX_DEPTH: usize = 64;

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
        if node.depth() > MAX_DEPTH {
            return Err(node.unsupported(format!("a pattern nested deeper than {MAX_DEPTH}")));
        }
        let fields: Vec<(&str, Node<'_>)> = node.fields()?.collect();
        if let Some((key, operand)) = fields.iter().find(|(key, _)| is_among(UNSUPPORTED, key)) {
            return Err(operand.unsupported(format!("the operator `{key}`")));
        }
        let mut operators = fields.iter().filter(|(key, _)| is_among(OPERATORS, key));
        let (operator, operand) = match (operators.next(), operators.next()) {
            (Some((operator, operand)), None) => (*operator, operand),
            (Some((one, _)), Some((other, _))) => {
                return Err(node.malformed(format!(
                    "`{one}` and `{other}` exclude each other; combine with `and` or `or`"
                )));
            }
            (None, _) => {
                node.only(&format!("{OPERATORS} {other}"))?;
                return Err(node.malformed("an operator is missing, such as `equalTo`"));
            }
        };
        let options = match operator {
            "equalTo" => "equalTo caseInsensitive",
            "equalToJson" => "equalToJson ignoreArrayOrder ignoreExtraElements",
            "matchesJsonSchema" => "matchesJsonSchema schemaVersion",
            operator => operator,
        };
        node.only(&[options, other].join(" "))?;
        Self::operation(node, operator, operand)
    }

    fn operation(node: &Node<'_>, operator: &str, operand: &Node<'_>) -> Result<Self, Problem> {
        let text = || operand.text().map(str::to_owned);
        Ok(match operator {
            "equalTo" if node.is_set("caseInsensitive")? => Self::EqualToAnyCase(text()?),
            "equalTo" => Self::EqualTo(text()?),
            "contains" => Self::Contains(text()?),
            "doesNotContain" => Self::DoesNotContain(text()?),
            "matches" => Self::Matches(WholeRegex::read(operand)?),
            "doesNotMatch" => Self::DoesNotMatch(WholeRegex::read(operand)?),
            "matchesPathTemplate" => Self::MatchesPathTemplate(PathTemplate::read(operand)?),
            "equalToJson" => Self::EqualToJson(JsonPattern::read(node, operand)?),
            "matchesJsonPath" => Self::json_path(operand)?,
            "matchesJsonSchema" => Self::MatchesJsonSchema(JsonSchema::read(node, operand)?),
            "not" => Self::Not(Box::new(Self::read(operand)?)),
            "and" => Self::And(Self::operands(operand)?),
            "or" => Self::Or(Self::operands(operand)?),
            "absent" if *operand.value() == Value::Bool(false) => {
                let what = "`absent` means absent whatever it says; for a value that must be there write `matches`: `.*`";
                return Err(operand.malformed(what));
            }
            "absent" => Self::Absent,
            _ => text().map(|_| Self::Anything)?,
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
            Self::Anything => true,
            Self::Absent => text.is_none(),
            Self::EqualTo(expected) => text == Some(expected),
            Self::EqualToAnyCase(expected) => {
                text.is_some_and(|text| is_equal_in_any_case(text, expected))
            }
            Self::Contains(part) => text.is_some_and(|text| text.contains(part.as_str())),
            Self::DoesNotContain(part) => text.is_none_or(|text| !text.contains(part.as_str())),
            Self::Matches(regex) => text.is_some_and(|text| regex.is_match(text)),
            Self::DoesNotMatch(regex) => text.is_none_or(|text| !regex.is_match(text)),
            Self::MatchesPathTemplate(template) => text.is_some_and(|text| {
                template.is_match(text.split_once('?').map_or(text, |(path, _)| path))
            }),
            Self::EqualToJson(pattern) => subject.json().is_some_and(|json| pattern.is_match(json)),
            Self::MatchesJsonPath(path, pattern) => subject.leads(path, pattern.as_deref()),
            Self::MatchesJsonSchema(schema) => {
                text.is_some_and(|text| schema.is_match(text, subject.json()))
            }
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
                node.only(key)?;
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

/// Java's `equalsIgnoreCase`: character by character, alike in upper or in lower case, where a case
/// is one character.
fn is_equal_in_any_case(one: &str, other: &str) -> bool {
    fn single(char: char, mut case: impl ExactSizeIterator<Item = char>) -> char {
        if case.len() == 1 {
            case.next().unwrap_or(char)
        } else {
            char
        }
    }
    let fold = |char: char| {
        let upper = single(char, char.to_uppercase());
        single(upper, upper.to_lowercase())
    };
    one.chars().map(fold).eq(other.chars().map(fold))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pattern(value: &Value) -> Result<ValuePattern, Problem> {
        ValuePattern::read(&Node::root(value))
    }

    #[test]
    fn operators_and_absent_values() {
        let table = [
            (json!({"equalTo": "a"}), "a", "A", false),
            (
                json!({"equalTo": "äb", "caseInsensitive": true}),
                "ÄB",
                "ab",
                false,
            ),
            (
                json!({"equalTo": "a", "caseInsensitive": false}),
                "a",
                "A",
                false,
            ),
            (json!({"contains": "b"}), "abc", "ac", false),
            (json!({"doesNotContain": "b"}), "ac", "abc", true),
            (json!({"matches": "[a-c]+"}), "abc", "abcd", false),
            (json!({"doesNotMatch": "[a-c]+"}), "abcd", "abc", true),
            (
                json!({"matchesPathTemplate": "/items/{id}"}),
                "/items/1?x=2",
                "/items/",
                false,
            ),
            (json!({"equalToJson": [1]}), "[ 1.0 ]", "[1, 2]", false),
            (
                json!({"equalToJson": {"a": 1}}),
                "{'a': 1} // lenient",
                "{a: 1}",
                false,
            ),
            (json!({"not": {"equalTo": "a"}}), "b", "a", true),
            (
                json!({"and": [{"contains": "a"}, {"contains": "b"}]}),
                "ab",
                "a",
                false,
            ),
            (
                json!({"or": [{"equalTo": "a"}, {"absent": true}]}),
                "a",
                "b",
                true,
            ),
            (json!({"not": {"absent": "(absent)"}}), "", "", false),
            (
                json!({"matchesJsonPath": "$.a"}),
                "{\"a\": 0}",
                "{\"a\": null}",
                false,
            ),
            (
                json!({"matchesJsonPath": "$.a"}),
                "{\"a\": {\"b\": 1}}",
                "{\"a\": {}}",
                false,
            ),
            (
                json!({"matchesJsonPath": "$..a"}),
                "[{\"a\": null}]",
                "[]",
                false,
            ),
            (
                json!({"matchesJsonPath": "$.a[?(@.b == 2)]"}),
                "{\"a\": [{\"b\": 2}]}",
                "no JSON",
                false,
            ),
            (
                json!({"matchesJsonPath": {"expression": "$.a", "equalTo": "11"}}),
                "{\"a\": 11}",
                "{}",
                false,
            ),
            (
                json!({"matchesJsonPath": {"expression": "$.a", "equalTo": "1.0E10"}}),
                "{\"a\": 1e10}",
                "{\"a\": 1}",
                false,
            ),
            (
                json!({"matchesJsonPath": {"expression": "$.a", "contains": "x"}}),
                "{\"a\": [1, \"x\"]}",
                "{\"a\": []}",
                false,
            ),
            (
                json!({"matchesJsonPath": {"expression": "$.a", "equalToJson": [1]}}),
                "{\"a\": [1.0]}",
                "{\"a\": 1}",
                false,
            ),
            (
                json!({"matchesJsonPath": {"expression": "$.a", "equalToJson": "{}"}}),
                "{\"a\": {}}",
                "{}",
                false,
            ),
            (
                json!({"matchesJsonPath": {"expression": "$.a", "absent": "(absent)"}}),
                "{\"a\": null}",
                "{\"a\": 1}",
                true,
            ),
            (
                json!({"matchesJsonPath": {"expression": "$..a", "absent": "(absent)"}}),
                "[]",
                "[{\"a\": 1}]",
                true,
            ),
            (
                json!({"matchesJsonSchema": {"type": "object", "required": ["a"]}}),
                "{\"a\": 1}",
                "{}",
                false,
            ),
            // A number is a text, too, where only a text will do.
            (
                json!({"matchesJsonSchema": "{\"type\": \"string\"}"}),
                "12",
                "[12]",
                false,
            ),
            (
                json!({"matchesJsonSchema": {"type": "string"}, "schemaVersion": "V7"}),
                "no JSON",
                "{}",
                false,
            ),
            // An array of schemas means each element in draft 7, and nothing since 2020-12.
            (
                json!({"matchesJsonSchema": {"items": [{"type": "null"}]}, "schemaVersion": "V7"}),
                "[null]",
                "[1]",
                false,
            ),
        ];
        for (read, hit, miss, fits_absent) in table {
            let read_pattern = pattern(&read).unwrap();
            assert!(read_pattern.is_match(&Subject::new(hit)), "{read} on {hit}");
            assert!(
                hit == miss || !read_pattern.is_match(&Subject::new(miss)),
                "{read} on {miss}"
            );
            assert_eq!(
                read_pattern.is_match(&Subject::default()),
                fits_absent,
                "{read} on nothing"
            );
        }
        assert!(pattern(&json!({"anything": true})).is_err());
        let anything = pattern(&json!({"anything": "(always)"})).unwrap();
        assert!(anything.is_match(&Subject::default()) && anything.is_match(&Subject::new("x")));
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
                json!({"matchesJsonSchema": {"nullable": true}}),
                "/matchesJsonSchema",
            ),
            (
                json!({"matchesJsonSchema": {}, "schemaVersion": "V8"}),
                "/schemaVersion",
            ),
            (json!({"equalToNumber": 3}), "/equalToNumber"),
            (json!({"matches": "(?U)a"}), "/matches"),
        ] {
            assert_eq!(pattern(&read).unwrap_err().pointer, pointer, "{read}");
        }
    }

    #[test]
    fn several_values_of_one_name() {
        let table: [(Value, &[&str], bool); 14] = [
            (json!({"equalTo": "b"}), &["a", "b"], true),
            (json!({"equalTo": "c"}), &["a", "b"], false),
            (json!({"doesNotMatch": "a"}), &["a", "b"], true),
            (json!({"absent": true}), &[], true),
            (json!({"absent": true}), &["a"], false),
            (
                json!({"hasExactly": [{"equalTo": "b"}, {"contains": "a"}]}),
                &["a", "b"],
                true,
            ),
            (
                json!({"hasExactly": [{"equalTo": "a"}]}),
                &["a", "a"],
                false,
            ),
            // As in WireMock, one value may serve two patterns.
            (
                json!({"hasExactly": [{"equalTo": "a"}, {"contains": "a"}]}),
                &["a", "b"],
                true,
            ),
            (json!({"hasExactly": []}), &[], false),
            (json!({"includes": [{"equalTo": "a"}]}), &["a", "b"], true),
            (
                json!({"includes": [{"equalTo": "a"}, {"equalTo": "c"}]}),
                &["a", "b"],
                false,
            ),
            (json!({"includes": []}), &[], false),
            (json!({"includes": []}), &["a"], true),
            (json!({"includes": [{"absent": true}]}), &[], false),
        ];
        for (read, values, expected) in table {
            let pattern = MultiPattern::read(&Node::root(&read)).unwrap();
            assert_eq!(
                pattern.is_match(values.iter().copied().map(Cow::from)),
                expected,
                "{read} on {values:?}"
            );
        }
        let problem =
            MultiPattern::read(&Node::root(&json!({"includes": [], "equalTo": "a"}))).unwrap_err();
        assert!(
            problem.to_string().starts_with("/equalTo: unknown field"),
            "{problem}"
        );
    }
}
