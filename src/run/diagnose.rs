//! `--diagnose`: short runs after a run that find out what limits its target. Each changes one
//! thing and keeps to the rate of the run, to robots.txt and to its IDs, which it requests again.
//! Which are made is decided where they are judged.

use std::time::Duration;

use crawlmark_harness::clock::Clock;
use crawlmark_harness::plan::{Arrivals, RunPlan, default_burst};
use crawlmark_harness::supervisor::{Interval, Live, Observer};
use crawlmark_harness::units::{Rate, RateShape};
use crawlmark_results::judge::next_experiment;
use crawlmark_results::run::report::{
    Change, Environment, Experiment, Labels, Placement, Report, Source,
};

use super::resolve::Resolved;
use crate::crawl::CrawlSpec;
use crate::error::Error;
use crate::measure::{self, Machine};
use crate::terminal::Voice;

/// Time that an experiment measures.
const MEASURED: Duration = Duration::from_secs(2);

/// A run whose target is diagnosed.
pub(super) struct Subject {
    plan: RunPlan,
    spec: CrawlSpec,
    placement: Placement,
}

impl Subject {
    /// The subject of this run; none without `--diagnose`.
    pub(super) fn of(resolved: &Resolved) -> Option<Self> {
        let (mut plan, mut spec) = (resolved.plan.clone(), resolved.spec.clone());
        (spec.options.session, spec.options.sent) = (None, None);
        (plan.duration, plan.warmup) = (Some(MEASURED), Duration::ZERO);
        plan.finished.clear();
        resolved.diagnoses.then_some(Self {
            plan,
            spec,
            placement: resolved.placement,
        })
    }

    /// Make the experiments that the report leaves to ask for, and judge it again by them. Return the
    /// signal that ended them, if one did: the run before them is whole.
    ///
    /// # Errors
    /// When an experiment cannot be run: those before it count.
    pub(super) fn diagnose(&self, report: &mut Report, voice: Voice) -> Result<Option<i32>, Error> {
        let made = self.experiment(report, voice);
        report.judge();
        made
    }

    fn experiment(&self, report: &mut Report, voice: Voice) -> Result<Option<i32>, Error> {
        while let Some(change) = next_experiment(report)
            && let Some(plan) = self.plan_of(change, report)
        {
            voice.say(&format!("diagnosing: {}\n", in_words(&plan)));
            let mut spec = self.spec.clone();
            spec.options.acks_at_once = change == Change::ImmediateAcks;
            let target = report.target.as_ref().filter(|target| target.is_here);
            let machine = Machine {
                placement: self.placement,
                taken: target
                    .map(|target| &*target.cpus)
                    .filter(|cpus| !cpus.is_empty()),
            };
            let record = measure::crawl(&plan, &spec, machine, Clock::start(), &mut Unwatched)?;
            if let Some(signal) = record.interrupted {
                voice.warn("a signal ended the experiments: the run before them is whole");
                return Ok(Some(signal));
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
        }
        if report.experiments.is_empty() {
            voice.say("diagnosing: no experiment would show more about this run\n");
        }
        Ok(None)
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
