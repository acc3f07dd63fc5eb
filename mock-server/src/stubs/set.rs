//! All stubs together: the lookup of the stub that answers a request, and changes of the set while
//! it is served.
//!
//! A set never changes: every change makes another one that shares the stubs. Processes that make
//! the same changes in the same order have the same sets, ids included.
//!
//! It must not know in which states scenarios are, nor how requests reach it.

use super::node::{Node, Problem};
use super::reply::{Delays, Files};
use super::request::RequestView;
use super::request_pattern::{RequestPattern, RequestSubject, UrlPattern};
use super::stub::{ScenarioStep, Stub};
use super::value_pattern::{Subject, ValuePattern};
use foldhash::fast::FixedState;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, OnceLock};
use uuid::Uuid;

/// Most stubs of a set that admin requests add to. Each request may have to look at all of those
/// that have no URL.
pub(crate) const MAX_STUBS: usize = 100_000;

/// A set of stubs.
#[derive(Debug)]
pub(crate) struct Stubs {
    /// In the order of precedence: lower priority first, among equals the last added first
    /// (`stubbing/SortedConcurrentMappingSet.java`).
    entries: Vec<Entry>,
    /// Made by the first look-up: of a hundred stubs that are added in a row the last set has one.
    index: OnceLock<Index>,
    /// Stubs that a reset brings back, in the order in which they are added.
    pub(crate) loaded: Arc<[Arc<Stub>]>,
    /// Number of stubs ever added.
    added: u64,
    /// Settings of all stubs.
    pub(crate) settings: Arc<Settings>,
}

#[derive(Clone, Debug)]
struct Entry {
    /// Number of stubs added before it.
    insertion: u64,
    stub: Arc<Stub>,
}

impl Entry {
    /// Put another stub in its place, and in its file.
    fn replace(&mut self, stub: Stub) {
        let file = self.stub.file.clone();
        self.stub = Arc::new(Stub { file, ..stub });
    }
}

/// Settings of all stubs.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Delays of stubs that have none of their own.
    pub(crate) delays: Delays,
    /// The settings as they were posted.
    pub(crate) json: Value,
}

impl Settings {
    fn read(json: &Value) -> Result<Self, Problem> {
        let delays = Delays::of_settings(&Node::root(json))?;
        let json = json.clone();
        Ok(Self { delays, json })
    }
}

/// Change of a set.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum StubChange {
    /// Add stubs as an import does: the first one takes precedence.
    Add {
        stubs: Vec<Value>,
        on_taken: OnTaken,
        others: Others,
    },
    /// Remove the stubs of these ids.
    Remove(Vec<Uuid>),
    /// Bring back the stubs that were loaded, and no others, with these settings.
    Reset(Value),
    /// Set the delays of stubs that have none of their own.
    Settings(Value),
    /// Bring back the current stubs at each reset, for they are in files.
    Keep,
}

impl StubChange {
    /// The stubs that it brings.
    pub(crate) fn stubs(&self) -> &[Value] {
        match self {
            Self::Add { stubs, .. } => stubs,
            _ => &[],
        }
    }
}

/// Fate of an added stub whose id another one has.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum OnTaken {
    /// The whole change is refused.
    Refuse,
    /// It takes the place of the other.
    Overwrite,
    /// As `Overwrite`, and the whole change is refused where there is no other.
    Replace,
    /// The other stays.
    Ignore,
}

/// Fate of the stubs that an import does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Others {
    /// They stay.
    Keep,
    /// They are removed.
    Remove,
}

/// Reason why a set cannot change as asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChangeError {
    /// The stub or the settings are not right, or ask for what is not served.
    #[error(transparent)]
    Refused(#[from] Problem),
    /// Another stub has its id.
    #[error("ID of the provided stub mapping '{0}' is already taken by another stub mapping")]
    Taken(Uuid),
    /// No stub has that id.
    #[error("StubMapping with UUID: {0} not found")]
    Missing(Uuid),
    /// Deeper than other processes read it.
    #[error("the JSON is nested deeper than 100 levels")]
    TooDeep,
    /// Its file cannot be written.
    #[error("{file}: {why}")]
    Unwritable { file: String, why: String },
    /// There is no room for it.
    #[error(
        "no room: there may be {MAX_STUBS} stubs, and 128 MiB of changes until a reset (POST /__admin/mappings/reset)"
    )]
    Full,
}

