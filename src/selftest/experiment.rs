//! The experiments: the runs of each, their target and their duration, full and quick, and the
//! figures of a run. Each run has a target and shards of its own, and leaves nothing behind for the
//! next one.

use std::time::Duration;

use crawlmark_harness::clock::Clock;
use crawlmark_harness::stats::{Bounds, Percentile, Series, ShardStats};
use crawlmark_harness::supervisor::{Interval, Live, LiveState, Observer, RunRecord};
use crawlmark_mock_server::{Latency, Ledger};
use crawlmark_results::run::report::{Report, Verdict};
use crawlmark_results::show::text::micros;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::judge::{self, Attempt};
use crate::ab;
use crate::cli::{Row, RunArgs};
use crate::crawl::HoldHeader;
use crate::error::Error;
use crate::run;
use crate::study::{Rounds, understood};
use crate::terminal::Stages;

/// The hold of nearly every answer. No injected time is shorter: what a machine does to a request
/// is small beside it.
pub(super) const HOLD: Duration = Duration::from_millis(20);

/// The hold of some items.
pub(super) const SLOW_HOLD: Duration = Duration::from_millis(500);

/// Share of the slow items, on average; the target chooses them by its seed.
const SLOW_SHARE: f64 = 0.02;

/// The hold of the scaling experiment.
pub(super) const SHARD_HOLD: Duration = Duration::from_millis(50);

/// The hold of the candidate's answers in R8; the base's is [`HOLD`].
pub(super) const CANDIDATE_HOLD: Duration = Duration::from_millis(21);

/// For how long the shard is stopped.
pub(super) const FREEZE: Duration = Duration::from_millis(500);

/// When, after the start.
const FREEZE_AFTER: Duration = Duration::from_millis(800);

/// Requests per second of the open loops.
pub(super) const PER_S: u64 = 200;

/// Connections of the crawl with two holds.
const MODES_CONNECTIONS: u32 = 16;

/// Connections of each shard, and of each run of a pair.
pub(super) const SHARD_CONNECTIONS: u32 = 8;

/// Connections of the open loops: none of their requests may have to wait for one.
const OPEN_CONNECTIONS: u32 = 400;

/// Pairs of R8: as many as the comparison's first look wants.
const PAIRS: u32 = 16;

/// Seed of the target; it decides which items are slow.
const SEED: u64 = 1;

/// The longest an attempt may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Lateness of the target itself: with more, it was the target that was disturbed. What it holds
/// too long it reports as held, but a target that is late for that is late for everything.
const TARGET_LATE_US: u64 = 2_000;

/// Length of the experiments. Tolerances are the same in both forms.
#[derive(Debug)]
pub(super) struct Form {
    /// The name used in results.
    pub(super) name: &'static str,
    /// Time after which no attempt may end; the first ones are always made.
    pub(super) latest_end: Duration,
    /// About how long each of [`EXPERIMENTS`] takes, s.
    takes_s: [f64; 5],
    /// Items of the experiment with two holds.
    modes_items: u64,
    /// The stall, and the runs through it.
    pub(super) scene: Scene,
    /// Duration of each of the scaling runs.
    shards_run: Duration,
    /// Duration of the run in which a shard is stopped.
    freeze_run: Duration,
    /// Items of each run of a pair: as many for each of its connections, so that none of them is
    /// alone at the end.
    pair_items: u64,
}

/// As the table of truth has them.
pub(super) const FULL: Form = Form {
    name: "full",
    latest_end: Duration::MAX,
    takes_s: [6.6, 20.3, 8.3, 4.2, 36.0],
    modes_items: 3_200,
    scene: Scene {
        lasts: Duration::from_secs(10),
        stall: Duration::from_secs(1),
        every: Duration::from_secs(7),
        in_flight: 4,
    },
    shards_run: Duration::from_secs(4),
    freeze_run: Duration::from_secs(4),
    pair_items: 8 * 47,
};

