//! The admin routes without a socket.

use super::*;
use crate::config::Config;
use crate::ledger::LedgerWriter;
use crate::stubs::{Mappings, OnUnsupported, RequestView};
use hyper::header::HeaderMap;
use std::net::{IpAddr, Ipv4Addr};

/// Two processes of one target.
struct Office {
    shared: Shared,
    processes: [ServedStubs; 2],
}

impl Office {
    /// With these stubs.
    fn open(stubs: &Value) -> Self {
        let shared = Shared::new().unwrap();
        let text = json!({"mappings": stubs}).to_string();
        let stubs = Mappings::parse(text.as_bytes(), OnUnsupported::Refuse).unwrap();
        let config = Config {
            stubs: Some(stubs),
            ..Config::default()
        };
        let processes = [(); 2].map(|()| ServedStubs::new(&config, &LedgerWriter::open(&shared)));
        Self { shared, processes }
    }

    /// Asks one process.
    fn ask(&self, process: usize, request: &str, body: &str) -> (u16, Value) {
        let (method, target) = request.split_once(' ').unwrap();
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let request = AdminRequest {
            method: &method,
            target,
            body: body.as_bytes(),
            shared: &self.shared,
            stubs: &self.processes[process],
            journal: Journal::On,
        };
        let (status, body) = request.answer();
        (
            status.as_u16(),
            if body.is_empty() {
                Value::Null
            } else {
                serde_json::from_slice(&body).unwrap()
            },
        )
    }

    /// The name of the stub with which a process answers a GET.
    fn found(&self, process: usize, target: &str) -> Option<String> {
        let headers = HeaderMap::new();
        let client = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let asked = RequestView {
            method: &Method::GET,
            target,
            headers: &headers,
            body: &[],
            client,
        };
        let stubs = self.processes[process].current();
        self.processes[process]
            .find(&stubs, &asked)
            .and_then(|stub| stub.json["name"].as_str().map(str::to_owned))
    }
}

#[test]
fn only_the_prefix_itself_and_what_is_below_it_is_admin() {
    for (path, expected) in [
        ("/__admin", true),
        ("/__admin/", true),
        ("/__admin/ledger", true),
        ("/__adminx", false),
        ("/items/__admin/ledger", false),
        ("/", false),
    ] {
        assert_eq!(is_admin(path), expected, "{path}");
    }
}

#[test]
fn routes_want_their_own_method_and_path() {
    let office = Office::open(&json!([]));
    for (request, status) in [
        ("GET /__admin/health", 200),
        ("GET /__admin/version", 200),
        ("HEAD /__admin/ledger", 200),
        ("GET /__admin/ledger/reset", 404),
        ("POST /__admin/ledger", 404),
        ("POST /__admin/ledger/reset", 204),
        ("GET /__admin", 404),
        ("GET /__admin/mappings", 200),
        ("GET /__admin/mappings/no-uuid", 400),
        (
            "GET /__admin/mappings/6f9a3c1e-0000-4000-8000-000000000001",
            404,
        ),
        (
            "GET /__admin/mappings/6f9a3c1e-0000-4000-8000-000000000001/more",
            404,
        ),
        ("PATCH /__admin/mappings", 404),
        ("DELETE /__admin/mappings/no-uuid", 400),
        ("GET /__admin/settings", 200),
        ("DELETE /__admin/settings", 404),
        ("GET /__admin/requests/unmatched/near-misses", 200),
        ("GET /__admin/requests/no-uuid", 400),
        (
            "GET /__admin/requests/6f9a3c1e-0000-4000-8000-000000000001",
            404,
        ),
        ("GET /__admin/requests?since=2026-01-31T12:00:00Z", 200),
        ("GET /__admin/requests?since=yesterday", 422),
        ("GET /__admin/mappings/save", 400),
        // Without a directory of stubs.
        ("POST /__admin/mappings/save", 422),
        ("GET /__admin/requests", 200),
        ("GET /__admin/scenarios", 200),
        ("GET /__admin/scenarios/one/two/three", 404),
        ("POST /__admin/reset", 200),
    ] {
        assert_eq!(office.ask(0, request, "").0, status, "{request}");
    }
}

