//! The outcome as a table, for a terminal and for a file. A pure function.

use std::fmt::Write;

use crawlmark_results::show::text::{grouped_f64, micros, wrapped};

use super::figure::{Figure, Quantity, Unit};
use super::outcome::{Outcome, RowOutcome, Standing};

/// Columns of the names of figures, of each number, and of an error.
const WHAT: usize = 20;
const NUMBER: usize = 14;
const ERROR: usize = 9;

/// Columns before a text below the name of its row.
const INDENT: usize = 6;

/// Up to here a line of text is no wider than is easily read.
const WIDEST: usize = 100;

/// The table, the verdict, and this machine's error, for a terminal of so many columns.
pub(super) fn table(outcome: &Outcome, columns: usize) -> String {
    let width = columns.min(WIDEST);
    let mut out = String::new();
    write_columns(&mut out, ["row", "expected", "measured", "error", "tolerance"], "  ");
    for (at, row) in outcome.rows.iter().enumerate() {
        write_row(&mut out, row);
        if row.result != Standing::Passed {
            write_disturbances(&mut out, row, &outcome.rows[..at], width);
        }
    }
    out.push('\n');
    write_text(&mut out, "verdict", &format!("{}: {}", outcome.verdict.name(), outcome.sentence), width);
    if let Some(error) = &outcome.measurement_error {
        write_text(&mut out, "error", &error.sentence, width);
    }
    out
}

fn write_columns(out: &mut String, columns: [&str; 5], mark: &str) {
    let [what, expected, measured, error, tolerance] = columns;
    let line =
        format!("  {mark:<2}{what:<WHAT$}  {expected:>NUMBER$}  {measured:>NUMBER$}  {error:>ERROR$}  {tolerance}");
    let _ = writeln!(out, "{}", line.trim_end());
}

fn write_text(out: &mut String, name: &str, text: &str, width: usize) {
    const NAME: usize = 11;
    let mut name = name;
    for line in wrapped(text, width.saturating_sub(NAME + 3)) {
        let _ = writeln!(out, "  {name:<NAME$} {line}");
        name = "";
    }
}

fn write_row(out: &mut String, row: &RowOutcome) {
    let attempts = match row.attempts.len() {
        0 | 1 => String::new(),
        attempts => format!(" ({attempts} attempts)"),
    };
    let _ = writeln!(out, "\n  {}  {:<9}  {}{attempts}", row.row, row.result.name(), row.tests);
    for figure in &row.figures {
        let measured = figure.measured.as_ref().map_or_else(|| "-".to_owned(), |measured| quantity(figure, measured));
        let error = figure.error.map_or_else(String::new, |error| signed(figure, error));
        let expected = quantity(figure, &figure.expected);
        let columns = [figure.what.as_str(), &expected, &measured, &error, &tolerance(figure)];
        write_columns(out, columns, if figure.met { "" } else { "!" });
    }
}

/// Reason why attempts at a row do not count. What was said of a row above it, whose runs were the same, is not said again.
fn write_disturbances(out: &mut String, row: &RowOutcome, above: &[RowOutcome], width: usize) {
    let whys = |row: &RowOutcome| -> Vec<Vec<String>> {
        row.attempts.iter().map(|attempt| attempt.disturbed_by.clone()).collect()
    };
    let own = whys(row);
    let same = above.iter().find(|other| other.result != Standing::Passed && whys(other) == own);
    let mut texts = Vec::new();
    if let Some(same) = same.filter(|_| own.iter().any(|reasons| !reasons.is_empty())) {
        texts.push(format!("attempts do not count for the reasons of {}", same.row));
    } else {
        // What was seen first tells enough; all of it, and what can be done, is in the JSON.
        let first = own.iter().map(|reasons| reasons.first().and_then(|reason| reason.split("; ").next()));
        let told = (1..).zip(first).filter_map(|(number, reason)| Some((number, reason?)));
        texts.extend(told.map(|(number, reason): (u32, &str)| format!("attempt {number} does not count: {reason}")));
    }
    for line in texts.iter().flat_map(|text| wrapped(text, width.saturating_sub(INDENT))) {
        let _ = writeln!(out, "{:INDENT$}{line}", "");
    }
}

fn quantity(figure: &Figure, quantity: &Quantity) -> String {
    match quantity {
        Quantity::Word(word) => word.clone(),
        Quantity::Number(value) => number(figure, *value),
    }
}

/// A number of a figure, as precise as it is worth.
fn number(figure: &Figure, value: f64) -> String {
    match (figure.unit, &figure.expected) {
        (Unit::Us, _) if value == 0.0 => "0".to_owned(),
        (Unit::Us, _) => micros(value),
        (Unit::Ratio, Quantity::Number(expected)) if *expected >= 10.0 => format!("{value:.1}"),
        (Unit::Ratio, _) => format!("{value:.3}"),
        (Unit::Count | Unit::Word, _) => grouped_f64(value),
    }
}

