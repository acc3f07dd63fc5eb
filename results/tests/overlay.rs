//! Several results on one page: what is in it, and that it holds for whatever they are.
//!
//! The golden file is in `tests/golden`;
//! `INSTA_UPDATE=always cargo test -p crawlmark-results --test overlay` writes it again when a
//! change is meant.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeSet;
use std::fmt::Write;

use crawlmark_harness::stats::SecondCounts;
use crawlmark_results::run::overlay;
use crawlmark_results::run::report::{IntervalRow, Report, ScheduleReport, Verdict};
use crawlmark_results::run::result_dir::{self, Overlaid, PAGE};
use crawlmark_results::show::plot::overlay::MOST_RUNS;
use crawlmark_results::show::plot::{Ground, Plot, Rasterizer};
use roxmltree::{Document, Node};

/// A run as it was saved once, of so many seconds.
fn run(name: &str, seconds: u64) -> Report {
    let golden = include_str!("golden/whole.json.snap");
    let mut report: Report = serde_json::from_str(golden.splitn(3, "---").nth(2).unwrap()).unwrap();
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

/// The classes of a plot's lines: each has a colour, and a dash pattern unless it is solid.
fn classes(plot: &Plot) -> Vec<String> {
    let document = Document::parse(&plot.svg).unwrap();
    let lines = document
        .descendants()
        .filter(|node| node.has_tag_name("polyline"));
    let mut classes: Vec<String> = lines
        .filter(|node| node.attribute("stroke-width") == Some("2"))
        .map(|node| node.attribute("class").unwrap().to_owned())
        .collect();
    classes.sort();
    classes.dedup();
    classes
}

fn plot<'a>(overlaid: &'a Overlaid, name: &str) -> &'a Plot {
    overlaid
        .plots
        .iter()
        .find(|plot| plot.name == name)
        .unwrap()
}

#[test]
fn three_runs_say_what_they_said() {
    let mut slower = run("slower", 12);
    slower.totals.items_per_s = 12.5;
    slower.plan.run.connections = 3;
    slower.environment.kernel = Some("Linux 9".to_owned());
    slower.validity.verdict = Verdict::Disturbed;
    slower.validity.reasons = vec!["something happened".to_owned()];
    let overlaid = overlaid(&[run("first", 20), slower, open(run("open", 400))]);
    let mut out = String::new();
    for plot in &overlaid.plots {
        let document = Document::parse(&plot.svg).unwrap();
        let texts = document
            .descendants()
            .filter(|node| node.has_tag_name("text"))
            .map(text)
            .collect::<Vec<_>>();
        let _ = writeln!(
            out,
            "# {}: {}\n{}\n{}\n",
            plot.name,
            plot.title,
            plot.caption,
            texts.join(" | ")
        );
    }
    for id in ["figures", "differences", "validity"] {
        let _ = writeln!(out, "# {id}\n{}\n", section(page(&overlaid), id));
    }
    insta::with_settings!({ snapshot_path => "golden", prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("overlay.txt", out);
    });
}

#[test]
fn as_many_runs_as_there_are_colours_are_told_apart() {
    let runs: Vec<Report> = (0..MOST_RUNS)
        .map(|n| run(&format!("run-{n}"), 3 + n as u64 * 40))
        .collect();
    let overlaid = overlaid(&runs);
    for name in ["throughput", "tail", "median", "spectrum"] {
        let classes = classes(plot(&overlaid, name));
        let (inks, dashes): (BTreeSet<&str>, BTreeSet<&str>) = classes
            .iter()
            .map(|class| class.split_once(' ').unwrap_or((class, "solid")))
            .unzip();
        assert_eq!(
            (inks.len(), dashes.len()),
            (MOST_RUNS, MOST_RUNS),
            "{name}: {classes:?}"
        );
        let style = &plot(&overlaid, name).svg;
        assert!(
            dashes
                .iter()
                .all(|dash| *dash == "solid"
                    || style.contains(&format!(".{dash}{{stroke-dasharray:")))
        );
    }
    // A picture of it, too: it is drawn by the same means.
    assert!(
        Rasterizer::on(Ground::Light)
            .png(plot(&overlaid, "figures"))
            .is_ok()
            || cfg!(not(feature = "png"))
    );
}

