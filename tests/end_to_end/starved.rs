//! Runs that are starved of something, by the machine: each says of what and what that means, and
//! with `--strict` it fails.
//!
//! How fast this machine is does not matter: a gate that is tripped here is tripped by far, and
//! other gates may find something as well.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot starve anything is over or says so"
)]

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crawlmark_harness::process::usable_cpus;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde_json::Value;

use crate::process::{is_stopped, signal, wait_for};
use crate::report::Report;
use crate::run::{Run, program};
use crate::target::Target;

/// A process that does nothing but use one CPU, for half a minute at most. Dropped, it is ended.
struct Hog(Child);

impl Hog {
    fn on(cpu: usize) -> Self {
        let mut shell = Command::new("sh");
        let hog = Self(
            shell
                .args(["-c", "ulimit -t 30; while :; do :; done"])
                .stdin(Stdio::null())
                .spawn()
                .unwrap(),
        );
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

/// The report of a run that fails for being invalid, and gives a reason that says all of `parts`.
#[track_caller]
fn starved(run: Run, parts: &[&str]) -> Report {
    let report = run.end().report(4);
    let findings = report.at("/findings").as_array().unwrap();
    let says_all = |finding: &&Value| {
        let text = finding.to_string();
        parts.iter().all(|part| text.contains(part))
    };
    assert!(
        findings.iter().any(|finding| says_all(&finding)),
        "{parts:?} in {findings:#?}"
    );
    assert_ne!(report.text("/validity/verdict"), "valid");
    report
}

#[test]
fn a_shard_whose_cpu_is_given_to_others_says_so() {
    let target = Target::start("--processes 1");
    let _hog = Hog::on(usable_cpus()[0]);
    let run = Run::start(format!("{} --shards 1 -c 8 -d 1s --strict", target.url()).split(' '));
    let report = starved(run, &["\"cpu_wait\"", "\"shard\":0"]);
    let shard = &report.shards()[0];
    assert!(shard["run_delay_share"].as_f64().unwrap() > 0.1, "{shard}");
}

#[test]
fn a_shard_that_was_stopped_for_a_while_says_for_how_long() {
    let target = Target::start("--processes 1");
    // Nobody paces the second one.
    for pace in ["--rate 200 -c 2", "-c 2"] {
        let run = Run::start(
            format!(
                "{} --shards 1 {pace} --ids 0..100m -d 2s --strict",
                target.url()
            )
            .split(' '),
        );
        let before = target.books()["requests"].as_u64().unwrap();
        target.wait_for_requests(before + 20);
        let shard = run.shard(0);
        signal(shard, Signal::SIGSTOP);
        wait_for("a stopped shard", || is_stopped(shard).then_some(()));
        // This is what is injected, not a wait for anything.
        std::thread::sleep(Duration::from_millis(500));
        signal(shard, Signal::SIGCONT);
        let report = starved(run, &["\"shard_paused\"", "\"shard\":0"]);
        let lag = &report.shards()[0]["latency"]["loop_lag"];
        // It was to look up within 10 ms of being stopped.
        assert!(lag["max_us"].as_f64().unwrap() >= 490_000.0, "{lag}");
        // What was missed was counted as missed.
        assert!(lag["count"].as_u64().unwrap() >= 200, "{lag}");
    }
}

#[test]
fn answers_lie_unread_while_the_client_is_stopped_and_not_while_the_target_is_slow() {
    let target = Target::start("--processes 1 --latency 20ms");
    let run = |duration: &str| {
        let flags = format!(
            "{} --shards 1 -c 2 --receive-stamps all --ids 0..100m -d {duration}",
            target.url()
        );
        Run::start(flags.split(' '))
    };
    let slow = run("1s").end().report(0);
    assert_eq!(
        slow.count("/latency/receive_delay/count"),
        slow.count("/totals/attempts_sent"),
        "each has a stamp"
    );
    // Of the time that users wait, the target's part is nearly all.
    assert!(
        slow.number("/latency/receive_delay/p50_us") < slow.number("/latency/service/p50_us") / 5.0
    );

    let stopped = run("2s");
    target.wait_for_requests(target.books()["requests"].as_u64().unwrap() + 20);
    let shard = stopped.shard(0);
    signal(shard, Signal::SIGSTOP);
    wait_for("a stopped shard", || is_stopped(shard).then_some(()));
    // This is what is injected, not a wait for anything. The answers to both requests arrive in it,
    // after 20 ms.
    std::thread::sleep(Duration::from_millis(500));
    signal(shard, Signal::SIGCONT);
    let report = stopped.end().report(0);
    let [unread, service] = ["receive_delay", "service"]
        .map(|series| report.number(&format!("/latency/{series}/max_us")));
    assert!(
        unread > 0.9 * service && unread >= 450_000.0 && unread <= service,
        "{unread} of {service}"
    );
}

#[test]
fn receive_delays_are_of_a_sample_and_absent_where_the_kernel_has_no_stamps() {
    let plain = Target::start("--processes 1");
    let sample = |target: &Target, flags: &str| {
        let run = Run::start(
            format!("{} --shards 2 -c 16 -n 12800 {flags}", target.url()).split_whitespace(),
        );
        let report = run.end().report(0);
        let count = report
            .at("/latency")
            .get("receive_delay")
            .map_or(0, |delay| delay["count"].as_u64().unwrap());
        (
            count,
            report
                .at("/validity/unavailable")
                .get("receive delay")
                .cloned(),
        )
    };
    let (count, unavailable) = sample(&plain, "");
    assert!(
        count.abs_diff(200) <= 4 && unavailable.is_none(),
        "{count} of 12,800, {unavailable:?}"
    );
    assert_eq!(sample(&plain, "--receive-stamps all"), (12_800, None));
    let (count, unavailable) = sample(&plain, "--receive-stamps off");
    assert_eq!((count, unavailable.unwrap()), (0, "no_stamps".into()));
    let tls = Target::start("--processes 1 --tls");
    let (count, unavailable) = sample(&tls, "--insecure --receive-stamps all");
    assert_eq!((count, unavailable.unwrap()), (0, "no_stamps".into()));
}

#[test]
fn too_few_descriptors_are_announced_and_then_found() {
    let target = Target::start("--processes 1");
    let limited = |limit: u32| {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -n {limit} && exec \"$0\" \"$@\"")]);
        shell
    };
    let place = tempfile::tempdir().unwrap();
    // Those that fit are used, and then none fails.
    for (limit, shards, connections) in [(24, 1, 4), (60, 1, 28), (60, 2, 56)] {
        let args = format!(
            "{} --shards {shards} -c 64 -n 2000 --retries 0",
            target.url()
        );
        let run = Run::start_by(limited(limit), args.split(' '));
        let report = run.end().report(0);
        assert_eq!(report.count("/environment/nofile"), u64::from(limit));
        assert_eq!(report.count("/plan/connections"), connections, "{limit}");
        assert_eq!(
            (report.errors(), report.items("ok")),
            (BTreeMap::new(), 2_000),
            "{limit}"
        );

        let mut shell = limited(limit);
        let said = shell
            .arg(program())
            .arg("run")
            .args(args.split(' '))
            .current_dir(place.path())
            .output()
            .unwrap();
        let stderr = String::from_utf8(said.stderr).unwrap();
        let needs = 64 / shards + 32;
        let notice = format!(
            "warning: --connections 64 over --shards {shards} needs {needs} descriptors, and a process here may have {limit}: raise \
             the limit (ulimit -Hn); {connections} connections are used\n"
        );
        assert!(stderr.starts_with(&notice), "{stderr}");
    }

    // With so few that there is none for a connection there is no run.
    let said = limited(12)
        .arg(program())
        .args(["run", &target.url()])
        .current_dir(place.path())
        .output()
        .unwrap();
    assert_eq!(said.status.code(), Some(2));
    assert!(
        String::from_utf8(said.stderr)
            .unwrap()
            .contains("ulimit -Hn")
    );
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
    let tried = in_network("true").stdin(Stdio::null()).output();
    if !tried.as_ref().is_ok_and(|tried| tried.status.success()) {
        eprintln!(
            "skipped: this test may not make a network of its own (unshare -rn, ip): {tried:?}"
        );
        return;
    }
    let run = Run::start_by(
        in_network("exec \"$0\" \"$@\""),
        "--shards 1 -c 64 -n 500 --retries 0 --strict".split(' '),
    );
    let report = starved(run, &["\"no_local_port\"", "\"ports\":10"]);
    assert!(report.errors()["address_unavailable"] > 0);
    assert!(report.items("ok") > 0, "{}", report.at("/ledger"));
}
