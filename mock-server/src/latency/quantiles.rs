//! A distribution given by some of its quantiles, as a monitoring system reports it.
//! [`Latency`](super::Latency) draws from it.
//!
//! It must not draw by itself.

use crate::setting::{SettingError, duration_text};
use std::sync::Arc;
use std::time::Duration;

/// One point of a distribution: `share` of the holds are `hold` or shorter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantile {
    /// `0.0..=1.0`.
    pub share: f64,
    /// The hold at it.
    pub hold: Duration,
}

/// Quantiles from 0 to 1, at least two, whose shares rise and whose holds do not fall.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantiles {
    // Shared, so that a description of a target stays cheap to clone.
    points: Arc<[Quantile]>,
}

impl Quantiles {
    /// Takes the quantiles of a distribution, in order.
    ///
    /// # Errors
    ///
    /// The first share is not 0, the last not 1, a share does not rise, or a hold falls.
    pub fn new(points: &[Quantile]) -> Result<Self, SettingError> {
        for pair in points.windows(2) {
            let [
                Quantile {
                    share,
                    hold: shorter,
                },
                Quantile { share: next, hold },
            ] = *pair
            else {
                continue;
            };
            if share.partial_cmp(&next) != Some(std::cmp::Ordering::Less) {
                return Err(SettingError::new(format!(
                    "the quantile {next} comes after {share}: write each share once, in rising order"
                )));
            }
            if hold < shorter {
                return Err(SettingError::new(format!(
                    "the quantile {next} is {}, shorter than the quantile {share}: write holds that rise with their shares",
                    duration_text(hold)
                )));
            }
        }
        let share = |point: Option<&Quantile>| point.map_or(f64::NAN, |point| point.share);
        let (first, last) = (share(points.first()), share(points.last()));
        // Bit for bit: 0 and 1 are written without rounding, and -0 would be written back as such.
        if first.to_bits() != 0.0_f64.to_bits() || last.to_bits() != 1.0_f64.to_bits() {
            return Err(SettingError::new(format!(
                "the quantiles go from {first} to {last}: write the shortest hold as 0=.. and the longest as 1=.."
            )));
        }
        Ok(Self {
            points: points.into(),
        })
    }

    /// The quantiles, in order.
    #[must_use]
    pub fn points(&self) -> &[Quantile] {
        &self.points
    }

    /// The hold at `share`, on the straight line between its neighbours; the ends outside
    /// `0.0..=1.0`.
    #[must_use]
    pub fn at(&self, share: f64) -> Duration {
        let above = self.points.partition_point(|point| point.share <= share);
        let neighbours = (
            above
                .checked_sub(1)
                .and_then(|below| self.points.get(below)),
            self.points.get(above),
        );
        match neighbours {
            (Some(below), Some(above)) => {
                let part = (share - below.share) / (above.share - below.share);
                below.hold
                    + above
                        .hold
                        .saturating_sub(below.hold)
                        .mul_f64(part.clamp(0.0, 1.0))
            }
            (Some(end), None) | (None, Some(end)) => end.hold,
            (None, None) => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn points(points: &[(f64, u32)]) -> Vec<Quantile> {
        points
            .iter()
            .map(|(share, ms)| Quantile {
                share: *share,
                hold: *ms * MS,
            })
            .collect()
    }

    #[test]
    fn between_two_quantiles_the_line_is_straight() {
        let quantiles =
            Quantiles::new(&points(&[(0.0, 5), (0.5, 15), (0.75, 15), (1.0, 115)])).unwrap();
        for (share, hold_us) in [
            (0.0, 5_000),
            (0.25, 10_000),
            (0.5, 15_000),
            (0.6, 15_000),
            (0.75, 15_000),
            (0.875, 65_000),
            (1.0, 115_000),
            (-1.0, 5_000),
            (2.0, 115_000),
        ] {
            assert_eq!(
                quantiles.at(share),
                Duration::from_micros(hold_us),
                "{share}"
            );
        }
    }

    #[test]
    fn only_whole_rising_distributions_are_taken() {
        for wrong in [
            &[][..],
            &[(0.0, 1)],
            &[(0.1, 1), (1.0, 2)],
            &[(0.0, 1), (0.9, 2)],
            &[(0.0, 1), (0.5, 2), (0.5, 3), (1.0, 4)],
            &[(0.0, 1), (0.6, 2), (0.5, 3), (1.0, 4)],
            &[(0.0, 1), (f64::NAN, 2), (1.0, 4)],
            &[(0.0, 2), (1.0, 1)],
            &[(0.0, 1), (1.0, 2), (1.5, 3)],
        ] {
            assert!(Quantiles::new(&points(wrong)).is_err(), "{wrong:?}");
        }
        assert!(Quantiles::new(&points(&[(0.0, 1), (1.0, 1)])).is_ok());
    }
}
