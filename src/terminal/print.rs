//! Prints: results to standard output, everything else to standard error.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use console::style;
use crawlmark_results::show::doc::{Severity, TerminalLine, Tone};
use crawlmark_results::show::visible;

use super::glyphs::{has_blocks, shown};
use crate::cli::Color;
use crate::crawl::redact;
use crate::error::Error;

/// Prints a result. A reader that has had enough and is gone is no failure.
pub(crate) fn print(text: &str) -> Result<(), Error> {
    write(&seen(&visible(text), is_seen()))
}

/// True if people read standard output as it is printed.
pub(crate) fn is_seen() -> bool {
    io::stdout().is_terminal()
}

/// Prints what is for another program, to the letter unless people see it.
pub(crate) fn print_data(text: &str) -> Result<(), Error> {
    if is_seen() { print(text) } else { write(text) }
}

/// Prints the lines of a result, with colours where the terminal has them.
pub(crate) fn print_lines(lines: &[TerminalLine]) -> Result<(), Error> {
    let has_blocks = !is_seen() || has_blocks();
    write(
        &lines
            .iter()
            .map(|TerminalLine { text, tone }| {
                let text = visible(text);
                let text = style(shown(&text, has_blocks));
                match tone {
                    Tone::Plain => text,
                    Tone::Strong | Tone::Status(Severity::Neutral) => text.bold(),
                    Tone::Status(Severity::Good) => text.green().bold(),
                    Tone::Status(Severity::Warning) => text.yellow().bold(),
                    Tone::Status(Severity::Bad) => text.red().bold(),
                }
                .to_string()
                    + "\n"
            })
            .collect::<String>(),
    )
}

/// Sets whether text has colours, on standard output and standard error.
pub(crate) fn set_color(color: Color) {
    if let Some(is_on) = color.is_on() {
        console::set_colors_enabled(is_on);
        console::set_colors_enabled_stderr(is_on);
    }
}

/// Print help or the version, with colours where the terminal has them.
pub(crate) fn print_help(help: &clap::Error) -> Result<(), Error> {
    printed(help.print().and_then(|()| io::stdout().flush()))
}

/// Say why a command line cannot be parsed, with colours where the terminal has them and no secret
/// would be shown.
pub(crate) fn say_usage(error: &clap::Error) {
    let text = error.render().to_string();
    if redact::text(&visible(&text)) == text {
        let _ = error.print();
    } else {
        say(&text);
    }
}

/// Text for a terminal, or for a file.
fn seen(text: &str, is_terminal: bool) -> Cow<'_, str> {
    shown(text, !is_terminal || has_blocks())
}

fn write(text: &str) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    printed(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

fn printed(outcome: io::Result<()>) -> Result<(), Error> {
    match outcome {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Error::Output(error)),
        _ => Ok(()),
    }
}

/// Says something about the run, without the secrets of any URL in it: it may be what another
/// program said.
pub(crate) fn say(text: &str) {
    // Standard error may be closed; that must not stop a run.
    let mut out = io::stderr().lock();
    let text = seen(&visible(&redact::text(text)), out.is_terminal()).into_owned();
    let _ = out.write_all(text.as_bytes());
}

/// What is said beside standard output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Voice {
    /// True if only errors are said, and no summary is printed.
    pub(crate) is_quiet: bool,
    pub(crate) has_progress: bool,
}

impl Voice {
    /// Say what may spoil the result. With --quiet, the verdict says it.
    pub(crate) fn warn(self, text: &str) {
        self.say(&format!("warning: {text}\n"));
    }

    pub(crate) fn say(self, text: &str) {
        if !self.is_quiet {
            say(text);
        }
    }
}

/// Columns of the terminal that results are printed to; as many as it takes when they go elsewhere.
pub(crate) fn columns() -> usize {
    columns_of(&console::Term::stdout())
}

/// Return the columns of the terminal that messages about the run are printed to; no limit when
/// they go elsewhere.
pub(crate) fn columns_beside() -> usize {
    columns_of(&console::Term::stderr())
}

fn columns_of(terminal: &console::Term) -> usize {
    if terminal.is_term() {
        usize::from(terminal.size().1)
    } else {
        usize::MAX
    }
}
