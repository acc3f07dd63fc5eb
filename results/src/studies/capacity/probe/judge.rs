//! Judgement of a probe: whether its run speaks for or against the target, or of this client.

use super::counts::{later_flow, measured_rows, whole_seconds};
use super::objective::{broken, measured};
use super::{Connections, Wanted};
use crate::run::gates::{Condition, Measured, Metric, Quantity, Unit};
use crate::run::report::thresholds::{SCHED_LAG_OF_SERVICE, SCHED_LAG_US};
use crate::run::report::{Evidence, Latency, Report, ScheduleReport, Validity, Verdict};
use crate::studies::capacity::Growth;
use crate::studies::capacity::search::ProbeResult;
use crawlmark_harness::sample::ErrorKind;
use crawlmark_harness::stats::Series;
use crawlmark_harness::units::{grouped, micros};

/// The part of the requests that have to go, each on time, for a probe to speak for its rate.
pub const SENT: f64 = 0.99;

/// Lateness of this client as a part of the least time that is wanted, with which a probe may pass.
const PASSABLE: f64 = 0.1;

/// Stand-in for the least time of the objectives when none limits a time, and upper bound of that
/// time, us.
const UNSAID_US: f64 = 500_000.0;

/// Standard deviations by which the answers of one probe lag behind its schedule by chance once in
/// a thousand.
pub(in crate::studies::capacity) const SURELY: f64 = 3.0;

/// Rest of the reason of a probe that ran out of connections.
pub(in crate::studies::capacity) const STARVED: &str = "connections were waiting for a";

/// Judge a target by its run and the requirements; return the result, and why it is no pass.
///
/// A run that met them passes, whatever disturbed it: what this client does wrong only makes things
/// look worse. One that did not speaks against the target only if this client was not the limit,
/// see the module above.
#[must_use]
pub fn judge(
    report: &Report,
    wanted: Wanted<'_>,
    connections: Connections,
) -> (ProbeResult, Vec<String>) {
    let Judged { seen, reasons, .. } = judged(report, wanted, connections);
    (seen, reasons)
}

/// Judgement of a probe, with what the report of a search adds to it.
pub(super) struct Judged {
    pub(super) seen: ProbeResult,
    pub(super) reasons: Vec<String>,
    /// See [`ProbeReport::bunched`](super::ProbeReport::bunched).
    pub(super) bunched: bool,
    /// See [`ProbeReport::busy`](super::ProbeReport::busy).
    pub(super) busy: bool,
}

impl Judged {
    const fn new(seen: ProbeResult, reasons: Vec<String>) -> Self {
        Self {
            seen,
            reasons,
            bunched: false,
            busy: false,
        }
    }
}

