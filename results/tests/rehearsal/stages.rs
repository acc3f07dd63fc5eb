//! Stages of the rate: what is sent is the integral of the curve, and each request counts in the
//! stage that it was scheduled in.

use crawlmark_harness::plan::{RequestObjective, RequestTime};
use crawlmark_harness::units::{RateShape, ShapedRate, Stage};
use crawlmark_results::run::report::GroupRow;
use crawlmark_results::show::line::{Display, Line};

use super::*;

fn staged(shards: u32, rate: &ShapedRate) -> RunPlan {
    let (length, _) = rate.shape.length();
    let plan = RunPlan {
        rate: Some(rate.peak),
        shape: rate.shape.clone(),
        arrivals: Arrivals::Constant,
        burst: 0,
        at_start: 0,
        duration: Some(length),
        ..run_of(shards, 400, 1 << 40)
    };
    plan.validate().unwrap()
}

fn attempts(rows: &[GroupRow]) -> Vec<u64> {
    rows.iter().map(|row| row.attempts).collect()
}

fn any_stages() -> impl Strategy<Value = ShapedRate> {
    let stage = (0..800_u64, 0..800_u64, any::<bool>(), 1..3_000_u64);
    prop::collection::vec(stage, 2..6).prop_map(|all| {
        let stages = all.into_iter().map(|(from, to, is_steady, ms)| Stage {
            from: per_s(from),
            to: per_s(if is_steady { from } else { to }),
            length_ns: Some(ms * 1_000_000),
        });
        let shape = RateShape::Stages(stages.collect());
        let peak = shape.peak().unwrap();
        ShapedRate { peak, shape }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn the_integral_of_the_curve_is_what_is_sent_in_each_stage(rate in any_stages(), shards in 1..5_u32) {
        prop_assume!(rate.peak.permits > 0);
        let plan = staged(shards, &rate);
        let report = run(&plan, &[], |_, _| MS).report(&plan);
        let mut due = 0.0;
        for (row, stage) in report.by_stage.iter().zip(plan.shape.stages()) {
            let [from, to] = [stage.from, stage.to].map(|rate| rate.permits as f64);
            let wanted = f64::midpoint(from, to) * row.lasted_s.unwrap();
            due += wanted;
            prop_assert!((row.attempts as f64 - wanted).abs() <= 1.001, "{row:?}, not {wanted}");
            prop_assert_eq!((row.ok, row.errors, row.dropped), (row.attempts, 0, Some(0)));
        }
        let all = report.totals.attempts;
        prop_assert!((all as f64 - due).abs() <= 1.001, "{all}, not {due}");
        prop_assert_eq!(attempts(&report.by_stage).iter().sum::<u64>(), all);
    }
}

#[test]
fn a_spike_has_its_own_counts_times_and_thresholds() {
    let rate = "200/s@3s, 200/s..2000/s@1s, 2000/s@2s, 200/s@6s"
        .parse()
        .unwrap();
    let plan = staged(2, &rate);
    // Overloaded by the spike, in which each of 400 connections takes 400 ms: 1,000/s.
    let takes = |_, sent: Nanos| {
        if (4_000_000_000..7_000_000_000).contains(&sent.0) {
            400 * MS
        } else {
            MS
        }
    };
    let report = run(&plan, &[], takes).report(&plan);
    let [first, ramp, spike, after] = &report.by_stage[..] else {
        panic!("{:?}", report.by_stage)
    };
    assert_eq!(attempts(&report.by_stage), [600, 1_100, 4_000, 1_200]);
    let lasted: Vec<_> = report.by_stage.iter().map(|row| row.lasted_s).collect();
    assert_eq!(lasted, [3.0, 1.0, 2.0, 6.0].map(Some));
    assert_eq!(first.p50_us, Some(1_000));
    assert!(ramp.p50_us < Some(2_000), "{ramp:?}");
    assert!(
        spike.p50_us > Some(600_000) && after.p50_us < Some(2_000),
        "{spike:?}"
    );
    assert_eq!(
        spike.service_p50_us,
        Some(397_312),
        "400 ms, less its last digits"
    );
    let (median_us, exceeded_us) = (spike.p50_us.unwrap(), spike.exceeded_us.unwrap());
    assert!(exceeded_us > median_us + 100_000, "{spike:?}");
    let limit_us = exceeded_us - 50_000;
    let beyond_the_median = format!("response_p99{{stage=3}} < {limit_us}us");
    for (text, holds) in [
        ("response_p50{stage=1} < 2ms", Some(true)),
        ("response_p50{stage=3} < 500ms", Some(false)),
        ("service_p50{stage=3} < 500ms", Some(true)),
        // Too few for a p99, but more than enough are longer than that.
        ("response_p99{stage=3} < 500ms", Some(false)),
        (&*beyond_the_median, Some(false)),
        ("service_p99{stage=3} < 500ms", None),
        ("attempts{stage=3} == 4000", Some(true)),
        ("error_rate{stage=4} < 1%", Some(true)),
        ("attempts{stage=5} == 0", None),
    ] {
        let condition: Condition = text.parse().unwrap();
        let objective = Objective {
            condition,
            breach: Breach::Fails,
        };
        assert_eq!(
            objective.check(&plan).err().map(|error| error.to_string()),
            None
        );
        let mut judged = report.clone();
        LiveThresholds::new(&[objective], &plan).close(&mut judged);
        assert_eq!(judged.gates[0].ok, holds, "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn a_stage_of_which_most_was_dropped_passes_no_limit_of_its_median(
        at_rest in 15..60_u64, spike in 30..400_u64, shards in 1..3_u32,
    ) {
        let rate = format!("{at_rest}/s@8s, {spike}/s@8s, {at_rest}/s@8s").parse().unwrap();
        let mut plan = staged(shards, &rate);
        (plan.connections, plan.queue) = (shards, Some(0));
        let report = run(&plan, &[], |_, _| 40 * MS).report(&plan);
        for row in &report.by_stage {
            let condition = format!("response_p50{{{}}} < 100ms", row.name.as_ref().unwrap());
            let objective = Objective { condition: condition.parse().unwrap(), breach: Breach::Fails };
            let mut judged = report.clone();
            LiveThresholds::new(&[objective], &plan).close(&mut judged);
            let dropped = row.dropped.unwrap();
            let holds = judged.gates[0].ok;
            prop_assert!(dropped <= row.attempts || holds.is_none(), "{:?}", row);
            prop_assert!(dropped > 0 || row.attempts < 200 || holds == Some(true), "{:?}", row);
            let is_bound = row.p50_us.is_none() || row.at_least.iter().any(|key| key == "p50_us");
            prop_assert!(dropped <= row.attempts || is_bound, "{:?}", row);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn goodput_is_what_met_all_objectives_by_second_and_by_stage(
        rate in any_stages(), shards in 1..4_u32, response_ms in 1..200_u64, service_ms in 1..60_u64,
    ) {
        prop_assume!(rate.peak.permits > 0);
        let mut plan = staged(shards, &rate);
        plan.connections = 8 * shards;
        plan.objectives = vec![
            RequestObjective { time: RequestTime::Response, below_ns: response_ms * 1_000_000 },
            RequestObjective { time: RequestTime::Service, below_ns: service_ms * 1_000_000 },
        ];
        let takes = |_, sent: Nanos| Duration::from_micros(1 + sent.0 / 7 % 50_000);
        let answer = |_, sent: Nanos| if (sent.0 / 1_000).is_multiple_of(11) { throttled(None) } else { GOOD };
        let rehearsal = run_against(&plan, &[], takes, answer);
        let ms = |ns: u64| ns as f64 / 1e6;
        let is_good = |sample: &&Sample| {
            let Attempt { outcome, done, .. } = sample.attempt;
            outcome == Outcome::Ok
                && ms(done.since(sample.permit.intended)) < response_ms as f64
                && ms(done.since(sample.sent())) < service_ms as f64
        };
        let good = rehearsal.samples.iter().filter(is_good).count() as u64;
        let report = rehearsal.report(&plan);
        prop_assert_eq!(report.totals.met, good);
        prop_assert_eq!(report.intervals.iter().map(|row| row.met).sum::<u64>(), good);
        prop_assert_eq!(report.by_stage.iter().filter_map(|row| row.met).sum::<u64>(), good);
        let goodput = report.goodput.unwrap();
        let due = report.totals.attempts + report.totals.dropped;
        prop_assert!((goodput.share * due as f64 - good as f64).abs() < 1e-6);
        prop_assert!((goodput.per_s * report.totals.duration_s - good as f64).abs() < 1e-6);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn nothing_is_sent_after_its_deadline_and_what_is_dropped_had_that_age(
        rate in any_stages(), shards in 1..4_u32, deadline_ms in 1..300_u64, queue in prop::option::of(0..40_u32),
    ) {
        prop_assume!(rate.peak.permits > 0);
        let mut plan = staged(shards, &rate);
        let whole = run(&plan, &[], |_, _| MS).report(&plan).totals.attempts;
        plan.connections = 8 * shards;
        (plan.deadline, plan.queue) = (Some(Duration::from_millis(deadline_ms)), queue);
        let takes = |_, sent: Nanos| Duration::from_micros(1_000 + sent.0 / 13 % 150_000);
        let rehearsal = run(&plan, &[], takes);
        let late = rehearsal.samples.iter().map(|sample| sample.sent().since(sample.permit.intended));
        let latest = late.max().unwrap_or(0);
        prop_assert!(latest <= deadline_ms * 1_000_000, "{latest} ns late");
        let report = rehearsal.report(&plan);
        prop_assert_eq!(report.totals.attempts + report.totals.dropped, whole);
        let dropped: u64 = report.by_stage.iter().filter_map(|row| row.dropped).sum();
        prop_assert_eq!(dropped, report.totals.dropped);
        let ages = report.latency.get("drop_age").map_or(0, |ages| ages.count);
        prop_assert_eq!(ages, dropped);
    }
}

#[test]
fn no_request_is_scheduled_in_a_break() {
    let rate = "100/s@1s, 0/s@3s, 70/s@1s, 0/s@1s".parse().unwrap();
    for shards in 1..4 {
        let plan = staged(shards, &rate);
        let rehearsal = run(&plan, &[], |_, _| MS);
        let sent = rehearsal.samples.iter().map(|of| of.permit.intended.0);
        let is_in_a_break = |ns: &u64| (1_000_000_000..4_000_000_000).contains(ns);
        assert_eq!(sent.filter(is_in_a_break).collect::<Vec<_>>(), [0; 0]);
        let report = rehearsal.report(&plan);
        assert_eq!(attempts(&report.by_stage), [100, 0, 70, 0], "{shards}");
    }
}

#[test]
fn requests_that_wait_too_long_are_dropped_and_counted_by_age() {
    let rate = "100/s@2s, 100/s@2s".parse().unwrap();
    let mut plan = staged(1, &rate);
    // One connection, which a request of 1 s holds from 1 s to 2 s.
    (plan.connections, plan.deadline) = (1, Some(200 * MS));
    let takes = |_, sent: Nanos| if sent.0 == 1_000_000_000 { S } else { MS };
    let report = run(&plan, &[], takes).report(&plan);
    // Those due from 1.01 s to 1.79 s were more than 200 ms old at 2 s.
    assert_eq!((report.totals.attempts, report.totals.dropped), (321, 79));
    assert_eq!(report.by_stage[0].dropped, Some(79));
    let response = &report.latency["response"];
    assert_eq!((response.count, response.censored), (321, 79));
    let ages = &report.latency["drop_age"];
    assert_eq!((ages.count, ages.censored), (79, 0));
    assert_eq!([ages.min_us, ages.max_us], [210_000.0, 450_000.0].map(Some));
    let display = Display {
        columns: 160,
        has_unicode: true,
    };
    let end = words::end(&report, None, display, false);
    let said: Vec<String> = end.iter().map(Line::text).collect();
    let ages = "the rest dropped 210 ms to 450 ms late";
    assert!(said.concat().contains(ages), "{said:#?}");
    let why = |report: &Report| {
        report.findings.iter().find_map(|finding| match finding {
            Finding::NeverSent {
                by_deadline, limit, ..
            } => Some((*by_deadline, *limit)),
            _ => None,
        })
    };
    assert_eq!(why(&report), Some((true, Limit::Connections)));
    // The end of the run drops what could still have been sent in time.
    plan.deadline = Some(S);
    let takes = |_, sent: Nanos| if sent.0 == 3_500_000_000 { S } else { MS };
    let report = run(&plan, &[], takes).report(&plan);
    assert_eq!(why(&report), Some((false, Limit::Connections)));
}

#[test]
fn requests_that_never_went_are_those_of_their_stage() {
    let rate = "100/s@2s, 400/s@2s".parse().unwrap();
    let mut plan = staged(2, &rate);
    // 20 connections of 100 ms each are 200/s, and nothing may wait.
    (plan.connections, plan.queue) = (20, Some(0));
    let report = run(&plan, &[], |_, _| 100 * MS).report(&plan);
    let [low, high] = &report.by_stage[..] else {
        panic!("{:?}", report.by_stage)
    };
    assert_eq!((low.attempts, low.dropped), (200, Some(0)));
    assert_eq!(high.attempts + high.dropped.unwrap(), 800);
    assert_eq!(high.dropped, Some(report.totals.dropped));
    assert!(report.totals.dropped > 300);
}
