//! A probe: the figures of its run, its result, and the reasons for it.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::search::{Pace, ProbeKind, ProbeResult, Question};
use crate::judge::FindingKind;
use crate::judge::thresholds::{SCHED_LAG_OF_SERVICE, SCHED_LAG_US};
use crate::run::gates::{Condition, Measured, Metric, Op, Quantity, Stat, Unit, of_report};
use crate::run::report::{IntervalRow, Report, ScheduleReport, Verdict};
use crate::studies::{RoundRun, StudyFinding, TargetUse};
use crawlmark_harness::plan::Arrivals;
use crawlmark_harness::sample::ErrorKind;
use crawlmark_harness::stats::{Series, rank};

/// Share of the requests that must be sent on time for a probe to speak for its rate.
pub const SENT: f64 = 0.99;

/// Lateness of this client with which a probe may pass, as a part of the tightest time objective.
const PASSABLE: f64 = 0.1;

/// Stand-in for the tightest time objective when there is none, and its upper bound, us.
const UNSAID_US: f64 = 500_000.0;

/// CPU of a shard, up to which waits for one are no limit of this client.
const LITTLE_CPU: f64 = 0.5;

/// Part of its CPU time that a target may wait for a CPU, and is not slower by more than that.
const WAITED: f64 = 0.1;

/// Attempts that a half of a probe needs before its shares are judged by themselves.
const ENOUGH: u64 = 100;

/// A second is whole if the last response came no sooner than this before its end, s.
const END_S: f64 = 0.02;

/// Seconds that a line through a backlog needs: with fewer, a third or a sixth of all orders rise.
const LEAST_SECONDS: usize = 4;

/// Confidence that a backlog grows.
const LEVEL: f64 = 0.99;

/// Plan of a probe in a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbePlan {
    /// Counted from 1.
    pub number: usize,
    /// Offered rate, requests per minute.
    pub per_min: Pace,
    /// Offered rate, requests per second.
    pub rate_per_s: f64,
    /// Kind of the probe.
    pub kind: ProbeKind,
    /// True if it has as many connections as requests can be under way while the objectives hold:
    /// then a lack of them is the target's doing. With fewer, requests that wait for one are this
    /// client's doing, as long as as many are answered as are due.
    #[serde(skip)]
    pub has_connections: bool,
}

impl ProbePlan {
    /// The plan of a probe; see the fields.
    pub fn new(number: usize, pace: Pace, kind: ProbeKind, has_connections: bool) -> Self {
        Self {
            number,
            per_min: pace,
            rate_per_s: pace.per_s(),
            kind,
            has_connections,
        }
    }
}

/// A probe as it is saved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbeReport {
    /// Its plan.
    #[serde(flatten)]
    pub plan: ProbePlan,
    /// Result of the probe.
    pub seen: ProbeResult,
    /// Reasons why it was no pass, the one that decided first.
    #[serde(serialize_with = "crate::studies::saved_findings")]
    pub reasons: Vec<StudyFinding>,
    /// Its run.
    #[serde(flatten)]
    pub run: RoundRun,
    /// Good responses per second: see `accepted_per_s`.
    pub accepted_per_s: f64,
    /// Throttled attempts as a part of all, after the warm-up.
    pub throttled_share: f64,
    /// Attempts that failed or were cut off at the end, as a part of all, after the warm-up.
    pub error_share: f64,
    /// Attempts after the warm-up by result.
    pub counted: AttemptCounts,
    /// Median response time of good answers, us; null with fewer than ten samples beyond.
    pub response_p50_us: Option<f64>,
    /// 99th percentile of the response time of good answers, us; null with fewer than ten samples
    /// beyond.
    pub response_p99_us: Option<f64>,
    /// True if so many were cut off that it may be more.
    pub response_p99_at_least: bool,
    /// Lateness of this client at the 99th percentile, us.
    pub sched_lag_p99_us: Option<f64>,
    /// Requests under way, in the mean: accepted ones a second times their mean response time
    /// (Little's law); null without a good response.
    pub in_flight: Option<f64>,
    /// What the target used and ran out of; null without a probe of it.
    pub target: Option<TargetUse>,
    /// The longest time that the target asked to be left alone for, s.
    pub longest_promise_s: f64,
    /// Refusals; null if the target neither refused nor failed a request.
    pub refusals: Option<Refusals>,
}

