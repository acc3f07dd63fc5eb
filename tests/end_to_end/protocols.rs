//! HTTP/2, TLS and the forward proxy of `crawlmark serve`, used by programs that share no code with
//! it: curl, Python's own HTTP client, h2load. The target's counts are the second witness.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test whose client cannot be started is over"
)]
#![expect(clippy::print_stdout, reason = "a test that is skipped says so")]

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::process::DEADLINE;
use crate::run::program;
use crate::target::Target;

/// Where a program is, on a machine that has it; without it the test that wants it says so and is
/// skipped.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|program| program.is_file());
    if found.is_none() {
        println!("skipped: there is no {name} on this machine");
    }
    found
}

/// Runs a program to its end. Proxies that the machine's user has set up are not this test's.
fn output(program: &Path, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(program);
    for name in [
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "no_proxy",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "NO_PROXY",
    ] {
        command.env_remove(name);
    }
    let output = command
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text)
}

/// What curl gets: the version of HTTP, the status, the body.
fn curl(curl: &Path, arguments: &[&str]) -> (String, String, String) {
    let told = ["-sS", "-m", "60", "-w", "\n%{http_version} %{http_code}"];
    let (is_done, text) = output(curl, &[&told, arguments].concat());
    assert!(is_done, "{arguments:?}: {text}");
    let (body, last) = text.rsplit_once('\n').unwrap();
    let (version, status) = last.split_once(' ').unwrap();
    (version.to_owned(), status.to_owned(), body.to_owned())
}

fn id(body: &str) -> Value {
    serde_json::from_str::<Value>(body).unwrap_or_else(|error| panic!("{error} in {body}"))["id"]
        .clone()
}

/// A target with TLS, and the file that its clients have to trust.
fn start_tls(flags: &str) -> (Target, String) {
    let file = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    // The name is free again, and the target makes it its own.
    let path = file.to_str().unwrap().to_owned() + ".pem";
    let target = Target::start(&format!("--tls --tls-cert {path} {flags}"));
    (target, path)
}

#[test]
fn curl_speaks_every_version_with_and_without_tls() {
    let Some(program) = find("curl") else { return };
    let plain = Target::start("--processes 2");
    let (secret, authority) = start_tls("--processes 2");
    assert!(secret.origin().starts_with("https://127.0.0.1:"));
    let (url, secret_url) = (
        format!("{}/items/7", plain.origin()),
        format!("{}/items/7", secret.origin()),
    );
    let trust = ["--cacert", &authority];
    for (flags, url, version) in [
        (&["--http1.1"][..], &url, "1.1"),
        (&["--http2"], &url, "1.1"),
        (&["--http2-prior-knowledge"], &url, "2"),
        (&[&trust[..], &["--http1.1"]].concat(), &secret_url, "1.1"),
        (&[&trust[..], &["--http2"]].concat(), &secret_url, "2"),
    ] {
        let (spoken, status, body) = curl(&program, &[flags, &[url]].concat());
        assert_eq!(
            (spoken.as_str(), status.as_str(), id(&body)),
            (version, "200", json!(7)),
            "{flags:?}"
        );
    }
    // A HEAD over HTTP/2 has no body.
    let (_, status, head) = curl(&program, &["--http2-prior-knowledge", "-I", &url]);
    assert!(
        status == "200" && head.contains("content-length: "),
        "{head}"
    );
    // Without the authority it is not trusted, and under another name it is not the one.
    let (is_done, error) = output(&program, &["-sS", &secret_url]);
    assert!(!is_done && error.contains("certificate"), "{error}");
    let other = secret.origin().replace("127.0.0.1", "127.0.0.2") + "/items/7";
    assert!(!output(&program, &["-sS", "--cacert", &authority, &other]).0);
    let localhost = secret_url.replace("127.0.0.1", "localhost");
    assert_eq!(
        curl(&program, &["--cacert", &authority, &localhost]).1,
        "200"
    );

    let (plain, secret) = (plain.stop(), secret.stop());
    let _ = fs::remove_file(&authority);
    assert_eq!(
        (
            &plain["requests"],
            &plain["http2_connections"],
            &plain["tls_connections"]
        ),
        (&json!(4), &json!(2), &json!(0))
    );
    assert_eq!(
        (&secret["requests"], &secret["tls_connections"]),
        (&json!(3), &json!(3))
    );
    assert_eq!(secret["tls_handshake_failures"], json!(1), "{secret}");
}

#[test]
fn a_version_that_was_not_chosen_is_not_spoken() {
    let Some(program) = find("curl") else { return };
    let (target, authority) = start_tls("--processes 1 --http 1.1");
    let url = format!("{}/items/7", target.origin());
    assert_eq!(
        curl(&program, &["--cacert", &authority, "--http2", &url]).0,
        "1.1"
    );
    let _ = fs::remove_file(&authority);
    let target = Target::start("--processes 1 --http 2");
    let url = format!("{}/items/7", target.origin());
    assert_eq!(curl(&program, &["--http2-prior-knowledge", &url]).0, "2");
    assert!(!output(&program, &["-sS", "-m", "60", "--http1.1", &url]).0);
}

