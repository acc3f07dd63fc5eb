//! All stubs together: the lookup of the stub that answers a request, and changes of the set while
//! it is served.
//!
//! A set never changes: every change makes another one that shares the stubs. Processes that make
//! the same changes in the same order have the same sets, ids and numbers of scenarios included.
//!
//! It must not know in which states scenarios are, nor how requests reach it.

use super::index::Index;
use super::node::{Node, Problem};
use super::request::RequestView;
use super::request_pattern::{RequestPattern, RequestSubject};
use super::scenario::{ScenarioIndex, ScenarioNames, ScenarioStep, StateIndex};
use super::stub::{Stub, StubPlace};
use serde_json::Value;
use std::cmp::Reverse;
use std::sync::Arc;
use uuid::Uuid;

/// A set of stubs whose answers are `R`s.
#[derive(Debug)]
pub(crate) struct Stubs<R> {
    /// In the order of precedence: lower priority first, among equals the last added first
    /// (`stubbing/SortedConcurrentMappingSet.java`).
    entries: Vec<Entry<R>>,
    index: Index,
    names: ScenarioNames,
    /// Stubs that were loaded, in the order in which they were added.
    loaded: Arc<[Arc<Stub<R>>]>,
    /// Number of stubs ever added.
    added: u64,
}

#[derive(Debug)]
struct Entry<R> {
    /// Number of stubs added before it.
    insertion: u64,
    stub: Arc<Stub<R>>,
}

impl<R> Clone for Entry<R> {
    fn clone(&self) -> Self {
        Self {
            insertion: self.insertion,
            stub: Arc::clone(&self.stub),
        }
    }
}

/// Reason why a set cannot change as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ChangeError {
    /// The stub is not right, or asks for what is not served.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Refused(Vec<Problem>),
    /// Another stub has its id.
    #[error("ID of the provided stub mapping '{0}' is already taken by another stub mapping")]
    Taken(Uuid),
    /// No stub has that id.
    #[error("StubMapping with UUID: {0} not found")]
    Missing(Uuid),
}

impl<R> Stubs<R> {
    /// A set of loaded stubs, in the order in which they are added. Their ids must differ; `names`
    /// are those of their scenarios.
    pub(crate) fn new(loaded: Vec<Stub<R>>, names: ScenarioNames) -> Self {
        let loaded: Arc<[Arc<Stub<R>>]> = loaded.into_iter().map(Arc::new).collect();
        let none = Self {
            entries: Vec::new(),
            index: Index::default(),
            names,
            loaded,
            added: 0,
        };
        none.reset()
    }

    /// The stub that answers: of all that fit, the first in the order of precedence.
    ///
    /// `is_in` tells whether a scenario is in a state just now. For a stub that names its URL or
    /// path, and that no other stub outranks, this is two look-ups and allocates nothing.
    pub(crate) fn find(
        &self,
        asked: &RequestView<'_>,
        is_in: impl Fn(ScenarioIndex, StateIndex) -> bool,
    ) -> Option<&Stub<R>> {
        let look = RequestSubject::at(asked);
        let may_answer = |step: ScenarioStep| {
            step.required
                .is_none_or(|state| is_in(step.scenario, state))
        };
        self.index
            .candidates(look.url(), look.path())
            .filter_map(|rank| self.entries.get(rank).map(|entry| &*entry.stub))
            .find(|stub| stub.scenario.is_none_or(may_answer) && stub.request.is_match(&look))
    }

    /// The stub of that id.
    pub(crate) fn get(&self, id: Uuid) -> Option<&Stub<R>> {
        self.iter().find(|stub| stub.id == id)
    }

