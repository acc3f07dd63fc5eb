//! What others may not do: those who can write to a directory, whose texts are shown, whose page a browser shows, and
//! who have an account on the machine. Servers are in `hostile`.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crawlmark_results::run::result_dir::mark_announced;
use nix::pty::openpty;
use serde_json::Value;
use tempfile::TempDir;

use crate::command::{call, call_line, names, program, run};
use crate::lost::path;
use crate::run::crawl;
use crate::scripted::{Peer, with_server};
use crate::stubs;
use crate::target::Target;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Source files where files are made by paths that users name, or in directories that were just made,
/// with the number of calls.
const OTHER_WRITERS: [(&str, usize); 11] = [
    ("harness/src/files.rs", 0),
    // The cache of a search, which is its user's alone.
    ("src/bisect/cache.rs", 3),
    // A setting of the kernel's.
    ("harness/src/process.rs", 1),
    // Reads programs, without waiting for a pipe.
    ("harness/src/profile/spaces.rs", 1),
    // A device, and an attempt that is removed.
    ("src/export.rs", 2),
    ("src/plan.rs", 1),
    ("src/process_list.rs", 1),
    // `--tls-cert`.
    ("src/serve.rs", 1),
    // `GITHUB_STEP_SUMMARY`.
    ("src/terminal/workflow.rs", 1),
    ("results/src/studies/history/points.rs", 1),
    // The directory itself, under a name that nobody has; and `LogFile::create`.
    ("results/src/run/result_dir.rs", 2),
];

#[test]
fn all_files_in_directories_are_made_by_one_module() {
    const CALLS: [&str; 6] = [
        "fs::write(",
        "File::create",
        "OpenOptions::new",
        "File::options",
        "fs::create_dir",
        "fs::copy(",
    ];
    let mut found = Vec::new();
    for folder in ["src", "harness/src", "mock-server/src", "results/src"] {
        for path in sources(&Path::new(ROOT).join(folder)) {
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
            let count: usize = CALLS.iter().map(|call| code.matches(call).count()).sum();
            let name = path
                .strip_prefix(ROOT)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            if count > 0 && !name.contains("tests") {
                found.push((name, count));
            }
        }
    }
    found.sort();
    let mut allowed = OTHER_WRITERS
        .map(|(name, count)| (name.to_owned(), count))
        .to_vec();
    allowed.retain(|(_, count)| *count > 0);
    allowed.sort();
    assert_eq!(
        found, allowed,
        "write with `crawlmark_harness::files::Root`"
    );
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let inner = folders.iter().flat_map(|folder| sources(folder));
    let files = files.into_iter().chain(inner);
    files
        .filter(|path| path.extension().is_some_and(|end| end == "rs"))
        .collect()
}

/// Two directories: what somebody else prepared, and what is none of its business.
fn places() -> (TempDir, [PathBuf; 2]) {
    let place = tempfile::tempdir().unwrap();
    let both = ["given", "outside"].map(|name| place.path().join(name));
    for place in &both {
        fs::create_dir(place).unwrap();
    }
    (place, both)
}

#[test]
fn links_in_a_directory_lead_nowhere() {
    // A linked folder of a result.
    let (_place, [given, outside]) = places();
    fs::copy(
        Path::new(ROOT).join("results/example/result.json"),
        given.join("result.json"),
    )
    .unwrap();
    symlink(&outside, given.join("plots")).unwrap();
    let done = call(&given, &["report", "."]).code(&[1]);
    assert!(
        done.stderr.contains("plots is a symbolic link"),
        "{}",
        done.stderr
    );
    assert!(names(&outside).is_empty());
    // The mark of an unfinished result.
    symlink(outside.join("announced"), given.join("announced")).unwrap();
    mark_announced(&given);
    assert!(names(&outside).is_empty());
    // A saved crawl.
    let target = Target::start("");
    for name in ["lock", "crawl.json.new", "crawl.json"] {
        let (_place, [given, outside]) = places();
        symlink(outside.join(name), given.join(name)).unwrap();
        run(&format!(
            "run {} -n 10 --quiet --out r --save {}",
            target.url(),
            path(&given)
        ))
        .code(&[1, 2]);
        assert!(names(&outside).is_empty(), "{name}");
    }
    // A recording.
    let (place, [given, outside]) = places();
    fs::create_dir(given.join("mappings")).unwrap();
    fs::write(outside.join("x"), "theirs").unwrap();
    symlink(outside.join("x"), given.join("mappings/recorded.partial")).unwrap();
    fs::rename(&given, place.path().join("stubs")).unwrap();
    let given = place.path().join("stubs");
    let through = Target::start(&format!(
        "--stubs {} --record {}",
        path(&given),
        target.origin()
    ));
    crawl(&format!("{} -n 10", through.url()));
    through.stop();
    assert_eq!(fs::read_to_string(outside.join("x")).unwrap(), "theirs");
    assert!(given.join("mappings/recorded.json").is_file());
}

