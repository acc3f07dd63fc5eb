//! What can be typed. Each argument is checked by itself here; what they mean together is resolved by the command.
//! Touches nothing: no file, no name, no clock.

mod ab;
mod again;
mod capacity;
mod compare;
mod cut;
mod export;
mod keep;
mod ladder;
mod manners;
mod report;
mod run;
mod scale;
mod selftest;
mod serve;

use std::num::NonZeroUsize;
use std::str::FromStr;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use crawlmark_harness::gates::{Condition, ConditionError};
use crawlmark_harness::units::{UnitError, parse_count};

pub use ab::AbArgs;
pub use again::Typed;
pub use capacity::CapacityArgs;
pub use compare::CompareArgs;
pub use cut::{CutArgs, Outcome};
pub use export::{Destination, Export};
pub use keep::{FormArgs, KeepArgs};
pub use ladder::{LadderArgs, RungNumber};
pub use manners::{MannersArgs, PerHostArgs};
pub use report::{Ground, ReportArgs};
pub use run::{OutputFormat, RunArgs};
pub use scale::ScaleArgs;
pub use selftest::{Row, SelftestArgs};
pub use serve::ServeArgs;

/// Crawls a range of IDs as fast as a target, a rate budget and the machine allow, and tells the truth about how fast
/// that was.
#[derive(Debug, Parser)]
#[command(version, about, long_about = None, after_help = EXIT_CODES, max_term_width = 110)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "\
Exit codes: 0 done, every gate passed · 1 could not start or complete · 2 usage
            3 a gate failed; selftest: a row failed; ab, compare: a regression; capacity: even the
              least rate fails (with `run --k6-exit-codes` 99)
            4 the measurement is invalid (a shard died, or --strict)
            5 a gate could not be decided; selftest: disturbed, nothing proved; report: no steady state found;
              ab, compare: inconclusive; scale: nothing to compare
              ab, compare: inconclusive; capacity: not found
            129 / 130 / 143 ended by SIGHUP / SIGINT / SIGTERM, partial report written
            Of several, the signal's comes first, then 4, 3, 5";

impl Cli {
    /// What was typed, and how `run` is typed again, when that was it.
    ///
    /// # Errors
    /// When it makes no sense, or asks for help.
    pub fn read() -> Result<(Self, Typed), clap::Error> {
        Self::of(Self::command().try_get_matches()?)
    }

    fn of(mut matches: ArgMatches) -> Result<(Self, Typed), clap::Error> {
        let typed = Typed::of(&matches);
        let cli = Self::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut Self::command()))?;
        Ok((cli, typed))
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Crawl a range of IDs and measure it; without a URL, crawl the bundled target
    #[command(after_help = run::EXAMPLES)]
    Run(Box<RunArgs>),
    /// Compare two configurations, targets or builds in paired rounds: pass, regression or inconclusive
    #[command(after_help = ab::EXAMPLES)]
    Ab(Box<AbArgs>),
    /// Measure how throughput grows with the shards or the connections: speed-up, efficiency, CPU per attempt, and the limits
    #[command(after_help = scale::EXAMPLES)]
    Scale(Box<ScaleArgs>),
    /// Find the highest rate that a target bears, by open-loop probes until it is known
    #[command(after_help = capacity::EXAMPLES)]
    Capacity(Box<CapacityArgs>),
    /// Climb from one request at a time to as many as the CPU can do, beside what was published for each step
    #[command(after_help = ladder::EXAMPLES)]
    Ladder(LadderArgs),
    /// Compare saved results: a verdict of paired rounds, a table of two single ones
    #[command(after_help = compare::EXAMPLES)]
    Compare(CompareArgs),
    /// Make the page, the plots and the summary of saved results anew; of several results, lay them over each other
    #[command(after_help = report::EXAMPLES)]
    Report(ReportArgs),
    /// Run the bundled target: seeded items, delays, limits and faults, and books of what it was asked
    #[command(after_help = serve::EXAMPLES)]
    Serve(Box<ServeArgs>),
    /// Measure how far this machine's measurements are off, against a target whose every answer is known beforehand
    #[command(after_help = selftest::EXAMPLES)]
    Selftest(SelftestArgs),
}

/// A number, or one that fits the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auto<T> {
    /// What fits the machine.
    Auto,
    /// This many.
    Exactly(T),
}

impl<T: FromStr> FromStr for Auto<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        text.parse().map(Self::Exactly).map_err(|_| format!("`{text}` is neither a number of at least 1 nor `auto`"))
    }
}

fn parse_positive(text: &str) -> Result<u64, UnitError> {
    match parse_count(text)? {
        0 => Err(UnitError::Count(text.to_owned())),
        count => Ok(count),
    }
}

/// Methods are case-sensitive (RFC 9110, 9.1), but nobody who writes `head` means another one than HEAD.
#[expect(clippy::unnecessary_wraps, reason = "clap's parsers may fail")]
fn parse_method(text: &str) -> Result<String, String> {
    const KNOWN: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    let known = KNOWN.iter().find(|known| known.eq_ignore_ascii_case(text));
    Ok(known.map_or_else(|| text.to_owned(), |known| (*known).to_owned()))
}

/// A name becomes part of a path.
fn parse_name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '+');
    if !text.is_empty() && text.len() <= 100 && text.chars().all(fits) && !text.starts_with('.') {
        Ok(text.to_owned())
    } else {
        Err("a name is letters, digits, `-`, `_`, `+` and `.`, 100 at most, and does not begin with `.`".to_owned())
    }
}

/// The greatest share of errors, as the condition that it is short for.
fn parse_error_rate(text: &str) -> Result<Condition, String> {
    format!("error_rate <= {text}").parse().map_err(|error: ConditionError| error.fault.to_string())
}

fn parse_tag(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        _ => Err(format!("`{text}` is not of the form key=value")),
    }
}

impl Auto<u32> {
    /// The number, or `fitting`.
    #[must_use]
    pub fn or(self, fitting: u32) -> u32 {
        match self {
            Self::Auto => fitting,
            Self::Exactly(number) => number,
        }
    }
}

impl Auto<NonZeroUsize> {
    /// The number, or one per core.
    #[must_use]
    pub fn or_cores(self, cores: usize) -> NonZeroUsize {
        match self {
            Self::Auto => NonZeroUsize::new(cores).unwrap_or(NonZeroUsize::MIN),
            Self::Exactly(number) => number,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn no_output_has_a_secret() {
        let cli = Cli::try_parse_from(["crawlmark", "serve", "--proxy-auth", "user:hidden"]).unwrap();
        assert!(!format!("{cli:?}").contains("hidden"));
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
