//! `crawlmark report A B C`: several results side by side, as a result directory of its own.

use std::path::{Path, PathBuf};

use crawlmark_results::run::result_dir::{self, Overlaid, PAGE};
use crawlmark_results::show::plot::overlay::MOST_RUNS;

use crate::cli::ReportArgs;
use crate::error::Error;
use crate::run::result_directory;

/// Makes the page and its plots, and returns where the page is.
pub(super) fn overlay(args: &ReportArgs) -> Result<PathBuf, Error> {
    check(&args.results)?;
    let reports = args
        .results
        .iter()
        .map(|result| result_dir::read(result))
        .collect::<Result<Vec<_>, _>>()?;
    let directories: Vec<String> = args
        .results
        .iter()
        .filter_map(|result| {
            let own = super::own_directory(result);
            own.canonicalize()
                .ok()?
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
        })
        .collect();
    let directory = result_directory(args.out.as_deref(), "overlay")?;
    let Overlaid { files, plots } = result_dir::overlaid(&reports, &directories);
    let saved = directory.finish_with(files)?;
    if let Some(ground) = args.png {
        result_dir::remake(&saved, &result_dir::pictures(&plots, ground.into())?)?;
    }
    Ok(saved.join(PAGE))
}

/// Refuse more runs than colours can distinguish, and a run that is named twice.
fn check(wanted: &[PathBuf]) -> Result<(), Error> {
    if wanted.len() > MOST_RUNS {
        let count = wanted.len();
        let why = format!(
            "{count} results are too many for one page: name {MOST_RUNS} at most, because more lines cannot be told apart"
        );
        return Err(Error::Usage(why));
    }
    // What does not exist is reported by its reader.
    let places: Vec<PathBuf> = wanted
        .iter()
        .map(|path| {
            let path = path.canonicalize().unwrap_or_else(|_| path.clone());
            if path.is_file() {
                path.parent().map_or_else(|| path.clone(), Path::to_owned)
            } else {
                path
            }
        })
        .collect();
    let twice = (1..places.len()).find(|n| places[..*n].contains(&places[*n]));
    match twice {
        Some(n) => Err(Error::Usage(format!(
            "{} is named twice: name each result once",
            wanted[n].display()
        ))),
        None => Ok(()),
    }
}
