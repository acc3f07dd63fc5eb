//! An attempt at a part: its directory, what it writes there while it crawls, and how its result is
//! published.
//!
//! Whatever is restarted, requeued or called dead by a scheduler: an attempt counts if its
//! `attempt.json` is the first to be linked to the part's `RESULT`. Files become visible whole, by
//! link(2) or rename(2); nothing is locked.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crawlmark_harness::clock::{Clock, Nanos, wall_time};
use crawlmark_harness::files::{Root, random};
use crawlmark_harness::process::{FileCounters, clock_error};
use crawlmark_harness::supervisor::parts::PartWriter;
use crawlmark_harness::units::IdRange;
use crawlmark_results::run::parts::digest::crc32_of;
use crawlmark_results::run::parts::{
    AttemptRecord, AttemptStatus, ClockReading, PartsDirectory, PlanFile, counted_requests,
};

use super::digest::check_program;
use super::node::{Node, Part};
use super::tolerance::retried;
use crate::dataset::inherit::Committed;
use crate::error::Error;

/// Greatest error of a file's time stamp: file systems take it from a clock that ticks a hundred
/// times a second or more often.
const STAMP_TICK: Duration = Duration::from_millis(10);

/// An attempt at a part.
#[derive(Debug)]
pub(crate) struct Attempt {
    /// The plan.
    pub(crate) plan: PlanFile,
    directory: PartsDirectory,
    part: Part,
    name: String,
    host: String,
    stamp: Cell<Option<Stamp>>,
}

/// A time stamp of the directory's file server, and when it was made: times are counted from it by
/// the monotonic clock, because the calendar may be set until the attempt starts.
#[derive(Debug, Clone, Copy)]
struct Stamp {
    /// µs after the Unix epoch.
    us: u64,
    made: Nanos,
    /// Greatest error of `made`, µs.
    within_us: u64,
}

impl Stamp {
    /// The server's time at `now`, µs after the Unix epoch.
    const fn at(self, now: Nanos) -> u64 {
        self.us.saturating_add(now.since(self.made) / 1_000)
    }
}

/// Return the end of an attempt at a part that has a result in this file.
pub(crate) fn has_result(result: &Path) -> Error {
    Error::Needless(format!(
        "This part has a result already ({}): nothing to do.",
        result.display()
    ))
}

/// Result of the publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Publication {
    /// The attempt counts.
    Counts,
    /// Another one does.
    Lost,
}

impl Attempt {
    /// Begin an attempt at the part that `node` names, of the plan at `plan`, in the directory
    /// `into`, which is made if it does not exist.
    ///
    /// # Errors
    /// When the plan is not this program's, the directory is of another crawl, a file cannot be
    /// written, or the part has a result.
    pub(crate) fn begin(plan: &Path, into: &Path, node: Node) -> Result<Self, Error> {
        let (file, text) = PlanFile::read(plan)?;
        let part = node
            .part(file.nodes, |name| std::env::var(name).ok())
            .map_err(Error::Usage)?;
        check_program(&file, plan)?;
        let directory = PartsDirectory::at(into);
        let host = host();
        // Containers of one machine may have its host name, and each the process ID 1.
        let unique = random().map_err(Error::unwritable(into))?;
        let name = format!("{}-{}-{unique:016x}", fit(&host), std::process::id());
        let place = directory.attempt(part.part, &name);
        if directory.plan().exists() {
            share_plan(&directory, &file, &text, &name)?;
        }
        if directory.result(part.part).exists() {
            return Err(has_result(&directory.result(part.part)));
        }
        let made = Root::new(directory.path()).directory(&place);
        made.map_err(Error::unwritable(&place))?;
        share_plan(&directory, &file, &text, &name)?;
        Ok(Self {
            plan: file,
            directory,
            part,
            name,
            host,
            stamp: Cell::default(),
        })
    }

    /// Its directory.
    pub(crate) fn place(&self) -> PathBuf {
        self.directory.attempt(self.part.part, &self.name)
    }

