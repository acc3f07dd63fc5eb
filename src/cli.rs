//! Arguments of the command line. Each argument is checked by itself here; the command resolves
//! what they mean together. Touches nothing: no file, no name, no clock.
//!
//! | room | for |
//! |---|---|
//! | `table` | one row for each flag of `run`: its group, what is recorded of it, where it may stand |
//! | `run`, `network`, `save` | flags of `run`: requests, load, throttling, results; connections, proxies, TLS; saving and parts |
//! | `ab`, `arena`, `bisect`, `scale`, `capacity`, `overload`, `ladder`, `patterns`, `selftest`, `serve`, `probe` | arguments of each command |
//! | `commands` | arguments of rounds that execute commands |
//! | `saved`, `parts` | arguments of the commands that read what was saved; of a crawl in parts |
//! | `recorded` | the command line that a result keeps, and what is taken from that of a file |
//! | `laws` | law of what is taken from a file, for fuzzing and tests |

#![expect(
    clippy::doc_markdown,
    reason = "comments of arguments are their help, as people read it"
)]
#![cfg_attr(
    doc,
    expect(
        rustdoc::bare_urls,
        rustdoc::broken_intra_doc_links,
        reason = "comments of arguments are their help, as people read it"
    )
)]

mod ab;
mod arena;
mod bisect;
mod capacity;
mod commands;
mod ladder;
#[cfg(any(test, fuzzing))]
#[path = "cli/tests/laws.rs"]
pub mod laws;
mod network;
mod overload;
mod parts;
mod patterns;
mod printed;
mod probe;
mod recorded;
mod run;
mod save;
mod saved;
mod scale;
mod selftest;
mod serve;
mod table;

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use crawlmark_harness::units::{nearest, parse_count, parse_duration};
use crawlmark_results::run::gates::{Condition, ConditionError, no_unit};

pub use ab::AbArgs;
pub use arena::ArenaArgs;
pub(crate) use arena::{LONGEST, SHORTEST, parse_entry};
pub use bisect::BisectArgs;
pub use capacity::CapacityArgs;
pub use commands::{Better, CommandArgs};
pub use ladder::LadderArgs;
pub(crate) use network::NO_PROXY;
pub use network::{ConnectionArgs, ProxyArgs, TlsArgs};
pub use overload::OverloadArgs;
pub use parts::{MergeArgs, PlanArgs, WatchArgs};
pub use patterns::PatternsArgs;
pub use printed::PrintedValue;
pub use probe::{ProbeArgs, TargetProbeArgs};
pub use recorded::Typed;
pub(crate) use recorded::{
    FileCommand, bearer_variable, given_in_rounds, is_of_part, refused_in_rounds,
};
pub use run::{PerHostArgs, RequestArgs, RobotsUse, RunArgs, ThrottlingArgs};
pub use save::{PartArgs, SaveArgs};
pub use saved::{
    CompareArgs, Destination, Export, ExportArgs, HistoryArgs, ReportArgs, VerifyArgs,
};
pub use scale::ScaleArgs;
pub use selftest::{Row, SelftestArgs};
pub use serve::{BehaviourArgs, ServeArgs};
pub use table::Values;
pub(crate) use table::{
    Need, SAVING, arg, check_needs, first_flag_of, flags_of, lasting, name_of, settings,
};

/// Crawl a range of IDs as fast as the target, a rate budget and the machine allow, and measure it.
#[derive(Debug, Parser)]
#[command(version, args_override_self = true, long_version = LONG_VERSION, about, long_about = None, after_long_help = EXIT_CODES, max_term_width = 110)]
pub struct Cli {
    /// Subcommand.
    #[command(subcommand)]
    pub command: Command,
    /// Use colors: auto (on a terminal without `NO_COLOR`), always, never
    #[arg(long, global = true, hide_short_help = true, value_enum, value_name = "WHEN", default_value_t = Color::Auto, hide_possible_values = true)]
    pub color: Color,
    /// Read flags from FILE, and insert them here in the command line
    ///
    /// FILE contains flags, quoted as in a shell, on any number of lines. A # begins a comment. A \
    /// at the end of a line joins it to the next line. If a flag takes one value and is given twice,
    /// the later one counts: flags after --config override those in FILE. If a flag may be repeated,
    /// all its values apply. FILE is a command line, and its flags may run commands and write files:
    /// only use a file whose content you would type yourself.
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Version with what build.rs found.
const LONG_VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\ncommit:   ",
    env!("CRAWLMARK_COMMIT"),
    "\ndate:     ",
    env!("CRAWLMARK_DATE"),
    "\ntarget:   ",
    env!("CRAWLMARK_TARGET"),
);

