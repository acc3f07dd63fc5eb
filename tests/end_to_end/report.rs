//! A saved report, read as a stranger would: as JSON, by the committed schema. Reading one checks that it adds up.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test without a report is over")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::schema;

/// The states of an item.
pub(crate) const STATES: [&str; 7] = ["ok", "not_found", "failed", "gave_up", "aborted", "not_attempted", "lost"];

/// A report that has passed every check that holds for all reports.
pub(crate) struct Report(Value);

impl Report {
    /// Reads and checks a `result.json`.
    #[track_caller]
    pub(crate) fn read(path: &Path) -> Self {
        let report = Self(serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap());
        assert_eq!(schema::complaints(&report.0), Vec::<String>::new());
        report.check_states();
        report.check_shards();
        report.check_times();
        report.check_intervals();
        report
    }

    /// The JSON.
    pub(crate) const fn json(&self) -> &Value {
        &self.0
    }

    /// What is at `pointer`.
    #[track_caller]
    pub(crate) fn at(&self, pointer: &str) -> &Value {
        self.0.pointer(pointer).unwrap_or_else(|| panic!("the report has no {pointer}"))
    }

    /// The whole number at `pointer`.
    #[track_caller]
    pub(crate) fn count(&self, pointer: &str) -> u64 {
        self.at(pointer).as_u64().unwrap_or_else(|| panic!("{pointer} is {}", self.at(pointer)))
    }

    /// The number at `pointer`.
    #[track_caller]
    pub(crate) fn number(&self, pointer: &str) -> f64 {
        self.at(pointer).as_f64().unwrap_or_else(|| panic!("{pointer} is {}", self.at(pointer)))
    }

    /// The text at `pointer`.
    #[track_caller]
    pub(crate) fn text(&self, pointer: &str) -> &str {
        self.at(pointer).as_str().unwrap_or_else(|| panic!("{pointer} is {}", self.at(pointer)))
    }

    /// The counts by name at `pointer`.
    #[track_caller]
    pub(crate) fn counts(&self, pointer: &str) -> BTreeMap<String, u64> {
        counts(self.at(pointer))
    }

    /// Answers by status.
    pub(crate) fn statuses(&self) -> BTreeMap<String, u64> {
        self.counts("/totals/attempts_by_status")
    }

    /// Failures by kind.
    pub(crate) fn errors(&self) -> BTreeMap<String, u64> {
        self.counts("/totals/errors_by_kind")
    }

    /// How many items are in a state.
    #[track_caller]
    pub(crate) fn items(&self, state: &str) -> u64 {
        self.count(&format!("/ledger/{state}"))
    }

    /// Every planned item is in one of `states`, which are all that there is.
    #[track_caller]
    pub(crate) fn assert_states(&self, states: &[(&str, u64)]) {
        for state in STATES {
            let expected = states.iter().find(|(name, _)| *name == state).map_or(0, |(_, items)| *items);
            let (statuses, errors) = (self.statuses(), self.errors());
            assert_eq!(self.items(state), expected, "{state}, {statuses:?}, {errors:?}, {}", self.at("/ledger"));
        }
    }

    /// Each shard.
    pub(crate) fn shards(&self) -> &[Value] {
        self.at("/shards").as_array().unwrap()
    }

    /// Whether every shard told its whole story.
    pub(crate) fn is_whole(&self) -> bool {
        self.shards().iter().all(|shard| shard["fault"].is_null())
    }

    fn check_states(&self) {
        for ledger in self.shards().iter().map(|shard| &shard["ledger"]).chain([self.at("/ledger")]) {
            let sum: u64 = STATES.iter().map(|state| ledger[state].as_u64().unwrap()).sum();
            assert_eq!(Some(sum), ledger["planned"].as_u64(), "{ledger}");
        }
        let ended = self.count("/ledger/planned") - self.items("not_attempted") - self.items("lost");
        // Nothing is retried, so far.
        assert_eq!(self.count("/totals/attempts"), ended);
        assert_eq!(self.at("/interrupted").as_bool().unwrap(), !self.at("/interrupted_by").is_null());
        assert_eq!(self.is_whole(), self.text("/validity/verdict") != "incomplete");
    }

