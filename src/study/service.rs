//! A target that a round starts and ends: a shell's command on a free port, and the CPU time that
//! it uses.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crawlmark_harness::clock::Clock;
use crawlmark_harness::files::Root;
use crawlmark_harness::supervisor::HeldSignals;

use super::PORT;
use super::rounds::{Setup, telling_line};
use super::session::Session;
use crate::crawl::redact;
use crate::error::Error;

/// Between two looks at whether it accepts connections.
const LOOK: Duration = Duration::from_millis(20);

/// Time limit of one attempt to connect.
const CONNECT: Duration = Duration::from_millis(500);

/// A running target. Dropped, it is ended.
#[derive(Debug)]
pub(super) struct Service {
    session: Session,
    port: u16,
    log: PathBuf,
    /// Its command, without secrets.
    command: String,
}

impl Service {
    /// Starts the target of a round on a free port and waits until it accepts connections; none
    /// without one. What it says goes to `log`.
    pub(super) fn start(
        round: &Setup,
        log: &Path,
        ready: Duration,
        held: &HeldSignals,
    ) -> Result<Option<Self>, Error> {
        let Some(command) = &round.target else {
            return Ok(None);
        };
        let port = free_port()?;
        let line = command.replace(PORT, &port.to_string());
        let root = Root::new(log.parent().unwrap_or(Path::new("")));
        let output = root
            .replace(log, |_| Ok(()))
            .map_err(Error::unwritable(log))?;
        let errors = output.try_clone().map_err(Error::unwritable(log))?;
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]).env("PORT", port.to_string());
        shell.stdin(Stdio::null()).stdout(output).stderr(errors);
        if let Some(directory) = &round.directory {
            shell.current_dir(directory);
        }
        for token in &round.tokens {
            shell.env_remove(token);
        }
        let service = Self {
            session: Session::start("crawlmark-target", shell)?,
            port,
            log: log.to_owned(),
            command: redact::line(command),
        };
        service.await_ready(ready, held)?;
        Ok(Some(service))
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
                return Err(self.failed(&format!(
                    "nothing accepts connections at {address} after {ready:?} (--ready): the command has to listen on \
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
        telling_line(&String::from_utf8_lossy(&said)).map_or_else(String::new, |line| {
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
        self.session.has_ended()
    }
}

fn free_port() -> Result<u16, Error> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Error::Port)?;
    Ok(listener.local_addr().map_err(Error::Port)?.port())
}
