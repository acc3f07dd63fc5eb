//! The times of a run, and what they are worth.

use std::collections::BTreeMap;

use crate::run::report::{
    Latency, LimitEvidence, LimitName, Report, ScheduleReport, Verdict, per_host_rate, quota,
};
use crate::show::doc::{Column, Doc, Table};
use crate::show::text::{counted, grouped, micros, rate_in_words, seconds};
use crawlmark_harness::sample::ErrorKind;
use crawlmark_harness::stats::Series;
use crawlmark_harness::units::rounded_percent;
use crawlmark_harness::wire::Binding;

/// Meaning of a closed loop's times, in one sentence.
const UNCORRECTED: &str = "closed loop: service time, not corrected for coordinated omission";

/// Meaning of an open loop's times, in one sentence.
const CORRECTED: &str =
    "open loop: from when each request was scheduled, corrected for coordinated omission";

/// Meaning of a dash in place of a percentile.
const TOO_FEW: &str = "\"-\": too few samples (fewer than ten above the percentile).";

/// Times of a run: those from when requests were scheduled where they exist.
pub(super) enum Clocked<'a> {
    Response(&'a Latency),
    Service(&'a Latency),
    Nothing,
}

impl<'a> Clocked<'a> {
    pub(super) fn of(report: &'a Report) -> Self {
        let known = |series| {
            report
                .latency(series)
                .filter(|latency| latency.count + latency.censored > 0)
        };
        match (known(Series::ResponseOk), known(Series::ServiceOk)) {
            (Some(response), _) => Self::Response(response),
            (None, Some(service)) => Self::Service(service),
            (None, None) => Self::Nothing,
        }
    }

    /// The name of the series.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Response(_) => "response",
            Self::Service(_) | Self::Nothing => "service",
        }
    }

    pub(super) const fn latency(&self) -> Option<&'a Latency> {
        match self {
            Self::Response(latency) | Self::Service(latency) => Some(latency),
            Self::Nothing => None,
        }
    }
}

/// Waits that make a percentile longer by less than this part, or by less than a millisecond, need
/// no explanation.
const NOTABLE: f64 = 1.1;

/// Series of the times that opening a connection takes.
const OPENING: [Series; 3] = [Series::Connect, Series::Tunnel, Series::Tls];

/// Sum of the times of a series, µs.
fn spent(report: &Report, series: Series) -> f64 {
    report.latency(series).map_or(0.0, |times| {
        times.mean_us.unwrap_or(0.0) * times.count as f64
    })
}

/// The rows on times.
pub(super) fn rows(report: &Report) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    let service = report
        .latency(Series::ServiceOk)
        .filter(|service| service.count + service.censored > 0);
    let response = report
        .latency(Series::ResponseOk)
        .filter(|response| response.count + response.censored > 0);
    if let Some(response) = response {
        let mut row = format!("{}\n{CORRECTED}", spectrum(response));
        if let Some(difference) = service.and_then(|service| difference(report, response, service))
        {
            row = format!("{row}\n{difference}");
        }
        if let Some(cut_off) = cut_off(response, service) {
            row = format!("{row}\n{cut_off}");
        }
        if let Some(dropped) = found_queue_full(report) {
            row = format!("{row}\n{dropped}");
        }
        if let Some(slack) = slack(report) {
            row = format!("{row}\n{slack}");
        }
        rows.push(("response", row));
    }
    if let Some(service) = service {
        let of_what = if response.is_some() { "" } else { UNCORRECTED };
        rows.push((
            "service",
            format!("{}\n{of_what}", spectrum(service))
                .trim_end()
                .to_owned(),
        ));
    }
    // Service times begin when a connection is open.
    let is_notable = |series: &Series| {
        spent(report, *series) >= spent(report, Series::ServiceOk) * (NOTABLE - 1.0)
    };
    for series in OPENING.into_iter().filter(is_notable) {
        let opened = report.latency(series).filter(|opened| opened.count > 0);
        rows.extend(opened.map(|opened| {
            let connections = counted(opened.count, "connection");
            (
                series.name(),
                format!(
                    "{} ({connections}, before a request was sent)",
                    spectrum(opened)
                ),
            )
        }));
    }
    if let Some(ttfb) = report
        .latency(Series::Ttfb)
        .filter(|ttfb| ttfb.count + ttfb.censored > 0)
    {
        let of = if ttfb.count > 0 {
            " (of all responses)"
        } else {
            ""
        };
        rows.push(("first byte", spectrum(ttfb) + of));
    }
    if let Some(delay) = report
        .latency(Series::ReceiveDelay)
        .filter(|delay| delay.count > 0)
    {
        let responses = counted(delay.count, "response");
        rows.push((
            "unread",
            format!(
                "{} (receive delay in this client, of {responses})",
                spectrum(delay)
            ),
        ));
    }
    rows
}

