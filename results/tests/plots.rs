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

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crawlmark_harness::stats::SecondCounts;
use crawlmark_results::run::report::{
    BinRow, BindingReport, BudgetReport, BusiestReport, Course, IntervalRow, Report,
    ScheduleReport, ShardReport, Spread, WindowReport,
};
use crawlmark_results::run::words;
use crawlmark_results::show::plot::{self, Plot};
use hdrhistogram::serialization::Serializer;
use proptest::prelude::*;

/// A run as it was saved once, of which a test changes what it is about.
fn saved() -> Report {
    let golden = include_str!("golden/whole.json.snap");
    let json = golden.splitn(3, "---").nth(2).unwrap();
    serde_json::from_str(json).unwrap()
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

/// The caption of the plot of latencies over time.
fn latency_caption(report: &Report) -> String {
    plot::all(report)
        .into_iter()
        .find(|plot| plot.name == "latency")
        .unwrap()
        .caption
}

#[test]
fn the_caption_of_latencies_says_how_many_seconds_are_not_drawn() {
    let mut report = long(60, 2);
    (report.totals.duration_s, report.schedule) = (60.4, None);
    report.intervals.push(IntervalRow {
        p50_us: None,
        p90_us: None,
        p99_us: None,
        ..second(60, &report.intervals[0])
    });
    assert!(
        !latency_caption(&report).contains("fewer than"),
        "the last second is not whole"
    );
    for (n, row) in report.intervals.iter_mut().enumerate() {
        row.p50_us = row.p50_us.filter(|_| n % 12 != 3);
        row.p99_us = row.p99_us.filter(|_| n % 12 != 3 && n % 30 != 4);
    }
    let caption = latency_caption(&report);
    let undrawn = "5 of 60 seconds had fewer than 20 responses and are not drawn. 2 others had fewer than 1,000 responses, too few for \
                   a p99.";
    assert!(caption.ends_with(undrawn), "{caption}");
    // No p99 shows how slow that second was.
    (report.intervals[4].p99_us, report.intervals[4].p50_us) = (None, Some(5e6));
    let slowest = "The slowest second (4 s) had a p50 of 5.00 s, and too few responses for a p99; of the other seconds, the slowest \
                   (6 s) had a p99 of 1.60 s.";
    assert!(
        latency_caption(&report).contains(slowest),
        "{}",
        latency_caption(&report)
    );
}

fn shard(number: u32, seconds: u64, like: &ShardReport) -> ShardReport {
    let mut shard = like.clone();
    let steps = seconds.div_ceil(600).max(1);
    let length = usize::try_from(seconds.div_ceil(steps)).unwrap();
    // The second one is the slowest.
    let attempts = if number == 1 { 300 } else { 500 };
    shard.shard = number;
    shard.totals.attempts = attempts * seconds;
    shard.course = Course {
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
    report
}

/// Asserts what holds of every plot, at each width, and returns how many of each shape it has.
fn shapes(plot: &Plot) -> BTreeMap<String, usize> {
    let document = roxmltree::Document::parse(&plot.svg)
        .unwrap_or_else(|error| panic!("{}: {error}", plot.name));
    let root = document.root_element();
    assert_eq!(root.attribute("role"), Some("img"), "{}", plot.name);
    let text = |tag| {
        root.children()
            .find(|node| node.has_tag_name(tag))
            .and_then(|node| node.text())
    };
    assert_eq!(
        (text("title"), text("desc")),
        (Some(plot.title), Some(&*plot.caption))
    );
    assert!(
        plot.svg.len() < 512 << 10,
        "{} has {} bytes",
        plot.name,
        plot.svg.len()
    );
    assert!(
        plot.caption.ends_with('.') && plot.caption.len() < 360,
        "{}: {}",
        plot.name,
        plot.caption
    );
    for unwanted in ["NaN", "inf", "Infinity"] {
        assert!(!plot.svg.contains(unwanted), "{} has {unwanted}", plot.name);
    }
    let figure = format!("<figure>{}</figure>", plot.figure);
    let in_page = roxmltree::Document::parse(&figure).unwrap();
    let in_page: Vec<_> = in_page
        .descendants()
        .filter(|node| node.has_tag_name("svg"))
        .collect();
    let widths: Vec<_> = in_page
        .iter()
        .map(|svg| svg.attribute("width").unwrap())
        .collect();
    assert_eq!(widths, ["640", "360"], "{}", plot.name);
    for svg in in_page {
        drawn(plot, svg);
    }
    drawn(plot, root)
}

/// Places that a path passes, in order.
fn corners(path: roxmltree::Node<'_, '_>) -> Vec<(f64, f64)> {
    let (mut at, mut out) = ((0.0, 0.0), Vec::new());
    let text = path.attribute("d").unwrap().trim_end_matches('z');
    let starts: Vec<usize> = text
        .match_indices(char::is_alphabetic)
        .map(|(n, _)| n)
        .chain([text.len()])
        .collect();
    for part in starts.windows(2).map(|ends| &text[ends[0]..ends[1]]) {
        let numbers: Vec<f64> = part[1..].split(' ').map(|n| n.parse().unwrap()).collect();
        match (&part[..1], &numbers[..]) {
            ("M", [x, y]) => at = (*x, *y),
            ("m", [x, y]) => at = (at.0 + x, at.1 + y),
            ("h", [x]) => at.0 += x,
            ("v", [y]) => at.1 += y,
            other => panic!("{other:?}"),
        }
        out.push(at);
    }
    out
}

/// Asserts that all shapes lie within a drawing, and returns how many of each it has.
fn drawn(plot: &Plot, root: roxmltree::Node<'_, '_>) -> BTreeMap<String, usize> {
    let frame: Vec<f64> = root
        .attribute("viewBox")
        .unwrap()
        .split(' ')
        .map(|n| n.parse().unwrap())
        .collect();
    let mut counts = BTreeMap::new();
    for node in root.descendants().filter(roxmltree::Node::is_element) {
        *counts.entry(node.tag_name().name().to_owned()).or_default() += 1;
        let number = |name| {
            node.attribute(name)
                .map_or(0.0, |n: &str| n.parse::<f64>().unwrap())
        };
        match node.tag_name().name() {
            "polyline" => {
                let points = node.attribute("points").unwrap().split_whitespace();
                let points = points.map(|point| point.split_once(',').unwrap());
                let points: Vec<(f64, f64)> = points
                    .map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap()))
                    .collect();
                assert!(
                    points
                        .iter()
                        .all(|(x, y)| *x >= 0.0 && *x <= frame[2] && *y >= 0.0 && *y <= frame[3])
                );
                assert!(
                    points.is_sorted_by(|a, b| a.0 <= b.0),
                    "{}: time goes on",
                    plot.name
                );
            }
            "rect" => {
                assert!(
                    number("width") >= 0.0 && number("height") >= 0.0,
                    "{}",
                    plot.name
                );
                assert!(number("x") + number("width") <= frame[2], "{}", plot.name);
                assert!(number("y") + number("height") <= frame[3], "{}", plot.name);
            }
            "path" => {
                for (x, y) in corners(node) {
                    assert!(
                        x >= 0.0 && x <= frame[2] && y >= 0.0 && y <= frame[3],
                        "{}: {x}, {y}",
                        plot.name
                    );
                }
            }
            "text" => {
                let anchor = node.attribute("text-anchor").unwrap();
                let text = node.text().unwrap().trim();
                assert!(!text.is_empty(), "{}", plot.name);
                // By the widest common sans-serif.
                let width = text.chars().count() as f64 * number("font-size") * 0.56;
                assert!(number("font-size") >= 11.0, "{}", plot.name);
                let left = number("x")
                    - if anchor == "end" {
                        width
                    } else if anchor == "middle" {
                        width / 2.0
                    } else {
                        0.0
                    };
                assert!(
                    left >= 0.0 && left + width <= frame[2],
                    "{}: `{text}` is cut",
                    plot.name
                );
                assert!(
                    number("y") > 0.0 && number("y") < frame[3],
                    "{}: `{text}` is outside",
                    plot.name
                );
            }
            _ => {}
        }
    }
    counts
}

