//! `crawlmark submit`: prints the commands that submit a job array of Slurm, a task for each part of
//! a plan, and a job that merges when all of them have ended; or runs them.
//!
//! The scripts are the files of `results/cluster/slurm`: one text, shipped and submitted.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crawlmark_harness::units::grouped;
use crawlmark_results::run::parts::{PartsDirectory, PlanFile, scheduler};
use crawlmark_results::show::text::{counted, shell_word};

use crate::cli::{SubmitArgs, resumed};
use crate::cluster::{attempt, digest};
use crate::error::{DONE, Error};
use crate::terminal;

/// Script of a task.
const PART: (&str, &str) = ("part.sh", scheduler::SLURM_PART);

/// Script of the merge.
const MERGE: (&str, &str) = ("merge.sh", scheduler::SLURM_MERGE);

/// Directory of the scripts and of what the jobs print, in that of the parts.
const SCRIPTS: &str = "slurm";

/// A plan that can be submitted.
struct Submission<'a> {
    args: &'a SubmitArgs,
    plan: PlanFile,
    /// Text of the plan's file.
    text: String,
    /// Flags that each part's `run` gets.
    flags: Vec<String>,
}

/// Prints or submits, and returns the exit code.
pub(crate) fn submit(args: &SubmitArgs) -> Result<u8, Error> {
    let (plan, text) = PlanFile::read(&args.plan)?;
    let flags = flags(args, &plan)?;
    let submission = Submission {
        args,
        plan,
        text,
        flags,
    };
    prepare(&submission)?;
    Ok(DONE)
}

/// Return the flags that each part's `run` gets, which hold all that the plan had to leave out.
fn flags(args: &SubmitArgs, plan: &PlanFile) -> Result<Vec<String>, Error> {
    let text = args.flags.as_deref().unwrap_or_default();
    let flags = shlex::split(text)
        .ok_or_else(|| Error::Usage("--flags: a quotation mark is not closed".to_owned()))?;
    resumed(&plan.command, &flags).map_err(|missing| {
        Error::Usage(format!(
            "{}: secrets are not saved, so these parts of the command are missing: {}. Make the plan with --bearer-env NAME, or give them with \
             --flags, where other users of the scheduler can read them",
            args.plan.display(),
            missing.join(", ")
        ))
    })?;
    Ok(flags)
}

/// Writes the scripts, and prints the commands or runs them.
fn prepare(submission: &Submission<'_>) -> Result<(), Error> {
    let Submission {
        args, plan, text, ..
    } = submission;
    digest::check_program(plan, &args.plan)?;
    let into = std::path::absolute(&args.into).map_err(Error::unwritable(&args.into))?;
    let scripts = into.join(SCRIPTS);
    fs::create_dir_all(&scripts).map_err(Error::unwritable(&scripts))?;
    let directory = PartsDirectory::at(&into);
    let name = format!("submit-{}", std::process::id());
    attempt::share_plan(&directory, plan, text, &name)?;
    let done = (0..plan.nodes)
        .filter(|part| directory.result(*part).exists())
        .count() as u64;
    if done == u64::from(plan.nodes) {
        let into = shell_word(&into.display().to_string());
        terminal::say(&format!(
            "All parts have a result ({}), so there is nothing to submit. Merge them with: crawlmark merge {into}\n",
            counted(done, "part")
        ));
        return Ok(());
    }
    if done > 0 {
        terminal::say(&format!(
            "Parts that have a result already: {} of {}. Their tasks end at once.\n",
            grouped(done),
            grouped(plan.nodes.into())
        ));
    }
    for (name, script) in [PART, MERGE] {
        let path = scripts.join(name);
        let written = fs::write(&path, script)
            .and_then(|()| fs::set_permissions(&path, PermissionsExt::from_mode(0o755)));
        written.map_err(Error::unwritable(&path))?;
    }
    let commands = commands(submission, &directory)?;
    if args.go {
        go(submission, &commands, &into)
    } else {
        terminal::print_data(&commands)
    }
}

/// Have a shell run the commands.
fn go(submission: &Submission<'_>, commands: &str, into: &Path) -> Result<(), Error> {
    let shell = Command::new("sh").args(["-ec", commands]).output();
    let ended = shell.map_err(Error::unwritable(into))?;
    let [said, why] = [&ended.stdout, &ended.stderr]
        .map(|bytes| String::from_utf8_lossy(bytes).trim().to_owned());
    let jobs: Vec<&str> = said.lines().collect();
    let (Some((merge, arrays)), true) = (jobs.split_last(), ended.status.success()) else {
        return Err(Error::Scheduler {
            jobs: jobs.join(" "),
            why,
        });
    };
    terminal::print(&format!(
        "Submitted {} parts as job {}, at most {} at once, and the merge as job {merge}.\nWatch:  crawlmark watch {}\nCancel: scancel {}\n",
        grouped(submission.plan.nodes.into()),
        arrays.join(", "),
        grouped(submission.plan.slots.into()),
        shell_word(&into.display().to_string()),
        jobs.join(" ")
    ))
}

fn utf8(path: &Path) -> Result<String, Error> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Error::Usage(format!("{}: Slurm needs a path in UTF-8", path.display())))
}

/// Return the commands as a shell reads them: a job array for each
/// [`SubmitArgs::array_limit`](crate::cli::SubmitArgs::array_limit) parts, one after the other (side
/// by side, each would have as many tasks as there are slots), and the merge. Each starts when the
/// one before it has ended, however that was, and prints its job.
fn commands(submission: &Submission<'_>, directory: &PartsDirectory) -> Result<String, Error> {
    let Submission {
        args, plan, flags, ..
    } = submission;

    let scripts = directory.path().join(SCRIPTS);
    let [part, merge] = [PART, MERGE].map(|(name, _)| utf8(&scripts.join(name)));
    let program = utf8(&std::env::current_exe().map_err(Error::Program)?)?;
    let (plan_file, into) = (utf8(&directory.plan())?, utf8(directory.path())?);
    let mut text = String::new();
    let mut add = |name: &str, log: &str, needed: &[String], script: &[String]| {
        let log = utf8(&scripts.join(log))?;
        let own = ["sbatch", "--parsable", &format!("--job-name={name}")].map(str::to_owned);
        let own = [
            &own[..],
            &["--open-mode=append".to_owned(), format!("--output={log}")],
        ];
        // Those that are needed come last: the last one of a kind holds.
        let options = [own[0], own[1], &args.sbatch, needed].concat();
        let [options, script] = [&options[..], script].map(|words| {
            let words: Vec<String> = words.iter().map(|word| shell_word(word)).collect();
            words.join(" ")
        });
        let after = if text.is_empty() {
            ""
        } else {
            "--dependency=afterany:\"$job\" "
        };
        let _ = write!(
            text,
            "job=$({options} {after}{script})\njob=${{job%%;*}}; echo \"$job\"\n"
        );
        Ok::<_, Error>(())
    };
    let part = part?;
    for first in (0..plan.nodes).step_by(args.array_limit as usize) {
        let last = (plan.nodes - first).min(args.array_limit) - 1;
        let array = format!("--array=0-{last}%{}", plan.slots);
        let (first, all) = (first.to_string(), plan.nodes.to_string());
        let words = [&part, &program, &plan_file, &into, &first, &all].map(Clone::clone);
        let script = [&words[..], flags].concat();
        add(
            &args.name,
            "%A_%a.log",
            &[array, "--requeue".to_owned()],
            &script,
        )?;
    }
    let name = format!("{}-merge", args.name);
    add(&name, "merge.log", &[], &[merge?, program, into])?;
    Ok(text)
}
