//! Whether the run can work at all, asked before anything is forked: descriptors enough, somebody who listens.

use std::net::TcpStream;

use crawlmark_harness::plan::RunPlan;
use crawlmark_harness::process::raise_descriptor_limit;

use crate::crawl::CrawlSpec;
use crate::error::Error;

/// Descriptors of a shard beside its connections: pipes, poller, standard streams, and some to spare.
const OVERHEAD: u64 = 32;

/// Raises the limit on descriptors and compares it with what a shard needs.
pub(super) fn check_descriptors(plan: &RunPlan) -> Result<(), Error> {
    let most = u64::from(plan.connections.div_ceil(plan.shards.max(1))) + OVERHEAD;
    match raise_descriptor_limit() {
        Some(limit) if limit < most => Err(Error::Usage(format!(
            "--connections {} over --shards {} needs {most} descriptors in a shard, and this machine allows {limit}: \
             use fewer connections, more shards, or raise the limit (ulimit -Hn)",
            plan.connections, plan.shards
        ))),
        _ => Ok(()),
    }
}

/// Opens one connection to the target and closes it: a run against nobody would only count refusals. The bundled
/// target, which is not started yet, has no address and needs no check.
pub(super) fn check_target(spec: &CrawlSpec) -> Result<(), Error> {
    let mut refused = None;
    for address in &spec.addresses {
        match TcpStream::connect_timeout(address, spec.connect_timeout) {
            Ok(_) => return Ok(()),
            Err(error) => refused = Some(Error::Unreachable { address: *address, error }),
        }
    }
    refused.map_or(Ok(()), Err)
}
