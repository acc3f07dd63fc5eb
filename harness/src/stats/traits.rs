//! Times of good and not-found responses by the values of their traits, such as the status or a
//! response header. Bounded in size, exact to merge.
//!
//! Recorded by the engine, merged by the report. What is slow is decided there, by all responses of
//! the run: a shard keeps the whole distribution of each value instead of a threshold of its own,
//! which would miss the first requests of its connections and follow a drift of the target. Hosts,
//! URL templates and source addresses have theirs in [`Groups`](super::Groups).

use std::collections::BTreeMap;

use super::CoarseTimes;
use super::coarse::cell;
use super::table::counters;
use crate::clock::Nanos;
use crate::sample::{ResponseTraits, TcpReading};

counters! {
    /// Times of good and not-found responses after the warm-up: the response times of an open loop,
    /// the service times of a closed one.
    pub struct Traits {
        /// By the [place](Nth) of the request on its connection; all responses are in one of them.
        nth: Vec<CoarseTimes>,
        /// By the length of the body in bytes: 0 below 16, and each next value up to 16 times as long.
        size: Vec<CoarseTimes>,
        /// By status.
        status: Vec<CoarseTimes>,
        /// By the second of the minute, UTC, in which the request was scheduled.
        second: Vec<CoarseTimes>,
        /// Of those whose connection was read: without, then with a retransmission.
        retransmitted: Vec<CoarseTimes>,
        /// By header and by its value, which is empty of responses without it. Rare values are left
        /// out.
        headers: BTreeMap<String, BTreeMap<String, CoarseTimes>>,
    }
}

impl Traits {
    /// All responses.
    #[must_use]
    pub fn all(&self) -> CoarseTimes {
        let mut all = CoarseTimes::default();
        self.nth.iter().for_each(|row| all.merge(row));
        all
    }
}

/// Place of a request on its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nth {
    /// The first one.
    First,
    /// The first one, after a TLS handshake.
    FirstOfTls,
    /// The second to the tenth one.
    Early,
    /// A later one, or one of which that is not known.
    Later,
}

impl Nth {
    /// The place of the `nth` request, from 1 on. `is_tls` is called for a first one.
    pub(crate) fn of(nth: Option<u64>, is_tls: impl FnOnce() -> bool) -> Self {
        match nth {
            Some(1) if is_tls() => Self::FirstOfTls,
            Some(1) => Self::First,
            Some(2..=10) => Self::Early,
            _ => Self::Later,
        }
    }
}

/// A good or not-found response with its traits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TraitSample<'a> {
    /// Its time, µs.
    pub(crate) us: u64,
    pub(crate) intended: Nanos,
    pub(crate) nth: Nth,
    pub(crate) status: Option<u16>,
    pub(crate) response: ResponseTraits,
    pub(crate) reading: Option<&'a TcpReading>,
}

/// Counter of the traits of a shard, in which a value of a header has a number.
#[derive(Debug)]
pub(crate) struct TraitCounter {
    traits: Traits,
    /// By header and number.
    values: Vec<Vec<CoarseTimes>>,
    /// Calendar time at the epoch of the run's clock, ns.
    epoch_ns: u64,
    /// Responses that were offered, and how many they are when `cut_us` is read next.
    seen: u64,
    next_cut: u64,
    /// Time from which on every response is counted, µs.
    cut_us: u64,
    turn: u32,
}

/// Quantile of the times so far below which one response in [`ONE_IN`] is counted, for all of them:
/// the slowest tenth is exact, and a quicker one costs a fiftieth of the instructions.
const SAMPLED_BELOW: f64 = 0.85;

/// Number of quicker responses of which one is counted.
const ONE_IN: u32 = 16;

/// 2^32 divided by the golden ratio, as of the sample of answers whose connections are read: spread
/// evenly, also of every n-th response.
const STEP: u32 = 0x9E37_79B9;

/// Responses that are all counted, and most until the cut is read again.
const FIRST: u64 = 1_024;
const MOST_UNTIL_CUT: u64 = 4_096;

/// Of so many responses of a shard, a value that has fewer than one is left out: it cannot be what a
/// fifth of the slowest hundredth has in common.
const RARE: u64 = 1_000;

