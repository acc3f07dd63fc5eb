//! `report.html`: a result as one page that needs nothing else, neither network nor files beside it.
//!
//! A pure function from a [`Report`] and its plots; called when a result is saved and by whoever remakes it. What may be
//! believed comes first, then the numbers, the pictures, the tables, and how to do it again. Each part is written by a module
//! below, into the markup that `frame` guards.

mod again;
mod frame;
mod headline;
mod machine;
mod seconds;
mod tables;
mod validity;

use self::frame::Html;
use crate::plot::Plot;
use crate::render;
use crate::report::Report;

/// The page of one run.
#[must_use]
pub fn html(report: &Report, plots: &[Plot]) -> String {
    frame::document(&render::heading(report), |html| {
        title(html, report);
        validity::write(html, report);
        headline::write(html, report);
        headline::gates(html, report);
        html.section("plots", "Plots", |html| html.plots(plots));
        html.section("counts", "What was counted", |html| tables::counts(html, report));
        html.section("times", "Times", |html| tables::times(html, report));
        html.section("shards", "Shards", |html| tables::shards(html, report));
        html.section("course", "How it went", |html| tables::course(html, report));
        html.section("seconds", "Second by second", |html| seconds::write(html, report));
        html.section("machine", "Where it ran", |html| machine::write(html, report));
        html.section("again", "Do it again", |html| again::write(html, report));
    })
}

/// What this is: the run, when, of whom, by which version.
fn title(html: &mut Html, report: &Report) {
    html.element("header", |html| {
        html.say("h1", &render::heading(report));
        html.with("p", &[("class", "quiet")], |html| {
            html.say("code", &report.plan.run.target);
            html.text(&format!(
                " \u{b7} {} to {} \u{b7} crawlmark {}",
                report.started_at, report.finished_at, report.crawlmark_version
            ));
        });
        if !report.tags.is_empty() {
            let tags: Vec<String> = report.tags.iter().map(|(key, value)| format!("{key}: {value}")).collect();
            html.say_as("p", "quiet", &tags.join(" \u{b7} "));
        }
    });
}
