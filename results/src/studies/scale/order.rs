//! Order in which the sizes of a repeat run.

/// For each of `repeats` repeats an order of `sizes` sizes, by their places: a random permutation
/// of its own. The same seed gives the same orders.
#[must_use]
pub fn order(seed: u64, sizes: usize, repeats: usize) -> Vec<Vec<usize>> {
    let mut draw = fastrand::Rng::with_seed(seed);
    let replicate = || {
        let mut places: Vec<usize> = (0..sizes).collect();
        draw.shuffle(&mut places);
        places
    };
    std::iter::repeat_with(replicate).take(repeats).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_an_order_for_good_and_each_replicate_has_every_size() {
        // What was recorded can be run again: a generator that changes breaks that, and is to be
        // noticed.
        assert_eq!(order(1, 4, 3), [[3, 2, 1, 0], [2, 1, 0, 3], [0, 1, 3, 2]]);
        assert_ne!(order(1, 4, 9), order(2, 4, 9));
        for mut replicate in order(3, 9, 50) {
            replicate.sort_unstable();
            assert!(replicate.into_iter().eq(0..9));
        }
    }
}
