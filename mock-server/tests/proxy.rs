//! The target as a forward proxy, over real loopback sockets: what a second target, or a server of
//! the test's own, sees of it, with the counts of both as witnesses.
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test may stop at the first surprise, as the test itself may"
)]

use crate::client::{Answer, Client, Head, body, rest, start};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use crawlmark_mock_server::{Config, Handle, Limits, Proxy};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// A proxy for USER "user" and PASS "pass".
fn proxy() -> Handle {
    let proxy = Proxy {
        credentials: Some("user:pass".parse().unwrap()),
        ..Proxy::default()
    };
    start(Config {
        seed: 1,
        proxy: Some(proxy),
        ..Config::default()
    })
}

fn open_proxy() -> Handle {
    start(Config {
        proxy: Some(Proxy::default()),
        ..Config::default()
    })
}

fn basic(user: &str) -> String {
    format!(
        "Proxy-Authorization: Basic {}\r\n",
        BASE64_STANDARD.encode(format!("{user}:pass"))
    )
}

fn error(answer: &Answer) -> String {
    let json: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    json["error"].as_str().unwrap().to_owned()
}

/// What a client asks of a proxy.
trait Proxied: Sized {
    fn of(proxy: &Handle) -> Self;

    /// A request in absolute form for an item of `target`, with more header lines.
    fn get(&mut self, target: SocketAddr, id: u64, more: &str) -> Answer;

    /// A tunnel to `target`, or the answer that refuses it.
    fn tunnel(self, target: &str, more: &str) -> Result<TcpStream, Answer>;
}

impl Proxied for Client {
    fn of(proxy: &Handle) -> Self {
        Self::connect(proxy.address())
    }

    fn get(&mut self, target: SocketAddr, id: u64, more: &str) -> Answer {
        self.write(&format!(
            "GET http://{target}/items/{id} HTTP/1.1\r\nHost: elsewhere\r\n{more}\r\n"
        ));
        self.receive("GET").unwrap()
    }

    fn tunnel(mut self, target: &str, more: &str) -> Result<TcpStream, Answer> {
        self.write(&format!(
            "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{more}\r\n"
        ));
        let answer = self.receive("CONNECT").unwrap();
        if answer.status == 200 {
            Ok(self.reader.into_inner())
        } else {
            Err(answer)
        }
    }
}

const CLOSING: &str = "GET /items/7 HTTP/1.1\r\nHost: target\r\nConnection: close\r\n\r\n";

/// Runs `serve` for one connection to a listener of its own, beside `test`, which is told where it
/// listens.
fn beside<T: Send>(serve: impl FnOnce(TcpStream) -> T + Send, test: impl FnOnce(SocketAddr)) -> T {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::scope(|scope| {
        let served = scope.spawn(move || serve(listener.accept().unwrap().0));
        test(address);
        served.join().unwrap()
    })
}

#[test]
fn each_session_has_an_exit_of_its_own_and_keeps_it() {
    let (proxy, target) = (proxy(), start(Config::default()));
    for label in ["a", "b", "c"] {
        // On two connections of the client, and through a tunnel.
        for id in [1, 2] {
            let answer = Client::of(&proxy).get(
                target.address(),
                id,
                &basic(&format!("user-session-{label}")),
            );
            assert_eq!((answer.status, answer.body), (200, body(0, id)));
            assert_eq!(answer.headers["via"], "1.1 crawlmark");
        }
        let authorization = basic(&format!("user-session-{label}"));
        let mut tunnel = Client::of(&proxy)
            .tunnel(&target.address().to_string(), &authorization)
            .unwrap();
        tunnel.write_all(CLOSING.as_bytes()).unwrap();
        assert!(rest(&mut tunnel).ends_with(&body(0, 7)));
    }
    let (proxied, books) = (proxy.stop().unwrap(), target.stop().unwrap());
    let exits = &books.by_source;
    assert_eq!(
        exits.values().copied().collect::<Vec<_>>(),
        [3, 3, 3],
        "{exits:?}"
    );
    for exit in exits.keys() {
        assert!(exit.starts_with("127.1."), "{exit}");
    }
    // The second request of each session found the first one's connection.
    assert_eq!((books.requests, books.connections), (9, 6));
    // None of it is among the proxy's own.
    assert_eq!((proxied.requests, proxied.connections), (0, 0));
    let proxied = proxied.proxy;
    assert_eq!(
        (proxied.requests, proxied.tunnels, proxied.sessionless),
        (6, 3, 0)
    );
    assert_eq!(
        proxied.by_session,
        ["a", "b", "c"].map(|label| (label.to_owned(), 3)).into()
    );
}

