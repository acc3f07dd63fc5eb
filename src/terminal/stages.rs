//! Progress of a command with several stages: a bar for the current stage on a terminal, a line for
//! each stage elsewhere. Drawn from the supervisor's loop, without a thread.

use std::io::{self, IsTerminal};
use std::time::Duration;

use crawlmark_harness::clock::Clock;
use crawlmark_results::show::text::wrapped;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::print::{columns_beside, say};

/// Draws per second at most.
const DRAW_HZ: u8 = 5;

/// Columns before the text about a stage, which hold its name.
const INDENT: usize = 12;

/// A terminal with less than this has shorter bars.
const NARROW: usize = 60;

/// The steps of a bar.
const STEPS: u64 = 1_000;

/// Display of the stages.
#[derive(Debug)]
pub(crate) enum Stages {
    /// Nothing.
    Silent,
    /// A line when one begins, and one when it ends.
    Lines,
    /// A bar for the one that goes on, a line for each that is over.
    Bars(Option<Bar>),
}

/// The bar of what goes on.
#[derive(Debug)]
pub(crate) struct Bar {
    drawn: ProgressBar,
    since: Clock,
    takes: Duration,
}

impl Stages {
    /// Bars when standard error is a terminal, else lines.
    pub(crate) fn fitting() -> Self {
        if io::stderr().is_terminal() {
            Self::Bars(None)
        } else {
            Self::Lines
        }
    }

    /// True if what goes on is shown while it does.
    pub(crate) const fn is_drawn(&self) -> bool {
        matches!(self, Self::Bars(_))
    }

    /// Begins one that takes about so long.
    pub(crate) fn begin(&mut self, name: &str, does: &str, takes: Duration) {
        let seconds = whole_seconds(takes);
        match self {
            Self::Silent => {}
            Self::Lines => say(&format!("  {name:<9} {does}, {seconds} s\n")),
            Self::Bars(current) => {
                let target = ProgressDrawTarget::stderr_with_hz(DRAW_HZ);
                let bar = ProgressBar::with_draw_target(Some(STEPS), target);
                let width = if columns_beside() < NARROW { 8 } else { 20 };
                let template = format!(
                    "  {{prefix:<9}} [{{bar:{width}}}] {{elapsed}} of {seconds}s  {{wide_msg}}"
                );
                let style = ProgressStyle::with_template(&template)
                    .unwrap_or_else(|_| ProgressStyle::default_bar());
                bar.set_style(style.progress_chars("=> "));
                bar.set_prefix(name.to_owned());
                bar.set_message(does.to_owned());
                *current = Some(Bar {
                    drawn: bar,
                    since: Clock::start(),
                    takes,
                });
            }
        }
    }

    /// Shows how far the one at hand is.
    pub(crate) fn show(&mut self) {
        if let Self::Bars(Some(Bar {
            drawn,
            since,
            takes,
        })) = self
        {
            let done = Duration::from_nanos(since.now().0).as_secs_f64() / takes.as_secs_f64();
            drawn.set_position(steps(done));
        }
    }

    /// End the current stage and show its result.
    pub(crate) fn end(&mut self, name: &str, came: &str) {
        match self {
            Self::Silent => return,
            Self::Lines => {}
            Self::Bars(current) => {
                if let Some(Bar { drawn, .. }) = current.take() {
                    drawn.finish_and_clear();
                }
            }
        }
        let mut name = name;
        for line in wrapped(came, columns_beside().saturating_sub(INDENT)) {
            say(&format!("  {name:<9} {line}\n"));
            name = "";
        }
    }
}

/// Seconds, at least one.
fn whole_seconds(time: Duration) -> u64 {
    (time + Duration::from_millis(500)).as_secs().max(1)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of 1,000 steps"
)]
fn steps(done: f64) -> u64 {
    (done.clamp(0.0, 1.0) * STEPS as f64) as u64
}
