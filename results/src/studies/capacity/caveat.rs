//! Caveats of a capacity: what its probes cannot exclude, and what else has to be known of them.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use super::limit::{Limit, let_through_per_s, longest_wait_s, may_be_longer, refused};
use super::probe::{ProbeReport, Reason};
use super::search::{Pace, ProbeResult};
use super::{Question, SearchEnd, WithText, resolution};
use crate::show::doc::Severity;
use crate::show::text::decimal;
use crate::studies::Notice;
use crawlmark_harness::units::{grouped, micros, percent};

/// Lateness that brings requests together, as a part of the time between them.
const UNEVEN: f64 = 0.1;

/// Share of not-found responses from which on it is a caveat.
const MANY_MISSING: f64 = 0.01;

/// Part of a capacity by which it may be lower and is confirmed nevertheless.
const UNCERTAIN: f64 = 0.1;

/// Caveat of a capacity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Caveat {
    /// Responses that were not found count neither as good nor as failed.
    NotFound {
        /// Their share.
        share: f64,
    },
    /// A limit may count over a period longer than a probe.
    LongerPeriod {
        /// Least rate that the target let through once it refused requests, per second.
        let_through_per_s: f64,
        /// The longest wait that it asked for, s.
        wait_s: f64,
    },
    /// With random arrivals, a queue near its capacity grows for longer than a probe.
    RandomArrivals {
        /// Part by which the capacity may be lower.
        share: f64,
    },
    /// A limit that allows nothing at once may be higher.
    NoBurst {
        /// Lateness of this client at the 99th percentile, us.
        late_us: f64,
    },
    /// Probes that said nothing of the target.
    Void {
        /// Number of them.
        probes: usize,
        /// Reason of the last one.
        reason: Reason,
    },
    /// The time for the search was used up.
    OutOfTime,
    /// A signal or a failed run ended the search.
    Interrupted,
}

impl Caveat {
    /// Lowest capacity that it leaves open; none if it does not bound it from below.
    pub(super) fn least_per_s(&self, pass_per_s: f64) -> Option<f64> {
        match self {
            Self::LongerPeriod {
                let_through_per_s, ..
            } => Some(*let_through_per_s),
            Self::RandomArrivals { share } => Some(pass_per_s * (1.0 - share)),
            _ => None,
        }
    }

    /// True if a capacity with this caveat is not confirmed.
    pub(super) fn is_doubt(&self) -> bool {
        match self {
            Self::LongerPeriod { .. } | Self::NoBurst { .. } => true,
            Self::RandomArrivals { share } => *share > UNCERTAIN,
            _ => false,
        }
    }
}

impl Caveat {
    /// The caveat as it is shown.
    #[must_use]
    pub fn notice(&self) -> Notice {
        let severity = if self.is_doubt() {
            Severity::Warning
        } else {
            Severity::Neutral
        };
        let (title, remedy) = match self {
            Self::NotFound { share } => (
                format!(
                    "{} of the responses were 404 or 410, which are not accepted",
                    percent(*share)
                ),
                "Choose --ids that exist, or accept them (--expect status:200,404).",
            ),
            Self::LongerPeriod {
                let_through_per_s,
                wait_s,
            } => {
                let wait = if *wait_s > 0.0 {
                    format!(" and asked for a wait of {}", micros(wait_s * 1e6))
                } else {
                    String::new()
                };
                let rate = decimal(*let_through_per_s);
                (
                    format!(
                        "The limit may count over a period longer than a probe: once the target refused requests, it accepted as                          little as {rate}/s{wait}"
                    ),
                    "A --probe of twice the period would show it.",
                )
            }
            Self::RandomArrivals { share } => (
                format!(
                    "The capacity may be up to {:.0} % lower: with random arrivals, a queue this close to capacity grows for longer                      than a probe",
                    (share * 100.0).ceil()
                ),
                LONGER,
            ),
            Self::NoBurst { late_us } => (
                format!(
                    "The real limit may be higher if it allows no bursts, because requests that arrive too close together are then                      refused: this client sent some up to {} late",
                    micros(*late_us)
                ),
                LONGER,
            ),
            Self::Void { probes, reason } => (
                format!(
                    "Void probes, which say nothing of the target: {}; the last one because {}",
                    grouped(*probes as u64),
                    reason.title()
                ),
                "",
            ),
            Self::OutOfTime => (
                "The time for the search (--budget) was used up".to_owned(),
                "Raise it, or search a narrower range (--from, --max-rate).",
            ),
            Self::Interrupted => ("The search was interrupted".to_owned(), ""),
        };
        Notice::new(severity, title).with(remedy)
    }
}

