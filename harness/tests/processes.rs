//! What becomes of a run when its shards end well, badly, or not at all: real forks, real signals,
//! no HTTP.
//!
//! A program of its own (`harness = false`): libtest runs tests on threads, and a process with
//! threads must not fork. Nothing here sleeps to synchronise: shards misbehave at a known ID, and
//! the supervisor's own calls to its observer are the moments at which the outside acts.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at its first surprise"
)]

use std::collections::BTreeSet;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use crawlmark_harness::clock::Clock;
use crawlmark_harness::fixtures::{attempt_of, in_flight};
use crawlmark_harness::plan::{RunPlan, ShardPlan};
use crawlmark_harness::process::{ForkError, ShardExit};
use crawlmark_harness::sample::{Attempt, Outcome, Sample};
use crawlmark_harness::stats::{ItemCounts, Series};
use crawlmark_harness::supervisor::{
    Interval, Left, Live, Observer, RunRecord, ShardFault, ShardRecord, SuperviseError, Workloads,
    supervise,
};
use crawlmark_harness::units::IdRange;
use crawlmark_harness::workload::{Clearance, Flight, Workload};
use nix::sys::signal::{Signal, kill, raise};
use nix::unistd::getpid;

/// What a shard does with IDs.
#[derive(Clone, Copy)]
struct Scripted {
    clock: Clock,
    /// At this ID the deed is done.
    at: Option<u64>,
    deed: fn(),
    /// How long each item takes, ms.
    takes_ms: u64,
}

impl Workload for Scripted {
    async fn perform(
        &self,
        id: u64,
        flight: &Flight,
        clearance: &impl Clearance,
        ended: &mut Attempt,
    ) -> Option<()> {
        let sent = clearance.wait().await?;
        flight.note(in_flight(sent, 0, 0));
        tokio::time::sleep(Duration::from_millis(self.takes_ms)).await;
        if self.at == Some(id) {
            (self.deed)();
        }
        *ended = Attempt {
            // The sums of these over a run prove that each ID was performed once.
            bytes_sent: id * id,
            bytes_received: id,
            ..attempt_of(sent, self.clock.now(), Outcome::Ok)
        };
        Some(())
    }
}

fn plan(ids: u64, shards: u32) -> RunPlan {
    RunPlan {
        shards,
        connections: 4 * shards,
        shard_deadline: Duration::from_secs(20),
        ..RunPlan::new("nothing", IdRange { start: 0, end: ids })
    }
}

/// Calls a function at every look at the run, and keeps what it saw.
struct Watch<F> {
    look: F,
    intervals: Vec<(u64, u64)>,
}

impl<F: FnMut(&Live)> Observer for Watch<F> {
    fn progress(&mut self, live: &Live) {
        (self.look)(live);
    }

    fn interval(&mut self, interval: &Interval) {
        self.intervals
            .push((interval.index, interval.merged.counters.items.ended()));
    }
}

fn unwatched() -> Watch<fn(&Live)> {
    Watch {
        look: |_| {},
        intervals: Vec::new(),
    }
}

fn scripted(at: Option<u64>, deed: fn()) -> Scripted {
    Scripted {
        clock: Clock::start(),
        at,
        deed,
        takes_ms: 1,
    }
}

fn run_watched(
    plan: &RunPlan,
    script: Scripted,
    look: impl FnMut(&Live),
) -> (RunRecord, Vec<(u64, u64)>) {
    let mut watch = Watch {
        look,
        intervals: Vec::new(),
    };
    let record = supervise(
        plan,
        script.clock,
        &|_: &ShardPlan| Ok::<_, String>(script),
        &mut watch,
    )
    .unwrap();
    (record, watch.intervals)
}

fn run(plan: &RunPlan, script: Scripted) -> RunRecord {
    run_watched(plan, script, |_| {}).0
}

fn held(shard: &ShardRecord) -> u64 {
    shard.ids.iter().map(IdRange::len).sum()
}

fn whole(record: &RunRecord, shard: usize) -> bool {
    let shard = &record.shards[shard];
    shard.fault.is_none()
        && shard.exit == ShardExit::Clean
        && shard.stats.counters.items.ok == held(shard)
}

fn assert_each_id_once(record: &RunRecord, ids: u64) {
    let counted = |of: fn(&ShardRecord) -> u64| record.shards.iter().map(of).sum::<u64>();
    let received = counted(|shard| shard.stats.counters.requests.bytes_received);
    let sent = counted(|shard| shard.stats.counters.requests.bytes_sent);
    assert_eq!(received, (0..ids).sum::<u64>());
    assert_eq!(sent, (0..ids).map(|id| id * id).sum::<u64>());
    assert_eq!(counted(held), ids);
}