#[test]
fn h2load_and_the_books_count_the_same() {
    let Some(program) = find("h2load") else {
        return;
    };
    let (target, authority) = start_tls("--processes 2");
    let url = format!("{}/items/7", target.origin());
    let (is_done, text) = output(&program, &["-n", "5000", "-c", "8", "-m", "300", &url]);
    assert!(
        is_done && text.contains("5000 succeeded, 0 failed, 0 errored"),
        "{text}"
    );
    let books = target.stop();
    let _ = fs::remove_file(&authority);
    assert_eq!(books["by_status"], json!({ "200": 5000 }));
    assert_eq!(
        (&books["connections"], &books["http2_connections"]),
        (&json!(8), &json!(8))
    );
}

/// A proxy for user and pass, given out of sight; host and port of it.
fn start_proxy(flags: &str) -> (Target, String) {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "user:pass\nnot read\n").unwrap();
    let proxy = Target::start(&format!(
        "--proxy-auth-file {} {flags}",
        file.path().display()
    ));
    let address = proxy.address().to_owned();
    (proxy, address)
}

#[test]
fn curls_sessions_are_different_clients_to_the_target() {
    let Some(program) = find("curl") else { return };
    let (proxy, address) = start_proxy("--processes 2");
    let target = Target::start("--processes 2 --limit 1/h:burst=3");
    let (secret, authority) = start_tls("--processes 2");
    let (url, secret_url) = (
        format!("{}/items/7", target.origin()),
        format!("{}/items/7", secret.origin()),
    );
    let via = |user: &str| format!("http://{user}@{address}");
    for label in ["a", "b"] {
        let user = via(&format!("user-session-{label}:pass"));
        // Forwarded, and through a tunnel.
        for flags in [&["-x", &user][..], &["-x", &user], &["-p", "-x", &user]] {
            let (_, status, body) = curl(&program, &[flags, &[&url]].concat());
            assert_eq!((status.as_str(), id(&body)), ("200", json!(7)));
        }
        assert_eq!(curl(&program, &["-x", &user, &url]).1, "429");
        for (flag, version) in [("--http1.1", "1.1"), ("--http2", "2")] {
            let (spoken, status, _) = curl(
                &program,
                &["-x", &user, "--cacert", &authority, flag, &secret_url],
            );
            assert_eq!((spoken.as_str(), status.as_str()), (version, "200"));
        }
    }
    for user in ["", "user:nopass@", "other:pass@"] {
        assert_eq!(
            curl(&program, &["-x", &format!("http://{user}{address}"), &url]).1,
            "407"
        );
    }
    for host in ["192.0.2.1", "example.invalid"] {
        let (_, status, body) = curl(
            &program,
            &["-x", &via("user:pass"), &format!("http://{host}/")],
        );
        assert_eq!(status, "403", "{body}");
    }
    let (proxy, target, secret) = (proxy.stop(), target.stop(), secret.stop());
    let _ = fs::remove_file(&authority);
    let sources = |books: &Value| -> Vec<String> {
        books["by_source"]
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect()
    };
    assert_eq!(sources(&target).len(), 2);
    assert!(
        sources(&target)
            .iter()
            .all(|source| source.starts_with("127.1.")),
        "{target}"
    );
    // The same sessions come from the same exits, whatever the target.
    assert_eq!(sources(&target), sources(&secret));
    assert_eq!(target["by_status"], json!({ "200": 6, "429": 2 }));
    let books = &proxy["proxy"];
    assert_eq!(books["by_session"], json!({ "a": 6, "b": 6 }));
    assert_eq!(
        (&books["requests"], &books["tunnels"]),
        (&json!(11), &json!(6))
    );
    assert_eq!(
        (
            &books["auth_failures"],
            &books["refused"],
            &books["sessionless"]
        ),
        (&json!(3), &json!(2), &json!(2))
    );
    assert_eq!(proxy["requests"], json!(0));
}

/// Asks for items over each kind of transport, and fails by itself if an answer is not as it should
/// be.
const PYTHON: &str = "
import base64, http.client, json, ssl, sys, urllib.request
target, secret, proxy, authority = sys.argv[1:]
trust = ssl.create_default_context(cafile=authority)
def opener(user, *handlers):
    address = f'http://{user}:pass@{proxy}'
    proxies = urllib.request.ProxyHandler({'http': address, 'https': address})
    return urllib.request.build_opener(proxies, *handlers)
for session in 'xyz':
    through = opener(f'user-session-{session}', urllib.request.HTTPSHandler(context=trust))
    for origin in target, secret:
        with through.open(f'{origin}/items/42', timeout=60) as answer:
            assert json.load(answer)['id'] == 42
connection = http.client.HTTPConnection(proxy, timeout=60)
authorization = 'Basic ' + base64.b64encode(b'user-session-k:pass').decode()
for number in range(5):
    connection.request('GET', f'{target}/items/{number}', headers={'Proxy-Authorization': authorization})
    answer = connection.getresponse()
    assert answer.status == 200 and json.load(answer)['id'] == number
