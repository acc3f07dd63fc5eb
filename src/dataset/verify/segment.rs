//! Audit of one segment: its frames, its records, and its checkpoint.

use crawlmark_harness::units::IdRange;

use super::finding::{Findings, Place, Remedy};
use crate::crawl::Shuffle;
use crate::dataset::checkpoint::{Checkpoint, RecordCounts};
use crate::dataset::finished::Finished;
use crate::dataset::manifest::{Manifest, RecordField};
use crate::dataset::record::{RecordText, SavedRecord, has_digest};
use crate::dataset::saved::{SavedError, SavedSegment};
use crate::dataset::segment::{Frame, Frames, Header};

/// Most outcomes that a crawl has names for.
const MOST_OUTCOMES: usize = 100;

/// State of an audit.
pub(super) struct Auditor<'a> {
    manifest: &'a Manifest,
    shuffle: Option<Shuffle>,
    /// Violations so far.
    pub(super) findings: Findings,
    /// Items that have a record; before `--shuffle`.
    pub(super) recorded: Finished,
    /// Items among them that are finished.
    pub(super) finished: Finished,
    /// Items that have a record of this session.
    session: (u32, Finished),
    /// Counts of all records.
    pub(super) tally: RecordCounts,
    /// Bodies whose digest was computed.
    pub(super) bodies: u64,
}

/// Items that a checkpoint says are finished. Most records are in the range of the one before.
struct Claimed {
    ranges: Vec<IdRange>,
    last: usize,
}

/// A segment while it is read.
struct Reading {
    file: String,
    claimed: Option<Claimed>,
    place: Place,
    records: u64,
    tally: RecordCounts,
}

impl Claimed {
    fn has(&mut self, item: u64) -> bool {
        let is_in = |range: &IdRange| range.start <= item && item < range.end;
        if self.ranges.get(self.last).is_some_and(is_in) {
            return true;
        }
        self.last = self.ranges.partition_point(|range| range.end <= item);
        self.ranges.get(self.last).is_some_and(is_in)
    }
}

