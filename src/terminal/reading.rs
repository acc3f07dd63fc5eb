//! Progress of a command that reads large files: a bar on a terminal, a line now and then
//! elsewhere. Drawn by its caller, without a thread.

use std::io::{self, IsTerminal};
use std::time::Duration;

use crawlmark_harness::clock::Clock;
use crawlmark_results::show::text::bytes;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::print::say;

/// Draws per second at most.
const DRAW_HZ: u8 = 5;

/// Time between two lines.
const EVERY: Duration = Duration::from_secs(10);

/// Display of how much was read.
#[derive(Debug)]
pub(crate) enum ReadProgress {
    /// Not at all.
    Silent,
    /// A line now and then.
    Lines {
        since: Clock,
        next: Duration,
        total: u64,
    },
    /// A bar.
    Bar(ProgressBar),
}

impl ReadProgress {
    /// A bar when standard error is a terminal, else lines. `total` is in bytes.
    pub(crate) fn fitting(total: u64) -> Self {
        if !io::stderr().is_terminal() || console::is_dumb() {
            return Self::Lines {
                since: Clock::start(),
                next: EVERY,
                total,
            };
        }
        let bar =
            ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(DRAW_HZ));
        let style = "  [{bar:20}] {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left";
        let style =
            ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.progress_chars("=> "));
        Self::Bar(bar)
    }

    /// Show that so many bytes were read.
    pub(crate) fn show(&mut self, read: u64) {
        match self {
            Self::Silent => {}
            Self::Bar(bar) => bar.set_position(read),
            Self::Lines { since, next, total } => {
                let elapsed = Duration::from_nanos(since.now().0);
                if elapsed >= *next {
                    *next = elapsed + EVERY;
                    say(&format!(
                        "  {} of {} read, {} s\n",
                        bytes(read),
                        bytes(*total),
                        elapsed.as_secs()
                    ));
                }
            }
        }
    }

    /// Remove the bar.
    pub(crate) fn end(self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}
