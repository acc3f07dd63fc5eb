//! Order in which the pairs of a comparison run: seeded permuted blocks of AB and BA.
//!
//! Called by the code that runs pairs, once for each undisturbed pair.

use super::design::Order;

/// The orders of the pairs of a comparison, without end: each two make a block, one of either
/// order, and a fair coin says which comes first. The same seed gives the same orders.
///
/// A pair that turns out to be disturbed is run again in its own order, right away: ask for the
/// next order only after an undisturbed pair.
#[derive(Debug, Clone)]
pub struct OrderSchedule {
    draw: fastrand::Rng,
    second: Option<Order>,
}

impl OrderSchedule {
    /// The schedule of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            draw: fastrand::Rng::with_seed(seed),
            second: None,
        }
    }
}

impl Iterator for OrderSchedule {
    type Item = Order;

    fn next(&mut self) -> Option<Order> {
        if let Some(second) = self.second.take() {
            return Some(second);
        }
        let first = if self.draw.bool() {
            Order::BaseFirst
        } else {
            Order::CandidateFirst
        };
        self.second = Some(first.reversed());
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_an_order_for_good() {
        let orders = |seed, count| -> String {
            OrderSchedule::new(seed)
                .take(count)
                .map(|o| if o == Order::BaseFirst { 'A' } else { 'B' })
                .collect()
        };
        assert_eq!(orders(1, 16), orders(1, 16));
        // A recorded comparison can be run again: a generator that changes breaks that, and is to
        // be noticed.
        assert_eq!(orders(1, 16), "BABAABABBAABBAAB");
        assert_ne!(orders(1, 40), orders(2, 40));
    }

    #[test]
    fn blocks_are_whole_and_a_fair_coin_opens_them() {
        let orders: Vec<Order> = OrderSchedule::new(7).take(20_000).collect();
        assert!(orders.chunks_exact(2).all(|block| block[0] != block[1]));
        let opened = orders
            .chunks_exact(2)
            .filter(|block| block[0] == Order::BaseFirst)
            .count();
        // Five standard deviations of 10,000 fair coins.
        assert!(opened.abs_diff(5_000) < 250, "{opened}");
    }
}
