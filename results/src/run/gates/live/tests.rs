//! Runs of made-up seconds, and the verdicts on them.

use proptest::prelude::*;

use super::*;
use crawlmark_harness::fixtures::plan;
use crawlmark_harness::stats::{AnswerBins, Bins};
use crawlmark_harness::wire::{Scheduled, SecondFigures};

/// A second with `count` attempts, all good but the `errors`, each served in `ms`.
fn second(index: u64, [count, errors, ms]: [u64; 3]) -> Interval {
    let bounds = Bounds::for_timeout(plan().timeout);
    let mut timing = Timing::new(bounds);
    (0..count).for_each(|_| timing.record(ms * 1_000_000));
    let mut counters = Counters::default();
    (
        counters.items.ok,
        counters.items.failed,
        counters.requests.attempts,
    ) = (count - errors, errors, count);
    Interval {
        figures: SecondFigures {
            index,
            ..SecondFigures::default()
        },
        warmup: Counters::default(),
        merged: ShardStats::from_parts(bounds, counters, [(Series::ServiceOk, timing)].into()),
        scheduled: Scheduled::default(),
        answers: AnswerBins::default(),
        bins: Bins::default(),
        shards: Vec::new(),
        seconds: Vec::new(),
    }
}

fn lookout(text: &str, breach: Breach, warmup_s: f64) -> LiveThresholds {
    let mut plan = plan();
    plan.warmup = Duration::from_secs_f64(warmup_s);
    LiveThresholds::new(
        &[Objective {
            condition: text.parse().unwrap(),
            breach,
        }],
        &plan,
    )
}

/// Return the number of these seconds that it takes until the run is stopped; none if it is never
/// stopped.
fn stops_after(text: &str, warmup_s: f64, seconds: &[[u64; 3]]) -> Option<usize> {
    let mut lookout = lookout(text, Breach::Stops, warmup_s);
    seconds.iter().enumerate().find_map(|(i, numbers)| {
        lookout.hear(&second(i as u64, *numbers));
        lookout.has_enough().then_some(i + 1)
    })
}

/// Verdict, value, windows judged and the end of the worst, of a run of these seconds whose report
/// says nothing.
fn verdict(
    text: &str,
    seconds: &[[u64; 3]],
    duration_s: f64,
) -> (Option<bool>, Option<f64>, u64, Option<u64>) {
    let mut lookout = lookout(text, Breach::Fails, 0.0);
    for (i, numbers) in seconds.iter().enumerate() {
        lookout.hear(&second(i as u64, *numbers));
    }
    lookout.judge_last(duration_s);
    let watched = lookout.watched.remove(0);
    let worst = watched.open.clone().or_else(|| watched.worst.clone());
    let held = worst
        .as_ref()
        .and_then(|worst| watched.objective.condition.judge(&worst.measured));
    (
        held,
        worst.as_ref().and_then(|w| w.measured.value()),
        watched.judged,
        worst.map(|w| w.until_s),
    )
}

const GOOD: [u64; 3] = [200, 0, 5];
const BAD: [u64; 3] = [200, 50, 80];

#[test]
fn a_run_is_stopped_by_the_second_that_breaks_a_window() {
    assert_eq!(
        stops_after("error_rate[1s] < 0.2", 0.0, &[GOOD, GOOD, BAD, GOOD]),
        Some(3)
    );
    assert_eq!(
        stops_after(
            "error_rate[2s] < 0.2",
            0.0,
            &[GOOD, GOOD, BAD, GOOD, BAD, BAD]
        ),
        Some(6)
    );
    assert_eq!(
        stops_after("error_rate[2s] < 0.2", 0.0, &[BAD]),
        None,
        "the window is not full"
    );
    assert_eq!(
        stops_after("service_p50[2s] < 50ms", 0.0, &[GOOD, BAD, BAD, GOOD]),
        Some(3)
    );
    assert_eq!(
        stops_after("service_max[2s] < 50ms", 0.0, &[GOOD, BAD]),
        Some(2)
    );
    assert_eq!(
        stops_after("service_p50[2s] < 100ms", 0.0, &[GOOD, BAD, BAD]),
        None
    );
}

#[test]
fn without_a_window_everything_since_the_start_counts() {
    assert_eq!(
        stops_after("error_rate < 0.1", 0.0, &[GOOD, GOOD, GOOD, BAD, BAD]),
        Some(5)
    );
    assert_eq!(stops_after("errors < 50", 0.0, &[GOOD, BAD]), Some(2));
    assert_eq!(
        stops_after("service_p50 < 50ms", 0.0, &[GOOD, BAD, BAD]),
        Some(3)
    );
}

