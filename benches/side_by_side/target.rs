//! The server that everybody is measured on: the bundled target as one process on its own CPU, or one that runs already.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::process::{ChildStdout, Stdio};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::arguments::TargetUrl;
use crate::clients::Over;
use crate::crawlmark;
use crate::error::Error;
use crate::place::Places;
use crate::process::{Running, Signals};

/// Time limit for the bundled target to say where it listens, ms.
const START_MS: u16 = 10_000;

/// A server.
#[derive(Debug)]
pub(crate) struct Target {
    template: String,
    /// Kept to its end: dropped, the process ends.
    process: Option<Bundled>,
}

/// The bundled target as one process on the target's CPU. Dropped, it ends.
#[derive(Debug)]
pub(crate) struct Bundled {
    /// Scheme and authority.
    pub(crate) url: String,
    /// Its process.
    pub(crate) running: Running,
    /// Open for as long as it runs, since it prints its counts at the end.
    _stdout: BufReader<ChildStdout>,
}

impl Target {
    /// One that runs already.
    pub(crate) fn given(url: &TargetUrl) -> Self {
        Self { template: url.0.clone(), process: None }
    }

    /// The bundled one.
    pub(crate) fn start(places: &Places, signals: &Signals, over: Over) -> Result<Self, Error> {
        let tls = [OsStr::new("--tls")];
        let bundled = Bundled::start(places, signals, if over == Over::Plain { &[] } else { &tls })?;
        Ok(Self { template: format!("{}/items/{{id}}", bundled.url), process: Some(bundled) })
    }

    /// With `{id}` in it.
    pub(crate) fn template(&self) -> &str {
        &self.template
    }

    /// One item of it, for the peers that ask for the same thing again and again.
    pub(crate) fn url(&self) -> String {
        self.template.replace("{id}", "1")
    }

    /// Describe the target for people.
    pub(crate) fn description(&self, places: &Places) -> String {
        let kind = match (&self.process, places.target_cpu) {
            (None, _) => "given".to_owned(),
            (Some(_), None) => "bundled, one process".to_owned(),
            (Some(_), Some(cpu)) => format!("bundled, one process, alone on CPU {cpu}"),
        };
        format!("{kind}: {}", self.template)
    }
}

impl Bundled {
    /// Starts it with `more` arguments.
    pub(crate) fn start(places: &Places, signals: &Signals, more: &[&OsStr]) -> Result<Self, Error> {
        let mut command = places.command(crawlmark::PROGRAM, places.target_cpu);
        command.args(["serve", "--processes", "1", "--listen", "127.0.0.1:0"]).args(more);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut running = signals.spawn(&mut command, "the bundled target")?;
        let silent = || Error::Target("it printed nothing".to_owned());
        let stdout = running.child.stdout.take().ok_or_else(silent)?;
        if poll(&mut [PollFd::new(stdout.as_fd(), PollFlags::POLLIN)], PollTimeout::from(START_MS))? == 0 {
            return Err(silent());
        }
        let mut stdout = BufReader::new(stdout);
        let mut line = String::new();
        stdout.read_line(&mut line)?;
        let Some(url) = line.trim().strip_prefix("listening on ") else {
            return Err(Error::Target(format!("it printed `{}`", line.trim())));
        };
        Ok(Self { url: url.to_owned(), running, _stdout: stdout })
    }
}
