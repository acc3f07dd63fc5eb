//! A session of a saved crawl: one run that adds to the directory, and the figures of all sessions
//! so far.
//!
//! Made by `run`, which holds the lock of the directory; each shard starts its writer from it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crawlmark_harness::clock::Clock;
use crawlmark_harness::process::FileCounters;
use crawlmark_harness::stats::{ItemCounts, SAMPLES_BEYOND, samples_for};
use crawlmark_harness::supervisor::Left;
use crawlmark_harness::units::IdRange;
use crawlmark_results::run::parts::counted_requests;
use crawlmark_results::run::report::SavedSession;

use super::checkpoint::{Checkpoint, RecordCounts};
use super::disk::{Directory, DiskError};
use super::line::ItemState;
use super::log::{LogError, SegmentLog, Steps};
use super::manifest::Saved;
use super::recover::{last_checkpoint, recover_earlier_lives};
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
    /// CPUs for writers: those that the run may use, not only the one that a shard is pinned to.
    pub cpus: Vec<usize>,
}

impl Session {
    /// Start the writer of a shard, whose segment must be new. Call in the shard's process. Removes
    /// what earlier processes of the shard, which died, had not committed.
    ///
    /// # Errors
    /// When the disk refuses, a checkpoint of an earlier process is damaged, or the system has no
    /// further thread.
    pub fn writer(&self, shard: u32, life: u32, clock: Clock) -> Result<Writer, LogError> {
        let Self {
            place,
            number,
            plan,
            saved,
            cpus,
        } = self;
        let name = SegmentName {
            session: *number,
            shard,
            life,
        };
        let header = Header::new(name, TOOL, plan, saved.fields);
        let disk = Directory::new(place);
        recover_earlier_lives(&disk, name)?;
        let log = SegmentLog::create(disk.clone(), &header, saved, Steps::default())?;
        let started = Writer::start(log, saved.clone(), clock, cpus.clone());
        Ok(started.map_err(DiskError::of(&disk, "start the writer of", &name.segment()))?)
    }

    /// Begin the file that counts the requests of each of `shards` shards, even if this session is
    /// killed; none where files cannot be mapped.
    #[must_use]
    pub fn counters(&self, shards: u32) -> Option<FileCounters> {
        let path = self.place.join(SegmentName::requests(self.number));
        let shards = NonZeroUsize::new(shards as usize).unwrap_or(NonZeroUsize::MIN);
        FileCounters::create(&path, shards).ok()
    }

    /// Return what a process that died left of the IDs that it held, by its last checkpoint; none
    /// where that cannot be read. Called in the supervisor's loop, so it reads nothing else.
    #[must_use]
    pub fn left(&self, shard: u32, life: u32, held: &[IdRange]) -> Option<Left> {
        let name = SegmentName {
            session: self.number,
            shard,
            life,
        };
        let checkpoint = last_checkpoint(&Directory::new(&self.place), name).ok()?;
        let Checkpoint {
            finished, tally, ..
        } = checkpoint.unwrap_or_default();
        let mut items = ItemCounts::default();
        for (outcome, count) in tally.outcomes {
            *match ItemState::of(&outcome) {
                ItemState::Good => &mut items.ok,
                ItemState::NotFound => &mut items.not_found,
                ItemState::Skipped => &mut items.skipped,
                ItemState::Failed => &mut items.failed,
                ItemState::Abandoned => &mut items.gave_up,
            } += count;
        }
        Some(Left {
            ids: held
                .iter()
                .flat_map(|range| finished.gaps(*range))
                .collect(),
            items,
        })
    }

    /// Return the figures of all sessions, from the first to this one, by what is committed, and
    /// the number of items that are finished.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn figures(&self) -> io::Result<(Vec<SavedSession>, u64)> {
        let mut finished = 0;
        let mut sessions: BTreeMap<u32, (RecordCounts, u64, u64)> =
            BTreeMap::from([(self.number, Default::default())]);
        for entry in fs::read_dir(&self.place)? {
            let entry = entry?;
            let file = entry.file_name();
            // One that was killed before its first commit has sent requests, too.
            if let Some(session) = file.to_str().and_then(SegmentName::session_of_requests) {
                sessions.entry(session).or_default();
            }
            let Some(name) = file.to_str().and_then(SegmentName::of_checkpoint) else {
                continue;
            };
            let checkpoint =
                Checkpoint::decode(&fs::read(entry.path())?).map_err(io::Error::other)?;
            let (tally, items, bytes) = sessions.entry(name.session).or_default();
            // No item is finished twice.
            finished += checkpoint.tally.finished();
            *items += checkpoint.records();
            *bytes += checkpoint.committed;
            tally.merge(checkpoint.tally);
        }
        let with_count = |one: SavedSession| SavedSession {
            sent: sent(&self.place, one.session, one.requests),
            ..one
        };
        Ok((
            sessions.into_iter().map(figures).map(with_count).collect(),
            finished,
        ))
    }
}

