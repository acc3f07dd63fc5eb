//! Experiments of `--diagnose` after a run, and clocks in its answers.

use serde::{Deserialize, Serialize};

use super::Report;
use crawlmark_harness::stats::{Phases, Series};
use crawlmark_harness::supervisor::RunRecord;

/// How far answers after the warm-up ended in step with a clock: 1 if all ended at one phase of
/// it, near 0 if at any ([`Phases::in_step`]).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct InStep {
    /// Number of answers.
    pub answers: u64,
    /// With a tick of 10 ms.
    pub of_10_ms: f64,
    /// With a period of 100 ms, that of Linux' CPU quota.
    pub of_100_ms: f64,
}

impl InStep {
    /// Of all answers; none without any.
    pub(super) fn of(record: &RunRecord) -> Option<Self> {
        let mut all = Phases::default();
        for shard in &record.shards {
            all.merge(&shard.phases);
        }
        let answers = all.count();
        (answers > 0).then(|| Self {
            answers,
            of_10_ms: all.in_step(10.0),
            of_100_ms: all.in_step(100.0),
        })
    }
}

/// What an experiment changes of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// One connection, in a closed loop.
    OneConnection,
    /// Twice the connections, in a closed loop.
    TwiceTheConnections,
    /// A third of the rate of the run, at random times (Poisson).
    ThirdOfTheRate,
    /// Responses acknowledged at once (`TCP_QUICKACK`).
    ImmediateAcks,
    /// As many requests at once as seem to be worked on at a time, and again when all have ended.
    Waves,
}

/// An experiment: a short run of its own after the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// What it changed.
    pub change: Change,
    /// Its connections.
    pub connections: u32,
    /// Its rate, requests per second; null without one.
    pub rate_per_s: Option<f64>,
    /// Its duration until the last response, s.
    pub duration_s: f64,
    /// Good and not-found responses, and redirects.
    pub answered: u64,
    /// Requests that failed or were throttled.
    pub failed: u64,
    /// Those per second.
    pub answered_per_s: f64,
    /// Mean time at the target, us; null without a response.
    pub mean_us: Option<f64>,
    /// Median time at the target, us; null of few.
    pub p50_us: Option<f64>,
    /// Median time from the first to the last byte of a response, us; 0 where most are read at once.
    pub body_us: f64,
    /// Clocks that its responses were in step with; null without responses.
    pub in_step: Option<InStep>,
}

impl Experiment {
    /// What a short run with this change showed.
    pub fn of(change: Change, report: &Report) -> Self {
        let plan = &report.plan.run;
        let times = report.latency(Series::ServiceOk);
        Self {
            change,
            connections: plan.connections,
            rate_per_s: plan.rate.map(|rate| rate.per_second()),
            duration_s: report.totals.duration_s,
            answered: report.answered(),
            failed: report.totals.failed() + report.totals.throttled,
            answered_per_s: report.answered_per_s(),
            mean_us: report.at_target_us(),
            p50_us: times.and_then(|times| Some(times.p50_us? - report.elsewhere_us())),
            body_us: report.body_us().unwrap_or(0.0),
            in_step: report.in_step,
        }
    }
}

impl Report {
    /// The experiment with this change, if `--diagnose` made it.
    pub fn experiment(&self, change: Change) -> Option<&Experiment> {
        self.experiments
            .iter()
            .find(|experiment| experiment.change == change)
    }

    /// Good and not-found responses, and redirects: all that the target worked on, of which an item
    /// may have several.
    fn answered(&self) -> u64 {
        let requests = &self.totals.requests;
        self.ledger.ok + self.ledger.not_found + requests.steps + requests.redirects
    }

    /// Those per second, from the start until the last one came: of a target that queues, many come
    /// after the last request was due.
    pub fn answered_per_s(&self) -> f64 {
        super::share(self.answered() as f64, self.totals.duration_s)
    }

    /// Mean time of a response at the target, us: its service time without those of
    /// [`Self::elsewhere_us`]. None without a response.
    pub(crate) fn at_target_us(&self) -> Option<f64> {
        let service = self.latency(Series::ServiceOk)?;
        Some((service.mean_us? - self.elsewhere_us()).max(0.0))
    }

    /// Mean time of a response on the way and unread in this client, us, where the kernel says it.
    fn elsewhere_us(&self) -> f64 {
        [Series::Network, Series::ReceiveDelay]
            .into_iter()
            .filter_map(|series| self.mean_us(series))
            .sum()
    }

    /// Median time from the first to the last byte of a response, us: 0 where most are read at once;
    /// none of few.
    pub fn body_us(&self) -> Option<f64> {
        self.latency(Series::Body)?.p50_us
    }

    /// Requests that the target works on at a time, judged by one connection: the rate of the run
    /// times the mean time there of a request that is alone (Little, "A Proof for the Queuing
    /// Formula L = λW", 1961). None without that experiment.
    pub fn worked_on_at_a_time(&self) -> Option<f64> {
        let alone = self.experiment(Change::OneConnection)?;
        Some(self.answered_per_s() * alone.mean_us? / 1e6)
    }
}
