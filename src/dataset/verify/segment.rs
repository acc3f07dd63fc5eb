//! Audit of one segment: its frames, their indexes, and their records.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind};

use super::finding::{Findings, Place, Remedy};
use crate::crawl::Shuffle;
use crate::dataset::item_set::ItemSet;
use crate::dataset::manifest::{Manifest, RecordField};
use crate::dataset::record::{RecordText, SavedRecord, has_digest};
use crate::dataset::records::{RecordedItem, Records};
use crate::dataset::saved::{SavedError, SavedSegment, failed};
use crate::dataset::segment::{Frames, Header};

/// Most outcomes that a crawl has names for.
const MOST_OUTCOMES: usize = 100;

/// State of an audit.
pub(super) struct Auditor<'a> {
    manifest: &'a Manifest,
    shuffle: Option<Shuffle>,
    /// Violations so far.
    pub(super) findings: Findings,
    /// Items that have a record; before `--shuffle`.
    pub(super) recorded: ItemSet,
    /// Items among them that are finished.
    pub(super) finished: ItemSet,
    /// Items that have a record of this session.
    session: (u32, ItemSet),
    /// Records by outcome.
    pub(super) outcomes: BTreeMap<String, u64>,
    /// Bytes of the lines.
    pub(super) line_bytes: u64,
    /// Requests for the recorded items, by session.
    pub(super) attempts: BTreeMap<u32, u64>,
    /// Bodies whose digest was computed.
    pub(super) bodies: u64,
}

impl<'a> Auditor<'a> {
    /// Create the auditor of a crawl.
    pub(super) fn new(manifest: &'a Manifest) -> Self {
        Self {
            manifest,
            shuffle: manifest.shuffle(),
            findings: Findings::default(),
            recorded: ItemSet::default(),
            finished: ItemSet::default(),
            session: (0, ItemSet::default()),
            outcomes: BTreeMap::new(),
            line_bytes: 0,
            attempts: BTreeMap::new(),
            bodies: 0,
        }
    }

