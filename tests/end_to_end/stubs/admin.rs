//! WireMock's admin routes over several processes: whatever one of them was told, all of them do,
//! from the acknowledgement on.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::{flags, place, stubs};
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
fn stubs_added_at_the_same_moment_all_get_there() {
    const THREADS: usize = 8;
    const EACH: usize = 40;
    let target = Target::start(&flags(&stubs(&json!([])), "--processes 4"));
    let mut all = Everyone::connect(&target);
    let start = Barrier::new(THREADS);
    let add = |thread: usize| {
        let mut client = Client::connect(&target);
        start.wait();
        let add = |number| {
            let name = format!("{thread}-{number}");
            let request = json!({"url": format!("/{name}")});
            let stub = json!({"name": name, "request": request, "response": {"body": name}});
            let answer = client.admin("POST /mappings", &stub.to_string());
            assert_eq!(answer.status, 201, "{answer:?}");
            answer.json()["id"].to_string()
        };
        (0..EACH).map(add).collect::<Vec<String>>()
    };
    let ids: BTreeSet<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || add(thread)))
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    assert_eq!(ids.len(), THREADS * EACH, "each has an id of its own");
    all.assert_all_say("GET /mappings", "/meta/total", &json!(THREADS * EACH));
    let list = |client: &mut Client| client.admin("GET /mappings", "").json();
    let lists: Vec<Value> = all.0.iter_mut().map(list).collect();
    assert!(
        lists.windows(2).all(|pair| pair[0] == pair[1]),
        "all list the same in the same order"
    );
    for thread in 0..THREADS {
        let name = format!("{thread}-{}", EACH - 1);
        all.assert_all(&format!("/{name}"), 200, &name);
    }
}

/// Requests beside changes: each answer is that of a state between the last change acknowledged
/// before it was asked for and the last one begun before it came. `CRAWLMARK_STUB_CHANGES=1000` and
/// `CRAWLMARK_STUB_REQUESTS=100000` make it the long one.
#[test]
fn each_answer_beside_changes_is_that_of_a_state_that_existed() {
    let count =
        |name: &str, usual: u64| std::env::var(name).map_or(usual, |count| count.parse().unwrap());
    let changes = count("CRAWLMARK_STUB_CHANGES", 200);
    let requests = count("CRAWLMARK_STUB_REQUESTS", 4_000);
    for processes in [1, 3] {
        let root = stubs(&json!([]));
        let target = Target::start(&flags(&root, &format!("--processes {processes}")));
        // Each state of the stub says its number in status, header and body alike.
        let state = |number: u64| {
            let text = number.to_string();
            let response =
                json!({"status": 400 + number % 100, "headers": {"X-State": text}, "body": text});
            json!({"request": {"url": "/state"}, "response": response}).to_string()
        };
        let mut admin = Client::connect(&target);
        let added = admin.admin("POST /mappings", &state(0)).json();
        let place = format!("PUT /mappings/{}", added["id"].as_str().unwrap());
        let [begun, acknowledged] = [AtomicU64::new(0), AtomicU64::new(0)];
        let ask = || {
            let mut client = Client::connect(&target);
            let mut seen = BTreeSet::new();
            let mut asked = 0;
            let is_over = || acknowledged.load(Ordering::SeqCst) == changes;
            // Bounded, should a change fail.
            while asked < requests / 4 || (asked < 50 * requests && !is_over()) {
                let oldest = acknowledged.load(Ordering::SeqCst);
                let answer = client.get("/state", "");
                let newest = begun.load(Ordering::SeqCst);
                let number: u64 = answer.text().parse().unwrap();
                assert!(
                    (oldest..=newest).contains(&number),
                    "{oldest} <= {number} <= {newest}"
                );
                assert_eq!(u64::from(answer.status), 400 + number % 100);
                assert_eq!(answer.headers["x-state"], answer.text());
                seen.insert(number);
                asked += 1;
            }
            (asked, seen.len())
        };
        let asked: Vec<(u64, usize)> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
            // A process in turn, wherever the kernel puts the connections.
            let mut clients_of_all = Everyone::connect(&target).0;
            for number in 1..=changes {
                begun.store(number, Ordering::SeqCst);
                clients_of_all.rotate_left(1);
                let answer = clients_of_all[0].admin(&place, &state(number));
                assert_eq!(answer.status, 200, "{answer:?}");
                acknowledged.store(number, Ordering::SeqCst);
            }
            clients
                .into_iter()
                .map(|client| client.join().unwrap())
                .collect()
        });
        let total: u64 = asked.iter().map(|(asked, _)| asked).sum();
        let states = asked.iter().map(|(_, states)| *states).max();
        eprintln!(
            "{processes} processes: {total} requests beside {changes} changes, up to {states:?} states in a client"
        );
        assert!(total >= requests && states > Some(1));
        assert_eq!(target.stop()["stub_answers"], json!(total));
    }
}