/// For CI.
pub(super) const QUICK: Form = Form {
    name: "quick",
    latest_end: Duration::from_secs(38),
    takes_s: [2.9, 11.3, 3.3, 2.7, 25.0],
    modes_items: 1_200,
    scene: Scene {
        lasts: Duration::from_millis(5_500),
        stall: Duration::from_millis(500),
        every: Duration::from_millis(3_500),
        in_flight: 6,
    },
    shards_run: Duration::from_millis(1_500),
    freeze_run: Duration::from_millis(2_500),
    pair_items: 8 * 30,
};

/// An open or closed loop through one stall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scene {
    /// For how long requests are scheduled.
    lasts: Duration,
    /// For how long the target answers nothing.
    stall: Duration,
    /// The stall ends this long after the target's start, and comes again after as long, when the
    /// run is over.
    every: Duration,
    /// Requests in flight of the closed loop: enough for a 99th percentile, and few enough to hide
    /// the stall from it.
    in_flight: u32,
}

impl Scene {
    /// The `q`-th quantile of the response times of an open loop, s.
    ///
    /// Requests are scheduled at a constant rate for `T`, and each is held for `H`. No answer is
    /// due in the stall of `S`: a request of up to `H` before it is answered at its end, one that
    /// comes in it begins its hold at its end. So of those that come during `H + S`, for each `x`
    /// from `H` to `S + H` those of `S + 2H - x` wait longer than `x`:
    ///
    /// ```text
    /// p_q = max(H, min(S + H, S + 2H - (1 - q) T))
    /// ```
    ///
    /// It takes the stall to lie within the run, and the target for unlimited. A stall that only
    /// keeps requests from being begun is shorter by one `H`.
    pub(super) fn response_s(&self, q: f64) -> f64 {
        let (hold, stall) = (HOLD.as_secs_f64(), self.stall.as_secs_f64());
        let waits = stall + 2.0 * hold - (1.0 - q) * self.lasts.as_secs_f64();
        waits.min(stall + hold).max(hold)
    }

    /// Flags of the open loop, and of the closed one.
    fn flags(&self) -> [String; 2] {
        let Self {
            lasts,
            stall,
            every,
            in_flight,
        } = self;
        let closed = format!("-s 1 -c {in_flight} --target-latency {HOLD:?}");
        [open_loop_flags(), closed]
            .map(|loops| format!("{loops} -d {lasts:?} --target-stall {every:?},{stall:?}"))
    }

    /// Requests that the timetable of the open loop holds.
    pub(super) fn scheduled(&self) -> f64 {
        self.lasts.as_secs_f64() * PER_S as f64
    }
}

