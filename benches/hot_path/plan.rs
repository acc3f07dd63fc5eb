//! Dealing a run out to its shards: once per run, before the first fork.

use std::hint::black_box;

use crawlmark_harness::plan::{Pinning, RunPlan};
use crawlmark_harness::units::{IdRange, Rate};
use criterion::Criterion;

pub(crate) fn benches(criterion: &mut Criterion) {
    let plan = RunPlan {
        shards: 64,
        connections: 1000,
        rate: Some(Rate {
            permits: 100_003,
            period_ns: 1_000_000_000,
        }),
        burst: 1000,
        at_start: 1000,
        pinning: Pinning::PerCpu,
        ..RunPlan::new(
            "http://127.0.0.1/items/{id}",
            IdRange {
                start: 0,
                end: 1_000_000_007,
            },
        )
    };
    let cpus: Vec<usize> = (0..64).collect();
    criterion.bench_function("plan/split over 64 shards", |bencher| {
        bencher.iter(|| black_box(&plan).split(&cpus));
    });
}
