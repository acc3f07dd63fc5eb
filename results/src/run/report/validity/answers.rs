//! Gates on what the target answered.

use super::thresholds::{
    DEAD, FAILED, HARDLY_ANY, LEAST_DEAD_S, LEAST_PARTLY_DEAD_S, LONGER_THAN_SLOWEST, MOST_FAILED, PARTLY_DEAD, PAUSED,
    THROTTLED,
};
use super::{CheckResult, Evidence};
use crate::run::report::{IntervalRow, WarmUpReport, error_in_words, share, status_in_words};
use crawlmark_harness::plan::OnThrottle;
use crawlmark_harness::sample::ErrorKind;
use crawlmark_harness::shard::INTERVAL;
use crawlmark_harness::stats::{Counters, Series};
use crawlmark_harness::units::{grouped, rounded_percent};

/// Attempts that failed so.
pub(super) fn failed_with(evidence: &Evidence<'_>, kind: ErrorKind) -> u64 {
    evidence.totals.errors_of(kind)
}

/// Finding: too many requests failed for the figures to describe normal responses. The response times of an open loop leave them
/// out.
pub(super) fn most_failed(evidence: &Evidence<'_>) -> CheckResult {
    let is_open_loop = evidence.plan.arrivals.gaps().is_some();
    CheckResult::perhaps(failed_share(evidence).and_then(|part| match part {
        part if part >= MOST_FAILED => Some(format!("{}, so the rate shows how fast they failed", failures(evidence))),
        part if part >= FAILED && is_open_loop => {
            Some(format!("{}, so the response times leave them out", failures(evidence)))
        }
        _ => None,
    }))
}

/// Failed requests in a closed loop, which its rate counts as well.
pub(super) fn some_failed(evidence: &Evidence<'_>) -> CheckResult {
    let is_open_loop = evidence.plan.arrivals.gaps().is_some();
    let part = failed_share(evidence).filter(|part| (FAILED..MOST_FAILED).contains(part) && !is_open_loop);
    CheckResult::perhaps(part.map(|_| format!("{}, and the rate counts them as well", failures(evidence))))
}

/// Finding: the target was dead for so much of the run that its rate is not that of a working target, however few requests failed
/// meanwhile: each may take a timeout, or the backoff before the next one.
pub(super) fn dead(evidence: &Evidence<'_>) -> CheckResult {
    CheckResult::perhaps(Dead::of(evidence).filter(Dead::is_much).map(Dead::words))
}

/// Finding: the target was dead for a notable part of the run.
pub(super) fn partly_dead(evidence: &Evidence<'_>) -> CheckResult {
    let is_notable =
        |dead: &Dead| !dead.is_much() && dead.s >= LEAST_PARTLY_DEAD_S && dead.s >= dead.of_s * PARTLY_DEAD;
    CheckResult::perhaps(Dead::of(evidence).filter(is_notable).map(Dead::words))
}

/// Time without a good answer while requests failed.
#[derive(Debug, Clone, Copy)]
struct Dead {
    s: f64,
    /// The time in which requests were due.
    of_s: f64,
}

impl Dead {
    /// Sum the seconds in which no good answer came, and none was under way, from one on in which a request failed or was under way
    /// to a failure. None without the seconds of the run.
    ///
    /// A slow target has good answers under way: those of requests that were due, without those that came. Such of an open loop
    /// may have waited for their connections meanwhile. Pauses that the target asked for are left out.
    fn of(evidence: &Evidence<'_>) -> Option<Self> {
        // When nothing is due any more, only the last answers are missing.
        let planned_s = evidence.plan.duration.map_or(f64::INFINITY, |duration| duration.as_secs_f64());
        let of_s = evidence.totals.duration_s.min(planned_s);
        let (mut is_dead, mut s) = (false, 0.0);
        // Requests under way, by what they come to. Failures of this machine's own end here and are never due, so the sum may be negative.
        let (mut good, mut failing) = (0_i128, 0_i128);
        for row in evidence.intervals {
            let due = |count: Option<u64>| i128::from(count.unwrap_or(0));
            good += due(row.scheduled_good);
            failing += due(row.scheduled_failed);
            let came = row.ok + row.not_found;
            is_dead = good <= 0 && came == 0 && (is_dead || failing > 0);
            if is_dead && row.binding.pause < PAUSED {
                s += (of_s - row.start_s as f64).clamp(0.0, INTERVAL.as_secs_f64());
            }
            good -= i128::from(came);
            failing -= i128::from(row.attempts.saturating_sub(came + row.throttled + row.aborted));
        }
        (!evidence.intervals.is_empty()).then_some(Self { s, of_s })
    }

    fn is_much(&self) -> bool {
        self.s >= LEAST_DEAD_S && self.s >= self.of_s * DEAD
    }

