//! The expression in a tag: a path, a helper with what it works on, or a value.
//!
//! It must not accept what cannot be filled in: whatever can be known when a stub is loaded is checked then.

use super::date::Now;
use super::decimal::Operator;
use super::field::Field;
use super::random::{self, Case, Kind, RandomValue};
use super::scan::{self, Token};
use super::value::Value;
use super::{Failed, Occasion};
use crate::draw::Draws;
use crate::stubs::node::Fault;
use serde_json::Value as Json;
use std::borrow::Cow;
use std::iter::Peekable;
use std::slice::Iter;

/// What a gap is filled in with.
#[derive(Clone, Debug)]
pub(super) enum Expression {
    /// Known beforehand.
    Constant(Value<'static>),
    Field(Field),
    Now(Now),
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
}

/// More brackets in each other are a mistake, and each costs stack.
const DEPTH: usize = 16;

/// A longer random value is a typing error, in characters.
const LONGEST: i64 = 1_000_000;

/// Reads what stands between the braces.
pub(super) fn parse(tag: &str, parameters: Option<&Json>) -> Result<Expression, Fault> {
    let tokens = scan::tokens(tag)?;
    let mut parser = Parser { tokens: tokens.iter().peekable(), parameters };
    let expression = parser.call(0)?;
    match parser.tokens.next() {
        None => Ok(expression),
        Some(_) => Err(Fault::Malformed(format!("`{{{{{tag}}}}}` goes on after its expression"))),
    }
}

struct Parser<'t, 'p> {
    tokens: Peekable<Iter<'t, Token<'t>>>,
    parameters: Option<&'p Json>,
}

/// What a helper is given.
struct Arguments {
    positional: Vec<Expression>,
    named: Vec<(String, Expression)>,
}

impl Parser<'_, '_> {
    /// A name and what follows it, up to a closing bracket or the end. At depth 0 a name may also be a path.
    fn call(&mut self, depth: usize) -> Result<Expression, Fault> {
        if depth > DEPTH {
            return Err(Fault::Malformed(format!("a tag has more than {DEPTH} brackets in each other")));
        }
        let name = match self.tokens.next() {
            Some(Token::Path(name)) => *name,
            Some(_) => return Err(Fault::Malformed("a tag begins with a path or a helper".to_owned())),
            None => return Err(Fault::Malformed("a tag is empty".to_owned())),
        };
        let arguments = self.arguments(depth)?;
        if let Some(expression) = helper(name, arguments.as_ref())? {
            return Ok(expression);
        }
        if arguments.is_some() || depth > 0 {
            return Err(Fault::Malformed(format!("there is no helper `{name}`")));
        }
        self.path(name)
    }

    /// Nothing if there are none.
    fn arguments(&mut self, depth: usize) -> Result<Option<Arguments>, Fault> {
        let mut arguments = Arguments { positional: Vec::new(), named: Vec::new() };
        while let Some(token) = self.tokens.next_if(|token| **token != Token::Close) {
            if let Token::Path(name) = token
                && self.tokens.next_if(|next| **next == Token::Equals).is_some()
            {
                let value = self.tokens.next().ok_or_else(|| Fault::Malformed(format!("`{name}=` lacks its value")))?;
                let value = self.argument(value, depth)?;
                arguments.named.push(((*name).to_owned(), value));
            } else if arguments.named.is_empty() {
                let value = self.argument(token, depth)?;
                arguments.positional.push(value);
            } else {
                return Err(Fault::Malformed("in a tag, what has no name comes before what has".to_owned()));
            }
        }
        let none = arguments.positional.is_empty() && arguments.named.is_empty();
        Ok((!none).then_some(arguments))
    }

    fn argument(&mut self, token: &Token<'_>, depth: usize) -> Result<Expression, Fault> {
        let value = match token {
            Token::Path(path) => return self.path(path),
            Token::Open => {
                let inner = self.call(depth + 1)?;
                return match self.tokens.next() {
                    Some(Token::Close) => Ok(inner),
                    _ => Err(Fault::Malformed("a bracket in a tag is not closed".to_owned())),
                };
            }
            Token::Text(text) => Value::owned(text.clone()),
            Token::Number(number) => number_value(number),
            Token::Truth(truth) => Value::Truth(*truth),
            Token::Equals | Token::Close => {
                return Err(Fault::Malformed("a tag has a sign where a value should be".to_owned()));
            }
        };
        Ok(Expression::Constant(value))
    }

