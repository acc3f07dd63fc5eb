//! Differences between two results besides their measurements: the plan, the machine, the version.
//! Printed before any number, and where it means that the numbers are of different things, the
//! comparison is refused.

use std::collections::{BTreeMap, BTreeSet};

use crawlmark_harness::plan::RunPlan;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::run::report::{Environment, Report};

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

/// Copies fields of a plan to another one.
pub type CopyFields = fn(to: &mut RunPlan, from: &RunPlan);

/// Fields of a plan that make two results incomparable when they differ, and why.
const DECISIVE: [(CopyFields, &str); 4] = [
    (
        |to, from| to.arrivals = from.arrivals,
        "an open loop's times count waits that a closed loop does not make",
    ),
    (
        |to, from| (to.rate, to.shape) = (from.rate, from.shape.clone()),
        "the two runs had different loads, so their figures cannot be compared",
    ),
    (
        |to, from| to.warmup = from.warmup,
        "one side would leave out requests that the other counts",
    ),
    (
        |to, from| to.workload.expect.clone_from(&from.workload.expect),
        "both sides need the same definition of a good response",
    ),
];

/// List the differences between the plans, environments and versions of two results, in the order
/// of their keys.
pub fn differences(base: &Report, candidate: &Report) -> Vec<Difference> {
    between(values_of(base), values_of(candidate))
}

/// The values of a result besides its measurements.
fn values_of(report: &Report) -> Values {
    let mut values = plan_of(report);
    flatten("crawlmark_version", &report.crawlmark_version, &mut values);
    flatten("environment", &report.environment, &mut values);
    values
}

/// The values of its plan. The hash says in one word what the keys say one by one; a proxy is the
/// same wherever its URL is from, and each run has trace ids of its own.
fn plan_of(report: &Report) -> Values {
    let mut plan = report.plan.clone();
    plan.run.workload = plan.run.workload.without_origin();
    let mut values = Values::new();
    flatten("plan", &plan, &mut values);
    values.remove("plan.config_hash");
    values
}

/// Checksum of a plan, whatever its target is called: equal for runs that make one history.
pub fn plan_key(report: &Report) -> String {
    let mut values = plan_of(report);
    values.remove(TARGET);
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

/// Key of the target of a plan.
const TARGET: &str = "plan.target";

impl Difference {
    /// True if it is the targets that differ.
    pub fn is_of_targets(&self) -> bool {
        self.what == TARGET
    }
}

/// Values by key.
type Values = BTreeMap<String, String>;

fn between(mut base: Values, mut candidate: Values) -> Vec<Difference> {
    let keys: BTreeSet<String> = base.keys().chain(candidate.keys()).cloned().collect();
    keys.into_iter()
        .map(|key| Difference {
            base: base.remove(&key).unwrap_or_else(|| "-".to_owned()),
            candidate: candidate.remove(&key).unwrap_or_else(|| "-".to_owned()),
            what: key,
        })
        .filter(|one| one.base != one.candidate)
        .collect()
}

/// List the differences between two plans in the fields that `copy` copies.
pub fn field_differences(copy: CopyFields, base: &RunPlan, candidate: &RunPlan) -> Vec<Difference> {
    let mut changed = base.clone();
    copy(&mut changed, candidate);
    plan_differences(base, &changed)
}

/// Check that results of these plans may be compared.
///
/// # Errors
/// With the first difference that makes them two different things.
pub fn comparable_plans(base: &RunPlan, candidate: &RunPlan) -> Result<(), Incomparable> {
    for (copy, because) in DECISIVE {
        let found = field_differences(copy, base, candidate);
        if let Some(difference) = found.into_iter().next() {
            return Err(Incomparable {
                difference,
                because,
            });
        }
    }
    Ok(())
}

/// Check that two results may be compared.
///
/// # Errors
/// With the first difference that makes them two different things.
pub fn comparable(base: &Report, candidate: &Report) -> Result<(), Incomparable> {
    comparable_plans(&base.plan.run, &candidate.plan.run)?;
    let [base, candidate] = [base, candidate].map(|report| {
        let Environment {
            cpu_model, cores, ..
        } = &report.environment;
        let mut values = Values::new();
        flatten("environment.cpu_model", cpu_model, &mut values);
        flatten("environment.cores", cores, &mut values);
        values
    });
    let found = between(base, candidate);
    found.into_iter().next().map_or(Ok(()), |difference| {
        Err(Incomparable {
            difference,
            because: "two machines are compared, and not two programs",
        })
    })
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
