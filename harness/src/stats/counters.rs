//! Counters: items by final state, attempts by outcome, connections, TLS handshakes.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::table::{Counter, counters};
use crate::sample::{
    Asides, Attempt, ErrorKind, Fate, Handshake, InFlight, Opened, Outcome, Sample,
};

counters! {
    /// Items that were tried, by state.
    #[derive(Copy)]
    pub struct ItemCounts {
        /// Items that ended well.
        ok: u64 as "ok",
        /// Items that the target does not have.
        not_found: u64 as "not found",
        /// Items that ended in a rejection, a challenge or an error.
        failed: u64 as "failed",
        /// Items that were throttled until no attempt was left.
        gave_up: u64 as "abandoned (throttled)",
        /// Items cut off when the run was stopped.
        aborted: u64 as "cut off at the end",
        /// Items that waited for another attempt when the run was stopped; in no final state.
        unfinished: u64 as "unfinished",
        /// Items that robots.txt forbids, so that they were not requested.
        skipped: u64 as "skipped (robots.txt)",
    }
}

counters! {
    /// Attempts by outcome, and what they took. Constant in size: statuses and kinds of error are
    /// few.
    pub struct RequestCounts {
        /// Requests tried, the failed ones included.
        attempts: u64 as "requests",
        /// Attempts beyond the first of their item.
        retries: u64 as "retries",
        /// Items that ended well at their first attempt.
        ok_at_first: u64,
        /// Requests that were sent, those cut off at the end of the run included.
        attempts_sent: u64,
        /// Requests of an open loop that were due and never went.
        dropped: u64 as "due and never sent",
        /// Requests that met the objectives of their run; 0 without any.
        #[serde(default)]
        met: u64 as "met the objectives",
        /// Answers by status.
        #[serde(deserialize_with = "by_number")]
        attempts_by_status: BTreeMap<u16, u64>,
        /// Failures by kind.
        errors_by_kind: BTreeMap<ErrorKind, u64>,
        /// Attempts that failed because of the status that they were answered with.
        #[serde(deserialize_with = "by_number")]
        rejected_by_status: BTreeMap<u16, u64>,
        /// Attempts that the target throttled.
        throttled: u64 as "throttled",
        /// Attempts that were answered with a challenge page.
        soft_blocked: u64 as "challenged",
        /// Attempts that were redirected, and followed by another one.
        redirects: u64 as "redirects",
        /// Good answers that another request of their item followed.
        steps: u64 as "followed by another request",
        /// Connections opened.
        connections_opened: u64 as "connections opened",
        /// Opened connections that carried no request: the run ended while a limit or a pause held
        /// their first one back.
        connections_unused: u64 as "opened and never used",
        /// Connections closed because the target sent bytes that no request had asked for.
        unsolicited: u64 as "closed for unsolicited bytes",
        /// Connections opened, by protocol.
        connections_by_protocol: BTreeMap<String, u64>,
        /// Requests sent once more because the target had not begun them; each is one attempt.
        resent: u64 as "sent again, not begun",
        /// Names looked up again during the run, by --dns-ttl.
        lookups: u64 as "names looked up again",
        /// Lookups during the run that found no address to use; the old ones were kept.
        lookups_failed: u64 as "lookups failed",
        /// Source addresses used, by --local-ips; one is counted once for each host.
        sources_used: u64 as "source addresses used",
        /// Source addresses whose first request was throttled: the target does not limit each by
        /// itself.
        sources_throttled_at_first: u64 as "source addresses throttled at first",
        /// Good answers that said that the one of an earlier crawl still holds.
        #[serde(default)]
        not_modified: u64 as "not modified",
        /// Next pages that were requested.
        pages_followed: u64 as "next pages",
        /// Next pages that their items had requested before: they were not requested again.
        pages_repeated: u64 as "next pages that repeat",
        /// Next pages beyond the most that an item requests.
        pages_cut: u64 as "next pages beyond the most",
        /// First pages that named no next one.
        pages_without_next: u64 as "first pages without a next",
        /// Requests that are sent once for a shard, which failed for good.
        shared_failed: u64 as "logins that failed for good",
        /// Events of streamed answers.
        events: u64 as "events",
        /// Bytes of requests, heads included.
        bytes_sent: u64 as "sent",
        /// Bytes of answers, heads included.
        bytes_received: u64 as "received",
    }
}

