//! A target that a round starts and ends: a shell's command on a free port, and the CPU time that
//! it uses.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crawlmark_harness::clock::Clock;
use crawlmark_harness::process::{Child, Role, fork};
use crawlmark_harness::supervisor::HeldSignals;
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::PORT;
use super::rounds::telling_line;
use crate::crawl::redact;
use crate::error::Error;

/// Between two looks at whether it accepts connections.
const LOOK: Duration = Duration::from_millis(20);

/// Time limit of one attempt to connect.
const CONNECT: Duration = Duration::from_millis(500);

/// Time limit for the target to end.
const GRACE: Duration = Duration::from_secs(5);

/// Limit on the number of times that processes of a target are killed at its end: those that are
/// there, and those that they have started in between.
const GENERATIONS: usize = 100;

/// A running target. Dropped, it is ended.
#[derive(Debug)]
pub(super) struct Service {
    child: Child,
    port: u16,
    log: PathBuf,
    /// Its command, without secrets.
    command: String,
}

impl Service {
    /// Starts `command` on a free port and waits until it accepts connections. What it says goes to
    /// `log`.
    pub(super) fn start(
        command: &str,
        log: &Path,
        ready: Duration,
        held: &HeldSignals,
    ) -> Result<Self, Error> {
        let port = free_port()?;
        let line = command.replace(PORT, &port.to_string());
        let output = File::create(log).map_err(Error::unwritable(log))?;
        let errors = output.try_clone().map_err(Error::unwritable(log))?;
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]).env("PORT", port.to_string());
        shell.stdin(Stdio::null()).stdout(output).stderr(errors);
        let child = fork("crawlmark-target", Role::Session, move || {
            // What suits a shard is not for a target to put up with.
            let _ = prctl::set_thp_disable(false);
            // Only comes back when there is no shell.
            let _ = shell.exec();
            127
        })?;
        let service = Self {
            child,
            port,
            log: log.to_owned(),
            command: redact::line(command),
        };
        service.await_ready(ready, held)?;
        Ok(service)
    }

    /// Its port.
    pub(super) const fn port(&self) -> u16 {
        self.port
    }

    fn await_ready(&self, ready: Duration, held: &HeldSignals) -> Result<(), Error> {
        let (clock, address) = (
            Clock::start(),
            SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)),
        );
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
                return Err(Error::Stopped(signal));
            }
        }
    }

    fn failed(&self, why: &str) -> Error {
        Error::Round(format!(
            "start the target `{}`: {why}{}",
            self.command,
            self.printed()
        ))
    }

    /// Return the line of the target's output that tells most, to follow an error message; empty if
    /// it printed nothing.
    fn printed(&self) -> String {
        let said = fs::read(&self.log).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        telling_line(&said).map_or_else(String::new, |line| {
            format!("; it printed: {}", line.trim_end_matches('.'))
        })
    }

    /// Return the message about a target whose command has ended by itself; none while it runs. A
    /// round with it counts for nothing: of a target that crashed half of the round is missing, and
    /// one that put itself into the background is not measured.
    pub(super) fn ended(&self) -> Option<String> {
        self.has_ended().then(|| {
            format!(
                "its target `{}` ended before the round did, and has to stay in the foreground until it gets SIGTERM{}",
                self.command,
                self.printed()
            )
        })
    }

    /// True if its command has ended by itself.
    pub(super) fn has_ended(&self) -> bool {
        self.child.has_ended()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // A process that left the session was started to outlive the command, and is not this
        // program's to end. The numbers stay taken in the meantime: the leader has not been waited
        // for.
        let session = self.child.pid();
        let signal = |signal| {
            let members = members(session);
            for member in &members {
                // One that has ended in the meantime is no error.
                let _ = kill(*member, signal);
            }
            !members.is_empty()
        };
        signal(Signal::SIGTERM);
        let clock = Clock::start();
        while !self.child.has_ended() && Duration::from_nanos(clock.now().0) < GRACE {
            std::thread::sleep(LOOK / 10);
        }
        // Again for what they started in the meantime.
        for _ in 0..GENERATIONS {
            if !signal(Signal::SIGKILL) {
                break;
            }
            std::thread::sleep(LOOK / 10);
        }
        let _ = self.child.wait();
    }
}

/// The processes of a session that have not ended.
fn members(session: i32) -> Vec<Pid> {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| live_session(*pid) == Some(session))
        .map(Pid::from_raw)
        .collect()
}

/// The session of a process that has not ended. What `stat` has after the name, which is in
/// brackets and may hold anything, begins with the state, the parent, the group and the session.
fn live_session(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let is_live = !matches!(fields.next()?, "Z" | "X");
    fields.nth(2)?.parse().ok().filter(|_| is_live)
}

/// A free loopback port.
fn free_port() -> Result<u16, Error> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Error::Port)?;
    Ok(listener.local_addr().map_err(Error::Port)?.port())
}

fn humantime(time: Duration) -> String {
    crawlmark_results::show::text::micros(time.as_secs_f64() * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_a_member_of_its_session() {
        let own = std::process::id().cast_signed();
        let session = live_session(own).unwrap();
        assert!(members(session).contains(&Pid::from_raw(own)));
        assert_eq!(members(-1), []);
    }
}
