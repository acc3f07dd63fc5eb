//! The report as `OpenMetrics` 1.0: counters, gauges and histograms.
//!
//! Only these kinds, and no `info` or `stateset`: the text format that is older than `OpenMetrics`,
//! which the textfile collector of Prometheus reads, has none of those and takes all else here as
//! it is meant. The verdict is a gauge for each that there is (`crawlmark_validity`), 1 for the
//! one, and so is each gate. The times of each series are a histogram in seconds: percentiles are
//! left to its readers. A value is counted in a bucket when it is surely no greater than the
//! bucket's bound; the histogram of the report knows it to a thousandth. What was cut off has no
//! time and is counted apart (`crawlmark_cut_off_total`); what lies beyond the histogram's bounds
//! is in the bucket `+Inf` alone.
//!
//! The exposition of a run that goes on has the same metrics, without what only its end tells. It
//! is served in the older format, too, whose counters have `_total` in the names of their families.

use std::fmt::Write;

use crate::judge::SoFar;
use crate::run::report::{Detail, Latency, Report, Verdict};
use crawlmark_harness::stats::Series;

const NS_PER_S: f64 = 1e9;

/// The counter of attempts.
const ATTEMPTS: &str = "attempts";

/// Types of metrics.
const COUNTER: &str = "counter";
const GAUGE: &str = "gauge";
const HISTOGRAM: &str = "histogram";

/// The end of the name of a counter.
const TOTAL: &str = "_total";

/// Names and values of the labels of a sample.
type Labels<'a> = &'a [(&'a str, &'a str)];

/// Format of an exposition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposition {
    /// `OpenMetrics` 1.0.
    OpenMetrics,
    /// The text format of Prometheus, which is older.
    Prometheus,
}

impl Exposition {
    /// The format for a reader that accepts these media types.
    pub fn accepted(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }

    /// Its media type.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Part of the metrics that a run has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// While it goes on.
    Going,
    /// At its end.
    Over,
    /// At any time.
    Always,
}

/// An exposition in the making.
struct Text {
    out: String,
    format: Exposition,
}

/// A shard, as an exposition tells of it.
struct Shard {
    number: String,
    attempts: u64,
    /// CPU, s, by mode; of a run that goes on, in all.
    cpu_s: Vec<(Option<&'static str>, f64)>,
}

impl Text {
    /// Begin a family. Its samples follow, and no other family's until it is done. Its name ends
    /// with its unit when it has one.
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        const UNITS: [&str; 3] = ["seconds", "bytes", "ratio"];
        let is_open = self.format == Exposition::OpenMetrics;
        let total = if is_open || kind != COUNTER {
            ""
        } else {
            TOTAL
        };
        let _ = writeln!(self.out, "# TYPE {name}{total} {kind}");
        if let Some(unit) = UNITS
            .into_iter()
            .find(|unit| is_open && name.ends_with(unit))
        {
            let _ = writeln!(self.out, "# UNIT {name} {unit}");
        }
        let _ = writeln!(self.out, "# HELP {name}{total} {}", escaped(help));
    }

    /// Add a sample of the family that was begun last.
    fn sample(&mut self, name: &str, labels: Labels<'_>, value: &dyn ToString) {
        let pairs: Vec<String> = labels
            .iter()
            .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
            .collect();
        let set = if pairs.is_empty() {
            String::new()
        } else {
            format!("{{{}}}", pairs.join(","))
        };
        let _ = writeln!(self.out, "{name}{set} {}", value.to_string());
    }

    /// Add a counter with these samples: the value of the label, and the count.
    fn counter<V: ToString>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        samples: impl IntoIterator<Item = (V, u64)>,
    ) {
        self.family(name, COUNTER, help);
        for (value, count) in samples {
            let value = value.to_string();
            let one = [(label, &*value)];
            let labels: Labels<'_> = if label.is_empty() { &[] } else { &one };
            self.sample(&format!("{name}{TOTAL}"), labels, &count);
        }
    }

    /// Add a gauge with a sample for each of several states, 1 for the one that is.
    fn states<'a>(
        &mut self,
        name: &str,
        own: Labels<'_>,
        label: &str,
        states: impl IntoIterator<Item = (&'a str, bool)>,
    ) {
        for (state, is) in states {
            let labels = [own, &[(label, state)]].concat();
            self.sample(name, &labels, &u8::from(is));
        }
    }
}

