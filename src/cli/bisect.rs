//! Arguments of `bisect`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args};
use crawlmark_harness::units::parse_duration;

use super::{CommandArgs, OutputArgs, whole};

pub(super) const EXAMPLES: &str = "\
Each commit is built once, in a worktree of its own outside of yours: {dir} in the
commands. A block is one round of a commit and of both ends, in random order. First the
ends are measured until it is known that the bad one is worse. Then the commit is
measured that is the least certain, until one has 99 % of the probability. Commits that
do not build, or whose rounds fail, are left out.

If the search is interrupted, run the same command again: it goes on with the builds
and readings so far, which are kept until the search has ended (--cache).

Exit codes: 0 found: one commit, or several of which all but the last do not
            build or run
            5 the bad end is not worse, the loss came in several steps, or no
              commit is likely enough
            1 an end does not build or run · 2 usage
            129 / 130 / 143 ended by a signal; run it again to go on

Examples:
  Which commit made a service use more CPU time per request?
    crawlmark bisect --good v1.4 --bad main --build 'cargo build --release' \\
        --target 'target/release/server --port {port}' \\
        -- 'http://127.0.0.1:{port}/items/{id}' -c 32 -d 3s
  Which commit made a command slower?
    crawlmark bisect --good v1.4 --bad main --build 'make' \\
        --command './tool --check input.json'
  A number that the command prints, of which more is better:
    crawlmark bisect --good v1 --bad v2 --build 'make bench' \\
        --command './bench' --value 'rate=([0-9.]+) MB/s' --better higher
  The ends from a history of results with their commits:
    crawlmark bisect --from-history history.jsonl --build 'make' \\
        --command './bench'";

/// Arguments of `bisect`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Commands", group = ArgGroup::new("commands").multiple(true))]
pub struct BisectArgs {
    /// Revision that is not worse: a commit, a tag or a branch
    #[arg(
        long,
        value_name = "REV",
        required_unless_present = "from_history",
        help_heading = "Commits"
    )]
    pub good: Option<String>,
    /// Revision that is worse
    #[arg(
        long,
        value_name = "REV",
        required_unless_present = "from_history",
        help_heading = "Commits"
    )]
    pub bad: Option<String>,
    /// Take both ends from the last loss in a history of results
    ///
    /// FILE is a history of `crawlmark history --add --commit`. `history` places a change in a range
    /// of results. The good end is the last result before this range. The bad end is the last result
    /// in it.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["good", "bad"], help_heading = "Commits")]
    pub from_history: Option<PathBuf>,
    /// Directory in the Git repository [default: the current one]
    #[arg(
        hide_short_help = true,
        long,
        value_name = "DIR",
        help_heading = "Commits"
    )]
    pub repository: Option<PathBuf>,
    /// Shell command that builds a commit, run in its worktree
    #[arg(long, value_name = "COMMAND", help_heading = "Commits")]
    pub build: String,
    /// Directory for builds and readings, kept until the search ends
    ///
    /// The default is a directory of this search below $XDG_CACHE_HOME, or ~/.cache.
    /// DIR must be new, empty, or the cache of this search.
    #[arg(
        hide_short_help = true,
        long,
        value_name = "DIR",
        help_heading = "Commits"
    )]
    pub cache: Option<PathBuf>,

    /// Shell command that serves a commit, started for each round
    ///
    /// It runs in the worktree of the commit, and must listen on a loopback port: {port} in the
    /// command and in the URL after --, $PORT in the environment.
    #[arg(
        long,
        value_name = "COMMAND",
        required_unless_present = "command",
        help_heading = "Measurement"
    )]
    pub target: Option<String>,
    /// Shell command to execute in the worktree of a commit
    #[arg(
        long,
        value_name = "COMMAND",
        group = "commands",
        conflicts_with_all = ["target", "run"],
        help_heading = "Measurement"
    )]
    pub command: Option<String>,
    /// Metric that got worse [default: CPU time, or the first --value]
    ///
    /// Of a target: target_cpu_per_attempt, throughput, ok_share, service_p50 or service_p99. Of a
    /// command: cpu_time, wall_time, peak_memory, or the name of a --value.
    #[arg(long, value_name = "NAME", help_heading = "Measurement")]
    pub metric: Option<String>,
    /// Time limit for the target to accept connections
    #[arg(hide_short_help = true, long, value_name = "TIME", default_value = "10s", value_parser = parse_duration, help_heading = "Measurement")]
    pub ready: Duration,
    /// Maximum pairs of both ends before the search ends without a loss
    #[arg(hide_short_help = true, long, value_name = "N", default_value_t = 256, value_parser = whole::<usize>(8..=256), help_heading = "Measurement")]
    pub pairs: usize,
    /// Seed of the random order of rounds
    #[arg(hide_short_help = true, long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>(0..=u64::MAX), help_heading = "Measurement")]
    pub seed: u64,

    /// How commands are executed, and what is read of them.
    #[command(flatten)]
    pub commands: CommandArgs,

    /// Output options.
    #[command(flatten)]
    pub keep: OutputArgs,

    /// Flags of `crawlmark run` for every round, and the URL
    #[arg(last = true, value_name = "RUN FLAGS", help_heading = None::<&str>)]
    pub run: Vec<String>,
}
