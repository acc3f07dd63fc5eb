//! `crawlmark ladder` and `crawlmark patterns` from outside: each scenario is a run of its own that
//! does what its name says; what is printed is what is saved and fits its schema; bad input is
//! refused before anything runs.
#![expect(
    clippy::unwrap_used,
    reason = "a test whose program cannot be started is over"
)]

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use jsonschema::Validator;
use serde_json::Value;

use crate::command::{Done, Started};
use crate::process::{children, wait_for};
use crate::schema::closed;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../results/schema/scenarios-1.schema.json")).unwrap()
});

static VALIDATOR: LazyLock<Validator> = LazyLock::new(|| closed(&SCHEMA));

/// Starts `ladder` with these flags.
fn ladder(args: &[&str]) -> Started {
    Started::new(&[&["ladder"], args].concat())
}

impl Done {
    /// The saved scenarios, which fit their schema.
    #[track_caller]
    fn scenarios(&self) -> Value {
        self.saved("scenarios.json", &VALIDATOR)
    }
}

#[test]
fn rungs_are_climbed_from_the_lowest_and_what_is_printed_is_saved() {
    // Named in another order, and one of them twice.
    let done = ladder(&["--rungs", "4,1,4", "-d", "1s", "--out", "out", "--json"])
        .end()
        .code(&[0]);
    let climb = done.scenarios();
    assert_eq!(climb, serde_json::from_str::<Value>(&done.stdout).unwrap());
    let rungs = climb["scenarios"].as_array().unwrap();
    assert_eq!(
        rungs
            .iter()
            .map(|rung| rung["number"].as_u64().unwrap())
            .collect::<Vec<_>>(),
        [1, 4]
    );
    assert_eq!(
        (&climb["interrupted"], &climb["search"]),
        (&Value::Bool(false), &serde_json::json!([]))
    );
    let [first, pooled] = &rungs[..] else {
        unreachable!("two rungs")
    };
    let figure = |rung: &Value, name: &str| rung[name].as_f64().unwrap();
    // Each request has a connection of its own, and waits for its handshake; or there are twenty
    // for all of them.
    assert_eq!(first["connections_opened"], first["attempts"]);
    assert_eq!(pooled["connections_opened"], 20);
    assert!(figure(first, "service_mean_us") >= 100_000.0, "{first}");
    assert!(
        figure(first, "handshake_us") >= 100_000.0
            && first["throttled"] == 0
            && pooled["throttled"] == 0,
        "{climb}"
    );
    // One at a time is no more than one every 100 ms; twenty at a time are more than that on any
    // machine.
    assert!(
        figure(first, "ok_per_s") < 10.0 && figure(pooled, "times_before") > 1.0,
        "{climb}"
    );
    assert!(
        (figure(pooled, "times_before") - figure(pooled, "ok_per_s") / figure(first, "ok_per_s"))
            .abs()
            < 1e-9
    );
    for rung in rungs {
        let directory = done.out().join(rung["result"].as_str().unwrap());
        let result: Value =
            serde_json::from_str(&fs::read_to_string(directory.join("result.json")).unwrap())
                .unwrap();
        assert_eq!(result["plan"]["workload"]["target_profile"], "article");
        assert_eq!(result["started_at"], rung["started_at"]);
        assert_eq!(result["witness"]["agrees"], true, "{}", result["witness"]);
    }
    for file in ["summary.md", "plots/scenarios.svg"] {
        assert!(
            fs::read_to_string(done.out().join(file))
                .unwrap()
                .contains("connections kept"),
            "{file}"
        );
    }
    let said = &done.stderr;
    assert!(
        said.contains("rung 1") && said.contains("nothing leaves this machine"),
        "{said}"
    );
}

#[test]
fn flags_for_every_rung_reach_it() {
    let run = ["--", "--target-handshake", "0s", "--target-latency", "5ms"];
    let done = ladder(
        &[
            &["--rungs", "1", "-d", "1s", "--out", "out", "--quiet"],
            &run[..],
        ]
        .concat(),
    )
    .end();
    assert_eq!((done.code, &*done.stdout, &*done.stderr), (Some(0), "", ""));
    let climb = done.scenarios();
    assert_eq!(climb["scenarios"][0]["handshake_us"], 0.0);
    assert_ne!(
        climb["scenarios"][0]["limit"]["by"], "handshakes",
        "a connection costs nothing here"
    );
    assert!(
        climb["scenarios"][0]["flags"]
            .as_array()
            .unwrap()
            .contains(&Value::from("--target-handshake"))
    );
}

