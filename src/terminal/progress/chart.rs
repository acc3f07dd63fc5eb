//! Charts of several rows of characters: stacked bars, and ranges on a log scale.
//!
//! Heights are parts of the chart's height. Every chart can be read without colours.

use super::text::{Line, Tone};
use crate::terminal::glyphs::Glyphs;

/// Columns of the scale left of a chart.
pub(super) const SCALE: usize = 11;

/// Heights of the outcomes of a bar, from the bottom.
pub(super) type Bar = [f64; StackedOutcome::ALL.len()];

/// Outcome of requests, in the order in which they are stacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StackedOutcome {
    Good,
    Throttled,
    Failed,
}

impl StackedOutcome {
    pub(super) const ALL: [Self; 3] = [Self::Good, Self::Throttled, Self::Failed];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Throttled => "throttled",
            Self::Failed => "failed",
        }
    }

    pub(super) const fn tone(self) -> Tone {
        match self {
            Self::Good => Tone::Plain,
            Self::Throttled => Tone::Warning,
            Self::Failed => Tone::Failure,
        }
    }

    /// The character of a full cell.
    pub(super) const fn mark(self, glyphs: Glyphs) -> char {
        match (self, glyphs) {
            (Self::Good, Glyphs::Blocks) => '█',
            (Self::Throttled, Glyphs::Blocks) => '▒',
            (Self::Failed, Glyphs::Blocks) => '░',
            (Self::Good, Glyphs::Ascii) => '#',
            (Self::Throttled, Glyphs::Ascii) => 'o',
            (Self::Failed, Glyphs::Ascii) => 'x',
        }
    }
}

/// A span of values, from 0 at the bottom of the chart to 1 at its top, and a mark above it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Span {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) mark: Option<f64>,
}

/// Draw stacked bars side by side, the top row first. The topmost cell of a bar shows its last
/// outcome, so that rare failures are visible.
pub(super) fn bars(bars: &[Bar], rows: usize, glyphs: Glyphs) -> Vec<Line> {
    drawn(bars, rows, |bar, row| {
        let total = bar.iter().sum::<f64>() * rows as f64;
        let bottom = row as f64;
        if total <= bottom {
            return (' ', Tone::Plain);
        }
        let middle = bottom + 0.5;
        let is_top = total <= bottom + 1.0;
        let mut below = 0.0;
        match StackedOutcome::ALL
            .into_iter()
            .find(|outcome| {
                below += bar[*outcome as usize] * rows as f64;
                !is_top && below >= middle
            })
            .or_else(|| {
                StackedOutcome::ALL
                    .into_iter()
                    .rev()
                    .find(|outcome| bar[*outcome as usize] > 0.0)
            })
            .unwrap_or(StackedOutcome::Good)
        {
            StackedOutcome::Good => (glyphs.level(total - bottom), Tone::Plain),
            other => (other.mark(glyphs), other.tone()),
        }
    })
}

/// Draw spans side by side, the top row first.
pub(super) fn spans(spans: &[Option<Span>], rows: usize, glyphs: Glyphs) -> Vec<Line> {
    let (full, dot) = match glyphs {
        Glyphs::Blocks => ('█', '•'),
        Glyphs::Ascii => ('#', '*'),
    };
    drawn(spans, rows, |span, row| {
        let Some(Span { from, to, mark }) = *span else {
            return (' ', Tone::Plain);
        };
        let at = |value: f64| row_of(value, rows);
        match () {
            () if (at(from)..=at(to)).contains(&row) => (full, Tone::Plain),
            () if mark.is_some_and(|mark| at(mark) == row) => (dot, Tone::Quiet),
            () => (' ', Tone::Plain),
        }
    })
}

/// Prefix each row with the scale: labels of the top, the middle and the bottom row.
pub(super) fn scaled(
    rows: Vec<Line>,
    labels: [String; 3],
    glyphs: Glyphs,
) -> impl Iterator<Item = Line> {
    let (middle, last) = (rows.len() / 2, rows.len().saturating_sub(1));
    let axis = if glyphs == Glyphs::Blocks { '│' } else { '|' };
    rows.into_iter().enumerate().map(move |(i, row)| {
        let label = match i {
            0 => &labels[0],
            i if i == last => &labels[2],
            i if i == middle => &labels[1],
            _ => "",
        };
        row.pieces().fold(
            Line::default().and(format!("{label:>0$}{axis}", SCALE - 1), Tone::Quiet),
            |line, piece| line.and(piece.0, piece.1),
        )
    })
}

fn drawn<T>(columns: &[T], rows: usize, cell: impl Fn(&T, usize) -> (char, Tone)) -> Vec<Line> {
    (0..rows)
        .rev()
        .map(|row| {
            columns
                .iter()
                .map(|column| cell(column, row))
                .fold(Line::default(), |line, (c, tone)| line.and(c, tone))
        })
        .collect()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "from 0 to the number of rows"
)]
fn row_of(value: f64, rows: usize) -> usize {
    ((value.clamp(0.0, 1.0) * rows as f64) as usize).min(rows.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::super::text::tests::plain;
    use super::*;

    fn shown(lines: &[Line]) -> Vec<String> {
        lines.iter().map(plain).collect()
    }

    #[test]
    fn outcomes_stand_on_each_other_and_none_is_too_rare_to_be_seen() {
        let columns = [
            [1.0, 0.0, 0.0],
            [0.5, 0.0, 0.5],
            [0.0, 0.25, 0.25],
            [0.0; 3],
            [0.3, 0.0, 0.0],
            [0.999, 0.0, 0.001],
        ];
        assert_eq!(
            shown(&bars(&columns, 4, Glyphs::Blocks)),
            ["█░   ░", "█░   █", "██░ ▂█", "██▒ ██"]
        );
        assert_eq!(
            shown(&bars(&columns, 4, Glyphs::Ascii)),
            ["#x   x", "#x   #", "##x .#", "##o ##"]
        );
    }
}
