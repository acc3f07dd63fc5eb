//! All stubs together: the lookup of the stub that answers a request, and changes of the set while
//! it is served.
//!
//! A set never changes: every change makes another one that shares the stubs. Processes that make
//! the same changes in the same order have the same sets, ids included.
//!
//! It must not know in which states scenarios are, nor how requests reach it.

use super::node::{Node, Problem};
use super::reply::Files;
use super::request::RequestView;
use super::request_pattern::{RequestPattern, RequestSubject, UrlPattern};
use super::stub::{ScenarioStep, Stub};
use foldhash::fast::FixedState;
use serde_json::Value;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use uuid::Uuid;

/// A set of stubs.
#[derive(Debug)]
pub(crate) struct Stubs {
    /// In the order of precedence: lower priority first, among equals the last added first
    /// (`stubbing/SortedConcurrentMappingSet.java`).
    entries: Vec<Entry>,
    index: Index,
    /// Stubs that were loaded, in the order in which they were added.
    loaded: Arc<[Arc<Stub>]>,
    /// Number of stubs ever added.
    added: u64,
}

#[derive(Clone, Debug)]
struct Entry {
    /// Number of stubs added before it.
    insertion: u64,
    stub: Arc<Stub>,
}

/// Reason why a set cannot change as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ChangeError {
    /// The stub is not right, or asks for what is not served.
    #[error(transparent)]
    Refused(#[from] Problem),
    /// Another stub has its id.
    #[error("ID of the provided stub mapping '{0}' is already taken by another stub mapping")]
    Taken(Uuid),
    /// No stub has that id.
    #[error("StubMapping with UUID: {0} not found")]
    Missing(Uuid),
}

impl Stubs {
    /// A set of loaded stubs, in the order in which they are added. Their ids must differ; `names`
    /// are those of their scenarios.
    pub(crate) fn new(loaded: Vec<Stub>) -> Self {
        let loaded: Arc<[Arc<Stub>]> = loaded.into_iter().map(Arc::new).collect();
        let none = Self {
            entries: Vec::new(),
            index: Index::default(),
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
        is_in: impl Fn(&str, &str) -> bool,
    ) -> Option<&Stub> {
        let look = RequestSubject::at(asked);
        self.index
            .candidates(look.url(), look.path())
            .filter_map(|rank| self.entries.get(rank).map(|entry| &*entry.stub))
            .find(|stub| {
                let step = stub.scenario.as_ref();
                let required = step.and_then(|step| Some((step, step.required.as_ref()?)));
                required.is_none_or(|(step, state)| is_in(&step.scenario, state))
                    && stub.request.is_match(&look)
            })
    }

    /// The stub of that id.
    pub(crate) fn get(&self, id: Uuid) -> Option<&Stub> {
        self.iter().find(|stub| stub.id == id)
    }

    /// All stubs in the order of precedence.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Stub> {
        self.entries.iter().map(|entry| &*entry.stub)
    }

    /// Number of there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The names of all scenarios, in order.
    pub(crate) fn scenarios(&self) -> BTreeSet<&str> {
        self.steps().map(|step| &*step.scenario).collect()
    }

    /// The states that are named in a scenario, in order.
    pub(crate) fn possible_states(&self, scenario: &str) -> BTreeSet<&str> {
        self.steps()
            .filter(|step| step.scenario == scenario)
            .flat_map(|step| step.required.iter().chain(&step.next))
            .map(String::as_str)
            .collect()
    }

    fn steps(&self) -> impl Iterator<Item = &ScenarioStep> {
        self.iter().filter_map(|stub| stub.scenario.as_ref())
    }

    /// The stub that was added last, of those that are still there.
    pub(crate) fn last_added(&self) -> Option<&Stub> {
        self.entries
            .iter()
            .max_by_key(|entry| entry.insertion)
            .map(|entry| &*entry.stub)
    }

