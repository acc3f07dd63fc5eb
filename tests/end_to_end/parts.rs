//! A crawl in parts, each a process that knows the others only by their shared directory; some are
//! killed, and some come back late.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use crawlmark_results::run::parts::PlanFile;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::command::{Done, Started, json as json_file, program, run, said, start};
use crate::process::{children, signal, wait_for, working_in};
use crate::report::{Report, holds};
use crate::run::crawl;
use crate::scripted::{Peer, with_server};
use crate::stubs;
use crate::target::Target;

/// A crawl in parts, in a directory of its own.
struct Parts {
    home: tempfile::TempDir,
    nodes: u32,
}

impl Parts {
    /// Makes the plan of a crawl of `url`.
    fn plan(url: &str, nodes: u32, flags: &str) -> Self {
        let parts = Self {
            home: tempfile::tempdir().unwrap(),
            nodes,
        };
        let plan = parts.plan_file();
        run(&format!("plan {url} --nodes {nodes} --out {plan} {flags}")).code(&[0]);
        parts
    }

    fn path(&self, name: &str) -> String {
        self.home.path().join(name).display().to_string()
    }

    fn plan_file(&self) -> String {
        self.path("plan.json")
    }

    /// The directory that all parts share.
    fn directory(&self) -> PathBuf {
        self.home.path().join("crawl")
    }

    /// Starts an attempt at a part.
    fn start(&self, part: u32) -> Started {
        let (plan, into, nodes) = (self.plan_file(), self.path("crawl"), self.nodes);
        let node = format!("{part}/{nodes}");
        start(&format!(
            "run --plan {plan} --node {node} --into {into} --no-progress"
        ))
    }

    fn merge(&self) -> Done {
        run(&format!("merge {} --out out --quiet", self.path("crawl")))
    }

    fn merged(&self) -> Report {
        let done = self.merge().code(&[0]);
        let summary = fs::read_to_string(done.out().join("summary.md")).unwrap();
        assert!(summary.contains("\n## Parts\n"), "{summary}");
        let report = Report::read(&done.out().join("result.json"));
        assert!(report.count("/totals/peak_in_flight") <= report.count("/plan/connections"));
        report
    }

    fn result(&self, part: u32) -> PathBuf {
        self.directory().join(format!("part-{part:05}/RESULT"))
    }

    /// The length of all segments of the part's attempts.
    fn segments(&self, part: u32) -> u64 {
        let attempts = fs::read_dir(self.directory().join(format!("part-{part:05}")))
            .into_iter()
            .flatten()
            .flatten();
        let saved = attempts
            .filter_map(|attempt| fs::read_dir(attempt.path().join("items")).ok())
            .flatten()
            .flatten();
        saved
            .filter(|file| {
                file.path()
                    .extension()
                    .is_some_and(|extension| extension == "zst")
            })
            .map(|file| file.metadata().map_or(0, |data| data.len()))
            .sum()
    }

    /// The directory of the only attempt at a part.
    fn only_attempt(&self, part: u32) -> Option<PathBuf> {
        let attempts = fs::read_dir(self.directory().join(format!("part-{part:05}"))).ok()?;
        let mut attempts = attempts.flatten().map(|attempt| attempt.path());
        attempts.find(|path| path.is_dir())
    }

    /// The record of the only attempt at a part.
    fn attempt(&self, part: u32) -> Option<PathBuf> {
        Some(self.only_attempt(part)?.join("attempt.json"))
    }

    /// The last status of the only attempt at a part.
    fn status(&self, part: u32) -> Option<Value> {
        let status = fs::read_to_string(self.only_attempt(part)?.join("status.json")).ok()?;
        serde_json::from_str(&status).ok()
    }

    /// The names of the slots' files, sorted; none before they are made.
    fn slots(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.directory().join("slots")) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort_unstable();
        names
    }
}

/// Sends a signal to all processes of an attempt, as a scheduler does.
fn to_all(attempt: &Started, number: Signal) {
    for pid in working_in(&attempt.work()) {
        signal(pid, number);
    }
}

