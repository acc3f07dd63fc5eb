//! Waiting until an instant of the run's clock, to within microseconds and never too early, for the
//! one task of a shard that lets requests go.
//!
//! The runtime's own timer has a resolution of a millisecond, which a budget would count as
//! lateness. In a real shard the wait is a `timerfd`; nothing polls or spins in between. In virtual
//! time there is only the runtime's timer. It must not decide how long anything waits.
//!
//! With `--pacing spin`, and for a moment where each request keeps its distance from the one before,
//! a shard sleeps until a little before the instant and then reads the clock continuously. In between it lets the runtime read from its sockets, so that no response waits
//! for it.
//!
//! There are two timers, which take turns. Setting the earliest timer of a CPU reprograms the CPU's
//! own timer, which on a virtual machine costs as much as a system call that sends. So the wake-up
//! after the next one is set before the next one fires: the kernel then programs the CPU's timer
//! for it in the interrupt of the earlier one, where it has to program it anyway.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

#[cfg(feature = "virtual-time")]
use crate::chance::Chance;
use crate::clock::{Clock, Nanos, duration_ns};

/// Limit on how late a drawn alarm rings: a busy machine's.
#[cfg(feature = "virtual-time")]
const LATEST: Duration = Duration::from_millis(40);

/// When an alarm is to ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ring {
    /// The next time.
    pub(super) at: Nanos,
    /// The time after that, as far as can be seen. It may change.
    pub(super) then: Option<Nanos>,
}

impl From<Nanos> for Ring {
    fn from(at: Nanos) -> Self {
        Self { at, then: None }
    }
}

/// Waits for one instant at a time.
#[derive(Debug)]
pub(crate) struct Alarm {
    clock: Clock,
    bell: Bell,
    /// Time before an instant for which it stays awake, ns.
    awake_ns: u64,
}

/// Source of the ring.
#[derive(Debug)]
enum Bell {
    /// The kernel, to within microseconds.
    Kernel(Box<[KernelWakeup; 2]>),
    /// The runtime, to within a millisecond; exactly, in virtual time, or as drawn.
    #[cfg(feature = "virtual-time")]
    Runtime(Chance),
}

/// One timer of the kernel's.
#[derive(Debug)]
struct KernelWakeup {
    timer: AsyncFd<Timer>,
    /// Instant that it was last set to; it may have rung since.
    set_to: Nanos,
}

/// The descriptor, in a form that the runtime can watch: its own, one and the same, open until it
/// is dropped.
#[derive(Debug)]
struct Timer(TimerFd);

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl Alarm {
    /// An alarm of the kernel's, for `clock`, that stays awake for so long before an instant. Make
    /// it within the runtime that is to drive it, after the fork.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub(super) fn kernel(clock: Clock, awake: Duration) -> io::Result<Self> {
        let bells = [KernelWakeup::new()?, KernelWakeup::new()?];
        Ok(Self {
            clock,
            bell: Bell::Kernel(Box::new(bells)),
            awake_ns: duration_ns(awake),
        })
    }

    /// An alarm that keeps the runtime's time, which may be virtual.
    #[cfg(test)]
    pub(super) fn runtime(clock: Clock) -> Self {
        Self::drawn(clock, Chance::default())
    }

    /// An alarm that keeps virtual time, and rings early or late as `chance` has it.
    #[cfg(feature = "virtual-time")]
    pub(crate) const fn drawn(clock: Clock, chance: Chance) -> Self {
        Self {
            clock,
            bell: Bell::Runtime(chance),
            awake_ns: 0,
        }
    }

    /// The clock that it waits by.
    pub(super) const fn clock(&self) -> Clock {
        self.clock
    }

    /// Waits until the clock reads `ring.at` or more. May be dropped at any moment and asked for
    /// any other instant.
    pub(super) async fn until(&mut self, ring: impl Into<Ring>) {
        let due: Ring = ring.into();
        let before = |at: Nanos| Nanos(at.0.saturating_sub(self.awake_ns));
        let ring = Ring {
            at: before(due.at),
            then: due.then.map(before),
        };
        // A bell may ring for a wait that was dropped: what counts is the clock.
        while self.clock.now() < ring.at {
            match &mut self.bell {
                Bell::Kernel(bells) => {
                    if next_ring(bells, ring, self.clock).await.is_err() {
                        // Only a kernel without this timer comes here. A late request is better
                        // than none.
                        tokio::time::sleep_until(self.clock.instant(ring.at)).await;
                    }
                }
                #[cfg(feature = "virtual-time")]
                Bell::Runtime(chance) => {
                    let at = drawn_ring(chance, self.clock.now(), ring.at);
                    tokio::time::sleep_until(self.clock.instant(at)).await;
                }
            }
        }
        while self.clock.now() < due.at {
            tokio::task::yield_now().await;
        }
    }
}