#[test]
fn without_a_label_each_request_and_each_tunnel_goes_out_from_elsewhere() {
    let (proxy, target) = (proxy(), start(Config::default()));
    let mut client = Client::of(&proxy);
    for id in 0..20 {
        assert_eq!(
            client.get(target.address(), id, &basic("user")).body,
            body(0, id)
        );
    }
    for _ in 0..5 {
        let mut tunnel = Client::of(&proxy)
            .tunnel(&target.address().to_string(), &basic("user"))
            .unwrap();
        tunnel.write_all(CLOSING.as_bytes()).unwrap();
        rest(&mut tunnel);
    }
    let (proxied, books) = (proxy.stop().unwrap(), target.stop().unwrap());
    assert_eq!((books.requests, books.connections), (25, 25));
    assert_eq!(books.by_source.len(), 25, "{:?}", books.by_source);
    assert_eq!(
        (proxied.proxy.sessionless, proxied.proxy.by_session.len()),
        (25, 0)
    );
}

#[test]
fn a_limit_by_session_counts_what_is_forwarded_and_others_do_not() {
    let limits = ["2/h:burst=2:key=session:name=sessions", "1/h:name=own"]
        .map(|limit| limit.parse().unwrap());
    let config = Config {
        proxy: Some(Proxy::default()),
        limits: Limits::new(limits.into()).unwrap(),
        ..Config::default()
    };
    let (proxy, target) = (start(config), start(Config::default()));
    for label in ["a", "b"] {
        let mut client = Client::of(&proxy);
        let statuses = [0, 1, 2].map(|id| {
            client
                .get(
                    target.address(),
                    id,
                    &basic(&format!("user-session-{label}")),
                )
                .status
        });
        assert_eq!(statuses, [200, 200, 429], "{label}");
    }
    let proxied = proxy.stop().unwrap();
    let of = |name: &str| {
        (
            proxied.by_limit[name].admitted,
            proxied.by_limit[name].rejected,
        )
    };
    assert_eq!((of("sessions"), of("own")), ((4, 2), (0, 0)));
    // What is forwarded is in the proxy's counts and in those of this limit, and in no others.
    assert_eq!(
        (
            proxied.requests,
            proxied.max_admitted_in_1s,
            proxied.proxy.requests
        ),
        (0, 0, 4)
    );
    assert_eq!(target.stop().unwrap().requests, 4);
}

#[test]
fn nobody_is_let_in_without_the_credentials() {
    let (proxy, target) = (proxy(), start(Config::default()));
    let address = target.address();
    let unlike = format!(
        "Proxy-Authorization: Basic {}\r\n",
        BASE64_STANDARD.encode("user:hidden")
    );
    for more in [
        "Proxy-Authorization: Bearer x\r\n",
        &unlike,
        // Meant for the target, not for the proxy.
        "Authorization: Basic dXNlcjpwYXNz\r\n",
    ] {
        let mut client = Client::of(&proxy);
        let answer = client.get(address, 1, more);
        assert_eq!(answer.status, 407, "{more}");
        assert!(answer.headers["proxy-authenticate"].starts_with("Basic realm="));
        assert!(!format!("{answer:?}").contains("hidden"));
        // The same connection gets in with the right ones.
        assert_eq!(client.get(address, 1, &basic("user")).status, 200);
        let refused = Client::of(&proxy)
            .tunnel(&address.to_string(), more)
            .unwrap_err();
        assert_eq!(refused.status, 407);
    }
    let books = proxy.stop().unwrap().proxy;
    assert_eq!(
        (
            books.requests,
            books.tunnels,
            books.auth_failures,
            books.sessionless
        ),
        (6, 3, 6, 3)
    );
    assert_eq!(target.stop().unwrap().requests, 3);
}

