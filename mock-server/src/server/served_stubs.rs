//! The current stubs of one process: those that were loaded, and the changes that any process has
//! accepted since; and the states of their scenarios, which all processes share. All changes go
//! through one log in shared memory, which every process reads before it responds, so all of them
//! have the same stubs in the same order.
//!
//! It must not respond to anything: it returns the stub that does.

use crate::config::{Config, WriteFile};
use crate::draw::fnv_1a;
use crate::ledger::LedgerWriter;
use crate::shared::{Cursor, Earlier, Scenarios, Shared};
use crate::stubs::{
    Bodies, ChangeError, Files, MAX_STUBS, Mappings, RequestView, ScenarioStep, Stub, StubChange,
    Stubs, state_hash, with_digits,
};
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Most times that a request looks for its stub again because another moved a scenario in between.
/// Who loses that often takes what it finds.
const TRIES: usize = 64;

/// The stubs of one process.
pub(super) struct ServedStubs {
    shared: Shared,
    files: Files,
    /// Directory of the stubs, and how a file in it is made.
    saver: Option<(PathBuf, WriteFile)>,
    /// The stubs that were loaded.
    initial: Arc<Stubs>,
    current: RefCell<Arc<Stubs>>,
    followed: Cell<Cursor>,
    /// The number of the next request.
    ordinals: Cell<u64>,
}

impl ServedStubs {
    pub(super) fn new(config: &Config, ledger: &LedgerWriter) -> Self {
        let mappings = config.stubs.as_ref();
        let root = mappings.and_then(Mappings::root);
        let initial = mappings.map(Mappings::stubs).cloned().unwrap_or_default();
        Self {
            shared: ledger.shared().clone(),
            saver: root.map(Path::to_owned).zip(config.write_stub),
            files: mappings.map_or(Files::None, |mappings| mappings.files().clone()),
            current: RefCell::new(Arc::clone(&initial)),
            initial,
            followed: Cell::default(),
            ordinals: Cell::new(ledger.first_ordinal()),
        }
    }

    /// The stubs, with every change that was acknowledged before this call.
    pub(super) fn current(&self) -> Arc<Stubs> {
        self.keep_up();
        Arc::clone(&self.current.borrow())
    }

    /// True if there are no stubs now.
    pub(super) fn is_empty(&self) -> bool {
        self.keep_up();
        self.current.borrow().len() == 0
    }

    /// Each request begins with this: a look at one word, unless there is a change.
    fn keep_up(&self) {
        if !self.shared.region().stub_log.is_at_end(self.followed.get()) {
            self.follow();
        }
    }

    /// Makes the changes that other processes have accepted.
    #[cold]
    fn follow(&self) {
        let mut cursor = self.followed.get();
        let (starts_over, records) = self.shared.region().stub_log.read_behind(&mut cursor);
        self.followed.set(cursor);
        if starts_over {
            self.current.replace(Arc::clone(&self.initial));
        }
        for record in records {
            let before = Arc::clone(&self.current.borrow());
            // It was tried before it was logged, with the same stubs.
            if let Ok(after) = Record::read(&record).and_then(|record| record.applied(&before)) {
                self.current.replace(Arc::new(after));
            }
        }
    }

    /// Makes the change that `plan` has for the current stubs, here and, before they answer their
    /// next request, in all other processes. Returns the stubs as they are with it and with nothing
    /// after it.
    pub(super) fn change(
        &self,
        plan: impl Fn(&Stubs) -> Result<StubChange, ChangeError>,
    ) -> Result<Arc<Stubs>, ChangeError> {
        // Again if another process was faster: what is in the log has to be right for the stubs
        // that all before it has left.
        loop {
            let before = self.current();
            let change = plan(&before)?;
            let may_forget = matches!(change, StubChange::Reset(_))
                && Arc::ptr_eq(&before.loaded, &self.initial.loaded);
            let earlier = if may_forget {
                Earlier::Forgotten
            } else {
                Earlier::Kept
            };
            let bodies = self.files.bodies(change.stubs().iter());
            let record =
                serde_json::to_vec(&Record { change, bodies }).map_err(|_| ChangeError::TooDeep)?;
            // As all others will read it.
            let after = Arc::new(Record::read(&record)?.applied(&before)?);
            let mut cursor = self.followed.get();
            let log = &self.shared.region().stub_log;
            let is_next = log.append_at(&mut cursor, &record, earlier);
            if is_next.map_err(|_| ChangeError::Full)? {
                self.followed.set(cursor);
                self.current.replace(Arc::clone(&after));
                self.forget_unused_scenarios(&before, &after);
                return Ok(after);
            }
        }
    }

    /// Writes the stubs that are not as files have them, each into a file of its own below the
    /// directory of the stubs, and keeps them over resets. No file is removed.
    pub(super) fn save(&self) -> Result<Arc<Stubs>, ChangeError> {
        self.change(|stubs| {
            let Some((root, write)) = &self.saver else {
                let why = "the target has no directory of stubs: start it with one".to_owned();
                return Err(ChangeError::Unwritable {
                    file: "mappings".to_owned(),
                    why,
                });
            };
            // First whether each has one: all are written, or none.
            let named: Vec<(String, &Stub)> = stubs
                .unsaved()
                .map(|stub| {
                    let why = "it was loaded from a file of several stubs, which are read-only";
                    let file = stub
                        .file
                        .as_deref()
                        .ok_or_else(|| ChangeError::Unwritable {
                            file: stub.id.to_string(),
                            why: why.to_owned(),
                        })?;
                    Ok((format!("mappings/{file}"), stub))
                })
                .collect::<Result<_, ChangeError>>()?;
            if stubs.loaded.len() + named.len() > MAX_STUBS {
                return Err(ChangeError::Full);
            }
            for (file, stub) in named {
                let text = with_digits(&format!("{:#}\n", stub.json));
                let written = write(root, &file, text.as_bytes());
                written.map_err(|error| ChangeError::Unwritable {
                    file,
                    why: error.to_string(),
                })?;
            }
            Ok(StubChange::Keep)
        })
    }

    /// A scenario that no stub uses any more starts over.
    fn forget_unused_scenarios(&self, before: &Stubs, after: &Stubs) {
        let scenarios = &self.shared.region().scenarios;
        for unused in before.scenarios().difference(&after.scenarios()) {
            scenarios.set(fnv_1a(unused), 0);
        }
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

/// Record of the log: a change, and the bodies in files that its stubs name. They are read once: a
/// file may change before the next process reads the log.
#[derive(Serialize, Deserialize)]
struct Record {
    change: StubChange,
    bodies: Bodies,
}

impl Record {
    fn read(record: &[u8]) -> Result<Self, ChangeError> {
        serde_json::from_slice(record).map_err(|_| ChangeError::TooDeep)
    }

    fn applied(self, stubs: &Stubs) -> Result<Stubs, ChangeError> {
        stubs.with(&self.change, &Files::Read(self.bodies))
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
