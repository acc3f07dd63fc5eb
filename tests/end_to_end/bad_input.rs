//! Bad input is refused before anything is opened, sent or written: exit 2, and the message names
//! what was wrong.
#![expect(
    clippy::unwrap_used,
    reason = "a test whose program cannot be started is over"
)]

use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::Path;

use assert_cmd::Command;

use crate::process::{DEADLINE, working_in};
use crate::run::{Run, program};
use crate::target::Target;

/// What a call came to.
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Calls the program with `args` in `directory`.
pub(crate) fn call(directory: &Path, args: &[&str]) -> Said {
    let output = Command::new(program())
        .args(args)
        .current_dir(directory)
        .timeout(DEADLINE)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said {
        code: output.status.code(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// A port that counts who comes. Nobody should.
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

    fn is_untouched(&self) -> bool {
        matches!(self.0.accept(), Err(error) if error.kind() == ErrorKind::WouldBlock)
    }
}

/// Everything below a directory.
fn contents(directory: &Path) -> Vec<String> {
    fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect()
}

/// Calls `run` with each case's arguments, `URL` standing for a target that listens, and expects to
/// be refused with a message that holds the case's word.
#[track_caller]
pub(crate) fn assert_refused(cases: &[(&[&str], &str)]) {
    let door = Door::open();
    let url = door.url();
    for (args, named) in cases {
        let place = tempfile::tempdir().unwrap();
        let args: Vec<&str> = ["run"]
            .into_iter()
            .chain(
                args.iter()
                    .map(|&arg| if arg == "URL" { &url } else { arg }),
            )
            .collect();
        let said = call(place.path(), &args);
        assert_eq!(said.code, Some(2), "{args:?} said {}", said.stderr);
        assert!(
            said.stderr.contains(named),
            "{args:?} does not name {named}: {}",
            said.stderr
        );
        assert_eq!(said.stdout, "", "{args:?}");
        assert_eq!(contents(place.path()), Vec::<String>::new(), "{args:?}");
    }
    assert!(door.is_untouched());
}

/// Expects lines of flags, whose spaces separate words, to be refused.
fn assert_lines_refused(cases: &[(&str, &str)]) {
    for (line, named) in cases {
        assert_refused(&[(&line.split(' ').collect::<Vec<_>>(), named)]);
    }
}

#[test]
fn what_makes_no_sense_is_refused_by_its_name() {
    assert_lines_refused(&[
        ("URL --no-such-flag", "--no-such-flag"),
        ("URL --conections 5", "did you mean '--connections'?"),
        ("URL -u user:password", "did you mean '--auth'?"),
        ("URL -t many", "--shards"),
        (
            "URL --tag a=1 --tag b=1 --tag a=2",
            "--tag a is given twice",
        ),
        (
            "URL -H Host:evil -H host:two",
            "--header Host is given twice",
        ),
        (
            "--resume /dev/null",
            "/dev/null is not a directory. Name the directory",
        ),
        (
            "--plan / --node 1/2 --into x",
            "it is a directory, not a regular file",
        ),
        ("URL --ids 9..3", "--ids"),
        ("URL --ids 5..5", "--ids"),
        (
            "URL --ids 0..=18446744073709551615",
            "write 0..=18446744073709551614",
        ),
        (
            "URL -n 0",
            "'--items <N>': `0` is too low: write at least 1",
        ),
        ("URL -n -1", "'-1' for '--items <N>': `-1` is not a count"),
        ("URL -c 1.5", "'--connections <N>': `1.5` is not a count"),
        ("URL -c 1 -s 2", "--connections"),
        ("URL -s 0", "--shards 0 is out of range: 1 to"),
        ("URL -s 1025 -c 2000", "--shards"),
        ("URL -d 0", "--duration 0s is out of range: at least 1ms"),
        (
            "URL -d -1s",
            "'-1s' for '--duration <TIME>': `-1s` is not a duration",
        ),
        ("URL --rate 0", "write at least 1"),
        ("URL --rate 5/day", "/s, /min or /h"),
        ("URL --rate 0.5", "write 30/min"),
        ("URL --rate 2g", "leave the rate out"),
        ("URL --backoff 20s,1s", "for example 1s,20s"),
        (
            "URL --body @/nowhere/body",
            "--body @FILE: the file cannot be read: No such file",
        ),
        ("URL --body @/dev/zero", "longer than 64 MiB"),
        (
            "URL --burst 5",
            "--burst 5 is for a rate budget: add --rate",
        ),
        ("URL --burst 1 --rate 5 -s 2", "--burst"),
        ("URL --timeout 2h", "--timeout"),
        ("URL --connect-timeout 0", "--connect-timeout"),
        ("URL --shard-deadline 10ms", "--shard-deadline"),
        ("URL -H no-colon", "--header"),
        ("URL -H content-length:5", "--header"),
        ("URL -H connection:close", "--header"),
        ("URL -m CONNECT", "--method"),
        (
            "URL --per-host-connections 1 -s 2",
            "--per-host-connections",
        ),
        ("URL --per-host-rate 0", "--per-host-rate"),
        ("URL --urls -", "--urls"),
        ("--urls -", "--urls -: holds no URL"),
        (
            "--urls /nowhere/urls.txt",
            "--urls /nowhere/urls.txt: cannot be read",
        ),
        ("--urls - --target-latency 1ms", "--target-latency"),
        ("--requests-file - --target-limit 1/s", "--target-limit"),
        ("URL --target-processes 1", "--target-processes"),
        ("--target-handshake slow", "--target-handshake"),
        (
            "--target-fault drop:0.6 --target-fault reset:0.6",
            "--target-fault: `1.2` is not a valid sum",
        ),
        ("URL --expect status:200,429", "--expect"),
        ("URL --expect len:-5", "`len:-5` is not a valid length"),
        ("URL --expect regex:(a", "unclosed group"),
        (
            "URL --expect json --expect len:1 --expect len:2",
            "`len:1` and `len:2`",
        ),
        ("URL --name .hidden", "--name"),
        ("URL --tag no-value", "--tag"),
        ("URL URL", "--urls FILE"),
    ]);
}

#[test]
fn what_is_no_target_is_refused() {
    assert_refused(&[(&["not a url"], "`not a url` is not a URL")]);
    assert_lines_refused(&[
        ("--adaptive aimd", "--adaptive=aimd"),
        ("localhost:9/x", "did you mean http://localhost:9/x?"),
        ("http://::1:9/", "in brackets"),
        ("http://127.0.0.1/{ID}", "write {id} where the ID goes"),
        ("ftp://127.0.0.1/{id}", "ftp://127.0.0.1/"),
        ("http://127.0.0.1:99999/{id}", "http://127.0.0.1:99999/"),
        ("http://{id}/", "{id}"),
        ("http://192.0.2.1/", "192.0.2.1"),
        ("http://[2001:db8::1]/", "--rate"),
    ]);
}

#[test]
fn a_password_in_a_url_is_refused_and_never_repeated() {
    let place = tempfile::tempdir().unwrap();
    for url in [
        "http://me:hunter2@127.0.0.1:9/{id}",
        "https://me:hunter2@127.0.0.1/",
        "me:hunter2@127.0.0.1/",
    ] {
        let said = call(place.path(), &["run", url]);
        assert_eq!((said.code, said.stdout.as_str()), (Some(2), ""));
        assert!(said.stderr.contains("authorization"), "{}", said.stderr);
        assert!(
            !said.stderr.contains("hunter2"),
            "{url} is repeated: {}",
            said.stderr
        );
    }
    let said = call(
        place.path(),
        &[
            "run",
            "http://127.0.0.1:9/",
            "-H",
            "author ization: hunter2",
        ],
    );
    assert_eq!(said.code, Some(2));
    assert!(!said.stderr.contains("hunter2"), "{}", said.stderr);
}

#[test]
fn a_result_is_never_overwritten() {
    let door = Door::open();
    for make in [
        (|out: &Path| {
            fs::create_dir(out).unwrap();
            fs::write(out.join("precious"), "1").unwrap();
        }) as fn(&Path),
        |out| fs::write(out, "precious").unwrap(),
    ] {
        let place = tempfile::tempdir().unwrap();
        make(&place.path().join("taken"));
        let said = call(
            place.path(),
            &["run", &door.url(), "-n", "1", "--out", "taken"],
        );
        assert_eq!(said.code, Some(2), "{}", said.stderr);
        assert!(said.stderr.contains("--out taken"), "{}", said.stderr);
        assert_eq!(contents(place.path()), ["taken"]);
    }
    assert!(door.is_untouched());
}

#[test]
fn an_empty_directory_may_become_the_result() {
    let target = Target::start("--processes 1");
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("empty")).unwrap();
    let said = call(
        place.path(),
        &["run", &target.url(), "-n", "3", "--quiet", "--out", "empty"],
    );
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert!(place.path().join("empty/result.json").exists());
    assert_eq!(contents(place.path()), ["empty"]);
}

#[test]
fn a_place_that_cannot_be_written_to_is_known_before_the_run() {
    let door = Door::open();
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("file"), "").unwrap();
    // Nobody can make a directory in either, not even root.
    for out in ["/proc/no-such-place/result", "file/result"] {
        let said = call(place.path(), &["run", &door.url(), "-n", "1", "--out", out]);
        assert_eq!(said.code, Some(1), "{out}: {}", said.stderr);
        assert!(said.stderr.contains(out), "{}", said.stderr);
        assert!(
            !said.stderr.contains("already exists"),
            "{out} does not: {}",
            said.stderr
        );
        assert_eq!(contents(place.path()), ["file"]);
    }
    assert!(door.is_untouched());
}

