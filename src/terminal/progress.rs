//! A run as it goes: bars on a terminal, a line a second elsewhere. Drawn from the supervisor's loop, without a thread.

use std::collections::VecDeque;
use std::io::{self, IsTerminal};
use std::time::Duration;

use crawlmark_harness::clock::Nanos;
use crawlmark_harness::plan::RunPlan;
use crawlmark_harness::render::{grouped, grouped_f64, micros};
use crawlmark_harness::stats::{Counters, Percentile};
use crawlmark_harness::supervisor::{Live, LiveShard, LiveState, Recent};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::say;

/// A rate is shown over at least this long: enough to read, little enough to be now. A shard says how far it is four
/// times in it.
const RATE_WINDOW_NS: u64 = 1_000_000_000;

/// More shards than this share the total's bar: the rows would not fit a screen.
const MOST_BARS: usize = 16;

/// Draws per second at most. The numbers change more slowly.
const DRAW_HZ: u8 = 5;

/// The steps of a bar.
const STEPS: u64 = 1_000;

/// How much of a row fits a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fit {
    /// Everything.
    Wide,
    /// All but the requests in flight.
    Middle,
    /// Rate, percentiles, time to go.
    Narrow,
    /// Rate and one percentile.
    Tiny,
    /// The rate.
    Least,
}

impl Fit {
    /// For a terminal of so many columns: the length of a row with seven-digit counts, and some to spare.
    const fn of(columns: u16) -> Self {
        match columns {
            0..=45 => Self::Least,
            46..=67 => Self::Tiny,
            68..=105 => Self::Narrow,
            106..=125 => Self::Middle,
            _ => Self::Wide,
        }
    }

    const fn bar(self) -> usize {
        match self {
            Self::Wide | Self::Middle => 20,
            Self::Narrow | Self::Tiny | Self::Least => 10,
        }
    }
}

/// How a run is shown.
#[derive(Debug)]
pub(crate) enum Progress {
    /// Not at all.
    Silent,
    /// A line a second.
    Lines(Lines),
    /// A bar per shard, and one for all.
    Bars(Bars),
}

impl Progress {
    /// Bars when standard error is a terminal, else lines.
    pub(crate) fn fitting(plan: &RunPlan) -> Self {
        if io::stderr().is_terminal() { Self::Bars(Bars::new(plan)) } else { Self::Lines(Lines::new(plan)) }
    }

    /// Shows how the run stands.
    pub(crate) fn show(&mut self, live: &Live) {
        match self {
            Self::Silent => {}
            Self::Lines(lines) => lines.show(live),
            Self::Bars(bars) => bars.show(live),
        }
    }

    /// Ends the showing; what is printed next starts on a clean line.
    pub(crate) fn end(&mut self) {
        if let Self::Bars(bars) = self {
            bars.end();
        }
    }
}

/// What a shard said of how far it is, over the last second: pairs of a moment and the items that had ended by then. Its
/// own moments, not those of the looks at it, which would see four reports in one second and five in the next.
#[derive(Debug, Default)]
struct Meter {
    said: VecDeque<(Nanos, u64)>,
}

impl Meter {
    /// Items per second, now that the shard has said where it was `at`.
    fn rate(&mut self, at: Nanos, items: u64) -> f64 {
        if self.said.back().is_none_or(|(last, _)| *last < at) {
            self.said.push_back((at, items));
        }
        while self.said.get(1).is_some_and(|(second, _)| at.since(*second) >= RATE_WINDOW_NS) {
            self.said.pop_front();
        }
        let Some((since, before)) = self.said.front() else { return 0.0 };
        let seconds = at.since(*since) as f64 / 1e9;
        if seconds > 0.0 { items.saturating_sub(*before) as f64 / seconds } else { 0.0 }
    }
}

/// The rate of each shard that is at work.
fn rates(meters: &mut [Meter], live: &Live) -> Vec<f64> {
    let shards = meters.iter_mut().zip(&live.shards);
    let rate = |(meter, shard): (&mut Meter, &LiveShard)| match shard.state {
        LiveState::Running => meter.rate(shard.at, shard.counters.items()),
        LiveState::Done | LiveState::Lost => 0.0,
    };
    shards.map(rate).collect()
}

