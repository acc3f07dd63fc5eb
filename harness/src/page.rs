//! `report.html`: a result as one page that needs nothing else, neither network nor files beside it.
//!
//! A pure function from a [`Report`] and its plots; called when a result is saved and by whoever remakes it. The parts are
//! written by the modules below, into the markup that `frame` guards.

mod frame;

use crate::plot::Plot;
use crate::report::Report;

/// The page of one run.
#[must_use]
pub fn html(report: &Report, plots: &[Plot]) -> String {
    frame::document(&report.name, |html| {
        html.say("h1", &report.name);
        html.section("plots", "Plots", |html| html.plots(plots));
    })
}
