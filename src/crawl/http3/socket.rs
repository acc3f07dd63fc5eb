//! The UDP socket of a connection. It is connected, so that the kernel tells when nobody listens on
//! the target's port; it counts bytes, and notes when it was read.
//!
//! It must not look into the datagrams.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket as Unregistered};
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};

use crawlmark_harness::clock::{Clock, Nanos};
use nix::sys::socket::{
    AddressFamily, Shutdown, SockFlag, SockType, SockaddrStorage, connect, shutdown, socket,
};
use quinn::udp::{RecvMeta, Transmit, UdpSocketState};
use quinn::{AsyncUdpSocket, UdpPoller};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::select;
use tokio::sync::Notify;

use crate::crawl::connect::dial::{End, go_from};

/// The longest that datagrams are that the kernel joins (`UDP_GRO`).
const LONGEST: usize = 1 << 16;

/// Datagrams that were read at once, joined, and of which the first are handed on.
///
/// The library has room for 32 times as many, which it writes zeros into: 3 MiB of each connection.
#[derive(Debug)]
struct Joined {
    bytes: Box<[u8]>,
    of_all: RecvMeta,
    handed_on: usize,
}

impl Joined {
    fn new() -> Self {
        Self {
            bytes: vec![0; LONGEST].into(),
            of_all: RecvMeta::default(),
            handed_on: 0,
        }
    }

    /// Hand on as many datagrams as there is room for, and return their number.
    fn hand_on(&mut self, bufs: &mut [IoSliceMut<'_>], meta: &mut [RecvMeta]) -> usize {
        let mut count = 0;
        for (buf, of_one) in bufs.iter_mut().zip(meta) {
            let left = &self.bytes[self.handed_on..self.of_all.len];
            let len = left.len().min(self.of_all.stride).min(buf.len());
            if len == 0 {
                break;
            }
            buf[..len].copy_from_slice(&left[..len]);
            *of_one = RecvMeta {
                len,
                stride: len,
                ..self.of_all
            };
            self.handed_on += len;
            count += 1;
        }
        count
    }
}

/// Socket of one connection. Atomic, because the library asks for `Sync`; one thread uses it.
#[derive(Debug)]
pub(super) struct Socket {
    io: UdpSocket,
    state: UdpSocketState,
    clock: Clock,
    joined: Mutex<Joined>,
    sent: AtomicU64,
    received: AtomicU64,
    read_at: AtomicU64,
    error: OnceLock<io::ErrorKind>,
    failed: Notify,
    /// Set once the next datagram is the last one.
    is_closing: AtomicBool,
    /// Set once it is neither read nor written any more.
    is_over: AtomicBool,
}

impl Socket {
    /// Open it, inside the shard's runtime.
    pub(super) fn open(end: End, clock: Clock) -> io::Result<Arc<Self>> {
        let family = if end.to.is_ipv4() {
            AddressFamily::Inet
        } else {
            AddressFamily::Inet6
        };
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let own = socket(family, SockType::Datagram, flags, None)?;
        if let Some(from) = end.from {
            go_from(&own, from)?;
        }
        connect(own.as_raw_fd(), &SockaddrStorage::from(end.to))?;
        let own = Unregistered::from(own);
        Ok(Arc::new(Self {
            state: UdpSocketState::new((&own).into())?,
            io: UdpSocket::from_std(own)?,
            clock,
            joined: Mutex::new(Joined::new()),
            sent: AtomicU64::default(),
            received: AtomicU64::default(),
            read_at: AtomicU64::default(),
            error: OnceLock::new(),
            failed: Notify::new(),
            is_closing: AtomicBool::default(),
            is_over: AtomicBool::default(),
        }))
    }

    /// Read no more once the next datagram was sent, which tells the target that the connection is
    /// closed.
    ///
    /// The library would go on for three probe timeouts (RFC 9000, 10.2) and keep all that it has of
    /// the connection, so that a target which closes 400 a second would make a shard grow.
    pub(super) fn end_after_next(&self) {
        self.is_closing.store(true, Relaxed);
    }

