//! What was measured is not lost: on a full disk, when a signal reaches all processes or comes at
//! any moment of the start, when Ctrl-Z suspends the run, or when a comparison ends early.
#![expect(
    clippy::unwrap_used,
    reason = "a test whose program cannot be started is over"
)]
#![expect(clippy::print_stderr, reason = "a test that cannot run here says so")]

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crawlmark_harness::clock::Clock;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::command::{Done, Started};
use crate::process::{
    children, is_blocked, is_ended, is_pending, is_stopped, signal, wait_for, working_in,
};
use crate::report::Report;
use crate::run::{Run, program};
use crate::target::Target;

/// A file system of so many bytes. Dropped, it is gone.
pub(crate) struct Disk(TempDir);

impl Disk {
    /// None where this user may not make one.
    pub(crate) fn of(bytes: u64) -> Option<Self> {
        let place = tempfile::tempdir().unwrap();
        let size = format!("size={bytes}");
        let made = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(place.path())
            .output();
        if made.as_ref().is_ok_and(|made| made.status.success()) {
            return Some(Self(place));
        }
        eprintln!("skipped: this test may not mount a file system of its own: {made:?}");
        None
    }

    /// Its root.
    pub(crate) fn place(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn out(&self) -> PathBuf {
        self.0.path().join("out")
    }

    /// The one unfinished directory on it.
    pub(crate) fn partial(&self) -> Option<PathBuf> {
        partial(self.place())
    }

    /// Make it larger.
    pub(crate) fn grow(&self, bytes: u64) {
        let size = format!("remount,size={bytes}");
        assert!(
            Command::new("mount")
                .args(["-o", &size])
                .arg(self.0.path())
                .status()
                .unwrap()
                .success()
        );
    }

    /// Leaves no room for anything.
    pub(crate) fn fill(&self) {
        let mut filler = File::create(self.0.path().join("filler")).unwrap();
        let kilobyte = [0; 1024];
        while std::io::Write::write_all(&mut filler, &kilobyte).is_ok() {}
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

pub(crate) fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The one unfinished directory in `place`.
pub(crate) fn partial(place: &Path) -> Option<PathBuf> {
    let mut all = fs::read_dir(place)
        .ok()?
        .flatten()
        .map(|entry| entry.path());
    all.find(|path| path.extension().is_some_and(|ending| ending == "partial"))
}

/// The saved results of the rounds of the study in `place`, in order.
fn results_of_rounds(place: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(place.join("rounds"))
        .into_iter()
        .flatten()
        .flatten();
    let finished = entries.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'));
    let mut results: Vec<PathBuf> = finished
        .map(|entry| entry.path().join("result.json"))
        .collect();
    results.retain(|result| result.is_file());
    results.sort();
    results
}

pub(crate) const CRAWL: [&str; 9] = [
    "run",
    "--shards",
    "1",
    "-c",
    "2",
    "--target-latency",
    "5ms",
    "--target-processes",
    "1",
];

#[test]
fn a_disk_that_is_full_at_the_end_costs_neither_summary_nor_json_nor_times() {
    for json in [true, false] {
        let Some(disk) = Disk::of(1 << 20) else {
            return;
        };
        let out = disk.out();
        let more: &[&str] = if json { &["--json"] } else { &[] };
        let run = Started::new(&[&CRAWL[..], &["-d", "3s", "--out", path(&out)], more].concat());
        let partial = wait_for("a second in the log", || {
            let partial = partial(disk.0.path())?;
            // The header is 4 lines; the log is written in pieces of 8 KiB.
            (fs::metadata(partial.join("latency.hlog")).ok()?.len() > 0).then_some(partial)
        });
        disk.fill();
        let done = run.end().code(&[1]);
        if json {
            let report: Value = serde_json::from_str(&done.stdout).unwrap();
            assert!(report["ledger"]["ok"].as_u64().unwrap() > 0);
        } else {
            assert!(done.stdout.contains("items"), "{}", done.stdout);
        }
        let said = &done.stderr;
        assert!(
            said.contains("write result.json: No space left on device"),
            "{said}"
        );
        assert!(
            said.contains(&format!("Kept in {}: latency.hlog", partial.display())),
            "{said}"
        );
        assert!(
            fs::read_to_string(partial.join("latency.hlog"))
                .unwrap()
                .contains("Tag=")
        );
    }
}

#[test]
fn a_disk_with_room_for_the_result_alone_has_it_and_the_rest_can_be_made_later() {
    let Some(roomy) = Disk::of(8 << 20) else {
        return;
    };
    let crawl =
        |out: &Path| Started::new(&[&CRAWL[..], &["-n", "400", "--out", path(out)]].concat()).end();
    crawl(&roomy.out()).code(&[0]);
    let size = |name: &str| fs::metadata(roomy.out().join(name)).unwrap().len();
    // The result and some of what is made from it, but not the page.
    let room = size("result.json") + size("latency.hlog") + size("report.html") / 2;
    let disk = Disk::of(room).unwrap();
    let out = disk.out();
    let done = crawl(&out).code(&[1]);
    assert!(done.stdout.contains("items"), "{}", done.stdout);
    let said = &done.stderr;
    assert!(
        said.contains("No space left on device")
            && said.contains(&format!("Kept in {}: ", out.display())),
        "{said}"
    );
    assert!(
        said.contains(&format!(
            "`crawlmark report {}` then makes what is missing",
            out.display()
        )),
        "{said}"
    );
    Report::read(&out.join("result.json"));
    assert!(!out.join("report.html").exists());
    // There is room again.
    let size = format!("remount,size={}", 8 << 20);
    assert!(
        Command::new("mount")
            .args(["-o", &size])
            .arg(disk.0.path())
            .status()
            .unwrap()
            .success()
    );
    Started::new(&["report", path(&out)]).end().code(&[0]);
    assert!(out.join("report.html").exists() && out.join("plots").is_dir());
}

#[test]
fn a_file_that_may_not_grow_does_not_end_the_run_that_writes_it() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("out");
    // Blocks of 512 bytes: too few for the result.
    let said = Command::new("sh")
        .args(["-c", "ulimit -f 16; exec \"$0\" \"$@\""])
        .arg(program())
        .args(CRAWL)
        .args(["-n", "400", "--out", path(&out)])
        .current_dir(place.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let [stdout, stderr] = [&said.stdout, &said.stderr].map(|text| String::from_utf8_lossy(text));
    assert_eq!(said.status.code(), Some(1), "{stdout}{stderr}");
    assert!(stdout.contains("items"), "{stdout}");
    assert!(
        stderr.contains("write result.json: File too large"),
        "{stderr}"
    );
    // Space is not what it lacks.
    assert!(
        stderr.contains("Raise the limit on the size of files (ulimit -f)")
            && !stderr.contains("space"),
        "{stderr}"
    );
}

#[test]
fn a_comparison_on_a_full_disk_is_shown_and_its_rounds_are_kept() {
    let Some(disk) = Disk::of(2 << 20) else {
        return;
    };
    let out = disk.out();
    let flags = [
        "ab",
        "--pairs",
        "40",
        "--json",
        "--out",
        path(&out),
        "--",
        "-n",
        "64",
        "-c",
        "4",
        "-s",
        "1",
    ];
    let comparison = Started::new(&flags);
    // What the last round left free may be enough for the comparison: then its directory is
    // finished.
    let place = || partial(disk.place()).unwrap_or_else(|| out.clone());
    let whole = || results_of_rounds(&place()).len();
    wait_for("two rounds", || (whole() >= 3).then_some(()));
    disk.fill();
    let done = comparison.end().code(&[1]);
    let contest: Value = serde_json::from_str(&done.stdout).unwrap();
    assert!(
        contest["rounds"].as_array().unwrap().len() >= 2,
        "{contest}"
    );
    assert!(
        done.stderr.contains("Kept in ") && done.stderr.contains("rounds"),
        "{}",
        done.stderr
    );
    assert!(whole() >= 2, "they are there");
    // Each path that is told is there under the name that the directory has now.
    for told in done.stderr.split("Kept in ").skip(1) {
        let told = told.split(": ").next().unwrap();
        assert!(place().join(told).is_dir(), "{told}: {}", done.stderr);
    }
}

#[test]
fn a_signal_to_all_processes_at_once_is_the_supervisors_alone() {
    for (number, code) in [
        (Signal::SIGTERM, 143),
        (Signal::SIGHUP, 129),
        (Signal::SIGINT, 130),
    ] {
        let run =
            Run::start("--shards 2 -c 8 --target-processes 2 --target-latency 2ms".split(' '));
        wait_for("answers", || {
            let connected = |pid: i32| {
                let fds = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
                let links = fds.filter_map(|fd| fs::read_link(fd.ok()?.path()).ok());
                Some(
                    links
                        .filter(|link| link.to_string_lossy().starts_with("socket:"))
                        .count(),
                )
            };
            (connected(run.shard(1))? >= 4).then_some(())
        });
        let mut all = run.processes();
        assert_eq!(all.len(), 5, "a supervisor, two shards, two of the target");
        // The supervisor last: what the others make of it, it finds.
        all.sort_unstable_by_key(|pid| *pid == run.pid());
        for pid in all {
            signal(pid, number);
        }
        let report = run.end().report(code);
        assert_eq!(*report.at("/interrupted_by"), json!(number as i32));
        for shard in report.shards() {
            assert_eq!(
                (&shard["fault"], &shard["exits"]),
                (&json!(null), &json!(["exited cleanly"]))
            );
        }
        assert_eq!(report.items("lost"), 0);
        assert_eq!(
            *report.at("/witness/agrees"),
            json!(true),
            "{}",
            report.at("/witness")
        );
    }
}

#[test]
fn serve_ends_with_its_books_when_all_of_its_processes_are_asked_to() {
    let place = tempfile::tempdir().unwrap();
    let work = place.path().canonicalize().unwrap();
    let mut serve = Command::new(program());
    serve
        .args(["serve", "--listen", "127.0.0.1:0", "--processes", "2"])
        .current_dir(&work);
    let mut serve = serve
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let own = i32::try_from(serve.id()).unwrap();
    wait_for("its processes", || (children(own).len() == 2).then_some(()));
    let mut line = [0; 12];
    std::io::Read::read_exact(serve.stdout.as_mut().unwrap(), &mut line).unwrap();
    let others = children(own);
    for (pid, _) in &others {
        signal(*pid, Signal::SIGTERM);
    }
    // Each has either ended of it or leaves it alone.
    let leaves_it = |pid: i32| is_pending(pid, Signal::SIGTERM) && is_blocked(pid, Signal::SIGTERM);
    let has_it = |pid: i32| leaves_it(pid) || is_ended(pid) || !working_in(&work).contains(&pid);
    wait_for("the others to have it", || {
        others.iter().all(|(pid, _)| has_it(*pid)).then_some(())
    });
    signal(own, Signal::SIGTERM);
    let said = serve.wait_with_output().unwrap();
    assert_eq!(said.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&said.stdout).contains("\"requests\": 0"));
}

#[test]
fn a_signal_while_a_run_starts_leaves_a_report() {
    // Shards one after another, so that the first are there long before the last.
    for shards in [1, 64] {
        for bundled in [true, false] {
            let target = Target::start("--processes 1");
            let url = if bundled {
                "--target-processes 8".to_owned()
            } else {
                target.url()
            };
            let run = Run::start(format!("{url} --shards {shards} -c 64 --ids 0..100m").split(' '));
            // It holds signals from before its first child on.
            wait_for("its first process", || {
                (!children(run.pid()).is_empty()).then_some(())
            });
            run.signal(Signal::SIGINT);
            let report = run.end().report(130);
            assert_eq!(*report.at("/interrupted"), json!(true));
            assert_eq!(report.items("lost"), 0);
            assert_eq!(
                report.items("not_attempted") + report.count("/totals/attempts"),
                100_000_000
            );
            for shard in report.shards() {
                assert_eq!(shard["exits"], json!(["exited cleanly"]));
            }
        }
    }
}

/// Time after which a shard that says nothing is taken for dead: `--shard-deadline`.
const DEADLINE_OF_SHARDS: Duration = Duration::from_secs(1);

/// A run in a process group of its own, as a shell starts it: in an orphaned group Ctrl-Z has no
/// effect.
fn as_a_job() -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec \"$0\" \"$@\""]).process_group(0);
    shell
}

