//! Values of a JSON document by their pointers (RFC 6901), as they are written there: a number
//! keeps its digits.
//!
//! Called for responses that values are taken from. It must not know what a value is for.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

/// Return a text without the byte order mark of UTF-8, which a parser may leave out (RFC 8259, 8.1).
pub(crate) fn unmarked(text: &[u8]) -> &[u8] {
    text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text)
}

/// Part of a pointer that stands for each item of a list.
const EACH: &str = "/*";

/// Return the document of a body; none if that is not one JSON value.
pub(crate) fn document(body: &[u8]) -> Option<&RawValue> {
    serde_json::from_str(std::str::from_utf8(unmarked(body)).ok()?).ok()
}

/// Return the value at a pointer.
pub(crate) fn find<'a>(value: &'a RawValue, pointer: &str) -> Option<&'a RawValue> {
    pointer.split('/').skip(1).try_fold(value, |value, name| {
        let name = name.replace("~1", "/").replace("~0", "~");
        match items(value) {
            Some(items) => items.into_iter().nth(index(&name)?),
            None => member(value, &name),
        }
    })
}

/// Split a pointer into each item of a list: into those to the list, and to the value in an item.
pub(crate) fn split_each(pointer: &str) -> Option<(&str, &str)> {
    pointer
        .split_once(EACH)
        .filter(|(_, rest)| rest.is_empty() || rest.starts_with('/'))
}

/// Return the values at a pointer, in which `*` stands for each item of a list.
pub(crate) fn find_all<'a>(value: &'a RawValue, pointer: &str) -> Vec<&'a RawValue> {
    let Some((before, rest)) = split_each(pointer) else {
        return find(value, pointer).into_iter().collect();
    };
    let items = find(value, before).and_then(each).unwrap_or_default();
    items
        .into_iter()
        .flat_map(|item| find_all(item, rest))
        .collect()
}

/// Return what `*` stands for: the items of a list, or the member of an object with this name.
pub(crate) fn each(value: &RawValue) -> Option<Vec<&RawValue>> {
    items(value).or_else(|| Some(vec![find(value, EACH)?]))
}

/// Return the items of a list; none of anything else.
fn items(value: &RawValue) -> Option<Vec<&RawValue>> {
    let is_list = value.get().starts_with('[');
    is_list.then(|| serde_json::from_str(value.get()).ok())?
}

/// Return a member of an object: of several with this name, the last.
fn member<'a>(value: &'a RawValue, name: &str) -> Option<&'a RawValue> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(value.get()).ok()?;
    members.get(name).copied()
}

/// Read the position of an item: digits, without zeros before them.
fn index(name: &str) -> Option<usize> {
    let is_number = name == "0" || !name.starts_with(['0', '+']);
    is_number.then(|| name.parse().ok())?
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "\\PC{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-c/~*\"0é]{0,2}", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_pointer_finds_what_the_library_finds(value in any_json(), pointer in "(/[a-c/~01*\"é+-]{0,2}){0,4}", has_mark: bool) {
            let body = format!("{}{value}", if has_mark { "\u{feff}" } else { "" });
            let found = find(document(body.as_bytes()).unwrap(), &pointer);
            let found = found.map(|found| serde_json::from_str::<Value>(found.get()).unwrap());
            prop_assert_eq!(found.as_ref(), value.pointer(&pointer));
        }

        #[test]
        fn a_number_is_found_as_it_is_written(number in "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?") {
            let body = format!("{{\"a\": [ {number} ]}}");
            let found = find(document(body.as_bytes()).unwrap(), "/a/0");
            prop_assert_eq!(found.map(RawValue::get), Some(number.as_str()));
        }

        #[test]
        fn no_bytes_make_it_panic(body in prop::collection::vec(any::<u8>(), 0..200), text in "[\\[\\]{}\":,a0\\\\]{0,60}", pointer in "[/a0~]{0,6}") {
            for body in [&*body, text.as_bytes()] {
                let _ = document(body).and_then(|document| find(document, &pointer));
            }
        }
    }

    #[test]
    fn a_name_that_is_there_twice_is_the_last_one() {
        let found = find(document(br#"{"a": 1, "a": 2}"#).unwrap(), "/a").map(RawValue::get);
        assert_eq!(found, Some("2"));
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert!(document(deep.as_bytes()).is_some());
        assert_eq!(json!([1]).pointer("/00"), None);
    }
}
