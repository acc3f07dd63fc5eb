//! The search: which commit to measure next, and when the answer is known.
//!
//! Pure: it runs nothing, reads no clock and draws no number. Called with each block of readings, by
//! the code that runs them and by the code that reads them back.
//!
//! # Model
//!
//! Commit 0 is the good end and commit `n` the bad one. A block is a round of both ends and of at
//! most one other commit, in random order, one right after the other. Commit `c` reads in block
//! `b`, on the scale of logarithms and greater if worse,
//!
//! ```text
//! y = level_b + effect * level(c) + noise
//! level(c) = [c >= k]                          one step, at k
//! level(c) = s [c >= j] + (1 - s) [c >= k]     two steps, at j < k
//! ```
//!
//! with `s` one half, or -1 or 2 where the middle lies outside of both ends. What drifts between
//! blocks is in `level_b`. Each hypothesis is a regression with one slope. With `v` the values of a
//! block minus their mean, and `x` the same of `level(c)`,
//!
//! ```text
//! D = sum x x    S = sum x v    T = sum v v    N = sum (values of a block - 1)
//! p(hypothesis | readings)  ~  D^(-1/2) (T - S S / D)^(-(N - 1) / 2)
//! ```
//!
//! which is the likelihood with the effect (flat) and the noise (flat in its logarithm) integrated
//! out (Zellner, A. (1971), *An Introduction to Bayesian Inference in Econometrics*, 3.1): the
//! noise is that of this search, and few readings of it make the tails heavy. Before the readings,
//! one step is three times as likely as two, and each place of them as likely as any other. Two
//! steps without a measured commit between them are read as one.
//!
//! # Steps
//!
//! 1. **Ends.** Blocks of the two ends until a one-sided signed-rank test says that they differ
//!    ([`ENDS`], 1 % over all looks), or the interval of the loss excludes one that counts.
//! 2. **Looks.** The commit whose level is the least certain, in blocks of it and both ends until
//!    it is known; until one step, or more than one, has 99 % of the probability.
//! 3. **Answer.** A commit that the answer rests on is measured at least `LEAST` times, so that a
//!    single odd reading loses its weight again.
//!
//! A confirmation of up to 48 blocks of four rounds stood in place of the hypotheses of two steps.
//! It took more than half of the rounds of a search whose commit had 99 % before it began.
//!
//! # How often it is right
//!
//! Simulated, 400 histories of 64 commits each, of which one makes the reading worse. *Noise* is
//! the standard deviation of a round after its block, in units of the loss. Looks, blocks and rounds
//! are medians; the last column is that of the confirmation:
//!
//! | noise | right | looks | blocks | rounds | rounds before |
//! |---|---|---|---|---|---|
//! | 0.1 | 100 % | 7 | 20 | 52 | 50 |
//! | 0.3 | 100 % | 8 | 26 | 70 | 139 |
//! | 0.5 | 99.5 % | 8 | 47 | 128 | 323 |
//! | 1 | 99.5 % | 9 | 164 | 452 | 668 |
//! | 2 | 99.0 % | 9 | 618 | 1,724 | 1,520 |
//!
//! `tests/bisect_truth.rs` holds these rows.

use std::collections::BTreeMap;

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

/// The probability at which an answer is given.
const SURE: f64 = 0.99;

/// Variance of the level of a commit, in squares of the effect, at which a look at it ends: a
/// probability of 4 % that it is on the other side.
const UNCERTAIN: f64 = 0.04;

/// The fewest blocks of a commit that the answer rests on.
const LEAST: usize = 4;

/// The most blocks: a search that needs more is not going to end.
const MOST_BLOCKS: usize = 2_400;

/// Odds of two steps against one before the readings. At 1, more searches at a noise of twice the
/// loss end with several steps that are not there.
const SEVERAL: f64 = 1.0 / 3.0;

/// Parts of the loss that the first of two steps has.
const SHARES: [f64; 3] = [0.5, -1.0, 2.0];

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
    /// Measure both ends, in so many blocks.
    Ends(usize),
    /// Measure this commit and both ends, in one block.
    Look(usize),
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
    /// The loss has several steps: this commit lies off both ends.
    SeveralSteps(usize),
    /// Too many blocks were needed.
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

/// Sums over the blocks that measured the same commits.
#[derive(Debug, Clone, Default)]
struct Group {
    blocks: f64,
    /// By commit: its readings minus the means of their blocks.
    sums: Vec<f64>,
}

