//! The page of a run that was made by the program, and the command in it.
#![expect(clippy::unwrap_used, reason = "a test without a page is over")]

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::bad_input::call;
use crate::report::Report;
use crate::run::{Ended, Run};
use crate::target::Target;

/// The page that a run saved.
fn page(ended: &Ended) -> String {
    fs::read_to_string(ended.result().join("report.html")).unwrap()
}

/// What is to be typed after `crawlmark run` to do it again.
fn again(report: &Report) -> Vec<String> {
    let arguments: Vec<String> =
        serde_json::from_value(report.at("/command/arguments").clone()).unwrap();
    assert_eq!(arguments[..2], ["crawlmark", "run"]);
    arguments[2..].to_vec()
}

fn withheld(report: &Report) -> Vec<String> {
    serde_json::from_value(report.at("/command/withheld").clone()).unwrap()
}

#[test]
fn a_run_saves_a_page_that_loads_nothing() {
    let target = Target::start("");
    let args = [
        &*target.url(),
        "-n",
        "200",
        "-s",
        "2",
        "-c",
        "4",
        "--tag",
        "note=<img src=http://h/x>",
    ];
    let ended = Run::start(args).end();
    let report = ended.report(0);
    let page = page(&ended);
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains(report.text("/plan/target")));
    assert!(page.contains("note: &lt;img src=http://h/x&gt;"));
    for loads in [
        "src=\"", "href=\"h", "url(", "@import", "<link", "<img", "<iframe",
    ] {
        assert!(!page.contains(loads), "{loads}");
    }
    assert!(page.contains("default-src &#39;none&#39;"));
}

#[test]
fn the_command_of_a_run_asks_for_the_same_plan() {
    let target = Target::start("");
    let url = target.url();
    for flags in [
        "-n 60",
        "--ids 5..=64 -s 2 -c 6 -R 5k --burst 4 --seed 7 --no-pin --name again -w 1ms --pacing coarse --grace 2s",
        "-n 60 --retries 2 --retry-budget 50% --backoff 50ms,1s --max-pause 2s --on-throttle count --adaptive --timeout 5s",
        "-d 200ms -q 100 --arrivals poisson -t 1 --connect-timeout 2s --shard-deadline 20s --per-host-connections 8",
        "-n 60 --expect status:200-204 --expect regex:\"id\":\\d+ -m get --max-error-rate 1% --stop-if errors<5k --tag a=b",
    ] {
        let first = Run::start([&*url].into_iter().chain(flags.split(' '))).end();
        let code = first.code().unwrap();
        let first = first.report(code);
        let second = Run::start(again(&first)).end().report(code);
        assert_eq!(
            second.text("/plan/config_hash"),
            first.text("/plan/config_hash"),
            "{flags}: {:?}",
            again(&first)
        );
        for same in ["/plan", "/command", "/name", "/tags"] {
            assert_eq!(second.at(same), first.at(same), "{flags}");
        }
        let expressions = |report: &Report| {
            let gates = report.at("/gates").as_array().unwrap().iter();
            gates
                .map(|gate| gate["expression"].clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(expressions(&second), expressions(&first));
    }
}

#[test]
fn the_command_of_a_run_on_the_bundled_target_starts_the_same_one() {
    let flags = "-n 60 -c 4 --target-latency fixed:1ms --target-limit 9000/s --target-fault error:0.1 --retries 0";
    let first = Run::start(flags.split(' ')).end().report(0);
    let second = Run::start(again(&first)).end().report(0);
    assert_eq!(second.at("/plan/workload"), first.at("/plan/workload"));
    // Its port is free by chance, and a part of the plan.
    let but_for_the_port = |report: &Report| {
        let mut plan = report.at("/plan").as_object().unwrap().clone();
        plan.retain(|key, _| key != "target" && key != "config_hash");
        Value::Object(plan)
    };
    assert_eq!(but_for_the_port(&second), but_for_the_port(&first));
}

#[test]
fn secrets_are_neither_in_the_page_nor_in_the_command() {
    let target = Target::start("");
    let url = format!("{}?api_key=sesame&page=2", target.url());
    let args = [
        &*url,
        "-n",
        "20",
        "--expect",
        "json",
        "--export",
        "openmetrics",
        "-m",
        "GET",
        "-H",
        "authorization: Bearer sesame",
        "-H",
        "x-key:sesame",
    ];
    let ended = Run::start(args.into_iter().chain(["--body", "sesame"])).end();
    let report = ended.report(ended.code().unwrap());
    let page = page(&ended);
    assert!(!page.contains("sesame") && !report.json().to_string().contains("sesame"));
    let of_the_url = "secrets in the query of the URL, which stand there as `...`";
    assert_eq!(
        withheld(&report),
        [
            of_the_url,
            "--header 'authorization: ...'",
            "--header 'x-key: ...'",
            "--body ..."
        ]
    );
    assert!(
        report.text("/plan/target").ends_with("?api_key=...&page=2"),
        "{}",
        report.text("/plan/target")
    );
    for entry in std::fs::read_dir(ended.result())
        .unwrap()
        .flatten()
        .filter(|entry| entry.path().is_file())
    {
        let bytes = std::fs::read(entry.path()).unwrap();
        assert!(
            !bytes.windows(6).any(|six| six == b"sesame"),
            "{}",
            entry.path().display()
        );
    }
    assert!(
        ["--header &#39;authorization: ...&#39;", "--body ..."]
            .iter()
            .all(|flag| page.contains(flag))
    );
}

#[test]
fn the_page_of_a_run_is_interactive_in_chromium() {
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !has("chromium") || !has("python3") {
        eprintln!("skipped: no chromium or no python3 here");
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (example, out) = (root.join("results/example"), tempfile::tempdir().unwrap());
    call(
        root,
        &[
            "report",
            example.to_str().unwrap(),
            "--out",
            out.path().to_str().unwrap(),
            "--quiet",
        ],
    );
    let page = out.path().join("report.html");
    let arguments = [
        root.join("tests/page/drive.py"),
        page,
        example.join("result.json"),
    ];
    let driven = Command::new("python3").args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        driven.status.success(),
        "{}{}",
        text(&driven.stdout),
        text(&driven.stderr)
    );
}
