//! Arguments of `patterns`.

use std::time::Duration;

use clap::Args;
use crawlmark_harness::units::parse_duration;

use super::{OutputArgs, whole};

pub(super) const EXAMPLES: &str = "\
Patterns, each a run of its own with one shard and these flags (C and R are -c and
-R of this command):
  one at a time             -c 1
  waves                     -c C --arrivals waves: C at once, then wait for all
  semaphore                 -c C: C workers, each takes its next item when it
                            has finished one
  interval cap              -c C --rate 'R per 1s'
  token bucket              -c C --rate R --burst R
  even spacing              -c C --rate R
  open loop                 -c 4C --rate R --arrivals constant
  bounded queue             -c C --rate R --arrivals constant --queue R: while
                            R requests wait for a worker, more are dropped
  adaptive                  -c 4C --adaptive

Without a URL they crawl the bundled target: 60 ms in the median, 250 requests a
second with a burst of 50, and status 429 beyond that. Any --target-... flag after
-- replaces all of this. A URL after -- is crawled instead: patterns without a rate
crawl it as fast as they can, so use only a target that you own.

Exit codes: 0 done · 1 a pattern could not run · 2 usage
            129 / 130 / 143 ended by a signal; the patterns so far are saved

Examples:
  All patterns, in a minute and a half:
    crawlmark patterns
  With 50 connections and 100 requests a second, as Markdown:
    crawlmark patterns -c 50 -R 100 --markdown --out patterns
  Your own target:
    crawlmark patterns -- 'http://127.0.0.1:8080/items/{id}'";

/// Arguments of `patterns`.
#[derive(Debug, Args)]
pub struct PatternsArgs {
    /// Connections of the patterns with a limit on requests in flight
    #[arg(short = 'c', long, value_name = "N", default_value_t = 20, value_parser = whole::<u32>(1..=10_000))]
    pub connections: u32,
    /// Requests per second of the patterns with a limit on the rate
    #[arg(short = 'R', long, value_name = "N", default_value_t = 200, value_parser = whole::<u32>(1..=1_000_000))]
    pub rate: u32,
    /// Duration of each pattern, 1s to 1h
    ///
    /// A p99 needs 1,000 good responses.
    #[arg(short = 'd', long, value_name = "TIME", default_value = "10s", value_parser = parse_pattern_time)]
    pub duration: Duration,
    /// Seed of delays and bodies
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>(0..=u64::MAX))]
    pub seed: u64,

    /// Output options.
    #[command(flatten)]
    pub keep: OutputArgs,

    /// Flags of `crawlmark run` for every pattern, beyond its own
    #[arg(last = true, value_name = "RUN FLAGS")]
    pub run: Vec<String>,
}

/// Read the duration of a pattern: in less, a window of a second would not show.
fn parse_pattern_time(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text).map_err(|error| error.to_string())?;
    let is_fit = (Duration::from_secs(1)..=Duration::from_hours(1)).contains(&time);
    if is_fit {
        Ok(time)
    } else {
        Err(format!("`{text}` is out of range: 1s to 1h"))
    }
}
