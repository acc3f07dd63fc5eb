//! `crawlmark scale` from outside: every size in every repeat, in fresh processes and in the order
//! drawn; what is said is what is saved; what waits for answers scales; bad input is refused before
//! anything runs.
#![expect(
    clippy::unwrap_used,
    reason = "a test whose program cannot be started is over"
)]

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use crawlmark_results::studies::scale::order;
use jsonschema::Validator;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::command::{Done, Started};
use crate::process::{children, signal, wait_for};
use crate::schema::closed;
use crate::target::Target;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../results/schema/scale-1.schema.json")).unwrap()
});

static VALIDATOR: LazyLock<Validator> = LazyLock::new(|| closed(&SCHEMA));

impl Done {
    /// What was saved, which fits its schema.
    #[track_caller]
    fn scaling(&self) -> Value {
        self.saved("scale.json", &VALIDATOR)
    }
}

fn started(args: &[&str]) -> Started {
    Started::new(&[&["scale", "--out", "out"], args].concat())
}

fn scale(args: &[&str]) -> Done {
    started(args).end()
}

fn sizes(rounds: &[Value]) -> Vec<(u64, u64)> {
    rounds
        .iter()
        .map(|round| {
            (
                round["shards"].as_u64().unwrap(),
                round["connections"].as_u64().unwrap(),
            )
        })
        .collect()
}

#[test]
fn every_size_runs_in_every_replicate_in_the_order_drawn_and_is_saved() {
    // Whether rounds are disturbed is the machine's affair; what they did is in the file all the
    // same.
    let done = scale(&[
        "--shards",
        "4,1,2",
        "--latency-bound=40ms",
        "--connections-per-shard",
        "2",
        "--repeats",
        "2",
        "--seed",
        "7",
        "-d",
        "600ms",
        "--json",
    ])
    .code(&[0, 5]);
    let scaling = done.scaling();
    assert_eq!(
        scaling,
        serde_json::from_str::<Value>(&done.stdout).unwrap()
    );
    let rounds = scaling["rounds"].as_array().unwrap();
    let all = [(1, 2), (2, 4), (4, 8)];
    let expected: Vec<(u64, u64)> = order(7, 3, 2)
        .into_iter()
        .flatten()
        .map(|place| all[place])
        .collect();
    assert_eq!(sizes(rounds), expected);
    let mut supervisors = Vec::new();
    for (number, round) in rounds.iter().enumerate() {
        assert_eq!(round["replicate"], number / 3 + 1);
        let directory = done.out().join(round["result"].as_str().unwrap());
        let names: Vec<_> = fs::read_dir(&directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, ["result.json"]);
        let result: Value =
            serde_json::from_str(&fs::read_to_string(directory.join("result.json")).unwrap())
                .unwrap();
        for key in ["shards", "connections"] {
            assert_eq!(result["plan"][key], round[key]);
        }
        assert_eq!(result["plan"]["workload"]["target_latency"], "fixed:40ms");
        assert_eq!(result["plan"]["duration_us"], 600_000);
        assert_eq!(result["validity"]["verdict"], round["validity"]);
        supervisors.push(result["run_id"].as_str().unwrap().to_owned());
        // No connection is answered more than once in 40 ms, however fast the machine is; a tenth
        // of that is a machine that does something else.
        let per_s = round["items_per_s"].as_f64().unwrap() / round["connections"].as_f64().unwrap();
        assert!((2.5..=25.0).contains(&per_s), "{round}");
        assert!(
            round["balance"]
                .as_f64()
                .is_some_and(|balance| balance > 0.0 && balance <= 1.0),
            "{round}"
        );
        assert!(
            round["machine_cpu_share"]
                .as_f64()
                .is_some_and(|share| share > 0.0 && share <= 1.2),
            "{round}"
        );
    }
    supervisors.sort();
    supervisors.dedup();
    assert_eq!(
        supervisors.len(),
        rounds.len(),
        "each round is a process of its own"
    );
    let points = scaling["curves"][0]["points"].as_array().unwrap();
    assert_eq!(sizes(points), all);
    assert_eq!(scaling["curves"][0]["held"]["connections_per_shard"], 2);
    // What is told of a ratio is what the rounds of its repeats say.
    let ratio = |replicate: u64| {
        let x = |shards: u64| {
            let is = |round: &&Value| {
                let counts = round["left_out"].as_array().is_some_and(Vec::is_empty);
                counts && round["replicate"] == replicate && round["shards"] == shards
            };
            rounds
                .iter()
                .find(is)
                .and_then(|round| round["items_per_s"].as_f64())
        };
        Some(x(4)? / x(1)?)
    };
    let ratios: Vec<f64> = [1, 2].into_iter().filter_map(ratio).collect();
    let told = points[2]["speedup"]["median"].as_f64();
    assert_eq!(told.is_some(), !ratios.is_empty());
    if let Some(told) = told {
        let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
        assert!((told - mean).abs() < 1e-9, "{told}: {ratios:?}");
    }
    // The ceiling: the largest size, and a target that holds nothing.
    assert_eq!(sizes(std::slice::from_ref(&scaling["ceiling"])), [(4, 8)]);
    let ceiling = fs::read_to_string(done.out().join("ceiling/result.json")).unwrap();
    let ceiling: Value = serde_json::from_str(&ceiling).unwrap();
    assert_eq!(ceiling["plan"]["workload"]["target_latency"], "none");
    let summary = fs::read_to_string(done.out().join("summary.md")).unwrap();
    assert!(
        summary.starts_with("# scale\n\n")
            && summary.contains("| shards | connections | items/s |"),
        "{summary}"
    );
    assert!(
        fs::read_to_string(done.out().join("plots/scaling.svg"))
            .unwrap()
            .contains("How throughput grows")
    );
    assert!(
        done.stderr
            .contains("2 of each size, 6 rounds of 600ms in all: about"),
        "{}",
        done.stderr
    );
}

