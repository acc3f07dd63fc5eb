//! `crawlmark ab` and `compare` from outside: rounds run in pairs, in fresh processes and in the
//! order drawn; what is said is what is saved; a loss that nobody can miss is found, and bad input
//! is refused before anything runs.
#![expect(
    clippy::unwrap_used,
    reason = "a test whose program cannot be started is over"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use crawlmark_results::run::report::{Report, config_hash};
use crawlmark_results::run::result_dir::read;
use crawlmark_results::studies::compare as shown;
use crawlmark_results::studies::compare::{Order, OrderSchedule, RoundReport};
use jsonschema::Validator;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::command::{Done, Started};
use crate::process::{signal, wait_for, working_in};
use crate::run::program;
use crate::schema::closed;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!(
        "../../results/schema/comparison-1.schema.json"
    ))
    .unwrap()
});

static VALIDATOR: LazyLock<Validator> = LazyLock::new(|| closed(&SCHEMA));

/// Rounds that take no longer than they must.
const SHORT: [&str; 7] = ["--", "-n", "256", "-c", "32", "-s", "1"];

impl Done {
    /// The saved comparison, which fits its schema.
    #[track_caller]
    fn contest(&self) -> Value {
        self.saved("comparison.json", &VALIDATOR)
    }
}

/// Runs `ab` with these flags and short rounds.
fn ab(args: &[&str], rounds: &[&str]) -> Done {
    Started::new(&[&["ab", "--out", "out"], args, rounds].concat()).end()
}

fn crawlmark(args: &[&str]) -> Done {
    Started::new(args).end()
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn rounds_run_in_pairs_in_the_order_drawn_and_are_saved() {
    let done = ab(
        &[
            "--pairs",
            "2",
            "--seed",
            "7",
            "--json",
            "--base",
            "--connect-timeout 3s",
            "--cand",
            "--connect-timeout 4s",
        ],
        &SHORT,
    )
    .code(&[5]);
    let contest = done.contest();
    assert_eq!(
        contest,
        serde_json::from_str::<Value>(&done.stdout).unwrap()
    );
    let rounds = contest["rounds"].as_array().unwrap();
    let undisturbed: Vec<&[Value]> = rounds
        .chunks(2)
        .filter(|pair| pair[0]["disturbance"] == "none")
        .collect();
    let orders: Vec<Order> = OrderSchedule::new(7).take(2).collect();
    for (pair, order) in undisturbed.iter().zip(&orders) {
        let arms: Vec<&str> = pair
            .iter()
            .map(|round| round["arm"].as_str().unwrap())
            .collect();
        let expected = if *order == Order::BaseFirst {
            ["base", "candidate"]
        } else {
            ["candidate", "base"]
        };
        assert_eq!(arms, expected);
    }
    let reports: Vec<RoundReport> = serde_json::from_value(contest["rounds"].clone()).unwrap();
    for (number, pair) in (1..).zip(reports.chunks(2)) {
        let own = shown::pair_line(pair);
        let line = done
            .stderr
            .lines()
            .find(|line| line.starts_with(&format!("  pair {number} ")));
        assert!(
            line.is_some_and(|line| line.ends_with(&own)),
            "{own}: {}",
            done.stderr
        );
    }
    assert!(
        undisturbed.len() < 2 || done.stderr.contains("so far    estimate from 2 pairs: "),
        "{}",
        done.stderr
    );
    assert!(
        undisturbed.len() == 2 || is_too_disturbed(&contest),
        "{}",
        undisturbed.len()
    );
    let mut supervisors = Vec::new();
    for round in rounds {
        let directory = done.out().join(round["result"].as_str().unwrap());
        let names: Vec<_> = fs::read_dir(&directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, ["result.json"]);
        let result: Value =
            serde_json::from_str(&fs::read_to_string(directory.join("result.json")).unwrap())
                .unwrap();
        assert_eq!(result["ledger"]["ok"], 256);
        assert_eq!(result["started_at"], round["started_at"]);
        let its_own = if round["arm"] == "base" {
            "3000000"
        } else {
            "4000000"
        };
        assert_eq!(result["plan"]["workload"]["connect_timeout_us"], its_own);
        supervisors.push(result["run_id"].as_str().unwrap().to_owned());
    }
    supervisors.sort();
    supervisors.dedup();
    assert_eq!(
        supervisors.len(),
        rounds.len(),
        "each round is a process of its own"
    );
    assert_eq!(contest["differences"].as_array().map(Vec::len), Some(1));
    assert_eq!(
        contest["differences"][0]["what"],
        "plan.workload.connect_timeout_us"
    );
    for file in ["summary.md", "junit.xml", "plots/pairs.svg"] {
        assert!(done.out().join(file).exists(), "{file}");
    }
    // Judged again from what was saved, it is the same.
    let again = crawlmark(&["compare", &text(&done.out()), "--json"]).code(&[5]);
    assert_eq!(
        serde_json::from_str::<Value>(&again.stdout).unwrap(),
        contest
    );
}

#[test]
fn a_saved_comparison_is_judged_by_its_rounds() {
    let done = ab(
        &[
            "--pairs",
            "2",
            "--base",
            "--connect-timeout 3s",
            "--cand",
            "--connect-timeout 4s",
        ],
        &SHORT,
    );
    let (file, contest) = (done.out().join("comparison.json"), done.contest());
    let mut other = contest.clone();
    (other["verdict"], other["crawlmark_version"]) = ("pass".into(), "0.0.9".into());
    fs::write(&file, other.to_string()).unwrap();
    let again = crawlmark(&["compare", &text(&file), "--json"]).code(&[5]);
    assert_eq!(
        serde_json::from_str::<Value>(&again.stdout).unwrap(),
        contest
    );
    // Without its rounds, the file is all there is.
    fs::remove_dir_all(done.out().join("rounds")).unwrap();
    let alone = crawlmark(&["compare", &text(&file)]).code(&[5]);
    let all = contest["rounds"].as_array().unwrap().len();
    assert!(
        alone.stderr.contains(&format!("{all} of {all} rounds")),
        "{}",
        alone.stderr
    );
}

/// Whether the machine was too busy for a verdict, which is no fault of what is tested. Says so
/// then.
#[expect(
    clippy::print_stderr,
    reason = "a verdict that was not judged is said to be so"
)]
pub(crate) fn is_too_disturbed(contest: &Value) -> bool {
    let is_so = contest["comparison"].to_string().contains("too_disturbed");
    if is_so {
        eprintln!("not judged: more than a quarter of the pairs were disturbed");
    }
    is_so
}

