//! `--page` and `--metrics`: a run while it goes on, served by a process of its own.
//!
//! The supervisor writes each second once into a pipe that never blocks it; what does not fit is
//! dropped, and counted. The process makes pages, events and metrics of it, only for readers that
//! are there. It changes nothing: every request is a read.

mod server;

use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crawlmark_harness::clock::Clock;
use crawlmark_harness::process::{Child, Role, fork};
use crawlmark_harness::supervisor::{Interval, ShardSecond};
use crawlmark_harness::wire::{EncodedStats, IntervalFrame, encode};
use crawlmark_results::run::report::SoFar;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::pipe2;
use serde::{Deserialize, Serialize};

use crate::cli::RunArgs;
use crate::error::Error;
use crate::terminal;

/// Bytes that wait for the process before seconds are dropped.
const MOST_PENDING: usize = 4 << 20;

/// Time that readers have to take the report, at the end.
const AT_END: Duration = Duration::from_secs(2);

/// Bytes of the secret part of the path: other users of the machine reach loopback, too.
const SECRET: usize = 12;

/// What the supervisor tells the process.
#[derive(Debug, Serialize, Deserialize)]
enum Told {
    /// A second over all shards, and each of them.
    Second(Box<IntervalFrame>, Vec<ShardSecond>),
    /// The run is over, and its result is in this directory.
    End(PathBuf),
}

/// Where a run is served while it goes on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ServedAt {
    /// Port of the page on 127.0.0.1, 0 for a free one; none without it.
    pub(crate) page: Option<u16>,
    /// Address of the metrics; none without them.
    pub(crate) metrics: Option<SocketAddr>,
}

impl ServedAt {
    pub(crate) const fn of(args: &RunArgs) -> Self {
        Self {
            page: args.page,
            metrics: args.metrics,
        }
    }
}

/// Process that serves a run.
#[derive(Debug)]
pub(crate) struct LivePage {
    child: Child,
    pipe: File,
    pending: Vec<u8>,
    /// Seconds that were dropped.
    dropped: u64,
}

/// A socket that accepts connections, and the flag that asked for it.
struct Listening {
    listener: TcpListener,
    address: SocketAddr,
}

impl Listening {
    fn at(flag: &str, address: SocketAddr) -> Result<Self, Error> {
        let failed = |error: io::Error| Error::Usage(format!("{flag} {address}: {error}"));
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }
}

impl LivePage {
    /// Start it, and say where it is; none where nothing is to be served.
    ///
    /// # Errors
    /// When a port is taken, or the process cannot be started.
    pub(crate) fn start(at: ServedAt, run: impl FnOnce() -> SoFar) -> Result<Option<Self>, Error> {
        let ServedAt { page, metrics } = at;
        let page = page.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let page = page.map(|at| Listening::at("--page", at)).transpose()?;
        let metrics = metrics.map(|at| Listening::at("--metrics", at));
        let metrics = metrics.transpose()?;
        if page.is_none() && metrics.is_none() {
            return Ok(None);
        }
        let failed = |error: io::Error| Error::Usage(format!("--page: {error}"));
        let secret = secret().map_err(failed)?;
        if let Some(page) = &page {
            terminal::say(&format!("Live: http://{}/{secret}/\n", page.address));
        }
        if let Some(metrics) = &metrics {
            terminal::say(&format!("Metrics: http://{}/metrics\n", metrics.address));
        }
        let (read, write) =
            pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).map_err(|error| failed(error.into()))?;
        let (mut read, mut write) = (Some(read), Some(write));
        let run = run();
        let child = fork("crawlmark-page", Role::Part, || {
            // Else it would never see the end of the pipe.
            write = None;
            let served = read
                .take()
                .map(|pipe| server::serve(pipe, page, metrics, &secret, run));
            u8::from(!matches!(served, Some(Ok(()))))
        })?;
        let pipe = write.take().map(File::from);
        Ok(Some(Self {
            child,
            pipe: pipe.ok_or_else(|| failed(ErrorKind::BrokenPipe.into()))?,
            pending: Vec::new(),
            dropped: 0,
        }))
    }

    /// Tell it of a second. Never blocks.
    pub(crate) fn second(&mut self, interval: &Interval) {
        let stats = EncodedStats::of(&interval.merged);
        let frame = stats.map(|stats| IntervalFrame {
            figures: interval.figures.clone(),
            stats,
        });
        let told = frame
            .and_then(|frame| encode(&Told::Second(Box::new(frame), interval.seconds.clone())));
        match told {
            Ok(bytes) if self.pending.len() + bytes.len() <= MOST_PENDING => {
                self.pending.extend_from_slice(&bytes);
            }
            _ => self.dropped += 1,
        }
        self.write();
    }

    /// Write what the pipe takes.
    fn write(&mut self) {
        while !self.pending.is_empty() {
            match self.pipe.write(&self.pending) {
                Ok(written) => drop(self.pending.drain(..written)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // It has ended: a page is no reason to end a run.
                Err(_) => self.pending.clear(),
            }
        }
    }

    /// Hand readers the result in a directory, and end it. Returns how many seconds it was not told.
    pub(crate) fn end(mut self, saved: Option<&Path>) -> u64 {
        let clock = Clock::start();
        let deadline = clock.now().plus(AT_END);
        if let Some(bytes) = saved.and_then(|saved| encode(&Told::End(saved.to_owned())).ok()) {
            self.pending.extend_from_slice(&bytes);
        }
        self.write();
        while !self.pending.is_empty() && clock.now() < deadline {
            let mut ready = [PollFd::new(self.pipe.as_fd(), PollFlags::POLLOUT)];
            let _ = poll(&mut ready, PollTimeout::from(100_u8));
            self.write();
        }
        // Without a result to show, the end of the pipe ends it.
        drop(self.pipe);
        while !self.child.has_ended() && clock.now() < deadline.plus(AT_END) {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.child.end(Duration::from_millis(200));
        self.dropped
    }
}

/// Return a secret that no other user of the machine can guess.
fn secret() -> io::Result<String> {
    let mut bytes = [0; size_of::<u128>()];
    File::open("/dev/urandom")?.read_exact(&mut bytes[..SECRET])?;
    let secret = u128::from_le_bytes(bytes);
    Ok(format!("{secret:0width$x}", width = 2 * SECRET))
}
