//! `crawlmark selftest`: the output is what it saved, nothing fails on a machine however busy, and
//! nothing is left of it. Whether a row can fail is tested where it is judged; here a machine that
//! does other things may make any row `disturbed`.

use std::fs;

use serde_json::Value;

use crate::command::{Done, run};

impl Done {
    /// The saved outcome, which fits its schema and whose verdict is that of its rows and of its
    /// exit code.
    fn outcome(&self) -> Value {
        let outcome = self.saved("selftest.json");
        let rows = outcome["rows"].as_array().unwrap();
        let (gravest, code) = [
            ("failed", 3),
            ("not_run", 5),
            ("disturbed", 5),
            ("passed", 0),
        ]
        .into_iter()
        .find(|(result, _)| rows.iter().any(|row| row["result"] == *result))
        .unwrap();
        assert_eq!(outcome["verdict"], gravest);
        assert_eq!(self.code, Some(code), "{}", self.stderr);
        outcome
    }
}

#[test]
fn the_short_form_finds_nothing_wrong_and_shows_what_it_saved() {
    let done = run("selftest --quick --out out");
    let outcome = done.outcome();
    let rows = outcome["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 7);
    for (number, row) in (1..).zip(rows) {
        assert_eq!(row["row"], format!("R{number}"));
        let result = row["result"].as_str().unwrap();
        assert!(["passed", "disturbed"].contains(&result), "{row:#}");
        let name = format!("R{number} ");
        let is_shown = |line: &str| line.trim_start().starts_with(&name) && line.contains(result);
        assert!(done.stdout.lines().any(is_shown), "{}", done.stdout);
    }
    let summary = fs::read_to_string(done.out().join("summary.md")).unwrap();
    assert!(summary.contains("expected"), "{summary}");
}