/// The numbers of requests in `latency` that did not finish and that were never sent; none without
/// any. Service times have the first alone, response times both.
pub(super) fn cut_off(latency: &Latency, service: Option<&Latency>) -> Option<String> {
    let sent = service
        .map_or(0, |service| service.censored)
        .min(latency.censored);
    let requests = |n: u64| counted(n, "request");
    let unfinished = || {
        format!(
            "{} did not finish (timed out, or cut off at the end)",
            requests(sent)
        )
    };
    let what = match (sent, latency.censored - sent) {
        (0, 0) => return None,
        (_, 0) => unfinished(),
        (0, unsent) => format!("{} never sent", requests(unsent)),
        (_, unsent) => format!("{}, {} never sent", unfinished(), grouped(unsent)),
    };
    Some(format!(
        "{what}: each counts as the time it had waited, so figures marked >= are lower bounds"
    ))
}

/// The number of requests that found the queue full, which no time counts; none without any.
fn found_queue_full(report: &Report) -> Option<String> {
    let dropped = report.found_queue_full();
    let or_warm = if report.warmup.is_some() {
        ", or were due in the warm-up"
    } else {
        ""
    };
    (dropped > 0).then(|| {
        let requests = counted(dropped, "request");
        format!(
            "{requests} found the queue full (--queue){or_warm}: never sent, and not in these times"
        )
    })
}

/// Return a note on the slack of the pacing, if any shard used more than the least one, µs.
fn slack(report: &Report) -> Option<String> {
    let longest = report
        .shards
        .iter()
        .filter_map(|shard| shard.longest_slack_us)
        .fold(0.0, f64::max);
    (longest > 50.0).then(|| {
        let (longest, pacing) = (micros(longest), report.plan.run.pacing);
        format!("requests were delayed by up to {longest} to be sent together (--pacing {pacing})")
    })
}

/// Explain the difference between response and service times, or its absence; none when that cannot
/// be said.
fn difference(report: &Report, response: &Latency, service: &Latency) -> Option<String> {
    let pairs = [
        ("p99", "p99_us", response.p99_us, service.p99_us),
        ("p90", "p90_us", response.p90_us, service.p90_us),
        ("p50", "p50_us", response.p50_us, service.p50_us),
    ];
    let notable = |from_intended: f64, from_sent: f64| {
        from_intended > (from_sent * NOTABLE).max(from_sent + 1e3)
    };
    // The highest of them that shows it: where answers stalled, the highest may be as slow once
    // sent.
    let shows = pairs
        .iter()
        .find_map(|(name, key, from_intended, from_sent)| {
            let (from_intended, from_sent) = ((*from_intended)?, (*from_sent)?);
            notable(from_intended, from_sent).then_some((*name, *key, from_intended, from_sent))
        });
    let Some((name, key, from_intended, from_sent)) = shows else {
        let known = pairs
            .iter()
            .any(|(.., from_intended, from_sent)| from_intended.is_some() && from_sent.is_some());
        let is_late = report.validity.verdicts.contains(&Verdict::ClientLimited);
        let is_kept = report.schedule.as_ref().is_none_or(ScheduleReport::is_kept) && !is_late;
        return (known && response.censored == 0 && is_kept).then(|| {
            "requests were sent on time, so these are the times that users would have waited"
                .to_owned()
        });
    };
    let [scheduled, sent] =
        [(response, from_intended), (service, from_sent)].map(|(of, us)| figure(of, key, Some(us)));
    Some(format!(
        "{name} {} from the scheduled time, {} from the sent time: requests first waited {}",
        scheduled?,
        sent?,
        culprit(report)
    ))
}

