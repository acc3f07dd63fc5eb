//! `ShardStats`: counters and fixed-bound histograms; constant in size, exact to merge.
//!
//! `record` takes a [`Sample`]; `merge` is associative and commutative with an identity, and merged
//! shards equal one recorder that was fed everything, cell by cell. Percentiles are computed after
//! merging and never averaged.
//!
//! | room | for |
//! |---|---|
//! | `table` | `counters!`, which declares counters and merges them |
//! | `counters` | items by state, attempts by outcome, connections |
//! | `order` | median, ranks, samples that a percentile takes |
//! | `cells`, `timing` | non-empty cells of a histogram; one distribution of times |
//! | `coarse`, `groups` | small distributions; counts and times by host, URL template and stage |
//! | `connections` | readings of the kernel: retransmissions, network time; closed connections |
//! | `traits` | times by the values of traits, such as response headers |
//! | `slowest` | slowest requests, by name |
//! | `course` | counts, requests in flight and times in steps of 20 ms |
//! | `phases` | when responses arrive, by phase |
//! | `failures` | failures by cause, with an example |

mod cells;
mod coarse;
mod connections;
mod counters;
mod course;
mod failures;
mod groups;
mod order;
mod phases;
mod slowest;
mod table;
mod timing;
mod traits;

use std::collections::BTreeMap;

pub use self::cells::{Cells, highest_beside};
pub use self::coarse::CoarseTimes;
pub use self::connections::{ConnectionCounts, SplitSums, TcpCounts};
pub(crate) use self::counters::{Alike, Ending};
pub use self::counters::{Counters, ItemCounts, RequestCounts, SecondCounts, TlsCounts};
pub use self::course::{CELLS, CELLS_PER_DECADE, STEP, STEPS, SecondCourse, StepCounts};
pub(crate) use self::course::{StepTimes, step_of};
pub use self::failures::{Failure, FailureCause, Failures, MAX_EXCERPT};
pub(crate) use self::groups::GroupTimes;
pub use self::groups::{GroupCounts, Groups, HostTimes, MOST_GROUPS};
pub use self::order::{median, rank, samples_for};
pub use self::phases::Phases;
pub use self::slowest::{MOST_SLOWEST, SlowRequest, Slowest};
pub(crate) use self::table::counters;
pub use self::table::{Count, Counter};
pub use self::timing::{
    Bounds, CLOSE, Exact, Percentile, SAMPLES_BEYOND, SIGNIFICANT_DIGITS, Timing,
};
pub use self::traits::{Nth, Traits};
pub(crate) use self::traits::{TraitCounter, TraitSample};
use crate::clock::Nanos;
use crate::plan::Arrivals;
use crate::sample::{EventTimes, Fate, InFlight, Opened, Opening, Outcome, Permit, Sample};
use crate::units::names;

