//! A capacity from saved runs: what a probe reads, when it speaks for or against its target, and
//! what is said, drawn and saved of a search.
//!
//! The golden files are in `tests/golden`;
//! `INSTA_UPDATE=always cargo test -p crawlmark-results --test capacity` writes them again when a
//! change is meant.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::time::Duration;

use crawlmark_harness::sample::ErrorKind;
use crawlmark_harness::stats::SecondCounts;
use crawlmark_results::run::gates::Condition;
use crawlmark_results::run::report::{IntervalRow, Report, Verdict};
use crawlmark_results::show::plot;
use crawlmark_results::studies::StudyResult;
use crawlmark_results::studies::capacity::search::{
    Bounds, Ending, ProbeKind, ProbeResult, RateState, Search, SearchStep,
};
use crawlmark_results::studies::capacity::{
    Capacity, Connections, Flow, Pace, ProbeFailure, ProbePlan, ProbeReport, Question, SearchEnd,
    SearchHead, SearchOutcome, Wanted, capacity_headline, in_hindsight, journal_line, judge,
    read_journal, search_of, searches_differ,
};

/// A run of an open loop as it was saved once, of which a test changes what it is about: 5 seconds,
/// the first of them warm-up, in which all went well.
fn saved() -> Report {
    let golden = include_str!("golden/whole.json.snap");
    let mut report: Report = serde_json::from_str(golden.splitn(3, "---").nth(2).unwrap()).unwrap();
    let row = report
        .intervals
        .iter()
        .find(|row| row.attempts > 0)
        .unwrap()
        .clone();
    let row = |start_s| IntervalRow {
        start_s,
        counts: SecondCounts {
            attempts: 1_000,
            items: 1_000,
            ok: 1_000,
            not_found: 0,
            failed: 0,
            throttled: 0,
            aborted: 0,
            ..row.counts.clone()
        },
        ..row.clone()
    };
    report.intervals = (0..5).map(row).collect();
    report.plan.run.warmup = Duration::from_secs(1);
    report.schedule = None;
    report.stopped_by = None;
    report.totals.errors_by_kind.clear();
    report.validity.verdict = Verdict::Valid;
    let service = report.latency["service"].clone();
    report.latency.insert("response".to_owned(), service);
    if let Some(lag) = report.latency.get_mut("sched_lag") {
        (lag.p50_us, lag.p90_us, lag.p99_us) = (Some(10.0), Some(20.0), Some(50.0));
    }
    report
}

fn objectives(texts: &[&str]) -> Vec<Condition> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn throttled() -> Vec<Condition> {
    objectives(&["throttled_rate < 1%", "error_rate < 1%"])
}

fn wanted(objectives: &[Condition]) -> Wanted<'_> {
    Wanted {
        objectives,
        precision: 0.02,
    }
}

fn judged(report: &Report, objectives: &[Condition]) -> (ProbeResult, Vec<String>) {
    judge(report, wanted(objectives), Connections::Enough)
}

fn seen(report: &Report, objectives: &[Condition]) -> ProbeResult {
    judged(report, objectives).0
}

#[test]
fn shares_are_judged_after_the_warm_up_and_of_the_later_half() {
    let mut report = saved();
    assert_eq!(seen(&report, &throttled()), ProbeResult::Pass);
    // What a limit lets through at once is used up in the warm-up, or refuses there.
    report.intervals[0].throttled = 900;
    assert_eq!(seen(&report, &throttled()), ProbeResult::Pass, "warm-up");
    report.intervals[1].throttled = 30;
    assert_eq!(
        seen(&report, &throttled()),
        ProbeResult::Pass,
        "0.75 % of all"
    );
    report.intervals[1].throttled = 0;
    report.intervals[4].throttled = 30;
    let (seen, reasons) = judged(&report, &throttled());
    assert_eq!(seen, ProbeResult::Fail, "1.5 % of the later half");
    assert_eq!(
        reasons,
        ["throttled_rate 1.50 %, but the objective is throttled_rate < 1%"]
    );
    (
        report.intervals[4].throttled,
        report.intervals[4].ok,
        report.intervals[4].failed,
    ) = (0, 900, 100);
    assert!(judged(&report, &throttled()).1[0].starts_with("error_rate 5.00 %"));
}

#[test]
fn what_this_side_may_have_done_says_nothing_of_the_target() {
    let slow = objectives(&["response_p50 < 1us"]);
    let mut report = saved();
    assert_eq!(seen(&report, &slow), ProbeResult::Fail);
    for verdict in [
        Verdict::ClientLimited,
        Verdict::Disturbed,
        Verdict::BudgetLimited,
    ] {
        report.validity.verdict = verdict;
        assert_eq!(seen(&report, &slow), ProbeResult::Void, "{verdict:?}");
        assert_eq!(
            seen(&report, &objectives(&["response_p50 < 1h"])),
            ProbeResult::Pass,
            "{verdict:?}: it was good enough"
        );
    }
    // A refusal is the target's, however busy this machine was.
    report.validity.verdict = Verdict::ClientLimited;
    report.intervals[4].throttled = 500;
    assert_eq!(seen(&report, &throttled()), ProbeResult::Fail);
    // But not of requests that came late, all at once.
    report.latency.get_mut("sched_lag").unwrap().p99_us = Some(1e9);
    assert_eq!(seen(&report, &throttled()), ProbeResult::Void);
    report.stopped_by = Some("error_rate < 0.5".to_owned());
    assert_eq!(
        seen(&report, &throttled()),
        ProbeResult::Collapse,
        "what most of goes wrong is not pushed again"
    );
    report
        .totals
        .errors_by_kind
        .insert(ErrorKind::TooManyFiles, 3);
    assert_eq!(seen(&report, &throttled()), ProbeResult::Void);
}

