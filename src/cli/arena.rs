//! Arguments of `arena`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use crawlmark_harness::units::{Rate, parse_duration};

use super::{OutputArgs, parse_name, time, whole};

pub(super) const EXAMPLES: &str = "\
An entry is the command of a server, which is started for each round on a port of its
own ({port}, and $PORT), or the URL of a server that runs already. A round is two runs
of each entry, in random order: a closed loop for the rate, and one at the same rate
for all, for times, CPU time and memory. There are 16, 28 or 44 rounds: they end when
each two entries are shown to differ, or to be within 4 % of each other.

Entries that were not shown to differ share a letter, and equal entries are told apart
in at most 1 of 100 arenas. An entry has no rank if the client was its limit.

Exit codes: 0 the entries are ranked
            5 no ranks: too few rounds, or fewer than two entries that count
            1 a round could not run · 2 usage
            129 / 130 / 143 ended by a signal; what was measured is saved

With --objective after --, as in 'service < 20ms', entries are ranked by the responses
that meet it.

Examples:
  Three servers, a CPU each, and a picture for a slide:
    crawlmark arena --png \\
        --entry 'nginx=taskset -c 1 nginx -p . -c nginx-{port}.conf' \\
        --entry 'node=taskset -c 1 node server.js {port}' \\
        --entry 'python=taskset -c 1 python3 -m http.server {port}' \\
        --version-of 'node=node --version' -- -s 1 -c 16
  Two servers that run already, with a table in Markdown:
    crawlmark arena --entry old=http://127.0.0.1:8080/ \\
        --entry new=http://127.0.0.1:8081/ --markdown
  One more entry in a saved arena:
    crawlmark arena --add results/runs/2026-11-30T10-00-00Z-arena \\
        --entry old=http://127.0.0.1:8080/ --entry new=http://127.0.0.1:8081/ \\
        --entry 'third=./server --port {port}'
  Entries of a file, NAME=COMMAND on each line, and responses that must be JSON:
    crawlmark arena --entries servers.txt --path '/items/{id}' -- --expect json";

/// Arguments of `arena`.
#[derive(Debug, Clone, Args)]
pub struct ArenaArgs {
    /// Server to rank: NAME='COMMAND {port}' or NAME=URL; repeatable
    ///
    /// The command is started by a shell for each run, and ended after it. It must listen on a
    /// loopback port, which is {port} in the command, and $PORT in the environment. In the saved
    /// command, values that look like secrets are redacted.
    #[arg(short, long, value_name = "NAME=SERVER", value_parser = parse_entry, help_heading = "Entries")]
    pub entry: Vec<(String, String)>,
    /// Read entries from FILE, one on each line; a # begins a comment
    #[arg(long, value_name = "FILE", help_heading = "Entries")]
    pub entries: Option<PathBuf>,
    /// Command that prints the version of an entry; repeatable
    ///
    /// The first line that it prints within 10 seconds is shown beside the entry.
    #[arg(long, value_name = "NAME=COMMAND", value_parser = parse_entry, help_heading = "Entries")]
    pub version_of: Vec<(String, String)>,
    /// Path that is requested of the commands, with {id} for the ID
    #[arg(long, default_value = "/", help_heading = "Entries")]
    pub path: String,
    /// Longest wait until a started server accepts connections
    #[arg(hide_short_help = true, long, value_name = "TIME", default_value = "10s", value_parser = parse_duration, help_heading = "Entries")]
    pub ready: Duration,

    /// Requests per second at which times are compared
    ///
    /// [default: half of what the slowest entry answers in the first round]
    #[arg(conflicts_with = "add", long, help_heading = "Rounds")]
    pub rate: Option<Rate>,
    /// Most rounds, 1 to 44; ranks need 16
    ///
    /// Ranks are judged after 16, 28 and 44 rounds, so from 16 on, N counts as the last of these that
    /// it reaches.
    #[arg(conflicts_with = "add", long, value_name = "N", default_value_t = 44, value_parser = whole::<usize>(1..=44), help_heading = "Rounds")]
    pub rounds: usize,
    /// Time that each run measures, after its warm-up
    #[arg(conflicts_with = "add", short = 'd', long, value_name = "TIME", default_value = "1s", value_parser = time(SHORTEST..=LONGEST), help_heading = "Rounds")]
    pub duration: Duration,
    /// Warm-up of each run, excluded from its figures
    #[arg(conflicts_with = "add", hide_short_help = true, short = 'w', long, value_name = "TIME", default_value = "250ms", value_parser = time(Duration::ZERO..=LONGEST), help_heading = "Rounds")]
    pub warmup: Duration,
    /// Rates up to its own at which the latency of each entry is drawn
    #[arg(hide_short_help = true, long, value_name = "N", default_value_t = 6, value_parser = whole::<usize>(0..=8), help_heading = "Rounds")]
    pub curve: usize,
    /// Search the highest rate that each entry sustains, too
    ///
    /// Flags of `crawlmark capacity` follow an equals sign: --capacity='--slo-p99 50ms'.
    #[arg(long, value_name = "FLAGS", num_args = 0..=1, require_equals = true, default_missing_value = "", help_heading = "Rounds")]
    pub capacity: Option<String>,
    /// Add the entries to a saved arena
    ///
    /// They are measured beside two entries of that arena, its fastest and its slowest ranked one:
    /// give these again with --entry, and the same flags after --. No command of a file is executed.
    /// The result is a new arena of all entries.
    #[arg(long, value_name = "DIR", help_heading = "Entries")]
    pub add: Option<PathBuf>,
    /// Seed of the random order of entries
    #[arg(conflicts_with = "add", hide_short_help = true, long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>(0..=u64::MAX), help_heading = "Rounds")]
    pub seed: u64,

    /// Output options.
    #[command(flatten)]
    pub keep: OutputArgs,

    /// Flags of `crawlmark run` for every run
    #[arg(last = true, value_name = "RUN FLAGS")]
    pub run: Vec<String>,
}

/// Times of a run: a shorter one is mostly its start, and of a longer one there are too many.
pub(crate) const SHORTEST: Duration = Duration::from_millis(50);
pub(crate) const LONGEST: Duration = Duration::from_hours(1);

/// Read the name and the server of an entry.
pub(crate) fn parse_entry(text: &str) -> Result<(String, String), String> {
    let (name, what) = text.split_once('=').unwrap_or((text, ""));
    let name = parse_name(name.trim())?;
    match what.trim() {
        "" => Err(format!(
            "`{text}` is not NAME=COMMAND or NAME=URL: write, for example, node='node server.js {{port}}'"
        )),
        what => Ok((name, what.to_owned())),
    }
}
