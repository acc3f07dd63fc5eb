//! Comparison of a saved value with the same value, computed again from its sources.
//!
//! Called by readers of studies, whose journals and comparisons repeat what the results of their
//! rounds say.

use std::path::{Component, Path};

use serde::Serialize;
use serde_json::Value;

use super::foreign::short;
use super::{RESULT, ReadError, read};
use crate::run::report::Report;

/// Relative difference of two figures that two machines computed from the same numbers.
const ROUNDING: f64 = 1e-9;

/// Checks that a saved value is what it is now.
///
/// # Errors
/// Names the first field that is not, with both values: "`totals.ok` is 7, but 8".
pub fn agree(saved: &impl Serialize, again: &impl Serialize) -> Result<(), String> {
    let [saved, again] =
        [serde_json::to_value(saved), serde_json::to_value(again)].map(Result::unwrap_or_default);
    first_difference("", &saved, &again).map_or(Ok(()), Err)
}

fn first_difference(field: &str, saved: &Value, again: &Value) -> Option<String> {
    let inner = |name: &str| {
        if field.is_empty() {
            name.to_owned()
        } else {
            format!("{field}.{name}")
        }
    };
    match (saved, again) {
        (Value::Object(saved), Value::Object(again)) => {
            let names = saved
                .keys()
                .chain(again.keys().filter(|name| !saved.contains_key(*name)));
            let of = |fields: &serde_json::Map<_, _>, name: &str| {
                fields.get(name).cloned().unwrap_or_default()
            };
            names
                .into_iter()
                .find_map(|name| first_difference(&inner(name), &of(saved, name), &of(again, name)))
        }
        (Value::Array(saved), Value::Array(again)) if saved.len() == again.len() => {
            let mut pairs = saved.iter().zip(again).enumerate();
            pairs.find_map(|(i, (saved, again))| {
                first_difference(&format!("{field}[{i}]"), saved, again)
            })
        }
        (Value::Number(a), Value::Number(b)) if is_close(a.as_f64(), b.as_f64()) => None,
        _ if saved == again => None,
        _ => Some(format!(
            "`{}` is {}, but {}",
            short(field),
            short(&saved.to_string()),
            short(&again.to_string())
        )),
    }
}

fn is_close(a: Option<f64>, b: Option<f64>) -> bool {
    a.zip(b)
        .is_some_and(|(a, b)| (a - b).abs() <= ROUNDING * a.abs().max(b.abs()))
}

/// Reads the result of a round, which lies in the folder `result` of its study. None where that
/// names a place outside of the study, or nothing is there.
///
/// # Errors
/// As [`read()`].
pub fn read_round(study: &Path, result: &str) -> Result<Option<Report>, ReadError> {
    let file = study.join(result).join(RESULT);
    if !is_inside(result) || file.symlink_metadata().is_err() {
        return Ok(None);
    }
    read(&file).map(Some)
}

/// True if the path stays within the directory that it is relative to.
pub(crate) fn is_inside(path: &str) -> bool {
    Path::new(path)
        .components()
        .all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_difference_is_named_with_both_values() {
        let saved = json!({"a": 1, "b": {"c": [1.0, 2.0]}, "d": "x"});
        let with = |at: &str, value: Value| {
            let mut again = saved.clone();
            *again.pointer_mut(at).unwrap() = value;
            agree(&saved, &again).err()
        };
        for (at, value, says) in [
            ("/a", json!(2), "`a` is 1, but 2"),
            ("/b/c/1", json!(2.1), "`b.c[1]` is 2.0, but 2.1"),
            ("/b/c", json!([1.0]), "`b.c` is [1.0,2.0], but [1.0]"),
            ("/d", Value::Null, "`d` is \"x\", but null"),
        ] {
            assert_eq!(with(at, value).as_deref(), Some(says));
        }
        assert_eq!(
            with("/b/c/0", json!(1.0 + 1e-15)),
            None,
            "rounded otherwise"
        );
        assert_eq!(
            agree(&json!({}), &json!({"e": 5})),
            Err("`e` is null, but 5".to_owned())
        );
    }
}
