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

mod text;

use self::text::{Labels, MetricType, Text, float};
use crate::run::report::{GateReport, Latency, Report, ShardReport, Verdict};
use crawlmark_harness::stats::Series;

const NS_PER_S: f64 = 1e9;

/// The counter of attempts.
const ATTEMPTS: &str = "attempts";

/// The exposition.
pub(super) fn openmetrics(report: &Report) -> String {
    let mut text = Text::new();
    write_run(&mut text, report);
    write_items(&mut text, report);
    write_attempts(&mut text, report);
    write_shards(&mut text, &report.shards);
    write_gauges(&mut text, report);
    write_gates(&mut text, &report.gates);
    write_times(&mut text, report);
    text.end()
}

fn write_run(text: &mut Text, report: &Report) {
    text.family(
        "crawlmark_run_info",
        MetricType::Gauge,
        "",
        "The run that these metrics describe.",
    );
    let labels = [
        ("run_id", report.run_id.as_str()),
        ("name", &report.name),
        ("version", &report.crawlmark_version),
        ("started_at", &report.started_at),
        ("target", &report.plan.run.target),
        ("config_hash", &report.plan.config_hash),
    ];
    text.sample("crawlmark_run_info", &labels, "1");
    text.family(
        "crawlmark_validity",
        MetricType::Gauge,
        "",
        "1 for the verdict on the measurement, else 0.",
    );
    for verdict in Verdict::ALL {
        let is = u8::from(verdict == report.validity.verdict).to_string();
        text.sample("crawlmark_validity", &[("verdict", verdict.name())], &is);
    }
    text.family(
        "crawlmark_interrupted",
        MetricType::Gauge,
        "",
        "1 when the run was stopped early, else 0.",
    );
    text.sample(
        "crawlmark_interrupted",
        &[],
        &u8::from(report.interrupted).to_string(),
    );
}

fn write_items(text: &mut Text, report: &Report) {
    text.family(
        "crawlmark_items",
        MetricType::Counter,
        "",
        "Planned items, each in one state.",
    );
    for (state, _, count) in report.ledger.states() {
        text.sample(
            "crawlmark_items_total",
            &[("state", state)],
            &count.to_string(),
        );
    }
}

fn write_attempts(text: &mut Text, report: &Report) {
    let totals = &report.totals;
    text.family(
        "crawlmark_answers",
        MetricType::Counter,
        "",
        "Responses, by status.",
    );
    for (status, count) in &totals.attempts_by_status {
        text.sample(
            "crawlmark_answers_total",
            &[("status", &status.to_string())],
            &count.to_string(),
        );
    }
    text.family(
        "crawlmark_errors",
        MetricType::Counter,
        "",
        "Requests without a valid response, by kind.",
    );
    for (kind, count) in &totals.errors_by_kind {
        text.sample(
            "crawlmark_errors_total",
            &[("kind", kind.name())],
            &count.to_string(),
        );
    }
    // Attempts are told by shard.
    for (counter, count) in totals
        .requests
        .iter()
        .filter(|(counter, _)| counter.name != ATTEMPTS)
    {
        let (name, unit) = match counter.of_bytes() {
            Some(name) => (format!("crawlmark_{name}_bytes"), "bytes"),
            None => (format!("crawlmark_{}", counter.name), ""),
        };
        text.family(&name, MetricType::Counter, unit, counter.help);
        text.sample(&format!("{name}_total"), &[], &count.to_string());
    }
}

/// Write the figures by shard: attempts, whose sum is the run's, and CPU, which a shard that died
/// did not report.
fn write_shards(text: &mut Text, shards: &[ShardReport]) {
    text.family(
        "crawlmark_attempts",
        MetricType::Counter,
        "",
        "Requests, retries included.",
    );
    for shard in shards {
        let number = shard.shard.to_string();
        text.sample(
            "crawlmark_attempts_total",
            &[("shard", &number)],
            &shard.totals.attempts.to_string(),
        );
    }
    text.family(
        "crawlmark_cpu_seconds",
        MetricType::Counter,
        "seconds",
        "CPU that the shards used.",
    );
    for shard in shards {
        let number = shard.shard.to_string();
        for (mode, cpu_s) in [
            ("user", shard.usage.cpu_user_s),
            ("system", shard.usage.cpu_system_s),
        ] {
            if let Some(cpu_s) = cpu_s {
                text.sample(
                    "crawlmark_cpu_seconds_total",
                    &[("shard", &number), ("mode", mode)],
                    &float(cpu_s),
                );
            }
        }
    }
}

