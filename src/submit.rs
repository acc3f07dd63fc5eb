//! `crawlmark submit`: prints the commands that submit a job array of Slurm, a task for each part of
//! a plan, and a job that merges when all of them have ended; or runs them.
//!
//! The scripts are the files of `results/cluster/slurm`: one text, shipped and submitted.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
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

/// A command that submits a job.
struct Sbatch {
    options: Vec<String>,
    /// True if the job starts when the one before it has ended, however that was.
    is_dependent: bool,
    /// The script, and its arguments.
    script: Vec<String>,
}

impl Sbatch {
    /// The words of the command, after the job of the command before it.
    fn words(&self, job: &str, quote: impl Fn(&str) -> String) -> Vec<String> {
        let own = ["sbatch".to_owned(), "--parsable".to_owned()];
        let dependency = self
            .is_dependent
            .then(|| format!("--dependency=afterany:{job}"));
        let [options, script] =
            [&self.options, &self.script].map(|words| words.iter().map(|word| quote(word)));
        own.into_iter()
            .chain(options)
            .chain(dependency)
            .chain(script)
            .collect()
    }
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
        print(&commands)
    }
}

/// Print the commands as a shell reads them.
fn print(commands: &[Sbatch]) -> Result<(), Error> {
    let last = commands.len().saturating_sub(1);
    terminal::print_data(
        &commands
            .iter()
            .enumerate()
            .map(|(i, command)| {
                let line = command.words("\"${job%%;*}\"", shell_word).join(" ");
                if i == last {
                    line + "\n"
                } else {
                    format!("job=$({line})\n")
                }
            })
            .collect::<String>(),
    )
}

/// Run the commands, each after the job of the one before it.
fn go(submission: &Submission<'_>, commands: &[Sbatch], into: &Path) -> Result<(), Error> {
    let mut jobs: Vec<String> = Vec::new();
    for command in commands {
        let words = command.words(jobs.last().map_or("", String::as_str), str::to_owned);
        jobs.push(run(&words).map_err(|why| Error::Scheduler {
            jobs: jobs.join(" "),
            why,
        })?);
    }
    let (merge, arrays) = jobs
        .split_last()
        .map_or(("", &[][..]), |(merge, arrays)| (merge.as_str(), arrays));
    terminal::print(&format!(
        "Submitted {} parts as job {}, at most {} at once, and the merge as job {merge}.\nWatch:  crawlmark watch {}\nCancel: scancel {}\n",
        grouped(submission.plan.nodes.into()),
        arrays.join(", "),
        grouped(submission.plan.slots.into()),
        shell_word(&into.display().to_string()),
        jobs.join(" ")
    ))
}

/// Run `sbatch`, and return the number of the job.
fn run(words: &[String]) -> Result<String, String> {
    let (program, arguments) = words.split_first().ok_or_else(String::new)?;
    let ended = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                "`sbatch` is not installed. Run this on a machine that submits jobs, or remove --go"
                    .to_owned()
            }
            _ => error.to_string(),
        })?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    let job = said(&ended.stdout)
        .split(';')
        .next()
        .unwrap_or_default()
        .to_owned();
    let is_number = !job.is_empty() && job.bytes().all(|byte| byte.is_ascii_digit());
    if ended.status.success() && is_number {
        Ok(job)
    } else {
        Err(said(&ended.stderr))
    }
}

/// Return the commands: a job array for each
/// [`SubmitArgs::array_limit`](crate::cli::SubmitArgs::array_limit) parts, and the merge.
fn commands(submission: &Submission<'_>, directory: &PartsDirectory) -> Result<Vec<Sbatch>, Error> {
    let Submission {
        args, plan, flags, ..
    } = submission;
    let path = |path: PathBuf| {
        let text = path.to_str().map(str::to_owned);
        text.ok_or_else(|| Error::Usage(format!("{}: Slurm needs a path in UTF-8", path.display())))
    };
    let scripts = directory.path().join(SCRIPTS);
    let program = path(std::env::current_exe().map_err(Error::Program)?)?;
    let into = path(directory.path().to_owned())?;
    let options = |name: String, log: &str, needed: &[String]| -> Result<Vec<String>, Error> {
        let log = format!("--output={}", path(scripts.join(log))?);
        let own = [
            format!("--job-name={name}"),
            "--open-mode=append".to_owned(),
            log,
        ];
        // Those that are needed come last: the last one of a kind holds.
        Ok([&own, &args.sbatch[..], needed].concat())
    };
    let mut commands = Vec::new();
    for first in (0..plan.nodes).step_by(args.array_limit as usize) {
        let count = (plan.nodes - first).min(args.array_limit);
        let needed = [
            format!("--array=0-{}%{}", count - 1, plan.slots),
            "--requeue".to_owned(),
        ];
        let script = [
            path(scripts.join(PART.0))?,
            program.clone(),
            path(directory.plan())?,
            into.clone(),
        ];
        let which = [first.to_string(), plan.nodes.to_string()];
        commands.push(Sbatch {
            options: options(args.name.clone(), "%A_%a.log", &needed)?,
            // Side by side, each array would have as many tasks as there are slots.
            is_dependent: first > 0,
            script: [&script[..], &which, flags].concat(),
        });
    }
    commands.push(Sbatch {
        options: options(format!("{}-merge", args.name), "merge.log", &[])?,
        is_dependent: true,
        script: vec![path(scripts.join(MERGE.0))?, program, into],
    });
    Ok(commands)
}
