//! All parts of a crawl, watched from the directory that they share.
#![expect(clippy::unwrap_used, reason = "a test without its plan is over")]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::command::Started;
use crate::process::wait_for;
use crate::run::program;
use crate::target::Target;

/// The directory of a crawl of `nodes` parts of ten items, which nobody has begun.
fn crawl(url: &str, nodes: u32) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    let (ids, nodes) = (format!("0..{}", nodes * 10), nodes.to_string());
    let plan = home.path().join("plan.json");
    let made = Command::new(program())
        .args([
            "plan", url, "--ids", &ids, "--rate", "200", "--nodes", &nodes, "--slots", "2", "--out",
        ])
        .arg(plan)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    home
}

/// Writes the status of an attempt as an attempt does: whole, or not at all.
fn write(home: &TempDir, part: u32, status: &Value) {
    let place: PathBuf = home.path().join(format!("part-{part:05}/host-1-1"));
    fs::create_dir_all(&place).unwrap();
    fs::write(place.join("new"), status.to_string()).unwrap();
    fs::rename(place.join("new"), place.join("status.json")).unwrap();
}

fn status(beat: u64) -> Value {
    json!({
        "state": "running", "at_us": beat * 1_000_000, "beat": beat, "slot": 1, "planned": 10, "items": 4, "requests": 5, "failed": 1,
        "requests_per_s": 37, "p50_us": 1_500.0, "p99_us": 42_000.0
    })
}

/// An attempt that has a slot, and waits for the common start.
fn starting(beat: u64) -> Value {
    let rest = json!({"planned": 10, "items": 0, "requests": 0, "failed": 0, "requests_per_s": 0, "p50_us": null, "p99_us": null});
    let mut status =
        json!({"state": "waiting", "at_us": beat * 1_000_000, "beat": beat, "slot": 0});
    status
        .as_object_mut()
        .unwrap()
        .extend(rest.as_object().unwrap().clone());
    status
}

#[test]
fn a_snapshot_tells_the_living_from_the_dead() {
    let home = crawl("http://127.0.0.1:9/items/{id}", 4);
    let directory = home.path().to_str().unwrap();
    // Part 2 never writes again.
    write(&home, 2, &status(7));
    for json in [false, true] {
        let mut args = vec!["watch", directory, "--once", "--lost-after", "2s"];
        args.extend(json.then_some("--json"));
        let mut watch = Started::new(&args);
        let mut beat = 0;
        wait_for("the snapshot", || {
            beat += 1;
            write(&home, 1, &status(beat));
            write(&home, 3, &starting(beat));
            watch.child.try_wait().unwrap()
        });
        let said = watch.end().code(&[0]).stdout;
        if json {
            let all: Value = serde_json::from_str(&said).unwrap();
            let parts = json!({
                "planned": 4, "done": 0, "running": 1, "starting": 1, "waiting": 0, "lost": 1, "unfinished": 0, "not_begun": 1
            });
            assert_eq!(all["parts"], parts, "{all}");
            assert!(
                said.starts_with("{\n  \"schema\": \"crawlmark.watch/1\",\n"),
                "{said}"
            );
            let schema: Value =
                serde_json::from_str(include_str!("../../results/schema/watch-1.schema.json"))
                    .unwrap();
            jsonschema::draft202012::validate(&schema, &all).unwrap();
            let keys = |object: &Value| {
                object
                    .as_object()
                    .unwrap()
                    .keys()
                    .cloned()
                    .collect::<BTreeSet<_>>()
            };
            let described = |name: &str| keys(&schema["$defs"][name]["properties"]);
            let row = &all["rows"][0];
            assert_eq!(
                keys(&all),
                keys(&schema["properties"]),
                "each field is described"
            );
            assert_eq!(
                [keys(row), keys(&row["status"])],
                ["row", "status"].map(described)
            );
            assert_eq!(keys(&all["parts"]), described("parts"));
            assert_eq!(
                (&all["items"], &all["requests_per_s"], &all["budget_per_s"]),
                (&json!(4), &json!(37), &json!(200.0))
            );
            assert_eq!(all["highest_p99"], json!({"part": 1, "us": 42_000.0}));
            assert_eq!(all["rows"][0]["part"], json!(2), "what is lost comes first");
        } else {
            let first = said.lines().next().unwrap();
            assert!(
                first.ends_with("0 of 4 done  1 lost  1 running  1 starting  1 not begun"),
                "{said}"
            );
            for line in [
                "37.0/s of 200/s (18.5 %)",
                "highest p99 42.0 ms (part 1)",
                "2 of 2 in use",
                "\n2        lost ",
            ] {
                assert!(said.contains(line), "{line}: {said}");
            }
        }
    }
}

#[test]
fn a_watch_ends_with_the_last_part() {
    let target = Target::start("--processes 1");
    let home = crawl(&target.url(), 2);
    let (plan, directory) = (
        home.path().join("plan.json").display().to_string(),
        home.path().display().to_string(),
    );
    // Not a directory: as a file server that fails, for a while.
    let unreadable = home.path().join("part-00001");
    fs::write(&unreadable, "").unwrap();
    let failed = Started::new(&["watch", &directory, "--once", "--lost-after", "1s"])
        .end()
        .code(&[1]);
    assert!(
        failed.stderr.contains("part-00001: Not a directory"),
        "{}",
        failed.stderr
    );
    let watch = Started::new(&["watch", &directory]);
    wait_for("what it cannot read", || {
        watch
            .stderr()
            .contains("unread: 1 part for 0s: Not a directory")
            .then_some(())
    });
    fs::remove_file(unreadable).unwrap();
    for node in ["0/2", "1/2"] {
        let into = ["--into", &directory, "--quiet"];
        Started::new(&[&["run", "--plan", &plan, "--node", node], &into[..]].concat())
            .end()
            .code(&[0]);
    }
    let said = watch.end().code(&[0]).stderr;
    assert!(said.contains("2 of 2 done  20 of 20 items"), "{said}");
    assert!(
        said.ends_with(&format!("Merge them with: crawlmark merge {directory}\n")),
        "{said}"
    );

    // Beside a result, an attempt that was killed needs no time to tell.
    write(&home, 0, &status(7));
    let snapshot = ["watch", &directory, "--once", "--lost-after", "1h"];
    let done = Started::new(&snapshot).end().code(&[0]);
    assert!(
        done.stdout.contains("2 of 2 done") && done.stderr.is_empty(),
        "{}",
        done.stderr
    );
    let result = home.path().join("part-00001/RESULT");
    fs::remove_file(&result).unwrap();
    fs::write(result, "{}").unwrap();
    let failed = Started::new(&snapshot).end().code(&[1]).stderr;
    assert!(
        failed.contains("part-00001/RESULT")
            && failed.contains("Remove the file and run the part again"),
        "{failed}"
    );
}

#[test]
fn a_directory_without_a_plan_is_named() {
    let home = tempfile::tempdir().unwrap();
    for command in ["watch", "merge"] {
        let refused = Started::new(&[command, home.path().to_str().unwrap()])
            .end()
            .code(&[2])
            .stderr;
        assert!(
            refused.contains("/plan.json: No such file")
                && refused.contains("Name the directory that"),
            "{refused}"
        );
    }
}
