//! `crawlmark report DIR --from ..`: a part of a saved result, measured again from its log of
//! times.

use std::path::Path;

use crawlmark_results::run::cut::doc;
use crawlmark_results::run::cut::{Ask, Cut};
use crawlmark_results::run::result_dir::{self, LogProgress};

use super::{directory, own_directory};
use crate::cli::ReportArgs;
use crate::error::{DONE, Error};
use crate::terminal::{self, ReadProgress};

/// File names of a saved cut.
const JSON: &str = "cut.json";
const SUMMARY: &str = "summary.md";

/// Cuts, saves if there is a place named, prints, and returns the exit code.
pub(super) fn cut(args: &ReportArgs, ask: &Ask) -> Result<u8, Error> {
    let [result] = &*args.results else {
        return Err(Error::Usage(
            "a part can only be cut out of one result at a time: name one".to_owned(),
        ));
    };
    let report = result_dir::read(result)?;
    let cut = Cut::of(&report, ask)?;
    let own = own_directory(result);
    refuse_the_result_itself(args, result)?;
    let progress = ReadProgress::fitting(args.quiet);
    let cut = result_dir::recut(own, &report, cut, |LogProgress { bytes, of }| {
        progress.show(bytes, of);
    });
    progress.end();
    let cut = cut?;
    let json = serde_json::to_string_pretty(&cut)? + "\n";
    if let Some(directory) = &args.out {
        result_dir::remake(
            directory,
            &[
                (JSON.to_owned(), json.clone()),
                (SUMMARY.to_owned(), doc(&cut).markdown()),
            ],
        )?;
    }
    if args.cut.json {
        terminal::print(&json)?;
    } else if !args.quiet {
        terminal::print(&doc(&cut).terminal(terminal::columns()))?;
    }
    Ok(DONE)
}

/// The summary of a part must not take the place of that of a whole.
fn refuse_the_result_itself(args: &ReportArgs, result: &Path) -> Result<(), Error> {
    let real = |path: &Path| path.canonicalize().ok();
    let (out, own) = (directory(result, args)?, own_directory(result));
    if args.out.is_some() && real(out).is_some() && real(out) == real(own) {
        return Err(Error::Usage(format!(
            "--out {} is the result itself, whose summary.md is of the whole run: name another directory for the part",
            out.display()
        )));
    }
    Ok(())
}
