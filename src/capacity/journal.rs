//! The probes of a search, saved one by one as they end: a search that is killed loses only the
//! probe that was running.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crawlmark_results::run::result_dir::foreign::read_bytes;
use crawlmark_results::run::result_dir::{RESULT, left_over};
use crawlmark_results::studies::capacity::{
    JOURNAL, ProbeReport, SearchHead, journal_line, read_journal, searches_differ,
};

use crate::error::Error;
use crate::terminal;

/// Check of a saved probe, whose result is in this directory.
pub(super) type Check<'a> = &'a dyn Fn(&Path, &ProbeReport) -> Result<(), String>;

/// The search that is asked for, and the flags whose values it does not save.
pub(super) type Asked<'a> = (&'a SearchHead, &'a [String]);

/// A journal that is written.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
}

/// Probes that an earlier search saved.
#[derive(Debug)]
pub(super) struct SavedProbes {
    place: PathBuf,
    probes: Vec<ProbeReport>,
}

/// Reads what an earlier search saved in `place`, or, when it was killed, beside it.
///
/// # Errors
/// When there is none, it cannot be read, or it is of another search.
pub(super) fn read(place: &Path, asked: Asked<'_>, check: Check<'_>) -> Result<SavedProbes, Error> {
    let refused = |why: String| Error::Usage(format!("--resume {}: {why}", place.display()));
    let found = candidates(place)
        .into_iter()
        .filter(|place| place.join(JOURNAL).is_file());
    let mut read = found.map(|place| read_one(place, asked, check).map_err(refused));
    let Some(mut best) = read.next() else {
        let why = match fs::metadata(place) {
            Err(error) => error.to_string(),
            Ok(_) => format!("it holds no {JOURNAL}"),
        };
        return Err(refused(format!(
            "{why}. Name the directory of a search, which `crawlmark capacity` prints when it begins"
        )));
    };
    // A search that was resumed and killed may have left several: the one with the most probes is
    // the furthest.
    for before in read {
        let is_further = match (&best, &before) {
            (Ok(best), Ok(before)) => before.probes.len() > best.probes.len(),
            (Err(_), Ok(_)) => true,
            (_, Err(_)) => false,
        };
        if is_further {
            best = before;
        }
    }
    best
}

impl SavedProbes {
    /// The number of probes.
    pub(super) const fn len(&self) -> usize {
        self.probes.len()
    }

    /// The unfinished directory that was read, in which no process writes any more. Once all of it
    /// is in a finished one, it can be [removed](discard).
    pub(super) fn left(&self) -> Option<PathBuf> {
        let parent = self
            .place
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        left_over(parent)
            .into_iter()
            .find(|left| left.file_name() == self.place.file_name())
    }
}

/// Removes what a finished search went on from.
pub(super) fn discard(left: Option<PathBuf>) {
    if let Some(Err(error)) = left.as_ref().map(fs::remove_dir_all) {
        let path = left.unwrap_or_default();
        terminal::say(&format!(
            "note: {}, the search that this one resumed, cannot be removed: {error}\n",
            path.display()
        ));
    }
}

/// Reads the journal in one directory, or says why not.
fn read_one(
    place: PathBuf,
    (begun, unsaved): Asked<'_>,
    check: Check<'_>,
) -> Result<SavedProbes, String> {
    let bytes = read_bytes(&place.join(JOURNAL)).map_err(|error| format!("{JOURNAL}: {error}"))?;
    // What was cut in the middle of a letter is a line that was not written to its end.
    let text = String::from_utf8_lossy(&bytes);
    let (saved, probes) = read_journal(&text).map_err(|error| format!("{JOURNAL}: {error}"))?;
    let differs = searches_differ(&saved, begun, unsaved);
    if differs.is_empty() {
        let check = |probe| check(&place, probe).map_err(|why| format!("{JOURNAL}: {why}"));
        probes.iter().try_for_each(check)?;
        return Ok(SavedProbes { place, probes });
    }
    Err(format!(
        "it is another search: {}. Give it the same flags, program and machine",
        differs.join("; ")
    ))
}

