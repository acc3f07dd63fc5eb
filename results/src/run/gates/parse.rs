//! Parser of conditions. Every error says where it is, what is wrong and what would be right.
//!
//! ```text
//! condition = metric [ "[" seconds "]" ] op limit
//! metric    = series "_" stat | quantity          stat = p50 | p(99.9) | min | mean | max
//! op        = "<" | "<=" | ">" | ">=" | "==" | "!="
//! limit     = number with us, ms, s, m or h | number or number% | number with k or m, and /s | true | false
//! ```

use std::str::FromStr;

use super::{Condition, Metric, Op, Unit, Window};
use crawlmark_harness::units::nearest;

/// A text that is no condition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}`, at column {column}: {fault}")]
pub struct ConditionError {
    /// The text.
    pub text: String,
    /// Column in the text, in characters from 1.
    pub column: usize,
    /// Error there, and its correction.
    pub fault: Fault,
}

/// Error in a text that is no condition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Missing name at the start.
    #[error("write a metric first, as in service_p99 < 250ms")]
    NoMetric,
    /// There is no such metric.
    #[error("there is no metric `{name}`; {hint}")]
    UnknownMetric {
        /// As written.
        name: String,
        /// Suggestion of a name that may have been meant.
        hint: String,
    },
    /// A bracket that is not closed.
    #[error("the `{0}` is not closed")]
    Open(char),
    /// No window.
    #[error("`{0}` is not a valid window: write whole seconds, [1s] to [60s]")]
    Window(String),
    /// A window of what only the end of a run shows.
    #[error("`{0}` is known only when the run is over, and has no window")]
    NoWindow(String),
    /// No comparison.
    #[error("write one of < <= > >= == != after the metric, not `{0}`")]
    Op(String),
    /// No comparison of these.
    #[error("`{0}` is not a valid comparison: write {1}")]
    OtherOp(String, &'static str),
    /// An order of what has none.
    #[error("`{0}` makes no sense for true or false: write == or !=")]
    NoOrder(&'static str),
    /// Nothing to compare with.
    #[error("the limit is missing: {0}")]
    NoLimit(&'static str),
    /// Not a limit of this metric.
    #[error("`{0}` is not a valid limit for this metric: {1}")]
    Limit(String, &'static str),
    /// A time without a unit.
    #[error("`{0}` has no unit: write {0}ms, or µs, s, m or h")]
    NoUnit(String),
    /// A part that is all or more, and may be meant in percent.
    #[error("`{0}` has no %: write {0}% or {1}, or 100% for all")]
    NoPercent(String, String),
    /// A part that is more than all.
    #[error("`{0}` is more than all: write a share of 0% to 100%, as in 1%")]
    AboveAll(String),
    /// Two conditions.
    #[error("one condition at a time: give the flag once for each")]
    Several,
}

impl FromStr for Condition {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Self, ConditionError> {
        let mut reader = Reader { text, at: 0 };
        let wrong = |(at, fault): (usize, Fault)| ConditionError {
            text: text.to_owned(),
            column: text[..at].chars().count() + 1,
            fault,
        };
        let metric = reader.metric().map_err(wrong)?;
        let window = reader.window(metric).map_err(wrong)?;
        let op = reader.op(metric.unit()).map_err(wrong)?;
        let limit = reader.limit(metric.unit()).map_err(wrong)?;
        Ok(Self {
            metric,
            window,
            op,
            limit,
        })
    }
}

/// A text and how far it was read, in bytes.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

/// Byte offset of the error, and the error.
type Wrong = (usize, Fault);

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    /// Takes what begins here and fits.
    fn take(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !fits(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// Takes what is between brackets, and these, when there is an opening one here.
    fn bracketed(&mut self, [open, close]: [char; 2]) -> Result<Option<&'a str>, Wrong> {
        let Some(inside) = self.rest().strip_prefix(open) else {
            return Ok(None);
        };
        let length = inside.find(close).ok_or((self.at, Fault::Open(open)))?;
        self.at += open.len_utf8() + length + close.len_utf8();
        Ok(Some(&inside[..length]))
    }

    fn metric(&mut self) -> Result<Metric, Wrong> {
        self.skip_blanks();
        let start = self.at;
        let word = self.take(|c| c.is_alphanumeric() || c == '_');
        if word.is_empty() {
            return Err((start, Fault::NoMetric));
        }
        let series = word.trim_end_matches(|c: char| c.is_ascii_digit());
        let name = if series.ends_with('p') && series != word && self.rest().starts_with('.') {
            // As summaries write it: `service_p99.9`.
            self.take(|c| c == '.' || c.is_ascii_digit());
            format!("{series}({})", &self.text[start + series.len()..self.at])
        } else {
            self.bracketed(['(', ')'])?;
            self.text[start..self.at].to_owned()
        };
        Metric::named(&name).ok_or_else(|| {
            (
                start,
                Fault::UnknownMetric {
                    hint: hint(&name),
                    name,
                },
            )
        })
    }

    fn window(&mut self, metric: Metric) -> Result<Option<Window>, Wrong> {
        self.skip_blanks();
        let start = self.at;
        let Some(inside) = self.bracketed(['[', ']'])? else {
            return Ok(None);
        };
        if !metric.is_live() {
            return Err((start, Fault::NoWindow(metric.to_string())));
        }
        let seconds = match inside.trim() {
            "1m" => Some(60),
            text => text
                .strip_suffix('s')
                .filter(|n| n.bytes().all(|b| b.is_ascii_digit()))
                .and_then(|n| n.parse().ok()),
        };
        seconds
            .and_then(Window::new)
            .map(Some)
            .ok_or_else(|| (start, Fault::Window(inside.to_owned())))
    }

    fn op(&mut self, unit: Unit) -> Result<Op, Wrong> {
        self.skip_blanks();
        let start = self.at;
        let text = self.take(|c| "<>=!≤≥≠~".contains(c));
        let known = Op::ALL.into_iter().find(|op| op.name() == text);
        if let Some(op) =
            known.filter(|op| unit == Unit::Flag && !matches!(op, Op::Equal | Op::Unequal))
        {
            return Err((start, Fault::NoOrder(op.name())));
        }
        known.ok_or_else(|| {
            let fault = match text {
                "" => Fault::Op(
                    self.rest()
                        .split_whitespace()
                        .next()
                        .unwrap_or("the end")
                        .to_owned(),
                ),
                "=" | "===" => Fault::OtherOp(text.to_owned(), "=="),
                "!" | "<>" | "!==" | "≠" => Fault::OtherOp(text.to_owned(), "!="),
                "=<" | "≤" => Fault::OtherOp(text.to_owned(), "<="),
                "=>" | "≥" => Fault::OtherOp(text.to_owned(), ">="),
                other => Fault::Op(other.to_owned()),
            };
            (start, fault)
        })
    }

    /// The limit, which is all of the rest.
    fn limit(&mut self, unit: Unit) -> Result<f64, Wrong> {
        self.skip_blanks();
        let text = self.rest().trim_end();
        if text.is_empty() {
            return Err((self.at, Fault::NoLimit(right(unit))));
        }
        if let Some(at) = ["&&", "||", ",", ";", " and ", " or "]
            .iter()
            .filter_map(|more| text.find(more))
            .min()
        {
            return Err((self.at + at, Fault::Several));
        }
        limit(text, unit).map_err(|fault| (self.at, fault))
    }
}

/// Return advice on how to write a value of this unit.
const fn right(unit: Unit) -> &'static str {
    match unit {
        Unit::Us => "write a time, as in 250ms",
        Unit::PerS => "write a number per second, as in 9500, 9.5k or 9500/s",
        Unit::Share => "write a percentage, or a share below 1, as in 1% or 0.01",
        Unit::Count => "write a whole number, as in 100 or 10k",
        Unit::Flag => "write true or false",
    }
}

fn limit(text: &str, unit: Unit) -> Result<f64, Fault> {
    let bad = || Fault::Limit(text.to_owned(), right(unit));
    if unit == Unit::Flag {
        return match text {
            "true" => Ok(1.0),
            "false" => Ok(0.0),
            _ => Err(bad()),
        };
    }
    let end = text
        .find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '_'))
        .unwrap_or(text.len());
    let (number, suffix) = (text[..end].replace('_', ""), text[end..].trim_start());
    let of = |exponent: i32| scaled(&number, exponent).ok_or_else(bad);
    match (unit, suffix) {
        (Unit::Us, "us" | "µs" | "μs") => of(0),
        (Unit::Us, "ms") => of(3),
        (Unit::Us, "s") => of(6),
        (Unit::Us, "m") => Ok(of(6)? * 60.0),
        (Unit::Us, "h") => Ok(of(6)? * 3_600.0),
        (Unit::Us, "") => match of(0)? {
            0.0 => Ok(0.0),
            _ => Err(Fault::NoUnit(text.to_owned())),
        },
        (Unit::Share, "%") => match of(-2)? {
            part if part > 1.0 => Err(Fault::AboveAll(text.to_owned())),
            part => Ok(part),
        },
        (Unit::Share, "") => match of(0)? {
            part if part >= 100.0 => Err(bad()),
            part if part >= 1.0 => Err(Fault::NoPercent(text.to_owned(), of(-2)?.to_string())),
            part => Ok(part),
        },
        (Unit::PerS | Unit::Count, suffix) => {
            let suffix = if unit == Unit::PerS {
                suffix.strip_suffix("/s").unwrap_or(suffix).trim_end()
            } else {
                suffix
            };
            let value = match suffix {
                "" => of(0)?,
                "k" | "K" => of(3)?,
                "m" | "M" => of(6)?,
                _ => return Err(bad()),
            };
            if unit == Unit::Count && value.fract() > 0.0 {
                Err(bad())
            } else {
                Ok(value)
            }
        }
        _ => Err(bad()),
    }
}

