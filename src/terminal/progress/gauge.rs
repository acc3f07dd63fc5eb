//! Figures that the live view reads from a run: totals, and those of the last second.

use std::collections::VecDeque;
use std::time::Duration;

use crawlmark_harness::clock::duration_ns;
use crawlmark_harness::plan::{Arrivals, RunPlan};
use crawlmark_harness::stats::Counters;
use crawlmark_harness::supervisor::{Live, LiveShard, LiveState};
use crawlmark_harness::target_usage::TargetNow;
use crawlmark_harness::wire::BindingTimes;
use crawlmark_results::show::text::{counted, rate_in_words};

/// Period of current figures, at least: long enough to read, short enough to be current. A shard
/// reports its progress four times in it.
const NOW_NS: u64 = 1_000_000_000;

/// A shard that has said nothing for so long does not run, or hardly.
const SILENT: Duration = Duration::from_secs(2);

/// Seconds of the run that are remembered.
pub(super) const COURSE: usize = 60;

/// Shortest time without an answer that is a stall: three reports of a shard in which nothing
/// ended.
const LEAST_STALL: Duration = Duration::from_millis(750);

/// Requests that wait in a stall at least: a single one may just be slow.
const WAITING: u32 = 2;

/// Answers that are missing in a stall, at the mean rate: with fewer, chance leaves such gaps, too.
const MISSING: f64 = 10.0;

/// What was asked for, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    /// `open loop, 1,000/s asked`.
    pub(super) loop_and_rate: String,
    /// `1,000/s asked`.
    pub(super) rate: String,
    /// Address of the target.
    pub(super) host: String,
    /// Requests that may be in flight.
    pub(super) in_flight: u32,
}

impl Asked {
    fn of(plan: &RunPlan) -> Self {
        let connections = counted(plan.connections.into(), "connection");
        let rate = match plan.shaped_rate() {
            Some(rate) => format!("{} asked", rate_in_words(&rate.in_short())),
            None => connections,
        };
        let kind = if plan.arrivals.gaps().is_some() {
            "open loop"
        } else {
            "closed loop"
        };
        let (_, host) = plan.target.split_once("://").unwrap_or(("", &plan.target));
        let (host, _) = host.split_once('/').unwrap_or((host, ""));
        Self {
            loop_and_rate: format!("{kind}, {rate}"),
            rate,
            host: host.to_owned(),
            in_flight: plan.in_flight(),
        }
    }
}

/// Time without an answer while requests waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stall {
    /// Its start.
    pub(super) from: Duration,
    /// Its length so far.
    pub(super) lasted: Duration,
}

impl Stall {
    /// Its length so far, ns.
    pub(super) fn lasted_ns(&self) -> u64 {
        duration_ns(self.lasted)
    }
}

/// Reads off one run.
#[derive(Debug)]
pub(super) struct Gauge {
    limit: Option<Duration>,
    arrivals: Arrivals,
    asked: Asked,
    /// Requests per second that are due of each shard; none unless they are at all times.
    due_per_s: Option<f64>,
    /// Good items of each shard, by the times of its own reports: reads would see four of them in one
    /// second and five in the next.
    meters: Vec<LastSecond<u64>>,
    tallies: LastSecond<Tally>,
    /// Good answers per second, second by second.
    course: Vec<f64>,
    seconds: u64,
    /// Requests that had ended, and the time at which that was seen to grow.
    last_answer: (u64, Duration),
    stalls: Vec<Stall>,
}