fn texts(plot: &Plot) -> Vec<String> {
    let document = roxmltree::Document::parse(&plot.svg).unwrap();
    let texts = document
        .descendants()
        .filter(|node| node.has_tag_name("text"));
    texts
        .map(|node| node.text().unwrap().trim().to_owned())
        .collect()
}

fn named(report: &Report, name: &str) -> Plot {
    plot::all(report)
        .into_iter()
        .find(|plot| plot.name == name)
        .unwrap()
}

#[test]
fn the_plots_of_a_run_say_what_they_said() {
    let mut out = String::new();
    for plot in plot::all(&open(long(20, 4)))
        .into_iter()
        .chain(plot::all(&long(20, 4)).pop())
    {
        let _ = writeln!(out, "# {}: {}\n{}", plot.name, plot.title, plot.caption);
        let _ = writeln!(out, "{:?}\n{}\n", shapes(&plot), texts(&plot).join(" | "));
    }
    insta::with_settings!({ snapshot_path => "golden", prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("plots.txt", out);
    });
}

#[test]
fn an_hour_of_64_shards_is_drawn_like_a_minute_of_one() {
    let of_hour = plot::all(&long(3_600, 64));
    for plot in &of_hour {
        shapes(plot);
    }
    assert!(
        named(&long(3_600, 64), "throughput")
            .svg
            .contains("each step: mean of 30 s")
    );
    assert_eq!(of_hour.len(), plot::all(&long(60, 1)).len());
    assert_eq!(
        of_hour.iter().map(|plot| plot.name).collect::<Vec<_>>(),
        plot::NAMES
    );
    shapes(&named(&long(600, 1_024), "shards"));
}

