//! Tests of the verdicts that given pairs lead to. The rate of right verdicts is tested in
//! `tests/truth_s`.

use proptest::prelude::*;

use super::*;

/// Pairs in blocks whose readings of every metric are these, base and candidate.
fn pairs(readings: impl IntoIterator<Item = (f64, f64)>) -> Vec<Pair> {
    OrderSchedule::new(1)
        .zip(readings)
        .map(|(first, (base, candidate))| Pair {
            first,
            base: gating(base),
            candidate: gating(candidate),
            parts: Vec::new(),
            disturbance: Disturbance::None,
        })
        .collect()
}

/// All four read the same.
fn gating(value: f64) -> Readings {
    let reading = Reading::Gating(value);
    [CPU_PER_ATTEMPT, THROUGHPUT, SERVICE_P50, SERVICE_P99]
        .map(|metric| (metric, reading))
        .into_iter()
        .collect()
}

/// `count` pairs whose ratios lie around `ratio`, above and below in turn, ever further, by up to
/// `spread`.
fn around(ratio: f64, spread: f64, count: usize) -> Vec<Pair> {
    let step = |index: usize| {
        let far = spread * (index / 2 + 1) as f64 / (count / 2) as f64;
        if index.is_multiple_of(2) { far } else { -far }
    };
    pairs((0..count).map(|index| {
        (
            100.0 + index as f64,
            (100.0 + index as f64) * ratio * (1.0 + step(index)),
        )
    }))
}

/// Return the pairs with the throughput alone.
fn throughput_only(mut pairs: Vec<Pair>) -> Vec<Pair> {
    for pair in &mut pairs {
        for readings in [&mut pair.base, &mut pair.candidate] {
            *readings = Readings::from_iter([(THROUGHPUT, readings.of(THROUGHPUT))]);
        }
    }
    pairs
}

fn judged(pairs: &[Pair]) -> Comparison {
    judge(&run_metrics(), pairs, &LOOKS).unwrap()
}

fn verdict(comparison: &Comparison, metric: &str) -> MetricVerdict {
    comparison.of(metric).unwrap().verdict
}

#[test]
fn a_loss_of_throughput_is_found_at_the_first_look_with_its_size() {
    // A target of 20 ms against one of 21 ms, 16 pairs.
    let comparison = judged(&throughput_only(around(20.0 / 21.0, 0.003, 16)));
    assert_eq!(comparison.verdict, Overall::Regression);
    assert_eq!(
        comparison.look,
        Some(FinalLook {
            number: 1,
            look: Look {
                pairs: 16,
                alpha: 0.0015
            }
        })
    );
    assert!(comparison.is_over());
    let finding = comparison.of(THROUGHPUT).unwrap();
    let evidence = finding.evidence.unwrap();
    assert!((0.952..0.953).contains(&evidence.ratio), "{evidence:?}");
    assert!(evidence.ratio_interval.unwrap().contains(evidence.ratio));
    assert_eq!(
        (evidence.pairs, evidence.p_value, evidence.p_adjusted),
        (16, 2.0_f64.powi(-16), Some(2.0_f64.powi(-16)))
    );
    assert_eq!(comparison.metrics.len(), 1, "what nobody read is not there");
}

#[test]
fn a_loss_counts_from_its_metrics_smallest_effect_on() {
    let of = |ratio, metric| verdict(&judged(&around(ratio, 0.0005, 44)), metric);
    assert_eq!(
        of(1.019, SERVICE_P50),
        MetricVerdict::Pass,
        "surely worse, by too little"
    );
    assert_eq!(of(1.021, SERVICE_P50), MetricVerdict::Regression);
    assert_eq!(of(1.0 - 0.019, THROUGHPUT), MetricVerdict::Pass);
    assert_eq!(of(1.0 - 0.021, THROUGHPUT), MetricVerdict::Regression);
    assert_eq!(of(1.039, SERVICE_P99), MetricVerdict::Pass);
    assert!(matches!(
        of(1.045, SERVICE_P99),
        MetricVerdict::Inconclusive {
            because: Undecided::Noise,
            ..
        }
    ));
    assert_eq!(of(1.051, SERVICE_P99), MetricVerdict::Regression);
}

