//! What was measured is not lost: on a full disk, when a signal reaches all processes or comes at
//! any moment of the start, when Ctrl-Z suspends the run, or when a comparison ends early.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crawlmark_harness::clock::Clock;
use nix::sys::signal::Signal;
use serde_json::json;
use tempfile::TempDir;

use crate::command::{program, said, start, words};
use crate::process::{children, is_stopped, signal, wait_for, working_in};
use crate::report::{Report, holds};
use crate::run;
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

/// The saved results of the rounds of the study in `place`.
fn results_of_rounds(place: &Path) -> Vec<PathBuf> {
    let rounds = fs::read_dir(place.join("rounds"))
        .into_iter()
        .flatten()
        .flatten();
    let finished = rounds.filter(|round| !round.file_name().to_string_lossy().starts_with('.'));
    let results = finished.map(|round| round.path().join("result.json"));
    results.filter(|result| result.is_file()).collect()
}

/// A run of the bundled target; `--out` and its length are missing.
pub(crate) const CRAWL: &str =
    "run --shards 1 -c 2 --target-latency 5ms --target-processes 1 --out";

#[test]
fn a_disk_that_is_full_at_the_end_costs_neither_the_summary_nor_the_json_nor_the_times() {
    for flags in ["--json", ""] {
        let Some(disk) = Disk::of(1 << 20) else {
            return;
        };
        let run = start(&format!("{CRAWL} {} -d 2s {flags}", path(&disk.out())));
        let partial = wait_for("a second in the log", || {
            // The header is 4 lines; the log is written in pieces of 8 KiB.
            let log = |partial: &PathBuf| fs::metadata(partial.join("latency.hlog"));
            disk.partial()
                .filter(|partial| log(partial).is_ok_and(|log| log.len() > 0))
        });
        disk.fill();
        let done = run.end().code(&[1]);
        if flags.is_empty() {
            assert!(done.stdout.contains(" good"), "{}", done.stdout);
        } else {
            assert!(done.printed()["ledger"]["ok"].as_u64() > Some(0));
        }
        let said = &done.stderr;
        assert!(
            said.contains("write result.json: No space left on device"),
            "{said}"
        );
        let kept = format!("Kept in {}: latency.hlog", partial.display());
        assert!(said.contains(&kept), "{said}");
        let log = fs::read_to_string(partial.join("latency.hlog")).unwrap();
        assert!(log.contains("Tag="));
    }
}

#[test]
fn a_signal_to_all_processes_at_once_is_for_the_supervisor_alone() {
    for (number, code) in [
        (Signal::SIGTERM, 143),
        (Signal::SIGHUP, 129),
        (Signal::SIGINT, 130),
    ] {
        let run = run::start("--shards 2 -c 8 --target-processes 2 --target-latency 2ms");
        run.shard(1, 4);
        let mut all = run.processes();
        assert_eq!(
            all.len(),
            6,
            "a supervisor, two shards, two of the target, its probe"
        );
        // The supervisor last: it finds what the others make of it.
        all.sort_unstable_by_key(|pid| *pid == run.pid());
        for pid in all {
            signal(pid, number);
        }
        let report = run.end().report(code);
        report.holds(&json!({
            "/interrupted_by": number as i32, "/ledger/lost": 0, "/witness/agrees": true,
            "/target/ended": null,
        }));
        for shard in report.shards() {
            holds(shard, &json!({"/fault": null, "/exit": "clean"}));
        }
    }
}

#[test]
fn a_signal_while_a_run_starts_leaves_a_report() {
    // Shards one after another, so that the first are there long before the last.
    let target = Target::start("--processes 1");
    for (shards, url) in [(1, "--target-processes 8"), (64, &target.url())] {
        // No shard is taken for silent because it starts slowly.
        let run = run::start(&format!(
            "{url} --shards {shards} -c 64 --ids 0..100m --shard-deadline 2m"
        ));
        // It holds signals from before its first child on, which is the target's or its probe.
        wait_for("its first process", || {
            let mut all = children(run.pid()).into_iter();
            all.find(|(_, name)| name.starts_with("crawlmark-") && name != "crawlmark-probe")
        });
        run.signal(Signal::SIGINT);
        let report = run.end().report(130);
        report.holds(&json!({"/interrupted": true, "/ledger/lost": 0}));
        let attempts = report.count("/totals/attempts");
        assert_eq!(report.items("not_attempted") + attempts, 100_000_000);
        for shard in report.shards() {
            assert_eq!(shard["exit"], json!("clean"));
        }
    }
}

/// A shell that becomes a program in a process group of its own, as a shell starts a job: in an
/// orphaned group Ctrl-Z has no effect.
fn as_a_job() -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec \"$0\" \"$@\""]).process_group(0);
    shell
}

#[test]
fn ctrl_z_stops_and_continues_the_shards_as_well_and_the_gap_is_counted() {
    /// `--shard-deadline`.
    const DEADLINE: Duration = Duration::from_secs(1);
    let target = Target::start("--processes 1 --latency 2ms");
    let args = format!(
        "{} --shards 2 -c 8 --ids 0..100m --shard-deadline 1s --target-probe none",
        target.url()
    );
    let run = run::start_by(as_a_job(), &args);
    target.wait_for_requests(100);
    let all = run.processes();
    assert_eq!(all.len(), 3);
    run.signal(Signal::SIGTSTP);
    wait_for("all to be stopped", || {
        all.iter().all(|pid| is_stopped(*pid)).then_some(())
    });
    let clock = Clock::start();
    let before = target.requests();
    // Suspended for longer than a shard may be silent.
    let elapsed = || Duration::from_nanos(clock.now().0);
    wait_for("the deadline of the shards to pass", || {
        (elapsed() > DEADLINE).then_some(())
    });
    let stopped_s = elapsed().as_secs_f64();
    // Eight may have been on their way when the counts were read.
    let meanwhile = target.requests() - before;
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
    assert!(!report.finding("suspended").is_null());
    assert!(report.is_whole(), "no shard was taken for silent");
}

