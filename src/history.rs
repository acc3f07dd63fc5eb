//! `crawlmark history`: adds results to a history, and finds where it changed.

use std::fs;
use std::path::{Path, PathBuf};

use crawlmark_harness::clock::wall_time;
use crawlmark_results::import::import;
use crawlmark_results::run::report::{Environment, Placement, rfc3339};
use crawlmark_results::run::result_dir::{ReadError, read};
use crawlmark_results::studies::history::{
    History, Point, add_points, machine_name, read_points, unfit,
};
use crawlmark_results::studies::read_study;

use crate::cli::HistoryArgs;
use crate::compare::{Saved, show};
use crate::error::{DONE, Error};
use crate::study::usage;
use crate::terminal;

/// Variables of CI systems that name the commit.
const COMMITS: [&str; 2] = ["GITHUB_SHA", "CI_COMMIT_SHA"];

/// Add what is to be added, and show the history. It is advice, so nothing fails.
pub(crate) fn history(args: &HistoryArgs) -> Result<u8, Error> {
    if !args.add.is_empty() {
        add(args)?;
    }
    let points = if args.history.is_dir() {
        of_directory(&args.history)?
    } else if !args.history.exists() {
        let file = args.history.display();
        return usage(format!(
            "{file} does not exist: name a history or a directory of results, or make one with `crawlmark history {file} --add RESULT`"
        ));
    } else {
        read_points(&args.history)?
    };
    let name = args
        .history
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy();
    let Some(history) = History::of(points, &name) else {
        return usage(format!(
            "no result in {} can be read",
            args.history.display()
        ));
    };
    let code = show(args.out.as_deref(), args.form, &history)?;
    Ok(if args.add.is_empty() { code } else { DONE })
}

/// Add the points of results to a file.
fn add(args: &HistoryArgs) -> Result<(), Error> {
    let path = &args.history;
    if path.is_dir() {
        return usage(format!(
            "{} is a directory: results are added to a file",
            path.display()
        ));
    }
    if path.exists() {
        // A line that cannot be read would end the history here.
        read_points(path)?;
    }
    let machine = Environment::read(Placement::Apart);
    let commit = args
        .commit
        .clone()
        .or_else(|| COMMITS.iter().find_map(|name| std::env::var(name).ok()));
    let mut points = Vec::new();
    for result in &args.add {
        let found = points_of(result)?;
        if let (Some(name), 2..) = (&args.name, found.len()) {
            return usage(format!(
                "--name {name}: {} has several benchmarks, each with a name",
                result.display()
            ));
        }
        points.extend(found);
    }
    for point in &mut points {
        let revision = machine.git_revision.clone();
        replace(&mut point.commit, commit.as_ref(), revision);
        let name = machine_name(&machine);
        replace(&mut point.machine, args.machine.as_ref(), Some(name));
        replace(&mut point.name, args.name.as_ref(), None);
    }
    add_points(path, &points).map_err(|error| Error::History {
        path: path.clone(),
        error,
    })
}

/// Replace a field by what was given, or one that is not known by what is.
fn replace(field: &mut String, given: Option<&String>, known: Option<String>) {
    if let Some(given) = given {
        field.clone_from(given);
    } else if field.is_empty() {
        *field = known.unwrap_or_default();
    }
}

/// The points of a result: of a run, of an `ab`, or of another tool.
fn points_of(path: &Path) -> Result<Vec<Point>, Error> {
    match Saved::of(path) {
        Saved::Run => {
            let report = read(path)?;
            match unfit(&report) {
                Some(why) => usage(format!(
                    "the run {why}, so it is no point of a history: {}",
                    path.display()
                )),
                None => Ok(vec![Point::of_run(&report)]),
            }
        }
        Saved::Contest => Ok(vec![Point::of_contest(&read_study(path)?)]),
        Saved::Foreign => {
            let written = fs::metadata(path).and_then(|file| file.modified());
            let time = rfc3339(written.unwrap_or_else(|_| wall_time()));
            Ok(Point::of_import(&import(path)?, &time))
        }
    }
}

/// The points of the results in a directory: those of crawlmark, and files of other tools. One that
/// cannot be read costs only itself.
fn of_directory(directory: &Path) -> Result<Vec<Point>, Error> {
    let entries = fs::read_dir(directory).map_err(ReadError::io(directory))?;
    let mut results: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    results.sort_unstable();
    let mut points = Vec::new();
    for result in results {
        if result.is_dir() && Saved::of(&result) == Saved::Foreign {
            continue;
        }
        match points_of(&result) {
            Ok(found) => points.extend(found),
            Err(error) => terminal::say(&format!("warning: left out: {}\n", error.message())),
        }
    }
    Ok(points)
}
