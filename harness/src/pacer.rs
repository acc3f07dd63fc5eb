//! `Pacer`: when the next request may go, given a reading of the clock; and the audit of when
//! requests went.
//!
//! In an open loop a [`Timetable`] takes the place of the budget: it says when each request is
//! scheduled, and forgives nothing.
//!
//! Pure: it does not sleep and reads no clock. The shard's gate calls [`Pacer::peek`] and
//! [`Pacer::poll`], and does the waiting. A budget is kept by the generic cell rate algorithm, on a
//! time scale of its own, which a [`Curve`] stretches. [`BudgetAudit`] checks the
//! requests that were sent by code of its own, so that a report proves that the budget was kept.
//!
//! A request is checked against the budget twice: before it is admitted, and again when it has its
//! connection and is to be written ([`Pacer::peek_send`]). Requests that were admitted one after
//! another may get their connections all at once.
//!
//! The algorithm is written here, in `Gcra`, because a library's limiter cannot be queried without
//! charging it, and cannot begin with less than a full burst. The gate needs both, as it checks
//! several limits. A test compares the two.

mod audit;
mod gcra;
mod rings;
mod tempo;
mod timetable;
mod window;

use std::time::Duration;

pub use self::audit::{BudgetAudit, WorstWindow};
pub(crate) use self::gcra::Gcra;
pub use self::rings::Slack;
use self::rings::{Upcoming, rings};
use self::tempo::Tempo;
pub use self::tempo::{Curve, Growth};
pub use self::timetable::Timetable;
use self::window::WindowLog;
use crate::clock::Nanos;
use crate::plan::Budget;

/// Answer of a pacer for one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Go. The budget allowed it since this moment, which is never later than the one asked about.
    Go(Nanos),
    /// Not before this moment, which is always later than the one asked about.
    Wait(Nanos),
}

impl Pace {
    /// Delay it to `next` at the earliest, as seen at `now`.
    pub(crate) fn no_sooner(self, next: Nanos, now: Nanos) -> Self {
        match self {
            Self::Go(since) if next <= now => Self::Go(since.max(next)),
            Self::Go(_) => Self::Wait(next),
            Self::Wait(at) => Self::Wait(at.max(next)),
        }
    }
}

/// Schedule of a shard's requests.
#[derive(Debug)]
pub enum Pacer {
    /// At any time.
    Unlimited,
    /// As a budget allows.
    Budgeted(Box<BudgetPacer>),
    /// When a timetable says, and any time later.
    Timed(Box<Timetable>),
}

impl Pacer {
    /// A pacer for a shard's share of the budget, counted from `start`, the common start of all
    /// shards.
    pub fn new(budget: Option<Budget>, start: Nanos) -> Self {
        Self::shaped(budget, Curve::Flat, start)
    }

    /// Create a pacer as [`Pacer::new`] does, for a rate that changes.
    pub fn shaped(budget: Option<Budget>, curve: Curve, start: Nanos) -> Self {
        budget.map_or(Self::Unlimited, |budget| {
            Self::Budgeted(Box::new(BudgetPacer::new(budget, curve, start)))
        })
    }

    /// Nanoseconds between the requests of all shards, of a budget that lets them go one at a time;
    /// none of any other.
    pub(crate) fn apart(&self) -> Option<u64> {
        match self {
            Self::Budgeted(pacer) => Some(pacer.apart_ns).filter(|apart| *apart > 0),
            Self::Unlimited | Self::Timed(_) => None,
        }
    }

    /// Return what [`Pacer::poll`] would return at `now`, and since when; without a budget, since
    /// the epoch. Nothing is charged.
    #[inline]
    pub fn peek(&self, now: Nanos) -> Pace {
        match self {
            Self::Unlimited => Pace::Go(Nanos::default()),
            Self::Budgeted(pacer) => pacer.pace(&pacer.admitting, now),
            Self::Timed(table) if table.due() <= now => Pace::Go(table.due()),
            Self::Timed(table) => Pace::Wait(table.due()),
        }
    }

