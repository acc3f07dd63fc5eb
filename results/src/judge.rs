//! Judgement of a run: what its report shows, as data. A [`Finding`] is a fact with its numbers;
//! everything that is shown, exported or decided about a run is derived from the list of them.
//!
//! | module | holds |
//! |---|---|
//! | `findings` | the facts: severity, effect on the verdict, headline, text and remedy of each, one table |
//! | `checks` | the checks that yield them, one table |
//! | `experiments` | the experiments of `--diagnose`, and their plans |
//! | `faults` | checks that name what the target does |
//! | `stalls` | detection of stalls |
//! | `thresholds` | limits of the checks, each with its reason |
//! | `verdict` | what the figures are worth |
//!
//! To add a finding: a variant with its texts in `findings`, and the check that yields it in `checks`
//! (`CONTRIBUTING.md`).

mod checks;
mod experiments;
mod faults;
pub(crate) mod findings;
mod stalls;
pub(crate) mod thresholds;
pub(crate) mod verdict;

use self::checks::When;
pub use self::experiments::{experiment_plan, next_experiment};
pub(crate) use self::findings::serialize;
pub use self::findings::{CauseCount, Finding, FindingKind, Severity, TimePart, causes};
pub use self::verdict::{Missing, Validity, Verdict};
pub use crate::run::report::Event;
use crate::run::report::Report;

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
    let covers = |a: &Finding, b: &Finding| a.kind().covers().contains(&b.kind());
    if findings.iter().any(|other| covers(other, &finding)) {
        return;
    }
    findings.retain(|other| !covers(&finding, other));
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
