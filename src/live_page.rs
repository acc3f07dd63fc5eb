//! `--page`: the page of a run while it goes on, from a process of its own.
//!
//! The supervisor writes each second once into a pipe that never blocks it; what does not fit is
//! dropped, and counted. The process makes pages and events of it, only for readers that are there.
//! It changes nothing: every request is a read.

mod server;

use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crawlmark_harness::clock::Clock;
use crawlmark_harness::process::{Child, Role, fork};
use crawlmark_harness::supervisor::Interval;
use crawlmark_harness::wire::{EncodedStats, IntervalFrame, encode};
use crawlmark_results::show::page;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::pipe2;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Bytes that wait for the process before seconds are dropped.
const MOST_PENDING: usize = 4 << 20;

/// Time that readers have to take the report, at the end.
const AT_END: Duration = Duration::from_secs(2);

/// Bytes of the secret part of the path: other users of the machine reach loopback, too.
const SECRET: usize = 12;

/// What the supervisor tells the process.
#[derive(Debug, Serialize, Deserialize)]
enum Told {
    /// A second over all shards.
    Second(Box<IntervalFrame>),
    /// The run is over, and the page of its report is in this file.
    End(PathBuf),
}

/// Process that serves the page of a run.
#[derive(Debug)]
pub(crate) struct LivePage {
    child: Child,
    pipe: File,
    pending: Vec<u8>,
    /// Seconds that were dropped.
    dropped: u64,
    url: String,
}

impl LivePage {
    /// Start it on a port of 127.0.0.1; 0 picks a free one.
    ///
    /// # Errors
    /// When the port is taken, or the process cannot be started.
    pub(crate) fn start(port: u16, live: page::LivePage) -> Result<Self, Error> {
        let failed = |error: io::Error| Error::Usage(format!("--page: {error}"));
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listener = TcpListener::bind(listen).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let secret = secret().map_err(failed)?;
        let url = format!("http://{address}/{secret}/");
        let (read, write) =
            pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).map_err(|error| failed(error.into()))?;
        let (mut read, mut write) = (Some(read), Some(write));
        let child = fork("crawlmark-page", Role::Part, || {
            // Else it would never see the end of the pipe.
            write = None;
            let served = read
                .take()
                .map(|pipe| server::serve(listener, pipe, &secret, live));
            u8::from(!matches!(served, Some(Ok(()))))
        })?;
        let pipe = write.take().map(File::from);
        Ok(Self {
            child,
            pipe: pipe.ok_or_else(|| failed(ErrorKind::BrokenPipe.into()))?,
            pending: Vec::new(),
            dropped: 0,
            url,
        })
    }

    /// The address of the page.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Tell it of a second. Never blocks.
    pub(crate) fn second(&mut self, interval: &Interval) {
        let stats = EncodedStats::of(&interval.merged);
        let frame = stats.map(|stats| IntervalFrame {
            figures: interval.figures.clone(),
            stats,
        });
        let told = frame.and_then(|frame| encode(&Told::Second(Box::new(frame))));
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

    /// Hand readers the page of the report, and end it. Returns how many seconds it was not told.
    pub(crate) fn end(mut self, page: Option<&Path>) -> u64 {
        let clock = Clock::start();
        let deadline = clock.now().plus(AT_END);
        if let Some(bytes) = page.and_then(|page| encode(&Told::End(page.to_owned())).ok()) {
            self.pending.extend_from_slice(&bytes);
        }
        self.write();
        while !self.pending.is_empty() && clock.now() < deadline {
            let mut ready = [PollFd::new(self.pipe.as_fd(), PollFlags::POLLOUT)];
            let _ = poll(&mut ready, PollTimeout::from(100_u8));
            self.write();
        }
        // Without a page to show, the end of the pipe ends it.
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
