//! `crawlmark compare`: judges saved rounds, or the rounds of a saved `ab` again; shows results of
//! other tools beside each other.

use std::fs;
use std::path::{Path, PathBuf};

use crawlmark_harness::clock::wall_time;
use crawlmark_results::import::import;
use crawlmark_results::run::report::{Report, Verdict, rfc3339};
use crawlmark_results::run::result_dir::foreign::read_text;
use crawlmark_results::run::result_dir::{RESULT, ReadError, ResultDir, read};
use crawlmark_results::studies::compare::{
    Arm, Contest, ContestContext, Disturbance, RoundReport, Side, run_metrics,
};
use crawlmark_results::studies::differences::{Difference, comparable, differences};
use crawlmark_results::studies::overlay::{OverlaidRun, Overlay};
use crawlmark_results::studies::sides::Sides;
use crawlmark_results::studies::{Header, StudyResult, read_study};

use crate::ab::incomparable;
use crate::cli::{CompareArgs, FormArgs};
use crate::error::Error;
use crate::study::{self, usage};

/// Compares, and returns the exit code.
pub(crate) fn compare(args: &CompareArgs) -> Result<u8, Error> {
    let (base, out, form) = (&args.base, args.out.as_deref(), args.form);
    let Some(candidate) = &args.candidate else {
        return show(out, form, &saved(base)?);
    };
    if args.overlay || !args.more.is_empty() {
        let paths = [base, candidate].into_iter().chain(&args.more);
        return show(out, form, &overlay(&paths.collect::<Vec<_>>())?);
    }
    match [base, candidate].map(|path| Saved::of(path)) {
        [Saved::Foreign, Saved::Foreign] => show(out, form, &sides(base, candidate)?),
        [Saved::Foreign, _] | [_, Saved::Foreign] => usage(format!(
            "one of {} and {} is a result of crawlmark, and the other is not: compare results of one tool",
            base.display(),
            candidate.display()
        )),
        _ => show(out, form, &contest(base, candidate)?),
    }
}

/// What lies at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Saved {
    /// A run, or a directory of runs; or nothing.
    Run,
    /// What `ab` saved.
    Contest,
    /// Results of another tool.
    Foreign,
}

/// The field that tells our files from those of other tools.
#[derive(serde::Deserialize)]
struct Ours {
    schema: Option<String>,
}

/// True if a file is ours, or cannot be read: that is ours to complain about.
fn is_ours(path: &Path) -> bool {
    match read_text(path).map(|text| serde_json::from_str::<Ours>(&text)) {
        Ok(ours) => ours.is_ok_and(|ours| ours.schema.is_some()),
        Err(_) => !path.is_dir(),
    }
}

impl Saved {
    /// What lies at `path`.
    pub(crate) fn of(path: &Path) -> Self {
        let is = |file: &str| path.ends_with(file) || path.join(file).exists();
        if is(Contest::FILE) {
            return Self::Contest;
        }
        let has_runs = fs::read_dir(path)
            .into_iter()
            .flatten()
            .flatten()
            .any(|entry| entry.path().join(RESULT).exists());
        if is(RESULT) || has_runs || is_ours(path) {
            Self::Run
        } else {
            Self::Foreign
        }
    }
}

/// Show results of another tool beside each other.
fn sides(base: &Path, candidate: &Path) -> Result<Sides, Error> {
    let [old, new] = [import(base)?, import(candidate)?];
    let now = rfc3339(wall_time());
    let header = Header::new::<Sides>("compare", [&now, &now]);
    Sides::new(header, &old, &new).filter(|_| old.tool == new.tool).map_or_else(
        || {
            usage(format!(
                "{} is of {}, and {} of {}, without a benchmark in common: compare results of one tool",
                base.display(),
                old.tool,
                candidate.display(),
                new.tool
            ))
        },
        Ok,
    )
}

/// Lay single results over each other.
fn overlay(paths: &[&PathBuf]) -> Result<Overlay, Error> {
    let mut runs = Vec::new();
    let mut times = Vec::new();
    for path in paths {
        let report: Report = read(path)?;
        let path = path
            .parent()
            .filter(|_| path.ends_with(RESULT))
            .unwrap_or(path);
        let name = path.file_name().map_or(path.as_os_str(), |name| name);
        runs.push(OverlaidRun::new(
            name.to_string_lossy().into_owned(),
            &report,
        ));
        times.extend([report.started_at, report.finished_at]);
    }
    times.sort();
    let ends = [times.first(), times.last()].map(|time| time.map_or("", |time| time));
    Ok(Overlay {
        header: Header::new::<Overlay>("compare", ends),
        runs,
    })
}

/// Save a result where one was asked for, print it, and return the exit code.
pub(crate) fn show(
    out: Option<&Path>,
    form: FormArgs,
    result: &impl StudyResult,
) -> Result<u8, Error> {
    let directory = out.map(ResultDir::create).transpose()?;
    let saved = directory.map(|directory| study::save(directory, result));
    // Neither a full disk nor a closed output costs the other.
    let place = saved.as_ref().and_then(|saved| saved.as_deref().ok());
    let shown = study::print(result, form, place, false);
    saved.transpose()?;
    shown.map(|()| study::exit_code(result))
}

