//! The states of the stubs' scenarios, common to all processes.
//!
//! It must not know names: scenarios and states are hashes of them.

use super::atomics::{AtomicU64, Ordering};

/// Scenarios of a target. Those beyond stay in their first state.
const SCENARIOS: usize = 1 << 14;

/// A table of open addressing. No scenario ever leaves it.
#[repr(C)]
pub(crate) struct Scenarios {
    slots: [Slot; SCENARIOS],
}

#[repr(C)]
struct Slot {
    /// 0 while nobody has it.
    scenario: AtomicU64,
    /// 0 is the state that every scenario starts in.
    state: AtomicU64,
}

impl Scenarios {
    fn slot(&self, scenario: u64) -> Option<&AtomicU64> {
        let scenario = scenario.max(1);
        #[expect(clippy::cast_possible_truncation, reason = "14 bits")]
        let first = scenario as usize % SCENARIOS;
        let mut places = (0..SCENARIOS).map(|step| &self.slots[(first + step) % SCENARIOS]);
        let order = Ordering::Relaxed;
        places
            .find(|slot| {
                let taken = slot.scenario.compare_exchange(0, scenario, order, order);
                taken.is_ok() || taken == Err(scenario)
            })
            .map(|slot| &slot.state)
    }

    /// The state of `scenario`.
    pub(crate) fn state(&self, scenario: u64) -> u64 {
        self.slot(scenario)
            .map_or(0, |state| state.load(Ordering::Relaxed))
    }

    /// Moves `scenario` from state `from` to state `to`, unless another request moved it first.
    ///
    /// WireMock lets two requests at the same time both find the old state. Here exactly one does.
    pub(crate) fn advance(&self, scenario: u64, from: u64, to: u64) -> bool {
        let order = Ordering::Relaxed;
        self.slot(scenario)
            .is_none_or(|state| state.compare_exchange(from, to, order, order).is_ok())
    }

    /// Puts `scenario` into a state.
    pub(crate) fn set(&self, scenario: u64, state: u64) {
        if let Some(place) = self.slot(scenario) {
            place.store(state, Ordering::Relaxed);
        }
    }

    /// Puts all scenarios into their first state.
    pub(crate) fn reset(&self) {
        for slot in &self.slots {
            if slot.state.load(Ordering::Relaxed) != 0 {
                slot.state.store(0, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::Shared;

    #[test]
    fn of_several_that_advance_a_scenario_one_does() {
        let shared = Shared::new().unwrap();
        let scenarios = &shared.region().scenarios;
        let advanced = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for step in 0..1000 {
                        if scenarios.advance(7, step, step + 1) {
                            advanced.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(advanced.into_inner(), scenarios.state(7));
        // Its place is that of the other, and it gets the next one.
        let other = 7 + SCENARIOS as u64;
        assert_eq!(scenarios.state(other), 0);
        scenarios.set(other, 3);
        assert_eq!((scenarios.state(7), scenarios.state(other)), (1000, 3));
        scenarios.reset();
        assert_eq!((scenarios.state(7), scenarios.state(other)), (0, 0));
    }
}
