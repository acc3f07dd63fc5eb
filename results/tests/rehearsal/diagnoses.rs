//! Truth table of `--diagnose`: runs and their experiments against targets whose fault is known,
//! and against healthy ones behind limits of the client.

use crawlmark_harness::plan::PerHost;
use crawlmark_results::judge::{experiment_plan, next_experiment};
use crawlmark_results::run::report::{Change, Experiment};

use super::*;

/// Diagnoses of each kind.
const TRIALS: u64 = 40;

/// What a target does with a request.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// Works on so many at a time.
    Workers(u32),
    /// Lets a request through after each of these times, and works on all that it let through.
    Limit(Duration),
    /// Works on all.
    Nothing,
}

/// A target, the client before it, and what is drawn.
struct Simulated {
    fault: Fault,
    work: Duration,
    /// The work of a request is this, or a lognormal one with this median.
    sigma: f64,
    /// Requests of an item.
    requests: u32,
    /// The client opens a connection for each request, one in each of these times.
    connects: Option<Duration>,
    draw: fastrand::Rng,
    /// When each worker, or the limit, is free again.
    free: Vec<Nanos>,
    next_connect: Nanos,
}

impl Simulated {
    fn new(fault: Fault, work: Duration, seed: u64) -> Self {
        let workers = if let Fault::Workers(workers) = fault {
            workers as usize
        } else {
            1
        };
        Self {
            fault,
            work,
            sigma: 0.0,
            requests: 1,
            connects: None,
            draw: fastrand::Rng::with_seed(seed),
            free: vec![Nanos::default(); workers],
            next_connect: Nanos::default(),
        }
    }

    /// The end of a request that arrives now.
    fn done(&mut self, sent: Nanos) -> Nanos {
        let normal = (-2.0 * (1.0 - self.draw.f64()).ln()).sqrt()
            * (std::f64::consts::TAU * self.draw.f64()).cos();
        let work = self.work.mul_f64((self.sigma * normal).exp());
        let free = self.free.iter_mut().min().unwrap();
        let begins = sent.max(*free);
        match self.fault {
            Fault::Workers(_) => *free = begins.plus(work),
            Fault::Limit(each) => *free = begins.plus(each),
            Fault::Nothing => return sent.plus(work),
        }
        begins.plus(work)
    }

    /// When the connection of a request that is ready now is open.
    fn connected(&mut self, now: Nanos) -> Nanos {
        let open = now.max(self.next_connect);
        self.next_connect = open.plus(self.connects.unwrap_or_default());
        open
    }
}

struct Client {
    clock: Clock,
    target: Rc<RefCell<Simulated>>,
}

impl Workload for Client {
    async fn perform(
        &self,
        _: u64,
        flight: &Flight,
        clearance: &impl Clearance,
        ended: &mut Attempt,
    ) -> Option<()> {
        let now = self.clock.now();
        let open = self.target.borrow_mut().connected(now);
        tokio::time::sleep(Duration::from_nanos(open.since(now))).await;
        let sent = clearance.wait().await?;
        flight.note(in_flight(sent, 0, 0));
        let done = self.target.borrow_mut().done(sent);
        tokio::time::sleep(Duration::from_nanos(done.since(sent))).await;
        let mut answer = GOOD;
        if flight.attempt() + 1 < self.target.borrow().requests {
            (answer.0, answer.1.repeat) = (Outcome::Stepped, Repeat::Follow);
        }
        *ended = attempt(Some(sent), self.clock.now(), answer);
        Some(())
    }
}

/// A run against a target, and every experiment that it leaves to make.
fn diagnosed(plan: &RunPlan, target: impl Fn() -> Simulated) -> Report {
    let run = |plan: &RunPlan| {
        let target = Rc::new(RefCell::new(target()));
        rehearse(plan, &[], |_, clock| Client {
            clock,
            target: Rc::clone(&target),
        })
        .unwrap()
        .as_it_is(plan)
    };
    let mut report = run(plan);
    while let Some(change) = next_experiment(&report) {
        let plan = experiment_plan(plan, change, &report).unwrap();
        let seen = run(&plan);
        report.experiments.push(Experiment::of(change, &seen));
        assert!(report.experiments.len() <= 4);
    }
    report.judge();
    report
}

/// A closed loop of 2 s.
fn closed_loop(connections: u32) -> RunPlan {
    RunPlan {
        duration: Some(2 * S),
        ..run_of(1, connections, 1 << 40)
    }
}

fn ms(ms: f64) -> Duration {
    Duration::from_secs_f64(ms / 1e3)
}

