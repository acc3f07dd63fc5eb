//! How the target treats connections, beside the caps of `limit`: the requests that each may carry,
//! its bandwidth, and how many are accepted.
//!
//! It must not count or wait: `server` does.

use crate::text::from_text;
use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};

/// Requests of one HTTP/1.1 connection, after which the target closes it. Written `100`, or
/// `100:silent` for a target that does not announce it with `Connection: close`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// Number of requests.
    pub requests: NonZeroU32,
    /// True if the last response does not announce the end.
    pub is_silent: bool,
}

from_text!(
    KeepAlive,
    "number of requests",
    "1 or more, as in 100, or 100:silent for a close without an announcement"
);

impl KeepAlive {
    fn read(text: &str) -> Option<Self> {
        let requests = text.strip_suffix(":silent");
        Some(Self {
            requests: requests.unwrap_or(text).parse().ok()?,
            is_silent: requests.is_some(),
        })
    }
}

impl fmt::Display for KeepAlive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = if self.is_silent { ":silent" } else { "" };
        write!(f, "{}{suffix}", self.requests)
    }
}

/// Connections that are open in one process at the same time: the next one is accepted when one of
/// them has ended. Written `1`, or `1:8` with the length of the queue of the others, which the kernel
/// caps at `net.core.somaxconn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accept {
    pub(crate) open: NonZeroU32,
    pub(crate) queue: Option<u16>,
}

from_text!(
    Accept,
    "number of connections",
    "1 or more, as in 1, or 1:8 with a queue of 0 to 65535"
);

impl Accept {
    fn read(text: &str) -> Option<Self> {
        let (open, queue) = match text.split_once(':') {
            Some((open, queue)) => (open, Some(queue.parse().ok()?)),
            None => (text, None),
        };
        let open = open.parse().ok()?;
        Some(Self { open, queue })
    }
}

impl fmt::Display for Accept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.open.fmt(f)?;
        self.queue.map_or(Ok(()), |queue| write!(f, ":{queue}"))
    }
}

/// Bytes per second that a connection carries in each direction. Written `1MB/s`, `500kB/s` or
/// `8Mbit/s`, in powers of 1000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bandwidth(NonZeroU64);

/// Units, and the bytes of each; texts are written in the first that divides them.
const UNITS: [(&str, u64); 7] = [
    ("GB/s", 1_000_000_000),
    ("MB/s", 1_000_000),
    ("kB/s", 1_000),
    ("Gbit/s", 125_000_000),
    ("Mbit/s", 125_000),
    ("kbit/s", 125),
    ("B/s", 1),
];

/// The highest that is accepted, 100 Gbit/s.
const MAX_BANDWIDTH: u64 = 12_500_000_000;

/// Payload of a packet of 1,500 bytes.
const SEGMENT: u64 = 1_460;

/// Most bytes of a piece.
const MAX_PIECE: u64 = 64 << 10;

const NS_PER_S: u64 = 1_000_000_000;

from_text!(
    Bandwidth,
    "bandwidth",
    "1B/s to 100Gbit/s with a unit, as in 500kB/s, 1MB/s or 8Mbit/s"
);

impl Bandwidth {
    fn read(text: &str) -> Option<Self> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let (_, bytes) = UNITS.iter().find(|(name, _)| *name == unit)?;
        let bytes_per_s = number.parse::<u64>().ok()?.checked_mul(*bytes)?;
        NonZeroU64::new(bytes_per_s)
            .filter(|bytes_per_s| bytes_per_s.get() <= MAX_BANDWIDTH)
            .map(Self)
    }

    /// Return the most bytes that arrive together: a millisecond's worth, at least a packet.
    pub(crate) fn piece(self) -> usize {
        let piece = (self.0.get() / 1_000).clamp(SEGMENT, MAX_PIECE);
        usize::try_from(piece).unwrap_or(usize::MAX)
    }

    /// Return the time that so many bytes take.
    fn time_ns(self, bytes: usize) -> u64 {
        let ns = (bytes as u128 * u128::from(NS_PER_S)).div_ceil(self.0.get().into());
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, bytes) = UNITS
            .iter()
            .find(|(_, bytes)| self.0.get().is_multiple_of(*bytes))
            .unwrap_or(&("B/s", 1));
        write!(f, "{}{unit}", self.0.get() / bytes)
    }
}

