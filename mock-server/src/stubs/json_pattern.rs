//! `equalToJson`: equality of two JSON values, as JsonUnit compares them for WireMock
//! (`matching/EqualToJsonPattern.java`; `json-unit-core`, `internal/Diff.java`).
//!
//! It must not know where the values come from.

use super::node::{Node, Problem};
use crate::stubs::node::parse_json;
use serde_json::{Map, Number, Value};

/// Pattern for a JSON value, and how equal it has to be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JsonPattern {
    expected: Value,
    /// True if elements of arrays may come in any order.
    ignore_order: bool,
    /// True if objects may hold more fields, and arrays more elements: where their order matters,
    /// behind the others.
    ignore_extras: bool,
}

impl JsonPattern {
    /// Reads `{"equalToJson": .., "ignoreArrayOrder": .., "ignoreExtraElements": ..}`. What is
    /// expected may be JSON, or a text that holds JSON.
    pub(crate) fn read(node: &Node<'_>, operand: &Node<'_>) -> Result<Self, Problem> {
        let expected = json_operand(operand)?;
        if expected.to_string().contains("{json-unit") {
            return Err(operand.unsupported("a placeholder of JsonUnit (`${json-unit...}`)"));
        }
        Ok(Self {
            expected,
            ignore_order: node.is_set("ignoreArrayOrder")?,
            ignore_extras: node.is_set("ignoreExtraElements")?,
        })
    }

    /// True if `actual` is what was expected.
    pub(crate) fn is_match(&self, actual: &Value) -> bool {
        self.is_like(&self.expected, actual)
    }

    fn is_like(&self, expected: &Value, actual: &Value) -> bool {
        match (expected, actual) {
            (Value::Object(expected), Value::Object(actual)) => {
                self.are_fields_like(expected, actual)
            }
            (Value::Array(expected), Value::Array(actual)) => {
                self.are_elements_like(expected, actual)
            }
            (Value::Number(expected), Value::Number(actual)) => is_same_number(expected, actual),
            (expected, actual) => expected == actual,
        }
    }

    fn are_fields_like(&self, expected: &Map<String, Value>, actual: &Map<String, Value>) -> bool {
        (self.ignore_extras || expected.len() == actual.len())
            && expected.iter().all(|(key, value)| {
                actual
                    .get(key)
                    .is_some_and(|found| self.is_like(value, found))
            })
    }

    fn are_elements_like(&self, expected: &[Value], actual: &[Value]) -> bool {
        if expected.len() > actual.len() || (expected.len() < actual.len() && !self.ignore_extras) {
            return false;
        }
        if self.ignore_order {
            return self.can_pair(expected, actual);
        }
        expected
            .iter()
            .zip(actual)
            .all(|(expected, actual)| self.is_like(expected, actual))
    }

    /// True if each expected element can have an actual one of its own. Taking the first that is
    /// alike would not do: `{"a":1}` is like `{"a":1,"b":2}` when extras are ignored, though
    /// another element may need just that one.
    fn can_pair(&self, expected: &[Value], actual: &[Value]) -> bool {
        let alike: Vec<Vec<bool>> = expected
            .iter()
            .map(|one| {
                actual
                    .iter()
                    .map(|other| self.is_like(one, other))
                    .collect()
            })
            .collect();
        let mut owners = vec![None; actual.len()];
        (0..expected.len()).all(|one| {
            let mut tried = vec![false; actual.len()];
            find_partner(one, &alike, &mut owners, &mut tried)
        })
    }
}

/// One step of the augmenting-path algorithm for bipartite matching (Kuhn, 1955): finds a partner
/// for `one`, moving the partners of others where they have another choice.
fn find_partner(
    one: usize,
    alike: &[Vec<bool>],
    owners: &mut [Option<usize>],
    tried: &mut [bool],
) -> bool {
    for other in 0..owners.len() {
        if !alike[one][other] || std::mem::replace(&mut tried[other], true) {
            continue;
        }
        if owners[other].is_none_or(|owner| find_partner(owner, alike, owners, tried)) {
            owners[other] = Some(one);
            return true;
        }
    }
    false
}

