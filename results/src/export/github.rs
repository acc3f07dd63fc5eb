//! Figures for `github-action-benchmark`, whose `customBiggerIsBetter` and `customSmallerIsBetter`
//! are a tool, a step and a file each: an array of `name`, `unit`, `value` and `extra`, which is
//! shown beside the point and has the verdict.

use serde_json::{Value, json};

use super::points::{Better, about, points};
use super::{ExportError, Format, pretty};
use crate::run::report::Report;

/// The array of one direction.
pub(super) fn benchmark(report: &Report, format: Format) -> Result<String, ExportError> {
    let wanted = if format == Format::GithubBenchmarkBigger {
        Better::Bigger
    } else {
        Better::Smaller
    };
    let about = about(report);
    let entries: Vec<Value> = points(report, format)?
        .into_iter()
        .filter(|point| point.better == wanted)
        .map(|point| {
            let name = format!("{}/{}", report.name, point.name);
            json!({"name": name, "unit": point.unit, "value": point.value, "extra": about})
        })
        .collect();
    // The action takes an empty file for a mistake, and it would be one.
    if entries.is_empty() {
        Err(ExportError::Nothing(format))
    } else {
        Ok(pretty(&Value::Array(entries)))
    }
}
