//! The plots, from reports whose every number is known: what is in them, and that they are drawn
//! whatever a run was like.
//!
//! The golden files are in `tests/golden`;
//! `INSTA_UPDATE=always cargo test -p crawlmark-results --test plots` writes them again when a
//! change is meant. They hold each plot's words and how many shapes it has, not where each one
//! lies.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop at the first surprise"
)]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use crawlmark_harness::stats::{ItemCounts, RequestCounts, SecondCounts};
use crawlmark_results::run::report::{
    BindingReport, Course, HeatColumn, IntervalRow, Report, ShardCourse, ShardReport, Split,
    Spread, TargetSecond,
};
use crawlmark_results::run::words;
use crawlmark_results::show::page;
use crawlmark_results::show::plot::{self, Plot};
use crawlmark_results::studies::arena::Arena;
use crawlmark_results::studies::capacity::Capacity;
use crawlmark_results::studies::compare::Contest;
use crawlmark_results::studies::scale::Scaling;
use crawlmark_results::studies::scenarios::Scenarios;
use crawlmark_results::studies::{StudyResult, read_study};
use proptest::prelude::*;
use roxmltree::{Document, Node};

use crate::{open, saved};

/// The parts of a response time of which the handler took this.
fn split(handler_us: f64) -> Split {
    Split {
        n: 15,
        response_us: handler_us + 1_000.0,
        client_queue_us: 100.0,
        network_us: 200.0,
        target_us: handler_us + 300.0,
        reported_us: Some(handler_us),
        body_us: 350.0,
        receive_delay_us: 50.0,
        intervals: BTreeMap::new(),
    }
}

/// A second in which all went as in the others, but for a stall of the target in the sixth.
fn second(n: u64, like: &IntervalRow) -> IntervalRow {
    let stalls = n % 20 == 6;
    let p50_us = if stalls {
        400_000.0
    } else {
        2_000.0 + (n % 5) as f64 * 100.0
    };
    IntervalRow {
        start_s: n,
        offered: Some(1_000.0),
        counts: SecondCounts {
            attempts: if stalls { 600 } else { 990 + n % 10 },
            throttled: if n % 10 == 3 { 40 } else { 0 },
            retries: if n % 10 == 4 { 40 } else { 0 },
            connections_opened: if n == 0 { 64 } else { 0 },
            ..like.counts.clone()
        },
        in_flight: if stalls { 64 } else { 4 },
        p50_us: Some(p50_us),
        p90_us: Some(p50_us * 1.5),
        p99_us: Some(p50_us * 4.0),
        response_p50_us: Some(p50_us * 1.2),
        response_p90_us: Some(p50_us * 2.0),
        response_p99_us: Some(p50_us * 9.0),
        max_sched_lag_us: 300.0,
        cpu_us: 400_000,
        binding: BindingReport {
            rate: if stalls { 0.1 } else { 0.9 },
            concurrency: if stalls { 0.9 } else { 0.1 },
            ..BindingReport::default()
        },
        limit: Some(32),
        pace_per_s: None,
        split: Some(split(p50_us)),
        target: Some(TargetSecond {
            cpu_us: Some(600_000.0),
            run_delay_us: Some(if stalls { 900_000.0 } else { 100_000.0 }),
            throttled_us: stalls.then_some(700_000.0),
            ..TargetSecond::default()
        }),
        answers: Some(if stalls {
            format!("{:5<10}{:0<30}{:7<10}", "", "", "")
        } else {
            "5".repeat(50)
        }),
        spread: Some(Spread {
            first: if stalls { 50 } else { 30 },
            counts: vec![5, 100, 700, 180, 0, 5],
        }),
        ..like.clone()
    }
}

fn shard(number: u32, seconds: u64, like: &ShardReport) -> ShardReport {
    let mut shard = like.clone();
    let steps = seconds.div_ceil(600).max(1);
    let length = usize::try_from(seconds.div_ceil(steps)).unwrap();
    // The second one is the slowest.
    let attempts = if number == 1 { 300 } else { 500 };
    shard.shard = number;
    shard.totals.attempts = attempts * seconds;
    shard.course = ShardCourse {
        step_s: steps,
        attempts: (0..length)
            .map(|n| (n != 3).then_some(attempts * steps + n as u64 % 7 * 20))
            .collect(),
        max_sched_lag_us: (0..length)
            .map(|n| Some(10f64.powf((n as f64 + f64::from(number)) % 7.0)))
            .collect(),
        cpu_us: (0..length)
            .map(|n| Some(steps * (n as u64 % 10) * 100_000))
            .collect(),
    };
    shard
}