/// True if the file of a slot names no holder.
fn is_free(slot: &str) -> bool {
    slot.rsplit('.').next() == Some("free")
}

fn count(ledger: &Value, pointer: &str) -> u64 {
    ledger.pointer(pointer).and_then(Value::as_u64).unwrap()
}

#[test]
fn a_killed_and_a_stopped_part_lose_their_slots_and_the_budget_is_kept() {
    const IDS: u64 = 6_400;
    const RATE: u64 = 400;
    const BURST: u64 = 40;
    let target = Target::start("--processes 1");
    // A part takes 16 s: a zombie without a lease would send for seconds beside the attempt that
    // has taken its slot after 12 s.
    let flags = format!("--ids 0..{IDS} --rate {RATE} --burst {BURST} --slots 2 -c 16 --shards 2");
    let parts = Parts::plan(&target.url(), 2, &flags);
    let (killed, zombie) = (parts.start(0), parts.start(1));
    target.wait_for_requests(RATE);
    // Its shards go on until the lease ends.
    signal(zombie.pid(), Signal::SIGSTOP);
    let work = killed.work();
    to_all(&killed, Signal::SIGKILL);
    wait_for("the end of what was killed", || {
        working_in(&work).is_empty().then_some(())
    });
    assert_eq!(killed.end().code, None);
    // All slots are taken, and are not freed.
    let others: Vec<Started> = (0..2).map(|part| parts.start(part)).collect();
    wait_for("the result of the zombie's part", || {
        parts.result(1).exists().then_some(())
    });
    to_all(&zombie, Signal::SIGCONT);
    zombie.end().code(&[0]);
    for part in others {
        part.end().code(&[0]);
    }
    assert!(
        parts.slots().iter().all(|slot| is_free(slot)),
        "{:?}",
        parts.slots()
    );

    let report = parts.merged();
    report.assert_states(&[("ok", IDS)]);
    let ledger = target.ledger();
    assert_eq!(ledger["unique_ids"], json!(IDS));
    let busiest = count(&ledger, "/busiest/1s/requests");
    // A busy machine delivers together what was sent 1/3 s apart; two attempts on one slot would
    // send RATE / 2 more.
    let late = RATE / 3;
    assert!(
        busiest <= RATE + BURST + late,
        "{busiest} requests in a second"
    );
    assert_eq!(report.count("/merged/other_attempts"), 2);
    assert_eq!(
        [
            report.count("/merged/died_attempts"),
            report.count("/merged/uncounted_attempts")
        ],
        [1, 0]
    );
    let additional = report.count("/merged/additional_requests");
    assert!(additional >= RATE, "{:?}", report.json()["merged"]);
    // A shard counts a request right before it sends it, and may be killed in between.
    let counted = report.count("/totals/attempts_sent") + additional;
    let unsent = counted
        .checked_sub(count(&ledger, "/requests"))
        .expect("the target saw more than was counted");
    assert!(unsent <= 2, "{unsent} requests that the target did not see");
}

#[test]
fn each_part_has_its_share_of_every_stage_and_they_add_up() {
    let target = Target::start("--processes 1");
    let rate = "--ids 0..100k -c 16 --rate '41/s@1s, 41/s..201/s@500ms, 201/s@500ms'";
    let refused = format!("plan {} --nodes 2 --slots 1 {rate} --out one", target.url());
    run(&refused).code(&[2]);
    let parts = Parts::plan(&target.url(), 2, rate);
    for part in [0, 1].map(|part| parts.start(part)) {
        part.end().code(&[0]);
    }
    let report = parts.merged();
    let rows = report.at("/by_stage").as_array().unwrap().clone();
    let sent: Vec<u64> = rows
        .iter()
        .map(|row| row["attempts"].as_u64().unwrap())
        .collect();
    // As many as the rate allows, and one per shard at once at the start.
    let shards = 2 * report.count("/plan/shards");
    let most = [41, 61, 101].map(|due| due + shards);
    assert!(
        std::iter::zip(&sent, most).all(|(sent, most)| *sent <= most),
        "{sent:?}"
    );
    assert!(sent[2] > sent[0], "{sent:?}");
    assert_eq!(sent.iter().sum::<u64>(), report.count("/totals/attempts"));
    assert_eq!(report.at("/budget/kept"), true);
}

