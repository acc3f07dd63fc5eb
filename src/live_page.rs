//! `--page` and `--metrics`: a run while it goes on, served by a process of its own.
//!
//! The supervisor writes each second once into a channel that never blocks it; what does not fit is
//! dropped, and counted. The process makes pages, events and metrics of it, only for readers that
//! are there. It changes nothing: every request is a read.
//!
//! The channel keeps messages apart (`SOCK_SEQPACKET`), so that several may write to it: a study
//! says which of its rounds goes on, and each round, which inherits the channel, tells its seconds
//! as a single run does. What a round that is killed leaves unsaid harms no other.

mod server;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crawlmark_harness::clock::Clock;
use crawlmark_harness::process::{Child, Role, fork, inherited_channel};
use crawlmark_harness::supervisor::{Interval, ShardSecond};
use crawlmark_harness::wire::{EncodedStats, IntervalFrame, encode};
use crawlmark_results::judge::SoFar;
use crawlmark_results::run::words;
use crawlmark_results::show::doc::Doc;
use crawlmark_results::show::page::Live;
use crawlmark_results::show::plot::Plot;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use serde::{Deserialize, Serialize};

use crate::cli::RunArgs;
use crate::error::Error;
use crate::terminal;

/// Messages that wait for the process before seconds are dropped.
const MOST_PENDING: usize = 256;

/// Bytes of a message but its first: less than the channel holds.
const MOST_PART: usize = 64 << 10;

/// The first byte of a message, by whether a frame begins with it.
const BEGINS: u8 = 0;
const GOES_ON: u8 = 1;

/// Time that readers have to take the report, at the end.
const AT_END: Duration = Duration::from_secs(2);

/// Bytes of the secret part of the path: other users of the machine reach loopback, too.
const SECRET: usize = 12;

/// What the supervisor tells the process.
#[derive(Debug, Serialize, Deserialize)]
enum Told {
    /// A run begins: its report so far, as JSON.
    Begin(String),
    /// Place of the next run among the rounds of a study.
    Step(String),
    /// A second over all shards, and each of them.
    Second(Box<IntervalFrame>, Vec<ShardSecond>),
    /// A page without charts: its title, and what stands on it.
    Document(String, String),
    /// The run is over, and its result is in this directory.
    End(PathBuf),
}

/// Variable that a study sets for its rounds: the number of the descriptor that is the channel.
const CHANNEL: &str = "CRAWLMARK_CHANNEL";

/// Where a run is served while it goes on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ServedAt {
    /// Port of the page on 127.0.0.1, 0 for a free one; none without it.
    pub(crate) page: Option<u16>,
    /// Address of the metrics; none without them.
    pub(crate) metrics: Option<SocketAddr>,
    /// Descriptor of the channel of a study, whose page shows the run; none of a single run.
    channel: Option<RawFd>,
}

impl ServedAt {
    pub(crate) fn of(args: &RunArgs) -> Self {
        let channel = std::env::var(CHANNEL).ok();
        Self {
            page: args.page,
            metrics: args.metrics,
            channel: channel.and_then(|number| number.parse().ok()),
        }
    }

    /// Of what is no single run: a page, if it is wanted.
    pub(crate) const fn page(page: Option<u16>) -> Self {
        Self {
            page,
            metrics: None,
            channel: None,
        }
    }
}

/// The process that serves a run, as who tells it sees it.
#[derive(Debug)]
pub(crate) struct LivePage {
    /// None in a round, whose study has started it.
    child: Option<Child>,
    channel: File,
    pending: VecDeque<Vec<u8>>,
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
    /// Start it for a run, and say where it is; none where nothing is to be served.
    ///
    /// # Errors
    /// When a port is taken, or the process cannot be started.
    pub(crate) fn of_run(at: ServedAt, run: impl FnOnce() -> SoFar) -> Result<Option<Self>, Error> {
        let page = match at.channel.and_then(inherited_channel) {
            Some(channel) => Some(Self::told_by(None, channel)),
            None => Self::start(at)?,
        };
        Ok(page.map(|mut page| {
            page.tell(&Told::Begin(run().to_json()));
            page
        }))
    }

