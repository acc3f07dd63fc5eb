//! A secret that is typed in a URL, a header, a body, credentials or a target's command stands in
//! nothing that is saved, shown or said.

use std::fs;
use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nix::sys::signal::Signal;

use crate::command::{Done, Started, program, start, words};
use crate::forward_proxy::ForwardProxy;
use crate::process::{wait_for, working_in};
use crate::scripted::{Peer, with_server};
use crate::target::Target;

pub(crate) const SECRET: &str = "hush7f3a";

/// The files below `place` that hold a text.
pub(crate) fn holding(place: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(place).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(holding(&path, text));
        } else if String::from_utf8_lossy(&fs::read(&path).unwrap()).contains(text) {
            found.push(path.display().to_string());
        }
    }
    found
}

/// Wait for a command that ends with one of these codes, and check that neither its output nor any
/// file holds the secret.
#[track_caller]
pub(crate) fn tells_nothing(started: Started, codes: &[i32]) -> Done {
    let done = started.end().code(codes);
    let found = holding(done.place.path(), SECRET);
    assert_eq!(
        found,
        Vec::<String>::new(),
        "{}{}",
        done.stdout,
        done.stderr
    );
    done
}

/// The same for the arguments in `line`, with the text of `file` of the result.
#[track_caller]
fn saved_by(line: &str, codes: &[i32], file: &str) -> String {
    let done = tells_nothing(start(line), codes);
    fs::read_to_string(done.out().join(file)).unwrap()
}

#[test]
fn no_command_saves_or_shows_what_was_typed_in_secret() {
    let target = Target::start("--processes 1 --latency 1ms");
    let url = format!("{}?api_key={SECRET}", target.url());
    let own = format!("-H 'authorization: Bearer {SECRET}' --body {SECRET} -m GET -c 2");
    let done = tells_nothing(
        start(&format!("run {url} --out out {own} -n 20 -s 1")),
        &[0],
    );
    let result = fs::read_to_string(done.out().join("result.json")).unwrap();
    assert!(result.contains("api_key=..."), "it is named all the same");
    tells_nothing(start(&format!("report {}", done.out().display())), &[0]);
    // Two sides with a URL and a target of their own, which are told apart all the same.
    let serve = format!(
        "TOKEN={SECRET} exec {} serve --processes 1 --listen 127.0.0.1:{{port}}",
        program().display()
    );
    let side = |more: &str| {
        let url = format!("http://127.0.0.1:{{port}}/{{id}}?page=1&sig={SECRET}{more}");
        format!("-H \"x-more: {SECRET}{more}\" {url}")
    };
    let started = start(&format!(
        "ab --out out --pairs 2 --base '{}' --cand '{}' --base-target '{serve}' \
         --cand-target '{serve}' -- {own} -n 20 -s 1",
        side("1"),
        side("2")
    ));
    let work = started.work();
    // Processes of rounds have names without arguments.
    wait_for("a shard of a round", || {
        let name = |pid: i32| fs::read_to_string(format!("/proc/{pid}/comm")).ok();
        let mut names = working_in(&work).into_iter().filter_map(name);
        names.find(|name| name.starts_with("crawlmark-s"))
    });
    // Neither the study nor its rounds and targets show a secret.
    for pid in working_in(&work) {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        assert!(!line.contains(SECRET), "{line:?}");
    }
    let compared = tells_nothing(started, &[5]);
    let contest = fs::read_to_string(compared.out().join("comparison.json")).unwrap();
    for part in ["TOKEN=...", "x-more: ...", "sig=..."] {
        assert!(contest.contains(part), "{part}: {contest}");
    }
    tells_nothing(
        start(&format!("compare {}", compared.out().display())),
        &[5],
    );
    let rounds = "-s 1,2 -d 500ms --repeats 1 --";
    let rest = own.trim_end_matches("-c 2");
    tells_nothing(
        start(&format!("scale {url} --out out {rounds} {rest}")),
        &[0, 5],
    );
    let probes = "--probe 1s --warmup 0s --rest 0s --from 20 --max-rate 40 --";
    tells_nothing(
        start(&format!("capacity {url} --out out {probes} {rest}")),
        &[0, 5],
    );
    tells_nothing(
        start(&format!("ladder --out out --rungs 1 -d 500ms -- {rest}")),
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
        let is_shard = |pid: &&i32| read(pid, "comm").starts_with("crawlmark-s");
        let are_there = all.iter().filter(is_shard).count() == 2;
        are_there.then(|| all.iter().map(|pid| read(pid, "cmdline")).collect())
    })
}

