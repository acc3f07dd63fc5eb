//! A probe: the figures of its run, its result, and the reasons for it.

use serde::{Deserialize, Serialize, Serializer};
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::search::{Pace, ProbeKind, ProbeResult, Question};
use crate::judge::Finding;
use crate::run::gates::{Condition, Measured, Metric, Op, Quantity, Stat, Unit, of_report};
use crate::run::report::thresholds::{SCHED_LAG_OF_SERVICE, SCHED_LAG_US};
use crate::run::report::{IntervalRow, Latency, Report, ScheduleReport, Verdict};
use crate::show::text::decimal;
use crate::studies::TargetUse;
use crawlmark_harness::plan::Arrivals;
use crawlmark_harness::sample::ErrorKind;
use crawlmark_harness::stats::{Percentile, Series, rank};
use crawlmark_harness::units::{grouped, micros};

/// Share of the requests that must be sent on time for a probe to speak for its rate.
pub const SENT: f64 = 0.99;

/// Lateness of this client with which a probe may pass, as a part of the tightest time objective.
const PASSABLE: f64 = 0.1;

/// Stand-in for the tightest time objective when there is none, and its upper bound, us.
const UNSAID_US: f64 = 500_000.0;

/// Attempts that a half of a probe needs before its shares are judged by themselves.
const ENOUGH: u64 = 100;

/// A second is whole if the last response came no sooner than this before its end, s.
const END_S: f64 = 0.02;

/// Seconds that a line through a backlog needs: with fewer, a third or a sixth of all orders rise.
const LEAST_SECONDS: usize = 4;

/// Confidence that a backlog grows.
const LEVEL: f64 = 0.99;

/// Plan of a probe in a search.
#[derive(Debug, Clone)]
pub struct ProbePlan {
    /// Counted from 1.
    pub number: usize,
    /// Rate that is offered.
    pub pace: Pace,
    /// Kind of the probe.
    pub kind: ProbeKind,
    /// True if it has as many connections as requests can be under way while the objectives hold:
    /// then a lack of them is the target's doing. With fewer, requests that wait for one are this
    /// client's doing, as long as as many are answered as are due.
    pub has_connections: bool,
    /// The directory of its result.
    pub result: String,
}

/// A probe as it is saved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbeReport {
    /// Counted from 1.
    pub number: usize,
    /// Offered rate, requests per minute.
    pub per_min: Pace,
    /// Offered rate, requests per second.
    pub rate_per_s: f64,
    /// Kind of the probe.
    pub kind: ProbeKind,
    /// Result of the probe.
    pub seen: ProbeResult,
    /// Reasons why it was no pass, the one that decided first.
    #[serde(serialize_with = "with_text")]
    pub reasons: Vec<Reason>,
    /// The directory of its result.
    pub result: String,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// RFC 3339, UTC.
    pub finished_at: String,
    /// Verdict on the run itself.
    pub validity: Verdict,
    /// Connections that it had.
    pub connections: u32,
    /// Attempts per second.
    pub achieved_per_s: f64,
    /// Good responses per second: see `accepted_per_s`.
    pub accepted_per_s: f64,
    /// Requests that went, as a part of those that were due.
    pub sent_share: f64,
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
    /// Build the report of a probe from its run, judged by the objectives of the search.
    pub fn new(plan: ProbePlan, report: &Report, question: &Question) -> Self {
        let (seen, reasons) = judge(report, question, plan.has_connections);
        let response = report.latency(Series::ResponseOk);
        let counted = AttemptCounts::of(measured_rows(report));
        let accepted_per_s = accepted_per_s(report, plan.pace, question.bounds.precision);
        let mean_us = response.and_then(|latency| latency.mean_us);
        Self {
            number: plan.number,
            per_min: plan.pace,
            rate_per_s: plan.pace.per_s(),
            kind: plan.kind,
            seen,
            reasons,
            result: plan.result,
            started_at: report.started_at.clone(),
            finished_at: report.finished_at.clone(),
            validity: report.validity.verdict,
            connections: report.plan.run.connections,
            achieved_per_s: report.achieved_per_s(),
            accepted_per_s,
            sent_share: sent_share(report),
            throttled_share: counted.throttled_share(),
            error_share: counted.error_share(),
            counted,
            response_p50_us: response.and_then(|latency| latency.p50_us),
            response_p99_us: response.and_then(|latency| latency.p99_us),
            response_p99_at_least: response.is_some_and(|latency| latency.is_at_least("p99_us")),
            sched_lag_p99_us: report
                .latency(Series::SchedLag)
                .and_then(|latency| latency.p99_us),
            in_flight: mean_us.map(|us| accepted_per_s * us / 1e6),
            target: TargetUse::of(report),
            longest_promise_s: report.throttling.longest_promise_s,
            refusals: Refusals::of(report, plan.pace),
        }
    }
}