/// State of a run.
#[derive(Debug)]
pub(super) struct Now<'a> {
    pub(super) live: &'a Live,
    /// The longest that it may take.
    pub(super) limit: Option<Duration>,
    pub(super) arrivals: Arrivals,
    pub(super) asked: &'a Asked,
    /// Everything counted so far, over all shards.
    pub(super) counters: Counters,
    /// Items to do.
    pub(super) planned: u64,
    /// Good items per second in the last second.
    pub(super) good_per_s: f64,
    /// Counts of the last second.
    pub(super) lately: Tally,
    /// Time for which nothing ended.
    pub(super) silent: Duration,
    /// Times without an answer, the last of which may go on.
    pub(super) stalls: &'a [Stall],
    /// Requests of an open loop that are due and not sent, about; none when that cannot be told.
    pub(super) waiting: Option<f64>,
    /// Good answers per second in each of the last seconds, the latest last.
    pub(super) course: &'a [f64],
    /// The target's processes in the last second; none without a probe of them.
    pub(super) target: Option<TargetNow>,
}

/// Some of what is counted.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    pub(super) attempts: u64,
    pub(super) errors: u64,
    pub(super) throttled: u64,
    /// Time for which the shards were limited, by cause.
    pub(super) binding: BindingTimes,
}

/// Readings of the last second, with their times, ns.
#[derive(Debug, Default)]
struct LastSecond<T>(VecDeque<(u64, T)>);

impl<T: Copy> LastSecond<T> {
    /// Add a reading, and return the time since the first one, s, and that one.
    fn since(&mut self, at_ns: u64, reading: T) -> (f64, T) {
        if self.0.back().is_none_or(|(last_ns, _)| *last_ns < at_ns) {
            self.0.push_back((at_ns, reading));
        }
        while self
            .0
            .get(1)
            .is_some_and(|(second_ns, _)| at_ns.saturating_sub(*second_ns) >= NOW_NS)
        {
            self.0.pop_front();
        }
        let (first_ns, first) = *self.0.front().unwrap_or(&(at_ns, reading));
        (at_ns.saturating_sub(first_ns) as f64 / 1e9, first)
    }
}

impl LastSecond<u64> {
    /// Return the items per second, now that so many had ended at that time.
    fn rate(&mut self, at_ns: u64, items: u64) -> f64 {
        let (seconds, before) = self.since(at_ns, items);
        if seconds > 0.0 {
            items.saturating_sub(before) as f64 / seconds
        } else {
            0.0
        }
    }
}

impl Gauge {
    pub(super) fn new(plan: &RunPlan) -> Self {
        let is_open = plan.arrivals.gaps().is_some();
        let due_per_s = plan
            .steady_rate()
            .filter(|_| is_open)
            .map(|per_s| per_s / f64::from(plan.shards));
        Self {
            limit: plan.duration,
            arrivals: plan.arrivals,
            asked: Asked::of(plan),
            due_per_s,
            meters: (0..plan.shards).map(|_| LastSecond::default()).collect(),
            tallies: LastSecond::default(),
            course: Vec::new(),
            seconds: 0,
            last_answer: (0, Duration::ZERO),
            stalls: Vec::new(),
        }
    }

    /// Return the state of the run. To be called a few times a second.
    pub(super) fn read<'a>(&'a mut self, live: &'a Live) -> Now<'a> {
        let (mut counters, mut binding) = (Counters::default(), BindingTimes::default());
        let (mut good_per_s, mut behind_s) = (0.0, 0.0);
        for (meter, shard) in self.meters.iter_mut().zip(&live.shards) {
            counters.merge(&shard.counters);
            binding = binding.plus(&shard.binding);
            behind_s += shard.behind().as_secs_f64();
            let items = &shard.counters.items;
            let rate = meter.rate(shard.at.0, items.ok + items.not_found);
            let runs = shard.state == LiveState::Running && silence(shard, live).is_none();
            good_per_s += if runs { rate } else { 0.0 };
        }
        let tally = Tally {
            attempts: counters.completed(),
            errors: counters.errors(),
            throttled: counters.requests.throttled,
            binding,
        };
        let (_, then) = self.tallies.since(duration_ns(live.elapsed), tally);
        let lately = Tally {
            attempts: tally.attempts.saturating_sub(then.attempts),
            errors: tally.errors.saturating_sub(then.errors),
            throttled: tally.throttled.saturating_sub(then.throttled),
            binding: tally.binding.without(&then.binding),
        };
        let silent = self.note_answers(live, tally.attempts);
        if !live.is_over() {
            self.note_course(live.elapsed, good_per_s);
        }
        Now {
            live,
            limit: self.limit,
            arrivals: self.arrivals,
            asked: &self.asked,
            planned: live.shards.iter().map(|shard| shard.planned).sum(),
            counters,
            good_per_s,
            lately,
            silent,
            stalls: &self.stalls,
            waiting: self.due_per_s.map(|per_s| behind_s * per_s),
            course: &self.course,
            target: None,
        }
    }

