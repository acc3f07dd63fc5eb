//! Parts of a saved result: the seconds of a stall beside those without one, by text and by JSON
//! that fits its schema.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::command::{Done, assert_fits, call_line, json as read_json};
use crate::run::ended;
use crate::schema;

fn report(result: &Path, line: &str) -> Done {
    call_line(result, &format!("report {} {line}", result.display()))
}

/// A part as JSON, which fits its schema.
#[track_caller]
fn cut(result: &Path, line: &str) -> Value {
    let said = report(result, &format!("{line} --json"));
    assert_eq!((said.code, &*said.stderr), (Some(0), ""), "{line}");
    let cut = serde_json::from_str(&said.stdout).unwrap();
    assert_fits("cut", &cut);
    cut
}

fn count(cut: &Value, pointer: &str) -> u64 {
    cut.pointer(pointer).unwrap().as_u64().unwrap()
}

/// The names of a directory's files and the times of their last changes.
fn files(directory: &Path) -> Vec<String> {
    let files = fs::read_dir(directory).unwrap().flatten();
    let name = |file: fs::DirEntry| {
        let changed = file.metadata().unwrap().modified().unwrap();
        format!("{} {changed:?}", file.file_name().display())
    };
    let mut files: Vec<String> = files.map(name).collect();
    files.sort();
    files
}

#[test]
fn a_part_shows_what_the_whole_hides_and_the_parts_add_up() {
    // Six seconds at an even rate, of a target that answers nothing for 700 ms of every 2.2 s.
    let ended = ended(
        "-d 6s --rate 400 --arrivals constant --shards 2 -c 8 --target-stall 2200ms,700ms \
         --timeout 5s",
    );
    let (whole, result) = (ended.report(0), ended.out());
    let before = files(&result);
    let all = cut(&result, "--from 0s");
    assert_eq!(
        count(&all, "/counted/attempts"),
        whole.count("/totals/attempts")
    );
    assert_eq!(
        all["counted"]["items_per_s"],
        *whole.at("/totals/items_per_s")
    );
    let seconds = count(&all, "/part/run_s");
    let second = |second: u64| cut(&result, &format!("--from {second}s --to {}", second + 1));
    let parts: Vec<Value> = (0..seconds).map(second).collect();
    for pointer in [
        "/answers/ok/count",
        "/counted/items",
        "/latency/response/count",
    ] {
        let sum: u64 = parts.iter().map(|part| count(part, pointer)).sum();
        assert_eq!(sum, count(&all, pointer), "{pointer}");
    }
    // Some second began with a stall, or ran into one: what was due in it waited for most of 700
    // ms. Half of what was due in another did not. When the first stall comes is the target's
    // affair. In the last seconds only answers came.
    let figure = |part: &Value, key: &str| part["latency"]["response"][key].as_f64();
    let worst = parts
        .iter()
        .filter_map(|part| figure(part, "max_us"))
        .fold(0.0, f64::max);
    let calmest = parts.iter().filter_map(|part| figure(part, "p50_us"));
    let calmest = calmest.fold(f64::INFINITY, f64::min);
    assert!(
        worst > 500_000.0 && calmest < worst / 2.0,
        "{calmest} beside {worst}"
    );
    report(&result, "--from 2s --to 3s").code(&[0]);
    assert_eq!(
        files(&result),
        before,
        "a part without a place of its own is only printed"
    );

    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("part");
    let said = report(
        &result,
        &format!("--from 1s --to 4s --quiet --out {}", out.display()),
    );
    assert_eq!((said.code, &*said.stdout, &*said.stderr), (Some(0), "", ""));
    let saved = read_json(&out.join("cut.json"));
    assert_fits("cut", &saved);
    assert!(
        fs::read_to_string(out.join("summary.md"))
            .unwrap()
            .contains("# crawl, 1 s to 4 s")
    );
    for (line, code) in [
        ("--from 99s", 2),
        ("--steady", 5),
        ("--from 1s .", 2),
        ("--from 1s --out .", 2),
        ("--from 1s --export csv", 2),
    ] {
        let said = report(&result, line);
        assert_eq!((said.code, &*said.stdout), (Some(code), ""), "{line}");
    }
    assert!(!schema::of("cut").is_valid(&json!({"schema": "crawlmark.cut/2"})));
}