names! {
    /// Series of times, each with a distribution of its own.
    pub enum Series {
        /// First byte sent to last byte read, of good and not-found answers. Censored: attempts that
        /// timed out, or were under way at the end.
        ServiceOk = "service",
        /// Service time of throttled answers.
        ServiceThrottled = "service_throttled",
        /// Service time of rejected, challenged and failed attempts that were sent.
        ServiceError = "service_error",
        /// First byte sent to first byte read, of every attempt that had an answer. Censored: attempts
        /// that timed out, or were cut off, before one.
        Ttfb = "ttfb",
        /// First to last byte of good and not-found answers; 0 of those that were read at once.
        Body = "body",
        /// Scheduled to released.
        SchedLag = "sched_lag",
        /// Released to admitted.
        BudgetWait = "budget_wait",
        /// Admitted to sent. Censored: requests that were never sent, for want of a connection.
        PoolWait = "pool_wait",
        /// Opening a connection to the target or the proxy, without tunnel and TLS handshake. Censored:
        /// those that timed out, or were still opening at the end.
        Connect = "connect",
        /// Whole time of an item, from the scheduled time of its first attempt to the end of its last.
        /// Censored: items that were due and had not ended when the run was over, and those of which
        /// the last attempt timed out.
        Item = "item",
        /// Event-loop delay: lateness of the shard's loop, which is to look up every 10 ms. Not of
        /// attempts: a shard that does not get to run is late whatever it has under way. Its clock
        /// rings up to 1 ms late by itself.
        LoopLag = "loop_lag",
        /// Scheduled to last byte read, of good and not-found answers; in open loops only. Censored as
        /// well: requests that were scheduled and never went.
        ResponseOk = "response",
        /// Response time of throttled answers.
        ResponseThrottled = "response_throttled",
        /// Response time of rejected, challenged and failed attempts, sent or not.
        ResponseError = "response_error",
        /// TLS handshakes. Censored: those that timed out, or were still under way at the end. Only of
        /// targets over TLS.
        Tls = "tls",
        /// Opening a tunnel through a proxy that is connected. Censored: those that timed out, or were
        /// still opening at the end. Only of targets behind a proxy.
        Tunnel = "tunnel",
        /// Receipt of an answer's last segment by the kernel to the read of its last byte. Of a sample
        /// of the answers, where the kernel stamps them.
        ReceiveDelay = "receive_delay",
        /// Service time of good and not-found answers that waited for a retransmission, as the kernel
        /// says of slow ones.
        ServiceRetransmitted = "service_retransmitted",
        /// Shortest round trip to the target's kernel, or that of the proxy. Of a sample of the
        /// answers.
        Network = "network",
        /// Time that the target says it took (`Server-Timing`), of good and not-found answers.
        Reported = "reported",
        /// First byte sent to last byte read, less the hold that the target says; 0 of one that claims
        /// more than that. Only of targets that say it, to a workload that reads it; in no report.
        Overhead = "overhead",
        /// First byte sent to arrival of the first event of a streamed answer. Censored: attempts
        /// that timed out, or were under way at the end, before one.
        FirstEvent = "first_event",
        /// Arrival of an event to that of the next one of the same answer; 0 of those that arrived
        /// together. Censored: the time without a further one, of attempts that timed out or were
        /// under way at the end.
        EventGap = "event_gap",
        /// Age of requests of an open loop that were dropped, from when they were due to when they
        /// were dropped; 0 of those that found the queue full.
        DropAge = "drop_age",
    }
}

impl Series {
    /// Parts of opening a connection that only some connections have. They are kept along with
    /// [`Series::Connect`].
    pub const OPENING: [Self; 2] = [Self::Tls, Self::Tunnel];

    /// Those that only some reports have.
    pub const OPTIONAL: [Self; 9] = [
        Self::Tls,
        Self::Tunnel,
        Self::ReceiveDelay,
        Self::ServiceRetransmitted,
        Self::Network,
        Self::Reported,
        Self::FirstEvent,
        Self::EventGap,
        Self::DropAge,
    ];

    /// Those that are kept per interval as well.
    pub const PER_INTERVAL: [Self; 6] = [
        Self::ServiceOk,
        Self::ServiceThrottled,
        Self::ServiceError,
        Self::ResponseOk,
        Self::ResponseThrottled,
        Self::ResponseError,
    ];

    /// The series of a run that every report has, and those per interval. A closed loop has no
    /// response times, for when a request of its was scheduled depended on the answer before it.
    #[must_use]
    pub const fn of(arrivals: Arrivals) -> [&'static [Self]; 2] {
        match arrivals {
            Arrivals::Asap | Arrivals::Waves => {
                [Self::ALL.split_at(11).0, Self::PER_INTERVAL.split_at(3).0]
            }
            Arrivals::Constant | Arrivals::Poisson | Arrivals::Replay => {
                [Self::ALL.split_at(14).0, &Self::PER_INTERVAL]
            }
        }
    }

    /// The times of good answers that users of a target wait: in an open loop from when a request
    /// was due, in a closed one from when it was sent.
    #[must_use]
    pub const fn waited(arrivals: Arrivals) -> Self {
        match arrivals {
            Arrivals::Asap | Arrivals::Waves => Self::ServiceOk,
            Arrivals::Constant | Arrivals::Poisson | Arrivals::Replay => Self::ResponseOk,
        }
    }
}

/// Set of series, for the hot path: a test for one of them is one bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SeriesSet(u32);

impl SeriesSet {
    /// The set of these series.
    pub(crate) const fn of(series: &[Series]) -> Self {
        let (mut bits, mut at) = (0, 0);
        while at < series.len() {
            bits |= 1 << series[at] as u32;
            at += 1;
        }
        Self(bits)
    }

    pub(crate) const fn contains(self, series: Series) -> bool {
        self.0 & (1 << series as u32) != 0
    }
}

