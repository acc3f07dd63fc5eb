//! The crawl of https:// targets: nginx and the bundled target as servers, certificates made by the
//! test, and a name for everything that can be wrong between them.

use std::fs;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};
use serde_json::json;
use tempfile::TempDir;

use crate::command::run;
use crate::foreign::{Foreign, column, nginx};
use crate::proxy::assert_failed_as;
use crate::report::Report;
use crate::run::crawl;
use crate::scripted::{Peer, with_server};
use crate::secrets::holding;
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
fn nginx_tls([certificate, key]: &[String; 2], settings: &str) -> Option<Foreign> {
    let identity = format!("ssl_certificate {certificate}; ssl_certificate_key {key};");
    nginx("ssl http2", &format!("{identity} {settings}"))
}

#[test]
fn nginx_logs_over_both_versions_of_tls_and_http_what_the_report_counts() {
    let authority = Authority::new("one");
    let identity = authority.sign("127.0.0.1", GOOD);
    for (version, name) in [("TLSv1.2", "1.2"), ("TLSv1.3", "1.3")] {
        let settings = format!("ssl_protocols {version};");
        let Some(nginx) = nginx_tls(&identity, &settings) else {
            return;
        };
        let trust = format!(
            "--cacert {} --tls-min {name} --tls-max {name}",
            authority.authority()
        );
        let url = format!("https://{}/items/{{id}} {trust}", nginx.address());
        let mut logged = 0;
        for (http, protocol) in [
            ("1.1", "HTTP/1.1"),
            ("2 --streams 5", "HTTP/2.0"),
            ("auto", "HTTP/2.0"),
        ] {
            let line = "--ids 0..400 --shards 2 -c 4 --expect regex:^an.item$";
            let report = crawl(&format!("{url} {line} --http {http}"));
            report.assert_states(&[("ok", 400)]);
            let log = nginx.log_of(logged, 400);
            logged += 400;
            assert_eq!(column(&log, 2).len(), 400, "each item once");
            assert_eq!(column(&log, 3), [protocol].into());
            let opened = report.count("/totals/connections_opened");
            assert_eq!(column(&log, 1).len() as u64, opened);
            let spoken = protocol.trim_end_matches(".0");
            report.holds(&json!({
                "/totals/attempts": 400, "/totals/retries": 0, "/tls/full": opened,
                "/tls/resumed": 0, "/latency/tls/count": opened, "/latency/connect/count": opened,
                "/totals/connections_by_protocol": {spoken: opened},
            }));
            assert!(
                report
                    .counts("/tls/sessions")
                    .keys()
                    .all(|session| session.starts_with(version))
            );
        }
        // With a session to resume, one full handshake is enough.
        let line = "-n 40 --shards 1 -c 1 --disable-keepalive --tls-resume";
        let resumed = crawl(&format!("{url} {line}"));
        resumed.holds(&json!({
            "/tls/full": 1, "/tls/resumed": 39, "/totals/connections_opened": 40,
        }));
    }
}

/// Check that every item failed before it was sent, for this reason and with these details.
#[track_caller]
fn assert_failed(report: &Report, kind: &str, details: &str) {
    assert_failed_as(report, kind, details);
    report.holds(&json!({"/totals/attempts_sent": 0, "/totals/connections_opened": 0}));
}

#[test]
fn whatever_nginx_does_wrong_has_a_name() {
    let [authority, anew, other] = ["one", "one", "other"].map(Authority::new);
    let good = authority.sign("127.0.0.1", GOOD);
    let named = authority.sign("a.example", GOOD);
    let own = [authority.authority(), authority.path("authority.key")];
    let [trusted, anew, other] =
        [&authority, &anew, &other].map(|authority| format!("--cacert {}", authority.authority()));
    let new_only = format!("{trusted} --tls-min 1.3");
    for (identity, settings, flags, kind, details) in [
        (
            &good,
            "",
            &anew,
            "tls_unknown_issuer",
            "no trusted authority",
        ),
        (
            &good,
            "",
            &other,
            "tls_unknown_issuer",
            "no trusted authority",
        ),
        (
            &authority.sign("127.0.0.1", (2019, 2021)),
            "",
            &trusted,
            "tls_expired",
            "certificate expired",
        ),
        (
            &authority.sign("127.0.0.1", (3000, 3001)),
            "",
            &trusted,
            "tls_expired",
            "not valid yet",
        ),
        (&named, "", &trusted, "tls_wrong_name", "a.example"),
        (&own, "", &other, "tls_bad_certificate", ""),
        (&own, "", &trusted, "tls_wrong_name", "subjectAltName"),
        (
            &good,
            "ssl_protocols TLSv1.2;",
            &new_only,
            "tls_incompatible",
            "",
        ),
        (
            &good,
            "ssl_reject_handshake on;",
            &trusted,
            "tls_alert",
            "nrecogni",
        ),
    ] {
        let Some(nginx) = nginx_tls(identity, settings) else {
            return;
        };
        // With retries: another attempt would meet the same certificate, and an alert may pass.
        let retries = if kind == "tls_alert" {
            "--retries 0"
        } else {
            ""
        };
        let url = format!(
            "https://{}/items/{{id}} -n 4 --shards 1 -c 2",
            nginx.address()
        );
        assert_failed(&crawl(&format!("{url} {flags} {retries}")), kind, details);
        if !["tls_incompatible", "tls_alert"].contains(&kind) {
            // What is wrong with a certificate does not matter to those who do not look at it.
            crawl(&format!("{url} --insecure")).assert_states(&[("ok", 4)]);
        }
    }
    // The name of the certificate at the address of the server.
    let Some(server) = nginx_tls(&named, "") else {
        return;
    };
    let redirected = format!("--connect-to a.example:443:127.0.0.1:{}", server.port);
    let line = format!("https://a.example/items/{{id}} -n 4 -s 1 {trusted} {redirected}");
    crawl(&line).assert_states(&[("ok", 4)]);
    // Plain HTTP where TLS was wanted, and TLS where plain HTTP was.
    let Some(plain) = nginx("", "") else { return };
    let line = format!("https://{}/items/{{id}} -n 4 -s 1 -c 2 -k", plain.address());
    assert_failed(&crawl(&line), "tls_not_spoken", "");
    let target = Target::start("--tls --processes 1");
    let report = crawl(&format!(
        "http://{}/{{id}} -n 4 --shards 1 -c 2",
        target.address()
    ));
    assert_eq!(report.errors(), [("tls_required".to_owned(), 4)].into());
    assert_eq!(target.stop()["requests"], json!(0));
}