fn signed(figure: &Figure, value: f64) -> String {
    let size = number(figure, value.abs());
    // What is shown as nothing has no direction.
    match (size.contains(|c: char| ('1'..='9').contains(&c)), value < 0.0) {
        (false, _) => "0".to_owned(),
        (true, false) => format!("+{size}"),
        (true, true) => format!("-{size}"),
    }
}

/// By how much a figure may differ from what is expected.
fn tolerance(figure: &Figure) -> String {
    let Quantity::Number(expected) = figure.expected else { return "exactly".to_owned() };
    let (scale, unit) = if figure.unit == Unit::Us { (1e3, " ms") } else { (1.0, "") };
    // What is left of a difference in binary is not worth a digit.
    let short = |value: f64| format!("{}", (value / scale * 1e3).round() / 1e3);
    match (figure.low, figure.high) {
        (Some(low), Some(high)) => match (short(expected - low).as_str(), short(high - expected).as_str()) {
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
    use super::super::outcome::{Circumstances, RowOutcome};
    use super::*;
    use crate::cli::Row;
    use crawlmark_results::run::report::{Environment, Placement};

    fn figure(unit: Unit, expected: f64, measured: Option<f64>, allowed: Allowed) -> Figure {
        Figure::number("service p99", (unit, expected), measured, allowed)
    }

    #[test]
    fn a_tolerance_is_said_as_what_may_differ() {
        for (unit, expected, allowed, said) in [
            (Unit::Us, 20_000.0, Allowed::between(20_000.0, 25_000.0), "0/+5 ms"),
            (Unit::Us, 920_000.0, Allowed::between(910_000.0, 980_000.0), "-10/+60 ms"),
            (Unit::Ratio, 2.0, Allowed::between(1.94, 2.06), "\u{b1}0.06"),
            (Unit::Ratio, 47.0, Allowed::at_least(8.0), "at least 8"),
            (Unit::Count, 80.0, Allowed::exactly(80.0), "exactly"),
        ] {
            assert_eq!(tolerance(&figure(unit, expected, None, allowed)), said);
        }
        assert_eq!(tolerance(&Figure::word("verdict", "valid", "valid")), "exactly");
    }

    #[test]
    fn an_error_has_a_sign_unless_it_is_too_small_to_show() {
        let ratio = figure(Unit::Ratio, 2.0, None, Allowed::at_least(0.0));
        assert_eq!(
            [0.0, -0.000_4, 0.000_4, -0.006, 0.5].map(|error| signed(&ratio, error)),
            ["0", "0", "0", "-0.006", "+0.500"]
        );
        let time = figure(Unit::Us, 2.0, None, Allowed::at_least(0.0));
        assert_eq!([0.0, -1_500.0, 48.4].map(|error| signed(&time, error)), ["0", "-1.50 ms", "+48.4 µs"]);
    }

    fn outcome() -> Outcome {
        let good = figure(Unit::Us, 20_000.0, Some(20_400.0), Allowed::between(20_000.0, 25_000.0));
        let bad = figure(Unit::Us, 20_000.0, Some(26_000.0), Allowed::between(20_000.0, 25_000.0));
        let reason = "shard 0 spent 31 % of the run waiting for a CPU, so some responses were read late and look \
                      slower than they were";
        let attempt = |disturbed_by: &[&str], figure: &Figure| Attempt {
            disturbed_by: disturbed_by.iter().map(|reason| (*reason).to_owned()).collect(),
            figures: vec![figure.clone(), Figure::word("verdict", "client_limited", "client_limited")],
        };
        let rows = vec![
            RowOutcome::of(Row::R1, vec![attempt(&[], &good)]),
            RowOutcome::of(Row::R2, vec![attempt(&[reason], &bad); 3]),
            RowOutcome::of(Row::R3, vec![attempt(&[], &bad), attempt(&[reason], &bad), attempt(&[], &bad)]),
            RowOutcome::of(Row::R4, Vec::new()),
            RowOutcome::of(Row::R5, vec![attempt(&[reason], &good); 3]),
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
            for (row, result) in [("R1", "passed"), ("R2", "disturbed"), ("R3", "FAILED"), ("R4", "not run")] {
                let line = table.lines().find(|line| line.trim_start().starts_with(row)).unwrap();
                assert!(line.starts_with(&format!("  {row}  {result} ")), "{line}");
            }
            assert!(table.contains("      attempts do not count for the reasons of R2\n"), "{table}");
            assert!(table.contains("      attempt 2 does not count: shard 0 spent"), "{table}");
            assert_eq!(table.matches("\n  ! service p99").count(), 2, "{table}");
        }
    }
}
