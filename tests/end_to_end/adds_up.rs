//! The saved histograms are the run's: every second's line in `latency.hlog`, merged, is the
//! distribution in `result.json`, cell by cell. The other sums are checked for every report that
//! any test reads.

use crate::command::call_line;
use crate::report::Report;
use crate::target::Target;

#[test]
fn a_run_without_flags_announces_itself_and_names_its_result() {
    let target = Target::start("--processes 1");
    let place = tempfile::tempdir().unwrap();
    let line = format!("run {} -n 1200 --shards 2 -c 3", target.url());
    let said = call_line(place.path(), &line);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    // The totals come before anything is sent, and the summary is all that a pipe gets.
    for text in [&target.url(), "1,200 (0 to 1,199)", "connections 3\n"] {
        assert!(said.stderr.contains(text), "{text}: {}", said.stderr);
    }
    assert!(said.stdout.contains("1,200 ok"), "{}", said.stdout);
    let mut lines = said.stdout.lines();
    let page = lines
        .find_map(|line| line.strip_prefix("Report: "))
        .unwrap();
    let page = place.path().join(page);
    assert!(page.ends_with("report.html") && page.is_file());
    let saved = page.parent().unwrap();
    Report::read(&saved.join("result.json")).assert_states(&[("ok", 1_200)]);
    assert_eq!(saved.parent(), Some(&*place.path().join("results/runs")));
}