fn meters(plan: &RunPlan) -> Vec<Meter> {
    (0..plan.shards).map(|_| Meter::default()).collect()
}

/// One row, as numbers.
struct Row<'a> {
    counters: &'a Counters,
    planned: u64,
    in_flight: u32,
    recent: Option<Recent>,
    rate: f64,
}

impl Row<'_> {
    /// Done, 0 to 1: by items or by time, whichever is further.
    fn done(&self, elapsed: Duration, limit: Option<Duration>) -> f64 {
        let items = self.counters.items() as f64 / self.planned.max(1) as f64;
        let time = limit.map_or(0.0, |limit| elapsed.as_secs_f64() / limit.as_secs_f64());
        items.max(time).min(1.0)
    }

    /// Until it is done, by items or by time, whichever is sooner.
    fn remaining(&self, elapsed: Duration, limit: Option<Duration>) -> Option<Duration> {
        let left = self.planned.saturating_sub(self.counters.items()) as f64;
        let by_items = Duration::try_from_secs_f64(left / self.rate).ok();
        let by_time = limit.map(|limit| limit.saturating_sub(elapsed));
        [by_items, by_time].into_iter().flatten().min()
    }

    fn text(&self, eta: Option<Duration>, fit: Fit) -> String {
        let (p50, p99) = match self.recent {
            Some(Recent { p50, p99 }) => (percentile(p50), percentile(p99)),
            None => ("-".to_owned(), "-".to_owned()),
        };
        let eta = eta.map_or_else(|| "-".to_owned(), |eta| format!("{}s", eta.as_secs()));
        let rate = format!("{:>8}/s", grouped_f64(self.rate));
        let in_flight = match fit {
            Fit::Least => return rate,
            Fit::Tiny => return format!("{rate} p99 {p99:>7}"),
            Fit::Narrow => return format!("{rate} p50 {p50:>7} p99 {p99:>7} eta {eta}"),
            Fit::Middle => String::new(),
            Fit::Wide => format!("{:>6} in flight", self.in_flight),
        };
        let items = grouped(self.counters.items());
        let throttled = grouped(self.counters.throttled);
        let failed = match self.counters.failed {
            0 => String::new(),
            failed => format!("  failed {}", grouped(failed)),
        };
        format!("{items:>11}  {rate}{in_flight}  p50 {p50:>7} p99 {p99:>7}  throttled {throttled}{failed}  eta {eta}")
    }
}

fn percentile(percentile: Percentile) -> String {
    match percentile {
        Percentile::TooFew => "-".to_owned(),
        Percentile::Exact(ns) => micros(ns as f64 / 1e3),
        Percentile::AtLeast(ns) => format!(">={}", micros(ns as f64 / 1e3)),
    }
}

fn total(live: &Live) -> (Counters, u64, u32) {
    let mut counters = Counters::default();
    live.shards.iter().for_each(|shard| counters.merge(&shard.counters));
    let planned = live.shards.iter().map(|shard| shard.planned).sum();
    (counters, planned, live.shards.iter().map(|shard| shard.in_flight).sum())
}

/// A line a second on standard error.
#[derive(Debug)]
pub(crate) struct Lines {
    limit: Option<Duration>,
    meters: Vec<Meter>,
    next: Duration,
}

impl Lines {
    fn new(plan: &RunPlan) -> Self {
        Self { limit: plan.duration, meters: meters(plan), next: Duration::from_secs(1) }
    }

    fn show(&mut self, live: &Live) {
        let (counters, planned, in_flight) = total(live);
        let rate = rates(&mut self.meters, live).iter().sum();
        if live.elapsed < self.next {
            return;
        }
        self.next = Duration::from_secs(live.elapsed.as_secs() + 1);
        let row = Row { counters: &counters, planned, in_flight, recent: live.recent, rate };
        let done = row.done(live.elapsed, self.limit) * 100.0;
        let text = row.text(row.remaining(live.elapsed, self.limit), Fit::Wide);
        let stopping = if live.stopping { "  stopping" } else { "" };
        say(&format!("{:>4} s {done:>5.1} %  {}{stopping}\n", live.elapsed.as_secs(), text.trim_start()));
    }
}

