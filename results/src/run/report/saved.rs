//! Saved crawl that a run is a session of (`--save`, `--resume`).
//!
//! Made by the command from the checkpoints, after the run. The figures of the report are those of
//! the run; these are of all sessions.

use serde::{Deserialize, Serialize};

/// Saved crawl, after this run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedReport {
    /// Its directory, as it was given.
    pub directory: String,
    /// Items of the crawl.
    pub items: u64,
    /// Items whose committed record is final: good, not found, or forbidden by robots.txt.
    pub saved: u64,
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
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.saved == self.items
    }

    /// Return the requests of all sessions that were sent; none if those of a session were not
    /// counted.
    #[must_use]
    pub fn sent(&self) -> Option<u64> {
        self.sessions
            .iter()
            .map(|session| session.sent)
            .try_fold(0_u64, |sum, sent| Some(sum.saturating_add(sent?)))
    }

    /// Return the saved items per second of all sessions: their own time, without the gaps between
    /// them. None without any time.
    #[must_use]
    pub fn items_per_s(&self) -> Option<f64> {
        let active_s: f64 = self.sessions.iter().map(|session| session.active_s).sum();
        (active_s > 0.0).then(|| self.saved as f64 / active_s)
    }
}
