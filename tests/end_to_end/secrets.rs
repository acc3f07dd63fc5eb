//! A secret that is typed in a URL, a header, a body or a target's command stands in nothing that
//! is saved, shown or said.
#![expect(
    clippy::unwrap_used,
    reason = "a test whose program cannot be started is over"
)]

use std::fs;
use std::path::Path;

use base64::Engine;

use crate::command::{Done, Started};
use crate::process::{wait_for, working_in};
use crate::run::program;
use crate::scripted::{Peer, with_server};
use crate::target::Target;

pub(crate) const SECRET: &str = "hush7f3a";

/// Files below `place` that hold the secret.
fn tellers(place: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(place).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(tellers(&path));
        } else if String::from_utf8_lossy(&fs::read(&path).unwrap()).contains(SECRET) {
            found.push(path.display().to_string());
        }
    }
    found
}

/// Runs a command that ends with one of these codes and tells no secret, by its output or by any
/// file.
#[track_caller]
pub(crate) fn tells_nothing(started: Started, codes: &[i32]) -> Done {
    let done = started.end().code(codes);
    assert_eq!(
        tellers(done.place.path()),
        Vec::<String>::new(),
        "{}{}",
        done.stdout,
        done.stderr
    );
    done
}

#[test]
fn no_command_saves_or_shows_what_was_typed_in_secret() {
    let target = Target::start("--processes 1 --latency 1ms");
    let url = format!("{}?api_key={SECRET}", target.url());
    let header = format!("authorization: Bearer {SECRET}");
    let crawl = ["-H", &header, "--body", SECRET, "-m", "GET", "-c", "2"];
    let command =
        |first: &[&str], rest: &[&str]| Started::new(&[first, &["--out", "out"], rest].concat());

    let run = tells_nothing(
        command(
            &["run", &url],
            &[&crawl[..], &["-n", "20", "-s", "1"]].concat(),
        ),
        &[0],
    );
    assert!(
        fs::read_to_string(run.out().join("result.json"))
            .unwrap()
            .contains("api_key=..."),
        "it is named all the same"
    );
    let out = run.out();
    tells_nothing(Started::new(&["report", out.to_str().unwrap()]), &[0]);

    let [base, candidate] =
        ["1", "2"].map(|more| format!("-H 'x-more: {SECRET}{more}' --connect-timeout {more}s"));
    let served = format!(
        "exec {} serve --processes 1 --listen 127.0.0.1:{{port}} --proxy --proxy-auth user:{SECRET}",
        program().display()
    );
    let own = format!("http://127.0.0.1:{{port}}/items/{{id}}?api_key={SECRET}");
    let sides = [
        "--base",
        &base,
        "--cand",
        &candidate,
        "--base-target",
        &served,
        "--cand-target",
        &served,
    ];
    let crawled = [&["--", &own][..], &crawl, &["-n", "20", "-s", "1"]].concat();
    let compared = tells_nothing(
        command(&["ab", "--pairs", "2"], &[&sides[..], &crawled].concat()),
        &[5],
    );
    let summary = fs::read_to_string(compared.out().join("comparison.json")).unwrap();
    assert!(
        summary.contains("--proxy-auth ...") && summary.contains("x-more: ..."),
        "{summary}"
    );
    tells_nothing(
        Started::new(&["compare", compared.out().to_str().unwrap()]),
        &[5],
    );

    let rounds = [
        "--no-ceiling",
        "-s",
        "1,2",
        "-d",
        "500ms",
        "--repeats",
        "1",
        "--",
    ];
    tells_nothing(
        command(&["scale", &url], &[&rounds[..], &crawl[..6]].concat()),
        &[0, 5],
    );
    let probes = [
        "--probe",
        "1s",
        "--warmup",
        "0s",
        "--rest",
        "0s",
        "--from",
        "20",
        "--max-rate",
        "40",
        "--",
    ];
    tells_nothing(
        command(&["capacity", &url], &[&probes[..], &crawl[..6]].concat()),
        &[0, 5],
    );
    tells_nothing(
        Started::new(
            &[
                &[
                    "ladder", "--out", "out", "--rungs", "1", "-d", "500ms", "--",
                ],
                &crawl[..6],
            ]
            .concat(),
        ),
        &[0],
    );
}

