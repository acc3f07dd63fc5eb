//! HTTP/2 and TLS over real loopback sockets, with the target's own counts as the second witness.
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test may stop at the first surprise, as the test itself may"
)]

use crate::client::{Local, PATIENCE, body, connect, rest, start};
use bytes::Bytes;
use crawlmark_mock_server::{Config, Faults, Handle, Http, Latency, Tls};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, LocalOptions};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// A SETTINGS frame without settings.
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

/// One HTTP/2 connection by prior knowledge, for as long as `test` runs.
fn with_http2<Test: Future<Output = ()>>(
    target: SocketAddr,
    test: impl FnOnce(SendRequest<Full<Bytes>>) -> Test,
) {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
        .unwrap();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(target).await.unwrap();
        let (sender, connection) = handshake(Local, TokioIo::new(stream)).await.unwrap();
        tokio::task::spawn_local(async move { drop(connection.await) });
        tokio::time::timeout(PATIENCE, test(sender)).await.unwrap();
    });
}

fn request(method: Method, path: &str) -> Request<Full<Bytes>> {
    Request::builder()
        .method(method)
        .uri(format!("http://target{path}"))
        .body(Full::default())
        .unwrap()
}

async fn whole(response: Response<Incoming>) -> Vec<u8> {
    response
        .into_body()
        .collect()
        .await
        .unwrap()
        .to_bytes()
        .into()
}

#[test]
fn head_has_the_length_and_no_body_and_other_methods_are_refused() {
    let target = start(Config::default());
    with_http2(target.address(), |mut sender| async move {
        let answer = sender
            .send_request(request(Method::HEAD, "/items/7"))
            .await
            .unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(
            answer.headers()["content-length"],
            body(0, 7).len().to_string().as_str()
        );
        assert!(whole(answer).await.is_empty());
        let mut post = request(Method::POST, "/items/7");
        *post.body_mut() = Full::from(vec![b'x'; 100_000]);
        let answer = sender.send_request(post).await.unwrap();
        assert_eq!(
            (
                answer.status().as_u16(),
                answer.headers()["allow"].to_str().unwrap()
            ),
            (405, "GET, HEAD")
        );
        // The connection goes on.
        let answer = sender
            .send_request(request(Method::GET, "/__admin/health"))
            .await
            .unwrap();
        assert_eq!(answer.status(), 200);
    });
    assert_eq!(target.stop().unwrap().requests, 2);
}

#[test]
fn a_fault_over_http2_resets_its_stream_and_no_other() {
    let faults: Faults = "drop:0.3,reset:0.2".parse().unwrap();
    let target = start(Config {
        seed: 4,
        faults: faults.clone(),
        ..Config::default()
    });
    with_http2(target.address(), |mut sender| async move {
        for id in 0..50 {
            let answer = sender
                .send_request(request(Method::GET, &format!("/items/{id}")))
                .await;
            assert_eq!(answer.is_err(), faults.pick(4, id, 0).is_some(), "{id}");
        }
    });
    let ledger = target.stop().unwrap();
    assert_eq!(
        (
            ledger.requests,
            ledger.connections,
            ledger.http2_connections
        ),
        (50, 1, 1)
    );
    assert_eq!(
        ledger.faults["drop"] + ledger.faults["reset"] + ledger.by_status[&200],
        50
    );
}