    fn told_by(child: Option<Child>, channel: OwnedFd) -> Self {
        Self {
            child,
            channel: File::from(channel),
            pending: VecDeque::new(),
            dropped: 0,
        }
    }

    /// Start it, and say where it is; none where nothing is to be served.
    ///
    /// # Errors
    /// When a port is taken, or the process cannot be started.
    pub(crate) fn start(at: ServedAt) -> Result<Option<Self>, Error> {
        let page = at
            .page
            .map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
            .map(|at| Listening::at("--page", at))
            .transpose()?;
        let metrics = at
            .metrics
            .map(|at| Listening::at("--metrics", at))
            .transpose()?;
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
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let (theirs, ours) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags)
            .map_err(|error| failed(error.into()))?;
        let (mut theirs, mut ours) = (Some(theirs), Some(ours));
        let child = fork("crawlmark-page", Role::Part, || {
            // Else it would never see the end of the channel.
            ours = None;
            let live = Live::new(words::doc);
            let served = theirs
                .take()
                .map(|channel| server::serve(channel, page, metrics, &secret, live));
            u8::from(!matches!(served, Some(Ok(()))))
        })?;
        let channel = ours
            .take()
            .ok_or_else(|| failed(ErrorKind::BrokenPipe.into()))?;
        Ok(Some(Self::told_by(Some(child), channel)))
    }

    /// Have a command, which is a round of a study, tell its seconds. The command inherits what is
    /// returned.
    ///
    /// # Errors
    /// When there is no descriptor for that.
    pub(crate) fn told_by_round(&self, round: &mut Command) -> io::Result<File> {
        let channel = self.channel.try_clone()?;
        fcntl(&channel, FcntlArg::F_SETFD(FdFlag::empty()))?;
        round.env(CHANNEL, channel.as_raw_fd().to_string());
        Ok(channel)
    }

    /// Tell it which of several runs is next.
    pub(crate) fn step(&mut self, step: String) {
        self.tell(&Told::Step(step));
    }

    /// Show a document with its plots.
    pub(crate) fn show(&mut self, doc: &Doc, plots: &[Plot]) {
        self.tell(&Told::Document(doc.title().to_owned(), doc.live(plots)));
    }

    /// Tell it of a second. Never blocks.
    pub(crate) fn second(&mut self, interval: &Interval) {
        match EncodedStats::of(&interval.merged) {
            Ok(stats) => {
                let frame = IntervalFrame {
                    figures: interval.figures.clone(),
                    stats,
                };
                self.tell(&Told::Second(Box::new(frame), interval.seconds.clone()));
            }
            Err(_) => self.dropped += 1,
        }
    }

    /// Tell it something, in messages of which each says first if it goes on with the last one.
    fn tell(&mut self, told: &Told) {
        let frame = encode(told).unwrap_or_default();
        let parts = frame.chunks(MOST_PART);
        if frame.is_empty() || self.pending.len() + parts.len() > MOST_PENDING {
            self.dropped += 1;
        } else {
            let starts = std::iter::once(BEGINS).chain(std::iter::repeat(GOES_ON));
            let messages = parts
                .zip(starts)
                .map(|(part, start)| [&[start][..], part].concat());
            self.pending.extend(messages);
        }
        self.write();
    }

    /// Write what the channel takes.
    fn write(&mut self) {
        while let Some(message) = self.pending.front() {
            match self.channel.write(message) {
                Ok(_) => drop(self.pending.pop_front()),
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
        if let (Some(saved), Some(_)) = (saved, &self.child) {
            self.tell(&Told::End(saved.to_owned()));
        }
        while !self.pending.is_empty() && clock.now() < deadline {
            let mut ready = [PollFd::new(self.channel.as_fd(), PollFlags::POLLOUT)];
            let _ = poll(&mut ready, PollTimeout::from(100_u8));
            self.write();
        }
        // Without a result to show, the end of the channel ends it.
        drop(self.channel);
        if let Some(child) = self.child {
            while !child.has_ended() && clock.now() < deadline.plus(AT_END) {
                std::thread::sleep(Duration::from_millis(10));
            }
            child.end(Duration::from_millis(200));
        }
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
