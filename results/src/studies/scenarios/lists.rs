//! The scenarios of each command. A list is data: names, flags of `run`, published figures.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{CLIMB, SIDE_BY_SIDE, ScenarioFigure};
use crate::show::text::decimal;

/// A list, by its command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListName {
    /// [`LADDER`].
    Ladder,
    /// [`PATTERNS`].
    Patterns,
}

impl ListName {
    /// Return the list.
    #[must_use]
    pub const fn list(self) -> &'static ScenarioList {
        match self {
            Self::Ladder => &LADDER,
            Self::Patterns => &PATTERNS,
        }
    }
}

/// A list of scenarios.
#[derive(Debug)]
pub struct ScenarioList {
    /// One of them, in a word.
    pub noun: &'static str,
    /// Title of the plot.
    pub title: &'static str,
    /// Flags of all of them.
    pub flags: &'static str,
    /// The scenarios.
    pub scenarios: &'static [Scenario],
    /// Figures that are shown.
    pub(crate) figures: &'static [ScenarioFigure],
    /// Differences from the published crawl by design, with the scenarios that they concern.
    pub notes: &'static [(&'static [u8], &'static str)],
}

/// A scenario.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scenario {
    /// From 1, in the order of the list.
    pub number: u8,
    /// Its name, in a few words.
    pub name: &'static str,
    /// Flags of `run`, as typed, with placeholders such as `{cores}`.
    pub flags: &'static str,
    /// Published rate.
    pub published: Option<Published>,
    /// Limit according to the author of that rate.
    pub published_limit: Option<&'static str>,
}

/// Good responses per second as they were published: a figure, or from one to another.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// The least.
    pub low_per_s: f64,
    /// The most; the same for a single figure.
    pub high_per_s: f64,
}

impl Published {
    /// In the middle of what was published, as ratios have it: the geometric mean.
    #[must_use]
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
        published: Some(Published {
            low_per_s,
            high_per_s,
        }),
        published_limit: Some(limit),
    }
}

const fn pattern(number: u8, name: &'static str, flags: &'static str) -> Scenario {
    Scenario {
        number,
        name,
        flags,
        published: None,
        published_limit: None,
    }
}

/// The rungs of `ladder`, from the bottom: one crawl of IDs over the Internet, by its author's
/// figures. The sixth was published as ten processes of 1,011/s each, and called 10,000/s.
///
/// The bundled target allows 20 requests a second from each source address, as the published one
/// did, and the published crawl had the addresses of a /80 of IPv6. A kept connection makes one
/// request in 63 ms, 16 a second, so an address of its own is enough for each, and 65,534 of them are
/// as many as the target's limiter has room for. Where each request has a new connection, it has the
/// next address.
pub const LADDER: ScenarioList = ScenarioList {
    noun: "rung",
    title: "Published and measured rates",
    flags: "--target-profile article -d {d} --seed {seed}",
    scenarios: &[
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
    ],
    figures: CLIMB,
    notes: &[
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
    ],
};

/// The patterns: the ways in which field reports limit a crawl. One shard each: waves need it, and
/// memory is to be compared.
pub const PATTERNS: ScenarioList = ScenarioList {
    noun: "pattern",
    title: "Throughput, p99, throttling, requests in flight and memory of each pattern",
    flags: "-s 1 -d {d} --seed {seed}",
    scenarios: &[
        pattern(1, "one at a time", "-c 1"),
        pattern(2, "waves", "-c {c} --arrivals waves"),
        pattern(3, "semaphore", "-c {c}"),
        pattern(4, "interval cap", "-c {c} --rate '{rate} per 1s'"),
        pattern(5, "token bucket", "-c {c} --rate {rate} --burst {rate}"),
        pattern(6, "even spacing", "-c {c} --rate {rate}"),
        pattern(7, "open loop", "-c {4c} --rate {rate} --arrivals constant"),
        pattern(
            8,
            "bounded queue",
            "-c {c} --rate {rate} --arrivals constant --queue {rate}",
        ),
        pattern(9, "adaptive", "-c {4c} --adaptive"),
    ],
    figures: SIDE_BY_SIDE,
    notes: &[],
};
