//! Crawls through proxies: one of the tests' own, which counts as a second witness, and servers that
//! do as the test says.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::Mutex;

use serde_json::json;

use crate::forward_proxy::ForwardProxy;
use crate::raw::nobody;
use crate::report::Report;
use crate::run::{ONE_ATTEMPT, crawl, start, start_by};
use crate::scripted::{OK, Peer, with_server};
use crate::target::Target;

/// A proxy for user `user` and password `hidden`.
fn closed_proxy() -> ForwardProxy {
    ForwardProxy::start(Some("hidden"))
}

#[test]
fn a_proxy_sees_the_sessions_that_were_asked_for() {
    for tls in ["", "--tls"] {
        // The number of sessions; 0 for one of each connection.
        for (flags, label, expected) in [
            ("--session per-request", "{session:8:digits}", 60),
            ("--session sticky=5 --disable-keepalive", "{session}", 5),
            ("--max-requests-per-connection 3", "{session:4:hex}", 0),
        ] {
            let target = Target::start(&format!("--processes 1 {tls}"));
            let proxy = closed_proxy();
            let (insecure, address) = (if tls.is_empty() { "" } else { "-k" }, proxy.address());
            let via = format!("--proxy http://user-session-{label}:hidden@{address}");
            let line = format!("-n 60 --shards 2 -c 4 {via} {flags} {insecure}");
            let report = crawl(&format!("{} {line}", target.url()));
            report.assert_states(&[("ok", 60)]);
            assert_eq!(target.stop()["requests"], json!(60));
            let opened = report.count("/totals/connections_opened");
            report.holds(&json!({
                "/plan/workload/proxy": format!("http://...@{address}"),
                "/validity/unavailable/CPU and queues of the target": "no_probe",
            }));
            let withheld = report.at("/command/withheld").to_string();
            assert!(withheld.contains("--proxy ..."), "{withheld}");
            let tunnels = report.json().pointer("/latency/tunnel/count");
            assert_eq!(tunnels, (!tls.is_empty()).then(|| json!(opened)).as_ref());
            let counts = proxy.counts();
            let sessions = &counts.sessions;
            let asked = if tls.is_empty() {
                assert_eq!([counts.requests, counts.tunnels], [60, 0], "{flags}");
                60
            } else {
                // Some are still being opened when the last item ends.
                assert_eq!(counts.requests, 0);
                let tunnels = opened..=60;
                assert!(tunnels.contains(&counts.tunnels), "{flags}: {counts:?}");
                counts.tunnels
            };
            assert_eq!(sessions.values().sum::<u64>(), asked);
            let expected = match (expected, tls) {
                (0, "") => opened,
                (0, _) => asked,
                _ => expected,
            };
            assert_eq!(sessions.len() as u64, expected, "{flags}: {sessions:?}");
            let are_digits = sessions
                .keys()
                .all(|label| label.len() == 8 && label.parse::<u32>().is_ok());
            assert!(are_digits || !label.contains("digits"), "{sessions:?}");
        }
    }
}

#[test]
fn proxies_take_turns_by_weight_and_the_bundled_target_is_behind_them() {
    let proxies = [(); 2].map(|()| ForwardProxy::start(None));
    let [often, seldom] = proxies.each_ref().map(ForwardProxy::address);
    let line = "-n 80 --shards 1 -c 3 --disable-keepalive";
    let both = format!("--proxy http://{often},weight=3 --proxy http://{seldom}");
    let report = crawl(&format!("{line} {both}"));
    report.assert_states(&[("ok", 80)]);
    // The proxy opens a connection for each request, whatever the crawl keeps, so that only
    // requests are compared.
    let report = crawl(&format!("-n 40 --shards 1 -c 3 --proxy http://{seldom}"));
    report.assert_states(&[("ok", 40)]);
    report.holds(&json!({"/witness/agrees": true}));
    let requests = proxies.map(|proxy| proxy.counts().requests);
    assert_eq!(requests, [60, 60]);
}

/// Check that every item failed at its only attempt, for this reason and with these details.
#[track_caller]
pub(crate) fn assert_failed_as(report: &Report, kind: &str, details: &str) {
    report.assert_all_failed(kind);
    if !details.is_empty() {
        let said = report.text(&format!("/failures/{kind}/details"));
        assert!(said.contains(details) && !said.contains("hidden"), "{said}");
    }
}

