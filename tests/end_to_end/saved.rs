//! Saved crawls (`--save`, `--resume`): killed at any moment, resumed, and whole in the end; full
//! disks; refusals.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::command::{Started, call_line, program};
use crate::lost::Disk;
use crate::process::{is_ended, signal, wait_for};
use crate::report::holds;
use crate::run::{ended, start};
use crate::scripted::{Peer, with_server};
use crate::target::Target;

/// Number of kills; `CRAWLMARK_KILLS` sets another one, as every night.
const KILLS: u64 = 25;

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
    fn session(&self, flags: &str) -> Started {
        let place = self.path.to_str().unwrap();
        if self.path.join("crawl.json").exists() {
            return start(&format!("--resume {place}"));
        }
        start(&format!("{flags} --save {place}"))
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

/// Kill a shard or the supervisor of a session once the target has had so many more requests. None
/// if the session ended before, else true if the session goes on.
fn kill(run: &Started, target: &Target, draw: &mut Draw, most: u64) -> Option<bool> {
    let enough = target.requests() + draw.below(most);
    wait_for("requests, or the end", || {
        (is_ended(run.pid()) || target.requests() >= enough).then_some(())
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
            if ended.code == Some(0) {
                break;
            }
            assert!(
                [None, Some(4)].contains(&ended.code),
                "{:?}: {}",
                ended.code,
                ended.stderr
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
        let asked = target.requests();
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
    let ended = ended(&begin);
    assert_eq!(ended.code, Some(4), "{}", ended.stderr);
    let said = ended.stderr;
    let place_of_it = said.contains("/items/0001-s0");
    assert!(
        place_of_it && said.contains("No space left") && said.contains("--resume"),
        "{said}"
    );
    disk.grow(64 << 20);
    let ended = self::ended(&format!("--resume {place}"));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let crawl = Crawl {
        _place: tempfile::tempdir().unwrap(),
        path: Path::new(place).to_owned(),
    };
    assert!(crawl.records().into_keys().eq(0..40_000));
}

#[test]
fn a_record_holds_the_response_as_its_flags_say() {
    let items: [(&str, &[u8]); 6] = [
        (
            "200 OK\r\ncontent-type: application/json",
            b"{\r\n \"a\": [1,\n2]}\n",
        ),
        ("200 OK\r\ncontent-type: image/png", b"\x89PNG\xff"),
        ("404 Not Found\r\ncontent-type: text/plain", b"none"),
        ("500 Oops", b"broken"),
        ("302 Found\r\nlocation: /other/1?token=hidden&x=2", b""),
        ("200 OK", b"0123456789"),
    ];
    let serve = |mut peer: Peer| {
        while let Some(path) = peer.request() {
            let id: usize = path.split(['/', '?']).nth(2).unwrap().parse().unwrap();
            let (start, body) = items[id];
            peer.send(&format!(
                "HTTP/1.1 {start}\r\ncontent-length: {}\r\n\r\n",
                body.len()
            ));
            peer.send_bytes(body);
        }
    };
    let saved = |flags: &str| -> Vec<Value> {
        let crawl = Crawl::new();
        with_server(serve, |address| {
            let flags = format!("-n 6 -c 1 -s 1 --retries 0 --follow 1 {flags}");
            let run = crawl.session(&format!("http://{address}/x/{{id}} {flags}"));
            assert_eq!(run.end().code, Some(0));
        });
        crawl.records().into_values().collect()
    };
    let all = saved("--save-bodies all --max-body 8");
    let mut missing = all[2].clone();
    for key in ["at", "latency_us"] {
        assert!(missing.as_object_mut().unwrap().remove(key).is_some());
    }
    let digest = "140bedbf9c3f6d56a9846d2ba7088798";
    assert_eq!(
        missing,
        json!({"id": 2, "status": 404, "outcome": "not_found", "attempts": 1,
            "content_type": "text/plain", "digest": digest, "body": "none"})
    );
    holds(
        &all[0],
        &json!({"/body": "{\r\n \"a\":", "/body_bytes": 17}),
    );
    holds(
        &all[1],
        &json!({"/body": "iVBOR/8=", "/body_encoding": "base64"}),
    );
    holds(&all[3], &json!({"/outcome": "rejected", "/body": "broken"}));
    let url = all[4]["url"].as_str().unwrap();
    assert!(
        url.ends_with("/other/1?token=...&x=2") && all[4]["attempts"] == 2,
        "{url}"
    );
    let good = saved("");
    assert_eq!(good[0]["body"], json!({"a": [1, 2]}));
    let has_body = |record: &Value| record.get("body").is_some();
    let expected = [true, true, false, false, true, true];
    assert!(good.iter().map(has_body).eq(expected), "{good:?}");
    assert!(!saved("--save-bodies none").iter().any(has_body));
}

#[test]
fn a_session_is_stopped_and_another_goes_on_with_other_flags() {
    let target = Target::start("--processes 1 --latency 1ms");
    let crawl = Crawl::new();
    let flags = "--ids 0..2k -c 8 --shards 2 --shuffle --save-fields status,at --trace";
    let run = crawl.session(&format!("{} {flags}", target.url()));
    target.wait_for_requests(500);
    run.signal(Signal::SIGINT);
    let saved = run.end().report(130).count("/saved/saved");
    assert!((1..2_000).contains(&saved), "{saved}");
    let resume = format!("--resume {}", crawl.path.display());
    let second = ended(&format!("{resume} --shards 1 -c 4")).report(0);
    second.holds(&json!({
        "/saved/saved": 2_000, "/saved/sessions/0/items": saved,
        "/saved/sessions/1/items": 2_000 - saved,
    }));
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
    let sent: u64 = (0..2)
        .map(|n| second.count(&format!("/saved/sessions/{n}/sent")))
        .sum();
    let asked = target.requests();
    assert!(
        (asked..=asked + 2).contains(&sent),
        "{sent} counted, {asked} at the target"
    );
    let again = |flags: &str| call_line(&crawl.path, &format!("run {resume} {flags}"));
    let done = again("");
    assert_eq!((done.code, &*done.stdout), (Some(0), ""));
    // Nothing is measured, so nothing passes.
    for flags in ["--json", "--strict", "--max-error-rate 1%", "--out again"] {
        let refused = again(flags);
        assert_eq!((refused.code, &*refused.stdout), (Some(2), ""), "{flags:?}");
        assert!(
            refused.stderr.contains("verify --complete"),
            "{}",
            refused.stderr
        );
    }
    assert_eq!(target.requests(), asked);
    // A flipped bit: `verify` gives the remedy, and `--resume` crawls the items of that frame again.
    let segment = crawl.path.join("0001-s00.jsonl.zst");
    let mut bytes = fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let verified = call_line(&crawl.path, "verify .");
    let remedy = "or run `crawlmark run --resume`, which keeps its whole frames";
    assert!(
        verified.code == Some(4) && verified.stdout.contains(remedy),
        "{}",
        verified.stdout
    );
    let mended = again("");
    assert_eq!(mended.code, Some(0), "{}", mended.stderr);
    assert!(
        mended.stderr.contains(": the frame at byte "),
        "{}",
        mended.stderr
    );
    assert_eq!(call_line(&crawl.path, "verify . --complete").code, Some(0));
    assert!(crawl.records().keys().copied().eq(0..2_000));
}

/// Items of a refresh; `CRAWLMARK_REFRESH` sets another number.
const REFRESHED: u64 = 2_000;

/// A server of items, whose first version has `ETag` for even and `Last-Modified` for odd ones.
#[derive(Default)]
struct Versions {
    /// Items that have changed.
    changed: Mutex<BTreeSet<u64>>,
    /// Items that are gone.
    gone: Mutex<BTreeSet<u64>>,
    /// Answers, by item and status.
    answered: Mutex<BTreeMap<(u64, u16), u64>>,
}

impl Versions {
    fn serve(&self, mut peer: Peer) {
        while let Some(head) = peer.head() {
            let id: u64 = head.split([' ', '/']).nth(3).unwrap().parse().unwrap();
            let is_changed = self.changed.lock().unwrap().contains(&id);
            let validator = match (id % 2, is_changed) {
                (0, false) => format!("etag: W/\"{id}-1\""),
                (0, true) => format!("etag: W/\"{id}-2\""),
                (_, false) => "last-modified: Tue, 24 Nov 2026 03:12:45 GMT".to_owned(),
                (_, true) => "last-modified: Wed, 25 Nov 2026 03:12:45 GMT".to_owned(),
            };
            let (name, value) = validator.split_once(": ").unwrap();
            let asks = ["if-modified-since", "if-none-match"][usize::from(name == "etag")];
            let (status, answer) = if self.gone.lock().unwrap().contains(&id) {
                (
                    404,
                    "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned(),
                )
            } else if head.contains(&format!("\r\n{asks}: {value}\r\n")) {
                (
                    304,
                    format!("HTTP/1.1 304 Not Modified\r\n{validator}\r\n\r\n"),
                )
            } else {
                let body = format!("{{\"id\":{id},\"version\":{}}}", u8::from(is_changed) + 1);
                let head = format!("{validator}\r\ncontent-type: application/json");
                let length = body.len();
                (
                    200,
                    format!("HTTP/1.1 200 OK\r\n{head}\r\ncontent-length: {length}\r\n\r\n{body}"),
                )
            };
            *self
                .answered
                .lock()
                .unwrap()
                .entry((id, status))
                .or_default() += 1;
            if !peer.try_send(&answer) {
                return;
            }
        }
    }

    /// Items that were answered with a status, since the last call for any of them.
    fn take(&self) -> BTreeMap<u16, BTreeSet<u64>> {
        let mut by_status = BTreeMap::<u16, BTreeSet<u64>>::new();
        for (id, status) in std::mem::take(&mut *self.answered.lock().unwrap()).into_keys() {
            by_status.entry(status).or_default().insert(id);
        }
        by_status
    }
}

#[test]
fn a_refresh_fetches_what_has_changed_and_keeps_the_rest() {
    let items =
        std::env::var("CRAWLMARK_REFRESH").map_or(REFRESHED, |items| items.parse().unwrap());
    let (served, crawl) = (Versions::default(), Crawl::new());
    let place = crawl.path.display();
    let exported = || {
        let lines = call_line(&crawl.path, "export .").code(&[0]).stdout;
        let records = lines
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let all: Vec<_> = records.map(|it| (it["id"].as_u64().unwrap(), it)).collect();
        let by_id: BTreeMap<u64, Value> = all.iter().cloned().collect();
        assert_eq!(by_id.len(), all.len(), "an ID is exported twice");
        by_id
    };
    let complete = || {
        let audit = call_line(&crawl.path, "verify . --complete --json").code(&[0]);
        holds(
            &audit.printed(),
            &json!({"/finished": items, "/violations_found": 0}),
        );
    };
    with_server(
        |peer| served.serve(peer),
        |address| {
            let url = format!("http://{address}/items/{{id}}");
            let first =
                ended(&format!("{url} --ids 0..{items} -c 8 -s 2 --save {place}")).report(0);
            assert!(!first.has_finding("not_modified"));
            assert_eq!(served.take().into_keys().collect::<Vec<_>>(), [200]);
            let before = exported();

            // Killed halfway, and gone on with.
            let changed: BTreeSet<u64> = (0..items).filter(|id| id % 33 == 7).collect();
            (*served.changed.lock().unwrap()).clone_from(&changed);
            let run = start(&format!("--refresh {place}"));
            wait_for("half of the answers", || {
                (served.answered.lock().unwrap().len() as u64 > items / 2).then_some(())
            });
            signal(run.pid(), Signal::SIGKILL);
            run.end().wait_for_its_processes();
            let resumed = ended(&format!("--resume {place}"));
            assert_eq!(resumed.code, Some(0), "{}", resumed.stderr);
            complete();
            let mut answers = served.take();
            assert_eq!(answers.remove(&200), Some(changed.clone()));
            let rest = (0..items).filter(|id| !changed.contains(id));
            assert_eq!(answers.remove(&304), Some(rest.collect()));
            let after = exported();
            for (id, record) in &after {
                let version = 1 + u64::from(changed.contains(id));
                assert_eq!(record["body"], json!({"id": id, "version": version}));
                assert!(version == 2 || *record == before[id], "{record}");
            }

            // Nothing has changed since but that an item is gone.
            served.gone.lock().unwrap().insert(3);
            let again = ended(&format!("--refresh {place}")).report(0);
            again.holds(&json!({
                "/totals/not_modified": items - 1, "/ledger/ok": items - 1, "/ledger/not_found": 1,
                "/saved/saved": items,
            }));
            assert!(again.has_finding("not_modified"));
            complete();
            let last = exported();
            assert_eq!(last.len() as u64, items);
            assert_eq!(last[&3]["outcome"], "not_found");
            assert!(
                last.iter()
                    .all(|(id, record)| *id == 3 || *record == after[id])
            );
        },
    );
}

#[test]
fn a_refresh_takes_a_304_that_is_to_be_retried_for_no_answer() {
    let (served, crawl, items) = (Versions::default(), Crawl::new(), 20);
    let place = crawl.path.display();
    let exported = || call_line(&crawl.path, "export .").code(&[0]).stdout;
    with_server(
        |peer| served.serve(peer),
        |address| {
            let flags = "-c 4 -s 1 --retry-on 304 --retries 1";
            let url = format!("http://{address}/items/{{id}}");
            ended(&format!("{url} --ids 0..{items} {flags} --save {place}")).report(0);
            let before = exported();
            served.take();
            let again = ended(&format!("--refresh {place}")).report(1);
            again.holds(&json!({"/totals/not_modified": 0, "/ledger/failed": items}));
            let answered = served.answered.lock().unwrap();
            assert_eq!(answered.len() as u64, items);
            assert!(answered.values().any(|times| *times > 1), "{answered:?}");
            assert_eq!(exported(), before, "the records that are there stay");
        },
    );
}

#[test]
fn what_cannot_ask_if_a_response_holds_is_not_refreshed() {
    let target = Target::start("--processes 1");
    for flags in ["-m HEAD", "-d 5s -H 'if-none-match: \"a\"'"] {
        let crawl = Crawl::new();
        let saved = crawl
            .session(&format!("{} -n 5 {flags}", target.url()))
            .end();
        assert_eq!(saved.code, Some(0), "{}", saved.stderr);
        let asked = target.requests();
        let refresh = format!(
            "--refresh {} {}",
            crawl.path.display(),
            flags.trim_start_matches("-d 5s")
        );
        assert_eq!(ended(&refresh).code, Some(2), "{flags}");
        assert_eq!(target.requests(), asked);
    }
}

#[test]
fn nothing_is_dropped_for_throttling() {
    let target = Target::start("--processes 1 --limit bucket:100/s:burst=5");
    let crawl = Crawl::new();
    let flags = "-n 60 -c 16 -s 1 --retry-budget 0";
    let ended = crawl.session(&format!("{} {flags}", target.url())).end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let audit = call_line(&crawl.path, "verify . --complete --json").code(&[0]);
    holds(&audit.printed(), &json!({"/finished": 60}));
    assert!(target.requests() > 60, "nothing was throttled");
}

#[test]
fn a_directory_that_cannot_be_used_is_refused_with_a_reason() {
    let target = Target::start("--processes 1 --latency 5ms");
    let crawl = Crawl::new();
    let (place, url) = (crawl.path.display(), target.url());
    let sent = format!("--resume {place} -H x-key:secret");
    let resume = format!("{url} {sent}");
    let refused = |line: &str, why: &str| {
        let ended = ended(line);
        assert_eq!(ended.code, Some(2), "{line}: {}", ended.stderr);
        assert!(ended.stderr.contains(why), "{line}: {}", ended.stderr);
    };
    refused(&format!("--resume {place}"), "holds no saved crawl");
    let run = crawl.session(&format!(
        "{url} --ids 0..100k -c 2 --shards 1 -H x-key:secret"
    ));
    wait_for("the crawl", || {
        crawl.path.join("crawl.json").exists().then_some(())
    });
    refused(&resume, "another process");
    // The writer of a pinned shard may use all CPUs of the run.
    let field = |status: &Path, name: &str| {
        let status = fs::read_to_string(status).unwrap();
        status
            .lines()
            .find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()))
            .unwrap()
    };
    let cpus = |status: &Path| field(status, "Cpus_allowed_list:");
    let all = cpus(Path::new(&format!("/proc/{}/status", run.pid())));
    let tasks = format!("/proc/{}/task", run.shard(0, 0));
    wait_for("a writer that is not pinned", || {
        let threads = fs::read_dir(&tasks).unwrap().flatten();
        let mut threads = threads.map(|task| task.path().join("status"));
        let writer = threads.find(|status| field(status, "Name:") == "writer")?;
        (cpus(&writer) == all).then_some(())
    });
    run.signal(Signal::SIGINT);
    run.end().wait_for_its_processes();
    refused(&format!("{url} --save {place}"), "it holds a saved crawl");
    refused(&format!("--resume {place}"), "--header 'x-key: ...'");
    refused(&sent, &url);
    // What was not typed is not to be left out.
    refused(&format!("{resume} --ids 0..7"), " --ids ");
    refused(&format!("{resume} -n 7"), " --items ");
    refused(&format!("{resume} -m HEAD"), " --method ");
    refused(&format!("{resume} --shuffle"), " --shuffle ");
    assert!(
        !fs::read_to_string(crawl.path.join("crawl.json"))
            .unwrap()
            .contains("secret")
    );
}
