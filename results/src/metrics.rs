//! A metric of a comparison, as data: its unit, the direction in which it gets worse, the smallest
//! loss that counts; and what a round read of it.
//!
//! The metrics of crawls are read from the report alone, without a look at which arm it is of. Where
//! the target's CPU is known, the client's is only shown.
//!
//! The executions of a round of commands take turns with those of the other, and the test looks at
//! the pairs of executions, not at the mean of a round: where a machine has a quick and a slow mode
//! that last for a few executions, the mean varies with them, and most of the pairs do not. Where a
//! comparison is of numbers that the commands print, only those decide.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crawlmark_harness::stats::Series;
use serde::{Deserialize, Serialize};

use crate::run::report::{Latency, Report};
use crate::show::text::{bytes_f64, decimal, micros};

/// Samples that must lie beyond a percentile of a round before a verdict may rest on it.
const BEYOND_TO_GATE: u64 = 100;

/// Samples that must lie beyond a percentile before it is shown at all.
const BEYOND_TO_SHOW: u64 = 10;

/// The most that is named of how much longer a round has to be: of a reading of nearly nothing, its
/// size says little.
const LONGEST: f64 = 1_000.0;

/// What is compared. No more than five of them decide, and four where nothing fails, because each
/// more costs all of them power: the error that a comparison may make is shared by the metrics that
/// may decide.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Name in reports: `throughput`.
    #[serde(rename = "metric")]
    pub name: Cow<'static, str>,
    /// Name in a sentence.
    pub title: Cow<'static, str>,
    /// Name in a column of a table.
    pub column: Cow<'static, str>,
    /// Unit of its readings: [`MICROSECONDS`], [`BYTES`], [`PER_SECOND`], [`SHARE`], or what a user
    /// calls it.
    pub unit: Cow<'static, str>,
    /// Direction in which it gets worse.
    pub worse: Worse,
    /// The smallest loss that is called a regression, as a fraction of the base.
    pub smallest_effect: f64,
    /// A loss that is surely below this fraction of the base passes. It is below the loss that is
    /// promised to be found: a bound as great as that would let 2.5 % of such losses pass at each
    /// look.
    pub passes_below: f64,
    /// What its reading is of the values of a round.
    pub statistic: Statistic,
}

/// Unit of times.
pub const MICROSECONDS: &str = "us";
/// Unit of memory.
pub const BYTES: &str = "bytes";
/// Unit of rates.
pub const PER_SECOND: &str = "1/s";
/// Unit of a part of a whole, in `0..=1`.
pub const SHARE: &str = "share";

/// Direction in which a metric gets worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Worse {
    /// A cost: the candidate is worse when it reads more.
    More,
    /// A yield: the candidate is worse when it reads less.
    Less,
}

/// What a reading is of the values of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Statistic {
    /// A sum, mean, rate or share of all.
    Mean,
    /// The median, which a round of few values does not have.
    Median,
    /// A percentile of the tail: a single freeze makes it as large as itself.
    Tail,
}

