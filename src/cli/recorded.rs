//! Arguments of `run`, one by one: what the recorded command line of a result holds of them,
//! without secrets, and which of them the rounds of a study cannot have.
//!
//! The values are those that clap matched, not those of the plan: a plan does not show that a
//! condition came from `--max-error-rate` or a latency from `--target-profile`, and `--rate 5k`
//! reads better than its parsed form. Values that depend on the machine are taken from the plan. A
//! flag is recorded only if it is listed here, so that no new one can leak its value; a test fails
//! when one is not listed at all.

use std::collections::BTreeMap;
use std::path::Path;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory};
use crawlmark_harness::plan::RunPlan;
use crawlmark_results::run::report::{self, CommandLine, PROXY_FROM, TARGET_PROCESSES};

use super::{Cli, NO_PROXY};
use crate::crawl::proxy::ProxyUrl;
use crate::crawl::redact;

/// Treatment in the recorded command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Record {
    /// As typed: no secret is in it.
    AsTyped,
    /// Without the secrets of its query.
    Redacted,
    /// By its name: it may hold a secret.
    Withheld,
    /// From the plan: it depends on the machine.
    FromPlan,
    /// Left out: it makes no difference to the run.
    Never,
}

/// Treatment in the flags of a round of a study.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InRounds {
    /// Passed on.
    Allowed,
    /// Refused: the study decides it itself, or over all rounds.
    Refused,
}

/// Every argument of `run`, by the name of its field.
const ARGUMENTS: [(Record, InRounds, &[&str]); 7] = [
    (
        Record::AsTyped,
        InRounds::Allowed,
        &[
            URLS,
            REQUESTS_FILE,
            "ids",
            "requests",
            "duration",
            "method",
            "body_file",
            "bearer_env",
            "id_format",
            "shuffle",
            "compressed",
            "cookies",
            "follow",
            "unix_socket",
            "idle_timeout",
            "connect_rate",
            "dns_ttl",
            "receive_stamps",
            "seed",
            "connections",
            "rate",
            "arrivals",
            "speed",
            "queue",
            "pacing",
            "warmup",
            "grace",
            "burst",
            "no_pin",
            "on_throttle",
            "robots",
            "max_pause",
            "adaptive",
            "retries",
            "retry_budget",
            "backoff",
            "per_host_connections",
            "per_host_rate",
            "timeout",
            "connect_timeout",
            "disable_keepalive",
            "max_requests_per_connection",
            "http",
            "streams",
            "local_ips",
            "connect_to",
            "session",
            "retire_session",
            "cacert",
            "insecure",
            "cert",
            "key",
            "tls_resume",
            "tls_min",
            "tls_max",
            "expect",
            "name",
            "tags",
            "shard_deadline",
            "k6_exit_codes",
            "target_profile",
            "target_latency",
            "target_latency_per_in_flight",
            "target_handshake",
            "target_tls",
            "target_work",
            "target_stall",
            "target_limits",
            "target_faults",
        ],
    ),
    (Record::Redacted, InRounds::Allowed, &["url", PROXY]),
    (
        Record::Withheld,
        InRounds::Allowed,
        &[HEADERS, "body", "json_body", "auth"],
    ),
    (
        Record::FromPlan,
        InRounds::Allowed,
        &["shards", TARGET_PROCESSES],
    ),
    (
        Record::Never,
        InRounds::Refused,
        &[
            "out",
            "json",
            "quiet",
            "exports",
            "png",
            "output_format",
            "save",
            "resume",
            "retry",
            "save_fields",
            "save_bodies",
            "max_body",
            "durability",
            "plan",
            "node",
            "into",
        ],
    ),
    (
        Record::AsTyped,
        InRounds::Refused,
        &[
            "threshold",
            "stop_if",
            "slo_p99",
            "max_error_rate",
            "strict",
        ],
    ),
    (
        Record::Never,
        InRounds::Allowed,
        &["latency", "no_progress"],
    ),
];

/// Parts that are withheld as a whole.
const WHOLE: [&str; 3] = ["--body ...", "--json-body ...", "--auth ..."];
const IN_QUERY: &str = "secrets in the query of the URL, which stand there as `...`";
const IN_PROXY: &str = "user name and password of --proxy";
const IN_INPUT: [(&str, &str); 2] = [
    (URLS, "the lines that standard input held (--urls -)"),
    (
        REQUESTS_FILE,
        "the requests that standard input held (--requests-file -)",
    ),
];

