//! Number formats of the live view, and its words on stops and failures.

use std::time::Duration;

use crawlmark_harness::stats::{FailureCause, Failures, Percentile};
use crawlmark_harness::supervisor::{Live, Stopping};
use crawlmark_results::run::words::explained;
use crawlmark_results::show::text::{grouped, micros};

/// A percentile, as far as it is known.
pub(super) fn percentile(percentile: Percentile) -> String {
    match percentile {
        Percentile::TooFew => "-".to_owned(),
        Percentile::Exact(ns) => nanos(ns),
        Percentile::AtLeast(ns) => format!(">={}", nanos(ns)),
    }
}

/// A time in the unit that suits it.
pub(super) fn nanos(ns: u64) -> String {
    if ns == 0 {
        "0".to_owned()
    } else {
        micros(ns as f64 / 1e3)
    }
}

/// A time that is left, in whole seconds: one that has begun is still to go.
pub(super) fn left(time: Duration) -> String {
    match time.as_secs() + u64::from(time.subsec_nanos() > 0) {
        s @ 0..100 => format!("{s} s"),
        s @ 100..6_000 => format!("{} min {:02} s", s / 60, s % 60),
        s => format!("{} h {:02} min", s / 3_600, s / 60 % 60),
    }
}

/// Describe the effect of another Ctrl-C on a stop that waits for these open requests.
pub(super) fn stop_words(stopping: Stopping, open: u32) -> String {
    let again = if stopping == Stopping::BySignal {
        " again"
    } else {
        ""
    };
    match (stopping, open) {
        (Stopping::AtOnce, _) => {
            "press Ctrl-C again to kill the shards, which loses what they have not reported"
                .to_owned()
        }
        (_, 0) => "no request is open".to_owned(),
        (_, 1) => format!("press Ctrl-C{again} to cut off 1 open request"),
        _ => format!(
            "press Ctrl-C{again} to cut off {} open requests",
            grouped(open.into())
        ),
    }
}

/// Describe the first failure of a cause and its remedy; none where nothing is known.
pub(super) fn failure_words(live: &Live, cause: FailureCause) -> Option<String> {
    let mut known = Failures::default();
    live.shards
        .iter()
        .for_each(|shard| known.merge(&shard.failures));
    let first = known.get(cause);
    let details = first.and_then(|first| first.details.as_deref());
    let words = explained(
        cause,
        details,
        first.and_then(|first| first.excerpt.as_deref()),
    );
    (!words.is_empty()).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_is_left_is_rounded_up() {
        let shown = [0, 1, 1_000, 1_001, 8_999, 99_001].map(|ms| left(Duration::from_millis(ms)));
        assert_eq!(shown, ["0 s", "1 s", "1 s", "2 s", "9 s", "1 min 40 s"]);
    }
}
