//! The experiments: the runs of each, their target and their duration. Each run has a target and
//! shards of its own, and leaves nothing behind for the next one.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use crawlmark_harness::clock::Clock;
use crawlmark_harness::plan::{Arrivals, Pinning, RunPlan};
use crawlmark_harness::supervisor::{Interval, Live, LiveState, Observer};
use crawlmark_harness::units::{IdRange, Rate};
use crawlmark_mock_server::{Config, Latency, Stall};
use crawlmark_results::run::report::{Environment, Labels, Placement, Report, Source};
use crawlmark_results::studies::compare::{Disturbance, Order, OrderSchedule};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::form::{
    FREEZE, FREEZE_AFTER, Form, HOLD, PER_S, SHARD_CONNECTIONS, SHARD_HOLD, SLOW_HOLD, SLOW_SHARE,
    crawl_takes, run_takes,
};
use super::judge::ExperimentRuns;
use super::pairs::{CANDIDATE_HOLD, MOST_DISTURBED, PAIRS, pair};
use super::seen::ObservedRun;
use crate::cli::Row;
use crate::crawl::{
    CrawlOptions, CrawlSpec, Expectations, HoldHeader, HttpSettings, RequestShape, Reuse, Targets,
    Template,
};
use crate::error::Error;
use crate::measure;
use crate::target::Target;
use crate::terminal::Stages;

/// Seed of the target; it decides which items are slow.
const SEED: u64 = 1;

/// Connections of the crawl with two holds.
const MODES_CONNECTIONS: u32 = 16;

/// Connections of each run of a pair.
const PAIR_CONNECTIONS: u32 = 8;

/// Connections of the open loops: none of their requests may have to wait for one.
const OPEN_CONNECTIONS: u32 = 400;

/// IDs enough for any run that ends by time.
const MANY: u64 = 10_000_000;

/// The longest an attempt may take.
const TIMEOUT: Duration = Duration::from_secs(5);

const SECOND_NS: u64 = 1_000_000_000;

/// Experiment, by which one or more rows are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Experiment {
    /// A crawl of items of two holds.
    Modes,
    /// An open and a closed loop through a stall.
    Stall,
    /// One shard, then two.
    Shards,
    /// An open loop whose shard is stopped.
    Freeze,
    /// Two targets, one after the other, many times.
    Pairs,
}

impl Experiment {
    /// All, in the order in which they are made.
    pub(super) const ALL: [Self; 5] = [
        Self::Modes,
        Self::Stall,
        Self::Shards,
        Self::Freeze,
        Self::Pairs,
    ];

    /// The rows that it is made for.
    pub(super) const fn rows(self) -> &'static [Row] {
        match self {
            Self::Modes => &[Row::R1, Row::R2],
            Self::Stall => &[Row::R3, Row::R4, Row::R5],
            Self::Shards => &[Row::R6],
            Self::Freeze => &[Row::R7],
            Self::Pairs => &[Row::R8],
        }
    }

    /// Return a short description.
    pub(super) const fn does(self) -> &'static str {
        match self {
            Self::Modes => "items of 20 and 500 ms",
            Self::Stall => "through a stall of the target, open and closed loop",
            Self::Shards => "one shard, then two",
            Self::Freeze => "a shard is stopped for 500 ms",
            Self::Pairs => "20 against 21 ms, 16 pairs of runs",
        }
    }

    /// About how long it takes to judge these of its rows.
    pub(super) fn takes(self, form: Form, rows: &[Row]) -> Duration {
        match self {
            Self::Modes => {
                let mean = HOLD.mul_f64(1.0 - SLOW_SHARE) + SLOW_HOLD.mul_f64(SLOW_SHARE);
                // And the last slow one.
                crawl_takes(form.modes_items(), MODES_CONNECTIONS, mean) + SLOW_HOLD
            }
            Self::Stall => {
                run_takes(form.scene().lasts) * if rows.contains(&Row::R4) { 2 } else { 1 }
            }
            Self::Shards => run_takes(form.shards_run()) * 2,
            Self::Freeze => run_takes(form.freeze_run()),
            Self::Pairs => {
                let run = |hold| crawl_takes(form.pair_items(), PAIR_CONNECTIONS, hold);
                (run(HOLD) + run(CANDIDATE_HOLD)) * u32::try_from(PAIRS).unwrap_or(u32::MAX)
            }
        }
    }

    /// Makes it, as far as these of its rows need it.
    ///
    /// # Errors
    /// When a run could not be made. One that a signal stopped ends with [`Error::Stopped`].
    pub(super) fn make(
        self,
        form: Form,
        rows: &[Row],
        stages: &mut Stages,
    ) -> Result<ExperimentRuns, Error> {
        match self {
            Self::Modes => {
                let setup = Setup::modes(form.modes_items());
                let slow = (0..setup.ids)
                    .filter(|id| setup.config.latency.hold(SEED, *id, 0) == SLOW_HOLD)
                    .count();
                Ok(ExperimentRuns::Modes {
                    run: setup.measure(&mut RunObserver::of(stages))?,
                    slow: slow as u64,
                })
            }
            Self::Stall => {
                let setup = Setup::stall(form)?;
                let open = setup
                    .clone()
                    .open_loop()
                    .measure(&mut RunObserver::of(stages))?;
                let closed = rows
                    .contains(&Row::R4)
                    .then(|| setup.measure(&mut RunObserver::of(stages)))
                    .transpose()?;
                Ok(ExperimentRuns::Stall {
                    scene: form.scene(),
                    open,
                    closed,
                })
            }
            Self::Shards => Ok(ExperimentRuns::Shards {
                one: Setup::shards(form, 1).measure(&mut RunObserver::of(stages))?,
                two: Setup::shards(form, 2).measure(&mut RunObserver::of(stages))?,
            }),
            Self::Freeze => {
                let mut watch = RunObserver {
                    freezes: true,
                    ..RunObserver::of(stages)
                };
                let run = Setup::freeze(form).open_loop().measure(&mut watch)?;
                Ok(ExperimentRuns::Freeze {
                    run,
                    stopped: watch.stopped,
                })
            }
            Self::Pairs => pairs(form, stages),
        }
    }
}

