//! Rates of `--rate`, parsed: constant (`500/s`), in windows, or stage after stage.
//!
//! Called by the command line (through `FromStr`), by the plan and by the pacer, which makes a
//! schedule of a shape. Nothing here knows the time.

mod shape;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub(crate) use self::shape::LONGEST as LONGEST_STAGE;
pub use self::shape::{RateShape, ShapedRate, Stage};
use super::{UnitError, parse_count};

/// The most requests that a period of a rate may have.
const MOST_PERMITS: u64 = 1_000_000_000;

/// The most stages: enough for a finer staircase than anybody can read.
const MOST_STAGES: u64 = 1_000;

/// Reason why a text is no valid rate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RateError {
    /// Not a constant rate.
    #[error(
        "`{0}` is not a rate: write N, N/s, N/min or N/h with a whole N of at least 1, for example 5000 or 30/min"
    )]
    Constant(String),
    /// A period that is none of the three.
    #[error("`{0}` is not a rate: its period is /s, /min or /h, for example 30/min")]
    Period(String),
    /// A number that is not whole.
    #[error(
        "`{0}` is not a rate: its number is not whole; use a longer period, as in 30/min for half a request per second"
    )]
    Fraction(String),
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
        "`{0}` is not a rate: write N for a constant rate; stages such as 200/s@30s, 200/s..2000/s@10s, 500/s; or, alone, 100:1000 for a \
         ramp, or 100:1000:50 and @10s for steps, with whole numbers up to 1g"
    )]
    Form(String),
    /// A unit after a part that is not the last number.
    #[error(
        "`{0}` has a unit before its last number: write it once, after the last, as in 60:600/min"
    )]
    Unit(String),
    /// A unit after one of two rates.
    #[error(
        "`{0}` has a unit after one of its rates: write it after both, as in 60/min..600/min@30s"
    )]
    StageUnit(String),
    /// Nothing is sent, for ever.
    #[error(
        "`{0}` ends with a rate of 0 that lasts: end it with at least 1, or write a time after it, as in 100/s@30s, 0/s@10s"
    )]
    Zero(String),
    /// A change that changes nothing.
    #[error("`{0}` starts and ends at the same rate: write one number for a constant rate")]
    Flat(String),
    /// No time, or one that is too short or too long.
    #[error(
        "`{0}` does not say how long it lasts: write a time of 1ms to 24h after the @, as in 200/s@30s; of stages, only the last may do \
         without"
    )]
    StageTime(String),
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
    /// Too many stages.
    #[error("`{text}` has {stages} stages: {MOST_STAGES} at most; make each one larger")]
    Stages {
        /// As typed.
        text: String,
        /// Number of stages.
        stages: u64,
    },
}

/// A rate: `permits` requests in each `period`, over all shards together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// Requests per period; at least 1, but for those of a stage.
    pub permits: u64,
    /// The period in nanoseconds; at least 1.
    pub period_ns: u64,
}

impl Rate {
    /// The rate in requests per second.
    pub fn per_second(&self) -> f64 {
        self.permits as f64 * 1e9 / self.period_ns as f64
    }

