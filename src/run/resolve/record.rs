//! Settings of a run that a plan records beside its own fields, by their names in `result.json`:
//! those that every crawl has, and those that differ from their defaults.
//!
//! The row of a flag in the table of flags says whether its settings may differ between sessions.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

use crawlmark_harness::plan::{LOCAL_IPS, REQUESTS_PER_CONNECTION, SAME_REQUEST};
use crawlmark_harness::trace::TRACE_RUN;
use crawlmark_results::run::report::{PROXY, PROXY_FROM, TARGET_PROCESSES, TLS_TRUST, UNVERIFIED};

use super::Resolved;
use super::bundled::BundledTarget;
use crate::cli::{self, RunArgs};
use crate::crawl::{Content, IdUse, Reuse};

/// Return the settings of a run; `proxy_from` is the flag or the variables that name its proxies.
pub(super) fn workload(
    args: &RunArgs,
    resolved: &Resolved,
    proxy_from: Option<String>,
) -> BTreeMap<String, String> {
    let (spec, bundled) = (&resolved.spec, resolved.bundled.as_ref());
    let (request, targets, options) = (&spec.request, &spec.targets, &spec.options);
    // Of a range that is longer than the run, the run has a sample.
    let shuffled = args.ids.unwrap_or(resolved.plan.ids);
    let list = args.list().map(|(_, file)| file.display().to_string());
    let is_same = targets.lines() == 1 && targets.asks_ids() == IdUse::No && !request.has_id();
    let proxies: Vec<String> = spec
        .proxies
        .iter()
        .flat_map(|proxies| &proxies.all)
        .map(|proxy| proxy.url.to_string())
        .collect();
    let trust = match &args.tls.cacert {
        _ if args.tls.insecure => UNVERIFIED.to_owned(),
        _ if bundled.is_some() => "the bundled target's authority".to_owned(),
        Some(file) => format!("--cacert {}", file.display()),
        None => "the system's authorities".to_owned(),
    };
    let settings = [
        ("method", Some(resolved.methods.clone())),
        ("headers", Some(request.header_names().join(", "))),
        ("body_bytes", Some(request.body_bytes().to_string())),
        ("expect", Some(spec.expect.to_string())),
        (
            "connect_timeout_us",
            Some(args.connect_timeout.as_micros().to_string()),
        ),
        (
            "urls",
            list.clone().filter(|_| args.requests_file.is_none()),
        ),
        (
            "requests_file",
            list.clone().filter(|_| args.requests_file.is_some()),
        ),
        ("lines", list.map(|_| targets.lines().to_string())),
        ("order", targets.is_drawn().then(|| "by weight".to_owned())),
        (SAME_REQUEST, is_same.then(|| true.to_string())),
        (
            REQUESTS_PER_CONNECTION,
            (spec.reuse != Reuse::default()).then(|| spec.reuse.to_string()),
        ),
        (LOCAL_IPS, spec.local_ips.as_ref().map(ToString::to_string)),
        (
            "robots",
            (!resolved.robots.is_empty()).then(|| "honor".to_owned()),
        ),
        (PROXY, (!proxies.is_empty()).then(|| proxies.join(", "))),
        (PROXY_FROM, proxy_from),
        (
            "shuffle",
            options.shuffle.as_ref().map(|_| shuffled.to_string()),
        ),
        (
            "content",
            (options.content == Content::Decoded).then(|| "decoded".to_owned()),
        ),
        (TLS_TRUST, spec.tls.is_some().then_some(trust)),
        // The standard library draws the keys of its hashers at random.
        (
            TRACE_RUN,
            args.connection
                .trace
                .map(|_| format!("{:016x}", RandomState::new().hash_one(()))),
        ),
    ];
    let settings = settings
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    let bundled = bundled.map(|bundled| of_target(args, bundled));
    let resolved = settings
        .chain(bundled.into_iter().flatten())
        .map(|(name, value)| (name.to_owned(), value));
    cli::settings(&args.typed.values).chain(resolved).collect()
}

/// Behaviour of the bundled target.
fn of_target(args: &RunArgs, target: &BundledTarget) -> [(&'static str, String); 14] {
    let config = &target.config;
    [
        ("target_profile", args.target.target_profile.to_string()),
        (TARGET_PROCESSES, target.processes.to_string()),
        ("target_latency", config.latency.to_string()),
        (
            "target_latency_per_in_flight",
            config.latency_per_in_flight.to_string(),
        ),
        ("target_handshake", config.handshake.to_string()),
        ("target_work", config.work.to_string()),
        ("target_stall", or_none(config.stall)),
        ("target_workers", or_none(config.workers)),
        ("target_keep_alive", or_none(config.keep_alive)),
        ("target_bandwidth", or_none(config.bandwidth)),
        ("target_accept", or_none(config.accept)),
        ("target_limit", config.limits.to_string()),
        ("target_faults", config.faults.to_string()),
        ("target_events", or_none(config.events)),
    ]
}

fn or_none(setting: Option<impl ToString>) -> String {
    setting.map_or_else(|| "none".to_owned(), |setting| setting.to_string())
}