#[test]
fn a_part_goes_on_from_what_was_saved_and_all_parts_are_one_dataset() {
    const IDS: u64 = 2_400;
    let target = Target::start("--processes 1");
    let flags = format!("--ids 0..{IDS} --rate 600 -c 12 --shards 2 --save items --trace");
    let parts = Parts::plan(&target.url(), 3, &flags);
    let killed = parts.start(0);
    // Two shards, of which an empty segment takes less than half of that.
    wait_for("a commit", || (parts.segments(0) > 2_000).then_some(()));
    let work = killed.work();
    to_all(&killed, Signal::SIGKILL);
    wait_for("the end of what was killed", || {
        working_in(&work).is_empty().then_some(())
    });
    assert_eq!(killed.end().code, None);
    // Two slots are free; the other one is lost for the time of a lease.
    for part in [0, 1].map(|part| parts.start(part)) {
        part.end().code(&[0]);
    }
    parts.start(2).end().code(&[0]);
    let merged = parts.merge().code(&[0]);
    let report = Report::read(&merged.out().join("result.json"));
    let before = report.count("/finished_before");
    assert!(
        before > 0 && report.items("ok") + before == IDS,
        "{before} before"
    );
    let plan: Value = serde_json::from_slice(&fs::read(parts.plan_file()).unwrap()).unwrap();
    let run_of_traces = &plan["crawl"]["workload"]["trace_run"];
    report.holds(&json!({
        "/merged/other_attempts": 1, "/plan/workload/trace_run": run_of_traces,
    }));
    assert_eq!(target.ledger()["unique_ids"], json!(IDS));
    let into = parts.path("crawl");
    let audit = run(&format!("verify {into} --json")).code(&[0]).printed();
    holds(
        &audit,
        &json!({"/complete": true, "/recorded": IDS, "/parts": 3}),
    );
    let exported = run(&format!("export {into}")).code(&[0]).stdout;
    let records = exported
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut ids: Vec<u64> = records
        .map(|record| record["id"].as_u64().unwrap())
        .collect();
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..IDS));
    let out = merged.out();
    let again = parts.merge().code(&[0]);
    let refused = run(&format!(
        "compare {} {}",
        out.display(),
        again.out().display()
    ));
    assert!(refused.code(&[2]).stderr.contains("no basis for a verdict"));
    // No byte of a part can change unseen, but of `status.json`, on which no result depends.
    let result = parts.result(2);
    let attempt = parts.only_attempt(2).unwrap();
    let saved = fs::read_dir(attempt.join("items"))
        .unwrap()
        .map(|file| file.unwrap().path());
    let others = ["frames", "requests"].map(|name| attempt.join(name));
    let files = saved
        .chain(others)
        .chain([result.clone(), parts.directory().join("plan.json")]);
    let files: Vec<PathBuf> = files
        .filter(|path| fs::metadata(path).unwrap().len() > 0)
        .collect();
    assert!(files.len() >= 7, "{files:?}");
    for (n, path) in files.iter().enumerate() {
        let bytes = fs::read(path).unwrap();
        for place in [0, bytes.len() / 3 + n, bytes.len() - 2] {
            let mut flipped = bytes.clone();
            flipped[place] ^= 1 << (n % 8);
            fs::write(path, flipped).unwrap();
            let verified = run(&format!("verify {into}"));
            assert!(
                verified.code != Some(0),
                "{} {place}: {}",
                path.display(),
                verified.stdout
            );
        }
        fs::write(path, bytes).unwrap();
    }
    run(&format!("verify {into}")).code(&[0]);
    fs::remove_file(&result).unwrap();
    let said = run(&format!("verify {into}")).code(&[0]).stdout;
    assert!(
        said.contains("800 items left; 1 part without a result (2)."),
        "{said}"
    );
}

