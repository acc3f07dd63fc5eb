//! Find the highest rate that a target sustains: by open-loop probes at rates between one that
//! meets the objectives and one that does not.
//!
//! A *probe* is a run at one rate, in fresh processes. It passes when every objective held, at
//! least 99 % of the requests that were due went, on time, and the target did not fall behind. It
//! is *void*, and says nothing of the target, when this client was late by more than a tenth of the
//! tightest objective on a time (and by more than the check of validity forgives), had no port or
//! descriptor, or was disturbed in a way that could have made the times that broke an objective. It
//! is void as well when a share is beyond its objective by no more than twice the part of the
//! requests that were sent late, in bunches. It is *stopped* early when most of it is refused or
//! fails. What met the objectives although this side was disturbed did meet them: that is a pass.
//!
//! | file | holds |
//! |---|---|
//! | [`search`] | choice of the next rate, and of the end |
//! | `probe` | a probe: its figures, its result, and the reasons for it |
//! | `limit` | the limit of a target, read from refusals: it corrects what bursts let pass |
//! | `caveat` | what the probes cannot exclude |
//! | `document` | the document, and a probe in a line |
//!
//! One rule makes the statement: the capacity is what the target accepted at the highest rate that
//! is settled to pass below every rate that fails or seems to, in the worst of the probes of that
//! rate. All that later probes change is the result of earlier ones, see [`read_together`], so the
//! table of the rates and the statement never differ.

mod caveat;
mod document;
mod limit;
mod probe;
pub mod search;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use self::caveat::Caveat;
pub use self::document::{offered, probe_line};
use self::limit::Limit;
pub use self::limit::read_together;
pub use self::probe::{
    AttemptCounts, Cause, Connections, ProbePlan, ProbeReport, Reason, Refusals, SENT, Slow, judge,
};
use self::search::{Bounds, Ending, Pace, ProbeKind, ProbeResult, RateState, Search, SearchStep};
use crate::run::gates::{Condition, Unit};
use crate::run::report::Environment;
use crate::studies::Header;
use crawlmark_harness::plan::Arrivals;

/// Requests, times the square of the precision, in which a queue that is that near to its capacity
/// settles: see [`times_s`].
const SETTLES: f64 = 6.0;

/// The most that random arrivals lengthen the measured part of a probe to, s.
const LONGEST_RANDOM_S: f64 = 16.0;

/// Rates at which a limit is read that the search did not read, as multiples of the rate that
/// passes: far enough apart to be compared, and not so high that half is refused, which would end
/// the probe.
const LIMIT_CHECKS: [f64; 2] = [1.25, 1.6];

/// A reason or caveat and its text, which is made for people.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WithText<T> {
    /// Kind and figures.
    #[serde(flatten)]
    pub what: T,
    /// Text.
    pub text: String,
}

/// Question that a search answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// Target that was crawled, as typed, without secrets.
    pub what: String,
    /// Conditions that must hold at a rate that passes.
    pub objectives: Vec<Condition>,
    /// True if they are the defaults.
    pub by_default: bool,
    /// Constant or Poisson.
    pub arrivals: Arrivals,
    /// Bounds of the search.
    pub bounds: Bounds,
    /// The warm-up of each probe, s.
    pub warmup_s: f64,
    /// Measured time of a full probe, s.
    pub probe_s: f64,
    /// The seed of the first probe; each has the next one.
    pub seed: u32,
}

impl Question {
    /// The target in words.
    #[must_use]
    pub fn target(&self) -> &str {
        match &*self.what {
            "" => "the bundled target",
            what => what,
        }
    }

    /// The objectives, separated by commas.
    #[must_use]
    pub fn objectives_in_words(&self) -> String {
        let all: Vec<String> = self.objectives.iter().map(ToString::to_string).collect();
        all.join(", ")
    }

    /// True if requests arrive at random and times are wanted: what is slow then depends on how
    /// queues happened to grow.
    fn is_random(&self) -> bool {
        let mut objectives = self.objectives.iter();
        self.arrivals == Arrivals::Poisson && objectives.any(|of| of.metric.unit() == Unit::Us)
    }
}

/// Warm-up and measured time of a full probe at a rate, s.
///
/// Where requests arrive at random and times are wanted, a probe has to last until queues are as
/// long as they get. A queue (M/M/1) that is `p` below what it can serve takes some
/// `4 / (rate p^2)` seconds for that (P. M. Morse, "Stochastic properties of waiting lines", 1955),
/// so `p` is the precision, within a limit; what that leaves open is [`resolution`].
#[must_use]
pub fn times_s(rate_per_s: f64, question: &Question) -> (f64, f64) {
    let Question {
        warmup_s,
        probe_s,
        bounds,
        ..
    } = *question;
    let settles = SETTLES / (rate_per_s * bounds.precision * bounds.precision);
    if !question.is_random() || settles <= probe_s {
        return (warmup_s, probe_s);
    }
    let measured = probe_s.max(settles.min(LONGEST_RANDOM_S));
    (warmup_s.max(measured / 2.0), measured)
}

