//! The crawl around a run: its command line, the saved crawl that it is a session of (`--save`,
//! `--resume`), the rules of robots.txt that it obeyed, and the parts that it was merged from.
//!
//! Made by the commands, and by [`crate::run::parts`]. Items that the rules forbid are `skipped` in
//! the ledger; the shards of a merged report are the parts of the crawl.

use serde::{Deserialize, Serialize};

/// The command line that asks for the same plan again. Made by the reader of the one that was
/// typed: the plan alone does not say which of its values were asked for, and the harness knows no
/// flags.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandLine {
    /// Its arguments, the program's name first. No secret is among them.
    pub arguments: Vec<String>,
    /// Parts to be added by hand because they may be secret, or were never seen: for people.
    pub withheld: Vec<String>,
}

impl CommandLine {
    /// True if it begins with the program and the command that save results: only then is it shown
    /// as a command to repeat.
    pub(crate) fn is_of_run(&self) -> bool {
        matches!(&*self.arguments, [program, command, ..] if program == "crawlmark" && command == "run")
    }
}

/// Saved crawl, after this run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedReport {
    /// Its directory, as it was given.
    pub directory: String,
    /// Items of the crawl.
    pub items: u64,
    /// Items whose committed record is final: good, not found, or forbidden by robots.txt.
    pub saved: u64,
    /// Command that crawls the items that are left.
    pub resume: String,
    /// Failure that loses no committed record: `process` or `power`.
    pub durability: String,
    /// Sessions, from the first to this one.
    pub sessions: Vec<SavedSession>,
}

/// Session of a saved crawl: one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedSession {
    /// Number, from 1.
    pub session: u32,
    /// When the first saved item was requested, RFC 3339 in UTC; null if none was.
    pub from: Option<String>,
    /// When the last saved item was requested.
    pub to: Option<String>,
    /// Time between the two, s.
    pub active_s: f64,
    /// Items with a committed record.
    pub items: u64,
    /// Requests for these items in the session.
    pub requests: u64,
    /// Requests that the session sent, those whose items were not saved by it included; null if
    /// they are not known: they were not counted, or a power cut lost counts.
    pub sent: Option<u64>,
    /// Bytes of the records on the disk, compressed.
    pub bytes: u64,
    /// Median service time of the last request of each item, µs; null with fewer than ten values
    /// beyond it.
    pub p50_us: Option<u64>,
    /// 99th percentile of it, µs; null with fewer than ten values beyond it.
    pub p99_us: Option<u64>,
}

impl SavedReport {
    /// True if each item has a final record.
    pub const fn is_complete(&self) -> bool {
        self.saved == self.items
    }

    /// Return the requests of all sessions that were sent; none if those of a session were not
    /// counted.
    pub fn sent(&self) -> Option<u64> {
        self.sessions
            .iter()
            .map(|session| session.sent)
            .try_fold(0_u64, |sum, sent| Some(sum.saturating_add(sent?)))
    }

    /// Return the saved items per second of all sessions: their own time, without the gaps between
    /// them. None without any time.
    pub fn items_per_s(&self) -> Option<f64> {
        let active_s: f64 = self.sessions.iter().map(|session| session.active_s).sum();
        (active_s > 0.0).then(|| self.saved as f64 / active_s)
    }
}

/// Files robots.txt of the hosts of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RobotsReport {
    /// Requests for them, before the run: not in `totals`.
    pub requests: u64,
    /// The largest crawl-delay, s: least time between two requests to a host. Null if no host asks
    /// for one.
    pub crawl_delay_s: Option<f64>,
    /// Hosts with a robots.txt.
    pub with_rules: u32,
    /// Hosts whose robots.txt could not be fetched, so that nothing of them may be crawled.
    pub unreachable: u32,
    /// The first hundred hosts.
    pub hosts: Vec<RobotsHost>,
}

/// File robots.txt of a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RobotsHost {
    /// Scheme, name and port.
    pub host: String,
    /// Status of its response; null without one.
    pub status: Option<u16>,
    /// Consequence of the response.
    pub outcome: RobotsOutcome,
    /// Least time between two requests that it asks for, s; null if it asks for none.
    pub crawl_delay_s: Option<f64>,
}

/// Result of a fetch of robots.txt (RFC 9309, 2.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RobotsOutcome {
    /// There are rules.
    Rules,
    /// There are none (status 4xx): all may be crawled.
    None,
    /// There was no answer, status 429 or 5xx, or a redirect to another host: nothing may be
    /// crawled.
    Unreachable,
}

/// Parts of a merged report.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MergedReport {
    /// Their directory, as it was given.
    pub directory: String,
    /// Parts of the crawl.
    pub parts: u32,
    /// Parts that have no result, the first hundred: their items count as not attempted.
    pub missing: Vec<u32>,
    /// Number of parts that have no result.
    pub missing_parts: u32,
    /// Most parts that ran at once, each with an equal share of the rate and the connections.
    pub slots: u32,
    /// Part of the time in which the slots were in use, 0 to 1. In the rest, none of their rate was
    /// used.
    pub slots_used: f64,
    /// Machines that the parts ran on.
    pub machines: u32,
    /// Requests for robots.txt that the merged parts sent before their start: not in `totals`.
    pub robots_requests: u64,
    /// Greatest error in the alignment of the parts' seconds, µs: rounding to whole seconds, and
    /// the error of the machines' clocks. Null if the error of a clock is unknown.
    pub aligned_within_us: Option<u64>,
    /// Greatest error of a machine's clock against UTC, µs, as reported by the kernel. Null if a
    /// machine's clock is not synchronized.
    pub clock_error_us: Option<u64>,
    /// Parts that started more than a second after the plan's common start: all that had to wait
    /// for a slot. Absent if the plan has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_parts: Option<u32>,
    /// Time from the common start to the start of the last part, µs. Absent if the plan has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_start_us: Option<u64>,
    /// Attempts beside the merged ones: they lost the race to publish, were stopped, or died.
    pub other_attempts: u32,
    /// Requests that are not in `totals`: those of these attempts, for robots.txt too, and those
    /// that shards that died had not reported.
    pub additional_requests: u64,
    /// The attempts among them that reported no end: killed, lost with their machine, or still
    /// running.
    pub died_attempts: u32,
    /// The attempts among those that left no count of their requests: their requests are counted
    /// until their last second.
    pub uncounted_attempts: u32,
    /// The first twenty of those attempts.
    pub others: Vec<OtherAttempt>,
}

/// An attempt that was not merged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherAttempt {
    /// Its part.
    pub part: u32,
    /// Its name.
    pub attempt: String,
    /// Requests that it sent.
    pub requests: u64,
    /// True if it reported its end; otherwise it was killed, was lost with its machine, or still
    /// runs.
    pub has_ended: bool,
    /// True if these are all of its requests; otherwise those until its last second.
    pub is_counted: bool,
}

impl MergedReport {
    /// True if each part was crawled once: nothing is missing, and no other attempt sent requests.
    pub const fn is_clean(&self) -> bool {
        self.missing_parts == 0 && self.other_attempts == 0
    }
}
