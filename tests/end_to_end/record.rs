//! `serve --record`: what another service answered, and how long it took, as stubs.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::Client;
use crate::command::{Done, json as read, run};
use crate::raw::nobody;
use crate::run::crawl;
use crate::scripted::{OK, Peer, with_server};
use crate::stubs;
use crate::target::{Target, assert_agree};

/// A target that passes everything on to `url`, and records it below `place`.
fn recorder(url: &str, place: &TempDir, more: &str) -> Target {
    Target::start(&stubs::flags(place, &format!("--record {url} {more}")))
}

/// The recording below `place`.
fn recording(place: &Path) -> Value {
    read(&place.join("mappings/recorded.json"))
}

/// The stub of a URL.
fn stub<'r>(recording: &'r Value, url: &str) -> &'r Value {
    let mut stubs = recording["mappings"].as_array().unwrap().iter();
    stubs.find(|stub| stub["request"]["url"] == url).unwrap()
}

#[test]
fn a_recording_is_served_with_the_bodies_and_the_times_of_the_service() {
    let place = tempfile::tempdir().unwrap();
    let service = Target::start("--seed 7 --latency uniform:5ms,20ms");
    let through = recorder(service.origin(), &place, "");
    let flags = "-n 300 -c 8 --rate 400/s --burst 8 --expect items:7";
    let report = crawl(&format!("{} {flags}", through.url()));
    let ledger = service.ledger();
    assert_agree(&report, &ledger);
    assert_eq!(through.stop()["by_status"], json!({"200": 300}));

    let replay = Target::start(&stubs::flags(&place, ""));
    let report = crawl(&format!("{} {flags}", replay.url()));
    let replayed = replay.ledger();
    assert_agree(&report, &replayed);
    assert_eq!(replayed["stub_answers"], 300);
    // One response of each URL: its time is that of the recording, which is longer than the hold.
    let planned = |ledger: &Value, field: &str| ledger["held_us"][field].as_f64().unwrap();
    assert_eq!(replayed["held_us"]["count"], 300);
    for field in ["sum_us", "max_us"] {
        assert!(planned(&replayed, field) > 0.99 * planned(&ledger, field));
    }
    let recording = recording(place.path());
    assert_eq!(
        recording["meta"]["counts"],
        json!({"urls": 300, "recorded": 300, "other_body": 0, "other_status": 0, "too_large": 0,
               "no_room": 0, "cut_short": 0, "unanswered": 0})
    );
}

#[test]
fn secrets_and_the_headers_of_a_connection_are_neither_passed_on_nor_written() {
    let heard = std::sync::Mutex::new(Vec::new());
    let service = |mut peer: Peer| {
        while let Some(request) = peer.request_with_body() {
            heard.lock().unwrap().push(request);
            peer.send(
                "HTTP/1.1 201 Created\r\nset-cookie: session=secret1\r\nconnection: x-hop\r\nx-hop: 1\r\n\
                 x-two: a\r\nx-two: b\r\ncontent-type: text/x\r\ncontent-length: 3\r\n\r\n\x01\"\n",
            );
        }
    };
    let place = tempfile::tempdir().unwrap();
    with_server(service, |address| {
        let through = recorder(&format!("http://{address}"), &place, "");
        let lines = "authorization: Bearer secret2\r\ncookie: a=secret3\r\nconnection: x-mine\r\nx-mine: 1\r\n\
                     x-key: secret4\r\nte: trailers\r\n";
        let answer = Client::connect(&through).get("/a?b=c", lines);
        assert_eq!(
            (answer.status, answer.headers["set-cookie"].as_str()),
            (201, "session=secret1")
        );
        assert!(!answer.headers.contains_key("x-hop"));
        through.stop();
        let request = heard.lock().unwrap()[0].clone();
        for passed in [
            "GET /a?b=c HTTP/1.1",
            "Bearer secret2",
            "a=secret3",
            "secret4",
            &format!("host: {address}"),
        ] {
            assert!(request.contains(passed), "{passed} in {request}");
        }
        assert!(
            !request.contains("x-mine") && !request.contains("te:"),
            "{request}"
        );
    });
    let text = fs::read_to_string(place.path().join("mappings/recorded.json")).unwrap();
    assert!(!text.contains("secret"), "{text}");
    let recording = recording(place.path());
    let response = &stub(&recording, "/a?b=c")["response"];
    assert_eq!(
        (
            &response["status"],
            &response["headers"],
            &response["base64Body"]
        ),
        (
            &json!(201),
            &json!({"x-two": ["a", "b"], "content-type": ["text/x"]}),
            &json!("ASIK")
        )
    );
    let replay = Target::start(&stubs::flags(&place, ""));
    let answer = Client::connect(&replay).get("/a?b=c", "");
    assert_eq!((answer.status, &*answer.body), (201, &b"\x01\"\n"[..]));
}

