//! `crawlmark run`: resolve, start the bundled target if none is named, crawl, save, show, and
//! decide the exit code.

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

use crawlmark_harness::clock::{Clock, Nanos, wall_time};
use crawlmark_harness::plan::RunPlan;
use crawlmark_harness::supervisor::{HeldSignals, Interval, Live, Observer, RunRecord};
use crawlmark_mock_server::Ledger;
use crawlmark_results::judge::Finding;
use crawlmark_results::run::gates::LiveThresholds;
use crawlmark_results::run::report::{
    Environment, Group, IntervalRow, Placement, Report, Source, TLS_TRUST, UNVERIFIED, Verdict,
};
use crawlmark_results::run::result_dir::{IntervalLog, PAGE, ResultDir, ResultError};
use crawlmark_results::run::words::{self, OfWhole};
use crawlmark_results::show::doc::{Doc, Readers};

use self::diagnose::Subject;
use self::output::{Output, OutputOptions, Voice};
use self::part::{PartOutcome, PartRun, PartSeconds, PartSlot};
pub(crate) use self::part::{check_shards, whole};
use self::reach::Checked;
#[cfg(any(test, fuzzing))]
pub use self::requests::laws as request_file_laws;
use self::resolve::{BundledTarget, Resolved};
pub(crate) use self::resolve::{find, is_private, objectives, stranger};
use self::robots::Watch;
use self::saving::SavedCrawl;
pub(crate) use self::saving::{resume_command, with_recorded_flags};
use self::target_probe::TargetProbe;
use crate::cli::{MergeArgs, RunArgs};
use crate::cluster::attempt::Publication;
use crate::crawl::HoldHeader;
use crate::error::{DONE, Error, FAILED, GATE, INCONCLUSIVE, INVALID, signalled};
use crate::export;
use crate::measure;
use crate::study::left_over;
use crate::target::Target;
use crate::terminal::{self, Progress};

/// Default parent directory of results.
const RUNS: &str = "results/runs";

/// Begins the directory of a result: the one that `--out` names, or one of this name in [`RUNS`].
///
/// # Errors
/// When it cannot be made, would replace something, or is in use.
pub(crate) fn result_directory(out: Option<&Path>, name: &str) -> Result<ResultDir, Error> {
    let made = out.map_or_else(
        || ResultDir::create_in(Path::new(RUNS), wall_time(), name),
        ResultDir::create,
    );
    Ok(made?)
}

/// Crawls, and returns the exit code. `clock` was started with the program.
pub(crate) fn run(args: RunArgs, clock: Clock) -> Result<u8, Error> {
    let wanted = OutputOptions::of(&args)?;
    match execute(args, &wanted, clock) {
        Err(Error::Needless(sentence)) => {
            wanted.voice.say(&(sentence + "\n"));
            Ok(DONE)
        }
        ended => ended,
    }
}