/// Reason why a probe did not pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Reason {
    /// This client had no local port or descriptor.
    NoPort {
        /// Requests that found none.
        requests: u64,
    },
    /// This client was late.
    Late {
        /// Share of the requests that were late by that much or more.
        share: f64,
        /// Microseconds.
        us: f64,
    },
    /// This client sent less than was due, and connections were not what it lacked.
    SentTooFew {
        /// Requests sent per second.
        sent_per_s: f64,
        /// Requests due per second.
        due_per_s: f64,
    },
    /// The run was disturbed or limited by this client, which may have made it slow.
    Disturbed {
        /// Finding of the run; null without one that is.
        finding: Option<Box<Finding>>,
    },
    /// This client sent requests in bunches, of which a limit may refuse as many.
    Bunches {
        /// Share of the requests that went out late.
        late_share: f64,
    },
    /// It passed, perhaps by a burst: by its other readings, the target accepts no more than this.
    Burst {
        /// Requests per second.
        limit_per_s: f64,
        /// True if the target fails requests beyond that, false if it throttles them.
        fails: bool,
    },
    /// So much failed or was refused that the probe was stopped.
    Stopped {
        /// Condition that did not hold.
        objective: Condition,
    },
    /// All connections were in use when requests were due.
    NoConnection {
        /// Connections of the probe.
        connections: u32,
    },
    /// An objective did not hold.
    Broken {
        /// The objective.
        objective: Condition,
        /// Value of its metric.
        value: f64,
        /// True if the value is a lower bound.
        at_least: bool,
    },
    /// More requests broke an objective on a percentile than may.
    TooSlow(Slow),
    /// An objective could not be measured.
    Unmeasured {
        /// The objective.
        objective: Condition,
        /// Reason.
        why: String,
    },
    /// Fewer requests were answered than were due, all the time.
    FellBehind {
        /// Growth of the number of unanswered requests, per second.
        per_s: f64,
    },
}

impl Reason {
    /// The reason in words.
    pub fn title(&self) -> String {
        match self {
            Self::NoPort { requests } => {
                let requests = grouped(*requests);
                format!("{requests} requests found no local port or descriptor")
            }
            Self::Late { share, us } => {
                let (percent, late) = (share * 100.0, micros(*us));
                format!("{percent:.0} % of requests went out at least {late} late")
            }
            Self::SentTooFew {
                sent_per_s,
                due_per_s,
            } => format!("this client sent {sent_per_s:.0} of {due_per_s:.0} requests a second"),
            Self::Disturbed { finding } => finding.as_ref().map_or_else(
                || "the run was disturbed".to_owned(),
                |finding| finding.title(),
            ),
            Self::Bunches { late_share } => {
                let percent = late_share * 100.0;
                format!(
                    "{percent:.1} % of requests went out late, in bunches that a limit may refuse"
                )
            }
            Self::Burst { limit_per_s, .. } => {
                let limit = decimal(*limit_per_s);
                format!(
                    "perhaps passed only by a burst: once it refuses requests, the target accepts only {limit}/s"
                )
            }
            Self::Stopped { objective } => format!("stopped, because `{objective}` did not hold"),
            Self::NoConnection { connections } => format!(
                "all of {connections} connections were waiting for a response when more requests were due"
            ),
            Self::Broken {
                objective,
                value,
                at_least,
            } => {
                let at_least = if *at_least { "at least " } else { "" };
                let value = with_unit(objective.metric.unit(), *value);
                format!(
                    "{} {at_least}{value}, but the objective is {objective}",
                    objective.metric
                )
            }
            Self::TooSlow(Slow {
                objective,
                slow,
                all,
                allowed,
            }) => {
                let [slow, all, allowed] = [slow, all, allowed].map(|count| grouped(*count));
                format!("{slow} of {all} requests broke {objective}, and {allowed} may")
            }
            Self::Unmeasured { objective, why } => format!("{}: {why}", objective.metric),
            Self::FellBehind { per_s } => {
                let each = decimal(*per_s);
                format!("unanswered requests grew by {each} each second: the target fell behind")
            }
        }
    }
}

