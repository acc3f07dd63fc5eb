//! Parts of saved runs: the whole is the report, and its parts add up to it.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod run;

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crawlmark_harness::supervisor::ShardFault;
use crawlmark_results::run::cut::{Ask, Cut, CutError, CutReport, Outcomes, SCHEMA, Span};
use crawlmark_results::run::report::Latency;
use crawlmark_results::run::result_dir::{self, LOG};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;

use self::run::{Saved, Size, saved};

const SMALL: Size = Size {
    shards: 3,
    seconds: 6,
    attempts: 400,
    warmup: Duration::ZERO,
};

fn cut(saved: &Saved, ask: &Ask) -> CutReport {
    let cut = Cut::of(&saved.report, ask).unwrap();
    result_dir::recut(&saved.directory(), &saved.report, cut, |_| {}).unwrap()
}

fn part(from: u64, to: u64, shards: &str) -> Ask {
    let shards = (!shards.is_empty()).then(|| shards.parse().unwrap());
    Ask {
        span: Span::Seconds {
            from: Some(from),
            to: Some(to),
        },
        shards,
        ..Ask::EVERYTHING
    }
}

fn histogram(latency: &Latency) -> Histogram<u64> {
    let bytes = STANDARD.decode(latency.hdr.as_ref().unwrap()).unwrap();
    Deserializer::new().deserialize(&mut &*bytes).unwrap()
}

/// The histograms of several parts, added.
fn sum(parts: &[CutReport]) -> BTreeMap<String, Histogram<u64>> {
    let mut sum: BTreeMap<String, Histogram<u64>> = BTreeMap::new();
    for (series, latency) in parts.iter().flat_map(|part| &part.latency) {
        let histogram = histogram(latency);
        sum.entry(series.clone())
            .and_modify(|sum| sum.add(&histogram).unwrap())
            .or_insert(histogram);
    }
    sum
}

/// Two figures of which one is exact and one is known to 0.1 %.
fn assert_close(close: Option<f64>, exact: Option<f64>) {
    let (close, exact) = (close.unwrap(), exact.unwrap());
    assert!(
        (close - exact).abs() <= exact * 0.001,
        "{close} for {exact}"
    );
}

/// The times of a part are those of the report.
fn assert_is_the_report(cut: &CutReport, saved: &Saved) {
    assert_eq!(cut.latency.len(), 6);
    for (series, told) in &cut.latency {
        let whole = &saved.report.latency[series];
        assert!(whole.hdr.is_some() && told.hdr == whole.hdr, "{series}");
        assert_eq!(
            (told.count, told.censored, &told.at_least),
            (whole.count, whole.censored, &whole.at_least),
            "{series}"
        );
        assert_eq!(told.p50_us, whole.p50_us, "{series}");
        // No percentile is above the greatest value, which the report knows exactly.
        assert_eq!(
            (told.p90_us.is_some(), told.p99_us.is_some()),
            (whole.p90_us.is_some(), whole.p99_us.is_some())
        );
        assert_close(told.p90_us, whole.p90_us);
        assert_close(told.p99_us.or(Some(0.0)), whole.p99_us.or(Some(0.0)));
        assert_close(told.min_us, whole.min_us);
        assert_close(told.mean_us, whole.mean_us);
        assert_close(told.slowest_us(), whole.slowest_us());
        // An age beyond the bounds is in the topmost cell of the log.
        assert!(
            told.max_us <= whole.max_us.map(|us| us * 1.001) && told.max_us >= told.slowest_us(),
            "{series}"
        );
    }
    assert_eq!(cut.notes, Vec::<String>::new());
}

#[test]
fn the_cut_of_everything_is_the_report() {
    let saved = saved(SMALL, 1);
    let cut = cut(&saved, &Ask::EVERYTHING);
    assert_is_the_report(&cut, &saved);
    assert!(
        cut.latency["response"]
            .at_least
            .contains(&"p99_us".to_owned()),
        "something is cut off"
    );
    let (counted, totals) = (cut.counted.as_ref().unwrap(), &saved.report.totals);
    assert_eq!(
        (counted.counts.attempts, counted.counts.throttled),
        (totals.attempts, totals.throttled)
    );
    assert_eq!(
        (counted.items_per_s, counted.attempts_per_s),
        (totals.items_per_s, totals.attempts_per_s)
    );
    assert_eq!(
        cut.answers
            .values()
            .map(|answered| answered.count)
            .sum::<u64>(),
        totals.attempts_sent
    );
    assert_eq!(
        (
            cut.part.from_s,
            cut.part.to_s,
            &*cut.part.chosen,
            &*cut.schema
        ),
        (0, 6, "whole", SCHEMA)
    );
    assert!(
        (counted.binding.rate, counted.binding.concurrency) == (0.75, 0.25)
            && counted.cpu_us_per_attempt == Some(20.0)
    );
    assert_eq!(
        serde_json::from_str::<CutReport>(&serde_json::to_string(&cut).unwrap()).unwrap(),
        cut
    );
}

#[test]
fn parts_that_cover_the_run_add_up_to_it() {
    let saved = saved(SMALL, 2);
    let whole = sum(&[cut(&saved, &Ask::EVERYTHING)]);
    let seconds: Vec<CutReport> = (0..6)
        .map(|second| cut(&saved, &part(second, second + 1, "")))
        .collect();
    assert_eq!(sum(&seconds), whole);
    let shards: Vec<CutReport> = ["0", "1-2"]
        .iter()
        .map(|shards| cut(&saved, &part(0, 6, shards)))
        .collect();
    assert_eq!(sum(&shards), whole);
    assert!(shards.iter().all(|part| part.counted.is_none()));
    let attempts = seconds
        .iter()
        .map(|part| part.counted.as_ref().unwrap().counts.attempts)
        .sum::<u64>();
    assert_eq!(attempts, saved.report.totals.attempts);
    let outcomes = Outcomes::ALL[1..].iter().map(|outcomes| {
        cut(
            &saved,
            &Ask {
                outcomes: *outcomes,
                ..Ask::EVERYTHING
            },
        )
    });
    let outcomes: Vec<CutReport> = outcomes.collect();
    assert_eq!(
        outcomes
            .iter()
            .map(|part| part.latency.len())
            .collect::<Vec<_>>(),
        [2, 2, 2]
    );
    assert_eq!(sum(&outcomes), whole);
}

