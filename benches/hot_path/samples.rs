//! Attempts to feed to the benches: good answers whose times spread over the histogram as a real
//! tail does. A fixed value would keep one cell in the cache and flatter the recorder.

use std::time::Duration;

use crawlmark_harness::clock::Nanos;
use crawlmark_harness::sample::{Advice, Attempt, Fate, Outcome, Permit, Sample, Tries};
use crawlmark_harness::stats::{Bounds, Series, ShardStats};

/// Number of different attempts; a power of two, so that walking them in a circle is one mask.
pub(crate) const COUNT: usize = 4096;

/// The bounds of a run with the default timeout.
pub(crate) fn bounds() -> Bounds {
    Bounds::for_timeout(Duration::from_secs(10))
}

/// [`COUNT`] attempts, the same at every call.
pub(crate) fn samples() -> Vec<Sample> {
    // Knuth's 64-bit multiplicative generator: any spread will do, it only has to be the same every
    // time.
    let mut state = 1_u64;
    (0..COUNT as u64)
        .map(|id| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            // 100 us, doubled up to seven times: most answers fast, few slow.
            let service_ns = (100_000 + (state >> 48)) << (state >> 61).min(7);
            sample(id, service_ns)
        })
        .collect()
}

fn sample(id: u64, service_ns: u64) -> Sample {
    let intended = Nanos(id * 10_000);
    let sent = Nanos(intended.0 + 1_500);
    Sample {
        permit: Permit {
            id,
            attempt: 0,
            tries: Tries::NONE,
            host: 0,
            first_intended: intended,
            intended,
            ready: Nanos(intended.0 + 500),
            admitted: Nanos(intended.0 + 700),
        },
        attempt: Attempt {
            sent: Some(sent),
            first_byte: Some(Nanos(sent.0 + service_ns / 2)),
            done: Nanos(sent.0 + service_ns),
            bytes_sent: 95,
            bytes_received: 119,
            status: Some(200),
            outcome: Outcome::Ok,
            advice: Advice::default(),
        },
        fate: Fate::Ended,
    }
}

/// A shard's stats with every attempt of [`samples`] counted, in the distributions of `series`.
pub(crate) fn filled(series: &[Series]) -> ShardStats {
    let mut stats = ShardStats::with_series(bounds(), series);
    for sample in &samples() {
        stats.record_only(sample, series);
    }
    stats
}
