//! The frames that a shard sends while it crawls: progress several times a second, an interval once
//! a second.

use std::hint::black_box;

use crawlmark_harness::clock::Nanos;
use crawlmark_harness::stats::{Series, ShardStats};
use crawlmark_harness::wire::{
    EncodedStats, Frame, FrameDecoder, IntervalFrame, Progress, SecondFigures, WireError, encode,
};
use criterion::Criterion;

use crate::samples::filled;

pub(crate) fn benches(criterion: &mut Criterion) {
    let stats = filled(&Series::PER_INTERVAL);
    let progress = Frame::Progress(Box::new(Progress {
        at: Nanos(1),
        counters: stats.counters.clone(),
        in_flight: 64,
        remaining: 1 << 40,
        ..Progress::default()
    }));
    criterion.bench_function("wire/encode an interval", |bencher| {
        bencher.iter(|| interval(black_box(&stats)).and_then(|frame| encode(&frame)));
    });
    criterion.bench_function("wire/encode progress", |bencher| {
        bencher.iter(|| encode(black_box(&progress)));
    });
    decode(
        criterion,
        "wire/decode an interval",
        &interval(&stats).and_then(|frame| encode(&frame)),
        |frame| match frame {
            Frame::Interval(frame) => Some(frame.stats.unpacked()),
            _ => None,
        },
    );
    decode(criterion, "wire/decode progress", &encode(&progress), Some);
}

/// Histograms included: a shard serialises them when the interval ends.
fn interval(stats: &ShardStats) -> Result<Frame, WireError> {
    Ok(Frame::Interval(Box::new(IntervalFrame {
        figures: SecondFigures {
            index: 7,
            in_flight: 64,
            cpu_us: 900_000,
            max_sched_lag_ns: 80_000,
            ..SecondFigures::default()
        },
        stats: EncodedStats::of(stats)?,
    })))
}

/// From bytes to what the supervisor merges, which `unpack` makes of a frame.
fn decode<T>(
    criterion: &mut Criterion,
    name: &str,
    encoded: &Result<Vec<u8>, WireError>,
    unpack: impl Fn(Frame) -> Option<T>,
) {
    // A frame that does not encode shows as a bench that is missing, not as a fast one.
    let Ok(bytes) = encoded else { return };
    let mut decoder = FrameDecoder::default();
    criterion.bench_function(name, |bencher| {
        bencher.iter(|| {
            decoder.push(black_box(bytes));
            decoder
                .next_frame::<Frame>()
                .ok()
                .flatten()
                .and_then(&unpack)
        });
    });
}