/// A target as a command of the shell: the bundled one, as a program of its own.
fn served(latency: &str) -> String {
    format!(
        "exec {} serve --processes 1 --listen 127.0.0.1:{{port}} --latency {latency}",
        program().display()
    )
}

#[test]
fn a_target_of_each_round_that_takes_twice_as_long_is_a_regression() {
    let (base, candidate) = (served("5ms"), served("10ms"));
    let sides = [
        "--base-target",
        &base,
        "--cand-target",
        &candidate,
        "--markdown",
    ];
    let url = "http://127.0.0.1:{port}/items/{id}";
    let done = ab(&sides, &["--", url, "-n", "256", "-c", "16", "-s", "1"]);
    let contest = done.contest();
    if is_too_disturbed(&contest) {
        return;
    }
    let done = done.code(&[3]);
    assert_eq!(contest["verdict"], "regression");
    let differences =
        serde_json::json!([{"what": "target command", "base": base, "candidate": candidate}]);
    assert_eq!(
        contest["differences"], differences,
        "another port is no difference"
    );
    let findings = contest["comparison"]["findings"].as_array().unwrap();
    let named = |name: &str| {
        findings
            .iter()
            .find(|finding| finding["metric"] == name)
            .unwrap()
    };
    for (metric, ratio) in [("throughput", 0.4..0.75), ("service_p50", 1.5..2.1)] {
        assert_eq!(named(metric)["verdict"], "regression", "{metric}");
        assert!(
            ratio.contains(&named(metric)["evidence"]["ratio"].as_f64().unwrap()),
            "{metric}"
        );
    }
    // The target's own CPU is read, and rounds of 256 requests use too little of it, or of the
    // client's, to decide.
    assert!(named("target_cpu_per_attempt")["evidence"]["ratio"].is_f64());
    assert_eq!(named("cpu_per_attempt")["verdict"], "informational");
    assert_eq!(
        done.stdout,
        fs::read_to_string(done.out().join("summary.md")).unwrap()
    );
    assert!(
        done.stdout.starts_with("# ab: regression\n"),
        "{}",
        done.stdout
    );
    assert_eq!(
        done.stdout.matches("--latency 5ms").count(),
        1,
        "{}",
        done.stdout
    );
}

