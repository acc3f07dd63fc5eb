//! Arguments of `ab`.

use std::time::Duration;

use clap::{ArgGroup, Args};
use crawlmark_harness::units::parse_duration;

use super::{CommandArgs, OutputArgs, whole};

pub(super) const EXAMPLES: &str = "\
A round is one `crawlmark run` in a process of its own. Its flags are those after --,
followed by those of its side (--base or --cand). It takes 2 s unless -d, -n or --ids
is given. A pair is a round of each side, one right after the other, in random order.
The comparison ends after 16, 28 or 44 pairs, as soon as a pass or a regression is
established. If there is neither after 44 pairs, it is inconclusive.

Exit codes: 0 pass: with confidence, no metric is worse by 4 % or more
              (for commands: by 2.5 % or more)
            3 regression: with confidence, a metric is worse, and by at least 2 %
              (99th percentile: 5 %; share of ok items, and commands: 1 %)
            5 inconclusive, or nothing to compare
            1 a round could not run · 2 usage
            129 / 130 / 143 ended by a signal; what was measured is saved

Examples:
  Is 21 ms a regression compared with 20 ms? Two bundled targets:
    crawlmark ab --base '--target-latency 20ms' --cand '--target-latency 21ms' \\
        -- -c 8
  Two targets that are already running:
    crawlmark ab --base 'http://127.0.0.1:8080/items/{id}' \\
        --cand 'http://127.0.0.1:8081/items/{id}' -- -c 32 -d 5s
  Two builds of a service, each started for every round on a port of its own:
    crawlmark ab --base-target './old --port {port}' \\
        --cand-target './new --port {port}' \\
        -- 'http://127.0.0.1:{port}/items/{id}' -c 32 -d 3s --expect json
  Two settings of the crawl, after a measurement of this machine's noise:
    crawlmark ab --aa --base '-c 64' --cand '-c 128' \\
        -- 'http://127.0.0.1:8080/items/{id}'
  Two builds of any program, by wall time, CPU time and peak memory of an execution.
  A round has as many executions as fit into half a second:
    crawlmark ab --base-command './old input.json' \\
        --cand-command './new input.json'
  Which function got slower? The same with samples of both builds:
    crawlmark ab --profile --base-command './old input.json' \\
        --cand-command './new input.json'
  A number that the programs print, where higher is better:
    crawlmark ab --base-command './bench-old' --cand-command './bench-new' \\
        --value 'throughput=([0-9.]+) MB/s' --better higher --unit MB/s";

/// Arguments of `ab`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Commands", group = ArgGroup::new("commands").multiple(true))]
pub struct AbArgs {
    /// Flags of `crawlmark run`, or a URL, for the base only
    #[arg(
        long,
        alias = "baseline",
        value_name = "FLAGS",
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true,
        help_heading = "Sides"
    )]
    pub base: String,
    /// Flags of `crawlmark run`, or a URL, for the candidate only
    #[arg(
        long,
        alias = "candidate",
        value_name = "FLAGS",
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true,
        help_heading = "Sides"
    )]
    pub cand: String,
    /// Shell command that starts the base's target, for each of its rounds
    ///
    /// The target must listen on a loopback port, which is {port} in the command and in the URL,
    /// and $PORT in the environment. The round begins when the target accepts connections. The
    /// target's CPU time is compared, too. In the saved command, values that look like secrets are
    /// redacted. Pass other secrets in the environment.
    #[arg(long, value_name = "COMMAND", help_heading = "Sides")]
    pub base_target: Option<String>,
    /// Shell command that starts the candidate's target; see --base-target
    #[arg(long, value_name = "COMMAND", help_heading = "Sides")]
    pub cand_target: Option<String>,
    /// Shell command of the base, to compare commands instead of crawls
    ///
    /// Each execution has a session of its own. If it leaves processes running in that session,
    /// they are ended. Its standard input is empty. --value reads the first 16 MiB of its output.
    /// No output is saved.
    #[arg(
        long,
        value_name = "COMMAND",
        requires = "cand_command",
        group = "commands"
    )]
    pub base_command: Option<String>,
    /// Shell command of the candidate; see --base-command
    #[arg(
        long,
        value_name = "COMMAND",
        requires = "base_command",
        group = "commands"
    )]
    pub cand_command: Option<String>,
    /// How commands are executed, and what is read of them.
    #[command(flatten)]
    pub commands: CommandArgs,

    /// Longest wait until a started target accepts connections
    #[arg(hide_short_help = true, long, value_name = "TIME", default_value = "10s", value_parser = parse_duration, help_heading = "Sides")]
    pub ready: Duration,

    /// Sample which functions use the CPU, and name those that changed
    ///
    /// Each 3 ms of CPU time of the targets, or of the commands, is a sample. See
    /// `crawlmark run --target-functions` for where names come from.
    #[arg(long, help_heading = "Comparison")]
    pub profile: bool,
    /// Maximum number of pairs; a verdict needs 16
    ///
    /// Disturbed pairs do not count.
    #[arg(long, value_name = "N", default_value_t = 44, value_parser = whole::<u64>(1..=44), help_heading = "Comparison")]
    pub pairs: u64,
    /// First run PAIRS pairs of the base against itself, to measure the noise
    #[arg(long, value_name = "PAIRS", num_args = 0..=1, require_equals = true, default_missing_value = "16", value_parser = whole::<u64>(1..=44), help_heading = "Comparison")]
    pub aa: Option<u64>,
    /// Seed of the random order of rounds
    #[arg(hide_short_help = true, long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>(0..=u64::MAX), help_heading = "Comparison")]
    pub seed: u64,

    /// Output options.
    #[command(flatten)]
    pub keep: OutputArgs,

    /// Flags of `crawlmark run` for both sides, and the URL
    #[arg(last = true, value_name = "RUN FLAGS", help_heading = None::<&str>)]
    pub run: Vec<String>,
}