#[test]
fn refusals_of_what_this_client_sent_in_bunches_say_nothing_of_the_target() {
    let mut report = saved();
    // Of 1,000 requests 50 came 40 ms late.
    let mut lag = hdrhistogram::Histogram::<u64>::new(3).unwrap();
    lag.record_n(10_000, 950).unwrap();
    lag.record_n(40_000_000, 50).unwrap();
    let mut bytes = Vec::new();
    hdrhistogram::serialization::Serializer::serialize(
        &mut hdrhistogram::serialization::V2Serializer::new(),
        &lag,
        &mut bytes,
    )
    .unwrap();
    let entry = report.latency.get_mut("sched_lag").unwrap();
    (entry.count, entry.censored, entry.p99_us) = (1_000, 0, Some(40_000.0));
    entry.hdr = Some(base64::Engine::encode(
        &base64::engine::general_purpose::STANDARD,
        bytes,
    ));
    let wanted = objectives(&["response_p99 < 1h", "throttled_rate < 1%"]);
    report.intervals[4].throttled = 200;
    let (seen, why) = judged(&report, &wanted);
    assert_eq!(
        seen,
        ProbeResult::Void,
        "10 % of the later half were refused, and 5 % came late"
    );
    assert!(
        why.iter()
            .any(|why| why.starts_with("5.0 % of requests went out late")),
        "{why:?}"
    );
    report.intervals[4].throttled = 300;
    assert_eq!(
        judged(&report, &wanted).0,
        ProbeResult::Fail,
        "more than that"
    );
}

#[test]
fn refusals_that_repeat_to_the_digit_are_the_targets() {
    let question = question();
    let (probes, _) = probes();
    let void = |share: f64| ProbeReport {
        per_min: Pace::nearest(900.0),
        rate_per_s: 900.0,
        seen: ProbeResult::Void,
        bunched: true,
        throttled_share: share,
        kind: ProbeKind::Full,
        ..probes[0].clone()
    };
    let standing = |shares: &[f64]| {
        let probes: Vec<ProbeReport> = shares.iter().copied().map(void).collect();
        let read: Vec<ProbeResult> = in_hindsight(&question, probes.clone())
            .iter()
            .map(|probe| probe.seen)
            .collect();
        let search = search_of(&question, &probes);
        let tally = search.rates().next().map(|(_, tally)| tally.standing());
        (read, tally)
    };
    assert_eq!(
        standing(&[0.0196, 0.0196, 0.0196]),
        (vec![ProbeResult::Fail; 3], Some(RateState::Fails))
    );
    assert_eq!(
        standing(&[0.0196, 0.05, 0.011]),
        (vec![ProbeResult::Void; 3], Some(RateState::Unknown)),
        "that is noise"
    );
    assert_eq!(
        standing(&[0.0196, 0.0196]),
        (vec![ProbeResult::Void; 2], Some(RateState::Unknown)),
        "twice may be chance"
    );
}

#[test]
fn a_search_of_an_earlier_version_is_still_read() {
    let (probes, _) = probes();
    let mut line: serde_json::Value = serde_json::to_value(&probes[0]).unwrap();
    let fields = line.as_object_mut().unwrap();
    for field in [
        "accepted_per_s",
        "let_through_per_s",
        "let_through_least_per_s",
        "bunched",
        "slow",
        "counted",
        "refused_by_s",
        "flow",
        "later_flow",
        "busy",
    ] {
        assert!(fields.remove(field).is_some(), "{field}");
    }
    let text = journal_line(&begun()).unwrap() + &journal_line(&line).unwrap();
    let (_, read) = read_journal(&text).unwrap();
    assert_eq!(
        (
            read[0].let_through_per_s,
            read[0].bunched,
            read[0].slow.len()
        ),
        (None, false, 0)
    );
}

