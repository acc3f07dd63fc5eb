//! A session of a saved crawl: one run that adds to the directory, and the figures of all sessions so far.
//!
//! Made by `run`, which holds the lock of the directory; each shard starts its writer from it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crawlmark_harness::clock::Clock;
use crawlmark_harness::stats::ItemCounts;
use crawlmark_harness::supervisor::Left;
use crawlmark_harness::units::IdRange;
use crawlmark_results::run::report::SavedSession;

use super::checkpoint::{Checkpoint, RecordCounts};
use super::disk::{Directory, DiskError};
use super::log::{LogError, SegmentLog, Steps};
use super::manifest::Saved;
use super::recover::recover_one;
use super::segment::{Header, SegmentName};
use super::writer::Writer;

/// Name and version of this program, as segments have them.
pub const TOOL: &str = concat!("crawlmark ", env!("CARGO_PKG_VERSION"));

/// Session that is going on.
#[derive(Debug, Clone)]
pub struct Session {
    /// Directory of the crawl.
    pub place: PathBuf,
    /// Number, from 1.
    pub number: u32,
    /// Hash of its plan.
    pub plan: String,
    /// Settings of what is saved.
    pub saved: Saved,
}

impl Session {
    /// Start the writer of a shard, whose segment must be new. Call in the shard's process.
    ///
    /// # Errors
    /// When the disk refuses the segment, or the system has no further thread.
    pub fn writer(&self, shard: u32, life: u32, clock: Clock) -> Result<Writer, LogError> {
        let Self { place, number, plan, saved } = self;
        let name = SegmentName { session: *number, shard, life };
        let header = Header::new(name, TOOL, plan, saved.fields);
        let disk = Directory::new(place);
        let log = SegmentLog::create(disk.clone(), &header, saved, Steps::default())?;
        let started = Writer::start(log, saved.clone(), clock);
        Ok(started.map_err(DiskError::of(&disk, "start the writer of", &name.segment()))?)
    }

    /// Return what a process that died left of the IDs that it held, by its last checkpoint; none where that cannot be read. Removes what
    /// it had not committed.
    #[must_use]
    pub fn left(&self, shard: u32, life: u32, held: &[IdRange]) -> Option<Left> {
        let name = SegmentName { session: self.number, shard, life };
        // Its log began with a checkpoint: none has to be rebuilt.
        let never = |_| Err("it has no checkpoint".to_owned());
        let checkpoint = recover_one(&Directory::new(&self.place), name, never).ok()?;
        let Some(Checkpoint { finished, tally, .. }) = checkpoint else {
            return Some(Left { ids: held.to_vec(), items: ItemCounts::default() });
        };
        let mut items = ItemCounts::default();
        for (outcome, count) in tally.outcomes {
            *match &*outcome {
                "ok" => &mut items.ok,
                "not_found" => &mut items.not_found,
                "throttled" => &mut items.gave_up,
                _ => &mut items.failed,
            } += count;
        }
        Some(Left { ids: held.iter().flat_map(|range| finished.gaps(*range)).collect(), items })
    }

    /// Return the figures of all sessions, from the first to this one, by what is committed.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn figures(&self) -> io::Result<Vec<SavedSession>> {
        let mut sessions: BTreeMap<u32, (RecordCounts, u64, u64)> =
            (1..=self.number).map(|number| (number, Default::default())).collect();
        for entry in fs::read_dir(&self.place)? {
            let entry = entry?;
            let Some(name) = entry.file_name().to_str().and_then(SegmentName::of_checkpoint) else { continue };
            let checkpoint = Checkpoint::decode(&fs::read(entry.path())?).map_err(io::Error::other)?;
            let (tally, items, bytes) = sessions.entry(name.session).or_default();
            *items += checkpoint.records();
            *bytes += checkpoint.committed;
            tally.merge(checkpoint.tally);
        }
        Ok(sessions.into_iter().map(figures).collect())
    }
}

fn figures((session, (tally, items, bytes)): (u32, (RecordCounts, u64, u64))) -> SavedSession {
    let RecordCounts { attempts, at_us, latency_us, .. } = tally;
    let moment =
        |us: u64| humantime::format_rfc3339_millis(SystemTime::UNIX_EPOCH + Duration::from_micros(us)).to_string();
    let percentile = |part: f64| (!latency_us.is_empty()).then(|| latency_us.value_at_quantile(part));
    SavedSession {
        session,
        from: at_us.map(|(first, _)| moment(first)),
        to: at_us.map(|(_, last)| moment(last)),
        active_s: at_us.map_or(0.0, |(first, last)| last.saturating_sub(first) as f64 / 1e6),
        items,
        requests: attempts,
        bytes,
        p50_us: percentile(0.5),
        p99_us: percentile(0.99),
    }
}
