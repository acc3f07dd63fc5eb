//! Page of a run that goes on: that of its report, as far as it is known.
//!
//! A reader gets the whole page once, and then each second the figures and the data of the charts,
//! made by the same code. One who misses some seconds has missed nothing.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::super::chart::Plot;
use super::super::doc::Doc;
use super::columns::Columns;
use super::document::Layout;
use super::events::Events;
use super::hero::Hero;
use super::panels::{self, Panel};
use super::{Data, markup, meta, write_over_time};
use crate::judge::{Stalls, Validity};
use crate::run::report::{
    BindingReport, Detail, Environment, Labels, Latency, Report, Seconds, Source, Totals,
};
use crawlmark_harness::clock::Nanos;
use crawlmark_harness::plan::RunPlan;
use crawlmark_harness::stats::{Bounds, Series, ShardStats};
use crawlmark_harness::supervisor::{Interval, Moved, RunRecord, Stopped};
use crawlmark_harness::wire::Usage;

/// Seconds that the charts show of a run without an end.
const SHOWN_S: f64 = 60.0;

/// Makes the document of a report, with the names of its pictures.
pub type DocOf = fn(&Report, &[Plot]) -> Doc;

/// A run that goes on.
#[derive(Debug)]
pub struct LivePage {
    /// Makes the document of a report.
    doc_of: DocOf,
    report: Report,
    seconds: Seconds,
    stats: ShardStats,
    /// Planned duration, s; none without one.
    planned_s: Option<f64>,
}

/// What changes each second.
#[derive(Serialize)]
struct Second<'a> {
    /// Names of what is drawn: a page that draws something else has to be loaded again.
    form: &'a str,
    /// Verdict and figures, as HTML.
    hero: &'a str,
    data: Data<'a>,
    /// Value of each series over the run so far, by panel.
    totals: Vec<Vec<&'a str>>,
}

impl LivePage {
    /// A run that begins now, by the calendar.
    pub fn new(
        doc_of: DocOf,
        plan: &RunPlan,
        labels: &Labels,
        environment: Environment,
        now: SystemTime,
    ) -> Self {
        let record = RunRecord {
            started_at: now,
            finished_at: now,
            start: Nanos(0),
            interrupted: None,
            stopped_at: None,
            stopped: Stopped::No,
            failure: None,
            suspended: Duration::ZERO,
            moved: Moved::default(),
            pauses: 0,
            wait_left: Duration::ZERO,
            busiest: BTreeMap::new(),
            shards: Vec::new(),
            supervisor: Usage::default(),
            host: BTreeMap::new(),
        };
        let mut report = Report::new(Source {
            plan,
            labels,
            record: &record,
            target: None,
            intervals: Seconds::default(),
            environment,
        });
        (report.findings, report.validity) = (Vec::new(), Validity::default());
        // Of no request, all were sent.
        report.rate_ratio = None;
        Self {
            doc_of,
            report,
            seconds: Seconds::default(),
            stats: ShardStats::new(Bounds::for_timeout(plan.timeout)),
            planned_s: plan.duration.map(|duration| duration.as_secs_f64()),
        }
    }

    /// Add a second.
    pub fn add(&mut self, interval: &Interval) {
        self.seconds.add(interval);
        self.report.intervals.append(&mut self.seconds.rows);
        self.report.intervals.sort_by_key(|row| row.start_s);
        self.stats.merge(&interval.merged);
        let rows = &self.report.intervals;
        let lasted_s = rows.last().map_or(0.0, |row| (row.start_s + 1) as f64);
        let report = &mut self.report;
        report.totals = Totals::new(&self.stats.counters, lasted_s, 0);
        report.ledger.items = self.stats.counters.items;
        let series = [Series::waited(report.plan.run.arrivals)];
        let rows = report.intervals.iter().map(|row| &row.binding);
        report.binding = BindingReport::mean(rows);
        report.latency = Latency::all(&self.stats, &series, Detail::Figures);
    }

    /// Note what is known of it so far.
    fn judge(&mut self) {
        self.report.course = self.seconds.course(self.report.totals.duration_s);
        self.report.findings = Stalls::of(&self.report).finding().into_iter().collect();
    }

    /// The charts, with the time axis of the whole run.
    fn columns(&self) -> (Columns<'_>, [f64; 2]) {
        let columns = Columns::of(&self.report);
        let axis = self.planned_s.map_or_else(
            || [(columns.to_s - SHOWN_S).max(0.0), columns.to_s.max(SHOWN_S)],
            |planned_s| [0.0, planned_s.max(columns.to_s)],
        );
        (columns, axis)
    }

    /// Return the page.
    pub fn page(&mut self) -> String {
        self.judge();
        let report = &self.report;
        let (columns, [from, to]) = self.columns();
        let (events, panels) = (Events::of(report, &columns), panels::of(report, &columns));
        let doc = (self.doc_of)(report, &[]);
        let hero = Hero::live(report);
        let data = Data {
            from,
            to,
            events: &events.marks,
            panels: &panels,
            percentiles: None,
        };
        let data = serde_json::to_string(&data).unwrap_or_default();
        let layout = Layout {
            doc: &doc,
            hero: &hero,
            meta: meta(report).into_iter().take(1).collect(),
            data: Some(&data),
            hints: BTreeMap::new(),
            is_uneven: false,
            checks: None,
            is_live: true,
        };
        layout.page(&[], |html| {
            write_over_time(html, &events, &panels, &columns);
            let form = form(&panels, &events);
            html.with(
                "p",
                &[("id", "live"), ("class", "hint"), ("data-form", &form)],
                |html| {
                    html.text(
                        "Drawing takes CPU time: a browser on this machine takes it from the run.",
                    );
                },
            );
        })
    }

    /// Return what is to be shown from now on, as JSON.
    pub fn second(&mut self) -> String {
        self.judge();
        let report = &self.report;
        let (columns, [from, to]) = self.columns();
        let (events, panels) = (Events::of(report, &columns), panels::of(report, &columns));
        let hero = Hero::live(report);
        let second = Second {
            form: &form(&panels, &events),
            hero: &markup::fragment(|html| hero.write(html)),
            totals: panels.iter().map(Panel::totals).collect(),
            data: Data {
                from,
                to,
                events: &events.marks,
                panels: &panels,
                percentiles: None,
            },
        };
        serde_json::to_string(&second).unwrap_or_default()
    }

    /// Return the policy that a browser keeps to on the page.
    pub fn policy() -> String {
        markup::live_policy()
    }
}

fn form(panels: &[Panel], events: &Events) -> String {
    let panels: Vec<String> = panels.iter().map(Panel::form).collect();
    format!("{} {}", events.marks.len(), panels.join(";"))
}
