//! The seconds of a run as lines of characters, each from zero to its greatest value.

use crate::run::report::{IntervalRow, Report};
use crate::show::doc::{Column, Table};
use crate::show::text::{grouped_f64, micros};

/// Characters at most: what a narrow page shows without a scroll bar.
const WIDTH: u64 = 60;

const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A line, and the value of its greatest character.
#[derive(Debug, Clone, PartialEq)]
struct Sparkline {
    drawn: String,
    greatest: f64,
}

/// The line of values by second, of a run of so many. Where there are more seconds than characters,
/// each stands for the mean of as many of them; seconds without a value are a dot. None of fewer
/// than two seconds, and of nothing but zeros.
fn sparkline(values: impl Iterator<Item = (u64, f64)>, seconds: u64) -> Option<Sparkline> {
    let end = Some(seconds).filter(|end| *end > 1)?;
    let per_character = end.div_ceil(WIDTH);
    let mut sums = vec![(0.0, 0_u32); usize::try_from(end.div_ceil(per_character)).ok()?];
    for (second, value) in values.filter(|(_, value)| value.is_finite()) {
        if let Some((sum, count)) = usize::try_from(second / per_character)
            .ok()
            .and_then(|at| sums.get_mut(at))
        {
            *sum += value;
            *count += 1;
        }
    }
    let means: Vec<Option<f64>> = sums
        .into_iter()
        .map(|(sum, count)| (count > 0).then(|| sum / f64::from(count)))
        .collect();
    let greatest = means
        .iter()
        .flatten()
        .fold(0.0, |greatest: f64, mean| greatest.max(*mean));
    let drawn = means
        .into_iter()
        .map(|mean| mean.map_or('·', |mean| level(mean / greatest)))
        .collect();
    (greatest > 0.0).then_some(Sparkline { drawn, greatest })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between 0 and 7"
)]
fn level(part: f64) -> char {
    LEVELS[(part * 8.0).clamp(0.0, 7.0) as usize]
}

/// A line of characters for each of the main figures; nothing of a run without two seconds.
pub(super) fn course(report: &Report) -> Table {
    let end = report
        .intervals
        .iter()
        .map(|row| row.start_s + 1)
        .max()
        .unwrap_or(0);
    let row = |name: &str, of: fn(&IntervalRow) -> Option<f64>, unit: fn(f64) -> String| {
        let line = sparkline(
            report
                .intervals
                .iter()
                .filter_map(|row| Some((row.start_s, of(row)?))),
            end,
        )?;
        Some(vec![name.to_owned(), line.drawn, unit(line.greatest)])
    };
    let p90 = match report.schedule {
        Some(_) => row("response p90", |row| row.response_p90_us, micros),
        None => row("service p90", |row| row.p90_us, micros),
    };
    let rows = [
        row("requests/s", |row| Some(row.attempts as f64), grouped_f64),
        p90,
        row("throttled/s", |row| Some(row.throttled as f64), grouped_f64),
        row("failed/s", |row| Some(row.failed as f64), grouped_f64),
    ];
    Table {
        columns: vec![
            Column::words("over time"),
            Column::sparkline("from 0 to the peak"),
            Column::numbers("peak"),
        ],
        rows: rows.into_iter().flatten().collect(),
        ..Table::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(values: &[(u64, f64)]) -> Option<(String, f64)> {
        let end = values
            .iter()
            .map(|(second, _)| second + 1)
            .max()
            .unwrap_or(0);
        sparkline(values.iter().copied(), end).map(|line| (line.drawn, line.greatest))
    }

    #[test]
    fn a_line_rises_with_its_values_and_shows_what_is_missing() {
        assert_eq!(
            drawn(&[(0, 0.0), (1, 50.0), (3, 100.0)]),
            Some(("▁▅·█".to_owned(), 100.0))
        );
        assert_eq!(drawn(&[(0, 5.0)]), None);
        assert_eq!(drawn(&[(0, 0.0), (1, 0.0)]), None);
        assert_eq!(
            drawn(&[(0, f64::NAN), (1, 2.0), (2, 2.0)]),
            Some(("·██".to_owned(), 2.0))
        );
    }

    #[test]
    fn a_long_run_has_a_line_of_means() {
        let values: Vec<(u64, f64)> = (0..3_600)
            .map(|second| (second, if second < 1_800 { 10.0 } else { 20.0 }))
            .collect();
        let (line, greatest) = drawn(&values).unwrap();
        assert_eq!((line, greatest), ("▅".repeat(30) + &"█".repeat(30), 20.0));
    }
}
