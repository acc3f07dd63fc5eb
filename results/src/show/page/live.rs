//! Page of a run that goes on: that of its report, as far as it is known.
//!
//! A reader gets the whole page once, and then each second the figures and the data of the charts,
//! made by the same code. One who misses some seconds has missed nothing.

use std::collections::BTreeMap;

use serde::Serialize;

use super::super::chart::Plot;
use super::super::doc::Doc;
use super::columns::Columns;
use super::document::Layout;
use super::events::Events;
use super::hero::Hero;
use super::panels::{self, Panel};
use super::{Data, markup, meta, write_over_time};
use crate::judge::Stalls;
use crate::run::report::{Detail, Report, SoFar};

/// Seconds that the charts show of a run without an end.
const SHOWN_S: f64 = 60.0;

/// Makes the document of a report, with the names of its pictures.
pub type DocOf = fn(&Report, &[Plot]) -> Doc;

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

/// Note what is known of a run so far.
fn judged(run: &mut SoFar) -> &Report {
    let report = run.report(Detail::Figures);
    report.findings = Stalls::of(report).finding().into_iter().collect();
    report
}

/// The charts, with the time axis of the whole run.
fn columns(report: &Report) -> (Columns<'_>, [f64; 2]) {
    let columns = Columns::of(report);
    let planned = report.plan.run.duration;
    let axis = planned.map_or_else(
        || [(columns.to_s - SHOWN_S).max(0.0), columns.to_s.max(SHOWN_S)],
        |planned| [0.0, planned.as_secs_f64().max(columns.to_s)],
    );
    (columns, axis)
}

/// Return the page of a run that goes on.
pub fn live(run: &mut SoFar, doc_of: DocOf) -> String {
    let report = judged(run);
    let (columns, [from, to]) = columns(report);
    let (events, panels) = (Events::of(report, &columns), panels::of(report, &columns));
    let doc = doc_of(report, &[]);
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
pub fn second(run: &mut SoFar) -> String {
    let report = judged(run);
    let (columns, [from, to]) = columns(report);
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

/// Return the policy that a browser keeps to on the page of a run that goes on.
pub fn live_policy() -> String {
    markup::live_policy()
}

fn form(panels: &[Panel], events: &Events) -> String {
    let panels: Vec<String> = panels.iter().map(Panel::form).collect();
    format!("{} {}", events.marks.len(), panels.join(";"))
}