/// An experiment, by which one or more rows are judged.
#[derive(Debug)]
pub(super) struct Experiment {
    /// The rows that it is made for.
    pub(super) rows: &'static [Row],
    /// Short description.
    pub(super) does: &'static str,
    /// Make it: an attempt at each of its rows.
    pub(super) make: fn(&Form, &mut Rounds<'_>, u32) -> Result<Vec<Attempt>, Error>,
}

/// All experiments, in the order in which they are made.
pub(super) const EXPERIMENTS: [Experiment; 5] = [
    Experiment {
        rows: &[Row::R1, Row::R2],
        does: "items of 20 and 500 ms",
        make: modes,
    },
    Experiment {
        rows: &[Row::R3, Row::R4, Row::R5],
        does: "through a stall of the target, open and closed loop",
        make: stall,
    },
    Experiment {
        rows: &[Row::R6],
        does: "one shard, then two",
        make: shards,
    },
    Experiment {
        rows: &[Row::R7],
        does: "a shard is stopped for 500 ms",
        make: freeze,
    },
    Experiment {
        rows: &[Row::R8],
        does: "20 against 21 ms, 16 pairs of runs",
        make: pairs,
    },
];

impl Form {
    /// The experiments, and about how long each takes.
    pub(super) fn experiments(&self) -> impl Iterator<Item = (&'static Experiment, Duration)> {
        let takes = self.takes_s.map(Duration::from_secs_f64);
        EXPERIMENTS.iter().zip(takes)
    }
}

fn modes(form: &Form, rounds: &mut Rounds<'_>, _: u32) -> Result<Vec<Attempt>, Error> {
    let run = measure(&modes_flags(form), &mut RunObserver::of(rounds.stages))?;
    Ok(vec![
        judge::modes(&run, slow_items(form)),
        judge::overhead(&run),
    ])
}

fn modes_flags(form: &Form) -> String {
    format!(
        "-s 1 -c {MODES_CONNECTIONS} -n {} --target-latency bimodal:{HOLD:?},{SLOW_HOLD:?},{SLOW_SHARE}",
        form.modes_items
    )
}

/// The items that the target is to hold for long.
fn slow_items(form: &Form) -> u64 {
    let latency = Latency::bimodal(HOLD, SLOW_HOLD, SLOW_SHARE);
    (0..form.modes_items)
        .filter(|id| latency.hold(SEED, *id, 0) == SLOW_HOLD)
        .count() as u64
}

fn stall(form: &Form, rounds: &mut Rounds<'_>, _: u32) -> Result<Vec<Attempt>, Error> {
    let scene = &form.scene;
    let [open, closed] = scene
        .flags()
        .map(|flags| measure(&flags, &mut RunObserver::of(rounds.stages)));
    let (open, closed) = (open?, closed?);
    Ok(vec![
        judge::open_loop(scene, &open),
        judge::closed_loop(scene, &open, &closed),
        judge::achieved(scene, &open),
    ])
}

fn shards(form: &Form, rounds: &mut Rounds<'_>, _: u32) -> Result<Vec<Attempt>, Error> {
    let [one, two] = [1, 2].map(|shards| {
        measure(
            &shards_flags(form, shards),
            &mut RunObserver::of(rounds.stages),
        )
    });
    Ok(vec![judge::scaling(&one?, &two?)])
}

fn shards_flags(form: &Form, shards: u32) -> String {
    format!(
        "-s {shards} -c {} -d {:?} --target-latency {SHARD_HOLD:?}",
        SHARD_CONNECTIONS * shards,
        form.shards_run
    )
}

fn freeze(form: &Form, rounds: &mut Rounds<'_>, _: u32) -> Result<Vec<Attempt>, Error> {
    let mut observer = RunObserver::of(rounds.stages);
    observer.freezes = true;
    let run = measure(&freeze_flags(form), &mut observer)?;
    Ok(vec![judge::freeze(&run, observer.stopped)])
}

fn freeze_flags(form: &Form) -> String {
    format!("{} -d {:?}", open_loop_flags(), form.freeze_run)
}

fn open_loop_flags() -> String {
    format!(
        "-s 1 -c {OPEN_CONNECTIONS} --rate {PER_S} --arrivals constant --target-latency {HOLD:?}"
    )
}

/// Arguments of `run` for a crawl of the bundled target with these flags.
fn arguments(flags: &str) -> Result<RunArgs, Error> {
    let line = format!("{flags} --seed {SEED} --timeout {TIMEOUT:?} --target-processes 1");
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    understood("an experiment", &words)
}

/// Crawl the bundled target, and read the run from the crawl's report and the target's counts.
fn measure(flags: &str, observer: &mut RunObserver<'_>) -> Result<ObservedRun, Error> {
    let (report, record, ledger) =
        run::crawl_bundled(&arguments(flags)?, HoldHeader::Read, observer)?;
    match record.interrupted {
        Some(signal) => Err(Error::Stopped(signal)),
        None => Ok(ObservedRun::new(&report, &record, &ledger)),
    }
}

/// Pairs as `ab` runs and judges them.
fn pairs(form: &Form, rounds: &mut Rounds<'_>, number: u32) -> Result<Vec<Attempt>, Error> {
    let line = format!(
        "--base '--target-latency {HOLD:?}' --cand '--target-latency {CANDIDATE_HOLD:?}' --pairs {PAIRS} -- -c {SHARD_CONNECTIONS} -n {}",
        form.pair_items
    );
    let comparison = ab::compare_pairs(rounds, &line, format!("pairs-{number}"))?;
    Ok(vec![judge::pairs(&comparison)])
}

/// Watches a run, and stops its shard for a while where that is the experiment.
struct RunObserver<'a> {
    stages: &'a mut Stages,
    freezes: bool,
    /// For how long the shard was stopped.
    stopped: Option<Duration>,
}