#[test]
fn a_signal_leaves_the_rungs_until_then() {
    let climb = ladder(&["--rungs", "1,4", "-d", "1s", "--out", "out", "--quiet"]);
    let (pid, work) = (climb.pid(), climb.work());
    // Its second round is under way as soon as there is a directory for it.
    let second = |place: &Path| {
        let entries = fs::read_dir(place).ok()?.flatten();
        let partial = entries
            .map(|entry| entry.path())
            .find(|path| path.to_string_lossy().ends_with(".partial"))?;
        fs::read_dir(partial.join("rounds"))
            .ok()?
            .flatten()
            .find(|entry| entry.file_name().to_string_lossy().contains(".4."))
    };
    wait_for("the second rung", || {
        second(&work).filter(|_| !children(pid).is_empty())
    });
    climb.interrupt();
    let climb = climb.end().code(&[130]).scenarios();
    assert_eq!(
        (
            &climb["interrupted"],
            climb["scenarios"].as_array().unwrap().len()
        ),
        (&Value::Bool(true), 1)
    );
}

#[test]
fn each_pattern_does_what_its_name_says() {
    // The target allows twice the rate, and ten connections of 20 ms could do five times as much.
    let target = [
        "--",
        "--target-latency",
        "20ms",
        "--target-limit",
        "100/s:burst=20:key=everyone",
    ];
    let run = [
        "patterns", "-c", "10", "-R", "50", "-d", "2s", "--out", "out", "--json",
    ];
    let done = Started::new(&[&run[..], &target].concat()).end().code(&[0]);
    let saved = done.scenarios();
    assert_eq!(saved, serde_json::from_str::<Value>(&done.stdout).unwrap());
    let rows = saved["scenarios"].as_array().unwrap();
    let figure = |name: &str, key: &str| {
        let row = rows
            .iter()
            .find(|row| row["name"].as_str().unwrap().starts_with(name))
            .unwrap();
        row[key].as_f64().unwrap()
    };
    let names = [
        "one at a time",
        "waves",
        "semaphore",
        "interval cap",
        "token bucket",
        "even",
        "open loop",
        "bounded",
        "adaptive",
    ];
    assert_eq!(rows.len(), names.len());
    assert!((figure("one at a time", "peak_in_flight") - 1.0).abs() < 1e-9);
    assert!(
        (figure("waves", "peak_in_flight") - 10.0).abs() < 1e-9,
        "{saved}"
    );
    assert!(figure("semaphore", "throttled") > 0.0, "{saved}");
    // The cap is kept, but its requests come all at once, which the target does not allow.
    assert!(figure("interval cap", "throttled") > 0.0, "{saved}");
    for paced in ["even", "open loop", "bounded"] {
        let rate = figure(paced, "ok_per_s");
        assert!(
            figure(paced, "throttled") <= 0.0 && rate < 80.0,
            "{paced}: {rate}"
        );
    }
    let flags = rows[0]["flags"].as_array().unwrap();
    assert!(
        flags
            .iter()
            .any(|flag| flag == "100/s:burst=20:key=everyone"),
        "{flags:?}"
    );
    for name in names {
        assert!(figure(name, "memory_bytes") > 1e6, "{name}");
        for file in ["summary.md", "plots/scenarios.svg", "report.html"] {
            assert!(
                fs::read_to_string(done.out().join(file))
                    .unwrap()
                    .contains(name),
                "{name} in {file}"
            );
        }
    }
}

#[test]
fn bad_input_is_refused_before_anything_runs() {
    for (line, says) in [
        ("ladder --rungs 9", "`9` is not a valid rung: write 1 to 8"),
        ("ladder --rungs 1-3", "`1-3` is not a valid rung"),
        ("ladder -d 10ms", "out of range: 500ms to 60s"),
        ("ladder http://127.0.0.1:1/", "unexpected argument"),
        ("ladder -- -c 7", "rung 1 and the flags after --, together"),
        (
            "ladder -- http://127.0.0.1:1/",
            "climbs the bundled target only: remove the URL",
        ),
        ("ladder -- --json", "--json is for single runs"),
        ("patterns -d 10ms", "out of range: 1s to 1h"),
        ("patterns -c 0", "too low: write at least 1"),
        ("patterns -- --json", "--json is for single runs"),
        ("patterns -- -n 5", "each pattern lasts a fixed time (-d)"),
        ("patterns -- --rate 5", "cannot be used multiple times"),
        ("patterns -- --no-such-flag", "the flags after --"),
    ] {
        let done = Started::new(&line.split(' ').collect::<Vec<_>>())
            .end()
            .code(&[2]);
        assert_eq!(done.stdout, "", "{line}");
        assert!(done.stderr.contains(says), "{line}: {}", done.stderr);
        let left = fs::read_dir(done.work()).unwrap().count();
        assert_eq!(left, 0, "{line} left something");
    }
}
