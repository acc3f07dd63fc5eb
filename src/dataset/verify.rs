//! Audit of a saved crawl: each item is finished once at most, and ends once in a session; responses
//! before its last are there, each once; and indexes, checksums and digests say what the records
//! say.
//!
//! Reads each segment once, a frame at a time. Memory is that of a frame, and of the recorded items
//! as ranges: a few for each segment, and one for each item that was in flight when a process
//! ended; and the place of each item that is under way. Called by the command `verify`.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;

use crawlmark_harness::process::FileCounters;
use serde::Serialize;

use super::item_set::ItemSet;
use super::line::ItemState;
use super::manifest::{MANIFEST, Manifest, RecordField};
use super::parts::SavedParts;
use super::record::{SavedRecord, has_digest};
use super::records::{RecordedItem, Records};
use super::saved::{SavedCrawl, SavedError, SavedSegment, failed};
use super::segment::{Frames, Header, SegmentName};
use super::session::sent;
use crate::error::Error;
use crate::ids::Shuffle;

/// Violations and notes that are kept; the others are counted.
const KEPT: usize = 10;

/// Most outcomes that a crawl has names for.
const MOST_OUTCOMES: usize = 100;

/// Next steps after a violation.
const DAMAGE: &str = "Restore the file from a backup, or run `crawlmark run --resume`, which keeps its whole frames and crawls the other items again";
const SEGMENT: &str = "Restore the file from a backup, or move it elsewhere: `crawlmark run --resume` then crawls its items again";
const COUNTS: &str = "Restore the file from a backup, or remove it: nothing depends on it but the number of requests that were sent";
const PART: &str =
    "Restore the directory from a backup, or remove RESULT of the part and run it again";

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
    /// Items that ended.
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
    /// Records by outcome: of each session, one for each item that ended in it, and those of
    /// responses before the last (`stepped`).
    pub(crate) outcomes: BTreeMap<String, u64>,
    /// Requests for the items that ended; 0 if attempts are not saved.
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

/// A violation.
#[derive(Debug, Serialize)]
pub(crate) struct Violation {
    /// Name of the file.
    pub(crate) file: String,
    /// Place in it.
    #[serde(flatten)]
    pub(crate) place: Place,
    /// Contradiction.
    pub(crate) what: String,
    /// Next step.
    pub(crate) remedy: &'static str,
}

/// Place of a violation in its file.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Place {
    /// First byte of the frame; absent if the whole file is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) offset: Option<u64>,
    /// Line of the decompressed file, from 1; absent if no single line is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<u64>,
}

impl Audit {
    /// The audit of a directory with so many items in which nothing was found yet.
    fn of(place: &Path, planned: u64) -> Self {
        Self {
            schema: SCHEMA,
            crawlmark_version: env!("CARGO_PKG_VERSION"),
            directory: place.display().to_string(),
            planned,
            ..Self::default()
        }
    }

    /// Count a violation, and keep it if it is among the first.
    fn violation(&mut self, file: &str, place: Place, what: String, remedy: &'static str) {
        self.violations_found += 1;
        if self.violations.len() < KEPT {
            self.violations.push(Violation {
                file: file.to_owned(),
                place,
                what,
                remedy,
            });
        }
    }

    /// Add the audit of the part in the directory `place`.
    fn add(&mut self, place: &str, part: Self) {
        self.violations_found += part.violations_found;
        let violations = part.violations.into_iter().map(|violation| Violation {
            file: format!("{place}/{}", violation.file),
            ..violation
        });
        self.violations.extend(violations);
        self.violations.truncate(KEPT);
        let notes = part.notes.into_iter();
        self.notes
            .extend(notes.map(|note| format!("{place}: {note}")));
        self.notes.truncate(KEPT);
        for (outcome, records) in part.outcomes {
            *self.outcomes.entry(outcome).or_default() += records;
        }
        self.recorded += part.recorded;
        self.finished += part.finished;
        self.sessions += part.sessions;
        self.segments += part.segments;
        self.bytes += part.bytes;
        self.line_bytes += part.line_bytes;
        self.attempts += part.attempts;
        self.bodies_checked += part.bodies_checked;
    }
}