fn write_gauges(text: &mut Text, report: &Report) {
    let totals = &report.totals;
    let budget = report.budget.as_ref();
    let gauges = [
        (
            "crawlmark_duration_seconds",
            "seconds",
            "From the common start to the last response, the end of --duration or the stop.",
            Some(totals.duration_s),
        ),
        (
            "crawlmark_items_per_second",
            "",
            "Items that ended by themselves.",
            Some(totals.items_per_s),
        ),
        (
            "crawlmark_attempts_per_second",
            "",
            "Requests that ended by themselves.",
            Some(totals.attempts_per_s),
        ),
        (
            "crawlmark_peak_in_flight",
            "",
            "Peak number of requests in flight.",
            Some(totals.peak_in_flight as f64),
        ),
        (
            "crawlmark_budget_used_ratio",
            "ratio",
            "Share of the allowed requests that were sent.",
            budget.map(|b| b.utilisation),
        ),
        (
            "crawlmark_budget_kept",
            "",
            "1 if no window had more requests than allowed, else 0.",
            budget.map(|b| f64::from(b.kept)),
        ),
    ];
    for (name, unit, help, value) in gauges {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            text.family(name, MetricType::Gauge, unit, help);
            text.sample(name, &[], &float(value));
        }
    }
}

fn write_gates(text: &mut Text, gates: &[GateReport]) {
    if gates.is_empty() {
        return;
    }
    text.family(
        "crawlmark_gate",
        MetricType::Gauge,
        "",
        "1 for the state of the threshold, else 0.",
    );
    // Two gates that read the same would be one series twice.
    let mut told: Vec<Labels<'_, 2>> = Vec::new();
    for gate in gates {
        let labels = [
            ("expression", gate.expression.as_str()),
            ("kind", gate.kind.as_str()),
        ];
        if told.contains(&labels) {
            continue;
        }
        told.push(labels);
        for (state, is) in [
            ("passed", Some(true)),
            ("failed", Some(false)),
            ("undecided", None),
        ] {
            let [expression, kind] = labels;
            let value = u8::from(gate.ok == is).to_string();
            text.sample(
                "crawlmark_gate",
                &[expression, kind, ("state", state)],
                &value,
            );
        }
    }
}

fn write_times(text: &mut Text, report: &Report) {
    text.family(
        "crawlmark_cut_off",
        MetricType::Counter,
        "",
        "Samples of which only the least time is known, by series.",
    );
    for (series, latency) in &report.latency {
        text.sample(
            "crawlmark_cut_off_total",
            &[("series", series)],
            &latency.censored.to_string(),
        );
    }
    // By the names that this program knows: whatever else a saved result holds is not made the name
    // of a metric.
    let known = |name: &str| Series::ALL.iter().any(|series| series.name() == name);
    for (series, latency) in report.latency.iter().filter(|(series, _)| known(series)) {
        write_histogram(text, series, latency);
    }
}

/// The bounds of the buckets, s: six in a factor of ten, from 10 us to 1,000 s, the same for every
/// run.
fn bounds_s() -> impl Iterator<Item = f64> {
    let steps = [1.0, 1.5, 2.0, 3.0, 5.0, 7.0];
    // Divided rather than multiplied: 7/1000 is the number nearest to 0.007, and 7 * 0.001 is not.
    let small = (0..5)
        .rev()
        .flat_map(move |tens| steps.map(|step| step / 10f64.powi(tens + 1)));
    small
        .chain(
            [1.0, 10.0, 100.0]
                .into_iter()
                .flat_map(move |unit| steps.map(|step| step * unit)),
        )
        .chain([1e3])
}

/// None of a series without a value, and of one whose histogram the report does not hold.
fn write_histogram(text: &mut Text, series: &str, latency: &Latency) {
    let (Some(distribution), Some(mean_us)) = (latency.distribution(), latency.mean_us) else {
        return;
    };
    let name = format!("crawlmark_{series}_seconds");
    text.family(
        &name,
        MetricType::Histogram,
        "seconds",
        "Times of this series; see `latency` in docs/src/reference/figures.md.",
    );
    let mut cells = distribution.histogram().iter_recorded().peekable();
    let bucket = format!("{name}_bucket");
    let mut count = 0;
    for bound in bounds_s() {
        while let Some(cell) =
            cells.next_if(|cell| cell.value_iterated_to() as f64 <= bound * NS_PER_S)
        {
            count += cell.count_since_last_iteration();
        }
        text.sample(&bucket, &[("le", &float(bound))], &count.to_string());
    }
    text.sample(&bucket, &[("le", "+Inf")], &latency.count.to_string());
    text.sample(&format!("{name}_count"), &[], &latency.count.to_string());
    text.sample(
        &format!("{name}_sum"),
        &[],
        &float(mean_us * latency.count as f64 / 1e6),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
