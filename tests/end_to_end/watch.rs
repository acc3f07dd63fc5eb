//! All parts of a crawl, watched from the directory that they share.

use std::fs;
use std::path::PathBuf;

use serde_json::json;
use tempfile::TempDir;

use crate::command::{Started, assert_fits, call_line, run, start};
use crate::process::wait_for;
use crate::report::holds;
use crate::target::Target;

/// The directory of a crawl of `nodes` parts of ten items, which nobody has begun.
fn crawl(url: &str, nodes: u32) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    let flags = format!(
        "--ids 0..{} --rate 200 --nodes {nodes} --slots 2",
        nodes * 10
    );
    let made = call_line(home.path(), &format!("plan {url} {flags} --out plan.json"));
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    home
}

/// Write the status of an attempt as an attempt does: whole, or not at all. It is running, or has a
/// slot and waits for the common start.
fn write(home: &TempDir, part: u32, beat: u64, is_running: bool) {
    let mut status = json!({
        "state": "running", "at_us": beat * 1_000_000, "beat": beat, "slot": 1, "planned": 10,
        "items": 4, "requests": 5, "failed": 1, "requests_per_s": 37, "p50_us": 1_500.0,
        "p99_us": 42_000.0,
    });
    if !is_running {
        for key in ["items", "requests", "failed", "requests_per_s", "slot"] {
            status[key] = json!(0);
        }
        for (key, value) in [
            ("state", json!("waiting")),
            ("p50_us", json!(null)),
            ("p99_us", json!(null)),
        ] {
            status[key] = value;
        }
    }
    let place: PathBuf = home.path().join(format!("part-{part:05}/host-1-1"));
    fs::create_dir_all(&place).unwrap();
    fs::write(place.join("new"), status.to_string()).unwrap();
    fs::rename(place.join("new"), place.join("status.json")).unwrap();
}

#[test]
fn a_snapshot_tells_the_living_from_the_dead() {
    let home = crawl("http://127.0.0.1:9/items/{id}", 4);
    // Part 2 never writes again.
    write(&home, 2, 7, true);
    let snapshot = |flags: &str| {
        let line = format!(
            "watch {} --once --lost-after 2s {flags}",
            home.path().display()
        );
        let mut watch: Started = start(&line);
        let mut beat = 0;
        wait_for("the snapshot", || {
            beat += 1;
            write(&home, 1, beat, true);
            write(&home, 3, beat, false);
            watch.child.try_wait().unwrap()
        });
        watch.end().code(&[0])
    };
    snapshot("");
    let all = snapshot("--json").printed();
    holds(
        &all,
        &json!({
            "/schema": "crawlmark.watch/1", "/items": 4, "/requests_per_s": 37,
            "/budget_per_s": 200.0, "/highest_p99": {"part": 1, "us": 42_000.0},
            // What is lost comes first.
            "/rows/0/part": 2,
            "/parts": {
                "planned": 4, "done": 0, "running": 1, "starting": 1, "waiting": 0, "lost": 1,
                "unfinished": 0, "not_begun": 1,
            },
        }),
    );
    assert_fits("watch", &all);
}

#[test]
fn a_watch_ends_with_the_last_part() {
    let target = Target::start("--processes 1");
    let home = crawl(&target.url(), 2);
    let directory = home.path().display();
    // Not a directory: as a file server that fails, for a while.
    let unreadable = home.path().join("part-00001");
    fs::write(&unreadable, "").unwrap();
    let failed = run(&format!("watch {directory} --once --lost-after 1s")).code(&[1]);
    assert!(
        failed.stderr.contains("part-00001: Not a directory"),
        "{}",
        failed.stderr
    );
    let watch = start(&format!("watch {directory}"));
    wait_for("what it cannot read", || {
        watch.stderr().contains("unread: 1 part").then_some(())
    });
    fs::remove_file(unreadable).unwrap();
    for node in ["0/2", "1/2"] {
        let plan = format!("--plan {directory}/plan.json --node {node} --into {directory}");
        run(&format!("run {plan} --quiet")).code(&[0]);
    }
    let said = watch.end().code(&[0]).stderr;
    assert!(said.contains("2 of 2 done  20 of 20 items"), "{said}");
    assert!(
        said.ends_with(&format!("Merge them with: crawlmark merge {directory}\n")),
        "{said}"
    );
    // Beside a result, an attempt that was killed needs no time to tell.
    write(&home, 0, 7, true);
    let snapshot = || run(&format!("watch {directory} --once --lost-after 1h"));
    let done = snapshot().code(&[0]);
    assert!(
        done.stdout.contains("2 of 2 done") && done.stderr.is_empty(),
        "{}",
        done.stderr
    );
    let result = home.path().join("part-00001/RESULT");
    fs::remove_file(&result).unwrap();
    fs::write(result, "{}").unwrap();
    let failed = snapshot().code(&[1]).stderr;
    assert!(
        failed.contains("part-00001/RESULT") && failed.contains("Remove the file"),
        "{failed}"
    );
}
