//! Histories: how often an unchanged one shows a change, what is found of a step, and the file.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeMap;
use std::fs;

use crawlmark_results::studies::compare::Worse;
use crawlmark_results::studies::history::{
    ChangePoint, History, POINT, Point, PointValue, add_points, parse_points, read_points,
};
use crawlmark_results::studies::{StudyFinding, StudyResult};
use fastrand::Rng;

use crate::golden;

/// Metrics of each history here.
const METRICS: usize = 4;

/// A history of noise around levels, by metrics: each value is a factor of 100.
fn history(series: &[Vec<f64>]) -> History {
    let points = (0..series[0].len()).map(|n| Point {
        time: format!("2026-01-{:02}T{:02}:00:00Z", n / 24 + 1, n % 24),
        commit: format!("{n:02x}").repeat(20),
        ..point(series.iter().map(|values| values[n]).collect())
    });
    History::of(points.collect(), "bench").unwrap()
}

fn point(values: Vec<f64>) -> Point {
    let metrics = (0..).zip(values).map(|(n, value): (u32, f64)| {
        let value = PointValue {
            value,
            unit: "ms".to_owned(),
            worse: Worse::More,
        };
        (format!("metric {n}"), value)
    });
    Point {
        schema: POINT.to_owned(),
        time: "2026-01-01T00:00:00Z".to_owned(),
        commit: String::new(),
        machine: "a".to_owned(),
        name: "bench".to_owned(),
        plan: String::new(),
        metrics: metrics.collect::<BTreeMap<_, _>>(),
    }
}

/// A noise of about unit size.
type Noise = fn(&mut Rng) -> f64;

fn gaussian(draw: &mut Rng) -> f64 {
    (0..12).map(|_| draw.f64()).sum::<f64>() - 6.0
}

/// Student's t of two degrees of freedom.
fn heavy_tailed(draw: &mut Rng) -> f64 {
    gaussian(draw) / (-(1.0 - draw.f64()).ln()).sqrt()
}

fn outliers(draw: &mut Rng) -> f64 {
    let late = if draw.f64() < 0.1 {
        -15.0 * (1.0 - draw.f64()).ln()
    } else {
        0.0
    };
    gaussian(draw) + late
}

fn bimodal(draw: &mut Rng) -> f64 {
    0.3 * gaussian(draw) + if draw.bool() { 3.0 } else { 0.0 }
}

/// Few different values.
fn coarse(draw: &mut Rng) -> f64 {
    gaussian(draw).round()
}

/// Values around levels, with noise in percent.
fn values(draw: &mut Rng, noise: Noise, percent: f64, levels: &[(usize, f64)]) -> Vec<f64> {
    let all = levels
        .iter()
        .flat_map(|(count, level)| std::iter::repeat_n(*level, *count));
    all.map(|level| level * (percent / 100.0 * noise(draw)).exp())
        .collect()
}

#[test]
fn of_100_unchanged_histories_at_most_one_shows_a_change() {
    for noise in [gaussian, heavy_tailed, outliers, bimodal, coarse] as [Noise; 5] {
        for count in [20, 45] {
            let mut draw = Rng::with_seed(count as u64);
            let alarms = (0..300).filter(|_| {
                let series = [0; METRICS].map(|_| values(&mut draw, noise, 5.0, &[(count, 100.0)]));
                history(&series)
                    .series
                    .iter()
                    .any(|one| !one.changes.is_empty())
            });
            // Three are expected at most; of ten or more, chance makes one time in 1,000.
            let alarms = alarms.count();
            assert!(alarms < 10, "{alarms} of 300 histories of {count}");
        }
    }
}

/// Values of first-order correlation 0.5.
fn correlated(draw: &mut Rng, count: usize) -> Vec<f64> {
    let new = 0.75_f64.sqrt();
    let next = |value: &f64| Some(0.5 * value + new * gaussian(draw));
    let all = std::iter::successors(Some(0.3), next).take(count + 10);
    all.skip(10)
        .map(|value| 100.0 * (0.02 * value).exp())
        .collect()
}

