//! Starts programs, waits for them, weighs their CPU time, and leaves none behind on any way out.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::AsFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use crawlmark_harness::clock::Clock;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::{TimeVal, TimeValLike};
use nix::unistd::Pid;

use crate::error::Error;

/// Time limit for a program to end after SIGTERM: the bundled target finishes responses in progress for 500 ms.
const GRACE: Duration = Duration::from_secs(3);

/// Time that a program may run beyond its duration: some wait for responses, sort a million of them or write a report.
const OVERTIME: Duration = Duration::from_secs(30);

/// Interval at which a waiting parent looks by itself, should a signal have been lost.
const LOOK: Duration = Duration::from_millis(100);

/// SIGINT and SIGTERM as something to look at, so that they end the comparison through the ordinary way out, where
/// guards end the children and folders are removed.
#[derive(Debug)]
pub(crate) struct Signals {
    mask: SigSet,
    descriptor: SignalFd,
}

impl Signals {
    /// Starts watching.
    pub(crate) fn watch() -> Result<Self, Error> {
        let mask: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGCHLD].into_iter().collect();
        mask.thread_block()?;
        let descriptor = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Self { mask, descriptor })
    }

    /// Waits until a child may have ended, at most for so long.
    pub(crate) fn pause(&self, at_most: Duration) -> Result<(), Error> {
        let mut descriptors = [PollFd::new(self.descriptor.as_fd(), PollFlags::POLLIN)];
        match poll(&mut descriptors, PollTimeout::try_from(at_most).unwrap_or(PollTimeout::MAX)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        while let Some(signal) = self.descriptor.read_signal()? {
            if signal.ssi_signo != Signal::SIGCHLD as u32 {
                return Err(Error::Interrupted(u8::try_from(signal.ssi_signo).unwrap_or(u8::MAX - 128)));
            }
        }
        Ok(())
    }

    /// Starts `command` with no signal blocked: a child inherits the mask, and must hear SIGTERM.
    pub(crate) fn spawn(&self, command: &mut Command, name: &str) -> Result<Running, Error> {
        self.mask.thread_unblock()?;
        let spawned = command.spawn();
        self.mask.thread_block()?;
        spawned.map(|child| Running { child }).map_err(|error| Error::Start { name: name.to_owned(), error })
    }
}

/// A program that runs. Dropped, it is ended: SIGTERM first, so that it can end its own children.
#[derive(Debug)]
pub(crate) struct Running {
    /// The program.
    pub(crate) child: Child,
}

impl Running {
    fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Once waited for, the number may belong to somebody else.
        if self.has_ended() {
            return;
        }
        if let Ok(pid) = i32::try_from(self.child.id()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        let step = Duration::from_millis(20);
        for _ in 0..GRACE.as_millis() / step.as_millis() {
            if self.has_ended() {
                return;
            }
            thread::sleep(step);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Output of a program and its resources, its own children included.
#[derive(Debug)]
pub(crate) struct Finished {
    /// Its standard output.
    pub(crate) stdout: String,
    /// Its standard error.
    pub(crate) stderr: String,
    /// CPU time that it used.
    pub(crate) cpu: Cpu,
}

/// CPU time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cpu {
    /// In user mode, us.
    pub(crate) user_us: f64,
    /// In the kernel, us.
    pub(crate) system_us: f64,
}

/// Runs `command`, which should take `expected`, to its end.
pub(crate) fn run(signals: &Signals, name: &str, command: &mut Command, expected: Duration) -> Result<Finished, Error> {
    // Files, not pipes: nobody has to read while the program runs, and a chatty one never waits for a reader.
    let (mut stdout, mut stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
    command.stdin(Stdio::null()).stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
    let before = children_cpu()?;
    let mut running = signals.spawn(command, name)?;
    let status = wait(signals, &mut running, name, expected + OVERTIME)?;
    let after = children_cpu()?;
    let (stdout, stderr) = (contents(&mut stdout)?, contents(&mut stderr)?);
    // Ctrl-C reaches the program as well: that it failed then is no news.
    signals.pause(Duration::ZERO)?;
    if !status.success() {
        return Err(Error::Failed { name: name.to_owned(), how: status.to_string(), output: stdout + &stderr });
    }
    let cpu = Cpu { user_us: after.user_us - before.user_us, system_us: after.system_us - before.system_us };
    Ok(Finished { stdout, stderr, cpu })
}

fn wait(signals: &Signals, running: &mut Running, name: &str, at_most: Duration) -> Result<ExitStatus, Error> {
    let clock = Clock::start();
    let deadline = clock.now().plus(at_most);
    loop {
        if let Some(status) = running.child.try_wait()? {
            return Ok(status);
        }
        if clock.now() > deadline {
            return Err(Error::Overdue { name: name.to_owned(), seconds: at_most.as_secs() });
        }
        signals.pause(LOOK)?;
    }
}

/// Return the CPU time of all children that have been waited for. The target is waited for last, so a difference is one
/// client's.
fn children_cpu() -> Result<Cpu, Error> {
    let used = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let us = |time: TimeVal| time.num_microseconds() as f64;
    Ok(Cpu { user_us: us(used.user_time()), system_us: us(used.system_time()) })
}

fn contents(file: &mut File) -> io::Result<String> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