/// Read counts by a number, which is a text in JSON.
pub(super) fn by_number<'de, K, D>(deserializer: D) -> Result<BTreeMap<K, u64>, D::Error>
where
    K: Ord + FromStr + Deserialize<'de>,
    D: Deserializer<'de>,
{
    if !deserializer.is_human_readable() {
        return BTreeMap::deserialize(deserializer);
    }
    let read = BTreeMap::<String, u64>::deserialize(deserializer)?;
    read.into_iter()
        .map(|(text, count)| match text.parse() {
            Ok(number) => Ok((number, count)),
            Err(_) => Err(D::Error::custom(format_args!("{text:?} is not a number"))),
        })
        .collect()
}

/// Counts of a shard, of one interval of a shard, or of the whole run once merged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Items by state.
    pub items: ItemCounts,
    /// Attempts by outcome, connections and bytes.
    pub requests: RequestCounts,
    /// TLS handshakes.
    pub tls: TlsCounts,
}

counters! {
    /// TLS handshakes. Constant in size: versions and cipher suites are few.
    pub struct TlsCounts {
        /// Handshakes completed in full.
        full: u64,
        /// Handshakes that resumed an earlier session.
        resumed: u64,
        /// Complete handshakes by protocol version and cipher suite.
        sessions: BTreeMap<String, u64>,
    }
}

impl TlsCounts {
    /// Count a handshake that is complete.
    fn record(&mut self, handshake: &Handshake) {
        let Handshake {
            ns: _,
            is_resumed,
            version,
            cipher,
        } = *handshake;
        self.full += u64::from(!is_resumed);
        self.resumed += u64::from(is_resumed);
        count(&mut self.sessions, format!("{version} {cipher}"));
    }
}

counters! {
    /// Counts of what ended in a second, as they are reported.
    pub struct SecondCounts {
        /// Attempts that ended in it or were cut off.
        attempts: u64,
        /// Items that ended, without those that were skipped.
        items: u64,
        /// Good answers.
        ok: u64,
        /// The target has no such item.
        not_found: u64,
        /// Rejected, challenged, or without a valid answer.
        failed: u64,
        /// Attempts beyond the first of their item.
        retries: u64,
        /// Throttled.
        throttled: u64,
        /// Met the objectives.
        #[serde(default)]
        met: u64,
        /// Answered with a challenge page.
        soft_blocked: u64,
        /// Cut off.
        aborted: u64,
        /// Attempts without a valid answer, by kind.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        errors_by_kind: BTreeMap<ErrorKind, u64>,
        /// Connections opened.
        connections_opened: u64,
        /// Bytes of answers, heads included.
        bytes_received: u64,
    }
}

impl RequestCounts {
    /// Attempts that repeat a request: a redirect and a further request of an item are none.
    #[must_use]
    pub const fn repeats(&self) -> u64 {
        self.retries
            .saturating_sub(self.steps.saturating_add(self.redirects))
    }
}

impl SecondCounts {
    /// Select the counts that a second reports.
    #[must_use]
    pub fn of(items: &ItemCounts, requests: &RequestCounts) -> Self {
        let ItemCounts {
            ok,
            not_found,
            failed,
            aborted,
            ..
        } = *items;
        let RequestCounts {
            attempts,
            retries,
            throttled,
            met,
            soft_blocked,
            steps,
            connections_opened,
            bytes_received,
            ..
        } = *requests;
        Self {
            attempts,
            items: items.completed() + items.aborted,
            ok: ok + steps,
            not_found,
            failed,
            retries,
            throttled,
            met,
            soft_blocked,
            aborted,
            errors_by_kind: requests.errors_by_kind.clone(),
            connections_opened,
            bytes_received,
        }
    }
}

impl ItemCounts {
    /// Items in a final state.
    #[must_use]
    pub const fn ended(&self) -> u64 {
        self.completed() + self.aborted + self.skipped
    }

