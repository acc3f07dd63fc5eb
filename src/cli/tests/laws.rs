//! Law of what a file of somebody else makes of a command, for a property test and a fuzz target:
//! nothing in a plan or a saved crawl executes, opens a path, a socket or a variable, or names
//! credentials or a proxy, unless it was typed.

#![expect(
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a law that does not hold ends the test"
)]

use std::sync::LazyLock;

use clap::error::ErrorKind;
use crawlmark_results::run::report::CommandLine;

use super::recorded::{FileCommand, NotResumed, is_of_part};
use super::table::{SAVING, run_arguments};
use super::{Command, RunArgs, built};
use crate::crawl::{ConnectTo, LocalIps};

/// Stands in each value of a file that would be executed, opened or sent.
const FORGED: &str = "forged";

/// Values of which each flag takes some.
const VALUES: [&str; 46] = [
    "/tmp/forged",
    "forged",
    "../forged",
    "@/tmp/forged",
    "touch forged",
    "forged:80:127.0.0.1:forged",
    "--target-probe=touch forged",
    "http://u:forged@127.0.0.1:9/",
    "http://127.0.0.1:9/{id}",
    "forged: x",
    "csv=/tmp/forged",
    "none",
    "-",
    "0..7",
    "7",
    "2ms",
    "5%",
    "127.0.0.1",
    "127.0.0.1:0",
    "a:80:127.0.0.1:9",
    "service_p99 < 1s",
    "error_rate[5s] < 5%",
    "k=v",
    "2",
    "honor",
    "1.2",
    "body",
    "sticky=7",
    "hex",
    "json",
    "aimd",
    "constant",
    "sleep",
    "auto",
    "all",
    "none",
    "id,status",
    "process",
    "0/2",
    "lab",
    "10s,1s",
    "1MB/s",
    "reset:0.01",
    "3@10ms",
    "640",
    "response < 200ms",
];

/// Words that give each flag a value that it takes.
static FLAGS: LazyLock<Vec<Vec<String>>> = LazyLock::new(|| {
    let mut all = Vec::new();
    // Built once: for each of the thousands of pairs it would take most of the time of this law.
    let mut run = built().find_subcommand("run").cloned().unwrap_or_default();
    for argument in run_arguments() {
        let Some(long) = argument.get_long() else {
            all.extend(VALUES.map(|value| vec![value.to_owned()]));
            all.extend(VALUES.map(|value| vec!["--".to_owned(), value.to_owned()]));
            continue;
        };
        let plain = vec![format!("--{long}")];
        let values = VALUES.map(|value| vec![format!("--{long}={value}")]);
        let mut is_taken = |words: &Vec<String>| {
            let line = ["run".to_owned()];
            let parsed = run.try_get_matches_from_mut(line.iter().chain(words));
            parsed.map_or_else(
                |error| {
                    let kind = error.kind();
                    kind == ErrorKind::ArgumentConflict
                        || kind == ErrorKind::MissingRequiredArgument
                },
                |_| true,
            )
        };
        let found: Vec<_> = [plain]
            .into_iter()
            .chain(values)
            .filter(&mut is_taken)
            .collect();
        assert!(
            !found.is_empty() || long == "help",
            "--{long} takes nothing"
        );
        all.extend(found);
    }
    all
});

/// Whether a file could be gone on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// Its flags are taken.
    Taken,
    /// Some have to be typed.
    Again,
    /// It is none of crawlmark's.
    Refused,
}

/// Make a file whose words `bytes` choose among all flags, and check what is taken from it.
pub fn check(bytes: &[u8]) -> Read {
    let (shape, bytes) = bytes.split_first().unwrap_or((&0, &[]));
    let words: Vec<String> = bytes
        .chunks_exact(2)
        .take(8)
        .flat_map(|pair| {
            let number = usize::from(u16::from_le_bytes([pair[0], pair[1]]));
            FLAGS[number % FLAGS.len()].clone()
        })
        .collect();
    let mut arguments = ["crawlmark", "run"].map(str::to_owned).to_vec();
    let (mut withheld, mut saving) = (Vec::new(), Vec::new());
    match shape % 4 {
        0 => saving = words,
        1 => withheld = words,
        _ => arguments.extend(words),
    }
    let file = FileCommand {
        command: CommandLine {
            arguments,
            withheld,
        },
        saving,
        ..FileCommand::default()
    };
    let now: &[&str] = match shape / 4 % 5 {
        0 => &["--resume", "crawl"],
        1 => &["--plan", "plan", "--node", "0/2", "--into", "parts"],
        2 => &["http://127.0.0.1:9/", "-H", "x: y"],
        3 => &["-H", "x: y"],
        _ => &[],
    };
    let now: Vec<String> = now.iter().map(|word| (*word).to_owned()).collect();
    match file.resumed(&now) {
        Ok(cli) => {
            let Command::Run(run) = cli.command else {
                panic!("another command: {file:?}")
            };
            check_taken(&run, &now);
            Read::Taken
        }
        Err(NotResumed::Missing(_)) => Read::Again,
        Err(_) => Read::Refused,
    }
}

