//! `--diagnose`: short runs after a run that find out what limits its target. Each changes one
//! thing, keeps to the rate of the run, and what was sent twice before stays within its IDs.

use std::time::Duration;

use crawlmark_harness::clock::Clock;
use crawlmark_harness::plan::{Arrivals, RunPlan, default_burst};
use crawlmark_harness::supervisor::{Interval, Live, Observer};
use crawlmark_harness::units::{Rate, RateShape};
use crawlmark_results::run::report::{
    Change, Environment, Experiment, Labels, Placement, Report, Source,
};

use super::output::Voice;
use crate::crawl::CrawlSpec;
use crate::error::Error;
use crate::measure;

/// Time that an experiment measures.
const MEASURED: Duration = Duration::from_secs(2);

/// From so many requests at a time on they are several; behind fewer, a limit that delays shows at a
/// lower rate.
const SEVERAL: f64 = 1.5;

/// Responses of the run that are so far in step with a tick are looked at once more, at random
/// times.
const IN_STEP: f64 = 0.5;

/// Part of its rate that a run reaches.
const REACHED: f64 = 0.8;

/// Times by which Linux delays an acknowledgement, us: from 40 ms on, in ticks of its clock.
const DELAYED_ACK_US: std::ops::Range<f64> = 35_000.0..60_000.0;

/// Below so many responses per second an experiment has too few to judge by.
const LEAST_PER_S: f64 = 10.0;

/// A run whose target is diagnosed.
pub(super) struct Subject {
    plan: RunPlan,
    spec: CrawlSpec,
    placement: Placement,
}

impl Subject {
    /// The subject of a run with this plan.
    pub(super) fn new(plan: &RunPlan, spec: &CrawlSpec, placement: Placement) -> Self {
        let (mut plan, mut spec) = (plan.clone(), spec.clone());
        (spec.options.session, spec.options.sent) = (None, None);
        (plan.duration, plan.warmup) = (Some(MEASURED), Duration::ZERO);
        plan.finished.clear();
        Self {
            plan,
            spec,
            placement,
        }
    }

    /// Make the experiments that the report leaves to ask for, and judge it again by them. A signal
    /// ends them, and nothing else.
    ///
    /// # Errors
    /// When an experiment cannot be run.
    pub(super) fn diagnose(&self, report: &mut Report, voice: Voice) -> Result<(), Error> {
        let is_whole = report.interrupted_by.is_none() && report.answered_per_s() >= LEAST_PER_S;
        let is_acknowledged_late = report
            .body_us()
            .is_some_and(|us| DELAYED_ACK_US.contains(&us));
        let mut next = if !is_whole {
            None
        } else if is_acknowledged_late {
            Some(Change::ImmediateAcks)
        } else {
            following(Change::ImmediateAcks, report)
        };
        while let Some(change) = next {
            let Some(plan) = self.plan_of(change, report) else {
                break;
            };
            voice.say(&format!("diagnosing: {}\n", in_words(&plan)));
            let mut spec = self.spec.clone();
            spec.options.acks_at_once = change == Change::ImmediateAcks;
            let record = measure::crawl(&plan, &spec, Clock::start(), &mut Unwatched)?;
            if record.interrupted.is_some() {
                voice.warn("a signal ended the experiments: the run before them is whole");
                break;
            }
            let seen = Report::new(Source {
                plan: &plan,
                labels: &Labels::default(),
                record: &record,
                intervals: Vec::new(),
                environment: Environment::read(self.placement),
                target: None,
            });
            report.experiments.push(Experiment::of(change, &seen));
            next = following(change, report);
        }
        report.judge();
        Ok(())
    }

    /// Plan of an experiment; none if it would be no valid one.
    fn plan_of(&self, change: Change, report: &Report) -> Option<RunPlan> {
        let mut plan = self.plan.clone();
        let mut rate = plan.rate;
        if change != Change::ImmediateAcks {
            plan.arrivals = Arrivals::Asap;
        }
        match change {
            Change::ImmediateAcks => return plan.validate().ok(),
            Change::OneConnection => plan.connections = 1,
            Change::TwiceTheConnections => plan.connections = plan.connections.checked_mul(2)?,
            Change::ThirdOfTheRate => {
                plan.arrivals = Arrivals::Poisson;
                rate = Some(per_second(report.answered_per_s() / 3.0)?);
            }
            Change::Waves => {
                plan.arrivals = Arrivals::Waves;
                plan.connections = whole(report.worked_on_at_a_time()?)?.max(2);
            }
        }
        if plan.connections == 1 {
            plan.streams = 1;
        }
        plan.shards = plan.shards.min(plan.connections);
        plan.queue = None;
        (plan.rate, plan.shape) = (rate, RateShape::Constant);
        (plan.burst, plan.at_start) = match rate {
            Some(rate) if plan.arrivals.gaps().is_none() => {
                (default_burst(&rate, plan.shards), u64::from(plan.shards))
            }
            _ => (0, 0),
        };
        plan.validate().ok()
    }
}

/// The experiment that what is known by now leaves to make.
fn following(change: Change, report: &Report) -> Option<Change> {
    let at_a_time = report.worked_on_at_a_time().unwrap_or(0.0);
    let is_ticking = report
        .in_step
        .is_some_and(|in_step| in_step.of_10_ms >= IN_STEP);
    // A rate that is reached leaves nothing to explain.
    let rate = report.plan.run.rate.map(|rate| rate.per_second());
    let is_reached = rate.is_some_and(|rate| report.answered_per_s() >= rate * REACHED);
    match change {
        Change::ImmediateAcks => (!is_reached).then_some(Change::OneConnection),
        Change::OneConnection => Some(Change::TwiceTheConnections),
        Change::TwiceTheConnections if at_a_time < SEVERAL || is_ticking => {
            Some(Change::ThirdOfTheRate)
        }
        Change::TwiceTheConnections if at_a_time < f64::from(report.plan.run.in_flight()) => {
            Some(Change::Waves)
        }
        _ => None,
    }
}

/// A rate; none of one that is none.
fn per_second(per_s: f64) -> Option<Rate> {
    format!("{}/h", (per_s * 3_600.0).round()).parse().ok()
}

/// The nearest whole number.
fn whole(number: f64) -> Option<u32> {
    format!("{number:.0}").parse().ok()
}

fn in_words(plan: &RunPlan) -> String {
    let rate = plan.rate.map_or_else(String::new, |rate| {
        format!(", {:.1} requests/s", rate.per_second())
    });
    format!(
        "{} of {} connections{rate} for {} s",
        plan.arrivals.name(),
        plan.connections,
        MEASURED.as_secs()
    )
}

/// Watches nothing.
struct Unwatched;

impl Observer for Unwatched {
    fn progress(&mut self, _: &Live) {}

    fn interval(&mut self, _: &Interval) {}
}
