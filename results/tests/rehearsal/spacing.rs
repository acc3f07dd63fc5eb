//! Requests of small budgets, as a limiter at the target sees them that allows no burst.

use std::cell::Cell;

use crawlmark_harness::plan::AdaptiveKind;
use crawlmark_harness::units::RateShape;

use super::*;

/// A target whose connections take `delays_ms` to open, each request a new one, and whose answers
/// come in the order of `answers`. ID `i` is asked of host `i` modulo their number.
struct Moody {
    clock: Clock,
    hosts: u32,
    delays_ms: Vec<u64>,
    answers: Vec<(Outcome, Advice)>,
    asked: Cell<usize>,
}

impl Workload for Moody {
    fn host(&self, id: u64) -> u32 {
        u32::try_from(id % u64::from(self.hosts)).unwrap()
    }

    async fn perform(
        &self,
        _: u64,
        flight: &Flight,
        clearance: &impl Clearance,
        ended: &mut Attempt,
    ) -> Option<()> {
        let asked = self.asked.replace(self.asked.get() + 1);
        let delay_ms = self.delays_ms[asked % self.delays_ms.len()];
        tokio::time::sleep(Duration::from_millis(delay_ms)).await;
        flight.opened(delay_ms * 1_000_000);
        let sent = clearance.wait().await?;
        flight.note(in_flight(sent, 0, 0));
        tokio::time::sleep(MS).await;
        let answer = self.answers[asked % self.answers.len()].clone();
        *ended = attempt(Some(sent), self.clock.now(), answer);
        Some(())
    }
}

fn rehearsed(
    plan: &RunPlan,
    incidents: &[Incident],
    delays_ms: &[u64],
    answers: &[(Outcome, Advice)],
) -> Rehearsal {
    let target = |_: &ShardPlan, clock| Moody {
        clock,
        hosts: plan.per_host.hosts,
        delays_ms: delays_ms.to_vec(),
        answers: answers.to_vec(),
        asked: Cell::default(),
    };
    rehearse(plan, incidents, target).unwrap()
}

/// The shortest time between two of these, ns.
fn least_gap(samples: &[Sample], of: impl Fn(&Sample) -> bool) -> u64 {
    let mut sent: Vec<u64> = samples
        .iter()
        .filter(|sample| of(sample) && sample.attempt.sent.is_some())
        .map(|sample| sample.sent().0)
        .collect();
    sent.sort_unstable();
    let gaps = sent.windows(2).map(|pair| pair[1] - pair[0]);
    gaps.min().unwrap_or(u64::MAX)
}

fn any_answer() -> impl Strategy<Value = (Outcome, Advice)> {
    let error = (Outcome::Error(ErrorKind::Timeout), throttled(None).1);
    prop_oneof![
        4 => Just(GOOD),
        1 => Just(throttled(None)),
        1 => Just(throttled(Some(300 * MS))),
        1 => Just(error),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Of the run or of each host; of shards that wake late, are stopped, or wait for connections;
    /// of what is tried again, and after pauses.
    #[test]
    fn requests_up_to_200_per_second_keep_their_distance_over_all_shards(
        shards in 1..9_u32, rate in prop_oneof![2..6_u64, 6..=200_u64], of_hosts: bool, is_open: bool, learns: bool, seed: u64,
        delays_ms in prop::collection::vec(prop_oneof![3 => Just(0), 1 => 0..30_u64, 1 => 0..900_u64], 1..20),
        answers in prop::collection::vec(any_answer(), 1..20), stop_ms in 1..3_000_u64,
    ) {
        let mut plan = run_of(shards, 10 * shards, 30);
        plan.rate = Some(per_s(rate));
        if of_hosts {
            (plan.per_host.hosts, plan.per_host.rate, plan.rate) = (2, plan.rate, None);
        }
        if is_open && of_hosts {
            (plan.arrivals, plan.rate, plan.burst, plan.at_start) = (Arrivals::Poisson, Some(per_s(2 * rate)), 0, 0);
        }
        plan.throttling.adaptive = learns.then_some(AdaptiveKind::Aimd);
        let stop = Incident::Stop { at: Duration::from_millis(stop_ms), lasts: 70 * MS, shard: Some(shards - 1) };
        let rehearsal = rehearsed(&plan, &[Incident::Disorder { seed }, stop], &delays_ms, &answers);
        let apart_ns = 1_000_000_000_u64.div_ceil(rate);
        for host in 0..plan.per_host.hosts {
            let least = least_gap(&rehearsal.samples, |sample| sample.permit.host == host);
            prop_assert!(least >= apart_ns, "{least} ns apart at host {host}, not {apart_ns}");
        }
        let report = rehearsal.report(&plan);
        let kept = if of_hosts {
            report.host_budget.map(|budget| budget.kept)
        } else {
            report.budget.map(|budget| budget.kept)
        };
        prop_assert_eq!(kept, Some(true));
    }

    /// By count and by time: the requests at the start are those of the first window.
    #[test]
    fn windows_that_are_full_are_all_of_the_budget(
        shards in 1..4_u32, permits in 3..60_u64, every_ms in 50..1_500_u64, windows in 1..5_u64, is_timed: bool, over_ms in 1..50_u64,
    ) {
        let most = u32::try_from(permits).unwrap() * shards;
        let ids = if is_timed { permits * (windows + 9) } else { permits * windows };
        let mut plan = run_of(shards, most, ids);
        plan.rate = Some(Rate { permits, period_ns: every_ms * 1_000_000 });
        plan.shape = RateShape::Windows { every_ns: every_ms * 1_000_000 };
        (plan.burst, plan.at_start) = (permits, permits);
        let length = Duration::from_millis(every_ms * (windows - 1) + over_ms.min(every_ms));
        plan.duration = is_timed.then_some(length);
        let report = rehearsed(&plan, &[], &[0], &[GOOD]).report(&plan);
        prop_assert_eq!(report.totals.attempts, permits * windows);
        let used = report.budget.unwrap().utilisation;
        prop_assert!((used - 1.0).abs() < 1e-9, "{used}");
    }

    /// The alarm has whole milliseconds.
    #[test]
    fn a_spaced_budget_is_used(shards in 1..9_u32, apart_ms in 5..100_u64, start in 0..3_u64) {
        // Enough of them to open some while others wait.
        let mut plan = run_of(shards, 12 * shards, 100 * u64::from(shards));
        plan.rate = Some(Rate { permits: 1, period_ns: apart_ms * 1_000_000 });
        let rehearsal = rehearsed(&plan, &[], &[start * 20, 0, 0], &[GOOD]);
        let ends = rehearsal.samples.iter().map(|sample| sample.sent().0);
        let took_ms = (ends.clone().max().unwrap() - ends.min().unwrap()) / 1_000_000;
        let needed_ms = (plan.ids.len() - 1) * apart_ms;
        // At the end, a shard has its own share of the rate for what the others were ahead; at the
        // start, it learns once how long connections take to open.
        let ends_ms = 2 * apart_ms * u64::from(shards) + 20 * start;
        prop_assert!(took_ms <= needed_ms + needed_ms / 100 + ends_ms, "{took_ms} ms, not {needed_ms}");
    }
}
