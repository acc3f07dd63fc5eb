//! `crawlmark scale`: every size in every repeat, in fresh processes and in the order drawn; the
//! output is what is saved; what waits for responses scales.

use std::collections::BTreeSet;
use std::fs;

use crawlmark_results::studies::scale::order;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::command::{json as read_json, run, start};
use crate::lost::partial;
use crate::process::{children, signal, sockets, wait_for};
use crate::report::holds;

/// Shards and connections of rounds or points.
fn sizes(rounds: &Value) -> Vec<(u64, u64)> {
    let count = |round: &Value, key: &str| round[key].as_u64().unwrap();
    let rounds = rounds.as_array().unwrap().iter();
    rounds
        .map(|round| (count(round, "shards"), count(round, "connections")))
        .collect()
}

#[test]
fn every_size_runs_in_every_repeat_in_the_order_drawn_and_is_saved() {
    // Whether rounds are disturbed is the machine's affair; what they did is in the file all the
    // same.
    let done = run(
        "scale --out out --shards 4,1,2 --latency-bound=40ms --connections-per-shard 2 --repeats 2 \
         --seed 7 -d 600ms --json",
    )
    .code(&[0, 5]);
    let scaling = done.saved("scale.json");
    assert_eq!(scaling, done.printed());
    let all = [(1, 2), (2, 4), (4, 8)];
    let expected: Vec<_> = order(7, 3, 2)
        .into_iter()
        .flatten()
        .map(|place| all[place])
        .collect();
    assert_eq!(sizes(&scaling["rounds"]), expected);
    let rounds = scaling["rounds"].as_array().unwrap();
    let mut supervisors = BTreeSet::new();
    for (number, round) in rounds.iter().enumerate() {
        assert_eq!(round["replicate"], number / 3 + 1);
        let result = done.out().join(round["result"].as_str().unwrap());
        let result = read_json(&result.join("result.json"));
        holds(
            &result,
            &json!({
                "/plan/shards": round["shards"], "/plan/connections": round["connections"],
                "/plan/workload/target_latency": "fixed:40ms", "/plan/duration_us": 600_000,
                "/validity/verdict": round["validity"],
            }),
        );
        supervisors.insert(result["run_id"].to_string());
        // No connection is answered more than once in 40 ms, however fast the machine is; a tenth
        // of that is a machine that does something else.
        let per_s = round["items_per_s"].as_f64().unwrap() / round["connections"].as_f64().unwrap();
        assert!((2.5..=25.0).contains(&per_s), "{round}");
        for (share, most) in [("balance", 1.0), ("machine_cpu_share", 1.2)] {
            let share = round[share].as_f64().unwrap();
            assert!(share > 0.0 && share <= most, "{round}");
        }
    }
    assert_eq!(
        supervisors.len(),
        rounds.len(),
        "each round is a process of its own"
    );
    let curve = &scaling["curves"][0];
    assert_eq!(sizes(&curve["points"]), all);
    assert_eq!(curve["held"]["connections_per_shard"], 2);
    assert!(done.out().join("plots/scaling.svg").is_file());
}

#[test]
fn rounds_that_do_not_measure_end_the_study() {
    // A target that nobody is at is known with the first round, as are too few items.
    for (line, says) in [
        (
            "http://127.0.0.1:1/{id}",
            "connect to the target at 127.0.0.1:1",
        ),
        (
            "--shards 1,2 -d 1s -- --ids 0..50",
            "its 50 items were done after",
        ),
    ] {
        let done = run(&format!("scale --out out {line}")).code(&[1]);
        assert!(
            done.stderr.contains(says) && !done.out().exists(),
            "{}",
            done.stderr
        );
    }
    let line = "scale --out out --latency-bound=10ms --shards 1,2 -d 2s --repeats 2";
    let scaling = start(line);
    let work = scaling.work();
    let shard = wait_for("a shard of the second round", || {
        let rounds = fs::read_dir(partial(&work)?.join("rounds")).ok()?;
        rounds
            .flatten()
            .find(|round| round.file_name().to_string_lossy().contains("002"))?;
        let rounds = children(scaling.pid());
        let mut shards = rounds.iter().flat_map(|(round, _)| children(*round));
        let (shard, _) = shards.find(|(_, name)| name == "crawlmark-s0")?;
        (sockets(shard) > 0).then_some(shard)
    });
    signal(shard, Signal::SIGKILL);
    let done = scaling.end().code(&[1]);
    assert!(done.stderr.contains("SIGKILL"), "{}", done.stderr);
    // The rounds before it are kept.
    let scaling = done.saved("scale.json");
    assert_eq!(scaling["interrupted"], true);
    assert_eq!(sizes(&scaling["rounds"]).len(), 1);
}
