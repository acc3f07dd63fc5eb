//! The only place that prints: results to standard output, everything else to standard error.

mod progress;

use std::io::{self, Write};

pub(crate) use self::progress::Progress;

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

/// Columns of the terminal that results are printed to; none when they go elsewhere.
pub(crate) fn columns() -> Option<usize> {
    let out = console::Term::stdout();
    out.is_term().then(|| usize::from(out.size().1))
}
