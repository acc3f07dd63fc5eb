//! Crawls through proxies: the bundled one, whose ledger is the second witness, and servers that do
//! as the test says.
#![expect(
    clippy::unwrap_used,
    reason = "a test whose proxy cannot be started is over"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::process::Command;
use std::sync::Mutex;

use serde_json::{Value, json};

use crate::bad_input::assert_refused;
use crate::report::{Report, counts};
use crate::run::{ONE_ATTEMPT, Run, crawl};
use crate::scripted::{OK, Peer, with_server};
use crate::target::Target;

/// The bundled proxy, for user `user` and password `hidden`.
fn bundled_proxy() -> Target {
    Target::start("--processes 1 --proxy-auth user:hidden")
}

/// Sessions that a proxy was asked for, and how often.
fn sessions(books: &Value) -> BTreeMap<String, u64> {
    counts(&books["proxy"]["by_session"])
}

#[test]
fn the_bundled_proxy_sees_the_sessions_that_were_asked_for() {
    for (tls, of_requests) in [("", "requests"), ("--tls", "tunnels")] {
        for (flags, label, expected) in [
            ("--session per-request", "{session:8:digits}", 60),
            ("--session sticky=5 --disable-keepalive", "{session}", 5),
            ("--max-requests-per-connection 3", "{session:4:hex}", 0),
        ] {
            let target = Target::start(&format!("--processes 1 {tls}"));
            let proxy = bundled_proxy();
            let insecure = if tls.is_empty() { "" } else { "--insecure" };
            let url = format!("http://user-session-{label}:hidden@{}", proxy.address());
            let report = crawl(&format!(
                "{} {insecure} -n 60 --shards 2 -c 4 --proxy {url} {flags}",
                target.url()
            ));
            report.assert_states(&[("ok", 60)]);
            let (books, opened) = (proxy.stop(), report.count("/totals/connections_opened"));
            let sessions = sessions(&books);
            assert_eq!(target.stop()["requests"], json!(60));
            let expected = if expected == 0 { opened } else { expected };
            assert_eq!(sessions.len() as u64, expected, "{flags}: {sessions:?}");
            let asked = if tls.is_empty() { 60 } else { opened };
            assert_eq!(
                (sessions.values().sum::<u64>(), &books["proxy"][of_requests]),
                (asked, &json!(asked))
            );
            assert!(
                !label.contains("digits")
                    || sessions
                        .keys()
                        .all(|label| label.len() == 8 && label.parse::<u32>().is_ok())
            );
            let tunnels = report
                .json()
                .pointer("/latency/tunnel/count")
                .map_or(0, |count| count.as_u64().unwrap());
            assert_eq!(tunnels, if tls.is_empty() { 0 } else { opened });
            let shown = format!("http://...@{}", proxy_address(&url));
            assert_eq!(report.text("/plan/workload/proxy"), shown);
            assert!(
                report
                    .json()
                    .to_string()
                    .contains("user name and password of --proxy"),
                "the command says so"
            );
        }
    }
}

#[test]
fn a_session_is_retired_when_it_was_used_often_failed_or_was_blocked() {
    // One connection and one session per shard. Items may move from one shard to the other.
    let one_each = "--shards 2 -c 2 --session sticky=2";
    for (target_flags, flags, least, most, uses) in [
        ("", format!("{one_each} --retire-session uses=5"), 11, 12, 5),
        ("", format!("{one_each} --retire-session uses=50"), 0, 1, 50),
        (
            "",
            "--shards 2 -c 4 --retire-session uses=5".to_owned(),
            8,
            12,
            5,
        ),
        (
            "--fault error:1.0:500",
            format!("{one_each} {ONE_ATTEMPT} --retire-session status=500-503"),
            60,
            60,
            1,
        ),
        (
            "--fault error:1.0:500",
            format!("{one_each} {ONE_ATTEMPT} --retire-session errors=3"),
            19,
            20,
            3,
        ),
        (
            "--fault error:1.0:500",
            format!("{one_each} {ONE_ATTEMPT} --retire-session block"),
            0,
            0,
            60,
        ),
        (
            "--tls",
            format!("{one_each} --insecure --retire-session uses=5"),
            11,
            12,
            1,
        ),
        // Streams in flight when a session is retired still end on it.
        (
            "--tls",
            "--insecure --shards 1 -c 1 --http 2 --streams 4 --retire-session uses=6".to_owned(),
            6,
            10,
            1,
        ),
    ] {
        let (target, proxy) = (
            Target::start(&format!("--processes 1 {target_flags}")),
            bundled_proxy(),
        );
        let url = format!("http://user-session-{{session}}:hidden@{}", proxy.address());
        let report = crawl(&format!("{} -n 60 --proxy {url} {flags}", target.url()));
        assert_eq!(report.count("/totals/attempts"), 60, "{flags}");
        let (retired, sessions) = (
            report.count("/totals/sessions_retired"),
            sessions(&proxy.stop()),
        );
        assert!(
            (least..=most).contains(&retired),
            "{flags}: {retired} retired"
        );
        assert!(
            sessions.values().all(|times| *times <= uses),
            "{flags}: {sessions:?}"
        );
        assert!(
            sessions.len() as u64 >= retired,
            "{flags}: {retired} of {sessions:?}"
        );
        assert_eq!(target.stop()["requests"], json!(60), "{flags}");
    }
}