impl Metric {
    /// A metric of a crawl, whose reading is of all values: a loss of 2 % counts, and one below 4 %
    /// passes.
    pub const fn new(
        name: &'static str,
        [title, column]: [&'static str; 2],
        unit: &'static str,
        worse: Worse,
    ) -> Self {
        Self {
            name: Cow::Borrowed(name),
            title: Cow::Borrowed(title),
            column: Cow::Borrowed(column),
            unit: Cow::Borrowed(unit),
            worse,
            smallest_effect: 0.02,
            passes_below: 0.04,
            statistic: Statistic::Mean,
        }
    }

    /// A number that a command prints, which has one name everywhere.
    pub fn named(name: &str, unit: &str, worse: Worse) -> Self {
        let name = Cow::<str>::Owned(name.to_owned());
        Self {
            name: name.clone(),
            title: name.clone(),
            column: name,
            unit: unit.to_owned().into(),
            ..Self::of_command("", "", "", worse)
        }
    }

    /// A metric of a command, which varies less than one of a crawl: a loss of 1 % counts, the noise
    /// threshold of criterion, and one below 2.5 % passes, so that one of 3 % is found.
    pub fn of_command(
        name: &'static str,
        title: &'static str,
        unit: &'static str,
        worse: Worse,
    ) -> Self {
        Self {
            smallest_effect: 0.01,
            passes_below: 0.025,
            ..Self::new(name, [title, title], unit, worse)
        }
    }

    /// A value with its unit.
    pub fn in_unit(&self, value: f64) -> String {
        match &*self.unit {
            MICROSECONDS => micros(value),
            PER_SECOND => format!("{}/s", decimal(value)),
            SHARE => format!("{:.2} %", value * 100.0),
            BYTES => bytes_f64(value),
            unit => format!("{} {unit}", decimal(value)).trim_end().to_owned(),
        }
    }

    /// Return the candidate's loss, on the scale of logarithms: `ln(candidate/base)` for a cost,
    /// and minus that for a yield. Positive is worse. The function is its own inverse.
    pub fn toward_worse(&self, log_ratio: f64) -> f64 {
        match self.worse {
            Worse::More => log_ratio,
            Worse::Less => -log_ratio,
        }
    }

    /// A loss of `fraction` of the base on the scale of [`Metric::toward_worse`]: `ln(1 + f)` for a
    /// cost, `-ln(1 - f)` for a yield, of which no more than everything can be lost.
    pub fn loss(&self, fraction: f64) -> f64 {
        self.toward_worse(self.toward_worse(fraction).ln_1p())
    }

    /// The inverse of [`Metric::loss`]: which fraction of the base `worse` is.
    pub fn fraction(&self, worse: f64) -> f64 {
        self.toward_worse(self.toward_worse(worse).exp_m1())
    }
}

/// Change from a number to another without a ratio: one is 0, or they have different signs. No ratio
/// of measured values is as large as its exponential, 1e130.
pub(crate) const FAR: f64 = 300.0;

/// Return the change between two readings on the scale of logarithms: `ln(candidate/base)`, positive
/// where the candidate is greater; of two numbers below 0, that of their sizes, turned round; 0 of
/// equal ones; and [`FAR`] or `-FAR` of others. With the sides swapped, its sign changes and nothing
/// else, which the test needs. NaN of what is no number.
pub(crate) fn log_change([base, candidate]: [f64; 2]) -> f64 {
    if base > 0.0 && candidate > 0.0 {
        // Not of the ratio, which may be too great or too small for a number.
        return candidate.ln() - base.ln();
    }
    if base < 0.0 && candidate < 0.0 {
        return (-base).ln() - (-candidate).ln();
    }
    let difference = candidate - base;
    if difference == 0.0 || difference.is_nan() {
        return difference;
    }
    FAR.copysign(difference)
}

/// Reading of one metric in one round. The unit is the metric's, the same in both arms: only ratios
/// are looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// The round has none.
    #[default]
    Absent,
    /// Shown only: another metric decides, or it is a bound.
    Informational(f64),
    /// Of too little for a verdict.
    Coarse {
        /// The number read; null where even showing it would mislead.
        value: Option<f64>,
        /// How many times as much a round has to read for a verdict to rest on it.
        longer: f64,
    },
    /// A verdict may rest on it.
    Gating(f64),
}

impl Reading {
    /// A percentile of `count` values, beyond which one in `one_in` lies: a verdict may rest on it
    /// with 100 values beyond it, and with fewer than 10 it is not shown.
    ///
    /// The relative standard error of the 99th percentile of an exponential tail is 2.2 % with 100
    /// samples beyond it and 7 % with 10.
    pub fn percentile(value: Option<f64>, count: u64, one_in: u64) -> Self {
        let beyond = count / one_in;
        match value {
            _ if count == 0 => Self::Absent,
            Some(value) if beyond >= BEYOND_TO_GATE => Self::Gating(value),
            _ => Self::Coarse {
                value: value.filter(|_| beyond >= BEYOND_TO_SHOW),
                longer: (BEYOND_TO_GATE * one_in) as f64 / count as f64,
            },
        }
    }

    /// A value of so much, on which a verdict may rest if that is at least `enough`.
    pub fn of_much(value: f64, much: f64, enough: f64) -> Self {
        if much >= enough {
            return Self::Gating(value);
        }
        Self::Coarse {
            value: Some(value),
            longer: (enough / much).min(LONGEST),
        }
    }