impl<'a> Auditor<'a> {
    /// Create the auditor of a crawl.
    pub(super) fn new(manifest: &'a Manifest) -> Self {
        Self {
            manifest,
            shuffle: manifest.shuffle(),
            findings: Findings::default(),
            recorded: Finished::default(),
            finished: Finished::default(),
            session: (0, Finished::default()),
            tally: RecordCounts::default(),
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
        mut progress: impl FnMut(u64),
    ) -> Result<(), SavedError> {
        if self.session.0 != segment.name.session {
            self.session = (segment.name.session, Finished::default());
        }
        let checkpoint = self.checkpoint(segment);
        let ranges = |checkpoint: &Checkpoint| Claimed {
            ranges: checkpoint.finished.ranges().collect(),
            last: 0,
        };
        let mut reading = Reading {
            file: segment.name.segment(),
            claimed: checkpoint.map(ranges),
            place: Place::default(),
            records: 0,
            tally: RecordCounts::default(),
        };
        let mut bytes = segment.read()?;
        let mut is_closed = false;
        let end = match bytes.frames() {
            Err(error) => Err(error),
            Ok(mut frames) => {
                self.header(segment, frames.header());
                let end = loop {
                    match frames.next_frame() {
                        Ok(Some(frame)) => {
                            progress(frame.bytes.end);
                            self.frame(&frame, &mut reading);
                        }
                        Ok(None) => break Ok(()),
                        Err(error) => break Err(error),
                    }
                };
                is_closed = Frames::is_closed(&frames);
                end
            }
        };
        let is_whole = end.is_ok();
        if let Err(error) = end {
            let (at, what) = segment.frame_error(error)?;
            match checkpoint {
                Some(_) => {
                    self.findings.add(&reading.file, Place { offset: Some(at), line: None }, what, Remedy::Damage);
                }
                None => self.findings.note(format!(
                    "{}: byte {at}: {what}. It has no checkpoint, so what follows is not part of the crawl",
                    reading.file
                )),
            }
        }
        if let Some(checkpoint) = checkpoint {
            if is_whole && bytes.digest() != checkpoint.digest {
                let what =
                    "its committed bytes have another digest than its checkpoint says".to_owned();
                self.findings
                    .add(&reading.file, Place::default(), what, Remedy::Damage);
            } else if is_whole {
                self.compare(segment, checkpoint, &reading, is_closed);
            }
        }
        self.tally.merge(reading.tally);
        Ok(())
    }

    /// Return the checkpoint of a segment, after a look at what can be seen without reading the
    /// segment.
    fn checkpoint<'b>(&mut self, segment: &'b SavedSegment) -> Option<&'b Checkpoint> {
        let (file, whole) = (segment.name.segment(), Place::default());
        let checkpoint = match &segment.checkpoint {
            Some(Ok(checkpoint)) => checkpoint,
            Some(Err(error)) => {
                self.findings.add(
                    &segment.name.checkpoint(),
                    whole,
                    error.to_string(),
                    Remedy::Checkpoint,
                );
                return None;
            }
            None => {
                self.findings.note(format!(
                    "{file} has no checkpoint: --resume rebuilds it from the segment"
                ));
                return None;
            }
        };
        let Checkpoint {
            committed,
            is_closed,
            ..
        } = checkpoint;
        match segment.length.checked_sub(*committed) {
            None => {
                let what = format!("it has {} bytes, and {committed} are committed", segment.length);
                self.findings.add(&file, whole, what, Remedy::Damage);
            }
            Some(0) => {}
            Some(more) if *is_closed => {
                let what = format!("{more} bytes follow its seek table");
                self.findings.add(&file, Place { offset: Some(*committed), line: None }, what, Remedy::Tail);
            }
            Some(more) => self.findings.note(format!(
                "{file}: its last {more} bytes, from byte {committed}, are not committed; --resume removes them and crawls \
                 their items again"
            )),
        }
        Some(checkpoint)
    }

    fn header(&mut self, segment: &SavedSegment, header: &Header) {
        let file = segment.name.segment();
        if header.name != segment.name {
            let what = format!(
                "it was written as {}: it was renamed or copied",
                header.name.segment()
            );
            self.findings
                .add(&file, Place::default(), what, Remedy::Segment);
        }
        if !header
            .fields
            .iter()
            .map(String::as_str)
            .eq(self.manifest.saved.fields.keys())
        {
            let what = format!(
                "its fields are {}, not those of crawl.json",
                header.fields.join(",")
            );
            self.findings
                .add(&file, Place::default(), what, Remedy::Segment);
        }
    }

    fn frame(&mut self, frame: &Frame<'_>, reading: &mut Reading) {
        reading.place.offset = Some(frame.bytes.start);
        let Ok(lines) = str::from_utf8(frame.lines) else {
            let place = Place {
                line: None,
                ..reading.place
            };
            self.findings.add(
                &reading.file,
                place,
                "its lines are not UTF-8".to_owned(),
                Remedy::Segment,
            );
            return;
        };
        reading.tally.line_bytes += lines.len() as u64;
        for line in lines.split_terminator('\n') {
            reading.place.line = Some(reading.place.line.unwrap_or(0) + 1);
            if let Err(what) = self.line(line, reading) {
                self.findings
                    .add(&reading.file, reading.place, what, Remedy::Segment);
            }
        }
    }

    /// Audit a line, and return the first violation.
    fn line(&mut self, line: &str, reading: &mut Reading) -> Result<(), String> {
        let record = SavedRecord::parse(line)
            .map_err(|error| format!("the line is not a record: {error}"))?;
        reading.records += 1;
        reading.count(&record)?;
        let item = self.item(record.id)?;
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
        if reading
            .claimed
            .as_mut()
            .is_some_and(|claimed| !claimed.has(item))
        {
            return Err(format!(
                "ID {} is not among the finished items of the checkpoint",
                record.id
            ));
        }
        let Some(body) = record.body()? else {
            return match record.digest {
                Some(_) if self.manifest.saved.fields.has(RecordField::Body) => {
                    Err("it has a digest and no body".to_owned())
                }
                _ => Ok(()),
            };
        };
        match &record.digest {
            Some(RecordText(digest)) if has_digest(body.bytes(), digest) => self.bodies += 1,
            Some(_) => {
                return Err(format!(
                    "the body of ID {} has another digest than its record says",
                    record.id
                ));
            }
            None if self.manifest.saved.fields.has(RecordField::Digest) => {
                return Err("it has a body and no digest".to_owned());
            }
            None => {}
        }
        Ok(())
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

    /// Compare a checkpoint with the records of its segment.
    fn compare(
        &mut self,
        segment: &SavedSegment,
        checkpoint: &Checkpoint,
        reading: &Reading,
        is_closed: bool,
    ) {
        let (records, claimed) = (reading.records, checkpoint.records());
        let mut wrong = Vec::new();
        if checkpoint.is_closed && !is_closed {
            wrong.push("it says that the segment has a seek table, which is missing".to_owned());
        }
        if records != claimed {
            let first = checkpoint
                .finished
                .ranges()
                .find_map(|range| self.recorded.gaps(range).first().map(|gap| gap.start));
            let id = |item| {
                self.shuffle
                    .as_ref()
                    .map_or(item, |shuffle| shuffle.id(item))
            };
            let first = first.map_or_else(String::new, |item| {
                format!("; the first without a record is ID {}", id(item))
            });
            wrong.push(format!(
                "it says that {claimed} items are finished, and the segment has {records} records{first}"
            ));
        }
        let fields = self.manifest.saved.fields;
        let (ours, theirs) = (&reading.tally, &checkpoint.tally);
        let mut differ = |name: &str, counts: Option<(u64, u64)>| {
            if let Some((theirs, ours)) = counts.filter(|(theirs, ours)| theirs != ours) {
                wrong.push(format!(
                    "it counts {theirs} {name}, and the segment has {ours}"
                ));
            }
        };
        differ("bytes of lines", Some((theirs.line_bytes, ours.line_bytes)));
        differ(
            "requests",
            fields
                .has(RecordField::Attempts)
                .then_some((theirs.attempts, ours.attempts)),
        );
        differ(
            "latencies",
            fields
                .has(RecordField::LatencyUs)
                .then_some((theirs.latency_us.len(), ours.latency_us.len())),
        );
        if fields.has(RecordField::LatencyUs) && theirs.latency_us != ours.latency_us {
            wrong.push("its latencies are not those of the records".to_owned());
        }
        if fields.has(RecordField::At) && theirs.at_us != ours.at_us {
            wrong.push("its first and last time are not those of the records".to_owned());
        }
        if theirs.outcomes != ours.outcomes {
            wrong.push("its counts by outcome are not those of the records".to_owned());
        }
        for what in wrong {
            self.findings.add(
                &segment.name.checkpoint(),
                Place::default(),
                what,
                Remedy::Checkpoint,
            );
        }
    }
}

impl Reading {
    /// Count a record.
    fn count(&mut self, record: &SavedRecord<'_>) -> Result<(), String> {
        let RecordText(outcome) = &record.outcome;
        let outcomes = &self.tally.outcomes;
        if outcomes.len() >= MOST_OUTCOMES && !outcomes.contains_key(&**outcome) {
            return Err(format!("`{outcome}` is not an outcome"));
        }
        self.tally.record(
            outcome,
            record.attempts.unwrap_or(0),
            record.at_us()?,
            record.latency_us,
        );
        Ok(())
    }
}