/// Return the main cause of the waits of requests before they were sent, with its part of that
/// time.
fn culprit(report: &Report) -> String {
    let spent = |series| spent(report, series);
    let opening: f64 = OPENING.into_iter().map(spent).sum();
    let unsent = unsent(report);
    let held = LimitEvidence::run(report);
    let mut limits: BTreeMap<LimitName, f64> = BTreeMap::new();
    *limits.entry(held.for_connection()).or_default() +=
        (spent(Series::PoolWait) - opening).max(0.0);
    *limits.entry(held.before_connection()).or_default() += spent(Series::BudgetWait);
    for (last, waited) in &unsent.by_limit {
        *limits.entry(held.dropped(*last)).or_default() += waited;
    }
    let mut waits: Vec<(f64, &str)> = limits
        .into_iter()
        .map(|(limit, spent)| (spent, limit.words(&report.plan.run)))
        .collect();
    waits.extend([
        (opening + unsent.opening, "a new connection to open"),
        (spent(Series::SchedLag), "this client, which sent late"),
    ]);
    let all: f64 = waits.iter().map(|(spent, _)| spent).sum();
    let worst = waits.iter().max_by(|a, b| a.0.total_cmp(&b.0));
    worst.map_or_else(String::new, |(spent, what)| {
        match spent / all.max(f64::MIN_POSITIVE) {
            part if part > 0.995 => format!("for {what}"),
            part => format!("for {what} ({} of all waiting)", rounded_percent(part)),
        }
    })
}

/// Time that requests waited which were never sent, us: their waits did not end, and the means
/// leave them out.
#[derive(Debug, Default)]
struct Unsent {
    by_limit: BTreeMap<Binding, f64>,
    opening: f64,
}

/// Waits of requests that were never sent: what those in the response times reached, without what
/// those that were sent took. Each limit, and the opening of connections, has the part of it that
/// it has of the requests.
fn unsent(report: &Report) -> Unsent {
    let ages = |series| {
        report.latency(series).map_or((0.0, 0), |times| {
            let ended = times.mean_us.unwrap_or(0.0) * times.count as f64;
            let all = times.mean_at_least_us.unwrap_or(0.0) * (times.count + times.censored) as f64;
            ((all - ended).max(0.0), times.censored)
        })
    };
    let ((intended, all), (sent, unfinished)) = (ages(Series::ResponseOk), ages(Series::ServiceOk));
    let requests = all.saturating_sub(unfinished);
    let (Some(schedule), true) = (&report.schedule, requests > 0) else {
        return Unsent::default();
    };
    // What timed out waited as well, and that is in the series of the waits: at most so much of
    // them.
    let timed_out = report
        .totals
        .errors_by_kind
        .contains_key(&ErrorKind::Timeout);
    let ended = [Series::PoolWait, Series::BudgetWait, Series::SchedLag]
        .into_iter()
        .filter(|_| timed_out);
    let ended: f64 = ended.map(|series| spent(report, series)).sum();
    let waited = (intended - sent - ended).max(0.0);
    let dropped: u64 = schedule.dropped_by.values().sum();
    let opening = requests.saturating_sub(schedule.dropped);
    let part = |n: u64| waited * n as f64 / (dropped + opening).max(1) as f64;
    Unsent {
        by_limit: schedule
            .dropped_by
            .iter()
            .map(|(limit, n)| (*limit, part(*n)))
            .collect(),
        opening: part(opening),
    }
}

