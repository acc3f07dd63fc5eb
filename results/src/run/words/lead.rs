//! Lead of a run's document: its outcome, main figures and validity.

use crate::judge::{Finding, Severity as Gravity};
use crate::run::report::{Report, Verdict, is_endless};
use crate::show::doc::{Figure, Lead, Severity, Status};
use crate::show::text::{counted, decimal, grouped, micros, seconds};
use crawlmark_harness::process::signal_in_words;
use crawlmark_harness::units::rounded_percent;

/// The lead of a document: `errors` and `times` are figures of errors and of times.
pub(super) fn of(report: &Report, errors: Figure, times: Vec<Figure>) -> Lead {
    Lead {
        outcome: outcome(report),
        validity: validity(report),
        figures: figures(report, errors, times),
    }
}

/// Colour of the findings of a run.
pub(super) const fn colour(gravity: Gravity) -> Severity {
    match gravity {
        Gravity::Info => Severity::Good,
        Gravity::Warning => Severity::Warning,
        Gravity::Error => Severity::Bad,
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
        gravest => colour(gravest.unwrap_or(Gravity::Info)),
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
    } else if report.gates.is_empty() {
        ended
    } else {
        format!("{ended}, {all} passed")
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
        (None, Some(threshold)) => format!("Stopped by --stop-if '{threshold}' after {of}"),
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
            severity(validity.verdict),
            format!("Validity: {}", word(validity.verdict)),
        )
    }
}

/// The verdict in a word: `client-limited`.
pub(super) fn word(verdict: Verdict) -> String {
    verdict.name().replace('_', "-")
}

/// Severity of a verdict. One that is valid is no success yet: the outcome says that.
pub(super) const fn severity(verdict: Verdict) -> Severity {
    match verdict {
        Verdict::Valid => Severity::Neutral,
        Verdict::Disturbed | Verdict::NothingMeasured | Verdict::Incomplete => Severity::Bad,
        _ => Severity::Warning,
    }
}

/// Main figures of a run, the most important first, those of its errors and times among them.
fn figures(report: &Report, errors: Figure, times: Vec<Figure>) -> Vec<Figure> {
    let totals = &report.totals;
    let figure = |name: &'static str, value: String, detail: String| Figure {
        name: name.into(),
        value,
        detail,
    };
    let of_requests = |n: u64| rounded_percent(n as f64 / totals.attempts.max(1) as f64);
    let per_s = |rate: f64| format!("{}/s", decimal(rate));
    let (cpu, of_target) = (
        report.cpu_us_per_attempt(),
        report.target_cpu_us_per_attempt(),
    );
    let (got, share) = (got_items(report), got_share(report));
    let mut figures = vec![
        if report.got.ok < report.got.of {
            figure("got", got, share)
        } else {
            figure("got", share, got)
        },
        figure(
            "good",
            report.good_rate(),
            format!("items, over {}", seconds(report.measured_s())),
        ),
        errors,
    ];
    if totals.throttled > 0 {
        let detail = format!("of requests, {} in all", grouped(totals.throttled));
        figures.push(figure("throttled", of_requests(totals.throttled), detail));
    }
    if totals.resent > 0 {
        let detail = format!(
            "of requests, {} in all: the target had not begun them",
            grouped(totals.resent)
        );
        figures.push(figure("sent again", of_requests(totals.resent), detail));
    }
    if let Some((unsent, share)) = report.never_sent() {
        let detail = format!("of those due, {} in all", grouped(unsent));
        figures.push(figure("never sent", rounded_percent(share), detail));
    }
    figures.extend(times);
    let requests = format!(
        "{} in all, peak in flight {}",
        grouped(totals.attempts),
        grouped(totals.peak_in_flight)
    );
    figures.push(figure("requests", per_s(totals.attempts_per_s), requests));
    if totals.events > 0 {
        let all = format!("{} in all", grouped(totals.events));
        let rate = totals.events as f64 / report.measured_s();
        figures.push(figure("events", per_s(rate), all));
    }
    let names = report
        .target
        .iter()
        .flat_map(|target| &target.names)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    let rows = [
        (
            "rate ratio",
            report.rate_ratio.map(|ratio| format!("{ratio:.3}")),
            "rate sent / rate asked for".to_owned(),
        ),
        (
            "client CPU per request",
            cpu.map(micros),
            format!("all {}s", report.shard_word()),
        ),
        ("target CPU per request", of_target.map(micros), names),
    ];
    figures.extend(
        rows.into_iter()
            .filter_map(|(name, value, detail)| Some(figure(name, value?, detail))),
    );
    figures
}

/// Good items of those wanted: `246 of 400 items (61.5 %)`.
pub fn got(report: &Report) -> String {
    format!("{} ({})", got_items(report), got_share(report))
}

fn got_share(report: &Report) -> String {
    report
        .got
        .share
        .map_or_else(|| "-".to_owned(), rounded_percent)
}

fn got_items(report: &Report) -> String {
    let tried = if is_endless(&report.plan.run) {
        " tried"
    } else {
        ""
    };
    format!(
        "{} of {} items{tried}",
        grouped(report.got.ok),
        grouped(report.got.of)
    )
}
