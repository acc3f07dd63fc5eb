//! The few numbers that a run is remembered by, with what they are worth; and what had to hold.

use super::frame::{Html, capital};
use crate::run::report::{GateReport, Latency, Report};
use crate::show::doc::{Column, Table};
use crate::show::text::gates::Words;
use crate::show::text::times::{CORRECTED, UNCORRECTED, cut_off, figure, population};
use crate::show::text::{cpu_us_per_attempt, decimal, good_part, grouped, micros, seconds};
use crawlmark_harness::stats::Series;
use crawlmark_harness::units::rounded_percent;

/// A number that was not measured.
const UNKNOWN: &str = "-";

/// Times of a run: those from when requests were scheduled where they exist.
pub(super) enum Clocked<'a> {
    Response(&'a Latency),
    Service(&'a Latency),
    Nothing,
}

impl<'a> Clocked<'a> {
    pub(super) fn of(report: &'a Report) -> Self {
        let known = |series| report.latency(series).filter(|latency| latency.count + latency.censored > 0);
        match (known(Series::ResponseOk), known(Series::ServiceOk)) {
            (Some(response), _) => Self::Response(response),
            (None, Some(service)) => Self::Service(service),
            (None, None) => Self::Nothing,
        }
    }

    /// The name of the series.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Response(_) => "response",
            Self::Service(_) | Self::Nothing => "service",
        }
    }

    const fn latency(&self) -> Option<&'a Latency> {
        match self {
            Self::Response(latency) | Self::Service(latency) => Some(latency),
            Self::Nothing => None,
        }
    }

    /// Return the description of the times in a sentence: corrected for coordinated omission or not.
    const fn worth(&self) -> &'static str {
        match self {
            Self::Response(_) => CORRECTED,
            Self::Service(_) => UNCORRECTED,
            Self::Nothing => "no request succeeded, so there are no latencies to show",
        }
    }
}

pub(super) fn write(html: &mut Html, report: &Report) {
    let clocked = Clocked::of(report);
    html.section("headline", "Summary", |html| {
        html.with("dl", &[("class", "figures")], |html| {
            for (name, value, of) in figures(report, &clocked) {
                html.element("div", |html| {
                    html.say("dt", &name);
                    html.say("dd", &value);
                    html.say_as("dd", "of", &of);
                });
            }
        });
        html.say_as("p", "note", &format!("{}.", capital(clocked.worth())));
        if let Some(cut_off) = clocked.latency().and_then(|latency| cut_off(latency, report.latency(Series::ServiceOk)))
        {
            html.say_as("p", "note", &format!("{}.", capital(&cut_off)));
        }
        if clocked.latency().is_some_and(|latency| latency.p99_us.is_none()) {
            html.say_as("p", "note", "A percentile with fewer than ten samples beyond it is not told (-).");
        }
    });
}

/// Name, value, and what it is of.
fn figures(report: &Report, clocked: &Clocked<'_>) -> Vec<(String, String, String)> {
    let (totals, ledger) = (&report.totals, &report.ledger);
    let time = |name: &str, key: &str, of: fn(&Latency) -> Option<f64>| {
        let shown = clocked.latency().and_then(|latency| figure(latency, key, of(latency)));
        let what = clocked.latency().map_or_else(String::new, |latency| format!("of {}", population(report, latency)));
        (format!("{} {name}", clocked.name()), shown.unwrap_or_else(|| UNKNOWN.to_owned()), what)
    };
    let left_out = report
        .warmup
        .as_ref()
        .map_or_else(String::new, |warm| format!(", the first {} left out", seconds(warm.duration_s)));
    let good = good_part(totals).map_or_else(String::new, |part| format!("{part} of it good, "));
    let figure = |name: &str, value: String, of: String| (name.to_owned(), value, of);
    let cpu = cpu_us_per_attempt(report).map_or_else(|| UNKNOWN.to_owned(), micros);
    vec![
        figure("items", per_s(totals.items_per_s), format!("{good}over {}{left_out}", seconds(totals.duration_s))),
        figure("attempts", per_s(totals.attempts_per_s), format!("{} in all", grouped(totals.attempts))),
        figure("items ok", grouped(ledger.ok), format!("of {} planned", grouped(ledger.planned))),
        figure("throttled", rounded_percent(report.manners.throttled_share), "of attempts".to_owned()),
        time("p50", "p50_us", |latency| latency.p50_us),
        time("p99", "p99_us", |latency| latency.p99_us),
        time("max", "max_us", |latency| latency.max_us),
        figure("CPU per attempt", cpu, "of the client, all shards".to_owned()),
    ]
}

fn per_s(rate: f64) -> String {
    format!("{}/s", decimal(rate))
}

/// Write the thresholds; nothing without gates.
pub(super) fn gates(html: &mut Html, report: &Report) {
    if report.gates.is_empty() {
        return;
    }
    let row = |gate: &GateReport| {
        let Words { value, limit, margin, notes } = Words::of(gate, report);
        let sign = match gate.ok {
            Some(true) => "\u{2713}",
            Some(false) => "\u{d7}",
            None => "?",
        };
        vec![gate.expression.clone(), format!("{sign} {}", gate.verdict()), value, limit, margin, notes]
    };
    html.section("gates", "Thresholds", |html| {
        Table {
            caption: "Thresholds and what was measured".to_owned(),
            columns: vec![
                Column::words("threshold"),
                Column::words("verdict"),
                Column::numbers("value"),
                Column::numbers("limit"),
                Column::numbers("margin"),
                Column::sentences("details"),
            ],
            rows: report.gates.iter().map(row).collect(),
            ..Table::default()
        }
        .write(html);
    });
}
