//! Find the highest rate that a target sustains: by open-loop probes at rates between one that
//! meets the objectives and one that does not.
//!
//! A *probe* is a run at one rate, in fresh processes. It passes when every objective held and at
//! least 99 % of the requests that were due went, on time. It is *void*, and says nothing of the
//! target, when this client was late by more than a tenth of the least time that is wanted (and by
//! more than the check of validity forgives), had no port or descriptor, or was disturbed in a way
//! that could have made the times that broke an objective. It is void as well when a share is
//! beyond its objective by no more than twice the part of the requests that were late by more than
//! 2 ms and the time from one to the next: those came in bunches, of which a limit may refuse as
//! many, and as many of those that find it used up. A limit that allows nothing at once refuses
//! what comes closer together by any lateness: it reads low, and the result says so. It is
//! *stopped* early when most of it is refused or fails. What met the objectives although this side
//! was disturbed did meet them: that is a pass.
//!
//! | room | for |
//! |---|---|
//! | `pace` | offered rates in whole steps |
//! | [`search`] | choice of the next rate, and of the end |
//! | `probe`, `growth`, `failure` | probes: result, growing response times, cause of a failure |
//! | `hindsight` | corrections of earlier probes by later ones |
//! | `hidden`, `knee` | lower capacities that are not excluded; knee of the latency curve |
//! | `saved`, `journal`, `laws` | `capacity.json`, the journal of a search, laws of saved probes |
//! | `words` | capacity as a document, probes as lines |
//! | `tests` | whole searches on targets of known capacity |
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
//! [`search::MARGIN`], 3. The chance to end on the wrong side is that of the gambler's ruin (W.
//! Feller, *An Introduction to Probability Theory*, I, XIV.2), exactly `1 / (1 + ((1 - e) / e)^3)`:
//! 0.015 % where one probe in twenty misleads, 0.14 % where one in ten does, 1.5 % where one in
//! five does. At `p` near one half it takes nine probes in the mean, and after nine a rate is left
//! *undecided*: it lies within the interval, which is then as wide as the noise is.
//!
//! That is the error of one rate that was chosen beforehand. A search chooses rates by what came
//! before: the end of an interval may be there because its first probe misled, so two more of its
//! kind suffice. The tests of this module run whole searches on targets whose capacity is known,
//! 1,000 seeded ones of each kind (a cliff, a soft knee, a queue, a part of probes that mislead,
//! some void, scouts that see a third more than there is), and hold that at most 1 in 100
//! capacities is off by more than 2 %, and at most 1 in 100 intervals has an end at which nine
//! probes in ten say otherwise. Where one probe in ten misleads it is 2 in 100.
//!
//! A client that requests more than a token bucket refills is served from what it holds, `burst`
//! requests, for `burst / (rate - limit)` seconds. The warm-up of a probe spends of that, and
//! shares of refused answers are judged of the later half of a probe as well. The burst that may
//! still hide is [`credit`].
//!
//! A target that queues whatever it does not manage would hide, too, for its times reach what is
//! wanted only after a probe when the excess is small. So a probe fails as well when they grow
//! throughout it: see [`Growth`].

mod failure;
mod growth;
mod hidden;
mod hindsight;
mod journal;
mod knee;
mod laws;
mod pace;
mod probe;
mod saved;
pub mod search;
#[cfg(test)]
mod tests;
mod words;

pub use self::failure::ProbeFailure;
pub use self::growth::Growth;
use self::growth::LEAST_SECONDS;
pub use self::hidden::{Cause, Hidden, backlog, hidden, unevenness, used_up};
pub use self::hindsight::{BY_BURST, in_hindsight};
pub use self::journal::{
    JOURNAL, SearchHead, fingerprint, journal_line, read_journal, searches_differ,
};
pub use self::knee::{CurvePoint, knee};
pub use self::pace::Pace;
pub use self::probe::{
    AttemptCounts, Connections, Flow, ProbePlan, ProbeReport, SENT, Slow, Wanted, judge,
};
pub use self::saved::{
    Capacity, FILE, Question, RateReport, SCHEMA, SearchEnd, SearchOutcome, next_step, search_of,
};
pub use self::words::{capacity_headline, offered, probe_correction, probe_line};
use crate::run::gates::{Condition, Unit};
use crawlmark_harness::plan::Arrivals;

/// Answers per second from which on each second of a probe has a median: twenty, and what arrivals
/// at random may lack of them.
const MEDIANS_FROM: f64 = 40.0;

/// Requests, times the square of the precision, in which a queue that is that near to its capacity
/// settles: see [`times_s`].
const SETTLES: f64 = 6.0;

/// The most that random arrivals lengthen the measured part of a probe to, s.
const LONGEST_RANDOM_S: f64 = 16.0;

/// True if requests arrive at random and times are wanted: what is slow then depends on how queues
/// happened to grow.
fn is_random(question: &Question) -> bool {
    let of_time = |text: &String| {
        text.parse()
            .is_ok_and(|of: Condition| of.metric.unit() == Unit::Us)
    };
    question.arrivals == Arrivals::Poisson.name() && question.objectives.iter().any(of_time)
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
    if !is_random(question) || settles <= probe_s {
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
    (is_random(question) && part > question.bounds.precision * 1.5).then_some(part)
}

/// True if full probes at this rate have seconds enough, and answers in each, for it to be seen
/// that response times grow throughout them.
#[must_use]
pub fn sees_growth(rate_per_s: f64, question: &Question) -> bool {
    let (warmup_s, probe_s) = times_s(rate_per_s, question);
    let whole_seconds = (warmup_s + probe_s).floor() - warmup_s.ceil();
    rate_per_s >= MEDIANS_FROM && whole_seconds >= LEAST_SECONDS as f64
}

/// Return the number of requests at once that a limit would have to allow, beyond what it refills,
/// to have hidden from a full probe that it is lower than `rate_per_s` by the precision.
#[must_use]
pub fn credit(rate_per_s: f64, question: &Question) -> f64 {
    let hidden = rate_per_s * question.bounds.precision;
    let (warmup_s, probe_s) = times_s(rate_per_s, question);
    hidden * (warmup_s + probe_s / 2.0)
}
