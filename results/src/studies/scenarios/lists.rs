//! The scenarios as data: names, flags of `run`, published figures.

use std::fmt;

use serde::Serialize;

use crate::show::text::decimal;

/// A scenario.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scenario {
    /// From 1, in order.
    pub number: u8,
    /// Its name, in a few words.
    pub name: &'static str,
    /// Flags of `run`, as typed, with placeholders such as `{cores}`.
    pub flags: &'static str,
    /// Published rate.
    pub published: Published,
    /// Limit according to the author of that rate.
    pub published_limit: &'static str,
}

/// Good responses per second as they were published: a figure, or from one to another.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Published {
    /// The least.
    pub low_per_s: f64,
    /// The most; the same for a single figure.
    pub high_per_s: f64,
}

impl Published {
    /// In the middle of what was published, as ratios have it: the geometric mean.
    pub fn middle_per_s(self) -> f64 {
        (self.low_per_s * self.high_per_s).sqrt()
    }
}

/// `5.83/s`, `1,000-2,000/s`.
impl fmt::Display for Published {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.low_per_s < self.high_per_s {
            write!(f, "{}-", decimal(self.low_per_s))?;
        }
        write!(f, "{}/s", decimal(self.high_per_s))
    }
}

const fn rung(
    number: u8,
    name: &'static str,
    published: [f64; 2],
    limit: &'static str,
    flags: &'static str,
) -> Scenario {
    let [low_per_s, high_per_s] = published;
    Scenario {
        number,
        name,
        flags,
        published: Published {
            low_per_s,
            high_per_s,
        },
        published_limit: limit,
    }
}

/// Flags of all of them.
pub const FLAGS: &str = "--target-profile article -d {d} --seed {seed}";

/// The rungs of `ladder`, from the bottom: one crawl of IDs over the Internet, by its author's
/// figures. The sixth was published as ten processes of 1,011/s each, and called 10,000/s.
///
/// The bundled target allows 20 requests a second from each source address, as the published one
/// did, and the published crawl had the addresses of a /80 of IPv6. A kept connection makes one
/// request in 63 ms, 16 a second, so an address of its own is enough for each, and 65,534 of them are
/// as many as the target's limiter has room for. Where each request has a new connection, it has the
/// next address.
pub const SCENARIOS: [Scenario; 8] = [
    // One address is enough for six requests a second.
    rung(
        1,
        "one after another, a new connection each",
        [5.83; 2],
        "waiting",
        "-s 1 -c 1 --disable-keepalive",
    ),
    // Threads that block are processes with one request at a time: both wait in the kernel, and
    // share nothing.
    rung(
        2,
        "20 blocking workers, a new connection each",
        [44.8; 2],
        "context switches, handshakes",
        "-s 20 -c 20 --local-ips 127.64.0.0/16 --disable-keepalive",
    ),
    rung(
        3,
        "async: 20 in flight, a new connection each",
        [184.0; 2],
        "connections",
        "-s 1 -c 20 --local-ips 127.64.0.0/16 --disable-keepalive",
    ),
    rung(
        4,
        "connections kept: a pool of 20",
        [282.0; 2],
        "20 in flight, times the latency",
        "-s 1 -c 20 --local-ips 127.64.0.0/16 --warmup {warmup}",
    ),
    rung(
        5,
        "a pool of 80",
        [1_280.0; 2],
        "CPU of one core: one interpreter lock",
        "-s 1 -c 80 --local-ips 127.64.0.0/16 --warmup {warmup}",
    ),
    rung(
        6,
        "10 processes, a pool of 80 in each",
        [10_000.0; 2],
        "CPU",
        "-s 10 -c 800 --local-ips 127.64.0.0/16 --warmup {warmup}",
    ),
    rung(
        7,
        "as fast as the CPU goes",
        [15_000.0; 2],
        "CPU: 80 % of ten cores",
        "-s {cores} -c {most} --local-ips 127.64.0.0/16 --warmup {warmup}",
    ),
    // Twice the connections that the rate needs by Little's law: what holds it back is to be
    // its own choice.
    rung(
        8,
        "slower by choice",
        [1_000.0, 2_000.0],
        "choice",
        "-s {cores} -c 160 --local-ips 127.64.0.0/16 --warmup {warmup} --rate 1500",
    ),
];

/// Differences from the published crawl by design, with the scenarios that they concern.
pub const NOTES: [(&[u8], &str); 4] = [
    (
        &[1, 2, 3, 4, 5, 6, 7, 8],
        "no network: target and client share this machine's cores, response delays are simulated, and no packet is lost, \
             or delayed by a link of limited bandwidth",
    ),
    (
        &[1, 2, 3],
        "a simulated handshake: the target holds the first response of each connection as much longer as TCP and TLS \
             would take over a network (100 ms unless --target-handshake is given); nothing is encrypted",
    ),
    (
        &[2, 3, 4, 5],
        "no interpreter lock: in the published crawl, all threads and tasks of a process shared one, and waited for \
             each other; here a process spends its CPU on requests alone",
    ),
    (
        &[2],
        "no local proxy: in the published crawl, a proxy chose a random IPv6 address for each request; here this client \
             uses its 65,534 loopback addresses in turn, and its 20 workers are processes, not threads",
    ),
];
