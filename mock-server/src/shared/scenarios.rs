//! The states of the stubs' scenarios, common to all processes. The stubs number scenarios and
//! states alike in all of them.
//!
//! It must not know names.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::stubs::SCENARIOS;

/// The states, by scenario. 0 is the one that every scenario starts in.
#[repr(C)]
pub(crate) struct Scenarios {
    states: [AtomicU32; SCENARIOS],
}

impl Scenarios {
    /// The state of `scenario`; one beyond the table stays in its first.
    pub(crate) fn state(&self, scenario: usize) -> u32 {
        self.states
            .get(scenario)
            .map_or(0, |state| state.load(Ordering::Relaxed))
    }

    /// Moves `scenario` from state `from` to state `to`, unless another request moved it first.
    ///
    /// WireMock lets two requests at the same time both find the old state. Here exactly one does.
    pub(crate) fn advance(&self, scenario: usize, from: u32, to: u32) -> bool {
        self.states.get(scenario).is_none_or(|state| {
            state
                .compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        })
    }

    /// Puts `scenario` in `state`, whatever it was in.
    pub(crate) fn set(&self, scenario: usize, state: u32) {
        if let Some(place) = self.states.get(scenario) {
            place.store(state, Ordering::Relaxed);
        }
    }

    /// Puts all of them in their first state.
    pub(crate) fn reset(&self) {
        for state in &self.states {
            state.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::Shared;
    use std::sync::atomic::AtomicU64;

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
        assert_eq!(advanced.into_inner(), u64::from(scenarios.state(7)));
        assert_eq!(scenarios.state(8), 0);
        scenarios.set(8, 3);
        scenarios.reset();
        assert_eq!((scenarios.state(7), scenarios.state(8)), (0, 0));
    }

    #[test]
    fn a_scenario_beyond_the_table_stays_where_it_starts() {
        let shared = Shared::new().unwrap();
        let scenarios = &shared.region().scenarios;
        scenarios.set(SCENARIOS, 1);
        assert_eq!(scenarios.state(SCENARIOS), 0);
        assert!(scenarios.advance(SCENARIOS, 0, 1));
    }
}
