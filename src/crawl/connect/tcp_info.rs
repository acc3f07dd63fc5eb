//! Readings of the kernel's state of a TCP connection (`TCP_INFO`, tcp(7)): its shortest round trip,
//! what was sent again, and whether the peer's kernel acknowledged all that was sent.
//!
//! Read when a connection opens, when a request was slow, failed or timed out, and of a sample of the
//! others: a reading costs a quarter of a microsecond. It must not know what a response means.

use std::cell::Cell;
use std::os::fd::RawFd;

use crawlmark_harness::clock::Nanos;
use crawlmark_harness::sample::TcpReading;
use nix::libc;

/// The kernel's `struct tcp_info` up to the members that are read here; that of libc ends before
/// them. Kernels only ever append to it.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct TcpInfo {
    _state: [u8; 8],
    _rto_to_sacked: [u32; 4],
    /// Segments that are not acknowledged.
    unacked: u32,
    _sacked_to_rcv_space: [u32; 18],
    /// Segments sent again since the connection was begun, its SYN included.
    total_retrans: u32,
    _pacing_rate_to_bytes_received: [u64; 4],
    _segs: [u32; 2],
    /// Bytes that were not sent yet.
    notsent_bytes: u32,
    /// Shortest round trip, us.
    min_rtt: u32,
}

impl TcpInfo {
    /// Read that of a socket; none of one that is no TCP socket, or of a kernel that does not know
    /// all members.
    #[expect(unsafe_code, reason = "no library has the option up to these members")]
    fn read(socket: RawFd) -> Option<Self> {
        let mut info = Self::default();
        let mut length = libc::socklen_t::try_from(size_of::<Self>()).ok()?;
        // SAFETY: the kernel writes at most `length` bytes, the size of `info`, to it, and all of its
        // members are integers, valid with any bits. A descriptor that is no socket is an error.
        let result = unsafe {
            libc::getsockopt(
                socket,
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                (&raw mut info).cast(),
                &raw mut length,
            )
        };
        (result == 0 && length as usize == size_of::<Self>()).then_some(info)
    }
}

/// The readings of a connection so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TcpReadings {
    /// Segments sent again until the last reading.
    retransmits: u32,
    /// The last reading that found more of them, and how many more.
    risen: (Nanos, u32),
    /// True if something was sent again to open it.
    is_opened_late: bool,
}

impl TcpReadings {
    /// Begin with a connection that has just been opened; none of one that is not TCP's.
    pub(crate) fn begin(socket: Option<RawFd>) -> Self {
        let info = socket.and_then(TcpInfo::read).unwrap_or_default();
        Self {
            retransmits: info.total_retrans,
            is_opened_late: info.total_retrans > 0,
            ..Self::default()
        }
    }

    /// True if something was sent again to open it.
    pub(crate) const fn is_opened_late(&self) -> bool {
        self.is_opened_late
    }

    /// Read the connection at the end of a request that was sent at `sent`; none of one that is not
    /// TCP's.
    ///
    /// What was sent again during the request may have been found by the reading of another one on
    /// the same connection.
    pub(crate) fn read(
        &mut self,
        socket: Option<RawFd>,
        sent: Nanos,
        now: Nanos,
    ) -> Option<TcpReading> {
        let info = TcpInfo::read(socket?)?;
        let more = info.total_retrans.saturating_sub(self.retransmits);
        if more > 0 {
            (self.retransmits, self.risen) = (info.total_retrans, (now, more));
        }
        let (risen_at, risen_by) = self.risen;
        // A SYN that is sent again leaves the kernel with a clock of milliseconds.
        let is_known = info.min_rtt != u32::MAX && !self.is_opened_late;
        Some(TcpReading {
            is_slow: false,
            is_sampled: false,
            network_ns: is_known.then(|| u64::from(info.min_rtt) * 1_000),
            retransmits: if risen_at >= sent { risen_by } else { 0 },
            is_acknowledged: info.unacked == 0 && info.notsent_bytes == 0,
        })
    }
}

