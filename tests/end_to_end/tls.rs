//! The crawl of https:// targets: nginx and the bundled target as servers, certificates made by the
//! test, and a name for everything that can be wrong between them.
#![expect(
    clippy::unwrap_used,
    reason = "a test without its certificates is over"
)]
#![expect(clippy::print_stdout, reason = "a test that is skipped says so")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};
use serde_json::json;
use tempfile::TempDir;

use crate::bad_input::assert_refused;
use crate::foreign::{Nginx, nginx};
use crate::process::wait_for;
use crate::report::Report;
use crate::run::{Run, crawl};
use crate::scripted::{Peer, with_server};
use crate::target::Target;

/// An authority with a directory for what it signs.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    place: TempDir,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let place = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        fs::write(
            place.path().join("authority.pem"),
            params.self_signed(&key).unwrap().pem(),
        )
        .unwrap();
        fs::write(place.path().join("authority.key"), key.serialize_pem()).unwrap();
        Self {
            issuer: Issuer::new(params, key),
            place,
        }
    }

    /// Signs a certificate for `name`, valid in these years, and returns its path and that of its
    /// key.
    pub(crate) fn sign(&self, name: &str, (from, to): (i32, i32)) -> [String; 2] {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        (params.not_before, params.not_after) =
            (date_time_ymd(from, 1, 1), date_time_ymd(to, 1, 1));
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let [certificate_path, key_path] =
            ["pem", "key"].map(|kind| self.path(&format!("{name}-{from}.{kind}")));
        fs::write(&certificate_path, certificate.pem()).unwrap();
        fs::write(&key_path, key.serialize_pem()).unwrap();
        [certificate_path, key_path]
    }

    fn path(&self, file: &str) -> String {
        self.place.path().join(file).to_str().unwrap().to_owned()
    }

    pub(crate) fn authority(&self) -> String {
        self.path("authority.pem")
    }
}

/// Years in which a certificate is good for every test.
pub(crate) const GOOD: (i32, i32) = (2020, 4000);

/// nginx within TLS, with this certificate and these settings.
fn start(program: &Path, identity: &[String; 2], settings: &str) -> Nginx {
    start_with(program, "ssl", identity, settings)
}

/// Start it with these parameters of its port.
pub(crate) fn start_with(
    program: &Path,
    parameters: &str,
    [certificate, key]: &[String; 2],
    settings: &str,
) -> Nginx {
    let items = "location /items/ { return 200 'an item'; }";
    Nginx::start_on(
        program,
        parameters,
        &format!("ssl_certificate {certificate}; ssl_certificate_key {key}; {settings} {items}"),
    )
}

/// nginx, or nothing and a word about it.
pub(crate) fn program() -> Option<std::path::PathBuf> {
    let program = nginx();
    if program.is_none() {
        println!("skipped: there is no nginx on this machine");
    }
    program
}

#[test]
fn nginx_logs_over_both_versions_what_the_report_counts() {
    let Some(program) = program() else { return };
    let authority = Authority::new("one");
    let identity = authority.sign("127.0.0.1", GOOD);
    for (version, name) in [("TLSv1.2", "1.2"), ("TLSv1.3", "1.3")] {
        let nginx = start(&program, &identity, &format!("ssl_protocols {version};"));
        let url = format!(
            "https://127.0.0.1:{}/items/{{id}} --cacert {}",
            nginx.port,
            authority.authority()
        );
        let report = crawl(&format!(
            "{url} --ids 0..1000 --shards 2 -c 8 --expect regex:^an.item$ --tls-min {name} --tls-max {name}"
        ));
        report.assert_states(&[("ok", 1_000)]);
        let log = wait_for("the log", || {
            Some(nginx.log()).filter(|log| log.len() >= 1_000)
        });
        assert_eq!(log.len() as u64, report.count("/totals/attempts"));
        let connections: BTreeSet<_> = log
            .iter()
            .map(|line| line.split(' ').nth(1).unwrap())
            .collect();
        // A connection is closed after a hundred requests, and each one has a handshake of its own.
        let opened = report.count("/totals/connections_opened");
        assert!(
            opened >= 10 && connections.len() as u64 == opened,
            "{opened}"
        );
        assert_eq!(
            (report.count("/tls/full"), report.count("/tls/resumed")),
            (opened, 0)
        );
        assert_eq!(
            (
                report.count("/latency/tls/count"),
                report.count("/latency/connect/count")
            ),
            (opened, opened)
        );
        assert!(report.number("/latency/tls/mean_us") > report.number("/latency/connect/mean_us"));
        let sessions = report.counts("/tls/sessions");
        assert!(
            sessions.len() == 1
                && sessions
                    .iter()
                    .all(|(name, n)| name.starts_with(version) && *n == opened)
        );

        // With a session to resume, one full handshake is enough.
        let resumed = crawl(&format!(
            "{url} -n 40 --shards 1 -c 1 --disable-keepalive --tls-resume"
        ));
        assert_eq!(
            (resumed.count("/tls/full"), resumed.count("/tls/resumed")),
            (1, 39),
            "{version}"
        );
        assert_eq!(resumed.count("/totals/connections_opened"), 40);
    }
}

