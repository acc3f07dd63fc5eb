//! The servers: how each is started, and how one finds out that it answers what it should.

use std::env;
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crawlmark_harness::clock::Clock;

use super::Note;
use super::stage::{Stage, body, path};
use crate::crawlmark;
use crate::error::Error;
use crate::place::{Places, in_path};
use crate::process::{Running, Signals};
use crate::say;
use crate::target::Bundled;

/// nginx, which says the same to everybody.
pub(super) const NGINX: &str = "nginx";
/// `WireMock`, whose stubs these are.
pub(super) const WIREMOCK: &str = "WireMock";

/// Time limit for a server's first response: a virtual machine with a thousand stubs to read, on one busy CPU.
const START: Duration = Duration::from_mins(1);

/// Time limit for a response.
const PATIENCE: Duration = Duration::from_secs(5);

/// A server that runs and answers what it should.
#[derive(Debug)]
pub(super) struct Contestant {
    pub(super) name: &'static str,
    /// The URL that is asked for.
    pub(super) url: String,
    /// Not counted before the rounds, s.
    pub(super) warm_up_s: u32,
    process: Process,
}

/// Dropped, it ends.
#[derive(Debug)]
enum Process {
    Bundled(Bundled),
    Other(Running),
}

impl Contestant {
    /// Starts all that can be had; of those that cannot, `notes` tell why.
    pub(super) fn start_all(
        stage: &Stage,
        places: &Places,
        signals: &Signals,
        notes: &mut Vec<Note>,
    ) -> Result<Vec<Self>, Error> {
        let mut all = vec![Self::start_crawlmark(stage, places, signals)?];
        for start in [Self::start_nginx, Self::start_wiremock] {
            match start(stage, places, signals) {
                Ok(contestant) => all.push(contestant),
                Err(error @ (Error::Server { .. } | Error::Start { .. })) => {
                    let note = format!("skipped: {error}");
                    say(&note);
                    notes.push(note);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    /// The first process of it.
    pub(super) fn pid(&self) -> u32 {
        match &self.process {
            Process::Bundled(bundled) => bundled.running.child.id(),
            Process::Other(running) => running.child.id(),
        }
    }

    fn start_crawlmark(stage: &Stage, places: &Places, signals: &Signals) -> Result<Self, Error> {
        let bundled = Bundled::start(places, signals, &[OsStr::new("--stubs"), stage.root().as_os_str()])?;
        let url = bundled.url.clone() + &path();
        let authority = bundled.url.trim_start_matches("http://");
        match ask(authority) {
            Ok(answer) if is_right(&answer) => {}
            Ok(answer) => return Err(Error::Server { name: crawlmark::NAME, why: format!("it answered `{answer}`") }),
            Err(error) => return Err(Error::Server { name: crawlmark::NAME, why: error.to_string() }),
        }
        Ok(Self { name: crawlmark::NAME, url, warm_up_s: 1, process: Process::Bundled(bundled) })
    }

    fn start_nginx(stage: &Stage, places: &Places, signals: &Signals) -> Result<Self, Error> {
        let program = in_path(NGINX).ok_or_else(|| missing(NGINX, "it is not in PATH"))?;
        let port = free_port()?;
        let conf = stage.write_nginx_conf(port)?;
        let mut command = places.command(program, places.target_cpu);
        command.arg("-p").arg(stage.root()).arg("-c").arg(conf).args(["-e", "stderr"]);
        Self::start((NGINX, 1), command, port, signals)
    }

    fn start_wiremock(stage: &Stage, places: &Places, signals: &Signals) -> Result<Self, Error> {
        let java = in_path("java").ok_or_else(|| missing(WIREMOCK, "there is no java in PATH"))?;
        let jar = env::var_os("WIREMOCK_JAR").map_or_else(
            || Path::new(env!("CARGO_MANIFEST_DIR")).join("target/wiremock/wiremock-standalone-3.13.2.jar"),
            PathBuf::from,
        );
        if !jar.is_file() {
            return Err(missing(WIREMOCK, &format!("there is no {} (set WIREMOCK_JAR)", jar.display())));
        }
        let port = free_port()?;
        let mut command = places.command(java, places.target_cpu);
        command.arg("-jar").arg(jar).arg("--root-dir").arg(stage.root()).args(["--port", &port.to_string()]);
        // A thread for every connection of the client, with some to spare for its own.
        command.args(["--bind-address", "127.0.0.1", "--disable-banner", "--no-request-journal"]);
        command.args(["--container-threads", "100"]);
        // Just-in-time compilers need thousands of requests to get going.
        Self::start((WIREMOCK, 10), command, port, signals)
    }

    /// Starts a server that was told to listen on `port`, and waits for its first answer.
    fn start(
        (name, warm_up_s): (&'static str, u32),
        mut command: Command,
        port: u16,
        signals: &Signals,
    ) -> Result<Self, Error> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut running = signals.spawn(&mut command, name)?;
        let authority = format!("127.0.0.1:{port}");
        let clock = Clock::start();
        let deadline = clock.now().plus(START);
        loop {
            match ask(&authority) {
                Ok(answer) if is_right(&answer) => break,
                Ok(answer) if clock.now() > deadline => {
                    return Err(Error::Server { name, why: format!("it answered `{answer}`") });
                }
                Err(error) if clock.now() > deadline => return Err(Error::Server { name, why: error.to_string() }),
                _ => {}
            }
            if let Some(status) = running.child.try_wait()? {
                return Err(Error::Server { name, why: format!("it ended ({status})") });
            }
            signals.pause(Duration::from_millis(50))?;
        }
        Ok(Self { name, url: format!("http://{authority}{}", path()), warm_up_s, process: Process::Other(running) })
    }
}

fn missing(name: &'static str, why: &str) -> Error {
    Error::Server { name, why: why.to_owned() }
}

/// A port that nobody listens on just now. Somebody else may take it first; then the server ends, and is left out.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// One request on a connection of its own.
fn ask(authority: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(authority)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n", path())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// True if it is the response that all servers are to send, however it is framed.
fn is_right(answer: &str) -> bool {
    answer.starts_with("HTTP/1.1 200 ") && answer.contains(&body()) && answer.contains("application/json")
}
