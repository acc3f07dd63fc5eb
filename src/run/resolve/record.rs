//! Settings of a run that a plan records beside its own fields: those that every crawl has, and those
//! that differ from their defaults.
//!
//! The row of a flag in the table of flags says whether its settings may differ between sessions.

use std::hash::{BuildHasher, RandomState};

use crawlmark_harness::plan::{
    BundledSettings, ContentForm, ListOrder, ProxySource, RobotsRule, RunNumber, TlsTrust,
    WorkloadSettings,
};

use super::Resolved;
use super::bundled::BundledTarget;
use crate::cli::{self, RunArgs};
use crate::crawl::{Content, IdUse, Reuse};

/// Return the settings of a run; `proxy_from` is the source of its proxies.
pub(super) fn workload(
    args: &RunArgs,
    resolved: &Resolved,
    proxy_from: Option<ProxySource>,
) -> WorkloadSettings {
    let (spec, bundled) = (&resolved.spec, resolved.bundled.as_ref());
    let (request, targets, options) = (&spec.request, &spec.targets, &spec.options);
    let proxies: Vec<String> = spec
        .proxies
        .iter()
        .flat_map(|proxies| &proxies.all)
        .map(|proxy| proxy.url.to_string())
        .collect();
    let file = args.list().map(|(_, file)| file.display().to_string());
    let (urls, requests_file) = if args.requests_file.is_some() {
        (None, file)
    } else {
        (file, None)
    };
    WorkloadSettings {
        body_bytes: Some(request.body_bytes() as u64),
        connect_timeout_us: u64::try_from(args.connect_timeout.as_micros()).ok(),
        content: (options.content == Content::Decoded).then_some(ContentForm::Decoded),
        expect: Some(spec.expect.to_string()),
        headers: Some(request.header_names().join(", ")),
        lines: args.list().map(|_| targets.lines() as u64),
        local_ips: spec.local_ips.as_ref().map(ToString::to_string),
        method: Some(resolved.methods.clone()),
        order: targets.is_drawn().then_some(ListOrder::ByWeight),
        per_host_rate_from: None,
        proxy: (!proxies.is_empty()).then(|| proxies.join(", ")),
        proxy_from,
        requests_file,
        requests_per_connection: match spec.reuse {
            Reuse::Requests(count) => Some(count),
            Reuse::Unbounded => None,
        },
        robots: (!resolved.robots.is_empty()).then_some(RobotsRule::Honor),
        same_request: targets.lines() == 1 && targets.asks_ids() == IdUse::No && !request.has_id(),
        // Of a range that is longer than the run, the run has a sample.
        shuffle: options
            .shuffle
            .as_ref()
            .map(|_| args.ids.unwrap_or(resolved.plan.ids)),
        bundled: bundled.map(|bundled| of_target(args, bundled)),
        tls_trust: spec.tls.is_some().then(|| trust(args, bundled)),
        trace: args.connection.trace,
        // The standard library draws the keys of its hashers at random.
        trace_run: args
            .connection
            .trace
            .map(|_| RunNumber(RandomState::new().hash_one(()))),
        urls,
        as_typed: cli::settings(&args.typed.values).collect(),
    }
}

/// Return the certificates that the client trusts.
fn trust(args: &RunArgs, bundled: Option<&BundledTarget>) -> TlsTrust {
    match &args.tls.cacert {
        _ if args.tls.insecure => TlsTrust::Unverified,
        _ if bundled.is_some() => TlsTrust::Bundled,
        Some(file) => TlsTrust::File(format!("--cacert {}", file.display())),
        None => TlsTrust::System,
    }
}

/// Return the behaviour of the bundled target.
fn of_target(args: &RunArgs, target: &BundledTarget) -> BundledSettings {
    let config = &target.config;
    BundledSettings {
        target_accept: or_none(config.accept),
        target_bandwidth: or_none(config.bandwidth),
        target_events: or_none(config.events),
        target_faults: config.faults.to_string(),
        target_handshake: config.handshake.to_string(),
        target_keep_alive: or_none(config.keep_alive),
        target_latency: config.latency.to_string(),
        target_latency_per_in_flight: config.latency_per_in_flight.to_string(),
        target_limit: config.limits.to_string(),
        target_processes: target.processes.to_string(),
        target_profile: args.target.target_profile.to_string(),
        target_stall: or_none(config.stall),
        target_work: config.work.to_string(),
        target_workers: or_none(config.workers),
    }
}

fn or_none(setting: Option<impl ToString>) -> String {
    setting.map_or_else(|| "none".to_owned(), |setting| setting.to_string())
}
