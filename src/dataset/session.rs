//! A session of a saved crawl: one run that adds to the directory, and the figures of all sessions
//! so far.
//!
//! Made by `run`, which holds the lock of the directory; each shard starts its writer from it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use crawlmark_harness::clock::Clock;
use crawlmark_harness::files::Root;
use crawlmark_harness::process::FileCounters;
use crawlmark_harness::stats::{ItemCounts, SAMPLES_BEYOND, samples_for};
use crawlmark_harness::supervisor::Left;
use crawlmark_harness::units::IdRange;
use crawlmark_results::run::parts::counted_requests;
use crawlmark_results::run::report::SavedSession;

use super::disk::{Directory, Disk as _, DiskError};
use super::item_set::ItemSet;
use super::known::Known;
use super::line::ItemState;
use super::log::{LogError, SegmentLog, Steps};
use super::manifest::Saved;
use super::records::Records;
use super::recover::{SessionRecords, records_of, recover_session};
use super::segment::{FORMAT, Header, SegmentName};
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
    /// First session of its refresh, or of the crawl.
    pub since: u32,
    /// What earlier sessions know of the items of a refresh.
    pub known: Option<Rc<Known>>,
    /// Hash of its plan.
    pub plan: String,
    /// Settings of what is saved.
    pub saved: Saved,
    /// CPUs for writers: those that the run may use, not only the one that a shard is pinned to.
    pub cpus: Vec<usize>,
}

impl Session {
    /// Start the writer of a shard, whose segment must be new. Call in the shard's process.
    ///
    /// # Errors
    /// When the disk refuses, or the system has no further thread.
    pub fn writer(&self, shard: u32, life: u32, clock: Clock) -> Result<Writer, LogError> {
        let Self {
            place,
            number,
            plan,
            saved,
            cpus,
            ..
        } = self;
        let name = SegmentName {
            session: *number,
            shard,
            life,
        };
        let header = Header {
            format: FORMAT.to_owned(),
            tool: TOOL.to_owned(),
            plan: plan.clone(),
            name,
            fields: saved.fields,
        };
        let disk = Directory::with_mode(place, saved.mode);
        let log = SegmentLog::create(disk.clone(), &header, saved, Steps::default())?;
        let started = Writer::start(log, saved.clone(), clock, cpus.clone());
        Ok(started.map_err(DiskError::of(&disk, "start the writer of", &name.segment()))?)
    }

    /// Begin the file that counts the requests of each of `shards` shards, even if this session is
    /// killed; none where files cannot be mapped.
    pub fn counters(&self, shards: u32) -> Option<FileCounters> {
        let path = self.place.join(SegmentName::requests(self.number));
        let root = Root::with_mode(&self.place, self.saved.mode);
        FileCounters::create(&root, &path, shards).ok()
    }

    /// Return what a process that died left of the IDs that it held, by the indexes of its segment;
    /// none where they cannot be read. Called in the supervisor's loop, so it reads no frames.
    pub fn left(&self, shard: u32, life: u32, held: &[IdRange]) -> Option<Left> {
        let name = SegmentName {
            session: self.number,
            shard,
            life,
        };
        let records = records_of(&Directory::new(&self.place), name).ok()?;
        let mut ended = ItemSet::default();
        for range in records.items() {
            let _ = ended.add(range);
        }
        let mut items = ItemCounts::default();
        for (outcome, count) in &records.outcomes {
            *match ItemState::of(outcome) {
                ItemState::UnderWay => continue,
                ItemState::Good | ItemState::NotModified => &mut items.ok,
                ItemState::NotFound => &mut items.not_found,
                ItemState::Skipped => &mut items.skipped,
                ItemState::Failed => &mut items.failed,
                ItemState::Abandoned => &mut items.gave_up,
            } += count;
        }
        Some(Left {
            ids: held.iter().flat_map(|range| ended.gaps(*range)).collect(),
            items,
        })
    }

    /// Return the figures of all sessions, of which these are the `earlier` ones, and the number of
    /// items that are finished. Called after the last shard has ended.
    ///
    /// # Errors
    /// When a file cannot be read or recovered.
    pub fn figures(
        &self,
        earlier: &BTreeMap<u32, SessionRecords>,
    ) -> Result<(Vec<SavedSession>, u64), DiskError> {
        let mut sessions = earlier.clone();
        let own = recover_session(&Directory::new(&self.place), self.number)?;
        sessions.insert(self.number, own);
        // One that was killed before its first commit has sent requests, too.
        for session in counted_sessions(&self.place) {
            sessions.entry(session).or_default();
        }
        // An item whose record was lost may be finished twice.
        let mut finished = ItemSet::default();
        for (_, one) in sessions.range(self.since..) {
            finished.merge(&one.records.finished);
        }
        let figures = sessions.iter().map(|(session, one)| SavedSession {
            sent: sent(
                counted_requests(&self.place.join(SegmentName::requests(*session))),
                one.records.attempts,
            ),
            ..figures(*session, one)
        });
        Ok((figures.collect(), finished.len()))
    }
}