/// The directory, and what a search that was to make it and was killed has left, the newest first.
fn candidates(place: &Path) -> Vec<PathBuf> {
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    let parent = place
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let is_left = |entry: &fs::DirEntry| {
        let left = entry.file_name();
        let left = left.to_string_lossy();
        let number = left
            .strip_prefix(&format!(".{name}."))
            .and_then(|rest| rest.strip_suffix(".partial"));
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let mut left: Vec<fs::DirEntry> = fs::read_dir(parent)
        .into_iter()
        .flatten()
        .flatten()
        .filter(is_left)
        .collect();
    left.sort_by_key(|entry| {
        std::cmp::Reverse(entry.metadata().and_then(|about| about.modified()).ok())
    });
    std::iter::once(place.to_owned())
        .chain(left.into_iter().map(|entry| entry.path()))
        .collect()
}

impl Journal {
    /// Begins a journal in `place`, with what was saved before and the results of that.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn begin(
        place: &Path,
        begun: &SearchHead,
        before: Option<SavedProbes>,
    ) -> Result<(Self, Vec<ProbeReport>), Error> {
        let path = place.join(JOURNAL);
        let file = File::create(&path).map_err(Error::unwritable(&path))?;
        let mut journal = Self { path, file };
        journal.write(&journal_line(begun)?)?;
        let Some(SavedProbes {
            place: from,
            probes,
        }) = before
        else {
            return Ok((journal, Vec::new()));
        };
        for probe in &probes {
            copy_result(&from, place, &probe.result)
                .map_err(Error::unwritable(&place.join(&probe.result)))?;
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
        self.file
            .write_all(line.as_bytes())
            .map_err(Error::unwritable(&self.path))
    }
}

/// Copies the result of a probe, which was checked. A probe that was lost may have none.
fn copy_result(from: &Path, to: &Path, result: &str) -> io::Result<()> {
    let saved = from.join(result).join(RESULT);
    if !saved.is_file() {
        return Ok(());
    }
    fs::create_dir_all(to.join(result))?;
    fs::copy(saved, to.join(result).join(RESULT)).map(drop)
}

#[cfg(test)]
mod tests {
    use crawlmark_results::run::report::{Environment, Placement};
    use crawlmark_results::studies::capacity::search::Bounds;
    use crawlmark_results::studies::capacity::{Pace, Question};
    use serde_json::json;

    use super::*;

    #[test]
    fn the_journal_with_the_most_probes_is_resumed() {
        let question = Question {
            what: String::new(),
            objectives: vec!["errors < 1".to_owned()],
            by_default: false,
            arrivals: "constant".to_owned(),
            bounds: Bounds {
                least: Pace::nearest(50.0),
                greatest: Pace::nearest(500.0),
                precision: 0.02,
            },
            warmup_s: 1.0,
            probe_s: 4.0,
            seed: 1,
        };
        let begun = SearchHead::here(question, Environment::read(Placement::Apart), 7);
        let probe = |number: usize| {
            let time = "2026-11-22T10:00:00.000Z";
            json!({
                "number": number, "per_min": 3000, "rate_per_s": 50.0, "kind": "full", "seen": "pass", "reasons": [],
                "result": "rounds/001", "started_at": time, "finished_at": time, "validity": "valid", "connections": 64,
                "achieved_per_s": 50.0, "sent_share": 1.0, "throttled_share": 0.0, "error_share": 0.0,
                "response_p50_us": 1.0, "response_p99_us": null, "response_p99_at_least": false,
                "service_p50_us": 1.0, "sched_lag_p99_us": null, "longest_promise_s": 0.0
            })
        };
        let place = tempfile::tempdir().unwrap();
        let save = |name: &str, probes: usize, more: &str| {
            let directory = place.path().join(name);
            fs::create_dir_all(&directory).unwrap();
            let lines = (1..=probes).map(|number| journal_line(&probe(number)).unwrap());
            let text: String = std::iter::once(journal_line(&begun).unwrap())
                .chain(lines)
                .collect();
            fs::write(directory.join(JOURNAL), text + more).unwrap();
        };
        let resumed = || {
            read(&place.path().join("out"), (&begun, &[]), &|_, _| Ok(()))
                .map(|before| before.probes.len())
        };
        assert!(
            resumed()
                .unwrap_err()
                .to_string()
                .contains("No such file or directory")
        );
        save(".out.9.partial", 1, "");
        save(".out.7.partial", 4, "");
        save(".out.8.partial", 2, "");
        assert_eq!(resumed().unwrap(), 4, "not the newest one");
        save("out", 3, "");
        assert_eq!(resumed().unwrap(), 4, "nor the first one");
        save("out", 5, "");
        assert_eq!(resumed().unwrap(), 5);
        save("out", 6, "{\"number\": 7}\n");
        assert_eq!(resumed().unwrap(), 4, "nor one that cannot be read");
    }
}
