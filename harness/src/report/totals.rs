//! What was counted, over the run or over a shard: items by state, attempts by what they came to.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Report, share};
use crate::plan::{Arrivals, RunPlan};
use crate::stats::Counters;
use crate::supervisor::ShardRecord;
use crate::units::IdRange;
use crate::wire::WarmUp;

/// Items by state. The states sum to `planned`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// IDs in the range.
    pub planned: u64,
    /// Good answers.
    pub ok: u64,
    /// The target has no such item.
    pub not_found: u64,
    /// Rejected, challenged, or no valid answer.
    pub failed: u64,
    /// Throttled until no attempt was left.
    pub gave_up: u64,
    /// Under way when the run was stopped.
    pub aborted: u64,
    /// Never tried.
    pub not_attempted: u64,
    /// Their shard ended before it could tell.
    pub lost: u64,
}

/// What was counted over the run or a shard.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Requests tried.
    pub attempts: u64,
    /// Of these, beyond the first of their item.
    pub retries: u64,
    /// Items that were good at their first attempt.
    pub ok_at_first: u64,
    /// Attempts whose request was sent, those cut off at the end of the run included.
    pub attempts_sent: u64,
    /// Requests of an open loop that were intended and never went; no attempts.
    pub dropped: u64,
    /// Answers by status.
    pub attempts_by_status: BTreeMap<String, u64>,
    /// Failures by kind.
    pub errors_by_kind: BTreeMap<String, u64>,
    /// Attempts that the target throttled.
    pub throttled: u64,
    /// Attempts that the target answered with a challenge page.
    pub soft_blocked: u64,
    /// Connections opened.
    pub connections_opened: u64,
    /// Bytes of requests, heads included.
    pub bytes_sent: u64,
    /// Bytes of answers, heads included.
    pub bytes_received: u64,
    /// From the common start to the end of the last attempt.
    pub duration_s: f64,
    /// Items that ended by themselves, per second: the aborted ones did not. After the warm-up, and in an open loop until the
    /// last request was intended.
    pub items_per_s: f64,
    /// Attempts per second of the same time.
    pub attempts_per_s: f64,
    /// The most requests under way at once; over shards, the sum of each one's, which they may not have reached together.
    pub peak_in_flight: u64,
}

impl Ledger {
    pub(super) fn of(record: &ShardRecord) -> Self {
        let planned = record.ids.iter().map(IdRange::len).sum();
        let Counters { ok, not_found, failed, gave_up, aborted, .. } = record.stats.counters;
        let (not_attempted, lost) = match record.fault {
            // Its own count of what it never dealt out, not the rest of a subtraction: whether it all adds up is checked.
            None => (record.remaining, 0),
            // What a shard did between its last word and its death is unknown.
            Some(_) => (0, u64::saturating_sub(planned, record.stats.counters.items())),
        };
        Self { planned, ok, not_found, failed, gave_up, aborted, not_attempted, lost }
    }

    /// Whether every item is in exactly one state.
    #[must_use]
    pub const fn adds_up(&self) -> bool {
        self.ended() + self.not_attempted + self.lost == self.planned
    }

    /// Items in a final state.
    #[must_use]
    pub const fn ended(&self) -> u64 {
        self.ok + self.not_found + self.failed + self.gave_up + self.aborted
    }

    pub(super) fn plus(self, other: Self) -> Self {
        let Self { planned, ok, not_found, failed, gave_up, aborted, not_attempted, lost } = other;
        Self {
            planned: self.planned + planned,
            ok: self.ok + ok,
            not_found: self.not_found + not_found,
            failed: self.failed + failed,
            gave_up: self.gave_up + gave_up,
            aborted: self.aborted + aborted,
            not_attempted: self.not_attempted + not_attempted,
            lost: self.lost + lost,
        }
    }
}

impl Totals {
    pub(super) fn new(counters: &Counters, duration_s: f64, peak_in_flight: u64) -> Self {
        Self {
            attempts: counters.attempts,
            retries: counters.retries,
            ok_at_first: counters.ok_at_first,
            attempts_sent: counters.attempts_sent,
            dropped: counters.dropped,
            attempts_by_status: counters.by_status.iter().map(|(status, n)| (status.to_string(), *n)).collect(),
            errors_by_kind: counters.by_error.iter().map(|(kind, n)| (kind.name().to_owned(), *n)).collect(),
            throttled: counters.throttled,
            soft_blocked: counters.soft_blocked,
            connections_opened: counters.connections_opened,
            bytes_sent: counters.bytes_sent,
            bytes_received: counters.bytes_received,
            duration_s,
            items_per_s: share((counters.items() - counters.aborted) as f64, duration_s),
            attempts_per_s: share(counters.attempts as f64, duration_s),
            peak_in_flight,
        }
    }

    /// The same, with rates over what was measured: without the warm-up, and of an open loop without the time after the
    /// last request was intended, in which its answers came.
    pub(super) fn measured(mut self, window: Window, warm: WarmUp) -> Self {
        let measured_s = window.measured_s(self.duration_s);
        let items = self.items_per_s * self.duration_s - warm.items as f64;
        self.items_per_s = share(items.max(0.0), measured_s);
        self.attempts_per_s = share(self.attempts.saturating_sub(warm.attempts) as f64, measured_s);
        self
    }
}

/// What part of a run is measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    pub(super) arrivals: Arrivals,
    pub(super) warmup: Duration,
    pub(super) duration: Option<Duration>,
}

impl Window {
    /// Its length, of a run whose last attempt ended `last_s` after the start, s.
    fn measured_s(&self, last_s: f64) -> f64 {
        (self.end_s(last_s) - self.warmup.as_secs_f64()).max(0.0)
    }

    /// Where it ends, s after the start.
    fn end_s(&self, last_s: f64) -> f64 {
        let intended_until = self.duration.filter(|_| self.arrivals.gaps().is_some());
        intended_until.map_or(last_s, |duration| last_s.min(duration.as_secs_f64()))
    }
}

impl Report {
    /// What the rates of the totals are counted up to, from the end of the warm-up on, s after the common start: the last
    /// answer, and in an open loop no later than the last request was intended.
    #[must_use]
    pub fn rates_until_s(&self) -> f64 {
        let RunPlan { arrivals, warmup, duration, .. } = self.plan.run;
        Window { arrivals, warmup, duration }.end_s(self.totals.duration_s)
    }
}
