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
        self.processes[process]
            .find(&asked)
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
}
