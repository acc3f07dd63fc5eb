//! Titles of the charts of a run: its answer to the question of each, and what is drawn.

use super::source::source_of;
use crate::run::report::{Limit, Report, Split};
use crate::show::chart::{Chart, Panel};
use crate::show::text::{counted, decimal, seconds};
use crawlmark_harness::units::{grouped, micros, rounded_percent};

/// Parts of a time that a title names.
const NAMED: usize = 2;

/// The answer and what is drawn, of a report.
pub(super) type Answer = fn(&Report) -> [String; 2];

/// A chart of a run with its words.
pub(super) fn chart(
    [name, title]: [&'static str; 2],
    answer: Answer,
    report: &Report,
    panels: Vec<Panel>,
) -> Chart {
    let [answer, subtitle] = answer(report);
    Chart {
        name,
        title,
        answer,
        subtitle,
        source: source_of(report),
        panels,
    }
}

/// Requests and time of the whole run.
fn all(report: &Report) -> String {
    let totals = &report.totals;
    let time = seconds(report.shown_s());
    format!("{} in {time}", counted(totals.attempts, "request"))
}

fn share(count: u64, report: &Report) -> String {
    rounded_percent(count as f64 / report.totals.attempts.max(1) as f64)
}

/// Requests that were neither good, nor not found, nor throttled, nor cut off.
fn failed(report: &Report) -> u64 {
    report
        .intervals
        .iter()
        .map(|row| {
            let others = row.ok + row.not_found + row.throttled + row.aborted;
            row.attempts.saturating_sub(others)
        })
        .sum()
}

pub(super) fn throughput(report: &Report) -> [String; 2] {
    let mut parts = vec![format!(
        "{} good responses a second",
        decimal(report.totals.ok_per_s)
    )];
    let (throttled, failed) = (report.totals.throttled, failed(report));
    parts.extend((throttled > 0).then(|| format!("{} throttled", share(throttled, report))));
    parts.push(format!("{} failed", share(failed, report)));
    let subtitle = format!("requests per second, by their outcome · {}", all(report));
    [parts.join(", "), subtitle]
}

pub(super) fn latency(report: &Report) -> [String; 2] {
    let parts: Vec<String> = report
        .latency(report.main_series())
        .into_iter()
        .flat_map(|of| {
            let [p50, p99, max] = [
                of.shown("p50_us", of.p50_us),
                of.shown("p99_us", of.p99_us),
                of.shown("max_us", of.max_us),
            ];
            [
                p50.map(|us| format!("half took {us} or less")),
                p99.map(|us| format!("1 % {us} and more")),
                max.map(|us| format!("the slowest {us}")),
            ]
        })
        .flatten()
        .collect();
    let answer = if parts.is_empty() {
        "0 responses were timed".to_owned()
    } else {
        crate::show::text::capital(&parts.join(", "))
    };
    [
        answer,
        format!("response time, log scale · {}", all(report)),
    ]
}

pub(super) fn heat(report: &Report) -> [String; 2] {
    let [answer, _] = latency(report);
    let subtitle = format!(
        "response time, log scale · darker: more of a column's responses, 0.3 to 30 % · {}",
        all(report)
    );
    [answer, subtitle]
}

pub(super) fn spectrum(report: &Report) -> [String; 2] {
    let of = report.latency(report.main_series());
    let p90 = of.and_then(|of| of.shown("p90_us", of.p90_us));
    let p99 = of.and_then(|of| of.shown("p99_us", of.p99_us));
    let answer = match (p90, p99) {
        (Some(p90), Some(p99)) => format!("90 % took {p90} or less, 1 % took {p99} and more"),
        _ => latency(report)[0].clone(),
    };
    let (count, censored) = of.map_or((0, 0), |of| (of.count, of.censored));
    let since = if report.schedule.is_some() {
        ", from when each request was due"
    } else {
        ""
    };
    let cut_off = if censored > 0 {
        format!(" · {} without a response", grouped(censored))
    } else {
        String::new()
    };
    let subtitle = format!(
        "time by percentile{since}, log scale · {}{cut_off}",
        counted(count, "response")
    );
    [answer, subtitle]
}

pub(super) fn split(report: &Report) -> [String; 2] {
    let subtitle = "mean time of a response by its parts, second by second";
    let Some(split) = &report.split else {
        let known = report
            .intervals
            .iter()
            .filter(|row| row.split.is_some())
            .count();
        let answer = format!(
            "Parts of the response time in {}",
            counted(known as u64, "second")
        );
        return [answer, subtitle.to_owned()];
    };
    let mut parts: Vec<(&str, f64)> = Split::PARTS
        .iter()
        .filter_map(|(name, value, ..)| Some((*name, value(split)?)))
        .collect();
    parts.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let sum = parts
        .iter()
        .map(|(_, us)| us)
        .sum::<f64>()
        .max(f64::MIN_POSITIVE);
    let named: Vec<String> = parts
        .iter()
        .take(NAMED)
        .map(|(name, us)| format!("{name} {}", rounded_percent(us / sum)))
        .collect();
    let mean = micros(split.response_us);
    [
        format!("{mean} in the mean: {}", named.join(", ")),
        subtitle.to_owned(),
    ]
}

pub(super) fn in_flight(report: &Report) -> [String; 2] {
    let [(_, limit), ..] = Limit::sorted(&report.binding, Limit::Rate);
    let peak = grouped(report.totals.peak_in_flight);
    let allowed = counted(report.plan.run.in_flight().into(), "request");
    [
        format!(
            "At most {peak} of {allowed} in flight, limited by {}",
            limit.name()
        ),
        "the most requests in flight at once, and what held more back".to_owned(),
    ]
}

pub(super) fn errors(report: &Report) -> [String; 2] {
    let failed = failed(report);
    let requests = counted(report.totals.attempts, "request");
    [
        format!(
            "{} of {requests} failed ({}), {} throttled, {} retries",
            grouped(failed),
            share(failed, report),
            grouped(report.totals.throttled),
            grouped(report.totals.retries)
        ),
        format!("per second · {}", all(report)),
    ]
}

pub(super) fn connections(report: &Report) -> [String; 2] {
    let opened = counted(report.totals.connections_opened, "connection");
    [
        format!(
            "{opened} opened for {}",
            counted(report.totals.attempts, "request")
        ),
        "connections opened per second".to_owned(),
    ]
}
