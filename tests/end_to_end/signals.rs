//! What becomes of a run when somebody stops it, kills a part of it, or takes its target away: an
//! exit code that says so, and a report that still adds up.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crawlmark_harness::clock::Clock;
use nix::sys::signal::Signal;
use serde_json::json;

use crate::process::{children, is_ended, is_pending, is_stopped, signal, wait_for};
use crate::run::{Ended, Run, crawl};
use crate::scripted::{OK, Peer, with_server};
use crate::target::Target;

/// A stopped run is to end within two seconds; a machine that does many things at once may take a
/// little longer.
const STOPPED_WITHIN_NS: u64 = 5_000_000_000;

/// Sends `number` to a run that must end of it.
fn stop(run: Run, number: Signal) -> Ended {
    let clock = Clock::start();
    run.signal(number);
    let ended = run.end();
    let took = clock.now().0;
    assert!(took < STOPPED_WITHIN_NS, "it took {took} ns");
    ended
}

#[test]
fn a_signal_in_the_middle_ends_a_run_with_what_it_had() {
    for (number, code) in [
        (Signal::SIGINT, 130),
        (Signal::SIGTERM, 143),
        (Signal::SIGHUP, 129),
    ] {
        let target = Target::start("--processes 1");
        let run = Run::start(format!("{} --ids 0..100m --shards 2 -c 8", target.url()).split(' '));
        target.wait_for_requests(100);
        let report = stop(run, number).report(code);
        assert_eq!(*report.at("/interrupted_by"), json!(number as i32));
        assert!(
            report.items("ok") >= 92,
            "all but those under way had been answered"
        );
        assert!(report.items("not_attempted") > 0);
        // Answers come at once, so nothing needs to be cut off; a machine that stalls may make it
        // so, before it arrives.
        let cut_off = report.items("aborted");
        let requests = target.books()["requests"].as_u64().unwrap();
        let sent = report.count("/totals/attempts_sent");
        assert!(
            (requests..=requests + cut_off).contains(&sent),
            "{sent} sent, {cut_off} cut off, {requests} arrived"
        );
    }
}

#[test]
fn what_does_not_end_in_time_is_aborted() {
    let target = Target::start("--processes 1 --latency 600s");
    let run =
        Run::start(format!("{} --ids 0..1k --shards 2 -c 6 --timeout 1h", target.url()).split(' '));
    target.wait_for_requests(6);
    let report = stop(run, Signal::SIGINT).report(130);
    report.assert_states(&[("aborted", 6), ("not_attempted", 994)]);
    assert_eq!(*report.at("/interrupted"), json!(true));
    assert_eq!(report.count("/latency/service/censored"), 6);
    // They went out, as the target knows.
    assert_eq!(
        (
            report.count("/totals/attempts_sent"),
            target.books()["requests"].as_u64()
        ),
        (6, Some(6))
    );
    let sent = report.count("/totals/bytes_sent");
    assert!(
        sent.is_multiple_of(6) && sent > 6 * 40,
        "six requests of the same length: {sent}"
    );
    assert_eq!(report.count("/totals/bytes_received"), 0);
}

#[test]
fn what_is_cut_off_counts_with_the_bytes_that_went_over_its_connection() {
    let (answer, bytes) = (
        "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nand now we wait",
        AtomicU64::new(0),
    );
    let serve = |mut peer: Peer| {
        if let Some(head) = peer.head() {
            peer.send(answer);
            bytes.fetch_add(head.len() as u64, Ordering::SeqCst);
            peer.wait_for_the_end();
        }
    };
    let report = with_server(serve, |address| {
        crawl(&format!(
            "http://{address}/{{id}} --ids 0..1k --shards 2 -c 4 -d 1s --grace 100ms --timeout 1h"
        ))
    });
    report.assert_states(&[("aborted", 4), ("not_attempted", 996)]);
    assert_eq!(
        (
            report.count("/totals/attempts"),
            report.count("/totals/attempts_sent")
        ),
        (4, 4)
    );
    assert_eq!(report.count("/totals/bytes_sent"), bytes.into_inner());
    assert_eq!(
        report.count("/totals/bytes_received"),
        4 * answer.len() as u64
    );
    // All of the target's time that is known.
    let at_least = report.at("/latency/service/at_least");
    assert!(!at_least.is_null(), "{at_least}");
}

