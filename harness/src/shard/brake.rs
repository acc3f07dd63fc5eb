//! Waiting because the target asks for it: pauses, the pace at which a quota lasts, and the books of promises kept.
//!
//! Called by the gate. It must not read a clock or wait; draws come from a seeded generator.
//!
//! A target's wait is taken as a promise that nothing comes before it is over. Waits are jittered upward only: the shards
//! resume one after another within a tenth of the wait, so that they do not all come back at the same instant. A wait
//! longer than `--max-pause` is cut, and what is then sent early is counted.

use std::time::Duration;

use super::retry::backoff_ceiling;
use crate::clock::{Nanos, duration_ns};
use crate::pacer::Pace;
use crate::plan::{Manners, OnThrottle, ShardPlan};
use crate::sample::{Attempt, Outcome, Permit, Quota};
use crate::wire::{Courtesy, PauseCause, PauseOrder};

/// How much longer than promised a pause may become, as a part of the promise: enough to spread those who were told the
/// same, too little to be felt.
const SPREAD: u32 = 10;

/// Quotas smaller than this are no quotas to plan with: what is left of them is refilled before it could be spread.
const SMALLEST_QUOTA: u64 = 10;

/// How late a request may be under a quota's pace and still not cost a later one its place.
const CATCH_UP: Duration = Duration::from_millis(10);

/// The brake of one shard.
#[derive(Debug)]
pub(super) struct Brake {
    host: u32,
    manners: Manners,
    shard: u32,
    siblings: u32,
    draw: fastrand::Rng,
    /// Nothing goes before this.
    resume: Nanos,
    /// Until when the target asked for patience.
    promised: Nanos,
    /// Whether something went before that.
    broken: Broken,
    /// Since when the shard has been throttled, until its first good answer after the pause.
    throttled_since: Option<Nanos>,
    /// How often it was throttled in a row without being told for how long.
    untold: u32,
    quota: QuotaPace,
    books: Courtesy,
}

/// Whether the running promise was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broken {
    /// There is none.
    NoPromise,
    /// Not so far.
    No,
    /// It was.
    Yes,
}

impl Brake {
    /// The brake of a shard for host number `host`.
    pub(super) fn new(host: u32, plan: &ShardPlan) -> Self {
        Self {
            host,
            manners: plan.manners,
            shard: plan.shard,
            siblings: plan.siblings.max(1),
            draw: fastrand::Rng::with_seed(plan.seed ^ (u64::from(plan.shard) << 32) ^ u64::from(host)),
            resume: Nanos::default(),
            promised: Nanos::default(),
            broken: Broken::NoPromise,
            throttled_since: None,
            untold: 0,
            quota: QuotaPace::new(plan.siblings.max(1), plan.manners.max_pause),
            books: Courtesy::default(),
        }
    }

    /// Before this moment nothing may go.
    pub(super) const fn resume(&self) -> Nanos {
        self.resume
    }

    /// A draw from 0 to 1.
    pub(super) fn draw(&mut self) -> f64 {
        self.draw.f64()
    }

    /// When a request may go at the pace at which the target's quota lasts. Going is not charged.
    pub(super) fn poll_quota(&self, now: Nanos) -> Pace {
        self.quota.poll(now)
    }

    /// Books a request that goes at `now`.
    pub(super) fn admitted(&mut self, now: Nanos) {
        self.quota.admitted(now);
        if now < self.promised {
            self.books.early_attempts += 1;
            self.broken = Broken::Yes;
        }
    }

    /// Takes in how an attempt ended. Some when all shards have to wait.
    pub(super) fn ended(&mut self, permit: &Permit, attempt: &Attempt) -> Option<PauseOrder> {
        match attempt.outcome {
            Outcome::Throttled => return self.throttled(attempt),
            Outcome::Ok | Outcome::NotFound => self.recovered(permit, attempt),
            Outcome::SoftBlocked | Outcome::Rejected | Outcome::Error(_) => {}
        }
        let quota = attempt.advice.quota.filter(|_| self.manners.on_throttle == OnThrottle::Honor)?;
        let wait = self.quota.hear(attempt.done, quota)?;
        Some(self.order(PauseCause::UsedUp, attempt.done, wait, attempt.done))
    }