#[test]
fn refusals_of_a_proxy_are_told_apart_from_the_targets() {
    let (proxy, target) = (closed_proxy(), Target::start("--processes 1 --tls"));
    let (address, https) = (proxy.address(), format!("{} -k", target.url()));
    let (_bound, dead) = nobody();
    let crawl = |url: &str, proxy: &str| {
        crawl(&format!(
            "{url} --proxy {proxy} -n 4 -c 1 --shards 1 {ONE_ATTEMPT}"
        ))
    };
    let good = format!("http://user:hidden@{address}");
    for (url, proxy, kind, details) in [
        (
            &https,
            format!("http://user:hidden2@{address}"),
            "proxy_auth",
            "407 and asks for Basic",
        ),
        (
            &format!("https://{dead}/ -k"),
            good.clone(),
            "proxy_target_unreachable",
            "status 502",
        ),
        (
            &https,
            format!("socks5h://{address}"),
            "proxy_not_spoken",
            "not of SOCKS 5",
        ),
        // An http:// request goes to the proxy itself: its 407 is an error of the proxy.
        (
            &"http://127.0.0.1:9/{id}".to_owned(),
            format!("http://{address}"),
            "proxy_auth",
            "it answered with status 407",
        ),
    ] {
        assert_failed_as(&crawl(url, &proxy), kind, details);
    }
    // Its 502 may be the target's.
    let unreachable = crawl(&format!("http://{dead}/"), &good);
    unreachable.assert_states(&[("failed", 4)]);
    assert_eq!(unreachable.statuses(), [("502".to_owned(), 4)].into());
    assert_eq!(unreachable.errors(), BTreeMap::new());
}

#[test]
fn a_proxy_that_dies_or_is_silent_is_counted_and_holds_nothing_up() {
    let (proxy, target) = (closed_proxy(), Target::start("--processes 1 --latency 1ms"));
    let via = format!("--proxy http://user:hidden@{}", proxy.address());
    let line = format!("{} {via} -d 4s --shards 2 -c 4 --rate 400", target.url());
    let run = start(&format!("{line} --retries 0"));
    target.wait_for_requests(100);
    drop(proxy);
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
            let via = format!("--proxy http://{address} --connect-timeout 300ms");
            crawl(&format!(
                "https://127.0.0.1:9/ -k {via} -n 4 -c 4 {ONE_ATTEMPT}"
            ))
        },
    );
    assert_failed_as(&silent, "connect_timeout", "opened no tunnel within 300ms");
    silent.holds(&json!({"/latency/tunnel/censored": 4}));
}

#[test]
fn the_environment_names_proxies_and_the_recorded_command_does_without_it() {
    let lines = Mutex::new(BTreeSet::new());
    let serve = |mut peer: Peer| {
        while let Some(head) = peer.head() {
            lines.lock().unwrap().insert(head.replace("\r\n", "|"));
            peer.send(OK);
        }
    };
    let flags = "-n 2 -c 1 --shards 1 --rate 100 --robots ignore";
    let run = |variables: &[&str], url: &str| {
        let mut launcher = Command::new("env");
        launcher.args(variables);
        start_by(launcher, &format!("{url} {flags}"))
            .end()
            .report(0)
    };
    with_server(serve, |address| {
        let proxy = format!("http_proxy=user:hidden@{address}");
        let report = run(
            &[&proxy, "no_proxy=b.test,.c.test"],
            "http://a.test:81/{id}",
        );
        report.assert_states(&[("ok", 2)]);
        report.holds(&json!({
            "/plan/workload/proxy": format!("http://...@{address}"),
            "/plan/workload/proxy_from": "http_proxy",
            "/command/withheld": ["--proxy ..."],
        }));
        let typed = format!("http://a.test:81/{{id}} {flags} --proxy http://user:hidden@{address}");
        let again = crawl(&typed);
        assert_eq!(
            again.at("/plan/config_hash"),
            report.at("/plan/config_hash")
        );
        let command = report.at("/command/arguments").to_string();
        let flag = format!("\"--proxy\",\"http://...@{address}\"");
        assert!(command.contains(&flag), "{command}");
        // A host on this machine is connected to directly, as without the variable.
        let all = "all_proxy=socks5://127.0.0.1:1";
        let direct = run(&[&proxy, all], &format!("http://{address}/{{id}}"));
        direct.assert_states(&[("ok", 2)]);
        assert!(direct.json().pointer("/plan/workload/proxy").is_none());
    });
    let lines = lines.into_inner().unwrap();
    let authorized = "|host: a.test:81|proxy-authorization: Basic dXNlcjpoaWRkZW4=|";
    let (through, direct): (Vec<&String>, Vec<&String>) = lines
        .iter()
        .partition(|line| line.starts_with("GET http://a.test:81/"));
    assert_eq!((through.len(), direct.len()), (2, 2), "{lines:?}");
    assert!(
        through.iter().all(|line| line.contains(authorized)),
        "{lines:?}"
    );
}
