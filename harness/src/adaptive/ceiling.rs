//! Estimates of the rate that the target allows, one per episode of throttling.
//!
//! Called by the learnt pace once per episode; it keeps only what the next episode is compared
//! with. Pure arithmetic on accepted requests: it knows neither schedules nor future pauses.
//!
//! # Two models
//!
//! A limiter is one of two kinds, and nothing in an answer says which:
//!
//! - A **bucket** (token bucket, GCRA) of rate `R` and burst `b` accepts at most `b + R t` in any
//!   time `t`. At the moment at which it refuses, it is empty: over the windows that end there,
//!   with `A(t)` accepted in the last `t` seconds, the greatest `A(t) - R t` *is* `b` (the arrival
//!   curve of a leaky bucket; Cruz, 1991). One episode is one equation in two unknowns; two
//!   episodes that used the bucket differently (a burst, then a ramp) give both. With `b` known,
//!   every later episode gives `R` as the greatest `(A(t) - b) / t`.
//! - A **window** of a second, fixed or sliding, refuses when its count is full: what was accepted
//!   in the last second is then no less than `R`, and is `R` exactly where the window slides.
//!
//! A window also takes its whole rate at once from the flood before the first refusal, so a later
//! second that counts about as many as the flood did is believed at once. The count of a whole
//! second is never far below a window's rate, whatever part of the window's count a pause has
//! emptied, so the least of them bounds the estimates until a hold is over.
//!
//! Whichever model says the same twice in a row is believed. All of it is linear in what was
//! accepted, and all shards receive the same episodes, so the shards' estimates, each of its own
//! share, add up to an estimate of the whole.

use super::history::AcceptedWindow;

/// The least rate that is ever estimated, per second: one request in ten seconds.
pub(super) const FLOOR: f64 = 0.1;

/// Difference up to which two estimates agree, relative. The count of a second is the coarser one:
/// its edges cut requests.
const BUCKETS_AGREE: f64 = 0.06;
const SECONDS_AGREE: f64 = 0.08;

/// A window takes its whole rate at once in the flood before the first refusal. A later second that
/// counts about as many is the same window's: it counts more while a pace rises, hardly less.
const LIKE_A_FLOOD: std::ops::Range<f64> = 0.97..1.25;

/// A second's count below this part of the pace that was refused holds too much of the slow
/// beginning of a rise.
const TELLING_SECOND: f64 = 0.45;

/// The share of a whole second's count that is believed: a count is no less than the rate, and more
/// while a pace rises.
const WHOLE_SHARE: f64 = 0.98;

/// Windows shorter than this many seconds say little of a rate: one request more or less, or a
/// round trip's jitter, is a large part of them.
const SHORT_S: f64 = 0.25;

/// A burst beyond this part of a second's requests is no use for an estimate: it is uncertain by
/// more than what is sought.
const USABLE_BURST: f64 = 0.6;

/// A pace that lasted no longer than this many seconds and yet found less than this part of itself
/// accepted was far too fast; a second's count is then no count of a second.
const FAR_TOO_FAST: f64 = 0.6;
const HARDLY_BEGUN_S: f64 = 0.5;

/// Within this many seconds after a pause, the last second may hold parts of two fixed windows.
const TWO_WINDOWS_S: f64 = 1.2;

/// An estimate that is within a tenth of the pace that was refused leaves nothing worth searching
/// for.
const CLOSE: f64 = 0.9;

/// After so many rises that did not agree, the best estimate is taken as it is: each further one
/// costs a pause.
const RISES: u32 = 2;

/// Observations of one episode, of this shard's share.
#[derive(Debug)]
pub(super) struct Episode {
    /// Accepted requests, by how long before the refused request they were sent; from the shortest
    /// window to the longest.
    pub(super) windows: Vec<AcceptedWindow>,
    /// From the end of the last pause to the refused request, in seconds.
    pub(super) active_s: f64,
    /// Requests accepted since the last pause.
    pub(super) accepted: f64,
    /// A rate that the target allows at least: what was accepted since the last episode, over all
    /// the time since then.
    pub(super) least: f64,
    /// The pace when the refused request was sent.
    pub(super) refused: f64,
    /// The pace just after the last pause.
    pub(super) base: f64,
}

impl Episode {
    /// Return the number of requests accepted in the last second, or since the last pause if that
    /// is more recent.
    pub(super) fn last_second(&self) -> f64 {
        self.windows
            .iter()
            .rev()
            .find(|window| window.seconds <= 1.0)
            .map_or(0.0, |window| window.accepted)
    }

