//! Buckets: a burst at once, and then one request per interval. GCRA, token bucket and leaky bucket
//! are the same arithmetic under three names, kept as one instant per key.

use super::algorithm::{LimitDecision, Quota, Standing};
use crate::setting::{SettingError, duration_text};
use std::num::NonZeroU32;
use std::time::Duration;

/// Longest period: a limit per more than a day cannot be seen at work in a benchmark.
pub const MAX_PERIOD: Duration = Duration::from_hours(24);

/// Greatest tolerance, 73 years. It keeps every sum of times below 2^64 for as long as the clock
/// runs.
const MAX_TOLERANCE_NS: u64 = 1 << 61;

/// `permits` requests per `period`, evenly: one per interval, which is the period over the permits,
/// rounded up to whole nanoseconds, so never more is granted than asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketPace {
    pub(super) permits: NonZeroU32,
    pub(super) period: Duration,
    pub(super) interval_ns: u64,
}

impl BucketPace {
    /// Check a pace of `permits` per `period`.
    ///
    /// # Errors
    ///
    /// The period is zero or longer than [`MAX_PERIOD`], or the rate is above one per nanosecond.
    pub fn new(permits: NonZeroU32, period: Duration) -> Result<Self, SettingError> {
        let per = duration_text(period);
        if period.is_zero() || period > MAX_PERIOD {
            let right = "write a period above 0 and up to a day";
            return Err(SettingError::new(format!(
                "a limit per {per} is out of range: {right}"
            )));
        }
        let period_ns = nanos(period);
        if u64::from(permits.get()) > period_ns {
            let what =
                format!("{permits} per {per} is more than one per nanosecond: leave the limit out");
            return Err(SettingError::new(what));
        }
        Ok(Self {
            permits,
            period,
            interval_ns: period_ns.div_ceil(u64::from(permits.get())),
        })
    }

    /// Return how long `requests` take at this pace, in nanoseconds.
    fn span_ns(&self, requests: u32) -> Result<u64, SettingError> {
        let span_ns = self
            .interval_ns
            .checked_mul(u64::from(requests))
            .filter(|span| *span <= MAX_TOLERANCE_NS);
        let right = "at that rate would take 73 years to fill: write a smaller burst";
        span_ns.ok_or_else(|| SettingError::new(format!("a burst of {requests} {right}")))
    }
}

pub(super) fn nanos(period: Duration) -> u64 {
    u64::try_from(period.as_nanos()).unwrap_or(u64::MAX)
}

/// Requests in excess of a pace that are delayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// Those after the first so many; 0 delays all.
    After(u32),
    /// None: a burst passes at once.
    Never,
}

/// At most `excess` requests ahead of a pace, one more per interval `t` of it.
///
/// **Guarantee.** In any window of `w` it admits at most `excess + 1 + w / t`.
///
/// As GCRA its excess is 0 if left out, the strictest reading of a rate: no two requests closer
/// together than one interval. A client that paces itself exactly still meets refusals then,
/// because the network moves its requests a little; a burst of a few forgives that. As a token
/// bucket it holds a whole period's tokens if nothing is said. To a client the two differ in
/// nothing else: as the limit it is told what may come at once, as what remains the whole tokens
/// there are, as the reset the instant of the next one. No fraction of a token is ever lost to
/// rounding.
///
/// As a leaky bucket it holds all requests in excess but the first so many until their turn: with E
/// the requests in excess, this one included but for the first of a key, E <= undelayed passes at
/// once, E <= excess is delayed by (E - undelayed) intervals, and above that it is turned away and
/// takes nothing. With nothing undelayed no two requests leave it less than one interval apart. A
/// client that leaves while it is delayed has taken its turn all the same. Source:
/// `ngx_http_limit_req_module`, whose `delay=` is `undelayed` here and whose `nodelay` is
/// [`Delay::Never`]; it counts in thousandths of a request and in milliseconds where this counts in
/// nanoseconds, so its delays are up to a millisecond shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    pub(super) pace: BucketPace,
    pub(super) excess: u32,
    pub(super) delay: Delay,
    /// The pace's interval times the excess.
    tolerance_ns: u64,
    undelayed_ns: u64,
}

