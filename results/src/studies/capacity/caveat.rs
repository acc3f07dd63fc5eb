//! Caveats of a capacity: what its probes cannot exclude, and what else has to be known of them.
//! One table of their texts.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use super::limit::{Limit, let_through_per_s, longest_wait_s, may_be_longer, refused};
use super::probe::{ProbeReport, Reason};
use super::search::{Pace, ProbeResult};
use super::{Question, SearchEnd, WithText, credit, resolution};
use crate::show::text::decimal;
use crawlmark_harness::units::{grouped, micros};

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
    /// A limit that allows bursts may be lower.
    Burst {
        /// Part by which it may be lower.
        share: f64,
        /// Requests at once that it would have to allow for that.
        requests: f64,
    },
    /// A limit that allows nothing at once may be higher.
    NoBurst {
        /// Lateness of this client at the 99th percentile, us.
        late_us: f64,
    },
    /// All connections were in use at the rate that fails.
    Connections {
        /// Connections.
        connections: u32,
    },
    /// Probes that said nothing of the target.
    Void {
        /// Number of them.
        probes: usize,
        /// Reason of the last one.
        reason: String,
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

impl From<Caveat> for WithText<Caveat> {
    fn from(what: Caveat) -> Self {
        let text = match &what {
            Caveat::NotFound { share } => format!(
                "{:.0} % of the responses were 404 or 410, which are not accepted: choose --ids that exist, or accept them \
                 (--expect status:200,404).",
                share * 100.0
            ),
            Caveat::LongerPeriod {
                let_through_per_s,
                wait_s,
            } => {
                let wait = if *wait_s > 0.0 {
                    format!(" and asked for a wait of {}", micros(wait_s * 1e6))
                } else {
                    String::new()
                };
                format!(
                    "The limit may count over a period longer than a probe: once the target refused requests, it accepted as little \
                     as {}/s{wait}. A --probe of twice the period would show it.",
                    decimal(*let_through_per_s)
                )
            }
            Caveat::RandomArrivals { share } => format!(
                "The capacity may be up to {:.0} % lower: with random arrivals, a queue this close to capacity grows for longer than \
                 a probe. A longer --probe would show it.",
                (share * 100.0).ceil()
            ),
            Caveat::Burst { share, requests } => format!(
                "The real limit may be {:.0} % lower if it allows bursts of {} requests. A longer --probe would show it.",
                share * 100.0,
                decimal(*requests)
            ),
            Caveat::NoBurst { late_us } => format!(
                "The real limit may be higher if it allows no bursts, because requests that arrive too close together are then \
                 refused: this client sent some up to {} late. A longer --probe would tell.",
                micros(*late_us)
            ),
            Caveat::Connections { connections } => {
                let connections = grouped((*connections).into());
                format!("All {connections} connections were in use above it: this is the capacity over {connections} connections (-c).")
            }
            Caveat::Void { probes, reason } => {
                let probes = grouped(*probes as u64);
                format!("Void probes, which say nothing of the target: {probes}. The last one: {reason}.")
            }
            Caveat::OutOfTime => {
                "The time for the search (--budget) was used up: raise it, or search a narrower range (--from, --max-rate).".to_owned()
            }
            Caveat::Interrupted => "The search was interrupted.".to_owned(),
        };
        Self { what, text }
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
    let share = question.bounds.precision;
    let requests = pass.filter(|_| limit.is_none());
    let requests = requests.map(|pass| credit(pass.per_s(), question).ceil().max(1.0));
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
        requests.map(|requests| Caveat::Burst { share, requests }),
        late_us.map(|late_us| Caveat::NoBurst { late_us }),
        fail.and_then(|fail| connections(probes, fail)),
        reason.map(|reason| Caveat::Void {
            probes: void.count(),
            reason: reason.text.clone(),
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

/// All connections were in use at the rate that fails.
fn connections(probes: &[ProbeReport], fail: Pace) -> Option<Caveat> {
    let of_fail = probes.iter().filter(|probe| probe.per_min == fail);
    let mut reasons = of_fail.filter_map(ProbeReport::reason);
    reasons.find_map(|reason| match reason {
        Reason::NoConnection { connections } => Some(Caveat::Connections {
            connections: *connections,
        }),
        _ => None,
    })
}
