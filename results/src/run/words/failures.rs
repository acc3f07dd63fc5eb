//! Failed requests of a run, and their causes.

use std::cmp::Reverse;

use crate::run::report::{
    FailureReport, PROXY, Report, cause_in_words, failures, listed, remedy_in_words, thresholds,
};
use crate::show::doc::{Column, Table};
use crate::show::text::{capital, grouped};
use crawlmark_harness::sample::ErrorKind;
use crawlmark_harness::stats::{Counters, FailureCause};
use crawlmark_harness::units::rounded_percent;

/// Most causes in the table.
const MOST_ROWS: usize = 20;

/// Characters of a response that are beside the outcome at most.
const SAID: usize = 80;

/// Name of the cause of requests that had no answer when the run ended.
const CUT_OFF: &str = "cut off at the end";

/// Errors after the warm-up, those that were cut off included, as a part of all requests; none
/// without a request.
pub(crate) fn error_share(report: &Report) -> Option<f64> {
    let counted = report.measured();
    part(counted.errors(), &counted)
}

/// Requests after the warm-up that failed, without those that were cut off, as a part of all of
/// them; none without a request.
pub(super) fn failed_share(report: &Report) -> Option<f64> {
    let counted = report.measured();
    part(counted.requests.failed(&counted.items), &counted)
}

/// Requests after the warm-up that were cut off, as a part of all of them, where a reader has to
/// know and few failed otherwise.
pub(super) fn cut_off_share(report: &Report) -> Option<f64> {
    let counted = report.measured();
    let is_open_loop = report.plan.run.arrivals.gaps().is_some();
    let least = if is_open_loop {
        thresholds::FAILED
    } else {
        thresholds::CUT_OFF_CLOSED
    };
    let has_failed = failed_share(report).is_some_and(|failed| failed >= thresholds::FAILED);
    part(counted.items.aborted, &counted).filter(|cut_off| *cut_off >= least && !has_failed)
}

fn part(n: u64, of: &Counters) -> Option<f64> {
    (of.requests.attempts > 0).then(|| n as f64 / of.requests.attempts as f64)
}

/// `56 % of requests failed`, or that they were cut off at the end; none where that does not
/// matter.
pub(super) fn clause(report: &Report) -> Option<String> {
    let failed = failed_share(report).filter(|failed| *failed >= thresholds::FAILED);
    let cut_off = || {
        Some(format!(
            "{} of requests were {CUT_OFF}",
            rounded_percent(cut_off_share(report)?)
        ))
    };
    // What was cut off is among the errors that are shown beside it.
    failed
        .and(error_share(report))
        .map(|share| format!("{} of requests failed", rounded_percent(share)))
        .or_else(cut_off)
}

/// Causes of the errors after the warm-up, the commonest first.
pub(super) fn causes(report: &Report) -> Vec<(String, u64)> {
    errors(&report.measured())
}

/// Errors by cause, those that were cut off included, the commonest first.
#[must_use]
pub fn errors(counted: &Counters) -> Vec<(String, u64)> {
    let mut causes: Vec<_> = failures(&counted.requests)
        .into_iter()
        .map(|(cause, n)| (cause_in_words(cause), n))
        .collect();
    causes.extend(Some((CUT_OFF.to_owned(), counted.items.aborted)).filter(|(_, n)| *n > 0));
    causes.sort_by_key(|(_, n)| Reverse(*n));
    causes
}

/// Failed requests of a run by cause, the commonest first, each with its count, share, first and
/// last time, and an example.
pub(super) fn table(report: &Report) -> Table {
    let part = |n: u64| rounded_percent(n as f64 / report.totals.attempts.max(1) as f64);
    let dash = || "-".to_owned();
    let row = |(cause, n): (FailureCause, u64)| {
        let seen = report.failures.get(&cause.key());
        let time = |of: fn(&FailureReport) -> f64| {
            seen.map_or_else(dash, |seen| format!("{:.2} s", of(seen)))
        };
        let example = seen.map_or_else(String::new, |seen| example(cause, seen));
        vec![
            cause_in_words(cause),
            grouped(n),
            part(n),
            time(|seen| seen.first_s),
            time(|seen| seen.last_s),
            example,
        ]
    };
    let causes = failures(&report.totals.requests);
    let (listed, rest) = causes.split_at(causes.len().min(MOST_ROWS));
    let rest = sum(rest);
    let others = (rest > 0).then(|| {
        vec![
            "others".to_owned(),
            grouped(rest),
            part(rest),
            dash(),
            dash(),
            String::new(),
        ]
    });
    let cut_off = Some(report.ledger.aborted).filter(|n| *n > 0);
    let cut_off = cut_off.map(|n| {
        vec![
            CUT_OFF.to_owned(),
            grouped(n),
            part(n),
            dash(),
            dash(),
            "no response before the end".to_owned(),
        ]
    });
    let of = if report.warmup.is_some() {
        ", warm-up included"
    } else {
        ""
    };
    Table {
        caption: format!("Errors by kind{of}"),
        columns: vec![
            Column::words("error"),
            Column::numbers("requests"),
            Column::numbers("share"),
            Column::numbers("first").leaving(1),
            Column::numbers("last").leaving(2),
            Column::sentences("example"),
        ],
        rows: listed
            .iter()
            .copied()
            .map(row)
            .chain(others)
            .chain(cut_off)
            .collect(),
        ..Table::default()
    }
}

