//! Merge of the published parts of a crawl into one report.
//!
//! Reads the plan, which attempt at each part counts, and their seconds side by side; the engine
//! adds them up. Memory grows with the number of parts and the seconds of the crawl, not with their
//! product.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::{AttemptRecord, PartsDirectory, PlanFile, PlanFileError};
use crate::judge::Finding;
use crate::run::gates::{LiveThresholds, Objective};
use crate::run::report::{
    Labels, MergedReport, OtherAttempt, Report, RunFacts, Seconds, Source, Verdict,
};
use crate::run::result_dir::{IntervalLog, LogFile, ResultError, foreign};
use crate::show::text::counted;
use crawlmark_harness::clock::duration_ns;
use crawlmark_harness::plan::{HostRateSource, RunPlan};
use crawlmark_harness::process::FileCounters;
use crawlmark_harness::supervisor::parts::{
    MOST_TIMES, PartError, PartFrame, PartReader, PartStart, merge as merge_frames,
};
use crawlmark_harness::supervisor::{Interval, Live, Observer, RunRecord};
use crawlmark_harness::units::Rate;

/// Missing parts, and attempts that were not merged, that a report names.
const NAMED_PARTS: usize = 100;
const NAMED_ATTEMPTS: usize = 20;

/// Parts that a message names.
const SHOWN: usize = 10;

/// Treatment of parts without a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completeness {
    /// They are an error.
    All,
    /// The others are merged; the report is incomplete.
    Partial,
}

/// Reason why parts cannot be merged.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// No plan, or one that cannot be used.
    #[error("{0}")]
    Plan(#[from] PlanFileError),
    /// Parts without a result.
    #[error(
        "merge {}: {}. Run what is not running (`crawlmark watch` shows it), as with `{}`{}",
        directory.path().display(), without_result(missing), directory.command(*missing.first().unwrap_or(&0), *of),
        if missing.len() < *of as usize { ", or merge the others with --partial" } else { "" }
    )]
    Missing {
        /// Their directory.
        directory: PartsDirectory,
        /// Their numbers.
        missing: Vec<u32>,
        /// Number of parts.
        of: u32,
    },
    /// A file cannot be read.
    #[error("read {}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Error of the system, or the fault of the file.
        error: io::Error,
    },
    /// The log of times cannot be written.
    #[error("{0}")]
    Log(#[from] ResultError),
    /// The seconds of an attempt are damaged.
    #[error("read {}: {error}. Restore it from a backup, or remove {} and run the part again", path.display(), result.display())]
    Frames {
        /// The file.
        path: PathBuf,
        /// First thing that is wrong.
        error: PartError,
        /// File that says that this attempt counts.
        result: PathBuf,
    },
}

impl MergeError {
    /// Name the file of an error.
    pub fn of(path: PathBuf) -> impl FnOnce(io::Error) -> Self {
        |error| Self::Io { path, error }
    }
}

/// Say which parts have no result: the first of them by their numbers.
pub fn without_result(parts: &[u32]) -> String {
    let shown: Vec<String> = parts.iter().take(SHOWN).map(u32::to_string).collect();
    let more = if parts.len() > SHOWN { ", ..." } else { "" };
    let count = counted(parts.len() as u64, "part");
    format!("{count} without a result ({}{more})", shown.join(", "))
}

/// The parts of a crawl, and the attempts that count.
#[derive(Debug)]
pub struct PublishedParts {
    /// Their directory.
    pub directory: PartsDirectory,
    /// The plan.
    pub plan: PlanFile,
    /// The attempts that count, in the order of their parts.
    pub attempts: Vec<AttemptRecord>,
    /// Parts without a result.
    pub missing: Vec<u32>,
}

impl PublishedParts {
    /// Read the plan in a directory, and the records of the attempts that count.
    ///
    /// # Errors
    /// When a file is damaged, or of another crawl.
    pub fn read(directory: &PartsDirectory) -> Result<Self, MergeError> {
        let plan = PlanFile::shared(directory)?;
        let (mut attempts, mut missing) = (Vec::new(), Vec::new());
        for part in 0..plan.nodes {
            let published = AttemptRecord::published(directory, &plan, part);
            match published.map_err(MergeError::of(directory.result(part)))? {
                Some(attempt) => attempts.push(attempt),
                None => missing.push(part),
            }
        }
        Ok(Self {
            directory: directory.clone(),
            plan,
            attempts,
            missing,
        })
    }

