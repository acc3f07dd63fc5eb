//! Rates that change over a run, parsed: a ramp (`100:1k`), or steps (`100:1000:50@10s`).
//!
//! Called by the command line (through `FromStr`), by the plan and by the pacer.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{MOST_STEPS, Rate, RateError, number_and_period, permits};
use crate::units::parse_duration;

/// The shortest step.
const SHORTEST_STEP: Duration = Duration::from_millis(1);

/// Course of a rate over a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RateShape {
    /// Not at all.
    #[default]
    Constant,
    /// Evenly, all the time, over the run's whole duration.
    Ramp {
        /// At the start; may be of 0 permits.
        from: Rate,
        /// At the end, and for what is left to do after it.
        to: Rate,
    },
    /// By `step` every `every_ns`, until it is `to`, and then no more.
    Steps {
        /// At the start.
        from: Rate,
        /// At the end; the last step may be a shorter one.
        to: Rate,
        /// Size of each step, which is added, or taken off when `to` is below `from`.
        step: Rate,
        /// Duration of each rate but the last, ns; at least 1.
        every_ns: u64,
    },
    /// All requests of a window at its start, and none of those that were left out before: an
    /// interval cap.
    Windows {
        /// Duration of each window, ns; at least 1.
        every_ns: u64,
    },
}

impl RateShape {
    /// The highest rate; none when it does not change.
    pub fn peak(&self) -> Option<Rate> {
        match *self {
            Self::Constant | Self::Windows { .. } => None,
            Self::Ramp { from, to } | Self::Steps { from, to, .. } => Some(from.max_with(to)),
        }
    }
}

impl RateShape {
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
            Self::Constant | Self::Ramp { .. } | Self::Steps { .. } => None,
        }
    }
}

/// A rate and how it changes, as typed after `--rate`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShapedRate {
    /// The rate; the highest one when it changes.
    pub peak: Rate,
    /// Course of the rate.
    pub shape: RateShape,
}

impl fmt::Display for ShapedRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shape {
            RateShape::Constant => self.peak.fmt(f),
            RateShape::Ramp { from, to } => write!(f, "{}:{to}", from.permits),
            RateShape::Steps {
                from,
                to,
                step,
                every_ns,
            } => {
                let every = humantime::format_duration(Duration::from_nanos(every_ns));
                write!(f, "{}:{}:{step}@{every}", from.permits, to.permits)
            }
            RateShape::Windows { every_ns } => {
                write!(
                    f,
                    "{} per {}",
                    self.peak.permits,
                    humantime::format_duration(Duration::from_nanos(every_ns))
                )
            }
        }
    }
}

impl FromStr for ShapedRate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        if let Some((number, time)) = text.split_once(" per ") {
            let every_ns =
                parse_every_ns(time).ok_or_else(|| RateError::Window(text.to_owned()))?;
            let permits = permits(number)
                .ok()
                .filter(|permits| *permits > 0)
                .ok_or_else(|| RateError::Window(text.to_owned()))?;
            return Ok(Self {
                peak: Rate {
                    permits,
                    period_ns: every_ns,
                },
                shape: RateShape::Windows { every_ns },
            });
        }
        if !text.contains([':', '@']) {
            return Ok(Self {
                peak: text.parse()?,
                shape: RateShape::Constant,
            });
        }
        let (rates, time) = match text.split_once('@') {
            Some((rates, time)) => (rates, Some(time)),
            None => (text, None),
        };
        let form = || RateError::Form(text.to_owned());
        let parts: Vec<&str> = rates.split(':').collect();
        let (last, before) = parts.split_last().ok_or_else(form)?;
        if before.iter().any(|part| part.contains('/')) {
            return Err(RateError::Unit(text.to_owned()));
        }
        let (last, period) = number_and_period(last)?;
        let rate = |part: &str| match permits(part) {
            Ok(permits) => Ok(Rate {
                permits,
                period_ns: period.ns(),
            }),
            Err(RateError::Constant(_)) => Err(form()),
            Err(error) => Err(error),
        };
        let shape = match (before, time) {
            ([from], None) => RateShape::Ramp {
                from: rate(from)?,
                to: rate(last)?,
            },
            ([from, to], time) => RateShape::Steps {
                from: rate(from)?,
                to: rate(to)?,
                step: rate(last)?,
                every_ns: time
                    .and_then(parse_every_ns)
                    .ok_or_else(|| RateError::StepTime(text.to_owned()))?,
            },
            _ => return Err(form()),
        };
        let peak = check(shape, text)?;
        Ok(Self { peak, shape })
    }
}

fn parse_every_ns(text: &str) -> Option<u64> {
    let every = parse_duration(text.trim()).ok()?;
    u64::try_from(every.as_nanos())
        .ok()
        .filter(|_| every >= SHORTEST_STEP)
}

/// The peak of a shape that makes sense.
fn check(shape: RateShape, text: &str) -> Result<Rate, RateError> {
    match shape {
        RateShape::Ramp { to, .. } if to.permits == 0 => {
            return Err(RateError::Zero(text.to_owned()));
        }
        RateShape::Steps { from, to, .. } if from.permits == 0 || to.permits == 0 => {
            return Err(RateError::Zero(text.to_owned()));
        }
        RateShape::Ramp { from, to } | RateShape::Steps { from, to, .. } if from == to => {
            return Err(RateError::Flat(text.to_owned()));
        }
        RateShape::Steps { step, .. } if step.permits == 0 => {
            return Err(RateError::StepSize(text.to_owned()));
        }
        RateShape::Steps { from, to, step, .. } => {
            let steps = from.permits.abs_diff(to.permits).div_ceil(step.permits);
            if steps > MOST_STEPS {
                return Err(RateError::Steps {
                    text: text.to_owned(),
                    steps,
                });
            }
        }
        RateShape::Ramp { .. } | RateShape::Constant | RateShape::Windows { .. } => {}
    }
    shape.peak().ok_or_else(|| RateError::Form(text.to_owned()))
}
