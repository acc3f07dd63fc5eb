//! Times of a run: which series count, and how a figure is written.

use crate::run::report::{Latency, Report};
use crate::show::text::{counted, grouped, micros};
use crawlmark_harness::sample::ErrorKind;
use crawlmark_harness::stats::Series;

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

    /// From when the times are counted.
    pub(super) const fn meaning(&self) -> &'static str {
        match self {
            Self::Response(_) => {
                "open loop: from when each request was scheduled, corrected for coordinated omission"
            }
            Self::Service(_) => "closed loop: service time, not corrected for coordinated omission",
            Self::Nothing => "no good response was measured",
        }
    }

    pub(super) const fn latency(&self) -> Option<&'a Latency> {
        match self {
            Self::Response(latency) | Self::Service(latency) => Some(latency),
            Self::Nothing => None,
        }
    }
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
    let known = latency.figures().into_iter();
    let known =
        known.filter_map(|(name, key, us)| Some(format!("{name} {}", figure(latency, key, us)?)));
    known.collect::<Vec<_>>().join("  ")
}

/// A figure of a distribution by its key (`p99_us`); none when it is not known.
pub(crate) fn figure(latency: &Latency, key: &str, us: Option<f64>) -> Option<String> {
    let at_least = if latency.is_at_least(key) { ">= " } else { "" };
    us.map(|us| format!("{at_least}{}", micros(us)))
}

/// The times of a series in a few words.
pub(super) fn meaning(series: &str) -> &'static str {
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