/// Commits of a group that are worse, if a step is right before one of them.
#[derive(Debug, Clone, Copy, Default)]
struct Worse {
    count: f64,
    /// Their readings minus the means of their blocks.
    sum: f64,
}

/// Sums of the regressions of a step right before each measured commit, by its place.
#[derive(Debug)]
struct Products {
    /// By the earlier and the later of two steps.
    designs: Vec<Vec<f64>>,
    products: Vec<f64>,
}

/// What may be the case, and its probability.
#[derive(Debug, Clone, Copy)]
struct Hypothesis {
    /// Places among the measured commits of the commits after the steps; the same of a single step.
    steps: [usize; 2],
    /// Part of the loss that the first step has.
    share: f64,
    probability: f64,
}

/// What the readings say.
#[derive(Debug)]
struct Posterior {
    /// Commits that were measured, both ends among them.
    measured: Vec<usize>,
    hypotheses: Vec<Hypothesis>,
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
    /// By the commits of a block, in order.
    groups: BTreeMap<Vec<usize>, Group>,
    squares: f64,
    contrasts: usize,
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
            groups: BTreeMap::new(),
            squares: 0.0,
            contrasts: 0,
        }
    }

    /// Leave out a commit that cannot be built or measured.
    pub fn leave_out(&mut self, commit: usize) {
        self.left_out[commit] = true;
    }

    /// True if a commit was left out.
    pub fn is_left_out(&self, commit: usize) -> bool {
        self.left_out[commit]
    }

    /// Add the readings of a block.
    pub fn note(&mut self, block: Block) {
        let mut readings = block.readings.clone();
        readings.sort_by_key(|(commit, _)| *commit);
        let mean = readings.iter().map(|(_, y)| y).sum::<f64>() / readings.len() as f64;
        let commits: Vec<usize> = readings.iter().map(|(commit, _)| *commit).collect();
        let group = self.groups.entry(commits).or_default();
        group.blocks += 1.0;
        group.sums.resize(readings.len(), 0.0);
        for (sum, (_, y)) in group.sums.iter_mut().zip(&readings) {
            *sum += y - mean;
            self.squares += (y - mean).powi(2);
        }
        self.contrasts += readings.len() - 1;
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
        match step {
            Step::Done(_) => (Vec::new(), 0),
            Step::Ends(blocks) => (vec![0, self.bad], blocks),
            Step::Look(commit) => (vec![0, commit, self.bad], 1),
        }
    }

    /// What is to be done now.
    pub fn next_step(&self) -> Step {
        match self.ends {
            Ends::NoLoss => Step::Done(Answer::NoLoss),
            Ends::Open => {
                let pairs = self.blocks.len();
                match ENDS.iter().find(|look| look.pairs > pairs) {
                    Some(next) if next.pairs <= self.most_pairs => Step::Ends(next.pairs - pairs),
                    _ => Step::Done(Answer::NoLoss),
                }
            }
            Ends::Differ => self.next_look(),
        }
    }

    fn next_look(&self) -> Step {
        let posterior = self.posterior();
        if let Some((answer, rests_on)) = self.answer(&posterior) {
            return rests_on
                .into_iter()
                .find(|commit| self.count(*commit) < LEAST)
                .map_or(Step::Done(answer), Step::Look);
        }
        if self.blocks.len() >= MOST_BLOCKS {
            return Step::Done(Answer::Unsettled);
        }
        let last = self
            .blocks
            .last()
            .and_then(|block| self.looked_at(block))
            .map(|commit| (commit, posterior.variance(commit)));
        if let Some((commit, variance)) = last
            && variance > UNCERTAIN
        {
            return Step::Look(commit);
        }
        let best = (1..self.bad)
            .filter(|commit| !self.left_out[*commit])
            .map(|commit| (commit, posterior.variance(commit)))
            .max_by(|one, other| one.1.total_cmp(&other.1));
        // Another commit may have to be built, so it has to be twice as uncertain.
        let stays = last.filter(|last| best.is_some_and(|best| last.1 > best.1 / 2.0));
        match stays.or(best) {
            Some((commit, _)) => Step::Look(commit),
            None => Step::Done(Answer::Unsettled),
        }
    }

    /// The answer that is sure, and the commits that it rests on.
    fn answer(&self, posterior: &Posterior) -> Option<(Answer, Vec<usize>)> {
        let (range, sure) = self.likeliest(&posterior.only_step());
        if sure >= SURE {
            return Some((Answer::Step(range), vec![range.before(), range.last]));
        }
        let several = posterior.several();
        (several >= SURE).then(|| {
            let off = posterior.off();
            (Answer::SeveralSteps(off), vec![off])
        })
    }

    /// The commit between the ends that a block measured.
    fn looked_at(&self, block: &Block) -> Option<usize> {
        block
            .readings
            .iter()
            .map(|(commit, _)| *commit)
            .find(|commit| (1..self.bad).contains(commit))
    }

    /// Blocks that measured a commit.
    fn count(&self, commit: usize) -> usize {
        self.blocks
            .iter()
            .filter(|block| block.of(commit).is_some())
            .count()
    }

    fn posterior(&self) -> Posterior {
        let mut measured: Vec<usize> = self.groups.keys().flatten().copied().collect();
        measured.extend([0, self.bad]);
        measured.sort_unstable();
        measured.dedup();
        let products = self.products(&measured);
        let mut hypotheses = Vec::new();
        for first in 1..measured.len() {
            for second in first..measured.len() {
                let shares: &[f64] = if second == first { &[1.0] } else { &SHARES };
                for share in shares {
                    let (design, product) = products.of_steps([first, second], *share);
                    let log_prior = self.prior(&measured, [first, second]).ln();
                    hypotheses.push(Hypothesis {
                        steps: [first, second],
                        share: *share,
                        // A logarithm at first.
                        probability: self.log_likelihood(design, product) + log_prior,
                    });
                }
            }
        }
        let greatest = hypotheses
            .iter()
            .map(|of| of.probability)
            .fold(f64::NEG_INFINITY, f64::max);
        let mut all = 0.0;
        for of in &mut hypotheses {
            of.probability = (of.probability - greatest).exp();
            all += of.probability;
        }
        for of in &mut hypotheses {
            of.probability /= all;
        }
        Posterior {
            measured,
            hypotheses,
        }
    }

    /// Sum up the regressions of a step right before each measured commit.
    fn products(&self, measured: &[usize]) -> Products {
        let places = measured.len();
        let mut designs = vec![vec![0.0; places]; places];
        let mut products = vec![0.0; places];
        for (commits, group) in &self.groups {
            let count = commits.len() as f64;
            let worse: Vec<Worse> = measured
                .iter()
                .map(|first| group.worse(commits, *first))
                .collect();
            for place in 1..places {
                products[place] += worse[place].sum;
                for later in place..places {
                    designs[place][later] +=
                        group.blocks * worse[later].count * (1.0 - worse[place].count / count);
                }
            }
        }
        Products { designs, products }
    }

    /// The probability, before the readings, of steps right before these measured commits, with one
    /// of the shares.
    fn prior(&self, measured: &[usize], [first, second]: [usize; 2]) -> f64 {
        let commits = self.bad as f64;
        let [first_width, second_width] =
            [first, second].map(|place| (measured[place] - measured[place - 1]) as f64);
        if first == second {
            return first_width / commits;
        }
        let pairs = commits * (commits - 1.0) * SHARES.len() as f64;
        SEVERAL * 2.0 * first_width * second_width / pairs
    }

    fn log_likelihood(&self, design: f64, product: f64) -> f64 {
        let power = (self.contrasts.max(2) - 1) as f64 / 2.0;
        // Readings without any noise leave nothing.
        let least = (self.squares * 1e-12).max(f64::MIN_POSITIVE);
        let rest = (self.squares - product * product / design).max(least);
        -0.5 * design.ln() - power * rest.ln()
    }

    /// The probability that each commit from 1 on is the only step; what is left to 1 is that there
    /// are several.
    pub fn probabilities(&self) -> Vec<f64> {
        self.posterior().only_step()
    }

    /// The likeliest commits that cannot be told apart, and their probability.
    fn likeliest(&self, probabilities: &[f64]) -> (Range, f64) {
        let mut best = (Range { first: 1, last: 1 }, -1.0);
        let (mut first, mut sum) = (1, 0.0);
        for (last, p) in (1..).zip(probabilities) {
            sum += p;
            if self.left_out[last] && last < self.bad {
                continue;
            }
            if sum > best.1 {
                best = (Range { first, last }, sum);
            }
            (first, sum) = (last + 1, 0.0);
        }
        best
    }

    /// The likeliest commits that cannot be told apart, and the probability that one of them is the
    /// only step.
    pub fn likeliest_range(&self) -> (Range, f64) {
        self.likeliest(&self.probabilities())
    }

    /// The change at a step, if it is the only one: least squares over all readings.
    pub fn effect(&self, step: Range) -> Option<Change> {
        let (mut design, mut product) = (0.0, 0.0);
        for (commits, group) in &self.groups {
            let worse = group.worse(commits, step.last);
            product += worse.sum;
            design += group.blocks * worse.count * (1.0 - worse.count / commits.len() as f64);
        }
        if self.contrasts < 2 {
            return None;
        }
        let freedom = (self.contrasts - 1) as f64;
        let log = product / design;
        let rest = (self.squares - product * log).max(0.0);
        let student = StudentsT::new(0.0, 1.0, freedom).ok()?;
        let half = student.inverse_cdf(0.975) * (rest / freedom / design).sqrt();
        Some(Change {
            log,
            interval: Some(Interval {
                low: log - half,
                high: log + half,
            }),
            blocks: self.blocks.len(),
        })
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

    /// The number of looks at commits between the ends: blocks in a row that measured the same one.
    pub fn looks(&self) -> usize {
        let mut looked: Vec<_> = self
            .blocks
            .iter()
            .filter_map(|block| self.looked_at(block))
            .collect();
        looked.dedup();
        looked.len()
    }
}

