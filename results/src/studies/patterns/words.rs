//! Patterns in words: as a document, and in a line for each while they are run.

use super::{FILE, PatternReport, Patterns, SCHEMA};
use crate::run::report::Verdict;
use crate::run::words::word;
use crate::show::doc::{Column, Doc, Severity, Table};
use crate::show::plot::{self, Plot};
use crate::show::text::{bytes, decimal, micros};
use crate::studies::StudyResult;
use crawlmark_harness::units::{grouped, percent};

/// Describe the result of a pattern in a line.
#[must_use]
pub fn pattern_standing(pattern: &PatternReport) -> String {
    let [rate, p99, throttled, ..] = figures(pattern);
    format!(
        "{}: {rate}, p99 {p99}, {throttled} throttled",
        pattern.pattern
    )
}

/// Say which pattern was the fastest, which one of those without throttling, and which figures are
/// not reliable.
#[must_use]
pub fn patterns_headline(patterns: &Patterns) -> String {
    let Some(fastest) = patterns.fastest() else {
        return "No pattern was run.".to_owned();
    };
    let named =
        |pattern: &PatternReport| format!("{} ({}/s)", pattern.pattern, decimal(pattern.ok_per_s));
    let polite = patterns
        .patterns
        .iter()
        .filter(|pattern| pattern.throttled_share <= 0.0);
    let polite = polite.max_by(|a, b| a.ok_per_s.total_cmp(&b.ok_per_s));
    let fastest = match polite {
        Some(polite) if polite != fastest => format!(
            "Fastest: {}, {} throttled. Fastest without throttling: {}.",
            named(fastest),
            percent(fastest.throttled_share),
            named(polite)
        ),
        Some(_) => format!("Fastest: {}, without throttling.", named(fastest)),
        None => format!(
            "Fastest: {}. The target throttled every pattern.",
            named(fastest)
        ),
    };
    doubted(patterns).map_or_else(|| fastest.clone(), |doubted| format!("{fastest} {doubted}"))
}

/// Name the patterns whose figures may not be those of the target, each with its verdict.
fn doubted(patterns: &Patterns) -> Option<String> {
    let is_doubted =
        |one: &&PatternReport| [Verdict::ClientLimited, Verdict::Disturbed].contains(&one.validity);
    let named = patterns.patterns.iter().filter(is_doubted);
    let named: Vec<String> = named
        .map(|one| format!("{} ({})", one.pattern, word(one.validity)))
        .collect();
    (!named.is_empty()).then(|| {
        format!(
            "Not reliable: {}. Run again on an idle machine.",
            named.join(", ")
        )
    })
}

/// The figures of a pattern, in the order of the columns.
pub(crate) fn figures(pattern: &PatternReport) -> [String; 5] {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    [
        format!("{}/s", decimal(pattern.ok_per_s)),
        or_dash(pattern.service_p99_us.map(micros)),
        percent(pattern.throttled_share),
        grouped(pattern.peak_in_flight),
        or_dash(pattern.memory_bytes.map(bytes)),
    ]
}

impl StudyResult for Patterns {
    const SCHEMA: &'static str = SCHEMA;

    const FILE: &'static str = FILE;

    fn plots(&self) -> Vec<Plot> {
        vec![plot::patterns(self)]
    }

    fn doc(&self) -> Doc {
        let partial = if self.interrupted {
            " (interrupted)"
        } else {
            ""
        };
        let names = ["good items", "p99", "throttled", "peak in flight", "memory"];
        let columns = std::iter::once(Column::words("pattern"))
            .chain(names.map(Column::numbers))
            .collect();
        let row = |one: &PatternReport| {
            std::iter::once(one.pattern.clone())
                .chain(figures(one))
                .collect()
        };
        let rows = self.patterns.iter().map(row).collect();
        let command = |one: &PatternReport| {
            // A word with a NUL is none that anybody can have typed.
            let flags = shlex::try_join(one.flags.iter().map(String::as_str))
                .unwrap_or_else(|_| one.flags.join(" "));
            format!("crawlmark run {flags}  # {}", one.pattern)
        };
        let is_clear = doubted(self).is_none() && !self.interrupted;
        let severity = if is_clear {
            Severity::Neutral
        } else {
            Severity::Warning
        };
        let machine = self
            .environment
            .cpu_model
            .as_deref()
            .unwrap_or("an unknown CPU");
        Doc::new(format!("{}{partial}", self.name))
            .headline(severity, &patterns_headline(self))
            .table(Table { columns, rows, ..Table::default() })
            .in_files()
            .plot("plots/patterns.svg", "Throughput, p99, throttling, requests in flight and memory of each pattern")
            .commands("Flags of crawlmark run for each pattern:", self.patterns.iter().map(command).collect())
            .text(format!(
                "Memory is that of this client's shards at most. Machine: {machine}, {} cores. crawlmark {}, {}.",
                self.environment.cores, self.crawlmark_version, self.started_at
            ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::report::Report;

    #[test]
    fn a_pattern_that_was_disturbed_is_not_reliable() {
        let report: Report =
            serde_json::from_str(include_str!("../../../example/result.json")).unwrap();
        let said = |validity| {
            let of = PatternReport::of(&report, "waves", (Vec::new(), String::new()));
            let (times, environment) = (["", ""].map(str::to_owned), report.environment.clone());
            let patterns = vec![PatternReport { validity, ..of }];
            Patterns::new("patterns".to_owned(), patterns, (times, environment))
                .doc()
                .terminal(usize::MAX)
        };
        let doubt = "Not reliable: waves (disturbed)";
        assert!(
            said(Verdict::Disturbed).contains(doubt)
                && !said(Verdict::TargetLimited).contains("Not reliable")
        );
    }
}
