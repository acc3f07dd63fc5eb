//! Every row can pass, and every figure of every row can fail.

use crawlmark_harness::clock::Nanos;
use crawlmark_harness::sample::{
    Advice, Attempt as Exchange, Fate, Outcome, Permit, Sample, Tries,
};
use crawlmark_harness::stats::{Bounds, ShardStats};

use super::super::experiment::FULL;
use super::*;

/// Times of one request, µs.
#[derive(Clone, Copy)]
#[expect(clippy::struct_field_names, reason = "the unit is a part of the name")]
struct Took {
    late_us: u64,
    service_us: u64,
    held_us: Option<u64>,
}

const NORMAL: Took = Took {
    late_us: 60,
    service_us: 20_200,
    held_us: Some(20_080),
};

fn taking(service_us: u64) -> Took {
    Took {
        service_us,
        ..NORMAL
    }
}

fn sample(took: Took) -> Sample {
    let at = |us: u64| Nanos(us * 1_000);
    let sent = at(took.late_us);
    let done = at(took.late_us + took.service_us);
    let held_ns = took.held_us.map(|us| us * 1_000);
    Sample {
        permit: Permit {
            id: 0,
            attempt: 0,
            tries: Tries::NONE,
            host: 0,
            first_intended: at(0),
            intended: at(0),
            ready: sent,
            admitted: sent,
        },
        attempt: Exchange {
            sent: Some(sent),
            first_byte: Some(done),
            done,
            bytes_sent: 1,
            bytes_received: 1,
            status: Some(200),
            outcome: Outcome::Ok,
            advice: Advice {
                held_ns,
                ..Advice::default()
            },
        },
        fate: Fate::Ended,
    }
}

/// A valid run of these requests.
fn seen(requests: impl IntoIterator<Item = Took>) -> ObservedRun {
    let mut stats = ShardStats::new(Bounds::for_timeout(Duration::from_secs(5)));
    let mut asked = 0;
    for took in requests {
        stats.record(&sample(took));
        asked += 1;
    }
    ObservedRun {
        verdict: Verdict::Valid,
        reasons: Vec::new(),
        stats,
        items_per_s: 160.0,
        achieved_per_s: Some(200.0),
        asked,
        target_late_us: 500,
    }
}

/// So many requests of one kind, and then of another.
fn two_kinds(most: (usize, Took), few: (usize, Took)) -> ObservedRun {
    let times = |(count, took)| std::iter::repeat_n(took, count);
    seen(times(most).chain(times(few)))
}

fn disturbed(run: ObservedRun) -> ObservedRun {
    ObservedRun {
        verdict: Verdict::Disturbed,
        reasons: vec!["CPU 0 was slow".to_owned()],
        ..run
    }
}

/// The names of the figures that are not met, of an attempt that counts.
#[track_caller]
fn missed(attempt: &Attempt) -> Vec<&str> {
    assert!(attempt.counts(), "{:?}", attempt.disturbed_by);
    let missed = attempt.figures.iter().filter(|figure| !figure.met);
    let missed: Vec<&str> = missed.map(|figure| &*figure.what).collect();
    assert_eq!(attempt.passes(), missed.is_empty());
    missed
}

#[test]
fn r1_counts_the_slow_items_and_knows_the_percentiles() {
    for (slow, fast_us, slow_us, said) in [
        (80, 20_300, 500_300, &[][..]),
        (81, 20_300, 500_300, &["slow responses"]),
        // Times that are too short cannot be, and too long ones are noise or a fault.
        (80, 19_900, 500_300, &["service p50", "service p97"]),
        (80, 61_000, 500_300, &["service p50", "service p97"]),
        (80, 20_300, 541_000, &["service p99"]),
    ] {
        let run = two_kinds((4_000 - slow, taking(fast_us)), (slow, taking(slow_us)));
        assert_eq!(missed(&modes(&run, 80)), said);
    }
}

#[test]
fn r2_wants_no_answer_before_its_hold_is_over() {
    let held = |held_us| Took { held_us, ..NORMAL };
    let longer = |us| held(Some(NORMAL.service_us - us));
    let early = held(Some(NORMAL.service_us + 1));
    for (most, few, said) in [
        (NORMAL, NORMAL, &[][..]),
        (longer(1_600), NORMAL, &["service - hold p50"]),
        (NORMAL, longer(15_100), &["service - hold p99"]),
        (NORMAL, early, &["shorter than held"]),
        (NORMAL, held(None), &["responses with a hold"]),
    ] {
        let run = two_kinds((1_960, most), (40, few));
        assert_eq!(missed(&overhead(&run)), said);
    }
}

