//! Flags for throttling and retries.

use std::time::Duration;

use clap::{Args, ValueEnum};
use crawlmark_harness::plan::{
    AdaptiveKind, Arrivals, Backoff, MAX_RETRIES, OnThrottle, PerHost, ThrottlingPolicy,
};
use crawlmark_harness::units::{Rate, parse_duration};

use super::whole;

/// Throttling options as typed.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Throttling and retries")]
pub struct ThrottlingArgs {
    /// React to throttling: honor, count or ignore
    ///
    /// A response throttles if it has status 429, status 403 or 503 with Retry-After, or refuses
    /// because a quota is used up. honor: all shards wait as long as the target asks, then retry
    /// the item. count: count the response and abandon its item. ignore: retry the item after a
    /// backoff.
    #[arg(long, value_name = "honor|count|ignore", default_value = OnThrottle::Honor.name())]
    pub on_throttle: OnThrottle,
    /// Obey robots.txt: of public hosts (auto), of all (honor), or ignore
    ///
    /// It is fetched once before the run. Items that it forbids are skipped and counted; its
    /// crawl-delay limits the rate per host. Without a robots.txt (status 4xx), all is allowed; if
    /// it cannot be fetched (no response, status 429 or 5xx), nothing is (RFC 9309), and the run
    /// exits with 1. The rules are those for the first word of the User-Agent header: crawlmark.
    #[arg(
        long,
        value_name = "auto|honor|ignore",
        value_enum,
        default_value = "auto",
        hide_possible_values = true
    )]
    pub robots: RobotsUse,
    /// Longest single throttle pause that a target may cause
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_duration)]
    pub max_pause: Duration,
    /// Adapt the load to the target: aimd or gradient [default: aimd]
    ///
    /// The number of requests in flight falls on throttling, timeouts and connections that do not
    /// open. It rises while requests succeed (aimd), or until responses slow down (gradient). The
    /// sustained rate is learned from throttling. --connections is the maximum.
    #[arg(long, value_name = "aimd|gradient", num_args = 0..=1, require_equals = true, default_missing_value = "aimd")]
    pub adaptive: Option<AdaptiveKind>,
    /// Retries per item, 0 to 4, after throttling and temporary failures
    ///
    /// Default: 4, and 0 with --arrivals replay, which has no time for retries. Temporary failures
    /// are 408, 425, 500, 502, 503, 504, timeouts and broken connections. Methods that are not
    /// idempotent (POST, PATCH) are retried only if the target did nothing.
    #[arg(long, value_name = "N", value_parser = whole::<u32>(0..=MAX_RETRIES.into()))]
    pub retries: Option<u32>,
    /// Retry budget in percent of first requests, plus 100; 0% for none
    #[arg(long, value_name = "N%", default_value = "20%", value_parser = parse_percent)]
    pub retry_budget: u32,
    /// Backoff before a retry: random up to BASE, doubled each time up to CAP
    #[arg(long, value_name = "BASE[,CAP]", default_value = "100ms,20s")]
    pub backoff: Backoff,
}

/// Use of robots.txt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum RobotsUse {
    /// Obey that of public hosts.
    #[default]
    Auto,
    /// Obey that of all hosts.
    Honor,
    /// Fetch none.
    Ignore,
}

/// Limits for each host, as typed.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Throttling and retries")]
pub struct PerHostArgs {
    /// Maximum requests in flight per host, over all shards
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=u32::MAX.into()))]
    pub per_host_connections: Option<u32>,
    /// Maximum rate per host, over all shards: N, N/s, N/min or N/h
    ///
    /// --rate limits all hosts together.
    #[arg(long, value_name = "RATE")]
    pub per_host_rate: Option<Rate>,
}

impl PerHostArgs {
    /// As the plan has them, for so many hosts.
    #[must_use]
    pub const fn resolve(&self, hosts: u32) -> PerHost {
        PerHost {
            hosts,
            connections: self.per_host_connections,
            rate: self.per_host_rate,
        }
    }
}

impl ThrottlingArgs {
    /// As the plan has them.
    #[must_use]
    pub fn resolve(&self, arrivals: Arrivals) -> ThrottlingPolicy {
        let retries = if arrivals == Arrivals::Replay {
            0
        } else {
            MAX_RETRIES
        };
        ThrottlingPolicy {
            on_throttle: self.on_throttle,
            max_pause: self.max_pause,
            retries: self.retries.unwrap_or(retries),
            retry_budget_percent: self.retry_budget,
            backoff: self.backoff,
            adaptive: self.adaptive,
        }
    }
}

fn parse_percent(text: &str) -> Result<u32, String> {
    let digits = text.strip_suffix('%').unwrap_or(text);
    let percent = digits.parse().ok().filter(|percent| *percent <= 100);
    percent.ok_or_else(|| format!("`{text}` is not a whole percentage: write 0% to 100%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_whole_and_at_most_a_hundred() {
        assert_eq!(
            [("0", 0), ("20%", 20), ("100%", 100)].map(|(text, _)| parse_percent(text)),
            [Ok(0), Ok(20), Ok(100)]
        );
        for text in ["", "%", "101%", "-1", "0.5", "20%%", "a"] {
            assert!(parse_percent(text).is_err(), "{text}");
        }
    }
}