    /// The number read.
    pub const fn value(self) -> Option<f64> {
        match self {
            Self::Absent => None,
            Self::Coarse { value, .. } => value,
            Self::Informational(value) | Self::Gating(value) => Some(value),
        }
    }

    /// How many times as much a round has to read for a verdict to rest on it; none where that
    /// would not help.
    pub const fn longer(self) -> Option<f64> {
        match self {
            Self::Coarse { longer, .. } => Some(longer),
            _ => None,
        }
    }
}

/// Readings of one round by the names of their metrics. A metric that is not there was not read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Readings(BTreeMap<Cow<'static, str>, Reading>);

impl Readings {
    /// The reading of the metric with this name.
    pub fn of(&self, metric: &str) -> Reading {
        self.0.get(metric).copied().unwrap_or_default()
    }

    /// Set the reading of a metric.
    pub fn set(&mut self, metric: impl Into<Cow<'static, str>>, reading: Reading) {
        self.0.insert(metric.into(), reading);
        self.0.retain(|_, reading| *reading != Reading::Absent);
    }
}

impl<N: Into<Cow<'static, str>>> FromIterator<(N, Reading)> for Readings {
    fn from_iter<I: IntoIterator<Item = (N, Reading)>>(readings: I) -> Self {
        let mut all = Self::default();
        for (metric, reading) in readings {
            all.set(metric, reading);
        }
        all
    }
}

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
    use Worse::Less;
    let mut metrics = [
        time(
            TARGET_CPU_PER_ATTEMPT,
            ["target CPU per request", "target CPU"],
            Statistic::Mean,
        ),
        time(
            CPU_PER_ATTEMPT,
            ["client CPU per request", "client CPU"],
            Statistic::Mean,
        ),
        Metric::new(
            THROUGHPUT,
            ["good items per second", "throughput"],
            PER_SECOND,
            Less,
        ),
        Metric::new(OK_SHARE, ["share of ok items", "ok share"], SHARE, Less),
        time(
            SERVICE_P50,
            ["service time, median", "service p50"],
            Statistic::Median,
        ),
        time(
            SERVICE_P99,
            ["service time, p99", "service p99"],
            Statistic::Tail,
        ),
    ];
    // A loss of 2 % is too much.
    metrics[3].smallest_effect = 0.01;
    // It moves by several percent between equal rounds.
    metrics[5].smallest_effect = 0.05;
    metrics
}

fn time(name: &'static str, titles: [&'static str; 2], statistic: Statistic) -> Metric {
    Metric {
        statistic,
        ..Metric::new(name, titles, MICROSECONDS, Worse::More)
    }
}

/// The CPU of the target per request; none of the bundled target.
fn target_cpu(report: &Report) -> Option<Reading> {
    if report.plan.run.workload.bundled.is_some() {
        return None;
    }
    let target = report.target.as_ref()?;
    let (each, all) = (target.cpu_us_per_attempt?, target.cpu_us?);
    Some(Reading::of_much(each, all / 1e6, CPU_TO_GATE_S))
}

