//! A saved report, read as a stranger would: as JSON, by the committed schema. Reading one checks
//! that it adds up.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::command::{assert_fits, json};

/// The states of an item.
const STATES: [&str; 9] = [
    "ok",
    "not_found",
    "failed",
    "gave_up",
    "aborted",
    "unfinished",
    "skipped",
    "not_attempted",
    "lost",
];

/// Retries that a run may spend before its first attempts have earned any.
const RETRY_RESERVE: u64 = 100;

/// Failures after which a run ends with its first items: no other one would fare better.
const LASTING: [&str; 9] = [
    "http2_not_offered",
    "proxy_auth",
    "proxy_not_spoken",
    "tls_bad_certificate",
    "tls_expired",
    "tls_incompatible",
    "tls_not_spoken",
    "tls_unknown_issuer",
    "tls_wrong_name",
];

/// A report that has passed every check that holds for all reports.
pub(crate) struct Report(Value);

impl Report {
    /// Read and check a `result.json`.
    #[track_caller]
    pub(crate) fn read(path: &Path) -> Self {
        let report = Self(json(path));
        // What a run saved, its own reader takes.
        if let Err(error) = crawlmark_results::run::result_dir::read(path) {
            panic!("{error}");
        }
        assert_fits("result", &report.0);
        report.check_states();
        report.check_attempts();
        report.check_shards();
        report.check_times();
        report.check_schedule();
        report.check_seconds();
        report.check_health();
        report.check_connections();
        report
    }

    /// The JSON.
    pub(crate) const fn json(&self) -> &Value {
        &self.0
    }

    /// What is at `pointer`.
    #[track_caller]
    pub(crate) fn at(&self, pointer: &str) -> &Value {
        let value = self.0.pointer(pointer);
        value.unwrap_or_else(|| panic!("the report has no {pointer}"))
    }

    /// The whole number at `pointer`.
    #[track_caller]
    pub(crate) fn count(&self, pointer: &str) -> u64 {
        let value = self.at(pointer);
        value
            .as_u64()
            .unwrap_or_else(|| panic!("{pointer} is {value}"))
    }

    /// The number at `pointer`.
    #[track_caller]
    pub(crate) fn number(&self, pointer: &str) -> f64 {
        let value = self.at(pointer);
        value
            .as_f64()
            .unwrap_or_else(|| panic!("{pointer} is {value}"))
    }

    /// The text at `pointer`.
    #[track_caller]
    pub(crate) fn text(&self, pointer: &str) -> &str {
        let value = self.at(pointer);
        value
            .as_str()
            .unwrap_or_else(|| panic!("{pointer} is {value}"))
    }

    /// The array at `pointer`.
    #[track_caller]
    pub(crate) fn array(&self, pointer: &str) -> &[Value] {
        self.at(pointer).as_array().unwrap()
    }

    /// The counts by name at `pointer`.
    #[track_caller]
    pub(crate) fn counts(&self, pointer: &str) -> BTreeMap<String, u64> {
        counts(self.at(pointer))
    }

    /// Check the values at these pointers, as in `{"/totals/attempts": 300}`.
    #[track_caller]
    pub(crate) fn holds(&self, expected: &Value) {
        holds(&self.0, expected);
    }

    /// Answers by status.
    pub(crate) fn statuses(&self) -> BTreeMap<String, u64> {
        self.counts("/totals/attempts_by_status")
    }

    /// Failures by kind.
    pub(crate) fn errors(&self) -> BTreeMap<String, u64> {
        self.counts("/totals/errors_by_kind")
    }

    /// The number of items in a state.
    #[track_caller]
    pub(crate) fn items(&self, state: &str) -> u64 {
        self.count(&format!("/ledger/{state}"))
    }

    /// Check that every planned item is in one of `states`.
    #[track_caller]
    pub(crate) fn assert_states(&self, states: &[(&str, u64)]) {
        let held = STATES.map(|state| (state, self.items(state)));
        let held: Vec<_> = held.into_iter().filter(|(_, items)| *items > 0).collect();
        let mut expected: Vec<_> = states.to_vec();
        expected.retain(|(_, items)| *items > 0);
        expected.sort_by_key(|(name, _)| STATES.iter().position(|state| state == name));
        assert_eq!(held, expected, "{:?}, {:?}", self.statuses(), self.errors());
    }

