//! The rounds: who runs, in which order, and what is noted of each run.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::arguments::Arguments;
use crate::clients::{Counted, Load, PEERS, Peer};
use crate::crawlmark::{self, Own, Report};
use crate::error::Error;
use crate::place::{Places, in_path};
use crate::process::{Finished, Signals, run};
use crate::say;
use crate::target::Target;

/// Duration of the runs that only look at memory, s.
const FOOTPRINT_S: u32 = 2;

/// Measured program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Who {
    /// A client of the target.
    Client(&'static str),
    /// A server, driven by wrk.
    Server(&'static str),
}

impl Who {
    /// Return the name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Client(name) | Self::Server(name) => name,
        }
    }
}

/// One client, or one server, in one round.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Run {
    /// From 1.
    pub(crate) round: u32,
    /// Measured client or server.
    #[serde(flatten)]
    pub(crate) who: Who,
    /// Requests that ended.
    pub(crate) requests: u64,
    /// Rate of these requests per second, by the client's own clock.
    pub(crate) requests_per_s: f64,
    /// Those of the requests that had no good response.
    pub(crate) failed: u64,
    /// CPU of a client and its children, from their start to their end, or of a server in the meantime; per request.
    pub(crate) cpu_us_per_request: f64,
    /// The part of it in user mode.
    pub(crate) cpu_user_us_per_request: f64,
    /// Figures of crawlmark alone.
    #[serde(flatten)]
    pub(crate) own: OwnFigures,
}

/// Figures that only crawlmark reports; absent from the runs of others.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct OwnFigures {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) shard_max_rss_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) supervisor_cpu_share: Option<f64>,
}

impl From<Own> for OwnFigures {
    fn from(own: Own) -> Self {
        Self { shard_max_rss_bytes: own.shard_max_rss_bytes, supervisor_cpu_share: Some(own.supervisor_cpu_share) }
    }
}

/// Resources that crawlmark needs beside CPU.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Footprint {
    /// Largest resident set of the shard over the rounds.
    pub(crate) shard_max_rss_bytes: Option<u64>,
    /// Largest resident set of the shard when it crawls a thousand IDs.
    pub(crate) thousand_ids_max_rss_bytes: Option<u64>,
    /// Largest resident set of the shard when it has a thousand million IDs before it.
    pub(crate) billion_ids_max_rss_bytes: Option<u64>,
    /// Median share of a CPU that the supervisor used.
    pub(crate) supervisor_cpu_share: Option<f64>,
}

/// Client that can send the load.
#[derive(Debug, Clone)]
enum Client {
    Crawlmark,
    Peer(&'static Peer, PathBuf),
}

impl Client {
    const fn name(&self) -> &'static str {
        match self {
            Self::Crawlmark => crawlmark::NAME,
            Self::Peer(peer, _) => peer.name,
        }
    }
}

/// Everything that stays the same from round to round.
#[derive(Debug)]
pub(crate) struct Bench<'a> {
    /// Arguments of the bench.
    pub(crate) arguments: &'a Arguments,
    /// CPUs of the target and the clients.
    pub(crate) places: &'a Places,
    /// Target that all are measured on.
    pub(crate) target: &'a Target,
    signals: &'a Signals,
    clients: Vec<Client>,
    missing: Vec<&'static str>,
    unusable: Vec<&'static str>,
}

impl<'a> Bench<'a> {
    /// Looks for the peers.
    pub(crate) fn new(arguments: &'a Arguments, places: &'a Places, target: &'a Target, signals: &'a Signals) -> Self {
        let mut clients = vec![Client::Crawlmark];
        let mut missing = Vec::new();
        for peer in &PEERS {
            if !arguments.over.is_for(peer) {
                continue;
            }
            if !arguments.peers.is_empty() && !arguments.peers.iter().any(|name| name == peer.name) {
                continue;
            }
            match in_path(peer.program()) {
                Some(program) => clients.push(Client::Peer(peer, program)),
                None => missing.push(peer.name),
            }
        }
        for name in &missing {
            say(&format!("{name}: not found: skipped"));
        }
        Self { arguments, places, target, signals, clients, missing, unusable: Vec::new() }
    }

    /// Peers that are not installed.
    pub(crate) fn missing(&self) -> &[&'static str] {
        &self.missing
    }

    /// Peers that are installed and could not run.
    pub(crate) fn unusable(&self) -> &[&'static str] {
        &self.unusable
    }

