//! The outcome: the result of each row over its attempts, and the verdict over all. Saved as
//! `selftest.json` (`crawlmark.selftest/1`); everything shown is rendered from it.

use crawlmark_results::run::report::{Environment, Placement};
use crawlmark_results::show::text::micros;
use crawlmark_results::studies::Header;
use serde::{Deserialize, Serialize};

use super::figure::{SelftestFigure, Unit};
use super::judge::Attempt;
use crate::cli::Row;

/// Attempts at a row, at most.
pub(super) const ATTEMPTS: usize = 3;

/// Attempts that count and miss, before a row has failed: one alone may be noise that no gate
/// knows.
const MISSES: usize = 2;

/// Result of a row, or of all of them; the gravest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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
    /// The name used in reports.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Disturbed => "disturbed",
            Self::NotRun => "not run",
            Self::Failed => "FAILED",
        }
    }
}

/// A row, after its attempts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    pub(crate) figures: Vec<SelftestFigure>,
    /// All attempts.
    pub(crate) attempts: Vec<Attempt>,
}

impl RowOutcome {
    /// Create the outcome of `row` from its attempts.
    pub(super) fn of(row: Row, attempts: Vec<Attempt>) -> Self {
        let missed =
            |attempt: &&Attempt| attempt.figures.iter().filter(|figure| !figure.met).count();
        let counted = || attempts.iter().filter(|attempt| attempt.counts());
        let impossible = attempts.iter().find(|attempt| attempt.is_impossible());
        let decided = impossible
            .or_else(|| counted().min_by_key(missed))
            .or_else(|| attempts.iter().min_by_key(missed));
        let figures = decided
            .map(|attempt| attempt.figures.clone())
            .unwrap_or_default();
        let result = if impossible.is_some() {
            RowResult::Failed
        } else if attempts.iter().any(Attempt::passes) {
            RowResult::Passed
        } else if attempts.is_empty() {
            RowResult::NotRun
        } else if counted().count() >= MISSES {
            RowResult::Failed
        } else {
            RowResult::Disturbed
        };
        Self {
            row: row.name().to_owned(),
            tests: tests(row).to_owned(),
            result,
            figures,
            attempts,
        }
    }

    /// True if another attempt can change anything.
    pub(super) fn is_settled(&self) -> bool {
        let is_sure =
            self.result == RowResult::Passed || self.attempts.iter().any(Attempt::is_impossible);
        is_sure || self.attempts.len() >= ATTEMPTS
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct MeasurementError {
    /// Excess of the measured service time at the median, µs.
    pub(crate) service_p50_us: f64,
    /// Excess of the measured service time at the 99th percentile, µs.
    pub(crate) service_p99_us: f64,
    /// True if that is the machine's, or that of a disturbed one.
    pub(crate) disturbed: bool,
    /// In words.
    pub(crate) sentence: String,
}

impl MeasurementError {
    fn of(rows: &[RowOutcome]) -> Option<Self> {
        let row = rows.iter().find(|row| row.row == Row::R2.name())?;
        let mut times = row
            .figures
            .iter()
            .filter(|figure| figure.unit == Unit::Us)
            .map(SelftestFigure::measured_number);
        let (p50, p99) = (times.next()??, times.next()??);
        let disturbed = row.result == RowResult::Disturbed;
        let caveat = if disturbed {
            ", disturbed as it was,"
        } else {
            ""
        };
        let sentence = format!(
            "service times on this machine{caveat} read {} too high at the median and {} at the 99th percentile",
            micros(p50),
            micros(p99)
        );
        Some(Self {
            service_p50_us: p50,
            service_p99_us: p99,
            disturbed,
            sentence,
        })
    }
}

/// The whole outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SelftestResult {
    /// Fields of every study.
    #[serde(flatten)]
    pub(crate) header: Header,
    /// `full` or `quick`.
    pub(crate) form: String,
    /// The gravest of the rows'.
    pub(crate) verdict: RowResult,
    /// Explanation of the verdict.
    pub(crate) sentence: String,
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
        let verdict = rows
            .iter()
            .map(|row| row.result)
            .max()
            .unwrap_or(RowResult::NotRun);
        Self {
            header,
            form: form.to_owned(),
            verdict,
            sentence: sentence(verdict, &rows),
            measurement_error: MeasurementError::of(&rows),
            environment: Environment::read(Placement::Colocated),
            rows,
        }
    }
}