/// Times of most attempts, noted once, that are in several series.
#[derive(Debug)]
pub(crate) struct Noted {
    /// Service times of good answers whose first read was their last: the times to their first byte
    /// as well, and their bodies took no time.
    read_at_once: Timing,
    /// Those of them that waited neither for the client nor for a limit.
    no_waits: u64,
}

impl Noted {
    /// Nothing, within these bounds.
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            read_at_once: Timing::new(bounds),
            no_waits: 0,
        }
    }
}

/// Counters and distributions of one shard, of one interval of a shard, or of the whole run once
/// merged.
#[derive(Debug, Clone, PartialEq)]
pub struct ShardStats {
    bounds: Bounds,
    /// Counts of items, attempts, connections and bytes.
    pub counters: Counters,
    /// By series; none until something is recorded.
    timings: [Option<Box<Timing>>; Series::ALL.len()],
}

impl ShardStats {
    /// Empty: the identity of [`ShardStats::merge`].
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            counters: Counters::default(),
            timings: Default::default(),
        }
    }

    /// Empty, with its distributions allocated, so that recording allocates nothing.
    #[must_use]
    pub fn with_series(bounds: Bounds, series: &[Series]) -> Self {
        let mut stats = Self::new(bounds);
        for series in series {
            stats.timing_mut(*series);
        }
        stats
    }

    /// From parts, as they came over a pipe.
    #[must_use]
    pub fn from_parts(
        bounds: Bounds,
        counters: Counters,
        timings: BTreeMap<Series, Timing>,
    ) -> Self {
        let mut stats = Self {
            counters,
            ..Self::new(bounds)
        };
        for (series, timing) in timings {
            stats.timings[series as usize] = Some(Box::new(timing));
        }
        stats
    }

    /// The bounds of its histograms.
    #[must_use]
    pub const fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// A distribution; none when nothing was recorded.
    #[must_use]
    pub fn timing(&self, series: Series) -> Option<&Timing> {
        self.timings[series as usize].as_deref()
    }

    /// Every distribution that exists.
    pub fn timings(&self) -> impl Iterator<Item = (Series, &Timing)> {
        Series::ALL
            .into_iter()
            .filter_map(|series| Some((series, self.timing(series)?)))
    }

    /// Counts one attempt that ended.
    pub fn record(&mut self, sample: &Sample) {
        self.record_only(sample, &Series::ALL);
    }

    /// Counts one attempt that ended, in some of the distributions.
    pub fn record_only(&mut self, sample: &Sample, kept: &[Series]) {
        self.counters.record(sample);
        self.record_times(sample, SeriesSet::of(kept));
    }

    /// Records the times of an attempt that ended, in some of the distributions, without its
    /// counts.
    pub(crate) fn record_times(&mut self, sample: &Sample, kept: SeriesSet) {
        let Sample {
            permit,
            attempt,
            fate,
        } = sample;
        // Of most attempts all times are known: they are computed once, and each goes where it
        // belongs.
        let Some((sent, first_byte)) = attempt
            .sent
            .zip(attempt.first_byte)
            .filter(|_| !timed_out(sample))
        else {
            let all = Series::ALL
                .into_iter()
                .filter(|series| kept.contains(*series));
            return self.book(all, |series| took(sample, series));
        };
        let mut record = |series, ns| {
            if kept.contains(series) {
                self.timing_mut(series).record(ns);
            }
        };
        if let Some(series) = service_series(attempt.outcome) {
            record(series, attempt.done.since(sent));
        }
        record(Series::Ttfb, first_byte.since(sent));
        if attempt.outcome.is_answer() {
            record(Series::Body, attempt.done.since(first_byte));
        }
        record(Series::SchedLag, sample.sched_lag_ns());
        record(Series::BudgetWait, sample.budget_wait_ns());
        record(Series::PoolWait, sent.since(permit.admitted));
        if *fate == Fate::Ended {
            record(Series::Item, attempt.done.since(permit.first_intended));
        }
        if let Some(series) = response_series(attempt.outcome) {
            record(series, sample.response_ns());
        }
        if let Some(ns) = sample.overhead_ns() {
            record(Series::Overhead, ns);
        }
        if let Some(Took::Exactly(ns)) = took(sample, Series::Reported) {
            record(Series::Reported, ns);
        }
    }

    /// Counts the times of a request or an item that had not ended when the run was over, in some
    /// of the distributions.
    pub fn cut_off(&mut self, kept: &[Series], rest: &Unfinished) {
        self.book(kept.iter().copied(), |series| rest.took(series));
        if kept.contains(&Series::Connect) {
            self.book(Series::OPENING, |series| rest.took(series));
        }
    }

    fn book(
        &mut self,
        kept: impl IntoIterator<Item = Series>,
        took: impl Fn(Series) -> Option<Took>,
    ) {
        for series in kept {
            match took(series) {
                Some(Took::Exactly(ns)) => self.timing_mut(series).record(ns),
                Some(Took::AtLeast(ns)) => self.timing_mut(series).censor(ns),
                Some(Took::Never(ns)) => self.timing_mut(series).censor_dropped(ns),
                None => {}
            }
        }
    }

    /// As [`record_times`](Self::record_times), of an attempt that was read at once in `ns`: what
    /// `noted` can hold of the series that every report has is added when that is.
    pub(crate) fn note(&mut self, sample: &Sample, ns: u64, kept: SeriesSet, noted: &mut Noted) {
        noted.read_at_once.record(ns);
        let Permit {
            first_intended,
            intended,
            ready,
            admitted,
            ..
        } = sample.permit;
        if ready <= intended && admitted <= ready {
            noted.no_waits += 1;
        } else {
            self.record_one(Series::SchedLag, sample.sched_lag_ns());
            self.record_one(Series::BudgetWait, sample.budget_wait_ns());
        }
        self.record_one(Series::PoolWait, sample.pool_wait_ns());
        if sample.fate == Fate::Ended {
            self.record_one(Series::Item, sample.attempt.done.since(first_intended));
        }
        if kept.contains(Series::ResponseOk) {
            self.record_one(Series::ResponseOk, sample.response_ns());
        }
    }

    /// Add what was noted.
    pub(crate) fn add_noted(&mut self, noted: &Noted) {
        let Noted {
            read_at_once,
            no_waits,
        } = noted;
        let count = read_at_once.exact().count;
        if count > 0 {
            self.timing_mut(Series::ServiceOk).merge(read_at_once);
            self.timing_mut(Series::Ttfb).merge(read_at_once);
            self.timing_mut(Series::Body).record_zeros(count);
        }
        for series in [Series::SchedLag, Series::BudgetWait] {
            if *no_waits > 0 {
                self.timing_mut(series).record_zeros(*no_waits);
            }
        }
    }

    /// Record a time in one distribution, ns.
    #[inline]
    pub fn record_one(&mut self, series: Series, ns: u64) {
        self.timing_mut(series).record(ns);
    }

    /// Records the target's hold, and what of the attempt's time was not that, where the target
    /// says how long it was.
    pub fn record_held(&mut self, sample: &Sample) {
        if sample.attempt.advice.held_ns.is_some() {
            self.record_times(
                sample,
                const { SeriesSet::of(&[Series::Overhead, Series::Reported]) },
            );
        }
    }

    /// Record the arrivals of the events of an answer to a request sent at `sent`; `cut_off_at` is
    /// the time at which the answer was cut off, if it was.
    pub(crate) fn record_events(
        &mut self,
        events: &EventTimes,
        sent: Nanos,
        cut_off_at: Option<Nanos>,
    ) {
        let gaps = self.timing_mut(Series::EventGap);
        events.gaps_ns.iter().for_each(|ns| gaps.record(*ns));
        if events.at_once > 0 {
            gaps.record_zeros(events.at_once);
        }
        if let (Some(_), Some(now)) = (events.first, cut_off_at) {
            gaps.censor(now.since(events.last));
        }
        let firsts = self.timing_mut(Series::FirstEvent);
        match (events.first, cut_off_at) {
            (Some(first), _) => firsts.record(first.since(sent)),
            (None, Some(now)) => firsts.censor(now.since(sent)),
            (None, None) => {}
        }
    }

    /// Record a connection that was opened, in some of the distributions.
    pub fn open_connection(&mut self, opened: &Opened, kept: &[Series]) {
        self.counters.open_connection(opened);
        if kept.contains(&Series::Connect) {
            self.timing_mut(Series::Connect).record(opened.connect_ns);
            let (tunnel_ns, tls_ns) = (
                opened.tunnel_ns,
                opened.handshake.map(|handshake| handshake.ns),
            );
            for (series, ns) in [(Series::Tunnel, tunnel_ns), (Series::Tls, tls_ns)] {
                if let Some(ns) = ns {
                    self.timing_mut(series).record(ns);
                }
            }
        }
    }

    /// Adds `other`, which must have the same bounds.
    pub fn merge(&mut self, other: &Self) {
        let Self {
            bounds: _,
            counters,
            timings,
        } = other;
        self.counters.merge(counters);
        for (series, timing) in Series::ALL.into_iter().zip(timings) {
            if let Some(timing) = timing {
                self.timing_mut(series).merge(timing);
            }
        }
    }

    /// Adds a distribution of the same bounds that is known by its cells.
    pub(crate) fn add_cells(
        &mut self,
        series: Series,
        times: &Cells,
        ages: Option<&Cells>,
        exact: &Exact,
    ) {
        self.timing_mut(series).add_cells(times, ages, exact);
    }

    #[inline]
    fn timing_mut(&mut self, series: Series) -> &mut Timing {
        let bounds = self.bounds;
        self.timings[series as usize].get_or_insert_with(|| boxed(bounds))
    }
}

