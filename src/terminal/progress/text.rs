//! Lines of the live view as data: pieces of text and what they mean. The painter chooses the
//! colours.
//!
//! Every character that the view uses is one column wide, so that a length in characters is a
//! width.

/// Meaning of a piece of text. The words say so as well: a terminal need not have colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    /// As the terminal writes.
    Plain,
    /// Less important than the rest.
    Quiet,
    /// The target is not at ease.
    Warning,
    /// Something failed.
    Failure,
}

/// A line that fits its terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Line(Vec<(String, Tone)>);

impl Line {
    /// With another piece at its end, which joins the last one if both mean the same.
    pub(super) fn and(mut self, text: impl Into<String>, tone: Tone) -> Self {
        match self.0.last_mut() {
            Some((last, as_before)) if *as_before == tone => last.push_str(&text.into()),
            _ => self.0.push((text.into(), tone)),
        }
        self
    }

    /// Columns that it takes.
    #[cfg(test)]
    pub(super) fn width(&self) -> usize {
        self.0.iter().map(|(text, _)| text.chars().count()).sum()
    }

    /// The first `columns` of it.
    pub(super) fn cut(mut self, columns: usize) -> Self {
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
    pub(super) fn text(&self) -> String {
        self.pieces().map(|(text, _)| text).collect()
    }

    /// Its pieces.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (&str, Tone)> {
        self.0.iter().map(|(text, tone)| (text.as_str(), *tone))
    }
}

/// A part of a line that may be left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    /// The highest go first when there is no room.
    pub(super) rank: u8,
    /// Text of the part.
    pub(super) text: String,
    /// Meaning of the text.
    pub(super) tone: Tone,
}

impl Part {
    /// An ordinary part.
    pub(super) fn new(rank: u8, text: impl Into<String>) -> Self {
        Self::toned(rank, text, Tone::Plain)
    }

    /// A part with a meaning.
    pub(super) fn toned(rank: u8, text: impl Into<String>, tone: Tone) -> Self {
        let text = text.into();
        Self { rank, text, tone }
    }
}

/// Columns of the names that rows begin with.
pub(super) const NAME: usize = 9;

/// A row of as many of the parts as fit, in their order, under a name.
pub(super) fn row_of(name: &str, mut parts: Vec<Part>, columns: usize) -> Line {
    let width = |parts: &[Part]| {
        NAME + parts
            .iter()
            .map(|part| part.text.chars().count() + 2)
            .sum::<usize>()
            - 2
    };
    while parts.len() > 1 && width(&parts) > columns {
        let least = (0..parts.len())
            .max_by_key(|i| parts[*i].rank)
            .unwrap_or_default();
        parts.remove(least);
    }
    let mut line = Line::default().and(format!("{name:<NAME$}"), Tone::Plain);
    for (i, part) in parts.into_iter().enumerate() {
        line = line
            .and(if i == 0 { "" } else { "  " }, Tone::Plain)
            .and(part.text, part.tone);
    }
    line.cut(columns)
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A line without its tones.
    pub(in super::super) fn plain(line: &Line) -> String {
        line.text()
    }

    #[test]
    fn what_matters_least_goes_first() {
        let parts = || {
            vec![
                Part::new(1, "p50 1 ms"),
                Part::new(2, "p90 2 ms"),
                Part::new(0, "p99 3 ms"),
            ]
        };
        let at = |columns| plain(&row_of("service", parts(), columns));
        assert_eq!(at(37), "service  p50 1 ms  p90 2 ms  p99 3 ms");
        assert_eq!(at(36), "service  p50 1 ms  p99 3 ms");
        assert_eq!(at(26), "service  p99 3 ms");
        assert_eq!(at(12), "service  p99");
    }

    proptest! {}
}