#[test]
fn what_is_not_found_is_not_accepted() {
    let mut report = saved();
    let plan = |number| {
        let result = String::new();
        ProbePlan {
            number,
            pace: Pace::nearest(1_000.0),
            kind: ProbeKind::Full,
            connections: Connections::Enough,
            result,
        }
    };
    let (mut search, ending) = probes();
    for (missing, accepted) in [(250, 750.0), (1_000, 0.0)] {
        for row in &mut report.intervals {
            (row.ok, row.not_found) = (1_000 - missing, missing);
        }
        let probe = ProbeReport::new(plan(1), &report, wanted(&throttled()));
        assert_eq!(
            (probe.seen, probe.accepted_per_s),
            (ProbeResult::Pass, Some(accepted))
        );
        let counted = probe.counted.unwrap();
        assert_eq!(
            (counted.attempts, counted.good, counted.not_found),
            (4_000, 4 * (1_000 - missing), 4 * missing)
        );
        for of_search in &mut search {
            (of_search.accepted_per_s, of_search.counted) = (Some(accepted * 4.0), probe.counted);
        }
        let capacity = Capacity::new(
            String::new(),
            begun(),
            search.clone(),
            SearchEnd::Known(ending),
        );
        let text = capacity.doc().terminal(1_000);
        assert!(
            text.contains(&format!("{} % of the responses were 404", missing / 10)),
            "{text}"
        );
        if missing == 1_000 {
            assert_eq!(
                (capacity.outcome, capacity.capacity_per_s),
                (SearchOutcome::Unconfirmed, None)
            );
            assert!(
                text.starts_with("No good response: every request was not found (404 or 410)."),
                "{text}"
            );
        } else {
            assert_eq!(
                (capacity.outcome, capacity.capacity_per_s),
                (SearchOutcome::Found, Some(3_000.0))
            );
        }
    }
}

#[test]
fn what_a_busy_machine_may_have_done_is_not_the_targets() {
    let wanted_of = objectives(&["response_p99 < 1h", "error_rate < 1%"]);
    let plan = || ProbePlan {
        number: 1,
        pace: Pace::nearest(1_000.0),
        kind: ProbeKind::Full,
        connections: Connections::Enough,
        result: String::new(),
    };
    let judged = |report: &Report| {
        let probe = ProbeReport::new(plan(), report, wanted(&wanted_of));
        (probe.seen, probe.busy)
    };
    // Of each second 100 requests time out, which makes the run limited by its target whatever else
    // there was.
    let mut report = saved();
    for row in &mut report.intervals {
        (row.ok, row.failed) = (900, 100);
    }
    report.validity.verdict = Verdict::TargetLimited;
    report.totals.attempts = 5_000;
    report.totals.errors_by_kind.insert(ErrorKind::Timeout, 500);
    assert_eq!(judged(&report), (ProbeResult::Fail, false));
    let busy = |report: &Report| {
        let mut busy = report.clone();
        for shard in &mut busy.shards {
            shard.usage.run_delay_share = Some(0.5);
        }
        busy
    };
    assert_eq!(
        judged(&busy(&report)),
        (ProbeResult::Void, true),
        "the shards waited for a CPU"
    );
    // Connections that the target closed are its doing.
    report.totals.errors_by_kind.clear();
    report.totals.errors_by_kind.insert(ErrorKind::Closed, 500);
    assert_eq!(judged(&busy(&report)), (ProbeResult::Fail, false));
    // So are connections that it did not take in time, and segments that were sent again on the way
    // to it.
    report
        .totals
        .errors_by_kind
        .insert(ErrorKind::ConnectTimeout, 500);
    report.environment.colocated = true;
    let network = &mut report.host.network;
    (
        network.tcp_retransmits,
        network.listen_overflows,
        network.listen_drops,
    ) = (Some(900), Some(500), Some(500));
    assert_eq!(judged(&report), (ProbeResult::Fail, false));
    // A lack of connections may come of answers that were read late.
    let mut starved = saved();
    starved.validity.verdict = Verdict::ConcurrencyLimited;
    for row in &mut starved.intervals {
        row.response_p50_us = Some(20_000.0 + 30_000.0 * row.start_s as f64);
    }
    assert_eq!(judged(&starved).0, ProbeResult::Fail);
    assert_eq!(judged(&busy(&starved)), (ProbeResult::Void, true));
}

#[test]
fn an_objective_of_few_requests_is_broken_by_how_many() {
    let mut report = saved();
    let mut times = hdrhistogram::Histogram::<u64>::new(3).unwrap();
    times.record_n(20_000_000, 95).unwrap();
    // No more than three digits are kept: these may be 500 ms or less.
    times.record_n(499_900_000, 5).unwrap();
    let mut bytes = Vec::new();
    let mut v2 = hdrhistogram::serialization::V2Serializer::new();
    hdrhistogram::serialization::Serializer::serialize(&mut v2, &times, &mut bytes).unwrap();
    let entry = report.latency.get_mut("response").unwrap();
    (entry.count, entry.censored, entry.p99_us, entry.max_us) = (100, 0, None, Some(499_900.0));
    entry.hdr = Some(base64::Engine::encode(
        &base64::engine::general_purpose::STANDARD,
        bytes,
    ));
    let (seen, why) = judged(&report, &objectives(&["response_p99 < 499.9ms"]));
    assert_eq!(
        (seen, why),
        (
            ProbeResult::Fail,
            vec!["5 of 100 requests broke response_p99 < 499.9ms, and 1 may".to_owned()]
        )
    );
}