#[test]
fn degenerate_runs_are_drawn_too() {
    let mut nothing = long(0, 1);
    nothing.totals.duration_s = 0.0;
    nothing
        .latency
        .values_mut()
        .for_each(|latency| (latency.count, latency.hdr) = (0, None));
    nothing.shards[0].course = Course::default();
    let mut unanswered = long(5, 2);
    unanswered
        .latency
        .values_mut()
        .for_each(|latency| (latency.count, latency.hdr) = (0, None));
    for row in &mut unanswered.intervals {
        (row.spread, row.p50_us, row.p90_us, row.p99_us) = (None, None, None, None);
        (
            row.response_p50_us,
            row.response_p90_us,
            row.response_p99_us,
        ) = (None, None, None);
    }
    let mut odd = long(3, 1);
    odd.totals.duration_s = f64::NAN;
    odd.intervals[1].p50_us = Some(f64::NAN);
    odd.intervals[2].p99_us = Some(0.0);
    odd.intervals[0].offered = Some(f64::INFINITY);
    odd.latency
        .values_mut()
        .for_each(|latency| latency.hdr = Some("no base64!".to_owned()));
    let mut short = long(1, 1);
    short.totals.duration_s = 0.004;
    let mut audit = long(2, 1);
    audit.budget = Some(BudgetReport {
        worst_window: None,
        busiest: Vec::new(),
        unaudited_shards: 1,
        ..audit.budget.clone().unwrap()
    });
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
    let mut unanswered = long(2, 1);
    unanswered
        .intervals
        .iter_mut()
        .for_each(|row| row.spread = None);
    assert!(
        plot::all(&unanswered)
            .iter()
            .all(|plot| plot.name != "heat"),
        "nothing is drawn of nothing"
    );
}

