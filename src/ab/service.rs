//! A target that a round starts and ends: a shell's command on a free port, and the CPU time that it uses.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crawlmark_harness::clock::Clock;
use crawlmark_harness::process::{Child, fork};
use crawlmark_harness::supervisor::{HeldSignals, SuperviseError};
use nix::sys::prctl;
use nix::sys::signal::{Signal, killpg};
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

use super::side::PORT;
use crate::error::Error;

/// Between two looks at whether it accepts connections.
const LOOK: Duration = Duration::from_millis(20);

/// How long one look may take.
const CONNECT: Duration = Duration::from_millis(500);

/// How long it may take to end.
const GRACE: Duration = Duration::from_secs(5);

/// A running target. Dropped, it is ended.
#[derive(Debug)]
pub(super) struct Service {
    child: Child,
    port: u16,
    log: PathBuf,
    command: String,
}

impl Service {
    /// Starts `command` on a free port and waits until it accepts connections. What it says goes to `log`.
    pub(super) fn start(command: &str, log: &Path, ready: Duration, held: &HeldSignals) -> Result<Self, Error> {
        let port = free_port()?;
        let line = command.replace(PORT, &port.to_string());
        let output = File::create(log).map_err(Error::Output)?;
        let errors = output.try_clone().map_err(Error::Output)?;
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]).env("PORT", port.to_string());
        shell.stdin(Stdio::null()).stdout(output).stderr(errors);
        let child = fork("crawlmark-ab", move || {
            // What suits a shard is not for a target to put up with.
            let _ = prctl::set_thp_disable(false);
            // Only comes back when there is no shell.
            let _ = shell.exec();
            127
        })?;
        let service = Self { child, port, log: log.to_owned(), command: command.to_owned() };
        service.await_ready(ready, held)?;
        Ok(service)
    }

    /// Its port.
    pub(super) const fn port(&self) -> u16 {
        self.port
    }

    fn await_ready(&self, ready: Duration, held: &HeldSignals) -> Result<(), Error> {
        let (clock, address) = (Clock::start(), SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)));
        loop {
            if self.child.has_ended() {
                return Err(self.failed("it ended before it accepted a connection".to_owned()));
            }
            if TcpStream::connect_timeout(&address, CONNECT).is_ok() {
                return Ok(());
            }
            if Duration::from_nanos(clock.now().0) > ready {
                let waited = humantime(ready);
                return Err(self.failed(format!(
                    "nothing accepts connections at {address} after {waited} (--ready): the command has to listen on \
                     {PORT}, or on $PORT"
                )));
            }
            if let Some(signal) = held.asks_to_stop(LOOK).map_err(Error::Signal)? {
                return Err(SuperviseError::Stopped(signal).into());
            }
        }
    }

    fn failed(&self, why: String) -> Error {
        let said = fs::read_to_string(&self.log).unwrap_or_default();
        let said = said.lines().last().map_or_else(String::new, |line| format!("; its last words: {line}"));
        Error::Round(format!("start the target `{}`: {why}{said}", self.command))
    }

    /// CPU time that its processes have used; none when none of them is there to be asked. A process of it that is gone is
    /// not counted, so a target that forks for each request is not measured.
    pub(super) fn cpu(&self) -> Option<Duration> {
        let group = self.child.pid();
        let own = processes_of(group).into_iter().filter_map(|pid| {
            let clock = clock_getcpuclockid(Pid::from_raw(pid)).ok()?;
            clock_gettime(clock).ok().map(Duration::from)
        });
        own.fold(None, |sum: Option<Duration>, used| Some(sum.unwrap_or_default() + used))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let group = Pid::from_raw(self.child.pid());
        // It leads its group, which is there for as long as nobody has waited for it.
        let _ = killpg(group, Signal::SIGTERM);
        let clock = Clock::start();
        while !self.child.has_ended() && Duration::from_nanos(clock.now().0) < GRACE {
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = killpg(group, Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

/// A loopback port that nobody listens on now.
fn free_port() -> Result<u16, Error> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Error::Output)?;
    Ok(listener.local_addr().map_err(Error::Output)?.port())
}

/// The processes of a group.
fn processes_of(group: i32) -> Vec<i32> {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| group_of(*pid) == Some(group)).collect()
}

/// The group of a process: the third field after its name, which is in brackets and may hold anything.
fn group_of(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(2)?.parse().ok()
}

fn humantime(time: Duration) -> String {
    crawlmark_harness::render::micros(time.as_secs_f64() * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_in_its_own_group() {
        let (own, group) = (std::process::id().cast_signed(), nix::unistd::getpgrp().as_raw());
        assert_eq!(group_of(own), Some(group));
        assert!(processes_of(group).contains(&own));
        assert_eq!(group_of(-1), None);
    }
}