    /// Note how many requests have ended, and return for how long none did.
    fn note_answers(&mut self, live: &Live, ended: u64) -> Duration {
        let (before, since) = self.last_answer;
        if ended > before || live.pause.is_some() || live.is_over() {
            self.last_answer = (ended, live.elapsed);
            return Duration::ZERO;
        }
        let silent = live.elapsed.saturating_sub(since);
        let waiting: u32 = live.shards.iter().map(|shard| shard.in_flight).sum();
        let missing = per_s(before, since.as_secs_f64()) * silent.as_secs_f64();
        if silent >= LEAST_STALL && waiting >= WAITING && missing >= MISSING {
            let stall = Stall {
                from: since,
                lasted: silent,
            };
            match self.stalls.last_mut().filter(|last| last.from == since) {
                Some(last) => *last = stall,
                None => self.stalls.push(stall),
            }
        }
        silent
    }

    /// Notes the rate of each second that is over.
    fn note_course(&mut self, elapsed: Duration, rate: f64) {
        // Not drawn for more than a second: the missed seconds are taken to be like this one.
        let passed = usize::try_from(elapsed.as_secs() - self.seconds).unwrap_or(COURSE);
        self.seconds = elapsed.as_secs();
        self.course
            .extend(std::iter::repeat_n(rate, passed.min(COURSE)));
        let old = self.course.len().saturating_sub(COURSE);
        self.course.drain(..old);
    }
}

impl Now<'_> {
    /// Requests under way.
    pub(super) fn in_flight(&self) -> u32 {
        self.live.shards.iter().map(|shard| shard.in_flight).sum()
    }

    /// True if neither a time nor a number of items ends the run.
    pub(super) const fn has_no_end(&self) -> bool {
        self.limit.is_none() && self.planned >= ENDLESS
    }

    /// Done, 0 to 1, given so many of the planned items: by items or by time, whichever is further.
    pub(super) fn done(&self, items: u64, planned: u64) -> f64 {
        let by_items = items as f64 / planned.max(1) as f64;
        let by_time = self.limit.map_or(0.0, |limit| {
            self.live.elapsed.as_secs_f64() / limit.as_secs_f64()
        });
        by_items.max(by_time).min(1.0)
    }

    /// Until it is done, by items or by time, whichever is sooner; none when nothing gets done.
    pub(super) fn remaining(&self) -> Option<Duration> {
        let ended = self.counters.items.ended();
        let left = self.planned.saturating_sub(ended) as f64;
        let rate = per_s(ended, self.live.elapsed.as_secs_f64());
        let by_items = Duration::try_from_secs_f64(left / rate).ok();
        let by_time = self
            .limit
            .map(|limit| limit.saturating_sub(self.live.elapsed));
        [by_items, by_time].into_iter().flatten().min()
    }
}

/// Items of a plan whose end nobody waits for.
const ENDLESS: u64 = 100_000_000;

/// A rate; 0 in no time.
fn per_s(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 {
        count as f64 / seconds
    } else {
        0.0
    }
}

