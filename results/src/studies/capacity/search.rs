//! Choice of the next rate to probe, and of the end of the search: a function of the probes so far
//! and of nothing else.
//!
//! # Search
//!
//! From the least rate upward by factors of two, in short probes (*scouts*), until one fails: so no
//! rate is offered that is more than twice one that passed. Between the two, halving by the ratio
//! (a step in the middle of the logarithms) until they are within the precision. Then both ends are
//! probed until they are *settled*.
//!
//! # When a rate is settled
//!
//! Probes of one rate are taken as coin tosses: one passes with a probability `p` that falls with
//! the rate, and the capacity is where `p` crosses one half. Whether `p` is above or below is
//! decided by Wald's sequential probability ratio test (A. Wald, "Sequential Tests of Statistical
//! Hypotheses", 1945) of `p = e` against `p = 1 - e`. Each probe moves its log-likelihood ratio by
//! the same step up or down, so it ends when passes and failures differ by a fixed number, here
//! [`MARGIN`], 3. The chance to end on the wrong side is that of the gambler's ruin (W. Feller, *An
//! Introduction to Probability Theory*, I, XIV.2), exactly `1 / (1 + ((1 - e) / e)^3)`: 0.015 %
//! where one probe in twenty misleads, 0.14 % where one in ten does, 1.5 % where one in five does.
//! At `p` near one half it takes nine probes in the mean, and after nine a rate is left
//! *undecided*: it lies within the interval, which is then as wide as the noise is.
//!
//! That is the error of one rate that was chosen beforehand. A search chooses rates by what came
//! before: the end of an interval may be there because its first probe misled, so two more of its
//! kind suffice. The tests run whole searches on targets whose capacity is known, 1,000 seeded ones
//! of each kind (a cliff, a soft knee, a queue, a part of probes that mislead, some void, scouts
//! that see a third more than there is), and hold that at most 1 in 100 capacities is off by more
//! than 2 %, and at most 1 in 100 intervals has an end at which nine probes in ten say otherwise.
//! Where one probe in ten misleads it is 2 in 100.

use std::collections::BTreeMap;
use std::fmt;

use crawlmark_harness::plan::Arrivals;
use crawlmark_harness::units::whole;
use serde::{Deserialize, Serialize};

use crate::run::gates::{Condition, Unit};

/// Seconds in a minute.
const MINUTE: u64 = 60;

/// From this many a second on, rates are whole numbers per second.
const WHOLE_FROM: f64 = 100.0;

/// Requests per minute, at least 1; from 100/s on, whole ones per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pace(u64);

impl Pace {
    /// The step nearest to so many requests per second.
    #[must_use]
    pub fn nearest(per_s: f64) -> Self {
        let per_min = if per_s >= WHOLE_FROM {
            per_s.round() * MINUTE as f64
        } else {
            (per_s * MINUTE as f64).round()
        };
        Self(whole(per_min).max(1))
    }

    /// The greatest step that is no more than so many requests per second; none below one a minute.
    pub fn within(per_s: f64) -> Option<Self> {
        let nearest = Self::nearest(per_s);
        let step = if nearest.per_s() > WHOLE_FROM {
            MINUTE
        } else {
            1
        };
        let is_more = nearest.per_s() > per_s * (1.0 + 1e-9);
        let within = nearest.0.saturating_sub(if is_more { step } else { 0 });
        (within > 0).then_some(Self(within))
    }

    /// Requests per second.
    pub fn per_s(self) -> f64 {
        self.0 as f64 / MINUTE as f64
    }

    /// The step in the middle between two, by their ratio.
    pub fn between(self, other: Self) -> Self {
        Self::nearest((self.per_s() * other.per_s()).sqrt())
    }

    /// Twice as much.
    pub const fn doubled(self) -> Self {
        Self(self.0.saturating_mul(2))
    }

    /// Return the ratio of this rate to another.
    pub fn over(self, other: Self) -> f64 {
        self.0 as f64 / other.0 as f64
    }
}