#[test]
fn connections_are_sizes_too_and_a_curve_each_with_several_shards() {
    let short = [
        "--repeats",
        "1",
        "-d",
        "200ms",
        "--no-ceiling",
        "--markdown",
        "--quiet",
    ];
    let more = |args: &[&'static str]| {
        scale(&[args, &short, &["--", "--target-latency", "10ms"]].concat()).code(&[0, 5])
    };
    let done = more(&["--shards", "1", "--connections", "2,4"]);
    let scaling = done.scaling();
    assert_eq!(scaling["curves"][0]["held"]["shards"], 1);
    assert_eq!(
        sizes(scaling["curves"][0]["points"].as_array().unwrap()),
        [(1, 2), (1, 4)]
    );
    assert_eq!(scaling["ceiling"], Value::Null);
    assert_eq!(
        done.stdout,
        fs::read_to_string(done.out().join("summary.md")).unwrap()
    );
    assert_eq!(done.stderr, "");
    let scaling = more(&["--shards", "1,2", "--connections", "2,4"]).scaling();
    let curves = scaling["curves"].as_array().unwrap();
    assert_eq!(
        curves
            .iter()
            .map(|curve| curve["held"]["connections"].as_u64())
            .collect::<Vec<_>>(),
        [Some(2), Some(4)]
    );
    assert_eq!(
        sizes(curves[1]["points"].as_array().unwrap()),
        [(1, 4), (2, 4)]
    );
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_saved() {
    for (args, says) in [
        (&["--shards", "0"][..], "`0` is too low: write at least 1"),
        (
            &["--shards", "1,1025"],
            "`1025` is too high: write at most 1024",
        ),
        (&["--shards", "1,2,1"], "--shards has 1 twice"),
        (
            &["--shards", "2"],
            "one size has nothing to be compared with",
        ),
        (&["--shards", "1,x"], "invalid value 'x'"),
        (&["--shards", ""], "invalid value ''"),
        (
            &["--shards", "1,8", "--connections", "4"],
            "--connections 4 is too few for --shards 8",
        ),
        (&["--connections", "8,8"], "--connections has 8 twice"),
        (
            &["--connections", "8", "--connections-per-shard", "8"],
            "cannot be used with",
        ),
        (&["--repeats", "0"], "invalid value '0'"),
        (
            &["--latency-bound", "http://127.0.0.1:9/{id}"],
            "cannot be used with",
        ),
        (
            &["--latency-bound", "--", "http://127.0.0.1:9/{id}"],
            "--latency-bound only works with the bundled target",
        ),
        (
            &["--latency-bound", "--", "--target-latency", "9ms"],
            "--target-latency by another name",
        ),
        (
            &["--", "--rate", "100"],
            "--rate caps throughput, and scale asks how throughput grows",
        ),
        (
            &["--", "--rate", "100", "--arrivals", "constant"],
            "--rate caps throughput",
        ),
        (
            &["--", "--arrivals", "poisson"],
            "--arrivals sends at a rate of its own",
        ),
        (
            &["--", "--per-host-rate", "5/s"],
            "--per-host-rate caps throughput",
        ),
        (
            &["--", "--adaptive"],
            "--adaptive chooses the number of connections",
        ),
        (
            &["--", "-s", "2"],
            "`scale` varies --shards: write it before --",
        ),
        (
            &["--", "-c", "2"],
            "`scale` varies --connections: write it before --",
        ),
        (&["-d", "1s", "--", "-d", "2s"], "-d is given twice"),
        (&["--", "--out", "here"], "--out is for single runs"),
        (
            &["--", "--threshold", "rate>1"],
            "--threshold is for single runs",
        ),
        (
            &["--", "--nonsense"],
            "the flags after --: unexpected argument '--nonsense'",
        ),
        (
            &["http://192.0.2.1/{id}"],
            "neither on this machine nor in a private network",
        ),
        (&["--", "-w", "5s"], "--warmup"),
    ] {
        let done = scale(args).code(&[2]);
        assert!(done.stderr.contains(says), "{args:?}: {}", done.stderr);
        assert!(!done.out().exists());
    }
    // A target that nobody is at is known with the first round.
    let done = scale(&["http://127.0.0.1:1/{id}", "--no-ceiling", "--quiet"]).code(&[1]);
    assert!(
        done.stderr.contains("connect to the target at 127.0.0.1:1"),
        "{}",
        done.stderr
    );
    assert!(!done.out().exists());
}

#[test]
fn rounds_that_run_out_of_items_are_no_rounds() {
    let done = scale(&[
        "--shards",
        "1,2",
        "-d",
        "1s",
        "--repeats",
        "1",
        "--no-ceiling",
        "--",
        "--ids",
        "0..50",
    ])
    .code(&[1]);
    assert!(
        done.stderr.contains("its 50 items were done after"),
        "{}",
        done.stderr
    );
}

#[test]
fn a_signal_ends_it_and_what_was_measured_is_kept() {
    let fast = [
        "--latency-bound=10ms",
        "--shards",
        "1,2",
        "-d",
        "100ms",
        "--repeats",
        "1000",
        "--no-ceiling",
    ];
    let scaling = started(&fast);
    let rounds = |folder: &Path| fs::read_dir(folder).map_or(0, Iterator::count);
    let work = scaling.work();
    wait_for("the third round", || {
        let partial = fs::read_dir(&work)
            .ok()?
            .flatten()
            .map(|entry| entry.path().join("rounds"))
            .next()?;
        (rounds(&partial) > 3).then_some(())
    });
    scaling.interrupt();
    let done = scaling.end().code(&[130]);
    let scaling = done.scaling();
    assert_eq!(scaling["interrupted"], true);
    assert!(scaling["rounds"].as_array().unwrap().len() >= 2);
    assert!(
        done.stdout
            .contains("interrupted before all rounds were run"),
        "{}",
        done.stdout
    );
    assert!(
        done.stdout
            .contains("of each size that was run (1000 planned)"),
        "{}",
        done.stdout
    );
}

#[test]
fn a_round_whose_shard_is_killed_ends_it_and_the_rounds_before_it_are_kept() {
    let fast = [
        "--latency-bound=10ms",
        "--shards",
        "1,2",
        "-d",
        "2s",
        "--repeats",
        "2",
        "--no-ceiling",
    ];
    let scaling = started(&fast);
    let work = scaling.work();
    let shard = wait_for("a shard of the second round", || {
        let partial = fs::read_dir(&work)
            .ok()?
            .flatten()
            .map(|entry| entry.path().join("rounds"))
            .next()?;
        let is_second = fs::read_dir(partial)
            .ok()?
            .flatten()
            .any(|entry| entry.file_name().to_string_lossy().contains("002"));
        let rounds = children(scaling.pid());
        let (shard, _) = rounds
            .iter()
            .flat_map(|(round, _)| children(*round))
            .find(|(_, name)| name == "crawlmark-s0")?;
        let fds = fs::read_dir(format!("/proc/{shard}/fd")).ok()?;
        let mut links = fds.filter_map(|fd| fs::read_link(fd.ok()?.path()).ok());
        let is_connected = links.any(|link| link.to_string_lossy().starts_with("socket:"));
        (is_second && is_connected).then_some(shard)
    });
    signal(shard, Signal::SIGKILL);
    let done = scaling.end().code(&[1]);
    assert!(done.stderr.contains("SIGKILL"), "{}", done.stderr);
    let scaling = done.scaling();
    assert_eq!(
        (
            &scaling["interrupted"],
            scaling["rounds"].as_array().unwrap().len()
        ),
        (&Value::Bool(true), 1)
    );
    assert!(
        done.stdout
            .contains("interrupted before all rounds were run"),
        "{}",
        done.stdout
    );
}

#[test]
fn the_schema_can_say_no() {
    assert!(jsonschema::draft202012::meta::is_valid(&SCHEMA));
    assert_eq!(SCHEMA["properties"]["schema"]["const"], "crawlmark.scale/1");
    assert!(!VALIDATOR.is_valid(&serde_json::json!({ "schema": "crawlmark.scale/2" })));
}

#[test]
fn cpu_is_measured_beside_a_target_that_somebody_else_started() {
    // As many shards as CPUs beside a target of one process, which all of them hardly use.
    let target = Target::start("--processes 1 --latency 100ms");
    let cores = std::thread::available_parallelism()
        .unwrap()
        .get()
        .to_string();
    let sizes = format!("1,{cores}");
    let sizes = if cores == "1" { "1,2" } else { &sizes };
    let url = target.url();
    let done = scale(&[
        "--shards",
        sizes,
        "--connections-per-shard",
        "1",
        "--repeats",
        "1",
        "-d",
        "1s",
        &url,
    ])
    .code(&[0, 5]);
    let scaling = done.scaling();
    let rounds = scaling["rounds"].as_array().unwrap();
    // How busy the machine is with other things is not for this test to say.
    let used = |round: &Value| {
        round["machine_cpu_share"]
            .as_f64()
            .unwrap_or_else(|| panic!("not measured: {round}"))
    };
    assert!(rounds.iter().all(|round| used(round) > 0.0), "{rounds:?}");
    let is_scarce = |round: &Value| {
        used(round) >= 0.5
            || round["run_delay_share"]
                .as_f64()
                .is_none_or(|waited| waited > 0.05)
    };
    for point in scaling["curves"][0]["points"].as_array().unwrap() {
        let is_of = |round: &&Value| {
            round["shards"] == point["shards"] && round["left_out"] == serde_json::json!([])
        };
        let of_size: Vec<&Value> = rounds.iter().filter(is_of).collect();
        let scarce = of_size.iter().filter(|round| is_scarce(round)).count();
        assert_eq!(
            point["lacked_cpu"].as_bool(),
            Some(scarce * 2 > of_size.len()),
            "{point}"
        );
    }
}