/// Time that something took, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Took {
    /// Its time.
    Exactly(u64),
    /// Its age when it was cut off.
    AtLeast(u64),
    /// Its age when it was dropped.
    Never(u64),
}

/// A request or an item that had not ended when the run was over, by when each of its parts began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unfinished {
    /// End of the run.
    pub now: Nanos,
    /// True of a request that was dropped.
    pub is_dropped: bool,
    /// Scheduled time of the item's first attempt; none where the item is counted elsewhere.
    pub first_intended: Option<Nanos>,
    /// Scheduled time of the request; none of an item between two attempts.
    pub intended: Option<Nanos>,
    /// Begin of the wait for a connection; none of a request that waited for another limit.
    pub admitted: Option<Nanos>,
    /// Begin of the wait for a limit that had not let it through at the end; none of a request that
    /// none held back.
    pub limited: Option<Nanos>,
    /// Phase of the connection that was still opening.
    pub opening: Option<Opening>,
    /// Progress of a request that was sent.
    pub in_flight: Option<InFlight>,
}

impl Unfinished {
    fn part(&self, began: Option<Nanos>, ended: Option<Nanos>) -> Option<Took> {
        Some(match (began?, ended) {
            (began, Some(ended)) => Took::Exactly(ended.since(began)),
            (began, None) => Took::AtLeast(self.now.since(began)),
        })
    }