#[test]
fn exit_codes_say_what_a_scheduler_has_to_do() {
    let target = Target::start("--processes 1");
    let parts = Parts::plan(
        &target.url(),
        2,
        "--ids 0..400 -c 4 --shards 1 --rate 100 --strict",
    );
    // Made before its common start, and run long after it.
    let (mut late, _) = PlanFile::read(Path::new(&parts.plan_file())).unwrap();
    late.start_at = Some("2026-01-31T12:00:00Z".to_owned());
    fs::write(parts.plan_file(), late.text().unwrap()).unwrap();
    let (plan, into) = (parts.plan_file(), parts.path("crawl"));
    let other = Parts::plan(&target.url(), 2, "--ids 0..500 -c 4 --save items");
    let other = other.plan_file();
    let header = format!("--node 0/2 --header 'x-key: 1' {}", target.url());
    // Configuration: not to be retried.
    for (plan, args, says) in [
        (&*plan, "--node 0/3", "the plan has 2"),
        (&plan, "--node 0/2 --rate 7", "--rate differs from the plan"),
        (
            &plan,
            "--node 0/2 --arrivals poisson",
            "--arrivals differs from the plan",
        ),
        (&plan, &header, "--header differs from the plan"),
        (
            &plan,
            "--node 0/2 --compressed",
            "--compressed differs from the plan",
        ),
        (&plan, "--node 0/2 --shards 4", "--shards 4: a slot"),
        (&plan, "--node auto", "SLURM_ARRAY_TASK_ID"),
        (&other, "--node 0/2 --save=items", "--save <DIR>"),
        (&other, "--node 0/2", "the parts of another plan"),
    ] {
        // The directory has the parts of the first plan.
        let line = format!("run --plan {plan} --into {into} --quiet {args}");
        if says.contains("another plan") {
            fs::create_dir_all(&into).unwrap();
            fs::copy(parts.plan_file(), format!("{into}/plan.json")).unwrap();
        }
        let refused = run(&line).code(&[2]).stderr;
        assert!(refused.contains(says), "{says}: {refused}");
    }
    let attempts =
        |of: &Parts| fs::read_dir(of.directory().join("part-00000")).map_or(0, Iterator::count);
    assert_eq!(attempts(&parts), 0, "one that was refused is not lost");
    let dead = Parts::plan("http://127.0.0.1:1/{id}", 2, "--ids 0..400 -c 4 --quiet");
    let refused = dead.start(0).end().code(&[1]).stderr;
    assert!(refused.contains("failed to connect to "), "{refused}");
    assert_eq!(
        attempts(&dead),
        0,
        "nor is one whose target cannot be reached"
    );
    assert_eq!(target.requests(), 0);
    // Stopped by a signal, or without one of its shards: to be run again, and its slot is free at
    // once.
    let stopped = parts.start(0);
    target.wait_for_requests(20);
    stopped.signal(Signal::SIGINT);
    stopped.end().code(&[130]);
    let lost = parts.start(0);
    target.wait_for_requests(80);
    let mut shards = children(lost.pid()).into_iter();
    let shard = shards.find(|(_, name)| name.starts_with("crawlmark-s"));
    signal(shard.unwrap().0, Signal::SIGKILL);
    lost.end().code(&[1]);
    let sent = target.requests();
    let missing = parts.merge().code(&[1]).stderr;
    assert!(
        missing.contains("2 parts without a result (0, 1)"),
        "{missing}"
    );
    // The last one is done already: nothing is sent.
    for part in [0, 1, 1] {
        parts.start(part).end().code(&[0]);
    }
    assert_eq!(target.requests(), sent + 400);
    // Not valid, and the plan is strict.
    let merged = parts.merge().code(&[4]);
    let report = Report::read(&merged.out().join("result.json"));
    report.assert_states(&[("ok", 400)]);
    report.holds(&json!({"/merged/late_parts": 2, "/validity/verdict": "disturbed"}));
    // Seconds that cannot be read: damaged, or of another build.
    let attempt = json_file(&parts.result(0))["attempt"]
        .as_str()
        .unwrap()
        .to_owned();
    let frames = parts
        .directory()
        .join("part-00000")
        .join(attempt)
        .join("frames");
    let whole = fs::read(&frames).unwrap();
    fs::write(&frames, whole.iter().map(|byte| !byte).collect::<Vec<u8>>()).unwrap();
    let damaged = parts.merge().code(&[1]).stderr;
    assert!(damaged.contains("Restore it from a backup"), "{damaged}");
    let build = parts.home.path().join("crawlmark");
    fs::copy(program(), &build).unwrap();
    let file = fs::OpenOptions::new().append(true).open(&build);
    file.unwrap().write_all(b"another build").unwrap();
    let merge = || {
        let mut merge = Command::new(&build);
        merge
            .args(["merge", &into, "--quiet"])
            .current_dir(parts.home.path());
        said(merge)
    };
    let refused = merge();
    let remedy = "Merge with the program that made the plan";
    assert!(
        refused.code == Some(2) && refused.stderr.contains(remedy),
        "{}",
        refused.stderr
    );
    fs::write(&frames, whole).unwrap();
    assert_eq!(merge().code, Some(4), "what it can read, it merges");
}

