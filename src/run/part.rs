//! One part of a crawl on several machines: `run --plan FILE --node i/N --into DIR`.
//!
//! Turns the resolved crawl into that of the part, writes its seconds and its status while it runs, and publishes its result.

use std::fs::File;

use crawlmark_harness::plan::{Pinning, RunPlan, SlotShare};
use crawlmark_harness::supervisor::parts::{PartError, PartWriter};
use crawlmark_harness::supervisor::{Interval, RunRecord};
use crawlmark_results::run::parts::{AttemptRecord, PartsDirectory};
use crawlmark_results::run::report::{IntervalRow, Report};

use super::resolve::Resolved;
use crate::cli::{Auto, RunArgs};
use crate::cluster::attempt::{Attempt, Begun, Publication, Status, unix_us};
use crate::error::Error;

/// Part that this process crawls.
#[derive(Debug)]
pub(super) struct PartRun {
    attempt: Attempt,
    /// Settings that the plan's shares are made of.
    burst: Option<u64>,
    shards: Auto<u32>,
    slot: u32,
    saved: Option<String>,
}

/// Beginning of a part.
#[derive(Debug)]
pub(super) enum Beginning {
    /// A run of its own.
    NoPart,
    /// A part of a crawl.
    Part(Box<PartRun>),
    /// Its part has a result already; the sentence says so.
    Done(String),
}

/// Return the plan of a whole crawl: a setting that depends on the machine has the same value on all.
pub(crate) fn whole(plan: RunPlan, slots: u32, burst: Option<u64>) -> RunPlan {
    let default = || plan.rate.filter(|_| plan.has_budget()).map_or(0, |rate| RunPlan::default_burst(&rate, slots));
    let burst = burst.unwrap_or_else(default);
    RunPlan {
        burst,
        at_start: if plan.has_budget() { u64::from(slots).min(burst) } else { 0 },
        pinning: Pinning::None,
        finished: Vec::new(),
        ..plan
    }
}

impl PartRun {
    /// Begin the part that the flags name. Changes the flags: the result and what is saved go to the attempt's directory, and thresholds are
    /// those of the whole crawl.
    ///
    /// # Errors
    /// When the plan or the directory cannot be used.
    pub(super) fn begin(args: &mut RunArgs) -> Result<Beginning, Error> {
        let (Some(plan), Some(into), Some(node)) = (&args.part.plan, &args.part.into, args.part.node) else {
            return Ok(Beginning::NoPart);
        };
        let attempt = match Attempt::begin(plan, into, node)? {
            Begun::Attempt(attempt) => *attempt,
            Begun::Published { result } => {
                return Ok(Beginning::Done(format!(
                    "This part has a result already ({}): nothing to do.\n",
                    result.display()
                )));
            }
        };
        args.out = Some(attempt.place().join(PartsDirectory::RESULT_DIR));
        let saved = args.save.save.take();
        args.save.save = saved.as_ref().map(|name| attempt.place().join(name));
        args.threshold.clear();
        (args.slo_p99, args.max_error_rate) = (None, None);
        Ok(Beginning::Part(Box::new(Self {
            attempt,
            burst: args.burst,
            shards: args.shards,
            slot: 0,
            saved: saved.map(|name| name.display().to_string()),
        })))
    }

    /// Check that the crawl is the plan's, wait for a slot, and make it the crawl of the part.
    ///
    /// # Errors
    /// When the crawl differs from the plan, or the part cannot have so many shards.
    pub(super) fn narrow(&mut self, resolved: &mut Resolved) -> Result<(), Error> {
        let Self { attempt, burst, shards, slot, .. } = self;
        let plan = &attempt.plan;
        let own = RunPlan { shards: plan.nodes, ..whole(resolved.plan.clone(), plan.slots, *burst) };
        if let Some(difference) = difference(&plan.crawl, &own) {
            return Err(Error::Usage(format!(
                "--plan: {difference}. Remove the flags that differ from those of the plan, or make another plan"
            )));
        }
        *slot = attempt.part().part % plan.slots;
        let share = SlotShare { slot: *slot, of: plan.slots };
        let most = match shards {
            Auto::Auto => resolved.plan.shards,
            Auto::Exactly(shards) => *shards,
        };
        let crawl = RunPlan { pinning: resolved.plan.pinning, ..own.part(attempt.ids(), share, most, *burst) };
        if let Auto::Exactly(shards) = shards
            && crawl.shards < *shards
        {
            return Err(Error::Usage(format!(
                "--shards {shards}: a slot has {} connections of the plan's {}, so that a part has at most {} shards",
                crawl.connections, plan.crawl.connections, crawl.shards
            )));
        }
        resolved.plan = crawl.validate().map_err(|error| Error::Usage(error.to_string()))?;
        let part = attempt.part();
        resolved.labels.tags.insert("part".to_owned(), format!("{}/{}", part.part, part.of));
        Ok(())
    }

