//! Scripts and manifests for schedulers: the files of `results/cluster/`, as `crawlmark submit`
//! fills them in.

/// Slurm: script of a task of the job array, which crawls a part.
pub const SLURM_PART: &str = include_str!("../../../cluster/slurm/part.sh");

/// Slurm: script of the job that merges the parts.
pub const SLURM_MERGE: &str = include_str!("../../../cluster/slurm/merge.sh");

/// Kubernetes: manifest of the Indexed Job that crawls the parts.
pub const KUBERNETES_PARTS: &str = include_str!("../../../cluster/kubernetes/job.yaml");

/// Kubernetes: manifest of the Job that merges the parts.
pub const KUBERNETES_MERGE: &str = include_str!("../../../cluster/kubernetes/merge.yaml");
