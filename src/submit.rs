//! `crawlmark submit`: prints what a scheduler needs to crawl all parts of a plan, or submits it.
//!
//! | room | for |
//! |---|---|
//! | `slurm` | a job array, and a job that merges |
//! | `kubernetes` | an Indexed Job, and one that merges |
//!
//! The scripts and manifests are the files of `results/cluster/`: one text, shipped and submitted.

mod kubernetes;
mod slurm;

use crawlmark_results::run::parts::{PlanFile, PlanFileError};

use crate::cli::{Scheduler, SubmitArgs, resumed};
use crate::error::{DONE, Error};
use crate::terminal;

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
    let (plan, text) = PlanFile::read(&args.plan).map_err(|error| match error {
        PlanFileError::Io { path, error } => Error::Usage(format!(
            "PLAN {}: {error}. Name the file that `crawlmark plan` wrote",
            path.display()
        )),
        other => other.into(),
    })?;
    let flags = flags(args, &plan)?;
    let submission = Submission {
        args,
        plan,
        text,
        flags,
    };
    match args.scheduler {
        Scheduler::Slurm => slurm::submit(&submission)?,
        Scheduler::Kubernetes => {
            if args.go || !args.sbatch.is_empty() {
                return Err(Error::Usage(
                    "submit kubernetes: --go and flags of `sbatch` are for slurm. Pipe the manifests to `kubectl apply -f -`"
                        .to_owned(),
                ));
            }
            terminal::print_data(&kubernetes::manifests(&submission)?)?;
        }
    }
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