#[test]
fn a_name_that_does_not_resolve_could_not_be_started() {
    let place = tempfile::tempdir().unwrap();
    // RFC 6761 reserves `invalid` for this.
    let said = call(
        place.path(),
        &[
            "run",
            "http://no-such-host.invalid/",
            "--rate",
            "1/s",
            "-n",
            "1",
        ],
    );
    assert_eq!(said.code, Some(1), "{}", said.stderr);
    assert!(
        said.stderr.contains("no-such-host.invalid"),
        "{}",
        said.stderr
    );
    assert_eq!(contents(place.path()), Vec::<String>::new());
}

#[test]
fn strictness_fails_what_is_not_valid_and_nothing_else() {
    // Whether the machine is quick enough for a valid measurement is not for this test to say.
    let ended = Run::start("-n 200 --shards 2 -c 2 --strict".split(' ')).end();
    let code = ended.code().unwrap();
    let verdict = ended.report(code).text("/validity/verdict").to_owned();
    assert_eq!(code, if verdict == "valid" { 0 } else { 4 }, "{verdict}");
}

#[test]
fn help_and_version_succeed() {
    let place = tempfile::tempdir().unwrap();
    for (args, says) in [
        (&["--help"][..], "Exit codes"),
        (&["--version"], env!("CARGO_PKG_VERSION")),
        (&["run", "--help"], "--connections"),
        (&["serve", "--help"], "malformed-chunk:SHARE"),
        (&["run", "--help"], "--target-fault"),
        (&["help"], "serve"),
    ] {
        let said = call(place.path(), args);
        assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{args:?}");
        assert!(said.stdout.contains(says), "{args:?}: {}", said.stdout);
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let lost = std::process::Command::new(program())
            .args(args)
            .stdout(full)
            .status()
            .unwrap();
        assert_eq!(lost.code(), Some(1), "{args:?}: nothing was shown");
    }
    for (args, says) in [
        (&[][..], "Usage: crawlmark [OPTIONS] <COMMAND>"),
        (&["fly"], "unrecognized subcommand 'fly'"),
        (&["rnu"], "did you mean 'run'?"),
        (
            &["http://127.0.0.1:9/"],
            "crawlmark run http://127.0.0.1:9/",
        ),
    ] {
        let said = call(place.path(), args);
        assert_eq!((said.code, said.stdout.as_str()), (Some(2), ""), "{args:?}");
        assert!(said.stderr.contains(says), "{args:?}: {}", said.stderr);
    }
    assert_eq!(contents(place.path()), Vec::<String>::new());
}

