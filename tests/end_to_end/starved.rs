//! Runs that are starved of something, by the machine: each says of what and what that means, and
//! with `--strict` it fails.
//!
//! How fast this machine is does not matter: a limit that is broken here is broken by far, and other
//! findings may hold as well.

use std::process::{Child, Command};
use std::time::Duration;

use crawlmark_harness::process::usable_cpus;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::command::{Started, program};
use crate::process::{is_stopped, signal, wait_for};
use crate::report::Report;
use crate::run::{crawl, start, start_by};
use crate::target::Target;

/// A process that does nothing but use one CPU, for half a minute at most. Dropped, it is ended.
struct Hog(Child);

impl Hog {
    fn on(cpu: usize) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -t 30; while :; do :; done"]);
        let hog = Self(shell.spawn().unwrap());
        let mut only = CpuSet::new();
        only.set(cpu).unwrap();
        sched_setaffinity(Pid::from_raw(i32::try_from(hog.0.id()).unwrap()), &only).unwrap();
        hog
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The report of a run that fails for being invalid, with the first finding of this kind.
#[track_caller]
fn starved(run: Started, kind: &str) -> (Report, Value) {
    let report = run.end().report(4);
    let finding = report.finding(kind).clone();
    assert!(!finding.is_null(), "{}", report.at("/findings"));
    assert_ne!(report.text("/validity/verdict"), "valid");
    (report, finding)
}

/// Stop the only shard of a run for half a second.
fn pause(run: &Started) {
    let shard = run.shard(0, 0);
    signal(shard, Signal::SIGSTOP);
    wait_for("a stopped shard", || is_stopped(shard).then_some(()));
    // This is what is injected, not a wait for anything.
    std::thread::sleep(Duration::from_millis(500));
    signal(shard, Signal::SIGCONT);
}

#[test]
fn a_shard_whose_cpu_is_given_to_others_says_so() {
    let target = Target::start("--processes 1");
    let _hogs: Vec<Hog> = usable_cpus().repeat(4).into_iter().map(Hog::on).collect();
    let run = start(&format!("{} --shards 1 -c 8 -d 2s --strict", target.url()));
    // With a tenth of the others' weight it is the shard that waits for a CPU, and not for answers: its target has a fair share.
    let shard = run.shard(0, 0).to_string();
    let mut lower = Command::new("renice");
    let lowered = lower.args(["-n", "10", "-p", &shard]).output().unwrap();
    assert!(lowered.status.success(), "{lowered:?}");
    let (report, finding) = starved(run, "cpu_wait");
    assert!(
        report.number("/shards/0/run_delay_share") > 0.1,
        "{finding}"
    );
}

#[test]
fn receive_delays_are_times_in_which_responses_lie_unread() {
    let target = Target::start("--processes 1 --latency 20ms");
    let line = format!(
        "{} --shards 1 -c 2 --receive-stamps all --ids 0..100m",
        target.url()
    );
    let slow = crawl(&format!("{line} -d 1s"));
    let stamped = slow.count("/latency/receive_delay/count");
    assert_eq!(
        stamped,
        slow.count("/totals/attempts_sent"),
        "each has a stamp"
    );
    // Of the time that users wait, the target's part is nearly all.
    let p50_us = |series: &str| slow.number(&format!("/latency/{series}/p50_us"));
    assert!(p50_us("receive_delay") < p50_us("service") / 5.0);
    let stopped = start(&format!("{line} -d 2s"));
    target.wait_for_requests(target.requests() + 20);
    // The responses to both requests arrive in it, after 20 ms.
    pause(&stopped);
    let report = stopped.end().report(0);
    assert!(!report.finding("shard_paused").is_null());
    let max_us = |series: &str| report.number(&format!("/latency/{series}/max_us"));
    let (unread, service) = (max_us("receive_delay"), max_us("service"));
    assert!(
        unread > 0.9 * service && unread >= 450_000.0 && unread <= service,
        "{unread} of {service}"
    );
    // They are of a sample, and absent where the kernel has no stamps.
    for (tls, flags, least, most) in [
        ("", "", 46, 54),
        ("", "--receive-stamps off", 0, 0),
        ("--tls", "-k --receive-stamps all", 0, 0),
    ] {
        let target = Target::start(&format!("--processes 1 {tls}"));
        let report = crawl(&format!(
            "{} --shards 2 -c 16 -n 3200 {flags}",
            target.url()
        ));
        let count = report.json().pointer("/latency/receive_delay/count");
        let count = count.map_or(0, |count| count.as_u64().unwrap());
        assert!((least..=most).contains(&count), "{flags}: {count} of 3,200");
        let unavailable = report.at("/validity/unavailable").get("receive delay");
        assert_eq!(
            unavailable,
            (most == 0).then(|| json!("no_stamps")).as_ref()
        );
    }
}

#[test]
fn too_few_descriptors_for_all_connections_are_refused() {
    let target = Target::start("--processes 1");
    for (limit, connections, code) in [(40, "8", 0), (40, "9", 2), (12, "1", 2)] {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -n {limit} && exec \"$0\" \"$@\"")]);
        shell.arg(program());
        shell.args(["run", &target.url(), "-s", "1", "-n", "64"]);
        shell.args(["-c", connections]);
        let done = Started::new(shell).end();
        assert_eq!(
            done.code,
            Some(code),
            "{limit} {connections}: {}",
            done.stderr
        );
    }
}

#[test]
fn a_machine_without_free_ports_says_so() {
    // A network of its own, with ten local ports.
    let prepare = "ip link set lo up && echo 40000 40009 > /proc/sys/net/ipv4/ip_local_port_range";
    let in_network = |then: &str| {
        let mut command = Command::new("unshare");
        command.args(["-rn", "sh", "-c", &format!("{prepare} && {then}")]);
        command
    };
    let tried = in_network("true").output();
    if !tried.as_ref().is_ok_and(|tried| tried.status.success()) {
        eprintln!(
            "skipped: this test may not make a network of its own (unshare -rn, ip): {tried:?}"
        );
        return;
    }
    let line = "--shards 1 -c 64 -n 500 --retries 0 --strict";
    let run = start_by(in_network("exec \"$0\" \"$@\""), line);
    let (report, finding) = starved(run, "no_local_port");
    assert!(finding["requests"].as_u64() > Some(0), "{finding}");
    assert!(report.errors()["address_unavailable"] > 0 && report.items("ok") > 0);
}
