//! Choice of the shards that have a row when there is no room for all: lost, silent and slow ones
//! first.

use std::fmt::Write;
use std::time::Duration;

use crawlmark_harness::supervisor::LiveState;

use super::gauge::Now;
use super::text::{Line, Tone};
use super::words::per_second;

/// Most rows worth reading.
pub(super) const MOST_ROWS: usize = 16;

/// Rows that changed places more often could not be read.
const STAYS: Duration = Duration::from_secs(2);

/// The shards that are shown for now.
#[derive(Debug, Default)]
pub(super) struct Fold {
    shown: Vec<usize>,
    room: usize,
    until: Duration,
}

/// State of a shard, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Trouble {
    Lost,
    Silent,
    Running,
    Done,
}

fn trouble(now: &Now<'_>, number: usize) -> Trouble {
    let shard = &now.live.shards[number];
    match shard.state {
        LiveState::Lost | LiveState::Restarting => Trouble::Lost,
        LiveState::Running if now.silence(shard).is_some() => Trouble::Silent,
        LiveState::Running => Trouble::Running,
        LiveState::Done => Trouble::Done,
    }
}

impl Fold {
    /// The shards that have rows, by number. Of all of them, when there are no more than `room`;
    /// else one row is left for [`rest`].
    pub(super) fn choose(&mut self, now: &Now<'_>, room: usize) -> &[usize] {
        let count = now.live.shards.len();
        if count <= room {
            self.shown = (0..count).collect();
        } else if self.room != room || now.live.elapsed >= self.until || now.live.is_over() {
            self.shown = worst(now, room.saturating_sub(1));
            self.until = now.live.elapsed + STAYS;
        }
        self.room = room;
        &self.shown
    }
}

/// The `most` that are worst off, by number: lost, silent, the slowest.
fn worst(now: &Now<'_>, most: usize) -> Vec<usize> {
    let mut all: Vec<usize> = (0..now.live.shards.len()).collect();
    all.sort_by(|a, b| {
        trouble(now, *a)
            .cmp(&trouble(now, *b))
            .then_with(|| now.rates[*a].total_cmp(&now.rates[*b]))
            .then(a.cmp(b))
    });
    all.truncate(most);
    all.sort_unstable();
    all
}

/// Summarize the shards that have no row.
pub(super) fn rest(now: &Now<'_>, shown: &[usize], columns: usize) -> Line {
    let hidden: Vec<usize> = (0..now.live.shards.len())
        .filter(|number| !shown.contains(number))
        .collect();
    let of = |kind: Trouble| {
        hidden
            .iter()
            .copied()
            .filter(move |number| trouble(now, *number) == kind)
    };
    let rates = of(Trouble::Running).map(|number| now.rates[number]);
    let (least, most) = rates.fold((f64::MAX, 0.0_f64), |(least, most), rate| {
        (least.min(rate), most.max(rate))
    });
    let running = of(Trouble::Running).count();
    let mut text = format!("and {} more", hidden.len());
    if running > 0 {
        let of_them = if running < hidden.len() {
            format!(", {running}")
        } else {
            String::new()
        };
        let _ = write!(
            text,
            "{of_them} at {} to {}",
            per_second(least),
            per_second(most)
        );
    }
    for (kind, name) in [
        (Trouble::Done, "done"),
        (Trouble::Silent, "silent"),
        (Trouble::Lost, "lost"),
    ] {
        match of(kind).count() {
            0 => {}
            count => drop(write!(text, ", {count} {name}")),
        }
    }
    Line::default().and(text, Tone::Quiet).cut(columns)
}

#[cfg(test)]
mod tests {
    use super::super::gauge::Gauge;
    use super::super::tests::{live, plan, shard};
    use super::super::text::tests::plain;
    use super::*;

    /// Ten shards, of which the n-th has done `n * 100` items a second, after `seconds`.
    fn ten(seconds: u64) -> crawlmark_harness::supervisor::Live {
        live(
            seconds * 1_000,
            (0..10)
                .map(|n| shard(seconds * 1_000, n * 100 * seconds))
                .collect(),
        )
    }

    #[test]
    fn the_worst_have_rows_and_the_others_are_summed_up() {
        let mut gauge = Gauge::new(&plan(10));
        drop(gauge.read(&ten(1)));
        let mut then = ten(3);
        then.shards[9].state = LiveState::Lost;
        then.shards[0].state = LiveState::Done;
        // Said nothing since.
        then.shards[7].at = shard(1_000, 0).at;
        let now = gauge.read(&then);
        let mut fold = Fold::default();
        let shown = fold.choose(&now, 5).to_vec();
        assert_eq!(shown, [1, 2, 7, 9]);
        assert_eq!(
            plain(&rest(&now, &shown, 99)),
            "and 6 more, 5 at 300/s to 800/s, 1 done"
        );
        assert_eq!(fold.choose(&now, 10), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }
}