/// Check what was made of a file, field by field, whatever the table of flags says.
fn check_taken(run: &RunArgs, now: &[String]) {
    let typed = |flag: &str| now.iter().any(|word| word == flag);
    let RunArgs {
        urls,
        requests_file,
        headers,
        body,
        request,
        out,
        exports,
        probe,
        save,
        part,
        ..
    } = run;
    let none = [
        ("--urls", urls.is_some()),
        ("--requests-file", requests_file.is_some()),
        ("-H", !headers.is_empty()),
        ("--body", !body.is_empty()),
        ("--body-file", request.body_file.is_some()),
        ("--json-body", request.json_body.is_some()),
        ("--auth", request.auth.is_some()),
        ("--bearer-env", request.bearer_env.is_some()),
        ("--out", out.is_some()),
        ("--export", !exports.is_empty()),
        ("--target-probe", probe.target_probe.is_some()),
        ("--target-pid", probe.target_pid.is_some()),
        ("--target-cgroup", probe.target_cgroup.is_some()),
        ("--resume", save.resume.is_some()),
        ("--plan", part.plan.is_some()),
        ("--into", part.into.is_some()),
        ("--unix-socket", run.connection.unix_socket.is_some()),
        ("--proxy", !run.proxy.proxy.is_empty()),
        ("--cacert", run.tls.cacert.is_some()),
        ("--cert", run.tls.cert.is_some()),
        ("--key", run.tls.key.is_some()),
        ("--insecure", run.tls.insecure),
        (
            "--connect-to",
            run.connect_to != <Vec<ConnectTo>>::default(),
        ),
        (
            "--local-ips",
            run.local_ips != <Option<LocalIps>>::default(),
        ),
    ];
    let is_sent = typed("-H") && !typed("http://127.0.0.1:9/");
    assert!(!is_sent || run.url.is_none(), "the target is of a file");
    for (flag, is_given) in none {
        assert_eq!(is_given, typed(flag), "{flag} is of a file");
    }
    for (id, values) in &run.typed.values {
        let is_saving = SAVING.contains(&id.as_str());
        assert!(!is_saving || is_of_part(id, values), "{id}: {values:?}");
        let is_text = ["name", "tags", "url", "save", "method", "traits"].contains(&id.as_str());
        let is_forged = values.iter().any(|value| value.contains(FORGED));
        assert!(!is_forged || is_text, "{id}: {values:?}");
    }
}

#[cfg(test)]
mod tests {
    use std::any::TypeId;
    use std::cell::Cell;
    use std::path::PathBuf;

    use proptest::prelude::*;
    use proptest::test_runner::{Config, TestRunner};

    use super::*;
    use crate::cli::table::{Flag, row};

    #[test]
    fn nothing_of_a_file_is_executed_opened_or_sent() {
        // PROPTEST_CASES=10000 takes minutes without optimization.
        let cases = Config::default().cases.max(500);
        let mut runner = TestRunner::new(Config::with_cases(cases));
        let ends = [Read::Taken, Read::Again, Read::Refused].map(|end| (end, Cell::new(0)));
        let bytes = proptest::collection::vec(any::<u8>(), 1..9);
        runner
            .run(&bytes, |bytes| {
                let end = check(&bytes);
                for (_, count) in ends.iter().filter(|(kind, _)| *kind == end) {
                    count.set(count.get() + 1);
                }
                Ok(())
            })
            .unwrap();
        let least = cases / 50;
        assert!(
            ends.iter().all(|(_, count)| count.get() >= least),
            "{ends:?}"
        );
    }

    #[test]
    fn a_flag_with_a_path_is_typed_again() {
        for argument in run_arguments() {
            if argument.get_value_parser().type_id() == TypeId::of::<PathBuf>() {
                let id = argument.get_id().as_str();
                assert!(!row(id).is_some_and(Flag::is_taken), "{id}");
            }
        }
    }
}
