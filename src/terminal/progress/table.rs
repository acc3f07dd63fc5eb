//! The rows of the live view: one per shard and one for all, in columns that suit the terminal's
//! width.

use std::time::Duration;

use crawlmark_harness::supervisor::{LiveState, Recent};
use crawlmark_results::show::text::grouped;

use super::gauge::Now;
use super::text::{Line, NAME, Tone};
use super::words::{elapsed, nanos, per_second, percentile};

/// The inside of a bar, in columns.
const BAR: [usize; 2] = [6, 20];

/// A column beside the name and the bar, in the order in which they are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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

impl Column {
    /// The first ones are shown as far as there is room.
    const BY_RANK: [Self; 8] = [
        Self::Rate,
        Self::P99,
        Self::Items,
        Self::InFlight,
        Self::Lag,
        Self::Throttled,
        Self::P50,
        Self::Pid,
    ];

    const fn title(self) -> &'static str {
        match self {
            Self::Items => "items",
            Self::Rate => "rate",
            Self::InFlight => "in flight",
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::Lag => "send delay",
            Self::Throttled => "throttled",
            Self::Pid => "pid",
        }
    }

    /// With the space before it: what its title and nearly all values need.
    const fn width(self) -> usize {
        match self {
            Self::Items => 13,
            Self::Rate => 12,
            Self::InFlight | Self::P50 | Self::P99 => 10,
            Self::Lag | Self::Throttled => 11,
            Self::Pid => 8,
        }
    }
}

/// Parts of a row that fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    /// All of it.
    columns: usize,
    /// The inside of a bar; none when there is no room for one.
    bar: Option<usize>,
    shown: Vec<Column>,
}

impl Layout {
    /// For rows of so many columns.
    pub(super) fn of(columns: usize) -> Self {
        // With its brackets.
        let least_bar = BAR[0] + 2;
        let has_bar = columns >= NAME + least_bar + Column::Rate.width();
        let mut left = columns.saturating_sub(NAME + if has_bar { least_bar } else { 0 });
        let mut shown: Vec<Column> = Vec::new();
        for column in Column::BY_RANK {
            let Some(rest) = left.checked_sub(column.width()) else {
                break;
            };
            left = rest;
            shown.push(column);
        }
        shown.sort();
        Self {
            columns,
            bar: has_bar.then(|| (BAR[0] + left).min(BAR[1])),
            shown,
        }
    }

    fn row(&self, name: &str, bar: &str, cell: impl Fn(Column) -> (String, Tone)) -> Line {
        let start = Line::default().and(format!("{name:<NAME$}{bar}"), Tone::Plain);
        let row = self.shown.iter().fold(start, |row, column| {
            let (text, tone) = cell(*column);
            row.and(format!("{text:>0$}", column.width()), tone)
        });
        row.cut(self.columns)
    }

    fn bar(&self, done: f64) -> String {
        self.bar.map(|inside| bar(done, inside)).unwrap_or_default()
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
    format!(
        "[{}{head}{}]",
        "=".repeat(full),
        " ".repeat(inside - full - head.len())
    )
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
    let line = layout.row("shard", &format!("{far:^room$}"), |column| {
        (column.title().to_owned(), Tone::Plain)
    });
    Line::default().and(line.text(), Tone::Quiet)
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
        let bar = layout.bar(self.done);
        layout.row(self.name, &bar, |column| {
            let text = match column {
                Column::Rate => return self.state.clone(),
                Column::Throttled => return (grouped(self.throttled.0), self.throttled.1),
                Column::Items => grouped(self.items),
                Column::Pid => self.pid.clone(),
                _ if !self.speaks => String::new(),
                Column::InFlight => grouped(self.in_flight),
                Column::P50 => recent.map_or_else(dash, |recent| percentile(recent.p50)),
                Column::P99 => recent.map_or_else(dash, |recent| percentile(recent.p99)),
                Column::Lag => self.lag.map_or_else(dash, |lag| nanos(whole_nanos(lag))),
            };
            (text, Tone::Plain)
        })
    }
}

/// The row of a shard.
pub(super) fn shard(now: &Now<'_>, number: usize, layout: &Layout) -> Line {
    let shard = &now.live.shards[number];
    let (items, silence) = (shard.counters.items.ended(), now.silence(shard));
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
        format!("in {}", nanos(whole_nanos(now.live.elapsed)))
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

fn dash() -> String {
    "-".to_owned()
}

fn whole_nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::gauge::Gauge;
    use super::super::tests::{live, plan, shard};
    use super::super::text::tests::plain;
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
        let rows: Vec<String> = (0..4)
            .map(|n| plain(&super::shard(&now, n, &layout)))
            .collect();
        assert_eq!(
            rows,
            [
                "0        [>           ]            0   silent 2s                               ",
                "1        [>           ]        4,000     1,000/s         8   4.00 ms     120 µs",
                "2        [============]        8,000        done                               ",
                "3        [=>          ]       12,000        lost                               ",
            ]
        );
        assert_eq!(
            plain(&total(&now, &layout)),
            "total    [>           ]       24,000     1,000/s        32   4.00 ms     120 µs"
        );
        assert_eq!(
            plain(&header(&now, &layout)),
            "shard    4s, 56s to go         items        rate in flight       p99 send delay"
        );
    }

    proptest! {
        #[test]
        fn a_layout_uses_no_more_than_there_is(columns in 0..300_usize) {
            let layout = Layout::of(columns);
            let bar = layout.bar.map_or(0, |inside| inside + 2);
            let used = NAME + bar + layout.shown.iter().map(|column| column.width()).sum::<usize>();
            prop_assert!(used <= columns.max(NAME));
            prop_assert!(layout.bar.is_none_or(|inside| (BAR[0]..=BAR[1]).contains(&inside)));
        }
    }
}
