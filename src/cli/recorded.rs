//! The command line of `run` that a result keeps, without secrets, and the flags that the words of
//! a study give to its rounds.
//!
//! The values are those that clap matched, not those of the plan: a plan does not show that a
//! condition came from `--max-error-rate` or a latency from `--target-profile`, and `--rate 5k`
//! reads better than its parsed form. Values that depend on the machine are taken from the plan.

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches};
use crawlmark_harness::plan::RunPlan;
use crawlmark_results::run::report::{self, CommandLine, PROXY_FROM, TARGET_PROCESSES};

use super::table::{HEADERS, PROXY, Record, TARGETS, Values, name, row, run_arguments};
use super::{Cli, NO_PROXY};
use crate::crawl::proxy::ProxyUrl;
use crate::crawl::redact;

/// The words before the flags of a run.
const RUN: [&str; 2] = ["crawlmark", "run"];

/// Arguments that name the same thing: one of them takes the place of the others.
const SAME: [&[&str]; 2] = [&TARGETS, &["ids", "requests"]];

/// Values that a command line gives the arguments of `run`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Typed {
    /// Values as they were written, by the names of their fields.
    pub values: Values,
    /// Those that were typed to go on with another command line, whose values are beside them.
    pub now: Values,
}

impl Typed {
    /// Read the arguments of `run`, or of `plan`, which has those of the run that each part is.
    pub(super) fn of(matches: &ArgMatches) -> Self {
        let mut values = Values::new();
        for argument in run_arguments() {
            let id = argument.get_id().as_str();
            if row(id).is_some() && matches.value_source(id) == Some(ValueSource::CommandLine) {
                values.insert(id.to_owned(), raw_values(matches, id));
            }
        }
        Self {
            values,
            ..Self::default()
        }
    }

    /// Read words after `run`; empty if they are not understood.
    fn of_words(words: &[String]) -> Self {
        let line = RUN.iter().copied().chain(words.iter().map(String::as_str));
        let matches = Cli::matches(line).ok();
        let run = matches
            .as_ref()
            .and_then(|matches| matches.subcommand_matches("run"));
        run.map(Self::of).unwrap_or_default()
    }

    /// Return the arguments that have values, in the order of the help.
    fn arguments(&self) -> impl Iterator<Item = (Arg, &Vec<String>)> {
        run_arguments().into_iter().filter_map(|argument| {
            let values = self.values.get(argument.get_id().as_str())?;
            Some((argument, values))
        })
    }

    /// Return the command line that repeats a run, without secrets. What depends on the machine is
    /// as in `plan`, or as typed without one.
    pub fn command(&self, plan: Option<&RunPlan>) -> CommandLine {
        let mut command = CommandLine {
            arguments: RUN.map(str::to_owned).into(),
            ..CommandLine::default()
        };
        for (argument, values) in self.arguments() {
            let id = argument.get_id().as_str();
            let name = name(&argument);
            let again = format!("{name} ...");
            let shown = match row(id).map_or(Record::Never, |flag| flag.record) {
                Record::Never => continue,
                Record::FromPlan if plan.is_some() => continue,
                Record::Withheld if id == HEADERS => {
                    let headers = values.iter().map(|value| redact::header(value));
                    let headers = headers.map(|header| format!("{name} '{header}'"));
                    command.withheld.extend(headers);
                    continue;
                }
                Record::Withheld => {
                    command.withheld.push(again);
                    continue;
                }
                Record::Redacted => redacted(id, values),
                Record::FromPlan | Record::AsTyped => values.clone(),
            };
            if shown != *values {
                command.withheld.push(again);
            } else if TARGETS.contains(&id) && *values == ["-"] {
                // Of standard input, nothing is recorded.
                command.withheld.push(format!("{name} -"));
            }
            command.arguments.extend(words(&argument, &shown));
        }
        for (flag, value) in plan.map(of_plan).unwrap_or_default() {
            if value.contains("...@") {
                command.withheld.push(format!("{flag} ..."));
            }
            command.arguments.extend([flag.to_owned(), value]);
        }
        command
    }
}

/// Return the flags that a plan gives their values.
fn of_plan(plan: &RunPlan) -> Vec<(&'static str, String)> {
    let of = |key| plan.workload.get(key).cloned();
    let mut flags = vec![("--shards", plan.shards.to_string())];
    flags.extend(of(TARGET_PROCESSES).map(|processes| ("--target-processes", processes)));
    // One URL from the environment: the command does without that.
    if of(PROXY_FROM).is_some_and(|from| from != "--proxy") && plan.per_host.hosts == 1 {
        flags.extend(of(report::PROXY).map(|url| ("--proxy", url)));
    }
    flags
}

/// Return the words that give an argument these values.
fn words(argument: &Arg, values: &[String]) -> Vec<String> {
    let Some(long) = argument.get_long() else {
        return values.to_owned();
    };
    if matches!(argument.get_action(), ArgAction::SetTrue) {
        return vec![format!("--{long}")];
    }
    values
        .iter()
        .flat_map(|value| {
            match Some(value).filter(|it| argument.is_require_equals_set() || it.starts_with('-')) {
                Some(value) => vec![format!("--{long}={value}")],
                None => vec![format!("--{long}"), value.clone()],
            }
        })
        .collect()
}