#[test]
fn requests_end_when_their_streams_or_their_connection_do() {
    let latency: Latency = "bimodal:0,1h,0.5".parse().unwrap();
    // Beyond the ids that are tracked every attempt is as the first.
    let id = |hold| {
        (1 << 30..1 << 31)
            .find(|id| latency.hold(3, *id, 0) == hold)
            .unwrap()
    };
    let slow = &format!("/items/{}", id(Duration::from_hours(1)));
    let fast = format!("/items/{}", id(Duration::ZERO));
    let latency_per_in_flight = "1us".parse().unwrap();
    let target = start(Config {
        seed: 3,
        latency: latency.clone(),
        latency_per_in_flight,
        ..Config::default()
    });
    // An item that is not held, but for as many microseconds as there are other requests.
    let others = || {
        let mut stream = connect(target.address());
        let request = format!("GET {fast} HTTP/1.1\r\nHost: target\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let answer = String::from_utf8(rest(&mut stream)).unwrap();
        let held = answer
            .lines()
            .find_map(|line| line.strip_prefix("x-mock-hold-us: "));
        held.map_or(0, |held| held.parse::<u64>().unwrap())
    };
    let wait_for = async |expected| {
        while others() != expected {
            tokio::task::yield_now().await;
        }
    };
    with_http2(target.address(), |mut sender| async move {
        let mut answers = Vec::new();
        for _ in 0..20 {
            sender.ready().await.unwrap();
            answers.push(sender.send_request(request(Method::GET, slow)));
        }
        wait_for(20).await;
        // Each sends a RST_STREAM.
        answers.truncate(5);
        wait_for(5).await;
    });
    // The runtime is gone, and the connection with it.
    while others() > 0 {}
    let mut leaving: Vec<TcpStream> = (0..20).map(|_| connect(target.address())).collect();
    for stream in &mut leaving {
        let request = format!("GET {slow} HTTP/1.1\r\nHost: target\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
    }
    while others() < 20 {}
    drop(leaving);
    while others() > 0 {}
    let ledger = target.stop().unwrap();
    assert!(ledger.held_us.max_us <= 20);
    assert_eq!(ledger.requests - ledger.by_status[&200], 40);
}

#[test]
fn a_connection_may_begin_in_any_pieces() {
    let target = start(Config::default());
    let get = b"GET /items/7 HTTP/1.1\r\nHost: target\r\nConnection: close\r\n\r\n";
    let post =
        b"POST /items/7 HTTP/1.1\r\nHost: target\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    for piece in [1, 2, 3, 23, 24, 25, 1000] {
        for (bytes, status) in [(&get[..], "200"), (&post[..], "405")] {
            let mut stream = connect(target.address());
            for piece in bytes.chunks(piece) {
                stream.write_all(piece).unwrap();
            }
            let answer = String::from_utf8(rest(&mut stream)).unwrap();
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status} ")),
                "{piece}: {answer}"
            );
        }
        let mut stream = connect(target.address());
        for piece in [PREFACE, SETTINGS].concat().chunks(piece) {
            stream.write_all(piece).unwrap();
        }
        let mut head = [0; 9];
        stream.read_exact(&mut head).unwrap();
        assert_eq!(head[3], 4, "{piece}: no SETTINGS frame: {head:?}");
    }
    let ledger = target.stop().unwrap();
    assert_eq!((ledger.requests, ledger.http2_connections), (14, 7));
}

#[test]
fn a_choice_of_one_version_is_kept_to() {
    let target = start(Config {
        http: Http::Http1,
        ..Config::default()
    });
    let mut stream = connect(target.address());
    stream.write_all(&[PREFACE, SETTINGS].concat()).unwrap();
    assert!(!rest(&mut stream).starts_with(&[0, 0]));
    assert_eq!(target.stop().unwrap().http2_connections, 0);

    let target = start(Config {
        http: Http::Http2,
        ..Config::default()
    });
    let mut stream = connect(target.address());
    stream
        .write_all(b"GET /items/7 HTTP/1.1\r\nHost: target\r\nConnection: close\r\n\r\n")
        .unwrap();
    assert!(!rest(&mut stream).starts_with(b"HTTP/1.1 2"));
    let ledger = target.stop().unwrap();
    assert_eq!((ledger.http2_connections, ledger.requests), (1, 0));
}

/// A TLS client that trusts `pem` and offers `alpn`.
fn client(pem: &str, alpn: &[&str]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    Arc::new(config)
}