impl ProbeReport {
    /// Build the report of a probe from its run, saved in `result`, judged by the objectives of the
    /// search.
    pub fn new(plan: ProbePlan, report: &Report, result: String, question: &Question) -> Self {
        let (seen, reasons) = match plan.kind {
            ProbeKind::Random => (ProbeResult::Pass, Vec::new()),
            _ => judge(report, question, plan.has_connections),
        };
        let response = report.latency(Series::ResponseOk);
        let lag = report.latency(Series::SchedLag);
        let counted = AttemptCounts::of(measured_rows(report));
        let accepted_per_s = accepted_per_s(report, plan.rate_per_s, question.bounds.precision);
        Self {
            seen,
            reasons,
            run: RoundRun::of(report, result),
            accepted_per_s,
            throttled_share: counted.throttled_share(),
            error_share: counted.error_share(),
            counted,
            response_p50_us: response.and_then(|times| times.p50_us),
            response_p99_us: response.and_then(|times| times.p99_us),
            response_p99_at_least: response.is_some_and(|times| times.is_at_least("p99_us")),
            sched_lag_p99_us: lag.and_then(|lag| lag.p99_us),
            in_flight: response.and_then(|times| Some(accepted_per_s * times.mean_us? / 1e6)),
            target: TargetUse::of(report),
            longest_promise_s: report.throttling.longest_promise_ns as f64 / 1e9,
            refusals: Refusals::of(report, plan.rate_per_s),
            plan,
        }
    }

    /// Attempts that were throttled or failed, as a part of all.
    pub(super) fn refused_share(&self) -> f64 {
        self.throttled_share + self.error_share
    }
}

/// Judge a target by a run; return the result, and why it is no pass.
///
/// A run that met the objectives passes, whatever disturbed it: what this client does wrong only
/// makes things look worse. One that did not speaks against the target only if this client was not
/// the limit: by the readings of both sides, where there are any.
pub fn judge(
    report: &Report,
    question: &Question,
    has_connections: bool,
) -> (ProbeResult, Vec<StudyFinding>) {
    let objectives = &question.objectives;
    let requests = ErrorKind::LOCAL
        .iter()
        .map(|kind| report.totals.errors_of(*kind))
        .sum();
    if requests > 0 {
        return (ProbeResult::Void, vec![StudyFinding::NoPort { requests }]);
    }
    if let Some(Ok(objective)) = report.stopped_by.as_ref().map(|gate| gate.parse()) {
        let reason = StudyFinding::Stopped { objective };
        return (ProbeResult::Collapse, vec![reason]);
    }
    if let Some(why) = late(report, objectives).or_else(|| sent_too_few(report)) {
        return (ProbeResult::Void, vec![why]);
    }
    let mut broken = Vec::new();
    for objective in objectives {
        broken.extend(self::broken(objective, report).map(|why| (objective, why)));
    }
    let behind = falls_behind(report, question.bounds.precision);
    let kept_up = behind.is_none() && sent_share(report) >= SENT;
    if broken.is_empty() && kept_up {
        return (ProbeResult::Pass, Vec::new());
    }
    let validity = &report.validity;
    let disturbed = OURS
        .iter()
        .any(|ours| validity.verdict == *ours || validity.verdicts.contains(ours));
    let unclear = disturbed && !has_both_sides(report);
    let late_share = late_share(report);
    // A limit refuses as many of the requests that came in bunches at most, and as many of those
    // that find it used up.
    let by_bunches = |objective: &Condition| {
        let value = measured(objective, report).value();
        objective.metric.unit() == Unit::Share
            && late_share > 0.0
            && value.is_some_and(|value| (value - objective.limit).abs() <= 2.0 * late_share)
    };
    let all_ours = broken
        .iter()
        .all(|(objective, why)| match objective.metric.unit() {
            _ if matches!(why, StudyFinding::Unmeasured { .. }) => true,
            Unit::Us => unclear || disturbed && !is_broken_anyway(objective, report),
            // How many would have met the objectives of an undisturbed client is not known.
            Unit::Share if objective.metric == GOODPUT => disturbed || by_bunches(objective),
            Unit::Share => by_bunches(objective) || unclear && mostly_timeouts(objective, report),
            _ => false,
        })
        && (behind.is_none() || unclear);
    // All connections were in use when requests were due.
    let starved = validity.verdict == Verdict::ConcurrencyLimited || sent_share(report) < SENT;
    let is_void = match (starved, has_connections) {
        // Few connections make requests wait; fewer answers than requests are the target's doing,
        // unless this client was disturbed.
        (true, false) => kept_up || unclear,
        (true, true) => disturbed && all_ours,
        (false, _) => all_ours,
    };
    let mut reasons = Vec::new();
    let is_bunched =
        !broken.is_empty() && broken.iter().all(|(objective, _)| by_bunches(objective));
    if is_void && !starved && is_bunched {
        reasons.push(StudyFinding::Bunches { late_share });
    } else if is_void && disturbed {
        let finding = report.findings_of(&OURS).next().cloned().map(Box::new);
        reasons.push(StudyFinding::Disturbed { finding });
    }
    if starved {
        let connections = report.plan.run.connections;
        reasons.push(StudyFinding::NoConnection { connections });
    }
    reasons.extend(broken.into_iter().map(|(_, why)| why).chain(behind));
    let seen = if is_void {
        ProbeResult::Void
    } else {
        ProbeResult::Fail
    };
    (seen, reasons)
}