/// Save reasons with their texts.
fn with_text<S: Serializer>(reasons: &[Reason], to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Saved<'a> {
        #[serde(flatten)]
        reason: &'a Reason,
        text: String,
    }
    to.collect_seq(reasons.iter().map(|reason| Saved {
        reason,
        text: reason.title(),
    }))
}

/// A value with its unit.
fn with_unit(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Us => micros(value),
        Unit::PerS => format!("{value:.0}/s"),
        Unit::Share => format!("{:.2} %", value * 100.0),
        Unit::Count => format!("{value:.0}"),
        Unit::Flag => (value > 0.0).to_string(),
    }
}

/// Judge a target by a run; return the result, and why it is no pass.
///
/// A run that met the objectives passes, whatever disturbed it: what this client does wrong only
/// makes things look worse. One that did not speaks against the target only if this client was not
/// the limit.
pub fn judge(
    report: &Report,
    question: &Question,
    has_connections: bool,
) -> (ProbeResult, Vec<Reason>) {
    let objectives = &question.objectives;
    let local = ErrorKind::LOCAL.iter();
    let requests = local.map(|kind| report.totals.errors_of(*kind)).sum();
    if requests > 0 {
        return (ProbeResult::Void, vec![Reason::NoPort { requests }]);
    }
    if let Some(Ok(objective)) = report.stopped_by.as_ref().map(|gate| gate.parse()) {
        return (ProbeResult::Collapse, vec![Reason::Stopped { objective }]);
    }
    if let Some(why) = late(report, objectives).or_else(|| sent_too_few(report)) {
        return (ProbeResult::Void, vec![why]);
    }
    let broken: Vec<(&Condition, Reason)> = objectives
        .iter()
        .filter_map(|objective| Some((objective, broken(objective, report)?)))
        .collect();
    let behind = falls_behind(report, question.bounds.precision);
    let kept_up = behind.is_none() && sent_share(report) >= SENT;
    if broken.is_empty() && kept_up {
        return (ProbeResult::Pass, Vec::new());
    }
    let disturbed = is_disturbed(report);
    let late_share = late_share(report);
    let by_bunches = |objective: &Condition| {
        objective.metric.unit() == Unit::Share && within_bunches(objective, report, late_share)
    };
    let all_ours = broken
        .iter()
        .all(|(objective, why)| match objective.metric.unit() {
            _ if matches!(why, Reason::Unmeasured { .. }) => true,
            Unit::Us => disturbed,
            Unit::Share => by_bunches(objective) || disturbed && mostly_timeouts(objective, report),
            _ => false,
        })
        && (behind.is_none() || disturbed);
    let starved = no_connection(report);
    let is_void = match starved {
        // Few connections make requests wait; fewer answers than requests are the target's doing,
        // unless this client was disturbed.
        Some(_) if !has_connections => kept_up || disturbed,
        Some(_) => disturbed && all_ours,
        None => all_ours,
    };
    let is_bunched = starved.is_none() && broken.iter().all(|(objective, _)| by_bunches(objective));
    let ours = match is_void {
        true if is_bunched => Some(Reason::Bunches { late_share }),
        true if disturbed => Some(Reason::Disturbed {
            finding: report.findings_of(&OURS).next().cloned().map(Box::new),
        }),
        _ => None,
    };
    let against = broken.into_iter().map(|(_, why)| why).chain(behind);
    let seen = if is_void {
        ProbeResult::Void
    } else {
        ProbeResult::Fail
    };
    (
        seen,
        ours.into_iter().chain(starved).chain(against).collect(),
    )
}

/// Verdicts of a run that this client limited, or that was disturbed.
const OURS: [Verdict; 3] = [
    Verdict::ClientLimited,
    Verdict::Disturbed,
    Verdict::BudgetLimited,
];

