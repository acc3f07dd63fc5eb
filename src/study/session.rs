//! A program in a session of its own, which is ended with all that it started.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use crawlmark_harness::clock::Clock;
use crawlmark_harness::process::{Child, ForkError, ProcessUse, Role, ShardExit, fork};
use nix::sys::prctl;
use nix::sys::signal::Signal;

/// Time limit for the program to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);

/// Between two looks at whether it has ended.
pub(super) const LOOK: Duration = Duration::from_millis(2);

/// Limit on the number of times that processes are killed at the end: those that are there, and
/// those that they have started in between.
const GENERATIONS: usize = 100;

/// A running program. Dropped, it is ended.
#[derive(Debug)]
pub(super) struct Session {
    child: Child,
}

impl Session {
    /// Start a program; a process that cannot execute it ends with code 127.
    pub(super) fn start(name: &str, mut program: Command) -> Result<Self, ForkError> {
        let child = fork(name, Role::Session, move || {
            // What suits a shard is not for another program to put up with.
            let _ = prctl::set_thp_disable(false);
            // Only comes back when it cannot be executed. Its output is in place already.
            let error = program.exec();
            let name = program.get_program().display();
            let _ = writeln!(io::stderr(), "{name}: {error}");
            127
        })?;
        Ok(Self { child })
    }

    /// True if the program has ended by itself.
    pub(super) fn has_ended(&self) -> bool {
        self.child.has_ended()
    }

    /// Send a signal to all processes of the session; false if there are none.
    pub(super) fn signal(&self, signal: Signal) -> bool {
        self.child.signal_session(signal)
    }

    /// End what is left of the session, and return how the program ended and what it used.
    pub(super) fn end(self) -> (ShardExit, ProcessUse) {
        self.end_all();
        self.child.wait_used()
    }

    /// A process that left the session was started to outlive the program, and is not this
    /// program's to end. The numbers stay taken in the meantime: the leader has not been waited
    /// for.
    fn end_all(&self) {
        self.signal(Signal::SIGTERM);
        let clock = Clock::start();
        while !self.has_ended() && Duration::from_nanos(clock.now().0) < GRACE {
            std::thread::sleep(LOOK);
        }
        // Again for what they started in the meantime.
        for _ in 0..GENERATIONS {
            if !self.signal(Signal::SIGKILL) {
                break;
            }
            std::thread::sleep(LOOK);
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end_all();
        let _ = self.child.wait();
    }
}
