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
    CRAWL_DELAY, IntervalRow, Labels, MergedReport, OtherAttempt, PER_HOST_RATE_FROM, Report,
    Source, Verdict,
};
use crate::run::result_dir::{IntervalLog, LogFile, ResultError, foreign};
use crate::show::text::shell_word;
use crawlmark_harness::clock::duration_ns;
use crawlmark_harness::plan::RunPlan;
use crawlmark_harness::process::FileCounters;
use crawlmark_harness::supervisor::parts::{
    MOST_TIMES, PartError, PartFrame, PartReader, PartStart, merge as merge_frames,
};
use crawlmark_harness::supervisor::{Interval, Live, Observer, RunRecord};
use crawlmark_harness::units::{Rate, grouped};

/// Parts whose files are kept open while they are read. More of them are opened for each piece that
/// is read: a process may have a thousand files open by default.
const OPEN_AT_ONCE: usize = 500;

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
        "merge {directory}: {}. Run what is not running (`crawlmark watch {into}` shows it), as with `crawlmark run --plan {} \
         --node {}/{of} --into {into}`{}",
        without_result(missing), shell_word(&format!("{directory}/plan.json")), missing.first().unwrap_or(&0),
        if missing.len() < *of as usize { ", or merge the others with --partial" } else { "" }, into = shell_word(directory)
    )]
    Missing {
        /// Their directory.
        directory: String,
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

/// Return the first numbers of a list, and the number of others.
fn listed(parts: &[u32]) -> String {
    let shown: Vec<String> = parts.iter().take(SHOWN).map(u32::to_string).collect();
    match parts.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {} more", shown.join(", "), grouped(more as u64)),
    }
}

/// Say which parts have no result.
#[must_use]
pub fn without_result(parts: &[u32]) -> String {
    match parts {
        [part] => format!("part {part} has no result"),
        [others @ .., last] if parts.len() <= SHOWN => {
            format!("parts {} and {last} have no result", listed(others))
        }
        parts => format!(
            "{} parts have no result: {}",
            grouped(parts.len() as u64),
            listed(parts)
        ),
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
    let plan = PlanFile::shared(directory)?;
    let (mut attempts, mut missing) = (Vec::new(), Vec::new());
    for part in 0..plan.nodes {
        let published = AttemptRecord::published(directory, &plan, part);
        let path = directory.result(part);
        match published.map_err(|error| MergeError::Io { path, error })? {
            Some(attempt) => attempts.push(attempt),
            None => missing.push(part),
        }
    }
    let is_refused = completeness == Completeness::All || attempts.is_empty();
    if !missing.is_empty() && is_refused {
        return Err(MergeError::Missing {
            directory: directory.path().display().to_string(),
            missing,
            of: plan.nodes,
        });
    }
    let start_us = attempts
        .iter()
        .map(AttemptRecord::start_us)
        .min()
        .unwrap_or(0);
    let offset = |attempt: &AttemptRecord| Duration::from_micros(attempt.start_us() - start_us);
    let starts: Vec<PartStart> = attempts
        .iter()
        .map(|attempt| PartStart {
            part: attempt.part,
            offset: offset(attempt),
        })
        .collect();
    let frames = |part: u32| {
        let at = attempts.binary_search_by_key(&part, |attempt| attempt.part);
        let attempt = at.map_or("", |at| &attempts[at].attempt);
        directory
            .attempt(part, attempt)
            .join(PartsDirectory::FRAMES)
    };
    let crawl = crawled(&plan.crawl, plan.slots, &attempts);
    let mut log = log.filter(|_| plan.nodes <= MOST_TIMES);
    let started_at = SystemTime::UNIX_EPOCH + Duration::from_micros(start_us);
    let mut recorder = Recorder {
        rows: Vec::new(),
        log: log.as_mut().map(|log| log.begin(started_at)).transpose()?,
        thresholds: LiveThresholds::new(objectives, &crawl),
        parts: plan.nodes,
    };
    let all_at_once = starts.len() <= OPEN_AT_ONCE;
    let open = |part| FramesFile::open(frames(part), all_at_once);
    let record = merge_frames(&crawl, &starts, open, &mut recorder).map_err(|(part, error)| {
        MergeError::Frames {
            path: frames(part),
            error,
            result: directory.result(part),
        }
    })?;
    let Recorder {
        rows,
        thresholds,
        log: appended,
        ..
    } = recorder;
    appended.map_or(Ok(()), IntervalLog::end)?;
    log.map_or(Ok(()), LogFile::close)?;
    let environment = attempts[0].environment.clone();
    let labels = Labels {
        name: "merged".to_owned(),
        ..Labels::default()
    };
    let mut report = Report::new(Source {
        plan: &crawl,
        labels: &labels,
        record: &record,
        intervals: rows,
        environment,
    });
    report.run_id.clone_from(&plan.run_id);
    // Each part has its own peak, and those that ran at once share the connections.
    report.totals.peak_in_flight = report.totals.peak_in_flight.min(crawl.in_flight().into());
    report.command = Some(plan.command.clone());
    let kept = attempts
        .iter()
        .map(|attempt| attempt.finished_before)
        .fold(0, u64::saturating_add);
    report.finished_before = Some(kept).filter(|kept| *kept > 0);
    let mut merged = describe(directory, &plan, (&attempts, missing), start_us)?;
    let unreported = attempts.iter().map(|attempt| unreported(attempt, &record));
    merged.additional_requests = unreported.fold(merged.additional_requests, u64::saturating_add);
    report.merged = Some(merged);
    judge(&mut report, &attempts);
    thresholds.close(&mut report);
    Ok(report)
}

/// Return the crawl with the crawl-delay that its parts obeyed, which is not known when a plan is
/// made.
fn crawled(plan: &RunPlan, slots: u32, attempts: &[AttemptRecord]) -> RunPlan {
    let delays_s = attempts.iter().filter_map(|attempt| attempt.crawl_delay_s);
    let period = delays_s
        .max_by(f64::total_cmp)
        .and_then(|delay_s| Duration::try_from_secs_f64(delay_s).ok());
    let Some(period) = period.filter(|period| !period.is_zero()) else {
        return plan.clone();
    };
    let mut crawl = plan.clone();
    crawl.per_host.rate = Some(Rate {
        permits: 1,
        period_ns: duration_ns(period),
    });
    crawl.per_host.burst = Some(slots.into());
    crawl
        .workload
        .insert(PER_HOST_RATE_FROM.to_owned(), CRAWL_DELAY.to_owned());
    crawl
}

/// File with the frames of a part.
enum FramesFile {
    Open(File),
    /// Opened for each read, from this byte on.
    At(PathBuf, u64),
}

impl FramesFile {
    fn open(path: PathBuf, stays_open: bool) -> io::Result<Self> {
        let file = foreign::open(&path)?;
        Ok(if stays_open {
            Self::Open(file)
        } else {
            Self::At(path, 0)
        })
    }
}

impl Read for FramesFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Open(file) => file.read(buffer),
            Self::At(path, at) => {
                let read = File::open(path)?.read_at(buffer, *at)?;
                *at += read as u64;
                Ok(read)
            }
        }
    }
}

