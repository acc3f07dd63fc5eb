//! The outcome: the result of each row over its attempts, and the verdict over all. Saved as
//! `selftest.json`; everything shown is rendered from it.

use crawlmark_results::run::report::{Environment, Placement};
use crawlmark_results::show::doc::{Column, Doc, Table};
use crawlmark_results::show::text::{grouped_f64, micros};
use crawlmark_results::studies::{Conclusion, Header, StudyFinding, StudyResult};
use serde::Serialize;

use super::judge::{Attempt, Figure, Unit};
use crate::cli::Row;

/// Attempts at a row, at most.
pub(super) const ATTEMPTS: u32 = 3;

/// Attempts that count and miss, before a row has failed: one alone may be noise that no gate
/// knows.
const MISSES: usize = 2;

/// Result of a row, or of all of them; the gravest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RowResult {
    /// An attempt that counts was within every tolerance.
    Passed,
    /// Nothing can be said: too many attempts were disturbed.
    Disturbed,
    /// Not run, or not to its end.
    NotRun,
    /// The attempts that count were not within tolerance, or one showed what cannot be.
    Failed,
}

impl RowResult {
    /// The name used for people.
    const fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Disturbed => "disturbed",
            Self::NotRun => "not run",
            Self::Failed => "FAILED",
        }
    }
}

/// A row, after its attempts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct RowOutcome {
    /// Its name.
    pub(crate) row: String,
    /// Short description of the test.
    pub(crate) tests: String,
    /// Result of the row.
    pub(crate) result: RowResult,
    /// The figures of the attempt that decided: one that shows what cannot be, or else the first
    /// that passed, or else the one that counts and misses least, or else the one that misses
    /// least.
    pub(crate) figures: Vec<Figure>,
    /// All attempts.
    pub(crate) attempts: Vec<Attempt>,
}

impl RowOutcome {
    /// The outcome of `row` before its first attempt.
    pub(super) fn new(row: Row) -> Self {
        Self {
            row: row.to_string(),
            tests: tests(row).to_owned(),
            result: RowResult::NotRun,
            figures: Vec::new(),
            attempts: Vec::new(),
        }
    }

    /// Add an attempt.
    pub(super) fn add(&mut self, attempt: Attempt) {
        self.attempts.push(attempt);
        let all = &self.attempts;
        let decided = all.iter().min_by_key(|one| {
            let missed = one.figures.iter().filter(|of| !of.met).count();
            (!one.is_impossible(), !one.counts(), missed)
        });
        self.figures = decided.map_or_else(Vec::new, |one| one.figures.clone());
        let counted = all.iter().filter(|one| one.counts()).count();
        self.result = if all.iter().any(Attempt::is_impossible) {
            RowResult::Failed
        } else if all.iter().any(Attempt::passes) {
            RowResult::Passed
        } else if counted >= MISSES {
            RowResult::Failed
        } else {
            RowResult::Disturbed
        };
    }

    /// True if another attempt cannot change anything.
    pub(super) fn is_settled(&self) -> bool {
        self.result == RowResult::Passed
            || self.attempts.len() >= ATTEMPTS as usize
            || self.attempts.iter().any(Attempt::is_impossible)
    }

    /// Lines of the table: one per figure, the first with the result.
    fn lines(&self) -> Vec<Vec<String>> {
        let mut lines: Vec<Vec<String>> = self.figures.iter().map(line).collect();
        if lines.is_empty() {
            lines.push(vec![String::new(); COLUMNS.len()]);
        }
        lines[0][0].clone_from(&self.row);
        self.result.name().clone_into(&mut lines[0][1]);
        lines[0][COLUMNS.len() - 1].clone_from(&self.tests);
        lines
    }
}

/// Return a short description of the test of a row.
const fn tests(row: Row) -> &'static str {
    match row {
        Row::R1 => "2 % of the items take 500 ms, the rest 20 ms",
        Row::R2 => "service time minus the hold reported by the target",
        Row::R3 => "open loop, 200/s, through a stall of the target",
        Row::R4 => "closed loop, a few in flight, through the same stall",
        Row::R5 => "requests scheduled in the open loop: reported and counted",
        Row::R6 => "50 ms, 8 connections per shard: 2 shards against 1",
        Row::R7 => "a shard is stopped for half a second",
        Row::R8 => "21 ms against 20 ms, in pairs of runs",
    }
}