/// True if two numbers have one value: `1`, `1.0` and `1e0` do
/// (`matching/NormalisedNumberComparator.java`).
///
/// Fractions are compared as 64-bit floating-point numbers, where WireMock compares all their
/// digits.
fn is_same_number(one: &Number, other: &Number) -> bool {
    one == other || ((one.is_f64() || other.is_f64()) && one.as_f64() == other.as_f64())
}

/// Return JSON that stands in a mapping file as such, or in a text.
pub(super) fn json_operand(operand: &Node<'_>) -> Result<Value, Problem> {
    match operand.value() {
        Value::String(json) => parse_json(json.as_bytes())
            .map_err(|error| operand.malformed(format!("not JSON: {error}"))),
        inline => Ok(inline.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn pattern(pattern: &Value) -> Result<JsonPattern, Problem> {
        let node = Node::root(pattern);
        JsonPattern::read(&node, &node.get("equalToJson").unwrap())
    }

    #[test]
    fn equality_and_its_two_liberties() {
        let strict = json!({});
        let (extras, both) = (
            json!({"ignoreExtraElements": true}),
            json!({"ignoreArrayOrder": true, "ignoreExtraElements": true}),
        );
        let table = [
            (
                &strict,
                json!({"a": 1, "b": [1, 2]}),
                json!({"b": [1.0, 2e0], "a": 1}),
                true,
            ),
            (&strict, json!({"a": 1}), json!({"a": 1, "b": 2}), false),
            (&strict, json!({"a": null}), json!({}), false),
            (&strict, json!([1, 2]), json!([2, 1]), false),
            (&strict, json!(1), json!("1"), false),
            (&strict, json!("{\"a\": [1]}"), json!({"a": [1]}), true),
            (
                &extras,
                json!({"a": {"b": 1}}),
                json!({"a": {"b": 1, "c": 2}, "d": 3}),
                true,
            ),
            (&extras, json!({"a": 1}), json!({}), false),
            (&extras, json!([1, 2]), json!([1, 2, 3]), true),
            (&extras, json!([1, 2]), json!([0, 1, 2]), false),
            (&extras, json!([1, 2]), json!([1]), false),
            (&both, json!([2, 1]), json!([0, 1, 2]), true),
            // The first expected element would also take what the second one needs.
            (
                &both,
                json!([{"a": 1}, {"a": 1, "b": 2}]),
                json!([{"a": 1, "b": 2}, {"a": 1}]),
                true,
            ),
            (
                &both,
                json!([{"a": 1}, {"a": 1, "b": 2}]),
                json!([{"a": 1}, {"a": 1}]),
                false,
            ),
        ];
        for (liberties, expected, actual, is_match) in table {
            let mut read = liberties.clone();
            read["equalToJson"] = expected.clone();
            assert_eq!(
                pattern(&read).unwrap().is_match(&actual),
                is_match,
                "{expected} {liberties} {actual}"
            );
        }
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        for read in [
            json!({"equalToJson": {"a": ["${json-unit.any-string}"]}}),
            json!({"equalToJson": "{\"a\": }"}),
            json!({"equalToJson": {}, "ignoreArrayOrder": 3}),
        ] {
            assert!(pattern(&read).is_err(), "{read}");
        }
    }

    proptest! {
        #[test]
        fn any_order_is_equal_when_order_is_ignored(
            (kept, shuffled) in prop::collection::vec(0..4_u8, 0..8)
                .prop_flat_map(|kept| (Just(kept.clone()), Just(kept).prop_shuffle())),
            other in prop::collection::vec(0..4_u8, 0..8),
        ) {
            let pattern = pattern(&json!({"equalToJson": kept, "ignoreArrayOrder": true})).unwrap();
            prop_assert!(pattern.is_match(&json!(shuffled)));
            let sorted = |values: &[u8]| { let mut values = values.to_vec(); values.sort_unstable(); values };
            prop_assert_eq!(pattern.is_match(&json!(other)), sorted(&kept) == sorted(&other));
        }

    }
}
