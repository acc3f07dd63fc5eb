//! The command line of `run` that a result keeps, without secrets, and the flags that the words of
//! a study give to its rounds.
//!
//! The values are those that clap matched, not those of the plan: a plan does not show that a
//! condition came from `--max-error-rate` or a latency from `--target-profile`, and `--rate 5k`
//! reads better than its parsed form. Values that depend on the machine are taken from the plan.

use std::collections::BTreeMap;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches};
use crawlmark_harness::plan::RunPlan;
use crawlmark_results::run::report::{self, CommandLine, PROXY_FROM, TARGET_PROCESSES};

use super::table::{HEADERS, PROXY, Record, TARGETS, Values, row};
use super::{Cli, NO_PROXY, built};
use crate::crawl::proxy::ProxyUrl;
use crate::crawl::redact;

/// An argument of `run` that a command line gives values.
struct Given {
    argument: Arg,
    values: Vec<String>,
}

impl Given {
    fn id(&self) -> &str {
        self.argument.get_id().as_str()
    }

    fn record(&self) -> Record {
        row(self.id()).map_or(Record::Never, |flag| flag.record)
    }

    /// Its flag, or "the URL".
    fn name(&self) -> String {
        self.argument
            .get_long()
            .map_or_else(|| "the URL".to_owned(), |long| format!("--{long}"))
    }

    /// Words that give it `values`.
    fn words(&self, values: &[String]) -> Vec<String> {
        let Some(long) = self.argument.get_long() else {
            return values.to_owned();
        };
        if matches!(self.argument.get_action(), ArgAction::SetTrue) {
            return vec![format!("--{long}")];
        }
        let mut words = Vec::new();
        for value in values {
            if self.argument.is_require_equals_set() || value.starts_with('-') {
                words.push(format!("--{long}={value}"));
            } else {
                words.extend([format!("--{long}"), value.clone()]);
            }
        }
        words
    }

    /// Return the values without secrets, and what has to be given again with them, as it begins on
    /// a command line.
    fn without_secrets(&self) -> (Vec<String>, Vec<String>) {
        let again = vec![format!("{} ...", self.name())];
        match self.record() {
            Record::Withheld if self.id() == HEADERS => (
                Vec::new(),
                self.values
                    .iter()
                    .map(|value| format!("--header '{}'", redact::header(value)))
                    .collect(),
            ),
            Record::Withheld => (Vec::new(), again),
            Record::Redacted => {
                let values = redacted(self.id(), &self.values);
                let is_whole = values == self.values;
                (values, if is_whole { Vec::new() } else { again })
            }
            // Of standard input, nothing is recorded.
            _ if TARGETS.contains(&self.id()) && self.values == ["-"] => {
                (self.values.clone(), vec![format!("{} -", self.name())])
            }
            _ => (self.values.clone(), Vec::new()),
        }
    }
}

/// Find the arguments of `run` that were given values, in the order of the help.
fn given(matches: &ArgMatches) -> Vec<Given> {
    let mut all = Vec::new();
    for argument in built()
        .find_subcommand("run")
        .into_iter()
        .flat_map(clap::Command::get_arguments)
    {
        let id = argument.get_id().as_str();
        if row(id).is_some() && matches.value_source(id) == Some(ValueSource::CommandLine) {
            all.push(Given {
                argument: argument.clone(),
                values: raw_values(matches, id),
            });
        }
    }
    all
}

/// Return the values of the arguments of `run` that were given some, by the names of their fields.
pub(super) fn given_values(matches: &ArgMatches) -> Values {
    given(matches)
        .into_iter()
        .map(|given| (given.id().to_owned(), given.values))
        .collect()
}

/// Return the values of an argument as they were written.
pub(crate) fn raw_values(matches: &ArgMatches, id: &str) -> Vec<String> {
    let raw = matches.get_raw(id).into_iter().flatten();
    raw.map(|value| value.to_string_lossy().into_owned())
        .collect()
}

/// Find the arguments that these words after `run` give values; none if they are not understood.
fn given_by(words: &[String]) -> Vec<Given> {
    let line = [&run_words(), words].concat();
    let matches = Cli::matches(line).ok();
    let run = matches
        .as_ref()
        .and_then(|matches| matches.subcommand_matches("run"));
    run.map(given).unwrap_or_default()
}

fn run_words() -> Vec<String> {
    ["crawlmark", "run"].map(str::to_owned).into()
}

/// Find the first flag among these words after `run` that a round of a study cannot have, as in
/// `--out`. What it does is in its words and in no file, so that its command can be repeated.
pub(crate) fn refused_in_rounds(words: &[String]) -> Option<String> {
    let all = given_by(words);
    all.iter()
        .find(|given| row(given.id()).is_some_and(|flag| !flag.is_for_rounds))
        .map(Given::name)
}

/// Find the arguments of `run` that these words give a value, by the names of their fields; none of
/// words that it does not understand.
pub(crate) fn given_in_rounds(words: &[String]) -> Vec<String> {
    let all = given_by(words);
    all.iter().map(|given| given.id().to_owned()).collect()
}