fn tls(
    target: &Handle,
    client: &Arc<ClientConfig>,
    name: &str,
) -> StreamOwned<ClientConnection, TcpStream> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    StreamOwned::new(
        ClientConnection::new(Arc::clone(client), name).unwrap(),
        connect(target.address()),
    )
}

/// Does the handshake; the error that it meets, if so.
fn shake(stream: &mut StreamOwned<ClientConnection, TcpStream>) -> std::io::Result<()> {
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    Ok(())
}

const CLOSING: &[u8] = b"GET /items/7 HTTP/1.1\r\nHost: target\r\nConnection: close\r\n\r\n";

#[test]
fn what_is_spoken_is_what_both_sides_offer() {
    let certificate = Tls::generate(&[]).unwrap();
    for (http, offered, agreed) in [
        (Http::Auto, &["h2", "http/1.1"][..], Ok(Some("h2"))),
        (Http::Auto, &["http/1.1", "h2"], Ok(Some("h2"))),
        (Http::Auto, &["http/1.1"], Ok(Some("http/1.1"))),
        (Http::Auto, &[], Ok(None)),
        (Http::Auto, &["spdy/3"], Err(())),
        (Http::Http1, &["h2", "http/1.1"], Ok(Some("http/1.1"))),
        (Http::Http1, &["h2"], Err(())),
        (Http::Http2, &["h2", "http/1.1"], Ok(Some("h2"))),
        (Http::Http2, &["http/1.1"], Err(())),
    ] {
        let target = start(Config {
            tls: Some(certificate.clone()),
            http,
            ..Config::default()
        });
        let mut stream = tls(
            &target,
            &client(certificate.certificate_pem(), offered),
            "localhost",
        );
        let shaken = shake(&mut stream).map_err(drop);
        let protocol = || {
            stream
                .conn
                .alpn_protocol()
                .map(|name| String::from_utf8(name.to_vec()).unwrap())
        };
        assert_eq!(
            shaken.map(|()| protocol()),
            agreed.map(|name| name.map(str::to_owned)),
            "{http:?} {offered:?}"
        );
        if agreed == Ok(Some("h2")) {
            stream.write_all(&[PREFACE, SETTINGS].concat()).unwrap();
            let mut head = [0; 9];
            stream.read_exact(&mut head).unwrap();
            assert_eq!(head[3], 4);
        } else if agreed.is_ok() {
            stream.write_all(CLOSING).unwrap();
            assert!(rest(&mut stream).starts_with(b"HTTP/1.1 200 "));
        }
        drop(stream);
        let ledger = target.stop().unwrap();
        assert_eq!(
            ledger.http2_connections,
            u64::from(agreed == Ok(Some("h2")))
        );
        assert_eq!(
            (ledger.tls_connections, ledger.tls_handshake_failures),
            if agreed.is_ok() { (1, 0) } else { (0, 1) }
        );
    }
}

#[test]
fn handshakes_that_fail_or_hang_do_not_hurt_others() {
    let certificate = Tls::generate(&[]).unwrap();
    let client = client(certificate.certificate_pem(), &[]);
    let target = start(Config {
        tls: Some(certificate),
        ..Config::default()
    });
    // The beginning of a ClientHello that never goes on, and nothing at all.
    let mut hanging: Vec<TcpStream> = (0..20).map(|_| connect(target.address())).collect();
    for stream in &mut hanging[..10] {
        stream.write_all(&[0x16, 3, 1, 2, 0, 1, 0]).unwrap();
    }
    for garbage in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0xff; 4096],
        &[0x16, 3, 1, 0xff, 0xff],
        PREFACE,
    ] {
        let mut stream = connect(target.address());
        stream.write_all(garbage).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        rest(&mut stream);
    }
    let mut stream = tls(&target, &client, "localhost");
    stream.write_all(CLOSING).unwrap();
    assert!(rest(&mut stream).ends_with(&body(0, 7)));
    let ledger = target.stop().unwrap();
    assert_eq!(
        (
            ledger.tls_connections,
            ledger.tls_handshake_failures,
            ledger.requests
        ),
        (1, 4, 1)
    );
    // Stopping has ended what was hanging; that is not their failure.
    assert!(hanging.iter_mut().all(|stream| rest(stream).is_empty()));
}