#[test]
fn a_run_of_the_bundled_target_can_be_interrupted_as_well() {
    let run = Run::start("--shards 2 -c 8 --target-latency 1ms --target-processes 2".split(' '));
    // Its shards live: it has at least been started, and the common start follows within moments.
    run.shard(1);
    wait_for("an open connection", || {
        let sockets = |pid: i32| {
            let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
            let links = fds.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
            Some(
                links
                    .filter(|link| link.to_string_lossy().starts_with("socket:"))
                    .count(),
            )
        };
        (sockets(run.shard(1))? >= 4).then_some(())
    });
    let ended = stop(run, Signal::SIGINT);
    let report = ended.report(130);
    assert!(report.items("not_attempted") > 0);
    assert_eq!(
        *report.at("/witness/agrees"),
        json!(true),
        "{}",
        report.at("/witness")
    );
}

#[test]
fn a_bundled_target_that_loses_a_process_disturbs_the_run() {
    let run = Run::start("--shards 1 -c 8 --target-processes 2 --ids 0..100m".split(' '));
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
    let connected = |pid: i32| {
        let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
        let links = fds.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
        (links
            .filter(|link| link.to_string_lossy().starts_with("socket:"))
            .count()
            >= 4)
            .then_some(())
    };
    wait_for("open connections", || connected(run.shard(0)));
    let report = stop(run, Signal::SIGINT).report(130);
    assert_eq!(
        report.text("/validity/verdict"),
        "disturbed",
        "{}",
        report.at("/validity")
    );
    assert_eq!(*report.at("/witness/agrees"), json!(null));
}

#[test]
fn a_second_interrupt_does_not_wait_for_shards_that_do_not_answer() {
    let target = Target::start("--processes 1 --latency 600s");
    let run =
        Run::start(format!("{} --ids 0..1k --shards 2 -c 4 --timeout 1h", target.url()).split(' '));
    target.wait_for_requests(4);
    for number in 0..2 {
        let pid = run.shard(number);
        signal(pid, Signal::SIGSTOP);
        wait_for("a stopped shard", || is_stopped(pid).then_some(()));
    }
    run.signal(Signal::SIGINT);
    // Two signals that are both waiting are one.
    wait_for("the first interrupt to be taken", || {
        (!is_pending(run.pid(), Signal::SIGINT)).then_some(())
    });
    let report = stop(run, Signal::SIGINT).report(130);
    assert_eq!(report.text("/validity/verdict"), "incomplete");
    for shard in report.shards() {
        assert_eq!(shard["exits"], json!(["was ended by SIGKILL"]));
    }
}

#[test]
fn signals_that_do_not_stop_coming_do_not_cost_the_report() {
    let target = Target::start("--processes 1");
    let run = Run::start(format!("{} --ids 0..100m --shards 2 -c 8", target.url()).split(' '));
    target.wait_for_requests(100);
    let (pid, over) = (run.pid(), AtomicBool::new(false));
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| {
            // At its end the process waits to be reaped, so that no other can have its number in
            // the meantime.
            while !over.load(Ordering::SeqCst) {
                signal(pid, Signal::SIGINT);
                std::thread::yield_now();
            }
        });
        wait_for("the end of the run", || is_ended(pid).then_some(()));
        over.store(true, Ordering::SeqCst);
        run.end()
    });
    let report = ended.report(130);
    assert_eq!(*report.at("/interrupted_by"), json!(Signal::SIGINT as i32));
}

#[test]
fn an_interrupted_run_says_so_even_if_nobody_reads_its_output() {
    let target = Target::start("--processes 1 --latency 1ms");
    let run =
        Run::start_unread(format!("{} --ids 0..100m --shards 2 -c 8", target.url()).split(' '));
    target.wait_for_requests(1);
    stop(run, Signal::SIGINT).report(130);
}

