//! A capacity as it is saved: `capacity.json` (schema `crawlmark.capacity/1`).

use serde::{Deserialize, Serialize};

use super::hidden::{CERTAIN, Hidden, hidden, unevenness};
use super::hindsight::{RefusalRate, behind_together, in_hindsight, slow_together};
use super::journal::SearchHead;
use super::knee::{CurvePoint, knee};
use super::probe::ProbeReport;
use super::search::{Bounds, Ending, ProbeKind, ProbeResult, RateState, Search, SearchStep};
use super::{Pace, is_random, times_s};
use crate::run::report::Environment;

/// The name of the format.
pub const SCHEMA: &str = "crawlmark.capacity/1";

/// The name of the file.
pub const FILE: &str = "capacity.json";

/// Rates at which a limit is read that the search did not read, as multiples of the rate that
/// passes: far enough apart to be compared, and not so high that half is refused, which would end
/// the probe.
const LIMIT_CHECKS: [f64; 2] = [1.25, 1.6];

/// Question that a search answers. A search goes on from saved probes only of an equal question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// Target that was crawled, as typed, without secrets.
    pub what: String,
    /// Conditions that must hold at a rate that passes.
    pub objectives: Vec<String>,
    /// True if they are the defaults.
    pub by_default: bool,
    /// `constant` or `poisson`.
    pub arrivals: String,
    /// Bounds of the search.
    pub bounds: Bounds,
    /// The warm-up of each probe, s.
    pub warmup_s: f64,
    /// Measured time of a full probe, s.
    pub probe_s: f64,
    /// The seed of the first probe; each has the next one.
    pub seed: u32,
}

/// Outcome of the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchOutcome {
    /// The capacity, between a rate that passes and one that fails.
    Found,
    /// A rate passes, but it had no good answer; or a higher one fails, but a longer probe may fail
    /// at lower rates, down to [`Capacity::at_least_per_s`].
    Unconfirmed,
    /// Even the least rate fails.
    LeastFails,
    /// The greatest rate passes.
    NotReached,
    /// Limit of this client: it cannot send more, or not at all.
    ClientLimited,
    /// The target fails at a rate below one that it passes.
    Unsteady,
    /// Passing and failing lie too near to each other, or time ran out.
    Undecided,
}

impl SearchOutcome {
    /// The name used in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Unconfirmed => "unconfirmed",
            Self::LeastFails => "least_fails",
            Self::NotReached => "not_reached",
            Self::ClientLimited => "client_limited",
            Self::Unsteady => "unsteady",
            Self::Undecided => "undecided",
        }
    }
}

/// All probes of a rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RateReport {
    /// Requests per second.
    pub rate_per_s: f64,
    /// Full probes that passed.
    pub passes: u32,
    /// Full probes that failed.
    pub fails: u32,
    /// Probes that said nothing of the target.
    pub voids: u32,
    /// State of the rate, from its probes.
    pub standing: RateState,
    /// The median over its probes that were not void; null where none read it.
    pub response_p50_us: Option<f64>,
    /// Median of the 99th percentile over its probes that were not void; null where none read it.
    pub response_p99_us: Option<f64>,
    /// True if so many were cut off in the probe that it is of that it may be more.
    pub response_p99_at_least: bool,
}

/// A capacity, whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// [`SCHEMA`].
    pub schema: String,
    /// The version that measured.
    pub crawlmark_version: String,
    /// Name that the user gives it.
    pub name: String,
    /// RFC 3339, UTC: the start of the first probe.
    pub started_at: String,
    /// RFC 3339, UTC: the end of the last one.
    pub finished_at: String,
    /// True if a signal, or a probe that could not run, ended it before it was over.
    pub interrupted: bool,
    /// True if its time was over before it was.
    pub out_of_time: bool,
    /// The machine.
    pub environment: Environment,
    /// Question of the search.
    pub question: Question,
    /// Outcome of the search.
    pub outcome: SearchOutcome,
    /// The requests per second that were accepted at the highest rate that passes, in the worst of
    /// its full probes, and no more than the limit that was read; null without such a rate.
    pub capacity_per_s: Option<f64>,
    /// Lowest capacity that the probes do not exclude; null without a rate that passes.
    #[serde(default)]
    pub at_least_per_s: Option<f64>,
    /// Length of a probe of the highest rate that passes, s: limits over longer periods were not
    /// tested. Null without such a rate.
    #[serde(default)]
    pub sustained_for_s: Option<f64>,
    /// The highest rate offered that is settled to pass below every one that fails; null without
    /// one.
    #[serde(default)]
    pub passes_at_per_s: Option<f64>,
    /// The rate at which the target lets requests through once it refuses some, at the least; null
    /// unless two rates agreed on it.
    #[serde(default)]
    pub limit_per_s: Option<f64>,
    /// The lowest rate that is settled to fail; null without one.
    pub fails_at_per_s: Option<f64>,
    /// Rate and time at which the 99th percentile of the response time turns upward; null where it
    /// does not.
    pub knee: Option<CurvePoint>,
    /// Each rate, from the lowest on.
    pub rates: Vec<RateReport>,
    /// Each probe, in the order in which they ran.
    pub probes: Vec<ProbeReport>,
}