/// By what part a rate may be too high for the times that are wanted, and its probes still pass,
/// for queues had no time to grow; none where it is within the precision.
#[must_use]
pub fn resolution(rate_per_s: f64, question: &Question) -> Option<f64> {
    let (_, measured) = times_s(rate_per_s, question);
    let part = (2.0 * SETTLES / (rate_per_s * measured)).sqrt();
    (question.is_random() && part > question.bounds.precision * 1.5).then_some(part)
}

/// Outcome of the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchOutcome {
    /// The capacity, between a rate that passes and one that fails.
    Found,
    /// A rate passes, but it had no good answer; or a higher one fails, but a caveat leaves open
    /// whether the capacity is another one.
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

impl SearchEnd {
    const fn outcome(self) -> SearchOutcome {
        let Self::Known(ending) = self else {
            return SearchOutcome::Undecided;
        };
        match ending {
            Ending::Found { .. } => SearchOutcome::Found,
            Ending::LeastFails(_) => SearchOutcome::LeastFails,
            Ending::GreatestPasses(_) => SearchOutcome::NotReached,
            Ending::ClientLimited(_) => SearchOutcome::ClientLimited,
            Ending::Unsteady { .. } => SearchOutcome::Unsteady,
            Ending::Undecided => SearchOutcome::Undecided,
        }
    }
}

/// All probes of a rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// Good responses per second in the worst of its full probes that passed; null without one.
    pub accepted_per_s: Option<f64>,
    /// The median over its probes that were not void; null where none read it.
    pub response_p50_us: Option<f64>,
    /// Median of the 99th percentile over its probes that were not void; null where none read it.
    pub response_p99_us: Option<f64>,
    /// True if so many were cut off in the probe that it is of that it may be more.
    pub response_p99_at_least: bool,
}

impl RateReport {
    fn new(pace: Pace, tally: &search::Tally, probes: &[ProbeReport]) -> Self {
        let of_rate = || probes.iter().filter(|probe| probe.per_min == pace);
        let said = || of_rate().filter(|probe| probe.seen.speaks());
        let passed = of_rate()
            .filter(|probe| probe.kind == ProbeKind::Full && probe.seen == ProbeResult::Pass);
        let p50 = median(said().map(|probe| (probe.response_p50_us, false)));
        let p99 = median(said().map(|probe| (probe.response_p99_us, probe.response_p99_at_least)));
        Self {
            rate_per_s: pace.per_s(),
            passes: tally.passes,
            fails: tally.fails,
            voids: tally.voids,
            standing: tally.standing(),
            accepted_per_s: passed.map(|probe| probe.accepted_per_s).reduce(f64::min),
            response_p50_us: p50.map(|(us, _)| us),
            response_p99_us: p99.map(|(us, _)| us),
            response_p99_at_least: p99.is_some_and(|(_, at_least)| at_least),
        }
    }
}

/// The median of values that were read, and its flag.
fn median(read: impl Iterator<Item = (Option<f64>, bool)>) -> Option<(f64, bool)> {
    let mut values: Vec<(f64, bool)> = read.filter_map(|(us, flag)| Some((us?, flag))).collect();
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    values.get(values.len() / 2).copied()
}

/// A capacity, whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// What every saved study begins with.
    #[serde(flatten)]
    pub header: Header,
    /// The machine.
    pub environment: Environment,
    /// Question of the search.
    pub question: Question,
    /// Outcome of the search.
    pub outcome: SearchOutcome,
    /// Good responses per second at the highest rate that passes, in the worst of its full probes,
    /// and no more than the limit that was read; null without such a rate.
    pub capacity_per_s: Option<f64>,
    /// Lowest capacity that the caveats leave open; null without a capacity.
    pub at_least_per_s: Option<f64>,
    /// Length of a probe of the highest rate that passes, s: limits over longer periods were not
    /// tested. Null without such a rate.
    pub sustained_for_s: Option<f64>,
    /// The highest rate offered that is settled to pass below every one that fails; null without
    /// one.
    pub passes_at_per_s: Option<f64>,
    /// The lowest rate that is settled to fail; null without one.
    pub fails_at_per_s: Option<f64>,
    /// The rate at which the target lets requests through once it refuses some, at the least; null
    /// unless two rates agreed on it.
    pub limit_per_s: Option<f64>,
    /// What the probes cannot exclude, and what else has to be known of them, doubts first.
    pub caveats: Vec<WithText<Caveat>>,
    /// Each rate, from the lowest on.
    pub rates: Vec<RateReport>,
    /// Each probe, in the order in which they ran.
    pub probes: Vec<ProbeReport>,
}