    /// A path; one that leads nowhere is filled in with nothing.
    fn path(&self, path: &str) -> Result<Expression, Fault> {
        let parts = parts(path);
        let missing = Expression::Constant(Value::Missing);
        if path.starts_with(['.', '@']) || matches!(parts.as_slice(), [] | ["this", ..]) {
            return Err(Fault::Unsupported(format!("the path `{path}` in a template")));
        }
        match parts.as_slice() {
            ["request", rest @ ..] => Ok(Field::parse(rest)?.map_or(missing, Expression::Field)),
            ["parameters", rest @ ..] => self.parameter(path, rest).map(Expression::Constant),
            ["else"] => Err(Fault::Unsupported("the block helper `else`".to_owned())),
            _ => Ok(missing),
        }
    }

    fn parameter(&self, path: &str, parts: &[&str]) -> Result<Value<'static>, Fault> {
        let step = |at: &Json, part: &&str| match at {
            Json::Array(elements) => part.parse::<usize>().ok().and_then(|index| elements.get(index)).cloned(),
            at => at.get(*part).cloned(),
        };
        let found = match (self.parameters, parts) {
            (parameters, []) => parameters.cloned().or_else(|| Some(Json::Object(serde_json::Map::new()))),
            (None, _) => None,
            (Some(parameters), [first, rest @ ..]) => {
                rest.iter().try_fold(step(parameters, first), |at, part| Some(step(&at?, part))).flatten()
            }
        };
        match found {
            None | Some(Json::Null) => Ok(Value::Missing),
            Some(Json::Bool(truth)) => Ok(Value::Truth(truth)),
            Some(Json::String(text)) => Ok(Value::owned(text)),
            Some(Json::Number(number)) => match number.as_i64() {
                Some(integer) => Ok(Value::Integer(integer)),
                None => Ok(Value::owned(number.to_string())),
            },
            Some(Json::Array(_) | Json::Object(_)) => {
                Err(Fault::Unsupported(format!("`{path}`, which is more than one value, in a template")))
            }
        }
    }
}

/// The parts of a path: between dots and slashes, or in brackets, where there may be dots and slashes.
fn parts(path: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        let bracketed = rest.strip_prefix('[').and_then(|inside| inside.split_once(']'));
        if let Some((part, after)) = bracketed {
            parts.push(part);
            rest = after;
        } else {
            let (part, after) = rest.split_at(rest.find(['.', '/']).unwrap_or(rest.len()));
            parts.extend((!part.is_empty()).then_some(part));
            rest = after.get(1..).unwrap_or("");
        }
    }
    parts
}

fn number_value(number: &str) -> Value<'static> {
    match number.parse::<i32>() {
        Ok(integer) => Value::Integer(integer.into()),
        Err(_) => Value::Real(number.parse().unwrap_or_default()),
    }
}

/// Helpers that WireMock has and that are not served here.
const OTHERS: [&str; 74] = [
    "xPath",
    "soapXPath",
    "jsonPath",
    "hostname",
    "parseDate",
    "truncateDate",
    "trim",
    "base64",
    "urlEncode",
    "formData",
    "regexExtract",
    "size",
    "randomDecimal",
    "range",
    "array",
    "arrayAdd",
    "arrayRemove",
    "parseJson",
    "matches",
    "contains",
    "val",
    "arrayJoin",
    "formatJson",
    "formatXml",
    "toJson",
    "jsonMerge",
    "jsonRemove",
    "jsonArrayAdd",
    "jsonSort",
    "systemValue",
    "assign",
    "capitalizeFirst",
    "center",
    "cut",
    "defaultIfEmpty",
    "join",
    "ljust",
    "rjust",
    "substring",
    "lower",
    "upper",
    "slugify",
    "stringFormat",
    "stripTags",
    "capitalize",
    "abbreviate",
    "wordWrap",
    "replace",
    "yesno",
    "dateFormat",
    "numberFormat",
    "isEven",
    "isOdd",
    "stripes",
    "eq",
    "neq",
    "gt",
    "gte",
    "lt",
    "lte",
    "and",
    "or",
    "not",
    "with",
    "if",
    "unless",
    "each",
    "embedded",
    "block",
    "partial",
    "precompile",
    "i18n",
    "lookup",
    "log",
];

