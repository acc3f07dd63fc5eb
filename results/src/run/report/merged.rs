//! Parts that a report was merged from (`merge`).
//!
//! Made by [`crate::run::parts`]. The shards of a merged report are the parts of the crawl.

use serde::{Deserialize, Serialize};

/// Parts of a merged report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.missing_parts == 0 && self.other_attempts == 0
    }
}
