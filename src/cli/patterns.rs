//! Arguments of `patterns`.

use std::time::Duration;

use clap::Args;
use crawlmark_harness::units::parse_duration;

use super::{OutputArgs, whole};

pub(super) const EXAMPLES: &str = "\
Patterns, each a run of its own with these flags (C and R are -c and -R):
  one at a time             -c 1
  waves                     -c C --arrivals waves: C at once, then wait for all
  semaphore, worker pool    -c C: C workers that take one item each from a
                            queue, which holds no item before it is needed
  interval cap              -c C --rate 'R per 1s'
  token bucket              -c C --rate R --burst R
  even spacing              -c C --rate R
  schedule (open loop)      -c 4C --rate R --arrivals constant
  adaptive                  -c 4C --adaptive

Without a URL they crawl the bundled target at 60 ms in the median, which allows
250 requests a second with a burst of 50, and answers 429 beyond that; with any
--target-... flag after --, it is as these flags say. With a
URL after --, they crawl that one; the unpaced ones are not paced for it, so
never aim this at a service that you do not own.

Exit codes: 0 done · 1 a pattern could not run · 2 usage
            129 / 130 / 143 ended by a signal; the patterns until then are saved

Examples:
  All patterns, in a minute and a half:
    crawlmark patterns
  With 50 connections and 100 requests a second, as Markdown:
    crawlmark patterns -c 50 -R 100 --markdown --out patterns
  Of your own target:
    crawlmark patterns -- http://127.0.0.1:8080/items";

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
    /// A p99 takes 1,000 good responses: with 20 connections at 60 ms, about ten seconds.
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
    if is_fit { Ok(time) } else { Err(format!("`{text}` is out of range: 1s to 1h")) }
}