#[test]
fn a_chart_without_anything_to_show_is_left_out_and_the_page_says_so() {
    let mut sound = long(5, 1);
    for row in &mut sound.intervals {
        (
            row.failed,
            row.throttled,
            row.retries,
            row.soft_blocked,
            row.aborted,
        ) = (0, 0, 0, 0, 0);
        row.connections_opened = 0;
    }
    let ledger = &mut sound.ledger;
    (
        ledger.ok,
        ledger.not_found,
        ledger.failed,
        ledger.gave_up,
        ledger.aborted,
    ) = (5_000, 0, 0, 0, 0);
    let totals = &mut sound.totals;
    (
        totals.throttled,
        totals.retries,
        totals.soft_blocked,
        totals.attempts,
    ) = (0, 0, 0, 5_000);
    totals.errors_by_kind.clear();
    totals.rejected_by_status.clear();
    totals.attempts_by_status = BTreeMap::from([(200, 5_000)]);
    sound.budget.as_mut().unwrap().busiest.clear();
    sound.budget.as_mut().unwrap().worst_window = None;
    let plots = plot::all(&sound);
    let names: Vec<&str> = plots.iter().map(|plot| plot.name).collect();
    assert_eq!(
        names,
        [
            "throughput",
            "latency",
            "spectrum",
            "heat",
            "in-flight",
            "shards"
        ]
    );
    let doc = words::doc(&sound, &plots);
    let (page, markdown) = (doc.html(&plots), doc.markdown());
    for said in [
        "No errors, throttling or retries in 5,000 requests.",
        "No second with a new connection",
        "no audit",
    ] {
        assert!(page.contains(said) && markdown.contains(said), "{said}");
    }
}

#[test]
fn the_warm_up_is_shaded_and_the_slowest_response_of_each_second_drawn() {
    let mut report = long(9, 1);
    report.plan.run.warmup = std::time::Duration::from_secs(2);
    report
        .intervals
        .iter_mut()
        .for_each(|row| row.max_us = Some(5e6));
    for name in [
        "throughput",
        "latency",
        "in-flight",
        "errors",
        "connections",
    ] {
        let plot = named(&report, name);
        shapes(&plot);
        assert_eq!(
            plot.svg.matches("<rect class=\"shade\"").count(),
            2,
            "{name}: the band and its key"
        );
        assert!(texts(&plot).iter().any(|text| text == "warm-up"), "{name}");
    }
    assert!(
        texts(&named(&report, "latency"))
            .iter()
            .any(|text| text == "service, maximum")
    );
}

/// Edges of the areas of a class, level by level: left, right, bottom, top, from the left.
fn areas(plot: &Plot, class: &str) -> Vec<[f64; 4]> {
    let document = roxmltree::Document::parse(&plot.svg).unwrap();
    let paths = document
        .descendants()
        .filter(|node| node.has_tag_name("path") && node.attribute("class") == Some(class));
    let levels = |path| {
        let corners = corners(path);
        let level = |two: &[(f64, f64)]| [two[0].0.min(two[1].0), two[0].0.max(two[1].0), two[0].1];
        let along = |is_back: bool| {
            let lines = corners.windows(2).filter(move |two| {
                if is_back {
                    two[0].0 > two[1].0
                } else {
                    two[0].0 < two[1].0
                }
            });
            lines.map(level).collect::<Vec<_>>()
        };
        let bases = along(true);
        let base = |at: f64| {
            bases
                .iter()
                .find(|[left, right, _]| (*left..*right).contains(&at))
                .unwrap()[2]
        };
        let edges =
            |[left, right, top]: [f64; 3]| [left, right, base(f64::midpoint(left, right)), top];
        along(false).into_iter().map(edges).collect::<Vec<_>>()
    };
    paths.flat_map(levels).collect()
}

