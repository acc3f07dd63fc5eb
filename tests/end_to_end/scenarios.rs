//! `crawlmark ladder` and `crawlmark patterns`: each scenario is a run of its own that does what its
//! name says; what is printed is what is saved and fits its schema.

use std::fs;

use serde_json::{Value, json};

use crate::command::{json as read_json, run};
use crate::report::holds;

#[test]
fn rungs_are_climbed_from_the_lowest_and_what_is_printed_is_saved() {
    // Named in another order, and one of them twice.
    let done = run("ladder --rungs 4,1,4 -d 1s --out out --json").code(&[0]);
    let climb = done.saved("scenarios.json");
    assert_eq!(climb, done.printed());
    // Each request has a connection of its own, and waits for its handshake; or there are twenty
    // for all of them.
    let rungs = climb["scenarios"].as_array().unwrap();
    let (first, pooled) = (&rungs[0], &rungs[1]);
    holds(
        &climb,
        &json!({
            "/interrupted": false, "/scenarios/0/number": 1,
            "/scenarios/1/number": 4, "/scenarios/1/connections_opened": 20,
            "/scenarios/0/connections_opened": first["attempts"], "/scenarios/0/throttled": 0,
        }),
    );
    let figure = |rung: &Value, name: &str| rung[name].as_f64().unwrap();
    for time in ["service_mean_us", "handshake_us"] {
        assert!(figure(first, time) >= 100_000.0, "{first}");
    }
    // One at a time is no more than one every 100 ms; twenty at a time are more than that on any
    // machine.
    let [alone, many] = [first, pooled].map(|rung| figure(rung, "ok_per_s"));
    let times = figure(pooled, "times_before");
    assert!(rungs.len() == 2 && alone < 10.0 && times > 1.0, "{climb}");
    assert!((times - many / alone).abs() < 1e-9);
    for rung in rungs {
        let result = done.out().join(rung["result"].as_str().unwrap());
        let result = read_json(&result.join("result.json"));
        let profile = json!({"/plan/workload/target_profile": "article", "/witness/agrees": true});
        holds(&result, &profile);
    }
    // Flags for every rung reach it.
    let flags = "-- --target-handshake 0s --target-latency 5ms";
    let done = run(&format!("ladder --rungs 1 -d 1s --out out --quiet {flags}"));
    assert_eq!((done.code, &*done.stdout, &*done.stderr), (Some(0), "", ""));
    let first = &done.saved("scenarios.json")["scenarios"][0];
    assert_eq!(first["handshake_us"], 0.0);
    assert!(
        first["flags"]
            .as_array()
            .unwrap()
            .contains(&"--target-handshake".into())
    );
}

#[test]
fn each_pattern_does_what_its_name_says() {
    // The target allows twice the rate, and ten connections of 20 ms could do five times as much.
    let done = run(
        "patterns -c 10 -R 50 -d 1s --out out --json -- --target-latency 20ms \
         --target-limit 100/s:burst=20:key=everyone",
    )
    .code(&[0]);
    let saved = done.saved("scenarios.json");
    assert_eq!(saved, done.printed());
    let rows = saved["scenarios"].as_array().unwrap();
    let figure = |name: &str, key: &str| {
        let mut rows = rows.iter();
        let row = rows
            .find(|row| row["name"].as_str().unwrap().starts_with(name))
            .unwrap();
        row[key].as_f64().unwrap()
    };
    for (name, peak, is_throttled) in [
        ("one at a time", Some(1.0), None),
        ("waves", Some(10.0), None),
        ("semaphore", None, Some(true)),
        // The cap is kept, but its requests come all at once, which the target does not allow.
        ("interval cap", None, Some(true)),
        ("token bucket", None, None),
        ("even", None, Some(false)),
        ("open loop", None, Some(false)),
        ("bounded", None, Some(false)),
        ("adaptive", None, None),
    ] {
        let in_flight = figure(name, "peak_in_flight");
        assert!(
            peak.is_none_or(|peak: f64| (in_flight - peak).abs() < 1e-9),
            "{name}: {in_flight}"
        );
        let throttled = figure(name, "throttled");
        assert!(
            is_throttled.is_none_or(|is| is == (throttled > 0.0)),
            "{name}: {throttled}"
        );
        assert!(
            is_throttled != Some(false) || figure(name, "ok_per_s") < 80.0,
            "{name}"
        );
        assert!(figure(name, "memory_bytes") > 1e6, "{name}");
        for file in ["summary.md", "plots/scenarios.svg", "report.html"] {
            let text = fs::read_to_string(done.out().join(file)).unwrap();
            assert!(text.contains(name), "{name} in {file}");
        }
    }
    assert_eq!(rows.len(), 9);
}