const GOODPUT: Metric = Metric::Of(Quantity::GoodputShare);

/// Verdicts of a run that this client limited, or that was disturbed.
const OURS: [Verdict; 3] = [
    Verdict::ClientLimited,
    Verdict::Disturbed,
    Verdict::BudgetLimited,
];

/// True if neither side lacked CPU, whatever waited for one now and then: the shards used little,
/// and the target is elsewhere, used all that it may, or hardly waited.
fn has_both_sides(report: &Report) -> bool {
    let is_little = report.shards.iter().all(|shard| {
        let used = shard.usage.cpu_share;
        used.is_some_and(|share| share < LITTLE_CPU)
    });
    let waited = report
        .target
        .as_ref()
        .filter(|it| it.ended.is_none())
        .and_then(|it| {
            let throttled_us = it.throttled_us_per_attempt.unwrap_or(0.0);
            let waited_us = it.run_delay_us_per_attempt? - throttled_us;
            Some(waited_us / (it.cpu_us_per_attempt? + waited_us))
        });
    let has = |kind| report.findings.iter().any(|it| it.kind() == kind);
    let has_cpu = !report.environment.colocated
        || waited.is_some_and(|share| share <= WAITED)
        || has(FindingKind::TargetCpuFull);
    let is_bounded =
        has(FindingKind::ClientThrottled) || report.validity.verdict == Verdict::BudgetLimited;
    is_little && has_cpu && !is_bounded
}

/// True if an objective on a time does not hold either with as much more as this client delayed a
/// request at most: a request that is sent late, or many of them together, ends no later than if it
/// had been on time, by more than that.
fn is_broken_anyway(objective: &Condition, report: &Report) -> bool {
    let [sent_us, read_us] =
        [Series::SchedLag, Series::LoopLag].map(|series| report.latency(series)?.max_us);
    sent_us.zip(read_us).is_some_and(|(sent_us, read_us)| {
        let limit = objective.limit + sent_us + read_us;
        let why = broken(
            &Condition {
                limit,
                ..objective.clone()
            },
            report,
        );
        why.is_some_and(|why| !matches!(why, StudyFinding::Unmeasured { .. }))
    })
}

/// This client was later than a measurement forgives and than an objective leaves room for.
fn late(report: &Report, objectives: &[Condition]) -> Option<StudyFinding> {
    let service = report.latency(Series::ServiceOk);
    let service_us = service.and_then(|latency| latency.p50_us).unwrap_or(0.0);
    let limits = objectives
        .iter()
        .filter(|objective| objective.metric.unit() == Unit::Us)
        .map(|objective| objective.limit);
    let of_each = report.plan.run.objectives.iter();
    let least = limits
        .chain(of_each.map(|objective| objective.below_ns as f64 / 1e3))
        .filter(|limit| *limit > 0.0)
        .fold(UNSAID_US, f64::min);
    let allowed_us = SCHED_LAG_US
        .max(service_us * SCHED_LAG_OF_SERVICE)
        .max(least * PASSABLE);
    let lag = report.latency(Series::SchedLag)?;
    // Of few requests less is known.
    let (share, us) = [(0.01, lag.p99_us), (0.1, lag.p90_us), (0.5, lag.p50_us)]
        .into_iter()
        .find_map(|(share, us)| Some((share, us?)))?;
    (us > allowed_us).then_some(StudyFinding::Late { share, us })
}