/// Read each metric of a run. Where the target's CPU is known, it decides in place of the client's;
/// not that of the bundled target, which is there to measure clients.
pub fn readings_of_run(report: &Report) -> Readings {
    let client_s: Option<f64> = report.shards.iter().map(|shard| shard.usage.cpu_s()).sum();
    let target = target_cpu(report);
    let client = client_s.and_then(|used_s| {
        let us = used_s * 1e6 / report.totals.attempts as f64;
        let is_usable = us.is_finite() && us > 0.0;
        is_usable.then(|| match target {
            Some(_) => Reading::Informational(us),
            None => Reading::of_much(us, used_s, CPU_TO_GATE_S),
        })
    });
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
const CPU_TO_GATE_S: f64 = 0.1;

/// The part of the items that were ok, of those that ended by themselves. An item that is not there
/// is not ok: a candidate that lost its items answers fast.
fn ok_share(report: &Report) -> Reading {
    let ended = report.ledger.ended() - report.ledger.aborted;
    if ended == 0 {
        return Reading::Absent;
    }
    Reading::Gating(report.ledger.ok as f64 / ended as f64)
}

/// The percentile beyond which one in `one_in` lies. One that is only known to be no less decides
/// nothing.
fn percentile(
    times: Option<&Latency>,
    key: &str,
    value: fn(&Latency) -> Option<f64>,
    one_in: u64,
) -> Reading {
    let Some(times) = times else {
        return Reading::Absent;
    };
    match Reading::percentile(value(times), times.count, one_in) {
        Reading::Gating(us) if times.is_at_least(key) => Reading::Informational(us),
        reading => reading,
    }
}

/// Time from the start of a command to its end.
pub const WALL_TIME: &str = "wall_time";
/// CPU time of a command and of the processes that it waited for, user and system.
pub const CPU_TIME: &str = "cpu_time";
/// Peak memory of the largest of its processes.
pub const PEAK_MEMORY: &str = "peak_memory";

/// CPU time of an execution from which on it may decide: below it, what a process needs to begin
/// and to end is most of it.
const CPU_TO_GATE_US: f64 = 10_000.0;

/// Peak memory from which on it may decide. A smaller one is mostly that of the process that
/// started the command, and of its libraries.
const MEMORY_TO_GATE: f64 = (16 * 1024 * 1024) as f64;

/// The metrics of every command.
pub fn command_metrics() -> [Metric; 3] {
    [
        Metric::of_command(WALL_TIME, "wall time", MICROSECONDS, Worse::More),
        Metric::of_command(CPU_TIME, "CPU time", MICROSECONDS, Worse::More),
        Metric::of_command(PEAK_MEMORY, "peak memory", BYTES, Worse::More),
    ]
}

/// An execution of a command.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Execution {
    /// Time from its start to its end, µs.
    pub wall_us: f64,
    /// CPU time of it and of the processes that it waited for, user and system, µs.
    pub cpu_us: f64,
    /// Peak memory of the largest of its processes, bytes.
    pub peak_memory: u64,
    /// Its exit code; null if a signal ended it.
    pub exit_code: Option<i32>,
    /// Numbers that it printed, by name.
    pub values: BTreeMap<String, f64>,
    /// What the machine counted of it, by the names of [`COUNTERS`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counted: BTreeMap<String, u64>,
}

/// Counts of an execution: name, and name in a sentence. Instructions, cycles and cache misses are
/// of user space, from hardware that few virtual machines have.
pub const COUNTERS: [(&str, &str); 5] = [
    (INSTRUCTIONS, "instructions"),
    ("cycles", "CPU cycles"),
    ("cache_misses", "cache misses"),
    ("context_switches", "context switches"),
    ("page_faults", "page faults"),
];

/// The count that decides, too: it hardly varies, so that it finds a loss of 1 % with the fewest
/// pairs.
const INSTRUCTIONS: &str = "instructions";

/// The metrics of what a machine counts.
pub fn counter_metrics() -> [Metric; COUNTERS.len()] {
    COUNTERS.map(|(name, title)| Metric::of_command(name, title, "", Worse::More))
}

/// The most parts of a round: their number in all pairs is what the exact test costs.
const PARTS: usize = 10;

/// Read each metric of the executions of a round one by one, or of several at a time where there
/// are more than 10.
pub(crate) fn readings_of_parts(executions: &[Execution]) -> Vec<Readings> {
    let size = executions.len().div_ceil(PARTS).max(1);
    executions
        .chunks(size)
        .map(readings_of_executions)
        .collect()
}

