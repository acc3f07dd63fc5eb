//! Wake-up of the supervisor by its shards: one descriptor for all of them.
//!
//! Routine frames, such as the progress and the seconds of a shard, lie in its pipe until the
//! supervisor looks, which it does ten times a second anyway. Woken by each such frame it would
//! wake hundreds of times a second with 64 shards. A shard rings only for a frame that cannot wait.
//! The bell must not carry anything: the frames are in the pipes.

use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;

use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};

/// The bell. Each copy rings the same one, that of a child process too.
#[derive(Debug, Clone)]
pub struct Bell(Rc<EventFd>);

impl Bell {
    /// A bell that was not rung yet.
    pub(crate) fn new() -> Result<Self, Errno> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        Ok(Self(Rc::new(EventFd::from_value_and_flags(0, flags)?)))
    }

    /// Wakes the supervisor. The frames for it must be in the pipe.
    pub fn ring(&self) {
        // It is refused only when it was rung 2^64 times and never read.
        let _ = self.0.write(1);
    }

    /// Silences it. What is said from now on rings again, so the pipes are to be looked at after
    /// this.
    pub(crate) fn silence(&self) {
        let _ = self.0.read();
    }

    /// Return the descriptor that becomes readable when the bell is rung.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    use super::*;

    #[test]
    fn it_is_heard_once_however_often_and_by_whichever_copy_it_was_rung() {
        let bell = Bell::new().unwrap();
        let rings = || {
            poll(
                &mut [PollFd::new(bell.fd(), PollFlags::POLLIN)],
                PollTimeout::ZERO,
            )
            .unwrap()
                == 1
        };
        assert!(!rings());
        let copy = bell.clone();
        (0..3).for_each(|_| copy.ring());
        assert!(rings() && rings());
        bell.silence();
        assert!(!rings());
        // Silencing what does not ring waits for nothing.
        bell.silence();
        bell.ring();
        assert!(rings());
    }
}
