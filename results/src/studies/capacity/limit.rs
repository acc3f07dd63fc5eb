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

use super::probe::{ProbeReport, Reason};
use super::search::{Pace, ProbeResult, Question, times_s};
use crate::run::gates::{Measured, Metric, Quantity};

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
    /// None unless it was the same at two rates, and most probes that were refused read it.
    pub(super) fn of(probes: &[ProbeReport]) -> Option<Self> {
        let read: Vec<(f64, Self)> = probes.iter().filter_map(Self::reading).collect();
        let mut limit: Option<Self> = None;
        for (number, (a_rate, a)) in read.iter().enumerate() {
            for (b_rate, b) in &read[..number] {
                if !a.agrees(b, (a_rate / b_rate).ln().abs()) {
                    continue;
                }
                let before = limit.unwrap_or(Self {
                    per_s: 0.0,
                    least_per_s: 0.0,
                    fails: true,
                });
                limit = Some(Self {
                    per_s: before.per_s.max(a.per_s.min(b.per_s)),
                    least_per_s: before.least_per_s.max(a.least_per_s.min(b.least_per_s)),
                    fails: before.fails && a.fails && b.fails,
                });
            }
        }
        let limit = limit?;
        let agreeing = read.iter().filter(|(_, of)| limit.is_as(of)).count();
        (agreeing * 2 > read.len()).then_some(limit)
    }

    /// What a failed probe read, at its rate. What failed only because of the limit is no reading
    /// of its own, and neither is a void probe.
    fn reading(probe: &ProbeReport) -> Option<(f64, Self)> {
        let refusals = probe.refusals.filter(|_| probe.seen.fails())?;
        let per_s = refusals.per_s()?;
        let is_burst = matches!(probe.reasons.first(), Some(Reason::Burst { .. }));
        let read = Self {
            per_s,
            least_per_s: (per_s - 1.0 / refusals.seconds).max(0.0),
            fails: probe.error_share > probe.throttled_share,
        };
        (!is_burst).then_some((probe.rate_per_s, read))
    }

    /// True if readings at rates that are so far apart agree.
    fn agrees(&self, other: &Self, apart: f64) -> bool {
        self.per_s > 0.0
            && apart >= APART
            && (self.per_s / other.per_s).ln().abs() <= (apart * SAME_OF_APART).min(SAME)
    }

    /// True if a reading agrees with this limit, to one request.
    fn is_as(&self, read: &Self) -> bool {
        let request = read.per_s - read.least_per_s;
        (read.per_s - self.per_s).abs() <= (self.per_s * SAME).max(request)
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
        let shares = [
            1.0 - most / per_s,
            1.0 - self.least_per_s / per_s - tolerance,
        ];
        let [is_broken, may_be] = shares.map(|share| {
            let share = Measured::Exactly(share.max(0.0));
            let mut objectives = question
                .objectives
                .iter()
                .filter(|of| of.metric == Metric::Of(quantity));
            objectives.any(|of| of.judge(&share) == Some(false))
        });
        (is_broken || !may_be).then_some(!is_broken)
    }
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
        let is_bunched = matches!(probe.reasons.first(), Some(Reason::Bunches { .. }));
        let is_open = probe.seen == ProbeResult::Pass || is_bunched;
        let seen = match limit.allows(probe.rate_per_s, question) {
            Some(false) => ProbeResult::Fail,
            None => ProbeResult::Void,
            Some(true) => continue,
        };
        if is_open && probe.seen != seen {
            probe.seen = seen;
            probe.reasons = vec![Reason::Burst {
                limit_per_s: limit.per_s,
                fails: limit.fails,
            }];
        }
    }
    probes
}

/// True if refusals ended the search at `fail`, and a limit over a longer period than a probe may
/// be their cause.
///
/// Let `pass` pass in probes of which a time `T` is judged, and `fail` be refused at the latest
/// after a time `t`. An allowance that a longer period refills allows `pass T` requests and more,
/// and no more than `fail t`. So it is excluded when `fail t < pass T`, and the target goes on
/// letting requests through: of a window that is used up it lets none through until the window
/// ends. A limit that was read at two rates is the rate itself.
pub(super) fn may_be_longer(
    question: &Question,
    probes: &[ProbeReport],
    [pass, fail]: [Pace; 2],
) -> bool {
    let refused = || refused(probes).filter(|probe| probe.per_min == fail);
    if refused().next().is_none() || Limit::of(probes).is_some() {
        return false;
    }
    let (warmup_s, measured_s) = times_s(pass.per_s(), question);
    let passed = pass.per_s() * (warmup_s + measured_s / 2.0);
    let by_s = |probe: &ProbeReport| probe.refusals.map(|refusals| refusals.by_s);
    let is_early = refused()
        .filter_map(by_s)
        .any(|by_s| fail.per_s() * by_s < passed);
    let lets_through =
        let_through_per_s(refused()).is_some_and(|per_s| per_s >= pass.per_s() * LEAST_LET_THROUGH);
    let wait_s = longest_wait_s(probes);
    !(is_early && lets_through && wait_s <= warmup_s + measured_s)
}

/// Probes that failed and had requests refused.
pub(super) fn refused(probes: &[ProbeReport]) -> impl Iterator<Item = &ProbeReport> {
    probes
        .iter()
        .filter(|probe| probe.seen.fails() && probe.throttled_share + probe.error_share > 0.0)
}

/// Least rate that these probes had let through once some requests were refused.
pub(super) fn let_through_per_s<'a>(probes: impl Iterator<Item = &'a ProbeReport>) -> Option<f64> {
    let read = probes.filter_map(|probe| probe.refusals?.per_s());
    read.reduce(f64::min)
}

/// The longest wait that the target asked for, s.
pub(super) fn longest_wait_s(probes: &[ProbeReport]) -> f64 {
    let waits = probes.iter().map(|probe| probe.longest_promise_s);
    waits.fold(0.0, f64::max)
}