const HEADERS: &str = "headers";
const PROXY: &str = "proxy";
const URLS: &str = "urls";
const REQUESTS_FILE: &str = "requests_file";

fn treatment(id: &str) -> Option<(Record, InRounds)> {
    let of_it = |(.., ids): &&(Record, InRounds, &[&str])| ids.contains(&id);
    ARGUMENTS
        .iter()
        .find(of_it)
        .map(|(record, in_rounds, _)| (*record, *in_rounds))
}

/// The first flag among these words after `run` that a round of a study cannot have, as in `--out`.
/// What it does is in its words and in no file, so that its command can be repeated.
pub(crate) fn refused_in_rounds(words: &[String]) -> Option<String> {
    const EVERYWHERE: [(&str, &str); 2] =
        [("config", "--config"), ("print_config", "--print-config")];
    let line = ["crawlmark", "run"]
        .into_iter()
        .chain(words.iter().map(String::as_str));
    let everywhere = Cli::matches(line).ok();
    let is_given = |id| {
        everywhere.as_ref().and_then(|all| all.value_source(id)) == Some(ValueSource::CommandLine)
    };
    if let Some((_, flag)) = EVERYWHERE.iter().find(|(id, _)| is_given(id)) {
        return Some((*flag).to_owned());
    }
    let refused = |argument: &Arg| match treatment(argument.get_id().as_str()) {
        Some((_, InRounds::Refused)) => Some(format!("--{}", argument.get_long()?)),
        _ => None,
    };
    given(words, refused).into_iter().next()
}

/// The arguments of `run` that these words give a value, by the names of their fields; none of
/// words that it does not understand.
pub(crate) fn given_in_rounds(words: &[String]) -> Vec<String> {
    given(words, |argument| Some(argument.get_id().to_string()))
}

/// Look at each argument of `run` that these words give a value.
fn given<T>(words: &[String], look: impl Fn(&Arg) -> Option<T>) -> Vec<T> {
    let line = ["crawlmark", "run"]
        .into_iter()
        .chain(words.iter().map(String::as_str));
    let (command, matches) = (Cli::command(), Cli::matches(line));
    let run = command.find_subcommand("run").zip(
        matches
            .as_ref()
            .ok()
            .and_then(|all| all.subcommand_matches("run")),
    );
    run.into_iter()
        .flat_map(|(run, matches)| on_line(run, matches))
        .filter_map(look)
        .collect()
}

/// Iterate over the arguments of a command that its line gives a value, in the order of its help.
fn on_line<'a>(command: &'a Command, matches: &'a ArgMatches) -> impl Iterator<Item = &'a Arg> {
    let is_given = |argument: &&Arg| {
        matches.value_source(argument.get_id().as_str()) == Some(ValueSource::CommandLine)
    };
    command.get_arguments().filter(is_given)
}

/// True if this program may have recorded this command line: `run` understands it, and all of its
/// flags are recorded. One from another source may harm people who repeat it.
pub(crate) fn is_recorded(command: &CommandLine) -> bool {
    let CommandLine {
        arguments,
        withheld,
        sources: _,
    } = command;
    let Ok(matches) = Cli::matches(arguments) else {
        return false;
    };
    let program = Cli::command();
    let Some((run, typed)) = program
        .find_subcommand("run")
        .zip(matches.subcommand_matches("run"))
    else {
        return false;
    };
    let is_recorded = |argument: &clap::Arg| {
        let id = argument.get_id().as_str();
        typed.value_source(id) != Some(ValueSource::CommandLine)
            || matches!(
                treatment(id),
                Some((Record::AsTyped | Record::Redacted | Record::FromPlan, _))
            )
    };
    let is_withheld = |part: &String| {
        let name = part
            .strip_prefix("--header '")
            .and_then(|part| part.split(':').next());
        WHOLE.contains(&&**part)
            || [IN_QUERY, IN_PROXY].contains(&&**part)
            || IN_INPUT.iter().any(|(_, of_input)| of_input == part)
            || name.is_some_and(|name| header(&format!("{name}:")) == *part)
    };
    arguments
        .first()
        .is_some_and(|name| name == program.get_name())
        && run.get_arguments().all(is_recorded)
        && withheld.iter().all(is_withheld)
}