#[test]
fn ctrl_z_stops_and_continues_the_shards_as_well_and_the_gap_is_booked() {
    let target = Target::start("--processes 1 --latency 2ms");
    let args = format!(
        "{} --shards 2 -c 8 --ids 0..100m --shard-deadline 1s",
        target.url()
    );
    let run = Run::start_by(as_a_job(), args.split(' '));
    target.wait_for_requests(100);
    let all = run.processes();
    assert_eq!(all.len(), 3);
    run.signal(Signal::SIGTSTP);
    wait_for("all to be stopped", || {
        all.iter().all(|pid| is_stopped(*pid)).then_some(())
    });
    let clock = Clock::start();
    let before = target.books()["requests"].as_u64().unwrap();
    // Suspended for longer than a shard may be silent.
    let elapsed = || Duration::from_nanos(clock.now().0);
    wait_for("the deadline of the shards to pass", || {
        (elapsed() > DEADLINE_OF_SHARDS).then_some(())
    });
    let stopped_s = elapsed().as_secs_f64();
    // Eight may have been on their way when the counts were read.
    let meanwhile = target.books()["requests"].as_u64().unwrap() - before;
    assert!(meanwhile <= 9, "{meanwhile} requests in a suspended run");
    run.signal(Signal::SIGCONT);
    target.wait_for_requests(before + 100);
    run.signal(Signal::SIGINT);
    let report = run.end().report(130);
    let suspended = report.number("/suspended_s");
    assert!(
        (stopped_s..stopped_s + 60.0).contains(&suspended),
        "{suspended}"
    );
    let verdicts = report.at("/validity/verdicts").as_array().unwrap();
    assert!(verdicts.contains(&"disturbed".into()), "{verdicts:?}");
    assert!(!report.finding("suspended").is_null());
    assert!(report.is_whole(), "nobody was taken for silent");
}