#[test]
fn a_part_that_waits_survives_a_directory_that_fails() {
    let target = Target::start("--processes 1");
    let flags = "--ids 0..40 --rate 200 -c 4 --slots 1 --shards 1";
    let parts = Parts::plan(&target.url(), 2, flags);
    let (slots, away) = (
        parts.directory().join("slots"),
        parts.home.path().join("away"),
    );
    fs::create_dir_all(&slots).unwrap();
    // Of an attempt that was killed long ago.
    fs::write(slots.join("slot-00000.0000000005.other"), "").unwrap();
    let part = parts.start(0);
    let says = |text: &str| wait_for(text, || part.stderr().contains(text).then_some(()));
    says("Part 0/2 waits for a slot: 1 of 1 are in use.\n");
    fs::rename(&slots, &away).unwrap();
    says("slots cannot be used: No such file or directory");
    let status = parts.status(0).unwrap();
    holds(&status, &json!({"/state": "waiting", "/slot": null}));
    assert_eq!(target.requests(), 0);
    // Not a file, and gone a moment later: the result cannot be published at first.
    std::os::unix::fs::symlink("nowhere", parts.result(0)).unwrap();
    fs::rename(&away, &slots).unwrap();
    wait_for("an attempt to publish", || {
        parts.attempt(0).filter(|file| file.exists())
    });
    fs::remove_file(parts.result(0)).unwrap();
    let said = part.end().code(&[0]).stderr;
    assert!(said.contains("Part 0/2 has slot 0/1."), "{said}");
    let slots = parts.slots();
    assert!(slots.len() == 1 && is_free(&slots[0]), "{slots:?}");
    parts.start(1).end().code(&[0]);
    parts.merged().assert_states(&[("ok", 40)]);
}

#[test]
fn a_part_pauses_while_its_lease_cannot_be_renewed_and_then_goes_on() {
    // More than the test waits for, however late it is: a signal ends the part.
    const IDS: u64 = 100_000;
    let target = Target::start("--processes 1");
    let flags = format!("--ids 0..{IDS} --rate 100 -c 2 --shards 1");
    let parts = Parts::plan(&target.url(), 1, &flags);
    // A link, so that it is replaced in one step.
    let (home, slots) = (parts.home.path(), parts.directory().join("slots"));
    let [good, bad, next] = ["good", "bad", "next"].map(|name| home.join(name));
    let lead_to = |place: &Path| {
        std::os::unix::fs::symlink(place, &next).unwrap();
        fs::rename(&next, &slots).unwrap();
    };
    fs::create_dir(parts.directory()).unwrap();
    fs::create_dir(&good).unwrap();
    fs::write(good.join("slot-00000.0000000000.free"), "").unwrap();
    lead_to(&good);
    let part = parts.start(0);
    target.wait_for_requests(20);
    // A file server that fails: not a directory.
    fs::write(&bad, "").unwrap();
    lead_to(&bad);
    wait_for("a second without a request", || {
        let status = parts.status(0)?;
        (count(&status, "/items") > 100 && count(&status, "/requests_per_s") == 0).then_some(())
    });
    let sent = target.requests();
    assert!(sent < IDS, "{sent} requests without a lease");
    lead_to(&good);
    target.wait_for_requests(sent + 21);
    part.signal(Signal::SIGINT);
    part.end().code(&[130]);
    let record = json_file(&parts.attempt(0).unwrap());
    let requests = target.requests();
    holds(
        &record,
        &json!({"/requests": requests, "/verdict": "disturbed", "/items/failed": 0}),
    );
    let attempt = parts.attempt(0).unwrap();
    let report = Report::read(&attempt.with_file_name("result").join("result.json"));
    assert!(!report.finding("lease_lapsed").is_null());
}

