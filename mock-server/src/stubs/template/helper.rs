//! The helpers, by name: their arguments, checked as far as they are known when a stub is loaded,
//! and what they evaluate to.
//!
//! What is random draws from the given words only, so that a run can be repeated; WireMock's does
//! not.

use super::date::Now;
use super::decimal;
use super::{Expression, Failed, Occasion, Value, malformed, unsupported};
use crate::draw::{Draws, Stream};
use crate::stubs::json_path::{self, JsonPath};
use crate::stubs::node::ValueProblem;
use serde_json::Value as Json;
use std::borrow::Cow;

/// A longer random value is a typing error, in characters.
const LONGEST: i64 = 1_000_000;

/// Of ASCII, with the blank at the end.
const VISIBLE: &str = "!\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~ ";

/// Arguments of a helper.
#[derive(Default)]
pub(super) struct Arguments {
    pub(super) positional: Vec<Expression>,
    pub(super) named: Vec<(String, Expression)>,
}

/// A helper with its arguments.
#[derive(Clone, Debug)]
pub(super) enum Call {
    Now(Now),
    RandomInt {
        lower: Expression,
        upper: Expression,
    },
    RandomValue(RandomValue),
    PickRandom {
        values: Vec<Expression>,
        count: Option<usize>,
    },
    Math {
        left: Expression,
        sign: String,
        right: Expression,
    },
    JsonPath {
        document: Expression,
        path: JsonPath,
        default: Expression,
    },
}

/// `randomValue`.
#[derive(Clone, Copy, Debug)]
pub(super) struct RandomValue {
    /// One of these for each character; none for a UUID of version 4, whatever the length.
    characters: Option<&'static str>,
    length: usize,
    is_upper: bool,
}

/// The helper of this name, if there is one.
pub(super) fn call(name: &str, arguments: Arguments) -> Result<Option<Call>, ValueProblem> {
    Ok(Some(match name {
        "date" if !arguments.positional.is_empty() => {
            return unsupported("the helper `date` with a date");
        }
        "now" | "date" => Call::Now(Now::compile(
            arguments.known("format", "a text", text)?,
            arguments.known("offset", "a text", text)?,
            arguments.known("timezone", "a text", text)?,
        )?),
        "randomInt" => random_int(&arguments)?,
        "randomValue" => Call::RandomValue(random_value(&arguments)?),
        "pickRandom" => pick_random(arguments)?,
        "math" => math(arguments)?,
        "jsonPath" => json_path(arguments)?,
        _ => return Ok(None),
    }))
}

