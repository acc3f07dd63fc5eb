//! `crawlmark capacity` from outside: a limit is found, what has no answer says so by its exit
//! code, a probe that was killed is made again, and bad input is refused before anything runs.
#![expect(
    clippy::unwrap_used,
    reason = "a test whose program cannot be started is over"
)]

use std::fs;
use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, UNIX_EPOCH};

use jsonschema::Validator;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::command::{Done, Started};
use crate::lost::{Disk, partial};
use crate::process::{children, signal, wait_for};
use crate::schema::closed;
use crate::target::Target;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../results/schema/capacity-1.schema.json")).unwrap()
});

static VALIDATOR: LazyLock<Validator> = LazyLock::new(|| closed(&SCHEMA));

/// Probes that take no longer than they must.
const SHORT: [&str; 6] = ["--probe", "1s", "--warmup", "300ms", "--rest", "100ms"];

/// Starts `capacity` with these flags.
fn started(args: &[&str]) -> Started {
    Started::new(&[&["capacity"], args].concat())
}

/// The number of probes that ended in the unfinished result of `out`.
fn ended(out: &Path) -> usize {
    let rounds = partial(out.parent().unwrap()).map(|place| place.join("rounds"));
    let rounds = rounds
        .into_iter()
        .flat_map(fs::read_dir)
        .flatten()
        .flatten();
    rounds
        .filter(|round| round.path().join("result.json").exists())
        .count()
}

impl Done {
    /// The saved capacity, which fits its schema.
    #[track_caller]
    fn capacity(&self) -> Value {
        self.saved("capacity.json", &VALIDATOR)
    }
}

/// Runs `capacity` on the bundled target: short probes, these flags of the search, and these of
/// `run`.
fn capacity(args: &[&str], run: &[&str]) -> Done {
    started(&[&SHORT[..], &["--out", "out"], args, &["--", "-s", "1"], run].concat()).end()
}

#[test]
fn a_limit_is_found_and_saved() {
    let args = [
        "--from",
        "80",
        "--max-rate",
        "640",
        "--json",
        "--precision",
        "10%",
    ];
    let done = capacity(
        &args,
        &[
            "--target-limit",
            "200/s:burst=20",
            "--target-latency-per-in-flight",
            "1ms",
        ],
    );
    let saved = done.capacity();
    assert_eq!(saved, serde_json::from_str::<Value>(&done.stdout).unwrap());
    // Of a machine on which this client could not send, nothing is known; what is said of the limit
    // is true nevertheless.
    if saved["outcome"] == "found" {
        assert_eq!(done.code, Some(0));
        let (pass, fail) = (
            saved["capacity_per_s"].as_f64().unwrap(),
            saved["fails_at_per_s"].as_f64().unwrap(),
        );
        assert!(pass <= 201.0 && fail > 200.0, "{pass} to {fail}");
        let offered = saved["passes_at_per_s"].as_f64().unwrap();
        assert!(
            pass <= offered && fail / offered <= 1.101,
            "{offered} to {fail}"
        );
    } else {
        assert_eq!(done.code, Some(5), "{}", saved["outcome"]);
    }
    let probes = saved["probes"].as_array().unwrap();
    for (number, probe) in probes.iter().enumerate() {
        assert_eq!(probe["number"].as_u64(), Some(number as u64 + 1));
        let directory = done.out().join(probe["result"].as_str().unwrap());
        let result: Value =
            serde_json::from_str(&fs::read_to_string(directory.join("result.json")).unwrap())
                .unwrap();
        assert_eq!(result["schedule"]["rate_per_s"], probe["rate_per_s"]);
        assert_eq!(result["plan"]["manners"]["on_throttle"], "count");
        assert_eq!(
            result["plan"]["seed"].as_u64(),
            Some(number as u64 + 1),
            "each draws anew"
        );
        assert!(
            probe["rate_per_s"].as_f64().unwrap() < 200.0 * 2.0 * 1.2,
            "never more than twice what passed"
        );
    }
    assert!(
        probes
            .iter()
            .any(|probe| probe["throttled_share"].as_f64().unwrap() > 0.1),
        "it was pushed above its limit"
    );
    for file in ["summary.md", "plots/capacity.svg"] {
        assert!(done.out().join(file).exists(), "{file}");
    }
}