fn clean_shards_perform_every_id_once() {
    for shards in [1, 3] {
        let (record, intervals) = run_watched(&plan(2_000, shards), scripted(None, || ()), |_| {});
        assert!((0..shards as usize).all(|shard| whole(&record, shard)));
        assert_each_id_once(&record, 2_000);
        let timed = |shard: &ShardRecord| shard.stats.exact(Series::ServiceOk).unwrap().count;
        assert_eq!(record.shards.iter().map(timed).sum::<u64>(), 2_000);
        assert_eq!(
            intervals.iter().map(|(_, items)| items).sum::<u64>(),
            2_000,
            "the seconds add up to the run"
        );
        assert!(
            record
                .shards
                .iter()
                .all(|shard| shard.peak_in_flight == 4 && shard.usage.is_some())
        );
        assert_eq!(record.interrupted, None);
        // Nothing goes before the common start, which forking comes before.
        assert!(
            record
                .shards
                .iter()
                .all(|shard| shard.first_sent >= Some(record.start)),
            "{:?}",
            record.start
        );
    }
}

fn a_death_costs_one_shard_and_keeps_the_others() {
    #[expect(clippy::disallowed_methods, reason = "the misbehaviour under test")]
    let silent: fn() = || std::process::exit(0);
    let panics: fn() = || panic!("a bug in the workload");
    for (deed, exit) in [
        (panics, ShardExit::Signal(Signal::SIGABRT as i32)),
        (silent, ShardExit::Clean),
    ] {
        let record = run(&plan(1_000, 2), scripted(Some(600), deed));
        assert!(whole(&record, 0));
        let died = &record.shards[1];
        assert_eq!((died.exit, &died.fault), (exit, &Some(ShardFault::Died)));
    }
}

fn a_hung_shard_is_ended_after_its_deadline() {
    let deed = || loop {
        std::hint::spin_loop();
    };
    let mut run_plan = plan(1_000, 2);
    run_plan.shard_deadline = Duration::from_secs(1);
    let record = run(&run_plan, scripted(Some(600), deed));
    assert!(whole(&record, 0));
    assert_eq!(
        record.shards[1].fault,
        Some(ShardFault::Silent(Duration::from_secs(1)))
    );
    assert_eq!(
        record.shards[1].exit,
        ShardExit::Signal(Signal::SIGKILL as i32)
    );
}

/// A directory with a file for each process of a shard, of the IDs that it ended; the first process
/// of shard 1 is killed.
struct Stored {
    place: tempfile::TempDir,
    clock: Clock,
    /// Error of each later process.
    refuses: Option<&'static str>,
}

struct Storing(Scripted, std::fs::File);

impl Workload for Storing {
    async fn perform(
        &self,
        id: u64,
        flight: &Flight,
        clearance: &impl Clearance,
        ended: &mut Attempt,
    ) -> Option<()> {
        self.0.perform(id, flight, clearance, ended).await
    }

    fn booked(&self, sample: &Sample) {
        (&self.1)
            .write_all(&sample.permit.id.to_le_bytes())
            .unwrap();
    }
}

impl Stored {
    fn new(refuses: Option<&'static str>) -> Self {
        Self {
            place: tempfile::tempdir().unwrap(),
            clock: Clock::start(),
            refuses,
        }
    }

    fn ids(&self) -> Vec<u64> {
        let files = std::fs::read_dir(self.place.path())
            .unwrap()
            .map(|file| std::fs::read(file.unwrap().path()).unwrap());
        let ids = files.flat_map(|bytes| {
            bytes
                .chunks(8)
                .map(|id| u64::from_le_bytes(id.try_into().unwrap()))
                .collect::<Vec<_>>()
        });
        ids.collect()
    }
}

impl Workloads for Stored {
    type Workload = Storing;
    type Error = &'static str;

    fn build(&self, plan: &ShardPlan) -> Result<Storing, &'static str> {
        let file = std::fs::File::create(
            self.place
                .path()
                .join(format!("{}-{}", plan.shard, plan.life)),
        )
        .unwrap();
        let at = Some(5_500).filter(|_| plan.life == 0);
        let script = Scripted {
            clock: self.clock,
            at,
            deed: || kill(getpid(), Signal::SIGKILL).unwrap(),
            takes_ms: 1,
        };
        self.refuses
            .filter(|_| plan.life > 0)
            .map_or(Ok(Storing(script, file)), Err)
    }

    fn left(&self, _: &ShardPlan, held: &[IdRange]) -> Option<Left> {
        let ended: BTreeSet<u64> = self.ids().into_iter().collect();
        let (ids, ended): (Vec<u64>, Vec<u64>) = held
            .iter()
            .flat_map(|range| range.start..range.end)
            .partition(|id| !ended.contains(id));
        let mut ids: Vec<IdRange> = ids
            .into_iter()
            .map(|id| IdRange {
                start: id,
                end: id + 1,
            })
            .collect();
        ids.sort_by_key(|range| range.start);
        Some(Left {
            ids,
            items: ItemCounts {
                ok: ended.len() as u64,
                ..ItemCounts::default()
            },
        })
    }
}

