//! Characters that the terminal has, and values over time as one line of them.

use std::env;

use crawlmark_results::show::text::block;

/// True if the terminal has more characters than ASCII.
pub(super) fn has_blocks() -> bool {
    // The locale of characters: the first of these variables that says anything, as POSIX has it.
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| env::var(name).ok().filter(|value| !value.is_empty()));
    blocks_of(
        &env::var("TERM").unwrap_or_default(),
        &locale.unwrap_or_default(),
    )
}

/// True if a terminal of type `term` (`TERM`) in a locale of that name has blocks.
fn blocks_of(term: &str, locale: &str) -> bool {
    let locale = locale.to_ascii_lowercase();
    // The kernel's own console has 256 characters, few blocks among them.
    (locale.contains("utf-8") || locale.contains("utf8")) && term != "linux"
}

/// The last `columns` of `values`, which are no less than 0, and the greatest of those: the highest
/// character stands for it, the lowest for an eighth of it or less.
pub(super) fn sparkline(values: &[f64], columns: usize) -> (String, f64) {
    let shown = &values[values.len().saturating_sub(columns)..];
    let top = shown.iter().copied().fold(0.0, f64::max);
    (shown.iter().map(|value| block(*value / top)).collect(), top)
}

#[cfg(test)]
mod tests {
    use crawlmark_results::show::line::Display;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn blocks_are_for_terminals_and_locales_that_have_them() {
        for (term, locale, has) in [
            ("xterm-256color", "de_DE.UTF-8", true),
            ("xterm", "C.utf8", true),
            ("xterm", "C", false),
            ("xterm", "", false),
            ("linux", "de_DE.UTF-8", false),
        ] {
            assert_eq!(blocks_of(term, locale), has, "{term} {locale}");
        }
    }

    fn line_of(values: &[f64], columns: usize) -> String {
        let ascii = Display {
            columns,
            has_unicode: false,
        };
        ascii.shown(&sparkline(values, columns).0).into_owned()
    }

    proptest! {
        #[test]
        fn heights_follow_the_values(
            values in prop::collection::vec(prop_oneof![Just(0.0), 0.0..1e9_f64], 0..80), columns in 0..80_usize,
        ) {
            let (line, top) = (line_of(&values, columns), sparkline(&values, columns).1);
            let shown = &values[values.len() - line.len()..];
            prop_assert_eq!(shown.len(), values.len().min(columns));
            let height = |at: usize| "_.:-=+*#@".find(&line[at..=at]).unwrap();
            for i in 0..shown.len() {
                prop_assert_eq!(shown[i] == 0.0, height(i) == 0, "only nothing is nothing");
                prop_assert!(shown[i] < top || top <= 0.0 || height(i) == 8, "the greatest is the highest");
                prop_assert!((0..i).all(|k| (shown[k] <= shown[i]) || height(k) >= height(i)));
            }
            let halves: Vec<f64> = values.iter().map(|value| value / 2.0).collect();
            prop_assert_eq!(line_of(&halves, columns), line, "the scale is its own");
        }
    }
}
