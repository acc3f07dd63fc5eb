//! End of a study at the terminal: the answer, its table, what else is to be known, and the page.

use super::{Notice, StudyResult};
use crate::show::doc::{Doc, Severity};
use crate::show::line::{Display, Line, Tone};
use crate::show::visible;

/// Notices beside the answer that are listed at most.
const MOST_NOTICES: usize = 3;

/// Lines of an end at most, unless its answer and its table alone take more.
const MOST_LINES: usize = 16;

/// The lines of the end of a study whose page is at `page`, if it is kept; with `is_verbose` every
/// table and notice of it.
pub fn end(
    result: &impl StudyResult,
    page: Option<&str>,
    display: Display,
    is_verbose: bool,
) -> Vec<Line> {
    let notices = result.notices();
    let whole = result.fill(Doc::default());
    let shown = match result.short_table(display.columns) {
        _ if is_verbose => whole,
        Some(table) => Doc::default().table(table),
        None => whole.main_table(),
    };
    let table = shown
        .terminal(display.columns)
        .trim_end()
        .lines()
        .map(|line| Line::of(display.shown(line), Tone::Plain))
        .collect();
    let mut answer = notices.first().cloned();
    let mut others: Vec<&Notice> = notices.iter().skip(1).collect();
    // The graver ones are kept.
    others.sort_by_key(|notice| std::cmp::Reverse(notice.severity));
    let end = End {
        table,
        page,
        display,
    };
    if is_verbose {
        return end.lines(answer.as_ref(), &others, others.len(), true);
    }
    let is_long =
        |answer: &&mut Notice| display.wrapped("  ", &answer.title, Tone::Plain).len() > 1;
    if let Some(answer) = answer.as_mut().filter(is_long) {
        let first = result.shown().into_iter().next();
        answer.title = first.map_or_else(String::new, |first| first.headline());
    }
    let of = |(most, is_spaced)| end.lines(answer.as_ref(), &others, most, is_spaced);
    // Without empty lines, and then without some of the notices.
    let least = usize::from(result.header().interrupted);
    let shorter = (least..=MOST_NOTICES).rev().map(|most| (most, false));
    let whole = of((MOST_NOTICES, true));
    let mut all = std::iter::once(whole.clone()).chain(shorter.map(of));
    let fitting = all.find(|lines| lines.len() <= MOST_LINES);
    fitting.unwrap_or(whole)
}

/// What every form of an end has.
struct End<'a> {
    table: Vec<Line>,
    page: Option<&'a str>,
    display: Display,
}

impl End<'_> {
    /// The end with the first `most` of the other notices.
    fn lines(
        &self,
        answer: Option<&Notice>,
        others: &[&Notice],
        most: usize,
        is_spaced: bool,
    ) -> Vec<Line> {
        let said = |notice| said(notice, self.display);
        let mut last: Vec<Line> = others.iter().take(most).copied().flat_map(said).collect();
        let more = others.len().saturating_sub(most);
        if more > 0 {
            last.push(Line::of(format!("  ({more} more)"), Tone::Quiet));
        }
        let page = self.page.map(|page| format!("  {}", visible(page)));
        last.extend(page.map(|page| Line::of(page, Tone::Plain)));
        let answer = answer.map(said).unwrap_or_default();
        let mut lines = Vec::new();
        for block in [answer, self.table.clone(), last] {
            if is_spaced && !lines.is_empty() && !block.is_empty() {
                lines.push(Line::default());
            }
            lines.extend(block);
        }
        lines
    }
}

/// A notice with its sign, and its advice below it; what is neither good nor bad has none.
fn said(notice: &Notice, display: Display) -> Vec<Line> {
    let (mark, tone) = match notice.severity {
        Severity::Neutral => ("  ".to_owned(), Tone::Plain),
        severity => (format!("{} ", severity.symbol()), Tone::Status(severity)),
    };
    let mut lines = display.wrapped(&mark, &visible(&notice.title), tone);
    if !notice.remedy.is_empty() {
        lines.extend(display.wrapped("  \u{2192} ", &visible(&notice.remedy), Tone::Plain));
    }
    lines
}
