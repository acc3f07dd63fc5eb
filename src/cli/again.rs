//! How a run is typed again: what was typed, as far as it makes the plan, without secrets.
//!
//! Taken from what clap matched and not made from the plan: a plan no longer says that it owes its requests to
//! `--max-error-rate` or its holds to `--target-profile`, and `--rate 5k` reads better than what became of it. What depends
//! on the machine is taken from the plan. A flag is recorded only if it is listed here, so that no new one can leak
//! what it holds; a test fails when one is not listed at all.

use std::path::Path;

use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, CommandFactory};
use crawlmark_harness::plan::RunPlan;
use crawlmark_results::run::report::CommandLine;

use super::Cli;
use crate::crawl::redact;

/// What is typed again as it was: nobody hides a secret in it, but for the query of a URL.
const RECORDED: [&str; 48] = [
    URL,
    URLS,
    "ids",
    "requests",
    "duration",
    "method",
    "seed",
    "connections",
    "rate",
    "arrivals",
    "pacing",
    "warmup",
    "grace",
    "burst",
    "no_pin",
    "on_throttle",
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
    "local_ips",
    "expect",
    "name",
    "tags",
    "fail_if",
    "stop_if",
    "slo_p99",
    "max_error_rate",
    "strict",
    "shard_deadline",
    "k6_exit_codes",
    "target_profile",
    "target_latency",
    "target_latency_per_in_flight",
    "target_handshake",
    "target_work",
    "target_stall",
    "target_limits",
    "target_faults",
    // For completeness of the list; they come from the plan.
    SHARDS,
    TARGET_PROCESSES,
];

const SHARDS: &str = "shards";
const TARGET_PROCESSES: &str = "target_processes";
/// What may hold a secret: named, and not told.
const HEADERS: &str = "headers";
const BODY: &str = "body";
const URLS: &str = "urls";
/// What may hold one in its query.
const URL: &str = "url";

/// What was typed after `run`; nothing of another command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Typed {
    arguments: Vec<String>,
    withheld: Vec<String>,
}

impl Typed {
    pub(super) fn of(matches: &ArgMatches) -> Self {
        let command = Cli::command();
        let Some((run, typed)) = command.find_subcommand("run").zip(matches.subcommand_matches("run")) else {
            return Self::default();
        };
        let mut all = Self { arguments: vec![command.get_name().to_owned(), "run".to_owned()], withheld: Vec::new() };
        for argument in run.get_arguments() {
            let id = argument.get_id().as_str();
            if typed.value_source(id) != Some(ValueSource::CommandLine) {
                continue;
            }
            let values: Vec<String> =
                typed.get_raw(id).into_iter().flatten().map(|value| value.to_string_lossy().into_owned()).collect();
            match id {
                SHARDS | TARGET_PROCESSES => {}
                HEADERS => {
                    all.withheld.extend(values.iter().map(|value| format!("--header '{}'", redact::header(value))));
                }
                BODY => all.withheld.push("--body ...".to_owned()),
                URL => {
                    let told: Vec<String> = values.iter().map(|url| redact::url(url)).collect();
                    if told != values {
                        all.withheld.push("secrets in the query of the URL, which stand there as `...`".to_owned());
                    }
                    all.record(argument, told);
                }
                id if RECORDED.contains(&id) => all.record(argument, values),
                _ => {}
            }
        }
        if typed.get_one(URLS).is_some_and(|path: &std::path::PathBuf| path == Path::new("-")) {
            all.withheld.push("the lines that standard input held (--urls -)".to_owned());
        }
        all
    }

    /// Appends a flag for each of its values, or a value without a flag.
    fn record(&mut self, argument: &clap::Arg, values: Vec<String>) {
        let Some(long) = argument.get_long() else { return self.arguments.extend(values) };
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

    /// With what depended on the machine as it is in the plan.
    #[must_use]
    pub fn for_plan(mut self, plan: &RunPlan) -> CommandLine {
        self.arguments.extend(["--shards".to_owned(), plan.shards.to_string()]);
        if let Some(processes) = plan.workload.get(TARGET_PROCESSES) {
            self.arguments.extend(["--target-processes".to_owned(), processes.clone()]);
        }
        CommandLine { arguments: self.arguments, withheld: self.withheld }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The heading of the flags that say where a result goes and how it is shown. Of these only labels are part of a run.
    const RESULTS: &str = "Results";

    /// What may hold a secret.
    const WITHHELD: [&str; 2] = [HEADERS, BODY];

    fn typed(arguments: &[&str]) -> Typed {
        Typed::of(&Cli::command().try_get_matches_from([&["crawlmark"], arguments].concat()).unwrap())
    }

    fn text(arguments: &[&str]) -> String {
        typed(arguments).arguments.join(" ")
    }

    #[test]
    fn every_flag_of_run_is_recorded_or_withheld_or_not_of_the_run() {
        let command = Cli::command();
        let run = command.find_subcommand("run").unwrap();
        for argument in run.get_arguments() {
            let id = argument.get_id().as_str();
            let is_known = RECORDED.contains(&id) || WITHHELD.contains(&id);
            let is_aside = id == "help" || argument.get_help_heading() == Some(RESULTS);
            assert!(
                is_known || is_aside,
                "--{id} is new: add it to RECORDED if it makes the plan and holds no secret, to WITHHELD otherwise"
            );
        }
        for id in RECORDED.iter().chain(&WITHHELD) {
            assert!(run.get_arguments().any(|argument| argument.get_id() == id), "{id} is no flag");
        }
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
                "--fail-if",
                "rate > 5",
                "--fail-if=valid == true"
            ]),
            "crawlmark run http://h/ --requests 7 --rate 5k --no-pin --fail-if rate > 5 --fail-if valid == true"
        );
        assert_eq!(text(&["run", "--adaptive", "--name=-x"]), "crawlmark run --adaptive=aimd --name=-x");
        assert_eq!(text(&["run", "-s", "2", "--out", "x", "--json", "--name", "y"]), "crawlmark run --name y");
        assert_eq!(typed(&["serve"]), Typed::default());
    }

    #[test]
    fn secrets_are_named_and_not_told() {
        let typed = typed(&["run", "-H", "authorization: hidden", "-H", "x-key:hidden", "--body", "hidden"]);
        assert!(!format!("{typed:?}").contains("hidden"));
        assert_eq!(typed.withheld, ["--header 'authorization: ...'", "--header 'x-key: ...'", "--body ..."]);
    }
}