#[test]
fn too_few_samples_stop_nothing() {
    assert_eq!(
        stops_after("error_rate[1s] < 0.1", 0.0, &[[99, 9, 5]; 5]),
        None
    );
    assert_eq!(
        stops_after("error_rate < 0.1", 0.0, &[[99, 99, 5]]),
        None,
        "more may come"
    );
    assert_eq!(
        stops_after("service_p99[2s] < 1ms", 0.0, &[[4_999, 0, 5]; 5]),
        None
    );
    assert_eq!(
        stops_after("service_p99[2s] < 1ms", 0.0, &[[5_000, 0, 5]; 5]),
        Some(2)
    );
}

#[test]
fn few_samples_suffice_when_they_break_a_share_for_certain() {
    assert_eq!(
        stops_after("error_rate[1s] < 0.1", 0.0, &[GOOD, [0, 0, 5], [10, 10, 5]]),
        Some(3)
    );
    assert_eq!(
        stops_after("error_rate[1s] < 0.1", 0.0, &[GOOD, [9, 9, 5]]),
        None,
        "100 might hold 9 as well"
    );
    assert_eq!(
        stops_after("ok_rate[1s] >= 0.9", 0.0, &[GOOD, [20, 11, 5]]),
        Some(2)
    );
    assert_eq!(
        stops_after("ok_rate[1s] >= 0.9", 0.0, &[GOOD, [20, 10, 5]]),
        None
    );
    assert_eq!(
        stops_after("error_rate[1s] < 0.1", 0.0, &[GOOD, [0, 0, 5]]),
        None,
        "nothing happened"
    );
}

/// Verdict, windows judged and the reason of a run of these seconds.
fn closed(text: &str, seconds: &[[u64; 3]]) -> (Option<bool>, Option<u64>, Option<String>) {
    let mut lookout = lookout(text, Breach::Fails, 0.0);
    for (i, numbers) in seconds.iter().enumerate() {
        lookout.hear(&second(i as u64, *numbers));
    }
    lookout.judge_last(seconds.len() as f64);
    let row = lookout
        .watched
        .remove(0)
        .close_by_seconds(seconds.len() as u64, seconds.len() as f64);
    (row.ok, row.windows, row.why)
}

#[test]
fn windows_of_few_samples_that_would_break_a_share_leave_it_undecided() {
    const FEW: [u64; 3] = [50, 4, 5];
    let why = |windows: &str, held: &str| {
        Some(format!(
            "{windows} windows had fewer than 100 requests and contain {held} errors"
        ))
    };
    let undecided = |windows, held| {
        why(windows, held).map(|why| format!("not enough data: {why}. Use a longer window"))
    };
    // Two of them are a hundred attempts, 8 % of which are errors.
    assert_eq!(
        closed("error_rate[1s] < 5%", &[GOOD, FEW, FEW]),
        (None, Some(1), undecided("2 of 3", "8 of 8"))
    );
    // A chance failure among the last answers is one of 203.
    assert_eq!(
        closed("error_rate[1s] < 5%", &[GOOD, [3, 1, 5]]),
        (Some(true), Some(1), why("1 of 2", "1 of 1"))
    );
    assert_eq!(
        closed("error_rate[1s] < 5%", &[GOOD, [3, 0, 5]]),
        (Some(true), Some(1), None)
    );
    // A window that holds it was judged.
    assert_eq!(
        closed("error_rate[2s] < 5%", &[GOOD, FEW, GOOD]),
        (Some(true), Some(2), None)
    );
    assert_eq!(closed("error_rate[1s] < 5%", &[FEW, FEW]).0, None);
}

#[test]
fn a_threshold_without_a_window_of_enough_samples_says_the_most_that_one_held() {
    let why = closed("service_p90[1s] < 1s", &[[400, 0, 5], [14, 0, 5]])
        .2
        .unwrap();
    assert_eq!(
        why,
        "not enough data: 400 samples, 1,000 needed (in the fullest of 2 windows)"
    );
}