    /// The set with one stub more, given as `POST /__admin/mappings` gives it. Without an id it
    /// gets one that depends only on how many were added before.
    pub(crate) fn with_added(&self, stub: &Value, files: &Files) -> Result<Self, ChangeError> {
        // Of a stub without an id, so that it is the same in every process.
        let default_id = derived_id(&format!("added #{}", self.added));
        let stub = Stub::read(&Node::root(stub), default_id, files)?;
        if self.get(stub.id).is_some() {
            return Err(ChangeError::Taken(stub.id));
        }
        let mut entries = self.entries.clone();
        entries.push(Entry {
            insertion: self.added,
            stub: Arc::new(stub),
        });
        Ok(self.changed(entries, self.added + 1))
    }

    /// The set with another stub in the place of the one with that id, as
    /// `PUT /__admin/mappings/{id}` gives it. It keeps the id, whatever it says itself, and its
    /// turn among those of one priority.
    pub(crate) fn with_replaced(
        &self,
        id: Uuid,
        stub: &Value,
        files: &Files,
    ) -> Result<Self, ChangeError> {
        let mut entries = self.entries.clone();
        let entry = entries.iter_mut().find(|entry| entry.stub.id == id);
        let entry = entry.ok_or(ChangeError::Missing(id))?;
        let mut stub = stub.clone();
        if let Value::Object(fields) = &mut stub {
            fields.retain(|key, _| key != "id" && key != "uuid");
        }
        entry.stub = Arc::new(Stub::read(&Node::root(&stub), id, files)?);
        Ok(self.changed(entries, self.added))
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
        Some(self.changed(entries, self.added))
    }

    /// No stubs. [`Self::reset`] still brings the loaded ones back.
    pub(crate) fn emptied(&self) -> Self {
        self.changed(Vec::new(), self.added)
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
        self.changed(entries, added)
    }

    fn changed(&self, mut entries: Vec<Entry>, added: u64) -> Self {
        entries.sort_by_key(|entry| (entry.stub.priority, Reverse(entry.insertion)));
        let index = Index::new(entries.iter().map(|entry| &entry.stub.request));
        Self {
            entries,
            index,
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

/// Finds the stubs whose URL may be the one asked for: by hash where a stub names one URL or one
/// path. All lists hold ranks in the order of precedence.
///
/// The maps hash with a fixed seed: their keys come from operators, and requests for a URL add
/// none.
#[derive(Clone, Debug, Default)]
struct Index {
    by_url: Ranks,
    by_path: Ranks,
    others: Vec<usize>,
}

/// By the whole of a text.
type Ranks = HashMap<Box<str>, Vec<usize>, FixedState>;

impl Index {
    /// Makes an index of patterns in the order of precedence.
    fn new<'p>(patterns: impl Iterator<Item = &'p RequestPattern>) -> Self {
        let mut index = Self::default();
        for (rank, pattern) in patterns.enumerate() {
            let ranks = match pattern.url() {
                UrlPattern::Url(url) => index.by_url.entry(url.as_str().into()).or_default(),
                UrlPattern::Path(path) => index.by_path.entry(path.as_str().into()).or_default(),
                _ => &mut index.others,
            };
            ranks.push(rank);
        }
        index
    }

    /// The ranks of all stubs whose URL may be this one, in order; `path` is its part before the
    /// query. Allocates nothing.
    fn candidates<'i>(&'i self, url: &str, path: &str) -> Candidates<'i> {
        Candidates([
            self.by_url.get(url).map_or(&[], Vec::as_slice),
            self.by_path.get(path).map_or(&[], Vec::as_slice),
            &self.others,
        ])
    }
}

/// Ranks in order, merged from three lists.
struct Candidates<'i>([&'i [usize]; 3]);

impl Iterator for Candidates<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let filled = self.0.iter_mut().filter(|list| !list.is_empty());
        let list = filled.min_by_key(|list| list[0])?;
        let (next, rest) = list.split_first()?;
        *list = rest;
        Some(*next)
    }
}

#[cfg(test)]
mod tests;
