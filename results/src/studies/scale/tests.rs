//! Tests of the results of known rounds.

use proptest::prelude::*;

use super::*;
use crate::run::report::BindingReport;
use crate::studies::compare::Interval;

/// A machine large enough for whatever is tried here.
const ROOM: Room = Room {
    cores: 1_000,
    target_processes: 1,
    ceiling_per_s: None,
};

/// A round of so many shards with 8 connections each that did so much.
fn round(replicate: usize, shards: u32, items_per_s: f64) -> Round {
    Round {
        replicate,
        size: Size {
            shards,
            connections: shards * 8,
        },
        result: format!("rounds/{replicate}-{shards}"),
        started_at: "2026-01-01T00:00:00.000Z".to_owned(),
        finished_at: "2026-01-01T00:00:03.000Z".to_owned(),
        validity: Verdict::Valid,
        left_out: Vec::new(),
        items_per_s,
        items: 1_000,
        failed: 0,
        attempts: Attempts::default(),
        binding: BindingReport::default(),
        cpu_us_per_attempt: Some(50.0),
        balance: Some(1.0),
        p50_us: Some(50_000.0),
        p99_us: Some(51_000.0),
        cpu_share: Some(0.1),
        run_delay_share: Some(0.01),
        machine_cpu_share: Some(0.1),
    }
}

/// Replicates of these sizes that do what `x` says of repeat and size.
fn rounds(repeats: usize, sizes: &[u32], x: impl Fn(usize, f64) -> f64) -> Vec<Round> {
    let replicate = |number| sizes.iter().map(move |n| (number, *n));
    (1..=repeats)
        .flat_map(replicate)
        .map(|(number, n)| round(number, n, x(number, f64::from(n))))
        .collect()
}

fn curve(rounds: &[Round]) -> Curve {
    Curve::new(FixedQuantity::ConnectionsPerShard(8), rounds, ROOM)
}

fn usl(lambda: f64, sigma: f64, kappa: f64) -> impl Fn(usize, f64) -> f64 {
    move |_, n| lambda * n / (1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0))
}

/// Seeded noise of a few percent, another one for each round.
fn noise(seed: u64, part: f64) -> impl Fn(usize, f64) -> f64 {
    move |replicate, n| {
        let mut draw = fastrand::Rng::with_seed(seed ^ (replicate as u64) << 32 ^ n.to_bits());
        // Nearly normal, of standard deviation 1.
        let normal = (0..12).map(|_| draw.f64()).sum::<f64>() - 6.0;
        1.0 + part * normal
    }
}

const SIZES: [u32; 5] = [1, 2, 4, 8, 16];

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * b.abs().max(1e-3)
}

#[test]
fn ratios_are_those_of_a_replicate() {
    // The second repeat ran on a machine twice as fast: no ratio may see that.
    let rounds = rounds(2, &[1, 2], |replicate, n| {
        100.0 * n * if replicate == 2 { 2.0 } else { 1.0 }
    });
    let curve = curve(&rounds);
    let [one, two] = &*curve.points else {
        panic!("{curve:?}")
    };
    assert_eq!(
        one.speedup.unwrap().interval,
        Some(Interval {
            low: 1.0,
            high: 1.0
        })
    );
    assert_eq!(
        two.speedup.unwrap().interval,
        Some(Interval {
            low: 2.0,
            high: 2.0
        })
    );
    assert_eq!(
        two.items_per_s.unwrap().interval,
        Some(Interval {
            low: 200.0,
            high: 400.0
        })
    );
    assert_eq!((two.factor, two.efficiency.unwrap().median), (2.0, 1.0));
}

#[test]
fn what_does_not_count_is_left_out_with_its_partner() {
    let mut rounds = rounds(3, &[1, 2], |_, n| 100.0 * n);
    rounds[0].left_out = vec!["the CPU slowed down".to_owned()];
    rounds[3].items_per_s = 1.0;
    rounds[3].left_out = vec!["stolen".to_owned()];
    let curve = curve(&rounds);
    let [one, two] = &*curve.points else {
        panic!("{curve:?}")
    };
    assert_eq!((one.rounds, one.left_out, two.left_out), (3, 1, 1));
    assert_eq!(one.items_per_s.unwrap().count, 2);
    assert_eq!(
        (two.items_per_s.unwrap().count, two.speedup.unwrap().count),
        (2, 1),
        "of the third replicate alone"
    );
    assert!(close(two.speedup.unwrap().median, 2.0));
    let mut none = rounds;
    for round in &mut none {
        round.left_out = vec!["stolen".to_owned()];
    }
    let curve = Curve::new(FixedQuantity::ConnectionsPerShard(8), &none, ROOM);
    assert!(curve.told().is_none() && curve.points.iter().all(|point| !point.counts()));
}

