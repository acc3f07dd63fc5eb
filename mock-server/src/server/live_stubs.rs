//! The current stubs of one process: those that were loaded, and the changes that any process has
//! accepted since. All changes go through one log in shared memory, which every process reads
//! before it responds, so all of them have the same stubs in the same order.
//!
//! It must not respond to anything: it returns the stub that does.

use crate::config::Config;
use crate::draw::fnv_1a;
use crate::ledger::LedgerWriter;
use crate::shared::{Cursor, Scenarios, Shared};
use crate::stubs::{
    ChangeError, Delays, Files, Node, Problem, RequestView, ScenarioStep, Stub, Stubs, state_hash,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use uuid::Uuid;

/// Most times that a request looks for its stub again because another moved a scenario in between.
/// Who loses that often takes what it finds.
const TRIES: usize = 64;

/// The stubs of one process.
pub(super) struct LiveStubs {
    shared: Shared,
    files: Files,
    current: RefCell<Current>,
    followed: Cell<Cursor>,
    /// The number of the next request.
    ordinals: Cell<u64>,
}

/// Change to the stubs by an admin request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum StubChange {
    /// One more.
    Add(Value),
    /// Another in the place of one.
    Replace(Uuid, Value),
    /// One less.
    Remove(Uuid),
    /// None at all.
    Clear,
    /// Those that were loaded, and no others.
    Reset,
    /// Other delays for all.
    Settings(Value),
}

/// Settings that hold for all stubs.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) delays: Delays,
    /// As they were posted.
    pub(super) json: Value,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            delays: Delays::default(),
            json: json!({}),
        }
    }
}

/// Reason why a change was refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    /// The stubs cannot change that way.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The settings are not right.
    #[error(transparent)]
    Settings(#[from] Problem),
    /// There is no room for more changes.
    #[error(
        "there is no more room for changes to the stubs (128 MiB of them since the target started): restart it"
    )]
    Full,
}

impl LiveStubs {
    pub(super) fn new(config: &Config, books: &LedgerWriter) -> Self {
        let (stubs, files) = match &config.stubs {
            Some(mappings) => (mappings.stubs().reset(), mappings.files().clone()),
            None => (Stubs::new(Vec::new()), Files::None),
        };
        Self {
            shared: books.shared().clone(),
            files,
            current: RefCell::new(Current {
                stubs: Rc::new(stubs),
                settings: Rc::default(),
            }),
            followed: Cell::default(),
            ordinals: Cell::new(books.first_ordinal()),
        }
    }

    /// The stubs, with every change that was acknowledged before this call.
    pub(super) fn current(&self) -> Rc<Stubs> {
        let log = &self.shared.region().stub_log;
        let mut cursor = self.followed.get();
        while !log.is_at_end(cursor)
            && let Some(record) = log.next(&mut cursor)
        {
            self.followed.set(cursor);
            // It was tried before it was logged, with the same stubs.
            if let Ok(change) = serde_json::from_slice(&record)
                && let Ok(after) = self.applied(&change)
            {
                self.current.replace(after);
            }
        }
        Rc::clone(&self.current.borrow().stubs)
    }

    /// The delays of stubs that have none of their own, with every change that was acknowledged
    /// before this call.
    pub(super) fn settings(&self) -> Rc<Settings> {
        self.current();
        Rc::clone(&self.current.borrow().settings)
    }

    /// The stub that answers, of `stubs`. Its scenario has moved on then: of two requests at the
    /// same time that need the same state, one gets it.
    pub(super) fn find<'s>(&self, stubs: &'s Stubs, asked: &RequestView<'_>) -> Option<&'s Stub> {
        let scenarios = &self.shared.region().scenarios;
        let mut found = None;
        for _ in 0..TRIES {
            let seen = ScenarioStates::new(scenarios);
            found = stubs.find(asked, |scenario, state| seen.is_in(scenario, state));
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

    /// Makes a change, here and, before they answer their next request, in all other processes.
    /// Returns the stubs as they are with it and with nothing after it.
    pub(super) fn change(&self, change: &StubChange) -> Result<Rc<Stubs>, Refusal> {
        let record = serde_json::to_vec(change).map_err(|_| Refusal::Full)?;
        let log = &self.shared.region().stub_log;
        // Again if another process was faster: what is in the log has to be right for the stubs
        // that all before it has left.
        loop {
            let before = self.current();
            let after = self.applied(change)?;
            let mut cursor = self.followed.get();
            if log
                .append_at(&mut cursor, &record)
                .map_err(|_| Refusal::Full)?
            {
                self.followed.set(cursor);
                let stubs = Rc::clone(&after.stubs);
                self.current.replace(after);
                self.forget_unused_scenarios(&before, &stubs);
                return Ok(stubs);
            }
        }
    }

    fn applied(&self, change: &StubChange) -> Result<Current, Refusal> {
        let Current { stubs, settings } = self.current.borrow().clone();
        let stubs = match change {
            StubChange::Add(stub) => stubs.with_added(stub, &self.files)?,
            StubChange::Replace(id, stub) => stubs.with_replaced(*id, stub, &self.files)?,
            StubChange::Remove(id) => stubs.without(*id).ok_or(ChangeError::Missing(*id))?,
            StubChange::Clear => stubs.emptied(),
            StubChange::Reset => stubs.reset(),
            StubChange::Settings(json) => {
                let delays = Delays::read(&Node::root(json))?;
                let json = json.clone();
                let settings = Rc::new(Settings { delays, json });
                return Ok(Current { stubs, settings });
            }
        };
        let stubs = Rc::new(stubs);
        Ok(Current { stubs, settings })
    }

    /// A scenario that no stub uses any more starts over.
    fn forget_unused_scenarios(&self, before: &Stubs, after: &Stubs) {
        let scenarios = &self.shared.region().scenarios;
        for unused in before.scenarios().difference(&after.scenarios()) {
            scenarios.set(fnv_1a(unused), 0);
        }
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

/// Stubs and settings after some change.
#[derive(Clone)]
struct Current {
    stubs: Rc<Stubs>,
    settings: Rc<Settings>,
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
