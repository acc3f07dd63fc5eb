//! A probe: the readings of its run, and the result that they lead to.

mod counts;
mod judge;
mod objective;

use serde::{Deserialize, Serialize};

pub use self::counts::{AttemptCounts, Flow};
use self::counts::{
    LetThrough, later_flow, measured_rows, refused_by_s, whole_seconds, worse_share,
};
use self::judge::{Judged, judged, not_dropped};
pub use self::judge::{SENT, judge};
pub(super) use self::judge::{STARVED, SURELY};
pub use self::objective::Slow;
use self::objective::slow;
use super::Pace;
use super::search::{ProbeKind, ProbeResult};
use crate::run::gates::Condition;
use crate::run::report::{Report, Verdict};
use crawlmark_harness::stats::Series;

/// Sufficiency of the connections of a probe for its rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connections {
    /// As many as requests can be under way while the objectives hold: a lack of them is the
    /// target's doing.
    Enough,
    /// Fewer may be at hand than that: requests that wait for one are this client's doing, as long
    /// as as many are answered as are due.
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
    pub kind: ProbeKind,
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
    /// 99th percentile of the response time of good answers, us; null with fewer than ten samples
    /// beyond.
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
    pub counted: Option<AttemptCounts>,
    /// Good answers per second, at the worst: over all of the measured time, or its later half.
    #[serde(default)]
    pub accepted_per_s: Option<f64>,
    /// End of the second in which the target first refused or failed a request, in seconds after
    /// the start; null when it did not.
    #[serde(default)]
    pub refused_by_s: Option<f64>,
    /// Requests and answers from the start until the end of the last whole second in which requests
    /// were scheduled.
    #[serde(default)]
    pub flow: Option<Flow>,
    /// Requests and answers of the later half of the whole seconds after the warm-up; null when
    /// these are fewer than four.
    #[serde(default)]
    pub later_flow: Option<Flow>,
    /// Requests per second that neither were refused nor failed once the target had begun to refuse
    /// or fail some, over the time after the second in which it began; null when there is none.
    #[serde(default)]
    pub let_through_per_s: Option<f64>,
    /// The least rate that a limit with nothing left at the start of that time refills at: one
    /// request may have been saved up.
    #[serde(default)]
    pub let_through_least_per_s: Option<f64>,
    /// True if the probe is void because this client's bunches may have caused the refusals.
    #[serde(default)]
    pub bunched: bool,
    /// True if the probe is void because this client was late, or its machine was busy or
    /// disturbed.
    #[serde(default)]
    pub busy: bool,
    /// For each objective on a percentile: the requests that took longer.
    #[serde(default)]
    pub slow: Vec<Slow>,
}

/// Plan of a probe in a search.
#[derive(Debug, Clone)]
pub struct ProbePlan {
    /// Counted from 1.
    pub number: usize,
    /// Rate that is offered.
    pub pace: Pace,
    /// Kind of the probe.
    pub kind: ProbeKind,
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
    /// Precision required of a rate, as a part of it: what grows by no more than half of that is no
    /// overload.
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
        let Judged {
            seen,
            reasons,
            bunched,
            busy,
        } = judged(report, wanted, plan.connections);
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
            throttled_share: AttemptCounts::of(measured_rows(report)).throttled(),
            error_share: AttemptCounts::of(measured_rows(report)).errors(),
            response_p50_us: response.and_then(|latency| latency.p50_us),
            response_p99_us: p99(Series::ResponseOk),
            response_p99_at_least: response.is_some_and(|latency| latency.is_at_least("p99_us")),
            service_p50_us: report
                .latency(Series::ServiceOk)
                .and_then(|latency| latency.p50_us),
            sched_lag_p99_us: p99(Series::SchedLag),
            longest_promise_s: report.throttling.longest_promise_s,
            counted: Some(AttemptCounts::of(measured_rows(report))),
            refused_by_s: refused_by_s(report),
            flow: Flow::of(&whole_seconds(report.intervals.iter(), report)),
            later_flow: later_flow(report),
            accepted_per_s: worse_share(report, AttemptCounts::not_good)
                .value()
                .map(|lost| plan.pace.per_s() * (1.0 - lost)),
            let_through_per_s: let_through.as_ref().map(LetThrough::per_s),
            let_through_least_per_s: let_through.as_ref().map(LetThrough::least_per_s),
            bunched,
            busy,
            slow: wanted
                .objectives
                .iter()
                .filter_map(|objective| slow(objective, report))
                .collect(),
        }
    }
}
