//! The target's side of a study whose load grows: what its processes used and ran out of, and on how
//! many requests it works at a time.

use serde::{Deserialize, Serialize};

use super::StudyFinding;
use crate::judge::{self, Finding, FindingKind, thresholds};
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
    #[serde(serialize_with = "judge::serialize")]
    pub ran_out: Vec<Finding>,
}

impl TargetUse {
    /// Read it from a report; none without a probe that read CPU time.
    pub(super) fn of(report: &Report) -> Option<Self> {
        let target = report.target.as_ref()?;
        let findings = report.findings.iter();
        let found = findings.filter(|finding| EXHAUSTED.contains(&finding.kind()));
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
    /// Requests under way, in the mean; none where that is not known.
    pub in_flight: Option<f64>,
    /// Good responses per second.
    pub per_s: f64,
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
/// else at the last step; or how many requests it works on at a time.
pub(super) fn limits(steps: &[LoadStep]) -> Vec<StudyFinding> {
    let first_failed = steps.iter().find(|step| step.fails);
    let too_much = steps.iter().filter(|step| step.fails);
    let mut looked_at = too_much.chain(steps.last().filter(|_| first_failed.is_none()));
    if let Some(step) = looked_at.find(|step| !step.ran_out().is_empty()) {
        let found = step.ran_out().iter().map(|finding| StudyFinding::RanOut {
            at: step.name.clone(),
            finding: finding.clone(),
        });
        return found.collect();
    }
    let loads = steps.iter().map(|step| Some((step.in_flight?, step.per_s)));
    if let Some(hinge) = Hinge::fit(loads.flatten().collect()) {
        return vec![StudyFinding::WorksOnFew {
            at_a_time: hinge.at_a_time,
            per_s: hinge.per_s,
            alone_us: hinge.alone_s * 1e6,
        }];
    }
    let used = first_failed.and_then(|step| Some((step, step.target.as_ref()?)));
    let nothing = used.map(|(step, target)| StudyFinding::NothingRanOut {
        at: step.name.clone(),
        cpus_used: target.cpus_used.unwrap_or(0.0),
        cpus: target.cpus,
    });
    nothing.into_iter().collect()
}

/// A rate that grows with the requests under way up to a number of them, and no further: each
/// takes the same time up to there, and beyond it waits for others.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Hinge {
    at_a_time: f64,
    per_s: f64,
    alone_s: f64,
}

impl Hinge {
    /// Fit one to pairs of requests under way and rate. None unless all pairs are near it, the rate
    /// is seen to grow before it, and not to grow from somewhere beyond it to twice as many.
    fn fit(mut loads: Vec<(f64, f64)>) -> Option<Self> {
        loads.retain(|(in_flight, per_s)| *in_flight > 0.0 && *per_s > 0.0);
        loads.sort_by(|a, b| a.0.total_cmp(&b.0));
        let fits = (1..loads.len()).map(|cut| Self::cut(&loads, cut));
        let (error, hinge) = fits.min_by(|a, b| a.0.total_cmp(&b.0))?;
        let (least, most) = (loads.first()?.0, loads.last()?.0);
        let beyond = hinge.at_a_time / thresholds::QUEUES;
        let is_seen = least <= f64::max(1.0, hinge.at_a_time / 2.0)
            && loads.iter().any(|(n, _)| *n >= beyond && *n * 2.0 <= most);
        let is_work = hinge.alone_s * 1e6 >= thresholds::WORK_US;
        (error <= thresholds::HINGE && is_seen && is_work).then_some(hinge)
    }

    /// Return the hinge between two of the loads, and how far the farthest of them is from it, as a
    /// part of its rate.
    fn cut(loads: &[(f64, f64)], cut: usize) -> (f64, Self) {
        let (growing, level) = loads.split_at(cut);
        let per_s = mean(level, |load| load.1);
        let alone_s = mean(growing, |load| load.0 / load.1);
        let hinge = Self {
            at_a_time: per_s * alone_s,
            per_s,
            alone_s,
        };
        let errors = loads.iter().map(|(in_flight, rate)| {
            let fitted = f64::min(in_flight / alone_s, per_s);
            (rate / fitted - 1.0).abs()
        });
        (errors.fold(0.0, f64::max), hinge)
    }
}

/// Return the mean of a value of loads, of which there is one.
fn mean(loads: &[(f64, f64)], value: fn(&(f64, f64)) -> f64) -> f64 {
    loads.iter().map(value).sum::<f64>() / loads.len() as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZES: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

    fn fit(per_s: impl Fn(f64) -> f64) -> Option<Hinge> {
        let sizes = SIZES.map(f64::from);
        Hinge::fit(sizes.map(|n| (n, per_s(n))).to_vec())
    }

    proptest! {
        #[test]
        fn workers_are_counted_and_healthy_curves_name_none(
            workers in 1_u32..40, ms in 2.5..50.0_f64, noise in prop::array::uniform8(0.97..1.03_f64),
            serial in 0.02..0.7_f64, thrash in 1e-4..1e-2_f64,
        ) {
            let alone_s = ms / 1e3;
            let noisy = |n: f64| noise[SIZES.iter().position(|size| f64::from(*size) >= n).unwrap_or(0)];
            let workers = f64::from(workers);
            let hinge = fit(|n| n.min(workers) / alone_s * noisy(n));
            let at_a_time = hinge.map(|hinge| hinge.at_a_time).unwrap_or_default();
            prop_assert!((at_a_time / workers - 1.0).abs() < 0.1, "{at_a_time}");
            // As many as there are; a part that is serial (Amdahl); one that grows worse (Gunther).
            prop_assert_eq!(fit(|n| n / alone_s * noisy(n)), None);
            prop_assert_eq!(fit(|n| n / alone_s / (1.0 + serial * (n - 1.0))), None);
            prop_assert_eq!(fit(|n| n / alone_s / (1.0 + thrash * n * (n - 1.0))), None);
            // What takes no time to work on is a matter of wake-ups and of the network.
            prop_assert_eq!(fit(|n| n.min(workers) / 1e-3), None);
        }
    }

    #[test]
    fn what_was_seen_of_the_target_goes_before_what_it_looks_like() {
        let full = Finding::TargetCpuFull {
            cores: 1.0,
            cpus: 2,
            thread_share: Some(1.0),
        };
        let limits = |ran_out: Vec<Finding>, is_flat: bool| {
            let steps = SIZES.map(|n| LoadStep {
                name: n.to_string(),
                in_flight: Some(n.into()),
                per_s: f64::from(n.min(if is_flat { 8 } else { 64 })) * 100.0,
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
        assert_eq!(
            limits(vec![full], true),
            [StudyFinding::RanOut { at, finding }]
        );
        assert!(matches!(
            *limits(Vec::new(), true),
            [StudyFinding::WorksOnFew { at_a_time, .. }] if (at_a_time - 8.0).abs() < 1e-6
        ));
        assert!(matches!(
            *limits(Vec::new(), false),
            [StudyFinding::NothingRanOut { .. }]
        ));
    }
}