#[test]
fn a_target_refuses_what_makes_no_sense() {
    let place = tempfile::tempdir().unwrap();
    for (line, named) in [
        (
            "--listen nowhere",
            "`nowhere` is not ADDRESS:PORT: write 127.0.0.1:8080",
        ),
        ("--listen 8081", "write 127.0.0.1:8081"),
        (
            "--processes 100000",
            "--processes 100000 is out of range: 1 to 1024",
        ),
        (
            "--limit 5/m",
            "`5/m` is not a valid limit: write N/s, N/min",
        ),
        ("--latency slow", "--latency"),
        (
            "--fault error:2",
            "`error:2` is not a valid fault: write error:SHARE",
        ),
        (
            "--fault error:0.6 --fault drop:0.6",
            "is not a valid sum of the shares",
        ),
    ] {
        let args: Vec<&str> = ["serve"].into_iter().chain(line.split(' ')).collect();
        let said = call(place.path(), &args);
        assert_eq!((said.code, said.stdout.as_str()), (Some(2), ""), "{line}");
        assert!(said.stderr.contains(named), "{line}: {}", said.stderr);
    }
}

#[test]
fn a_list_with_a_bad_line_is_refused_with_the_line_and_without_secrets() {
    let door = Door::open();
    let place = tempfile::tempdir().unwrap();
    for (bad, says) in [
        (
            "ftp://h/",
            "line 3: the URL `ftp://h/` begins with neither http:// nor https://",
        ),
        (
            "http://user:secret@h/",
            "line 3: the URL holds a user name or password",
        ),
        (
            "http://h/{id}/{id}",
            "line 3: the URL `http://h/{id}/{id}` has {id} more than once: keep one of them",
        ),
        ("http://192.0.2.1/", "--rate"),
    ] {
        fs::write(
            place.path().join("urls"),
            format!("# a list\n{}\n{bad}\n", door.url()),
        )
        .unwrap();
        let said = call(place.path(), &["run", "--urls", "urls"]);
        assert_eq!(
            (said.code, said.stdout.as_str()),
            (Some(2), ""),
            "{bad} said {}",
            said.stderr
        );
        assert!(
            said.stderr.contains(says) && !said.stderr.contains("secret"),
            "{bad}: {}",
            said.stderr
        );
        assert_eq!(contents(place.path()), ["urls"], "{bad}");
    }
    assert!(door.is_untouched());
}

