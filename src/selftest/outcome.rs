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
pub(super) const ATTEMPTS: usize = 3;

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
        let mut all = self.attempts.iter();
        let impossible = all.clone().find(|one| one.is_impossible());
        // Of those that count, the one that missed the least.
        let decided = impossible.or_else(|| {
            all.clone().min_by_key(|one| {
                (
                    !one.counts(),
                    one.figures.iter().filter(|of| !of.met).count(),
                )
            })
        });
        let result = if impossible.is_some() {
            RowResult::Failed
        } else if all.clone().any(Attempt::passes) {
            RowResult::Passed
        } else if all.by_ref().filter(|one| one.counts()).count() >= MISSES {
            RowResult::Failed
        } else {
            RowResult::Disturbed
        };
        self.figures = decided.map_or_else(Vec::new, |one| one.figures.clone());
        self.result = result;
    }

    /// True if another attempt cannot change anything.
    pub(super) fn is_settled(&self) -> bool {
        self.result == RowResult::Passed
            || self.attempts.len() >= ATTEMPTS
            || self.attempts.iter().any(Attempt::is_impossible)
    }

    /// Lines of the table: one per figure, the first with the result.
    fn lines(&self) -> Vec<Vec<String>> {
        let mut lines: Vec<Vec<String>> = self.figures.iter().map(line).collect();
        if lines.is_empty() {
            lines.push(vec![String::new(); COLUMNS]);
        }
        lines[0][0].clone_from(&self.row);
        self.result.name().clone_into(&mut lines[0][1]);
        lines[0][COLUMNS - 1].clone_from(&self.tests);
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

/// Measurement error of this machine, by row R2.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct MeasurementError {
    /// Excess of the measured service time at the median, µs.
    pub(crate) service_p50_us: f64,
    /// Excess of the measured service time at the 99th percentile, µs.
    pub(crate) service_p99_us: f64,
    /// True if that is the machine's, or that of a disturbed one.
    pub(crate) disturbed: bool,
}

impl MeasurementError {
    fn of(rows: &[RowOutcome]) -> Option<Self> {
        let row = rows.iter().find(|row| row.row == Row::R2.to_string())?;
        let mut times = row.figures.iter().filter(|figure| figure.unit == Unit::Us);
        Some(Self {
            service_p50_us: times.next()?.measured?,
            service_p99_us: times.next()?.measured?,
            disturbed: row.result == RowResult::Disturbed,
        })
    }
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
    /// Measurement error of this machine; none if it was not measured.
    pub(crate) measurement_error: Option<MeasurementError>,
    /// The machine.
    pub(crate) environment: Environment,
    /// The rows that were asked for.
    pub(crate) rows: Vec<RowOutcome>,
}

impl SelftestResult {
    /// Create the outcome from its rows.
    pub(super) fn new(header: Header, form: &str, rows: Vec<RowOutcome>) -> Self {
        let verdict = rows.iter().map(|row| row.result).max();
        let verdict = verdict.unwrap_or(RowResult::NotRun);
        Self {
            header,
            form: form.to_owned(),
            verdict,
            measurement_error: MeasurementError::of(&rows),
            environment: Environment::read(Placement::Colocated),
            rows,
        }
    }
}

/// Columns of the table.
const COLUMNS: usize = 7;

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
        let named = self.rows.iter().filter(|row| row.result == self.verdict);
        let rows = named.map(|row| &*row.row).collect::<Vec<_>>().join(", ");
        let mut all = vec![match self.verdict {
            RowResult::Passed => StudyFinding::Passed {},
            RowResult::Failed => StudyFinding::Failed { rows },
            RowResult::Disturbed => StudyFinding::Busy { rows },
            RowResult::NotRun => StudyFinding::NotRun { rows },
        }];
        let error = self.measurement_error.as_ref();
        all.extend(error.map(|error| StudyFinding::MeasurementError {
            service_p50_us: error.service_p50_us,
            service_p99_us: error.service_p99_us,
            disturbed: error.disturbed,
        }));
        let mut open = self.rows.clone();
        open.retain(|row| row.result != RowResult::Passed);
        all.extend(open.into_iter().filter_map(|row| {
            let mut reasons = row.attempts.into_iter().flat_map(|one| one.disturbed_by);
            let reason = reasons.next()?;
            Some(StudyFinding::RowDisturbed {
                row: row.row,
                reason,
            })
        }));
        all
    }

    fn fill(&self, doc: Doc) -> Doc {
        let columns: [Column; COLUMNS] = [
            Column::words("row"),
            Column::words("result"),
            Column::words("figure"),
            Column::numbers("expected"),
            Column::numbers("measured"),
            Column::words("tolerance"),
            Column::sentences("test"),
        ];
        doc.table(Table {
            columns: columns.to_vec(),
            rows: self.rows.iter().flat_map(RowOutcome::lines).collect(),
            ..Table::default()
        })
    }
}

/// The line of a figure.
fn line(figure: &Figure) -> Vec<String> {
    let [expected, low] = [figure.expected, figure.low].map(|value| number(figure.unit, value));
    let tolerance = match figure.high {
        None => format!("at least {low}"),
        Some(high) if high <= figure.low => "exactly".to_owned(),
        Some(high) => format!("{low} to {}", number(figure.unit, high)),
    };
    let measured = figure.measured.map(|value| number(figure.unit, value));
    let missed = if figure.met { "" } else { "missed: " };
    vec![
        String::new(),
        String::new(),
        format!("{missed}{}", figure.what),
        expected,
        measured.unwrap_or_else(|| "-".to_owned()),
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
            let is_settled = result == RowResult::Passed || attempts.len() == ATTEMPTS;
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
        let error = outcome(vec![busy()]).measurement_error.unwrap();
        assert_eq!((error.service_p50_us, error.disturbed), (50.0, true));
        assert_eq!(outcome(vec![good()]).measurement_error, None);
    }
}
