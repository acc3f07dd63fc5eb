//! Progress of a run where there is no terminal to draw on: a line a second, and after a minute one
//! every ten seconds, because these lines go to logs that people scroll through.

use std::fmt::Write;
use std::time::Duration;

use crawlmark_harness::plan::RunPlan;
use crawlmark_harness::supervisor::{Live, Stopping};
use crawlmark_harness::units::percent;
use crawlmark_results::run::words::errors;
use crawlmark_results::show::text::grouped;

use super::gauge::{Gauge, Now};
use super::text::{pause_words, per_second, percentile, stop_words};
use crate::terminal::print::say;

/// For so long there is a line every second.
const OFTEN_S: u64 = 60;

/// And then every so many.
const RARELY_S: u64 = 10;

/// A line now and then on standard error.
#[derive(Debug)]
pub(crate) struct Lines {
    gauge: Gauge,
    next: Duration,
    /// The stop that was announced.
    stopping: Option<Stopping>,
}

impl Lines {
    pub(super) fn new(plan: &RunPlan) -> Self {
        Self {
            gauge: Gauge::new(plan),
            next: next_after(Duration::ZERO),
            stopping: None,
        }
    }

    /// Says how the run stands, if it is time. What is over is said in full right after.
    pub(super) fn show(&mut self, live: &Live) {
        let now = self.gauge.read(live);
        if let Some(stopping) = live
            .stopping
            .filter(|stopping| !live.is_over() && self.stopping != Some(*stopping))
        {
            self.stopping = Some(stopping);
            say(&format!(
                "Stopping; {}\n",
                stop_words(stopping, now.in_flight())
            ));
        }
        if live.elapsed >= self.next && !live.is_over() {
            self.next = next_after(live.elapsed);
            say(&line(&now));
        }
    }
}

/// When there is to be a line after that of `elapsed`.
fn next_after(elapsed: Duration) -> Duration {
    let step = if elapsed.as_secs() < OFTEN_S {
        1
    } else {
        RARELY_S
    };
    Duration::from_secs((elapsed.as_secs() / step + 1) * step)
}

fn line(now: &Now<'_>) -> String {
    let counters = &now.counters;
    let items = counters.items.ended();
    let [p50, p99] = now
        .live
        .recent
        .filter(|_| now.has_recent_times())
        .map_or_else(
            || ["-".to_owned(), "-".to_owned()],
            |recent| [recent.p50, recent.p99].map(percentile),
        );
    let mut text = format!(
        "{:>4} s {:>5.1} % {:>11}{:>10} {:>5} in flight  p50 {p50:>9} p99 {p99:>9}  errors {:<7} throttled {}",
        now.live.elapsed.as_secs(),
        now.done(items, now.planned) * 100.0,
        grouped(items),
        per_second(now.rate()),
        now.in_flight(),
        grouped(counters.errors()),
        grouped(counters.requests.throttled),
    );
    if counters.requests.throttled > 0 {
        let _ = write!(
            text,
            " ({} now)",
            percent(now.throttled_lately().unwrap_or_default())
        );
    }
    let counts = [
        ("items failed", counters.items.failed),
        ("abandoned", counters.items.gave_up),
    ];
    for (name, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        let _ = write!(text, "  {name} {}", grouped(count));
    }
    if let Some(pause) = now.live.pause {
        let _ = write!(text, "  paused {}", pause_words(pause));
    }
    if let Some((cause, _)) = errors(counters).first() {
        let _ = write!(text, "  mostly {cause}");
    }
    let _ = write!(
        text,
        "  {}",
        now.remaining_words()
            .unwrap_or_else(|| "- to go".to_owned())
    );
    text + if now.live.stopping.is_some() {
        "  stopping\n"
    } else {
        "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_every_second_and_after_a_minute_every_ten() {
        let mut at = vec![Duration::from_secs(57)];
        while at.last().is_some_and(|last| last.as_secs() < 85) {
            at.push(next_after(at[at.len() - 1] + Duration::from_millis(70)));
        }
        assert_eq!(
            at.iter().map(Duration::as_secs).collect::<Vec<_>>(),
            [57, 58, 59, 60, 70, 80, 90]
        );
    }
}
