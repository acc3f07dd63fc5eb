//! Checks of the target's responses.

use super::thresholds::{
    CUT_OFF_CLOSED, DEAD, FAILED, HARDLY_ANY, LEAST_DEAD_S, LEAST_PARTLY_DEAD_S,
    LONGER_THAN_SLOWEST, MOST_FAILED, MOST_MISSED, PARTLY_DEAD, PAUSED, THROTTLED,
};
use super::{CheckResult, Evidence};
use crate::run::report::causes::{self, cause_in_words, listed};
use crate::run::report::{IntervalRow, WarmUpReport, share};
use crawlmark_harness::plan::{OnThrottle, RunPlan};
use crawlmark_harness::sample::ErrorKind;
use crawlmark_harness::shard::INTERVAL;
use crawlmark_harness::stats::{Counters, FailureCause, Series};
use crawlmark_harness::units::{grouped, rounded_percent};

/// Attempts that failed so.
pub(super) fn failed_with(evidence: &Evidence<'_>, kind: ErrorKind) -> u64 {
    evidence.totals.errors_of(kind)
}

/// Finding: too many requests failed for the figures to describe normal responses. The response
/// times of an open loop leave them out, except timeouts.
pub(super) fn most_failed(evidence: &Evidence<'_>) -> CheckResult {
    let is_open_loop = evidence.plan.arrivals.gaps().is_some();
    CheckResult::perhaps(failed_share(evidence).and_then(|part| match part {
        part if part >= MOST_FAILED => Some(format!(
            "{}, so the rate shows how fast they failed",
            failures(evidence)
        )),
        part if part >= FAILED && is_open_loop => {
            let timeouts = failed_with(evidence, ErrorKind::Timeout) > 0;
            Some(format!(
                "{}, and the response times {}",
                failures(evidence),
                left_out(timeouts)
            ))
        }
        _ => None,
    }))
}

/// Predicate of times in a run with failed requests.
pub(crate) const fn left_out(are_timeouts_among_them: bool) -> &'static str {
    if are_timeouts_among_them {
        "leave out all of them but timeouts"
    } else {
        "leave them out"
    }
}

/// Failed requests in a closed loop, which its rate counts as well.
pub(super) fn some_failed(evidence: &Evidence<'_>) -> CheckResult {
    let is_open_loop = evidence.plan.arrivals.gaps().is_some();
    let part =
        failed_share(evidence).filter(|part| (FAILED..MOST_FAILED).contains(part) && !is_open_loop);
    CheckResult::perhaps(part.map(|_| {
        format!(
            "{}, and the rate of requests counts them",
            failures(evidence)
        )
    }))
}

/// Finding: so many requests were cut off that the figures do not describe a target that keeps up.
pub(super) fn most_cut_off(evidence: &Evidence<'_>) -> CheckResult {
    let is_open_loop = evidence.plan.arrivals.gaps().is_some();
    cut_off(evidence, |part| {
        part >= MOST_FAILED || (part >= FAILED && is_open_loop)
    })
}

/// Requests of a closed loop that were cut off, although most were not.
pub(super) fn some_cut_off(evidence: &Evidence<'_>) -> CheckResult {
    let is_open_loop = evidence.plan.arrivals.gaps().is_some();
    cut_off(evidence, |part| {
        (CUT_OFF_CLOSED..MOST_FAILED).contains(&part) && !is_open_loop
    })
}

/// Finding on the requests that were cut off, where their part of all after the warm-up is one
/// `of_note`.
fn cut_off(evidence: &Evidence<'_>, of_note: impl Fn(f64) -> bool) -> CheckResult {
    let Counters {
        items, requests, ..
    } = measured(evidence);
    let part = share(items.aborted as f64, requests.attempts as f64);
    CheckResult::perhaps((of_note(part) && silence_at_the_end(evidence).is_none()).then(|| {
        format!(
            "{} of requests ({}) were cut off at the end without a response, so rates leave them out and their times are lower \
             bounds. {}",
            rounded_percent(part),
            grouped(items.aborted),
            longer(evidence.plan)
        )
    }))
}

/// Advice where requests were cut off at the end. A lower load helps only if the end did not follow
/// at once.
pub(crate) fn longer(plan: &RunPlan) -> String {
    let longer = "Give them longer with --grace";
    let lower = plan
        .pace_flag()
        .map_or_else(|| "-c".to_owned(), |flag| format!("-c or {flag}"));
    if plan.grace.is_zero() {
        longer.to_owned()
    } else {
        format!("{longer}, or lower {lower}")
    }
}

/// Finding: the target was dead for so much of the run that its rate is not that of a working
/// target, however few requests failed in the meantime: each may take a timeout, or the backoff
/// before the next one.
pub(super) fn dead(evidence: &Evidence<'_>) -> CheckResult {
    CheckResult::perhaps(
        Dead::of(evidence)
            .filter(Dead::is_much)
            .map(|dead| dead.words(evidence.plan)),
    )
}

