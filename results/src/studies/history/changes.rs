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
//!    P. (1991), *Sequential Monte Carlo p-values*, Biometrika 78, 301-304. All series of a history
//!    share an error of 1 % (Bonferroni).
//! 3. **Magnitude.** Values that resemble their neighbours wander, and ranks do not tell a wander from
//!    a step: of few values, any two separate groups have the same. So the difference of the values
//!    themselves, in units of the deviation that the split leaves, has to be one that a Gaussian series
//!    of first-order correlation `r` without a change shows in 3 % of histories. `r` is that of
//!    neighbours on the same side of the split, never across it, plus two standard errors
//!    (`1/sqrt(n)`) up to 0.5: few values do not show that they are independent, and one that was
//!    not is the likelier for it.
//! 4. **Parts.** Each side of a change is looked at by itself, with new scores (Vostrikova, L. J.
//!    (1981), Soviet Mathematics Doklady 24, 55-59).
//! 5. **Size.** The [`Shift`] between the segments beside a change.
//! 6. **Place.** That of the greatest difference between the changes beside it; its interval has the
//!    places whose likelihood is within 3.68 of the greatest (Siegmund, D. (1988), *Confidence sets
//!    in change-point problems*, International Statistical Review 56, 31-48).
//!
//! E-divisive means (Matteson and James 2014), which this replaced, compares all pairs of values in
//! each permutation, so that it has too few of them to share an error among many series. A
//! permutation test of the scores alone, divided by what a correlation of the split's own values
//! makes a mean vary more, missed 18 % of steps of five times the noise in 6 + 6 results, whatever
//! their size.
//!
//! How often it is right is in `docs/src/compare/statistics-checked.md`; tests hold less than that.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crawlmark_harness::stats::median;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal};

use crate::studies::compare::autocorrelation;
use crate::studies::shift::Shift;
use crawlmark_harness::units::place;

/// The fewest values on either side of a change: of fewer, one bad day is a change.
pub(super) const SHORTEST: usize = 5;

/// Unchanged histories of which one may show a change: all its series share that error.
const ONE_IN: usize = 100;

/// Histories of correlated values of which one may show a change: fewer than 3 % promise, for the
/// correlation of a series is only estimated. With 40, four series of 20 values with a correlation of
/// 0.5 showed one in 3.3 % of 1,000 histories, with 50 in 2.9 %.
const ONE_CORRELATED_IN: usize = 50;

/// The first-order correlation up to which values are taken for correlated that do not show that they
/// are not. Beyond it, only what they show counts.
const SUSPECTED: f64 = 0.5;

/// The greatest correlation that is reckoned with: beyond it, a series has no level.
const GREATEST: f64 = 0.9;

/// Steps of a correlation between which magnitudes are looked up, not simulated again.
const GRADES: f64 = 20.0;

/// Permutations that scan as high as the series and end the test: p is known to a part of its share
/// of the error. With 3, an order that is rarer by four times than its share is missed in 3 % of
/// series.
const EXCEEDING: usize = 5;

/// Half the squared distance of two hills of a random walk with drift whose difference is exceeded in
/// 5 %: `1 - (1 - exp(-x))^2 = 0.05`.
const LIKELIHOOD: f64 = 3.68;

/// Part of the greatest size from which on a longer interval is preferred: its ends hide less.
const AS_CLEAR: f64 = 0.9;

/// Deviations from the median of its part at which a value is clipped: 0.3 % of a Gaussian's.
const CLIP: f64 = 3.0;

/// The standard deviation of a Gaussian, in units of its median distance from the median.
const TO_DEVIATION: f64 = 1.4826;

/// Simulated series beyond a limit: the error of a limit is known to a quarter of itself.
const SIMULATED: usize = 16;

/// Simulated series that show if a step is found.
const TRIALS: usize = 400;

/// The greatest step that is tried, in units of the noise.
const GREATEST_STEP: f64 = 20.0;

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

/// Correlation of neighbours between changes: 0 if each value is independent of the one before.
pub(super) fn correlation(values: &[f64], changes: &[ChangePoint]) -> f64 {
    let mut ends = vec![0];
    ends.extend(changes.iter().map(|change| change.at));
    ends.push(values.len());
    Scores::of(values).correlation(&ends)
}

/// A search for changes in one of so many series of a history, which share the error.
#[derive(Debug, Clone, Copy)]
pub(super) struct Search {
    series: usize,
}

impl Search {
    pub(super) fn new(series: usize) -> Self {
        Self {
            series: series.max(1),
        }
    }