#[test]
fn what_is_not_recorded_is_passed_on_and_counted() {
    let service = |mut peer: Peer| {
        let mut busy = true;
        while let Some(path) = peer.request() {
            match &*path {
                "/large" => {
                    let length = (1 << 20) + 1;
                    peer.send(&format!(
                        "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n"
                    ));
                    peer.send_bytes(&vec![b'x'; length]);
                }
                "/cut" => {
                    peer.send("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf");
                    return;
                }
                "/gone" => return,
                "/busy" if std::mem::take(&mut busy) => {
                    peer.send("HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n");
                }
                "/chunks" => peer.send(
                    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
                ),
                _ => peer.send(OK),
            }
        }
    };
    let place = tempfile::tempdir().unwrap();
    with_server(service, |address| {
        let through = recorder(&format!("http://{address}"), &place, "");
        let mut client = Client::connect(&through);
        assert_eq!(client.get("/large", "").body.len(), (1 << 20) + 1);
        let statuses = ["/busy", "/busy", "/busy", "/gone"].map(|path| client.get(path, "").status);
        assert_eq!(statuses, [503, 200, 200, 502]);
        client.send("/cut", "");
        assert!(client.receive().is_none());
        let mut stream = TcpStream::connect(through.address()).unwrap();
        let request = "GET /chunks HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("\r\n\r\n2\r\nok\r\n0\r\n\r\n"), "{answer}");
        let ledger = through.stop();
        assert_eq!(ledger["requests"], 7);
    });
    let recording = recording(place.path());
    assert_eq!(
        recording["meta"]["counts"],
        json!({"urls": 2, "recorded": 3, "other_body": 0, "other_status": 1, "too_large": 1,
               "no_room": 0, "cut_short": 1, "unanswered": 1})
    );
    assert_eq!(stub(&recording, "/busy")["response"]["body"], "ok");
}

