//! Where what rounds came to is kept, and how it is told: what every command that runs them does alike.

use std::path::Path;

use crawlmark_harness::clock::wall_time;
use crawlmark_harness::render;
use crawlmark_harness::results::{ResultDir, default_path};
use serde::Serialize;

use crate::cli::{FormArgs, KeepArgs};
use crate::error::Error;
use crate::run::RUNS;
use crate::terminal::{self, Stages};

/// Begins the directory of a finding of this name.
///
/// # Errors
/// When it cannot be made, or would replace something.
pub(crate) fn directory(keep: &KeepArgs, name: &str) -> Result<ResultDir, Error> {
    let out = keep.out.clone().unwrap_or_else(|| default_path(Path::new(RUNS), wall_time(), name));
    Ok(ResultDir::create(&out)?)
}

/// Says what is going to be done: in a sentence, and what is to be known of it, each with its name.
pub(crate) fn announce(keep: &KeepArgs, what: &str, rows: &[(&str, String)]) {
    if keep.quiet {
        return;
    }
    let columns = terminal::columns_beside();
    let mut text = render::wrapped(what, columns).join("\n") + "\n";
    for (name, value) in rows {
        render::write_row(&mut text, name, value, columns);
    }
    terminal::say(&text);
}

/// Where it is shown what goes on.
pub(crate) fn stages(keep: &KeepArgs) -> Stages {
    if keep.quiet || keep.no_progress { Stages::Silent } else { Stages::fitting() }
}

/// Prints a finding: as JSON, as Markdown, or for people on a terminal of so many columns.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn print<T: Serialize>(
    found: &T,
    form: FormArgs,
    markdown: impl FnOnce(&T) -> String,
    text: impl FnOnce(&T, usize) -> String,
) -> Result<(), Error> {
    let told = match (form.json, form.markdown) {
        (true, _) => serde_json::to_string_pretty(found)? + "\n",
        (_, true) => markdown(found),
        _ => text(found, terminal::columns()),
    };
    Ok(terminal::print(&told)?)
}