#[test]
fn a_signal_to_all_processes_of_a_study_keeps_its_rounds_in_a_marked_result() {
    // Each study with the name of its result, the field of its rounds, and the least number of
    // rounds in a result.
    for (line, (name, field, least), (number, code)) in [
        (
            "ab -- -n 200 -c 2 -s 1",
            ("comparison", "rounds", 2),
            (Signal::SIGTERM, 143),
        ),
        (
            "scale -s 1,2 -d 1s --repeats 40",
            ("scale", "rounds", 1),
            (Signal::SIGHUP, 129),
        ),
        (
            "capacity --probe 1s --warmup 0s --rest 0s -- --target-limit 50/s",
            ("capacity", "probes", 1),
            (Signal::SIGINT, 130),
        ),
        (
            "ladder -d 1s",
            ("scenarios", "scenarios", 1),
            (Signal::SIGTERM, 143),
        ),
    ] {
        let (command, flags) = line.split_once(' ').unwrap();
        let started = start(&format!("{command} --out out {flags}"));
        let (own, work) = (started.pid(), started.work());
        wait_for("the first rounds, and a shard of the next one", || {
            let whole = results_of_rounds(&partial(&work)?).len();
            let crawls = children(own)
                .iter()
                .any(|(round, _)| !children(*round).is_empty());
            (whole >= least && crawls).then_some(())
        });
        let mut all = working_in(&work);
        // The study last: it finds what the others make of it.
        all.sort_unstable_by_key(|pid| *pid == own);
        assert!(
            all.len() >= 3,
            "{line}: a study, a round and a shard: {all:?}"
        );
        for pid in all {
            signal(pid, number);
        }
        let done = started.end().code(&[code]);
        let is_whole = |path: &&PathBuf| *Report::read(path).at("/interrupted") == false;
        let whole = results_of_rounds(&done.out())
            .iter()
            .filter(is_whole)
            .count();
        let result = done.saved(&format!("{name}.json"));
        assert_eq!(result["interrupted"], true, "{line}: {}", done.stderr);
        let told = result[field].as_array().unwrap().len();
        assert!(
            whole >= least && told >= least,
            "{line}: {whole} saved, {told} in the result"
        );
    }
}

#[test]
fn a_killed_run_leaves_its_measurements_and_keeps_no_other_from_its_directory() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("out");
    let crawl = |more: &str| start(&format!("{CRAWL} {} {more}", path(&out)));
    let run = crawl("-d 60s");
    let left = wait_for("a second in the log", || {
        let partial = partial(place.path())?;
        let log = fs::read_to_string(partial.join("latency.hlog")).ok()?;
        log.contains("Tag=").then_some(partial)
    });
    // Beside a run that is alive, another one is refused.
    let second = crawl("-n 10").end().code(&[2]);
    let says = format!("is in use: another run writes to it, in {}", left.display());
    assert!(second.stderr.contains(&says), "{}", second.stderr);
    signal(run.pid(), Signal::SIGKILL);
    let work = run.work();
    wait_for("the end of its processes", || {
        working_in(&work).is_empty().then_some(())
    });
    run.end();
    let next = crawl("-n 10").end().code(&[0]);
    assert!(
        next.stderr.contains("note: an earlier run did not finish"),
        "{}",
        next.stderr
    );
    assert!(next.stderr.contains(path(&left)), "{}", next.stderr);
    Report::read(&out.join("result.json"));
    let third = start(&format!("{CRAWL} {}/third -n 10", place.path().display()));
    assert!(
        !third
            .end()
            .code(&[0])
            .stderr
            .contains("note: an earlier run"),
        "it is named once"
    );
    assert!(left.join("latency.hlog").exists());
}

#[test]
fn an_output_that_fails_costs_neither_the_result_nor_the_other_outputs() {
    for stdout in ["/dev/full", "shown.txt"] {
        let place = tempfile::tempdir().unwrap();
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &format!("exec \"$0\" \"$@\" > {stdout}")])
            .arg(program());
        let exports = "--export csv=/dev/full --export openmetrics=metrics.txt --export csv-shards";
        let line = format!("run -n 50 -s 1 -c 2 --no-progress --out out {exports}");
        shell.args(words(&line)).current_dir(place.path());
        let said = said(shell);
        assert_eq!(said.code, Some(1), "{}", said.stderr);
        assert!(said.stderr.contains("/dev/full"), "{}", said.stderr);
        let out = place.path().join("out");
        for file in [
            "report.html",
            "summary.md",
            "plots/throughput.svg",
            "shards.csv",
        ] {
            assert!(out.join(file).is_file(), "{file}: {}", said.stderr);
        }
        assert_eq!(Report::read(&out.join("result.json")).items("ok"), 50);
        let metrics = fs::read_to_string(place.path().join("metrics.txt")).unwrap();
        assert!(metrics.contains("# EOF"), "{}", said.stderr);
    }
}
