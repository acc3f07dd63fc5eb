//! `crawlmark compare`: judges saved rounds, or the rounds of a saved `ab` again.

use std::fs;
use std::path::{Path, PathBuf};

use crawlmark_results::run::report::{Report, Verdict};
use crawlmark_results::run::result_dir::{
    RESULT, ReadError, ResultDir, read, read_round, read_study,
};
use crawlmark_results::studies::compare::{
    Arm, Contest, ContestContext, Difference, Disturbance, FILE, History, Round, RoundReport, Side,
    comparable, differences, pair_up,
};
use crawlmark_results::studies::{Header, StudyResult};

use crate::ab::incomparable;
use crate::cli::CompareArgs;
use crate::error::Error;
use crate::study;
use crate::terminal;

/// Compares, and returns the exit code.
pub(crate) fn compare(args: &CompareArgs) -> Result<u8, Error> {
    let contest = match (&args.base, &args.candidate, &args.history) {
        (.., Some(directory)) => {
            // Advice, so nothing fails; too few results are inconclusive.
            let history = history(directory)?;
            return show(args, &history);
        }
        (None, ..) => return Err(Error::Usage("name a base and a candidate".to_owned())),
        (Some(base), None, _) => saved(base)?,
        (Some(base), Some(candidate), _) => contest(base, candidate)?,
    };
    show(args, &contest)
}

/// Save a result where one was asked for, print it, and return the exit code.
fn show(args: &CompareArgs, result: &impl StudyResult) -> Result<u8, Error> {
    let directory = args.out.as_deref().map(ResultDir::create).transpose()?;
    let saved = directory.map(|directory| study::save(directory, result));
    // Neither a full disk nor a closed output costs the other.
    let shown = study::print(result, args.form);
    if let Some(saved) = saved.transpose()? {
        terminal::say(&format!("\nsaved in {}\n", saved.display()));
    }
    shown.map(|()| study::exit_code(result))
}

/// Find changes among the results in a directory.
fn history(directory: &Path) -> Result<History, Error> {
    let (found, unreadable) = readable(Arm::Base, directory)?;
    for error in unreadable {
        terminal::say(&format!("warning: left out: {error}\n"));
    }
    let found = found
        .into_iter()
        .map(|found| (found.path.display().to_string(), found.report))
        .collect();
    History::of(found)
        .ok_or_else(|| Error::Usage(format!("no result in {} can be read", directory.display())))
}

/// Read the result of an `ab`, and judge it again from the results of its rounds.
fn saved(path: &Path) -> Result<Contest, Error> {
    if !path.exists() {
        return Err(Error::Usage(format!(
            "{} does not exist: name a directory that `crawlmark ab` saved",
            path.display()
        )));
    }
    if !path.join(FILE).exists() && !path.ends_with(FILE) {
        return Err(Error::Usage(format!(
            "{} was not saved by `crawlmark ab`: name a directory that was, or a base and a candidate",
            path.display()
        )));
    }
    let saved: Contest = read_study(path)?;
    let file = if path.is_dir() {
        path.join(FILE)
    } else {
        path.to_owned()
    };
    let folder = file.parent().unwrap_or(Path::new(""));
    let (again, missing) =
        saved.again(|round| read_round(folder, &round.result).map_err(Error::from))?;
    if missing > 0 {
        let all = saved.rounds.len();
        terminal::say(&format!(
            "note: {missing} of {all} rounds have no result beside {}, and are taken from it unchecked\n",
            file.display()
        ));
    }
    Ok(again)
}

/// A result and where it lies.
struct SavedResult {
    arm: Arm,
    report: Report,
    path: PathBuf,
}

