//! Runs of made-up seconds, and the verdicts on them.

use proptest::prelude::*;

use super::*;
use crawlmark_harness::fixtures::plan;
use crawlmark_harness::wire::SecondFigures;

/// Attempts, errors among them, and the time of each, ms.
type Second = [u64; 3];

/// A second with `count` attempts, all good but the `errors`, each served in `ms`.
fn second(index: u64, [count, errors, ms]: Second) -> Interval {
    let bounds = Bounds::for_timeout(plan().timeout);
    let mut timing = Timing::new(bounds);
    (0..count).for_each(|_| timing.record(ms * 1_000_000));
    let mut counters = Counters::default();
    (
        counters.items.ok,
        counters.items.failed,
        counters.requests.attempts,
    ) = (count - errors, errors, count);
    counters.requests.rejected_by_status = [(500, errors)].into();
    Interval {
        figures: SecondFigures {
            index,
            ..SecondFigures::default()
        },
        merged: ShardStats::from_parts(bounds, counters, [(Series::ServiceOk, timing)].into()),
        shards: Vec::new(),
        seconds: Vec::new(),
    }
}

fn watch(text: &str, breach: Breach, plan: &RunPlan) -> LiveThresholds {
    let condition = text.parse().unwrap();
    LiveThresholds::new(&[Objective { condition, breach }], plan)
}

/// Return the number of these seconds that it takes until the run is stopped; none if it is never
/// stopped.
fn stops_after(text: &str, warmup_s: f64, seconds: &[Second]) -> Option<usize> {
    let warmup = Duration::from_secs_f64(warmup_s);
    let mut live = watch(text, Breach::Stops, &RunPlan { warmup, ..plan() });
    seconds.iter().enumerate().find_map(|(i, numbers)| {
        live.add(&second(i as u64, *numbers));
        live.has_enough().then_some(i + 1)
    })
}

/// The row on a run of these seconds, given in any order, that lasted `duration_s` of as many
/// seconds as planned.
fn closed(
    text: &str,
    seconds: &[(usize, Second)],
    duration_s: f64,
    planned: Option<f64>,
) -> GateReport {
    let duration = planned.map(Duration::from_secs_f64);
    let mut live = watch(text, Breach::Fails, &RunPlan { duration, ..plan() });
    for (i, numbers) in seconds {
        live.add(&second(*i as u64, *numbers));
        assert!(live.seconds.len() <= seconds.len().min(60));
    }
    live.judge_last(duration_s);
    let end_s = Duration::from_secs_f64(planned.unwrap_or(duration_s)).as_secs();
    live.watched.remove(0).close_by_seconds(end_s, duration_s)
}

#[test]
fn a_threshold_that_holds_without_waits_alone_is_told_and_none_on_a_part_of_a_request() {
    let mut report: Report =
        serde_json::from_str(include_str!("../../../../example/result.json")).unwrap();
    // All of the time is before sending.
    let none = report.latency["body"].clone();
    for series in [Series::ServiceOk, Series::Ttfb] {
        report
            .latency
            .insert(series.name().to_owned(), none.clone());
    }
    let told = |text: &str| {
        let condition: Condition = text.parse().unwrap();
        let objective = Objective {
            condition: condition.clone(),
            breach: Breach::Fails,
        };
        let gate = GateReport {
            corrected: condition.metric.is_corrected(report.plan.run.arrivals),
            ..objective.row(&of_report(condition.metric, &report))
        };
        assert_eq!(gate.ok, Some(true), "{text}");
        broken_by_waits(&condition, &gate, &report).is_some()
    };
    let texts = [
        "service_p99 < 500ms",
        "body_p99 < 500ms",
        "ttfb_p99 < 500ms",
        "response_p99 < 5s",
    ];
    assert_eq!(texts.map(told), [true, false, false, false]);
}

fn in_order(seconds: &[Second]) -> Vec<(usize, Second)> {
    seconds.iter().copied().enumerate().collect()
}

const GOOD: Second = [200, 0, 5];
const BAD: Second = [200, 50, 80];
const NONE: Second = [0, 0, 5];

