//! The page of a run that was made by the program, and the command in it.

use std::path::Path;
use std::process::Command;

use crate::command::call;
use crate::report::Report;
use crate::run::{Run, ended};
use crate::target::Target;

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

#[test]
fn the_recorded_command_of_a_run_makes_the_same_plan() {
    let target = Target::start("");
    let url = target.url();
    for flags in [
        "-n 60",
        "--ids 5..=64 -s 2 -c 6 -R 5k --burst 4 --seed 7 --no-pin --name again -w 1ms \
         --pacing coarse --grace 2s",
        "-n 60 --retries 2 --retry-budget 50% --backoff 50ms,1s --max-pause 2s \
         --on-throttle count --adaptive --timeout 5s",
        "-d 200ms -q 100 --arrivals poisson -t 1 --connect-timeout 2s --shard-deadline 20s \
         --per-host-connections 8",
        "-n 60 --expect status:200-204 --expect 'regex:\"id\":\\d+' -m get --max-error-rate 1% \
         --stop-if errors<5k --tag a=b",
        "-n 60 -c 4 --target-latency fixed:1ms --target-limit 9000/s --target-fault error:0.1",
    ] {
        let is_bundled = flags.contains("--target");
        let first = ended(&format!("{} {flags}", if is_bundled { "" } else { &url }));
        let code = first.code().unwrap();
        let first = first.report(code);
        let recorded = first.at("/command/arguments").as_array().unwrap();
        let recorded = recorded[2..].iter().map(|word| word.as_str().unwrap());
        let second = Run::start(recorded).end().report(code);
        // The port of a bundled target is free by chance, and a part of the plan.
        let parts = ["/plan", "/command", "/name", "/tags"];
        for same in if is_bundled {
            &["/plan/workload", "/plan/seed"][..]
        } else {
            &parts
        } {
            assert_eq!(second.at(same), first.at(same), "{flags}");
        }
        let thresholds = |report: &Report| {
            let gates = report.at("/gates").as_array().unwrap().iter();
            gates
                .map(|gate| gate["expression"].clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(thresholds(&second), thresholds(&first));
    }
}
