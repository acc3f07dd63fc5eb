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

proptest! {
    #[test]
    fn the_index_finds_what_the_linear_rule_finds(
        loaded in prop::collection::vec(Plain::strategy(), 0..20),
    ) {
        let text: Vec<Value> = loaded.iter().map(Plain::json).collect();
        let text = json!({"mappings": text}).to_string();
        let stubs = Mappings::parse(text.as_bytes(), OnUnsupported::Refuse).unwrap();
        let stubs = stubs.stubs();
        let ids = (0..loaded.len()).map(|index| derived_id(&format!("mapping.json #{index}")));
        let model: Vec<_> = ids.zip(loaded).collect();
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