    fn response(&self, due: Option<Nanos>) -> Option<Took> {
        let age_ns = self.now.since(due?);
        Some(if self.is_dropped {
            Took::Never(age_ns)
        } else {
            Took::AtLeast(age_ns)
        })
    }

    /// Its time in a series: a part that had ended is exact, the others have the age that they had
    /// reached.
    pub(crate) fn took(&self, series: Series) -> Option<Took> {
        let sent = self.in_flight.map(|flight| flight.sent);
        match series {
            Series::ServiceOk => self.part(sent, None),
            Series::Ttfb => self.part(sent, self.in_flight.and_then(|flight| flight.first_byte)),
            Series::BudgetWait => self.part(self.limited, None),
            Series::PoolWait => self.part(self.admitted, sent),
            Series::Connect | Series::Tunnel | Series::Tls => match (series, self.opening?) {
                (Series::Connect, Opening::Tcp(began))
                | (Series::Tunnel, Opening::Tunnel(began))
                | (Series::Tls, Opening::Tls(began)) => self.part(Some(began), None),
                _ => None,
            },
            Series::Item => self.response(self.first_intended),
            Series::ResponseOk => self.response(self.intended),
            // What came to no outcome is in none of them, and the others are known of attempts that
            // ended alone.
            _ => None,
        }
    }
}

#[cold]
fn boxed(bounds: Bounds) -> Box<Timing> {
    Box::new(Timing::new(bounds))
}

