//! The helpers, by name: their arguments, checked as far as they are known when a stub is loaded,
//! and what they evaluate to.
//!
//! What is random draws from the given words only, so that a run can be repeated; WireMock's does
//! not.

use super::date::Now;
use super::{Expression, Failed, Occasion, Value, malformed, unsupported};
use crate::draw::Draws;
use crate::stubs::json_path::{self, JsonPath};
use crate::stubs::node::ValueProblem;
use serde_json::Value as Json;
use std::borrow::Cow;

/// A longer random value is a typing error, in characters.
const LONGEST: usize = 1_000_000;

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
    PickRandom(Vec<Expression>),
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
            arguments.known("format")?.as_deref(),
            arguments.known("offset")?.as_deref(),
            arguments.known("timezone")?.as_deref(),
        )?),
        "randomInt" => random_int(&arguments),
        "randomValue" => Call::RandomValue(random_value(&arguments)?),
        "pickRandom" if arguments.positional.is_empty() => {
            return malformed("pickRandom has nothing to pick from");
        }
        "pickRandom" if !arguments.named.is_empty() => {
            return unsupported("`count` of pickRandom");
        }
        "pickRandom" => Call::PickRandom(arguments.positional),
        "math" => math(arguments)?,
        "jsonPath" => json_path(arguments)?,
        _ => return Ok(None),
    }))
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

    /// An argument that must be known when the stub is loaded.
    fn known(&self, name: &str) -> Result<Option<Cow<'_, str>>, ValueProblem> {
        match self.named(name) {
            None => Ok(None),
            Some(Expression::Constant(value)) => Ok(Some(value.text())),
            Some(_) => unsupported(format!("`{name}` that depends on the request")),
        }
    }
}

fn random_int(arguments: &Arguments) -> Call {
    let [lower, upper] = [("lower", i32::MIN), ("upper", i32::MAX)].map(|(name, default)| {
        let default = Expression::Constant(Value::Integer(default.into()));
        arguments.named(name).cloned().unwrap_or(default)
    });
    Call::RandomInt { lower, upper }
}

fn random_value(arguments: &Arguments) -> Result<RandomValue, ValueProblem> {
    let length = match arguments.known("length")? {
        None => 36,
        Some(text) => match text.parse() {
            Ok(length @ ..=LONGEST) => length,
            _ => return malformed(format!("`length` is 0 to {LONGEST}, not `{text}`")),
        },
    };
    let characters = match arguments.known("type")?.as_deref() {
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
        length,
        is_upper: arguments.known("uppercase")?.as_deref() == Some("true"),
    })
}

fn math(arguments: Arguments) -> Result<Call, ValueProblem> {
    let Ok([left, sign, right]) = <[Expression; 3]>::try_from(arguments.positional) else {
        return malformed("math takes two operands with an operator between them: 3 '+' 2");
    };
    match sign {
        Expression::Constant(sign) if ["+", "-", "*", "x", "/", "%"].contains(&&*sign.text()) => {
            Ok(Call::Math {
                left,
                sign: sign.text().into_owned(),
                right,
            })
        }
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
            Self::PickRandom(values) => {
                let values = values
                    .iter()
                    .map(|value| value.evaluate(occasion, draws))
                    .collect::<Result<Vec<_>, _>>()?;
                pick(values, draws)
            }
            Self::Math { left, sign, right } => calculate(
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
                    None => Err(Failed("jsonPath: the text is no JSON".to_owned())),
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
    let (from, to) = (lower.text().parse::<i32>(), upper.text().parse::<i32>());
    match (from, to) {
        (Ok(from), Ok(to)) if from < to => {
            let choices = u64::from(to.abs_diff(from));
            Ok(i64::from(from).wrapping_add_unsigned(draws.below(choices)))
        }
        _ => Err(Failed(format!(
            "randomInt has nothing from {} up to, but not, {}",
            lower.text(),
            upper.text()
        ))),
    }
}

/// A number, and its decimal places.
struct Operand {
    number: f64,
    places: i32,
}

impl Operand {
    /// What is no number counts as 0.
    fn of(value: &Value<'_>) -> Result<Self, Failed> {
        if *value == Value::Missing {
            return Err(Failed("math lacks an operand".to_owned()));
        }
        let text = value.text();
        let places = text.split_once('.').map_or(0, |(_, places)| places.len());
        Ok(Self {
            number: text.parse().unwrap_or_default(),
            places: i32::try_from(places).unwrap_or_default(),
        })
    }
}

/// The result of `math`: a whole number if it has no decimal places, of which there are as many as
/// Java's `BigDecimal` would have. Halves are rounded away from 0: `15 / 2` is 8.
fn calculate(left: &Value<'_>, sign: &str, right: &Value<'_>) -> Result<Value<'static>, Failed> {
    let (left, right) = (Operand::of(left)?, Operand::of(right)?);
    let both = left.places.max(right.places);
    let (result, places) = match sign {
        "+" => (left.number + right.number, both),
        "-" => (left.number - right.number, both),
        "/" => (left.number / right.number, left.places),
        "%" => (left.number % right.number, both),
        _ => (left.number * right.number, left.places + right.places),
    };
    if !result.is_finite() {
        return Err(Failed("math divides by zero".to_owned()));
    }
    if places == 0 {
        #[expect(clippy::cast_possible_truncation, reason = "it saturates at 64 bits")]
        return Ok(Value::Integer(result.round() as i64));
    }
    let scale = 10_f64.powi(places);
    Ok(Value::Real((result * scale).round() / scale))
}

/// Pick from a list in the first place, else from all that is given.
fn pick<'v>(mut values: Vec<Value<'v>>, draws: &mut Draws) -> Result<Value<'v>, Failed> {
    if let Some(Value::List { items, .. }) = values.first_mut() {
        values = std::mem::take(items).into_iter().map(Value::Text).collect();
    }
    let index = usize::try_from(draws.below(values.len() as u64)).unwrap_or_default();
    let picked = values.into_iter().nth(index);
    picked.ok_or_else(|| Failed("pickRandom picks from an empty list".to_owned()))
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