/// Permissions of a file.
fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn what_was_crawled_is_for_its_owner_unless_a_mode_says_otherwise() {
    let target = Target::start("");
    let place = tempfile::tempdir().unwrap();
    for (name, flag, files, directory) in [
        ("own", "", 0o600, 0o700),
        ("group", "--mode 640", 0o640, 0o750),
    ] {
        // Of two sessions.
        let save = format!("run {} -n 100 --quiet --save {name} {flag}", target.url());
        call_line(
            place.path(),
            &format!("{save} --rate 100 -d 300ms --out {name}-1"),
        );
        call_line(
            place.path(),
            &format!("run --resume {name} -d 9s --rate 1k --quiet --out {name}-2 {flag}"),
        )
        .code(&[0]);
        let saved = place.path().join(name);
        assert_eq!(mode(&saved), directory, "{name}");
        assert!(names(&saved).len() >= 3, "{:?}", names(&saved));
        for file in names(&saved) {
            assert_eq!(mode(&saved.join(&file)), files, "{name}/{file}");
        }
    }
    let resumed = call_line(place.path(), "run --resume group").code(&[2]);
    assert!(resumed.stderr.contains("--mode 640"), "{}", resumed.stderr);
    for wrong in ["7", "40", "1600", "700", "x"] {
        run(&format!(
            "run {} -n 1 --save items --mode {wrong}",
            target.url()
        ))
        .code(&[2]);
    }
    let stubs_at = tempfile::tempdir().unwrap();
    let flags = format!("--record {}", target.origin());
    let through = Target::start(&stubs::flags(&stubs_at, &flags));
    crawl(&format!("{} -n 10", through.url()));
    through.stop();
    assert_eq!(mode(&stubs_at.path().join("mappings/recorded.json")), 0o600);
}

/// Run the program with the words of a line on a terminal, in a directory, and return what that gets.
fn on_a_terminal(directory: &Path, line: &[&str]) -> String {
    let pty = openpty(None, None).unwrap();
    let slave = Stdio::from(pty.slave);
    let mut child = Command::new(program())
        .args(line)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(slave)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (mut master, mut bytes) = (File::from(pty.master), Vec::new());
    // The end of a terminal that nobody has open any more is an error.
    let _ = master.read_to_end(&mut bytes);
    assert!(child.wait().unwrap().success());
    String::from_utf8(bytes).unwrap()
}

#[test]
fn bodies_that_were_saved_do_not_act_on_a_terminal() {
    let evil = "\u{9b}31m\u{202e}x\u{1b}]0;title\u{7}##[error]w";
    let serve = |mut peer: Peer| {
        while peer.request().is_some() {
            let length = evil.len();
            peer.send(&format!("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\n\r\n{evil}"));
        }
    };
    let place = tempfile::tempdir().unwrap();
    with_server(serve, |address| {
        let line =
            format!("run http://{address}/{{id}} -n 3 -s 1 -c 1 --quiet --save items --out r");
        call_line(place.path(), &line).code(&[0]);
    });
    let shown = on_a_terminal(place.path(), &["export", "items"]);
    assert_eq!(shown.matches("\\u202ex").count(), 3, "{shown}");
    let acts = |c: char| c.is_control() && c != '\r' && c != '\n' || c == '\u{202e}';
    assert!(!shown.contains(acts), "{shown:?}");
    // In GitHub's log it is no command, and JSON is the same.
    let logged = Command::new(program())
        .args(["export", "items"])
        .env("GITHUB_ACTIONS", "true")
        .current_dir(place.path())
        .output()
        .unwrap();
    let logged = String::from_utf8(logged.stdout).unwrap();
    assert!(!logged.contains("##["), "{logged}");
    let read: Value = serde_json::from_str(logged.lines().next().unwrap()).unwrap();
    assert_eq!(read["body"], evil);
    // For a program it is to the letter.
    let piped = call(place.path(), &["export", "items"]).code(&[0]).stdout;
    assert_eq!(piped.matches("\u{9b}31m\u{202e}x").count(), 3, "{piped:?}");
}

