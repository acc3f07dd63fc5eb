//! The saved histograms are the run's: every second's line in `latency.hlog`, merged, is the
//! distribution in `result.json`, cell by cell. The other sums are checked for every report that
//! any test reads.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

use crate::command::call_line;
use crate::report::Report;
use crate::run::{ONE_ATTEMPT, ended};
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
    let ended = ended(&format!(
        "{} --ids 0..900 --rate 600/s --burst 4 --shards 2 -c 16 --name named {ONE_ATTEMPT}",
        target.url()
    ));
    let report = ended.report(0);
    let merged = merged_by_tag(ended.file("latency.hlog").as_bytes());
    for series in ["service", "service_throttled", "service_error"] {
        assert!(report.count(&format!("/latency/{series}/count")) > 0);
        let lines = check_series(&report, &merged, series);
        assert!(lines >= 2, "{series}: {lines}");
    }
    assert!(report.at("/intervals").as_array().unwrap().len() >= 2);
    assert!(merged.keys().all(|tag| tag.starts_with("shard-")));
    let summary = ended.file("summary.md");
    assert!(
        summary.contains(&target.url()) && summary.contains("named"),
        "{summary}"
    );
}

#[test]
fn a_run_without_flags_announces_itself_and_names_its_result() {
    let target = Target::start("--processes 1");
    let place = tempfile::tempdir().unwrap();
    let line = format!("run {} -n 1200 --shards 2 -c 3", target.url());
    let said = call_line(place.path(), &line);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    // The totals come before anything is sent, and the summary is all that a pipe gets.
    for text in [&target.url(), "1,200 (0 to 1,199)", "connections 3\n"] {
        assert!(said.stderr.contains(text), "{text}: {}", said.stderr);
    }
    assert!(said.stdout.contains("1,200 ok"), "{}", said.stdout);
    let mut lines = said.stdout.lines();
    let page = lines
        .find_map(|line| line.strip_prefix("Report: "))
        .unwrap();
    let page = place.path().join(page);
    assert!(page.ends_with("report.html") && page.is_file());
    let saved = page.parent().unwrap();
    Report::read(&saved.join("result.json")).assert_states(&[("ok", 1_200)]);
    assert_eq!(saved.parent(), Some(&*place.path().join("results/runs")));
}