/// Pairs of runs of the two targets, until enough of them were undisturbed, or too many were not.
/// One that was disturbed is run again in its own order.
fn pairs(form: Form, stages: &mut Stages) -> Result<ExperimentRuns, Error> {
    let mut run = |hold| Setup::pairs(form, hold).measure(&mut RunObserver::of(stages));
    let (mut pairs, mut troubles) = (Vec::new(), Vec::new());
    let (mut disturbed, mut orders) = (0, OrderSchedule::new(SEED).take(PAIRS));
    let mut next = orders.next();
    while let Some(order) = next.filter(|_| disturbed <= MOST_DISTURBED) {
        let (base, candidate) = match order {
            Order::BaseFirst => (run(HOLD)?, run(CANDIDATE_HOLD)?),
            Order::CandidateFirst => {
                let candidate = run(CANDIDATE_HOLD)?;
                (run(HOLD)?, candidate)
            }
        };
        let pair = pair(order, &base, &candidate);
        if pair.disturbance == Disturbance::None {
            next = orders.next();
        } else {
            disturbed += 1;
            troubles.extend(base.troubles().into_iter().chain(candidate.troubles()));
        }
        pairs.push(pair);
    }
    Ok(ExperimentRuns::Pairs { pairs, troubles })
}

/// A run: what target, and how it is crawled.
#[derive(Debug, Clone)]
struct Setup {
    config: Config,
    shards: u32,
    connections: u32,
    ids: u64,
    duration: Option<Duration>,
    arrivals: Arrivals,
    held: HoldHeader,
}

impl Setup {
    fn closed_loop(hold: Duration) -> Self {
        Self {
            config: Config {
                seed: SEED,
                latency: Latency::Fixed(hold),
                ..Config::default()
            },
            shards: 1,
            connections: SHARD_CONNECTIONS,
            ids: MANY,
            duration: None,
            arrivals: Arrivals::Asap,
            held: HoldHeader::Ignored,
        }
    }

    fn modes(ids: u64) -> Self {
        let mut setup = Self {
            connections: MODES_CONNECTIONS,
            ids,
            held: HoldHeader::Read,
            ..Self::closed_loop(HOLD)
        };
        setup.config.latency = Latency::Bimodal {
            first: HOLD,
            second: SLOW_HOLD,
            share_of_second: SLOW_SHARE,
        };
        setup
    }

    fn stall(form: Form) -> Result<Self, Error> {
        let scene = form.scene();
        let mut setup = Self::closed_loop(HOLD);
        let [every, length] = [scene.every, scene.stall].map(|time| time.as_micros());
        let stall: Stall = format!("{every}us,{length}us").parse().map_err(usage)?;
        setup.config.stall = Some(stall);
        Ok(Self {
            connections: scene.in_flight,
            duration: Some(scene.lasts),
            ..setup
        })
    }

    fn shards(form: Form, shards: u32) -> Self {
        let connections = SHARD_CONNECTIONS * shards;
        Self {
            shards,
            connections,
            duration: Some(form.shards_run()),
            ..Self::closed_loop(SHARD_HOLD)
        }
    }

