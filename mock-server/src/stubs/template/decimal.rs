//! The arithmetic of `math`: decimal numbers as Java's `BigDecimal` adds, multiplies and divides
//! them, scale by scale. With 38 digits instead of any number of them.

use super::Failed;
use super::value::Value;

/// `digits` / 10^`scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Decimal {
    digits: i128,
    scale: i32,
}

/// Operator of `math`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Operator {
    pub(super) fn parse(sign: &str) -> Option<Self> {
        match sign {
            "+" => Some(Self::Add),
            "-" => Some(Self::Subtract),
            "*" | "x" => Some(Self::Multiply),
            "/" => Some(Self::Divide),
            "%" => Some(Self::Remainder),
            _ => None,
        }
    }

    /// The result: an integer if it has no decimal places, else a float. What is no number counts
    /// as 0. A quotient has as many decimal places as its dividend, halves are rounded away from 0:
    /// `15 / 2` is 8.
    pub(super) fn apply(
        self,
        left: &Value<'_>,
        right: &Value<'_>,
    ) -> Result<Value<'static>, Failed> {
        let (left, right) = (operand(left)?, operand(right)?);
        if right.digits == 0 && matches!(self, Self::Divide | Self::Remainder) {
            return Err(Failed("math divides by zero".to_owned()));
        }
        let result = match self {
            Self::Add => left.aligned(right, i128::checked_add),
            Self::Subtract => left.aligned(right, i128::checked_sub),
            Self::Multiply => left.times(right),
            Self::Divide => left.over(right),
            Self::Remainder => left.remainder(right),
        };
        result
            .map(Decimal::reduced)
            .ok_or_else(|| Failed("math needs more than 38 digits".to_owned()))
    }
}

fn operand(value: &Value<'_>) -> Result<Decimal, Failed> {
    if *value == Value::Missing {
        return Err(Failed("math lacks an operand".to_owned()));
    }
    match Decimal::parse(&value.text()) {
        Some(decimal) => Ok(decimal),
        None => Ok(Decimal {
            digits: 0,
            scale: 0,
        }),
    }
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
        let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if !all_digits(unsigned) || !all_digits(fraction) || unsigned.len() + fraction.len() == 0 {
            return None;
        }
        let digits = format!("{whole}{fraction}").parse().ok()?;
        Some(Self {
            digits,
            scale: i32::try_from(fraction.len()).ok()?.checked_sub(exponent)?,
        })
    }

    /// The digits at another scale, which must be able to hold them.
    fn at_scale(self, scale: i32) -> Option<i128> {
        match scale.checked_sub(self.scale)? {
            more @ 0.. => self.digits.checked_mul(ten_to(more)?),
            less => self.digits.checked_div(ten_to(less.checked_neg()?)?),
        }
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
        let (quotient, rest) = (
            dividend.checked_div(divisor)?,
            dividend.checked_rem(divisor)?,
        );
        let away = if (dividend < 0) == (divisor < 0) {
            1
        } else {
            -1
        };
        let half_or_more = rest.unsigned_abs() >= divisor.unsigned_abs() - rest.unsigned_abs();
        Some(Self {
            digits: if half_or_more {
                quotient.checked_add(away)?
            } else {
                quotient
            },
            scale: self.scale,
        })
    }

    /// The scale is what Java's is, since it decides whether a 0 is written `0` or `0.0`: the
    /// dividend's, or more if the whole quotient has fewer zeros at its end than the divisor has
    /// decimal places more.
    fn remainder(self, other: Self) -> Option<Self> {
        let rest = self.aligned(other, i128::checked_rem)?;
        let mut quotient = self.aligned(other, i128::checked_div)?.digits;
        let mut scale = rest.scale;
        while scale > self.scale && quotient % 10 == 0 {
            quotient /= 10;
            scale -= 1;
            if quotient == 0 {
                scale = self.scale;
            }
        }
        Some(Self {
            digits: rest.at_scale(scale)?,
            scale,
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
        let operator = Operator::parse(sign).unwrap();
        match operator.apply(
            &Value::owned(left.to_owned()),
            &Value::owned(right.to_owned()),
        ) {
            Ok(value) => value.text().into_owned(),
            Err(failed) => failed.to_string(),
        }
    }

    #[test]
    fn results_are_those_of_big_decimals() {
        for (left, sign, right, expected) in [
            ("2", "+", "3", "5"),
            ("0.25", "+", "0.34", "0.59"),
            ("2147483648", "+", "2147483648", "4294967296"),
            ("-9223372036854775808", "+", "1", "-9223372036854775807"),
            ("3.0", "-", "1", "2.0"),
            ("10", "x", "3", "30"),
            ("1.5", "*", "2", "3.0"),
            ("15", "/", "3", "5"),
            ("15", "/", "2", "8"),
            ("-15", "/", "2", "-8"),
            ("14", "/", "4", "4"),
            ("13", "/", "4", "3"),
            ("1.5", "/", "4", "0.4"),
            ("1", "/", "0.25", "4"),
            ("11", "%", "3", "2"),
            ("-11", "%", "3", "-2"),
            ("5.5", "%", "2", "1.5"),
            ("5", "%", "0.3", "0.2"),
            ("5", "%", "0.5", "0"),
            ("6", "%", "0.5", "0.0"),
            ("0", "%", "0.5", "0"),
            ("1e3", "+", "1", "1001"),
            ("words", "+", "1", "1"),
            ("", "+", "1", "1"),
            ("1", "/", "0", "a template failed: math divides by zero"),
            (
                "1e99",
                "+",
                "1",
                "a template failed: math needs more than 38 digits",
            ),
        ] {
            assert_eq!(math(left, sign, right), expected, "{left} {sign} {right}");
        }
        let missing = Operator::Add.apply(&Value::Missing, &Value::Integer(1));
        assert_eq!(missing, Err(Failed("math lacks an operand".to_owned())));
        assert_eq!(Operator::parse("&"), None);
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
