//! Panels of a page over time: a table. A panel that has nothing to say stays out.

use serde::{Serialize, Serializer};

use super::columns::{Cells, Columns, Outcome, Steps};
use super::markup::Html;
use crate::run::report::{
    BindingReport, GateReport, IntervalRow, Limit, Report, Split, stage_name,
};
use crate::show::chart::Role;
use crate::show::text::{decimal, grouped, in_unit, micros, rate_in_words, seconds, short_percent};
use crawlmark_harness::stats::Series as Times;

/// Factor beyond the most in flight from which on a limit is a number beside the panel, no line: the
/// line would flatten what is in flight.
const FAR: f64 = 4.0;

/// Factor beyond the connections allowed from which on those that were opened are drawn.
const REOPENED: u64 = 2;

/// Cells of a panel, and the values of its axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::show) enum Format {
    Rate,
    Micros,
    Count,
    Share,
}

impl Format {
    /// A value in its unit.
    fn shown(self, value: f64) -> String {
        match self {
            Self::Rate if value == 0.0 => "0".to_owned(),
            Self::Rate => format!("{}/s", decimal(value)),
            Self::Micros => micros(value),
            Self::Count => decimal(value),
            Self::Share => short_percent(value),
        }
    }
}

/// Drawing of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::show) enum Drawn {
    /// An area on top of that of the series before it.
    Area,
    /// A line.
    Line,
    /// A line above a faint area.
    Level,
    /// A dashed line.
    Dash,
    /// A line on cells, with a casing.
    Cased,
    /// A dashed line on cells.
    Broken,
    /// Nothing: a value beside the panel.
    Hidden,
}

/// A series of a panel.
#[derive(Debug, Clone, Serialize)]
pub(in crate::show) struct Series {
    pub(in crate::show) name: String,
    /// Its meaning, of which a page has the name of the colour.
    #[serde(rename = "colour", serialize_with = "colour")]
    pub(in crate::show) role: Role,
    pub(in crate::show) drawn: Drawn,
    #[serde(flatten)]
    pub(in crate::show) steps: Steps,
    /// True if its values are only known to two digits.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_about: bool,
    /// Its value over the whole run.
    #[serde(skip)]
    pub(in crate::show) total: String,
}

fn colour<S: Serializer>(role: &Role, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(role.colour())
}

/// Cells of a panel: the counts of each column, from the cell with the first number on.
#[derive(Debug, Clone, Serialize)]
pub(in crate::show) struct Heat {
    pub(in crate::show) step: f64,
    pub(in crate::show) per_decade: usize,
    #[serde(serialize_with = "cells")]
    pub(in crate::show) columns: Vec<Cells>,
}

/// The end of what a panel draws.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Tail<'a> {
    Cells(#[serde(serialize_with = "cells")] &'a [Cells]),
    Values(#[serde(serialize_with = "values")] &'a [Option<f64>]),
}

/// The steps from the one on that a time is in, s after the first.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a part of the axis"
)]
fn since<T>(all: &[T], step_s: f64, after_s: f64) -> &[T] {
    let first = (after_s / step_s + 1e-6) as usize;
    &all[first.min(all.len())..]
}

fn cells<S: Serializer>(columns: &[Cells], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(columns.iter().map(|column| {
        let (first, counts) = column.as_ref()?;
        Some([&[u64::from(*first)], &counts[..]].concat())
    }))
}

/// A panel.
#[derive(Debug, Clone, Serialize)]
pub(in crate::show) struct Panel {
    name: &'static str,
    pub(in crate::show) format: Format,
    /// Heights on a wide screen and on a narrow one, CSS pixels.
    pub(in crate::show) height: [u32; 2],
    /// Lines of the grid, about.
    lines: u32,
    /// The end of its axis; none where the values set it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::show) top: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::show) heat: Option<Heat>,
    /// From back to front, areas from bottom to top.
    pub(in crate::show) series: Vec<Series>,
    /// True if the rail names the series from top to bottom.
    #[serde(skip)]
    is_upside_down: bool,
    #[serde(skip)]
    pub(in crate::show) title: &'static str,
    #[serde(skip)]
    pub(in crate::show) hint: String,
}

