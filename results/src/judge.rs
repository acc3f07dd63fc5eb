//! Judgement of a run: what its report shows, as data. A [`Finding`] is a fact with its numbers;
//! everything that is shown, exported or decided about a run is derived from the list of them.
//!
//! | module | holds |
//! |---|---|
//! | `findings` | the facts: severity, effect on the verdict, headline, text and remedy of each, one table |
//! | `limit` | the limits that requests wait for, with their remedies |
//! | `checks` | the checks that yield them, one table |
//! | `experiments` | the experiments of `--diagnose`, and their plans |
//! | `faults` | checks that name what the target does |
//! | `stalls` | detection of stalls |
//! | `thresholds` | limits of the checks, each with its reason |
//! | `verdict` | what the figures are worth |
//! | `so_far` | a run that goes on |
//!
//! A report holds `findings`, `limit` and `verdict`, which do not know it; the rest reads it.
//!
//! To add a finding: a variant with its texts in `findings`, and the check that yields it in `checks`
//! (`CONTRIBUTING.md`).

mod checks;
mod experiments;
mod faults;
pub(crate) mod findings;
pub(crate) mod limit;
mod so_far;
mod stalls;
pub(crate) mod thresholds;
pub(crate) mod verdict;

use std::time::Duration;

use self::checks::When;
pub use self::experiments::{experiment_plan, next_experiment};
pub use self::faults::causes;
pub use self::findings::{CauseCount, Event, Finding, FindingKind, Severity, TimePart};
pub use self::limit::Limit;
pub use self::so_far::SoFar;
pub use self::verdict::{Missing, Validity, Verdict};
use crate::run::report::{Report, Source, Witness};

/// Findings of the checks of a run, most severe first, without those that others make redundant.
pub fn judge(report: &Report) -> Vec<Finding> {
    checked(report, When::AtEnd).0
}

/// Run every check that can be made then. Parts that were merged were judged where they ran by what
/// limited or disturbed their machines.
fn checked(report: &Report, now: When) -> (Vec<Finding>, Validity) {
    let (mut findings, mut validity) = (Vec::new(), Validity::default());
    let of_machine = checks::OF_MACHINE
        .iter()
        .filter(|_| report.merged.is_none());
    let all = checks::OF_RUN.iter().chain(of_machine);
    for (name, _, look) in all.filter(|(_, when, _)| *when == now || *when == When::Always) {
        let name = (*name).to_owned();
        match look(report) {
            Ok(found) => {
                validity.checked.push(name);
                for finding in found {
                    validity.add(&mut findings, finding);
                }
            }
            Err(missing) => {
                validity.unavailable.insert(name, missing);
            }
        }
    }
    (findings, validity)
}

/// Add a finding, unless one of the others covers it; drop those that it covers. As covering is a
/// strict order ([`FindingKind::covers`]), what is left does not depend on the order of adding.
fn add_uncovered(findings: &mut Vec<Finding>, finding: Finding) {
    if findings.iter().any(|other| other.covers(&finding)) {
        return;
    }
    findings.retain(|other| !finding.covers(other));
    findings.push(finding);
    findings.sort_by_key(Finding::rank);
}

impl Validity {
    /// Add a finding to others, and its effect to the verdict, whether it is covered or not.
    pub(crate) fn add(&mut self, findings: &mut Vec<Finding>, finding: Finding) {
        if let Some(verdict) = finding.effect() {
            self.verdict = self.verdict.max(verdict);
            if let Err(at) = self.verdicts.binary_search(&verdict) {
                self.verdicts.insert(at, verdict);
            }
        }
        add_uncovered(findings, finding);
    }
}

impl Report {
    /// Merges what happened, and judges it.
    pub fn new(source: Source<'_>) -> Self {
        let mut report = Self::unjudged(source);
        report.judge();
        report
    }

