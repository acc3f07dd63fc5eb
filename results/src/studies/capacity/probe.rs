//! A probe: what its run read, and whether that speaks for or against the target.

use serde::{Deserialize, Serialize};

use super::growth::LEAST_SECONDS;
use super::search::{Kind, ProbeResult};
use super::{Growth, Pace};
use crate::run::gates::{Condition, Measured, Metric, Quantity, Stat, Unit, of_report};
use crate::run::report::thresholds::{SCHED_LAG_OF_SERVICE, SCHED_LAG_US};
use crate::run::report::{Distribution, Evidence, IntervalRow, Latency, Report, ScheduleReport, Validity, Verdict};
use crawlmark_harness::plan::Arrivals;
use crawlmark_harness::sample::ErrorKind;
use crawlmark_harness::stats::{Series, rank};
use crawlmark_harness::units::{grouped, micros};

/// The part of the requests that have to go, each on time, for a probe to speak for its rate.
pub const SENT: f64 = 0.99;

/// Lateness of this client as a part of the least time that is wanted, with which a probe may pass.
const PASSABLE: f64 = 0.1;

/// Stand-in for the least time of the objectives when none limits a time, and upper bound of that time, us.
const UNSAID_US: f64 = 500_000.0;

/// Standard deviations by which the answers of one probe lag behind its schedule by chance once in a thousand.
pub(super) const SURELY: f64 = 3.0;

/// Attempts that a half of a probe needs before its shares are judged by themselves.
const ENOUGH: u64 = 100;

/// Sufficiency of the connections of a probe for its rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connections {
    /// As many as requests can be under way while the objectives hold: a lack of them is the target's doing.
    Enough,
    /// Fewer may be at hand than that: requests that wait for one are this side's doing, as long as as many are answered as are due.
    Bounded,
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
    pub kind: Kind,
    /// Result of the probe.
    pub seen: ProbeResult,
    /// Reason why it was no pass, in sentences.
    pub reasons: Vec<String>,
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
    /// Requests that went, as a part of those that were due.
    pub sent_share: f64,
    /// Throttled attempts as a part of all, after the warm-up.
    pub throttled_share: f64,
    /// Attempts that failed or were cut off at the end, as a part of all, after the warm-up.
    pub error_share: f64,
    /// Median response time of good answers, us; null with fewer than ten samples beyond.
    pub response_p50_us: Option<f64>,
    /// 99th percentile of the response time of good answers, us; null with fewer than ten samples beyond.
    pub response_p99_us: Option<f64>,
    /// True if so many were cut off that it may be more.
    pub response_p99_at_least: bool,
    /// Median service time, us.
    pub service_p50_us: Option<f64>,
    /// Lateness of this client at the 99th percentile, us.
    pub sched_lag_p99_us: Option<f64>,
    /// The longest time that the target asked to be left alone for, s.
    pub longest_promise_s: f64,
    /// Attempts after the warm-up by result. Null in a journal of an older version.
    #[serde(default)]
    pub counted: Option<Counted>,
    /// Good answers per second, at the worst: over all of the measured time, or its later half.
    #[serde(default)]
    pub accepted_per_s: Option<f64>,
    /// End of the second in which the target first refused or failed a request, in seconds after the start; null when it did not.
    #[serde(default)]
    pub refused_by_s: Option<f64>,
    /// Requests and answers from the start until the end of the last whole second in which requests were scheduled.
    #[serde(default)]
    pub flow: Option<Flow>,
    /// Requests and answers of the later half of the whole seconds after the warm-up; null when these are fewer than four.
    #[serde(default)]
    pub later_flow: Option<Flow>,
    /// Requests per second that neither were refused nor failed once the target had begun to refuse or fail some, over the time
    /// after the second in which it began; null when there is none.
    #[serde(default)]
    pub let_through_per_s: Option<f64>,
    /// The least rate that a limit with nothing left at the start of that time refills at: one request may have been saved up.
    #[serde(default)]
    pub let_through_least_per_s: Option<f64>,
    /// True if the probe is void because this client's bunches may have caused the refusals.
    #[serde(default)]
    pub bunched: bool,
    /// True if the probe is void because this client was late, or its machine was busy or disturbed.
    #[serde(default)]
    pub busy: bool,
    /// For each objective on a percentile: the requests that took longer.
    #[serde(default)]
    pub slow: Vec<Slow>,
}

