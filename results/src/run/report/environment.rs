//! The machine a run was measured on. A reading that the machine does not give is absent, never 0.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::resource::{Resource, getrlimit};
use serde::{Deserialize, Serialize};

use crawlmark_harness::process::usable_cpus;

/// True if client and target share a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// They do, so they compete for its CPUs.
    Colocated,
    /// They do not, as far as the target's address tells.
    Apart,
}

/// The machine and its limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// As the kernel names it.
    pub cpu_model: Option<String>,
    /// CPUs that the run could use.
    pub cores: usize,
    /// Kernel name and release.
    pub kernel: Option<String>,
    /// The frequency governor of the first CPU.
    pub cpu_governor: Option<String>,
    /// Memory, bytes.
    pub memory_bytes: Option<u64>,
    /// Descriptors that a process may open.
    pub nofile: Option<u64>,
    /// Local ports for outgoing connections, first and last.
    pub local_ports: Option<[u16; 2]>,
    /// True if the target ran on this machine.
    pub colocated: bool,
    /// The commit of the working directory, where there is one.
    pub git_revision: Option<String>,
}

impl Environment {
    /// Reads the machine.
    #[must_use]
    pub fn read(placement: Placement) -> Self {
        Self {
            cpu_model: proc_field("/proc/cpuinfo", "model name"),
            cores: usable_cpus().len(),
            kernel: line("/proc/sys/kernel/osrelease").map(|release| format!("Linux {release}")),
            cpu_governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            memory_bytes: proc_field("/proc/meminfo", "MemTotal")
                .and_then(|value| value.trim_end_matches(" kB").parse::<u64>().ok())
                .map(|kib| kib * 1024),
            nofile: getrlimit(Resource::RLIMIT_NOFILE)
                .ok()
                .map(|(soft, _)| soft),
            local_ports: local_ports(),
            colocated: placement == Placement::Colocated,
            git_revision: std::env::current_dir()
                .ok()
                .and_then(|directory| git_revision(&directory)),
        }
    }
}

fn line(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|line| !line.is_empty())
}

fn proc_field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let (_, value) = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)?;
    Some(value.trim().to_owned())
}

fn local_ports() -> Option<[u16; 2]> {
    let text = line("/proc/sys/net/ipv4/ip_local_port_range")?;
    let mut ports = text.split_whitespace().map(str::parse);
    Some([ports.next()?.ok()?, ports.next()?.ok()?])
}

/// The commit that `HEAD` of the repository around `directory` names, read without running git.
fn git_revision(directory: &Path) -> Option<String> {
    let git = directory.ancestors().find_map(git_directory)?;
    // A worktree has its own HEAD and shares the branches of the repository that it belongs to.
    let shared = line(git.join("commondir")).map_or_else(|| git.clone(), |common| git.join(common));
    let head = line(git.join("HEAD"))?;
    let revision = match head.strip_prefix("ref: ") {
        None => Some(head),
        Some(reference) => [&git, &shared]
            .into_iter()
            .find_map(|place| line(place.join(reference)))
            .or_else(|| {
                packed(
                    &fs::read_to_string(shared.join("packed-refs")).ok()?,
                    reference,
                )
            }),
    };
    revision.filter(|revision| revision.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// The repository's own directory: `.git`, or where a worktree's or submodule's file of that name
/// points.
fn git_directory(directory: &Path) -> Option<PathBuf> {
    let git = directory.join(".git");
    if git.is_dir() {
        return Some(git);
    }
    Some(directory.join(line(&git)?.strip_prefix("gitdir: ")?))
}

fn packed(refs: &str, reference: &str) -> Option<String> {
    let mut lines = refs.lines().filter_map(|line| line.split_once(' '));
    lines
        .find(|(_, name)| *name == reference)
        .map(|(revision, _)| revision.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const REVISION: &str = "0123456789abcdef0123456789abcdef01234567";

    fn write(root: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    #[test]
    fn the_revision_is_found_in_every_kind_of_checkout() {
        let packed = format!(
            "# pack-refs with: peeled fully-peeled sorted \n{REVISION} refs/heads/fix/x\n^{REVISION}\n"
        );
        let loose = format!("{REVISION}\n");
        let branch = "ref: refs/heads/fix/x\n";
        let layouts: [(&str, &[(&str, &str)]); 7] = [
            (
                "loose",
                &[(".git/HEAD", branch), (".git/refs/heads/fix/x", &loose)],
            ),
            (
                "packed",
                &[(".git/HEAD", branch), (".git/packed-refs", &packed)],
            ),
            ("detached", &[(".git/HEAD", &loose)]),
            (
                "worktree, loose",
                &[
                    (".git", "gitdir: main/.git/worktrees/x\n"),
                    ("main/.git/worktrees/x/HEAD", branch),
                    ("main/.git/worktrees/x/commondir", "../..\n"),
                    ("main/.git/refs/heads/fix/x", &loose),
                ],
            ),
            (
                "worktree, packed",
                &[
                    (".git", "gitdir: main/.git/worktrees/x\n"),
                    ("main/.git/worktrees/x/HEAD", branch),
                    ("main/.git/worktrees/x/commondir", "../..\n"),
                    ("main/.git/packed-refs", &packed),
                ],
            ),
            (
                "worktree, detached",
                &[
                    (".git", "gitdir: main/.git/worktrees/x\n"),
                    ("main/.git/worktrees/x/HEAD", &loose),
                ],
            ),
            (
                "submodule",
                &[
                    (".git", "gitdir: main/.git/modules/x\n"),
                    ("main/.git/modules/x/HEAD", &loose),
                ],
            ),
        ];
        for (layout, files) in layouts {
            let root = tempfile::tempdir().unwrap();
            write(root.path(), files);
            let below = root.path().join("src/deep");
            fs::create_dir_all(&below).unwrap();
            for directory in [root.path(), &below] {
                assert_eq!(
                    git_revision(directory).as_deref(),
                    Some(REVISION),
                    "{layout}"
                );
            }
        }
    }

    #[test]
    fn a_branch_without_a_commit_has_no_revision() {
        for files in [
            &[(".git/HEAD", "ref: refs/heads/main\n")][..],
            &[(".git/HEAD", "junk\n")],
            &[(".git", "gitdir: nowhere\n")],
            &[(".git", "junk\n")],
        ] {
            let root = tempfile::tempdir().unwrap();
            write(root.path(), files);
            assert_eq!(git_revision(root.path()), None, "{files:?}");
        }
    }
}
