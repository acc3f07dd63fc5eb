//! The signals that a supervisor waits for, held back from their usual effect and read from a descriptor.

use std::os::fd::AsFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, pthread_sigmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// The signals that a supervisor waits for: those that ask for a stop, a closed terminal's among them, and the end of a
/// child.
fn awaited() -> SigSet {
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGCHLD].into_iter().collect()
}

/// Keeps SIGINT, SIGTERM, SIGHUP and SIGCHLD from their usual effect for as long as it lives.
///
/// [`super::supervise`] holds them while a run goes on. A caller that has a report to save afterwards holds them beyond that.
#[derive(Debug)]
pub struct HeldSignals {
    before: SigSet,
}

impl HeldSignals {
    /// Holds them.
    ///
    /// # Errors
    /// When the kernel refuses the mask.
    pub fn hold() -> Result<Self, Errno> {
        let mut before = SigSet::empty();
        pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&awaited()), Some(&mut before))?;
        Ok(Self { before })
    }

    /// The number of a signal that asks for a stop, as soon as one has come; none when a child has ended first, or `most` is
    /// over. For a command that waits for other programs and not in [`super::supervise`].
    ///
    /// # Errors
    /// When the kernel has no descriptor for it.
    pub fn asks_to_stop(&self, most: Duration) -> Result<Option<i32>, Errno> {
        let signals = Signals::open()?;
        let timeout = PollTimeout::try_from(most).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(signals.fd.as_fd(), PollFlags::POLLIN)], timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
        }
        Ok(signals.take().into_iter().find(|signal| *signal != Signal::SIGCHLD as i32))
    }
}

impl Drop for HeldSignals {
    fn drop(&mut self) {
        let _ = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&self.before), None);
    }
}

/// Held signals as a descriptor.
#[derive(Debug)]
pub(super) struct Signals {
    pub(super) fd: SignalFd,
}

impl Signals {
    /// Opens the descriptor. Call after the forks.
    pub(super) fn open() -> Result<Self, Errno> {
        Ok(Self { fd: SignalFd::with_flags(&awaited(), SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)? })
    }

    /// The numbers of those that came.
    pub(super) fn take(&self) -> Vec<i32> {
        let mut taken = Vec::new();
        while let Ok(Some(info)) = self.fd.read_signal() {
            taken.extend(i32::try_from(info.ssi_signo));
        }
        taken
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // What comes after the end of the run asks for nothing any more.
        self.take();
    }
}
