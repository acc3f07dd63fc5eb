//! Rows of a run: names and values, for the terminal and Markdown; the page has tables for some of
//! them.

use std::fmt::{Display, Write};

use super::finding::{NOTABLE, is_client_slow};
use super::gates::{is_what_stopped, parts, value};
use super::outcome::STORAGE_FAILURE;
use super::{merged, saved, times};
use crate::run::report::{
    BindingReport, BudgetReport, BusiestReport, HostBudgetReport, Ledger, LimitWords, PROXY,
    Report, RobotsReport, TLS_TRUST, ThrottlingReport, UNVERIFIED, WindowReport, Witness,
};
use crate::show::text::{bytes, counted, decimal, grouped, micros, rate_in_words, seconds};
use crawlmark_harness::process::signal_in_words;
use crawlmark_harness::stats::{Series, TlsCounts};
use crawlmark_harness::supervisor::Moved;
use crawlmark_harness::units::rounded_percent;

/// Name of the time in which all connections were in use.
const CONNECTIONS: &str = "connections";

/// Name of the time in which no limit held.
pub(super) const IDLE: &str = "idle";

/// A limit that was binding for less than this part of the time is not worth a word.
const SHOWN: f64 = 0.0005;

/// Note on connections in use when this client was slow.
const SLOW: &str =
    "\nthis client was slow, so its connections were in use for longer (see Validity)";

/// Reason why a run with retries was idle.
const LATER: &str =
    "\nidle: nothing was left to send, or only retries that waited for their backoff";

/// Return the summary of a run: names and values of one or several lines.
pub(super) fn rows(report: &Report) -> Vec<(&'static str, String)> {
    let totals = &report.totals;
    let mut rows = vec![
        ("got", super::got(report)),
        ("target", report.plan.run.target.clone()),
    ];
    rows.extend([("items", ledger(report)), ("rate", rate(report))]);
    rows.extend(
        report
            .saved
            .as_ref()
            .map(|crawl| ("saved", saved::row(crawl))),
    );
    rows.extend(
        report
            .merged
            .as_ref()
            .map(|parts| ("parts", merged::row(parts))),
    );
    rows.extend(
        report
            .robots
            .as_ref()
            .map(|robots| ("robots.txt", robots_row(robots, &report.ledger))),
    );
    if is_unsent(report) {
        // Its limits, its traffic and its CPU are those of the start alone.
        return rows;
    }
    rows.extend(times::rows(report));
    if !totals.attempts_by_status.is_empty() {
        rows.push(("statuses", counts(totals.attempts_by_status.iter())));
    }
    rows.extend(proxy(report).map(|row| ("proxy", row)));
    rows.extend(tls(report).map(|row| ("tls", row)));
    if totals.soft_blocked > 0 {
        rows.push((
            "challenged",
            format!(
                "{} answered with a challenge page",
                counted(totals.soft_blocked, "request")
            ),
        ));
    }
    if totals.redirects > 0 {
        rows.push((
            "redirects",
            format!(
                "{} followed, each a request of its own",
                grouped(totals.redirects)
            ),
        ));
    }
    if totals.retries > 0 || report.throttling.retries_denied > 0 {
        rows.push(("retries", retries(report)));
    }
    if totals.throttled > 0 || report.throttling.pauses > 0 {
        rows.push(("throttling", throttling(report)));
    }
    if let Some(pace) = report.throttling.learnt_per_s {
        rows.push((
            "adaptive",
            format!(
                "the target takes about {}/s (what it took once it had throttled)",
                decimal(pace)
            ),
        ));
    }
    if let Some(schedule) = &report.schedule {
        rows.push(("schedule", times::schedule(report, schedule)));
    }
    if let Some(budget) = &report.budget {
        rows.push(("budget", budget_row(report, budget)));
    }
    if let Some(budget) = &report.host_budget {
        rows.push(("per host", host_budget_row(report, budget)));
    }
    let limits = limited_by(&report.binding, LimitWords::of(report));
    let note = if merged::is_partly_used(report) {
        format!(" of {}", merged::time(report))
    } else {
        String::new()
    };
    let slow = if is_slow_with_connections(report) {
        SLOW
    } else {
        ""
    };
    let idle = if report.binding.idle >= NOTABLE && report.totals.retries > 0 {
        LATER
    } else {
        ""
    };
    rows.push(("limited by", limits + &note + slow + idle));
    if report.moved != Moved::default() {
        rows.push(("moved", moved(&report.moved)));
    }
    rows.push((
        "traffic",
        format!(
            "{} opened{}{}{}{}{}{}{}{}, {} sent, {} received",
            counted(totals.connections_opened, "connection"),
            protocols(report),
            not_kept(report),
            checked(report),
            in_brackets(totals.connections_unused, "never used"),
            in_brackets(totals.unsolicited, "closed for unsolicited bytes"),
            resent(totals.resent),
            in_brackets(totals.sessions_retired, "proxy sessions retired"),
            lookups(totals.lookups, totals.lookups_failed),
            bytes(totals.bytes_sent),
            bytes(totals.bytes_received)
        ),
    ));
    if totals.sources_used > 0 {
        rows.push(("sources", sources(report)));
    }
    rows.push(("client", client(report)));
    if let Some(note) = shared_machine(report) {
        rows.push(("note", note));
    }
    if let Some(witness) = &report.witness {
        rows.push((
            "witness",
            witness_row(witness, report.plan.run.workload.contains_key(PROXY)),
        ));
    }
    rows
}