/// Return the adherence of an open loop to its timetable.
pub(super) fn schedule(report: &Report, schedule: &ScheduleReport) -> String {
    let (totals, plan) = (&report.totals, &report.plan.run);
    let mut row = format!(
        "{} arrivals, {}; {} requests due, {} sent ({})",
        schedule.arrivals,
        rate_in_words(&schedule.rate),
        grouped(schedule.scheduled),
        grouped(totals.attempts_sent),
        rounded_percent(schedule.sent_share)
    );
    let unsent = totals.attempts.saturating_sub(totals.attempts_sent);
    if unsent > 0 {
        row = format!("{row}\n{} never had a connection", grouped(unsent));
    }
    let full = report.found_queue_full().min(schedule.dropped);
    for (limit, dropped) in &schedule.dropped_by {
        let what = match limit {
            Binding::Concurrency | Binding::Idle => "a connection",
            Binding::Rate => per_host_rate(plan),
            Binding::Pause => "a throttle pause",
            Binding::Target => quota(plan, totals.throttled),
            Binding::Storage => "room to store results",
        };
        let queue = match dropped.saturating_sub(full) {
            _ if full == 0 => format!("at the end, they were waiting for {what}"),
            _ if schedule.dropped_by.len() > 1 => {
                format!("at the end, the queue was waiting for {what}")
            }
            0 => format!("they found the queue full (--queue), which waited for {what}"),
            left => format!(
                "{} found the queue full (--queue), {} were in it at the end, waiting for {what}",
                grouped(full),
                grouped(left)
            ),
        };
        row = format!("{row}\n{} were never sent: {queue}", grouped(*dropped));
    }
    let untold = schedule
        .dropped
        .saturating_sub(schedule.dropped_by.values().sum());
    if untold > 0 {
        row = format!(
            "{row}\n{} were still waiting at the end and were never sent",
            grouped(untold)
        );
    }
    if schedule.postponed > 0 {
        let postponed = grouped(schedule.postponed);
        row =
            format!("{row}\n{postponed} were moved past the end by throttle pauses and never sent");
    }
    if schedule.unscheduled > 0 {
        let gone = grouped(schedule.unscheduled);
        row = format!(
            "{row}\nabout {gone} more were due in shards that had died, and were never sent"
        );
    }
    if schedule.shifted_s > 0.0 {
        row = format!(
            "{row}\ndelayed by {} while the target throttled",
            seconds(schedule.shifted_s)
        );
    }
    row
}

/// Predicate of the requests of which the times are lower bounds, by what became of them:
/// `timed out or were cut off at the end`.
pub(crate) fn unfinished(report: &Report) -> String {
    let kinds = [
        (report.totals.errors_of(ErrorKind::Timeout), "timed out"),
        (report.ledger.aborted, "were cut off at the end"),
        (report.totals.dropped, "were never sent"),
    ];
    let met: Vec<&str> = kinds
        .iter()
        .filter(|(n, _)| *n > 0)
        .map(|(_, what)| *what)
        .collect();
    if met.is_empty() {
        "did not finish".to_owned()
    } else {
        met.join(" or ")
    }
}

/// The requests that the times of `latency`, one of the series of good answers, are of.
pub(crate) fn population(report: &Report, latency: &Latency) -> String {
    match latency.censored {
        0 if report.ledger.not_found > 0 => counted(latency.count, "good or not-found response"),
        0 => counted(latency.count, "good response"),
        n => {
            let all = counted(latency.count.saturating_add(n), "request");
            format!("{all} ({} of them {})", grouped(n), unfinished(report))
        }
    }
}

/// The percentiles that are known.
pub(crate) fn spectrum(latency: &Latency) -> String {
    let named = [
        ("p50", "p50_us", latency.p50_us),
        ("p90", "p90_us", latency.p90_us),
        ("p99", "p99_us", latency.p99_us),
        ("p99.9", "p999_us", latency.p999_us),
        ("max", "max_us", latency.max_us),
    ];
    let known = named
        .iter()
        .filter_map(|(name, key, us)| Some(format!("{name} {}", figure(latency, key, *us)?)));
    known.collect::<Vec<_>>().join("  ")
}

/// A figure of a distribution by its key (`p99_us`); none when it is not known.
pub(crate) fn figure(latency: &Latency, key: &str, us: Option<f64>) -> Option<String> {
    let at_least = if latency.is_at_least(key) { ">= " } else { "" };
    us.map(|us| format!("{at_least}{}", micros(us)))
}