/// Values that resemble those before them wander, and a wander is no change: at most 3 % of such
/// histories show one.
#[test]
fn of_100_correlated_histories_at_most_three_show_a_change() {
    for (metrics, count) in [(1, 12), (1, 40), (4, 20)] {
        let mut draw = Rng::with_seed(count as u64);
        let alarms = (0..300).filter(|_| {
            let series: Vec<_> = (0..metrics).map(|_| correlated(&mut draw, count)).collect();
            let found = history(&series);
            found.series.iter().any(|one| !one.changes.is_empty())
        });
        // Nine are expected at most; of 18 or more, chance makes one time in 200.
        let alarms = alarms.count();
        assert!(alarms < 18, "{alarms} of 300 histories of {count}");
    }
}

/// A step that is large beside the noise is found in 95 of 100 histories, however few the results,
/// the size that a history names in 95 of 100 as well, and a larger step never less often.
#[test]
fn a_clear_step_is_found_in_95_of_100() {
    let found = |half: usize, step: f64, percent: f64| {
        let mut draw = Rng::with_seed(half as u64);
        let levels = [(half, 100.0), (half, 100.0 * step)];
        let found = (0..200).filter(|_| {
            let series = values(&mut draw, gaussian, percent, &levels);
            !history(&[series]).series[0].changes.is_empty()
        });
        found.count()
    };
    for (half, step, percent) in [
        (6, 1.05, 1.0),
        (20, 1.02, 0.5),
        (6, 1.3, 0.5),
        (10, 1.3, 0.5),
    ] {
        let found = found(half, step, percent);
        assert!(
            found >= 190,
            "x {step} at {percent} % of {half}: {found} of 200"
        );
    }
    for half in [8, 10, 12, 15] {
        assert_eq!(found(half, 0.5, 1.0), 200, "half, of {half}");
    }
    let unchanged = values(&mut Rng::with_seed(1), gaussian, 1.0, &[(40, 100.0)]);
    let named = history(&[unchanged]).series[0].smallest_found.unwrap();
    let [found, less] = [1.0, 0.4].map(|part| found(20, 1.0 + named * part, 1.0));
    assert!(
        found >= 190 && less < 150,
        "{named}: {found}, {less} of 200"
    );
}

/// The change nearest to a place, in histories of which one metric steps.
fn nearest(levels: &[(usize, f64)], percent: f64, seed: u64) -> Option<ChangePoint> {
    let mut draw = Rng::with_seed(seed);
    let count = levels.iter().map(|level| level.0).sum();
    let mut series = [0; METRICS].map(|_| values(&mut draw, gaussian, percent, &[(count, 100.0)]));
    series[1] = values(&mut draw, gaussian, percent, levels);
    let found = history(&series);
    let changes = found.series[1].changes.iter().copied();
    changes.min_by_key(|change| change.at.abs_diff(levels[0].0))
}

#[test]
fn a_step_is_found_with_its_size_and_place() {
    for (step, percent, levels) in [(1.06, 2.0, [20, 20]), (0.95, 1.0, [40, 10])] {
        let (mut found, mut sized, mut placed) = (0, 0, 0);
        for seed in 0..100 {
            let levels = [(levels[0], 100.0), (levels[1], 100.0 * step)];
            if let Some(change) = nearest(&levels, percent, seed) {
                found += 1;
                sized += usize::from(change.shift.ratio_interval.unwrap().contains(step));
                placed += usize::from((change.earliest..=change.latest).contains(&levels[0].0));
            }
        }
        assert!(found >= 93, "{step} at {percent} %: {found}");
        // Of intervals of 95 %, chance leaves out 11 of 100 or more one time in 90.
        assert!(
            sized + 10 >= found && placed + 10 >= found,
            "{sized}, {placed} of {found}"
        );
    }
}

