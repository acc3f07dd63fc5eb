//! Summary of all answers to a question, and the page that shows it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use serde::Serialize;

use crate::case::{Case, VerdictAnswer};

/// The metrics, in the order of the page.
const METRICS: [&str; 5] = [
    "target_cpu_per_attempt",
    "cpu_per_attempt",
    "throughput",
    "service_p50",
    "service_p99",
];

/// All answers to a question.
#[derive(Debug, Serialize)]
pub(crate) struct CaseAnswers {
    pub(crate) case: &'static str,
    what: &'static str,
    right_verdicts: Vec<&'static str>,
    caught_by: Vec<&'static str>,
    right: usize,
    answers: Vec<VerdictAnswer>,
}

impl CaseAnswers {
    pub(crate) fn new(case: &Case, answers: Vec<VerdictAnswer>) -> Self {
        Self {
            case: case.name,
            what: case.what,
            right_verdicts: case.right.to_vec(),
            caught_by: case.caught_by.to_vec(),
            right: answers.iter().filter(|answer| answer.is_right()).count(),
            answers,
        }
    }

    /// True if every answer was right.
    pub(crate) fn is_right(&self) -> bool {
        self.right == self.answers.len()
    }

    /// The picture of the last one.
    pub(crate) fn plot(&self) -> PathBuf {
        self.answers
            .last()
            .map(VerdictAnswer::plot)
            .unwrap_or_default()
    }
}

/// The page.
pub(crate) fn markdown(outcomes: &[CaseAnswers], machine: &str) -> String {
    let mut out = String::from(
        "# Verdicts\n\nMade by `cargo bench --bench verdicts -- --out results/verdicts`.\n\n",
    );
    let _ = writeln!(out, "{machine}\n");
    let _ = writeln!(
        out,
        "| question | right | verdicts | pairs |\n|---|---|---|---|"
    );
    for outcome in outcomes {
        let mut verdicts: BTreeMap<&str, usize> = BTreeMap::new();
        for answer in &outcome.answers {
            *verdicts.entry(answer.verdict()).or_default() += 1;
        }
        let verdicts: Vec<String> = verdicts
            .iter()
            .map(|(verdict, count)| format!("{count} {verdict}"))
            .collect();
        let mut pairs: Vec<usize> = outcome.answers.iter().map(VerdictAnswer::pairs).collect();
        pairs.sort_unstable();
        let (first, last) = (pairs.first().unwrap_or(&0), pairs.last().unwrap_or(&0));
        let (right, all, what) = (outcome.right, outcome.answers.len(), outcome.what);
        let _ = writeln!(
            out,
            "| **{}**: {what} | {right} of {all} | {} | {first} to {last} |",
            outcome.case,
            verdicts.join(", ")
        );
    }
    for outcome in outcomes {
        let _ = writeln!(out, "\n## {}\n\n{}.\n", outcome.case, outcome.what);
        let _ = writeln!(
            out,
            "| metric | candidate over base: lowest, median, highest | regression | pass |\n|---|---|---|---|"
        );
        for metric in METRICS {
            let mut ratios: Vec<f64> = outcome
                .answers
                .iter()
                .filter_map(|answer| answer.ratio(metric))
                .collect();
            ratios.sort_by(f64::total_cmp);
            let (Some(least), Some(greatest)) = (ratios.first(), ratios.last()) else {
                continue;
            };
            let median = ratios[ratios.len() / 2];
            let count = |said| {
                outcome
                    .answers
                    .iter()
                    .filter(|answer| answer.said(metric) == Some(said))
                    .count()
            };
            let (worse, passed) = (count("regression"), count("pass"));
            let _ = writeln!(
                out,
                "| `{metric}` | {least:.4}, {median:.4}, {greatest:.4} | {worse} | {passed} |"
            );
        }
        let _ = writeln!(
            out,
            "\n![The pairs of the last comparison]({}.svg)",
            outcome.case
        );
    }
    out
}