#[test]
fn ids_keep_the_leading_zeros_of_their_range_in_runs_parts_and_resumed_crawls() {
    let log = Mutex::new(Vec::new());
    let serve = |mut peer: Peer| {
        while let Some(path) = peer.request() {
            log.lock().unwrap().push(path);
            peer.send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        }
    };
    let sent = || {
        let mut paths = std::mem::take(&mut *log.lock().unwrap());
        paths.sort();
        paths.dedup();
        paths
    };
    let paths = |ids: std::ops::Range<u64>| ids.map(|id| format!("/a/{id:04}")).collect::<Vec<_>>();
    with_server(serve, |address| {
        let url = format!("http://{address}/a/{{id}}");
        crawl(&format!("{url} --ids 0001..0100 -s 2 -c 2 --shuffle")).assert_states(&[("ok", 99)]);
        assert_eq!(sent(), paths(1..100));
        // A format that is typed goes first.
        let hex = "--id-format hex,width=2";
        crawl(&format!("{url} --ids 0009..=0010 {hex} -s 1 -c 1"));
        assert_eq!(sent(), ["/a/09", "/a/0a"]);
        let parts = Parts::plan(&url, 2, "--ids 0001..=0040 --rate 1k/s");
        for part in 0..2 {
            parts.start(part).end().code(&[0]);
        }
        assert_eq!(sent(), paths(1..41));
        let saved = parts.path("saved");
        let begun = crate::run::start(&format!(
            "{url} --ids 0001..0041 --save {saved} -s 1 -c 1 --rate 100/s --burst 1"
        ));
        wait_for("requests", || (log.lock().unwrap().len() > 3).then_some(()));
        signal(begun.pid(), Signal::SIGKILL);
        begun.end().wait_for_its_processes();
        crawl(&format!("--resume {saved} --rate 1k/s"));
        assert_eq!(sent(), paths(1..41));
    });
}

#[test]
fn a_run_and_its_merged_parts_name_the_header_of_the_slow_responses() {
    let answer = |cache: &str, ms: u64| json!({"headers": {"X-Cache": cache}, "body": "item", "fixedDelayMilliseconds": ms});
    let root = stubs::stubs(&json!([
        {"priority": 1, "request": {"urlPathPattern": "/items/[0-9]*[05]0"}, "response": answer("MISS", 150)},
        {"priority": 2, "request": {"urlPathPattern": "/items/[0-9]+"}, "response": answer("HIT", 0)},
    ]));
    let target = Target::start(&stubs::flags(&root, "--processes 1"));
    let flags = "--ids 0..4000 -c 8 --shards 2 --trait X-Cache";
    let whole = crawl(&format!("{} {flags}", target.url()));
    let parts = Parts::plan(&target.url(), 2, flags);
    for part in 0..2 {
        parts.start(part).end().code(&[0]);
    }
    let merged = parts.merged();
    for report in [whole, merged] {
        report.holds(&json!({
            "/traits/0/kind": "header", "/traits/0/name": "x-cache", "/traits/0/value": "MISS",
        }));
        report.finding("slowest_in_common");
        assert!(report.number("/traits/0/slow_share") > 0.9);
        assert!(report.number("/traits/0/others_share") < 0.05);
    }
}
