//! Saved crawls (`--save`, `--resume`): killed at any moment, resumed, and whole in the end; full
//! disks; refusals.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test without its files is over"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::bad_input::call;
use crate::lost::Disk;
use crate::process::{is_ended, signal, wait_for};
use crate::run::{Run, program};
use crate::scripted::{Peer, with_server};
use crate::target::Target;

/// Number of kills in CI; `CRAWLMARK_KILLS` sets another one.
const KILLS: u64 = 200;

/// Kills of one crawl, after which it is left to end.
const KILLS_PER_CRAWL: u64 = 25;

/// Directory of a saved crawl.
struct Crawl {
    _place: TempDir,
    path: PathBuf,
}

impl Crawl {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("items");
        Self {
            _place: place,
            path,
        }
    }

    /// Start a session: the first one with these flags, and the others without.
    fn session(&self, flags: &str) -> Run {
        let place = self.path.to_str().unwrap();
        if self.path.join("crawl.json").exists() {
            return Run::start(["--resume", place]);
        }
        Run::start(flags.split_whitespace().chain(["--save", place]))
    }

    /// Return each record, by its ID.
    fn records(&self) -> BTreeMap<u64, Value> {
        let mut records = BTreeMap::new();
        for entry in fs::read_dir(&self.path).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "zst") {
                let lines = zstd::decode_all(fs::File::open(&path).unwrap()).unwrap();
                for line in String::from_utf8(lines).unwrap().lines() {
                    let record: Value = serde_json::from_str(line)
                        .unwrap_or_else(|error| panic!("{error} in {line}"));
                    let id = record["id"].as_u64().unwrap();
                    assert_eq!(
                        records.insert(id, record),
                        None,
                        "{id} is saved twice, now in {}",
                        path.display()
                    );
                }
            }
        }
        records
    }
}

/// Draws of a test, by a seed (splitmix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (mixed ^ (mixed >> 31)) % end
    }
}

fn requests(target: &Target) -> u64 {
    target.books()["requests"].as_u64().unwrap()
}

/// Kill a shard or the supervisor of a session once the target has had so many more requests. None
/// if the session ended before, else true if the session goes on.
fn kill(run: &Run, target: &Target, draw: &mut Draw, most: u64) -> Option<bool> {
    let enough = requests(target) + draw.below(most);
    wait_for("requests, or the end", || {
        (is_ended(run.pid()) || requests(target) >= enough).then_some(())
    });
    let shards: Vec<i32> = run
        .processes()
        .into_iter()
        .filter(|pid| *pid != run.pid())
        .collect();
    if is_ended(run.pid()) || shards.is_empty() {
        return None;
    }
    let victim = shards.get(usize::try_from(draw.below(shards.len() as u64 + 1)).unwrap());
    signal(*victim.unwrap_or(&run.pid()), Signal::SIGKILL);
    Some(victim.is_some())
}

