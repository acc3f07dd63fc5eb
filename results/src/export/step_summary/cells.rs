//! Text of somebody else's as a part of a Markdown table: bounded, in one line, and without a meaning of its own.

use crawlmark_harness::units::grouped;

use crate::show::doc::escaped;

/// Characters that a cell holds at most: any sentence of ours.
const LONGEST: usize = 600;

/// Characters that a name in a list holds at most.
const SHORT: usize = 40;

/// A text as a cell.
pub(super) fn cell(text: &str) -> String {
    escaped(&cut(text, LONGEST).replace('\n', " "))
}

/// A name, cut where it is too long for a list.
pub(super) fn short(text: &str) -> String {
    cut(text, SHORT)
}

/// `1 more`, `2 more`.
pub(super) fn more(rest: usize) -> String {
    format!("{} more", grouped(rest as u64))
}

fn cut(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_no_meaning_of_its_own_and_an_end() {
        assert_eq!(cell("a|b `c` <i>\nd"), "a\\|b \\`c\\` \\<i\\> d");
        assert_eq!(cell(&"é".repeat(1_000)).chars().count(), LONGEST + 1);
        assert_eq!(short("200"), "200");
    }
}
