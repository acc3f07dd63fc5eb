//! An hour of 64 shards: large, and made quickly, for its seconds are a few different ones over and
//! over.
#![expect(clippy::unwrap_used, reason = "a test without its run is over")]

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crawlmark_harness::clock::Clock;
use crawlmark_harness::stats::{Bounds, SecondCounts, Series, ShardStats};
use crawlmark_harness::supervisor::{Interval, ShardSecond};
use crawlmark_results::run::cut::{Ask, Cut};
use crawlmark_results::run::report::{IntervalRow, Report};
use crawlmark_results::run::result_dir::{self, LOG, PAGE, RESULT, ResultDir};
use crawlmark_results::show::plot::{self, Plot};

use super::run::{Size, interval, plan, record, report, sample};

const HOUR: Size = Size {
    shards: 64,
    seconds: 3_600,
    attempts: 250,
    warmup: Duration::ZERO,
};

/// Different seconds.
const KINDS: usize = 5;

/// The largest page that an hour of 64 shards may make.
const LARGEST_PAGE: usize = 400_000;

/// A second of each kind, of all shards, and what any one of them did in it.
fn kinds() -> Vec<(Interval, ShardStats)> {
    let mut random = fastrand::Rng::with_seed(9);
    let plan = plan(HOUR);
    let bounds = Bounds::for_timeout(plan.timeout);
    let [_, kept] = Series::of(plan.arrivals);
    let mut kind = |index: usize| {
        let mut stats = ShardStats::new(bounds);
        (0..HOUR.attempts).for_each(|id| stats.record_only(&sample(id, 0, &mut random), kept));
        let shards: Vec<_> = (0..HOUR.shards)
            .map(|shard| (shard, stats.clone()))
            .collect();
        (interval(index as u64, &shards), stats)
    };
    (0..KINDS).map(&mut kind).collect()
}

/// The hour's report.
fn hour(kinds: &[(Interval, ShardStats)]) -> Report {
    let plan = plan(HOUR);
    let mut random = fastrand::Rng::with_seed(11);
    let rows: Vec<IntervalRow> = kinds
        .iter()
        .map(|(second, _)| IntervalRow::new(second))
        .collect();
    // No two seconds are alike, as in any run.
    let mut row = |second: u64| {
        let like = &rows[usize::try_from(second).unwrap() % KINDS];
        let mut jitter = |us: Option<f64>| us.map(|us| us * (0.7 + 0.6 * random.f64()));
        let (p50_us, p90_us, p99_us) = (
            jitter(like.p50_us),
            jitter(like.p90_us),
            jitter(like.p99_us),
        );
        let mut shard = |of: &ShardSecond| ShardSecond {
            attempts: of.attempts + random.u64(0..50),
            max_sched_lag_ns: random.u64(10_000..9_000_000),
            cpu_us: random.u64(100_000..900_000),
            ..*of
        };
        let shards = like.shards.iter().map(&mut shard).collect();
        let attempts = like.attempts + random.u64(0..1_000);
        let in_flight = random.u32(1..256);
        let max_sched_lag_us = random.f64() * 9_000.0;
        IntervalRow {
            start_s: second,
            counts: SecondCounts {
                attempts,
                ..like.counts.clone()
            },
            p50_us,
            p90_us,
            p99_us,
            shards,
            in_flight,
            max_sched_lag_us,
            ..like.clone()
        }
    };
    let rows = (0..HOUR.seconds).map(&mut row).collect();
    let mut stats = ShardStats::new(Bounds::for_timeout(plan.timeout));
    for (_, of_one) in kinds {
        stats.merge(of_one);
    }
    let shards = plan
        .split(&[])
        .into_iter()
        .map(|plan| record(plan, &stats, HOUR.seconds))
        .collect();
    report(&plan, shards, rows)
}

#[test]
fn an_hour_of_64_shards_makes_a_page_of_less_than_400_kb() {
    let report = hour(&kinds());
    let clock = Clock::start();
    let made = result_dir::made_from(&report);
    println!("made in {:.2} s", clock.now().0 as f64 / 1e9);
    for (name, text) in &made {
        println!("{:>9} bytes  {name}", text.len());
    }
    let json = serde_json::to_string_pretty(&report).unwrap().len();
    println!(
        "{json:>9} bytes  {RESULT}, {} without white space",
        serde_json::to_string(&report).unwrap().len()
    );
    let page = made.iter().find(|(name, _)| name == PAGE).unwrap();
    let size = |plot: Plot| {
        (
            plot.name,
            plot.figure.len(),
            plot.data.map_or(0, |data| data.len()),
        )
    };
    let sizes: Vec<_> = plot::all(&report).into_iter().map(size).collect();
    println!("bytes of the pictures and of the data: {sizes:?}");
    assert!(
        page.1.len() < LARGEST_PAGE,
        "{} bytes: {sizes:?}",
        page.1.len()
    );
}

/// Writes the log of the hour: the lines of each kind of second, with each second's number.
fn write_log(path: &Path, kinds: &[(Interval, ShardStats)], scratch: &Path) {
    let directory = ResultDir::create(&scratch.join("kinds")).unwrap();
    let mut file = directory.log().unwrap();
    let mut log = file.begin(SystemTime::UNIX_EPOCH).unwrap();
    for (kind, _) in kinds {
        log.append(kind);
    }
    log.end().unwrap();
    file.close().unwrap();
    let kept = directory.finish_with(&[]).unwrap();
    let text = fs::read_to_string(kept.join(LOG)).unwrap();
    let (comments, lines): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.starts_with('#'));
    let mut out = BufWriter::new(File::create(path).unwrap());
    writeln!(out, "{}", comments.join("\n")).unwrap();
    for second in 0..HOUR.seconds {
        let mut of_second = String::new();
        let kind = format!(",{}.000,1.000,", usize::try_from(second).unwrap() % KINDS);
        for line in lines.iter().filter(|line| line.contains(&kind)) {
            writeln!(
                of_second,
                "{}",
                line.replacen(&kind, &format!(",{second}.000,1.000,"), 1)
            )
            .unwrap();
        }
        out.write_all(of_second.as_bytes()).unwrap();
    }
    out.flush().unwrap();
}

/// `cargo test --release -p crawlmark-results --test all recut:: -- --ignored --nocapture` leaves
/// the result of the hour with its log in `target/tmp/hour`, to be looked at and timed with.
#[test]
#[ignore = "writes half a gigabyte; for measuring"]
fn the_hour_is_left_to_be_measured() {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hour");
    let _ = fs::remove_dir_all(&place);
    let kinds = kinds();
    let report = hour(&kinds);
    let directory: PathBuf = ResultDir::create(&place).unwrap().finish(&report).unwrap();
    write_log(
        &directory.join(LOG),
        &kinds,
        tempfile::tempdir().unwrap().path(),
    );
    let clock = Clock::start();
    let mut lines = 0;
    let cut = Cut::of(&report, &Ask::EVERYTHING).unwrap();
    let cut = result_dir::recut(&directory, &report, cut, |_| lines += 1_000).unwrap();
    println!(
        "{}: {lines} lines cut in {:.2} s",
        directory.display(),
        clock.now().0 as f64 / 1e9
    );
    assert_eq!(
        cut.answers
            .values()
            .map(|answered| answered.count)
            .sum::<u64>(),
        64 * 3_600 * 250
    );
}
