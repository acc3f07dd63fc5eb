//! `latency.hlog`, read back line by line. It is foreign by the time it is read: whatever is wrong
//! with it is told with the number of the line, and no line takes more memory than the run's
//! histograms allow.

use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::{LOG, foreign};
use crate::run::cut::{Cut, CutReport, Cutter, Foreign, LineFault, LineReader};
use crate::run::report::Report;

/// Reason why a log gives nothing.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// There is none.
    #[error("{0} does not exist: a result can only be cut with the log of its times beside it")]
    Missing(PathBuf),
    /// The file cannot be read.
    #[error("{path} cannot be read: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// A line is no line of it.
    #[error("{path}, line {line}: {wrong}. The log is damaged, or not this result's")]
    Line {
        /// The file.
        path: PathBuf,
        /// The line's number, from 1 on.
        line: u64,
        /// Fault of the line.
        wrong: Wrong,
    },
}

/// Fault of a line.
#[derive(Debug, thiserror::Error)]
pub enum Wrong {
    /// Not a line of any log of such a run.
    #[error(transparent)]
    Fault(#[from] LineFault),
    /// A line of another run.
    #[error(transparent)]
    Foreign(#[from] Foreign),
    /// Longer than any.
    #[error("it is longer than any line of this run's can be")]
    Long,
    /// Not a text.
    #[error("it is not text")]
    Text,
    /// The end of the file came before its end.
    #[error("it is cut short")]
    Short,
}

/// Progress in reading a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogProgress {
    /// Bytes read.
    pub bytes: u64,
    /// Bytes that the file has.
    pub of: u64,
}

/// Lines between two words on how far it is.
const TOLD_EVERY: u64 = 1_000;

/// Cuts a part out of the result in `directory`, whose report is `report`; tells `progress` how far
/// it is.
///
/// # Errors
/// When there is no log, or it is not whole.
pub fn recut(
    directory: &Path,
    report: &Report,
    cut: Cut,
    progress: impl FnMut(LogProgress),
) -> Result<CutReport, LogError> {
    let path = directory.join(LOG);
    let fails = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => LogError::Missing(path.clone()),
        _ => LogError::Io {
            path: path.clone(),
            error,
        },
    };
    let file = foreign::open(&path).map_err(fails)?;
    let of = file.metadata().map_err(fails)?.len();
    let mut cutter = Cutter::new(report, cut);
    match read_lines(BufReader::new(file), &mut cutter, of, progress) {
        Ok(()) => Ok(cutter.finish()),
        Err(Stopped::Io(error)) => Err(LogError::Io { path, error }),
        Err(Stopped::Line(line, wrong)) => Err(LogError::Line { path, line, wrong }),
    }
}

enum Stopped {
    Io(io::Error),
    Line(u64, Wrong),
}

fn read_lines(
    mut log: impl BufRead,
    cutter: &mut Cutter<'_>,
    of: u64,
    mut progress: impl FnMut(LogProgress),
) -> Result<(), Stopped> {
    let mut reader = LineReader::new(cutter.bounds());
    let longest = reader.longest_line() as u64;
    let (mut line, mut bytes) = (Vec::new(), 0);
    for number in 1.. {
        line.clear();
        // One more than there may be, so that what is too long can be told from what is not.
        let read = log
            .by_ref()
            .take(longest + 1)
            .read_until(b'\n', &mut line)
            .map_err(Stopped::Io)?;
        if read == 0 {
            break;
        }
        bytes += read as u64;
        take_line(&line, longest, &mut reader, cutter)
            .map_err(|wrong| Stopped::Line(number, wrong))?;
        if number % TOLD_EVERY == 0 {
            progress(LogProgress { bytes, of });
        }
    }
    Ok(())
}

fn take_line(
    line: &[u8],
    longest: u64,
    reader: &mut LineReader,
    cutter: &mut Cutter<'_>,
) -> Result<(), Wrong> {
    if line.len() as u64 > longest {
        return Err(Wrong::Long);
    }
    let line = line.strip_suffix(b"\n").ok_or(Wrong::Short)?;
    let line = str::from_utf8(line.strip_suffix(b"\r").unwrap_or(line)).map_err(|_| Wrong::Text)?;
    if let Some(entry) = reader.read(line)? {
        cutter.add(&entry)?;
    }
    Ok(())
}
