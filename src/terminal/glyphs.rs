//! Characters that the terminal has, and values over time as one line of them.

use std::borrow::Cow;
use std::env;

/// Characters that a terminal has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Glyphs {
    /// Blocks of eight heights.
    Blocks,
    /// Characters that look fuller and fuller.
    Ascii,
}

impl Glyphs {
    /// For a terminal of type `term` (`TERM`) in a locale of that name.
    pub(super) fn of(term: &str, locale: &str) -> Self {
        let locale = locale.to_ascii_lowercase();
        let is_unicode = locale.contains("utf-8") || locale.contains("utf8");
        // The kernel's own console has 256 characters, few blocks among them.
        if is_unicode && term != "linux" {
            Self::Blocks
        } else {
            Self::Ascii
        }
    }

    const fn levels(self) -> [char; 8] {
        match self {
            Self::Blocks => ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
            Self::Ascii => ['.', ':', '-', '=', '+', '*', '#', '@'],
        }
    }
}

/// The characters that the terminal has.
pub(super) fn glyphs() -> Glyphs {
    // The locale of characters: the first of these variables that says anything, as POSIX has it.
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| env::var(name).ok().filter(|value| !value.is_empty()));
    Glyphs::of(
        &env::var("TERM").unwrap_or_default(),
        &locale.unwrap_or_default(),
    )
}

/// The text as a terminal with these characters can show it: the one sign beyond ASCII in all texts
/// is that for micro.
pub(super) fn shown(text: &str, glyphs: Glyphs) -> Cow<'_, str> {
    match glyphs {
        Glyphs::Ascii if text.contains('µ') => text.replace('µ', "u").into(),
        Glyphs::Ascii | Glyphs::Blocks => text.into(),
    }
}

/// Character for nothing at all: not the same as little.
const NOTHING: char = '_';

/// The last `columns` of `values`, which are no less than 0, and the greatest of those: the highest
/// character stands for it, the lowest for an eighth of it or less.
pub(super) fn sparkline(values: &[f64], columns: usize, glyphs: Glyphs) -> (String, f64) {
    let shown = &values[values.len().saturating_sub(columns)..];
    let top = shown.iter().copied().fold(0.0, f64::max);
    (
        shown
            .iter()
            .map(|value| character(*value, top, glyphs))
            .collect(),
        top,
    )
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "from 0 to 8"
)]
fn character(value: f64, top: f64, glyphs: Glyphs) -> char {
    let levels = glyphs.levels();
    let level = (value / top * levels.len() as f64)
        .ceil()
        .clamp(0.0, levels.len() as f64) as usize;
    level.checked_sub(1).map_or(NOTHING, |level| levels[level])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn blocks_are_for_terminals_and_locales_that_have_them() {
        assert_eq!(Glyphs::of("xterm-256color", "de_DE.UTF-8"), Glyphs::Blocks);
        assert_eq!(Glyphs::of("xterm", "C.utf8"), Glyphs::Blocks);
        assert_eq!(Glyphs::of("xterm", "C"), Glyphs::Ascii);
        assert_eq!(Glyphs::of("xterm", ""), Glyphs::Ascii);
        assert_eq!(Glyphs::of("linux", "de_DE.UTF-8"), Glyphs::Ascii);
    }

    proptest! {
        #[test]
        fn heights_follow_the_values(
            values in prop::collection::vec(prop_oneof![Just(0.0), 0.0..1e9_f64], 0..80), columns in 0..80_usize,
        ) {
            let (line, top) = sparkline(&values, columns, Glyphs::Ascii);
            let shown = &values[values.len() - line.len()..];
            prop_assert_eq!(shown.len(), values.len().min(columns));
            let height = |at: usize| "_.:-=+*#@".find(&line[at..=at]).unwrap();
            for i in 0..shown.len() {
                prop_assert_eq!(shown[i] == 0.0, height(i) == 0, "only nothing is nothing");
                prop_assert!(shown[i] < top || top <= 0.0 || height(i) == 8, "the greatest is the highest");
                prop_assert!((0..i).all(|k| (shown[k] <= shown[i]) || height(k) >= height(i)));
            }
            let halves: Vec<f64> = values.iter().map(|value| value / 2.0).collect();
            prop_assert_eq!(sparkline(&halves, columns, Glyphs::Ascii).0, line, "the scale is its own");
        }
    }
}