    fn attempt(&self, part: u32) -> Option<&AttemptRecord> {
        let found = self.attempts.binary_search_by_key(&part, |one| one.part);
        Some(&self.attempts[found.ok()?])
    }

    /// Return the path of the seconds of a part.
    fn frames(&self, part: u32) -> PathBuf {
        let attempt = self.attempt(part).map_or("", |attempt| &attempt.attempt);
        let place = self.directory.attempt(part, attempt);
        place.join(PartsDirectory::FRAMES)
    }

    /// Return the first start, µs after the Unix epoch.
    fn start_us(&self) -> u64 {
        self.attempts
            .iter()
            .map(AttemptRecord::start_us)
            .min()
            .unwrap_or(0)
    }

    /// Return the crawl with the crawl-delay that its parts obeyed, which is not known when a plan
    /// is made.
    fn crawl(&self) -> RunPlan {
        let mut crawl = self.plan.crawl.clone();
        let period = self
            .attempts
            .iter()
            .filter_map(|one| one.crawl_delay_s)
            .max_by(f64::total_cmp)
            .and_then(|delay_s| Duration::try_from_secs_f64(delay_s).ok());
        if let Some(period) = period.filter(|period| !period.is_zero()) {
            crawl.per_host.rate = Some(Rate {
                permits: 1,
                period_ns: duration_ns(period),
            });
            crawl.per_host.burst = Some(self.plan.slots.into());
            crawl.workload.per_host_rate_from = Some(HostRateSource::CrawlDelay);
        }
        crawl
    }

    /// Return the part of the time between the first start and the last end in which the slots were
    /// in use.
    fn slots_used(&self) -> f64 {
        let (mut used_us, mut end_us) = (0_u64, 0);
        for attempt in &self.attempts {
            let time_us = attempt.finished_at_us.saturating_sub(attempt.started_at_us);
            used_us = used_us.saturating_add(time_us);
            end_us = end_us.max(attempt.start_us().saturating_add(time_us));
        }
        let all_us = end_us.saturating_sub(self.start_us()) as f64 * f64::from(self.plan.slots);
        if all_us > 0.0 {
            (used_us as f64 / all_us).min(1.0)
        } else {
            0.0
        }
    }

    /// Describe the parts, and the attempts beside those that count.
    fn describe(&self) -> Result<MergedReport, MergeError> {
        const SECOND_US: u64 = 1_000_000;
        let Self {
            directory,
            plan,
            attempts,
            missing,
        } = self;
        let start_us = self.start_us();
        let aligned_us = attempts.iter().map(|attempt| {
            let within = (attempt.start_us() - start_us) % SECOND_US;
            Some(within.min(SECOND_US - within) + attempt.clock?.within_us)
        });
        let late_us: Option<Vec<u64>> = plan.start_us().map(|common_us| {
            attempts
                .iter()
                .map(AttemptRecord::start_us)
                .map(|us| us.saturating_sub(common_us))
                .collect()
        });
        let machines: BTreeSet<&str> = attempts.iter().map(|attempt| &*attempt.host).collect();
        let mut merged = MergedReport {
            directory: directory.path().display().to_string(),
            parts: plan.nodes,
            missing_parts: number(missing.len()),
            missing: missing.iter().copied().take(NAMED_PARTS).collect(),
            slots: plan.slots,
            slots_used: self.slots_used(),
            machines: number(machines.len()),
            aligned_within_us: greatest(aligned_us),
            clock_error_us: greatest(attempts.iter().map(|attempt| attempt.clock_error_us)),
            late_parts: late_us
                .as_ref()
                .map(|all| number(all.iter().filter(|us| **us > SECOND_US).count())),
            last_start_us: late_us.and_then(|all| all.into_iter().max()),
            robots_requests: sum(attempts.iter().map(|attempt| attempt.robots_requests)),
            ..MergedReport::default()
        };
        for part in 0..plan.nodes {
            let counts = self.attempt(part).map(|attempt| &*attempt.attempt);
            let names = directory
                .attempts(part)
                .map_err(MergeError::of(directory.part(part)))?;
            for name in names.into_iter().filter(|name| counts != Some(&**name)) {
                let other = other(directory, part, name)?;
                merged.other_attempts += 1;
                merged.additional_requests =
                    merged.additional_requests.saturating_add(other.requests);
                merged.died_attempts += u32::from(!other.has_ended);
                merged.uncounted_attempts += u32::from(!other.is_counted);
                if merged.others.len() < NAMED_ATTEMPTS {
                    merged.others.push(other);
                }
            }
        }
        Ok(merged)
    }
}

