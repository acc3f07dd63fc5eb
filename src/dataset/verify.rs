//! Audit of a saved crawl: each item is finished once at most, and has one record in a session; and
//! indexes, checksums and digests say what the records say.
//!
//! Reads each segment once, a frame at a time. Memory is that of a frame, and of the recorded items
//! as ranges: a few for each segment, and one for each item that was in flight when a process
//! ended. Called by the command `verify`.

mod finding;
mod segment;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crawlmark_harness::process::FileCounters;
use serde::Serialize;

pub(crate) use self::finding::Violation;
use self::finding::{Findings, KEPT, Place, Remedy};
use self::segment::Auditor;
use super::manifest::MANIFEST;
use super::parts::SavedParts;
use super::saved::{SavedCrawl, SavedError, failed};
use super::segment::SegmentName;
use super::session::sent;
use crate::error::Error;

/// Value of [`Audit::schema`].
const SCHEMA: &str = "crawlmark.verify/1";

/// Result of an audit.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Audit {
    schema: &'static str,
    crawlmark_version: &'static str,
    /// Directory of the crawl.
    pub(crate) directory: String,
    /// Number of violations.
    pub(crate) violations_found: u64,
    /// The first of them.
    pub(crate) violations: Vec<Violation>,
    /// Harmless remarks.
    pub(crate) notes: Vec<String>,
    /// True if each item of the crawl is finished: good, not found, or skipped because robots.txt
    /// forbids it.
    pub(crate) complete: bool,
    /// Items of the whole crawl.
    pub(crate) planned: u64,
    /// Items that have a record.
    pub(crate) recorded: u64,
    /// Items that are finished. The others are asked for by `--resume`.
    pub(crate) finished: u64,
    /// Sessions that it was crawled in.
    pub(crate) sessions: u32,
    /// Segments.
    pub(crate) segments: u64,
    /// Bytes of the segments that belong to the crawl.
    pub(crate) bytes: u64,
    /// Bytes of their lines.
    pub(crate) line_bytes: u64,
    /// Records by outcome. An item that was asked for again has one of each session that it ended
    /// in.
    pub(crate) outcomes: BTreeMap<String, u64>,
    /// Requests for the recorded items; 0 if attempts are not saved.
    pub(crate) attempts: u64,
    /// Requests that all sessions sent; absent if they were not counted, or of parts, whose merged
    /// report has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sent: Option<u64>,
    /// Bodies whose digest was computed.
    pub(crate) bodies_checked: u64,
    /// Parts that the crawl was made in, on several machines; absent of other crawls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parts: Option<u32>,
    /// Number of parts that have no result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) missing_parts: Option<usize>,
    /// Their numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) missing: Option<Vec<u32>>,
}

/// Audit the saved crawls of all parts, one after another: their ranges follow one another, each ID
/// is finished once at most in its part, and each part has as many as its result counts.
///
/// # Errors
/// When a file cannot be read at all.
pub(crate) fn verify_parts(parts: &SavedParts) -> Result<Audit, Error> {
    let (whole, missing) = (parts.manifest()?, parts.missing());
    let mut sum = Audit {
        planned: whole.ids.len(),
        parts: Some(parts.plan.nodes),
        missing_parts: Some(missing.len()),
        missing: Some(missing),
        ..Audit::of(&parts.place)
    };
    for part in &parts.parts {
        let crawl = part.open()?;
        let mut audit = verify(&crawl, |_| {})?;
        let mut findings = Findings::default();
        for what in part.contradictions(&crawl, &whole, &parts.plan.ids(part.part).to_string()) {
            findings.add(MANIFEST, Place::default(), what, Remedy::Part);
        }
        if findings.count == 0 && audit.recorded < audit.planned && audit.violations_found == 0 {
            let what = format!(
                "{} of its {} IDs have no record",
                audit.planned - audit.recorded,
                audit.planned
            );
            findings.add(MANIFEST, Place::default(), what, Remedy::Part);
        }
        audit.violations_found += findings.count;
        audit.violations.extend(findings.first);
        sum.add(
            &part
                .place
                .strip_prefix(&parts.place)
                .unwrap_or(&part.place)
                .display()
                .to_string(),
            audit,
        );
    }
    sum.complete = sum.finished == sum.planned;
    Ok(sum)
}