/// True if the run itself was limited by this client or disturbed, also if it was limited by its
/// target as well.
fn is_disturbed(report: &Report) -> bool {
    let validity = &report.validity;
    OURS.contains(&validity.verdict) || OURS.iter().any(|ours| validity.verdicts.contains(ours))
}

/// This client was later than a measurement forgives and than an objective leaves room for.
fn late(report: &Report, objectives: &[Condition]) -> Option<Reason> {
    let service = report.latency(Series::ServiceOk);
    let service_us = service.and_then(|latency| latency.p50_us).unwrap_or(0.0);
    let times = objectives
        .iter()
        .filter(|objective| objective.metric.unit() == Unit::Us && objective.limit > 0.0);
    let least = times.fold(UNSAID_US, |least, objective| least.min(objective.limit));
    let allowed_us = SCHED_LAG_US
        .max(service_us * SCHED_LAG_OF_SERVICE)
        .max(least * PASSABLE);
    let lag = report.latency(Series::SchedLag)?;
    // Of few requests less is known.
    let known = [(0.01, lag.p99_us), (0.1, lag.p90_us), (0.5, lag.p50_us)];
    let (share, us) = known
        .into_iter()
        .find_map(|(share, us)| Some((share, us?)))?;
    (us > allowed_us).then_some(Reason::Late { share, us })
}

/// This client sent less than was due, and connections were not what it lacked.
fn sent_too_few(report: &Report) -> Option<Reason> {
    let schedule = report.schedule.as_ref()?;
    let (due_per_s, sent_per_s) = (schedule.rate_per_s, schedule.achieved_per_s);
    // Of few requests, one more or less is no shortfall; a poisson timetable's own number is
    // random.
    let forgiven = 1.0 - SENT + 3.0 / (report.totals.attempts as f64).max(1.0).sqrt();
    let is_short = schedule.dropped == 0
        && schedule.postponed == 0
        && sent_per_s < due_per_s * (1.0 - forgiven);
    is_short.then_some(Reason::SentTooFew {
        sent_per_s,
        due_per_s,
    })
}

/// The part of the requests that found a connection free before the end.
fn sent_share(report: &Report) -> f64 {
    let schedule = report.schedule.as_ref();
    1.0 - schedule.map_or(0.0, ScheduleReport::dropped_share)
}

/// All connections were in use when requests were due.
fn no_connection(report: &Report) -> Option<Reason> {
    let waited = report.validity.verdict == Verdict::ConcurrencyLimited;
    (waited || sent_share(report) < SENT).then_some(Reason::NoConnection {
        connections: report.plan.run.connections,
    })
}

/// The part of the requests that this client sent so late that they came together with others: by
/// more than lateness that is forgiven, and than the time from one to the next.
fn late_share(report: &Report) -> f64 {
    let lag = report.latency(Series::SchedLag);
    let Some(lag) = lag.and_then(Latency::distribution) else {
        return 0.0;
    };
    let schedule = report.schedule.as_ref();
    let apart_us = schedule.map_or(0.0, |schedule| 1e6 / schedule.rate_per_s.max(1e-6));
    let late_ns = SCHED_LAG_US.max(apart_us) * 1e3;
    let late: u64 = lag
        .histogram()
        .iter_recorded()
        .filter(|cell| cell.value_iterated_to() as f64 > late_ns)
        .map(|cell| cell.count_at_value())
        .sum();
    late as f64 / (lag.all() as f64).max(1.0)
}

