//! The limit of a target, read from its refusals, and what it says of probes that passed.
//!
//! A limit that allows `burst` requests at once lets everything through for
//! `burst / (rate - limit)` seconds, so a probe may end before it refuses anything. What it cannot
//! hide is what it lets through once it has begun to refuse: that is the limit, at any rate offered
//! (token bucket, GCRA, fixed and sliding windows shorter than a probe). A rate above it would be
//! refused sooner or later, so a probe of it that passed only used up the burst, and is counted as
//! failed: without that, a token bucket of 900/s with a burst of 2,000 is found at 1,260/s.
//!
//! That takes two rates at which the target lets the same through, and most of the probes that were
//! refused to read that; the highest such figure counts: a target that serves less the more it is
//! overloaded has no such limit, and neither has one that allows nothing at once and refuses every
//! second request of a rate just above its own.

use super::probe::ProbeReport;
use super::search::{Pace, ProbeKind, ProbeResult, Question, times_s};
use crate::run::gates::{Measured, Metric, Quantity};
use crate::studies::StudyFinding;
use crawlmark_harness::plan::Arrivals;

/// Smallest difference of two offered rates that count as different, as a logarithm (0.05 is 5 %).
const APART: f64 = 0.05;

/// Largest difference of two let-through rates that count as equal, as a logarithm (0.02 is 2 %),
/// and as a part of the logarithmic difference of the rates offered ([`SAME_OF_APART`]).
const SAME: f64 = 0.02;
const SAME_OF_APART: f64 = 0.25;

/// Smallest part of a rate that a limit lets through when it refuses: one that allows nothing at
/// once refuses every second request of a rate just above its own.
const LEAST_LET_THROUGH: f64 = 0.4;

/// The rate at which a target lets requests through once it refuses some.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Limit {
    /// As it was read.
    per_s: f64,
    /// One request less in the time of the reading: the least rate that a limit with nothing left
    /// at its start refills at.
    pub(super) least_per_s: f64,
    /// True if it lets requests fail, as by closing connections, rather than throttle them.
    fails: bool,
}

impl Limit {
    /// None unless it was the same at two rates, and most probes that were refused read it. None of
    /// a limit without bursts, which lets less through than it allows.
    pub(super) fn of(probes: &[ProbeReport]) -> Option<Self> {
        if refuses_neighbours(probes).is_some() {
            return None;
        }
        let read: Vec<(f64, Self)> = probes.iter().filter_map(Self::reading).collect();
        let mut limit = Self {
            per_s: 0.0,
            least_per_s: 0.0,
            fails: true,
        };
        for (number, (rate, one)) in read.iter().enumerate() {
            for (other_rate, other) in &read[..number] {
                let apart = (rate / other_rate).ln().abs();
                let differ = (one.per_s / other.per_s).ln().abs();
                if apart >= APART && differ <= (apart * SAME_OF_APART).min(SAME) {
                    limit.per_s = limit.per_s.max(one.per_s.min(other.per_s));
                    let least_per_s = one.least_per_s.min(other.least_per_s);
                    limit.least_per_s = limit.least_per_s.max(least_per_s);
                    limit.fails &= one.fails && other.fails;
                }
            }
        }
        let agreeing = read.iter().filter(|(_, of)| {
            let request = of.per_s - of.least_per_s;
            (of.per_s - limit.per_s).abs() <= (limit.per_s * SAME).max(request)
        });
        (limit.per_s > 0.0 && agreeing.count() * 2 > read.len()).then_some(limit)
    }

    /// What a failed probe read, at its rate. What failed only because of the limit is no reading
    /// of its own, and neither is a void probe.
    fn reading(probe: &ProbeReport) -> Option<(f64, Self)> {
        let refusals = probe.refusals.filter(|_| probe.seen.fails())?;
        let per_s = refusals.per_s()?;
        let read = Self {
            per_s,
            least_per_s: (per_s - 1.0 / refusals.seconds).max(0.0),
            fails: probe.error_share > probe.throttled_share,
        };
        let is_burst = matches!(probe.reasons.first(), Some(StudyFinding::Burst { .. }));
        (!is_burst).then_some((probe.plan.rate_per_s, read))
    }

    /// Return whether a rate keeps the objectives in the long run; none if the reading is too
    /// coarse to tell: a limit of a request more keeps them, and one of a request less does not,
    /// by more than half of the precision.
    fn allows(&self, per_s: f64, question: &Question) -> Option<bool> {
        let quantity = if self.fails {
            Quantity::ErrorRate
        } else {
            Quantity::ThrottledRate
        };
        let most = 2.0 * self.per_s - self.least_per_s;
        let tolerance = question.bounds.precision / 2.0;
        let [is_broken, may_be] = [
            1.0 - most / per_s,
            1.0 - self.least_per_s / per_s - tolerance,
        ]
        .map(|share| {
            let share = Measured::Exactly(share.max(0.0));
            question
                .objectives
                .iter()
                .any(|of| of.metric == Metric::Of(quantity) && of.judge(&share) == Some(false))
        });
        (is_broken || !may_be).then_some(!is_broken)
    }
}

