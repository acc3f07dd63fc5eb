//! The server over real loopback sockets, driven by a client that shares no code with it, with its
//! own counts as the second witness.
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test may stop at the first surprise, as the test itself may"
)]

use crate::client::{Answer, Client, body};
use crawlmark_mock_server::{
    Config, Latency, Ledger, LimitLedger, Limits, Shared, Stall, listeners, run_until,
};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::time::Duration;
use tokio::sync::oneshot;

/// A target that serves while the test's closure runs.
struct Target {
    addr: SocketAddr,
    shared: Shared,
}

impl Target {
    /// Serves with `processes` runtimes, one per thread, until `test` returns or panics.
    fn serve(config: &Config, processes: usize, test: impl FnOnce(&Target)) {
        let shared = Shared::new().unwrap();
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listeners = listeners(any_port, NonZeroUsize::new(processes).unwrap()).unwrap();
        let target = Target {
            addr: listeners[0].local_addr().unwrap(),
            shared: shared.clone(),
        };
        std::thread::scope(|scope| {
            let mut stops = Vec::new();
            for listener in listeners {
                let (stop, stopped) = oneshot::channel::<()>();
                stops.push(stop);
                let shared = &shared;
                scope.spawn(move || {
                    let shutdown = async move { drop(stopped.await) };
                    run_until(listener, config, shared, shutdown).unwrap();
                });
            }
            // Dropping `stops`, on a panic too, ends the servers.
            test(&target);
        });
    }

    fn connect(&self) -> Client {
        Client::connect(self.addr)
    }

    /// One request on a connection of its own.
    fn get(&self, path: &str) -> Answer {
        self.connect().request("GET", path).unwrap()
    }

    /// Tries until it comes true, at most for as long as a client would wait.
    fn wait_until(&self, mut is_so: impl FnMut() -> bool) {
        let clock = self.shared.clock();
        let give_up_ns = clock.now_ns() + 30_000_000_000;
        while !is_so() {
            assert!(clock.now_ns() < give_up_ns, "it never came true");
            std::thread::yield_now();
        }
    }

    /// The counts as a client sees them; they must be what the process itself reads.
    fn ledger(&self) -> Ledger {
        let answer = self.get("/__admin/ledger");
        assert_eq!(answer.status, 200);
        let ledger = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(Ledger::read(&self.shared), ledger);
        ledger
    }
}

fn limits(text: &str) -> Limits {
    Limits::new(
        text.split(' ')
            .map(|limit| limit.parse().unwrap())
            .collect(),
    )
    .unwrap()
}

fn counts<K: Ord + Clone>(entries: &[(K, u64)]) -> BTreeMap<K, u64> {
    entries.iter().cloned().collect()
}

fn named(entries: &[(&str, u64)]) -> BTreeMap<String, u64> {
    entries
        .iter()
        .map(|(name, count)| ((*name).to_owned(), *count))
        .collect()
}

#[test]
fn items_are_what_the_seed_says_and_the_books_agree() {
    Target::serve(
        &Config {
            seed: 9,
            ..Config::default()
        },
        1,
        |target| {
            let mut client = target.connect();
            for id in [0, 1, 1234, 1] {
                let answer = client.request("GET", &format!("/items/{id}")).unwrap();
                assert_eq!(answer.status, 200);
                assert_eq!(answer.headers["content-type"], "application/json");
                assert_eq!(
                    answer.headers["content-length"],
                    answer.body.len().to_string()
                );
                assert_eq!(answer.body, body(9, id));
            }
            let ledger = target.ledger();
            assert_eq!(
                (ledger.requests, ledger.unique_ids, ledger.duplicate_ids),
                (4, 3, 1)
            );
            assert_eq!(ledger.by_status, counts(&[(200, 4)]));
            assert_eq!(ledger.by_source, named(&[("127.0.0.1", 4)]));
            assert_eq!(
                (ledger.connections, ledger.max_admitted_in_1s > 0),
                (1, true)
            );
            // Without a limit all are admitted, in the millisecond in which they come.
            for peaks in [
                ledger.busiest.ten_ms,
                ledger.busiest.hundred_ms,
                ledger.busiest.second,
            ] {
                assert_eq!(peaks.requests, peaks.admitted);
            }
            assert_eq!(ledger.busiest.second.admitted, ledger.max_admitted_in_1s);
            assert!(ledger.uniqueness_exact && ledger.window_exact);
        },
    );
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    Target::serve(&Config::default(), 1, |target| {
        let mut client = target.connect();
        for id in 0..50 {
            client.send("GET", &format!("/items/{id}"));
        }
        for id in 0..50 {
            assert_eq!(client.receive("GET").unwrap().body, body(0, id));
        }
        assert_eq!(target.ledger().requests, 50);
    });
}