/// A bar per shard and one for all, on standard error.
#[derive(Debug)]
pub(crate) struct Bars {
    limit: Option<Duration>,
    shards: Vec<ProgressBar>,
    total: ProgressBar,
    meters: Vec<Meter>,
    width: u16,
}

impl Bars {
    fn new(plan: &RunPlan) -> Self {
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(DRAW_HZ));
        let count = plan.shards as usize;
        let bar = |name: String| {
            let bar = all.add(ProgressBar::new(STEPS));
            bar.set_prefix(name);
            bar
        };
        let shards = (0..if count <= MOST_BARS { count } else { 0 }).map(|i| bar(format!("shard {i}"))).collect();
        let total = bar("total".to_owned());
        Self { limit: plan.duration, shards, total, meters: meters(plan), width: 0 }
    }

    fn show(&mut self, live: &Live) {
        self.fit();
        let (elapsed, limit, fit) = (live.elapsed, self.limit, Fit::of(self.width));
        let rates = rates(&mut self.meters, live);
        for ((bar, rate), shard) in self.shards.iter().zip(&rates).zip(&live.shards) {
            let row = Row {
                counters: &shard.counters,
                planned: shard.planned,
                in_flight: shard.in_flight,
                recent: shard.recent,
                rate: *rate,
            };
            bar.set_position(steps(row.done(elapsed, limit)));
            match shard.state {
                LiveState::Running => bar.set_message(row.text(row.remaining(elapsed, limit), fit)),
                LiveState::Done => {
                    bar.set_position(STEPS);
                    bar.set_message(format!("{:>11}  done", grouped(shard.counters.items())));
                }
                LiveState::Lost => bar.set_message(format!("{:>11}  lost", grouped(shard.counters.items()))),
            }
        }
        let (counters, planned, in_flight) = total(live);
        let (bar, rate) = (&self.total, rates.iter().sum());
        let row = Row { counters: &counters, planned, in_flight, recent: live.recent, rate };
        bar.set_position(steps(row.done(elapsed, limit)));
        bar.set_prefix(if live.stopping { "stopping" } else { "total" });
        if live.shards.iter().all(|shard| shard.state != LiveState::Running) {
            bar.set_position(STEPS);
            bar.set_message(format!("{:>11}  in {}", grouped(counters.items()), micros(elapsed.as_secs_f64() * 1e6)));
        } else {
            bar.set_message(row.text(row.remaining(elapsed, limit), fit));
        }
    }

    /// Follows the terminal's width.
    fn fit(&mut self) {
        let (_, width) = console::Term::stderr().size();
        if width == self.width {
            return;
        }
        self.width = width;
        let template = format!("{{prefix:<8}} [{{bar:{}}}] {{msg}}", Fit::of(width).bar());
        let style = ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let style = style.progress_chars("=> ");
        self.shards.iter().for_each(|bar| bar.set_style(style.clone()));
        self.total.set_style(style);
    }

    fn end(&mut self) {
        self.shards.iter().for_each(ProgressBar::abandon);
        self.total.abandon();
        // Leaves the last state of the bars on the screen, with a line between it and what follows.
        say("\n");
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of 1,000 steps")]
fn steps(done: f64) -> u64 {
    (done.clamp(0.0, 1.0) * STEPS as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_shard_shows_its_rate_whenever_it_is_looked_at() {
        let mut meter = Meter::default();
        // 1,000/s, said every 250 ms, looked at every 100 ms.
        let rates: Vec<f64> = (1..100_u64)
            .map(|look| {
                let said = look * 100 / 250 * 250;
                meter.rate(Nanos(said * 1_000_000), said)
            })
            .collect();
        assert!(rates[5..].iter().all(|rate| (rate - 1_000.0).abs() < 1e-9), "{rates:?}");
    }
}