fn proxy_address(url: &str) -> &str {
    url.rsplit_once('@').unwrap().1
}

#[test]
fn proxies_take_turns_by_weight_and_the_bundled_target_is_behind_them() {
    let proxies = [(); 2].map(|()| Target::start("--processes 1 --proxy"));
    let [often, seldom] = [0, 1].map(|at: usize| proxies[at].address().to_owned());
    let report = crawl(&format!(
        "-n 80 --shards 1 -c 3 --disable-keepalive --proxy http://{often},weight=3 --proxy http://{seldom}"
    ));
    report.assert_states(&[("ok", 80)]);
    // The proxy opens a connection for each request, whatever the crawl keeps, so that only
    // requests are compared.
    for session in ["", "--session sticky=2"] {
        let label = if session.is_empty() {
            ""
        } else {
            "{session}:x@"
        };
        let report = crawl(&format!(
            "-n 40 --shards 1 -c 3 {session} --proxy http://{label}{seldom}"
        ));
        report.assert_states(&[("ok", 40)]);
        assert_eq!(report.at("/witness/agrees"), &json!(true));
    }
    // Equal weights are turns of one each, so that two sessions are enough.
    let url = |address: &str| format!("--proxy http://{{session}}:x@{address},weight=3");
    let both = format!("{} {} --session sticky=2", url(&often), url(&seldom));
    crawl(&format!("-n 40 --shards 1 -c 2 --disable-keepalive {both}"))
        .assert_states(&[("ok", 40)]);
    assert_eq!(
        proxies.map(|proxy| proxy.stop()["proxy"]["requests"].as_u64().unwrap()),
        [80, 120]
    );
}

/// Every item failed at its only attempt, for this reason and with these details.
#[track_caller]
pub(crate) fn assert_failed_as(report: &Report, kind: &str, details: &str) {
    report.assert_all_failed(kind);
    let said = report.text(&format!("/failures/{kind}/details"));
    assert!(said.contains(details) && !said.contains("hidden"), "{said}");
}

#[test]
fn refusals_of_a_proxy_are_told_apart_from_the_targets() {
    let (proxy, target) = (bundled_proxy(), Target::start("--processes 1 --tls"));
    let (address, https) = (proxy.address(), format!("{} --insecure", target.url()));
    let dead = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let crawl = |url: &str, proxy: &str| {
        crawl(&format!(
            "{url} --proxy {proxy} -n 4 -c 1 --shards 1 {ONE_ATTEMPT}"
        ))
    };
    let good = format!("http://user:hidden@{address}");
    assert_failed_as(
        &crawl(&https, &format!("http://user:hidden2@{address}")),
        "proxy_auth",
        "407 and asks for Basic",
    );
    assert_failed_as(
        &crawl(&https, &format!("http://{address}")),
        "proxy_auth",
        "407 and asks for Basic",
    );
    assert_failed_as(
        &crawl(&format!("https://{dead}/ -k"), &good),
        "proxy_target_unreachable",
        "status 502",
    );
    assert_failed_as(
        &crawl(&https, &format!("socks5h://{address}")),
        "proxy_not_spoken",
        "not of SOCKS 5",
    );
    let closed = with_server(
        |mut peer: Peer| drop(peer.head()),
        |address| crawl(&https, &format!("http://{address}")),
    );
    assert_failed_as(&closed, "proxy_closed", "it closed the connection");
    let garbled = with_server(
        |mut peer: Peer| {
            peer.head();
            peer.send("220 ftp.example ready\r\n");
        },
        |address| crawl(&https, &format!("http://{address}")),
    );
    assert_failed_as(&garbled, "proxy_not_spoken", "cannot be read");
    // An http:// request goes to the proxy itself: its 407 is an error of the proxy, its 502 may be
    // the target's.
    let plain = crawl("http://127.0.0.1:9/{id}", &format!("http://{address}"));
    assert_failed_as(
        &plain,
        "proxy_auth",
        &format!("http://{address}: it answered with status 407"),
    );
    let unreachable = crawl(&format!("http://{dead}/"), &good);
    unreachable.assert_states(&[("failed", 4)]);
    assert_eq!(
        (unreachable.statuses(), unreachable.errors()),
        ([("502".to_owned(), 4)].into(), BTreeMap::new())
    );
}