/// End of the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchEnd {
    /// By itself.
    Known(Ending),
    /// Its time was over.
    OutOfTime,
    /// By a signal, or a probe that could not run.
    Interrupted,
}

/// The search that these probes are.
#[must_use]
pub fn search_of(question: &Question, probes: &[ProbeReport]) -> Search {
    search_in_hindsight(question, &in_hindsight(question, probes.to_vec()))
}

/// The next step after these probes.
#[must_use]
pub fn next_step(question: &Question, probes: &[ProbeReport]) -> SearchStep {
    let step = search_of(question, probes).next();
    let SearchStep::Done(Ending::Found { pass, fail }) = step else {
        return step;
    };
    limit_check(question, probes, [pass, fail])
        .map_or(step, |pace| SearchStep::Probe(pace, ProbeKind::Full))
}

/// A rate at which to read the limit before a capacity is named: where refusals ended the search,
/// and a burst may be all that passed.
fn limit_check(
    question: &Question,
    probes: &[ProbeReport],
    [pass, fail]: [Pace; 2],
) -> Option<Pace> {
    let of = |pace: Pace| probes.iter().filter(move |probe| probe.per_min == pace);
    if !of(fail).any(|probe| probe.throttled_share + probe.error_share > 0.0)
        || RefusalRate::of(probes).is_some()
    {
        return None;
    }
    let above = LIMIT_CHECKS.map(|times| Pace::nearest(pass.per_s() * times));
    above
        .into_iter()
        .find(|pace| (fail..=question.bounds.greatest).contains(pace) && of(*pace).next().is_none())
}

/// The result from probes that were read [in hindsight](in_hindsight).
fn search_in_hindsight(question: &Question, probes: &[ProbeReport]) -> Search {
    let mut search = Search::new(question.bounds);
    for probe in probes {
        search.note(probe.per_min, probe.kind, probe.seen);
    }
    let slow = if is_random(question) {
        slow_together(question, probes)
    } else {
        Vec::new()
    };
    for pace in slow.into_iter().chain(behind_together(question, probes)) {
        search.doubt(pace);
    }
    search
}

