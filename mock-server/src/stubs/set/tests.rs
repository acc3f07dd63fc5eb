//! Tests of the set of stubs.

use super::*;
use crate::stubs::load::{Mappings, OnUnsupported};
use crate::stubs::request::testing::Request;
use crate::stubs::stub::STARTED;
use hyper::Method;
use proptest::prelude::*;
use serde_json::{Value, json};

const PATHS: [&str; 6] = ["/", "/a", "/ab", "/a/b", "/a/b/c", "/b"];
const TARGETS: [&str; 10] = [
    "/", "/?", "/a", "/a?x=1", "/a?x=2", "/ab", "/a/b", "/a/b?x=1", "/a/b/c", "/b?",
];

/// A stub for the law below: plain enough that whether it fits can be told without any of the code
/// above.
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
        (url, any::<bool>(), 4..7_i64, any::<Option<bool>>()).prop_map(
            |(url, is_get_only, priority, required)| Self {
                url,
                is_get_only,
                priority,
                required,
            },
        )
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
                let below = path
                    .strip_prefix(above)
                    .and_then(|rest| rest.strip_prefix('/'));
                below.is_some_and(|id| !id.is_empty() && !id.contains('/'))
            }
        };
        is_url_right
            && (!self.is_get_only || *method == Method::GET)
            && self.required.is_none_or(|is| is == is_started)
    }
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

#[derive(Clone, Debug)]
enum Change {
    Add(Plain),
    Import(Vec<(Option<prop::sample::Index>, Plain)>, bool),
    Replace(prop::sample::Index, Plain),
    Remove(prop::sample::Index),
    Reset,
    Clear,
}

fn change() -> impl Strategy<Value = Change> {
    let index = || any::<prop::sample::Index>();
    let imported = prop::collection::vec(
        (any::<Option<prop::sample::Index>>(), Plain::strategy()),
        0..4,
    );
    prop_oneof![
        6 => Plain::strategy().prop_map(Change::Add),
        3 => (imported, any::<bool>()).prop_map(|(stubs, is_all)| Change::Import(stubs, is_all)),
        3 => (index(), Plain::strategy()).prop_map(|(index, stub)| Change::Replace(index, stub)),
        3 => index().prop_map(Change::Remove),
        1 => Just(Change::Reset),
        1 => Just(Change::Clear),
    ]
}

type Model = Vec<(Uuid, Plain)>;

/// A model of a set, in the order in which stubs were added, and the change of it.
fn changed(model: &mut Model, loaded: &Model, change: Change, next: &mut u128) -> StubChange {
    let mut new_id = || {
        *next += 1;
        Uuid::from_u128(*next)
    };
    let with_id = |id: &Uuid, plain: &Plain| {
        let mut json = plain.json();
        json["id"] = json!(id);
        json
    };
    match change {
        Change::Add(plain) => {
            let id = new_id();
            let stubs = vec![with_id(&id, &plain)];
            model.push((id, plain));
            StubChange::Add {
                stubs,
                on_taken: OnTaken::Refuse,
                others: Others::Keep,
            }
        }
        Change::Import(imported, is_all) => {
            let known = model.clone();
            let id_of = |index: Option<prop::sample::Index>, new: Uuid| {
                index
                    .filter(|_| !known.is_empty())
                    .map_or(new, |index| known[index.index(known.len())].0)
            };
            let named: Model = imported
                .into_iter()
                .map(|(index, plain)| (id_of(index, new_id()), plain))
                .collect();
            for (id, plain) in named.iter().rev() {
                match model.iter_mut().find(|(known, _)| known == id) {
                    Some((_, known)) => *known = plain.clone(),
                    None => model.push((*id, plain.clone())),
                }
            }
            model.retain(|(id, _)| !is_all || named.iter().any(|(known, _)| known == id));
            StubChange::Add {
                stubs: named.iter().map(|(id, plain)| with_id(id, plain)).collect(),
                on_taken: OnTaken::Overwrite,
                others: if is_all { Others::Remove } else { Others::Keep },
            }
        }
        Change::Replace(index, plain) if !model.is_empty() => {
            let index = index.index(model.len());
            let (id, stub) = &mut model[index];
            *stub = plain;
            StubChange::Add {
                stubs: vec![with_id(id, stub)],
                on_taken: OnTaken::Replace,
                others: Others::Keep,
            }
        }
        Change::Remove(index) if !model.is_empty() => {
            let (id, _) = model.remove(index.index(model.len()));
            StubChange::Remove(vec![id])
        }
        Change::Reset => {
            loaded.clone_into(model);
            StubChange::Reset(json!({}))
        }
        Change::Replace(..) | Change::Remove(_) | Change::Clear => {
            model.clear();
            StubChange::Add {
                stubs: Vec::new(),
                on_taken: OnTaken::Refuse,
                others: Others::Remove,
            }
        }
    }
}