#[test]
fn an_edited_journal_is_refused() {
    let (probes, _) = probes();
    let refused = |number: usize, edit: &dyn Fn(&mut serde_json::Value)| {
        let mut text = journal_line(&begun()).unwrap();
        for probe in &probes {
            let mut line = serde_json::to_value(probe).unwrap();
            if probe.number == number {
                edit(&mut line);
            }
            text += &journal_line(&line).unwrap();
        }
        read_journal(&text).err()
    };
    let passed = probes
        .iter()
        .find(|probe| probe.seen == ProbeResult::Pass)
        .unwrap()
        .number;
    let failed = probes
        .iter()
        .find(|probe| probe.seen == ProbeResult::Fail)
        .unwrap()
        .number;
    assert_eq!(refused(passed, &|_| {}), None);
    let set = |number, path: &str, value: serde_json::Value| {
        refused(number, &|line| {
            *line.pointer_mut(path).unwrap() = value.clone();
        })
        .unwrap_or_else(|| panic!("{path} = {value} was read"))
    };
    for (number, path, value, why) in [
        (
            passed,
            "/number",
            99.into(),
            "`number` is 99, but its position is 1",
        ),
        (
            passed,
            "/rate_per_s",
            700.0.into(),
            "`rate_per_s` is 700, but per_min / 60 is 500",
        ),
        (
            passed,
            "/seen",
            "fail".into(),
            "`seen` is not a pass, but `reasons` holds 0",
        ),
        (
            failed,
            "/seen",
            "pass".into(),
            "`seen` is pass, but `reasons` holds 1",
        ),
        (
            failed,
            "/reasons",
            serde_json::json!([]),
            "`seen` is not a pass, but `reasons` holds 0",
        ),
        (
            passed,
            "/sent_share",
            0.5.into(),
            "`seen` is pass, but `sent_share` is 0.5",
        ),
        (
            passed,
            "/throttled_share",
            0.005.into(),
            "`throttled_share` is 0.005, but that of `counted` is 0",
        ),
        (
            passed,
            "/error_share",
            2.0.into(),
            "`error_share` is 2, which is not a share",
        ),
        (
            passed,
            "/counted/good",
            3.into(),
            "`counted.attempts` is 4000, which is not the sum of the others",
        ),
        (
            passed,
            "/accepted_per_s",
            501.0.into(),
            "`accepted_per_s` is 501, but the good part of the rate is 500",
        ),
        (
            passed,
            "/response_p99_us",
            90_000.0.into(),
            "response_p99 is 90000, but the objective is response_p99 < 50ms",
        ),
        (
            passed,
            "/response_p50_us",
            300.0.into(),
            "`response_p50_us` is 300, but response_p99_us is",
        ),
        (
            passed,
            "/started_at",
            "yesterday".into(),
            "`started_at` is yesterday, which is not a time",
        ),
    ] {
        let said = set(number, path, value);
        assert!(said.contains(why), "{path}: {said}");
    }
}

#[test]
fn a_probe_that_did_not_end_has_a_row_and_says_nothing_of_its_rate() {
    let (mut probes, ending) = probes();
    let pace = Pace::nearest(4_000.0);
    let number = probes.len() + 1;
    let result = "rounds/099".to_owned();
    let plan = ProbePlan {
        number,
        pace,
        kind: ProbeKind::Full,
        connections: Connections::Enough,
        result,
    };
    let times = ["2026-11-22T10:00:00.000Z", "2026-11-22T10:00:01.000Z"].map(str::to_owned);
    let before = Capacity::new(
        String::new(),
        begun(),
        probes.clone(),
        SearchEnd::Known(ending),
    );
    probes.push(ProbeReport::lost(
        plan,
        times,
        64,
        "shard 0 was killed by signal 9".to_owned(),
    ));
    let after = Capacity::new(
        String::new(),
        begun(),
        probes.clone(),
        SearchEnd::Known(ending),
    );
    assert_eq!(
        (before.outcome, &before.rates),
        (after.outcome, &after.rates)
    );
    let text = after.doc().terminal(200);
    assert!(text.contains("1 did not end"), "{text}");
    assert!(
        text.contains(&format!(
            "probe {number} at 4,000/s: shard 0 was killed by signal 9"
        )),
        "{text}"
    );
    let mut lines = journal_line(&begun()).unwrap();
    for probe in &probes {
        lines += &journal_line(probe).unwrap();
    }
    assert_eq!(read_journal(&lines).unwrap().1, probes);
}

/// The text of a search with such probes.
fn told(question: Question, probes: Vec<ProbeReport>, end: SearchEnd) -> String {
    let begun = SearchHead {
        question,
        ..begun()
    };
    Capacity::new(String::new(), begun, probes, end)
        .doc()
        .terminal(1_000)
}