/// The time of an attempt that ended, in a series. One that timed out was cut off: it is an error
/// that took this long, and a good answer that would have taken longer.
pub(crate) fn took(sample: &Sample, series: Series) -> Option<Took> {
    let outcome = sample.attempt.outcome;
    let timed_out = timed_out(sample);
    let is_sent = sample.attempt.sent.is_some();
    let is_good = outcome.is_answer();
    let ns = match series {
        Series::ServiceOk if timed_out => {
            return is_sent.then(|| Took::AtLeast(sample.service_ns()));
        }
        Series::ResponseOk if timed_out => return Some(Took::AtLeast(sample.response_ns())),
        Series::ServiceOk | Series::ServiceThrottled | Series::ServiceError => {
            (is_sent && Some(series) == service_series(outcome)).then(|| sample.service_ns())
        }
        Series::ResponseOk | Series::ResponseThrottled | Series::ResponseError => {
            (Some(series) == response_series(outcome)).then(|| sample.response_ns())
        }
        Series::Ttfb => match sample.ttfb_ns() {
            None if timed_out && is_sent => return Some(Took::AtLeast(sample.service_ns())),
            ns => ns,
        },
        Series::PoolWait if !is_sent => return Some(Took::AtLeast(sample.pool_wait_ns())),
        Series::PoolWait => Some(sample.pool_wait_ns()),
        Series::Item if timed_out => return sample.item_ns().map(Took::AtLeast),
        Series::Item => sample.item_ns(),
        Series::SchedLag => Some(sample.sched_lag_ns()),
        Series::BudgetWait => Some(sample.budget_wait_ns()),
        Series::Overhead => sample.overhead_ns(),
        Series::Body | Series::Reported if !is_good => None,
        Series::Body => sample.body_ns(),
        Series::Reported => sample.attempt.advice.held_ns,
        // Not of attempts: they are recorded when they happen.
        Series::Connect
        | Series::Tunnel
        | Series::Tls
        | Series::LoopLag
        | Series::ReceiveDelay
        | Series::ServiceRetransmitted
        | Series::Network
        | Series::FirstEvent
        | Series::EventGap
        | Series::DropAge => None,
    };
    ns.map(Took::Exactly)
}

/// True if the attempt was cut off.
const fn timed_out(sample: &Sample) -> bool {
    matches!(sample.attempt.outcome, Outcome::Error(kind) if kind.is_censored())
}

const fn response_series(outcome: Outcome) -> Option<Series> {
    match service_series(outcome) {
        Some(Series::ServiceThrottled) => Some(Series::ResponseThrottled),
        Some(Series::ServiceError) => Some(Series::ResponseError),
        Some(_) => Some(Series::ResponseOk),
        None => None,
    }
}

