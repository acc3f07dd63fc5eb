//! Several results on one page: what is in it, and that it holds for whatever they are.
//!
//! The golden file is in `tests/golden`;
//! `INSTA_UPDATE=always cargo test -p crawlmark-results --test overlay` writes it again when a
//! change is meant.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::fmt::Write;

use crawlmark_harness::stats::SecondCounts;
use crawlmark_results::run::overlay;
use crawlmark_results::run::report::{IntervalRow, Report, ScheduleReport, Verdict};
use crawlmark_results::run::result_dir::{self, Overlaid, PAGE};
use crawlmark_results::show::plot::Plot;
use roxmltree::{Document, Node};

/// A run as it was saved once, of so many seconds.
fn run(name: &str, seconds: u64) -> Report {
    let mut report = crate::saved();
    let second = report.intervals[0].clone();
    let row = |n: u64| IntervalRow {
        start_s: n,
        counts: SecondCounts {
            attempts: 900 + n % 7,
            ..second.counts.clone()
        },
        p50_us: Some(2_000.0),
        p90_us: Some(3_000.0),
        p99_us: Some(9_000.0),
        ..second.clone()
    };
    report.intervals = (0..seconds).map(row).collect();
    report.totals.duration_s = seconds as f64;
    name.clone_into(&mut report.name);
    report
}

/// The same as an open loop.
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
    for row in &mut report.intervals {
        (
            row.response_p50_us,
            row.response_p90_us,
            row.response_p99_us,
        ) = (Some(4e3), Some(6e3), Some(18e3));
    }
    report
}

/// The page of runs whose directories tell nothing.
fn overlaid(reports: &[Report]) -> Overlaid {
    result_dir::overlaid(reports, &[])
}

fn page(overlaid: &Overlaid) -> &str {
    &overlaid
        .files
        .iter()
        .find(|(name, _)| name == PAGE)
        .unwrap()
        .1
}

/// The text of an element, its parts one behind the other.
fn text(node: Node<'_, '_>) -> String {
    let texts = node
        .descendants()
        .filter(Node::is_text)
        .filter_map(|node| node.text());
    texts
        .map(str::trim)
        .filter(|text| !text.is_empty())
        .collect::<Vec<_>>()
        .join(" | ")
}

/// The text of a part of the page.
fn section(page: &str, id: &str) -> String {
    let document = Document::parse(page.split_once('\n').unwrap().1).unwrap();
    let found = document
        .descendants()
        .find(|node| node.has_tag_name("section") && node.attribute("id") == Some(id));
    text(found.unwrap())
}

fn plot<'a>(overlaid: &'a Overlaid, name: &str) -> &'a Plot {
    let found = overlaid.plots.iter().find(|plot| plot.name == name);
    found.unwrap()
}

#[test]
fn three_runs_say_what_they_said() {
    let mut slower = run("slower", 12);
    slower.totals.items_per_s = 12.5;
    slower.plan.run.connections = 3;
    slower.environment.kernel = Some("Linux 9".to_owned());
    slower.validity.verdict = Verdict::Disturbed;
    let overlaid = overlaid(&[run("first", 20), slower, open(run("open", 400))]);
    let mut out = String::new();
    for plot in &overlaid.plots {
        let document = Document::parse(&plot.svg).unwrap();
        let texts = document
            .descendants()
            .filter(|node| node.has_tag_name("text"));
        let texts = texts.map(text).collect::<Vec<_>>().join(" | ");
        let _ = writeln!(
            out,
            "# {}: {}\n{}\n{texts}\n",
            plot.name, plot.title, plot.caption
        );
    }
    for id in ["figures", "differences"] {
        let _ = writeln!(out, "# {id}\n{}\n", section(page(&overlaid), id));
    }
    crate::golden("overlay.txt", &out);
}

#[test]
fn like_is_drawn_beside_like() {
    let caption = |runs: &[Report]| plot(&overlaid(runs), "spectrum").caption.clone();
    let response = caption(&[open(run("a", 9)), open(run("b", 9))]);
    let service = caption(&[run("a", 9), open(run("b", 9))]);
    assert_eq!(
        (&*response, &*service),
        ("times: response time", "times: service time")
    );
    // Of the same plan and machine, nothing differs.
    let alike = overlaid(&[run("a", 9), run("b", 11)]);
    let same = section(page(&alike), "differences");
    assert!(
        same.contains("versions of crawlmark are identical"),
        "{same}"
    );
    // Each figure has its difference to the first run's, and a lower bound has none.
    let mut faster = run("b", 9);
    let slower = run("a", 9);
    faster.totals.ok_per_s = slower.totals.ok_per_s * 1.25;
    faster.latency.get_mut("service").unwrap().at_least = vec!["p99_us".to_owned()];
    let figures = section(page(&overlaid(&[slower, faster])), "figures");
    let row = |name: &str| {
        let (_, row) = figures.split_once(&format!(" | {name} | ")).unwrap();
        row.split(" | ").nth(1).unwrap()
    };
    assert!(row("good/s").ends_with(" (+25.0 %)"), "{figures}");
    assert!(row("service p50").ends_with(" (+0.0 %)"), "{figures}");
    let bound = row("service p99");
    assert!(
        bound.starts_with(">= ") && !bound.contains('('),
        "{figures}"
    );
}

#[test]
fn labels_are_short_and_no_two_are_alike() {
    let labels = |runs: &[Report]| overlay::labels(runs, &[]);
    let directories = ["monday", "tuesday"].map(str::to_owned);
    let same = [run("crawl", 3), run("crawl", 3)];
    assert_eq!(overlay::labels(&same, &directories), directories);
    assert_eq!(labels(&[run("a", 3), run("b", 3)]), ["a", "b"]);
    assert_eq!(labels(&same), ["1 crawl", "2 crawl"]);
    let long = "x".repeat(60);
    let found = labels(&[run(&long, 3), run(&long, 3)]);
    let are_short = found.iter().all(|label| label.chars().count() <= 24);
    assert!(found[0] != found[1] && are_short, "{found:?}");
}

#[test]
fn degenerate_runs_are_laid_over_each_other_too() {
    let mut nothing = run("nothing", 0);
    nothing.totals.duration_s = 0.0;
    nothing.latency.clear();
    let mut odd = run("<b>&\"odd\"", 4);
    odd.totals.items_per_s = f64::NAN;
    odd.intervals[1].p50_us = Some(f64::NAN);
    odd.intervals[2].p99_us = None;
    for runs in [
        vec![nothing.clone(), odd],
        vec![nothing.clone(), nothing],
        vec![run("a", 9), run("hour", 3_600)],
    ] {
        let overlaid = overlaid(&runs);
        let has_times = runs.iter().any(|run| !run.intervals.is_empty());
        assert_eq!(overlaid.plots.len(), if has_times { 2 } else { 0 });
        for plot in &overlaid.plots {
            assert!(Document::parse(&plot.svg).is_ok() && !plot.svg.contains("NaN"));
        }
        assert!(!section(page(&overlaid), "figures").is_empty());
    }
}