    /// When to wake for the requests that come due next, and when after that, if each goes when it
    /// is waited for: with some slack, several at once. None without a budget, or when nothing
    /// comes due any more.
    ///
    /// A budget is let wait for half of the lateness that its burst makes up for at most, or it
    /// would lose requests.
    pub fn rings(&self, slack: Slack) -> Option<(Nanos, Option<Nanos>)> {
        match self {
            Self::Unlimited => rings(Upcoming::Never, slack),
            Self::Budgeted(pacer) => {
                let Schedule {
                    interval_ns,
                    tolerance_ns,
                    ..
                } = pacer.admitting;
                let own = pacer.admitting.allowed_since();
                let most =
                    1 + usize::try_from(tolerance_ns / interval_ns / 2).unwrap_or(usize::MAX - 1);
                let slack = Slack {
                    most: slack.most.min(most),
                    ..slack
                };
                rings(
                    Upcoming::Budgeted {
                        tempo: &pacer.tempo,
                        own,
                        interval_ns,
                    },
                    slack,
                )
            }
            Self::Timed(table) => rings(Upcoming::Timed(Timetable::clone(table)), slack),
        }
    }

    /// Asks for one request at `now`. [`Pace::Go`] is a grant and is charged.
    #[inline]
    pub fn poll(&mut self, now: Nanos) -> Pace {
        match self {
            Self::Unlimited => Pace::Go(now),
            Self::Budgeted(pacer) => pacer.poll(now),
            Self::Timed(table) => {
                let due = table.due();
                if due > now {
                    return Pace::Wait(due);
                }
                table.take();
                Pace::Go(due)
            }
        }
    }

    /// The shard begins at `from`, after the start: the first request goes an interval later, the
    /// next ones at the rate.
    pub(crate) fn begin_late(&mut self, from: Nanos) {
        if let Self::Budgeted(pacer) = self {
            let own = pacer.tempo.own(from);
            pacer.admitting.begin_late(own);
            pacer.sending.begin_late(own);
            pacer.log.iter_mut().for_each(|log| log.begin_late(from));
        }
    }

    /// From `now` on the share of the budget is this much larger than at the start. A timetable is
    /// the shard's own.
    pub(crate) fn grow(&mut self, growth: Growth, now: Nanos) {
        if let Self::Budgeted(pacer) = self {
            pacer.grow(growth, now);
        }
    }

    /// The timetable, in an open loop.
    pub(crate) const fn timetable(&mut self) -> Option<&mut Timetable> {
        match self {
            Self::Timed(table) => Some(table),
            Self::Unlimited | Self::Budgeted(_) => None,
        }
    }

    /// True if a request may go at any time.
    pub const fn is_unlimited(&self) -> bool {
        matches!(self, Self::Unlimited)
    }

    /// Ask if a request that was let through may be written at `now`, or when, in ns. Nothing is
    /// charged.
    pub fn peek_send(&self, now: Nanos) -> Pace {
        match self {
            Self::Unlimited | Self::Timed(_) => Pace::Go(Nanos::default()),
            Self::Budgeted(pacer) => {
                let next = pacer.log.as_ref().map_or(Nanos(0), WindowLog::next);
                pacer.pace(&pacer.sending, now).no_sooner(next, now)
            }
        }
    }

    /// Charges a request that is written at `now`, which [`Pacer::peek_send`] allowed.
    pub fn sent(&mut self, now: Nanos) {
        if let Self::Budgeted(pacer) = self {
            pacer.sent(now);
        }
    }

    /// The audit so far; none when there is no budget.
    pub fn audit(&self) -> Option<&BudgetAudit> {
        match self {
            Self::Unlimited | Self::Timed(_) => None,
            Self::Budgeted(pacer) => Some(&pacer.audit),
        }
    }
}