/// This client sent less than was due, and connections were not what it lacked.
fn sent_too_few(report: &Report) -> Option<StudyFinding> {
    let schedule = report.schedule.as_ref()?;
    let (due_per_s, sent_per_s) = (schedule.rate_per_s, schedule.achieved_per_s);
    // Of few requests, one more or less is no shortfall; a poisson timetable's own number is
    // random.
    let forgiven = 1.0 - SENT + 3.0 / (report.totals.attempts as f64).max(1.0).sqrt();
    let is_short = schedule.dropped == 0
        && schedule.postponed == 0
        && sent_per_s < due_per_s * (1.0 - forgiven);
    is_short.then_some(StudyFinding::SentTooFew {
        sent_per_s,
        due_per_s,
    })
}

/// The part of the requests that found a connection free before the end.
fn sent_share(report: &Report) -> f64 {
    let schedule = report.schedule.as_ref();
    1.0 - schedule.map_or(0.0, ScheduleReport::dropped_share)
}

/// The part of the requests that this client sent so late that they came together with others: by
/// more than lateness that is forgiven, and than the time from one to the next.
fn late_share(report: &Report) -> f64 {
    let schedule = report.schedule.as_ref();
    let apart_us = schedule.map_or(0.0, |schedule| 1e6 / schedule.rate_per_s.max(1e-6));
    let late = from_on(SCHED_LAG_US.max(apart_us), Series::SchedLag, report);
    late.map_or(0.0, |(late, all)| late as f64 / all as f64)
}

/// Samples of a series from so many microseconds on, those that were cut off included, and all of
/// them; none where there are none.
fn from_on(us: f64, series: Series, report: &Report) -> Option<(u64, u64)> {
    let times = report.latency(series)?.distribution()?;
    let cells = times.histogram().iter_recorded();
    let below: u64 = cells
        .filter(|cell| (cell.value_iterated_to() as f64) < us * 1e3)
        .map(|cell| cell.count_at_value())
        .sum();
    let all = times.all();
    (all > 0).then(|| (all.saturating_sub(below), all))
}

/// True if most of the failures that break an objective are requests that timed out, as they do on
/// a busy machine. Refused connections and retransmissions are the target's.
fn mostly_timeouts(objective: &Condition, report: &Report) -> bool {
    let timeouts = report.totals.errors_of(ErrorKind::Timeout)
        + report.totals.errors_of(ErrorKind::ConnectTimeout);
    let value = measured(objective, report).value().unwrap_or(0.0);
    let is_of_errors = objective.metric == Metric::Of(Quantity::ErrorRate);
    is_of_errors && timeouts as f64 * 2.0 > value * report.totals.attempts as f64
}

/// More was due than the target answered, although the objectives may hold as yet. A target that
/// queues what it does not manage answers later and later, and a probe may end before that reaches
/// an objective: so what is tested is whether the backlog grows, by the line of least squares
/// through its value at the end of each second, and a one-sided t-test of its slope (N. R. Draper,
/// H. Smith, *Applied Regression Analysis*, 1.4) against half of the precision: a slope of less is
/// no overload that a search of this precision would tell from none.
fn falls_behind(report: &Report, precision: f64) -> Option<StudyFinding> {
    let rows = whole_seconds(measured_rows(report), report);
    let (scheduled, _) = due_and_answered(&rows);
    let (count, mut backlog) = (rows.len() as f64, 0.0);
    if rows.len() < LEAST_SECONDS || scheduled <= 0.0 {
        return None;
    }
    // Times from their mean, and the backlog at each.
    let points: Vec<(f64, f64)> = (0_u32..)
        .zip(&rows)
        .map(|(second, row)| {
            backlog += row.scheduled.unwrap_or(0) as f64 - ended(row) as f64;
            (f64::from(second) - (count - 1.0) / 2.0, backlog)
        })
        .collect();
    let mean = points.iter().map(|(_, y)| y).sum::<f64>() / count;
    let spread: f64 = points.iter().map(|(t, _)| t * t).sum();
    let per_s = points.iter().map(|(t, y)| t * y).sum::<f64>() / spread;
    let beside = points.iter().map(|(t, y)| (y - mean - per_s * t).powi(2));
    let error = (beside.sum::<f64>() / (count - 2.0) / spread).sqrt();
    let student = StudentsT::new(0.0, 1.0, count - 2.0).ok()?;
    let least = per_s - student.inverse_cdf(LEVEL) * error;
    (least > scheduled / count * precision / 2.0).then_some(StudyFinding::FellBehind { per_s })
}