impl Group {
    /// The commits of its blocks from `first` on.
    fn worse(&self, commits: &[usize], first: usize) -> Worse {
        let mut worse = Worse::default();
        for (commit, sum) in commits.iter().zip(&self.sums) {
            if *commit >= first {
                worse.count += 1.0;
                worse.sum += sum;
            }
        }
        worse
    }
}

impl Products {
    /// Design and product of the regression with a step of this share of the effect at one place
    /// and one of the rest at another.
    fn of_steps(&self, [first, second]: [usize; 2], share: f64) -> (f64, f64) {
        let rest = 1.0 - share;
        let design = share * share * self.designs[first][first]
            + 2.0 * share * rest * self.designs[first][second]
            + rest * rest * self.designs[second][second];
        (
            design,
            share * self.products[first] + rest * self.products[second],
        )
    }
}

impl Hypothesis {
    const fn is_one_step(&self) -> bool {
        self.steps[0] == self.steps[1]
    }
}

impl Posterior {
    /// The probability that each commit from 1 on is the only step.
    fn only_step(&self) -> Vec<f64> {
        let mut likely = Vec::new();
        for of in self.hypotheses.iter().filter(|of| of.is_one_step()) {
            let place = of.steps[0];
            let wide = self.measured[place] - self.measured[place - 1];
            likely.extend(vec![of.probability / wide as f64; wide]);
        }
        likely
    }

