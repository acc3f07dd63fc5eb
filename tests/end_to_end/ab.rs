//! `crawlmark ab` and `compare`: rounds run in pairs, in fresh processes and in the order drawn; the
//! output is the saved comparison; a large loss is found.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crawlmark_results::run::report::{Report, config_hash};
use crawlmark_results::run::result_dir::read;
use crawlmark_results::studies::compare::OrderSchedule;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::command::{Done, call_line, json as read_json, program, run};
use crate::process::{signal, working_in};
use crate::report::holds;

/// Rounds that take no longer than they must.
const SHORT: &str = "-- -n 256 -c 32 -s 1";

#[test]
fn rounds_run_in_pairs_in_the_order_drawn_and_are_saved() {
    let done = run(&format!(
        "ab --out out --pairs 2 --seed 7 --json --base '--connect-timeout 3s' \
         --cand '--connect-timeout 4s' {SHORT} --trace"
    ))
    .code(&[5]);
    let contest = done.saved("comparison.json");
    assert_eq!(contest, done.printed());
    let rounds = contest["rounds"].as_array().unwrap();
    let pairs = rounds.chunks(2);
    let undisturbed = pairs.filter(|pair| pair[0]["disturbance"] == "none");
    for (pair, order) in undisturbed.zip(OrderSchedule::new(7)) {
        for (round, arm) in pair.iter().zip(order.and_other()) {
            assert_eq!(round["arm"], arm.to_string());
        }
    }
    let mut supervisors = BTreeSet::new();
    for round in rounds {
        let result = done.out().join(round["result"].as_str().unwrap());
        let result = read_json(&result.join("result.json"));
        let own = match round["arm"].as_str() {
            Some("base") => "3000000",
            _ => "4000000",
        };
        holds(
            &result,
            &json!({
                "/ledger/ok": 256, "/started_at": round["started_at"],
                "/plan/workload/connect_timeout_us": own,
            }),
        );
        supervisors.insert(result["run_id"].to_string());
    }
    assert_eq!(supervisors.len(), rounds.len(), "a process for each round");
    let differences = contest["differences"].as_array().unwrap();
    assert_eq!(differences.len(), 1);
    assert_eq!(differences[0]["what"], "plan.workload.connect_timeout_us");
    for file in ["summary.md", "junit.xml", "plots/pairs.svg"] {
        assert!(done.out().join(file).exists(), "{file}");
    }
    // It is judged again by its rounds, whatever else the file says.
    let file = done.out().join("comparison.json");
    let mut other = contest.clone();
    other["verdict"] = "pass".into();
    fs::write(&file, other.to_string()).unwrap();
    let again = run(&format!("compare {} --json", file.display())).code(&[5]);
    assert_eq!(again.printed(), contest);
}