#[test]
fn what_is_out_of_reach_is_refused_and_what_is_no_destination_is_malformed() {
    let proxy = open_proxy();
    let mut tried = 0;
    for host in ["192.0.2.1", "example.invalid"] {
        let mut client = Client::of(&proxy);
        client.write(&format!(
            "GET http://{host}:80/ HTTP/1.1\r\nHost: {host}\r\n\r\n"
        ));
        let answer = client.receive("GET").unwrap();
        assert_eq!(answer.status, 403, "{host}");
        let refused = Client::of(&proxy)
            .tunnel(&format!("{host}:443"), "")
            .unwrap_err();
        assert_eq!((refused.status, error(&refused)), (403, error(&answer)));
        tried += 2;
    }
    for request in [
        "GET https://127.0.0.1/",
        "GET ftp://127.0.0.1/",
        "GET http://127.0.0.1:0/",
        "CONNECT 127.0.0.1:0",
    ] {
        let mut client = Client::of(&proxy);
        client.write(&format!("{request} HTTP/1.1\r\nHost: target\r\n\r\n"));
        assert_eq!(client.receive("GET").unwrap().status, 400, "{request}");
        tried += 1;
    }
    let books = proxy.stop().unwrap().proxy;
    assert_eq!(
        (books.refused, books.requests + books.tunnels),
        (tried, tried)
    );
    assert_eq!(
        (books.upstream_failures, books.bytes_up, books.bytes_down),
        (0, 0, 0)
    );
}

#[test]
fn a_target_that_cannot_be_reached_or_says_nothing_is_the_gateways_error() {
    let patience = Duration::from_millis(50);
    let proxy = start(Config {
        proxy: Some(Proxy {
            patience,
            ..Proxy::default()
        }),
        ..Config::default()
    });
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    assert_eq!(Client::of(&proxy).get(free, 1, "").status, 502);
    assert_eq!(
        Client::of(&proxy)
            .tunnel(&free.to_string(), "")
            .unwrap_err()
            .status,
        502
    );
    // The kernel accepts for it, and nobody answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let answer = Client::of(&proxy).get(silent.local_addr().unwrap(), 1, "");
    assert_eq!(
        (answer.status, error(&answer).contains("50ms")),
        (504, true)
    );
    for leaving in ["", "nonsense\r\n\r\n"] {
        let serve = |mut stream: TcpStream| {
            Head::read(&mut BufReader::new(&stream)).unwrap();
            stream.write_all(leaving.as_bytes()).unwrap();
        };
        beside(serve, |address| {
            assert_eq!(Client::of(&proxy).get(address, 1, "").status, 502);
        });
    }
    assert_eq!(proxy.stop().unwrap().proxy.upstream_failures, 5);
}

#[test]
fn a_request_goes_out_as_a_proxy_sends_it() {
    let proxy = proxy();
    let serve = |mut stream: TcpStream| {
        let head = Head::read(&mut BufReader::new(&stream)).unwrap();
        let answer = "HTTP/1.1 203 Fine\r\nContent-Length: 2\r\nConnection: keep-alive, X-Hop\r\nKeep-Alive: timeout=5\r\n\
                      X-Hop: 1\r\nX-End: 2\r\nProxy-Authenticate: Basic\r\nVia: 1.0 other\r\n\r\nok";
        stream.write_all(answer.as_bytes()).unwrap();
        (head, stream.peer_addr().unwrap().ip())
    };
    let (Head { line, headers }, peer) = beside(serve, |address| {
        let mut client = Client::of(&proxy);
        client.write(&format!(
            "GET http://me:secret@{address}/a%20b?c=d HTTP/1.1\r\nHost: elsewhere\r\n{}Connection: close, X-Hop\r\n\
             X-Hop: 1\r\nX-End: 2\r\nProxy-Connection: keep-alive\r\nTE: trailers\r\nUpgrade: h2c\r\nKeep-Alive: 5\r\n\
             Authorization: Bearer z\r\n\r\n",
            basic("user-session-x")
        ));
        let answer = client.receive("GET").unwrap();
        assert_eq!((answer.status, answer.body), (203, b"ok".to_vec()));
        assert_eq!(answer.headers["x-end"], "2");
        assert!(answer.headers["via"].ends_with("1.1 crawlmark"));
        for name in ["x-hop", "keep-alive", "proxy-authenticate"] {
            assert!(!answer.headers.contains_key(name), "{name}");
        }
    });
    assert_eq!(line, "GET /a%20b?c=d HTTP/1.1");
    let mut names: Vec<&str> = headers.keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["authorization", "host", "via", "x-end"]);
    assert!(headers["host"].starts_with("127.0.0.1:"), "{headers:?}");
    let IpAddr::V4(peer) = peer else {
        panic!("{peer}")
    };
    assert_eq!(peer.octets()[..2], [127, 1]);
}