impl Serialize for Steps {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Saved<'a> {
            step: f64,
            #[serde(serialize_with = "values")]
            values: &'a [Option<f64>],
        }

        Saved {
            step: self.step_s,
            values: &self.values,
        }
        .serialize(to)
    }
}

/// Values to four digits.
fn values<S: Serializer>(values: &[Option<f64>], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(values.iter().map(|value| value.map(Digits)))
}

/// A value to four digits, a whole one without a point.
pub(super) struct Digits(pub(super) f64);

impl Serialize for Digits {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a whole number that a double holds exactly"
    )]
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self(value) = *self;
        let magnitude = value.abs().max(1e-9).log10().floor();
        let scale = 10f64.powf((3.0 - magnitude).max(0.0));
        let rounded = (value * scale).round() / scale;
        if rounded.fract() == 0.0 && rounded.abs() < 9e15 {
            to.serialize_i64(rounded as i64)
        } else {
            to.serialize_f64(rounded)
        }
    }
}

/// A run as it is drawn.
pub(in crate::show) struct Run<'a> {
    pub(in crate::show) report: &'a Report,
    pub(in crate::show) columns: &'a Columns<'a>,
}

/// A value of a second; none where it is not known.
type Value = fn(&IntervalRow) -> Option<f64>;

/// A panel of a run; none without anything to say.
pub(in crate::show) type Row = fn(&Run<'_>) -> Option<Panel>;

/// Every panel of a page, from top to bottom.
const PANELS: [Row; 8] = [
    throughput,
    latency,
    split,
    in_flight,
    limits,
    cpu,
    retries,
    |run| connections(run).filter(|_| reopens(run.report)),
];

/// The panels of a run.
pub(super) fn of(report: &Report, columns: &Columns<'_>) -> Vec<Panel> {
    let run = Run { report, columns };
    PANELS.iter().filter_map(|row| row(&run)).collect()
}

impl Run<'_> {
    /// Lines for the thresholds of metrics whose names start so.
    fn thresholds(&self, metrics: &[&str]) -> Vec<Series> {
        let gates = &self.report.gates;
        gates
            .iter()
            .filter(|gate| {
                metrics.iter().any(|metric| gate.metric.starts_with(metric)) && gate.limit > 0.0
            })
            .map(|gate| {
                let role = match gate.ok {
                    Some(false) => Role::Failed,
                    _ => Role::Reference,
                };
                Series::new("threshold", Drawn::Dash, role, self.limit_steps(gate))
                    .of(in_unit(&gate.unit, gate.limit))
            })
            .collect()
    }

    /// The limit of a threshold, all the time, or as long as the stage lasts that it is of.
    fn limit_steps(&self, gate: &GateReport) -> Steps {
        let stages = self.report.plan.run.shape.times_s(self.columns.to_s);
        let mut named = (1..).zip(stages);
        let of_group = named.find(|(number, _)| gate.group == Some(stage_name(number)));
        let Some((_, (from_s, to_s))) = of_group else {
            return Steps::constant(gate.limit, self.columns);
        };
        self.columns.most(|row| {
            let start_s = row.start_s as f64;
            (start_s < to_s && start_s + 1.0 > from_s).then_some(gate.limit)
        })
    }

    fn is_open_loop(&self) -> bool {
        self.report.schedule.is_some()
    }
}

impl Series {
    fn new(name: impl Into<String>, drawn: Drawn, role: Role, steps: Steps) -> Self {
        Self {
            name: name.into(),
            role,
            drawn,
            is_about: false,
            total: String::new(),
            steps,
        }
    }

    /// The series with its value over the whole run.
    fn of(self, total: String) -> Self {
        Self { total, ..self }
    }
}