/// True if this client was slow and its connections seem to be the limit.
fn is_slow_with_connections(report: &Report) -> bool {
    let [(_, longest), ..] = limits(&report.binding, LimitWords::of(report));
    is_client_slow(report) && longest == CONNECTIONS
}

/// True if nothing was sent, and nothing was to be.
pub(super) fn is_unsent(report: &Report) -> bool {
    report.totals.attempts == 0
        && report.totals.dropped == 0
        && report.shards.iter().all(|shard| shard.fault.is_none())
}

/// Return what robots.txt kept away, and why.
fn robots_row(robots: &RobotsReport, ledger: &Ledger) -> String {
    let RobotsReport {
        crawl_delay_s,
        with_rules,
        unreachable,
        hosts,
        ..
    } = robots;
    let with_rules = match (with_rules, hosts.as_slice()) {
        (1, [host]) => format!("{} has rules", host.host),
        (0, _) => "no host has rules".to_owned(),
        (several, _) => format!("{} with rules", counted(u64::from(*several), "host")),
    };
    let looked_at = counted(ledger.planned.saturating_sub(ledger.not_attempted), "item");
    let mut row = format!(
        "{} of {looked_at} skipped; {with_rules}",
        grouped(ledger.skipped)
    );
    if let Some(delay) = crawl_delay_s {
        let _ = write!(
            row,
            "; each host at most once per {} (crawl-delay)",
            seconds(*delay)
        );
    }
    if *unreachable > 0 {
        let _ = write!(
            row,
            "\nrobots.txt of {} cannot be fetched, so nothing of it may be crawled (RFC 9309): try again later, or use --robots ignore if \
             you are allowed to",
            counted(u64::from(*unreachable), "host")
        );
    }
    row
}

fn rate(report: &Report) -> String {
    let totals = &report.totals;
    if is_unsent(report) {
        return "nothing was sent".to_owned();
    }
    if let Some(ended) = ended_in_warmup(report) {
        return format!("none: {ended}");
    }
    let part = totals.good_share().filter(|part| *part < 1.0);
    format!(
        "{}/s good{}, {} requests/s, over {}; peak in flight {}",
        decimal(totals.good_per_s(&report.ledger)),
        part.map_or_else(String::new, |part| format!(
            " ({} of {} items/s)",
            rounded_percent(part),
            decimal(totals.items_per_s)
        )),
        decimal(totals.attempts_per_s),
        measured_time(report),
        grouped(totals.peak_in_flight)
    )
}

/// Return the time that the rates are over: `13.0 s (1.00 s warm-up excluded)`.
pub(super) fn measured_time(report: &Report) -> String {
    let warm_s = report.warmup.as_ref().map_or(0.0, |warm| warm.duration_s);
    let measured = seconds((report.totals.duration_s - warm_s).max(0.0));
    if warm_s > 0.0 {
        format!("{measured} ({} warm-up excluded)", seconds(warm_s))
    } else {
        measured
    }
}

/// Explain that a run ended within its warm-up; none of one that did not.
pub(super) fn ended_in_warmup(report: &Report) -> Option<String> {
    let warm_s = report.warmup.as_ref().map(|warm| warm.duration_s)?;
    let duration_s = report.totals.duration_s;
    let is_over = duration_s > warm_s;
    (!is_over).then(|| {
        format!(
            "the run ended after {}, within its warm-up of {}",
            seconds(duration_s),
            seconds(warm_s)
        )
    })
}