#[test]
fn a_warm_up_is_in_no_part_unless_it_is_asked_for() {
    let saved = saved(
        Size {
            warmup: Duration::from_secs(2),
            ..SMALL
        },
        3,
    );
    let after = cut(&saved, &Ask::EVERYTHING);
    assert_eq!((after.part.from_s, after.part.to_s), (2, 6));
    assert_is_the_report(&after, &saved);
    let warm_up = cut(
        &saved,
        &Ask {
            span: Span::Seconds {
                from: None,
                to: Some(2),
            },
            ..Ask::EVERYTHING
        },
    );
    assert_eq!(
        (
            warm_up.part.from_s,
            warm_up.counted.unwrap().counts.attempts
        ),
        (0, 2 * 3 * 400)
    );
}

#[test]
fn what_the_log_cannot_tell_is_told() {
    let mut saved = saved(SMALL, 4);
    let log = saved.directory().join(LOG);
    let whole = fs::read_to_string(&log).unwrap();
    saved.report.shards[1].fault = Some(ShardFault::Died);
    let notes = cut(&saved, &part(1, 2, "1-2")).notes.join("\n");
    assert!(
        notes.contains("shard 1 ended early (died before its final report)"),
        "{notes}"
    );
    let shorter: Vec<&str> = whole.lines().take(40).collect();
    fs::write(&log, shorter.join("\n") + "\n").unwrap();
    let notes = cut(&saved, &Ask::EVERYTHING).notes.join("\n");
    assert!(
        notes.contains("the log has no second for ") && notes.contains(" service times of the run"),
        "{notes}"
    );
}

#[test]
fn a_damaged_log_is_refused_with_the_number_of_the_line() {
    let saved = saved(SMALL, 5);
    let log = saved.directory().join(LOG);
    let whole = fs::read_to_string(&log).unwrap();
    let complaint = |text: &[u8]| {
        fs::write(&log, text).unwrap();
        let cut = Cut::of(&saved.report, &Ask::EVERYTHING).unwrap();
        result_dir::recut(&saved.directory(), &saved.report, cut, |_| {})
            .unwrap_err()
            .to_string()
    };
    let said = complaint(&whole.as_bytes()[..whole.len() - 5]);
    let lines = whole.lines().count();
    assert!(
        said.contains(&format!("latency.hlog, line {lines}: it is cut short")),
        "{said}"
    );
    let said = complaint(whole.replacen("shard-0", "shard-9", 1).as_bytes());
    assert!(
        said.contains("line 7: it is of shard 9, which the result does not have"),
        "{said}"
    );
    let said = complaint(whole.replacen(",0.000,", ",6.000,", 1).as_bytes());
    assert!(
        said.contains("line 7: it is of second 6, which the result does not have"),
        "{said}"
    );
    let said = complaint(&[&b"#"[..], &vec![b'x'; 1 << 20], b"\n"].concat());
    assert!(
        said.contains("line 1: it is longer than any line"),
        "{said}"
    );
    assert!(complaint(b"# \xff\n").contains("line 1: it is not text"));
    fs::remove_file(&log).unwrap();
    let cut = Cut::of(&saved.report, &Ask::EVERYTHING).unwrap();
    let said = result_dir::recut(&saved.directory(), &saved.report, cut, |_| {})
        .unwrap_err()
        .to_string();
    assert!(
        said.contains("latency.hlog does not exist: a result can only be cut"),
        "{said}"
    );
}

#[test]
fn a_part_that_the_run_does_not_have_is_refused() {
    let saved = saved(
        Size {
            attempts: 3,
            ..SMALL
        },
        6,
    );
    let refusal = |ask: &Ask| Cut::of(&saved.report, ask).unwrap_err().to_string();
    assert_eq!(
        refusal(&part(2, 7, "")),
        "--to 7s is outside the run, which took 6.00 s"
    );
    assert_eq!(
        refusal(&part(3, 3, "")),
        "--from 3s is not before --to 3s: there is no second between them"
    );
    assert_eq!(
        refusal(&part(0, 1, "1-3")),
        "--shards names shard 3, and the run's are 0 to 2"
    );
    assert!(
        refusal(&Ask {
            span: Span::Steady,
            ..Ask::EVERYTHING
        })
        .starts_with("find a steady state: 6 whole seconds between")
    );
    let mut empty = saved.report.clone();
    empty.intervals.clear();
    assert_eq!(Cut::of(&empty, &Ask::EVERYTHING), Err(CutError::Empty));
}

#[test]
fn a_part_reads_as_it_did() {
    let saved = saved(SMALL, 7);
    let golden = |name: &str, text: &str| {
        let text = text.replace(env!("CARGO_PKG_VERSION"), "0.0.0");
        crate::golden(name, &text);
    };
    let some = cut(&saved, &part(2, 5, "0,2"));
    golden(
        "cut.txt",
        &crawlmark_results::run::cut::doc(&some).terminal(100),
    );
    golden(
        "cut.md",
        &crawlmark_results::run::cut::doc(&cut(&saved, &Ask::EVERYTHING)).markdown(),
    );
}
