//! CPUs of the target and of the clients: apart, or the ratios measure which of them takes CPU from the other.

use std::env;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use crawlmark_harness::process::usable_cpus;
use serde::Serialize;

/// CPUs of the target and the clients.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Places {
    /// `taskset`, when it can be used; clients and target share the CPUs otherwise.
    #[serde(skip)]
    taskset: Option<PathBuf>,
    /// The target's CPU; none when it is not pinned.
    pub(crate) target_cpu: Option<usize>,
    /// Every client's CPU; none when they are not pinned.
    pub(crate) client_cpu: Option<usize>,
}

impl Places {
    /// One CPU for the target and one for the clients, when there are two and `taskset` is installed.
    pub(crate) fn find() -> Self {
        let cpus = usable_cpus();
        // The first and the last: neighbours in number are often two threads of one core.
        match (in_path("taskset"), cpus.as_slice()) {
            (Some(taskset), [first, .., last]) => {
                Self { taskset: Some(taskset), target_cpu: Some(*first), client_cpu: Some(*last) }
            }
            _ => Self { taskset: None, target_cpu: None, client_cpu: None },
        }
    }

    /// A command for `program` on `cpu`.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>, cpu: Option<usize>) -> Command {
        match (&self.taskset, cpu) {
            (Some(taskset), Some(cpu)) => {
                // taskset becomes the program: same process, nothing added to its CPU time but an exec.
                let mut command = Command::new(taskset);
                command.arg("-c").arg(cpu.to_string()).arg(program);
                command
            }
            _ => Command::new(program),
        }
    }
}

/// The executable file `name` in PATH.
pub(crate) fn in_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0))
}