/// True if the machine was too busy for a verdict, which is no fault of what is tested. Says so
/// then.
pub(crate) fn is_too_disturbed(contest: &Value) -> bool {
    let is_so = contest["metrics"].to_string().contains("too_disturbed");
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

/// The items of a target of each round.
const ITEMS: &str = "http://127.0.0.1:{port}/items/{id}";

#[test]
fn a_target_of_each_round_that_takes_twice_as_long_is_a_regression() {
    let (base, candidate) = (served("5ms"), served("10ms"));
    let done = run(&format!(
        "ab --out out --base-target '{base}' --cand-target '{candidate}' --markdown \
         -- {ITEMS} -n 256 -c 16 -s 1"
    ));
    let contest = done.saved("comparison.json");
    if is_too_disturbed(&contest) {
        return;
    }
    let done = done.code(&[3]);
    assert_eq!(contest["verdict"], "regression");
    // Another port is no difference.
    let commands = json!([{"what": "target command", "base": base, "candidate": candidate}]);
    assert_eq!(contest["differences"], commands);
    let findings = contest["metrics"].as_array().unwrap();
    for (metric, ratio) in [("throughput", 0.4..0.75), ("service_p50", 1.5..2.1)] {
        let finding = findings.iter().find(|finding| finding["metric"] == metric);
        let finding = finding.unwrap();
        assert_eq!(finding["verdict"], "regression", "{metric}");
        assert!(
            ratio.contains(&finding["evidence"]["ratio"].as_f64().unwrap()),
            "{finding}"
        );
    }
    let summary = fs::read_to_string(done.out().join("summary.md")).unwrap();
    assert_eq!(done.stdout, summary);
    assert!(summary.starts_with("# ab: regression\n"), "{summary}");
}

#[test]
fn a_target_that_does_not_listen_or_stay_is_named_and_nothing_of_its_session_is_left() {
    for (target, says) in [
        ("echo error: no such disk.; exit 3", "no such disk"),
        ("exec sleep 100", "after 300ms (--ready)"),
    ] {
        let done = run(&format!(
            "ab --out out --ready 300ms --base-target '{target}' --cand-target '{target}' \
             -- {ITEMS} -d 60s -c 1 -s 1"
        ))
        .code(&[1]);
        assert!(done.stderr.contains(says), "{}", done.stderr);
        assert!(!done.out().exists());
    }
}

#[test]
fn processes_that_a_comparison_did_not_start_are_not_ended_by_it() {
    let place = tempfile::tempdir().unwrap();
    let work = place.path().canonicalize().unwrap();
    // The target starts a service: in a session of its own, to outlive it. The shell that becomes
    // `ab` has a child already.
    let target = format!(
        "setsid sh -c 'echo $$ > service; exec sleep 600' >&- 2>&- & {}",
        served("1ms")
    );
    let mut shell = Command::new("sh");
    let inherit = "sleep 600 >&- 2>&- & echo $! > inherited; exec \"$0\" \"$@\"";
    shell
        .args(["-c", inherit])
        .arg(program())
        .current_dir(&work);
    shell.args(["ab", "--quiet", "--pairs", "1", "--base-target", &target]);
    shell.args([
        "--cand-target",
        &target,
        "--",
        ITEMS,
        "-n",
        "16",
        "-c",
        "2",
        "-s",
        "1",
    ]);
    let code = shell.output().unwrap().status.code();
    let left = working_in(&work);
    let alive = ["inherited", "service"].map(|name| {
        let pid = fs::read_to_string(work.join(name)).unwrap();
        left.contains(&pid.trim().parse().unwrap())
    });
    let comm = |pid: &i32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
    let names: Vec<String> = left.iter().map(comm).collect();
    for pid in left {
        signal(pid, Signal::SIGKILL);
    }
    assert_eq!((code, alive), (Some(5), [true, true]));
    // One service of each round and what was inherited; nothing of the targets.
    assert!(
        names.len() >= 3 && names.iter().all(|name| name == "sleep\n"),
        "{names:?}"
    );
}

/// `ab` of two commands, in a directory of its own.
fn commands(base: &str, candidate: &str, flags: &str) -> Done {
    run(&format!(
        "ab --out out --base-command '{base}' --cand-command '{candidate}' {flags}"
    ))
}

#[test]
fn a_number_that_commands_print_is_judged_by_the_rule_of_all_metrics() {
    // Which way is worse is the user's to say.
    for (candidate, flags, code) in [
        ("echo 200", "", 3),
        ("echo 100", "", 0),
        ("echo 200", "--better higher", 0),
        ("echo 50", "--better higher", 3),
    ] {
        let flags = format!("{flags} --value score=[0-9]+ --unit points --executions 2");
        let done = commands("echo 100", candidate, &flags).code(&[code]);
        let contest = done.saved("comparison.json");
        let rounds = contest["rounds"].as_array().unwrap();
        let counted = rounds.iter().filter(|round| round["disturbance"] == "none");
        assert_eq!(counted.count(), 2 * 16, "{candidate} {flags}");
        for round in rounds {
            assert_eq!(round["executions"].as_array().unwrap().len(), 2);
        }
        let deciding = contest["metrics"].as_array().unwrap().iter();
        let deciding = deciding.filter(|metric| metric["verdict"] != "informational");
        let names: Vec<&Value> = deciding.map(|metric| &metric["metric"]).collect();
        assert_eq!(names, ["score"]);
    }
}

#[test]
fn what_an_execution_used_is_that_of_the_command_and_of_all_that_it_waited_for() {
    // A child of the command works for 0.2 s of its CPU and holds 100 MB.
    let line = "python3 -c \"import time; b = bytearray(100 << 20); \
                any(iter(lambda: time.process_time() >= 0.2, True))\"; true";
    let done = commands(line, line, "--pairs 1 --executions 1").code(&[5]);
    for round in done.saved("comparison.json")["rounds"].as_array().unwrap() {
        let one = &round["executions"][0];
        let of = |name: &str| one[name].as_f64().unwrap();
        assert!(of("cpu_us") >= 200e3 && of("wall_us") >= 200e3, "{one}");
        assert!(of("peak_memory") >= 100e6, "{one}");
    }
}

#[test]
fn a_command_that_fails_ends_the_comparison_and_what_it_left_is_ended() {
    for (base, flags, code) in [
        ("exit 3", "", 1),
        ("exit 3", "-i --pairs 1", 5),
        ("nothing-of-this-name", "-i", 1),
        ("nothing-of-this-name", "--shell none", 1),
        ("kill -9 $$", "", 1),
        ("echo none", "--value n=[0-9]+", 1),
        ("true", "--prepare false", 1),
        ("sleep 600 & true", "--pairs 1", 5),
    ] {
        let done = commands(base, "true", flags).code(&[code]);
        let left = working_in(&done.work());
        assert!(left.is_empty(), "{base} {flags}: {left:?}");
    }
    for usage in [
        "--value n=[",
        "--value n=json:a",
        "--shell ''",
        "-- -c 1",
        "--unit a --unit b --value n=1",
    ] {
        let _ = commands("true", "true", usage).code(&[2]);
    }
    for usage in ["--cand-command true", "--executions 3", "-i"] {
        let _ = run(&format!("ab --out out --base '-c 4' {usage}")).code(&[2]);
    }
}

/// Save another result in the place of one, and return what was there.
fn change(path: &str, change: impl FnOnce(&mut Report)) -> String {
    let mut report = read(Path::new(path)).unwrap();
    change(&mut report);
    let as_it_was = fs::read_to_string(path).unwrap();
    fs::write(path, serde_json::to_string_pretty(&report).unwrap()).unwrap();
    as_it_was
}

#[test]
fn saved_results_are_compared_as_they_were_run() {
    let done = run(&format!("ab --out out --pairs 2 {SHORT}")).code(&[5]);
    let [base, candidate] = ["base", "candidate"].map(|arm| {
        let gathered = done.place.path().join(arm);
        fs::create_dir(&gathered).unwrap();
        for round in fs::read_dir(done.out().join("rounds")).unwrap().flatten() {
            if round.file_name().to_string_lossy().ends_with(arm) {
                fs::rename(round.path(), gathered.join(round.file_name())).unwrap();
            }
        }
        gathered.display().to_string()
    });
    let all = run(&format!("compare {base} {candidate} --json --out out")).code(&[5]);
    let count = |contest: &Value| contest["rounds"].as_array().unwrap().len();
    assert_eq!(
        count(&all.saved("comparison.json")),
        count(&done.saved("comparison.json"))
    );
    // A later pair counts for as much as the first: neither another plan nor runs at the same time
    // may hide in it.
    let last = format!("{candidate}/002-candidate/result.json");
    let as_it_was = change(&last, |report| {
        report.plan.run.workload.expect = Some("status:204".to_owned());
        report.plan.config_hash = config_hash(&report.plan.run);
    });
    let refused = |line: &str| {
        run(&format!("compare {line}")).code(&[2]);
    };
    let both = format!("{base} {candidate}");
    refused(&both);
    fs::write(&last, as_it_was).unwrap();
    let first = format!("{base}/001-base/result.json");
    let as_it_was = change(&first, |report| {
        report.finished_at.replace_range(..1, "9");
        (report.supervisor.cpu_s, report.supervisor.cpu_share) = (0.0, 0.0);
    });
    refused(&both);
    fs::write(&first, as_it_was).unwrap();
    let [one, other] = [
        format!("{base}/001-base"),
        format!("{candidate}/001-candidate"),
    ];
    refused(&format!("{base} {other}"));
    let three = format!("{one} {other} {one}/result.json");
    for (line, runs) in [(three, 3), (format!("{one} {other} --overlay"), 2)] {
        let drawn = run(&format!("compare {line} --out out")).code(&[5]);
        let saved = read_json(&drawn.out().join("overlay.json"));
        assert_eq!(saved["runs"].as_array().unwrap().len(), runs);
        assert!(saved["runs"][0]["seconds"][0]["ok"].as_u64().unwrap() > 0);
        assert!(drawn.out().join("plots/overlay.svg").exists());
    }
    refused(&format!("/nowhere {other}"));
    refused(&format!("/etc {other}"));
    refused(&format!("{one} {one}"));
    // A bad file of a history costs only itself; of none but bad ones nothing is left.
    fs::write(&first, "{").unwrap();
    let rest = run(&format!("history {base}")).code(&[5]);
    assert!(
        rest.stderr.contains("warning: left out: "),
        "{}",
        rest.stderr
    );
    assert!(rest.stdout.contains("Too few results"), "{}", rest.stdout);
    // A disturbed pair was run again: there may be more rounds than were asked for.
    for round in fs::read_dir(&base).unwrap().flatten() {
        fs::write(round.path().join("result.json"), "{").unwrap();
    }
    let _ = run(&format!("history {base}")).code(&[2]);
}

#[test]
fn results_are_added_to_a_history_and_those_of_other_tools_are_compared() {
    let foreign = Path::new(env!("CARGO_MANIFEST_DIR")).join("results/tests/import");
    let foreign = foreign.display();
    let sides = format!("compare {foreign}/hyperfine.json {foreign}/hyperfine.json --json");
    let rows = run(&sides).code(&[5]).printed()["rows"].clone();
    assert_eq!(rows.as_array().unwrap().len(), 4);
    let criterion = run(&format!(
        "compare {foreign}/criterion {foreign}/criterion --out out"
    ));
    let saved = read_json(&criterion.code(&[5]).out().join("sides.json"));
    assert_eq!(saved["tool"], "criterion");

    let done = run("run -n 100 -c 4 --out out --quiet").code(&[0]);
    let at = |words: &str| call_line(&done.work(), words);
    let added = "history a.jsonl --add out --commit abc --machine m --name crawl";
    let first = at(&format!("{added} --add {foreign}/vegeta.json"));
    // One name, each result of one thing: both are of it.
    let first = first.code(&[0]);
    assert!(first.stdout.contains("Too few results"), "{}", first.stdout);
    let _ = at(&format!("history a.jsonl --add {foreign}/go.txt")).code(&[0]);
    let lines = fs::read_to_string(done.work().join("a.jsonl")).unwrap();
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 5);
    for line in &lines[..2] {
        let of = [&line["commit"], &line["machine"], &line["name"]];
        assert_eq!(of, ["abc", "m", "crawl"]);
    }
    assert_eq!(lines[0]["metrics"]["throughput"]["worse"], "less");
    assert_eq!(
        lines[1]["metrics"]["throughput"]["value"],
        100.719_865_483_608_46
    );
    let _ = at("history a.jsonl").code(&[5]);

    fs::write(done.work().join("bad.jsonl"), "{}\n").unwrap();
    for refused in [
        format!("compare {foreign}/go.txt {foreign}/vegeta.json"),
        format!("compare {foreign}/go.txt out"),
        "compare bad.jsonl bad.jsonl".to_owned(),
        "history bad.jsonl --add out".to_owned(),
        "history none.jsonl".to_owned(),
        "history . --add out".to_owned(),
        format!("history a.jsonl --add {foreign}/go.txt --name one"),
        "history a.jsonl --add .".to_owned(),
    ] {
        let done = at(&refused).code(&[2]);
        assert!(done.stdout.is_empty(), "{refused}: {}", done.stdout);
    }
    let after = fs::read_to_string(done.work().join("a.jsonl")).unwrap();
    assert_eq!(after.lines().count(), 5, "what is refused adds nothing");
}
