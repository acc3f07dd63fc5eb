//! A world drawn from a seed: a plan, a target, a disk and incidents; and a run in it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use crawlmark_harness::clock::{Clock, Nanos, duration_ns};
use crawlmark_harness::fixtures::in_flight;
use crawlmark_harness::plan::{Arrivals, OnThrottle, RunPlan, ShardPlan};
use crawlmark_harness::rehearse::{Incident, Rehearsal, RehearseError, rehearse_replacing};
use crawlmark_harness::sample::{Advice, Attempt, ErrorKind, Fate, Outcome, Repeat, Sample};
use crawlmark_harness::stats::{FailureCause, ItemCounts};
use crawlmark_harness::supervisor::{
    Interval, Left, Live, LiveShard, LiveState, Observer, SuperviseError,
};
use crawlmark_harness::units::{IdRange, Rate, RateShape};
use crawlmark_harness::workload::{Clearance, Flight, Workload};
use fastrand::Rng;

/// When a run that does not end by itself is asked to, three times. A target that refuses at random,
/// whatever the rate, has a shard go down to the slowest rate that is learnt, 0.1/s: some hundred
/// items and their retries then take most of this time.
pub(crate) const ENDLESS: Duration = Duration::from_hours(4);

/// Everything that a run is made of.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) plan: RunPlan,
    target: TargetScript,
    disk: Disk,
    /// True if shards that die are replaced, from what they stored.
    pub(crate) replaces: bool,
    pub(crate) incidents: Vec<Incident>,
}

/// How a target answers.
#[derive(Debug, Clone, Copy)]
struct TargetScript {
    /// Most time to connect, ms; each attempt connects if there is any.
    connect_ms: u64,
    /// Most time to answer, ms.
    answer_ms: u64,
    /// Of a thousand attempts, those that are throttled, fail, and take longer than allowed.
    throttled: u64,
    failed: u64,
    stuck: u64,
    /// Most time that a throttled attempt is told to wait, ms.
    wait_ms: u64,
    /// What is sent from the one on is answered at the other, ms.
    stall: (u64, u64),
}

/// How results are stored.
#[derive(Debug, Clone, Copy)]
struct Disk {
    /// Results that are committed together.
    batch: usize,
    /// Time to store one, µs.
    takes_us: u64,
    /// Results that may wait.
    room: u64,
    /// When it is full for a shard, ms.
    full: Option<(u32, u64)>,
    /// Time to finish, ms.
    finish_ms: u64,
    /// Shard that cannot finish.
    fails: Option<u32>,
}

/// A run that is over, and what others saw of it.
pub(crate) struct Ran {
    pub(crate) rehearsal: Rehearsal,
    /// Committed items: how often each was, and how it ended.
    pub(crate) committed: BTreeMap<u64, (u32, Outcome)>,
    /// Each request that the target received, in that order.
    pub(crate) sent: Vec<Sent>,
    /// The waits that it asked for.
    pub(crate) waits: Vec<Wait>,
    /// The first law that the live view broke.
    pub(crate) watched: Result<(), String>,
}

/// A request that the target received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sent {
    pub(crate) at: u64,
    pub(crate) host: u32,
    pub(crate) shard: u32,
}

/// A wait that a host asked a shard for, which had the time to pass that on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wait {
    pub(crate) host: u32,
    pub(crate) shard: u32,
    /// When the shard counted the answer that said so.
    pub(crate) at: u64,
    /// The end of it, as far as the run waits.
    pub(crate) until: u64,
}

/// Watches the live view of a run, which it sees after each arrival.
struct Watcher {
    /// Attempts of each shard, with those of its earlier processes.
    attempts: BTreeMap<usize, u64>,
    law: Result<(), String>,
}

impl Watcher {
    /// The first law that a shard breaks, with its number.
    fn broken(&mut self, number: usize, shard: &LiveShard) -> Option<String> {
        let known = shard.counters.items.dealt() + u64::from(shard.in_flight);
        let known = known + shard.waiting_again + shard.remaining;
        let is_alive = matches!(shard.state, LiveState::Running | LiveState::Done);
        let planned = shard.planned;
        if is_alive && known > planned {
            return Some(format!("{known} of {planned} IDs are known"));
        }
        let requests = &shard.counters.requests;
        let before = self.attempts.insert(number, requests.attempts);
        if before > Some(requests.attempts) {
            return Some(format!("{} attempts after {before:?}", requests.attempts));
        }
        let cause = |kind: &&ErrorKind| FailureCause::Error(**kind);
        let mut kinds = requests.errors_by_kind.keys();
        let untimed = kinds.find(|kind| shard.failures.get(cause(kind)).is_none())?;
        Some(format!("it is not known when {untimed:?} failed"))
    }
}