impl Capacity {
    /// Build the capacity from the probes of a search, of which there is at least one.
    #[must_use]
    pub fn new(
        header: Header,
        question: Question,
        environment: Environment,
        probes: Vec<ProbeReport>,
        end: SearchEnd,
    ) -> Self {
        let probes = read_together(&question, probes);
        let search = search_of(&question, &probes);
        let (pass, fail) = search.settled();
        let rates: Vec<RateReport> = search
            .rates()
            .map(|(pace, tally)| RateReport::new(pace, tally, &probes))
            .collect();
        let pass_per_s = pass.map(Pace::per_s);
        let of_pass = rates
            .iter()
            .find(|rate| Some(rate.rate_per_s) == pass_per_s);
        let capacity_per_s = of_pass
            .and_then(|rate| rate.accepted_per_s)
            .filter(|capacity| *capacity > 0.0);
        let caveats = caveat::caveats(&question, &probes, [pass, fail], end);
        let lowest = pass_per_s.map_or(f64::INFINITY, |pass| {
            let least = caveats.iter().filter_map(|caveat| caveat.least_per_s(pass));
            least.fold(f64::INFINITY, f64::min)
        });
        let is_doubtful = caveats.iter().any(Caveat::is_doubt);
        let outcome = match end.outcome() {
            SearchOutcome::NotReached | SearchOutcome::Found if capacity_per_s.is_none() => {
                SearchOutcome::Unconfirmed
            }
            // What was void too often is not settled to fail.
            SearchOutcome::Found if fail.is_none() => SearchOutcome::ClientLimited,
            SearchOutcome::Found if is_doubtful => SearchOutcome::Unconfirmed,
            outcome => outcome,
        };
        Self {
            header,
            environment,
            outcome,
            capacity_per_s,
            at_least_per_s: capacity_per_s.map(|capacity| capacity.min(lowest)),
            sustained_for_s: pass_per_s
                .map(|pass| times_s(pass, &question))
                .map(|(warmup, probe)| warmup + probe),
            passes_at_per_s: pass_per_s,
            fails_at_per_s: fail.map(Pace::per_s),
            limit_per_s: Limit::of(&probes).map(|limit| limit.least_per_s),
            question,
            caveats: caveats.into_iter().map(WithText::from).collect(),
            rates,
            probes,
        }
    }
}

/// The next step after these probes.
#[must_use]
pub fn next_step(question: &Question, probes: &[ProbeReport]) -> SearchStep {
    let read = read_together(question, probes.to_vec());
    let step = search_of(question, &read).next();
    let SearchStep::Done(Ending::Found { pass, fail }) = step else {
        return step;
    };
    // Where refusals ended the search, and a burst may be all that passed, the limit is read before
    // a capacity is named.
    let of = |pace: Pace| probes.iter().filter(move |probe| probe.per_min == pace);
    if !of(fail).any(|probe| probe.throttled_share + probe.error_share > 0.0)
        || Limit::of(probes).is_some()
    {
        return step;
    }
    let above = LIMIT_CHECKS.map(|times| Pace::nearest(pass.per_s() * times));
    let unread = above.into_iter().find(|pace| {
        (fail..=question.bounds.greatest).contains(pace) && of(*pace).next().is_none()
    });
    unread.map_or(step, |pace| SearchStep::Probe(pace, ProbeKind::Full))
}

/// The search that these probes, which were [read together](read_together), are.
fn search_of(question: &Question, probes: &[ProbeReport]) -> Search {
    let mut search = Search::new(question.bounds);
    for probe in probes {
        search.note(probe.per_min, probe.kind, probe.seen);
    }
    for pace in slow_together(question, probes) {
        search.doubt(pace);
    }
    search
}

/// Rates whose full probes, taken together, were too slow although most of them passed. The part of
/// slow responses differs a lot from one probe to the next when requests arrive at random: mostly
/// none, and now and then many.
fn slow_together(question: &Question, probes: &[ProbeReport]) -> Vec<Pace> {
    let mut sums: BTreeMap<(Pace, String), (u64, u64)> = BTreeMap::new();
    let counted = probes.iter().filter(|probe| probe.counts());
    for probe in counted.filter(|_| question.is_random()) {
        for slow in &probe.slow {
            let key = (probe.per_min, slow.objective.to_string());
            let (sum, allowed) = sums.entry(key).or_default();
            *sum += slow.slow;
            *allowed += slow.allowed;
        }
    }
    sums.retain(|_, (slow, allowed)| slow > allowed);
    sums.into_keys().map(|(pace, _)| pace).collect()
}
