//! The machine and the time of a measurement, in a line: what a page of results says of where its
//! figures are from.

use std::fs;

use crawlmark_harness::clock::wall_time;
use crawlmark_results::run::report::{Environment, Placement, rfc3339};

/// The machine, and now.
pub(crate) fn here_and_now() -> String {
    let machine = Environment::read(Placement::Colocated);
    let loads = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = loads.split(' ').next().unwrap_or("-").to_owned();
    let [cpu, kernel] = [machine.cpu_model, machine.kernel]
        .map(|name| name.unwrap_or_else(|| "unknown".to_owned()));
    format!(
        "{}; {cpu}, {} cores, {kernel}; load when it ended: {load}",
        rfc3339(wall_time()),
        machine.cores
    )
}
