//! Many requests held back at once: what that takes of one CPU, and of memory.

use std::ffi::OsStr;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use crawlmark_harness::clock::Clock;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde::Serialize;

use super::Note;
use super::contest::drive;
use super::proc::Usage;
use crate::clients::{Load, Over};
use crate::error::Error;
use crate::place::Places;
use crate::process::Signals;
use crate::say;
use crate::summary::median;
use crate::target::Bundled;

/// Connections, each with a request that is held back.
pub(super) const CONNECTIONS: u32 = 10_000;

/// For how long each is, ms.
pub(super) const HOLD_MS: u32 = 200;

/// Descriptors for everything that is no such connection.
const SPARE: u64 = 200;

/// Duration of a wrk run, s. It opens its connections within that time, and counts it all.
const SECONDS: u32 = 12;

/// Start of the count of responses, ms after wrk was started: all connections are open by then, and at work.
const COUNT_FROM_MS: u64 = 4_000;

/// Duration of the count, ms; it ends well before wrk does.
const COUNT_FOR_MS: u64 = 7_000;

const RUNS: u32 = 3;

/// Programs of a measurement, and their CPUs.
#[derive(Debug)]
pub(super) struct Holds<'a> {
    pub(super) places: &'a Places,
    pub(super) signals: &'a Signals,
    pub(super) wrk: &'a Path,
}

/// Results of the held responses.
#[derive(Debug, Serialize)]
pub(super) struct HoldResults {
    connections: u32,
    hold_ms: u32,
    /// Median over the runs, by the target's ledger, while all connections are open.
    pub(super) requests_per_s: f64,
    /// Rate of each run.
    pub(super) runs_requests_per_s: Vec<f64>,
    /// Median over the runs.
    pub(super) cpu_us_per_request: f64,
    /// The most that the serving process ever had.
    pub(super) max_rss_bytes: u64,
    /// Requests without a good answer, over all runs.
    pub(super) failed: u64,
}

impl Holds<'_> {
    /// Measures; nothing, with a note, where there are not enough descriptors for it.
    pub(super) fn measure(&self, notes: &mut Vec<Note>) -> Result<Option<HoldResults>, Error> {
        if let Err(why) = allow_descriptors(u64::from(CONNECTIONS) + SPARE) {
            let note = format!("{CONNECTIONS} held requests: skipped: {why}");
            say(&note);
            notes.push(note);
            return Ok(None);
        }
        let latency = format!("{HOLD_MS}ms");
        let target = Bundled::start(self.places, self.signals, &[OsStr::new("--latency"), OsStr::new(&latency)])?;
        let load = Load {
            url: format!("{}/items/1", target.url),
            connections: CONNECTIONS,
            seconds: SECONDS,
            over: Over::Plain,
        };
        let pid = target.running.child.id();
        let (mut speeds, mut costs, mut failed) = (Vec::new(), Vec::new(), 0);
        for run in 1..=RUNS {
            say(&format!("{CONNECTIONS} requests held for {HOLD_MS} ms, {run} of {RUNS}"));
            let before = Usage::of(pid)?;
            let (counted, speed) = std::thread::scope(|scope| {
                let speed = scope.spawn(|| speed_of(&target.url));
                (drive(self.wrk, (self.places, self.signals), &load), speed.join())
            });
            let counted = counted?;
            let after = Usage::of(pid)?;
            let used_us = after.user_us + after.system_us - before.user_us - before.system_us;
            // Without the counts' word it is wrk's, which counts the time that its connections take to open.
            speeds.push(speed.ok().flatten().unwrap_or(counted.per_s));
            costs.push(used_us / counted.requests as f64);
            failed += counted.failed;
        }
        let max_rss_bytes = Usage::of(pid)?.peak_bytes;
        Ok(Some(HoldResults {
            connections: CONNECTIONS,
            hold_ms: HOLD_MS,
            requests_per_s: median(speeds.clone()).unwrap_or(0.0),
            runs_requests_per_s: speeds,
            cpu_us_per_request: median(costs).unwrap_or(0.0),
            max_rss_bytes,
            failed,
        }))
    }
}

/// Answers per second, by the target's own counts, in the midst of a run that begins now.
fn speed_of(url: &str) -> Option<f64> {
    std::thread::sleep(Duration::from_millis(COUNT_FROM_MS));
    let clock = Clock::start();
    let first = answers(url)?;
    std::thread::sleep(Duration::from_millis(COUNT_FOR_MS));
    let (last, elapsed_ns) = (answers(url)?, clock.now().0);
    Some((last - first) as f64 / (elapsed_ns as f64 / 1e9))
}

/// Return the number of responses in the target's ledger.
fn answers(url: &str) -> Option<u64> {
    let address = url.strip_prefix("http://")?;
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    write!(stream, "GET /__admin/ledger HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let ledger: serde_json::Value = serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()?;
    ledger["held_us"]["count"].as_u64()
}

/// Lets the children of this process have `needed` descriptors each, or says why not.
fn allow_descriptors(needed: u64) -> Result<(), String> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(|error| error.to_string())?;
    if soft >= needed {
        return Ok(());
    }
    setrlimit(Resource::RLIMIT_NOFILE, needed, hard.max(needed)).map_err(|error| {
        format!("{needed} descriptors are needed, {hard} are allowed (ulimit -Hn), and that cannot be raised: {error}")
    })
}
