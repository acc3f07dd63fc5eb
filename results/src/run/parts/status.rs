//! State of an attempt while it goes on, which it writes again each second: `status.json`.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::run::result_dir::foreign;

/// State of an attempt, for people who watch. No result depends on it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AttemptStatus {
    /// State at that time.
    pub state: AttemptState,
    /// Time of this status by the clock of its machine, µs after the Unix epoch.
    pub at_us: u64,
    /// Number of statuses so far: the beat of an attempt that died does not grow.
    pub beat: u64,
    /// Slot that it holds; null while it waits for one.
    pub slot: Option<u32>,
    /// Items that it has to crawl.
    pub planned: u64,
    /// Items that have ended.
    pub items: u64,
    /// Requests so far.
    pub requests: u64,
    /// Failed items.
    pub failed: u64,
    /// Requests in the last complete second.
    pub requests_per_s: u64,
    /// Median service time in it, µs; null without enough responses.
    pub p50_us: Option<f64>,
    /// 99th percentile in it, µs; null without enough responses.
    pub p99_us: Option<f64>,
}

/// State of an attempt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptState {
    /// An attempt that waits: for a slot, or, once it holds one, for the common start or for
    /// robots.txt.
    #[default]
    Waiting,
    /// An attempt that crawls.
    Running,
    /// Its crawl is over.
    Ended,
}

impl AttemptStatus {
    /// Read the status at `path`; none if there is none yet.
    ///
    /// # Errors
    /// When it cannot be read, or is none.
    pub fn read(path: &Path) -> io::Result<Option<Self>> {
        match foreign::read_small_text(path) {
            Ok(text) => foreign::from_str(&text).map(Some).map_err(|error| {
                io::Error::new(io::ErrorKind::InvalidData, foreign::one_line(&error))
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}