/// When an alarm for `at` rings that is set at `now`: mostly then, else in the meantime or up to
/// [`LATEST`] later.
#[cfg(feature = "virtual-time")]
fn drawn_ring(chance: &Chance, now: Nanos, at: Nanos) -> Nanos {
    if chance.one_in(16) {
        now.plus(Duration::from_nanos(chance.below(at.since(now) + 1)))
    } else if chance.one_in(64) {
        at.plus(Duration::from_nanos(chance.below(duration_ns(LATEST))))
    } else {
        at
    }
}

/// Waits for one of two bells to ring, perhaps too early, and has the other one set to what comes
/// after.
async fn next_ring(bells: &mut [KernelWakeup; 2], ring: Ring, clock: Clock) -> io::Result<()> {
    let next = bells
        .iter()
        .position(|bell| bell.set_to == ring.at)
        .unwrap_or_else(|| {
            // The one that is set to be heard last is needed last.
            usize::from(bells[0].set_to < bells[1].set_to)
        });
    let (first, [second]) = bells.split_at_mut(1) else {
        return Ok(());
    };
    let (bell, other) = if next == 0 {
        (&mut first[0], second)
    } else {
        (second, &mut first[0])
    };
    bell.set(ring.at, clock)?;
    if let Some(then) = ring.then.filter(|then| *then > ring.at) {
        other.set(then, clock)?;
    }
    bell.timer.readable().await?.clear_ready();
    Ok(())
}

