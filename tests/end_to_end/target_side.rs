//! The target's side of a run: its probe, and `crawlmark probe`.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::command::{program, run, said};
use crate::run::{crawl, ended};
use crate::target::Target;

fn port(target: &Target) -> &str {
    target.address().rsplit_once(':').unwrap().1
}

#[test]
fn a_target_on_this_machine_is_found_by_its_port_and_its_seconds_add_up() {
    let target = Target::start("--processes 2 --work 300000");
    let report = crawl(&format!("{} -d 3s --warmup 1s --rate 200", target.url()));
    report.holds(&json!({
        "/target/source": format!("port {}", target.address()),
        "/target/is_here": true,
        "/target/processes": 2,
        "/target/bad_lines": 0,
        "/target/ended": null,
    }));
    let each = report.number("/target/cpu_us_per_attempt");
    assert!(each >= 200.0, "{each}");
    let second = |row: &Value| row["target"]["cpu_us"].as_f64().unwrap();
    let after = report.array("/intervals").iter().skip(1);
    let seconds: f64 = after.map(second).sum();
    let whole = report.number("/target/cpu_us");
    assert!((seconds - whole).abs() <= whole * 0.01, "{seconds} {whole}");
    let split = |part: &str| report.number(&format!("/target/split/{part}_us"));
    let parts = split("cpu") + split("run_queue") + split("throttled") + split("rest");
    assert!((parts - split("service")).abs() < 1e-6);
    assert!(report.count("/target/accept_queue/limit") > 0);
    assert!(report.count("/target/rss_bytes") > 0);

    let without = crawl(&format!("{} -n 10 --target-probe none", target.url()));
    assert_eq!(
        *without.at("").get("target").unwrap_or(&Value::Null),
        Value::Null
    );
}

#[test]
fn the_loss_of_a_probe_is_said_and_harms_nothing() {
    let target = Target::start("--processes 1");
    let probe = format!("'{}' probe --port {}", program().display(), port(&target));
    let head = format!("{probe} | head -n 4; exit 7");
    for (command, ended, has_found) in [
        (head.as_str(), "exited with code 7", true),
        ("exit 3", "exited with code 3", false),
        ("kill -KILL $$", "was ended by SIGKILL", false),
        ("exec yes", "its output is not a probe's", false),
        (
            "echo '{\"found\":{}}'; echo '{\"failed\":\"no luck\"}'",
            "no luck",
            false,
        ),
    ] {
        let mut launcher = Command::new(program());
        launcher.args(["run", &target.url(), "-n", "400", "--rate", "200"]);
        launcher.args([
            "--json",
            "--quiet",
            "--out",
            "out",
            "--target-probe",
            command,
        ]);
        let report = crate::command::Started::new(launcher).end().report(0);
        report.assert_states(&[("ok", 400)]);
        assert_eq!(report.text("/target/ended"), ended, "{command}");
        assert_eq!(*report.at("/target/cpu_us_per_attempt"), Value::Null);
        assert_eq!(
            report.array("/target/cpus").is_empty(),
            !has_found,
            "{command}"
        );
    }
}

#[test]
fn a_command_starts_the_probe_and_its_metric_is_a_threshold() {
    let target = Target::start("--processes 1");
    let probe = format!(
        "exec {} probe --port {}",
        program().display(),
        port(&target)
    );
    let url = target.url();
    let line = format!("{url} -d 1s --rate 200 --target-probe '{probe}'");
    for (threshold, code) in [("< 10s", 0), ("< 1us", 3)] {
        let threshold = format!("--threshold 'target_cpu_per_request {threshold}'");
        let report = ended(&format!("{line} {threshold}")).report(code);
        assert_eq!(report.text("/target/source"), "exec");
        assert!(report.number("/gates/0/value") > 0.0);
    }
    // Without a target's side, it cannot be decided.
    let none = format!("{url} -n 10 --target-probe none --threshold 'target_cpu_per_request < 1s'");
    ended(&none).report(5);
}

/// Start a program in a PID namespace of its own, as in a container. None, and a word about it,
/// where this user may not.
fn contained(program: &str, arguments: &[&str]) -> Option<Command> {
    let flags = [
        "--user",
        "--map-root-user",
        "--pid",
        "--fork",
        "--mount-proc",
        "--kill-child",
    ];
    let tried = Command::new("unshare").args(flags).arg("true").output();
    if !tried.as_ref().is_ok_and(|tried| tried.status.success()) {
        println!("skipped: this test may not make a PID namespace (unshare): {tried:?}");
        return None;
    }
    let mut command = Command::new("unshare");
    command.args(flags).arg(program).args(arguments);
    command.stdin(Stdio::null());
    Some(command)
}

#[test]
fn a_probe_in_a_container_says_that_other_processes_are_outside() {
    let target = Target::start("--processes 1");
    let arguments = ["probe", "--port", port(&target)];
    let Some(probe) = contained(program().to_str().unwrap(), &arguments) else {
        return;
    };
    let done = said(probe).code(&[0]);
    let line: Value = serde_json::from_str(done.stdout.lines().next().unwrap()).unwrap();
    let found = &line["found"];
    assert_eq!(found["pids"], json!([]));
    let why = found["unavailable"]["cpu"].as_str().unwrap();
    assert!(why.contains("--pid host"), "{why}");
}

#[test]
fn the_first_process_of_a_container_is_a_target() {
    let listens = "import socket, signal; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); signal.pause()";
    let Some(mut first) = contained("python3", &["-c", listens]) else {
        return;
    };
    let mut first = first.stdout(Stdio::piped()).spawn().unwrap();
    let mut port = String::new();
    let printed = first.stdout.take().map(BufReader::new);
    printed.unwrap().read_line(&mut port).unwrap();
    let id = first.id();
    let child = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    let mut probe = Command::new("nsenter");
    probe
        .args(["--target", child.trim(), "--user", "--pid", "--mount"])
        .arg(program())
        .args(["probe", "--port", port.trim()])
        .stdin(Stdio::null());
    let done = said(probe);
    first.kill().unwrap();
    first.wait().unwrap();
    let done = done.code(&[0]);
    let line: Value = serde_json::from_str(done.stdout.lines().next().unwrap()).unwrap();
    assert_eq!(line["found"]["pids"], json!([1]), "{line}");
}

#[test]
fn a_probe_writes_lines_until_its_input_ends_and_says_what_it_does_not_find() {
    let target = Target::start("--processes 1");
    let mut probe = Command::new(program());
    probe
        .args(["probe", "--port", port(&target)])
        .stdin(Stdio::null());
    let done = said(probe).code(&[0]);
    let lines: Vec<Value> = done
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["found"]["pids"].as_array().unwrap().len(), 1);
    assert_eq!(lines[1]["sample"]["processes"], 1);

    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let done = run(&format!("probe --port {port}")).code(&[1]);
    assert!(done.stderr.contains("--pid"), "{}", done.stderr);
    let line: Value = serde_json::from_str(&done.stdout).unwrap();
    assert!(line["failed"].is_string());
    for usage in ["probe", "probe --port 0", "probe --port 1 --pid 1"] {
        run(usage).code(&[2]);
    }
}
