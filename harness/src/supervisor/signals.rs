//! Signals that the supervisor handles: blocked, so that they have no other effect, and read from a
//! descriptor.

use std::os::fd::AsFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, pthread_sigmask, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// The signals that a supervisor waits for: those that ask for a stop, a closed terminal's among
/// them, and the end of a child.
const AWAITED: [Signal; 4] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGCHLD,
];

fn awaited() -> SigSet {
    AWAITED.into_iter().collect()
}

/// Keeps SIGINT, SIGTERM, SIGHUP and SIGCHLD from their usual effect for as long as it lives.
///
/// [`super::supervise`] holds them while a run goes on. A caller that has a report to save
/// afterwards holds them beyond that.
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
        block(&awaited()).map(|before| Self { before })
    }

    /// True if a signal asks for a stop. It stays pending until it is read.
    ///
    /// # Errors
    /// When the kernel has no descriptor for it.
    pub fn is_asked_to_stop(&self) -> Result<bool, Errno> {
        let stops = AWAITED
            .into_iter()
            .filter(|signal| *signal != Signal::SIGCHLD)
            .collect();
        let fd = SignalFd::with_flags(&stops, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(poll(
            &mut [PollFd::new(fd.as_fd(), PollFlags::POLLIN)],
            PollTimeout::ZERO,
        )? > 0)
    }

    /// The number of a signal that asks for a stop, as soon as one has come; none when a child has
    /// ended first, or `most` is over. For a command that waits for other programs and not in
    /// [`super::supervise`].
    ///
    /// # Errors
    /// When the kernel has no descriptor for it.
    pub fn asks_to_stop(&self, most: Duration) -> Result<Option<i32>, Errno> {
        let signals = SignalQueue::open(&awaited())?;
        let timeout = PollTimeout::try_from(most).unwrap_or(PollTimeout::MAX);
        match poll(
            &mut [PollFd::new(signals.fd.as_fd(), PollFlags::POLLIN)],
            timeout,
        ) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
        }
        Ok(signals
            .take()
            .into_iter()
            .find(|signal| *signal != Signal::SIGCHLD as i32))
    }
}

impl Drop for HeldSignals {
    fn drop(&mut self) {
        // What another holder still holds is that one's to find. For the others it is too late to
        // ask for anything.
        let own: SigSet = awaited()
            .iter()
            .filter(|signal| !self.before.contains(*signal))
            .collect();
        if let Ok(signals) = SignalQueue::open(&own) {
            signals.take();
        }
        let _ = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&self.before), None);
    }
}

/// Keeps Ctrl-Z (SIGTSTP) from stopping this process for as long as it lives, so that processes
/// which are not of its group can be stopped with it.
#[derive(Debug)]
pub struct HeldSuspension {
    before: SigSet,
}

impl HeldSuspension {
    /// Holds it.
    ///
    /// # Errors
    /// When the kernel refuses the mask.
    pub fn hold() -> Result<Self, Errno> {
        block(&suspension()).map(|before| Self { before })
    }

    /// True if it came; it is taken then.
    ///
    /// # Errors
    /// When the kernel has no descriptor for it.
    pub fn came(&self) -> Result<bool, Errno> {
        Ok(!SignalQueue::open(&suspension())?.take().is_empty())
    }

    /// Stops this process, as Ctrl-Z does by default, and returns when it is continued: at once
    /// where there is no shell that could do so.
    pub fn suspend(&self) {
        let _ = raise(Signal::SIGTSTP);
        let _ = pthread_sigmask(SigmaskHow::SIG_UNBLOCK, Some(&suspension()), None);
        let _ = pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&suspension()), None);
    }
}

impl Drop for HeldSuspension {
    fn drop(&mut self) {
        // One that came in the last moment takes effect now.
        if !self.before.contains(Signal::SIGTSTP) {
            let _ = pthread_sigmask(SigmaskHow::SIG_UNBLOCK, Some(&suspension()), None);
        }
    }
}

fn suspension() -> SigSet {
    [Signal::SIGTSTP].into_iter().collect()
}

/// Blocks these signals, and returns what was blocked before.
fn block(signals: &SigSet) -> Result<SigSet, Errno> {
    let mut before = SigSet::empty();
    pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(signals), Some(&mut before))?;
    Ok(before)
}

/// Held signals as a descriptor.
#[derive(Debug)]
pub(super) struct SignalQueue {
    pub(super) fd: SignalFd,
}

impl SignalQueue {
    /// Opens the descriptor for the awaited signals and Ctrl-Z. Call after the forks.
    pub(super) fn of_a_run() -> Result<Self, Errno> {
        Self::open(&awaited().iter().chain(suspension().iter()).collect())
    }

    fn open(signals: &SigSet) -> Result<Self, Errno> {
        Ok(Self {
            fd: SignalFd::with_flags(signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?,
        })
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
