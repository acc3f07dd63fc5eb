//! HTTP/2, TLS and the forward proxy of `crawlmark serve`, used by a program that shares no code
//! with it: curl. The target's counts are the second witness.

use std::process::Command;

use serde_json::{Value, json};

use crate::command::said;
use crate::report::holds;
use crate::target::Target;

/// Run curl: whether it succeeded, the version of HTTP and the status, and the body. None, and a
/// word about it, where it is not installed.
pub(crate) fn curl(arguments: &[&str]) -> Option<(bool, String, String)> {
    if Command::new("curl").arg("--version").output().is_err() {
        println!("skipped: there is no curl on this machine");
        return None;
    }
    let mut command = Command::new("curl");
    command.args(["-sS", "-m", "60", "-w", "\n%{http_version} %{http_code}"]);
    // Proxies that the machine's user has set up are not this test's.
    let is_proxy = |(name, _): &(String, String)| name.to_lowercase().ends_with("_proxy");
    for (name, _) in std::env::vars().filter(is_proxy) {
        command.env_remove(name);
    }
    command.args(arguments);
    let said = said(command);
    let (body, status) = said.stdout.rsplit_once('\n').unwrap_or_default();
    Some((said.code == Some(0), status.to_owned(), body.to_owned()))
}

#[test]
fn curl_speaks_every_version_with_and_without_tls() {
    let place = tempfile::tempdir().unwrap();
    let authority = place.path().join("authority.pem").display().to_string();
    let plain = Target::start("--processes 2");
    let secret = Target::start(&format!("--processes 2 --tls --tls-cert {authority}"));
    let [url, secret_url] = [&plain, &secret].map(|target| format!("{}/items/7", target.origin()));
    let localhost = secret_url.replace("127.0.0.1", "localhost");
    let trust = ["--cacert", &authority];
    for (flags, url, status) in [
        (&["--http1.1"][..], &url, "1.1 200"),
        (&["--http2"], &url, "1.1 200"),
        (&["--http2-prior-knowledge"], &url, "2 200"),
        (&[trust[0], trust[1], "--http1.1"], &secret_url, "1.1 200"),
        (&trust, &secret_url, "2 200"),
        (&trust, &localhost, "2 200"),
    ] {
        let Some((is_good, spoken, body)) = curl(&[flags, &[url]].concat()) else {
            return;
        };
        assert!(is_good && spoken == status, "{flags:?}: {spoken}");
        assert_eq!(serde_json::from_str::<Value>(&body).unwrap()["id"], 7);
    }
    // Without the authority it is not trusted, and under another name it is not the one.
    let other = secret_url.replace("127.0.0.1", "127.0.0.2");
    for arguments in [&[&*secret_url][..], &[trust[0], trust[1], &other]] {
        assert!(!curl(arguments).unwrap().0, "{arguments:?}");
    }
    holds(
        &plain.stop(),
        &json!({"/requests": 3, "/http2_connections": 1, "/tls_connections": 0}),
    );
    holds(
        &secret.stop(),
        &json!({"/requests": 3, "/tls_connections": 3, "/tls_handshake_failures": 1}),
    );
}
