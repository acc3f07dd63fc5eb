//! Holm's step-down correction: several p values, of which the smallest may be small by chance.
//!
//! Holm, S. (1979), *A simple sequentially rejective multiple test procedure*, Scandinavian Journal
//! of Statistics 6. It assumes nothing about how the tests depend on each other.

/// The adjusted p values, in the order given. With the `m` raw ones sorted, `p_(1) <= .. <= p_(m)`,
/// the adjusted i-th is the greatest of `(m - j + 1) p_(j)` over `j <= i`, and at most 1. Rejecting
/// those that are at most alpha rejects any true null hypothesis with a probability of at most
/// alpha.
#[must_use]
pub fn holm(raw: &[f64]) -> Vec<f64> {
    let mut by_size: Vec<usize> = (0..raw.len()).collect();
    by_size.sort_by(|&one, &other| raw[one].total_cmp(&raw[other]));
    let mut adjusted = vec![1.0; raw.len()];
    let mut greatest: f64 = 0.0;
    for (rank, &index) in by_size.iter().enumerate() {
        greatest = greatest
            .max((raw.len() - rank) as f64 * raw[index])
            .min(1.0);
        adjusted[index] = greatest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(adjusted: &[f64], expected: &[f64]) {
        assert_eq!(adjusted.len(), expected.len());
        for (one, other) in adjusted.iter().zip(expected) {
            assert!(
                (one - other).abs() < 1e-12,
                "{adjusted:?} is not {expected:?}"
            );
        }
    }

    #[test]
    fn steps_down_and_never_back() {
        close(&holm(&[]), &[]);
        close(&holm(&[0.03]), &[0.03]);
        // By hand: 4 x .005, 3 x .01, then 2 x .03 and 1 x .04, which may not fall below the .06
        // before it.
        close(&holm(&[0.01, 0.04, 0.03, 0.005]), &[0.03, 0.06, 0.06, 0.02]);
        close(&holm(&[0.6, 0.5]), &[1.0, 1.0]);
    }
}