/// The verdict in a sentence.
fn sentence(verdict: RowResult, rows: &[RowOutcome]) -> String {
    let named = |result| {
        let names: Vec<&str> = rows
            .iter()
            .filter(|row| row.result == result)
            .map(|row| row.row.as_str())
            .collect();
        match names.split_last() {
            Some((last, [])) => (*last).to_owned(),
            Some((last, others)) => format!("{} and {last}", others.join(", ")),
            None => String::new(),
        }
    };
    match verdict {
        RowResult::Passed => {
            "measurements on this machine are correct, within the tolerances shown".to_owned()
        }
        RowResult::Failed => format!(
            "{} failed: do not rely on measurements on this machine until the reason is known",
            named(RowResult::Failed)
        ),
        RowResult::Disturbed => format!(
            "nothing failed, but {} could not be judged: the machine was busy; try again when it is idle",
            named(RowResult::Disturbed)
        ),
        RowResult::NotRun => format!(
            "stopped before {} could be judged",
            named(RowResult::NotRun)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::figure::Allowed;
    use super::*;

    fn attempt(disturbed_by: &[&str], us: f64) -> Attempt {
        let figure = |what| {
            SelftestFigure::number(
                what,
                (Unit::Us, 0.0),
                Some(us),
                Allowed::between(0.0, 100.0),
            )
        };
        Attempt {
            disturbed_by: disturbed_by
                .iter()
                .map(|reason| (*reason).to_owned())
                .collect(),
            figures: vec![figure("p50"), figure("p99")],
        }
    }

    #[test]
    fn a_row_is_what_the_best_of_its_attempts_that_count_is() {
        let (good, bad) = (attempt(&[], 50.0), attempt(&[], 500.0));
        let (good_disturbed, bad_disturbed) =
            (attempt(&["steal"], 50.0), attempt(&["steal"], 500.0));
        for (attempts, result) in [
            (vec![], RowResult::NotRun),
            (vec![&good], RowResult::Passed),
            (vec![&bad, &bad, &good], RowResult::Passed),
            (vec![&bad_disturbed, &good], RowResult::Passed),
            (vec![&bad, &bad, &bad], RowResult::Failed),
            (vec![&bad, &bad_disturbed, &bad], RowResult::Failed),
            (
                vec![&bad, &bad_disturbed, &good_disturbed],
                RowResult::Disturbed,
            ),
            (
                vec![&good_disturbed, &good_disturbed, &good_disturbed],
                RowResult::Disturbed,
            ),
        ] {
            let outcome = RowOutcome::of(
                Row::R2,
                attempts.iter().map(|attempt| (*attempt).clone()).collect(),
            );
            assert_eq!(outcome.result, result, "{attempts:?}");
            assert_eq!(
                outcome.is_settled(),
                result == RowResult::Passed || attempts.len() == 3,
                "{attempts:?}"
            );
        }
        let outcome = RowOutcome::of(
            Row::R2,
            vec![bad_disturbed, bad.clone(), good_disturbed.clone()],
        );
        assert_eq!(outcome.figures, bad.figures, "what counts is shown");
        let mut impossible = good_disturbed;
        impossible.figures[0].impossible = true;
        for attempts in [vec![impossible.clone()], vec![good, impossible.clone()]] {
            let outcome = RowOutcome::of(Row::R2, attempts);
            assert!(outcome.result == RowResult::Failed && outcome.is_settled());
            assert_eq!(outcome.figures, impossible.figures);
        }
    }

    fn outcome(rows: Vec<RowOutcome>, interrupted_by: Option<i32>) -> SelftestResult {
        let header = Header {
            interrupted: interrupted_by.is_some(),
            ..Header::new::<SelftestResult>("selftest", ["2026-01-02T03:04:05Z"; 2])
        };
        SelftestResult::new(header, "full", rows)
    }

    #[test]
    fn the_gravest_row_decides_and_scripts_see_it() {
        let row =
            |row, disturbed: &[&str], us| RowOutcome::of(row, vec![attempt(disturbed, us); 3]);
        let good = || row(Row::R1, &[], 50.0);
        for (rows, signal, code, says) in [
            (vec![good()], None, 0, "are correct"),
            (
                vec![good(), row(Row::R2, &["steal"], 50.0)],
                None,
                5,
                "but R2 could not be judged",
            ),
            (
                vec![
                    row(Row::R2, &["steal"], 50.0),
                    row(Row::R3, &[], 500.0),
                    good(),
                ],
                None,
                3,
                "R3 failed",
            ),
            (
                vec![good(), RowOutcome::of(Row::R4, vec![])],
                Some(2),
                5,
                "before R4 could be judged",
            ),
            (
                vec![good(), RowOutcome::of(Row::R4, vec![])],
                None,
                5,
                "before R4",
            ),
        ] {
            let outcome = outcome(rows, signal);
            assert_eq!(crate::study::exit_code(&outcome), code, "{says}");
            assert!(outcome.sentence.contains(says), "{}", outcome.sentence);
        }
    }

    #[test]
    fn the_error_of_measurements_is_said_in_words_and_only_when_it_was_seen() {
        let seen = outcome(
            vec![RowOutcome::of(Row::R2, vec![attempt(&[], 90.0)])],
            None,
        )
        .measurement_error
        .unwrap();
        assert_eq!((seen.service_p50_us, seen.disturbed), (90.0, false));
        assert!(
            seen.sentence.contains("90.0 µs too high at the median"),
            "{}",
            seen.sentence
        );
        let disturbed = outcome(
            vec![RowOutcome::of(Row::R2, vec![attempt(&["x"], 90.0)])],
            None,
        );
        assert!(
            disturbed
                .measurement_error
                .unwrap()
                .sentence
                .contains("disturbed")
        );
        assert!(
            outcome(vec![RowOutcome::of(Row::R1, vec![attempt(&[], 9.0)])], None)
                .measurement_error
                .is_none()
        );
        assert!(
            outcome(vec![RowOutcome::of(Row::R2, vec![])], None)
                .measurement_error
                .is_none()
        );
    }
}
