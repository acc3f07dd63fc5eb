//! Results from outside: one program, so that the crate is linked once for all of its tests.

mod arena;
mod bisect_truth;
mod capacity;
mod capacity_search;
mod capacity_truth;
mod contest;
mod export;
mod fired;
mod foreign_results;
mod history;
mod import;
mod laws;
mod overload;
mod page;
mod parts;
mod plots;
mod rehearsal;
mod report;
mod scaling;
mod scenarios;
mod truth_c;
mod truth_s;

use crawlmark_results::run::report::{Report, ScheduleReport};
use crawlmark_results::show::line::Display;
use crawlmark_results::studies::{StudyResult, end};

/// A run as it was saved once, of which a test changes what it is about.
#[expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
fn saved() -> Report {
    let golden = include_str!("golden/whole.json.snap");
    serde_json::from_str(golden.splitn(3, "---").nth(2).unwrap()).unwrap()
}

/// The same run as an open loop, whose response times are its service times.
fn open(mut report: Report) -> Report {
    report.budget = None;
    report.schedule = Some(ScheduleReport {
        arrivals: "constant".to_owned(),
        rate: "1000/s".to_owned(),
        rate_per_s: 1_000.0,
        scheduled: 20_000,
        dropped: 0,
        dropped_by: std::collections::BTreeMap::new(),
        postponed: 0,
        unscheduled: 0,
        sent_share: 1.0,
        achieved_per_s: 980.0,
        shifted_s: 0.0,
        untold_shards: 0,
    });
    let service = report.latency["service"].clone();
    report.latency.insert("response".to_owned(), service);
    report
}

/// The end of a study at a terminal of so many columns, with its tables or without.
fn end_at(columns: usize, result: &impl StudyResult, is_verbose: bool) -> String {
    let display = Display {
        columns,
        has_unicode: true,
    };
    let lines = end(result, Some("results/x/report.html"), display, is_verbose);
    lines.iter().map(|line| line.text() + "\n").collect()
}

/// The end of a study at a terminal, with its tables and without: of 16 lines at most.
fn ended(result: &impl StudyResult) -> String {
    for columns in [40, 44, 60, 80, 100, 120, 160] {
        let end = end_at(columns, result, false);
        assert!(end.lines().count() <= 16, "{columns} columns:\n{end}");
    }
    both_ends(result)
}

/// Both ends of a study, however long.
fn both_ends(result: &impl StudyResult) -> String {
    let [short, verbose] = [false, true].map(|is_verbose| end_at(100, result, is_verbose));
    format!("{short}\n--verbose:\n\n{verbose}")
}

fn golden(name: &str, text: &str) {
    insta::with_settings!({ snapshot_path => "golden", prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!(name, text);
    });
}
