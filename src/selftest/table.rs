//! The outcome as a document.

use crawlmark_results::show::doc::{Column, Doc, Severity, Table};
use crawlmark_results::show::text::{grouped_f64, micros};
use crawlmark_results::studies::{Conclusion, StudyResult};

use super::figure::{Quantity, SelftestFigure, Unit};
use super::outcome::{RowOutcome, RowResult, SelftestResult};

impl StudyResult for SelftestResult {
    const SCHEMA: &'static str = "crawlmark.selftest/1";

    const FILE: &'static str = "selftest.json";

    fn doc(&self) -> Doc {
        let above = |at: usize| &self.rows[..at];
        let rows = self
            .rows
            .iter()
            .enumerate()
            .flat_map(|(at, row)| rows(row, above(at)))
            .collect();
        let columns = vec![
            Column::sentences("row"),
            Column::words(""),
            Column::words("figure"),
            Column::numbers("expected"),
            Column::numbers("measured"),
            Column::numbers("error"),
            Column::words("tolerance"),
            Column::sentences(""),
        ];
        let severity = match self.verdict {
            RowResult::Passed => Severity::Good,
            RowResult::Disturbed | RowResult::NotRun => Severity::Warning,
            RowResult::Failed => Severity::Bad,
        };
        let error = self
            .measurement_error
            .as_ref()
            .map(|error| ("error", error.sentence.clone()));
        Doc::new(format!("{}: {}", self.header.name, self.verdict.name()))
            .headline(
                severity,
                &format!("{}: {}", self.verdict.name(), self.sentence),
            )
            .facts(error)
            .table(Table {
                columns,
                rows,
                ..Table::default()
            })
            .in_files()
            .text(format!(
                "{}, {} cores. {}",
                self.environment
                    .cpu_model
                    .as_deref()
                    .unwrap_or("an unknown CPU"),
                self.environment.cores,
                self.header.made_by()
            ))
    }

    fn conclusion(&self) -> Conclusion {
        match self.verdict {
            RowResult::Passed => Conclusion::Done,
            RowResult::Failed => Conclusion::Failed,
            RowResult::Disturbed | RowResult::NotRun => Conclusion::Inconclusive,
        }
    }
}

/// Lines of the table for a row: one per figure, the first with the result, the last with the
/// attempts that do not count.
fn rows(row: &RowOutcome, above: &[RowOutcome]) -> Vec<Vec<String>> {
    let attempts = match row.attempts.len() {
        0 | 1 => String::new(),
        tries => format!(" ({tries} tries)"),
    };
    let line = |figure: &SelftestFigure| {
        let error = figure
            .error
            .map_or_else(String::new, |error| signed(figure, error));
        let measured = figure
            .measured
            .as_ref()
            .map_or_else(|| "-".to_owned(), |measured| quantity(figure, measured));
        let mark = if figure.met { "" } else { "!" };
        let expected = quantity(figure, &figure.expected);
        let figures = [
            mark.to_owned(),
            figure.what.clone(),
            expected,
            measured,
            error,
            tolerance(figure),
        ];
        [String::new()]
            .into_iter()
            .chain(figures)
            .chain([String::new()])
            .collect()
    };
    let mut lines: Vec<Vec<String>> = row.figures.iter().map(line).collect();
    if lines.is_empty() {
        lines.push(vec![String::new(); 8]);
    }
    if let Some(name) = lines.first_mut().and_then(|line| line.first_mut()) {
        *name = format!(
            "{}  {}: {}{attempts}",
            row.row,
            row.result.name(),
            row.tests
        );
    }
    if let Some(notes) = lines
        .last_mut()
        .and_then(|line| line.last_mut())
        .filter(|_| row.result != RowResult::Passed)
    {
        *notes = disturbances(row, above).join("\n");
    }
    lines
}

