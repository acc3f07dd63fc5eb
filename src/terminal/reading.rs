//! Progress of a command that reads large files: a bar on a terminal, nothing elsewhere. Drawn by
//! its caller, without a thread.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Draws per second at most.
const DRAW_HZ: u8 = 5;

/// Bar of how much was read; none where there is no terminal.
#[derive(Debug, Default)]
pub(crate) struct ReadProgress(Option<ProgressBar>);

impl ReadProgress {
    /// A bar when standard error is a terminal.
    pub(crate) fn fitting() -> Self {
        if !io::stderr().is_terminal() || console::is_dumb() {
            return Self::default();
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(DRAW_HZ));
        let style = "  [{bar:20}] {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left";
        let style =
            ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.progress_chars("=> "));
        Self(Some(bar))
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