/// Describe the times of a series in a few words.
fn meaning(series: &str) -> &'static str {
    match Series::ALL.into_iter().find(|known| known.name() == series) {
        Some(Series::ServiceOk) => "sent to complete response, good and not found",
        Some(Series::ServiceThrottled) => "sent to complete response, throttled",
        Some(Series::ServiceError) => "sent to the end, failed",
        Some(Series::Ttfb) => "sent to first byte",
        Some(Series::SchedLag) => "scheduled to sent (send delay of this client)",
        Some(Series::BudgetWait) => "waiting for a limit",
        Some(Series::PoolWait) => "waiting for a free connection",
        Some(Series::Connect) => "opening a connection",
        Some(Series::Tls) => "TLS handshake",
        Some(Series::Tunnel) => "opening a tunnel through the proxy",
        Some(Series::Item) => "of an item, all its requests together",
        Some(Series::LoopLag) => "event-loop delay of this client",
        Some(Series::ReceiveDelay) => "received by the kernel to read by this client",
        Some(Series::ResponseOk) => "scheduled to complete response, good and not found",
        Some(Series::ResponseThrottled) => "scheduled to complete response, throttled",
        Some(Series::ResponseError) => "scheduled to the end, failed",
        Some(Series::Overhead) | None => "",
    }
}

/// Every series that holds anything, the ones that people ask for first.
pub(super) fn tables(report: &Report) -> Doc {
    let known = |name: &&str| {
        report
            .latency
            .get(*name)
            .filter(|latency| latency.count + latency.censored > 0)
    };
    let first = [
        Series::ResponseOk,
        Series::ServiceOk,
        Series::Item,
        Series::Ttfb,
    ]
    .map(Series::name);
    let rest = report
        .latency
        .keys()
        .map(String::as_str)
        .filter(|name| !first.contains(name));
    let rows = first
        .into_iter()
        .chain(rest)
        .filter_map(|name| Some(series(name, known(&name)?)));
    let columns = [
        "count",
        "min",
        "mean",
        "p50",
        "p90",
        "p99",
        "p99.9",
        "max",
        "unfinished",
    ]
    .map(Column::numbers);
    let columns = [Column::words("series")]
        .into_iter()
        .chain(columns)
        .chain([Column::words("meaning")]);
    let table = Table {
        columns: columns.collect(),
        rows: rows.collect(),
        ..Table::default()
    };
    let overflow: u64 = report
        .latency
        .values()
        .map(|latency| latency.overflow)
        .sum();
    let beyond = format!(
        "{} values were beyond the histograms' bounds.",
        grouped(overflow)
    );
    if table.rows.is_empty() {
        return Doc::default().text("No request succeeded, so there are no latencies to show.");
    }
    let latency = Clocked::of(report).latency();
    let bounds = latency.and_then(|latency| cut_off(latency, report.latency(Series::ServiceOk)));
    let bounds = bounds.map_or_else(String::new, |bounds| {
        format!("{bounds}; the mean leaves them out.")
    });
    let queue = found_queue_full(report).map_or_else(String::new, |queue| queue + ".");
    Doc::default()
        .table(table)
        .note(TOO_FEW)
        .note(bounds)
        .note(queue)
        .note(if overflow > 0 { beyond } else { String::new() })
}

fn series(name: &str, latency: &Latency) -> Vec<String> {
    let shown = |key: &str, us| figure(latency, key, us).unwrap_or_else(|| "-".to_owned());
    vec![
        name.replace('_', " "),
        grouped(latency.count),
        shown("min_us", latency.min_us),
        shown("mean_us", latency.mean_us),
        shown("p50_us", latency.p50_us),
        shown("p90_us", latency.p90_us),
        shown("p99_us", latency.p99_us),
        shown("p999_us", latency.p999_us),
        shown("max_us", latency.max_us),
        grouped(latency.censored),
        meaning(name).to_owned(),
    ]
}
