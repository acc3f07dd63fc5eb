//! Directories of parts: what the merge makes of them, and what it refuses.
#![expect(
    clippy::unwrap_used,
    reason = "a test whose directory cannot be made is over"
)]

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Component, Path};
use std::time::Duration;

use crawlmark_harness::clock::Nanos;
use crawlmark_harness::files::Root;
use crawlmark_harness::fixtures::{attempt_of, in_flight, plan};
use crawlmark_harness::plan::{RunPlan, ShardPlan};
use crawlmark_harness::process::FileCounters;
use crawlmark_harness::rehearse::{Rehearsal, rehearse};
use crawlmark_harness::sample::{Attempt, Outcome};
use crawlmark_harness::stats::ShardStats;
use crawlmark_harness::supervisor::parts::PartWriter;
use crawlmark_harness::units::{IdRange, Rate};
use crawlmark_harness::wire::EncodedStats;
use crawlmark_harness::workload::{Clearance, Flight, Workload};
use crawlmark_results::judge::Finding;
use crawlmark_results::run::parts::{
    AttemptRecord, ClockReading, Completeness, MergeError, PartsDirectory, PlanFile, merge,
};
use crawlmark_results::run::report::{
    Environment, IntervalRow, Labels, Placement, Report, RunFacts, Source, Verdict,
};
use crawlmark_results::run::result_dir::{LOG, ResultDir};
use proptest::prelude::*;
use serde_json::json;

/// Distinct seconds of a synthetic part.
const DISTINCT: u64 = 8;

/// A target whose times are spread over a decade.
struct Spread(crawlmark_harness::clock::Clock);

impl Workload for Spread {
    async fn perform(
        &self,
        id: u64,
        flight: &Flight,
        clearance: &impl Clearance,
        ended: &mut Attempt,
    ) -> Option<()> {
        let sent = clearance.wait().await?;
        flight.note(in_flight(sent, 100, 0));
        // Weyl's sequence, so that a second has many different times.
        let part = (id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 / f64::from(1 << 24);
        tokio::time::sleep(Duration::from_secs_f64(0.02 * 10_f64.powf(part))).await;
        // Timers have whole milliseconds, and times of a network any.
        let done = Nanos(self.0.now().0 - id.wrapping_mul(0xd1b5_4a32_d192_ed03) % 1_000_000);
        *ended = Attempt {
            bytes_sent: 100,
            bytes_received: 300,
            ..attempt_of(sent, done, Outcome::Ok)
        };
        Some(())
    }
}

/// A crawl of synthetic parts: each sends `per_s` requests in each of `seconds`, from so many
/// shards.
struct Synthetic {
    parts: u32,
    seconds: u64,
    per_s: u64,
    shards: u32,
}

impl Synthetic {
    fn plan(&self) -> RunPlan {
        let items = u64::from(self.parts) * self.seconds * self.per_s;
        RunPlan {
            connections: self.parts * self.shards * 4,
            ids: IdRange {
                start: 0,
                end: items,
            },
            rate: Some(Rate {
                permits: self.per_s * u64::from(self.parts),
                period_ns: 1_000_000_000,
            }),
            burst: u64::from(self.parts * self.shards),
            at_start: u64::from(self.parts * self.shards),
            ..plan()
        }
    }

    /// A rehearsal of one part for some seconds.
    fn rehearsal(&self) -> Rehearsal {
        let Self { per_s, shards, .. } = *self;
        let plan = RunPlan {
            shards,
            connections: shards * 16,
            ids: IdRange {
                start: 0,
                end: (DISTINCT + 3) * per_s,
            },
            rate: Some(Rate {
                permits: per_s,
                period_ns: 1_000_000_000,
            }),
            burst: shards.into(),
            at_start: shards.into(),
            ..plan()
        };
        rehearse(&plan, &[], |_: &ShardPlan, clock| Spread(clock)).unwrap()
    }