    fn freeze(form: Form) -> Self {
        Self {
            duration: Some(form.freeze_run()),
            ..Self::closed_loop(HOLD)
        }
    }

    fn pairs(form: Form, hold: Duration) -> Self {
        Self {
            connections: PAIR_CONNECTIONS,
            ids: form.pair_items(),
            ..Self::closed_loop(hold)
        }
    }

    fn open_loop(self) -> Self {
        Self {
            connections: OPEN_CONNECTIONS,
            arrivals: Arrivals::Constant,
            ..self
        }
    }

    fn measure(&self, watch: &mut RunObserver<'_>) -> Result<ObservedRun, Error> {
        let target = Target::start(
            SocketAddr::from(([127, 0, 0, 1], 0)),
            NonZeroUsize::MIN,
            &self.config,
        )?;
        let address = target.address();
        let template: Template = format!("http://{address}/items/{{id}}")
            .parse()
            .map_err(usage)?;
        let plan = self.plan(template.to_string()).validate().map_err(usage)?;
        let spec = CrawlSpec {
            addresses: vec![vec![address]],
            targets: Arc::new(Targets::one(&template).map_err(usage)?),
            request: RequestShape::new("GET", &[], Bytes::new()).map_err(usage)?,
            expect: Expectations::items(SEED),
            timeout: TIMEOUT,
            connect_timeout: TIMEOUT,
            reuse: Reuse::default(),
            local_ips: None,
            held: self.held,
            tls: None,
            proxies: None,
            http: HttpSettings::default(),
            options: CrawlOptions::default(),
        };
        let record = measure::crawl(&plan, &spec, Clock::start(), watch)?;
        if let Some(signal) = record.interrupted {
            return Err(Error::Stopped(signal));
        }
        let mut report = Report::new(Source {
            plan: &plan,
            labels: &Labels::default(),
            record: &record,
            intervals: Vec::new(),
            environment: Environment::read(Placement::Colocated),
        });
        let ledger = measure::compare_with_ledger(&mut report, target);
        Ok(ObservedRun::new(&report, &record, &ledger))
    }

    fn plan(&self, target: String) -> RunPlan {
        RunPlan {
            shards: self.shards,
            connections: self.connections,
            rate: self.arrivals.gaps().map(|_| Rate {
                permits: PER_S,
                period_ns: SECOND_NS,
            }),
            arrivals: self.arrivals,
            duration: self.duration,
            grace: TIMEOUT,
            timeout: TIMEOUT,
            seed: SEED,
            pinning: Pinning::PerCpu,
            ..RunPlan::new(
                target,
                IdRange {
                    start: 0,
                    end: self.ids,
                },
            )
        }
    }
}

/// Turn an error into a usage error that keeps its text: no argument that was typed is at fault
/// here.
fn usage(error: impl std::fmt::Display) -> Error {
    Error::Usage(error.to_string())
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
        let shard = live
            .shards
            .iter()
            .find(|shard| shard.state == LiveState::Running);
        if let Some(shard) = shard.filter(|_| is_due && live.stopping.is_none()) {
            self.freeze(shard.pid);
        }
    }

    fn interval(&mut self, _: &Interval) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_has_one_experiment() {
        for row in Row::ALL {
            assert_eq!(
                Experiment::ALL
                    .iter()
                    .filter(|experiment| experiment.rows().contains(&row))
                    .count(),
                1,
                "{row}"
            );
        }
    }

    #[test]
    fn as_many_items_are_slow_as_the_percentiles_of_their_row_need() {
        for form in [Form::Full, Form::Quick] {
            let setup = Setup::modes(form.modes_items());
            let slow = (0..setup.ids)
                .filter(|id| setup.config.latency.hold(SEED, *id, 0) == SLOW_HOLD)
                .count() as f64;
            // The 99th percentile is one of them by some way, and the 97th none.
            let share = slow / setup.ids as f64;
            assert!(
                (0.012..0.028).contains(&share) && setup.ids >= 1_000,
                "{form:?}: {share}"
            );
        }
    }

    #[test]
    fn every_plan_is_one_that_can_be_run() {
        for form in [Form::Full, Form::Quick] {
            let stall = Setup::stall(form).unwrap();
            for setup in [
                stall.clone(),
                stall.open_loop(),
                Setup::modes(9),
                Setup::shards(form, 2),
                Setup::freeze(form).open_loop(),
                Setup::pairs(form, HOLD),
            ] {
                assert!(setup.plan(String::new()).validate().is_ok(), "{setup:?}");
            }
            assert!(form.freeze_run() > FREEZE_AFTER + FREEZE + Duration::from_secs(1));
        }
    }
}