    /// Copy what an earlier attempt at the part has committed of its saved crawl, the directory
    /// `name` in its own, to files of this mode, and return the number of items. The attempt with the most of them is
    /// taken, and what cannot be copied is crawled again.
    ///
    /// # Errors
    /// When the attempts cannot be listed.
    pub(crate) fn take_over(&self, name: &Path, mode: u32, time: Clock) -> Result<u64, Error> {
        let part = self.part.part;
        let attempts = retried(time, || self.directory.attempts(part))
            .map_err(Error::unwritable(&self.directory.part(part)))?;
        let most = attempts
            .into_iter()
            .filter(|other| *other != self.name)
            .map(|other| self.directory.attempt(part, &other).join(name))
            .filter_map(|place| Committed::read(&place).map(|committed| (place, committed)))
            .max_by_key(|(_, committed)| committed.items());
        let Some((place, committed)) = most else {
            return Ok(0);
        };
        let own = self.place().join(name);
        Ok(committed.copy(&place, &own, mode).unwrap_or_else(|_| {
            let _ = fs::remove_dir_all(&own);
            0
        }))
    }

    /// Remove what an attempt has written that sent nothing and never will.
    pub(crate) fn leave(&self) {
        let _ = fs::remove_dir_all(self.place());
    }

    /// The directory that all parts share, to write files below.
    fn root(&self) -> Root {
        Root::new(self.directory.path())
    }

    /// The directory that all parts share.
    pub(crate) const fn directory(&self) -> &PartsDirectory {
        &self.directory
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its part.
    pub(crate) const fn part(&self) -> Part {
        self.part
    }

    /// Its IDs.
    pub(crate) fn ids(&self) -> IdRange {
        self.plan.ids(self.part.part)
    }

    /// Ask the directory's file server for its time. Call shortly before the start.
    pub(crate) fn read_clock(&self, clock: Clock) {
        let path = self.place().join("clock");
        self.stamp.set(stamp(&self.root(), &path, clock));
    }

    /// Return the time until the common start, by the clock of the directory's file server; 0 if
    /// the plan has no start, or it is over.
    pub(crate) fn until_start(&self, now: Nanos) -> Duration {
        let stamp = self.stamp.get();
        let server_us = stamp.map_or_else(|| unix_us(wall_time()), |stamp| stamp.at(now));
        Duration::from_micros(self.plan.start_us().unwrap_or(0).saturating_sub(server_us))
    }

    /// Begin the file of its seconds.
    pub(crate) fn frames(&self) -> Result<PartWriter<File>, Error> {
        let path = self.place().join(PartsDirectory::FRAMES);
        let file = self.root().create(&path);
        Ok(PartWriter::new(file.map_err(Error::unwritable(&path))?))
    }

    /// Begin the file that counts the requests of each of so many shards, even if this attempt is
    /// killed. None where files cannot be mapped: then the merge counts the requests of a killed
    /// attempt by its seconds.
    pub(crate) fn counters(&self, shards: u32) -> Option<FileCounters> {
        let path = self.place().join(PartsDirectory::REQUESTS);
        FileCounters::create(&self.root(), &path, shards).ok()
    }

    /// Write its status. A failure is none of the crawl's.
    pub(crate) fn report(&self, status: &AttemptStatus) {
        if let Ok(json) = serde_json::to_string(status) {
            let path = self.place().join(PartsDirectory::STATUS);
            let _ = (self.root()).replace(path, |file| file.write_all(json.as_bytes()));
        }
    }

    /// Write what `record` says of the attempt that started at `start`, and publish it if it is whole:
    /// it counts unless another one was published before. None if no attempt was published. All that the attempt did
    /// depends on a few calls here, so they are tried again for a while.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub(crate) fn publish(
        &self,
        record: AttemptRecord,
        start: Nanos,
        time: Clock,
    ) -> Result<Option<Publication>, Error> {
        let Self {
            plan,
            part,
            name,
            host,
            stamp,
            ..
        } = self;
        let place = self.place();
        let mut files = BTreeMap::new();
        for name in [PartsDirectory::FRAMES, PartsDirectory::REQUESTS] {
            let path = place.join(name);
            let sum = retried(time, || match crc32_of(&path) {
                // Where files cannot be mapped or made, none counts requests: it will not come.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                sum => sum.map(Some),
            });
            let sum = sum.map_err(Error::unwritable(&path))?;
            files.extend(sum.map(|sum| (name.to_owned(), sum)));
        }
        let record = AttemptRecord {
            plan: plan.digest().to_owned(),
            part: part.part,
            attempt: name.clone(),
            host: host.clone(),
            clock: stamp.get().map(|stamp| ClockReading {
                ahead_us: record
                    .started_at_us
                    .wrapping_sub(stamp.at(start))
                    .cast_signed(),
                within_us: stamp.within_us,
            }),
            clock_error_us: clock_error().and_then(|error| u64::try_from(error.as_micros()).ok()),
            files,
            // A shard that died has sent more than it reported.
            requests: counted_requests(&place.join(PartsDirectory::REQUESTS))
                .unwrap_or(0)
                .max(record.requests),
            ..record
        };
        let path = place.join(PartsDirectory::ATTEMPT);
        let json = record.text()?;
        retried(time, || put(&self.root(), &path, &json)).map_err(Error::unwritable(&path))?;
        let result = self.directory.result(part.part);
        if !record.whole {
            return Ok(result.exists().then_some(Publication::Lost));
        }
        retried(time, || match fs::hard_link(&path, &result) {
            Ok(()) => Ok(Publication::Counts),
            // The answer of a file server may have been lost, and the request repeated.
            Err(error) => match AttemptRecord::read(&result) {
                Ok(Some(published)) if published.attempt == *name => Ok(Publication::Counts),
                Ok(Some(_)) => Ok(Publication::Lost),
                Ok(None) | Err(_) => Err(error),
            },
        })
        .map(Some)
        .map_err(Error::unwritable(&result))
    }
}

