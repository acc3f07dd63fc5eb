//! Files of a result directory for people and other tools: made from the report, and made again on
//! request.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use crawlmark_harness::files::Root;

use super::ResultError;
use crate::run::report::Report;
use crate::run::{junit, words};
use crate::show::doc::Doc;
use crate::show::junit::FILE as JUNIT;
use crate::show::page;
use crate::show::plot::{self, Plot};

/// The name of the page.
pub const PAGE: &str = "report.html";

/// Files by their names, which may lie in a folder: everything but `result.json` and the log of
/// histograms.
pub fn made_from(report: &Report) -> Vec<(String, String)> {
    let plots = plot::all(report);
    let mut files = files_of(report, &words::doc(report, &plots), plots);
    if !report.gates.is_empty() {
        files.push((JUNIT.to_owned(), junit::document(report)));
    }
    files
}

/// The summary, the page and the plots of the document of a run, by the names of their files.
pub(in crate::run) fn files_of(
    report: &Report,
    doc: &Doc,
    plots: Vec<Plot>,
) -> Vec<(String, String)> {
    let mut files = vec![
        ("summary.md".to_owned(), doc.markdown()),
        (PAGE.to_owned(), page::run(report, doc, &plots)),
    ];
    let plots = plots.into_iter();
    files.extend(plots.map(|Plot { name, svg, .. }| (format!("{}/{name}.svg", plot::FOLDER), svg)));
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
        .map(|(name, content)| replace(directory, name, content.as_ref()))
        .collect()
}

/// Writes a file as a whole or not at all, and returns where it is.
pub(super) fn replace(
    directory: &Path,
    name: &str,
    content: &[u8],
) -> Result<PathBuf, ResultError> {
    let path = directory.join(name);
    match Root::new(directory).replace(name, |file| file.write_all(content)) {
        Ok(_) => Ok(path),
        Err(error) => Err(ResultError::Io { path, error }),
    }
}
