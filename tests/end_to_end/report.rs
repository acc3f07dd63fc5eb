//! A saved report, read as a stranger would: as JSON, by the committed schema. Reading one checks
//! that it adds up.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::schema;

/// The states of an item.
pub(crate) const STATES: [&str; 9] = [
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

/// A report that has passed every check that holds for all reports.
pub(crate) struct Report(Value);

impl Report {
    /// Reads and checks a `result.json`.
    #[track_caller]
    pub(crate) fn read(path: &Path) -> Self {
        let report = Self(serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap());
        // What a run saved, its own reader takes: no law of its may refuse a true result.
        if let Err(error) = crawlmark_results::run::result_dir::read(path) {
            panic!("{error}");
        }
        assert_eq!(schema::complaints(&report.0), Vec::<String>::new());
        report.check_states();
        report.check_attempts();
        report.check_shards();
        report.check_times();
        report.check_schedule();
        report.check_intervals();
        report.check_binding();
        report.check_manners();
        report.check_health();
        report
    }

    /// The JSON.
    pub(crate) const fn json(&self) -> &Value {
        &self.0
    }

    /// What is at `pointer`.
    #[track_caller]
    pub(crate) fn at(&self, pointer: &str) -> &Value {
        self.0
            .pointer(pointer)
            .unwrap_or_else(|| panic!("the report has no {pointer}"))
    }

    /// The whole number at `pointer`.
    #[track_caller]
    pub(crate) fn count(&self, pointer: &str) -> u64 {
        self.at(pointer)
            .as_u64()
            .unwrap_or_else(|| panic!("{pointer} is {}", self.at(pointer)))
    }

    /// The number at `pointer`.
    #[track_caller]
    pub(crate) fn number(&self, pointer: &str) -> f64 {
        self.at(pointer)
            .as_f64()
            .unwrap_or_else(|| panic!("{pointer} is {}", self.at(pointer)))
    }

    /// The text at `pointer`.
    #[track_caller]
    pub(crate) fn text(&self, pointer: &str) -> &str {
        self.at(pointer)
            .as_str()
            .unwrap_or_else(|| panic!("{pointer} is {}", self.at(pointer)))
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

    /// How many items are in a state.
    #[track_caller]
    pub(crate) fn items(&self, state: &str) -> u64 {
        self.count(&format!("/ledger/{state}"))
    }

    /// Every planned item is in one of `states`, which are all that there is.
    #[track_caller]
    pub(crate) fn assert_states(&self, states: &[(&str, u64)]) {
        for state in STATES {
            let expected = states
                .iter()
                .find(|(name, _)| *name == state)
                .map_or(0, |(_, items)| *items);
            let (statuses, errors) = (self.statuses(), self.errors());
            assert_eq!(
                self.items(state),
                expected,
                "{state}, {statuses:?}, {errors:?}, {}",
                self.at("/ledger")
            );
        }
    }

    /// Checks that every item failed of this kind at its only attempt; of one that would fail all,
    /// that the run ended with the first.
    #[track_caller]
    pub(crate) fn assert_all_failed(&self, kind: &str) {
        const LASTING: &str = "http2_not_offered proxy_auth proxy_not_spoken tls_bad_certificate tls_expired tls_incompatible tls_not_spoken \
             tls_unknown_issuer tls_wrong_name";
        let (planned, failed) = (self.count("/ledger/planned"), self.items("failed"));
        let ends = LASTING.split_whitespace().any(|lasting| lasting == kind)
            && self.count("/totals/attempts_sent") == 0;
        let connections = self.count("/plan/connections");
        assert!(
            if ends {
                (1..=connections).contains(&failed)
            } else {
                failed == planned
            },
            "{kind}: {}",
            self.at("/ledger")
        );
        assert_eq!(
            self.items("not_attempted"),
            planned - failed,
            "{}",
            self.at("/ledger")
        );
        assert_eq!(
            self.errors(),
            [(kind.to_owned(), failed)].into(),
            "{}",
            self.at("/failures")
        );
        assert_eq!(
            self.count("/totals/attempts"),
            failed,
            "{kind} was tried again"
        );
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
        for ledger in self
            .shards()
            .iter()
            .map(|shard| &shard["ledger"])
            .chain([self.at("/ledger")])
        {
            let sum: u64 = STATES
                .iter()
                .map(|state| ledger[state].as_u64().unwrap())
                .sum();
            assert_eq!(Some(sum), ledger["planned"].as_u64(), "{ledger}");
        }
        let stopped = !self.at("/interrupted_by").is_null() || !self.at("/stopped_by").is_null();
        assert_eq!(self.at("/interrupted").as_bool().unwrap(), stopped);
        let says_something =
            self.count("/totals/attempts") > 0 || self.at("/interrupted_by").is_null();
        let is_complete = self.text("/validity/verdict") != "incomplete";
        assert_eq!(
            self.is_whole() && says_something,
            is_complete,
            "{}",
            self.at("/validity")
        );
    }

    /// Items that had an attempt.
    fn begun(&self) -> u64 {
        ["skipped", "not_attempted", "lost"]
            .iter()
            .fold(self.count("/ledger/planned"), |left, state| {
                left - self.items(state)
            })
    }

    /// Each item has one first attempt, and no more retries than were allowed, of itself and in
    /// all.
    fn check_attempts(&self) {
        let (attempts, retries) = (
            self.count("/totals/attempts"),
            self.count("/totals/retries"),
        );
        let first = attempts - retries;
        if self.is_whole() {
            assert_eq!(first, self.begun());
        } else {
            // A shard that died may have left items that were to be tried again.
            assert!(
                first >= self.begun(),
                "{first} first attempts of {} items",
                self.begun()
            );
        }
        let redirects = self.count("/totals/redirects");
        // Each redirect is a further attempt, without the retry budget.
        let retries = retries.saturating_sub(redirects);
        assert!(
            retries <= first * self.count("/plan/manners/retries"),
            "{retries} retries of {first} items"
        );
        let budget = match self.count("/plan/manners/retry_budget_percent") {
            0 => 0,
            percent => first * percent / 100 + RETRY_RESERVE.max(self.count("/plan/shards")),
        };
        assert!(retries <= budget, "{retries} retries of {budget}");
        if self.is_whole() && retries == 0 && self.items("unfinished") == 0 {
            let good = self.items("ok") + self.items("not_found");
            assert_eq!(self.items("gave_up"), self.count("/totals/throttled"));
            let others = good + self.items("gave_up") + redirects;
            assert_eq!(
                self.items("failed"),
                attempts - self.items("aborted") - others
            );
        }
    }

    /// What was planned for the shards, and what they held at the end, are disjoint, without a gap,
    /// and the whole.
    fn check_shards(&self) {
        let whole = (self.count("/plan/ids/start"), self.count("/plan/ids/end"));
        let range = |range: &Value| {
            (
                range["start"].as_u64().unwrap(),
                range["end"].as_u64().unwrap(),
            )
        };
        // What earlier sessions have finished is nobody's.
        let finished = self
            .0
            .get("finished_before")
            .map_or(0, |ids| ids.as_u64().unwrap());
        if finished == 0 {
            assert_partition(
                &self
                    .shards()
                    .iter()
                    .map(|shard| range(&shard["id_range"]))
                    .collect::<Vec<_>>(),
                whole,
                0,
            );
        }
        let mut held = Vec::new();
        for (number, shard) in self.shards().iter().enumerate() {
            assert_eq!(shard["shard"].as_u64(), Some(number as u64));
            let of_shard: Vec<(u64, u64)> = shard["held"]
                .as_array()
                .unwrap()
                .iter()
                .map(range)
                .collect();
            let size: u64 = of_shard.iter().map(|(start, end)| end - start).sum();
            assert_eq!(
                shard["ledger"]["planned"].as_u64(),
                Some(size),
                "shard {number} held {of_shard:?}"
            );
            held.extend(of_shard);
        }
        held.sort_unstable();
        assert_partition(&held, whole, finished);
        assert_eq!(self.shards().len() as u64, self.count("/plan/shards"));
        let connections: u64 = self
            .shards()
            .iter()
            .map(|shard| shard["connections"].as_u64().unwrap())
            .sum();
        assert_eq!(connections, self.count("/plan/connections"));
        for part in ["ledger", "totals"] {
            let mut sums = BTreeMap::new();
            self.shards()
                .iter()
                .for_each(|shard| add_leaves(part, &shard[part], &mut sums));
            // Parts that ran one after another shared the connections.
            if let Some(peak) = sums
                .get_mut("totals/peak_in_flight")
                .filter(|_| self.0.get("merged").is_some())
            {
                *peak = connections.min(*peak);
            }
            let mut whole = BTreeMap::new();
            add_leaves(part, &self.0[part], &mut whole);
            assert_eq!(sums, whole);
        }
        if self.count("/moved/ranges") == 0 {
            assert_eq!(self.count("/moved/ids"), 0);
            let shards = self.shards().iter().filter(|_| finished == 0);
            shards.for_each(|shard| assert_eq!(shard["held"], held_as_planned(shard)));
        }
    }

    /// Each distribution holds as many values as there were occasions for one.
    fn check_times(&self) {
        let errors = self.errors();
        let timeouts = errors.get("timeout").copied().unwrap_or(0);
        for (series, whole) in self.at("/latency").as_object().unwrap() {
            let of_shards = self
                .shards()
                .iter()
                .filter_map(|shard| shard["latency"][series]["count"].as_u64());
            assert_eq!(Some(of_shards.sum()), whole["count"].as_u64(), "{series}");
        }
        if !self.is_whole() || !self.at("/warmup").is_null() {
            // A shard that died has counts and no times, and a warm-up is not timed.
            return;
        }
        let ended = self.count("/totals/attempts") - self.items("aborted");
        let good = self.items("ok") + self.items("not_found");
        let (throttled, redirects) = (
            self.count("/totals/throttled"),
            self.count("/totals/redirects"),
        );
        // What was cut off has an age in the place of a time, if it was sent.
        let sent_and_cut_off = self.count("/latency/service/censored") - timeouts;
        assert!(
            sent_and_cut_off <= self.items("aborted"),
            "{sent_and_cut_off} cut off"
        );
        for (series, occasions) in [
            ("service", good),
            ("service_throttled", throttled),
            (
                "service_error",
                self.count("/totals/attempts_sent")
                    - sent_and_cut_off
                    - good
                    - throttled
                    - redirects,
            ),
            ("sched_lag", ended),
            ("budget_wait", ended),
            ("pool_wait", self.count("/totals/attempts_sent")),
            ("connect", self.count("/totals/connections_opened")),
        ] {
            assert_eq!(
                self.count(&format!("/latency/{series}/count")),
                occasions,
                "{series}"
            );
        }
        // Each item has a time or an age, and so has each request that was never sent.
        let dropped = self.count("/totals/dropped");
        for (series, least) in [
            ("item", self.begun()),
            ("pool_wait", self.count("/totals/attempts")),
        ] {
            let known = self.count(&format!("/latency/{series}/count"));
            let all = known + self.count(&format!("/latency/{series}/censored"));
            assert!(
                (least..=least + dropped).contains(&all),
                "{series}: {all} of {least}"
            );
        }
    }

    /// Everything that an open loop scheduled went or was dropped, and has a response time or an
    /// age.
    fn check_schedule(&self) {
        let dropped = self.count("/totals/dropped");
        if self.at("/schedule").is_null() {
            assert!(["asap", "waves"].contains(&self.text("/plan/arrivals")) && dropped == 0);
            let latency = self.at("/latency").as_object().unwrap();
            assert!(
                !latency.keys().any(|series| series.starts_with("response")),
                "a closed loop has no response times"
            );
            return;
        }
        let scheduled = self.count("/schedule/scheduled");
        assert_eq!(self.at("/schedule/dropped"), self.at("/totals/dropped"));
        let of_shards: u64 = self
            .shards()
            .iter()
            .filter_map(|shard| shard["scheduled"].as_u64())
            .sum();
        assert_eq!(of_shards, scheduled);
        if !self.is_whole() {
            return;
        }
        let by_limit: u64 = self
            .at("/schedule/dropped_by")
            .as_object()
            .unwrap()
            .values()
            .filter_map(Value::as_u64)
            .sum();
        assert_eq!(by_limit, dropped);
        assert_eq!(
            scheduled,
            self.count("/totals/attempts") + dropped + self.count("/schedule/postponed")
        );
        if !self.at("/warmup").is_null() {
            return;
        }
        let good = self.items("ok") + self.items("not_found");
        let throttled = self.count("/totals/throttled");
        let ended = self.count("/totals/attempts") - self.items("aborted");
        let timeouts: u64 = ["timeout", "connect_timeout"]
            .iter()
            .filter_map(|kind| self.errors().get(*kind).copied())
            .sum();
        for (key, occasions) in [
            ("response/count", good),
            ("response_throttled/count", throttled),
            ("response_error/count", ended - good - throttled),
        ] {
            assert_eq!(self.count(&format!("/latency/{key}")), occasions, "{key}");
        }
        let unsent = self.count("/latency/response/censored") - timeouts - self.items("aborted");
        // What finds a queue full waits for nothing.
        let least = if self.at("/plan").get("queue").is_none() {
            dropped
        } else {
            0
        };
        assert!((least..=dropped).contains(&unsent), "{unsent} of {dropped}");
    }

    /// The seconds are in order and sum to the run.
    fn check_intervals(&self) {
        let rows = self.at("/intervals").as_array().unwrap();
        let starts: Vec<u64> = rows
            .iter()
            .map(|row| row["start_s"].as_u64().unwrap())
            .collect();
        assert!(starts.is_sorted_by(|a, b| a < b), "{starts:?}");
        if !self.is_whole() {
            return;
        }
        let sum = |key: &str| {
            rows.iter()
                .map(|row| row[key].as_u64().unwrap())
                .sum::<u64>()
        };
        for state in ["ok", "not_found", "failed", "aborted"] {
            assert_eq!(sum(state), self.items(state), "{state}");
        }
        for counter in [
            "attempts",
            "retries",
            "throttled",
            "soft_blocked",
            "bytes_received",
        ] {
            assert_eq!(
                sum(counter),
                self.count(&format!("/totals/{counter}")),
                "{counter}"
            );
        }
        assert_eq!(
            sum("items"),
            self.begun() - self.items("unfinished"),
            "items"
        );
        assert_eq!(
            sum("scheduled"),
            self.count("/totals/attempts") + self.count("/totals/dropped"),
            "scheduled"
        );
    }

    /// The times of the limits add up to all of the time, of the run, of each shard and of each
    /// second.
    fn check_binding(&self) {
        let rows = self
            .at("/intervals")
            .as_array()
            .unwrap()
            .iter()
            .chain(self.shards());
        for binding in rows.map(|row| &row["binding"]).chain([self.at("/binding")]) {
            let parts: Vec<f64> = binding
                .as_object()
                .unwrap()
                .values()
                .map(|part| part.as_f64().unwrap())
                .collect();
            let sum: f64 = parts.iter().sum();
            assert!(
                parts.iter().all(|part| *part == 0.0) || (sum - 1.0).abs() < 1e-9,
                "{binding}"
            );
        }
    }

    /// Each shard that told its whole story looked up every 10 ms, missed looks included, and used
    /// no more CPU than there was time; a verdict has its reasons.
    fn check_health(&self) {
        for shard in self
            .shards()
            .iter()
            .filter(|shard| shard["fault"].is_null())
        {
            let number = |name: &str| {
                shard[name]
                    .as_f64()
                    .unwrap_or_else(|| panic!("{name} of {shard}"))
            };
            let (measured_s, looks) = (
                number("measured_s"),
                shard["latency"]["loop_lag"]["count"].as_u64().unwrap(),
            );
            // The last commit of a saved crawl comes after the last look.
            let missed = (measured_s * 100.0).floor() - looks as f64;
            // A part of a merged crawl is several shards.
            let most = if self.0.get("saved").or(self.0.get("merged")).is_some() {
                f64::INFINITY
            } else {
                1.0
            };
            assert!(
                (-1.0..=most).contains(&missed),
                "{looks} looks in {measured_s} s"
            );
            // What is read between the last word from above and the start is a little more than the
            // time measured.
            let used_s = number("cpu_user_s") + number("cpu_system_s");
            assert!(
                used_s <= measured_s * 1.01 + 0.005,
                "{used_s} s of CPU in {measured_s} s"
            );
        }
        let found = self.at("/findings").as_array().unwrap();
        assert_eq!(
            found.iter().all(|finding| finding["effect"].is_null()),
            self.text("/validity/verdict") == "valid",
            "{}",
            self.at("/validity")
        );
    }

    /// The first finding of a kind; null without one.
    pub(crate) fn finding(&self, kind: &str) -> &Value {
        let findings = self.at("/findings").as_array().unwrap();
        findings
            .iter()
            .find(|finding| finding["kind"] == kind)
            .unwrap_or(&Value::Null)
    }

    /// What is said about waits agrees with itself.
    fn check_manners(&self) {
        let (violated, early) = (
            self.count("/manners/violated"),
            self.count("/manners/early_attempts"),
        );
        assert!(
            violated <= early && (violated == 0) == (early == 0),
            "{}",
            self.at("/manners")
        );
        let attempts = self.count("/totals/attempts").max(1) as f64;
        let throttled_share = self.count("/totals/throttled") as f64 / attempts;
        assert!((self.number("/manners/throttled_share") - throttled_share).abs() < 1e-9);
        if self.count("/totals/throttled") == 0 {
            assert_eq!(self.count("/manners/promises"), 0);
        }
    }
}

/// `ranges`, start and end, follow one another from the start of `whole` to its end, with gaps of
/// so many IDs in all.
#[track_caller]
fn assert_partition(ranges: &[(u64, u64)], whole: (u64, u64), gaps: u64) {
    let (start, end) = whole;
    // An empty one is nowhere.
    let ranges: Vec<(u64, u64)> = ranges
        .iter()
        .copied()
        .filter(|(start, end)| start != end)
        .collect();
    let (reached, left_out) = ranges.iter().fold((start, 0), |(next, gaps), range| {
        assert!(
            range.0 >= next && range.1 >= range.0,
            "{range:?} does not begin at {next}: {ranges:?}"
        );
        (range.1, gaps + range.0 - next)
    });
    assert_eq!(left_out + end - reached, gaps, "{ranges:?} of {whole:?}");
}

/// The ranges of a shard that neither gave nor got any.
fn held_as_planned(shard: &Value) -> Value {
    let range = &shard["id_range"];
    if range["start"] == range["end"] {
        Value::Array(Vec::new())
    } else {
        Value::Array(vec![range.clone()])
    }
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
    let entries = value
        .as_object()
        .unwrap_or_else(|| panic!("{value} holds no counts"));
    entries
        .iter()
        .map(|(name, count)| (name.clone(), count.as_u64().unwrap()))
        .collect()
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