/// Requests scheduled in some seconds, and requests that ended in them by themselves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// Scheduled.
    pub scheduled: u64,
    /// Ended.
    pub answered: u64,
}

impl Flow {
    /// None of results of older versions, or of no second.
    fn of(rows: &[&IntervalRow]) -> Option<Self> {
        let scheduled: u64 = rows.iter().map(|row| row.scheduled).sum::<Option<u64>>()?;
        let answered = rows.iter().map(|row| row.attempts.saturating_sub(row.aborted)).sum();
        (scheduled > 0).then_some(Self { scheduled, answered })
    }

    pub(super) const fn plus(self, other: Self) -> Self {
        Self { scheduled: self.scheduled + other.scheduled, answered: self.answered + other.answered }
    }

    /// Ended ones as a part of the scheduled ones, 1 at the most.
    pub(super) fn share(self) -> f64 {
        (self.answered as f64 / (self.scheduled as f64).max(1.0)).min(1.0)
    }

    /// True if fewer ended than were scheduled by more than half of the precision and `deviations` standard deviations: how many are under
    /// way differs as a sum of so many random steps does, at the most.
    pub(super) fn falls_behind(self, precision: f64, deviations: f64) -> bool {
        let scheduled = self.scheduled as f64;
        let behind = scheduled - self.answered as f64;
        behind > scheduled * precision / 2.0 + deviations * scheduled.sqrt()
    }
}

/// Requests that took longer than an objective on a percentile wants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Slow {
    /// The objective.
    pub objective: String,
    /// Requests that took longer, those that were cut off included.
    pub slow: u64,
    /// Requests that may take longer: a hundredth of all for a p99.
    pub allowed: f64,
}

/// Plan of a probe in a search.
#[derive(Debug, Clone)]
pub struct ProbePlan {
    /// Counted from 1.
    pub number: usize,
    /// Rate that is offered.
    pub pace: Pace,
    /// Kind of the probe.
    pub kind: Kind,
    /// Sufficiency of its connections.
    pub connections: Connections,
    /// The directory of its result.
    pub result: String,
}

/// Requirements that a probe must meet.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// Objectives that must hold.
    pub objectives: &'a [Condition],
    /// Precision required of a rate, as a part of it: what grows by no more than half of that is no overload.
    pub precision: f64,
}

impl ProbeReport {
    /// A probe that did not end by itself: a shard or the run was killed, or a signal ended it.
    #[must_use]
    pub fn lost(plan: ProbePlan, times: [String; 2], connections: u32, why: String) -> Self {
        let [started_at, finished_at] = times;
        Self {
            number: plan.number,
            per_min: plan.pace,
            rate_per_s: plan.pace.per_s(),
            kind: plan.kind,
            seen: ProbeResult::Lost,
            reasons: vec![why],
            result: plan.result,
            started_at,
            finished_at,
            validity: Verdict::Incomplete,
            connections: connections.max(1),
            achieved_per_s: 0.0,
            sent_share: 0.0,
            throttled_share: 0.0,
            error_share: 0.0,
            response_p50_us: None,
            response_p99_us: None,
            response_p99_at_least: false,
            service_p50_us: None,
            sched_lag_p99_us: None,
            longest_promise_s: 0.0,
            counted: None,
            accepted_per_s: None,
            refused_by_s: None,
            flow: None,
            later_flow: None,
            let_through_per_s: None,
            let_through_least_per_s: None,
            bunched: false,
            busy: false,
            slow: Vec::new(),
        }
    }