/// A decimal number times a power of ten, rounded once; none beyond what a result could hold
/// exactly.
fn scaled(number: &str, exponent: i32) -> Option<f64> {
    const GREATEST: f64 = 9e15;
    let digits = number.starts_with(|c: char| c.is_ascii_digit())
        && number.ends_with(|c: char| c.is_ascii_digit());
    let value: f64 = if digits {
        format!("{number}e{exponent}").parse().ok()?
    } else {
        return None;
    };
    (value <= GREATEST).then_some(value)
}

/// Suggest the metric that was probably meant by `name`.
fn hint(name: &str) -> String {
    let others = [
        ("items_per_s", "rate"),
        ("attempts_per_s", "attempts_rate"),
        ("throttled_share", "throttled_rate"),
        ("http_req_duration", "service_p99"),
        ("http_req_failed", "error_rate"),
        ("http_reqs", "attempts_rate"),
        ("latency", "service_p99"),
        ("latency_p99", "service_p99"),
        ("med", "service_p50"),
        ("avg", "service_mean"),
    ];
    if let Some((_, meant)) = others.iter().find(|(other, _)| *other == name) {
        return format!("did you mean `{meant}`?");
    }
    let of_service = format!("service_{name}");
    if let Some(meant) = Metric::named(&of_service) {
        return format!("say of which times: did you mean `{meant}`?");
    }
    match nearest(name, Metric::usual_names()) {
        Some(known) => format!("did you mean `{known}`?"),
        None => "there are times (service_p99, response_p(95), item_max, ...), rate, throttled_rate, error_rate and \
                 counts: see --help"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::run::gates::{Quantity, Stat};
    use crawlmark_harness::stats::Series;

    fn parsed(text: &str) -> Condition {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn what_is_written_is_understood() {
        for (text, shown, limit) in [
            ("service_p99 < 250ms", "service_p99 < 250ms", 250_000.0),
            (
                "service_p99[10s]<250ms",
                "service_p99[10s] < 250ms",
                250_000.0,
            ),
            (
                "  service_p(99.9) [ 5s ]  <=  1.5 s ",
                "service_p999[5s] <= 1.5s",
                1_500_000.0,
            ),
            ("service_p99.9 < 1s", "service_p999 < 1s", 1_000_000.0),
            ("service_p(95) < 2m", "service_p95 < 120s", 120e6),
            ("service_min > 0", "service_min > 0us", 0.0),
            ("throttled_rate < 0.01", "throttled_rate < 1%", 0.01),
            (
                "throttled_rate[1m] < 0.7%",
                "throttled_rate[60s] < 0.7%",
                0.007,
            ),
            ("rate > 9500", "rate > 9500", 9_500.0),
            ("rate >= 9.5k/s", "rate >= 9500", 9_500.0),
            ("attempts_rate>1_000 /s", "attempts_rate > 1000", 1_000.0),
            ("errors == 0", "errors == 0", 0.0),
            ("items>=2k", "items >= 2000", 2_000.0),
            (
                "budget_utilisation <= 100%",
                "budget_utilisation <= 100%",
                1.0,
            ),
            ("valid == true", "valid == true", 1.0),
            ("valid != false", "valid != false", 0.0),
            (
                "cpu_us_per_attempt < 25us",
                "cpu_us_per_attempt < 25us",
                25.0,
            ),
        ] {
            let condition = parsed(text);
            assert_eq!(
                (condition.to_string().as_str(), condition.limit),
                (shown, limit),
                "{text}"
            );
            assert_eq!(parsed(shown), condition);
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, column, word) in [
            ("", 1, "write a metric first"),
            ("< 5", 1, "write a metric first"),
            ("servce_p99 < 250ms", 1, "did you mean `service_p99`?"),
            (
                "p(99) < 250ms",
                1,
                "say of which times: did you mean `service_p99`?",
            ),
            ("http_req_failed < 0.01", 1, "did you mean `error_rate`?"),
            ("service_p100 < 1s", 1, "there is no metric `service_p100`"),
            ("frobnication < 1", 1, "see --help"),
            ("service_p(99 < 250ms", 10, "the `(` is not closed"),
            ("service_p99[10s < 250ms", 12, "the `[` is not closed"),
            (
                "service_p99[90s] < 250ms",
                12,
                "`90s` is not a valid window: write whole seconds, [1s] to [60s]",
            ),
            ("service_p99[0s] < 250ms", 12, "is not a valid window"),
            ("service_p99[500ms] < 250ms", 12, "is not a valid window"),
            (
                "item_p99[10s] < 250ms",
                9,
                "known only when the run is over",
            ),
            ("service_p99", 12, "not `the end`"),
            ("service_p99 below 250ms", 13, "not `below`"),
            (
                "service_p99 = 250ms",
                13,
                "`=` is not a valid comparison: write ==",
            ),
            ("service_p99 ≤ 250ms", 13, "write <="),
            ("service_p99 <", 14, "as in 250ms"),
            ("service_p99 < 250", 15, "`250` has no unit: write 250ms"),
            ("service_p99 < 250 MB", 15, "`250 MB` is not a valid limit"),
            ("service_p99 < -1ms", 15, "is not a valid limit"),
            ("service_p99 < 1e3ms", 15, "is not a valid limit"),
            (
                "error_rate < 150%",
                14,
                "`150%` is more than all: write a share of 0% to 100%",
            ),
            (
                "throttled_rate < 5",
                18,
                "`5` has no %: write 5% or 0.05, or 100% for all",
            ),
            (
                "error_rate < 1",
                14,
                "`1` has no %: write 1% or 0.01, or 100% for all",
            ),
            (
                "error_rate < 100",
                14,
                "write a percentage, or a share below 1",
            ),
            ("rate > 10/min", 8, "per second"),
            ("errors < 1.5", 10, "a whole number"),
            ("errors < 99999999999999999", 10, "a whole number"),
            ("valid == yes", 10, "true or false"),
            (
                "valid < true",
                7,
                "`<` makes no sense for true or false: write == or !=",
            ),
            ("valid <= true", 7, "`<=` makes no sense"),
            ("valid > false", 7, "`>` makes no sense"),
            ("valid >= true", 7, "`>=` makes no sense"),
            ("errors < 5 && rate > 5", 12, "one condition at a time"),
        ] {
            let error = text.parse::<Condition>().unwrap_err();
            assert_eq!(error.column, column, "{error}");
            assert!(error.to_string().contains(word), "{error}");
        }
    }

    #[test]
    fn every_metric_is_suggested_for_a_name_with_a_slip() {
        for name in Metric::usual_names() {
            for at in 1..name.len() {
                let slip = format!("{}{}", &name[..at], &name[at + 1..]);
                let Err(error) = format!("{slip} < 1").parse::<Condition>() else {
                    continue;
                };
                assert!(
                    Metric::named(&slip).is_some() || error.to_string().contains("did you mean `"),
                    "{slip} of {name}: {error}"
                );
            }
        }
    }

    fn metrics() -> impl Strategy<Value = Metric> {
        let percentiles = (1_u32..1_000_000).prop_map(|part| {
            let text = format!("p({}.{:04})", part / 10_000, part % 10_000);
            Stat::named(&text).unwrap_or_else(|| panic!("{text}"))
        });
        let stats = prop_oneof![
            Just(Stat::Min),
            Just(Stat::Mean),
            Just(Stat::Max),
            percentiles
        ];
        let times = (prop::sample::select(Series::ALL.to_vec()), stats)
            .prop_map(|(series, stat)| Metric::Time(series, stat));
        prop_oneof![
            times,
            prop::sample::select(Quantity::ALL.to_vec()).prop_map(Metric::Of)
        ]
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,40}") {
            if let Err(error) = text.parse::<Condition>() {
                prop_assert!(error.column <= text.chars().count() + 1);
            }
        }

        #[test]
        fn no_text_like_a_condition_makes_the_parser_panic(
            text in "(service_p99|rate|valid|p\\(9|é){0,2} ?(\\[[0-9s ]{0,3}\\]?)?[<>=!≤ ]{0,3}[0-9._]{0,6}[µa-z%/& ]{0,4}"
        ) {
            if let Err(error) = text.parse::<Condition>() {
                prop_assert!(error.column <= text.chars().count() + 1);
            }
        }

        #[test]
        fn a_printed_condition_parses_to_itself(
            metric in metrics(),
            seconds in prop::option::of(1..=Window::LONGEST),
            op in prop::sample::select(Op::ALL.to_vec()),
            limit in prop_oneof![0.0..1.0_f64, 0.0..1e9_f64, (0..1_000_000_u32).prop_map(f64::from)],
        ) {
            let limit = match metric.unit() {
                Unit::Us | Unit::PerS => limit,
                Unit::Share => limit.fract(),
                Unit::Count => limit.trunc(),
                Unit::Flag => f64::from(limit > 0.5),
            };
            prop_assume!(metric.unit() != Unit::Flag || matches!(op, Op::Equal | Op::Unequal));
            let window = seconds.filter(|_| metric.is_live()).and_then(Window::new);
            let condition = Condition { metric, window, op, limit };
            let text = condition.to_string();
            prop_assert_eq!(text.parse(), Ok(condition), "{}", text);
        }
    }
}
