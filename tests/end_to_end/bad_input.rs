//! Bad input is refused before anything is opened, sent or written: exit code 2, and the message
//! names what was wrong. A row for each rule between flags; how a single value is read is tested
//! where it is parsed.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use crate::command::{call, call_line};
use crate::run::{Run, ended, program};
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

/// The names in a directory, sorted.
fn contents(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Check that each command line is refused with a message that has the words beside it. URL stands
/// for a target that listens; there are a file `binary`, a list `plain.txt` of URLs and a directory
/// `empty`.
#[track_caller]
pub(crate) fn assert_refused(command: &str, cases: &[(&str, &str)]) {
    let door = Door::open();
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("empty")).unwrap();
    fs::write(place.path().join("binary"), b"\xff\xfe\0").unwrap();
    fs::write(place.path().join("plain.txt"), "http://127.0.0.1:9/1\n").unwrap();
    let before = contents(place.path());
    for (line, named) in cases {
        let line = format!("{command} {line}").replace("URL", &door.url());
        let said = call_line(place.path(), &line);
        assert_eq!(
            (said.code, said.stdout.as_str()),
            (Some(2), ""),
            "{line}: {}",
            said.stderr
        );
        assert!(said.stderr.contains(named), "{line}: {}", said.stderr);
        assert_eq!(contents(place.path()), before, "{line}");
    }
    door.assert_untouched();
}

#[test]
fn flags_of_a_run_that_make_no_sense_are_refused() {
    assert_refused(
        "run",
        &[
            ("URL --no-such-flag", "--no-such-flag"),
            ("URL --conections 5", "'--connections'"),
            (
                "URL -H Host:evil -H host:two",
                "--header Host is given twice",
            ),
            ("--resume /dev/null", "/dev/null holds no saved crawl"),
            ("--plan / --node 1/2 --into x", "the plan /"),
            ("URL --ids 5..5", "--ids"),
            ("URL --ids 0..10 -n 20", "--items 20"),
            ("URL -c 1 -s 2", "--connections"),
            ("URL --body @/dev/zero", "longer than 64 MiB"),
            ("URL --burst 5", "add --rate"),
            ("URL --burst 1 --rate 5 -s 2", "--burst"),
            (
                "URL --per-host-connections 1 -s 2",
                "--per-host-connections",
            ),
            ("URL --urls -", "--urls"),
            ("--urls -", "--urls -: holds no URL"),
            ("--urls binary", "line 1 is not UTF-8 text"),
            ("--urls - --target-latency 1ms", "--target-latency"),
            ("URL --target-processes 1", "--target-processes"),
            ("--config empty", "Is a directory"),
            ("--target-fault drop:0.6 --target-fault reset:0.6", "`1.2`"),
            ("URL --expect json --expect len:1 --expect len:2", "`len:1`"),
            ("URL URL", "--urls FILE"),
            ("'not a url'", "`not a url` is not a URL"),
            ("localhost:9/x", "did you mean http://localhost:9/x?"),
            ("http://{id}/", "{id}"),
            ("http://192.0.2.1/", "192.0.2.1"),
            ("'http://[2001:db8::1]/'", "--rate"),
            ("--robots honor", "--robots is for a URL"),
            // Connections and addresses.
            ("URL --local-ips 127.0.0.1,127.0.0.1", "was listed before"),
            (
                "URL --local-ips 192.0.2.7",
                "nothing can be sent from 192.0.2.7",
            ),
            ("URL --local-ips ::1", "has no IPv4 address"),
            (
                "URL --max-requests-per-connection 5 --disable-keepalive",
                "--disable-keepalive",
            ),
            ("URL --dns-ttl 5s", "there is no name to look up"),
            ("--unix-socket s", "--unix-socket is for a URL"),
            (
                "URL --unix-socket s --local-ips 127.0.0.1",
                "cannot be used with",
            ),
            // HTTP/2.
            ("URL --streams 10 --http 1.1", "--streams needs HTTP/2"),
            ("URL --streams 10 --http auto", "--streams needs HTTP/2"),
            ("URL --streams 100000 -c 100 --http 2", "--streams 100000"),
            ("URL --streams 2 --http 2 --disable-keepalive", "--streams"),
            ("URL --http 2 -H 'Upgrade: x'", "not allowed in HTTP/2"),
            (
                "URL --http 2 --proxy http://127.0.0.1:9",
                "--http 2 cannot go",
            ),
            // Bodies and credentials.
            ("URL --body-file binary --body x", "cannot be used with"),
            ("URL --json-body {", "--json-body is not one JSON value"),
            ("URL -a u:p -H 'Authorization: x'", "keep one of them"),
            ("URL --bearer-env CRAWLMARK_NO_SUCH", "export it"),
            ("--id-format hex", "--id-format is for a URL"),
            // Time tables.
            (
                "URL --arrivals constant",
                "--arrivals constant needs a --rate",
            ),
            (
                "URL --arrivals poisson --rate 9 --burst 3",
                "--burst is for budgets",
            ),
            ("URL -d 1s -w 1s", "leaves nothing of --duration 1s"),
            (
                "URL --arrivals waves -s 2",
                "--arrivals waves needs one shard",
            ),
            ("URL --rate '10 per 1s' --burst 5", "--burst does not work"),
            (
                "URL --arrivals replay",
                "--arrivals replay needs a --requests-file",
            ),
            ("URL --speed 2", "--speed is for --arrivals replay"),
            (
                "URL --requests-file binary",
                "begins with none of the formats",
            ),
            (
                "--requests-file plain.txt --urls plain.txt",
                "cannot be used with",
            ),
            // Thresholds.
            (
                "URL --threshold 'servce_p99 < 1s'",
                "did you mean `service_p99`?",
            ),
            ("URL --stop-if 'item_p99 < 250ms'", "use --threshold"),
            ("URL --stop-if 'error_rate > 10%'", "error_rate < 5%"),
            ("URL --threshold 'response_p99 < 1s'", "--arrivals constant"),
            ("URL --threshold 'budget_utilisation > 90%'", "--rate"),
            (
                "URL -d 5s --threshold 'rate[10s] > 5'",
                "never fills the window",
            ),
            // Outputs.
            ("URL --export csv=nowhere/a.csv", "nowhere does not exist"),
            ("URL --export csv=a --export hgrm=a", "--export hgrm"),
            ("URL --export csv=- --json", "standard output"),
            ("URL --latency --json", "--latency"),
            // Throttling.
            ("URL --retries 5", "--retries"),
            ("--adaptive aimd", "--adaptive=aimd"),
        ],
    );
}