/// Judge a probe by the report of its run.
pub(super) fn judged(report: &Report, wanted: Wanted<'_>, connections: Connections) -> Judged {
    let Wanted {
        objectives,
        precision,
    } = wanted;
    let local = local_failures(report);
    if local > 0 {
        let what = format!(
            "{} requests found no local port or descriptor",
            grouped(local)
        );
        return Judged::new(ProbeResult::Void, vec![what]);
    }
    if let Some(gate) = &report.stopped_by {
        return Judged::new(
            ProbeResult::Collapse,
            vec![format!("stopped, because `{gate}` did not hold")],
        );
    }
    let short = shortfall(report);
    if let Some(why) =
        late_beyond(report, forgiven_us(report).max(passable_us(objectives))).or(short)
    {
        return Judged {
            busy: true,
            ..Judged::new(ProbeResult::Void, vec![why])
        };
    }
    let starved = starved(report);
    let broken: Vec<(Condition, String)> = objectives
        .iter()
        .filter_map(|objective| Some((*objective, broken(objective, report)?)))
        .collect();
    let behind = falls_behind(report, precision);
    let reasons = || {
        let broken = broken.iter().map(|(_, why)| why);
        starved
            .iter()
            .chain(broken)
            .chain(&behind)
            .cloned()
            .collect::<Vec<_>>()
    };
    if broken.is_empty() && behind.is_none() && not_dropped(report) >= SENT {
        return Judged::new(ProbeResult::Pass, Vec::new());
    }
    // What could not be measured speaks neither for nor against the target.
    let unknown =
        |objective: &Condition| matches!(measured(objective, report), Measured::Unknown(_));
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
        Unit::Share => {
            within_bunches(objective, report, late) || (is_busy && by_timeouts(objective, report))
        }
        _ => false,
    };
    let is_all_ours = broken
        .iter()
        .all(|(objective, _)| is_perhaps_ours(objective))
        && (behind.is_none() || is_busy);
    let void = match report.validity.verdict {
        _ if starved.is_some() => {
            // Few connections make requests wait; fewer answers than requests are the target's
            // doing, unless this client was busy.
            let kept_up = behind.is_none() && not_dropped(report) >= SENT;
            let is_lack = connections == Connections::Bounded && (is_busy || kept_up);
            is_lack || (is_busy && is_all_ours)
        }
        Verdict::BudgetLimited => true,
        _ => is_all_ours,
    };
    if void {
        let mut why = own.unwrap_or_else(|| report.validity.reasons.clone());
        if late > 0.0
            && broken
                .iter()
                .any(|(objective, _)| objective.metric.unit() == Unit::Share)
        {
            let percent = late * 100.0;
            why.push(format!(
                "{percent:.1} % of requests went out late, in bunches that a limit may refuse"
            ));
        }
        why.extend(reasons());
        let by_bunches = |(objective, _): &(Condition, String)| {
            objective.metric.unit() == Unit::Share && within_bunches(objective, report, late)
        };
        let bunched = broken.iter().all(by_bunches) && starved.is_none() && behind.is_none();
        return Judged {
            seen: ProbeResult::Void,
            reasons: why,
            bunched,
            busy: is_busy && !bunched,
        };
    }
    Judged::new(ProbeResult::Fail, reasons())
}

/// Findings that this client or its machine was the limit; none when there is no such finding.
fn own_findings(report: &Report) -> Option<Vec<String>> {
    const OWN: [Verdict; 2] = [Verdict::ClientLimited, Verdict::Disturbed];
    let validity = &report.validity;
    // A lost process of the target, and a suspension, are among the findings alone.
    if OWN.contains(&validity.verdict)
        || validity.verdicts.contains(&Verdict::Disturbed)
            && validity.verdict == Verdict::TargetLimited
    {
        return Some(validity.reasons.clone());
    }
    // A target that fails requests is the graver finding, which hides those.
    Some(Validity::findings(&Evidence::of(report), &OWN)).filter(|found| !found.is_empty())
}

/// True if a bound on failed requests would hold without those that timed out, which a busy machine
/// may cause.
fn by_timeouts(objective: &Condition, report: &Report) -> bool {
    if objective.metric != Metric::Of(Quantity::ErrorRate) {
        return false;
    }
    let [timeout, connect] =
        [ErrorKind::Timeout, ErrorKind::ConnectTimeout].map(|kind| report.totals.errors_of(kind));
    let timeouts = timeout + connect;
    let share = timeouts as f64 / (report.totals.attempts as f64).max(1.0);
    let left = measured(objective, report)
        .value()
        .map(|value| Measured::Exactly((value - share).max(0.0)));
    left.is_some_and(|left| objective.judge(&left) == Some(true))
}

/// Reason why this is more than the target manages, although what is wanted may hold as yet.
fn falls_behind(report: &Report, precision: f64) -> Option<String> {
    // A second that the probe did not last, and those in which it only waited for answers, say
    // nothing of their own.
    let whole = whole_seconds(measured_rows(report), report);
    let growth = Growth::of(whole.into_iter()).filter(|growth| growth.is_above(precision / 2.0));
    let grew = growth.map(|growth| {
        let each = micros(growth.slope * 1e6);
        format!("the median response time grew by {each} each second: the target fell behind")
    });
    grew.or_else(|| {
        let flow = later_flow(report).filter(|flow| flow.falls_behind(precision, SURELY))?;
        let [answered, scheduled] = [flow.answered, flow.scheduled].map(grouped);
        Some(format!(
            "{answered} responses to {scheduled} requests in the later half: the target fell behind"
        ))
    })
}