fn execute(mut args: RunArgs, wanted: &OutputOptions, clock: Clock) -> Result<u8, Error> {
    let voice = wanted.voice;
    let mut part = PartRun::begin(&mut args, clock)?;
    let (save, typed, is_diagnosed) = (args.save.clone(), args.typed.clone(), args.diagnose);
    let mut resolved = match &mut part {
        None => resolve::resolve(args)?,
        Some(part) => part.resolve(args, voice)?,
    };
    reach::check_descriptors(&resolved.plan)?;
    reach::check_local_ips(&resolved)?;
    if resolved
        .plan
        .workload
        .get(TLS_TRUST)
        .is_some_and(|trust| trust == UNVERIFIED)
    {
        voice.warn(
            "certificates are not verified (--insecure): the responses may be another server's",
        );
    }
    if let Some(note) = &resolved.note {
        voice.warn(note);
    }
    let (is_strict, is_foreign) = (resolved.is_strict, resolved.bundled.is_none());
    // For the rest of this process's life: neither what was measured nor the exit code that says
    // how it ended may be lost to an impatient second Ctrl-C.
    let held = HeldSignals::hold().map_err(Error::Signal)?;
    let saved_crawl = SavedCrawl::open(&save, &typed, &mut resolved, wanted)?;
    let directory = result_directory(resolved.out.as_deref(), &resolved.labels.name)?;
    let Checked {
        unreached,
        connections: checks,
    } = reach::check_hosts(&mut resolved, clock, &held)?;
    let slot = part.as_ref();
    let slot = slot.map(|part| part.wait_for_slot(&mut resolved, &held, clock, voice));
    let mut part_slot = slot.transpose()?;
    if !resolved.robots.is_empty() {
        voice.say("fetching robots.txt\n");
    }
    let watch = Watch {
        held: &held,
        slot: part_slot.as_mut(),
        clock,
    };
    let robots = robots::obey(&mut resolved, watch)?;
    if let (Some(crawl), None) = (&saved_crawl, &part) {
        resolved.spec.options.sent = crawl.counters(resolved.plan.shards);
    }
    std::mem::forget(held);
    if let Some(unreached) = &unreached {
        voice.warn(unreached);
    }
    voice.say(&left_over(directory.path()));
    let lookup = resolved.lookup;
    let subject =
        is_diagnosed.then(|| Subject::new(&resolved.plan, &resolved.spec, resolved.placement));
    let crawled = crawl(resolved, &directory, part_slot, voice, clock);
    let (mut crawled, thresholds) = match crawled {
        Ok(crawled) => crawled,
        Err(error) => return Err(error.keeping(directory)),
    };
    let report = &mut crawled.report;
    let diagnosed = subject.map_or(Ok(None), |subject| subject.diagnose(report, voice));
    let ended_by = diagnosed.unwrap_or_else(|error| {
        voice.warn(&error.message());
        None
    });
    if is_foreign {
        report.add_unreached(unreached);
        report.check_connections = Some(checks);
    }
    if let Some(took) = lookup {
        report.add_lookup(took.all, took.slowest);
    }
    report.robots = robots;
    if let Some(Ok(outcome)) = &crawled.part {
        outcome.note(report);
    }
    report.command = Some(typed.command(Some(&report.plan.run)));
    let command = part.as_ref().map(PartRun::command);
    // What was measured is not lost with it.
    match saved_crawl.map(|crawl| crawl.summary(command)).transpose() {
        Ok(saved) => report.saved = saved,
        Err(error) => {
            let reason = error.to_string();
            report.note("saved crawl", Some(Finding::StorageFailed { reason }));
        }
    }
    // Once nothing can change the report any more: a gate may ask whether it is valid.
    thresholds.close(report);
    let code = ended_by.map_or_else(|| exit_code(report, is_strict), signalled);
    Ok(deliver(
        crawled,
        part.as_ref(),
        directory,
        wanted,
        code,
        clock,
    ))
}

/// Save, show, export and publish what was measured, and return the exit code, which is `ended` if
/// nothing fails. Each of these is tried whether the others fail or not.
fn deliver(
    crawled: Crawled,
    part: Option<&PartRun>,
    directory: ResultDir,
    wanted: &OutputOptions,
    ended: u8,
    clock: Clock,
) -> u8 {
    let report = crawled.report;
    let code = wanted.code(ended);
    // Saved first, because the reader of the output may be slow; and shown whether it could be
    // saved or not: neither may cost the other.
    let saved = directory.finish(&report);
    let is_shown = wanted.output.is_data() || !wanted.voice.is_quiet;
    let shown = if is_shown {
        show(&report, saved.as_deref().ok(), wanted.output)
    } else {
        Ok(())
    };
    let place = saved
        .as_ref()
        .map_or_else(ResultError::place, |saved| Some(saved));
    let more = place.map_or(Ok(()), |place| write_more(&report, place, wanted));
    let is_shown = !wanted.output.is_data() && !wanted.voice.is_quiet;
    terminal::say(&failure(&report, ended, is_shown));
    let published = part.zip(crawled.part).map(|(part, outcome)| {
        let publication = part.publish(&report, &outcome?, clock)?;
        wanted.voice.say(&part.published(publication));
        Ok::<_, Error>(publication)
    });
    let code = match &published {
        // After a signal, its own exit code.
        _ if report.interrupted_by.is_some() => code,
        Some(Err(_)) => FAILED,
        // Whether any item of the crawl is good, its merge says.
        Some(Ok(Publication::Counts)) if code == FAILED => DONE,
        Some(Ok(Publication::Lost)) => DONE,
        Some(Ok(Publication::Counts)) | None => code,
    };
    let part = published.and_then(Result::err);
    let failures = [
        crawled.log.map(Error::Result),
        shown.err(),
        saved.err().map(Error::Result),
        more.err(),
        part,
    ];
    let mut failures = failures.into_iter().flatten().peekable();
    let is_failed = code == DONE && failures.peek().is_some();
    let code = if is_failed { FAILED } else { code };
    failures.for_each(|error| terminal::say(&(error.message() + "\n")));
    code
}

