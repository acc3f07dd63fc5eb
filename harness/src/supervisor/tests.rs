//! Every order in which a supervisor hears the frames of two shards, three of each, with a death at
//! each cut: the run ends, its ledger adds up, and its seconds are those of its shards.

use std::io::{self, ErrorKind};
use std::time::Duration;

use super::line::ShardLine;
use super::view::{Live, RunRecord};
use super::waking::Event;
use super::{Interval, Observer, Supervisor};
use crate::clock::Clock;
use crate::plan::{RunPlan, ShardPlan};
use crate::process::ShardExit;
use crate::stats::{Bounds, Counters, ItemCounts};
use crate::units::IdRange;
use crate::wire::{
    EncodedStats, Frame, IntervalFrame, Progress, SecondFigures, ShardOutcome, Usage, encode,
};

/// IDs of each shard.
const IDS: u64 = 4;

/// Frames of each shard.
const FRAMES: usize = 3;

/// What has arrived of a shard.
#[derive(Debug, Default)]
struct Line {
    arrived: Vec<u8>,
    exit: Option<ShardExit>,
}

impl ShardLine for Line {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.arrived.is_empty() && self.exit.is_none() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let read = io::Read::read(&mut &self.arrived[..], buffer)?;
        self.arrived.drain(..read);
        Ok(read)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn kill(&mut self) {
        self.exit.get_or_insert(ShardExit::Signal(9));
    }

    fn try_wait(&mut self) -> Option<ShardExit> {
        self.exit
    }

    fn pid(&self) -> i32 {
        0
    }
}

/// The attempts of all seconds that were told.
#[derive(Default)]
struct Seconds(u64);

impl Observer for Seconds {
    fn progress(&mut self, live: &Live) {
        for shard in &live.shards {
            let known = shard.progress.started() + shard.progress.remaining;
            assert!(known <= shard.planned, "{known} of {}", shard.planned);
        }
    }

    fn interval(&mut self, interval: &Interval) {
        self.0 += interval.merged.counters.requests.attempts;
    }
}

/// Counters of so many items, each of one attempt.
fn counted(items: u64) -> Counters {
    let mut counters = Counters::default();
    (counters.items.ok, counters.requests.attempts) = (items, items);
    counters
}

/// All that a shard may say in three frames, after it was ready.
fn scripts(shard: &ShardPlan) -> Vec<[Frame; FRAMES]> {
    let bounds = Bounds::for_timeout(shard.timeout);
    let second = |items| {
        Box::new(IntervalFrame {
            figures: SecondFigures::default(),
            stats: EncodedStats::counted(bounds, counted(items)),
        })
    };
    let progress = |items, remaining| {
        Frame::Progress(Box::new(Progress {
            counters: counted(items),
            remaining,
            ..Progress::default()
        }))
    };
    let end = |items, remaining| {
        let mut outcome = ShardOutcome::new(EncodedStats::counted(bounds, counted(items)));
        outcome.remaining = remaining;
        Frame::Final(Box::new(outcome))
    };
    let last = shard.ids[0].end;
    let upper = IdRange {
        start: last - 2,
        end: last,
    };
    let nothing = IdRange {
        start: last,
        end: last,
    };
    vec![
        // Stopped with a second and a half of work.
        [Frame::Interval(second(1)), progress(1, 3), end(1, 3)],
        // Its last second is not over.
        [Frame::Open(second(1)), progress(1, 3), progress(1, 3)],
        // Done at once, and sent home.
        [Frame::Interval(second(IDS)), Frame::Idle(0), end(IDS, 0)],
        // Asked to share before it has begun, and when nothing is left.
        [Frame::Shed(upper), progress(0, 2), end(0, 2)],
        [
            Frame::Shed(nothing),
            Frame::Interval(second(4)),
            end(IDS, 0),
        ],
        // Done, and given what another one shares, which it has not read of.
        [Frame::Open(second(IDS)), progress(IDS, 0), Frame::Idle(0)],
    ]
}

/// Where a shard dies: after so many of its frames, and so many bytes of the next.
#[derive(Debug, Clone, Copy)]
struct Death {
    shard: usize,
    frames: usize,
    bytes: usize,
}

struct World {
    supervisor: Supervisor<Line>,
    seconds: Seconds,
}

impl World {
    fn new(plan: &RunPlan) -> Self {
        let mut supervisor = Supervisor::new(plan, Clock::start(), Duration::ZERO);
        for shard in plan.split(&[]) {
            supervisor.take_in(shard, Line::default());
        }
        let mut world = Self {
            supervisor,
            seconds: Seconds::default(),
        };
        for shard in 0..2 {
            world.arrives(shard, &encode(&Frame::Ready).unwrap());
        }
        world
    }