/// A run of so many seconds and shards.
fn long(seconds: u64, shards: u32) -> Report {
    let mut report = saved();
    report.intervals = (0..seconds)
        .map(|n| second(n, &report.intervals[0]))
        .collect();
    report.shards = (0..shards)
        .map(|number| shard(number, seconds, &report.shards[0]))
        .collect();
    report.totals.duration_s = seconds as f64;
    report.totals.attempts_per_s = 980.0;
    report
}

/// Asserts what holds of every plot, and returns how many of each shape it has.
fn shapes(plot: &Plot) -> BTreeMap<String, usize> {
    let file = Document::parse(&plot.svg).unwrap_or_else(|error| panic!("{}: {error}", plot.name));
    let text = |tag| {
        let found = file.descendants().find(|node| node.has_tag_name(tag));
        found.and_then(|node| node.text()).unwrap_or("")
    };
    assert_eq!((text("title"), text("desc")), (plot.title, &*plot.caption));
    assert!(
        plot.svg.len() < 512 << 10,
        "{} has {} bytes",
        plot.name,
        plot.svg.len()
    );
    for unwanted in ["NaN", "inf", "Infinity"] {
        assert!(!plot.svg.contains(unwanted), "{}", plot.name);
    }
    let page = Document::parse(&plot.figure).unwrap();
    assert_eq!(page.root_element().attribute("role"), Some("img"));
    let mut counts = BTreeMap::new();
    for node in page.descendants().filter(Node::is_element) {
        *counts.entry(node.tag_name().name().to_owned()).or_default() += 1;
        assert_is_inside(plot, node);
    }
    counts
}

/// Asserts that a shape lies within its field, or within the sheet.
fn assert_is_inside(plot: &Plot, node: Node<'_, '_>) {
    let field = node
        .ancestors()
        .skip(1)
        .find(|node| node.has_tag_name("svg"));
    let Some(field) = field else { return };
    let numbers = field.attribute("viewBox").unwrap().split(' ');
    let frame: Vec<f64> = numbers.map(|n| n.parse().unwrap()).collect();
    let (left, top) = (frame[0], frame[1]);
    let (right, bottom) = (left + frame[2], top + frame[3]);
    let number = |name| {
        node.attribute(name)
            .map_or(0.0, |n: &str| n.parse().unwrap())
    };
    let is_inside = |x: f64, y: f64| {
        (left - 0.1..=right + 0.1).contains(&x) && (top - 0.1..=bottom + 0.1).contains(&y)
    };
    match node.tag_name().name() {
        "rect" => {
            let (x, y) = (number("x"), number("y"));
            assert!(is_inside(x, y), "{}: {node:?}", plot.name);
            // A narrow bar at the end is 2 px wide.
            assert!(
                is_inside(x + number("width") - 2.0, y + number("height")),
                "{}",
                plot.name
            );
        }
        "path" => {
            for (x, y) in corners(node) {
                assert!(
                    is_inside(x - 2.0_f64.min(x - left), y),
                    "{}: {x}, {y}",
                    plot.name
                );
            }
        }
        // Where texts lie is held by the tests of the chart.
        _ => {}
    }
}

/// Places that a path passes, in order.
fn corners(path: Node<'_, '_>) -> Vec<(f64, f64)> {
    let (mut at, mut out) = ((0.0, 0.0), Vec::new());
    let text = path.attribute("d").unwrap();
    let starts = text.match_indices(char::is_alphabetic).map(|(n, _)| n);
    let starts: Vec<usize> = starts.chain([text.len()]).collect();
    for part in starts.windows(2).map(|ends| &text[ends[0]..ends[1]]) {
        let numbers = part[1..].split_whitespace();
        let numbers: Vec<f64> = numbers.map(|n| n.parse().unwrap()).collect();
        match (&part[..1], &numbers[..]) {
            ("M", [x, y]) => at = (*x, *y),
            ("l", [x, y]) => at = (at.0 + x, at.1 + y),
            ("h", [x]) => at.0 += x,
            ("v", [y]) => at.1 += y,
            ("z", []) => continue,
            other => panic!("{other:?}"),
        }
        out.push(at);
    }
    out
}

fn texts(plot: &Plot) -> Vec<String> {
    let document = Document::parse(&plot.svg).unwrap();
    let texts = document
        .descendants()
        .filter(|node| node.has_tag_name("text"));
    texts
        .map(|node| node.text().unwrap().trim().to_owned())
        .collect()
}

fn named(report: &Report, name: &str) -> Plot {
    let mut plots = plot::all(report).into_iter();
    plots.find(|plot| plot.name == name).unwrap()
}

/// Number of parts of what has this class in the plot of the throughput.
fn parts(report: &Report, class: &str) -> usize {
    let plot = named(report, "throughput");
    let page = Document::parse(&plot.figure).unwrap();
    let mut paths = page.descendants();
    let path = paths.find(|node| node.attribute("class") == Some(class));
    path.unwrap().attribute("d").unwrap().matches('M').count()
}