/// Use of colors in what is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On terminals that have them.
    Auto,
    /// Everywhere.
    Always,
    /// Nowhere.
    Never,
}

impl Color {
    /// Return the choice; none when it depends on the terminal.
    pub(crate) const fn is_on(self) -> Option<bool> {
        match self {
            Self::Auto => None,
            Self::Always => Some(true),
            Self::Never => Some(false),
        }
    }
}

const EXIT_CODES: &str = "\
Exit codes:
  0    success; for a run: at least one response was good, and every
       threshold passed. Without thresholds, the code is 0 even if most
       requests failed: use --max-error-rate 1% or --strict
  1    the command could not start or complete; for a run: no response was
       good, whatever its flags
  2    wrong usage: a flag, a file or the command line
  3    a threshold failed (99 with `run --k6-exit-codes`); selftest: a row
       failed; ab, compare: a regression; capacity: even the lowest rate
       fails; overload: the target is stuck
  4    the measurement is incomplete, for example because a shard died; with
       --strict: it is not valid, or items were abandoned; verify: there are
       violations, or with --complete items that are not finished
  5    a threshold could not be decided; ab, compare: the comparison is
       inconclusive; compare: single results and results of other tools get
       no verdict; bisect: no commit was found; history: too few results;
       capacity: no capacity was found; overload: no verdict;
       scale: nothing to compare; arena: no ranks; selftest: no row failed,
       but some could not be judged
  129, 130, 143
       ended by SIGHUP, SIGINT or SIGTERM, with a partial report

If several codes apply, the first in this order is used: the signal's code,
4 for an incomplete measurement, 1 for a run without a good response, 4 for
--strict, 3, 5.";

impl Cli {
    /// Parse a command line, whose first word is the name of the program.
    ///
    /// # Errors
    /// When it cannot be parsed, or asks for help.
    pub fn of(
        words: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    ) -> Result<Self, clap::Error> {
        let mut matches = Self::matches(words)?;
        let typed = match matches.subcommand() {
            Some(("run" | "plan", matches)) => Typed::of(matches),
            _ => Typed::default(),
        };
        let mut cli = Self::from_arg_matches_mut(&mut matches)
            .map_err(|error| error.format(&mut Self::command()))?;
        match &mut cli.command {
            Command::Run(run) => run.add(typed),
            Command::Plan(args) => args.run.add(typed),
            _ => {}
        }
        Ok(cli)
    }

    /// Return the arguments of any command line, by their names.
    ///
    /// # Errors
    /// When it has an unknown argument, or asks for help.
    pub(crate) fn matches(
        words: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    ) -> Result<ArgMatches, clap::Error> {
        let words: Vec<OsString> = words.into_iter().map(Into::into).collect();
        let first = words.get(1).map(|word| word.to_string_lossy().into_owned());
        let read = Self::command().try_get_matches_from(words);
        read.map_err(|error| explained(error, &first.unwrap_or_default()))
    }
}

/// Commands that newcomers look for, and the one that is meant.
const OTHER_COMMANDS: [(&str, &str); 6] = [
    (
        "attack bench benchmark crawl get hey load oha stress test vegeta wrk",
        CRAWL_A_URL,
    ),
    (
        "continue resume",
        "to go on with a saved crawl: crawlmark run --resume DIR",
    ),
    (
        "diff",
        "to compare two results: crawlmark compare BASE CANDIDATE",
    ),
    ("mock server", "to start a target: crawlmark serve"),
    (
        "record proxy",
        "to record a service: crawlmark serve --record URL",
    ),
    (
        "submit",
        "to plan the parts that a scheduler submits: crawlmark plan",
    ),
];