#[test]
fn what_a_search_cannot_have_seen_is_said() {
    let (probes, ending) = probes();
    let queue = "because a target that queues responds late only after some time";
    let short = Question {
        probe_s: 2.0,
        ..question()
    };
    assert!(!told(question(), probes.clone(), SearchEnd::Known(ending)).contains(queue));
    assert!(
        !told(short.clone(), probes.clone(), SearchEnd::Known(ending)).contains(queue),
        "all were answered"
    );
    let mut lagging = probes.clone();
    for probe in &mut lagging {
        probe.flow = Some(Flow {
            scheduled: 20_000,
            answered: 19_000,
        });
    }
    assert!(
        !told(short.clone(), lagging.clone(), SearchEnd::Known(ending)).contains(queue),
        "within the precision"
    );
    let said = |question, lowest| {
        let text = told(question, lagging.clone(), SearchEnd::Known(ending));
        assert!(
            text.contains(&format!("may be as low as {lowest}, {queue}")),
            "{text}"
        );
        assert!(text.contains("Use --probe 4s or more to see it."), "{text}");
    };
    let precise = Bounds {
        precision: 0.01,
        ..short.bounds
    };
    said(
        Question {
            bounds: precise,
            ..short.clone()
        },
        "3,934/s",
    );
    let timeless = Question {
        objectives: vec!["throttled_rate < 0.01".to_owned()],
        ..short
    };
    said(timeless, "3,800/s");
    let uneven = |us| {
        let fail = probes
            .iter()
            .map(|probe| probe.rate_per_s)
            .find(|rate| (4_001.0..4_060.0).contains(rate))
            .unwrap();
        let mut probes = probes.clone();
        for probe in probes
            .iter_mut()
            .filter(|probe| probe.per_min == Pace::nearest(fail))
        {
            (probe.throttled_share, probe.sched_lag_p99_us) = (0.02, Some(us));
        }
        told(question(), probes, SearchEnd::Known(ending)).contains("if it allows no bursts")
    };
    assert!(uneven(50.0) && !uneven(20.0), "a tenth of 247 us");
    // Ends that noise left further apart than was asked for, and a target that wants to be left
    // alone.
    let narrow = Question {
        bounds: Bounds {
            precision: 0.001,
            ..question().bounds
        },
        ..question()
    };
    assert!(
        told(narrow, probes.clone(), SearchEnd::Known(ending))
            .contains("the capacity is not known more closely")
    );
    let mut asked = probes;
    asked.last_mut().unwrap().longest_promise_s = 3_600.0;
    assert!(
        told(question(), asked, SearchEnd::OutOfTime).contains("the target asked for a wait of")
    );
}

#[test]
fn a_narrow_terminal_has_fewer_columns() {
    let width = |columns| {
        let text = capacity().doc().terminal(columns);
        text.lines().map(|line| line.chars().count()).max().unwrap()
    };
    for columns in [40, 55, 80] {
        assert!(width(columns) <= columns, "{} of {columns}", width(columns));
    }
}

#[test]
fn a_lack_of_connections_is_the_targets_if_there_were_enough() {
    let mut report = saved();
    report.validity.verdict = Verdict::ConcurrencyLimited;
    let slow = objectives(&["response_p50 < 1us"]);
    assert_eq!(
        judge(&report, wanted(&slow), Connections::Enough).0,
        ProbeResult::Fail
    );
    assert_eq!(
        judge(&report, wanted(&slow), Connections::Bounded).0,
        ProbeResult::Void
    );
}

#[test]
fn a_target_that_falls_behind_fails_before_its_times_are_too_long() {
    let mut report = saved();
    let slow = objectives(&["response_p99 < 1h", "throttled_rate < 1%"]);
    let grow = |report: &mut Report, each_us: f64| {
        for row in &mut report.intervals {
            row.response_p50_us = Some(20_000.0 + each_us * row.start_s as f64);
        }
    };
    grow(&mut report, 5_000.0);
    assert_eq!(
        seen(&report, &slow),
        ProbeResult::Pass,
        "half a percent more than it manages is within the precision"
    );
    grow(&mut report, 30_000.0);
    let (seen_of, why) = judged(&report, &slow);
    assert_eq!(seen_of, ProbeResult::Fail);
    assert_eq!(
        why,
        ["the median response time grew by 30.0 ms each second: the target fell behind"]
    );
    report.validity.verdict = Verdict::Disturbed;
    assert_eq!(
        seen(&report, &slow),
        ProbeResult::Void,
        "a disturbed machine may get slower, too"
    );
    report.validity.verdict = Verdict::Valid;
    // The seconds after the last request was due only empty the queue, and the warm-up fills it.
    report.plan.run.duration = Some(Duration::from_secs(4));
    assert_eq!(
        seen(&report, &slow),
        ProbeResult::Pass,
        "three seconds are too few to tell"
    );
}

/// What was asked of a simulated target.
fn question() -> Question {
    Question {
        what: "--target-limit 4000/s:burst=100 | <b>".to_owned(),
        objectives: vec![
            "response_p99 < 50ms".to_owned(),
            "throttled_rate < 0.01".to_owned(),
        ],
        by_default: false,
        arrivals: "constant".to_owned(),
        bounds: Bounds {
            least: Pace::nearest(500.0),
            greatest: Pace::nearest(100_000.0),
            precision: 0.02,
        },
        warmup_s: 1.0,
        probe_s: 4.0,
        seed: 1,
    }
}

