//! Progress of commands that read large files, or that have several stages: a bar on a terminal.
//! Drawn by their callers, without a thread.

use std::io::{self, IsTerminal};
use std::time::Duration;

use crawlmark_harness::clock::Clock;
use crawlmark_results::show::{text::wrapped, visible};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::print::{columns_beside, say};

/// Draws per second at most.
const DRAW_HZ: u8 = 5;

/// Columns before the text about a stage, which hold its name.
const INDENT: usize = 12;

/// Bar of how much was read; none where there is no terminal.
#[derive(Debug, Default)]
pub(crate) struct ReadProgress(Option<ProgressBar>);

impl ReadProgress {
    /// A bar when standard error is a terminal and people want it.
    pub(crate) fn fitting(is_quiet: bool) -> Self {
        if is_quiet || !io::stderr().is_terminal() || console::is_dumb() {
            return Self::default();
        }
        Self(Some(bar(
            "  [{bar:20}] {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left",
        )))
    }

    /// Show that so many bytes of so many were read.
    pub(crate) fn show(&self, read: u64, of: u64) {
        if let Some(bar) = &self.0 {
            bar.set_length(of);
            bar.set_position(read);
        }
    }

    /// Remove the bar.
    pub(crate) fn end(self) {
        if let Some(bar) = self.0 {
            bar.finish_and_clear();
        }
    }
}

fn bar(template: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(DRAW_HZ));
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.set_style(style.progress_chars("=> "));
    bar
}

/// Display of the stages of a command.
#[derive(Debug)]
pub(crate) enum Stages {
    /// Nothing.
    Silent,
    /// A line when one begins, and one when it ends.
    Lines,
    /// A bar for the one that goes on, since then; a line for each that is over.
    Bars(Option<(ProgressBar, Clock)>),
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
        let seconds = (takes + Duration::from_millis(500)).as_secs().max(1);
        match self {
            Self::Silent => {}
            Self::Lines => say(&format!("  {name:<9} {does}, {seconds} s\n")),
            Self::Bars(current) => {
                let bar = bar(&format!(
                    "  {{prefix:<9}} [{{bar:8}}] {{elapsed}} of {seconds}s  {{wide_msg}}"
                ));
                bar.set_length(u64::try_from(takes.as_nanos()).unwrap_or(u64::MAX));
                bar.set_prefix(name.to_owned());
                bar.set_message(visible(does).into_owned());
                *current = Some((bar, Clock::start()));
            }
        }
    }

    /// Shows how far the one at hand is.
    pub(crate) fn show(&mut self) {
        if let Self::Bars(Some((bar, since))) = self {
            bar.set_position(since.now().0);
        }
    }

    /// End the current stage and show its result.
    pub(crate) fn end(&mut self, name: &str, came: &str) {
        match self {
            Self::Silent => return,
            Self::Lines => {}
            Self::Bars(current) => {
                if let Some((bar, _)) = current.take() {
                    bar.finish_and_clear();
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
