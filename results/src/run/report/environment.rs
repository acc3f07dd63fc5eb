//! The machine a run was measured on. A reading that the machine does not give is absent, never 0.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::resource::{Resource, getrlimit};
use serde::{Deserialize, Serialize};

use crawlmark_harness::process::{online_cpus, usable_cpus};

/// Place of the target: on the client's machine, or on another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// They do, so they compete for its CPUs.
    Colocated,
    /// They do not, as far as the target's address tells.
    Apart,
}

/// The machine and its limits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// As the kernel names it.
    pub cpu_model: Option<String>,
    /// CPUs that the run could use.
    pub cores: usize,
    /// Numbers of these CPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<usize>,
    /// CPUs of the machine, if they are more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_cpus: Option<usize>,
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
    pub fn read(placement: Placement) -> Self {
        let cpus = usable_cpus();
        Self {
            cpu_model: proc_field("/proc/cpuinfo", "model name"),
            cores: cpus.len(),
            machine_cpus: online_cpus().filter(|online| *online > cpus.len()),
            cpus,
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
            git_revision: git_revision(),
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

/// The commit of the working directory, as git has it.
fn git_revision() -> Option<String> {
    // Of two pipes, std waits by a call whose failure is a panic.
    let output = Command::new("git")
        .args(["rev-parse", "HEAD"])
        .stderr(Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