/// Values at both ends of each step of the line or area that `legend` names, read from its place
/// between the ticks of the axis.
fn values(plot: &Plot, legend: &str) -> Vec<f64> {
    let document = roxmltree::Document::parse(&plot.svg).unwrap();
    let shapes: Vec<_> = document
        .descendants()
        .filter(roxmltree::Node::is_element)
        .collect();
    let ys = |line: &roxmltree::Node<'_, '_>| -> Vec<f64> {
        let points = line.attribute("points").unwrap().split_whitespace();
        points
            .map(|point| point.split_once(',').unwrap().1.parse().unwrap())
            .collect()
    };
    let of_class = |class| {
        shapes.iter().filter(move |shape| {
            shape.has_tag_name("polyline") && shape.attribute("class") == Some(class)
        })
    };
    let grid: Vec<f64> = of_class("grid").map(|line| ys(line)[0]).collect();
    let ticks = shapes
        .iter()
        .filter(|shape| shape.attribute("text-anchor") == Some("end"));
    let greatest = ticks
        .map(|tick| tick.text().unwrap().replace(',', "").parse().unwrap())
        .fold(0.0, f64::max);
    let (zero, top) = (
        grid.iter().copied().fold(0.0, f64::max),
        grid.iter().copied().fold(f64::MAX, f64::min),
    );
    // The key is a line or a rectangle, too, right before its text.
    let key = shapes
        .windows(2)
        .find(|two| two[1].text().is_some_and(|text| text.trim() == legend))
        .unwrap()[0];
    let class = key.attribute("class").unwrap();
    let value = |px: f64| greatest * px / (zero - top);
    if key.has_tag_name("rect") {
        return areas(plot, class)
            .iter()
            .flat_map(|[_, _, low, high]| [value(low - high); 2])
            .collect();
    }
    let drawn = of_class(class).find(|line| **line != key).unwrap();
    ys(drawn).into_iter().map(|y| value(zero - y)).collect()
}

#[test]
fn an_open_loop_has_its_schedule_and_what_completed() {
    let mut report = open(long(6, 1));
    // A stall: what was scheduled for the third second completed in the fourth.
    let (scheduled, completed) = (
        [1_000, 1_200, 1_000, 1_100, 500, 1_000],
        [1_000, 1_200, 100, 2_000, 500, 250],
    );
    for (row, (scheduled, completed)) in report
        .intervals
        .iter_mut()
        .zip(scheduled.into_iter().zip(completed))
    {
        (row.scheduled, row.attempts, row.ok) = (Some(scheduled), completed, completed);
        (row.not_found, row.throttled) = (0, 0);
    }
    let plot = named(&report, "throughput");
    let texts = texts(&plot);
    assert!(
        ["scheduled", "good"]
            .iter()
            .all(|legend| texts.iter().any(|text| text == legend)),
        "{texts:?}"
    );
    assert!(
        !texts
            .iter()
            .any(|text| text == "offered" || text == "achieved"),
        "{texts:?}"
    );
    for (legend, count) in [("scheduled", scheduled), ("good", completed)] {
        let drawn = values(&plot, legend);
        assert_eq!(drawn.len(), 2 * count.len(), "{legend}");
        for (value, count) in drawn.iter().zip(count.iter().flat_map(|count| [*count; 2])) {
            // A coordinate has one decimal.
            assert!((value - count as f64).abs() < 3.0, "{legend}: {drawn:?}");
        }
    }
}

#[test]
fn requests_lie_on_top_of_each_other_by_outcome() {
    let mut report = long(4, 1);
    for (n, row) in report.intervals.iter_mut().enumerate() {
        let n = n as u64 + 1;
        (row.ok, row.not_found, row.throttled, row.attempts) = (100 * n, 70 * n, 50 * n, 250 * n);
    }
    report.totals.rejected_by_status = [(500, 300)].into();
    assert!(
        texts(&named(&report, "errors"))
            .iter()
            .any(|text| text == "requests failed")
    );
    let plot = named(&report, "throughput");
    let heights = [
        ("good", 100.0),
        ("not found", 70.0),
        ("throttled", 50.0),
        ("failed", 30.0),
    ];
    for (legend, height) in heights {
        let drawn = values(&plot, legend);
        let is_right =
            |(n, value): (usize, &f64)| (value - height * (n / 2 + 1) as f64).abs() < 6.0;
        assert!(
            drawn.len() == 8 && drawn.iter().enumerate().all(is_right),
            "{legend}: {drawn:?}"
        );
    }
    for (below, above) in [("blue", "sky"), ("sky", "orange"), ("orange", "vermilion")] {
        let tops = areas(&plot, below).into_iter().zip(areas(&plot, above));
        tops.for_each(|(below, above)| {
            assert!((below[3] - above[2]).abs() < 0.15, "{below:?} {above:?}");
        });
    }
}