/// As `--rate` takes it: `4040/s`, `1330/min`.
impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_multiple_of(MINUTE) {
            write!(f, "{}/s", self.0 / MINUTE)
        } else {
            write!(f, "{}/min", self.0)
        }
    }
}

/// Requests, times the square of the precision, in which a queue that is that near to its capacity
/// settles: see [`times_s`].
const SETTLES: f64 = 6.0;

/// The most that random arrivals lengthen the measured part of a probe to, s.
const LONGEST_RANDOM_S: f64 = 16.0;

/// Surplus of probes of one kind over the other that settles a rate: see above.
pub const MARGIN: i64 = 3;

/// Probes of a rate after which it is left alone, settled or not: there the target does one as
/// often as the other.
pub const MOST_PROBES: i64 = 9;

/// Probes of a rate, one after another, that said nothing of the target, before the rate is beyond
/// this client.
pub const MOST_VOID: u32 = 4;

/// Ratio of the rate that this client cannot send to the rate that passes, down to which the search
/// probes between them: nearer says little about the target.
const NEAR_CEILING: f64 = 1.25;

/// Kind of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeKind {
    /// For a short time, on the way up. It says where to look, and settles nothing.
    Scout,
    /// In full.
    Full,
    /// In full at half of a rate that passes, but at random times: it shows whether the target
    /// refuses requests that come close together. It settles nothing, and counts as a pass.
    Random,
}

/// Result of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeResult {
    /// All objectives held.
    Pass,
    /// One did not.
    Fail,
    /// So much went wrong that the probe was stopped.
    Collapse,
    /// Nothing about the target: this client was the limit, or a burst may have hidden it.
    Void,
}

impl ProbeResult {
    /// True if it speaks for or against the target.
    pub const fn speaks(self) -> bool {
        !matches!(self, Self::Void)
    }

    /// True if it speaks against the target.
    pub const fn fails(self) -> bool {
        matches!(self, Self::Fail | Self::Collapse)
    }
}

/// Next step of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SearchStep {
    /// Probe this rate.
    Probe(Pace, ProbeKind),
    /// Nothing: it is known.
    Done(SearchOutcome),
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

/// Bounds of a search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    /// The least rate, probed first.
    pub least: Pace,
    /// The greatest.
    pub greatest: Pace,
    /// Target width of the interval between a rate that passes and one that fails, as a part of the
    /// rate: 0.02.
    pub precision: f64,
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
    pub fn target(&self) -> &str {
        if self.what.is_empty() {
            "the bundled target"
        } else {
            &self.what
        }
    }

    /// The objectives, separated by commas.
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
pub fn times_s(rate_per_s: f64, question: &Question) -> (f64, f64) {
    let (warmup_s, probe_s) = (question.warmup_s, question.probe_s);
    let precision = question.bounds.precision;
    let settles = SETTLES / (rate_per_s * precision * precision);
    if !question.is_random() || settles <= probe_s {
        return (warmup_s, probe_s);
    }
    let measured = probe_s.max(settles.min(LONGEST_RANDOM_S));
    (warmup_s.max(measured / 2.0), measured)
}

/// By what part a rate may be too high for the times that are wanted, and its probes still pass,
/// for queues had no time to grow; none where it is within the precision.
pub fn resolution(rate_per_s: f64, question: &Question) -> Option<f64> {
    let (_, measured) = times_s(rate_per_s, question);
    let part = (2.0 * SETTLES / (rate_per_s * measured)).sqrt();
    (question.is_random() && part > question.bounds.precision * 1.5).then_some(part)
}

/// The probes of a rate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Full ones that passed.
    pub passes: u32,
    /// Full ones that failed.
    pub fails: u32,
    /// Those that said nothing.
    pub voids: u32,
    /// Balance of the scouts: passes less failures.
    #[serde(skip)]
    scouts: i64,
    /// A probe of it had to be stopped.
    #[serde(skip)]
    collapsed: bool,
    /// Void ones since the last one that was not.
    #[serde(skip)]
    void_in_a_row: u32,
}