/// The helper of this name, if there is one.
fn helper(name: &str, arguments: Option<&Arguments>) -> Result<Option<Expression>, Fault> {
    let none = Arguments { positional: Vec::new(), named: Vec::new() };
    let arguments = arguments.unwrap_or(&none);
    let expression = match name {
        "now" => now(arguments)?,
        "date" if arguments.positional.is_empty() => now(arguments)?,
        "date" => return Err(Fault::Unsupported("the helper `date` with a date".to_owned())),
        "randomInt" => random_int(arguments)?,
        "randomValue" => random_value(arguments)?,
        "pickRandom" => pick_random(arguments)?,
        "math" => math(arguments)?,
        other if OTHERS.contains(&other) => return Err(Fault::Unsupported(format!("the helper `{other}`"))),
        _ => return Ok(None),
    };
    Ok(Some(expression))
}

impl Arguments {
    /// The last argument of this name; one that is missing counts as not given.
    fn named(&self, name: &str) -> Option<&Expression> {
        let found = self.named.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value);
        found.filter(|value| !matches!(value, Expression::Constant(Value::Missing)))
    }

    /// The same where it must be known when the stub is loaded.
    fn constant(&self, helper: &str, name: &str) -> Result<Option<&Value<'static>>, Fault> {
        match self.named(name) {
            None => Ok(None),
            Some(Expression::Constant(value)) => Ok(Some(value)),
            Some(_) => Err(Fault::Unsupported(format!("`{name}` of `{helper}` that depends on the request"))),
        }
    }

    fn text(&self, helper: &str, name: &str) -> Result<Option<&str>, Fault> {
        match self.constant(helper, name)? {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(other) => Err(Fault::Malformed(format!("`{name}` of `{helper}` is a text, not {}", other.text()))),
        }
    }

    fn integer(&self, helper: &str, name: &str) -> Result<Option<i64>, Fault> {
        match self.constant(helper, name)? {
            None => Ok(None),
            Some(Value::Integer(integer)) => Ok(Some(*integer)),
            Some(other) => {
                Err(Fault::Malformed(format!("`{name}` of `{helper}` is a whole number, not `{}`", other.text())))
            }
        }
    }
}

fn now(arguments: &Arguments) -> Result<Expression, Fault> {
    let text = |name| arguments.text("now", name);
    Now::compile(text("format")?, text("offset")?, text("timezone")?).map(Expression::Now)
}

fn random_int(arguments: &Arguments) -> Result<Expression, Fault> {
    let bound = |name, default: i32| match arguments.named(name) {
        Some(bound) => bound.clone(),
        None => Expression::Constant(Value::Integer(default.into())),
    };
    let (lower, upper) = (bound("lower", i32::MIN), bound("upper", i32::MAX));
    if let (Expression::Constant(lower), Expression::Constant(upper)) = (&lower, &upper) {
        let bounds = java_int(lower).and_then(|lower| Ok((lower, java_int(upper)?)));
        let (lower, upper) = bounds.map_err(|failed| Fault::Malformed(failed.0))?;
        if lower >= upper {
            return Err(Fault::Malformed(format!("randomInt has nothing from {lower} up to, but not, {upper}")));
        }
    }
    Ok(Expression::RandomInt { lower: Box::new(lower), upper: Box::new(upper) })
}

/// `HelperUtils.coerceToInt`.
fn java_int(value: &Value<'_>) -> Result<i32, Failed> {
    let number = match value {
        #[expect(clippy::cast_possible_truncation, reason = "Java's intValue keeps the low 32 bits of a long, too")]
        Value::Integer(integer) => Some(*integer as i32),
        #[expect(clippy::cast_possible_truncation, reason = "Java's intValue saturates, too")]
        Value::Real(real) => Some(*real as i32),
        Value::Text(text) => text.parse().ok(),
        Value::Missing | Value::Truth(_) | Value::List { .. } => None,
    };
    number.ok_or_else(|| Failed(format!("randomInt takes whole numbers, not `{}`", value.text())))
}