#[test]
fn a_figure_passes_with_few_windows_that_were_not_evaluated_and_says_how_many() {
    const FEW: [u64; 3] = [99, 0, 5];
    const NONE: [u64; 3] = [0, 0, 5];
    let run = |text, few: &[[u64; 3]], good: usize| {
        closed(text, &[vec![GOOD; good], few.to_vec()].concat())
    };
    let words = |windows: &str| {
        format!("{windows} windows had fewer than 100 samples and were not evaluated")
    };
    for few in [FEW, NONE] {
        assert_eq!(
            run("service_mean[1s] < 1s", &[few], 9),
            (Some(true), Some(9), Some(words("1 of 10")))
        );
        let undecided = format!("not enough data: {}. Use a longer window", words("2 of 11"));
        assert_eq!(
            run("service_mean[1s] < 1s", &[few; 2], 9),
            (None, Some(9), Some(undecided))
        );
        assert_eq!(
            run("service_mean[1s] < 1ms", &[few; 9], 1).0,
            Some(false),
            "the other window broke it"
        );
        assert_eq!(
            run("service_max[1s] < 1s", &[few; 9], 1),
            (Some(true), Some(if few == FEW { 10 } else { 1 }), None)
        );
        assert_eq!(run("service_p50[1s] < 1s", &[few; 3], 4).0, None);
    }
    // While only the last answers come, nothing is due.
    let mut lookout = lookout("service_mean[1s] < 1s", Breach::Fails, 0.0);
    (0..9).for_each(|i| lookout.hear(&second(i, if i < 5 { GOOD } else { NONE })));
    lookout.judge_last(9.0);
    let row = lookout.watched.remove(0).close_by_seconds(5, 5.0);
    assert_eq!((row.ok, row.why), (Some(true), None));
}

#[test]
fn nothing_that_was_due_in_the_warm_up_counts() {
    for warmup_s in [1.0, 1.5] {
        let mut lookout = lookout("errors < 50", Breach::Stops, warmup_s);
        for index in 0..4 {
            // Fifty requests of the warm-up fail in each second, and ten others.
            let mut interval = second(index, [200, if index == 0 { 50 } else { 60 }, 5]);
            (
                interval.warmup.requests.attempts,
                interval.warmup.items.failed,
            ) = (50, 50);
            lookout.hear(&interval);
        }
        assert!(!lookout.has_enough());
        let interval = second(4, [200, 20, 5]);
        lookout.hear(&interval);
        assert!(lookout.has_enough(), "10 in each of three seconds, and 20");
    }
}

#[test]
fn the_warm_up_is_not_looked_at() {
    assert_eq!(
        stops_after("error_rate[1s] < 0.1", 1.5, &[BAD, BAD, GOOD, BAD]),
        Some(4)
    );
    assert_eq!(
        stops_after("errors < 50", 2.0, &[BAD, BAD, GOOD, BAD]),
        Some(4)
    );
}

#[test]
fn a_rate_is_judged_of_whole_seconds_only() {
    assert_eq!(
        stops_after("rate[1s] > 100", 0.0, &[GOOD, [50, 0, 5]]),
        None,
        "nobody knows that it is whole"
    );
    assert_eq!(
        stops_after("rate[1s] > 100", 0.0, &[GOOD, [50, 0, 5], GOOD]),
        Some(3)
    );
    assert_eq!(
        stops_after("items[1s] > 100", 0.0, &[GOOD, [50, 0, 5]]),
        None
    );
    assert_eq!(
        stops_after("items[1s] < 100", 0.0, &[GOOD]),
        Some(1),
        "more of them do not mend it"
    );
    assert_eq!(
        verdict("rate[1s] > 100", &[GOOD, GOOD, [50, 0, 5]], 2.4),
        (Some(true), Some(200.0), 2, Some(1))
    );
    assert_eq!(
        verdict("rate[1s] > 100", &[GOOD, GOOD, [50, 0, 5]], 3.0),
        (Some(false), Some(50.0), 3, Some(3))
    );
}

#[test]
fn a_rate_is_not_judged_while_only_the_last_answers_come() {
    let judged = |duration: Option<Duration>| {
        let objective = Objective {
            condition: "rate[1s] > 100".parse().unwrap(),
            breach: Breach::Fails,
        };
        let mut lookout = LiveThresholds::new(
            &[objective],
            &crawlmark_harness::plan::RunPlan { duration, ..plan() },
        );
        for (numbers, i) in [GOOD, GOOD, [50, 0, 5], [1, 0, 5]].iter().zip(0..) {
            lookout.hear(&second(i, *numbers));
        }
        lookout.judge_last(4.0);
        let watched = &lookout.watched[0];
        (
            watched.judged,
            watched
                .worst
                .as_ref()
                .and_then(|worst| worst.measured.value()),
        )
    };
    assert_eq!(judged(None), (4, Some(1.0)));
    assert_eq!(judged(Some(Duration::from_secs(2))), (2, Some(200.0)));
    assert_eq!(judged(Some(Duration::from_millis(2_900))), (2, Some(200.0)));
    assert_eq!(judged(Some(Duration::from_secs(3))), (3, Some(50.0)));
}