impl Bucket {
    /// Check a bucket that admits `excess` requests ahead of `pace`.
    ///
    /// # Errors
    ///
    /// The bucket would take more than 73 years to fill, or more are undelayed than it takes.
    pub fn new(pace: BucketPace, excess: u32, delay: Delay) -> Result<Self, SettingError> {
        let undelayed_ns = match delay {
            Delay::Never => u64::MAX,
            Delay::After(undelayed) if undelayed > excess => {
                let right = "write a delay of at most the burst, or nodelay";
                let what = format!("delay={undelayed} is more than the burst of {excess}: {right}");
                return Err(SettingError::new(what));
            }
            Delay::After(undelayed) => pace.span_ns(undelayed)?,
        };
        Ok(Self {
            pace,
            excess,
            delay,
            tolerance_ns: pace.span_ns(excess)?,
            undelayed_ns,
        })
    }

    /// Admit if and only if `now >= TAT - tau`, and then let `TAT = max(TAT, now) + t`, with `t`
    /// the interval and `tau` the tolerance. TAT, the theoretical arrival time, is the instant at
    /// which all that was admitted is paid for. A fresh key has TAT 0. Source: ITU-T I.371, virtual
    /// scheduling.
    pub(super) fn step(&self, tat: u64, now_ns: u64) -> LimitDecision {
        let due_ns = tat.saturating_sub(self.tolerance_ns);
        if now_ns < due_ns {
            return LimitDecision::Rejected {
                retry_after_ns: due_ns - now_ns,
            };
        }
        let next = tat.max(now_ns).saturating_add(self.pace.interval_ns);
        // What it is ahead of its turn is its excess, in intervals.
        LimitDecision::Admitted {
            next,
            delay_ns: tat.saturating_sub(now_ns).saturating_sub(self.undelayed_ns),
        }
    }

    /// Return the word without one admission that left `taken` behind, given back at `now_ns`, a
    /// reading later than that of the word.
    ///
    /// In the meantime others may have been admitted. Without the one that is given back, some of
    /// them might have met a full bucket, which gains nothing more; what they would have lost so is
    /// at most the time that has passed since the instant that the admission was counted from. That
    /// much is kept: what is left never admits more than if the admission had not been, and at most
    /// that much less.
    pub(super) fn give_back(&self, tat: u64, taken: u64, now_ns: u64) -> Option<u64> {
        let counted_from_ns = taken.saturating_sub(self.pace.interval_ns);
        let kept_ns = now_ns.saturating_sub(counted_from_ns);
        let back_ns = self
            .pace
            .interval_ns
            .checked_sub(kept_ns)
            .filter(|back| *back > 0)?;
        tat.checked_sub(back_ns)
    }

    pub(super) fn standing(&self, tat: u64, now_ns: u64) -> Standing {
        let interval_ns = self.pace.interval_ns;
        let ahead_ns = tat.saturating_sub(now_ns);
        // Room for so many more at once: whole intervals between what is owed and what may be owed.
        let room_ns = self
            .tolerance_ns
            .saturating_add(interval_ns)
            .saturating_sub(ahead_ns);
        let remaining = room_ns / interval_ns;
        // The next permit is there when the room has grown to one more interval; a full bucket
        // gains nothing.
        let reset_ns = if ahead_ns == 0 {
            0
        } else {
            remaining.saturating_add(1).saturating_mul(interval_ns) - room_ns
        };
        Standing {
            remaining,
            reset_ns,
        }
    }

    pub(super) fn quota(&self) -> Quota {
        let per_ns = self.tolerance_ns.saturating_add(self.pace.interval_ns);
        Quota {
            requests: self.excess.saturating_add(1),
            per_ns: Some(per_ns),
        }
    }
}

#[cfg(test)]
mod tests;
