//! `crawlmark compare`: judges saved rounds, or the rounds of a saved `ab` again; shows results of
//! other tools beside each other.

use std::fs;
use std::path::{Path, PathBuf};

use crawlmark_harness::clock::wall_time;
use crawlmark_results::import::import;
use crawlmark_results::run::report::{Report, Verdict, rfc3339};
use crawlmark_results::run::result_dir::foreign::read_text;
use crawlmark_results::run::result_dir::{RESULT, ReadError, ResultDir, read, read_study};
use crawlmark_results::studies::compare::{
    Arm, Contest, ContestContext, Disturbance, RoundReport, Side, run_metrics,
};
use crawlmark_results::studies::differences::{Difference, comparable, differences};
use crawlmark_results::studies::sides::Sides;
use crawlmark_results::studies::{Header, StudyResult};

use crate::ab::incomparable;
use crate::cli::{CompareArgs, FormArgs};
use crate::error::Error;
use crate::study::{self, usage};
use crate::terminal;

/// Compares, and returns the exit code.
pub(crate) fn compare(args: &CompareArgs) -> Result<u8, Error> {
    let (base, out, form) = (&args.base, args.out.as_deref(), args.form);
    let Some(candidate) = &args.candidate else {
        return show(out, form, &saved(base)?);
    };
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

impl Saved {
    /// What lies at `path`.
    pub(crate) fn of(path: &Path) -> Self {
        if path.is_dir() {
            let has = |file: &str| path.join(file).exists();
            let mut inside = fs::read_dir(path).into_iter().flatten().flatten();
            return match () {
                () if has(Contest::FILE) => Self::Contest,
                () if has(RESULT) => Self::Run,
                () if inside.any(|entry| entry.path().join(RESULT).exists()) => Self::Run,
                () => Self::Foreign,
            };
        }
        let ours = read_text(path).map(|text| serde_json::from_str::<Ours>(&text));
        match ours {
            _ if path.ends_with(Contest::FILE) => Self::Contest,
            Ok(Ok(Ours { schema: Some(_) })) | Err(_) => Self::Run,
            Ok(_) if path.ends_with(RESULT) => Self::Run,
            Ok(_) => Self::Foreign,
        }
    }
}

/// Show results of another tool beside each other.
fn sides(base: &Path, candidate: &Path) -> Result<Sides, Error> {
    let [old, new] = [import(base)?, import(candidate)?];
    if old.tool != new.tool {
        return usage(format!(
            "{} is of {}, and {} of {}: compare results of one tool",
            base.display(),
            old.tool,
            candidate.display(),
            new.tool
        ));
    }
    let now = rfc3339(wall_time());
    let header = Header::new::<Sides>("compare", [&now, &now]);
    Sides::new(header, &old, &new).map_or_else(
        || {
            usage(format!(
                "{} and {} have no benchmark in common",
                base.display(),
                candidate.display()
            ))
        },
        Ok,
    )
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
    let shown = study::print(result, form);
    if let Some(saved) = saved.transpose()? {
        terminal::say(&format!("\nsaved in {}\n", saved.display()));
    }
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
    if fs::canonicalize(base)
        .is_ok_and(|place| fs::canonicalize(candidate).is_ok_and(|other| other == place))
    {
        return usage(format!(
            "{} is compared with itself: name another base or candidate",
            base.display()
        ));
    }
    let mut found = results(Arm::Base, base)?;
    found.extend(results(Arm::Candidate, candidate)?);
    for SavedResult { report, path, .. } in &found {
        if report.validity.verdict == Verdict::Incomplete {
            return usage(format!(
                "{} is incomplete and cannot be compared with complete results: run it again",
                path.display()
            ));
        }
        if report
            .merged
            .as_ref()
            .is_some_and(|merged| !merged.is_clean())
        {
            return usage(format!(
                "{} was merged from parts of which some were lost or crawled more than once, so its times are no basis for a verdict: repeat the crawl",
                path.display()
            ));
        }
    }
    // What was run when is all that the order of the rounds can be known by: RFC 3339 in UTC sorts
    // as text.
    found.sort_by(|a, b| a.report.started_at.cmp(&b.report.started_at));
    one_at_a_time(&found)?;
    let (mut rounds, mut all) = (Vec::new(), Vec::<Difference>::new());
    for (number, pair) in (1..).zip(found.chunks(2)) {
        let mut disturbance = Disturbance::None;
        if let [first, second] = pair {
            disturbance = Disturbance::of_runs([&first.report, &second.report]);
            // A directory may hold runs of more than one plan: each pair counts.
            for difference in told_apart(first, second)? {
                if all.iter().all(|other| other.what != difference.what) {
                    all.push(difference);
                }
            }
        }
        for SavedResult { arm, report, path } in pair {
            let result = path.display().to_string();
            let mut round = RoundReport::new(report, number, *arm, result);
            round.round.disturbance = disturbance;
            rounds.push(round);
        }
    }
    let [base, candidate] =
        [(base, Arm::Base), (candidate, Arm::Candidate)].map(|(path, arm)| Side {
            name: arm.to_string(),
            what: path.display().to_string(),
        });
    let [first, last] = [found.first(), found.last()];
    let started = first.map_or("", |first| &first.report.started_at);
    let finished = last.map_or("", |last| &last.report.finished_at);
    let context = ContestContext {
        header: Header::new::<Contest>("compare", [started, finished]),
        base,
        candidate,
        differences: all,
        noise_floor: None,
    };
    Ok(Contest::new(&run_metrics(), rounds, context)?)
}

/// Refuses runs that shared the machine, given by their start. Of one pair nothing is judged.
fn one_at_a_time(found: &[SavedResult]) -> Result<(), Error> {
    for two in found.windows(2).filter(|_| found.len() > 2) {
        if two[0].report.finished_at > two[1].report.started_at {
            return usage(format!(
                "{} was still running when {} began: each slowed the other down; run them one right after the other",
                two[0].path.display(),
                two[1].path.display()
            ));
        }
    }
    Ok(())
}

/// Return the differences between two runs of a pair; nothing of two of one arm, which are no pair.
fn told_apart(first: &SavedResult, second: &SavedResult) -> Result<Vec<Difference>, Error> {
    let (base, candidate) = match (first.arm, second.arm) {
        (Arm::Base, Arm::Candidate) => (&first.report, &second.report),
        (Arm::Candidate, Arm::Base) => (&second.report, &first.report),
        _ => return Ok(Vec::new()),
    };
    let found = differences(base, candidate);
    comparable(&found)
        .map_err(|error| incomparable(error, [&base.plan.run, &candidate.plan.run]))?;
    Ok(found)
}

/// The result at `path`, or those in the directories in it. Each has to be readable, so that none
/// is left out unseen.
fn results(arm: Arm, path: &Path) -> Result<Vec<SavedResult>, Error> {
    if path.join(Contest::FILE).exists() {
        return usage(format!(
            "{} was saved by `crawlmark ab` and has the rounds of both sides: pass it alone to judge it again",
            path.display()
        ));
    }
    let mut places = Vec::new();
    if !path.is_dir() || path.join(RESULT).exists() {
        places.push(path.to_owned());
    } else {
        let entries = fs::read_dir(path).map_err(|error| ReadError::Io {
            path: path.to_owned(),
            error,
        })?;
        places.extend(entries.flatten().map(|entry| entry.path()));
        places.retain(|place| place.join(RESULT).exists());
    }
    let mut found = Vec::new();
    for path in places {
        let report = read(&path)?;
        found.push(SavedResult { arm, report, path });
    }
    Ok(found)
}