/// State of a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RateState {
    /// The rate passes.
    Passes,
    /// The rate passed more often than not.
    SeemsToPass,
    /// As often as not, or not settled after as many probes as it gets.
    Undecided,
    /// The rate failed more often than not.
    SeemsToFail,
    /// The rate fails.
    Fails,
    /// No probe of it said anything about the target.
    Unknown,
}

impl Tally {
    fn net(&self) -> i64 {
        i64::from(self.passes) - i64::from(self.fails)
    }

    /// Full probes that said something.
    fn counted(&self) -> i64 {
        i64::from(self.passes) + i64::from(self.fails)
    }

    fn note(&mut self, kind: ProbeKind, seen: ProbeResult) {
        self.void_in_a_row = if seen == ProbeResult::Void {
            self.void_in_a_row + 1
        } else {
            0
        };
        self.collapsed |= seen == ProbeResult::Collapse;
        match (kind, seen) {
            (ProbeKind::Random, _) => {}
            (_, ProbeResult::Void) => self.voids += 1,
            (ProbeKind::Scout, ProbeResult::Pass) => self.scouts += 1,
            (ProbeKind::Scout, _) => self.scouts -= 1,
            (ProbeKind::Full, ProbeResult::Pass) => self.passes += 1,
            (ProbeKind::Full, _) => self.fails += 1,
        }
    }

    /// Return the state of the rate. A full probe outweighs a scout.
    pub fn state(&self) -> RateState {
        let settled = self.net().abs() >= MARGIN;
        match (2 * self.net() + self.scouts.signum()).signum() {
            _ if self.counted() == 0 && self.scouts == 0 => RateState::Unknown,
            sign if settled && sign > 0 => RateState::Passes,
            sign if settled && sign < 0 => RateState::Fails,
            _ if self.counted() >= MOST_PROBES => RateState::Undecided,
            1 => RateState::SeemsToPass,
            -1 => RateState::SeemsToFail,
            _ => RateState::Undecided,
        }
    }

    /// True if this client cannot send at this rate.
    const fn is_beyond_this_client(&self) -> bool {
        self.void_in_a_row >= MOST_VOID
    }

    /// True if another probe may still say something.
    fn is_open(&self) -> bool {
        self.net().abs() < MARGIN && self.counted() < MOST_PROBES && !self.is_beyond_this_client()
    }
}

/// A search.
#[derive(Debug, Clone)]
pub struct Search {
    bounds: Bounds,
    rates: BTreeMap<Pace, Tally>,
}

