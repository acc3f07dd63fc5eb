//! `crawlmark overload`: queues of the bundled target, nginx and a thread pool of Python get the
//! verdicts that queueing theory gives.

use std::fs;
use std::io::{self, BufRead, BufReader, ErrorKind};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::command::{Done, run, start};
use crate::process::wait_for;
use crate::target::Target;

/// Four workers of 20 ms: 200 requests per second.
const SERVICE: &str = "--target-latency 20ms --target-processes 1 -s 1";

/// Clients that retry whatever failed.
const RETRIES: &str = "--timeout 300ms --retries 3 --retry-budget 100%";

/// An overload of a target that sustains 200/s, with these flags before and after `--`.
fn overload(flags: &str, clients: &str) -> Done {
    run(&format!(
        "overload --out out --json --capacity 200/s --before 2s --during 3s {flags} -- {clients}"
    ))
}

/// Its verdict, its failure and what holds the target.
fn verdict(done: &Done) -> [Value; 3] {
    let saved = done.saved("overload.json");
    assert_eq!(saved, done.printed());
    let seconds = saved["seconds"].as_array().unwrap();
    let length: u64 = saved["stages_s"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_u64)
        .sum();
    assert_eq!(seconds.len() as u64, length);
    ["verdict", "failure", "held_by"].map(|key| saved[key].clone())
}

#[test]
fn a_bounded_queue_recovers() {
    let clients = format!("{SERVICE} {RETRIES} --target-workers 4:20");
    let done = overload("--after 4s", &clients).code(&[0]);
    assert_eq!(
        verdict(&done),
        [json!("recovers"), json!("refuses"), Value::Null]
    );
    let printed = done.printed();
    assert!(printed["recovery_s"].as_u64().unwrap() <= 1, "{printed:#}");
}

#[test]
fn the_latest_first_recovers_while_the_others_time_out() {
    let clients = format!("{SERVICE} {RETRIES} --target-workers 4:lifo");
    let done = overload("--after 5s", &clients).code(&[0]);
    assert_eq!(
        verdict(&done),
        [json!("recovers"), json!("times_out"), Value::Null]
    );
}

#[test]
fn a_queue_without_a_bound_is_stuck_with_retries_and_slow_without() {
    let service = format!("{SERVICE} --target-workers 4");
    let stuck = overload("--after 4s", &format!("{service} {RETRIES}")).code(&[3]);
    assert_eq!(
        verdict(&stuck),
        [json!("stuck"), json!("collapses"), json!("retries")]
    );
    // (0.5 x 3 s - 0.3 s) / 0.3 = 4 s.
    let patient = format!("{service} --timeout 300ms --retries 0");
    let slow = overload("--after 8s --within 2s", &patient).code(&[0]);
    assert_eq!(verdict(&slow)[0], json!("slow"));
    let recovery_s = slow.printed()["recovery_s"].as_u64().unwrap();
    assert!((3..=6).contains(&recovery_s), "{recovery_s}");
}

#[test]
fn a_load_that_is_no_overload_has_no_verdict() {
    let done = run(&format!(
        "overload --out out --json --capacity 60/s --before 2s --during 2s --after 2s -- {SERVICE} --target-workers 4"
    ));
    assert_eq!(done.printed()["verdict"], Value::Null);
    done.code(&[5]);
    run("overload --capacity 60/s -- --rate 5/s").code(&[2]);
    for flags in [
        "--capacity 60/s --before 1500ms",
        "--capacity 60/s --during 1s --after 1s",
        "--capacity 60/s --after 9s",
        "--capacity 60/s --after 9s --within 10s",
        "--capacity 1/s --before 10s",
    ] {
        run(&format!("overload {flags}")).code(&[2]);
    }
    run("overload --search '--retries 1'").code(&[2]);
}

#[test]
fn a_client_that_was_the_limit_gives_no_verdict() {
    let clients = format!("{SERVICE} --timeout 2s --retries 0 --target-workers 4 -c 1");
    let done = overload("--after 3s", &clients).code(&[5]);
    assert_eq!(verdict(&done), [Value::Null, Value::Null, Value::Null]);
    let printed = done.printed();
    let mean = &printed["stages"][1];
    assert!(mean["attempts_per_s"].as_f64() < Some(100.0), "{mean:#}");
    assert_eq!(printed["findings"][0]["kind"], json!("in_rounds"));
}

#[test]
fn the_capacity_is_searched_with_the_flags_of_the_clients() {
    let done = run(&format!(
        "overload --out out --json --search '--slo-p99 60ms --from 160/s --max-rate 400/s --probe 1s -w 300ms --precision 30%' \
         --before 2s --during 3s --after 3s -- {SERVICE} {RETRIES} --target-workers 4:20"
    ));
    let saved = done.saved("overload.json");
    let capacity = saved["capacity_per_s"].as_f64().unwrap();
    assert!((140.0..230.0).contains(&capacity), "{capacity}");
    assert_eq!(saved["searched"], json!(true));
}

