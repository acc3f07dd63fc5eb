//! `crawlmark patterns` from outside: each pattern is a run on the same target, and does what its
//! name says.
#![expect(
    clippy::unwrap_used,
    reason = "a test whose program cannot be started is over"
)]

use std::fs;
use std::sync::LazyLock;

use jsonschema::Validator;
use serde_json::Value;

use crate::command::Started;
use crate::schema::closed;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../results/schema/patterns-1.schema.json")).unwrap()
});

static VALIDATOR: LazyLock<Validator> = LazyLock::new(|| closed(&SCHEMA));

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
    let saved = done.saved("patterns.json", &VALIDATOR);
    assert_eq!(saved, serde_json::from_str::<Value>(&done.stdout).unwrap());
    let rows = saved["patterns"].as_array().unwrap();
    let figure = |name: &str, key: &str| {
        let row = rows
            .iter()
            .find(|row| row["pattern"].as_str().unwrap().starts_with(name))
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
    assert!(figure("semaphore", "throttled_share") > 0.0, "{saved}");
    // The cap is kept, but its requests come all at once, which the target does not allow.
    assert!(figure("interval cap", "throttled_share") > 0.0, "{saved}");
    for paced in ["even", "open loop", "bounded"] {
        let rate = figure(paced, "ok_per_s");
        assert!(
            figure(paced, "throttled_share") <= 0.0 && rate < 80.0,
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
        for file in ["summary.md", "plots/patterns.svg", "report.html"] {
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
    for (args, says) in [
        (&["-d", "10ms"][..], "out of range: 1s to 1h"),
        (&["-c", "0"], "too low: write at least 1"),
        (&["--", "--json"], "--json is for single runs"),
        (&["--", "-n", "5"], "patterns last a fixed time (-d)"),
        (&["--", "--rate", "5"], "cannot be used multiple times"),
        (&["--", "--no-such-flag"], "the flags after --"),
    ] {
        let done = Started::new(&[&["patterns"], args].concat())
            .end()
            .code(&[2]);
        assert_eq!(done.stdout, "", "{args:?}");
        assert!(done.stderr.contains(says), "{args:?}: {}", done.stderr);
        assert!(
            fs::read_dir(done.work()).unwrap().next().is_none(),
            "{args:?} left something"
        );
    }
}