/// Reason why attempts at a row do not count. What was said of a row above it, whose runs were the
/// same, is not said again.
fn disturbances(row: &RowOutcome, above: &[RowOutcome]) -> Vec<String> {
    let whys = |row: &RowOutcome| -> Vec<Vec<String>> {
        row.attempts
            .iter()
            .map(|attempt| attempt.disturbed_by.clone())
            .collect()
    };
    let own = whys(row);
    let same = above
        .iter()
        .find(|other| other.result != RowResult::Passed && whys(other) == own);
    if let Some(same) = same.filter(|_| own.iter().any(|reasons| !reasons.is_empty())) {
        return vec![format!(
            "tries do not count for the reasons of {}",
            same.row
        )];
    }
    // What was seen first tells enough; all of it, and what can be done, is in the JSON.
    let first = own.iter().map(|reasons| {
        reasons
            .first()
            .and_then(|reason| reason.split(". ").next()?.split("; ").next())
    });
    let told = (1..)
        .zip(first)
        .filter_map(|(number, reason)| Some((number, reason?)));
    told.map(|(number, reason): (u32, &str)| format!("try {number} does not count: {reason}"))
        .collect()
}

fn quantity(figure: &SelftestFigure, quantity: &Quantity) -> String {
    match quantity {
        Quantity::Word(word) => word.clone(),
        Quantity::Number(value) => number(figure, *value),
    }
}

/// A number of a figure, as precise as it is worth.
fn number(figure: &SelftestFigure, value: f64) -> String {
    match (figure.unit, &figure.expected) {
        (Unit::Us, _) if value == 0.0 => "0".to_owned(),
        (Unit::Us, _) => micros(value),
        (Unit::Ratio, Quantity::Number(expected)) if *expected >= 10.0 => format!("{value:.1}"),
        (Unit::Ratio, _) => format!("{value:.3}"),
        (Unit::Count | Unit::Word, _) => grouped_f64(value),
    }
}

fn signed(figure: &SelftestFigure, value: f64) -> String {
    let size = number(figure, value.abs());
    // What is shown as nothing has no direction.
    match (
        size.contains(|c: char| ('1'..='9').contains(&c)),
        value < 0.0,
    ) {
        (false, _) => "0".to_owned(),
        (true, false) => format!("+{size}"),
        (true, true) => format!("-{size}"),
    }
}

