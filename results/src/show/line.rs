//! Lines for a terminal as data: pieces of text and what they mean. The painter of the terminal
//! chooses the colours.
//!
//! Every character that is drawn is one column wide, so that a length in characters is a width.

use std::borrow::Cow;

use super::doc::Severity;
use super::text::{BLOCKS, wrapped};

/// Emphasis of a piece of text. The words say so as well: a terminal need not have colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// As the terminal writes.
    Plain,
    /// Main figures.
    Strong,
    /// Less important than the rest.
    Quiet,
    /// What was measured, drawn.
    Bars,
    /// Of a severity.
    Status(Severity),
}

impl Tone {
    /// To be known: the target is not at ease.
    pub const WARNING: Self = Self::Status(Severity::Warning);
    /// Something failed.
    pub const FAILURE: Self = Self::Status(Severity::Bad);
}

/// Terminal that lines are made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Display {
    /// Width, in characters.
    pub columns: usize,
    /// True if it has more characters than ASCII.
    pub has_unicode: bool,
}

/// What stands for the signs of texts where there is only ASCII.
const SIGNS: [(char, &str); 11] = [
    ('µ', "u"),
    ('→', "->"),
    ('✓', "*"),
    ('✕', "x"),
    ('×', "x"),
    ('−', "-"),
    ('·', "-"),
    ('…', "..."),
    ('─', "-"),
    ('┴', "|"),
    ('│', "|"),
];

/// What stands for blocks of eight heights.
const HEIGHTS: [char; 8] = ['.', ':', '-', '=', '+', '*', '#', '@'];

/// The most and the fewest columns between two cells.
const GAPS: [usize; 3] = [4, 3, 2];

/// Columns before a row.
const INDENT: usize = 2;

/// Figure in a row.
#[derive(Debug, Clone)]
pub struct Cell {
    text: String,
    tone: Tone,
    leaves: bool,
}

impl Cell {
    /// A figure that is never left out.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            tone: Tone::Strong,
            leaves: false,
        }
    }

    /// Its text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The figure with this emphasis.
    #[must_use]
    pub fn toned(self, tone: Tone) -> Self {
        Self { tone, ..self }
    }

    /// The figure as one that makes room for others, those further to the left last.
    #[must_use]
    pub fn leaving(self) -> Self {
        Self {
            leaves: true,
            ..self
        }
    }
}

impl Display {
    /// Cells in at most so many lines, without those that leave if all do not fit; none if even
    /// then they do not.
    pub fn row(self, cells: &[Cell], most: usize) -> Option<Vec<Line>> {
        let leaving = cells.iter().filter(|cell| cell.leaves).count();
        (0..=leaving).rev().find_map(|mut keep| {
            let kept = cells.iter().filter(|cell| {
                let stays = !cell.leaves || keep > 0;
                keep -= usize::from(cell.leaves && stays);
                stays
            });
            let lines = self.laid_out(&kept.collect::<Vec<_>>(), most);
            (lines.len() <= most).then_some(lines)
        })
    }

    /// Cells beside each other, in as many lines as they take; as far apart as one line of one has
    /// room for.
    fn laid_out(self, cells: &[&Cell], most: usize) -> Vec<Line> {
        let all: usize = cells.iter().map(|cell| self.width(&cell.text)).sum();
        let gaps = cells.len().saturating_sub(1);
        let gap = GAPS
            .into_iter()
            .filter(|_| most == 1)
            .find(|gap| INDENT + all + gap * gaps <= self.columns)
            .unwrap_or(GAPS[GAPS.len() - 1]);
        let mut lines: Vec<Line> = Vec::new();
        for cell in cells {
            let text = self.shown(&cell.text);
            let used = lines.last().map_or(0, Line::width);
            let is_full = lines.is_empty() || used + gap + self.width(&cell.text) > self.columns;
            let before = if is_full { INDENT } else { gap };
            let begun = if is_full { None } else { lines.pop() };
            let line = begun.unwrap_or_default();
            lines.push(
                line.and(" ".repeat(before), Tone::Plain)
                    .and(text, cell.tone),
            );
        }
        lines
    }

    /// Columns of a text as the terminal shows it.
    pub fn width(self, text: &str) -> usize {
        self.shown(text).chars().count()
    }

    /// The text as the terminal can show it; other characters than those that texts use stay.
    pub fn shown(self, text: &str) -> Cow<'_, str> {
        if self.has_unicode || text.is_ascii() {
            return text.into();
        }
        let mut shown = String::with_capacity(text.len());
        for c in text.chars() {
            let sign = SIGNS.iter().find(|(sign, _)| *sign == c);
            match (sign, BLOCKS.iter().position(|block| *block == c)) {
                (Some((_, ascii)), _) => shown.push_str(ascii),
                (_, Some(height)) => shown.push(HEIGHTS[height]),
                _ => shown.push(c),
            }
        }
        shown.into()
    }

    /// The text in lines that begin with `mark` and go on below the first word; no word is cut.
    pub fn wrapped(self, mark: &str, text: &str, tone: Tone) -> Vec<Line> {
        let (mark, text) = (self.shown(mark), self.shown(text));
        let indent = mark.chars().count();
        wrapped(&text, self.columns.saturating_sub(indent))
            .into_iter()
            .enumerate()
            .map(|(n, part)| match n {
                0 => Line::of(format!("{mark}{part}"), tone),
                _ => Line::of(format!("{:indent$}{part}", ""), tone),
            })
            .collect()
    }
}

/// Line of a terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line(Vec<(String, Tone)>);

impl Line {
    /// A line of one piece.
    pub fn of(text: impl Into<String>, tone: Tone) -> Self {
        Self::default().and(text, tone)
    }

    /// With another piece at its end, which joins the last one if both mean the same.
    #[must_use]
    pub fn and(mut self, text: impl Into<String>, tone: Tone) -> Self {
        match self.0.last_mut() {
            Some((last, as_before)) if *as_before == tone => last.push_str(&text.into()),
            _ => self.0.push((text.into(), tone)),
        }
        self
    }

    /// Columns that it takes.
    pub fn width(&self) -> usize {
        self.0.iter().map(|(text, _)| text.chars().count()).sum()
    }

    /// The first `columns` of it.
    #[must_use]
    pub fn cut(mut self, columns: usize) -> Self {
        let mut left = columns;
        for (text, _) in &mut self.0 {
            if let Some((end, _)) = text.char_indices().nth(left) {
                text.truncate(end);
            }
            left -= text.chars().count();
        }
        self
    }

    /// Its text.
    pub fn text(&self) -> String {
        self.pieces().map(|(text, _)| text).collect()
    }

    /// Its pieces.
    pub fn pieces(&self) -> impl Iterator<Item = (&str, Tone)> {
        self.0.iter().map(|(text, tone)| (text.as_str(), *tone))
    }
}
