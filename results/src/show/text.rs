//! The report as text: for a terminal and for Markdown. Pure functions; printing happens elsewhere.

mod announcement;
mod cut;
pub(crate) mod gates;
mod history;
mod numbers;
mod percentiles;
pub(crate) mod times;

use std::fmt::{Display, Write};

pub use self::announcement::announcement;
pub use self::cut::cut;
pub(crate) use self::gates::seen;
pub use self::gates::{gates_line, must_hold};
pub use self::history::history;
pub(crate) use self::numbers::seconds;
pub use self::numbers::{bytes, decimal, grouped_f64};
pub use self::percentiles::percentiles;
pub(crate) use self::times::spectrum;
use crate::run::report::{
    BindingReport, BudgetReport, BusiestReport, Held, HostBudgetReport, Ledger, MannersReport, Report, ShardReport,
    Totals, WindowReport, Witness, error_in_words,
};
use crate::show::doc::{Column, Doc, Table};
use crawlmark_harness::stats::Series;
use crawlmark_harness::supervisor::Moved;
pub(crate) use crawlmark_harness::units::percent;
use crawlmark_harness::units::rounded_percent;
pub use crawlmark_harness::units::{grouped, micros};

/// A limit that was binding for less than this part of the time is not worth a word.
const SHOWN: f64 = 0.0005;

/// The summary for a terminal of so many columns.
#[must_use]
pub fn text(report: &Report, columns: usize) -> String {
    let mut out = String::new();
    for (name, value) in rows(report) {
        write_row(&mut out, name, &value, columns);
    }
    gates::write_text(&mut out, report, columns);
    out
}

/// `line` cut between words so that no part is wider than `columns`, unless a single word is.
#[must_use]
pub fn wrapped(line: &str, columns: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = line;
    while rest.chars().count() > columns {
        let fits = |(at, _): &(usize, &str)| rest[..*at].chars().count() <= columns;
        let Some((at, _)) = rest.match_indices(' ').take_while(fits).last().or_else(|| rest.match_indices(' ').next())
        else {
            break;
        };
        parts.push(rest[..at].trim_end());
        rest = rest[at..].trim_start();
    }
    parts.push(rest);
    parts
}

/// The summary as Markdown, for a result directory or a step summary.
#[must_use]
pub fn markdown(report: &Report) -> String {
    Doc::new(heading(report))
        .text(format!("{}, crawlmark {}", report.started_at, report.crawlmark_version))
        .facts(rows(report))
        .table(gates::table(report))
        .table(shards(report))
        .markdown()
}

fn shards(report: &Report) -> Table {
    let columns = ["shard", "ids", "items/s", "p50", "p99", "CPU per attempt", "CPU"].map(Column::numbers);
    let row = |shard: &ShardReport| {
        let ((p50, p99), (per_attempt, share)) = (shard_percentiles(shard), shard_cpu(shard));
        let ids = format!("{}..{}", grouped(shard.id_range.start), grouped(shard.id_range.end));
        let rate = grouped_f64(shard.totals.items_per_s);
        vec![shard.shard.to_string(), ids, rate, p50, p99, per_attempt, share, shard_end(shard)]
    };
    Table {
        columns: columns.into_iter().chain([Column::words("exit")]).collect(),
        rows: report.shards.iter().map(row).collect(),
        ..Table::default()
    }
}

/// Return the name of the run, and a note when it is partial.
pub(crate) fn heading(report: &Report) -> String {
    let partial = match (&report.stopped_by, report.interrupted) {
        (Some(_), _) => " (stopped by a threshold, partial)",
        (None, true) => " (interrupted, partial)",
        (None, false) => "",
    };
    let name = if report.name.is_empty() { "crawl" } else { &report.name };
    format!("{}{partial}", name.replace('\n', " "))
}

/// Writes a named value, in as many lines of so many columns as it needs: those after the first begin where the value does.
pub fn write_row(out: &mut String, name: &str, value: &str, columns: usize) {
    const NAME: usize = 14;
    let mut name = name;
    for line in value.lines().flat_map(|line| wrapped(line, columns.saturating_sub(NAME))) {
        let _ = writeln!(out, "  {name:<11} {line}");
        name = "";
    }
}