/// By how much a figure may differ from what is expected.
fn tolerance(figure: &SelftestFigure) -> String {
    let Quantity::Number(expected) = figure.expected else {
        return "exactly".to_owned();
    };
    let (scale, unit) = if figure.unit == Unit::Us {
        (1e3, " ms")
    } else {
        (1.0, "")
    };
    // What is left of a difference in binary is not worth a digit.
    let short = |value: f64| format!("{}", (value / scale * 1e3).round() / 1e3);
    match (figure.low, figure.high) {
        (Some(low), Some(high)) => match (
            short(expected - low).as_str(),
            short(high - expected).as_str(),
        ) {
            ("0", "0") => "exactly".to_owned(),
            (below, above) if below == above => format!("\u{b1}{above}{unit}"),
            ("0", above) => format!("0/+{above}{unit}"),
            (below, above) => format!("-{below}/+{above}{unit}"),
        },
        (Some(low), None) => format!("at least {}{unit}", short(low)),
        (None, Some(high)) => format!("at most {}{unit}", short(high)),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::figure::Allowed;
    use super::super::judge::Attempt;
    use super::super::outcome::RowOutcome;
    use super::*;
    use crate::cli::Row;
    use crawlmark_results::studies::Header;

    fn figure(
        unit: Unit,
        expected: f64,
        measured: Option<f64>,
        allowed: Allowed,
    ) -> SelftestFigure {
        SelftestFigure::number("service p99", (unit, expected), measured, allowed)
    }

    #[test]
    fn a_tolerance_is_said_as_what_may_differ() {
        for (unit, expected, allowed, said) in [
            (
                Unit::Us,
                20_000.0,
                Allowed::between(20_000.0, 25_000.0),
                "0/+5 ms",
            ),
            (
                Unit::Us,
                920_000.0,
                Allowed::between(910_000.0, 980_000.0),
                "-10/+60 ms",
            ),
            (Unit::Ratio, 2.0, Allowed::between(1.94, 2.06), "\u{b1}0.06"),
            (Unit::Ratio, 47.0, Allowed::at_least(8.0), "at least 8"),
            (Unit::Count, 80.0, Allowed::exactly(80.0), "exactly"),
        ] {
            assert_eq!(tolerance(&figure(unit, expected, None, allowed)), said);
        }
        assert_eq!(
            tolerance(&SelftestFigure::word("verdict", "valid", "valid")),
            "exactly"
        );
    }

    #[test]
    fn an_error_has_a_sign_unless_it_is_too_small_to_show() {
        let ratio = figure(Unit::Ratio, 2.0, None, Allowed::at_least(0.0));
        assert_eq!(
            [0.0, -0.000_4, 0.000_4, -0.006, 0.5].map(|error| signed(&ratio, error)),
            ["0", "0", "0", "-0.006", "+0.500"]
        );
        let time = figure(Unit::Us, 2.0, None, Allowed::at_least(0.0));
        assert_eq!(
            [0.0, -1_500.0, 48.4].map(|error| signed(&time, error)),
            ["0", "-1.50 ms", "+48.4 µs"]
        );
    }

    fn outcome() -> SelftestResult {
        let good = figure(
            Unit::Us,
            20_000.0,
            Some(20_400.0),
            Allowed::between(20_000.0, 25_000.0),
        );
        let bad = figure(
            Unit::Us,
            20_000.0,
            Some(26_000.0),
            Allowed::between(20_000.0, 25_000.0),
        );
        let reason = "shard 0 spent 31 % of the run waiting for a CPU, so some responses were read late and look \
                      slower than they were";
        let attempt = |disturbed_by: &[&str], figure: &SelftestFigure| Attempt {
            disturbed_by: disturbed_by
                .iter()
                .map(|reason| (*reason).to_owned())
                .collect(),
            figures: vec![
                figure.clone(),
                SelftestFigure::word("verdict", "client_limited", "client_limited"),
            ],
        };
        let rows = vec![
            RowOutcome::of(Row::R1, vec![attempt(&[], &good)]),
            RowOutcome::of(Row::R2, vec![attempt(&[reason], &bad); 3]),
            RowOutcome::of(
                Row::R3,
                vec![
                    attempt(&[], &bad),
                    attempt(&[reason], &bad),
                    attempt(&[], &bad),
                ],
            ),
            RowOutcome::of(Row::R4, Vec::new()),
            RowOutcome::of(Row::R5, vec![attempt(&[reason], &good); 3]),
        ];
        let header = Header::new::<SelftestResult>("selftest", ["2026-01-02T03:04:05Z"; 2]);
        SelftestResult::new(header, "full", rows)
    }

    #[test]
    fn it_fits_the_terminal_and_says_what_every_row_came_to() {
        for columns in [80, 140, usize::MAX] {
            let table = outcome().doc().terminal(columns);
            assert!(
                table.lines().all(|line| line.chars().count() <= columns),
                "{columns}:\n{table}"
            );
            assert!(table.lines().all(|line| line == line.trim_end()));
            for (row, result) in [
                ("R1", "passed"),
                ("R2", "disturbed"),
                ("R3", "FAILED"),
                ("R4", "not run"),
            ] {
                assert!(table.contains(&format!("\n  {row}  {result}: ")), "{table}");
            }
            assert!(
                table.contains("      tries do not count for the reasons of R2\n"),
                "{table}"
            );
            assert!(
                table.contains("      try 2 does not count: shard 0 spent"),
                "{table}"
            );
            assert_eq!(table.matches("\n    !  service p99").count(), 2, "{table}");
        }
    }
}
