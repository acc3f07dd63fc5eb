//! The search: which commit to measure next, and when the answer is known.
//!
//! Pure: it runs nothing, reads no clock and draws no number. Called with each block of readings, by
//! the code that runs them and by the code that reads them back.
//!
//! # Model
//!
//! Commit 0 is the good end and commit `n` the bad one. A block is a round of both ends and of up
//! to two other commits, in random order, one right after the other. With `k` the first commit that
//! is worse, commit `c` reads in block `b`, on the scale of logarithms and greater if worse,
//!
//! ```text
//! y = level_b + effect * [c >= k] + noise
//! ```
//!
//! What drifts between blocks is in `level_b`. For each `k` this is a regression with one slope. With
//! `v` the values of a block minus their mean, and `x` the same of `[c >= k]`,
//!
//! ```text
//! D = sum x x    S = sum x v    T = sum v v    N = sum (values of a block - 1)
//! p(k | readings)  ~  D^(-1/2) (T - S S / D)^(-(N - 1) / 2)
//! ```
//!
//! which is the likelihood with the effect (flat) and the noise (flat in its logarithm) integrated out
//! (Zellner, A. (1971), *An Introduction to Bayesian Inference in Econometrics*, 3.1): the noise is
//! that of this search, and few readings of it make the tails heavy. Each `k` is as likely as any
//! other before.
//!
//! # Steps
//!
//! 1. **Ends.** Blocks of the two ends until a one-sided signed-rank test says that they differ
//!    ([`ENDS`], 1 % over all looks), or the interval of the loss excludes one that counts.
//! 2. **Looks.** The commit that halves the probability best, in as many blocks as tell the ends
//!    apart by 3.5 standard errors; until one step has 99 % of it.
//! 3. **Confirmation.** Blocks of both ends, the commit before the step and the one after, until the
//!    effect of the step is known to a tenth of the loss. They count as readings, so a step that was
//!    named by chance loses its probability again.
//! 4. **One step?** Where a commit that was measured lies off the end that it belongs to, more than
//!    chance allows, or off both ends after a look, there are several steps, and that is said.
//!
//! # How often it is right
//!
//! Simulated, 1,000 histories of 64 commits each, of which one makes the reading worse. *Noise* is the
//! standard deviation of a round after its block, in units of the loss:
//!
//! | noise | right | looks, median | blocks, median |
//! |---|---|---|---|
//! | 0.1 | 99.7 % | 6 | 18 |
//! | 0.3 | 99.7 % | 7 | 43 |
//! | 0.5 | 99.7 % | 7 | 96 |
//! | 1 | 99.8 % | 8 | 218 |
//! | 2 | 98.4 % | 17 | 516 |
//!
//! The others are mostly called several steps, or at a noise of 2 no loss. Without a loss, 99.4 %
//! find none. `tests/bisect_truth.rs` holds these rows.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::studies::compare::{Centre, Interval, Look, p_above_zero, standard_deviation};

/// Looks at the pairs of the ends, and the error of each: 1 % over all. The test is exact, and 8
/// pairs that all agree have a p of 1/256.
pub const ENDS: [Look; 6] = [
    Look::new(8, 0.004),
    Look::new(16, 0.002),
    Look::new(32, 0.001),
    Look::new(64, 0.001),
    Look::new(128, 0.001),
    Look::new(256, 0.001),
];

/// Pairs from which on an interval may end the search.
const LEAST_TO_EXCLUDE: usize = 16;

/// The probability at which a step is named.
const SURE: f64 = 0.99;

/// Standard errors between the ends in a look: 4 % of looks point the wrong way.
const CLEAR: f64 = 3.5;

/// The most blocks of a look.
const MOST_BLOCKS: usize = 20;

/// Standard errors in the loss, of the effect of the step that is confirmed: half a loss is told from
/// a whole one.
const CONFIRMED: f64 = 10.0;

/// Blocks of a confirmation: the fewest, so that the commit before the step and the one after are
/// seen more than once, and the most.
const CONFIRMING: (usize, usize) = (4, 48);

/// The most looks: a search that needs more is not going to end.
const MOST_LOOKS: usize = 120;

/// Error of the test for a single step, over all commits that were measured.
const MISFIT: f64 = 0.005;

/// The same while the search goes on, which asks after each look; and the fewest blocks of a commit
/// that it is asked of.
const MISFIT_ON_THE_WAY: f64 = 0.001;
const LEAST_TO_MISFIT: usize = 4;

