//! Receive time stamps of the kernel: how long an answer lay unread in this client, measured on a
//! sample of the answers.
//!
//! The kernel stamps each TCP segment when it arrives. A read with `recvmsg` returns the stamp of
//! the last segment that it read (`SO_TIMESTAMPNS`, socket(7)). Used by plain TCP streams; TLS and
//! HTTP/2 read elsewhere and have none. It must not know what a response means.

use std::cell::Cell;
use std::io::{self, IoSliceMut};
use std::os::fd::AsRawFd;
use std::time::{Duration, UNIX_EPOCH};

use clap::ValueEnum;
use crawlmark_harness::clock::{duration_ns, wall_time};
use nix::cmsg_space;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use tokio::net::TcpStream;

/// Answers whose receive time stamps are read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ReceiveStamps {
    /// Every answer.
    All,
    /// One answer in 64.
    #[default]
    Sampled,
    /// None, and the kernel is not asked for stamps.
    Off,
}

/// Chooses the answers of a shard whose stamps and connections are read.
#[derive(Debug, Default)]
pub(crate) struct Sampler {
    answers: Cell<u32>,
}

/// Number of answers of which one is sampled.
const ONE_IN: u32 = 64;

/// 2^32 divided by the golden ratio. Multiples of it, modulo 2^32, are spread evenly, and those of
/// every n-th answer nearly so: the sample misses no connection, however regularly they take turns.
const STEP: u32 = 0x9E37_79B9;

impl Sampler {
    /// True if the next answer is of the sample.
    #[inline]
    pub(crate) fn takes_next(&self) -> bool {
        self.answers.replace(self.answers.get().wrapping_add(STEP)) < u32::MAX / ONE_IN
    }
}

/// Memory for the stamp of a read; empty of a socket that has none.
#[derive(Debug)]
pub(crate) struct StampSpace(Vec<u8>);

impl StampSpace {
    /// Have the kernel stamp what arrives on `stream`, unless stamps are off. A kernel that refuses
    /// gives none.
    pub(crate) fn of(stream: &TcpStream, stamps: ReceiveStamps) -> Self {
        let is_stamped = stamps != ReceiveStamps::Off
            && setsockopt(stream, sockopt::ReceiveTimestampns, &true).is_ok();
        Self(if is_stamped {
            cmsg_space!(TimeSpec)
        } else {
            Vec::new()
        })
    }

    /// Receive what the socket has, as `recvmsg` does with these flags. Return the number of bytes,
    /// and how long the last segment of them lay unread, ns; none without a stamp.
    ///
    /// Stamps are in calendar time: if that is set back between the stamp and the read, there is
    /// none.
    pub(crate) fn receive(
        &mut self,
        socket: &impl AsRawFd,
        part: &mut [u8],
        flags: MsgFlags,
    ) -> io::Result<(usize, Option<u64>)> {
        let mut slices = [IoSliceMut::new(part)];
        let stamps = Some(&mut self.0[..]);
        let received = recvmsg::<()>(socket.as_raw_fd(), &mut slices, stamps, flags)?;
        let stamp = received.cmsgs().ok().and_then(|mut messages| {
            messages.find_map(|message| match message {
                ControlMessageOwned::ScmTimestampns(stamp) => {
                    Some(UNIX_EPOCH + Duration::from(stamp))
                }
                _ => None,
            })
        });
        let unread = stamp.and_then(|stamp| wall_time().duration_since(stamp).ok());
        Ok((received.bytes, unread.map(duration_ns)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn one_answer_in_64_is_sampled_and_of_every_nth_answer_as_well(n in 1..200_u32, first in 0..200_u32) {
            let sampler = Sampler::default();
            let sampled: Vec<bool> = (0..n * 6_400 + first).map(|_| sampler.takes_next()).collect();
            let count = |step: u32| sampled.iter().skip(first as usize).step_by(step as usize).filter(|is| **is).count();
            let all = sampled.len().div_ceil(ONE_IN as usize);
            prop_assert!(sampled.iter().filter(|is| **is).count().abs_diff(all) <= 3);
            // Of 6,400 answers that are n apart, 100 on average: at least a quarter of that, found
            // by trying all n and starts here.
            prop_assert!((25..=157).contains(&count(n)), "{} of 6,400", count(n));
        }
    }
}