#[test]
fn a_run_is_stopped_once_a_later_second_shows_that_a_broken_window_is_whole() {
    for (text, warmup_s, seconds, after) in [
        (
            "error_rate[1s] < 0.2",
            0.0,
            &[GOOD, GOOD, BAD, GOOD][..],
            Some(4),
        ),
        (
            "error_rate[2s] < 0.2",
            0.0,
            &[GOOD, BAD, GOOD, BAD, BAD, GOOD],
            Some(6),
        ),
        ("error_rate[2s] < 0.2", 0.0, &[BAD], None),
        (
            "service_p50[2s] < 50ms",
            0.0,
            &[GOOD, BAD, BAD, GOOD],
            Some(4),
        ),
        ("service_max[2s] < 50ms", 0.0, &[GOOD, BAD, BAD], Some(3)),
        ("service_p50[2s] < 100ms", 0.0, &[GOOD, BAD, BAD, BAD], None),
        ("rate[1s] > 100", 0.0, &[GOOD, [50, 0, 5]], None),
        ("rate[1s] > 100", 0.0, &[GOOD, [50, 0, 5], GOOD], Some(3)),
        // Without a window, everything since the start counts.
        (
            "error_rate < 0.1",
            0.0,
            &[GOOD, GOOD, GOOD, BAD, BAD, GOOD],
            Some(6),
        ),
        ("errors < 50", 0.0, &[GOOD, BAD, GOOD], Some(3)),
        ("service_p50 < 50ms", 0.0, &[GOOD, BAD, BAD, GOOD], Some(4)),
        // Too few samples say nothing, unless they break a share whatever the missing ones had been.
        ("error_rate[1s] < 0.1", 0.0, &[[99, 9, 5]; 5], None),
        ("error_rate < 0.1", 0.0, &[[99, 99, 5], NONE], None),
        ("service_p99[2s] < 1ms", 0.0, &[[4_999, 0, 5]; 5], None),
        ("service_p99[2s] < 1ms", 0.0, &[[5_000, 0, 5]; 5], Some(3)),
        (
            "error_rate[1s] < 0.1",
            0.0,
            &[GOOD, [10, 10, 5], GOOD],
            Some(3),
        ),
        ("error_rate[1s] < 0.1", 0.0, &[GOOD, [9, 9, 5], GOOD], None),
        (
            "ok_rate[1s] >= 0.9",
            0.0,
            &[GOOD, [20, 11, 5], GOOD],
            Some(3),
        ),
        ("ok_rate[1s] >= 0.9", 0.0, &[GOOD, [20, 10, 5], GOOD], None),
        ("error_rate[1s] < 0.1", 0.0, &[GOOD, NONE, GOOD], None),
        // The warm-up is left out.
        (
            "error_rate[1s] < 0.1",
            1.5,
            &[BAD, BAD, GOOD, BAD, GOOD],
            Some(5),
        ),
        ("errors < 50", 2.0, &[BAD, BAD, GOOD, BAD, GOOD], Some(5)),
    ] {
        assert_eq!(
            stops_after(text, warmup_s, seconds),
            after,
            "{text} {seconds:?}"
        );
    }
}

#[test]
fn of_several_windows_the_worst_is_told_and_the_last_is_judged_if_it_is_whole() {
    let seconds = [GOOD, BAD, [200, 60, 5], GOOD, GOOD];
    let short = [GOOD, GOOD, [50, 0, 5], [1, 0, 5]];
    for (text, seconds, duration_s, planned, row) in [
        (
            "error_rate[1s] <= 0.3",
            &seconds[..],
            5.0,
            None,
            (Some(true), Some(0.3), 5, Some(3)),
        ),
        (
            "error_rate[1s] < 0.2",
            &seconds,
            5.0,
            None,
            (Some(false), Some(0.3), 5, Some(3)),
        ),
        (
            "errors[1s] != 50",
            &seconds,
            5.0,
            None,
            (Some(false), Some(50.0), 5, Some(2)),
        ),
        (
            "errors[1s] == 0",
            &seconds[..3],
            3.0,
            None,
            (Some(false), Some(60.0), 3, Some(3)),
        ),
        (
            "error_rate[9s] < 0.2",
            &seconds,
            5.0,
            None,
            (None, None, 0, None),
        ),
        (
            "rate[1s] > 100",
            &short[..3],
            2.4,
            None,
            (Some(true), Some(200.0), 2, Some(1)),
        ),
        (
            "rate[1s] > 100",
            &short[..3],
            3.0,
            None,
            (Some(false), Some(50.0), 3, Some(3)),
        ),
        // While only the last answers come, fewer are no slower target.
        (
            "rate[1s] > 100",
            &short,
            4.0,
            Some(2.0),
            (Some(true), Some(200.0), 2, Some(1)),
        ),
        (
            "rate[1s] > 100",
            &short,
            4.0,
            Some(3.0),
            (Some(false), Some(50.0), 3, Some(3)),
        ),
        (
            "error_rate[1s] < 1%",
            &[GOOD, BAD],
            1.5,
            None,
            (Some(false), Some(0.25), 2, Some(2)),
        ),
    ] {
        let seen = closed(text, &in_order(seconds), duration_s, planned);
        let seen = (seen.ok, seen.value, seen.windows.unwrap(), seen.until_s);
        assert_eq!(seen, row, "{text} {seconds:?}");
    }
}