    fn throttled(&mut self, attempt: &Attempt) -> Option<PauseOrder> {
        let told = attempt.advice.wait;
        if let Some(told) = told {
            self.books.promises += 1;
            self.promise(attempt.done, attempt.done.plus(told));
        }
        if self.manners.on_throttle != OnThrottle::Honor {
            return None;
        }
        let wait = match told {
            Some(told) => told,
            // Half of it at least: a wait of nothing is no answer to a refusal.
            None => backoff_ceiling(self.untold, self.manners.backoff).mul_f64(0.5 + self.draw() / 2.0),
        };
        if told.is_none() && attempt.done >= self.resume {
            self.untold = self.untold.saturating_add(1);
        }
        Some(self.order(
            PauseCause::Refused,
            attempt.done,
            wait,
            told.map_or(attempt.done, |told| attempt.done.plus(told)),
        ))
    }

    fn order(&mut self, cause: PauseCause, at: Nanos, wait: Duration, promised: Nanos) -> PauseOrder {
        let taken = wait.min(self.manners.max_pause);
        let spread = if taken < wait { Duration::ZERO } else { taken / SPREAD };
        self.books.cut_pauses += u64::from(taken < wait);
        let order =
            PauseOrder { host: self.host, cause, at, until: at.plus(taken), spread_ns: duration_ns(spread), promised };
        self.pause(order);
        order
    }

    /// Does as the target told another shard.
    pub(super) fn ordered(&mut self, order: PauseOrder) {
        if order.promised > order.at {
            self.promise(order.at, order.promised);
        }
        self.pause(order);
    }

    fn pause(&mut self, order: PauseOrder) {
        // The first half of each shard's part only: what is left keeps it apart from the next one.
        let place = (f64::from(self.shard) + self.draw() / 2.0) / f64::from(self.siblings);
        let resume = order.until.plus(Duration::from_nanos(order.spread_ns).mul_f64(place));
        if resume > self.resume {
            self.books.paused_ns += resume.since(self.resume.max(order.at));
            self.resume = resume;
        }
        self.throttled_since.get_or_insert(order.at);
    }

    /// Notes that the target asked for patience until `until`.
    fn promise(&mut self, at: Nanos, until: Nanos) {
        if at >= self.promised {
            self.settle_promise();
            self.broken = Broken::No;
        }
        self.promised = self.promised.max(until);
    }

    fn settle_promise(&mut self) {
        match self.broken {
            Broken::NoPromise => {}
            Broken::No => self.books.honoured += 1,
            Broken::Yes => self.books.violated += 1,
        }
        self.broken = Broken::NoPromise;
    }

    fn recovered(&mut self, permit: &Permit, attempt: &Attempt) {
        if permit.admitted < self.resume {
            return;
        }
        self.untold = 0;
        if let Some(since) = self.throttled_since.take() {
            let took = attempt.done.since(since);
            self.books.recoveries += 1;
            self.books.recovery_sum_ns += took;
            self.books.recovery_max_ns = self.books.recovery_max_ns.max(took);
        }
    }

    /// Books an item that was not tried again because the run had retried as much as it may.
    pub(super) fn denied(&mut self) {
        self.books.retries_denied += 1;
    }

    /// The books as they would be if the run ended at `now`.
    pub(super) fn books(&self, now: Nanos) -> Courtesy {
        let mut end = Courtesy { paused_ns: self.books.paused_ns - self.resume.since(now), ..self.books };
        match self.broken {
            Broken::NoPromise => {}
            Broken::No => end.honoured += 1,
            Broken::Yes => end.violated += 1,
        }
        end
    }
}

/// The pace at which what is left of a quota lasts until there is more.
///
/// The first half is free: a quota that is hardly used needs no pace. From there on what is left is spread over the time
/// that it has to last, each shard taking its part.
#[derive(Debug)]
struct QuotaPace {
    /// How many shards share it.
    siblings: u32,
    /// The longest that it may keep a request waiting.
    longest: Duration,
    /// The most that was ever left, for targets that do not tell how many there are in all.
    most: u64,
    interval: Duration,
    until: Nanos,
    next: Nanos,
}