/// Finds the requests that took much longer than those before them.
#[derive(Debug, Default)]
pub(crate) struct SlowLimit {
    /// Running mean of the service times, ns.
    mean_ns: Cell<u64>,
}

/// Service times over which the mean runs.
const MEAN_OF: u64 = 64;

/// Factor of the mean from which on a request is slow.
const SLOWER: u64 = 4;

/// Time above the mean from which on a request is slow in any case, ns: half of what the kernel
/// waits at least until it sends a request again.
const MUCH_LONGER_NS: u64 = 100_000_000;

impl SlowLimit {
    /// True if a request that took so long is slow beside those before it.
    #[inline]
    pub(crate) fn is_beyond(&self, ns: u64) -> bool {
        let mean = self.mean_ns.get();
        let next = if mean == 0 {
            ns
        } else {
            mean - mean / MEAN_OF + ns / MEAN_OF
        };
        self.mean_ns.set(next);
        let more = mean.saturating_mul(SLOWER - 1);
        mean > 0 && ns > mean.saturating_add(more.min(MUCH_LONGER_NS))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd as _;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_request_on_loopback_is_acknowledged_at_once_and_nothing_is_sent_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let socket = Some(client.as_raw_fd());
        let mut readings = TcpReadings::begin(socket);
        client.write_all(b"request").unwrap();
        server.read_exact(&mut [0; 7]).unwrap();
        server.write_all(b"answer").unwrap();
        client.read_exact(&mut [0; 6]).unwrap();
        let reading = readings.read(socket, Nanos(5), Nanos(7)).unwrap();
        assert!(!readings.is_opened_late() && reading.is_acknowledged);
        assert_eq!(reading.retransmits, 0);
        assert!(
            reading
                .network_ns
                .is_some_and(|ns| (1..100_000_000).contains(&ns))
        );
    }

    #[test]
    fn what_the_peer_has_no_room_for_is_not_acknowledged() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_server, _) = listener.accept().unwrap();
        client.set_nonblocking(true).unwrap();
        while client.write(&[0; 1 << 12]).is_ok() {}
        let socket = Some(client.as_raw_fd());
        let reading = TcpReadings::begin(socket).read(socket, Nanos(1), Nanos(2));
        assert!(!reading.unwrap().is_acknowledged);
    }

    #[test]
    fn a_retransmission_counts_for_every_request_that_was_under_way() {
        let mut readings = TcpReadings {
            risen: (Nanos(70), 2),
            ..TcpReadings::default()
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut read = |sent| {
            readings
                .read(Some(client.as_raw_fd()), Nanos(sent), Nanos(90))
                .unwrap()
                .retransmits
        };
        assert_eq!([read(60), read(70), read(71)], [2, 2, 0]);
    }

    #[test]
    fn what_is_no_tcp_socket_has_no_reading() {
        let (local, _) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut readings = TcpReadings::begin(Some(local.as_raw_fd()));
        for socket in [None, Some(local.as_raw_fd())] {
            assert_eq!(readings.read(socket, Nanos(0), Nanos(1)), None);
        }
    }

    proptest! {
        #[test]
        fn few_requests_are_slow_where_none_differs_much_and_each_that_waits_for_a_retransmission_is(
            base in 10_000..400_000_000_u64, jitter in prop::collection::vec(0..100_u64, 200..600),
        ) {
            let limit = SlowLimit::default();
            let mut slow = 0;
            for (n, percent) in jitter.iter().enumerate() {
                let ns = base + base * percent / 100;
                if n % 50 == 49 {
                    prop_assert!(limit.is_beyond(ns + 2 * base + 200_000_000), "{n}");
                } else {
                    slow += u32::from(limit.is_beyond(ns));
                }
            }
            prop_assert!(base > 100_000_000 || slow == 0, "{slow}");
        }
    }
}