#[test]
fn flags_of_proxies_that_make_no_sense_are_refused() {
    let dead = "-x http://127.0.0.1:9";
    let session = "-x http://u-{session}:p@127.0.0.1:9";
    for (line, named) in [
        ("URL -x 127.0.0.1:3128", "begins with http://, socks5://"),
        ("URL -x https://127.0.0.1:9", "(https://)"),
        ("URL -x http://127.0.0.1", "a port from 1 to 65535"),
        ("URL -x http://u:p/q@127.0.0.1:9", "Write %2F"),
        ("URL DEAD -x none", "--proxy none excludes other proxies"),
        (
            "URL DEAD --session per-request",
            "--session needs a --proxy",
        ),
        ("URL --session per-request", "--session needs a --proxy"),
        (
            "URL -x socks5h://127.0.0.1:9 --connect-to :::1",
            "use socks5://",
        ),
        (
            "URL DEAD -H 'Proxy-Authorization: x'",
            "would go to the target",
        ),
        ("URL DEAD --local-ips fd00::1", "and 127.0.0.1 has no other"),
        ("-x http://192.0.2.1:9", "listens on this machine alone"),
        ("http://a.test/ DEAD", "which may be public: say how fast"),
    ] {
        let line = line.replace("DEAD", dead).replace("SESSION", session);
        assert_refused("run", &[(&line, named)]);
    }
}