#[test]
fn credentials_are_in_no_file_output_or_process_list() {
    let proxy = ForwardProxy::start(Some(SECRET));
    let target = Target::start("--processes 1 --latency 1ms");
    let (address, url) = (proxy.address().to_string(), target.url());
    let via = format!("-x http://user-session-{{session}}:{SECRET}@{address}");
    let flags = "-s 2 -c 2 --retries 0 --out out";
    let crawl = format!("run {url} {flags}");
    let host = target.origin();
    for (line, shown) in [
        (format!("{crawl} {via}"), &*address),
        (format!("{crawl} -a user:{SECRET}"), &*url),
        (
            format!("{crawl} -H 'x-a: {SECRET}' -Hx-b:{SECRET} --header=x-c:{SECRET}"),
            &*url,
        ),
        (format!("{crawl} -m GET --data {SECRET}"), &*url),
        (format!("{crawl} -m GET --json-body '\"{SECRET}\"'"), &*url),
        (format!("run {url}?token={SECRET} {flags}"), host),
        (format!("{crawl} --target-probe 'K={SECRET} false'"), &*url),
    ] {
        let started = start(&format!("{line} -d 2s --rate 100"));
        let lines = lines_of_shards(&started);
        // The target's probe is given a port alone.
        let is_whole = |line: &String| line.contains(shown) || line.contains("\0probe\0");
        let is_good = |line: &String| is_whole(line) && !line.contains(SECRET);
        assert!(lines.iter().all(is_good), "{lines:?}");
        tells_nothing(started, &[0]);
    }
    for (flags, codes) in [
        (format!("-x http://other:{SECRET}@{address}"), [1, 1]),
        (format!("-x socks5://user:{SECRET}@{address}"), [1, 1]),
        (format!("-x http://user:{SECRET}@{address}x"), [2, 2]),
        (
            format!("--target-probe 'TOKEN={SECRET} false {SECRET}'"),
            [0, 0],
        ),
        (
            format!("-auser:{SECRET} -m GET --json-body '\"{SECRET}\"'"),
            [0, 0],
        ),
        (format!("-a {SECRET}"), [2, 2]),
        (format!("-a user:{SECRET} -H 'authorization: x'"), [2, 2]),
    ] {
        tells_nothing(start(&format!("{crawl} -n 4 {flags}")), &codes);
    }
    let sides = format!("--base '-a user:{SECRET}' --cand '--auth=other:{SECRET}'");
    let line = format!("ab --out out --pairs 2 {sides} -- {url} -n 20");
    let contest = saved_by(&line, &[5], "comparison.json");
    assert!(
        contest.contains("-a ...") && contest.contains("--auth=..."),
        "{contest}"
    );
}

#[test]
fn credentials_are_in_no_core_dump_and_in_no_environment_of_a_program() {
    let target = Target::start("--processes 1 --latency 1ms");
    let run = |line: &str| {
        let mut command = Command::new(program());
        command.args(words(line)).env("TOKEN", SECRET);
        Started::new(command)
    };
    let probe = "env > environment";
    let flags = format!("-s 2 -c 2 --bearer-env TOKEN --target-probe '{probe}'");
    let started = run(&format!("run {} {flags} -d 9s --rate 50", target.url()));
    lines_of_shards(&started);
    let limit = |pid: i32| {
        let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
        let line = limits
            .lines()
            .find_map(|line| line.strip_prefix("Max core file size"));
        line.and_then(|line| line.split_whitespace().next().map(str::to_owned))
    };
    let name = |pid: i32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    for pid in working_in(&started.work()) {
        if name(pid).starts_with("crawlmark") {
            let limit = limit(pid);
            assert!(["0", "1"].contains(&limit.as_deref().unwrap()), "{limit:?}");
        }
    }
    started.signal(Signal::SIGINT);
    let done = started.end();
    let environment = fs::read_to_string(done.work().join("environment")).unwrap();
    assert!(environment.contains("PATH=") && !environment.contains(SECRET));
    // Where the hard limit is 0, a program that takes dumps gets no memory.
    let mut command = Command::new("sh");
    let line = format!("run {} -s 2 -c 2 -d 9s --rate 50", target.url());
    command.args(["-c", "ulimit -c 0; exec \"$0\" \"$@\""]);
    command.arg(program()).args(words(&line));
    let started = Started::new(command);
    lines_of_shards(&started);
    for pid in working_in(&started.work()) {
        let filter = fs::read_to_string(format!("/proc/{pid}/coredump_filter")).unwrap_or_default();
        assert_eq!(filter.trim(), "00000000");
    }
    started.signal(Signal::SIGINT);
    started.end();
    // The targets of all rounds, too; the rounds of one side have it.
    let serve = format!(
        "env >> environment; exec {} serve --processes 1 --listen 127.0.0.1:{{port}}",
        program().display()
    );
    let line = format!(
        "ab --out out --pairs 2 --base-target '{serve}' --cand-target '{serve}' --cand '--bearer-env TOKEN' -- \
         http://127.0.0.1:{{port}}/{{id}} -n 20 -s 1"
    );
    let done = run(&line).end().code(&[5]);
    let environment = fs::read_to_string(done.work().join("environment")).unwrap();
    assert!(environment.matches("\nPORT=").count() >= 4 && !environment.contains(SECRET));
}

