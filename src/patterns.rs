//! `crawlmark patterns`: runs the patterns of field reports one after the other on one target, each
//! with flags of `run`, and shows throughput, p99, throttling, requests in flight and memory of
//! each.
//!
//! It runs rounds and shows progress; `crawlmark_results::studies::patterns` reads their figures.

use std::mem;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crawlmark_results::run::report::{Environment, Placement};
use crawlmark_results::studies::Header;
use crawlmark_results::studies::patterns::{PatternReport, Patterns, pattern_standing};

use crate::cli::{PatternsArgs, given_in_rounds};
use crate::crawl::redact;
use crate::error::Error;
use crate::run;
use crate::study::{self, ROUNDS, Rounds, Setup, Study, refuse, understood};

/// Time that a round takes beyond its duration: to start, to connect, and to end.
const BESIDE: Duration = Duration::from_millis(500);

/// Behaviour of the bundled target: waits that differ, and a limit above the rate and below what
/// the connections could do.
const TARGET: [&str; 4] = [
    "--target-latency",
    "lognormal:60ms,0.5",
    "--target-limit",
    "250/s:burst=50:key=everyone",
];

/// A pattern: its name, its connections as a multiple of those that were asked for, or 1 in all,
/// and its own flags, in which `R` is the rate.
struct Pattern {
    name: &'static str,
    connections: Option<u32>,
    flags: &'static [&'static str],
}

const fn pattern(
    name: &'static str,
    connections: Option<u32>,
    flags: &'static [&'static str],
) -> Pattern {
    Pattern {
        name,
        connections,
        flags,
    }
}

const PATTERNS: [Pattern; 9] = [
    pattern("one at a time", None, &[]),
    pattern("waves", Some(1), &["--arrivals", "waves"]),
    pattern("semaphore", Some(1), &[]),
    pattern("interval cap", Some(1), &["--rate", "R per 1s"]),
    pattern("token bucket", Some(1), &["--rate", "R", "--burst", "R"]),
    pattern("even spacing", Some(1), &["--rate", "R"]),
    pattern(
        "open loop",
        Some(4),
        &["--rate", "R", "--arrivals", "constant"],
    ),
    pattern(
        "bounded queue",
        Some(1),
        &["--rate", "R", "--arrivals", "constant", "--queue", "R"],
    ),
    pattern("adaptive", Some(4), &["--adaptive"]),
];

/// Run the patterns, and return the exit code.
pub(crate) fn patterns(args: &PatternsArgs) -> Result<u8, Error> {
    PATTERNS
        .iter()
        .try_for_each(|pattern| check(pattern, args))?;
    let side = SideBySide {
        args,
        done: Vec::new(),
        times: None,
        environment: None,
    };
    study::conduct(side, &args.keep, "patterns")
}

/// Check that the flags after -- go together with those of a pattern, before anything is run.
fn check(pattern: &Pattern, args: &PatternsArgs) -> Result<(), Error> {
    let words = words(pattern, args)?;
    let typed = understood(
        &format!(
            "the pattern `{}` and the flags after --, together",
            pattern.name
        ),
        &words,
    )?;
    refuse(
        &words,
        "the flags after --. Only the patterns as a whole are saved and shown",
    )?;
    if typed.requests.is_some() || typed.list_of_input().is_some() {
        let why = "patterns last a fixed time (-d), and each crawls from the first item";
        return Err(Error::Usage(format!(
            "{why}: remove -n and lists from standard input from the flags after --"
        )));
    }
    run::check(typed).map(drop)
}

