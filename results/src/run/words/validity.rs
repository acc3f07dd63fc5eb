//! Validity of a run: the verdict in a word, what it means for the figures, each finding with what
//! to do about it, and the checks that were made.

use std::collections::HashSet;

use super::failures::{clause, cut_off_share};
use super::finding::{event, hosts_down, is_bottleneck, is_rate_missed};
use super::outcome::shortfall;
use super::rows::is_unsent;
use super::stalls::Stalls;
use crate::run::report::{Report, Verdict, left_out};
use crate::show::doc::{Severity, Status};
use crate::show::text::{capital, seconds};
use crawlmark_harness::plan::OnThrottle;
use crawlmark_harness::sample::ErrorKind;
use crawlmark_harness::units::{grouped, rounded_percent};

/// Measured part of a run below which its figures are about little of it.
const MEASURED: f64 = 0.5;

/// The verdict on the run's figures, in a box.
pub(super) fn status(report: &Report) -> Status {
    let validity = &report.validity;
    let (made, missing) = (validity.checked.len(), validity.unavailable.len());
    let summary = match missing {
        0 => format!("{made} checks run"),
        _ => format!("{made} checks run, {missing} not available"),
    };
    let not_made = validity
        .not_made()
        .into_iter()
        .map(|reason| format!("{}.", capital(&reason)));
    let mut list = without_repeats(&validity.reasons);
    // Where nothing succeeded, what this client may have done to times and rates distracts.
    let is_down = report.ledger.ok + report.ledger.not_found == 0
        && validity.verdict == Verdict::TargetLimited;
    let others = list.split_off(if is_down {
        list.len().min(1)
    } else {
        list.len()
    });
    let checks = [format!("Checked: {}.", validity.checked.join(", "))]
        .into_iter()
        .chain(not_made);
    Status {
        id: Some("validity"),
        text: meaning(report),
        list,
        // Without a request there was nothing to check.
        details: (!is_unsent(report))
            .then(|| (summary, others.into_iter().chain(checks).collect())),
        ..Status::new(
            severity(validity.verdict),
            format!("Validity: {}", qualified(report)),
        )
    }
}

/// The reasons, without advice that one before it has given. Each keeps its first sentence.
pub(in crate::run) fn without_repeats(reasons: &[String]) -> Vec<String> {
    let mut said = HashSet::new();
    let mut new = |sentence: &&str| said.insert((*sentence).to_owned());
    let reason = |reason: &String| {
        let mut sentences = reason.split(". ");
        let first = sentences.next().map(capital);
        first
            .into_iter()
            .chain(sentences.filter(&mut new).map(str::to_owned))
            .collect::<Vec<_>>()
            .join(". ")
    };
    reasons.iter().map(reason).collect()
}

