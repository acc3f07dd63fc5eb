//! Crawls through proxies that this project did not write, where they are installed: tinyproxy,
//! squid, microsocks and dante.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test whose proxy cannot be started is over"
)]
#![expect(clippy::print_stdout, reason = "a test that is skipped says so")]

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

use serde_json::json;
use tempfile::TempDir;

use crate::command::Started;
use crate::process::{end_with_children, wait_for};
use crate::proxy::assert_failed_as;
use crate::run::{ONE_ATTEMPT, Run, crawl};
use crate::secrets::{SECRET, lines_of_shards, tells_nothing};
use crate::target::Target;
use crate::tls::{Authority, GOOD, program, start_with};

/// A foreign proxy. Dropped, it is ended.
struct Foreign {
    child: Child,
    port: u16,
    place: TempDir,
}

impl Foreign {
    /// Host and port.
    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Start a program on a free port, with the arguments that `args` makes of it; none, and a word
    /// about it, if it is not installed.
    fn start(program: &str, args: impl Fn(u16, &TempDir) -> Vec<String>) -> Option<Self> {
        for _ in 0..10 {
            // Another process may take the port first; then the next one is tried.
            let port = TcpListener::bind("127.0.0.1:0")
                .unwrap()
                .local_addr()
                .unwrap()
                .port();
            let place = tempfile::tempdir().unwrap();
            let mut command = Command::new(program);
            command
                .args(args(port, &place))
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            let Ok(child) = command.spawn() else {
                println!("skipped: there is no {program} on this machine");
                return None;
            };
            let mut foreign = Self { child, port, place };
            let serves = wait_for("a foreign proxy", || {
                match foreign.child.try_wait().unwrap() {
                    Some(_) => Some(false),
                    None => TcpStream::connect(("127.0.0.1", port))
                        .is_ok()
                        .then_some(true),
                }
            });
            if serves {
                return Some(foreign);
            }
        }
        panic!("{program} does not start");
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        end_with_children(&mut self.child);
    }
}