/// The command lines of a run's processes, once both of its shards are there: by then the
/// supervisor has read its arguments.
pub(crate) fn lines_of_shards(started: &Started) -> Vec<String> {
    let work = started.work();
    wait_for("both shards", || {
        let read = |pid: &i32, file: &str| {
            fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default()
        };
        let all = working_in(&work);
        let shards = all
            .iter()
            .filter(|pid| read(pid, "comm").starts_with("crawlmark-s"))
            .count();
        (shards == 2).then(|| {
            all.iter()
                .map(|pid| read(pid, "cmdline"))
                .collect::<Vec<_>>()
        })
    })
}

#[test]
fn credentials_of_a_proxy_are_in_no_file_output_or_process_list() {
    let (proxy, target) = (
        Target::start(&format!("--processes 1 --proxy-auth user:{SECRET}")),
        Target::start("--latency 1ms"),
    );
    let address = proxy.address();
    let [with_label, wrong] = ["user", "other"]
        .map(|user| format!("http://{user}-session-{{session}}:{SECRET}@{address}"));
    let url = target.url();
    let crawl = [
        "run",
        &url,
        "-s",
        "2",
        "-c",
        "2",
        "--retries",
        "0",
        "--out",
        "out",
    ];
    let started = Started::new(
        &[
            &crawl[..],
            &["-d", "2s", "--rate", "100", "-x", &with_label],
        ]
        .concat(),
    );
    let lines = lines_of_shards(&started);
    assert!(
        lines
            .iter()
            .all(|line| line.contains(address) && !line.contains(SECRET)),
        "{lines:?}"
    );
    let done = tells_nothing(started, &[0]);
    let result = fs::read_to_string(done.out().join("result.json")).unwrap();
    assert!(
        result.contains(&format!("http://...@{address}")) && done.stderr.contains("proxy"),
        "{}",
        done.stderr
    );
    for refused in [
        wrong,
        format!("socks5://user:{SECRET}@{address}"),
        format!("http://user:{SECRET}@{address}x"),
    ] {
        tells_nothing(
            Started::new(&[&crawl[..], &["-n", "4", "-x", &refused]].concat()),
            &[1, 2],
        );
    }
    // A server that gets the request of the proxy and repeats it.
    let echo = |mut peer: Peer| {
        while let Some(head) = peer.head() {
            peer.send(&format!(
                "HTTP/1.1 403 No\r\ncontent-length: {}\r\n\r\n{head}",
                head.len()
            ));
        }
    };
    let encoded = base64::engine::general_purpose::STANDARD.encode(format!("user:{SECRET}"));
    let told = with_server(echo, |address| {
        let proxy = format!("http://user:{SECRET}@{address}");
        tells_nothing(
            Started::new(&[&crawl[..], &["-n", "4", "-x", &proxy]].concat()),
            &[1],
        )
    });
    let result = fs::read_to_string(told.out().join("result.json")).unwrap();
    assert!(
        result.contains("proxy-authorization") && !result.contains(&encoded[..8]),
        "{result}"
    );
}

