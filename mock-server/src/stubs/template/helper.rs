//! The helpers, by name, and their arguments.
//!
//! It must not accept what cannot be filled in: whatever can be known when a stub is loaded is
//! checked then.

use super::date::CompiledNow;
use super::decimal::Operator;
use super::expression::{Expression, java_int};
use super::random::{CharacterKind, LetterCase, RandomValue};
use super::value::Value;
use super::{malformed, unsupported};
use crate::stubs::json_path::JsonPath;
use crate::stubs::node::ValueProblem;

/// A longer random value is a typing error, in characters.
const LONGEST: i64 = 1_000_000;

/// Arguments of a helper.
pub(super) struct Arguments {
    pub(super) positional: Vec<Expression>,
    pub(super) named: Vec<(String, Expression)>,
}

/// Helpers that WireMock has and that are not served here.
const OTHERS: &str = "\
    xPath soapXPath hostname parseDate truncateDate trim base64 urlEncode formData regexExtract size \
    randomDecimal range array arrayAdd arrayRemove parseJson matches contains val arrayJoin formatJson formatXml \
    toJson jsonMerge jsonRemove jsonArrayAdd jsonSort systemValue assign capitalizeFirst center cut \
    defaultIfEmpty join ljust rjust substring lower upper slugify stringFormat stripTags capitalize abbreviate \
    wordWrap replace yesno dateFormat numberFormat isEven isOdd stripes eq neq gt gte lt lte and or not with if \
    unless each embedded block partial precompile i18n lookup log";

/// The helper of this name, if there is one.
pub(super) fn helper(
    name: &str,
    arguments: Option<&Arguments>,
) -> Result<Option<Expression>, ValueProblem> {
    let none = Arguments {
        positional: Vec::new(),
        named: Vec::new(),
    };
    let arguments = arguments.unwrap_or(&none);
    let expression = match name {
        "now" => now(arguments)?,
        "date" if arguments.positional.is_empty() => now(arguments)?,
        "date" => {
            return unsupported("the helper `date` with a date");
        }
        "randomInt" => random_int(arguments)?,
        "randomValue" => random_value(arguments)?,
        "pickRandom" => pick_random(arguments)?,
        "math" => math(arguments)?,
        "jsonPath" => json_path(arguments)?,
        other if OTHERS.split(' ').any(|known| known == other) => {
            return unsupported(format!("the helper `{other}`"));
        }
        _ => return Ok(None),
    };
    Ok(Some(expression))
}

impl Arguments {
    fn bound(&self, name: &str, default: i32) -> Expression {
        let default = || Expression::Constant(Value::Integer(default.into()));
        self.named(name).cloned().unwrap_or_else(default)
    }

    /// The last argument of this name; one that is missing counts as not given.
    fn named(&self, name: &str) -> Option<&Expression> {
        let found = self
            .named
            .iter()
            .rev()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value);
        found.filter(|value| !matches!(value, Expression::Constant(Value::Missing)))
    }

    /// Return an argument that must be known when the stub is loaded.
    fn constant(&self, helper: &str, name: &str) -> Result<Option<&Value<'static>>, ValueProblem> {
        match self.named(name) {
            None => Ok(None),
            Some(Expression::Constant(value)) => Ok(Some(value)),
            Some(_) => unsupported(format!(
                "`{name}` of `{helper}` that depends on the request"
            )),
        }
    }

    fn text(&self, helper: &str, name: &str) -> Result<Option<&str>, ValueProblem> {
        match self.constant(helper, name)? {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(other) => malformed(format!(
                "`{name}` of `{helper}` is a text, not {}",
                other.text()
            )),
        }
    }

    fn integer(&self, helper: &str, name: &str) -> Result<Option<i64>, ValueProblem> {
        match self.constant(helper, name)? {
            None => Ok(None),
            Some(Value::Integer(integer)) => Ok(Some(*integer)),
            Some(other) => malformed(format!(
                "`{name}` of `{helper}` is a whole number, not `{}`",
                other.text()
            )),
        }
    }
}

fn now(arguments: &Arguments) -> Result<Expression, ValueProblem> {
    let text = |name| arguments.text("now", name);
    CompiledNow::compile(text("format")?, text("offset")?, text("timezone")?).map(Expression::Now)
}

fn random_int(arguments: &Arguments) -> Result<Expression, ValueProblem> {
    let lower = arguments.bound("lower", i32::MIN);
    let upper = arguments.bound("upper", i32::MAX);
    if let (Expression::Constant(lower), Expression::Constant(upper)) = (&lower, &upper) {
        let bounds = java_int(lower).and_then(|lower| Ok((lower, java_int(upper)?)));
        let (lower, upper) = bounds.map_err(|failed| ValueProblem::Malformed(failed.0))?;
        if lower >= upper {
            return malformed(format!(
                "randomInt has nothing from {lower} up to, but not, {upper}"
            ));
        }
    }
    Ok(Expression::RandomInt {
        lower: Box::new(lower),
        upper: Box::new(upper),
    })
}

fn random_value(arguments: &Arguments) -> Result<Expression, ValueProblem> {
    let length = arguments.integer("randomValue", "length")?.unwrap_or(36);
    if !(0..=LONGEST).contains(&length) {
        return malformed(format!(
            "a random value of {length} characters: write a length of 0 to {LONGEST}"
        ));
    }
    let case = match arguments.constant("randomValue", "uppercase")? {
        None | Some(Value::Truth(false)) => LetterCase::Lower,
        Some(Value::Truth(true)) => LetterCase::Upper,
        Some(other) => {
            return malformed(format!(
                "`uppercase` of `randomValue` is true or false, not `{}`",
                other.text()
            ));
        }
    };
    let kind = CharacterKind::parse(
        arguments
            .text("randomValue", "type")?
            .unwrap_or("ALPHANUMERIC"),
    );
    Ok(Expression::RandomValue(RandomValue {
        kind,
        length: usize::try_from(length).unwrap_or_default(),
        case,
    }))
}

fn pick_random(arguments: &Arguments) -> Result<Expression, ValueProblem> {
    if arguments.positional.is_empty() {
        return malformed("pickRandom has nothing to pick from");
    }
    let count = arguments.integer("pickRandom", "count")?;
    let count = count
        .and_then(|count| usize::try_from(count).ok())
        .filter(|count| *count > 0);
    Ok(Expression::PickRandom {
        values: arguments.positional.clone(),
        count,
    })
}

fn math(arguments: &Arguments) -> Result<Expression, ValueProblem> {
    let [left, operator, right] = arguments.positional.as_slice() else {
        return malformed("math takes two operands with an operator between them: 3 '+' 2");
    };
    let Expression::Constant(operator) = operator else {
        return unsupported("an operator of `math` that depends on the request");
    };
    let known = Operator::parse(&operator.text());
    let operator = known.ok_or_else(|| {
        ValueProblem::Malformed(format!("math knows + - * / %, not `{}`", operator.text()))
    })?;
    Ok(Expression::Math {
        left: Box::new(left.clone()),
        operator,
        right: Box::new(right.clone()),
    })
}

fn json_path(arguments: &Arguments) -> Result<Expression, ValueProblem> {
    let [document, path] = arguments.positional.as_slice() else {
        return malformed("jsonPath takes a text and a path in it: request.body '$.name'");
    };
    let Expression::Constant(path) = path else {
        return unsupported("a path of `jsonPath` that depends on the request");
    };
    let (document, path) = (Box::new(document.clone()), JsonPath::parse(&path.text())?);
    Ok(Expression::JsonPath {
        document,
        path,
        default: arguments.named("default").cloned().map(Box::new),
    })
}
