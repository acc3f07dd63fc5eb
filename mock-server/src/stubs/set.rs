//! All stubs together: the lookup of the stub that answers a request.
//!
//! It must not know in which states scenarios are, nor how requests reach it.

use super::request::RequestView;
use super::request_pattern::{RequestPattern, RequestSubject, UrlPattern};
use super::stub::{ScenarioStep, Stub};
use foldhash::fast::FixedState;
use std::collections::{BTreeSet, HashMap};
use uuid::Uuid;

/// A set of stubs.
#[derive(Debug, Default)]
pub(crate) struct Stubs {
    /// In the order of precedence: lower priority first, among equals the last added first
    /// (`stubbing/SortedConcurrentMappingSet.java`).
    entries: Vec<Stub>,
    index: Index,
}

impl Stubs {
    /// A set of loaded stubs, in the order in which they are added. Their ids must differ.
    pub(crate) fn new(mut entries: Vec<Stub>) -> Self {
        entries.reverse();
        entries.sort_by_key(|stub| stub.priority);
        let index = Index::new(entries.iter().map(|stub| &stub.request));
        Self { entries, index }
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
            .filter_map(|rank| self.entries.get(rank))
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
        self.entries.iter()
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
