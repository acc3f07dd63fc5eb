//! End of a study at the terminal: the answer, its table, what else is to be known, and the page.

use super::{Notice, StudyResult};
use crate::show::doc::{Doc, Severity};
use crate::show::line::{Display, Line, Tone};
use crate::show::visible;

/// Notices beside the answer that are listed at most.
const MOST_NOTICES: usize = 3;

/// The lines of the end of a study whose page is at `page`, if it is kept; with `is_verbose` every
/// table and notice of it.
pub fn end(
    result: &impl StudyResult,
    page: Option<&str>,
    display: Display,
    is_verbose: bool,
) -> Vec<Line> {
    let notices = result.notices();
    let answer = notices.first().map(|answer| said(answer, display));
    let doc = result.fill(Doc::default());
    let doc = match result.short_table() {
        _ if is_verbose => doc,
        Some(table) => Doc::default().table(table),
        None => doc.main_table(),
    };
    let table = doc.terminal(display.columns);
    let table = table.trim_end().lines();
    let table = table.map(|line| Line::of(display.shown(line), Tone::Plain));
    let mut others: Vec<&Notice> = notices.iter().skip(1).collect();
    let most = if is_verbose {
        others.len()
    } else {
        MOST_NOTICES
    };
    // The graver ones are kept.
    others.sort_by_key(|notice| std::cmp::Reverse(notice.severity));
    let more = others.len().saturating_sub(most);
    others.truncate(most);
    let mut last: Vec<Line> = others
        .into_iter()
        .flat_map(|notice| said(notice, display))
        .collect();
    if more > 0 {
        last.push(Line::of(format!("  ({more} more)"), Tone::Quiet));
    }
    last.extend(page.map(|page| Line::of(format!("  {}", visible(page)), Tone::Plain)));
    let mut lines = Vec::new();
    for block in [answer.unwrap_or_default(), table.collect(), last] {
        if !lines.is_empty() && !block.is_empty() {
            lines.push(Line::default());
        }
        lines.extend(block);
    }
    lines
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