#[test]
fn however_often_a_crawl_is_killed_each_id_is_saved_once() {
    const ITEMS: u64 = 6_000;
    let kills = std::env::var("CRAWLMARK_KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let mut draw = Draw(22);
    let (mut killed, mut replaced, mut repeated, mut unsent) = (0, 0, 0, 0);
    while killed < kills {
        let (target, crawl) = (Target::start("--processes 1 --latency 2ms"), Crawl::new());
        let durability = ["process", "power"][usize::try_from(draw.below(2)).unwrap()];
        let flags = format!(
            "{} --ids 7..{} -c 16 --shards 2 --save-bodies all --durability {durability}",
            target.url(),
            7 + ITEMS
        );
        let mut of_this = 0;
        loop {
            let run = crawl.session(&flags);
            let mut goes_on = true;
            while goes_on && of_this < KILLS_PER_CRAWL && killed < kills {
                let Some(shard) = kill(&run, &target, &mut draw, ITEMS / 12) else {
                    break;
                };
                (goes_on, of_this, killed) = (shard, of_this + 1, killed + 1);
                replaced += u64::from(shard);
            }
            let ended = run.end();
            ended.wait_for_its_processes();
            if ended.code() == Some(0) {
                break;
            }
            assert!(
                [None, Some(4)].contains(&ended.code()),
                "{:?}: {}",
                ended.code(),
                ended.stderr()
            );
        }
        let verified = Command::new(program())
            .args(["verify", "--json"])
            .arg(&crawl.path)
            .output()
            .unwrap();
        assert_eq!(
            verified.status.code(),
            Some(0),
            "{}",
            String::from_utf8_lossy(&verified.stdout)
        );
        let audit: Value = serde_json::from_slice(&verified.stdout).unwrap();
        let records = crawl.records();
        assert!(
            records.keys().copied().eq(7..7 + ITEMS),
            "{} of {ITEMS}",
            records.len()
        );
        assert!(
            records
                .values()
                .all(|record| record["outcome"] == "ok" && record["body"]["id"] == record["id"])
        );
        let asked = requests(&target);
        assert!(asked >= ITEMS, "{asked}");
        // Counted right before it is written: at most one of each shard that died in between was
        // not sent.
        let sent = audit["sent"].as_u64().unwrap();
        assert!(
            (asked..=asked + 2 * of_this).contains(&sent),
            "{sent} counted, {asked} at the target"
        );
        unsent += sent - asked;
        repeated += asked - ITEMS;
    }
    eprintln!(
        "{killed} kills, {replaced} of them of shards; {repeated} requests were repeated, {unsent} counted and not sent"
    );
}

#[test]
fn the_writer_of_a_pinned_shard_may_use_all_cpus_of_the_run() {
    let (target, crawl) = (Target::start("--processes 1 --latency 5ms"), Crawl::new());
    let run = crawl.session(&format!("{} --ids 0..1m -c 2 --shards 1", target.url()));
    target.wait_for_requests(1);
    let tasks = format!("/proc/{}/task", run.shard(0));
    let field = |status: &str, name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_once(':').unwrap().1.trim().to_owned()
    };
    let cpus = |task: String| field(&fs::read_to_string(task).unwrap(), "Cpus_allowed_list");
    let all = cpus(format!("/proc/{}/status", run.pid()));
    wait_for("a writer that is not pinned", || {
        let threads = fs::read_dir(&tasks)
            .unwrap()
            .map(|task| task.unwrap().path().join("status"));
        let mut threads = threads.map(|status| fs::read_to_string(status).unwrap());
        let writer = threads
            .find(|status| field(status, "Name") == "writer")
            .unwrap();
        (field(&writer, "Cpus_allowed_list") == all).then_some(())
    });
    let own: usize = cpus(format!("{tasks}/{}/status", run.shard(0)))
        .parse()
        .unwrap();
    run.signal(Signal::SIGINT);
    assert_eq!(run.end().report(130).count("/shards/0/cpu"), own as u64);
}

#[test]
fn a_disk_that_gets_full_ends_the_session_and_a_resumed_one_saves_the_rest() {
    let Some(disk) = Disk::of(1 << 20) else {
        return;
    };
    let target = Target::start("--processes 1");
    let place = disk.place().join("items");
    let place = place.to_str().unwrap();
    let begin = format!(
        "{} --ids 0..40k -c 16 --shards 2 --save {place}",
        target.url()
    );
    let ended = Run::start(begin.split_whitespace()).end();
    assert_eq!(ended.code(), Some(4), "{}", ended.stderr());
    let said = ended.stderr();
    let place_of_it = said.contains("/items/0001-s0");
    assert!(
        place_of_it && said.contains("No space left") && said.contains("--resume"),
        "{said}"
    );
    disk.grow(64 << 20);
    let ended = Run::start(["--resume", place]).end();
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr());
    let crawl = Crawl {
        _place: tempfile::tempdir().unwrap(),
        path: Path::new(place).to_owned(),
    };
    assert!(crawl.records().into_keys().eq(0..40_000));
}

