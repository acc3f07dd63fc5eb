//! The questions, and one answer to each.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Serialize;
use serde_json::Value;

/// A question whose answer is known.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// Verdicts that are right.
    pub(crate) right: &'static [&'static str],
    /// Metrics of which one has to be found to be worse; none when nothing is to be found.
    pub(crate) caught_by: &'static [&'static str],
    base: SideFlags,
    candidate: SideFlags,
    rounds: &'static [&'static str],
}

/// Part of a round's command that belongs to one side.
#[derive(Debug)]
enum SideFlags {
    /// Flags of `run`.
    Flags(&'static str),
    /// Flags of `serve`, as a program that each round starts and ends.
    Served(&'static str),
}

/// A hold that is told from another takes some hundred answers; a cost in CPU some thousand.
pub(crate) const CASES: [Case; 3] = [
    Case {
        name: "slower",
        what: "the bundled target with a latency of 20 ms, and of 21 ms",
        right: &["regression"],
        caught_by: &["throughput", "service_p50"],
        base: SideFlags::Flags("--target-latency 20ms"),
        candidate: SideFlags::Flags("--target-latency 21ms"),
        rounds: &["-n", "512", "-c", "32", "-s", "1"],
    },
    Case {
        name: "equal",
        what: "the bundled target with a latency of 20 ms on both sides",
        right: &["pass", "inconclusive"],
        caught_by: &[],
        base: SideFlags::Flags("--target-latency 20ms"),
        candidate: SideFlags::Flags("--target-latency 20ms"),
        rounds: &["-n", "512", "-c", "32", "-s", "1"],
    },
    Case {
        name: "dearer",
        what: "a service that does 100,000 rounds of arithmetic for each response, and 105,000",
        right: &["regression"],
        caught_by: &["target_cpu_per_attempt", "throughput"],
        base: SideFlags::Served("--work 100000"),
        candidate: SideFlags::Served("--work 105000"),
        rounds: &[
            "http://127.0.0.1:{port}/items/{id}",
            "-n",
            "4000",
            "-c",
            "8",
            "-s",
            "1",
        ],
    },
];

/// Result of one comparison.
#[derive(Debug, Serialize)]
pub(crate) struct VerdictAnswer {
    seed: u64,
    verdict: String,
    right: bool,
    pairs: usize,
    disturbed_pairs: u64,
    /// By metric: candidate over base, and what was said of it.
    metrics: Vec<(String, f64, String)>,
    #[serde(skip)]
    saved: PathBuf,
}

impl Case {
    /// Asks once.
    pub(crate) fn ask(
        &self,
        seed: u64,
        out: &Path,
    ) -> Result<VerdictAnswer, Box<dyn std::error::Error>> {
        let mut ab = Command::new(env!("CARGO_BIN_EXE_crawlmark"));
        ab.args([
            "ab",
            "--quiet",
            "--json",
            "--seed",
            &seed.to_string(),
            "--out",
        ])
        .arg(out);
        for (side, [flags, target]) in [
            (&self.base, ["--base", "--base-target"]),
            (&self.candidate, ["--cand", "--cand-target"]),
        ] {
            match side {
                SideFlags::Flags(own) => ab.args([flags, own]),
                SideFlags::Served(own) => {
                    let program = env!("CARGO_BIN_EXE_crawlmark");
                    ab.arg(target).arg(format!(
                        "exec {program} serve --processes 1 --listen 127.0.0.1:{{port}} {own}"
                    ))
                }
            };
        }
        let output = ab
            .arg("--")
            .args(self.rounds)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .output()?;
        let contest: Value = serde_json::from_slice(&output.stdout)
            .map_err(|_| format!("crawlmark ab: {}", String::from_utf8_lossy(&output.stderr)))?;
        Ok(self.answer(seed, &contest, out))
    }

    fn answer(&self, seed: u64, contest: &Value, out: &Path) -> VerdictAnswer {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let findings = contest["comparison"]["findings"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let metric = |finding: &Value| {
            let ratio = finding["evidence"]["ratio"].as_f64()?;
            Some((text(&finding["metric"]), ratio, text(&finding["verdict"])))
        };
        let metrics: Vec<(String, f64, String)> = findings.iter().filter_map(metric).collect();
        let verdict = text(&contest["verdict"]);
        let is_caught = self.caught_by.is_empty()
            || metrics.iter().any(|(metric, _, said)| {
                said == "regression" && self.caught_by.contains(&&**metric)
            });
        let rounds = contest["rounds"].as_array().map_or(0, Vec::len);
        VerdictAnswer {
            seed,
            right: is_caught && self.right.contains(&&*verdict),
            verdict,
            pairs: rounds / 2,
            disturbed_pairs: contest["comparison"]["disturbed_pairs"]
                .as_u64()
                .unwrap_or(0),
            metrics,
            saved: out.to_owned(),
        }
    }
}

impl VerdictAnswer {
    pub(crate) const fn is_right(&self) -> bool {
        self.right
    }

    pub(crate) fn verdict(&self) -> &str {
        &self.verdict
    }

    pub(crate) const fn pairs(&self) -> usize {
        self.pairs
    }

    /// Candidate over base of a metric.
    pub(crate) fn ratio(&self, metric: &str) -> Option<f64> {
        self.metrics
            .iter()
            .find(|(name, ..)| name == metric)
            .map(|(_, ratio, _)| *ratio)
    }

    /// Return the verdict on a metric.
    pub(crate) fn said(&self, metric: &str) -> Option<&str> {
        self.metrics
            .iter()
            .find(|(name, ..)| name == metric)
            .map(|(.., said)| &**said)
    }

    /// The picture of its pairs.
    pub(crate) fn plot(&self) -> PathBuf {
        self.saved.join("plots/pairs.svg")
    }

    /// Format the result as one line.
    pub(crate) fn told(&self) -> String {
        let metrics: Vec<String> = self
            .metrics
            .iter()
            .map(|(metric, ratio, said)| format!("{metric} {ratio:.4} {said}"))
            .collect();
        let wrong = if self.right { "" } else { " WRONG" };
        format!(
            "{}{wrong} after {} pairs; {}",
            self.verdict,
            self.pairs,
            metrics.join(", ")
        )
    }
}