    /// The shards' parts are disjoint, in order and without a gap, and they sum to the whole.
    fn check_shards(&self) {
        let mut next = self.count("/plan/ids/start");
        for (number, shard) in self.shards().iter().enumerate() {
            let (start, end) = (&shard["id_range"]["start"], &shard["id_range"]["end"]);
            assert_eq!((shard["shard"].as_u64(), start.as_u64()), (Some(number as u64), Some(next)));
            next = end.as_u64().unwrap();
            assert_eq!(shard["ledger"]["planned"].as_u64(), Some(next - start.as_u64().unwrap()));
        }
        assert_eq!(next, self.count("/plan/ids/end"));
        assert_eq!(self.shards().len() as u64, self.count("/plan/shards"));
        let connections: u64 = self.shards().iter().map(|shard| shard["connections"].as_u64().unwrap()).sum();
        assert_eq!(connections, self.count("/plan/connections"));
        for part in ["ledger", "totals"] {
            let mut sums = BTreeMap::new();
            self.shards().iter().for_each(|shard| add_leaves(part, &shard[part], &mut sums));
            let mut whole = BTreeMap::new();
            add_leaves(part, &self.0[part], &mut whole);
            assert_eq!(sums, whole);
        }
    }

    /// Each distribution holds as many values as there were occasions for one.
    fn check_times(&self) {
        let errors = self.errors();
        let timeouts = errors.get("timeout").copied().unwrap_or(0);
        for (series, whole) in self.at("/latency").as_object().unwrap() {
            let of_shards = self.shards().iter().filter_map(|shard| shard["latency"][series]["count"].as_u64());
            assert_eq!(Some(of_shards.sum()), whole["count"].as_u64(), "{series}");
        }
        if !self.is_whole() {
            // A shard that died has counts and no times.
            return;
        }
        let ended = self.count("/totals/attempts") - self.items("aborted");
        let unsent = self.count("/totals/attempts") - self.items("aborted") - self.count("/totals/attempts_sent");
        for (series, occasions) in [
            ("service", self.items("ok") + self.items("not_found")),
            ("service_throttled", self.count("/totals/throttled")),
            ("service_error", self.items("failed") - unsent),
            ("sched_lag", ended),
            ("budget_wait", ended),
            ("pool_wait", ended),
            ("connect", self.count("/totals/connections_opened")),
        ] {
            assert_eq!(self.count(&format!("/latency/{series}/count")), occasions, "{series}");
        }
        assert_eq!(self.count("/latency/service/censored"), timeouts + self.items("aborted"));
    }

    /// The seconds are in order and sum to the run.
    fn check_intervals(&self) {
        let rows = self.at("/intervals").as_array().unwrap();
        let starts: Vec<u64> = rows.iter().map(|row| row["start_s"].as_u64().unwrap()).collect();
        assert!(starts.is_sorted_by(|a, b| a < b), "{starts:?}");
        if !self.is_whole() {
            return;
        }
        let sum = |key: &str| rows.iter().map(|row| row[key].as_u64().unwrap()).sum::<u64>();
        for state in ["ok", "not_found", "failed", "aborted"] {
            assert_eq!(sum(state), self.items(state), "{state}");
        }
        for counter in ["attempts", "throttled", "bytes_received"] {
            assert_eq!(sum(counter), self.count(&format!("/totals/{counter}")), "{counter}");
        }
        assert_eq!(sum("items"), self.count("/totals/attempts"), "nothing is retried, so far");
    }
}

/// The counts by name of a JSON object.
pub(crate) fn counts(value: &Value) -> BTreeMap<String, u64> {
    let entries = value.as_object().unwrap_or_else(|| panic!("{value} holds no counts"));
    entries.iter().map(|(name, count)| (name.clone(), count.as_u64().unwrap())).collect()
}

/// Adds every whole number below `value` to `sums`, by its path.
fn add_leaves(path: &str, value: &Value, sums: &mut BTreeMap<String, u64>) {
    if let Some(count) = value.as_u64() {
        *sums.entry(path.to_owned()).or_default() += count;
    }
    for (name, inner) in value.as_object().into_iter().flatten() {
        add_leaves(&format!("{path}/{name}"), inner, sums);
    }
}
