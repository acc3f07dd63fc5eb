//! Whether the run can work at all, asked before anything is forked: descriptors enough, somebody who listens.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crawlmark_harness::plan::RunPlan;
use crawlmark_harness::process::raise_descriptor_limit;

use super::origins;
use crate::crawl::{CrawlSpec, OPEN_PER_LANE};
use crate::error::Error;

/// Descriptors of a process beside its connections or its shards: poller, standard streams, files, and some to spare.
const OVERHEAD: u64 = 32;

/// The same without anything to spare: with fewer, nothing runs.
const BARE: u64 = 16;

/// Pipes that the supervisor holds for each shard.
const PIPES: u64 = 2;

/// Raises the limit on descriptors and compares it with what a shard and the supervisor need. Some is what to say before
/// a run that can work, though not all of its connections can be open at once.
///
/// # Errors
/// When not every shard can have a connection.
pub(super) fn check_descriptors(plan: &RunPlan) -> Result<Option<String>, Error> {
    let in_flight = u64::from(plan.connections.div_ceil(plan.shards.max(1)));
    // There are no more connections to one host than requests in flight.
    let open_each = u64::from(plan.per_host.hosts).min(OPEN_PER_LANE as u64);
    let shard = in_flight * open_each + OVERHEAD;
    let supervisor = u64::from(plan.shards) * PIPES + BARE;
    let limit = raise_descriptor_limit().unwrap_or(u64::MAX);
    let lacks = |what: String, needs: u64| {
        format!("{what} needs {needs} descriptors, and a process here may have {limit}: raise the limit (ulimit -Hn)")
    };
    if limit < supervisor {
        return Err(Error::Usage(lacks(format!("--shards {}", plan.shards), supervisor)));
    }
    if limit <= BARE {
        return Err(Error::Usage(lacks("a shard with a single connection".to_owned(), BARE + 1)));
    }
    Ok((limit < shard).then(|| {
        let what = format!("--connections {} over --shards {}", plan.connections, plan.shards);
        format!(
            "{}; attempts that find none left fail (too_many_files), and the result is not valid then",
            lacks(what, shard)
        )
    }))
}

/// Opens one connection to each host and closes it: a run against nobody would only count refusals. The bundled target,
/// which is not started yet, has no address and needs no check.
pub(super) fn check_hosts(spec: &CrawlSpec) -> Result<(), Error> {
    if let Some(ips) = &spec.local_ips {
        return spec
            .addresses
            .iter()
            .try_for_each(|addresses| origins::check_host(addresses, ips, spec.connect_timeout));
    }
    spec.addresses.iter().try_for_each(|addresses| check_host(addresses, spec.connect_timeout))
}

fn check_host(addresses: &[SocketAddr], timeout: Duration) -> Result<(), Error> {
    let mut refused = None;
    for address in addresses {
        match TcpStream::connect_timeout(address, timeout) {
            Ok(_) => return Ok(()),
            Err(error) => refused = Some(Error::Unreachable { address: *address, error }),
        }
    }
    refused.map_or(Ok(()), Err)
}
