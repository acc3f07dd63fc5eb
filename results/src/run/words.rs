//! A run as a document, of which the terminal, Markdown, the step summary and the page are layouts:
//! its outcome, a line of figures, the findings, and tables. Pure functions; printing and saving
//! happen elsewhere. Sentences are those of the findings (`judge/findings.rs`).
//!
//! | module | holds |
//! |---|---|
//! | `tables` | figures by name, and tables of everything that is counted |
//! | `times`, `percentiles` | which times count, the full distribution |
//! | `sparkline` | seconds of the run |
//! | `thresholds` | thresholds before and after a run |
//! | `failures` | failed requests by cause |
//! | `reproduce` | command line and plan |
//! | `announcement` | lines before a run starts |

mod announcement;
mod failures;
mod percentiles;
mod reproduce;
mod sparkline;
pub(super) mod tables;
mod thresholds;
mod times;

pub use self::announcement::{OfWhole, announcement};
pub(crate) use self::failures::error_share;
pub use self::failures::{errors, explained};
pub use self::percentiles::percentiles;
pub(crate) use self::thresholds::seen;
pub use self::thresholds::{must_hold, thresholds_line};
pub(crate) use self::times::figure;
use self::times::{main_times, population};
use crate::judge::{Finding, Severity as Gravity};
use crate::run::report::{Report, Verdict, is_endless};
use crate::show::doc::{Doc, Figure, Lead, Readers, Severity, Status};
use crate::show::plot::Plot;
use crate::show::text::{capital, counted, decimal, grouped, micros, seconds};
use crawlmark_harness::process::signal_in_words;
use crawlmark_harness::units::rounded_percent;

/// Hosts that the terminal shows at most.
const TERMINAL_GROUPS: usize = 10;

/// A run as a document; `plots` are those that are saved beside it.
pub fn doc(report: &Report, plots: &[Plot]) -> Doc {
    let [start, end] = [&report.started_at, &report.finished_at].map(|at| moment(at));
    let tags = report.tags.iter();
    let table = |table| Doc::default().table(table);
    Doc::new(heading(report))
        .about(vec![
            format!("{start} to {end}"),
            format!("crawlmark {}", report.crawlmark_version),
        ])
        .about(tags.map(|(key, value)| format!("{key}: {value}")).collect())
        .lead(Lead {
            outcome: outcome(report),
            figures: figures(report),
            validity: validity(report),
        })
        .only(Readers::TEXT)
        .facts(tables::summary(report))
        .table(tables::errors(report))
        .only(Readers::TERMINAL)
        .and(tables::groups(report, TERMINAL_GROUPS))
        .only(Readers::STEP.and(Readers::SUMMARY))
        .and(tables::groups(report, usize::MAX))
        .only(Readers::ALL)
        .section("thresholds", "Thresholds", table(thresholds::table(report)))
        .only(Readers::STEP.and(Readers::SUMMARY))
        .table(sparkline::course(report))
        .only(Readers::ALL)
        .section(
            "split",
            "Where a request's time goes",
            tables::split(report),
        )
        .only(Readers::FILES)
        .section("plots", "Plots", Doc::default().plots(plots))
        .section("limits", "Limits", tables::limits(report))
        .section("merge", "Merge", tables::parts(report))
        .only(Readers::PAGE)
        .section("counts", "Counts", tables::counts(report))
        .section("times", "Times", tables::times(report))
        .only(Readers::FILES)
        .section(
            "slowest",
            "Slowest requests",
            table(tables::slowest(report)),
        )
        .section(
            "shards",
            capital(report.shard_word()) + "s",
            table(tables::shards(report)),
        )
        .only(Readers::PAGE)
        .section("machine", "Machine", tables::machine(report))
        .only(Readers::FILES)
        .section("reproduce", "Reproduce", reproduce::parts(report))
}

/// The name of the run, its target, and a note when it is partial.
fn heading(report: &Report) -> String {
    let name = if report.name.is_empty() {
        "crawl"
    } else {
        &report.name
    };
    let partial = if report.interrupted { " (partial)" } else { "" };
    format!("{name}: {}{partial}", report.plan.run.target).replace('\n', " ")
}

/// A calendar time of a report as people write it, to the second.
pub(crate) fn moment(rfc3339: &str) -> String {
    let whole = rfc3339.split(['.', 'Z']).next().unwrap_or_default();
    format!("{} UTC", whole.replacen('T', " ", 1))
}

