//! Values of a stub's fields, converted to the wanted type as Java's JSON reader (Jackson) converts
//! them. `reply` and its parts read with this.
//!
//! It must not know what a field means.

use crate::latency::MAX_HOLD;
use crate::stubs::node::{Node, Problem};
use serde_json::Value;
use std::borrow::Cow;
use std::time::Duration;

/// The field `name`, which must not be absent or `null`.
pub(crate) fn required<'v>(object: &Node<'v>, name: &str) -> Result<Node<'v>, Problem> {
    object
        .get(name)
        .ok_or_else(|| object.malformed(format!("the field {name} is missing")))
}

/// A text, or a number or a truth value as the text that stands in the file.
pub(crate) fn text<'v>(node: &Node<'v>) -> Result<Cow<'v, str>, Problem> {
    match node.value() {
        Value::Number(number) => Ok(Cow::Owned(super::json::number(number))),
        Value::Bool(truth) => Ok(Cow::Borrowed(if *truth { "true" } else { "false" })),
        _ => node.text().map(Cow::Borrowed),
    }
}

/// A whole number of 32 bits; from a fraction its whole part, from a text the number that it
/// spells.
pub(crate) fn whole(node: &Node<'_>) -> Result<i32, Problem> {
    let wide = match node.value() {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a float is cut off and saturates, and is judged after"
        )]
        Value::Number(number) => number
            .as_i64()
            .or_else(|| number.as_f64().map(|number| number as i64)),
        Value::String(text) => text.trim().parse().ok(),
        _ => node.integer().map(Some)?,
    };
    wide.and_then(|wide| i32::try_from(wide).ok())
        .ok_or_else(|| node.malformed("expected a whole number of 32 bits"))
}

/// A duration in whole milliseconds, up to [`MAX_HOLD`].
pub(crate) fn milliseconds(node: &Node<'_>) -> Result<Duration, Problem> {
    let whole = whole(node)?;
    hold(node, f64::from(whole))?;
    Ok(Duration::from_millis(u64::from(whole.unsigned_abs())))
}

/// Checks a duration in milliseconds: `0..=`[`MAX_HOLD`].
pub(crate) fn hold(node: &Node<'_>, milliseconds: f64) -> Result<f64, Problem> {
    let most = MAX_HOLD.as_secs_f64() * 1000.0;
    if milliseconds < 0.0 {
        return Err(node.malformed(format!(
            "a delay of {milliseconds} ms is negative: write 0 or more"
        )));
    }
    if milliseconds <= most {
        Ok(milliseconds)
    } else {
        Err(node.malformed(format!(
            "a delay of {milliseconds} ms is longer than an hour: write {most} or less"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_coerced_as_jackson_does() {
        for (value, expected) in [
            (json!("a"), "a"),
            (json!(5), "5"),
            (json!(1.5), "1.5"),
            (json!(true), "true"),
        ] {
            assert_eq!(text(&Node::root(&value)).unwrap(), expected);
        }
        for value in [json!(null), json!([]), json!({})] {
            assert!(text(&Node::root(&value)).is_err(), "{value}");
        }
        for (value, expected) in [
            (json!(5), 5),
            (json!(5.9), 5),
            (json!(-5.9), -5),
            (json!(" 7 "), 7),
        ] {
            assert_eq!(whole(&Node::root(&value)).unwrap(), expected);
        }
        for value in [
            json!(null),
            json!(true),
            json!(""),
            json!("7a"),
            json!(3_000_000_000_u64),
            json!(1e300),
        ] {
            assert!(whole(&Node::root(&value)).is_err(), "{value}");
        }
    }

    #[test]
    fn absurd_durations_are_refused() {
        for (value, expected) in [
            (
                json!(-1),
                "the whole document: a delay of -1 ms is negative: write 0 or more",
            ),
            (
                json!(3_600_001),
                "the whole document: a delay of 3600001 ms is longer than an hour: write 3600000 or less",
            ),
        ] {
            assert_eq!(
                milliseconds(&Node::root(&value)).unwrap_err().to_string(),
                expected
            );
        }
        assert_eq!(milliseconds(&Node::root(&json!(3_600_000))), Ok(MAX_HOLD));
        assert!(hold(&Node::root(&json!(0)), f64::NAN).is_err());
    }

    #[test]
    fn other_fields_are_refused_by_name() {
        let document = json!({"known": 1, "knwon": null});
        let root = Node::root(&document);
        let problem = root.only("known other").unwrap_err();
        assert_eq!(
            problem.to_string(),
            "/knwon: unknown field `knwon`; did you mean known?"
        );
        assert_eq!(root.only("known knwon"), Ok(()));
        assert_eq!(
            required(&root, "knwon").unwrap_err().to_string(),
            "the whole document: the field knwon is missing"
        );
    }
}
