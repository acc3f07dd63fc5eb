//! Files of a result directory for people and other tools: made from the report, and made again on
//! request.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::ResultError;
use crate::export::{self, Format};
use crate::run::report::Report;
use crate::run::words;
use crate::show::plot::{self, Plot};

/// The name of the page.
pub const PAGE: &str = "report.html";

/// Files by their names, which may lie in a folder: everything but `result.json` and the log of
/// histograms.
pub fn made_from(report: &Report) -> Vec<(String, String)> {
    let plots = plot::all(report);
    let doc = words::doc(report, &plots);
    let mut files = vec![
        ("summary.md".to_owned(), doc.markdown()),
        (PAGE.to_owned(), doc.html(&plots)),
    ];
    if !report.gates.is_empty() {
        let format = Format::Junit;
        files.push((
            format.file_name().to_owned(),
            export::export(report, format),
        ));
    }
    files.extend(
        plots
            .into_iter()
            .map(|Plot { name, svg, .. }| (format!("{}/{name}.svg", plot::FOLDER), svg)),
    );
    files
}

/// Writes files by their names into a directory that is there or is made; what has such a name is
/// replaced, as a whole or not at all. Returns where they are.
///
/// # Errors
/// When one cannot be written.
pub fn remake(
    directory: &Path,
    files: &[(String, impl AsRef<[u8]>)],
) -> Result<Vec<PathBuf>, ResultError> {
    files
        .iter()
        .map(|(name, content)| replace(directory.join(name), content.as_ref()))
        .collect()
}

/// Writes a file as a whole or not at all, and returns where it is.
pub(super) fn replace(path: PathBuf, content: &[u8]) -> Result<PathBuf, ResultError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.{}.partial", std::process::id()));
    let written = fs::write(&temporary, content)
        .or_else(|error| match path.parent() {
            Some(folder) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(folder)?;
                fs::write(&temporary, content)
            }
            _ => Err(error),
        })
        .and_then(|()| fs::rename(&temporary, &path));
    match written {
        Ok(()) => Ok(path),
        Err(error) => {
            let _ = fs::remove_file(&temporary);
            Err(ResultError::Io { path, error })
        }
    }
}