fn random_value(arguments: &Arguments) -> Result<Expression, Fault> {
    let length = arguments.integer("randomValue", "length")?.unwrap_or(36);
    if !(0..=LONGEST).contains(&length) {
        return Err(Fault::Malformed(format!(
            "a random value of {length} characters: write a length of 0 to {LONGEST}"
        )));
    }
    let case = match arguments.constant("randomValue", "uppercase")? {
        None | Some(Value::Truth(false)) => Case::Lower,
        Some(Value::Truth(true)) => Case::Upper,
        Some(other) => {
            return Err(Fault::Malformed(format!(
                "`uppercase` of `randomValue` is true or false, not `{}`",
                other.text()
            )));
        }
    };
    let kind = Kind::parse(arguments.text("randomValue", "type")?.unwrap_or("ALPHANUMERIC"));
    Ok(Expression::RandomValue(RandomValue { kind, length: usize::try_from(length).unwrap_or_default(), case }))
}

fn pick_random(arguments: &Arguments) -> Result<Expression, Fault> {
    if arguments.positional.is_empty() {
        return Err(Fault::Malformed("pickRandom has nothing to pick from".to_owned()));
    }
    let count = arguments.integer("pickRandom", "count")?;
    let count = count.and_then(|count| usize::try_from(count).ok()).filter(|count| *count > 0);
    Ok(Expression::PickRandom { values: arguments.positional.clone(), count })
}

fn math(arguments: &Arguments) -> Result<Expression, Fault> {
    let [left, operator, right] = arguments.positional.as_slice() else {
        return Err(Fault::Malformed("math takes two operands with an operator between them: 3 '+' 2".to_owned()));
    };
    let Expression::Constant(operator) = operator else {
        return Err(Fault::Unsupported("an operator of `math` that depends on the request".to_owned()));
    };
    let known = Operator::parse(&operator.text());
    let operator = known.ok_or_else(|| Fault::Malformed(format!("math knows + - * / %, not `{}`", operator.text())))?;
    Ok(Expression::Math { left: Box::new(left.clone()), operator, right: Box::new(right.clone()) })
}

impl Expression {
    /// What the expression comes to.
    pub(super) fn evaluate<'r>(&'r self, occasion: &Occasion<'r>, draws: &mut Draws) -> Result<Value<'r>, Failed> {
        match self {
            Self::Constant(value) => Ok(value.clone()),
            Self::Field(field) => Ok(field.value(occasion)),
            Self::Now(now) => now.text(occasion.now).map(Value::owned),
            Self::RandomInt { lower, upper } => {
                let lower = java_int(&lower.evaluate(occasion, draws)?)?;
                let upper = java_int(&upper.evaluate(occasion, draws)?)?;
                let number = random::between(lower, upper, draws);
                let nothing = || Failed(format!("randomInt has nothing from {lower} up to, but not, {upper}"));
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
            Self::Math { left, operator, right } => {
                operator.apply(&left.evaluate(occasion, draws)?, &right.evaluate(occasion, draws)?)
            }
        }
    }
}

const NOTHING_TO_PICK: &str = "[ERROR: Must specify either a single list argument or a set of single value arguments.]";

/// Of a list in the first place its values, else all that is given.
fn pick<'v>(mut values: Vec<Value<'v>>, count: Option<usize>, draws: &mut Draws) -> Result<Value<'v>, Failed> {
    match values.first_mut() {
        // WireMock's own words, which it answers with, too.
        None | Some(Value::Missing) => return Ok(Value::Text(Cow::Borrowed(NOTHING_TO_PICK))),
        Some(Value::List { items, .. }) => values = std::mem::take(items).into_iter().map(Value::Text).collect(),
        Some(_) => {}
    }
    match count {
        None => random::one(values, draws).ok_or_else(|| Failed("pickRandom picks from an empty list".to_owned())),
        Some(count) => {
            let own = |value: Value<'v>| Cow::Owned(value.text().into_owned());
            let items: Vec<Cow<'v, str>> = random::some(values, count, draws).into_iter().map(own).collect();
            let written = Cow::Owned(format!("[{}]", items.join(", ")));
            Ok(Value::List { items, written })
        }
    }
}
