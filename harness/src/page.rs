//! `report.html`: a result as one page that needs nothing else, neither network nor files beside it.
//!
//! A pure function from a [`Report`] and its plots; called when a result is saved and by whoever remakes it.

use std::fmt::Write;

use crate::plot::Plot;
use crate::report::Report;

/// The page of one run.
#[must_use]
pub fn html(report: &Report, plots: &[Plot]) -> String {
    let mut out = String::from("<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\n");
    let _ = writeln!(out, "<title>{}</title>", escaped(&report.name));
    for plot in plots {
        out.push_str(&plot.svg);
    }
    out.push_str("</html>\n");
    out
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
