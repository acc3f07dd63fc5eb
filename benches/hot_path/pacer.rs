//! Asking for leave, which every request does: without a budget, within one, and when the answer is
//! to wait.

use std::hint::black_box;

use crawlmark_harness::clock::Nanos;
use crawlmark_harness::pacer::Pacer;
use crawlmark_harness::plan::Budget;
use criterion::Criterion;

/// A shard's part of a budget of 100,000 requests a second.
const BUDGET: Budget = Budget {
    interval_ns: 10_000,
    burst: 8,
    at_start: 8,
    phase_ns: 0,
    apart_ns: 0,
};

pub(crate) fn benches(criterion: &mut Criterion) {
    // Each request comes exactly when it is due, so that every one is let through.
    polls(
        criterion,
        "pacer/poll without a budget",
        None,
        BUDGET.interval_ns,
    );
    polls(
        criterion,
        "pacer/poll within a budget",
        Some(BUDGET),
        BUDGET.interval_ns,
    );
    // Time hardly passes, so that all but the first few are told to wait.
    polls(
        criterion,
        "pacer/poll and be told to wait",
        Some(Budget {
            interval_ns: 1 << 50,
            ..BUDGET
        }),
        1,
    );
}

fn polls(criterion: &mut Criterion, name: &str, budget: Option<Budget>, step_ns: u64) {
    let mut pacer = Pacer::new(budget, Nanos(0));
    let mut now = Nanos(0);
    criterion.bench_function(name, |bencher| {
        bencher.iter(|| {
            now.0 += step_ns;
            pacer.poll(black_box(now))
        });
    });
}