proptest! {
    #[test]
    fn the_index_finds_what_the_linear_rule_finds_after_each_change(
        loaded in prop::collection::vec(Plain::strategy(), 0..12),
        changes in prop::collection::vec(change(), 0..8),
    ) {
        let text: Vec<Value> = loaded.iter().map(Plain::json).collect();
        let text = json!({"mappings": text}).to_string();
        let mappings = Mappings::parse(text.as_bytes(), OnUnsupported::Refuse).unwrap();
        let ids = (0..loaded.len()).map(|index| derived_id(&format!("mapping.json #{index}")));
        let loaded: Model = ids.zip(loaded).collect();
        let (mut model, mut next) = (loaded.clone(), 100);
        let mut stubs = Arc::clone(mappings.stubs());
        for change in std::iter::once(None).chain(changes.into_iter().map(Some)) {
            if let Some(change) = change {
                let change = changed(&mut model, &loaded, change, &mut next);
                stubs = Arc::new(stubs.with(&change, &Files::None).unwrap());
            }
            prop_assert_eq!(stubs.len(), model.len());
            for target in TARGETS {
                for (method, is_started) in [(Method::GET, true), (Method::PUT, false)] {
                    let expected = linear(&model, |plain| plain.fits(&method, target, is_started));
                    let request = Request { method: method.clone(), ..Request::get(target) };
                    let is_in = |_: &str, state: &str| (state == STARTED) == is_started;
                    let found = request.see(|asked| stubs.find(asked, is_in).map(|stub| stub.id));
                    prop_assert_eq!(found.as_ref(), expected, "{} {}", method, target);
                }
            }
        }
    }
}

#[test]
fn a_change_that_cannot_be_made_is_refused() {
    let id = Uuid::from_u128(1);
    let add = |stubs: &Stubs, stub: Value, on_taken: OnTaken| {
        let change = StubChange::Add {
            stubs: vec![stub],
            on_taken,
            others: Others::Keep,
        };
        stubs.with(&change, &Files::None)
    };
    let refuse = OnTaken::Refuse;
    let one = add(&Stubs::default(), json!({"id": id}), refuse).unwrap();
    let taken = add(&one, json!({"id": id}), refuse);
    assert!(matches!(taken, Err(ChangeError::Taken(taken)) if taken == id));
    let wrong = add(&one, json!({"requst": {}}), refuse);
    assert!(matches!(wrong, Err(ChangeError::Refused(_))));
    let missing = Uuid::from_u128(2);
    for refused in [
        add(&one, json!({"id": missing}), OnTaken::Replace),
        one.with(&StubChange::Remove(vec![missing]), &Files::None),
    ] {
        assert!(matches!(refused, Err(ChangeError::Missing(id)) if id == missing));
    }
    let settings = StubChange::Settings(json!({"fixedDelay": -1}));
    let refused = one.with(&settings, &Files::None);
    assert!(matches!(refused, Err(ChangeError::Refused(_))));
}

#[test]
fn what_a_stub_has_not_comes_from_the_settings_each_part_on_its_own() {
    let settings =
        json!({"fixedDelay": 7, "delayDistribution": {"type": "fixed", "milliseconds": 9}});
    let change = StubChange::Settings(settings);
    let set = Stubs::default().with(&change, &Files::None).unwrap();
    let hold = |response: Value| {
        let stub = json!({"response": response});
        let stub = Stub::read(&Node::root(&stub), Uuid::nil(), &Files::None).unwrap();
        stub.reply
            .delays
            .hold(&set.settings.delays, 1, 1)
            .as_millis()
    };
    assert_eq!(hold(json!({})), 16);
    assert_eq!(hold(json!({"fixedDelayMilliseconds": 1})), 10);
}
