//! A budget that is the run's for as long as its lease: nothing is sent at or after its end,
//! whatever is due.

use super::*;

/// Tells leases at set times, and keeps when it told which. After the last, the budget is the run's
/// own.
struct Lessor {
    /// Times from which on a lease is told, and its end, both ms after the start; sorted by the
    /// former.
    leases: Vec<(u64, u64)>,
    told: Vec<(Nanos, Nanos)>,
}

/// A target whose connections take as long to open as its answers take to come.
struct SlowToConnect(Target);

impl Workload for SlowToConnect {
    async fn perform(
        &self,
        id: u64,
        flight: &Flight,
        clearance: &impl Clearance,
        ended: &mut Attempt,
    ) -> Option<()> {
        tokio::time::sleep((self.0.takes)(self.0.shard, Nanos::default())).await;
        self.0.perform(id, flight, clearance, ended).await
    }
}

fn ms(ms: u64) -> Nanos {
    Nanos(ms * 1_000_000)
}

impl Observer for Lessor {
    fn progress(&mut self, _: &Live) {}

    fn interval(&mut self, _: &Interval) {}

    fn lease(&mut self, now: Nanos) -> Option<Nanos> {
        let next = self
            .leases
            .iter()
            .position(|(from, _)| ms(*from) > now)
            .unwrap_or(self.leases.len());
        let lease = match (next, self.leases.get(next)) {
            (_, None) => None,
            (0, _) => Some(Nanos::default()),
            _ => Some(ms(self.leases[next - 1].1)),
        };
        self.told.push((now, lease.unwrap_or(Nanos(u64::MAX))));
        lease
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Leases that grow, end and come back: each request goes within one that had been told; in a
    /// closed loop every item is crawled once the budget is the run's own.
    #[test]
    fn nothing_is_sent_beyond_the_lease(
        steps in prop::collection::vec((1..700_u64, 0..900_u64), 1..8), shards in 1..4_u32, rate in prop::option::of(500..4_000_u64),
        is_open: bool, takes in 1..40_u32,
    ) {
        let mut plan = RunPlan { timeout: 10 * S, ..run_of(shards, 4 * shards, 3_000) };
        (plan.rate, plan.burst, plan.at_start) = match rate {
            Some(rate) if !is_open => (Some(per_s(rate)), 8 * u64::from(shards), u64::from(shards)),
            Some(rate) => (Some(per_s(rate)), 0, 0),
            None => (None, 0, 0),
        };
        if is_open && rate.is_some() {
            plan.arrivals = Arrivals::Constant;
        }
        let mut at = 0;
        let leases = steps.iter().map(|(after, lasts)| {
            at += after;
            (at, at + lasts)
        });
        let mut lessor = Lessor { leases: leases.collect(), told: Vec::new() };
        let plan = plan.validate().unwrap();
        let target = |_: &ShardPlan, clock| {
            SlowToConnect(Target { clock, shard: takes, takes: |takes, _| takes * MS, answer: |_, _| GOOD })
        };
        let rehearsal = rehearse_before(&plan, &[], target, &mut lessor).unwrap();
        for sent in rehearsal.samples.iter().filter_map(|sample| sample.attempt.sent) {
            let end = lessor.told.iter().rev().find(|(at, _)| *at <= sent).map(|(_, end)| *end);
            // A lease that was shortened reaches the shards a moment later.
            let before = lessor.told.iter().rev().filter(|(at, _)| *at <= sent).nth(1).map(|(_, end)| *end);
            prop_assert!(end.max(before) > Some(sent), "sent at {sent:?} within {end:?}");
        }
        if plan.arrivals != Arrivals::Constant {
            prop_assert_eq!(ok(&rehearsal), 3_000);
        }
        rehearsal.report(&plan);
    }
}