connection.request('HEAD', f'{target}/items/5', headers={'Proxy-Authorization': authorization})
answer = connection.getresponse()
assert answer.status == 200 and int(answer.headers['content-length']) > 0 and answer.read() == b''
connection.request('GET', f'{target}/items/6', headers={'Proxy-Authorization': authorization})
assert json.load(connection.getresponse())['id'] == 6
";

#[test]
fn python_is_proxied_and_encrypted_alike() {
    let Some(program) = find("python3") else {
        return;
    };
    let (proxy, address) = start_proxy("--processes 1");
    let target = Target::start("--processes 2");
    let (secret, authority) = start_tls("--processes 2");
    let (is_done, text) = output(
        &program,
        &[
            "-c",
            PYTHON,
            &target.origin(),
            &secret.origin(),
            &address,
            &authority,
        ],
    );
    let _ = fs::remove_file(&authority);
    assert!(is_done, "{text}");
    let (proxy, target, secret) = (proxy.stop(), target.stop(), secret.stop());
    assert_eq!(
        (&target["requests"], &secret["requests"]),
        (&json!(10), &json!(3))
    );
    assert_eq!(target["by_source"].as_object().unwrap().len(), 4);
    assert_eq!(
        proxy["proxy"]["by_session"],
        json!({ "x": 2, "y": 2, "z": 2, "k": 7 })
    );
    // One connection of the client's, one of the proxy's.
    assert_eq!(target["connections"], json!(4));
}

#[test]
fn a_signal_ends_tunnels_and_idle_connections_in_time() {
    let (proxy, address) = start_proxy("--processes 2");
    let (secret, authority) = start_tls("--processes 2");
    let idle: Vec<TcpStream> = (0..4)
        .map(|_| TcpStream::connect(secret.address()).unwrap())
        .collect();
    let mut beginning = TcpStream::connect(&address).unwrap();
    beginning.write_all(b"PRI * HTT").unwrap();
    let mut tunnel = TcpStream::connect(&address).unwrap();
    tunnel.set_read_timeout(Some(DEADLINE)).unwrap();
    let to = secret.address();
    // user:pass
    write!(
        tunnel,
        "CONNECT {to} HTTP/1.1\r\nHost: {to}\r\nProxy-Authorization: Basic dXNlcjpwYXNz\r\n\r\n"
    )
    .unwrap();
    let mut line = [0; 12];
    tunnel.read_exact(&mut line).unwrap();
    assert_eq!(&line, b"HTTP/1.1 200");
    // Each ends with code 0, which a process that had to be killed would not.
    let books = proxy.stop();
    assert_eq!(books["proxy"]["tunnels"], json!(1));
    let _ = tunnel.read_to_end(&mut Vec::new());
    let books = secret.stop();
    let _ = fs::remove_file(&authority);
    assert_eq!(books["tls_connections"], json!(0));
    drop(idle);
}

#[test]
fn what_makes_no_sense_is_refused_and_no_password_is_repeated() {
    let secret = tempfile::NamedTempFile::new().unwrap();
    fs::write(secret.path(), "hidden").unwrap();
    let file = secret.path().to_str().unwrap();
    for (flags, names) in [
        (&["--proxy-auth", "hidden"][..], "--proxy-auth"),
        (&["--proxy-auth", ":hidden"], "--proxy-auth"),
        (&["--proxy-auth-file", file], "--proxy-auth-file"),
        (
            &["--proxy-auth-file", "/nowhere/hidden"],
            "--proxy-auth-file",
        ),
        (
            &["--proxy-auth", "a:hidden", "--proxy-auth-file", file],
            "--proxy-auth",
        ),
        (
            &["--proxy", "--proxy-exits", "127.1.2.3/16"],
            "--proxy-exits",
        ),
        (&["--proxy", "--proxy-timeout", "0"], "--proxy-timeout"),
        (&["--proxy-allow-private"], "--proxy-allow-private"),
        (&["--proxy-exits", "127.2.0.0/16"], "--proxy-exits"),
        (&["--tls-cert", "x.pem"], "--tls"),
        (&["--http", "3"], "--http"),
    ] {
        let output = Command::new(program())
            .arg("serve")
            .args(flags)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {said}");
        assert!(said.contains(names), "{flags:?}: {said}");
        assert!(
            !said.replace("/nowhere/hidden", "").contains("hidden"),
            "{flags:?}: {said}"
        );
    }
    let output = Command::new(program())
        .args(["serve", "--proxy"])
        .env("CRAWLMARK_PROXY_AUTH", "hidden")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(2)
            && said.contains("CRAWLMARK_PROXY_AUTH")
            && !said.contains("hidden"),
        "{said}"
    );
}

#[test]
fn a_certificate_that_cannot_be_written_ends_the_target() {
    let output = Command::new(program())
        .args(["serve", "--tls", "--tls-cert", "/nowhere/authority.pem"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("/nowhere/authority.pem"), "{said}");
}