    /// Audit a segment. `progress` is called with the number of its bytes that were read.
    ///
    /// # Errors
    /// When the system refuses to read it.
    pub(super) fn segment(
        &mut self,
        segment: &SavedSegment,
        progress: impl FnMut(u64),
    ) -> Result<(), SavedError> {
        let (file, session) = (segment.name.segment(), segment.name.session);
        if self.session.0 != session {
            self.session = (session, ItemSet::default());
        }
        self.attempts.entry(session).or_default();
        let frames = segment.frames();
        let read = frames.and_then(|frames| self.frames(segment, &file, frames, progress));
        let Err(error) = read else { return Ok(()) };
        match error.kind() {
            ErrorKind::UnexpectedEof => self.findings.note(format!(
                "{file}: {error}, because its process was killed or its end is lost; --resume removes what follows and crawls its items again"
            )),
            ErrorKind::InvalidData => {
                self.findings.add(&file, Place::default(), error.to_string(), Remedy::Damage);
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
        self.header(segment, file, frames.header());
        let mut line = 0;
        while let Some(index) = frames.next_frame()? {
            progress(frames.at());
            let offset = Some(frames.start());
            match frames.lines() {
                Ok(lines) => {
                    let records = self.lines(
                        file,
                        Place {
                            offset,
                            line: Some(line),
                        },
                        lines,
                    );
                    line += records.lines;
                    self.line_bytes += index.line_bytes;
                    *self.attempts.entry(segment.name.session).or_default() += index.attempts;
                    if records.is_sound && !self.is_index_of(&index, records.counted) {
                        let what = "the index of the frame does not count its records".to_owned();
                        self.findings
                            .add(file, Place { offset, line: None }, what, Remedy::Damage);
                    }
                }
                Err(error) => {
                    self.findings.add(
                        file,
                        Place { offset, line: None },
                        error.to_string(),
                        Remedy::Damage,
                    );
                }
            }
        }
        if !frames.is_closed() {
            self.findings.note(format!(
                "{file} has no end: its process was killed, or its end is lost; --resume crawls what is missing"
            ));
        }
        Ok(())
    }

    fn header(&mut self, segment: &SavedSegment, file: &str, header: &Header) {
        let fields = self.manifest.saved.fields;
        let what = if header.name != segment.name {
            format!(
                "it was written as {}: it was renamed or copied",
                header.name.segment()
            )
        } else if header.fields != fields {
            format!("its fields are {}, not those of crawl.json", header.fields)
        } else {
            return;
        };
        self.findings
            .add(file, Place::default(), what, Remedy::Segment);
    }

    /// Audit the lines of a frame, which `place` is before.
    fn lines(&mut self, file: &str, mut place: Place, lines: &str) -> FrameRecords {
        let mut found = FrameRecords {
            counted: Records::default(),
            lines: 0,
            is_sound: true,
        };
        for line in lines.split_terminator('\n') {
            found.lines += 1;
            place.line = place.line.map(|line| line + 1);
            if let Err(what) = self.line(line, &mut found.counted) {
                found.is_sound = false;
                self.findings.add(file, place, what, Remedy::Segment);
            }
        }
        found.counted.line_bytes = lines.len() as u64;
        found
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

    /// Audit a line, and return the first violation.
    fn line(&mut self, line: &str, counted: &mut Records) -> Result<(), String> {
        let record = SavedRecord::parse(line)
            .map_err(|error| format!("the line is not a record: {error}"))?;
        let RecordText(outcome) = &record.outcome;
        if self.outcomes.len() >= MOST_OUTCOMES && !self.outcomes.contains_key(&**outcome) {
            return Err(format!("`{outcome}` is not an outcome"));
        }
        *self.outcomes.entry(outcome.to_string()).or_default() += 1;
        let item = self.item(record.id)?;
        counted.add(&RecordedItem {
            item,
            outcome,
            attempts: record.attempts.unwrap_or(0),
            at_us: record.at_us()?,
            latency_us: record.latency_us,
        });
        if self.finished.has(item) {
            return Err(format!(
                "ID {} is recorded again after it was finished",
                record.id
            ));
        }
        self.session
            .1
            .insert(item)
            .map_err(|_| format!("ID {} is recorded twice in a session", record.id))?;
        // An earlier session may have a record of it.
        let _ = self.recorded.insert(item);
        if record.state().is_finished() {
            let _ = self.finished.insert(item);
        }
        self.body(&record)
    }

    fn body(&mut self, record: &SavedRecord<'_>) -> Result<(), String> {
        let fields = self.manifest.saved.fields;
        match (record.body()?, &record.digest) {
            (None, Some(_)) if fields.has(RecordField::Body) => {
                Err("it has a digest and no body".to_owned())
            }
            (Some(_), None) if fields.has(RecordField::Digest) => {
                Err("it has a body and no digest".to_owned())
            }
            (Some(body), Some(RecordText(digest))) => {
                if !has_digest(body.bytes(), digest) {
                    return Err(format!(
                        "the body of ID {} has another digest than its record says",
                        record.id
                    ));
                }
                self.bodies += 1;
                Ok(())
            }
            (None, _) | (_, None) => Ok(()),
        }
    }

    /// Return the item that has an ID.
    fn item(&self, id: u64) -> Result<u64, String> {
        let ids = self.manifest.ids;
        let item = self.shuffle.as_ref().map_or(id, |shuffle| shuffle.item(id));
        let is_in = ids.start <= item && item < ids.end;
        is_in
            .then_some(item)
            .ok_or_else(|| format!("ID {id} is not among the IDs of the crawl ({ids})"))
    }
}

/// Records of a frame, as its lines have them.
struct FrameRecords {
    counted: Records,
    lines: u64,
    /// True if each line is a record of the crawl.
    is_sound: bool,
}