/// A search of a target that bears 4,000/s and whose times grow with the rate.
fn probes() -> (Vec<ProbeReport>, Ending) {
    let report = saved();
    let (mut search, mut probes) = (Search::new(question().bounds), Vec::new());
    loop {
        let (pace, kind) = match search.next() {
            SearchStep::Done(ending) => return (probes, ending),
            SearchStep::Probe(pace, kind) => (pace, kind),
        };
        let number = probes.len() + 1;
        let result = format!("rounds/{number:03}");
        let plan = ProbePlan {
            number,
            pace,
            kind,
            connections: Connections::Enough,
            result,
        };
        let rate = pace.per_s();
        let (seen, reasons) = match () {
            () if number == 5 => (
                ProbeResult::Void,
                vec!["1 % of requests went out at least 5.00 ms late".to_owned()],
            ),
            () if rate <= 4_000.0 => (ProbeResult::Pass, vec![]),
            () if rate > 7_000.0 => (ProbeResult::Collapse, vec!["stopped".to_owned()]),
            () => (
                ProbeResult::Fail,
                vec![
                    "throttled_rate 3.10 %, but the objective is throttled_rate < 0.01".to_owned(),
                ],
            ),
        };
        let us = 1e6 / (4_400.0 - rate.min(4_350.0));
        search.note(pace, kind, seen);
        probes.push(ProbeReport {
            seen,
            reasons,
            response_p50_us: Some(us / 2.0),
            response_p99_us: Some(us),
            response_p99_at_least: false,
            achieved_per_s: rate,
            ..ProbeReport::new(plan, &report, wanted(&[]))
        });
    }
}

/// The same of a machine.
fn begun() -> SearchHead {
    SearchHead {
        crawlmark_version: "0.1.0".to_owned(),
        ..SearchHead::here(question(), saved().environment, 7)
    }
}

fn capacity() -> Capacity {
    let (probes, ending) = probes();
    Capacity::new(
        "nightly".to_owned(),
        begun(),
        probes,
        SearchEnd::Known(ending),
    )
}

fn golden(name: &str, text: &str) {
    insta::with_settings!({ snapshot_path => "golden", prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!(name, text);
    });
}

#[test]
fn a_search_is_told_in_text_and_markdown() {
    let capacity = capacity();
    assert_eq!(capacity.outcome, SearchOutcome::Found);
    let (pass, fail) = (
        capacity.capacity_per_s.unwrap(),
        capacity.fails_at_per_s.unwrap(),
    );
    assert!(
        pass <= 4_000.0 && 4_000.0 < fail && fail / pass <= 1.02,
        "{pass} to {fail}"
    );
    golden("capacity.txt", &capacity.doc().terminal(100));
    golden("capacity.md", &capacity.doc().markdown());
}

#[test]
fn a_failed_probe_has_a_cause() {
    let (probes, _) = probes();
    let wanted = objectives(&[
        "response_p99 < 50ms",
        "error_rate < 1%",
        "throttled_rate < 1%",
        "items > 5",
    ]);
    let cause = |seen: ProbeResult, why: &str, error_share: f64| {
        let reasons = vec![why.to_owned()];
        ProbeFailure::of(
            &ProbeReport {
                seen,
                reasons,
                error_share,
                ..probes[0].clone()
            },
            &wanted,
        )
    };
    for (why, errors, expected) in [
        (
            "throttled_rate 3.10 %, but the objective is throttled_rate < 0.01",
            0.0,
            ProbeFailure::Throttled,
        ),
        (
            "error_rate 3.10 %, but the objective is error_rate < 0.01",
            0.9,
            ProbeFailure::Errors,
        ),
        (
            "stopped, because `throttled_rate < 0.5` did not hold",
            0.0,
            ProbeFailure::Throttled,
        ),
        (
            "response_p99 80.0 ms, but the objective is response_p99 < 50ms",
            0.0,
            ProbeFailure::Latency,
        ),
        (
            "5 of 100 requests broke response_p99 < 50ms, and 1 may",
            0.0,
            ProbeFailure::Latency,
        ),
        (
            "the median response time grew by 5.00 ms each second: the target fell behind",
            0.0,
            ProbeFailure::Latency,
        ),
        (
            "passed perhaps only by a burst: where the target refuses requests, it accepts only 500/s, so longer probes of 502/s fail once a burst \
             is used up. A limit without bursts is higher, but refuses requests that arrive close together: a longer --probe tells which",
            0.0,
            ProbeFailure::Throttled,
        ),
        (
            "the refusals are the target's: in probes where it refused requests, it accepted 500/s",
            0.5,
            ProbeFailure::Errors,
        ),
        (
            "all of 64 connections were waiting for a response when more requests were due",
            0.0,
            ProbeFailure::Connections,
        ),
        (
            "items 4, but the objective is items > 5",
            0.0,
            ProbeFailure::Other,
        ),
    ] {
        assert_eq!(
            cause(ProbeResult::Fail, why, errors),
            Some(expected),
            "{why}"
        );
        assert_eq!(cause(ProbeResult::Void, why, errors), None);
    }
}

#[test]
fn every_outcome_has_a_sentence_of_its_own() {
    let (probes, _) = probes();
    let pace = Pace::nearest(4_000.0);
    let endings = [
        SearchEnd::Known(Ending::LeastFails(pace)),
        SearchEnd::Known(Ending::GreatestPasses(pace)),
        SearchEnd::Known(Ending::ClientLimited(Some(pace))),
        SearchEnd::Known(Ending::Unsteady {
            fail: pace,
            pass: pace,
        }),
        SearchEnd::Known(Ending::Undecided),
    ];
    let told = |probes: &[ProbeReport], end| {
        capacity_headline(&Capacity::new(String::new(), begun(), probes.to_vec(), end))
    };
    let mut sentences: Vec<String> = endings.into_iter().map(|end| told(&probes, end)).collect();
    // As far as they settle nothing, neither does the sentence.
    sentences.extend([
        told(&probes[..2], SearchEnd::OutOfTime),
        told(&probes[..2], SearchEnd::Known(Ending::ClientLimited(None))),
    ]);
    sentences.sort();
    sentences.dedup();
    assert_eq!(sentences.len(), 7, "{sentences:#?}");
}