#[test]
fn ctrl_z_stops_the_round_of_a_comparison_as_well() {
    let place = tempfile::tempdir().unwrap();
    let work = place.path().canonicalize().unwrap();
    let mut comparison = as_a_job();
    comparison.arg(program()).args([
        "ab", "--quiet", "--out", "out", "--", "-d", "60s", "-c", "2", "-s", "1",
    ]);
    comparison
        .args(["--target-processes", "1", "--target-latency", "2ms"])
        .current_dir(&work);
    let mut comparison = comparison.stdin(Stdio::null()).spawn().unwrap();
    let own = i32::try_from(comparison.id()).unwrap();
    let round = wait_for("a round", || children(own).first().map(|(pid, _)| *pid));
    let shard = wait_for("its shard", || {
        children(round)
            .into_iter()
            .find(|(_, name)| name == "crawlmark-s0")
    });
    let three = [own, round, shard.0];
    signal(own, Signal::SIGTSTP);
    wait_for("all to be stopped", || {
        three.iter().all(|pid| is_stopped(*pid)).then_some(())
    });
    signal(own, Signal::SIGCONT);
    wait_for("all to go on", || {
        three.iter().all(|pid| !is_stopped(*pid)).then_some(())
    });
    signal(own, Signal::SIGINT);
    let status = wait_for("its end", || comparison.try_wait().unwrap());
    assert_eq!(status.code(), Some(130));
    assert_eq!(working_in(&work), Vec::<i32>::new());
    // The round was cut and is no pair, but what it measured is there.
    let kept = partial(&work).unwrap().join("rounds");
    let kept = fs::read_dir(&kept)
        .unwrap()
        .flatten()
        .find(|entry| entry.path().is_dir())
        .unwrap();
    Report::read(&kept.path().join("result.json"));
}

