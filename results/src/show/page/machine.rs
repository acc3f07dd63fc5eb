//! The machine that measured, what it counted meanwhile, and the target's own books.

use super::frame::Html;
use crate::run::report::{Environment, HostReport, Report, SHORTEST_FOR_PRESSURE};
use crate::show::doc::{Column, Table};
use crate::show::text::{bytes, grouped, percent, seconds};
use crawlmark_harness::machine::NetworkCounts;

/// Placeholder for a figure that a machine does not give.
const UNTOLD: &str = "not told";

pub(super) fn write(html: &mut Html, report: &Report) {
    html.with("div", &[("class", "tables")], |html| {
        facts(html, "Machine", environment(&report.environment));
        facts(html, "Counted meanwhile, by everybody on it", host(report));
        facts(html, "Supervisor", supervisor(report));
    });
    let ledger = report.witness.as_ref().map(|witness| &witness.ledger).filter(|ledger| !ledger.is_null());
    if let Some(ledger) = ledger {
        html.details("The target's own books", |html| json(html, ledger));
    }
}

/// Names and values, a row each.
fn facts(html: &mut Html, caption: &str, facts: Vec<(&str, Option<String>)>) {
    let row = |(name, value): (&str, Option<String>)| vec![name.to_owned(), value.unwrap_or_else(|| UNTOLD.to_owned())];
    Table {
        caption: caption.to_owned(),
        columns: vec![Column::words("what"), Column::sentences("value")],
        rows: facts.into_iter().map(row).collect(),
        ..Table::default()
    }
    .write(html);
}

/// A value as JSON, for whoever wants to use it.
pub(super) fn json<T: serde::Serialize>(html: &mut Html, value: &T) {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    html.with("pre", &[("tabindex", "0")], |html| html.say("code", &text));
}

pub(super) fn environment(machine: &Environment) -> Vec<(&'static str, Option<String>)> {
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
    let target = if *colocated { "on this machine, too" } else { "on another machine" };
    vec![
        ("CPU", cpu_model.clone()),
        ("CPUs that could be used", Some(grouped(*cores as u64))),
        ("frequency governor", cpu_governor.clone()),
        ("memory", memory_bytes.map(bytes)),
        ("kernel", kernel.clone()),
        ("descriptors per process", nofile.map(grouped)),
        ("local ports", local_ports.map(|[first, last]| format!("{first} to {last}"))),
        ("target", Some(target.to_owned())),
        ("commit of the working directory", git_revision.clone()),
    ]
}

fn host(report: &Report) -> Vec<(&'static str, Option<String>)> {
    let HostReport { cpu_pressure, network } = report.host;
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
            cpu_pressure.map(|part| format!("{} of the time", percent(part))).or_else(|| too_short(report)),
        ),
        ("TCP segments sent again", tcp_retransmits.map(grouped)),
        ("TCP timeouts", tcp_timeouts.map(grouped)),
        ("listening queues full", listen_overflows.map(grouped)),
        ("connections dropped there", listen_drops.map(grouped)),
        ("TCP sockets in use", sockets_in_use.map(grouped)),
        ("closed connections kept at most", time_wait.map(grouped)),
        ("local ports held back", ports_held.map(grouped)),
    ]
}

/// The length that a run needs before its wait for CPUs is known, of a shorter run.
fn too_short(report: &Report) -> Option<String> {
    let shortest = SHORTEST_FOR_PRESSURE.as_secs_f64();
    (report.totals.duration_s < shortest).then(|| format!("unknown: the run was shorter than {}", seconds(shortest)))
}

fn supervisor(report: &Report) -> Vec<(&'static str, Option<String>)> {
    let supervisor = &report.supervisor;
    vec![
        ("CPU", Some(seconds(supervisor.cpu_s))),
        ("of a core", Some(percent(supervisor.cpu_share))),
        ("of a core while the shards ran", supervisor.running_cpu_share.map(percent)),
        ("CPU to start the shards", supervisor.start_cpu_s.map(seconds)),
        ("to their start", supervisor.start_ms.map(|ms| seconds(ms / 1e3))),
        ("to the first request", supervisor.first_request_ms.map(|ms| seconds(ms / 1e3))),
        ("memory at most", Some(bytes(supervisor.max_rss_bytes))),
    ]
}