#[test]
fn its_plot_has_the_limit_the_band_and_what_failed() {
    let plot = plot::capacity(&capacity());
    for part in [
        "p99 &lt; 50 ms",
        "the capacity lies here",
        "failed: throttled",
        "failed: latency",
        "the knee",
        "Capacity: ",
    ] {
        assert!(plot.svg.contains(part), "{part}");
    }
    // Refused requests have a panel if there were any.
    let has_refusals = |capacity: &Capacity| {
        plot::capacity(capacity)
            .svg
            .contains("share of the requests of a probe")
    };
    let mut refusing = capacity();
    assert!(!has_refusals(&refusing));
    refusing.probes[0].throttled_share = 0.3;
    assert!(has_refusals(&refusing));
    // A search that ended after its first probe has a plot, too.
    let (probes, _) = probes();
    let short = Capacity::new(
        String::new(),
        begun(),
        probes[..1].to_vec(),
        SearchEnd::OutOfTime,
    );
    assert!(
        !plot::capacity(&short)
            .svg
            .contains("the capacity lies here")
    );
}

#[test]
fn a_journal_is_read_back_though_its_end_was_cut() {
    let (probes, _) = probes();
    let mut text = journal_line(&begun()).unwrap();
    for probe in &probes {
        text += &journal_line(probe).unwrap();
    }
    assert_eq!(read_journal(&text), Ok((begun(), probes.clone())));
    let cut = &text[..text.len() - 5];
    assert_eq!(
        read_journal(cut),
        Ok((begun(), probes[..probes.len() - 1].to_vec()))
    );
    assert_eq!(
        read_journal(&format!("{text}\n")),
        Ok((begun(), probes.clone())),
        "an empty line is none"
    );
    let beyond = text.replacen("\"per_min\":30000,", "\"per_min\":18446744073709551615,", 1);
    assert_ne!(beyond, text);
    for wrong in [
        "",
        "{}\n",
        &text.replacen("\"seen\"", "\"saw\"", 1),
        &beyond,
    ] {
        assert!(read_journal(wrong).is_err());
    }
    let unsaved = ["--header".to_owned(), "the list of --urls".to_owned()];
    let differ = |other: &SearchHead| searches_differ(&begun(), other, &unsaved);
    assert_eq!(differ(&begun()), Vec::<String>::new());
    let longer = SearchHead {
        question: Question {
            probe_s: 2.0,
            ..question()
        },
        ..begun()
    };
    assert_eq!(differ(&longer), ["--probe 4s before, 2s now"]);
    assert_eq!(
        differ(&SearchHead {
            crawlmark_version: "0.2.0".to_owned(),
            ..begun()
        }),
        ["crawlmark 0.1.0 before, 0.2.0 now"]
    );
    let greatest = Pace::nearest(600.0);
    let higher = Question {
        bounds: Bounds {
            greatest,
            ..question().bounds
        },
        ..question()
    };
    let saved = question().bounds.greatest;
    assert_eq!(
        differ(&SearchHead {
            question: higher,
            ..begun()
        }),
        [format!("--max-rate {saved} before, 600/s now")]
    );
    let other_words = SearchHead {
        fingerprint: 8,
        ..begun()
    };
    assert_eq!(
        differ(&other_words),
        ["the value of --header or the list of --urls (not saved) is another one now"]
    );
    let mut moved = begun();
    moved.environment.nofile = Some(1);
    assert_eq!(
        differ(&moved),
        Vec::<String>::new(),
        "a limit that was raised is no other machine"
    );
    moved.environment.cores += 1;
    assert_eq!(differ(&moved).len(), 1);
}

/// A probe of a search, as its number and rate say.
fn probe_at(number: usize, per_s: f64, seen: ProbeResult) -> ProbeReport {
    let (pace, result) = (Pace::nearest(per_s), format!("rounds/{number:03}"));
    let plan = ProbePlan {
        number,
        pace,
        kind: ProbeKind::Full,
        connections: Connections::Enough,
        result,
    };
    let reasons = if seen == ProbeResult::Pass {
        vec![]
    } else {
        vec!["refused".to_owned()]
    };
    ProbeReport {
        seen,
        reasons,
        ..ProbeReport::new(plan, &saved(), wanted(&[]))
    }
}

fn concluded(probes: Vec<ProbeReport>, end: SearchEnd) -> Capacity {
    Capacity::new(String::new(), begun(), probes, end)
}

#[test]
fn a_target_that_answers_less_than_is_due_over_few_connections_fails() {
    // 200/s of 238/s, and all connections in use.
    let mut report = saved();
    report.validity.verdict = Verdict::ConcurrencyLimited;
    for row in &mut report.intervals {
        (row.scheduled, row.attempts, row.items, row.ok) = (Some(238), 200, 200, 200);
    }
    let slow = objectives(&["response_p50 < 1us"]);
    let (seen, why) = judge(&report, wanted(&slow), Connections::Bounded);
    assert_eq!(seen, ProbeResult::Fail, "{why:?}");
    assert!(why[0].contains("connections were waiting"), "{why:?}");
}

