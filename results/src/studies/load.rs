//! The target's side of a study whose load grows: what its processes used and ran out of.

use serde::{Deserialize, Serialize};

use super::StudyFinding;
use crate::judge::{self, Finding, FindingKind};
use crate::run::report::Report;

/// Findings that say what a target ran out of.
const EXHAUSTED: [FindingKind; 5] = [
    FindingKind::TargetThrottled,
    FindingKind::TargetWaits,
    FindingKind::ConnectionsNotAccepted,
    FindingKind::ListenDrops,
    FindingKind::TargetCpuFull,
];

/// What the processes of a target used in a run, by a probe.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TargetUse {
    /// CPU time per attempt, us.
    pub cpu_us_per_attempt: Option<f64>,
    /// CPUs in use, in the mean.
    pub cpus_used: Option<f64>,
    /// CPUs that they may run on.
    pub cpus: usize,
    /// What they ran out of.
    #[serde(serialize_with = "judge::findings::serialize")]
    pub ran_out: Vec<Finding>,
}

impl TargetUse {
    /// Read it from a report; none without a probe that read CPU time.
    pub(super) fn of(report: &Report) -> Option<Self> {
        let target = report.target.as_ref()?;
        let found = report
            .findings
            .iter()
            .filter(|finding| EXHAUSTED.contains(&finding.kind()));
        Some(Self {
            cpu_us_per_attempt: target.cpu_us_per_attempt,
            cpus_used: Some(report.target_cores()?),
            cpus: target.cpus.len(),
            ran_out: found.cloned().collect(),
        })
    }
}

/// A step of a load that grows.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadStep {
    /// The load, as it follows "at": `1,037/s`.
    pub name: String,
    /// The target's side of its run.
    pub target: Option<TargetUse>,
    /// True if it was too much for the target.
    pub fails: bool,
}

impl LoadStep {
    fn ran_out(&self) -> &[Finding] {
        self.target.as_ref().map_or(&[], |target| &target.ran_out)
    }
}

/// Say what the target ran out of at the first step that was too much for it and shows something, or
/// else at the last step.
pub(super) fn limits(steps: &[LoadStep]) -> Vec<StudyFinding> {
    let first_failed = steps.iter().find(|step| step.fails);
    let mut looked_at = steps
        .iter()
        .filter(|step| step.fails)
        .chain(steps.last().filter(|_| first_failed.is_none()));
    if let Some(step) = looked_at.find(|step| !step.ran_out().is_empty()) {
        return step
            .ran_out()
            .iter()
            .map(|finding| StudyFinding::RanOut {
                at: step.name.clone(),
                finding: finding.clone(),
            })
            .collect();
    }
    let nothing = first_failed
        .and_then(|step| Some((step, step.target.as_ref()?)))
        .map(|(step, target)| StudyFinding::NothingRanOut {
            at: step.name.clone(),
            cpus_used: target.cpus_used.unwrap_or(0.0),
            cpus: target.cpus,
        });
    nothing.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_step_that_shows_something_is_named() {
        let full = Finding::TargetCpuFull {
            cores: 1.0,
            cpus: 2,
            thread_share: Some(1.0),
        };
        let limits = |ran_out: Option<Finding>| {
            let steps = [1, 64, 128].map(|n| LoadStep {
                name: n.to_string(),
                target: Some(TargetUse {
                    ran_out: ran_out.iter().filter(|_| n == 128).cloned().collect(),
                    ..TargetUse::default()
                }),
                fails: n >= 64,
            });
            limits(&steps)
        };
        let finding = full.clone();
        let at = "128".to_owned();
        assert_eq!(limits(Some(full)), [StudyFinding::RanOut { at, finding }]);
        let [StudyFinding::NothingRanOut { at, .. }] = &*limits(None) else {
            panic!("the first step that fails");
        };
        assert_eq!(at, "64");
    }
}