/// One direction of a connection with a bandwidth: a queue that bytes leave one after the other.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    /// When all bytes before have arrived.
    free_ns: u64,
    /// True if more bytes were waiting behind them.
    is_busy: bool,
}

/// What the timer and the process may be late without slowing down a busy link: the scheduler's
/// delays, not those of a reader that makes no room.
const LATE_NS: u64 = 10_000_000;

impl Lane {
    /// Return when the first piece of the bytes that are there at `now_ns` has arrived.
    pub(crate) fn due_ns(&mut self, bandwidth: Bandwidth, now_ns: u64, there: usize) -> u64 {
        let late_ns = if self.is_busy { LATE_NS } else { 0 };
        let begin_ns = self.free_ns.max(now_ns.saturating_sub(late_ns));
        let piece = bandwidth.piece();
        self.free_ns = begin_ns.saturating_add(bandwidth.time_ns(there.min(piece)));
        self.is_busy = there >= piece;
        self.free_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_link_is_as_fast_as_it_says_and_never_faster(
            bytes_per_s in 1_000_u64..5_000_000, late_ns in 0_u64..200_000,
            bytes in 2_000_usize..100_000, idle_ns in 0_u64..10_000_000_000,
        ) {
            let bandwidth = Bandwidth(NonZeroU64::new(bytes_per_s).unwrap());
            // The last piece is no full one, and no piece takes less than the timer is late.
            let bytes = bytes / bandwidth.piece() * bandwidth.piece() + 1_000;
            let (mut lane, mut now_ns) = (Lane::default(), NS_PER_S);
            for _ in 0..3 {
                let least_ns = now_ns + bandwidth.time_ns(bytes);
                let mut there = bytes;
                while there > 0 {
                    now_ns = lane.due_ns(bandwidth, now_ns, there) + late_ns;
                    there -= there.min(bandwidth.piece());
                }
                let ended_ns = now_ns - late_ns;
                prop_assert!((least_ns..least_ns + 100).contains(&ended_ns));
                now_ns += idle_ns;
            }
        }
    }

    #[test]
    fn a_reader_that_makes_no_room_gets_no_more_at_once_later() {
        let bandwidth: Bandwidth = "1MB/s".parse().unwrap();
        let mut lane = Lane::default();
        lane.due_ns(bandwidth, NS_PER_S, 100_000);
        let due_ns = lane.due_ns(bandwidth, 3 * NS_PER_S, 98_540);
        assert_eq!(due_ns, 3 * NS_PER_S - LATE_NS + 1_460_000);
    }

    #[test]
    fn a_bandwidth_is_read_with_its_unit_and_written_with_the_largest() {
        for (text, written) in [
            ("1MB/s", "1MB/s"),
            ("1500kB/s", "1500kB/s"),
            ("8Mbit/s", "1MB/s"),
            ("1kbit/s", "1kbit/s"),
            ("999B/s", "999B/s"),
            ("100Gbit/s", "12500MB/s"),
        ] {
            assert_eq!(text.parse::<Bandwidth>().unwrap().to_string(), written);
        }
        for wrong in [
            "",
            "1",
            "1MB",
            "0B/s",
            "1mb/s",
            "1.5MB/s",
            "-1B/s",
            "101Gbit/s",
            "1 MB/s",
        ] {
            assert!(wrong.parse::<Bandwidth>().is_err(), "{wrong}");
        }
        let pieces =
            ["1B/s", "10MB/s", "1GB/s"].map(|text| text.parse::<Bandwidth>().unwrap().piece());
        assert_eq!(pieces, [1_460, 10_000, 65_536]);
    }

    #[test]
    fn texts_are_read_as_they_are_written() {
        for text in ["1", "100", "100:silent"] {
            assert_eq!(text.parse::<KeepAlive>().unwrap().to_string(), text);
        }
        for text in ["1", "64:0", "1:8"] {
            assert_eq!(text.parse::<Accept>().unwrap().to_string(), text);
        }
        for wrong in ["", "0", "0:silent", "1:loud", "1:-1", "1:65536", ":8"] {
            assert!(wrong.parse::<KeepAlive>().is_err(), "{wrong}");
            assert!(wrong.parse::<Accept>().is_err(), "{wrong}");
        }
    }
}