/// Return the words of a command that goes on with what `command` began: its flags, but for those
/// that `words` give another value, then `words`, which begin after `run`.
///
/// # Errors
/// Lists the parts of the command that were not recorded, and that `words` leave out.
pub(crate) fn resumed(command: &CommandLine, words: &[String]) -> Result<Vec<String>, Vec<String>> {
    let typed = given_in_rounds(words);
    let is_typed = |id: &str| typed.iter().any(|other| other == id);
    let flags = given(words, |argument| argument.get_long().map(str::to_owned));
    let is_missing = |part: &&String| match part
        .split_whitespace()
        .next()
        .and_then(|word| word.strip_prefix("--"))
    {
        Some(flag) => !flags.iter().any(|other| other == flag),
        None if **part == IN_PROXY => !is_typed(PROXY),
        None => !TARGETS.iter().any(|id| is_typed(id)),
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
    let mut kept = Typed {
        arguments: vec![Cli::command().get_name().to_owned(), "run".to_owned()],
        ..Typed::default()
    };
    let (program, matches) = (Cli::command(), Cli::matches(&command.arguments));
    let run = program.find_subcommand("run").zip(
        matches
            .as_ref()
            .ok()
            .and_then(|all| all.subcommand_matches("run")),
    );
    for argument in run
        .into_iter()
        .flat_map(|(run, matches)| on_line(run, matches))
    {
        let id = argument.get_id().as_str();
        // A target is named in one way.
        let is_replaced =
            is_typed(id) || TARGETS.contains(&id) && TARGETS.iter().any(|other| is_typed(other));
        if let (false, Ok(matches)) = (is_replaced, &matches) {
            let raw = matches
                .subcommand_matches("run")
                .and_then(|run| run.get_raw(id))
                .into_iter()
                .flatten();
            kept.record(
                argument,
                raw.map(|value| value.to_string_lossy().into_owned())
                    .collect(),
            );
        }
    }
    kept.arguments.extend_from_slice(words);
    Ok(kept.arguments)
}

/// Arguments that name the target.
const TARGETS: [&str; 3] = ["url", URLS, REQUESTS_FILE];

/// The flag of a header, without its value.
fn header(value: &str) -> String {
    format!("--header '{}'", redact::header(value))
}

/// The URL of a proxy, without its credentials; nothing of one that cannot be read.
fn proxy(url: &str) -> String {
    let parsed = url.parse::<ProxyUrl>().map(|url| url.to_string());
    parsed.unwrap_or_else(|_| if url == NO_PROXY { NO_PROXY } else { "..." }.to_owned())
}

/// True if these values of an argument, of any command, may hold a secret.
pub(crate) fn may_be_secret(id: &str, values: &[String]) -> bool {
    /// Credentials of the bundled proxy (`serve`).
    const PROXY_AUTH: &str = "proxy_auth";
    // A value may be flags itself, as in `--base '-a user:password'`.
    let words: Vec<String> = values
        .iter()
        .flat_map(|value| shlex::split(value).unwrap_or_default())
        .collect();
    match treatment(id).map(|(record, _)| record) {
        Some(Record::Withheld) => true,
        Some(Record::Redacted) if id == PROXY => values.iter().any(|value| proxy(value) != *value),
        Some(Record::Redacted) => values.iter().any(|value| redact::url(value) != *value),
        Some(Record::AsTyped | Record::FromPlan | Record::Never) => false,
        None => {
            let in_text = values.iter().any(|value| redact::text(value) != *value);
            id == PROXY_AUTH || in_text || redact::words(&words) != words
        }
    }
}

/// Recorded arguments of `run`; empty for another command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Typed {
    arguments: Vec<String>,
    withheld: Vec<String>,
    sources: BTreeMap<String, String>,
}