#[test]
fn pairs_that_follow_each_other_are_told_from_those_that_do_not() {
    let drawn = |memory: f64| {
        let (mut draw, mut mood) = (fastrand::Rng::with_seed(1), 0.0);
        let ratios = (0..44).map(|_| {
            mood = memory * mood + draw.f64() - 0.5;
            (100.0, 100.0 * (1.0 + 0.1 * mood))
        });
        evidence(&at_once(&pairs(ratios.collect::<Vec<_>>())))
    };
    assert!(drawn(0.9).is_autocorrelated());
    assert!(!drawn(0.0).is_autocorrelated());
}

#[test]
fn equal_arms_pass_and_identical_ones_too() {
    assert_eq!(judged(&around(1.0, 0.01, 16)).verdict, Overall::Pass);
    let same = judged(&pairs(std::iter::repeat_n((7.0, 7.0), 16)));
    assert_eq!(same.verdict, Overall::Pass);
    let evidence = same.metrics[0].evidence.unwrap();
    assert_eq!(
        (evidence.p_value, evidence.ratio, evidence.log_ratio_sd),
        (1.0, 1.0, Some(0.0))
    );
}

#[test]
fn noise_wants_more_pairs_until_there_are_no_more_looks() {
    let noisy = |count| judged(&around(1.0, 0.4, count));
    let first = noisy(16);
    assert_eq!(
        (first.verdict, first.look.map(|taken| taken.number)),
        (Overall::Inconclusive, Some(1))
    );
    assert_eq!(first.pairs_wanted, 12);
    let last = noisy(44);
    assert_eq!(
        (last.verdict, last.look.map(|taken| taken.number)),
        (Overall::Inconclusive, Some(3))
    );
    assert!(last.is_over());
    let MetricVerdict::Inconclusive {
        minimum_detectable_effect: Some(effect),
        because: Undecided::Noise,
    } = verdict(&last, SERVICE_P50)
    else {
        panic!("{last:?}")
    };
    // The deviation is about .24: (3.1 + 1.7) x .24 / sqrt(44) = .17, a factor of 1.19.
    assert!((0.15..0.25).contains(&effect), "{effect}");
}

#[test]
fn the_first_look_that_decides_stands_whatever_comes_later() {
    let mut pairs = around(1.1, 0.003, 44);
    for pair in &mut pairs[16..] {
        pair.candidate = pair.base.clone();
    }
    assert_eq!(judged(&pairs).verdict, Overall::Regression);
    assert_eq!(judged(&pairs), judged(&pairs[..16]));
}

#[test]
fn disturbed_pairs_are_not_looked_at() {
    let calm = around(1.0, 0.01, 16);
    let mut pairs = calm.clone();
    for _ in 0..5 {
        pairs.insert(
            4,
            Pair {
                disturbance: Disturbance::Steal,
                candidate: gating(900.0),
                ..calm[4].clone()
            },
        );
    }
    assert_eq!(
        judged(&pairs),
        Comparison {
            disturbed_pairs: 5,
            ..judged(&calm)
        }
    );
    pairs.insert(4, pairs[4].clone());
    let comparison = judged(&pairs);
    assert_eq!(
        (comparison.verdict, comparison.pairs_wanted),
        (Overall::Inconclusive, 0)
    );
    let because = Undecided::TooDisturbed { disturbed: 6 };
    assert!(
        matches!(verdict(&comparison, THROUGHPUT), MetricVerdict::Inconclusive { because: b, .. } if b == because)
    );
}

