//! Results of other tools, in `tests/import`: those of hyperfine, Go and criterion were written by them
//! (1.15, 1.19 and 0.8), those of hyperfine 2, vegeta and k6 follow their documentation.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::fs;
use std::path::{Path, PathBuf};

use crawlmark_results::import::{Imported, import, parse};
use crawlmark_results::studies::Header;
use crawlmark_results::studies::compare::Worse;
use crawlmark_results::studies::shift::Shift;
use crawlmark_results::studies::sides::Sides;
use proptest::prelude::*;
use proptest::sample::Index;

const FILES: [&str; 9] = [
    "hyperfine.json",
    "hyperfine-2.json",
    "go.txt",
    "vegeta.json",
    "k6-summary-export.json",
    "k6-handle-summary.json",
    "k6-machine-readable.json",
    "criterion/sort 1000/new/sample.json",
    "criterion/format/pad/100/new/estimates.json",
];

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/import")
        .join(name)
}

/// Each series: benchmark, metric, unit, direction, number of values and the first of them.
fn rows(imported: &Imported) -> Vec<String> {
    let series = imported.series.iter();
    series
        .map(|one| {
            let worse = if one.metric.worse == Worse::More {
                "cost"
            } else {
                "yield"
            };
            let first = one.metric.in_unit(one.values[0]);
            format!(
                "{} | {} | {worse} | {} | {first}",
                one.benchmark,
                one.metric.name,
                one.values.len()
            )
        })
        .collect()
}

#[test]
fn each_format_is_read_as_its_tool_meant_it() {
    let mut text = Vec::new();
    for name in FILES.into_iter().chain(["criterion"]) {
        let imported = import(&path(name)).unwrap();
        text.push(format!("{name}: {}", imported.tool));
        text.extend(rows(&imported).into_iter().map(|row| format!("  {row}")));
    }
    crate::golden("import.txt", &text.join("\n"));
}

#[test]
fn memory_of_newer_versions_of_hyperfine_is_read() {
    let text = r#"{"results": [{"command": "a", "mean": 2, "times": [1, 3], "user": 0.5, "system": 0.25, "memory_usage_byte": [4096, 8192], "exit_codes": [0, 0], "parameters": {"n": "1"}}]}"#;
    let imported = parse(Path::new("new.json"), text).unwrap();
    let values: Vec<&[f64]> = imported.series.iter().map(|one| &*one.values).collect();
    assert_eq!(values, [&[1e6, 3e6][..], &[750_000.0], &[4096.0, 8192.0]]);
}

#[test]
fn a_wrong_file_is_refused_with_its_line() {
    let go = fs::read_to_string(path("go.txt")).unwrap();
    for (text, line, says) in [
        ("", 1, "`go test -bench`"),
        ("# Notes\n", 1, "`go test -bench`"),
        ("PASS\nok  \texample.com\t1.0s\n", 1, "`go test -bench`"),
        (&go.replace("8793 ns/op", "fast ns/op"), 8, "found `fast`"),
        (&go.replace("2467", "2467.5"), 8, "found `2467.5`"),
        ("{\n  \"a\": 1\n}", 1, "vegeta report"),
        (
            "{\n  \"results\": [\n    {\"command\": \"a\"}\n  ]\n}",
            1,
            "list of numbers at `/times`",
        ),
        (
            "{\"results\": [{\"command\": \"a\", \"times\": []}]}",
            1,
            "no value",
        ),
        (
            "{\"results\": [{\"command\": \"a\", \"measurements\": [{\"time_wall_clock\": {\"value\": 1, \"unit\": \"minute\"}}]}]}",
            1,
            "`time_wall_clock` with a value in the unit `second`",
        ),
        (
            "{\"results\": {\"metrics\": [{\"name\": \"http_req_duration\", \"type\": \"trend\"}]}}",
            1,
            "a number at `/config/duration`",
        ),
        ("{\"results\": []}", 1, "no measurement of hyperfine"),
        (
            "{\"results\": [{\"command\": \"a\", \"times\": [1]}, {\"command\": \"a\", \"times\": [2]}]}",
            1,
            "two results named `a`",
        ),
        (
            "{\"results\": [\n{\"command\": \"a\", \"times\": [1, \"x\"]}]}",
            1,
            "list of numbers at `/times`",
        ),
        ("{\"iters\": [0], \"times\": [1]}", 1, "no finite number"),
        ("{\n\"latencies\": {}}", 1, "a number at `/throughput`"),
        (
            "{\"metrics\": {\"vus\": {\"value\": 1}}}",
            1,
            "no measurement of k6",
        ),
        ("{\n\"metrics\": [", 2, "EOF"),
    ] {
        let error = parse(Path::new("bad"), text).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("bad:{line}: ")) && error.contains(says),
            "{error}"
        );
    }
}