/// The 2,000 requests of the open loop, each as long as a stall of so many milliseconds makes it.
fn open_of(stall_ms: u64) -> ObservedRun {
    let (begin, end) = (3_000, 3_000 + stall_ms);
    let answerable = |at: u64| if (begin..end).contains(&at) { end } else { at };
    let response = |at_ms: u64| (answerable(answerable(at_ms) + 20) - at_ms) * 1_000 + 200;
    seen((0..2_000).map(|i| taking(response(i * 5))))
}

fn closed_of(slow_ms: u64, slow: usize) -> ObservedRun {
    two_kinds((1_700 - slow, NORMAL), (slow, taking(slow_ms * 1_000)))
}

#[test]
fn r3_sees_everybodys_wait_and_not_only_that_of_those_in_flight() {
    let all = ["response p95", "response p99", "response max"];
    // What a closed loop would call a response time, and what a recorder would that stamps late
    // ones when they go.
    let unseen = two_kinds((1_996, NORMAL), (4, taking(1_020_000)));
    for (open, said) in [
        (open_of(1_000), &all[..0]),
        (open_of(900), &all),
        (open_of(1_100), &all),
        (unseen, &all[..2]),
        (seen(vec![NORMAL; 2_000]), &all),
    ] {
        assert_eq!(missed(&open_loop(&FULL.scene, &open)), said);
    }
}

#[test]
fn r4_hides_the_stall_as_closed_loops_do() {
    let of = |stall_ms, slow_ms, slow| {
        closed_loop(&FULL.scene, &open_of(stall_ms), &closed_of(slow_ms, slow))
    };
    let both = ["service p99", "open to closed p99"];
    assert_eq!(missed(&of(1_000, 1_000, 4)), both[..0]);
    // More slow ones than there are connections.
    assert_eq!(missed(&of(1_000, 1_000, 40)), both);
    assert_eq!(missed(&of(100, 1_000, 4)), both[1..]);
    assert_eq!(missed(&of(1_000, 81, 40)), both[..1]);
    let few = closed_loop(&FULL.scene, &open_of(1_000), &seen(vec![NORMAL; 900]));
    assert!(!few.counts(), "too few responses for a percentile");
}

#[test]
fn r5_compares_the_timetable_with_what_was_said_and_with_what_arrived() {
    let both = ["as reported", "target's count"];
    for (achieved_per_s, asked, said) in [
        (200.0, 2_000, &both[..0]),
        (199.1, 1_991, &both[..0]),
        (198.9, 1_989, &both),
        (201.1, 2_000, &both[..1]),
        (200.0, 1_980, &both[1..]),
    ] {
        let open = ObservedRun {
            achieved_per_s: Some(achieved_per_s),
            asked,
            ..open_of(1_000)
        };
        assert_eq!(missed(&achieved(&FULL.scene, &open)), said);
    }
}

#[test]
fn r6_wants_twice_as_much_of_twice_as_many() {
    let rate = |items_per_s| ObservedRun {
        items_per_s,
        ..seen([NORMAL; 9])
    };
    for (ratio, passes) in [(1.945, true), (2.055, true), (1.935, false), (2.065, false)] {
        let attempt = scaling(&rate(160.0), &rate(160.0 * ratio));
        assert_eq!(missed(&attempt).is_empty(), passes, "{ratio}");
    }
    assert!(!scaling(&rate(0.0), &rate(0.0)).passes());
}