#[test]
fn a_record_holds_the_response_as_its_flags_say() {
    let items: [(&str, &[u8]); 8] = [
        (
            "200 OK\r\ncontent-type: application/json; charset=utf-8",
            b"{\r\n \"a\": [1,\n2]}\n",
        ),
        (
            "200 OK\r\ncontent-type: text/plain",
            "sch\u{f6}n \"und\"\n".as_bytes(),
        ),
        ("200 OK\r\ncontent-type: application/json", b"{\"a\":"),
        ("200 OK\r\ncontent-type: image/png", b"\x89PNG\xff"),
        ("404 Not Found\r\ncontent-type: text/plain", b"none"),
        ("500 Oops", b"broken"),
        ("302 Found\r\nlocation: /other/1?token=hidden&x=2", b""),
        ("200 OK", b"0123456789"),
    ];
    let serve = |mut peer: Peer| {
        while let Some(head) = peer.head() {
            let path = head.split(' ').nth(1).unwrap();
            let id: usize = path.split(['/', '?']).nth(2).unwrap().parse().unwrap();
            let (start, body) = items[id];
            peer.send(&format!(
                "HTTP/1.1 {start}\r\ncontent-length: {}\r\n\r\n",
                body.len()
            ));
            peer.send_bytes(body);
        }
    };
    let saved = |flags: &str| {
        let crawl = Crawl::new();
        with_server(serve, |address| {
            let flags =
                format!("http://{address}/x/{{id}} -n 8 -c 1 -s 1 --retries 0 --follow 1 {flags}");
            assert_eq!(crawl.session(&flags).end().code(), Some(0));
        });
        let mut records: Vec<Value> = crawl.records().into_values().collect();
        for record in &mut records {
            let record = record.as_object_mut().unwrap();
            assert!(
                record
                    .remove("at")
                    .unwrap()
                    .as_str()
                    .unwrap()
                    .ends_with('Z')
            );
            assert!(record.remove("latency_us").is_some());
            if let Some(url) = record.get("url") {
                let url = url
                    .as_str()
                    .unwrap()
                    .replace(|c: char| c.is_ascii_digit(), "");
                record.insert("url".to_owned(), url.into());
            }
        }
        records
    };
    let all = saved("--save-bodies all --max-body 8");
    let record = |n: usize| all[n].as_object().unwrap();
    assert_eq!(
        all[4],
        json!({"id": 4, "status": 404, "outcome": "not_found", "attempts": 1, "content_type": "text/plain",
            "digest": "140bedbf9c3f6d56a9846d2ba7088798", "body": "none"})
    );
    assert_eq!(
        (&record(0)["body"], &record(0)["body_bytes"]),
        (&json!("{\r\n \"a\":"), &json!(17))
    );
    assert_eq!(
        (&record(1)["body"], &record(1)["body_bytes"]),
        (&json!("sch\u{f6}n \""), &json!(13))
    );
    assert_eq!(
        (&record(2)["body"], record(2).get("body_bytes")),
        (&json!("{\"a\":"), None)
    );
    assert_eq!(
        (&record(3)["body"], &record(3)["body_encoding"]),
        (&json!("iVBOR/8="), &json!("base64"))
    );
    assert_eq!(
        (&record(5)["outcome"], &record(5)["body"]),
        (&json!("rejected"), &json!("broken"))
    );
    assert_eq!(
        (&record(6)["url"], &record(6)["attempts"]),
        (&json!("http://...:/other/?token=...&x="), &json!(2))
    );
    assert_eq!(record(7).get("content_type"), None);
    let good = saved("");
    assert_eq!(good[0]["body"], json!({"a": [1, 2]}));
    assert_eq!(good[1]["body"], json!("sch\u{f6}n \"und\"\n"));
    let has_body = |record: &Value| record.get("body").is_some();
    assert_eq!(
        good.iter().map(has_body).collect::<Vec<_>>(),
        [true, true, true, true, false, false, true, true]
    );
    assert!(!saved("--save-bodies none").iter().any(has_body));
}

