//! The rows of the live view: one per shard and one for all, in columns that suit the terminal's
//! width; and the choice of shards when there is no room for all: lost and silent ones first.

use std::cmp::Reverse;
use std::fmt::Write;
use std::time::Duration;

use crawlmark_harness::clock::duration_ns;
use crawlmark_harness::supervisor::{LiveState, Recent};
use crawlmark_results::show::text::grouped;

use super::gauge::{Now, silence};
use super::text::{Line, NAME, Tone, elapsed, nanos, per_second, percentile};

/// The inside of a bar, in columns.
const BAR: [usize; 2] = [6, 20];

/// A column beside the name and the bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Items,
    Rate,
    InFlight,
    P50,
    P99,
    Lag,
    Throttled,
    Pid,
}

/// Columns in the order in which they are shown: title, width, and rank. The width is what the title
/// and nearly all values need, with the space before. The lowest ranks are shown as far as there is
/// room.
const COLUMNS: [(Column, &str, usize, u8); 8] = [
    (Column::Items, "items", 13, 2),
    (Column::Rate, "rate", RATE, 0),
    (Column::InFlight, "in flight", 10, 3),
    (Column::P50, "p50", 10, 6),
    (Column::P99, "p99", 10, 1),
    (Column::Lag, "send delay", 11, 4),
    (Column::Throttled, "throttled", 11, 5),
    (Column::Pid, "pid", 8, 7),
];
const RATE: usize = 12;

/// Parts of a row that fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    /// All of it.
    columns: usize,
    /// The inside of a bar; none when there is no room for one.
    bar: Option<usize>,
    /// Columns of a rank below this are shown.
    ranks: u8,
}

impl Layout {
    /// For rows of so many columns.
    pub(super) fn of(columns: usize) -> Self {
        // With its brackets.
        let least_bar = BAR[0] + 2;
        let has_bar = columns >= NAME + least_bar + RATE;
        let mut left = columns.saturating_sub(NAME + if has_bar { least_bar } else { 0 });
        let mut ranks = 0;
        while let Some((.., width, _)) = COLUMNS.iter().find(|(.., rank)| *rank == ranks)
            && let Some(rest) = left.checked_sub(*width)
        {
            (left, ranks) = (rest, ranks + 1);
        }
        Self {
            columns,
            bar: has_bar.then(|| (BAR[0] + left).min(BAR[1])),
            ranks,
        }
    }

    fn row(&self, name: &str, bar: &str, cell: impl Fn(Column, &str) -> (String, Tone)) -> Line {
        let start = Line::of(format!("{name:<NAME$}{bar}"), Tone::Plain);
        let shown = COLUMNS.iter().filter(|(.., rank)| *rank < self.ranks);
        let row = shown.fold(start, |row, (column, title, width, _)| {
            let (text, tone) = cell(*column, title);
            row.and(format!("{text:>width$}"), tone)
        });
        row.cut(self.columns)
    }
}

/// A bar of so many columns between its brackets.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of the columns"
)]
pub(super) fn bar(done: f64, inside: usize) -> String {
    let full = (done.clamp(0.0, 1.0) * inside as f64) as usize;
    let head = if full < inside { ">" } else { "" };
    let bar = "=".repeat(full) + head;
    format!("[{bar:<inside$}]")
}

/// The titles, and how far the run is.
pub(super) fn header(now: &Now<'_>, layout: &Layout) -> Line {
    let elapsed = elapsed(now.live.elapsed);
    let short = now.remaining_words().filter(|_| !now.live.is_over());
    let long = short.as_ref().map(|left| format!("{elapsed}, {left}"));
    let room = layout.bar.map_or(0, |inside| inside + 2);
    let far = [long, short, Some(elapsed)]
        .into_iter()
        .flatten()
        .find(|far| far.len() <= room)
        .unwrap_or_default();
    let line = layout.row("shard", &format!("{far:^room$}"), |_, title| {
        (title.to_owned(), Tone::Plain)
    });
    Line::of(line.text(), Tone::Quiet)
}

/// Figures of a row.
struct Figures<'a> {
    name: &'a str,
    done: f64,
    items: u64,
    /// Its rate, or the state that stands for it.
    state: (String, Tone),
    /// True if its last second is known.
    speaks: bool,
    in_flight: u64,
    recent: Option<Recent>,
    lag: Option<Duration>,
    throttled: (u64, Tone),
    pid: String,
}

