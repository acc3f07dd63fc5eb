//! The figures of a run: those that people ask for first, and those beside them. One list, for the
//! page and for Markdown.

use super::doc::Figure;
use super::text::{counted, decimal, grouped, micros, seconds, short_percent};
use crate::run::report::{Limit, Report, is_endless};
use crawlmark_harness::stats::Series;

/// Part of a rate from which on it counts as held.
pub(in crate::show) const HELD: f64 = 0.99;

/// Part of what users wait from which on the time to open connections is a figure: a tenth is more
/// than most comparisons are about.
const OPENING: f64 = 0.1;

fn figure(name: &'static str, value: String, detail: String) -> Figure {
    Figure {
        name: name.into(),
        value,
        detail,
    }
}

/// The five figures of a run: what was good, what was not, and the [times].
pub(crate) fn main(report: &Report) -> Vec<Figure> {
    let measured = report.measured();
    let attempts = measured.requests.attempts.max(1) as f64;
    let others = [
        (measured.errors(), "failed"),
        (measured.requests.throttled, "throttled"),
        (measured.items.not_found, "not found"),
    ];
    let bad = others
        .iter()
        .fold(0, |sum: u64, (n, _)| sum.saturating_add(*n));
    let named: Vec<String> = others
        .into_iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!("{} {what}", grouped(n)))
        .collect();
    let detail = match &named[..] {
        [] => "no errors, none throttled".to_owned(),
        named => named.join(", "),
    };
    let mut figures = vec![
        figure("Good responses", report.good_rate(), asked(report)),
        figure("Not good", short_percent(bad as f64 / attempts), detail),
    ];
    figures.extend(times(report));
    figures
}

/// The rate that was asked for and its part that was sent, or the time.
fn asked(report: &Report) -> String {
    let rate = report.plan.run.steady_rate();
    match (rate, report.rate_ratio) {
        (Some(rate), Some(ratio)) if ratio >= HELD => {
            format!("all of the {}/s asked were sent", decimal(rate))
        }
        (Some(rate), Some(ratio)) => format!(
            "{} of the {}/s asked were sent",
            short_percent(ratio),
            decimal(rate)
        ),
        (Some(rate), None) => format!("{}/s asked", decimal(rate)),
        (None, _) => format!("over {}", seconds(report.measured_s())),
    }
}

/// p50, p99 and the slowest, each with its neighbour.
pub(crate) fn times(report: &Report) -> [Figure; 3] {
    let latency = report.latency(report.main_series());
    let [p90, p999] =
        ["p90", "p99.9"].map(|name| latency?.text(name).map(|value| format!("{name} {value}")));
    let due = report
        .slowest
        .first()
        .map(|slow| format!("due at {}", seconds(slow.at_s)));
    let unfinished = latency
        .map(|of| of.censored)
        .filter(|count| *count > 0)
        .map(|count| format!("{} unfinished", grouped(count)));
    let slowest: Vec<String> = due.into_iter().chain(unfinished).collect();
    [
        ("p50", "p50", p90),
        ("p99", "p99", p999),
        ("Max", "max", Some(slowest.join(", "))),
    ]
    .map(|(title, name, detail)| {
        let value = latency.and_then(|latency| latency.text(name));
        figure(
            title,
            value.unwrap_or_else(|| "-".to_owned()),
            detail.unwrap_or_default(),
        )
    })
}

/// Mean time to open connections, which the service times leave out, where it is a notable part of
/// what users wait.
pub(crate) fn opening(report: &Report) -> Option<String> {
    let [connect_us, tunnel_us, tls_us, service_us] = [
        Series::Connect,
        Series::Tunnel,
        Series::Tls,
        Series::ServiceOk,
    ]
    .map(|series| {
        let latency = report.latency(series);
        latency.map_or(0.0, |all| all.count as f64 * all.mean_us.unwrap_or(0.0))
    });
    let opening_us = connect_us + tunnel_us + tls_us;
    let opened = report.latency(Series::Connect)?.count;
    let all_us = opening_us + service_us;
    let is_notable = report.main_series() == Series::ServiceOk
        && opening_us > 0.0
        && opening_us >= OPENING * all_us;
    is_notable.then(|| {
        format!(
            "{}, mean of {}, not in the times",
            micros(opening_us / opened as f64),
            counted(opened, "new connection")
        )
    })
}

/// Figures beside the main ones, those that are known.
pub(crate) fn others(report: &Report) -> impl Iterator<Item = (&'static str, String)> {
    let totals = &report.totals;
    let (held, limit) = Limit::of(report)[0];
    let [client, target] = [
        report.cpu_us_per_attempt(),
        report.target_cpu_us_per_attempt(),
    ]
    .map(|us| us.map(|us| format!("{} per request", micros(us))));
    let got = report.got.share.filter(|_| !is_endless(&report.plan.run));
    let unsent = report
        .never_sent()
        .map(|(n, share)| format!("{} ({})", grouped(n), short_percent(share)));
    let resent = (totals.resent > 0).then(|| {
        let share = short_percent(totals.resent as f64 / totals.attempts.max(1) as f64);
        format!("{} ({share})", grouped(totals.resent))
    });
    let events = (totals.events > 0).then(|| {
        format!(
            "{}/s, {} in all",
            decimal(totals.events as f64 / report.measured_s()),
            grouped(totals.events)
        )
    });
    let witness = report.witness.as_ref().map(|witness| match witness.agrees {
        Some(true) => "match the target's own",
        Some(false) => "differ from the target's own",
        None => "cannot be compared with the target's own",
    });
    [
        (
            "Limited by",
            (held > 0.0).then(|| format!("{}, {} of the time", limit.name(), short_percent(held))),
        ),
        (
            "Items",
            got.map(|share| {
                let [got, of] = [report.got.ok, report.got.of].map(grouped);
                format!("{got} of {of} ({})", short_percent(share))
            }),
        ),
        (
            "Requests",
            Some(format!(
                "{}, {}/s",
                grouped(totals.attempts),
                decimal(totals.attempts_per_s)
            )),
        ),
        ("Time to connect", opening(report)),
        ("Client CPU", client),
        ("Target CPU", target),
        (
            "In flight",
            Some(format!("{} at most", grouped(totals.peak_in_flight))),
        ),
        (
            "Rate sent over rate asked",
            report.rate_ratio.map(|ratio| format!("{ratio:.3}")),
        ),
        ("Never sent", unsent),
        ("Sent again", resent),
        ("Events", events),
        ("Counts", witness.map(str::to_owned)),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value?)))
}