/// What was named, of what sets the rate.
fn named(report: &Report) -> Option<&Finding> {
    let mut findings = report.findings.iter();
    findings.find(|it| {
        matches!(
            it,
            Finding::WorksOnFew { .. } | Finding::DelayingLimit { .. }
        )
    })
}

/// Diagnoses of one kind by a seed, and how many name the right thing, nothing, and another thing.
fn counted(trial: impl Fn(&mut fastrand::Rng, u64) -> (Report, fn(&Finding) -> bool)) -> [u64; 3] {
    let mut counts = [0; 3];
    for seed in 0..TRIALS {
        let (report, is_right) = trial(&mut fastrand::Rng::with_seed(seed), seed);
        let result = match named(&report) {
            Some(finding) if is_right(finding) => 0,
            None => 1,
            Some(_) => 2,
        };
        counts[result] += 1;
    }
    counts
}

fn never(_: &Finding) -> bool {
    false
}

#[test]
fn workers_are_counted_whatever_their_work_and_the_requests_of_an_item() {
    let counts = counted(|draw, seed| {
        let (workers, work) = (draw.u32(1..=6), ms(8.0 + 25.0 * draw.f64()));
        let (sigma, requests) = (0.6 * draw.f64(), draw.u32(1..=3));
        let connections = workers * draw.u32(2..=5);
        let mut report = diagnosed(&closed_loop(connections), || Simulated {
            sigma,
            requests,
            ..Simulated::new(Fault::Workers(workers), work, seed)
        });
        // The number in the finding beside the true one.
        for finding in &mut report.findings {
            if let Finding::WorksOnFew { at_a_time, .. } = finding {
                *at_a_time -= f64::from(workers);
            }
        }
        (
            report,
            |finding| matches!(finding, Finding::WorksOnFew { at_a_time, .. } if at_a_time.abs() < 1.5),
        )
    });
    assert_eq!(counts[2], 0, "right, silent, wrong: {counts:?}");
    assert!(counts[0] * 100 >= TRIALS * 90, "{counts:?}");
}

/// From a limit whose work takes 0.9 to 1.2 times the time between two requests, a single worker
/// cannot be told.
#[test]
fn a_limit_that_delays_is_named_before_short_work_and_before_long_and_is_no_worker() {
    let counts = counted(|draw, seed| {
        let each_ms = 5.0 + 15.0 * draw.f64();
        let times = if draw.bool() {
            0.1 + 0.75 * draw.f64()
        } else {
            1.25 + 6.0 * draw.f64()
        };
        let work = ms(each_ms * times);
        let connections = 16 + draw.u32(0..32);
        let requests = draw.u32(1..=3);
        let report = diagnosed(&closed_loop(connections), || Simulated {
            requests,
            ..Simulated::new(Fault::Limit(ms(each_ms)), work, seed)
        });
        (report, |finding| {
            matches!(finding, Finding::DelayingLimit { .. })
        })
    });
    assert_eq!(counts[2], 0, "right, silent, wrong: {counts:?}");
    assert!(counts[0] * 100 >= TRIALS * 75, "{counts:?}");
}

#[test]
fn a_limit_of_the_client_is_none_of_the_target() {
    let counts = counted(|draw, seed| {
        let (work, sigma) = (ms(10.0 + 40.0 * draw.f64()), 0.6 * draw.f64());
        let mut plan = closed_loop(4 + draw.u32(0..28));
        let mut connects = None;
        match draw.u32(0..3) {
            0 => {
                plan.per_host = PerHost {
                    connections: Some(draw.u32(1..4)),
                    ..PerHost::default()
                };
            }
            1 => connects = Some(ms(5.0 + 45.0 * draw.f64())),
            // None at all.
            _ => {}
        }
        let report = diagnosed(&plan, || Simulated {
            sigma,
            connects,
            ..Simulated::new(Fault::Nothing, work, seed)
        });
        (report, never)
    });
    assert_eq!(counts[2], 0, "right, silent, wrong: {counts:?}");
}

#[test]
fn experiments_of_several_shards_and_streams_are_waves_of_what_is_worked_on() {
    let mut plan = closed_loop(12);
    (plan.shards, plan.streams, plan.burst, plan.at_start) = (2, 4, 2, 2);
    let report = diagnosed(&plan, || Simulated::new(Fault::Limit(10 * MS), 40 * MS, 1));
    let waves = report.experiment(Change::Waves).unwrap();
    assert_eq!(waves.connections, 4);
    assert!(matches!(
        named(&report),
        Some(Finding::DelayingLimit { .. })
    ));
}
