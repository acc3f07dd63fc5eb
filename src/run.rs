//! `crawlmark run`: resolve, start the bundled target if none is named, crawl, save, show, and
//! decide the exit code.
//!
//! | room | for |
//! |---|---|
//! | `output` | outputs of a run beside its result |
//! | `resolve`, `inputs`, `requests` | what is typed, resolved into a plan; files that flags name |
//! | `part` | one part of a crawl on several machines |
//! | `reach`, `saving`, `robots` | checks before a run: target, saved crawl, robots.txt |
//! | `crawl`, `target_probe`, `diagnose` | the crawl, the target's side, experiments after it |
//! | `deliver` | the end: save, show, export, publish |

mod crawl;
mod deliver;
mod diagnose;
mod inputs;
mod output;
mod part;
mod reach;
mod requests;
mod resolve;
mod robots;
mod saving;
mod target_probe;

use std::path::Path;

use crawlmark_harness::clock::{Clock, wall_time};
use crawlmark_harness::plan::RunPlan;
use crawlmark_harness::supervisor::{HeldSignals, Observer, RunRecord};
use crawlmark_mock_server::Ledger;
use crawlmark_results::judge::Finding;
use crawlmark_results::run::report::{Environment, Placement, Report, RunFacts, Seconds, Source};
use crawlmark_results::run::result_dir::ResultDir;

use self::deliver::Delivery;
pub(crate) use self::deliver::save_merged;
use self::diagnose::Subject;
use self::output::{NOWHERE, OutputOptions};
use self::part::{PartRun, Watch};
pub(crate) use self::part::{check_shards, whole};
#[cfg(any(test, fuzzing))]
pub use self::requests::laws as request_file_laws;
pub(crate) use self::resolve::{find, is_private, objectives, stranger};
use self::saving::SavedCrawl;
pub(crate) use self::saving::{resume_command, with_recorded_flags};
use crate::cli::RunArgs;
use crate::crawl::HoldHeader;
use crate::error::{DONE, Error};
use crate::measure::{self, Machine};
use crate::study::left_over;

/// Crawls, and returns the exit code. `clock` was started with the program.
pub(crate) fn run(args: &RunArgs, clock: Clock) -> Result<u8, Error> {
    let wanted = OutputOptions::of(args)?;
    match execute(args, &wanted, clock) {
        Err(Error::Needless(sentence)) => {
            wanted.voice.say(&(sentence + "\n"));
            Ok(DONE)
        }
        ended => ended,
    }
}

fn execute(args: &RunArgs, wanted: &OutputOptions, clock: Clock) -> Result<u8, Error> {
    let voice = wanted.voice;
    let mut resolved = resolve::resolve(args)?;
    let part = PartRun::begin(&mut resolved, clock, voice)?;
    reach::check_descriptors(&resolved.plan)?;
    reach::check_local_ips(&resolved)?;
    // For the rest of this process's life: neither what was measured nor the exit code that says
    // how it ended may be lost to an impatient second Ctrl-C.
    let held = HeldSignals::hold().map_err(Error::Signal)?;
    let saved_crawl = SavedCrawl::open(&mut resolved, wanted)?;
    let (out, name) = (resolved.out.as_deref(), &resolved.labels.name);
    let keeps = out != Some(Path::new(NOWHERE));
    let directory = if keeps {
        ResultDir::begin(out, name)?
    } else {
        // For the log of its seconds, and removed at the end.
        ResultDir::create_in(&std::env::temp_dir(), wall_time(), name)?
    };
    let checked = reach::check_hosts(&mut resolved, clock, &held)?;
    let mut slot = part
        .as_ref()
        .map(|part| part.wait_for_slot(&mut resolved, &held, clock, voice))
        .transpose()?;
    let watch = Watch {
        held: &held,
        slot: slot.as_mut(),
        clock,
    };
    let robots = robots::obey(&mut resolved, watch, voice)?;
    if let (Some(crawl), None) = (&saved_crawl, &part) {
        resolved.spec.options.sent = crawl.counters(resolved.plan.shards);
    }
    std::mem::forget(held);
    for note in resolved.notes.iter().chain(&checked.unreached) {
        voice.warn(note);
    }
    voice.say(&left_over(directory.path()));
    let (lookup, is_strict, typed) = (resolved.lookup, resolved.is_strict, resolved.typed.clone());
    let is_foreign = resolved.bundled.is_none();
    let subject = Subject::of(&resolved);
    let mut crawled = match crawl::crawl(resolved, &directory, robots, slot, voice, clock) {
        Ok(crawled) => crawled,
        Err(error) => return Err(error.keeping(directory)),
    };
    let report = &mut crawled.report;
    // Judges the report anew, so before anything is noted in it.
    let diagnosed = subject.map_or(Ok(None), |subject| subject.diagnose(report, voice));
    let ended_by = diagnosed.unwrap_or_else(|error| {
        voice.warn(&error.message());
        None
    });
    if is_foreign {
        report.add_unreached(checked.unreached);
        report.check_connections = Some(checked.connections);
    }
    if let Some(took) = lookup {
        report.add_lookup(took.all, took.slowest);
    }
    if let Some(Ok(outcome)) = &crawled.part {
        report.add_lapse(outcome.lapsed);
    }
    report.command = Some(typed.command(Some(&report.plan.run)));
    if let Some(crawl) = saved_crawl {
        add_saved(report, &crawl, part.as_ref());
    }
    let to = Delivery {
        wanted,
        part: part.as_ref(),
        is_strict,
        keeps,
        ended_by,
        clock,
    };
    Ok(deliver::deliver(crawled, directory, &to))
}

/// Add the saved crawl to the report. What was measured is not lost with it.
fn add_saved(report: &mut Report, crawl: &SavedCrawl, part: Option<&PartRun>) {
    match crawl.summary(part.map(PartRun::command)) {
        Ok(saved) => report.saved = Some(saved),
        Err(error) => {
            let reason = error.to_string();
            report.note("saved crawl", Some(Finding::StorageFailed { reason }));
        }
    }
}

/// Resolve the plan of a run and the placement of its target; refuse what `run` would refuse before
/// it starts or writes anything. Looks up the host's name.
///
/// # Errors
/// As [`run`].
pub(crate) fn check(args: &RunArgs) -> Result<(RunPlan, Placement), Error> {
    resolve::resolve(args).map(|resolved| (resolved.plan, resolved.placement))
}

/// Crawl the bundled target without saving anything: an experiment of `selftest`.
///
/// # Errors
/// When `args` do not fit together, or name another target; when the crawl cannot be run.
pub(crate) fn crawl_bundled(
    args: &RunArgs,
    held: HoldHeader,
    observer: &mut impl Observer,
) -> Result<(Report, RunRecord, Ledger), Error> {
    let resolved = resolve::resolve(args)?;
    let Some(bundled) = &resolved.bundled else {
        return Err(Error::Usage("an experiment has no URL".to_owned()));
    };
    let target = bundled.start()?;
    let mut resolved = resolved.aimed_at(Some(target.address()))?;
    resolved.spec.held = held;
    let record = measure::crawl(
        &resolved.plan,
        &resolved.spec,
        Machine {
            placement: resolved.placement,
            taken: None,
        },
        Clock::start(),
        observer,
    )?;
    let mut report = Report::new(Source {
        plan: &resolved.plan,
        labels: &resolved.labels,
        record: &record,
        target: None,
        intervals: Seconds::default(),
        environment: Environment::read(resolved.placement),
        facts: RunFacts::default(),
    });
    let ledger = measure::compare_with_ledger(&mut report, target);
    Ok((report, record, ledger))
}