impl<'a> RunObserver<'a> {
    fn of(stages: &'a mut Stages) -> Self {
        Self {
            stages,
            freezes: false,
            stopped: None,
        }
    }

    /// Stops a process and lets it go on.
    ///
    /// The supervisor waits in the meantime, which changes nothing: its only shard is stopped and
    /// has nothing to say. So the shard goes on whatever happens here; and when this process is
    /// killed, its shards are, too.
    fn freeze(&mut self, pid: i32) {
        let (pid, clock) = (Pid::from_raw(pid), Clock::start());
        if kill(pid, Signal::SIGSTOP).is_ok() {
            std::thread::sleep(FREEZE);
            let _ = kill(pid, Signal::SIGCONT);
            self.stopped = Some(Duration::from_nanos(clock.now().0));
        }
    }
}

impl Observer for RunObserver<'_> {
    fn progress(&mut self, live: &Live) {
        self.stages.show();
        let is_due = self.freezes && self.stopped.is_none() && live.elapsed >= FREEZE_AFTER;
        let mut running = live
            .shards
            .iter()
            .filter(|shard| shard.state == LiveState::Running);
        if let Some(shard) = running.next().filter(|_| is_due && live.stopping.is_none()) {
            self.freeze(shard.pid);
        }
    }

    fn interval(&mut self, _: &Interval) {}
}

/// Figures of a run that the rows need, from its report and from the histograms behind it.
#[derive(Debug, Clone)]
pub(super) struct ObservedRun {
    /// Verdict on the run.
    pub(super) verdict: Verdict,
    /// Reasons of the verdict.
    pub(super) reasons: Vec<String>,
    /// All shards together.
    pub(super) stats: ShardStats,
    /// As reported.
    pub(super) items_per_s: f64,
    /// As reported, of an open loop.
    pub(super) achieved_per_s: Option<f64>,
    /// Requests that the target counted.
    pub(super) asked: u64,
    /// One hold in a hundred ended later than planned by this or more, as the target says, us.
    pub(super) target_late_us: u64,
}

impl ObservedRun {
    /// Counts by the crawl's report and by the target.
    fn new(report: &Report, record: &RunRecord, ledger: &Ledger) -> Self {
        let mut stats = ShardStats::new(Bounds::for_timeout(report.plan.run.timeout));
        for shard in &record.shards {
            shard.stats.add_to(&mut stats);
        }
        let schedule = report.schedule.as_ref();
        let late = ledger.hold_error_us.p99_at_most_us;
        Self {
            verdict: report.validity.verdict,
            reasons: report.reasons(),
            stats,
            items_per_s: report.totals.items_per_s,
            achieved_per_s: schedule.map(|schedule| schedule.achieved_per_s),
            asked: ledger.requests,
            // The counts know it by powers of two, and say the upper end.
            target_late_us: late.map_or(0, |us| us.div_ceil(2)),
        }
    }

    /// Reasons why it is no evidence; nothing when it is.
    ///
    /// A run whose parts do not add up is no noise: it is evidence against.
    pub(super) fn troubles(&self) -> Vec<String> {
        let mut troubles = match self.verdict {
            Verdict::Valid | Verdict::Incomplete => Vec::new(),
            _ => self.reasons.clone(),
        };
        // After a stall an open loop's answers are due all at once, and the last of them late, on a
        // machine however quiet.
        if self.achieved_per_s.is_none() && self.target_late_us > TARGET_LATE_US {
            let late = micros(self.target_late_us as f64);
            troubles.push(format!(
                "the target itself ended 1 % of its holds at least {late} late"
            ));
        }
        troubles
    }

    /// A quantile of a series, us; none when there are too few values for it, or too many were cut
    /// off.
    pub(super) fn quantile_us(&self, series: Series, q: f64) -> Option<f64> {
        match self.stats.timing(series)?.percentile(q) {
            Percentile::Exact(ns) => Some(ns as f64 / 1e3),
            Percentile::AtLeast(_) | Percentile::TooFew => None,
        }
    }