#[test]
fn a_signal_ends_it_and_what_was_measured_is_kept() {
    let comparison = Started::new(&[&["ab", "--out", "out"][..], &SHORT].concat());
    let rounds = |folder: &Path| fs::read_dir(folder).map_or(0, Iterator::count);
    let work = comparison.work();
    wait_for("the third round", || {
        let partial = fs::read_dir(&work)
            .ok()?
            .flatten()
            .map(|entry| entry.path().join("rounds"))
            .next()?;
        (rounds(&partial) > 3).then_some(())
    });
    comparison.interrupt();
    let done = comparison.end().code(&[130]);
    let contest = done.contest();
    assert_eq!(contest["interrupted"], true);
    assert!(!contest["rounds"].as_array().unwrap().is_empty());
}

#[test]
fn what_cannot_be_compared_is_refused_before_anything_is_saved() {
    let url = "http://127.0.0.1:{port}/items/{id}";
    for (args, says) in [
        (
            &["--base", "--nonsense"][..],
            "--base and the flags after --, together: unexpected argument '--nonsense'",
        ),
        (&["--cand", "--out here"], "--out is for single runs"),
        (
            &["--cand", "--threshold rate>1"],
            "--threshold is for single runs",
        ),
        (
            &["--base", "'open"],
            "has a quotation mark that is not closed",
        ),
        (&["--base-target", "true"], "needs a URL with {port} in it"),
        (
            &["--cand-bin", "/nowhere/crawlmark"],
            "--cand-bin /nowhere/crawlmark: No such file",
        ),
        (&["--cand-bin", "/etc/passwd"], "is not an executable file"),
        (
            &["--base", "not-a-url"],
            "--base and the flags after --, together: `not-a-url` is not a URL",
        ),
        (
            &["--cand", "http://127.0.0.1:1/ --rate 5 --warmup 2s -d 1s"],
            "--warmup 2s leaves nothing",
        ),
        (&["--base", url], "--base-target has none"),
        (&["--pairs", "0"], "`0` is too low: write at least 1"),
        (
            &["--base", "--rate 2000", "--cand", "--rate 3000"],
            "--rate is 2000/s for the base and 3000/s for the candidate: the two runs had different loads",
        ),
    ] {
        let done = ab(args, &SHORT).code(&[2]);
        assert!(done.stderr.contains(says), "{args:?}: {}", done.stderr);
        assert_eq!(fs::read_dir(done.work()).unwrap().count(), 0, "{args:?}");
    }
    let done = crawlmark(&["ab", "--out", "out"]).code(&[2]);
    assert!(
        done.stderr.contains("there is nothing to compare") && !done.out().exists(),
        "{}",
        done.stderr
    );
    // The plan of another program is known once a pair has run.
    let bin = program().display().to_string();
    let done = ab(
        &[
            "--cand-bin",
            &bin,
            "--base",
            "--rate 2000",
            "--cand",
            "--rate 3000",
        ],
        &SHORT,
    )
    .code(&[2]);
    assert!(
        done.stderr.contains("--rate is 2000/s for the base")
            && done.stderr.contains("different loads"),
        "{}",
        done.stderr
    );
}

#[test]
fn a_target_that_does_not_listen_is_told_by_its_error() {
    let url = "http://127.0.0.1:{port}/items/{id}";
    let sides = |target| {
        [
            "--ready",
            "300ms",
            "--base-target",
            target,
            "--cand-target",
            target,
        ]
    };
    let done = ab(
        &sides("echo begin; echo error: no such disk.; echo; echo see --help.; exit 3"),
        &["--", url, "-n", "10"],
    )
    .code(&[1]);
    assert!(
        done.stderr
            .contains("ended before it accepted a connection; it printed: error: no such disk"),
        "{}",
        done.stderr
    );
    let done = ab(&sides("exec sleep 100"), &["--", url, "-n", "10"]).code(&[1]);
    assert!(
        done.stderr.contains("after 300 ms (--ready)"),
        "{}",
        done.stderr
    );
    assert!(
        done.stderr
            .contains("--cand-target has no {port}: its program has to listen on the port in"),
        "{}",
        done.stderr
    );
    assert!(!done.out().exists());
}

