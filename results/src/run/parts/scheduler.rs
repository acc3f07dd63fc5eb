//! Scripts for Slurm: the files of `results/cluster/slurm/`, as `crawlmark submit` writes them.

/// Slurm: script of a task of the job array, which crawls a part.
pub const SLURM_PART: &str = include_str!("../../../cluster/slurm/part.sh");

/// Slurm: script of the job that merges the parts.
pub const SLURM_MERGE: &str = include_str!("../../../cluster/slurm/merge.sh");