/// Return the summary of a run: names and values of one or several lines.
pub(crate) fn rows(report: &Report) -> Vec<(&'static str, String)> {
    let totals = &report.totals;
    let mut rows =
        vec![("target", report.plan.run.target.clone()), ("items", ledger(&report.ledger)), ("rate", rate(report))];
    if is_unsent(report) {
        // Its limits, its traffic and its CPU are those of the start alone.
        rows.push(("validity", validity(report)));
        return rows;
    }
    rows.extend(times::rows(report));
    if !totals.attempts_by_status.is_empty() {
        rows.push(("statuses", counts(totals.attempts_by_status.iter())));
    }
    if !totals.errors_by_kind.is_empty() {
        rows.push(("errors", counts(totals.errors_by_kind.iter().map(|(kind, n)| (error_in_words(*kind), n)))));
    }
    if totals.soft_blocked > 0 {
        rows.push(("blocked", format!("{} challenge pages in place of answers", grouped(totals.soft_blocked))));
    }
    if totals.retries > 0 || report.manners.retries_denied > 0 {
        rows.push(("retries", retries(report)));
    }
    if totals.throttled > 0 || report.manners.pauses > 0 {
        rows.push(("throttling", throttling(report)));
    }
    if let Some(schedule) = &report.schedule {
        rows.push(("schedule", times::schedule(schedule, totals)));
    }
    if let Some(budget) = &report.budget {
        rows.push(("budget", budget_row(budget)));
    }
    if let Some(budget) = &report.host_budget {
        rows.push(("per host", host_budget_row(budget)));
    }
    rows.push(("limited by", limited_by(&report.binding, budget_flag(report))));
    if report.moved != Moved::default() {
        rows.push(("moved", moved(&report.moved)));
    }
    rows.push((
        "traffic",
        format!(
            "{} connections opened{}{}, {} sent, {} received",
            grouped(totals.connections_opened),
            not_kept(report),
            checked(report),
            bytes(totals.bytes_sent),
            bytes(totals.bytes_received)
        ),
    ));
    rows.push(("client", client(report)));
    if let Some(note) = shared_machine(report) {
        rows.push(("note", note));
    }
    if let Some(witness) = &report.witness {
        rows.push(("witness", witness_row(witness)));
    }
    rows.push(("validity", validity(report)));
    rows
}

/// True if nothing was sent, and nothing was to be.
fn is_unsent(report: &Report) -> bool {
    report.totals.attempts == 0 && report.totals.dropped == 0 && report.shards.iter().all(|shard| shard.fault.is_none())
}

fn rate(report: &Report) -> String {
    let totals = &report.totals;
    if is_unsent(report) {
        return "nothing was sent".to_owned();
    }
    let warm_s = report.warmup.as_ref().map(|warm| warm.duration_s);
    if let Some(warm_s) = warm_s.filter(|warm_s| totals.duration_s <= *warm_s) {
        let ended = seconds(totals.duration_s);
        return format!("none: the run ended after {ended}, within its warm-up of {}", seconds(warm_s));
    }
    format!(
        "{} items/s{} over {}{} ({} attempts/s, {} in flight at most)",
        decimal(totals.items_per_s),
        good_part(totals).map_or_else(String::new, |part| format!(", {part} of it good,")),
        seconds(totals.duration_s),
        warm_s.map_or_else(String::new, |warm_s| format!(", the first {} left out", seconds(warm_s))),
        decimal(totals.attempts_per_s),
        grouped(totals.peak_in_flight)
    )
}

/// Good part of the rate, unless all of it is good.
pub(crate) fn good_part(totals: &Totals) -> Option<String> {
    totals.good_share().filter(|part| *part < 1.0).map(rounded_percent)
}

fn retries(report: &Report) -> String {
    let mut row = format!(
        "{}; {} items succeeded first time; items took {}",
        grouped(report.totals.retries),
        grouped(report.totals.ok_at_first),
        report.latency(Series::Item).map_or_else(String::new, times::spectrum)
    );
    if report.manners.retries_denied > 0 {
        let _ = write!(
            row,
            "\n{} items not retried: retry budget exhausted or queue full",
            grouped(report.manners.retries_denied)
        );
    }
    row
}

fn throttling(report: &Report) -> String {
    let MannersReport { pauses, paused_s, promises, honoured, violated, early_attempts, cut_pauses, .. } =
        report.manners;
    let mut row = format!(
        "{} of attempts throttled, {} brought no item",
        percent(report.manners.throttled_share),
        percent(report.manners.wasted_share)
    );
    if pauses > 0 {
        let _ = write!(
            row,
            "\n{}, {} per shard on average",
            if pauses == 1 {
                "1 pause of all shards".to_owned()
            } else {
                format!("{} pauses of all shards", grouped(pauses))
            },
            seconds(paused_s)
        );
    }
    if let (Some(mean), Some(max)) = (report.manners.recovery_mean_s, report.manners.recovery_max_s) {
        let _ = write!(row, "; recovery took {} on average, {} at most", seconds(mean), seconds(max));
    }
    if honoured + violated > 0 {
        let _ = write!(
            row,
            "\n{} said how long to wait; the shards together kept {} such waits and broke {}",
            if promises == 1 { "1 answer".to_owned() } else { format!("{} answers", grouped(promises)) },
            grouped(honoured),
            grouped(violated)
        );
    }
    if early_attempts > 0 {
        let _ = write!(row, ", {} attempts came early", grouped(early_attempts));
    }
    if cut_pauses > 0 {
        let _ = write!(row, ", {} cut to --max-pause", grouped(cut_pauses));
    }
    row
}