/// Return the requests that a session sent, by its counters. None if they are fewer than those for
/// its items: a power cut loses counts, and an attempt that cannot connect sends nothing.
pub(crate) fn sent(counted: Option<u64>, requests: u64) -> Option<u64> {
    counted.filter(|sent| *sent >= requests)
}

/// Return the number of the next session of a crawl, from 1.
///
/// # Errors
/// When the directory cannot be read.
pub(crate) fn next_session(place: &Path) -> Result<u32, DiskError> {
    let disk = Directory::new(place);
    let files = disk.list().map_err(DiskError::of(&disk, "list", ""))?;
    let sessions = files.iter().filter_map(|file| {
        let of_segment = SegmentName::of_segment(file).map(|name| name.session);
        // One that committed nothing may have sent requests.
        of_segment.or_else(|| SegmentName::session_of_requests(file))
    });
    Ok(sessions.max().unwrap_or(0).saturating_add(1))
}

/// Return the sessions that counted their requests.
fn counted_sessions(place: &Path) -> Vec<u32> {
    let files = Directory::new(place).list().unwrap_or_default();
    files
        .iter()
        .filter_map(|file| SegmentName::session_of_requests(file))
        .collect()
}

fn figures(session: u32, SessionRecords { records, bytes }: &SessionRecords) -> SavedSession {
    let Records {
        attempts,
        at_us,
        latency_us,
        ..
    } = records;
    let [p50_us, p99_us] = [0.5, 0.99].map(|part| {
        (latency_us.len() >= samples_for(part, SAMPLES_BEYOND))
            .then(|| latency_us.value_at_quantile(part))
    });
    SavedSession {
        session,
        from: at_us.map(|(first, _)| moment(first)),
        to: at_us.map(|(_, last)| moment(last)),
        active_s: at_us.map_or(0.0, |(first, last)| last.saturating_sub(first) as f64 / 1e6),
        items: records.items().map(|range| range.len()).sum(),
        requests: *attempts,
        sent: None,
        bytes: *bytes,
        p50_us,
        p99_us,
    }
}

/// Return a time after the Unix epoch, µs, as RFC 3339 in UTC.
fn moment(us: u64) -> String {
    humantime::format_rfc3339_millis(SystemTime::UNIX_EPOCH + Duration::from_micros(us)).to_string()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write as _;

    use crawlmark_harness::process::usable_cpus;

    use super::*;
    use crate::dataset::manifest::{Bodies, Durability, Fields};
    use crate::dataset::records::RecordedItem;
    use crate::dataset::segment::tests::segment;

    /// A frame that must not be read while shards wait.
    const DAMAGED: [u8; 4] = [7; 4];

    #[test]
    fn a_shard_is_replaced_without_a_look_into_its_frames() {
        let place = tempfile::tempdir().unwrap();
        let saved = Saved {
            fields: Fields::default(),
            bodies: Bodies::Good,
            max_body: 1,
            durability: Durability::Process,
            mode: crawlmark_harness::files::PRIVATE,
        };
        let session = Session {
            place: place.path().to_owned(),
            number: 1,
            since: 1,
            known: None,
            plan: "plan".to_owned(),
            saved,
            cpus: usable_cpus(),
        };
        let mut records = Records::default();
        for item in [10, 12] {
            records.add(&RecordedItem {
                item,
                outcome: "ok",
                attempts: 1,
                at_us: None,
                latency_us: None,
            });
        }
        let (mut bytes, ends) = segment(&[(b"{}\n".to_vec(), records)]);
        bytes[ends[1] - DAMAGED.len()..ends[1]].copy_from_slice(&DAMAGED);
        // It died within its second frame.
        let name = SegmentName {
            session: 1,
            shard: 3,
            life: 0,
        };
        let mut file = File::create(place.path().join(name.segment())).unwrap();
        file.write_all(&[&bytes[..ends[1]], &bytes[ends[0]..ends[1] - 1]].concat())
            .unwrap();

        let held = [IdRange { start: 10, end: 14 }];
        let left = session.left(3, 0, &held).unwrap();
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
        assert_eq!(session.left(3, 1, &left.ids).unwrap().ids, left.ids);
    }
}
