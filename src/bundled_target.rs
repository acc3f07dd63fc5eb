//! The bundled target as processes of its own, forked from a command. Used by `serve`, by
//! `selftest`, and by `run` without a URL.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::time::Duration;

use crawlmark_harness::process::{Child, Role, ShardExit, fork};
use crawlmark_mock_server::{
    Config, Http, Ledger, ListenError, Shared, Sockets, listeners, run_process,
};
use nix::sys::signal::Signal;

use crate::error::Error;

/// Time limit for the target's processes to end: they finish responses in progress for 500 ms.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// Return the number of processes of a target that shares `cpus` with its client: two fifths of
/// them. A request takes about as much CPU time in the bundled target as in a shard, so that the
/// target is the one that has no more: a shard that uses 85 % of a CPU is its client's limit.
pub(crate) fn share_of_target(cpus: usize) -> NonZeroUsize {
    NonZeroUsize::new(cpus * 2 / 5).unwrap_or(NonZeroUsize::MIN)
}

/// Return the number of shards beside a target of so many processes.
pub(crate) fn share_of_client(cpus: usize, processes: NonZeroUsize) -> usize {
    cpus.saturating_sub(processes.get()).max(1)
}

/// Running target processes. Dropped, they are ended.
#[derive(Debug)]
pub(crate) struct Target {
    address: SocketAddr,
    shared: Shared,
    children: Vec<Child>,
}

impl Target {
    /// Binds, then forks one process per listener. Connections are accepted from here on: until the
    /// processes run, the kernel queues them.
    pub(crate) fn start(
        listen: SocketAddr,
        processes: NonZeroUsize,
        config: &Config,
    ) -> Result<Self, Error> {
        let shared = Shared::new()?;
        let all = sockets(listen, processes, config)?;
        let mut sockets: Vec<_> = all.into_iter().map(Some).collect();
        let address = sockets
            .iter()
            .flatten()
            .next()
            .and_then(|sockets| sockets.tcp.local_addr().ok())
            .unwrap_or(listen);
        let mut target = Self {
            address,
            shared,
            children: Vec::with_capacity(sockets.len()),
        };
        for i in 0..sockets.len() {
            let shared = target.shared.clone();
            let child = fork(&format!("crawlmark-t{i}"), Role::Part, || {
                let own = sockets[i].take();
                // The siblings' sockets must be closed here, or the kernel would queue connections
                // that no process accepts.
                sockets.clear();
                match own.map(|own| run_process(own, config, &shared)) {
                    Some(Ok(())) => 0,
                    _ => 1,
                }
            })?;
            target.children.push(child);
        }
        Ok(target)
    }

    /// Return the address that the target listens on.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its counts, summed over its processes.
    pub(crate) fn ledger(&self) -> Ledger {
        Ledger::read(&self.shared)
    }

    /// A process of it that has ended by itself, if one has.
    pub(crate) fn lost(&mut self) -> Option<(i32, ShardExit)> {
        let at = self
            .children
            .iter()
            .position(crawlmark_harness::process::Child::has_ended)?;
        let child = self.children.remove(at);
        Some((child.pid(), child.wait()))
    }

    /// Ends it, and returns its counts as they were then.
    pub(crate) fn stop(mut self) -> Ledger {
        self.end();
        self.ledger()
    }

    fn end(&mut self) {
        for child in &self.children {
            child.signal(Signal::SIGUSR1);
        }
        for child in self.children.drain(..) {
            let _ = child.end(STOP_GRACE);
        }
    }
}

/// Open the sockets of each process.
pub(crate) fn sockets(
    listen: SocketAddr,
    processes: NonZeroUsize,
    config: &Config,
) -> Result<Vec<Sockets>, ListenError> {
    match config.http {
        Http::Http3 => Sockets::with_udp(listen, processes),
        _ => Ok(listeners(listen, processes)?
            .into_iter()
            .map(Sockets::from)
            .collect()),
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_and_target_have_all_cpus_between_them_and_none_both() {
        assert_eq!(
            (
                share_of_target(1).get(),
                share_of_client(1, NonZeroUsize::MIN)
            ),
            (1, 1)
        );
        for cpus in 2..300 {
            let target = share_of_target(cpus);
            let client = share_of_client(cpus, target);
            assert_eq!(target.get() + client, cpus);
            // Two CPUs have no other parts than two halves.
            let most = if cpus == 2 { 1.0 } else { 0.85 };
            assert!(target.get() as f64 <= client as f64 * most, "{cpus}");
            assert!(client <= 2 * target.get() + 1, "{cpus}");
        }
    }
}