#[test]
fn an_example_of_a_failure_holds_no_secret_that_the_target_echoes() {
    let serve = |mut peer: Peer| {
        while let Some(head) = peer.head() {
            let body =
                format!("{{\"error\":\"key {SECRET} is not allowed\",\"request\":\"{head}\"}}");
            let head = format!(
                "HTTP/1.1 403 Forbidden\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            peer.send(&(head + &body));
        }
    };
    let encoded = STANDARD.encode(format!("user:{SECRET}"));
    with_server(serve, |address| {
        for (flags, name) in [
            (format!("-H 'x-own: Bearer {SECRET}'"), "x-own"),
            (format!("-a user:{SECRET}"), "authorization"),
            (
                format!("-x http://user:{SECRET}@{address}"),
                "proxy-authorization",
            ),
        ] {
            let line =
                format!("run http://{address}/{{id}}?api_key={SECRET} -n 4 --out out {flags}");
            let done = tells_nothing(start(&line), &[1]);
            assert_eq!(
                holding(done.place.path(), &encoded[..8]),
                Vec::<String>::new()
            );
            for file in ["result.json", "summary.md", "report.html"] {
                let text = fs::read_to_string(done.out().join(file)).unwrap();
                assert!(
                    text.contains("key ... is not allowed"),
                    "{name}, {file}: {text}"
                );
            }
        }
    });
}

#[test]
fn no_message_repeats_a_secret() {
    let key = format!("http://127.0.0.1:9/{{id}}?token={SECRET}");
    let password = format!("http://user:{SECRET}@127.0.0.1:9/{{id}}");
    let space = format!("http://127.0.0.1:9/{{id}}?token=ab c{SECRET}");
    let target = format!("echo http://user:{SECRET}@h/?token={SECRET}; API_KEY={SECRET} exit 3");
    let port = format!("http://127.0.0.1:{{port}}/{{id}}?token={SECRET}");
    for (line, codes) in [
        (format!("run {password}"), [2, 2]),
        (format!("run {key}"), [1, 1]),
        (format!("run '{space}'"), [1, 1]),
        (format!("run \"{}\"", space.replace("ab", "ab'c")), [1, 1]),
        (
            format!("run '127.0.0.1:9/{{id}}?token=ab {SECRET}'"),
            [2, 2],
        ),
        (format!("run user:pa/{SECRET}@127.0.0.1:9/{{id}}"), [2, 2]),
        (format!("run {key} -H 'Bearer\n{SECRET}'"), [2, 2]),
        (format!("run {key} -n '{space}'"), [2, 2]),
        (format!("run {key} --body @/tmp/{SECRET}"), [2, 2]),
        (format!("run {}", key.replace("{id}", "{id}/{id}")), [2, 2]),
        (format!("run http://127.0.0.1:9/ {password}"), [2, 2]),
        (format!("ab --base --body=@{SECRET} -- -n 5"), [2, 2]),
        (format!("ab --base \"'{password}\" -- -n 5"), [2, 2]),
        (format!("ab --base '\"{space}\"' -- -n 5"), [1, 2]),
        (format!("ab --cand '--nonsense {key}' -- -n 5"), [2, 2]),
        (
            format!("ab --base-target '{target}' --cand-target '{target}' -- {port} -n 5"),
            [1, 1],
        ),
        (format!("scale -- --body=@{SECRET}"), [2, 2]),
        (format!("scale '{space}'"), [1, 1]),
        (format!("capacity {password}"), [2, 2]),
        (format!("capacity {key}"), [1, 1]),
        (format!("ladder -- {password}"), [2, 2]),
    ] {
        let done = tells_nothing(start(&line), &codes);
        assert!(done.stderr.contains("error: "), "{line}: {}", done.stderr);
    }
}