/// Colour of the findings of a run.
const fn colour(gravity: Gravity) -> Severity {
    match gravity {
        Gravity::Info => Severity::Good,
        Gravity::Warning => Severity::Warning,
        Gravity::Error => Severity::Bad,
    }
}

/// The outcome in a box: how the run ended, the first finding with its remedy, and the others.
pub(crate) fn outcome(report: &Report) -> Status {
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
        list: others.iter().map(Finding::title).collect(),
        ..Status::new(severity, outcome_line(report))
    }
}

/// How the run ended, and what its thresholds came to.
fn outcome_line(report: &Report) -> String {
    let ended = ending(report);
    let [failed, undecided] = [Some(false), None].map(|ok| report.thresholds(ok));
    let all = counted(report.gates.len() as u64, "threshold");
    if failed > 0 {
        format!("FAILED: {failed} of {all}. {ended}")
    } else if report.validity.verdict == Verdict::Incomplete {
        format!("INCOMPLETE. {ended}")
    } else if undecided > 0 {
        format!("UNDECIDED: {undecided} of {all}. {ended}")
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
pub(crate) fn word(verdict: Verdict) -> String {
    verdict.name().replace('_', "-")
}

/// Severity of a verdict. One that is valid is no success yet: the outcome says that.
pub(in crate::run) const fn severity(verdict: Verdict) -> Severity {
    match verdict {
        Verdict::Valid => Severity::Neutral,
        Verdict::Disturbed | Verdict::NothingMeasured | Verdict::Incomplete => Severity::Bad,
        _ => Severity::Warning,
    }
}

/// Main figures of a run, the most important first.
fn figures(report: &Report) -> Vec<Figure> {
    let totals = &report.totals;
    let figure = |name: &'static str, value: String, detail: String| Figure {
        name: name.into(),
        value,
        detail,
    };
    let of_requests = |n: u64| rounded_percent(n as f64 / totals.attempts.max(1) as f64);
    let per_s = |rate: f64| format!("{}/s", decimal(rate));
    let errors = error_share(report).unwrap_or(0.0);
    let mut figures = vec![
        if report.got.ok < report.got.of {
            figure("got", got_items(report), got_share(report))
        } else {
            figure("got", got_share(report), got_items(report))
        },
        figure(
            "good",
            per_s(totals.ok_per_s),
            format!("items, over {}", seconds(report.measured_s())),
        ),
        figure(
            "errors",
            rounded_percent(errors),
            failures::causes_in_words(report).unwrap_or_else(|| "of requests".to_owned()),
        ),
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
    if let Some(schedule) = &report.schedule
        && schedule.dropped + schedule.postponed > 0
    {
        let unsent = schedule.dropped + schedule.postponed;
        let share = unsent as f64 / schedule.scheduled as f64;
        let detail = format!("of those due, {} in all", grouped(unsent));
        figures.push(figure("never sent", rounded_percent(share), detail));
    }
    if let Some((series, latency, _)) = main_times(report) {
        let of = format!("{series} time of {}", population(report, latency));
        let main = latency.figures().into_iter();
        for (name, key, us) in main.filter(|(name, ..)| ["p50", "p99", "max"].contains(name)) {
            figures.extend(self::figure(latency, key, us).map(|us| figure(name, us, of.clone())));
        }
    }
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
    let ratio = report.rate_ratio.map(|ratio| format!("{ratio:.3}"));
    let of = "rate sent / rate asked for".to_owned();
    figures.extend(ratio.map(|ratio| figure("rate ratio", ratio, of)));
    let cpu = report.cpu_us_per_attempt().map(micros);
    let of = format!("all {}s", report.shard_word());
    figures.extend(cpu.map(|cpu| figure("client CPU per request", cpu, of)));
    let target = report.target_cpu_us_per_attempt().map(micros);
    let names = report.target.iter().flat_map(|target| &target.names);
    let names = names.map(String::as_str).collect::<Vec<_>>().join(", ");
    figures.extend(target.map(|cpu| figure("target CPU per request", cpu, names)));
    figures
}

/// Good items of those wanted: `246 of 400 items (61.5 %)`.
pub fn got(report: &Report) -> String {
    format!("{} ({})", got_items(report), got_share(report))
}

fn got_share(report: &Report) -> String {
    let share = report.got.share.map(rounded_percent);
    share.unwrap_or_else(|| "-".to_owned())
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
