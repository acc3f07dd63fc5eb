//! Waiting until an instant of the target's clock, to within microseconds and never too early, for
//! any number of tasks of one serving process. The server holds every answer with it.
//!
//! The runtime's own timer has a resolution of a millisecond. This one is a single `timerfd` armed
//! for the earliest instant that anyone waits for; nothing polls or spins in between.
//!
//! It must not decide how long anything waits.

use crate::clock::Clock;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The timer of one serving process. It works while [`Timer::run`] is being polled.
#[derive(Debug)]
pub(crate) struct Timer {
    clock: Clock,
    alarm: AsyncFd<Alarm>,
    waiting: RefCell<Waiting>,
}

/// The descriptor, in a form that the runtime can watch: its own, one and the same, open until it
/// is dropped.
#[derive(Debug)]
struct Alarm(TimerFd);

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Alarm {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

/// Waiting tasks, and the alarm's setting.
#[derive(Debug, Default)]
struct Waiting {
    tasks: BTreeMap<WaitingTask, Waker>,
    tickets: u64,
    armed_ns: Option<u64>,
}

/// One waiting task: by instant, then first come, first served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct WaitingTask {
    due_ns: u64,
    ticket: u64,
}

impl Timer {
    /// Makes the timer, within the runtime that is to drive it and after any fork.
    ///
    /// # Errors
    ///
    /// The process is out of descriptors, or the runtime has no I/O driver.
    pub(crate) fn new(clock: Clock) -> io::Result<Self> {
        let alarm = TimerFd::new(
            ClockId::CLOCK_MONOTONIC,
            TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK,
        )?;
        #[expect(
            deprecated,
            reason = "its successor is unsafe and asks that the descriptor stay open and the same, which `Alarm` ensures"
        )]
        let alarm = AsyncFd::with_interest(Alarm(alarm), Interest::READABLE)?;
        Ok(Self {
            clock,
            alarm,
            waiting: RefCell::default(),
        })
    }

    /// Wakes the tasks that are due, for as long as it is polled. It ends only with the runtime.
    pub(crate) async fn run(&self) {
        // The alarm is never read: setting it again takes back what it had to say, and until then
        // nothing asks.
        while let Ok(mut rung) = self.alarm.readable().await {
            rung.clear_ready();
            drop(rung);
            self.wake_due(self.clock.now_ns());
        }
    }

    /// Read the clock.
    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Waits until the clock reads `due_ns` or more, and returns what it then read. Dropped, it
    /// leaves nothing behind.
    pub(crate) fn until(&self, due_ns: u64) -> Wait<'_> {
        Wait {
            timer: self,
            due_ns,
            ticket: None,
        }
    }

    fn wake_due(&self, now_ns: u64) {
        loop {
            // Nothing is borrowed while a waker runs: it is free to poll, or to drop, whatever
            // waits here.
            let due = self.waiting.borrow_mut().take_due(now_ns);
            match due {
                Some(task) => task.wake(),
                None => break,
            }
        }
        let mut waiting = self.waiting.borrow_mut();
        waiting.armed_ns = None;
        self.arm(&mut waiting);
    }

    /// Sets the alarm to the first instant that anyone waits for, unless it rings before that
    /// anyway.
    fn arm(&self, waiting: &mut Waiting) {
        let Some((first, _)) = waiting.tasks.first_key_value() else {
            return;
        };
        if waiting
            .armed_ns
            .is_some_and(|armed_ns| armed_ns <= first.due_ns)
        {
            return;
        }
        waiting.armed_ns = Some(first.due_ns);
        // An instant, not a span: whatever delays this call does not delay the alarm.
        let at = Expiration::OneShot(self.clock.monotonic(first.due_ns));
        let set = self
            .alarm
            .get_ref()
            .0
            .set(at, TimerSetTimeFlags::TFD_TIMER_ABSTIME);
        debug_assert_eq!(
            set,
            Ok(()),
            "the only failures are a descriptor that is no timer and a malformed time"
        );
    }
}

impl Waiting {
    /// The first task that waits for `now_ns` or an earlier instant, no longer waiting.
    fn take_due(&mut self, now_ns: u64) -> Option<Waker> {
        let first = self.tasks.first_entry()?;
        if first.key().due_ns <= now_ns {
            Some(first.remove())
        } else {
            None
        }
    }
}

/// See [`Timer::until`].
#[derive(Debug)]
pub(crate) struct Wait<'a> {
    timer: &'a Timer,
    due_ns: u64,
    /// Its place among those that wait for the same instant; none before the first poll.
    ticket: Option<u64>,
}

