//! The seconds of a run as lines of characters, each from zero to its greatest value.

use crate::run::report::{IntervalRow, Report};
use crate::show::doc::{Column, Table};
use crate::show::text::{block, grouped_f64, micros};

/// Characters at most: what a narrow page shows without a scroll bar.
const WIDTH: usize = 60;

/// The line of the values of seconds, and the value of its greatest character. Where there are more
/// seconds than characters, each stands for the mean of as many of them; seconds without a value are
/// a dot. None of fewer than two seconds, and of nothing but zeros.
fn sparkline(seconds: &[Option<f64>]) -> Option<(String, f64)> {
    let per_character = seconds.len().div_ceil(WIDTH).max(1);
    let means: Vec<Option<f64>> = seconds
        .chunks(per_character)
        .map(|some| {
            let known: Vec<f64> = some.iter().flatten().copied().collect();
            (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
        })
        .collect();
    let greatest = means.iter().flatten().copied().fold(0.0, f64::max);
    let drawn = means
        .iter()
        .map(|mean| mean.map_or('·', |mean| block(mean / greatest)));
    (seconds.len() > 1 && greatest > 0.0).then(|| (drawn.collect(), greatest))
}

/// A figure of a second.
type Reading = fn(&IntervalRow) -> Option<f64>;

/// Its peak with its unit.
type Wording = fn(f64) -> String;

/// A line of characters for each of the main figures; nothing of a run without two seconds.
pub(super) fn course(report: &Report) -> Table {
    let rows = &report.intervals;
    let end = rows.iter().map(|row| row.start_s + 1).max().unwrap_or(0);
    let start = rows.first().map_or(0, |row| row.start_s);
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
        let mut seconds = vec![None; usize::try_from(end.checked_sub(start)?).ok()?];
        for row in rows {
            seconds[usize::try_from(row.start_s.checked_sub(start)?).ok()?] =
                of(row).filter(|value| value.is_finite());
        }
        let (drawn, greatest) = sparkline(&seconds)?;
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