#[test]
fn admin_requests_leave_no_trace_and_reset_empties_the_books() {
    // A limit of one request a day: admin routes must not be subject to it.
    let config = Config {
        limits: limits("1/24h"),
        ..Config::default()
    };
    Target::serve(&config, 1, |target| {
        let empty = Ledger {
            uniqueness_exact: true,
            window_exact: true,
            by_limit: [("gcra".to_owned(), LimitLedger::default())].into(),
            ..Ledger::default()
        };
        let health: serde_json::Value =
            serde_json::from_slice(&target.get("/__admin/health").body).unwrap();
        assert_eq!(health["status"], "healthy");
        let unknown = target.get("/__admin/mapping");
        assert_eq!(unknown.status, 404);
        assert!(
            String::from_utf8(unknown.body)
                .unwrap()
                .contains("no such admin route")
        );
        assert_eq!(target.ledger(), empty);

        target.get("/items/7");
        assert_eq!(target.ledger().requests, 1);
        let mut client = target.connect();
        let reset = client.request("POST", "/__admin/ledger/reset").unwrap();
        assert_eq!((reset.status, reset.body), (204, Vec::new()));
        assert_eq!(target.ledger(), empty);
        // The connection goes on.
        assert_eq!(
            client.request("GET", "/__admin/health").unwrap().status,
            200
        );
    });
}

#[test]
fn holds_are_served_out_together_recorded_as_asked_and_as_they_were() {
    let latency: Latency = "lognormal:2ms,0.5,10ms".parse().unwrap();
    Target::serve(
        &Config {
            seed: 2,
            latency: latency.clone(),
            ..Config::default()
        },
        2,
        |target| {
            let mut clients: Vec<Client> = (0..50).map(|_| target.connect()).collect();
            for (id, client) in clients.iter_mut().enumerate() {
                client.send("GET", &format!("/items/{id}"));
            }
            let mut errors = Vec::new();
            for (client, id) in clients.iter_mut().zip(0..) {
                let answer = client.receive("GET").unwrap();
                assert_eq!(answer.body, body(2, id));
                let (intended_us, actual_us) = answer.held_us().unwrap();
                assert_eq!(Duration::from_micros(intended_us), latency.hold(2, id, 0));
                assert!(actual_us >= intended_us, "{actual_us} of {intended_us}");
                errors.push(actual_us - intended_us);
            }
            let holds: Vec<u64> = (0..50)
                .map(|id| u64::try_from(latency.hold(2, id, 0).as_micros()).unwrap())
                .collect();
            let ledger = target.ledger();
            for (times, expected) in [(ledger.held_us, holds), (ledger.hold_error_us, errors)] {
                let (sum, max) = (expected.iter().sum(), *expected.iter().max().unwrap());
                assert_eq!((times.count, times.sum_us, times.max_us), (50, sum, max));
                assert_eq!(times.buckets.iter().sum::<u64>(), 50);
            }
        },
    );
}

#[test]
fn holds_grow_with_what_is_in_flight_in_all_processes() {
    let growth = "10ms".parse().unwrap();
    // Long enough for all five to be under way together.
    let latency = "1s".parse().unwrap();
    Target::serve(
        &Config {
            latency,
            latency_per_in_flight: growth,
            ..Config::default()
        },
        2,
        |target| {
            let mut clients: Vec<Client> = (0..5).map(|_| target.connect()).collect();
            for client in &mut clients {
                client.send("GET", "/items/7");
            }
            let mut holds: Vec<u64> = clients
                .iter_mut()
                .map(|client| client.receive("GET").unwrap().held_us().unwrap().0)
                .collect();
            holds.sort_unstable();
            assert_eq!(
                holds,
                [1_000_000, 1_010_000, 1_020_000, 1_030_000, 1_040_000]
            );
            // Each of them has left again.
            assert_eq!(target.get("/items/7").held_us().unwrap().0, 1_000_000);
        },
    );
}