    fn arrives(&mut self, shard: usize, bytes: &[u8]) {
        let line = &mut self.supervisor.members[shard].line;
        line.arrived.extend_from_slice(bytes);
        self.step(shard);
    }

    fn ends(&mut self, shard: usize, exit: ShardExit) {
        self.supervisor.members[shard].line.exit = Some(exit);
        self.step(shard);
    }

    /// The supervisor looks at a shard, and shows the run.
    fn step(&mut self, shard: usize) {
        let event = Event {
            readable: vec![shard],
            tick: true,
            death: true,
            ..Event::default()
        };
        self.supervisor.step(&event, &mut self.seconds).unwrap();
        let due = self.supervisor.due_replacements(|_, _| None);
        assert_eq!(due, [], "nobody is replaced");
    }

    /// The record of the run, and the attempts of its seconds.
    fn end(mut self) -> (RunRecord, u64) {
        for shard in 0..2 {
            self.step(shard);
        }
        assert!(self.supervisor.is_over(), "the run does not end");
        self.supervisor.finish(&mut self.seconds);
        (
            self.supervisor
                .into_record([std::time::UNIX_EPOCH; 2], Usage::default()),
            self.seconds.0,
        )
    }
}

/// Hear the frames of two shards in this order, a bit for each frame, while one dies or none.
fn receive(plan: &RunPlan, said: [&[Frame; FRAMES]; 2], order: u32, death: Option<Death>) {
    let mut world = World::new(plan);
    let mut at = [0; 2];
    for turn in 0..2 * FRAMES {
        let shard = usize::from(order >> turn & 1 == 1);
        let bytes = encode(&said[shard][at[shard]]).unwrap();
        match death.filter(|death| death.shard == shard) {
            Some(death) if at[shard] == death.frames => {
                world.arrives(shard, &bytes[..death.bytes.min(bytes.len() - 1)]);
                world.ends(shard, ShardExit::Signal(9));
            }
            Some(death) if at[shard] > death.frames => {}
            _ => world.arrives(shard, &bytes),
        }
        at[shard] += 1;
    }
    for (shard, said) in said.iter().enumerate() {
        let is_whole = matches!(said[FRAMES - 1], Frame::Final(_));
        if death.is_none_or(|death| death.shard != shard) {
            let exit = if is_whole {
                ShardExit::Clean
            } else {
                ShardExit::Signal(9)
            };
            world.ends(shard, exit);
        }
    }
    let (record, of_seconds) = world.end();
    let case = || format!("{said:?} in order {order:b} with {death:?}: {record:?}");
    let mut held: Vec<IdRange> = record.shards.iter().flat_map(|it| it.ids.clone()).collect();
    held.sort_unstable_by_key(|range| range.start);
    let all: u64 = held.iter().map(IdRange::len).sum();
    let is_once = held.is_sorted_by(|a, b| a.end <= b.start);
    assert!(is_once && all == plan.items(), "{}", case());
    for shard in &record.shards {
        let held: u64 = shard.ids.iter().map(IdRange::len).sum();
        let ItemCounts { ok, .. } = shard.stats.counters.items;
        let known = ok + shard.remaining;
        assert!(known <= held, "{}", case());
        assert!(shard.fault.is_some() || known == held, "{}", case());
    }
    let attempts = |shard: &super::ShardRecord| shard.stats.counters.requests.attempts;
    let of_shards: u64 = record.shards.iter().map(attempts).sum();
    assert_eq!(of_seconds, of_shards, "{}", case());
}

#[test]
fn in_every_order_of_the_frames_of_two_shards_with_a_death_at_each_cut_the_ledger_adds_up() {
    let ids = IdRange {
        start: 0,
        end: 2 * IDS,
    };
    let mut plan = RunPlan::new("test", ids);
    (plan.shards, plan.connections) = (2, 2);
    let plan = plan.validate().unwrap();
    let [one, other] = [0, 1].map(|shard| scripts(&plan.split(&[])[shard]));
    let orders = (0..1_u32 << (2 * FRAMES)).filter(|order| order.count_ones() == 3);
    let orders: Vec<u32> = orders.collect();
    let mut deaths = vec![None];
    for frames in 0..FRAMES {
        // Nothing of the next frame, its first byte, and all but its last one.
        for bytes in [0, 1, usize::MAX] {
            deaths.extend([0, 1].map(|shard| {
                Some(Death {
                    shard,
                    frames,
                    bytes,
                })
            }));
        }
    }
    for said in one
        .iter()
        .flat_map(|one| other.iter().map(move |other| [one, other]))
    {
        for order in &orders {
            for death in &deaths {
                receive(&plan, said, *order, *death);
            }
        }
    }
}