impl Observer for Watcher {
    fn progress(&mut self, live: &Live) {
        for (number, shard) in live.shards.iter().enumerate() {
            let broken = self.broken(number, shard);
            if let Some(broken) = broken.filter(|_| self.law.is_ok()) {
                self.law = Err(format!("shard {number} at {:?}: {broken}", live.at));
            }
        }
    }

    fn interval(&mut self, _: &Interval) {}
}

/// One of `choices`.
fn one_of<T: Copy>(rng: &mut Rng, choices: &[T]) -> T {
    choices[rng.usize(..choices.len())]
}

fn millis(rng: &mut Rng, most: u64) -> Duration {
    Duration::from_millis(rng.u64(..=most))
}

impl World {
    pub(crate) fn draw(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let plan = draw_plan(&mut rng);
        let target = draw_target(&mut rng);
        let disk = draw_disk(&mut rng, plan.shards);
        let replaces = rng.u8(..4) > 0;
        let incidents = draw_incidents(&mut rng, plan.shards);
        Self {
            seed,
            plan,
            target,
            disk,
            replaces,
            incidents,
        }
    }

    /// Run it; none if a shard is lost before the start, which is its whole result.
    pub(crate) fn run(&self) -> Option<Ran> {
        let shared = Rc::new(Shared {
            seed: self.seed,
            script: self.target,
            timeout: self.plan.timeout,
            hosts: self.plan.per_host.hosts,
            longest_wait: self.plan.throttling.max_pause,
            asked: RefCell::default(),
            sent: RefCell::default(),
            waits: RefCell::default(),
            committed: RefCell::default(),
        });
        let mut incidents = self.incidents.clone();
        incidents.extend((0..3).map(|n| Incident::Signal {
            at: ENDLESS + Duration::from_secs(10 * n),
            number: 2,
        }));
        let workload = |shard: &ShardPlan, clock| Storing {
            shared: Rc::clone(&shared),
            clock,
            disk: self.disk,
            shard: shard.shard,
            uncommitted: RefCell::default(),
            stored: Cell::default(),
        };
        let left = |_: &ShardPlan, held: &[IdRange]| self.replaces.then(|| shared.left(held));
        let mut watcher = Watcher {
            attempts: BTreeMap::new(),
            law: Ok(()),
        };
        let rehearsal =
            match rehearse_replacing(&self.plan, &incidents, workload, left, &mut watcher) {
                Err(RehearseError::Supervise(SuperviseError::Lost { .. })) => return None,
                rehearsal => rehearsal.unwrap(),
            };
        Some(Ran {
            rehearsal,
            committed: shared.committed.take(),
            sent: shared.sent.take(),
            waits: shared.waits.take(),
            watched: watcher.law,
        })
    }

    /// True if what is said at `from` is heard before `to` at the latest: no process was stopped in
    /// between, and pipes have room.
    pub(crate) fn hears(&self, from: u64, to: u64) -> bool {
        self.incidents.iter().all(|incident| match *incident {
            Incident::Stop { at, lasts, .. } | Incident::Block { at, lasts } => {
                duration_ns(at) > to || duration_ns(at + lasts) < from
            }
            Incident::NarrowPipes { .. } => false,
            _ => true,
        })
    }
}

