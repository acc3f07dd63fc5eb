//! The crawl over HTTP/3: the bundled target, and a server of aioquic that shares no code with it.
//! Those of the latter are run by `.ci/run`, which installs it.

use crate::command::run;

#[cfg(not(feature = "http3"))]
#[test]
fn without_the_feature_it_is_refused_with_a_remedy() {
    for line in [
        "run https://127.0.0.1:1/items/1 --http 3",
        "serve --tls --http 3",
    ] {
        let done = run(line).code(&[2]);
        assert!(done.stderr.contains("--features http3"), "{}", done.stderr);
    }
}

#[cfg(feature = "http3")]
mod spoken {
    use std::fs;
    use std::net::UdpSocket;
    use std::path::Path;
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    use nix::sys::signal::Signal;
    use serde_json::{Value, json};
    use tempfile::TempDir;

    use super::run;
    use crate::process::{signal, wait_for};
    use crate::proxy::assert_failed_as;
    use crate::report::{Report, counts, holds};
    use crate::run::{ONE_ATTEMPT, crawl, crawl_once, ended};
    use crate::target::Target;

    /// A server in Python.
    struct Server {
        child: Child,
        place: TempDir,
        port: String,
    }

    impl Server {
        /// Start one; none, and a word about it, where aioquic is not installed.
        fn start(flags: &[&str]) -> Option<Self> {
            let root = Path::new(env!("CARGO_MANIFEST_DIR"));
            let python = root.join("target/consumers/bin/python");
            let has_it = Command::new(&python)
                .args(["-c", "import aioquic"])
                .status();
            if !has_it.is_ok_and(|status| status.success()) {
                println!("skipped: there is no aioquic in target/consumers");
                return None;
            }
            let place = tempfile::tempdir().unwrap();
            let said = place.path().join("port");
            let child = Command::new(&python)
                .arg(root.join("tests/audit/http3_server.py"))
                .arg(place.path())
                .args(flags)
                .stdout(fs::File::create(&said).unwrap())
                .stdin(Stdio::null())
                .spawn()
                .unwrap();
            let port = wait_for("the port", || {
                let said = fs::read_to_string(&said).unwrap();
                said.strip_suffix('\n').map(str::to_owned)
            });
            Some(Self { child, place, port })
        }

        /// Flags of a crawl of a path of its.
        fn line(&self, path: &str, flags: &str) -> String {
            let (port, place) = (&self.port, self.place.path().display());
            format!(
                "https://127.0.0.1:{port}/{path}/{{id}} --http 3 --cacert {place}/cert.pem {flags}"
            )
        }

        fn signal(&self, what: Signal) {
            signal(i32::try_from(self.child.id()).unwrap(), what);
        }

        /// End it, and return its log.
        fn log(mut self) -> Value {
            self.signal(Signal::SIGTERM);
            self.child.wait().unwrap();
            let log = fs::read_to_string(self.place.path().join("log.json")).unwrap();
            serde_json::from_str(&log).unwrap()
        }
    }

    impl Drop for Server {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    fn protocols(report: &Report) -> Vec<(String, u64)> {
        let all = report.counts("/totals/connections_by_protocol");
        all.into_iter().collect()
    }

    #[test]
    fn the_bundled_targets_counts_agree() {
        let line = "--http 3 --target-tls -n 400 --shards 2 -c 4 --streams 4 --target-processes 2";
        let report = crawl(line);
        report.assert_states(&[("ok", 400)]);
        let opened = report.count("/totals/connections_opened");
        assert_eq!(protocols(&report), [("HTTP/3".to_owned(), opened)]);
        report.holds(&json!({
            "/witness/agrees": true, "/witness/ledger/tls_connections": opened,
            "/witness/ledger/unique_ids": 400, "/latency/tls/count": opened,
        }));
        // Connections that are replaced, each closed by this client.
        let report = crawl(&format!("{line} --max-requests-per-connection 10"));
        report.assert_states(&[("ok", 400)]);
        report.holds(&json!({"/witness/agrees": true}));
        assert!(report.count("/totals/connections_opened") >= 40);
    }

