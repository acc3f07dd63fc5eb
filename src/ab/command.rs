//! The sides of a comparison of commands, and the metrics that they are compared by.

use std::time::Duration;

use crawlmark_results::studies::compare::{Metric, Worse, command_metrics};

use crate::cli::{AbArgs, Better};
use crate::error::Error;
use crate::study::{CommandRound, CommandSetup, usage};

/// Default duration of a round.
const ROUND: Duration = Duration::from_millis(500);

/// The most executions of a round, if that is not given.
const MOST: u64 = 100;

/// The command of a side: `line`.
///
/// # Errors
/// When it is empty, or has a quotation mark that is not closed.
pub(super) fn setup(label: String, line: &str, args: &AbArgs) -> Result<CommandSetup, Error> {
    let (prepare, cleanup) = (args.prepare.as_deref(), args.cleanup.as_deref());
    Ok(CommandSetup {
        words: words(args, &format!("the command of {label}"), line)?,
        prepare: prepare
            .map(|line| words(args, "--prepare", line))
            .transpose()?,
        cleanup: cleanup
            .map(|line| words(args, "--cleanup", line))
            .transpose()?,
        ignores_failure: args.ignore_failure,
        values: args.value.clone(),
        label,
    })
}

fn words(args: &AbArgs, flag: &str, line: &str) -> Result<Vec<String>, Error> {
    let words = if args.shell == "none" {
        shlex::split(line)
    } else {
        let shell = shlex::split(&args.shell).filter(|shell| !shell.is_empty());
        shell.map(|shell| [shell, vec!["-c".to_owned(), line.to_owned()]].concat())
    };
    match words {
        Some(words) if !line.trim().is_empty() => Ok(words),
        Some(_) => usage(format!("{flag} is empty: name a program")),
        None => usage(format!(
            "{flag} or --shell is empty, or has a quotation mark that is not closed"
        )),
    }
}

/// The metrics of a comparison of commands, the numbers that they print first.
///
/// # Errors
/// When two numbers have one name, or there are more directions or units than numbers.
pub(super) fn metrics(args: &AbArgs) -> Result<Vec<Metric>, Error> {
    let all = command_metrics();
    let mut metrics = Vec::new();
    for (flag, count) in [("--better", args.better.len()), ("--unit", args.unit.len())] {
        if count > args.value.len().max(1) {
            return usage(format!(
                "{count} x {flag} for {} x --value: give each number one",
                args.value.len()
            ));
        }
    }
    for (index, value) in args.value.iter().enumerate() {
        if all
            .iter()
            .chain(&metrics)
            .any(|metric| metric.name == value.name)
        {
            return usage(format!("--value {}: the name is taken", value.name));
        }
        let worse = match args.better.get(index).or(args.better.last()) {
            Some(Better::Higher) => Worse::Less,
            Some(Better::Lower) | None => Worse::More,
        };
        let unit = args.unit.get(index).or(args.unit.last());
        metrics.push(value.metric(worse, unit.map_or("", |unit| unit)));
    }
    metrics.extend(all);
    Ok(metrics)
}

/// Return the number of executions of a round, known the last of each side before: 1 if there was
/// none.
pub(super) fn executions(before: &[CommandRound]) -> u64 {
    let last = before.iter().filter_map(|round| round.executions.last());
    let longest = last.map(|one| one.wall_us).fold(0.0, f64::max);
    let longest = Duration::from_secs_f64(longest / 1e6).as_nanos();
    let fitting = ROUND.as_nanos().checked_div(longest).unwrap_or(1);
    u64::try_from(fitting).unwrap_or(MOST).clamp(1, MOST)
}