fn draw_plan(rng: &mut Rng) -> RunPlan {
    let shards = rng.u32(1..=4);
    let ids = IdRange {
        start: 0,
        end: one_of(rng, &[1, 5, 40, 150, 400]),
    };
    let mut plan = RunPlan {
        shards,
        connections: shards * rng.u32(1..=4),
        ..RunPlan::new("test", ids)
    };
    if rng.u8(..4) == 0 && ids.end > 10 {
        let mut at = 0;
        loop {
            let start = at + rng.u64(..20);
            at = start + rng.u64(1..20);
            if at >= ids.end {
                break;
            }
            plan.finished.push(IdRange { start, end: at });
        }
    }
    let per_s = one_of(rng, &[20, 100, 500, 3_000]);
    match rng.u8(..8) {
        0..3 => {}
        3..6 => {
            plan.rate = Some(rate(per_s, 1_000));
            plan.burst = u64::from(shards) * rng.u64(1..=4);
            plan.at_start = u64::from(shards);
        }
        6 => {
            let every_ms = one_of(rng, &[100, 250, 1_000]);
            plan.shape = RateShape::Windows {
                every_ns: every_ms * 1_000_000,
            };
            let permits = u64::from(shards) * rng.u64(1..10);
            plan.rate = Some(rate(permits, every_ms));
            (plan.burst, plan.at_start) = (permits, permits);
        }
        _ => {
            plan.rate = Some(rate(per_s, 1_000));
            plan.arrivals = one_of(rng, &[Arrivals::Constant, Arrivals::Poisson]);
            plan.queue = one_of(rng, &[None, Some(4 * shards)]);
        }
    }
    if rng.u8(..3) == 0 {
        plan.duration = Some(Duration::from_millis(rng.u64(1..4_000)));
    }
    if rng.u8(..4) == 0 {
        plan.warmup = plan.duration.unwrap_or(Duration::from_secs(2)) / 3;
    }
    if rng.u8(..4) == 0 {
        plan.per_host.hosts = rng.u32(2..=3);
    }
    plan.throttling.on_throttle = one_of(
        rng,
        &[
            OnThrottle::Honor,
            OnThrottle::Honor,
            OnThrottle::Count,
            OnThrottle::Ignore,
        ],
    );
    plan.throttling.retries = rng.u32(..4);
    plan.throttling.max_pause = Duration::from_secs(rng.u64(1..=2));
    plan.throttling.backoff.cap = Duration::from_secs(1);
    plan.grace = millis(rng, 2_000);
    plan.timeout = Duration::from_millis(rng.u64(50..1_000));
    plan.shard_deadline = Duration::from_secs(rng.u64(1..=3));
    plan.seed = rng.u64(..);
    plan.validate().unwrap()
}

const fn rate(permits: u64, period_ms: u64) -> Rate {
    Rate {
        permits,
        period_ns: period_ms * 1_000_000,
    }
}

fn draw_target(rng: &mut Rng) -> TargetScript {
    let stall = rng.u64(..3_000);
    TargetScript {
        connect_ms: one_of(rng, &[0, 0, 3, 30]),
        answer_ms: one_of(rng, &[0, 1, 10, 60]),
        throttled: one_of(rng, &[0, 0, 20, 150]),
        failed: one_of(rng, &[0, 20, 200]),
        stuck: one_of(rng, &[0, 0, 10]),
        wait_ms: one_of(rng, &[0, 20, 500, 5_000]),
        stall: (stall, stall + one_of(rng, &[0, 0, 400, 4_000])),
    }
}

fn draw_disk(rng: &mut Rng, shards: u32) -> Disk {
    let full = (rng.u32(..shards), rng.u64(..3_000));
    let fails = rng.u32(..shards);
    Disk {
        batch: one_of(rng, &[1, 7, 50]),
        takes_us: one_of(rng, &[0, 0, 500, 20_000]),
        room: rng.u64(1..20),
        full: (rng.u8(..12) == 0).then_some(full),
        finish_ms: one_of(rng, &[0, 0, 0, 700, 5_000]),
        fails: (rng.u8(..16) == 0).then_some(fails),
    }
}

fn draw_incidents(rng: &mut Rng, shards: u32) -> Vec<Incident> {
    let mut incidents = vec![Incident::Disorder { seed: rng.u64(..) }];
    if rng.u8(..4) == 0 {
        let bytes = one_of(rng, &[1, 13, 100, 1_000, 5_000, 5_000, 5_000, 5_000]);
        incidents.push(Incident::NarrowPipes { bytes });
    }
    for _ in 0..rng.u8(..6) {
        let at = millis(rng, 3_000);
        let lasts = Duration::from_millis(one_of(rng, &[1, 30, 300, 1_500, 5_000]));
        let shard = rng.u32(..shards);
        incidents.push(match rng.u8(..8) {
            0 => Incident::Block { at, lasts },
            1 => Incident::Signal { at, number: 15 },
            2 => Incident::Death { at, shard },
            3 => Incident::Stop {
                at,
                lasts,
                shard: None,
            },
            4 | 5 => Incident::Stop {
                at,
                lasts,
                shard: Some(shard),
            },
            _ => Incident::Cut {
                shard,
                life: rng.u32(..2),
                bytes: one_of(rng, &[20, 2_000, 20_000]).min(rng.u64(..20_000)),
            },
        });
    }
    incidents
}

