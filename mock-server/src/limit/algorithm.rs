//! Algorithms of limits: each decides about a key from a word of 64 bits and a reading of the clock.
//! The table of keys stores the words, the limiter asks.
//!
//! It must not read a clock or store anything.

use std::num::NonZeroU32;

/// Algorithm of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// GCRA, token bucket or leaky bucket.
    Bucket(Bucket),
    /// A count per aligned window.
    Window(Window),
    /// At most this many requests of a key at the same time, over all processes: from their
    /// decision until their answer is handed over, or their client has left.
    ///
    /// It is not known when the next place is free, so a refusal asks to wait for the least that
    /// `Retry-After` can say, a second.
    Concurrency(NonZeroU32),
    /// At most this many connections of a key at the same time, over all processes, from their
    /// being accepted until they are closed. Those that only read the ledger count, too: what a
    /// connection is for is not known when it is accepted.
    Connections(NonZeroU32),
}

/// Fate of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitDecision {
    /// Let through if the word can be changed to `next`, and held for `delay_ns` first.
    Admitted { next: u64, delay_ns: u64 },
    /// Turned away; takes nothing. If no other request arrives, it will be let through that much
    /// later, at least 1.
    Rejected { retry_after_ns: u64 },
}

/// State of a key at an instant, as clients are told about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Remaining {
    /// Number of more requests would be let through at that instant.
    pub(crate) remaining: u64,
    /// Nanoseconds until there would be more; 0 if there is no more to come, or if that is not
    /// known.
    pub(crate) reset_ns: u64,
}

/// Size of a limit, as clients are told about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quota {
    /// The most that is ever let through at once.
    pub(crate) requests: u32,
    /// Nanoseconds that this is for; none for what is counted while it is open.
    pub(crate) per_ns: Option<u64>,
}

impl Algorithm {
    /// Decide about one request of a key whose word is `state`.
    pub(crate) fn step(&self, state: u64, now_ns: u64) -> LimitDecision {
        match self {
            Self::Bucket(limit) => limit.step(state, now_ns),
            Self::Window(limit) => limit.step(state, now_ns),
            Self::Concurrency(cap) | Self::Connections(cap) if state >= u64::from(cap.get()) => {
                LimitDecision::Rejected { retry_after_ns: 1 }
            }
            Self::Concurrency(_) | Self::Connections(_) => LimitDecision::Admitted {
                next: state + 1,
                delay_ns: 0,
            },
        }
    }

    /// True if a key with this word will be treated like one that never came, from `now_ns` on.
    pub(crate) fn is_idle(&self, state: u64, now_ns: u64) -> bool {
        match self {
            Self::Bucket(_) => state <= now_ns,
            Self::Window(limit) => {
                let counts = limit.at(state, now_ns);
                counts.previous == 0 && counts.current == 0
            }
            Self::Concurrency(_) | Self::Connections(_) => state == 0,
        }
    }

    /// Return what a client with this word is told.
    pub(crate) fn left(&self, state: u64, now_ns: u64) -> Remaining {
        match self {
            Self::Bucket(limit) => limit.left(state, now_ns),
            Self::Window(limit) => limit.left(state, now_ns),
            Self::Concurrency(cap) | Self::Connections(cap) => Remaining {
                remaining: u64::from(cap.get()).saturating_sub(state),
                reset_ns: 0,
            },
        }
    }

    /// Return the quota that clients are told.
    pub(crate) fn quota(&self) -> Quota {
        match self {
            Self::Bucket(limit) => limit.quota(),
            Self::Window(limit) => Quota {
                requests: limit.permits,
                per_ns: Some(limit.length_ns),
            },
            Self::Concurrency(cap) | Self::Connections(cap) => Quota {
                requests: cap.get(),
                per_ns: None,
            },
        }
    }