#[test]
fn a_limit_is_what_most_refused_probes_agree_on() {
    let limit = |readings: &[(f64, f64)]| {
        let refused = readings
            .iter()
            .zip(1..)
            .map(|((per_s, let_through), number)| ProbeReport {
                error_share: 0.9,
                let_through_per_s: Some(*let_through),
                let_through_least_per_s: Some((let_through - 1.0).max(0.0)),
                ..probe_at(number, *per_s, ProbeResult::Fail)
            });
        concluded(refused.collect(), SearchEnd::OutOfTime).limit_per_s
    };
    // A sliding window of 30 s, read with a probe of 5 s.
    let window = [
        (800.0, 0.0),
        (566.0, 50.0),
        (476.0, 97.5),
        (436.0, 109.0),
        (418.0, 0.0),
        (228.0, 97.6),
    ];
    assert_eq!(limit(&window), None);
    assert_eq!(
        limit(&[(800.0, 150.0), (566.0, 150.0), (476.0, 100.0)]),
        Some(149.0)
    );
}

#[test]
fn a_probe_that_passed_by_a_burst_does_not_outvote_the_limit() {
    let refused = [(800.0, 150.0), (566.0, 150.0), (476.0, 0.0)]
        .iter()
        .zip(1..)
        .map(|((per_s, let_through), number)| {
            let (error_share, let_through_per_s) = (0.9, Some(*let_through));
            ProbeReport {
                error_share,
                let_through_per_s,
                ..probe_at(number, *per_s, ProbeResult::Fail)
            }
        });
    let mut probes: Vec<ProbeReport> = refused.collect();
    // One was refused in the warm-up.
    probes.push(ProbeReport {
        let_through_per_s: Some(600.0),
        ..probe_at(4, 600.0, ProbeResult::Pass)
    });
    let objectives = vec!["error_rate < 0.01".to_owned()];
    let begun = SearchHead {
        question: Question {
            objectives,
            ..question()
        },
        ..begun()
    };
    let capacity = Capacity::new(String::new(), begun, probes, SearchEnd::OutOfTime);
    assert_eq!(
        (capacity.probes[3].seen, capacity.limit_per_s),
        (ProbeResult::Fail, Some(150.0))
    );
}

#[test]
fn requests_that_are_all_refused_after_others_passed_tell_of_a_longer_limit() {
    let refused = |number, per_s| {
        let mut probe = probe_at(number, per_s, ProbeResult::Collapse);
        let counted = probe.counted.as_mut().unwrap();
        (counted.throttled, counted.good) = (counted.attempts, 0);
        (probe.throttled_share, probe.refused_by_s) = (1.0, Some(1.0));
        probe
    };
    let passed = vec![
        probe_at(1, 500.0, ProbeResult::Pass),
        probe_at(2, 1_000.0, ProbeResult::Pass),
    ];
    let longer = "The limit seems to count over a longer time than a probe (5.00 s): probe 3 at 900/s had all of its requests \
                  refused after others passed. Use a --probe of at least that time.";
    let headline = |last| {
        capacity_headline(&concluded(
            [passed.clone(), vec![last]].concat(),
            SearchEnd::OutOfTime,
        ))
    };
    assert!(
        headline(refused(3, 900.0)).contains(longer),
        "{}",
        headline(refused(3, 900.0))
    );
    assert!(
        !headline(refused(3, 2_000.0)).contains(longer),
        "none passed at that rate"
    );
}

#[test]
fn not_found_answers_alone_are_no_capacity() {
    let missing = |number, per_s| {
        let mut probe = probe_at(number, per_s, ProbeResult::Pass);
        let counted = probe.counted.as_mut().unwrap();
        (counted.not_found, counted.good) = (counted.attempts, 0);
        probe.accepted_per_s = Some(0.0);
        probe
    };
    let probes = (1..=3).map(|number| missing(number, 4_000.0)).collect();
    let capacity = concluded(
        probes,
        SearchEnd::Known(Ending::GreatestPasses(Pace::nearest(4_000.0))),
    );
    let headline = capacity_headline(&capacity);
    assert!(
        headline.starts_with("No good response: every request was not found (404 or 410)."),
        "{headline}"
    );
}

#[test]
fn short_probes_are_named_and_the_marks_are_explained_at_the_terminal() {
    let (probes, _) = probes();
    let text = concluded(probes, SearchEnd::OutOfTime).doc().terminal(200);
    let scouted = text.lines().find(|line| line.contains("1,000/s")).unwrap();
    assert!(
        scouted.contains("short") && !text.contains("+0 -0"),
        "{text}"
    );
    assert!(
        text.contains("Probes: + passed, - failed, ? void"),
        "{text}"
    );
    assert!(
        text.contains(
            "the time for the search (--budget) was used up; to continue, repeat the command"
        ),
        "{text}"
    );
    // Each probe is counted: short ones apart, for the table leaves them out.
    assert!(
        text.contains("17: 7 passed (4 short), 9 failed, 1 void"),
        "{text}"
    );
}