#[test]
fn a_coarse_reading_informs_and_decides_nothing() {
    let mut pairs = around(1.2, 0.003, 16);
    let metrics = [CPU_PER_ATTEMPT, SERVICE_P50];
    for pair in &mut pairs {
        for readings in [&mut pair.base, &mut pair.candidate] {
            for metric in metrics {
                readings.set(metric, Reading::Absent);
            }
            readings.set(SERVICE_P99, Reading::Gating(1.0));
        }
    }
    pairs[3].base.set(SERVICE_P99, coarse(Some(1.0), 2.0));
    let comparison = judged(&pairs);
    assert_eq!(comparison.verdict, Overall::Pass, "throughput rose");
    let p99 = comparison.of(SERVICE_P99).unwrap();
    let shown = MetricVerdict::Informational { longer: Some(2.0) };
    assert_eq!(p99.verdict, shown);
    assert_eq!(p99.evidence.unwrap().p_adjusted, None);
    assert!(metrics.iter().all(|metric| comparison.of(metric).is_none()));
    let throughput = comparison.of(THROUGHPUT).unwrap().evidence.unwrap();
    assert_eq!(
        throughput.p_adjusted,
        Some(throughput.p_value),
        "it has the error to itself"
    );
    // Fewer responses still, as of 8 connections beside 64.
    pairs[3].base.set(SERVICE_P99, coarse(None, 8.0));
    let comparison = judged(&pairs);
    let shown = MetricVerdict::Informational { longer: Some(8.0) };
    assert_eq!(
        (comparison.verdict, verdict(&comparison, SERVICE_P99)),
        (Overall::Pass, shown)
    );
}

fn coarse(value: Option<f64>, longer: f64) -> Reading {
    Reading::Coarse { value, longer }
}

/// All else passes, and what cannot be judged got worse by 5 % in every pair.
#[test]
fn a_metric_that_got_worse_in_coarse_readings_spoils_a_pass() {
    for metric in [CPU_PER_ATTEMPT, SERVICE_P99] {
        let mut pairs = around(1.0, 0.003, 16);
        for (pair, worse) in pairs.iter_mut().zip(around(1.06, 0.003, 16)) {
            for (readings, of) in [
                (&mut pair.base, &worse.base),
                (&mut pair.candidate, &worse.candidate),
            ] {
                readings.set(metric, coarse(of.of(metric).value(), 4.0));
            }
        }
        let comparison = judged(&pairs);
        assert_eq!(
            (comparison.verdict, comparison.is_over()),
            (Overall::Inconclusive, true),
            "{metric}"
        );
        let because = verdict(&comparison, metric).because();
        assert_eq!(because, Some(Undecided::WorseButCoarse { longer: 4.0 }));
        assert_eq!(verdict(&comparison, THROUGHPUT), MetricVerdict::Pass);
        // Before the first look, nothing is sure.
        let early = judged(&pairs[..15]);
        let shown = MetricVerdict::Informational { longer: Some(4.0) };
        assert_eq!(verdict(&early, metric), shown);
    }
}

#[test]
fn a_candidate_that_is_too_slow_to_tell_how_slow_does_not_pass() {
    let mut pairs = around(1.0, 0.003, 16);
    assert_eq!(judged(&pairs).verdict, Overall::Pass);
    pairs[3]
        .candidate
        .set(SERVICE_P99, Reading::Informational(9.0));
    let comparison = judged(&pairs);
    assert_eq!(
        (comparison.verdict, comparison.is_over()),
        (Overall::Inconclusive, true)
    );
    let because = Undecided::Coarse { pairs: 1 };
    assert!(
        matches!(verdict(&comparison, SERVICE_P99), MetricVerdict::Inconclusive { because: b, .. } if b == because)
    );
    assert_eq!(verdict(&comparison, THROUGHPUT), MetricVerdict::Pass);
}