/// Counters such as allocations have no noise at all.
#[test]
fn an_exact_step_of_any_size_is_found_at_its_place() {
    for step in [1.01, 1.05, 1.5, 2.0] {
        for at in 7..=50 {
            let series = [vec![2.0; at], vec![2.0 * step; at]].concat();
            let found = history(&[series]);
            let places: Vec<usize> = found.series[0].changes.iter().map(|one| one.at).collect();
            assert_eq!(places, [at], "x {step} in the middle of {}", 2 * at);
        }
    }
}

#[test]
fn a_change_that_was_undone_is_two_and_one_bad_day_is_none() {
    let mut draw = Rng::with_seed(3);
    let levels = [(15, 100.0), (15, 120.0), (15, 100.0)];
    let changes = |values: Vec<f64>| history(&[values]).series.remove(0).changes;
    let [up, down] = changes(values(&mut draw, gaussian, 2.0, &levels))[..] else {
        panic!("two changes")
    };
    assert_eq!((up.at, down.at), (15, 30));
    assert!((up.shift.after - 120.0).abs() < 4.0 && (down.shift.after - 100.0).abs() < 4.0);
    let mut bad_day = values(&mut draw, gaussian, 2.0, &[(30, 100.0)]);
    bad_day[12] = 40.0;
    assert_eq!(changes(bad_day), []);
    assert_eq!(changes(vec![0.0; 20]), []);
    // Counts that were 0 have a change without a ratio.
    let [from_zero] = changes([[0.0; 10], [2.0; 10]].concat())[..] else {
        panic!("one change")
    };
    assert_eq!((from_zero.at, from_zero.shift.ratio), (10, None));
}

#[test]
fn results_that_resemble_those_before_them_are_named() {
    let mut draw = Rng::with_seed(5);
    let mut drift = 0.0;
    let wandering = (0..60).map(|_| {
        drift = 0.7 * drift + gaussian(&mut draw);
        100.0 + drift
    });
    let wandering = history(&[wandering.collect()]);
    assert!(wandering.series[0].correlation > 0.4);
    let json = wandering.json().unwrap();
    assert!(json.contains("\"kind\": \"wanders\""), "{json}");
    // The results beside a step are alike, and those on each side of it are not.
    for levels in [&[(60, 100.0)][..], &[(30, 100.0), (30, 150.0)]] {
        let independent = history(&[values(&mut draw, gaussian, 2.0, levels)]);
        assert!(!independent.json().unwrap().contains("wanders"));
    }
}

#[test]
fn a_history_shows_its_changes() {
    let mut draw = Rng::with_seed(7);
    let series = [
        values(&mut draw, gaussian, 1.0, &[(14, 100.0), (12, 104.0)]),
        values(&mut draw, gaussian, 1.0, &[(26, 20.0)]),
    ];
    let changed = history(&series);
    golden("history.txt", &crate::ended(&changed));
    let page = changed.doc().html(&changed.plots());
    assert!(page.contains("id=\"plot-history\""), "{page}");
    let few = history(&[vec![1.0; 11]]);
    assert!(few.plots()[0].is_empty);
    golden("history-few.txt", &crate::ended(&few));
}

#[test]
fn each_plan_and_machine_has_a_history_of_its_own() {
    let mut points = Vec::new();
    for n in 0..40 {
        let (machine, level) = if n % 2 == 0 {
            ("a", 100.0)
        } else {
            ("b", 200.0)
        };
        points.push(Point {
            time: format!("2026-01-01T{:02}:{:02}:00Z", n / 60, n % 60),
            machine: machine.to_owned(),
            ..point(vec![level + f64::from(n % 3)])
        });
    }
    points.push(Point {
        plan: "other".to_owned(),
        ..point(vec![1.0])
    });
    let history = History::of(points, "bench").unwrap();
    assert_eq!((history.series.len(), history.too_short), (2, 1));
    assert!(
        history
            .series
            .iter()
            .all(|one| one.changes.is_empty() && one.results.len() == 20)
    );
    assert!(history.series[1].title.ends_with("on b"));
}