/// Every item failed at its only attempt, for this reason and with these details.
#[track_caller]
fn assert_failed_as(report: &Report, kind: &str, details: &[&str]) {
    report.assert_all_failed(kind);
    assert_eq!(report.count("/totals/attempts_sent"), 0);
    assert_eq!(report.count("/totals/connections_opened"), 0);
    let said = report.text(&format!("/failures/{kind}/details"));
    assert!(
        details.iter().all(|part| said.contains(part)),
        "{said:?} holds {details:?}"
    );
}

#[test]
fn whatever_nginx_does_wrong_has_a_name() {
    let Some(program) = program() else { return };
    let [authority, anew, other] = ["one", "one", "other"].map(Authority::new);
    let good = authority.sign("127.0.0.1", GOOD);
    let named = authority.sign("a.example", GOOD);
    let own = [authority.authority(), authority.path("authority.key")];
    let trusted = format!("--cacert {}", authority.authority());
    for (identity, settings, flags, kind, details) in [
        (
            &good,
            "",
            format!("--cacert {}", anew.authority()),
            "tls_unknown_issuer",
            &["did not sign it"][..],
        ),
        (
            &good,
            "",
            format!("--cacert {}", other.authority()),
            "tls_unknown_issuer",
            &["no trusted authority"],
        ),
        (
            &authority.sign("127.0.0.1", (2019, 2021)),
            "",
            trusted.clone(),
            "tls_expired",
            &["it expired", "ago"],
        ),
        (
            &authority.sign("127.0.0.1", (3000, 3001)),
            "",
            trusted.clone(),
            "tls_expired",
            &["it is valid in"],
        ),
        (
            &named,
            "",
            trusted.clone(),
            "tls_wrong_name",
            &["names 127.0.0.1", "certificate a.example"],
        ),
        (
            &own,
            "",
            format!("--cacert {}", other.authority()),
            "tls_bad_certificate",
            &[],
        ),
        (
            &own,
            "",
            trusted.clone(),
            "tls_wrong_name",
            &["subjectAltName=IP:127.0.0.1"],
        ),
        (
            &good,
            "ssl_protocols TLSv1.2;",
            format!("{trusted} --tls-min 1.3"),
            "tls_incompatible",
            &[],
        ),
        (
            &good,
            "ssl_reject_handshake on;",
            trusted.clone(),
            "tls_alert",
            &["nrecogni"],
        ),
    ] {
        let nginx = start(&program, identity, settings);
        // With retries: another attempt would meet the same certificate, and an alert may pass.
        let retries = if kind == "tls_alert" {
            "--retries 0"
        } else {
            ""
        };
        let url = format!(
            "https://127.0.0.1:{}/items/{{id}} -n 4 --shards 1 -c 2",
            nginx.port
        );
        let report = crawl(&format!("{url} {flags} {retries}"));
        assert_failed_as(&report, kind, details);
        if !["tls_incompatible", "tls_alert"].contains(&kind) {
            // What is wrong with a certificate does not matter to those who do not look at it.
            crawl(&format!("{url} --insecure")).assert_states(&[("ok", 4)]);
        }
    }
    // The name of the certificate at the address of the server.
    let nginx = start(&program, &named, "");
    let redirected = format!("--connect-to a.example:443:127.0.0.1:{}", nginx.port);
    crawl(&format!(
        "https://a.example/items/{{id}} -n 4 -s 1 {trusted} {redirected}"
    ))
    .assert_states(&[("ok", 4)]);
    // Plain HTTP where TLS was wanted.
    let plain = Nginx::start_on(&program, "", "location /items/ { return 200 'an item'; }");
    let report = crawl(&format!(
        "https://127.0.0.1:{}/items/{{id}} -n 4 -s 1 -c 2 --insecure",
        plain.port
    ));
    assert_failed_as(&report, "tls_not_spoken", &[]);
}

#[test]
fn plain_http_to_a_port_of_tls_says_so() {
    let target = Target::start("--tls --processes 1");
    let report = crawl(&format!(
        "{} -n 4 --shards 1 -c 2",
        target.url().replace("https://", "http://")
    ));
    report.assert_states(&[("failed", 4)]);
    assert_eq!(report.errors(), [("tls_required".to_owned(), 4)].into());
    assert_eq!(target.stop()["requests"], json!(0));
}

