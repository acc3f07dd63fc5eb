//! The arithmetic of `math`: decimal numbers as Java's `BigDecimal` adds, multiplies and divides
//! them, scale by scale. With 38 digits instead of any number of them.

use super::{Failed, Value};

/// `digits` / 10^`scale`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Decimal {
    digits: i128,
    scale: i32,
}

/// Operators of `math`.
pub(super) const SIGNS: [&str; 6] = ["+", "-", "*", "x", "/", "%"];

/// The result of an operation: an integer if it has no decimal places, else a float. What is no
/// number counts as 0. A quotient has as many decimal places as its dividend, halves are rounded
/// away from 0: `15 / 2` is 8.
pub(super) fn apply(
    left: &Value<'_>,
    sign: &str,
    right: &Value<'_>,
) -> Result<Value<'static>, Failed> {
    let (left, right) = (operand(left)?, operand(right)?);
    if right.digits == 0 && matches!(sign, "/" | "%") {
        return Err(Failed("math divides by zero".to_owned()));
    }
    let result = match sign {
        "+" => left.aligned(right, i128::checked_add),
        "-" => left.aligned(right, i128::checked_sub),
        "/" => left.over(right),
        "%" => left.aligned(right, i128::checked_rem),
        _ => left.times(right),
    };
    result
        .map(Decimal::reduced)
        .ok_or_else(|| Failed("math needs more than 38 digits".to_owned()))
}

fn operand(value: &Value<'_>) -> Result<Decimal, Failed> {
    if *value == Value::Missing {
        return Err(Failed("math lacks an operand".to_owned()));
    }
    Ok(Decimal::parse(&value.text()).unwrap_or_default())
}

fn ten_to(power: i32) -> Option<i128> {
    10_i128.checked_pow(u32::try_from(power).ok()?)
}

impl Decimal {
    /// Reads `-1.5e3`. Without as much as one digit, or with more than fit, it is none.
    fn parse(text: &str) -> Option<Self> {
        let (number, exponent) = match text.split_once(['e', 'E']) {
            Some((number, exponent)) => (number, exponent.parse::<i32>().ok()?),
            None => (text, 0),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let unsigned = whole.strip_prefix(['-', '+']).unwrap_or(whole);
        let mut digits = unsigned.bytes().chain(fraction.bytes());
        if !digits.all(|byte| byte.is_ascii_digit()) || unsigned.len() + fraction.len() == 0 {
            return None;
        }
        let digits = format!("{whole}{fraction}").parse().ok()?;
        Some(Self {
            digits,
            scale: i32::try_from(fraction.len()).ok()?.checked_sub(exponent)?,
        })
    }

    /// The digits at a larger scale, if it can hold them.
    fn at_scale(self, scale: i32) -> Option<i128> {
        let more = scale.checked_sub(self.scale)?;
        self.digits.checked_mul(ten_to(more)?)
    }

    fn aligned(self, other: Self, apply: fn(i128, i128) -> Option<i128>) -> Option<Self> {
        let scale = self.scale.max(other.scale);
        Some(Self {
            digits: apply(self.at_scale(scale)?, other.at_scale(scale)?)?,
            scale,
        })
    }

    fn times(self, other: Self) -> Option<Self> {
        Some(Self {
            digits: self.digits.checked_mul(other.digits)?,
            scale: self.scale.checked_add(other.scale)?,
        })
    }

    fn over(self, other: Self) -> Option<Self> {
        let (mut dividend, mut divisor) = (self.digits, other.digits);
        if other.scale >= 0 {
            dividend = dividend.checked_mul(ten_to(other.scale)?)?;
        } else {
            divisor = divisor.checked_mul(ten_to(other.scale.checked_neg()?)?)?;
        }
        let mut digits = dividend.checked_div(divisor)?;
        let rest = dividend.checked_rem(divisor)?.unsigned_abs();
        if rest >= divisor.unsigned_abs() - rest {
            let is_positive = (dividend < 0) == (divisor < 0);
            digits = digits.checked_add(if is_positive { 1 } else { -1 })?;
        }
        Some(Self {
            digits,
            scale: self.scale,
        })
    }

    fn reduced(self) -> Value<'static> {
        if self.scale == 0 {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "Java's longValue keeps the low 64 bits, too"
            )]
            return Value::Integer(self.digits as i64);
        }
        // Through text, which rounds once.
        Value::Real(
            format!("{}e{}", self.digits, -i64::from(self.scale))
                .parse()
                .unwrap_or_default(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn math(left: &str, sign: &str, right: &str) -> String {
        let value = |text: &str| Value::owned(text.to_owned());
        match apply(&value(left), sign, &value(right)) {
            Ok(value) => value.text().into_owned(),
            Err(failed) => failed.to_string(),
        }
    }

    proptest! {
        #[test]
        fn whole_numbers_are_exact(left: i32, right: i32) {
            let (l, r) = (i64::from(left), i64::from(right));
            let (left, right) = (left.to_string(), right.to_string());
            prop_assert_eq!(math(&left, "+", &right), (l + r).to_string());
            prop_assert_eq!(math(&left, "-", &right), (l - r).to_string());
            prop_assert_eq!(math(&left, "*", &right), (l * r).to_string());
            if r != 0 {
                prop_assert_eq!(math(&left, "%", &right), (l % r).to_string());
            }
        }

        #[test]
        fn any_operands_come_to_something(left in "[-+0-9.eE]{0,9}", right in "[-+0-9.eE]{0,9}", sign in "[-+*/%]") {
            let _ = math(&left, &sign, &right);
        }
    }
}