/// The verdict in a word: `client-limited`.
pub(crate) fn word(verdict: Verdict) -> String {
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

/// True if requests failed, and the verdict is about this client.
fn have_failed_besides(report: &Report) -> bool {
    matches!(
        report.validity.verdict,
        Verdict::ClientLimited | Verdict::Disturbed
    ) && clause(report).is_some()
}

/// The verdict with its restriction: `errors, client-limited`.
pub(in crate::run) fn qualified(report: &Report) -> String {
    let word = word(report.validity.verdict);
    match report.validity.verdict {
        Verdict::Valid if !restriction(report).is_empty() => word + ", with a restriction",
        Verdict::Errors if clause(report).is_some() && cut_off_share(report).is_none() => {
            format!("valid for good responses only ({word})")
        }
        _ if have_failed_besides(report) => format!("{}, {word}", self::word(Verdict::Errors)),
        _ => word,
    }
}

/// Share of abandoned items from which on the verdict mentions them.
const ABANDONED: f64 = 0.01;

/// Part of a run that valid figures are about, where that is not the run that was asked for; empty
/// otherwise.
fn restriction(report: &Report) -> String {
    let (all_s, warm_s) = (
        report.totals.duration_s,
        report.warmup.as_ref().map_or(0.0, |warm| warm.duration_s),
    );
    let measured_s = (all_s - warm_s).max(0.0);
    if measured_s < all_s * MEASURED {
        let share = rounded_percent(measured_s / all_s);
        return format!(
            " They cover {} of {} ({share}): the rest was warm-up.",
            seconds(measured_s),
            seconds(all_s)
        );
    }
    let abandoned = abandoned(report);
    if !abandoned.is_empty() {
        return format!(" But{abandoned}");
    }
    let what = match () {
        () if report.ledger.ok == 0 && report.ledger.not_found > 0 => {
            " But no response was good: items were not found (404 or 410). If that is expected, use --expect status:404,410."
        }
        () if shortfall(report).is_some() || is_rate_missed(report) => {
            " They do not describe the target at the requested rate."
        }
        () if report.interrupted && report.plan.run.duration.is_some() => {
            " They cover the part that ran."
        }
        () if Stalls::of(report).is_notable() => " The high percentiles are those of the stalls.",
        () => "",
    };
    what.to_owned()
}

/// Items that throttling ended without a response, in a sentence; empty for few, or for who
/// abandons them on purpose.
fn abandoned(report: &Report) -> String {
    let (abandoned, ended) = (report.ledger.gave_up, report.ledger.completed());
    let is_meant = report.plan.run.throttling.on_throttle == OnThrottle::Count;
    if is_meant || abandoned == 0 || (abandoned as f64) < ended as f64 * ABANDONED {
        return String::new();
    }
    format!(
        " {} of the items ({}) were abandoned because the target throttled them: use a lower --rate or fewer \
         connections (-c).",
        rounded_percent(abandoned as f64 / ended as f64),
        grouped(abandoned)
    )
}

/// Meaning of the verdict for the figures, in a sentence.
pub(in crate::run) fn meaning(report: &Report) -> String {
    let checks = report.validity.checked.len();
    let timed_out = report.totals.errors_of(ErrorKind::Timeout) > 0;
    let some_failed = format!("Some requests failed; the times {}.", left_out(timed_out));
    let besides = if have_failed_besides(report) {
        format!("{some_failed} ")
    } else {
        String::new()
    };
    let meaning = match report.validity.verdict {
        Verdict::Valid => {
            return format!(
                "None of the {checks} checks found a problem with these numbers.{}",
                restriction(report)
            );
        }
        Verdict::Errors if cut_off_share(report).is_some() => {
            "Some requests were cut off at the end, before they had a response."
        }
        Verdict::Errors => &some_failed,
        Verdict::BudgetLimited => {
            "The budget or another limit, not the schedule, set the pace: response times include the wait for it."
        }
        Verdict::ConcurrencyLimited => {
            "The connection limit, not the schedule, set the pace: response times include the wait for a free connection."
        }
        Verdict::ClientLimited if is_bottleneck(report) => {
            "This client was the bottleneck: the target may be faster than shown."
        }
        Verdict::ClientLimited => {
            "This client was too slow at times: the times include its own delays."
        }
        Verdict::TargetLimited if report.ledger.ok + report.ledger.not_found == 0 => {
            "No request succeeded, so these figures say nothing about normal responses."
        }
        Verdict::TargetLimited if hosts_down(report).is_some() => {
            "Not all hosts gave a good response: rates count the requests to those that did not."
        }
        Verdict::TargetLimited if event(report).is_some_and(|event| event.is_down) => {
            "No good response came at the end of the run, so its rates are not those of a working target."
        }
        Verdict::TargetLimited if clause(report).is_none() && report.totals.throttled > 0 => {
            "Throttling, not the schedule or the connections, set the pace: these figures show what the target allowed."
        }
        Verdict::TargetLimited => {
            "The target failed, refused or delayed requests, so these figures do not describe normal responses."
        }
        Verdict::NothingMeasured if report.totals.attempts_sent == 0 => {
            "Nothing was measured: no request was sent."
        }
        Verdict::NothingMeasured => "Nothing was measured: every request was within the warm-up.",
        Verdict::Disturbed if report.merged.is_some() => {
            "Parts were disturbed or crawled more than once. Repeat the crawl before relying on these numbers."
        }
        Verdict::Disturbed => {
            "The machine was disturbed during the run. Repeat it before relying on these numbers."
        }
        Verdict::Incomplete => {
            "Some data is missing or inconsistent; these numbers do not cover the whole run."
        }
    };
    format!("{besides}{meaning}{}", abandoned(report))
}

#[cfg(test)]
mod tests {
    use super::without_repeats;

    #[test]
    fn advice_is_given_once_and_every_reason() {
        let reasons = [
            "shard 0 waited. Share. Use less",
            "shard 1 was late. Share. Use less",
            "use less. More",
        ];
        let expected = [
            "Shard 0 waited. Share. Use less",
            "Shard 1 was late",
            "Use less. More",
        ];
        assert_eq!(without_repeats(&reasons.map(str::to_owned)), expected);
    }
}
