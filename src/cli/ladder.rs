//! Arguments of `ladder`.

use std::time::Duration;

use clap::Args;
use crawlmark_results::studies::scenarios::LADDER;

use super::{OutputArgs, time, whole};

/// The rungs, then the rest of the help.
pub(super) fn help() -> String {
    let rungs: Vec<String> = LADDER
        .iter()
        .map(|rung| {
            let published = rung
                .published
                .map(|rate| rate.to_string())
                .unwrap_or_default();
            format!("  {}  {:<46}{:>13}\n", rung.number, rung.name, published)
        })
        .collect();
    let rungs = rungs.concat();
    format!(
        "Rungs (published: one crawl of IDs over the Internet, by its author's figures):\n{rungs}\n{EXAMPLES}"
    )
}

const EXAMPLES: &str = "\
Each is `crawlmark run` in processes of its own against the bundled target's
`article` profile: responses after 60 ms in the median, 100 ms later on a new
connection, and at most 20 requests a second from each address. So from rung 2
on, each connection has a source address of its own, one of the 65,534 of
127.64.0.0/16, as the author's had. There is no URL: all traffic stays on this
machine, because such a load is only for a target that you own.

Exit codes: 0 climbed · 1 a rung could not run · 2 usage
            129 / 130 / 143 ended by a signal; the rungs so far are saved

Examples:
  The whole climb, in less than a minute:
    crawlmark ladder
  Where the steps come from: waiting, keeping connections, CPU:
    crawlmark ladder --rungs 1,4,7
  As Markdown:
    crawlmark ladder --markdown --out climb";

/// Arguments of `ladder`.
#[derive(Debug, Args)]
pub struct LadderArgs {
    /// Climb only these rungs, 1 to 8, comma-separated, lowest first
    #[arg(long, value_name = "RUNG,..", value_delimiter = ',', value_parser = whole::<u8>(1..=LADDER.len() as u64))]
    pub rungs: Vec<u8>,
    /// Duration of each rung, 500ms to 60s
    ///
    /// Where connections are kept, the first quarter is its warm-up.
    #[arg(short = 'd', long, value_name = "TIME", default_value = "4s", value_parser = time(Duration::from_millis(500)..=Duration::from_mins(1)))]
    pub duration: Duration,
    /// Seed of delays and bodies
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>(0..=u64::MAX))]
    pub seed: u64,

    /// Output options.
    #[command(flatten)]
    pub keep: OutputArgs,

    /// Flags of `crawlmark run` for every rung, beyond its own
    #[arg(last = true, value_name = "RUN FLAGS")]
    pub run: Vec<String>,
}
