//! Counters of the machine during the run: system-wide, not the run's alone.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::share;
use super::totals::reads_as;
use crawlmark_harness::clock::duration_ns;
use crawlmark_harness::machine::{HostRecord, NetworkCounts};

/// The kernel brings its count of pressure up to date every two seconds, so that either reading may
/// be as old: in a run shorter than this, too much of what was counted lies before it.
const SHORTEST_FOR_PRESSURE: Duration = Duration::from_secs(10);

/// Counters of the machine during the run, in this network namespace where it has several. Null
/// where it does not say.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HostReport {
    /// The part of the time in which something was ready to run and had no CPU; null of a run that
    /// is too short to tell.
    pub cpu_pressure: Option<f64>,
    /// Counts of its network.
    #[serde(flatten)]
    pub network: NetworkCounts,
}

reads_as!(HostReport, network: NetworkCounts);

impl From<HostRecord> for HostReport {
    fn from(
        HostRecord {
            watched_ns,
            cpu_pressure_us,
            network,
        }: HostRecord,
    ) -> Self {
        let cpu_pressure = cpu_pressure_us
            .filter(|_| watched_ns >= duration_ns(SHORTEST_FOR_PRESSURE))
            .map(|us| share(us as f64 * 1e3, watched_ns as f64).min(1.0));
        Self {
            cpu_pressure,
            network,
        }
    }
}
