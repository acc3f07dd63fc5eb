//! The outcome as a table, for a terminal and for a file. A pure function.

use std::fmt::Write;

use crawlmark_harness::render::{grouped_f64, micros, wrapped};

use super::figure::{Figure, Quantity, Unit};
use super::outcome::{Outcome, RowOutcome, Standing};

/// Columns of the names of figures, of each number, and of a tolerance.
const WHAT: usize = 22;
const NUMBER: usize = 10;
const TOLERANCE: usize = 14;

/// Up to here a line of text is no wider than the table.
const WIDEST: usize = 100;

/// The table, the verdict, and this machine's error, for a terminal of so many columns.
pub(super) fn table(outcome: &Outcome, columns: usize) -> String {
    let width = columns.min(WIDEST);
    let mut out = String::new();
    let _ = writeln!(
        out,
        "  {:<WHAT$}  {:>NUMBER$}  {:>NUMBER$}  {:>NUMBER$}  {:<TOLERANCE$}",
        "row, and its figures", "expected", "measured", "error", "tolerance"
    );
    for row in &outcome.rows {
        write_row(&mut out, row, width);
    }
    let _ = writeln!(out);
    let mut say = |name: &str, text: &str| {
        let mut name = name;
        for line in wrapped(text, width.saturating_sub(14)) {
            let _ = writeln!(out, "  {name:<11} {line}");
            name = "";
        }
    };
    say("verdict", &format!("{}: {}", outcome.verdict.name(), outcome.sentence));
    if let Some(error) = &outcome.measurement_error {
        say("error", &error.sentence);
    }
    out
}

fn write_row(out: &mut String, row: &RowOutcome, width: usize) {
    let result = match (row.result, row.attempts.len()) {
        (Standing::Passed, 1) | (Standing::NotRun, _) => row.result.name().to_owned(),
        (result, attempts) => format!("{}, attempt {attempts}", result.name()),
    };
    let title = format!("{}  {}", row.row, row.tests);
    let _ = writeln!(out, "\n  {title:<58}  {result}");
    for figure in &row.figures {
        let tolerance = tolerance(figure);
        let line = format!(
            "    {:<w$}  {:>NUMBER$}  {:>NUMBER$}  {:>NUMBER$}  {tolerance:<TOLERANCE$}{}",
            figure.what,
            quantity(figure.unit, Some(&figure.expected)),
            quantity(figure.unit, figure.measured.as_ref()),
            figure.error.map_or_else(String::new, |error| signed(figure.unit, error)),
            if figure.met { "" } else { "  no" },
            w = WHAT - 2,
        );
        let _ = writeln!(out, "{}", line.trim_end());
    }
    if row.result != Standing::Passed {
        for (number, attempt) in (1..).zip(&row.attempts) {
            // One reason tells enough; all of them are in the JSON.
            let Some(reason) = attempt.disturbed_by.first() else { continue };
            let text = format!("attempt {number} does not count: {reason}");
            for line in wrapped(&text, width.saturating_sub(6)) {
                let _ = writeln!(out, "      {line}");
            }
        }
    }
}

fn quantity(unit: Unit, quantity: Option<&Quantity>) -> String {
    match quantity {
        None => "-".to_owned(),
        Some(Quantity::Word(word)) => word.clone(),
        Some(Quantity::Number(value)) => number(unit, *value),
    }
}

fn number(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Us if value == 0.0 => "0".to_owned(),
        Unit::Us => micros(value),
        Unit::Ratio if value >= 10.0 => format!("{value:.1}"),
        Unit::Ratio => format!("{value:.3}"),
        Unit::Count | Unit::Word => grouped_f64(value),
    }
}

fn signed(unit: Unit, value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    format!("{}{}", if value < 0.0 { '-' } else { '+' }, number(unit, value.abs()))
}

