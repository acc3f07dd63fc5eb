//! Buckets: a burst at once, and then one request per interval. GCRA, token bucket and leaky bucket
//! are the same arithmetic under three names, kept as one instant per key.

use super::algorithm::{LimitDecision, Quota, Standing};

/// Greatest tolerance, 73 years. It keeps every sum of times below 2^64 for as long as the clock
/// runs.
const MAX_TOLERANCE_NS: u64 = 1 << 61;

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
/// to delay none; it counts in thousandths of a request and in milliseconds where this counts in
/// nanoseconds, so its delays are up to a millisecond shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    /// The period over the permits, rounded up to whole nanoseconds, so never more is granted than
    /// asked.
    interval_ns: u64,
    excess: u32,
    /// The interval times the excess.
    tolerance_ns: u64,
    undelayed_ns: u64,
}

impl Bucket {
    /// Make a bucket of `permits` per period that admits `excess` requests ahead of it, and delays
    /// those in excess but for the first `undelayed`, or none. Nothing if that is more than one
    /// per nanosecond, if it would take more than 73 years to fill, or if more are undelayed than
    /// it takes.
    pub(super) fn new(
        permits: u32,
        period_ns: u64,
        excess: u32,
        undelayed: Option<u32>,
    ) -> Option<Self> {
        let interval_ns = period_ns.div_ceil(permits.into());
        let tolerance_ns = interval_ns.checked_mul(excess.into())?;
        let is_possible = u64::from(permits) <= period_ns
            && tolerance_ns <= MAX_TOLERANCE_NS
            && undelayed.is_none_or(|undelayed| undelayed <= excess);
        is_possible.then(|| Self {
            interval_ns,
            excess,
            tolerance_ns,
            undelayed_ns: undelayed
                .map_or(u64::MAX, |undelayed| interval_ns * u64::from(undelayed)),
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
        let next = tat.max(now_ns).saturating_add(self.interval_ns);
        // What it is ahead of its turn is its excess, in intervals.
        LimitDecision::Admitted {
            next,
            delay_ns: tat.saturating_sub(now_ns).saturating_sub(self.undelayed_ns),
        }
    }

    pub(super) fn standing(&self, tat: u64, now_ns: u64) -> Standing {
        let interval_ns = self.interval_ns;
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
        let per_ns = self.tolerance_ns.saturating_add(self.interval_ns);
        Quota {
            requests: self.excess.saturating_add(1),
            per_ns: Some(per_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::algorithm::drive::ask;
    use super::super::{Algorithm, Limit};
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;

    const MS: u64 = 1_000_000;

    fn algorithm(text: &str) -> Algorithm {
        text.parse::<Limit>().unwrap().algorithm
    }

    /// A bucket of this burst that gains a token in 100 ns.
    fn bucket(burst: u32) -> Bucket {
        Bucket::new(1, 100, burst - 1, None).unwrap()
    }

    proptest! {
        #[test]
        fn remaining_is_what_would_be_admitted_now_and_one_more_at_the_reset(tat in 0_u64..5_000, burst in 1_u32..9) {
            let bucket = bucket(burst);
            let now = 1_000;
            let admitted_at = |now: u64| {
                let mut word = tat;
                (0..100).take_while(|_| match bucket.step(word, now) {
                    LimitDecision::Admitted { next, .. } => { word = next; true }
                    LimitDecision::Rejected { .. } => false,
                }).count() as u64
            };
            let Standing { remaining, reset_ns } = bucket.standing(tat, now);
            prop_assert_eq!(remaining, admitted_at(now));
            if reset_ns > 0 {
                prop_assert_eq!(admitted_at(now + reset_ns - 1), remaining);
                // More than one bucket's worth behind, the room is gained only once the debt is paid.
                if remaining < u64::from(burst) && tat <= now + bucket.tolerance_ns + 100 {
                    prop_assert_eq!(admitted_at(now + reset_ns), remaining + 1);
                }
            } else {
                prop_assert_eq!(remaining, u64::from(burst));
            }
        }
    }

    fn any_bucket() -> impl Strategy<Value = Bucket> {
        (1_u32..5_000, 1_u64..10_000_000, 0_u32..49)
            .prop_filter_map("valid", |(permits, us, excess)| {
                Bucket::new(permits, us * 1000, excess, None)
            })
    }

    proptest! {
        #[test]
        fn it_admits_what_a_bucket_of_tokens_does(
            limit in any_bucket(), gaps in proptest::collection::vec(0_u64..300, 1..200),
        ) {
            // The model: tokens in 1/t, capped at the burst.
            let (tat, t) = (Cell::new(0), u128::from(limit.interval_ns));
            let full = (u128::from(limit.excess) + 1) * t;
            let (mut tokens, mut now) = (full, 0);
            for gap in gaps {
                let gap_ns = gap * limit.interval_ns / 100;
                now += gap_ns;
                tokens = (tokens + u128::from(gap_ns)).min(full);
                let expected = tokens >= t;
                prop_assert_eq!(ask(&tat, now, &Algorithm::Bucket(limit)).is_ok(), expected);
                if expected {
                    tokens -= t;
                }
                prop_assert_eq!(u128::from(limit.standing(tat.get(), now).remaining), tokens / t);
            }
        }

        #[test]
        fn a_refused_client_is_admitted_when_told_and_not_before(limit in any_bucket(), start in 0_u64..1 << 40) {
            let (tat, limit) = (Cell::new(0), Algorithm::Bucket(limit));
            let wait = std::iter::repeat_with(|| ask(&tat, start, &limit)).find_map(Result::err).unwrap();
            prop_assert!(wait >= 1);
            prop_assert!(ask(&tat, start + wait - 1, &limit).is_err());
            prop_assert!(ask(&tat, start + wait, &limit).is_ok());
        }

        #[test]
        fn extreme_words_and_clocks_do_not_overflow(word: u64, now: u64, limit in any_bucket()) {
            limit.step(word, now);
            limit.standing(word, now);
        }
    }

    proptest! {
        /// nginx's own arithmetic, with nanoseconds for milliseconds:
        /// `excess = max(0, excess - rate * passed + 1)`.
        #[test]
        fn it_does_what_nginx_does(
            burst in 0_u32..10, undelayed in 0_u32..10, gaps in proptest::collection::vec(0_u64..250, 1..200),
        ) {
            let t = 10 * MS;
            let undelayed = undelayed.min(burst);
            let limit = algorithm(&format!("leaky:100/s:burst={burst}:delay={undelayed}"));
            let word = Cell::new(0);
            // Excess in units of 1 / t; none before the first request of a key, which is free.
            let mut last: Option<(u64, u64)> = None;
            let mut now = 0;
            let mut departures = Vec::new();
            for gap in gaps {
                now += gap * t / 100;
                let excess = last.map_or(0, |(at, excess)| (excess + t).saturating_sub(now - at));
                let expected = if excess > u64::from(burst) * t {
                    None
                } else {
                    last = Some((now, excess));
                    Some(excess.saturating_sub(u64::from(undelayed) * t))
                };
                prop_assert_eq!(ask(&word, now, &limit).ok(), expected);
                departures.extend(expected.map(|delay| now + delay));
            }
            if undelayed == 0 {
                prop_assert!(departures.windows(2).all(|pair| pair[1] - pair[0] >= t));
            }
        }
    }
}