#[test]
fn shards_and_target_on_too_few_cpus_count_only_where_cpu_was_not_scarce() {
    let room = Room {
        cores: 4,
        target_processes: 2,
        ceiling_per_s: None,
    };
    let of = |rounds: &[Round]| {
        let curve = Curve::new(FixedQuantity::ConnectionsPerShard(8), rounds, room);
        curve
            .points
            .iter()
            .map(|point| (point.colocated, point.counts()))
            .collect::<Vec<_>>()
    };
    let mut rounds = rounds(5, &[1, 2, 4], |_, n| 100.0 * n);
    assert_eq!(of(&rounds), [(false, true), (false, true), (true, true)]);
    // Beside 1.4 % of the CPU, a wait for one is due to other programs.
    for (used, waited, counts) in [
        (Some(0.8), Some(0.0), false),
        (Some(0.3), Some(0.06), false),
        (Some(0.3), None, false),
        (Some(0.3), Some(0.0), true),
        (Some(0.014), Some(0.36), true),
        (None, Some(0.0), false),
    ] {
        for round in &mut rounds {
            (round.machine_cpu_share, round.run_delay_share) = (used, waited);
        }
        assert_eq!(
            of(&rounds),
            [(false, true), (false, true), (true, counts)],
            "{used:?}, {waited:?}"
        );
    }
    let elsewhere = Room {
        cores: 2,
        target_processes: 0,
        ceiling_per_s: None,
    };
    let curve = Curve::new(FixedQuantity::ConnectionsPerShard(8), &rounds, elsewhere);
    assert!(
        curve
            .points
            .iter()
            .all(|point| !point.colocated && point.counts()),
        "the target has other CPUs"
    );
}

#[test]
fn a_size_near_the_ceiling_is_limited_by_this_side() {
    let rounds = rounds(5, &[1, 2], |_, n| 100.0 * n);
    let limited = |ceiling, rounds: &[Round]| {
        let room = Room {
            ceiling_per_s: ceiling,
            ..ROOM
        };
        let curve = Curve::new(FixedQuantity::ConnectionsPerShard(8), rounds, room);
        curve
            .points
            .iter()
            .map(|point| point.limited_by_this_side)
            .collect::<Vec<_>>()
    };
    assert_eq!(limited(None, &rounds), [false, false]);
    assert_eq!(limited(Some(240.0), &rounds), [false, true]);
    assert_eq!(limited(Some(260.0), &rounds), [false, false]);
    let mut own = rounds;
    own.iter_mut()
        .filter(|round| round.size.shards == 1)
        .for_each(|round| round.validity = Verdict::ClientLimited);
    assert_eq!(limited(None, &own), [true, false]);
}

#[test]
fn the_answer_is_the_largest_size_that_counts() {
    let room = Room {
        cores: 4,
        target_processes: 1,
        ceiling_per_s: None,
    };
    let mut rounds = rounds(5, &[1, 2, 4, 8], |_, n| 100.0 * n);
    for round in &mut rounds {
        round.machine_cpu_share = Some(0.9);
    }
    let told = |room| {
        let curve = Curve::new(FixedQuantity::ConnectionsPerShard(8), &rounds, room);
        let point = curve.told().unwrap();
        (point.size.shards, curve.is_answer(point))
    };
    assert_eq!(told(room), (2, true));
    // Where not even one shard had room beside the target, no size is an answer.
    assert_eq!(
        told(Room {
            target_processes: 4,
            ..room
        }),
        (8, false)
    );
}

#[test]
fn the_same_load_on_more_shards_and_more_load_on_the_same_are_curves_of_their_own() {
    let mut rounds = rounds(3, &[1, 2], |_, n| 100.0 * n);
    for round in &mut rounds {
        round.size.connections = 16;
    }
    let mut more = rounds.clone();
    for round in &mut more {
        (round.size.connections, round.items_per_s) = (32, round.items_per_s * 1.5);
    }
    rounds.extend(more);
    let curve = |held| Curve::new(held, &rounds, ROOM);
    assert!(close(
        curve(FixedQuantity::Connections(16)).points[1]
            .speedup
            .unwrap()
            .median,
        2.0
    ));
    let of_connections = curve(FixedQuantity::Shards(2));
    assert_eq!(of_connections.points.len(), 2);
    let more = &of_connections.points[1];
    assert_eq!(
        (
            more.factor,
            more.speedup.unwrap().median,
            more.efficiency.unwrap().median
        ),
        (2.0, 1.5, 0.75)
    );
    assert_eq!(
        more.serial_fraction, None,
        "of a base that is not 1 there is none"
    );
}