/// The flag of the rate that limited a run.
fn budget_flag(report: &Report) -> &'static str {
    if Held::run(report).is_rate_per_host() { "--per-host-rate" } else { "--rate" }
}

/// The limits that set the pace, the longest first.
fn limited_by(binding: &BindingReport, flag: &'static str) -> String {
    let BindingReport { rate, concurrency, pause, target, idle } = *binding;
    let mut parts = [
        (rate, flag),
        (concurrency, "connections"),
        (pause, "throttle pauses"),
        (target, "the target's quota"),
        (idle, "idle"),
    ];
    parts.sort_by(|a, b| b.0.total_cmp(&a.0));
    let shown = parts.iter().filter(|(part, _)| *part >= SHOWN);
    let shown: Vec<String> = shown.map(|(part, by)| format!("{by} {}", percent(*part))).collect();
    shown.join(", ")
}

fn moved(moved: &Moved) -> String {
    let mut parts = Vec::new();
    if moved.ranges > 0 {
        parts.push(format!("{} items to shards that were done ({})", grouped(moved.ids), times(moved.ranges)));
    }
    if moved.shares > 0 {
        parts.push(format!("budget to shards that could use it ({})", times(moved.shares)));
    }
    parts.join("; ")
}

fn times(n: u64) -> String {
    if n == 1 { "once".to_owned() } else { format!("{} times", grouped(n)) }
}

fn ledger(ledger: &Ledger) -> String {
    let states = ledger.states().filter(|(.., n)| *n > 0);
    let parts: Vec<String> = states.map(|(_, state, n)| format!("{} {state}", grouped(n))).collect();
    format!("{} planned = {}", grouped(ledger.planned), parts.join(" + "))
}

fn budget_row(budget: &BudgetReport) -> String {
    let row = format!(
        "{} asked, {} used; {}",
        budget.rate,
        percent(budget.utilisation),
        kept(budget.kept, budget.unaudited_shards)
    );
    audited(row, budget.worst_window.as_ref(), &budget.busiest)
}

fn host_budget_row(budget: &HostBudgetReport) -> String {
    let row = format!(
        "{} and at most {} at once asked for each; {}",
        budget.rate,
        grouped(budget.burst),
        kept(budget.kept, budget.unaudited_shards)
    );
    audited(row, budget.worst_window.as_ref(), &budget.busiest)
}

/// Adds the windows that were looked at.
fn audited(mut row: String, worst: Option<&WindowReport>, busiest: &[BusiestReport]) -> String {
    let at = |host: Option<u32>| host.map_or_else(String::new, |host| format!(", host {host}"));
    if let Some(worst) = worst {
        let _ = write!(
            row,
            "\nclosest: {} of {} allowed within {} (shard {}{})",
            grouped(worst.admitted),
            grouped(worst.allowed),
            micros(worst.width_ms * 1e3),
            worst.shard,
            at(worst.host)
        );
    }
    if !busiest.is_empty() {
        let window = |window: &BusiestReport| {
            let width = micros(window.width_ms as f64 * 1e3);
            format!("{} of {} in {width}", grouped(window.admitted), grouped(window.allowed))
        };
        let windows: Vec<String> = busiest.iter().map(window).collect();
        let _ = write!(row, "\nbusiest, all shards: {}", windows.join(", "));
    }
    row
}

fn kept(kept: bool, unaudited_shards: usize) -> String {
    match (kept, unaudited_shards) {
        (true, 0) => "never exceeded in any window".to_owned(),
        (true, missing) => format!("never exceeded in any window (unknown for shards that ended early: {missing})"),
        (false, _) => "EXCEEDED".to_owned(),
    }
}

/// CPU of the shards per attempt, us, over those that told; none when none did, and without attempts.
pub(crate) fn cpu_us_per_attempt(report: &Report) -> Option<f64> {
    let usages = || report.shards.iter().filter_map(|shard| Some((shard.totals.attempts, shard.usage.cpu_s()?)));
    let cpu: f64 = usages().map(|(_, cpu)| cpu).sum();
    let attempts: u64 = usages().map(|(attempts, _)| attempts).sum();
    (attempts > 0).then(|| cpu * 1e6 / attempts as f64)
}

