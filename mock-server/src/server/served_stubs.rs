//! The stubs of one process, and the states of their scenarios, which all processes share.
//!
//! It must not respond to anything: it returns the stub that does.

use crate::config::Config;
use crate::draw::fnv_1a;
use crate::ledger::LedgerWriter;
use crate::shared::{Scenarios, Shared};
use crate::stubs::{Mappings, RequestView, ScenarioStep, Stub, Stubs, state_hash};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// Most times that a request looks for its stub again because another moved a scenario in between.
/// Who loses that often takes what it finds.
const TRIES: usize = 64;

/// The stubs of one process.
pub(super) struct ServedStubs {
    shared: Shared,
    pub(super) stubs: Arc<Stubs>,
    /// The number of the next request.
    ordinals: Cell<u64>,
}

impl ServedStubs {
    pub(super) fn new(config: &Config, books: &LedgerWriter) -> Self {
        Self {
            shared: books.shared().clone(),
            stubs: config
                .stubs
                .as_ref()
                .map(Mappings::stubs)
                .cloned()
                .unwrap_or_default(),
            ordinals: Cell::new(books.first_ordinal()),
        }
    }

    /// The stub that answers. Its scenario has moved on then: of two requests at the
    /// same time that need the same state, one gets it.
    pub(super) fn find(&self, asked: &RequestView<'_>) -> Option<&Stub> {
        let scenarios = &self.shared.region().scenarios;
        let mut found = None;
        for _ in 0..TRIES {
            let seen = ScenarioStates::new(scenarios);
            found = self
                .stubs
                .find(asked, |scenario, state| seen.is_in(scenario, state));
            let step = found.and_then(|stub| stub.scenario.as_ref());
            if step.is_none_or(|step| has_moved_on(step, scenarios)) {
                break;
            }
        }
        found
    }

    /// The number of a request, different from that of any other in all processes for as long as
    /// they run.
    pub(super) fn ordinal(&self) -> u64 {
        let ordinal = self.ordinals.get();
        self.ordinals.set(ordinal.wrapping_add(1));
        ordinal
    }

    /// True if a scenario is in a state.
    pub(super) fn is_in(&self, scenario: &str, state: &str) -> bool {
        let scenarios = &self.shared.region().scenarios;
        scenarios.state(fnv_1a(scenario)) == state_hash(state)
    }

    /// Put a scenario into a state.
    pub(super) fn set_state(&self, scenario: &str, state: &str) {
        let scenarios = &self.shared.region().scenarios;
        scenarios.set(fnv_1a(scenario), state_hash(state));
    }

    /// Puts all scenarios in their first state.
    pub(super) fn reset_scenarios(&self) {
        self.shared.region().scenarios.reset();
    }
}

/// Moves a scenario to the state after a step; false if another request was faster.
fn has_moved_on(step: &ScenarioStep, scenarios: &Scenarios) -> bool {
    let Some(next) = step.next.as_deref().map(state_hash) else {
        return true;
    };
    let scenario = fnv_1a(&step.scenario);
    let Some(required) = &step.required else {
        scenarios.set(scenario, next);
        return true;
    };
    scenarios.advance(scenario, state_hash(required), next)
}

/// The states of scenarios as one search sees them: each is read once.
struct ScenarioStates<'s> {
    scenarios: &'s Scenarios,
    seen: RefCell<Vec<(u64, u64)>>,
}

impl<'s> ScenarioStates<'s> {
    fn new(scenarios: &'s Scenarios) -> Self {
        let seen = RefCell::default();
        Self { scenarios, seen }
    }

    fn is_in(&self, scenario: &str, state: &str) -> bool {
        let (scenario, mut seen) = (fnv_1a(scenario), self.seen.borrow_mut());
        if !seen.iter().any(|(known, _)| *known == scenario) {
            seen.push((scenario, self.scenarios.state(scenario)));
        }
        let current = seen.iter().find(|(known, _)| *known == scenario);
        current.is_some_and(|(_, current)| *current == state_hash(state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_search_sees_one_state_of_a_scenario() {
        let shared = Shared::new().unwrap();
        let scenarios = &shared.region().scenarios;
        let seen = ScenarioStates::new(scenarios);
        assert!(seen.is_in("one", "Started"));
        scenarios.set(fnv_1a("one"), state_hash("next"));
        assert!(seen.is_in("one", "Started") && !seen.is_in("one", "next"));
        assert!(ScenarioStates::new(scenarios).is_in("one", "next"));
    }
}