    /// Write the frames of a part to `path`, and return the number of its requests.
    fn frames(&self, path: &Path) -> u64 {
        let Rehearsal {
            mut record,
            intervals,
            ..
        } = self.rehearsal();
        let mut writer = PartWriter::new(BufWriter::new(File::create(path).unwrap()));
        let mut stats = ShardStats::new(intervals[0].merged.bounds());
        for second in 0..self.seconds {
            let mut interval = intervals[usize::try_from(1 + second % DISTINCT).unwrap()].clone();
            interval.figures.index = second;
            stats.merge(&interval.merged);
            writer.second(&interval).unwrap();
        }
        let requests = stats.counters.requests.attempts;
        record.shards.truncate(1);
        record.shards[0].stats = EncodedStats::of(&stats).unwrap();
        record.shards[0].remaining = 0;
        record.shards[0].ids = vec![IdRange {
            start: 0,
            end: stats.counters.items.begun(),
        }];
        record.shards[0].last_sent = record.shards[0]
            .last_sent
            .max(record.start.plus(Duration::from_secs(self.seconds)));
        record.shards[0].last_done = record.start.plus(Duration::from_secs(self.seconds));
        writer.end(&record).unwrap();
        requests
    }

    /// Write the directory of a crawl whose parts are all the same.
    fn write(&self, place: &Path) -> PlanFile {
        let directory = PartsDirectory::at(place);
        let mut plan = PlanFile::new(self.plan(), self.parts, self.parts);
        (plan.run_id, plan.program) = ("synthetic".to_owned(), "none".to_owned());
        plan.command.arguments = ["crawlmark", "run", "http://127.0.0.1:1/{id}"]
            .map(str::to_owned)
            .into();
        fs::write(directory.plan(), plan.text().unwrap()).unwrap();
        let (plan, _) = PlanFile::read(&directory.plan()).unwrap();
        let valid = valid();
        let shared = place.join("frames");
        let requests = self.frames(&shared);
        for part in 0..self.parts {
            let attempt = format!("a-{part}");
            let own = directory.attempt(part, &attempt);
            fs::create_dir_all(&own).unwrap();
            fs::hard_link(&shared, own.join(PartsDirectory::FRAMES)).unwrap();
            let record = self.record(&plan, (part, &attempt), requests, &valid);
            fs::write(own.join(PartsDirectory::ATTEMPT), record.text().unwrap()).unwrap();
            fs::hard_link(own.join(PartsDirectory::ATTEMPT), directory.result(part)).unwrap();
        }
        plan
    }