#[test]
fn a_page_of_the_stubs_is_listed_as_it_was_written() {
    let office = Office::open(&json!([{"name": "x"}, {"name": "y"}]));
    let (_, page) = office.ask(1, "GET /__admin/mappings?limit=1&offset=1", "");
    assert_eq!(
        (&page["mappings"][0]["name"], &page["meta"]["total"]),
        (&json!("x"), &json!(2))
    );
    let id = page["mappings"][0]["id"].as_str().unwrap();
    let (status, stub) = office.ask(0, &format!("GET /__admin/mappings/{id}"), "");
    assert_eq!((status, &stub), (200, &page["mappings"][0]));
}

#[test]
fn what_one_process_is_told_all_do() {
    let office = Office::open(&json!([{"name": "loaded", "request": {"url": "/loaded"}}]));
    let one = r#"{"name": "one", "request": {"url": "/a"}}"#;
    let (status, added) = office.ask(0, "POST /__admin/mappings", one);
    assert_eq!((status, &added["name"]), (201, &json!("one")));
    assert_eq!(office.found(1, "/a").as_deref(), Some("one"));
    let place = format!("/__admin/mappings/{}", added["id"].as_str().unwrap());
    assert_eq!(
        office.ask(1, &format!("GET {place}"), ""),
        (200, added.clone())
    );
    let (_, listed) = office.ask(1, "GET /__admin/mappings", "");
    assert_eq!(
        (&listed["mappings"][0], &listed["meta"]["total"]),
        (&added, &json!(2))
    );

    let two = r#"{"name": "two", "request": {"url": "/b"}}"#;
    let (status, replaced) = office.ask(1, &format!("PUT {place}"), two);
    assert_eq!(
        (status, &replaced["id"], &replaced["name"]),
        (200, &added["id"], &json!("two"))
    );
    assert_eq!(
        (office.found(0, "/a"), office.found(0, "/b").as_deref()),
        (None, Some("two"))
    );

    assert_eq!(
        office.ask(0, &format!("DELETE {place}"), ""),
        (200, json!({}))
    );
    assert_eq!(office.found(1, "/b"), None);
    for request in ["DELETE", "GET", "PUT"] {
        assert_eq!(
            office.ask(0, &format!("{request} {place}"), "{}").0,
            404,
            "{request}"
        );
    }
    assert_eq!(
        office.ask(0, "DELETE /__admin/mappings", ""),
        (200, json!({}))
    );
    assert_eq!(office.found(1, "/loaded"), None);
    assert_eq!(office.ask(1, "POST /__admin/mappings/reset", "").0, 200);
    assert_eq!(office.found(0, "/loaded").as_deref(), Some("loaded"));
}