fn text<'v>(value: &'v Value<'static>) -> Option<&'v str> {
    match value {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

fn integer(value: &Value<'static>) -> Option<i64> {
    match value {
        Value::Integer(integer) => Some(*integer),
        _ => None,
    }
}

fn truth(value: &Value<'static>) -> Option<bool> {
    match value {
        Value::Truth(truth) => Some(*truth),
        _ => None,
    }
}

impl Arguments {
    pub(super) fn is_empty(&self) -> bool {
        self.positional.is_empty() && self.named.is_empty()
    }

    /// The last argument of this name; one that is missing counts as not given.
    fn named(&self, name: &str) -> Option<&Expression> {
        let found = self.named.iter().rfind(|(known, _)| known == name);
        found
            .map(|(_, value)| value)
            .filter(|value| !matches!(value, Expression::Constant(Value::Missing)))
    }

    /// Read an argument that must be known when the stub is loaded.
    fn known<'a, T>(
        &'a self,
        name: &str,
        kind: &str,
        read: impl FnOnce(&'a Value<'static>) -> Option<T>,
    ) -> Result<Option<T>, ValueProblem> {
        match self.named(name) {
            None => Ok(None),
            Some(Expression::Constant(value)) => match read(value) {
                None => malformed(format!("`{name}` is {kind}, not `{}`", value.text())),
                read => Ok(read),
            },
            Some(_) => unsupported(format!("`{name}` that depends on the request")),
        }
    }
}

fn random_int(arguments: &Arguments) -> Result<Call, ValueProblem> {
    let bound = |name, default: i32| {
        arguments
            .named(name)
            .cloned()
            .unwrap_or_else(|| Expression::Constant(Value::Integer(default.into())))
    };
    let (lower, upper) = (bound("lower", i32::MIN), bound("upper", i32::MAX));
    if let (Expression::Constant(lower), Expression::Constant(upper)) = (&lower, &upper) {
        between(lower, upper, &mut Draws::new(Stream::Template, 0, 0))
            .map_err(|failed| ValueProblem::Malformed(failed.0))?;
    }
    Ok(Call::RandomInt { lower, upper })
}

fn random_value(arguments: &Arguments) -> Result<RandomValue, ValueProblem> {
    let kind = "a whole number of 0 to 1,000,000";
    let length = arguments.known("length", kind, |value| {
        let length = integer(value).filter(|length| *length <= LONGEST)?;
        usize::try_from(length).ok()
    })?;
    let characters = match arguments.known("type", "a text", text)? {
        None | Some("ALPHANUMERIC") => {
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
        }
        Some("ALPHABETIC") => "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
        Some("NUMERIC") => "0123456789",
        Some("HEXADECIMAL") => "ABCDEF0123456789",
        // Without the last two.
        Some("ALPHANUMERIC_AND_SYMBOLS") => &VISIBLE[..VISIBLE.len() - 2],
        Some("UUID") => "",
        // What has no name of its own is any character, as it is for WireMock.
        Some(_) => VISIBLE,
    };
    Ok(RandomValue {
        characters: (!characters.is_empty()).then_some(characters),
        length: length.unwrap_or(36),
        is_upper: arguments
            .known("uppercase", "true or false", truth)?
            .unwrap_or(false),
    })
}

fn pick_random(arguments: Arguments) -> Result<Call, ValueProblem> {
    if arguments.positional.is_empty() {
        return malformed("pickRandom has nothing to pick from");
    }
    let count = arguments.known("count", "a whole number", integer)?;
    Ok(Call::PickRandom {
        count: count
            .and_then(|count| usize::try_from(count).ok())
            .filter(|count| *count > 0),
        values: arguments.positional,
    })
}

fn math(arguments: Arguments) -> Result<Call, ValueProblem> {
    let Ok([left, sign, right]) = <[Expression; 3]>::try_from(arguments.positional) else {
        return malformed("math takes two operands with an operator between them: 3 '+' 2");
    };
    match sign {
        Expression::Constant(sign) if decimal::SIGNS.contains(&&*sign.text()) => Ok(Call::Math {
            left,
            sign: sign.text().into_owned(),
            right,
        }),
        _ => malformed("math knows the operators + - * / %"),
    }
}

fn json_path(arguments: Arguments) -> Result<Call, ValueProblem> {
    let default = arguments.named("default").cloned();
    let Ok([document, path]) = <[Expression; 2]>::try_from(arguments.positional) else {
        return malformed("jsonPath takes a text and a path in it: request.body '$.name'");
    };
    let Expression::Constant(path) = path else {
        return unsupported("a path of `jsonPath` that depends on the request");
    };
    Ok(Call::JsonPath {
        document,
        path: JsonPath::parse(&path.text())?,
        default: default.unwrap_or(Expression::Constant(Value::Missing)),
    })
}

impl Call {
    pub(super) fn evaluate<'r>(
        &'r self,
        occasion: &Occasion<'r>,
        draws: &mut Draws,
    ) -> Result<Value<'r>, Failed> {
        match self {
            Self::Now(now) => now.text(occasion.now).map(Value::owned),
            Self::RandomInt { lower, upper } => {
                let lower = lower.evaluate(occasion, draws)?;
                let upper = upper.evaluate(occasion, draws)?;
                between(&lower, &upper, draws).map(Value::Integer)
            }
            Self::RandomValue(value) => Ok(Value::owned(value.draw(draws))),
            Self::PickRandom { values, count } => {
                let values: Result<_, _> = values
                    .iter()
                    .map(|value| value.evaluate(occasion, draws))
                    .collect();
                pick(values?, *count, draws)
            }
            Self::Math { left, sign, right } => decimal::apply(
                &left.evaluate(occasion, draws)?,
                sign,
                &right.evaluate(occasion, draws)?,
            ),
            Self::JsonPath {
                document,
                path,
                default,
            } => {
                let document = document.evaluate(occasion, draws)?;
                let text = document.text();
                match json_path::document(&text) {
                    _ if text.is_empty() => Ok(Value::Missing),
                    None => Ok(Value::owned(format!("[ERROR: {text} is not valid JSON]"))),
                    Some(json) => match path.find(&json) {
                        Json::Null => default.evaluate(occasion, draws),
                        found => Ok(Value::of_json(&found)),
                    },
                }
            }
        }
    }
}