#[test]
fn too_few_or_too_small_sizes_have_no_fit() {
    for (sizes, expected) in [
        (&[1, 2][..], NoFit::TooFew { counted: 2 }),
        (&[1, 8, 16], NoFit::TooFew { counted: 3 }),
        (&[1, 2, 3, 4], NoFit::TooSmall { largest: 4 }),
        (&[1, 2, 4, 7], NoFit::TooSmall { largest: 7 }),
    ] {
        let curve = curve(&rounds(10, sizes, usl(100.0, 0.05, 0.002)));
        assert_eq!((curve.fit, curve.no_fit), (None, Some(expected)));
    }
    let zero = curve(&rounds(5, &SIZES, |_, n| if n > 4.0 { 0.0 } else { n }));
    assert_eq!(zero.no_fit, Some(NoFit::Nothing));
    // Sizes that do not count are no sizes.
    let room = Room {
        cores: 9,
        target_processes: 4,
        ceiling_per_s: None,
    };
    let mut busy = rounds(5, &SIZES, usl(100.0, 0.05, 0.002));
    for round in &mut busy {
        round.machine_cpu_share = Some(1.0);
    }
    let curve = Curve::new(FixedQuantity::ConnectionsPerShard(8), &busy, room);
    assert_eq!(curve.no_fit, Some(NoFit::TooFew { counted: 3 }));
}

#[test]
fn points_that_follow_no_law_have_no_fit() {
    let fit = |x: &[f64; 5], noise: &dyn Fn(usize, f64) -> f64| {
        let at = |n: f64| x[SIZES.iter().position(|size| f64::from(*size) >= n).unwrap()];
        let curve = curve(&rounds(5, &SIZES, |r, n| at(n) * noise(r, n)));
        curve
            .fit
            .map(|fit| fit.sigma)
            .ok_or_else(|| curve.no_fit.unwrap())
    };
    let exactly = |_: usize, _: f64| 1.0;
    // What a throttling target lets through falls with the shards: more than all of the work would
    // be serial.
    let told = fit(&[23.0, 10.0, 10.5, 6.0, 3.0], &noise(1, 0.02)).unwrap_err();
    assert!(
        matches!(told, NoFit::TooSerial { sigma } if sigma > 1.2),
        "{told:?}"
    );
    assert!(
        told.to_string()
            .starts_with("the law does not describe these points: "),
        "{told}"
    );
    // A curve that is flat but for noise is serial, by no more than all of the work.
    assert!(
        fit(&[100.0, 100.1, 99.9, 100.0, 99.8], &exactly)
            .is_ok_and(|sigma| sigma > 0.99 && sigma <= 1.0)
    );
    // A step is no law; noise of the same size is.
    let step = [100.0, 100.0, 400.0, 400.0, 400.0];
    assert!(matches!(fit(&step, &exactly), Err(NoFit::Poor { misfit }) if misfit > 0.1));
    assert!(matches!(
        fit(&step, &noise(2, 0.02)),
        Err(NoFit::Poor { .. })
    ));
    assert!(fit(&[100.0, 200.0, 400.0, 800.0, 1_600.0], &noise(3, 0.3)).is_ok());
}

#[test]
fn a_peak_is_claimed_of_noise_as_often_as_is_said_and_found_where_there_is_one() {
    let claims = |kappa: f64, repeats| {
        let claimed = (0..1_000).filter(|seed| {
            let (law, noise) = (usl(100.0, 0.02, kappa), noise(*seed, 0.02));
            let fit = curve(&rounds(repeats, &SIZES, |r, n| law(r, n) * noise(r, n)))
                .fit
                .unwrap();
            fit.kappa_by_replicate.unwrap().is_above(0.0)
        });
        claimed.count()
    };
    // 1 in 32 of five; four standard deviations of a thousand.
    let (linear, four, retrograde) = (claims(0.0, 5), claims(0.0, 4), claims(0.005, 5));
    assert!(linear.abs_diff(31) <= 22, "{linear}");
    assert_eq!(four, 0, "four replicates cannot tell");
    assert!(retrograde >= 990, "{retrograde}");
}