/// A budget, in its own time.
///
/// Both schedules are of the same rate and burst, so the second one delays a request only by what
/// getting a connection took longer than it took others.
#[derive(Debug)]
pub struct BudgetPacer {
    /// When requests are let through.
    admitting: Schedule,
    /// When they are written.
    sending: Schedule,
    /// The last requests, where the rate has windows.
    log: Option<WindowLog>,
    tempo: Tempo,
    audit: BudgetAudit,
    /// Requests at once with the share of the start.
    burst: u64,
    apart_ns: u64,
}

impl BudgetPacer {
    fn new(budget: Budget, curve: Curve, start: Nanos) -> Self {
        let first = start.plus(Duration::from_nanos(budget.phase_ns));

        Self {
            admitting: Schedule::new(budget, first),
            sending: Schedule::new(budget, first),
            log: WindowLog::of(&curve, budget.burst),
            tempo: Tempo::new(curve, start),
            audit: BudgetAudit::new(budget),
            burst: budget.burst,
            apart_ns: budget.apart_ns,
        }
    }

    /// The rate grows; so does the burst of a window, which has to hold all of it, as if the
    /// shards that are gone had used theirs just now.
    fn grow(&mut self, growth: Growth, now: Nanos) {
        if let Some(log) = &mut self.log {
            let (burst, own) = (growth.of(self.burst), self.tempo.own(now));
            log.grow(burst, now);
            self.admitting.grow(burst, own);
            self.sending.grow(burst, own);
            self.audit.grow(burst);
        }
        self.tempo.grow(growth, now);
    }

    fn pace(&self, schedule: &Schedule, now: Nanos) -> Pace {
        let allowed = schedule.allowed_since();
        if allowed <= self.tempo.own(now) {
            Pace::Go(self.tempo.when(allowed).min(now))
        } else {
            Pace::Wait(self.tempo.when(allowed).max(Nanos(now.0.saturating_add(1))))
        }
    }

    fn poll(&mut self, now: Nanos) -> Pace {
        let pace = self.pace(&self.admitting, now);
        if matches!(pace, Pace::Go(_)) {
            self.admitting.admit(self.tempo.own(now));
        }
        pace
    }

    fn sent(&mut self, now: Nanos) {
        let own = self.tempo.own(now);
        self.sending.admit(own);
        self.audit.sent(own, now);
        self.log.iter_mut().for_each(|log| log.sent(now));
    }
}

/// One request per interval, and up to `burst` at once: the tolerance is `burst - 1` intervals.
#[derive(Debug)]
struct Schedule {
    interval_ns: u64,
    tolerance_ns: u64,
    gcra: Gcra,
    first: Nanos,
}

impl Schedule {
    fn new(
        Budget {
            interval_ns,
            burst,
            at_start,
            ..
        }: Budget,
        first: Nanos,
    ) -> Self {
        let interval_ns = interval_ns.max(1);
        let used = interval_ns.saturating_mul(burst.saturating_sub(at_start.max(1)));
        Self {
            interval_ns,
            tolerance_ns: interval_ns.saturating_mul(burst.saturating_sub(1)),
            gcra: Gcra::new(Nanos(first.0.saturating_add(used))),
            first,
        }
    }

    /// Nothing was saved up to `own`.
    fn begin_late(&mut self, own: Nanos) {
        self.first = Nanos(own.0.saturating_add(self.interval_ns));
        self.gcra = Gcra::new(Nanos(self.first.0.saturating_add(self.tolerance_ns)));
    }

    /// Allow `burst` at once, of which those that are more than before count as gone at `own`.
    fn grow(&mut self, burst: u64, own: Nanos) {
        let tolerance_ns = self.interval_ns.saturating_mul(burst.saturating_sub(1));
        let more = tolerance_ns.saturating_sub(self.tolerance_ns);
        self.gcra
            .postpone(Nanos(self.gcra.tat().max(own).0.saturating_add(more)));
        self.tolerance_ns = tolerance_ns;
    }

    /// Since when the next request has been allowed, or will be.
    fn allowed_since(&self) -> Nanos {
        self.gcra.allowed_since(self.tolerance_ns).max(self.first)
    }