    fn words(self) -> String {
        let Self { s, of_s } = self;
        format!(
            "no good answer for {s:.0} of the {of_s:.0} seconds while requests failed, so the rate includes a time in which the \
             target did not work. Check its log; the plot of errors shows when"
        )
    }
}

/// A target that gave no answer any more, however few requests waited for one when the run ended. Not one whose answers take as
/// long, and not one that had asked for the pause.
pub(super) fn silent_at_the_end(evidence: &Evidence<'_>) -> CheckResult {
    let Evidence { intervals, shards, totals, ledger, .. } = evidence;
    let answered = |row: &&IntervalRow| row.ok + row.not_found + row.throttled + row.failed > 0;
    let by_rows = || intervals.iter().rev().find(answered).map_or(0.0, |row| row.start_s as f64 + 1.0);
    // A shard that died did not say when, and one of an older version neither.
    let told: Option<Vec<f64>> = shards.iter().map(|shard| shard.last_ended_s).collect();
    let last_s = told.map_or_else(by_rows, |last_s| last_s.into_iter().fold(0.0, f64::max));
    let silent_s = totals.duration_s - last_s;
    let paused = intervals.iter().any(|row| row.start_s as f64 >= last_s && row.binding.pause >= PAUSED);
    let service = shards.iter().filter_map(|shard| shard.latency.get(Series::ServiceOk.name())?.slowest_us());
    let slowest_s = service.fold(0.0, f64::max) / 1e6;
    let is_silent = ledger.aborted > 0
        && !intervals.is_empty()
        && !paused
        && silent_s >= LEAST_DEAD_S.max(totals.duration_s * DEAD)
        && silent_s > slowest_s * LONGER_THAN_SLOWEST;
    CheckResult::perhaps(is_silent.then(|| {
        format!(
            "no answer came in the last {silent_s:.1} of {:.1} seconds, and {} items were cut off without one, so the rate \
             includes a time in which the target did not work; check its log, or give it longer with --grace",
            totals.duration_s,
            grouped(ledger.aborted)
        )
    }))
}

/// Counts of items and attempts after the warm-up.
fn measured(evidence: &Evidence<'_>) -> Counters {
    WarmUpReport::measured(evidence.warmup, evidence.ledger, evidence.totals)
}

/// Failed attempts, without the failures that are this machine's own, as a part of all attempts after the warm-up; none when none failed.
fn failed_share(evidence: &Evidence<'_>) -> Option<f64> {
    let Counters { items, requests } = measured(evidence);
    let own: u64 = ErrorKind::LOCAL.iter().map(|kind| requests.errors_of(*kind)).sum();
    let failed = requests.failed(&items).saturating_sub(own);
    (failed > 0).then(|| share(failed as f64, requests.attempts as f64))
}

/// `56 % of requests failed (2,519 connection refused, 3 status 500)`, the commonest causes first.
fn failures(evidence: &Evidence<'_>) -> String {
    /// The most causes that are listed.
    const MOST: usize = 4;
    let requests = measured(evidence).requests;
    let errors = requests.errors_by_kind.iter().filter(|(kind, _)| !kind.is_local());
    let rejected = requests.rejected_by_status.iter().map(|(status, n)| (status_in_words(*status), *n));
    let mut causes: Vec<(String, u64)> = rejected.chain(errors.map(|(kind, n)| (error_in_words(*kind), *n))).collect();
    causes.push(("challenge pages".to_owned(), requests.soft_blocked));
    causes.retain(|(_, n)| *n > 0);
    causes.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let rest: u64 = causes.iter().skip(MOST).map(|(_, n)| n).sum();
    causes.truncate(MOST);
    causes.extend((rest > 0).then(|| ("others".to_owned(), rest)));
    let causes: Vec<String> = causes.iter().map(|(what, n)| format!("{} {what}", grouped(*n))).collect();
    let part = rounded_percent(failed_share(evidence).unwrap_or(0.0));
    format!("{part} of requests failed ({})", causes.join(", "))
}

/// A run of which nothing was measured.
pub(super) fn nothing_measured(evidence: &Evidence<'_>) -> CheckResult {
    let Evidence { plan, shards, totals, .. } = evidence;
    let measured =
        shards.iter().filter_map(|shard| shard.latency.get(Series::SchedLag.name())).any(|lag| lag.count > 0);
    CheckResult::perhaps((!plan.warmup.is_zero() && totals.attempts > 0 && !measured).then(|| {
        format!(
            "all {} attempts were within the warm-up, so nothing was measured. Use a shorter --warmup, or a longer run",
            grouped(totals.attempts)
        )
    }))
}

/// A run that was mostly turned away.
pub(super) fn throttled(evidence: &Evidence<'_>) -> CheckResult {
    let plan = evidence.plan;
    let Counters { items, requests } = measured(evidence);
    let throttled = share(requests.throttled as f64, requests.attempts as f64);
    let good = share((items.ok + items.not_found) as f64, requests.attempts as f64);
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