    /// Find the changes in a series, in order.
    pub(super) fn changes(self, values: &[f64]) -> Vec<ChangePoint> {
        let mut ends = vec![0, values.len()];
        self.part(values, 0, &mut ends);
        ends.sort_unstable();
        self.leave_out_wanders(values, &mut ends);
        ends.windows(3)
            .filter_map(|of| ChangePoint::in_segments(&values[of[0]..of[2]], of[0]))
            .collect()
    }

    /// Part a segment that begins at `start`, and its parts, and add the places to `ends`.
    fn part(self, segment: &[f64], start: usize, ends: &mut Vec<usize>) {
        let mut scores = Scores::of(segment);
        let Some(split) = scores.clearest(0.0) else {
            return;
        };
        if !self.is_rare(&mut scores) {
            return;
        }
        ends.push(start + split.at);
        let (before, after) = segment.split_at(split.at);
        self.part(before, start, ends);
        self.part(after, start + split.at, ends);
    }

    /// Leave out the ends of segments that a wander may have, the least first: without it, the others
    /// have to explain more.
    fn leave_out_wanders(self, values: &[f64], ends: &mut Vec<usize>) {
        while ends.len() > 2 {
            let parted = Parted::new(values, ends);
            let limit = self.limits(values.len(), parted.correlation()).magnitude();
            let magnitudes =
                (1..ends.len() - 1).map(|at| (parted.magnitude([at - 1, at, at + 1]), at));
            let least = magnitudes.min_by(|one, other| one.0.total_cmp(&other.0));
            match least {
                Some((magnitude, at)) if magnitude < limit => ends.remove(at),
                _ => return,
            };
        }
    }

    /// True if the scores in random order have as great a split in a series's share of histories.
    fn is_rare(self, scores: &mut Scores) -> bool {
        let mut draw = fastrand::Rng::with_seed(SEED);
        let size = scores.scan().map_or(0.0, |split| split.size);
        let mut exceeding = 0;
        for _ in 0..EXCEEDING * ONE_IN * self.series {
            let by_chance = scores.in_random_order(&mut draw);
            exceeding += usize::from(by_chance >= size);
            if exceeding == EXCEEDING {
                return false;
            }
        }
        true
    }

    /// The smallest step in the middle of a series of this noise that is found in 95 of 100, as a
    /// part of the value before it; none where values are not above 0.
    pub(super) fn smallest_found(self, values: &[f64]) -> Option<f64> {
        let split = Scores::of(values).clearest(0.0)?;
        if values.iter().any(|value| *value <= 0.0) {
            return None;
        }
        let r = Parted::new(values, &split.ends(values.len())).correlation();
        let limits = self.limits(values.len(), r);
        let logarithms: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        let squares = beyond_mean(&clipped(&logarithms, &[0, values.len()]));
        let deviation = (squares / (values.len() - 1) as f64).sqrt();
        let smallest = (limits.step() * deviation).exp_m1();
        smallest.is_finite().then_some(smallest)
    }

    fn limits(self, values: usize, r: f64) -> Limits {
        Limits {
            series: self.series,
            values,
            grade: place((r * GRADES).ceil()),
        }
    }
}

/// What separates a change from chance in so many values of this grade of correlation. It follows
/// from these alone, is simulated, and kept once it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Limits {
    series: usize,
    values: usize,
    grade: usize,
}

impl Limits {
    fn kept(self, which: Limit, simulated: impl FnOnce(&mut fastrand::Rng) -> f64) -> f64 {
        static KEPT: Mutex<BTreeMap<(Limit, Limits), f64>> = Mutex::new(BTreeMap::new());
        let kept = || KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kept().get(&(which, self)) {
            return *known;
        }
        let limit = simulated(&mut fastrand::Rng::with_seed(SEED));
        kept().insert((which, self), limit);
        limit
    }

    /// The size of the greatest split that independent values have in a series's share of histories.
    fn size(self) -> f64 {
        let independent = Self { grade: 0, ..self };
        independent.kept(Limit::Size, |draw| {
            let mut scores = Scores::of(&wander(draw, self.values, 0.0));
            let orders = SIMULATED * ONE_IN * self.series;
            let sizes = (0..orders).map(|_| scores.in_random_order(draw));
            exceeded_by_few(sizes.collect())
        })
    }

    /// The magnitude of the split that is found without a change in a series's share of histories.
    fn magnitude(self) -> f64 {
        let size = self.size();
        self.kept(Limit::Magnitude, |draw| {
            let histories = SIMULATED * ONE_CORRELATED_IN * self.series;
            let magnitudes = (0..histories).map(|_| {
                let series = wander(draw, self.values, self.grade as f64 / GRADES);
                let found = Scores::of(&series).clearest(size);
                found.map_or(0.0, |split| split.magnitude(&series))
            });
            exceeded_by_few(magnitudes.collect())
        })
    }

