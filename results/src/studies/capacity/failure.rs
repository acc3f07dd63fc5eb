//! Cause of a failed probe in one word, for plots: the subject of the objective that broke first.

use super::hindsight::{BY_BURST, BY_TARGET};
use super::probe::{ProbeReport, STARVED};
use super::search::ProbeResult;
use crate::run::gates::{Condition, Metric, Quantity, Unit};

/// Cause of a failed probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProbeFailure {
    /// The target throttled requests.
    Throttled,
    /// Requests failed.
    Errors,
    /// Responses were too slow, or got slower all the time.
    Latency,
    /// All connections were in use when requests were due.
    Connections,
    /// Another objective.
    Other,
}

impl ProbeFailure {
    /// The cause of this probe's failure, given the objectives of its search; none of one that did
    /// not fail.
    #[must_use]
    pub fn of(probe: &ProbeReport, objectives: &[Condition]) -> Option<Self> {
        if !matches!(probe.seen, ProbeResult::Fail | ProbeResult::Collapse) {
            return None;
        }
        let why = probe.reasons.first().map_or("", String::as_str);
        if why.contains(STARVED) {
            return Some(Self::Connections);
        }
        if why.starts_with(BY_BURST) || why.starts_with(BY_TARGET) {
            return Some(if probe.error_share > probe.throttled_share {
                Self::Errors
            } else {
                Self::Throttled
            });
        }
        let named = objectives
            .iter()
            .filter_map(|of| Some((why.find(&of.metric.to_string())?, of.metric)));
        Some(
            match named.min_by_key(|(at, _)| *at).map(|(_, metric)| metric) {
                Some(Metric::Of(Quantity::ThrottledRate)) => Self::Throttled,
                Some(Metric::Of(Quantity::ErrorRate)) => Self::Errors,
                Some(metric) if metric.unit() != Unit::Us => Self::Other,
                // Without an objective it is a queue that grew.
                _ => Self::Latency,
            },
        )
    }

    /// Label of its mark in a plot.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Throttled => "failed: throttled",
            Self::Errors => "failed: errors",
            Self::Latency => "failed: latency",
            Self::Connections => "failed: no free connection",
            Self::Other => "failed: another objective",
        }
    }
}