#[test]
fn a_peak_is_not_told_far_beyond_what_was_measured() {
    // At sqrt((1 - .05) / .002), which is 21.8.
    let law = usl(100.0, 0.05, 0.002);
    let peak = |sizes: &[u32]| curve(&rounds(5, sizes, &law)).fit.unwrap().peak;
    assert!(peak(&SIZES).is_some_and(
        |peak| close(peak.n, 475.0_f64.sqrt()) && close(peak.items_per_s, law(1, peak.n))
    ));
    assert_eq!(peak(&[1, 2, 4, 8]), None);
}

fn law() -> impl Strategy<Value = (f64, f64, f64)> {
    (
        1.0..1e6_f64,
        0.0..0.5_f64,
        prop_oneof![Just(0.0), 1e-5..0.05_f64],
    )
}

proptest! {
    #[test]
    fn a_law_is_recovered((lambda, sigma, kappa) in law(), drift in 0.5..2.0_f64) {
        let law = usl(lambda, sigma, kappa);
        // Each repeat on a machine that is faster than the one before.
        let fit = curve(&rounds(1, &SIZES, &law)).fit.unwrap();
        prop_assert!(close(fit.lambda, lambda) && close(fit.sigma, sigma) && close(fit.kappa, kappa), "{fit:?}");
        prop_assert!(fit.misfit < 1e-6);
        let drifting = curve(&rounds(5, &SIZES, |r, n| law(r, n) * drift.powi(i32::try_from(r).unwrap()))).fit.unwrap();
        let [by_sigma, by_kappa] = [drifting.sigma_by_replicate, drifting.kappa_by_replicate].map(Option::unwrap);
        prop_assert!(close(by_sigma.median, sigma) && close(by_kappa.median, kappa), "{drifting:?}");
        prop_assert_eq!(by_kappa.is_above(0.0), kappa > 0.0);
    }

    #[test]
    fn what_is_linear_has_no_peak(lambda in 1.0..1e6_f64, repeats in 1..10_usize) {
        let curve = curve(&rounds(repeats, &SIZES, |_, n| lambda * n));
        for point in &curve.points {
            prop_assert!(close(point.speedup.unwrap().median, point.factor));
            prop_assert!(close(point.efficiency.unwrap().median, 1.0));
            prop_assert!(point.serial_fraction.is_none_or(|e| e.median.abs() < 1e-9));
        }
        let fit = curve.fit.unwrap();
        prop_assert_eq!((fit.sigma, fit.kappa, fit.peak), (0.0, 0.0, None));
        prop_assert!(!fit.kappa_by_replicate.unwrap().is_above(0.0));
    }

    #[test]
    fn amdahls_law_gives_its_serial_fraction(serial in 0.0..0.9_f64, lambda in 1.0..1e6_f64) {
        let curve = curve(&rounds(3, &SIZES, |_, n| lambda / (serial + (1.0 - serial) / n)));
        for point in &curve.points[1..] {
            prop_assert!((point.serial_fraction.unwrap().median - serial).abs() < 1e-9, "{point:?}");
        }
        let fit = curve.fit.unwrap();
        prop_assert!(close(fit.sigma, serial) && fit.kappa == 0.0, "{fit:?}");
    }

    #[test]
    fn the_order_of_rounds_and_of_replicates_changes_nothing(seed: u64, repeats in 1..8_usize) {
        let (law, noise) = (usl(100.0, 0.05, 0.001), noise(seed, 0.05));
        let rounds = rounds(repeats, &SIZES, |r, n| law(r, n) * noise(r, n));
        let mut draw = fastrand::Rng::with_seed(seed);
        let mut shuffled = rounds.clone();
        let mut numbers: Vec<usize> = (1..=repeats).collect();
        draw.shuffle(&mut numbers);
        for round in &mut shuffled {
            round.replicate = numbers[round.replicate - 1];
        }
        draw.shuffle(&mut shuffled);
        prop_assert_eq!(curve(&rounds), curve(&shuffled));
    }

    #[test]
    fn no_part_of_a_fit_is_below_zero(seed: u64, part in 0.0..0.3_f64) {
        let noise = noise(seed, part);
        let curve = curve(&rounds(5, &SIZES, |r, n| 100.0 * n * noise(r, n).max(0.01)));
        let fit = curve.fit.unwrap();
        prop_assert!(fit.lambda > 0.0 && (0.0..=1.0).contains(&fit.sigma) && fit.kappa >= 0.0 && fit.misfit.is_finite());
        prop_assert!(SIZES.iter().all(|n| fit.at(f64::from(*n)) > 0.0));
    }
}
