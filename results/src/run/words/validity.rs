//! Validity of a run: the verdict in a word, what it means for the figures, each finding with what to do about it, and the
//! checks that were made.

use super::failures::cut_off_share;
use super::rows::is_unsent;
use crate::run::report::{Report, Verdict};
use crate::show::doc::{Severity, Status};
use crate::show::text::capital;

/// The verdict on the run's figures, in a box.
pub(super) fn status(report: &Report) -> Status {
    let validity = &report.validity;
    let (made, missing) = (validity.checked.len(), validity.unavailable.len());
    let summary = match missing {
        0 => format!("{made} checks run"),
        _ => format!("{made} checks run, {missing} not available"),
    };
    let not_made = validity.not_made().into_iter().map(|reason| format!("{}.", capital(&reason)));
    let checks = [format!("Checked: {}.", validity.checked.join(", "))].into_iter().chain(not_made).collect();
    Status {
        id: Some("validity"),
        text: meaning(report),
        list: validity.reasons.iter().map(|reason| capital(reason)).collect(),
        // Without a request there was nothing to check.
        details: (!is_unsent(report)).then_some((summary, checks)),
        ..Status::new(severity(validity.verdict), format!("Validity: {}", word(validity.verdict)))
    }
}

/// The verdict in a word: `client-limited`.
pub(in crate::run) fn word(verdict: Verdict) -> String {
    verdict.name().replace('_', "-")
}

/// Severity of a verdict. One that is valid is no success yet: the outcome says that.
pub(in crate::run) const fn severity(verdict: Verdict) -> Severity {
    match verdict {
        Verdict::Valid => Severity::Neutral,
        Verdict::Errors
        | Verdict::BudgetLimited
        | Verdict::ConcurrencyLimited
        | Verdict::ClientLimited
        | Verdict::TargetLimited => Severity::Warning,
        Verdict::Disturbed | Verdict::NothingMeasured | Verdict::Incomplete => Severity::Bad,
    }
}

/// Meaning of the verdict for the figures, in a sentence.
pub(in crate::run) fn meaning(report: &Report) -> String {
    let checks = report.validity.checked.len();
    let meaning = match report.validity.verdict {
        Verdict::Valid => return format!("None of the {checks} checks found a problem with these numbers."),
        Verdict::Errors if cut_off_share(report).is_some() => {
            "Some requests were cut off at the end, before they had a response."
        }
        Verdict::Errors => "Some requests failed; the times leave them out.",
        Verdict::BudgetLimited => {
            "The budget or another limit, not the schedule, set the pace: response times include waits the target did not \
             cause."
        }
        Verdict::ConcurrencyLimited => {
            "The connection limit, not the schedule, set the pace: response times include waits the target did not cause."
        }
        Verdict::ClientLimited if report.plan.run.rate.is_some() => {
            "The load generator sent some requests late: times may be overstated."
        }
        Verdict::ClientLimited => "The load generator was the bottleneck: the target may be faster than shown.",
        Verdict::TargetLimited => {
            "Too many requests failed, were refused or were cut off, so these figures do not describe normal responses."
        }
        Verdict::NothingMeasured => "Nothing was measured: every request was within the warm-up.",
        Verdict::Disturbed => "The machine was disturbed during the run. Repeat it before relying on these numbers.",
        Verdict::Incomplete => "Some data is missing or inconsistent; these numbers do not cover the whole run.",
    };
    meaning.to_owned()
}