impl TraitCounter {
    /// Nothing so far; `epoch_ns` is the calendar time at the epoch of the run's clock.
    pub(crate) fn new(headers: usize, epoch_ns: u64) -> Self {
        Self {
            traits: Traits::default(),
            values: vec![Vec::new(); headers],
            epoch_ns,
            seen: 0,
            next_cut: FIRST,
            cut_us: 0,
            turn: 0,
        }
    }

    /// Return for how many responses one that took so long counts; 0 if it is not counted. The sum
    /// over all that took as long is as expected, whenever the cut moves.
    #[inline]
    pub(crate) fn weight(&mut self, us: u64) -> u64 {
        self.seen += 1;
        if self.seen >= self.next_cut {
            self.read_cut();
        }
        if us >= self.cut_us {
            return 1;
        }
        self.turn = self.turn.wrapping_add(STEP);
        if self.turn < u32::MAX / ONE_IN {
            ONE_IN.into()
        } else {
            0
        }
    }

    #[cold]
    fn read_cut(&mut self) {
        self.next_cut += self.seen.min(MOST_UNTIL_CUT);
        self.cut_us = self.traits.all().percentile_us(SAMPLED_BELOW).unwrap_or(0);
    }

    /// Count a response with this [weight](Self::weight). The connections of few are read: each of
    /// these counts once.
    pub(crate) fn record(&mut self, sample: &TraitSample<'_>, weight: u64) {
        let cell = cell(sample.us);
        if let Some(reading) = sample.reading {
            let has_waited = usize::from(reading.retransmits > 0);
            count(&mut self.traits.retransmitted, has_waited, cell, 1);
        }
        if weight == 0 {
            return;
        }
        let second = (self.epoch_ns.wrapping_add(sample.intended.0) / 1_000_000_000) % 60;
        let traits = &mut self.traits;
        count(&mut traits.nth, sample.nth as usize, cell, weight);
        count(&mut traits.second, second as usize, cell, weight);
        if let Some(status) = sample.status {
            count(&mut traits.status, status.into(), cell, weight);
        }
        if let Some(bytes) = sample.response.body_bytes {
            count(&mut traits.size, size_class(bytes), cell, weight);
        }
        for (rows, number) in self.values.iter_mut().zip(sample.response.values) {
            count(rows, number.into(), cell, weight);
        }
    }

    /// Return the traits with the headers and the values by name. The last number is that of all
    /// values without a number of their own.
    pub(crate) fn named(&self, headers: &[String], value: impl Fn(usize, u8) -> String) -> Traits {
        let mut named = self.traits.clone();
        let least = named.all().count().div_ceil(RARE);
        for (header, (name, rows)) in headers.iter().zip(&self.values).enumerate() {
            let values = (0..ResponseTraits::OTHERS)
                .zip(rows)
                .filter(|(_, row)| row.count() >= least)
                .map(|(number, row)| (value(header, number), row.clone()));
            named.headers.insert(name.clone(), values.collect());
        }
        named
    }
}

/// Class of a length: a class for each four binary digits.
fn size_class(bytes: u64) -> usize {
    (bytes.checked_ilog2().unwrap_or(0) / 4) as usize
}