#[test]
fn a_client_that_wants_a_part_leaves_a_whole_stub_and_trailers_are_passed_on_and_kept() {
    let service = |mut peer: Peer| {
        while let Some(request) = peer.request_with_body() {
            let wants_part = ["if-none-match", "range", "if-match"]
                .iter()
                .any(|name| request.contains(&format!("\r\n{name}:")));
            if wants_part {
                peer.send("HTTP/1.1 304 Not Modified\r\netag: \"1\"\r\n\r\n");
            } else {
                peer.send(
                    "HTTP/1.1 200 OK\r\netag: \"1\"\r\ntrailer: x-check\r\ntransfer-encoding: chunked\r\n\r\n\
                     5\r\nwhole\r\n0\r\nx-check: 9\r\nset-cookie: a=b\r\n\r\n",
                );
            }
        }
    };
    let get = |target: &Target, path: &str, method: &str, lines: &str| {
        let mut stream = TcpStream::connect(target.address()).unwrap();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close, te\r\nte: trailers\r\n{lines}\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let place = tempfile::tempdir().unwrap();
    with_server(service, |address| {
        let through = recorder(&format!("http://{address}"), &place, "");
        for (path, lines) in [
            ("/plain", ""),
            (
                "/known",
                "if-none-match: \"1\"\r\nif-modified-since: Sat, 01 Jan 2000 00:00:00 GMT\r\n",
            ),
            ("/part", "range: bytes=1-2\r\nif-range: \"1\"\r\n"),
            (
                "/same",
                "if-match: \"2\"\r\nif-unmodified-since: Sat, 01 Jan 2000 00:00:00 GMT\r\n",
            ),
        ] {
            let answer = get(&through, path, "GET", lines);
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
            assert!(
                answer.ends_with("5\r\nwhole\r\n0\r\nx-check: 9\r\n\r\n"),
                "{answer}"
            );
        }
        // A condition on a change is the client's to set.
        let answer = get(
            &through,
            "/change",
            "PUT",
            "if-none-match: \"1\"\r\ncontent-length: 0\r\n",
        );
        assert!(answer.starts_with("HTTP/1.1 304 "), "{answer}");
        through.stop();
    });
    let recording = recording(place.path());
    for path in ["/plain", "/known", "/part", "/same"] {
        let stub = stub(&recording, path);
        assert_eq!(
            (&stub["response"]["status"], &stub["response"]["body"]),
            (&json!(200), &json!("whole"))
        );
        assert_eq!(
            stub["metadata"]["x-trailers"].as_object().unwrap().len(),
            1,
            "{stub}"
        );
        assert!(
            stub["metadata"]["x-trailers"]["x-check"]
                .to_string()
                .contains('9'),
            "{stub}"
        );
    }
}

#[test]
fn a_request_that_a_service_left_on_an_idle_connection_goes_again_if_it_may() {
    // Each connection is closed at its second request.
    let service = |mut peer: Peer| {
        if peer.request_with_body().is_some() {
            peer.send(OK);
            peer.request_with_body();
        }
    };
    let place = tempfile::tempdir().unwrap();
    with_server(service, |address| {
        let through = recorder(&format!("http://{address}"), &place, "");
        let mut client = Client::connect(&through);
        let statuses: Vec<_> = (0..6)
            .map(|n| client.get(&format!("/{n}"), "").status)
            .collect();
        assert_eq!(statuses, [200; 6]);
        let mut stream = TcpStream::connect(through.address()).unwrap();
        let request =
            "POST /6 HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
        through.stop();
    });
}

#[test]
fn a_service_that_is_away_is_502_and_one_with_tls_is_verified() {
    let place = tempfile::tempdir().unwrap();
    let (_socket, address) = nobody();
    let through = recorder(&format!("http://{address}"), &place, "");
    assert_eq!(Client::connect(&through).get("/", "").status, 502);
    through.stop();
    assert_eq!(recording(place.path())["mappings"], json!([]));

    let authority = place.path().join("authority.pem");
    let service = Target::start(&format!("--tls --tls-cert {}", authority.display()));
    for (trusted, status) in [(&authority, 200), (&place.path().join("other.pem"), 502)] {
        if status == 502 {
            let other = crate::tls::Authority::new("other");
            fs::copy(other.authority(), trusted).unwrap();
        }
        let place = tempfile::tempdir().unwrap();
        let flags = format!(
            "--record {} --stubs {}",
            service.origin(),
            place.path().display()
        );
        let through = Target::start_with("SSL_CERT_FILE", trusted, &flags);
        assert_eq!(Client::connect(&through).get("/items/1", "").status, status);
    }
}

#[test]
fn a_recording_that_cannot_be_right_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let refused = |flags: &str| -> Done {
        let line = format!("serve --listen 127.0.0.1:0 {}", stubs::flags(&place, flags));
        run(&line).code(&[2])
    };
    refused("--record http://127.0.0.1:9/path");
    refused("--record http://127.0.0.1:9 --processes 2");
    refused("--record http://127.0.0.1:9 --fault drop:0.1");
    // Reserved for documentation: no request is sent there.
    refused("--record http://192.0.2.1");
    refused("--record ftp://127.0.0.1");
    run("serve --record http://127.0.0.1:9").code(&[2]);
    fs::create_dir(place.path().join("mappings")).unwrap();
    fs::write(place.path().join("mappings/recorded.json"), "{}").unwrap();
    let done = refused("--record http://127.0.0.1:9");
    assert!(done.stderr.contains("recorded.json"));
}