#[test]
fn faults_go_through_tls() {
    let certificate = Tls::generate(&[]).unwrap();
    let client = client(certificate.certificate_pem(), &[]);
    let meet = |fault: &str| {
        let faults = format!("{fault}:1").parse().unwrap();
        let target = start(Config {
            tls: Some(certificate.clone()),
            faults,
            ..Config::default()
        });
        let mut stream = tls(&target, &client, "localhost");
        stream
            .write_all(b"GET /items/7 HTTP/1.1\r\nHost: target\r\n\r\n")
            .unwrap();
        let mut received = Vec::new();
        let ended = stream.read_to_end(&mut received);
        assert_eq!(target.stop().unwrap().faults[fault], 1);
        (ended.map_err(|error| error.kind()), received)
    };
    // An end without a close_notify would be an error here (RFC 8446, 6.1).
    assert_eq!(meet("drop"), (Ok(0), vec![]));
    assert_eq!(meet("reset"), (Err(ErrorKind::ConnectionReset), vec![]));
    let (ended, received) = meet("truncated");
    assert!(
        ended.is_ok() && received.starts_with(b"HTTP/1.1 200 ") && !received.ends_with(&body(0, 7))
    );
    let (ended, received) = meet("garbage");
    assert!(ended.is_ok() && !received.is_empty() && !received.starts_with(b"HTTP/1.1 "));
}

#[test]
fn a_session_is_resumed_with_a_ticket_by_any_handle_to_the_certificate() {
    let certificate = Tls::generate(&[]).unwrap();
    let client = client(certificate.certificate_pem(), &[]);
    let config = Config {
        tls: Some(certificate),
        ..Config::default()
    };
    let kinds = [(); 2].map(|()| {
        // Another server each time, as another process would be.
        let target = start(config.clone());
        let mut stream = tls(&target, &client, "localhost");
        stream.write_all(CLOSING).unwrap();
        rest(&mut stream);
        stream.conn.handshake_kind()
    });
    assert_eq!(
        kinds,
        [
            Some(rustls::HandshakeKind::Full),
            Some(rustls::HandshakeKind::Resumed)
        ]
    );
}

#[test]
fn stopping_ends_idle_connections_of_every_kind() {
    let plain = start(Config::default());
    let mut silent = connect(plain.address());
    let mut beginning = connect(plain.address());
    beginning.write_all(&PREFACE[..10]).unwrap();
    let mut open = connect(plain.address());
    open.write_all(&[PREFACE, SETTINGS].concat()).unwrap();
    open.read_exact(&mut [0; 9]).unwrap();

    let certificate = Tls::generate(&[]).unwrap();
    let client = client(certificate.certificate_pem(), &["http/1.1"]);
    let secret = start(Config {
        tls: Some(certificate),
        ..Config::default()
    });
    let mut shaken = tls(&secret, &client, "localhost");
    shake(&mut shaken).unwrap();
    let mut asked = tls(&secret, &client, "localhost");
    asked
        .write_all(b"GET /items/7 HTTP/1.1\r\nHost: target\r\n\r\n")
        .unwrap();
    while secret.ledger().by_status.is_empty() {
        std::thread::yield_now();
    }
    let address = plain.address();
    let (_, secret) = (plain.stop().unwrap(), secret.stop().unwrap());
    assert!(TcpStream::connect(address).is_err(), "its port is free");
    for stream in [&mut silent, &mut beginning, &mut open] {
        rest(stream);
    }
    assert!(rest(&mut shaken).is_empty());
    assert!(rest(&mut asked).ends_with(&body(0, 7)));
    assert_eq!(secret.tls_connections, 2);
}