#[test]
fn r7_wants_the_stop_to_be_seen_and_to_be_the_clients() {
    let of = |lag_ms: u64, verdict, stopped| {
        let late = Took {
            late_us: lag_ms * 1_000,
            ..NORMAL
        };
        let run = ObservedRun {
            verdict,
            reasons: vec!["a reason".to_owned()],
            ..two_kinds((499, NORMAL), (1, late))
        };
        freeze(&run, stopped)
    };
    let (found, half) = (Verdict::ClientLimited, Some(FREEZE));
    let both = ["sched_lag max", "verdict client_limited"];
    assert_eq!(missed(&of(498, found, half)), both[..0]);
    assert_eq!(missed(&of(498, Verdict::Valid, half)), both[1..]);
    assert_eq!(missed(&of(0, Verdict::Valid, half)), both);
    assert_eq!(missed(&of(448, found, half)), both[..1]);
    assert_eq!(missed(&of(702, found, half)), both[..1]);
    // The process that stopped it may have been late to let it go on.
    let longer = Some(FREEZE + Duration::from_millis(300));
    assert_eq!(missed(&of(790, found, longer)), both[..0]);
    assert!(!of(498, Verdict::Disturbed, half).counts());
    assert!(!of(0, Verdict::Valid, None).counts());
}

#[test]
fn r8_wants_the_ratio_and_the_verdict_of_a_look() {
    let comparison = |ratio: f64, verdict: &str, look: bool| -> Comparison {
        let evidence = serde_json::json!({"pairs": 16, "ratio": ratio, "ratio_interval": null, "log_ratio": ratio.ln(),
            "log_ratio_interval": null, "log_ratio_sd": null, "autocorrelation": null, "p_value": 0.001, "p_adjusted": 0.001});
        let look = look.then(|| serde_json::json!({"number": 1, "pairs": 16, "alpha": 0.0015}));
        serde_json::from_value(serde_json::json!({"verdict": verdict, "look": look, "disturbed_pairs": 6, "pairs_wanted": 0,
            "metrics": [{"metric": "throughput", "title": "", "column": "", "unit": "1/s", "worse": "less", "smallest_effect": 0.02, "passes_below": 0.04,
                "statistic": "mean", "verdict": verdict, "evidence": evidence}]}))
        .unwrap()
    };
    let both = ["throughput", "verdict regression"];
    assert_eq!(
        missed(&pairs(&comparison(0.952, "regression", true))),
        both[..0]
    );
    assert_eq!(
        missed(&pairs(&comparison(0.90, "regression", true))),
        both[..1]
    );
    assert_eq!(missed(&pairs(&comparison(1.0, "pass", true))), both);
    assert!(!pairs(&comparison(0.952, "regression", false)).counts());
}

#[test]
fn a_run_that_is_not_valid_does_not_count_whatever_it_shows() {
    let (scene, quiet) = (&FULL.scene, seen(vec![NORMAL; 1_700]));
    let busy = disturbed(quiet.clone());
    for attempt in [
        modes(&busy, 0),
        overhead(&busy),
        open_loop(scene, &disturbed(open_of(1_000))),
        closed_loop(scene, &open_of(1_000), &busy),
        scaling(&quiet, &busy),
    ] {
        assert_eq!(attempt.disturbed_by, ["CPU 0 was slow"]);
        assert!(!attempt.passes());
    }
    // A target that is late is no evidence, but after a stall, where it has to be.
    for (us, counts) in [(2_000, true), (2_048, false)] {
        let late = ObservedRun {
            target_late_us: us,
            achieved_per_s: None,
            ..quiet.clone()
        };
        assert_eq!(scaling(&quiet, &late).counts(), counts, "{us}");
        let open = ObservedRun {
            target_late_us: us,
            ..open_of(1_000)
        };
        assert!(open_loop(scene, &open).passes());
    }
}

#[test]
fn what_no_noise_can_do_is_told_from_what_it_can() {
    let scene = &FULL.scene;
    let busy = |us| disturbed(two_kinds((3_900, taking(us)), (100, taking(600_000))));
    assert!(modes(&busy(19_000), 80).is_impossible() && overhead(&busy(20_070)).is_impossible());
    assert!(!modes(&busy(90_000), 80).is_impossible() && !overhead(&busy(90_000)).is_impossible());
    for (us, impossible) in [(19_900, true), (99_000, false)] {
        let closed = closed_loop(scene, &open_of(1_000), &seen(vec![taking(us); 1_700]));
        assert_eq!(closed.is_impossible(), impossible);
    }
    // Counts that do not add up are no noise.
    let broken = ObservedRun {
        verdict: Verdict::Incomplete,
        reasons: vec!["requests: 9 here, 8 there".to_owned()],
        ..open_of(1_000)
    };
    let attempt = open_loop(scene, &broken);
    assert!(missed(&attempt).len() == 1 && attempt.is_impossible());
}
