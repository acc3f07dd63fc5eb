//! A crawl in parts, each a process that knows the others only by their shared directory; some are killed, and some come back late.
#![expect(clippy::unwrap_used, reason = "a test without its plan or its parts is over")]

use std::fs;
use std::path::PathBuf;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::command::{Done, Started};
use crate::process::{have_the_machine_alone, signal, wait_for, working_in};
use crate::report::Report;
use crate::target::Target;

/// A crawl in parts, in a directory of its own.
struct Parts {
    home: tempfile::TempDir,
    nodes: u32,
}

impl Parts {
    /// Makes the plan of a crawl of `target`.
    fn plan(target: &Target, nodes: u32, flags: &str) -> Self {
        let parts = Self { home: tempfile::tempdir().unwrap(), nodes };
        let (url, plan, nodes) = (target.url(), parts.plan_file(), nodes.to_string());
        let mut args = vec!["plan", &url, "--nodes", &nodes, "--out", &plan];
        args.extend(flags.split_whitespace());
        Started::new(&args).end().code(&[0]);
        parts
    }

    fn path(&self, name: &str) -> String {
        self.home.path().join(name).display().to_string()
    }

    fn plan_file(&self) -> String {
        self.path("plan.json")
    }

    /// The directory that all parts share.
    fn into(&self) -> PathBuf {
        self.home.path().join("crawl")
    }

    /// Starts an attempt at a part.
    fn start(&self, part: u32) -> Started {
        let node = format!("{part}/{}", self.nodes);
        Started::new(&["run", "--plan", &self.plan_file(), "--node", &node, "--into", &self.path("crawl"), "--quiet"])
    }

    fn merge(&self, flags: &[&str]) -> Done {
        let into = self.path("crawl");
        Started::new(&[&["merge", &into, "--out", "out", "--quiet"], flags].concat()).end()
    }

    fn merged(&self) -> Report {
        Report::read(&self.merge(&[]).code(&[0]).out().join("result.json"))
    }

    fn result(&self, part: u32) -> PathBuf {
        self.into().join(format!("part-{part:05}/RESULT"))
    }

    /// The names of the slots' files, sorted.
    fn slots(&self) -> Vec<String> {
        let entries = fs::read_dir(self.into().join("slots")).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
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

fn count(books: &Value, pointer: &str) -> u64 {
    books.pointer(pointer).and_then(Value::as_u64).unwrap()
}

#[test]
fn a_killed_and_a_stopped_part_lose_their_slots_and_the_budget_is_kept() {
    const IDS: u64 = 9_000;
    const RATE: u64 = 400;
    const BURST: u64 = 40;
    have_the_machine_alone();
    let target = Target::start("--processes 1");
    // A part takes longer than a lease.
    let flags = format!("--ids 0..{IDS} --rate {RATE} --burst {BURST} --slots 2 -c 16 --shards 2");
    let parts = Parts::plan(&target, 3, &flags);
    let (killed, zombie) = (parts.start(0), parts.start(1));
    target.wait_for_requests(RATE);
    // Its shards go on until the lease ends.
    signal(zombie.pid(), Signal::SIGSTOP);
    let work = killed.work();
    to_all(&killed, Signal::SIGKILL);
    wait_for("the end of what was killed", || working_in(&work).is_empty().then_some(()));
    assert_eq!(killed.end().code, None);
    // All slots are taken, and nobody frees them.
    let others: Vec<Started> = (0..3).map(|part| parts.start(part)).collect();
    wait_for("the result of the zombie's part", || parts.result(1).exists().then_some(()));
    to_all(&zombie, Signal::SIGCONT);
    zombie.end().code(&[0]);
    for part in others {
        part.end().code(&[0]);
    }
    let is_free = |slot: &String| slot.rsplit('.').next() == Some("free");
    assert!(parts.slots().iter().all(is_free), "{:?}", parts.slots());

    let report = parts.merged();
    report.assert_states(&[("ok", IDS)]);
    let books = target.books();
    assert_eq!(books["unique_ids"], json!(IDS));
    let busiest = count(&books, "/busiest/1s/requests");
    assert!(busiest <= RATE + BURST, "{busiest} requests in a second");
    assert_eq!(report.count("/merged/other_attempts"), 2);
    assert_eq!(report.count("/merged/uncounted_attempts"), 1);
    // Those of the last second of the killed attempt are known to the target alone.
    let known = report.count("/totals/attempts_sent") + report.count("/merged/additional_requests");
    let unknown = count(&books, "/requests") - known;
    assert!(unknown <= RATE, "{unknown} requests that the merge does not know");
    assert!(
        report.count("/merged/additional_requests") + unknown >= RATE,
        "{report:?}",
        report = report.json()["merged"]
    );
}