/// For how long a shard has said nothing; none when that is what one expects.
pub(super) fn silence(shard: &LiveShard, live: &Live) -> Option<Duration> {
    let said = Duration::from_nanos(live.at.since(shard.at)).min(live.elapsed);
    (shard.state == LiveState::Running && said >= SILENT).then_some(said)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{live, plan, shard};
    use super::*;

    #[test]
    fn a_steady_shard_shows_its_rate_whenever_it_is_looked_at() {
        let mut meter = LastSecond::default();
        // 1,000/s, said every 250 ms, looked at every 100 ms.
        let rates: Vec<f64> = (1..100_u64)
            .map(|look| {
                let said = look * 100 / 250 * 250;
                meter.rate(said * 1_000_000, said)
            })
            .collect();
        assert!(
            rates[5..].iter().all(|rate| (rate - 1_000.0).abs() < 1e-9),
            "{rates:?}"
        );
    }

    #[test]
    fn a_shard_that_says_nothing_any_more_has_no_rate() {
        let mut gauge = Gauge::new(&plan(2));
        for ms in (0..=5_000).step_by(250) {
            // The second one stops at 2 s, after 2,000 items.
            let shards = vec![shard(ms, ms), shard(ms.min(2_000), ms.min(2_000))];
            let live = live(ms, shards);
            let now = gauge.read(&live);
            let silent = (ms >= 4_000).then(|| Duration::from_millis(ms - 2_000));
            assert_eq!(
                [0, 1].map(|n| silence(&now.live.shards[n], now.live)),
                [None, silent],
                "at {ms} ms"
            );
            if ms >= 4_000 {
                assert!(
                    (now.good_per_s - 1_000.0).abs() < 1e-9,
                    "{}",
                    now.good_per_s
                );
            }
        }
    }

    #[test]
    fn the_course_has_a_value_for_each_second_and_forgets_the_first() {
        let mut gauge = Gauge::new(&plan(1));
        for s in [1, 2, 3, 7, 66] {
            let live = live(s * 1_000 + 100, vec![shard(s * 1_000, s * s)]);
            let seconds = usize::try_from(s).unwrap().min(COURSE);
            assert_eq!(gauge.read(&live).course.len(), seconds);
        }
        let mut over = live(67_200, vec![shard(67_000, 5_000)]);
        over.shards[0].state = LiveState::Done;
        let course = gauge.read(&over).course.to_vec();
        assert!(
            course.iter().all(|rate| *rate > 0.0),
            "the end is no second without a rate: {course:?}"
        );
    }

    #[test]
    fn a_time_without_an_answer_is_a_stall_while_requests_wait() {
        let mut gauge = Gauge::new(&plan(1));
        // 1,000/s but for 2 s from 3 s on.
        for ms in (0..=8_000_u64).step_by(250) {
            let items = ms.min(3_000) + ms.saturating_sub(5_000);
            let live = live(ms, vec![shard(ms, items)]);
            let now = gauge.read(&live);
            let expected = (ms >= 3_750).then(|| ms.min(5_000) - 3_000);
            let [found, from] = [|one: &Stall| one.lasted, |one: &Stall| one.from].map(|of| {
                now.stalls
                    .iter()
                    .map(of)
                    .map(|time| time.as_millis())
                    .collect::<Vec<_>>()
            });
            assert!(
                found.len() <= 1 && from.iter().all(|ms| *ms == 3_000),
                "{found:?}"
            );
            assert_eq!(
                found.first().copied(),
                expected.map(u128::from),
                "at {ms} ms"
            );
        }
    }

    #[test]
    fn time_to_go_is_by_items_or_by_time() {
        let mut gauge = Gauge::new(&plan(1));
        let [before, then] = [
            live(1_000, vec![shard(1_000, 20_000)]),
            live(2_000, vec![shard(2_000, 40_000)]),
        ];
        assert_eq!(
            gauge.read(&before).remaining(),
            Some(Duration::from_secs(4))
        );
        let now = gauge.read(&then);
        assert_eq!(now.remaining(), Some(Duration::from_secs(3)), "20,000/s");
        assert!((now.done(40_000, 100_000) - 0.4).abs() < 1e-9);
        assert!((now.done(1, 100_000) - 2.0 / 60.0).abs() < 1e-9);
    }
}
