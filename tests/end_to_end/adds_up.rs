//! The saved histograms are the run's: every second's line in `latency.hlog`, merged, is the
//! distribution in `result.json`, cell by cell. The other sums are checked for every report that
//! any test reads.

use crate::command::call_line;
use crate::report::Report;
use crate::target::Target;

#[test]
fn a_verbose_run_announces_itself_and_names_its_result() {
    let target = Target::start("--processes 1");
    let place = tempfile::tempdir().unwrap();
    let line = format!("run {} -n 1200 --shards 2 -c 3 --verbose", target.url());
    let said = call_line(place.path(), &line);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    // The totals come before anything is sent, and what was measured is all that a pipe gets.
    for text in [&target.url(), "1,200 (0 to 1,199)", "connections 3\n"] {
        assert!(said.stderr.contains(text), "{text}: {}", said.stderr);
    }
    assert!(said.stdout.contains("1,200 items"), "{}", said.stdout);
    let page = said.stdout.lines().last().unwrap().trim_start();
    assert!(page.starts_with("results/runs"), "{page}");
    let page = place.path().join(page);
    assert!(page.ends_with("report.html") && page.is_file());
    let saved = page.parent().unwrap();
    Report::read(&saved.join("result.json")).assert_states(&[("ok", 1_200)]);
    assert_eq!(saved.parent(), Some(&*place.path().join("results/runs")));
}