    /// Number of slots, which share the limits of the crawl.
    pub(super) const fn slots(&self) -> u32 {
        self.attempt.plan.slots
    }

    /// Begin to write its seconds.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub(super) fn seconds(&self) -> Result<PartSeconds<'_>, Error> {
        Ok(PartSeconds {
            attempt: &self.attempt,
            status: Status {
                state: "running",
                slot: Some(self.slot),
                planned: self.attempt.ids().len(),
                ..Status::default()
            },
            frames: Some(self.attempt.frames()?),
            failed: None,
        })
    }

    /// Publish the result, and return the sentence that says what came of it.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub(super) fn publish(&self, report: &Report, outcome: &PartOutcome) -> Result<String, Error> {
        let Self { attempt, slot, saved, .. } = self;
        let record = AttemptRecord {
            slot: *slot,
            saved: saved.clone(),
            started_at_us: outcome.started_at_us,
            finished_at_us: outcome.finished_at_us,
            ..AttemptRecord::of(report, outcome.whole)
        };
        let part = attempt.part();
        let published = attempt.publish(record)?;
        Ok(match (published, outcome.whole) {
            (Publication::Counts, _) => format!("Part {}/{} is published.\n", part.part, part.of),
            (Publication::Lost, true) => format!(
                "Part {}/{} was published by another attempt: the requests of this one are counted as additional.\n",
                part.part, part.of
            ),
            (Publication::Lost, false) => format!("Part {}/{} is not finished: run it again.\n", part.part, part.of),
        })
    }
}

/// Name the first setting that differs, with both values.
fn difference(plan: &RunPlan, own: &RunPlan) -> Option<String> {
    let [plan, own] = [plan, own].map(|plan| serde_json::to_value(plan).unwrap_or_default());
    let fields = plan.as_object()?;
    let differs = |key: &&String| fields.get(*key) != own.get(*key);
    let key = fields.keys().chain(own.as_object()?.keys()).find(differs)?;
    let shown = |value: Option<&serde_json::Value>| value.map_or_else(|| "not set".to_owned(), ToString::to_string);
    Some(format!("`{key}` is {} in the plan, and {} here", shown(fields.get(key)), shown(own.get(key))))
}

/// End of a part.
#[derive(Debug, Clone, Copy)]
pub(super) struct PartOutcome {
    /// True if it ended by itself, with all that its shards know.
    whole: bool,
    started_at_us: u64,
    finished_at_us: u64,
}

/// The seconds of a part, as they are written.
pub(super) struct PartSeconds<'a> {
    attempt: &'a Attempt,
    status: Status,
    frames: Option<PartWriter<File>>,
    /// The first failure.
    failed: Option<PartError>,
}

impl PartSeconds<'_> {
    /// Write a second, and the status after it.
    pub(super) fn second(&mut self, interval: &Interval, row: &IntervalRow) {
        if let Some(frames) = &mut self.frames
            && let Err(error) = frames.second(interval)
        {
            self.failed.get_or_insert(error);
            self.frames = None;
        }
        let status = &mut self.status;
        status.beat += 1;
        status.at_us = unix_us(crawlmark_harness::clock::wall_time());
        status.items += row.counts.items;
        status.requests += row.counts.attempts;
        status.failed += row.counts.failed;
        status.requests_per_s = row.counts.attempts;
        (status.p50_us, status.p99_us) = (row.p50_us, row.p99_us);
        self.attempt.report(status);
    }

    /// Write the end.
    ///
    /// # Errors
    /// When a second or the end could not be written.
    pub(super) fn end(mut self, record: &RunRecord) -> Result<PartOutcome, Error> {
        let path = self.attempt.place().join(PartsDirectory::FRAMES);
        let io = |error: PartError| Error::unwritable(&path)(std::io::Error::other(error.to_string()));
        let written = match (self.failed.take(), self.frames.take()) {
            (Some(error), _) => Err(io(error)),
            (None, Some(frames)) => {
                frames.end(record).map_err(io).and_then(|file| file.sync_all().map_err(Error::unwritable(&path)))
            }
            (None, None) => Ok(()),
        };
        self.status.state = "ended";
        self.status.beat += 1;
        self.attempt.report(&self.status);
        written.map(|()| PartOutcome {
            whole: !record.was_stopped() && record.shards.iter().all(|shard| shard.fault.is_none()),
            started_at_us: unix_us(record.started_at),
            finished_at_us: unix_us(record.finished_at),
        })
    }
}
