//! Main figures of a run: the rate of good responses, errors, times, cost.

use super::failures::{causes_in_words, error_share};
use super::gates::{parts, value};
use super::rows::{cpu_us_per_attempt, ended_in_warmup, is_unsent, measured_time};
use super::times::{Clocked, figure, population};
use crate::run::report::{Latency, Report};
use crate::show::doc::Figure;
use crate::show::text::{decimal, grouped, micros};
use crawlmark_harness::units::rounded_percent;

/// Part of the time in pauses from which on the part of requests that were throttled says too
/// little.
const PAUSED: f64 = 0.1;

/// The most failed thresholds of times with a figure of their own.
const MOST_FAILED: usize = 3;

/// The figures, the most important first.
pub(super) fn figures(report: &Report) -> Vec<Figure> {
    let totals = &report.totals;
    let figure = |name: &'static str, value: String, detail: String| Figure {
        name: name.into(),
        value,
        detail,
    };
    if is_unsent(report) {
        return vec![figure("requests", "0".to_owned(), String::new())];
    }
    let is_measured = ended_in_warmup(report).is_none();
    let per_s = |rate: f64| match rate {
        _ if !is_measured => "-".to_owned(),
        rate if rate > 0.0 => format!("{}/s", decimal(rate)),
        _ => "0/s".to_owned(),
    };
    let of_requests = || "of requests".to_owned();
    let failed = error_share(report).map_or_else(|| "-".to_owned(), rounded_percent);
    let mut figures = vec![
        figure("got", got_share(report), got_items(report)),
        figure(
            "good",
            per_s(totals.good_per_s(&report.ledger)),
            format!("responses, over {}", measured_time(report)),
        ),
        figure(
            "errors",
            failed.clone(),
            causes_in_words(report).unwrap_or_else(of_requests),
        ),
    ];
    // Retries make the parts differ: an item fails once, and its requests several times.
    let ledger = &report.ledger;
    let items_failed = rounded_percent(ledger.failed as f64 / ledger.completed().max(1) as f64);
    if totals.retries > 0 && ledger.failed > 0 && items_failed != failed {
        figures[2].value = format!("{failed} of requests");
        figures.push(figure(
            "failed",
            format!("{items_failed} of items"),
            format!("{} in all", grouped(ledger.failed)),
        ));
    }
    let counted = report.measured().requests;
    if counted.throttled > 0 {
        let share = rounded_percent(counted.throttled as f64 / counted.attempts.max(1) as f64);
        let paused = Some(report.binding.pause).filter(|part| *part >= PAUSED);
        let paused = paused.map_or_else(String::new, |part| {
            format!("; pauses took {} of the time", rounded_percent(part))
        });
        figures.push(figure("throttled", share, format!("of requests{paused}")));
    }
    if totals.dropped > 0 {
        let share = rounded_percent(
            totals.dropped as f64 / (totals.dropped as f64 + totals.attempts as f64),
        );
        figures.push(figure(
            "never sent",
            share,
            format!("{} of the requests that were due", grouped(totals.dropped)),
        ));
    }
    let mut times = times(report);
    let shown = times
        .iter()
        .map(|time| format!("{}_{}", Clocked::of(report).name(), time.name))
        .collect::<Vec<_>>();
    let failed = report
        .gates
        .iter()
        .filter(|gate| gate.ok == Some(false) && gate.unit == "us");
    let failed = failed.filter_map(|gate| Some((gate, parts(gate)?)));
    for (gate, (metric, limit)) in failed
        .filter(|(_, (metric, _))| !shown.iter().any(|name| name == metric))
        .take(MOST_FAILED)
    {
        let value = value(gate).unwrap_or_else(|| "-".to_owned());
        let name = metric.to_owned().into();
        times.insert(
            0,
            Figure {
                name,
                value,
                detail: format!("must be {limit}: FAILED"),
            },
        );
    }
    figures.extend(times);
    let requests = format!(
        "{} in all, peak in flight {}",
        grouped(totals.attempts),
        grouped(totals.peak_in_flight)
    );
    figures.push(figure("requests", per_s(totals.attempts_per_s), requests));
    let cpu = cpu_us_per_attempt(report).map_or_else(|| "-".to_owned(), micros);
    figures.push(figure(
        "client CPU per request",
        cpu,
        format!("all {}s", report.shard_word()),
    ));
    figures
}

/// Good items of those wanted: `246 of 400 items (61.5 %)`.
#[must_use]
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
    let tried = if report.plan.run.duration.is_some() {
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

fn times(report: &Report) -> Vec<Figure> {
    let clocked = Clocked::of(report);
    if clocked.latency().is_none() {
        let detail = "no request succeeded".to_owned();
        return vec![Figure {
            name: "latency".into(),
            value: "-".to_owned(),
            detail,
        }];
    }
    let time = |name: &'static str, key: &str, of: fn(&Latency) -> Option<f64>| {
        let known = clocked
            .latency()
            .map(|latency| (latency, figure(latency, key, of(latency))));
        let (value, detail) = match known {
            // Of the same population as the median.
            Some((_, Some(value))) if name != "p50" => {
                (Some(value), format!("{} time", clocked.name()))
            }
            Some((latency, Some(value))) => (
                Some(value),
                format!("{} time of {}", clocked.name(), population(report, latency)),
            ),
            Some((latency, None)) => (
                None,
                format!("too few for {name}: {}", population(report, latency)),
            ),
            None => (None, String::new()),
        };
        Figure {
            name: name.into(),
            value: value.unwrap_or_else(|| "too few".to_owned()),
            detail,
        }
    };
    vec![
        time("p50", "p50_us", |latency| latency.p50_us),
        time("p99", "p99_us", |latency| latency.p99_us),
        time("max", "max_us", |latency| latency.max_us),
    ]
}
