//! Checks of the machine: its CPUs, ports, descriptors and network.

use super::answers::failed_with;
use super::thresholds::{
    CPU_PRESSURE, OPENED_AGAIN_US, PORTS_HELD_BACK, RETRANSMITS, SENT_AGAIN_US, STRAY_RETRANSMITS,
};
use super::wording::more_room;
use super::{CheckResult, Evidence, Missing};
use crate::run::report::{Latency, SHORTEST_FOR_PRESSURE};
use crate::show::text::counted;
use crawlmark_harness::sample::ErrorKind;
use crawlmark_harness::stats::Series;
use crawlmark_harness::units::{grouped, rounded_percent};

/// Series of times that a retransmission makes longer.
const ANSWERED: [Series; 7] = [
    Series::ServiceOk,
    Series::ServiceThrottled,
    Series::ServiceError,
    Series::Ttfb,
    Series::ResponseOk,
    Series::ResponseThrottled,
    Series::ResponseError,
];

/// Remedies for a lack of ports.
const MORE_PORTS: &str = "use fewer connections, keep them alive, add source addresses (--local-ips), or widen net.ipv4.ip_local_port_range";

/// Something waited for a CPU, where the kernel does not say whether it was a shard.
pub(super) fn cpu_pressure(evidence: &Evidence<'_>) -> CheckResult {
    if evidence
        .shards
        .iter()
        .any(|shard| shard.usage.run_delay_share.is_some())
    {
        return CheckResult::Findings(Vec::new());
    }
    let Some(pressure) = evidence.host.cpu_pressure else {
        let shortest_s = SHORTEST_FOR_PRESSURE.as_secs_f64();
        let is_short = evidence.totals.duration_s < shortest_s;
        return CheckResult::Unavailable(if is_short {
            Missing::TooShort(shortest_s)
        } else {
            Missing::NotGiven
        });
    };
    CheckResult::perhaps((pressure > CPU_PRESSURE).then(|| {
        format!(
            "some process of this machine waited for a CPU {} of the time, and the kernel does not say whether it was a shard, so \
             times may include delays of this client. {}",
            rounded_percent(pressure),
            more_room(evidence)
        )
    }))
}

/// Attempts that found no free port.
pub(super) fn local_ports(evidence: &Evidence<'_>) -> CheckResult {
    let failed = failed_with(evidence, ErrorKind::AddressUnavailable);
    CheckResult::perhaps((failed > 0).then(|| {
        format!(
            "{} found no free local port: this machine has {} for connections from one address to another, and a \
             connection that this client closed first holds its port back for a minute, or for a second over loopback; \
             {MORE_PORTS}",
            counted(failed, "request"),
            ports_in_words(evidence)
        )
    }))
}

/// Ports that closed connections still hold, of a run that opened more than there were left.
pub(super) fn ports_held_back(evidence: &Evidence<'_>) -> CheckResult {
    let (Some(held), Some(of_each)) = (evidence.host.ports_held, ports(evidence)) else {
        return CheckResult::Unavailable(Missing::NotGiven);
    };
    // Each source address has all ports.
    let sources = evidence.totals.sources_used.max(1);
    let ports = of_each.saturating_mul(sources);
    // What others left behind does no harm to a run that keeps its connections.
    let needed = evidence.totals.connections_opened > ports.saturating_sub(held);
    let tripped = needed && held as f64 > ports as f64 * PORTS_HELD_BACK;
    CheckResult::perhaps(tripped.then(|| {
        format!(
            "closed connections kept {} of {}{} in TIME_WAIT, which slows opening connections and soon stops it: {MORE_PORTS}",
            grouped(held),
            ports_in_words(evidence),
            if sources > 1 { format!(" of each of {} source addresses", grouped(sources)) } else { String::new() }
        )
    }))
}

fn ports(evidence: &Evidence<'_>) -> Option<u64> {
    let [first, last] = evidence.environment.local_ports?;
    Some(u64::from(last.saturating_sub(first)) + 1)
}

