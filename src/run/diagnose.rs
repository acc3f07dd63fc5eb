//! `--diagnose`: short runs after a run that find out what limits its target. Each changes one
//! thing and keeps to the rate of the run, to robots.txt, to waits that the target asked for, and to its
//! IDs, which it requests again.
//! Which are made, and their plans, are decided where they are judged.

use crawlmark_harness::clock::Clock;
use crawlmark_harness::plan::RunPlan;
use crawlmark_harness::supervisor::{HeldSignals, Interval, Live, Observer};
use crawlmark_results::judge::{experiment_plan, next_experiment};
use crawlmark_results::run::report::{
    Change, Environment, Experiment, Labels, Placement, Report, RunFacts, Seconds, Source,
};

use super::resolve::Resolved;
use crate::crawl::CrawlSpec;
use crate::error::Error;
use crate::measure::{self, Machine};
use crate::study::{LONGEST_REST, minutes, rest};
use crate::terminal::Voice;

/// A run whose target is diagnosed.
pub(super) struct Subject {
    plan: RunPlan,
    spec: CrawlSpec,
    placement: Placement,
}

impl Subject {
    /// The subject of this run; none without `--diagnose`.
    pub(super) fn of(resolved: &Resolved) -> Option<Self> {
        let mut spec = resolved.spec.clone();
        (spec.options.session, spec.options.sent) = (None, None);
        resolved.diagnoses.then_some(Self {
            plan: resolved.plan.clone(),
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
        let held = HeldSignals::hold().map_err(Error::Signal)?;
        let mut wait = report.throttling.wait_left();
        while let Some(change) = next_experiment(report)
            && let Some(plan) = experiment_plan(&self.plan, change, report)
        {
            if wait > LONGEST_REST {
                voice.warn(&format!(
                    "no experiment of --diagnose was made: the target asks to wait for {}. Run it again after that",
                    minutes(wait)
                ));
                return Ok(None);
            }
            if !wait.is_zero() {
                voice.say(&format!(
                    "diagnosing: waiting for {}, as the target asked\n",
                    minutes(wait)
                ));
            }
            if let Some(signal) = rest(&held, wait)? {
                return Ok(Some(signal));
            }
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
                intervals: Seconds::default(),
                environment: Environment::read(self.placement),
                target: None,
                facts: RunFacts::default(),
            });
            wait = seen.throttling.wait_left();
            report.experiments.push(Experiment::of(change, &seen));
        }
        if report.experiments.is_empty() {
            voice.say("diagnosing: no experiment would show more about this run\n");
        }
        Ok(None)
    }
}

fn in_words(plan: &RunPlan) -> String {
    let rate = plan.rate.map_or_else(String::new, |rate| {
        format!(", {:.1} requests/s", rate.per_second())
    });
    format!(
        "{} of {} connections{rate} for {} s",
        plan.arrivals.name(),
        plan.connections,
        plan.duration.unwrap_or_default().as_secs()
    )
}

/// Watches nothing.
struct Unwatched;

impl Observer for Unwatched {
    fn progress(&mut self, _: &Live) {}

    fn interval(&mut self, _: &Interval) {}
}
