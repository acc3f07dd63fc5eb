//! Change points of a series of values, and their intervals.
//!
//! # Method
//!
//! 1. **Scan.** The values are replaced by their normal scores (van der Waerden), so that one bad day
//!    weighs little. Over seeded intervals of the series (Kovács, S., Bühlmann, P., Li, H. and Munk,
//!    A. (2023), *Seeded binary segmentation*, Biometrika 110, 249-256) and every place in them that
//!    leaves five values on both sides, the greatest difference of the means in units of its standard
//!    error is taken: a change that was undone later shows in an interval with one of its ends.
//! 2. **Test.** The same scan of the values in random order says how great it is by chance: exact for
//!    exchangeable values, whatever their distribution, with the early end of Besag, J. and Clifford,
//!    P. (1991), *Sequential Monte Carlo p-values*, Biometrika 78, 301-304. Values that resemble their
//!    neighbours wander: the scan is first divided by `sqrt((1 + r) / (1 - r))`, where `r` is the
//!    correlation of neighbours on both sides of the place. All series of a history share an error of
//!    1 % (Bonferroni).
//! 3. **Parts.** Each side of a change is looked at by itself, with new scores (Vostrikova, L. J.
//!    (1981), Soviet Mathematics Doklady 24, 55-59).
//! 4. **Size.** The [`Shift`] between the segments beside a change.
//! 5. **Place.** It is sought again in segments drawn from the two with replacement; 95 % of the
//!    distances make the interval (Antoch, J., Hušková, M. and Veraverbeke, N. (1995), *Change-point
//!    problem and bootstrap*, Journal of Nonparametric Statistics 5, 123-144).
//!
//! E-divisive means (Matteson and James 2014), which this replaced, compares all pairs of values in
//! each permutation, so that it has too few of them to share an error among many series.
//!
//! How often it is right is in `docs/src/explanation/statistics.md`; tests hold less than that.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal};

use crate::studies::compare::autocorrelation;
use crate::studies::shift::Shift;

/// The fewest values on either side of a change: of fewer, one bad day is a change.
pub(super) const SHORTEST: usize = 5;

/// Unchanged histories of which one may show a change: all its series share that error.
const ONE_IN: usize = 100;

/// Permutations that scan as high as the series and end the test: p is known to a part of its share
/// of the error.
const EXCEEDING: usize = 3;

/// Pairs of segments that are drawn for the interval of a place.
const DRAWS: usize = 400;

/// Ratio of the lengths of seeded intervals of one layer and the next.
const DECAY: f64 = std::f64::consts::FRAC_1_SQRT_2;

/// Seed of permutations and draws: the same history always has the same changes.
const SEED: u64 = 0x6869_7374;

/// A change in a series.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ChangePoint {
    /// The first value after it, counted from 0.
    pub at: usize,
    /// The least that `at` may be, at 95 %.
    pub earliest: usize,
    /// The most that `at` may be, at 95 %.
    pub latest: usize,
    /// Medians since the change before and until the next one, and the change between them.
    #[serde(flatten)]
    pub shift: Shift,
}

/// The fewest values in which a change of one of `series` can be found: those of which a perfect one
/// is rarer by chance than its share of the error.
pub(super) fn needed(series: usize) -> usize {
    let least = 4.0 * (ONE_IN * series.max(1)) as f64;
    let (mut half, mut orders) = (0, 1.0);
    while half < SHORTEST || orders < least {
        half += 1;
        // C(2h, h) out of C(2h - 2, h - 1).
        orders *= 2.0 * (2 * half - 1) as f64 / half as f64;
    }
    2 * half
}

/// Find the changes in one of `series`, in order.
pub(super) fn changes(values: &[f64], series: usize) -> Vec<ChangePoint> {
    let mut search = Search {
        draw: fastrand::Rng::with_seed(SEED),
        permutations: EXCEEDING * ONE_IN * series.max(1),
        places: Vec::new(),
    };
    search.part(values, 0);
    let mut ends = vec![0, values.len()];
    ends.extend(&search.places);
    ends.sort_unstable();
    let segments = ends.windows(3);
    segments
        .filter_map(|of| search.change(&values[of[0]..of[2]], of[0], of[1] - of[0]))
        .collect()
}

/// Correlation of neighbours between changes: 0 if each value is independent of the one before.
pub(super) fn correlation(values: &[f64], changes: &[ChangePoint]) -> f64 {
    let mut ends = vec![0];
    ends.extend(changes.iter().map(|change| change.at));
    ends.push(values.len());
    Scores::of(values).correlation(&ends)
}

/// A search for changes.
struct Search {
    draw: fastrand::Rng,
    /// Permutations of a test: those that may exceed are the share of the error of this series.
    permutations: usize,
    places: Vec<usize>,
}