/// Merge the parts in `directory`. `objectives` are thresholds of the whole crawl. The times of each
/// part and second go to `log`, unless there are more than [`MOST_TIMES`] parts.
///
/// # Errors
/// When a part has no result and `completeness` is [`Completeness::All`], or when a file is damaged
/// or of another crawl.
pub fn merge(
    directory: &PartsDirectory,
    completeness: Completeness,
    objectives: &[Objective],
    log: Option<LogFile>,
) -> Result<Report, MergeError> {
    let parts = PublishedParts::read(directory)?;
    let PublishedParts {
        plan,
        attempts,
        missing,
        ..
    } = &parts;
    let is_refused = completeness == Completeness::All || attempts.is_empty();
    if !missing.is_empty() && is_refused {
        return Err(MergeError::Missing {
            directory: directory.clone(),
            missing: missing.clone(),
            of: plan.nodes,
        });
    }
    let start_us = parts.start_us();
    let starts: Vec<PartStart> = attempts
        .iter()
        .map(|attempt| PartStart {
            part: attempt.part,
            offset: Duration::from_micros(attempt.start_us() - start_us),
        })
        .collect();
    let crawl = parts.crawl();
    let mut log = log.filter(|_| plan.nodes <= MOST_TIMES);
    let started_at = SystemTime::UNIX_EPOCH + Duration::from_micros(start_us);
    let mut recorder = Recorder {
        seconds: Seconds::default(),
        log: log.as_mut().map(|log| log.begin(started_at)).transpose()?,
        thresholds: LiveThresholds::new(objectives, &crawl),
        parts: plan.nodes,
    };
    let record = merge_frames(
        &crawl,
        &starts,
        |part| FramesFile::open(parts.frames(part)),
        &mut recorder,
    )
    .map_err(|(part, error)| MergeError::Frames {
        path: parts.frames(part),
        error,
        result: directory.result(part),
    })?;
    let Recorder {
        seconds,
        thresholds,
        log: appended,
        ..
    } = recorder;
    appended.map_or(Ok(()), IntervalLog::end)?;
    log.map_or(Ok(()), LogFile::close)?;
    let labels = Labels {
        name: "merged".to_owned(),
        ..Labels::default()
    };
    let mut report = Report::unjudged(Source {
        target: None,
        plan: &crawl,
        labels: &labels,
        record: &record,
        intervals: seconds,
        environment: attempts[0].environment.clone(),
        facts: RunFacts {
            names: attempts
                .iter()
                .flat_map(|attempt| &attempt.groups)
                .filter_map(|row| Some((row.group, row.name.clone()?)))
                .collect(),
            ..RunFacts::default()
        },
    });
    report.run_id.clone_from(&plan.run_id);
    // Each part has its own peak, and those that ran at once share the connections.
    report.totals.peak_in_flight = report.totals.peak_in_flight.min(crawl.in_flight().into());
    report.command = Some(plan.command.clone());
    let kept = sum(attempts.iter().map(|attempt| attempt.finished_before));
    report.add_finished(kept);
    let mut merged = parts.describe()?;
    let unreported = attempts.iter().map(|attempt| unreported(attempt, &record));
    merged.additional_requests = merged.additional_requests.saturating_add(sum(unreported));
    judge(&mut report, &merged, attempts);
    thresholds.close(&mut report);
    Ok(report)
}

fn sum(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

/// Return the greatest value; none if one of them is unknown.
fn greatest(mut values: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    values.try_fold(0, |most: u64, value| value.map(|value| most.max(value)))
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// File with the frames of a part, opened for each piece that is read: a process may have a thousand
/// files open by default.
struct FramesFile {
    path: PathBuf,
    /// Bytes that were read.
    at: u64,
}

impl FramesFile {
    fn open(path: PathBuf) -> io::Result<Self> {
        foreign::open(&path)?;
        Ok(Self { path, at: 0 })
    }
}

impl Read for FramesFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = File::open(&self.path)?.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// Observer that keeps the seconds.
struct Recorder<'a> {
    seconds: Seconds,
    log: Option<IntervalLog<'a>>,
    thresholds: LiveThresholds,
    parts: u32,
}

impl Observer for Recorder<'_> {
    fn progress(&mut self, _: &Live) {}

    fn interval(&mut self, interval: &Interval) {
        let row = self.seconds.add(interval);
        if self.parts > MOST_TIMES {
            // Not only emptied: the memory of all seconds would be kept.
            row.shards = Vec::new();
        }
        if let Some(log) = &mut self.log {
            log.append(interval);
        }
        self.thresholds.add(interval);
    }
}

