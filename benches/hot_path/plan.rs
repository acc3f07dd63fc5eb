//! Dealing a run out to its shards: once per run, before the first fork.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Duration;

use crawlmark_harness::plan::{Arrivals, Pacing, PerHost, Pinning, RunPlan, ThrottlingPolicy};
use crawlmark_harness::units::{IdRange, Rate, RateShape};
use criterion::Criterion;

pub(crate) fn benches(criterion: &mut Criterion) {
    let plan = RunPlan {
        target: "http://127.0.0.1/items/{id}".to_owned(),
        workload: BTreeMap::new(),
        ids: IdRange { start: 0, end: 1_000_000_007 },
        shards: 64,
        connections: 1000,
        rate: Some(Rate { permits: 100_003, period_ns: 1_000_000_000 }),
        shape: RateShape::Constant,
        burst: 1000,
        at_start: 1000,
        arrivals: Arrivals::Asap,
        pacing: Pacing::Sleep,
        throttling: ThrottlingPolicy::default(),
        per_host: PerHost::default(),
        duration: None,
        warmup: Duration::ZERO,
        grace: Duration::from_secs(10),
        timeout: Duration::from_secs(10),
        shard_deadline: Duration::from_secs(10),
        seed: 1,
        pinning: Pinning::PerCpu,
    };
    let cpus: Vec<usize> = (0..64).collect();
    criterion.bench_function("plan/split over 64 shards", |bencher| bencher.iter(|| black_box(&plan).split(&cpus)));
}