#[test]
fn a_metric_that_cannot_be_compared_says_so_and_spoils_a_pass() {
    let mut pairs = around(1.0, 0.01, 16);
    pairs[2].candidate.set(SERVICE_P50, Reading::Absent);
    pairs[3].base.set(CPU_PER_ATTEMPT, Reading::Gating(0.0));
    let comparison = judged(&pairs);
    assert_eq!(comparison.verdict, Overall::Inconclusive);
    let because = |metric| verdict(&comparison, metric).because();
    assert_eq!(because(SERVICE_P50), Some(Undecided::Unread { pairs: 1 }));
    assert_eq!(
        because(CPU_PER_ATTEMPT),
        Some(Undecided::Unread { pairs: 1 })
    );
    assert_eq!(verdict(&comparison, THROUGHPUT), MetricVerdict::Pass);
    assert!(comparison.is_over(), "no pair would repair that");
    let mut nothing = throughput_only(around(1.0, 0.01, 16));
    for pair in &mut nothing {
        (pair.base, pair.candidate) = (Readings::default(), Readings::default());
    }
    assert_eq!(judged(&nothing).verdict, Overall::Inconclusive);
}

/// Readings of 16 to 44 pairs.
fn readings() -> impl Strategy<Value = Vec<(f64, f64)>> {
    proptest::collection::vec((50.0..150.0_f64, 50.0..150.0_f64), 16..=44)
}

fn evidence(comparison: &Comparison) -> Evidence {
    comparison.of(SERVICE_P50).unwrap().evidence.unwrap()
}

/// One look at all of them.
fn at_once(pairs: &[Pair]) -> Comparison {
    judge(&run_metrics(), pairs, &[Look::new(pairs.len(), 0.01)]).unwrap()
}

proptest! {
    #[test]
    fn the_unit_of_the_readings_does_not_matter(readings in readings(), unit in 1e-6..1e6_f64) {
        let one = at_once(&pairs(readings.iter().copied()));
        let other = at_once(&pairs(readings.iter().map(|(base, candidate)| (base * unit, candidate * unit))));
        prop_assert_eq!(one.verdict, other.verdict);
        prop_assert!((evidence(&one).log_ratio - evidence(&other).log_ratio).abs() < 1e-9);
        prop_assert!((evidence(&one).p_value - evidence(&other).p_value).abs() < 1e-12);
    }

    #[test]
    fn swapping_the_arms_mirrors_the_effect(readings in readings()) {
        let pairs = pairs(readings);
        let swap = |pair: &Pair| Pair { first: pair.first.other(), base: pair.candidate.clone(), candidate: pair.base.clone(), ..pair.clone() };
        let swapped: Vec<Pair> = pairs.iter().map(swap).collect();
        let (one, other) = (evidence(&at_once(&pairs)), evidence(&at_once(&swapped)));
        prop_assert!((one.log_ratio + other.log_ratio).abs() < 1e-12);
        let (a, b) = (one.log_ratio_interval.unwrap(), other.log_ratio_interval.unwrap());
        prop_assert!((a.low + b.high).abs() < 1e-12 && (a.high + b.low).abs() < 1e-12);
        // Each of the two p values counts the outcome itself.
        prop_assert!(one.p_value + other.p_value > 1.0);
        prop_assert!((one.log_ratio_sd.unwrap() - other.log_ratio_sd.unwrap()).abs() < 1e-12);
    }

    #[test]
    fn no_metric_is_both_a_pass_and_worse_than_the_limit(readings in readings()) {
        let comparison = judged(&pairs(readings));
        for finding in &comparison.metrics {
            let evidence = finding.evidence.unwrap();
            prop_assert!(evidence.p_value > 0.0 && evidence.p_value <= 1.0);
            prop_assert!(evidence.p_adjusted.unwrap() >= evidence.p_value && evidence.p_adjusted.unwrap() <= 1.0);
            let loss = finding.metric.fraction(finding.metric.toward_worse(evidence.log_ratio));
            match finding.verdict {
                MetricVerdict::Pass => prop_assert!(loss < finding.metric.passes_below),
                MetricVerdict::Regression => prop_assert!(loss >= finding.metric.smallest_effect - 1e-12),
                _ => {}
            }
        }
    }
}
