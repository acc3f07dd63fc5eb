//! One part of a crawl on several machines: `run --plan FILE --node i/N --into DIR`.
//!
//! Turns the resolved crawl into that of the part, writes its seconds and its status while it runs,
//! and publishes its result.
//!
//! | room | for |
//! |---|---|
//! | `slot` | wait for a slot and for the common start; the slot that a part holds |
//! | `seconds` | write the seconds; publish the result |

mod seconds;
mod slot;

use std::cell::Cell;

use crawlmark_harness::clock::Clock;
use crawlmark_harness::files::PRIVATE;
use crawlmark_harness::plan::{PerHost, Pinning, RunPlan, SlotShare, default_burst};
use crawlmark_harness::units::grouped;
use crawlmark_results::run::gates::Breach;
use crawlmark_results::run::parts::PartsDirectory;
use crawlmark_results::studies::differences::plan_differences;

pub(super) use self::seconds::{PartOutcome, PartSeconds};
pub(super) use self::slot::{PartSlot, Watch, interval};
use super::resolve::Resolved;
use crate::cli::{Auto, FileCommand, first_flag_of};
use crate::cluster::attempt::Attempt;
use crate::error::Error;
use crate::terminal::Voice;

/// Part that this process crawls.
#[derive(Debug)]
pub(super) struct PartRun {
    attempt: Attempt,
    /// Directory of what is saved.
    saved: Option<String>,
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
pub(crate) fn check_shards(asked: Auto<u32>, part: &RunPlan) -> Result<(), Error> {
    let (asked, fit) = (asked.or(0), part.shards);
    if asked <= fit {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "--shards {asked}: a slot's share of the connections and of the requests at once is enough for {fit}: use --shards {fit}"
    )))
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

impl PartRun {
    /// Begin the part that the flags name, if they name one: check that the crawl is the plan's, and
    /// make it the crawl of the part, with the share of the first slot: none is smaller. The result
    /// and what is saved go to the attempt's directory, and thresholds and `--strict` are about the
    /// whole crawl.
    ///
    /// # Errors
    /// When the plan or the directory cannot be used, the part has a result already, the crawl
    /// differs from the plan, or the part cannot have so many shards.
    pub(super) fn begin(
        resolved: &mut Resolved,
        clock: Clock,
        voice: Voice,
    ) -> Result<Option<Self>, Error> {
        let flags = &resolved.part;
        let (Some(plan), Some(into), Some(node)) = (&flags.plan, &flags.into, flags.node) else {
            return Ok(None);
        };
        let mut part = Self {
            attempt: Attempt::begin(plan, into, node)?,
            saved: None,
            whole: None,
            waits: Cell::new(false),
        };
        let (attempt, number) = (&part.attempt, part.attempt.part());
        resolved.out = Some(attempt.place().join(PartsDirectory::RESULT_DIR));
        if let Some(name) = resolved.save.save.take() {
            let place = Some(attempt.place().join(&name));
            let mode = resolved.save.mode.unwrap_or(PRIVATE);
            let taken_over = attempt.take_over(&name, mode, clock)?;
            if taken_over > 0 {
                resolved.save.resume = place;
                voice.say(&format!(
                    "Part {number} goes on after {} items that an earlier attempt saved.\n",
                    grouped(taken_over)
                ));
            } else {
                resolved.save.save = place;
            }
            part.saved = Some(name.display().to_string());
        }
        resolved
            .objectives
            .retain(|objective| objective.breach == Breach::Stops);
        // A scheduler would repeat an invalid measurement until it is valid.
        resolved.is_strict = false;
        let plan = &attempt.plan;
        let mut own = RunPlan {
            shards: plan.nodes,
            ..whole(resolved.plan.clone(), plan.slots, resolved.burst)
        };
        // The trace ids of all parts are those of one run.
        own.workload.trace_run = plan.crawl.workload.trace_run;
        if let Some(difference) = plan_differences(&plan.crawl, &own).first() {
            let name = first_flag_of(&resolved.typed.now, &plan.crawl, &own)
                .map_or_else(|| format!("`{}`", difference.what), |(flag, _)| flag);
            return Err(Error::Usage(format!(
                "{name} differs from the plan: leave it as it is there, or make another plan"
            )));
        }
        let share = SlotShare {
            slot: 0,
            of: plan.slots,
        };
        let most = resolved.shards.or(resolved.plan.shards);
        own.pinning = resolved.plan.pinning;
        let crawl = own.part(attempt.ids(), share, most, resolved.burst);
        check_shards(resolved.shards, &crawl)?;
        resolved.plan = crawl.validate().map_err(Error::usage)?;
        let tag = format!("{}/{}", number.part, number.of);
        resolved.labels.tags.insert("part".to_owned(), tag);
        part.whole = Some(own);
        Ok(Some(part))
    }

    /// Return the command that crawls the part again.
    pub(super) fn command(&self) -> String {
        let (part, directory) = (self.attempt.part(), self.attempt.directory());
        let again = FileCommand::of(&self.attempt.plan, &directory.plan()).typed_again();
        let directory = directory.clone().typing(again);
        directory.command(part.part, part.of)
    }
}