/// Advice where a probe was too short.
const LONGER: &str = "A longer --probe would show it.";

impl From<Caveat> for WithText<Caveat> {
    fn from(what: Caveat) -> Self {
        Self {
            text: what.notice().sentence(),
            what,
        }
    }
}

/// The caveats of a search that ended with these rates settled.
pub(super) fn caveats(
    question: &Question,
    probes: &[ProbeReport],
    [pass, fail]: [Option<Pace>; 2],
    end: SearchEnd,
) -> Vec<Caveat> {
    let limit = Limit::of(probes);
    let of_pass = probes
        .iter()
        .filter(|probe| Some(probe.per_min) == pass && probe.seen == ProbeResult::Pass);
    let missing = of_pass
        .map(|probe| probe.counted.not_found as f64 / (probe.counted.attempts as f64).max(1.0))
        .fold(0.0, f64::max);
    let random = pass.and_then(|pass| resolution(pass.per_s(), question));
    let late_us = fail
        .filter(|_| limit.is_none())
        .and_then(|fail| unevenness(probes, fail));
    let void = probes
        .iter()
        .filter(|probe| probe.seen == ProbeResult::Void);
    let reason = void.clone().rev().find_map(|probe| probe.reasons.first());
    let ending = match end {
        SearchEnd::Known(_) => None,
        SearchEnd::OutOfTime => Some(Caveat::OutOfTime),
        SearchEnd::Interrupted => Some(Caveat::Interrupted),
    };
    let caveats = [
        (missing > MANY_MISSING).then_some(Caveat::NotFound { share: missing }),
        longer_period(question, probes, [pass, fail]),
        random.map(|share| Caveat::RandomArrivals { share }),
        late_us.map(|late_us| Caveat::NoBurst { late_us }),
        reason.map(|reason| Caveat::Void {
            probes: void.count(),
            reason: reason.what.clone(),
        }),
        ending,
    ];
    let mut caveats: Vec<Caveat> = caveats.into_iter().flatten().collect();
    caveats.sort_by_key(|caveat| Reverse(caveat.is_doubt()));
    caveats
}

/// A limit over a longer period ended the search, or had all requests of a probe refused although
/// an earlier one of that rate or a higher one passed.
fn longer_period(
    question: &Question,
    probes: &[ProbeReport],
    [pass, fail]: [Option<Pace>; 2],
) -> Option<Caveat> {
    let ended = pass.zip(fail);
    let ended = ended.is_some_and(|(pass, fail)| may_be_longer(question, probes, [pass, fail]));
    let used_up = || {
        let mut passed = None;
        probes.iter().any(|probe| {
            if probe.seen == ProbeResult::Pass {
                passed = passed.max(Some(probe.per_min));
            }
            let counted = probe.counted;
            Some(probe.per_min) <= passed
                && counted.attempts > 0
                && counted.throttled == counted.attempts
        })
    };
    let at_fail = refused(probes).filter(|probe| Some(probe.per_min) == fail);
    let let_through = let_through_per_s(at_fail).and(let_through_per_s(refused(probes)));
    (ended || used_up()).then(|| Caveat::LongerPeriod {
        let_through_per_s: let_through.unwrap_or(0.0),
        wait_s: longest_wait_s(probes),
    })
}

/// Lateness of this client at the 99th percentile, us, where the rate that fails was refused, and
/// that much of the time from one request to the next may have made it so.
fn unevenness(probes: &[ProbeReport], fail: Pace) -> Option<f64> {
    let refused = probes
        .iter()
        .filter(|probe| probe.per_min == fail && probe.throttled_share > 0.0);
    let late_us = refused
        .filter_map(|probe| probe.sched_lag_p99_us)
        .fold(0.0, f64::max);
    (late_us * fail.per_s() / 1e6 >= UNEVEN).then_some(late_us)
}
