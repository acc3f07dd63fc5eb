//! A part of a crawl as a stream of frames, and the merge of such streams.
//!
//! A crawl on several machines is split into parts, each of which is a run. To the merge a part
//! looks as a shard looks to the supervisor: a frame for each second, and one at the end. The merge
//! adds them up by the code that adds up shards, so that the record of a merged crawl is the one
//! that a single machine would have made of the same requests, with the parts as its shards.
//!
//! Called by `run --plan` ([`PartWriter`]) and by `merge` ([`merge`], [`PartReader`]). It opens no
//! file: it is given streams.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::timeline::Timeline;
use super::view::{
    Interval, Moved, Observer, PastLife, RunRecord, ShardFault, ShardRecord, Stopped,
};
use crate::clock::{Nanos, duration_ns};
use crate::plan::{RunPlan, ShardPlan};
use crate::process::ShardExit;
use crate::shard::INTERVAL;
use crate::stats::{Bounds, Counters, ShardStats};
use crate::units::IdRange;
use crate::wire::{
    EncodedStats, FrameDecoder, IntervalFrame, ShardOutcome, Usage, WireError, encode,
};

/// Most bytes that are read at once. Parts are read side by side: a buffer for each.
const CHUNK: usize = 8 << 10;

/// Longest crawl that is merged. The merge makes a row for each second.
pub const LONGEST: Duration = Duration::from_hours(24 * 100);

/// Most seconds of a part that are read ahead of the merge. A part delays fewer, and holds each
/// second but those in which all of its shards were dead; a second that is found later than that is
/// added to the one that is merged then.
const MOST_AHEAD: usize = 4_096;

/// Parts whose times of each second are told one by one. Those of more would take memory for
/// figures that no report shows.
pub const MOST_TIMES: u32 = 64;

/// Frame of a part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum PartFrame {
    /// A second of the part, merged over its shards: written once it is complete, after later ones
    /// if a response in it was slow.
    Second(Box<IntervalFrame>),
    /// The end of the part: the last frame.
    End(Box<PartEnd>),
}

/// Everything that is known of a part at its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartEnd {
    /// Figures of its shards, merged. Moments count from the part's start; the readings of CPUs are
    /// sums over the shards.
    pub outcome: ShardOutcome,
    /// The IDs that its shards held.
    pub ids: Vec<IdRange>,
    /// Calendar time at its start, ns after the Unix epoch, by the clock of its machine.
    pub started_at_ns: u64,
    /// Calendar time at its end.
    pub finished_at_ns: u64,
    /// Number of times that the target made all shards wait.
    pub pauses: u64,
    /// [`RunRecord::wait_left`].
    pub wait_left: Duration,
    /// Counts of moves between its shards.
    pub moved: Moved,
    /// Processes of shards that died and were replaced.
    pub replaced: u32,
    /// True if it ended by itself and each shard reported its end: its counts are exact and cover
    /// all of its IDs.
    pub whole: bool,
}

/// Reason why a part cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PartError {
    /// The system refused.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A frame is damaged.
    #[error("{0}")]
    Wire(#[from] WireError),
    /// No end.
    #[error("it is cut short")]
    Cut,
    /// Bytes beyond the end.
    #[error("it goes on after its end")]
    Long,
    /// A part that the crawl does not have.
    #[error("the crawl has no such part")]
    Foreign,
    /// A second beyond [`LONGEST`].
    #[error("its second {0} is beyond any crawl's end")]
    TooLate(u64),
}

/// Writes a part as its run goes on.
#[derive(Debug)]
pub struct PartWriter<W> {
    out: W,
}

impl<W: Write> PartWriter<W> {
    /// A part that is written to `out`.
    pub const fn new(out: W) -> Self {
        Self { out }
    }