fn a_killed_shard_is_replaced_and_every_id_ends_once() {
    let (stored, run_plan) = (Stored::new(None), plan(6_000, 2));
    let mut seen = BTreeSet::new();
    let look = |live: &Live| {
        seen.insert(format!(
            "{:?} {:?}",
            live.shards[1].state,
            live.shards[1].replaced.map(|(times, _)| times)
        ));
    };
    let mut watch = Watch {
        look,
        intervals: Vec::new(),
    };
    let record = supervise(&run_plan, stored.clock, &stored, &mut watch).unwrap();
    let mut ids = stored.ids();
    ids.sort_unstable();
    assert_eq!(ids, (0..6_000).collect::<Vec<_>>());
    assert!(whole(&record, 0) && whole(&record, 1), "{record:?}");
    assert_eq!(held(&record.shards[0]) + held(&record.shards[1]), 6_000);
    let [past] = &record.shards[1].past[..] else {
        panic!("{:?}", record.shards[1].past)
    };
    assert_eq!(
        (past.exit, &past.fault),
        (ShardExit::Signal(Signal::SIGKILL as i32), &ShardFault::Died)
    );
    assert_ne!(past.pid, record.shards[1].pid);
    // The seconds go on, each once.
    assert!(
        watch.intervals.is_sorted_by(|a, b| a.0 + 1 == b.0),
        "{:?}",
        watch.intervals
    );
    assert!(
        seen.contains("Restarting None") && seen.contains("Running Some(1)"),
        "{seen:?}"
    );
}

fn a_shard_that_cannot_be_replaced_is_gone_without() {
    let stored = Stored::new(Some("no such directory"));
    let record = supervise(&plan(6_000, 2), stored.clock, &stored, &mut unwatched()).unwrap();
    assert!(whole(&record, 0));
    let refused = ShardFault::Refused("no such directory".to_owned());
    assert_eq!(
        (record.shards[1].past.len(), record.shards[1].fault.as_ref()),
        (3, Some(&refused))
    );
}

/// A run of four shards of which the first takes four times as long for an item: what it came to,
/// and how long.
fn one_slow_shard(plan: &RunPlan) -> (RunRecord, f64) {
    let clock = Clock::start();
    let script = |shard: &ShardPlan| {
        Ok::<_, String>(Scripted {
            clock,
            at: None,
            deed: || (),
            takes_ms: if shard.shard == 0 { 40 } else { 10 },
        })
    };
    let record = supervise(plan, clock, &script, &mut unwatched()).unwrap();
    let took = record
        .shards
        .iter()
        .map(|shard| shard.last_done.since(record.start))
        .max()
        .unwrap();
    assert_each_id_once(&record, plan.ids.end);
    let mut held: Vec<IdRange> = record
        .shards
        .iter()
        .flat_map(|shard| shard.ids.clone())
        .collect();
    held.sort_by_key(|range| range.start);
    assert!(
        held.windows(2).all(|pair| pair[0].end == pair[1].start),
        "no ID belongs to two shards: {held:?}"
    );
    (record, took as f64 / 1e9)
}

/// What the shards bear together, in items per second, by the times that their items really took.
fn capacity(record: &RunRecord) -> f64 {
    let bears = |shard: &ShardRecord| {
        let exact = *shard.stats.exact(Series::ServiceOk).unwrap();
        f64::from(shard.plan.connections) * exact.count as f64 * 1e9 / exact.sum_ns as f64
    };
    record.shards.iter().map(bears).sum()
}

fn a_slow_shard_does_not_decide_when_a_run_ends() {
    let run_plan = plan(3_900, 4);
    let (record, took) = one_slow_shard(&run_plan);
    let ideal = 3_900.0 / capacity(&record);
    assert!(took <= 1.1 * ideal, "{took} s, where {ideal} s are ideal");
    assert!(
        record.moved.ranges > 0 && record.moved.ids >= 500,
        "{:?}",
        record.moved
    );
}

fn a_workload_that_cannot_be_built_stops_the_run_with_its_reason() {
    let clock = Clock::start();
    let build = |shard: &ShardPlan| {
        if shard.shard == 1 {
            Err("no such host")
        } else {
            Ok(scripted(None, || ()))
        }
    };
    let error = supervise(&plan(10, 2), clock, &build, &mut unwatched()).unwrap_err();
    assert!(
        matches!(&error, SuperviseError::Refused { shard: 1, why } if why == "no such host"),
        "{error}"
    );
}

