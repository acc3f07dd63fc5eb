//! One part of a crawl on several machines: `run --plan FILE --node i/N --into DIR`.
//!
//! Turns the resolved crawl into that of the part, writes its seconds and its status while it runs,
//! and publishes its result.
//!
//! | room | for |
//! |---|---|
//! | `slot` | wait for a slot and for the common start; the slot that a part holds |

mod slot;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs::File;
use std::time::Duration;

use crawlmark_harness::clock::{Clock, Nanos};
use crawlmark_harness::plan::{PerHost, Pinning, RunPlan, SlotShare, default_burst};
use crawlmark_harness::supervisor::parts::{PartError, PartWriter};
use crawlmark_harness::supervisor::{Interval, RunRecord};
use crawlmark_harness::trace::TRACE_RUN;
use crawlmark_harness::units::grouped;
use crawlmark_results::run::parts::{AttemptRecord, AttemptState, PartsDirectory};
use crawlmark_results::run::report::{IntervalRow, Report};
use serde_json::Value;

pub(super) use self::slot::PartSlot;
use self::slot::{SLOT_LOST, unfinished};
use super::output::Voice;
use super::resolve::{self, Resolved};
use crate::cli::{Auto, RunArgs, Values, first_flag_of};
use crate::cluster::attempt::{Attempt, Publication, unix_us};
use crate::error::Error;

/// Interval at which a part that runs looks for the result of another attempt: its own would be of
/// no use then.
const RESULT_LOOK: Duration = Duration::from_secs(2);

/// Part that this process crawls.
#[derive(Debug)]
pub(super) struct PartRun {
    attempt: Attempt,
    /// Settings that the plan's shares are made of.
    burst: Option<u64>,
    shards: Auto<u32>,
    given: Values,
    saved: Option<String>,
    /// Items that an earlier attempt had saved.
    taken_over: u64,
    /// The whole crawl, with the settings of this machine.
    whole: Option<RunPlan>,
    /// True once it waits for a slot, with which it sends.
    waits: Cell<bool>,
}

/// An attempt that is refused, or whose target cannot be reached, leaves nothing behind.
impl Drop for PartRun {
    fn drop(&mut self) {
        if !self.waits.get() {
            self.attempt.leave();
        }
    }
}

/// Check that the plan of a part has as many shards as were asked for.
///
/// # Errors
/// When its connections, or its requests at once, are too few for them.
pub(crate) fn check_shards(asked: Auto<u32>, whole: &RunPlan, part: &RunPlan) -> Result<(), Error> {
    let Auto::Exactly(asked) = asked else {
        return Ok(());
    };
    if part.shards >= asked {
        return Ok(());
    }
    let own = each_shard_needs(part)
        .into_iter()
        .zip(each_shard_needs(whole));
    let scarce = own.min_by_key(|((_, own), _)| own.unwrap_or(u64::MAX));
    let shares = scarce.map(|((what, own), (_, all))| {
        let [own, all] = [own, all].map(Option::unwrap_or_default);
        format!("a slot has {own} of the plan's {all} {what}, and each shard needs one")
    });
    let shares = shares.unwrap_or_default();
    Err(Error::Usage(format!("--shards {asked}: {shares}")))
}

