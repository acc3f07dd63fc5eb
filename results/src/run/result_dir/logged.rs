//! `latency.hlog`, read back line by line. It is foreign by the time it is read: whatever is wrong
//! with it is told with the number of the line, and no line takes more memory than the run's
//! histograms allow.

use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::{LOG, foreign};
use crate::run::cut::{Cut, CutReport, Cutter, LineReader};
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
        wrong: String,
    },
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
    mut progress: impl FnMut(LogProgress),
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
    let mut reader = LineReader::new(cutter.bounds());
    let longest = reader.longest_line() as u64;
    let (mut log, mut text, mut bytes) = (BufReader::new(file), Vec::new(), 0);
    for line in 1.. {
        text.clear();
        // One more than there may be, so that what is too long can be told from what is not.
        let mut one = log.by_ref().take(longest + 1);
        match one.read_until(b'\n', &mut text).map_err(fails)? {
            0 => break,
            read => bytes += read as u64,
        }
        if let Err(wrong) = take_line(&text, longest, &mut reader, &mut cutter) {
            return Err(LogError::Line { path, line, wrong });
        }
        if line % TOLD_EVERY == 0 {
            progress(LogProgress { bytes, of });
        }
    }
    Ok(cutter.finish())
}

fn take_line(
    line: &[u8],
    longest: u64,
    reader: &mut LineReader,
    cutter: &mut Cutter<'_>,
) -> Result<(), String> {
    if line.len() as u64 > longest {
        return Err("it is longer than any line of this run's can be".to_owned());
    }
    let line = line.strip_suffix(b"\n").ok_or("it is cut short")?;
    let line = str::from_utf8(line.strip_suffix(b"\r").unwrap_or(line));
    let line = line.map_err(|_| "it is not text")?;
    if let Some(entry) = reader.read(line).map_err(|fault| fault.to_string())? {
        cutter.add(&entry).map_err(|fault| fault.to_string())?;
    }
    Ok(())
}
