//! Crawls through proxies that this project did not write: tinyproxy, squid, microsocks and dante.
//! `.ci/run` runs them.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use tempfile::TempDir;

use crate::foreign::{Foreign, column, nginx};
use crate::process::wait_for;
use crate::proxy::assert_failed_as;
use crate::raw::nobody;
use crate::run::{self, crawl, crawl_once};
use crate::secrets::SECRET;
use crate::target::Target;
use crate::tls::{Authority, GOOD};

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
        let user = ["-i", "127.0.0.1", "-u", "user", "-P", SECRET];
        let mut args = user.map(str::to_owned).to_vec();
        args.extend(["-p".to_owned(), port.to_string()]);
        args
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
            "http_port 127.0.0.1:{port}\npid_filename {at}/pid\ncoredump_dir {at}\n\
             cache_log {at}/cache.log\ncache deny all\npinger_enable off\n\
             visible_hostname localhost\nlogformat users %un %rm %>Hs\n\
             access_log stdio:{at}/access.log users\n\
             auth_param basic program /bin/sh {helper}\nauth_param basic children 1\n\
             acl known proxy_auth REQUIRED\nhttp_access allow known\nhttp_access deny all\n\
             shutdown_lifetime 0 seconds\n"
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
            "logoutput: {at}/log\ninternal: 127.0.0.1 port = {port}\nexternal: 127.0.0.1\n\
             clientmethod: none\nsocksmethod: none\nclient pass {{ {all} }}\n\
             socks block {{ {all} port = 9 }}\nsocks pass {{ {all} }}\n"
        );
        let pid = format!("{at}/pid");
        ["-f", &settings(place, &text), "-p", &pid]
            .map(str::to_owned)
            .to_vec()
    })
}

/// The flags for each foreign proxy that is installed.
fn ways(proxies: &[Option<Foreign>; 4]) -> Vec<String> {
    let [tiny, squid, dante, micro] = proxies.each_ref().map(|proxy| proxy.as_ref());
    let user = format!("user:{SECRET}@");
    let mut ways = Vec::new();
    for (proxy, scheme, user, more) in [
        (tiny, "http", &*user, " --local-ips 127.9.8.7"),
        (squid, "http", &user, ""),
        (dante, "socks5", "", ""),
        (dante, "socks5h", "", ""),
        (micro, "socks5", &user, ""),
        (micro, "socks5h", &user, ""),
    ] {
        let way = |proxy: &Foreign| format!("--proxy {scheme}://{user}{}{more}", proxy.address());
        ways.extend(proxy.map(way));
    }
    ways
}

#[test]
#[ignore = "needs squid, dante, tinyproxy and microsocks: .ci/run"]
fn nginx_logs_what_came_through_every_proxy_by_both_versions_of_http_and_tls() {
    let authority = Authority::new("one");
    let [certificate, key] = authority.sign("localhost", GOOD);
    let place = tempfile::tempdir().unwrap();
    let socket = place.path().join("socket");
    let settings = format!(
        "listen unix:{} ssl http2; ssl_protocols TLSv1.2 TLSv1.3; ssl_certificate {certificate}; \
         ssl_certificate_key {key};",
        socket.display()
    );
    let Some(nginx) = nginx("ssl http2", &settings) else {
        return;
    };
    let proxies = [tinyproxy(), squid(), dante(), microsocks()];
    let mut logged = 0;
    for way in [
        vec![format!("--unix-socket {}", socket.display())],
        ways(&proxies),
    ]
    .concat()
    {
        for tls in ["1.2", "1.3"] {
            for (http, protocol) in [("1.1", "HTTP/1.1"), ("2 --streams 5", "HTTP/2.0")] {
                let report = crawl(&format!(
                    "https://localhost:{}/items/{{id}} --cacert {} --ids 0..100 --shards 2 -c 4 \
                     --http {http} --expect regex:^an.item$ --tls-min {tls} --tls-max {tls} {way}",
                    nginx.port,
                    authority.authority()
                ));
                let name = format!("{way} TLS {tls} {protocol}");
                report.assert_states(&[("ok", 100)]);
                let log = nginx.log_of(logged, 100);
                logged += 100;
                assert_eq!(column(&log, 2).len(), 100, "{name}: each item once");
                assert_eq!(column(&log, 3), [protocol].into(), "{name}");
                let opened = report.count("/totals/connections_opened");
                assert_eq!(column(&log, 1).len() as u64, opened, "{name}");
                let tunnels = report.json().pointer("/latency/tunnel/count");
                let expected = way.contains("--proxy").then(|| json!(opened));
                assert_eq!(tunnels, expected.as_ref(), "{name}");
            }
        }
    }
}

#[test]
#[ignore = "needs squid, dante, tinyproxy and microsocks: .ci/run"]
fn each_proxy_serves_those_who_know_the_password_and_its_refusals_are_named() {
    let proxies = [tinyproxy(), squid(), dante(), microsocks()];
    let (_bound, dead) = nobody();
    let lasts = format!("-n 4 -c 1 --shards 1 {}", run::ONE_ATTEMPT);
    for way in ways(&proxies) {
        for tls in ["", "--tls"] {
            let target = Target::start(&format!("--processes 1 {tls}"));
            let insecure = if tls.is_empty() { "" } else { "-k" };
            let url = target.url().replace("127.0.0.1", "localhost");
            let flags = "--shards 2 -c 6 --disable-keepalive --retries 0";
            let report = crawl(&format!("{url} {insecure} -n 300 {flags} {way}"));
            report.assert_states(&[("ok", 300)]);
            if way.contains("user") {
                let other = way.replace(SECRET, "other");
                let refused = crawl(&format!("{url} {insecure} {lasts} {other}"));
                assert_eq!(refused.items("ok"), 0);
                // tinyproxy answers 401 where others answer 407.
                let kinds: BTreeSet<String> = refused.errors().into_keys().collect();
                let named = ["proxy_auth", "proxy_refused"]
                    .iter()
                    .any(|kind| kinds.contains(*kind));
                assert!(named || refused.statuses().contains_key("401"), "{kinds:?}");
            }
            assert_eq!(target.stop()["requests"], json!(300));
        }
        let forbidden = way.contains("socks5") && !way.contains("user");
        if forbidden {
            let report = crawl(&format!("http://127.0.0.1:9/ {lasts} {way}"));
            assert_failed_as(&report, "proxy_refused", "SOCKS reply 2");
        }
        let report = crawl(&format!("https://{dead}/{{id}} -k {lasts} {way}"));
        assert_failed_as(&report, "proxy_target_unreachable", "");
    }
    // squid has logged a session for each request.
    let [_, Some(squid), ..] = &proxies else {
        return;
    };
    let at = squid.address();
    let label = "user-session-{session:6:digits}";
    let target = Target::start("--processes 1");
    let proxy = format!("--session per-request --proxy http://{label}:{SECRET}@{at}");
    crawl_once(&format!("{} -n 60 --shards 2 -c 4 {proxy}", target.url()));
    wait_for("squid's log", || {
        let log = fs::read_to_string(squid.place.path().join("access.log")).ok()?;
        let users = log.lines().filter_map(|line| line.strip_suffix(" GET 200"));
        let users: BTreeSet<&str> = users.filter(|user| user.contains("session")).collect();
        (users.len() == 60).then_some(())
    });
}