    /// Items that had an attempt, as far as is known.
    #[must_use]
    pub const fn begun(&self) -> u64 {
        self.completed()
            .saturating_add(self.aborted)
            .saturating_add(self.unfinished)
    }

    /// Items that were dealt out: those that had an attempt, and those that were skipped.
    #[must_use]
    pub const fn dealt(&self) -> u64 {
        self.begun().saturating_add(self.skipped)
    }

    /// Items that ended by themselves.
    #[must_use]
    pub const fn completed(&self) -> u64 {
        self.ok + self.not_found + self.failed + self.gave_up
    }
}

impl RequestCounts {
    /// Attempts that failed: neither good, nor not found, nor throttled, nor redirected, nor cut
    /// off.
    #[must_use]
    pub fn failed(&self) -> u64 {
        // A result that is read may hold any numbers.
        self.errors_by_kind
            .values()
            .chain(self.rejected_by_status.values())
            .fold(self.soft_blocked, |sum, count| sum.saturating_add(*count))
    }

    /// Attempts of one kind of error.
    #[must_use]
    pub fn errors_of(&self, kind: ErrorKind) -> u64 {
        self.errors_by_kind.get(&kind).copied().unwrap_or(0)
    }
}

impl Counters {
    /// Attempts that were neither good, nor not found, nor throttled, nor redirected: the `errors`
    /// of thresholds and of the live view. Those cut off are among them.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.requests.failed().saturating_add(self.items.aborted)
    }

    /// Requests that ended by themselves: those that were cut off are no responses.
    #[must_use]
    pub const fn completed(&self) -> u64 {
        self.requests.attempts.saturating_sub(self.items.aborted)
    }

    /// Merge with `other`.
    pub fn merge(&mut self, other: &Self) {
        let Self {
            items,
            requests,
            tls,
        } = other;
        self.items.merge(items);
        self.requests.merge(requests);
        self.tls.merge(tls);
    }

    /// Return these counts without those in `part`, which are among them.
    #[must_use]
    pub fn without(self, part: &Self) -> Self {
        let Self {
            items,
            requests,
            tls,
        } = part;
        Self {
            items: self.items.without(items),
            requests: self.requests.without(requests),
            tls: self.tls.without(tls),
        }
    }

    /// Count a connection that was opened, and its TLS handshake.
    pub(crate) fn open_connection(&mut self, opened: &Opened) {
        self.requests.connections_opened += 1;
        if let Some(handshake) = &opened.handshake {
            self.tls.record(handshake);
        }
        if let Some(protocol) = opened.protocol {
            count(
                &mut self.requests.connections_by_protocol,
                protocol.to_owned(),
            );
        }
    }

    /// Count events beside the attempts.
    pub(crate) const fn add_asides(&mut self, asides: Asides) {
        self.requests.unsolicited += asides.unsolicited;
        self.requests.resent += asides.resent;
        self.requests.lookups += asides.lookups;
        self.requests.lookups_failed += asides.lookups_failed;
        self.requests.sources_used += asides.sources_used;
        self.requests.sources_throttled_at_first += asides.sources_throttled_at_first;
        self.requests.pages_followed += asides.pages_followed;
        self.requests.pages_repeated += asides.pages_repeated;
        self.requests.pages_cut += asides.pages_cut;
        self.requests.pages_without_next += asides.pages_without_next;
        self.requests.shared_failed += asides.shared_failed;
        self.requests.events += asides.events;
    }

    /// Every counter of items and requests that is one number, with its value.
    pub fn iter(&self) -> impl Iterator<Item = (Counter, u64)> + use<> {
        self.items.iter().chain(self.requests.iter())
    }

    /// Counts an attempt that was cut off, and what went over its connection; its item had been
    /// attempted `attempt` times before.
    pub(crate) fn abort(&mut self, attempt: u32, in_flight: Option<InFlight>) {
        self.requests.attempts += 1;
        self.requests.retries += u64::from(attempt > 0);
        self.items.aborted += 1;
        if let Some(InFlight {
            bytes_sent,
            bytes_received,
            ..
        }) = in_flight
        {
            self.requests.attempts_sent += 1;
            self.requests.bytes_sent += bytes_sent;
            self.requests.bytes_received += bytes_received;
        }
    }

    /// Counts one attempt that ended, and its item if that was its last.
    pub(crate) fn record(&mut self, sample: &Sample) {
        self.add(&Alike::of(sample, Ending::of(sample, false)));
    }

    /// Count attempts that ended alike, and their items if those were their last.
    pub(crate) fn add(&mut self, alike: &Alike) {
        let Alike {
            ending:
                Ending {
                    outcome,
                    status,
                    is_last,
                    is_retry,
                    is_sent,
                    is_met,
                },
            count,
            bytes_sent,
            bytes_received,
        } = *alike;
        let (items, requests) = (&mut self.items, &mut self.requests);
        requests.attempts += count;
        requests.retries += count * u64::from(is_retry);
        requests.attempts_sent += count * u64::from(is_sent);
        requests.met += count * u64::from(is_met);
        requests.bytes_sent += bytes_sent;
        requests.bytes_received += bytes_received;
        if let Some(status) = status {
            *requests.attempts_by_status.entry(status).or_default() += count;
        }
        let item = match outcome {
            Outcome::Ok | Outcome::NotModified => {
                requests.not_modified += count * u64::from(outcome == Outcome::NotModified);
                requests.ok_at_first += count * u64::from(is_last && !is_retry);
                &mut items.ok
            }
            Outcome::NotFound => &mut items.not_found,
            Outcome::Throttled => {
                requests.throttled += count;
                &mut items.gave_up
            }
            Outcome::SoftBlocked => {
                requests.soft_blocked += count;
                &mut items.failed
            }
            Outcome::Redirected => {
                requests.redirects += count;
                &mut items.failed
            }
            Outcome::Stepped => {
                requests.steps += count;
                &mut items.failed
            }
            Outcome::Rejected => {
                if let Some(status) = status {
                    *requests.rejected_by_status.entry(status).or_default() += count;
                }
                &mut items.failed
            }
            Outcome::Error(kind) => {
                *requests.errors_by_kind.entry(kind).or_default() += count;
                &mut items.failed
            }
        };
        *item += count * u64::from(is_last);
    }
}