    #[test]
    fn limits_holds_and_bodies_are_those_of_the_other_versions() {
        let target =
            Target::start("--processes 1 --tls --http 3 --limit 40/s:burst=20 --latency 20ms");
        let line = format!(
            "{} -k -n 60 --shards 1 -c 2 --http 3 --streams 10",
            target.url()
        );
        let report = crawl(&format!("{line} --expect json"));
        report.assert_states(&[("ok", 60)]);
        assert!(report.count("/totals/throttled") > 0);
        assert!(report.number("/latency/service/min_us") >= 20_000.0);
        let ledger = target.stop();
        assert_eq!(report.statuses(), counts(&ledger["by_status"]));
        holds(&ledger, &json!({"/early_retries": 0}));
        // The port speaks the others over TCP.
        let target = Target::start("--processes 2 --tls --http 3");
        for version in ["1.1", "2", "3"] {
            let report = crawl(&format!(
                "{} -k -n 40 -s 2 -c 2 --http {version}",
                target.url()
            ));
            report.assert_states(&[("ok", 40)]);
        }
        holds(
            &target.stop(),
            &json!({"/requests": 120, "/unique_ids": 40}),
        );
    }

    #[test]
    fn faults_have_the_names_that_they_have_with_streams() {
        for (fault, http2, http3) in [
            ("error:1:503", "503", "503"),
            ("reset:1", "http2_reset", "http3_reset"),
            ("silence:1", "timeout", "timeout"),
        ] {
            let target = Target::start(&format!("--processes 1 --tls --http 3 --fault {fault}"));
            for (version, kind) in [("2", http2), ("3", http3)] {
                let line = format!("{} -k -n 8 -s 1 -c 2 --http {version}", target.url());
                let report = ended(&format!("{line} --timeout 300ms {ONE_ATTEMPT}")).report(1);
                let found = if fault.starts_with("error") {
                    report.statuses()
                } else {
                    report.errors()
                };
                assert_eq!(
                    found.into_iter().collect::<Vec<_>>(),
                    [(kind.to_owned(), 8)]
                );
            }
        }
    }

    #[test]
    fn what_goes_over_tcp_alone_is_refused() {
        for flags in [
            "http://127.0.0.1:1/{id}",
            "https://127.0.0.1:1/{id} --proxy http://127.0.0.1:2",
            "https://127.0.0.1:1/{id} --unix-socket /tmp/none",
            "https://127.0.0.1:1/{id} --tls-resume",
            "https://127.0.0.1:1/{id} --tls-max 1.2",
            "https://127.0.0.1:1/{id} --cookies",
        ] {
            let done = run(&format!("run {flags} --http 3 -n 1")).code(&[2]);
            assert!(done.stderr.contains("--http"), "{flags}: {}", done.stderr);
        }
        let done = run("serve --http 3").code(&[2]);
        assert!(done.stderr.contains("--tls"), "{}", done.stderr);
    }

    #[test]
    fn a_closed_port_refuses_at_once() {
        let free = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let line = format!("https://127.0.0.1:{port}/{{id}} -k --http 3 -n 4 -c 1 -s 1");
        // Not by the limit on opening, which the test does not wait for.
        let report = ended(&format!("{line} --connect-timeout 60s {ONE_ATTEMPT}")).report(1);
        report.assert_all_failed("connect_refused");
    }

    /// Answer clients as a target that speaks another version of QUIC (RFC 9000, 17.2.1), until an
    /// empty datagram comes.
    fn speak_another_version(socket: &UdpSocket) {
        let mut packet = [0; 2_048];
        while let Ok((1.., from)) = socket.recv_from(&mut packet) {
            let (to, rest) = packet[6..].split_at(packet[5].into());
            let own = &rest[1..=rest[0].into()];
            let mut answer = vec![0x80, 0, 0, 0, 0];
            for id in [own, to] {
                answer.push(u8::try_from(id.len()).unwrap());
                answer.extend(id);
            }
            answer.extend([0xff, 0, 0, 1]);
            socket.send_to(&answer, from).unwrap();
        }
    }

