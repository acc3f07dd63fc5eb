//! Saved crawls: `verify` finds every fault, `export` loses nothing, and the formats' own readers
//! agree.
//!
//! The crawls here are made record by record, without a run, so that each can be damaged in a way
//! that is known. The readers are those of `tests/consumers/read_crawl.py`; see `export` for where
//! they come from.

use std::fs;
use std::ops::Range;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crawlmark::crawl::Shuffle;
use crawlmark::dataset::item_set::ItemSet;
use crawlmark::dataset::manifest::{
    self, Bodies, Durability, Fields, LastingSettings, Manifest, Saved, ShuffledRange,
};
use crawlmark::dataset::records::{RecordedItem, Records};
use crawlmark::dataset::segment::{self, Header, SegmentEncoder, SegmentName};
use crawlmark_harness::plan::WorkloadSettings;
use crawlmark_harness::units::IdRange;
use crawlmark_results::run::report::CommandLine;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::command::{Done, call_line};
use crate::export::have_read;
use crate::report::holds;

const IDS: Range<u64> = 10..250;

/// Writer of the first segment.
const FIRST: SegmentName = SegmentName {
    session: 1,
    shard: 0,
    life: 0,
};
/// Writer of the second segment.
const SECOND: SegmentName = SegmentName {
    session: 2,
    shard: 0,
    life: 0,
};

/// A crawl in `crawl` of a directory of its own.
struct SavedCrawl {
    folder: TempDir,
    manifest: Manifest,
}

/// A segment that is being made.
struct SavedSegment {
    name: SegmentName,
    bytes: Vec<u8>,
    encoder: SegmentEncoder,
}

/// Record of an item: of each kind of body, one in seven.
fn record(id: u64) -> Value {
    let at = format!("2026-11-24T03:12:{:02}.{:06}Z", id % 60, id);
    let head = json!({"id": id, "status": 200, "outcome": "ok", "attempts": 1 + id % 2, "at": at, "latency_us": 100 + id});
    let with = |content_type: &str, bytes: &[u8], body: Value| {
        let digest = format!("{:x}", Sha256::digest(bytes));
        let more = json!({"content_type": content_type, "digest": digest[..32], "body": body});
        merged(&head, &more)
    };
    match id % 7 {
        0 => merged(
            &json!({"id": id, "outcome": "not_found", "attempts": 3, "at": at}),
            &json!({}),
        ),
        1 => with(
            "text/plain",
            b"one, \"two\"\r\nthree",
            json!("one, \"two\"\r\nthree"),
        ),
        2 => merged(
            &with(
                "image/png",
                &[0, 255, 1, 254],
                json!(STANDARD.encode([0, 255, 1, 254])),
            ),
            &json!({"body_encoding": "base64"}),
        ),
        3 => merged(
            &with("application/json", b"{\"cut", json!("{\"cut")),
            &json!({"body_bytes": 1_000_000}),
        ),
        4 => merged(
            &with(
                "text/html; charset=\"utf-8\"",
                "ü\t".as_bytes(),
                json!("ü\t"),
            ),
            &json!({"url": "http://h/else"}),
        ),
        _ => {
            let body =
                json!({"id": id, "name": format!("item {id}"), "tags": [1.5, null, true, "a\nb"]});
            with("application/json", body.to_string().as_bytes(), body)
        }
    }
}

fn merged(one: &Value, other: &Value) -> Value {
    let members = [one, other]
        .into_iter()
        .flat_map(|value| value.as_object().unwrap().clone());
    Value::Object(members.collect())
}