#[test]
fn like_is_drawn_beside_like() {
    let caption = |runs: &[Report]| plot(&overlaid(runs), "median").caption.clone();
    assert!(caption(&[open(run("a", 9)), open(run("b", 9))]).contains("p50 response time"));
    assert!(caption(&[run("a", 9), run("b", 9)]).contains("p50 service time"));
    let mixed = [run("a", 9), open(run("b", 9))];
    assert!(caption(&mixed).contains("Excludes the wait before an open-loop request is sent"));
    assert!(
        section(page(&overlaid(&mixed)), "figures")
            .starts_with("Figures | Some of these runs are open loops")
    );
    // Of the same plan and machine, nothing differs.
    let alike = overlaid(&[run("a", 9), run("b", 11)]);
    let same = section(page(&alike), "differences");
    assert!(
        same.contains("Plans, machines (as far as known) and versions"),
        "{same}"
    );
    let at = |what: &str| page(&alike).find(what).unwrap();
    assert!(at("single runs and gives no verdict") < at("id=\"figures\""));
    // Each figure has its difference to the first run's, and a lower bound has none.
    let mut faster = run("b", 9);
    let slower = run("a", 9);
    faster.totals.ok_per_s = Some(slower.totals.good_per_s(&slower.ledger) * 1.25);
    faster.latency.get_mut("service").unwrap().at_least = vec!["p99_us".to_owned()];
    let figures = section(page(&overlaid(&[run("a", 9), faster])), "figures");
    let row = |name: &str| {
        figures
            .split(&format!(" | {name} | "))
            .nth(1)
            .unwrap()
            .split(" | ")
            .nth(1)
            .unwrap()
            .to_owned()
    };
    assert!(
        row("good/s").ends_with(" (+25.0 %)") && row("service p50").ends_with(" (+0.0 %)"),
        "{figures}"
    );
    assert!(
        row("service p99").starts_with(">= ") && !row("service p99").contains('('),
        "{figures}"
    );
}

#[test]
fn what_is_only_known_to_be_no_less_is_said_to_be_so() {
    let of = |name: &str, us: f64, at_least: &[&str]| {
        let mut report = run(name, 9);
        let service = report.latency.get_mut("service").unwrap();
        (service.p50_us, service.p99_us) = (Some(us), Some(us));
        service.at_least = at_least.iter().map(ToString::to_string).collect();
        service.censored = at_least.len() as u64;
        report
    };
    let both = ["p50_us", "p99_us"];
    let caption = |runs: &[Report], name: &str| plot(&overlaid(runs), name).caption.clone();
    let certain = [of("slow", 9e6, &both), of("fast", 2e3, &[])];
    for name in ["tail", "median"] {
        let said = caption(&certain, name);
        assert!(
            said.contains("highest in slow (at least 9.00 s), lowest in fast (2.00 ms).")
                && !said.contains("order"),
            "{said}"
        );
    }
    assert!(
        plot(&overlaid(&certain), "figures")
            .svg
            .contains("&gt;= 9.00 s")
    );
    let said = caption(&certain, "spectrum");
    assert!(said.contains("; 2 more requests did not finish"), "{said}");
    let said = caption(&[of("slow", 9e6, &[]), of("fast", 2e3, &both)], "median");
    assert!(
        said.contains("(at least 2.00 ms); figures that are lower bounds may change the order"),
        "{said}"
    );
    let said = caption(&[of("a", 2e3, &both), of("b", 2e3, &[])], "median");
    assert!(
        said.contains(
            "p50 service time over the whole run: at least 2.00 ms in every run that has one."
        ),
        "{said}"
    );
}

#[test]
fn labels_are_short_and_no_two_are_alike() {
    let with_connections = |connections| {
        let mut report = run("crawl", 3);
        report.plan.run.connections = connections;
        report
    };
    let labels = |runs: &[Report]| overlay::labels(runs, &[]);
    let directories = ["monday", "tuesday"].map(str::to_owned);
    assert_eq!(
        overlay::labels(&[run("crawl", 3), run("crawl", 3)], &directories),
        directories
    );
    assert_eq!(labels(&[run("a", 3), run("b", 3)]), ["a", "b"]);
    assert_eq!(
        labels(&[with_connections(8), with_connections(16)]),
        ["crawl, connections 8", "crawl, connections 16"]
    );
    assert_eq!(
        labels(&[run("crawl", 3), run("crawl", 3)]),
        ["1 crawl", "2 crawl"]
    );
    let long = "x".repeat(60);
    let found = labels(&[run(&long, 3), run(&long, 3)]);
    assert!(
        found[0] != found[1] && found.iter().all(|label| label.chars().count() <= 24),
        "{found:?}"
    );
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
        assert_eq!(
            overlaid.plots.len(),
            if has_times { 5 } else { 1 },
            "none is empty"
        );
        for plot in &overlaid.plots {
            assert!(
                Document::parse(&plot.svg).is_ok() && plot.caption.ends_with('.'),
                "{}: {}",
                plot.name,
                plot.caption
            );
            assert!(
                !plot.svg.contains("NaN") && !plot.svg.contains(">inf"),
                "{}",
                plot.name
            );
        }
        assert!(!section(page(&overlaid), "figures").is_empty());
    }
}