/// What a figure may differ by from what is expected.
fn tolerance(figure: &Figure) -> String {
    let Quantity::Number(expected) = figure.expected else { return "exactly".to_owned() };
    let unit = figure.unit;
    match (figure.low, figure.high) {
        (Some(low), Some(high)) if low == high => "exactly".to_owned(),
        (Some(low), Some(high)) if (high - expected - (expected - low)).abs() < 1e-9 => {
            format!("+-{}", number(unit, high - expected))
        }
        (Some(low), Some(high)) if low == expected => format!("0 to {}", signed(unit, high - expected)),
        (Some(low), Some(high)) => format!("{} to {}", signed(unit, low - expected), signed(unit, high - expected)),
        (Some(low), None) => format!("at least {}", number(unit, low)),
        (None, Some(high)) => format!("at most {}", number(unit, high)),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::figure::Allowed;
    use super::super::judge::Attempt;
    use super::super::outcome::{Circumstances, RowOutcome};
    use super::*;
    use crate::cli::Row;
    use crawlmark_harness::report::{Environment, Placement};

    fn figure(unit: Unit, expected: f64, measured: Option<f64>, allowed: Allowed) -> Figure {
        Figure::number("service p99", (unit, expected), measured, allowed)
    }

    #[test]
    fn a_tolerance_is_said_as_what_may_differ() {
        for (unit, expected, allowed, said) in [
            (Unit::Us, 20_000.0, Allowed::between(20_000.0, 25_000.0), "0 to +5.00 ms"),
            (Unit::Us, 920_000.0, Allowed::between(910_000.0, 980_000.0), "-10.0 ms to +60.0 ms"),
            (Unit::Ratio, 2.0, Allowed::between(1.94, 2.06), "+-0.060"),
            (Unit::Ratio, 47.0, Allowed::at_least(8.0), "at least 8.000"),
            (Unit::Count, 80.0, Allowed::exactly(80.0), "exactly"),
        ] {
            assert_eq!(tolerance(&figure(unit, expected, None, allowed)), said);
        }
        assert_eq!(tolerance(&Figure::word("verdict", "valid", "valid")), "exactly");
    }

    fn outcome() -> Outcome {
        let good = figure(Unit::Us, 20_000.0, Some(20_400.0), Allowed::between(20_000.0, 25_000.0));
        let bad = figure(Unit::Us, 20_000.0, Some(26_000.0), Allowed::between(20_000.0, 25_000.0));
        let reason = "shard 0 waited for its CPU for 31 % of its time: that was given to something else, and answers \
                      that lay unread meanwhile seem slow";
        let attempt = |disturbed_by: &[&str], figure: &Figure| Attempt {
            disturbed_by: disturbed_by.iter().map(|reason| (*reason).to_owned()).collect(),
            figures: vec![figure.clone(), Figure::word("verdict", "client_limited", "client_limited")],
        };
        let rows = vec![
            RowOutcome::of(Row::R1, vec![attempt(&[], &good)]),
            RowOutcome::of(Row::R2, vec![attempt(&[reason], &bad); 3]),
            RowOutcome::of(Row::R3, vec![attempt(&[], &bad), attempt(&[reason], &bad), attempt(&[], &bad)]),
            RowOutcome::of(Row::R4, Vec::new()),
        ];
        let now = "2026-01-02T03:04:05Z".to_owned();
        Outcome::new(
            rows,
            Circumstances {
                started_at: now.clone(),
                finished_at: now,
                form: "full",
                interrupted_by: None,
                environment: Environment::read(Placement::Colocated),
            },
        )
    }

    #[test]
    fn it_fits_the_terminal_and_says_what_every_row_came_to() {
        for columns in [80, 140, usize::MAX] {
            let table = table(&outcome(), columns);
            assert!(table.lines().all(|line| line.chars().count() <= columns), "{columns}:\n{table}");
            assert!(table.lines().all(|line| line == line.trim_end()));
            for (row, result) in
                [("R1", "passed"), ("R2", "disturbed, attempt 3"), ("R3", "FAILED, attempt 3"), ("R4", "not run")]
            {
                let line = table.lines().find(|line| line.trim_start().starts_with(row)).unwrap();
                assert!(line.ends_with(result), "{line}");
            }
            assert!(table.contains("attempt 2 does not count: shard 0 waited"), "{table}");
            assert_eq!(table.matches("  no\n").count(), 2, "{table}");
        }
    }
}
