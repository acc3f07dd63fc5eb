//! Synthetic rounds: what a noisy, drifting machine would read. Seeded, so that every trial is the
//! same for good.

use crawlmark_results::studies::compare::{
    Arm, Disturbance, Metric, OrderSchedule, Pair, Reading, Readings, command_metrics, run_metrics,
};

/// Neighbouring rounds share the machine's mood: an autoregressive process of this coefficient and
/// standard deviation.
const MOOD_COEFFICIENT: f64 = 0.9;
const MOOD_SD: f64 = 0.06;

/// From the first round to the last, the machine slows by so much.
const DRIFT: f64 = 0.10;

/// The second round of a pair is slower by so much, whichever arm it is.
const SECOND_IS_SLOWER: f64 = 0.02;

/// The longest comparison, in pairs.
const PAIRS: usize = 44;

/// How the machine errs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Noise {
    /// Independent Gaussian noise of this standard deviation per round of one arm.
    Gaussian(f64),
    /// The same, and one round in ten takes longer by 30 % on average, exponentially.
    Contaminated(f64),
    /// A drift, a shared mood and a slower second round. All that pairing leaves of them, and
    /// independent Gaussian noise, come to this standard deviation per round of one arm: that of
    /// the pairs' log ratios over the square root of 2, which is what a comparison can measure.
    Drifting(f64),
}

/// A source of comparisons.
pub(crate) struct Machine {
    draw: fastrand::Rng,
    noise: Noise,
    spare: Option<f64>,
}

impl Machine {
    pub(crate) fn new(seed: u64, noise: Noise) -> Self {
        Self {
            draw: fastrand::Rng::with_seed(seed),
            noise,
            spare: None,
        }
    }

    /// The pairs of one comparison of `metrics`, of which the candidate is worse in the first, by
    /// `loss` of the base.
    pub(crate) fn pairs(&mut self, metrics: &[&str], loss: f64) -> Vec<Pair> {
        let blank = |first| Pair {
            first,
            base: Readings::default(),
            candidate: Readings::default(),
            parts: Vec::new(),
            disturbance: Disturbance::None,
        };
        let seed = self.draw.u64(..);
        let mut pairs: Vec<Pair> = OrderSchedule::new(seed).take(PAIRS).map(blank).collect();
        let known: Vec<Metric> = run_metrics().into_iter().chain(command_metrics()).collect();
        for (index, name) in metrics.iter().enumerate() {
            let metric = known.iter().find(|one| one.name == *name);
            let metric = metric.expect("a metric of crawls or commands");
            self.read(&mut pairs, metric, if index == 0 { loss } else { 0.0 });
        }
        pairs
    }

    fn read(&mut self, pairs: &mut [Pair], metric: &Metric, loss: f64) {
        let mut mood = MOOD_SD * self.gaussian();
        for (index, pair) in pairs.iter_mut().enumerate() {
            let mut worse = [0.0; 2];
            for (second, worse) in worse.iter_mut().enumerate() {
                mood = MOOD_COEFFICIENT * mood + MOOD_SD * innovation() * self.gaussian();
                *worse = self.round(2 * index + second, mood);
            }
            let [base, candidate] = match pair.first {
                Arm::Base => worse,
                Arm::Candidate => [worse[1], worse[0]],
            };
            let reading = |worse| Reading::Gating(metric.toward_worse(worse).exp());
            pair.base.set(metric.name.clone(), reading(base));
            let candidate = reading(candidate + metric.loss(loss));
            pair.candidate.set(metric.name.clone(), candidate);
        }
    }

    /// How much worse than usual each of so many rounds in a row is, as a logarithm.
    pub(crate) fn course(&mut self, rounds: usize) -> Vec<f64> {
        let mut mood = MOOD_SD * self.gaussian();
        let mut course = Vec::new();
        for index in 0..rounds {
            mood = MOOD_COEFFICIENT * mood + MOOD_SD * innovation() * self.gaussian();
            course.push(self.round(index, mood));
        }
        course
    }

    /// How much worse than usual a round is, as a logarithm.
    fn round(&mut self, index: usize, mood: f64) -> f64 {
        match self.noise {
            Noise::Gaussian(sd) => sd * self.gaussian(),
            Noise::Contaminated(sd) => {
                let outlier = if self.draw.f64() < 0.1 {
                    -(1.0 - self.draw.f64()).ln() * 0.3
                } else {
                    0.0
                };
                sd * self.gaussian() + outlier.ln_1p()
            }
            Noise::Drifting(sd) => {
                let slower = if index % 2 == 1 {
                    SECOND_IS_SLOWER
                } else {
                    0.0
                };
                let drift = DRIFT * index as f64 / (2 * PAIRS) as f64;
                mood + drift + slower + own_sd(sd) * self.gaussian()
            }
        }
    }

    /// A standard Gaussian number (Box and Muller, 1958).
    fn gaussian(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let length = (-2.0 * (1.0 - self.draw.f64()).ln()).sqrt();
        let (sin, cos) = (std::f64::consts::TAU * self.draw.f64()).sin_cos();
        self.spare = Some(length * sin);
        length * cos
    }
}

/// What a mood adds each round, of its standard deviation.
fn innovation() -> f64 {
    (1.0 - MOOD_COEFFICIENT.powi(2)).sqrt()
}

/// What is left for independent noise: two neighbours' moods differ by a variance of
/// `2 (1 - coefficient)` of the mood's, and a slower second round is either added to a log ratio or
/// taken from it.
fn own_sd(sd: f64) -> f64 {
    (sd.powi(2) - MOOD_SD.powi(2) * (1.0 - MOOD_COEFFICIENT) - SECOND_IS_SLOWER.powi(2) / 2.0)
        .sqrt()
}