pub(in crate::show) fn throughput(run: &Run<'_>) -> Option<Panel> {
    let (report, columns) = (run.report, run.columns);
    let outcomes = [
        (Outcome::Good, "good", Role::Good),
        (Outcome::NotFound, "not found", Role::NotFound),
        (Outcome::Throttled, "throttled", Role::Throttled),
        (Outcome::Failed, "failed", Role::Failed),
    ];
    let mut series = Vec::new();
    for (outcome, name, role) in outcomes {
        let steps = columns.outcome(outcome);
        let is_always_shown = matches!(outcome, Outcome::Good | Outcome::Failed);
        if is_always_shown || steps.is_any() {
            let run_s = report.shown_s().max(f64::MIN_POSITIVE);
            let per_s = columns.count(outcome) as f64 / run_s;
            let area = Series::new(name, Drawn::Area, role, steps);
            series.push(area.of(Format::Rate.shown(per_s)));
        }
    }
    let planned_s = report
        .plan
        .run
        .duration
        .map(|planned| planned.as_secs_f64());
    let asked = columns.rate(|row| {
        let is_due = planned_s.is_none_or(|planned_s| (row.start_s as f64) < planned_s);
        row.offered.filter(|_| is_due)
    });
    if let Some(rate) = report.plan.run.shaped_rate().filter(|_| asked.is_any()) {
        let line = Series::new("asked", Drawn::Dash, Role::Asked, asked);
        series.push(line.of(rate_in_words(&rate.in_short())));
    }
    if let Some(goodput) = report.goodput {
        let met = columns.rate(|row| Some(row.met as f64));
        let line = Series::new("goodput", Drawn::Cased, Role::Reference, met);
        series.push(line.of(Format::Rate.shown(goodput.per_s)));
    }
    series.extend(run.thresholds(&["rate", "attempts_rate", "goodput"]));
    (!report.intervals.is_empty()).then(|| Panel {
        hint: format!(
            "by outcome, in steps of {}",
            seconds(series[0].steps.step_s)
        ),
        height: [148, 130],
        lines: 3,
        ..Panel::new("throughput", "Responses per second", Format::Rate, series)
    })
}