#[test]
fn a_stall_of_800_ms_lasts_800_ms_in_the_plots_of_a_short_run() {
    let mut report = long(10, 1);
    for row in &mut report.intervals {
        let bin = |tenth: u64| {
            let stalls = (42..50).contains(&tenth);
            let ok = if stalls { 0 } else { 100 };
            let counts = SecondCounts {
                attempts: ok,
                items: ok,
                ok,
                ..SecondCounts::default()
            };
            // Requests that the stall caught.
            let slowest = if tenth == 41 { 800_000.0 } else { 3_000.0 };
            BinRow {
                counts,
                p50_us: (!stalls).then_some(2_000),
                max_us: (!stalls).then_some(slowest),
                ..BinRow::default()
            }
        };
        row.bins = Some((row.start_s * 10..).take(10).map(bin).collect());
        (row.ok, row.attempts, row.not_found, row.throttled) = (1_000, 1_000, 0, 0);
    }
    let json = serde_json::to_string(&report).unwrap();
    assert!(
        json.contains("\"bins\":{\"attempts\":[100,") && !json.contains("\"retries\":[0"),
        "columns of nothing are left out"
    );
    let mut read: Report = serde_json::from_str(&json).unwrap();
    assert_eq!(read.intervals, report.intervals);

    let shape = |report: &Report, name: &str, legend: &str| {
        let panels: serde_json::Value =
            serde_json::from_str(&named(report, name).data.unwrap()).unwrap();
        panels[0]["marks"]
            .as_array()
            .unwrap()
            .iter()
            .find(|mark| mark["legend"] == legend)
            .unwrap()["shape"]
            .clone()
    };
    assert_eq!(
        shape(&read, "throughput", "good")["areas"]["y"],
        serde_json::json!([1_000, [41], 0, [7], 1_000, [49]])
    );
    let steps = |legend: &str| shape(&read, "latency", legend)["steps"].clone();
    let slowest = serde_json::json!([3_000, [40], 800_000, null, [7], 3_000, [49]]);
    assert_eq!(steps("service, maximum")["y"], slowest);
    assert_eq!(steps("service, p50")["width"], 0.1);
    assert_eq!(
        steps("service, p99 of each second")["width"],
        1.0,
        "a tenth of a second has too few requests for it"
    );

    // Lines of few requests would be noise.
    read.intervals.iter_mut().for_each(|row| row.attempts = 90);
    assert_eq!(shape(&read, "throughput", "good")["areas"]["width"], 1.0);
}

#[test]
fn what_was_not_reported_is_a_gap() {
    let lines = |report: &Report| {
        let plot = named(report, "throughput");
        let document = roxmltree::Document::parse(&plot.svg).unwrap();
        document
            .descendants()
            .filter(|node| node.has_tag_name("polyline"))
            .count()
    };
    let whole = long(9, 1);
    let mut gap = whole.clone();
    gap.intervals.remove(4);
    assert_eq!(
        lines(&gap),
        lines(&whole) + 1,
        "what was requested is broken"
    );
    let width = |report: &Report| {
        let good = areas(&named(report, "throughput"), "blue");
        good.iter()
            .map(|[left, right, ..]| right - left)
            .sum::<f64>()
    };
    assert!(
        (width(&gap) / width(&whole) - 8.0 / 9.0).abs() < 0.01,
        "and so is what came back"
    );
    let mut not_a_number = whole.clone();
    not_a_number.intervals[4].offered = Some(f64::NAN);
    assert_eq!(
        lines(&not_a_number),
        lines(&whole) + 1,
        "what is offered is broken, for nobody knows it"
    );
    let achieved = texts(&named(&gap, "throughput"));
    assert_eq!(
        achieved,
        texts(&named(&whole, "throughput")),
        "no rate is halved by a second that nobody knows"
    );
}

