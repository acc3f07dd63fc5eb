//! Bad input is refused before anything is opened, sent or written: exit code 2, and a message
//! says so. A row for each rule between flags; how a single value is read is tested where it is
//! parsed.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::process::Command;

use crate::command::{call, call_line, names, program};
use crate::target::Target;

/// A port to which nobody should connect.
struct Door(TcpListener);

impl Door {
    fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Self(listener)
    }

    fn url(&self) -> String {
        format!("http://{}/{{id}}", self.0.local_addr().unwrap())
    }

    fn assert_untouched(&self) {
        assert!(
            matches!(self.0.accept(), Err(error) if error.kind() == ErrorKind::WouldBlock),
            "a connection came"
        );
    }
}

/// Check that each command line is refused with a message, by the exit code of usage errors. URL
/// stands for a target that listens; there are files that cannot be used, and a directory `empty`.
#[track_caller]
fn assert_refused(command: &str, lines: &[&str]) {
    let door = Door::open();
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("empty")).unwrap();
    for (file, content) in [
        ("binary", &b"\xff\xfe\0"[..]),
        ("plain.txt", b"http://127.0.0.1:9/1\n"),
        ("timed", b"{\"url\":\"/\",\"at\":1}\n"),
    ] {
        fs::write(place.path().join(file), content).unwrap();
    }
    let before = names(place.path());
    for line in lines {
        let line = format!("{command} {line}").replace("URL", &door.url());
        let said = call_line(place.path(), &line);
        assert_eq!((said.code, &*said.stdout), (Some(2), ""), "{line}");
        assert!(
            said.stderr.starts_with("error: "),
            "{line}: {}",
            said.stderr
        );
        assert_eq!(names(place.path()), before, "{line}");
    }
    door.assert_untouched();
}

#[test]
fn flags_are_checked_before_a_list_is_read() {
    let place = tempfile::tempdir().unwrap();
    for (flags, is_read) in [
        ("", true),
        ("-c 1 -s 2", false),
        ("--burst 5", false),
        ("--speed 2", false),
        ("--threshold 'response_p99 < 1s'", false),
        ("-d 1s -w 1s", false),
    ] {
        for list in ["--urls absent", "--requests-file absent"] {
            let said = call_line(place.path(), &format!("run {list} {flags}")).code(&[2]);
            assert_eq!(said.stderr.contains(" absent "), is_read, "{}", said.stderr);
        }
    }
}

#[test]
fn flags_that_make_no_sense_are_refused() {
    assert_refused(
        "run",
        &[
            "--linger 2ms",
            "--linger 500ns",
            "--linger always",
            "URL --no-such-flag",
            "URL -H Host:evil -H host:two",
            "--resume /dev/null",
            "--plan / --node 1/2 --into x",
            "URL --ids 5..5",
            "URL --ids 0..10 -n 20",
            "URL -c 1 -s 2",
            "URL --body @/dev/zero",
            "URL --burst 5",
            "URL --per-host-connections 1 -s 2",
            "URL --urls -",
            "--urls -",
            "--urls binary",
            "--urls - --target-latency 1ms",
            "URL --target-processes 1",
            "URL URL",
            "http://{id}/",
            "http://192.0.2.1/",
            "'http://[2001:db8::1]/'",
            "--robots honor",
            "URL --local-ips 127.0.0.1,127.0.0.1",
            "URL --local-ips 192.0.2.7",
            "URL --local-ips ::1",
            "URL --max-requests-per-connection 5 --disable-keepalive",
            "URL --dns-ttl 5s",
            "--unix-socket s",
            "URL --unix-socket s --local-ips 127.0.0.1",
            "URL --streams 10 --http 1.1",
            "URL --streams 2 --http 2 --disable-keepalive",
            "URL --http 2 -H 'Upgrade: x'",
            "URL --http 2 --proxy http://127.0.0.1:9",
            "URL --body-file binary --body x",
            "URL -a u:p -H 'Authorization: x'",
            "URL --bearer-env CRAWLMARK_NO_SUCH",
            "--id-format hex",
            "URL --arrivals constant",
            "URL --arrivals poisson --rate 9 --burst 3",
            "URL -d 1s -w 1s",
            "URL --arrivals waves -s 2",
            "URL --rate '10 per 1s' --burst 5",
            "URL --arrivals replay",
            "URL --speed 2",
            "URL --expect sse --compressed",
            "URL --expect sse --expect ndjson",
            "URL --expect sse:",
            "URL --expect grpc",
            "URL --expect grpc --http 2 --compressed",
            "URL --expect grpc --http 2 --method PUT",
            "URL --http 2 --header te:gzip",
            "--target-events 0@1ms",
            "--requests-file plain.txt --urls plain.txt",
            "URL --stop-unless 'item_p99 < 250ms'",
            "URL --stop-unless 'error_rate > 10%'",
            "URL --threshold 'response_p99 < 1s'",
            "URL --threshold 'budget_utilisation > 90%'",
            "URL --export csv=nowhere/a.csv",
            "URL --export csv=- --json",
            "--adaptive aimd",
            "URL -x http://127.0.0.1:9 -x none",
            "URL -x http://127.0.0.1:9 --session per-request",
            "URL --session per-request",
            "URL -x socks5h://127.0.0.1:9 --connect-to :::1",
            "URL -x http://127.0.0.1:9 -H 'Proxy-Authorization: x'",
            "URL -x http://127.0.0.1:9 --local-ips fd00::1",
            "-x http://192.0.2.1:9",
            "http://a.test/ -x http://127.0.0.1:9",
            "https://127.0.0.1:9/{id} --cacert /nowhere/a.pem",
            "https://127.0.0.1:9/{id} --key plain.txt",
            "URL --tls-resume",
            "--target-tls --cacert a.pem",
            "https://127.0.0.1:9/{id} --tls-min 1.3 --tls-max 1.2",
            "--requests-file plain.txt",
            "URL --requests-file timed --arrivals replay --rate 5",
            "URL --requests-file timed --arrivals replay --retries 1",
        ],
    );
    assert_refused(
        "",
        &[
            "http://127.0.0.1:9/",
            "report binary",
            "plan http://h/ --ids 0..9 --nodes 2 --start-at 2026-01-31T12:00:00Z",
            "plan http://127.0.0.1:9/ --ids 0..9 --nodes 2 -d 9s --slots 1",
            "plan http://127.0.0.1:9/ --nodes 2 -d 9s",
            "watch empty",
            "merge empty",
            "serve --tls-cert x.pem",
            "ab",
            "ab --base --nonsense",
            "ab --cand '--out here'",
            "ab --base-target true",
            "ab --base '--rate 2' --cand '--rate 3'",
            "ab -- --config x.toml",
            "scale --shards 2",
            "scale --shards 1,8 --connections 4",
            "scale --latency-bound -- URL",
            "scale -- --rate 100",
            "scale -- --adaptive",
            "scale -- -s 2",
            "scale -d 1s -- -d 2s",
            "scale -d 99999999999h",
            "scale -- -d 2h",
            "scale --connections-per-shard 4294967295",
            "scale -s 1,2 --connections-per-shard 500001",
            "scale -s 1,2 -c 1000001",
            "scale -- -n 5",
            "scale --repeats 0",
            "scale --repeats 1001",
            "scale http://192.0.2.1/{id}",
            "capacity -- --rate 5",
            "capacity http://192.0.2.1/",
            "capacity -- --ids 0..100",
            "capacity --max-rate 500 -- --ids 0..2k",
            "capacity -- -c 5 --retries 2",
            "capacity -- --threshold 'errors < 1'",
            "capacity --threshold 'service_p99[1s] < 5ms'",
            "capacity --threshold 'budget_utilisation < 0.9'",
            "capacity --threshold 'rate > 95/s'",
            "capacity --threshold 'goodput_share < 99%' -- --objective 'response < 1s'",
            "overload --search '--threshold \"error_rate > 1%\"'",
            "capacity --arrivals asap",
            "capacity --from 10 --max-rate 5",
            "capacity -- --urls -",
            "capacity --max-rate 1/h",
            "capacity --probe 18446744073709551615s",
            "capacity -- --timeout 0s",
            "ladder -- -c 7",
            "ladder -- -n 5",
        ],
    );
}

