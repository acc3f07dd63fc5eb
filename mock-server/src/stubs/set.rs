//! All stubs together: which of them answers a request, and how the set changes while it is served.
//!
//! A set never changes: every change makes another one that shares the stubs. Processes that make the same changes in
//! the same order have the same sets, ids and numbers of scenarios included.
//!
//! It must not know in which states scenarios are, nor how requests reach it.

use super::index::Index;
use super::node::{Node, Problem};
use super::request::RequestView;
use super::request_pattern::{Look, RequestPattern};
use super::scenario::{ScenarioIndex, ScenarioNames, ScenarioStep, StateIndex};
use super::stub::{Place, Stub};
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
        Self { insertion: self.insertion, stub: Arc::clone(&self.stub) }
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
    /// A set of loaded stubs, in the order in which they are added. Their ids must differ; `names` are those of their
    /// scenarios.
    pub(crate) fn new(loaded: Vec<Stub<R>>, names: ScenarioNames) -> Self {
        let loaded: Arc<[Arc<Stub<R>>]> = loaded.into_iter().map(Arc::new).collect();
        let none = Self { entries: Vec::new(), index: Index::default(), names, loaded, added: 0 };
        none.reset()
    }

    /// The stub that answers: of all that fit, the first in the order of precedence.
    ///
    /// `is_in` tells whether a scenario is in a state just now. For a stub that names its URL or path, and that no
    /// other stub outranks, this is two look-ups and allocates nothing.
    pub(crate) fn find(
        &self,
        asked: &RequestView<'_>,
        is_in: impl Fn(ScenarioIndex, StateIndex) -> bool,
    ) -> Option<&Stub<R>> {
        let look = Look::at(asked);
        let may_answer = |step: ScenarioStep| step.required.is_none_or(|state| is_in(step.scenario, state));
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

    /// The names behind the numbers of scenarios and states, also of those that no stub uses any more.
    pub(crate) fn names(&self) -> &ScenarioNames {
        &self.names
    }

    /// The scenarios that stubs use, in the order of their numbers. WireMock forgets the state of one that no stub uses
    /// any more (`stubbing/AbstractScenarios.java`, `onStubMappingRemoved`); whoever keeps the states must, too.
    pub(crate) fn scenarios(&self) -> Vec<ScenarioIndex> {
        let mut used: Vec<_> = self.iter().filter_map(|stub| Some(stub.scenario?.scenario)).collect();
        used.sort_unstable();
        used.dedup();
        used
    }

    /// The states that stubs name for a scenario, required or new: what WireMock lists, and lets be set. "Started" is
    /// among them only if a stub names it.
    pub(crate) fn possible_states(&self, scenario: ScenarioIndex) -> Vec<StateIndex> {
        let steps = self.iter().filter_map(|stub| stub.scenario).filter(|step| step.scenario == scenario);
        let mut states: Vec<_> = steps.flat_map(|step| [step.required, step.next]).flatten().collect();
        states.sort_unstable();
        states.dedup();
        states
    }

    /// The stub that was added last, of those that are still there.
    pub(crate) fn last_added(&self) -> Option<&Stub<R>> {
        self.entries.iter().max_by_key(|entry| entry.insertion).map(|entry| &*entry.stub)
    }

    fn id_of_next(&self) -> Uuid {
        derived_id(&format!("added #{}", self.added))
    }

    /// The set with one stub more, given as `POST /__admin/mappings` gives it. Without an id it gets one that depends
    /// only on how many were added before.
    pub(crate) fn with_added(
        &self,
        stub: &Value,
        read_reply: impl FnOnce(Option<&Node<'_>>) -> Result<R, Problem>,
    ) -> Result<Self, ChangeError> {
        let mut names = self.names.clone();
        let read = Stub::read((&Node::root(stub), Place::Element), self.id_of_next(), &mut names, read_reply);
        let stub = read.map_err(ChangeError::Refused)?;
        if self.get(stub.id).is_some() {
            return Err(ChangeError::Taken(stub.id));
        }
        let entry = Entry { insertion: self.added, stub: Arc::new(stub) };
        let entries = self.entries.iter().cloned().chain([entry]).collect();
        Ok(self.changed(entries, names, self.added + 1))
    }

    /// The set with another stub in the place of the one with that id, as `PUT /__admin/mappings/{id}` gives it. It
    /// keeps the id, whatever it says itself, and its turn among those of one priority.
    pub(crate) fn with_replaced(
        &self,
        id: Uuid,
        stub: &Value,
        read_reply: impl FnOnce(Option<&Node<'_>>) -> Result<R, Problem>,
    ) -> Result<Self, ChangeError> {
        let position = self.entries.iter().position(|entry| entry.stub.id == id).ok_or(ChangeError::Missing(id))?;
        let mut names = self.names.clone();
        let mut stub = stub.clone();
        if let Value::Object(fields) = &mut stub {
            fields.retain(|key, _| key != "id" && key != "uuid");
        }
        let read = Stub::read((&Node::root(&stub), Place::Element), id, &mut names, read_reply);
        let mut entries = self.entries.clone();
        if let Some(entry) = entries.get_mut(position) {
            entry.stub = Arc::new(read.map_err(ChangeError::Refused)?);
        }
        Ok(self.changed(entries, names, self.added))
    }

    /// The set without the stub of that id; none when there is no such stub.
    pub(crate) fn without(&self, id: Uuid) -> Option<Self> {
        self.get(id)?;
        let entries = self.entries.iter().filter(|entry| entry.stub.id != id).cloned().collect();
        Some(self.changed(entries, self.names.clone(), self.added))
    }

    /// No stubs. [`Self::reset`] still brings the loaded ones back.
    pub(crate) fn emptied(&self) -> Self {
        self.changed(Vec::new(), self.names.clone(), self.added)
    }

    /// The loaded stubs and no others, added anew in their order.
    pub(crate) fn reset(&self) -> Self {
        let entries = (self.added..).zip(self.loaded.iter());
        let entries: Vec<_> = entries.map(|(insertion, stub)| Entry { insertion, stub: Arc::clone(stub) }).collect();
        let added = self.added + entries.len() as u64;
        self.changed(entries, self.names.clone(), added)
    }

    fn changed(&self, mut entries: Vec<Entry<R>>, names: ScenarioNames, added: u64) -> Self {
        entries.sort_by_key(|entry| (entry.stub.priority, Reverse(entry.insertion)));
        let index = Index::new(entries.iter().map(|entry| &entry.stub.request));
        Self { entries, index, names, loaded: Arc::clone(&self.loaded), added }
    }
}

impl RequestPattern {
    /// True if one request is meant; for whoever has a pattern and no set.
    pub(crate) fn matches(&self, asked: &RequestView<'_>) -> bool {
        self.is_match(&Look::at(asked))
    }
}

/// The id of a stub that was written without one: a UUID of version 5 of what tells the stub from all others, so that
/// it is the same in every process and every run.
pub(crate) fn derived_id(what: &str) -> Uuid {
    /// Chosen at random, once.
    const NAMESPACE: Uuid = Uuid::from_u128(0x5f1c_2a94_8d3e_4b67_a0c9_71e6_4d52_b83f);
    Uuid::new_v5(&NAMESPACE, what.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stubs::load::{OnUnsupported, parse};
    use crate::stubs::request::testing::Request;
    use hyper::Method;
    use proptest::prelude::*;
    use serde_json::json;

    fn no_reply(response: Option<&Node<'_>>) -> Result<(), Problem> {
        response.map_or(Ok(()), |response| Err(response.unsupported("a response")))
    }

    fn set(stubs: &Value) -> Stubs<()> {
        let text = json!({"mappings": stubs}).to_string();
        parse(text.as_bytes(), OnUnsupported::Refuse, no_reply).unwrap().stubs
    }

    fn names(stubs: &Stubs<()>) -> Vec<&str> {
        stubs.iter().map(|stub| stub.json["name"].as_str().unwrap()).collect()
    }

    fn found<'s>(stubs: &'s Stubs<()>, target: &'static str) -> Option<&'s str> {
        let find = |asked: &RequestView<'_>| stubs.find(asked, |_, state| state == StateIndex::STARTED);
        Request::get(target).see(find).map(|stub| stub.json["name"].as_str().unwrap())
    }

    #[test]
    fn lower_priority_first_and_the_last_added_among_equals() {
        let stubs = set(&json!([
            {"name": "any", "priority": 9},
            {"name": "old", "request": {"url": "/a"}},
            {"name": "new", "request": {"urlPath": "/a"}},
            {"name": "urgent", "priority": 1, "request": {"urlPattern": "/b.*"}},
        ]));
        assert_eq!(names(&stubs), ["urgent", "new", "old", "any"]);
        let hits = ["/a", "/a?x", "/b", "/c"].map(|target| found(&stubs, target).unwrap());
        assert_eq!(hits, ["new", "new", "urgent", "any"]);
        assert_eq!(found(&stubs.emptied(), "/a"), None);
        let pattern = RequestPattern::read(&Node::root(&json!({"urlPath": "/a"}))).unwrap();
        assert!(Request::get("/a?b").see(|asked| pattern.matches(asked)));
    }

    #[test]
    fn changes_keep_turns_ids_and_numbers() {
        let loaded = set(&json!([
            {"name": "one", "request": {"url": "/a"}, "scenarioName": "s", "requiredScenarioState": "x"},
            {"name": "two", "request": {"url": "/a"}},
        ]));
        let more = loaded.with_added(&json!({"name": "three", "request": {"url": "/a"}}), no_reply).unwrap();
        assert_eq!((names(&more), loaded.len()), (vec!["three", "two", "one"], 2));
        let two = more.iter().find(|stub| stub.json["name"] == "two").unwrap().id;
        let other_id = Uuid::from_u128(1).to_string();
        let newer = json!({"name": "second", "id": other_id, "scenarioName": "t", "newScenarioState": "Started"});
        let replaced = more.with_replaced(two, &newer, no_reply).unwrap();
        assert_eq!(names(&replaced), ["three", "second", "one"], "it keeps its turn");
        assert_eq!(replaced.get(two).unwrap().json["id"], two.to_string(), "and its id");
        let step = replaced.get(two).unwrap().scenario.unwrap();
        assert_eq!((step.scenario.get(), step.next), (1, Some(StateIndex::STARTED)));
        assert_eq!(replaced.scenarios().len(), 2);

        let fewer = replaced.without(two).unwrap();
        assert_eq!((names(&fewer), fewer.scenarios().len()), (vec!["three", "one"], 1));
        assert!(fewer.without(two).is_none());
        assert_eq!(fewer.names().find_scenario("t"), Some(step.scenario), "names keep their numbers");
        assert_eq!(names(&fewer.reset()), ["two", "one"]);
        assert_eq!(names(&fewer.emptied().reset()), ["two", "one"]);

        let taken = json!({"id": two.to_string()});
        assert_eq!(more.with_added(&taken, no_reply).unwrap_err(), ChangeError::Taken(two));
        assert_eq!(fewer.with_replaced(two, &taken, no_reply).unwrap_err(), ChangeError::Missing(two));
        let refused = more.with_added(&json!({"requst": {}}), no_reply).unwrap_err();
        assert!(matches!(&refused, ChangeError::Refused(problems) if problems.len() == 1), "{refused}");
    }

    #[test]
    fn the_same_changes_make_the_same_set_anywhere() {
        let make = || {
            let stubs = set(&json!([{"name": "a"}, {"name": "b"}]));
            let added = stubs.with_added(&json!({"name": "c"}), no_reply).unwrap();
            added.reset().with_added(&json!({"name": "d"}), no_reply).unwrap()
        };
        let ids = |stubs: &Stubs<()>| stubs.iter().map(|stub| stub.id).collect::<Vec<_>>();
        let ids_of_one = ids(&make());
        assert_eq!(ids_of_one, ids(&make()));
        assert_eq!(ids_of_one.iter().collect::<std::collections::HashSet<_>>().len(), 3, "all differ");
    }

    #[test]
    fn a_stub_of_a_scenario_answers_in_its_state_only() {
        let stubs = set(&json!([
            {"name": "always", "priority": 9},
            {"name": "first", "scenarioName": "s", "requiredScenarioState": "Started", "newScenarioState": "x"},
            {"name": "then", "scenarioName": "s", "requiredScenarioState": "x"},
            {"name": "whenever", "scenarioName": "s", "newScenarioState": "y", "priority": 8},
        ]));
        let found_in = |state: &str| {
            let is_in = |scenario, index| stubs.names().state(scenario, index) == Some(state);
            Request::get("/").see(|asked| stubs.find(asked, is_in)).unwrap().json["name"].as_str().unwrap()
        };
        assert_eq!(["Started", "x", "y"].map(found_in), ["first", "then", "whenever"]);
        let scenario = stubs.scenarios()[0];
        let states = stubs.possible_states(scenario);
        let states: Vec<_> = states.into_iter().map(|state| stubs.names().state(scenario, state).unwrap()).collect();
        assert_eq!(states, ["Started", "x", "y"]);
    }

    const PATHS: [&str; 6] = ["/", "/a", "/ab", "/a/b", "/a/b/c", "/b"];
    const TARGETS: [&str; 10] = ["/", "/?", "/a", "/a?x=1", "/a?x=2", "/ab", "/a/b", "/a/b?x=1", "/a/b/c", "/b?"];

    /// A stub for the law below: plain enough that whether it fits can be told without any of the code above.
    #[derive(Clone, Debug)]
    struct Plain {
        url: PlainUrl,
        is_get_only: bool,
        priority: i64,
        required: Option<bool>,
    }

    #[derive(Clone, Copy, Debug)]
    enum PlainUrl {
        Any,
        Url(&'static str),
        Path(&'static str),
        UrlBeginsWith(&'static str),
        PathBeginsWith(&'static str),
        Below(&'static str),
    }

    impl Plain {
        fn strategy() -> impl Strategy<Value = Self> {
            let path = || prop::sample::select(&PATHS[..]);
            let url = prop_oneof![
                Just(PlainUrl::Any),
                prop::sample::select(&TARGETS[..]).prop_map(PlainUrl::Url),
                path().prop_map(PlainUrl::Path),
                path().prop_map(PlainUrl::UrlBeginsWith),
                path().prop_map(PlainUrl::PathBeginsWith),
                path().prop_map(PlainUrl::Below),
            ];
            (url, any::<bool>(), 4..7_i64, any::<Option<bool>>())
                .prop_map(|(url, is_get_only, priority, required)| Self { url, is_get_only, priority, required })
        }

        fn json(&self) -> Value {
            let mut request = match self.url {
                PlainUrl::Any => json!({}),
                PlainUrl::Url(url) => json!({"url": url}),
                PlainUrl::Path(path) => json!({"urlPath": path}),
                PlainUrl::UrlBeginsWith(prefix) => json!({"urlPattern": format!("{prefix}.*")}),
                PlainUrl::PathBeginsWith(prefix) => json!({"urlPathPattern": format!("{prefix}.*")}),
                PlainUrl::Below(path) => json!({"urlPathTemplate": format!("{path}/{{id}}")}),
            };
            request["method"] = json!(if self.is_get_only { "GET" } else { "ANY" });
            let mut stub = json!({"request": request, "priority": self.priority});
            if let Some(is_started) = self.required {
                stub["scenarioName"] = json!("s");
                stub["requiredScenarioState"] = json!(if is_started { "Started" } else { "Other" });
            }
            stub
        }

        fn fits(&self, method: &Method, target: &str, is_started: bool) -> bool {
            let url = target.strip_suffix('?').unwrap_or(target);
            let path = url.split('?').next().unwrap();
            let is_url_right = match self.url {
                PlainUrl::Any => true,
                PlainUrl::Url(expected) => url == expected,
                PlainUrl::Path(expected) => path == expected,
                PlainUrl::UrlBeginsWith(prefix) => url.starts_with(prefix),
                PlainUrl::PathBeginsWith(prefix) => path.starts_with(prefix),
                PlainUrl::Below(above) => {
                    let below = path.strip_prefix(above).and_then(|rest| rest.strip_prefix('/'));
                    below.is_some_and(|id| !id.is_empty() && !id.contains('/'))
                }
            };
            is_url_right
                && (!self.is_get_only || *method == Method::GET)
                && self.required.is_none_or(|is| is == is_started)
        }
    }

    #[derive(Clone, Debug)]
    enum Change {
        Add(Plain),
        Replace(prop::sample::Index, Plain),
        Remove(prop::sample::Index),
        Reset,
        Empty,
    }

    fn change() -> impl Strategy<Value = Change> {
        let index = || any::<prop::sample::Index>();
        prop_oneof![
            6 => Plain::strategy().prop_map(Change::Add),
            3 => (index(), Plain::strategy()).prop_map(|(index, stub)| Change::Replace(index, stub)),
            3 => index().prop_map(Change::Remove),
            1 => Just(Change::Reset),
            1 => Just(Change::Empty),
        ]
    }

    /// The linear rule, on stubs in the order in which they were added.
    fn linear(model: &[(Uuid, Plain)], fits: impl Fn(&Plain) -> bool) -> Option<&Uuid> {
        let mut best: Option<&(Uuid, Plain)> = None;
        for stub in model.iter().filter(|(_, stub)| fits(stub)) {
            if best.is_none_or(|(_, best)| stub.1.priority <= best.priority) {
                best = Some(stub);
            }
        }
        best.map(|(id, _)| id)
    }

    fn changed(
        stubs: &Stubs<()>,
        model: &mut Vec<(Uuid, Plain)>,
        loaded: &[(Uuid, Plain)],
        change: Change,
    ) -> Stubs<()> {
        match change {
            Change::Add(plain) => {
                let stubs = stubs.with_added(&plain.json(), no_reply).unwrap();
                let known: Vec<_> = model.iter().map(|(id, _)| *id).collect();
                let id = stubs.iter().map(|stub| stub.id).find(|id| !known.contains(id)).unwrap();
                model.push((id, plain));
                stubs
            }
            Change::Replace(index, plain) if !model.is_empty() => {
                let (id, stub) = &mut model[index.index(stubs.len())];
                *stub = plain;
                stubs.with_replaced(*id, &stub.json(), no_reply).unwrap()
            }
            Change::Remove(index) if !model.is_empty() => {
                let (id, _) = model.remove(index.index(stubs.len()));
                stubs.without(id).unwrap()
            }
            Change::Replace(..) | Change::Remove(_) => stubs.emptied(),
            Change::Reset => {
                loaded.clone_into(model);
                stubs.reset()
            }
            Change::Empty => {
                model.clear();
                stubs.emptied()
            }
        }
    }

    proptest! {
        #[test]
        fn the_index_finds_what_the_linear_rule_finds(
            loaded in prop::collection::vec(Plain::strategy(), 0..12),
            changes in prop::collection::vec(change(), 0..8),
        ) {
            let text: Vec<Value> = loaded.iter().map(Plain::json).collect();
            let mut stubs = set(&json!(text));
            let ids = (0..loaded.len()).map(|index| derived_id(&format!("mapping.json #{index}")));
            let loaded: Vec<_> = ids.zip(loaded).collect();
            let mut model = loaded.clone();
            let changes = changes.into_iter().map(Some);
            for change in std::iter::once(None).chain(changes) {
                if let Some(change) = change {
                    stubs = changed(&stubs, &mut model, &loaded, change);
                }
                prop_assert_eq!(stubs.len(), model.len());
                for target in TARGETS {
                    for (method, is_started) in [(Method::GET, true), (Method::PUT, false)] {
                        let expected = linear(&model, |plain| plain.fits(&method, target, is_started));
                        let request = Request { method: method.clone(), ..Request::get(target) };
                        let is_in = |_, state| (state == StateIndex::STARTED) == is_started;
                        let found = request.see(|asked| stubs.find(asked, is_in).map(|stub| stub.id));
                        prop_assert_eq!(found.as_ref(), expected, "{} {}", method, target);
                    }
                }
            }
        }
    }
}