/// Return the values of an argument as they were written.
fn raw_values(matches: &ArgMatches, id: &str) -> Vec<String> {
    let raw = matches.get_raw(id).into_iter().flatten();
    raw.map(|value| value.to_string_lossy().into_owned())
        .collect()
}

/// Find the first flag among these words after `run` that a round of a study cannot have, as in
/// `--out`. What it does is in its words and in no file, so that its command can be repeated.
pub(crate) fn refused_in_rounds(words: &[String]) -> Option<String> {
    let typed = Typed::of_words(words);
    typed
        .arguments()
        .filter(|(argument, _)| {
            row(argument.get_id().as_str()).is_some_and(|flag| !flag.is_for_rounds)
        })
        .map(|(argument, _)| name(&argument))
        .next()
}

/// Find the arguments of `run` that these words give a value, by the names of their fields; none of
/// words that it does not understand.
pub(crate) fn given_in_rounds(words: &[String]) -> Vec<String> {
    Typed::of_words(words).values.into_keys().collect()
}

/// Return the words of a command that goes on with what `command` began: its flags, but for those
/// that `words` give another value, then `words`, which begin after `run`.
///
/// # Errors
/// Lists the parts of the command that were not recorded, and that `words` leave out.
pub(crate) fn resumed(
    command: &CommandLine,
    words_now: &[String],
) -> Result<Vec<String>, Vec<String>> {
    let typed = Typed::of_words(words_now);
    let names: Vec<String> = typed
        .arguments()
        .map(|(argument, _)| name(&argument))
        .collect();
    // A target is named in one way.
    let names_target = TARGETS.iter().any(|id| typed.values.contains_key(*id));
    // The first word of what has to be given again is its flag.
    let mut missing = command.withheld.clone();
    missing.retain(|part| match part.split(' ').next().unwrap_or_default() {
        flag if flag.starts_with("--") => !names.iter().any(|name| name == flag),
        _ => !names_target,
    });
    if !missing.is_empty() {
        return Err(missing);
    }
    let mut all: Vec<String> = RUN.map(str::to_owned).into();
    let recorded = Typed::of_words(command.arguments.get(2..).unwrap_or_default());
    for (argument, values) in recorded.arguments() {
        let id = argument.get_id().as_str();
        let same = SAME.iter().find(|same| same.contains(&id));
        let same = same.map_or(std::slice::from_ref(&id), |same| same);
        if !same.iter().any(|id| typed.values.contains_key(*id)) {
            all.extend(words(&argument, values));
        }
    }
    all.extend_from_slice(words_now);
    Ok(all)
}

/// Return the values of an argument that is recorded without secrets.
fn redacted(id: &str, values: &[String]) -> Vec<String> {
    if id == PROXY {
        values
            .iter()
            .map(|url| match url.parse::<ProxyUrl>() {
                _ if url == NO_PROXY => NO_PROXY.to_owned(),
                Ok(url) => url.to_string(),
                Err(_) => "...".to_owned(),
            })
            .collect()
    } else {
        values.iter().map(|url| redact::url(url)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn typed(arguments: &[&str]) -> CommandLine {
        Typed::of_words(&line(arguments)).command(None)
    }

    #[test]
    fn a_round_has_no_result_and_no_threshold_of_its_own() {
        for (words, refused) in [
            (&["-c", "2", "--name", "x"][..], None),
            (&["-c", "2", "--export", "csv=x"], Some("--export")),
            (&["--fail-if", "rate > 5"], Some("--threshold")),
            (&["--config", "x"], Some("--config")),
            // Refused when it is parsed.
            (&["--strict", "--no-such-flag"], None),
        ] {
            assert_eq!(refused_in_rounds(&line(words)).as_deref(), refused);
        }
    }

    #[test]
    fn what_was_typed_is_typed_again_by_its_long_name() {
        for (words, recorded) in [
            (&[][..], "crawlmark run"),
            (
                &[
                    "http://h/",
                    "-R5k",
                    "-n",
                    "7",
                    "--no-pin",
                    "--fail-if=rate > 5",
                ],
                "crawlmark run http://h/ --items 7 --rate 5k --no-pin --threshold rate > 5",
            ),
            (
                &["--adaptive", "--name=-x"],
                "crawlmark run --adaptive=aimd --name=-x",
            ),
            (
                &["-s", "2", "--out", "x", "--json", "--name", "y"],
                "crawlmark run --shards 2 --name y",
            ),
        ] {
            assert_eq!(typed(words).arguments.join(" "), recorded);
        }
    }

    #[test]
    fn what_is_typed_takes_the_place_of_what_names_the_same() {
        let saved = typed(&["http://h/", "--items", "100", "--shuffle"]);
        for (now, all) in [
            (["--ids", "0..7"], "http://h/ --shuffle --ids 0..7"),
            (["--urls", "x"], "--items 100 --shuffle --urls x"),
        ] {
            let words = resumed(&saved, &line(&now)).unwrap();
            assert_eq!(words[RUN.len()..].join(" "), all);
        }
    }

    #[test]
    fn secrets_are_named_and_not_told() {
        let typed = typed(&["-H", "x-key:hidden", "--body", "hidden", "-au:hidden"]);
        assert!(!format!("{typed:?}").contains("hidden"));
        let names = ["--header 'x-key: ...'", "--body ...", "--auth ..."];
        assert_eq!(typed.withheld, names);
    }
}