impl QuotaPace {
    fn new(siblings: u32, longest: Duration) -> Self {
        Self { siblings, longest, most: 0, interval: Duration::ZERO, until: Nanos::default(), next: Nanos::default() }
    }

    /// Takes in what is left. Some when nothing is, and for how long.
    fn hear(&mut self, at: Nanos, quota: Quota) -> Option<Duration> {
        self.most = self.most.max(quota.limit.unwrap_or(quota.remaining));
        let most = quota.limit.unwrap_or(self.most);
        let resets_in = quota.resets_in.filter(|resets_in| !resets_in.is_zero());
        let (Some(resets_in), true) = (resets_in, most >= SMALLEST_QUOTA) else { return None };
        let left = u32::try_from(quota.remaining).unwrap_or(u32::MAX);
        if quota.remaining.saturating_mul(2) > most {
            self.until = at;
        } else if left == 0 {
            return Some(resets_in);
        } else {
            self.interval = (resets_in / left).saturating_mul(self.siblings).min(self.longest);
            self.until = at.plus(resets_in.min(self.longest));
        }
        None
    }

    fn poll(&self, now: Nanos) -> Pace {
        let due = Nanos(self.next.0.saturating_sub(duration_ns(CATCH_UP))).min(self.until);
        if due <= now { Pace::Go(now) } else { Pace::Wait(due) }
    }

