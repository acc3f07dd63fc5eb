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
        "Rungs, with the rates of a published crawl of IDs over the Internet:\n{rungs}\n{EXAMPLES}"
    )
}

const EXAMPLES: &str = "\
Each rung is one `crawlmark run` against the bundled target's `article` profile. The
target responds after 60 ms in the median, or 100 ms later on a new connection. It
allows at most 20 requests a second from each address. So from rung 2 on, each
connection has its own source address in 127.64.0.0/16 (65,534 addresses), like the
connections of the published crawl. You cannot give a URL: all traffic stays on this
machine, because such a load is only acceptable for a target that you own.

Exit codes: 0 done · 1 a rung could not run · 2 usage
            129 / 130 / 143 ended by a signal; the rungs so far are saved

Examples:
  All rungs, in less than a minute:
    crawlmark ladder
  Three rungs, which show the effect of waiting, of kept connections and of CPU:
    crawlmark ladder --rungs 1,4,7
  As Markdown:
    crawlmark ladder --markdown --out climb";

/// Arguments of `ladder`.
#[derive(Debug, Args)]
pub struct LadderArgs {
    /// Run only these rungs (1 to 8), comma-separated, lowest first
    #[arg(long, value_name = "RUNG,..", value_delimiter = ',', value_parser = whole::<u8>(1..=LADDER.len() as u64))]
    pub rungs: Vec<u8>,
    /// Duration of each rung, 500ms to 60s
    ///
    /// If a rung keeps connections, the first quarter is its warm-up.
    #[arg(short = 'd', long, value_name = "TIME", default_value = "4s", value_parser = time(Duration::from_millis(500)..=Duration::from_mins(1)))]
    pub duration: Duration,
    /// Seed of the bundled target's delays and bodies
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>(0..=u64::MAX))]
    pub seed: u64,

    /// Output options.
    #[command(flatten)]
    pub keep: OutputArgs,

    /// Flags of `crawlmark run` for every rung, in addition to its own
    #[arg(last = true, value_name = "RUN FLAGS")]
    pub run: Vec<String>,
}
