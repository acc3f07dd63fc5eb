//! One measurement, from a plan to a report. Called once by `run` and many times by `selftest`.

use crawlmark_harness::clock::Clock;
use crawlmark_harness::plan::{RunPlan, ShardPlan, split_point};
use crawlmark_harness::supervisor::{Left, Observer, RunRecord, Workloads, supervise};
use crawlmark_harness::trace::Traces;
use crawlmark_harness::units::IdRange;
use crawlmark_mock_server::Ledger;
use crawlmark_results::run::report::Report;

use crate::crawl::{ConnectionSlots, Crawl, CrawlSpec};
use crate::dataset::log::LogError;
use crate::error::Error;
use crate::target::Target;
use crate::witness;

/// Crawls as planned, from processes of its own on these CPUs. What it takes to start counts from
/// the epoch of `clock`.
pub(crate) fn crawl(
    plan: &RunPlan,
    spec: &CrawlSpec,
    cpus: Vec<usize>,
    clock: Clock,
    observer: &mut impl Observer,
) -> Result<RunRecord, Error> {
    Ok(supervise(
        plan,
        clock,
        &Crawls {
            plan,
            spec,
            cpus,
            clock,
        },
        observer,
    )?)
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
        let crawl = Crawl::new(spec.clone(), shard.connections, clock)
            .at(connection_slots(plan, shard))
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