    /// Append a second and hand it to the system: what a killed part has done until then is known.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn second(&mut self, interval: &Interval) -> Result<(), PartError> {
        let frame = IntervalFrame {
            figures: interval.figures.clone(),
            stats: EncodedStats::of(&interval.merged)?,
        };
        self.write(&PartFrame::Second(Box::new(frame)))
    }

    /// Append the end, and return the stream.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn end(mut self, record: &RunRecord) -> Result<W, PartError> {
        self.write(&PartFrame::End(Box::new(PartEnd::of(record)?)))?;
        Ok(self.out)
    }

    fn write(&mut self, frame: &PartFrame) -> Result<(), PartError> {
        self.out.write_all(&encode(frame)?)?;
        Ok(self.out.flush()?)
    }
}

impl PartEnd {
    /// The outcome of a run, as one shard of a crawl.
    fn of(record: &RunRecord) -> Result<Self, WireError> {
        let shards = &record.shards;
        let bounds = shards.first().map_or_else(
            || Bounds::for_timeout(Duration::ZERO),
            |shard| Bounds::for_timeout(shard.plan.timeout),
        );
        let mut stats = ShardStats::new(bounds);
        let mut outcome = ShardOutcome::new(EncodedStats::counted(bounds, Counters::default()));
        outcome.last_done = record.start;
        for shard in shards {
            shard.stats.add_to(&mut stats);
            outcome.merge(shard);
        }
        outcome.stats = EncodedStats::of(&stats)?;
        outcome.shift(|at| Nanos(at.since(record.start)));
        let past = shards.iter().map(|shard| shard.past.len()).sum::<usize>();
        Ok(Self {
            outcome,
            ids: joined(
                shards
                    .iter()
                    .flat_map(|shard| shard.ids.iter().copied())
                    .collect(),
            ),
            started_at_ns: unix_ns(record.started_at),
            finished_at_ns: unix_ns(record.finished_at),
            pauses: record.pauses,
            wait_left: record.wait_left,
            moved: record.moved,
            replaced: u32::try_from(past).unwrap_or(u32::MAX),
            whole: !record.was_stopped() && shards.iter().all(|shard| shard.fault.is_none()),
        })
    }

    /// The part as a shard of the crawl that started `offset` before it.
    fn record(mut self, plan: ShardPlan, offset: Duration) -> Result<ShardRecord, WireError> {
        self.outcome
            .stats
            .check(Bounds::for_timeout(plan.timeout))?;
        self.outcome.shift(|at| at.plus(offset));
        let past = PastLife {
            pid: 0,
            exit: ShardExit::Unknown,
            fault: ShardFault::Died,
        };
        Ok(ShardRecord {
            plan,
            ids: self.ids,
            past: vec![past; self.replaced as usize],
            pid: 0,
            exit: ShardExit::Clean,
            fault: None,
            outcome: self.outcome,
        })
    }
}

impl ShardRecord {
    /// A part without a result.
    fn missing(plan: ShardPlan) -> Self {
        let stats = EncodedStats::counted(Bounds::for_timeout(plan.timeout), Counters::default());
        Self {
            ids: plan.ids.clone(),
            past: Vec::new(),
            pid: 0,
            exit: ShardExit::Unknown,
            fault: Some(ShardFault::Missing),
            outcome: ShardOutcome {
                remaining: plan.items(),
                ..ShardOutcome::new(stats)
            },
            plan,
        }
    }
}

impl RunRecord {
    /// A run that began at this time, of which no shard has reported.
    #[must_use]
    pub fn missing(plan: &RunPlan, started_at: SystemTime) -> Self {
        let shards = plan.split(&[]).into_iter();
        Self {
            started_at,
            finished_at: started_at,
            start: Nanos::default(),
            interrupted: None,
            stopped_at: None,
            stopped: Stopped::No,
            failure: None,
            suspended: Duration::ZERO,
            moved: Moved::default(),
            pauses: 0,
            wait_left: Duration::ZERO,
            busiest: BTreeMap::new(),
            shards: shards.map(ShardRecord::missing).collect(),
            supervisor: Usage::default(),
            host: BTreeMap::new(),
        }
    }
}