/// Return the series of an attempt's service time; none of a redirect, which is a part of its
/// item's time alone.
const fn service_series(outcome: Outcome) -> Option<Series> {
    match outcome {
        Outcome::Ok | Outcome::NotModified | Outcome::NotFound | Outcome::Stepped => {
            Some(Series::ServiceOk)
        }
        Outcome::Throttled => Some(Series::ServiceThrottled),
        Outcome::SoftBlocked | Outcome::Rejected | Outcome::Error(_) => Some(Series::ServiceError),
        Outcome::Redirected => None,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::clock::Nanos;
    use crate::sample::{Advice, Attempt, ErrorKind, Fate, Tries};

    pub(crate) use crate::fixtures::{attempt_of, bounds, permit_at};

    /// Any attempt that a workload may report.
    pub(crate) fn any_sample() -> impl Strategy<Value = Sample> {
        let outcome = prop_oneof![
            Just((Outcome::Ok, Some(200))),
            Just((Outcome::NotFound, Some(404))),
            Just((Outcome::Throttled, Some(429))),
            Just((Outcome::SoftBlocked, Some(403))),
            Just((Outcome::Rejected, Some(500))),
            Just((Outcome::Error(ErrorKind::Timeout), None)),
            Just((Outcome::Error(ErrorKind::ConnectRefused), None)),
        ];
        let times = (
            0..1_u64 << 40,
            0..1_u64 << 24,
            0..1_u64 << 24,
            0..1_u64 << 24,
            0..3_000_000_000_u64,
        );
        (times, outcome, any::<bool>(), (0..3_u32, any::<bool>())).prop_map(
            |((at, lag, budget, pool, service), (outcome, status), answered, (attempt, again))| {
                let (ready, admitted) = (Nanos(at + lag), Nanos(at + lag + budget));
                let sent = Nanos(admitted.0 + pool);
                let refused = outcome == Outcome::Error(ErrorKind::ConnectRefused);
                Sample {
                    permit: Permit {
                        id: at,
                        attempt,
                        tries: Tries::NONE,
                        host: 0,
                        first_intended: Nanos(at / 2),
                        intended: Nanos(at),
                        ready,
                        admitted,
                    },
                    attempt: Attempt {
                        sent: (!refused).then_some(sent),
                        first_byte: (answered && !refused).then_some(Nanos(sent.0 + service / 2)),
                        done: Nanos(sent.0 + service),
                        bytes_sent: 100,
                        bytes_received: 119,
                        status,
                        outcome,
                        advice: Advice::default(),
                    },
                    fate: if again { Fate::Again } else { Fate::Ended },
                }
            },
        )
    }

    fn stats_of(samples: &[Sample]) -> ShardStats {
        let mut stats = ShardStats::new(bounds());
        for sample in samples {
            stats.record(sample);
        }
        stats
    }

    #[test]
    fn tunnel_and_handshake_are_counted_and_timed_apart_from_their_connection() {
        use crate::workload::{Flight, Handshake};
        let handshake = |is_resumed| Handshake {
            ns: 70,
            is_resumed,
            version: "TLSv1.3",
            cipher: "AES",
        };
        let mut stats = ShardStats::new(bounds());
        for (tunnel_ns, handshake) in [
            (None, None),
            (Some(11), Some(handshake(false))),
            (None, Some(handshake(true))),
        ] {
            let flight = Flight::default();
            flight.opening(Nanos(5));
            if let Some(ns) = tunnel_ns {
                flight.tunnelling(Nanos(24));
                flight.tunnelled(ns);
            }
            if let Some(handshake) = handshake {
                flight.shaking_hands(Nanos(35));
                flight.shook_hands(handshake);
            }
            flight.opened(100);
            stats.open_connection(&flight.take_opened().unwrap(), &Series::ALL);
        }
        let exact = |stats: &ShardStats, series| *stats.timing(series).unwrap().exact();
        let [connect, tunnel, tls] =
            [Series::Connect, Series::Tunnel, Series::Tls].map(|series| exact(&stats, series));
        assert_eq!(
            (connect.count, connect.min_ns, connect.max_ns),
            (3, 19, 100)
        );
        assert_eq!((tunnel.count, tunnel.min_ns), (1, 11));
        assert_eq!((tls.count, tls.min_ns, tls.max_ns), (2, 70, 70));
        let TlsCounts {
            full,
            resumed,
            sessions,
        } = &stats.counters.tls;
        assert_eq!((*full, *resumed, sessions["TLSv1.3 AES"]), (1, 1, 2));
        for (opening, expected) in [
            (Opening::Tcp(Nanos(5)), [1, 0, 0]),
            (Opening::Tunnel(Nanos(5)), [1, 1, 0]),
            (Opening::Tls(Nanos(5)), [1, 1, 1]),
        ] {
            let rest = Unfinished {
                now: Nanos(9),
                opening: Some(opening),
                ..Unfinished::default()
            };
            stats.cut_off(&[Series::Connect], &rest);
            let censored = [Series::Connect, Series::Tunnel, Series::Tls]
                .map(|series| exact(&stats, series).censored);
            assert_eq!(censored, expected);
        }
    }

    #[test]
    fn what_is_not_the_hold_is_kept_where_the_target_tells_and_is_nothing_of_an_impossible_one() {
        let of = |held_ns| {
            let mut stats = ShardStats::new(bounds());
            let mut sample = Sample {
                permit: permit_at(Nanos(0)),
                attempt: attempt_of(Nanos(10), Nanos(30_010), Outcome::Ok),
                fate: Fate::Ended,
            };
            sample.attempt.advice.held_ns = held_ns;
            stats.record_held(&sample);
            stats
                .timing(Series::Overhead)
                .map(|timing| (timing.exact().max_ns, timing.histogram().count_at(0)))
        };
        assert_eq!(
            [of(Some(20_000)), of(Some(30_001)), of(None)],
            [Some((10_000, 0)), Some((0, 1)), None]
        );
        // No report has it.
        assert!(Series::ALL.contains(&Series::Overhead));
        for arrivals in [Arrivals::Asap, Arrivals::Constant, Arrivals::Poisson] {
            assert!(!Series::of(arrivals)[0].contains(&Series::Overhead));
        }
        assert_eq!(
            Series::of(Arrivals::Constant)[0].len() + Series::OPTIONAL.len() + 1,
            Series::ALL.len()
        );
    }

    proptest! {
        // Each case clones and merges megabytes of histograms.
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn merged_shards_equal_one_recorder_fed_everything(
            samples in prop::collection::vec(any_sample(), 0..200), cuts in (0..200_usize, 0..200_usize),
        ) {
            let (a, b) = (cuts.0.min(cuts.1).min(samples.len()), cuts.0.max(cuts.1).min(samples.len()));
            let parts = [stats_of(&samples[..a]), stats_of(&samples[a..b]), stats_of(&samples[b..])];
            let whole = stats_of(&samples);
            let mut left = parts[0].clone();
            left.merge(&parts[1]);
            left.merge(&parts[2]);
            let mut right = parts[2].clone();
            right.merge(&parts[1]);
            right.merge(&parts[0]);
            let mut with_identity = ShardStats::new(bounds());
            with_identity.merge(&left);
            prop_assert_eq!(&left, &whole);
            prop_assert_eq!(&right, &whole);
            prop_assert_eq!(&with_identity, &whole);
        }

        #[test]
        fn times_are_recorded_as_each_series_defines_them(
            samples in prop::collection::vec((any_sample(), prop::option::of(0..3_000_000_000_u64), any::<bool>(), any::<bool>()), 1..30),
            is_open: bool,
        ) {
            let [kept, _] = Series::of(if is_open { Arrivals::Constant } else { Arrivals::Asap });
            let (mut fast, mut defined) = (ShardStats::new(bounds()), ShardStats::new(bounds()));
            let mut noted = Noted::new(bounds());
            for (mut sample, held_ns, has_no_waits, is_at_once) in samples {
                sample.attempt.advice.held_ns = held_ns;
                if is_at_once {
                    sample.attempt.first_byte = sample.attempt.sent.map(|_| sample.attempt.done);
                }
                if has_no_waits {
                    (sample.permit.ready, sample.permit.admitted) = (sample.permit.intended, sample.permit.intended);
                }
                fast.record_held(&sample);
                match sample.read_at_once_ns() {
                    Some(ns) => fast.note(&sample, ns, SeriesSet::of(kept), &mut noted),
                    None => fast.record_times(&sample, SeriesSet::of(kept)),
                }
                let all = kept.iter().copied().chain([Series::Overhead, Series::Reported]);
                defined.book(all, |series| took(&sample, series));
            }
            fast.add_noted(&noted);
            prop_assert_eq!(fast, defined);
        }

        #[test]
        fn counters_add_up_and_have_the_names_of_their_json(
            a in prop::collection::vec(any_sample(), 0..50), b in prop::collection::vec(any_sample(), 0..50),
        ) {
            let [a, b] = [a, b].map(|samples| stats_of(&samples).counters.requests);
            let mut both = a.clone();
            both.merge(&b);
            prop_assert_eq!(both.clone().without(&b), a);
            let json = serde_json::to_value(&both).unwrap();
            prop_assert!(both.iter().all(|(counter, count)| json[counter.name] == count && !counter.help.is_empty()));
            prop_assert_eq!(serde_json::from_value::<RequestCounts>(json).unwrap(), both);
        }

        #[test]
        fn every_attempt_ends_in_one_state(samples in prop::collection::vec(any_sample(), 0..200), aborts in 0..5_u64) {
            let mut stats = stats_of(&samples);
            (0..aborts).for_each(|_| stats.counters.abort(0, None));
            let again = samples.iter().filter(|sample| sample.fate == Fate::Again).count() as u64;
            let counters = &stats.counters;
            prop_assert_eq!(counters.requests.attempts, samples.len() as u64 + aborts);
            prop_assert_eq!(counters.items.ended() + again, counters.requests.attempts);
            let items = stats.timing(Series::Item).map_or(0, |timing| timing.exact().count + timing.exact().censored);
            prop_assert_eq!(items + aborts, counters.items.ended());
            let answered: u64 = counters.requests.attempts_by_status.values().sum();
            let unanswered: u64 = counters.requests.errors_by_kind.values().sum();
            prop_assert_eq!(answered + unanswered + aborts, counters.requests.attempts);
            let [_, services] = Series::of(Arrivals::Asap);
            let timed = |of: &[Series]| stats.timings().filter(|(s, _)| of.contains(s)).map(|(_, t)| t.exact().count).sum();
            prop_assert_eq!(timed(services), counters.requests.attempts_sent);
            let all: u64 = timed(&Series::PER_INTERVAL);
            prop_assert_eq!(all - counters.requests.attempts_sent, samples.len() as u64, "each attempt has a response time");
        }
    }
}