impl Future for Wait<'_> {
    type Output = u64;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<u64> {
        let now_ns = self.timer.clock.now_ns();
        if now_ns >= self.due_ns {
            return Poll::Ready(now_ns);
        }
        let mut waiting = self.timer.waiting.borrow_mut();
        let ticket = *self.ticket.get_or_insert_with(|| {
            waiting.tickets += 1;
            waiting.tickets
        });
        let entry = WaitingTask {
            due_ns: self.due_ns,
            ticket,
        };
        let replaced = match waiting.tasks.get_mut(&entry) {
            Some(known) if known.will_wake(cx.waker()) => None,
            Some(known) => Some(std::mem::replace(known, cx.waker().clone())),
            None => waiting.tasks.insert(entry, cx.waker().clone()),
        };
        self.timer.arm(&mut waiting);
        // In this order: dropping a waker may drop a task, which may wait here.
        drop(waiting);
        drop(replaced);
        Poll::Pending
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            let entry = WaitingTask {
                due_ns: self.due_ns,
                ticket,
            };
            let removed = self.timer.waiting.borrow_mut().tasks.remove(&entry);
            drop(removed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::mix;
    use std::future::poll_fn;
    use std::rc::Rc;
    use std::time::Duration;
    use tokio::runtime::{Builder, LocalOptions};
    use tokio::task::{JoinSet, spawn_local};
    use tokio::time::timeout;

    const MS_NS: u64 = 1_000_000;

    /// Far beyond what any test waits for: it ends a test that would otherwise hang.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// Runs `test` with a timer that is driven beside it.
    fn with_timer<Test: Future<Output = ()>>(test: impl FnOnce(Rc<Timer>) -> Test) {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build_local(LocalOptions::default())
            .unwrap();
        runtime.block_on(async {
            let timer = Rc::new(Timer::new(Clock::start()).unwrap());
            let driven = Rc::clone(&timer);
            spawn_local(async move { driven.run().await });
            timeout(PATIENCE, test(timer))
                .await
                .expect("nobody was woken");
        });
    }

    fn waiting(timer: &Timer) -> usize {
        timer.waiting.borrow().tasks.len()
    }

    #[test]
    fn ten_thousand_wait_at_once_and_none_ends_early() {
        with_timer(|timer| async move {
            let mut tasks = JoinSet::new();
            let now_ns = timer.clock.now_ns();
            for position in 0..10_000 {
                // Far enough that most are still waiting when the last one begins.
                let due_ns = now_ns + 100 * MS_NS + mix(position) % (200 * MS_NS);
                let timer = Rc::clone(&timer);
                tasks.spawn_local(async move {
                    let at_ns = timer.until(due_ns).await;
                    assert!(at_ns >= due_ns && timer.clock.now_ns() >= at_ns);
                });
            }
            let mut ended = 0;
            while let Some(task) = tasks.join_next().await {
                task.unwrap();
                ended += 1;
            }
            assert_eq!((ended, waiting(&timer)), (10_000, 0));
        });
    }

    #[test]
    fn whoever_comes_later_and_is_due_earlier_does_not_wait_for_the_others() {
        with_timer(|timer| async move {
            let mut tasks = JoinSet::new();
            let now_ns = timer.clock.now_ns();
            for ms in [3_600_000, 40, 20, 30, 20, 10] {
                let timer = Rc::clone(&timer);
                tasks.spawn_local(async move { timer.until(now_ns + ms * MS_NS).await });
            }
            for _ in 0..5 {
                tasks.join_next().await.unwrap().unwrap();
            }
            assert_eq!(waiting(&timer), 1);
        });
    }

    #[test]
    fn a_wait_that_is_dropped_leaves_nothing_behind_and_wakes_nobody_else_late() {
        with_timer(|timer| async move {
            let due_ns = timer.clock.now_ns() + 20 * MS_NS;
            let kept = timer.until(due_ns);
            {
                let mut dropped: Vec<_> = (0..1000)
                    .map(|position| Box::pin(timer.until(due_ns - 10 * MS_NS * (position % 2))))
                    .collect();
                dropped.push(Box::pin(timer.until(u64::MAX)));
                poll_fn(|cx| {
                    for wait in &mut dropped {
                        // Twice: a second poll takes no second place.
                        let _ = (wait.as_mut().poll(cx), wait.as_mut().poll(cx));
                    }
                    Poll::Ready(())
                })
                .await;
                assert!(waiting(&timer) <= 1001);
                assert!(waiting(&timer) > 0);
            }
            assert_eq!(waiting(&timer), 0);
            assert!(kept.await >= due_ns);
            assert_eq!(waiting(&timer), 0);
        });
    }
}
