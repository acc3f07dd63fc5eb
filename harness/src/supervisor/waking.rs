//! Wake-ups of the supervisor: by a signal, the time, or a shard that rings. One `poll(2)` waits
//! for all of them.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use super::signals::SignalQueue;
use crate::shard::Bell;

/// Interval at which the loop looks at the time and the observer at the run.
pub(super) const TICK: Duration = Duration::from_millis(100);

/// Events for which the loop woke up.
#[derive(Debug, Default)]
pub(super) struct Event {
    /// The members that have said something.
    pub(super) readable: Vec<usize>,
    pub(super) signals: Vec<i32>,
    pub(super) tick: bool,
    /// True if a shard's process may have ended.
    pub(super) death: bool,
}

impl Event {
    /// True if Ctrl-Z came; it is taken out.
    pub(super) fn take_suspension(&mut self) -> bool {
        let before = self.signals.len();
        self.signals
            .retain(|signal| *signal != Signal::SIGTSTP as i32);
        self.signals.len() < before
    }
}

/// Sources of the loop's wake-ups.
#[derive(Debug)]
pub(super) struct Wakers {
    signals: SignalQueue,
    ticks: TimerFd,
    bell: Bell,
}

impl Wakers {
    /// From now on. Open them after the shards were forked, which have no use for them.
    pub(super) fn open(bell: Bell) -> Result<Self, Errno> {
        Ok(Self {
            signals: SignalQueue::of_a_run()?,
            ticks: ticker()?,
            bell,
        })
    }

    /// Waits until there is something to do, and looks what it is. What members say without ringing
    /// is heard at the next tick.
    pub(super) fn wait(&self, members: &[(usize, BorrowedFd<'_>)]) -> Result<Event, Errno> {
        let wakers = [self.signals.fd.as_fd(), self.ticks.as_fd(), self.bell.fd()];
        let [signalled, tick, rung] = look(wakers, PollTimeout::NONE)?[..] else {
            return Ok(Event::default());
        };
        if tick {
            // Only resets the timer: how many ticks were missed does not matter.
            let _ = self.ticks.wait();
        }
        if rung {
            self.bell.silence();
        }
        let signals = if signalled {
            self.signals.take()
        } else {
            Vec::new()
        };
        let says = look(members.iter().map(|(_, pipe)| *pipe), PollTimeout::ZERO)?;
        let readable = members
            .iter()
            .zip(says)
            .filter(|(_, says)| *says)
            .map(|((i, _), _)| *i)
            .collect();
        // A signal that was lost in a stop and a start of the process is made up for at the next
        // tick.
        let death = tick || signals.contains(&(Signal::SIGCHLD as i32));
        Ok(Event {
            readable,
            signals,
            tick,
            death,
        })
    }
}

/// Return for each descriptor true if it has something to read, once one has or the time is over;
/// perhaps none has.
fn look<'a>(
    fds: impl IntoIterator<Item = BorrowedFd<'a>>,
    timeout: PollTimeout,
) -> Result<Vec<bool>, Errno> {
    let mut fds: Vec<PollFd<'_>> = fds
        .into_iter()
        .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
        .collect();
    match poll(&mut fds, timeout) {
        Ok(_) | Err(Errno::EINTR) => Ok(fds.iter().map(|fd| fd.any().unwrap_or(false)).collect()),
        Err(error) => Err(error),
    }
}

fn ticker() -> Result<TimerFd, Errno> {
    let timer = TimerFd::new(
        ClockId::CLOCK_MONOTONIC,
        TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK,
    )?;
    timer.set(
        Expiration::Interval(TimeSpec::from_duration(TICK)),
        TimerSetTimeFlags::empty(),
    )?;
    Ok(timer)
}