/// Measurement error of this machine, by row R2: that of the median and of the 99th percentile.
fn measurement_error(rows: &[RowOutcome]) -> Option<StudyFinding> {
    let row = rows.iter().find(|row| row.row == Row::R2.to_string())?;
    let mut times = row.figures.iter().filter(|figure| figure.unit == Unit::Us);
    Some(StudyFinding::MeasurementError {
        service_p50_us: times.next()?.measured?,
        service_p99_us: times.next()?.measured?,
        disturbed: row.result == RowResult::Disturbed,
    })
}

/// The whole outcome.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct SelftestResult {
    /// Fields of every study.
    #[serde(flatten)]
    pub(crate) header: Header,
    /// `full` or `quick`.
    pub(crate) form: String,
    /// The gravest of the rows'.
    pub(crate) verdict: RowResult,
    /// The machine.
    pub(crate) environment: Environment,
    /// The rows that were asked for.
    pub(crate) rows: Vec<RowOutcome>,
}

impl SelftestResult {
    /// Create the outcome from its rows.
    pub(super) fn new(header: Header, form: &str, rows: Vec<RowOutcome>) -> Self {
        let verdict = rows
            .iter()
            .map(|row| row.result)
            .max()
            .unwrap_or(RowResult::NotRun);
        Self {
            header,
            form: form.to_owned(),
            verdict,
            environment: Environment::read(Placement::Colocated),
            rows,
        }
    }
}

/// Columns of the table.
const COLUMNS: [&str; 7] = [
    "row",
    "result",
    "figure",
    "expected",
    "measured",
    "tolerance",
    "test",
];

impl StudyResult for SelftestResult {
    const SCHEMA: &'static str = "crawlmark.selftest/1";

    const FILE: &'static str = "selftest.json";

    fn conclusion(&self) -> Conclusion {
        match self.verdict {
            RowResult::Passed => Conclusion::Done,
            RowResult::Failed => Conclusion::Failed,
            RowResult::Disturbed | RowResult::NotRun => Conclusion::Inconclusive,
        }
    }

    fn header(&self) -> &Header {
        &self.header
    }

    fn environment(&self) -> Option<&Environment> {
        Some(&self.environment)
    }

    fn outcome(&self) -> String {
        self.verdict.name().to_owned()
    }

    fn findings(&self) -> Vec<StudyFinding> {
        let rows = self
            .rows
            .iter()
            .filter(|row| row.result == self.verdict)
            .map(|row| &*row.row)
            .collect::<Vec<_>>()
            .join(", ");
        let mut all = vec![match self.verdict {
            RowResult::Passed => StudyFinding::Passed {},
            RowResult::Failed => StudyFinding::Failed { rows },
            RowResult::Disturbed => StudyFinding::Busy { rows },
            RowResult::NotRun => StudyFinding::NotRun { rows },
        }];
        all.extend(measurement_error(&self.rows));
        let mut open = self.rows.clone();
        open.retain(|row| row.result != RowResult::Passed);
        all.extend(open.into_iter().filter_map(|row| {
            let reason = row
                .attempts
                .into_iter()
                .flat_map(|one| one.disturbed_by)
                .next()?;
            Some(StudyFinding::RowDisturbed {
                row: row.row,
                reason,
            })
        }));
        all
    }

    fn fill(&self, doc: Doc) -> Doc {
        let columns = COLUMNS.map(|name| match name {
            "expected" | "measured" => Column::numbers(name),
            "test" => Column::sentences(name),
            _ => Column::words(name),
        });
        doc.table(Table {
            columns: columns.to_vec(),
            rows: self.rows.iter().flat_map(RowOutcome::lines).collect(),
            ..Table::default()
        })
    }
}

