//! Durations and true values of the experiments, in the full and in the quick form. Tolerances are
//! the same in both; they are in `judge`.

use std::time::Duration;

/// The hold of nearly every answer. No injected time is shorter: what a machine does to a request
/// is small beside it.
pub(super) const HOLD: Duration = Duration::from_millis(20);

/// The hold of some items.
pub(super) const SLOW_HOLD: Duration = Duration::from_millis(500);

/// Share of the slow items, on average; the target chooses them by its seed.
pub(super) const SLOW_SHARE: f64 = 0.02;

/// The hold of the scaling experiment.
pub(super) const SHARD_HOLD: Duration = Duration::from_millis(50);

/// Connections of each of its shards.
pub(super) const SHARD_CONNECTIONS: u32 = 8;

/// For how long the shard is stopped.
pub(super) const FREEZE: Duration = Duration::from_millis(500);

/// When, after the start.
pub(super) const FREEZE_AFTER: Duration = Duration::from_millis(800);

/// Requests per second of the open loops.
pub(super) const PER_S: u64 = 200;

/// Starting and ending the processes of a run, for the estimate of how long it all takes.
const START_AND_END: Duration = Duration::from_millis(150);

/// Length of the experiments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// As the table of truth has them.
    Full,
    /// For CI.
    Quick,
}

/// An open or closed loop through one stall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scene {
    /// For how long requests are scheduled.
    pub(super) lasts: Duration,
    /// For how long the target answers nothing.
    pub(super) stall: Duration,
    /// The stall ends this long after the target's start, and comes again after as long, when the
    /// run is over.
    pub(super) every: Duration,
    /// Requests in flight of the closed loop: enough for a 99th percentile, and few enough to hide
    /// the stall from it.
    pub(super) in_flight: u32,
}

impl Form {
    /// The name used in results.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Quick => "quick",
        }
    }

    /// Time after which no attempt may end; the first ones are always made.
    pub(super) const fn latest_end(self) -> Duration {
        match self {
            Self::Full => Duration::MAX,
            Self::Quick => Duration::from_secs(38),
        }
    }

    /// Items of the experiment with two holds.
    pub(super) const fn modes_items(self) -> u64 {
        match self {
            Self::Full => 3_200,
            Self::Quick => 1_200,
        }
    }

    /// The stall, and the runs through it.
    pub(super) const fn scene(self) -> Scene {
        match self {
            Self::Full => Scene {
                lasts: Duration::from_secs(10),
                stall: Duration::from_secs(1),
                every: Duration::from_secs(7),
                in_flight: 4,
            },
            Self::Quick => Scene {
                lasts: Duration::from_millis(5_500),
                stall: Duration::from_millis(500),
                every: Duration::from_millis(3_500),
                in_flight: 6,
            },
        }
    }

    /// Return the duration of each of the scaling runs.
    pub(super) const fn shards_run(self) -> Duration {
        match self {
            Self::Full => Duration::from_secs(4),
            Self::Quick => Duration::from_millis(1_500),
        }
    }

    /// Return the duration of the run in which a shard is stopped.
    pub(super) const fn freeze_run(self) -> Duration {
        match self {
            Self::Full => Duration::from_secs(4),
            Self::Quick => Duration::from_millis(2_500),
        }
    }

    /// Items of each run of a pair: as many for each of its connections, so that none of them is
    /// alone at the end.
    pub(super) const fn pair_items(self) -> u64 {
        match self {
            Self::Full => 8 * 47,
            Self::Quick => 8 * 30,
        }
    }
}

/// Estimate the duration of a crawl of `items` items with a mean hold of `hold`, over `connections`
/// connections.
pub(super) fn crawl_takes(items: u64, connections: u32, hold: Duration) -> Duration {
    hold.mul_f64(items as f64 / f64::from(connections)) + START_AND_END
}

/// Estimate the time that a run of `duration` takes, its start and end included.
pub(super) fn run_takes(duration: Duration) -> Duration {
    duration + START_AND_END
}

impl Scene {
    /// The `q`-th quantile of the response times of an open loop, s.
    ///
    /// Requests are scheduled at a constant rate for `T`, and each is held for `H`. No answer is
    /// due in the stall of `S`: a request of up to `H` before it is answered at its end, one that
    /// comes in it begins its hold at its end. So of those that come during `H + S`, for each `x`
    /// from `H` to `S + H` those of `S + 2H - x` wait longer than `x`:
    ///
    /// ```text
    /// p_q = max(H, min(S + H, S + 2H - (1 - q) T))
    /// ```
    ///
    /// It takes the stall to lie within the run, and the target for unlimited. A stall that only
    /// keeps requests from being begun is shorter by one `H`.
    pub(super) fn response_s(&self, q: f64) -> f64 {
        let (hold, stall) = (HOLD.as_secs_f64(), self.stall.as_secs_f64());
        let waits = stall + 2.0 * hold - (1.0 - q) * self.lasts.as_secs_f64();
        waits.min(stall + hold).max(hold)
    }

    /// Requests that the timetable of the open loop holds.
    pub(super) fn scheduled(&self) -> f64 {
        self.lasts.as_secs_f64() * PER_S as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quantiles_of_a_stall_are_those_of_its_requests_one_by_one() {
        for form in [Form::Full, Form::Quick] {
            let scene = form.scene();
            let gap_us = 1_000_000 / PER_S;
            let us = |time: Duration| u64::try_from(time.as_micros()).unwrap();
            let (hold, end) = (us(HOLD), us(scene.every));
            let begin = end - us(scene.stall);
            let answerable = |at: u64| if (begin..end).contains(&at) { end } else { at };
            let mut waits: Vec<u64> = (0..us(scene.lasts) / gap_us)
                .map(|i| i * gap_us)
                .map(|at| answerable(answerable(at) + hold) - at)
                .collect();
            waits.sort_unstable();
            for q in [0.5, 0.95, 0.99, 1.0] {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a rank"
                )]
                let rank = (q * waits.len() as f64).ceil() as usize;
                let (exact_s, said_s) = (waits[rank - 1] as f64 / 1e6, scene.response_s(q));
                // A request more or less.
                assert!(
                    (exact_s - said_s).abs() <= 2.0 * gap_us as f64 / 1e6,
                    "{form:?} {q}: {exact_s} {said_s}"
                );
            }
        }
    }

    #[test]
    fn a_run_through_a_stall_meets_one_and_has_a_99th_percentile() {
        for form in [Form::Full, Form::Quick] {
            let Scene {
                lasts,
                stall,
                every,
                in_flight,
            } = form.scene();
            let slack = Duration::from_millis(800);
            // However long the start takes, up to the slack: the first stall is met and over, the
            // second not begun.
            assert!(
                every > stall + slack && every + slack < lasts && lasts + stall + slack < every * 2,
                "{form:?}"
            );
            let closed = f64::from(in_flight) * (lasts.as_secs_f64() - stall.as_secs_f64())
                / HOLD.as_secs_f64();
            // A tenth more than needed.
            assert!(
                form.scene().scheduled() >= 1_100.0 && closed >= 1_100.0,
                "{form:?}: {closed}"
            );
            // Those that meet the stall are too few to be seen by the percentile of the closed
            // loop.
            assert!(f64::from(in_flight) < closed * 0.01);
        }
    }
}