#[test]
fn bodies_go_through_both_ways_however_they_are_framed() {
    const LENGTH: usize = 3_000_000;
    let proxy = open_proxy();
    let sent: Vec<u8> = (0..=250).cycle().take(LENGTH).collect();
    let chunked = [
        format!("{LENGTH:x}\r\n").as_bytes(),
        &sent,
        b"\r\n0\r\n\r\n",
    ]
    .concat();
    let lengths = format!("Content-Length: {LENGTH}\r\n");
    for (framing, bytes) in [
        (lengths.as_str(), &sent),
        ("Transfer-Encoding: chunked\r\n", &chunked),
    ] {
        // Sends back what it receives, in the framing that it received.
        let serve = |stream: TcpStream| {
            let mut reader = BufReader::new(&stream);
            let Head { line, headers } = Head::read(&mut reader).unwrap();
            assert!(line.starts_with("POST / "), "{line}");
            let framing = ["content-length", "transfer-encoding"]
                .into_iter()
                .find_map(|name| Some(format!("{name}: {}\r\n", headers.get(name)?)))
                .unwrap_or_default();
            (&stream)
                .write_all(format!("HTTP/1.1 200 OK\r\n{framing}\r\n").as_bytes())
                .unwrap();
            let mut buffer = [0; 10_000];
            loop {
                // The proxy closes when its client has.
                match reader.read(&mut buffer) {
                    Ok(length @ 1..) => (&stream).write_all(&buffer[..length]).unwrap(),
                    _ => return framing,
                }
            }
        };
        let framed = beside(serve, |address| {
            let client = Client::of(&proxy);
            let mut writer = client.reader.get_ref().try_clone().unwrap();
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    let head =
                        format!("POST http://{address}/ HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n{framing}\r\n");
                    writer.write_all(head.as_bytes()).unwrap();
                    writer.write_all(bytes).unwrap();
                });
                let mut reader = client.reader;
                let Head { line, .. } = Head::read(&mut reader).unwrap();
                assert_eq!(line, "HTTP/1.1 100 Continue");
                let Head { line, headers } = Head::read(&mut reader).unwrap();
                assert_eq!(line, "HTTP/1.1 200 OK");
                let received = if headers.contains_key("content-length") {
                    let mut body = vec![0; LENGTH];
                    reader.read_exact(&mut body).unwrap();
                    body
                } else {
                    unchunked(&mut reader)
                };
                assert!(received == sent);
            });
        });
        assert_eq!(framed.to_ascii_lowercase(), framing.to_ascii_lowercase());
    }
    let books = proxy.stop().unwrap().proxy;
    assert_eq!(
        (books.bytes_up, books.bytes_down),
        (2 * LENGTH as u64, 2 * LENGTH as u64)
    );
}

fn unchunked(reader: &mut impl BufRead) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let length = usize::from_str_radix(line.trim_end(), 16).unwrap();
        let mut chunk = vec![0; length + 2];
        reader.read_exact(&mut chunk).unwrap();
        if length == 0 {
            return body;
        }
        body.extend_from_slice(&chunk[..length]);
    }
}

#[test]
fn an_answer_that_breaks_off_breaks_off_here_too() {
    let proxy = open_proxy();
    let serve = |mut stream: TcpStream| {
        Head::read(&mut BufReader::new(&stream)).unwrap();
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
            .unwrap();
    };
    beside(serve, |address| {
        let mut client = Client::of(&proxy);
        client.write(&format!(
            "GET http://{address}/ HTTP/1.1\r\nHost: x\r\n\r\n"
        ));
        let Head { headers, .. } = Head::read(&mut client.reader).unwrap();
        assert_eq!(headers["content-length"], "100");
        let mut received = Vec::new();
        // An end or a reset, but no more than what there was.
        let _ = client.reader.read_to_end(&mut received);
        assert_eq!(received, b"half");
    });
}