const CRAWL_A_URL: &str = "to crawl a URL: crawlmark run URL";

/// Flags of other programs, and the flag of `run` that does the same.
pub const OTHER_FLAGS: [(&str, &str); 14] = [
    ("-o --output", "--out DIR"),
    ("--no-save-result --no-save --no-output", "--out -"),
    ("-u --user", "--auth USER:PASSWORD"),
    ("-A --user-agent", "--header 'user-agent: NAME'"),
    ("-b --cookie", "--header 'cookie: NAME=VALUE'"),
    ("-T --content-type", "--header 'content-type: TYPE'"),
    ("-L --location --max-redirs --redirects", "--follow N"),
    ("--request", "--method METHOD"),
    ("--max-time", "--timeout TIME"),
    (
        "--data-binary --data-raw --data-urlencode",
        "--body TEXT, or --body-file FILE",
    ),
    ("--ca-certificate --cafile", "--cacert FILE"),
    ("--no-check-certificate --skip-verify", "--insecure"),
    ("--http1.1 --http2 --http3", "--http VERSION"),
    ("--proxy-user", "--proxy http://USER:PASSWORD@HOST:PORT"),
];

/// Flags of earlier builds, each behind its command, and what does the same.
const GONE: [(&str, &str); 11] = [
    (
        "ab--base-bin ab--cand-bin",
        "--base-command './old run URL --quiet --json' --value 'rate=json:/totals/attempts_per_s' --better higher",
    ),
    ("capacity--resume", "a new search"),
    ("compare--history", "crawlmark history FILE --add RESULT"),
    (
        "export--to",
        "its JSON lines, of which DuckDB makes Parquet and CSV: see crawlmark export --help",
    ),
    ("export--out export--quiet", "crawlmark export DIR > FILE"),
    (
        "report--outcome report--shards",
        "latency.hlog, by shard and outcome",
    ),
    ("report--steady", "--from TIME --to TIME"),
    ("run--output-format", "--json, or --export csv=-"),
    (
        "run--retire-session",
        "--session sticky=N, or --session per-request",
    ),
    ("scale--no-ceiling", "the verdict of each round"),
    ("serve--proxy serve--proxy-auth", "a proxy such as squid"),
];

fn advice_on<'a>(word: &str, table: &[(&str, &'a str)]) -> Option<&'a str> {
    table
        .iter()
        .find(|(words, _)| words.split(' ').any(|known| known == word))
        .map(|(_, advice)| *advice)
}

/// Say what clap cannot know: what other programs call a command or a flag, where a URL or a flag
/// goes that stands in the wrong place, and what to do about flags that exclude each other. `first`
/// is the first word behind the program's name.
fn explained(mut error: clap::Error, first: &str) -> clap::Error {
    let kind = match error.kind() {
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        ErrorKind::ArgumentConflict => ContextKind::PriorArg,
        _ => return error,
    };
    let word = match error.get(kind) {
        Some(ContextValue::String(word)) => word.clone(),
        _ => String::new(),
    };
    let near = [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg];
    let tip = match error.kind() {
        ErrorKind::ArgumentConflict => Some("keep one of them, and remove the others".to_owned()),
        ErrorKind::InvalidSubcommand => advice_on(&word, &OTHER_COMMANDS)
            .or_else(|| error.get(near[0]).is_none().then_some(CRAWL_A_URL))
            .map(str::to_owned),
        _ if word.contains("://") => {
            Some("there is one URL; several are read from a file: --urls FILE".to_owned())
        }
        _ if first.starts_with('-') => {
            Some("flags follow a command: crawlmark run URL -c 10".to_owned())
        }
        _ => advice_on(&format!("{first}{word}"), &GONE)
            .map(|now| format!("it is gone; in its place: {now}"))
            .or_else(|| {
                advice_on(&word, &OTHER_FLAGS).map(|flag| format!("`run` has it as {flag}"))
            }),
    };
    // That a flag may be a value, too, helps nobody who meant a flag.
    error.remove(ContextKind::Suggested);
    // One that merely begins alike means something else.
    let suggested = match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(suggested)) => nearest(&word, [suggested.as_str()]).is_some(),
        _ => true,
    };
    if !suggested {
        error.remove(ContextKind::SuggestedArg);
    }
    if let Some(tip) = tip {
        for kind in near {
            error.remove(kind);
        }
        let tips = vec![tip.into()];
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
    error
}

