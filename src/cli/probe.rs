//! Arguments of `probe`, and of the probe that a run starts.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args};
use crawlmark_harness::target_usage::{Port, Selection};

use super::parse_positive_time;

pub(super) const EXAMPLES: &str = "\
Examples:
  Watch the server on port 8080: a JSON line ten times a second, until Ctrl-D:
    crawlmark probe --port 8080
  One reading:
    echo | crawlmark probe --port 8080 | jq .sample.cpu_ns
  A container, by its process ID (`docker inspect -f '{{.State.Pid}}' web`):
    crawlmark probe --pid 4711
  A systemd service:
    crawlmark probe --cgroup /system.slice/nginx.service
  Probe a target on another machine, started and ended by a run:
    crawlmark run 'http://server:8080/items/{id}' \\
        --target-probe 'ssh server crawlmark probe --port 8080'
  The same in Kubernetes:
    --target-probe 'kubectl exec -i web-0 -- crawlmark probe --port 8080'";

/// Arguments of `probe`.
#[derive(Debug, Clone, Args)]
#[command(group = ArgGroup::new("target").required(true).args(["port", "unix_socket", "pid", "cgroup"]))]
pub struct ProbeArgs {
    /// Sample processes that listen on TCP port N or ADDR:N; repeatable
    #[arg(long = "port", value_name = "[ADDR:]N")]
    pub port: Vec<Port>,
    /// Sample processes that listen on the Unix socket PATH
    #[arg(long, value_name = "PATH", conflicts_with = "port")]
    pub unix_socket: Option<PathBuf>,
    /// Sample the process with the ID N, and its children
    #[arg(long, value_name = "N", conflicts_with_all = ["port", "unix_socket"], value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: Option<i32>,
    /// Sample processes in cgroup PATH and below it
    #[arg(long, value_name = "PATH", conflicts_with_all = ["port", "unix_socket", "pid"])]
    pub cgroup: Option<PathBuf>,
    /// Interval between samples
    ///
    /// If a target has so many threads that a sample costs more than 0.2 % of the interval, it is
    /// sampled less often.
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = parse_positive_time)]
    pub interval: Duration,
    /// Sample which functions use the CPU
    ///
    /// Each 3 ms of CPU time is a sample. The line `0` on standard input asks for the functions
    /// by their number of samples.
    #[arg(long)]
    pub functions: bool,
}

impl ProbeArgs {
    /// Return the choice of processes.
    pub fn selection(&self) -> Selection {
        match (self.pid, &self.cgroup, &self.unix_socket) {
            (Some(pid), ..) => Selection::Pid(pid),
            (_, Some(cgroup), _) => Selection::Cgroup(cgroup.clone()),
            (.., Some(path)) => Selection::UnixSocket(path.clone()),
            _ => Selection::Ports(self.port.clone()),
        }
    }
}

/// Choice of the target's probe, as typed.
#[derive(Debug, Clone, Default, Args)]
pub struct TargetProbeArgs {
    /// Command that starts a probe on the target's machine; none: no probe
    ///
    /// A probe samples the target's processes ten times a second: CPU time per request,
    /// waits for a CPU, throttling by a CPU quota, memory, descriptors, and the accept queue.
    /// A target on this machine is found by its port or Unix socket, without a flag. A target
    /// behind a proxy is not found, so name its process (--target-pid). If the target is on
    /// another machine, a command starts the probe there:
    ///
    ///   --target-probe 'ssh server crawlmark probe --port 8080'
    ///   --target-probe 'kubectl exec -i web-0 -- crawlmark probe --port 8080'
    ///   --target-probe none      no probe
    ///
    /// The run and the command exchange clock times over the command's standard input,
    /// which closes when the run ends. The command prints the samples to standard output. A
    /// result contains only the first word of the command. If the command fails, the run
    /// continues without it, and the result says why.
    #[arg(long, value_name = "CMD|none", conflicts_with_all = ["target_pid", "target_cgroup"], verbatim_doc_comment)]
    pub target_probe: Option<String>,
    /// Sample process N on this machine, and its children, as the target
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    pub target_pid: Option<i32>,
    /// Sample the processes in cgroup PATH on this machine as the target
    #[arg(long, value_name = "PATH", conflicts_with = "target_pid")]
    pub target_cgroup: Option<PathBuf>,
    /// Sample which functions of the target use the CPU
    ///
    /// Each 3 ms of CPU time is a sample, which costs about 1 % of a busy CPU. The names of
    /// functions are in the symbols of a program (do not strip it), in its separate debug file, or in
    /// /tmp/perf-PID.map, which Node writes with --perf-basic-prof and Python 3.12 with -X perf. A
    /// --target-probe command needs --functions.
    #[arg(long, hide_short_help = true)]
    pub target_functions: bool,
}