/// Read the result of an `ab`, and judge its rounds again.
fn saved(path: &Path) -> Result<Contest, Error> {
    if !path.join(Contest::FILE).exists() && !path.ends_with(Contest::FILE) {
        return usage(format!(
            "{} was not saved by `crawlmark ab`: name a directory that was, or a base and a candidate",
            path.display()
        ));
    }
    let contest: Contest = read_study(path)?;
    let metrics = contest.metrics();
    let Contest {
        rounds,
        mut context,
        ..
    } = contest;
    env!("CARGO_PKG_VERSION").clone_into(&mut context.header.crawlmark_version);
    Ok(Contest::new(&metrics, rounds, context)?)
}

/// A result and where it lies.
struct SavedResult {
    arm: Arm,
    report: Report,
    path: PathBuf,
}

/// Compare the results at two places, as pairs; two single results are one pair.
fn contest(base: &Path, candidate: &Path) -> Result<Contest, Error> {
    let places = [base, candidate].map(|path| fs::canonicalize(path).ok());
    if places[0].is_some() && places[0] == places[1] {
        return usage(format!(
            "{} is compared with itself: name another base or candidate",
            base.display()
        ));
    }
    let mut found = results(Arm::Base, base)?;
    found.extend(results(Arm::Candidate, candidate)?);
    // What was run when is all that the order of the rounds can be known by: RFC 3339 in UTC sorts
    // as text.
    found.sort_by(|a, b| a.report.started_at.cmp(&b.report.started_at));
    // Of one pair nothing is judged.
    for two in found.windows(2).filter(|_| found.len() > 2) {
        if two[0].report.finished_at > two[1].report.started_at {
            return usage(format!(
                "{} was still running when {} began: each slowed the other down; run them one right after the other",
                two[0].path.display(),
                two[1].path.display()
            ));
        }
    }
    let (mut rounds, mut all) = (Vec::new(), Vec::<Difference>::new());
    for (number, pair) in (1..).zip(found.chunks(2)) {
        let mut disturbance = Disturbance::None;
        if let [first, second] = pair {
            disturbance = Disturbance::of_runs([&first.report, &second.report]);
            // A directory may hold runs of more than one plan: each pair counts.
            let mut apart = told_apart(first, second)?;
            apart.retain(|one| all.iter().all(|other| other.what != one.what));
            all.extend(apart);
        }
        for SavedResult { arm, report, path } in pair {
            let mut round = RoundReport::new(report, number, *arm, path.display().to_string());
            round.round.disturbance = disturbance;
            rounds.push(round);
        }
    }
    let [base, candidate] =
        [(base, Arm::Base), (candidate, Arm::Candidate)].map(|(path, arm)| Side {
            name: arm.to_string(),
            what: path.display().to_string(),
        });
    let started = found.first().map_or("", |first| &first.report.started_at);
    let finished = found.last().map_or("", |last| &last.report.finished_at);
    let context = ContestContext {
        header: Header::new::<Contest>("compare", [started, finished]),
        base,
        candidate,
        differences: all,
        noise_floor: None,
        not_profiled: None,
    };
    let judged = Contest::new(&run_metrics(), rounds, context)?;
    Ok(if found.len() == 2 {
        judged.without_verdict()
    } else {
        judged
    })
}

/// Return the differences between two runs of a pair; nothing of two of one arm, which are no pair.
fn told_apart(first: &SavedResult, second: &SavedResult) -> Result<Vec<Difference>, Error> {
    let mut two = [first, second];
    two.sort_by_key(|of| of.arm as usize);
    let [base, candidate] = two.map(|of| &of.report);
    if first.arm == second.arm {
        return Ok(Vec::new());
    }
    comparable(base, candidate)
        .map_err(|error| incomparable(error, [&base.plan.run, &candidate.plan.run]))?;
    Ok(differences(base, candidate))
}

/// The result at `path`, or those in the directories in it. Each has to be readable, so that none
/// is left out unseen, and whole.
fn results(arm: Arm, path: &Path) -> Result<Vec<SavedResult>, Error> {
    if path.join(Contest::FILE).exists() {
        return usage(format!(
            "{} was saved by `crawlmark ab` and has the rounds of both sides: pass it alone to judge it again",
            path.display()
        ));
    }
    let mut places = vec![path.to_owned()];
    if path.is_dir() && !path.join(RESULT).exists() {
        let entries = fs::read_dir(path).map_err(ReadError::io(path))?;
        places = entries.flatten().map(|entry| entry.path()).collect();
        places.retain(|place| place.join(RESULT).exists());
    }
    let mut found = Vec::new();
    for path in places {
        let report = read(&path)?;
        let merged = report.merged.as_ref();
        if report.validity.verdict == Verdict::Incomplete || merged.is_some_and(|it| !it.is_clean())
        {
            return usage(format!(
                "{} is incomplete, or was merged from parts of which some were lost or crawled more than once, so it is no basis for a verdict: run it again",
                path.display()
            ));
        }
        found.push(SavedResult { arm, report, path });
    }
    Ok(found)
}