fn retries(report: &Report) -> String {
    let mut row = format!(
        "{}{}; {} succeeded first time; items took {}",
        grouped(
            report
                .totals
                .retries
                .saturating_sub(report.totals.redirects)
        ),
        match report.totals.redirects {
            0 => String::new(),
            redirects => format!(", and {} followed", counted(redirects, "redirect")),
        },
        counted(report.totals.ok_at_first, "item"),
        report
            .latency(Series::Item)
            .map_or_else(String::new, times::spectrum)
    );
    if report.throttling.retries_denied > 0 {
        let _ = write!(
            row,
            "\n{} items not retried: retry budget exhausted or queue full",
            grouped(report.throttling.retries_denied)
        );
    }
    row
}

fn throttling(report: &Report) -> String {
    let ThrottlingReport {
        pauses,
        paused_s,
        promises,
        honoured,
        violated,
        early_attempts,
        cut_pauses,
        ..
    } = report.throttling;
    let mut row = format!(
        "{} of requests throttled; {} completed no item",
        rounded_percent(report.throttling.throttled_share),
        rounded_percent(report.throttling.wasted_share)
    );
    if pauses > 0 {
        let _ = write!(
            row,
            "\n{}, {} per shard on average",
            format_args!("{} of all shards", counted(pauses, "pause")),
            seconds(paused_s)
        );
    }
    if let (Some(mean), Some(max)) = (
        report.throttling.recovery_mean_s,
        report.throttling.recovery_max_s,
    ) {
        let _ = write!(
            row,
            "; a shard's next good response came {} after a throttled one on average, {} at most",
            seconds(mean),
            seconds(max)
        );
    }
    let asked = counted(promises, "response") + " said how long to wait";
    let each = "(counted by each shard, overlapping ones once)";
    if violated > 0 {
        let (early, waits) = (
            counted(early_attempts, "request"),
            counted(honoured + violated, "wait"),
        );
        let _ = write!(
            row,
            "\n{early} sent too early: {} of {waits} violated {each}; {asked}",
            grouped(violated)
        );
    } else if honoured > 0 {
        let _ = write!(
            row,
            "\nno wait was violated, {} respected {each}; {asked}",
            grouped(honoured)
        );
    }
    if cut_pauses > 0 {
        let _ = write!(row, ", {} cut to --max-pause", grouped(cut_pauses));
    }
    row
}

/// Return the proxies of a run, with the times of their tunnels; none of a run without any.
fn proxy(report: &Report) -> Option<String> {
    let mut row = report.plan.run.workload.get(PROXY)?.clone();
    if let Some(tunnels) = report
        .latency(Series::Tunnel)
        .filter(|tunnels| tunnels.count > 0)
    {
        let _ = write!(
            row,
            "\n{}; {}",
            counted(tunnels.count, "tunnel"),
            times::spectrum(tunnels)
        );
    }
    Some(row)
}

/// Return the TLS handshakes of a run, with their times and what the client trusted; none of a run
/// without TLS.
fn tls(report: &Report) -> Option<String> {
    let trust = report.plan.run.workload.get(TLS_TRUST)?;
    let TlsCounts {
        full,
        resumed,
        sessions,
    } = report.tls.clone().unwrap_or_default();
    let mut row = format!(
        "{} in full, {} resumed",
        counted(full, "handshake"),
        grouped(resumed)
    );
    if let Some(times) = report
        .latency(Series::Tls)
        .map(times::spectrum)
        .filter(|times| !times.is_empty())
    {
        let _ = write!(row, "; {times}");
    }
    if !sessions.is_empty() {
        let _ = write!(row, "\n{}", counts(sessions.iter()));
    }
    if trust == UNVERIFIED {
        row +=
            "\ncertificates were not verified (--insecure): the responses may be another server's";
    }
    Some(row)
}

