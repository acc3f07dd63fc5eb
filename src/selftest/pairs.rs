//! Row R8: pairs of runs of two targets that differ by 5 %, judged as `ab` judges its pairs, and
//! the figures of that comparison.

use std::time::Duration;

use crawlmark_harness::stats::Series;
use crawlmark_results::run::report::Verdict;
use crawlmark_results::studies::compare::{
    self, Disturbance, Metric, Order, Pair, Reading, Readings, Rule,
};

use super::figure::{Allowed, SelftestFigure, Unit};
use super::form::HOLD;
use super::judge::Attempt;
use super::seen::ObservedRun;

/// The hold of the candidate's answers; the base's is [`HOLD`].
pub(super) const CANDIDATE_HOLD: Duration = Duration::from_millis(21);

/// Undisturbed pairs: as many as the comparison's first look wants.
pub(super) const PAIRS: usize = 16;

/// Disturbed pairs with which a comparison of so many is over: more than a quarter of all.
pub(super) const MOST_DISTURBED: usize = 5;

/// A pair of a run of the base and one of the candidate.
pub(super) fn pair(order: Order, base: &ObservedRun, candidate: &ObservedRun) -> Pair {
    let disturbance = [base, candidate]
        .map(disturbance)
        .into_iter()
        .find(|found| *found != Disturbance::None);
    let disturbance = disturbance.unwrap_or_default();
    Pair {
        order,
        base: readings(base),
        candidate: readings(candidate),
        disturbance,
    }
}

fn disturbance(run: &ObservedRun) -> Disturbance {
    match run.verdict {
        _ if run.troubles().is_empty() => Disturbance::None,
        Verdict::Disturbed => Disturbance::SpeedProbe,
        _ => Disturbance::RunQueue,
    }
}

/// The client's CPU is not read: nothing is known beforehand of what an idle millisecond more
/// costs.
fn readings(run: &ObservedRun) -> Readings {
    let count = run.count(Series::ServiceOk);
    let percentile = |q, beyond| {
        run.quantile_us(Series::ServiceOk, q)
            .map_or(Reading::Absent, |us| Reading::percentile(us, beyond))
    };
    Readings {
        throughput: Reading::Gating(run.items_per_s),
        service_p50: percentile(0.5, count / 2),
        service_p99: percentile(0.99, count / 100),
        ..Readings::default()
    }
}

/// Judge the pairs. The attempt does not count when more than a quarter of its pairs were
/// disturbed.
pub(super) fn attempt(pairs: &[Pair], troubles: &[String]) -> Attempt {
    let (ratio, verdict) = match compare::judge(pairs, &Rule::standard()) {
        Ok(comparison) if comparison.look.is_none() => {
            let disturbed = pairs
                .iter()
                .filter(|pair| pair.disturbance != Disturbance::None)
                .count();
            let why = format!(
                "{disturbed} of {} pairs of runs were disturbed, more than a quarter",
                pairs.len()
            );
            let disturbed_by = std::iter::once(why)
                .chain(troubles.iter().cloned())
                .collect();
            return Attempt {
                disturbed_by,
                figures: Vec::new(),
            };
        }
        Ok(comparison) => {
            let throughput = comparison
                .finding(Metric::Throughput)
                .and_then(|finding| finding.evidence);
            (
                throughput.map(|evidence| evidence.ratio),
                comparison.verdict.name().to_owned(),
            )
        }
        Err(error) => (None, error.to_string()),
    };
    let expected = HOLD.as_secs_f64() / CANDIDATE_HOLD.as_secs_f64();
    // Up to 1.2 ms of every request are not the target's hold, and make the two more alike; and a
    // hundredth either way.
    let allowed = Allowed::between(0.952 - 0.01, 0.955 + 0.01);
    let figures = vec![
        SelftestFigure::number("throughput", (Unit::Ratio, expected), ratio, allowed),
        SelftestFigure::word("verdict", "regression", &verdict),
    ];
    Attempt {
        disturbed_by: Vec::new(),
        figures,
    }
}

#[cfg(test)]
mod tests {
    use crawlmark_results::studies::compare::OrderSchedule;

    use super::*;

    /// Pairs whose candidate does so much of what the base does, with a noise of a thousandth.
    fn pairs(ratio: f64) -> Vec<Pair> {
        let readings = |per_s: f64| Readings {
            throughput: Reading::Gating(per_s),
            ..Readings::default()
        };
        let noise = (0..).map(|i| 1.0 + f64::from(i % 5) * 1e-3);
        let pair = |(order, noise): (Order, f64)| Pair {
            order,
            base: readings(800.0),
            candidate: readings(800.0 * ratio * noise),
            disturbance: Disturbance::None,
        };
        OrderSchedule::new(1)
            .zip(noise)
            .map(pair)
            .take(PAIRS)
            .collect()
    }

    fn missed(pairs: &[Pair]) -> Vec<String> {
        let attempt = attempt(pairs, &[]);
        assert!(attempt.counts(), "{:?}", attempt.disturbed_by);
        attempt
            .figures
            .into_iter()
            .filter(|figure| !figure.met)
            .map(|figure| figure.what)
            .collect()
    }

    #[test]
    fn r8_wants_the_ratio_and_the_verdict() {
        let none: [&str; 0] = [];
        assert_eq!(missed(&pairs(0.952)), none);
        assert_eq!(missed(&pairs(0.90)), ["throughput"]);
        assert_eq!(missed(&pairs(1.0)), ["throughput", "verdict"]);
        // Five percent that come and go are none that can be told from noise.
        let unsure: Vec<Pair> = pairs(0.952)
            .into_iter()
            .zip(pairs(1.05))
            .enumerate()
            .map(|(i, (worse, better))| if i % 3 == 0 { better } else { worse })
            .collect();
        assert!(missed(&unsure).contains(&"verdict".to_owned()));
    }

    #[test]
    fn r8_is_not_judged_by_a_disturbed_machine_nor_by_pairs_in_the_wrong_order() {
        let mut disturbed = pairs(0.952);
        let again: Vec<Pair> = disturbed
            .iter()
            .take(MOST_DISTURBED + 1)
            .map(|pair| Pair {
                disturbance: Disturbance::Steal,
                ..*pair
            })
            .collect();
        disturbed.splice(0..0, again);
        let attempt = super::attempt(&disturbed, &["a reason".to_owned()]);
        assert!(
            !attempt.counts() && attempt.disturbed_by[0].contains("6 of 22 pairs"),
            "{:?}",
            attempt.disturbed_by
        );
        let in_one_order: Vec<Pair> = pairs(0.952)
            .into_iter()
            .map(|pair| Pair {
                order: Order::BaseFirst,
                ..pair
            })
            .collect();
        assert!(!super::attempt(&in_one_order, &[]).passes());
    }
}