    /// The smallest step in the middle that is found in 95 of 100 series of independent noise, in
    /// units of its standard deviation; infinite if it is greater than all that are tried.
    fn step(self) -> f64 {
        let (size, magnitude) = (self.size(), self.magnitude());
        self.kept(Limit::Step, |draw| {
            let [mut low, mut high] = [0.0, f64::INFINITY];
            while low < GREATEST_STEP && high - low > 0.02 * high.min(GREATEST_STEP) {
                let step = if high.is_finite() {
                    f64::midpoint(low, high)
                } else {
                    GREATEST_STEP
                };
                let found = (0..TRIALS).filter(|_| {
                    let mut series = wander(draw, self.values, 0.0);
                    for value in &mut series[self.values / 2..] {
                        *value += step;
                    }
                    let split = Scores::of(&series).clearest(size);
                    split.is_some_and(|split| split.magnitude(&series) >= magnitude)
                });
                if found.count() * 20 >= TRIALS * 19 {
                    high = step;
                } else {
                    low = step;
                }
            }
            high
        })
    }
}

/// A limit that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Limit {
    Size,
    Magnitude,
    Step,
}

/// The value that [`SIMULATED`] of these exceed.
fn exceeded_by_few(mut simulated: Vec<f64>) -> f64 {
    simulated.sort_unstable_by(|one, other| other.total_cmp(one));
    simulated.get(SIMULATED).copied().unwrap_or(f64::INFINITY)
}

/// A Gaussian series of unit variance and this correlation of neighbours.
fn wander(draw: &mut fastrand::Rng, values: usize, r: f64) -> Vec<f64> {
    let new = (1.0 - r * r).sqrt();
    let first = gaussian(draw);
    std::iter::successors(Some(first), |value| Some(r * value + new * gaussian(draw)))
        .take(values)
        .collect()
}

/// A value of the normal distribution (Box and Muller 1958).
fn gaussian(draw: &mut fastrand::Rng) -> f64 {
    (-2.0 * (1.0 - draw.f64()).ln()).sqrt() * (std::f64::consts::TAU * draw.f64()).cos()
}

