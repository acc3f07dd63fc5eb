//! Lower capacities that the probes of a search do not exclude. A rate that passes for the length
//! of a probe may fail in a longer one: a limit may count over a longer period, and a queue may
//! grow.
//!
//! # Refusals
//!
//! Let `P` pass in probes of which a time `T` is judged, and `F` fail because requests were refused
//! or connections closed, at the latest after a time `t`. An allowance that a longer period refills
//! allows `P T` requests and more, and no more than `F t`. So it is excluded when `F t < P T`; and
//! when the target goes on letting requests through: of a window that is used up it lets none
//! through until the window ends. A limit that was read at two rates is the rate itself, see
//! [`in_hindsight`](super::in_hindsight).
//!
//! # Queues
//!
//! A queue that serves `C` a second has answered at most `C t` requests after a time `t`. So `C` is
//! no less than the answers per second of the probes, from their start on. Where no growth of times
//! can be seen, that and the [`backlog`] bound it.

use super::hindsight::{RefusalRate, TOGETHER};
use super::probe::{Flow, ProbeReport};
use super::search::{ProbeKind, ProbeResult};
use super::{Pace, ProbeFailure, Question, resolution, sees_growth, times_s};
use crate::run::gates::{Condition, Unit};

/// Capacities are confirmed that are certain to this part; what may be lower is unconfirmed.
pub(super) const CERTAIN: f64 = 0.9;

/// Smallest part of a rate that a limit lets through when it refuses: one that allows nothing at
/// once refuses every second request of a rate just above its own.
const LEAST_LET_THROUGH: f64 = 0.4;

/// Lateness that brings requests together, as a part of the time between them.
const UNEVEN: f64 = 0.1;

/// Cause of a capacity that may be lower than what passed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cause {
    /// The target refused or failed requests, and what it lets through then could not be read: a
    /// limit over a longer period does that.
    Refusals {
        /// Least rate that it let through once it refused some, per second.
        let_through_per_s: f64,
        /// The longest wait that it asked for, s.
        wait_s: f64,
    },
    /// Probes are too short to see a queue grow.
    Queue,
    /// Service times may vary at random, and a queue that grows slowly then looks like chance.
    Chance {
        /// By what part the capacity may be lower.
        part: f64,
        /// Requests of the probes that passed, whose answers were counted.
        requests: u64,
    },
    /// Requests arrive at random, and a queue near its capacity grows for longer than a probe.
    Arrivals {
        /// By what part the capacity may be lower.
        part: f64,
    },
}

/// A lower capacity that the probes do not exclude.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hidden {
    /// Lower bound of the capacity.
    pub least_per_s: f64,
    /// Cause.
    pub cause: Cause,
}

/// The lower capacities that these probes, [read together](super::in_hindsight), do not exclude,
/// the lowest first.
#[must_use]
pub fn hidden(
    question: &Question,
    probes: &[ProbeReport],
    [pass, fail]: [Option<Pace>; 2],
) -> Vec<Hidden> {
    let Some(pass) = pass else { return Vec::new() };
    let refusals = fail.and_then(|fail| refusals(question, probes, [pass, fail]));
    let random = resolution(pass.per_s(), question).map(|part| Hidden {
        least_per_s: pass.per_s() * (1.0 - part),
        cause: Cause::Arrivals { part },
    });
    let chance = fail.and_then(|fail| chance(question, probes, [pass, fail]));
    let mut hidden: Vec<Hidden> = [refusals, queue(question, probes, pass), chance, random]
        .into_iter()
        .flatten()
        .collect();
    hidden.sort_by(|a, b| a.least_per_s.total_cmp(&b.least_per_s));
    hidden
}

/// A limit over a longer period, where requests were refused and the limit could not be read.
fn refusals(
    question: &Question,
    probes: &[ProbeReport],
    [pass, fail]: [Pace; 2],
) -> Option<Hidden> {
    let is_refused = |probe: &&ProbeReport| {
        matches!(probe.seen, ProbeResult::Fail | ProbeResult::Collapse)
            && probe.throttled_share + probe.error_share > 0.0
    };
    let failed = probes
        .iter()
        .filter(|probe| probe.per_min == fail)
        .filter(is_refused);
    if failed.clone().next().is_none() || RefusalRate::of(probes).is_some() {
        return None;
    }
    let (warmup_s, measured_s) = times_s(pass.per_s(), question);
    let passed = pass.per_s() * (warmup_s + measured_s / 2.0);
    let is_early = failed
        .clone()
        .filter_map(|probe| probe.refused_by_s)
        .any(|by_s| fail.per_s() * by_s < passed);
    let least = |read: &mut dyn Iterator<Item = f64>| read.reduce(f64::min);
    let at_fail = least(&mut failed.filter_map(|probe| probe.let_through_per_s));
    let above = least(
        &mut probes
            .iter()
            .filter(is_refused)
            .filter_map(|probe| probe.let_through_per_s),
    );
    let wait_s = probes
        .iter()
        .map(|probe| probe.longest_promise_s)
        .fold(0.0, f64::max);
    let lets_through =
        at_fail.is_some_and(|let_through| let_through >= pass.per_s() * LEAST_LET_THROUGH);
    if is_early && lets_through && wait_s <= warmup_s + measured_s {
        return None;
    }
    let let_through_per_s = at_fail.and(above).unwrap_or(0.0);
    Some(Hidden {
        least_per_s: let_through_per_s.min(pass.per_s()),
        cause: Cause::Refusals {
            let_through_per_s,
            wait_s,
        },
    })
}

