//! `crawlmark ladder` from outside: rungs are climbed from the lowest, each as a run of its own
//! against the bundled target; what is printed is what is saved and fits its schema; bad input is
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
    serde_json::from_str(include_str!("../../results/schema/ladder-1.schema.json")).unwrap()
});

static VALIDATOR: LazyLock<Validator> = LazyLock::new(|| closed(&SCHEMA));

/// Starts `ladder` with these flags.
fn started(args: &[&str]) -> Started {
    Started::new(&[&["ladder"], args].concat())
}

impl Done {
    /// The saved climb, which fits its schema.
    #[track_caller]
    fn climb(&self) -> Value {
        self.saved("ladder.json", &VALIDATOR)
    }
}

#[test]
fn rungs_are_climbed_from_the_lowest_and_what_is_printed_is_saved() {
    // Named in another order, and one of them twice.
    let done = started(&["--rungs", "4,1,4", "-d", "1s", "--out", "out", "--json"])
        .end()
        .code(&[0]);
    let climb = done.climb();
    assert_eq!(climb, serde_json::from_str::<Value>(&done.stdout).unwrap());
    let rungs = climb["rungs"].as_array().unwrap();
    assert_eq!(
        rungs
            .iter()
            .map(|rung| rung["rung"].as_u64().unwrap())
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
    for file in ["summary.md", "plots/climb.svg"] {
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
    let done = started(
        &[
            &["--rungs", "1", "-d", "1s", "--out", "out", "--quiet"],
            &run[..],
        ]
        .concat(),
    )
    .end();
    assert_eq!((done.code, &*done.stdout, &*done.stderr), (Some(0), "", ""));
    let climb = done.climb();
    assert_eq!(climb["rungs"][0]["handshake_us"], 0.0);
    assert_ne!(
        climb["rungs"][0]["limit"]["by"], "handshakes",
        "a connection costs nothing here"
    );
    assert!(
        climb["rungs"][0]["flags"]
            .as_array()
            .unwrap()
            .contains(&Value::from("--target-handshake"))
    );
}

#[test]
fn a_signal_leaves_the_rungs_until_then() {
    let climb = started(&["--rungs", "1,4", "-d", "1s", "--out", "out", "--quiet"]);
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
    let climb = climb.end().code(&[130]).climb();
    assert_eq!(
        (
            &climb["interrupted"],
            climb["rungs"].as_array().unwrap().len()
        ),
        (&Value::Bool(true), 1)
    );
}

#[test]
fn bad_input_is_refused_before_anything_runs() {
    for (args, says) in [
        (
            &["--rungs", "9"][..],
            "`9` is not a valid rung: write 1 to 8",
        ),
        (&["--rungs", ""], "`` is not a valid rung"),
        (&["--rungs", "1-3"], "`1-3` is not a valid rung"),
        (&["-d", "10ms"], "out of range: 500ms to 60s"),
        (&["http://127.0.0.1:1/"], "unexpected argument"),
        (
            &["--", "-c", "7"],
            "rung 1 and the flags after --, together",
        ),
        (
            &["--", "http://127.0.0.1:1/"],
            "climbs the bundled target only: remove the URL",
        ),
        (&["--", "--json"], "--json is for single runs"),
        (
            &["--", "--no-such-flag"],
            "rung 1 and the flags after --, together",
        ),
    ] {
        let done = started(args).end().code(&[2]);
        assert_eq!(done.stdout, "", "{args:?}");
        assert!(done.stderr.contains(says), "{args:?}: {}", done.stderr);
        assert!(
            fs::read_dir(done.work()).unwrap().next().is_none(),
            "{args:?} left something"
        );
    }
}