impl SavedCrawl {
    /// Create a crawl without a segment.
    fn new(shuffle: Option<ShuffledRange>) -> Self {
        let saved = Saved {
            fields: Fields::default(),
            bodies: Bodies::Good,
            max_body: 1 << 20,
            durability: Durability::Process,
            mode: crawlmark_harness::files::PRIVATE,
        };
        let manifest = Manifest {
            format: manifest::FORMAT.to_owned(),
            tool: "crawlmark 0.1.0".to_owned(),
            created: "2026-11-24T03:12:00Z".to_owned(),
            plan: "0123456789abcdef".to_owned(),
            target: "http://127.0.0.1:8080/items/{id}".to_owned(),
            ids: IdRange {
                start: IDS.start,
                end: IDS.end,
            },
            shuffle,
            saved,
            workload: LastingSettings {
                settings: WorkloadSettings {
                    as_typed: [("id_format".to_owned(), "width=4".to_owned())].into(),
                    ..WorkloadSettings::default()
                },
                ..LastingSettings::default()
            },
            command: CommandLine::default(),
            refreshes: Vec::new(),
        };
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("crawl")).unwrap();
        manifest.write(&folder.path().join("crawl")).unwrap();
        Self { folder, manifest }
    }

    /// Create a whole crawl of two sessions, the first of which was killed within a frame.
    fn whole() -> Self {
        let crawl = Self::new(None);
        let mut first = crawl.segment(FIRST);
        first.frame(10..60).frame(60..100).frame(100..110);
        first.bytes.pop();
        crawl.save(&first);
        let mut second = crawl.segment(SECOND);
        second.frame(100..200).frame(200..250).close();
        crawl.save(&second);
        crawl
    }

    fn segment(&self, name: SegmentName) -> SavedSegment {
        let header = Header {
            format: segment::FORMAT.to_owned(),
            tool: self.manifest.tool.clone(),
            plan: self.manifest.plan.clone(),
            name,
            fields: self.manifest.saved.fields,
        };
        let mut bytes = Vec::new();
        let encoder = SegmentEncoder::begin(&header, &mut bytes).unwrap();
        SavedSegment {
            name,
            bytes,
            encoder,
        }
    }

    fn save(&self, segment: &SavedSegment) {
        fs::write(self.path(&segment.name.segment()), &segment.bytes).unwrap();
    }

    /// Path of one of its files.
    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join("crawl").join(file)
    }

    fn call(&self, line: &str) -> Done {
        call_line(self.folder.path(), line)
    }

    /// Output of an export to standard output.
    #[track_caller]
    fn exported(&self) -> String {
        let said = self.call("export crawl");
        assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""));
        said.stdout
    }

    /// Expect violations.
    #[track_caller]
    fn assert_violates(&self) {
        let said = self.call("verify crawl --json").code(&[4]);
        assert_ne!(said.printed()["violations"], json!([]));
    }
}

impl SavedSegment {
    fn frame(&mut self, ids: Range<u64>) -> &mut Self {
        let items: Vec<(u64, Value)> = ids.map(|id| (id, record(id))).collect();
        self.records(&items)
    }

    /// Append a frame with the records of these items.
    fn records(&mut self, items: &[(u64, Value)]) -> &mut Self {
        self.indexed(items, |_| {})
    }

    /// Append a frame with the records of these items, whose index is changed.
    fn indexed(&mut self, items: &[(u64, Value)], change: impl FnOnce(&mut Records)) -> &mut Self {
        let lines: Vec<String> = items.iter().map(|(_, record)| record.to_string()).collect();
        let mut records = Records::default();
        for (item, record) in items {
            let at = humantime::parse_rfc3339(record["at"].as_str().unwrap()).unwrap();
            let at = at
                .duration_since(std::time::UNIX_EPOCH)
                .unwrap()
                .as_micros();
            records.add(&RecordedItem {
                item: *item,
                outcome: record["outcome"].as_str().unwrap(),
                attempts: u32::try_from(record["attempts"].as_u64().unwrap()).unwrap(),
                at_us: Some(u64::try_from(at).unwrap()),
                latency_us: record["latency_us"].as_u64(),
            });
        }
        change(&mut records);
        let lines = lines.join("\n") + "\n";
        self.encoder
            .frame(lines.as_bytes(), records, &mut self.bytes)
            .unwrap();
        self
    }

    /// Write the end.
    fn close(&mut self) -> &mut Self {
        self.encoder.end(&mut self.bytes).unwrap();
        self
    }
}