    #[test]
    fn a_handshake_that_fails_has_a_kind() {
        let bound = || UdpSocket::bind("127.0.0.1:0").unwrap();
        let (silent, other) = (bound(), bound());
        // Ends the thread where the test fails.
        let most = Some(Duration::from_mins(1));
        other.set_read_timeout(most).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| speak_another_version(&other));
            for (socket, limit, kind) in [
                (&silent, "300ms", "connect_timeout"),
                (&other, "60s", "http3_not_offered"),
            ] {
                let port = socket.local_addr().unwrap().port();
                let line = format!("https://127.0.0.1:{port}/{{id}} -k --http 3 -n 1 -c 1 -s 1");
                let report = ended(&format!("{line} --connect-timeout {limit} {ONE_ATTEMPT}"));
                report.report(1).assert_all_failed(kind);
            }
            silent.send_to(&[], other.local_addr().unwrap()).unwrap();
        });
    }

    #[test]
    #[ignore = "needs aioquic: `.ci/run` runs it"]
    fn foreign_http3_has_logged_what_the_report_counts() {
        let Some(server) = Server::start(&[]) else {
            return;
        };
        let report = crawl(&server.line(
            "items",
            "-n 500 -s 2 -c 4 --streams 8 --expect 'regex:^[0-9]+$'",
        ));
        report.assert_states(&[("ok", 500)]);
        let opened = report.count("/totals/connections_opened");
        let report = crawl(&server.line("limit", "-n 50 -s 1 -c 1 --streams 4"));
        report.assert_states(&[("ok", 50)]);
        report.holds(&json!({"/totals/throttled": 50, "/totals/attempts_sent": 100}));
        let body = "x".repeat(20_000);
        let report = crawl(&server.line(
            "post",
            &format!("-n 20 -s 1 -c 1 --method POST --body {body}"),
        ));
        report.assert_states(&[("ok", 20)]);
        // Slow answers of one connection are in flight together.
        let report = crawl_once(&server.line("slow", "-n 4 -s 1 -c 1 --streams 4"));
        report.holds(&json!({"/totals/peak_in_flight": 4}));
        assert!(report.number("/latency/service/min_us") >= 1_000_000.0);
        let log = server.log();
        let requests = counts(&log["requests"]);
        assert_eq!(requests.values().sum::<u64>(), 500 + 100 + 20 + 4);
        assert_eq!(requests.len(), 500 + 50 + 20 + 4);
        let all = opened + 3;
        holds(
            &log,
            &json!({
                "/methods/POST": 20, "/body_bytes": 400_000, "/connections": all,
                // Each was told that it closed, with H3_NO_ERROR.
                "/closed/256": all,
            }),
        );
    }

    #[test]
    #[ignore = "needs aioquic: `.ci/run` runs it"]
    fn foreign_http3_that_fails_has_a_kind() {
        let Some(server) = Server::start(&["--reset", "10"]) else {
            return;
        };
        let url = format!(
            "https://127.0.0.1:{}/items/{{id}} --http 3 -n 1 -c 1 -s 1",
            server.port
        );
        assert_failed_as(&ended(&url).report(1), "tls_unknown_issuer", "");
        let elsewhere = server
            .line("items", "-n 1 -c 1 -s 1")
            .replace("127.0.0.1:", "wrong.test:");
        let way = format!("--connect-to wrong.test:{0}:127.0.0.1:{0}", server.port);
        assert_failed_as(
            &ended(&format!("{elsewhere} {way}")).report(1),
            "tls_wrong_name",
            "",
        );
        let report = crawl_once(&server.line("items", "-n 100 -c 2 -s 1"));
        assert_eq!(
            report.errors().into_iter().collect::<Vec<_>>(),
            [("http3_reset".to_owned(), 10)]
        );
        let Some(server) = Server::start(&[]) else {
            return;
        };
        let lost = ended(&server.line("lost", &format!("-n 4 -c 1 -s 1 {ONE_ATTEMPT}")));
        lost.report(1).assert_all_failed("reset");
        let report = crawl_once(&server.line("goaway", "-n 4 -c 1 -s 1"));
        report.assert_states(&[("ok", 4)]);
        report.holds(
            &json!({"/totals/connections_opened": 4, "/connections/closed_by/announced": 3}),
        );
        let Some(server) = Server::start(&["--alpn", "hq-interop"]) else {
            return;
        };
        let report = ended(&server.line("items", "-n 1 -c 1 -s 1")).report(1);
        assert_failed_as(&report, "http3_not_offered", "");
        // A connection that its idle timeout ends at rest is replaced, and no request is lost.
        let Some(server) = Server::start(&["--idle", "0.3"]) else {
            return;
        };
        let report = crawl_once(&server.line("items", "-n 3 -s 1 -c 1 --rate 1 --burst 1"));
        report.assert_states(&[("ok", 3)]);
        report.holds(&json!({"/totals/connections_opened": 3, "/connections/closed_by/target": 2}));
        let slow = ended(&server.line("slow", &format!("-n 2 -s 1 -c 1 {ONE_ATTEMPT}")));
        slow.report(1).assert_all_failed("closed");
    }
}

/// A server of `quinn` that sends without end.
#[cfg(feature = "http3")]
mod floods {
    use std::net::{Ipv4Addr, SocketAddr};
    use std::sync::Arc;

    use quinn::crypto::rustls::QuicServerConfig;
    use quinn::{Connection, Endpoint, SendStream, ServerConfig};
    use rcgen::generate_simple_self_signed;
    use rustls::crypto::ring::default_provider;
    use rustls::pki_types::PrivatePkcs8KeyDer;