/// Limits by their names, the one that set the pace for longest first.
pub(crate) fn limits(binding: &BindingReport, words: LimitWords) -> [(f64, &'static str); 6] {
    let BindingReport {
        rate,
        concurrency,
        pause,
        target,
        storage,
        idle,
    } = *binding;
    let mut parts = [
        (rate, words.rate),
        (concurrency, CONNECTIONS),
        (pause, "throttle pauses"),
        (target, words.target),
        (storage, "storing results"),
        (idle, IDLE),
    ];
    parts.sort_by(|a, b| b.0.total_cmp(&a.0));
    parts
}

/// The limits that set the pace, the longest first, with the parts of the time in which each did.
pub(crate) fn limited_by(binding: &BindingReport, words: LimitWords) -> String {
    let shown = limits(binding, words)
        .into_iter()
        .filter(|(part, _)| *part >= SHOWN);
    shown
        .map(|(part, by)| format!("{by} {}", rounded_percent(part)))
        .collect::<Vec<_>>()
        .join(", ")
}

fn moved(moved: &Moved) -> String {
    let mut parts = Vec::new();
    if moved.ranges > 0 {
        parts.push(format!(
            "{} to shards that were done ({})",
            counted(moved.ids, "item"),
            times(moved.ranges)
        ));
    }
    if moved.shares > 0 {
        parts.push(format!(
            "budget to shards that could use it ({})",
            times(moved.shares)
        ));
    }
    parts.join("; ")
}

/// Some of the connections and their fate, in brackets; empty without any.
fn in_brackets(connections: u64, fate: &str) -> String {
    if connections == 0 {
        String::new()
    } else {
        format!(" ({} {fate})", grouped(connections))
    }
}

/// The source addresses, and the sign of a limit that they share: one that was never used is
/// throttled.
fn sources(report: &Report) -> String {
    let totals = &report.totals;
    let used = counted(totals.sources_used, "source address");
    match totals.sources_throttled_at_first {
        0 => format!("{used} used"),
        throttled => format!(
            "{used} used, {} throttled at the first request: unless they were used shortly before the run, the target limits several \
             addresses together, for example by prefix, and more of the same prefixes do not help",
            grouped(throttled)
        ),
    }
}

/// The lookups of names during the run, in brackets; empty without any.
fn lookups(lookups: u64, failed: u64) -> String {
    let kept = if failed == 0 {
        String::new()
    } else {
        format!(", {} failed and kept the old addresses", grouped(failed))
    };
    if lookups == 0 {
        String::new()
    } else {
        format!(" (names looked up again: {}{kept})", grouped(lookups))
    }
}

/// The connections by protocol, in brackets; empty where all speak HTTP/1.1, as by default.
fn protocols(report: &Report) -> String {
    let by_protocol = &report.totals.connections_by_protocol;
    if !report.plan.run.workload.contains_key("http") || by_protocol.is_empty() {
        return String::new();
    }
    format!(" ({})", counts(by_protocol.iter()))
}

/// Requests that were sent once more, in brackets; empty without any.
fn resent(requests: u64) -> String {
    if requests == 0 {
        String::new()
    } else {
        format!(
            " ({} sent again, because the target had not started them)",
            counted(requests, "request")
        )
    }
}

fn times(n: u64) -> String {
    if n == 1 {
        "once".to_owned()
    } else {
        format!("{} times", grouped(n))
    }
}

fn ledger(report: &Report) -> String {
    let ledger = &report.ledger;
    let parts = |is_shown: &dyn Fn(u64, &str) -> bool| {
        let shown = ledger.states().filter(|(_, state, n)| is_shown(*n, state));
        let at_most = |state: &str| if state == "lost" { "up to " } else { "" };
        shown
            .map(|(_, state, n)| format!("{}{} {state}", at_most(state), grouped(n)))
            .collect::<Vec<_>>()
    };
    // A range that was to be larger than the time says nothing.
    let stopped = || {
        report.plan.run.duration.filter(|_| report.interrupted)?;
        match report.interrupted_by {
            Some(signal) => Some(signal_in_words(signal)),
            None => stopping(report).or_else(|| {
                report
                    .storage_failure
                    .as_ref()
                    .map(|_| STORAGE_FAILURE.to_owned())
            }),
        }
    };
    if let Some(end) = super::outcome::time_limit(report).or_else(stopped) {
        let shown = |n: u64, state: &str| {
            ["ok", "failed"].contains(&state) || (n > 0 && state != "not attempted")
        };
        return format!("{}; stopped by {end}", parts(&shown).join(", "));
    }
    let before = merged::finished_before(report);
    let planned = ledger
        .planned
        .saturating_add(before.map_or(0, |(items, _)| items));
    let before = before.map(|(items, by)| format!("{} {by}", grouped(items)));
    format!(
        "{} planned = {}",
        grouped(planned),
        parts(&|n, _| n > 0)
            .into_iter()
            .chain(before)
            .collect::<Vec<_>>()
            .join(" + ")
    )
}

/// Describe the condition that stopped a run: `--stop-if: error_rate[2s] was 91 %, not < 20%`.
fn stopping(report: &Report) -> Option<String> {
    let condition = report.stopped_by.as_ref()?;
    let gate = report
        .gates
        .iter()
        .find(|gate| is_what_stopped(gate, report));
    let seen = gate.and_then(|gate| Some((parts(gate)?, value(gate)?)));
    Some(match seen {
        Some(((metric, limit), value)) => format!("--stop-if: {metric} was {value}, not {limit}"),
        None => format!("--stop-if '{condition}'"),
    })
}

fn budget_row(report: &Report, budget: &BudgetReport) -> String {
    let row = format!(
        "{}, {} used{}; {}",
        rate_in_words(&budget.rate),
        rounded_percent(budget.utilisation),
        merged::idle_budget(report, budget.utilisation),
        kept(report, budget.kept, budget.unaudited_shards)
    );
    audited(
        row,
        (budget.worst_window.as_ref(), &budget.busiest),
        report.shard_word(),
    )
}

fn host_budget_row(report: &Report, budget: &HostBudgetReport) -> String {
    let row = format!(
        "{} and at most {} at once for each; {}",
        rate_in_words(&budget.rate),
        grouped(budget.burst),
        kept(report, budget.kept, budget.unaudited_shards)
    );
    audited(
        row,
        (budget.worst_window.as_ref(), &budget.busiest),
        report.shard_word(),
    )
}

/// Adds the windows that were looked at.
fn audited(
    mut row: String,
    (worst, busiest): (Option<&WindowReport>, &[BusiestReport]),
    word: &str,
) -> String {
    let at = |host: Option<u32>| host.map_or_else(String::new, |host| format!(", host {host}"));
    // One in which nothing was sent says nothing.
    if let Some(worst) = worst.filter(|worst| worst.admitted > 0) {
        let within = if worst.width_ms > 0.0 {
            format!("in {}", micros(worst.width_ms * 1e3))
        } else {
            "at once".to_owned()
        };
        let _ = write!(
            row,
            "\nclosest to the limit: {} of {} allowed {within} ({word} {}{})",
            grouped(worst.admitted),
            grouped(worst.allowed),
            worst.shard,
            at(worst.host)
        );
    }
    if !busiest.is_empty() {
        let window = |window: &BusiestReport| {
            let width = micros(window.width_ms as f64 * 1e3);
            format!(
                "{} of {} in {width}",
                grouped(window.admitted),
                grouped(window.allowed)
            )
        };
        let windows: Vec<String> = busiest.iter().map(window).collect();
        let _ = write!(row, "\nbusiest, all {word}s: {}", windows.join(", "));
    }
    row
}

fn kept(report: &Report, kept: bool, unaudited_shards: usize) -> String {
    match unaudited(report, unaudited_shards) {
        _ if !kept => "EXCEEDED".to_owned(),
        None => "never exceeded in any window".to_owned(),
        Some(unaudited) => format!("never exceeded in any window ({unaudited})"),
    }
}

/// Describe the shards whose use of a budget is unknown:
/// `1 shard ended early and could not be checked`; none without any.
pub(crate) fn unaudited(report: &Report, shards: usize) -> Option<String> {
    let missing = report
        .merged
        .as_ref()
        .map_or(0, |merged| merged.missing_parts as usize)
        .min(shards);
    let missing_parts = merged::missing(report)
        .filter(|_| missing > 0)
        .map(|parts| {
            // A part that never began sent nothing.
            let is_unknown = parts.ends_with("result");
            if is_unknown {
                parts + " could not be checked"
            } else {
                parts
            }
        });
    let ended = (shards > missing).then(|| counted((shards - missing) as u64, report.shard_word()));
    let ended = ended.map(|shards| shards + " ended early and could not be checked");
    let unaudited: Vec<String> = missing_parts.into_iter().chain(ended).collect();
    (!unaudited.is_empty()).then(|| unaudited.join(", "))
}

/// CPU of the shards per request, µs, over those that reported it; none when none did, and without
/// requests.
pub(crate) fn cpu_us_per_attempt(report: &Report) -> Option<f64> {
    let usages = || {
        report
            .shards
            .iter()
            .filter_map(|shard| Some((shard.totals.attempts, shard.usage.cpu_s()?)))
    };
    let cpu: f64 = usages().map(|(_, cpu)| cpu).sum();
    let attempts: u64 = usages().map(|(attempts, _)| attempts).sum();
    (attempts > 0).then(|| cpu * 1e6 / attempts as f64)
}

fn client(report: &Report) -> String {
    let rss = report
        .shards
        .iter()
        .filter_map(|shard| shard.usage.max_rss_bytes)
        .max()
        .unwrap_or(0);
    let used = match cpu_us_per_attempt(report) {
        Some(us) => format!(
            "{} of CPU per request, {} of memory each at most",
            micros(us),
            bytes(rss)
        ),
        None if report
            .shards
            .iter()
            .any(|shard| shard.usage.cpu_s().is_some()) =>
        {
            format!(
                "no request to share its CPU time, {} of memory each at most",
                bytes(rss)
            )
        }
        None => "CPU and memory unknown: no shard reported them".to_owned(),
    };
    if let Some(parts) = &report.merged {
        return format!("{}, {used}", merged::parts(parts));
    }
    let shards = counted(report.shards.len() as u64, "shard");
    format!(
        "{shards}, {used}; supervisor {} of a core",
        rounded_percent(report.supervisor.cpu_share)
    )
}

/// Says how many more connections the target saw.
fn checked(report: &Report) -> String {
    let checks = report.check_connections.filter(|checks| *checks > 0);
    checks.map_or_else(String::new, |checks| {
        format!(
            " (and {} before the start, to check hosts)",
            grouped(checks)
        )
    })
}

/// Says so when connections were not kept as they should be.
fn not_kept(report: &Report) -> String {
    let (opened, attempts) = (report.totals.connections_opened, report.totals.attempts);
    // Each host may have as many as there are requests in flight, and a few may be lost.
    let usual = u64::from(report.plan.run.connections)
        * 2
        * u64::from(report.plan.run.per_host.hosts.max(1));
    if opened <= usual || opened * 10 <= attempts {
        return String::new();
    }
    format!(
        " (one for every {} requests: they were not kept)",
        decimal(attempts as f64 / opened as f64)
    )
}

/// Says so when client and target compete for CPUs: what is then measured is neither's ceiling.
fn shared_machine(report: &Report) -> Option<String> {
    let cores = report.environment.cores;
    (report.environment.colocated && report.shards.len() >= cores).then(|| {
        format!("client and target share {cores} CPUs, so this is not the maximum of either")
    })
}

fn witness_row(witness: &Witness, is_proxied: bool) -> String {
    match (witness.agrees, witness.cut_off) {
        (Some(true), 0) if is_proxied => {
            "the target's own counts match: every request, status and ID (a proxy opens connections of its own)"
                .to_owned()
        }
        (Some(true), 0) => "the target's own counts match: every request, status, ID and connection".to_owned(),
        (Some(true), cut_off) => {
            format!(
                "the target's own counts match; {cut_off} requests timed out or were cut off at the end, and may not have arrived"
            )
        }
        (Some(false), _) => format!("the target's own counts DIFFER: {}", witness.differences.join("; ")),
        (None, _) => {
            let again = witness.ledger.get("duplicate_ids").and_then(serde_json::Value::as_u64).unwrap_or(0);
            format!(
                "the target's own counts cannot be compared: a shard or a process of the target ended early; it had {} for IDs that it had \
                 answered before",
                counted(again, "request")
            )
        }
    }
}

/// Names with their counts, the first of them where they are many.
fn counts<'a>(counted: impl ExactSizeIterator<Item = (impl Display, &'a u64)>) -> String {
    const MOST: usize = 20;
    let more = counted.len().saturating_sub(MOST);
    let more = (more > 0).then(|| format!("and {} more", grouped(more as u64)));
    let named = counted
        .take(MOST)
        .map(|(name, n)| format!("{name}: {}", grouped(*n)));
    named.chain(more).collect::<Vec<_>>().join("  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_window_is_named_only_if_anything_was_sent_in_it() {
        let row = |admitted, width_ms| {
            let worst = WindowReport {
                shard: 1,
                host: None,
                width_ms,
                admitted,
                allowed: 8,
            };
            audited("kept".to_owned(), (Some(&worst), &[]), "shard")
        };
        assert_eq!(row(0, 0.0), "kept");
        assert_eq!(
            row(3, 0.0),
            "kept\nclosest to the limit: 3 of 8 allowed at once (shard 1)"
        );
        assert_eq!(
            row(3, 14.0),
            "kept\nclosest to the limit: 3 of 8 allowed in 14.0 ms (shard 1)"
        );
    }
}
