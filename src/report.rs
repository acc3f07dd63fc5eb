//! `crawlmark report`: recreates page, plots and exports of saved results.

use std::io;
use std::path::{Path, PathBuf};

use crawlmark_harness::trace::{TraceContext, Traces};
use crawlmark_results::run::cut;
use crawlmark_results::run::report::Report;
use crawlmark_results::run::result_dir::{self, PAGE, RESULT};
use crawlmark_results::show::plot::{self, Plot};
use crawlmark_results::studies::arena::Arena;
use crawlmark_results::studies::bisect::Bisect;
use crawlmark_results::studies::capacity::Capacity;
use crawlmark_results::studies::compare::Contest;
use crawlmark_results::studies::history::History;
use crawlmark_results::studies::overload::Overload;
use crawlmark_results::studies::scale::Scaling;
use crawlmark_results::studies::scenarios::Scenarios;
use crawlmark_results::studies::{StudyResult, read_study};
use serde::de::DeserializeOwned;

use crate::cli::{Destination, ReportArgs};
use crate::error::{DONE, Error};
use crate::export;
use crate::study;
use crate::terminal;

/// Remakes, and returns the exit code.
pub(crate) fn report(args: &ReportArgs) -> Result<u8, Error> {
    if let Some(trace) = &args.trace {
        return find_traced(trace, &args.results);
    }
    if !args.exports.is_empty() {
        return export_only(args);
    }
    if args.results.len() > 1 && args.out.is_some() {
        return Err(one_place());
    }
    for result in &args.results {
        let page = remake(result, args)?;
        if !args.quiet {
            terminal::print(&format!("{}\n", page.display()))?;
        }
    }
    Ok(DONE)
}

/// Print the item of a trace id, which is of one of the results.
fn find_traced(trace: &TraceContext, results: &[PathBuf]) -> Result<u8, Error> {
    for result in results {
        let plan = result_dir::read(result)?.plan.run;
        let traces = Traces::of(&plan);
        if traces.is_some_and(|traces| traces.request(0, 0).run() == trace.run()) {
            let attempt = trace
                .attempt()
                .map(|before| u64::from(before) + 1)
                .map_or_else(String::new, |number| format!(", attempt {number}"));
            terminal::print(&format!(
                "ID {}{attempt}, of {}\n",
                trace.id(),
                result.display()
            ))?;
            return Ok(DONE);
        }
    }
    Err(Error::Usage(format!(
        "--trace {}: no result named here has sent trace ids that begin with {:016x}: name the directory of the run that did",
        trace.trace_id(),
        trace.run()
    )))
}

/// What is made of a saved study.
struct Remade {
    /// Names and contents.
    files: Vec<(String, String)>,
    plots: Vec<Plot>,
}

/// What makes the files of a saved study again.
type Remake = fn(&Path) -> Result<Remade, Error>;

/// The files of studies, and what makes their others.
const STUDIES: [(&str, Remake); 8] = [
    (Arena::FILE, study_files::<Arena>),
    (Bisect::FILE, study_files::<Bisect>),
    (Scaling::FILE, study_files::<Scaling>),
    (Capacity::FILE, study_files::<Capacity>),
    (Overload::FILE, study_files::<Overload>),
    (Scenarios::FILE, study_files::<Scenarios>),
    (Contest::FILE, study_files::<Contest>),
    (History::FILE, study_files::<History>),
];

fn study_files<S: StudyResult + DeserializeOwned>(path: &Path) -> Result<Remade, Error> {
    let result: S = read_study(path)?;
    Ok(Remade {
        files: study::made_from(&result),
        plots: result.plots(),
    })
}

/// The file of a study at this path, and what makes its others; none of a run.
fn study_at(path: &Path) -> Option<(PathBuf, Remake)> {
    STUDIES.iter().find_map(|(file, make)| {
        if path.ends_with(file) {
            return Some((path.to_owned(), *make));
        }
        let inside = path.join(file);
        inside.is_file().then_some((inside, *make))
    })
}

/// Make everything of one result again, and returns where its page is.
fn remake(result: &Path, args: &ReportArgs) -> Result<PathBuf, Error> {
    if let Some((file, make)) = study_at(result) {
        if args.from.or(args.to).is_some() {
            return Err(Error::usage(
                "--from and --to are for a run: a study is made again as a whole",
            ));
        }
        let own = export::folder(&file).to_owned();
        let directory = args.out.clone().unwrap_or(own);
        let Remade { files, plots } = make(&file)?;
        result_dir::remake(&directory, &files)?;
        if args.png {
            export::pngs(&directory, &plots)?;
        }
        return Ok(directory.join(PAGE));
    }
    let directory = directory(result, args)?;
    let report = result_dir::read(result)?;
    if args.from.or(args.to).is_some() {
        return remake_part(result, &report, args);
    }
    let files = result_dir::made_from(&report);
    result_dir::remake(&directory, &files)?;
    if args.png {
        export::pngs(&directory, &plot::all(&report))?;
    }
    Ok(directory.join(PAGE))
}

/// Make everything of a part of a result, and return where its page is.
fn remake_part(result: &Path, report: &Report, args: &ReportArgs) -> Result<PathBuf, Error> {
    let file = result_dir::file_of(result, RESULT)?;
    let own = export::folder(&file);
    let part = cut::part(report, args.from, args.to)?;
    let name = format!("part-{}s-{}s", part.start, part.end);
    let directory = args.out.clone().unwrap_or_else(|| own.join(name));
    if is_there(&directory.join(RESULT))? {
        return Err(Error::Usage(format!(
            "--out {} holds a whole result: name another directory for the part",
            directory.display()
        )));
    }
    result_dir::remake(&directory, &cut::cut(report, own, &part)?)?;
    Ok(directory.join(PAGE))
}

/// Writes the exports of each result, and nothing else.
fn export_only(args: &ReportArgs) -> Result<u8, Error> {
    let elsewhere = args.out.is_some()
        || args
            .exports
            .iter()
            .any(|export| export.to != Destination::Result);
    if args.results.len() > 1 && elsewhere {
        return Err(one_place());
    }
    for result in &args.results {
        let directory = directory(result, args)?;
        export::check(&args.exports, Some(&directory))?;
        let report = result_dir::read(result)?;
        let written = export::write(&report, &directory, &args.exports)?;
        if !args.quiet && !export::prints(&args.exports) {
            let lines: Vec<String> = written
                .iter()
                .map(|path| format!("{}\n", path.display()))
                .collect();
            terminal::print(&lines.concat())?;
        }
    }
    Ok(DONE)
}

/// The error of several results for one place.
fn one_place() -> Error {
    Error::usage(
        "several results cannot be written to one place: name one result, or remove --out and the FILE of each --export",
    )
}

/// Return the directory for what is made of a result, which may be named by its `result.json`. A
/// directory that holds another result is refused.
fn directory(result: &Path, args: &ReportArgs) -> Result<PathBuf, Error> {
    let file = result_dir::file_of(result, RESULT)?;
    let own = export::folder(&file);
    let Some(out) = &args.out else {
        return Ok(own.to_owned());
    };
    if is_there(&out.join(RESULT))? && real(out)? != real(own)? {
        let why = "holds another result, whose summary and page are of its own run: name another directory";
        return Err(Error::Usage(format!("--out {} {why}", out.display())));
    }
    Ok(out.clone())
}

fn is_there(path: &Path) -> Result<bool, Error> {
    path.try_exists().map_err(unreadable(path))
}

fn real(path: &Path) -> Result<PathBuf, Error> {
    path.canonicalize().map_err(unreadable(path))
}

fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |error| Error::Unreadable { path, error }
}