/// Rounds of several commits, one right after the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// The commits, both ends among them, and the logarithms of their readings: greater is worse.
    pub readings: Vec<(usize, f64)>,
}

impl Block {
    fn of(&self, commit: usize) -> Option<f64> {
        self.readings
            .iter()
            .find(|(one, _)| *one == commit)
            .map(|(_, y)| *y)
    }

    /// By how much one commit is worse than another.
    fn difference(&self, commit: usize, from: usize) -> Option<f64> {
        Some(self.of(commit)? - self.of(from)?)
    }
}

/// What is to be done next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Measure both ends.
    Ends {
        /// In so many blocks.
        blocks: usize,
    },
    /// Measure a commit and both ends.
    Look {
        /// The commit.
        commit: usize,
        /// In so many blocks.
        blocks: usize,
    },
    /// Measure the commit before a step, the one after, and both ends.
    Confirm {
        /// The commit before the step.
        before: usize,
        /// The commit after it.
        after: usize,
        /// In so many blocks.
        blocks: usize,
    },
    /// The search is over.
    Done(Answer),
}

/// The answer of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The bad end is not worse by as much as can be told.
    NoLoss,
    /// The first commit that is worse is one of these, which are one unless some between do not
    /// build.
    Step(Range),
    /// The loss has several steps: this commit lies off the ends, and one of these is a step, if that
    /// is known.
    SeveralSteps {
        /// The commit that shows it.
        off: usize,
        /// A step that was found.
        step: Option<Range>,
    },
    /// Too many looks were needed.
    Unsettled,
}

/// Commits of which one is the first that is worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The first that it may be.
    pub first: usize,
    /// The last: the first that is known to be worse.
    pub last: usize,
}

impl Range {
    /// The commit before, which is known not to be worse.
    pub const fn before(self) -> usize {
        self.first - 1
    }
}

/// State of the test of the ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    Open,
    Differ,
    NoLoss,
}

/// Sums of the regression of one hypothesis.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    design: f64,
    product: f64,
}

/// A change on the scale of logarithms, with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// Hodges and Lehmann's estimate.
    pub log: f64,
    /// None of fewer than 6 blocks.
    pub interval: Option<Interval>,
    /// Blocks.
    pub blocks: usize,
}

/// A search among commits.
#[derive(Debug, Clone)]
pub struct Search {
    /// The number of the bad end.
    bad: usize,
    /// The smallest loss that counts, as a logarithm.
    least: f64,
    /// The most pairs of the ends before it is said that they do not differ.
    most_pairs: usize,
    /// By commit: true if it cannot be measured.
    left_out: Vec<bool>,
    blocks: Vec<Block>,
    ends: Ends,
    /// By commit: blocks that have it.
    measured: Vec<usize>,
    /// By hypothesis, from commit 1 on.
    sums: Vec<Sums>,
    squares: f64,
    contrasts: usize,
    /// Looks begun at a commit between the ends.
    looks: usize,
}

impl Search {
    /// A search among commits `1..=bad`, for a loss of at least `least` (as a logarithm), that takes
    /// `most_pairs` pairs of the ends to say that there is none.
    pub fn new(bad: usize, least: f64, most_pairs: usize) -> Self {
        Self {
            bad,
            least,
            most_pairs,
            left_out: vec![false; bad + 1],
            blocks: Vec::new(),
            ends: Ends::Open,
            measured: vec![0; bad + 1],
            sums: vec![Sums::default(); bad],
            squares: 0.0,
            contrasts: 0,
            looks: 0,
        }
    }

    /// Leave out a commit that cannot be built.
    pub fn leave_out(&mut self, commit: usize) {
        self.left_out[commit] = true;
    }

    /// True if a commit was left out.
    pub fn is_left_out(&self, commit: usize) -> bool {
        self.left_out[commit]
    }

    /// Add the readings of a block.
    pub fn note(&mut self, block: Block) {
        let count = block.readings.len() as f64;
        let mean = block.readings.iter().map(|(_, y)| y).sum::<f64>() / count;
        self.contrasts += block.readings.len() - 1;
        for (commit, y) in &block.readings {
            self.measured[*commit] += 1;
            self.squares += (y - mean).powi(2);
        }
        for (first, sums) in (1..).zip(&mut self.sums) {
            let worse = block.readings.iter().filter(|(commit, _)| *commit >= first);
            let (mut among, mut product) = (0.0, 0.0);
            for (_, y) in worse {
                among += 1.0;
                product += y - mean;
            }
            sums.design += among * (1.0 - among / count);
            sums.product += product;
        }
        self.blocks.push(block);
        let pairs = self.blocks.len();
        if self.ends == Ends::Open
            && let Some(look) = ENDS.into_iter().find(|look| look.pairs == pairs)
        {
            self.ends = self.look_at_ends(look);
        }
    }