/// What each command that runs rounds is called with for short ones.
const STUDIES: [&[&str]; 5] = [
    &[
        "ab",
        "--out",
        "out",
        "--",
        "-n",
        "200",
        "-c",
        "2",
        "-s",
        "1",
        "--target-processes",
        "1",
    ],
    &[
        "scale",
        "--out",
        "out",
        "--no-ceiling",
        "-s",
        "1,2",
        "-d",
        "1s",
        "--",
        "--target-processes",
        "1",
    ],
    &[
        "capacity",
        "--out",
        "out",
        "--probe",
        "1s",
        "--warmup",
        "0s",
        "--rest",
        "0s",
        "--",
        "--target-limit",
        "50/s",
    ],
    &["ladder", "--out", "out", "-d", "1s"],
    &["patterns", "--out", "out", "-d", "1s"],
];

/// Name of the result that each study saves, the field of its rounds, and the least number of
/// rounds in a result.
const SAVED: [(&str, &str, usize); 5] = [
    ("comparison", "rounds", 2),
    ("scale", "rounds", 1),
    ("capacity", "probes", 1),
    ("scenarios", "scenarios", 1),
    ("scenarios", "scenarios", 1),
];

/// The result of a study that a signal ended, and how many rounds are in it. It fits its schema and
/// is marked.
#[track_caller]
fn marked(done: &Done, (name, field, _): (&str, &str, usize)) -> usize {
    let schema = format!(
        "{}/results/schema/{name}-1.schema.json",
        env!("CARGO_MANIFEST_DIR")
    );
    let schema: Value = serde_json::from_str(&fs::read_to_string(schema).unwrap()).unwrap();
    let result = done.saved(
        &format!("{name}.json"),
        &jsonschema::draft202012::new(&schema).unwrap(),
    );
    assert_eq!(
        result["interrupted"],
        json!(true),
        "{name}: {}",
        done.stderr
    );
    assert!(
        fs::read_to_string(done.out().join("summary.md"))
            .unwrap()
            .contains("interrupted"),
        "{name}"
    );
    result[field].as_array().unwrap().len()
}

