//! Lead of a run's document: its outcome, main figures and validity.

use crate::judge::{Finding, Severity as Gravity};
use crate::run::report::{Report, Verdict, is_endless};
use crate::show::doc::{Figure, Lead, Severity, Status};
use crate::show::figures;
use crate::show::text::{counted, grouped, seconds};
use crawlmark_harness::process::signal_in_words;
use crawlmark_harness::units::rounded_percent;

/// The lead of a document.
pub(super) fn of(report: &Report) -> Lead {
    let others = figures::others(report).map(|(name, value)| Figure {
        name: name.into(),
        value,
        detail: String::new(),
    });
    Lead {
        outcome: outcome(report),
        validity: validity(report),
        figures: figures::main(report).into_iter().chain(others).collect(),
    }
}

/// The outcome in a box: how the run ended, the first finding with its remedy, and the others.
fn outcome(report: &Report) -> Status {
    let (first, others) = match report.findings.split_first() {
        Some((first, others)) => (first.sentence(), others),
        None => (String::new(), &[][..]),
    };
    let gravest = report.findings.iter().map(Finding::severity).max();
    let severity = match gravest {
        _ if report.ledger.ok == 0 => Severity::Bad,
        gravest => gravest.unwrap_or(Gravity::Info).into(),
    };
    Status {
        id: Some("outcome"),
        text: first,
        list: others.iter().map(Finding::text).collect(),
        ..Status::new(severity, outcome_line(report))
    }
}

/// How the run ended, and what its thresholds came to.
fn outcome_line(report: &Report) -> String {
    let ended = ending(report);
    let [failed, undecided] = [Some(false), None].map(|ok| report.thresholds(ok));
    let all = counted(report.gates.len() as u64, "threshold");
    let verdict = report.validity.verdict;
    let doubt = match verdict {
        Verdict::ClientLimited | Verdict::Disturbed => word(verdict).to_uppercase() + ". ",
        _ => String::new(),
    };
    if failed > 0 {
        format!("{doubt}FAILED: {failed} of {all}. {ended}")
    } else if verdict == Verdict::Incomplete {
        format!("INCOMPLETE. {ended}")
    } else if undecided > 0 {
        format!("{doubt}UNDECIDED: {undecided} of {all}. {ended}")
    } else if let Some(passed) = report.passed() {
        format!("{ended}, {passed}")
    } else {
        ended
    }
}

fn ending(report: &Report) -> String {
    let after = seconds(report.totals.duration_s);
    let planned = report
        .plan
        .run
        .duration
        .map(|planned| planned.as_secs_f64());
    let of = match planned.filter(|planned_s| *planned_s > report.totals.duration_s) {
        Some(planned_s) => format!("{after} of {}", seconds(planned_s)),
        None => after,
    };
    match (report.interrupted_by, &report.stopped_by) {
        (Some(signal), _) => format!("Stopped by {} after {of}", signal_in_words(signal)),
        (None, Some(threshold)) => format!("Stopped by --stop-unless '{threshold}' after {of}"),
        (None, None) if report.storage_failure.is_some() => {
            format!("Stopped by a failure to store results after {of}")
        }
        (None, None) if report.only_throttled_s.is_some() => {
            format!("Stopped by throttling after {of}")
        }
        (None, None) => format!("Finished after {of}"),
    }
}

/// The verdict, and the checks that were made.
fn validity(report: &Report) -> Status {
    let validity = &report.validity;
    let (made, missing) = (validity.checked.len(), validity.unavailable.len());
    let summary = match missing {
        0 => format!("{made} checks run"),
        _ => format!("{made} checks run, {missing} not available"),
    };
    let unavailable = validity
        .unavailable
        .iter()
        .map(|(check, missing)| format!("Not made: {check}, because {}.", missing.reason()));
    let checks = [format!("Checked: {}.", validity.checked.join(", "))];
    Status {
        id: Some("validity"),
        text: validity.verdict.meaning().to_owned(),
        details: Some((summary, checks.into_iter().chain(unavailable).collect())),
        ..Status::new(
            validity.verdict.into(),
            format!("Validity: {}", word(validity.verdict)),
        )
    }
}

/// The verdict in a word: `client-limited`.
pub(super) fn word(verdict: Verdict) -> String {
    verdict.name().replace('_', "-")
}

/// Good items of those wanted: `246 of 400 items (61.5 %)`.
pub fn got(report: &Report) -> String {
    let tried = if is_endless(&report.plan.run) {
        " tried"
    } else {
        ""
    };
    let [got, of] = [report.got.ok, report.got.of].map(grouped);
    let share = report.got.share.map_or("-".to_owned(), rounded_percent);
    format!("{got} of {of} items{tried} ({share})")
}