/// End of an attempt, as far as it is counted.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is counted by itself, and attempts alike in all of them together"
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) outcome: Outcome,
    status: Option<u16>,
    /// True if its item ended with it.
    is_last: bool,
    is_retry: bool,
    is_sent: bool,
    /// True if it met the objectives of its run.
    is_met: bool,
}

impl Ending {
    /// The end of the attempt of a sample, which met the objectives of its run or not.
    #[inline]
    pub(crate) fn of(sample: &Sample, is_met: bool) -> Self {
        Self {
            outcome: sample.attempt.outcome,
            status: sample.attempt.status,
            is_last: sample.fate == Fate::Ended,
            is_retry: sample.permit.attempt > 0,
            is_sent: sample.attempt.sent.is_some(),
            is_met,
        }
    }

    /// True if the attempt had an answer of any status.
    pub(crate) const fn is_answer(self) -> bool {
        self.status.is_some() || !matches!(self.outcome, Outcome::Error(_))
    }
}

/// Attempts that ended alike.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Alike {
    pub(crate) ending: Ending,
    pub(crate) count: u64,
    bytes_sent: u64,
    bytes_received: u64,
}

impl Alike {
    /// The attempt of a sample, which ended so.
    pub(crate) const fn of(sample: &Sample, ending: Ending) -> Self {
        let mut alike = Self {
            ending,
            count: 0,
            bytes_sent: 0,
            bytes_received: 0,
        };
        alike.add(&sample.attempt);
        alike
    }

    /// Add an attempt that ended alike.
    #[inline]
    pub(crate) const fn add(&mut self, attempt: &Attempt) {
        self.count += 1;
        self.bytes_sent += attempt.bytes_sent;
        self.bytes_received += attempt.bytes_received;
    }
}

/// Count one more of `key`.
fn count<K: Ord>(counts: &mut BTreeMap<K, u64>, key: K) {
    *counts.entry(key).or_default() += 1;
}