#[test]
fn the_first_answer_of_each_connection_is_held_for_the_handshake_and_no_other() {
    let limits = Limits::new(vec!["1/h:burst=5".parse().unwrap()]).unwrap();
    let config = Config {
        latency: "2ms".parse().unwrap(),
        handshake: "30ms".parse().unwrap(),
        limits,
        ..Config::default()
    };
    Target::serve(&config, 2, |target| {
        let hold = |client: &mut Client, path: &str| {
            let answer = client.request("GET", path).unwrap();
            (
                answer.status,
                answer.held_us().map(|(intended_us, _)| intended_us),
            )
        };
        for _ in 0..2 {
            let mut client = target.connect();
            // Orders are not requests for items, and hear nothing of it.
            assert_eq!(hold(&mut client, "/__admin/ledger"), (200, None));
            assert_eq!(hold(&mut client, "/items/7"), (200, Some(32_000)));
            assert_eq!(hold(&mut client, "/items/7"), (200, Some(2_000)));
        }
        let mut refused = target.connect();
        assert_eq!(hold(&mut refused, "/items/8"), (200, Some(32_000)));
        assert_eq!(hold(&mut refused, "/items/8"), (429, None));
        let mut refused = target.connect();
        assert_eq!(hold(&mut refused, "/items/8"), (429, Some(30_000)));
        let ledger = target.ledger();
        assert_eq!((ledger.held_us.count, ledger.held_us.max_us), (6, 32_000));
    });
}

#[test]
fn each_attempt_at_an_item_has_a_hold_and_a_fate_of_its_own() {
    let latency: Latency = "uniform:0,400us".parse().unwrap();
    let faults = "error:0.5".parse().unwrap();
    let config = Config {
        seed: 6,
        latency: latency.clone(),
        faults,
        ..Config::default()
    };
    Target::serve(&config, 2, |target| {
        for attempt in 0..20 {
            // From the sixteenth on they are all alike.
            let known = attempt.min(15);
            let answer = target.get("/items/5");
            let hold =
                Duration::from_micros(answer.held_us().map_or(0, |(intended_us, _)| intended_us));
            assert_eq!(hold, latency.hold(6, 5, known), "attempt {attempt}");
            let fails = config.faults.pick(6, 5, known).is_some();
            assert_eq!(
                answer.status,
                if fails { 500 } else { 200 },
                "attempt {attempt}"
            );
        }
        let both: Vec<bool> = (0..15)
            .map(|attempt| config.faults.pick(6, 5, attempt).is_some())
            .collect();
        assert!(both.contains(&true) && both.contains(&false), "{both:?}");
    });
}

#[test]
fn nothing_is_answered_in_a_stall() {
    let stall: Stall = "100ms,50ms".parse().unwrap();
    // All but the first are refused: a refusal waits for the end of a stall, too.
    let config = Config {
        stall: Some(stall),
        limits: limits("1/h"),
        ..Config::default()
    };
    Target::serve(&config, 2, |target| {
        let clock = target.shared.clock();
        let mut client = target.connect();
        let (mut held, mut answers, mut at_once) = (0, 0, 0);
        target.wait_until(|| {
            let asked_ns = clock.now_ns();
            let answer = client.request("GET", "/items/7").unwrap();
            let answered_ns = clock.now_ns();
            answers += 1;
            assert_eq!(answer.status, if answers == 1 { 200 } else { 429 });
            // RequestView in a stall: answered when it has ended.
            assert!(
                stall
                    .until_ns(asked_ns)
                    .is_none_or(|until_ns| answered_ns >= until_ns)
            );
            match answer.held_us() {
                Some((intended_us, actual_us)) => {
                    held += 1;
                    assert!(intended_us <= 50_000 && intended_us <= actual_us);
                    assert!(answered_ns - asked_ns >= actual_us * 1000);
                }
                None => at_once += 1,
            }
            held >= 3 && at_once >= 3
        });
        assert_eq!(target.ledger().held_us.count, held);
    });
}

