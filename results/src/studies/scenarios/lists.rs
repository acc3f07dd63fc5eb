//! The scenarios of each command as data: names, flags of `run`, published figures, and what a
//! pattern is elsewhere.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::show::text::decimal;

/// A list of scenarios, by its command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScenarioList {
    /// [`LADDER`].
    Ladder,
    /// [`PATTERNS`].
    Patterns,
}

impl ScenarioList {
    /// The scenarios.
    pub const fn scenarios(self) -> &'static [Scenario] {
        match self {
            Self::Ladder => &LADDER,
            Self::Patterns => &PATTERNS,
        }
    }

    /// The one with a number; none of a list of another version.
    pub(super) fn scenario(self, number: u8) -> Option<&'static Scenario> {
        self.scenarios().iter().find(|it| it.number == number)
    }

    /// The command, and the word for one of its scenarios.
    pub const fn words(self) -> [&'static str; 2] {
        match self {
            Self::Ladder => ["ladder", "rung"],
            Self::Patterns => ["patterns", "pattern"],
        }
    }

    /// Flags of all of them.
    pub const fn flags(self) -> &'static str {
        match self {
            Self::Ladder => "--target-profile article -d {d} --seed {seed}",
            Self::Patterns => "-d {d} --seed {seed}",
        }
    }
}

