//! One picture of a run for a terminal of a given size: what there is room for, from the most important down.

use super::details::Detail;
use super::fold::{self, Fold, MOST_ROWS};
use super::gauge::Now;
use super::sparkline::Glyphs;
use super::table::{self, Layout};
use super::text::Line;

/// Shards that have rows before the last details do.
const FIRST_SHARDS: usize = 4;

/// Number of the details that come after the first shards.
const LAST_DETAILS: usize = 2;

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) rows: usize,
    pub(super) columns: usize,
}

/// The picture: fewer lines than the terminal has, for the cursor stands below them, and shorter ones, for a character in
/// the last column leaves the cursor where terminals do not agree.
pub(super) fn frame(now: &Now<'_>, fold: &mut Fold, size: Size, glyphs: Glyphs) -> Vec<Line> {
    let columns = size.columns.saturating_sub(1);
    let layout = Layout::of(columns);
    let count = now.live.shards.len();
    let said = |detail: &Detail| Some((*detail, detail.line(now, columns, glyphs)?));
    let mut details: Vec<(Detail, Line)> = Detail::BY_RANK.iter().filter_map(said).collect();
    // The total has the first line.
    let room = size.rows.saturating_sub(2);
    let first = details
        .iter()
        .filter(|(detail, _)| !Detail::BY_RANK[Detail::BY_RANK.len() - LAST_DETAILS..].contains(detail))
        .count();
    let has_header = room > first;
    // With the header.
    let table = usize::from(has_header) + count.min(FIRST_SHARDS);
    details.truncate(if room >= first + table { (room - table).max(first) } else { first.min(room) });
    details.sort_by_key(|(detail, _)| *detail);
    let left = room.saturating_sub(details.len() + usize::from(has_header)).min(MOST_ROWS);
    // One row cannot say more than the total.
    let rows = if left < 2 && count > left { 0 } else { left };

    let mut lines = Vec::new();
    if has_header {
        lines.push(table::header(now, &layout));
    }
    if rows > 0 {
        let shown = fold.choose(now, rows);
        lines.extend(shown.iter().map(|number| table::shard(now, *number, &layout)));
        if shown.len() < count {
            lines.push(fold::rest(now, shown, columns));
        }
    }
    lines.push(table::total(now, &layout));
    lines.extend(details.into_iter().map(|(_, line)| line));
    // A terminal of one line or two has no room for anything.
    lines.truncate(size.rows.saturating_sub(1));
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::gauge::Gauge;
    use super::super::samples::{any_run, live, open, plan, shard};
    use super::super::text::tests::plain;
    use super::*;

    fn names(shards: u32, rows: usize) -> Vec<String> {
        let live = live(3_000, (0..shards).map(|_| shard(3_000, 1_000)).collect());
        let mut gauge = Gauge::new(&open(shards));
        drop(gauge.read(&super::super::samples::live(0, (0..shards).map(|_| shard(0, 0)).collect())));
        let lines = frame(&gauge.read(&live), &mut Fold::default(), Size { rows, columns: 80 }, Glyphs::Ascii);
        lines.iter().map(|line| plain(line).split(' ').next().unwrap().to_owned()).collect()
    }

    #[test]
    fn with_less_room_there_is_less_of_the_details_and_then_of_the_shards() {
        let all = ["shard", "0", "1", "total", "rate", "service", "answers", "limit", "waiting"];
        assert_eq!(names(2, 24), all);
        assert_eq!(names(2, 10), all);
        assert_eq!(names(2, 9), all.into_iter().filter(|name| *name != "limit").collect::<Vec<_>>());
        assert_eq!(names(2, 8), ["shard", "0", "1", "total", "rate", "service", "answers"]);
        assert_eq!(names(2, 7), ["shard", "total", "rate", "service", "answers"]);
        assert_eq!(names(2, 4), ["total", "service", "answers"]);
        assert_eq!(names(2, 2), ["total"]);
        assert_eq!(names(2, 1), [""; 0]);
    }

    #[test]
    fn shards_that_have_no_room_are_folded() {
        let folded = names(64, 50);
        assert_eq!(folded.iter().filter(|name| name.parse::<u32>().is_ok()).count(), MOST_ROWS - 1);
        assert_eq!(folded[MOST_ROWS], "and");
        assert_eq!(names(16, 50).iter().filter(|name| name.parse::<u32>().is_ok()).count(), 16);
        assert_eq!(names(64, 12)[..6], ["shard", "0", "1", "2", "and", "total"]);
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_the_terminal_and_no_picture_higher(
            [before, then] in any_run(), rows in 0..60_usize, columns in 0..240_usize, is_open in any::<bool>(),
        ) {
            let shards = u32::try_from(then.shards.len()).unwrap();
            let mut gauge = Gauge::new(&if is_open { open(shards) } else { plan(shards) });
            let mut fold = Fold::default();
            for live in [&before, &then] {
                for glyphs in [Glyphs::Blocks, Glyphs::Ascii] {
                    let lines = frame(&gauge.read(live), &mut fold, Size { rows, columns }, glyphs);
                    prop_assert!(lines.len() <= rows.saturating_sub(1), "{} lines", lines.len());
                    for line in &lines {
                        prop_assert!(line.width() <= columns.saturating_sub(1), "{}", plain(line));
                    }
                    let has_total = lines.iter().any(|l| plain(l).starts_with("total") || plain(l).starts_with("stop"));
                    prop_assert!(has_total || rows < 2 || columns < 7, "{lines:?}");
                }
            }
        }
    }
}
