//! Rates that change over a run, parsed: stages (`200/s@30s, 200/s..2000/s@10s, 2000/s`), of which
//! a ramp (`100:1k`) and steps (`100:1000:50@10s`) are short forms.
//!
//! Called by the command line (through `FromStr`), by the plan and by the pacer.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{MOST_PERMITS, MOST_STAGES, Rate, RateError, number_and_period, permits, rate};
use crate::units::parse_duration;

/// The shortest stage.
const SHORTEST: Duration = Duration::from_millis(1);

/// The longest stage: the arithmetic of a ramp is exact up to here.
pub(crate) const LONGEST: Duration = Duration::from_hours(24);

/// A part of a run with a rate of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stage {
    /// At its start; may be of 0 permits. All rates of a shape have the same period.
    pub from: Rate,
    /// At its end, which the rate changes to evenly, all the time.
    pub to: Rate,
    /// Its time, ns; at least 1. None of the last stage that lasts until the run ends.
    pub length_ns: Option<u64>,
}

impl Stage {
    /// True if its rate does not change.
    pub fn is_steady(&self) -> bool {
        self.from == self.to
    }

    /// Its rates, at its start and at its end.
    pub(crate) const fn rates(&self) -> [Rate; 2] {
        [self.from, self.to]
    }
}

/// Course of a rate over a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", from = "ReadShape")]
pub enum RateShape {
    /// Not at all.
    #[default]
    Constant,
    /// Stage after stage.
    Stages(Vec<Stage>),
    /// All requests of a window at its start, and none of those that were left out before: an
    /// interval cap.
    Windows {
        /// Duration of each window, ns; at least 1.
        every_ns: u64,
    },
}

/// A shape of this version, or of 0.1.0.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum ReadShape {
    Constant,
    Stages(Vec<Stage>),
    Windows {
        every_ns: u64,
    },
    Ramp {
        from: Rate,
        to: Rate,
    },
    Steps {
        from: Rate,
        to: Rate,
        step: Rate,
        every_ns: u64,
    },
}

impl From<ReadShape> for RateShape {
    fn from(read: ReadShape) -> Self {
        match read {
            ReadShape::Constant => Self::Constant,
            ReadShape::Stages(stages) => Self::Stages(stages),
            ReadShape::Windows { every_ns } => Self::Windows { every_ns },
            ReadShape::Ramp { from, to } => Self::Stages(ramp(from, to)),
            ReadShape::Steps {
                from,
                to,
                step,
                every_ns,
            } => Self::Stages(steps(from, to, step, every_ns)),
        }
    }
}

impl RateShape {
    /// The stages; empty of another shape.
    pub fn stages(&self) -> &[Stage] {
        match self {
            Self::Stages(stages) => stages,
            Self::Constant | Self::Windows { .. } => &[],
        }
    }

    /// The highest rate; none without stages.
    pub fn peak(&self) -> Option<Rate> {
        self.stages()
            .iter()
            .flat_map(Stage::rates)
            .max_by_key(|rate| rate.permits)
    }

    /// True if it is a ramp until the end of the run, whose time has to be known.
    pub fn needs_end(&self) -> bool {
        let last = self.stages().last();
        last.is_some_and(|last| last.length_ns.is_none() && !last.is_steady())
    }

    /// Time of all stages that have one, and true if the last one has.
    pub fn length(&self) -> (Duration, bool) {
        let stages = self.stages();
        let lengths = stages.iter().filter_map(|stage| stage.length_ns);
        let has_end = stages.last().is_some_and(|last| last.length_ns.is_some());
        (Duration::from_nanos(lengths.sum()), has_end)
    }

    /// Begin and end of each stage, s after the start, in a run of so many seconds.
    pub fn times_s(&self, run_s: f64) -> impl Iterator<Item = (f64, f64)> {
        self.stages().iter().scan(0.0, move |from_s, stage| {
            let length_s = stage.length_ns.map_or(f64::INFINITY, |ns| ns as f64 / 1e9);
            let times = (*from_s, (*from_s + length_s).min(run_s));
            *from_s = times.1;
            Some(times)
        })
    }

    /// The same with other rates.
    #[must_use]
    pub(crate) fn with_rates(&self, rate: impl Fn(Rate) -> Rate) -> Self {
        match self {
            Self::Stages(stages) => Self::Stages(
                stages
                    .iter()
                    .map(|stage| Stage {
                        from: rate(stage.from),
                        to: rate(stage.to),
                        ..*stage
                    })
                    .collect(),
            ),
            Self::Constant | Self::Windows { .. } => self.clone(),
        }
    }