#[test]
fn the_file_is_read_as_it_was_written_and_a_bad_line_is_named() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("bench.jsonl");
    let points = [point(vec![1.5, 2.0]), point(vec![1e-9])];
    add_points(&file, &points[..1]).unwrap();
    // An editor took the last end of a line away.
    fs::write(&file, fs::read_to_string(&file).unwrap().trim_end()).unwrap();
    add_points(&file, &points[1..]).unwrap();
    assert_eq!(read_points(&file).unwrap(), points);
    let spaced = fs::read_to_string(&file)
        .unwrap()
        .replace('\n', "\r\n \r\n");
    fs::write(&file, format!("\u{feff}{spaced}")).unwrap();
    assert_eq!(read_points(&file).unwrap(), points);
    fs::write(&file, spaced.replace("\r\n \r\n", "\n")).unwrap();
    let good = fs::read_to_string(&file).unwrap();
    for (bad, says) in [
        ("<<<<<<< HEAD\n", "expected value"),
        ("{}\n", "missing field `schema`"),
        (
            &good.replace("point/1", "point/9"),
            "has the format `crawlmark.point/9`",
        ),
        (&good.replace("T00:00:00Z", ""), "`time` is `2026-01-01`"),
        (&good.replace("more", "up"), "unknown variant `up`"),
    ] {
        let error = parse_points(&file, &(good.clone() + bad))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("bench.jsonl:3: ") && error.contains(says),
            "{error}"
        );
    }
    assert!(History::of(Vec::new(), "none").is_none());
}

#[test]
fn the_same_result_twice_is_one_and_numbers_below_zero_have_a_direction() {
    let of = |levels: [f64; 2], worse: Worse| {
        let points = (0..24).map(|n| {
            let mut point = point(vec![levels[n / 12]]);
            point.time = format!("2026-01-{:02}T00:00:00Z", n + 1);
            for metric in point.metrics.values_mut() {
                metric.worse = worse;
            }
            point
        });
        points.collect::<Vec<_>>()
    };
    for (levels, more_is_worse) in [
        ([1.0, 2.0], true),
        ([-5.0, -4.0], true),
        ([0.0, 5.0], true),
        ([5.0, 0.0], false),
        ([5.0, -5.0], false),
        ([-4.0, -5.0], false),
    ] {
        for (worse, is_worse) in [(Worse::More, more_is_worse), (Worse::Less, !more_is_worse)] {
            let points = of(levels, worse);
            let once = History::of(points.clone(), "bench").unwrap();
            let twice = History::of([&points[..], &points[6..18]].concat(), "bench").unwrap();
            assert_eq!(once, twice);
            let found = &once.findings()[0];
            assert!(
                matches!(found, StudyFinding::Changed { is_worse: said, .. } if *said == is_worse),
                "{levels:?}: {found:?}"
            );
            assert!(once.picture().is_some());
        }
    }
}

/// Histories that have every finding.
pub(crate) fn with_findings() -> Vec<History> {
    let mut draw = Rng::with_seed(5);
    let mut drift = 0.0;
    let wandering = (0..60).map(|_| {
        drift = 0.7 * drift + gaussian(&mut draw);
        100.0 + drift
    });
    let wandering = history(&[wandering.collect()]);
    let changed = values(&mut draw, gaussian, 1.0, &[(14, 100.0), (12, 104.0)]);
    let few = history(&[vec![1.0; 11]]);
    // One metric was read three times.
    let points = (0..26).map(|n| Point {
        time: format!("2026-01-{:02}T00:00:00Z", n + 1),
        ..point(vec![100.0; 1 + usize::from(n < 3)])
    });
    let short = History::of(points.collect(), "bench").unwrap();
    vec![wandering, history(&[changed]), few, short]
}