/// Describe the first failure of a cause: its status, its details or the start of its body, and the
/// remedy.
fn example(cause: FailureCause, seen: &FailureReport) -> String {
    let FailureReport {
        status,
        excerpt,
        details,
        ..
    } = seen;
    let body = excerpt
        .as_ref()
        .map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
    let body =
        body.or_else(|| (cause.is_answer() && status.is_some()).then(|| "no body".to_owned()));
    let answer = status
        .map(|status| status.to_string())
        .into_iter()
        .chain(details.clone().or(body));
    let answer = answer.collect::<Vec<_>>().join(", ");
    explained(
        cause,
        Some(answer.as_str()).filter(|answer| !answer.is_empty()),
        excerpt.as_deref(),
    )
}

/// Join the details of a failure and the remedy of its cause: `it expired 3days ago (renew ...)`.
/// Empty without any.
#[must_use]
pub fn explained(cause: FailureCause, details: Option<&str>, excerpt: Option<&str>) -> String {
    let remedy = remedy_in_words(cause, excerpt).map(|remedy| format!("({remedy})"));
    details
        .map(str::to_owned)
        .into_iter()
        .chain(remedy)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Return the remedy of the commonest cause of failures; none where it depends on the target.
pub(super) fn remedy(report: &Report) -> Option<&'static str> {
    let (cause, _) = *failures(&report.measured().requests).first()?;
    let excerpt = report
        .failures
        .get(&cause.key())
        .and_then(|seen| seen.excerpt.as_deref());
    remedy_in_words(cause, excerpt)
}

/// Good items of those wanted, the causes of the errors, and what to do about the commonest: for a
/// run without a good response.
#[must_use]
pub fn nothing_good(report: &Report) -> String {
    let causes = causes_in_words(report).map(|causes| format!(": {causes}"));
    let remedy = remedy(report).map(|remedy| format!(". {}", capital(remedy)));
    [Some(super::got(report)), causes, remedy]
        .into_iter()
        .flatten()
        .collect()
}

/// Return the beginning of the first response of the commonest cause of failures; none without a
/// body.
pub(super) fn said(report: &Report) -> Option<String> {
    let (cause, _) = *failures(&report.measured().requests).first()?;
    let words = report
        .failures
        .get(&cause.key())?
        .excerpt
        .as_ref()?
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let short: String = words.chars().take(SAID).collect();
    (!short.is_empty()).then(|| format!("First failed response: {short}"))
}

/// All counts together, which those of a foreign result may exceed.
fn sum<T>(causes: &[(T, u64)]) -> u64 {
    causes.iter().fold(0, |sum, (_, n)| sum.saturating_add(*n))
}

/// Party that the failures come from, behind their causes: ` from the target`. Empty if they do not
/// show it, and if their names do.
pub(super) fn suspect(report: &Report) -> &'static str {
    let party = |cause: FailureCause| match cause {
        FailureCause::Error(kind) if kind.is_local() => " on this client's machine",
        // Anything else may be the proxy's.
        _ if report.plan.run.workload.contains_key(PROXY) => "",
        cause if cause.is_answer() => " from the target",
        FailureCause::Error(ErrorKind::ConnectRefused | ErrorKind::Reset | ErrorKind::Closed) => {
            " by the target"
        }
        FailureCause::Error(ErrorKind::Timeout | ErrorKind::ConnectTimeout) => {
            " (target or network)"
        }
        _ => "",
    };
    let causes = failures(&report.measured().requests);
    let mut parties = causes.iter().map(|(cause, _)| party(*cause));
    let first = parties.next().unwrap_or("");
    let is_one = parties.all(|other| other == first) && report.measured().items.aborted == 0;
    if is_one { first } else { "" }
}

/// `connection refused, status 500`, the commonest first; none without failures.
pub(super) fn causes_named(report: &Report) -> Option<String> {
    const MOST: usize = 3;
    let names = causes(report)
        .into_iter()
        .map(|(name, _)| name)
        .take(MOST)
        .collect::<Vec<_>>();
    (!names.is_empty()).then(|| names.join(", "))
}

/// `2,519 connection refused, 3 × status 500`; none without failures.
pub(super) fn causes_in_words(report: &Report) -> Option<String> {
    Some(listed(causes(report))).filter(|causes| !causes.is_empty())
}