    /// Return the number of requests that a window accepted in the second before it refused, which
    /// is no less than its rate; infinite when the pause was within that second.
    fn whole_second(&self) -> f64 {
        if self.active_s < 1.0 {
            f64::INFINITY
        } else {
            self.last_second()
        }
    }

    /// The greatest rate that a bucket of `burst` can have had; 0 when nothing can be said.
    fn bucket_rate(&self, burst: f64) -> f64 {
        let telling = self
            .windows
            .iter()
            .filter(|window| window.seconds >= SHORT_S);
        telling
            .map(|window| (window.accepted - burst) / window.seconds)
            .fold(0.0, f64::max)
    }

    /// True if `a` and `b` are the same to within `tolerance` and one request.
    fn agree(&self, a: f64, b: f64, tolerance: f64) -> bool {
        (a / b.max(FLOOR) - 1.0).abs() < tolerance + 1.0 / self.accepted.max(1.0)
    }
}

/// Kind of limiter that the target seems to have.
#[derive(Debug, Clone, Copy, PartialEq)]
enum LimiterKind {
    Unknown,
    Bucket { burst: f64 },
    Window,
}

/// Certainty of an estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Certainty {
    /// Two episodes said the same.
    Agreed,
    /// The best estimate so far.
    Fair,
    /// Somewhere below the pace that was refused.
    Coarse,
}

/// A rate that the target allows this shard.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Estimate {
    /// Requests per second.
    pub(super) per_s: f64,
    /// Certainty of this rate.
    pub(super) certainty: Certainty,
}

/// Model of the target's limiter, learnt from the episodes so far.
#[derive(Debug)]
pub(super) struct Ceiling {
    limiter: LimiterKind,
    before: Vec<AcceptedWindow>,
    last_bucket: f64,
    last_second: f64,
    rises: u32,
    /// The least count of a whole second before a refusal, since a hold last ended in an attempt to
    /// go faster.
    roof: f64,
    /// Requests accepted in the second before the first refusal: a window takes its whole rate at
    /// once.
    flood: f64,
}

impl Ceiling {
    /// Nothing is known.
    pub(super) const fn new() -> Self {
        Self {
            limiter: LimiterKind::Unknown,
            before: Vec::new(),
            last_bucket: 0.0,
            last_second: 0.0,
            rises: 0,
            roof: f64::INFINITY,
            flood: 0.0,
        }
    }

    /// A hold is over: the limit may have been raised, so what was counted before no longer bounds
    /// it.
    pub(super) const fn look_higher(&mut self) {
        self.roof = f64::INFINITY;
    }

    /// The burst of the target's bucket, of this shard's share; none unless it seems to have one.
    pub(super) const fn burst(&self) -> Option<f64> {
        match self.limiter {
            LimiterKind::Bucket { burst } => Some(burst),
            LimiterKind::Unknown | LimiterKind::Window => None,
        }
    }

    /// True if the target seems to count by the second.
    pub(super) fn is_window(&self) -> bool {
        self.limiter == LimiterKind::Window
    }

    /// The first episode, without a pace: no rate yet, for a run that was throttled within
    /// milliseconds says only that it was far too fast.
    pub(super) fn first(&mut self, episode: &Episode) {
        self.last_second = episode.last_second();
        self.flood = self.last_second;
    }

    /// A pace believed in was refused and is now `per_s`.
    pub(super) const fn corrected(&mut self, per_s: f64) {
        self.last_bucket = per_s;
    }

    /// Keeps what the next episode is compared with.
    pub(super) fn keep(&mut self, episode: Episode) {
        self.before = episode.windows;
    }

    /// The search ran into the limit.
    pub(super) fn after_search(&mut self, episode: &Episode) -> Estimate {
        let second = episode.last_second();
        let fit = fit(&self.before, episode);
        let same_second = episode.agree(second, self.last_second, SECONDS_AGREE);
        self.limiter = match fit {
            _ if same_second => LimiterKind::Window,
            Some(rate) => LimiterKind::Bucket {
                burst: burst(&episode.windows, rate),
            },
            None => LimiterKind::Unknown,
        };
        let estimate = if same_second {
            Estimate {
                per_s: second.min(self.last_second),
                certainty: Certainty::Agreed,
            }
        } else {
            let usable = self
                .burst()
                .is_some_and(|burst| burst < USABLE_BURST * second);
            let per_s = fit
                .filter(|_| usable)
                .unwrap_or(second)
                .min(episode.refused);
            Estimate {
                per_s,
                certainty: Certainty::Coarse,
            }
        };
        (self.last_bucket, self.last_second, self.rises) = (fit.unwrap_or(0.0), second, 0);
        self.bounded(estimate, episode)
    }

