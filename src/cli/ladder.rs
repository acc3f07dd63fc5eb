//! Arguments of `ladder`.

use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use crawlmark_harness::units::parse_duration;
use crawlmark_results::studies::scenarios::{LADDER, Scenario};

use super::{OutputArgs, whole};

pub(super) const EXAMPLES: &str = "\
Rungs (published: one crawl of IDs over the Internet, by its author's figures):
  1  one after another, a new connection for each request          5.83/s
  2  20 processes like that, each request from the next source
     address                                                        44.8/s
  3  one process, 20 requests in flight, a new connection each       184/s
  4  one process, 20 kept connections                                282/s
  5  one process, 80 kept connections                              1,280/s
  6  10 processes with 80 connections each                        10,000/s
  7  a process per core, and as many connections as it takes to
     use up the CPU (found by short runs first)                   15,000/s
  8  160 connections and --rate 1500: slower by choice        1,000-2,000/s

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
  The same climb against a target with 20 ms and a handshake of 40 ms:
    crawlmark ladder -- --target-latency lognormal:20ms,0.3 \\
        --target-handshake 40ms
  As Markdown:
    crawlmark ladder --markdown --out climb";

/// Arguments of `ladder`.
#[derive(Debug, Args)]
pub struct LadderArgs {
    /// Climb only these rungs, 1 to 8, comma-separated, lowest first
    #[arg(long, value_name = "RUNG,..", value_delimiter = ',')]
    pub rungs: Vec<RungNumber>,
    /// Duration of each rung, 500ms to 60s
    ///
    /// Where connections are kept, the first quarter is its warm-up.
    #[arg(short = 'd', long, value_name = "TIME", default_value = "4s", value_parser = parse_rung_time)]
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

/// The number of a rung.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RungNumber(u8);

impl RungNumber {
    /// True if it is that rung's.
    #[must_use]
    pub const fn is(self, rung: &Scenario) -> bool {
        self.0 == rung.number
    }
}

impl FromStr for RungNumber {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text
            .trim()
            .parse()
            .ok()
            .filter(|number| LADDER.scenarios.iter().any(|rung| rung.number == *number));
        number.map(Self).ok_or_else(|| {
            format!(
                "`{text}` is not a valid rung: write 1 to {}, comma-separated",
                LADDER.scenarios.len()
            )
        })
    }
}

/// Read the duration of a rung: less ends before the first responses, and more is no demonstration.
fn parse_rung_time(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text).map_err(|error| error.to_string())?;
    let is_fit = (Duration::from_millis(500)..=Duration::from_mins(1)).contains(&time);
    if is_fit {
        Ok(time)
    } else {
        Err(format!("`{text}` is out of range: 500ms to 60s"))
    }
}
