//! Corrects earlier probes by later ones. A function of the probes alone, so that a search that is
//! resumed reads them the same way.
//!
//! # Bursts
//!
//! A limit that allows `burst` requests at once lets everything through for
//! `burst / (rate - limit)` seconds, so a probe may end before it refuses anything. What it cannot
//! hide is what it lets through once it has begun to refuse: that is the limit, at any rate offered
//! (token bucket, GCRA, fixed and sliding windows shorter than a probe). A rate above what was let
//! through then would be refused sooner or later, so a probe of it that passed only used up the
//! burst, and is counted as failed. That takes two rates at which it lets the same through, and
//! most of the probes that were refused to read that; the highest such figure counts: a target that
//! serves less the more it is overloaded has no such limit, and neither has one that allows nothing
//! at once and refuses every second request of a rate just above its own.
//!
//! # Refusals that repeat
//!
//! Refusals that this client's bunches may have caused leave a probe void. Bunches are random;
//! refusals that are the same share of three probes of one rate, or that the limit explains, are
//! the target's.

use std::collections::BTreeMap;

use super::probe::{Flow, ProbeReport};
use super::search::{ProbeKind, ProbeResult};
use super::{Pace, Question};
use crate::run::gates::{Condition, Measured, Metric, Quantity};

/// Smallest difference of two offered rates that count as different, as a logarithm (0.05 is 5 %).
const APART: f64 = 0.05;

/// Largest difference of two let-through rates that count as equal, as a logarithm (0.02 is 2 %),
/// and as a part of the logarithmic difference of the rates offered ([`SAME_OF_APART`]).
const SAME: f64 = 0.02;
const SAME_OF_APART: f64 = 0.25;

/// Start of the reason of a probe that passed and counts as failed.
pub const BY_BURST: &str = "passed perhaps only by a burst";

/// Start of the reason of a probe whose refusals are the target's after all.
pub(super) const BY_TARGET: &str = "the refusals are the target's";

/// Void probes of one rate whose shares of refused requests must be alike.
const REPEATS: usize = 3;

/// Largest difference of shares that count as alike, as a part of their mean.
const ALIKE: f64 = 0.1;

/// Standard deviations by which the answers of all probes of a rate may lag behind their schedules.
pub(super) const TOGETHER: f64 = 2.0;

/// Tolerance for a limit that was read to less than that, to a request in a part of a second, as a
/// part of the precision.
const TOLERANCE: f64 = 0.25;

/// The rate at which a target lets requests through once it refuses some.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RefusalRate {
    /// As it was read.
    per_s: f64,
    /// Lower bound: see [`ProbeReport::let_through_least_per_s`].
    pub(super) least_per_s: f64,
    /// True if it lets requests fail, as by closing connections, rather than throttle them.
    fails: bool,
}

impl RefusalRate {
    /// None unless it was the same at two rates, and most probes that were refused read it.
    pub(super) fn of(probes: &[ProbeReport]) -> Option<Self> {
        // What failed only in hindsight is no reading of its own: the limit is the same before and
        // after.
        let by_itself = |probe: &&ProbeReport| {
            !probe.bunched
                && !probe
                    .reasons
                    .first()
                    .is_some_and(|why| why.starts_with(BY_BURST))
        };
        let failed = probes
            .iter()
            .filter(|probe| matches!(probe.seen, ProbeResult::Fail | ProbeResult::Collapse))
            .filter(by_itself);
        let read: Vec<(f64, Self)> = failed
            .filter_map(|probe| {
                let per_s = probe.let_through_per_s?;
                let least_per_s = probe.let_through_least_per_s.unwrap_or(per_s);
                let fails = probe.error_share > probe.throttled_share;
                Some((
                    probe.rate_per_s,
                    Self {
                        per_s,
                        least_per_s,
                        fails,
                    },
                ))
            })
            .collect();
        let agree = |(a, of_a): &(f64, Self), (b, of_b): &(f64, Self)| {
            let apart = (a / b).ln().abs();
            of_a.per_s > 0.0
                && apart >= APART
                && (of_a.per_s / of_b.per_s).ln().abs() <= (apart * SAME_OF_APART).min(SAME)
        };
        let pairs = read
            .iter()
            .enumerate()
            .flat_map(|(i, a)| read[..i].iter().map(move |b| (a, b)));
        let agreed = pairs
            .filter(|(a, b)| agree(a, b))
            .map(|((_, a), (_, b))| Self {
                per_s: a.per_s.min(b.per_s),
                least_per_s: a.least_per_s.min(b.least_per_s),
                fails: a.fails && b.fails,
            });
        let limit = agreed.reduce(|a, b| Self {
            per_s: a.per_s.max(b.per_s),
            least_per_s: a.least_per_s.max(b.least_per_s),
            fails: a.fails && b.fails,
        })?;
        let agreeing = read.iter().filter(|(_, of)| limit.is_as(of)).count();
        (agreeing * 2 > read.len()).then_some(limit)
    }

    /// True if a reading agrees with this limit, to one request.
    fn is_as(&self, read: &Self) -> bool {
        let request = read.per_s - read.least_per_s;
        (read.per_s - self.per_s).abs() <= (self.per_s * SAME).max(request)
    }
}