/// Resolve the plan of a run and the placement of its target; refuse what `run` would refuse before
/// it starts or writes anything. Looks up the host's name.
///
/// # Errors
/// As [`run`].
pub(crate) fn check(args: RunArgs) -> Result<(RunPlan, Placement), Error> {
    resolve::resolve(args).map(|resolved| (resolved.plan, resolved.placement))
}

/// Crawl the bundled target without saving anything: an experiment of `selftest`.
///
/// # Errors
/// When `args` do not fit together, or name another target; when the crawl cannot be run.
pub(crate) fn crawl_bundled(
    args: RunArgs,
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
        resolve::cpus(resolved.plan.shards, resolved.placement, None),
        Clock::start(),
        observer,
    )?;
    let mut report = Report::new(Source {
        plan: &resolved.plan,
        labels: &resolved.labels,
        record: &record,
        target: None,
        intervals: Vec::new(),
        environment: Environment::read(resolved.placement),
    });
    let ledger = measure::compare_with_ledger(&mut report, target);
    Ok((report, record, ledger))
}

/// Save and show a merged report, and return the exit code.
///
/// # Errors
/// When it cannot be saved or shown.
pub(crate) fn save_merged(
    report: &Report,
    directory: ResultDir,
    args: &MergeArgs,
    is_strict: bool,
) -> Result<u8, Error> {
    let saved = directory.finish(report)?;
    let output = if args.json {
        Output::Json
    } else {
        Output::Summary
    };
    if args.json || !args.quiet {
        show(report, Some(&saved), output)?;
    }
    let code = exit_code(report, is_strict);
    terminal::say(&failure(report, code, !args.json && !args.quiet));
    Ok(code)
}

/// Writes what was asked for beyond the result: once that has its name, for nothing of this may
/// cost a measurement.
fn write_more(report: &Report, saved: &Path, wanted: &OutputOptions) -> Result<(), Error> {
    export::write(report, saved, &wanted.exports).map(drop)
}

/// A run that is over.
struct Crawled {
    report: Report,
    /// Reason why the log of histograms is not whole; none when it is.
    log: Option<ResultError>,
    /// End of the part that the run is; none if it is none.
    part: Option<Result<PartOutcome, Error>>,
}

