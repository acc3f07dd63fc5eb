//! The machine that measured, what it counted during the run, and the target's own counts.

use crate::run::report::{Environment, HostReport, Report, SHORTEST_FOR_PRESSURE};
use crate::show::doc::{Column, Doc, Table};
use crate::show::text::{bytes, grouped, seconds};
use crawlmark_harness::machine::NetworkCounts;
use crawlmark_harness::units::rounded_percent;

/// Placeholder for a figure that a machine does not give.
pub(in crate::run) const UNKNOWN: &str = "unknown";

pub(super) fn tables(report: &Report) -> Doc {
    let tables = Doc::default()
        .table(facts("Machine", environment(&report.environment)))
        .table(facts("System-wide counters during the run", host(report)))
        .table(facts("Supervisor", supervisor(report)));
    let doc = Doc::default().beside(tables);
    match report
        .witness
        .as_ref()
        .map(|witness| &witness.ledger)
        .filter(|ledger| !ledger.is_null())
    {
        Some(ledger) => doc.details("The target's own counts", Doc::default().code(json(ledger))),
        None => doc,
    }
}

/// Names and values, a row each.
fn facts(caption: &str, facts: Vec<(&str, Option<String>)>) -> Table {
    let row = |(name, value): (&str, Option<String>)| {
        vec![name.to_owned(), value.unwrap_or_else(|| UNKNOWN.to_owned())]
    };
    Table {
        caption: caption.to_owned(),
        columns: vec![Column::words(""), Column::sentences("")],
        rows: facts.into_iter().map(row).collect(),
        ..Table::default()
    }
}

/// A value as JSON, for readers who want to use it.
pub(super) fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

pub(in crate::run) fn environment(machine: &Environment) -> Vec<(&'static str, Option<String>)> {
    let Environment {
        cpu_model,
        cores,
        kernel,
        cpu_governor,
        memory_bytes,
        nofile,
        local_ports,
        colocated,
        git_revision,
    } = machine;
    let target = if *colocated {
        "same machine"
    } else {
        "another machine"
    };
    vec![
        ("CPU", cpu_model.clone()),
        ("CPUs that could be used", Some(grouped(*cores as u64))),
        ("frequency governor", cpu_governor.clone()),
        ("memory", memory_bytes.map(bytes)),
        ("kernel", kernel.clone()),
        ("descriptors per process", nofile.map(grouped)),
        (
            "local ports",
            local_ports.map(|[first, last]| format!("{first} to {last}")),
        ),
        ("target", Some(target.to_owned())),
        ("commit of the working directory", git_revision.clone()),
    ]
}

fn host(report: &Report) -> Vec<(&'static str, Option<String>)> {
    let HostReport {
        cpu_pressure,
        network,
    } = report.host;
    let NetworkCounts {
        tcp_retransmits,
        tcp_timeouts,
        listen_overflows,
        listen_drops,
        sockets_in_use,
        time_wait,
        ports_held,
    } = network;
    vec![
        (
            "waiting for a CPU",
            cpu_pressure
                .map(|part| format!("{} of the time", rounded_percent(part)))
                .or_else(|| too_short(report)),
        ),
        ("TCP segments retransmitted", tcp_retransmits.map(grouped)),
        ("TCP timeouts", tcp_timeouts.map(grouped)),
        ("listen queue overflows", listen_overflows.map(grouped)),
        (
            "connections dropped by listen queues",
            listen_drops.map(grouped),
        ),
        ("TCP sockets in use", sockets_in_use.map(grouped)),
        ("sockets in TIME_WAIT (peak)", time_wait.map(grouped)),
        ("local ports in TIME_WAIT", ports_held.map(grouped)),
    ]
}

/// The length that a run needs before its wait for CPUs is known, of a shorter run.
fn too_short(report: &Report) -> Option<String> {
    let shortest = SHORTEST_FOR_PRESSURE.as_secs_f64();
    (report.totals.duration_s < shortest)
        .then(|| format!("unknown: the run was shorter than {}", seconds(shortest)))
}

fn supervisor(report: &Report) -> Vec<(&'static str, Option<String>)> {
    let supervisor = &report.supervisor;
    vec![
        ("CPU", Some(seconds(supervisor.cpu_s))),
        (
            "share of a core",
            Some(rounded_percent(supervisor.cpu_share)),
        ),
        (
            "share of a core while the shards ran",
            supervisor.running_cpu_share.map(rounded_percent),
        ),
        (
            "CPU to start the shards",
            supervisor.start_cpu_s.map(seconds),
        ),
        (
            "time to start",
            supervisor.start_ms.map(|ms| seconds(ms / 1e3)),
        ),
        (
            "time to first request",
            supervisor.first_request_ms.map(|ms| seconds(ms / 1e3)),
        ),
        ("peak memory", Some(bytes(supervisor.max_rss_bytes))),
    ]
}