#[test]
fn a_tick_lets_answers_out_at_its_multiples() {
    let config = Config {
        stall: Some("20ms,20ms".parse().unwrap()),
        latency: "5ms".parse().unwrap(),
        ..Config::default()
    };
    Target::serve(&config, 1, |target| {
        let clock = target.shared.clock();
        let mut client = target.connect();
        for _ in 0..5 {
            let asked_ns = clock.now_ns();
            let answer = client.request("GET", "/items/7").unwrap();
            let answered_ns = clock.now_ns();
            // Taken at a tick, held beyond it, sent at a later one.
            let ticks = |ns: u64| ns / 20_000_000;
            assert!(ticks(answered_ns) > ticks(asked_ns));
            let (intended_us, actual_us) = answer.held_us().unwrap();
            assert!((20_000..=40_000).contains(&intended_us), "{intended_us}");
            assert!(answered_ns - asked_ns >= actual_us * 1000);
        }
    });
}

#[test]
fn a_pool_of_workers_is_one_for_all_processes() {
    let config = Config {
        latency: "20ms".parse().unwrap(),
        workers: Some("2".parse().unwrap()),
        ..Config::default()
    };
    Target::serve(&config, 3, |target| {
        let clock = target.shared.clock();
        let begun_ns = clock.now_ns();
        let mut clients: Vec<Client> = (0..10).map(|_| target.connect()).collect();
        for client in &mut clients {
            client.send("GET", "/items/7");
        }
        for client in &mut clients {
            assert_eq!(client.receive("GET").unwrap().status, 200);
        }
        // Ten times 20 ms of two workers.
        assert!(clock.now_ns() - begun_ns >= 100_000_000);
    });
}

/// Send `count` requests, each once the one before it has arrived; their connections.
fn sent_in_turn(target: &Target, count: u64) -> Vec<Client> {
    let mut clients = Vec::new();
    for id in 1..=count {
        let mut client = target.connect();
        client.send("GET", &format!("/items/{id}"));
        clients.push(client);
        target.wait_until(|| Ledger::read(&target.shared).requests == id);
    }
    clients
}

#[test]
fn a_full_queue_refuses_at_once() {
    let config = Config {
        latency: "1h".parse().unwrap(),
        workers: Some("2:3".parse().unwrap()),
        ..Config::default()
    };
    Target::serve(&config, 1, |target| {
        let clients = sent_in_turn(target, 5);
        for _ in 0..2 {
            assert_eq!(target.get("/items/9").status, 503);
        }
        let ledger = target.ledger();
        assert_eq!((ledger.queue_full, ledger.abandoned), (2, 0));
        assert_eq!(ledger.by_status, counts(&[(503, 2)]));
        drop(clients);
        target.wait_until(|| Ledger::read(&target.shared).abandoned == 5);
        // Their work is not done yet.
        assert_eq!(target.get("/items/9").status, 503);
    });
}

#[test]
fn the_latest_request_is_served_first_and_whoever_leaves_is_served_all_the_same() {
    let config = Config {
        latency: "500ms".parse().unwrap(),
        workers: Some("1:lifo".parse().unwrap()),
        ..Config::default()
    };
    Target::serve(&config, 1, |target| {
        let mut clients = sent_in_turn(target, 4);
        drop(clients.remove(2));
        let held_us: Vec<u64> = clients
            .iter_mut()
            .map(|client| client.receive("GET").unwrap().held_us().unwrap().1)
            .collect();
        // The first found the worker free; the second came before the fourth, and waited for it and
        // for the third, which had left.
        assert!(
            held_us[0] < held_us[2] && held_us[2] < held_us[1],
            "{held_us:?}"
        );
        assert!(held_us[1] >= 1_500_000, "{held_us:?}");
        assert_eq!(target.ledger().abandoned, 1);
    });
}