    /// True if what is admitted is given back when it ends.
    pub(crate) const fn counts_open(&self) -> bool {
        matches!(self, Self::Concurrency(_) | Self::Connections(_))
    }
}

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
    fn step(&self, tat: u64, now_ns: u64) -> LimitDecision {
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

    fn left(&self, tat: u64, now_ns: u64) -> Remaining {
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
        Remaining {
            remaining,
            reset_ns,
        }
    }

    fn quota(&self) -> Quota {
        let per_ns = self.tolerance_ns.saturating_add(self.interval_ns);
        Quota {
            requests: self.excess.saturating_add(1),
            per_ns: Some(per_ns),
        }
    }
}

/// Bits of each of the two counts; the other 24 number the window.
const COUNT_BITS: u32 = 20;
const MAX_COUNT: u64 = (1 << COUNT_BITS) - 1;
const WINDOW_MASK: u64 = (1 << (64 - 2 * COUNT_BITS)) - 1;

/// Shortest window. Numbers of windows are compared modulo 2^24: a key is mistaken only after a rest
/// of 2^23 windows, two hours of this.
const MIN_LENGTH_NS: u64 = 1_000_000;

/// At most `permits` requests in each window. Windows are counted from the epoch of the target's
/// clock, the moment it was started, and not from any mark of the wall clock: what a run sees does
/// not depend on when it was started.
///
/// A fixed window forgets the one before. **Guarantee.** Each aligned window admits at most
/// `permits`, by the instants of decision. Across an edge it may be twice that in no time: this is
/// what the algorithm is known for.
///
/// A sliding one counts the share of the last window that still lies within a window's length, as
/// though its requests had come evenly. A request is admitted if
/// `current + 1 + previous * (1 - elapsed share of the current window) <= permits`, in exact
/// integers. **Guarantee.** Any window of length `T`, wherever it begins, admits at most
/// `permits * (1 + T / w)`: a burst just before an edge followed by as many as are let through after
/// it comes to almost `2 * permits` within `w`, but not in no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    permits: u32,
    length_ns: u64,
    slides: bool,
}

/// The word of a window, taken apart, as it is at an instant.
#[derive(Clone, Copy)]
struct Counts {
    /// Modulo 2^24.
    window: u64,
    /// Admitted in the window before; 0 of a fixed one.
    previous: u64,
    current: u64,
    /// How long the window has lasted.
    elapsed_ns: u64,
    /// How long after the reading of the clock it begins, which another reading was later than.
    ahead_ns: u64,
}

impl Window {
    /// Make a window; nothing if it is too short, or admits more than fit into the word.
    pub(super) fn new(permits: u32, length_ns: u64, slides: bool) -> Option<Self> {
        let is_possible = length_ns >= MIN_LENGTH_NS && u64::from(permits) <= MAX_COUNT;
        is_possible.then_some(Self {
            permits,
            length_ns,
            slides,
        })
    }

    /// The counts that hold at an instant. A reading of the clock that comes after a later one
    /// counts for the later window: the earlier one is over.
    fn at(&self, state: u64, now_ns: u64) -> Counts {
        let seen = Counts {
            window: state >> (2 * COUNT_BITS),
            previous: state >> COUNT_BITS & MAX_COUNT,
            current: state & MAX_COUNT,
            elapsed_ns: now_ns % self.length_ns,
            ahead_ns: 0,
        };
        let window = (now_ns / self.length_ns) & WINDOW_MASK;
        let behind = seen.window.wrapping_sub(window) & WINDOW_MASK;
        match window.wrapping_sub(seen.window) & WINDOW_MASK {
            0 => seen,
            past if past > WINDOW_MASK / 2 => Counts {
                elapsed_ns: 0,
                ahead_ns: behind
                    .saturating_mul(self.length_ns)
                    .saturating_sub(seen.elapsed_ns),
                ..seen
            },
            past => Counts {
                window,
                previous: if past == 1 && self.slides {
                    seen.current
                } else {
                    0
                },
                current: 0,
                ..seen
            },
        }
    }