    /// A rise ran into the limit.
    pub(super) fn after_rise(&mut self, episode: &Episode) -> Estimate {
        let second = episode.last_second();
        if self.burst().is_none() && second > TELLING_SECOND * episode.refused {
            self.roof = self.roof.min(episode.whole_second());
        }
        let bucket = self.burst().map_or(0.0, |burst| episode.bucket_rate(burst));
        let same_bucket = episode.agree(bucket, self.last_bucket, BUCKETS_AGREE);
        let like_flood =
            episode.active_s >= SHORT_S && LIKE_A_FLOOD.contains(&(second / self.flood.max(FLOOR)));
        if like_flood {
            self.last_second = self.flood;
        }
        let same_second = like_flood
            || (second > FAR_TOO_FAST * episode.base
                && episode.agree(second, self.last_second, SECONDS_AGREE));
        if same_second && !same_bucket {
            self.limiter = LimiterKind::Window;
        }
        let estimate = if episode.active_s < SHORT_S {
            Estimate {
                per_s: episode.base * 0.6,
                certainty: Certainty::Coarse,
            }
        } else if same_bucket {
            Estimate {
                per_s: bucket,
                certainty: Certainty::Agreed,
            }
        } else if same_second {
            Estimate {
                per_s: second.min(self.last_second),
                certainty: Certainty::Agreed,
            }
        } else if episode.active_s < HARDLY_BEGUN_S && second < FAR_TOO_FAST * episode.base {
            Estimate {
                per_s: episode.base * 0.8,
                certainty: Certainty::Coarse,
            }
        } else {
            self.best(episode, bucket)
        };
        (self.last_bucket, self.last_second) = (bucket, second);
        self.rises = self.rises.saturating_add(1);
        self.bounded(estimate, episode)
    }

    /// `estimate`, within what the episodes allow.
    fn bounded(&self, estimate: Estimate, episode: &Episode) -> Estimate {
        Estimate {
            per_s: estimate
                .per_s
                .min(episode.refused)
                .max(episode.least)
                .min(self.roof * WHOLE_SHARE),
            ..estimate
        }
    }

    /// The estimate when neither model said the same twice.
    fn best(&self, episode: &Episode, bucket: f64) -> Estimate {
        let second = episode.last_second();
        let enough = |per_s: f64| per_s > CLOSE * episode.refused || self.rises >= RISES;
        if self
            .burst()
            .is_some_and(|burst| burst < USABLE_BURST * second)
        {
            if enough(bucket) {
                return Estimate {
                    per_s: bucket,
                    certainty: Certainty::Fair,
                };
            }
            return Estimate {
                per_s: (bucket * episode.refused.max(bucket)).sqrt(),
                certainty: Certainty::Coarse,
            };
        }
        if episode.active_s < TWO_WINDOWS_S {
            return Estimate {
                per_s: (second * episode.least).sqrt(),
                certainty: Certainty::Coarse,
            };
        }
        let certainty = if enough(second) {
            Certainty::Fair
        } else {
            Certainty::Coarse
        };
        Estimate {
            per_s: second,
            certainty,
        }
    }
}

/// The burst that a bucket of `rate` per second must have had to refuse at the end of `windows` and
/// not before.
fn burst(windows: &[AcceptedWindow], rate: f64) -> f64 {
    windows
        .iter()
        .map(|window| window.accepted - rate * window.seconds)
        .fold(0.0, f64::max)
}