#[test]
fn a_session_is_stopped_and_another_goes_on_with_other_flags() {
    let target = Target::start("--processes 1 --latency 1ms");
    let crawl = Crawl::new();
    let flags = format!(
        "{} --ids 0..2k -c 8 --shards 2 --shuffle --save-fields status,at",
        target.url()
    );
    let run = crawl.session(&flags);
    target.wait_for_requests(500);
    run.signal(Signal::SIGINT);
    let first = run.end().report(130);
    let saved = first.count("/saved/saved");
    assert!((1..2_000).contains(&saved), "{saved}");
    let place = crawl.path.to_str().unwrap();
    let second = Run::start(["--resume", place, "--shards", "1", "-c", "4"])
        .end()
        .report(0);
    assert_eq!(second.count("/saved/saved"), 2_000);
    assert_eq!(second.count("/saved/sessions/0/items"), saved);
    assert_eq!(second.count("/saved/sessions/1/items"), 2_000 - saved);
    for (session, items) in [(0, saved), (1, 2_000 - saved)] {
        let p99 = second.at(&format!("/saved/sessions/{session}/p99_us"));
        assert_eq!(p99.is_null(), items < 1_000, "of {items} items: {p99}");
    }
    let records = crawl.records();
    assert!(records.keys().copied().eq(0..2_000));
    let fields = |record: &Value| {
        record
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    assert!(
        records
            .values()
            .all(|record| fields(record) == ["id", "status", "outcome", "at"])
    );
    // What a session sent and did not save is known to it and to the target.
    let sent = second.count("/saved/sessions/0/sent") + second.count("/saved/sessions/1/sent");
    let asked = requests(&target);
    assert!(
        (asked..=asked + 2).contains(&sent),
        "{sent} counted, {asked} at the target"
    );
    let again = |flags: &[&str]| {
        call(
            crawl.path.parent().unwrap(),
            &[&["run", "--resume", place], flags].concat(),
        )
    };
    let done = again(&[]);
    assert_eq!((done.code, &*done.stdout), (Some(0), ""));
    assert_eq!(again(&["--quiet"]).stderr, "");
    // Nothing is measured, so nothing passes.
    for flags in [
        &["--json"][..],
        &["--strict"],
        &["--max-error-rate", "1%"],
        &["--out", "again"],
    ] {
        let refused = again(flags);
        assert_eq!((refused.code, &*refused.stdout), (Some(2), ""), "{flags:?}");
        assert!(
            refused.stderr.contains("verify --complete"),
            "{}",
            refused.stderr
        );
    }
    assert_eq!(requests(&target), asked);
    // A flipped bit: `--resume` and `verify` give the same remedy, and it works.
    let segment = crawl.path.join("0001-s00.jsonl.zst");
    let mut bytes = fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let refused = again(&[]);
    let said = format!(
        "error: failed to resume the crawl: {} is damaged: ",
        segment.display()
    );
    assert!(
        refused.code == Some(1) && refused.stderr.starts_with(&said),
        "{}",
        refused.stderr
    );
    let remedy = "Restore the file from a backup, or move its checkpoint elsewhere";
    let verified = call(&crawl.path, &["verify", place]);
    assert!(
        refused.stderr.contains(remedy) && verified.stdout.contains(remedy),
        "{}",
        verified.stdout
    );
    fs::rename(
        crawl.path.join("0001-s00.checkpoint"),
        crawl.path.with_extension("checkpoint"),
    )
    .unwrap();
    let mended = again(&[]);
    assert_eq!(mended.code, Some(0), "{}", mended.stderr);
    assert!(crawl.records().keys().copied().eq(0..2_000));
}

/// Audit of a crawl, with the exit code of `verify --complete`.
fn audit(crawl: &Crawl) -> (Option<i32>, Value) {
    let said = call(
        crawl.path.parent().unwrap(),
        &["verify", "items", "--complete", "--json"],
    );
    (said.code, serde_json::from_str(&said.stdout).unwrap())
}

#[test]
fn what_failed_or_was_abandoned_is_asked_for_again_until_it_is_good() {
    let target = Target::start("--processes 1 --fault error:0.3:500");
    let crawl = Crawl::new();
    let first = crawl
        .session(&format!("{} -n 300 -c 4 -s 1 --retries 0", target.url()))
        .end()
        .report(0);
    let good = first.count("/ledger/ok");
    assert!((1..300).contains(&good), "{good}");
    assert_eq!(first.count("/saved/saved"), good);
    let (code, left) = audit(&crawl);
    assert_eq!(
        (code, &left["recorded"], &left["finished"]),
        (Some(4), &json!(300), &json!(good))
    );
    let place = crawl.path.to_str().unwrap();
    let asked = requests(&target);
    for retry in ["none", "abandoned"] {
        assert_eq!(
            call(
                crawl.path.parent().unwrap(),
                &["run", "--resume", place, "--retry", retry]
            )
            .code,
            Some(0)
        );
    }
    assert_eq!(requests(&target), asked);
    wait_for("the last item", || {
        let ended = crawl.session("").end();
        // Of few items, none may be good.
        assert!(
            [Some(0), Some(1)].contains(&ended.code()),
            "{}",
            ended.stderr()
        );
        (audit(&crawl).0 == Some(0)).then_some(())
    });
    let exported = call(
        crawl.path.parent().unwrap(),
        &["export", "items", "--to", "jsonl", "--out", "-"],
    );
    let records = exported
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let records: BTreeMap<u64, Value> = records
        .map(|record| (record["id"].as_u64().unwrap(), record))
        .collect();
    assert_eq!((records.len(), exported.stdout.lines().count()), (300, 300));
    assert!(records.values().all(|record| record["outcome"] == "ok"));
}

#[test]
fn a_saved_crawl_drops_no_item_that_is_throttled() {
    let target = Target::start("--processes 1 --limit bucket:200/s:burst=5");
    let crawl = Crawl::new();
    let ended = crawl
        .session(&format!(
            "{} -n 300 -c 64 -s 1 --retry-budget 0",
            target.url()
        ))
        .end();
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr());
    let (code, audit) = audit(&crawl);
    assert_eq!(
        (code, &audit["finished"]),
        (Some(0), &json!(300)),
        "{audit}"
    );
    assert!(requests(&target) > 300, "nothing was throttled");
}