#[test]
fn a_target_that_does_not_stay_is_told_and_nothing_of_its_session_is_left() {
    let url = "http://127.0.0.1:{port}/items/{id}";
    let served = served("5ms");
    let serve = served.trim_start_matches("exec ");
    // A round has its directory from its start on.
    let in_a_round =
        "until ls -d .out*/rounds/.001-*.partial 2>&- | grep -q .; do sleep 0.05; done";
    // As some services put themselves into the background: in a group of its own, with a parent
    // that goes.
    let daemon = format!("set -m; {serve} & {in_a_round}");
    let crashes = format!("{serve} & {in_a_round}; kill -9 $!; echo out of luck");
    for (target, says) in [
        (&daemon, "has to stay in the foreground"),
        (&crashes, "; it printed: out of luck"),
    ] {
        let sides = ["--base-target", target, "--cand-target", target];
        let done = ab(&sides, &["--", url, "-d", "60s", "-c", "1", "-s", "1"]).code(&[1]);
        assert!(
            done.stderr.contains("ended before the round did") && done.stderr.contains(says),
            "{}",
            done.stderr
        );
        assert!(!done.out().exists());
    }
}

#[test]
fn processes_that_a_comparison_did_not_start_are_none_of_its_to_end() {
    let place = tempfile::tempdir().unwrap();
    let work = place.path().canonicalize().unwrap();
    let url = "http://127.0.0.1:{port}/items/{id}";
    // The target starts a service: in a session of its own, to outlive it. The shell that becomes
    // `ab` has a child already.
    let target = format!(
        "setsid sh -c 'echo $$ > service; exec sleep 600' >&- 2>&- & {}",
        served("1ms")
    );
    let mut shell = Command::new("sh");
    shell
        .args([
            "-c",
            "sleep 600 >&- 2>&- & echo $! > inherited; exec \"$0\" \"$@\"",
        ])
        .arg(program())
        .current_dir(&work);
    shell.args([
        "ab",
        "--quiet",
        "--pairs",
        "1",
        "--base-target",
        &target,
        "--cand-target",
        &target,
    ]);
    let said = shell
        .args(["--", url, "-n", "16", "-c", "2", "-s", "1"])
        .output()
        .unwrap();
    assert_eq!(
        said.status.code(),
        Some(5),
        "{}",
        String::from_utf8_lossy(&said.stderr)
    );
    let mut alive = Vec::new();
    for name in ["inherited", "service"] {
        let pid: i32 = fs::read_to_string(work.join(name))
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        alive.push((name, working_in(&work).contains(&pid)));
    }
    // What is left is the test's to end; of the targets nothing is.
    let left = working_in(&work);
    let name = |pid: &i32| {
        fs::read_to_string(format!("/proc/{pid}/comm"))
            .unwrap()
            .trim()
            .to_owned()
    };
    let names: Vec<String> = left.iter().map(name).collect();
    for pid in &left {
        signal(*pid, Signal::SIGKILL);
    }
    assert_eq!(alive, [("inherited", true), ("service", true)]);
    // One service of each round, of which there are more where pairs were disturbed, and what was
    // inherited.
    assert!(
        names.len() >= 3 && names.iter().all(|name| name == "sleep"),
        "{names:?}"
    );
}

#[test]
fn a_program_that_is_no_crawlmark_is_told_by_what_it_complains_of() {
    let place = tempfile::tempdir().unwrap();
    let older = place.path().join("older");
    fs::write(
        &older,
        "#!/bin/sh\nprintf 'error: no --quiet here\\n\\nFor more, see --help\\n' >&2\nexit 2\n",
    )
    .unwrap();
    fs::set_permissions(&older, fs::Permissions::from_mode(0o755)).unwrap();
    for (program, says) in [
        ("/bin/true", "exited cleanly: "),
        (
            "/bin/true",
            "true saved no result and printed nothing: check that it is a build of crawlmark",
        ),
        (&text(&older), "exited with code 2: no --quiet here\n"),
    ] {
        let done = ab(&["--base-bin", program, "--cand-bin", program], &SHORT).code(&[1]);
        assert!(
            done.stderr.contains(says) && !done.stderr.contains("partial"),
            "{}",
            done.stderr
        );
    }
}

#[test]
fn a_signal_before_the_first_pair_is_over_is_told() {
    let comparison = Started::new(&[
        "ab", "--out", "out", "--pairs", "20", "--", "-d", "60s", "-c", "1", "-s", "1",
    ]);
    let work = comparison.work();
    wait_for("the first round", || {
        let partial = fs::read_dir(&work)
            .ok()?
            .flatten()
            .map(|entry| entry.path().join("rounds"))
            .next()?;
        fs::read_dir(partial).ok()?.next().map(|_| ())
    });
    comparison.interrupt();
    let done = comparison.end().code(&[130]);
    assert!(
        done.stderr
            .contains("with a look at the verdict after 16 pairs\n"),
        "{}",
        done.stderr
    );
    // Two rounds of a minute each.
    assert!(
        done.stderr
            .contains("  time        about 32 min 8 s for 16 pairs; "),
        "{}",
        done.stderr
    );
    // The round may have had its first request, and may not.
    assert!(
        done.stderr
            .contains("\nSIGINT (Ctrl-C) ended it before a pair of rounds was complete: "),
        "{}",
        done.stderr
    );
    assert!(!done.out().exists());
}