#[test]
fn a_file_of_another_kind_is_refused_with_a_remedy() {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("empty")).unwrap();
    fs::write(place.path().join("notes"), "# Notes\n").unwrap();
    fs::write(place.path().join("binary"), b"\xff\xfe\0").unwrap();
    for (line, says) in [
        (
            "report notes",
            "it cannot be parsed at line 1. Name a directory that it saved",
        ),
        ("report binary", "it is not UTF-8 text. Name a directory"),
        ("run --urls nowhere", "Name a file with one URL per line"),
        (
            "run --urls binary",
            "--urls binary: line 1 is not UTF-8 text",
        ),
        (
            "run --requests-file binary",
            "begins with none of the formats",
        ),
        (
            "run --config binary",
            "binary: cannot be read: stream did not contain valid UTF-8",
        ),
        (
            "run --config empty",
            "empty: cannot be read: Is a directory",
        ),
        (
            "plan http://h/ --nodes 2 --start-at yesterday",
            "`yesterday` is not a time in UTC",
        ),
        (
            "completions tcsh",
            "[possible values: bash, elvish, fish, powershell, zsh]",
        ),
    ] {
        let said = call(place.path(), &line.split(' ').collect::<Vec<_>>());
        assert_eq!(
            (said.code, said.stdout.as_str()),
            (Some(2), ""),
            "{line} said {}",
            said.stderr
        );
        assert!(said.stderr.contains(says), "{line}: {}", said.stderr);
    }
}

#[test]
fn a_target_does_not_share_an_address() {
    let target = Target::start("--processes 2");
    let place = tempfile::tempdir().unwrap();
    let said = call(
        place.path(),
        &["serve", "--listen", target.address(), "--processes", "2"],
    );
    assert_eq!(
        (said.code, said.stdout.as_str()),
        (Some(1), ""),
        "{}",
        said.stderr
    );
    assert!(said.stderr.contains(target.address()), "{}", said.stderr);
    assert_eq!(
        working_in(&place.path().canonicalize().unwrap()),
        Vec::<i32>::new()
    );
}

#[test]
fn a_reader_who_has_had_enough_is_no_failure() {
    let target = Target::start("--processes 1");
    let ended =
        Run::start_unread(format!("{} --ids 0..100 --shards 2 -c 2", target.url()).split(' '))
            .end();
    ended.report(0).assert_states(&[("ok", 100)]);
    assert_eq!(ended.stderr(), "");
}