#[test]
fn a_whole_crawl_has_no_violation_and_a_stopped_one_says_what_is_left() {
    let crawl = SavedCrawl::whole();
    let said = crawl.call("verify crawl --complete --json");
    let audit: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(
        (said.code, &audit["violations"], &audit["complete"]),
        (Some(0), &json!([]), &json!(true)),
        "{audit}"
    );
    let missing = IDS.filter(|id| id % 7 == 0).count();
    assert_eq!(
        audit["outcomes"],
        json!({"ok": 240 - missing, "not_found": missing})
    );
    assert_eq!(
        (&audit["finished"], &audit["bodies_checked"]),
        (&json!(240), &json!(240 - missing))
    );
    let notes = audit["notes"].to_string();
    assert!(
        notes.contains("0001-s00.jsonl.zst: it ends within the frame at byte "),
        "{notes}"
    );

    fs::remove_file(crawl.path(&SECOND.segment())).unwrap();
    crawl.call("verify crawl").code(&[0]);
    let audit = crawl
        .call("verify crawl --complete --json")
        .code(&[4])
        .printed();
    holds(
        &audit,
        &json!({"/complete": false, "/finished": 90, "/violations": []}),
    );
}

#[test]
fn each_fault_is_found_with_its_place() {
    for (id, change) in [
        (12, json!({})),
        (250, json!({})),
        (22, json!({"body": "other"})),
        (22, json!({"digest": null})),
        (22, json!({"id": "22"})),
        (30, json!({"body": "***"})),
    ] {
        let crawl = SavedCrawl::new(None);
        let mut segment = crawl.segment(FIRST);
        let record = merged(&record(id), &change);
        crawl.save(segment.frame(10..20).records(&[(id, record)]).close());
        crawl.assert_violates();
    }

    let segment = "0002-s00.jsonl.zst";
    let crawl = SavedCrawl::whole();
    let bytes = fs::read(crawl.path(segment)).unwrap();
    fs::write(crawl.path(segment), [&bytes[..], b"more"].concat()).unwrap();
    crawl.assert_violates();
    // A segment under the name of another.
    let mut copied = crawl.segment(FIRST);
    copied.frame(200..250).close();
    fs::write(crawl.path(segment), &copied.bytes).unwrap();
    crawl.assert_violates();

    // Indexes that do not count what their frames hold.
    let faults: [fn(&mut Records); 4] = [
        |records| records.attempts += 1,
        |records| records.at_us = None,
        |records| records.finished = ItemSet::default(),
        |records| records.outcomes.clear(),
    ];
    for fault in faults {
        let mut second = crawl.segment(SECOND);
        let items: Vec<(u64, Value)> = (200..250).map(|id| (id, record(id))).collect();
        second.frame(100..200).indexed(&items, fault).close();
        crawl.save(&second);
        crawl.assert_violates();
    }
    // Items of a shuffled crawl are audited by their order.
    let range = IdRange {
        start: 0,
        end: 1_000,
    };
    let shuffle = Shuffle::new(range, 7);
    let crawl = SavedCrawl::new(Some(ShuffledRange { range, seed: 7 }));
    let items = |items: Range<u64>| -> Vec<(u64, Value)> {
        items.map(|item| (item, record(shuffle.id(item)))).collect()
    };
    crawl.save(crawl.segment(FIRST).records(&items(IDS)).close());
    assert_eq!(crawl.call("verify crawl").code, Some(0));
    crawl.save(
        crawl
            .segment(FIRST)
            .records(&items(IDS))
            .records(&items(0..1))
            .close(),
    );
    crawl.assert_violates();
}

#[test]
fn an_export_holds_every_record_until_one_is_damaged() {
    let crawl = SavedCrawl::whole();
    let records: Vec<Value> = crawl
        .exported()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(records, IDS.map(record).collect::<Vec<_>>());
    let place = crawl.path(&SECOND.segment());
    let mut damaged = fs::read(&place).unwrap();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    fs::write(&place, damaged).unwrap();
    crawl.call("export crawl").code(&[1]);
}

#[test]
#[ignore = "needs the readers of the exports: .ci/run"]
fn readers_of_the_formats_agree_with_the_segments_and_each_export() {
    let crawl = SavedCrawl::whole();
    fs::write(crawl.folder.path().join("crawl.jsonl"), crawl.exported()).unwrap();
    // The frame in which the process was killed is no part of the crawl: readers of the segments
    // fail at it until --resume removes it.
    let mut first = crawl.segment(FIRST);
    first.frame(10..60).frame(60..100);
    crawl.save(&first);
    have_read("read_crawl.py", crawl.folder.path());
}