impl Search {
    /// One without a probe.
    pub const fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            rates: BTreeMap::new(),
        }
    }

    /// Takes in a probe.
    pub fn note(&mut self, pace: Pace, kind: ProbeKind, seen: ProbeResult) {
        self.rates.entry(pace).or_default().note(kind, seen);
    }

    /// The rates that were probed, from the lowest on.
    pub fn rates(&self) -> impl DoubleEndedIterator<Item = (Pace, &Tally)> {
        self.rates.iter().map(|(pace, tally)| (*pace, tally))
    }

    fn state(&self, pace: Pace) -> RateState {
        self.rates
            .get(&pace)
            .map_or(RateState::Unknown, Tally::state)
    }

    fn where_it(&self, is: impl Fn(RateState) -> bool) -> impl DoubleEndedIterator<Item = Pace> {
        self.rates()
            .filter(move |(_, of)| is(of.state()))
            .map(|(pace, _)| pace)
    }

    /// The interval that is settled so far: the highest rate that passes below every one that fails
    /// or seems to, and the lowest that fails.
    pub fn settled(&self) -> (Option<Pace>, Option<Pace>) {
        let fail = self.where_it(|state| state == RateState::Fails).next();
        let doubtful = self.where_it(RateState::leans_to_fail).next();
        (
            self.where_it(|state| state == RateState::Passes)
                .rfind(|pace| doubtful.is_none_or(|fail| *pace < fail)),
            fail,
        )
    }

    /// Return the next step.
    pub fn next(&self) -> SearchStep {
        // A rate is beyond this client only if no higher one was sent, whatever became of that.
        let sent = self
            .where_it(|state| state != RateState::Unknown)
            .next_back();
        let ceiling = self
            .rates()
            .find(|(pace, tally)| {
                tally.is_beyond_this_client() && sent.is_none_or(|sent| *pace >= sent)
            })
            .map(|(pace, _)| pace);
        let fail = self.where_it(RateState::leans_to_fail).next();
        // What passed now and then at a rate that this client cannot keep is not what is settled:
        // one below is.
        let passes = self.rates().filter(|(_, tally)| {
            let state = tally.state();
            state.leans_to_pass() && (state == RateState::Passes || !tally.is_beyond_this_client())
        });
        let pass = passes.map(|(pace, _)| pace).next_back();
        if let Some((pass, fail)) = pass.zip(fail).filter(|(pass, fail)| fail < pass) {
            return self.reconcile(fail, pass);
        }
        // Between the two, rates that are tied want another probe; those that had as many as they
        // get are passed over.
        let tied = self.rates().find(|(pace, tally)| {
            let state = tally.state();
            pass.is_none_or(|pass| *pace > pass)
                && fail.is_none_or(|fail| *pace < fail)
                && matches!(state, RateState::Undecided | RateState::Unknown)
                && tally.is_open()
        });
        if let Some((pace, _)) = tied {
            return SearchStep::Probe(pace, ProbeKind::Full);
        }
        let ceiling = ceiling.filter(|ceiling| fail.is_none_or(|fail| *ceiling <= fail));
        match (pass, fail, ceiling) {
            (None, _, Some(_)) => SearchStep::Done(SearchOutcome::ClientLimited),
            (None, ..) => self.begin(),
            (Some(pass), _, Some(ceiling)) => self.below_the_ceiling(pass, ceiling),
            (Some(pass), None, None) => self.upward(pass),
            (Some(pass), Some(fail), None) => self.narrow(pass, fail),
        }
    }

    /// A rate seems to fail below one that seems to pass: the less certain one is asked again.
    fn reconcile(&self, fail: Pace, pass: Pace) -> SearchStep {
        let open = [fail, pass].into_iter().filter_map(|pace| {
            let tally = self.rates.get(&pace).filter(|tally| tally.is_open())?;
            Some((tally.counted(), pace))
        });
        match open.min() {
            Some((_, pace)) => SearchStep::Probe(pace, ProbeKind::Full),
            None => SearchStep::Done(SearchOutcome::Unsteady),
        }
    }

    /// Nothing passes yet.
    fn begin(&self) -> SearchStep {
        let least = self.bounds.least;
        let is_closed = self.rates.get(&least).is_some_and(|tally| !tally.is_open());
        match self.state(least) {
            RateState::Fails => SearchStep::Done(SearchOutcome::LeastFails),
            RateState::Undecided | RateState::Unknown if is_closed => {
                SearchStep::Done(SearchOutcome::Undecided)
            }
            RateState::Unknown => SearchStep::Probe(least, ProbeKind::Scout),
            _ => SearchStep::Probe(least, ProbeKind::Full),
        }
    }

    /// Nothing fails yet: twice the rate that passes, and no more. Undecided ones lie above: what is
    /// next is the first of them, or past all of them, or they are the end of it.
    fn upward(&self, pass: Pace) -> SearchStep {
        let next = pass.doubled().min(self.bounds.greatest);
        let mut above = self.rates.range(pass..).skip(1).map(|(pace, _)| *pace);
        let first = above.next();
        match (first, above.last().or(first)) {
            _ if next <= pass => self.settle(&[pass], SearchOutcome::NotReached),
            (Some(first), Some(highest)) if first <= next => {
                if highest < next {
                    SearchStep::Probe(next, ProbeKind::Full)
                } else {
                    self.settle(&[pass], SearchOutcome::Undecided)
                }
            }
            _ => SearchStep::Probe(next, ProbeKind::Scout),
        }
    }

    /// Between a rate that seems to pass and one that seems to fail.
    fn narrow(&self, pass: Pace, fail: Pace) -> SearchStep {
        // A scout is short and may be unlucky: what it says of the upper end is asked once more,
        // unless it was plain.
        let of_fail = self.rates.get(&fail).copied().unwrap_or_default();
        if of_fail.counted() == 0 && of_fail.voids == 0 && !of_fail.collapsed {
            return SearchStep::Probe(fail, ProbeKind::Full);
        }
        // Below the undecided ones between the two, and above them.
        let undecided = self.rates.range(pass..fail).map(|(pace, _)| *pace).skip(1);
        let first = undecided.clone().next().unwrap_or(fail);
        let last = undecided.last().unwrap_or(pass);
        let apart = 1.0 + self.bounds.precision;
        let middle = middle(pass, first, apart).or_else(|| middle(last, fail, apart));
        if let Some(middle) = middle {
            return SearchStep::Probe(middle, ProbeKind::Full);
        }
        // The less certain one first.
        let mut ends = [pass, fail];
        ends.sort_by_key(|pace| self.rates.get(pace).map_or(0, |tally| tally.net().abs()));
        self.settle(&ends, SearchOutcome::Found)
    }

    /// Rates from `ceiling` on are beyond this client.
    fn below_the_ceiling(&self, pass: Pace, ceiling: Pace) -> SearchStep {
        let middle = middle(pass, ceiling, NEAR_CEILING);
        middle
            .filter(|middle| self.state(*middle) == RateState::Unknown)
            .map_or_else(
                || self.settle(&[pass], SearchOutcome::ClientLimited),
                |middle| SearchStep::Probe(middle, ProbeKind::Full),
            )
    }

    /// Another probe of the first of these rates that is not settled, or else the end.
    fn settle(&self, paces: &[Pace], end: SearchOutcome) -> SearchStep {
        paces
            .iter()
            .find(|pace| self.rates.get(*pace).is_none_or(Tally::is_open))
            .map_or(SearchStep::Done(end), |pace| {
                SearchStep::Probe(*pace, ProbeKind::Full)
            })
    }
}