    /// The greatest value of a series, us.
    pub(super) fn max_us(&self, series: Series) -> Option<f64> {
        let exact = self.stats.timing(series)?.exact();
        (exact.count > 0).then(|| exact.max_ns as f64 / 1e3)
    }

    /// Values of a series above `than`.
    pub(super) fn above(&self, series: Series, than: Duration) -> u64 {
        let than_ns = u64::try_from(than.as_nanos()).unwrap_or(u64::MAX - 1);
        self.stats.timing(series).map_or(0, |timing| {
            let (exact, most_ns) = (timing.exact(), timing.exact().max_ns.max(than_ns + 1));
            timing.histogram().count_between(than_ns + 1, most_ns) + exact.overflow
        })
    }

    /// Values of a series, and those of them that are 0.
    pub(super) fn counts(&self, series: Series) -> [u64; 2] {
        self.stats.timing(series).map_or([0; 2], |timing| {
            [timing.exact().count, timing.histogram().count_at(0)]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plan_is_one_that_can_be_run() {
        for form in [&FULL, &QUICK] {
            let [open, closed] = form.scene.flags();
            let others = [modes_flags(form), shards_flags(form, 2), freeze_flags(form)];
            for flags in others.into_iter().chain([open, closed]) {
                let checked = arguments(&flags).and_then(|args| run::check(&args));
                assert!(checked.is_ok(), "{flags}: {checked:?}");
            }
            assert!(form.freeze_run > FREEZE_AFTER + FREEZE + Duration::from_secs(1));
            // The 99th percentile is a slow item by some way, and the 97th none.
            let share = slow_items(form) as f64 / form.modes_items as f64;
            assert!((0.012..0.028).contains(&share), "{share}");
        }
    }

    #[test]
    fn the_quantiles_of_a_stall_are_those_of_its_requests_one_by_one() {
        for form in [&FULL, &QUICK] {
            let scene = form.scene;
            let gap_us = 1_000_000 / PER_S;
            let us = |time: Duration| u64::try_from(time.as_micros()).unwrap();
            let (hold, end) = (us(HOLD), us(scene.every));
            let begin = end - us(scene.stall);
            let answerable = |at: u64| if (begin..end).contains(&at) { end } else { at };
            let mut waits: Vec<u64> = (0..us(scene.lasts) / gap_us)
                .map(|i| i * gap_us)
                .map(|at| answerable(answerable(at) + hold) - at)
                .collect();
            waits.sort_unstable();
            for q in [0.5, 0.95, 0.99, 1.0] {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a rank"
                )]
                let rank = (q * waits.len() as f64).ceil() as usize;
                let (exact_s, said_s) = (waits[rank - 1] as f64 / 1e6, scene.response_s(q));
                // A request more or less.
                assert!(
                    (exact_s - said_s).abs() <= 2.0 * gap_us as f64 / 1e6,
                    "{q}: {exact_s} {said_s}"
                );
            }
        }
    }

    #[test]
    fn a_run_through_a_stall_meets_one_and_has_a_99th_percentile() {
        for form in [&FULL, &QUICK] {
            let Scene {
                lasts,
                stall,
                every,
                in_flight,
            } = form.scene;
            let slack = Duration::from_millis(800);
            // However long the start takes, up to the slack: the first stall is met and over, the
            // second not begun.
            assert!(
                every > stall + slack && every + slack < lasts && lasts + stall + slack < every * 2,
                "{}",
                form.name
            );
            let closed = f64::from(in_flight) * (lasts.as_secs_f64() - stall.as_secs_f64())
                / HOLD.as_secs_f64();
            // A tenth more than needed.
            assert!(
                form.scene.scheduled() >= 1_100.0 && closed >= 1_100.0,
                "{closed}"
            );
            // Those that meet the stall are too few to be seen by the percentile of the closed
            // loop.
            assert!(f64::from(in_flight) < closed * 0.01);
        }
    }
}
