//! Responses of stubs over the wire, and the counts of them: holds, and the target's own latency,
//! limits and faults on top.

use std::collections::BTreeMap;

use serde_json::json;

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
