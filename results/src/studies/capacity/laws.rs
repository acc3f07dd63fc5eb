//! Laws that every saved probe keeps, so that an edited journal is refused: counts add up, shares
//! agree with counts, and the verdict with both.

use super::Question;
use super::probe::{AttemptCounts, ProbeReport, SENT};
use super::search::{ProbeKind, ProbeResult};
use crate::run::gates::{Condition, Measured, Metric, Quantity};
use crate::run::result_dir::is_inside;
use crate::show::visible;

/// Largest difference that rounding makes.
const ROUNDING: f64 = 1e-9;

/// Checks the probe at this position of a journal, counted from 1.
///
/// # Errors
/// When a law is broken: which one, in words.
pub(super) fn check(
    question: &Question,
    position: usize,
    probe: &ProbeReport,
) -> Result<(), String> {
    equal(
        "number",
        probe.number as f64,
        "its position",
        position as f64,
    )?;
    equal(
        "rate_per_s",
        probe.rate_per_s,
        "per_min / 60",
        probe.per_min.per_s(),
    )?;
    if !is_inside(&probe.result) {
        return Err(format!(
            "`result` is {:.60}, which is outside of the directory",
            visible(&probe.result)
        ));
    }
    for (name, share) in [
        ("sent_share", probe.sent_share),
        ("throttled_share", probe.throttled_share),
        ("error_share", probe.error_share),
        (
            "throttled_share and error_share together",
            probe.throttled_share + probe.error_share,
        ),
    ] {
        if !(-ROUNDING..=1.0 + ROUNDING).contains(&share) {
            return Err(format!("`{name}` is {share}, which is not a share"));
        }
    }
    if let Some(counted) = probe.counted {
        let AttemptCounts {
            attempts,
            good,
            not_found,
            throttled,
            failed,
            cut_off,
        } = counted;
        let sum = [good, not_found, throttled, failed, cut_off]
            .into_iter()
            .try_fold(0_u64, u64::checked_add);
        if sum != Some(attempts) {
            return Err(format!(
                "`counted.attempts` is {attempts}, which is not the sum of the others"
            ));
        }
        equal(
            "throttled_share",
            probe.throttled_share,
            "that of `counted`",
            counted.throttled(),
        )?;
        equal(
            "error_share",
            probe.error_share,
            "that of `counted`",
            counted.errors(),
        )?;
        let good = counted.good as f64 + counted.cut_off as f64;
        let most = probe.rate_per_s * good / (attempts as f64).max(1.0);
        at_most(
            "accepted_per_s",
            probe.accepted_per_s,
            "the good part of the rate",
            Some(most),
        )?;
    }
    at_most(
        "accepted_per_s",
        probe.accepted_per_s,
        "rate_per_s",
        Some(probe.rate_per_s),
    )?;
    at_most(
        "let_through_least_per_s",
        probe.let_through_least_per_s,
        "let_through_per_s",
        probe.let_through_per_s,
    )?;
    at_most(
        "response_p50_us",
        probe.response_p50_us,
        "response_p99_us",
        probe.response_p99_us,
    )?;
    for (field, time) in [
        ("started_at", &probe.started_at),
        ("finished_at", &probe.finished_at),
    ] {
        if humantime::parse_rfc3339(time).is_err() {
            return Err(format!(
                "`{field}` is {time:.60}, which is not a time of the form 2026-01-31T12:00:00Z"
            ));
        }
    }
    verdict(question, probe)
}

/// A pass has no reason against it, and no reading that breaks an objective; anything else has a
/// reason.
fn verdict(question: &Question, probe: &ProbeReport) -> Result<(), String> {
    let is_pass = probe.seen == ProbeResult::Pass;
    if is_pass != probe.reasons.is_empty() {
        let (is, count) = (
            if is_pass { "pass" } else { "not a pass" },
            probe.reasons.len(),
        );
        return Err(format!("`seen` is {is}, but `reasons` holds {count}"));
    }
    if !is_pass {
        return Ok(());
    }
    if probe.sent_share < SENT {
        return Err(format!(
            "`seen` is pass, but `sent_share` is {}",
            probe.sent_share
        ));
    }
    let behind = probe
        .later_flow
        .filter(|flow| flow.falls_behind(question.bounds.precision, super::probe::SURELY));
    if let Some(flow) = behind.filter(|_| probe.kind == ProbeKind::Full) {
        let (answered, scheduled) = (flow.answered, flow.scheduled);
        return Err(format!(
            "`seen` is pass, but {answered} of {scheduled} requests were answered in the later half"
        ));
    }
    for objective in question
        .objectives
        .iter()
        .filter_map(|text| text.parse::<Condition>().ok())
    {
        let read = match objective.metric {
            Metric::Of(Quantity::ThrottledRate) => Some(probe.throttled_share),
            Metric::Of(Quantity::ErrorRate) => Some(probe.error_share),
            metric => match metric.to_string().as_str() {
                "response_p99" => probe.response_p99_us,
                "response_p50" => probe.response_p50_us,
                _ => None,
            },
        };
        if let Some(read) =
            read.filter(|read| objective.judge(&Measured::Exactly(*read)) == Some(false))
        {
            return Err(format!(
                "`seen` is pass and {} is {read}, but the objective is {objective}",
                objective.metric
            ));
        }
    }
    Ok(())
}

fn equal(name: &str, is: f64, of: &str, wanted: f64) -> Result<(), String> {
    let is_near = (is - wanted).abs() <= ROUNDING * wanted.abs().max(1.0);
    if is_near {
        Ok(())
    } else {
        Err(format!("`{name}` is {is}, but {of} is {wanted}"))
    }
}

fn at_most(name: &str, is: Option<f64>, of: &str, most: Option<f64>) -> Result<(), String> {
    match (is, most) {
        (Some(is), Some(most)) if is > most * (1.0 + ROUNDING) + ROUNDING => {
            Err(format!("`{name}` is {is}, but {of} is {most}"))
        }
        _ => Ok(()),
    }
}