/// The paths of all files below a directory, through links as well, and what they hold.
fn files(below: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(below).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            let inner = files(&path).into_iter();
            found.extend(inner.map(|(file, text)| (format!("{name}/{file}"), text)));
        } else {
            found.insert(name, fs::read_to_string(path).unwrap());
        }
    }
    found
}

#[test]
fn what_is_saved_is_in_files_of_the_directory_alone_and_is_served_again() {
    let id = |digit: u8| format!("6f9a3c1e-0000-4000-8000-00000000000{digit}");
    let stub = |digit: u8, body: &str| json!({"id": id(digit), "request": {"url": format!("/{digit}")}, "response": {"body": body}});
    let text = |stub: &Value| stub.to_string();
    let several = json!({"mappings": [stub(2, "two"), stub(3, "three")]});
    let top = place(&[
        ("inside/mappings/one.json", &text(&stub(1, "one"))),
        ("inside/mappings/several.json", &text(&several)),
        ("outside/four.json", &text(&stub(4, "four"))),
    ]);
    let inside = top.path().join("inside");
    symlink(top.path().join("outside"), inside.join("mappings/linked")).unwrap();
    let before = files(top.path());
    let line = format!("--stubs {} --processes 2", inside.display());
    let target = Target::start(&line);
    let mut all = Everyone::connect(&target);
    // Of a file of several, and of a file that a link leads to: refused, and nothing is written.
    for (digit, what) in [(2, "of several"), (4, "behind a link")] {
        let changed = all.admin(
            &format!("PUT /mappings/{}", id(digit)),
            &stub(digit, "changed"),
        );
        assert_eq!(changed.0, 200, "{changed:?}");
        assert_eq!(
            all.admin("POST /mappings/save", &Value::Null).0,
            422,
            "{what}"
        );
        assert_eq!(files(top.path()), before, "{what}");
        assert_eq!(all.admin("POST /mappings/reset", &Value::Null).0, 200);
        all.assert_all(
            &format!("/{digit}"),
            200,
            if digit == 2 { "two" } else { "four" },
        );
    }
    let mut added = stub(5, "1.50");
    added["name"] = json!("../../outside/A name");
    added["response"] = json!({"jsonBody": {"n": 1.5}});
    assert_eq!(all.admin("POST /mappings", &added).0, 201);
    assert_eq!(
        all.admin(&format!("PUT /mappings/{}", id(1)), &stub(1, "changed"))
            .0,
        200
    );
    assert_eq!(all.admin("POST /mappings/save", &Value::Null).0, 200);
    let after = files(top.path());
    let new: Vec<&String> = after
        .keys()
        .filter(|name| !before.contains_key(*name))
        .collect();
    assert_eq!(
        new,
        [&format!("inside/mappings/outsidea-name-{}.json", id(5))]
    );
    let changed: Vec<&String> = before
        .keys()
        .filter(|name| after[*name] != before[*name])
        .collect();
    assert_eq!(changed, ["inside/mappings/one.json"]);
    // A reset brings back what is saved, and so does a start.
    assert_eq!(all.admin("POST /mappings", &stub(6, "lost")).0, 201);
    assert_eq!(all.admin("POST /mappings/reset", &Value::Null).0, 200);
    let mut again = target;
    for round in ["reset", "started again"] {
        let mut all = Everyone::connect(&again);
        for (path, status, body) in [
            ("/1", 200, "changed"),
            ("/5", 200, r#"{"n":1.5}"#),
            ("/2", 200, "two"),
        ] {
            all.assert_all(path, status, body);
        }
        all.assert_all("/6", 404, "Request was not matched\n");
        if round == "reset" {
            again.stop();
            again = Target::start(&line);
        }
    }
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
        let ledger = target.stop();
        assert_eq!(ledger["stub_answers"], json!(STATES));
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