#[test]
fn a_proxy_that_dies_or_says_nothing_is_counted_and_holds_nothing_up() {
    let (proxy, target) = (
        bundled_proxy(),
        Target::start("--processes 1 --latency 1ms"),
    );
    let url = format!(
        "{} --proxy http://user:hidden@{}",
        target.url(),
        proxy.address()
    );
    let run = Run::start(format!("{url} -d 5s --shards 2 -c 4 --rate 400 --retries 0").split(' '));
    target.wait_for_requests(100);
    proxy.kill();
    let report = run.end().report(0);
    assert!(
        report.errors()["proxy_unreachable"] > 100,
        "{:?}",
        report.errors()
    );
    // Its port is open, and it never answers.
    let silent = with_server(
        |mut peer: Peer| peer.drain(),
        |address| {
            let proxy = format!("--proxy http://{address} --connect-timeout 300ms");
            crawl(&format!(
                "https://127.0.0.1:9/ -k {proxy} -n 4 -c 4 {ONE_ATTEMPT}"
            ))
        },
    );
    assert_failed_as(&silent, "connect_timeout", "opened no tunnel within 300ms");
    assert_eq!(silent.count("/latency/tunnel/censored"), 4);
}

#[test]
fn the_environment_names_proxies_and_the_run_says_so() {
    let lines = Mutex::new(BTreeSet::new());
    let serve = |mut peer: Peer| {
        while let Some(head) = peer.head() {
            lines.lock().unwrap().insert(head.replace("\r\n", "|"));
            peer.send(OK);
        }
    };
    let run = |variables: &[&str], url: &str| {
        let mut launcher = Command::new("env");
        launcher.args(variables);
        Run::start_by(
            launcher,
            format!("{url} -n 2 -c 1 --shards 1 --rate 100 --robots ignore").split(' '),
        )
    };
    with_server(serve, |address| {
        let proxy = format!("http_proxy=user:hidden@{address}");
        let report = run(
            &[&proxy, "no_proxy=b.test,.c.test"],
            "http://a.test:81/{id}",
        )
        .end()
        .report(0);
        report.assert_states(&[("ok", 2)]);
        assert_eq!(
            report.text("/plan/workload/proxy"),
            format!("http://...@{address}")
        );
        assert_eq!(report.text("/plan/workload/proxy_from"), "http_proxy");
        // The recorded command does without the variable, and has the same plan.
        let typed = format!(
            "http://a.test:81/{{id}} -n 2 -c 1 --shards 1 --rate 100 --robots ignore --proxy http://user:hidden@{address}"
        );
        let again = crawl(&typed);
        assert_eq!(again.text("/plan/workload/proxy_from"), "--proxy");
        assert_eq!(
            again.text("/plan/config_hash"),
            report.text("/plan/config_hash")
        );
        let command: Vec<_> = report
            .at("/command/arguments")
            .as_array()
            .unwrap()
            .iter()
            .map(|word| word.as_str().unwrap())
            .collect();
        assert!(
            command
                .windows(2)
                .any(|pair| pair == ["--proxy", &format!("http://...@{address}")]),
            "{command:?}"
        );
        assert_eq!(
            *report.at("/command/withheld"),
            json!(["user name and password of --proxy"])
        );
        // A host on this machine is connected to directly, as without the variable.
        let direct = run(
            &[&proxy, "all_proxy=socks5://127.0.0.1:1"],
            &format!("http://{address}/{{id}}"),
        )
        .end()
        .report(0);
        direct.assert_states(&[("ok", 2)]);
        assert!(direct.json().pointer("/plan/workload/proxy").is_none());
    });
    let lines = lines.into_inner().unwrap();
    let through: Vec<_> = lines
        .iter()
        .filter(|line| line.starts_with("GET http://a.test:81/"))
        .collect();
    assert_eq!((lines.len(), through.len()), (4, 2), "{lines:?}");
    let authorized = |line: &&String| {
        line.contains("|host: a.test:81|proxy-authorization: Basic dXNlcjpoaWRkZW4=|")
    };
    assert!(through.iter().all(authorized), "{lines:?}");
}