#[test]
fn a_late_second_keeps_only_its_own_windows_waiting() {
    let mut lookout = lookout("error_rate[1s] < 0.2", Breach::Stops, 0.0);
    lookout.hear(&second(2, GOOD));
    assert!(!lookout.has_enough());
    lookout.hear(&second(1, BAD));
    assert!(lookout.has_enough(), "the first second is under way");
    assert_eq!(lookout.watched[0].worst.as_ref().unwrap().until_s, 2);
}

proptest! {
    #[test]
    fn windows_are_judged_once_and_alike_in_whatever_order_their_seconds_come(
        seconds in prop::collection::vec(prop::sample::select(vec![GOOD, BAD, [50, 4, 5], [200, 60, 90]]), 1..9)
            .prop_flat_map(|seconds| Just(seconds.into_iter().enumerate().collect::<Vec<_>>()).prop_shuffle()),
        text in prop::sample::select(vec!["rate[1s] > 100", "error_rate[2s] < 20%", "errors[3s] < 80", "service_mean[2s] < 50ms"]),
    ) {
        let closed = |seconds: &[(usize, [u64; 3])]| {
            let mut lookout = lookout(text, Breach::Fails, 0.0);
            for (i, numbers) in seconds {
                lookout.hear(&second(*i as u64, *numbers));
            }
            lookout.judge_last(seconds.len() as f64);
            prop_assert!(lookout.seconds.len() <= 3);
            let watched = lookout.watched.remove(0);
            Ok((watched.judged, watched.unjudged.len(), watched.worst.and_then(|worst| worst.measured.value())))
        };
        let mut ordered = seconds.clone();
        ordered.sort_unstable();
        prop_assert_eq!(closed(&seconds)?, closed(&ordered)?);
    }
}

#[test]
fn of_several_windows_the_worst_is_told() {
    let seconds = [GOOD, BAD, [200, 60, 5], GOOD, GOOD];
    assert_eq!(
        verdict("error_rate[1s] <= 0.3", &seconds, 5.0),
        (Some(true), Some(0.3), 5, Some(3))
    );
    assert_eq!(
        verdict("error_rate[1s] < 0.2", &seconds, 5.0),
        (Some(false), Some(0.3), 5, Some(3))
    );
    assert_eq!(
        verdict("errors[1s] != 50", &seconds, 5.0),
        (Some(false), Some(50.0), 5, Some(2))
    );
    assert_eq!(
        verdict("errors[1s] == 0", &[GOOD, BAD, GOOD], 3.0),
        (Some(false), Some(50.0), 3, Some(2))
    );
    assert_eq!(
        verdict("error_rate[9s] < 0.2", &seconds, 5.0),
        (None, None, 0, None)
    );
}

#[test]
fn after_a_stop_only_answers_come_and_nothing_is_judged() {
    let conditions = ["service_max[1s] < 50ms", "errors[1s] < 60"];
    let objectives = conditions.map(|text| Objective {
        condition: text.parse().unwrap(),
        breach: Breach::Stops,
    });
    let mut lookout = LiveThresholds::new(&objectives, &plan());
    for (numbers, i) in [GOOD, BAD, [200, 70, 90]].iter().zip(0..) {
        lookout.hear(&second(i, *numbers));
    }
    lookout.judge_last(3.0);
    assert_eq!(lookout.stop, Some(0));
    assert_eq!(
        lookout
            .watched
            .iter()
            .map(|watched| watched.judged)
            .collect::<Vec<_>>(),
        [2, 2]
    );
}

#[test]
fn a_run_that_is_over_is_not_stopped_by_its_last_second() {
    let mut lookout = lookout("rate[1s] > 100", Breach::Stops, 0.0);
    lookout.hear(&second(0, [50, 0, 5]));
    assert!(!lookout.has_enough());
    lookout.judge_last(1.0);
    assert_eq!(lookout.watched[0].judged, 1);
}