/// Audit the saved crawls of all parts, one after another: their ranges follow one another, each ID
/// is finished once at most in its part, and each part has as many as its result counts.
///
/// # Errors
/// When a file cannot be read at all.
pub(crate) fn verify_parts(parts: &SavedParts) -> Result<Audit, Error> {
    let (whole, missing) = (parts.manifest()?, parts.missing.clone());
    let mut sum = Audit {
        parts: Some(parts.plan.nodes),
        missing_parts: Some(missing.len()),
        missing: Some(missing),
        ..Audit::of(&parts.place, whole.ids.len())
    };
    for part in &parts.parts {
        let crawl = part.open()?;
        let mut audit = verify(&crawl, |_| {})?;
        let mut found = part.contradictions(&crawl, &whole, parts.plan.ids(part.part));
        let left = audit.planned - audit.recorded;
        if found.is_empty() && audit.violations_found == 0 && left > 0 {
            found.push(format!(
                "{left} of its {} IDs have no record",
                audit.planned
            ));
        }
        for what in found {
            audit.violation(MANIFEST, Place::default(), what, PART);
        }
        let place = part
            .place
            .strip_prefix(&parts.place)
            .unwrap_or(&part.place)
            .display()
            .to_string();
        sum.add(&place, audit);
    }
    sum.complete = sum.finished == sum.planned;
    Ok(sum)
}

/// Audit a crawl. `progress` is called with the number of bytes read of all [`SavedCrawl::bytes`].
///
/// # Errors
/// When a file cannot be read at all.
pub(crate) fn verify(
    crawl: &SavedCrawl,
    mut progress: impl FnMut(u64),
) -> Result<Audit, SavedError> {
    let mut auditor = Auditor {
        manifest: &crawl.manifest,
        shuffle: crawl.manifest.shuffle(),
        audit: Audit::of(&crawl.place, crawl.manifest.ids.len()),
        recorded: ItemSet::default(),
        finished: ItemSet::default(),
        fresh: ItemSet::default(),
        lost: BTreeMap::new(),
        session: (0, ItemSet::default()),
        under_way: HashMap::new(),
        attempts: BTreeMap::new(),
        counted: BTreeMap::new(),
    };
    auditor.others(crawl)?;
    for segment in &crawl.segments {
        let before = auditor.audit.bytes;
        auditor.segment(segment, |read| progress(before + read))?;
        auditor.audit.bytes += segment.length;
    }
    // A refresh that has begun may have saved nothing.
    auditor.go_on(u32::MAX);
    for (item, (file, place)) in std::mem::take(&mut auditor.lost) {
        let id = auditor
            .shuffle
            .as_ref()
            .map_or(item, |shuffle| shuffle.id(item));
        let what = format!("ID {id} is not modified, and the record that holds is not there");
        auditor.audit.violation(&file, place, what, DAMAGE);
    }
    let sessions = auditor.attempts.iter();
    let counted = &auditor.counted;
    let mut sent =
        sessions.map(|(session, requests)| sent(counted.get(session).copied(), *requests));
    let sent = sent.try_fold(0_u64, |sum, sent| Some(sum.saturating_add(sent?)));
    let (recorded, finished) = (auditor.recorded.len(), auditor.finished.len());
    Ok(Audit {
        complete: finished == auditor.audit.planned,
        recorded,
        finished,
        sessions: crawl.sessions(),
        segments: crawl.segments.len() as u64,
        attempts: auditor.attempts.values().sum(),
        sent,
        ..auditor.audit
    })
}

/// State of an audit.
struct Auditor<'a> {
    manifest: &'a Manifest,
    shuffle: Option<Shuffle>,
    audit: Audit,
    /// Items that ended since the last refresh began; before `--shuffle`.
    recorded: ItemSet,
    /// Items among them that are finished.
    finished: ItemSet,
    /// Items that the target answered for good.
    fresh: ItemSet,
    /// Records that point to an earlier one that is not there: file and place, by item.
    lost: BTreeMap<u64, (String, Place)>,
    /// Items that ended in this session.
    session: (u32, ItemSet),
    /// Last element and page of each step that is recorded, of the items of this segment that have
    /// not ended.
    under_way: HashMap<u64, BTreeMap<u32, (u32, u32)>>,
    /// Requests for the recorded items, by session.
    attempts: BTreeMap<u32, u64>,
    /// Requests that were counted when they were sent, by session.
    counted: BTreeMap<u32, u64>,
}

