//! What a seed stands for: a crawl, its target, and what happens to both.

use std::fmt::Write;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::Draw;

/// Streams of a connection, where there are any.
const STREAMS: u64 = 3;

/// A crawl and its sessions, drawn by a seed.
#[derive(Debug)]
pub(crate) struct Trial {
    pub(crate) seed: u64,
    pub(crate) kind: Kind,
    pub(crate) items: u64,
    /// Connections, over all shards.
    pub(crate) connections: u64,
    /// Flags of the crawl.
    pub(crate) flags: String,
    /// Flags of the target.
    pub(crate) target: String,
    /// KiB of the disk; none for as much as there is.
    pub(crate) disk: Option<u64>,
    pub(crate) sessions: Vec<Session>,
}

/// How a crawl is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One run.
    Plain,
    /// A saved crawl, resumed in each session but the first.
    Saved,
    /// Parts, of which at most so many run at once.
    Parts { nodes: u64, slots: u64 },
}

/// One command, or the commands of all parts, and what happens to them.
#[derive(Debug)]
pub(crate) struct Session {
    /// A limit as `ulimit` sets it.
    pub(crate) limit: Option<String>,
    /// Processes that its user may have.
    pub(crate) processes: Option<u64>,
    /// Seconds for which its machine has been up, beyond those of this one.
    pub(crate) uptime_s: u64,
    /// Steps of the calendar clock of each command.
    pub(crate) steps: Vec<Step>,
    pub(crate) incidents: Vec<Incident>,
    /// What happens to a file of the saved crawl afterwards.
    pub(crate) damage: Option<Damage>,
}

/// What happens, and when: since the start of the session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Incident {
    pub(crate) at: Duration,
    pub(crate) victim: Victim,
    pub(crate) act: Act,
}

/// A step of the calendar clock of a command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) at: Duration,
    /// Number of the command, taken modulo those that there are.
    pub(crate) command: u64,
    /// How far it is from the true time then.
    pub(crate) by_s: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Victim {
    /// A shard; the number is taken modulo those that are there.
    Shard(u64),
    /// A supervisor, which holds the slot of its part.
    Supervisor(u64),
    /// A process of the target.
    TargetProcess(u64),
    /// All processes of the target.
    Target,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    Signal(Signal),
    /// Stop it, and let it go on after this time.
    Freeze(Duration),
}

/// Damage of a file of a saved crawl; the numbers are taken modulo files, bytes and bits.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Damage {
    Truncate { file: u64, length: u64 },
    Flip { file: u64, byte: u64, bit: u8 },
}

impl Draw {
    fn from(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    fn one<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.next() % all.len() as u64).unwrap()]
    }

    fn happens(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    fn time(&mut self, low_ms: u64, high_ms: u64) -> Duration {
        Duration::from_millis(self.from(low_ms, high_ms))
    }
}

impl Trial {
    /// Draw it. `{proxy}` stands for the target as a proxy.
    pub(crate) fn of(seed: u64) -> Self {
        let mut draw = Draw(seed);
        let kind = match draw.from(0, 9) {
            0 | 1 => Kind::Plain,
            2..=6 => Kind::Saved,
            _ => {
                let nodes = draw.from(2, 4);
                let slots = draw.from(1, nodes);
                Kind::Parts { nodes, slots }
            }
        };
        let connections = draw.one(&[4, 6, 8, 16, 32]);
        let items = draw.from(300, 6_000);
        let flags = flags(&mut draw, kind, connections);
        let sessions = match kind {
            Kind::Plain | Kind::Parts { .. } => 1,
            Kind::Saved => draw.from(1, 4),
        };
        let target = target_flags(&mut draw);
        let disk = draw.happens(15).then(|| draw.from(24, 600));
        let mut sessions: Vec<Session> = (0..sessions).map(|_| session(&mut draw, kind)).collect();
        // Drawn for themselves, so that seeds stay what they were.
        let mut draw = Draw(!seed);
        for session in &mut sessions {
            session.surround(&mut draw);
        }
        Self {
            seed,
            kind,
            items,
            connections,
            flags,
            target,
            disk,
            sessions,
        }
    }

    /// Requests under way at most, over all shards.
    pub(crate) fn in_flight(&self) -> u64 {
        let is_multiplexed = self.flags.contains("--streams");
        self.connections * if is_multiplexed { STREAMS } else { 1 }
    }

    /// True if nothing happens to the target.
    pub(crate) fn spares_target(&self) -> bool {
        let mut incidents = self.sessions.iter().flat_map(|session| &session.incidents);
        incidents.all(|incident| !incident.victim.is_of_target())
    }
}

impl Session {
    /// One in which nothing happens.
    pub(crate) const fn calm() -> Self {
        Self {
            limit: None,
            processes: None,
            uptime_s: 0,
            steps: Vec::new(),
            incidents: Vec::new(),
            damage: None,
        }
    }

