//! `crawlmark capacity` from outside: a limit is found, what has no answer says so by its exit
//! code, a search that was killed goes on from its probes, and bad input is refused before anything
//! runs.
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
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::{Value, json};

use crate::command::{Done, Started};
use crate::lost::{Disk, partial};
use crate::process::{children, signal, wait_for, working_in};
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

/// The lines of the journal of the search that goes on.
fn journal(search: &Started) -> Vec<String> {
    let partial = fs::read_dir(search.work())
        .unwrap()
        .flatten()
        .find(|entry| {
            let name = entry.file_name();
            name.to_string_lossy().starts_with(".out.")
        });
    let text = partial
        .map(|entry| fs::read_to_string(entry.path().join("probes.jsonl")).unwrap_or_default());
    text.unwrap_or_default()
        .lines()
        .map(str::to_owned)
        .collect()
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
    for file in ["summary.md", "plots/capacity.svg", "probes.jsonl"] {
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
        let name = format!("probe {number} ");
        let mut lines = done
            .stderr
            .lines()
            .filter_map(|line| line.trim_start().strip_prefix(&name));
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
    let corrected = probes.iter().any(|probe| {
        probe["reasons"]
            .to_string()
            .contains("passed perhaps only by a burst")
    });
    assert!(
        !corrected
            || done
                .stderr
                .contains("fails after all: passed perhaps only by a burst"),
        "{}",
        done.stderr
    );
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
fn a_search_that_was_killed_goes_on_from_its_probes() {
    let args = [
        &SHORT[..],
        &[
            "--from",
            "60",
            "--max-rate",
            "240",
            "--out",
            "out",
            "--threshold",
            "errors < 1000000",
        ],
    ]
    .concat();
    let run = ["--", "-s", "1"];
    let mut search = started(&[&args[..], &run].concat());
    wait_for("two probes", || (journal(&search).len() >= 3).then_some(()));
    search.child.kill().unwrap();
    search.child.wait().unwrap();
    let work = search.work();
    wait_for("the end of what it ran", || {
        working_in(&work).is_empty().then_some(())
    });
    let kept = journal(&search);
    let again = [
        &["capacity"],
        &args[..],
        &["--resume", "out", "--quiet"],
        &run,
    ]
    .concat();
    let done = search.again(&again).end();
    let saved = done.capacity();
    assert_ne!(saved["outcome"], "found");
    let probes = saved["probes"].as_array().unwrap();
    for (line, probe) in kept[1..].iter().zip(probes) {
        assert_eq!(
            serde_json::from_str::<Value>(line).unwrap(),
            *probe,
            "as it was"
        );
        assert!(done.out().join(probe["result"].as_str().unwrap()).is_dir());
    }
    assert!(probes.len() > kept.len(), "and more");
    // All of what it went on from is in the result now: nothing is left to be named by every later
    // run.
    let left = fs::read_dir(done.work())
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name());
    assert!(
        left.map(|name| name.to_string_lossy().into_owned())
            .all(|name| !name.ends_with(".partial"))
    );
    assert_eq!(done.code, Some(5), "{}{}", done.stdout, done.stderr);
}

#[test]
fn a_probe_whose_shard_is_killed_has_a_row_and_is_made_again() {
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
    wait_for("a probe", || (journal(&search).len() >= 2).then_some(()));
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
    let probes = saved["probes"].as_array().unwrap();
    let lost: Vec<&Value> = probes
        .iter()
        .filter(|probe| probe["seen"] == "lost")
        .collect();
    assert_eq!(lost.len(), 1, "{}{}", done.stdout, done.stderr);
    assert!(
        lost[0]["reasons"].to_string().contains("SIGKILL"),
        "{}",
        lost[0]
    );
    let number = lost[0]["number"].as_u64().unwrap();
    assert!(
        done.stdout.contains(&format!("probe {number} at 60.0/s: ")),
        "{}",
        done.stdout
    );
    let again = probes
        .iter()
        .find(|probe| probe["number"].as_u64() == Some(number + 1))
        .unwrap();
    assert_eq!(
        (&again["per_min"], &again["kind"]),
        (&lost[0]["per_min"], &lost[0]["kind"])
    );
    assert_eq!(saved["outcome"], "not_reached", "{}", done.stdout);
}

/// A search of two probes of 60/s, and the flags that resume it from `from`.
fn short_search() -> (Done, impl Fn(&Path) -> Done) {
    const SEARCH: [&str; 4] = ["--from", "60", "--max-rate", "60"];
    const RUN: [&str; 3] = ["--", "-s", "1"];
    let done = started(&[&SHORT[..], &SEARCH, &["--out", "out"], &RUN].concat()).end();
    let resume = |from: &Path| {
        started(
            &[
                &SHORT[..],
                &SEARCH,
                &["--resume", from.to_str().unwrap()],
                &RUN,
            ]
            .concat(),
        )
        .end()
    };
    (done, resume)
}

#[test]
fn a_probe_that_does_not_say_what_its_result_says_is_refused() {
    let (done, resume) = short_search();
    let journal = done.out().join("probes.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let probe: Value = serde_json::from_str(&lines[1]).unwrap();
    for (field, value) in [
        ("achieved_per_s", json!(7.0)),
        ("service_p50_us", json!(1.0)),
        ("connections", json!(7)),
        ("result", json!("../out")),
    ] {
        let mut edited = probe.clone();
        edited[field] = value;
        lines[1] = edited.to_string();
        fs::write(&journal, lines.join("\n") + "\n").unwrap();
        let done = resume(&done.out()).code(&[2]);
        assert!(
            done.stderr.contains(&format!("`{field}` is ")),
            "{}",
            done.stderr
        );
    }
    fs::write(&journal, text).unwrap();
    let again = resume(&done.out());
    assert_eq!(again.code, done.code, "{}", again.stderr);
}

#[test]
fn a_probe_whose_result_is_gone_or_of_another_probe_is_refused_in_one_sentence() {
    let (done, resume) = short_search();
    let out = done.out();
    let probes = done.capacity()["probes"].as_array().unwrap().clone();
    let of = |probe: usize| {
        out.join(probes[probe]["result"].as_str().unwrap())
            .join("result.json")
    };
    let (first, second) = (of(0), of(1));
    let original = fs::read(&first).unwrap();
    let refused = |says: &str| {
        let done = resume(&out).code(&[2]);
        let file = first.display().to_string();
        assert!(
            done.stderr.contains("probes.jsonl: probe 1: ") && done.stderr.contains(&file),
            "{}",
            done.stderr
        );
        assert!(
            done.stderr.contains(says) && done.stderr.lines().count() == 1,
            "{}",
            done.stderr
        );
    };
    fs::remove_file(&first).unwrap();
    refused("is gone. Restore it, or remove the line of this probe");
    mkfifo(&first, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    refused("it is a FIFO");
    fs::remove_file(&first).unwrap();
    fs::copy(&second, &first).unwrap();
    refused(
        "is of another probe: of its plan, `workload.expect` is \"items:2\", but \"items:1\" in the plan",
    );
    // A result of a tenth of the rate that agrees with itself, and the figures of a journal that
    // was edited to agree with it.
    let other = started(
        &[
            &SHORT[..],
            &[
                "--from",
                "6",
                "--max-rate",
                "6",
                "--out",
                "out",
                "--",
                "-s",
                "1",
            ],
        ]
        .concat(),
    )
    .end();
    let slow = other.capacity()["probes"][0].clone();
    fs::copy(
        other
            .out()
            .join(slow["result"].as_str().unwrap())
            .join("result.json"),
        &first,
    )
    .unwrap();
    let journal = out.join("probes.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut edited = slow;
    for field in [
        "per_min",
        "rate_per_s",
        "kind",
        "result",
        "connections",
        "accepted_per_s",
    ] {
        edited[field] = probes[0][field].clone();
    }
    lines[1] = edited.to_string();
    fs::write(&journal, lines.join("\n") + "\n").unwrap();
    refused("is of another probe: of its plan, `rate");
    fs::write(&journal, text).unwrap();
    fs::write(&first, original).unwrap();
    assert_eq!(resume(&out).code, done.code);
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
    let lines = || {
        let journal = partial(out.parent()?)?.join("probes.jsonl");
        Some(fs::read_to_string(journal).ok()?.lines().count())
    };
    wait_for("a probe", || lines().filter(|lines| *lines >= 2));
    disk.fill();
    let done = search.end().code(&[1]);
    let saved: Value = serde_json::from_str(&done.stdout).unwrap();
    // The probe whose result did not fit was measured, and is the last one.
    let said = &done.stderr;
    let probes = saved["probes"].as_array().unwrap();
    let last = probes.last().unwrap();
    assert!(
        probes.iter().all(|probe| probe["seen"] != "lost"),
        "{saved}"
    );
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
        said.contains("Kept in ") && said.contains("probes.jsonl"),
        "{said}"
    );
    assert!(said.contains("Free some space"), "{said}");
    // Nothing can be saved from the start.
    let other = out.with_file_name("other");
    let done = started(&[
        "--from",
        "60",
        "--out",
        other.to_str().unwrap(),
        "--",
        "-s",
        "1",
    ])
    .end()
    .code(&[1]);
    let said = &done.stderr;
    assert!(
        said.contains("probes.jsonl: No space left on device") && said.contains("Free some space"),
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
fn a_search_whose_time_is_over_says_so_and_can_go_on() {
    let flags = [
        "--from", "60", "--budget", "1s", "--out", "out", "--", "-s", "1",
    ];
    let done = started(&[&SHORT[..], &flags].concat()).end().code(&[5]);
    let saved = done.capacity();
    assert_eq!(
        (&saved["outcome"], &saved["out_of_time"]),
        (&"undecided".into(), &true.into())
    );
    assert_eq!(
        saved["probes"].as_array().unwrap().len(),
        1,
        "none begins when it is over"
    );
    let search = "capacity --probe 1s --warmup 300ms --rest 100ms --from 60 --budget 1s --resume out -- -s 1\n";
    assert!(
        done.stderr
            .contains(&format!("continue with: crawlmark {search}")),
        "{}",
        done.stderr
    );
}

#[test]
fn a_signal_leaves_what_was_probed() {
    let search = started(&[&SHORT[..], &["--out", "out", "--", "-s", "1"]].concat());
    wait_for("a probe", || (journal(&search).len() >= 2).then_some(()));
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
        (
            &["--resume", "nowhere"],
            "--resume nowhere: No such file or directory",
        ),
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
