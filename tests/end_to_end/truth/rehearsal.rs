//! From a plan and a script to a report, in virtual time; and how its figures are read.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a figure that is not there fails the test"
)]

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use crawlmark::crawl::{
    Crawl, CrawlOptions, CrawlSpec, Expectations, HoldHeader, HttpSettings, RequestShape, Reuse,
    Targets, Template,
};
use crawlmark_harness::clock::Clock;
use crawlmark_harness::plan::{Arrivals, OnThrottle, RunPlan, ShardPlan, ThrottlingPolicy};
use crawlmark_harness::rehearse::{Incident, Rehearsal, rehearse};
use crawlmark_harness::sample::{Outcome, Sample};
use crawlmark_harness::units::{IdRange, Rate};
use crawlmark_results::run::gates::{Breach, LiveThresholds, Objective};
use crawlmark_results::run::report::{
    Environment, GateReport, Labels, Latency, Placement, Report, RunFacts, Source,
};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;

use super::script::Script;
use super::target::InMemory;

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const S: Duration = Duration::from_secs(1);

/// Where the target would be.
const URL: &str = "http://192.0.2.1/items/{id}";

/// A closed loop over one shard with more IDs than it can ask for, which tries nothing again and
/// waits for nobody.
pub(crate) fn closed_loop(connections: u32, duration: Duration) -> RunPlan {
    RunPlan {
        connections,
        throttling: ThrottlingPolicy {
            on_throttle: OnThrottle::Count,
            retries: 0,
            ..ThrottlingPolicy::default()
        },
        duration: Some(duration),
        ..RunPlan::new(
            URL,
            IdRange {
                start: 0,
                end: 1 << 40,
            },
        )
    }
}

/// The same within a budget, the whole burst of which is there at the start.
pub(crate) fn budgeted(plan: RunPlan, per_s: u64, burst: u64) -> RunPlan {
    let rate = Rate {
        permits: per_s,
        period_ns: 1_000_000_000,
    };
    RunPlan {
        rate: Some(rate),
        burst,
        at_start: burst,
        ..plan
    }
}

/// The same by a timetable, in the place of a budget.
pub(crate) fn open_loop(plan: RunPlan, arrivals: Arrivals, per_s: u64) -> RunPlan {
    let rate = Rate {
        permits: per_s,
        period_ns: 1_000_000_000,
    };
    RunPlan {
        arrivals,
        rate: Some(rate),
        ..plan
    }
}

/// A run that is over.
pub(crate) struct Ran {
    pub(crate) rehearsal: Rehearsal,
    pub(crate) report: Report,
}

/// Crawls as `plan` says, over HTTP, a target that does what `script` says.
pub(crate) fn run(plan: RunPlan, script: Script, incidents: &[Incident]) -> Ran {
    run_with(Reuse::default(), plan, script, incidents)
}

/// The same with connections that carry so many requests.
pub(crate) fn run_with(reuse: Reuse, plan: RunPlan, script: Script, incidents: &[Incident]) -> Ran {
    let plan = plan.validate().unwrap();
    let template: Template = URL.parse().unwrap();
    let spec = CrawlSpec {
        addresses: vec![vec![SocketAddr::from(([192, 0, 2, 1], 80))]],
        targets: Arc::new(Targets::one(&template).unwrap()),
        request: RequestShape::new("GET", &[], Bytes::new()).unwrap(),
        expect: Expectations::default(),
        timeout: plan.timeout,
        connect_timeout: plan.timeout,
        reuse,
        local_ips: None,
        tls: None,
        proxies: None,
        http: HttpSettings::default(),
        options: CrawlOptions::default(),
        held: HoldHeader::Ignored,
    };
    let script = Rc::new(script);
    let crawl = |shard: &ShardPlan, clock: Clock| {
        let target = InMemory {
            script: Rc::clone(&script),
            clock,
        };
        Crawl::over(target, spec.clone(), shard.connections, clock)
    };
    let rehearsal = rehearse(&plan, incidents, crawl).unwrap();
    let report = Report::new(Source {
        target: None,
        plan: &plan,
        labels: &Labels::default(),
        record: &rehearsal.record,
        intervals: rehearsal.intervals.iter().collect(),
        environment: Environment::read(Placement::Apart),
        facts: RunFacts::default(),
    });
    assert!(
        report
            .shards
            .iter()
            .all(|shard| shard.fault.is_none() && shard.ledger.adds_up())
    );
    Ran { rehearsal, report }
}