impl Default for Stubs {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl Stubs {
    /// A set of loaded stubs, in the order in which they are added. Their ids must differ.
    pub(crate) fn new(loaded: Vec<Stub>) -> Self {
        let none = Self {
            entries: Vec::new(),
            index: OnceLock::new(),
            loaded: loaded.into_iter().map(Arc::new).collect(),
            added: 0,
            settings: Arc::new(Settings {
                delays: Delays::default(),
                json: json!({}),
            }),
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
            .get_or_init(|| Index::new(self.iter().map(|stub| &stub.request)))
            .candidates(look.url(), look.path())
            .filter_map(|rank| self.entries.get(rank).map(|entry| &*entry.stub))
            .find(|stub| {
                let step = stub.scenario.as_ref();
                step.and_then(|step| Some((step, step.required.as_ref()?)))
                    .is_none_or(|(step, state)| is_in(&step.scenario, state))
                    && stub.request.is_match(&look)
            })
    }

    /// The stubs whose metadata, as JSON, a pattern fits.
    pub(crate) fn with_metadata(&self, pattern: &ValuePattern) -> impl Iterator<Item = &Stub> {
        self.iter().filter(|stub| {
            let metadata = stub.json.get("metadata").unwrap_or(&Value::Null);
            pattern.is_match(&Subject::new(metadata.to_string()))
        })
    }

    /// The stub of that id.
    pub(crate) fn get(&self, id: Uuid) -> Option<&Stub> {
        self.iter().find(|stub| stub.id == id)
    }

    /// The stubs that a request comes nearest to, and how far it is from each.
    pub(crate) fn nearest(&self, asked: &RequestView<'_>) -> Vec<(f64, &Stub)> {
        let look = RequestSubject::at(asked);
        let distances = self.iter().map(|stub| (stub.request.distance(&look), stub));
        nearest(distances)
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

    /// The set after a change. The bodies that stubs name are in `files`.
    pub(crate) fn with(&self, change: &StubChange, files: &Files) -> Result<Self, ChangeError> {
        match change {
            StubChange::Add {
                stubs,
                on_taken,
                others,
            } => self.with_added(stubs, *on_taken, *others, files),
            StubChange::Remove(ids) => {
                let mut entries = self.entries.clone();
                entries.retain(|entry| !ids.contains(&entry.stub.id));
                match ids.first() {
                    Some(id) if entries.len() == self.len() => Err(ChangeError::Missing(*id)),
                    _ => Ok(self.changed(entries, self.added)),
                }
            }
            StubChange::Reset(settings) => self.reset().with_settings(settings),
            StubChange::Settings(settings) => {
                let same = self.changed(self.entries.clone(), self.added);
                same.with_settings(settings)
            }
            StubChange::Keep => {
                let same = self.changed(self.entries.clone(), self.added);
                Ok(same.kept())
            }
        }
    }

    fn with_added(
        &self,
        stubs: &[Value],
        on_taken: OnTaken,
        others: Others,
        files: &Files,
    ) -> Result<Self, ChangeError> {
        let (mut entries, mut added) = (self.entries.clone(), self.added);
        let mut places: HashMap<Uuid, usize> =
            entries.iter().map(|entry| entry.stub.id).zip(0..).collect();
        let mut named = BTreeSet::new();
        for (index, stub) in stubs.iter().enumerate().rev() {
            let pointer = match stubs {
                [_] => String::new(),
                _ => format!("/mappings/{index}"),
            };
            let stub = Stub::read(&Node::at(stub, pointer), Uuid::nil(), files)?;
            named.insert(stub.id);
            match (places.get(&stub.id), on_taken) {
                (None, OnTaken::Replace) => return Err(ChangeError::Missing(stub.id)),
                (None, _) => {
                    places.insert(stub.id, entries.len());
                    entries.push(Entry {
                        insertion: added,
                        stub: Arc::new(stub),
                    });
                    added += 1;
                }
                (Some(place), OnTaken::Overwrite | OnTaken::Replace) => {
                    entries[*place].replace(stub);
                }
                (Some(_), OnTaken::Ignore) => {}
                (Some(_), OnTaken::Refuse) => return Err(ChangeError::Taken(stub.id)),
            }
        }
        entries.retain(|entry| others == Others::Keep || named.contains(&entry.stub.id));
        if entries.len() > MAX_STUBS {
            return Err(ChangeError::Full);
        }
        Ok(self.changed(entries, added))
    }

    /// The set whose stubs are brought back by a reset. So are those that were loaded and removed,
    /// for their files are still there.
    fn kept(self) -> Self {
        let mut loaded: Vec<_> = self
            .loaded
            .iter()
            .filter(|stub| self.get(stub.id).is_none())
            .cloned()
            .collect();
        let mut added: Vec<&Entry> = self.entries.iter().collect();
        added.sort_by_key(|entry| entry.insertion);
        loaded.extend(added.into_iter().map(|entry| Arc::clone(&entry.stub)));
        Self {
            loaded: loaded.into(),
            ..self
        }
    }

    /// The stubs that are not as files have them.
    pub(crate) fn unsaved(&self) -> impl Iterator<Item = &Stub> {
        let saved: HashSet<*const Stub> = self.loaded.iter().map(Arc::as_ptr).collect();
        self.iter()
            .filter(move |stub| !saved.contains(&std::ptr::from_ref(*stub)))
    }

    fn with_settings(self, json: &Value) -> Result<Self, ChangeError> {
        let settings = Arc::new(Settings::read(json)?);
        Ok(Self { settings, ..self })
    }

    /// The loaded stubs and no others, added again in their order.
    fn reset(&self) -> Self {
        let entries = (self.added..)
            .zip(self.loaded.iter().cloned())
            .map(|(insertion, stub)| Entry { insertion, stub });
        self.changed(entries.collect(), self.added + self.loaded.len() as u64)
    }

    fn changed(&self, mut entries: Vec<Entry>, added: u64) -> Self {
        entries.sort_by_key(|entry| (entry.stub.priority, Reverse(entry.insertion)));
        Self {
            entries,
            index: OnceLock::new(),
            loaded: Arc::clone(&self.loaded),
            added,
            settings: Arc::clone(&self.settings),
        }
    }
}

/// Near misses that are told of a request or of a pattern, as WireMock does.
const NEAREST: usize = 3;

/// The nearest of some, those before others first where they are equally near.
pub(crate) fn nearest<T>(distances: impl Iterator<Item = (f64, T)>) -> Vec<(f64, T)> {
    let mut nearest: Vec<_> = Vec::new();
    for (distance, one) in distances {
        let place = nearest.partition_point(|(other, _)| *other <= distance);
        nearest.insert(place, (distance, one));
        nearest.truncate(NEAREST);
    }
    nearest
}

impl RequestPattern {
    /// True if one request is meant; for callers with a pattern and no set.
    pub(crate) fn matches(&self, asked: &RequestView<'_>) -> bool {
        self.is_match(&RequestSubject::at(asked))
    }

    /// Return how far one request is from those that are meant.
    pub(crate) fn distance_from(&self, asked: &RequestView<'_>) -> f64 {
        self.distance(&RequestSubject::at(asked))
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
        let list = self
            .0
            .iter_mut()
            .filter(|list| !list.is_empty())
            .min_by_key(|list| list[0])?;
        let (next, rest) = list.split_first()?;
        *list = rest;
        Some(*next)
    }
}

#[cfg(test)]
mod tests;
