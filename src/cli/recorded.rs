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

use super::table::{HEADERS, PROXY, REQUESTS_FILE, Record, TARGETS, URL, URLS, row};
use super::{Cli, NO_PROXY, built};
use crate::crawl::proxy::ProxyUrl;
use crate::crawl::redact;

/// Words for what is withheld of an argument; a header is named by itself.
const WITHHELD: [(&str, &str); 7] = [
    ("body", "--body ..."),
    ("json_body", "--json-body ..."),
    ("auth", "--auth ..."),
    (
        URL,
        "secrets in the query of the URL, which stand there as `...`",
    ),
    (PROXY, "user name and password of --proxy"),
    (URLS, "the lines that standard input held (--urls -)"),
    (
        REQUESTS_FILE,
        "the requests that standard input held (--requests-file -)",
    ),
];

/// Return the words for what is withheld of an argument.
fn withheld(id: &str) -> String {
    let found = WITHHELD.iter().find(|(of, _)| *of == id);
    found.map_or(id, |(_, words)| words).to_owned()
}

/// Return the flag of a header, without its value.
fn header(value: &str) -> String {
    format!("--header '{}'", redact::header(value))
}

/// An argument that a command line gives values.
struct Given {
    argument: Arg,
    values: Vec<String>,
}

impl Given {
    fn id(&self) -> &str {
        self.argument.get_id().as_str()
    }

    fn record(&self) -> Option<Record> {
        row(self.id()).map(|flag| flag.record)
    }

    /// Its flag, or "the URL".
    fn name(&self) -> String {
        match self.argument.get_long() {
            Some(long) => format!("--{long}"),
            None => "the URL".to_owned(),
        }
    }

    /// Words that give it these values.
    fn words(&self, values: Vec<String>) -> Vec<String> {
        let Some(long) = self.argument.get_long() else {
            return values;
        };
        if matches!(self.argument.get_action(), ArgAction::SetTrue) {
            return vec![format!("--{long}")];
        }
        let is_joined = self.argument.is_require_equals_set();
        let pair = |value: String| {
            if is_joined || value.starts_with('-') {
                vec![format!("--{long}={value}")]
            } else {
                vec![format!("--{long}"), value]
            }
        };
        values.into_iter().flat_map(pair).collect()
    }
}

/// Find the arguments of `run` that were given values, in the order of the help.
fn given(matches: &ArgMatches) -> Vec<Given> {
    let program = built();
    let run = program.find_subcommand("run").into_iter();
    let is_given = |argument: &&Arg| {
        let id = argument.get_id().as_str();
        id != "help" && matches.value_source(id) == Some(ValueSource::CommandLine)
    };
    run.flat_map(|run| run.get_arguments().filter(is_given))
        .map(|argument| Given {
            argument: argument.clone(),
            values: raw_values(matches, argument.get_id().as_str()),
        })
        .collect()
}

/// Return the values of an argument as they were written.
pub(crate) fn raw_values(matches: &ArgMatches, id: &str) -> Vec<String> {
    let raw = matches.get_raw(id).into_iter().flatten();
    raw.map(|value| value.to_string_lossy().into_owned())
        .collect()
}

/// Find the arguments of a command line of `run` that were given values; none if it is not
/// understood.
fn given_by(line: &[String]) -> Option<Vec<Given>> {
    Some(given(Cli::matches(line).ok()?.subcommand_matches("run")?))
}

/// The same of the words after `run`.
fn given_by_words(words: &[String]) -> Vec<Given> {
    given_by(&[&run_words(), words].concat()).unwrap_or_default()
}

fn run_words() -> Vec<String> {
    ["crawlmark", "run"].map(str::to_owned).into()
}

/// Find the first flag among these words after `run` that a round of a study cannot have, as in
/// `--out`. What it does is in its words and in no file, so that its command can be repeated.
pub(crate) fn refused_in_rounds(words: &[String]) -> Option<String> {
    let all = given_by_words(words);
    let refused = |given: &&Given| row(given.id()).is_some_and(|flag| !flag.is_for_rounds);
    all.iter().find(refused).map(Given::name)
}

/// Find the arguments of `run` that these words give a value, by the names of their fields; none of
/// words that it does not understand.
pub(crate) fn given_in_rounds(words: &[String]) -> Vec<String> {
    let all = given_by_words(words);
    all.iter().map(|given| given.id().to_owned()).collect()
}

/// True if this program may have recorded this command line: `run` understands it, and all of its
/// flags are recorded. One from another source may harm people who repeat it.
pub(crate) fn is_recorded(command: &CommandLine) -> bool {
    let is_own = |given: &Given| {
        !matches!(
            given.record(),
            None | Some(Record::Withheld | Record::Never)
        )
    };
    let is_header = |part: &str| {
        let name = part
            .strip_prefix("--header '")
            .and_then(|part| part.split_once(':'));
        name.is_some_and(|(name, _)| header(&format!("{name}:")) == part)
    };
    let is_withheld =
        |part: &String| WITHHELD.iter().any(|(_, words)| words == part) || is_header(part);
    command.arguments.starts_with(&run_words()[..1])
        && given_by(&command.arguments).is_some_and(|all| all.iter().all(is_own))
        && command.withheld.iter().all(is_withheld)
}