#[test]
fn what_is_shown_of_a_probe_is_what_the_result_says_of_it() {
    // What a burst of a second lets pass is known to fail only once higher rates were refused.
    let done = capacity(
        &["--from", "100", "--max-rate", "800", "--precision", "20%"],
        &["--target-limit", "200/s:burst=200"],
    );
    let saved = done.capacity();
    let shown = |number: u64| {
        let name = format!("probe {number}");
        let mut lines = done.stderr.lines().filter_map(|line| {
            let line = line.trim_start().strip_prefix(&name)?;
            Some(line).filter(|line| !line.starts_with(char::is_numeric))
        });
        lines
            .rfind(|line| !line.ends_with(" s"))
            .unwrap_or_default()
            .to_owned()
    };
    let probes = saved["probes"].as_array().unwrap();
    for probe in probes {
        let word = match probe["seen"].as_str().unwrap() {
            "pass" => " passes",
            "fail" => " fails",
            "collapse" => " fails badly",
            _ => " is void",
        };
        let line = shown(probe["number"].as_u64().unwrap());
        assert!(
            line.contains(word),
            "{line}, where it is{word}: {}",
            done.stderr
        );
    }
}

#[test]
fn the_least_rate_that_fails_has_an_exit_code_of_its_own() {
    let done = capacity(
        &["--from", "100", "--threshold", "throttled_rate < 1%"],
        &["--target-limit", "20/s"],
    )
    .code(&[3]);
    let saved = done.capacity();
    assert_eq!(
        (&saved["outcome"], &saved["capacity_per_s"]),
        (&"least_fails".into(), &Value::Null)
    );
    assert!(
        done.stdout.starts_with("Even 100/s fails"),
        "{}",
        done.stdout
    );
}

#[test]
fn a_probe_whose_shard_is_killed_is_made_again() {
    let search = started(
        &[
            &SHORT[..],
            &[
                "--from",
                "60",
                "--max-rate",
                "60",
                "--out",
                "out",
                "--",
                "-s",
                "1",
            ],
        ]
        .concat(),
    );
    wait_for("a probe", || {
        (ended(&search.work().join("out")) >= 1).then_some(())
    });
    let shard = wait_for("a shard of the next probe", || {
        let rounds = children(search.pid());
        let (shard, _) = rounds
            .iter()
            .flat_map(|(round, _)| children(*round))
            .find(|(_, name)| name == "crawlmark-s0")?;
        let fds = fs::read_dir(format!("/proc/{shard}/fd")).ok()?;
        let mut links = fds.filter_map(|fd| fs::read_link(fd.ok()?.path()).ok());
        links
            .any(|link| link.to_string_lossy().starts_with("socket:"))
            .then_some(shard)
    });
    signal(shard, Signal::SIGKILL);
    let done = search.end();
    let saved = done.capacity();
    assert!(
        done.stderr.contains("did not end, and is repeated: ") && done.stderr.contains("SIGKILL"),
        "{}",
        done.stderr
    );
    assert_eq!(saved["outcome"], "not_reached", "{}", done.stdout);
}

