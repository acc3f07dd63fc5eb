//! What a round runs, as it was typed: a crawl with its target, or executions of a command; and the
//! metrics of commands.

use std::time::Duration;

use crawlmark_harness::plan::RunPlan;
use crawlmark_results::studies::compare::{Metric, Worse, command_metrics, counter_metrics};

use crate::cli::{Better, CommandArgs};
use crate::error::Error;
use crate::run;
use crate::study::{CommandRound, CommandSetup, PORT, Setup, round_flags, understood, usage};

/// Default duration of a round.
const ROUND: Duration = Duration::from_secs(2);

/// What runs in a round.
#[derive(Debug, Clone)]
pub(crate) enum Subject {
    Crawl(Box<Crawl>),
    /// Executions of a command.
    Command(CommandSetup),
}

/// A crawl.
#[derive(Debug, Clone)]
pub(crate) struct Crawl {
    /// Arguments and target.
    pub(crate) setup: Setup,
    /// Duration of each round; none if they end when their items are done.
    pub(crate) round: Option<Duration>,
    /// Plan of each round.
    pub(crate) plan: RunPlan,
    /// True if each round has a target of its own, at an address of its own.
    pub(crate) starts_its_target: bool,
}

impl Crawl {
    /// The crawl of `label` with these flags of `run`, and the command of its target if each round
    /// starts one; errors speak of the flags as `whose` does, and of the flag with the command as
    /// `target_flag`.
    ///
    /// # Errors
    /// When the flags are none of `run`, or none that a round can have.
    pub(crate) fn new(
        label: String,
        command: &str,
        whose: &str,
        mut words: Vec<String>,
        [target_flag, target]: [Option<&str>; 2],
    ) -> Result<Self, Error> {
        let typed = round_flags(command, whose, &words, &[])?;
        let mut round = typed.duration;
        if round.is_none() && typed.requests.is_none() && typed.ids.is_none() {
            round = Some(ROUND);
            words.extend(["-d".to_owned(), format!("{}s", ROUND.as_secs())]);
        }
        if !words.iter().any(|word| word.starts_with("--linger")) {
            // A shard that lingers and one that does not are not compared unawares.
            words.extend(["--linger".to_owned(), "0".to_owned()]);
        }
        let has_port = typed.url.as_ref().is_some_and(|url| url.contains(PORT));
        let flag = target_flag.unwrap_or_default();
        if target.is_some() != has_port {
            return usage(if has_port {
                format!("{PORT} in the URL is the port of a target's command: {flag} has none")
            } else {
                format!(
                    "{flag} needs a URL with {PORT} in it, as in -- http://127.0.0.1:{PORT}/items/{{id}}: \
                     each round gives its target a free port"
                )
            });
        }
        // With the port that a target will have.
        let tried: Vec<String> = words.iter().map(|word| word.replace(PORT, "1")).collect();
        let checked = run::check(&understood(whose, &tried)?).map_err(|error| match error {
            Error::Usage(why) => Error::Usage(format!("{whose}: {why}")),
            error => error,
        })?;
        Ok(Self {
            setup: Setup {
                target: target.map(str::to_owned),
                ..Setup::of_this_program(label, words)?
            },
            round,
            plan: checked.0,
            starts_its_target: target.is_some() || typed.is_bundled(),
        })
    }
}

/// Default duration of a round of a command.
const COMMAND_ROUND: Duration = Duration::from_millis(500);

/// The most executions of a round, if that is not given.
const MOST: u64 = 100;

/// The command of a side: `line`.
///
/// # Errors
/// When it is empty, or has a quotation mark that is not closed.
pub(crate) fn command_setup(
    label: String,
    line: &str,
    args: &CommandArgs,
) -> Result<CommandSetup, Error> {
    let beside = [("--prepare", &args.prepare), ("--cleanup", &args.cleanup)];
    let [prepare, cleanup] = beside.map(|(flag, line)| {
        let line = line.as_deref();
        line.map(|line| words(args, flag, line)).transpose()
    });
    Ok(CommandSetup {
        words: words(args, &format!("the command of {label}"), line)?,
        prepare: prepare?,
        cleanup: cleanup?,
        ignores_failure: args.ignore_failure,
        values: args.value.clone(),
        directory: None,
        label,
    })
}

