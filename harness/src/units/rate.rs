//! Rates of `--rate`, parsed: constant (`500/s`), a ramp, or steps.
//!
//! Called by the command line (through `FromStr`), by the plan and by the pacer, which makes a
//! schedule of a shape. Nothing here knows the time.

mod shape;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::shape::{RateShape, ShapedRate};
use super::{UnitError, parse_count};

/// The most requests that a period of a rate may have.
const MOST_PERMITS: u64 = 1_000_000_000;

/// The most steps from one rate to another: enough for a finer staircase than anybody can read.
const MOST_STEPS: u64 = 10_000;

/// Reason why a text is no valid rate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RateError {
    /// Not a constant rate.
    #[error(
        "`{0}` is not a rate: write N, N/s, N/min or N/h with a whole N of at least 1, for example 5000 or 30/min"
    )]
    Constant(String),
    /// A period that is none of the three.
    #[error("`{0}` is not a rate: its period is /s, /min or /h, for example {1}")]
    Period(String, String),
    /// A number that is not whole.
    #[error("`{0}` is not whole: write {1}")]
    Fraction(String, String),
    /// More than a billion.
    #[error(
        "`{0}` is more than 1g (1,000,000,000), the highest rate: to send as fast as possible, leave the rate out"
    )]
    TooHigh(String),
    /// No request at all.
    #[error(
        "`{0}` allows nothing: write at least 1; less than one per second is N/min or N/h, for example 30/min"
    )]
    Nothing(String),
    /// None of the forms: another number of parts, or a part that is no number.
    #[error(
        "`{0}` is not a rate: write N for a constant rate, A:B for a ramp or A:B:STEP@TIME for steps, with whole numbers \
         up to 1g and a unit at the end of them if not per second, for example 5000, 100:1000 or 60:600:60/min@30s"
    )]
    Form(String),
    /// A unit after a part that is not the last number.
    #[error(
        "`{0}` has a unit before its last number: write it once, after the last, as in 60:600/min"
    )]
    Unit(String),
    /// An end, or a start of steps, of no request at all.
    #[error("`{0}` has a rate of 0: only a ramp may start at 0, everything else is at least 1")]
    Zero(String),
    /// A change that changes nothing.
    #[error("`{0}` starts and ends at the same rate: write one number for a constant rate")]
    Flat(String),
    /// Not a time, or too short a one.
    #[error(
        "`{0}` does not say how long a step lasts: write a time of at least 1ms after the @, as in 100:1000:100@10s"
    )]
    StepTime(String),
    /// A window without a time or without requests.
    #[error(
        "`{0}` is not a number of requests per window: write a whole N of at least 1 and a time of at least 1ms, as in '10 per 1s'"
    )]
    Window(String),
    /// Steps of nothing.
    #[error(
        "`{0}` has steps of 0: write how much each adds, as in 100:1000:100@10s (or takes off, when A is above B)"
    )]
    StepSize(String),
    /// Too many steps.
    #[error("`{text}` takes {steps} steps: {MOST_STEPS} at most; make each one larger")]
    Steps {
        /// As typed.
        text: String,
        /// Number of steps that it would take.
        steps: u64,
    },
}

/// A rate: `permits` requests in each `period`, over all shards together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// Requests per period; at least 1, but for the start of a ramp.
    pub permits: u64,
    /// The period in nanoseconds; at least 1.
    pub period_ns: u64,
}