/// What each shard needs one of, and how much of it a plan has; none if it is not limited.
fn each_shard_needs(plan: &RunPlan) -> [(&'static str, Option<u64>); 4] {
    let host = plan.per_host;
    [
        ("connections", Some(plan.connections.into())),
        (
            "requests at once (--burst)",
            plan.has_budget().then_some(plan.burst),
        ),
        (
            "connections to a host (--per-host-connections)",
            host.connections.map(u64::from),
        ),
        ("requests at once to a host", host.rate.and(host.burst)),
    ]
}

/// Return the plan of a whole crawl: a setting that depends on the machine has the same value on
/// all.
pub(crate) fn whole(plan: RunPlan, slots: u32, burst: Option<u64>) -> RunPlan {
    let burst = burst.unwrap_or_else(|| {
        plan.rate
            .filter(|_| plan.has_budget())
            .map_or(0, |rate| default_burst(&rate, slots))
    });
    RunPlan {
        burst,
        at_start: if plan.has_budget() {
            u64::from(slots).min(burst)
        } else {
            0
        },
        per_host: PerHost {
            burst: plan.per_host.at_once(slots),
            ..plan.per_host
        },
        pinning: Pinning::None,
        finished: Vec::new(),
        ..plan
    }
}

/// Return the keys in which two plans differ, as in `plan.rate`.
fn differing(plan: &RunPlan, own: &RunPlan) -> Vec<String> {
    let [was, is] = [plan, own].map(|plan| serde_json::to_value(plan).unwrap_or_default());
    let mut keys = Vec::new();
    for (key, was) in was.as_object().into_iter().flatten() {
        match (was.as_object(), is.get(key)) {
            (_, Some(is)) if is == was => {}
            (Some(was), Some(Value::Object(is))) => {
                let names: BTreeSet<&String> = was.keys().chain(is.keys()).collect();
                let differ = names
                    .into_iter()
                    .filter(|name| was.get(*name) != is.get(*name));
                keys.extend(differ.map(|name| format!("plan.{key}.{name}")));
            }
            _ => keys.push(format!("plan.{key}")),
        }
    }
    keys
}

impl PartRun {
    /// Begin the part that the flags name, if they name one. Changes the flags: the result and what
    /// is saved go to the attempt's directory, and thresholds and `--strict` are about the whole
    /// crawl.
    ///
    /// # Errors
    /// When the plan or the directory cannot be used, or the part has a result already.
    pub(super) fn begin(args: &mut RunArgs, clock: Clock) -> Result<Option<Self>, Error> {
        let (Some(plan), Some(into), Some(node)) =
            (&args.part.plan, &args.part.into, args.part.node)
        else {
            return Ok(None);
        };
        let attempt = Attempt::begin(plan, into, node)?;
        args.out = Some(attempt.place().join(PartsDirectory::RESULT_DIR));
        let saved = args.save.save.take();
        let place = saved.as_ref().map(|name| attempt.place().join(name));
        let taken_over = saved
            .as_ref()
            .map_or(Ok(0), |name| attempt.take_over(name, clock))?;
        if taken_over > 0 {
            args.save.resume = place;
        } else {
            args.save.save = place;
        }
        args.threshold.clear();
        (args.slo_p99, args.max_error_rate) = (None, None);
        // A scheduler would repeat an invalid measurement until it is valid.
        args.strict = false;
        Ok(Some(Self {
            attempt,
            burst: args.burst,
            shards: args.shards,
            given: args.typed.values.clone(),
            saved: saved.map(|name| name.display().to_string()),
            taken_over,
            whole: None,
            waits: Cell::new(false),
        }))
    }

    /// Resolve the crawl of the part.
    ///
    /// # Errors
    /// As for [`resolve`](resolve::resolve); when the crawl differs from the plan, or the part
    /// cannot have so many shards.
    pub(super) fn resolve(&mut self, args: RunArgs, voice: Voice) -> Result<Resolved, Error> {
        let mut resolved = resolve::resolve(args)?;
        self.narrow(&mut resolved)?;
        if self.taken_over > 0 {
            voice.say(&format!(
                "Part {} goes on after {} items that an earlier attempt saved.\n",
                self.attempt.part(),
                grouped(self.taken_over)
            ));
        }
        Ok(resolved)
    }

    /// Check that the crawl is the plan's, and make it the crawl of the part, with the share of the
    /// first slot: none is smaller.
    ///
    /// # Errors
    /// When the crawl differs from the plan, or the part cannot have so many shards.
    fn narrow(&mut self, resolved: &mut Resolved) -> Result<(), Error> {
        let Self {
            attempt,
            burst,
            shards,
            given,
            ..
        } = self;
        let plan = &attempt.plan;
        let mut own = RunPlan {
            shards: plan.nodes,
            ..whole(resolved.plan.clone(), plan.slots, *burst)
        };
        // The trace ids of all parts are those of one run.
        if let Some(run) = plan.crawl.workload.get(TRACE_RUN) {
            own.workload.insert(TRACE_RUN.to_owned(), run.clone());
        }
        let keys = differing(&plan.crawl, &own);
        if let Some(key) = keys.first() {
            let name = first_flag_of(&keys, given).unwrap_or_else(|| format!("`{key}`"));
            return Err(Error::Usage(format!(
                "{name} differs from the plan: leave it as it is there, or make another plan"
            )));
        }
        let share = SlotShare {
            slot: 0,
            of: plan.slots,
        };
        let most = match shards {
            Auto::Auto => resolved.plan.shards,
            Auto::Exactly(shards) => *shards,
        };
        let crawl = RunPlan {
            pinning: resolved.plan.pinning,
            ..own.part(attempt.ids(), share, most, *burst)
        };
        check_shards(*shards, &plan.crawl, &crawl)?;
        resolved.plan = crawl.validate().map_err(Error::usage)?;
        let part = attempt.part();
        resolved
            .labels
            .tags
            .insert("part".to_owned(), format!("{}/{}", part.part, part.of));
        self.whole = Some(RunPlan {
            pinning: resolved.plan.pinning,
            ..own
        });
        Ok(())
    }

    /// Return the command that crawls the part again.
    pub(super) fn command(&self) -> String {
        let part = self.attempt.part();
        self.attempt.directory().command(part.part, part.of)
    }

    /// Publish the result.
    ///
    /// # Errors
    /// When a file cannot be written, or the attempt is not whole and the part has no other result.
    pub(super) fn publish(
        &self,
        report: &Report,
        outcome: &PartOutcome,
        clock: Clock,
    ) -> Result<Publication, Error> {
        let record = AttemptRecord {
            slot: outcome.slot,
            saved: self.saved.clone(),
            started_at_us: outcome.started_at_us,
            finished_at_us: outcome.finished_at_us,
            ..AttemptRecord::of(report, outcome.whole)
        };
        let publication = self.attempt.publish(record, clock)?;
        publication.ok_or_else(|| unfinished(self.attempt.part(), outcome.why()))
    }

    /// Return the sentence that says what came of the publication.
    pub(super) fn published(&self, publication: Publication) -> String {
        let part = self.attempt.part();
        match publication {
            Publication::Counts => format!("Part {part} is published.\n"),
            Publication::Lost => format!(
                "Part {part} was published by another attempt: the requests of this one are counted as additional.\n"
            ),
        }
    }
}

/// End of a part.
#[derive(Debug, Clone, Copy)]
pub(super) struct PartOutcome {
    /// True if it ended by itself, with all that its shards know.
    whole: bool,
    /// Slot that it held.
    slot: u32,
    /// True if another attempt took the slot.
    lost_slot: bool,
    /// Time in which its lease had ended, and nothing was sent.
    lapsed: Duration,
    started_at_us: u64,
    finished_at_us: u64,
}

impl PartOutcome {
    /// Note in the report for how long the lease had ended.
    pub(super) fn note(&self, report: &mut Report) {
        report.add_lapse(self.lapsed);
    }

    const fn why(&self) -> &'static str {
        if self.lost_slot {
            SLOT_LOST
        } else {
            "it was stopped, or a shard was lost"
        }
    }
}