/// Starts the target if it is the bundled one, runs the plan and merges what happened.
fn crawl(
    resolved: Resolved,
    directory: &ResultDir,
    part: Option<PartSlot<'_>>,
    voice: Voice,
    clock: Clock,
) -> Result<(Crawled, LiveThresholds), Error> {
    let target = resolved
        .bundled
        .as_ref()
        .map(BundledTarget::start)
        .transpose()?;
    let resolved = resolved.aimed_at(target.as_ref().map(Target::address))?;
    let columns = terminal::columns_beside();
    let slot = part.as_ref().map(|slot| OfWhole {
        slot: slot.share(),
        plan: slot.whole(),
    });
    voice.say(
        &(words::announcement(&resolved.plan, slot, columns)
            + &words::must_hold(&resolved.objectives, columns)),
    );
    // Items of several requests make more samples than the plan says.
    let is_bounded = !resolved.spec.targets.has_flows();
    let objectives = resolved.objectives.iter().filter(|_| is_bounded);
    for shortage in objectives.filter_map(|objective| objective.shortage(&resolved.plan)) {
        voice.warn(&shortage.to_string());
    }
    let mut file = directory.log()?;
    let probe = TargetProbe::start(&resolved.probe, &resolved.spec, clock)?;
    if let Some(probe) = probe.as_ref().filter(|_| resolved.probe.is_explicit())
        && let Some(why) = probe.failure()
    {
        voice.warn(&format!(
            "the target's side is not measured: {}: {why}",
            probe.source()
        ));
    }
    let cpus = resolve::cpus(
        resolved.plan.shards,
        resolved.placement,
        probe.as_ref().and_then(TargetProbe::cpus),
    );
    let mut recorder = Recorder {
        probe,
        rows: Vec::new(),
        log: file.begin(wall_time())?,
        thresholds: LiveThresholds::new(&resolved.objectives, &resolved.plan),
        part: part
            .map(|slot| PartSeconds::begin(slot, resolved.plan.items()))
            .transpose()?,
        progress: if voice.has_progress {
            Progress::fitting(&resolved.plan)
        } else {
            Progress::Silent
        },
    };
    let record = measure::crawl(&resolved.plan, &resolved.spec, cpus, clock, &mut recorder)?;
    let Recorder {
        probe,
        rows,
        log,
        thresholds,
        part,
        progress: _,
    } = recorder;
    let part = part.map(|seconds| seconds.end(&record, clock.now()));
    let log = log.end().and(file.close()).err();
    let mut report = Report::new(Source {
        plan: &resolved.plan,
        labels: &resolved.labels,
        record: &record,
        target: probe.map(TargetProbe::end),
        intervals: rows,
        environment: Environment::read(resolved.placement),
    });
    let targets = &resolved.spec.targets;
    let hosts: Vec<String> = targets
        .hosts()
        .iter()
        .map(|host| format!("{}:{}", host.local_name(), host.port()))
        .collect();
    let templates = targets.templates(resolved.spec.request.method());
    let ips = resolved.spec.local_ips.as_ref();
    report.name_groups(|group| {
        let number = group.number()?;
        match group {
            Group::Host(_) => hosts.get(number as usize).cloned(),
            Group::Template(_) => templates.get(number as usize).cloned(),
            Group::Source(_) => ips?.numbered(number).map(|address| address.to_string()),
        }
    });
    if let Some(target) = target {
        measure::compare_with_ledger(&mut report, target);
    }
    Ok((Crawled { report, log, part }, thresholds))
}

/// Everything that watches the run.
struct Recorder<'a> {
    probe: Option<TargetProbe>,
    rows: Vec<IntervalRow>,
    log: IntervalLog<'a>,
    thresholds: LiveThresholds,
    part: Option<PartSeconds<'a>>,
    progress: Progress,
}

impl Observer for Recorder<'_> {
    fn progress(&mut self, live: &Live) {
        if let Some(probe) = &mut self.probe {
            probe.drain();
        }
        let target = self.probe.as_ref().and_then(TargetProbe::now);
        self.progress.show(live, &self.rows, target);
    }

    fn interval(&mut self, interval: &Interval) {
        let row = IntervalRow::new(interval);
        if let Some(part) = &mut self.part {
            part.second(interval, &row);
        }
        self.rows.push(row);
        self.log.append(interval);
        self.thresholds.hear(interval);
    }

    fn lease(&mut self, now: Nanos) -> Option<Nanos> {
        self.part.as_mut().map(|part| part.lease(now))
    }

    fn has_enough(&self) -> bool {
        self.thresholds.has_enough() || self.part.as_ref().is_some_and(PartSeconds::is_over)
    }
}