#[test]
fn a_limit_on_file_sizes_is_an_error_that_names_the_file() {
    let target = Target::start("--processes 1");
    let crawl = Crawl::new();
    let place = crawl.path.to_str().unwrap();
    let words = r#"ulimit -f 16; exec "$0" run "$1" -n 20000 -c 16 -s 1 --no-pin --quiet --save "$2" --out "$2.out""#;
    let ended = Command::new("bash")
        .args([
            "-c",
            words,
            program().to_str().unwrap(),
            &target.url(),
            place,
        ])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(
        ended.status.code().is_some_and(|code| code < 128),
        "{:?}: {said}",
        ended.status
    );
    assert!(
        said.contains("0001-s00") && said.contains("File too large"),
        "{said}"
    );
}

#[test]
fn a_directory_that_cannot_be_used_is_refused_with_a_reason() {
    let target = Target::start("--processes 1 --latency 5ms");
    let crawl = Crawl::new();
    let place = crawl.path.to_str().unwrap();
    let refused = |words: &[&str], why: &str| {
        let ended = Run::start(words).end();
        assert_eq!(ended.code(), Some(2), "{words:?}: {}", ended.stderr());
        assert!(
            ended.stderr().contains(why),
            "{words:?}: {}",
            ended.stderr()
        );
    };
    refused(&["--resume", place], "holds no saved crawl");
    let url = target.url();
    let run = crawl.session(&format!(
        "{url} --ids 0..100k -c 2 --shards 1 -H x-key:secret"
    ));
    wait_for("the crawl", || {
        crawl.path.join("crawl.json").exists().then_some(())
    });
    refused(
        &["--resume", place, "-H", "x-key:secret"],
        "another process",
    );
    run.signal(Signal::SIGINT);
    let ended = run.end();
    ended.wait_for_its_processes();
    refused(&[&url, "--save", place], "it holds a saved crawl");
    refused(&["--resume", place], "--header 'x-key: ...'");
    refused(
        &["--resume", place, "-H", "x-key:secret", "--ids", "0..7"],
        "the range of IDs was 0..100000",
    );
    refused(
        &["--resume", place, "-H", "x-key:secret", "-m", "HEAD"],
        "method was GET",
    );
    refused(&["--resume", place, "--save-bodies", "all"], "--save");
    assert!(
        !fs::read_to_string(crawl.path.join("crawl.json"))
            .unwrap()
            .contains("secret")
    );
}