    /// Check that every item failed of this kind at its only attempt; of one that would fail all,
    /// that the run ended with the first.
    #[track_caller]
    pub(crate) fn assert_all_failed(&self, kind: &str) {
        let (planned, failed) = (self.count("/ledger/planned"), self.items("failed"));
        let ends = LASTING.contains(&kind) && self.count("/totals/attempts_sent") == 0;
        let least = if ends { 1 } else { planned };
        assert!(failed >= least, "{kind}: {}", self.at("/ledger"));
        assert!(
            !ends || failed <= self.count("/plan/connections"),
            "{kind}: {}",
            self.at("/ledger")
        );
        self.assert_states(&[("failed", failed), ("not_attempted", planned - failed)]);
        assert_eq!(self.errors(), [(kind.to_owned(), failed)].into());
        assert_eq!(self.count("/totals/attempts"), failed, "{kind} was retried");
    }

    /// The first finding of a kind; null without one.
    pub(crate) fn finding(&self, kind: &str) -> &Value {
        let mut findings = self.array("/findings").iter();
        findings
            .find(|finding| finding["kind"] == kind)
            .unwrap_or(&Value::Null)
    }

    /// True if there is a finding of a kind.
    pub(crate) fn has_finding(&self, kind: &str) -> bool {
        !self.finding(kind).is_null()
    }

    /// Each shard.
    pub(crate) fn shards(&self) -> &[Value] {
        self.array("/shards")
    }

    /// True if every shard reported to its end.
    pub(crate) fn is_whole(&self) -> bool {
        self.shards().iter().all(|shard| shard["fault"].is_null())
    }

    fn total(&self, name: &str) -> u64 {
        self.count(&format!("/totals/{name}"))
    }

    fn timed(&self, series: &str, of: &str) -> u64 {
        self.count(&format!("/latency/{series}/{of}"))
    }