#[test]
fn a_format_that_is_not_read_hears_which_are() {
    for text in [
        r#"[{"name": "a", "unit": "ms", "value": 1.5}]"#,
        r#"{"machine_info": {}, "benchmarks": [{"name": "t", "stats": {"mean": 0.1}}]}"#,
        r#"[{"benchmark": "a.B.c", "mode": "thrpt", "primaryMetric": {"score": 1.0}}]"#,
        "Benchmark   Mode  Cnt  Score   Error  Units\nB.c  thrpt  5  1.0 \u{b1} 0.1  ops/s\n",
        "test cmov ... bench:        2835 ns/iter (+/- 14)\n",
        "Running 10s test @ http://127.0.0.1/\n  Latency   1.2ms\nRequests/sec: 1000.0\n",
        r#"{"summary": {"successRate": 1.0}, "latencyPercentiles": {"p50": 0.01}}"#,
        r#"{"latencies": [1, 2]}"#,
        "",
    ] {
        let said = parse(Path::new("f"), text).unwrap_err().to_string();
        for tool in ["hyperfine", "criterion", "go test", "vegeta", "k6"] {
            assert!(said.contains(tool), "{text}: {said}");
        }
    }
}

#[test]
fn the_direction_that_a_file_gives_counts() {
    for (unit, worse) in [
        ("ns/op", Worse::More),
        ("B/op", Worse::More),
        ("MB/s", Worse::Less),
        ("ops/sec", Worse::Less),
        ("hits", Worse::More),
    ] {
        let line = format!("BenchmarkA 1 5 {unit}\n");
        for (said, worse) in [
            (String::new(), worse),
            (format!("Unit {unit} assume=exact\n"), worse),
            (
                format!("Unit {unit} assume=exact better=higher\n"),
                Worse::Less,
            ),
            (format!("Unit {unit} better=lower\n"), Worse::More),
            (
                "Unit other better=lower\nUnit other better=higher\n".to_owned(),
                worse,
            ),
        ] {
            for text in [said.clone() + &line, line.clone() + &said] {
                let read = parse(Path::new("f"), &text).unwrap();
                assert_eq!(read.series[0].metric.worse, worse, "{text}");
            }
        }
    }
}

#[test]
fn a_directory_is_one_side_of_one_format() {
    let place = tempfile::tempdir().unwrap();
    let copy = |from: &str, to: &str| fs::copy(path(from), place.path().join(to)).unwrap();
    copy("vegeta.json", "1.json");
    copy("vegeta.json", "2.json");
    let imported = import(place.path()).unwrap();
    assert!(imported.series.iter().all(|one| one.values.len() == 2));
    copy("hyperfine.json", "3.json");
    let error = import(place.path()).unwrap_err().to_string();
    assert!(
        error.contains("3.json:1: is of hyperfine, and the files before it are of vegeta"),
        "{error}"
    );
    let empty = tempfile::tempdir().unwrap();
    assert!(import(empty.path()).is_err());
}

/// Two sides, of which one has a metric more.
pub(crate) fn with_findings() -> Vec<Sides> {
    let base = import(&path("go.txt")).unwrap();
    let mut candidate = base.clone();
    candidate.series.retain(|one| one.metric.name != "MB/s");
    for one in &mut candidate.series {
        if one.metric.name == "time/op" {
            one.values.iter_mut().for_each(|value| *value *= 1.25);
        }
    }
    let sides = Sides::new(header(), &base, &candidate).unwrap();
    candidate.series.clear();
    assert!(Sides::new(header(), &base, &candidate).is_none());
    vec![sides]
}

fn header() -> Header {
    Header::new::<Sides>("compare", ["2026-01-01T00:00:00Z"; 2])
}