impl Typed {
    pub(super) fn of(matches: &ArgMatches) -> Self {
        let command = Cli::command();
        // The plan of parts has the flags of the run that each part is.
        let typed = matches
            .subcommand_matches("run")
            .or_else(|| matches.subcommand_matches("plan"));
        let Some((run, typed)) = command.find_subcommand("run").zip(typed) else {
            return Self::default();
        };
        let mut all = Self {
            arguments: vec![command.get_name().to_owned(), "run".to_owned()],
            ..Self::default()
        };
        for argument in on_line(run, typed) {
            let id = argument.get_id().as_str();
            let values: Vec<String> = typed
                .get_raw(id)
                .into_iter()
                .flatten()
                .map(|value| value.to_string_lossy().into_owned())
                .collect();
            match treatment(id).map(|(record, _)| record) {
                Some(Record::AsTyped) => all.record(argument, values),
                Some(Record::Redacted) => {
                    let (redact, part): (fn(&str) -> String, _) = if id == PROXY {
                        (proxy, IN_PROXY)
                    } else {
                        (redact::url, IN_QUERY)
                    };
                    let told: Vec<String> = values.iter().map(|url| redact(url)).collect();
                    if told != values {
                        all.withheld.push(part.to_owned());
                    }
                    all.record(argument, told);
                }
                Some(Record::Withheld) if id == HEADERS => {
                    all.withheld
                        .extend(values.iter().map(|value| header(value)));
                }
                Some(Record::Withheld) => {
                    all.withheld
                        .push(format!("--{} ...", argument.get_long().unwrap_or_default()));
                }
                Some(Record::FromPlan | Record::Never) | None => {}
            }
        }
        let is_input = |id| {
            typed
                .get_one(id)
                .is_some_and(|path: &std::path::PathBuf| path == Path::new("-"))
        };
        for (_, part) in IN_INPUT.iter().filter(|(id, _)| is_input(*id)) {
            all.withheld.push((*part).to_owned());
        }
        all
    }

    /// Appends a flag for each of its values, or a value without a flag.
    fn record(&mut self, argument: &Arg, values: Vec<String>) {
        let Some(long) = argument.get_long() else {
            return self.arguments.extend(values);
        };
        if matches!(argument.get_action(), ArgAction::SetTrue) {
            return self.arguments.push(format!("--{long}"));
        }
        for value in values {
            if argument.is_require_equals_set() || value.starts_with('-') {
                self.arguments.push(format!("--{long}={value}"));
            } else {
                self.arguments.extend([format!("--{long}"), value]);
            }
        }
    }

    /// Without what depends on the machine.
    #[must_use]
    pub fn into_command(self) -> CommandLine {
        CommandLine {
            arguments: self.arguments,
            withheld: self.withheld,
            sources: self.sources,
        }
    }

    /// Record where the values of arguments came from that were not typed, by the names of the
    /// arguments.
    #[must_use]
    pub fn with_sources(mut self, sources: &BTreeMap<String, String>) -> Self {
        self.sources.clone_from(sources);
        self
    }

