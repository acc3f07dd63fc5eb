//! `Timetable`: when each request of an open loop is scheduled.
//!
//! A function from a number to an instant, the same for all shards: shard `k` of `S` takes the
//! numbers that leave `k` when divided by `S`, so the shards take turns and together keep the
//! timetable of one. It does not restart after delays and skips no request that there was work for:
//! a request that could not be sent in time stays due, and its wait is part of the response time.
//!
//! With `x(i)` the sum of the first gaps, in mean gaps (`i` where they are even; a sum of
//! exponential draws in a Poisson process), `P / N` the mean gap at the highest rate, and `v(t)`
//! the [time of the rate](super::tempo),
//!
//! ```text
//! intended(i) = start + v^-1(x(i) * P / N) + shift
//! ```
//!
//! in whole nanoseconds, computed from `i` each time, so that no error adds up. A process of
//! exponential gaps in the time `v` is a Poisson process whose rate follows the curve (Lewis and
//! Shedler 1979, the inversion method). The shift is the length of the throttle pauses so far: a
//! wait that the target asked for is not its latency.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, VecDeque};

use fastrand::Rng;

use super::tempo::Curve;
use crate::clock::Nanos;
use crate::plan::{Gaps, Recorded, TimetablePlan};

/// Positions are counted in mean gaps, in 2^-32 of one.
const ONE: u128 = 1 << 32;

/// Keeps the gaps apart from everything else that is drawn with the same seed.
const STREAM: u64 = 0x6172_7269_7661_6c73;

/// A shard's part of the timetable.
#[derive(Debug, Clone)]
pub struct Timetable {
    plan: TimetablePlan,
    curve: Curve,
    start: Nanos,
    /// Nothing is scheduled at this moment or later.
    ends: Nanos,
    draws: Rng,
    /// Position of the next request, in `ONE`s; of a recording, its item.
    position: u128,
    next: Nanos,
    shift_ns: u64,
    /// Those that were taken and given back, or wait in a bounded queue, in order; all before the
    /// next one.
    returned: VecDeque<Nanos>,
    /// Turns in addition to those of the plan.
    added: BinaryHeap<Reverse<Nanos>>,
    taken: u64,
    /// Times of the items, if these are replayed.
    recorded: Recorded,
}

impl Timetable {
    /// The timetable of a shard for a run that starts at `start` and intends nothing from `ends`
    /// on.
    pub fn new(plan: TimetablePlan, curve: Curve, start: Nanos, ends: Nanos) -> Self {
        let mut table = Self {
            plan,
            curve,
            start,
            ends,
            draws: Rng::with_seed(plan.seed ^ STREAM),
            position: 0,
            next: start,
            shift_ns: 0,
            returned: VecDeque::new(),
            added: BinaryHeap::new(),
            taken: 0,
            recorded: Recorded::default(),
        };
        table.position = match plan.gaps {
            Gaps::Even => u128::from(plan.offset) * ONE,
            Gaps::Exponential => table.draw(u64::from(plan.offset) + 1),
            Gaps::Recorded => 0,
        };
        table.next = table.instant();
        table
    }

    /// Schedule items at their recorded times, from item `first` on. Other gaps stay as they are.
    pub fn replaying(mut self, recorded: &Recorded, first: u64) -> Self {
        if self.plan.gaps != Gaps::Recorded {
            return self;
        }
        (self.recorded, self.position) = (recorded.clone(), u128::from(first));
        self.next = self.instant();
        self
    }

    /// When the next request is scheduled; the end of time when there are no more.
    pub fn due(&self) -> Nanos {
        let planned = self.planned();
        self.added
            .peek()
            .map_or(planned, |added| added.0.min(planned))
    }

    /// When the next request of the plan is scheduled.
    fn planned(&self) -> Nanos {
        self.returned.front().copied().unwrap_or(self.next)
    }

    /// Schedule a request at `due` in addition to those of the plan, unless that is after the end.
    pub(crate) fn add(&mut self, due: Nanos) {
        if due < self.ends {
            self.added.push(Reverse(due));
        }
    }

    /// Takes the next one.
    pub fn take(&mut self) {
        self.taken += 1;
        let planned = self.planned();
        let added = self.added.peek_mut();
        if let Some(first) = added.filter(|added| added.0 < planned) {
            PeekMut::pop(first);
            return;
        }
        if self.returned.pop_front().is_none() {
            self.advance();
        }
    }

