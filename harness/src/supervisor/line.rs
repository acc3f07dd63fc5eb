//! Line to a shard: its process and two pipes. In a rehearsal it is a task of the same thread
//! instead.
//!
//! Made by the code that starts the shards, used by [`Member`](super::member::Member) alone. It
//! must not know what the bytes mean.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::Signal;

use crate::process::{Child, ShardExit};

/// A shard's life and the bytes that pass between it and its supervisor. Nothing here blocks.
pub(super) trait ShardLine {
    /// Reads what has come up: 0 once there will be nothing more, `WouldBlock` when there is
    /// nothing yet.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Sends down as much as there is room for; `WouldBlock` without any.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Ends the shard. What it had sent and was not read is lost.
    fn kill(&mut self);

    /// Return the exit of the shard, once it has ended. Later calls return the same.
    fn try_wait(&mut self) -> Option<ShardExit>;

    /// The number of its process.
    fn pid(&self) -> i32;
}

/// A process and the supervisor's ends of its pipes. Dropping it ends the process.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    exit: Option<ShardExit>,
    frames: File,
    control: File,
}

/// The supervisor's ends of a shard's pipes.
#[derive(Debug)]
pub(super) struct Pipes {
    pub(super) frames: OwnedFd,
    pub(super) control: OwnedFd,
}

impl Process {
    /// The process of `child` behind `pipes`, which are made not to block.
    pub(super) fn new(child: Child, pipes: Pipes) -> nix::Result<Self> {
        for pipe in [&pipes.frames, &pipes.control] {
            fcntl(pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        }
        Ok(Self {
            child,
            exit: None,
            frames: File::from(pipes.frames),
            control: File::from(pipes.control),
        })
    }

    /// Sends a signal; none to a process that has ended, whose number may be another's.
    pub(super) fn signal(&self, signal: Signal) {
        if self.exit.is_none() {
            self.child.signal(signal);
        }
    }

    /// Return the descriptor that becomes readable when the shard sends something.
    pub(super) fn pipe(&self) -> BorrowedFd<'_> {
        self.frames.as_fd()
    }

    /// Lets go of the process without ending it: closes this process's copies of its pipes and
    /// nothing else. For a freshly forked child, whose copy is not its to end.
    pub(super) fn forget(mut self) {
        self.exit = Some(ShardExit::Unknown);
    }
}

impl ShardLine for Process {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.frames.read(buffer)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.control.write(bytes)
    }

    fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
    }

    fn try_wait(&mut self) -> Option<ShardExit> {
        if self.exit.is_none() {
            self.exit = self.child.try_wait();
        }
        self.exit
    }

    fn pid(&self) -> i32 {
        self.child.pid()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.exit.is_none() {
            self.child.signal(Signal::SIGKILL);
            self.exit = Some(self.child.wait());
        }
    }
}