/// True if a share is beyond its objective by no more than requests that came in bunches may
/// account for: a limit refuses as many of them at most, and as many of those that find it used up.
fn within_bunches(objective: &Condition, report: &Report, late: f64) -> bool {
    let value = measured(objective, report).value();
    late > 0.0 && value.is_some_and(|value| value - objective.limit <= 2.0 * late)
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
fn falls_behind(report: &Report, precision: f64) -> Option<Reason> {
    let rows = whole_seconds(measured_rows(report), report);
    let scheduled: u64 = rows.iter().filter_map(|row| row.scheduled).sum();
    let (count, mut backlog) = (rows.len() as f64, 0.0);
    if rows.len() < LEAST_SECONDS || scheduled == 0 {
        return None;
    }
    let points: Vec<(f64, f64)> = rows
        .iter()
        .map(|row| {
            backlog += row.scheduled.unwrap_or(0) as f64 - ended(row) as f64;
            (row.start_s as f64, backlog)
        })
        .collect();
    let mean_t = points.iter().map(|(t, _)| t).sum::<f64>() / count;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
    let spread: f64 = points.iter().map(|(t, _)| (t - mean_t).powi(2)).sum();
    let per_s = points
        .iter()
        .map(|(t, y)| (t - mean_t) * (y - mean_y))
        .sum::<f64>()
        / spread;
    let error = (points
        .iter()
        .map(|(t, y)| (y - mean_y - per_s * (t - mean_t)).powi(2))
        .sum::<f64>()
        / (count - 2.0)
        / spread)
        .sqrt();
    let student = StudentsT::new(0.0, 1.0, count - 2.0).ok()?;
    let least = per_s - student.inverse_cdf(LEVEL) * error;
    (least > scheduled as f64 / count * precision / 2.0).then_some(Reason::FellBehind { per_s })
}

/// Reason why an objective does not hold; none when it does.
fn broken(objective: &Condition, report: &Report) -> Option<Reason> {
    if let Some(slow) = Slow::of(objective, report).filter(|_| is_of_few(objective, report)) {
        return (slow.slow > slow.allowed).then_some(Reason::TooSlow(slow));
    }
    let seen = measured(objective, report);
    let why = match (objective.judge(&seen), &seen) {
        (Some(true), _) => return None,
        (_, Measured::Unknown(why)) => why.clone(),
        (None, _) => "too many requests did not finish".to_owned(),
        (Some(false), _) => {
            return Some(Reason::Broken {
                objective: *objective,
                value: seen.value()?,
                at_least: seen.is_at_least(),
            });
        }
    };
    Some(Reason::Unmeasured {
        objective: *objective,
        why,
    })
}

/// Measure an objective's metric from a probe: shares in the later half as well, and percentiles
/// with fewer samples beyond them than a single run is judged by, for a probe is one of many.
fn measured(objective: &Condition, report: &Report) -> Measured {
    match objective.metric {
        Metric::Of(Quantity::ThrottledRate) => worse_share(report, AttemptCounts::throttled_share),
        Metric::Of(Quantity::ErrorRate) => worse_share(report, AttemptCounts::error_share),
        metric => match (of_report(metric, report), percentile(metric, report)) {
            (Measured::Unknown(_), Some(Percentile::Exact(ns))) => {
                Measured::Exactly(ns as f64 / 1e3)
            }
            (Measured::Unknown(_), Some(Percentile::AtLeast(ns))) => {
                Measured::AtLeast(ns as f64 / 1e3)
            }
            (measured, _) => measured,
        },
    }
}

/// Percentile of a metric, with ten samples beyond it; none of other metrics or without a sample.
fn percentile(metric: Metric, report: &Report) -> Option<Percentile> {
    let Metric::Time(series, Stat::Percentile(quantile)) = metric else {
        return None;
    };
    let distribution = report.latency(series)?.distribution()?;
    (distribution.all() > 0).then(|| distribution.percentile(quantile.part()))
}

/// True if an objective is an upper bound on a percentile beyond which lie fewer than ten samples:
/// then it is judged by how many of them are too slow.
fn is_of_few(objective: &Condition, report: &Report) -> bool {
    percentile(objective.metric, report) == Some(Percentile::TooFew)
        && matches!(objective.op, Op::Less | Op::AtMost)
}

/// Requests that broke an objective on a percentile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Slow {
    /// The objective.
    pub objective: Condition,
    /// Requests that took longer, those that were cut off included.
    pub slow: u64,
    /// All requests.
    pub all: u64,
    /// Requests that may take longer: a hundredth of all for a p99.
    pub allowed: u64,
}

