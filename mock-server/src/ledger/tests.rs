//! Tests of the ledger.

use super::*;
use proptest::prelude::*;

fn address(last: u8) -> IpAddr {
    IpAddr::from([127, 0, 0, last])
}

/// Everything that can be recorded, by two processes.
fn record_everything(one: &LedgerWriter, two: &LedgerWriter) {
    let first = one.peer(address(1));
    let second = two.peer(address(2));
    for (ledger, peer, id) in [
        (one, &first, 7),
        (two, &second, 7),
        (one, &first, 8),
        (two, &second, 1 << 30),
    ] {
        ledger.arrived(peer, id, 1_000_000);
    }
    one.admitted(1_000_000);
    two.admitted(1_500_000);
    one.name_limits(
        &["10/s", "connections:3"]
            .map(|limit| limit.parse().unwrap())
            .to_vec()
            .try_into()
            .unwrap(),
    );
    one.admitted_by(0, 0);
    two.admitted_by(0, 7);
    two.rejected_by(0);
    two.admitted_by(1, 0);
    one.refused_by(1);
    two.refused_by(1);
    one.counters().rejected.increment();
    two.counters().early_retries.increment();
    for _ in 0..3 {
        one.counters().crossed_promises.increment();
    }
    for _ in 0..4 {
        one.counters().limiter_overflows.increment();
    }
    two.arrived(&second, 9, 11_000_000);
    two.arrived(&second, 9, 11_000_000);
    one.arrived(&first, 9, 1_011_000_000);
    for hold_us in [0, 1, 3, 4] {
        one.held(hold_us, hold_us + 60);
    }
    two.held(4, 1004);
    one.counters().stub_answers.increment();
    two.counters().stub_answers.increment();
    two.counters().unmatched.increment();
    one.counters().journal_missed.increment();
    one.counters().queue_full.increment();
    for _ in 0..2 {
        two.counters().abandoned.increment();
    }
    one.failed(Fault::Drop);
    two.failed(Fault::Status(503));
    two.failed(Fault::Status(503));
    one.counters().count_status(200);
    two.counters().count_status(200);
    two.counters().count_status(503);
    for _ in 0..2 {
        one.counters().tls_connections.increment();
        two.counters().tls_handshake_failures.increment();
    }
    two.counters().tls_handshake_failures.increment();
    one.counters().http2_connections.increment();
}

#[test]
fn everything_recorded_is_in_the_ledger_and_gone_after_a_reset() {
    let shared = Shared::new().unwrap();
    record_everything(&LedgerWriter::open(&shared), &LedgerWriter::open(&shared));
    let expected = Ledger {
        requests: 7,
        by_status: BTreeMap::from([(200, 2), (503, 1)]),
        unique_ids: 3,
        duplicate_ids: 3,
        ids_beyond_tracking: 1,
        uniqueness_exact: false,
        max_admitted_in_1s: 2,
        busiest: Busiest {
            ten_ms: Peaks {
                requests: 4,
                admitted: 2,
            },
            hundred_ms: Peaks {
                requests: 6,
                admitted: 2,
            },
            second: Peaks {
                requests: 6,
                admitted: 2,
            },
        },
        window_exact: true,
        early_retries: 1,
        crossed_promises: 3,
        stub_answers: 2,
        unmatched: 1,
        journal_missed: 1,
        queue_full: 1,
        abandoned: 2,
        rejected: 2,
        by_limit: BTreeMap::from([
            (
                "connections".to_owned(),
                LimitLedger {
                    admitted: 1,
                    rejected: 2,
                    delayed: 0,
                },
            ),
            (
                "gcra".to_owned(),
                LimitLedger {
                    admitted: 2,
                    rejected: 1,
                    delayed: 1,
                },
            ),
        ]),
        limiter_overflows: 4,
        connections_refused: 2,
        faults: BTreeMap::from([("drop".to_owned(), 1), ("error".to_owned(), 2)]),
        held_us: Times {
            count: 5,
            sum_us: 12,
            max_us: 4,
            p50_at_most_us: Some(3),
            p99_at_most_us: Some(4),
            buckets: vec![1, 1, 1, 2],
        },
        hold_error_us: Times {
            count: 5,
            sum_us: 1240,
            max_us: 1000,
            p50_at_most_us: Some(63),
            p99_at_most_us: Some(1000),
            buckets: vec![0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 1],
        },
        connections: 2,
        tls_connections: 2,
        tls_handshake_failures: 3,
        http2_connections: 1,
        by_source: BTreeMap::from([("127.0.0.1".to_owned(), 3), ("127.0.0.2".to_owned(), 4)]),
    };
    assert_eq!(Ledger::read(&shared), expected);

    Ledger::reset(&shared);
    let nothing = |name: &str| (name.to_owned(), LimitLedger::default());
    let empty = Ledger {
        uniqueness_exact: true,
        window_exact: true,
        by_limit: BTreeMap::from([nothing("connections"), nothing("gcra")]),
        ..Ledger::default()
    };
    assert_eq!(Ledger::read(&shared), empty);
}