    use crate::hostile::assert_bounded_at;

    /// The control stream's type and settings, and the head of a frame of a kind that nobody knows, or of a head, with a terabyte.
    const CONTROL: [u8; 3] = [0, 4, 0];
    const LONG: [u8; 9] = [0x21, 0xc0, 0, 1, 0, 0, 0, 0, 0];
    const LONG_HEAD: [u8; 9] = [1, 0xc0, 0, 1, 0, 0, 0, 0, 0];

    /// `:status` 103 and 200, by their numbers in the static table (RFC 9204, appendix A).
    const INTERIM: [u8; 5] = [1, 3, 0, 0, 0xd8];
    const OK: [u8; 5] = [1, 3, 0, 0, 0xd9];

    /// The row whose connections are closed at their first request.
    const CLOSED: &str = "closed connections";

    /// What a server sends first, and then without end, on a stream of its own and on those of requests.
    #[derive(Clone, Copy)]
    struct Flood {
        own: [&'static [u8]; 2],
        on_requests: [&'static [u8]; 2],
    }

    async fn send(mut stream: SendStream, [start, part]: [&'static [u8]; 2]) {
        let block = part.repeat(16_384_usize.div_ceil(part.len().max(1)));
        let mut sent = stream.write_all(start).await;
        while sent.is_ok() && !block.is_empty() {
            sent = stream.write_all(&block).await;
        }
        std::future::pending::<()>().await;
    }

    /// Serve a connection, until its first request if it `closes` then.
    async fn serve(connection: Connection, flood: Flood, closes: bool) {
        if !flood.own[0].starts_with(&CONTROL) {
            let control = connection.open_uni().await.unwrap();
            tokio::task::spawn_local(send(control, [&CONTROL, &[]]));
        }
        let own = connection.open_uni().await.unwrap();
        tokio::task::spawn_local(send(own, flood.own));
        while let Ok((stream, _)) = connection.accept_bi().await {
            if closes {
                return connection.close(0_u8.into(), &[]);
            }
            tokio::task::spawn_local(send(stream, flood.on_requests));
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the test forks nothing")]
    fn start(flood: Flood, closes: bool) -> SocketAddr {
        let made = generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let mut tls = rustls::ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key.into())
            .unwrap();
        tls.alpn_protocols = vec![b"h3".to_vec()];
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            let local = tokio::task::LocalSet::new();
            local.block_on(&runtime, async move {
                let config = QuicServerConfig::try_from(tls).unwrap();
                let config = ServerConfig::with_crypto(Arc::new(config));
                let endpoint = Endpoint::server(config, (Ipv4Addr::LOCALHOST, 0).into()).unwrap();
                tell.send(endpoint.local_addr().unwrap()).unwrap();
                while let Some(incoming) = endpoint.accept().await {
                    tokio::task::spawn_local(async move {
                        if let Ok(connection) = incoming.await {
                            serve(connection, flood, closes).await;
                        }
                    });
                }
            });
        });
        told.recv().unwrap()
    }

    #[test]
    fn floods_over_http_3_do_not_make_a_shard_grow() {
        let control = [&CONTROL[..], &[]];
        for (name, own, on_requests) in [
            ("endless head", control, [&LONG_HEAD[..], &[0][..]]),
            ("endless unknown frame", control, [&LONG, &[0]]),
            ("interim responses", control, [&[], &INTERIM]),
            ("unknown frames", control, [&[], &[0x21, 1, 7]]),
            ("empty DATA", control, [&OK, &[0, 0]]),
            ("DATA of a byte", control, [&OK, &[0, 1, 7]]),
            ("control stream", [&CONTROL, &[0x21, 1, 7]], [&[], &[]]),
            ("GOAWAY", [&CONTROL, &[7, 1, 0]], [&[], &[]]),
            (
                "endless frame of the control stream",
                [&[0, 4, 0, 0x21, 0xc0, 0, 1, 0, 0, 0, 0, 0], &[0]],
                [&[], &[]],
            ),
            ("QPACK encoder", [&[2], &[0x3f, 0xe1, 0x1f]], [&[], &[]]),
            ("QPACK decoder", [&[3], &[0x81]], [&[], &[]]),
            ("another stream", [&[0x40, 0x54], &[1]], [&[], &[]]),
            (CLOSED, [&CONTROL, &[0x21, 1, 7]], [&[], &[]]),
        ] {
            let address = start(Flood { own, on_requests }, name == CLOSED);
            assert_bounded_at(
                name,
                &format!("https://{address}/{{id}} --http 3 --insecure"),
            );
        }
    }
}
