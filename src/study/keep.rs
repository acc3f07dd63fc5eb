//! Saving and printing of the results of rounds, the same for every command that runs them.

use std::path::{Path, PathBuf};

use crawlmark_harness::process::signal_in_words;
use crawlmark_results::run::result_dir::{
    self, PAGE, ResultDir, holds_measurements, is_announced, mark_announced,
};
use crawlmark_results::show::text;
use crawlmark_results::studies::StudyResult;

use crate::cli::{FormArgs, OutputArgs};
use crate::error::{Error, INCONCLUSIVE, signalled};
use crate::run::result_directory;
use crate::terminal::{self, Stages};

/// File of the document.
const SUMMARY: &str = "summary.md";

/// Directories named at most; the others are counted.
const NAMED: usize = 3;

/// Begins the directory of a result of this name, which may go on from one that is `resumed`.
///
/// # Errors
/// When it cannot be made, or would replace something.
pub(crate) fn directory(
    keep: &OutputArgs,
    name: &str,
    resumed: Option<&Path>,
) -> Result<ResultDir, Error> {
    let directory = result_directory(keep.out.as_deref(), name)?;
    if !keep.quiet {
        terminal::say(&left_over(directory.path(), resumed));
    }
    Ok(directory)
}

/// Note the unfinished directories of earlier runs beside `out`, except `resumed`. Each is named
/// once.
pub(crate) fn left_over(out: &Path, resumed: Option<&Path>) -> String {
    let parent = out
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let mut left = result_dir::left_over(parent);
    left.retain(|left| {
        resumed.is_none_or(|resumed| left.file_name() != resumed.file_name()) && !is_announced(left)
    });
    let note = |path: &PathBuf| {
        let what = if holds_measurements(path) {
            "with its measurements"
        } else {
            "without measurements"
        };
        format!(
            "note: an earlier run did not finish and left a directory {what}; to remove it: rm -r '{}'\n",
            path.display()
        )
    };
    let (named, others) = left.split_at(left.len().min(NAMED));
    let mut notes: String = named.iter().map(note).collect();
    for path in named {
        mark_announced(path);
    }
    if let more @ 1.. = others.len() {
        notes.extend([format!(
            "note: {more} more such directories are in {}: .*.partial\n",
            parent.display()
        )]);
    }
    notes
}

/// Says that a signal came, or the time was over, before there was anything to judge, and what is
/// kept; returns the exit code.
pub(crate) fn stopped(before: &str, directory: ResultDir, signal: Option<i32>) -> u8 {
    let kept = match directory.leave() {
        Some(place) => format!("its measurements are kept in {}", place.display()),
        None => "nothing is saved".to_owned(),
    };
    let by = |signal| format!("{} ended it", signal_in_words(signal));
    let end = signal.map_or_else(|| "its time was over".to_owned(), by);
    terminal::say(&format!("{end} before {before}: {kept}\n"));
    signal.map_or(INCONCLUSIVE, signalled)
}

/// Save a result, print it, and say where it is: saved whether it could be printed or not, and the
/// reverse.
///
/// # Errors
/// When it cannot be saved or printed; both are said.
pub(crate) fn conclude(
    keep: &OutputArgs,
    directory: ResultDir,
    result: &impl StudyResult,
) -> Result<PathBuf, Error> {
    let saved = save(directory, result);
    let printed = if keep.is_printed() {
        print(result, keep.form)
    } else {
        Ok(())
    };
    if let (Ok(saved), false) = (&saved, keep.quiet) {
        terminal::say(&format!("\nsaved in {}\n", saved.display()));
    }
    match (printed, saved) {
        (Err(printed), Err(saved)) => {
            terminal::say(&(printed.message() + "\n"));
            Err(saved)
        }
        (printed, saved) => printed.and(saved),
    }
}

/// Save a result: its JSON, summary, page and plots.
///
/// # Errors
/// When a file cannot be written; the measurements stay.
pub(crate) fn save<R: StudyResult>(directory: ResultDir, result: &R) -> Result<PathBuf, Error> {
    let (doc, plots) = (result.doc(), result.plots());
    let pictures = plots
        .iter()
        .map(|plot| (format!("plots/{}.svg", plot.name), plot.svg.clone()));
    let mut files = vec![
        (
            R::FILE.to_owned(),
            serde_json::to_string_pretty(result)? + "\n",
        ),
        (SUMMARY.to_owned(), doc.markdown()),
        (PAGE.to_owned(), doc.html(&plots)),
    ];
    files.extend(
        result
            .exports()
            .into_iter()
            .map(|(name, text)| (name.to_owned(), text)),
    );
    files.extend(pictures);
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(name, text)| (&**name, &**text))
        .collect();
    directory.finish_with(&files).map_err(Error::Result)
}

/// Says what is going to be done: in a sentence, and what is to be known of it, each with its name.
pub(crate) fn announce(keep: &OutputArgs, what: &str, rows: &[(&str, String)]) {
    if keep.quiet {
        return;
    }
    let columns = terminal::columns_beside();
    let mut text = text::wrapped(what, columns).join("\n") + "\n";
    for (name, value) in rows {
        text::write_row(&mut text, name, value, columns);
    }
    terminal::say(&text);
}

/// Return the display of the stages.
pub(crate) fn stages(keep: &OutputArgs) -> Stages {
    if keep.quiet || keep.no_progress {
        Stages::Silent
    } else {
        Stages::fitting()
    }
}

/// Print a result: as JSON, as Markdown, or for the columns of the terminal.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn print(result: &impl StudyResult, form: FormArgs) -> Result<(), Error> {
    let text = match (form.json, form.markdown) {
        (true, _) => serde_json::to_string_pretty(result)? + "\n",
        (_, true) => result.doc().markdown(),
        _ => result.doc().terminal(terminal::columns()),
    };
    terminal::print(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_is_named_once_unless_it_is_resumed() {
        let home = tempfile::tempdir().unwrap();
        let [resumed, other] = [".a.1.partial", ".b.1.partial"].map(|name| home.path().join(name));
        for path in [&resumed, &other] {
            std::fs::create_dir(path).unwrap();
        }
        let said = left_over(&home.path().join("out"), Some(&resumed));
        assert!(
            !said.contains(".a.1.partial") && said.contains(".b.1.partial"),
            "{said}"
        );
        let said = left_over(&home.path().join("out"), None);
        assert!(
            said.contains("left a directory without measurements; ")
                && said.contains(".a.1.partial"),
            "{said}"
        );
        assert_eq!(left_over(&home.path().join("out"), None), "");
        // Those that are only counted are named by a later run.
        for number in 1..=NAMED + 2 {
            std::fs::create_dir(home.path().join(format!(".c.{number}.partial"))).unwrap();
        }
        let said = left_over(&home.path().join("out"), None);
        assert!(
            said.lines().count() == NAMED + 1 && said.contains("note: 2 more such directories"),
            "{said}"
        );
        let said = left_over(&home.path().join("out"), None);
        assert!(
            said.lines().count() == 2
                && said.contains(".c.4.partial")
                && said.contains(".c.5.partial"),
            "{said}"
        );
        assert_eq!(left_over(&home.path().join("out"), None), "");
    }
}
