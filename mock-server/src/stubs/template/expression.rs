//! The expression in a tag: a field of the request, a helper with its arguments, or a value; and
//! its evaluation.

use super::date::CompiledNow;
use super::decimal::Operator;
use super::field::Field;
use super::random::{self, RandomValue};
use super::value::Value;
use super::{Failed, Occasion};
use crate::draw::Draws;
use crate::stubs::json_path::{self, JsonPath, java_text};
use serde_json::Value as Json;
use std::borrow::Cow;

/// Expression in a gap of a template.
#[derive(Clone, Debug)]
pub(super) enum Expression {
    /// Known beforehand.
    Constant(Value<'static>),
    Field(Field),
    Now(CompiledNow),
    RandomInt {
        lower: Box<Expression>,
        upper: Box<Expression>,
    },
    RandomValue(RandomValue),
    PickRandom {
        values: Vec<Expression>,
        count: Option<usize>,
    },
    Math {
        left: Box<Expression>,
        operator: Operator,
        right: Box<Expression>,
    },
    JsonPath {
        document: Box<Expression>,
        path: JsonPath,
        default: Option<Box<Expression>>,
    },
}

/// `HelperUtils.coerceToInt`.
pub(super) fn java_int(value: &Value<'_>) -> Result<i32, Failed> {
    let number = match value {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "Java's intValue keeps the low 32 bits of a long, too"
        )]
        Value::Integer(integer) => Some(*integer as i32),
        #[expect(
            clippy::cast_possible_truncation,
            reason = "Java's intValue saturates, too"
        )]
        Value::Real(real) => Some(*real as i32),
        Value::Text(text) => text.parse().ok(),
        Value::Missing | Value::Truth(_) | Value::List { .. } => None,
    };
    number.ok_or_else(|| {
        Failed(format!(
            "randomInt takes whole numbers, not `{}`",
            value.text()
        ))
    })
}

impl Expression {
    /// Evaluate the expression.
    pub(super) fn evaluate<'r>(
        &'r self,
        occasion: &Occasion<'r>,
        draws: &mut Draws,
    ) -> Result<Value<'r>, Failed> {
        match self {
            Self::Constant(value) => Ok(value.clone()),
            Self::Field(field) => Ok(field.value(occasion)),
            Self::Now(now) => now.text(occasion.now).map(Value::owned),
            Self::RandomInt { lower, upper } => {
                let lower = java_int(&lower.evaluate(occasion, draws)?)?;
                let upper = java_int(&upper.evaluate(occasion, draws)?)?;
                let number = random::between(lower, upper, draws);
                let nothing = || {
                    Failed(format!(
                        "randomInt has nothing from {lower} up to, but not, {upper}"
                    ))
                };
                number.map(Value::Integer).ok_or_else(nothing)
            }
            Self::RandomValue(value) => Ok(Value::Text(value.draw(draws))),
            Self::PickRandom { values, count } => {
                let mut found = Vec::with_capacity(values.len());
                for value in values {
                    found.push(value.evaluate(occasion, draws)?);
                }
                pick(found, *count, draws)
            }
            Self::Math {
                left,
                operator,
                right,
            } => operator.apply(
                &left.evaluate(occasion, draws)?,
                &right.evaluate(occasion, draws)?,
            ),
            Self::JsonPath {
                document,
                path,
                default,
            } => {
                let text = document.evaluate(occasion, draws)?.into_text();
                let found = match json_path::document(&text) {
                    _ if text.is_empty() => return Ok(Value::Missing),
                    Some(json) => path.find(&json),
                    None => return Ok(Value::owned(format!("[ERROR: {text} is not valid JSON]"))),
                };
                match (&found, default) {
                    (Json::Null, None) => Ok(Value::Missing),
                    (Json::Null, Some(default)) => default.evaluate(occasion, draws),
                    (found, _) => Ok(json_value(found)),
                }
            }
        }
    }
}

fn json_value(json: &Json) -> Value<'static> {
    let text = |json: &Json| Cow::Owned(java_text(json).into_owned());
    match json {
        Json::Bool(truth) => Value::Truth(*truth),
        Json::Number(number) if number.is_i64() => {
            Value::Integer(number.as_i64().unwrap_or_default())
        }
        Json::Array(elements) => Value::List {
            items: elements.iter().map(text).collect(),
            written: text(json),
        },
        other => Value::Text(text(other)),
    }
}

const NOTHING_TO_PICK: &str =
    "[ERROR: Must specify either a single list argument or a set of single value arguments.]";

/// Pick from a list in the first place, else from all that is given.
fn pick<'v>(
    mut values: Vec<Value<'v>>,
    count: Option<usize>,
    draws: &mut Draws,
) -> Result<Value<'v>, Failed> {
    match values.first_mut() {
        // WireMock's own words, which it answers with, too.
        None | Some(Value::Missing) => return Ok(Value::Text(Cow::Borrowed(NOTHING_TO_PICK))),
        Some(Value::List { items, .. }) => {
            values = std::mem::take(items).into_iter().map(Value::Text).collect();
        }
        Some(_) => {}
    }
    match count {
        None => random::one(values, draws)
            .ok_or_else(|| Failed("pickRandom picks from an empty list".to_owned())),
        Some(count) => {
            let own = |value: Value<'v>| Cow::Owned(value.text().into_owned());
            let items: Vec<Cow<'v, str>> = random::some(values, count, draws)
                .into_iter()
                .map(own)
                .collect();
            let written = Cow::Owned(format!("[{}]", items.join(", ")));
            Ok(Value::List { items, written })
        }
    }
}