impl Audit {
    /// The audit of a directory in which nothing was found yet.
    fn of(place: &Path) -> Self {
        Self {
            schema: SCHEMA,
            crawlmark_version: env!("CARGO_PKG_VERSION"),
            directory: place.display().to_string(),
            ..Self::default()
        }
    }

    /// Add the audit of the part in the directory `place`.
    fn add(&mut self, place: &str, part: Self) {
        self.violations_found += part.violations_found;
        let violations = part.violations.into_iter();
        self.violations
            .extend(violations.map(|violation| Violation {
                file: format!("{place}/{}", violation.file),
                ..violation
            }));
        self.violations.truncate(KEPT);
        self.notes.extend(
            part.notes
                .into_iter()
                .map(|note| format!("{place}: {note}")),
        );
        self.notes.truncate(KEPT);
        self.recorded += part.recorded;
        self.finished += part.finished;
        self.sessions += part.sessions;
        self.segments += part.segments;
        self.bytes += part.bytes;
        self.line_bytes += part.line_bytes;
        for (outcome, records) in part.outcomes {
            *self.outcomes.entry(outcome).or_default() += records;
        }
        self.attempts += part.attempts;
        self.bodies_checked += part.bodies_checked;
    }
}

/// Audit a crawl. `progress` is called with the number of bytes read of all [`SavedCrawl::bytes`].
///
/// # Errors
/// When a file cannot be read at all.
pub(crate) fn verify(
    crawl: &SavedCrawl,
    mut progress: impl FnMut(u64),
) -> Result<Audit, SavedError> {
    let mut auditor = Auditor::new(&crawl.manifest);
    others(crawl, &mut auditor.findings);
    for session in &crawl.counted {
        counts(
            &crawl.place,
            &SegmentName::requests(*session),
            &mut auditor.findings,
        )?;
    }
    let mut before = 0;
    for segment in &crawl.segments {
        auditor.segment(segment, |read| progress(before + read))?;
        before += segment.length;
    }
    let Auditor {
        findings: Findings {
            count,
            first,
            notes,
        },
        recorded,
        finished,
        outcomes,
        line_bytes,
        attempts,
        bodies,
        ..
    } = auditor;
    Ok(Audit {
        violations_found: count,
        violations: first,
        notes,
        complete: finished.len() == crawl.manifest.ids.len(),
        planned: crawl.manifest.ids.len(),
        recorded: recorded.len(),
        finished: finished.len(),
        sessions: crawl.sessions(),
        segments: crawl.segments.len() as u64,
        bytes: crawl.bytes(),
        line_bytes,
        outcomes,
        attempts: attempts.values().sum(),
        sent: sent_by_all(crawl, &attempts),
        bodies_checked: bodies,
        ..Audit::of(&crawl.place)
    })
}

/// Check the counts of requests of a session or of an attempt at a part. An empty file was being
/// made when its process ended.
fn counts(place: &Path, file: &str, findings: &mut Findings) -> Result<(), SavedError> {
    let path = place.join(file);
    let bytes = fs::read(&path).map_err(failed(&path))?;
    if let Some(error) = FileCounters::sum(&bytes)
        .err()
        .filter(|_| !bytes.is_empty())
    {
        findings.add(file, Place::default(), error.to_string(), Remedy::Counts);
    }
    Ok(())
}

/// Return the requests that all sessions sent, of which these are the requests for the recorded
/// items; none if those of a session are not known.
fn sent_by_all(crawl: &SavedCrawl, attempts: &BTreeMap<u32, u64>) -> Option<u64> {
    let mut sessions = attempts.clone();
    for session in &crawl.counted {
        sessions.entry(*session).or_default();
    }
    let mut sent = sessions
        .into_iter()
        .map(|(session, requests)| sent(&crawl.place, session, requests));
    sent.try_fold(0_u64, |sum, sent| Some(sum.saturating_add(sent?)))
}

/// Report files that belong to no segment.
fn others(crawl: &SavedCrawl, findings: &mut Findings) {
    for file in &crawl.others {
        findings.note(if file.ends_with(SegmentName::NEW) {
            format!("{file} was being written when its process ended; --resume removes it")
        } else {
            format!("{file} is not part of the crawl")
        });
    }
}