#[test]
fn credentials_of_the_target_are_in_no_file_output_or_process_list() {
    let target = Target::start("--processes 1 --latency 1ms");
    let url = target.url();
    let (auth, glued, json) = (
        format!("user:{SECRET}"),
        format!("-auser:{SECRET}"),
        format!("\"{SECRET}\""),
    );
    let crawl = [
        "run",
        &url,
        "-s",
        "2",
        "-c",
        "2",
        "--retries",
        "0",
        "--out",
        "out",
        "-m",
        "GET",
        "--json-body",
        &json,
    ];
    let started = Started::new(
        &[
            &crawl[..13],
            &["{}", "-d", "2s", "--rate", "100", "-a", &auth],
        ]
        .concat(),
    );
    let work = started.work();
    let lines = wait_for("both shards", || {
        let read = |pid: &i32, file: &str| {
            fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default()
        };
        let all = working_in(&work);
        let shards = all
            .iter()
            .filter(|pid| read(pid, "comm").starts_with("crawlmark-s"))
            .count();
        (shards == 2).then(|| {
            all.iter()
                .map(|pid| read(pid, "cmdline"))
                .collect::<Vec<_>>()
        })
    });
    assert!(
        lines
            .iter()
            .all(|line| line.contains(&url) && !line.contains(SECRET)),
        "{lines:?}"
    );
    tells_nothing(started, &[0]);
    tells_nothing(
        Started::new(&[&crawl[..], &["-n", "4", &glued]].concat()),
        &[0],
    );
    let (base, candidate) = (
        format!("-a user:{SECRET}"),
        format!("--auth=other:{SECRET}"),
    );
    let sides = [
        "ab", "--out", "out", "--pairs", "2", "--base", &base, "--cand", &candidate, "--", &url,
        "-n", "20",
    ];
    let compared = tells_nothing(Started::new(&sides), &[5]);
    let saved = fs::read_to_string(compared.out().join("comparison.json")).unwrap();
    assert!(
        saved.contains("-a ...") && saved.contains("--auth=..."),
        "{saved}"
    );
    // A server that repeats the request.
    let echo = |mut peer: Peer| {
        while let Some(head) = peer.head() {
            peer.send(&format!(
                "HTTP/1.1 403 No\r\ncontent-length: {}\r\n\r\n{head}",
                head.len()
            ));
        }
    };
    let encoded = base64::engine::general_purpose::STANDARD.encode(&auth);
    let told = with_server(echo, |address| {
        let url = format!("http://{address}/");
        tells_nothing(
            Started::new(&["run", &url, "-n", "4", "-a", &auth, "--out", "out"]),
            &[1],
        )
    });
    let result = fs::read_to_string(told.out().join("result.json")).unwrap();
    assert!(
        result.contains("authorization") && !result.contains(&encoded[..8]),
        "{result}"
    );
    for refused in [
        &["-a", SECRET][..],
        &["--json-body", &json[1..]],
        &["-a", &auth, "-H", "authorization: x"],
    ] {
        tells_nothing(
            Started::new(&[&["run", &url, "-n", "4"], refused].concat()),
            &[2],
        );
    }
}

#[test]
fn a_comparison_of_two_urls_with_secrets_saves_shows_and_names_none() {
    let target = Target::start("--processes 1");
    let side = |more: &str| {
        format!(
            "'{}?page=1&token={SECRET}{more}&sig={SECRET}'",
            target.url()
        )
    };
    let [base, candidate] = ["a", "b"].map(side);
    let sides = [
        "--base", &base, "--cand", &candidate, "--", "-n", "200", "-s", "1", "-c", "2",
    ];
    let started = Started::new(
        &[
            &["ab", "--out", "out", "--pairs", "2", "--aa=1"],
            &sides[..],
        ]
        .concat(),
    );
    let work = started.work();
    let names = wait_for("a shard of a round", || {
        let name = |pid: i32| fs::read_to_string(format!("/proc/{pid}/comm")).ok();
        let names: Vec<String> = working_in(&work).into_iter().filter_map(name).collect();
        names
            .iter()
            .any(|name| name.starts_with("crawlmark-s"))
            .then_some(names)
    });
    assert!(
        names.iter().all(|name| name.starts_with("crawlmark")),
        "{names:?}"
    );
    let compared = tells_nothing(started, &[5]);
    // They are told apart all the same.
    let contest = fs::read_to_string(compared.out().join("comparison.json")).unwrap();
    assert!(contest.contains("page=1&token=...&sig=..."), "{contest}");
    let rounds = fs::read_dir(compared.out().join("rounds")).unwrap().count();
    assert!(rounds >= 4, "{rounds} rounds");
    tells_nothing(
        Started::new(&[
            "compare",
            compared.out().to_str().unwrap(),
            "--out",
            "again",
        ]),
        &[5],
    );
}

