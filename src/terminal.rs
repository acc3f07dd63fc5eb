//! The only place that prints: results to standard output, everything else to standard error.

mod progress;
mod reading;
mod stages;

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use console::style;
use crawlmark_results::show::doc::{Severity, TerminalLine, Tone};
use crawlmark_results::show::visible;

use self::progress::{Glyphs, glyphs};
pub(crate) use self::progress::{PartsProgress, Progress, parts_snapshot};
pub(crate) use self::reading::ReadProgress;
pub(crate) use self::stages::Stages;
use crate::cli::Color;
use crate::crawl::redact;
use crate::error::Error;

/// Prints a result. A reader that has had enough and is gone is no failure.
pub(crate) fn print(text: &str) -> Result<(), Error> {
    let text = visible(text);
    write(&if io::stdout().is_terminal() {
        shown(&text, glyphs())
    } else {
        text
    })
}

/// True if people read standard output as it is printed.
pub(crate) fn is_seen() -> bool {
    io::stdout().is_terminal()
}

/// Prints what is for another program, to the letter unless people see it.
pub(crate) fn print_data(text: &str) -> Result<(), Error> {
    if io::stdout().is_terminal() {
        print(text)
    } else {
        write(text)
    }
}

/// Prints the lines of a result, with colours where the terminal has them.
pub(crate) fn print_lines(lines: &[TerminalLine]) -> Result<(), Error> {
    let glyphs = if io::stdout().is_terminal() {
        glyphs()
    } else {
        Glyphs::Blocks
    };
    let painted = |TerminalLine { text, tone }: &TerminalLine| {
        let text = visible(text);
        let text = style(shown(&text, glyphs));
        match tone {
            Tone::Plain => text,
            Tone::Strong | Tone::Status(Severity::Neutral) => text.bold(),
            Tone::Status(Severity::Good) => text.green().bold(),
            Tone::Status(Severity::Warning) => text.yellow().bold(),
            Tone::Status(Severity::Bad) => text.red().bold(),
        }
        .to_string()
            + "\n"
    };
    write(&lines.iter().map(painted).collect::<String>())
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
    let text = redact::text(text);
    let text = visible(&text);
    let text = if out.is_terminal() {
        shown(&text, glyphs())
    } else {
        text
    };
    let _ = out.write_all(text.as_bytes());
}

/// The text as a terminal with these characters can show it: the one sign beyond ASCII in all texts
/// is that for micro.
fn shown(text: &str, glyphs: Glyphs) -> Cow<'_, str> {
    match glyphs {
        Glyphs::Ascii if text.contains('µ') => text.replace('µ', "u").into(),
        Glyphs::Ascii | Glyphs::Blocks => text.into(),
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
