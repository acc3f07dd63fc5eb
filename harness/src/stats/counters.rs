//! Counters: items by final state, attempts by outcome.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::sample::{ErrorKind, Fate, Outcome, Sample};
use crate::workload::InFlight;

/// Counts of items, attempts, connections and bytes. Constant in size: statuses and kinds of error are few.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Items that ended well.
    pub ok: u64,
    /// Items that ended well at their first attempt.
    pub ok_at_first: u64,
    /// Items that the target does not have.
    pub not_found: u64,
    /// Items that ended in a rejection, a challenge or an error.
    pub failed: u64,
    /// Items that were throttled until no attempt was left.
    pub gave_up: u64,
    /// Items cut off when the run was stopped.
    pub aborted: u64,
    /// Items that waited for another attempt when the run was stopped; in no final state.
    pub unfinished: u64,
    /// Requests tried, the failed ones included.
    pub attempts: u64,
    /// Attempts beyond the first of their item.
    pub retries: u64,
    /// Requests that were sent, those cut off at the end of the run included.
    pub attempts_sent: u64,
    /// Requests of an open loop that were intended and never went; no attempts.
    pub dropped: u64,
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
    /// Answers by status.
    pub by_status: BTreeMap<u16, u64>,
    /// Failures by kind.
    pub by_error: BTreeMap<ErrorKind, u64>,
    /// Attempts that failed because of the status that they were answered with.
    pub rejected: BTreeMap<u16, u64>,
}

impl Counters {
    /// Items in a final state.
    #[must_use]
    pub const fn items(&self) -> u64 {
        self.ok + self.not_found + self.failed + self.gave_up + self.aborted
    }

    /// Attempts that were neither good, nor not found, nor throttled: the `errors` of thresholds and of the live view. Those cut off
    /// are among them. A good item, and one that is not there, has one attempt that says so.
    #[must_use]
    pub const fn errors(&self) -> u64 {
        self.attempts.saturating_sub(self.ok + self.not_found + self.throttled)
    }

    /// Adds `other`.
    pub fn merge(&mut self, other: &Self) {
        self.combine(other, |own, others| *own += others);
    }

    /// Return these counts without those in `part`, which are among them.
    #[must_use]
    pub fn without(mut self, part: &Self) -> Self {
        self.combine(part, |own, others| *own = own.saturating_sub(others));
        self
    }

    fn combine(&mut self, other: &Self, change: impl Fn(&mut u64, u64)) {
        fn combine<K: Ord + Copy>(
            own: &mut BTreeMap<K, u64>,
            others: &BTreeMap<K, u64>,
            change: impl Fn(&mut u64, u64),
        ) {
            for (key, count) in others {
                change(own.entry(*key).or_default(), *count);
            }
            own.retain(|_, count| *count > 0);
        }
        let Self {
            ok,
            ok_at_first,
            not_found,
            failed,
            gave_up,
            aborted,
            unfinished,
            attempts,
            retries,
            attempts_sent,
            dropped,
            throttled,
            soft_blocked,
            connections_opened,
            bytes_sent,
            bytes_received,
            by_status,
            by_error,
            rejected,
        } = other;
        change(&mut self.ok, *ok);
        change(&mut self.ok_at_first, *ok_at_first);
        change(&mut self.not_found, *not_found);
        change(&mut self.failed, *failed);
        change(&mut self.gave_up, *gave_up);
        change(&mut self.aborted, *aborted);
        change(&mut self.unfinished, *unfinished);
        change(&mut self.attempts, *attempts);
        change(&mut self.retries, *retries);
        change(&mut self.attempts_sent, *attempts_sent);
        change(&mut self.dropped, *dropped);
        change(&mut self.throttled, *throttled);
        change(&mut self.soft_blocked, *soft_blocked);
        change(&mut self.connections_opened, *connections_opened);
        change(&mut self.bytes_sent, *bytes_sent);
        change(&mut self.bytes_received, *bytes_received);
        combine(&mut self.by_status, by_status, &change);
        combine(&mut self.by_error, by_error, &change);
        combine(&mut self.rejected, rejected, &change);
    }

    /// Counts an attempt that was cut off, and what went over its connection; its item had been attempted `attempt` times before.
    pub(crate) fn abort(&mut self, attempt: u32, in_flight: Option<InFlight>) {
        self.attempts += 1;
        self.retries += u64::from(attempt > 0);
        self.aborted += 1;
        if let Some(InFlight { bytes_sent, bytes_received, .. }) = in_flight {
            self.attempts_sent += 1;
            self.bytes_sent += bytes_sent;
            self.bytes_received += bytes_received;
        }
    }

    /// Books one attempt that ended, and its item if that was its last.
    pub(crate) fn record(&mut self, sample: &Sample) {
        let attempt = &sample.attempt;
        self.attempts += 1;
        self.retries += u64::from(sample.permit.attempt > 0);
        self.attempts_sent += u64::from(attempt.sent.is_some());
        self.bytes_sent += attempt.bytes_sent;
        self.bytes_received += attempt.bytes_received;
        if let Some(status) = attempt.status {
            count(&mut self.by_status, status);
        }
        match attempt.outcome {
            Outcome::Throttled => self.throttled += 1,
            Outcome::SoftBlocked => self.soft_blocked += 1,
            Outcome::Error(kind) => count(&mut self.by_error, kind),
            Outcome::Rejected => attempt.status.into_iter().for_each(|status| count(&mut self.rejected, status)),
            Outcome::Ok | Outcome::NotFound => {}
        }
        match sample.fate {
            Fate::Ended => {
                self.end_item(attempt.outcome);
                self.ok_at_first += u64::from(attempt.outcome == Outcome::Ok && sample.permit.attempt == 0);
            }
            Fate::Again => {}
        }
    }

    /// Books the end of an item whose last attempt came to `outcome`.
    fn end_item(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Ok => self.ok += 1,
            Outcome::NotFound => self.not_found += 1,
            Outcome::Throttled => self.gave_up += 1,
            Outcome::SoftBlocked | Outcome::Rejected | Outcome::Error(_) => self.failed += 1,
        }
    }
}

/// Counts one more of `key`. It nearly always is there already, which an entry does not make use of.
fn count<K: Ord>(counts: &mut BTreeMap<K, u64>, key: K) {
    match counts.get_mut(&key) {
        Some(count) => *count += 1,
        None => drop(counts.insert(key, 1)),
    }
}