#[test]
fn an_example_of_a_failure_holds_no_secret_that_the_target_echoes() {
    let serve = |mut peer: Peer| {
        while let Some(head) = peer.head() {
            let body = format!(
                "{{\"error\":\"key {SECRET} is not allowed\",\"request\":\"{}\"}}",
                head.replace('\r', "")
            );
            peer.send(&format!(
                "HTTP/1.1 403 Forbidden\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            ));
        }
    };
    let done = with_server(serve, |address| {
        let url = format!("http://{address}/{{id}}?api_key={SECRET}");
        let header = format!("authorization: Bearer {SECRET}");
        tells_nothing(
            Started::new(&["run", &url, "-H", &header, "-n", "9", "--out", "out"]),
            &[0, 1, 3],
        )
    });
    for file in ["result.json", "summary.md", "report.html"] {
        let text = fs::read_to_string(done.out().join(file)).unwrap();
        assert!(text.contains("key ... is not allowed"), "{file}: {text}");
    }
}

#[test]
fn no_message_repeats_a_secret() {
    let with_password = format!("http://user:{SECRET}@127.0.0.1:9/{{id}}");
    let with_key = format!("http://127.0.0.1:9/{{id}}?token={SECRET}");
    let twice = format!("http://127.0.0.1:9/{{id}}/{{id}}?token={SECRET}");
    let with_space = format!("http://127.0.0.1:9/{{id}}?token=ab c{SECRET}");
    let with_quote = format!("http://127.0.0.1:9/{{id}}?token=ab'c {SECRET}");
    let with_semicolon = format!("http://127.0.0.1:9/{{id}}?page=1;token={SECRET} {SECRET}");
    let no_scheme = format!("127.0.0.1:9/{{id}}?token=ab {SECRET}");
    let with_slash = format!("user:pa/{SECRET}@127.0.0.1:9/{{id}}");
    let [line_feed, no_colon] = [format!("Bearer\n{SECRET}"), format!("x-a\n{SECRET}: 1")];
    let count = format!("http://127.0.0.1:9/?token=a {SECRET}");
    let [body, body_word] = [format!("@/tmp/{SECRET}"), format!("--body=@{SECRET}")];
    let target = format!("echo 'http://user:{SECRET}@h/?token={SECRET}'; API_KEY={SECRET} exit 3");
    let port = format!("http://127.0.0.1:{{port}}/{{id}}?token={SECRET}");
    for (args, codes) in [
        (&["run", &with_password][..], &[2][..]),
        (&["run", &with_key], &[1]),
        (&["run", &with_space], &[1]),
        (&["run", &with_quote], &[1]),
        (&["run", &with_semicolon], &[1]),
        (&["run", &no_scheme], &[2]),
        (&["run", &with_slash], &[2]),
        (&["run", &with_key, "-H", &line_feed], &[2]),
        (&["run", &with_key, "-H", &no_colon], &[2]),
        (&["run", &with_key, "-n", &count], &[2]),
        (&["run", &with_key, "--body", &body], &[2]),
        (&["ab", "--base", &body_word, "--", "-n", "5"], &[2]),
        (&["scale", "--", &body_word], &[2]),
        (&["scale", &with_space], &[1]),
        (
            &[
                "ab",
                "--base",
                &format!("\"{with_space}\""),
                "--",
                "-n",
                "5",
            ],
            &[1, 2],
        ),
        (&["run", &twice], &[2]),
        (&["run", "http://127.0.0.1:9/", &with_password], &[2]),
        (
            &["ab", "--base", &with_password, "--", "-n", "5", "-s", "1"],
            &[2],
        ),
        (
            &[
                "ab",
                "--base",
                &format!("'{with_password}"),
                "--",
                "-n",
                "5",
            ],
            &[2],
        ),
        (
            &[
                "ab",
                "--cand",
                &format!("--nonsense {with_key}"),
                "--",
                "-n",
                "5",
            ],
            &[2],
        ),
        (
            &[
                "ab",
                "--base-target",
                &target,
                "--cand-target",
                &target,
                "--",
                &port,
                "-n",
                "5",
            ],
            &[1],
        ),
        (&["scale", &with_password], &[2]),
        (&["capacity", &with_password], &[2]),
        (&["capacity", &with_key], &[1]),
        (&["ladder", "--", &with_password], &[2]),
    ] {
        let done = tells_nothing(Started::new(args), codes);
        assert!(done.stderr.contains("error: "), "{args:?}: {}", done.stderr);
    }
}
