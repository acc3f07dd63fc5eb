//! The page of several runs, side by side: what differs between them first, what each may be believed, then pictures and
//! figures. It describes; it has no verdict, for a single run of each says nothing of what the next one would.

mod differences;
mod figures;

pub use self::differences::labels;
use self::differences::{Difference, differences};
use super::frame::{self, Html};
use super::validity::gravity;
use crate::show::doc::{Column, Table};
use crate::show::plot::overlay::{Clocked, Run};
use crate::show::plot::{Plot, overlay};

/// The page of these runs and their plots.
#[must_use]
pub fn html(runs: &[Run<'_>], plots: &[Plot]) -> String {
    let title = format!("{} runs side by side", runs.len());
    frame::document(&title, |html| {
        html.element("header", |html| {
            html.say("h1", &title);
            let labels: Vec<&str> = runs.iter().map(|run| run.label).collect();
            html.say_as("p", "quiet", &labels.join(" \u{b7} "));
        });
        html.section("differences", "What differs", |html| differing(html, runs));
        html.section("validity", "Validity", |html| validity(html, runs));
        html.section("plots", "Plots", |html| {
            html.plots(plots);
            if plots.len() < overlay::KINDS {
                html.say_as("p", "note", "Plots for which no run has data are left out.");
            }
        });
        html.section("figures", "Figures", |html| {
            if Clocked::of(runs) == Clocked::ServiceAlthough {
                html.say_as("p", "note", MIXED);
            }
            figures::write(html, runs);
        });
    })
}

/// Behind a table in which open and closed loops stand beside each other.
const MIXED: &str = "Open and closed loops stand beside each other here. A closed loop waits for its target, so its service times \
    leave out what users would have waited; an open loop has response times, which hold that. Only service times are \
    there for both, and the plots show these.";

/// Warning that single runs give no verdict.
const DESCRIPTION: &str = "This page describes; it is no verdict. Each of these is a single run, and runs of one and the same plan \
    differ by chance, too: whether one plan is better than another can only be told from several paired runs of both.";

fn differing(html: &mut Html, runs: &[Run<'_>]) {
    html.with("div", &[("class", "verdict limited")], |html| html.say("p", DESCRIPTION));
    let found = differences(runs);
    let Some(first) = found.first() else {
        let same = "Neither their plans, nor the machines as far as they tell, nor the versions of crawlmark differ.";
        html.say("p", same);
        return;
    };
    if found.len() > 1 {
        let names: Vec<&str> = found.iter().map(|difference| &*difference.name).collect();
        let more = "With more than one difference it cannot be told which of them made the figures differ";
        html.say("p", &format!("They differ in {} things: {}. {more}.", found.len(), names.join(", ")));
    } else {
        html.say("p", &format!("They differ in one thing: {}.", first.name));
    }
    let row = |Difference { group, name, values }: &Difference| {
        [format!("{name} ({group})")].into_iter().chain(values.iter().cloned()).collect()
    };
    side_by_side(html, "What differs", runs, found.iter().map(row).collect());
    html.say_as("p", "note", "All else in their plans, of their machines and their versions is the same.");
}

fn validity(html: &mut Html, runs: &[Run<'_>]) {
    html.with("div", &[("class", "tables beside")], |html| runs.iter().for_each(|run| believed(html, run)));
}

/// A run's verdict and what was found.
fn believed(html: &mut Html, run: &Run<'_>) {
    let validity = &run.report.validity;
    let (class, symbol) = gravity(validity.verdict);
    html.with("div", &[("class", class)], |html| {
        html.element("h3", |html| {
            html.with("span", &[("class", "symbol"), ("aria-hidden", "true")], |html| html.text(symbol));
            let stopped = if run.report.interrupted { ", and it was stopped early" } else { "" };
            html.text(&format!("{}: {}{stopped}", run.label, validity.verdict.name().replace('_', "-")));
        });
        html.say("p", validity.verdict.meaning());
        if !validity.reasons.is_empty() {
            html.element("ul", |html| validity.reasons.iter().for_each(|reason| html.say("li", reason)));
        }
    });
}

/// A column per run. The first cell of each row names it.
fn side_by_side(html: &mut Html, caption: &str, runs: &[Run<'_>], rows: Vec<Vec<String>>) {
    let column = |run: &Run<'_>| Column::words(run.label.to_owned());
    let columns: Vec<Column> = [Column::words("")].into_iter().chain(runs.iter().map(column)).collect();
    Table { caption: caption.to_owned(), columns, rows, ..Table::default() }.write(html);
}