    /// Build the report of a probe from its run, judged by the requirements.
    #[must_use]
    pub fn new(plan: ProbePlan, report: &Report, wanted: Wanted<'_>) -> Self {
        let Judged { seen, reasons, bunched, busy } = judged(report, wanted, plan.connections);
        let response = report.latency(Series::ResponseOk);
        let p99 = |series| report.latency(series).and_then(|latency| latency.p99_us);
        let let_through = LetThrough::of(report, plan.pace);
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
            sent_share: not_dropped(report),
            throttled_share: Counted::of(measured_rows(report)).throttled(),
            error_share: Counted::of(measured_rows(report)).errors(),
            response_p50_us: response.and_then(|latency| latency.p50_us),
            response_p99_us: p99(Series::ResponseOk),
            response_p99_at_least: response.is_some_and(|latency| latency.is_at_least("p99_us")),
            service_p50_us: report.latency(Series::ServiceOk).and_then(|latency| latency.p50_us),
            sched_lag_p99_us: p99(Series::SchedLag),
            longest_promise_s: report.throttling.longest_promise_s,
            counted: Some(Counted::of(measured_rows(report))),
            refused_by_s: refused_by_s(report),
            flow: Flow::of(&whole_seconds(report.intervals.iter(), report)),
            later_flow: later_flow(report),
            accepted_per_s: worse_share(report, Counted::not_good).value().map(|lost| plan.pace.per_s() * (1.0 - lost)),
            let_through_per_s: let_through.as_ref().map(LetThrough::per_s),
            let_through_least_per_s: let_through.as_ref().map(LetThrough::least_per_s),
            bunched,
            busy,
            slow: wanted.objectives.iter().filter_map(|objective| slow(objective, report)).collect(),
        }
    }
}

/// Judge a target by its run and the requirements; return the result, and why it is no pass.
///
/// A run that met them passes, whatever disturbed it: what this side does wrong only makes things look worse. One that did not
/// speaks against the target only if this side was not the limit, see the module above.
#[must_use]
pub fn judge(report: &Report, wanted: Wanted<'_>, connections: Connections) -> (ProbeResult, Vec<String>) {
    let Judged { seen, reasons, .. } = judged(report, wanted, connections);
    (seen, reasons)
}

/// Judge a run by its report.
struct Judged {
    seen: ProbeResult,
    reasons: Vec<String>,
    /// See [`ProbeReport::bunched`].
    bunched: bool,
    /// See [`ProbeReport::busy`].
    busy: bool,
}

impl Judged {
    const fn new(seen: ProbeResult, reasons: Vec<String>) -> Self {
        Self { seen, reasons, bunched: false, busy: false }
    }
}

fn judged(report: &Report, wanted: Wanted<'_>, connections: Connections) -> Judged {
    let Wanted { objectives, precision } = wanted;
    let local = local_failures(report);
    if local > 0 {
        let what = format!("{} attempts found no local port or descriptor", grouped(local));
        return Judged::new(ProbeResult::Void, vec![what]);
    }
    if let Some(gate) = &report.stopped_by {
        return Judged::new(ProbeResult::Collapse, vec![format!("stopped, for `{gate}` did not hold")]);
    }
    let short = shortfall(report);
    if let Some(why) = late_beyond(report, forgiven_us(report).max(passable_us(objectives))).or(short) {
        return Judged { busy: true, ..Judged::new(ProbeResult::Void, vec![why]) };
    }
    let starved = starved(report);
    let broken: Vec<(Condition, String)> =
        objectives.iter().filter_map(|objective| Some((*objective, broken(objective, report)?))).collect();
    let behind = falls_behind(report, precision);
    let reasons = || {
        let broken = broken.iter().map(|(_, why)| why);
        starved.iter().chain(broken).chain(&behind).cloned().collect::<Vec<_>>()
    };
    if broken.is_empty() && behind.is_none() && not_dropped(report) >= SENT {
        return Judged::new(ProbeResult::Pass, Vec::new());
    }
    // What could not be measured speaks neither for nor against the target.
    let unknown = |objective: &Condition| matches!(measured(objective, report), Measured::Unknown(_));
    if starved.is_none()
        && behind.is_none()
        && !broken.is_empty()
        && broken.iter().all(|(objective, _)| unknown(objective))
    {
        return Judged::new(ProbeResult::Void, reasons());
    }
    let late = late_share(report);
    let own = own_findings(report);
    let is_busy = own.is_some();
    let is_perhaps_ours = |objective: &Condition| match objective.metric.unit() {
        Unit::Us => is_busy,
        Unit::Share => within_bunches(objective, report, late) || (is_busy && by_timeouts(objective, report)),
        _ => false,
    };
    let is_all_ours = broken.iter().all(|(objective, _)| is_perhaps_ours(objective)) && (behind.is_none() || is_busy);
    let void = match report.validity.verdict {
        _ if starved.is_some() => {
            // Few connections make requests wait; fewer answers than requests are the target's doing, unless this side was busy.
            let kept_up = behind.is_none() && not_dropped(report) >= SENT;
            let is_lack = connections == Connections::Bounded && (is_busy || kept_up);
            is_lack || (is_busy && is_all_ours)
        }
        Verdict::BudgetLimited => true,
        _ => is_all_ours,
    };
    if void {
        let mut why = own.unwrap_or_else(|| report.validity.reasons.clone());
        if late > 0.0 && broken.iter().any(|(objective, _)| objective.metric.unit() == Unit::Share) {
            let percent = late * 100.0;
            why.push(format!(
                "this client sent {percent:.1} % of the requests late, in bunches that a limit may refuse"
            ));
        }
        why.extend(reasons());
        let by_bunches = |(objective, _): &(Condition, String)| {
            objective.metric.unit() == Unit::Share && within_bunches(objective, report, late)
        };
        let bunched = broken.iter().all(by_bunches) && starved.is_none() && behind.is_none();
        return Judged { seen: ProbeResult::Void, reasons: why, bunched, busy: is_busy && !bunched };
    }
    Judged::new(ProbeResult::Fail, reasons())
}

