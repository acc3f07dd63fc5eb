//! Differences between two results besides their measurements: the plan, the machine, the version.
//! Printed before any number, and where it means that the numbers are of different things, the
//! comparison is refused.

use crawlmark_harness::plan::RunPlan;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::run::report::Report;

/// Something that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// Its key in `result.json`; of a comparison by `ab` also `target command` or `program`.
    pub what: String,
    /// Value of the base.
    pub base: String,
    /// Value of the candidate.
    pub candidate: String,
}

/// Reason why two results are of different things.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} is {base} for the base and {candidate} for the candidate: {because}")]
pub struct Incomparable {
    what: String,
    base: String,
    candidate: String,
    because: &'static str,
}

impl Incomparable {
    /// Key in `result.json` of what differs.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.what
    }

    /// Name it by its flag, with the values of base and candidate as typed.
    #[must_use]
    pub fn by_flag(self, what: String, [base, candidate]: [String; 2]) -> Self {
        Self {
            what,
            base,
            candidate,
            ..self
        }
    }
}

/// Keys that make two results incomparable when they differ, and why.
const DECISIVE: [(&str, &str); 7] = [
    (
        "plan.arrivals",
        "an open loop's times count waits that a closed loop does not make",
    ),
    (
        "plan.rate",
        "the two runs had different loads, so their figures cannot be compared",
    ),
    (
        "plan.shape",
        "the two runs had different loads, so their figures cannot be compared",
    ),
    (
        "plan.warmup_us",
        "one side would leave out requests that the other counts",
    ),
    (
        "plan.workload.expect",
        "both sides need the same definition of a good response",
    ),
    (
        "environment.cpu_model",
        "two machines are compared, and not two programs",
    ),
    (
        "environment.cores",
        "two machines are compared, and not two programs",
    ),
];

/// List the differences between the plans, environments and versions of two results, in the order
/// of their keys.
#[must_use]
pub fn differences(base: &Report, candidate: &Report) -> Vec<Difference> {
    between(&told(base), &told(candidate))
}

/// List the differences between two plans, in the order of their keys: those of their results
/// before there are any.
#[must_use]
pub fn plan_differences(base: &RunPlan, candidate: &RunPlan) -> Vec<Difference> {
    let told = |plan| {
        let mut told = Vec::new();
        flatten(
            "plan",
            &serde_json::to_value(plan).unwrap_or_default(),
            &mut told,
        );
        told
    };
    between(&told(base), &told(candidate))
}

fn between(base: &[(String, String)], candidate: &[(String, String)]) -> Vec<Difference> {
    let mut keys: Vec<&String> = base.iter().chain(candidate).map(|(key, _)| key).collect();
    keys.sort_unstable();
    keys.dedup();
    let of = |told: &[(String, String)], key: &str| {
        told.iter()
            .find(|(own, _)| own == key)
            .map_or_else(|| "-".to_owned(), |(_, value)| value.clone())
    };
    let both = keys.into_iter().map(|key| Difference {
        what: key.clone(),
        base: of(base, key),
        candidate: of(candidate, key),
    });
    both.filter(|difference| difference.base != difference.candidate)
        .collect()
}

/// Check that results with this difference may be compared.
///
/// # Errors
/// With the first difference that makes them two different things.
pub fn comparable(differences: &[Difference]) -> Result<(), Incomparable> {
    let decisive = DECISIVE.iter().find_map(|(key, because)| {
        let is_in = |what: &str| {
            what.strip_prefix(key)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let Difference {
            what,
            base,
            candidate,
        } = differences
            .iter()
            .find(|difference| is_in(&difference.what))?;
        let (what, base, candidate) = (what.clone(), base.clone(), candidate.clone());
        Some(Incomparable {
            what,
            base,
            candidate,
            because,
        })
    });
    decisive.map_or(Ok(()), Err)
}

/// List the version, plan and environment of a result, by keys.
fn told(report: &Report) -> Vec<(String, String)> {
    let mut told = vec![(
        "crawlmark_version".to_owned(),
        report.crawlmark_version.clone(),
    )];
    let parts = [
        (
            "plan",
            serde_json::to_value(&report.plan).unwrap_or_default(),
        ),
        (
            "environment",
            serde_json::to_value(&report.environment).unwrap_or_default(),
        ),
    ];
    for (name, part) in parts {
        flatten(name, &part, &mut told);
    }
    // The hash says in one word what the keys say one by one; a proxy is the same wherever its URL
    // is from.
    told.retain(|(key, _)| !["plan.config_hash", "plan.workload.proxy_from"].contains(&&**key));
    told
}

fn flatten(name: &str, value: &Value, into: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => fields
            .iter()
            .for_each(|(key, value)| flatten(&format!("{name}.{key}"), value, into)),
        Value::String(text) => into.push((name.to_owned(), text.clone())),
        other => into.push((name.to_owned(), other.to_string())),
    }
}