/// Return the words of a command that goes on with what `command` began: its flags, but for those
/// that `words` give another value, then `words`, which begin after `run`.
///
/// # Errors
/// Lists the parts of the command that were not recorded, and that `words` leave out.
pub(crate) fn resumed(command: &CommandLine, words: &[String]) -> Result<Vec<String>, Vec<String>> {
    let typed = given_by(words);
    let is_typed = |name: &str| typed.iter().any(|given| given.name() == name);
    let names_target = typed.iter().any(|given| TARGETS.contains(&given.id()));
    // The first word of what has to be given again is its flag.
    let missing: Vec<String> = command
        .withheld
        .iter()
        .filter(|part| match part.split(' ').next().unwrap_or_default() {
            flag if flag.starts_with("--") => !is_typed(flag),
            _ => !names_target,
        })
        .cloned()
        .collect();
    if !missing.is_empty() {
        return Err(missing);
    }
    let mut all = run_words();
    for given in given_by(command.arguments.get(2..).unwrap_or_default()) {
        // A target is named in one way.
        let is_other_target = names_target && TARGETS.contains(&given.id());
        if !is_typed(&given.name()) && !is_other_target {
            all.extend(given.words(&given.values));
        }
    }
    all.extend_from_slice(words);
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

/// True if these values of an argument, of any command, may hold a secret.
pub(crate) fn may_be_secret(id: &str, values: &[String]) -> bool {
    /// Credentials of the bundled proxy (`serve`).
    const PROXY_AUTH: &str = "proxy_auth";
    match row(id).map(|flag| flag.record) {
        Some(Record::Withheld) => true,
        Some(Record::Redacted) => redacted(id, values) != values,
        Some(_) => false,
        None => {
            // A value may be flags itself, as in `--base '-a user:password'`.
            let words = values
                .iter()
                .flat_map(|value| shlex::split(value).unwrap_or_default());
            let words: Vec<String> = words.collect();
            let in_text = values.iter().any(|value| redact::text(value) != *value);
            id == PROXY_AUTH || in_text || redact::words(&words) != words
        }
    }
}

/// Recorded arguments of `run`; empty for another command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Typed(CommandLine);

impl Typed {
    pub(super) fn of(matches: &ArgMatches) -> Self {
        // The plan of parts has the flags of the run that each part is.
        let run = matches.subcommand_matches("run");
        let Some(typed) = run.or_else(|| matches.subcommand_matches("plan")) else {
            return Self::default();
        };
        let mut command = CommandLine {
            arguments: run_words(),
            ..CommandLine::default()
        };
        for given in given(typed) {
            if matches!(given.record(), Record::FromPlan | Record::Never) {
                continue;
            }
            let (values, again) = given.without_secrets();
            if given.record() != Record::Withheld {
                command.arguments.extend(given.words(&values));
            }
            command.withheld.extend(again);
        }
        Self(command)
    }

    /// Without what depends on the machine.
    #[must_use]
    pub fn into_command(self) -> CommandLine {
        self.0
    }

    /// Record where the values of arguments came from that were not typed, by the names of the
    /// arguments.
    #[must_use]
    pub fn with_sources(mut self, sources: &BTreeMap<String, String>) -> Self {
        self.0.sources.clone_from(sources);
        self
    }

    /// With what depended on the machine as it is in the plan.
    #[must_use]
    pub fn for_plan(self, plan: &RunPlan) -> CommandLine {
        let mut command = self.0;
        let shards = plan.shards.to_string();
        let mut known = vec![("--shards", &shards)];
        if let Some(processes) = plan.workload.get(TARGET_PROCESSES) {
            known.push(("--target-processes", processes));
        }
        // One URL from the environment: the command does without that.
        let from = plan.workload.get(PROXY_FROM);
        let is_of_environment =
            from.is_some_and(|from| from != "--proxy") && plan.per_host.hosts == 1;
        if let (true, Some(url)) = (is_of_environment, plan.workload.get(report::PROXY)) {
            known.push(("--proxy", url));
            if url.contains("...@") {
                command.withheld.push("--proxy ...".to_owned());
            }
        }
        for (flag, value) in known {
            let words = [flag.to_owned(), value.clone()];
            command.arguments.extend(words);
        }
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[&str]) -> Vec<String> {
        line.iter().map(|word| (*word).to_owned()).collect()
    }

    fn typed(arguments: &[&str]) -> CommandLine {
        let line = [&["crawlmark"], arguments].concat();
        Typed::of(&Cli::matches(line).unwrap()).into_command()
    }

    #[test]
    fn a_round_has_no_result_and_no_threshold_of_its_own() {
        for (line, refused) in [
            (&["-c", "2", "--name", "x"][..], None),
            (&["-c", "2", "--export", "csv=x"], Some("--export")),
            (&["--fail-if", "rate > 5"], Some("--threshold")),
            (&["--config", "x"], Some("--config")),
            // Refused when it is parsed.
            (&["--strict", "--no-such-flag"], None),
        ] {
            assert_eq!(refused_in_rounds(&words(line)).as_deref(), refused);
        }
    }

    #[test]
    fn what_was_typed_is_typed_again_by_its_long_name() {
        for (line, recorded) in [
            (&["run"][..], "crawlmark run"),
            (
                &[
                    "run",
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
                &["run", "--adaptive", "--name=-x"],
                "crawlmark run --adaptive=aimd --name=-x",
            ),
            (
                &["run", "-s", "2", "--out", "x", "--json", "--name", "y"],
                "crawlmark run --name y",
            ),
            (&["serve"], ""),
        ] {
            assert_eq!(typed(line).arguments.join(" "), recorded);
        }
    }

    #[test]
    fn secrets_are_named_and_not_told() {
        let line = [
            "run",
            "-H",
            "x-key:hidden",
            "--body",
            "hidden",
            "-au:hidden",
        ];
        let typed = typed(&line);
        assert!(!format!("{typed:?}").contains("hidden"));
        let names = ["--header 'x-key: ...'", "--body ...", "--auth ..."];
        assert_eq!(typed.withheld, names);
    }
}