/// Findings that this client or its machine was the limit; none when there is no such finding.
fn own_findings(report: &Report) -> Option<Vec<String>> {
    const OWN: [Verdict; 2] = [Verdict::ClientLimited, Verdict::Disturbed];
    if OWN.contains(&report.validity.verdict) {
        return Some(report.validity.reasons.clone());
    }
    // A target that fails requests is the graver finding, which hides those.
    let Report { plan, environment, host, shards, totals, ledger, intervals, warmup, .. } = report;
    let evidence =
        Evidence { plan: &plan.run, environment, host, shards, totals, ledger, intervals, warmup: warmup.as_ref() };
    Some(Validity::findings(&evidence, &OWN)).filter(|found| !found.is_empty())
}

/// True if a bound on failed requests would hold without those that timed out, which a busy machine may cause.
fn by_timeouts(objective: &Condition, report: &Report) -> bool {
    if objective.metric != Metric::Of(Quantity::ErrorRate) {
        return false;
    }
    let [timeout, connect] = [ErrorKind::Timeout, ErrorKind::ConnectTimeout].map(|kind| report.totals.errors_of(kind));
    let timeouts = timeout + connect;
    let share = timeouts as f64 / (report.totals.attempts as f64).max(1.0);
    let left = measured(objective, report).value().map(|value| Measured::Exactly((value - share).max(0.0)));
    left.is_some_and(|left| objective.judge(&left) == Some(true))
}

/// Reason why this is more than the target manages, although what is wanted may hold as yet.
fn falls_behind(report: &Report, precision: f64) -> Option<String> {
    // A second that the probe did not last, and those in which it only waited for answers, say nothing of their own.
    let whole = whole_seconds(measured_rows(report), report);
    let growth = Growth::of(whole.into_iter()).filter(|growth| growth.is_above(precision / 2.0));
    let grew = growth.map(|growth| {
        let each = micros(growth.slope * 1e6);
        format!("the median response time grew by {each} each second: more came than it managed")
    });
    grew.or_else(|| {
        let flow = later_flow(report).filter(|flow| flow.falls_behind(precision, SURELY))?;
        let [answered, scheduled] = [flow.answered, flow.scheduled].map(grouped);
        Some(format!("{answered} of {scheduled} requests had an answer in the later half: more came than it managed"))
    })
}

/// Reason why an objective does not hold; none when it does.
fn broken(objective: &Condition, report: &Report) -> Option<String> {
    let seen = measured(objective, report);
    match objective.judge(&seen) {
        Some(true) => None,
        // A percentile of few samples is judged by how many of them are too slow, not by its value.
        Some(false)
            if let Some(Slow { slow, .. }) = slow(objective, report).filter(|_| is_of_few(objective, report)) =>
        {
            let Metric::Time(series, Stat::Percentile(quantile)) = objective.metric else { return None };
            let all =
                report.latency(series).and_then(Latency::distribution).map_or(0, |distribution| distribution.all());
            let may = all - rank(quantile.part(), all);
            let [slow, all, may] = [slow, all, may].map(grouped);
            Some(format!("{slow} of {all} requests broke {objective}, and {may} may"))
        }
        Some(false) => {
            let value = seen.value().map_or_else(String::new, |value| value_in(objective.metric.unit(), value));
            let at_least = if matches!(seen, Measured::AtLeast(_)) { "at least " } else { "" };
            Some(format!("{} {at_least}{value}, where {objective} is wanted", objective.metric))
        }
        None => Some(match seen {
            Measured::Unknown(why) => format!("{}: {why}", objective.metric),
            _ => format!("{}: too many were cut off", objective.metric),
        }),
    }
}

