//! Laws that hold for any bytes as a saved file: they are refused in one line, or can be shown.
//! Fuzzing calls it, and so does a test, so that it cannot rot.

use std::path::Path;

use crawlmark_results::export::{Format, export};
use crawlmark_results::import;
use crawlmark_results::run::report::Report;
use crawlmark_results::run::result_dir::{RESULT, parse_report};
use crawlmark_results::run::words;
use crawlmark_results::show::{page, plot};
use crawlmark_results::studies::compare::{Contest, DesignError};
use crawlmark_results::studies::history::{History, Point, parse_points};
use crawlmark_results::studies::sides::Sides;
use crawlmark_results::studies::{Header, StudyResult, parse_study};
use serde::de::DeserializeOwned;

/// Checks all laws on any bytes as `result.json` and as `comparison.json`.
///
/// # Panics
///
/// If one is broken.
pub(crate) fn check(bytes: &[u8]) {
    let json = String::from_utf8_lossy(bytes);
    match parse_report(Path::new(RESULT), &json) {
        Err(error) => check_complaint(&error.to_string()),
        Ok(report) => show(&report),
    }
    match parse_study::<Contest>(Path::new(Contest::FILE), &json) {
        Err(error) => check_complaint(&error.to_string()),
        Ok(contest) => check_contest(&contest),
    }
}

/// Checks that a text as the file of a study is refused in one line, or can be shown.
///
/// # Panics
///
/// If it is not.
pub(crate) fn check_study<S: StudyResult + DeserializeOwned>(json: &str) {
    match parse_study::<S>(Path::new(S::FILE), json) {
        Err(error) => check_complaint(&error.to_string()),
        Ok(study) => {
            let _ = (study.doc().terminal(80), study.plots());
        }
    }
}

/// Checks that any bytes as a result of another tool, or as a history, are refused in one line or can
/// be shown.
///
/// # Panics
///
/// If they are not.
pub(crate) fn check_import(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let path = Path::new("result");
    match import::parse(path, &text) {
        Err(error) => check_complaint(&error.to_string()),
        Ok(imported) => {
            let header = Header::new::<Sides>("compare", ["", ""]);
            let sides = Sides::new(header, &imported, &imported);
            let _ = sides.map(|sides| (sides.doc().terminal(80), sides.json().is_ok()));
            let points = Point::of_import(&imported, "2026-01-01T00:00:00Z");
            show_history(vec![points; NEEDED].concat());
        }
    }
    match parse_points(path, &text) {
        Err(error) => check_complaint(&error.to_string()),
        Ok(points) => show_history(points),
    }
}

/// Results in which a change can be found.
const NEEDED: usize = 14;

fn show_history(points: Vec<Point>) {
    if let Some(history) = History::of(points, "history") {
        let _ = (
            history.doc().html(&history.plots()),
            history.doc().terminal(80),
        );
    }
}

fn again(contest: &Contest) -> Result<Contest, DesignError> {
    let rounds = contest.rounds.clone();
    Contest::new(&contest.metrics(), rounds, contest.context.clone())
}

/// Checks that a comparison follows from its rounds, or is refused in one line, and can be shown.
fn check_contest(contest: &Contest) {
    let made = match again(contest) {
        Err(why) => return check_complaint(&why.to_string()),
        Ok(made) => made,
    };
    let follows = again(&made).map(|twice| serde_json::to_value(twice).ok());
    assert_eq!(
        follows,
        Ok(serde_json::to_value(&made).ok()),
        "a comparison does not follow from its own rounds"
    );
    let (doc, plots) = (made.doc(), made.plots());
    let _ = (
        doc.html(&plots),
        doc.terminal(80),
        doc.markdown(),
        made.exports(),
    );
}

/// All that is made of a report.
fn show(report: &Report) {
    let plots = plot::all(report);
    let doc = words::doc(report, &plots);
    let _ = (
        page::run(report, &doc, &plots),
        doc.terminal(80),
        doc.markdown(),
    );
    for &format in Format::ALL {
        let _ = export(report, format);
    }
}

fn check_complaint(why: &str) {
    assert!(!why.contains('\n'), "not one line: {why}");
    let length = why.chars().count();
    assert!(length < 1_000, "a complaint of {length} characters");
}