/// A scenario.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scenario {
    /// From 1, in order.
    pub number: u8,
    /// Its name, in a few words.
    pub name: &'static str,
    /// Its name where there is little room.
    pub short: &'static str,
    /// Flags of `run`, as typed, with placeholders such as `{cores}`.
    pub flags: &'static str,
    /// Published rate; none of a pattern.
    pub published: Option<Published>,
    /// Limit according to the author of that rate.
    pub published_limit: Option<&'static str>,
    /// The same in each of [`ELSEWHERE`]; empty of a rung.
    pub elsewhere: [&'static str; 4],
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
    [name, short]: [&'static str; 2],
    published: [f64; 2],
    limit: &'static str,
    flags: &'static str,
) -> Scenario {
    let [low_per_s, high_per_s] = published;
    Scenario {
        number,
        name,
        short,
        flags,
        published: Some(Published {
            low_per_s,
            high_per_s,
        }),
        published_limit: Some(limit),
        elsewhere: [""; 4],
    }
}

const fn pattern(
    number: u8,
    name: &'static str,
    flags: &'static str,
    elsewhere: [&'static str; 4],
) -> Scenario {
    Scenario {
        number,
        name,
        short: name,
        flags,
        published: None,
        published_limit: None,
        elsewhere,
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
pub const LADDER: [Scenario; 8] = [
    // One address is enough for six requests a second.
    rung(
        1,
        [
            "one after another, a new connection each",
            "one after another",
        ],
        [5.83; 2],
        "waiting",
        "-s 1 -c 1 --disable-keepalive",
    ),
    // Threads that block are processes with one request at a time: both wait in the kernel, and
    // share nothing.
    rung(
        2,
        [
            "20 blocking workers, a new connection each",
            "20 blocking workers",
        ],
        [44.8; 2],
        "context switches, handshakes",
        "-s 20 -c 20 --local-ips 127.64.0.0/16 --disable-keepalive",
    ),
    rung(
        3,
        [
            "async: 20 in flight, a new connection each",
            "async: 20 in flight",
        ],
        [184.0; 2],
        "connections",
        "-s 1 -c 20 --local-ips 127.64.0.0/16 --disable-keepalive",
    ),
    rung(
        4,
        ["connections kept: a pool of 20", "a pool of 20"],
        [282.0; 2],
        "20 in flight, times the latency",
        "-s 1 -c 20 --local-ips 127.64.0.0/16 --warmup {warmup}",
    ),
    rung(
        5,
        ["a pool of 80"; 2],
        [1_280.0; 2],
        "CPU of one core: one interpreter lock",
        "-s 1 -c 80 --local-ips 127.64.0.0/16 --warmup {warmup}",
    ),
    rung(
        6,
        ["10 processes, a pool of 80 in each", "10 processes of 80"],
        [10_000.0; 2],
        "CPU",
        "-s 10 -c 800 --local-ips 127.64.0.0/16 --warmup {warmup}",
    ),
    rung(
        7,
        ["as fast as the CPU goes"; 2],
        [15_000.0; 2],
        "CPU: 80 % of ten cores",
        "-s {cores} -c {most} --local-ips 127.64.0.0/16 --warmup {warmup}",
    ),
    // Twice the connections that the rate needs by Little's law: what holds it back is to be
    // its own choice.
    rung(
        8,
        ["slower by choice"; 2],
        [1_000.0, 2_000.0],
        "choice",
        "-s {cores} -c 160 --local-ips 127.64.0.0/16 --warmup {warmup} --rate 1500",
    ),
];

/// Where people write the patterns by hand; C are connections, R the rate. Go's are of its channels.
pub const ELSEWHERE: [&str; 4] = ["asyncio", "p-limit", "p-queue", "Go"];

/// The patterns of `patterns`: the ways in which field reports limit a crawl, from none at a time to
/// all cores. One process each but for the last, because waves need it, and so that memory and CPU
/// can be compared. A dash is what a library does not have.
pub const PATTERNS: [Scenario; 10] = [
    pattern(
        1,
        "one at a time",
        "-s 1 -c 1",
        [
            "await get(id) in a loop",
            "pLimit(1)",
            "{concurrency: 1}",
            "get(id) in a loop",
        ],
    ),
    pattern(
        2,
        "batches",
        "-s 1 -c {c} --arrivals waves",
        [
            "await gather(*batch)",
            "await Promise.all(batch)",
            "await queue.addAll(batch)",
            "a WaitGroup for each batch",
        ],
    ),
    pattern(
        3,
        "semaphore",
        "-s 1 -c {c}",
        [
            "Semaphore(C)",
            "pLimit(C)",
            "{concurrency: C}",
            "sem := make(chan struct{}, C)",
        ],
    ),
    pattern(
        4,
        "pool with bounded queue",
        "-s 1 -c {c} --rate {rate} --arrivals constant --queue {rate}",
        [
            "Queue(maxsize=R), C workers",
            "-",
            "await queue.onSizeLessThan(R)",
            "jobs := make(chan ID, R), C goroutines",
        ],
    ),
    pattern(
        5,
        "interval cap",
        "-s 1 -c {c} --rate '{rate} per 1s'",
        [
            "R tasks, then sleep until the next second",
            "-",
            "{intervalCap: R, interval: 1000}",
            "a ticker that fills a channel each second",
        ],
    ),
    pattern(
        6,
        "token bucket",
        "-s 1 -c {c} --rate {rate} --burst {rate}",
        [
            "aiolimiter's AsyncLimiter(R, 1)",
            "-",
            "-",
            "a ticker that sends to make(chan struct{}, R)",
        ],
    ),
    pattern(
        7,
        "even spacing",
        "-s 1 -c {c} --rate {rate}",
        [
            "await sleep(1/R) before each",
            "-",
            "{intervalCap: 1, interval: 1000/R}",
            "<-ticker.C before each",
        ],
    ),
    pattern(
        8,
        "open loop",
        "-s 1 -c {4c} --rate {rate} --arrivals constant",
        [
            "create_task() at each tick",
            "setInterval(get, 1000/R)",
            "{concurrency: Infinity, intervalCap: 1, interval: 1000/R}",
            "go get(id) at each tick",
        ],
    ),
    pattern(
        9,
        "adaptive",
        "-s 1 -c {4c} --adaptive",
        [
            "a semaphore that is resized by the results",
            "limit.concurrency = n, by the results",
            "queue.concurrency = n, by the results",
            "tokens added to a channel and taken out, by the results",
        ],
    ),
    pattern(
        10,
        "processes",
        "-s {processes} -c {c}",
        [
            "ProcessPoolExecutor, a loop in each",
            "cluster.fork(), a limit in each",
            "cluster.fork(), a queue in each",
            "- (goroutines use all cores)",
        ],
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