impl Text {
    const fn new(format: Exposition) -> Self {
        let out = String::new();
        Self { out, format }
    }

    fn end(self) -> String {
        match self.format {
            Exposition::OpenMetrics => self.out + "# EOF\n",
            Exposition::Prometheus => self.out,
        }
    }
}

/// The exposition of a run that is over.
pub fn openmetrics(report: &Report, format: Exposition) -> String {
    let shards = report.shards.iter().map(|shard| {
        // A shard that died did not report its CPU.
        let modes = [
            ("user", shard.usage.cpu_user_s),
            ("system", shard.usage.cpu_system_s),
        ];
        let known = modes.into_iter();
        Shard {
            number: shard.shard.to_string(),
            attempts: shard.totals.attempts,
            cpu_s: known
                .filter_map(|(mode, cpu_s)| Some((Some(mode), cpu_s?)))
                .collect(),
        }
    });
    let mut text = Text::new(format);
    write_run(&mut text, report, Known::Over);
    write_validity(&mut text, report);
    write_counts(&mut text, report, &shards.collect::<Vec<_>>(), Known::Over);
    write_gauges(&mut text, report, Known::Over);
    write_gates(&mut text, report);
    write_times(&mut text, report);
    text.end()
}

/// The exposition of a run that goes on.
pub fn openmetrics_so_far(run: &mut SoFar, format: Exposition) -> String {
    let shards: Vec<Shard> = run
        .shards()
        .iter()
        .map(|(number, shard)| Shard {
            number: number.to_string(),
            attempts: shard.attempts,
            cpu_s: vec![(None, shard.cpu_us as f64 / 1e6)],
        })
        .collect();
    let report = run.report(Detail::Histogram);
    let mut text = Text::new(format);
    write_run(&mut text, report, Known::Going);
    write_counts(&mut text, report, &shards, Known::Going);
    write_gauges(&mut text, report, Known::Going);
    write_times(&mut text, report);
    text.end()
}

/// Which run it is. One that goes on has no ID yet: that holds the time of its start.
fn write_run(text: &mut Text, report: &Report, known: Known) {
    let help = "The run that these metrics describe.";
    text.family("crawlmark_run_info", GAUGE, help);
    let labels = [
        ("name", &*report.name),
        ("version", &report.crawlmark_version),
        ("target", &report.plan.run.target),
        ("config_hash", &report.plan.config_hash),
        ("run_id", &report.run_id),
        ("started_at", &report.started_at),
    ];
    let known_labels = match known {
        Known::Going => &labels[..4],
        Known::Over | Known::Always => &labels,
    };
    text.sample("crawlmark_run_info", known_labels, &1);
}

fn write_validity(text: &mut Text, report: &Report) {
    let help = "1 for the verdict on the measurement, else 0.";
    text.family("crawlmark_validity", GAUGE, help);
    let verdicts = Verdict::ALL.map(|one| (one.name(), one == report.validity.verdict));
    text.states("crawlmark_validity", &[], "verdict", verdicts);
}

