//! The course of a run in steps of 20 ms.

use super::stalls::{closed, open};
use super::*;

/// Answers wait from 4 s to 4.3 s.
fn stalls(_: u32, sent: Nanos) -> Duration {
    let (from, end) = (
        Nanos::default().plus(4 * S),
        Nanos::default().plus(4_300 * MS),
    );
    if sent >= from && sent < end {
        Duration::from_nanos(end.since(sent))
    } else {
        20 * MS
    }
}

#[test]
fn a_stall_of_300_ms_is_a_hole_in_which_requests_gather() {
    for (plan, gathered) in [(open(1_000, 500, 10), 140), (closed(64, 10), 64)] {
        let report = run(&plan, &[], stalls).report(&plan);
        let course = report.course.unwrap();
        assert_eq!((course.step_ms, course.start_ms), (20, 0));
        let empty = |at: usize| course.good[at] == 0;
        let holes: Vec<usize> = (1..500).filter(|at| empty(*at)).collect();
        // What was sent before ends within 20 ms; all others at 4.3 s.
        let [first, last] = [holes[0], holes[holes.len() - 1]];
        assert!((200..=202).contains(&first) && last == 214, "{holes:?}");
        assert_eq!(holes.len(), last + 1 - first, "it is one");
        assert!(
            course.good[215] >= gathered * 9 / 10,
            "{}",
            course.good[215]
        );
        assert!(
            course.in_flight[214] >= gathered * 9 / 10,
            "{:?}",
            course.in_flight
        );
        assert!(course.in_flight[199] < gathered || plan.arrivals == Arrivals::Asap);
        // What was due in it took as long as was left of it.
        let slowest_us = |at: usize| {
            let heat = course.heat[at].as_ref().unwrap();
            HeatColumn::starts_us(heat.first + u32::try_from(heat.counts.len()).unwrap())
        };
        assert!(slowest_us(150) < 30_000.0);
        assert!(
            (270_000.0..400_000.0).contains(&slowest_us(if plan.arrivals == Arrivals::Asap {
                200
            } else {
                201
            }))
        );
    }
}