/// Return the program's command, with its global arguments in each command.
pub(crate) fn built() -> clap::Command {
    let mut program = Cli::command();
    program.build();
    program
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Crawl a range of IDs, and measure its rate, times and errors
    #[command(after_long_help = run::help(), mut_args = table::described)]
    Run(Box<RunArgs>),
    /// Compare two configurations, targets or builds in paired rounds
    #[command(after_long_help = ab::EXAMPLES)]
    Ab(Box<AbArgs>),
    /// Rank servers by rounds in random order, with ties
    #[command(after_long_help = arena::EXAMPLES)]
    Arena(Box<ArenaArgs>),
    /// Find the commit that made a metric worse
    #[command(after_long_help = bisect::EXAMPLES)]
    Bisect(Box<BisectArgs>),
    /// Measure how throughput grows with shards or connections
    #[command(after_long_help = scale::EXAMPLES)]
    Scale(Box<ScaleArgs>),
    /// Find the highest rate that a target sustains, by open-loop probes
    #[command(after_long_help = capacity::EXAMPLES)]
    Capacity(Box<CapacityArgs>),
    /// Overload a target, and measure if and when it recovers
    #[command(after_long_help = overload::EXAMPLES)]
    Overload(Box<OverloadArgs>),
    /// Run eight setups, from one request at a time to the CPU's limit
    #[command(after_long_help = ladder::help())]
    Ladder(LadderArgs),
    /// Run the usual patterns of concurrency side by side
    #[command(after_long_help = patterns::help())]
    Patterns(PatternsArgs),
    /// Compare saved results: a verdict for paired runs, else a table
    #[command(after_long_help = saved::COMPARE_EXAMPLES)]
    Compare(CompareArgs),
    /// Find changes in a history of results, and add results to it
    #[command(after_long_help = saved::HISTORY_EXAMPLES)]
    History(HistoryArgs),
    /// Recreate page, plots and exports of saved results
    #[command(after_long_help = saved::REPORT_EXAMPLES)]
    Report(ReportArgs),
    /// Split a crawl into parts for several machines
    #[command(after_long_help = parts::PLAN_EXAMPLES, mut_args = parts::shown)]
    Plan(Box<PlanArgs>),
    /// Watch the parts of a crawl: their states and the total rate
    #[command(after_long_help = parts::WATCH_EXAMPLES)]
    Watch(WatchArgs),
    /// Merge the results of all parts of a crawl into one report
    #[command(after_long_help = parts::MERGE_EXAMPLES)]
    Merge(MergeArgs),
    /// Check a saved crawl: no ID twice, no record damaged
    #[command(after_long_help = saved::VERIFY_EXAMPLES)]
    Verify(VerifyArgs),
    /// Export a saved crawl as JSON lines
    #[command(after_long_help = saved::EXPORT_EXAMPLES)]
    Export(ExportArgs),
    /// Run the bundled target, with seeded delays, limits and faults
    #[command(after_long_help = serve::EXAMPLES, mut_args = serve::described)]
    Serve(Box<ServeArgs>),
    /// Sample the processes of a target: CPU, waits, memory, queues
    #[command(after_long_help = probe::EXAMPLES)]
    Probe(ProbeArgs),
    /// Check this machine's measurement error against known results
    #[command(after_long_help = selftest::EXAMPLES)]
    Selftest(SelftestArgs),
    /// Print the completions of a shell: bash, zsh, fish, elvish, powershell
    #[command(after_long_help = COMPLETIONS)]
    Completions(CompletionsArgs),
    /// Print the manual page, or write the pages of all commands
    #[command(after_long_help = MAN)]
    Man(ManArgs),
}