#[test]
fn two_sides_are_shown_with_what_changed_and_no_verdict() {
    let sides = with_findings().remove(0);
    crate::golden("sides.txt", &crate::both_ends(&sides));
}

/// One benchmark a side is compared whatever it is called, and runs of one name are told apart.
#[test]
fn a_command_is_compared_with_its_changed_self() {
    let read = |results: &str| {
        parse(Path::new("a.json"), &format!("{{\"results\":[{results}]}}")).unwrap()
    };
    let [old, new] = ["./old", "./new"].map(|command| {
        read(&format!(
            "{{\"command\":\"{command}\",\"times\":[1.0,1.1]}}"
        ))
    });
    assert_eq!(Sides::new(header(), &old, &new).unwrap().rows.len(), 1);
    let run = |n: u32| {
        format!("{{\"command\":\"x1\",\"times\":[{n},{n}.1],\"parameters\":{{\"n\":\"{n}\"}}}}")
    };
    let scan = read(&[run(1), run(2)].join(","));
    let rows = Sides::new(header(), &scan, &scan).unwrap().rows;
    assert!(
        rows.iter()
            .all(|row| (row.shift.before - row.shift.after).abs() < 1e-9),
        "{rows:?}"
    );
    assert!(Sides::new(header(), &scan, &new).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_bytes_are_refused_in_one_line_or_shown(
        file in 0..FILES.len(), at in any::<Index>(), len in 0..40_usize, bytes in proptest::collection::vec(any::<u8>(), 0..12),
    ) {
        let mut damaged = fs::read(path(FILES[file])).unwrap();
        let at = at.index(damaged.len());
        damaged.splice(at..(at + len).min(damaged.len()), bytes.iter().copied());
        crate::laws::check_import(&damaged);
        crate::laws::check_import(&bytes);
        crate::laws::check_import(&[b"Benchmark ", &*bytes].concat());
    }

    /// Independent values, one side of which is greater by a factor.
    #[test]
    fn the_shift_is_the_factor_whatever_the_unit(
        values in proptest::collection::vec(1.0..2.0_f64, 4..30), factor in 0.1..10.0_f64, unit in 1e-3..1e3_f64,
    ) {
        let scaled = |by: f64| values.iter().map(|value| value * by).collect::<Vec<_>>();
        let shift = Shift::between(&scaled(unit), &scaled(unit * factor)).unwrap();
        let (ratio, interval) = (shift.ratio.unwrap(), shift.ratio_interval.unwrap());
        prop_assert!((ratio / factor - 1.0).abs() < 1e-9);
        prop_assert!(interval.low <= ratio && ratio <= interval.high);
        let back = Shift::between(&scaled(unit * factor), &scaled(unit)).unwrap();
        prop_assert!((back.ratio.unwrap() * ratio - 1.0).abs() < 1e-9);
    }
}

/// Gaussian noise, by the sum of twelve.
fn gaussian(draw: &mut fastrand::Rng) -> f64 {
    (0..12).map(|_| draw.f64()).sum::<f64>() - 6.0
}

#[test]
fn the_interval_holds_the_shift_in_95_of_100() {
    let mut draw = fastrand::Rng::with_seed(1);
    for (m, n) in [(4, 4), (5, 9), (10, 10), (30, 8)] {
        let mut side = |count: usize, level: f64| -> Vec<f64> {
            (0..count)
                .map(|_| level * (0.1 * gaussian(&mut draw)).exp())
                .collect()
        };
        let holds = (0..2_000).filter(|_| {
            let shift = Shift::between(&side(m, 1.0), &side(n, 1.3)).unwrap();
            shift.ratio_interval.unwrap().contains(1.3)
        });
        let held = holds.count();
        assert!(
            (1_870..=1_965).contains(&held),
            "{m} and {n}: {held} of 2,000"
        );
    }
    let few = Shift::between(&[1.0; 3], &[1.0; 3]).unwrap();
    assert!(few.ratio == Some(1.0) && few.ratio_interval.is_none());
    let nothing = Shift::between(&[0.0, 1.0], &[1.0]).unwrap();
    assert_eq!((nothing.ratio, nothing.before), (None, 0.5));
}