/// Return the requests that a session sent. None if they were not counted, or are fewer than those
/// for its items: a power cut loses counts, and an attempt that cannot connect sends nothing.
pub(crate) fn sent(place: &Path, session: u32, requests: u64) -> Option<u64> {
    counted_requests(&place.join(SegmentName::requests(session))).filter(|sent| *sent >= requests)
}

/// Return the last session that counted its requests; 0 if none has.
pub(crate) fn last_counted(place: &Path) -> u32 {
    let names = fs::read_dir(place)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name());
    names
        .filter_map(|name| SegmentName::session_of_requests(name.to_str()?))
        .max()
        .unwrap_or(0)
}

fn figures((session, (tally, items, bytes)): (u32, (RecordCounts, u64, u64))) -> SavedSession {
    let RecordCounts {
        attempts,
        at_us,
        latency_us,
        ..
    } = tally;
    let moment = |us: u64| {
        humantime::format_rfc3339_millis(SystemTime::UNIX_EPOCH + Duration::from_micros(us))
            .to_string()
    };
    let is_known = |part: f64| latency_us.len() >= samples_for(part, SAMPLES_BEYOND);
    let percentile = |part: f64| is_known(part).then(|| latency_us.value_at_quantile(part));
    SavedSession {
        session,
        from: at_us.map(|(first, _)| moment(first)),
        to: at_us.map(|(_, last)| moment(last)),
        active_s: at_us.map_or(0.0, |(first, last)| last.saturating_sub(first) as f64 / 1e6),
        items,
        requests: attempts,
        sent: None,
        bytes,
        p50_us: percentile(0.5),
        p99_us: percentile(0.99),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use crawlmark_harness::process::usable_cpus;

    use super::*;
    use crate::dataset::log::put_checkpoint;
    use crate::dataset::manifest::{Bodies, Durability, Fields};
    use crate::dataset::recover::{Retry, recover};

    /// Bytes of a segment that must not be read while shards wait: a hole of 2 GiB.
    const COMMITTED: u64 = 2 << 30;

    #[test]
    fn a_shard_is_replaced_without_a_look_into_its_segment_and_its_tail_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let saved = Saved {
            fields: Fields::default(),
            bodies: Bodies::Good,
            max_body: 1,
            durability: Durability::Process,
        };
        let session = Session {
            place: place.path().to_owned(),
            number: 1,
            plan: "plan".to_owned(),
            saved,
            cpus: usable_cpus(),
        };
        let dead = |life| SegmentName {
            session: 1,
            shard: 3,
            life,
        };
        let disk = Directory::new(place.path());
        let mut checkpoint = Checkpoint {
            committed: COMMITTED,
            ..Checkpoint::default()
        };
        for item in [10, 12] {
            checkpoint.finished.insert(item).unwrap();
            checkpoint.tally.record("ok", 1, None, None);
        }
        put_checkpoint(&disk, dead(0), &checkpoint, Durability::Process).unwrap();
        let path = place.path().join(dead(0).segment());
        File::create(&path).unwrap().set_len(COMMITTED + 7).unwrap();
        // Of the second process there is only the start of a segment.
        let start = place.path().join(SegmentName::new_file(&dead(1).segment()));
        File::create(&start).unwrap();

        // Its digest is wrong, as only its bytes can tell.
        let left = session
            .left(3, 0, &[IdRange { start: 10, end: 14 }])
            .unwrap();
        assert_eq!(
            left.ids,
            [
                IdRange { start: 11, end: 12 },
                IdRange { start: 13, end: 14 }
            ]
        );
        assert_eq!(
            left.items,
            ItemCounts {
                ok: 2,
                ..ItemCounts::default()
            }
        );
        assert_eq!(
            fs::metadata(&path).unwrap().len(),
            COMMITTED + 7,
            "the supervisor must not wait for the disk"
        );
        assert_eq!(session.left(3, 1, &left.ids).unwrap().ids, left.ids);

        drop(session.writer(3, 2, Clock::start()).unwrap());
        assert_eq!(fs::metadata(&path).unwrap().len(), COMMITTED);
        assert!(!start.exists());

        // A short segment is not worth a replacement; the digest of this one is checked before the
        // crawl goes on.
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(1_000)
            .unwrap();
        assert_eq!(session.left(3, 0, &left.ids), None);
        put_checkpoint(
            &disk,
            dead(0),
            &Checkpoint {
                committed: 1_000,
                ..checkpoint
            },
            Durability::Process,
        )
        .unwrap();
        assert!(session.left(3, 0, &left.ids).is_some());
        let error = recover(&disk, Ok, Retry::All).unwrap_err().to_string();
        assert!(
            error.contains("0001-s03.jsonl.zst is damaged: its first 1000 bytes"),
            "{error}"
        );
    }
}