/// Finding: the target was dead for a notable part of the run.
pub(super) fn partly_dead(evidence: &Evidence<'_>) -> CheckResult {
    let is_notable = |dead: &Dead| {
        !dead.is_much() && dead.s >= LEAST_PARTLY_DEAD_S && dead.s >= dead.of_s * PARTLY_DEAD
    };
    CheckResult::perhaps(
        Dead::of(evidence)
            .filter(is_notable)
            .map(|dead| dead.words(evidence.plan)),
    )
}

/// Time without a good answer while requests failed.
#[derive(Debug, Clone, Copy)]
struct Dead {
    s: f64,
    /// Seconds of it, a part of one included, that lasted until the end.
    at_end: u32,
    /// The time in which requests were due.
    of_s: f64,
}

impl Dead {
    /// Sum the seconds after the warm-up in which no good answer came, and none was under way, from
    /// one on in which a request failed or was under way to a failure. None without such seconds.
    ///
    /// Pauses that the target asked for are left out.
    fn of(evidence: &Evidence<'_>) -> Option<Self> {
        // When nothing is due any more, only the last answers are missing.
        let planned_s = evidence
            .plan
            .duration
            .map_or(f64::INFINITY, |duration| duration.as_secs_f64());
        let end_s = evidence.totals.duration_s.min(planned_s);
        let is_measured = |row: &&IntervalRow| row.is_after(evidence.plan.warmup);
        let begin_s = evidence.intervals.iter().find(is_measured)?.start_s as f64;
        let (mut is_dead, mut s, mut at_end) = (false, 0.0, 0);
        // Failures under way. Those of this machine's own end here and are never due, so the sum
        // may be negative.
        let mut failing = 0_i128;
        for (row, is_answered) in evidence
            .intervals
            .iter()
            .zip(IntervalRow::answered(evidence.intervals))
        {
            failing += i128::from(row.scheduled_failed.unwrap_or(0));
            is_dead = !is_answered && (is_dead || failing > 0);
            if is_dead && row.binding.pause < PAUSED && is_measured(&row) {
                let part_s = (end_s - row.start_s as f64).clamp(0.0, INTERVAL.as_secs_f64());
                (s, at_end) = (s + part_s, at_end + u32::from(part_s > 0.0));
            }
            if !is_dead {
                at_end = 0;
            }
            let others = row.ok + row.not_found + row.throttled + row.aborted;
            failing -= i128::from(row.attempts.saturating_sub(others));
        }
        Some(Self {
            s,
            at_end,
            of_s: (end_s - begin_s).max(0.0),
        })
    }

    /// True if the target was dead for much of the time, or still at the end, however long it had
    /// worked.
    fn is_much(&self) -> bool {
        (self.s >= LEAST_DEAD_S && self.s >= self.of_s * DEAD)
            || f64::from(self.at_end) >= LEAST_DEAD_S
    }

    fn words(self, plan: &RunPlan) -> String {
        let Self { s, of_s, .. } = self;
        // The others may have had nothing left to send.
        let (who, whose) = if plan.per_host.hosts > 1 {
            ("a host", "the host's")
        } else {
            ("the target", "its")
        };
        format!(
            "no good response for {s:.0} of the {of_s:.0} seconds while requests failed, so the rate includes a time in which {who} \
             did not work. Check {whose} log; the plot of errors shows when"
        )
    }
}

/// A target that gave no answer any more, however few requests waited for one when the run ended.
/// Not one whose answers take as long, and not one that had asked for the pause.
pub(super) fn silent_at_the_end(evidence: &Evidence<'_>) -> CheckResult {
    CheckResult::perhaps(silence_at_the_end(evidence))
}

fn silence_at_the_end(evidence: &Evidence<'_>) -> Option<String> {
    let Evidence {
        intervals,
        shards,
        totals,
        ledger,
        ..
    } = evidence;
    let answered = |row: &&IntervalRow| row.ok + row.not_found + row.throttled + row.failed > 0;
    let by_rows = || {
        intervals
            .iter()
            .rev()
            .find(answered)
            .map_or(0.0, |row| row.start_s as f64 + 1.0)
    };
    // A shard that died did not say when, and one of an older version neither.
    let told: Option<Vec<f64>> = shards.iter().map(|shard| shard.last_ended_s).collect();
    let last_s = told.map_or_else(by_rows, |last_s| last_s.into_iter().fold(0.0, f64::max));
    let silent_s = totals.duration_s - last_s;
    let paused = intervals
        .iter()
        .any(|row| row.start_s as f64 >= last_s && row.binding.pause >= PAUSED);
    let service = shards
        .iter()
        .filter_map(|shard| shard.latency.get(Series::ServiceOk.name())?.slowest_us());
    let slowest_s = service.fold(0.0, f64::max) / 1e6;
    let measured_s = (totals.duration_s - evidence.plan.warmup.as_secs_f64()).max(0.0);
    // Of few requests, only a long silence says something.
    let missed = silent_s * totals.attempts as f64 / totals.duration_s;
    let is_long = silent_s >= LEAST_DEAD_S
        && silent_s > slowest_s * LONGER_THAN_SLOWEST
        && (silent_s >= measured_s * DEAD || missed >= MOST_MISSED);
    // However short the run was.
    let is_all = totals.attempts > 0 && ledger.aborted == totals.attempts;
    let is_silent = ledger.aborted > 0 && !intervals.is_empty() && !paused && (is_long || is_all);
    is_silent.then(|| {
        format!(
            "no response came in the last {silent_s:.1} of {:.1} seconds, and {} items were cut off without one, so the rate \
             includes a time in which the target did not work; check its log, or give it longer with --grace",
            totals.duration_s,
            grouped(ledger.aborted)
        )
    })
}

