//! Arguments of `scale`.

use std::time::Duration;

use clap::Args;
use crawlmark_harness::plan::MAX_SHARDS;
use crawlmark_harness::units::parse_duration;

use super::{OutputArgs, whole};

pub(super) const EXAMPLES: &str = "\
Each round is one `crawlmark run` in a process of its own, at one size. A size is a
number of shards and connections. A repeat is one round of each size, in random order.
Ratios are computed within a repeat. The bundled target gets two fifths of the CPUs
unless --target-processes says otherwise.

Exit codes: 0 done
            5 nothing to compare: no repeat has usable rounds of the smallest
              size and of another size, or client and target competed for
              the CPUs
            1 a round could not run · 2 usage
            129 / 130 / 143 ended by a signal; what was measured is saved

Examples:
  1, 2, 4 ... shards, up to the number of CPUs, with 32 connections each:
    crawlmark scale 'http://10.0.0.5:8080/items/{id}'
  Scaling beyond the CPUs: responses take 50 ms, so CPU is not the limit:
    crawlmark scale --latency-bound
  More connections on two shards:
    crawlmark scale --shards 2 --connections 8,16,32,64,128 \\
        -- --target-latency lognormal:20ms,0.4
  One number for a script:
    crawlmark scale --latency-bound --json \\
        | jq '.curves[0].points[-1].efficiency.median'";

/// Arguments of `scale`.
#[derive(Debug, Args)]
pub struct ScaleArgs {
    /// Target URL [default: the bundled target]
    pub url: Option<String>,
    /// Numbers of shards to compare [default: 1, 2, 4 ... up to the CPUs]
    #[arg(short = 's', long, value_name = "LIST", value_delimiter = ',', value_parser = whole::<u32>(1..=MAX_SHARDS.into()), help_heading = "Sizes")]
    pub shards: Vec<u32>,
    /// Numbers of connections to compare, comma-separated
    ///
    /// The numbers count connections of all shards together. With one number of shards, these are
    /// the sizes of a single curve. With several numbers of shards, each number of connections is a
    /// curve of its own.
    #[arg(short = 'c', long, value_name = "LIST", value_delimiter = ',', value_parser = whole::<u32>(1..=u32::MAX.into()), help_heading = "Sizes")]
    pub connections: Vec<u32>,
    /// Connections for each shard [default: 32, or 8 with --latency-bound]
    ///
    /// The load grows with the number of shards.
    #[arg(long, value_name = "N", conflicts_with = "connections", value_parser = whole::<u32>(1..=u32::MAX.into()), help_heading = "Sizes")]
    pub connections_per_shard: Option<u32>,
    /// Hold every response, so that CPU is not the limit [default: 50ms]
    ///
    /// The bundled target holds the responses. Unless given, the sizes are 1 to 16 shards.
    #[arg(
        long,
        value_name = "TIME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "50ms",
        value_parser = parse_duration,
        conflicts_with = "url",
        help_heading = "Sizes"
    )]
    pub latency_bound: Option<Duration>,

    /// Repeats (rounds of each size), 1 to 1000
    ///
    /// With fewer than 5 repeats, the confidence of intervals is below 90 %.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = whole::<u64>(1..=1_000), help_heading = "Rounds")]
    pub repeats: u64,
    /// Duration of each round, 1h at most [default: 3s]
    #[arg(short = 'd', long, value_name = "TIME", value_parser = parse_duration, help_heading = "Rounds")]
    pub duration: Option<Duration>,
    /// Seed of the random order of sizes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>(0..=u64::MAX), help_heading = "Rounds")]
    pub seed: u64,

    /// Output options.
    #[command(flatten)]
    pub keep: OutputArgs,

    /// Flags of `crawlmark run` for every round
    #[arg(last = true, value_name = "RUN FLAGS")]
    pub run: Vec<String>,
}