fn a_shard_that_dies_before_the_start_stops_the_run() {
    let clock = Clock::start();
    let build = |shard: &ShardPlan| -> Result<Scripted, String> {
        if shard.shard == 1 {
            raise(Signal::SIGKILL).unwrap();
        }
        Ok(scripted(None, || ()))
    };
    let error = supervise(&plan(10, 2), clock, &build, &mut unwatched()).unwrap_err();
    assert!(error.to_string().contains("SIGKILL"), "{error}");
}

fn a_second_thread_forbids_the_fork() {
    std::thread::scope(|scope| {
        let (release, wait) = std::sync::mpsc::channel::<()>();
        scope.spawn(move || wait.recv());
        let script = scripted(None, || ());
        let error = supervise(
            &plan(10, 1),
            script.clock,
            &|_: &ShardPlan| Ok::<_, String>(script),
            &mut unwatched(),
        )
        .unwrap_err();
        assert!(
            matches!(error, SuperviseError::Fork(ForkError::Threads(2))),
            "{error}"
        );
        drop(release);
    });
    // The kernel lists a thread for a moment after it was joined; the next test needs to fork.
    while std::fs::read_dir("/proc/self/task").unwrap().count() > 1 {
        std::thread::yield_now();
    }
}

fn no_child_and_no_descriptor_is_left_behind() {
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = open();
    run(&plan(100, 3), scripted(None, || ()));
    a_killed_shard_is_replaced_and_every_id_ends_once();
    assert_eq!(open(), before);
    assert_eq!(nix::sys::wait::wait(), Err(nix::errno::Errno::ECHILD));
}

type Test = (&'static str, fn());

/// The names of the listed functions, beside them.
macro_rules! tests {
    ($($name:ident),* $(,)?) => { [$((stringify!($name), $name as fn())),*] };
}

fn main() -> ExitCode {
    let tests: [Test; 10] = tests![
        clean_shards_perform_every_id_once,
        a_death_costs_one_shard_and_keeps_the_others,
        a_killed_shard_is_replaced_and_every_id_ends_once,
        a_shard_that_cannot_be_replaced_is_gone_without,
        a_hung_shard_is_ended_after_its_deadline,
        a_slow_shard_does_not_decide_when_a_run_ends,
        a_workload_that_cannot_be_built_stops_the_run_with_its_reason,
        a_shard_that_dies_before_the_start_stops_the_run,
        a_second_thread_forbids_the_fork,
        no_child_and_no_descriptor_is_left_behind,
    ];
    run_tests(&tests)
}

/// Run one test in this process, or each of several in a process of its own, all at once: they
/// mostly wait. Return what each that failed printed.
fn results(tests: &[&Test]) -> Vec<(&'static str, Result<(), String>)> {
    if let [(name, test)] = tests {
        let passed = catch_unwind(AssertUnwindSafe(test));
        return vec![(name, passed.map_err(|_| String::new()))];
    }
    let program = std::env::current_exe().unwrap();
    let start = |name: &'static str| {
        Command::new(&program)
            .args([name, "--exact"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let running: Vec<_> = tests.iter().map(|(name, _)| (*name, start(name))).collect();
    let ended = running.into_iter().map(|(name, child)| {
        let ended = child.wait_with_output().unwrap();
        let said = [ended.stdout, ended.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        (name, ended.status.success().then_some(()).ok_or(said))
    });
    ended.collect()
}

/// Run the tests; understands as much of libtest's command line as cargo's runners use.
fn run_tests(tests: &[Test]) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let filter = arguments.iter().find(|argument| !argument.starts_with('-'));
    let exact = arguments.iter().any(|argument| argument == "--exact");
    let chosen = |name: &str| {
        filter.is_none_or(|filter| {
            if exact {
                name == filter
            } else {
                name.contains(filter)
            }
        })
    };
    let mut out = std::io::stdout();
    if arguments.iter().any(|argument| argument == "--list") {
        let ignored = arguments.iter().any(|argument| argument == "--ignored");
        tests
            .iter()
            .filter(|_| !ignored)
            .for_each(|(name, _)| writeln!(out, "{name}: test").unwrap());
        return ExitCode::SUCCESS;
    }
    let chosen: Vec<&Test> = tests.iter().filter(|(name, _)| chosen(name)).collect();
    writeln!(out, "\nrunning {} tests", chosen.len()).unwrap();
    let mut failed = 0;
    for (name, result) in results(&chosen) {
        let word = if result.is_ok() { "ok" } else { "FAILED" };
        writeln!(out, "test {name} ... {word}").unwrap();
        if let Err(said) = result {
            writeln!(out, "{said}").unwrap();
            failed += 1;
        }
    }
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    let (passed, filtered) = (chosen.len() - failed, tests.len() - chosen.len());
    writeln!(
        out,
        "\ntest result: {verdict}. {passed} passed; {failed} failed; 0 ignored; 0 measured; {filtered} filtered out\n"
    )
    .unwrap();
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