    fn record(
        &self,
        plan: &PlanFile,
        (part, attempt): (u32, &str),
        requests: u64,
        valid: &Report,
    ) -> AttemptRecord {
        const START_US: u64 = 1_700_000_000_000_000;
        AttemptRecord {
            plan: plan.digest().to_owned(),
            part,
            attempt: attempt.to_owned(),
            slot: part,
            host: format!("n{}", part % 3),
            started_at_us: START_US + u64::from(part % 5) * 1_000,
            finished_at_us: START_US + self.seconds * 1_000_000,
            clock: Some(ClockReading {
                ahead_us: 0,
                within_us: 2_000,
            }),
            clock_error_us: Some(700 + u64::from(part)),
            requests,
            ..AttemptRecord::of(valid, true)
        }
    }
}

/// A report that says nothing but that it is valid.
fn valid() -> Report {
    let plan = RunPlan {
        shards: 1,
        ids: IdRange { start: 0, end: 10 },
        ..plan()
    };
    let Rehearsal {
        record, intervals, ..
    } = rehearse(&plan, &[], |_: &ShardPlan, clock| Spread(clock)).unwrap();
    let (environment, labels) = (Environment::read(Placement::Apart), Labels::default());
    let intervals = intervals.iter().collect();
    let mut report = Report::new(Source {
        target: None,
        plan: &plan,
        labels: &labels,
        record: &record,
        intervals,
        environment,
        facts: RunFacts::default(),
    });
    (report.validity.verdict, report.findings) = (Verdict::Valid, Vec::new());
    report
}

fn merged(place: &Path, completeness: Completeness) -> Result<Report, MergeError> {
    merge(&PartsDirectory::at(place), completeness, &[], None)
}

/// The parts of an hour of 64 shards are merged as those of some seconds are;
/// `CRAWLMARK_PARTS=1000,3600,DIR` leaves such a crawl in DIR for `crawlmark merge DIR`.
#[test]
fn many_parts_add_up() {
    let of_hour = std::env::var("CRAWLMARK_PARTS").ok();
    let numbers: Vec<&str> = of_hour.iter().flat_map(|text| text.split(',')).collect();
    let home = tempfile::tempdir().unwrap();
    let (crawl, place) = match &*numbers {
        [parts, seconds, place] => {
            let crawl = Synthetic {
                parts: parts.parse().unwrap(),
                seconds: seconds.parse().unwrap(),
                per_s: 1_000,
                shards: 64,
            };
            (crawl, Path::new(*place))
        }
        _ => (
            Synthetic {
                parts: 70,
                seconds: 10,
                per_s: 50,
                shards: 4,
            },
            home.path(),
        ),
    };
    fs::create_dir_all(place).unwrap();
    crawl.write(place);
    if of_hour.is_some() {
        return;
    }
    let report = merged(place, Completeness::All).unwrap();
    let one = AttemptRecord::read(&PartsDirectory::at(place).result(0))
        .unwrap()
        .unwrap();
    assert_eq!(report.totals.attempts, one.requests * 70);
    assert_eq!(report.latency["service"].count % 70, 0);
    assert_eq!(report.intervals.len(), 10);
    assert_eq!(report.shards.len(), 70);
    let about = report.merged.as_ref().unwrap();
    assert!(about.is_clean());
    assert_eq!(
        (about.parts, about.machines, about.aligned_within_us),
        (70, 3, Some(6_000))
    );
    assert_eq!(about.clock_error_us, Some(769), "the largest");
    let rows: Vec<&IntervalRow> = report
        .intervals
        .iter()
        .filter(|row| row.counts.attempts > 0)
        .collect();
    assert!(rows.iter().all(|row| row.counts.attempts % 70 == 0));
}

#[test]
fn a_merged_result_has_the_log_of_its_parts() {
    let home = tempfile::tempdir().unwrap();
    let crawl = Synthetic {
        parts: 3,
        seconds: 3,
        per_s: 20,
        shards: 1,
    };
    crawl.write(home.path());
    let result = ResultDir::create(&home.path().join("merged")).unwrap();
    let log = Some(result.log().unwrap());
    let directory = PartsDirectory::at(home.path());
    let report = merge(&directory, Completeness::All, &[], log).unwrap();
    let place = result.finish(&report).unwrap();
    let log = fs::read_to_string(place.join(LOG)).unwrap();
    let lines = log.lines().filter(|line| line.contains(".service,"));
    // A line for each part and second.
    assert_eq!(lines.count(), 9, "{log}");
}

/// Change a part of a directory of three, and return what the merge says.
fn after(change: impl FnOnce(&PartsDirectory, &mut AttemptRecord)) -> Result<Report, String> {
    let home = tempfile::tempdir().unwrap();
    Synthetic {
        parts: 3,
        seconds: 2,
        per_s: 20,
        shards: 1,
    }
    .write(home.path());
    let directory = PartsDirectory::at(home.path());
    let mut record = AttemptRecord::read(&directory.result(1)).unwrap().unwrap();
    change(&directory, &mut record);
    if directory.result(1).exists() {
        fs::write(directory.result(1), record.text().unwrap()).unwrap();
    }
    merged(home.path(), Completeness::All).map_err(|error| error.to_string())
}

/// A change of a published attempt's record, or of its files.
type Change = fn(&PartsDirectory, &mut AttemptRecord);

#[test]
fn a_part_that_is_not_of_the_crawl_is_refused_by_its_file_and_field() {
    assert!(after(|_, _| {}).is_ok());
    let cases: [(Change, &str); 6] = [
        (
            |_, record| record.schema = "other".to_owned(),
            "its schema is `other`",
        ),
        (
            |_, record| record.plan = "other".to_owned(),
            "part-00001/RESULT: it is not a whole result of part 1 of this plan",
        ),
        (
            |_, record| record.part = 2,
            "it is not a whole result of part 1",
        ),
        (
            |_, record| record.whole = false,
            "it is not a whole result of part 1",
        ),
        (
            |_, record| record.attempt = "../a".to_owned(),
            "`../a` is not a name in its directory",
        ),
        (
            |directory, _| fs::write(directory.attempt(1, "a-1").join("frames"), "x").unwrap(),
            "/frames: it is cut short",
        ),
    ];
    for (change, says) in cases {
        let error = after(change).unwrap_err();
        assert!(error.contains(says), "{says}: {error}");
    }
    // Histograms of another geometry, which the timeout decides.
    let error = after(|directory, _| {
        let plan = RunPlan {
            timeout: Duration::from_mins(10),
            ids: IdRange { start: 0, end: 40 },
            ..plan()
        };
        let Rehearsal {
            record: run,
            intervals,
            ..
        } = rehearse(&plan, &[], |_: &ShardPlan, clock| Spread(clock)).unwrap();
        let mut writer = PartWriter::new(Vec::new());
        for interval in &intervals {
            writer.second(interval).unwrap();
        }
        let bytes = writer.end(&run).unwrap();
        let frames = directory.attempt(1, "a-1").join("frames");
        fs::remove_file(&frames).unwrap();
        fs::write(frames, bytes).unwrap();
    });
    assert!(
        error
            .as_ref()
            .is_err_and(|error| error.contains("a-1/frames: ")),
        "{error:?}"
    );
    let error = after(|directory, _| {
        let frames = directory.attempt(1, "a-1").join("frames");
        let mut bytes = fs::read(&frames).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::remove_file(&frames).unwrap();
        fs::write(frames, bytes).unwrap();
    });
    assert!(
        error
            .unwrap_err()
            .contains("a-1/frames: a frame's checksum"),
        "damaged"
    );
}

proptest! {
    #[test]
    fn names_of_a_forged_record_stay_in_its_directory(
        forged in prop::collection::vec(prop::collection::vec(
            prop::sample::select(&["..", "/", "a", ".", "-1", "\0", "\n", "~", "é", "/etc/passwd", "\\"][..]), 0..5,
        ), 3),
    ) {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("attempt.json");
        let forged: Vec<String> = forged.iter().map(|parts| parts.concat()).collect();
        let mut record = AttemptRecord::of(&valid(), true);
        record.attempt.clone_from(&forged[0]);
        record.saved = Some(forged[1].clone());
        record.files.insert(forged[2].clone(), 0);
        fs::write(&path, record.text().unwrap()).unwrap();
        let is_inside = |name: &String| {
            let mut parts = Path::new(name).components();
            matches!(parts.next(), Some(Component::Normal(part)) if part == name.as_str())
        };
        let is_read = matches!(AttemptRecord::read(&path), Ok(Some(_)));
        prop_assert!(!is_read || forged.iter().all(is_inside), "{:?}", forged);
        let harmless = |name: &String| !name.is_empty() && name.bytes().all(|byte| b"a-1".contains(&byte));
        prop_assert!(is_read || !forged.iter().all(harmless), "{:?}", forged);
    }
}

#[test]
fn missing_parts_and_other_attempts_are_named() {
    let home = tempfile::tempdir().unwrap();
    let crawl = Synthetic {
        parts: 4,
        seconds: 3,
        per_s: 20,
        shards: 1,
    };
    let plan = crawl.write(home.path());
    let directory = PartsDirectory::at(home.path());
    fs::remove_file(directory.result(2)).unwrap();
    let error = merged(home.path(), Completeness::All)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("1 part without a result (2). Run what is not running"),
        "{error}"
    );
    let per_part = AttemptRecord::read(&directory.result(0))
        .unwrap()
        .unwrap()
        .requests;
    // Beside those merged: the attempt of part 2, whose result is gone, one that was killed, and
    // one that wrote nothing.
    let killed = directory.attempt(0, "killed");
    fs::create_dir_all(&killed).unwrap();
    let whole = fs::read(directory.attempt(0, "a-0").join("frames")).unwrap();
    fs::write(killed.join("frames"), &whole[..whole.len() - 1]).unwrap();
    fs::create_dir_all(directory.attempt(1, "never-began")).unwrap();
    // Killed, too, in the middle of a second; its count tells them all.
    let counted = directory.attempt(3, "counted");
    fs::create_dir_all(&counted).unwrap();
    fs::write(counted.join("frames"), &whole[..whole.len() - 1]).unwrap();
    let requests =
        FileCounters::create(&Root::new(&counted), &counted.join("requests"), 1).unwrap();
    (0..per_part + 7).for_each(|_| requests.add(0));
    let report = merged(home.path(), Completeness::Partial).unwrap();
    let about = report.merged.unwrap();
    assert_eq!((about.missing, about.missing_parts), (vec![2], 1));
    assert_eq!(
        (
            about.other_attempts,
            about.died_attempts,
            about.uncounted_attempts
        ),
        (4, 3, 1)
    );
    assert_eq!(about.additional_requests, 3 * per_part + 7);
    assert_eq!(report.validity.verdict, Verdict::Incomplete);
    let others = |it: &Finding| matches!(it, Finding::OtherAttempts { attempts: 4, .. });
    assert!(report.findings.iter().any(others));
    assert!(
        matches!(report.findings[0], Finding::PartMissing { part: 2, .. }),
        "{:?}",
        report.findings
    );
    assert_eq!(report.ledger.not_attempted, plan.ids(2).len());
    fs::remove_dir_all(directory.part(2)).unwrap();
    let report = merged(home.path(), Completeness::Partial).unwrap();
    assert!(matches!(
        report.findings[0],
        Finding::PartMissing { part: 2, .. }
    ));
}