/// Start of a record of a handshake that is 16,255 bytes long.
const RECORD: &str = "\u{16}\u{3}\u{3}\u{3f}\u{7f}";

#[test]
fn a_handshake_that_never_ends_is_cut_off() {
    let silence = |mut peer: Peer| peer.drain();
    let trickle = |mut peer: Peer| {
        peer.send(RECORD);
        while peer.try_send("\u{2}") {
            // The fault under test, not a wait for anything.
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    };
    for serve in [&silence as &(dyn Fn(Peer) + Sync), &trickle] {
        let report = with_server(serve, |address| {
            crawl(&format!(
                "https://{address}/{{id}} -n 4 -s 1 -c 4 -k --connect-timeout 200ms --retries 0"
            ))
        });
        report.assert_states(&[("failed", 4)]);
        assert_eq!(report.errors(), [("connect_timeout".to_owned(), 4)].into());
        assert!(
            report
                .text("/failures/connect_timeout/details")
                .contains("not answered within 200ms")
        );
        // The way to the server was open.
        assert_eq!(
            (
                report.count("/latency/tls/censored"),
                report.count("/latency/connect/censored")
            ),
            (4, 0)
        );
        // The limit counts from the start of the connection.
        assert!(report.number("/latency/tls/max_us") >= 1e5);
    }
}

#[test]
fn a_server_that_breaks_off_or_floods_a_handshake_fails_its_item_at_once() {
    let report = with_server(
        |mut peer: Peer| peer.send(RECORD),
        |address| {
            crawl(&format!(
                "https://{address}/{{id}} -n 4 -s 1 -c 4 -k --retries 0"
            ))
        },
    );
    report.assert_states(&[("failed", 4)]);
    assert_eq!(report.errors(), [("tls_closed".to_owned(), 4)].into());
    // Change cipher specs, each a whole record that is allowed and means nothing.
    let flood =
        |mut peer: Peer| while peer.try_send(&"\u{14}\u{3}\u{3}\0\u{1}\u{1}".repeat(1_000)) {};
    let report = with_server(flood, |address| {
        crawl(&format!(
            "https://{address}/{{id}} -n 4 -s 1 -c 4 -k --connect-timeout 1m --retries 0"
        ))
    });
    assert_failed_as(&report, "tls_not_spoken", &[]);
}

#[test]
fn the_bundled_target_is_trusted_and_its_counts_agree() {
    let report = crawl("--target-tls -n 500 --shards 2 -c 8 --target-processes 2");
    report.assert_states(&[("ok", 500)]);
    assert!(
        report
            .text("/plan/target")
            .starts_with("https://127.0.0.1:")
    );
    assert_eq!(
        report.text("/plan/workload/tls_trust"),
        "the bundled target's authority"
    );
    assert_eq!(
        *report.at("/witness/agrees"),
        json!(true),
        "{}",
        report.at("/witness/differences")
    );
    let opened = report.count("/totals/connections_opened");
    assert_eq!(report.count("/witness/ledger/tls_connections"), opened);
    assert_eq!(
        (
            report.count("/tls/full"),
            report.count("/latency/tls/count")
        ),
        (opened, opened)
    );

    let ended = Run::start("--target-tls -k -n 20 --shards 1 -c 2".split(' ')).end();
    let unverified = ended.report(0);
    assert_eq!(
        unverified.text("/plan/workload/tls_trust"),
        "none (--insecure)"
    );
    assert!(unverified.finding("certificates_unverified").is_object());
}

#[test]
fn a_list_may_mix_plain_and_encrypted_hosts() {
    let (plain, secret) = (
        Target::start("--processes 1"),
        Target::start("--tls --processes 1"),
    );
    let list = tempfile::NamedTempFile::new().unwrap();
    fs::write(list.path(), format!("{}\n{}\n", plain.url(), secret.url())).unwrap();
    let report = crawl(&format!(
        "--urls {} -n 200 --shards 1 -c 4 --insecure",
        list.path().display()
    ));
    report.assert_states(&[("ok", 200)]);
    assert_eq!(plain.stop()["requests"], json!(100));
    let books = secret.stop();
    assert_eq!(
        (&books["requests"], &books["tls_connections"]),
        (&json!(100), report.at("/tls/full"))
    );
}

#[test]
fn a_client_certificate_is_sent_and_its_key_stays_secret() {
    let Some(program) = program() else { return };
    let authority = Authority::new("one");
    let identity = authority.sign("127.0.0.1", GOOD);
    let [certificate, key] = authority.sign("client.example", GOOD);
    let asks = format!(
        "ssl_client_certificate {}; ssl_verify_client on;",
        authority.authority()
    );
    let nginx = start(&program, &identity, &asks);
    let line = format!(
        "https://127.0.0.1:{}/items/{{id}} -n 20 --shards 1 -c 2 --cacert {}",
        nginx.port,
        authority.authority()
    );
    crawl(&format!("{line} --retries 0")).assert_states(&[("failed", 20)]);
    let ended = Run::start(format!("{line} --cert {certificate} --key {key}").split(' ')).end();
    ended.report(0).assert_states(&[("ok", 20)]);
    let secret = fs::read_to_string(&key).unwrap();
    let secret = secret.lines().nth(1).unwrap();
    let mut files = vec![ended.result()];
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(
                fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        } else {
            assert!(
                !String::from_utf8_lossy(&fs::read(&path).unwrap()).contains(secret),
                "{}",
                path.display()
            );
        }
    }
    assert!(![ended.stdout(), ended.stderr()].concat().contains(secret));
}