impl ChangePoint {
    /// The change in the values between the changes beside it, which begin at `start`.
    fn in_segments(values: &[f64], start: usize) -> Option<Self> {
        let n = values.len();
        let about = Scores::of(values).split(0, n)?.at;
        let scores = Scores::standardized(clipped(values, &[0, about, n]));
        let at = scores.split(0, n)?.at;
        // The scores' squares add up to n, of which the levels on both sides leave this.
        let left = |at: usize| n as f64 - scores.size(0, at, n).powi(2);
        let most = (left(at) * (2.0 * LIKELIHOOD / n as f64).exp()).max(left(at));
        let mut likely = (1..n).filter(|other| left(*other) <= most);
        let earliest = likely.next().unwrap_or(at);
        let (before, after) = values.split_at(at);
        Some(Self {
            at: start + at,
            earliest: start + earliest,
            latest: start + likely.next_back().unwrap_or(at).max(at),
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

impl Split {
    /// The ends of the parts of a segment of so many values.
    fn ends(&self, values: usize) -> Vec<usize> {
        let mut ends = vec![0, self.from, self.at, self.to, values];
        ends.dedup();
        ends
    }

    /// Its magnitude in these values.
    fn magnitude(&self, values: &[f64]) -> f64 {
        let ends = self.ends(values.len());
        Parted::new(values, &ends).magnitude(
            [self.from, self.at, self.to]
                .map(|end| ends.iter().position(|one| *one == end).unwrap_or(0)),
        )
    }
}

/// A series in parts, without outliers.
struct Parted<'a> {
    values: Vec<f64>,
    ends: &'a [usize],
}

impl<'a> Parted<'a> {
    fn new(values: &[f64], ends: &'a [usize]) -> Self {
        Self {
            values: clipped(values, ends),
            ends,
        }
    }

    fn parts(&self) -> impl Iterator<Item = &[f64]> {
        self.ends.windows(2).map(|of| &self.values[of[0]..of[1]])
    }

    /// The difference of the means between these ends, in units of its standard error by the deviation
    /// of all values from the means of their parts.
    fn magnitude(&self, ends: [usize; 3]) -> f64 {
        let squares: f64 = self.parts().map(beyond_mean).sum();
        let degrees = self.values.len() + 1 - self.ends.len();
        let [from, at, to] = ends.map(|end| self.ends[end]);
        let (before, after) = (&self.values[from..at], &self.values[at..to]);
        let each = 1.0 / before.len() as f64 + 1.0 / after.len() as f64;
        let error = (squares / degrees as f64 * each).sqrt();
        (mean(after) - mean(before)).abs() / error.max(f64::MIN_POSITIVE)
    }

    /// The correlation of neighbours that is reckoned with.
    fn correlation(&self) -> f64 {
        let shown = autocorrelation(self.parts()).unwrap_or(0.0);
        let n = self.values.len() as f64;
        // What the means take from it: about (1 + 3r) by the length of a part (Kendall, M. G. (1954),
        // Note on bias in the estimation of autocorrelation, Biometrika 41, 403-404).
        let each = n / (self.ends.len() - 1) as f64;
        let corrected = (shown + 1.0 / each) / (1.0 - 3.0 / each).max(0.4);
        let suspected = (corrected + 2.0 / n.sqrt()).min(SUSPECTED);
        corrected.max(suspected).clamp(0.0, GREATEST)
    }
}

/// Values without outliers: no farther from the median of their part than [`CLIP`] deviations, by the
/// median distance of all values.
fn clipped(values: &[f64], ends: &[usize]) -> Vec<f64> {
    let levels: Vec<f64> = ends
        .windows(2)
        .flat_map(|of| {
            let part = &values[of[0]..of[1]];
            std::iter::repeat_n(median(&mut part.to_vec()).unwrap_or(0.0), part.len())
        })
        .collect();
    let distances = values
        .iter()
        .zip(&levels)
        .map(|(value, level)| (value - level).abs());
    let clip = CLIP * TO_DEVIATION * median(&mut distances.collect::<Vec<_>>()).unwrap_or(0.0);
    values
        .iter()
        .zip(levels)
        .map(|(value, level)| value.max(level - clip).min(level + clip))
        .collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The sum of squares of the distances from the mean.
fn beyond_mean(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum()
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
        Self::standardized(scores)
    }

    /// Scores with a mean of 0 and a variance of 1.
    fn standardized(mut scores: Vec<f64>) -> Self {
        let (n, mean) = (scores.len(), mean(&scores));
        for score in &mut scores {
            *score -= mean;
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

    /// Shuffle, and return the size of the greatest split.
    fn in_random_order(&mut self, draw: &mut fastrand::Rng) -> f64 {
        draw.shuffle(&mut self.scores);
        self.add_up();
        self.scan().map_or(0.0, |split| split.size)
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
    fn scan(&self) -> Option<Split> {
        self.splits()
            .max_by(|one, other| one.size.total_cmp(&other.size))
    }

    /// That of the longest interval that is about as great; none below `least`.
    fn clearest(&self, least: f64) -> Option<Split> {
        let greatest = self.scan().filter(|one| one.size >= least)?.size;
        self.splits().find(|one| one.size >= AS_CLEAR * greatest)
    }

    /// The greatest split of each seeded interval, the longest first.
    fn splits(&self) -> impl Iterator<Item = Split> {
        let n = self.scores.len() as f64;
        std::iter::successors(Some(n), |length| Some(length * DECAY))
            .take_while(|length| *length >= (2 * SHORTEST) as f64)
            .flat_map(move |length| {
                let last = 2 * place((n / length).ceil()) - 2;
                (0..=last).filter_map(move |number| {
                    let start = (n - length) * number as f64 / last.max(1) as f64;
                    let to = place((start + length).ceil()).min(self.scores.len());
                    self.split(place(start), to)
                })
            })
    }

    /// The greatest split of an interval.
    fn split(&self, from: usize, to: usize) -> Option<Split> {
        let places = from + SHORTEST..(to + 1).saturating_sub(SHORTEST);
        let splits = places.map(|at| Split {
            from,
            at,
            to,
            size: self.size(from, at, to),
        });
        splits.max_by(|one, other| one.size.total_cmp(&other.size))
    }

    /// The difference of the means on both sides of a place in an interval, in units of its standard
    /// error.
    fn size(&self, from: usize, at: usize, to: usize) -> f64 {
        let (m, k) = ((at - from) as f64, (to - at) as f64);
        let mean = (self.sums[to] - self.sums[from]) / (m + k);
        let beyond = self.sums[at] - self.sums[from] - m * mean;
        beyond.abs() * ((m + k) / (m * k)).sqrt()
    }
}