/// Observer that makes a row of each second.
struct Recorder<'a> {
    rows: Vec<IntervalRow>,
    log: Option<IntervalLog<'a>>,
    thresholds: LiveThresholds,
    parts: u32,
}

impl Observer for Recorder<'_> {
    fn progress(&mut self, _: &Live) {}

    fn interval(&mut self, interval: &Interval) {
        let mut row = IntervalRow::new(interval);
        if self.parts > MOST_TIMES {
            // Not only emptied: the memory of all seconds would be kept.
            row.shards = Vec::new();
        }
        self.rows.push(row);
        if let Some(log) = &mut self.log {
            log.append(interval);
        }
        self.thresholds.hear(interval);
    }
}

/// Describe the parts, and look for attempts beside them.
fn describe(
    directory: &PartsDirectory,
    plan: &PlanFile,
    (attempts, missing): (&[AttemptRecord], Vec<u32>),
    start_us: u64,
) -> Result<MergedReport, MergeError> {
    const SECOND_US: u64 = 1_000_000;
    let rounding = |attempt: &AttemptRecord| {
        let within = (attempt.start_us() - start_us) % SECOND_US;
        within.min(SECOND_US - within)
    };
    let aligned = |attempt: &AttemptRecord| Some(rounding(attempt) + attempt.clock?.within_us);
    let late_us: Option<Vec<u64>> = plan.start_us().map(|common_us| {
        attempts
            .iter()
            .map(|attempt| attempt.start_us().saturating_sub(common_us))
            .collect()
    });
    let mut merged = MergedReport {
        directory: directory.path().display().to_string(),
        parts: plan.nodes,
        missing_parts: u32::try_from(missing.len()).unwrap_or(u32::MAX),
        missing: missing.into_iter().take(NAMED_PARTS).collect(),
        slots: plan.slots,
        slots_used: slots_used(attempts, plan.slots),
        machines: u32::try_from(
            attempts
                .iter()
                .map(|attempt| &attempt.host)
                .collect::<BTreeSet<_>>()
                .len(),
        )
        .unwrap_or(u32::MAX),
        aligned_within_us: attempts
            .iter()
            .map(aligned)
            .try_fold(0, |most: u64, aligned| {
                aligned.map(|aligned| most.max(aligned))
            }),
        clock_error_us: attempts
            .iter()
            .map(|attempt| attempt.clock_error_us)
            .try_fold(0, |most: u64, error| error.map(|error| most.max(error))),
        late_parts: late_us
            .as_ref()
            .map(|all| all.iter().map(|us| u32::from(*us > SECOND_US)).sum()),
        last_start_us: late_us.and_then(|all| all.into_iter().max()),
        other_attempts: 0,
        robots_requests: attempts
            .iter()
            .map(|attempt| attempt.robots_requests)
            .fold(0, u64::saturating_add),
        additional_requests: 0,
        died_attempts: 0,
        uncounted_attempts: 0,
        others: Vec::new(),
    };
    let mut winners = attempts.iter().peekable();
    for part in 0..plan.nodes {
        let winner = winners
            .next_if(|attempt| attempt.part == part)
            .map(|attempt| &*attempt.attempt);
        let io = |path: &Path| {
            let path = path.to_owned();
            move |error| MergeError::Io { path, error }
        };
        for name in directory
            .attempts(part)
            .map_err(io(&directory.part(part)))?
        {
            if winner == Some(&*name) {
                continue;
            }
            let other = other(directory, part, name);
            let other = other.map_err(|(path, error)| MergeError::Io { path, error })?;
            merged.other_attempts += 1;
            merged.additional_requests = merged.additional_requests.saturating_add(other.requests);
            merged.died_attempts += u32::from(!other.has_ended);
            merged.uncounted_attempts += u32::from(!other.is_counted);
            if merged.others.len() < NAMED_ATTEMPTS {
                merged.others.push(other);
            }
        }
    }
    Ok(merged)
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

/// Return the part of the time between the first start and the last end in which the slots were in
/// use.
fn slots_used(attempts: &[AttemptRecord], slots: u32) -> f64 {
    let time_us =
        |attempt: &AttemptRecord| attempt.finished_at_us.saturating_sub(attempt.started_at_us);
    let start_us = attempts
        .iter()
        .map(AttemptRecord::start_us)
        .min()
        .unwrap_or(0);
    let end_us = attempts
        .iter()
        .map(|attempt| attempt.start_us() + time_us(attempt))
        .max()
        .unwrap_or(0);
    let all_us = (end_us - start_us) as f64 * f64::from(slots);
    let used_us = attempts.iter().map(time_us).fold(0, u64::saturating_add) as f64;
    if all_us > 0.0 {
        (used_us / all_us).min(1.0)
    } else {
        0.0
    }
}

/// Read what an attempt did that was not merged.
fn other(
    directory: &PartsDirectory,
    part: u32,
    attempt: String,
) -> Result<OtherAttempt, (PathBuf, io::Error)> {
    let place = directory.attempt(part, &attempt);
    let path = place.join(PartsDirectory::ATTEMPT);
    // One that died while it wrote this has reported nothing.
    if let Ok(Some(record)) = AttemptRecord::read(&path) {
        let requests = record.requests.saturating_add(record.robots_requests);
        return Ok(OtherAttempt {
            part,
            attempt,
            requests,
            has_ended: true,
            is_counted: true,
        });
    }
    let path = place.join(PartsDirectory::FRAMES);
    let (in_frames, has_ended) = match File::open(&path) {
        Ok(file) => requests(PartReader::new(file)),
        // Without frames it never crawled.
        Err(error) if error.kind() == io::ErrorKind::NotFound => (0, false),
        Err(error) => return Err((path, error)),
    };
    let has_crawled = path.exists();
    // A machine that lost its power may have lost counts that were not written yet.
    let counted = counted_requests(&place.join(PartsDirectory::REQUESTS)).unwrap_or(0);
    let is_counted = has_ended || !has_crawled || counted > in_frames;
    Ok(OtherAttempt {
        part,
        attempt,
        requests: counted.max(in_frames),
        has_ended,
        is_counted,
    })
}

/// Return the sum of the shards' counts of requests in the file at `path`; none if there is no such
/// file.
#[must_use]
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

/// Add what only the parts can say about the validity.
fn judge(report: &mut Report, attempts: &[AttemptRecord]) {
    report.judge();
    let Some(merged) = report.merged.clone() else {
        return;
    };
    // What is about answers, the merged figures say themselves.
    let is_of_part = |verdict| {
        matches!(
            verdict,
            Verdict::BudgetLimited
                | Verdict::ConcurrencyLimited
                | Verdict::ClientLimited
                | Verdict::Disturbed
        )
    };
    for verdict in Verdict::ALL
        .into_iter()
        .filter(|verdict| is_of_part(*verdict))
    {
        let of_it: Vec<&AttemptRecord> = attempts
            .iter()
            .filter(|attempt| attempt.verdict == verdict)
            .collect();
        let found = of_it.first().map(|first| {
            let parts: Vec<u32> = of_it.iter().map(|attempt| attempt.part).collect();
            let reason = first.reasons.first().cloned().unwrap_or_default();
            Finding::PartsJudged {
                verdict,
                parts,
                of: merged.parts,
                reason,
            }
        });
        report.note(&format!("parts that are {}", verdict.name()), found);
    }
    let is_complete = merged.uncounted_attempts == 0;
    let found =
        (merged.additional_requests > 0 || !is_complete).then_some(Finding::OtherAttempts {
            requests: merged.additional_requests,
            is_complete,
            attempts: merged.other_attempts,
        });
    report.note("attempts beside the merged ones", found);
}
