//! The only place that prints: results to standard output, everything else to standard error.

mod progress;
mod stages;

use std::io::{self, Write};

pub(crate) use self::progress::Progress;
pub(crate) use self::stages::Stages;

/// Prints a result. A reader that has had enough and is gone is no failure.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Says something about the run.
pub(crate) fn say(text: &str) {
    // Nobody may be listening; that must not stop a run.
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Columns of the terminal that results are printed to; as many as it takes when they go elsewhere.
pub(crate) fn columns() -> usize {
    columns_of(&console::Term::stdout())
}

/// The same for what is said about the run.
pub(crate) fn columns_beside() -> usize {
    columns_of(&console::Term::stderr())
}

fn columns_of(terminal: &console::Term) -> usize {
    if terminal.is_term() { usize::from(terminal.size().1) } else { usize::MAX }
}
