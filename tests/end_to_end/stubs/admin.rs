//! WireMock's admin routes over several processes: what one of them counts or is told holds for all.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};

use super::{flags, stubs};
use crate::client::Client;
use crate::process::wait_for;
use crate::report::holds;
use crate::target::Target;

/// Connections to a target, one to each of its processes.
struct Everyone(Vec<Client>);

impl Everyone {
    /// Connects until every process has a connection, wherever the kernel puts them.
    fn connect(target: &Target) -> Self {
        let processes = target.processes();
        let mut found = BTreeMap::new();
        wait_for("a connection to every process", || {
            let mut client = Client::connect(target);
            // Answered, it is accepted, and its socket has an owner.
            assert_eq!(client.admin("GET /health", "").status, 200);
            found
                .entry(server_of(&client, target, &processes))
                .or_insert(client);
            (found.len() == processes.len()).then_some(())
        });
        Self(found.into_values().collect())
    }

    /// Asks every process for this path.
    fn get(&mut self, path: &str) -> Vec<(u16, String)> {
        let ask = |client: &mut Client| {
            let answer = client.get(path, "");
            (answer.status, answer.text().to_owned())
        };
        self.0.iter_mut().map(ask).collect()
    }

    /// All processes answer like this.
    #[track_caller]
    fn assert_all(&mut self, path: &str, status: u16, body: &str) {
        let count = self.0.len();
        assert_eq!(
            self.get(path),
            vec![(status, body.to_owned()); count],
            "{path}"
        );
    }

    /// Asks one process, another each time, and returns what it says.
    #[track_caller]
    fn admin(&mut self, order: &str, body: &Value) -> (u16, Value) {
        self.0.rotate_left(1);
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let answer = self.0.first_mut().unwrap().admin(order, &body);
        (answer.status, answer.json())
    }

    /// All processes say the same of themselves.
    #[track_caller]
    fn assert_all_say(&mut self, order: &str, pointer: &str, expected: &Value) {
        for client in &mut self.0 {
            let said = client.admin(order, "").json();
            assert_eq!(said.pointer(pointer), Some(expected), "{order}: {said}");
        }
    }
}

/// The process at the other end of a connection: the one that has its socket.
fn server_of(client: &Client, target: &Target, processes: &[i32]) -> i32 {
    let port = |address: &str| {
        address
            .rsplit_once(':')
            .and_then(|(_, port)| u16::from_str_radix(port, 16).ok())
    };
    let wanted = (
        target.address().rsplit_once(':').unwrap().1.parse().ok(),
        Some(client.port()),
    );
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let inode = table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        ((port(fields[1]), port(fields[2])) == wanted).then(|| fields[9].to_owned())
    });
    let socket = format!(
        "socket:[{}]",
        inode.unwrap_or_else(|| panic!("{wanted:?} is not in {table}"))
    );
    let has_it = |pid: &&i32| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        files
            .filter_map(|file| fs::read_link(file.ok()?.path()).ok())
            .any(|link| link.as_os_str() == socket.as_str())
    };
    *processes.iter().find(has_it).unwrap()
}

#[test]
fn a_scenario_moves_once_however_many_ask_at_once() {
    const STATES: usize = 400;
    for processes in [1, 4] {
        let name = |state: usize| match state {
            0 => "Started".to_owned(),
            _ => format!("s{state}"),
        };
        let step = |state: usize| {
            json!({
                "scenarioName": "walk", "requiredScenarioState": name(state),
                "newScenarioState": name(state + 1),
                "request": {"url": "/walk"}, "response": {"body": state.to_string()},
            })
        };
        let root = stubs(&(0..STATES).map(step).collect());
        let target = Target::start(&flags(&root, &format!("--processes {processes}")));
        let ask = || {
            let mut client = Client::connect(&target);
            let body = |_| client.get("/walk", "").text().parse::<usize>().unwrap();
            (0..STATES / 8).map(body).collect::<Vec<_>>()
        };
        let mut seen: Vec<usize> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
            clients
                .into_iter()
                .flat_map(|client| client.join().unwrap())
                .collect()
        });
        seen.sort_unstable();
        assert!(
            seen.into_iter().eq(0..STATES),
            "each state once, with {processes}"
        );
        let mut all = Everyone::connect(&target);
        all.assert_all("/walk", 404, "Request was not matched\n");
        assert_eq!(all.admin("POST /scenarios/reset", &Value::Null).0, 200);
        all.assert_all_say("GET /scenarios", "/scenarios/0/state", &json!("Started"));
        let books = target.stop();
        assert_eq!(books["stub_answers"], json!(STATES));
    }
}

#[test]
fn the_journal_counts_what_all_processes_were_asked() {
    let root = stubs(&json!([{"request": {"urlPathPattern": "/a/.*"}}]));
    let target = Target::start(&flags(&root, "--processes 4 --journal"));
    let mut all = Everyone::connect(&target);
    for id in 0..5 {
        all.get(&format!("/a/{id}?q=x"));
    }
    all.get("/b");
    for (pattern, count) in [
        (json!({}), 24),
        (json!({"method": "GET", "urlPath": "/a/3"}), 4),
        (
            json!({"urlPathPattern": "/a/[0-2]", "queryParameters": {"q": {"equalTo": "x"}}}),
            12,
        ),
    ] {
        let expected = json!({"count": count, "requestJournalDisabled": false});
        assert_eq!(
            all.admin("POST /requests/count", &pattern),
            (200, expected),
            "{pattern}"
        );
    }
    for (order, pointer, value) in [
        ("GET /requests?limit=2", "/meta/total", json!(24)),
        (
            "GET /requests?limit=1",
            "/requests/0/wasMatched",
            json!(false),
        ),
        (
            "GET /requests?limit=1&offset=4",
            "/requests/0/response/status",
            json!(200),
        ),
        ("GET /requests/unmatched", "/requests/3/url", json!("/b")),
    ] {
        all.assert_all_say(order, pointer, &value);
    }
    assert_eq!(all.admin("DELETE /requests", &Value::Null).0, 200);
    all.assert_all_say("GET /requests", "/meta/total", &json!(0));
    holds(
        &target.stop(),
        &json!({"/stub_answers": 20, "/unmatched": 4, "/journal_missed": 0}),
    );
}
