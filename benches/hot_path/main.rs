//! Cost of one request inside the harness, and of merging shards: `cargo bench --bench hot_path`.
//!
//! One module per noun, through the public interface of `crawlmark-harness` alone. Nothing here
//! forks: criterion may start threads. What a whole request costs, sockets included, is measured by
//! `benches/side_by_side`.

mod pacer;
mod plan;
mod samples;
mod stats;
mod wire;

use std::time::Duration;

use criterion::Criterion;

fn main() {
    // Long enough for a few per cent, short enough to be run before every commit.
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    stats::benches(&mut criterion);
    wire::benches(&mut criterion);
    pacer::benches(&mut criterion);
    plan::benches(&mut criterion);
    criterion.final_summary();
}
