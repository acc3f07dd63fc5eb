//! `report.html`: a result as one page that needs nothing else, neither network nor files beside it.
//!
//! A pure function from a [`Report`] and its plots; called when a result is saved and by whoever remakes it. What may be
//! believed comes first, then the numbers, the pictures, the tables, and how to do it again. Each part is written by a module
//! below, into the markup that `frame` guards.

mod again;
pub(in crate::show) mod frame;
mod headline;
mod machine;
pub mod overlay;
mod seconds;
mod tables;
mod validity;

use self::frame::Html;
pub(crate) use self::frame::capital;
use crate::run::report::Report;
use crate::show::plot::{self, Plot};
use crate::show::text;

/// The page of one run.
#[must_use]
pub fn html(report: &Report, plots: &[Plot]) -> String {
    frame::document(&text::heading(report), |html| {
        title(html, report);
        validity::write(html, report);
        headline::write(html, report);
        headline::gates(html, report);
        html.section("plots", "Plots", |html| {
            html.plots(plots);
            for why in plot::left_out(report, plots) {
                html.say_as("p", "note", &why);
            }
        });
        html.section("counts", "What was counted", |html| tables::counts(html, report));
        html.section("times", "Times", |html| tables::times(html, report));
        html.section("shards", "Shards", |html| tables::shards(html, report));
        html.section("course", "How it went", |html| tables::course(html, report));
        html.section("seconds", "Second by second", |html| seconds::write(html, report));
        html.section("machine", "Where it ran", |html| machine::write(html, report));
        html.section("again", "Reproduce", |html| again::write(html, report));
    })
}

/// Write the title: the run, its time, its target and its version.
fn title(html: &mut Html, report: &Report) {
    html.element("header", |html| {
        html.say("h1", &text::heading(report));
        html.with("p", &[("class", "quiet")], |html| {
            html.say("code", &report.plan.run.target);
            html.text(" \u{b7} ");
            html.kept_together(&moment(&report.started_at));
            html.text(" to ");
            html.kept_together(&moment(&report.finished_at));
            html.text(" \u{b7} ");
            html.kept_together(&format!("crawlmark {}", report.crawlmark_version));
        });
        if !report.tags.is_empty() {
            let tags: Vec<String> = report.tags.iter().map(|(key, value)| format!("{key}: {value}")).collect();
            html.say_as("p", "quiet", &tags.join(" \u{b7} "));
        }
    });
}

/// A calendar time of a report as people write it, to the second.
fn moment(rfc3339: &str) -> String {
    let whole = rfc3339.split(['.', 'Z']).next().unwrap_or_default();
    format!("{} UTC", whole.replacen('T', " ", 1))
}
