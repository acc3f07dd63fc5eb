//! The part of a run that is requested, and its resolution to seconds and shards of this run.

use std::str::FromStr;
use std::time::Duration;

use super::steady::{self, NotSteady, SteadyState};
use crate::run::report::Report;
use crate::show::text::seconds;
use crawlmark_harness::plan::MAX_SHARDS;
use crawlmark_harness::stats::Series;
use crawlmark_harness::units::{UnitError, parse_duration};

/// The seconds that are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// From a second to another, which is not part of it. Unless said, all that the run measured.
    Seconds {
        /// Since the common start.
        from: Option<u64>,
        /// Since the common start.
        to: Option<u64>,
    },
    /// Those in which it went evenly.
    Steady,
}

/// The answers whose times are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcomes {
    /// Each kind by itself.
    All,
    /// Good and not-found ones.
    Ok,
    /// Throttled ones.
    Throttled,
    /// Rejected, challenged and failed ones.
    Error,
}

impl Outcomes {
    /// Every choice.
    pub const ALL: [Self; 4] = [Self::All, Self::Ok, Self::Throttled, Self::Error];

    /// Its name, in the command line and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Ok => "ok",
            Self::Throttled => "throttled",
            Self::Error => "error",
        }
    }

    /// True if `series` is of such answers.
    #[must_use]
    pub const fn has(self, series: Series) -> bool {
        match self {
            Self::All => true,
            Self::Ok => matches!(series, Series::ServiceOk | Series::ResponseOk),
            Self::Throttled => {
                matches!(series, Series::ServiceThrottled | Series::ResponseThrottled)
            }
            Self::Error => matches!(series, Series::ServiceError | Series::ResponseError),
        }
    }
}

/// Numbers of shards, as they are typed: `0-3`, or `0,2,5-7`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shards(Vec<(u32, u32)>);

/// Reason why a text names no shards.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` names no shards: write their numbers, from 0 on, as 0-3 or 0,2,5-7")]
pub struct ShardsError(String);

impl FromStr for Shards {
    type Err = ShardsError;

    fn from_str(text: &str) -> Result<Self, ShardsError> {
        let bad = || ShardsError(text.to_owned());
        text.split(',')
            .map(|part| {
                let (first, last) = part.split_once('-').unwrap_or((part, part));
                let (first, last) = (
                    first.trim().parse().map_err(|_| bad())?,
                    last.trim().parse().map_err(|_| bad())?,
                );
                if first <= last && last < MAX_SHARDS {
                    Ok((first, last))
                } else {
                    Err(bad())
                }
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl Shards {
    /// Each once, in order.
    fn numbers(&self) -> Vec<u32> {
        let mut numbers: Vec<u32> = self
            .0
            .iter()
            .flat_map(|(first, last)| *first..=*last)
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }
}

/// Parses a point of time since the start, in whole seconds: `10`, `10s`, `1m 30s`.
///
/// # Errors
/// When the text is no duration, or is not of whole seconds.
pub fn parse_second(text: &str) -> Result<u64, SecondError> {
    let time = parse_duration(text)?;
    if time == Duration::from_secs(time.as_secs()) {
        Ok(time.as_secs())
    } else {
        Err(SecondError::Part(text.to_owned()))
    }
}

/// Reason why a text is no second of a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecondError {
    /// Not a duration.
    #[error(transparent)]
    Unit(#[from] UnitError),
    /// Between two seconds.
    #[error(
        "`{0}` is not a whole second: a result has its times by the second, and cannot be cut within one"
    )]
    Part(String),
}

/// Request for a part of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// Its seconds.
    pub span: Span,
    /// Its shards; none are all.
    pub shards: Option<Shards>,
    /// The answers whose times are told.
    pub outcomes: Outcomes,
}

impl Ask {
    /// All that was measured.
    pub const EVERYTHING: Self = Self {
        span: Span::Seconds {
            from: None,
            to: None,
        },
        shards: None,
        outcomes: Outcomes::All,
    };
}

/// A part of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Cut {
    /// Its first second.
    pub from_s: u64,
    /// The second after its last one.
    pub to_s: u64,
    /// Way in which the seconds were chosen: `whole`, `asked` or `steady`.
    pub chosen: &'static str,
    /// Steady state that they are; none unless asked for.
    pub steady: Option<SteadyState>,
    /// Its shards, in order.
    pub shards: Vec<u32>,
    /// The answers whose times are told.
    pub outcomes: Outcomes,
}

