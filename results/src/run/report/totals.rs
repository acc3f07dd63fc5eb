//! Counts of the run or of a shard: items by state, attempts by outcome.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::share;
use crawlmark_harness::stats::Counters;
use crawlmark_harness::supervisor::ShardRecord;
use crawlmark_harness::units::IdRange;

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
    /// Cut off: their request was open when the run was over.
    pub aborted: u64,
    /// Tried, and waiting for another attempt when the run was over. 0 of an older version, which counted them as failed or given up.
    #[serde(default)]
    pub unfinished: u64,
    /// Never tried: no request for them was sent.
    pub not_attempted: u64,
    /// Their shard ended before it could tell.
    pub lost: u64,
}

/// Counts of the run or of a shard.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Requests tried.
    pub attempts: u64,
    /// Attempts beyond the first of their item.
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
    /// Attempts that failed because of the status that they were answered with. Empty of an older version.
    #[serde(default)]
    pub rejected_by_status: BTreeMap<String, u64>,
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
    /// From the common start to the end of the last attempt, or to the end of the run's duration, or until it was stopped, when it waited
    /// until then with items left.
    pub duration_s: f64,
    /// Items that ended by themselves, per second: the aborted ones did not. Rates count what was intended after the warm-up,
    /// over the time from the end of the warm-up to the end of the last attempt.
    pub items_per_s: f64,
    /// Good items per second. Null in results of older versions.
    #[serde(default)]
    pub ok_per_s: Option<f64>,
    /// Attempts per second of the same time.
    pub attempts_per_s: f64,
    /// The most requests under way at once; over shards, the sum of each one's, which they may not have reached together.
    pub peak_in_flight: u64,
}

impl Ledger {
    pub(super) fn of(record: &ShardRecord) -> Self {
        let planned: u64 = record.ids.iter().map(IdRange::len).sum();
        let Counters { ok, not_found, failed, gave_up, aborted, unfinished, .. } = record.stats.counters;
        let (not_attempted, lost) = match record.fault {
            // Its own count of what it never dealt out, not the rest of a subtraction: whether it all adds up is checked.
            None => (record.remaining, 0),
            // What a shard did between its last word and its death is unknown.
            Some(_) => (0, planned.saturating_sub(record.stats.counters.items()).saturating_sub(unfinished)),
        };
        Self { planned, ok, not_found, failed, gave_up, aborted, unfinished, not_attempted, lost }
    }

    /// True if every item is in exactly one state.
    #[must_use]
    pub const fn adds_up(&self) -> bool {
        self.begun().saturating_add(self.not_attempted).saturating_add(self.lost) == self.planned
    }

    /// Items that had an attempt, as far as is known.
    #[must_use]
    pub const fn begun(&self) -> u64 {
        self.ended().saturating_add(self.unfinished)
    }

    /// True if its shard had more to do when it ended.
    #[must_use]
    pub const fn has_more(&self) -> bool {
        self.unfinished > 0 || self.not_attempted > 0
    }

    /// Items in a final state.
    #[must_use]
    pub const fn ended(&self) -> u64 {
        self.ok + self.not_found + self.failed + self.gave_up + self.aborted
    }

    pub(super) fn plus(self, other: Self) -> Self {
        let Self { planned, ok, not_found, failed, gave_up, aborted, unfinished, not_attempted, lost } = other;
        Self {
            planned: self.planned + planned,
            ok: self.ok + ok,
            not_found: self.not_found + not_found,
            failed: self.failed + failed,
            gave_up: self.gave_up + gave_up,
            aborted: self.aborted + aborted,
            unfinished: self.unfinished + unfinished,
            not_attempted: self.not_attempted + not_attempted,
            lost: self.lost + lost,
        }
    }
}

impl Totals {
    pub(super) fn new(counters: &Counters, duration_s: f64, peak_in_flight: u64) -> Self {
        let per_s = |count: u64| share(count as f64, duration_s);
        let by_status =
            |counts: &BTreeMap<u16, u64>| counts.iter().map(|(status, n)| (status.to_string(), *n)).collect();
        Self {
            attempts: counters.attempts,
            retries: counters.retries,
            ok_at_first: counters.ok_at_first,
            attempts_sent: counters.attempts_sent,
            dropped: counters.dropped,
            attempts_by_status: by_status(&counters.by_status),
            errors_by_kind: counters.by_error.iter().map(|(kind, n)| (kind.name().to_owned(), *n)).collect(),
            rejected_by_status: by_status(&counters.rejected),
            throttled: counters.throttled,
            soft_blocked: counters.soft_blocked,
            connections_opened: counters.connections_opened,
            bytes_sent: counters.bytes_sent,
            bytes_received: counters.bytes_received,
            duration_s,
            items_per_s: per_s(counters.items() - counters.aborted),
            ok_per_s: Some(per_s(counters.ok)),
            attempts_per_s: per_s(counters.attempts),
            peak_in_flight,
        }
    }

    /// With rates that leave out what was intended in a warm-up of `warmup_s`, and its time.
    pub(super) fn without_warmup(mut self, counters: &Counters, warm: &Counters, warmup_s: f64) -> Self {
        let measured_s = (self.duration_s - warmup_s).max(0.0);
        let per_s = |count: u64, warm: u64| share(count.saturating_sub(warm) as f64, measured_s);
        self.items_per_s = per_s(counters.items() - counters.aborted, warm.items() - warm.aborted);
        self.ok_per_s = Some(per_s(counters.ok, warm.ok));
        self.attempts_per_s = per_s(self.attempts, warm.attempts);
        self
    }

    /// The part of the rate of items that is good; none of no items.
    #[must_use]
    pub fn good_share(&self) -> Option<f64> {
        (self.items_per_s > 0.0).then_some(self.ok_per_s? / self.items_per_s)
    }

    /// Good items per second: those in state `ok`. An item that was not found is an answer, neither good nor failed. Of a
    /// result of an older version, which has no such rate, the good part of the rate of items.
    #[must_use]
    pub fn good_per_s(&self, items: &Ledger) -> f64 {
        let ended = items.ended().saturating_sub(items.aborted);
        self.ok_per_s.unwrap_or_else(|| share(self.items_per_s * items.ok as f64, ended as f64))
    }

    /// Attempts that failed: neither good, nor not found, nor throttled, nor cut off. `items` are what the attempts were for: a
    /// good item, and one that is not there, has one attempt that says so.
    #[must_use]
    pub const fn failed(&self, items: &Ledger) -> u64 {
        self.attempts.saturating_sub(items.ok + items.not_found + self.throttled + items.aborted)
    }
}

/// The name of a cause of failure wherever people read it: of a status that was rejected.
pub(crate) fn status_in_words(status: &str) -> String {
    format!("status {status}")
}

/// The name of a cause of failure wherever people read it: of a [kind of error](crawlmark_harness::sample::ErrorKind::name).
pub(crate) fn error_in_words(kind: &str) -> String {
    match kind {
        "connect_refused" => "connection refused".to_owned(),
        "connect_timeout" => "connection timed out".to_owned(),
        "connect_failed" => "connection failed".to_owned(),
        "timeout" => "timed out".to_owned(),
        "closed" => "closed without an answer".to_owned(),
        "incomplete" => "closed in the answer".to_owned(),
        other => other.replace('_', " "),
    }
}
