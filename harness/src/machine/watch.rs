//! Readings of the machine over a run: counters at its start and end, and peaks of what rises and
//! falls in between.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Counters, Proc};
use crate::clock::Nanos;

/// Interval between looks at the machine during the run: what is looked for stays for a minute.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Counts of the machine over the time of a run. A reading that the machine does not give is
/// absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostRecord {
    /// From the first reading to the last, ns.
    pub watched_ns: u64,
    /// Time in which something was ready to run and had no CPU, us.
    pub cpu_pressure_us: Option<u64>,
    /// Counts of its network.
    pub network: NetworkCounts,
}

/// Counts of the machine's network, as they are reported, in this network namespace where it has
/// several. None where it does not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkCounts {
    /// TCP segments that were sent again (`RetransSegs`).
    pub tcp_retransmits: Option<u64>,
    /// Times that TCP waited in vain for an acknowledgement (`TCPTimeouts`).
    pub tcp_timeouts: Option<u64>,
    /// Connections that found the queue of a listening socket full (`ListenOverflows`).
    pub listen_overflows: Option<u64>,
    /// Connections that a listening socket dropped for any reason (`ListenDrops`).
    pub listen_drops: Option<u64>,
    /// TCP sockets in use; of a run, the most of before and after.
    pub sockets_in_use: Option<u64>,
    /// Closed connections that the machine kept (`TIME_WAIT`), of whichever side of them; of a run,
    /// the most at once.
    pub time_wait: Option<u64>,
}

/// Watches the machine.
#[derive(Debug)]
pub struct Watch {
    proc: Proc,
    since: Nanos,
    before: Counters,
    time_wait: Option<u64>,
    next_look: Nanos,
}

impl Watch {
    /// Begins.
    pub fn begin(proc: Proc, now: Nanos) -> Self {
        let before = proc.counters();
        Self {
            proc,
            since: now,
            before,
            time_wait: before.network.time_wait,
            next_look: now.plus(LOOK_EVERY),
        }
    }

    /// Looks at what comes and goes, if it is time.
    pub fn look(&mut self, now: Nanos) {
        if now >= self.next_look {
            self.next_look = now.plus(LOOK_EVERY);
            self.time_wait = self.time_wait.max(self.proc.time_wait());
        }
    }

    /// Return the record of the time from the beginning to `now`.
    pub fn end(&self, now: Nanos) -> HostRecord {
        let (before, after) = (self.before, self.proc.counters());
        let added = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        let grown =
            |of: fn(&NetworkCounts) -> Option<u64>| added(of(&after.network), of(&before.network));
        let network = NetworkCounts {
            tcp_retransmits: grown(|counts| counts.tcp_retransmits),
            tcp_timeouts: grown(|counts| counts.tcp_timeouts),
            listen_overflows: grown(|counts| counts.listen_overflows),
            listen_drops: grown(|counts| counts.listen_drops),
            sockets_in_use: before
                .network
                .sockets_in_use
                .max(after.network.sockets_in_use),
            time_wait: self.time_wait.max(after.network.time_wait),
        };
        HostRecord {
            watched_ns: now.since(self.since),
            cpu_pressure_us: added(after.cpu_pressure_us, before.cpu_pressure_us),
            network,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::proc_with;

    fn sockets(in_use: u64, time_wait: u64) -> String {
        format!("TCP: inuse {in_use} orphan 0 tw {time_wait} alloc 1 mem 1\n")
    }

    #[test]
    fn what_grows_is_counted_from_the_start_and_what_comes_and_goes_at_its_most() {
        let seconds = |s: u64| Nanos(s * 1_000_000_000);
        let snmp = |n: u64| format!("Tcp: RetransSegs\nTcp: {n}\n");
        let (directory, proc) =
            proc_with(&[("net/snmp", &snmp(40)), ("net/sockstat", &sockets(3, 5))]);
        let write =
            |file: &str, text: &str| std::fs::write(directory.path().join(file), text).unwrap();
        let mut watch = Watch::begin(proc, seconds(1));
        write("net/sockstat", &sockets(9, 900));
        watch.look(Nanos(seconds(2).0 - 1));
        write("net/sockstat", &sockets(9, 700));
        watch.look(seconds(2));
        write("net/sockstat", &sockets(4, 8));
        write("net/snmp", &snmp(42));
        assert_eq!(
            watch.end(seconds(4)),
            HostRecord {
                watched_ns: 3_000_000_000,
                cpu_pressure_us: None,
                network: NetworkCounts {
                    tcp_retransmits: Some(2),
                    sockets_in_use: Some(4),
                    time_wait: Some(700),
                    ..NetworkCounts::default()
                },
            }
        );
    }
}
