//! End of a run: its result is saved, shown, exported and published, and its exit code decided.

use std::fs;

use crawlmark_harness::clock::Clock;
use crawlmark_results::judge::Finding;
use crawlmark_results::run::report::{Report, Verdict};
use crawlmark_results::run::result_dir::{ResultDir, ResultError};
use crawlmark_results::run::words;
use crawlmark_results::show::plot;
use crawlmark_results::show::text::{counted, grouped, wrapped};

use super::crawl::Crawled;
use super::output::{EndOptions, Output, OutputOptions};
use super::part::PartRun;
use crate::cli::MergeArgs;
use crate::cluster::attempt::Publication;
use crate::error::{DONE, Error, FAILED, GATE, INCONCLUSIVE, INVALID, signalled};
use crate::export;
use crate::terminal;

/// Where a result goes, and how it is judged.
pub(super) struct Delivery<'a> {
    pub(super) wanted: &'a OutputOptions,
    /// The part that the run is; none if it is none.
    pub(super) part: Option<&'a PartRun>,
    /// True if any invalid measurement fails the run.
    pub(super) is_strict: bool,
    /// False if the directory of the result is removed at the end.
    pub(super) keeps: bool,
    /// Signal that ended what followed the run.
    pub(super) ended_by: Option<i32>,
    pub(super) clock: Clock,
}

/// Save, show, export and publish what was measured, and return the exit code. Each of these is
/// tried whether the others fail or not.
pub(super) fn deliver(crawled: Crawled, directory: ResultDir, to: &Delivery<'_>) -> u8 {
    let (mut report, wanted) = (crawled.report, to.wanted);
    // Once nothing can change the report any more: a gate may ask whether it is valid.
    crawled.thresholds.close(&mut report);
    let ended = to
        .ended_by
        .map_or_else(|| exit_code(&report, to.is_strict), signalled);
    let code = wanted.code(ended);
    let mut reason = failure(&report, ended, wanted.output.is_end());
    if wanted.output.is_end() {
        reason += &left(&report);
    }
    // Saved first, because the reader of the output may be slow; and shown whether it could be
    // saved or not: neither may cost the other.
    let saved = directory.finish(&report);
    if let Some(live) = crawled.page {
        let dropped = live.end(saved.as_deref().ok());
        if dropped > 0 {
            let seconds = counted(dropped, "second");
            wanted.voice.warn(&format!(
                "the live page was too slow: it did not show {seconds}"
            ));
        }
    }
    // The page's path is the last line.
    terminal::say(&reason);
    let kept = saved.as_deref().ok().filter(|_| to.keeps);
    let shown = wanted.output.show(&report, kept);
    let place = saved.as_deref().map_or_else(ResultError::place, Some);
    let exported = place.map_or(Ok(Vec::new()), |place| {
        export::write(&report, place, &wanted.exports)
    });
    let drawn = match &saved {
        Ok(place) if wanted.has_png => export::pngs(place, &plot::all(&report)),
        _ => Ok(()),
    };
    if let (Ok(place), false) = (&saved, to.keeps) {
        // Where that fails, it is one of many temporary files.
        let _ = fs::remove_dir_all(place);
    }
    let published = to
        .part
        .zip(crawled.part)
        .map(|(part, outcome)| outcome?.publish(part, &report, to.clock, wanted.voice));
    let code = match &published {
        // After a signal, its own exit code.
        _ if report.interrupted_by.is_some() => code,
        Some(Err(_)) => FAILED,
        // Whether any item of the crawl is good, its merge says.
        Some(Ok(Publication::Counts)) if code == FAILED => DONE,
        Some(Ok(Publication::Lost)) => DONE,
        Some(Ok(Publication::Counts)) | None => code,
    };
    let said: String = [
        crawled.log.map(Error::Result),
        shown.err(),
        saved.err().map(Error::Result),
        exported.err(),
        drawn.err(),
        published.and_then(Result::err),
    ]
    .into_iter()
    .flatten()
    .map(|error| error.message() + "\n")
    .collect();
    let is_failed = !said.is_empty();
    terminal::say(&said);
    if wanted.output.is_end() {
        let finding = words::news(&report);
        terminal::announce(finding.as_deref(), &words::brief_markdown(&report));
    }
    if code == DONE && is_failed {
        FAILED
    } else {
        code
    }
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
    let output = match (args.json, args.quiet) {
        (true, _) => Output::Json,
        (_, true) => Output::Path,
        _ => Output::End(EndOptions {
            is_verbose: args.verbose,
            ..EndOptions::default()
        }),
    };
    let code = exit_code(report, is_strict);
    terminal::say(&failure(report, code, output.is_end()));
    output.show(report, Some(&saved))?;
    Ok(code)
}

/// Return the exit code. A signal comes first. An incomplete run may have had good responses that
/// were lost; any other without one has failed, whatever its flags. The gates of an invalid
/// measurement do not count, and a gate that failed outweighs any that could not be decided.
fn exit_code(report: &Report, is_strict: bool) -> u8 {
    if let Some(signal) = report.interrupted_by {
        return signalled(signal);
    }
    let is_whole = report.validity.verdict == Verdict::Valid && report.ledger.gave_up == 0;

    // Items are left.
    let is_left = report.only_throttled_s.is_some() && report.ledger.ok > 0;
    if report.validity.verdict == Verdict::Incomplete || is_left {
        INVALID
    } else if report.ledger.ok == 0 {
        FAILED
    } else if is_strict && !is_whole {
        INVALID
    } else if report.thresholds(Some(false)) > 0 {
        GATE
    } else if report.thresholds(None) > 0 {
        INCONCLUSIVE
    } else {
        DONE
    }
}

/// What is saved of a crawl that goes on, and how; nothing of others.
fn left(report: &Report) -> String {
    match report.saved.as_ref().filter(|saved| !saved.is_complete()) {
        Some(saved) => format!(
            "{} of {} saved in {}; go on with: {}\n",
            grouped(saved.saved),
            counted(saved.items, "item"),
            saved.directory,
            saved.resume
        ),
        None => String::new(),
    }
}

/// Explain this exit code in one line; nothing when nothing failed. Findings and thresholds are in
/// the summary, if that `is_shown`.
fn failure(report: &Report, code: u8, is_shown: bool) -> String {
    let first = report.findings.first().map(Finding::sentence);
    let finding = report
        .storage_failure
        .clone()
        .or(first)
        .filter(|_| !is_shown)
        .unwrap_or_default();
    let (got, verdict) = (words::got(report), report.validity.verdict.name());
    let abandoned = match report.ledger.gave_up {
        0 => String::new(),
        n => format!(", {} abandoned", counted(n, "item")),
    };
    let why = match code {
        FAILED => format!("no response was good: {got}. {finding}"),
        INVALID => format!("the verdict is {verdict}{abandoned}: {got}. {finding}"),
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
    let why = format!("error: {}", why.trim_end());
    let lines = wrapped(&why, terminal::columns_beside());
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;

    static EXAMPLE: LazyLock<Report> = LazyLock::new(|| {
        serde_json::from_str(include_str!("../../results/example/result.json")).unwrap()
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
            prop_assert!(code != INVALID || failure(&report, code, false).contains(verdict.name()));
            let is_in_summary = [DONE, GATE, INCONCLUSIVE].contains(&code);
            prop_assert_eq!(failure(&report, code, true).is_empty(), is_in_summary);
        }
    }
}