/// Return the ranges in order, those that follow one another as one.
fn joined(mut ranges: Vec<IdRange>) -> Vec<IdRange> {
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.retain(|range| !range.is_empty());
    ranges.dedup_by(|next, range| {
        let follows = next.start == range.end;
        range.end = if follows { next.end } else { range.end };
        follows
    });
    ranges
}

fn unix_ns(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, duration_ns)
}

fn calendar(unix_ns: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(unix_ns)
}

/// Reads the frames of a part.
#[derive(Debug)]
pub struct PartReader<R> {
    stream: R,
    decoder: FrameDecoder,
    is_over: bool,
}

impl<R: Read> PartReader<R> {
    /// The part that `stream` holds.
    pub fn new(stream: R) -> Self {
        Self {
            stream,
            decoder: FrameDecoder::default(),
            is_over: false,
        }
    }

    /// Read the next frame; none after the end.
    ///
    /// # Errors
    /// When the stream ends before the part's end, or holds anything else than a part.
    pub fn next_frame(&mut self) -> Result<Option<PartFrame>, PartError> {
        loop {
            match self.decoder.next_frame()? {
                Some(_) if self.is_over => return Err(PartError::Long),
                Some(frame) => return self.check(frame).map(Some),
                None => {}
            }
            let mut chunk = [0; CHUNK];
            match self.stream.read(&mut chunk) {
                Ok(0) if self.is_over && self.decoder.is_empty() => return Ok(None),
                Ok(0) if self.is_over => return Err(PartError::Long),
                Ok(0) => return Err(PartError::Cut),
                Ok(read) => self.decoder.push(&chunk[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn check(&mut self, frame: PartFrame) -> Result<PartFrame, PartError> {
        match &frame {
            PartFrame::Second(second) if second.figures.index >= LONGEST.as_secs() => {
                return Err(PartError::TooLate(second.figures.index));
            }
            PartFrame::Second(_) => {}
            PartFrame::End(_) => self.is_over = true,
        }
        Ok(frame)
    }
}

/// Start of a part in a merged crawl.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartStart {
    /// Its number, from 0.
    pub part: u32,
    /// Time from the common start to its own.
    pub offset: Duration,
}

/// Part that is being read.
struct Active<R> {
    start: PartStart,
    reader: PartReader<R>,
    /// Seconds that were read and not merged, by the crawl's clock. In a part, a second with a slow
    /// response is behind later ones.
    ahead: Vec<IntervalFrame>,
}

impl<R: Read> Active<R> {
    /// Read the next frame; return the end if it came.
    fn advance(&mut self) -> Result<Option<PartEnd>, PartError> {
        match self.reader.next_frame()? {
            Some(PartFrame::Second(mut second)) => {
                // Seconds of the crawl are whole: a part that started within one has its seconds in
                // the nearest ones.
                second.figures.index += self.start.first_second();
                self.ahead.push(*second);
                Ok(None)
            }
            Some(PartFrame::End(end)) => self.reader.next_frame().map(|_| Some(*end)),
            None => Err(PartError::Cut),
        }
    }

    /// True if more is to be read before `second` can be merged.
    fn lacks(&self, second: u64) -> bool {
        let mut ahead = self.ahead.iter().map(|frame| frame.figures.index);
        !self.reader.is_over && ahead.len() < MOST_AHEAD && ahead.all(|index| index != second)
    }
}

impl PartStart {
    /// The nearest whole second.
    fn first_second(self) -> u64 {
        duration_ns(self.offset.saturating_add(INTERVAL / 2)) / duration_ns(INTERVAL)
    }
}

/// Merge the parts of a crawl: `plan` has a shard for each part. Parts that are not in `parts` are
/// missing: their shards have a fault. `open` is called for each part when the time of the crawl
/// reaches its start; as many are open at once as ran at once. The seconds go to `observer` in
/// order, without the times of each part if there are more than [`MOST_TIMES`]. Memory grows with
/// the parts, by some kilobytes each and for each second that a slow response delayed, and with
/// nothing else.
///
/// # Errors
/// When a part cannot be read; with its number.
pub fn merge<R: Read>(
    plan: &RunPlan,
    parts: &[PartStart],
    mut open: impl FnMut(u32) -> io::Result<R>,
    observer: &mut impl Observer,
) -> Result<RunRecord, (u32, PartError)> {
    let timeline = Timeline::new(Bounds::for_timeout(plan.timeout));
    let mut merged = Merged::new(plan);
    let mut waiting: Vec<PartStart> = parts.to_vec();
    waiting.sort_by_key(|start| Reverse((start.offset, start.part)));
    if let Some(late) = waiting.first().filter(|start| start.offset >= LONGEST) {
        return Err((late.part, PartError::TooLate(late.first_second())));
    }
    let (mut active, mut is_sorted) = (Vec::<Active<R>>::new(), true);
    for second in 0.. {
        if active.is_empty() && waiting.is_empty() {
            break;
        }
        while let Some(start) = waiting.pop_if(|start| start.first_second() <= second) {
            let reader =
                PartReader::new(open(start.part).map_err(|error| (start.part, error.into()))?);
            active.push(Active {
                start,
                reader,
                ahead: Vec::new(),
            });
            is_sorted = false;
        }
        if !is_sorted {
            active.sort_unstable_by_key(|active| active.start.part);
            is_sorted = true;
        }
        let mut interval = timeline.empty(second);
        for part in &mut active {
            let number = part.start.part;
            merged
                .second(part, second, &timeline, &mut interval)
                .map_err(|error| (number, error))?;
            if plan.shards > MOST_TIMES {
                interval.shards.clear();
            }
        }
        active.retain(|part| !part.reader.is_over || !part.ahead.is_empty());
        observer.interval(&interval);
    }
    Ok(merged.record)
}

/// Record of the parts that are over.
struct Merged {
    record: RunRecord,
}

impl Merged {
    /// All parts are missing.
    fn new(plan: &RunPlan) -> Self {
        let record = RunRecord::missing(plan, SystemTime::UNIX_EPOCH);
        Self { record }
    }

    /// Add the part's frame of `second`, and of earlier ones, to `interval`.
    fn second<R: Read>(
        &mut self,
        part: &mut Active<R>,
        second: u64,
        timeline: &Timeline,
        interval: &mut Interval,
    ) -> Result<(), PartError> {
        while part.lacks(second) {
            self.advance(part)?;
        }
        for frame in part
            .ahead
            .extract_if(.., |frame| frame.figures.index <= second)
        {
            timeline.add_shard(interval, part.start.part, frame)?;
        }
        // Its end may be next.
        if part.ahead.is_empty() && !part.reader.is_over {
            self.advance(part)?;
        }
        Ok(())
    }

    fn advance<R: Read>(&mut self, part: &mut Active<R>) -> Result<(), PartError> {
        part.advance()?
            .map_or(Ok(()), |end| self.end(part.start, end))
    }

    fn end(&mut self, start: PartStart, end: PartEnd) -> Result<(), PartError> {
        let Some(shard) = self.record.shards.get_mut(start.part as usize) else {
            return Err(PartError::Foreign);
        };
        let (from, to) = (calendar(end.started_at_ns), calendar(end.finished_at_ns));
        let record = &mut self.record.started_at;
        *record = if *record == SystemTime::UNIX_EPOCH {
            from
        } else {
            from.min(*record)
        };
        self.record.finished_at = to.max(self.record.finished_at);
        self.record.pauses += end.pauses;
        self.record.wait_left = self.record.wait_left.max(end.wait_left);
        self.record.moved.merge(&end.moved);
        *shard = end.record(shard.plan.clone(), start.offset)?;
        Ok(())
    }
}