/// Write the settings of a proxy to a file of its own, and return its path.
fn settings(place: &TempDir, text: &str) -> String {
    // Some proxies give up their rights before they write.
    fs::set_permissions(place.path(), Permissions::from_mode(0o777)).unwrap();
    let file = place.path().join("conf");
    fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

/// For clients at 127.9.8.7 that know the password.
fn tinyproxy() -> Option<Foreign> {
    Foreign::start("tinyproxy", |port, place| {
        let rules = format!("Allow 127.9.8.7\nBasicAuth user {SECRET}\nDisableViaHeader Yes\n");
        let file = settings(place, &format!("Port {port}\nListen 127.0.0.1\n{rules}"));
        ["-d", "-c", &file].map(str::to_owned).to_vec()
    })
}

fn microsocks() -> Option<Foreign> {
    Foreign::start("microsocks", |port, _| {
        [
            "-i",
            "127.0.0.1",
            "-u",
            "user",
            "-P",
            SECRET,
            "-p",
            &port.to_string(),
        ]
        .map(str::to_owned)
        .to_vec()
    })
}

/// For any user who knows the password; the access log has a line for each request, with the user's
/// name.
fn squid() -> Option<Foreign> {
    Foreign::start("squid", |port, place| {
        let helper = place.path().join("helper");
        let check = format!(
            "while read -r user password; do [ \"$password\" = {SECRET} ] && echo OK || echo ERR; done\n"
        );
        fs::write(&helper, check).unwrap();
        let (at, helper) = (place.path().display(), helper.display());
        let text = format!(
            "http_port 127.0.0.1:{port}\npid_filename {at}/pid\ncoredump_dir {at}\ncache_log {at}/cache.log\ncache deny all\n\
             pinger_enable off\nvisible_hostname localhost\nlogformat users %un %rm %>Hs\naccess_log stdio:{at}/access.log users\n\
             auth_param basic program /bin/sh {helper}\nauth_param basic children 1\nacl known proxy_auth REQUIRED\n\
             http_access allow known\nhttp_access deny all\nshutdown_lifetime 0 seconds\n"
        );
        ["-N", "-f", &settings(place, &text)]
            .map(str::to_owned)
            .to_vec()
    })
}

/// For clients without a password; the target at port 9 is forbidden.
fn dante() -> Option<Foreign> {
    Foreign::start("danted", |port, place| {
        let at = place.path().display();
        let all = "from: 0.0.0.0/0 to: 0.0.0.0/0";
        let text = format!(
            "logoutput: {at}/log\ninternal: 127.0.0.1 port = {port}\nexternal: 127.0.0.1\nclientmethod: none\nsocksmethod: none\n\
             client pass {{ {all} }}\nsocks block {{ {all} port = 9 }}\nsocks pass {{ {all} }}\n"
        );
        ["-f", &settings(place, &text), "-p", &format!("{at}/pid")]
            .map(str::to_owned)
            .to_vec()
    })
}

#[test]
fn tinyproxy_forwards_and_tunnels_for_an_address_and_a_password() {
    let Some(proxy) = tinyproxy() else { return };
    let at = proxy.address();
    for tls in ["", "--tls"] {
        let target = Target::start(&format!("--processes 1 {tls}"));
        let flags = if tls.is_empty() { "" } else { "-k" };
        let url = format!(
            "{} {flags} --shards 2 -c 6 --disable-keepalive --retries 0 --local-ips 127.9.8.7",
            target.url()
        );
        let report = crawl(&format!("{url} -n 300 --proxy http://user:{SECRET}@{at}"));
        report.assert_states(&[("ok", 300)]);
        let refused = crawl(&format!("{url} -n 4 --proxy http://user:other@{at}"));
        refused.assert_states(&[("failed", 4)]);
        // It answers 401 where others answer 407.
        let kinds: Vec<String> = refused.errors().into_keys().collect();
        let is_refused = if tls.is_empty() {
            refused.statuses().contains_key("401")
        } else {
            kinds == ["proxy_refused"]
        };
        assert!(
            is_refused || kinds == ["proxy_auth"],
            "{kinds:?} {:?}",
            refused.statuses()
        );
        assert_eq!(target.stop()["requests"], json!(300));
    }
}

#[test]
fn microsocks_tunnels_by_address_and_by_name() {
    let Some(proxy) = microsocks() else { return };
    let at = proxy.address();
    for (scheme, tls) in [
        ("socks5", ""),
        ("socks5", "--tls"),
        ("socks5h", ""),
        ("socks5h", "--tls"),
    ] {
        let target = Target::start(&format!("--processes 1 {tls}"));
        let url = target.url().replace("127.0.0.1", "localhost")
            + if tls.is_empty() { "" } else { " -k" };
        let report = crawl(&format!(
            "{url} -n 300 --shards 2 -c 6 --proxy {scheme}://user:{SECRET}@{at}"
        ));
        report.assert_states(&[("ok", 300)]);
        assert_eq!(
            report.count("/latency/tunnel/count"),
            report.count("/totals/connections_opened")
        );
        assert_eq!(target.stop()["requests"], json!(300));
    }
    let dead = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let crawl = |proxy: &str| {
        crawl(&format!(
            "http://{dead}/ --proxy {proxy} -n 4 -c 1 {ONE_ATTEMPT}"
        ))
    };
    assert_failed_as(
        &crawl(&format!("socks5://user:other@{at}")),
        "proxy_auth",
        "refused user name and password",
    );
    assert_failed_as(
        &crawl(&format!("socks5://{at}")),
        "proxy_auth",
        "asks for user name and password",
    );
    assert_failed_as(
        &crawl(&format!("socks5h://user:{SECRET}@{at}")),
        "proxy_target_unreachable",
        "SOCKS reply 5",
    );
}

#[test]
fn squid_logs_the_sessions_that_were_asked_for_and_refuses_wrong_passwords() {
    let Some(proxy) = squid() else { return };
    let (at, log) = (proxy.address(), proxy.place.path().join("access.log"));
    let lines = || {
        fs::read_to_string(&log)
            .unwrap_or_default()
            .lines()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    for (tls, method) in [("", "GET"), ("--tls", "CONNECT")] {
        let target = Target::start(&format!("--processes 1 {tls}"));
        let flags = if tls.is_empty() { "" } else { "-k" };
        let url = format!("{} {flags} --shards 2 -c 4 --retries 0", target.url());
        let logged = lines().len();
        let label = "user-session-{session:6:digits}";
        let report = crawl(&format!(
            "{url} -n 60 --session per-request --proxy http://{label}:{SECRET}@{at}"
        ));
        report.assert_states(&[("ok", 60)]);
        let all = wait_for("squid's log", || {
            Some(lines()).filter(|all| all.len() >= logged + 60)
        });
        let users: BTreeSet<&str> = all[logged..]
            .iter()
            .filter_map(|line| line.strip_suffix(&format!(" {method} 200")))
            .collect();
        assert_eq!(users.len(), 60, "{all:?}");
        assert!(
            users
                .iter()
                .all(|user| user.len() == "user-session-".len() + 6),
            "{users:?}"
        );
        assert_eq!(target.stop()["requests"], json!(60));
    }
    let refused = |url: &str| {
        crawl(&format!(
            "{url} -n 4 -c 1 --shards 1 {ONE_ATTEMPT} --proxy http://user:other@{at}"
        ))
    };
    let plain = refused("http://127.0.0.1:9/{id}");
    plain.assert_all_failed("proxy_auth");
    assert_failed_as(&refused("https://127.0.0.1:9/{id} -k"), "proxy_auth", "407");
    let dead = crawl(&format!(
        "https://127.0.0.1:9/{{id}} -k -n 4 -c 1 --shards 1 {ONE_ATTEMPT} --proxy http://user:{SECRET}@{at}"
    ));
    assert_failed_as(&dead, "proxy_target_unreachable", "status 503");
}

#[test]
fn dante_tunnels_by_address_and_by_name_and_its_rules_are_reported() {
    let Some(proxy) = dante() else { return };
    let at = proxy.address();
    for (scheme, tls) in [
        ("socks5", ""),
        ("socks5", "--tls"),
        ("socks5h", ""),
        ("socks5h", "--tls"),
    ] {
        let target = Target::start(&format!("--processes 1 {tls}"));
        let url = target.url().replace("127.0.0.1", "localhost")
            + if tls.is_empty() { "" } else { " -k" };
        crawl(&format!(
            "{url} -n 100 --shards 2 -c 4 --proxy {scheme}://{at}"
        ))
        .assert_states(&[("ok", 100)]);
        assert_eq!(target.stop()["requests"], json!(100));
    }
    let forbidden = crawl(&format!(
        "http://127.0.0.1:9/ --proxy socks5://{at} -n 4 -c 1 {ONE_ATTEMPT}"
    ));
    assert_failed_as(&forbidden, "proxy_refused", "SOCKS reply 2");
}

#[test]
fn a_foreign_proxy_that_dies_is_counted_and_holds_nothing_up() {
    for (start, scheme) in [
        (squid as fn() -> Option<Foreign>, "http"),
        (dante, "socks5"),
    ] {
        let Some(proxy) = start() else { continue };
        let target = Target::start("--processes 1");
        let credentials = if scheme == "http" {
            format!("user:{SECRET}@")
        } else {
            String::new()
        };
        let url = format!(
            "{} --proxy {scheme}://{credentials}{}",
            target.url(),
            proxy.address()
        );
        let run =
            Run::start(format!("{url} -d 4s --shards 1 -c 4 --rate 200 --retries 0").split(' '));
        target.wait_for_requests(50);
        drop(proxy);
        let report = run.end().report(0);
        assert!(
            report
                .errors()
                .get("proxy_unreachable")
                .is_some_and(|failed| *failed > 50),
            "{:?}",
            report.errors()
        );
    }
}

#[test]
fn passwords_for_foreign_proxies_are_in_no_file_output_log_or_process_title() {
    let target = Target::start("--processes 1 --latency 1ms");
    for (start, scheme) in [
        (squid as fn() -> Option<Foreign>, "http"),
        (tinyproxy, "http"),
        (microsocks, "socks5"),
    ] {
        let Some(proxy) = start() else { continue };
        for (password, code) in [(SECRET.to_owned(), 0), (format!("{SECRET}x"), 1)] {
            let (url, via) = (
                target.url(),
                format!("{scheme}://user:{password}@{}", proxy.address()),
            );
            let flags = [
                "-s",
                "2",
                "-c",
                "2",
                "--retries",
                "0",
                "--out",
                "out",
                "--local-ips",
                "127.9.8.7",
            ];
            let limit = [
                "-d",
                "1s",
                "--rate",
                "100",
                "--threshold",
                "error_rate < 50%",
            ];
            let started = Started::new(&[&["run", &url, "-x", &via][..], &flags, &limit].concat());
            let lines = lines_of_shards(&started);
            assert!(
                lines
                    .iter()
                    .all(|line| line.contains(&proxy.address()) && !line.contains(SECRET)),
                "{lines:?}"
            );
            tells_nothing(started, &[code]);
        }
        let log = fs::read_to_string(proxy.place.path().join("access.log")).unwrap_or_default();
        assert!(!log.contains(SECRET), "{log}");
    }
}

#[test]
fn nginx_logs_what_came_through_every_proxy_by_both_versions_of_both_protocols() {
    let Some(program) = program() else { return };
    let authority = Authority::new("one");
    let identity = authority.sign("localhost", GOOD);
    let place = tempfile::tempdir().unwrap();
    let socket = place.path().join("socket");
    let proxies = [tinyproxy(), squid(), dante(), microsocks()];
    let [tiny, squid, dante, micro] = proxies
        .each_ref()
        .map(|proxy| proxy.as_ref().map(Foreign::address));
    let via = |scheme: &str, user: &str, at: Option<String>| {
        at.map(|at| format!("--proxy {scheme}://{user}{at}"))
    };
    let user = format!("user:{SECRET}@");
    let ways: Vec<String> = [
        Some(String::new()),
        Some(format!("--unix-socket {}", socket.display())),
        via("http", &user, tiny).map(|flags| flags + " --local-ips 127.9.8.7"),
        via("http", &user, squid),
        via("socks5", "", dante.clone()),
        via("socks5h", "", dante),
        via("socks5", &user, micro.clone()),
        via("socks5h", &user, micro),
    ]
    .into_iter()
    .flatten()
    .collect();
    let listen = format!("listen unix:{} ssl http2;", socket.display());
    let nginx = start_with(
        &program,
        "ssl http2",
        &identity,
        &format!("{listen} ssl_protocols TLSv1.2 TLSv1.3;"),
    );
    let mut logged = 0;
    for way in &ways {
        for tls in ["1.2", "1.3"] {
            for (http, protocol) in [("1.1", "HTTP/1.1"), ("2 --streams 5", "HTTP/2")] {
                let report = crawl(&format!(
                    "https://localhost:{}/items/{{id}} --cacert {} --ids 0..100 --shards 2 -c 4 --http {http} \
                     --expect regex:^an.item$ --tls-min {tls} --tls-max {tls} {way}",
                    nginx.port,
                    authority.authority()
                ));
                let name = format!("{way} TLS {tls} {protocol}");
                report.assert_states(&[("ok", 100)]);
                assert_eq!(report.count("/totals/attempts"), 100, "{name}");
                let all = wait_for("the log", || {
                    Some(nginx.log()).filter(|log| log.len() >= logged + 100)
                });
                let log = &all[logged..];
                logged = all.len();
                let column = |number: usize| {
                    log.iter()
                        .map(move |line| line.split(' ').nth(number).unwrap())
                };
                assert_eq!(
                    (log.len(), column(2).collect::<BTreeSet<_>>().len()),
                    (100, 100),
                    "{name}: each item once"
                );
                assert!(
                    column(3).all(|spoken| spoken.starts_with(protocol)),
                    "{name}: {}",
                    log[0]
                );
                let opened = report.count("/totals/connections_opened");
                assert_eq!(
                    column(1).collect::<BTreeSet<_>>().len() as u64,
                    opened,
                    "{name}"
                );
                let tunnels = report
                    .json()
                    .pointer("/latency/tunnel/count")
                    .and_then(serde_json::Value::as_u64);
                assert_eq!(
                    tunnels.unwrap_or(0),
                    if way.contains("--proxy") { opened } else { 0 },
                    "{name}"
                );
                assert!(
                    report
                        .counts("/tls/sessions")
                        .keys()
                        .all(|session| session.starts_with(&format!("TLSv{tls}"))),
                    "{name}"
                );
            }
        }
    }
}
