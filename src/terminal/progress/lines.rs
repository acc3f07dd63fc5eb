//! Progress of a run where there is no terminal to draw on: a line every ten seconds, and after five
//! minutes one a minute, because these lines go to logs that people scroll through; and one for each
//! fact when it begins. Names and their order never change.

use std::collections::BTreeSet;
use std::time::Duration;

use crawlmark_harness::plan::RunPlan;
use crawlmark_harness::supervisor::Live;
use crawlmark_results::run::words;
use crawlmark_results::show::text::{decimal, grouped};

use super::gauge::{Gauge, Now};
use super::news;
use super::text::{left, percentile};
use crate::terminal::print::say;

/// For so long there is a line every ten seconds.
const OFTEN_S: u64 = 300;

/// Time between two lines until then, and afterwards.
const STEPS_S: [u64; 2] = [10, 60];

/// A line now and then on standard error.
#[derive(Debug)]
pub(crate) struct Lines {
    gauge: Gauge,
    next: Duration,
    /// Facts that were said.
    said: BTreeSet<(&'static str, u64)>,
}

impl Lines {
    /// Say what is to be done, and be ready to say how it goes.
    pub(super) fn begin(plan: &RunPlan) -> Self {
        say(&format!("crawlmark: {}\n", words::plan_line(plan)));
        Self {
            gauge: Gauge::new(plan),
            next: next_after(Duration::ZERO),
            said: BTreeSet::new(),
        }
    }

    /// Says how the run stands, if it is time. What is over is said in full right after.
    pub(super) fn show(&mut self, live: &Live) {
        let now = self.gauge.read(live);
        if live.is_over() {
            return;
        }
        for news in news::all(&now) {
            if self.said.insert((news.kind, news.number)) {
                say(&format!("crawlmark: {}: {}\n", news.kind, news.fact));
            }
        }
        if live.elapsed >= self.next {
            self.next = next_after(live.elapsed);
            say(&line(&now));
        }
    }
}

/// When there is to be a line after that of `elapsed`.
fn next_after(elapsed: Duration) -> Duration {
    let [often, rarely] = STEPS_S;
    let step = if elapsed.as_secs() < OFTEN_S {
        often
    } else {
        rarely
    };
    Duration::from_secs((elapsed.as_secs() / step + 1) * step)
}

fn line(now: &Now<'_>) -> String {
    let unknown = ["-", "-"].map(str::to_owned);
    let recent = now.live.recent;
    let [p50, p99] = recent.map_or(unknown, |recent| [recent.p50, recent.p99].map(percentile));
    format!(
        "crawlmark: {} s  {}/s good  p50 {p50}  p99 {p99}  failed {}  throttled {}  {} left\n",
        now.live.elapsed.as_secs(),
        decimal(now.good_per_s),
        grouped(now.counters.errors()),
        grouped(now.counters.requests.throttled),
        now.remaining().map_or_else(|| "-".to_owned(), left),
    )
}

#[cfg(test)]
mod tests {
    use super::super::tests::{live, plan, shard};
    use super::*;

    #[test]
    fn lines_come_every_ten_seconds_and_after_five_minutes_every_minute() {
        let mut at = vec![Duration::from_secs(277)];
        while at.last().is_some_and(|last| last.as_secs() < 420) {
            at.push(next_after(at[at.len() - 1] + Duration::from_millis(70)));
        }
        assert_eq!(
            at.iter().map(Duration::as_secs).collect::<Vec<_>>(),
            [277, 280, 290, 300, 360, 420]
        );
    }

    #[test]
    fn a_line_has_its_names_in_their_order() {
        let mut gauge = Gauge::new(&plan(1));
        drop(gauge.read(&live(9_000, vec![shard(9_000, 9_000)])));
        let live = live(10_000, vec![shard(10_000, 10_000)]);
        assert_eq!(
            line(&gauge.read(&live)),
            "crawlmark: 10 s  1,000/s good  p50 1.00 ms  p99 4.00 ms  failed 0  throttled 0  50 s left\n"
        );
    }
}
