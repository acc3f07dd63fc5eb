//! All parts of a crawl, watched from the directory that they share.

use std::collections::BTreeSet;
use std::fs;

use serde_json::json;
use tempfile::TempDir;

use crate::command::{assert_fits, call_line, run, start};
use crate::live_page::{Page, Reader};
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

/// Run all parts of a crawl of two.
fn run_both(directory: &str) {
    for node in ["0/2", "1/2"] {
        let plan = format!("--plan {directory}/plan.json --node {node} --into {directory}");
        run(&format!("run {plan} --quiet")).code(&[0]);
    }
}

#[test]
fn a_lost_part_is_the_headline_of_the_page_and_the_sums_are_drawn() {
    let target = Target::start("--processes 1");
    let home = crawl(&target.url(), 2);
    let directory = home.path().display().to_string();
    let place = home.path().join("part-00001/host-1-1");
    fs::create_dir_all(&place).unwrap();
    let status = json!({
        "state": "running", "at_us": 7, "beat": 7, "slot": 1, "planned": 10, "items": 4,
        "requests": 5, "failed": 1, "requests_per_s": 37, "p50_us": 1_500.0, "p99_us": 42_000.0,
    });
    fs::write(place.join("status.json"), status.to_string()).unwrap();
    let watch = start(&format!("watch {directory} --page --lost-after 2s"));
    let page = Page::told(&watch, "Live: http://");
    let mut reader = Reader::of(&page, "");
    let headline = |reader: &Reader| {
        let (_, from) = reader.hero.split_once("<h1>").unwrap_or_default();
        let (headline, _) = from.split_once("</h1>").unwrap_or_default();
        headline.to_owned()
    };
    // It is told each second.
    for _ in 0..60 {
        if headline(&reader) == "1 part lost" {
            break;
        }
        reader.next().unwrap();
    }
    assert_eq!(headline(&reader), "1 part lost");
    assert!(reader.hero.contains("id=\"plot-sums\""), "{}", reader.hero);
    run_both(&directory);
    while reader.next().is_some() {}
    assert_eq!(headline(&reader), "2 of 2 done");
    watch.end().code(&[0]);
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
    let watch = start(&format!("watch {directory} --page"));
    let page = Page::told(&watch, "Live: http://");
    let mut reader = Reader::of(&page, "");
    wait_for("what it cannot read", || {
        watch.stderr().contains("1 unread: ").then_some(())
    });
    fs::remove_file(unreadable).unwrap();
    run_both(&directory.to_string());
    let mut seen = BTreeSet::new();
    while reader.next().is_some() {
        let mut known = ["0 of 2 done", "2 of 2 done", "20 of 20 items"].into_iter();
        seen.extend(known.by_ref().filter(|text| reader.hero.contains(text)));
    }
    assert_eq!(seen.len(), 3, "{seen:?}: {}", reader.hero);
    let said = watch.end().code(&[0]).stderr;
    assert!(
        said.contains("2 of 2 done  20 of 20 items, 0 failed"),
        "{said}"
    );
    assert!(
        said.ends_with(&format!("Merge them with: crawlmark merge {directory}\n")),
        "{said}"
    );
    // Beside a result, an attempt that was killed needs no time to tell.
    let place = home.path().join("part-00000/host-1-1");
    fs::create_dir(&place).unwrap();
    let status = json!({
        "state": "running", "at_us": 7, "beat": 7, "slot": 1, "planned": 10, "items": 4,
        "requests": 5, "failed": 1, "requests_per_s": 37, "p50_us": 1_500.0, "p99_us": 42_000.0,
    });
    fs::write(place.join("status.json"), status.to_string()).unwrap();
    let snapshot = || run(&format!("watch {directory} --once --lost-after 1h --json"));
    let all = snapshot().code(&[0]).printed();
    holds(
        &all,
        &json!({"/items": 20, "/parts/done": 2, "/parts/lost": 0}),
    );
    assert_fits("watch", &all);
    let result = home.path().join("part-00001/RESULT");
    fs::remove_file(&result).unwrap();
    fs::write(result, "{}").unwrap();
    let failed = snapshot().code(&[1]).stderr;
    assert!(
        failed.contains("part-00001/RESULT") && failed.contains("Remove the file"),
        "{failed}"
    );
}