/// Put the plan into the directory unless it is there; another plan there is refused. `attempt` is
/// a name that nobody else uses.
///
/// # Errors
/// When the directory has another plan, or cannot be written.
pub(crate) fn share_plan(
    directory: &PartsDirectory,
    plan: &PlanFile,
    text: &str,
    attempt: &str,
) -> Result<(), Error> {
    let path = directory.plan();
    if !path.exists() {
        let own = directory
            .path()
            .join(format!("{}.{attempt}", PartsDirectory::PLAN));
        put(&Root::new(directory.path()), &own, text).map_err(Error::unwritable(&own))?;
        let linked = fs::hard_link(&own, &path);
        let _ = fs::remove_file(&own);
        // Another attempt may have been faster.
        if let Err(error) = linked
            && !path.exists()
        {
            let why = format!("{error}. The directory that the parts share needs hard links");
            return Err(Error::unwritable(&path)(io::Error::new(error.kind(), why)));
        }
    }
    if PlanFile::shared(directory)?.digest() == plan.digest() {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "--into {}: it holds the parts of another plan. Name another directory, or use the plan in it (--plan {})",
        directory.path().display(),
        path.display()
    )))
}

/// Write a file that is seen whole or not at all, and survives a power cut.
fn put(root: &Root, path: &Path, text: &str) -> io::Result<()> {
    root.replace(path, |file| {
        file.write_all(text.as_bytes())
            .and_then(|()| file.sync_all())
    })
    .map(drop)
}

/// Have the directory's file server stamp a file between two of our readings.
fn stamp(root: &Root, path: &Path, clock: Clock) -> Option<Stamp> {
    let before = clock.now();
    let mut file = root.create(path).ok()?;
    file.write_all(b"\n").and_then(|()| file.sync_all()).ok()?;
    let half = Duration::from_nanos(clock.now().since(before).div_ceil(2));
    let stamp = fs::metadata(path).and_then(|data| data.modified()).ok();
    let _ = fs::remove_file(path);
    Some(Stamp {
        us: unix_us(stamp?),
        made: before.plus(half),
        within_us: u64::try_from((half + STAMP_TICK).as_micros()).ok()?,
    })
}

/// Time after the Unix epoch, µs.
pub(crate) fn unix_us(time: SystemTime) -> u64 {
    let since = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Name of this machine, as its scheduler or its kernel has it.
fn host() -> String {
    let name = std::env::var("SLURMD_NODENAME")
        .ok()
        .or_else(|| fs::read_to_string("/proc/sys/kernel/hostname").ok())
        .unwrap_or_default();
    match name.trim() {
        "" => "unknown".to_owned(),
        name => name.to_owned(),
    }
}

/// A host's name as part of a file's: its end, where names that a scheduler gives differ.
fn fit(host: &str) -> String {
    /// Longest part of a name.
    const LONGEST: usize = 60;
    host.chars()
        .skip(host.chars().count().saturating_sub(LONGEST))
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect()
}