#[test]
fn the_plots_of_a_run_say_what_they_said() {
    let mut out = String::new();
    let plots = plot::all(&open(long(20, 4))).into_iter();
    for plot in plots.chain(plot::all(&long(20, 4)).pop()) {
        let _ = writeln!(out, "# {}: {}\n{}", plot.name, plot.title, plot.caption);
        let _ = writeln!(out, "{:?}\n{}\n", shapes(&plot), texts(&plot).join(" | "));
    }
    crate::golden("plots.txt", &out);
}

#[test]
fn an_hour_of_64_shards_is_drawn_like_a_minute_of_one() {
    let report = long(3_600, 64);
    let of_hour = plot::all(&report);
    for plot in &of_hour {
        shapes(plot);
    }
    let page = page::run(&report, &words::doc(&report, &of_hour), &of_hour);
    assert!(page.len() < 250_000, "{} bytes", page.len());
    assert!(
        named(&long(3_600, 64), "throughput")
            .svg
            .contains("steps of 12")
    );
    let names: Vec<&str> = of_hour.iter().map(|plot| plot.name).collect();
    assert_eq!(names, plot::names());
    assert_eq!(of_hour.len(), plot::all(&long(60, 1)).len());
    shapes(&named(&long(600, 1_024), "shards"));
}

#[test]
fn degenerate_runs_are_drawn_too() {
    let mut nothing = long(0, 1);
    nothing.totals.duration_s = 0.0;
    nothing
        .latency
        .values_mut()
        .for_each(|one| (one.count, one.hdr) = (0, None));
    nothing.shards[0].course = ShardCourse::default();
    let mut unanswered = long(5, 2);
    unanswered
        .latency
        .values_mut()
        .for_each(|one| (one.count, one.hdr) = (0, None));
    for row in &mut unanswered.intervals {
        row.spread = None;
        (row.p50_us, row.p90_us, row.p99_us) = (None, None, None);
    }
    let mut odd = long(3, 1);
    odd.totals.duration_s = f64::NAN;
    odd.intervals[1].p50_us = Some(f64::NAN);
    odd.intervals[2].p99_us = Some(0.0);
    odd.intervals[0].offered = Some(f64::INFINITY);
    odd.latency
        .values_mut()
        .for_each(|one| one.hdr = Some("no base64!".to_owned()));
    let mut short = long(1, 1);
    short.totals.duration_s = 0.004;
    let mut audit = long(2, 1);
    let budget = audit.budget.as_mut().unwrap();
    budget.worst_window = None;
    budget.unaudited_shards = 1;
    budget.busiest.clear();
    let reports = vec![
        nothing,
        unanswered,
        odd,
        short,
        audit,
        saved(),
        open(saved()),
    ];
    for report in reports {
        for plot in plot::all(&report) {
            shapes(&plot);
        }
    }
}

#[test]
fn a_course_has_holes_and_says_how_high_its_peaks_are() {
    let mut report = long(20, 2);
    let stalls = |n: usize| (100..110).contains(&n);
    let good = |n: usize| match n {
        110 => 1_000,
        n if stalls(n) => 0,
        _ => 100,
    };
    let heat = |n: usize| {
        (!stalls(n)).then(|| HeatColumn {
            first: 60,
            counts: vec![good(n) / 2, good(n) / 2],
        })
    };
    report.course = Some(Course {
        start_ms: 0,
        step_ms: 100,
        good: (0..200).map(good).collect(),
        not_found: vec![0; 200],
        throttled: vec![0; 200],
        failed: vec![0; 200],
        in_flight: vec![4; 200],
        heat: (0..200).map(heat).collect(),
    });
    let plot = named(&report, "throughput");
    shapes(&plot);
    assert!(
        texts(&plot).contains(&"▲ 10k".to_owned()),
        "{:?}",
        texts(&plot)
    );
    let page = Document::parse(&plot.figure).unwrap();
    let mut paths = page.descendants();
    let area = paths
        .find(|node| node.attribute("class") == Some("blue"))
        .unwrap();
    let places = corners(area);
    let lowest = places.iter().map(|(_, y)| *y).fold(0.0, f64::max);
    let hole = places.iter().filter(|(_, y)| *y > lowest - 0.1).count();
    assert!(hole > 2, "a stall is a hole");
    let plot = named(&report, "latency");
    shapes(&plot);
    for name in ["p50", "p99"] {
        assert!(texts(&plot).contains(&name.to_owned()), "{name}");
    }
}

#[test]
fn a_plot_with_nothing_to_show_is_left_out() {
    let mut sound = long(5, 1);
    sound.totals.requests = RequestCounts::default();
    sound.ledger.items = ItemCounts::default();
    for row in &mut sound.intervals {
        (
            row.throttled,
            row.retries,
            row.failed,
            row.connections_opened,
        ) = (0, 0, 0, 0);
        (row.ok, row.not_found, row.aborted) = (row.attempts, 0, 0);
        row.soft_blocked = 0;
    }
    sound.budget = None;
    let plots = plot::all(&sound);
    for name in ["errors", "connections"] {
        assert!(plots.iter().all(|plot| plot.name != name), "{name}");
    }
}