impl Figures<'_> {
    fn row(self, now: &Now<'_>, layout: &Layout) -> Line {
        let recent = self.recent.filter(|_| now.has_recent_times());
        let bar = layout.bar.map(|inside| bar(self.done, inside));
        layout.row(self.name, &bar.unwrap_or_default(), |column, _| {
            let text = match column {
                Column::Rate => return self.state.clone(),
                Column::Throttled => return (grouped(self.throttled.0), self.throttled.1),
                Column::Items => Some(grouped(self.items)),
                Column::Pid => Some(self.pid.clone()),
                _ if !self.speaks => Some(String::new()),
                Column::InFlight => Some(grouped(self.in_flight)),
                Column::P50 => recent.map(|recent| percentile(recent.p50)),
                Column::P99 => recent.map(|recent| percentile(recent.p99)),
                Column::Lag => self.lag.map(|lag| nanos(duration_ns(lag))),
            };
            (text.unwrap_or_else(|| "-".to_owned()), Tone::Plain)
        })
    }
}

/// The row of a shard.
pub(super) fn shard(now: &Now<'_>, number: usize, layout: &Layout) -> Line {
    let shard = &now.live.shards[number];
    let (items, silence) = (shard.counters.items.ended(), silence(shard, now.live));
    let is_done = shard.state == LiveState::Done;
    let state = match (shard.state, silence) {
        (LiveState::Running, None) => (per_second(now.rates[number]), Tone::Plain),
        // What it said of its times is old by now.
        (LiveState::Running, Some(silence)) => {
            (format!("silent {}", elapsed(silence)), Tone::Warning)
        }
        (LiveState::Done, _) => ("done".to_owned(), Tone::Plain),
        (LiveState::Lost, _) => ("lost".to_owned(), Tone::Failure),
        (LiveState::Restarting, _) => ("restarting".to_owned(), Tone::Warning),
    };
    let figures = Figures {
        name: &number.to_string(),
        done: if is_done {
            1.0
        } else {
            now.done(items, shard.planned)
        },
        items,
        state,
        speaks: shard.state == LiveState::Running && silence.is_none(),
        in_flight: shard.in_flight.into(),
        recent: shard.recent,
        lag: shard.lag,
        throttled: (shard.counters.requests.throttled, Tone::Plain),
        pid: shard.pid.to_string(),
    };
    figures.row(now, layout)
}

/// The row of all shards.
pub(super) fn total(now: &Now<'_>, layout: &Layout) -> Line {
    let (is_over, items) = (now.live.is_over(), now.counters.items.ended());
    let is_stopping = now.live.stopping.is_some() && !is_over;
    let state = if is_over {
        format!("in {}", nanos(duration_ns(now.live.elapsed)))
    } else {
        per_second(now.rate())
    };
    let tone = if now.lately.throttled > 0 {
        Tone::Warning
    } else {
        Tone::Plain
    };
    let figures = Figures {
        name: if is_stopping { "stopping" } else { "total" },
        done: if is_over {
            1.0
        } else {
            now.done(items, now.planned)
        },
        items,
        state: (state, Tone::Plain),
        speaks: !is_over,
        in_flight: now.in_flight().into(),
        recent: now.live.recent,
        lag: now.live.shards.iter().filter_map(|shard| shard.lag).max(),
        throttled: (now.counters.requests.throttled, tone),
        pid: String::new(),
    };
    figures.row(now, layout)
}

/// State of a shard, the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Trouble {
    Done,
    Running,
    Silent,
    Lost,
}

fn trouble(now: &Now<'_>, number: usize) -> Trouble {
    let shard = &now.live.shards[number];
    match shard.state {
        LiveState::Lost | LiveState::Restarting => Trouble::Lost,
        LiveState::Running if silence(shard, now.live).is_some() => Trouble::Silent,
        LiveState::Running => Trouble::Running,
        LiveState::Done => Trouble::Done,
    }
}

/// The shards that have rows, by number, and those that are summed up. All have one when there are
/// no more than `room`; else one row is left for [`rest`].
pub(super) fn chosen(now: &Now<'_>, room: usize) -> [Vec<usize>; 2] {
    let mut shown: Vec<usize> = (0..now.live.shards.len()).collect();
    let most = if shown.len() > room {
        room.saturating_sub(1)
    } else {
        room
    };
    shown.sort_by_key(|number| Reverse(trouble(now, *number)));
    let hidden = shown.split_off(most.min(shown.len()));
    shown.sort_unstable();
    [shown, hidden]
}