impl Slow {
    /// None of objectives that are not on a percentile.
    fn of(objective: &Condition, report: &Report) -> Option<Self> {
        let Metric::Time(series, Stat::Percentile(quantile)) = objective.metric else {
            return None;
        };
        let distribution = report.latency(series)?.distribution()?;
        let all = distribution.all();
        let cells = distribution.histogram().iter_recorded();
        let below = cells.filter(|cell| (cell.value_iterated_to() as f64 / 1e3) < objective.limit);
        Some(Self {
            objective: *objective,
            slow: all.saturating_sub(below.map(|cell| cell.count_at_value()).sum()),
            all,
            allowed: all - rank(quantile.part(), all),
        })
    }
}

/// Attempts by result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptCounts {
    /// All of them: the sum of the others.
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
}

impl AttemptCounts {
    fn of<'a>(rows: impl Iterator<Item = &'a IntervalRow>) -> Self {
        rows.fold(Self::default(), |all, row| {
            let others = row
                .ok
                .saturating_add(row.not_found)
                .saturating_add(row.throttled)
                .saturating_add(row.aborted);
            Self {
                attempts: all.attempts + row.attempts,
                good: all.good + row.ok,
                not_found: all.not_found + row.not_found,
                throttled: all.throttled + row.throttled,
                failed: all.failed + row.attempts.saturating_sub(others),
                cut_off: all.cut_off + row.aborted,
            }
        })
    }

    fn share(&self, part: u64) -> f64 {
        part as f64 / (self.attempts as f64).max(1.0)
    }

    fn throttled_share(&self) -> f64 {
        self.share(self.throttled)
    }

    fn error_share(&self) -> f64 {
        self.share(self.failed + self.cut_off)
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
    fn of(report: &Report, pace: Pace) -> Option<Self> {
        let begins = report
            .intervals
            .iter()
            .find(|row| {
                let counted = AttemptCounts::of([*row].into_iter());
                counted.throttled + counted.failed > 0
            })?
            .start_s;
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
        for row in report.intervals.iter().filter(|row| row.start_s > begins) {
            if row.start_s as f64 + 1.0 <= ends {
                seconds += 1.0;
            } else if is_even {
                seconds += ended(row) as f64 / pace.per_s();
            } else {
                break;
            }
            let_through += row.ok + row.not_found;
        }
        Some(Self {
            by_s: (begins as f64 + 1.0).min(planned_s),
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
fn accepted_per_s(report: &Report, pace: Pace, precision: f64) -> f64 {
    let lost = worse_share(report, AttemptCounts::lost_share);
    let mut rows = whole_seconds(measured_rows(report), report);
    if rows.is_empty() {
        rows = whole_seconds(report.intervals.iter(), report);
    }
    let scheduled: u64 = rows.iter().filter_map(|row| row.scheduled).sum();
    let answered: u64 = rows.iter().map(|row| ended(row)).sum();
    let answered = answered as f64 / (scheduled as f64).max(1.0);
    let kept_up = scheduled == 0 || answered >= 1.0 - precision / 2.0;
    pace.per_s() * (1.0 - lost.value().unwrap_or(0.0)) * if kept_up { 1.0 } else { answered }
}

/// A share after the warm-up, over all of the probe or over its later half, where it is greater: a
/// target with credit to spend refuses late.
fn worse_share(report: &Report, share: fn(&AttemptCounts) -> f64) -> Measured {
    let rows: Vec<&IntervalRow> = measured_rows(report).collect();
    let all = AttemptCounts::of(rows.iter().copied());
    if all.attempts == 0 {
        return Measured::Unknown("nothing was attempted after the warm-up".to_owned());
    }
    let later = AttemptCounts::of(rows.iter().copied().skip(rows.len() / 2));
    let later = if later.attempts >= ENOUGH {
        share(&later)
    } else {
        0.0
    };
    Measured::Exactly(share(&all).max(later))
}

/// Requests of a second that ended by themselves.
fn ended(row: &IntervalRow) -> u64 {
    row.attempts.saturating_sub(row.aborted)
}

/// The seconds after the warm-up; of a probe that has none, all.
fn measured_rows(report: &Report) -> impl Iterator<Item = &IntervalRow> {
    let warmup_s = report.plan.run.warmup.as_secs_f64();
    let is_after = move |row: &&IntervalRow| row.start_s as f64 >= warmup_s;
    let none = !report
        .intervals
        .iter()
        .any(|row| is_after(&row) && row.attempts > 0);
    report
        .intervals
        .iter()
        .filter(move |row| none || is_after(row))
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