#[test]
fn proxies_that_cannot_work_are_refused_before_anything_is_sent() {
    let dead = "http://127.0.0.1:9";
    let with_session = "http://u-{session}:p@127.0.0.1:9";
    assert_refused(&[
        (
            &["URL", "-x", "127.0.0.1:3128"],
            "begins with http://, socks5:// or socks5h://",
        ),
        (
            &["URL", "-x", "https://127.0.0.1:9"],
            "https:// proxies are not supported",
        ),
        (
            &["URL", "-x", "socks4://127.0.0.1:9"],
            "no proxy of this scheme",
        ),
        (
            &["URL", "-x", "http://127.0.0.1"],
            "no port from 1 to 65535",
        ),
        (&["URL", "-x", "http://u:p/q@127.0.0.1:9"], "Write %2F"),
        (
            &["URL", "-x", dead, "-x", "none"],
            "--proxy none excludes other proxies",
        ),
        (
            &["URL", "-x", dead, "--session", "per-request"],
            "--session needs {session} in the user name",
        ),
        (
            &["URL", "-x", "none", "--session", "per-request"],
            "--session is for a proxy",
        ),
        (
            &["URL", "--session", "per-request"],
            "--session is for a proxy",
        ),
        (
            &["URL", "--retire-session", "block"],
            "--retire-session is for a proxy",
        ),
        (
            &["URL", "-x", dead, "--retire-session", "block"],
            "--retire-session needs {session} in the user name",
        ),
        (
            &["URL", "-x", with_session, "--retire-session", "age=3"],
            "uses=N, errors=N, status=403,429 and block",
        ),
        (
            &[
                "URL",
                "-x",
                with_session,
                "--session",
                "per-request",
                "--retire-session",
                "uses=2",
            ],
            "per-request uses each session once",
        ),
        (
            &["URL", "-x", with_session, "--session", "hourly"],
            "sticky=N",
        ),
        (
            &[
                "URL",
                "-x",
                "http://127.0.0.1:9,weight=3",
                "-x",
                with_session,
                "--session",
                "sticky=2",
            ],
            "use 3 sessions or more",
        ),
        (
            &[
                "URL",
                "-x",
                with_session,
                "-x",
                dead,
                "--session",
                "sticky=1",
            ],
            "use 2 sessions or more",
        ),
        (
            &[
                "URL",
                "-x",
                with_session,
                "--session",
                "per-request",
                "--max-requests-per-connection",
                "2",
            ],
            "remove --max-requests-per-connection",
        ),
        (
            &["URL", "-x", "socks5h://127.0.0.1:9", "--connect-to", ":::1"],
            "use socks5://, or remove --connect-to",
        ),
        (
            &[
                "URL",
                "-x",
                "socks5://127.0.0.1:9",
                "-x",
                dead,
                "--connect-to",
                ":::1",
            ],
            "use socks5://, or remove --connect-to",
        ),
        (
            &["URL", "-x", dead, "-H", "Proxy-Authorization: Basic hidden"],
            "would go to the target",
        ),
        (
            &["URL", "-x", dead, "--local-ips", "fd00::1"],
            "and 127.0.0.1 has no other",
        ),
        (
            &["-x", "http://192.0.2.1:9"],
            "the bundled target listens on this machine alone",
        ),
        (
            &["http://a.test/", "-x", dead],
            "which may be public: say how fast",
        ),
    ]);
}