    /// Least time from a request to the one that comes as many places later as a window has
    /// requests, ns; none without windows.
    ///
    /// A fiftieth shorter than the window (at least 250 us, at most half of it), so that a request
    /// that was late by less does not make all later windows late. No time shorter than this holds
    /// more requests than a window may.
    pub fn apart_ns(&self) -> Option<u64> {
        match *self {
            Self::Windows { every_ns } => {
                Some(every_ns - (every_ns / 50).max(250_000).min(every_ns / 2))
            }
            Self::Constant | Self::Stages(_) => None,
        }
    }
}

/// A rate and how it changes, as typed after `--rate`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShapedRate {
    /// The rate; the highest one when it changes.
    pub peak: Rate,
    /// Course of the rate.
    pub shape: RateShape,
}

impl ShapedRate {
    /// The rate in a few words: of several stages, their number and the highest rate.
    pub fn in_short(&self) -> String {
        match self.shape.stages().len() {
            0 | 1 => self.to_string(),
            stages => format!("{stages} stages up to {}", self.peak),
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.from.fmt(f)?;
        if !self.is_steady() {
            write!(f, "..{}", self.to)?;
        }
        self.length_ns
            .map_or(Ok(()), |ns| write!(f, "@{}", time(ns)))
    }
}

impl fmt::Display for ShapedRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stages = match &self.shape {
            RateShape::Constant => return self.peak.fmt(f),
            RateShape::Windows { every_ns } => {
                return write!(f, "{} per {}", self.peak.permits, time(*every_ns));
            }
            RateShape::Stages(stages) => stages,
        };
        if let [
            Stage {
                from,
                to,
                length_ns: None,
            },
        ] = stages[..]
        {
            return write!(f, "{}:{to}", from.permits);
        }
        if let [first, second, _, ..] = stages[..]
            && let (Some(every_ns), Some(last)) = (first.length_ns, stages.last())
        {
            let (from, to) = (first.from, last.to);
            let step = Rate {
                permits: from.permits.abs_diff(second.from.permits),
                ..from
            };
            if step.permits > 0 && steps(from, to, step, every_ns) == *stages {
                return write!(
                    f,
                    "{}:{}:{step}@{}",
                    from.permits,
                    to.permits,
                    time(every_ns)
                );
            }
        }
        let all: Vec<String> = stages.iter().map(Stage::to_string).collect();
        f.write_str(&all.join(", "))
    }
}

fn time(ns: u64) -> humantime::FormattedDuration {
    humantime::format_duration(Duration::from_nanos(ns))
}

impl FromStr for ShapedRate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        if let Some((number, time)) = text.split_once(" per ") {
            let every_ns = parse_length_ns(time);
            let permits = permits(number).ok().filter(|permits| *permits > 0);
            let (permits, period_ns) = permits
                .zip(every_ns)
                .ok_or_else(|| RateError::Window(text.to_owned()))?;
            return Ok(Self {
                peak: Rate { permits, period_ns },
                shape: RateShape::Windows {
                    every_ns: period_ns,
                },
            });
        }
        let stages = if text.contains(':') {
            short_form(text).map_err(|error| match error {
                RateError::Constant(_) => form(text),
                error => error,
            })?
        } else if text.contains([',', '@']) || text.contains("..") {
            if text.split(',').any(|stage| stage.trim().is_empty()) {
                return Err(form(text));
            }
            let stages = text.split(',').map(stage).collect::<Result<_, _>>()?;
            in_one_period(stages, text)?
        } else {
            return Ok(Self {
                peak: text.parse()?,
                shape: RateShape::Constant,
            });
        };
        check(&stages, text)?;
        let shape = RateShape::Stages(stages);
        let peak = shape.peak().filter(|peak| peak.permits > 0);
        let peak = peak.ok_or_else(|| RateError::Nothing(text.to_owned()))?;
        Ok(Self { peak, shape })
    }
}

fn form(text: &str) -> RateError {
    RateError::Form(text.to_owned())
}

