//! A climb as it is saved: `ladder.json` (schema `crawlmark.ladder/1`).

use serde::{Deserialize, Serialize};

use super::limit::RungLimit;
use super::notes::notes;
use super::reading::RungReadings;
use super::rung::{Published, Rung};
use crate::run::report::{Environment, Verdict};

/// The name of the format.
pub const SCHEMA: &str = "crawlmark.ladder/1";

/// The name of the file.
pub const FILE: &str = "ladder.json";

/// A climb, whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ladder {
    /// [`SCHEMA`].
    pub schema: String,
    /// The version that climbed.
    pub crawlmark_version: String,
    /// Name that the user gives it.
    pub name: String,
    /// RFC 3339, UTC: the start of the first rung.
    pub started_at: String,
    /// RFC 3339, UTC: the end of the last one.
    pub finished_at: String,
    /// True if a signal, or a rung that failed, ended it before it was over.
    pub interrupted: bool,
    /// The machine.
    pub environment: Environment,
    /// Each rung, from the bottom.
    pub rungs: Vec<RungReport>,
    /// Probes that were run to find the connections of the rung that goes as far as it can; empty
    /// without it.
    pub search: Vec<Probe>,
    /// Causes of the differences from what was published.
    pub notes: Vec<String>,
}

/// A rung.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RungReport {
    /// Its number.
    pub rung: u8,
    /// See [`Rung::name`].
    pub name: String,
    /// See [`Rung::published`].
    pub published: Published,
    /// See [`Rung::published_limit`].
    pub published_limit: String,
    /// The flags of `run` that it is.
    pub flags: Vec<String>,
    /// The directory of its result.
    pub result: String,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// RFC 3339, UTC.
    pub finished_at: String,
    /// Verdict on the run itself.
    pub validity: Verdict,
    /// Its good items per second over those of the rung before; null for the first.
    pub times_before: Option<f64>,
    /// Readings of the run.
    #[serde(flatten)]
    pub reading: RungReadings,
    /// Limit of the rung.
    pub limit: RungLimit,
}

/// A short run of the search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// Its connections.
    pub connections: u32,
    /// Its good items per second.
    pub ok_per_s: f64,
}

/// A rung that was climbed.
#[derive(Debug, Clone)]
pub struct Climbed {
    /// The rung.
    pub rung: Rung,
    /// The flags of `run` that it was.
    pub flags: Vec<String>,
    /// The directory of its result.
    pub result: String,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// RFC 3339, UTC.
    pub finished_at: String,
    /// Verdict on the run itself.
    pub validity: Verdict,
    /// Readings of the run.
    pub reading: RungReadings,
}

/// Parts of a climb other than its rungs.
#[derive(Debug, Clone)]
pub struct ClimbContext {
    /// Name that the user gives it.
    pub name: String,
    /// The machine.
    pub environment: Environment,
    /// True if it was ended before it was over.
    pub interrupted: bool,
    /// Probes for the rung that goes as far as it can.
    pub search: Vec<Probe>,
}

impl Ladder {
    /// Build a ladder from these rungs, given in the order in which they were climbed.
    #[must_use]
    pub fn new(climbed: Vec<Climbed>, circumstances: ClimbContext) -> Self {
        let ClimbContext {
            name,
            environment,
            interrupted,
            search,
        } = circumstances;
        let started_at = climbed
            .first()
            .map_or_else(String::new, |first| first.started_at.clone());
        let finished_at = climbed
            .last()
            .map_or_else(String::new, |last| last.finished_at.clone());
        let mut before: Option<f64> = None;
        let rungs: Vec<RungReport> = climbed
            .into_iter()
            .map(|climbed| {
                let rate = climbed.reading.ok_per_s;
                let times_before = before
                    .replace(rate)
                    .filter(|before| *before > 0.0)
                    .map(|before| rate / before);
                RungReport::new(climbed, times_before)
            })
            .collect();
        let notes = notes(&rungs);
        Self {
            schema: SCHEMA.to_owned(),
            crawlmark_version: env!("CARGO_PKG_VERSION").to_owned(),
            name,
            started_at,
            finished_at,
            interrupted,
            environment,
            rungs,
            search,
            notes,
        }
    }

    /// The rung on which most good items came per second.
    #[must_use]
    pub fn top(&self) -> Option<&RungReport> {
        self.rungs
            .iter()
            .max_by(|a, b| a.reading.ok_per_s.total_cmp(&b.reading.ok_per_s))
    }
}

impl RungReport {
    fn new(climbed: Climbed, times_before: Option<f64>) -> Self {
        let Climbed {
            rung,
            flags,
            result,
            started_at,
            finished_at,
            validity,
            reading,
        } = climbed;
        Self {
            rung: rung.number,
            name: rung.name.to_owned(),
            published: rung.published,
            published_limit: rung.published_limit.to_owned(),
            flags,
            result,
            started_at,
            finished_at,
            validity,
            times_before,
            limit: RungLimit::of(&reading),
            reading,
        }
    }
}