/// Reason why a run has no such part.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CutError {
    /// No second was measured.
    #[error("the run was over before anything was measured: there is nothing to cut")]
    Empty,
    /// Beyond the end.
    #[error("{flag} {second}s is outside the run, which took {}", seconds(*.run_s))]
    Outside {
        /// Flag as typed.
        flag: &'static str,
        /// The point.
        second: u64,
        /// Duration of the run, seconds.
        run_s: f64,
    },
    /// Nothing lies between.
    #[error("--from {from}s is not before --to {to}s: there is no second between them")]
    Backwards {
        /// First second, as typed or as implied.
        from: u64,
        /// Second after the last, as typed or as implied.
        to: u64,
    },
    /// No such shard.
    #[error("--shards names shard {shard}, and the run's are {first} to {last}")]
    NoShard {
        /// The number.
        shard: u32,
        /// The least number that there is.
        first: u32,
        /// The greatest.
        last: u32,
    },
    /// None was found.
    #[error("find a steady state: {0}")]
    NotSteady(#[from] NotSteady),
}

impl Cut {
    /// The part of `report`'s run that is asked for. Unless said it begins after the warm-up, as
    /// all times of a report do.
    ///
    /// # Errors
    /// When the run has no such part.
    pub fn of(report: &Report, ask: &Ask) -> Result<Self, CutError> {
        let whole = whole(report);
        let mut steady = None;
        let (from_s, to_s, chosen) = match ask.span {
            Span::Seconds {
                from: None,
                to: None,
            } => (whole.0, whole.1, "whole"),
            Span::Seconds { from, to } => {
                for (flag, second) in [("--from", from), ("--to", to)] {
                    if let Some(second) = second.filter(|second| *second > whole.1) {
                        let run_s = report.totals.duration_s;
                        return Err(CutError::Outside {
                            flag,
                            second,
                            run_s,
                        });
                    }
                }
                let to = to.unwrap_or(whole.1);
                // Who asks for the end of the warm-up alone does not ask for nothing.
                let first = if to <= whole.0 { 0 } else { whole.0 };
                (from.unwrap_or(first), to, "asked")
            }
            Span::Steady => {
                let found = steady.insert(steady::find(report)?);
                (found.from_s, found.to_s, "steady")
            }
        };
        if whole.1 == 0 {
            return Err(CutError::Empty);
        }
        if from_s >= to_s {
            return Err(CutError::Backwards {
                from: from_s,
                to: to_s,
            });
        }
        Ok(Self {
            from_s,
            to_s,
            chosen,
            steady,
            shards: shards(report, ask.shards.as_ref())?,
            outcomes: ask.outcomes,
        })
    }
}

/// The second after the last one in which anything was.
pub(super) fn end_s(report: &Report) -> u64 {
    let ends = report
        .intervals
        .iter()
        .map(|row| row.start_s.saturating_add(1));
    ends.max().unwrap_or(0)
}

/// The second after the one in which the warm-up ended.
pub(super) fn warm_s(report: &Report) -> u64 {
    let warmup = report.plan.run.warmup;
    warmup
        .as_secs()
        .saturating_add(u64::from(warmup.subsec_nanos() > 0))
}

/// The seconds that a report is of: from the end of the warm-up to the end of the last second in
/// which anything was.
fn whole(report: &Report) -> (u64, u64) {
    let end = end_s(report);
    (warm_s(report).min(end), end)
}

fn shards(report: &Report, asked: Option<&Shards>) -> Result<Vec<u32>, CutError> {
    let mut all: Vec<u32> = report.shards.iter().map(|shard| shard.shard).collect();
    all.sort_unstable();
    let Some(asked) = asked else { return Ok(all) };
    let numbers = asked.numbers();
    match numbers
        .iter()
        .find(|number| all.binary_search(number).is_err())
    {
        None => Ok(numbers),
        Some(shard) => Err(CutError::NoShard {
            shard: *shard,
            first: all.first().copied().unwrap_or(0),
            last: all.last().copied().unwrap_or(0),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_named_by_number_and_range() {
        let numbers = |text: &str| text.parse::<Shards>().map(|shards| shards.numbers());
        assert_eq!(numbers("0-3"), Ok(vec![0, 1, 2, 3]));
        assert_eq!(numbers("5-7, 2,0,2"), Ok(vec![0, 2, 5, 6, 7]));
        for text in [
            "",
            "a",
            "3-0",
            "-1",
            "0-",
            "0..3",
            "1,",
            "0-4000000000",
            "99999999999",
        ] {
            assert_eq!(numbers(text), Err(ShardsError(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn a_result_is_cut_between_seconds() {
        assert_eq!(
            (parse_second("10"), parse_second("1m 30s")),
            (Ok(10), Ok(90))
        );
        assert!(
            parse_second("1500ms")
                .unwrap_err()
                .to_string()
                .contains("`1500ms` is not a whole second")
        );
        assert!(
            parse_second("soon")
                .unwrap_err()
                .to_string()
                .contains("is not a duration")
        );
    }
}