    fn admitted(&mut self, now: Nanos) {
        if now < self.until {
            self.next = self.next.max(now).plus(self.interval);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::plan::tests::plan;
    use crate::sample::{Advice, ErrorKind};

    const S: u64 = 1_000_000_000;

    fn brake(shard: usize, manners: Manners) -> Brake {
        let mut run = plan();
        (run.shards, run.connections, run.manners) = (4, 4, manners);
        Brake::new(0, &run.split(&[])[shard])
    }

    fn ended(at: u64, outcome: Outcome, advice: Advice) -> (Permit, Attempt) {
        let at = Nanos(at);
        let permit = Permit { id: 0, attempt: 0, first_intended: at, intended: at, ready: at, admitted: at };
        let attempt = Attempt {
            sent: Some(at),
            first_byte: None,
            done: at,
            connect_ns: None,
            bytes_sent: 0,
            bytes_received: 0,
            status: Some(200),
            outcome,
            advice,
        };
        (permit, attempt)
    }

    fn hear(brake: &mut Brake, at: u64, outcome: Outcome, advice: Advice) -> Option<PauseOrder> {
        let (permit, attempt) = ended(at, outcome, advice);
        brake.ended(&permit, &attempt)
    }

    fn wait(seconds: u64) -> Advice {
        Advice { wait: Some(Duration::from_secs(seconds)), ..Advice::default() }
    }

    #[test]
    fn the_shards_resume_one_after_another_and_none_too_early() {
        let mut brakes: Vec<Brake> = (0..4).map(|shard| brake(shard, Manners::default())).collect();
        let order = hear(&mut brakes[2], 5, Outcome::Throttled, wait(10)).unwrap();
        assert_eq!((order.until, order.promised), (Nanos(5 + 10 * S), Nanos(5 + 10 * S)));
        for i in [0, 1, 3] {
            brakes[i].ordered(order);
        }
        for (i, brake) in (0_u64..).zip(&brakes) {
            let place = brake.resume().since(order.until);
            assert!((i * S / 4..=(i + 1) * S / 4).contains(&place), "shard {i} {place} ns after the others may");
        }
    }

    #[test]
    fn a_promise_is_kept_or_broken_once_however_often_it_is_made() {
        let mut brake = brake(0, Manners::default());
        for at in [0, 10, 20] {
            hear(&mut brake, at, Outcome::Throttled, wait(1));
        }
        assert_eq!(brake.books(Nanos(5 * S)).honoured, 1);
        brake.admitted(Nanos(2 * S));
        hear(&mut brake, 2 * S, Outcome::Throttled, wait(1));
        brake.admitted(Nanos(2 * S + S / 2));
        brake.admitted(Nanos(2 * S + S / 2));
        let books = brake.books(Nanos(5 * S));
        assert_eq!((books.promises, books.honoured, books.violated, books.early_attempts), (4, 1, 1, 2));
        assert!(books.paused_ns >= 2 * S && books.paused_ns <= 2 * S + S / 5 + 40);
    }

    #[test]
    fn a_wait_that_is_cut_is_a_promise_that_may_be_broken() {
        let manners = Manners { max_pause: Duration::from_secs(2), ..Manners::default() };
        let mut brake = brake(3, manners);
        let order = hear(&mut brake, 0, Outcome::Throttled, wait(60)).unwrap();
        assert_eq!((order.until, brake.resume(), order.promised), (Nanos(2 * S), Nanos(2 * S), Nanos(60 * S)));
        brake.admitted(Nanos(2 * S));
        let books = brake.books(Nanos(3 * S));
        assert_eq!((books.cut_pauses, books.violated, books.paused_ns), (1, 1, 2 * S));
    }

    #[test]
    fn who_only_counts_waits_for_nobody_and_says_what_that_broke() {
        for on_throttle in [OnThrottle::Count, OnThrottle::Ignore] {
            let mut brake = brake(0, Manners { on_throttle, ..Manners::default() });
            assert_eq!(hear(&mut brake, 0, Outcome::Throttled, wait(60)), None);
            assert_eq!(brake.resume(), Nanos(0));
            brake.admitted(Nanos(1));
            assert_eq!((brake.books(Nanos(2)).violated, brake.books(Nanos(2)).early_attempts), (1, 1));
        }
    }

    #[test]
    fn a_refusal_without_a_time_is_answered_by_ever_longer_waits() {
        let mut brake = brake(0, Manners::default());
        let mut at = 0;
        for base_ms in [100, 200, 400, 800] {
            let order = hear(&mut brake, at, Outcome::Throttled, Advice::default()).unwrap();
            let waited_ms = order.until.since(Nanos(at)) / 1_000_000;
            assert!((base_ms / 2..=base_ms).contains(&waited_ms), "{waited_ms} of {base_ms}");
            // Its aftermath is no other refusal.
            hear(&mut brake, at + 1, Outcome::Throttled, Advice::default());
            at = brake.resume().0;
        }
        hear(&mut brake, at, Outcome::Ok, Advice::default());
        let order = hear(&mut brake, at, Outcome::Throttled, Advice::default()).unwrap();
        assert!(order.until.since(Nanos(at)) <= 100_000_000);
        assert_eq!((brake.books(order.until).promises, brake.books(order.until).honoured), (0, 0));
    }

    #[test]
    fn recovery_is_timed_from_the_first_refusal_to_the_first_good_answer_after_the_pause() {
        let mut brake = brake(0, Manners::default());
        hear(&mut brake, 7 * S, Outcome::Throttled, wait(1));
        // Sent before the pause: no sign that it is over.
        hear(&mut brake, 7 * S + 5, Outcome::Ok, Advice::default());
        hear(&mut brake, 9 * S, Outcome::Error(ErrorKind::Reset), Advice::default());
        hear(&mut brake, 10 * S, Outcome::NotFound, Advice::default());
        hear(&mut brake, 11 * S, Outcome::Ok, Advice::default());
        let books = brake.books(Nanos(12 * S));
        assert_eq!((books.recoveries, books.recovery_sum_ns, books.recovery_max_ns), (1, 3 * S, 3 * S));
    }

    fn left(remaining: u64, limit: Option<u64>, resets_in_s: u64) -> Advice {
        let quota = Quota { remaining, limit, resets_in: Some(Duration::from_secs(resets_in_s)) };
        Advice { quota: Some(quota), ..Advice::default() }
    }

    /// Requests that go between two instants at most.
    fn greedy(brake: &mut Brake, from: u64, to: u64) -> u64 {
        let (mut now, mut went) = (Nanos(from), 0);
        while now.0 < to {
            match brake.poll_quota(now) {
                Pace::Go(_) => {
                    brake.admitted(now);
                    went += 1;
                    now.0 += 1_000;
                }
                Pace::Wait(next) => {
                    assert!(next > now);
                    now = next;
                }
            }
        }
        went
    }

    #[test]
    fn the_second_half_of_a_quota_is_spread_over_the_time_it_has_to_last() {
        let mut brake = brake(0, Manners::default());
        hear(&mut brake, 0, Outcome::Ok, left(60, Some(100), 10));
        assert_eq!(greedy(&mut brake, 0, S / 1_000), 1_000, "more than half is left");
        hear(&mut brake, S, Outcome::Ok, left(40, Some(100), 10));
        let went = greedy(&mut brake, S, 11 * S - 1);
        // A fourth of them, for there are four shards.
        assert!((10..=11).contains(&went), "{went}");
        assert!(greedy(&mut brake, 11 * S, 11 * S + 1_000_000) > 100, "there is more after the reset");
        let order = hear(&mut brake, 20 * S, Outcome::Ok, left(0, Some(100), 10)).unwrap();
        assert_eq!(
            (order.until, order.promised),
            (Nanos(30 * S), Nanos(20 * S)),
            "nothing is left, nothing was promised"
        );
    }

    #[test]
    fn a_quota_too_small_to_plan_with_does_not_slow_anybody() {
        let mut brake = brake(0, Manners::default());
        assert_eq!(hear(&mut brake, 0, Outcome::Ok, left(0, Some(1), 1)), None);
        assert_eq!(greedy(&mut brake, 0, S / 1_000), 1_000);
    }

    fn any_advice() -> impl Strategy<Value = Advice> {
        let span = || prop_oneof![0..100_000_u64, Just(0), Just(u64::MAX / 2)].prop_map(Duration::from_millis);
        let quota = (any::<u64>(), prop::option::of(any::<u64>()), prop::option::of(span()))
            .prop_map(|(remaining, limit, resets_in)| Quota { remaining, limit, resets_in });
        (prop::option::of(span()), prop::option::of(quota)).prop_map(|(wait, quota)| Advice {
            wait,
            quota,
            ..Advice::default()
        })
    }

    proptest! {
        /// Whatever a target says, it neither stops a shard for longer than allowed nor has anything go early.
        #[test]
        fn nothing_that_a_target_says_stops_a_shard_for_longer_than_allowed(
            said in prop::collection::vec((0..50_000_u64, 0..3_u8, any_advice()), 1..60), max_pause_ms in 1..20_000_u64,
        ) {
            let max_pause = Duration::from_millis(max_pause_ms);
            let mut brake = brake(1, Manners { max_pause, ..Manners::default() });
            let mut now = 0;
            for (later_ms, kind, advice) in said {
                now += later_ms * 1_000_000;
                let before = brake.resume();
                let outcome = [Outcome::Ok, Outcome::Throttled, Outcome::Rejected][usize::from(kind)];
                let order = hear(&mut brake, now, outcome, advice);
                prop_assert!(brake.resume() >= before, "a pause is never shortened");
                let longest = duration_ns(max_pause) + duration_ns(max_pause) / u64::from(SPREAD);
                prop_assert!(brake.resume().since(Nanos(now)) <= longest);
                if let (Some(order), Some(wait), Outcome::Throttled) = (order, advice.wait, outcome) {
                    prop_assert!(brake.resume() >= Nanos(now).plus(wait.min(max_pause)));
                    prop_assert!(order.promised == Nanos(now).plus(wait));
                }
                if let Pace::Wait(next) = brake.poll_quota(Nanos(now)) {
                    prop_assert!(next > Nanos(now) && next <= Nanos(now).plus(max_pause));

                }
                brake.admitted(Nanos(now));
                prop_assert!(brake.books(Nanos(now)).paused_ns <= now);
            }
        }
    }
}