#[test]
fn a_signal_between_two_rounds_ends_a_study_and_its_rounds_are_kept() {
    for (study, saved) in STUDIES.iter().zip(SAVED) {
        let started = Started::new(study);
        let own = started.pid();
        let round = wait_for("a round", || children(own).first().map(|(pid, _)| *pid));
        // Stopped, it finds the end of its round and the signal when it goes on: together, as
        // between two rounds.
        signal(own, Signal::SIGSTOP);
        wait_for("the end of the round", || is_ended(round).then_some(()));
        signal(own, Signal::SIGINT);
        signal(own, Signal::SIGCONT);
        let done = started.end().code(&[130]);
        let place = if done.out().exists() {
            done.out()
        } else {
            partial(&done.work()).unwrap()
        };
        let results = results_of_rounds(&place).len();
        assert_eq!(
            results, 1,
            "{study:?}: no round after it, and the one before it is there: {}",
            done.stderr
        );
        assert!(
            done.stderr
                .contains(path(place.file_name().unwrap().as_ref())),
            "{study:?}: {}",
            done.stderr
        );
        // It had ended when the signal was seen, so it counts.
        assert!(
            saved.2 > 1 || marked(&done, saved) == 1,
            "{study:?}: {}",
            done.stderr
        );
    }
}

#[test]
fn a_signal_to_all_processes_of_a_study_keeps_its_rounds_in_a_marked_result() {
    for (study, saved) in STUDIES.iter().zip(SAVED) {
        let least = saved.2;
        for (number, code) in [(Signal::SIGTERM, 143), (Signal::SIGHUP, 129)] {
            let started = Started::new(study);
            let (own, work) = (started.pid(), started.work());
            wait_for("the first rounds, and a shard of the next one", || {
                let whole = results_of_rounds(&partial(&work)?).len();
                let crawls = children(own)
                    .iter()
                    .any(|(round, _)| !children(*round).is_empty());
                (whole >= least && crawls).then_some(())
            });
            let mut all = working_in(&work);
            // The study last: what the others make of it, it finds.
            all.sort_unstable_by_key(|pid| *pid == own);
            assert!(
                all.len() >= 3,
                "{study:?}: a study, a round and a shard: {all:?}"
            );
            for pid in all {
                signal(pid, number);
            }
            let done = started.end().code(&[code]);
            let uncut = |path: &PathBuf| *Report::read(path).at("/interrupted") == json!(false);
            let uncut = results_of_rounds(&done.out())
                .iter()
                .filter(|path| uncut(path))
                .count();
            let told = marked(&done, saved);
            assert!(
                uncut >= least && told >= least,
                "{study:?}: {uncut} rounds saved, {told} in the result"
            );
        }
    }
}