#[test]
fn a_search_on_a_full_disk_says_what_is_kept_and_where() {
    let Some(disk) = Disk::of(1 << 20) else {
        return;
    };
    let out = disk.out();
    let search = started(
        &[
            &SHORT[..],
            &["--json", "--out", out.to_str().unwrap(), "--", "-s", "1"],
        ]
        .concat(),
    );
    wait_for("a probe", || (ended(&out) >= 1).then_some(()));
    disk.fill();
    let done = search.end().code(&[1]);
    let saved: Value = serde_json::from_str(&done.stdout).unwrap();
    // The probe whose result did not fit was measured, and is the last one.
    let said = &done.stderr;
    let probes = saved["probes"].as_array().unwrap();
    let last = probes.last().unwrap();
    assert!(last["counted"]["attempts"].as_u64().unwrap() > 0, "{saved}");
    let is_saved = |probe: &Value| {
        partial(out.parent().unwrap())
            .unwrap()
            .join(probe["result"].as_str().unwrap())
            .exists()
    };
    assert!(is_saved(&probes[0]) && !is_saved(last), "{saved}");
    assert!(
        said.contains("failed to save a round of ")
            && said.contains("no further round began: write ")
            && said.contains("result.json: No space left"),
        "{said}"
    );
    assert!(
        said.contains("No space left on device") && !said.contains("failed to print"),
        "{said}"
    );
    assert!(
        said.contains("Kept in ") && said.contains("Free some space"),
        "{said}"
    );
}

/// RFC 3339 as the time since the epoch.
fn time(value: &Value) -> Duration {
    humantime::parse_rfc3339(value.as_str().unwrap())
        .unwrap()
        .duration_since(UNIX_EPOCH)
        .unwrap()
}

#[test]
fn a_target_that_asks_for_patience_gets_it_between_the_probes() {
    let target = Target::start("--limit 30/s:burst=1:retry=seconds");
    let url = format!("http://{}/items/{{id}}", target.address());
    let flags = ["--from", "60", "--out", "out", &url, "--", "-s", "1"];
    let saved = started(&[&SHORT[..], &flags].concat())
        .end()
        .code(&[3])
        .capacity();
    let probes = saved["probes"].as_array().unwrap();
    assert!(probes.len() >= 4, "{probes:?}");
    for pair in probes.windows(2) {
        let promised = Duration::from_secs_f64(pair[0]["longest_promise_s"].as_f64().unwrap());
        assert!(promised >= Duration::from_secs(1), "{}", pair[0]);
        let rested = time(&pair[1]["started_at"]).saturating_sub(time(&pair[0]["finished_at"]));
        assert!(
            rested + Duration::from_millis(2) >= promised,
            "{rested:?} of {promised:?}"
        );
    }
}

#[test]
fn a_search_whose_time_is_over_says_so() {
    let flags = [
        "--from", "60", "--budget", "1s", "--out", "out", "--", "-s", "1",
    ];
    let done = started(&[&SHORT[..], &flags].concat()).end().code(&[5]);
    let saved = done.capacity();
    assert_eq!(saved["outcome"], "undecided");
    let kinds = saved["caveats"].as_array().unwrap().iter();
    assert!(
        kinds
            .map(|caveat| &caveat["kind"])
            .any(|kind| kind == "out_of_time"),
        "{saved}"
    );
    assert_eq!(
        saved["probes"].as_array().unwrap().len(),
        1,
        "none begins when it is over"
    );
}

#[test]
fn a_signal_leaves_what_was_probed() {
    let search = started(&[&SHORT[..], &["--out", "out", "--", "-s", "1"]].concat());
    wait_for("a probe", || {
        (ended(&search.work().join("out")) >= 1).then_some(())
    });
    search.interrupt();
    let done = search.end().code(&[130]);
    let saved = done.capacity();
    assert_eq!(
        (&saved["interrupted"], &saved["outcome"]),
        (&true.into(), &"undecided".into())
    );
}

#[test]
fn bad_input_is_refused_before_anything_runs() {
    for (args, why) in [
        (&["--", "--rate", "5"][..], "--rate is set by the search"),
        (&["http://192.0.2.1/"], "--max-rate 100/s"),
        (&["--precision", "0%"], "is not a valid precision"),
        (&["--probe", "10ms"], "--probe must be 1s or longer"),
        (
            &["--", "--ids", "0..100"],
            "100 items are too few for a probe of 5 s at 100,000/s",
        ),
    ] {
        let done = started(args).end().code(&[2]);
        assert!(done.stderr.contains(why), "{args:?}: {}", done.stderr);
        assert_eq!(
            fs::read_dir(done.work()).unwrap().count(),
            0,
            "nothing was made"
        );
    }
}