/// Least part of the requests at random times that a target without bursts refuses. At half of the
/// limit it is a third, at a sixth of it an eighth; one that allows two at once refuses a tenth of
/// half of its rate.
const NEIGHBOURS: f64 = 0.125;

/// True if the target refused some requests, or failed them, in the first second.
fn refuses_at_once(probe: &ProbeReport) -> bool {
    probe.refusals.is_some_and(|refused| refused.by_s <= 1.0)
}

/// The part of the requests at random times that was refused, if the target allows no bursts. A rate
/// that passed by a burst is refused later on.
pub(super) fn refuses_neighbours(probes: &[ProbeReport]) -> Option<f64> {
    let random = probes.iter().find(|probe| is_random(probe))?;
    let share = random.refused_share();
    (share >= NEIGHBOURS && refuses_at_once(random)).then_some(share)
}

fn is_random(probe: &ProbeReport) -> bool {
    probe.plan.kind == ProbeKind::Random
}

/// The rate of which a probe at random times would tell whether refusals are due to requests that
/// come close together; none where none was refused from its first second on, or that was made.
pub(super) fn random_rate(question: &Question, probes: &[ProbeReport]) -> Option<Pace> {
    let mut failed = probes.iter().filter(|probe| probe.seen.fails());
    let is_open = question.arrivals == Arrivals::Constant
        && failed.any(refuses_at_once)
        && !probes.iter().any(is_random);
    let pass = probes
        .iter()
        .filter(|it| it.seen == ProbeResult::Pass)
        .map(|it| it.plan.per_min)
        .max()?;
    is_open.then(|| Pace::nearest(pass.per_s() / 2.0).max(question.bounds.least))
}

/// Read the probes of a search together: those that passed or were void above the limit of the
/// target failed, those of which that cannot be told are void, and none accepts more than it. So
/// what is said of a rate and what is said of its probes is the same.
pub fn read_together(question: &Question, mut probes: Vec<ProbeReport>) -> Vec<ProbeReport> {
    let Some(limit) = Limit::of(&probes) else {
        return probes;
    };
    for probe in &mut probes {
        probe.accepted_per_s = probe.accepted_per_s.min(limit.least_per_s);
        let is_bunched = matches!(probe.reasons.first(), Some(StudyFinding::Bunches { .. }));
        let seen = match limit.allows(probe.plan.rate_per_s, question) {
            Some(false) => ProbeResult::Fail,
            None => ProbeResult::Void,
            Some(true) => continue,
        };
        if (probe.seen == ProbeResult::Pass || is_bunched) && probe.seen != seen {
            probe.seen = seen;
            probe.reasons = vec![StudyFinding::Burst {
                limit_per_s: limit.per_s,
            }];
        }
    }
    probes
}

/// The caveat that a limit over a longer period than a probe may have ended the search, or had all
/// requests of a probe refused although an earlier one of that rate or a higher one passed.
///
/// Let `pass` pass in probes of which a time `T` is judged, and `fail` be refused at the latest
/// after a time `t`. An allowance that a longer period refills allows `pass T` requests and more,
/// and no more than `fail t`. So it is excluded when `fail t < pass T`, and the target goes on
/// letting requests through: of a window that is used up it lets none through until the window
/// ends. A limit that was read at two rates is the rate itself.
pub(super) fn longer_period(
    question: &Question,
    probes: &[ProbeReport],
    [pass, fail]: [Option<Pace>; 2],
) -> Option<StudyFinding> {
    let wait_s = probes
        .iter()
        .map(|probe| probe.longest_promise_s)
        .fold(0.0, f64::max);
    let refused: Vec<&ProbeReport> = probes
        .iter()
        .filter(|probe| probe.seen.fails() && probe.refused_share() > 0.0)
        .collect();
    let at_fail = refused.iter().filter(|of| Some(of.plan.per_min) == fail);
    let read = |probe: &&ProbeReport| probe.refusals?.per_s();
    let least_at_fail = at_fail.clone().filter_map(read).reduce(f64::min);
    let ended = pass.zip(fail).is_some_and(|(pass, fail)| {
        let (warmup_s, measured_s) = times_s(pass.per_s(), question);
        let passed = pass.per_s() * (warmup_s + measured_s / 2.0);
        let mut by_s = at_fail
            .clone()
            .filter_map(|probe| Some(probe.refusals?.by_s));
        let is_excluded = by_s.any(|by_s| fail.per_s() * by_s < passed)
            && least_at_fail.is_some_and(|per_s| per_s >= pass.per_s() * LEAST_LET_THROUGH)
            && wait_s <= warmup_s + measured_s;
        at_fail.count() > 0 && Limit::of(probes).is_none() && !is_excluded
    });
    let mut passed = None;
    let used_up = probes.iter().any(|probe| {
        if probe.seen == ProbeResult::Pass {
            passed = passed.max(Some(probe.plan.per_min));
        }
        let counted = probe.counted;
        Some(probe.plan.per_min) <= passed
            && counted.attempts > 0
            && counted.throttled == counted.attempts
    });
    let least = refused.iter().filter_map(read).reduce(f64::min);
    (ended || used_up).then(|| StudyFinding::LongerPeriod {
        let_through_per_s: least_at_fail.and(least).unwrap_or(0.0),
        wait_s,
    })
}
