//! One measurement, from a plan to a report. Called once by `run` and many times by `selftest`.

use crawlmark_harness::clock::Clock;
use crawlmark_harness::plan::{RunPlan, ShardPlan, split_point};
use crawlmark_harness::process::usable_cpus;
use crawlmark_harness::supervisor::{Left, Observer, RunRecord, Workloads, supervise};
use crawlmark_harness::trace::Traces;
use crawlmark_harness::units::IdRange;
use crawlmark_mock_server::Ledger;
use crawlmark_results::run::report::{Placement, Report};

use crate::bundled_target::Target;
use crate::crawl::{ConnectionSlots, Crawl, CrawlSpec};
use crate::dataset::log::LogError;
use crate::error::Error;
use crate::witness;

/// Where shards may run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Machine<'a> {
    /// Tells if the target is on this machine.
    pub(crate) placement: Placement,
    /// CPUs that a target on this machine may run on; none if they are not known.
    pub(crate) taken: Option<&'a [usize]>,
}

impl Machine<'_> {
    /// Return the CPUs to pin shards to: beside a target on this machine, those where it never runs
    /// if they are enough, otherwise none. A shard that may not leave the target's CPU waits for it
    /// while another CPU is idle.
    fn cpus(self, mut own: Vec<usize>, shards: u32) -> Vec<usize> {
        match (self.placement, self.taken) {
            (Placement::Apart, _) => return own,
            (Placement::Colocated, Some(taken)) => own.retain(|cpu| !taken.contains(cpu)),
            (Placement::Colocated, None) => own.clear(),
        }
        if own.len() < shards as usize {
            own.clear();
        }
        own
    }
}

/// Crawls as planned, from processes of its own. What it takes to start counts from the epoch of
/// `clock`.
pub(crate) fn crawl(
    plan: &RunPlan,
    spec: &CrawlSpec,
    machine: Machine<'_>,
    clock: Clock,
    observer: &mut impl Observer,
) -> Result<RunRecord, Error> {
    let crawls = Crawls {
        plan,
        spec,
        cpus: machine.cpus(usable_cpus(), plan.shards),
        clock,
    };
    Ok(supervise(plan, clock, &crawls, observer)?)
}

/// Crawls of the shards of a run. A shard that dies is replaced where what it finished is saved.
struct Crawls<'a> {
    plan: &'a RunPlan,
    spec: &'a CrawlSpec,
    cpus: Vec<usize>,
    clock: Clock,
}

impl Workloads for Crawls<'_> {
    type Workload = Crawl;
    type Error = LogError;

    fn build(&self, shard: &ShardPlan) -> Result<Crawl, LogError> {
        let Self {
            plan, spec, clock, ..
        } = *self;
        let slots = connection_slots(plan, shard);
        let crawl = Crawl::new(spec.clone(), shard.connections, clock)
            .at(slots)
            .tracing(Traces::of(plan));
        let Some(session) = &spec.options.session else {
            return Ok(crawl);
        };
        Ok(crawl.saving(
            session.writer(shard.shard, shard.life, clock)?,
            &session.saved,
        ))
    }

    fn cpus(&self) -> Vec<usize> {
        self.cpus.clone()
    }

    fn left(&self, shard: &ShardPlan, held: &[IdRange]) -> Option<Left> {
        self.spec
            .options
            .session
            .as_ref()?
            .left(shard.shard, shard.life, held)
    }
}

/// Return the position of the shard's connections among those of the run.
fn connection_slots(plan: &RunPlan, shard: &ShardPlan) -> ConnectionSlots {
    let first = split_point(
        u64::from(plan.connections),
        u64::from(plan.shards),
        u64::from(shard.shard),
    );
    ConnectionSlots {
        first,
        shard: shard.shard,
        shards: plan.shards,
    }
}

/// Stop the bundled target, add its counts and whether it survived to the report, and return the
/// counts.
pub(crate) fn compare_with_ledger(report: &mut Report, mut target: Target) -> Ledger {
    let lost = target
        .lost()
        .map(|(pid, exit)| format!("process {pid} {exit}"));
    let ledger = target.stop();
    let mut witness = witness::compare(report, &ledger);
    if lost.is_some() {
        // It may have counted answers that it did not live to send.
        witness.agrees = None;
    }
    report.add_lost_process(lost);
    report.add_witness(witness);
    ledger
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn shards_beside_a_target_have_a_cpu_each_where_it_never_runs_or_are_not_pinned(
            own in prop::collection::btree_set(0_usize..8, 0..8),
            taken in prop::collection::btree_set(0_usize..8, 0..8),
            shards in 1_u32..6,
        ) {
            let (own, taken): (Vec<_>, Vec<_>) = (own.into_iter().collect(), taken.into_iter().collect());
            let cpus = Machine { placement: Placement::Colocated, taken: Some(&taken) }.cpus(own.clone(), shards);
            let free = own.iter().filter(|cpu| !taken.contains(cpu)).count();
            prop_assert!(cpus.iter().all(|cpu| own.contains(cpu) && !taken.contains(cpu)));
            prop_assert_eq!(cpus.len(), if free < shards as usize { 0 } else { free });
        }
    }
}