pub(in crate::show) fn latency(run: &Run<'_>) -> Option<Panel> {
    let (report, columns) = (run.report, run.columns);
    let (step, per_decade, heat) = columns.heat();
    let main = if run.is_open_loop() {
        Times::ResponseOk
    } else {
        Times::ServiceOk
    };
    let of_run = report.latency(main)?;
    let rows: [(&'static str, Drawn, Role, Value); 3] = [
        ("max", Drawn::Hidden, Role::Level(1), |row| row.max_us),
        ("p99", Drawn::Broken, Role::Reference, |row| {
            row.response_p99_us.or(row.p99_us)
        }),
        ("p50", Drawn::Cased, Role::Reference, |row| {
            row.response_p50_us.or(row.p50_us)
        }),
    ];
    let mut series = Vec::new();
    for (name, drawn, role, value) in rows {
        let medians = columns.medians().filter(|_| drawn == Drawn::Cased);
        let is_about = medians.is_some();
        let steps = medians.unwrap_or_else(|| columns.most(value));
        if steps.is_any() {
            let total = of_run.text(name).unwrap_or_else(|| "-".to_owned());
            let line = Series::new(name, drawn, role, steps).of(total);
            series.push(Series { is_about, ..line });
        }
    }
    if series.is_empty() && heat.iter().all(Option::is_none) {
        return None;
    }
    series.extend(run.thresholds(&["response", "service"]));
    let from = if run.is_open_loop() {
        "counted from when each request was due"
    } else {
        "from sending a request to the last byte"
    };
    Some(Panel {
        hint: format!("{from}; the stronger, the more"),
        height: [196, 170],
        lines: 5,
        heat: Some(Heat {
            step,
            per_decade,
            columns: heat,
        }),
        ..Panel::new("latency", "Response time", Format::Micros, series)
    })
}

/// Meanings of the parts of a response time, in the order of [`Split::PARTS`].
pub(super) const PARTS: [Role; 7] = [
    Role::ClientQueue,
    Role::Network,
    Role::Target,
    Role::AtRest,
    Role::AtWork,
    Role::NotFound,
    Role::ReadLate,
];

pub(in crate::show) fn split(run: &Run<'_>) -> Option<Panel> {
    let mut series = Vec::new();
    for ((name, part), role) in Split::PARTS.into_iter().zip(PARTS) {
        let steps = run.columns.mean(|row| part(row.split.as_ref()?));
        if steps.is_any() {
            let total = run
                .report
                .split
                .as_ref()
                .and_then(part)
                .or_else(|| steps.mean())
                .unwrap_or(0.0);
            let area = Series::new(name, Drawn::Area, role, steps);
            series.push(area.of(micros(total)));
        }
    }
    Some(Panel {
        hint: "mean of a sample".to_owned(),
        is_upside_down: true,
        height: [104, 96],
        ..Panel::new("split", "Where the time goes", Format::Micros, series)
    })
    .filter(|panel| !panel.series.is_empty())
}

pub(in crate::show) fn in_flight(run: &Run<'_>) -> Option<Panel> {
    let (report, columns) = (run.report, run.columns);
    let steps = columns.in_flight(report);
    let most = f64::from(report.plan.run.in_flight());
    let peak = report.totals.peak_in_flight;
    let is_far = most > FAR * steps.highest().max(1.0);
    let drawn = if is_far { Drawn::Hidden } else { Drawn::Dash };
    let level = Series::new("in flight", Drawn::Level, Role::Good, steps);
    let limit = Series::new("limit", drawn, Role::Asked, Steps::constant(most, columns));
    let learned = columns.most(|row| row.limit.map(f64::from));
    let mut series = vec![
        level.of(format!("peak {}", grouped(peak))),
        limit.of(grouped(report.plan.run.in_flight().into())),
    ];
    if learned.is_any() {
        let last = match learned.values.iter().rev().flatten().next() {
            Some(limit) => Format::Count.shown(*limit),
            None => String::new(),
        };
        let line = Series::new("learned limit", Drawn::Dash, Role::Limit, learned);
        series.push(line.of(last));
    }
    (peak > 0).then(|| Panel {
        hint: "the most at once".to_owned(),
        ..Panel::new("in-flight", "Requests in flight", Format::Count, series)
    })
}

pub(in crate::show) fn limits(run: &Run<'_>) -> Option<Panel> {
    /// A limit: its part of the time, and its meaning.
    type Part = fn(&BindingReport) -> f64;
    let parts: [(Part, Role); 6] = [
        (|it| it.rate, Role::Asked),
        (|it| it.concurrency, Role::Connections),
        (|it| it.pause, Role::Throttled),
        (|it| it.target, Role::Failed),
        (|it| it.storage, Role::Storage),
        (|it| it.idle, Role::Idle),
    ];
    let report = run.report;
    let names = Limit::names(report);
    let mut series = Vec::new();
    for ((part, role), name) in parts.into_iter().zip(names) {
        let steps = run.columns.mean(|row| {
            let is_known = row.binding.parts().iter().any(|part| *part > 0.0);
            is_known.then(|| part(&row.binding))
        });
        if steps.is_any() {
            let area = Series::new(name, Drawn::Area, role, steps);
            series.push(area.of(short_percent(part(&report.binding) * report.ran())));
        }
    }
    (!series.is_empty()).then(|| Panel {
        hint: "share of the time".to_owned(),
        height: [30, 30],
        lines: 0,
        top: Some(1.0),
        ..Panel::new("limits", "Limited by", Format::Share, series)
    })
}

pub(in crate::show) fn cpu(run: &Run<'_>) -> Option<Panel> {
    let (report, columns) = (run.report, run.columns);
    let client_us = report.shards.len().max(1) as f64 * 1e6;
    let target_cpus = report.target.as_ref().map_or(0, |target| target.cpus.len());
    let target_us = target_cpus.max(1) as f64 * 1e6;
    let of_target = |us: fn(&crate::run::report::TargetSecond) -> Option<f64>| {
        columns.rate(move |row| Some(us(row.target.as_ref()?)? / target_us))
    };
    let rows = [
        (
            "client",
            Drawn::Line,
            Role::ClientQueue,
            columns.rate(|row| Some(row.cpu_us as f64 / client_us)),
        ),
        (
            "client waits",
            Drawn::Dash,
            Role::ReadLate,
            columns.rate(|row| Some(row.run_delay_us? / client_us)),
        ),
        (
            "target",
            Drawn::Line,
            Role::Target,
            of_target(|second| second.cpu_us),
        ),
        (
            "target waits",
            Drawn::Dash,
            Role::Limit,
            of_target(|second| second.run_delay_us),
        ),
        (
            "target's quota",
            Drawn::Dash,
            Role::Failed,
            of_target(|second| second.throttled_us),
        ),
    ];
    let mut series = Vec::new();
    for (name, drawn, role, steps) in rows {
        if let Some(mean) = steps.mean().filter(|_| steps.is_any()) {
            series.push(Series::new(name, drawn, role, steps).of(short_percent(mean)));
        }
    }
    (!series.is_empty()).then(|| Panel {
        hint: "share of the CPUs that each may use".to_owned(),
        ..Panel::new("cpu", "CPU", Format::Share, series)
    })
}

fn retries(run: &Run<'_>) -> Option<Panel> {
    let steps = run.columns.rate(|row| Some(row.retries as f64));
    let total = grouped(run.report.totals.retries);
    let line = Series::new("retries", Drawn::Line, Role::Retried, steps);
    (run.report.totals.retries > 0).then(|| {
        let series = vec![line.of(format!("{total} in all"))];
        Panel::new("retries", "Retries per second", Format::Rate, series)
    })
}

pub(in crate::show) fn connections(run: &Run<'_>) -> Option<Panel> {
    let opened = run.report.totals.connections_opened;
    let steps = run.columns.rate(|row| Some(row.connections_opened as f64));
    let line = Series::new("opened", Drawn::Line, Role::Good, steps);
    (opened > 0).then(|| {
        let series = vec![line.of(format!("{} in all", grouped(opened)))];
        Panel::new(
            "connections",
            "Connections opened per second",
            Format::Rate,
            series,
        )
    })
}

/// True if so many connections were opened that a page shows when.
fn reopens(report: &Report) -> bool {
    report.totals.connections_opened > REOPENED * u64::from(report.plan.run.connections)
}

/// What did not go well, which a page says in other words.
pub(in crate::show) fn errors(run: &Run<'_>) -> Option<Panel> {
    type Count = fn(&IntervalRow) -> u64;
    let rows: [(&str, Role, Count); 6] = [
        ("retries", Role::Retried, |row| row.retries),
        ("throttled", Role::Throttled, |row| row.throttled),
        ("failed", Role::Failed, |row| {
            let others = row.ok + row.not_found + row.throttled + row.aborted;
            row.attempts.saturating_sub(others)
        }),
        ("challenged", Role::Challenged, |row| row.soft_blocked),
        ("items failed", Role::Reference, |row| row.failed),
        ("cut off at the end", Role::CutOff, |row| row.aborted),
    ];
    let series: Vec<Series> = rows
        .into_iter()
        .map(|(name, role, count)| {
            let steps = run.columns.rate(|row| Some(count(row) as f64));
            Series::new(name, Drawn::Line, role, steps)
        })
        .filter(|series| series.steps.is_any())
        .collect();
    (!series.is_empty()).then(|| Panel {
        height: [130, 130],
        ..Panel::new(
            "errors",
            "Errors and retries per second",
            Format::Rate,
            series,
        )
    })
}

impl Panel {
    /// What it draws, without the values: names and steps.
    pub(super) fn form(&self) -> String {
        let series: Vec<String> = self
            .series
            .iter()
            .map(|series| format!("{}/{}", series.name, series.steps.step_s))
            .collect();
        let heat = self.heat.as_ref().map_or(0.0, |heat| heat.step);
        format!("{}/{heat}:{}", self.name, series.join(","))
    }

    /// What it draws from a time on, in the order of its data: its cells and its series.
    pub(super) fn tails(&self, after_s: f64) -> Vec<Tail<'_>> {
        let cells = self
            .heat
            .iter()
            .map(|heat| Tail::Cells(since(&heat.columns, heat.step, after_s)));
        let values = self.series.iter().map(|series| {
            let steps = &series.steps;
            Tail::Values(since(&steps.values, steps.step_s, after_s))
        });
        cells.chain(values).collect()
    }

    fn new(name: &'static str, title: &'static str, format: Format, series: Vec<Series>) -> Self {
        Self {
            name,
            title,
            format,
            series,
            height: [72, 72],
            is_upside_down: false,
            lines: 2,
            top: None,
            heat: None,
            hint: String::new(),
        }
    }

    /// Its values in words, for readers who do not see it.
    fn label(&self, length_s: f64) -> String {
        let ranges: Vec<String> = self
            .series
            .iter()
            .filter(|one| one.drawn != Drawn::Hidden)
            .map(|Series { name, steps, .. }| {
                let [low, high] = [steps.lowest(), steps.highest()].map(|it| self.format.shown(it));
                format!("{name} {low} to {high}")
            })
            .collect();
        format!(
            "{} over {}: {}",
            self.title,
            seconds(length_s),
            ranges.join(", ")
        )
    }

    /// Return the value of each series over the whole run.
    pub(super) fn totals(&self) -> Vec<&str> {
        self.series.iter().map(|one| &*one.total).collect()
    }

    /// The `n`-th panel, with its values in the rail.
    pub(super) fn write(&self, html: &mut Html, n: usize, length_s: f64) {
        html.classed("div", "panel", |html| {
            html.classed("div", "plot", |html| {
                html.element("h3", |html| {
                    html.element("b", |html| html.text(self.title));
                    html.text(" ");
                    html.element("span", |html| html.text(&self.hint));
                });
                let label = self.label(length_s);
                let plot = [
                    ("role", "img"),
                    ("data-plot", self.name),
                    ("aria-label", &*label),
                ];
                html.with("div", &plot, |_| {});
            });
            html.classed("div", "rail", |html| {
                if self.heat.is_some() {
                    let hist = [("class", "hist"), ("aria-hidden", "true")];
                    html.with("canvas", &hist, |_| {});
                }
                let mut rows: Vec<(usize, &Series)> = self.series.iter().enumerate().collect();
                if self.is_upside_down {
                    rows.reverse();
                }
                html.element("ul", |html| {
                    for (at, series) in rows {
                        series.write(html, &format!("{n}.{at}"));
                    }
                });
            });
        });
    }
}