/// The flags of `run` that a pattern is, and those of all patterns.
fn words(pattern: &Pattern, args: &PatternsArgs) -> Result<Vec<String>, Error> {
    let connections = pattern
        .connections
        .map_or(1, |times| args.connections.saturating_mul(times));
    let mut words = vec!["-c".to_owned(), connections.to_string()];
    words.extend(
        pattern
            .flags
            .iter()
            .map(|word| match word.strip_prefix('R') {
                Some(rest) => format!("{}{rest}", args.rate),
                None => (*word).to_owned(),
            }),
    );
    // One shard each: waves need it, and memory is to be compared.
    words.extend(["-s", "1", "-d"].map(str::to_owned));
    words.extend([
        humantime::format_duration(args.duration).to_string(),
        "--seed".to_owned(),
        args.seed.to_string(),
    ]);
    let is_bundled = understood("the flags after --", &args.run)?.is_bundled();
    // Its latency and limit belong together: a command line that sets one sets both.
    if is_bundled
        && !given_in_rounds(&args.run)
            .iter()
            .any(|flag| flag.starts_with("target_"))
    {
        words.extend(TARGET.map(str::to_owned));
    }
    words.extend(args.run.iter().cloned());
    Ok(words)
}

/// The patterns that were run.
struct SideBySide<'a> {
    args: &'a PatternsArgs,
    done: Vec<PatternReport>,
    /// Start of the first, and end of the last one.
    times: Option<[String; 2]>,
    environment: Option<Environment>,
}

impl Study for SideBySide<'_> {
    type Result = Patterns;

    const NEEDS: &'static str = "a pattern was run";

    fn announcement(&self, _: &Path) -> (String, Vec<(&'static str, String)>) {
        let count = u32::try_from(PATTERNS.len()).unwrap_or(u32::MAX);
        let whole = (self.args.duration + BESIDE) * count;
        let sentence = format!(
            "{count} patterns of {:?} each, about {} s in all",
            self.args.duration,
            whole.as_secs() + 1
        );
        (sentence, Vec::new())
    }

    fn run(&mut self, rounds: &mut Rounds<'_>) -> Result<(), Error> {
        PATTERNS
            .iter()
            .zip(1..)
            .try_for_each(|(pattern, number)| self.pattern(rounds, (pattern, number)))
    }

    fn result(&mut self, header: Header) -> Result<Option<Patterns>, Error> {
        let Some(times) = self.times.take() else {
            return Ok(None);
        };
        let environment = self
            .environment
            .take()
            .unwrap_or_else(|| Environment::read(Placement::Colocated));
        let result = Patterns::new(header.name, mem::take(&mut self.done), (times, environment));
        Ok(Some(Patterns {
            interrupted: header.interrupted,
            ..result
        }))
    }
}

impl SideBySide<'_> {
    fn pattern(
        &mut self,
        rounds: &mut Rounds<'_>,
        (pattern, number): (&Pattern, u32),
    ) -> Result<(), Error> {
        let (flags, folder) = (
            words(pattern, self.args)?,
            PathBuf::from(ROUNDS).join(number.to_string()),
        );
        let (stage, label) = (format!("pattern {number}"), format!("`{}`", pattern.name));
        rounds.stages.begin(
            &stage,
            &format!("{} ({})", pattern.name, flags[..2].join(" ")),
            self.args.duration + BESIDE,
        );
        let setup = Setup::of_this_program(label.clone(), flags.clone())?;
        let round = rounds
            .run(&setup, &folder)
            .and_then(|round| round.by_the_clock(&label));
        let report = round.map(|round| round.report);
        let saved = (redact::words(&flags), folder.display().to_string());
        let read = report
            .as_ref()
            .map(|report| PatternReport::of(report, pattern.name, saved));
        rounds.stages.end(
            &stage,
            &read
                .as_ref()
                .map_or_else(|_| "stopped".to_owned(), pattern_standing),
        );
        if let Ok(read) = read {
            self.done.push(read);
        }
        let report = report?;
        let started = self
            .times
            .take()
            .map_or(report.started_at, |[started, _]| started);
        self.times = Some([started, report.finished_at]);
        self.environment.get_or_insert(report.environment);
        Ok(())
    }
}