/// Compare the results at two places, as pairs; two single results are one pair.
fn contest(base: &Path, candidate: &Path) -> Result<Contest, Error> {
    if fs::canonicalize(base)
        .is_ok_and(|place| fs::canonicalize(candidate).is_ok_and(|other| other == place))
    {
        return Err(Error::Usage(format!(
            "{} is compared with itself: name another base or candidate",
            base.display()
        )));
    }
    let mut found = results(Arm::Base, base)?;
    found.extend(results(Arm::Candidate, candidate)?);
    if let Some(part) = found
        .iter()
        .find(|found| found.report.validity.verdict == Verdict::Incomplete)
    {
        return Err(Error::Usage(format!(
            "{} is incomplete and cannot be compared with complete results: run it again",
            part.path.display()
        )));
    }
    let is_repeated = |found: &&SavedResult| {
        found
            .report
            .merged
            .as_ref()
            .is_some_and(|merged| !merged.is_clean())
    };
    if let Some(repeated) = found.iter().find(is_repeated) {
        return Err(Error::Usage(format!(
            "{} was merged from parts of which some were lost or crawled more than once, so its times are no basis for a verdict: repeat the crawl",
            repeated.path.display()
        )));
    }
    // What was run when is all that the order of the rounds can be known by: RFC 3339 in UTC sorts
    // as text.
    found.sort_by(|a, b| a.report.started_at.cmp(&b.report.started_at));
    let taken: Vec<Round> = found
        .iter()
        .map(|found| Round::taken_from(&found.report, found.arm))
        .collect();
    pair_up(&taken)?;
    one_at_a_time(&found)?;
    let differences = told_apart(&found)?;
    let reports = found.chunks(2).enumerate().flat_map(|(number, pair)| {
        let disturbance = match pair {
            [first, second] => Disturbance::of_pair([&first.report, &second.report]),
            _ => Disturbance::None,
        };
        pair.iter().map(move |found| {
            let place = (number + 1, found.arm, found.path.display().to_string());
            RoundReport {
                disturbance,
                ..RoundReport::new(&found.report, place, None)
            }
        })
    });
    let side = |path: &Path, arm: Arm| Side {
        name: arm.to_string(),
        what: path.display().to_string(),
    };
    let last = found.last().map_or("", |last| &last.report.finished_at);
    let context = ContestContext {
        header: Header::new::<Contest>("compare", [&found[0].report.started_at, last]),
        base: side(base, Arm::Base),
        candidate: side(candidate, Arm::Candidate),
        differences,
        noise_floor: None,
    };
    Ok(Contest::new(reports.collect(), context)?)
}

/// Refuses runs that shared the machine, given by their start. Of one pair nothing is judged.
fn one_at_a_time(found: &[SavedResult]) -> Result<(), Error> {
    let neighbours = found.windows(2).filter(|_| found.len() > 2);
    let mut at_once = neighbours.filter(|two| two[0].report.finished_at > two[1].report.started_at);
    at_once.next().map_or(Ok(()), |two| {
        Err(Error::Usage(format!(
            "{} was still running when {} began: each slowed the other down; run them one right after the other",
            two[0].path.display(),
            two[1].path.display()
        )))
    })
}

/// Return the differences between the rounds of any pair, each once. A directory may hold runs of
/// more than one plan.
fn told_apart(found: &[SavedResult]) -> Result<Vec<Difference>, Error> {
    let mut told: Vec<Difference> = Vec::new();
    for pair in found.chunks(2) {
        let of = |arm| {
            pair.iter()
                .find(|found| found.arm == arm)
                .map(|found| &found.report)
        };
        let Some((base, candidate)) = of(Arm::Base).zip(of(Arm::Candidate)) else {
            continue;
        };
        let here = differences(base, candidate);
        comparable(&here)
            .map_err(|error| incomparable(error, [&base.plan.run, &candidate.plan.run]))?;
        told.extend(
            here.into_iter()
                .filter(|one| told.iter().all(|other| other.what != one.what))
                .collect::<Vec<_>>(),
        );
    }
    Ok(told)
}

/// The result at `path`, or those in the directories in it. Each has to be readable, so that none
/// is left out unseen.
fn results(arm: Arm, path: &Path) -> Result<Vec<SavedResult>, Error> {
    let (found, unreadable) = readable(arm, path)?;
    unreadable
        .into_iter()
        .next()
        .map_or(Ok(found), |error| Err(error.into()))
}

/// Return the readable results at `path`, and the errors of the others. At least one of the two is
/// not empty.
fn readable(arm: Arm, path: &Path) -> Result<(Vec<SavedResult>, Vec<ReadError>), Error> {
    if path.join(FILE).exists() {
        return Err(Error::Usage(format!(
            "{} was saved by `crawlmark ab` and has the rounds of both sides: pass it alone to judge it again",
            path.display()
        )));
    }
    let one = |path: PathBuf| -> Result<SavedResult, ReadError> {
        Ok(SavedResult {
            arm,
            report: read(&path)?,
            path,
        })
    };
    if !path.is_dir() || path.join(RESULT).exists() {
        return Ok((vec![one(path.to_owned())?], Vec::new()));
    }
    let entries = fs::read_dir(path).map_err(|error| ReadError::Io {
        path: path.to_owned(),
        error,
    })?;
    let inner = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|inner| inner.join(RESULT).exists());
    let (found, unreadable): (Vec<_>, Vec<_>) = inner.map(one).partition(Result::is_ok);
    let found: Vec<SavedResult> = found.into_iter().flatten().collect();
    let unreadable: Vec<ReadError> = unreadable.into_iter().filter_map(Result::err).collect();
    match (found.is_empty(), unreadable.is_empty()) {
        (true, true) => Err(ReadError::NoResult(path.to_owned()).into()),
        _ => Ok((found, unreadable)),
    }
}