/// A whole number from `lower` up to, but not, `upper`.
fn between(lower: &Value<'_>, upper: &Value<'_>, draws: &mut Draws) -> Result<i64, Failed> {
    let (lower, upper) = (java_int(lower)?, java_int(upper)?);
    let choices = u64::try_from(i64::from(upper) - i64::from(lower)).unwrap_or_default();
    if choices == 0 {
        return Err(Failed(format!(
            "randomInt has nothing from {lower} up to, but not, {upper}"
        )));
    }
    Ok(i64::from(lower).wrapping_add_unsigned(draws.below(choices)))
}

/// `HelperUtils.coerceToInt`.
fn java_int(value: &Value<'_>) -> Result<i32, Failed> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "Java's intValue keeps the low 32 bits of a long and saturates for a double, too"
    )]
    let number = match value {
        Value::Integer(integer) => Some(*integer as i32),
        Value::Real(real) => Some(*real as i32),
        Value::Text(text) => text.parse().ok(),
        _ => None,
    };
    let wrong = || format!("randomInt takes whole numbers, not `{}`", value.text());
    number.ok_or_else(|| Failed(wrong()))
}

/// WireMock's own words, which it answers with, too.
const NOTHING_TO_PICK: &str =
    "[ERROR: Must specify either a single list argument or a set of single value arguments.]";

/// Pick from a list in the first place, else from all that is given: one, or `count` in random
/// order.
fn pick<'v>(
    mut values: Vec<Value<'v>>,
    count: Option<usize>,
    draws: &mut Draws,
) -> Result<Value<'v>, Failed> {
    match values.first_mut() {
        None | Some(Value::Missing) => return Ok(Value::Text(Cow::Borrowed(NOTHING_TO_PICK))),
        Some(Value::List { items, .. }) => {
            values = std::mem::take(items).into_iter().map(Value::Text).collect();
        }
        Some(_) => {}
    }
    let length = count.unwrap_or(1).min(values.len());
    for taken in 0..length {
        let other = draws.below((values.len() - taken) as u64);
        values.swap(taken, taken + usize::try_from(other).unwrap_or_default());
    }
    values.truncate(length);
    if count.is_none() {
        return values
            .pop()
            .ok_or_else(|| Failed("pickRandom picks from an empty list".to_owned()));
    }
    let items: Vec<_> = values
        .iter()
        .map(|value| Cow::Owned(value.text().into_owned()))
        .collect();
    let written = Cow::Owned(format!("[{}]", items.join(", ")));
    Ok(Value::List { items, written })
}

impl RandomValue {
    fn draw(self, draws: &mut Draws) -> String {
        let text = match self.characters {
            None => {
                let bits = u128::from(draws.word()) << 64 | u128::from(draws.word());
                let uuid = uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid();
                uuid.to_string()
            }
            Some(characters) => {
                let characters = characters.as_bytes();
                std::iter::repeat_with(|| draws.below(characters.len() as u64))
                    .take(self.length)
                    .filter_map(|index| characters.get(usize::try_from(index).ok()?))
                    .map(|byte| char::from(*byte))
                    .collect()
            }
        };
        if self.is_upper {
            text.to_ascii_uppercase()
        } else {
            text.to_ascii_lowercase()
        }
    }
}