#[test]
fn the_last_percentile_is_not_cut() {
    let mut all = hdrhistogram::Histogram::<u64>::new(3).unwrap();
    (0..110_000).for_each(|n| all.record(1_000_000 + n).unwrap());
    let mut bytes = Vec::new();
    hdrhistogram::serialization::V2Serializer::new()
        .serialize(&all, &mut bytes)
        .unwrap();
    let mut report = long(5, 1);
    let service = report.latency.get_mut("service").unwrap();
    (service.count, service.hdr) = (110_000, Some(STANDARD.encode(bytes)));
    let plot = named(&report, "spectrum");
    shapes(&plot);
    assert!(texts(&plot).iter().any(|text| text == "99.999 %"));
}

#[test]
fn the_end_of_a_run_is_no_second() {
    let mut report = long(5, 2);
    report.totals.duration_s = 4.05;
    let cells = |report: &Report| shapes(&named(report, "heat"))["path"];
    report.intervals[4].spread = Some(Spread {
        first: 34,
        counts: vec![1],
    });
    let with_a_sliver = cells(&report);
    report.intervals[4].spread = None;
    assert_eq!(
        with_a_sliver,
        cells(&report),
        "a few answers of the last moment are no column"
    );
    report.totals.duration_s = 0.3;
    report.intervals.truncate(1);
    report.intervals[0].in_flight = 0;
    report.totals.peak_in_flight = 7;
    let plot = named(&report, "in-flight");
    assert!(
        plot.caption.starts_with("Peak concurrency: 7 of"),
        "{}",
        plot.caption
    );
    assert!(
        texts(&plot)
            .iter()
            .all(|text| text != "at the end of each second"),
        "nothing is known of the end of a second"
    );
}

#[test]
fn the_straggler_is_named() {
    assert!(
        named(&long(30, 4), "shards")
            .caption
            .starts_with("Shard 1 lagged: 60 %")
    );
    assert!(
        texts(&named(&long(30, 4), "shards"))
            .iter()
            .any(|text| text == "\u{25b8} 1")
    );
    let mut even = long(30, 4);
    even.shards[1].totals.attempts = even.shards[0].totals.attempts;
    assert!(
        named(&even, "shards")
            .caption
            .starts_with("Shards were balanced.")
    );
}

#[test]
fn a_budget_that_was_broken_stands_out() {
    let mut report = long(5, 1);
    let budget = report.budget.as_mut().unwrap();
    budget.kept = false;
    budget.busiest = vec![BusiestReport {
        width_ms: 1_000,
        host: None,
        admitted: 1_500,
        allowed: 1_000,
    }];
    budget.worst_window = Some(WindowReport {
        shard: 0,
        host: None,
        width_ms: 12.34,
        admitted: 9,
        allowed: 10,
    });
    let plot = named(&report, "budget");
    shapes(&plot);
    assert!(plot.caption.contains("WAS exceeded"));
    assert!(texts(&plot).iter().any(|text| text == "1,500 of 1,000"));
    assert_eq!(
        plot.svg.matches("<rect class=\"vermilion\"").count(),
        2,
        "the bar and its key"
    );
}

#[test]
fn hostile_words_stay_words() {
    let mut report = long(5, 2);
    report.shards[1].fault = Some("<script>&\"'".to_owned());
    let plot = named(&report, "shards");
    shapes(&plot);
    assert!(plot.caption.contains("<script>&") && !plot.svg.contains("<script>"));
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
