//! `crawlmark ladder` and `crawlmark patterns`: each scenario is a run of its own that does what its
//! name says; what is printed is what is saved and fits its schema.

use std::fs;

use crawlmark_results::studies::scenarios::PATTERNS;
use serde_json::{Value, json};

use crate::command::{assert_fits, json as read_json, run};
use crate::report::holds;
use crate::target::Target;

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
    assert_eq!(
        (done.code, &*done.stdout, &*done.stderr),
        (Some(0), "out/report.html\n", "")
    );
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
    assert_fits("scenarios", &saved);
    let rows = saved["scenarios"].as_array().unwrap();
    for (row, (peak, is_throttled)) in rows.iter().zip([
        (Some(1), None),
        (Some(10), None),
        (None, Some(true)),
        (None, Some(false)),
        // The cap is kept, but its requests come all at once, which the target does not allow.
        (None, Some(true)),
        (None, None),
        (None, Some(false)),
        (None, Some(false)),
        (None, None),
        (None, Some(true)),
    ]) {
        let count = |key: &str| row[key].as_u64().unwrap();
        assert!(
            peak.is_none_or(|peak| count("peak_in_flight") == peak),
            "{row}"
        );
        assert!(
            is_throttled.is_none_or(|is| is == (count("throttled") > 0)),
            "{row}"
        );
        let is_limited = is_throttled == Some(false);
        assert!(
            !is_limited || row["ok_per_s"].as_f64().unwrap() < 80.0,
            "{row}"
        );
        assert!(count("memory_bytes") > 1_000_000, "{row}");
        let name = row["name"].as_str().unwrap();
        for file in ["summary.md", "plots/scenarios.svg", "report.html"] {
            let text = fs::read_to_string(done.out().join(file)).unwrap();
            assert!(text.contains(name), "{name} in {file}");
        }
    }
    // The book has the same table.
    let book = include_str!("../../docs/src/measure/patterns.md").replace("\\<", "<");
    for pattern in PATTERNS {
        for cell in pattern.elsewhere {
            assert!(book.contains(&format!("| {cell} |")), "{cell}");
        }
    }
    assert_eq!(
        (rows.len(), rows[9]["shards"] != rows[0]["shards"]),
        (10, true)
    );
}

#[test]
fn patterns_crawl_a_url_and_are_refused_where_a_crawl_of_it_would_be() {
    let target = Target::start("--latency 5ms");
    let done = run(&format!(
        "patterns {} -c 4 -R 40 -d 1s --out out --quiet",
        target.url()
    ));
    assert_eq!(
        (done.code, &*done.stdout, &*done.stderr),
        (Some(0), "out/report.html\n", "")
    );
    let rows = &done.saved("scenarios.json")["scenarios"];
    let attempts = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["attempts"].as_u64().unwrap());
    assert_eq!(attempts.sum::<u64>(), target.requests());
    // A public target without a rate, a flag that a pattern sets, and a target's flag beside a URL.
    for line in [
        "patterns http://192.0.2.1/{id}",
        "patterns -- --adaptive",
        "patterns -- -c 5",
        "patterns http://127.0.0.1:1/ -- --target-latency 5ms",
    ] {
        assert_eq!(run(line).code, Some(2), "{line}");
    }
}
