//! `crawlmark capacity`: a limit is found, an undecided search has an exit code of its own, and a
//! probe that was killed is made again.

use std::fs;
use std::time::{Duration, UNIX_EPOCH};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::command::{json as read_json, run, start};
use crate::lost::partial;
use crate::process::{children, signal, sockets, wait_for};
use crate::report::holds;
use crate::target::Target;

/// A search with probes that take no longer than they must.
const SHORT: &str = "capacity --probe 1s --warmup 300ms --rest 100ms --out out";

#[test]
fn a_limit_is_found_and_saved() {
    let done = run(&format!(
        "{SHORT} --from 80 --max-rate 640 --json --precision 10% -- -s 1 \
         --target-limit 200/s:burst=20 --target-latency-per-in-flight 1ms"
    ));
    let saved = done.saved("capacity.json");
    assert_eq!(saved, done.printed());
    // A machine on which this client could not send decides nothing; what is said of the limit is
    // true nevertheless.
    if saved["outcome"] == "found" {
        assert_eq!(done.code, Some(0));
        let [pass, offered, fail] = ["capacity_per_s", "passes_at_per_s", "fails_at_per_s"]
            .map(|key| saved[key].as_f64().unwrap());
        assert!(pass <= 201.0 && fail > 200.0, "{pass} to {fail}");
        assert!(
            pass <= offered && fail / offered <= 1.101,
            "{offered} to {fail}"
        );
        // A target that refuses has a limit, so that nothing need have run out.
        let mut findings = saved["findings"].as_array().unwrap().iter();
        assert!(findings.all(|finding| finding["kind"] != "nothing_ran_out"));
    } else {
        assert_eq!(done.code, Some(5), "{}", saved["outcome"]);
    }
    let probes = saved["probes"].as_array().unwrap();
    for (number, probe) in (1..).zip(probes) {
        assert_eq!(probe["number"], number);
        let result = done.out().join(probe["result"].as_str().unwrap());
        holds(
            &read_json(&result.join("result.json")),
            &json!({
                "/schedule/rate_per_s": probe["rate_per_s"],
                "/plan/throttling/on_throttle": "count", "/plan/seed": number,
                "/target/cpu_us_per_attempt": probe["target"]["cpu_us_per_attempt"],
            }),
        );
        // Never more than twice what passed.
        assert!(probe["rate_per_s"].as_f64().unwrap() < 200.0 * 2.0 * 1.2);
    }
    let throttled = |probe: &Value| probe["throttled_share"].as_f64().unwrap() > 0.1;
    assert!(
        probes.iter().any(throttled),
        "it was pushed above its limit"
    );
    for file in ["summary.md", "plots/capacity.svg"] {
        assert!(done.out().join(file).exists(), "{file}");
    }
}

#[test]
fn a_probe_whose_shard_is_killed_is_made_again() {
    let search = start(&format!("{SHORT} --from 60 --max-rate 60 -- -s 1"));
    wait_for("a probe", || {
        let rounds = partial(&search.work()).map(|place| place.join("rounds"))?;
        let mut rounds = fs::read_dir(rounds).ok()?.flatten();
        rounds.find(|round| round.path().join("result.json").exists())
    });
    let shard = wait_for("a shard of the next probe", || {
        let rounds = children(search.pid());
        let mut shards = rounds.iter().flat_map(|(round, _)| children(*round));
        let (shard, _) = shards.find(|(_, name)| name == "crawlmark-s0")?;
        (sockets(shard) > 0).then_some(shard)
    });
    signal(shard, Signal::SIGKILL);
    let done = search.end();
    assert!(done.stderr.contains("SIGKILL"), "{}", done.stderr);
    assert_eq!(
        done.saved("capacity.json")["outcome"],
        "not_reached",
        "{}",
        done.stdout
    );
}

/// RFC 3339 as the time since the epoch.
fn time(value: &Value) -> Duration {
    let time = humantime::parse_rfc3339(value.as_str().unwrap()).unwrap();
    time.duration_since(UNIX_EPOCH).unwrap()
}

#[test]
fn the_lowest_rate_may_fail_and_a_target_is_left_alone_for_as_long_as_it_asks() {
    let target = Target::start("--limit 30/s:burst=1:retry=seconds");
    let done = run(&format!("{SHORT} --from 60 {} -- -s 1", target.url())).code(&[3]);
    let saved = done.saved("capacity.json");
    holds(
        &saved,
        &json!({"/outcome": "least_fails", "/capacity_per_s": null}),
    );
    let probes = saved["probes"].as_array().unwrap();
    assert!(probes.len() >= 4, "{probes:?}");
    for pair in probes.windows(2) {
        let promised = pair[0]["longest_promise_s"].as_f64().unwrap();
        let promised = Duration::from_secs_f64(promised);
        assert!(promised >= Duration::from_secs(1), "{}", pair[0]);
        let rested = time(&pair[1]["started_at"]).saturating_sub(time(&pair[0]["finished_at"]));
        assert!(rested + Duration::from_millis(2) >= promised, "{rested:?}");
    }
}
