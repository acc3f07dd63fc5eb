//! Times of a run: which series count, and how a figure is written.

use crate::run::report::{Latency, Report};
use crate::show::text::{counted, grouped, micros};
use crawlmark_harness::stats::Series;

/// Times of a run: the series with its name, and from when its times are counted; none where no good
/// response was measured.
pub(super) fn main_times(report: &Report) -> Option<(&'static str, &Latency, &'static str)> {
    let series = report.main_series();
    let latency = report.latency(series)?;
    let meaning = match series {
        Series::ResponseOk => {
            "open loop: from when each request was scheduled, corrected for coordinated omission"
        }
        _ => "closed loop: service time, not corrected for coordinated omission",
    };
    (latency.count + latency.censored > 0).then_some((series.name(), latency, meaning))
}

/// The requests that the times of `latency`, one of the series of good answers, are of.
pub(crate) fn population(report: &Report, latency: &Latency) -> String {
    match latency.censored {
        0 if report.ledger.not_found > 0 => counted(latency.count, "good or not-found response"),
        0 => counted(latency.count, "good response"),
        n => {
            let all = counted(latency.count.saturating_add(n), "request");
            format!("{all} ({} of them unfinished)", grouped(n))
        }
    }
}

/// The percentiles that are known.
pub(super) fn spectrum(latency: &Latency) -> String {
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
        Some(Series::Body) => "first to last byte, good and not found",
        Some(Series::SchedLag) => "scheduled to sent (send delay of this client)",
        Some(Series::BudgetWait) => "waiting for a limit",
        Some(Series::PoolWait) => "waiting for a free connection",
        Some(Series::Connect) => "opening a connection",
        Some(Series::Tls) => "TLS handshake",
        Some(Series::Tunnel) => "opening a tunnel through the proxy",
        Some(Series::Item) => "of an item, all its requests together",
        Some(Series::LoopLag) => "event-loop delay of this client",
        Some(Series::ReceiveDelay) => "received by the kernel to read by this client",
        Some(Series::ServiceRetransmitted) => {
            "the same of responses that waited for a retransmission"
        }
        Some(Series::Network) => "shortest round trip of the connection (a sample)",
        Some(Series::Reported) => "of the target, as it says (Server-Timing)",
        Some(Series::FirstEvent) => "sent to first event of a stream",
        Some(Series::EventGap) => "from an event of a stream to the next one",
        Some(Series::ResponseOk) => "scheduled to complete response, good and not found",
        Some(Series::ResponseThrottled) => "scheduled to complete response, throttled",
        Some(Series::ResponseError) => "scheduled to the end, failed",
        Some(Series::Overhead) | None => "",
    }
}
