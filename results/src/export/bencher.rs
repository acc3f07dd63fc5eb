//! The Bencher Metric Format: a benchmark, named as the run is, and its measures.
//!
//! Bencher's own measures are `throughput` in operations per second, here items, and `latency` in
//! nanoseconds, here the mean of the main series. The others carry their unit in their name. The
//! format has no place for a verdict, so it is a measure as well: `valid` is 1 or 0, and a lower
//! boundary of 1 makes Bencher alert on a run that was not.

use serde_json::{Map, Value, json};

use super::points::{Better, MetricPoint, points};
use super::{ExportError, Format, pretty};
use crate::run::report::{Report, Verdict};

/// The benchmark.
pub(super) fn bencher(report: &Report) -> Result<String, ExportError> {
    let mut measures: Map<String, Value> = points(report, Format::Bencher)?
        .iter()
        .map(|p| measure(p, report))
        .collect();
    let valid = u8::from(report.validity.verdict == Verdict::Valid);
    measures.insert("valid".to_owned(), json!({"value": valid}));
    let benchmark = Map::from_iter([(report.name.clone(), Value::Object(measures))]);
    Ok(pretty(&Value::Object(benchmark)))
}

fn measure(point: &MetricPoint, report: &Report) -> (String, Value) {
    let main_mean = format!("{} mean", report.main_series().name());
    let (name, value) = match point.better {
        Better::Bigger if point.name == "items per second" => {
            ("throughput".to_owned(), point.value)
        }
        Better::Bigger => (slug(&point.name), point.value),
        Better::Smaller if point.name == main_mean => ("latency".to_owned(), point.value * 1e3),
        Better::Smaller => (slug(&point.name) + "-ns", point.value * 1e3),
    };
    (name, json!({"value": value}))
}

/// The name as Bencher makes its slugs: `service p99.9` is `service-p99-9`.
fn slug(name: &str) -> String {
    name.to_ascii_lowercase().replace([' ', '.', '_'], "-")
}