/// Saves another result in the place of one, and returns what was there.
fn change(path: &str, change: impl FnOnce(&mut Report)) -> String {
    let mut report = read(Path::new(path)).unwrap();
    change(&mut report);
    let as_it_was = fs::read_to_string(path).unwrap();
    fs::write(path, serde_json::to_string_pretty(&report).unwrap()).unwrap();
    as_it_was
}

#[test]
fn saved_results_are_compared_as_they_were_run() {
    let done = ab(&["--pairs", "2"], &SHORT).code(&[5]);
    let [base, candidate] = ["base", "candidate"].map(|arm| {
        let gathered = done.place.path().join(arm);
        fs::create_dir(&gathered).unwrap();
        for round in fs::read_dir(done.out().join("rounds")).unwrap().flatten() {
            if round.file_name().to_string_lossy().ends_with(arm) {
                fs::rename(round.path(), gathered.join(round.file_name())).unwrap();
            }
        }
        text(&gathered)
    });
    let all = crawlmark(&["compare", &base, &candidate, "--json", "--out", "out"]).code(&[5]);
    assert_eq!(
        all.contest()["rounds"].as_array().unwrap().len(),
        done.contest()["rounds"].as_array().unwrap().len()
    );
    let [one, other] = [
        format!("{base}/001-base"),
        format!("{candidate}/001-candidate"),
    ];
    let single = crawlmark(&["compare", &one, &other]).code(&[5]);
    assert!(
        single.stdout.contains("warning     one run of each"),
        "{}",
        single.stdout
    );
    let unpaired = crawlmark(&["compare", &base, &other]).code(&[2]);
    assert!(
        unpaired.stderr.contains("are not paired"),
        "{}",
        unpaired.stderr
    );
    // A later pair counts for as much as the first: neither another plan nor runs at the same time
    // may hide in it.
    let last = format!("{candidate}/002-candidate/result.json");
    let as_it_was = change(&last, |report| {
        report
            .plan
            .run
            .workload
            .insert("expect".to_owned(), "status:204".to_owned());
        report.plan.config_hash = config_hash(&report.plan.run);
    });
    let mixed = crawlmark(&["compare", &base, &candidate]).code(&[2]);
    assert!(
        mixed.stderr.contains("--expect is items:1 for the base"),
        "{}",
        mixed.stderr
    );
    fs::write(&last, as_it_was).unwrap();
    let first = format!("{base}/001-base/result.json");
    let as_it_was = change(&first, |report| {
        report.finished_at.replace_range(..1, "9");
        (report.supervisor.cpu_s, report.supervisor.cpu_share) = (0.0, 0.0);
    });
    let at_once = crawlmark(&["compare", &base, &candidate]).code(&[2]);
    assert!(
        at_once.stderr.contains("001-base was still running when"),
        "{}",
        at_once.stderr
    );
    fs::write(&first, as_it_was).unwrap();
    for (args, says) in [
        (
            &["compare", "/nowhere", &other][..],
            "/nowhere does not exist",
        ),
        (&["compare", &base], "was not saved by `crawlmark ab`"),
        (&["compare", "/etc", &other], "holds no result.json"),
        (&["compare", &one, &one], "is compared with itself"),
        (
            &["compare", &text(&done.out()), &other],
            "pass it alone to judge it again",
        ),
        (
            &["compare", "--history", &text(&done.out())],
            "was saved by `crawlmark ab`",
        ),
    ] {
        let refused = crawlmark(args).code(&[2]);
        assert!(refused.stderr.contains(says), "{}", refused.stderr);
    }
    // Of a history one bad file costs that one, and nothing is left of two bad ones.
    fs::write(&first, "{").unwrap();
    let rest = crawlmark(&["compare", "--history", &base]).code(&[5]);
    assert!(
        rest.stderr.contains("warning: left out: ") && rest.stderr.contains("001-base"),
        "{}",
        rest.stderr
    );
    for result in fs::read_dir(&base).unwrap().flatten() {
        fs::write(result.path().join("result.json"), "{").unwrap();
    }
    let none = crawlmark(&["compare", "--history", &base]).code(&[2]);
    assert!(none.stderr.contains("no result in"), "{}", none.stderr);
}