/// The probes as all of them together say they went.
#[must_use]
pub fn in_hindsight(question: &Question, mut probes: Vec<ProbeReport>) -> Vec<ProbeReport> {
    let objectives: Vec<Condition> = question
        .objectives
        .iter()
        .filter_map(|text| text.parse().ok())
        .collect();
    let limit = RefusalRate::of(&probes);
    // What of a rate is refused in the long run, and whether that breaks an objective.
    let refused = |per_s: f64| {
        let RefusalRate {
            per_s: limit,
            least_per_s,
            fails,
        } = limit?;
        let tolerance = limit * question.bounds.precision * TOLERANCE;
        let most = if limit - least_per_s > tolerance {
            limit + tolerance
        } else {
            limit
        };
        let share = 1.0 - most / per_s;
        let metric = Metric::Of(if fails {
            Quantity::ErrorRate
        } else {
            Quantity::ThrottledRate
        });
        let of_refusals = objectives.iter().filter(|of| of.metric == metric);
        let broken = of_refusals
            .clone()
            .any(|of| of.judge(&Measured::Exactly(share.max(0.0))) == Some(false));
        broken.then_some(least_per_s)
    };
    let why = |probe: &ProbeReport| {
        let why = match (probe.seen, refused(probe.rate_per_s)) {
            (ProbeResult::Pass, Some(limit)) => format!(
                "{BY_BURST}: where the target refuses requests, it accepts only {limit:.0}/s, so longer probes of {:.0}/s fail once a burst \
                 is used up. A limit without bursts is higher, but refuses requests that arrive close together: a longer --probe tells which",
                probe.rate_per_s
            ),
            (ProbeResult::Void, Some(limit)) if probe.bunched => {
                format!(
                    "{BY_TARGET}: in probes where it refused requests, it accepted {limit:.0}/s"
                )
            }
            (ProbeResult::Void, None) if probe.bunched && repeats(&probes, probe.per_min) => {
                format!(
                    "{BY_TARGET}: {:.2} % of the requests, the same share in {REPEATS} probes or more",
                    probe.throttled_share * 100.0
                )
            }
            _ => return None,
        };
        Some(why)
    };
    let whys: Vec<Option<String>> = probes.iter().map(why).collect();
    for (probe, why) in probes.iter_mut().zip(whys) {
        if let Some(why) = why {
            (probe.seen, probe.reasons) = (ProbeResult::Fail, vec![why]);
        }
    }
    probes
}

/// True if the same share was refused in each void probe of this rate.
fn repeats(probes: &[ProbeReport], pace: Pace) -> bool {
    let bunched = probes
        .iter()
        .filter(|probe| probe.per_min == pace && probe.seen == ProbeResult::Void && probe.bunched);
    let shares: Vec<f64> = bunched.map(|probe| probe.throttled_share).collect();
    let (least, most) = shares
        .iter()
        .fold((f64::INFINITY, 0.0_f64), |(a, b), share| {
            (a.min(*share), b.max(*share))
        });
    let mean = shares.iter().sum::<f64>() / (shares.len() as f64).max(1.0);
    shares.len() >= REPEATS && mean > 0.0 && most - least <= mean * ALIKE
}

/// Rates whose full probes, taken together, had fewer answers than requests in their later halves,
/// although most of them passed: a queue that serves at random grows in each of them, and surely
/// only in the sum.
pub(super) fn behind_together(question: &Question, probes: &[ProbeReport]) -> Vec<Pace> {
    let mut flows: BTreeMap<Pace, Flow> = BTreeMap::new();
    for probe in probes
        .iter()
        .filter(|probe| probe.kind == ProbeKind::Full && probe.seen.speaks())
    {
        let sum = flows.entry(probe.per_min).or_default();
        *sum = sum.plus(probe.later_flow.unwrap_or_default());
    }
    flows.retain(|_, flow| flow.falls_behind(question.bounds.precision, TOGETHER));
    flows.into_keys().collect()
}

/// Rates whose full probes, taken together, were too slow although most of them passed. The part of
/// slow responses differs a lot from one probe to the next when requests arrive at random: mostly
/// none, and now and then many.
pub(super) fn slow_together(question: &Question, probes: &[ProbeReport]) -> Vec<Pace> {
    let counted = |probe: &&ProbeReport| probe.kind == ProbeKind::Full && probe.seen.speaks();
    let mut paces: Vec<Pace> = probes
        .iter()
        .filter(counted)
        .map(|probe| probe.per_min)
        .collect();
    paces.sort_unstable();
    paces.dedup();
    let is_slow = |pace: &Pace| {
        question.objectives.iter().any(|objective| {
            let of_rate = probes
                .iter()
                .filter(counted)
                .filter(|probe| probe.per_min == *pace);
            let rows = of_rate
                .flat_map(|probe| &probe.slow)
                .filter(|row| row.objective == *objective);
            let (slow, allowed) = rows.fold((0.0, 0.0), |(slow, allowed), row| {
                (slow + row.slow as f64, allowed + row.allowed)
            });
            slow > allowed
        })
    };
    paces.retain(is_slow);
    paces
}