#[test]
fn other_commands_refuse_what_makes_no_sense() {
    assert_refused(
        "",
        &[
            ("", "Usage: crawlmark [OPTIONS] <COMMAND>"),
            ("repotr", "'report'"),
            ("http://127.0.0.1:9/", "crawlmark run URL"),
            ("report binary", "it is not UTF-8 text"),
            ("completions tcsh", "bash, elvish, fish, powershell, zsh"),
            (
                "plan http://h/ --ids 0..9 --nodes 2 --start-at 2026-01-31T12:00:00Z",
                "--start-at 2026-01-31T12:00:00Z was ",
            ),
            (
                "plan http://h/ --ids 0..9 --nodes 2 --start-at 2126-01-31T12:00:00Z",
                "at most 30 days are allowed",
            ),
            (
                "plan http://127.0.0.1:9/ --ids 0..9 --nodes 2 -d 9s --slots 1",
                "use as many --slots as --nodes",
            ),
            (
                "plan http://127.0.0.1:9/ --nodes 2 -d 9s",
                "as in --ids 0..1m",
            ),
            ("watch empty", "empty/plan.json: No such file"),
            ("merge empty", "Name the directory that"),
            // The target.
            (
                "serve --fault error:0.6 --fault drop:0.6",
                "sum of the shares",
            ),
            ("serve --proxy-auth :x", "--proxy-auth"),
            ("serve --proxy-auth-file /nowhere/x", "--proxy-auth-file"),
            ("serve --proxy-auth a:b --proxy-auth-file x", "--proxy-auth"),
            ("serve --proxy-allow-private", "--proxy-allow-private"),
            ("serve --tls-cert x.pem", "--tls"),
            // Studies.
            ("ab", "there is nothing to compare"),
            ("ab --base --nonsense", "--base and the flags after --"),
            ("ab --cand '--out here'", "--out is for single runs"),
            ("ab --base-target true", "needs a URL with {port} in it"),
            ("ab --cand-bin /etc/passwd", "is not an executable file"),
            ("ab --base '--rate 2' --cand '--rate 3'", "different loads"),
            ("ab -- --config x.toml", "--config is for single runs"),
            (
                "scale --shards 2",
                "one size has nothing to be compared with",
            ),
            (
                "scale --shards 1,8 --connections 4",
                "too few for --shards 8",
            ),
            ("scale --latency-bound -- URL", "--latency-bound only works"),
            ("scale -- --rate 100", "--rate caps throughput"),
            ("scale -- --adaptive", "--adaptive chooses the number"),
            ("scale -- -s 2", "`scale` varies --shards"),
            ("scale -d 1s -- -d 2s", "-d is given twice"),
            ("scale http://192.0.2.1/{id}", "nor in a private network"),
            ("capacity -- --rate 5", "--rate is set by the search"),
            ("capacity http://192.0.2.1/", "--max-rate 100/s"),
            ("capacity --probe 10ms", "--probe must be 1s or longer"),
            ("capacity -- --ids 0..100", "100 items are too few"),
            ("ladder -- -c 7", "rung 1 and the flags after --"),
            ("ladder -- http://127.0.0.1:1/", "remove the URL"),
            ("patterns -- --json", "--json is for single runs"),
            ("patterns -- -n 5", "each pattern lasts a fixed time (-d)"),
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
        assert_eq!(contents(place.path()), ["file", "full"]);
    }
    door.assert_untouched();
    fs::create_dir(place.path().join("empty")).unwrap();
    let said = call_line(place.path(), "run -n 3 --quiet --out empty");
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert!(place.path().join("empty/result.json").exists());
}

#[test]
fn strictness_fails_what_is_not_valid_and_nothing_else() {
    // The machine may not be quick enough for a valid measurement.
    let ended = ended("-n 200 --shards 2 -c 2 --strict");
    let code = ended.code().unwrap();
    let verdict = ended.report(code).text("/validity/verdict").to_owned();
    assert_eq!(code, if verdict == "valid" { 0 } else { 4 }, "{verdict}");
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
    assert_eq!(contents(place.path()), Vec::<String>::new());
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

#[test]
fn a_closed_standard_output_is_no_failure() {
    let ended = Run::start_unread("-n 100 --shards 2 -c 2".split(' ')).end();
    ended.report(0).assert_states(&[("ok", 100)]);
    assert_eq!(ended.stderr(), "");
}
