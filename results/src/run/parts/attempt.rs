//! Record of an attempt at a part, written at its end: `attempt.json`, and, once published,
//! `RESULT`.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::digest::{is_sealed, seal};
use super::directory::{PartsDirectory, is_name};
use super::plan_file::PlanFile;
use crate::run::report::{Environment, Finding, GroupRow, Report, Verdict};
use crate::run::result_dir::foreign;
use crawlmark_harness::stats::ItemCounts;

/// Value of [`AttemptRecord::schema`].
const SCHEMA: &str = "crawlmark.part/1";

/// An attempt that has ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AttemptRecord {
    /// `crawlmark.part/1`.
    pub schema: String,
    /// See [`PlanFile::digest`](super::PlanFile::digest).
    pub plan: String,
    /// Number of the part, from 0.
    pub part: u32,
    /// Name of the attempt, unique to it: the name of its directory.
    pub attempt: String,
    /// The slot whose budget it used.
    pub slot: u32,
    /// Name of its machine.
    pub host: String,
    /// Start by its machine's clock, µs after the Unix epoch.
    pub started_at_us: u64,
    /// End, µs after the Unix epoch: the start and the time that passed since then, whatever the
    /// machine's clock was set to.
    pub finished_at_us: u64,
    /// Its machine's clock, compared with that of the directory's file server; null if that could
    /// not be read.
    pub clock: Option<ClockReading>,
    /// Greatest error of its machine's clock against UTC, µs, as reported by the kernel; null if it
    /// is not synchronized.
    pub clock_error_us: Option<u64>,
    /// IDs that earlier attempts had saved, and that it took over: no items of its own.
    pub finished_before: u64,
    /// Items that it tried, by state.
    pub items: ItemCounts,
    /// Requests that it sent, those included that shards that died did not report.
    pub requests: u64,
    /// Requests for robots.txt before its start: not in `requests`.
    pub robots_requests: u64,
    /// Crawl-delay of robots.txt that limited the rate of each host, s; null if none did.
    pub crawl_delay_s: Option<f64>,
    /// True if it ended by itself and all of its shards reported their end: only then may it be
    /// published.
    pub whole: bool,
    /// Verdict on its measurement.
    pub verdict: Verdict,
    /// Reasons for the verdict.
    pub reasons: Vec<String>,
    /// Hosts, URL templates and source addresses of its report, which have names.
    #[serde(default)]
    pub groups: Vec<GroupRow>,
    /// CRC-32 of each file in its directory that does not change any more, by name.
    pub files: BTreeMap<String, u32>,
    /// Directory of its saved crawl, inside its own; null if it saved nothing.
    pub saved: Option<String>,
    /// Its machine.
    pub environment: Environment,
}

/// A machine's clock, compared with another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockReading {
    /// Time by which the machine's clock is ahead, µs; negative if it is behind.
    pub ahead_us: i64,
    /// Greatest error of that, µs.
    pub within_us: u64,
}

impl AttemptRecord {
    /// The record of an attempt with this report. What the report does not hold is to be filled in.
    pub fn of(report: &Report, whole: bool) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            finished_before: report.finished_before.unwrap_or(0),
            items: report.ledger.items,
            requests: report.totals.attempts_sent,
            robots_requests: report.robots.as_ref().map_or(0, |robots| robots.requests),
            crawl_delay_s: report
                .robots
                .as_ref()
                .filter(|_| report.plan.run.workload.per_host_rate_from.is_some())
                .and_then(|robots| robots.crawl_delay_s),
            whole,
            verdict: report.validity.verdict,
            reasons: report
                .findings_of(&Verdict::ALL)
                .map(Finding::text)
                .collect(),
            groups: report.groups().cloned().collect(),
            environment: report.environment.clone(),
            ..Self::default()
        }
    }

    /// Return the text of its file, with a checksum.
    ///
    /// # Errors
    /// When a value has no form in JSON.
    pub fn text(&self) -> serde_json::Result<String> {
        Ok(seal(&serde_json::to_string_pretty(self)?))
    }

    /// Read the record at `path`; none if there is none.
    ///
    /// # Errors
    /// When it cannot be read, or is none.
    pub fn read(path: &Path) -> io::Result<Option<Self>> {
        let remedy = "Remove the file and run the part again";
        let invalid =
            |why: String| io::Error::new(io::ErrorKind::InvalidData, format!("{why}. {remedy}"));
        let text = match foreign::read_small_text(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(invalid(error.to_string()));
            }
            Err(error) => return Err(error),
        };
        let record: Self =
            foreign::from_str(&text).map_err(|error| invalid(foreign::one_line(&error)))?;
        if !is_sealed(&text) {
            return Err(invalid("its checksum does not match its bytes".to_owned()));
        }
        if record.schema != SCHEMA {
            return Err(invalid(format!(
                "its schema is `{}`, not `{SCHEMA}`",
                foreign::short(&record.schema)
            )));
        }
        let names: Vec<&String> = [Some(&record.attempt), record.saved.as_ref()]
            .into_iter()
            .flatten()
            .chain(record.files.keys())
            .collect();
        if let Some(name) = names.into_iter().find(|name| !is_name(name)) {
            return Err(invalid(format!(
                "`{}` is not a name in its directory",
                foreign::short(name)
            )));
        }
        Ok(Some(record))
    }

    /// Read the record of the attempt that counts at a part of `plan`; none if none was published.
    ///
    /// # Errors
    /// As for [`read`](Self::read), or when it is of another plan or part.
    pub fn published(
        directory: &PartsDirectory,
        plan: &PlanFile,
        part: u32,
    ) -> io::Result<Option<Self>> {
        let read = Self::read(&directory.result(part))?;
        if read
            .as_ref()
            .is_some_and(|one| one.plan != plan.digest() || one.part != part || !one.whole)
        {
            let why = format!(
                "it is not a whole result of part {part} of this plan. Remove the file and run the part again"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok(read)
    }

    /// Return its start by the clock of the directory's file server, µs after the Unix epoch; by
    /// its own if that is unknown.
    pub fn start_us(&self) -> u64 {
        self.started_at_us.saturating_add_signed(
            self.clock
                .map_or(0, |clock| clock.ahead_us.saturating_neg()),
        )
    }
}