    /// Number of more that would be admitted: the greatest n with
    /// `(current + n) w + previous (w - elapsed) <= permits w`.
    fn room(&self, now: &Counts) -> u64 {
        let left = u128::from(self.length_ns - now.elapsed_ns);
        let weighted = (u128::from(now.previous) * left).div_ceil(self.length_ns.into());
        let used = u128::from(now.current) + weighted;
        u64::try_from(u128::from(self.permits).saturating_sub(used)).unwrap_or_default()
    }

    /// Nanoseconds until there is room for `wanted`, at most the permits, of which none is there
    /// now, if no other request arrives.
    fn wait_ns(&self, now: &Counts, wanted: u64) -> u64 {
        let permits = u64::from(self.permits);
        let left_ns = self.length_ns - now.elapsed_ns;
        let within = match permits.checked_sub(now.current + wanted) {
            // What the last window has left grows old within this one.
            Some(free) => self
                .until_weighs(now.previous, free)
                .saturating_sub(now.elapsed_ns),
            None if self.slides => left_ns + self.until_weighs(now.current, permits - wanted),
            None => left_ns,
        };
        now.ahead_ns.saturating_add(within).max(1)
    }

    /// The time into a window at which `previous (w - elapsed) <= free w`.
    fn until_weighs(&self, previous: u64, free: u64) -> u64 {
        let share = u128::from(free) * u128::from(self.length_ns);
        let rest = share.checked_div(previous.into()).unwrap_or(share);
        self.length_ns
            .saturating_sub(u64::try_from(rest).unwrap_or(u64::MAX))
    }

    fn step(&self, state: u64, now_ns: u64) -> LimitDecision {
        let now = self.at(state, now_ns);
        if self.room(&now) == 0 {
            return LimitDecision::Rejected {
                retry_after_ns: self.wait_ns(&now, 1),
            };
        }
        let counts = now.previous << COUNT_BITS | (now.current + 1);
        LimitDecision::Admitted {
            next: now.window << (2 * COUNT_BITS) | counts,
            delay_ns: 0,
        }
    }