#[test]
fn groups_of_a_merged_result_have_the_names_of_its_parts() {
    let mut report = valid();
    report.by_host = serde_json::from_value(json!([{
        "host": 3, "name": "a:80", "attempts": 1, "ok": 1, "not_found": 0, "throttled": 0, "errors": 0,
        "p50_us": null, "p99_us": null,
    }]))
    .unwrap();
    let record = AttemptRecord::of(&report, true);
    let text = serde_json::to_string(&record).unwrap();
    let read: AttemptRecord = serde_json::from_str(&text).unwrap();
    assert_eq!(read.groups, report.by_host);
}

#[test]
fn parts_that_were_disturbed_where_they_ran_disturb_the_whole() {
    let home = tempfile::tempdir().unwrap();
    let crawl = Synthetic {
        parts: 2,
        seconds: 3,
        per_s: 20,
        shards: 1,
    };
    crawl.write(home.path());
    let result = PartsDirectory::at(home.path()).result(1);
    let mut record = AttemptRecord::read(&result).unwrap().unwrap();
    record.verdict = Verdict::Disturbed;
    fs::write(&result, record.text().unwrap()).unwrap();
    let report = merged(home.path(), Completeness::All).unwrap();
    assert_eq!(report.validity.verdict, Verdict::Disturbed);
    let judged =
        |it: &Finding| matches!(it, Finding::PartsJudged { parts, of: 2, .. } if parts[..] == [1]);
    assert!(report.findings.iter().any(judged), "{:?}", report.findings);
}
