//! The few numbers that a run is remembered by, with what they are worth; and what had to hold.

use super::frame::{Column, Html, Last, Table};
use crate::render::gates::Words;
use crate::render::times::{CORRECTED, UNCORRECTED, cut_off, figure};
use crate::render::{cpu_us_per_attempt, decimal, grouped, micros, percent, seconds};
use crate::report::{GateReport, Latency, Report};
use crate::stats::Series;

/// A number that was not measured.
const UNKNOWN: &str = "-";

/// What the times of a run are: those from when requests were intended where there are such.
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

    /// What it is worth.
    const fn worth(&self) -> &'static str {
        match self {
            Self::Response(_) => CORRECTED,
            Self::Service(_) => UNCORRECTED,
            Self::Nothing => "no attempt had a good answer: there are no times",
        }
    }
}

pub(super) fn write(html: &mut Html, report: &Report) {
    let clocked = Clocked::of(report);
    html.section("headline", "In short", |html| {
        html.with("dl", &[("class", "figures")], |html| {
            for (name, value, unit) in figures(report, &clocked) {
                html.element("div", |html| {
                    html.say("dt", &name);
                    html.element("dd", |html| {
                        html.text(&value);
                        html.say_as("span", "unit", &unit);
                    });
                });
            }
        });
        html.say_as("p", "note", &format!("{}.", capital(clocked.worth())));
        if let Some(cut_off) = clocked.latency().and_then(cut_off) {
            html.say_as("p", "note", &format!("{}.", capital(&cut_off)));
        }
        if clocked.latency().is_some_and(|latency| latency.p99_us.is_none()) {
            html.say_as("p", "note", "A percentile with fewer than ten samples beyond it is not told (-).");
        }
    });
}

/// Name, value, and what follows it in small.
fn figures(report: &Report, clocked: &Clocked<'_>) -> Vec<(String, String, String)> {
    let (totals, ledger) = (&report.totals, &report.ledger);
    let time = |name: &str, key: &str, of: fn(&Latency) -> Option<f64>| {
        let shown = clocked.latency().and_then(|latency| figure(latency, key, of(latency)));
        (format!("{} {name}", clocked.name()), shown.unwrap_or_else(|| UNKNOWN.to_owned()), String::new())
    };
    let left_out =
        report.warmup.map_or_else(String::new, |warm| format!(", the first {} left out", seconds(warm.duration_s)));
    let figure = |name: &str, value: String, unit: String| (name.to_owned(), value, unit);
    vec![
        figure("items", decimal(totals.items_per_s), format!("/s over {}{left_out}", seconds(totals.duration_s))),
        figure("attempts", decimal(totals.attempts_per_s), "/s".to_owned()),
        time("p50", "p50_us", |latency| latency.p50_us),
        time("p99", "p99_us", |latency| latency.p99_us),
        time("max", "max_us", |latency| latency.max_us),
        figure("items ok", grouped(ledger.ok), format!(" of {} planned", grouped(ledger.planned))),
        figure(
            "CPU per attempt",
            cpu_us_per_attempt(report).map_or_else(|| UNKNOWN.to_owned(), micros),
            " of the client".to_owned(),
        ),
        figure("throttled", percent(report.manners.throttled_share), " of attempts".to_owned()),
    ]
}

/// A sentence begins with a capital.
fn capital(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or_else(String::new, |first| first.to_uppercase().chain(rest).collect())
}

/// What had to hold; nothing without gates.
pub(super) fn gates(html: &mut Html, report: &Report) {
    if report.gates.is_empty() {
        return;
    }
    let row = |gate: &GateReport| {
        let Words { value, limit, margin, notes } = Words::of(gate, report);
        vec![gate.expression.clone(), gate.verdict().to_owned(), value, limit, margin, notes]
    };
    html.section("gates", "Gates", |html| {
        Table {
            caption: "What had to hold",
            columns: &[
                Column::Words("must hold"),
                Column::Words("verdict"),
                Column::Numbers("value"),
                Column::Numbers("limit"),
                Column::Numbers("margin"),
                Column::Sentences("where, or why not"),
            ],
            rows: report.gates.iter().map(row).collect(),
            last: Last::Row,
        }
        .write(html);
    });
}