#[test]
fn a_stub_that_is_wrong_changes_nothing() {
    let office = Office::open(&json!([]));
    let deep = format!(
        r#"{{"response": {{"jsonBody": {}{}}}}}"#,
        "[".repeat(200),
        "]".repeat(200)
    );
    for (stub, status) in [
        ("{", 422),
        ("[]", 422),
        (r#"{"request": {"urll": "/"}}"#, 422),
        (r#"{"mappings": [{}]}"#, 422),
        (r#"{"response": {"bodyFileName": "../secret"}}"#, 422),
        // One that another process could not read would be in one process alone.
        (deep.as_str(), 422),
    ] {
        let (said, answer) = office.ask(0, "POST /__admin/mappings", stub);
        assert_eq!(said, status, "{stub}: {answer}");
        assert!(answer["errors"][0]["title"].is_string(), "{answer}");
    }
    assert_eq!(
        office.ask(1, "GET /__admin/mappings", "").1["meta"]["total"],
        0
    );
}

#[test]
fn changes_without_end_fit_between_resets() {
    let office = Office::open(&json!([{"name": "loaded"}]));
    let large = json!({"response": {"body": "x".repeat(8 << 10)}}).to_string();
    let add = || office.ask(0, "POST /__admin/mappings", &large).0;
    for _ in 0..2 {
        let filler = vec![0; (128 << 20) - (16 << 10)];
        office.shared.region().stub_log.append(&filler).unwrap();
        assert_eq!((add(), add()), (201, 507));
        assert_eq!(
            office
                .ask(0, "POST /__admin/settings", r#"{"fixedDelay": 5}"#)
                .0,
            200
        );
        assert_eq!(office.ask(0, "POST /__admin/mappings/reset", "").0, 200);
    }
    assert_eq!(add(), 201);
    // The other process has read none of all that yet.
    assert_eq!(
        office.ask(1, "GET /__admin/mappings", "").1["meta"]["total"],
        2
    );
    let settings = office.ask(1, "GET /__admin/settings", "").1;
    assert_eq!(settings, json!({"settings": {"fixedDelay": 5}}));
}

#[test]
fn an_import_takes_the_place_of_stubs_or_leaves_them() {
    let office = Office::open(&json!([]));
    let id = |digit: u8| format!("6f9a3c1e-0000-4000-8000-00000000000{digit}");
    let stub =
        |digit: u8, name: &str| json!({"id": id(digit), "name": name, "metadata": {"team": name}});
    let import = |stubs: Value, options: Value| {
        let body = json!({"mappings": stubs, "importOptions": options}).to_string();
        office.ask(0, "POST /__admin/mappings/import", &body).0
    };
    let names = |order: &str, body: &str| {
        let (_, listed) = office.ask(1, order, body);
        let names = listed["mappings"]
            .as_array()
            .unwrap()
            .iter()
            .map(|stub| stub["name"].clone());
        Value::Array(names.collect())
    };
    let all = || names("GET /__admin/mappings", "");
    assert_eq!(
        import(
            json!([stub(1, "a"), stub(2, "b"), {"name": "c"}]),
            json!({})
        ),
        200
    );
    assert_eq!(all(), json!(["a", "b", "c"]), "the first takes precedence");
    let policy = |policy: &str, is_all: bool| json!({"duplicatePolicy": policy, "deleteAllNotInImport": is_all});
    assert_eq!(
        import(json!([stub(2, "x"), stub(3, "d")]), policy("IGNORE", false)),
        200
    );
    assert_eq!(all(), json!(["d", "a", "b", "c"]));
    assert_eq!(
        import(
            json!([stub(2, "x"), stub(3, "y")]),
            policy("OVERWRITE", true)
        ),
        200
    );
    assert_eq!(all(), json!(["y", "x"]));
    let pattern = r#"{"matchesJsonPath": {"expression": "$.team", "equalTo": "x"}}"#;
    assert_eq!(
        names("POST /__admin/mappings/find-by-metadata", pattern),
        json!(["x"])
    );
    assert_eq!(
        office
            .ask(0, "POST /__admin/mappings/remove-by-metadata", pattern)
            .0,
        200
    );
    assert_eq!(
        office
            .ask(0, "POST /__admin/mappings/remove-by-metadata", pattern)
            .0,
        200
    );
    assert_eq!(all(), json!(["y"]));
    // All or nothing.
    assert_eq!(
        import(json!([stub(4, "e"), {"request": {"urll": "/"}}]), json!({})),
        422
    );
    assert_eq!(import(json!({}), json!({})), 422);
    assert_eq!(import(json!([]), json!({"duplicatePolicy": "MAYBE"})), 422);
    assert_eq!(all(), json!(["y"]));
}

#[test]
fn near_misses_are_sorted_by_distance() {
    let office = Office::open(&json!([
        {"name": "far", "request": {"url": "/nowhere/near"}},
        {"name": "method", "request": {"method": "POST", "url": "/items/1"}},
        {"name": "header", "request": {"url": "/items/1", "headers": {"A": {"equalTo": "abcd"}}}},
        {"name": "url", "request": {"url": "/items/2"}},
    ]));
    let near = |request: &Value| {
        let (status, said) =
            office.ask(0, "POST /__admin/near-misses/request", &request.to_string());
        assert_eq!(status, 200, "{said}");
        let misses = said["nearMisses"].as_array().unwrap().clone();
        misses
            .into_iter()
            .map(|miss| {
                let name = miss["stubMapping"]["name"].as_str().unwrap().to_owned();
                (name, miss["matchResult"]["distance"].as_f64().unwrap())
            })
            .collect::<Vec<_>>()
    };
    let request = json!({"url": "/items/1", "method": "GET", "headers": {"a": "abcx"}});
    let expected = [
        ("header", 0.25 / 46.0),
        ("url", 10.0 / 8.0 / 39.0),
        ("method", 3.0 / 39.0),
    ];
    for ((name, distance), (expected, expected_distance)) in
        near(&request).into_iter().zip(expected)
    {
        assert_eq!(name, expected);
        assert!(
            (distance - expected_distance).abs() < 1e-9,
            "{name}: {distance}"
        );
    }
    assert_eq!(
        near(&json!({"url": "/items/2"}))[0],
        ("url".to_owned(), 0.0)
    );
    assert_eq!(
        office
            .ask(
                0,
                "POST /__admin/near-misses/request",
                r#"{"method": "G T"}"#
            )
            .0,
        422
    );
    let (_, of_pattern) = office.ask(
        0,
        "POST /__admin/near-misses/request-pattern",
        r#"{"url": "/"}"#,
    );
    assert_eq!(of_pattern, json!({"nearMisses": []}));
}

#[test]
fn scenarios_move_on_in_all_processes_and_can_be_put_back() {
    let stub = |(name, required, next)| json!({"name": name, "scenarioName": "door", "requiredScenarioState": required, "newScenarioState": next});
    let stubs = [("first", "Started", "open"), ("second", "open", "shut")].map(stub);
    let office = Office::open(&json!(stubs));
    assert_eq!(office.found(0, "/").as_deref(), Some("first"));
    assert_eq!(office.found(1, "/").as_deref(), Some("second"));
    assert_eq!(office.found(0, "/"), None);
    let (_, said) = office.ask(1, "GET /__admin/scenarios", "");
    assert_eq!(
        (
            &said["scenarios"][0]["name"],
            &said["scenarios"][0]["state"]
        ),
        (&json!("door"), &json!("shut"))
    );
    assert_eq!(
        said["scenarios"][0]["possibleStates"],
        json!(["Started", "open", "shut"])
    );
    assert_eq!(
        office
            .ask(
                0,
                "PUT /__admin/scenarios/door/state",
                r#"{"state": "open"}"#
            )
            .0,
        200
    );
    assert_eq!(office.found(1, "/").as_deref(), Some("second"));
    assert_eq!(
        office
            .ask(
                0,
                "PUT /__admin/scenarios/door/state",
                r#"{"state": "ajar"}"#
            )
            .0,
        422
    );
    assert_eq!(
        office.ask(0, "PUT /__admin/scenarios/gate/state", "").0,
        404
    );
    assert_eq!(office.ask(0, "POST /__admin/scenarios/reset", "").0, 200);
    assert_eq!(office.found(1, "/").as_deref(), Some("first"));
    // A scenario that is used again is at its start.
    office.ask(0, "DELETE /__admin/mappings", "");
    office.ask(
        0,
        "POST /__admin/mappings",
        &stub(("new", "Started", "open")).to_string(),
    );
    assert_eq!(office.found(1, "/").as_deref(), Some("new"));
}