    /// Test whether the bad end is worse.
    fn look_at_ends(&self, look: Look) -> Ends {
        let differences = self.differences(self.bad, 0);
        if p_above_zero(&differences) <= look.alpha {
            return Ends::Differ;
        }
        let interval = Centre::of(&differences).and_then(|centre| centre.interval);
        let excludes = interval.is_some_and(|interval| interval.high < self.least);
        if look.pairs >= LEAST_TO_EXCLUDE && excludes {
            Ends::NoLoss
        } else {
            Ends::Open
        }
    }

    /// By how much one commit was worse than another in each block that has both.
    fn differences(&self, commit: usize, from: usize) -> Vec<f64> {
        self.blocks
            .iter()
            .filter_map(|block| block.difference(commit, from))
            .collect()
    }

    /// The commits that a step measures in each block, in order, and the number of blocks.
    pub fn commits_of(&self, step: Step) -> (Vec<usize>, usize) {
        let (mut commits, blocks) = match step {
            Step::Done(_) => (Vec::new(), 0),
            Step::Ends { blocks } => (vec![0, self.bad], blocks),
            Step::Look { commit, blocks } => (vec![0, commit, self.bad], blocks),
            Step::Confirm {
                before,
                after,
                blocks,
            } => (vec![0, before, after, self.bad], blocks),
        };
        commits.dedup();
        (commits, blocks)
    }

    /// Begin the next step, which is what is to be done now.
    pub fn begin_next(&mut self) -> Step {
        let step = self.step();
        if matches!(step, Step::Look { .. }) {
            self.note_look();
        }
        step
    }

    /// Count a look that an earlier run of the search began.
    pub const fn note_look(&mut self) {
        self.looks += 1;
    }

    fn step(&self) -> Step {
        match self.ends {
            Ends::NoLoss => return Step::Done(Answer::NoLoss),
            Ends::Open => {
                let pairs = self.blocks.len();
                let most = self.most_pairs;
                let mut looks = ENDS.iter().map(|look| look.pairs);
                return match looks.find(|look| *look > pairs && *look <= most) {
                    Some(next) => Step::Ends {
                        blocks: next - pairs,
                    },
                    None => Step::Done(Answer::NoLoss),
                };
            }
            Ends::Differ => {}
        }
        let probabilities = self.probabilities();
        let (range, sure) = self.likeliest(&probabilities);
        let noise = self.noise_by_effect(range.last);
        if sure >= SURE {
            return self.confirm(range, noise);
        }
        if let Some(off) = self.off_both_ends() {
            return Step::Done(Answer::SeveralSteps { off, step: None });
        }
        if self.looks >= MOST_LOOKS {
            return Step::Done(Answer::Unsettled);
        }
        let wanted = 1.5 * (CLEAR * noise).powi(2);
        let blocks = whole(wanted).clamp(1, MOST_BLOCKS);
        let mut below = 0.0;
        let mut best = (f64::INFINITY, range.last);
        for (commit, p) in (1..self.bad).zip(&probabilities) {
            below += p;
            if !self.left_out[commit] && (below - 0.5).abs() < best.0 {
                best = ((below - 0.5).abs(), commit);
            }
        }
        Step::Look {
            commit: best.1,
            blocks,
        }
    }

    /// Confirm a step, or say what it is.
    fn confirm(&self, range: Range, noise: f64) -> Step {
        let (least, most) = CONFIRMING;
        let wanted = whole(2.0 * (CONFIRMED * noise).powi(2)).clamp(least, most);
        let (before, after) = (range.before(), range.last);
        let seen = self.differences(after, before).len();
        if seen < wanted {
            return Step::Confirm {
                before,
                after,
                blocks: wanted - seen,
            };
        }
        let off = self.measured().find(|commit| {
            let end = if *commit < range.last { 0 } else { self.bad };
            self.is_off(*commit, end, MISFIT)
        });
        Step::Done(off.map_or(Answer::Step(range), |off| Answer::SeveralSteps {
            off,
            step: Some(range),
        }))
    }

