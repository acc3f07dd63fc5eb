//! An entry of an arena: what it is, what it answers, and what it does at rates that are set.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::run::report::{Latency, Report, Verdict};
use crate::studies::capacity::SearchOutcome;
use crate::studies::{StudyFinding, name_of, rate};
use crawlmark_harness::stats::{SAMPLES_BEYOND, samples_for};

/// What competes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Command that starts its server, or its URL, without secrets.
    pub what: String,
    /// Version that its command named; null without one.
    pub version: Option<String>,
    /// What it answered before the rounds.
    pub check: Option<EntryCheck>,
    /// Its times and costs at the rate that all entries get.
    pub fixed: Option<FixedLoad>,
    /// Its times over rates.
    pub curve: Vec<CurvePoint>,
    /// The highest rate that it sustains; null unless that was searched.
    pub capacity: Option<EntryCapacity>,
}

impl Entry {
    /// Its command and version.
    pub(super) fn words(&self) -> String {
        let version = self.version.as_deref();
        version.map_or_else(
            || self.what.clone(),
            |version| format!("{} ({version})", self.what),
        )
    }
}

/// Requests to an entry before the rounds, one after another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryCheck {
    /// Requests.
    pub requests: u64,
    /// Those with the expected response.
    pub good: u64,
    /// Connections that were opened for them: 1 if they are kept.
    pub connections: u64,
    /// The first good response; null without one.
    pub answer: Option<Answer>,
}

/// A response.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Content type; empty without one.
    pub content_type: String,
    /// Length of the body, bytes.
    pub body_bytes: u64,
}

/// The value that most of them have; none if two are as common.
fn commonest<T: Ord>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut counts = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_insert(0) += 1;
    }
    let most = counts.values().copied().max()?;
    counts.retain(|_, count| *count == most);
    let (value, _) = counts.pop_first()?;
    counts.is_empty().then_some(value)
}

impl EntryCheck {
    /// The check with this report, whose first good response is `answer`.
    pub fn of(report: &Report, answer: Option<Answer>) -> Self {
        Self {
            requests: report.totals.attempts,
            good: report.ledger.ok,
            connections: report.totals.connections_opened,
            answer,
        }
    }

    /// What is wrong with it, or differs from what most others answer.
    pub(super) fn differences(&self, name: &str, others: &[&Answer]) -> Vec<StudyFinding> {
        let Self {
            requests,
            good,
            connections,
            ..
        } = *self;
        let mut found = Vec::new();
        if good < requests {
            found.push(StudyFinding::NotAllGood {
                name: name.to_owned(),
                good,
                of: requests,
            });
        }
        if connections > requests.div_ceil(2) {
            found.push(StudyFinding::NoKeepAlive {
                name: name.to_owned(),
                connections,
                requests,
            });
        }
        let Some(own) = &self.answer else {
            return found;
        };
        let bytes = commonest(others.iter().map(|of| of.body_bytes));
        if let Some(others) = bytes.filter(|bytes| *bytes != own.body_bytes) {
            found.push(StudyFinding::OtherLength {
                name: name.to_owned(),
                bytes: own.body_bytes,
                others,
            });
        }
        let content_type = commonest(others.iter().map(|of| &of.content_type));
        if let Some(others) = content_type.filter(|of| **of != own.content_type) {
            found.push(StudyFinding::OtherContentType {
                name: name.to_owned(),
                content_type: own.content_type.clone(),
                others: others.clone(),
            });
        }
        found
    }
}