/// Read each metric of a round: the mean of its executions.
pub fn readings_of_executions(executions: &[Execution]) -> Readings {
    let mean = |of: &dyn Fn(&Execution) -> f64| {
        executions.iter().map(of).sum::<f64>() / executions.len() as f64
    };
    let Some(first) = executions.first() else {
        return Readings::default();
    };
    // Whoever names a number means that one.
    let of_much = |value, enough| {
        if first.values.is_empty() {
            Reading::of_much(value, value, enough)
        } else {
            Reading::Informational(value)
        }
    };
    let [wall, cpu, memory] = [
        mean(&|one| one.wall_us),
        mean(&|one| one.cpu_us),
        mean(&|one| one.peak_memory as f64),
    ];
    let mut readings = Readings::from_iter([
        (WALL_TIME, of_much(wall, 0.0)),
        (CPU_TIME, of_much(cpu, CPU_TO_GATE_US)),
        (PEAK_MEMORY, of_much(memory, MEMORY_TO_GATE)),
    ]);
    for name in first.counted.keys() {
        let value = mean(&|one| {
            one.counted
                .get(name)
                .map_or(f64::NAN, |count| *count as f64)
        });
        let reading = match &**name {
            INSTRUCTIONS if value.is_finite() => of_much(value, 0.0),
            _ => Reading::Informational(value),
        };
        if value.is_finite() {
            readings.set(name.clone(), reading);
        }
    }
    for name in first.values.keys() {
        let value = mean(&|one| one.values.get(name).copied().unwrap_or(f64::NAN));
        readings.set(name.clone(), Reading::Gating(value));
    }
    readings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_a_fraction_of_the_base_whichever_way_is_worse() {
        for (worse, candidate) in [(Worse::More, 1.05_f64), (Worse::Less, 0.95)] {
            let metric = Metric::new("m", ["m", "m"], SHARE, worse);
            let worse = metric.toward_worse(candidate.ln());
            assert!(
                (worse - metric.loss(0.05)).abs() < 1e-12,
                "{metric:?}: {worse}"
            );
            assert!((metric.fraction(worse) - 0.05).abs() < 1e-12);
            assert!((metric.toward_worse(metric.toward_worse(0.3)) - 0.3).abs() < 1e-12);
        }
    }

    #[test]
    fn a_change_has_the_sign_of_the_order_and_turns_round_with_the_sides() {
        let numbers = [-1e9, -5.0, -4.9, -1e-9, 0.0, 1e-9, 4.9, 5.0, 1e9];
        for base in numbers {
            for candidate in numbers {
                let change = log_change([base, candidate]);
                assert_eq!(change.partial_cmp(&0.0), candidate.partial_cmp(&base));
                assert!((change + log_change([candidate, base])).abs() < 1e-9);
                let is_same = (base - candidate).abs() < f64::EPSILON;
                let has_ratio = base * candidate > 0.0 || is_same;
                assert_eq!(change.abs() < FAR, has_ratio, "{base} {candidate}");
            }
            for other in [f64::NAN, f64::INFINITY] {
                assert!(!log_change([base, other]).is_finite() || base <= 0.0);
            }
        }
    }

    #[test]
    fn a_percentile_counts_for_as_much_as_lies_beyond_it() {
        let coarse = |value, longer| Reading::Coarse { value, longer };
        for (count, expected) in [
            (0, Reading::Absent),
            (500, coarse(None, 20.0)),
            (1_000, coarse(Some(7.0), 10.0)),
            (8_000, coarse(Some(7.0), 1.25)),
            (10_000, Reading::Gating(7.0)),
        ] {
            assert_eq!(
                Reading::percentile(Some(7.0), count, 100),
                expected,
                "{count}"
            );
        }
    }

    fn execution(cpu_us: f64, values: &[(&str, f64)]) -> Execution {
        Execution {
            wall_us: 2.0 * cpu_us,
            cpu_us,
            peak_memory: 1 << 30,
            exit_code: Some(0),
            values: values
                .iter()
                .map(|(name, value)| ((*name).to_owned(), *value))
                .collect(),
            counted: BTreeMap::new(),
        }
    }

    #[test]
    fn a_round_reads_as_the_mean_of_its_executions() {
        let readings =
            readings_of_executions(&[execution(20_000.0, &[]), execution(40_000.0, &[])]);
        assert_eq!(readings.of(CPU_TIME), Reading::Gating(30_000.0));
        assert_eq!(readings.of(WALL_TIME), Reading::Gating(60_000.0));
        let short = readings_of_executions(&[execution(500.0, &[])]);
        let coarse = Reading::Coarse {
            value: Some(500.0),
            longer: 20.0,
        };
        assert_eq!(short.of(CPU_TIME), coarse);
    }

    #[test]
    fn where_a_number_is_named_it_alone_decides() {
        let readings = readings_of_executions(&[execution(20_000.0, &[("score", 7.0)])]);
        assert_eq!(readings.of("score"), Reading::Gating(7.0));
        assert_eq!(readings.of(WALL_TIME), Reading::Informational(40_000.0));
    }
}
