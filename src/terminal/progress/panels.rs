//! Charts of the live view, on terminals that are high enough: requests by outcome and times, second
//! by second.

use crawlmark_harness::stats::Series;
use crawlmark_results::run::report::IntervalRow;
use crawlmark_results::show::text::micros;

use super::chart::{Bar, SCALE, Span, StackedOutcome, bars, scaled, spans};
use super::frame::Screen;
use super::gauge::Now;
use super::text::{Line, Tone};
use super::words::per_second;
use crate::terminal::glyphs::Glyphs;

/// Least and most rows of a panel, its title and axis included: fewer show no shape, more add
/// nothing.
const ROWS: [usize; 2] = [6, 12];

/// Most seconds over time: a wider terminal draws them wider.
const SECONDS: usize = 60;

/// Return the last `count` seconds before `end_s` in their order, fewer at the start; none for a
/// second that is not complete.
fn last(seconds: &[IntervalRow], count: usize, end_s: u64) -> Vec<Option<&IntervalRow>> {
    let first_s = end_s.saturating_sub(count as u64);
    let mut shown = vec![None; usize::try_from(end_s - first_s).unwrap_or(count)];
    // Seconds may be complete out of their order, by no more than the timeout of a request.
    let late = seconds.len().saturating_sub(2 * (count + SECONDS));
    for row in &seconds[late..] {
        let place = row
            .start_s
            .checked_sub(first_s)
            .and_then(|at| shown.get_mut(usize::try_from(at).ok()?));
        if let Some(place) = place {
            *place = Some(row);
        }
    }
    shown
}

/// Draw as many panels as fit in `rows`.
pub(super) fn panels(
    now: &Now<'_>,
    seconds: &[IntervalRow],
    Screen {
        rows,
        columns,
        glyphs,
    }: Screen,
) -> Vec<Line> {
    let count = (rows / ROWS[0]).min(2);
    let Some(height) = rows
        .checked_div(count)
        .map(|height| height.min(ROWS[1]) - 1)
    else {
        return Vec::new();
    };
    let wide = (columns.saturating_sub(SCALE) / SECONDS).max(1);
    let count_s = columns.saturating_sub(SCALE) / wide;
    let shown = last(seconds, count_s, now.live.elapsed.as_secs());
    let drawn = [
        rate(&shown, wide, height, glyphs),
        times(now, &shown, (wide, height), glyphs),
    ];
    drawn
        .into_iter()
        .take(count)
        .flatten()
        .map(|line| line.cut(columns))
        .collect()
}

fn title(text: impl Into<String>) -> Line {
    Line::default().and(text, Tone::Plain)
}

/// Repeat each column, so that it is `wide` columns wide.
fn widened<T: Copy>(columns: impl Iterator<Item = T>, wide: usize) -> Vec<T> {
    columns
        .flat_map(|column| std::iter::repeat_n(column, wide))
        .collect()
}

fn rate(shown: &[Option<&IntervalRow>], wide: usize, height: usize, glyphs: Glyphs) -> Vec<Line> {
    let counts = |row: &IntervalRow| {
        let (counts, good) = (&row.counts, row.counts.ok + row.counts.not_found);
        [
            good,
            counts.throttled,
            counts.attempts.saturating_sub(good + counts.throttled),
        ]
        .map(|count| count as f64)
    };
    let counts: Vec<Bar> = shown
        .iter()
        .map(|row| row.map_or([0.0; 3], counts))
        .collect();
    let top = counts
        .iter()
        .map(|bar| bar.iter().sum::<f64>())
        .fold(0.0, f64::max);
    let parts = widened(
        counts
            .iter()
            .map(|bar| bar.map(|count| count / top.max(1.0))),
        wide,
    );
    let start = title(format!("requests/s by outcome, last {} s:", shown.len()));
    let heading = StackedOutcome::ALL
        .into_iter()
        .filter(|outcome| counts.iter().any(|bar| bar[*outcome as usize] > 0.0))
        .fold(start, |line, outcome| {
            line.and(
                format!("  {} {}", outcome.mark(glyphs), outcome.name()),
                outcome.tone(),
            )
        });
    let labels = [per_second(top), per_second(top / 2.0), "0/s".to_owned()];
    let labels = if top > 0.0 {
        labels
    } else {
        <[String; 3]>::default()
    };
    std::iter::once(heading)
        .chain(scaled(bars(&parts, height, glyphs), labels, glyphs))
        .collect()
}

fn times(
    now: &Now<'_>,
    shown: &[Option<&IntervalRow>],
    (wide, height): (usize, usize),
    glyphs: Glyphs,
) -> Vec<Line> {
    let is_open = now.arrivals.gaps().is_some();
    let figures = |row: &IntervalRow| {
        if is_open {
            [
                row.response_p50_us,
                row.response_p90_us,
                row.response_p99_us,
                row.max_us,
            ]
        } else {
            [row.p50_us, row.p90_us, row.p99_us, row.max_us]
        }
    };
    let mut figures: Vec<_> = shown
        .iter()
        .map(|row| row.map_or([None; 4], figures))
        .collect();
    // A second of fewer than 1,000 answers has no p99.
    let has_p99 = figures.iter().any(|[.., p99, _]| p99.is_some());
    for [_, high, p99, _] in &mut figures {
        *high = if has_p99 { *p99 } else { *high };
    }
    let all = || figures.iter().flatten().flatten().filter(|us| **us > 0.0);
    let (least, most) = all().fold((f64::MAX, 0.0_f64), |(least, most), us| {
        (least.min(*us), most.max(*us))
    });
    let at = |us: f64| {
        if most > least {
            (us / least).ln() / (most / least).ln()
        } else {
            0.5
        }
    };
    let span = |[p50, high, _, max]: [Option<f64>; 4]| {
        // Too few answers for percentiles: the slowest alone is known.
        let from = p50.or(high).or(max)?;
        Some(Span {
            from: at(from),
            to: at(high.or(p50).or(max)?),
            mark: max.map(at),
        })
    };
    let heading = title(if most > 0.0 {
        let high = if has_p99 { "p99" } else { "p90" };
        format!(
            "{} time, log scale: p50 to {high}, and the slowest",
            waited(now)
        )
    } else {
        format!("{} time: no good response yet", waited(now))
    });
    let labels = [most, (most * least).sqrt(), least].map(micros);
    let labels = if most > 0.0 {
        labels
    } else {
        <[String; 3]>::default()
    };
    let spans = spans(
        &widened(figures.iter().map(|figures| span(*figures)), wide),
        height,
        glyphs,
    );
    std::iter::once(heading)
        .chain(scaled(spans, labels, glyphs))
        .collect()
}

/// The series that users wait for, by its name.
fn waited(now: &Now<'_>) -> &'static str {
    Series::waited(now.arrivals).name()
}