/// Runs of an entry at one rate, in an open loop, over all rounds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FixedLoad {
    /// Runs.
    pub rounds: usize,
    /// Those whose times are not only the entry's, by their verdict.
    pub not_valid: usize,
    /// Rate that was sent over the rate that was set, mean.
    pub rate_ratio: Option<f64>,
    /// Median response time of all runs together.
    pub p50_us: Option<f64>,
    /// 90th percentile.
    pub p90_us: Option<f64>,
    /// 99th percentile; null with fewer than 10 responses beyond it.
    pub p99_us: Option<f64>,
    /// 99.9th percentile.
    pub p999_us: Option<f64>,
    /// CPU time of the server per request, mean; null where its processes are not known.
    pub cpu_us_per_request: Option<f64>,
    /// Most resident memory of the server, bytes.
    pub peak_memory: Option<u64>,
    #[serde(skip)]
    times: Option<Histogram<u64>>,
    /// Responses, those that were cut off included.
    #[serde(skip)]
    all: u64,
}

impl FixedLoad {
    /// Add a run.
    pub fn add(&mut self, report: &Report) {
        self.rounds += 1;
        self.rate_ratio = self.mean(self.rate_ratio, report.rate_ratio);
        let cpu_us = report.target_cpu_us_per_attempt();
        self.cpu_us_per_request = self.mean(self.cpu_us_per_request, cpu_us);
        self.not_valid += usize::from(report.validity.verdict != Verdict::Valid);
        let memory = report.target.as_ref().and_then(|target| target.rss_bytes);
        self.peak_memory = self.peak_memory.max(memory);
        let latency = report.latency(report.main_series());
        if let Some(times) = latency.and_then(Latency::distribution) {
            self.all += times.all();
            let histogram = times.histogram();
            match &mut self.times {
                // Of one shape, as all runs have the same time limit.
                Some(sum) => drop(sum.add(histogram)),
                None => self.times = Some(histogram.clone()),
            }
        }
        let [p50, p90, p99, p999] = [0.5, 0.9, 0.99, 0.999].map(|q| self.percentile(q));
        (self.p50_us, self.p90_us, self.p99_us, self.p999_us) = (p50, p90, p99, p999);
    }

    /// The mean of all runs, by that of those before and the value of the last one.
    fn mean(&self, before: Option<f64>, last: Option<f64>) -> Option<f64> {
        let last = last?;
        Some(before.map_or(last, |mean| mean + (last - mean) / self.rounds as f64))
    }

    /// A percentile of all runs, µs: what was cut off ranks last.
    fn percentile(&self, q: f64) -> Option<f64> {
        let times = self.times.as_ref().filter(|times| !times.is_empty())?;
        let quantile = (q * self.all as f64 / times.len() as f64).min(1.0);
        let is_known = self.all >= samples_for(q, SAMPLES_BEYOND);
        is_known.then(|| times.value_at_quantile(quantile) as f64 / 1e3)
    }
}

/// A run of an entry at one of several rates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Requests per second that were offered.
    pub offered_per_s: f64,
    /// Rate that was sent over the rate that was set.
    pub rate_ratio: Option<f64>,
    /// Median response time.
    pub p50_us: Option<f64>,
    /// 90th percentile.
    pub p90_us: Option<f64>,
    /// 99th percentile.
    pub p99_us: Option<f64>,
    /// Verdict on the run.
    pub validity: Verdict,
}

impl CurvePoint {
    /// The run at `offered_per_s` with this report.
    pub fn new(report: &Report, offered_per_s: f64) -> Self {
        let times = report.latency(report.main_series());
        Self {
            offered_per_s,
            rate_ratio: report.rate_ratio,
            p50_us: times.and_then(|of| of.p50_us),
            p90_us: times.and_then(|of| of.p90_us),
            p99_us: times.and_then(|of| of.p99_us),
            validity: report.validity.verdict,
        }
    }
}

/// The highest rate that an entry sustains.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EntryCapacity {
    /// Good responses per second; null if none was found.
    pub per_s: Option<f64>,
    /// Outcome of the search.
    pub outcome: SearchOutcome,
}

impl EntryCapacity {
    pub(super) fn words(&self) -> String {
        match (self.per_s, self.outcome) {
            (Some(per_s), SearchOutcome::Found) => rate(per_s),
            (Some(per_s), outcome) => format!("{} ({})", rate(per_s), name_of(&outcome)),
            (None, outcome) => name_of(&outcome),
        }
    }
}