#[test]
fn no_text_is_a_command_of_a_workflow() {
    let place = tempfile::tempdir().unwrap();
    let foreign = "a\n::error title=x::y\n  ::stop-commands::z\n##[error]w";
    for words in [
        vec!["report", foreign],
        vec!["compare", foreign, foreign],
        vec![
            "run",
            "http://127.0.0.1:1/{id}",
            "-n",
            "1",
            "--expect",
            foreign,
        ],
        vec![
            "run",
            "http://127.0.0.1:1/{id}",
            "-n",
            "1",
            "--tag",
            foreign,
        ],
        vec![foreign],
    ] {
        let output = Command::new(program())
            .args(&words)
            .env("GITHUB_ACTIONS", "true")
            .current_dir(place.path())
            .output()
            .unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        let acts = |line: &str| line.trim_start().starts_with("::") || line.contains("##[");
        assert!(!said.lines().any(acts), "{words:?}: {said}");
        assert!(said.contains("error"), "{words:?}: {said}");
    }
}

/// Send the head of a request, and return the status of the response.
fn asked(target: &Target, request: &str) -> String {
    let mut stream = TcpStream::connect(target.address()).unwrap();
    write!(
        stream,
        "{request}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    )
    .unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response.split(' ').nth(1).unwrap().to_owned()
}

#[test]
fn a_page_in_a_browser_neither_resets_a_ledger_nor_reads_what_is_recorded() {
    let reset = "POST /__admin/ledger/reset HTTP/1.1\r\nHost: ";
    let item = "GET /items/1 HTTP/1.1\r\nHost: ";
    let clear = "DELETE /__admin/mappings HTTP/1.1\r\nHost: ";
    let service = Target::start("");
    let place = tempfile::tempdir().unwrap();
    let recorder = Target::start(&stubs::flags(
        &place,
        &format!("--record {}", service.origin()),
    ));
    let allowing = Target::start("--allow-host mock.internal");
    for target in [&service, &recorder, &allowing] {
        for (host, origin, status) in [
            (target.address(), "", "2"),
            ("localhost:80", "", "2"),
            (target.address(), "\r\nOrigin: http://localhost:3000", "2"),
            ("rebound.evil.example", "", "403"),
            (target.address(), "\r\nOrigin: https://evil.example", "403"),
            (target.address(), "\r\nOrigin: http://203.0.113.7", "403"),
            (target.address(), "\r\nOrigin: null", "403"),
            ("app.test", "", "2"),
        ] {
            for request in [reset, item, clear] {
                let request = format!("{request}{host}{origin}");
                let said = asked(target, &request);
                assert!(said.starts_with(status), "{request}: {said}");
            }
        }
    }
    assert!(asked(&allowing, &format!("{item}Mock.Internal:80")).starts_with('2'));
    assert_eq!(asked(&service, &format!("{item}mock.internal")), "403");
    // What was refused is in no count; what was recorded was let through.
    let before = service.requests();
    assert_eq!(asked(&service, &format!("{item}evil.example")), "403");
    assert_eq!(service.requests(), before);
    // A target for others is called by any name.
    let open = Target::start_on("0.0.0.0:0", "");
    let port = open.address().rsplit(':').next().unwrap().to_owned();
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    write!(stream, "{item}any.example\r\nConnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
}