impl Rate {
    /// The rate in requests per second.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        self.permits as f64 * 1e9 / self.period_ns as f64
    }

    /// The whole requests that it comes to in `ns`.
    #[must_use]
    pub fn permits_in(&self, ns: u64) -> u64 {
        let permits = u128::from(self.permits) * u128::from(ns) / u128::from(self.period_ns.max(1));
        u64::try_from(permits).unwrap_or(u64::MAX)
    }

    /// The higher of two rates.
    #[must_use]
    fn max_with(self, other: Self) -> Self {
        let per_period =
            |rate: Self, other: Self| u128::from(rate.permits) * u128::from(other.period_ns);
        if per_period(self, other) > per_period(other, self) {
            self
        } else {
            other
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { permits, period_ns } = *self;
        let units = [
            (3_600_000_000_000, "h"),
            (60_000_000_000, "min"),
            (1_000_000_000, "s"),
        ];
        // A share of a rate has a longer period than people write.
        let whole = units.into_iter().find_map(|(unit, name)| {
            let periods = Some(period_ns / unit)
                .filter(|periods| period_ns.is_multiple_of(unit) && *periods > 0)?;
            (permits >= periods || periods == 1).then_some((periods, name))
        });
        match whole {
            Some((periods, name)) if permits.is_multiple_of(periods) => {
                write!(f, "{}/{name}", permits / periods)
            }
            Some((periods, name)) => {
                write!(
                    f,
                    "{}/{name}",
                    (permits as f64 / periods as f64 * 100.0).round() / 100.0
                )
            }
            None => write!(
                f,
                "{permits} per {}",
                humantime::format_duration(Duration::from_nanos(period_ns))
            ),
        }
    }
}

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        let (number, period) = number_and_period(text)?;
        match permits(number, period)? {
            0 => Err(RateError::Nothing(text.to_owned())),
            permits => Ok(Self {
                permits,
                period_ns: period.ns(),
            }),
        }
    }
}

/// Period of a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Period {
    Second,
    Minute,
    Hour,
}

impl Period {
    /// From the shortest on.
    const ALL: [Self; 3] = [Self::Second, Self::Minute, Self::Hour];

    const fn seconds(self) -> u64 {
        match self {
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 3_600,
        }
    }

    const fn ns(self) -> u64 {
        self.seconds() * 1_000_000_000
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Second => "s",
            Self::Minute => "min",
            Self::Hour => "h",
        }
    }
}

/// A number and the period behind it; a second when there is none.
fn number_and_period(text: &str) -> Result<(&str, Period), RateError> {
    let (number, name) = text.split_once('/').unwrap_or((text, "s"));
    let name = name.trim();
    let known = Period::ALL.into_iter().find(|period| period.name() == name);
    known.map(|period| (number, period)).ok_or_else(|| {
        let meant = match name.to_ascii_lowercase().chars().next() {
            Some('m') => Period::Minute,
            Some('h') => Period::Hour,
            _ => Period::Second,
        };
        let number = if permits(number, meant).is_ok() {
            number.trim()
        } else {
            "5"
        };
        RateError::Period(text.to_owned(), format!("{number}/{}", meant.name()))
    })
}

/// Requests per `period`. A text that is no number at all is [not a rate](RateError::Constant).
fn permits(text: &str, period: Period) -> Result<u64, RateError> {
    let text = text.trim();
    match parse_count(text) {
        Ok(permits) if permits <= MOST_PERMITS => Ok(permits),
        Ok(_) | Err(UnitError::TooLarge(_)) => Err(RateError::TooHigh(text.to_owned())),
        Err(_) => match whole_instead(text, period) {
            Some(whole) => Err(RateError::Fraction(text.to_owned(), whole)),
            None => Err(RateError::Constant(text.to_owned())),
        },
    }
}