/// The step in the middle between two rates whose ratio is above `apart`.
fn middle(low: Pace, high: Pace, apart: f64) -> Option<Pace> {
    let middle = low.between(high);
    (high.over(low) > apart && middle > low && middle < high).then_some(middle)
}

impl RateState {
    const fn leans_to_pass(self) -> bool {
        matches!(self, Self::Passes | Self::SeemsToPass)
    }

    const fn leans_to_fail(self) -> bool {
        matches!(self, Self::Fails | Self::SeemsToFail)
    }
}

#[cfg(test)]
mod tests {
    use crawlmark_harness::units::Rate;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_rate_is_written_as_it_is_typed() {
        for (per_s, text) in [
            (4_040.4, "4040/s"),
            (100.0, "100/s"),
            (22.17, "1330/min"),
            (0.001, "1/min"),
        ] {
            assert_eq!(Pace::nearest(per_s).to_string(), text);
        }
    }

    #[test]
    fn a_bound_is_never_exceeded() {
        let at_most = |rate: &str| {
            Pace::within(rate.parse::<Rate>().unwrap().per_second()).map(|pace| pace.to_string())
        };
        for (rate, expected) in [
            ("90/h", Some("1/min")),
            ("6031/min", Some("100/s")),
            ("500/s", Some("500/s")),
            ("1/h", None),
        ] {
            assert_eq!(at_most(rate).as_deref(), expected, "{rate}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_as_the_same_rate(per_s in 0.02..1e7f64) {
            let pace = Pace::nearest(per_s);
            let rate: Rate = pace.to_string().parse().unwrap();
            prop_assert_eq!(Pace::nearest(rate.per_second()), pace);
            prop_assert!((pace.per_s() / per_s - 1.0).abs() < 0.5);
        }

        #[test]
        fn the_middle_lies_between(a in 1.0..1e6f64, b in 1.0..1e6f64) {
            let (a, b) = (Pace::nearest(a.min(b)), Pace::nearest(a.max(b)));
            let middle = a.between(b);
            prop_assert!(a <= middle && middle <= b);
        }
    }
}