fn line(figure: &Figure) -> Vec<String> {
    let text = |value| number(figure.unit, value);
    let low = text(figure.low);
    let tolerance = match figure.high {
        None => format!("at least {low}"),
        Some(high) if high <= figure.low => "exactly".to_owned(),
        Some(high) => format!("{low} to {}", text(high)),
    };
    let missed = if figure.met { "" } else { "missed: " };
    vec![
        String::new(),
        String::new(),
        format!("{missed}{}", figure.what),
        text(figure.expected),
        figure.measured.map_or_else(|| "-".to_owned(), text),
        tolerance,
        String::new(),
    ]
}

/// A number of a figure, as precise as it is worth.
fn number(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Us if value == 0.0 => "0".to_owned(),
        Unit::Us => micros(value),
        Unit::Ratio => format!("{value:.3}"),
        Unit::Count => grouped_f64(value),
        Unit::Flag => if value > 0.0 { "yes" } else { "no" }.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(what: &str, us: f64) -> Figure {
        Figure::number(what, Unit::Us, 0.0, Some(us), [0.0, 100.0])
    }

    fn attempt(disturbed_by: &[&str], us: f64) -> Attempt {
        Attempt {
            disturbed_by: disturbed_by.iter().map(|&why| why.to_owned()).collect(),
            figures: vec![figure("p50", us), figure("p99", us)],
        }
    }

    #[test]
    fn a_row_is_what_the_best_of_its_attempts_that_count_is() {
        let [good, bad] = [50.0, 500.0].map(|us| attempt(&[], us));
        let [good_disturbed, bad_disturbed] = [50.0, 500.0].map(|us| attempt(&["steal"], us));
        for (attempts, result) in [
            (vec![], RowResult::NotRun),
            (vec![&good], RowResult::Passed),
            (vec![&bad, &bad, &good], RowResult::Passed),
            (vec![&bad_disturbed, &good], RowResult::Passed),
            (vec![&bad, &bad_disturbed, &bad], RowResult::Failed),
            (
                vec![&bad, &bad_disturbed, &good_disturbed],
                RowResult::Disturbed,
            ),
            (vec![&good_disturbed; 3], RowResult::Disturbed),
        ] {
            let outcome = row(Row::R2, &attempts);
            assert_eq!(outcome.result, result, "{attempts:?}");
            let is_settled = result == RowResult::Passed || attempts.len() == ATTEMPTS as usize;
            assert_eq!(outcome.is_settled(), is_settled, "{attempts:?}");
        }
        assert_eq!(
            row(Row::R2, &[&bad_disturbed, &bad, &good_disturbed]).figures,
            bad.figures
        );
        let mut impossible = good_disturbed;
        impossible.figures[0].impossible = true;
        let outcome = row(Row::R2, &[&good, &impossible]);
        assert!(outcome.result == RowResult::Failed && outcome.is_settled());
        assert_eq!(outcome.figures, impossible.figures);
    }

    fn row(row: Row, attempts: &[&Attempt]) -> RowOutcome {
        let mut outcome = RowOutcome::new(row);
        for attempt in attempts {
            outcome.add((*attempt).clone());
        }
        outcome
    }

    fn outcome(rows: Vec<RowOutcome>) -> SelftestResult {
        let header = Header::new::<SelftestResult>("selftest", ["2026-01-02T03:04:05Z"; 2]);
        SelftestResult::new(header, "full", rows)
    }

    #[test]
    fn the_gravest_row_decides() {
        let of = |number, disturbed: &[&str], us| {
            let attempt = attempt(disturbed, us);
            row(number, &[&attempt; 3])
        };
        let good = || of(Row::R1, &[], 50.0);
        let busy = || of(Row::R2, &["steal"], 50.0);
        for (rows, conclusion) in [
            (vec![good()], Conclusion::Done),
            (vec![good(), busy()], Conclusion::Inconclusive),
            (
                vec![busy(), of(Row::R3, &[], 500.0), good()],
                Conclusion::Failed,
            ),
            (
                vec![good(), RowOutcome::new(Row::R4)],
                Conclusion::Inconclusive,
            ),
        ] {
            assert_eq!(outcome(rows).conclusion(), conclusion);
        }
        let error = measurement_error(&[busy()]);
        assert!(matches!(
            error,
            Some(StudyFinding::MeasurementError {
                disturbed: true,
                ..
            })
        ));
        assert_eq!(measurement_error(&[good()]), None);
    }
}