#[inline]
fn count(rows: &mut Vec<CoarseTimes>, value: usize, cell: usize, weight: u64) {
    if rows.len() <= value {
        rows.resize(value + 1, CoarseTimes::default());
    }
    rows[value].record_at(cell, weight);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type AnyResponse = (u64, u64, Option<u64>, Option<u16>, u64, u8, Option<u32>);

    fn any_response() -> impl Strategy<Value = AnyResponse> {
        (
            0..1_u64 << 30,
            0..1_u64 << 40,
            prop::option::of(1..20_u64),
            prop::option::of(200..600_u16),
            0..1_u64 << 40,
            any::<u8>(),
            prop::option::of(0..2_u32),
        )
    }

    proptest! {
        #[test]
        fn traits_of_all_shards_are_those_of_one_and_each_response_has_one_value_of_each(
            responses in prop::collection::vec((any_response(), 0..3_usize), 0..100),
        ) {
            let names = ["x-cache".to_owned()];
            let mut shards = [(); 3].map(|()| TraitCounter::new(1, 59_000_000_000));
            let mut one = TraitCounter::new(1, 59_000_000_000);
            for ((us, at, nth, status, bytes, number, retransmits), shard) in &responses {
                let reading = retransmits.map(|retransmits| TcpReading { retransmits, ..TcpReading::default() });
                let mut response = ResponseTraits { body_bytes: Some(*bytes), ..ResponseTraits::default() };
                response.values[0] = *number;
                let sample = TraitSample {
                    us: *us,
                    intended: Nanos(*at),
                    nth: Nth::of(*nth, || *us % 2 == 0),
                    status: *status,
                    response,
                    reading: reading.as_ref(),
                };
                one.record(&sample, 1);
                shards[*shard].record(&sample, 1);
            }
            let named = |counter: &TraitCounter| counter.named(&names, |_, number| number.to_string());
            let [a, b, c] = shards.each_ref().map(named);
            let all = named(&one);
            prop_assert_eq!(&a.clone().plus(&b).plus(&c), &all);
            prop_assert_eq!(&c.plus(&a).plus(&b), &all);
            let count = |rows: &[CoarseTimes]| rows.iter().map(CoarseTimes::count).sum::<u64>();
            let known = |is: fn(&AnyResponse) -> bool| {
                responses.iter().filter(|(it, _)| is(it)).count() as u64
            };
            prop_assert_eq!(all.all().count(), responses.len() as u64);
            prop_assert_eq!(count(&all.second), responses.len() as u64);
            prop_assert_eq!(count(&all.size), responses.len() as u64);
            prop_assert_eq!(count(&all.status), known(|it| it.3.is_some()));
            prop_assert_eq!(count(&all.retransmitted), known(|it| it.6.is_some()));
            prop_assert!(all.second.len() <= 60 && all.nth.len() <= 4 && all.size.len() <= 10);
            let values = all.headers["x-cache"].values().map(CoarseTimes::count).sum::<u64>();
            prop_assert_eq!(values, known(|it| it.5 < ResponseTraits::OTHERS));
        }
    }

    #[test]
    fn rare_values_are_left_out_and_those_of_a_fifth_of_the_slowest_hundredth_are_not() {
        let mut counter = TraitCounter::new(1, 0);
        for n in 0..5_000_u64 {
            let mut response = ResponseTraits::default();
            response.values[0] = match n % 500 {
                0 => 1,
                _ if n < 255 => u8::try_from(n).unwrap(),
                _ => 0,
            };
            counter.record(
                &TraitSample {
                    us: n,
                    intended: Nanos(n),
                    nth: Nth::Later,
                    status: None,
                    response,
                    reading: None,
                },
                1,
            );
        }
        let named = counter.named(&["x".to_owned()], |_, number| number.to_string());
        let kept: Vec<&str> = named.headers["x"].keys().map(String::as_str).collect();
        assert_eq!(kept, ["0", "1"]);
    }

    #[test]
    fn a_sample_of_the_quicker_responses_has_the_counts_of_all_and_slow_ones_are_exact() {
        let mut counter = TraitCounter::new(0, 0);
        let (mut recorded, mut all_slow) = (0, 0);
        let mut draw = fastrand::Rng::with_seed(65);
        for n in 0..200_000_u64 {
            // A trait is as regular as the sample.
            let is_slow = draw.u8(0..50) == 0;
            let us = if is_slow { 5_000 } else { draw.u64(100..1_000) };
            let weight = counter.weight(us);
            all_slow += u64::from(is_slow);
            recorded += u64::from(weight > 0);
            let sample = TraitSample {
                us,
                intended: Nanos(0),
                nth: if n % 16 == 3 { Nth::Early } else { Nth::Later },
                status: Some(if is_slow { 404 } else { 200 }),
                response: ResponseTraits::default(),
                reading: None,
            };
            if weight > 0 {
                counter.record(&sample, weight);
            }
        }
        let traits = counter.named(&[], |_, _| String::new());
        let near = |count: u64, expected: u64| count.abs_diff(expected) * 50 < expected;
        assert!(near(traits.all().count(), 200_000));
        assert!(near(traits.nth[Nth::Early as usize].count(), 200_000 / 16));
        assert_eq!(traits.status[404].count(), all_slow);
        assert_eq!(traits.all().count_from(cell(5_000)), all_slow);
        assert!(recorded < 200_000 * 22 / 100, "{recorded}");
    }

    #[test]
    fn sizes_are_classes_of_four_binary_digits() {
        let of = [0, 15, 16, 255, 256, 4_095, 65_536, u64::MAX].map(size_class);
        assert_eq!(of, [0, 0, 1, 1, 2, 2, 4, 15]);
    }
}