#[test]
fn a_connection_carries_as_many_requests_as_it_may() {
    for (text, goodbye) in [("3", Some("close")), ("3:silent", None)] {
        let config = Config {
            keep_alive: Some(text.parse().unwrap()),
            ..Config::default()
        };
        Target::serve(&config, 1, |target| {
            for _ in 0..2 {
                let mut client = target.connect();
                for last in [false, false, true] {
                    let answer = client.request("GET", "/items/7").unwrap();
                    assert_eq!(answer.body, body(0, 7));
                    let said = answer.headers.get("connection").map(String::as_str);
                    assert_eq!(said, goodbye.filter(|_| last));
                }
                assert_eq!(client.rest(), Ok(Vec::new()));
            }
            assert_eq!(Ledger::read(&target.shared).connections, 2);
        });
    }
}

#[test]
fn the_next_connection_is_accepted_when_one_has_ended() {
    let config = Config {
        accept: Some("1:8".parse().unwrap()),
        ..Config::default()
    };
    Target::serve(&config, 1, |target| {
        let mut first = target.connect();
        first.request("GET", "/items/1").unwrap();
        let mut second = target.connect();
        second.send("GET", "/items/2");
        for _ in 0..20 {
            first.request("GET", "/items/1").unwrap();
        }
        assert_eq!(Ledger::read(&target.shared).connections, 1);
        drop(first);
        assert_eq!(second.receive("GET").unwrap().body, body(0, 2));
        assert_eq!(Ledger::read(&target.shared).requests, 22);
    });
}

#[test]
fn an_answer_does_not_wait_for_the_rest_of_the_next_request() {
    Target::serve(&Config::default(), 1, |target| {
        let mut client = target.connect();
        client.write("GET /items/1 HTTP/1.1\r\nHost: target\r\n\r\nGET /items/2 HT");
        assert_eq!(client.receive("GET").unwrap().body, body(0, 1));
        client.write("TP/1.1\r\nHost: target\r\n\r\n");
        assert_eq!(client.receive("GET").unwrap().body, body(0, 2));
    });
}

#[test]
fn a_refused_method_is_answered_whatever_comes_with_it() {
    Target::serve(&Config::default(), 1, |target| {
        for received in [0, 5, 10] {
            let mut client = target.connect();
            let head = "POST /items/1 HTTP/1.1\r\nHost: target\r\nContent-Length: 10\r\n\r\n";
            let request = head.to_owned() + &"x".repeat(received);
            client.write(&request);
            assert_eq!(
                client.receive("POST").map(|answer| answer.status),
                Some(405),
                "{received}"
            );
        }
        assert_eq!(target.ledger().by_status, counts(&[(405, 3)]));
    });
}

#[test]
fn what_is_not_http_ends_its_connection_and_is_not_counted() {
    Target::serve(&Config::default(), 1, |target| {
        let mut client = target.connect();
        client.write("\u{16}\u{3}\u{1} is not HTTP\r\n\r\n");
        assert_eq!(client.receive("GET").map(|answer| answer.status), Some(400));
        assert!(client.rest() == Ok(Vec::new()));
        assert_eq!(target.get("/items/7").status, 200);
        assert_eq!(target.ledger().requests, 1);
    });
}

#[test]
fn stopping_finishes_an_answer_under_way_and_cuts_off_a_long_one() {
    for (hold, is_answered) in [("50ms", true), ("1h", false)] {
        let mut waiting = None;
        Target::serve(
            &Config {
                latency: hold.parse().unwrap(),
                ..Config::default()
            },
            1,
            |target| {
                let mut client = target.connect();
                client.send("GET", "/items/7");
                // Under way once it is counted. The ledger is read in memory.
                target.wait_until(|| Ledger::read(&target.shared).requests > 0);
                waiting = Some(client);
            },
        );
        let answer = waiting.unwrap().receive("GET");
        assert_eq!(answer.is_some(), is_answered, "{hold:?}");
        if let Some(answer) = answer {
            assert_eq!(answer.body, body(0, 7));
            // The connection was told, and did not just run into the end of the grace.
            assert_eq!(answer.headers["connection"], "close");
        }
    }
}
