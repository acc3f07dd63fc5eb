//! Responses of stubs over the wire, and the counts of them: holds, faults, and the target's own
//! latency, limits and faults on top.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::report::holds;
use crate::target::Target;

use super::{flags, stubs};

/// The hold of a response, us.
fn hold_us(answer: &Answer) -> u64 {
    answer
        .headers
        .get("x-mock-hold-us")
        .map_or(0, |us| us.parse().unwrap())
}

#[test]
fn delays_of_stubs_are_held_and_counted() {
    let delay = |url: &str, response: Value| json!({"request": {"url": url}, "response": response});
    let uniform = json!({"type": "uniform", "lower": 1, "upper": 4});
    let tail = json!({"type": "lognormal", "median": 2, "sigma": 5, "maxValue": 4});
    let fixed = json!({"type": "fixed", "milliseconds": 6});
    let root = stubs(&json!([
        delay("/fixed", json!({"fixedDelayMilliseconds": 20})),
        delay("/both", json!({"fixedDelayMilliseconds": 5, "delayDistribution": fixed})),
        delay("/spread", json!({"delayDistribution": uniform})),
        delay("/tail", json!({"delayDistribution": tail})),
        {"request": {"url": "/none"}},
    ]));
    let target = Target::start(&flags(&root, "--processes 2"));
    let mut client = Client::connect(&target);
    let mut holds_of = |path: &str, times: usize| -> Vec<u64> {
        (0..times).map(|_| hold_us(&client.get(path, ""))).collect()
    };
    assert_eq!(
        [holds_of("/fixed", 1)[0], holds_of("/both", 1)[0]],
        [20_000, 11_000]
    );
    assert_eq!(holds_of("/none", 1), [0]);
    let (spread, tail) = (holds_of("/spread", 40), holds_of("/tail", 40));
    for (held, most) in [(&spread, 4_000), (&tail, 4_000)] {
        assert!(
            held.iter().all(|us| *us <= most) && held.windows(2).any(|w| w[0] != w[1]),
            "{held:?}"
        );
    }
    let held = 42 + tail.iter().filter(|us| **us > 0).count();
    let sum_us = 31_000 + spread.iter().chain(&tail).sum::<u64>();
    holds(
        &target.stop(),
        &json!({
            "/held_us/count": held, "/held_us/sum_us": sum_us, "/stub_answers": 83,
            "/by_status": {"200": 83},
        }),
    );
}

#[test]
fn the_targets_own_latency_limits_and_faults_apply_to_stubs() {
    let root = stubs(&json!([
        {"request": {"urlPathPattern": "/a/.*"}, "response": {"body": "stub", "fixedDelayMilliseconds": 3}},
    ]));
    let more =
        "--processes 2 --latency 2ms --limit 1/24h:burst=100 --fault error:0.2:503,challenge:0.2";
    let target = Target::start(&flags(&root, more));
    let mut client = Client::connect(&target);
    let mut counts = BTreeMap::<String, u64>::new();
    for id in 0..120 {
        let answer = client.get(&format!("/a/{id}"), "");
        *counts.entry(answer.status.to_string()).or_default() += 1;
        assert_eq!(
            hold_us(&answer),
            if answer.status == 429 { 0 } else { 5_000 },
            "{answer:?}"
        );
        assert_eq!(answer.status == 200, answer.body == b"stub", "{answer:?}");
    }
    assert_eq!(counts["429"], 20);
    holds(
        &target.stop(),
        &json!({
            "/by_status": counts, "/faults/error": counts["503"], "/faults/challenge": counts["403"],
            "/stub_answers": 100, "/rejected": 20, "/held_us/count": 100,
            "/held_us/sum_us": 500_000,
        }),
    );
}
