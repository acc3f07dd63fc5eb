//! The definition of truth, tier C: counts and cells, compared exactly. C1, C2 and C6 need whole
//! runs: they are among the end-to-end tests.
#![expect(clippy::unwrap_used, reason = "a test that cannot read is over")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crawlmark_harness::clock::{Nanos, duration_ns};
use crawlmark_harness::fixtures::{attempt_of, permit_at};
use crawlmark_harness::plan::split_point;
use crawlmark_harness::sample::{Advice, Attempt, ErrorKind, Fate, Outcome, Permit, Sample};
use crawlmark_harness::stats::{Bounds, Percentile, Series, ShardStats, Timing};
use crawlmark_harness::supervisor::{Interval, ShardTimes};
use crawlmark_harness::wire::{EncodedStats, SecondFigures};
use crawlmark_harness::workload::{Handshake, Opened};
use crawlmark_results::run::result_dir::ResultDir;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

const IDS: u64 = 100_000;

fn bounds() -> Bounds {
    Bounds::for_timeout(Duration::from_secs(10))
}

/// An attempt at `id` whose times depend on nothing else, spread evenly over the logarithm from 1
/// us to 10 s.
fn sample(id: u64) -> Sample {
    let spread = |salt: u64| {
        let unit = fastrand::Rng::with_seed(id ^ salt << 40).f64();
        Duration::from_secs_f64(1e-6 * 1e7_f64.powf(unit))
    };
    let intended = Nanos(id * 1_000);
    let ready = intended.plus(spread(1) / 100);
    let sent = ready.plus(spread(2) / 100);
    let outcome = match id % 97 {
        0 => Outcome::Error(ErrorKind::Timeout),
        1..5 => Outcome::Throttled,
        _ => Outcome::Ok,
    };
    Sample {
        permit: Permit {
            id,
            ready,
            admitted: ready,
            ..permit_at(intended)
        },
        attempt: Attempt {
            first_byte: Some(sent.plus(spread(3) / 2)),
            bytes_sent: 90,
            bytes_received: 119,
            status: (outcome == Outcome::Ok).then_some(200),
            advice: Advice {
                held_ns: Some(duration_ns(spread(3)) / 2),
                ..Advice::default()
            },
            ..attempt_of(sent, sent.plus(spread(3)), outcome)
        },
        fate: Fate::Ended,
    }
}

fn recorded(ids: impl Iterator<Item = u64>) -> ShardStats {
    let mut stats = ShardStats::new(bounds());
    ids.for_each(|id| {
        stats.record(&sample(id));
        // The series that are not of attempts.
        stats.record_one(Series::LoopLag, id);
        stats.record_one(Series::ReceiveDelay, id);
        if id.is_multiple_of(1_000) {
            let handshake = Handshake {
                ns: 90_000 + id,
                is_resumed: id.is_multiple_of(3_000),
                version: "TLSv1.3",
                cipher: "AES",
            };
            stats.open_connection(
                &Opened {
                    connect_ns: 50_000 + id,
                    tunnel_ns: Some(70_000 + id),
                    handshake: Some(handshake),
                    protocol: Some("HTTP/2"),
                    allowed: None,
                },
                &Series::ALL,
            );
        }
    });
    stats
}

/// The stats as the supervisor gets them.
fn over_the_pipe(stats: &ShardStats) -> ShardStats {
    EncodedStats::of(stats).unwrap().unpacked()
}

#[test]
fn c3_shards_merged_are_one_recorder_fed_everything_whatever_their_number() {
    let whole = recorded(0..IDS);
    for shards in [1, 4, 7] {
        let mut merged = ShardStats::new(bounds());
        for shard in 0..shards {
            let ids = split_point(IDS, shards, shard)..split_point(IDS, shards, shard + 1);
            merged.merge(&over_the_pipe(&recorded(ids)));
        }
        // Counters, exact figures and every cell.
        assert!(merged == whole, "{shards} shards");
    }
    // Two are of connections, two of streams of events, and one of requests that were dropped.
    assert_eq!(whole.timings().count(), Series::ALL.len() - 5);
}

#[test]
fn c4_a_quantile_is_the_exact_one_or_at_most_a_thousandth_above() {
    let mut values: Vec<u64> = (0..IDS).map(|id| sample(id).service_ns()).collect();
    let mut timing = Timing::new(bounds());
    for ns in &values {
        timing.record(*ns);
    }
    values.sort_unstable();
    for permille in 1..1_000_usize {
        let exact = values[permille * values.len() / 1_000 - 1];
        // Nine of ten thousandths to the last: ten samples have to lie beyond.
        let Percentile::Exact(got) = timing.percentile(permille as f64 / 1_000.0) else {
            unreachable!("{permille}")
        };
        assert!(
            got >= exact && (got - exact) as f64 <= exact as f64 * 0.000_977,
            "{permille}: {got} for {exact}"
        );
    }
}

#[test]
fn c5_histograms_survive_the_pipe_the_report_and_the_log() {
    let stats = recorded(0..IDS);
    assert!(over_the_pipe(&stats) == stats);
    let place = tempfile::tempdir().unwrap();
    let directory = ResultDir::create(&place.path().join("result")).unwrap();
    let mut file = directory.log().unwrap();
    let mut log = file
        .begin(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000))
        .unwrap();
    log.append(&interval(0, &stats));
    log.append(&interval(1, &stats));
    let written = fs::read_dir(place.path())
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path()
        .join("latency.hlog");
    let if_killed_now = fs::read(&written).unwrap();
    log.end().unwrap();
    file.close().unwrap();
    assert!(
        if_killed_now == fs::read(&written).unwrap(),
        "a killed run leaves each interval that ended"
    );
    let mut lines: BTreeMap<String, Vec<Histogram<u64>>> = BTreeMap::new();
    for entry in IntervalLogIterator::new(&fs::read(written).unwrap()) {
        if let LogEntry::Interval(line) = entry.unwrap() {
            let v2_deflate = STANDARD.decode(line.encoded_histogram()).unwrap();
            let histogram = Deserializer::new()
                .deserialize(&mut Cursor::new(v2_deflate))
                .unwrap();
            lines
                .entry(line.tag().unwrap().as_str().to_owned())
                .or_default()
                .push(histogram);
        }
    }
    let logged = Series::PER_INTERVAL.map(|series| {
        (
            format!("shard-3.{}", series.name()),
            stats.timing(series).unwrap(),
        )
    });
    let ages = [Series::ServiceOk, Series::ResponseOk]
        .map(|series| (series, stats.timing(series).and_then(Timing::ages)));
    assert_eq!(lines.len(), logged.len() + ages.len());
    for (series, ages) in ages {
        // No age is beyond the bounds.
        let tag = format!("shard-3.{}_censored", series.name());
        assert!(
            lines[&tag].iter().all(|line| Some(line) == ages.as_ref()) && lines[&tag].len() == 2,
            "{tag}"
        );
    }
    for (tag, timing) in logged {
        assert!(
            lines[&tag].iter().all(|line| *line == timing.histogram()) && lines[&tag].len() == 2,
            "{tag}"
        );
    }
}

fn interval(index: u64, stats: &ShardStats) -> Interval {
    Interval {
        figures: SecondFigures {
            index,
            ..SecondFigures::default()
        },
        merged: stats.clone(),
        shards: vec![(3, ShardTimes::of(stats).unwrap())],
        seconds: Vec::new(),
    }
}