    /// With what depended on the machine as it is in the plan.
    #[must_use]
    pub fn for_plan(mut self, plan: &RunPlan) -> CommandLine {
        self.arguments
            .extend(["--shards".to_owned(), plan.shards.to_string()]);
        if let Some(processes) = plan.workload.get(TARGET_PROCESSES) {
            self.arguments
                .extend(["--target-processes".to_owned(), processes.clone()]);
        }
        // One URL from the environment: the command does without that.
        let from = plan
            .workload
            .get(PROXY_FROM)
            .filter(|from| **from != "--proxy" && plan.per_host.hosts == 1);
        if let (Some(_), Some(url)) = (from, plan.workload.get(report::PROXY)) {
            self.arguments.extend(["--proxy".to_owned(), url.clone()]);
            self.withheld
                .extend(url.contains("...@").then(|| IN_PROXY.to_owned()));
        }
        CommandLine {
            arguments: self.arguments,
            withheld: self.withheld,
            sources: self.sources,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(arguments: &[&str]) -> Typed {
        Typed::of(
            &Cli::command()
                .try_get_matches_from([&["crawlmark"], arguments].concat())
                .unwrap(),
        )
    }

    fn text(arguments: &[&str]) -> String {
        typed(arguments).arguments.join(" ")
    }

    #[test]
    fn every_argument_of_run_has_one_treatment() {
        let command = Cli::command();
        let run = command.find_subcommand("run").unwrap();
        for argument in run
            .get_arguments()
            .filter(|argument| argument.get_id() != "help")
        {
            let id = argument.get_id().as_str();
            assert!(
                treatment(id).is_some(),
                "--{id} is new: list it in ARGUMENTS, as Withheld if it may hold a secret, as Never if it makes no part of the plan"
            );
        }
        let listed: Vec<&str> = ARGUMENTS
            .iter()
            .flat_map(|(.., ids)| ids.iter().copied())
            .collect();
        for id in &listed {
            assert!(
                run.get_arguments().any(|argument| argument.get_id() == id),
                "{id} is no argument"
            );
            assert_eq!(
                listed.iter().filter(|other| *other == id).count(),
                1,
                "{id}"
            );
        }
    }

    #[test]
    fn a_round_has_no_result_and_no_threshold_of_its_own() {
        let refused = |words: &[&str]| {
            refused_in_rounds(
                &words
                    .iter()
                    .map(|word| (*word).to_owned())
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(refused(&["-c", "2", "--name", "x"]), None);
        assert_eq!(
            refused(&["-c", "2", "--export", "csv=x"]).as_deref(),
            Some("--export")
        );
        assert_eq!(
            refused(&["--fail-if", "rate > 5"]).as_deref(),
            Some("--threshold")
        );
        assert_eq!(refused(&["--strict"]).as_deref(), Some("--strict"));
        assert_eq!(
            refused(&["--strict", "--no-such-flag"]),
            None,
            "refused when it is parsed"
        );
    }

    #[test]
    fn what_was_typed_is_typed_again_by_its_long_name() {
        assert_eq!(text(&["run"]), "crawlmark run");
        assert_eq!(
            text(&[
                "run",
                "http://h/",
                "-R5k",
                "-n",
                "7",
                "--no-pin",
                "--threshold",
                "rate > 5",
                "--fail-if=valid == true"
            ]),
            "crawlmark run http://h/ --items 7 --rate 5k --no-pin --threshold rate > 5 --threshold valid == true"
        );
        assert_eq!(
            text(&["run", "--adaptive", "--name=-x"]),
            "crawlmark run --adaptive=aimd --name=-x"
        );
        assert_eq!(
            text(&["run", "-s", "2", "--out", "x", "--json", "--name", "y"]),
            "crawlmark run --name y"
        );
        assert_eq!(typed(&["serve"]), Typed::default());
    }

    #[test]
    fn only_what_could_be_recorded_is_taken_for_recorded() {
        let of = |arguments: &[&str], withheld: &[&str]| {
            let [arguments, withheld] = [arguments, withheld]
                .map(|words| words.iter().map(|word| (*word).to_owned()).collect());
            is_recorded(&CommandLine {
                arguments,
                withheld,
                ..CommandLine::default()
            })
        };
        let plain = [
            "crawlmark",
            "run",
            "http://h/?token=...",
            "--rate",
            "5k",
            "--shards",
            "2",
        ];
        assert!(of(
            &plain,
            &[WHOLE[0], IN_QUERY, IN_INPUT[0].1, "--header 'x-key: ...'"]
        ));
        for own in [
            typed(&[
                "run",
                "-H",
                "a:b",
                "-H",
                "no header",
                "--body",
                "x",
                "http://h/?key=1",
                "-R5",
            ]),
            typed(&["run", "--urls", "-"]),
            typed(&["run", "-a", "u:p", "--json-body", "1", "--shuffle"]),
            typed(&[
                "run",
                "--bearer-env",
                "TOKEN",
                "--body-file",
                "x",
                "--compressed",
            ]),
        ] {
            assert!(is_recorded(&own.into_command()));
        }
        for part in [
            "rm -rf ~",
            "--header 'a: ...'; rm '",
            "--header 'a: b'",
            "--body x",
        ] {
            assert!(!of(&plain, &[part]), "{part}");
        }
        for words in [
            &["rm", "-rf", "~"][..],
            &["sh", "run"],
            &["crawlmark"],
            &["crawlmark", "selftest"],
            &["crawlmark", "run", "--fly"],
            &["crawlmark", "run", "--export", "csv=.profile"],
            &["crawlmark", "run", "--header", "a: b"],
        ] {
            assert!(!of(words, &[]), "{words:?}");
        }
    }

    #[test]
    fn secrets_are_named_and_not_told() {
        let typed = typed(&[
            "run",
            "-H",
            "authorization: hidden",
            "-H",
            "x-key:hidden",
            "--body",
            "hidden",
        ]);
        assert!(!format!("{typed:?}").contains("hidden"));
        assert_eq!(
            typed.withheld,
            [
                "--header 'authorization: ...'",
                "--header 'x-key: ...'",
                "--body ..."
            ]
        );
        let typed = self::typed(&["run", "-auser:hidden", "--json-body", "hidden"]);
        assert!(!format!("{typed:?}").contains("hidden"));
        assert_eq!(typed.withheld, ["--json-body ...", "--auth ..."]);
    }
}
