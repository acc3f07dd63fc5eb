//! Prints: results to standard output, everything else to standard error.

use std::env;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::path::Path;

use console::style;
use crawlmark_results::show::doc::Severity;
use crawlmark_results::show::line::{Display, Line, Tone};
use crawlmark_results::show::text::shortened;
use crawlmark_results::show::visible;

use super::glyphs::has_blocks;
use crate::cli::Color;
use crate::crawl::redact;
use crate::error::Error;

/// Prints a result. A reader that has had enough and is gone is no failure.
pub(crate) fn print(text: &str) -> Result<(), Error> {
    write(&seen(text, is_seen()))
}

/// True if people read standard output as it is printed.
pub(crate) fn is_seen() -> bool {
    io::stdout().is_terminal()
}

/// Prints what is for another program: to the letter, unless it acts where it is printed.
pub(crate) fn print_data(text: &str) -> Result<(), Error> {
    write(&data(text))
}

/// Standard output of what is for another program and may be long, as of [`print_data`].
pub(crate) struct DataWriter {
    output: BufWriter<StdoutLock<'static>>,
    /// The line that is not complete yet, where it may act.
    line: Option<Vec<u8>>,
}

impl DataWriter {
    /// Bytes that are written at a time.
    const BUFFER: usize = 1 << 20;

    pub(crate) fn new() -> Self {
        Self {
            output: BufWriter::with_capacity(Self::BUFFER, io::stdout().lock()),
            line: (is_seen() || is_workflow()).then(Vec::new),
        }
    }
}

impl Write for DataWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(line) = &mut self.line else {
            return self.output.write(bytes);
        };
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let text = data(&String::from_utf8_lossy(line));
                self.output.write_all(text.as_bytes())?;
                line.clear();
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// Prints the lines of a result, with colours where the terminal has them.
pub(crate) fn print_lines(lines: &[Line]) -> Result<(), Error> {
    let text = lines.iter().map(|line| painted(line, false) + "\n");
    write(&text.collect::<String>())
}

/// The line with colours where the terminal has them, of standard output or `beside` it.
pub(super) fn painted(line: &Line, beside: bool) -> String {
    let pieces = line.pieces().map(|(text, tone)| {
        let shown = display().shown(&visible(text)).into_owned();
        let text = match beside {
            true => style(shown).for_stderr(),
            false if !is_seen() && is_workflow() => style(inert(&shown)),
            false => style(shown),
        };
        match tone {
            Tone::Plain => text,
            Tone::Strong | Tone::Status(Severity::Neutral) => text.bold(),
            Tone::Quiet => text.dim(),
            Tone::Bars => text.blue(),
            Tone::Status(Severity::Good) => text.green().bold(),
            Tone::Status(Severity::Warning) => text.yellow().bold(),
            Tone::Status(Severity::Bad) => text.red().bold(),
        }
        .to_string()
    });
    pieces.collect()
}

/// The path from the working directory, which terminals and editors open.
pub(crate) fn relative(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let path = path.strip_prefix(here).unwrap_or(path);
    path.display().to_string()
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
    if redact::text(&seen(&without_middle(&text), false)) == text {
        let _ = error.print();
    } else {
        say(&text);
    }
}

/// Text for a terminal, for the log of a workflow of GitHub, or for a file.
fn seen(text: &str, is_terminal: bool) -> String {
    let text = visible(text);
    if is_terminal {
        return display().shown(&text).into_owned();
    }
    if is_workflow() {
        return inert(&text);
    }
    text.into_owned()
}

/// Text for another program on standard output.
fn data(text: &str) -> String {
    match (is_seen(), is_workflow()) {
        (true, _) => seen(text, true),
        (_, true) => inert(text),
        _ => text.to_owned(),
    }
}

/// True in a workflow of GitHub, to whose log all that is printed may go: a pipe may lead there, too.
pub(super) fn is_workflow() -> bool {
    env::var_os("GITHUB_ACTIONS").is_some()
}

/// Characters of a line that are said: a message has a few hundred, and what it repeats may have
/// millions.
const LONGEST_LINE: usize = 2_000;

/// Text without the middle of lines that are too long.
fn without_middle(text: &str) -> String {
    text.split('\n')
        .map(|line| shortened(line, LONGEST_LINE))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Text without commands of a workflow of GitHub, which obeys what a log says: `::` at the start of
/// a line, or `##[` anywhere. JSON means the same.
fn inert(text: &str) -> String {
    let lines = text.split_inclusive(['\n', '\r']).map(|line| {
        let said = line.trim_start();
        let space = &line[..line.len() - said.len()];
        said.strip_prefix("::").map_or_else(
            || line.to_owned(),
            |command| format!("{space}\\u003a:{command}"),
        )
    });
    lines.collect::<String>().replace("##[", "\\u0023#[")
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
    let text = seen(&without_middle(&redact::text(text)), out.is_terminal());
    let _ = out.write_all(text.as_bytes());
}

/// What is said beside standard output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Voice {
    /// True if only errors are said, and of a result only where its page is.
    pub(crate) is_quiet: bool,
    pub(crate) has_progress: bool,
    /// True if the plan is said before it runs.
    pub(crate) is_verbose: bool,
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

/// Columns of what is printed to a pipe or a file.
const PIPED: usize = 100;

/// The terminal that results are printed to.
pub(crate) fn display() -> Display {
    Display {
        columns: columns_of(&console::Term::stdout()).unwrap_or(PIPED),
        has_unicode: has_blocks(),
    }
}

/// Return the columns of the terminal that messages about the run are printed to; no limit when
/// they go elsewhere.
pub(crate) fn columns_beside() -> usize {
    columns_of(&console::Term::stderr()).unwrap_or(usize::MAX)
}

fn columns_of(terminal: &console::Term) -> Option<usize> {
    let columns = usize::from(terminal.size().1);
    terminal.is_term().then_some(columns)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// True if GitHub's runner would obey a line, as `ActionCommand.cs` reads it.
    fn is_command(line: &str) -> bool {
        line.trim_start().starts_with("::") || line.contains("##[")
    }

    #[test]
    fn what_is_repeated_is_cut_and_both_ends_of_a_line_stay() {
        for count in [0, LONGEST_LINE / 2, LONGEST_LINE * 2, 2_000_000] {
            let foreign = "\u{e9}".repeat(count);
            let said = without_middle(&format!(
                "first\nthe URL `{foreign}` is too long: shorten it\nlast"
            ));
            let lines: Vec<&str> = said.lines().collect();
            assert_eq!((lines[0], lines[2]), ("first", "last"));
            assert!(
                lines[1].starts_with("the URL `") && lines[1].ends_with("is too long: shorten it")
            );
            assert!(lines[1].chars().count() < LONGEST_LINE + 40);
            assert_eq!(
                lines[1].contains(" characters) "),
                count > LONGEST_LINE,
                "{count}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_line_of_any_text_is_a_command(parts in prop::collection::vec(prop_oneof![Just("::error ::x"), Just("\n"), Just(":"), Just("#"), Just("##["), Just(" "), Just("\t"), Just("x")], 0..12)) {
            let text = parts.concat();
            let inert = inert(&text);
            prop_assert!(!inert.lines().any(is_command), "{inert}");
            prop_assert_eq!(inert == text, !text.lines().any(is_command));
            let json = serde_json::to_string(&text).unwrap();
            let read: String = serde_json::from_str(&super::inert(&json)).unwrap();
            prop_assert_eq!(read, text);
        }
    }
}