/// The rate of the one bucket that explains both the episode before and this one; none when there
/// is none between the least rate that it can be and the pace that was refused.
fn fit(before: &[AcceptedWindow], episode: &Episode) -> Option<f64> {
    let gap = |rate: f64| burst(before, rate) - burst(&episode.windows, rate);
    let (mut low, mut high) = (episode.least.max(FLOOR), episode.refused);
    if low >= high || gap(low) >= 0.0 || gap(high) < 0.0 {
        return None;
    }
    // Bisection by ratios: forty halvings of the widest span there is leave less than a millionth
    // of it.
    for _ in 0..40 {
        let middle = (low * high).sqrt();
        if gap(middle) >= 0.0 {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(high)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Return the episode that ends a ramp against a bucket of `rate` and `burst`. The ramp doubles
    /// `per_s` times a second, from far below the rate to the moment at which the bucket is empty.
    fn ramp(rate: f64, burst: f64, per_s: f64) -> Episode {
        let growth = per_s * std::f64::consts::LN_2;
        // With r the pace at the end, the excess over the rate is (r - rate * (1 + ln(r / rate))) /
        // growth.
        let excess = |pace: f64| (pace - rate * (1.0 + (pace / rate).ln())) / growth;
        let (mut low, mut high) = (rate, rate * 1e6);
        for _ in 0..200 {
            let middle = f64::midpoint(low, high);
            if excess(middle) < burst {
                low = middle;
            } else {
                high = middle;
            }
        }
        let accepted = |seconds: f64| low / growth * (1.0 - (-growth * seconds).exp());
        let windows = (1..=400).map(|step| f64::from(step) * 0.005);
        let windows: Vec<AcceptedWindow> = windows
            .map(|seconds| AcceptedWindow {
                seconds,
                accepted: accepted(seconds),
            })
            .collect();
        let accepted = windows.last().map_or(0.0, |window| window.accepted);
        Episode {
            windows,
            active_s: 2.0,
            accepted,
            least: accepted / 3.0,
            refused: low,
            base: 5.0,
        }
    }

    /// Return the episode of a bucket of `burst` that gets far too much at once.
    fn flood(burst: f64) -> Episode {
        let windows = vec![AcceptedWindow {
            seconds: 0.000_1,
            accepted: burst,
        }];
        Episode {
            windows,
            active_s: 0.000_1,
            accepted: burst,
            least: 0.0,
            refused: 1e9,
            base: 0.1,
        }
    }

    #[test]
    fn a_flood_and_a_ramp_tell_a_bucket() {
        for (rate, bucket) in [
            (1_000.0, 10.0),
            (1_000.0, 100.0),
            (50.0, 10.0),
            (20_000.0, 1_000.0),
        ] {
            let mut ceiling = Ceiling::new();
            ceiling.first(&flood(bucket));
            ceiling.keep(flood(bucket));
            let estimate = ceiling.after_search(&ramp(rate, bucket, 20.0));
            assert_eq!(estimate.certainty, Certainty::Coarse);
            assert!(
                (estimate.per_s / rate - 1.0).abs() < 0.05,
                "{rate}/s, burst {bucket}: {estimate:?}"
            );
            let found = ceiling.burst().unwrap();
            assert!(
                (found / bucket - 1.0).abs() < 0.1,
                "{rate}/s, burst {bucket}: {found}"
            );
            // A gentler ramp says the same, so it is believed.
            let estimate = ceiling.after_rise(&ramp(rate, bucket, 0.3));
            assert_eq!(
                estimate.certainty,
                Certainty::Agreed,
                "{rate}/s, burst {bucket}: {estimate:?}"
            );
            assert!(
                (estimate.per_s / rate - 1.0).abs() < 0.05,
                "{rate}/s, burst {bucket}: {estimate:?}"
            );
        }
    }

    #[test]
    fn the_same_count_twice_is_a_window() {
        let mut ceiling = Ceiling::new();
        ceiling.first(&flood(500.0));
        ceiling.keep(flood(500.0));
        let full = Episode {
            active_s: 0.3,
            least: 380.0,
            refused: 9_000.0,
            ..flood(510.0)
        };
        let estimate = ceiling.after_search(&full);
        assert_eq!(
            estimate,
            Estimate {
                per_s: 500.0,
                certainty: Certainty::Agreed
            }
        );
        assert!(ceiling.is_window() && ceiling.burst().is_none());
    }

    #[test]
    fn an_estimate_is_never_below_what_was_accepted_all_along() {
        let mut ceiling = Ceiling::new();
        ceiling.first(&flood(10.0));
        ceiling.keep(flood(10.0));
        let little = Episode {
            least: 700.0,
            refused: 900.0,
            ..flood(30.0)
        };
        assert!(ceiling.after_search(&little).per_s >= 700.0);
        assert!(ceiling.after_rise(&little).per_s >= 700.0);
    }

    #[test]
    fn nothing_accepted_is_no_estimate_and_no_panic() {
        let nothing = || Episode {
            windows: vec![],
            active_s: 1e-6,
            accepted: 0.0,
            least: 0.0,
            refused: 0.1,
            base: 0.1,
        };
        let mut ceiling = Ceiling::new();
        ceiling.first(&nothing());
        ceiling.keep(nothing());
        for estimate in [
            ceiling.after_search(&nothing()),
            ceiling.after_rise(&nothing()),
        ] {
            assert!(
                estimate.per_s.is_finite() && estimate.per_s >= 0.0,
                "{estimate:?}"
            );
        }
    }
}