/// A value with its unit.
fn value_in(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Us => micros(value),
        Unit::PerS => format!("{value:.0}/s"),
        Unit::Share => format!("{:.2} %", value * 100.0),
        Unit::Count => format!("{value:.0}"),
        Unit::Flag => (value > 0.0).to_string(),
    }
}

/// Measure an objective's metric from a probe. A probe is one of many, so it may say more with less than a single run
/// may: a percentile with ten samples beyond it, and with fewer than those by the samples that are on the wrong side.
fn measured(objective: &Condition, report: &Report) -> Measured {
    match objective.metric {
        Metric::Of(Quantity::ThrottledRate) => worse_share(report, Counted::throttled),
        Metric::Of(Quantity::ErrorRate) => worse_share(report, Counted::errors),
        Metric::Time(series, Stat::Percentile(quantile)) => match of_report(objective.metric, report) {
            Measured::Unknown(why) => {
                let few = report.latency(series).and_then(|latency| of_few(latency, quantile.part(), objective.limit));
                few.unwrap_or(Measured::Unknown(why))
            }
            known => known,
        },
        metric => of_report(metric, report),
    }
}

/// True if an objective is on a percentile beyond which lie fewer than ten samples.
fn is_of_few(objective: &Condition, report: &Report) -> bool {
    use crawlmark_harness::stats::Percentile;
    let Metric::Time(series, Stat::Percentile(quantile)) = objective.metric else { return false };
    let distribution = report.latency(series).and_then(Latency::distribution);
    distribution.is_some_and(|all| all.percentile(quantile.part()) == Percentile::TooFew)
}

/// A percentile of few samples: its value where ten lie beyond it, else the limit when no more lie above that than may, and
/// the greatest of all otherwise.
fn of_few(latency: &Latency, q: f64, limit_us: f64) -> Option<Measured> {
    use crawlmark_harness::stats::Percentile;
    let distribution = latency.distribution()?;
    match distribution.percentile(q) {
        Percentile::Exact(ns) => return Some(Measured::Exactly(ns as f64 / 1e3)),
        Percentile::AtLeast(ns) => return Some(Measured::AtLeast(ns as f64 / 1e3)),
        Percentile::TooFew if distribution.all() == 0 => return None,
        Percentile::TooFew => {}
    }
    let beyond = beyond(&distribution, limit_us);
    let may = distribution.all() - rank(q, distribution.all());
    // Just below the limit, so that `<` holds.
    let value = if beyond <= may { limit_us * (1.0 - 1e-9) } else { latency.max_us?.max(limit_us * (1.0 + 1e-9)) };
    Some(Measured::Exactly(value))
}

/// Requests that took longer than an objective on a percentile wants; none of other objectives.
fn slow(objective: &Condition, report: &Report) -> Option<Slow> {
    let Metric::Time(series, Stat::Percentile(quantile)) = objective.metric else { return None };
    let distribution = report.latency(series)?.distribution()?;
    let allowed = distribution.all() as f64 * (1.0 - quantile.part());
    Some(Slow { objective: objective.to_string(), slow: beyond(&distribution, objective.limit), allowed })
}

/// Values of a distribution that are no less than a limit, those cut off included.
fn beyond(distribution: &Distribution<'_>, limit_us: f64) -> u64 {
    let cells = distribution.histogram().iter_recorded();
    let below = cells.filter(|cell| (cell.value_iterated_to() as f64 / 1e3) < limit_us);
    distribution.all().saturating_sub(below.map(|cell| cell.count_at_value()).sum())
}

/// A second is whole if the last answer came no sooner than this before its end, s.
const END_S: f64 = 0.02;

/// The planned length of a probe, s.
fn planned_s(report: &Report) -> f64 {
    report.plan.run.duration.map_or(f64::INFINITY, |duration| duration.as_secs_f64())
}

/// First second in which the target refused or failed a request.
fn first_refused(report: &Report) -> Option<&IntervalRow> {
    report.intervals.iter().find(|row| Counted::of([*row].into_iter()).refused() > 0)
}

/// See [`ProbeReport::refused_by_s`].
fn refused_by_s(report: &Report) -> Option<f64> {
    Some((first_refused(report)?.start_s as f64 + 1.0).min(planned_s(report)))
}