    fn left(&self, state: u64, now_ns: u64) -> Remaining {
        let now = self.at(state, now_ns);
        let remaining = self.room(&now);
        let is_whole = remaining >= u64::from(self.permits);
        let next = if self.slides {
            remaining + 1
        } else {
            self.permits.into()
        };
        Remaining {
            remaining,
            reset_ns: if is_whole {
                0
            } else {
                self.wait_ns(&now, next)
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Limit;
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;
    use std::collections::BTreeMap;

    const MS: u64 = 1_000_000;

    /// Decides about one request as the limiter does; the delay if it is admitted.
    fn ask(word: &Cell<u64>, now_ns: u64, algorithm: &Algorithm) -> Result<u64, u64> {
        match algorithm.step(word.get(), now_ns) {
            LimitDecision::Rejected { retry_after_ns } => Err(retry_after_ns),
            LimitDecision::Admitted { next, delay_ns } => {
                word.set(next);
                Ok(delay_ns)
            }
        }
    }

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
            let Remaining { remaining, reset_ns } = bucket.left(tat, now);
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
                prop_assert_eq!(u128::from(limit.left(tat.get(), now).remaining), tokens / t);
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
            limit.left(word, now);
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

    #[test]
    fn an_edge_starts_over_and_the_late_count_for_the_window_that_goes_on() {
        let limit = Algorithm::Window(fixed(2, 10));
        let word = Cell::new(0);
        assert_eq!(ask(&word, 9 * MS, &limit), Ok(0));
        assert_eq!(ask(&word, 9 * MS, &limit), Ok(0));
        assert_eq!(ask(&word, 10 * MS - 1, &limit), Err(1));
        assert_eq!(ask(&word, 10 * MS, &limit), Ok(0));
        // Read before the edge, decided after it.
        assert_eq!(ask(&word, 10 * MS - 1, &limit), Ok(0));
        assert_eq!(ask(&word, 10 * MS - 1, &limit), Err(10 * MS + 1));
        assert_eq!(ask(&word, 11 * MS, &limit), Err(9 * MS));
    }

    const W: u64 = 100 * MS;

    fn fixed(permits: u32, window_ms: u64) -> Window {
        Window::new(permits, window_ms * MS, false).unwrap()
    }

    fn sliding(permits: u32) -> Window {
        Window::new(permits, W, true).unwrap()
    }

    proptest! {
        #[test]
        fn it_admits_what_a_count_per_window_does(
            permits in 1_u32..20, window_ms in 10_u64..50, gaps in proptest::collection::vec(0_u64..20_000_000, 1..300),
        ) {
            let limit = fixed(permits, window_ms);
            let word = Cell::new(0);
            let mut model: BTreeMap<u64, u64> = BTreeMap::new();
            let mut now = 0;
            for gap in gaps {
                now += gap;
                let count = model.entry(now / (window_ms * MS)).or_default();
                let expected = *count < u64::from(permits);
                let asked = ask(&word, now, &Algorithm::Window(limit));
                prop_assert_eq!(asked.is_ok(), expected);
                *count += u64::from(expected);
                let state = word.get();
                prop_assert_eq!(limit.left(state, now).remaining, u64::from(permits) - *count);
                prop_assert!(!Algorithm::Window(limit).is_idle(state, now));
                prop_assert!(Algorithm::Window(limit).is_idle(state, (now / (window_ms * MS) + 1) * window_ms * MS));
                if let Err(wait) = asked {
                    prop_assert_eq!((now + wait) % (window_ms * MS), 0);
                }
            }
        }

        #[test]
        fn it_admits_what_the_formula_says_and_keeps_its_law(
            permits in 1_u32..20, gaps in proptest::collection::vec(0..2 * W / 3, 1..200), dense in 1_u64..60,
        ) {
            let limit = sliding(permits);
            let word = Cell::new(0);
            let mut admitted: Vec<u64> = Vec::new();
            let mut now = 0;
            for gap in gaps {
                now += gap / dense;
                let window = now / W;
                let count = |of: u64| admitted.iter().filter(|at| **at / W == of).count() as u64;
                let (current, previous) = (count(window), if window == 0 { 0 } else { count(window - 1) });
                // In units of 1 / w.
                let weight = u128::from(previous) * u128::from(W - now % W);
                let used = u128::from(current + 1) * u128::from(W) + weight;
                let expected = used <= u128::from(permits) * u128::from(W);
                let asked = ask(&word, now, &Algorithm::Window(limit));
                prop_assert_eq!(asked.is_ok(), expected);
                let state = word.get();
                match asked {
                    Ok(_) => admitted.push(now),
                    Err(wait) => {
                        let is_admitted = |now| matches!(limit.step(state, now), LimitDecision::Admitted { .. });
                        prop_assert!(!is_admitted(now + wait - 1), "{} is too long", wait);
                        prop_assert!(is_admitted(now + wait), "{} is too short", wait);
                    }
                }
                let Remaining { remaining, reset_ns } = limit.left(state, now);
                let at = |now: u64| {
                    let word = Cell::new(state);
                    (0..=permits).take_while(|_| ask(&word, now, &Algorithm::Window(limit)).is_ok()).count() as u64
                };
                prop_assert_eq!(remaining, at(now));
                if reset_ns > 0 {
                    prop_assert_eq!(at(now + reset_ns - 1), remaining);
                    prop_assert!(at(now + reset_ns) > remaining);
                }
            }
            for first in 0..admitted.len() {
                for last in first..admitted.len() {
                    let span = u128::from(admitted[last] - admitted[first] + 1);
                    let count = (last - first + 1) as u128;
                    prop_assert!(count * u128::from(W) <= u128::from(permits) * (u128::from(W) + span));
                }
            }
        }

        #[test]
        fn extreme_words_of_windows_do_not_overflow(word: u64, now: u64) {
            for limit in [fixed(1000, 10), sliding(1000)] {
                limit.step(word, now);
                limit.left(word, now);
            }
        }
    }
}