/// Reason why an objective does not hold; none when it does. An upper bound on a percentile is
/// broken if more requests than may took longer: that is known of however few.
fn broken(objective: &Condition, report: &Report) -> Option<StudyFinding> {
    let objective = objective.clone();
    if let (Metric::Time(series, Stat::Percentile(quantile)), Op::Less | Op::AtMost) =
        (objective.metric, objective.op)
        && let Some((slow, all)) = from_on(objective.limit, series, report)
    {
        let allowed = all - rank(quantile.part(), all);
        return (slow > allowed).then_some(StudyFinding::TooSlow {
            objective,
            slow,
            all,
            allowed,
        });
    }
    let seen = measured(&objective, report);
    let why = match (objective.judge(&seen), &seen) {
        (Some(true), _) => return None,
        (_, Measured::Unknown(why)) => why.clone(),
        (None, _) => "too many requests did not finish".to_owned(),
        (Some(false), _) => {
            return Some(StudyFinding::Broken {
                objective,
                value: seen.value()?,
                at_least: seen.is_at_least(),
            });
        }
    };
    Some(StudyFinding::Unmeasured { objective, why })
}

/// Measure an objective's metric from a probe: shares in the later half as well.
fn measured(objective: &Condition, report: &Report) -> Measured {
    match objective.metric {
        Metric::Of(Quantity::ThrottledRate) => worse_share(report, AttemptCounts::throttled_share),
        Metric::Of(Quantity::ErrorRate) => worse_share(report, AttemptCounts::error_share),
        GOODPUT => match worse_share(report, AttemptCounts::missed_share) {
            Measured::Exactly(missed) => Measured::Exactly(1.0 - missed),
            other => other,
        },
        metric => of_report(metric, report),
    }
}

/// Attempts by result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptCounts {
    /// All of them: the sum of the others without `met`.
    pub attempts: u64,
    /// Answers that `--expect` accepts.
    pub good: u64,
    /// Not found: 404 or 410, unless `--expect` accepts it.
    pub not_found: u64,
    /// Throttled.
    pub throttled: u64,
    /// Rejected, challenged, or without a valid answer: refused and closed connections, timeouts.
    pub failed: u64,
    /// Cut off at the end of the probe.
    pub cut_off: u64,
    /// Those that met the objectives of each request (`--objective`).
    #[serde(default)]
    pub met: u64,
}

impl AttemptCounts {
    fn of<'a>(rows: impl IntoIterator<Item = &'a IntervalRow>) -> Self {
        let mut all = Self::default();
        for row in rows {
            all.attempts += row.attempts;
            all.good += row.ok;
            all.not_found += row.not_found;
            all.throttled += row.throttled;
            all.cut_off += row.aborted;
            all.met += row.met;
        }
        let others = all.good + all.not_found + all.throttled + all.cut_off;
        all.failed = all.attempts.saturating_sub(others);
        all
    }

    pub(super) fn share(&self, part: u64) -> f64 {
        part as f64 / (self.attempts as f64).max(1.0)
    }

    fn throttled_share(&self) -> f64 {
        self.share(self.throttled)
    }

    fn error_share(&self) -> f64 {
        self.share(self.failed + self.cut_off)
    }

    fn missed_share(&self) -> f64 {
        self.share(self.attempts.saturating_sub(self.met))
    }

    fn lost_share(&self) -> f64 {
        self.share(self.attempts - self.good)
    }
}

/// Requests after the target first refused some, or failed them, as by closing connections.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Refusals {
    /// End of the second in which it did so first, seconds after the start.
    pub by_s: f64,
    /// Requests that neither were refused nor failed after that second.
    pub let_through: u64,
    /// Length of that time, s.
    pub seconds: f64,
}