/// The seconds of these that the timetable lasted.
fn whole_seconds<'a>(rows: impl Iterator<Item = &'a IntervalRow>, report: &Report) -> Vec<&'a IntervalRow> {
    rows.filter(|row| row.start_s as f64 + 1.0 <= planned_s(report)).collect()
}

/// See [`ProbeReport::later_flow`].
fn later_flow(report: &Report) -> Option<Flow> {
    let whole = whole_seconds(measured_rows(report), report);
    let later = whole.get(whole.len() / 2..).filter(|_| whole.len() >= LEAST_SECONDS)?;
    Flow::of(later)
}

/// Requests that neither were refused nor failed after the second in which the target began to refuse or fail some, and how long
/// that was.
struct LetThrough {
    requests: f64,
    seconds: f64,
}

impl LetThrough {
    fn of(report: &Report, pace: Pace) -> Option<Self> {
        // The last request is due a little before the end.
        let ends = report.totals.duration_s.min(planned_s(report)) + END_S;
        let begins = first_refused(report)?.start_s;
        // The last second is often not whole. It is as long as its requests were due in, if they were due evenly and all were sent.
        let dropped = report.schedule.as_ref().map_or(0, |schedule| schedule.dropped);
        let is_even = report.plan.run.arrivals == Arrivals::Constant && report.stopped_by.is_none() && dropped == 0;
        let (mut requests, mut seconds) = (0, 0.0);
        for row in report.intervals.iter().filter(|row| row.start_s > begins) {
            let counted = Counted::of([row].into_iter());
            if row.start_s as f64 + 1.0 <= ends {
                seconds += 1.0;
            } else if is_even {
                seconds += (counted.attempts.saturating_sub(counted.cut_off)) as f64 / pace.per_s();
            } else {
                break;
            }
            requests += counted.good + counted.not_found;
        }
        (seconds > 0.0).then_some(Self { requests: requests as f64, seconds })
    }

    fn per_s(&self) -> f64 {
        self.requests / self.seconds
    }

    fn least_per_s(&self) -> f64 {
        (self.requests - 1.0).max(0.0) / self.seconds
    }
}

/// A share after the warm-up, over all of the probe or over its later half, where it is greater: a target with credit to spend
/// refuses late.
fn worse_share(report: &Report, share: fn(&Counted) -> f64) -> Measured {
    let rows: Vec<&IntervalRow> = measured_rows(report).collect();
    let all = Counted::of(rows.iter().copied());
    if all.attempts == 0 {
        return Measured::Unknown("nothing was attempted after the warm-up".to_owned());
    }
    let later = Counted::of(rows.iter().copied().skip(rows.len() / 2));
    let later = if later.attempts >= ENOUGH { share(&later) } else { 0.0 };
    Measured::Exactly(share(&all).max(later))
}

/// The seconds after the warm-up; of a probe that has none, all.
fn measured_rows(report: &Report) -> impl Iterator<Item = &IntervalRow> {
    let warmup_s = report.plan.run.warmup.as_secs_f64();
    let is_after = move |row: &&IntervalRow| row.start_s as f64 >= warmup_s;
    let none = !report.intervals.iter().any(|row| is_after(&row) && row.attempts > 0);
    report.intervals.iter().filter(move |row| none || is_after(row))
}

/// Attempts by result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
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