#[test]
fn a_threshold_passes_with_few_windows_of_too_few_samples_and_is_undecided_with_many() {
    const FEW: Second = [99, 0, 5];
    for (text, few, good, ok) in [
        ("service_mean[1s] < 1s", &[FEW][..], 9, Some(true)),
        ("service_mean[1s] < 1s", &[NONE], 9, Some(true)),
        ("service_mean[1s] < 1s", &[FEW; 2], 9, None),
        ("service_mean[1s] < 1s", &[NONE; 2], 9, None),
        ("error_rate[1s] < 5%", &[FEW], 9, Some(true)),
        ("error_rate[1s] < 5%", &[FEW; 2], 9, None),
        // Without a request, a share has nothing to judge.
        ("error_rate[1s] < 5%", &[NONE; 2], 9, Some(true)),
        ("service_max[1s] < 1s", &[FEW; 9], 1, Some(true)),
        ("service_p50[1s] < 1s", &[FEW; 3], 4, None),
        // The other window broke it.
        ("service_mean[1s] < 1ms", &[FEW; 9], 1, Some(false)),
    ] {
        let seconds = [vec![GOOD; good], few.to_vec()].concat();
        let row = closed(text, &in_order(&seconds), seconds.len() as f64, None);
        assert_eq!(row.ok, ok, "{text} {few:?}: {row:?}");
        assert!(ok.is_some() || row.why.is_some_and(|why| why.contains("fewer than")));
    }
    // While only the last answers come, nothing is due.
    let seconds = [vec![GOOD; 5], vec![NONE; 4]].concat();
    let row = closed("service_mean[1s] < 1s", &in_order(&seconds), 9.0, Some(5.0));
    assert_eq!((row.ok, row.why), (Some(true), None));
    let row = closed(
        "service_p90[1s] < 1s",
        &in_order(&[[400, 0, 5], [14, 0, 5]]),
        2.0,
        None,
    );
    let why = "not enough data: 400 samples, 1,000 needed".to_owned();
    assert_eq!((row.ok, row.why), (None, Some(why)));
}

#[test]
fn no_second_that_is_in_part_warm_up_counts() {
    let seconds = [90, 90, 30, 20, 0].map(|errors| [200, errors, 5]);
    assert_eq!(stops_after("errors < 50", 1.5, &seconds), Some(5));
    assert_eq!(stops_after("errors < 50", 1.0, &seconds), Some(3));
}

#[test]
fn after_a_stop_only_answers_come_and_nothing_is_judged() {
    let conditions = ["service_max[1s] < 50ms", "errors[1s] < 60"];
    let objectives = conditions.map(|text| Objective {
        condition: text.parse().unwrap(),
        breach: Breach::Stops,
    });
    let mut live = LiveThresholds::new(&objectives, &plan());
    for (numbers, i) in [GOOD, BAD, [200, 70, 90], BAD].iter().zip(0..) {
        live.add(&second(i, *numbers));
    }
    live.judge_last(4.0);
    assert_eq!(live.stop, Some(0));
    let judged: Vec<u64> = live.watched.iter().map(|watched| watched.judged).collect();
    assert_eq!(judged, [2, 2]);
}

proptest! {
    #[test]
    fn windows_are_judged_once_and_alike_in_whatever_order_their_seconds_come(
        seconds in prop::collection::vec(prop::sample::select(vec![GOOD, BAD, [50, 4, 5], [200, 60, 90]]), 1..9)
            .prop_flat_map(|seconds| Just(in_order(&seconds)).prop_shuffle()),
        text in prop::sample::select(vec!["rate[1s] > 100", "error_rate[2s] < 20%", "errors[3s] < 80", "service_mean[2s] < 50ms"]),
    ) {
        let mut ordered = seconds.clone();
        ordered.sort_unstable();
        let [shuffled, ordered] = [seconds, ordered].map(|seconds| {
            let row = closed(text, &seconds, seconds.len() as f64, None);
            (row.ok, row.value, row.windows, row.why)
        });
        prop_assert_eq!(shuffled, ordered);
    }
}