fn write_counts(text: &mut Text, report: &Report, shards: &[Shard], known: Known) {
    let totals = &report.totals;
    let begun = report.ledger.items.iter().count();
    // How many were not begun is only certain at the end.
    let certain = match known {
        Known::Going => begun,
        Known::Over | Known::Always => usize::MAX,
    };
    let states = report
        .ledger
        .states()
        .take(certain)
        .map(|(state, _, count)| (state, count));
    text.counter(
        "crawlmark_items",
        "Planned items, each in one state.",
        "state",
        states,
    );
    let statuses = totals
        .attempts_by_status
        .iter()
        .map(|(status, n)| (*status, *n));
    text.counter(
        "crawlmark_answers",
        "Responses, by status.",
        "status",
        statuses,
    );
    let errors = totals
        .errors_by_kind
        .iter()
        .map(|(kind, n)| (kind.name(), *n));
    text.counter(
        "crawlmark_errors",
        "Requests without a valid response, by kind.",
        "kind",
        errors,
    );
    // Attempts are told by shard.
    let counters = totals.requests.iter();
    for (counter, count) in counters.filter(|(counter, _)| counter.name != ATTEMPTS) {
        let name = match counter.of_bytes() {
            Some(name) => format!("crawlmark_{name}_bytes"),
            None => format!("crawlmark_{}", counter.name),
        };
        text.counter(&name, counter.help, "", [("", count)]);
    }
    let attempts = shards.iter().map(|shard| (&shard.number, shard.attempts));
    text.counter(
        "crawlmark_attempts",
        "Requests, retries included.",
        "shard",
        attempts,
    );
    text.family(
        "crawlmark_cpu_seconds",
        COUNTER,
        "CPU that the shards used.",
    );
    for shard in shards {
        for (mode, cpu_s) in &shard.cpu_s {
            let labels = [("shard", &*shard.number), ("mode", mode.unwrap_or(""))];
            let known = &labels[..=usize::from(mode.is_some())];
            text.sample("crawlmark_cpu_seconds_total", known, &float(*cpu_s));
        }
    }
}

fn write_gauges(text: &mut Text, report: &Report, now: Known) {
    let (totals, budget) = (&report.totals, report.budget.as_ref());
    let last = report.intervals.last();
    let rows = [
        (
            Known::Over,
            "interrupted",
            "1 when the run was stopped early, else 0.",
            Some(f64::from(report.interrupted)),
        ),
        (
            Known::Always,
            "duration_seconds",
            "From the common start to the last response, the end of --duration or the stop.",
            Some(totals.duration_s),
        ),
        (
            Known::Always,
            "items_per_second",
            "Items that ended by themselves.",
            Some(totals.items_per_s),
        ),
        (
            Known::Always,
            "attempts_per_second",
            "Requests that ended by themselves.",
            Some(totals.attempts_per_s),
        ),
        (
            Known::Going,
            "in_flight",
            "Requests in flight.",
            last.map(|row| row.in_flight.into()),
        ),
        (
            Known::Over,
            "peak_in_flight",
            "Peak number of requests in flight.",
            Some(totals.peak_in_flight as f64),
        ),
        (
            Known::Over,
            "budget_used_ratio",
            "Share of the allowed requests that were sent.",
            budget.map(|budget| budget.utilisation),
        ),
        (
            Known::Over,
            "budget_kept",
            "1 if no window had more requests than allowed, else 0.",
            budget.map(|budget| f64::from(budget.kept)),
        ),
    ];
    for (known, name, help, value) in rows {
        let is_known = known == now || known == Known::Always;
        if let Some(value) = value.filter(|value| is_known && value.is_finite()) {
            let name = format!("crawlmark_{name}");
            text.family(&name, GAUGE, help);
            text.sample(&name, &[], &float(value));
        }
    }
}

fn write_gates(text: &mut Text, report: &Report) {
    if report.gates.is_empty() {
        return;
    }
    let help = "1 for the state of the threshold, else 0.";
    text.family("crawlmark_gate", GAUGE, help);
    // Two gates that read the same would be one series twice.
    let mut told: Vec<[(&str, &str); 2]> = Vec::new();
    for gate in &report.gates {
        let labels = [("expression", &*gate.expression), ("kind", &*gate.kind)];
        if !told.contains(&labels) {
            told.push(labels);
            let states = [
                ("passed", gate.ok == Some(true)),
                ("failed", gate.ok == Some(false)),
                ("undecided", gate.ok.is_none()),
            ];
            text.states("crawlmark_gate", &labels, "state", states);
        }
    }
}

fn write_times(text: &mut Text, report: &Report) {
    let cut_off = report
        .latency
        .iter()
        .map(|(series, latency)| (series, latency.censored));
    let help = "Samples of which only the least time is known, by series.";
    text.counter("crawlmark_cut_off", help, "series", cut_off);
    // By the names that this program knows: whatever else a saved result holds is not made the name
    // of a metric.
    for (series, latency) in &report.latency {
        if Series::ALL.iter().any(|known| known.name() == series) {
            write_histogram(text, series, latency);
        }
    }
}

