//! `Adaptive`: the limit on one shard's requests in flight, and the rate that it learnt from
//! throttling.
//!
//! Used by a shard's gate and engine: the rate by a closed loop of which half is refused, both when
//! a crawl is adaptive. Pure: it reads no clock and does not
//! wait; every instant is passed in. It imports nothing of the shard, the pipes or the report.
//!
//! | room | for |
//! |---|---|
//! | `concurrency` | limit on requests in flight: AIMD or gradient |
//! | `rate` | learnt rate, and its growth after a throttle pause |
//!
//! # Two controls
//!
//! **Concurrency** decides how many requests are in flight: it protects a target that slows down or
//! breaks under load, and climbs to all lanes when it is used and nothing goes wrong (AIMD) or
//! latency does not grow (gradient). It falls to 70 % when an episode of throttling is noticed, or
//! when an attempt times out or gets no connection (once for all attempts that were under way), and
//! never below 1. How it grows is chosen by [`AdaptiveKind`]:
//!
//! - *AIMD* (Chiu and Jain, 1989): one more for each round trip without trouble in which at least
//!   half was used. Until the first timeout it doubles instead, as TCP's slow start does: one more
//!   for each round trip of 200 ms would take the better part of a minute to carry 1,000 requests
//!   per second.
//! - *Gradient*: until latency grows. The limit doubles from 1 until the mean latency exceeds 1.25
//!   times what it was, and then follows the ratio (Gradient2 of Netflix's concurrency-limits,
//!   without its additive queue). Every 2 s all shards at once look at the latency at half of their
//!   limits, as BBR does: a long-term mean would rise with the queue that the limit itself makes.
//!
//! **A rate** decides when the next request may go. Concurrency alone cannot keep under a rate
//! limit when answers are fast: with a round trip of 100 us, one request in flight is 10,000 per
//! second. So throttling teaches a rate. While a target never throttles there is none, and nothing
//! is paid for it.
//!
//! The rate is searched as CUBIC (RFC 9438) searches a window, with one difference: a refusal here
//! costs a whole pause, a second or more, so each makes the next growth ten times as slow, up to a
//! doubling in a hundred pauses. A raised limit is found in about that time.
//!
//! # Shards without a master
//!
//! All shards share one quota, and every shard is told of every episode of throttling: when it was
//! noticed and when its pause ends. The rate is computed from these two times alone, so all shards
//! have the same one, and each sends at its own place between the requests of the others: a limit
//! without bursts then refuses no more of four shards than of one. A shard with less to do leaves
//! the limit to the others, whose rates grow until they are refused.
//!
//! # Episodes
//!
//! An *episode* is one refusal with its pause: from the first throttled answer anywhere until
//! requests may go again. What was sent before the end of the pause and is throttled, too, is its
//! aftermath and teaches nothing new. Answers to requests sent before the refusal arrive during the
//! pause, so an episode is learnt from when its pause is over.
//!
//! # What it cannot do
//!
//! - Use a limit without bursts whose requests are closer together than round trips vary: some
//!   arrive too close together at any rate.
//! - Tell the limit without running into it: four or five episodes, each of which costs its pause,
//!   are the price of the first minute. It does not look at `RateLimit` fields: the shard's
//!   `quota` does, and pauses before a refusal, except where more is due within a second,
//!   which says nothing of the rate.
//! - Be exact. A budget that must not be exceeded is the [`crate::pacer`]'s, which may be used
//!   beside it.
//! - Tell a rate limit from other reasons to throttle, such as a cap on requests in flight: it then
//!   learns the rate that the cap amounts to.

use serde::{Deserialize, Serialize};

use crate::clock::Nanos;
use crate::pacer::Pace;
use crate::plan::AdaptiveKind;
use crate::sample::Attempt;

mod concurrency;
mod rate;
#[cfg(test)]
mod tests;

use concurrency::Concurrency;
use rate::{LearntRate, News};

/// State of a controller, for the trace in the report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ControllerState {
    /// Limit on the shard's requests in flight; at least 1.
    pub limit: u32,
    /// The shard's learnt pace in requests per second, at least 0.1; none while none was learnt.
    pub pace_per_s: Option<f64>,
}

/// One shard's controller. Moments are given in the order of time.
#[derive(Debug)]
pub struct Adaptive {
    /// None if all lanes may be used.
    concurrency: Option<Concurrency>,
    rate: LearntRate,
}

impl Adaptive {
    /// A controller that learns a rate for a shard from `start` on. `place` is that of the shard
    /// between the requests of the others, from 0 to 1.
    pub const fn new(place: f64, start: Nanos) -> Self {
        Self {
            concurrency: None,
            rate: LearntRate::new(place, start),
        }
    }

    /// Limit the requests in flight of a shard with `lanes` lanes, too, to `first` from `start` on.
    /// Both count as at least 1, `first` as at most `lanes`.
    #[must_use]
    pub fn limiting(self, kind: AdaptiveKind, lanes: u32, first: u32, start: Nanos) -> Self {
        let concurrency = Some(Concurrency::new(kind, lanes, first, start));
        Self {
            concurrency,
            ..self
        }
    }

    /// Return the limit on the requests in flight now: 1 to all lanes; none if they have no limit.
    pub fn limit(&self) -> Option<u32> {
        self.concurrency.as_ref().map(Concurrency::limit)
    }

    /// Asks the learnt rate for one request at `now`, not looking at the limit. [`Pace::Go`] is no
    /// charge: call [`Adaptive::admitted`] when the request goes.
    pub fn poll(&mut self, now: Nanos) -> Pace {
        self.rate.poll(now)
    }

    /// Note a request sent.
    pub const fn admitted(&mut self) {
        self.rate.admitted();
    }

    /// An attempt ended at `now` while `in_flight` were under way, itself included. It is to be
    /// told before [`Adaptive::throttled`] is, and is not the same: an attempt that was throttled
    /// only counts as not accepted.
    pub fn ended(&mut self, now: Nanos, in_flight: u32, attempt: &Attempt) {
        if let Some(concurrency) = &mut self.concurrency {
            concurrency.ended(now, in_flight, attempt);
        }
        self.rate.ended(attempt);
    }

    /// Throttling was noticed at `at`, in this shard or in another, and nothing will be sent until
    /// `until`; no later than `at` when no request waits. May be said several times of one episode,
    /// with later ends; everything noticed before the latest end is a part of it, and so is the
    /// answer to a request of this shard that was sent before it.
    pub fn throttled(&mut self, at: Nanos, until: Nanos) {
        if self.rate.throttled(at, until) == News::Episode
            && let Some(concurrency) = &mut self.concurrency
        {
            concurrency.throttled(at);
        }
    }

    /// Return the limit and the pace now; none if the requests in flight have no limit.
    pub fn state(&self) -> Option<ControllerState> {
        Some(ControllerState {
            limit: self.limit()?,
            pace_per_s: self.rate.per_second(),
        })
    }
}

impl ControllerState {
    /// With another shard's: none of the pace as long as one of them has none.
    pub fn plus(self, other: Self) -> Self {
        let pace_per_s = self
            .pace_per_s
            .zip(other.pace_per_s)
            .map(|(one, another)| one + another);
        Self {
            limit: self.limit.saturating_add(other.limit),
            pace_per_s,
        }
    }
}