    /// The probability of more than one step.
    fn several(&self) -> f64 {
        self.hypotheses
            .iter()
            .filter(|of| !of.is_one_step())
            .map(|of| of.probability)
            .sum()
    }

    /// The measured commit that most likely lies off both ends.
    fn off(&self) -> usize {
        let best = (1..self.measured.len() - 1).max_by(|one, other| {
            self.between_steps(*one)
                .total_cmp(&self.between_steps(*other))
        });
        self.measured[best.unwrap_or(0)]
    }

    /// The probability that the measured commit at `place` lies between two steps.
    fn between_steps(&self, place: usize) -> f64 {
        self.hypotheses
            .iter()
            .filter(|of| (of.steps[0]..of.steps[1]).contains(&place))
            .map(|of| of.probability)
            .sum()
    }

    /// How uncertain the level of a commit is: its variance in squares of the effect.
    fn variance(&self, commit: usize) -> f64 {
        let (mut mean, mut square) = (0.0, 0.0);
        for of in &self.hypotheses {
            // How likely each step is before this commit.
            let [first, second] = of.steps.map(|place| {
                let (from, to) = (self.measured[place - 1], self.measured[place]);
                (commit.clamp(from, to) - from) as f64 / (to - from) as f64
            });
            let both = if of.is_one_step() { 0.0 } else { second };
            mean += of.probability * ((first - both) * of.share + both);
            square += of.probability * ((first - both) * of.share * of.share + both);
        }
        square - mean * mean
    }
}
