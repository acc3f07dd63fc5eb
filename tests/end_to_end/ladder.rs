//! `crawlmark ladder` from outside: rungs are climbed from the lowest, each as a run of its own against the bundled target;
//! what is printed is what is saved and fits its schema; bad input is refused before anything runs.
#![expect(clippy::unwrap_used, reason = "a test whose program cannot be started is over")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use jsonschema::Validator;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::process::{children, end_with_children, signal, wait_for, working_in};
use crate::run::program;

static SCHEMA: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../results/schema/ladder-1.schema.json")).unwrap());

static VALIDATOR: LazyLock<Validator> = LazyLock::new(|| jsonschema::draft202012::new(&SCHEMA).unwrap());

/// Runs `ladder` in `place`: its exit code, standard output, and standard error.
fn ladder(place: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(program()).arg("ladder").args(args).current_dir(place).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// The saved climb, which fits its schema.
#[track_caller]
fn saved(place: &Path) -> Value {
    let saved: Value = serde_json::from_str(&fs::read_to_string(place.join("out/ladder.json")).unwrap()).unwrap();
    let complaints: Vec<String> =
        VALIDATOR.iter_errors(&saved).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert_eq!(complaints, Vec::<String>::new());
    saved
}

#[test]
fn rungs_are_climbed_from_the_lowest_and_what_is_printed_is_saved() {
    let place = tempfile::tempdir().unwrap();
    // Named in another order, and one of them twice.
    let flags = ["--rungs", "4,1,4", "-d", "1s", "--out", "out", "--json"];
    let (code, stdout, stderr) = ladder(place.path(), &flags);
    assert_eq!(code, Some(0), "{stderr}");
    let climb = saved(place.path());
    assert_eq!(climb, serde_json::from_str::<Value>(&stdout).unwrap());
    let rungs = climb["rungs"].as_array().unwrap();
    assert_eq!(rungs.iter().map(|rung| rung["rung"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 4]);
    assert_eq!((&climb["interrupted"], &climb["search"]), (&Value::Bool(false), &serde_json::json!([])));
    let [first, pooled] = &rungs[..] else { unreachable!("two rungs") };
    let figure = |rung: &Value, name: &str| rung[name].as_f64().unwrap();
    // Each request has a connection of its own, and waits for its handshake; or there are twenty for all of them.
    assert_eq!(first["connections_opened"], first["attempts"]);
    assert_eq!(pooled["connections_opened"], 20);
    assert!(figure(first, "service_mean_us") >= 100_000.0, "{first}");
    assert!(
        figure(first, "handshake_us") >= 100_000.0 && first["throttled"] == 0 && pooled["throttled"] == 0,
        "{climb}"
    );
    // One at a time is no more than one every 100 ms; twenty at a time are more than that on any machine.
    assert!(figure(first, "ok_per_s") < 10.0 && figure(pooled, "times_before") > 1.0, "{climb}");
    assert!((figure(pooled, "times_before") - figure(pooled, "ok_per_s") / figure(first, "ok_per_s")).abs() < 1e-9);
    for rung in rungs {
        let directory = place.path().join("out").join(rung["result"].as_str().unwrap());
        let result: Value = serde_json::from_str(&fs::read_to_string(directory.join("result.json")).unwrap()).unwrap();
        assert_eq!(result["plan"]["workload"]["target_profile"], "article");
        assert_eq!(result["started_at"], rung["started_at"]);
        assert_eq!(result["witness"]["agrees"], true, "{}", result["witness"]);
    }
    for file in ["summary.md", "plots/climb.svg"] {
        assert!(
            fs::read_to_string(place.path().join("out").join(file)).unwrap().contains("connections kept"),
            "{file}"
        );
    }
    assert!(stderr.contains("rung 1") && stderr.contains("nothing leaves this machine"), "{stderr}");
}

#[test]
fn flags_for_every_rung_reach_it() {
    let place = tempfile::tempdir().unwrap();
    let run = ["--", "--target-handshake", "0s", "--target-latency", "5ms"];
    let (code, stdout, stderr) =
        ladder(place.path(), &[&["--rungs", "1", "-d", "1s", "--out", "out", "--quiet"], &run[..]].concat());
    assert_eq!((code, &*stdout, &*stderr), (Some(0), "", ""));
    let climb = saved(place.path());
    assert_eq!(climb["rungs"][0]["handshake_us"], 0.0);
    assert_ne!(climb["rungs"][0]["limit"]["by"], "handshakes", "a connection costs nothing here");
    assert!(climb["rungs"][0]["flags"].as_array().unwrap().contains(&Value::from("--target-handshake")));
}

#[test]
fn a_signal_leaves_the_rungs_until_then() {
    let place = tempfile::tempdir().unwrap();
    let mut child = Command::new(program())
        .args(["ladder", "--rungs", "1,4", "-d", "1s", "--out", "out", "--quiet"])
        .current_dir(place.path())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    // Its second round is under way as soon as there is a directory for it.
    let second = |place: &Path| {
        let entries = fs::read_dir(place).ok()?.flatten();
        let partial = entries.map(|entry| entry.path()).find(|path| path.to_string_lossy().ends_with(".partial"))?;
        fs::read_dir(partial.join("rounds"))
            .ok()?
            .flatten()
            .find(|entry| entry.file_name().to_string_lossy().contains(".4."))
    };
    wait_for("the second rung", || second(place.path()).filter(|_| !children(pid).is_empty()));
    signal(pid, Signal::SIGINT);
    let status = wait_for("the end of the climb", || child.try_wait().unwrap());
    end_with_children(&mut child);
    assert_eq!(status.code(), Some(130));
    let climb = saved(place.path());
    assert_eq!((&climb["interrupted"], climb["rungs"].as_array().unwrap().len()), (&Value::Bool(true), 1));
    assert_eq!(working_in(&place.path().canonicalize().unwrap()), Vec::<i32>::new(), "a process is left");
}

#[test]
fn bad_input_is_refused_before_anything_runs() {
    let place = tempfile::tempdir().unwrap();
    for (args, says) in [
        (&["--rungs", "9"][..], "`9` is no rung: write 1 to 8"),
        (&["--rungs", ""], "`` is no rung"),
        (&["--rungs", "1-3"], "`1-3` is no rung"),
        (&["-d", "10ms"], "out of range: 500ms to 60s"),
        (&["http://127.0.0.1:1/"], "unexpected argument"),
        (&["--", "-c", "7"], "rung 1 and the flags after --, together"),
        (&["--", "http://127.0.0.1:1/"], "rung 1 and the flags after --, together"),
        (&["--", "--json"], "--json is for single runs"),
        (&["--", "--no-such-flag"], "rung 1 and the flags after --, together"),
    ] {
        let (code, stdout, stderr) = ladder(place.path(), args);
        assert_eq!((code, &*stdout), (Some(2), ""), "{args:?}: {stderr}");
        assert!(stderr.contains(says), "{args:?}: {stderr}");
        assert!(fs::read_dir(place.path()).unwrap().next().is_none(), "{args:?} left something");
    }
}