    /// All stubs in the order of precedence.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Stub<R>> {
        self.entries.iter().map(|entry| &*entry.stub)
    }

    /// Number of there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The names behind the numbers of scenarios and states, also of those that no stub uses any
    /// more.
    pub(crate) fn names(&self) -> &ScenarioNames {
        &self.names
    }

    /// The scenarios that stubs use, in the order of their numbers. WireMock forgets the state of
    /// one that no stub uses any more (`stubbing/AbstractScenarios.java`, `onStubMappingRemoved`);
    /// the keeper of the states must, too.
    pub(crate) fn scenarios(&self) -> Vec<ScenarioIndex> {
        let mut used: Vec<_> = self
            .iter()
            .filter_map(|stub| Some(stub.scenario?.scenario))
            .collect();
        used.sort_unstable();
        used.dedup();
        used
    }

    /// The states that stubs name for a scenario, required or new: what WireMock lists, and lets be
    /// set. "Started" is among them only if a stub names it.
    pub(crate) fn possible_states(&self, scenario: ScenarioIndex) -> Vec<StateIndex> {
        let steps = self
            .iter()
            .filter_map(|stub| stub.scenario)
            .filter(|step| step.scenario == scenario);
        let mut states: Vec<_> = steps
            .flat_map(|step| [step.required, step.next])
            .flatten()
            .collect();
        states.sort_unstable();
        states.dedup();
        states
    }

    /// The stub that was added last, of those that are still there.
    pub(crate) fn last_added(&self) -> Option<&Stub<R>> {
        self.entries
            .iter()
            .max_by_key(|entry| entry.insertion)
            .map(|entry| &*entry.stub)
    }

    fn id_of_next(&self) -> Uuid {
        derived_id(&format!("added #{}", self.added))
    }

    /// The set with one stub more, given as `POST /__admin/mappings` gives it. Without an id it
    /// gets one that depends only on how many were added before.
    pub(crate) fn with_added(
        &self,
        stub: &Value,
        read_reply: impl FnOnce(Option<&Node<'_>>) -> Result<R, Problem>,
    ) -> Result<Self, ChangeError> {
        let mut names = self.names.clone();
        let read = Stub::read(
            (&Node::root(stub), StubPlace::Element),
            self.id_of_next(),
            &mut names,
            read_reply,
        );
        let stub = read.map_err(ChangeError::Refused)?;
        if self.get(stub.id).is_some() {
            return Err(ChangeError::Taken(stub.id));
        }
        let entry = Entry {
            insertion: self.added,
            stub: Arc::new(stub),
        };
        let entries = self.entries.iter().cloned().chain([entry]).collect();
        Ok(self.changed(entries, names, self.added + 1))
    }

    /// The set with another stub in the place of the one with that id, as
    /// `PUT /__admin/mappings/{id}` gives it. It keeps the id, whatever it says itself, and its
    /// turn among those of one priority.
    pub(crate) fn with_replaced(
        &self,
        id: Uuid,
        stub: &Value,
        read_reply: impl FnOnce(Option<&Node<'_>>) -> Result<R, Problem>,
    ) -> Result<Self, ChangeError> {
        let position = self
            .entries
            .iter()
            .position(|entry| entry.stub.id == id)
            .ok_or(ChangeError::Missing(id))?;
        let mut names = self.names.clone();
        let mut stub = stub.clone();
        if let Value::Object(fields) = &mut stub {
            fields.retain(|key, _| key != "id" && key != "uuid");
        }
        let read = Stub::read(
            (&Node::root(&stub), StubPlace::Element),
            id,
            &mut names,
            read_reply,
        );
        let mut entries = self.entries.clone();
        if let Some(entry) = entries.get_mut(position) {
            entry.stub = Arc::new(read.map_err(ChangeError::Refused)?);
        }
        Ok(self.changed(entries, names, self.added))
    }

    /// The set without the stub of that id; none when there is no such stub.
    pub(crate) fn without(&self, id: Uuid) -> Option<Self> {
        self.get(id)?;
        let entries = self
            .entries
            .iter()
            .filter(|entry| entry.stub.id != id)
            .cloned()
            .collect();
        Some(self.changed(entries, self.names.clone(), self.added))
    }

    /// No stubs. [`Self::reset`] still brings the loaded ones back.
    pub(crate) fn emptied(&self) -> Self {
        self.changed(Vec::new(), self.names.clone(), self.added)
    }

    /// The loaded stubs and no others, added again in their order.
    pub(crate) fn reset(&self) -> Self {
        let entries = (self.added..).zip(self.loaded.iter());
        let entries: Vec<_> = entries
            .map(|(insertion, stub)| Entry {
                insertion,
                stub: Arc::clone(stub),
            })
            .collect();
        let added = self.added + entries.len() as u64;
        self.changed(entries, self.names.clone(), added)
    }

    fn changed(&self, mut entries: Vec<Entry<R>>, names: ScenarioNames, added: u64) -> Self {
        entries.sort_by_key(|entry| (entry.stub.priority, Reverse(entry.insertion)));
        let index = Index::new(entries.iter().map(|entry| &entry.stub.request));
        Self {
            entries,
            index,
            names,
            loaded: Arc::clone(&self.loaded),
            added,
        }
    }
}

impl RequestPattern {
    /// True if one request is meant; for callers with a pattern and no set.
    pub(crate) fn matches(&self, asked: &RequestView<'_>) -> bool {
        self.is_match(&RequestSubject::at(asked))
    }
}

/// The id of a stub that was written without one: a UUID of version 5 of what tells the stub from
/// all others, so that it is the same in every process and every run.
pub(crate) fn derived_id(what: &str) -> Uuid {
    /// Chosen at random, once.
    const NAMESPACE: Uuid = Uuid::from_u128(0x5f1c_2a94_8d3e_4b67_a0c9_71e6_4d52_b83f);
    Uuid::new_v5(&NAMESPACE, what.as_bytes())
}

#[cfg(test)]
mod tests;
