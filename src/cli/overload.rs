//! Arguments of `overload`.

use clap::Args;
use crawlmark_harness::units::{Rate, parse_duration};

use super::OutputArgs;

pub(super) const EXAMPLES: &str = "\
The target gets 0.7 times its capacity, then 1.5 times, then 0.7 times again, in one
open loop. Its clients time out and retry as the flags after -- say. Retries come on top
of these rates, as those of independent users do. Throttled requests are retried after
a backoff, unless --on-throttle says otherwise.

Verdict: recovers if at most --within after the overload, the rate of good responses is
90 % of that before it, and stays there; slow if that takes longer; stuck if it does not
happen in the run. With --objective after --, as in 'response < 200ms', responses that
miss it are not good.

Exit codes: 0 recovers or slow · 3 stuck
            5 no verdict: the target kept up with 1.5 times the capacity, did not
              sustain 0.7 times, or the clients were the limit
            1 the run or the search failed · 2 usage
            129 / 130 / 143 ended by a signal: what is known is saved, without a verdict

Examples:
  Clients that wait for 1 s and retry twice, at a service that sustains 200/s:
    crawlmark overload 'http://127.0.0.1:8080/items/{id}' --capacity 200/s -- \\
        --timeout 1s --retries 2 --retry-budget 100%
  Search the capacity first, up to 500/s:
    crawlmark overload 'http://127.0.0.1:8080/items/{id}' \\
        --search '--max-rate 500/s --slo-p99 100ms' -- --timeout 1s
  A bundled target that refuses what its queue of 20 has no room for:
    crawlmark overload --capacity 200/s -- --timeout 500ms \\
        --target-latency 20ms --target-workers 4:20";

/// Arguments of `overload`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
pub struct OverloadArgs {
    /// Target URL, with {id} for the ID [default: the bundled target]
    #[arg(help_heading = None::<&str>)]
    pub url: Option<String>,

    /// Rate that the target sustains [default: searched]
    #[arg(long, value_name = "RATE")]
    pub capacity: Option<Rate>,
    /// Flags of `crawlmark capacity` for the search, as in '--slo-p99 50ms'
    #[arg(
        long,
        value_name = "FLAGS",
        default_value = "",
        hide_default_value = true,
        conflicts_with = "capacity",
        allow_hyphen_values = true
    )]
    pub search: String,
    /// Time at 0.7 times the capacity before the overload, in whole seconds
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = whole_seconds)]
    pub before: u64,
    /// Time at 1.5 times the capacity
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = whole_seconds)]
    pub during: u64,
    /// Time at 0.7 times the capacity after the overload, at least --within
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = whole_seconds)]
    pub after: u64,
    /// Longest time until the target has recovered [default: --during]
    #[arg(long, value_name = "TIME", value_parser = whole_seconds)]
    pub within: Option<u64>,

    /// Output options.
    #[command(flatten)]
    pub keep: OutputArgs,

    /// Flags of `crawlmark run`: the clients
    #[arg(last = true, value_name = "RUN FLAGS", help_heading = None::<&str>)]
    pub run: Vec<String>,
}

/// Whole seconds: what is judged is counted by the second.
fn whole_seconds(text: &str) -> Result<u64, String> {
    let time = parse_duration(text).map_err(|error| error.to_string())?;
    Some(time.as_secs())
        .filter(|s| (1..=3_600).contains(s) && time.subsec_nanos() == 0)
        .ok_or_else(|| format!("`{text}` is not a time in whole seconds: write 1s to 1h"))
}