/// Summarize the shards that have no row.
pub(super) fn rest(now: &Now<'_>, hidden: &[usize], columns: usize) -> Line {
    let (mut least, mut most) = (f64::MAX, 0.0_f64);
    let mut kinds = [
        (Trouble::Running, 0, "running"),
        (Trouble::Done, 0, "done"),
        (Trouble::Silent, 0, "silent"),
        (Trouble::Lost, 0, "lost"),
    ];
    for number in hidden {
        let trouble = trouble(now, *number);
        if trouble == Trouble::Running {
            least = least.min(now.rates[*number]);
            most = most.max(now.rates[*number]);
        }
        for (_, count, _) in kinds.iter_mut().filter(|(kind, ..)| *kind == trouble) {
            *count += 1;
        }
    }
    let mut text = format!("and {} more", hidden.len());
    for (kind, count, name) in kinds.into_iter().filter(|(_, count, _)| *count > 0) {
        let _ = match kind {
            Trouble::Running => {
                let (least, most) = (per_second(least), per_second(most));
                write!(text, ", {count} at {least} to {most}")
            }
            _ => write!(text, ", {count} {name}"),
        };
    }
    Line::of(text, Tone::Quiet).cut(columns)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::gauge::Gauge;
    use super::super::tests::{live, plan, shard};
    use super::*;

    #[test]
    fn rows_say_how_a_shard_is() {
        let mut gauge = Gauge::new(&plan(4));
        drop(gauge.read(&live(
            1_000,
            (0..4).map(|n| shard(1_000, n * 1_000)).collect(),
        )));
        let mut shards: Vec<_> = (0..4).map(|n| shard(4_000, n * 4_000)).collect();
        (shards[0].at, shards[2].state, shards[3].state) =
            (shard(1_500, 0).at, LiveState::Done, LiveState::Lost);
        let live = live(4_000, shards);
        let now = gauge.read(&live);
        let layout = Layout::of(79);
        let mut rows: Vec<String> = (0..4)
            .map(|n| super::shard(&now, n, &layout).text())
            .collect();
        rows.extend([total(&now, &layout).text(), header(&now, &layout).text()]);
        assert_eq!(
            rows,
            [
                "0        [>           ]            0   silent 2s                               ",
                "1        [>           ]        4,000     1,000/s         8   4.00 ms     120 µs",
                "2        [============]        8,000        done                               ",
                "3        [=>          ]       12,000        lost                               ",
                "total    [>           ]       24,000     1,000/s        32   4.00 ms     120 µs",
                "shard    4s, 56s to go         items        rate in flight       p99 send delay",
            ]
        );
    }

    #[test]
    fn the_worst_have_rows_and_the_others_are_summed_up() {
        // Ten shards, of which the n-th has done `n * 100` items a second.
        let ten = |seconds: u64| {
            let shards = (0..10).map(|n| shard(seconds * 1_000, n * 100 * seconds));
            live(seconds * 1_000, shards.collect())
        };
        let mut gauge = Gauge::new(&plan(10));
        drop(gauge.read(&ten(1)));
        let mut state = ten(3);
        state.shards[9].state = LiveState::Lost;
        state.shards[0].state = LiveState::Done;
        // Said nothing since.
        state.shards[7].at = shard(1_000, 0).at;
        let now = gauge.read(&state);
        let [shown, hidden] = chosen(&now, 5);
        assert_eq!(shown, [1, 2, 7, 9]);
        assert_eq!(
            rest(&now, &hidden, 99).text(),
            "and 6 more, 5 at 300/s to 800/s, 1 done"
        );
        assert_eq!(chosen(&now, 10), [(0..10).collect(), Vec::new()]);
    }

    proptest! {
        #[test]
        fn a_layout_uses_no_more_than_there_is(columns in 0..300_usize) {
            let layout = Layout::of(columns);
            let row = layout.row("", &layout.bar.map_or_else(String::new, |inside| bar(1.0, inside)), |_, _| (String::new(), Tone::Plain));
            prop_assert!(row.width() <= columns.max(NAME));
            prop_assert!(layout.bar.is_none_or(|inside| (BAR[0]..=BAR[1]).contains(&inside)));
        }
    }
}