/// Return the number of requests of a merged attempt that are not in its record: shards that died
/// had sent them since their last reports.
fn unreported(attempt: &AttemptRecord, record: &RunRecord) -> u64 {
    let shard = record
        .shards
        .get(attempt.part as usize)
        .filter(|shard| !shard.past.is_empty());
    shard.map_or(0, |shard| {
        attempt
            .requests
            .saturating_sub(shard.stats.counters.requests.attempts_sent)
    })
}

/// Read what an attempt did that was not merged.
fn other(
    directory: &PartsDirectory,
    part: u32,
    attempt: String,
) -> Result<OtherAttempt, MergeError> {
    let place = directory.attempt(part, &attempt);
    // One that died while it wrote this has reported nothing.
    if let Ok(Some(record)) = AttemptRecord::read(&place.join(PartsDirectory::ATTEMPT)) {
        return Ok(OtherAttempt {
            part,
            attempt,
            requests: record.requests.saturating_add(record.robots_requests),
            has_ended: true,
            is_counted: true,
        });
    }
    let path = place.join(PartsDirectory::FRAMES);
    let in_frames = match File::open(&path) {
        Ok(file) => Some(requests(PartReader::new(file))),
        // Without frames it never crawled.
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(MergeError::of(path)(error)),
    };
    let (known, has_ended) = in_frames.unwrap_or((0, false));
    // A machine that lost its power may have lost counts that were not written yet.
    let counted = counted_requests(&place.join(PartsDirectory::REQUESTS)).unwrap_or(0);
    Ok(OtherAttempt {
        part,
        attempt,
        requests: counted.max(known),
        has_ended,
        is_counted: has_ended || in_frames.is_none() || counted > known,
    })
}

/// Return the sum of the shards' counts of requests in the file at `path`; none if there is no such
/// file.
pub fn counted_requests(path: &Path) -> Option<u64> {
    /// Largest file: of more shards than a plan may have.
    const MOST_BYTES: u64 = 1 << 20;
    let mut bytes = Vec::new();
    foreign::open(path)
        .ok()?
        .take(MOST_BYTES)
        .read_to_end(&mut bytes)
        .ok()?;
    FileCounters::sum(&bytes).ok()
}

/// Count the requests of a part until its last second, and say if they are all of its requests.
fn requests(mut frames: PartReader<File>) -> (u64, bool) {
    let mut requests = 0_u64;
    loop {
        match frames.next_frame() {
            Ok(Some(PartFrame::Second(second))) => {
                requests = requests.saturating_add(second.stats.counters.requests.attempts_sent);
            }
            Ok(Some(PartFrame::End(end))) => {
                return (end.outcome.stats.counters.requests.attempts_sent, true);
            }
            Ok(None) | Err(_) => return (requests, false),
        }
    }
}

/// Judge the report, with what only its parts can say.
pub(crate) fn judge(report: &mut Report, merged: &MergedReport, attempts: &[AttemptRecord]) {
    report.merged = Some(merged.clone());
    report.judge();
    // What is about answers, the merged figures say themselves.
    for verdict in [
        Verdict::BudgetLimited,
        Verdict::ConcurrencyLimited,
        Verdict::ClientLimited,
        Verdict::Disturbed,
    ] {
        let of_it: Vec<&AttemptRecord> = attempts
            .iter()
            .filter(|one| one.verdict == verdict)
            .collect();
        let found = of_it.first().map(|first| Finding::PartsJudged {
            verdict,
            parts: of_it.iter().map(|attempt| attempt.part).collect(),
            of: merged.parts,
            reason: first.reasons.first().cloned().unwrap_or_default(),
        });
        report.note(&format!("parts that are {}", verdict.name()), found);
    }
    let is_complete = merged.uncounted_attempts == 0;
    let has_others = merged.additional_requests > 0 || !is_complete;
    let found = has_others.then_some(Finding::OtherAttempts {
        requests: merged.additional_requests,
        is_complete,
        attempts: merged.other_attempts,
    });
    report.note("attempts beside the merged ones", found);
}