    /// One short run each that is not counted: the target's memory is touched, and a peer that cannot run, or is
    /// another program of the same name, is found out before it spoils a round.
    pub(crate) fn warm_up(&mut self) -> Result<(), Error> {
        for client in self.clients.clone() {
            say(&format!("warm-up: {}", client.name()));
            match self.one(&client, 0, 1) {
                Ok(_) => {}
                Err(error) if error.is_the_programs() && !matches!(client, Client::Crawlmark) => {
                    say(&format!("skipped: {error}"));
                    self.clients.retain(|other| other.name() != client.name());
                    self.unusable.push(client.name());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// All rounds.
    pub(crate) fn rounds(&self) -> Result<Vec<Run>, Error> {
        let Arguments { rounds, seconds, seed, .. } = *self.arguments;
        let mut random = Random(seed);
        let mut runs = Vec::new();
        for round in 1..=rounds {
            let mut order = self.clients.clone();
            random.shuffle(&mut order);
            for client in &order {
                say(&format!("round {round} of {rounds}: {}", client.name()));
                runs.push(self.one(client, round, seconds)?);
            }
        }
        Ok(runs)
    }

    /// Memory and the supervisor's CPU: from the rounds, and from two runs that differ in their IDs alone.
    pub(crate) fn footprint(&self, runs: &[Run]) -> Result<Footprint, Error> {
        let shares = runs.iter().filter_map(|run| run.own.supervisor_cpu_share).collect();
        let with_ids = |ids: &str| -> Result<Option<u64>, Error> {
            say(&format!("memory with --ids {ids}"));
            let report = self.crawl(FOOTPRINT_S, &["--ids", ids])?.1;
            Ok(report.own().shard_max_rss_bytes)
        };
        Ok(Footprint {
            shard_max_rss_bytes: runs.iter().filter_map(|run| run.own.shard_max_rss_bytes).max(),
            thousand_ids_max_rss_bytes: with_ids("0..1k")?,
            billion_ids_max_rss_bytes: with_ids("0..1g")?,
            supervisor_cpu_share: crate::summary::median(shares),
        })
    }

    fn one(&self, client: &Client, round: u32, seconds: u32) -> Result<Run, Error> {
        let (finished, counted, own) = match client {
            Client::Crawlmark => {
                let (finished, report) = self.crawl(seconds, &[])?;
                (finished, report.counted(), report.own().into())
            }
            Client::Peer(peer, program) => {
                let Arguments { connections, over, .. } = *self.arguments;
                let load = Load { url: self.target.url(), connections, seconds, over };
                let mut command = self.places.command(program, self.places.client_cpu);
                command.args((peer.arguments)(&load));
                let finished = run(self.signals, peer.name, &mut command, Duration::from_secs(seconds.into()))?;
                let counted = (peer.read)(&finished.stdout);
                let counted = counted.ok_or_else(|| unreadable(peer.name, &finished))?;
                (finished, counted, OwnFigures::default())
            }
        };
        let Counted { requests, per_s, failed } = counted;
        if requests == 0 {
            return Err(unreadable(client.name(), &finished));
        }
        let per_request = |us: f64| us / requests as f64;
        Ok(Run {
            round,
            who: Who::Client(client.name()),
            requests,
            requests_per_s: per_s,
            failed,
            cpu_us_per_request: per_request(finished.cpu.user_us + finished.cpu.system_us),
            cpu_user_us_per_request: per_request(finished.cpu.user_us),
            own,
        })
    }

    fn crawl(&self, seconds: u32, more: &[&str]) -> Result<(Finished, Report), Error> {
        // Its result goes where it is forgotten: removed when this ends, however it ends.
        let folder = tempfile::tempdir()?;
        let out = folder.path().join("result");
        let mut command = self.places.command(crawlmark::PROGRAM, self.places.client_cpu);
        let Arguments { connections, over, .. } = *self.arguments;
        command.args(crawlmark::arguments(self.target.template(), over, [connections, seconds], &out));
        command.args(more);
        let finished = run(self.signals, crawlmark::NAME, &mut command, Duration::from_secs(seconds.into()))?;
        let report = Report::read(&finished.stdout).ok_or_else(|| unreadable(crawlmark::NAME, &finished))?;
        Ok((finished, report))
    }
}

/// The error about a program that printed something else than what it was to print.
pub(crate) fn unreadable(name: &str, finished: &Finished) -> Error {
    Error::Unreadable { name: name.to_owned(), output: format!("{}{}", finished.stdout, finished.stderr) }
}

/// `SplitMix64` (Steele, Lea and Flood 2014): enough to shuffle a handful of clients the same way on every machine.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Fisher and Yates. The modulo favours some orders by less than one in 2^60.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let pick = self.next() % (last as u64 + 1);
            items.swap(last, usize::try_from(pick).unwrap_or(0));
        }
    }
}