impl Counted {
    fn of<'a>(rows: impl Iterator<Item = &'a IntervalRow>) -> Self {
        rows.fold(Self::default(), |all, row| {
            let others = row.ok.saturating_add(row.not_found).saturating_add(row.throttled).saturating_add(row.aborted);
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

    fn share(part: u64, all: u64) -> f64 {
        part as f64 / (all as f64).max(1.0)
    }

    /// Throttled ones as a part of all.
    pub(super) fn throttled(&self) -> f64 {
        Self::share(self.throttled, self.attempts)
    }

    /// Failed ones, and those that were cut off at the end, as a part of all.
    pub(super) fn errors(&self) -> f64 {
        Self::share(self.failed + self.cut_off, self.attempts)
    }

    /// Not found ones as a part of all.
    pub(crate) fn missing(&self) -> f64 {
        Self::share(self.not_found, self.attempts)
    }

    fn not_good(&self) -> f64 {
        self.throttled() + self.errors() + self.missing()
    }

    /// Requests that a limit may have refused: throttled, or failed, as with a closed connection.
    const fn refused(&self) -> u64 {
        self.throttled + self.failed
    }
}

/// The part of the requests that found a connection free before the end.
fn not_dropped(report: &Report) -> f64 {
    1.0 - report.schedule.as_ref().map_or(0.0, ScheduleReport::dropped_share)
}

/// Attempts that failed for a lack of this machine's.
fn local_failures(report: &Report) -> u64 {
    ErrorKind::LOCAL.iter().map(|kind| report.totals.errors_of(*kind)).sum()
}

/// Lateness of this client that a measurement forgives, us: see the check of the same name.
fn forgiven_us(report: &Report) -> f64 {
    let service = report.latency(Series::ServiceOk).and_then(|latency| latency.p50_us).unwrap_or(0.0);
    SCHED_LAG_US.max(service * SCHED_LAG_OF_SERVICE)
}

/// Lateness that a probe may pass with, us: a tenth of the least time that is wanted. It is part of the response times, which met
/// what is wanted nevertheless.
fn passable_us(objectives: &[Condition]) -> f64 {
    let times = objectives.iter().filter(|objective| objective.metric.unit() == Unit::Us && objective.limit > 0.0);
    let least = times.map(|objective| objective.limit).fold(f64::INFINITY, f64::min);
    least.min(UNSAID_US) * PASSABLE
}

/// Return a reason if this client was later than `us`.
fn late_beyond(report: &Report, us: f64) -> Option<String> {
    let lag = report.latency(Series::SchedLag)?;
    // Of few requests less is known.
    let known = [
        ("one request of a hundred", lag.p99_us),
        ("one request of ten", lag.p90_us),
        ("half of the requests", lag.p50_us),
    ];
    let (which, late_us) = known.into_iter().find_map(|(which, us)| Some((which, us?)))?;
    (late_us > us).then(|| format!("this client sent {which} {} late or more", micros(late_us)))
}

/// The part of the requests that this client sent so late that they came together with others: by more than lateness that is
/// forgiven, and than the time from one to the next.
fn late_share(report: &Report) -> f64 {
    let Some(lag) = report.latency(Series::SchedLag).and_then(Latency::distribution) else { return 0.0 };
    let rate = report.schedule.as_ref().map_or(0.0, |schedule| schedule.rate_per_s);
    let apart_us = if rate > 0.0 { 1e6 / rate } else { 0.0 };
    let late_ns = SCHED_LAG_US.max(apart_us) * 1e3;
    let is_late = |ns: u64| ns as f64 > late_ns;
    let late: u64 = lag
        .histogram()
        .iter_recorded()
        .filter(|cell| is_late(cell.value_iterated_to()))
        .map(|cell| cell.count_at_value())
        .sum();
    late as f64 / (lag.all() as f64).max(1.0)
}

/// True if a share is beyond its objective by no more than requests that came in bunches may account for: a limit refuses as many of
/// them at most, and as many of those that find it used up.
fn within_bunches(objective: &Condition, report: &Report, late: f64) -> bool {
    let value = measured(objective, report).value();
    late > 0.0 && value.is_some_and(|value| value - objective.limit <= 2.0 * late)
}

/// Return a reason if this client sent less than was due, and connections were not what it lacked.
fn shortfall(report: &Report) -> Option<String> {
    let schedule = report.schedule.as_ref()?;
    let due = schedule.rate_per_s;
    // Of few requests, one more or less is no shortfall; a poisson timetable's own number is random.
    let attempts = report.totals.attempts as f64;
    let forgiven = 1.0 - SENT + 3.0 / attempts.max(1.0).sqrt();
    let is_short = schedule.dropped == 0 && schedule.postponed == 0 && schedule.achieved_per_s < due * (1.0 - forgiven);
    is_short.then(|| format!("this client sent {:.0} of {due:.0} requests a second", schedule.achieved_per_s))
}

/// Rest of the reason of a probe that ran out of connections.
pub(super) const STARVED: &str = "connections were waiting for an answer when more was due";

/// All connections were in use when requests were due.
fn starved(report: &Report) -> Option<String> {
    let dropped = 1.0 - not_dropped(report);
    let waited = report.validity.verdict == Verdict::ConcurrencyLimited;
    let connections = report.plan.run.connections;
    (dropped > 1.0 - SENT || waited).then(|| format!("all of {connections} {STARVED}"))
}
