//! Differences between two results besides their measurements: the plan, the machine, the version.
//! Printed before any number, and where it means that the numbers are of different things, the
//! comparison is refused.

use std::collections::{BTreeMap, BTreeSet};

use crawlmark_harness::plan::RunPlan;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::run::report::Report;

/// Something that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// Its key in `result.json`; of a comparison by `ab` also `target command`.
    pub what: String,
    /// Value of the base.
    pub base: String,
    /// Value of the candidate.
    pub candidate: String,
}

impl Difference {
    /// True if it is the command of a side, which no plan records.
    pub(super) fn is_of_command(&self) -> bool {
        self.what == TARGET_COMMAND
    }
}

/// Key of a difference between the commands of the targets.
pub const TARGET_COMMAND: &str = "target command";

/// Reason why two results are of different things.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} is {} for the base and {} for the candidate: {because}", .difference.what, .difference.base, .difference.candidate)]
pub struct Incomparable {
    /// What differs. Its name and values may be replaced by the flag, as typed.
    pub difference: Difference,
    because: &'static str,
}

/// Keys that make two results incomparable when they differ, and why.
const DECISIVE: [(&[&str], &str); 5] = [
    (
        &["plan.arrivals"],
        "an open loop's times count waits that a closed loop does not make",
    ),
    (
        &["plan.rate", "plan.shape"],
        "the two runs had different loads, so their figures cannot be compared",
    ),
    (
        &["plan.warmup_us"],
        "one side would leave out requests that the other counts",
    ),
    (
        &["plan.workload.expect"],
        "both sides need the same definition of a good response",
    ),
    (
        &["environment.cpu_model", "environment.cores"],
        "two machines are compared, and not two programs",
    ),
];

/// List the differences between the plans, environments and versions of two results, in the order
/// of their keys.
pub fn differences(base: &Report, candidate: &Report) -> Vec<Difference> {
    between(values_of(base), values_of(candidate))
}

/// The values of a result besides its measurements.
fn values_of(report: &Report) -> Values {
    let mut values = Values::new();
    flatten("crawlmark_version", &report.crawlmark_version, &mut values);
    flatten("plan", &report.plan, &mut values);
    flatten("environment", &report.environment, &mut values);
    // The hash says in one word what the keys say one by one; a proxy is the same wherever its URL
    // is from, and each run has trace ids of its own.
    values.remove("plan.config_hash");
    values.remove("plan.workload.proxy_from");
    values.remove("plan.workload.trace_run");
    values
}

/// Checksum of a plan, whatever its target is called: equal for runs that make one history.
pub fn plan_key(report: &Report) -> String {
    let mut values = values_of(report);
    values.retain(|key, _| key.starts_with("plan.") && key != "plan.target");
    let mut sum = crc32fast::Hasher::new();
    for (key, value) in values {
        sum.update(format!("{key} {value}\n").as_bytes());
    }
    format!("{:08x}", sum.finalize())
}

/// List the differences between two plans, in the order of their keys: those of their results
/// before there are any.
pub fn plan_differences(base: &RunPlan, candidate: &RunPlan) -> Vec<Difference> {
    let [base, candidate] = [base, candidate].map(|plan| {
        let mut values = Values::new();
        flatten("plan", plan, &mut values);
        values
    });
    between(base, candidate)
}

/// Values by key.
type Values = BTreeMap<String, String>;

fn between(mut base: Values, mut candidate: Values) -> Vec<Difference> {
    let keys: BTreeSet<String> = base.keys().chain(candidate.keys()).cloned().collect();
    let all = keys.into_iter().map(|key| Difference {
        base: base.remove(&key).unwrap_or_else(|| "-".to_owned()),
        candidate: candidate.remove(&key).unwrap_or_else(|| "-".to_owned()),
        what: key,
    });
    all.filter(|one| one.base != one.candidate).collect()
}

/// Check that results with this difference may be compared.
///
/// # Errors
/// With the first difference that makes them two different things.
pub fn comparable(differences: &[Difference]) -> Result<(), Incomparable> {
    for (keys, because) in DECISIVE {
        let is_decisive = |one: &&Difference| {
            keys.iter()
                .any(|key| one.what == *key || one.what.starts_with(&format!("{key}.")))
        };
        if let Some(difference) = differences.iter().find(is_decisive) {
            return Err(Incomparable {
                difference: difference.clone(),
                because,
            });
        }
    }
    Ok(())
}

fn flatten(name: &str, value: &impl Serialize, into: &mut Values) {
    fn add(name: &str, value: Value, into: &mut Values) {
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    add(&format!("{name}.{key}"), value, into);
                }
            }
            Value::String(text) => drop(into.insert(name.to_owned(), text)),
            other => drop(into.insert(name.to_owned(), other.to_string())),
        }
    }
    add(name, serde_json::to_value(value).unwrap_or_default(), into);
}