const COMPLETIONS: &str = "\
Examples:
  Bash, with the package bash-completion:
    crawlmark completions bash > ~/.local/share/bash-completion/completions/crawlmark
  Zsh, in a directory of $fpath:
    crawlmark completions zsh > ~/.zfunc/_crawlmark
  Fish:
    crawlmark completions fish > ~/.config/fish/completions/crawlmark.fish";

const MAN: &str = "\
Examples:
  Read the manual page of the program:
    crawlmark man | man -l -
  Write the pages of all commands, where man finds them:
    crawlmark man --out /usr/local/share/man/man1";

/// Arguments of `completions`.
#[derive(Debug, Clone, Copy, Args)]
pub struct CompletionsArgs {
    /// Shell that will read the completions
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Arguments of `man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Write a page for each command to DIR, which is created if necessary
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Output options of a command that runs rounds.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Results")]
pub struct OutputArgs {
    /// Save the result to DIR [default: results/runs/TIME-NAME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Result name [default: the command's name]
    #[arg(hide_short_help = true, long, value_parser = parse_name)]
    pub name: Option<String>,
    /// Output format.
    #[command(flatten)]
    pub form: FormArgs,
    /// Save each plot as a PNG file as well, 1,440 pixels wide
    #[arg(hide_short_help = true, long)]
    pub png: bool,
    /// Print only errors and the page's path (or the JSON or Markdown)
    #[arg(long)]
    pub quiet: bool,
    /// Do not show progress
    #[arg(hide_short_help = true, long)]
    pub no_progress: bool,
    /// Serve a live page of each round on 127.0.0.1
    ///
    /// The page works like the page of `run --page`: the first line on standard error is its
    /// address, which contains a secret path. Without PORT, a free port is used. The page says
    /// which round it shows, and becomes the page of the result at the end. If the browser runs on
    /// the machine that measures, it takes CPU time from the rounds.
    #[arg(hide_short_help = true, long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "0")]
    pub page: Option<u16>,
}

/// Format of a printed result.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Results")]
pub struct FormArgs {
    /// Print the result as JSON to standard output
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Print the result as Markdown to standard output
    #[arg(hide_short_help = true, long)]
    pub markdown: bool,
    /// Print every table and finding at the end
    #[arg(hide_short_help = true, long, short = 'v', conflicts_with_all = ["json", "markdown"])]
    pub verbose: bool,
}

/// A number, or one that fits the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auto<T> {
    /// Choose a value for this machine.
    Auto,
    /// A value that was given.
    Exactly(T),
}

impl<T: FromStr> FromStr for Auto<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        text.parse()
            .map(Self::Exactly)
            .map_err(|_| format!("`{text}` is neither a number of at least 1 nor `auto`"))
    }
}

/// Reads a whole number within `range`.
fn whole<T: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let number = parse_count(text).map_err(|error| error.to_string())?;
        T::try_from(number)
            .ok()
            .filter(|_| range.contains(&number))
            .ok_or_else(|| match range.clone().into_inner() {
                (least, _) if number < least => {
                    format!("`{text}` is too low: write at least {least}")
                }
                (_, most) => format!("`{text}` is too high: write at most {most}"),
            })
    }
}

/// Methods are case-sensitive (RFC 9110, 9.1), but nobody who writes `head` means another one than
/// HEAD.
#[expect(clippy::unnecessary_wraps, reason = "clap's parsers may fail")]
fn parse_method(text: &str) -> Result<String, String> {
    const KNOWN: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    let known = KNOWN.iter().find(|known| known.eq_ignore_ascii_case(text));
    Ok(known.map_or_else(|| text.to_owned(), |known| (*known).to_owned()))
}

/// A name becomes part of a path.
fn parse_name(text: &str) -> Result<String, String> {
    if !text.is_empty()
        && text.len() <= 100
        && text
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '+'))
        && !text.starts_with('.')
    {
        Ok(text.to_owned())
    } else {
        Err("a name is letters, digits, `-`, `_`, `+` and `.`, 100 at most, and does not begin with `.`".to_owned())
    }
}

/// The name of a response header, in lower case.
fn parse_header_name(text: &str) -> Result<String, String> {
    let name = http::HeaderName::from_bytes(text.as_bytes());
    name.map(|name| name.to_string())
        .map_err(|_| format!("`{text}` is not the name of a header: write one such as x-cache"))
}

/// A time that has a unit, as thresholds have: a bare number may be meant as ms.
fn parse_limit_time(text: &str) -> Result<Duration, String> {
    if text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.')
    {
        return Err(no_unit(text));
    }
    parse_duration(text).map_err(|error| error.to_string())
}

/// Reads a time within `range`.
fn time(range: RangeInclusive<Duration>) -> impl Fn(&str) -> Result<Duration, String> + Clone {
    move |text| {
        let time = parse_duration(text).map_err(|error| error.to_string())?;
        let [least, most] = [range.start(), range.end()].map(|end| format!("{end:?}"));
        Some(time)
            .filter(|time| range.contains(time))
            .ok_or_else(|| format!("`{text}` is out of range: {least} to {most}"))
    }
}

/// Parse a number in a range; `example` follows "write".
fn number(
    range: RangeInclusive<f64>,
    example: &'static str,
) -> impl Fn(&str) -> Result<f64, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        let (least, most) = (range.start(), range.end());
        number.ok_or_else(|| {
            format!("`{text}` is not a number from {least} to {most}: write {example}")
        })
    }
}

/// A time in which something can be done.
fn parse_positive_time(text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Ok(time) if time.is_zero() => Err("write a time longer than 0".to_owned()),
        time => time.map_err(|error| error.to_string()),
    }
}

/// The greatest share of errors, as the condition that it is short for.
fn parse_error_rate(text: &str) -> Result<Condition, String> {
    format!("error_rate <= {text}")
        .parse()
        .map_err(|error: ConditionError| error.fault)
}

fn parse_tag(text: &str) -> Result<(String, String), String> {
    /// A tag is a word or two; readers of results refuse texts without an end.
    const LONGEST: usize = 4096;
    match text.split_once('=') {
        _ if text.len() > LONGEST => {
            Err(format!("it has {} bytes, more than {LONGEST}", text.len()))
        }
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err(format!(
            "`{text}` is not NAME=VALUE: write, for example, commit=abc123"
        )),
    }
}

impl<T> Auto<T> {
    /// Return what was given, or what fits.
    pub fn or(self, fitting: T) -> T {
        match self {
            Self::Auto => fitting,
            Self::Exactly(given) => given,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::study::understood;

    #[test]
    fn flags_that_exclude_each_other_have_a_remedy() {
        for line in [
            "run --save a --resume b",
            "run http://h/ --urls x",
            "scale -c 2 -s 1 --connections-per-shard 3",
        ] {
            let line = std::iter::once("crawlmark").chain(line.split(' '));
            let error = Cli::of(line).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ArgumentConflict);
            assert!(error.get(ContextKind::Suggested).is_some());
        }
    }

    /// The advice on a refused command line; none without any.
    fn tip(line: &str) -> Option<String> {
        let error = Cli::of(line.split(' ')).unwrap_err();
        let near = [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand];
        assert!(near.iter().all(|kind| error.get(*kind).is_none()), "{line}");
        match error.get(ContextKind::Suggested)? {
            ContextValue::StyledStrs(tips) => Some(tips[0].to_string()),
            _ => None,
        }
    }

    #[test]
    fn words_of_other_programs_lead_to_those_here() {
        let program = built();
        let run = program.find_subcommand("run").unwrap();
        for (words, advice) in OTHER_COMMANDS {
            let meant = advice
                .split("crawlmark ")
                .nth(1)
                .unwrap()
                .split(' ')
                .next()
                .unwrap();
            assert!(program.find_subcommand(meant).is_some(), "{advice}");
            for word in words.split(' ') {
                let tip = tip(&format!("crawlmark {word} http://h/"));
                assert_eq!(tip.as_deref(), Some(advice), "{word}");
            }
        }
        for (words, advice) in GONE {
            for word in words.split(' ') {
                let tip = tip(&format!("crawlmark {} 1", word.replacen("--", " --", 1)));
                assert!(tip.is_some_and(|tip| tip.contains(advice)), "{word}");
            }
        }
        for (words, advice) in OTHER_FLAGS {
            let flag = advice.trim_start_matches("--").split(' ').next();
            assert!(
                run.get_arguments().any(|it| it.get_long() == flag),
                "{advice}"
            );
            for word in words.split(' ') {
                let tip = tip(&format!("crawlmark run http://h/ {word} 1"));
                assert!(tip.is_some_and(|tip| tip.contains(advice)), "{word}");
            }
        }
        for line in [
            "crawlmark http://h/",
            "crawlmark localhost:8080",
            "crawlmark frobnicate",
            "crawlmark -c 10 http://h/",
            "crawlmark --rate 5 http://h/",
        ] {
            assert!(
                tip(line).is_some_and(|tip| tip.contains("crawlmark run")),
                "{line}"
            );
        }
        // Nobody is told that a flag may be a value, too, or of one that merely begins alike.
        for flag in ["--frobnicate", "--save-nothing", "--timestamps"] {
            assert_eq!(tip(&format!("crawlmark run http://h/ {flag}")), None);
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// Every page of help as a terminal of 80 columns shows it.
    fn pages() -> Vec<String> {
        let mut command = Cli::command().term_width(80);
        command.build();
        let top = command.render_long_help().to_string();
        let pages = command
            .get_subcommands_mut()
            .map(|command| command.render_long_help().to_string());
        std::iter::once(top)
            .chain(pages.collect::<Vec<_>>())
            .collect()
    }

    /// The command lines among the lines of a page, each with those that follow a backslash.
    fn examples(page: &str) -> Vec<String> {
        let is_command = |line: &str| {
            let word = line.split(' ').find(|word| !word.starts_with("CRAWLMARK_"));
            line.contains(' ') && matches!(word, Some("crawlmark" | "curl"))
        };
        let mut lines = page.lines().map(str::trim);
        let mut examples = Vec::new();
        while let Some(line) = lines.by_ref().find(|line| is_command(line)) {
            let mut example = line.to_owned();
            while let Some(more) = example.strip_suffix('\\') {
                example = format!("{}{}", more, lines.next().unwrap());
            }
            examples.push(example);
        }
        examples
    }

    /// Find characters that a shell would interpret, outside quotes, up to a pipe or a redirection.
    fn unquoted(example: &str) -> (&str, Vec<char>) {
        let (mut quote, mut special) = (None, Vec::new());
        for (at, c) in example.char_indices() {
            match (quote, c) {
                (None, '\'' | '"') => quote = Some(c),
                (Some(open), close) if open == close => quote = None,
                (None, '|' | '>') => return (&example[..at], special),
                (None, c) if "{}[]*?~!#&;()<$`\\".contains(c) => special.push(c),
                _ => {}
            }
        }
        (example, special)
    }

    #[test]
    fn examples_survive_a_shell_and_are_read() {
        let mut read = 0;
        for example in pages().iter().flat_map(|page| examples(page)) {
            let (ours, special) = unquoted(&example);
            assert!(special.is_empty(), "{example}: {special:?} is not quoted");
            let words: Vec<String> = shlex::split(ours)
                .unwrap_or_else(|| panic!("{example}: a quotation mark is not closed"))
                .into_iter()
                .skip_while(|word| word.starts_with("CRAWLMARK_"))
                .collect();
            if words[0] == "curl" {
                continue;
            }
            let cli = Cli::of(&words).unwrap_or_else(|error| panic!("{example}: {error}"));
            let rounds: Vec<Vec<String>> = match &cli.command {
                Command::Ab(args) => {
                    let side = |own: &str| [&args.run[..], &shlex::split(own).unwrap()].concat();
                    vec![side(&args.base), side(&args.cand)]
                }
                Command::Arena(args) => vec![args.run.clone()],
                Command::Bisect(args) => vec![args.run.clone()],
                Command::Scale(args) => vec![args.run.clone()],
                Command::Ladder(args) => vec![args.run.clone()],
                Command::Capacity(args) => vec![args.run.clone()],
                Command::Overload(args) => vec![args.run.clone()],
                _ => Vec::new(),
            };
            for round in rounds {
                understood("a round", &round).unwrap_or_else(|error| panic!("{example}: {error}"));
            }
            read += 1;
        }
        assert!(read > 40, "{read} examples");
    }

    #[test]
    fn the_short_help_of_each_command_fits_forty_lines() {
        for width in [80, 120] {
            let mut command = Cli::command().term_width(width);
            command.build();
            let top = command.render_help().to_string();
            let commands = command.get_subcommands_mut();
            let mut pages: Vec<String> = commands
                .map(|command| command.render_help().to_string())
                .collect();
            pages.push(top);
            for page in pages {
                let lines = page.lines().count();
                assert!(lines <= 40, "{lines} lines of {width} columns:\n{page}");
            }
        }
    }

    /// Help of commands and flags has one line of at most 70 characters, and the details below it.
    #[test]
    fn every_help_begins_with_one_short_line() {
        for command in std::iter::once(&built()).chain(built().get_subcommands()) {
            let helps = command
                .get_arguments()
                .filter(|argument| !argument.is_hide_set())
                .flat_map(|argument| {
                    let long = argument.get_long_help().map(ToString::to_string);
                    let first = long.and_then(|long| long.lines().next().map(str::to_owned));
                    [
                        argument.get_help().map(ToString::to_string),
                        first.or(Some("-".to_owned())),
                    ]
                });
            for help in helps.chain([command.get_about().map(ToString::to_string)]) {
                let help = help.unwrap_or_default();
                let length = help.chars().count();
                assert!(
                    (1..=70).contains(&length) && !help.contains('\n'),
                    "{help}: {length}"
                );
            }
        }
    }

    #[test]
    fn the_help_of_run_has_the_other_names_of_its_flags() {
        let mut command = built();
        let run = command.find_subcommand_mut("run").unwrap();
        let help = run.render_long_help().to_string();
        for argument in run.get_arguments() {
            let long = argument.get_long().unwrap_or_default();
            let shorts = argument.get_all_short_aliases().unwrap_or_default();
            let shorts = shorts.into_iter().map(|letter| format!("-{letter}"));
            let longs = argument.get_all_aliases().unwrap_or_default();
            for name in shorts.chain(longs.into_iter().map(|name| format!("--{name}"))) {
                let has = help.lines().any(|line| {
                    let mut words = line.split_whitespace();
                    words.next() == Some(&format!("--{long}")) && words.any(|word| word == name)
                });
                assert!(has, "{long}: {name}");
            }
        }
    }

    #[test]
    fn the_documents_have_the_exit_codes_of_the_help() {
        let page = include_str!("../docs/src/reference/exit-codes.md");
        let (codes, _) = EXIT_CODES.split_once("\n\n").unwrap();
        let mut rows: Vec<String> = Vec::new();
        for line in codes.lines().skip(1) {
            let words = line.split_whitespace().collect::<Vec<_>>().join(" ");
            match rows.last_mut() {
                Some(row) if line.starts_with("   ") => *row = format!("{row} {words}"),
                _ => rows.push(words),
            }
        }
        assert!(rows.len() == 7, "{rows:?}");
        for row in &rows {
            let text = row.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ' || c == ',');
            let code = row.strip_suffix(text).unwrap().trim();
            let row = format!("\n| {code} | {text} |\n");
            assert!(page.contains(&row), "exit-codes.md lacks {row}");
        }
    }
}