    /// Leave out the last request that was taken, which never goes.
    pub(crate) const fn leave_out(&mut self) {
        self.taken -= 1;
    }

    /// All that was not taken is scheduled `ns` later than it would be without any pause, no less
    /// than before: for so long nothing may go, or might.
    pub(crate) fn shift_to(&mut self, ns: u64) {
        let by = ns.saturating_sub(self.shift_ns);
        if by > 0 {
            self.shift_ns = ns;
            self.returned
                .iter_mut()
                .for_each(|due| due.0 = due.0.saturating_add(by));
            self.next = self.instant();
        }
    }

    /// Leaves out what was scheduled before `since`, when there was nothing to do.
    pub(crate) fn skip_before(&mut self, since: Nanos) {
        self.returned.retain(|due| *due >= since);
        while self.next < since {
            self.advance();
        }
    }

    /// Empties it, and says when each was scheduled that is due before `now`.
    pub(crate) fn drain_due(&mut self, now: Nanos) -> impl Iterator<Item = Nanos> + '_ {
        std::iter::from_fn(move || {
            let due = self.due();
            if due >= now {
                return None;
            }
            self.take();
            Some(due)
        })
    }

    /// Keeps `most` of those that are due before `now`, the first ones, and says when each of the
    /// others was scheduled, which are taken.
    pub(crate) fn overflow(&mut self, now: Nanos, most: usize) -> impl Iterator<Item = Nanos> + '_ {
        std::iter::from_fn(move || {
            while self.next < now {
                let due = self.next;
                self.advance();
                if self.returned.len() >= most {
                    self.taken += 1;
                    return Some(due);
                }
                self.returned.push_back(due);
            }
            None
        })
    }

    /// Counts those that are left and would be due before `now` without any pause: `most` at most.
    pub(crate) fn postponed(&self, now: Nanos, most: u64) -> u64 {
        let mut on_time = Self {
            shift_ns: 0,
            ..self.clone()
        };
        on_time
            .returned
            .iter_mut()
            .filter(|due| due.0 < u64::MAX)
            .for_each(|due| due.0 = due.0.saturating_sub(self.shift_ns));
        on_time.next = on_time.instant();
        let mut count = 0;
        while count < most && on_time.due() < now {
            on_time.take();
            count += 1;
        }
        count
    }

    /// Return the number of requests that were taken and not given back.
    pub const fn taken(&self) -> u64 {
        self.taken
    }

    fn advance(&mut self) {
        self.position += match self.plan.gaps {
            Gaps::Even => u128::from(self.plan.stride.max(1)) * ONE,
            Gaps::Exponential => self.draw(u64::from(self.plan.stride.max(1))),
            Gaps::Recorded => 1,
        };
        self.next = self.instant();
    }

    /// The sum of so many gaps, those of the other shards among them: every shard draws all.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a gap is from 0 to 37 mean gaps"
    )]
    fn draw(&mut self, gaps: u64) -> u128 {
        (0..gaps)
            .map(|_| u128::from((-(1.0 - self.draws.f64()).ln() * ONE as f64) as u64))
            .sum()
    }

    fn instant(&self) -> Nanos {
        if self.plan.gaps == Gaps::Recorded {
            let item = usize::try_from(self.position).unwrap_or(usize::MAX);
            let after = self
                .recorded
                .0
                .get(item)
                .map(|after| after.saturating_add(self.shift_ns));
            let at = after.map_or(u64::MAX, |after| self.start.0.saturating_add(after));
            return if at < self.ends.0 {
                Nanos(at)
            } else {
                Nanos(u64::MAX)
            };
        }
        let rate = self.plan.rate;
        let gaps = self.position.saturating_mul(u128::from(rate.period_ns))
            / u128::from(rate.permits.max(1));
        let own = u64::try_from(gaps / ONE).unwrap_or(u64::MAX);
        let at = self
            .start
            .0
            .saturating_add(self.curve.due(own))
            .saturating_add(self.shift_ns);
        if at < self.ends.0 {
            Nanos(at)
        } else {
            Nanos(u64::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::units::{Rate, ShapedRate};

    const S: u64 = 1_000_000_000;
    const START: Nanos = Nanos(77);

    fn plan(permits: u64, gaps: Gaps, (stride, offset): (u32, u32)) -> TimetablePlan {
        TimetablePlan {
            gaps,
            rate: Rate {
                permits,
                period_ns: S,
            },
            stride,
            offset,
            seed: 9,
        }
    }

    fn instants(plan: TimetablePlan, curve: Curve, seconds: u64) -> Vec<u64> {
        let mut table = Timetable::new(plan, curve, START, Nanos(START.0 + seconds * S));
        table
            .drain_due(Nanos(u64::MAX))
            .map(|due| due.0 - START.0)
            .collect()
    }

    #[test]
    fn even_gaps_are_computed_from_the_number_and_not_added_up() {
        let all = instants(plan(3, Gaps::Even, (1, 0)), Curve::Flat, 1_000);
        assert_eq!(all.len(), 3_000);
        assert_eq!(all[..4], [0, 333_333_333, 666_666_666, S]);
        assert_eq!(all[2_997], 999 * S);
    }

    #[test]
    fn each_window_has_all_of_its_requests_when_it_begins() {
        let ShapedRate { peak, shape } = "10 per 1s".parse().unwrap();
        let all = instants(
            TimetablePlan {
                rate: peak,
                ..plan(1, Gaps::Even, (1, 0))
            },
            Curve::of(&shape, None),
            4,
        );
        assert_eq!(all, (0..40).map(|n| n / 10 * S).collect::<Vec<_>>());
    }

    #[test]
    fn exponential_gaps_have_the_mean_and_the_deviation_of_a_poisson_process() {
        let all = instants(plan(1_000, Gaps::Exponential, (1, 0)), Curve::Flat, 100);
        // 100,000 expected, with a standard deviation of 316.
        assert!(all.len().abs_diff(100_000) < 1_300, "{}", all.len());
        let gaps: Vec<f64> = all
            .windows(2)
            .map(|pair| (pair[1] - pair[0]) as f64 / 1e6)
            .collect();
        let longer_than =
            |ms: f64| gaps.iter().filter(|gap| **gap > ms).count() as f64 / gaps.len() as f64;
        for ms in [0.5, 1.0, 2.0, 4.0] {
            assert!(
                (longer_than(ms) - (-ms).exp()).abs() < 0.006,
                "{ms}: {}",
                longer_than(ms)
            );
        }
    }

    #[test]
    fn requests_are_added_to_those_of_the_plan_in_order() {
        let ms = |n: u64| Nanos(n * 1_000_000);
        let even = plan(100, Gaps::Even, (1, 0));
        let mut table = Timetable::new(even, Curve::Flat, Nanos(0), ms(30));
        for due in [25, 5, 10, 30, 31] {
            table.add(ms(due));
        }
        let due: Vec<Nanos> = table.drain_due(Nanos(u64::MAX)).collect();
        assert_eq!(due, [0, 5, 10, 10, 20, 25].map(ms));
        assert_eq!(table.taken(), 6);
    }

    #[test]
    fn a_shift_moves_all_that_is_left() {
        let mut table = Timetable::new(
            plan(1_000, Gaps::Even, (1, 0)),
            Curve::Flat,
            Nanos(0),
            Nanos(S),
        );
        let ms = |n: u64| Nanos(n * 1_000_000);
        (0..2).for_each(|_| table.take());
        table.leave_out();
        assert_eq!((table.due(), table.taken()), (ms(2), 1));
        table.shift_to(100_000_000);
        let due = table.drain_due(ms(105)).collect::<Vec<_>>();
        assert_eq!(due, [ms(102), ms(103), ms(104)]);
        // Those of 1 to 4 ms are gone; without the shift, all up to 104 ms were due by now.
        assert_eq!(
            [table.postponed(ms(105), 1_000), table.postponed(ms(105), 7)],
            [100, 7]
        );
        table.skip_before(Nanos(200_500_000));
        assert_eq!(table.due(), ms(201));
        assert_eq!(
            table.drain_due(Nanos(u64::MAX)).count(),
            799,
            "nothing is intended after the end"
        );
    }

    proptest! {
        #[test]
        fn shards_together_keep_the_timetable_of_one(
            permits in 1..5_000_u64, shards in 1..9_u32, seed: u64, random: bool,
        ) {
            let gaps = if random { Gaps::Exponential } else { Gaps::Even };
            let of = |part| instants(TimetablePlan { seed, ..plan(permits, gaps, part) }, Curve::Flat, 2);
            let mut all: Vec<u64> = (0..shards).flat_map(|shard| of((shards, shard))).collect();
            all.sort_unstable();
            prop_assert_eq!(all, of((1, 0)));
        }
    }
}
