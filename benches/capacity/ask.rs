//! Searches for what is known already, and what they answered.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crawlmark_harness::clock::Clock;
use crawlmark_results::studies::capacity::{Capacity, SearchOutcome};
use serde::Serialize;

/// Rate that the targets sustain, requests per second.
pub(crate) const KNOWN: f64 = 4_000.0;

/// Allowed error of an answer, as a part of that.
pub(crate) const OFF: f64 = 0.02;

/// A target.
#[derive(Debug)]
pub(crate) struct CapacityCase {
    /// Its name here.
    pub(crate) name: &'static str,
    /// Behaviour, as a sentence goes on: "a target that ...".
    pub(crate) does: &'static str,
    /// As flags of `run`.
    target: &'static [&'static str],
    /// Duration of a probe's measurement: no longer than this target takes to be seen through.
    probe: &'static str,
}

/// All of them.
pub(crate) const CASES: [CapacityCase; 2] = [
    CapacityCase {
        name: "limit",
        does: "lets 4,000/s through (100 at once), refuses the rest, and takes 20 µs longer for each other request in flight",
        target: &[
            "--target-limit",
            "4000/s:burst=100",
            "--target-latency-per-in-flight",
            "20us",
        ],
        probe: "2s",
    },
    CapacityCase {
        name: "queue",
        does: "serves 4,000/s and queues all other requests",
        target: &["--target-limit", "leaky:4000/s:burst=1000000"],
        probe: "4s",
    },
];

/// Result of one search.
#[derive(Debug, Serialize)]
pub(crate) struct SearchAnswer {
    from_per_s: u32,
    outcome: SearchOutcome,
    capacity_per_s: Option<f64>,
    fails_at_per_s: Option<f64>,
    probes: usize,
    void_probes: u32,
    took_s: f64,
    right: bool,
    #[serde(skip)]
    saved: PathBuf,
}

impl CapacityCase {
    /// Searches once.
    pub(crate) fn ask(
        &self,
        number: u32,
        out: &Path,
    ) -> Result<SearchAnswer, Box<dyn std::error::Error>> {
        // Each begins elsewhere, and so probes other rates.
        let from_per_s = 700 + 37 * number;
        let clock = Clock::start();
        let output = Command::new(env!("CARGO_BIN_EXE_crawlmark"))
            .args([
                "capacity",
                "--quiet",
                "--json",
                "--from",
                &from_per_s.to_string(),
            ])
            .args([
                "--seed",
                &(number * 1_000).to_string(),
                "--warmup",
                "1s",
                "--probe",
                self.probe,
            ])
            .arg("--out")
            .arg(out)
            .arg("--")
            .args(self.target)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .output()?;
        let capacity: Capacity = serde_json::from_slice(&output.stdout).map_err(|_| {
            format!(
                "crawlmark capacity: {}",
                String::from_utf8_lossy(&output.stderr)
            )
        })?;
        let is_near = |per_s: f64| (per_s / KNOWN - 1.0).abs() <= OFF;
        Ok(SearchAnswer {
            from_per_s,
            right: capacity.outcome == SearchOutcome::Found
                && capacity.capacity_per_s.is_some_and(is_near),
            outcome: capacity.outcome,
            capacity_per_s: capacity.capacity_per_s,
            fails_at_per_s: capacity.fails_at_per_s,
            probes: capacity.probes.len(),
            void_probes: capacity.rates.iter().map(|rate| rate.voids).sum(),
            took_s: (clock.now().0 as f64 / 1e8).round() / 10.0,
            saved: out.to_owned(),
        })
    }
}

impl SearchAnswer {
    pub(crate) const fn is_right(&self) -> bool {
        self.right
    }

    /// Return the directory of the saved result.
    pub(crate) fn saved(&self) -> &Path {
        &self.saved
    }

    /// Format the result as one line.
    pub(crate) fn told(&self) -> String {
        let wrong = if self.right { "" } else { " WRONG" };
        let [pass, fail] = [self.capacity_per_s, self.fails_at_per_s].map(per_s);
        let Self {
            outcome,
            probes,
            void_probes,
            took_s,
            ..
        } = self;
        format!(
            "{}{wrong}, {pass} to {fail}, {probes} probes ({void_probes} void) in {took_s} s",
            outcome.name()
        )
    }

    /// Format the result as a row of a table.
    pub(crate) fn row(&self) -> String {
        let [pass, fail] = [self.capacity_per_s, self.fails_at_per_s].map(per_s);
        let off = self.capacity_per_s.map_or_else(
            || "-".to_owned(),
            |per_s| format!("{:+.1} %", (per_s / KNOWN - 1.0) * 100.0),
        );
        let Self {
            from_per_s,
            outcome,
            probes,
            void_probes,
            took_s,
            ..
        } = self;
        let outcome = outcome.name();
        format!(
            "| {from_per_s}/s | {outcome} | {pass} | {fail} | {off} | {probes} | {void_probes} | {took_s} s |"
        )
    }
}

fn per_s(rate: Option<f64>) -> String {
    rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate}/s"))
}
