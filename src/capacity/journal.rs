//! The probes of a search, saved one by one as they end: what is killed loses no more than the probe that ran.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crawlmark_harness::capacity::{Begun, JOURNAL, ProbeReport, journal_line, read_journal, searches_differ};
use crawlmark_harness::results::RESULT;

use crate::error::Error;

/// A journal that is written.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
}

/// What an earlier search saved.
#[derive(Debug)]
pub(super) struct Before {
    place: PathBuf,
    probes: Vec<ProbeReport>,
}

/// Reads what an earlier search saved in `place`, or, when it was killed, beside it.
///
/// # Errors
/// When there is none, it cannot be read, or it is of another search.
pub(super) fn read(place: &Path, begun: &Begun) -> Result<Before, Error> {
    let refused = |why: String| Error::Usage(format!("--resume {}: {why}", place.display()));
    let found = candidates(place).into_iter().find(|place| place.join(JOURNAL).is_file());
    let Some(place) = found else { return Err(refused(format!("there is no {JOURNAL}, which `capacity` saves"))) };
    let bytes = fs::read(place.join(JOURNAL)).map_err(|error| refused(error.to_string()))?;
    // What was cut in the middle of a letter is a line that was not written to its end.
    let text = String::from_utf8_lossy(&bytes);
    let (saved, probes) = read_journal(&text).map_err(|error| refused(format!("{JOURNAL}: {error}")))?;
    let differs = searches_differ(&saved, begun);
    if differs.is_empty() {
        return Ok(Before { place, probes });
    }
    Err(refused(format!("it is another search: {}; give it the same flags, program and machine", differs.join(", "))))
}

/// The directory, and what a search that was to make it and was killed has left, the newest first.
fn candidates(place: &Path) -> Vec<PathBuf> {
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    let parent = place.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let is_left = |entry: &fs::DirEntry| {
        let left = entry.file_name();
        let left = left.to_string_lossy();
        let number = left.strip_prefix(&format!(".{name}.")).and_then(|rest| rest.strip_suffix(".partial"));
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let mut left: Vec<fs::DirEntry> = fs::read_dir(parent).into_iter().flatten().flatten().filter(is_left).collect();
    left.sort_by_key(|entry| std::cmp::Reverse(entry.metadata().and_then(|about| about.modified()).ok()));
    std::iter::once(place.to_owned()).chain(left.into_iter().map(|entry| entry.path())).collect()
}

impl Journal {
    /// Begins a journal in `place`, with what was saved before and the results of that.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn begin(
        place: &Path,
        begun: &Begun,
        before: Option<Before>,
    ) -> Result<(Self, Vec<ProbeReport>), Error> {
        let file = File::create(place.join(JOURNAL)).map_err(Error::Output)?;
        let mut journal = Self { file };
        journal.write(&journal_line(begun)?)?;
        let Some(Before { place: from, probes }) = before else { return Ok((journal, Vec::new())) };
        for probe in &probes {
            copy_result(&from, place, &probe.result).map_err(Error::Output)?;
            journal.append(probe)?;
        }
        Ok((journal, probes))
    }

    /// Adds a probe.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn append(&mut self, probe: &ProbeReport) -> Result<(), Error> {
        self.write(&journal_line(probe)?)
    }

    /// In one piece, so that a line is there or is cut, and never mixed.
    fn write(&mut self, line: &str) -> Result<(), Error> {
        self.file.write_all(line.as_bytes()).map_err(Error::Output)
    }
}

/// Copies the result of a probe. One that is gone is no loss: the journal says what it read. Nothing outside of the
/// directory is touched, whatever the journal says.
fn copy_result(from: &Path, to: &Path, result: &str) -> io::Result<()> {
    let is_inside = Path::new(result).components().all(|part| matches!(part, std::path::Component::Normal(_)));
    let saved = from.join(result).join(RESULT);
    if !is_inside || !saved.is_file() {
        return Ok(());
    }
    fs::create_dir_all(to.join(result))?;
    fs::copy(saved, to.join(result).join(RESULT)).map(drop)
}
