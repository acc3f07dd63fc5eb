//! The seconds of a run as lines of characters, each from zero to its greatest value.

use crate::run::report::{IntervalRow, Report};
use crate::show::doc::{Column, Table};
use crate::show::page::columns::{Columns, Most};
use crate::show::text::{block, grouped_f64, micros};

/// The line of values, and the greatest of them; a value that is not known is a dot. None of fewer
/// than two that are, and of nothing but zeros.
fn sparkline(values: &[Option<f64>]) -> Option<(String, f64)> {
    let greatest = values.iter().flatten().copied().fold(0.0, f64::max);
    let drawn = values
        .iter()
        .map(|value| value.map_or('·', |value| block(value / greatest)));
    (values.iter().flatten().count() > 1 && greatest > 0.0).then(|| (drawn.collect(), greatest))
}

/// A figure of a second.
type Reading = fn(&IntervalRow) -> Option<f64>;

/// Its peak with its unit.
type Wording = fn(f64) -> String;

/// A line of characters for each of the main figures, of the means of as many seconds where there
/// are many; nothing of a run without two seconds.
pub(super) fn course(report: &Report) -> Table {
    let columns = Columns::at_most(report, Most::CHARACTERS);
    let figures: [(&str, Reading, Wording); 4] = [
        ("requests/s", |row| Some(row.attempts as f64), grouped_f64),
        match report.schedule {
            Some(_) => ("response p90", |row| row.response_p90_us, micros),
            None => ("service p90", |row| row.p90_us, micros),
        },
        ("throttled/s", |row| Some(row.throttled as f64), grouped_f64),
        ("failed/s", |row| Some(row.failed as f64), grouped_f64),
    ];
    let rows = figures.into_iter().filter_map(|(name, of, unit)| {
        let (drawn, greatest) = sparkline(&columns.mean(of).values)?;
        Some(vec![name.to_owned(), drawn, unit(greatest)])
    });
    Table {
        columns: vec![
            Column::words("over time"),
            Column::sparkline("from 0 to the peak"),
            Column::numbers("peak"),
        ],
        rows: rows.collect(),
        ..Table::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_rises_with_its_values_and_shows_what_is_missing() {
        let drawn = sparkline(&[Some(0.0), Some(50.0), None, Some(100.0)]);
        assert_eq!(drawn, Some(("_▄·█".to_owned(), 100.0)));
        assert_eq!(sparkline(&[Some(5.0)]), None);
        assert_eq!(sparkline(&[Some(0.0); 2]), None);
    }
}