#[test]
fn what_a_killed_run_left_is_named_once_by_the_next_one_and_kept() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("first");
    let run = Started::new(&[&CRAWL[..], &["-d", "60s", "--out", path(&out)]].concat());
    let left = wait_for("a second in the log", || {
        let partial = partial(place.path())?;
        let log = fs::read_to_string(partial.join("latency.hlog")).ok()?;
        log.contains("Tag=").then_some(partial)
    });
    signal(run.pid(), Signal::SIGKILL);
    wait_for("the end of its processes", || {
        working_in(&run.work()).is_empty().then_some(())
    });
    run.end();
    let next = Started::new(
        &[
            &CRAWL[..],
            &["-n", "10", "--out", path(&place.path().join("next"))],
        ]
        .concat(),
    )
    .end();
    let note = format!(
        "note: an earlier run did not finish and left a directory with its measurements; to remove it: rm -r '{}'\n",
        left.display()
    );
    assert!(next.code(&[0]).stderr.contains(&note));
    let third = Started::new(
        &[
            &CRAWL[..],
            &["-n", "10", "--out", path(&place.path().join("third"))],
        ]
        .concat(),
    )
    .end();
    assert!(!third.code(&[0]).stderr.contains("note: an earlier run"));
    assert!(left.join("latency.hlog").exists());
}

#[test]
fn connections_that_nobody_can_use_take_no_memory() {
    let peak = |connections: &str, items: &str| {
        let said = Started::new(&[
            "run",
            "-c",
            connections,
            "-n",
            items,
            "-s",
            "1",
            "--json",
            "--target-processes",
            "1",
        ])
        .end();
        (
            said.code,
            serde_json::from_str::<Value>(&said.stdout).ok(),
            said.stderr,
        )
    };
    let (code, _, stderr) = peak("4294967295", "10");
    assert_eq!(code, Some(2));
    assert!(
        stderr.contains("--connections 4294967295 is out of range: 1 to 1000000"),
        "{stderr}"
    );
    let memory = |connections| {
        let (code, report, stderr) = peak(connections, "10");
        assert_eq!(code, Some(0), "{stderr}");
        report.unwrap()["shards"][0]["max_rss_bytes"]
            .as_u64()
            .unwrap()
    };
    let (few, many) = (memory("10"), memory("1000000"));
    assert!(
        many < 2 * few,
        "{few} bytes with 10 connections, {many} with a million, for 10 items"
    );
}

#[test]
fn an_output_that_fails_costs_neither_the_result_nor_the_other_outputs() {
    let target = Target::start("--processes 1");
    let url = target.url();
    let exports = [
        "--export",
        "csv=/dev/full",
        "--export",
        "openmetrics=metrics.txt",
        "--export",
        "csv-shards",
    ];
    for (stdout, shows) in [("/dev/full", false), ("shown.txt", true)] {
        let place = tempfile::tempdir().unwrap();
        let mut shell = Command::new("sh");
        shell.args([
            "-c",
            &format!("exec \"$0\" \"$@\" > {stdout}"),
            path(program()),
            "run",
            &url,
        ]);
        shell
            .args([
                "-n",
                "50",
                "-s",
                "1",
                "-c",
                "2",
                "--no-progress",
                "--out",
                "out",
            ])
            .args(exports);
        let done = shell.current_dir(place.path()).output().unwrap();
        let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(1), "{stderr}");
        let out = place.path().join("out");
        for file in [
            "result.json",
            "report.html",
            "summary.md",
            "plots/throughput.svg",
            "shards.csv",
        ] {
            assert!(out.join(file).is_file(), "{file}: {stderr}");
        }
        assert_eq!(Report::read(&out.join("result.json")).items("ok"), 50);
        let metrics = fs::read_to_string(place.path().join("metrics.txt")).unwrap_or_default();
        assert!(metrics.contains("# EOF"), "{stderr}");
        assert!(stderr.contains("/dev/full"), "{stderr}");
        if shows {
            let shown = fs::read_to_string(place.path().join(stdout)).unwrap();
            assert!(
                shown.contains("50 ok") && shown.contains("Report: "),
                "{shown}"
            );
        }
    }
}