#[test]
fn an_overload_that_is_interrupted_has_the_whole_seconds_before() {
    let target = Target::start("--latency 20ms --processes 1");
    let run = start(&format!(
        "overload {} --out out --capacity 200/s --before 60s --during 2s --after 2s -- -s 1",
        target.url()
    ));
    // In the middle of the third second.
    target.wait_for_requests(350);
    run.signal(Signal::SIGINT);
    let saved = run.end().code(&[130]).saved("overload.json");
    assert_eq!(saved["interrupted"], true);
    assert_eq!(saved["verdict"], Value::Null);
    let seconds = saved["seconds"].as_array().unwrap();
    let offered: Vec<_> = seconds.iter().map(|of| of["offered"].as_f64()).collect();
    assert!(offered.len() >= 2, "{offered:?}");
    for per_s in offered.iter().copied().flatten() {
        assert!((139.9..140.1).contains(&per_s), "{offered:?}");
    }
    let kinds = saved["findings"].as_array().unwrap().iter();
    let kinds: Vec<_> = kinds.map(|of| &of["kind"]).collect();
    assert!(kinds.contains(&&json!("interrupted")), "{kinds:?}");
}

#[test]
fn a_search_that_finds_nothing_says_why_as_capacity_does() {
    let target = Target::start("--limit 30/s:burst=1");
    let search = "--from 60/s --probe 1s --warmup 300ms --rest 100ms";
    let url = target.url();
    let alone = run(&format!("capacity --out out {search} {url} -- -s 1")).code(&[3]);
    let why = &alone.saved("capacity.json")["findings"][0]["text"];
    let done = run(&format!("overload --search '{search}' {url} -- -s 1")).code(&[1]);
    let said = done.stderr.contains(why.as_str().unwrap());
    assert!(said, "{why}: {}", done.stderr);
}

/// A server that is ended with the test.
struct Server(Child);

impl Server {
    /// Start a command; none if there is no such program, which is said.
    fn start(command: &mut Command) -> Option<Self> {
        match command.stdin(Stdio::null()).spawn() {
            Ok(child) => Some(Self(child)),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                println!(
                    "skipped: {} is not installed",
                    command.get_program().display()
                );
                None
            }
            Err(error) => panic!("{error}"),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _: io::Result<()> = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn nginx_with_a_limit_recovers() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name).display().to_string();
    fs::write(path("index.html"), "ok").unwrap();
    let socket = path("socket");
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {};\n", path(kind)))
        .concat();
    let config = format!(
        "daemon off; master_process off; pid {}; error_log stderr crit;\n\
         events {{ worker_connections 4096; }}\n\
         http {{ access_log off; {temporary}\
         limit_req_zone $server_name zone=all:1m rate=200r/s;\n\
         server {{ server_name all; listen unix:{socket}; root {};\n\
         location / {{ limit_req zone=all burst=20 nodelay; try_files /index.html =404; }} }} }}\n",
        path("pid"),
        place.path().display()
    );
    fs::write(path("nginx.conf"), config).unwrap();
    let mut nginx = Command::new("nginx");
    nginx.args(["-p", &path(""), "-c", &path("nginx.conf"), "-e", "stderr"]);
    let Some(_nginx) = Server::start(&mut nginx) else {
        return;
    };
    wait_for("the socket of nginx", || {
        Path::new(&socket).exists().then_some(())
    });
    let clients = format!("{RETRIES} -s 1 --unix-socket {socket}");
    let done = overload("--after 4s http://localhost/items/{id}", &clients).code(&[0]);
    assert_eq!(
        verdict(&done),
        [json!("recovers"), json!("refuses"), Value::Null]
    );
}

#[test]
fn a_thread_pool_with_a_long_backlog_is_stuck() {
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/end_to_end/overload/thread_pool.py"
    );
    let mut python = Command::new("python3");
    let Some(mut python) = Server::start(python.arg(script).stdout(Stdio::piped())) else {
        return;
    };
    let mut port = String::new();
    let said = python.0.stdout.take().unwrap();
    BufReader::new(said).read_line(&mut port).unwrap();
    let url = format!("http://127.0.0.1:{}/items/{{id}}", port.trim());
    let done = overload(&format!("--after 4s {url}"), &format!("{RETRIES} -s 1")).code(&[3]);
    assert_eq!(
        verdict(&done),
        [json!("stuck"), json!("collapses"), json!("retries")]
    );
}
