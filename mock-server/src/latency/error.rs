//! What can be wrong with a latency that was typed. `text` and `quantiles` refuse with it.
//!
//! It must not decide what is refused.

use crate::duration;
use std::fmt;
use std::time::Duration;

/// Why a latency was refused. It stands for itself.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LatencyError {
    /// The model is not one of the known ones.
    #[error(
        "`{given}` is no latency: write none, fixed:20ms, uniform:10ms,30ms, lognormal:20ms,0.4, pareto:5ms,1.5, \
         bimodal:2ms,200ms,0.05, drift:500ms,30s,1200 or quantiles:0=5ms,0.5=20ms,1=2s"
    )]
    UnknownModel {
        /// What was given.
        given: String,
    },
    /// A model was given too few or too many numbers.
    #[error("`{given}` is no {model} latency: write {}", model.shape())]
    WrongParts {
        /// The model that was named.
        model: Model,
        /// What was given after the model's name.
        given: String,
    },
    /// A duration is not one.
    #[error("`{given}` is not a duration for the {part} of a latency: write 20ms, 1s or the like")]
    NotADuration {
        /// Which part of the latency.
        part: Part,
        /// What was given.
        given: String,
        /// What is wrong with it.
        source: humantime::DurationError,
    },
    /// A duration is below zero.
    #[error("the {part} `{given}` is negative: write 0 or more")]
    Negative {
        /// Which part of the latency.
        part: Part,
        /// What was given.
        given: String,
    },
    /// A duration is longer than [`MAX_HOLD`](super::MAX_HOLD).
    #[error("the {part} `{given}` is longer than an hour: write 1h or less")]
    TooLong {
        /// Which part of the latency.
        part: Part,
        /// What was given.
        given: String,
    },
    /// The ids of a drift are no number, or none.
    #[error("`{given}` is no number of ids for a drift: write a whole number of at least 1, as in 1200")]
    Ids {
        /// What was given.
        given: String,
    },
    /// Sigma is not a number, or out of range.
    #[error("`{given}` is no sigma of a log-normal latency: write a number from 0 to 5, as in 0.4")]
    Sigma {
        /// What was given.
        given: String,
    },
    /// Alpha is not a number, or out of range.
    #[error("`{given}` is no alpha of a Pareto latency: write a number from 0.1 to 100, as in 1.5")]
    Alpha {
        /// What was given.
        given: String,
    },
    /// A share of the items is not one.
    #[error("`{given}` is no share of the items: write a number from 0 to 1, as in 0.05 for 5 %")]
    Share {
        /// What was given.
        given: String,
    },
    /// What must not be shorter is.
    #[error("the {upper} {} is below the {lower} {}: write a {upper} of at least the {lower}", duration::text(*.above), duration::text(*.below))]
    OutOfOrder {
        /// The part that must not be shorter.
        upper: Part,
        /// What was given for it.
        above: Duration,
        /// The part that it is compared with.
        lower: Part,
        /// What was given for that.
        below: Duration,
    },
    /// The quantiles do not cover all items.
    #[error("the quantiles go from {first} to {last}: write the shortest hold as 0=.. and the longest as 1=..")]
    NotCovering {
        /// The first share.
        first: f64,
        /// The last share.
        last: f64,
    },
    /// The shares of the quantiles do not rise.
    #[error("the quantile {next} comes after {share}: write each share once, in rising order")]
    SharesNotRising {
        /// A share.
        share: f64,
        /// The share after it.
        next: f64,
    },
    /// A higher quantile is a shorter hold.
    #[error(
        "the quantile {next} is {}, shorter than the quantile {share}: write holds that rise with their shares",
        duration::text(*.hold)
    )]
    HoldsFalling {
        /// A share.
        share: f64,
        /// The share after it.
        next: f64,
        /// The hold of the latter.
        hold: Duration,
    },
}

/// A model that takes several numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// [`Latency::Uniform`](super::Latency::Uniform).
    Uniform,
    /// [`Latency::LogNormal`](super::Latency::LogNormal).
    LogNormal,
    /// [`Latency::Pareto`](super::Latency::Pareto).
    Pareto,
    /// [`Latency::Bimodal`](super::Latency::Bimodal).
    Bimodal,
    /// [`Latency::Drift`](super::Latency::Drift).
    Drift,
    /// [`Latency::Quantiles`](super::Latency::Quantiles).
    Quantiles,
}

impl Model {
    /// What is written after the model's name.
    const fn shape(self) -> &'static str {
        match self {
            Self::Uniform => "low,high as in 10ms,30ms",
            Self::LogNormal => "median,sigma or median,sigma,max as in 20ms,0.4,2s",
            Self::Pareto => "min,alpha or min,alpha,max as in 5ms,1.5,10s",
            Self::Bimodal => "first,second,share of the second as in 2ms,200ms,0.05",
            Self::Drift => "from,to,ids as in 500ms,30s,1200",
            Self::Quantiles => "share=hold pairs from 0 to 1 as in 0=5ms,0.5=20ms,1=2s",
        }
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Uniform => "uniform",
            Self::LogNormal => "log-normal",
            Self::Pareto => "Pareto",
            Self::Bimodal => "bimodal",
            Self::Drift => "drift",
            Self::Quantiles => "quantiles",
        })
    }
}

/// Which duration of a latency an error speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The delay of [`Latency::Fixed`](super::Latency::Fixed).
    Delay,
    /// The shortest hold of [`Latency::Uniform`](super::Latency::Uniform).
    LowEnd,
    /// The longest hold of [`Latency::Uniform`](super::Latency::Uniform).
    HighEnd,
    /// The median of [`Latency::LogNormal`](super::Latency::LogNormal).
    Median,
    /// The minimum of [`Latency::Pareto`](super::Latency::Pareto).
    Minimum,
    /// The maximum of [`Latency::LogNormal`](super::Latency::LogNormal) or
    /// [`Latency::Pareto`](super::Latency::Pareto).
    Maximum,
    /// The hold of most items in [`Latency::Bimodal`](super::Latency::Bimodal).
    FirstMode,
    /// The hold of the others in [`Latency::Bimodal`](super::Latency::Bimodal).
    SecondMode,
    /// The first hold of [`Latency::Drift`](super::Latency::Drift).
    Start,
    /// The last hold of [`Latency::Drift`](super::Latency::Drift).
    End,
    /// One of [`Latency::Quantiles`](super::Latency::Quantiles).
    Quantile,
    /// What [`PerInFlight`](super::PerInFlight) adds for each request.
    Growth,
    /// [`Handshake`](super::Handshake).
    Handshake,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Delay => "delay",
            Self::LowEnd => "low end",
            Self::HighEnd => "high end",
            Self::Median => "median",
            Self::Minimum => "minimum",
            Self::Maximum => "maximum",
            Self::FirstMode => "first mode",
            Self::SecondMode => "second mode",
            Self::Start => "start",
            Self::End => "end",
            Self::Quantile => "quantile",
            Self::Growth => "growth per request in flight",
            Self::Handshake => "handshake",
        })
    }
}