/// The first probe that had all of its requests refused although an earlier one of that rate or a
/// higher one passed: what refused them counts over a longer time than a probe. Failed requests may
/// mean that the target was down, unless a later probe had good answers.
#[must_use]
pub fn used_up(probes: &[ProbeReport]) -> Option<&ProbeReport> {
    let good = |probe: &ProbeReport| probe.counted.is_some_and(|counted| counted.good > 0);
    let is_used_up = |(at, probe): &(usize, &ProbeReport)| {
        let Some(counted) = probe.counted.filter(|counted| counted.attempts > 0) else {
            return false;
        };
        let [before, after] = [&probes[..*at], &probes[at + 1..]];
        let passed = |other: &ProbeReport| {
            good(other)
                && other.per_min >= probe.per_min
                && other.throttled_share + other.error_share == 0.0
        };
        counted.throttled.checked_add(counted.failed) == Some(counted.attempts)
            && before.iter().any(passed)
            && (counted.failed == 0 || after.iter().any(good))
    };
    probes
        .iter()
        .enumerate()
        .find(is_used_up)
        .map(|(_, probe)| probe)
}

/// A queue that grows, where that cannot be seen.
fn queue(question: &Question, probes: &[ProbeReport], pass: Pace) -> Option<Hidden> {
    if sees_growth(pass.per_s(), question) {
        return None;
    }
    let of_pass = probes.iter().filter(|probe| {
        probe.per_min == pass && probe.kind == ProbeKind::Full && probe.seen.speaks()
    });
    let flow = of_pass
        .filter_map(|probe| probe.flow)
        .fold(Flow::default(), Flow::plus);
    let answered = flow.share() * pass.per_s();
    let by_backlog = backlog(question).map_or(0.0, |part| pass.per_s() / (1.0 + part));
    Some(Hidden {
        least_per_s: answered.max(by_backlog).min(pass.per_s()),
        cause: Cause::Queue,
    })
}

/// A queue with service times that vary at random, where growth is looked for: answers lag behind
/// their schedule by chance, so a rate passes until they lag by [`TOGETHER`] standard deviations
/// more, or until times exceed an objective. Chance may hide as much again: of the rates of a
/// search one is found at which it did.
fn chance(question: &Question, probes: &[ProbeReport], [pass, fail]: [Pace; 2]) -> Option<Hidden> {
    let objectives: Vec<Condition> = question
        .objectives
        .iter()
        .filter_map(|text| text.parse().ok())
        .collect();
    let is_queue = |cause| !matches!(cause, ProbeFailure::Throttled | ProbeFailure::Errors);
    let failed = probes.iter().filter(|probe| probe.per_min == fail);
    if !sees_growth(pass.per_s(), question)
        || !failed
            .filter_map(|probe| ProbeFailure::of(probe, &objectives))
            .any(is_queue)
    {
        return None;
    }
    let of_pass = probes.iter().filter(|probe| {
        probe.per_min == pass && probe.kind == ProbeKind::Full && probe.seen.speaks()
    });
    let requests = of_pass
        .filter_map(|probe| probe.later_flow)
        .fold(Flow::default(), Flow::plus)
        .scheduled;
    let by_count = question.bounds.precision / 2.0 + 2.0 * TOGETHER / (requests as f64).sqrt();
    let part = by_count.min(backlog(question).unwrap_or(f64::INFINITY));
    (requests > 0 && part > question.bounds.precision).then(|| Hidden {
        least_per_s: pass.per_s() / (1.0 + part),
        cause: Cause::Chance { part, requests },
    })
}

/// By what part a rate may be too much for a target that queues without a bound, and its probe
/// still pass: at a rate `R` beyond the capacity `C` the wait is `(R/C - 1) t` after a time `t`.
/// None when no time is wanted.
#[must_use]
pub fn backlog(question: &Question) -> Option<f64> {
    let wanted = question
        .objectives
        .iter()
        .filter_map(|objective| objective.parse::<Condition>().ok());
    let times = wanted
        .filter(|objective| objective.metric.unit() == Unit::Us)
        .map(|objective| objective.limit / 1e6);
    let least = times.fold(f64::INFINITY, f64::min);
    least
        .is_finite()
        .then(|| least / (question.warmup_s + question.probe_s))
}

/// Lateness of this client at the 99th percentile, us, where the rate that fails was refused, and
/// that much of the time from one request to the next may have made it so.
#[must_use]
pub fn unevenness(probes: &[ProbeReport], fail: Pace) -> Option<f64> {
    let refused = probes
        .iter()
        .filter(|probe| probe.per_min == fail && probe.throttled_share > 0.0);
    let late = refused
        .filter_map(|probe| probe.sched_lag_p99_us)
        .fold(0.0, f64::max);
    (late * fail.per_s() / 1e6 >= UNEVEN).then_some(late)
}
