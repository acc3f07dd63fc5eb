//! A part of a run has the counts of the target's own log for that time, and the times of its
//! requests.

use std::io::{self, Read as _};
use std::path::Path;
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crawlmark_results::run::cut::{self, CutError};
use crawlmark_results::run::result_dir::{LOG, ReadError, ResultDir};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use serde_json::Value;

use super::*;

/// What a target wrote down: when each request ended there, and how.
type Log = Rc<RefCell<Vec<(Nanos, Outcome)>>>;

struct Logging {
    target: Target,
    log: Log,
}

impl Workload for Logging {
    async fn perform(
        &self,
        id: u64,
        flight: &Flight,
        clearance: &impl Clearance,
        ended: &mut Attempt,
    ) -> Option<()> {
        self.target.perform(id, flight, clearance, ended).await?;
        self.log.borrow_mut().push((ended.done, ended.outcome));
        Some(())
    }
}

/// From 5 ms to 300 ms; what arrives in the second after 10 s waits for the end of that.
fn takes(_: u32, sent: Nanos) -> Duration {
    let ms = sent.0 / 1_000_000;
    let stall = if (10_000..11_000).contains(&ms) {
        11_000 - ms
    } else {
        0
    };
    Duration::from_millis(stall + 5 + ms * 7 % 295)
}

fn answer(_: u32, sent: Nanos) -> (Outcome, Advice) {
    match sent.0 / 1_000_000 % 40 {
        0 => (Outcome::Rejected, Advice::default()),
        5 => (Outcome::NotFound, Advice::default()),
        _ => GOOD,
    }
}

/// 28 seconds of an open loop: its report, its directory, its samples, and the target's log.
fn saved(place: &Path) -> (Report, Vec<Sample>, Log) {
    let plan = RunPlan {
        rate: Some(Rate {
            permits: 200,
            period_ns: 1_000_000_000,
        }),
        arrivals: Arrivals::Constant,
        duration: Some(S * 28),
        timeout: S * 5,
        grace: S * 5,
        ..run_of(2, 600, 100_000)
    };
    let log = Log::default();
    let rehearsal = rehearse(&plan, &[], |shard, clock| Logging {
        target: Target {
            clock,
            shard: shard.shard,
            takes,
            answer,
        },
        log: Rc::clone(&log),
    })
    .unwrap();
    let directory = ResultDir::create(place).unwrap();
    let mut file = directory.log().unwrap();
    let mut lines = file.begin(SystemTime::UNIX_EPOCH).unwrap();
    rehearsal.intervals.iter().for_each(|one| lines.append(one));
    lines.end().unwrap();
    file.close().unwrap();
    let report = rehearsal.report(&plan);
    directory.finish(&report).unwrap();
    (report, rehearsal.samples, log)
}

/// A part as it is saved.
fn part(report: &Report, place: &Path, from: Option<u64>, to: Option<u64>) -> Value {
    let seconds = cut::part(report, from, to).unwrap();
    let files = cut::cut(report, place, &seconds).unwrap();
    serde_json::from_str(&files[0].1).unwrap()
}

#[test]
fn a_part_has_the_counts_of_the_targets_log_for_that_time() {
    let home = tempfile::tempdir().unwrap();
    let place = home.path().join("result");
    let (report, samples, log) = saved(&place);
    let ten = part(&report, &place, Some(10), Some(20));
    let count = |of: &Value, pointer: &str| of.pointer(pointer).unwrap().as_u64().unwrap();
    let within = |at: Nanos| (10_000_000_000..20_000_000_000).contains(&at.0);
    let logged = log.borrow();
    let answered = |outcome: Outcome| {
        let those = logged
            .iter()
            .filter(|(at, what)| within(*at) && *what == outcome);
        those.count() as u64
    };
    let [ok, not_found, failed] = [Outcome::Ok, Outcome::NotFound, Outcome::Rejected].map(answered);
    assert!(
        ok > 1_500 && not_found > 30 && failed > 30,
        "{ok} {not_found} {failed}"
    );
    for (name, expected) in [
        ("ok", ok),
        ("not_found", not_found),
        ("failed", failed),
        ("attempts", ok + not_found + failed),
    ] {
        assert_eq!(count(&ten, &format!("/totals/{name}")), expected, "{name}");
    }
    // Times are of the requests that were due in it.
    for (series, time) in [
        ("service", Sample::service_ns as fn(&Sample) -> u64),
        ("response", Sample::response_ns),
    ] {
        let due = samples.iter().filter(|it| within(it.permit.intended));
        let good = due.filter(|it| it.attempt.outcome.is_answer());
        let mut times: Vec<u64> = good.map(time).collect();
        times.sort_unstable();
        let told = &ten["latency"][series];
        assert_eq!(count(told, "/count"), times.len() as u64, "{series}");
        for (key, permille) in [
            ("p50_us", 500),
            ("p90_us", 900),
            ("p99_us", 990),
            ("max_us", 1_000),
        ] {
            let exact = times[(times.len() * permille).div_ceil(1_000) - 1] as f64 / 1e3;
            let told = told[key].as_f64().unwrap();
            assert!(
                (told - exact).abs() <= exact * 0.001,
                "{series} {key}: {told} for {exact}"
            );
        }
        assert!(
            told["p99_us"].as_f64().unwrap() > 900_000.0,
            "the stall: {told}"
        );
    }
    assert_eq!(count(&ten, "/not_timed"), 0);
    // Parts that cover the run add up to it.
    let parts = [(None, Some(10)), (Some(10), Some(20)), (Some(20), None)];
    let parts = parts.map(|(from, to)| part(&report, &place, from, to));
    let sum = |pointer: &str| parts.iter().map(|part| count(part, pointer)).sum::<u64>();
    assert_eq!(sum("/totals/attempts"), report.totals.attempts);
    assert_eq!(
        sum("/latency/response/count"),
        report.latency["response"].count
    );
}

