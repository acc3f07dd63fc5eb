//! Arguments of `submit`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::whole;

pub(super) const EXAMPLES: &str = "\
slurm makes DIR with the plan and scripts (in DIR/slurm), and prints the commands
that submit a job array, a task for each part with as many at once as the plan
has slots, and a job that merges the parts when all tasks have ended. With --go
it also runs them. Flags after -- go to both `sbatch`.

kubernetes prints manifests: an Indexed Job, a pod for each part, and a suspended
Job that merges. They have the plan in them, so make it with the program that is
in IMAGE. They were checked against the schema of Kubernetes and not run there.

A task whose part has a result ends with 0, whatever the measurement is worth. A
usage error (2) is not tried again. A part that was killed or lost is crawled
again, at most 3 times; requests that were sent in addition are counted, and
`crawlmark merge` reports them.

Exit codes: 0 done · 1 `sbatch` failed · 2 the plan or DIR cannot be used

Examples:
  See what would be submitted to Slurm, and submit it:
    crawlmark submit slurm plan.json --into /shared/crawl
    crawlmark submit slurm plan.json --into /shared/crawl --go -- \\
        --partition=short --cpus-per-task=8 --time=30
  On Kubernetes, with a claim named crawl, and the merge at the end:
    crawlmark submit kubernetes plan.json --into july --claim crawl \\
        --image registry.local/crawlmark:0.1.0 > crawl.yaml";

/// Arguments of `submit`.
#[derive(Debug, Args)]
pub struct SubmitArgs {
    /// Scheduler: slurm or kubernetes
    #[arg(value_enum, value_name = "SCHEDULER", hide_possible_values = true)]
    pub scheduler: Scheduler,
    /// Plan that `crawlmark plan` made
    #[arg(value_name = "PLAN")]
    pub plan: PathBuf,
    /// Directory that all parts share; of a claim's volume for kubernetes
    #[arg(long, value_name = "DIR")]
    pub into: PathBuf,
    /// Name of the job
    #[arg(long, default_value = "crawl", value_parser = parse_job_name)]
    pub name: String,
    /// Give each part these flags of `crawlmark run`, beside the plan's
    ///
    /// They are part of the job, where other users can read them: name a secret
    /// by --bearer-env, as in --flags '--bearer-env TOKEN', and have it in the
    /// environment of `sbatch`, or in a Secret with the name of the Job.
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true)]
    pub flags: Option<String>,
    /// Run the commands instead of printing them
    #[arg(long, help_heading = "Slurm")]
    pub go: bool,
    /// Submit arrays of at most N tasks, one after the other
    ///
    /// Slurm has a limit, which `scontrol show config` prints as `MaxArraySize`.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = whole::<u32>(1..=100_000), help_heading = "Slurm")]
    pub array_limit: u32,
    /// Flags of `sbatch`, after --
    #[arg(last = true, value_name = "SBATCH FLAGS", help_heading = "Slurm")]
    pub sbatch: Vec<String>,
    /// Image of the pods, whose entry point is crawlmark
    #[arg(
        long,
        required_if_eq("scheduler", "kubernetes"),
        help_heading = "Kubernetes"
    )]
    pub image: Option<String>,
    /// Claim of a volume that many nodes can write to
    #[arg(long, value_name = "NAME", default_value = "crawl", value_parser = parse_job_name, help_heading = "Kubernetes")]
    pub claim: String,
    /// CPUs of a pod
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = whole::<u32>(1..=1_024), help_heading = "Kubernetes")]
    pub cpus: u32,
    /// Memory of a pod
    #[arg(long, value_name = "QUANTITY", default_value = "1Gi", value_parser = parse_quantity, help_heading = "Kubernetes")]
    pub memory: String,
}

/// Scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Scheduler {
    /// Job arrays.
    Slurm,
    /// Indexed Jobs.
    Kubernetes,
}

/// Kubernetes has labels of DNS for names (RFC 1123), with room here for the number of a pod; Slurm
/// takes any.
fn parse_job_name(text: &str) -> Result<String, String> {
    /// Longest name: 63 characters less those of `-merge` and of a pod's number.
    const LONGEST: usize = 50;
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !text.is_empty()
        && text.len() <= LONGEST
        && text.chars().all(fits)
        && !text.starts_with('-')
        && !text.ends_with('-')
    {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "a name is lower-case letters, digits and `-`, {LONGEST} at most, with no `-` at its ends"
        ))
    }
}

fn parse_quantity(text: &str) -> Result<String, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &text[digits.len()..];
    let fits = digits.parse::<u32>().is_ok_and(|number| number > 0);
    if fits && ["", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"].contains(&unit) {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "`{text}` is not an amount of memory: write, for example, 512Mi or 2Gi"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_quantities_are_those_of_kubernetes() {
        for name in ["crawl", "c-1", "7"] {
            assert_eq!(parse_job_name(name).as_deref(), Ok(name));
        }
        for name in ["", "Crawl", "-c", "c-", "a_b", "a.b", &"a".repeat(51)] {
            assert!(parse_job_name(name).is_err(), "{name}");
        }
        for quantity in ["1", "512Mi", "2G"] {
            assert_eq!(parse_quantity(quantity).as_deref(), Ok(quantity));
        }
        for quantity in ["", "Mi", "0Gi", "-1", "1.5Gi", "1 Gi", "1MB", "1gi"] {
            assert!(parse_quantity(quantity).is_err(), "{quantity}");
        }
    }
}