#[test]
fn settings_that_cannot_be_used_are_refused() {
    let authority = Authority::new("one");
    let [certificate, key] = authority.sign("client.example", GOOD);
    let [_, other_key] = authority.sign("other.example", GOOD);
    let file = |name: &str, content: &str| {
        fs::write(authority.path(name), content).unwrap();
        authority.path(name)
    };
    let empty = file("empty.pem", "");
    let garbled = file(
        "garbled.pem",
        "-----BEGIN CERTIFICATE-----\nhush7f3a!\n-----END CERTIFICATE-----\n",
    );
    let broken = file(
        "broken.pem",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    );
    let encrypted = file(
        "encrypted.key",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
    );
    let old = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n-----END RSA PRIVATE KEY-----\n";
    let old = file("old.key", old);
    let url = "https://127.0.0.1:9/{id}";
    assert_refused(&[
        (
            &[url, "--cacert", "/nowhere/a.pem"],
            "--cacert /nowhere/a.pem: cannot be read: No such file",
        ),
        (&[url, "--cacert", &empty], "holds no certificate in PEM"),
        (&[url, "--cacert", &key], "holds no certificate in PEM"),
        (
            &[url, "--cacert", &garbled],
            "is not valid PEM: a section is not base64",
        ),
        (
            &[url, "--cacert", &broken],
            "certificate number 1 cannot be parsed",
        ),
        (
            &[url, "--cert", &certificate, "--key", &other_key],
            "is not the private key of --cert",
        ),
        (
            &[url, "--cert", &certificate, "--key", &certificate],
            "holds no private key in PEM",
        ),
        (
            &[url, "--cert", &certificate, "--key", &encrypted],
            "passphrase",
        ),
        (&[url, "--cert", &certificate, "--key", &old], "passphrase"),
        (&[url, "--cert", &empty, "--key", &key], "--cert"),
        (&[url, "--cert", &certificate], "--key"),
        (&[url, "--key", &key], "--cert"),
        (&[url, "--insecure", "--cacert", &certificate], "--cacert"),
        (
            &[url, "--tls-min", "1.3", "--tls-max", "1.2"],
            "--tls-min is higher than --tls-max",
        ),
        (&[url, "--tls-min", "1.1"], "neither 1.2 nor 1.3"),
        (&[url, "--connect-to", "a:b"], "HOST:PORT:ADDRESS:PORT"),
        (
            &[
                url,
                "--insecure",
                "--connect-to",
                "a.example:443:127.0.0.1:9",
            ],
            "matches no host of the URLs",
        ),
        (&[url, "--target-tls"], "--target-tls"),
        (&["URL", "--insecure"], "--insecure is for https:// URLs"),
        (&["--insecure"], "add --target-tls"),
    ]);
}

#[test]
fn flags_of_tls_without_effect_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let list = place.path().join("urls.txt");
    fs::write(&list, "http://127.0.0.1:9/1\nhttp://127.0.0.1:9/2\n").unwrap();
    let list = list.to_str().unwrap();
    let flags: [&[&str]; 6] = [
        &["--cacert", "a.pem"],
        &["--insecure"],
        &["--cert", "a.pem", "--key", "a.pem"],
        &["--tls-resume"],
        &["--tls-min", "1.2"],
        &["--tls-max", "1.3"],
    ];
    for flag in flags {
        for (target, why) in [
            (
                &["URL"][..],
                "is for https:// URLs, and there is none: remove it",
            ),
            (
                &["--urls", list],
                "is for https:// URLs, and there is none: remove it",
            ),
            (
                &[],
                "needs TLS, which the bundled target does not use: add --target-tls",
            ),
        ] {
            assert_refused(&[(&[target, flag].concat(), &format!("{} {why}", flag[0]))]);
        }
    }
    assert_refused(&[
        (
            &["--target-tls", "--cacert", "a.pem"],
            "--cacert has no effect with --target-tls",
        ),
        (
            &["--target-tls", "--cert", "a.pem", "--key", "a.pem"],
            "--cert has no effect with --target-tls",
        ),
    ]);
}