    /// Run every check of the report.
    pub fn judge(&mut self) {
        self.rate_ratio = checks::rate_ratio(self);
        (self.findings, self.validity) = checked(self, When::AtEnd);
    }

    /// Run the checks that need nothing but the seconds so far, of a run that goes on. It has no
    /// verdict yet.
    pub(crate) fn judge_so_far(&mut self) {
        let (findings, Validity { checked, .. }) = checked(self, When::Always);
        (self.findings, self.validity) = (
            findings,
            Validity {
                checked,
                ..Validity::default()
            },
        );
    }

    /// Note a check of what the report itself does not hold, and what it found.
    pub fn note(&mut self, check: &str, found: impl IntoIterator<Item = Finding>) {
        self.validity.checked.push(check.to_owned());
        for finding in found {
            self.validity.add(&mut self.findings, finding);
        }
    }

    /// Note the thresholds that failed or could not be evaluated.
    pub(crate) fn note_thresholds(&mut self) {
        for gate in self.gates.iter().filter(|gate| gate.ok != Some(true)) {
            let (expression, why) = (gate.expression.clone(), gate.why.clone());
            let finding = if gate.ok.is_none() {
                Finding::ThresholdUndecided {
                    expression,
                    reason: why.unwrap_or_else(|| "not evaluated".to_owned()),
                }
            } else {
                Finding::ThresholdFailed {
                    expression,
                    unit: gate.unit.clone(),
                    limit: gate.limit,
                    value: gate.value,
                    is_lower_bound: gate.at_least,
                }
            };
            self.validity.add(&mut self.findings, finding);
        }
    }

    /// Add the time that looking up names took before the run, and that of the slowest of them.
    pub fn add_lookup(&mut self, took: Duration, slowest: Duration) {
        let (took_s, slowest_s) = (took.as_secs_f64(), slowest.as_secs_f64());
        self.supervisor.lookup_ms = Some(took_s * 1e3);
        let is_slow = slowest_s >= thresholds::LOOKUP_S;
        let found = is_slow.then_some(Finding::LookupSlow { took_s, slowest_s });
        self.note("name look-up", found);
    }

    /// Add why hosts could not be reached before the start; none if they could.
    pub fn add_unreached(&mut self, reason: Option<String>) {
        let found = reason.map(|reason| Finding::HostUnreached { reason });
        self.note("hosts before the start", found);
    }

    /// Add the time in which the lease of the budget had ended, and nothing was sent.
    pub fn add_lapse(&mut self, lapsed: Duration) {
        let lapsed_s = lapsed.as_secs_f64();
        let found = (!lapsed.is_zero()).then_some(Finding::LeaseLapsed { lapsed_s });
        self.note("lease of the budget", found);
    }

    /// Add the process of the bundled target that was lost, and how it ended; none if all were there
    /// to the end.
    pub fn add_lost_process(&mut self, exit: Option<String>) {
        let found = exit.map(|exit| Finding::TargetProcessLost { exit });
        self.note("the target's processes", found);
    }

    /// Adds what the target's own counts say. A target that counted something else makes the result
    /// incomplete.
    pub fn add_witness(&mut self, witness: Witness) {
        let found = (witness.agrees == Some(false)).then(|| Finding::CountsDiffer {
            differences: witness.differences.clone(),
        });
        self.note("the target's counts", found);
        self.witness = Some(witness);
    }

    /// Text and remedy of every finding that has an effect on the verdict.
    pub fn reasons(&self) -> Vec<String> {
        self.findings_of(&Verdict::ALL)
            .map(Finding::sentence)
            .collect()
    }

    /// Findings that have one of these effects on the verdict.
    pub fn findings_of(&self, verdicts: &[Verdict]) -> impl Iterator<Item = &Finding> {
        self.findings
            .iter()
            .filter(move |finding| finding.effect().is_some_and(|is| verdicts.contains(&is)))
    }
}

#[cfg(test)]
mod tests;
