//! What the machine counted while the run went on: everybody's doing, not the run's alone.

use serde::{Deserialize, Serialize};

use super::share;
use crate::machine::HostRecord;

/// What the machine counted while the run went on, in this network namespace where it has several. Null is what it does not
/// say.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HostReport {
    /// The part of the time in which something was ready to run and had no CPU.
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
    /// Closed connections whose local ports were held back, the most at once.
    pub time_wait: Option<u64>,
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
        } = record;
        Self {
            cpu_pressure: cpu_pressure_us.map(|us| share(us as f64 * 1e3, watched_ns as f64)),
            tcp_retransmits: retransmits,
            tcp_timeouts,
            listen_overflows,
            listen_drops,
            sockets_in_use,
            time_wait,
        }
    }
}