/// Counts of items and attempts after the warm-up.
fn measured(evidence: &Evidence<'_>) -> Counters {
    WarmUpReport::measured(evidence.warmup, evidence.ledger, evidence.totals)
}

/// Failed attempts, without the failures that are this machine's own, as a part of all attempts
/// after the warm-up; none when none failed.
fn failed_share(evidence: &Evidence<'_>) -> Option<f64> {
    let Counters {
        items, requests, ..
    } = measured(evidence);
    let own: u64 = ErrorKind::LOCAL
        .iter()
        .map(|kind| requests.errors_of(*kind))
        .sum();
    let failed = requests
        .failed(&items)
        .saturating_sub(own + unsendable(evidence));
    (failed > 0).then(|| share(failed as f64, requests.attempts as f64))
}

/// Attempts of a run that sent no request at all, because settings of client and target do not fit,
/// such as a certificate that the client does not trust: neither side was measured.
fn unsendable(evidence: &Evidence<'_>) -> u64 {
    let totals = evidence.totals;
    let lasting = totals
        .errors_by_kind
        .iter()
        .filter(|(kind, _)| kind.is_lasting() && totals.attempts_sent == 0);
    lasting.map(|(_, count)| count).sum()
}

/// `56 % of requests failed (2,519 connection refused, 3 × status 500)`, the commonest causes
/// first.
fn failures(evidence: &Evidence<'_>) -> String {
    let is_own =
        |cause: &FailureCause| matches!(cause, FailureCause::Error(kind) if kind.is_local());
    let causes = causes::failures(&measured(evidence).requests)
        .into_iter()
        .filter(|(cause, _)| !is_own(cause));
    let part = rounded_percent(failed_share(evidence).unwrap_or(0.0));
    format!(
        "{part} of requests failed ({})",
        listed(causes.map(|(cause, n)| (cause_in_words(cause), n)))
    )
}

/// A run of which nothing was measured.
pub(super) fn nothing_measured(evidence: &Evidence<'_>) -> CheckResult {
    let Evidence {
        plan,
        shards,
        totals,
        ledger,
        ..
    } = evidence;
    if totals.attempts == 0
        && ledger.skipped > 0
        && ledger.skipped + ledger.not_attempted == ledger.planned
    {
        return CheckResult::perhaps(Some(format!(
            "all {} items that the run reached were skipped because of robots.txt, so no request was sent. Crawl other URLs, or use \
             --robots ignore if you are allowed to",
            grouped(ledger.skipped)
        )));
    }
    if unsendable(evidence) > 0 {
        let causes = causes::failures(&totals.requests)
            .into_iter()
            .map(|(cause, n)| (cause_in_words(cause), n));
        return CheckResult::perhaps(Some(format!(
            "no request could be sent ({}). See the error for what to change",
            listed(causes)
        )));
    }
    let measured = shards
        .iter()
        .filter_map(|shard| shard.latency.get(Series::SchedLag.name()))
        .any(|lag| lag.count > 0);
    CheckResult::perhaps((!plan.warmup.is_zero() && totals.attempts > 0 && !measured).then(|| {
        format!(
            "all {} requests were within the warm-up, so nothing was measured. Use a shorter --warmup, or a longer run",
            grouped(totals.attempts)
        )
    }))
}

/// A run that was mostly turned away.
pub(super) fn throttled(evidence: &Evidence<'_>) -> CheckResult {
    let plan = evidence.plan;
    let Counters {
        items, requests, ..
    } = measured(evidence);
    let throttled = share(requests.throttled as f64, requests.attempts as f64);
    let good = share(
        (items.ok + items.not_found) as f64,
        requests.attempts as f64,
    );
    if throttled <= THROTTLED {
        return CheckResult::Findings(Vec::new());
    }
    let patient = plan.throttling.on_throttle == OnThrottle::Honor;
    CheckResult::perhaps(match (patient, good < HARDLY_ANY) {
        (false, _) => Some(format!(
            "{} of requests were throttled and the run did not wait, so the rate shows how fast the target refuses. \
             Use --on-throttle honor, or a lower --rate",
            rounded_percent(throttled)
        )),
        (true, true) => Some(format!(
            "only {} of requests brought an item and {} were throttled, so the rate is the target's limit, not its \
             speed. Use a lower --rate, or --adaptive",
            rounded_percent(good),
            rounded_percent(throttled)
        )),
        (true, false) => None,
    })
}