/// Rewrite a decimal rate per `period` in whole numbers: exactly, or the next lower one by the
/// hour.
fn whole_instead(text: &str, period: Period) -> Option<String> {
    const SUFFIXES: [(char, u64); 3] = [('k', 1_000), ('m', 1_000_000), ('g', 1_000_000_000)];
    let plain = text.replace('_', "").to_ascii_lowercase();
    let suffix = SUFFIXES
        .into_iter()
        .find(|(suffix, _)| plain.ends_with(*suffix));
    let (number, factor) = suffix.map_or((&*plain, 1), |(suffix, factor)| {
        (plain.trim_end_matches(suffix), factor)
    });
    let (whole, part) = number.split_once('.')?;
    let digits = format!("{whole}{part}");
    let is_decimal =
        !digits.is_empty() && digits.len() <= 18 && digits.bytes().all(|b| b.is_ascii_digit());
    let numerator =
        u128::from(digits.parse::<u64>().ok().filter(|_| is_decimal)?) * u128::from(factor);
    let unit = 10_u128.pow(u32::try_from(part.len()).ok()?);
    let mut longer = Period::ALL
        .into_iter()
        .filter(|longer| longer.seconds() >= period.seconds());
    let per = |longer: Period| numerator * u128::from(longer.seconds() / period.seconds());
    let chosen = longer
        .find(|longer| per(*longer).is_multiple_of(unit))
        .unwrap_or(Period::Hour);
    let permits = (per(chosen) / unit).clamp(1, u128::from(MOST_PERMITS));
    Some(format!("{permits}/{}", chosen.name()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn per_s(permits: u64) -> Rate {
        Rate {
            permits,
            period_ns: SECOND,
        }
    }

    #[test]
    fn rates_carry_their_period() {
        assert_eq!("5000".parse(), Ok(per_s(5_000)));
        assert_eq!(
            "30/min".parse(),
            Ok(Rate {
                permits: 30,
                period_ns: 60 * SECOND
            })
        );
        assert_eq!("7/h".parse::<Rate>().unwrap().to_string(), "7/h");
        let shares = [(400, 2), (400, 3), (2, 7), (1, 60), (90, 7_200), (0, 1)];
        let said = shares.map(|(permits, s)| {
            Rate {
                permits,
                period_ns: s * SECOND,
            }
            .to_string()
        });
        assert_eq!(
            said,
            ["200/s", "133.33/s", "2 per 7s", "1/min", "45/h", "0/s"]
        );
        for text in [
            "-5", "-0.5", "", "/s", ".", "1.2.3", "fast", "1e3", "5/", "é/s",
        ] {
            let refusal = text.parse::<Rate>().unwrap_err().to_string();
            assert!(refusal.contains("is not a rate"), "{text}: {refusal}");
        }
    }

    #[test]
    fn a_rate_in_another_spelling_is_refused_with_the_right_one() {
        for (text, right) in [
            ("5/m", "5/min"),
            ("5 / minute", "5/min"),
            ("5/second", "5/s"),
            ("5/H", "5/h"),
            ("5/day", "/s, /min or /h"),
            ("0.5", "write 30/min"),
            ("0.5/s", "write 30/min"),
            ("0.5/min", "write 30/h"),
            ("1.5k", "write 1500/s"),
            ("2.5", "write 150/min"),
            ("0.01/s", "write 36/h"),
            ("0.001/s", "write 3/h"),
            ("0.5/h", "write 1/h"),
            ("1.0", "write 1/s"),
            ("0", "write at least 1"),
            ("0/min", "write at least 1"),
            ("2g", "leave the rate out"),
            ("99999999999999999999999", "leave the rate out"),
        ] {
            for refusal in [
                text.parse::<Rate>().unwrap_err(),
                text.parse::<ShapedRate>().unwrap_err(),
            ] {
                assert!(refusal.to_string().contains(right), "{text}: {refusal}");
            }
        }
    }

    #[test]
    fn a_rate_may_stay_climb_and_fall() {
        let minute = |permits| Rate {
            permits,
            period_ns: 60 * SECOND,
        };
        let (from, to) = (per_s(100), per_s(1_000));
        let steps = |from, to, step, every_ns| RateShape::Steps {
            from,
            to,
            step,
            every_ns,
        };
        for (text, shape, peak) in [
            ("5000", RateShape::Constant, per_s(5_000)),
            ("100:1k", RateShape::Ramp { from, to }, to),
            ("100 : 1_000/s", RateShape::Ramp { from, to }, to),
            ("1000:100", RateShape::Ramp { from: to, to: from }, to),
            (
                "0:60/min",
                RateShape::Ramp {
                    from: minute(0),
                    to: minute(60),
                },
                minute(60),
            ),
            (
                "100:1000:50@10s",
                steps(from, to, per_s(50), 10 * SECOND),
                to,
            ),
            (
                "1000:100:70/s@1m 30s",
                steps(to, from, per_s(70), 90 * SECOND),
                to,
            ),
            (
                "60:600:60/min@500ms",
                steps(minute(60), minute(600), minute(60), SECOND / 2),
                minute(600),
            ),
        ] {
            assert_eq!(text.parse(), Ok(ShapedRate { peak, shape }), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_rate_is_named() {
        type Kind = fn(String) -> RateError;
        let cases: [(&str, Kind); 19] = [
            ("", RateError::Constant),
            ("0", RateError::Nothing),
            ("1:2:3:4@1s", RateError::Form),
            (":", RateError::Form),
            ("1:", RateError::Form),
            (":5", RateError::Form),
            ("1:2@5s", RateError::Form),
            ("7@5s", RateError::Form),
            ("1/s:2/s", RateError::Unit),
            ("1:2/s:1@1s", RateError::Unit),
            ("100:0", RateError::Zero),
            ("0:10:1@1s", RateError::Zero),
            ("10:0:1@1s", RateError::Zero),
            ("5:5", RateError::Flat),
            ("5:5:1@1s", RateError::Flat),
            ("5:9:0@1s", RateError::StepSize),
            ("5:9:1", RateError::StepTime),
            ("5:9:1@", RateError::StepTime),
            ("5:9:1@999us", RateError::StepTime),
        ];
        for (text, kind) in cases {
            assert_eq!(
                text.parse::<ShapedRate>(),
                Err(kind(text.to_owned())),
                "{text}"
            );
        }
        for (text, says) in [
            ("1:2g", "`2g` is more"),
            ("0.5:2", "`0.5` is not whole"),
            ("1:5/m", "5/min"),
        ] {
            let error = text.parse::<ShapedRate>().unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        assert!("1:10_001:1@1s".parse::<ShapedRate>().is_ok());
        let error = "1:10_002:1@1s".parse::<ShapedRate>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "`1:10_002:1@1s` takes 10001 steps: 10000 at most; make each one larger"
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in ".{0,24}", like in "[0-9km:/@.]{0,24}(s|min|h)?") {
            for text in [text, like] {
                let _ = text.parse::<Rate>();
                let _ = text.parse::<ShapedRate>();
            }
        }

        #[test]
        fn what_is_to_be_written_instead_of_a_fraction_can_be_read(
            text in "[0-9]{0,6}\\.[0-9]{0,6}[kmg]?", period in prop::sample::select(vec!["", "/s", "/min", "/h", "/m", "/hours"]),
        ) {
            let typed = format!("{text}{period}");
            if let Err(RateError::Fraction(_, right) | RateError::Period(_, right)) = typed.parse::<Rate>() {
                prop_assert!(right.parse::<Rate>().is_ok(), "{} is to be {}", typed, right);
            }
        }

        #[test]
        fn a_printed_rate_parses_to_itself(
            from in 1..1_000_000_u64, to in 1..1_000_000_u64, step in 200..1_000_u64, every_ns in 1_000_000..u64::MAX / 2,
            form in 0..3, period_s in prop::sample::select(vec![1_u64, 60, 3_600]),
        ) {
            let rate = |permits| Rate { permits, period_ns: period_s * SECOND };
            let (from, to, step) = (rate(from), rate(to), rate(step));
            prop_assume!(from != to);
            let shape = match form {
                0 => RateShape::Constant,
                1 => RateShape::Ramp { from, to },
                _ => RateShape::Steps { from, to, step, every_ns },
            };
            let shaped = ShapedRate { peak: shape.peak().unwrap_or(from), shape };
            prop_assert_eq!(shaped.to_string().parse(), Ok(shaped));
        }
    }
}
