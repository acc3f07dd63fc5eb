//! What a newcomer sees: words that lead to the remedy, and a quick look that leaves nothing.

use std::fs;
use std::process::Command;

use serde_json::json;

use crate::command::{call, names, program, said};
use crate::run::ended;
use crate::scripted::{Peer, with_server};
use crate::target::Target;

/// Answer each request with this head.
fn crawl_of(head: &str, flags: &str) -> (serde_json::Value, String) {
    let serve = |mut peer: Peer| {
        while peer.request().is_some() {
            peer.send(&format!("HTTP/1.1 {head}\r\ncontent-length: 0\r\n\r\n"));
        }
    };
    let mut found = None;
    with_server(serve, |address| {
        let line = format!("http://{address}/{{id}} -n 4 --shards 1 -c 1 --no-pin {flags}");
        let done = ended(&line);
        assert_eq!(done.code, Some(1), "{}", done.stderr);
        found = Some((done.printed(), done.stderr));
    });
    found.unwrap()
}

#[test]
fn redirects_that_are_not_followed_say_where_to() {
    for status in [301, 302, 303, 307, 308] {
        let head = format!("{status} Moved\r\nlocation: https://other.test/a?password=hidden");
        let (report, _) = crawl_of(&head, "");
        let failure = &report["failures"][status.to_string()];
        let excerpt = failure["excerpt"].as_str().unwrap_or_default();
        assert!(excerpt.contains("https://other.test/a"), "{report}");
        assert!(!excerpt.contains("hidden"), "{excerpt}");
        let advice = &report["findings"][0]["causes"][0]["advice"];
        assert!(advice.as_str().unwrap().contains("--follow"), "{report}");
    }
    let head = "301 Moved\r\nlocation: https://other.test/a";
    let (report, _) = crawl_of(head, "--follow 3");
    let details = &report["failures"]["redirect_refused"]["details"];
    assert!(details.as_str().unwrap().contains("other.test"), "{report}");
}

#[test]
fn a_target_that_asks_for_credentials_leads_to_their_flags() {
    let (report, _) = crawl_of("401 Unauthorized", "");
    let advice = report["findings"][0]["causes"][0]["advice"]
        .as_str()
        .unwrap();
    assert!(
        advice.contains("--auth") && advice.contains("--bearer-env"),
        "{advice}"
    );
}

#[test]
fn a_quick_look_leaves_what_is_exported_and_nothing_else() {
    let target = Target::start("");
    let place = tempfile::tempdir().unwrap();
    for name in ["work", "tmp"] {
        fs::create_dir(place.path().join(name)).unwrap();
    }
    let [work, tmp] = ["work", "tmp"].map(|name| place.path().join(name));
    for (flags, code, left) in [
        ("", 0, &[][..]),
        ("--export csv=a.csv", 0, &["a.csv"]),
        ("--export csv", 2, &[]),
        ("--threshold 'rate < 1'", 3, &[]),
    ] {
        let mut command = Command::new(program());
        command.args([
            "run",
            &target.url(),
            "-n",
            "20",
            "--out",
            "-",
            "--shards",
            "1",
            "--no-pin",
        ]);
        command.args(shlex::split(flags).unwrap());
        command.current_dir(&work).env("TMPDIR", &tmp);
        let done = said(command);
        assert_eq!(done.code, Some(code), "{flags}: {}", done.stderr);
        assert!(
            code == 2 || !done.stdout.contains("report.html"),
            "{}",
            done.stdout
        );
        assert_eq!(json!(names(&work)), json!(left), "{flags}");
        assert_eq!(json!(names(&tmp)), json!([]), "{flags}");
        for name in left {
            fs::remove_file(work.join(name)).unwrap();
        }
    }
}

#[test]
fn a_message_does_not_repeat_megabytes() {
    let place = tempfile::tempdir().unwrap();
    let long = "x".repeat(2_000_000);
    for (text, line) in [
        (
            format!("http://127.0.0.1:9/{long}\n"),
            "run --urls file -n 1",
        ),
        (format!("ftp://{long}\n"), "run --urls file -n 1"),
        (
            format!("{{\"url\":\"{long}\"}}\n"),
            "run --requests-file file",
        ),
    ] {
        fs::write(place.path().join("file"), text).unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let done = call(place.path(), &words);
        assert_eq!(done.code, Some(2), "{line}: {:.300}", done.stderr);
        assert!(
            done.stderr.len() < 10_000,
            "{line}: {} bytes",
            done.stderr.len()
        );
    }
}
