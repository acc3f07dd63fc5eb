//! Every row can pass, and every figure of every row can fail.

use crawlmark_harness::clock::Nanos;
use crawlmark_harness::sample::{Advice, Attempt as Exchange, Fate, Outcome, Permit, Sample};
use crawlmark_harness::stats::{Bounds, ShardStats};

use super::super::form::{FREEZE, Form, SHARD_HOLD};
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

fn sample(took: Took) -> Sample {
    let at = |us: u64| Nanos(us * 1_000);
    let sent = at(took.late_us);
    let done = at(took.late_us + took.service_us);
    let held_ns = took.held_us.map(|us| us * 1_000);
    Sample {
        permit: Permit {
            id: 0,
            attempt: 0,
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

fn disturbed(run: ObservedRun) -> ObservedRun {
    ObservedRun {
        verdict: Verdict::Disturbed,
        reasons: vec!["CPU 0 was slow".to_owned()],
        ..run
    }
}

/// The names of the figures that are not met, of an attempt that counts.
#[track_caller]
fn missed(row: Row, evidence: &ExperimentRuns) -> Vec<String> {
    let attempt = judge(row, evidence).unwrap();
    assert!(attempt.counts(), "{:?}", attempt.disturbed_by);
    assert_eq!(
        attempt.passes(),
        attempt.figures.iter().all(|figure| figure.met)
    );
    attempt
        .figures
        .into_iter()
        .filter(|figure| !figure.met)
        .map(|figure| figure.what)
        .collect()
}

fn times(count: usize, took: Took) -> impl Iterator<Item = Took> {
    std::iter::repeat_n(took, count)
}

/// Fast items and slow items, with their numbers.
fn of_modes(fast: (usize, u64), slow: (usize, u64)) -> ExperimentRuns {
    let item = |service_us| Took {
        service_us,
        held_us: Some(service_us - 120),
        ..NORMAL
    };
    ExperimentRuns::Modes {
        run: seen(times(fast.0, item(fast.1)).chain(times(slow.0, item(slow.1)))),
        slow: 80,
    }
}

#[test]
fn r1_counts_the_slow_items_and_knows_the_percentiles() {
    let none: [&str; 0] = [];
    assert_eq!(
        missed(Row::R1, &of_modes((3_920, 20_300), (80, 500_300))),
        none
    );
    // One answer that was slow and should not have been, and one that should and was not.
    assert_eq!(
        missed(Row::R1, &of_modes((3_919, 20_300), (81, 500_300))),
        ["slow responses"]
    );
    assert_eq!(
        missed(Row::R1, &of_modes((3_921, 20_300), (79, 500_300))),
        ["slow responses"]
    );
    // Times that are too short cannot be, and too long ones are noise or a fault.
    assert_eq!(
        missed(Row::R1, &of_modes((3_920, 19_900), (80, 500_300))),
        ["service p50", "service p97"]
    );
    assert_eq!(
        missed(Row::R1, &of_modes((3_920, 25_200), (80, 500_300))),
        ["service p50"]
    );
    assert_eq!(
        missed(Row::R1, &of_modes((3_920, 61_000), (80, 500_300))),
        ["service p50", "service p97"]
    );
    assert_eq!(
        missed(Row::R1, &of_modes((3_920, 20_300), (80, 499_000))),
        ["service p99"]
    );
    assert_eq!(
        missed(Row::R1, &of_modes((3_920, 20_300), (80, 541_000))),
        ["service p99"]
    );
}

#[test]
fn r2_wants_no_answer_before_its_hold_is_over() {
    let of = |most: Took, few: Took| ExperimentRuns::Modes {
        run: seen(times(980, most).chain(times(20, few))),
        slow: 0,
    };
    let none: [&str; 0] = [];
    assert_eq!(missed(Row::R2, &of(NORMAL, NORMAL)), none);
    let slow = |us| Took {
        held_us: Some(NORMAL.service_us - us),
        ..NORMAL
    };
    assert_eq!(
        missed(Row::R2, &of(slow(1_600), NORMAL)),
        ["service - hold p50"]
    );
    assert_eq!(
        missed(Row::R2, &of(NORMAL, slow(15_100))),
        ["service - hold p99"]
    );
    let impossible = Took {
        held_us: Some(NORMAL.service_us + 1),
        ..NORMAL
    };
    assert_eq!(
        missed(Row::R2, &of(NORMAL, impossible)),
        ["shorter than held"]
    );
    let mute = Took {
        held_us: None,
        ..NORMAL
    };
    let one_mute = ExperimentRuns::Modes {
        run: seen(times(1_999, NORMAL).chain(times(1, mute))),
        slow: 0,
    };
    assert_eq!(missed(Row::R2, &one_mute), ["responses with a hold"]);
}

const FULL: Scene = Form::Full.scene();

/// The 2,000 requests of the open loop, each as long as a stall of so many milliseconds makes it.
fn open_of(stall_ms: u64) -> ObservedRun {
    let response = |i: u64| {
        let at_ms = i * 5;
        let (begin, end) = (3_000, 3_000 + stall_ms);
        let answerable = |at: u64| if (begin..end).contains(&at) { end } else { at };
        let service_us = (answerable(answerable(at_ms) + 20) - at_ms) * 1_000 + 200;
        Took {
            service_us,
            ..NORMAL
        }
    };
    seen((0..2_000).map(response))
}

fn closed_of(slow_ms: u64, slow: usize) -> ObservedRun {
    seen(times(1_700 - slow, NORMAL).chain(times(
        slow,
        Took {
            service_us: slow_ms * 1_000,
            ..NORMAL
        },
    )))
}

fn of_stall(open: ObservedRun, closed: ObservedRun) -> ExperimentRuns {
    ExperimentRuns::Stall {
        scene: FULL,
        open,
        closed: Some(closed),
    }
}

#[test]
fn r3_sees_everybodys_wait_and_not_only_that_of_those_in_flight() {
    let of = |open| of_stall(open, closed_of(1_000, 4));
    let none: [&str; 0] = [];
    assert_eq!(missed(Row::R3, &of(open_of(1_000))), none);
    let all = ["response p95", "response p99", "response max"];
    assert_eq!(missed(Row::R3, &of(open_of(900))), all);
    assert_eq!(missed(Row::R3, &of(open_of(1_100))), all);
    // What a closed loop would call a response time, and what a recorder would that stamps late
    // ones when they go.
    let unseen = seen(times(1_996, NORMAL).chain(times(
        4,
        Took {
            service_us: 1_020_000,
            ..NORMAL
        },
    )));
    assert_eq!(
        missed(Row::R3, &of(unseen)),
        ["response p95", "response p99"]
    );
    assert_eq!(missed(Row::R3, &of(seen(times(2_000, NORMAL)))), all);
}

#[test]
fn r4_hides_the_stall_as_closed_loops_do() {
    let none: [&str; 0] = [];
    assert_eq!(
        missed(Row::R4, &of_stall(open_of(1_000), closed_of(1_000, 4))),
        none
    );
    // More slow ones than there are connections.
    assert_eq!(
        missed(Row::R4, &of_stall(open_of(1_000), closed_of(1_000, 40))),
        ["service p99", "open to closed p99"]
    );
    assert_eq!(
        missed(Row::R4, &of_stall(open_of(100), closed_of(1_000, 4))),
        ["open to closed p99"]
    );
    assert_eq!(
        missed(Row::R4, &of_stall(open_of(1_000), closed_of(81, 40))),
        ["service p99"]
    );
    assert!(
        judge(
            Row::R4,
            &ExperimentRuns::Stall {
                scene: FULL,
                open: open_of(1_000),
                closed: None
            }
        )
        .is_none()
    );
}

#[test]
fn r5_compares_the_timetable_with_what_was_said_and_with_what_arrived() {
    let of = |achieved_per_s, asked| {
        let open = ObservedRun {
            achieved_per_s,
            asked,
            ..open_of(1_000)
        };
        of_stall(open, closed_of(1_000, 4))
    };
    let none: [&str; 0] = [];
    assert_eq!(missed(Row::R5, &of(Some(200.0), 2_000)), none);
    assert_eq!(missed(Row::R5, &of(Some(199.1), 1_991)), none);
    assert_eq!(missed(Row::R5, &of(Some(198.9), 1_989)).len(), 2);
    assert_eq!(missed(Row::R5, &of(Some(201.1), 2_000)), ["as reported"]);
    assert_eq!(missed(Row::R5, &of(Some(200.0), 1_980)), ["target's count"]);
    assert!(!judge(Row::R5, &of(None, 2_000)).unwrap().passes());
}

#[test]
fn r6_wants_twice_as_much_of_twice_as_many() {
    let rate = |items_per_s| ObservedRun {
        items_per_s,
        ..seen(times(9, NORMAL))
    };
    let one_per_s = f64::from(super::super::form::SHARD_CONNECTIONS) / SHARD_HOLD.as_secs_f64();
    let of = |ratio: f64| ExperimentRuns::Shards {
        one: rate(one_per_s),
        two: rate(one_per_s * ratio),
    };
    let none: [&str; 0] = [];
    for ratio in [1.945, 2.0, 2.055] {
        assert_eq!(missed(Row::R6, &of(ratio)), none);
    }
    for ratio in [1.0, 1.935, 2.065, 0.0] {
        assert_eq!(missed(Row::R6, &of(ratio)), ["items/s, 2 to 1"]);
    }
    assert!(
        !judge(
            Row::R6,
            &ExperimentRuns::Shards {
                one: rate(0.0),
                two: rate(0.0)
            }
        )
        .unwrap()
        .passes()
    );
}

#[test]
fn r7_wants_the_stop_to_be_seen_and_to_be_the_clients() {
    let of = |lag_ms: u64, verdict, stopped| {
        let late = Took {
            late_us: lag_ms * 1_000,
            ..NORMAL
        };
        let run = seen(times(499, NORMAL).chain(times(1, late)));
        ExperimentRuns::Freeze {
            run: ObservedRun {
                verdict,
                reasons: vec!["a reason".to_owned()],
                ..run
            },
            stopped,
        }
    };
    let half = Some(FREEZE);
    let none: [&str; 0] = [];
    assert_eq!(
        missed(Row::R7, &of(498, Verdict::ClientLimited, half)),
        none
    );
    assert_eq!(missed(Row::R7, &of(498, Verdict::Valid, half)), ["verdict"]);
    assert_eq!(
        missed(Row::R7, &of(0, Verdict::Valid, half)),
        ["sched_lag max", "verdict"]
    );
    assert_eq!(
        missed(Row::R7, &of(448, Verdict::ClientLimited, half)),
        ["sched_lag max"]
    );
    assert_eq!(
        missed(Row::R7, &of(702, Verdict::ClientLimited, half)),
        ["sched_lag max"]
    );
    // The process that stopped it may have been late to let it go on.
    assert_eq!(
        missed(
            Row::R7,
            &of(
                790,
                Verdict::ClientLimited,
                Some(FREEZE + Duration::from_millis(300))
            )
        ),
        none
    );
    for evidence in [
        of(498, Verdict::Disturbed, half),
        of(0, Verdict::Valid, None),
    ] {
        assert!(!judge(Row::R7, &evidence).unwrap().counts());
    }
}

#[test]
fn a_run_that_is_not_valid_does_not_count_whatever_it_shows() {
    let rows = [
        (Row::R1, of_modes((3_920, 20_300), (80, 500_300))),
        (Row::R2, of_modes((3_920, 20_300), (80, 500_300))),
        (Row::R3, of_stall(open_of(1_000), closed_of(1_000, 4))),
        (Row::R4, of_stall(open_of(1_000), closed_of(1_000, 4))),
        (Row::R5, of_stall(open_of(1_000), closed_of(1_000, 4))),
        (
            Row::R6,
            ExperimentRuns::Shards {
                one: seen(times(9, NORMAL)),
                two: seen(times(9, NORMAL)),
            },
        ),
    ];
    for (row, evidence) in rows {
        let evidence = match evidence {
            ExperimentRuns::Modes { run, slow } => ExperimentRuns::Modes {
                run: disturbed(run),
                slow,
            },
            ExperimentRuns::Stall {
                scene,
                open,
                closed,
            } => ExperimentRuns::Stall {
                scene,
                open: disturbed(open),
                closed,
            },
            ExperimentRuns::Shards { one, two } => ExperimentRuns::Shards {
                one,
                two: disturbed(two),
            },
            other @ (ExperimentRuns::Freeze { .. } | ExperimentRuns::Pairs { .. }) => other,
        };
        let attempt = judge(row, &evidence).unwrap();
        assert_eq!(attempt.disturbed_by, ["CPU 0 was slow"], "{row}");
        assert!(!attempt.passes(), "{row}");
    }
    let calm = ExperimentRuns::Stall {
        scene: FULL,
        open: open_of(1_000),
        closed: Some(disturbed(closed_of(1_000, 4))),
    };
    assert!(
        judge(Row::R3, &calm).unwrap().passes(),
        "a row does not suffer from what it does not look at"
    );
}

#[test]
fn a_target_that_is_late_is_no_evidence_but_where_it_has_to_be() {
    let late = |us| ObservedRun {
        target_late_us: us,
        achieved_per_s: None,
        ..seen(times(1_700, NORMAL))
    };
    for (us, counts) in [(500, true), (2_000, true), (2_048, false)] {
        let evidence = ExperimentRuns::Shards {
            one: late(500),
            two: late(us),
        };
        assert_eq!(judge(Row::R6, &evidence).unwrap().counts(), counts, "{us}");
        // Two hundred answers at once take their time.
        let open = ObservedRun {
            target_late_us: us,
            ..open_of(1_000)
        };
        assert!(
            judge(Row::R3, &of_stall(open, closed_of(1_000, 4)))
                .unwrap()
                .passes()
        );
    }
}

#[test]
fn what_no_noise_can_do_is_told_from_what_it_can() {
    let impossible = |row, evidence: &ExperimentRuns| judge(row, evidence).unwrap().is_impossible();
    let disturbed_modes = |service_us| {
        let slow = Took {
            service_us: 600_000,
            ..NORMAL
        };
        let run = seen(
            times(
                3_900,
                Took {
                    service_us,
                    ..NORMAL
                },
            )
            .chain(times(100, slow)),
        );
        ExperimentRuns::Modes {
            run: disturbed(run),
            slow: 80,
        }
    };
    assert!(
        impossible(Row::R1, &disturbed_modes(19_000))
            && impossible(Row::R2, &disturbed_modes(20_070))
    );
    assert!(
        !impossible(Row::R1, &disturbed_modes(90_000))
            && !impossible(Row::R2, &disturbed_modes(90_000))
    );
    let fast = |us| {
        of_stall(
            open_of(1_000),
            seen(times(
                1_700,
                Took {
                    service_us: us,
                    ..NORMAL
                },
            )),
        )
    };
    assert!(impossible(Row::R4, &fast(19_900)) && !impossible(Row::R4, &fast(99_000)));
}

#[test]
fn counts_that_do_not_add_up_are_no_noise() {
    let run = ObservedRun {
        verdict: Verdict::Incomplete,
        reasons: vec!["requests: 9 here, 8 there".to_owned()],
        ..open_of(1_000)
    };
    let evidence = of_stall(run, closed_of(1_000, 4));
    for row in [Row::R3, Row::R4, Row::R5] {
        assert_eq!(missed(row, &evidence), ["counts"]);
    }
}

#[test]
fn too_few_answers_prove_nothing() {
    let few = ExperimentRuns::Stall {
        scene: FULL,
        open: open_of(1_000),
        closed: Some(seen(times(900, NORMAL))),
    };
    let attempt = judge(Row::R4, &few).unwrap();
    assert!(
        !attempt.counts() && attempt.disturbed_by[0].contains("too few responses"),
        "{:?}",
        attempt.disturbed_by
    );
    // What was seen of the others counts.
    let early = ExperimentRuns::Modes {
        run: seen(times(
            900,
            Took {
                service_us: 10_000,
                ..NORMAL
            },
        )),
        slow: 80,
    };
    assert_eq!(
        missed(Row::R1, &early),
        [
            "slow responses",
            "service p50",
            "service p97",
            "service p99"
        ]
    );
}

#[test]
fn a_row_is_judged_by_its_own_experiment_alone() {
    let modes = of_modes((3_920, 20_300), (80, 500_300));
    for row in [Row::R3, Row::R4, Row::R5, Row::R6, Row::R7, Row::R8] {
        assert!(judge(row, &modes).is_none(), "{row}");
    }
}
