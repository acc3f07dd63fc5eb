//! Counters of the machine during the run: system-wide, not the run's alone.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::share;
use crawlmark_harness::clock::duration_ns;
use crawlmark_harness::machine::HostRecord;

/// The kernel brings its count of pressure up to date every two seconds, so that either reading may be as old: in a run
/// shorter than this, too much of what was counted lies before it.
pub(crate) const SHORTEST_FOR_PRESSURE: Duration = Duration::from_secs(10);

/// Counters of the machine during the run, in this network namespace where it has several. Null where it does not say.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HostReport {
    /// The part of the time in which something was ready to run and had no CPU; null of a run that is too short to tell.
    pub cpu_pressure: Option<f64>,
    /// TCP segments that were sent again.
    pub tcp_retransmits: Option<u64>,
    /// Times that TCP waited in vain for an acknowledgement.
    pub tcp_timeouts: Option<u64>,
    /// Connections that found the queue of a listening socket full.
    pub listen_overflows: Option<u64>,
    /// Connections that a listening socket dropped for any reason.
    pub listen_drops: Option<u64>,
    /// TCP sockets in use, the most of before and after.
    pub sockets_in_use: Option<u64>,
    /// Closed connections that the machine kept (`TIME_WAIT`), of whichever side of them, the most at once.
    pub time_wait: Option<u64>,
    /// Local ports that closed connections of this side held back at the end, toward the address, and from the address, that
    /// had most of them; where few connections were kept, a number that is no less. Absent from results of earlier versions.
    #[serde(default)]
    pub ports_held: Option<u64>,
}

impl From<HostRecord> for HostReport {
    fn from(record: HostRecord) -> Self {
        let HostRecord {
            watched_ns,
            cpu_pressure_us,
            retransmits,
            tcp_timeouts,
            listen_overflows,
            listen_drops,
            sockets_in_use,
            time_wait,
            ports_held,
        } = record;
        Self {
            cpu_pressure: cpu_pressure_us
                .filter(|_| watched_ns >= duration_ns(SHORTEST_FOR_PRESSURE))
                .map(|us| share(us as f64 * 1e3, watched_ns as f64).min(1.0)),
            tcp_retransmits: retransmits,
            tcp_timeouts,
            listen_overflows,
            listen_drops,
            sockets_in_use,
            time_wait,
            ports_held,
        }
    }
}