fn ports_in_words(evidence: &Evidence<'_>) -> String {
    match (ports(evidence), evidence.environment.local_ports) {
        (Some(ports), Some([first, last])) => {
            format!("{} local ports ({first} to {last})", grouped(ports))
        }
        _ => "an unknown number of local ports".to_owned(),
    }
}

/// Attempts that had no descriptor to connect with.
pub(super) fn descriptors(evidence: &Evidence<'_>) -> CheckResult {
    let failed = failed_with(evidence, ErrorKind::TooManyFiles);
    CheckResult::perhaps((failed > 0).then(|| {
        let limit = evidence.environment.nofile.map_or_else(|| "a limited number".to_owned(), grouped);
        format!(
            "{} had no descriptor to connect with: a process here may open {limit}; raise that limit (ulimit -Hn), use \
             fewer --connections, or more --shards",
            counted(failed, "request")
        )
    }))
}

/// True if `is_late` of the times of this run in any of these series: what the whole machine
/// counted may be another program's.
fn any_of(evidence: &Evidence<'_>, series: &[Series], is_late: impl Fn(&Latency) -> bool) -> bool {
    let mut times = evidence.shards.iter().flat_map(|shard| {
        series
            .iter()
            .filter_map(|series| shard.latency.get(series.name()))
    });
    times.any(is_late)
}

/// True if an attempt of this run waited for as long as a connection is opened again after.
fn waited_to_connect(evidence: &Evidence<'_>) -> bool {
    any_of(evidence, &[Series::Connect], |times| {
        times.max_us.is_some_and(|us| us >= OPENED_AGAIN_US)
    }) || failed_with(evidence, ErrorKind::ConnectTimeout) > 0
}

/// True if an answer of this run took as much longer than usual as a retransmission makes it, or
/// none came in time.
fn was_answered_late(evidence: &Evidence<'_>) -> bool {
    let is_late = |times: &Latency| {
        let usual_us = times.p50_us.or(times.min_us).unwrap_or(0.0);
        times
            .max_us
            .is_some_and(|us| us >= usual_us + SENT_AGAIN_US)
    };
    any_of(evidence, &ANSWERED, is_late) || failed_with(evidence, ErrorKind::Timeout) > 0
}

/// Segments lost on the way to a target on this machine, where nothing is lost by itself.
pub(super) fn retransmits(evidence: &Evidence<'_>) -> CheckResult {
    let Some(again) = evidence.host.tcp_retransmits else {
        return CheckResult::Unavailable(Missing::NotGiven);
    };
    let allowed = STRAY_RETRANSMITS as f64 + evidence.totals.attempts as f64 * RETRANSMITS;
    let was_late = || was_answered_late(evidence) || waited_to_connect(evidence);
    let tripped = evidence.environment.colocated && again as f64 > allowed && was_late();
    CheckResult::perhaps(tripped.then(|| {
        format!(
            "TCP retransmitted {} segments on this machine, counted over all programs. The target is on it, too, and a response took \
             200 ms longer than the median or a connection 1 s, as after a retransmission. Look for a full queue of the target, a \
             packet filter or traffic shaping, or run again without other programs that use the network",
            grouped(again)
        )
    }))
}

/// Connections that the target did not take in time.
pub(super) fn listen_queue(evidence: &Evidence<'_>) -> CheckResult {
    let (Some(full), Some(dropped)) = (evidence.host.listen_overflows, evidence.host.listen_drops)
    else {
        return CheckResult::Unavailable(Missing::NotGiven);
    };
    // Every overflow is a drop as well. If the target is on another machine, these count other
    // programs' connections.
    let turned_away = full.max(dropped);
    let tripped = evidence.environment.colocated && turned_away > 0 && waited_to_connect(evidence);
    CheckResult::perhaps(tripped.then(|| {
        format!(
            "{} connections met a full listen queue on this machine and were retried after a second, which counts as time to \
             connect. Increase the target's backlog, or open fewer connections (-c)",
            grouped(turned_away)
        )
    }))
}