#[test]
fn requests_lie_on_top_of_each_other_by_outcome() {
    let mut report = long(4, 1);
    for (n, row) in (1..).zip(&mut report.intervals) {
        (row.ok, row.not_found, row.throttled) = (100 * n, 70 * n, 50 * n);
        (row.attempts, row.aborted) = (250 * n, 0);
    }
    let plot = named(&report, "throughput");
    let page = Document::parse(&plot.figure).unwrap();
    let edges = |class: &str| {
        let mut paths = page.descendants().filter(|node| node.has_tag_name("path"));
        let area = paths
            .find(|node| node.attribute("class") == Some(class))
            .unwrap();
        let (tops, bases) = {
            let all = corners(area);
            (all[..8].to_vec(), all[8..].to_vec())
        };
        (tops, bases.into_iter().rev().collect::<Vec<_>>())
    };
    let [good, not_found, throttled, failed] = ["blue", "sky", "orange", "red"].map(edges);
    let last = |places: &[(f64, f64)]| places.last().unwrap().1;
    let height = |(tops, bases): &(Vec<_>, Vec<_>)| last(bases) - last(tops);
    for (below, above, of) in [
        (&good, &not_found, 70.0),
        (&not_found, &throttled, 50.0),
        (&throttled, &failed, 30.0),
    ] {
        for (top, base) in below.0.iter().zip(&above.1) {
            assert!(
                (top.0 - base.0).abs() + (top.1 - base.1).abs() < 0.3,
                "{top:?} {base:?}"
            );
        }
        assert!(
            (height(above) / height(&good) - of / 100.0).abs() < 0.02,
            "{of}"
        );
    }
}

#[test]
fn what_was_not_reported_is_a_gap() {
    let mut report = long(9, 1);
    let known = |report: &Report| ["blue", "grey line"].map(|class| parts(report, class));
    assert_eq!(known(&report), [1, 1]);
    report.intervals[4].offered = Some(f64::NAN);
    assert_eq!(known(&report), [1, 2]);
    report.intervals.remove(4);
    assert_eq!(known(&report), [2, 2]);
}

#[test]
fn committed_studies_are_read_back_and_drawn_as_they_lie_there() {
    let results = Path::new(env!("CARGO_MANIFEST_DIR"));
    let drawn = |plots: Vec<Plot>, folder: &str| {
        let [plot] = &plots[..] else {
            panic!("one picture")
        };
        let file = results.join(folder).join("plots").join(plot.name);
        let committed = std::fs::read_to_string(file.with_extension("svg")).unwrap();
        assert_eq!(plot.svg, committed, "crawlmark report results/{folder}");
    };
    let scaling: Scaling = read_study(&results.join("scale")).unwrap();
    drawn(scaling.plots(), "scale");
    let ladder: Scenarios = read_study(&results.join("ladder")).unwrap();
    drawn(ladder.plots(), "ladder");
    let contest: Contest = read_study(&results.join("ab")).unwrap();
    drawn(contest.plots(), "ab");
    let capacity: Capacity = read_study(&results.join("capacity/search")).unwrap();
    drawn(capacity.plots(), "capacity/search");
    let arena: Arena = read_study(&results.join("arena")).unwrap();
    drawn(arena.plots(), "arena");
}

#[test]
fn the_end_of_a_run_is_no_second() {
    let mut report = long(5, 2);
    report.totals.duration_s = 0.3;
    report.intervals.truncate(1);
    report.totals.peak_in_flight = 7;
    let plot = named(&report, "in-flight");
    assert!(plot.caption.contains("At most 7 "), "{}", plot.caption);
    let is_known = texts(&plot).iter().any(|text| text == "in flight");
    assert!(!is_known, "nothing is known of the end of a second");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_was_counted_is_drawn(
        counts in prop::collection::vec((0..u64::from(u32::MAX), 0..1_000_u64, 0..400_u32, prop::option::of(0.0..1e9f64)), 1..12),
        duration_s in 0.0..20.0f64,
    ) {
        let mut report = long(counts.len() as u64, 2);
        report.totals.duration_s = duration_s;
        for (row, (attempts, failed, cell, us)) in report.intervals.iter_mut().zip(counts) {
            (row.attempts, row.failed, row.p50_us, row.p99_us) = (attempts, failed, us, us);
            row.spread = us.map(|_| Spread { first: cell, counts: vec![1, attempts] });
        }
        for plot in plot::all(&report) {
            shapes(&plot);
        }
    }
}