    /// The whole requests that it comes to in `ns`.
    pub fn permits_in(&self, ns: u64) -> u64 {
        let permits = u128::from(self.permits) * u128::from(ns) / u128::from(self.period_ns.max(1));
        u64::try_from(permits).unwrap_or(u64::MAX)
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
        match rate(text)? {
            Self { permits: 0, .. } => Err(RateError::Nothing(text.to_owned())),
            rate => Ok(rate),
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
    const fn ns(self) -> u64 {
        match self {
            Self::Second => 1_000_000_000,
            Self::Minute => 60_000_000_000,
            Self::Hour => 3_600_000_000_000,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Second => "s",
            Self::Minute => "min",
            Self::Hour => "h",
        }
    }

    /// Read the permits of a rate with this period.
    fn rate(self, number: &str) -> Result<Rate, RateError> {
        Ok(Rate {
            permits: permits(number)?,
            period_ns: self.ns(),
        })
    }
}

/// Read a rate, which may be of 0 permits.
fn rate(text: &str) -> Result<Rate, RateError> {
    let (number, period) = number_and_period(text)?;
    period.rate(number)
}

/// A number and the period behind it; a second when there is none.
fn number_and_period(text: &str) -> Result<(&str, Period), RateError> {
    let (number, name) = text.split_once('/').unwrap_or((text, "s"));
    let name = name.trim();
    let period = Period::ALL
        .into_iter()
        .find(|period| period.name() == name)
        .ok_or_else(|| RateError::Period(text.to_owned()))?;
    Ok((number, period))
}

/// Read the number of a rate.
fn permits(text: &str) -> Result<u64, RateError> {
    let text = text.trim();
    match parse_count(text) {
        Ok(permits) if permits <= MOST_PERMITS => Ok(permits),
        Ok(_) | Err(UnitError::TooLarge(_)) => Err(RateError::TooHigh(text.to_owned())),
        Err(_) if text.contains('.') => Err(RateError::Fraction(text.to_owned())),
        Err(_) => Err(RateError::Constant(text.to_owned())),
    }
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
        let text = String::from;
        for (rate, error) in [
            ("5/m", RateError::Period(text("5/m"))),
            ("0.5/s", RateError::Fraction(text("0.5"))),
            ("1.5k", RateError::Fraction(text("1.5k"))),
            ("0/min", RateError::Nothing(text("0/min"))),
            ("2g", RateError::TooHigh(text("2g"))),
        ] {
            assert_eq!(rate.parse::<Rate>(), Err(error.clone()));
            assert_eq!(rate.parse::<ShapedRate>(), Err(error));
        }
    }

    #[test]
    fn a_rate_may_stay_climb_and_fall() {
        let minute = |permits| Rate {
            permits,
            period_ns: 60 * SECOND,
        };
        let stage = |from, to, length_s: u64| Stage {
            from,
            to,
            length_ns: (length_s > 0).then_some(length_s * SECOND),
        };
        let hold = |rate, length_s| stage(rate, rate, length_s);
        let (peak, shape) = (per_s(5_000), RateShape::Constant);
        assert_eq!("5000".parse(), Ok(ShapedRate { peak, shape }));
        let spike = vec![
            hold(per_s(200), 30),
            stage(per_s(200), per_s(2_000), 10),
            hold(per_s(2_000), 20),
            hold(per_s(200), 60),
        ];
        for (text, stages) in [
            ("100:1k", vec![stage(per_s(100), per_s(1_000), 0)]),
            ("100 : 1_000/s", vec![stage(per_s(100), per_s(1_000), 0)]),
            ("100..1k", vec![stage(per_s(100), per_s(1_000), 0)]),
            ("0:60/min", vec![stage(minute(0), minute(60), 0)]),
            (
                "100:190:50@10s",
                vec![
                    hold(per_s(100), 10),
                    hold(per_s(150), 10),
                    hold(per_s(190), 0),
                ],
            ),
            (
                "300:100:70/s@1m 30s",
                vec![
                    hold(per_s(300), 90),
                    hold(per_s(230), 90),
                    hold(per_s(160), 90),
                    hold(per_s(100), 0),
                ],
            ),
            (
                "200/s@30s, 200/s..2000/s@10s, 2000/s@20s, 200/s@60s",
                spike.clone(),
            ),
            ("200@30s,200..2000@10s,2k@20s,200@1m", spike),
            ("7@5s", vec![hold(per_s(7), 5)]),
            (
                "30/min@5s, 2/s..0/s@5s, 0/s@1s, 1/s",
                vec![
                    hold(minute(30), 5),
                    stage(minute(120), minute(0), 5),
                    hold(minute(0), 1),
                    hold(minute(60), 0),
                ],
            ),
        ] {
            let shape = RateShape::Stages(stages);
            let peak = shape.peak().unwrap();
            assert_eq!(text.parse(), Ok(ShapedRate { peak, shape }), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_rate_is_named() {
        type Kind = fn(String) -> RateError;
        let cases: [(&str, Kind); 31] = [
            ("", RateError::Constant),
            ("0", RateError::Nothing),
            ("1:2:3:4@1s", RateError::Form),
            (":", RateError::Form),
            ("1:", RateError::Form),
            (":5", RateError::Form),
            ("1:2@5s", RateError::Form),
            ("1:2, 3@5s", RateError::Form),
            ("1:2..3", RateError::Form),
            ("10 per 1s, 5@9s", RateError::Window),
            ("1/s:2/s", RateError::Unit),
            ("1:2/s:1@1s", RateError::Unit),
            ("60..600/min@5s", RateError::StageUnit),
            ("60/min..600@5s", RateError::StageUnit),
            ("100:0", RateError::Zero),
            ("10:0:1@1s", RateError::Zero),
            ("10@5s, 0", RateError::Zero),
            ("0@5s", RateError::Nothing),
            ("5:5", RateError::Flat),
            ("5..5@9s", RateError::Flat),
            ("5:5:1@1s", RateError::Flat),
            ("5:9:0@1s", RateError::StepSize),
            ("5:9:1", RateError::StageTime),
            ("5:9:1@", RateError::StageTime),
            ("5:9:1@999us", RateError::StageTime),
            ("5@0s", RateError::StageTime),
            ("5@25h", RateError::StageTime),
            ("1e9@1s", |_| RateError::Constant("1e9".to_owned())),
            ("1..2..3@1s", RateError::Form),
            ("5@1s,", RateError::Form),
            ("5@1s, 2..3, 9@5s", |_| {
                RateError::StageTime("2/s..3/s".to_owned())
            }),
        ];
        for (text, kind) in cases {
            assert_eq!(
                text.parse::<ShapedRate>(),
                Err(kind(text.to_owned())),
                "{text}"
            );
        }
        assert!("1:1_000:1@1s".parse::<ShapedRate>().is_ok());
        assert!("1:1_001:1@1s".parse::<ShapedRate>().is_err());
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
        fn a_printed_rate_parses_to_itself(
            permits in prop::collection::vec((0..1_000_000_u64, 1..1_000_000_u64, 1_000_000..1_u64 << 46), 1..6), form in 0..4, is_open: bool,
            period_s in prop::sample::select(vec![1_u64, 60, 3_600]),
        ) {
            let rate = |permits| Rate { permits, period_ns: period_s * SECOND };
            let (from, to, length_ns) = permits[0];
            prop_assume!(from.max(1) != to);
            let stage = |(from, to, ns)| Stage { from: rate(from), to: rate(to), length_ns: Some(ns) };
            let mut stages: Vec<Stage> = permits.into_iter().map(stage).collect();
            let step = from.max(1).abs_diff(to).div_ceil(900);
            let every = Duration::from_nanos(length_ns);
            let shaped: ShapedRate = match form {
                0 => format!("{to}").parse().unwrap(),
                1 => format!("{from}:{to}").parse().unwrap(),
                2 => format!("{}:{to}:{step}@{}", from.max(1), humantime::format_duration(every)).parse().unwrap(),
                _ => {
                    if is_open && let Some(last) = stages.last_mut() {
                        last.length_ns = None;
                    }
                    let shape = RateShape::Stages(stages);
                    ShapedRate { peak: shape.peak().unwrap(), shape }
                }
            };
            prop_assert_eq!(shaped.to_string().parse(), Ok(shaped.clone()), "{}", shaped);
        }
    }
}
