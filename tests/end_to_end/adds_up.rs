//! The saved histograms are the run's: every second's line in `latency.hlog`, merged, is the
//! distribution in `result.json`, cell by cell. The other sums are checked for every report that
//! any test reads.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a log that cannot be read fails the test"
)]

use std::collections::BTreeMap;
use std::fs;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

use crate::process::DEADLINE;
use crate::report::Report;
use crate::run::{ONE_ATTEMPT, Run, program};
use crate::target::Target;

fn decode(base64: &str) -> Histogram<u64> {
    Deserializer::new()
        .deserialize(&mut STANDARD.decode(base64).unwrap().as_slice())
        .unwrap()
}

/// The lines of the log, merged by tag, and how many there are of each tag.
fn merged_by_tag(log: &[u8]) -> BTreeMap<String, (Histogram<u64>, usize)> {
    let mut merged: BTreeMap<String, (Histogram<u64>, usize)> = BTreeMap::new();
    for entry in IntervalLogIterator::new(log) {
        let LogEntry::Interval(line) = entry.unwrap_or_else(|error| panic!("{error:?}")) else {
            continue;
        };
        let histogram = decode(line.encoded_histogram());
        let tag = line.tag().unwrap().as_str().to_owned();
        let (sum, lines) = merged
            .entry(tag)
            .or_insert_with(|| (Histogram::new_from(&histogram), 0));
        sum.add(&histogram).unwrap();
        *lines += 1;
    }
    merged
}

/// The cells that hold something, each with the least value that falls into it.
fn cells(histogram: &Histogram<u64>) -> Vec<(u64, u64)> {
    let lowest = |value| histogram.lowest_equivalent(value);
    histogram
        .iter_recorded()
        .map(|cell| (lowest(cell.value_iterated_to()), cell.count_at_value()))
        .collect()
}

/// Checks a series of the log against the report, and returns how many lines it has.
fn check_series(
    report: &Report,
    merged: &BTreeMap<String, (Histogram<u64>, usize)>,
    series: &str,
) -> usize {
    let whole = decode(report.text(&format!("/latency/{series}/hdr")));
    assert_eq!(
        whole.len(),
        report.count(&format!("/latency/{series}/count")),
        "nothing was beyond the bounds"
    );
    let mut sum: Histogram<u64> = Histogram::new_from(&whole);
    let mut lines = 0;
    for shard in report.shards() {
        let tag = format!("shard-{}.{series}", shard["shard"]);
        let count = shard["latency"][series]["count"].as_u64().unwrap();
        match merged.get(&tag) {
            Some((of_shard, of_tag)) => {
                assert_eq!(of_shard.len(), count, "{tag}");
                sum.add(of_shard).unwrap();
                lines += of_tag;
            }
            None => assert_eq!(count, 0, "{tag} is not in the log"),
        }
    }
    assert_eq!(cells(&sum), cells(&whole), "{series}");
    lines
}

#[test]
fn the_log_of_seconds_merges_to_the_distribution_of_the_run() {
    // Two thirds of the items need a second second; every series has something to say.
    let target = Target::start("--processes 2 --fault error:0.1 --limit 1/h:burst=700");
    let line = format!(
        "{} --ids 0..900 --rate 600/s --burst 4 --shards 2 -c 16 --name named {ONE_ATTEMPT}",
        target.url()
    );
    let ended = Run::start(line.split(' ')).end();
    let report = ended.report(0);
    let merged = merged_by_tag(&fs::read(ended.result().join("latency.hlog")).unwrap());
    for series in ["service", "service_throttled", "service_error"] {
        assert!(report.count(&format!("/latency/{series}/count")) > 0);
        let lines = check_series(&report, &merged, series);
        assert!(lines >= 2, "{series}: {lines}");
    }
    assert!(report.at("/intervals").as_array().unwrap().len() >= 2);
    assert_eq!(
        merged.len(),
        merged
            .keys()
            .filter(|tag| tag.starts_with("shard-"))
            .count()
    );
    let summary = fs::read_to_string(ended.result().join("summary.md")).unwrap();
    assert!(
        summary.contains(&target.url()) && summary.contains("named"),
        "{summary}"
    );
}

#[test]
fn the_figures_are_those_of_the_histogram() {
    let target = Target::start("--processes 1 --latency lognormal:2ms,0.5");
    let line = format!("{} --ids 0..2k --shards 2 -c 16", target.url());
    let report = Run::start(line.split(' ')).end().report(0);
    let histogram = decode(report.text("/latency/service/hdr"));
    for (quantile, key) in [(0.5, "p50_us"), (0.9, "p90_us"), (0.99, "p99_us")] {
        let (ours, theirs) = (
            report.number(&format!("/latency/service/{key}")),
            histogram.value_at_quantile(quantile) as f64 / 1e3,
        );
        // The reported maximum is exact, the histogram's cell is a little wider.
        assert!(
            ours <= theirs && ours >= theirs * 0.998,
            "{key}: {ours} and {theirs}"
        );
    }
    // 2,000 values: two lie beyond the 99.9th percentile, too few to name it.
    assert!(report.at("/latency/service/p999_us").is_null());
    let (least, most) = (
        report.number("/latency/service/min_us"),
        report.number("/latency/service/max_us"),
    );
    assert!(
        least <= report.number("/latency/service/p50_us")
            && most >= report.number("/latency/service/p99_us")
    );
    // An answer cannot come before the target has held it: the shortest hold bounds the shortest
    // time.
    let model: crawlmark_mock_server::Latency = "lognormal:2ms,0.5".parse().unwrap();
    let shortest = (0..2_000).map(|id| model.hold(1, id, 0)).min().unwrap();
    assert!(
        least >= shortest.as_secs_f64() * 1e6,
        "{least} us, {shortest:?}"
    );
}

#[test]
fn a_run_that_is_told_nothing_says_what_it_does_and_where_the_result_is() {
    let target = Target::start("--processes 1");
    let place = tempfile::tempdir().unwrap();
    let mut command = assert_cmd::Command::new(program());
    command
        .args([
            "run",
            &target.url(),
            "-n",
            "1200",
            "--shards",
            "2",
            "-c",
            "3",
        ])
        .current_dir(place.path());
    let output = command.timeout(DEADLINE).output().unwrap();
    let (stdout, stderr) = (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    );
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    // The effective totals come before anything is sent, and the summary is all that a pipe gets.
    for said in [
        &target.url(),
        "1,200 (0 to 1,199)",
        "connections 3\n",
        "none: as fast as it goes",
    ] {
        assert!(stderr.contains(said), "{said}: {stderr}");
    }
    assert!(stdout.contains("1,200 ok"), "{stdout}");
    let page = place.path().join(
        stdout
            .lines()
            .find_map(|line| line.strip_prefix("Report: "))
            .unwrap(),
    );
    let saved = page.parent().unwrap();
    assert_eq!(
        saved.parent(),
        Some(place.path().join("results/runs").as_path())
    );
    Report::read(&saved.join("result.json")).assert_states(&[("ok", 1_200)]);
    assert!(page.ends_with("report.html") && page.is_file());
    let [.., figures, outcome] = &stdout.lines().collect::<Vec<_>>()[..] else {
        unreachable!("two lines at least")
    };
    assert!(
        figures.starts_with("got 100 %  good ") && outcome.contains("inished after "),
        "{stdout}"
    );
    assert_eq!(fs::read_dir(saved.parent().unwrap()).unwrap().count(), 1);
}
