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
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::waitpid;
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

use super::flags::PORT;
use crate::error::Error;

/// Between two looks at whether it accepts connections.
const LOOK: Duration = Duration::from_millis(20);

/// How long one look may take.
const CONNECT: Duration = Duration::from_millis(500);

/// How long it may take to end.
const GRACE: Duration = Duration::from_secs(5);

/// How often what a target left behind is looked for: once for what is there, and again for what that started meanwhile.
const GENERATIONS: usize = 20;

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
        let child = fork("crawlmark-target", move || {
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
            if self.has_ended() {
                return Err(self.failed("it ended before it accepted a connection"));
            }
            if TcpStream::connect_timeout(&address, CONNECT).is_ok() {
                return Ok(());
            }
            if Duration::from_nanos(clock.now().0) > ready {
                let waited = humantime(ready);
                return Err(self.failed(&format!(
                    "nothing accepts connections at {address} after {waited} (--ready): the command has to listen on \
                     {PORT}, or on $PORT"
                )));
            }
            if let Some(signal) = held.asks_to_stop(LOOK).map_err(Error::Signal)? {
                return Err(SuperviseError::Stopped(signal).into());
            }
        }
    }

    fn failed(&self, why: &str) -> Error {
        Error::Round(format!("start the target `{}`: {why}{}", self.command, self.last_words()))
    }

    /// What the target said last, if anything.
    fn last_words(&self) -> String {
        let said = fs::read_to_string(&self.log).unwrap_or_default();
        said.lines().last().map_or_else(String::new, |line| format!("; its last words: {line}"))
    }

    /// What to say of a target whose command has ended by itself. A round with it counts for nothing: of a target that
    /// crashed half of the round is missing, and one that put itself into the background is not measured.
    pub(super) fn ended(&self) -> Option<String> {
        let said = || {
            format!(
                "its target `{}` ended before the round did, and has to stay in the foreground until it gets SIGTERM{}",
                self.command,
                self.last_words()
            )
        };
        self.has_ended().then(said)
    }

    /// Whether its command has ended by itself.
    pub(super) fn has_ended(&self) -> bool {
        self.child.has_ended()
    }

    /// CPU time that its processes have used; none when none of them is there to be asked. A process of it that is gone is
    /// not counted, so a target that forks for each request is not measured.
    pub(super) fn cpu(&self) -> Option<Duration> {
        let used = family(self.child.pid()).into_iter().filter_map(|relative| {
            let clock = clock_getcpuclockid(Pid::from_raw(relative.pid)).ok()?;
            clock_gettime(clock).ok().map(Duration::from)
        });
        used.fold(None, |sum: Option<Duration>, used| Some(sum.unwrap_or_default() + used))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let own = Pid::from_raw(self.child.pid());
        let family = family(own.as_raw());
        // The shell leads a group, which is there for as long as nobody has waited for it.
        let _ = killpg(own, Signal::SIGTERM);
        let clock = Clock::start();
        while !self.child.has_ended() && Duration::from_nanos(clock.now().0) < GRACE {
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = killpg(own, Signal::SIGKILL);
        // Who made a group of its own and did not end with its parent: its ID is still its own if its start says so.
        for relative in family.into_iter().filter(Relative::is_alive) {
            let _ = kill(Pid::from_raw(relative.pid), Signal::SIGKILL);
        }
        let _ = self.child.wait();
        end_orphans();
    }
}

/// Has this process inherit what a target's command leaves behind, so that it can be found and ended.
pub(super) fn adopt_orphans() {
    // Every kernel since 3.4 can; without it, only what leaves its session and its parent would be missed.
    let _ = prctl::set_child_subreaper(true);
}

/// Ends what targets left to this process: while no round runs, it has no other children.
fn end_orphans() {
    let own = std::process::id().cast_signed();
    for _ in 0..GENERATIONS {
        let orphans: Vec<Relative> = family(own).into_iter().filter(|relative| relative.pid != own).collect();
        if orphans.is_empty() {
            break;
        }
        for orphan in &orphans {
            let _ = kill(Pid::from_raw(orphan.pid), Signal::SIGKILL);
        }
        // What these leave behind is inherited in turn.
        for orphan in orphans.iter().filter(|orphan| orphan.parent == own) {
            let _ = waitpid(Pid::from_raw(orphan.pid), None);
        }
    }
}

/// A loopback port that nobody listens on now.
fn free_port() -> Result<u16, Error> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Error::Output)?;
    Ok(listener.local_addr().map_err(Error::Output)?.port())
}

/// A process, told from a later one of the same ID by its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Relative {
    pid: i32,
    parent: i32,
    /// In ticks since the machine's start.
    started: u64,
}

impl Relative {
    /// The process of this ID. What `stat` has after the name, which is in brackets and may hold anything, begins with the
    /// state and the parent; the start is the twentieth.
    fn read(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        Some(Self { pid, parent: fields.get(1)?.parse().ok()?, started: fields.get(19)?.parse().ok()? })
    }

    fn is_alive(&self) -> bool {
        Self::read(self.pid).is_some_and(|now| now.started == self.started)
    }
}

/// A process and all that it has started, and they.
fn family(root: i32) -> Vec<Relative> {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let all: Vec<Relative> = pids.filter_map(Relative::read).collect();
    let mut family: Vec<Relative> = all.iter().filter(|process| process.pid == root).copied().collect();
    let mut next = 0;
    while let Some(parent) = family.get(next).copied() {
        family.extend(all.iter().filter(|process| process.parent == parent.pid));
        next += 1;
    }
    family
}

fn humantime(time: Duration) -> String {
    crawlmark_harness::render::micros(time.as_secs_f64() * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_of_the_family_of_its_parent() {
        let own = Relative::read(std::process::id().cast_signed()).unwrap();
        assert!(own.is_alive() && !Relative { started: own.started + 1, ..own }.is_alive());
        assert!(family(own.parent).contains(&own) && family(own.pid).contains(&own));
        assert_eq!(family(-1), []);
    }
}
