//! What becomes of a run when somebody stops it, kills a part of it, or takes its target away: an
//! exit code that says so, and a report that still adds up.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crawlmark_harness::clock::Clock;
use nix::sys::signal::Signal;
use serde_json::json;

use crate::command::{Done, Started};
use crate::process::{children, is_ended, is_pending, is_stopped, signal, socket_names, wait_for};
use crate::run::{crawl, start, start_by};
use crate::scripted::{OK, Peer, with_server};
use crate::target::Target;

/// Send `number` to a run that must end of it, within two seconds; a machine that does many things
/// at once may take a little longer.
fn stop(run: Started, number: Signal) -> Done {
    let clock = Clock::start();
    run.signal(number);
    let ended = run.end();
    let took = clock.now().0;
    assert!(took < 5_000_000_000, "it took {took} ns");
    ended
}

#[test]
fn a_signal_ends_a_run_whose_output_nobody_reads() {
    let target = Target::start("--processes 1 --latency 1ms");
    let line = format!("{} --ids 0..100m --shards 2 -c 8", target.url());
    let mut nobody = Command::new("bash");
    nobody.args(["-c", "exec \"$0\" \"$@\" > >(:)"]);
    let run = start_by(nobody, &line);
    target.wait_for_requests(1);
    stop(run, Signal::SIGINT).report(130);
}

/// What arrives at a socket that several hold wakes only one of them: so a word to end was lost.
#[test]
fn no_two_processes_of_a_run_hold_the_same_socket() {
    let run = start("-n 1m --rate 100/s --shards 2 --target-processes 2");
    let shards = [0, 1].map(|number| run.shard(number, 1));
    let mut seen = BTreeSet::new();
    for pid in run.processes() {
        let names = socket_names(pid);
        assert!(seen.is_disjoint(&names), "{pid}: {names:?} of {seen:?}");
        seen.extend(names);
    }
    assert!(seen.len() >= 2 * shards.len());
    stop(run, Signal::SIGINT).report(130);
}

#[test]
fn what_does_not_end_in_time_is_aborted_and_counts_with_its_bytes() {
    let (answer, bytes) = (&OK[..OK.len() - 1], AtomicU64::new(0));
    let serve = |mut peer: Peer| {
        if let Some(head) = peer.head() {
            peer.send(answer);
            bytes.fetch_add(head.len() as u64, Ordering::SeqCst);
            peer.wait_for_the_end();
        }
    };
    let report = with_server(serve, |address| {
        let line = "--ids 0..1k --shards 2 -c 4 -d 1s --grace 100ms --timeout 1h";
        crawl(&format!("http://{address}/{{id}} {line}"))
    });
    report.assert_states(&[("aborted", 4), ("not_attempted", 996)]);
    report.holds(&json!({
        "/totals/attempts": 4, "/totals/attempts_sent": 4,
        "/totals/bytes_sent": bytes.into_inner(), "/totals/bytes_received": 4 * answer.len(),
    }));
    // All of the target's time that is known.
    assert!(!report.at("/latency/service/at_least").is_null());
}

#[test]
fn a_bundled_target_that_loses_a_process_disturbs_the_run() {
    let run = start("--shards 1 -c 8 --target-processes 2 --ids 0..100m");
    let target = wait_for("the target", || {
        let named = |name: &str| {
            children(run.pid())
                .into_iter()
                .find(|(_, child)| child == name)
        };
        named("crawlmark-s0")
            .and(named("crawlmark-t0"))
            .map(|(pid, _)| pid)
    });
    signal(target, Signal::SIGKILL);
    // The shard lives: the common start has come or comes within moments, and the signal waits for
    // it.
    wait_for("an end of the process", || is_ended(target).then_some(()));
    run.shard(0, 4);
    let report = stop(run, Signal::SIGINT).report(130);
    report.holds(&json!({"/validity/verdict": "disturbed", "/witness/agrees": null}));
    assert!(!report.finding("target_process_lost").is_null());
}