#[test]
fn a_kept_connection_that_has_ended_is_replaced() {
    let (proxy, listener) = (open_proxy(), TcpListener::bind("127.0.0.1:0").unwrap());
    let address = listener.local_addr().unwrap();
    let session = basic("x-session-a");
    let answer = || {
        let (stream, _) = listener.accept().unwrap();
        Head::read(&mut BufReader::new(&stream)).unwrap();
        (&stream)
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            .unwrap();
        stream
    };
    let mut client = Client::of(&proxy);
    std::thread::scope(|scope| {
        for _ in 0..5 {
            // Closed as soon as it has answered, without a word: the next request meets it closed,
            // or closing.
            let served = scope.spawn(|| drop(answer()));
            assert_eq!(client.get(address, 1, &session).status, 200);
            served.join().unwrap();
        }
        // And one that stays is used again.
        let served = scope.spawn(|| {
            let stream = answer();
            Head::read(&mut BufReader::new(&stream)).unwrap();
            (&stream)
                .write_all(b"HTTP/1.1 201 OK\r\nContent-Length: 0\r\n\r\n")
                .unwrap();
        });
        assert_eq!(client.get(address, 1, &session).status, 200);
        assert_eq!(client.get(address, 1, &session).status, 201);
        served.join().unwrap();
    });
}

#[test]
fn the_targets_own_items_are_served_beside_the_proxy_and_the_proxy_can_be_asked_for_them() {
    let proxy = proxy();
    let mut client = Client::of(&proxy);
    client.write("GET /items/7 HTTP/1.1\r\nHost: x\r\n\r\n");
    let own = client.receive("GET").unwrap();
    assert_eq!((own.status, own.headers.contains_key("via")), (200, false));
    let forwarded = client.get(proxy.address(), 7, &basic("user-session-a"));
    assert_eq!(
        (
            forwarded.status,
            forwarded.body,
            forwarded.headers.contains_key("via")
        ),
        (200, own.body, true)
    );
    let books = proxy.stop().unwrap();
    assert_eq!(
        (books.requests, books.connections, books.proxy.requests),
        (2, 2, 1)
    );
}

#[test]
fn a_tunnel_carries_bytes_both_ways_and_each_end_on_its_own() {
    let proxy = open_proxy();
    let serve = |mut stream: TcpStream| {
        let received = rest(&mut stream);
        // The client has ended its half; this one still carries.
        stream.write_all(b"got ").unwrap();
        stream.write_all(&received).unwrap();
    };
    beside(serve, |address| {
        let mut client = Client::of(&proxy);
        // The first bytes come along with the request for the tunnel.
        client.write(&format!(
            "CONNECT {address} HTTP/1.1\r\nHost: x\r\n\r\nearly, "
        ));
        assert_eq!(client.receive("GET").unwrap().status, 200);
        client.write("late");
        client.reader.get_ref().shutdown(Shutdown::Write).unwrap();
        assert_eq!(rest(&mut client.reader), b"got early, late");
    });
    let books = proxy.stop().unwrap().proxy;
    assert_eq!(
        (books.tunnels, books.bytes_up, books.bytes_down),
        (1, 11, 15)
    );
}

#[test]
fn a_reset_goes_through_a_tunnel() {
    let proxy = open_proxy();
    let serve = |stream: TcpStream| {
        socket2::SockRef::from(&stream)
            .set_linger(Some(Duration::ZERO))
            .unwrap();
        let mut reader = BufReader::new(stream);
        reader.read_exact(&mut [0; 2]).unwrap();
    };
    beside(serve, |address| {
        let mut tunnel = Client::of(&proxy).tunnel(&address.to_string(), "").unwrap();
        tunnel.write_all(b"hi").unwrap();
        let error = tunnel.read(&mut [0; 1]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    });
}

#[test]
fn stopping_ends_tunnels_and_kept_connections() {
    let (proxy, target) = (open_proxy(), start(Config::default()));
    let session = basic("x-session-a");
    assert_eq!(
        Client::of(&proxy).get(target.address(), 1, &session).status,
        200
    );
    let mut tunnels: Vec<TcpStream> = (0..10)
        .map(|_| {
            Client::of(&proxy)
                .tunnel(&target.address().to_string(), "")
                .unwrap()
        })
        .collect();
    tunnels[0]
        .write_all(b"GET /items/7 HTTP/1.1\r\nHost: x\r\n")
        .unwrap();
    proxy.stop().unwrap();
    for tunnel in &mut tunnels {
        // An end, or a reset where bytes were still on their way.
        let _ = tunnel.read_to_end(&mut Vec::new());
    }
}