#[test]
fn c6_a_killed_shard_makes_the_run_incomplete_and_costs_its_own_items_only() {
    const PER_SHARD: u64 = 500;
    const ANSWERED: u64 = 20;
    let (held, released) = (AtomicU64::new(0), AtomicBool::new(false));
    // The second shard never gets beyond its first items, so it is alive when it is killed, however
    // long that takes.
    let serve = |mut peer: crate::scripted::Peer| {
        while let Some(path) = peer.request() {
            let id: u64 = path
                .rsplit('/')
                .next()
                .unwrap_or_default()
                .parse()
                .unwrap_or(0);
            if id >= PER_SHARD + ANSWERED {
                held.fetch_add(1, Ordering::SeqCst);
                peer.wait_for_the_end();
                return;
            }
            if (PER_SHARD - 10..PER_SHARD).contains(&id) {
                // The first shard ends after the second.
                wait_for("the second shard's end", || {
                    released.load(Ordering::SeqCst).then_some(())
                });
            }
            peer.send(OK);
        }
    };
    let report = with_server(serve, |address| {
        let run = Run::start(
            format!("http://{address}/{{id}} --ids 0..1k --shards 2 -c 8 --timeout 1h").split(' '),
        );
        wait_for("the second shard to be stuck", || {
            (held.load(Ordering::SeqCst) == 4).then_some(())
        });
        signal(run.shard(1), Signal::SIGKILL);
        released.store(true, Ordering::SeqCst);
        run.end().report(4)
    });
    assert_eq!(report.text("/validity/verdict"), "incomplete");
    let [whole, broken] = report.shards() else {
        panic!("{} shards", report.shards().len())
    };
    assert_eq!(
        (&whole["fault"], &whole["ledger"]["ok"]),
        (&json!(null), &json!(PER_SHARD))
    );
    assert_eq!(broken["exits"], json!(["was ended by SIGKILL"]));
    let [lost, never] =
        ["lost", "not_attempted"].map(|state| broken["ledger"][state].as_u64().unwrap());
    assert!(
        (PER_SHARD - ANSWERED..=PER_SHARD).contains(&(lost + never)),
        "{lost} + {never}"
    );
    assert!(lost >= 4, "{lost} of the 4 that were open");
    assert_eq!(
        report.count("/latency/service/count"),
        PER_SHARD,
        "no times of half a shard"
    );
    assert_eq!(*report.at("/interrupted"), json!(false));
}

#[test]
fn shards_die_with_their_supervisor() {
    let target = Target::start("--processes 1");
    let run = Run::start(format!("{} --ids 0..100m --shards 2 -c 8", target.url()).split(' '));
    target.wait_for_requests(1);
    assert_eq!(run.processes().len(), 3);
    run.signal(Signal::SIGKILL);
    let ended = run.end();
    assert_eq!(ended.killed_by(), Some(Signal::SIGKILL as i32));
    ended.wait_for_its_processes();
    assert!(
        !ended.result().exists(),
        "half a result under the name of a whole one"
    );
}

#[test]
fn the_bundled_target_dies_with_its_supervisor() {
    let run = Run::start("--shards 1 -c 1 --target-processes 2".split(' '));
    run.shard(0);
    assert_eq!(run.processes().len(), 4);
    run.signal(Signal::SIGKILL);
    run.end().wait_for_its_processes();
}

#[test]
fn a_target_that_dies_is_a_fault_of_the_target() {
    // At most 40 items a second for as long as it lives: it dies long before they are done.
    let target = Target::start("--processes 2 --latency 200ms");
    let run = Run::start(format!("{} --ids 0..4k --shards 2 -c 8", target.url()).split(' '));
    target.wait_for_requests(8);
    target.kill();
    let report = run.end().report(0);
    assert_eq!(report.items("ok") + report.items("failed"), 4_000);
    let errors = report.errors();
    // Trying again did not help, and ended with its budget.
    assert_eq!(
        errors.values().sum::<u64>(),
        report.count("/totals/attempts") - report.items("ok")
    );
    assert!(report.count("/totals/retries") > 0 && report.count("/manners/retries_denied") > 0);
    assert!(errors["connect_refused"] > 0);
    let known = [
        "closed",
        "connect_failed",
        "connect_refused",
        "incomplete",
        "reset",
    ];
    assert!(
        errors.keys().all(|kind| known.contains(&kind.as_str())),
        "{errors:?}"
    );
}

#[test]
fn the_bundled_target_is_gone_after_the_run() {
    let run = Run::start("-n 2k --shards 2 -c 8 --target-processes 2".split(' '));
    let ended = run.end();
    // That no process is left is checked for every report.
    ended.report(0).assert_states(&[("ok", 2_000)]);
}