#[test]
fn a_second_interrupt_does_not_wait_for_shards_that_do_not_answer() {
    let target = Target::start("--processes 1 --latency 600s");
    let run = start(&format!(
        "{} --ids 0..1k --shards 2 -c 4 --timeout 1h",
        target.url()
    ));
    target.wait_for_requests(4);
    for pid in [0, 1].map(|number| run.shard(number, 0)) {
        signal(pid, Signal::SIGSTOP);
        wait_for("a stopped shard", || is_stopped(pid).then_some(()));
    }
    run.signal(Signal::SIGINT);
    // Two signals that are both waiting are one.
    let is_taken = || !is_pending(run.pid(), Signal::SIGINT);
    wait_for("the first interrupt to be taken", || {
        is_taken().then_some(())
    });
    let report = stop(run, Signal::SIGINT).report(130);
    report.holds(&json!({"/validity/verdict": "incomplete"}));
    for shard in report.shards() {
        assert_eq!(shard["exit"], json!({"signal": 9}));
    }
}

#[test]
fn c6_a_killed_shard_makes_the_run_incomplete_and_costs_its_own_items_only() {
    const PER_SHARD: u64 = 500;
    const ANSWERED: u64 = 20;
    let (held, released) = (AtomicU64::new(0), AtomicBool::new(false));
    // The second shard never gets beyond its first items, so it is alive when it is killed, however
    // long that takes.
    let serve = |mut peer: Peer| {
        while let Some(path) = peer.request() {
            let id: u64 = path.rsplit('/').next().unwrap().parse().unwrap_or(0);
            if id >= PER_SHARD + ANSWERED {
                held.fetch_add(1, Ordering::SeqCst);
                return peer.wait_for_the_end();
            }
            if (PER_SHARD - 10..PER_SHARD).contains(&id) {
                // The first shard ends after the second.
                let is_over = || released.load(Ordering::SeqCst).then_some(());
                wait_for("the second shard's end", is_over);
            }
            peer.send(OK);
        }
    };
    let report = with_server(serve, |address| {
        let line = "--ids 0..1k --shards 2 -c 8 --timeout 1h";
        let run = start(&format!("http://{address}/{{id}} {line}"));
        let is_stuck = || (held.load(Ordering::SeqCst) == 4).then_some(());
        wait_for("the second shard to be stuck", is_stuck);
        signal(run.shard(1, 0), Signal::SIGKILL);
        released.store(true, Ordering::SeqCst);
        run.end().report(4)
    });
    // There are no times of half a shard.
    report.holds(&json!({
        "/validity/verdict": "incomplete", "/interrupted": false,
        "/latency/service/count": PER_SHARD, "/shards/0/fault": null,
        "/shards/0/ledger/ok": PER_SHARD, "/shards/1/exit": {"signal": 9},
    }));
    let [lost, never] =
        ["lost", "not_attempted"].map(|state| report.count(&format!("/shards/1/ledger/{state}")));
    assert!(
        (PER_SHARD - ANSWERED..=PER_SHARD).contains(&(lost + never)),
        "{lost} + {never}"
    );
    assert!(lost >= 4, "{lost} of the 4 that were open");
}

#[test]
fn shards_and_the_bundled_target_die_with_their_supervisor() {
    let run = start("--shards 2 -c 2 --target-processes 2 --ids 0..100m");
    run.shard(1, 1);
    // The target's probe is one of them.
    assert_eq!(run.processes().len(), 6);
    run.signal(Signal::SIGKILL);
    let ended = run.end();
    assert_eq!(ended.status.signal(), Some(Signal::SIGKILL as i32));
    ended.wait_for_its_processes();
    assert!(
        !ended.out().exists(),
        "half a result under the name of a whole one"
    );
}

#[test]
fn a_target_that_dies_is_a_fault_of_the_target() {
    // At most 40 items a second for as long as it lives: it dies long before they are done.
    let target = Target::start("--processes 2 --latency 200ms");
    let run = start(&format!("{} --ids 0..4k --shards 2 -c 8", target.url()));
    target.wait_for_requests(8);
    target.kill();
    let report = run.end().report(0);
    let (ok, errors) = (report.items("ok"), report.errors());
    assert_eq!(ok + report.items("failed"), 4_000);
    // Trying again did not help, and ended with its budget.
    assert_eq!(
        errors.values().sum::<u64>(),
        report.count("/totals/attempts") - ok
    );
    for count in ["/totals/retries", "/throttling/retries_denied"] {
        assert!(report.count(count) > 0, "{count}");
    }
    let known = [
        "closed",
        "connect_failed",
        "connect_refused",
        "incomplete",
        "reset",
    ];
    assert!(errors["connect_refused"] > 0, "{errors:?}");
    assert!(
        errors.keys().all(|kind| known.contains(&kind.as_str())),
        "{errors:?}"
    );
    report.holds(&json!({"/interrupted": false}));
}