/// What outlives a process: the target, and what is committed.
struct Shared {
    seed: u64,
    script: TargetScript,
    timeout: Duration,
    hosts: u32,
    longest_wait: Duration,
    /// Attempts for each item.
    asked: RefCell<BTreeMap<u64, u64>>,
    sent: RefCell<Vec<Sent>>,
    waits: RefCell<Vec<Wait>>,
    committed: RefCell<BTreeMap<u64, (u32, Outcome)>>,
}

/// Count an item that ended so.
fn count(items: &mut ItemCounts, outcome: Outcome) {
    *match outcome {
        Outcome::Ok => &mut items.ok,
        Outcome::NotFound => &mut items.not_found,
        Outcome::Throttled => &mut items.gave_up,
        _ => &mut items.failed,
    } += 1;
}

/// Items by how they ended.
pub(crate) fn counts<'a>(outcomes: impl Iterator<Item = &'a (u32, Outcome)>) -> ItemCounts {
    let mut items = ItemCounts::default();
    outcomes.for_each(|(_, outcome)| count(&mut items, *outcome));
    items
}

impl Shared {
    fn host(&self, id: u64) -> u32 {
        u32::try_from(id % u64::from(self.hosts.clamp(1, 2))).unwrap_or_default()
    }

    /// What is left of `held`, which is what the process of a dead shard had.
    fn left(&self, held: &[IdRange]) -> Left {
        let committed = self.committed.borrow();
        let mut held = held.to_vec();
        held.sort_unstable_by_key(|range| range.start);
        let (mut ids, mut items) = (Vec::new(), ItemCounts::default());
        for IdRange { mut start, end } in held {
            for (id, (_, outcome)) in committed.range(start..end) {
                ids.push(IdRange { start, end: *id });
                start = id + 1;
                count(&mut items, *outcome);
            }
            ids.push(IdRange { start, end });
        }
        ids.retain(|range| !range.is_empty());
        Left { ids, items }
    }

    /// The draws of the next attempt for `id`.
    fn next_attempt(&self, id: u64) -> Rng {
        let mut asked = self.asked.borrow_mut();
        let attempt = asked.entry(id).or_default();
        *attempt += 1;
        Rng::with_seed(self.seed ^ (id << 20) ^ (*attempt << 50))
    }

    /// The answer to a request, and how long it takes.
    fn answer(&self, rng: &mut Rng, sent: Nanos) -> (Duration, Outcome, Advice) {
        let script = self.script;
        let mut takes = millis(rng, script.answer_ms);
        let stall = script.stall.0 * 1_000_000..script.stall.1 * 1_000_000;
        if stall.contains(&sent.0) {
            takes = Duration::from_nanos(stall.end - sent.0);
        }
        let retry = Advice {
            repeat: one_of(rng, &[Repeat::Never, Repeat::MayHelp]),
            ..Advice::default()
        };
        let wait = Some(millis(rng, script.wait_ms)).filter(|wait| !wait.is_zero());
        let asked = Advice {
            repeat: Repeat::MayHelp,
            wait,
            ..Advice::default()
        };
        let draw = rng.u64(..1_000);
        if draw < script.stuck || takes >= self.timeout {
            let timeout = Outcome::Error(ErrorKind::Timeout);
            return (self.timeout, timeout, retry);
        }
        let of_failures = [
            Outcome::Rejected,
            Outcome::SoftBlocked,
            Outcome::Error(ErrorKind::Closed),
            Outcome::Error(ErrorKind::Incomplete),
            Outcome::Error(ErrorKind::Malformed),
            Outcome::Error(ErrorKind::Reset),
        ];
        let (outcome, advice) = match draw - script.stuck {
            n if n < script.throttled => (Outcome::Throttled, asked),
            n if n < script.throttled + script.failed => (one_of(rng, &of_failures), retry),
            n if n.is_multiple_of(20) => (Outcome::NotFound, Advice::default()),
            _ => (Outcome::Ok, Advice::default()),
        };
        (takes, outcome, advice)
    }
}

