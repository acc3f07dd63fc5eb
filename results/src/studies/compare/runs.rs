//! Metrics of crawls, and their readings in a saved run.
//!
//! They are read from the report alone, without a look at which arm it is of. Where the target's
//! CPU is known, the client's is only shown.

use std::time::Duration;

use crawlmark_harness::stats::Series;

use super::metric::{MICROSECONDS, Metric, PER_SECOND, Reading, Readings, SHARE, Statistic, Worse};
use crate::run::report::{Latency, Report, TARGET_PROCESSES};

/// CPU time of the target per attempt, where a comparison starts it.
pub const TARGET_CPU_PER_ATTEMPT: &str = "target_cpu_per_attempt";
/// CPU time of the client per attempt.
pub const CPU_PER_ATTEMPT: &str = "cpu_per_attempt";
/// Good items per second.
pub const THROUGHPUT: &str = "throughput";
/// The part of the items that were ok. Where every item of every round was, it is not looked at.
pub const OK_SHARE: &str = "ok_share";
/// Median of the service time.
pub const SERVICE_P50: &str = "service_p50";
/// 99th percentile of the service time.
pub const SERVICE_P99: &str = "service_p99";

/// The metrics of crawls, in the order of reports.
pub fn run_metrics() -> [Metric; 6] {
    use Worse::{Less, More};
    let new = Metric::new;
    [
        new(
            TARGET_CPU_PER_ATTEMPT,
            ["target CPU per request", "target CPU"],
            MICROSECONDS,
            More,
        ),
        new(
            CPU_PER_ATTEMPT,
            ["client CPU per request", "client CPU"],
            MICROSECONDS,
            More,
        ),
        new(
            THROUGHPUT,
            ["good items per second", "throughput"],
            PER_SECOND,
            Less,
        ),
        Metric {
            // A loss of 2 % is too much.
            smallest_effect: 0.01,
            ..new(OK_SHARE, ["share of ok items", "ok share"], SHARE, Less)
        },
        Metric {
            statistic: Statistic::Median,
            ..new(
                SERVICE_P50,
                ["service time, median", "service p50"],
                MICROSECONDS,
                More,
            )
        },
        Metric {
            // It moves by several percent between equal rounds.
            smallest_effect: 0.05,
            statistic: Statistic::Tail,
            ..new(
                SERVICE_P99,
                ["service time, p99", "service p99"],
                MICROSECONDS,
                More,
            )
        },
    ]
}

/// Read each metric of a run. Where the target's CPU is known, it decides in place of the client's;
/// not that of the bundled target, which is there to measure clients.
pub fn readings_of_run(report: &Report) -> Readings {
    let client = report
        .shards
        .iter()
        .map(|shard| shard.usage.cpu_s())
        .sum::<Option<f64>>();
    let client = client.and_then(|cpu_s| Duration::try_from_secs_f64(cpu_s).ok());
    let attempts = report.totals.attempts;
    let of_client = client.and_then(|used| per_attempt(used, attempts));
    let is_bundled = report.plan.run.workload.contains_key(TARGET_PROCESSES);
    let target = report.target.as_ref().filter(|_| !is_bundled);
    let target = target.and_then(|target| {
        let used = Duration::try_from_secs_f64(target.cpu_us? / 1e6).ok()?;
        Some(cpu(target.cpu_us_per_attempt?, used))
    });
    let client = match (of_client, target) {
        (Some(Reading::Gating(us)), Some(_)) => Some(Reading::Informational(us)),
        (client, _) => client,
    };
    let service = report.latency(Series::ServiceOk);
    Readings::from_iter([
        (TARGET_CPU_PER_ATTEMPT, target.unwrap_or_default()),
        (CPU_PER_ATTEMPT, client.unwrap_or_default()),
        // 0 when none was good, not absent: of two arms that answer nothing, a reading that is
        // missing in both would leave the verdict to their CPU.
        (THROUGHPUT, Reading::Gating(report.totals.ok_per_s)),
        (OK_SHARE, ok_share(report)),
        (
            SERVICE_P50,
            percentile(service, "p50_us", |times| times.p50_us, 2),
        ),
        (
            SERVICE_P99,
            percentile(service, "p99_us", |times| times.p99_us, 100),
        ),
    ])
}

/// CPU time that a round has to have used before a verdict may rest on it. What a process needs to
/// begin and to end is some milliseconds, which differ from round to round and are not the
/// requests': 20 % of noise in rounds of 13 ms, of which one comparison of equal sides in eight
/// made a regression.
const CPU_TO_GATE: Duration = Duration::from_millis(100);

/// CPU time per attempt, of a round that `used` so much in all.
fn cpu(per_attempt: f64, used: Duration) -> Reading {
    Reading::deciding(per_attempt, used >= CPU_TO_GATE)
}

/// Microseconds of CPU per attempt; none when nothing was attempted, or no time was used.
fn per_attempt(used: Duration, attempts: u64) -> Option<Reading> {
    let us = used.as_secs_f64() * 1e6 / attempts as f64;
    (us.is_finite() && us > 0.0).then(|| cpu(us, used))
}

/// The part of the items that were ok, of those that ended by themselves. An item that is not there
/// is not ok: a candidate that lost its items answers fast.
fn ok_share(report: &Report) -> Reading {
    let ended = report.ledger.ended() - report.ledger.aborted;
    match report.ledger.ok {
        _ if ended == 0 => Reading::Absent,
        ok if ok == ended => Reading::Gating(1.0),
        ok => Reading::Gating(ok as f64 / ended as f64),
    }
}

/// The percentile beyond which one in `one_in` lies. One that is only known to be no less decides
/// nothing.
fn percentile(
    times: Option<&Latency>,
    key: &str,
    value: fn(&Latency) -> Option<f64>,
    one_in: u64,
) -> Reading {
    let Some((times, us)) = times.and_then(|times| Some((times, value(times)?))) else {
        return Reading::Absent;
    };
    match Reading::percentile(us, times.count / one_in) {
        Reading::Gating(us) if times.is_at_least(key) => Reading::Informational(us),
        reading => reading,
    }
}