fn client(report: &Report) -> String {
    let rss = report.shards.iter().filter_map(|shard| shard.usage.max_rss_bytes).max().unwrap_or(0);
    let used = match cpu_us_per_attempt(report) {
        Some(us) => format!("{us:.2} µs of CPU per attempt, {} of memory each at most", bytes(rss)),
        None if report.shards.iter().any(|shard| shard.usage.cpu_s().is_some()) => {
            format!("no attempt to share its CPU time, {} of memory each at most", bytes(rss))
        }
        None => "CPU and memory unknown: no shard reported them".to_owned(),
    };
    let shards =
        if report.shards.len() == 1 { "1 shard".to_owned() } else { format!("{} shards", report.shards.len()) };
    format!("{shards}, {used}; supervisor {} of a core", percent(report.supervisor.cpu_share))
}

/// Says how many more connections the target saw.
fn checked(report: &Report) -> String {
    let checks = report.check_connections.filter(|checks| *checks > 0);
    checks.map_or_else(String::new, |checks| format!(" (and {} before the start, to check hosts)", grouped(checks)))
}

/// Says so when connections were not kept as they should be.
fn not_kept(report: &Report) -> String {
    let (opened, attempts) = (report.totals.connections_opened, report.totals.attempts);
    // Each host may have as many as there are requests in flight, and a few may be lost.
    let usual = u64::from(report.plan.run.connections) * 2 * u64::from(report.plan.run.per_host.hosts.max(1));
    if opened <= usual || opened * 10 <= attempts {
        return String::new();
    }
    format!(" (one for every {} attempts: they were not kept)", decimal(attempts as f64 / opened as f64))
}

/// Says so when client and target compete for CPUs: what is then measured is neither's ceiling.
fn shared_machine(report: &Report) -> Option<String> {
    let cores = report.environment.cores;
    (report.environment.colocated && report.shards.len() >= cores)
        .then(|| format!("client and target share {cores} CPUs, so this is not the maximum of either"))
}

fn witness_row(witness: &Witness) -> String {
    match (witness.agrees, witness.cut_off) {
        (Some(true), 0) => "the target's own counts match: every attempt, status, ID and connection".to_owned(),
        (Some(true), cut_off) => {
            format!("the target's own counts match; {cut_off} requests were cut off and may not have arrived")
        }
        (Some(false), _) => format!("the target's own counts DIFFER: {}", witness.differences.join("; ")),
        (None, _) => {
            "the target's own counts cannot be compared: a shard or a process of the target ended early".to_owned()
        }
    }
}

fn validity(report: &Report) -> String {
    let validity = &report.validity;
    let mut row = validity.verdict.name().to_owned();
    // Without a request there was nothing to check.
    if !is_unsent(report) {
        let _ = write!(row, " ({} checks", validity.checked.len());
        for not_made in validity.not_made() {
            let _ = write!(row, "; {not_made}");
        }
        row.push(')');
    }
    for reason in &validity.reasons {
        let _ = write!(row, "\n- {reason}");
    }
    row
}

/// Median and 99th percentile of a shard's service times.
pub(crate) fn shard_percentiles(shard: &ShardReport) -> (String, String) {
    let service = shard.latency.get(Series::ServiceOk.name());
    let shown = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), micros);
    (shown(service.and_then(|s| s.p50_us)), shown(service.and_then(|s| s.p99_us)))
}

/// Return the fault of the shard, or the ends of its processes.
pub(crate) fn shard_end(shard: &ShardReport) -> String {
    shard.fault.clone().unwrap_or_else(|| shard.exits.join(", "))
}

/// CPU per attempt, and of a CPU.
pub(crate) fn shard_cpu(shard: &ShardReport) -> (String, String) {
    let shown = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let of_a_cpu = shard.usage.cpu_share.map(rounded_percent);
    (shown(shard.usage.cpu_us_per_attempt.map(micros)), shown(of_a_cpu))
}

fn counts<'a>(counted: impl Iterator<Item = (impl Display, &'a u64)>) -> String {
    counted.map(|(name, n)| format!("{name}: {}", grouped(*n))).collect::<Vec<_>>().join("  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_between_words() {
        assert_eq!(wrapped("one two  three four", 9), ["one two", "three", "four"]);
        assert_eq!(wrapped("one", 2), ["one"]);
        assert_eq!(wrapped("seventeen is a word", 4), ["seventeen", "is a", "word"]);
        assert_eq!(wrapped("", 5), [""]);
    }
}