    fn surround(&mut self, draw: &mut Draw) {
        self.processes = draw.happens(10).then(|| draw.from(1, 5));
        if draw.happens(25) {
            self.uptime_s = draw.one(&[1, 100, 86_400, 4_000_000]);
        }
        if draw.happens(25) {
            self.steps = (0..draw.from(1, 3)).map(|_| clock_step(draw)).collect();
        }
    }
}

fn clock_step(draw: &mut Draw) -> Step {
    let by_s = draw.one(&[1, 2, 30, 600, 86_400, 40_000_000]);
    Step {
        at: draw.time(0, 900),
        command: draw.next(),
        by_s: if draw.happens(50) { by_s } else { -by_s },
    }
}

impl Victim {
    pub(crate) fn is_of_target(self) -> bool {
        matches!(self, Self::TargetProcess(_) | Self::Target)
    }
}

fn flags(draw: &mut Draw, kind: Kind, connections: u64) -> String {
    let slots = match kind {
        Kind::Parts { slots, .. } => slots,
        Kind::Plain | Kind::Saved => 1,
    };
    // Each shard of a part needs a connection, and a request of the burst, of its slot's share.
    let shards = draw.from(1, 3).min(connections / slots);
    let mut flags = format!("-c {connections} --shards {shards} --timeout 1s --max-pause 1s");
    let mut add = |flag: &str| {
        flags.push(' ');
        flags.push_str(flag);
    };
    match draw.from(0, 5) {
        0 => add(&format!("--http 2 --streams {STREAMS}")),
        1 => add("--proxy {proxy}"),
        2 => add("--disable-keepalive"),
        _ => {}
    }
    if draw.happens(40) {
        add(&format!(
            "--rate {} --burst {}",
            draw.from(300, 3_000),
            draw.from(6, 20).max(shards * slots)
        ));
    }
    if draw.happens(60) {
        add(&format!(
            "--retries {} --backoff 5ms,100ms",
            draw.from(1, 4)
        ));
    }
    if draw.happens(20) {
        add("--shuffle");
    }
    add(&format!(
        "--on-throttle {}",
        draw.one(&["honor", "count", "ignore"])
    ));
    if kind == Kind::Saved || matches!(kind, Kind::Parts { .. }) && draw.happens(60) {
        add(&format!(
            "--save-bodies {}",
            draw.one(&["good", "all", "none"])
        ));
        add(&format!("--durability {}", draw.one(&["process", "power"])));
    }
    flags
}

fn target_flags(draw: &mut Draw) -> String {
    let mut flags = format!("--http auto --processes {}", draw.from(1, 2));
    flags.push_str(draw.one(&[
        "",
        " --latency 1ms",
        " --latency 4ms",
        " --latency lognormal:3ms,1",
    ]));
    if draw.happens(40) {
        let limits = [
            "1500/s:burst=50",
            "bucket:800/s:retry=none",
            "concurrency:6",
            "fixed:900/s",
        ];
        flags.push_str(" --limit ");
        flags.push_str(draw.one(&limits));
    }
    for fault in [
        "error",
        "drop",
        "reset",
        "truncated",
        "long-length",
        "garbage",
        "close",
        "drip",
    ] {
        if draw.happens(15) {
            let _ = write!(flags, " --fault {fault}:0.0{}", draw.from(1, 4));
        }
    }
    flags
}

fn session(draw: &mut Draw, kind: Kind) -> Session {
    let limits = [
        "-n 12",
        "-n 20",
        "-n 40",
        "-f 8",
        "-f 64",
        "-f 300",
        // A program with all features takes 62 MB of address space before it begins.
        "-v 80000",
        "-v 140000",
        "-v 400000",
    ];
    let incidents = draw.from(0, 5);
    Session {
        limit: draw.happens(15).then(|| draw.one(&limits).to_owned()),
        incidents: (0..incidents).map(|_| incident(draw)).collect(),
        damage: (kind == Kind::Saved && draw.happens(25)).then(|| damage(draw)),
        ..Session::calm()
    }
}

fn incident(draw: &mut Draw) -> Incident {
    let number = draw.next();
    let victim = match draw.from(0, 9) {
        0..=3 => Victim::Shard(number),
        4..=6 => Victim::Supervisor(number),
        7 | 8 => Victim::TargetProcess(number),
        _ => Victim::Target,
    };
    let act = match (victim, draw.from(0, 5)) {
        (_, 0) => Act::Freeze(draw.time(20, 1_500)),
        (Victim::Supervisor(_), 1) => Act::Signal(Signal::SIGINT),
        (Victim::Supervisor(_), 2) => Act::Signal(Signal::SIGTERM),
        _ => Act::Signal(Signal::SIGKILL),
    };
    Incident {
        at: draw.time(0, 900),
        victim,
        act,
    }
}

fn damage(draw: &mut Draw) -> Damage {
    let file = draw.next();
    if draw.happens(40) {
        return Damage::Truncate {
            file,
            length: draw.next(),
        };
    }
    Damage::Flip {
        file,
        byte: draw.next(),
        bit: u8::try_from(draw.from(0, 7)).unwrap(),
    }
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Saved => "saved",
            Self::Parts { .. } => "parts",
        }
    }
}
