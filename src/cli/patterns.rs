//! Arguments of `patterns`.

use std::time::Duration;

use clap::Args;
use crawlmark_results::studies::scenarios::PATTERNS;

use super::{OutputArgs, time, whole};

/// The patterns, then the rest of the help.
pub(super) fn help() -> String {
    let patterns: Vec<String> = PATTERNS
        .iter()
        .map(|it| format!("  {:>2}  {:<24}{}\n", it.number, it.name, it.flags))
        .collect();
    let patterns = patterns.concat();
    format!(
        "Patterns, each a run of its own with these flags (c and rate are -c and -R):\n{patterns}\n{EXAMPLES}"
    )
}

const EXAMPLES: &str = "\
The summary and the page name the counterpart of each pattern in asyncio, p-limit,
p-queue and Go's channels.

Without a URL, the patterns crawl the bundled target. It responds after 60 ms in the
median, and allows 250 requests a second with a burst of 50. Requests beyond that get
status 429. Any --target-... flag after -- replaces all of these settings. Patterns
without a rate crawl a URL as fast as they can, so only use a target that you own.

Exit codes: 0 done · 1 a pattern could not run · 2 usage
            129 / 130 / 143 ended by a signal; the patterns so far are saved

Examples:
  All patterns, in two minutes:
    crawlmark patterns
  Your own target:
    crawlmark patterns 'http://127.0.0.1:8080/items/{id}' -c 50 -R 500
  A slower target with a smaller limit:
    crawlmark patterns -- --target-latency 200ms --target-limit 50/s:burst=10";

/// Arguments of `patterns`.
#[derive(Debug, Args)]
pub struct PatternsArgs {
    /// Target, with {id} for the ID [default: the bundled target]
    #[arg(value_name = "URL")]
    pub url: Option<String>,
    /// Connections, for patterns that limit requests in flight
    #[arg(short = 'c', long, value_name = "N", default_value_t = 20, value_parser = whole::<u32>(1..=10_000))]
    pub connections: u32,
    /// Requests per second, for patterns that limit the rate
    #[arg(short = 'R', long, value_name = "N", default_value_t = 200, value_parser = whole::<u32>(1..=1_000_000))]
    pub rate: u32,
    /// Duration of each pattern, 1s to 1h
    ///
    /// A p99 needs 1,000 good responses.
    #[arg(short = 'd', long, value_name = "TIME", default_value = "10s", value_parser = time(Duration::from_secs(1)..=Duration::from_hours(1)))]
    pub duration: Duration,
    /// Seed of the bundled target's delays and bodies
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>(0..=u64::MAX))]
    pub seed: u64,

    /// Output options.
    #[command(flatten)]
    pub keep: OutputArgs,

    /// Flags of `crawlmark run`, added to the flags of each pattern
    #[arg(last = true, value_name = "RUN FLAGS")]
    pub run: Vec<String>,
}
