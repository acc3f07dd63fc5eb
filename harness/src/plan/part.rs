//! A part of a crawl that runs on several machines: its IDs, and the share of the budget that
//! belongs to its slot.
//!
//! Pure. Called by the command line when a part begins.

use super::split::split_share;
use super::{PerHost, RunPlan};
use crate::units::{IdRange, Rate, RateShape, Stage};

/// A slot: a fixed share of the rate and of the connections of a crawl. A part runs only while it
/// holds one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotShare {
    /// Its number, from 0.
    pub slot: u32,
    /// Number of slots; at least 1.
    pub of: u32,
}

/// Reason why a crawl cannot be split into parts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PartPlanError {
    /// More parts than IDs.
    #[error("--nodes {nodes} is more than the {ids} IDs: use at most {ids}")]
    Ids {
        /// Number of parts.
        nodes: u32,
        /// Number of IDs.
        ids: u64,
    },
    /// More slots than connections.
    #[error(
        "--connections {connections} is fewer than the {slots} slots: use at least {slots}, or fewer --slots"
    )]
    Connections {
        /// Connections of the crawl.
        connections: u32,
        /// Number of slots.
        slots: u32,
    },
    /// More slots than connections to a host.
    #[error(
        "--per-host-connections {connections} is fewer than the {slots} slots: use at least {slots}, or fewer --slots"
    )]
    PerHostConnections {
        /// Connections to a host.
        connections: u32,
        /// Number of slots.
        slots: u32,
    },
    /// More slots than requests in a burst.
    #[error(
        "--burst {burst} is fewer than the {slots} slots: use at least {slots}, or fewer --slots"
    )]
    Burst {
        /// Requests at once.
        burst: u64,
        /// Number of slots.
        slots: u32,
    },
    /// A setting that depends on the time since the start of the run.
    #[error(
        "{0} depends on the time since the start, which parts that run one after another do not share: use as many --slots as --nodes"
    )]
    Timed(&'static str),
    /// A setting that parts do not have.
    #[error("{0} does not work in parts: remove it")]
    Unsplit(&'static str),
}

impl SlotShare {
    /// Return the share of a number; the shares of all slots add up to it.
    fn of(self, total: u64) -> u64 {
        split_share(total, self.of.into(), self.slot.into())
    }

    fn of_u32(self, total: u32) -> u32 {
        u32::try_from(self.of(total.into())).unwrap_or(u32::MAX)
    }

    /// Return this slot's share of a rate: fewer permits if they, and those of all stages, divide
    /// evenly, otherwise a longer period.
    fn of_rate(self, rate: Rate, shape: &RateShape) -> Rate {
        let of = u64::from(self.of);
        if shape
            .stages()
            .iter()
            .flat_map(Stage::rates)
            .chain([rate])
            .all(|rate| rate.permits.is_multiple_of(of))
        {
            return Rate {
                permits: rate.permits / of,
                ..rate
            };
        }
        Rate {
            period_ns: rate.period_ns.saturating_mul(of),
            ..rate
        }
    }
}

impl RunPlan {
    /// Check that the crawl can be split into `nodes` parts, of which `slots` run at a time.
    /// `burst` is the one that was asked for.
    ///
    /// # Errors
    /// Names the first flag that cannot be split.
    pub fn check_parts(
        &self,
        nodes: u32,
        slots: u32,
        burst: Option<u64>,
    ) -> Result<(), PartPlanError> {
        if self.ids.len() < u64::from(nodes) {
            return Err(PartPlanError::Ids {
                nodes,
                ids: self.ids.len(),
            });
        }
        if self.connections < slots {
            return Err(PartPlanError::Connections {
                connections: self.connections,
                slots,
            });
        }
        if let Some(connections) = self
            .per_host
            .connections
            .filter(|connections| *connections < slots)
        {
            return Err(PartPlanError::PerHostConnections { connections, slots });
        }
        if let Some(burst) = burst.filter(|burst| *burst < slots.into()) {
            return Err(PartPlanError::Burst { burst, slots });
        }
        if matches!(self.shape, RateShape::Windows { .. }) {
            return Err(PartPlanError::Unsplit("a --rate in windows"));
        }
        if self.arrivals.gaps().is_some() {
            return Err(PartPlanError::Unsplit("--arrivals"));
        }
        let has_stages = !self.shape.stages().is_empty();
        match self.duration {
            _ if slots >= nodes => Ok(()),
            _ if has_stages => Err(PartPlanError::Timed("a --rate that changes")),
            Some(_) => Err(PartPlanError::Timed("--duration")),
            None => Ok(()),
        }
    }

    /// Return the plan of a part of this crawl: `ids` with the budget of `slot`, in at most
    /// `shards` shards. `burst` is the one that was asked for.
    pub fn part(&self, ids: IdRange, slot: SlotShare, shards: u32, burst: Option<u64>) -> Self {
        let connections = slot.of_u32(self.connections);
        let all = self.per_host;
        let per_host = PerHost {
            hosts: all.hosts,
            connections: all.connections.map(|connections| slot.of_u32(connections)),
            rate: all
                .rate
                .map(|rate| slot.of_rate(rate, &RateShape::Constant)),
            burst: all.burst.map(|burst| slot.of(burst)),
        };
        // The bursts that are announced of the whole hold over all shards of all slots, so a slot
        // has no more shards than requests at once.
        let own_burst = slot.of(self.burst);
        let bursts = [
            self.has_budget().then_some(own_burst),
            per_host.rate.and(per_host.burst),
        ];
        let most = bursts.into_iter().flatten().min().unwrap_or(u64::MAX);
        let shards = shards
            .min(connections)
            .min(per_host.connections.unwrap_or(u32::MAX))
            .min(u32::try_from(most).unwrap_or(u32::MAX))
            .max(1);
        let rate = self.rate.map(|rate| slot.of_rate(rate, &self.shape));
        Self {
            ids,
            shards,
            connections,
            rate,
            shape: self
                .shape
                .with_rates(|rate| slot.of_rate(rate, &self.shape)),
            burst: own_burst,
            at_start: if self.has_budget() {
                burst.map_or(shards.into(), |_| own_burst)
            } else {
                0
            },
            per_host,
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_slots_of_a_crawl_add_up_to_its_budget(
            slots in 1..50_u32, connections in 50..2_000_u32, permits in 1..100_000_u64, burst in prop::option::of(50..5_000_u64),
            shards in 1..64_u32,
        ) {
            let rate = Rate { permits, period_ns: 1_000_000_000 };
            let ids = IdRange { start: 7, end: 10_007 };
            let whole = RunPlan { connections, rate: Some(rate), burst: burst.unwrap_or_else(|| super::super::default_burst(&rate, slots)), ..RunPlan::new("test", ids) };
            let host_burst = super::super::default_burst(&rate, slots);
            let whole = RunPlan { per_host: PerHost { rate: Some(rate), burst: Some(host_burst), ..PerHost::default() }, ..whole };
            prop_assert_eq!(whole.check_parts(100, slots, burst), Ok(()));
            let parts: Vec<RunPlan> =
                (0..slots).map(|slot| whole.part(ids, SlotShare { slot, of: slots }, shards, burst)).collect();
            prop_assert_eq!(parts.iter().map(|part| part.connections).sum::<u32>(), connections);
            let per_s: f64 = parts.iter().map(|part| part.rate.unwrap().per_second()).sum();
            prop_assert!((per_s - rate.per_second()).abs() <= per_s * 1e-9);
            prop_assert_eq!(parts.iter().map(|part| part.burst).sum::<u64>(), whole.burst);
            let at_once = |part: &RunPlan| part.split(&[]).iter().filter_map(|shard| shard.budget).map(|own| own.burst).sum::<u64>();
            prop_assert_eq!(parts.iter().map(at_once).sum::<u64>(), whole.burst, "over all shards of all slots");
            let at_host = |part: &RunPlan| part.split(&[]).iter().filter_map(|shard| shard.per_host.budget).map(|own| own.burst).sum::<u64>();
            prop_assert_eq!(parts.iter().map(at_host).sum::<u64>(), host_burst, "at one host");
            for part in parts {
                prop_assert!(part.validate().is_ok());
            }
        }
    }
}
