//! One picture of a run for a terminal of a given size: what there is room for, from the most
//! important down.

use crawlmark_results::run::report::IntervalRow;

use super::details::{DETAILS, Scene};
use super::gauge::Now;
use super::rows::{self, Layout};
use super::text::Line;

/// Most rows of shards worth reading.
const MOST_ROWS: usize = 16;

/// Shards that have rows before the last details do.
const FIRST_SHARDS: usize = 4;

/// Rank of the first of the details that come after these shards.
const AFTER_SHARDS: u8 = 7;

/// Size of a terminal, in characters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Screen {
    pub(super) rows: usize,
    pub(super) columns: usize,
}

/// The picture: fewer lines than the terminal has, for the cursor stands below them, and shorter
/// ones, for a character in the last column leaves the cursor where terminals do not agree.
pub(super) fn frame(now: &Now<'_>, seconds: &[IntervalRow], screen: Screen) -> Vec<Line> {
    let columns = screen.columns.saturating_sub(1);
    let scene = Scene {
        now,
        seconds,
        columns,
    };
    let (layout, count) = (Layout::of(columns), now.live.shards.len());
    let mut details: Vec<(usize, u8, Line)> = DETAILS
        .iter()
        .enumerate()
        .filter_map(|(place, detail)| Some((place, detail.rank, detail.line(&scene)?)))
        .collect();
    details.sort_by_key(|(_, rank, _)| *rank);
    // The total has the first line.
    let room = screen.rows.saturating_sub(2);
    let first = details.partition_point(|(_, rank, _)| *rank < AFTER_SHARDS);
    let has_header = room > first;
    // With the header.
    let table = usize::from(has_header) + count.min(FIRST_SHARDS);
    details.truncate(if room >= first + table {
        room - table
    } else {
        first.min(room)
    });
    details.sort_by_key(|(place, ..)| *place);
    let left = room.saturating_sub(details.len() + usize::from(has_header));
    let left = left.min(MOST_ROWS);
    let mut lines = Vec::new();
    if has_header {
        lines.push(rows::header(now, &layout));
    }
    // One row cannot say more than the total.
    if left >= 2 || count <= left {
        let [shown, hidden] = rows::chosen(now, left);
        lines.extend(
            shown
                .iter()
                .map(|number| rows::shard(now, *number, &layout)),
        );
        if !hidden.is_empty() {
            lines.push(rows::rest(now, &hidden, columns));
        }
    }
    lines.push(rows::total(now, &layout));
    lines.extend(details.into_iter().map(|(.., line)| line));
    // A terminal of one line or two has no room for anything.
    lines.truncate(screen.rows.saturating_sub(1));
    lines
}

#[cfg(test)]
mod tests {
    use crawlmark_harness::sample::ErrorKind;
    use crawlmark_harness::target::TargetNow;
    use proptest::prelude::*;

    use super::super::gauge::Gauge;
    use super::super::tests::{any_run, live, open, plan, shard};
    use super::*;

    /// The screen of a run 30 s after its start, of which all requests fail from `fails_at` on.
    fn screen(fails_at: u64, (rows, columns): (usize, usize)) -> String {
        let shards = |ms: u64, failed: u64| -> Vec<_> {
            let shard = |_| {
                let mut shard = shard(ms, ms / 2);
                let counters = &mut shard.counters;
                counters.items.ok -= failed;
                counters.items.failed = failed;
                counters.requests.errors_by_kind = [(ErrorKind::Reset, failed / 4)].into();
                counters.requests.rejected_by_status = [(500, failed - failed / 4)].into();
                counters.requests.attempts_by_status =
                    [(200, counters.items.ok), (500, failed - failed / 4)].into();
                counters
                    .requests
                    .attempts_by_status
                    .retain(|_, count| *count > 0);
                shard
            };
            (0..2).map(shard).collect()
        };
        let mut gauge = Gauge::new(&plan(2));
        let seconds = super::super::tests::rows(30, fails_at);
        for s in 0..30 {
            drop(gauge.read(&live(
                s * 1_000,
                shards(s * 1_000, s.saturating_sub(fails_at) * 400),
            )));
        }
        let mut last = live(30_000, shards(30_000, (30 - fails_at) * 400));
        last.recent = last.recent.filter(|_| fails_at == 30);
        let screen = Screen { rows, columns };
        let target = Some(TargetNow {
            cpus: Some(1.417),
            waiting: Some(0.02),
            throttled: (fails_at < 30).then_some(0.4),
        });
        let now = Now {
            target,
            ..gauge.read(&last)
        };
        let lines = frame(&now, &seconds, screen);
        lines
            .iter()
            .map(|line| line.text().trim_end().to_owned() + "\n")
            .collect()
    }

    #[test]
    fn screens_of_three_sizes_show_a_healthy_run_and_a_failing_one() {
        for (name, fails_at) in [("healthy", 30), ("failing", 18)] {
            for (columns, rows) in [(80, 24), (120, 45), (40, 20)] {
                insta::with_settings!(
                    { snapshot_path => "golden", prepend_module_to_snapshot => false, omit_expression => true },
                    { insta::assert_snapshot!(format!("{name}-{columns}x{rows}"), screen(fails_at, (rows, columns))) }
                );
            }
        }
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_the_terminal_and_no_picture_higher(
            [before, then] in any_run(), rows in 0..60_usize, columns in 0..240_usize, is_open in any::<bool>(),
        ) {
            let shards = u32::try_from(then.shards.len()).unwrap();
            let mut gauge = Gauge::new(&if is_open { open(shards) } else { plan(shards) });
            let complete = super::super::tests::rows(then.elapsed.as_secs(), 20);
            for live in [&before, &then] {
                let lines = frame(&gauge.read(live), &complete, Screen { rows, columns });
                prop_assert!(lines.len() <= rows.saturating_sub(1), "{} lines", lines.len());
                for line in &lines {
                    prop_assert!(line.width() <= columns.saturating_sub(1), "{}", line.text());
                }
                let has_total = lines.iter().any(|l| l.text().starts_with("total") || l.text().starts_with("stop"));
                prop_assert!(has_total || rows < 2 || columns < 7, "{lines:?}");
            }
        }
    }
}