/// The target and the disk as the process of a shard has them.
struct Storing {
    shared: Rc<Shared>,
    clock: Clock,
    disk: Disk,
    shard: u32,
    uncommitted: RefCell<Vec<(u64, Outcome)>>,
    /// When all results are stored that there are.
    stored: Cell<Nanos>,
}

/// What the process was told at this instant, it may not have passed on.
impl Drop for Storing {
    fn drop(&mut self) {
        let (shard, now) = (self.shard, self.clock.now().0);
        let mut waits = self.shared.waits.borrow_mut();
        waits.retain(|wait| (wait.shard, wait.at) != (shard, now));
    }
}

impl Storing {
    fn commit(&self) {
        for (id, outcome) in self.uncommitted.take() {
            let mut committed = self.shared.committed.borrow_mut();
            committed.entry(id).or_insert((0, outcome)).0 += 1;
        }
    }

    fn takes(&self) -> Duration {
        Duration::from_micros(self.disk.takes_us)
    }

    async fn until(&self, at: Nanos) {
        tokio::time::sleep_until(self.clock.instant(at)).await;
    }
}

impl Workload for Storing {
    fn host(&self, id: u64) -> u32 {
        self.shared.host(id)
    }

    async fn perform(
        &self,
        id: u64,
        flight: &Flight,
        clearance: &impl Clearance,
        ended: &mut Attempt,
    ) -> Option<()> {
        let mut rng = self.shared.next_attempt(id);
        let connect = millis(&mut rng, self.shared.script.connect_ms);
        if self.shared.script.connect_ms > 0 {
            flight.opening(self.clock.now());
            tokio::time::sleep(connect).await;
            if rng.u8(..50) == 0 {
                let refused = Outcome::Error(ErrorKind::ConnectRefused);
                *ended = self.attempt(None, refused, Advice::default());
                return Some(());
            }
            flight.opened(1_000);
        }
        let sent = clearance.wait().await?;
        self.shared.sent.borrow_mut().push(Sent {
            at: sent.0,
            host: self.shared.host(id),
            shard: self.shard,
        });
        flight.note(in_flight(sent, 1, 0));
        let (takes, outcome, advice) = self.shared.answer(&mut rng, sent);
        tokio::time::sleep(takes).await;
        *ended = self.attempt(Some(sent), outcome, advice);
        Some(())
    }

    fn booked(&self, sample: &Sample) {
        if let (Outcome::Throttled, Some(wait)) =
            (sample.attempt.outcome, sample.attempt.advice.wait)
        {
            let until = sample.attempt.done.plus(wait.min(self.shared.longest_wait));
            self.shared.waits.borrow_mut().push(Wait {
                host: self.shared.host(sample.permit.id),
                shard: self.shard,
                at: self.clock.now().0,
                until: until.0,
            });
        }
        if sample.fate != Fate::Ended {
            return;
        }
        let item = (sample.permit.id, sample.attempt.outcome);
        self.uncommitted.borrow_mut().push(item);
        if self.uncommitted.borrow().len() >= self.disk.batch {
            self.commit();
        }
        let free = self.stored.get().max(self.clock.now());
        self.stored.set(free.plus(self.takes()));
    }

    fn has_room(&self) -> bool {
        let most = self.takes() * u32::try_from(self.disk.room).unwrap();
        self.stored.get() <= self.clock.now().plus(most)
    }

    async fn room(&self) {
        while !self.has_room() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn finish(&self) -> Result<(), String> {
        let rest = Duration::from_millis(self.disk.finish_ms);
        self.until(self.stored.get().plus(rest)).await;
        if self.disk.fails == Some(self.shard) {
            return Err("no space left".to_owned());
        }
        self.commit();
        Ok(())
    }

    async fn failed(&self) -> String {
        match self.disk.full.filter(|(shard, _)| *shard == self.shard) {
            Some((_, at)) => self.until(Nanos(at * 1_000_000)).await,
            None => std::future::pending().await,
        }
        "no space left".to_owned()
    }
}

impl Storing {
    fn attempt(&self, sent: Option<Nanos>, outcome: Outcome, advice: Advice) -> Attempt {
        Attempt {
            sent,
            first_byte: None,
            done: self.clock.now(),
            bytes_sent: u64::from(sent.is_some()),
            bytes_received: 0,
            status: (outcome == Outcome::Rejected).then_some(503),
            outcome,
            advice,
        }
    }
}
