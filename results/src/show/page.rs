//! Page of a document: one file that loads nothing, with its charts, script and style in it.
//!
//! | room | for |
//! |---|---|
//! | `markup` | elements that no text can break out of, and the document around them |
//! | `document` | the parts of a [`Doc`]: head, hero, folded sections |
//! | `hero` | verdict, headline and figures |
//! | `columns`, `panels` | a run's time in steps, and the panels that are drawn of it: a table |
//! | `events` | findings, and their marks over the panels |
//! | `percentiles`, `parts` | the distribution of the times, and whose time it is |
//! | `live` | the page of a run that goes on |
//! | `colours` | colours that no chart has |
//! | `page.js`, `style.css`, `uplot/` | the script, which draws with uPlot, and the style |

mod colours;
pub(crate) mod columns;
mod document;
pub(super) mod events;
mod hero;
mod live;
mod markup;
pub(super) mod panels;
mod parts;
mod percentiles;

use std::collections::BTreeMap;

use serde::Serialize;

use self::columns::Columns;
use self::document::Layout;
use self::events::{Events, Mark};
use self::hero::Hero;
use self::markup::{Html, fits};
use self::panels::Panel;
use self::percentiles::Percentiles;
use super::chart::Plot;
use super::doc::Doc;
use super::text::{counted, grouped, micros, rate_in_words, seconds};
use crate::run::report::{Report, TraitRow};
pub use hero::{answer, headline};
pub use live::{DocOf, Live, Seen};

/// Pictures for readers without scripts.
const WITHOUT_SCRIPTS: [&str; 2] = ["throughput", "latency"];

/// What the script of a page draws.
#[derive(Default, Serialize)]
struct Data<'a> {
    /// The time axis, s.
    from: f64,
    to: f64,
    events: &'a [Mark],
    panels: &'a [Panel],
    percentiles: Option<&'a Percentiles>,
}

/// Return the page of a run, or of a part of one: `doc` is its document, of which the page has the
/// sections, and `plots` are its pictures.
pub fn run(report: &Report, doc: &Doc, plots: &[Plot]) -> String {
    let columns = Columns::of(report);
    let (events, panels) = (Events::of(report, &columns), panels::of(report, &columns));
    let percentiles = Percentiles::of(report);
    let hero = Hero::of_run(report, doc);
    let drawn = Data {
        from: columns.from_s,
        to: columns.to_s,
        events: &events.marks,
        panels: &panels,
        percentiles: percentiles.as_ref(),
    };
    let data = serde_json::to_string(&drawn).unwrap_or_default();
    let layout = Layout {
        doc,
        hero: &hero,
        meta: meta(report),
        data: Some(&data),
        hints: hints(report),
        is_uneven: is_uneven(report),
        checks: Some(&report.validity),
        live: None,
    };
    layout.page(plots, |html| {
        hero.write(html);
        write_over_time(html, &events, &panels, &columns);
        html.element("noscript", |html| {
            let hint =
                "These charts need scripts. plots/ beside this page has pictures of all of them.";
            html.say("p", hint);
            let shown = plots
                .iter()
                .filter(|plot| WITHOUT_SCRIPTS.contains(&plot.name) && fits(plot, data.len()));
            html.plots(shown);
        });
        html.classed("div", "two", |html| {
            events.write(html, report, true);
            if let Some(percentiles) = &percentiles {
                percentiles.write(html);
            }
        });
        parts::write(html, report);
    })
}

/// The panels over time, with their heading.
fn write_over_time(html: &mut Html, events: &Events, panels: &[Panel], columns: &Columns<'_>) {
    html.classed("div", "head", |html| {
        html.say("h2", "Over time");
        let hint = "drag to zoom; arrow keys read values";
        html.with("span", &[("class", "hint"), ("id", "range")], |html| {
            html.text(hint);
        });
        html.classed("span", "gap", |_| {});
        html.button("whole", "Whole run");
    });
    write_stack(html, events, panels, columns);
}

/// The stack of panels, one below the other, with the marks of findings above them.
fn write_stack(html: &mut Html, events: &Events, panels: &[Panel], columns: &Columns) {
    let label = "Charts over time. Left and right arrow keys read the values, plus and minus zoom, Escape shows the whole run.";
    let stack = [
        ("class", "stack"),
        ("id", "stack"),
        ("role", "group"),
        ("aria-label", label),
    ];
    html.with("div", &stack, |html| {
        html.classed("div", "lane", |html| {
            events.write_marks(html);
            html.with("span", &[("class", "at"), ("hidden", "hidden")], |_| {});
        });
        for (n, panel) in panels.iter().enumerate() {
            panel.write(html, n, columns.to_s - columns.from_s);
        }
    });
    let said = [("id", "said"), ("class", "sr"), ("aria-live", "polite")];
    html.with("output", &said, |_| {});
}

/// Contents of the sections in a few words, by their IDs.
fn hints(report: &Report) -> BTreeMap<&'static str, String> {
    let totals = &report.totals;
    let slowest = report.slowest.first().map(|slow| micros(slow.response_us));
    let cpu = report.target_cpu_us_per_attempt().map(micros);
    let machine = &report.environment;
    let model = machine.cpu_model.as_deref().unwrap_or("unknown CPU");
    let rows = [
        (
            "counts",
            Some(format!(
                "{} requests, {} good",
                grouped(totals.attempts),
                grouped(report.ledger.ok)
            )),
        ),
        (
            "times",
            Some("service, waits, connections, delays of this client".to_owned()),
        ),
        (
            "split",
            cpu.map(|cpu| format!("target's processes: {cpu} of CPU per request")),
        ),
        ("traits", report.traits.first().map(TraitRow::in_words)),
        (
            "slowest",
            slowest.map(|slowest| format!("{slowest} and less")),
        ),
        (
            "shards",
            Some(counted(report.shards.len() as u64, report.shard_word())),
        ),
        (
            "machine",
            Some(format!(
                "{model}, {}",
                counted(machine.cores as u64, "core")
            )),
        ),
    ];
    rows.into_iter()
        .filter_map(|(id, hint)| Some((id, hint?)))
        .collect()
}

/// Part of the requests of the busiest shard by which the others fall short in an uneven run.
const UNEVEN: f64 = 0.1;

/// True if shards made so different numbers of requests that their picture is worth looking at.
fn is_uneven(report: &Report) -> bool {
    let attempts = report
        .shards
        .iter()
        .map(|shard| shard.totals.attempts as f64);
    let [most, least] = [attempts.clone().reduce(f64::max), attempts.reduce(f64::min)];
    most.zip(least)
        .is_some_and(|(most, least)| least < most * (1.0 - UNEVEN))
}

/// Facts about the load, for the head of the page.
fn meta(report: &Report) -> Vec<String> {
    let run = &report.plan.run;
    let rate = run
        .shaped_rate()
        .map(|rate| format!(", {}", rate_in_words(&rate.to_string())));
    let kind = match report.schedule {
        Some(_) => "open loop",
        None => "closed loop",
    };
    let load = rate.unwrap_or_else(|| format!(", {} in flight", run.in_flight()));
    vec![format!("{kind}{load}"), seconds(report.shown_s())]
}