#[test]
fn a_part_shows_nothing_of_the_whole() {
    let home = tempfile::tempdir().unwrap();
    let place = home.path().join("result");
    let (report, ..) = saved(&place);
    let seconds = cut::part(&report, Some(10), Some(20)).unwrap();
    let files = cut::cut(&report, &place, &seconds).unwrap();
    let of = |name: &str| &files.iter().find(|file| file.0 == name).unwrap().1;
    let summary = of("summary.md").replace(env!("CARGO_PKG_VERSION"), "VERSION");
    crate::golden("cut.md", &summary);
    // The axis of a plot is that of the part.
    let plot = of("plots/throughput.svg");
    assert!(
        plot.contains(">12<") && !plot.contains(">5<") && !plot.contains(">25<"),
        "{plot}"
    );
    let json: Value = serde_json::from_str(of("cut.json")).unwrap();
    for key in [
        "got", "ledger", "findings", "validity", "gates", "shards", "budget", "witness", "by_host",
    ] {
        assert!(json.get(key).is_none(), "{key}");
    }
    for (from, to, is_right) in [
        (20, 10, false),
        (5, 5, false),
        (0, 99, false),
        (0, 28, true),
    ] {
        assert_eq!(
            cut::part(&report, Some(from), Some(to)).is_ok(),
            is_right,
            "{from} {to}"
        );
    }
}

/// A line whose histogram has no end once it is inflated.
fn inflating(line: &str) -> String {
    let (fields, _) = line.rsplit_once(',').unwrap();
    let mut packed = ZlibEncoder::new(vec![0; 8], Compression::best());
    io::copy(&mut io::repeat(0).take(1 << 28), &mut packed).unwrap();
    format!("{fields},{}", STANDARD.encode(packed.finish().unwrap()))
}

#[test]
fn a_log_that_is_damaged_or_foreign_is_named_and_one_that_lacks_times_leaves_percentiles_open() {
    let home = tempfile::tempdir().unwrap();
    let place = home.path().join("result");
    let (report, ..) = saved(&place);
    let whole = fs::read_to_string(place.join(LOG)).unwrap();
    let seconds = cut::part(&report, Some(10), Some(20)).unwrap();
    let cut_with = |log: &str| {
        fs::write(place.join(LOG), log).unwrap();
        cut::cut(&report, &place, &seconds)
    };
    let is_of = |line: &&str| line.starts_with("Tag=shard-0.response,12.000");
    let line = whole.lines().find(is_of).unwrap();
    for log in [
        // More responses than the seconds count: of another run.
        format!("{whole}{line}\n"),
        whole.replace(line, &line[..line.len() / 2]),
        whole.replace("12.000,1.000", "12.5,1.000"),
        whole[..whole.len() - 1].to_owned(),
        format!("{whole}\u{0}\n"),
        whole.replace(line, &inflating(line)),
    ] {
        let error = cut_with(&log).unwrap_err();
        assert!(
            matches!(error, CutError::Log(ReadError::Bounds { .. })),
            "{error}"
        );
    }
    let files = cut_with(&whole.replace(&format!("{line}\n"), "")).unwrap();
    let json: Value = serde_json::from_str(&files[0].1).unwrap();
    assert!(
        json["not_timed"].as_u64().unwrap() > 50,
        "{}",
        json["not_timed"]
    );
    let open = json["latency"]["response"]["at_least"].as_array().unwrap();
    assert!(open.contains(&"p99_us".into()), "{open:?}");
    fs::remove_file(place.join(LOG)).unwrap();
    let missing = cut::cut(&report, &place, &seconds).unwrap_err();
    assert!(matches!(missing, CutError::Log(ReadError::Io { .. })));
}