/// The bounds of the buckets, s: six in a factor of ten, from 10 us to 1,000 s, the same for every
/// run. Divided where that is exact: 7/1000 is the number nearest to 0.007, and 7 * 0.001 is not.
fn bounds_s() -> impl Iterator<Item = f64> {
    let steps = [1.0, 1.5, 2.0, 3.0, 5.0, 7.0];
    let decades = (-5..3).flat_map(move |tens: i32| {
        let unit = 10_f64.powi(tens.abs());
        steps.map(|step| if tens < 0 { step / unit } else { step * unit })
    });
    decades.chain([1e3])
}

/// None of a series without a value, and of one whose histogram the report does not hold.
fn write_histogram(text: &mut Text, series: &str, latency: &Latency) {
    let (Some(distribution), Some(mean_us)) = (latency.distribution(), latency.mean_us) else {
        return;
    };
    let name = format!("crawlmark_{series}_seconds");
    let help = "Times of this series; see `latency` in docs/src/reference/figures.md.";
    text.family(&name, HISTOGRAM, help);
    let mut cells = distribution.histogram().iter_recorded().peekable();
    let bucket = format!("{name}_bucket");
    let mut count = 0;
    for bound in bounds_s() {
        while let Some(cell) =
            cells.next_if(|cell| cell.value_iterated_to() as f64 <= bound * NS_PER_S)
        {
            count += cell.count_since_last_iteration();
        }
        text.sample(&bucket, &[("le", &float(bound))], &count);
    }
    text.sample(&bucket, &[("le", "+Inf")], &latency.count);
    text.sample(&format!("{name}_count"), &[], &latency.count);
    text.sample(
        &format!("{name}_sum"),
        &[],
        &float(mean_us * latency.count as f64 / 1e6),
    );
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// A number in its canonical form, as Go's `%g` writes it and with `.0` when it is whole: `0.0001`,
/// `1e-05`, `1000.0`, `1e+06`.
fn float(value: f64) -> String {
    match value {
        v if v.is_nan() => "NaN".to_owned(),
        v if v.is_infinite() => if v > 0.0 { "+Inf" } else { "-Inf" }.to_owned(),
        v if v == 0.0 || (1e-4..1e6).contains(&v.abs()) => format!("{v:?}"),
        v => {
            let text = format!("{v:e}");
            let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            let (sign, exponent) = exponent
                .strip_prefix('-')
                .map_or(('+', exponent), |rest| ('-', rest));
            format!("{digits}e{sign}{exponent:0>2}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_canonical() {
        for (value, text) in [
            (0.0, "0.0"),
            (0.0001, "0.0001"),
            (0.000_015, "1.5e-05"),
            (-2.5, "-2.5"),
            (123_456.0, "123456.0"),
            (1e6, "1e+06"),
            (1e100, "1e+100"),
            (f64::INFINITY, "+Inf"),
        ] {
            assert_eq!(float(value), text);
            assert!(value.is_nan() || text.parse() == Ok(value));
        }
    }

    #[test]
    fn bounds_rise_and_are_written_as_one_reads_them() {
        let bounds: Vec<f64> = bounds_s().collect();
        assert!(
            bounds.windows(2).all(|pair| pair[0] < pair[1]),
            "{bounds:?}"
        );
        let written: Vec<String> = bounds.iter().map(|bound| float(*bound)).collect();
        assert_eq!(written[..3], ["1e-05", "1.5e-05", "2e-05"]);
        assert_eq!(written[6], "0.0001");
        assert!(written.iter().all(|bound| bound.len() <= 7), "{written:?}");
        assert_eq!(written.last().map(String::as_str), Some("1000.0"));
    }

    #[test]
    fn a_label_cannot_break_out() {
        let mut text = Text::new(Exposition::OpenMetrics);
        text.sample("a_seconds", &[("b", "c\"} 5\n\\")], &1);
        assert_eq!(text.out, "a_seconds{b=\"c\\\"} 5\\n\\\\\"} 1\n");
    }
}