#[test]
fn a_handshake_that_does_not_end_is_cut_off() {
    /// Start of a record of a handshake that is 16,255 bytes long.
    const RECORD: &str = "\u{16}\u{3}\u{3}\u{3f}\u{7f}";
    let silence = |mut peer: Peer| peer.drain();
    let trickle = |mut peer: Peer| {
        peer.send(RECORD);
        while peer.try_send("\u{2}") {
            // The fault under test, not a wait for anything.
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    };
    let breaks_off = |mut peer: Peer| peer.send(RECORD);
    // Change cipher specs, each a whole record that is allowed and means nothing.
    let specs = "\u{14}\u{3}\u{3}\0\u{1}\u{1}".repeat(1_000);
    let flood = |mut peer: Peer| while peer.try_send(&specs) {};
    let over = |server: &(dyn Fn(Peer) + Sync), limit: &str| {
        with_server(server, |address| {
            let line = format!("-n 4 -s 1 -c 4 -k --connect-timeout {limit} --retries 0");
            crawl(&format!("https://{address}/{{id}} {line}"))
        })
    };
    for server in [&silence as &(dyn Fn(Peer) + Sync), &trickle] {
        let report = over(server, "200ms");
        assert_failed_as(&report, "connect_timeout", "not answered within 200ms");
        // The way to the server was open.
        report.holds(&json!({"/latency/tls/censored": 4, "/latency/connect/censored": 0}));
        // The limit counts from the start of the connection.
        assert!(report.number("/latency/tls/max_us") >= 1e5);
    }
    assert_failed_as(&over(&breaks_off, "1m"), "tls_closed", "");
    assert_failed(&over(&flood, "1m"), "tls_not_spoken", "");
}

#[test]
fn the_bundled_target_is_trusted_and_its_counts_agree() {
    let report = crawl("--target-tls -n 500 --shards 2 -c 8 --target-processes 2");
    report.assert_states(&[("ok", 500)]);
    let opened = report.count("/totals/connections_opened");
    report.holds(&json!({
        "/plan/workload/tls_trust": "the bundled target's authority", "/witness/agrees": true,
        "/witness/ledger/tls_connections": opened, "/tls/full": opened,
        "/latency/tls/count": opened,
    }));
    let unverified = crawl("--target-tls -k -n 20 --shards 1 -c 2");
    unverified.holds(&json!({"/plan/workload/tls_trust": "none (--insecure)"}));
    assert!(unverified.finding("certificates_unverified").is_object());
    // A list may mix plain and encrypted hosts.
    let [plain, secret] = ["", "--tls"].map(|tls| Target::start(&format!("--processes 1 {tls}")));
    let list = tempfile::NamedTempFile::new().unwrap();
    fs::write(list.path(), format!("{}\n{}\n", plain.url(), secret.url())).unwrap();
    let line = format!("--urls {} -n 200 --shards 1 -c 4 -k", list.path().display());
    crawl(&line).assert_states(&[("ok", 200)]);
    assert_eq!(
        [plain, secret].map(|target| target.stop()["requests"].clone()),
        [100, 100]
    );
}

#[test]
fn a_client_certificate_is_sent_and_its_key_stays_secret() {
    let authority = Authority::new("one");
    let identity = authority.sign("127.0.0.1", GOOD);
    let [certificate, key] = authority.sign("client.example", GOOD);
    let authority = authority.authority();
    let asks = format!("ssl_client_certificate {authority}; ssl_verify_client on;");
    let Some(nginx) = nginx_tls(&identity, &asks) else {
        return;
    };
    let url = format!("https://{}/items/{{id}}", nginx.address());
    let line = format!("{url} -n 20 --shards 1 -c 2 --cacert {authority}");
    crawl(&format!("{line} --retries 0")).assert_states(&[("failed", 20)]);
    let secret = fs::read_to_string(&key).unwrap();
    let line = format!("run {line} --cert {certificate} --key {key} --json --out out");
    let done = run(&line).code(&[0]);
    assert_eq!(done.printed()["ledger"]["ok"], 20);
    assert_eq!(
        holding(done.place.path(), secret.lines().nth(1).unwrap()),
        Vec::<String>::new()
    );
}
