//! The target of a test: `crawlmark serve`, its processes and its counts.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::case::wait;
use crate::processes::{children, pid_of};
use crate::scene::PROGRAM;

/// Only a target that is gone takes this long.
const PATIENCE: Duration = Duration::from_secs(5);

/// A running target. Dropped, it is ended.
pub(crate) struct Target {
    serve: Child,
    address: String,
}

impl Target {
    /// Start it on a free port.
    pub(crate) fn start(flags: &str) -> Self {
        Self::start_on("127.0.0.1:0", flags)
    }

    fn start_on(listen: &str, flags: &str) -> Self {
        let mut serve = Command::new(PROGRAM);
        serve.args(["serve", "--listen", listen]);
        serve.args(flags.split_whitespace()).stderr(Stdio::null());
        let mut serve = serve.stdout(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(serve.stdout.take().unwrap())
            .read_line(&mut first)
            .unwrap();
        let (_, address) = first.trim().rsplit_once('/').unwrap();
        Self {
            address: address.to_owned(),
            serve,
        }
    }

    /// End it, and start another one on its port.
    pub(crate) fn replace(&mut self, flags: &str) {
        self.end();
        *self = Self::start_on(&self.address, flags);
    }

    /// What to crawl.
    pub(crate) fn url(&self) -> String {
        format!("{}/items/{{id}}", self.origin())
    }

    /// Its scheme, host and port: as a proxy it forwards to itself.
    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Its processes that serve.
    pub(crate) fn processes(&self) -> Vec<i32> {
        children(pid_of(&self.serve))
    }

    /// End all of its processes as an accident would.
    pub(crate) fn kill(&self) {
        for pid in std::iter::once(pid_of(&self.serve)).chain(self.processes()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }

    /// Its counts; none if it is gone.
    pub(crate) fn ledger(&self) -> Option<Value> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let request =
            "GET /__admin/ledger HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).ok()?;
        let mut said = String::new();
        stream.read_to_string(&mut said).ok()?;
        serde_json::from_str(said.split_once("\r\n\r\n")?.1).ok()
    }

    /// Requests that it counted; none if it is gone.
    pub(crate) fn requests(&self) -> Option<u64> {
        self.ledger()?["requests"].as_u64()
    }

    fn end(&mut self) {
        if self.serve.try_wait().unwrap().is_some() {
            return;
        }
        for pid in self.processes() {
            let _ = kill(Pid::from_raw(pid), Signal::SIGCONT);
        }
        let _ = kill(Pid::from_raw(pid_of(&self.serve)), Signal::SIGTERM);
        if wait(PATIENCE, || self.serve.try_wait().unwrap()).is_none() {
            self.kill();
            let _ = self.serve.wait();
        }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.end();
    }
}
