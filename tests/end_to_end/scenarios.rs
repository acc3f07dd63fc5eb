//! `crawlmark ladder`: each scenario is a run of its own that does what its name says; what is printed
//! is what is saved and fits its schema.

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