impl Series {
    /// Its row in the rail.
    fn write(&self, html: &mut Html, id: &str) {
        let (swatch, property) = match self.drawn {
            Drawn::Area | Drawn::Hidden => ("sw", "background"),
            Drawn::Line | Drawn::Level | Drawn::Cased => ("sw l", "border-color"),
            Drawn::Dash | Drawn::Broken => ("sw s", "border-color"),
        };
        let style = format!("{property}:var(--{})", self.role.colour());
        let zero = [("class", "zero")];
        let is_zero = !self.steps.is_any();
        html.with("li", if is_zero { &zero } else { &[] }, |html| {
            html.with("i", &[("class", swatch), ("style", &style)], |_| {});
            html.element("span", |html| html.text(&self.name));
            html.with("b", &[("data-at", id)], |html| html.text(&self.total));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::gates::{Breach, Condition, Measured, Objective};
    use crawlmark_harness::units::ShapedRate;

    #[test]
    fn the_limit_of_a_stage_is_drawn_in_its_time() {
        let mut report: Report =
            serde_json::from_str(include_str!("../../../example/result.json")).unwrap();
        let rate: ShapedRate = "100/s@2s, 50/s@2s, 100/s".parse().unwrap();
        report.plan.run.shape = rate.shape;
        let columns = Columns::of(&report);
        let known = |text: &str| {
            let condition: Condition = text.parse().unwrap();
            let breach = Breach::Fails;
            let gate = Objective { condition, breach }.row(&Measured::Exactly(1.0));
            let run = Run {
                report: &report,
                columns: &columns,
            };
            let steps = run.limit_steps(&gate);
            let known = steps.values.iter().map(Option::is_some);
            known.collect::<Vec<_>>()
        };
        assert_eq!(known("goodput > 9"), [true]);
        let of_stage = known("goodput{stage=2} > 9");
        assert_eq!(of_stage[..5], [false, false, true, true, false]);
    }
}