fn words(args: &CommandArgs, flag: &str, line: &str) -> Result<Vec<String>, Error> {
    let words = if args.shell == "none" {
        if let Some(operator) = shell_operator(line) {
            return usage(format!(
                "{flag} has `{operator}`, which would be an argument of the program, because --shell none runs no shell: \
                 remove --shell none, or quote it as '{operator}'"
            ));
        }
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

/// Find a redirection, a pipe, `&&` or a variable that a shell would carry out or insert. What is
/// quoted is none: a word keeps it, and no other word begins or ends at it. (`;` ends the actions of
/// `find`.)
fn shell_operator(line: &str) -> Option<&'static str> {
    [">", "<", "|", "&&"]
        .into_iter()
        .find(|operator| {
            let bare = line.replace(&format!("\\{operator}"), "");
            count_words(&bare.replace(operator, " x x ")) > count_words(&bare)
        })
        .or(has_variable(line).then_some("$"))
}

fn count_words(line: &str) -> usize {
    shlex::split(line).map_or(0, |words| words.len())
}

/// True if a shell would insert a variable, or what a command prints: also between quotation marks,
/// but not between apostrophes.
fn has_variable(line: &str) -> bool {
    let (mut quote, mut chars) = (None, line.chars().peekable());
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if open == c => quote = None,
            (Some('\''), _) => {}
            (_, '\\') => _ = chars.next(),
            (None, '\'' | '"') => quote = Some(c),
            (_, '$')
                if chars
                    .peek()
                    .is_some_and(|c| c.is_alphabetic() || "_{(".contains(*c)) =>
            {
                return true;
            }
            _ => {}
        }
    }
    false
}

/// The metrics of a comparison of commands, the numbers that they print first.
///
/// # Errors
/// When two numbers have one name, or there are more directions or units than numbers.
pub(crate) fn command_metrics_of(args: &CommandArgs) -> Result<Vec<Metric>, Error> {
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
        let counters = counter_metrics();
        let mut taken = all.iter().chain(&counters).chain(&metrics);
        if taken.any(|metric| metric.name == value.name) {
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
    metrics.extend(counter_metrics());
    Ok(metrics)
}

/// Return the number of executions of a round, known the last of each side before: 1 if there was
/// none.
pub(crate) fn fitting_executions(before: &[CommandRound]) -> u64 {
    let longest = before
        .iter()
        .filter_map(|round| round.executions.last())
        .map(|one| one.wall_us)
        .fold(0.0, f64::max);
    let longest_ns = Duration::from_secs_f64(longest / 1e6).as_nanos();
    let fitting = COMMAND_ROUND
        .as_nanos()
        .checked_div(longest_ns)
        .unwrap_or(1);
    u64::try_from(fitting).unwrap_or(MOST).clamp(1, MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_of_a_shell_are_told_from_what_is_quoted() {
        for (line, operator) in [
            ("a > b", Some(">")),
            ("a 2>/dev/null", Some(">")),
            ("a>b", Some(">")),
            ("a < b", Some("<")),
            ("a | b", Some("|")),
            ("a && b", Some("&&")),
            ("awk '$1 > 3' f", None),
            ("awk \"$1 > 3\" f", None),
            ("ls $HOME", Some("$")),
            ("ls \"it's ${HOME}/x\"", Some("$")),
            ("ls $(pwd)", Some("$")),
            ("ls '$HOME' \\$HOME \"\\$HOME\"", None),
            ("grep 'a$' b$ f", None),
            ("grep '>' f", None),
            ("grep \\> f", None),
            ("grep a\\|b f", None),
            ("find . -exec ls {} \\;", None),
            ("curl http://h/?a=1&b=2", None),
            ("a", None),
        ] {
            assert_eq!(shell_operator(line), operator, "{line}");
        }
    }
}