#[test]
fn a_result_directory_is_checked_before_the_run_and_never_overwritten() {
    let door = Door::open();
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("full")).unwrap();
    fs::write(place.path().join("full/precious"), "1").unwrap();
    fs::write(place.path().join("file"), "precious").unwrap();
    // Nobody can make a directory in the last two, not even root.
    for (out, code) in [
        ("full", 2),
        ("file", 2),
        ("file/result", 1),
        ("/proc/no-such-place/result", 1),
    ] {
        let said = call(place.path(), &["run", &door.url(), "-n", "1", "--out", out]);
        assert_eq!(said.code, Some(code), "{out}: {}", said.stderr);
        assert!(said.stderr.contains(out), "{}", said.stderr);
        assert_eq!(names(place.path()), ["file", "full"]);
    }
    door.assert_untouched();
    fs::create_dir(place.path().join("empty")).unwrap();
    let said = call_line(place.path(), "run -n 3 --quiet --out empty");
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert!(place.path().join("empty/result.json").exists());
}

#[test]
fn help_and_version_succeed_and_fail_if_they_cannot_be_shown() {
    let place = tempfile::tempdir().unwrap();
    for (line, says) in [
        ("--help", "Exit codes"),
        ("--version", env!("CARGO_PKG_VERSION")),
        ("run --help", "--connections"),
        ("serve --help", "malformed-chunk:SHARE"),
        ("help", "serve"),
    ] {
        let said = call_line(place.path(), line);
        assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{line}");
        assert!(said.stdout.contains(says), "{line}: {}", said.stdout);
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(program());
        let lost = command.args(line.split(' ')).stdout(full).status().unwrap();
        assert_eq!(lost.code(), Some(1), "{line}: nothing was shown");
    }
    assert_eq!(names(place.path()), [""; 0]);
}

#[test]
fn a_target_does_not_share_an_address_nor_serve_without_its_certificate() {
    let (target, place) = (Target::start("--processes 2"), tempfile::tempdir().unwrap());
    for (flags, named) in [
        (format!("--listen {}", target.address()), target.address()),
        (
            "--tls --tls-cert /nowhere/a.pem".to_owned(),
            "/nowhere/a.pem",
        ),
    ] {
        let said = call_line(place.path(), &format!("serve --processes 2 {flags}"));
        assert_eq!((said.code, said.stdout.as_str()), (Some(1), ""));
        assert!(said.stderr.contains(named), "{}", said.stderr);
    }
}