/// The seconds of a part, as they are written.
pub(super) struct PartSeconds<'a> {
    slot: PartSlot<'a>,
    /// When the result of another attempt is looked for.
    look_at: Nanos,
    /// True if another attempt has published one.
    is_published: bool,
    frames: Option<PartWriter<File>>,
    /// The first failure.
    failed: Option<PartError>,
}

impl<'a> PartSeconds<'a> {
    /// Begin to write the seconds of the part that holds `slot`, of so many items.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub(super) fn begin(mut slot: PartSlot<'a>, planned: u64) -> Result<Self, Error> {
        (slot.status.state, slot.status.planned) = (AttemptState::Running, planned);
        let frames = Some(slot.attempt.frames()?);
        Ok(Self {
            slot,
            look_at: Nanos::default(),
            is_published: false,
            frames,
            failed: None,
        })
    }

    /// Renew the lease if that is due, and return its end.
    pub(super) fn lease(&mut self, now: Nanos) -> Nanos {
        let end = self.slot.held.renew(now);
        if now >= self.look_at {
            self.look_at = now.plus(RESULT_LOOK);
            let attempt = self.slot.attempt;
            self.is_published = attempt.directory().result(attempt.part().part).exists();
        }
        end
    }

    /// True if nothing more is to be sent: another attempt has taken the slot, or published its
    /// result, or the seconds could not be written, without which nothing is published.
    pub(super) const fn is_over(&self) -> bool {
        self.slot.held.is_lost() || self.is_published || self.failed.is_some()
    }

    /// Write a second, and the status after it.
    pub(super) fn second(&mut self, interval: &Interval, row: &IntervalRow) {
        if let Some(frames) = &mut self.frames
            && let Err(error) = frames.second(interval)
        {
            self.failed.get_or_insert(error);
            self.frames = None;
        }
        let status = &mut self.slot.status;
        status.items += row.counts.items;
        status.requests += row.counts.attempts;
        status.failed += row.counts.failed;
        status.requests_per_s = row.counts.attempts;
        (status.p50_us, status.p99_us) = (row.p50_us, row.p99_us);
        self.slot.report();
    }

    /// Write the end, which is now.
    ///
    /// # Errors
    /// When a second or the end could not be written.
    pub(super) fn end(mut self, record: &RunRecord, now: Nanos) -> Result<PartOutcome, Error> {
        let path = self.slot.attempt.place().join(PartsDirectory::FRAMES);
        let io =
            |error: PartError| Error::unwritable(&path)(std::io::Error::other(error.to_string()));
        let written = match (self.failed.take(), self.frames.take()) {
            (Some(error), _) => Err(io(error)),
            (None, Some(frames)) => frames
                .end(record)
                .map_err(io)
                .and_then(|file| file.sync_all().map_err(Error::unwritable(&path))),
            (None, None) => Ok(()),
        };
        self.slot.status.state = AttemptState::Ended;
        self.slot.report();
        let held = &self.slot.held;
        let (slot, lost_slot, lapsed) = (held.slot(), held.is_lost(), held.lapsed());
        // The shards' processes are gone.
        drop(self.slot);
        // The machine's clock may have been set during the crawl.
        let (started_at_us, ran_us) = (unix_us(record.started_at), now.since(record.start) / 1_000);
        written.map(|()| PartOutcome {
            whole: !record.was_stopped() && record.shards.iter().all(|shard| shard.fault.is_none()),
            slot,
            lost_slot,
            lapsed,
            started_at_us,
            finished_at_us: started_at_us.saturating_add(ran_us),
        })
    }
}