/// Return the words of a command that goes on with what `command` began: its flags, but for those
/// that `words` give another value, then `words`, which begin after `run`.
///
/// # Errors
/// Lists the parts of the command that were not recorded, and that `words` leave out.
pub(crate) fn resumed(command: &CommandLine, words: &[String]) -> Result<Vec<String>, Vec<String>> {
    let typed = given_in_rounds(words);
    // A target is named in one way.
    let is_replaced = |id: &str| {
        let by = |other: &String| other == id || [id, other].iter().all(|id| TARGETS.contains(id));
        typed.iter().any(by)
    };
    let is_missing = |part: &&String| {
        let of = WITHHELD.iter().find(|(_, words)| words == *part);
        !is_replaced(of.map_or(HEADERS, |(id, _)| id))
    };
    let missing: Vec<String> = command
        .withheld
        .iter()
        .filter(is_missing)
        .cloned()
        .collect();
    if !missing.is_empty() {
        return Err(missing);
    }
    let mut all = run_words();
    for given in given_by(&command.arguments).unwrap_or_default() {
        if !is_replaced(given.id()) {
            all.extend(given.words(given.values.clone()));
        }
    }
    all.extend_from_slice(words);
    Ok(all)
}

/// Return the URL of a proxy, without its credentials; nothing of one that cannot be read.
fn proxy(url: &str) -> String {
    let parsed = url.parse::<ProxyUrl>().map(|url| url.to_string());
    parsed.unwrap_or_else(|_| if url == NO_PROXY { NO_PROXY } else { "..." }.to_owned())
}

/// Return the values of an argument that is recorded without secrets.
fn redacted(id: &str, values: &[String]) -> Vec<String> {
    let redact: fn(&str) -> String = if id == PROXY { proxy } else { redact::url };
    values.iter().map(|value| redact(value)).collect()
}

/// True if these values of an argument, of any command, may hold a secret.
pub(crate) fn may_be_secret(id: &str, values: &[String]) -> bool {
    /// Credentials of the bundled proxy (`serve`).
    const PROXY_AUTH: &str = "proxy_auth";
    match row(id).map(|flag| flag.record) {
        Some(Record::Withheld) => true,
        Some(Record::Redacted) => redacted(id, values) != values,
        Some(Record::AsTyped | Record::FromPlan | Record::Never) => false,
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
        let mut of_input = Vec::new();
        for given in given(typed) {
            let id = given.id();
            let recorded = match given.record() {
                Some(Record::AsTyped) => given.values.clone(),
                Some(Record::Redacted) => redacted(id, &given.values),
                Some(Record::Withheld) if id == HEADERS => {
                    command
                        .withheld
                        .extend(given.values.iter().map(|value| header(value)));
                    continue;
                }
                Some(Record::Withheld) => {
                    command.withheld.push(withheld(id));
                    continue;
                }
                Some(Record::FromPlan | Record::Never) | None => continue,
            };
            if recorded != given.values {
                command.withheld.push(withheld(id));
            }
            if TARGETS[1..].contains(&id) && recorded == ["-"] {
                of_input.push(withheld(id));
            }
            command.arguments.extend(given.words(recorded));
        }
        command.withheld.extend(of_input);
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
        let mut add = |flag: &str, value: &str| {
            command
                .arguments
                .extend([flag.to_owned(), value.to_owned()]);
        };
        add("--shards", &plan.shards.to_string());
        if let Some(processes) = plan.workload.get(TARGET_PROCESSES) {
            add("--target-processes", processes);
        }
        // One URL from the environment: the command does without that.
        let from = plan.workload.get(PROXY_FROM);
        let is_of_environment =
            from.is_some_and(|from| from != "--proxy") && plan.per_host.hosts == 1;
        if let (true, Some(url)) = (is_of_environment, plan.workload.get(report::PROXY)) {
            add("--proxy", url);
            if url.contains("...@") {
                command.withheld.push(withheld(PROXY));
            }
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
    fn only_what_could_be_recorded_is_taken_for_recorded() {
        let plain = ["crawlmark", "run", "http://h/?token=...", "--rate", "5k"];
        let is_own = |arguments: &[&str], withheld: &[&str]| {
            is_recorded(&CommandLine {
                arguments: words(arguments),
                withheld: words(withheld),
                ..CommandLine::default()
            })
        };
        assert!(is_own(&plain, &["--body ...", "--header 'x-key: ...'"]));
        for line in [
            &[
                "run",
                "-H",
                "a:b",
                "-H",
                "no header",
                "--body",
                "x",
                "http://h/?key=1",
            ][..],
            &["run", "--urls", "-"],
            &["run", "-a", "u:p", "--json-body", "1", "--shuffle"],
        ] {
            assert!(is_recorded(&typed(line)), "{line:?}");
        }
        for part in [
            "rm -rf ~",
            "--header 'a: ...'; rm '",
            "--header 'a: b'",
            "--body x",
        ] {
            assert!(!is_own(&plain, &[part]), "{part}");
        }
        for line in [
            &["rm", "-rf", "~"][..],
            &["sh", "run"],
            &["crawlmark", "selftest"],
            &["crawlmark", "run", "--export", "csv=.profile"],
            &["crawlmark", "run", "--header", "a: b"],
        ] {
            assert!(!is_own(line, &[]), "{line:?}");
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
