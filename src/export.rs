//! Destinations of exports: files, each replaced as a whole, or standard output. Called by `run`
//! and `report`; the contents are up to `crawlmark_results::export`. The command `export`, of saved
//! crawls, is in `crawl`.

pub(crate) mod crawl;

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crawlmark_harness::files::temporary;
use crawlmark_results::export::export;
use crawlmark_results::run::report::Report;
use crawlmark_results::run::result_dir::{LOG, RESULT, ResultError, remake};

use crawlmark_results::show::plot::{self, Plot};

use crate::cli::{Destination, Export};
use crate::error::Error;
use crate::terminal;

/// Check that each has a place of its own that can be written to, before anything is measured for
/// it. `result` is the directory that those without a file go to; none while it is yet to be made.
pub(crate) fn check(exports: &[Export], result: Option<&Path>) -> Result<(), Error> {
    let mut places: Vec<(PathBuf, &Export)> = Vec::new();
    for export @ Export { format, to } in exports {
        let place = match to {
            Destination::Output => PathBuf::from("-"),
            Destination::Result => real(&result.unwrap_or(Path::new("")).join(format.file_name())),
            Destination::File(path) => real(path),
        };
        // The same asked for twice is no harm.
        if let Some((_, Export { format: other, .. })) = places.iter().find(|other| {
            other.0 == place && !(*to == Destination::Result && other.1.to == Destination::Result)
        }) {
            let both =
                "both would be written to the same place; give one of them a file of its own";
            return Err(Error::Usage(format!(
                "--export {other} and --export {format}: {both}"
            )));
        }
        places.push((place, export));
        if let Destination::File(path) = to {
            check_file(path).map_err(|why| {
                Error::Usage(format!("--export {format}={}: {why}", path.display()))
            })?;
        }
    }
    Ok(())
}

/// True if standard output is taken by one of them.
pub(crate) fn prints(exports: &[Export]) -> bool {
    exports
        .iter()
        .any(|export| export.to == Destination::Output)
}

/// A path by its real name, as far as it exists.
fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path)
        .or_else(|_| Ok(fs::canonicalize(folder(path))?.join(path.file_name().unwrap_or_default())))
        .unwrap_or_else(|_: io::Error| path.to_owned())
}

/// True if a file is what a run measured, which no export can bring back.
fn is_measured(path: &Path) -> bool {
    let path = real(path);
    let measured = [RESULT, LOG].map(|name| folder(&path).join(name));
    measured.contains(&path) && measured.iter().all(|path| path.exists())
}

fn check_file(path: &Path) -> Result<(), String> {
    if is_measured(path) {
        return Err(
            "it is the result itself, which is never overwritten: name another file".to_owned(),
        );
    }
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => {
            return Err("it is a directory: name a file in it".to_owned());
        }
        // A device or a pipe is written to as it is.
        Ok(found) if !found.is_file() => return Ok(()),
        _ => {}
    }
    let probe = temporary().map(|name| folder(path).join(name));
    let made = probe.and_then(|probe| {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&probe)?;
        fs::remove_file(&probe)
    });
    made.map_err(|error| {
        let place = folder(path).display();
        match error.kind() {
            io::ErrorKind::NotFound => {
                format!("the directory {place} does not exist: make it first, or name another")
            }
            _ => {
                format!("no file can be made in {place}: {error}. Name a file in another directory")
            }
        }
    })
}

/// Writes each, and prints the one that goes to standard output. One that fails keeps no other from
/// its place: the first failure is told once all have been tried. Returns the files.
pub(crate) fn write(
    report: &Report,
    directory: &Path,
    exports: &[Export],
) -> Result<Vec<PathBuf>, Error> {
    let mut written = Vec::new();
    let mut failed = None;
    for wanted in exports {
        match write_one(report, directory, wanted) {
            Ok(path) => written.extend(path),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    failed.map_or(Ok(written), Err)
}

fn write_one(
    report: &Report,
    directory: &Path,
    Export { format, to }: &Export,
) -> Result<Option<PathBuf>, Error> {
    let text = export(report, *format);
    let (folder, name) = match to {
        Destination::Output => return terminal::print_data(&text).map(|()| None),
        Destination::Result => (directory.to_owned(), format.file_name().to_owned()),
        Destination::File(path) => {
            if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
                return fs::write(path, &text)
                    .map(|()| Some(path.clone()))
                    .map_err(|error| {
                        ResultError::Io {
                            path: path.clone(),
                            error,
                        }
                        .into()
                    });
            }
            // What a link points to is replaced, and not the link.
            let path = fs::canonicalize(path).unwrap_or_else(|_| path.clone());
            (
                folder(&path).to_owned(),
                path.file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned(),
            )
        }
    };
    Ok(remake(&folder, &[(name, text)])?.pop())
}

/// Return the directory of a file.
pub(crate) fn folder(path: &Path) -> &Path {
    path.parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// Save plots as PNG files in a result directory, beside their SVG files.
///
/// # Errors
/// When one cannot be drawn or written.
pub(crate) fn pngs(directory: &Path, plots: &[Plot]) -> Result<(), Error> {
    remake(directory, &plot::pngs(plots)?)?;
    Ok(())
}