    fn admit(&mut self, now: Nanos) {
        self.gcra.admit(now, self.interval_ns);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    const fn every(interval_ns: u64, burst: u64) -> Budget {
        Budget {
            interval_ns,
            burst,
            at_start: burst,
            phase_ns: 0,
            apart_ns: 0,
        }
    }

    /// Writes a request that was just let through.
    fn write(pacer: &mut Pacer, now: Nanos) {
        assert!(
            matches!(pacer.peek_send(now), Pace::Go(_)),
            "what is written at once is never held back"
        );
        pacer.sent(now);
    }

    fn greedy(budget: Budget, until: Nanos) -> Vec<Nanos> {
        let mut pacer = Pacer::new(Some(budget), Nanos(0));
        let (mut now, mut sent) = (Nanos(0), Vec::new());
        while now <= until {
            match pacer.poll(now) {
                Pace::Go(_) => {
                    write(&mut pacer, now);
                    sent.push(now);
                }
                Pace::Wait(next) => now = next,
            }
        }
        assert!(pacer.audit().unwrap().kept());
        sent
    }

    /// The greatest `admitted - rate * width` over all windows, by looking at every pair.
    fn worst_excess_ns(sent: &[Nanos], interval_ns: u64) -> u64 {
        let mut worst = 0;
        for first in 0..sent.len() {
            for last in first..sent.len() {
                let charged = (last - first + 1) as u64 * interval_ns;
                worst = worst.max(charged.saturating_sub(sent[last].since(sent[first])));
            }
        }
        worst
    }

    #[test]
    fn a_burst_that_is_for_lateness_is_not_there_at_the_start() {
        let sent = greedy(
            Budget {
                interval_ns: 10 * MS,
                burst: 10,
                at_start: 2,
                phase_ns: 0,
                apart_ns: 0,
            },
            Nanos(1_000 * MS),
        );
        assert_eq!(
            (sent.len(), sent[1], sent[2]),
            (102, Nanos(0), Nanos(10 * MS))
        );
        let mut pacer = Pacer::new(
            Some(Budget {
                interval_ns: 10,
                burst: 4,
                at_start: 1,
                phase_ns: 0,
                apart_ns: 0,
            }),
            Nanos(0),
        );
        assert_eq!(pacer.poll(Nanos(0)), Pace::Go(Nanos(0)));
        // Late by three of them, and then by an hour.
        assert_eq!(
            [39, 39, 39, 39].map(|now| pacer.poll(Nanos(now)) == Pace::Wait(Nanos(40))),
            [false, false, false, true]
        );
        let hour = Nanos(3_600_000_000_000);
        assert_eq!(
            (0..9)
                .filter(|_| matches!(pacer.poll(hour), Pace::Go(_)))
                .count(),
            4
        );
    }

    #[test]
    fn a_late_client_learns_since_when_it_was_allowed() {
        let mut pacer = Pacer::new(Some(every(10, 3)), Nanos(0));
        for _ in 0..3 {
            assert_eq!(pacer.poll(Nanos(0)), Pace::Go(Nanos(0)));
        }
        assert_eq!(pacer.poll(Nanos(0)), Pace::Wait(Nanos(10)));
        // Late by 14: two cells have come free, at 10 and at 20.
        assert_eq!(pacer.poll(Nanos(24)), Pace::Go(Nanos(10)));
        assert_eq!(pacer.poll(Nanos(24)), Pace::Go(Nanos(20)));
        assert_eq!(pacer.poll(Nanos(24)), Pace::Wait(Nanos(30)));
    }

    proptest! {
        #[test]
        fn go_exactly_when_it_said_and_not_before(
            interval_ns in 1..1_000_u64, burst in 1..20_u64, phase_ns in 0..500_u64,
            pauses in prop::collection::vec(0..3_000_u64, 1..200),
        ) {
            let mut pacer = Pacer::new(Some(Budget { interval_ns, burst, at_start: burst, phase_ns, apart_ns: 0 }), Nanos(7));
            let (mut now, mut sent) = (Nanos(7), Vec::new());
            for pause in pauses {
                now.0 += pause;
                if let Pace::Wait(next) = pacer.poll(now) {
                    prop_assert!(next > now);
                    if next.0 > now.0 + 1 {
                        prop_assert_eq!(pacer.poll(Nanos(next.0 - 1)), Pace::Wait(next));
                    }
                    now = next;
                    prop_assert_eq!(pacer.poll(now), Pace::Go(next));
                }
                write(&mut pacer, now);
                sent.push(now);
            }
            // The audit's verdict is that of a search over every window.
            let worst = worst_excess_ns(&sent, interval_ns);
            prop_assert!(worst <= burst * interval_ns);
            let audit = pacer.audit().unwrap();
            prop_assert!(audit.kept());
            prop_assert!(audit.worst().admitted <= audit.worst().allowed);
            prop_assert_eq!(audit.worst_excess_ns, worst);
        }

        #[test]
        fn however_late_connections_come_no_window_holds_more_than_its_burst_and_rate(
            interval_ns in 1..1_000_u64, burst in 1..20_u64, delays in prop::collection::vec(0..20_000_u64, 1..150),
        ) {
            let budget = every(interval_ns, burst);
            let longest = delays.iter().copied().max().unwrap();
            let (admitted, sent) = connecting(budget, &delays);
            prop_assert!(worst_excess_ns(&sent, interval_ns) <= burst * interval_ns);
            let delayed = admitted.iter().zip(&sent).all(|(admitted, sent)| sent.since(*admitted) <= 2 * longest + interval_ns);
            prop_assert!(delayed, "by more than twice the longest time to connect, and an interval");
        }

        #[test]
        fn connections_that_take_long_leave_nothing_of_the_budget_unused(
            interval_ns in 1..1_000_u64, burst in 1..5_u64, longest in prop_oneof![0..3_000_u64, 0..20_000_u64], seed: u64,
        ) {
            let budget = Budget { interval_ns, burst, at_start: 1, phase_ns: 0, apart_ns: 0 };
            // From half of the longest time to connect up.
            let delay = |n: u64| longest - seed.wrapping_mul(n | 1).rotate_left(17) % (longest / 2 + 1);
            let delays: Vec<u64> = (0..500).map(delay).collect();
            let (_, sent) = connecting(budget, &delays);
            let needed = 499 * interval_ns;
            prop_assert!(sent[499].0 <= needed + needed / 20 + 2 * longest, "{} ns for {needed}", sent[499].0);
        }
    }

    /// Lets requests through whose connections take `delays`, one after another, and writes them;
    /// returns when each was let through and when one was written.
    fn connecting(budget: Budget, delays: &[u64]) -> (Vec<Nanos>, Vec<Nanos>) {
        let mut pacer = Pacer::new(Some(budget), Nanos(0));
        let (mut now, mut opening, mut held, mut admitted, mut sent) =
            (Nanos(0), Vec::new(), 0, Vec::new(), Vec::new());
        while sent.len() < delays.len() {
            let mut next = u64::MAX;
            while let Some(delay) = delays.get(admitted.len()) {
                // As the gate does: what is let through would only wait again.
                if held > opening.len() + 1 {
                    break;
                }
                match pacer.poll(now) {
                    Pace::Go(_) => {
                        admitted.push(now);
                        opening.push(now.0 + delay);
                    }
                    Pace::Wait(at) => {
                        next = at.0;
                        break;
                    }
                }
            }
            opening.retain(|ready| {
                let is_ready = *ready <= now.0;
                held += usize::from(is_ready);
                !is_ready
            });
            while held > 0 {
                match pacer.peek_send(now) {
                    Pace::Go(_) => {
                        pacer.sent(now);
                        sent.push(now);
                        held -= 1;
                        // Another one may be let through in its place.
                        next = now.0;
                    }
                    Pace::Wait(at) => {
                        next = next.min(at.0);
                        break;
                    }
                }
            }
            now = Nanos(opening.iter().copied().fold(next, u64::min).max(now.0 + 1));
        }
        assert!(pacer.audit().unwrap().kept());
        (admitted, sent)
    }
}
