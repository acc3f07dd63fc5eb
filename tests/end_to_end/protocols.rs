//! HTTP/2, TLS and the forward proxy of `crawlmark serve`, used by a program that shares no code
//! with it: curl. The target's counts are the second witness.

use std::collections::BTreeSet;
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

#[test]
fn sessions_of_a_proxy_are_different_clients_to_the_target() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("auth");
    std::fs::write(&file, "user:pass\nnot read\n").unwrap();
    let proxy = Target::start(&format!(
        "--processes 2 --proxy-auth-file {}",
        file.display()
    ));
    let target = Target::start("--processes 2 --limit 1/h:burst=3");
    let url = format!("{}/items/7", target.origin());
    for label in ["a", "b"] {
        let via = format!("http://user-session-{label}:pass@{}", proxy.address());
        // Forwarded, and through a tunnel.
        for (flags, status) in [
            (&["-x", &via][..], "1.1 200"),
            (&["-x", &via], "1.1 200"),
            (&["-p", "-x", &via], "1.1 200"),
            (&["-x", &via], "1.1 429"),
        ] {
            let Some((_, got, _)) = curl(&[flags, &[&url]].concat()) else {
                return;
            };
            assert_eq!(got, status);
        }
    }
    for (user, url, status) in [
        ("other:pass", &*url, "1.1 407"),
        ("user:pass", "http://192.0.2.1/", "1.1 403"),
    ] {
        let via = format!("http://{user}@{}", proxy.address());
        assert_eq!(curl(&["-x", &via, url]).unwrap().1, status);
    }
    holds(
        &proxy.stop(),
        &json!({
            "/proxy/by_session": {"a": 4, "b": 4}, "/proxy/requests": 8, "/proxy/tunnels": 2,
            "/proxy/auth_failures": 1, "/proxy/refused": 1, "/requests": 0,
        }),
    );
    let books = target.stop();
    holds(&books, &json!({"/by_status": {"200": 6, "429": 2}}));
    let sources: BTreeSet<&String> = books["by_source"].as_object().unwrap().keys().collect();
    assert!(sources.len() == 2 && sources.iter().all(|source| source.starts_with("127.1.")));
}