/// Read `A:B` or `A:B:STEP@TIME`.
fn short_form(text: &str) -> Result<Vec<Stage>, RateError> {
    let (rates, time) = match text.split_once('@') {
        Some((rates, time)) => (rates, Some(time)),
        None => (text, None),
    };
    let parts: Vec<&str> = rates.split(':').collect();
    let (last, before) = parts.split_last().ok_or_else(|| form(text))?;
    if text.contains(',') || text.contains("..") {
        return Err(form(text));
    }
    if before.iter().any(|part| part.contains('/')) {
        return Err(RateError::Unit(text.to_owned()));
    }
    let (last, period) = number_and_period(last)?;
    match (before, time) {
        ([from], None) => Ok(ramp(period.rate(from)?, period.rate(last)?)),
        ([from, to], time) => {
            let [from, to, step] = [period.rate(from)?, period.rate(to)?, period.rate(last)?];
            let every_ns = time
                .and_then(parse_length_ns)
                .ok_or_else(|| RateError::StageTime(text.to_owned()))?;
            if from == to {
                return Err(RateError::Flat(text.to_owned()));
            }
            if step.permits == 0 {
                return Err(RateError::StepSize(text.to_owned()));
            }
            let count = from.permits.abs_diff(to.permits).div_ceil(step.permits) + 1;
            check_count(count, text)?;
            Ok(steps(from, to, step, every_ns))
        }
        _ => Err(form(text)),
    }
}

/// Return a ramp until the end of the run.
fn ramp(from: Rate, to: Rate) -> Vec<Stage> {
    let length_ns = None;
    vec![Stage {
        from,
        to,
        length_ns,
    }]
}

/// Return stages from one rate to another by `step`, of which the last change may be smaller.
fn steps(from: Rate, to: Rate, step: Rate, every_ns: u64) -> Vec<Stage> {
    let [low, high] = [from.permits.min(to.permits), from.permits.max(to.permits)];
    let count = (high - low).div_ceil(step.permits.max(1)).min(MOST_STAGES);
    (0..=count)
        .map(|n| {
            let change = n.saturating_mul(step.permits);
            let permits = if to.permits > from.permits {
                low.saturating_add(change).min(high)
            } else {
                high.saturating_sub(change).max(low)
            };
            let rate = Rate { permits, ..from };
            Stage {
                from: rate,
                to: rate,
                length_ns: (n < count).then_some(every_ns),
            }
        })
        .collect()
}

/// Read `RATE`, `RATE@TIME` or `RATE..RATE@TIME`.
fn stage(text: &str) -> Result<Stage, RateError> {
    let text = text.trim();
    let (rates, time) = match text.split_once('@') {
        Some((rates, time)) => (rates, Some(time)),
        None => (text, None),
    };
    let length_ns = time
        .map(|time| parse_length_ns(time).ok_or_else(|| RateError::StageTime(text.to_owned())))
        .transpose()?;
    let (from, to) = rates.split_once("..").unwrap_or((rates, rates));
    if to.contains("..") {
        return Err(form(text));
    }
    if from.contains('/') != to.contains('/') {
        return Err(RateError::StageUnit(text.to_owned()));
    }
    let stage = Stage {
        from: rate(from)?,
        to: rate(to)?,
        length_ns,
    };
    if stage.is_steady() && rates.contains("..") {
        return Err(RateError::Flat(text.to_owned()));
    }
    Ok(stage)
}

/// Give all rates the longest period among them.
fn in_one_period(mut stages: Vec<Stage>, text: &str) -> Result<Vec<Stage>, RateError> {
    let period_ns = stages
        .iter()
        .flat_map(Stage::rates)
        .map(|rate| rate.period_ns)
        .max()
        .unwrap_or(1);
    for rate in stages
        .iter_mut()
        .flat_map(|stage| [&mut stage.from, &mut stage.to])
    {
        let permits = rate.permits * (period_ns / rate.period_ns);
        if permits > MOST_PERMITS {
            return Err(RateError::TooHigh(text.to_owned()));
        }
        *rate = Rate { permits, period_ns };
    }
    Ok(stages)
}

fn parse_length_ns(text: &str) -> Option<u64> {
    let length = parse_duration(text.trim()).ok()?;
    let is_valid = (SHORTEST..=LONGEST).contains(&length);
    u64::try_from(length.as_nanos()).ok().filter(|_| is_valid)
}

fn check_count(stages: u64, text: &str) -> Result<(), RateError> {
    if stages <= MOST_STAGES {
        return Ok(());
    }
    Err(RateError::Stages {
        text: text.to_owned(),
        stages,
    })
}

/// Check that only the last stage has no time, and that it sends something then.
fn check(stages: &[Stage], text: &str) -> Result<(), RateError> {
    check_count(stages.len() as u64, text)?;
    let Some((last, before)) = stages.split_last() else {
        return Ok(());
    };
    if let Some(endless) = before.iter().find(|stage| stage.length_ns.is_none()) {
        return Err(RateError::StageTime(endless.to_string()));
    }
    if last.length_ns.is_none() && last.to.permits == 0 {
        return Err(RateError::Zero(text.to_owned()));
    }
    if last.length_ns.is_none() && last.from == last.to && stages.len() == 1 {
        return Err(RateError::Flat(text.to_owned()));
    }
    Ok(())
}