impl Capacity {
    /// Build the capacity from these probes.
    #[must_use]
    pub fn new(name: String, begun: SearchHead, probes: Vec<ProbeReport>, end: SearchEnd) -> Self {
        let SearchHead {
            crawlmark_version,
            environment,
            question,
            ..
        } = begun;
        let probes = in_hindsight(&question, probes);
        let search = search_in_hindsight(&question, &probes);
        let (pass, fail) = search.settled();
        let limit = RefusalRate::of(&probes).map(|limit| limit.least_per_s);
        let capacity_per_s =
            pass.map(|pass| accepted_per_s(&probes, pass).min(limit.unwrap_or(f64::INFINITY)));
        let capacity_per_s = capacity_per_s.filter(|capacity| *capacity > 0.0);
        let lowest = hidden(&question, &probes, [pass, fail])
            .first()
            .map_or(f64::INFINITY, |hidden| hidden.least_per_s);
        let at_least_per_s = capacity_per_s.map(|capacity| capacity.min(lowest));
        // A limit that allows nothing at once refuses what comes unevenly, so it may be higher.
        let is_uneven =
            limit.is_none() && fail.is_some_and(|fail| unevenness(&probes, fail).is_some());
        let is_certain = at_least_per_s
            .zip(capacity_per_s)
            .is_some_and(|(least, capacity)| least >= capacity * CERTAIN);
        let outcome = match end {
            SearchEnd::OutOfTime | SearchEnd::Interrupted => SearchOutcome::Undecided,
            SearchEnd::Known(Ending::GreatestPasses(_)) if capacity_per_s.is_none() => {
                SearchOutcome::Unconfirmed
            }
            SearchEnd::Known(Ending::Found { .. }) if !is_certain || is_uneven => {
                SearchOutcome::Unconfirmed
            }
            SearchEnd::Known(ending) => SearchOutcome::of(ending),
        };
        let sustained_for_s = pass
            .map(|pass| times_s(pass.per_s(), &question))
            .map(|(warmup, probe)| warmup + probe);
        let rates: Vec<RateReport> = search
            .rates()
            .map(|(pace, tally)| {
                let p99 = typical(&probes, pace, |probe| probe.response_p99_us);
                RateReport {
                    rate_per_s: pace.per_s(),
                    passes: tally.passes,
                    fails: tally.fails,
                    voids: tally.voids,
                    standing: tally.standing(),
                    response_p50_us: typical(&probes, pace, |probe| probe.response_p50_us)
                        .map(|(us, _)| us),
                    response_p99_us: p99.map(|(us, _)| us),
                    response_p99_at_least: p99
                        .is_some_and(|(_, probe)| probe.response_p99_at_least),
                }
            })
            .collect();
        let told = |probe: Option<&ProbeReport>, time: fn(&ProbeReport) -> &String| {
            probe.map_or_else(String::new, |probe| time(probe).clone())
        };
        Self {
            schema: SCHEMA.to_owned(),
            crawlmark_version,
            name,
            started_at: told(probes.first(), |probe| &probe.started_at),
            finished_at: told(probes.last(), |probe| &probe.finished_at),
            interrupted: end == SearchEnd::Interrupted,
            out_of_time: end == SearchEnd::OutOfTime,
            environment,
            question,
            outcome,
            capacity_per_s,
            at_least_per_s,
            sustained_for_s,
            passes_at_per_s: pass.map(Pace::per_s),
            limit_per_s: limit,
            fails_at_per_s: fail.map(Pace::per_s),
            knee: knee(&curve(&rates, fail.map_or(f64::INFINITY, Pace::per_s))),
            rates,
            probes,
        }
    }
}

impl Capacity {
    /// Lower capacities that the probes do not exclude, the lowest first.
    #[must_use]
    pub fn hidden(&self) -> Vec<Hidden> {
        let ends =
            [self.passes_at_per_s, self.fails_at_per_s].map(|per_s| per_s.map(Pace::nearest));
        hidden(&self.question, &self.probes, ends)
    }
}

impl SearchOutcome {
    const fn of(ending: Ending) -> Self {
        match ending {
            Ending::Found { .. } => Self::Found,
            Ending::LeastFails(_) => Self::LeastFails,
            Ending::GreatestPasses(_) => Self::NotReached,
            Ending::ClientLimited(_) => Self::ClientLimited,
            Ending::Unsteady { .. } => Self::Unsteady,
            Ending::Undecided => Self::Undecided,
        }
    }
}

/// Return the accepted rate in the worst of the full probes that passed at this rate.
fn accepted_per_s(probes: &[ProbeReport], pace: Pace) -> f64 {
    let passed = probes
        .iter()
        .filter(|probe| {
            probe.per_min == pace
                && probe.kind == ProbeKind::Full
                && probe.seen == ProbeResult::Pass
        })
        .filter_map(|probe| probe.accepted_per_s);
    passed.fold(pace.per_s(), f64::min)
}

/// The 99th percentile against the rate, where it is known, up to the rate that fails: overload has
/// a curve of its own, beside which the one before it looks flat.
fn curve(rates: &[RateReport], fails_at: f64) -> Vec<CurvePoint> {
    let point = |rate: &RateReport| {
        Some(CurvePoint {
            rate_per_s: rate.rate_per_s,
            us: rate.response_p99_us?,
        })
    };
    rates
        .iter()
        .filter(|rate| rate.rate_per_s <= fails_at)
        .filter_map(point)
        .filter(|point| point.us > 0.0)
        .collect()
}

/// The median of what the probes of a rate read, and the probe that read it.
fn typical(
    probes: &[ProbeReport],
    pace: Pace,
    read: impl Fn(&ProbeReport) -> Option<f64>,
) -> Option<(f64, &ProbeReport)> {
    let of_rate = probes
        .iter()
        .filter(|probe| probe.per_min == pace && probe.seen.speaks());
    let mut values: Vec<(f64, &ProbeReport)> = of_rate
        .filter_map(|probe| Some((read(probe)?, probe)))
        .collect();
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    values.get(values.len() / 2).copied()
}