#[test]
fn sources_beyond_the_table_are_others() {
    let shared = Shared::new().unwrap();
    let ledger = LedgerWriter::open(&shared);
    for last in 0..70 {
        ledger.arrived(&ledger.peer(address(last)), 1, 0);
    }
    let ledger = Ledger::read(&shared);
    assert_eq!(ledger.by_source.len(), 65);
    assert_eq!(ledger.by_source["other"], 6);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn requests_add_up(ids in proptest::collection::vec(prop_oneof![0_u64..50, any::<u64>()], 0..300)) {
        let shared = Shared::new().unwrap();
        let pens: Vec<LedgerWriter> = (0..3).map(|_| LedgerWriter::open(&shared)).collect();
        for (turn, id) in ids.iter().enumerate() {
            let ledger = &pens[turn % 3];
            ledger.arrived(&ledger.peer(address(u8::try_from(turn % 5).unwrap())), *id, turn as u64 * 1_000_000);
        }
        let ledger = Ledger::read(&shared);
        prop_assert_eq!(ledger.requests, ids.len() as u64);
        prop_assert_eq!(ledger.requests, ledger.unique_ids + ledger.duplicate_ids + ledger.ids_beyond_tracking);
        prop_assert_eq!(ledger.requests, ledger.by_source.values().sum::<u64>());
        // One came in each millisecond.
        let Busiest { ten_ms, hundred_ms, second } = ledger.busiest;
        let most = [ten_ms, hundred_ms, second].map(|peaks| peaks.requests);
        prop_assert_eq!(most, [10, 100, 1000].map(|width| ledger.requests.min(width)));
        let distinct = ids.iter().filter(|id| **id < 1 << 30).collect::<std::collections::HashSet<_>>();
        prop_assert_eq!(ledger.unique_ids, distinct.len() as u64);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn bounds_hold_and_are_at_most_twice_too_high(
        // Of all magnitudes.
        times in proptest::collection::vec((0_u64..1 << 45, 0_u32..45).prop_map(|(time, less)| time >> less), 1..200),
    ) {
        let shared = Shared::new().unwrap();
        let ledger = LedgerWriter::open(&shared);
        let mut sorted = times.clone();
        sorted.sort_unstable();
        for time_us in times {
            ledger.held(time_us, time_us);
        }
        let ledger = Ledger::read(&shared);
        let max_us = sorted[sorted.len() - 1];
        for (percent, bound) in [(50, ledger.held_us.p50_at_most_us), (99, ledger.held_us.p99_at_most_us)] {
            let exact = sorted[(sorted.len() * percent).div_ceil(100) - 1];
            let bound = bound.unwrap();
            prop_assert!(exact <= bound && bound <= max_us, "{} for {}", bound, exact);
            // The last of the shared buckets takes all that is longer.
            prop_assert!(bound <= 2 * exact || exact >= 1 << 38, "{} for {}", bound, exact);
        }
        let none = Some(0);
        prop_assert_eq!((ledger.hold_error_us.p50_at_most_us, ledger.hold_error_us.p99_at_most_us), (none, none));
    }
}