impl Refusals {
    fn of(report: &Report, per_s: f64) -> Option<Self> {
        let mut rows = report.intervals.iter();
        let by_s = rows
            .find(|row| {
                let counted = AttemptCounts::of([*row]);
                counted.throttled + counted.failed > 0
            })?
            .start_s as f64
            + 1.0;
        let planned_s = planned_s(report);
        // The last request is due a little before the end.
        let ends = report.totals.duration_s.min(planned_s) + END_S;
        // The last second is often not whole. It is as long as its requests were due in, if they
        // were due evenly and all were sent.
        let schedule = report.schedule.as_ref();
        let is_even = report.plan.run.arrivals == Arrivals::Constant
            && report.stopped_by.is_none()
            && schedule.is_none_or(|schedule| schedule.dropped == 0);
        let (mut let_through, mut seconds) = (0, 0.0);
        for row in rows {
            if row.start_s as f64 + 1.0 <= ends {
                seconds += 1.0;
            } else if is_even {
                seconds += ended(row) as f64 / per_s;
            } else {
                break;
            }
            let_through += row.ok + row.not_found;
        }
        Some(Self {
            by_s: by_s.min(planned_s),
            let_through,
            seconds,
        })
    }

    /// Requests let through per second; none if no time was left.
    pub fn per_s(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.let_through as f64 / self.seconds)
    }
}

/// Good responses per second at the worst: of those that came, over all of the measured time or its
/// later half; and no more than were answered, where fewer were than were due by more than half of
/// the precision. A target that queues what it does not manage answers what it sustains.
fn accepted_per_s(report: &Report, per_s: f64, precision: f64) -> f64 {
    let lost = worse_share(report, AttemptCounts::lost_share);
    let mut rows = whole_seconds(measured_rows(report), report);
    if rows.is_empty() {
        rows = whole_seconds(report.intervals.iter(), report);
    }
    let (scheduled, answered) = due_and_answered(&rows);
    let answered = answered / scheduled.max(1.0);
    let kept_up = scheduled <= 0.0 || answered >= 1.0 - precision / 2.0;
    per_s * (1.0 - lost.value().unwrap_or(0.0)) * if kept_up { 1.0 } else { answered }
}

/// A share after the warm-up, over all of the probe or over its later half, where it is greater: a
/// target with credit to spend refuses late.
fn worse_share(report: &Report, share: fn(&AttemptCounts) -> f64) -> Measured {
    let rows: Vec<&IntervalRow> = measured_rows(report).collect();
    let all = AttemptCounts::of(rows.iter().copied());
    if all.attempts == 0 {
        return Measured::Unknown("nothing was attempted after the warm-up".to_owned());
    }
    let later = AttemptCounts::of(rows[rows.len() / 2..].iter().copied());
    let is_enough = later.attempts >= ENOUGH;
    Measured::Exactly(share(&all).max(if is_enough { share(&later) } else { 0.0 }))
}

/// Requests that were due in these seconds, and those that ended by themselves.
fn due_and_answered(rows: &[&IntervalRow]) -> (f64, f64) {
    let due: u64 = rows.iter().filter_map(|row| row.scheduled).sum();
    let answered: u64 = rows.iter().map(|row| ended(row)).sum();
    (due as f64, answered as f64)
}

/// Requests of a second that ended by themselves.
fn ended(row: &IntervalRow) -> u64 {
    row.attempts.saturating_sub(row.aborted)
}

/// The seconds after the warm-up; of a probe that has none, all.
fn measured_rows(report: &Report) -> impl Iterator<Item = &IntervalRow> {
    let warmup = report.plan.run.warmup;
    let rows = report.intervals.iter();
    let none = !rows
        .clone()
        .any(|row| row.is_after(warmup) && row.attempts > 0);
    rows.filter(move |row| none || row.is_after(warmup))
}

/// The seconds of these that the timetable lasted.
fn whole_seconds<'a>(
    rows: impl Iterator<Item = &'a IntervalRow>,
    report: &Report,
) -> Vec<&'a IntervalRow> {
    rows.filter(|row| row.start_s as f64 + 1.0 <= planned_s(report))
        .collect()
}

/// The planned length of a probe, s.
fn planned_s(report: &Report) -> f64 {
    let duration = report.plan.run.duration;
    duration.map_or(f64::INFINITY, |duration| duration.as_secs_f64())
}