/// Return the exit code. A signal comes first. An incomplete run may have had good responses that
/// were lost; any other without one has failed, whatever its flags. The gates of an invalid
/// measurement do not count, and a gate that failed outweighs any that could not be decided.
fn exit_code(report: &Report, is_strict: bool) -> u8 {
    if let Some(signal) = report.interrupted_by {
        return signalled(signal);
    }
    let is_whole = report.validity.verdict == Verdict::Valid && report.ledger.gave_up == 0;

    match () {
        () if report.validity.verdict == Verdict::Incomplete => INVALID,
        () if report.ledger.ok == 0 => FAILED,
        () if is_strict && !is_whole => INVALID,
        () if report.thresholds(Some(false)) > 0 => GATE,
        () if report.thresholds(None) > 0 => INCONCLUSIVE,
        () => DONE,
    }
}

/// Explain this exit code in one line; nothing when nothing failed. Findings and thresholds are in
/// the summary, if that `is_shown`.
fn failure(report: &Report, code: u8, is_shown: bool) -> String {
    let finding = report.findings.first().map(Finding::sentence);
    let finding = report.storage_failure.clone().or(finding);
    let finding = finding.filter(|_| !is_shown).unwrap_or_default();
    let (got, verdict) = (words::got(report), report.validity.verdict.name());
    let why = match code {
        FAILED => format!("no response was good: {got}. {finding}"),
        INVALID => format!("the result is not whole ({verdict}): {got}. {finding}"),
        GATE if !is_shown => format!(
            "threshold failed: {}",
            words::thresholds_line(report, Some(false))
        ),
        INCONCLUSIVE if !is_shown => format!(
            "threshold undecided: {}",
            words::thresholds_line(report, None)
        ),
        _ => return String::new(),
    };
    format!("error: {}\n", why.trim_end())
}

/// Shows the report, and where it is saved.
fn show(report: &Report, saved: Option<&Path>, output: Output) -> Result<(), Error> {
    match output {
        Output::Json => terminal::print(&(serde_json::to_string_pretty(report)? + "\n")),
        Output::Export => Ok(()),
        Output::Summary | Output::SummaryWithPercentiles => {
            let mut doc = words::doc(report, &[]).only(Readers::TERMINAL);
            if output == Output::SummaryWithPercentiles {
                doc = words::percentiles(report).into_iter().fold(doc, Doc::table);
            }
            let place = saved.map(|saved| format!("Report: {}", saved.join(PAGE).display()));
            terminal::print_lines(
                &doc.text(place.unwrap_or_default())
                    .lines(terminal::columns()),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;

    static EXAMPLE: LazyLock<Report> = LazyLock::new(|| {
        serde_json::from_str(include_str!("../results/example/result.json")).unwrap()
    });

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_script_takes_a_run_for_whole_that_is_not(
            [ok, not_found, failed, gave_up] in prop::array::uniform4(prop_oneof![Just(0_u64), 1..1_000_u64]),
            verdict in prop::sample::select(Verdict::ALL.to_vec()),
            is_strict: bool,
            passed: Option<bool>,
        ) {
            let mut report = EXAMPLE.clone();
            let items = &mut report.ledger.items;
            (items.ok, items.not_found, items.failed, items.gave_up) = (ok, not_found, failed, gave_up);
            report.validity.verdict = verdict;
            report.gates.iter_mut().for_each(|gate| gate.ok = passed);
            let code = exit_code(&report, is_strict);
            if verdict == Verdict::Incomplete {
                prop_assert_eq!(code, INVALID);
            } else if ok == 0 {
                prop_assert_eq!(code, FAILED);
            } else if is_strict {
                prop_assert_eq!(code == INVALID, verdict != Verdict::Valid || gave_up > 0);
            }
            prop_assert_eq!(failure(&report, code, false).is_empty(), code == DONE);
            let is_in_summary = [DONE, GATE, INCONCLUSIVE].contains(&code);
            prop_assert_eq!(failure(&report, code, true).is_empty(), is_in_summary);
        }
    }
}