    /// Sum of a count over values.
    fn sum<'a>(values: impl IntoIterator<Item = &'a Value>, pointer: &str) -> u64 {
        let counts = values
            .into_iter()
            .filter_map(|value| value.pointer(pointer));
        counts.filter_map(Value::as_u64).sum()
    }

    fn good(&self) -> u64 {
        self.items("ok") + self.items("not_found")
    }

    /// Items that had an attempt.
    fn begun(&self) -> u64 {
        let rest = ["skipped", "not_attempted", "lost"].map(|state| self.items(state));
        self.count("/ledger/planned") - rest.iter().sum::<u64>()
    }

    fn check_states(&self) {
        let of_shards = self.shards().iter().map(|shard| &shard["ledger"]);
        for ledger in of_shards.chain([self.at("/ledger")]) {
            let sum: u64 = STATES
                .map(|state| ledger[state].as_u64().unwrap())
                .iter()
                .sum();
            assert_eq!(Some(sum), ledger["planned"].as_u64(), "{ledger}");
        }
        let is_cut = !self.at("/interrupted_by").is_null();
        let stopped = is_cut || !self.at("/stopped_by").is_null();
        assert_eq!(self.at("/interrupted").as_bool().unwrap(), stopped);
        let is_whole = self.is_whole() && self.total("shared_failed") == 0;
        let is_complete = is_whole && (self.total("attempts") > 0 || !is_cut);
        let verdict = self.text("/validity/verdict");
        assert_eq!(is_complete, verdict != "incomplete", "{verdict}");
        let mut findings = self.array("/findings").iter();
        let has_no_effect = findings.all(|finding| finding["effect"].is_null());
        assert_eq!(has_no_effect, verdict == "valid", "{verdict}");
    }

    /// Each item has one first attempt, and no more retries than were allowed, of itself and in
    /// all. Redirects and further requests are attempts without the retry budget.
    fn check_attempts(&self) {
        let followed = self.total("redirects") + self.total("steps");
        let attempts = self.total("attempts");
        let first = attempts - self.total("retries");
        // A shard that died may have left items that were to be tried again.
        let begun = self.begun();
        assert!(
            first == begun || !self.is_whole() && first > begun,
            "{first} of {begun}"
        );
        let retries = self.total("retries").saturating_sub(followed);
        // Those of throttled items may be without limit.
        let counted = retries.saturating_sub(self.total("throttled"));
        let budget = match self.count("/plan/throttling/retry_budget_percent") {
            0 => 0,
            percent => first * percent / 100 + RETRY_RESERVE.max(self.count("/plan/shards")),
        };
        let most = budget.min(first * self.count("/plan/throttling/retries"));
        assert!(counted <= most, "{counted} retries of {most}");
        let throttled = self.total("throttled");
        if self.is_whole() && retries == 0 && self.items("unfinished") == 0 {
            assert_eq!(self.items("gave_up"), throttled);
            let others = self.good() + throttled + followed + self.items("aborted");
            assert_eq!(self.items("failed"), attempts - others);
        }
        let (early, broken) = ("/throttling/early_attempts", "/throttling/violated");
        let (early, broken) = (self.count(early), self.count(broken));
        assert!(broken <= early && (broken == 0) == (early == 0));
        let share = throttled as f64 / attempts.max(1) as f64;
        assert!((self.number("/throttling/throttled_share") - share).abs() < 1e-9);
        assert!(throttled > 0 || self.count("/throttling/promises") == 0);
    }

    /// What was planned for the shards, and what they held at the end, are disjoint, without a gap,
    /// and the whole; so are their counts.
    fn check_shards(&self) {
        let whole = (self.count("/plan/ids/start"), self.count("/plan/ids/end"));
        let bound = |range: &Value, key: &str| range[key].as_u64().unwrap();
        let range = |range: &Value| (bound(range, "start"), bound(range, "end"));
        let shards = self.shards();
        // What earlier sessions have finished is nobody's.
        let finished = self.0.get("finished_before").and_then(Value::as_u64);
        let finished = finished.unwrap_or(0);
        if finished == 0 {
            let planned = shards.iter().map(|shard| range(&shard["id_range"]));
            assert_partition(planned.collect(), whole, 0);
        }
        let mut held = Vec::new();
        for (number, shard) in shards.iter().enumerate() {
            assert_eq!(shard["shard"], number);
            let ranges = shard["held"].as_array().unwrap().iter().map(range);
            let ranges: Vec<(u64, u64)> = ranges.collect();
            let size: u64 = ranges.iter().map(|(start, end)| end - start).sum();
            assert_eq!(shard["ledger"]["planned"], size, "{ranges:?}");
            if self.count("/moved/ranges") == 0 && finished == 0 {
                let mut planned = vec![range(&shard["id_range"])];
                planned.retain(|(start, end)| start != end);
                assert_eq!(ranges, planned, "nothing moved");
            }
            held.extend(ranges);
        }
        held.sort_unstable();
        assert_partition(held, whole, finished);
        assert_eq!(shards.len() as u64, self.count("/plan/shards"));
        let connections = Self::sum(shards, "/connections");
        assert_eq!(connections, self.count("/plan/connections"));
        for part in ["ledger", "totals"] {
            let (mut sums, mut whole) = (BTreeMap::new(), BTreeMap::new());
            for shard in shards {
                add_leaves(part, &shard[part], &mut sums);
            }
            // Parts that ran one after another shared the connections.
            let is_merged = self.0.get("merged").is_some();
            if let Some(peak) = sums.get_mut("totals/peak_in_flight").filter(|_| is_merged) {
                *peak = connections.min(*peak);
            }
            add_leaves(part, &self.0[part], &mut whole);
            assert_eq!(sums, whole);
        }
        for (series, whole) in self.at("/latency").as_object().unwrap() {
            let of_shards = Self::sum(shards, &format!("/latency/{series}/count"));
            assert_eq!(whole["count"], of_shards, "{series}");
        }
    }

    /// Each distribution holds as many values as there were occasions for one.
    fn check_times(&self) {
        if !self.is_whole() || !self.at("/warmup").is_null() {
            // A shard that died has counts and no times, and a warm-up is not timed.
            return;
        }
        let (attempts, sent) = (self.total("attempts"), self.total("attempts_sent"));
        let ended = attempts - self.items("aborted");
        let good = self.good() + self.total("steps");
        let throttled = self.total("throttled");
        let timeouts = self.errors().get("timeout").copied().unwrap_or(0);
        // What was cut off has an age in the place of a time, if it was sent.
        let cut_off = self.timed("service", "censored") - timeouts;
        assert!(cut_off <= self.items("aborted"), "{cut_off} cut off");
        let failed = sent - cut_off - good - throttled - self.total("redirects");
        for (series, occasions) in [
            ("service", good),
            ("service_throttled", throttled),
            ("service_error", failed),
            ("sched_lag", ended),
            ("budget_wait", ended),
            ("pool_wait", sent),
            ("connect", self.total("connections_opened")),
        ] {
            assert_eq!(self.timed(series, "count"), occasions, "{series}");
        }
        // Each item has a time or an age, and so has each request that was never sent.
        let dropped = self.total("dropped");
        for (series, least) in [("item", self.begun()), ("pool_wait", attempts)] {
            let all = self.timed(series, "count") + self.timed(series, "censored");
            assert!((least..=least + dropped).contains(&all), "{series}: {all}");
        }
    }

    /// Everything that an open loop scheduled went or was dropped, and has a response time or an
    /// age.
    fn check_schedule(&self) {
        let dropped = self.total("dropped");
        if self.at("/schedule").is_null() {
            assert!(["asap", "waves"].contains(&self.text("/plan/arrivals")) && dropped == 0);
            assert!(
                self.0.pointer("/latency/response").is_none(),
                "a closed loop"
            );
            return;
        }
        let scheduled = self.count("/schedule/scheduled");
        assert_eq!(self.count("/schedule/dropped"), dropped);
        assert_eq!(Self::sum(self.shards(), "/scheduled"), scheduled);
        if !self.is_whole() {
            return;
        }
        let by_limit: u64 = self.counts("/schedule/dropped_by").values().sum();
        assert_eq!(by_limit, dropped);
        let attempts = self.total("attempts");
        assert_eq!(
            scheduled,
            attempts + dropped + self.count("/schedule/postponed")
        );
        if !self.at("/warmup").is_null() {
            return;
        }
        let (good, throttled) = (self.good(), self.total("throttled"));
        let failed = attempts - self.items("aborted") - good - throttled;
        for (series, occasions) in [
            ("response", good),
            ("response_throttled", throttled),
            ("response_error", failed),
        ] {
            assert_eq!(self.timed(series, "count"), occasions, "{series}");
        }
        let errors = self.errors();
        let timeouts = ["timeout", "connect_timeout"].iter();
        let timeouts: u64 = timeouts.filter_map(|kind| errors.get(*kind)).sum();
        let unsent = self.timed("response", "censored") - timeouts - self.items("aborted");
        // What finds a queue full waits for nothing.
        let has_queue = self.at("/plan").get("queue").is_some();
        let least = if has_queue { 0 } else { dropped };
        assert!((least..=dropped).contains(&unsent), "{unsent} of {dropped}");
    }

    /// The seconds are in order and sum to the run; the times of the limits add up to all of the
    /// time, of the run, of each shard and of each second.
    fn check_seconds(&self) {
        let rows = self.array("/intervals");
        let starts = rows.iter().map(|row| row["start_s"].as_u64());
        assert!(starts.is_sorted_by(|a, b| a < b), "seconds in order");
        let parts = rows.iter().chain(self.shards()).chain([&self.0]);
        for binding in parts.map(|part| &part["binding"]) {
            let times = binding.as_object().unwrap().values();
            let sum: f64 = times.map(|time| time.as_f64().unwrap()).sum();
            assert!(sum == 0.0 || (sum - 1.0).abs() < 1e-9, "{binding}");
        }
        if !self.is_whole() {
            return;
        }
        let states = ["not_found", "failed", "aborted"];
        let states = states.map(|state| (state, self.items(state)));
        let totals = [
            "attempts",
            "retries",
            "throttled",
            "soft_blocked",
            "bytes_received",
        ];
        let totals = totals.map(|total| (total, self.total(total)));
        let others = [
            ("ok", self.items("ok") + self.total("steps")),
            ("items", self.begun() - self.items("unfinished")),
            ("scheduled", self.total("attempts") + self.total("dropped")),
        ];
        for (key, whole) in states.into_iter().chain(totals).chain(others) {
            assert_eq!(Self::sum(rows, &format!("/{key}")), whole, "{key}");
        }
    }

    /// The slowest requests are as many as there may be, the slowest first; the parts of the response
    /// time add up.
    fn check_connections(&self) {
        let slowest = self.array("/slowest");
        let us = |row: &Value| row["response_us"].as_f64().unwrap();
        assert!(slowest.is_sorted_by(|a, b| us(a) >= us(b)));
        let series = if self.at("/schedule").is_null() {
            "service"
        } else {
            "response"
        };
        let times = self.at(&format!("/latency/{series}"));
        if self.is_whole() {
            let least = times["count"].as_u64().unwrap().min(20);
            assert!(
                slowest.len() as u64 >= least,
                "{} of {least}",
                slowest.len()
            );
        }
        for split in [self.at("/split")]
            .into_iter()
            .filter(|split| split.is_object())
        {
            let part = |name: &str| split[name].as_f64().unwrap();
            let parts = [
                "client_queue_us",
                "network_us",
                "target_us",
                "body_us",
                "receive_delay_us",
            ];
            let sum: f64 = parts.map(part).iter().sum();
            assert!((sum - part("response_us")).abs() < 1e-3, "{split}");
        }
    }

    /// Each shard that reported to its end looked up every 10 ms, missed looks included, but for those
    /// that were due while it waited for a CPU at its end, and used no more CPU than there was time.
    fn check_health(&self) {
        let is_saved = self.0.get("saved").or(self.0.get("merged")).is_some();
        for shard in self
            .shards()
            .iter()
            .filter(|shard| shard["fault"].is_null())
        {
            let number = |name: &str| shard[name].as_f64().unwrap();
            let measured_s = number("measured_s");
            let looks = shard["latency"]["loop_lag"]["count"].as_f64().unwrap();
            let missed = (measured_s * 100.0).floor() - looks;
            // The last commit of a saved crawl comes after the last look, and a part of a merged
            // one is several shards.
            let waited_s = shard["run_delay_s"].as_f64().unwrap_or(0.0);
            let most = 1.0 + (waited_s * 100.0).ceil();
            assert!(
                missed >= -1.0 && (missed <= most || is_saved),
                "{missed} looks"
            );
            // What is read between the last word from above and the start is a little more than the
            // time measured.
            let used_s = number("cpu_user_s") + number("cpu_system_s");
            assert!(used_s <= measured_s * 1.01 + 0.005, "{used_s} s of CPU");
        }
    }
}