impl Auditor<'_> {
    /// Check the counts of requests of each session, and note files that belong to no segment.
    fn others(&mut self, crawl: &SavedCrawl) -> Result<(), SavedError> {
        for file in &crawl.others {
            self.audit.notes.push(if file.ends_with(SegmentName::NEW) {
                format!("{file} was being written when its process ended; --resume removes it")
            } else {
                format!("{file} is not part of the crawl")
            });
        }
        for session in &crawl.counted {
            self.attempts.insert(*session, 0);
            let file = SegmentName::requests(*session);
            let path = crawl.place.join(&file);
            let bytes = fs::read(&path).map_err(failed(&path))?;
            match FileCounters::sum(&bytes) {
                Ok(sum) => drop(self.counted.insert(*session, sum)),
                // It was being made when its process ended.
                Err(_) if bytes.is_empty() => {}
                Err(error) => {
                    let what = error.to_string();
                    self.audit.violation(&file, Place::default(), what, COUNTS);
                }
            }
        }
        Ok(())
    }

    /// Begin another session: a refresh that began since the last one asks for all items again.
    fn go_on(&mut self, session: u32) {
        let since = self.session.0 + 1..=session;
        if self.manifest.refreshes.iter().any(|it| since.contains(it)) {
            (self.recorded, self.finished) = Default::default();
        }
        self.session = (session, ItemSet::default());
    }

    /// Audit a segment. `progress` is called with the number of its bytes that were read.
    fn segment(
        &mut self,
        segment: &SavedSegment,
        progress: impl FnMut(u64),
    ) -> Result<(), SavedError> {
        let (file, session) = (segment.name.segment(), segment.name.session);
        if self.session.0 != session {
            self.go_on(session);
        }
        self.under_way.clear();
        self.attempts.entry(session).or_default();
        let frames = segment.frames();
        let read = frames.and_then(|frames| self.frames(segment, &file, frames, progress));
        let Err(error) = read else { return Ok(()) };
        match error.kind() {
            ErrorKind::UnexpectedEof => self.audit.notes.push(format!(
                "{file}: {error}, because its process was killed or its end is lost; --resume removes what follows and crawls its items again"
            )),
            ErrorKind::InvalidData => {
                let what = error.to_string();
                self.audit.violation(&file, Place::default(), what, DAMAGE);
            }
            _ => return Err(failed(&segment.path)(error)),
        }
        Ok(())
    }

    /// Audit the frames of a segment. An error says why the rest of it cannot be read.
    fn frames(
        &mut self,
        segment: &SavedSegment,
        file: &str,
        mut frames: Frames<File>,
        mut progress: impl FnMut(u64),
    ) -> io::Result<()> {
        if let Some(what) = self.header(segment.name, frames.header()) {
            self.audit.violation(file, Place::default(), what, SEGMENT);
        }
        let mut line = 0;
        while let Some(index) = frames.next_frame()? {
            progress(frames.at());
            let frame = Place {
                offset: Some(frames.start()),
                line: None,
            };
            let found = match frames.lines() {
                Ok(lines) => {
                    *self.attempts.entry(segment.name.session).or_default() += index.attempts;
                    self.audit.line_bytes += index.line_bytes;
                    self.lines(file, frame, &mut line, lines)
                        .is_some_and(|counted| !self.is_index_of(&index, counted))
                        .then(|| "the index of the frame does not count its records".to_owned())
                }
                Err(error) => Some(error.to_string()),
            };
            if let Some(what) = found {
                self.audit.violation(file, frame, what, DAMAGE);
            }
        }
        if !frames.is_closed() {
            self.audit.notes.push(format!(
                "{file} has no end: its process was killed, or its end is lost; --resume crawls what is missing"
            ));
        }
        Ok(())
    }

    fn header(&self, name: SegmentName, header: &Header) -> Option<String> {
        if header.name != name {
            let file = header.name.segment();
            return Some(format!(
                "it was written as {file}: it was renamed or copied"
            ));
        }
        (header.fields != self.manifest.saved.fields)
            .then(|| format!("its fields are {}, not those of crawl.json", header.fields))
    }

    /// Audit the lines of a frame, before which there are `before` lines. Return its records; none
    /// if a line is no record of the crawl.
    fn lines(
        &mut self,
        file: &str,
        frame: Place,
        before: &mut u64,
        lines: &str,
    ) -> Option<Records> {
        let (mut counted, mut is_sound) = (Records::default(), true);
        for line in lines.split_terminator('\n') {
            *before += 1;
            let place = Place {
                line: Some(*before),
                ..frame
            };
            match self.line(line, &mut counted) {
                Ok(None) => {}
                Ok(Some(item)) => drop(self.lost.insert(item, (file.to_owned(), place))),
                Err(what) => {
                    is_sound = false;
                    self.audit.violation(file, place, what, SEGMENT);
                }
            }
        }
        counted.line_bytes = lines.len() as u64;
        is_sound.then_some(counted)
    }

    /// True if an index counts these records, as far as their fields are saved.
    fn is_index_of(&self, index: &Records, mut counted: Records) -> bool {
        let fields = self.manifest.saved.fields;
        if !fields.has(RecordField::Attempts) {
            counted.attempts = index.attempts;
        }
        if !fields.has(RecordField::At) {
            counted.at_us = index.at_us;
        }
        if !fields.has(RecordField::LatencyUs) {
            counted.latency_us = index.latency_us.clone();
        }
        counted == *index
    }

    /// Audit a line. Return its item if that is not modified, and the record that holds is missing.
    ///
    /// # Errors
    /// The first violation.
    fn line(&mut self, line: &str, counted: &mut Records) -> Result<Option<u64>, String> {
        let record = SavedRecord::parse(line)
            .map_err(|error| format!("the line is not a record: {error}"))?;
        let (id, outcome) = (record.id, &*record.outcome);
        let outcomes = &mut self.audit.outcomes;
        if outcomes.len() >= MOST_OUTCOMES && !outcomes.contains_key(outcome) {
            return Err(format!("`{outcome}` is not an outcome"));
        }
        *outcomes.entry(outcome.to_owned()).or_default() += 1;
        let ids = self.manifest.ids;
        let item = self.shuffle.as_ref().map_or(id, |shuffle| shuffle.item(id));
        if !(ids.start..ids.end).contains(&item) {
            return Err(format!("ID {id} is not among the IDs of the crawl ({ids})"));
        }
        counted.add(&RecordedItem {
            item,
            outcome,
            attempts: record.attempts.unwrap_or(0),
            at_us: record.at_us()?,
            latency_us: record.latency_us,
        });
        if self.finished.has(item) {
            return Err(format!("ID {id} is recorded again after it was finished"));
        }
        self.follows(item, &record)?;
        if record.state().is_end() {
            if self.session.1.insert(item).is_err() {
                return Err(format!("ID {id} is recorded twice in a session"));
            }
            // An earlier session may have a record of it.
            let _ = self.recorded.insert(item);
        }
        let is_held = record.state() == ItemState::NotModified;
        let is_lost = is_held && !self.fresh.has(item);
        if record.state().is_finished() && !is_lost {
            let _ = self.finished.insert(item);
        }
        if matches!(record.state(), ItemState::Good | ItemState::NotFound) {
            let _ = self.fresh.insert(item);
            self.lost.remove(&item);
        }
        self.body(&record)?;
        Ok(is_lost.then_some(item))
    }

    /// Check that no response of an item is missing before this one, and none is there twice.
    fn follows(&mut self, item: u64, record: &SavedRecord<'_>) -> Result<(), String> {
        let (id, is_end) = (record.id, record.state().is_end());
        let steps = self.under_way.get(&item);
        let Some((step, page)) = record.step.zip(record.page) else {
            if is_end && steps.is_none() {
                return Ok(());
            }
            return Err(format!("a record of ID {id} has no step and page"));
        };
        let last = steps.and_then(|steps| steps.get(&step)).copied();
        // Those before the last response of the item need not be saved.
        let is_first_saved = is_end && last.is_none();
        let (last_element, last) = last.unwrap_or_default();
        let element = record.element.unwrap_or(0);
        if is_end {
            self.under_way.remove(&item);
        } else {
            let of_item = self.under_way.entry(item).or_default();
            of_item.insert(step, (element, page));
        }
        if !is_end && self.session.1.has(item) {
            return Err(format!("ID {id} goes on after its end"));
        }
        // Elements before it may have ended without a request for this step.
        let is_next = (element, page) == (last_element, last.saturating_add(1))
            || element > last_element && page == 1;
        if !is_next && !is_first_saved {
            return Err(format!(
                "page {page} of step {step} of ID {id} follows page {last}, elements {element} and {last_element}"
            ));
        }
        Ok(())
    }

    fn body(&mut self, record: &SavedRecord<'_>) -> Result<(), String> {
        let fields = self.manifest.saved.fields;
        match (record.body()?, record.digest.as_deref()) {
            (None, Some(_)) if fields.has(RecordField::Body) => {
                Err("it has a digest and no body".to_owned())
            }
            (Some(_), None) if fields.has(RecordField::Digest) => {
                Err("it has a body and no digest".to_owned())
            }
            (Some(body), Some(digest)) if !has_digest(body.bytes(), digest) => Err(format!(
                "the body of ID {} has another digest than its record says",
                record.id
            )),
            (body, digest) => {
                self.audit.bodies_checked += u64::from(body.is_some() && digest.is_some());
                Ok(())
            }
        }
    }
}