impl Search {
    /// Part a segment that begins at `start`, and its parts.
    fn part(&mut self, segment: &[f64], start: usize) {
        let mut scores = Scores::of(segment);
        let Some(split) = scores.scan() else {
            return;
        };
        let r = scores
            .correlation(&[split.from, split.at, split.to])
            .clamp(0.0, 0.9);
        let size = split.size / ((1.0 + r) / (1.0 - r)).sqrt();
        let mut exceeding = 0;
        for _ in 0..self.permutations {
            self.draw.shuffle(&mut scores.scores);
            scores.add_up();
            exceeding += usize::from(
                scores
                    .scan()
                    .is_some_and(|by_chance| by_chance.size >= size),
            );
            if exceeding == EXCEEDING {
                return;
            }
        }
        self.places.push(start + split.at);
        let (before, after) = segment.split_at(split.at);
        self.part(before, start);
        self.part(after, start + split.at);
    }

    /// The change at `at` of two segments, which begin at `start`.
    fn change(&mut self, segments: &[f64], start: usize, at: usize) -> Option<ChangePoint> {
        let (before, after) = segments.split_at(at);
        let mut drawn = segments.to_vec();
        let mut places = Vec::with_capacity(DRAWS);
        for _ in 0..DRAWS {
            for (index, value) in drawn.iter_mut().enumerate() {
                let of = if index < at { before } else { after };
                *value = of[self.draw.usize(..of.len())];
            }
            places.push(Scores::of(&drawn).split(0, drawn.len())?.at);
        }
        places.sort_unstable();
        // A place that is drawn is as far from `at` as that is from the change.
        let tail = DRAWS / 40;
        let [earliest, latest] = [DRAWS - 1 - tail, tail].map(|rank| {
            let mirrored = (2 * at).saturating_sub(places[rank]);
            mirrored.clamp(1, segments.len() - 1)
        });
        Some(ChangePoint {
            at: start + at,
            earliest: start + earliest.min(at),
            latest: start + latest.max(at),
            shift: Shift::between(before, after)?,
        })
    }
}

/// A place in an interval.
#[derive(Debug, Clone, Copy)]
struct Split {
    from: usize,
    at: usize,
    to: usize,
    /// Difference of the means on both sides, in units of its standard error.
    size: f64,
}

/// Normal scores of values, with a variance of 1.
struct Scores {
    scores: Vec<f64>,
    /// `sums[i]` is the sum of those before `i`.
    sums: Vec<f64>,
}

impl Scores {
    fn of(values: &[f64]) -> Self {
        let n = values.len();
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|&one, &other| values[one].total_cmp(&values[other]));
        let mut scores = vec![0.0; n];
        let normal = Normal::standard();
        let mut below = 0;
        for tied in order.chunk_by(|&one, &other| values[one].total_cmp(&values[other]).is_eq()) {
            let rank = below as f64 + (tied.len() + 1) as f64 / 2.0;
            let score = normal.inverse_cdf(rank / (n + 1) as f64);
            for &at in tied {
                scores[at] = score;
            }
            below += tied.len();
        }
        let squares: f64 = scores.iter().map(|score| score * score).sum();
        if squares > 0.0 {
            let unit = (squares / n as f64).sqrt();
            for score in &mut scores {
                *score /= unit;
            }
        }
        let mut all = Self {
            sums: Vec::with_capacity(n + 1),
            scores,
        };
        all.add_up();
        all
    }

    fn add_up(&mut self) {
        self.sums.clear();
        self.sums.push(0.0);
        let mut sum = 0.0;
        for score in &self.scores {
            sum += score;
            self.sums.push(sum);
        }
    }

    /// Correlation of neighbours in the segments between these ends.
    fn correlation(&self, ends: &[usize]) -> f64 {
        let segments = ends.windows(2).map(|of| &self.scores[of[0]..of[1]]);
        autocorrelation(segments).unwrap_or(0.0)
    }

    /// The greatest split of any seeded interval.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "places in the series"
    )]
    fn scan(&self) -> Option<Split> {
        let n = self.scores.len() as f64;
        let mut best: Option<Split> = None;
        let (mut length, mut layer) = (n, 1.0_f64);
        while length >= (2 * SHORTEST) as f64 {
            let last = 2 * layer.ceil() as usize - 2;
            for number in 0..=last {
                let start = (n - length) * number as f64 / last.max(1) as f64;
                let to = ((start + length).ceil() as usize).min(self.scores.len());
                let found = self.split(start as usize, to);
                best = best
                    .into_iter()
                    .chain(found)
                    .max_by(|one, other| one.size.total_cmp(&other.size));
            }
            length *= DECAY;
            layer /= DECAY;
        }
        best
    }

    /// The greatest split of an interval.
    fn split(&self, from: usize, to: usize) -> Option<Split> {
        let mean = (self.sums[to] - self.sums[from]) / (to - from) as f64;
        let places = from + SHORTEST..(to + 1).saturating_sub(SHORTEST);
        let splits = places.map(|at| {
            let (m, k) = ((at - from) as f64, (to - at) as f64);
            let beyond = self.sums[at] - self.sums[from] - m * mean;
            let size = beyond.abs() * ((m + k) / (m * k)).sqrt();
            Split { from, at, to, size }
        });
        splits.max_by(|one, other| one.size.total_cmp(&other.size))
    }
}