/// Check that `ranges`, start and end, follow one another from the start of `whole` to its end, with
/// gaps of so many IDs in all. An empty one is nowhere.
#[track_caller]
fn assert_partition(mut ranges: Vec<(u64, u64)>, whole: (u64, u64), gaps: u64) {
    ranges.retain(|(start, end)| start != end);
    let mut reached = whole.0;
    for (start, end) in &ranges {
        assert!(*start >= reached && end > start, "{ranges:?}");
        reached = *end;
    }
    let held: u64 = ranges.iter().map(|(start, end)| end - start).sum();
    assert!(
        reached <= whole.1 && whole.1 - whole.0 - held == gaps,
        "{ranges:?}"
    );
}

/// Check the values at these pointers of a JSON value.
#[track_caller]
pub(crate) fn holds(value: &Value, expected: &Value) {
    for (pointer, expected) in expected.as_object().unwrap() {
        assert_eq!(
            value.pointer(pointer),
            Some(expected),
            "{pointer} of {value}"
        );
    }
}

/// The counts by name of a JSON object.
pub(crate) fn counts(value: &Value) -> BTreeMap<String, u64> {
    let entries = value.as_object().unwrap().iter();
    entries
        .map(|(name, count)| (name.clone(), count.as_u64().unwrap()))
        .collect()
}

/// Add every whole number below `value` to `sums`, by its path.
fn add_leaves(path: &str, value: &Value, sums: &mut BTreeMap<String, u64>) {
    if let Some(count) = value.as_u64() {
        *sums.entry(path.to_owned()).or_default() += count;
    }
    for (name, inner) in value.as_object().into_iter().flatten() {
        add_leaves(&format!("{path}/{name}"), inner, sums);
    }
}