impl KernelWakeup {
    fn new() -> io::Result<Self> {
        let timer = TimerFd::new(
            ClockId::CLOCK_MONOTONIC,
            TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK,
        )?;
        #[expect(
            deprecated,
            reason = "its successor is unsafe and asks that the descriptor stay open and the same, which `Timer` ensures"
        )]
        let timer = AsyncFd::with_interest(Timer(timer), Interest::READABLE)?;
        Ok(Self {
            timer,
            set_to: Nanos(0),
        })
    }

    /// Sets the timer to an instant, not to a span: whatever delays this call does not delay the
    /// alarm. The timer is never read: setting it again takes back what it had to say. One that is
    /// set to that instant already stays as it is.
    fn set(&mut self, at: Nanos, clock: Clock) -> io::Result<()> {
        if self.set_to != at {
            let at_kernel = clock.monotonic(at);
            self.timer.get_ref().0.set(
                Expiration::OneShot(at_kernel),
                TimerSetTimeFlags::TFD_TIMER_ABSTIME,
            )?;
            self.set_to = at;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    use proptest::prelude::*;
    use proptest::test_runner::TestRunner;
    use tokio::runtime::{Builder, LocalOptions};
    use tokio::time::timeout;

    use super::*;
    use crate::pacer::{Pace, Pacer};
    use crate::plan::{Budget, Pacing};

    const US: Duration = Duration::from_micros(1);
    const HOUR: Duration = Duration::from_hours(1);

    /// Far beyond what any test waits for: it ends a test that would otherwise hang.
    const PATIENCE: Duration = Duration::from_secs(30);

    fn with_alarm(test: impl AsyncFnOnce(Clock, Alarm)) {
        with_alarm_of(Pacing::Sleep, test);
    }

    fn with_alarm_of(pacing: Pacing, test: impl AsyncFnOnce(Clock, Alarm)) {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build_local(LocalOptions::default())
            .unwrap();
        runtime.block_on(async {
            let clock = Clock::start();
            let alarm = Alarm::kernel(clock, pacing.awake()).unwrap();
            timeout(PATIENCE, test(clock, alarm))
                .await
                .expect("nobody was woken");
        });
    }

    /// Begins a wait, which must not be over, and drops it.
    async fn begin_and_drop(alarm: &mut Alarm, due: Nanos) {
        let mut wait = pin!(alarm.until(due));
        assert!(
            poll_fn(|cx| Poll::Ready(wait.as_mut().poll(cx)))
                .await
                .is_pending()
        );
    }

    #[test]
    fn no_budget_is_let_go_early() {
        let budgets = (1_000..3_000_000_u64, 1..4_u64, 0..2_000_000_u64);
        let cases = ProptestConfig {
            cases: 20,
            failure_persistence: None,
            ..ProptestConfig::default()
        };
        let outcome = TestRunner::new(cases).run(&budgets, |(interval_ns, burst, phase_ns)| {
            with_alarm(async |clock, mut alarm| {
                let start = clock.now();
                let mut pacer = Pacer::new(
                    Some(Budget {
                        interval_ns,
                        burst,
                        at_start: burst,
                        phase_ns,
                        apart_ns: 0,
                    }),
                    start,
                );
                let mut went = 0;
                while went < 10 {
                    match pacer.poll(clock.now()) {
                        Pace::Go(_) => went += 1,
                        Pace::Wait(due) => {
                            alarm.until(due).await;
                            assert!(clock.now() >= due);
                            // Not a nanosecond too soon by the pacer's own judgement, and so never
                            // a second wait.
                            assert!(matches!(pacer.poll(clock.now()), Pace::Go(_)));
                            went += 1;
                        }
                    }
                }
                assert!(
                    clock.now().since(start)
                        >= phase_ns + interval_ns * 10_u64.saturating_sub(burst)
                );
            });
            Ok(())
        });
        outcome.unwrap();
    }

    #[test]
    fn a_wait_may_be_dropped_for_an_earlier_or_a_later_one() {
        with_alarm(async |clock, mut alarm| {
            begin_and_drop(&mut alarm, clock.now().plus(HOUR)).await;
            let earlier = clock.now().plus(5_000 * US);
            alarm.until(earlier).await;
            assert!(clock.now() >= earlier);
            // One that rings while no task waits does not end the next one early.
            let dropped = clock.now().plus(5_000 * US);
            begin_and_drop(&mut alarm, dropped).await;
            tokio::time::sleep_until(clock.instant(dropped.plus(1_000 * US))).await;
            let later = clock.now().plus(5_000 * US);
            alarm.until(later).await;
            assert!(clock.now() >= later);
        });
    }

    #[test]
    fn one_that_spins_is_never_early_and_lets_others_run_meanwhile() {
        with_alarm_of(Pacing::Spin, async |clock, mut alarm| {
            let others = std::rc::Rc::new(std::cell::Cell::new(0));
            let counter = std::rc::Rc::clone(&others);
            let other = tokio::task::spawn_local(async move {
                loop {
                    counter.set(counter.get() + 1);
                    tokio::task::yield_now().await;
                }
            });
            for wait in [5_000, 900] {
                let (before, due) = (others.get(), clock.now().plus(wait * US));
                alarm.until(due).await;
                assert!(clock.now() >= due);
                assert!(others.get() > before, "{wait}");
            }
            other.abort();
        });
    }

    #[test]
    fn what_comes_next_is_set_beforehand_and_may_be_another_time_after_all() {
        with_alarm(async |clock, mut alarm| {
            let at = |us: u32| clock.now().plus(us * US);
            // Far apart: what is due already is not waited for, however long the machine stood
            // still.
            let (one, two, three) = (at(2_000), at(300_000), at(600_000));
            alarm
                .until(Ring {
                    at: one,
                    then: Some(two),
                })
                .await;
            let set_to = |alarm: &Alarm| match &alarm.bell {
                Bell::Kernel(bells) => bells.each_ref().map(|bell| bell.set_to),
                Bell::Runtime(_) => unreachable!(),
            };
            assert_eq!(set_to(&alarm), [one, two]);
            alarm
                .until(Ring {
                    at: two,
                    then: Some(three),
                })
                .await;
            assert!(clock.now() >= two);
            assert_eq!(set_to(&alarm), [three, two]);
            // It rings at `three` all the same, while no task waits: what counts is the clock.
            for due in [three.plus(3_000 * US), three.plus(5_000 * US)] {
                alarm.until(due).await;
                assert!(clock.now() >= due);
            }
        });
    }

    #[test]
    fn a_wait_is_polled_as_often_as_needed_and_no_more() {
        with_alarm(async |clock, mut alarm| {
            let mut wait = pin!(alarm.until(clock.now().plus(50_000 * US)));
            let mut polls = 0;
            poll_fn(|cx| {
                polls += 1;
                wait.as_mut().poll(cx)
            })
            .await;
            // Once to begin, once when due; the guard against a hanging test may poll, too.
            assert!(polls <= 4, "{polls} polls");
        });
    }
}
