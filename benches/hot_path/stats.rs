//! Booking one attempt, which every request pays, and merging two shards, which a run pays once per
//! shard.

use std::hint::black_box;

use crawlmark_harness::stats::{Series, ShardStats};
use criterion::Criterion;

use crate::samples::{COUNT, bounds, filled, samples};

pub(crate) fn benches(criterion: &mut Criterion) {
    record(criterion);
    merge(criterion);
}

fn record(criterion: &mut Criterion) {
    let samples = samples();
    for (name, series) in [
        ("stats/record one attempt", &Series::ALL[..]),
        ("stats/record it in its interval", &Series::PER_INTERVAL),
    ] {
        let mut stats = ShardStats::with_series(bounds(), series);
        let mut at = 0;
        criterion.bench_function(name, |bencher| {
            bencher.iter(|| {
                at = (at + 1) % COUNT;
                stats.record_only(black_box(&samples[at]), series);
            });
        });
        black_box(stats);
    }
}

fn merge(criterion: &mut Criterion) {
    // Merged again and again into the same stats: the counts grow, the work does not.
    let (mut merged, shard) = (filled(&Series::ALL), filled(&Series::ALL));
    criterion.bench_function("stats/merge two shards", |bencher| {
        bencher.iter(|| merged.merge(black_box(&shard)));
    });
    black_box(merged);
}