    /// The probability that each commit from 1 on is the first that is worse.
    pub fn probabilities(&self) -> Vec<f64> {
        let power = (self.contrasts.max(2) - 1) as f64 / 2.0;
        // Readings without any noise leave nothing.
        let least = (self.squares * 1e-12).max(f64::MIN_POSITIVE);
        let logs: Vec<f64> = self
            .sums
            .iter()
            .map(|Sums { design, product }| {
                let rest = (self.squares - product * product / design).max(least);
                -0.5 * design.ln() - power * rest.ln()
            })
            .collect();
        let greatest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut likely: Vec<f64> = logs.iter().map(|log| (log - greatest).exp()).collect();
        let all: f64 = likely.iter().sum();
        for p in &mut likely {
            *p /= all;
        }
        likely
    }

    /// The likeliest commits that cannot be told apart, and their probability.
    fn likeliest(&self, probabilities: &[f64]) -> (Range, f64) {
        let mut best = (Range { first: 1, last: 1 }, -1.0);
        let (mut first, mut sum) = (1, 0.0);
        for (commit, p) in (1..).zip(probabilities) {
            sum += p;
            if self.left_out[commit] && commit < self.bad {
                continue;
            }
            if sum > best.1 {
                best = (
                    Range {
                        first,
                        last: commit,
                    },
                    sum,
                );
            }
            (first, sum) = (commit + 1, 0.0);
        }
        best
    }

    /// The likeliest commits that cannot be told apart, and the probability that one of them is the
    /// first that is worse.
    pub fn likeliest_range(&self) -> (Range, f64) {
        self.likeliest(&self.probabilities())
    }

    /// Standard deviation of a reading after its block, in units of the loss, if `first` is the first
    /// commit that is worse.
    fn noise_by_effect(&self, first: usize) -> f64 {
        let Sums { design, product } = self.sums[first - 1];
        let rest = (self.squares - product * product / design).max(0.0);
        let variance = rest / (self.contrasts.max(2) - 1) as f64;
        let effect = product / design;
        variance.sqrt() / effect.max(f64::MIN_POSITIVE)
    }

    /// A commit that surely belongs to neither end.
    fn off_both_ends(&self) -> Option<usize> {
        self.measured().find(|commit| {
            let mut ends = [0, self.bad].into_iter();
            self.measured[*commit] >= LEAST_TO_MISFIT
                && ends.all(|end| self.is_off(*commit, end, MISFIT_ON_THE_WAY))
        })
    }

    /// True if a commit lies off an end, with an error over all commits that were measured. The noise
    /// is that of the ends, which no step between them changes.
    fn is_off(&self, commit: usize, end: usize, error: f64) -> bool {
        let ends = self.differences(self.bad, 0);
        let deviation = standard_deviation(&ends).unwrap_or(0.0);
        let Ok(student) = StudentsT::new(0.0, 1.0, (ends.len() - 1) as f64) else {
            return false;
        };
        let limit = student.inverse_cdf(1.0 - error / self.measured().count() as f64 / 2.0);
        let off = self.differences(commit, end);
        let count = off.len() as f64;
        let mean = off.iter().sum::<f64>() / count;
        mean.abs() * count.sqrt() > limit * deviation
    }

    /// Commits between the ends that were measured.
    fn measured(&self) -> impl Iterator<Item = usize> {
        (1..self.bad).filter(|commit| self.measured[*commit] > 0)
    }

    /// By how much a commit is worse than another; none if no block has both.
    pub fn change(&self, commit: usize, from: usize) -> Option<Change> {
        let differences = self.differences(commit, from);
        let Centre { estimate, interval } = Centre::of(&differences)?;
        Some(Change {
            log: estimate,
            interval,
            blocks: differences.len(),
        })
    }

    /// The smallest loss, as a logarithm, that the pairs of the ends would have shown in 95 of 100
    /// searches; none of fewer than two.
    pub fn smallest_found(&self) -> Option<f64> {
        let pairs = self.blocks.len();
        let deviation = standard_deviation(&self.differences(self.bad, 0))?;
        let look = ENDS
            .iter()
            .rev()
            .find(|look| look.pairs <= pairs)
            .unwrap_or(&ENDS[0]);
        look.minimum_detectable(pairs, deviation, 1, 0.0)
    }

    /// The blocks so far.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// The number of looks at commits between the ends.
    pub const fn looks(&self) -> usize {
        self.looks
    }
}

/// A number of blocks, rounded up.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positive, and clamped right after"
)]
fn whole(blocks: f64) -> usize {
    blocks.ceil().min(1e6) as usize
}