    /// Read no more, for the target has closed the connection.
    pub(super) fn end(&self) {
        self.is_over.store(true, Relaxed);
        // What waits for the socket wakes, and finds that it is over. That fails only where the
        // kernel has an error for the socket, which wakes as well.
        let _ = shutdown(self.io.as_raw_fd(), Shutdown::Read);
    }

    /// Bytes of the datagrams sent and received so far.
    pub(super) fn passed(&self) -> [u64; 2] {
        [&self.sent, &self.received].map(|bytes| bytes.load(Relaxed))
    }

    /// Time of the last read that brought something.
    pub(super) fn read_at(&self) -> Nanos {
        Nanos(self.read_at.load(Relaxed))
    }

    /// Return the error that ends the connection, once there is one.
    pub(super) fn error(&self) -> Option<io::ErrorKind> {
        self.error.get().copied()
    }

    /// Wait for it.
    pub(super) async fn failed(&self) -> io::ErrorKind {
        loop {
            select! {
                () = self.failed.notified() => {}
                // An error alone makes a socket neither readable nor writable.
                _ = self.io.ready(Interest::ERROR) => drop(self.take_error()),
            }
            if let Some(error) = self.error() {
                return error;
            }
        }
    }

    /// Note the error that the kernel has for the socket, and wait for the next one from now on.
    fn take_error(&self) -> io::Result<()> {
        self.io.try_io(Interest::ERROR, || {
            if let Some(error) = self.io.take_error()? {
                self.note(&error);
            }
            Err(io::ErrorKind::WouldBlock.into())
        })
    }

    fn note(&self, error: &io::Error) {
        let is_fatal = matches!(
            error.kind(),
            io::ErrorKind::ConnectionRefused
                | io::ErrorKind::HostUnreachable
                | io::ErrorKind::NetworkUnreachable
                | io::ErrorKind::NetworkDown
        );
        if is_fatal && self.error.set(error.kind()).is_ok() {
            self.failed.notify_one();
        }
    }
}

impl AsyncUdpSocket for Socket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Poller(self))
    }

    /// Anything but a full buffer is as a datagram that is lost.
    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let send = || self.state.try_send((&self.io).into(), transmit);
        match self.io.try_io(Interest::WRITABLE, send) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
            Err(error) => self.note(&error),
            Ok(()) => drop(self.sent.fetch_add(transmit.contents.len() as u64, Relaxed)),
        }
        if self.is_closing.load(Relaxed) {
            self.end();
        }
        Ok(())
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let mut joined = self.joined.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let count = joined.hand_on(bufs, meta);
            if count > 0 {
                return Poll::Ready(Ok(count));
            }
            ready!(self.io.poll_recv_ready(cx))?;
            if self.is_over.load(Relaxed) {
                return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
            }
            let mut read = [RecvMeta::default()];
            let receive = || {
                let into = &mut [IoSliceMut::new(&mut joined.bytes)];
                self.state.recv((&self.io).into(), into, &mut read)
            };
            match self.io.try_io(Interest::READABLE, receive) {
                Ok(_) => {
                    let [of_all] = read;
                    self.received.fetch_add(of_all.len as u64, Relaxed);
                    self.read_at.store(self.clock.now().0, Relaxed);
                    (joined.of_all, joined.handed_on) = (of_all, 0);
                }
                Err(error) => self.note(&error),
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    fn may_fragment(&self) -> bool {
        self.state.may_fragment()
    }

    fn max_transmit_segments(&self) -> usize {
        self.state.max_gso_segments()
    }

    /// Datagrams are handed on one by one.
    fn max_receive_segments(&self) -> usize {
        1
    }
}

/// Waits until a socket takes more.
#[derive(Debug)]
struct Poller(Arc<Socket>);

impl UdpPoller for Poller {
    fn poll_writable(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.io.poll_send_ready(cx)
    }
}