impl Ran {
    /// The row of a threshold on the whole run.
    pub(crate) fn gate(&self, text: &str) -> GateReport {
        let objective = Objective {
            condition: text.parse().unwrap(),
            breach: Breach::Fails,
        };
        let mut report = self.report.clone();
        LiveThresholds::new(&[objective], &report.plan.run.clone()).close(&mut report);
        report.gates.remove(0)
    }

    /// The times of a series as the report has them.
    pub(crate) fn latency(&self, series: &str) -> &Latency {
        &self.report.latency[series]
    }

    /// Fails unless every attempt's response is the sum of its parts to the nanosecond, and the
    /// report's parts are made of these attempts and no others. Returns the responses of those with
    /// a good answer, added up in microseconds.
    pub(crate) fn assert_identity(&self) -> f64 {
        let samples = &self.rehearsal.samples;
        let (mut sums, mut good_ns) = ([0; 3], 0);
        for sample in samples {
            let Sample {
                permit, attempt, ..
            } = sample;
            let stamps = [
                permit.intended,
                permit.ready,
                permit.admitted,
                sample.sent(),
                attempt.done,
            ];
            assert!(
                permit.first_intended <= permit.intended && stamps.is_sorted(),
                "{sample:?}"
            );
            let parts = [
                sample.sched_lag_ns(),
                sample.budget_wait_ns(),
                sample.pool_wait_ns(),
            ];
            let response_ns = sample.response_ns();
            assert_eq!(
                parts.iter().sum::<u64>() + sample.service_ns(),
                response_ns,
                "{sample:?}"
            );
            sums.iter_mut()
                .zip(parts)
                .for_each(|(sum, part)| *sum += part);
            good_ns += if attempt.outcome == Outcome::Ok {
                response_ns
            } else {
                0
            };
        }
        let count = samples.len() as u64;
        assert!(count > 1_000 && self.report.totals.attempts == count);
        for (series, sum) in ["sched_lag", "budget_wait", "pool_wait"]
            .into_iter()
            .zip(sums)
        {
            let latency = self.latency(series);
            let mean_us = sum as f64 / count as f64 / 1e3;
            assert!(latency.count == count, "{series}: {latency:?}");
            assert!(
                latency
                    .mean_us
                    .is_some_and(|mean| (mean - mean_us).abs() < 1e-6),
                "{series}: {latency:?}"
            );
        }
        good_ns as f64 / 1e3
    }

    /// How many values of a series are longer than `limit`, by the histogram in the report.
    pub(crate) fn longer(&self, series: &str, limit: Duration) -> u64 {
        let limit_ns = u64::try_from(limit.as_nanos()).unwrap();
        let histogram = self.histogram(series);
        let slow = histogram
            .iter_recorded()
            .filter(|step| step.value_iterated_to() > limit_ns);
        slow.map(|step| step.count_at_value()).sum()
    }

    /// A quantile of a series, by the histogram in the report, in microseconds.
    pub(crate) fn quantile_us(&self, series: &str, q: f64) -> f64 {
        self.histogram(series).value_at_quantile(q) as f64 / 1e3
    }

    fn histogram(&self, series: &str) -> Histogram<u64> {
        let v2 = STANDARD
            .decode(self.latency(series).hdr.as_ref().unwrap())
            .unwrap();
        Deserializer::new().deserialize(&mut v2.as_slice()).unwrap()
    }
}

/// Fails unless `us` is as many milliseconds, to within so many and a thousandth: the histogram's
/// resolution.
#[track_caller]
pub(crate) fn assert_ms(us: Option<f64>, ms: f64, within_ms: f64) {
    let is = us.expect("there is no such figure") / 1e3;
    assert!(
        (is - ms).abs() <= within_ms + ms / 1e3,
        "{is} ms is not {ms} ms"
    );
}