/// The part of the requests that found a connection free before the end.
pub(super) fn not_dropped(report: &Report) -> f64 {
    1.0 - report
        .schedule
        .as_ref()
        .map_or(0.0, ScheduleReport::dropped_share)
}

/// Attempts that failed for a lack of this machine's.
fn local_failures(report: &Report) -> u64 {
    ErrorKind::LOCAL
        .iter()
        .map(|kind| report.totals.errors_of(*kind))
        .sum()
}

/// Lateness of this client that a measurement forgives, us: see the check of the same name.
fn forgiven_us(report: &Report) -> f64 {
    let service = report
        .latency(Series::ServiceOk)
        .and_then(|latency| latency.p50_us)
        .unwrap_or(0.0);
    SCHED_LAG_US.max(service * SCHED_LAG_OF_SERVICE)
}

/// Lateness that a probe may pass with, us: a tenth of the least time that is wanted. It is part of
/// the response times, which met what is wanted nevertheless.
fn passable_us(objectives: &[Condition]) -> f64 {
    let times = objectives
        .iter()
        .filter(|objective| objective.metric.unit() == Unit::Us && objective.limit > 0.0);
    let least = times
        .map(|objective| objective.limit)
        .fold(f64::INFINITY, f64::min);
    least.min(UNSAID_US) * PASSABLE
}

/// Return a reason if this client was later than `us`.
fn late_beyond(report: &Report, us: f64) -> Option<String> {
    let lag = report.latency(Series::SchedLag)?;
    // Of few requests less is known.
    let known = [
        ("1 %", lag.p99_us),
        ("10 %", lag.p90_us),
        ("half", lag.p50_us),
    ];
    let (which, late_us) = known
        .into_iter()
        .find_map(|(which, us)| Some((which, us?)))?;
    (late_us > us).then(|| {
        format!(
            "{which} of requests went out at least {} late",
            micros(late_us)
        )
    })
}

/// The part of the requests that this client sent so late that they came together with others: by
/// more than lateness that is forgiven, and than the time from one to the next.
fn late_share(report: &Report) -> f64 {
    let Some(lag) = report
        .latency(Series::SchedLag)
        .and_then(Latency::distribution)
    else {
        return 0.0;
    };
    let rate = report
        .schedule
        .as_ref()
        .map_or(0.0, |schedule| schedule.rate_per_s);
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

/// True if a share is beyond its objective by no more than requests that came in bunches may
/// account for: a limit refuses as many of them at most, and as many of those that find it used up.
fn within_bunches(objective: &Condition, report: &Report, late: f64) -> bool {
    let value = measured(objective, report).value();
    late > 0.0 && value.is_some_and(|value| value - objective.limit <= 2.0 * late)
}

/// Return a reason if this client sent less than was due, and connections were not what it lacked.
fn shortfall(report: &Report) -> Option<String> {
    let schedule = report.schedule.as_ref()?;
    let due = schedule.rate_per_s;
    // Of few requests, one more or less is no shortfall; a poisson timetable's own number is
    // random.
    let attempts = report.totals.attempts as f64;
    let forgiven = 1.0 - SENT + 3.0 / attempts.max(1.0).sqrt();
    let is_short = schedule.dropped == 0
        && schedule.postponed == 0
        && schedule.achieved_per_s < due * (1.0 - forgiven);
    is_short.then(|| {
        format!(
            "this client sent {:.0} of {due:.0} requests a second",
            schedule.achieved_per_s
        )
    })
}

/// All connections were in use when requests were due.
fn starved(report: &Report) -> Option<String> {
    let dropped = 1.0 - not_dropped(report);
    let waited = report.validity.verdict == Verdict::ConcurrencyLimited;
    let connections = report.plan.run.connections;
    (dropped > 1.0 - SENT || waited)
        .then(|| format!("all of {connections} {STARVED} response when more requests were due"))
}
