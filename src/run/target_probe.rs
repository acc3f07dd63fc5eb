//! The probe of a run's target, as the run sees it: a process of its own that is started before the
//! shards and ended after them. Its loss harms nothing.
//!
//! The clocks are compared before the start and after the end, where this process can wait for an
//! answer: during the run it looks at the pipe ten times a second only, so an answer may lie there
//! for a tenth of a second. Between the two, the difference of the clocks is taken as linear.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crawlmark_harness::clock::{Clock, Nanos};
use crawlmark_harness::process::{Child, Role, fork};
use crawlmark_harness::supervisor::HeldSignals;
use crawlmark_harness::target_usage::{
    ASK_FOR_PROFILE, Line, Lines, Pong, Port, TargetNow, TargetRecord, boot_id,
};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::unistd::pipe2;

use super::resolve::is_own;
use crate::cli::RunArgs;
use crate::crawl::CrawlSpec;
use crate::error::Error;

/// Time limit for a probe to find its target: `ssh` has to log in first.
const FIND: Duration = Duration::from_secs(10);

/// Interval between looks for a signal in that time.
const SLICE: Duration = Duration::from_millis(100);

/// Time limit of a comparison of the clocks.
const EXCHANGE: Duration = Duration::from_secs(2);

/// Questions of a comparison: the one that was answered first counts.
const QUESTIONS: u64 = 5;

/// Time limit for the names of the target's functions, which are in files of up to gigabytes.
const NAMING: Duration = Duration::from_secs(20);

/// Time limit for a probe to end once its standard input has ended.
const GRACE: Duration = Duration::from_secs(1);

/// Samples that are kept: an hour of them, 10 MB. Beyond it, every second one is dropped and as
/// many of those that come.
const KEPT: usize = 36_000;

/// Reads of 16 KiB at a time: a probe writes some 5 KiB a second.
const READS: usize = 16;

/// Bad lines that may come before the first good one, such as a greeting of the other machine.
const BAD_LINES: u64 = 1_000;

/// Names of processes that are kept.
const NAMES: usize = 16;

/// Longest reason that is kept of a probe that failed, characters.
const REASON: usize = 300;

/// Word that switches the probe off.
const NONE: &str = "none";

/// Choice of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ProbeChoice {
    /// None.
    Off,
    /// Of the ports of those hosts that are on this machine.
    Ports,
    /// With this flag and value, on this machine.
    Here(&'static str, String),
    /// By a command of the shell, without the variable of the token.
    Command(String, Option<String>),
}

impl ProbeChoice {
    /// Return the choice that was typed.
    pub(super) fn of(args: &RunArgs, unix_socket: Option<&Path>) -> Self {
        let probe = &args.probe;
        match (&probe.target_probe, probe.target_pid, &probe.target_cgroup) {
            (Some(command), ..) if command == NONE => Self::Off,
            (Some(command), ..) => Self::Command(command.clone(), args.request.bearer_env.clone()),
            (_, Some(pid), _) => Self::Here("pid", pid.to_string()),
            (.., Some(cgroup)) => Self::Here("cgroup", cgroup.display().to_string()),
            _ => unix_socket.map_or(Self::Ports, |path| {
                Self::Here("unix-socket", path.display().to_string())
            }),
        }
    }

    /// Return the name of the probe's source, and its command line; none without a probe.
    fn command(&self, spec: &CrawlSpec) -> Result<Option<(String, Command)>, Error> {
        let (source, words) = match self {
            Self::Off => return Ok(None),
            Self::Command(line, token) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", line]);
                if let Some(token) = token {
                    shell.env_remove(token);
                }
                return Ok(Some((first_word(line), shell)));
            }
            Self::Here(flag, value) => (
                format!("{flag} {value}"),
                vec![format!("--{flag}"), value.clone()],
            ),
            Self::Ports => {
                let mut ports: Vec<String> = own_ports(spec);
                if ports.is_empty() {
                    return Ok(None);
                }
                let source = format!("port {}", ports.join(", "));
                for port in &mut ports {
                    port.insert_str(0, "--port=");
                }
                (source, ports)
            }
        };
        let mut own = Command::new(std::env::current_exe().map_err(Error::Program)?);
        // Flags of the environment are this process's.
        own.env_clear().arg("probe").args(words);
        Ok(Some((source, own)))
    }
}

/// Return the ports of the hosts that are connected to on this machine, each once.
fn own_ports(spec: &CrawlSpec) -> Vec<String> {
    let own: BTreeSet<Port> = spec
        .direct()
        .into_iter()
        .flatten()
        .filter(|it| is_own(it))
        .map(|it| Port {
            address: Some(it.ip().to_canonical()),
            number: it.port(),
        })
        .collect();
    own.iter().map(Port::to_string).collect()
}

/// Return the program of a command, all that is told of it: the rest may hold a secret, and so may
/// variables that it sets.
fn first_word(line: &str) -> String {
    line.split_whitespace()
        .find(|word| !word.contains('='))
        .unwrap_or("command")
        .to_owned()
}

/// Comparison of the two clocks.
#[derive(Debug, Clone, Copy)]
struct Exchange {
    /// On the clock of the run.
    at: Nanos,
    /// Clock of the probe less that of the run, ns.
    ahead_ns: i128,
    round_trip: Duration,
}

/// A probe that runs.
#[derive(Debug)]
pub(super) struct TargetProbe {
    child: Child,
    clock: Clock,
    /// None once it has ended, or is to end.
    input: Option<File>,
    output: File,
    lines: Lines,
    pub(super) record: TargetRecord,
    /// Question that is not answered yet, and when it was sent.
    asked: (u64, Nanos),
    /// The best of the comparison that is under way.
    best: Option<Exchange>,
    /// Comparisons before the start and after the end.
    exchanges: Vec<Exchange>,
    /// Samples that came.
    came: u64,
    /// One in so many is kept.
    kept_each: u64,
    /// True if it is to sample functions.
    samples_functions: bool,
}

impl TargetProbe {
    /// Start the probe that was chosen, and wait until it has found its target, or failed to. None
    /// without one.
    ///
    /// # Errors
    /// When no process can be made.
    pub(super) fn start(
        choice: &ProbeChoice,
        samples_functions: bool,
        spec: &CrawlSpec,
        clock: Clock,
    ) -> Result<Option<Self>, Error> {
        let Some((source, mut command)) = choice.command(spec)? else {
            return Ok(None);
        };
        if samples_functions && !matches!(choice, ProbeChoice::Command(..)) {
            command.arg("--functions");
        }
        // A signal to all processes of the run at once is for the supervisor. A shell expects all
        // signals.
        let role = match choice {
            ProbeChoice::Command(..) => Role::Session,
            _ => Role::Part,
        };
        let mut probe = Self::spawn(source, role, command, clock)?;
        probe.samples_functions = samples_functions;
        let held = HeldSignals::hold().map_err(Error::Signal)?;
        let slices = FIND.as_millis() / SLICE.as_millis();
        let mut is_told = false;
        for _ in 0..slices {
            is_told = probe.wait_until(SLICE, |probe| {
                probe.record.found.is_some() || probe.lines.bad() > BAD_LINES
            });
            // The signal stays pending, for the run to find.
            if is_told || probe.input.is_none() {
                break;
            }
            if held.is_asked_to_stop().map_err(Error::Signal)? {
                let ended = &mut probe.record.ended;
                ended.get_or_insert_with(|| "the run was stopped before it answered".to_owned());
                break;
            }
        }
        if !is_told {
            probe.give_up(FIND);
        } else if probe.record.found.is_none() {
            let ended = &mut probe.record.ended;
            ended.get_or_insert_with(|| "its output is not a probe's".to_owned());
            probe.input = None;
        }
        probe.compare_clocks();
        Ok(Some(probe))
    }

    fn spawn(
        source: String,
        role: Role,
        mut command: Command,
        clock: Clock,
    ) -> Result<Self, Error> {
        let pipe = || pipe2(OFlag::O_CLOEXEC).map_err(|error| Error::Program(error.into()));
        let ((input_below, input), (output, output_below)) = (pipe()?, pipe()?);
        fcntl(&output, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))
            .map_err(|error| Error::Program(error.into()))?;
        command
            .stdin(input_below)
            .stdout(output_below)
            .stderr(Stdio::null());
        let child = fork("crawlmark-probe", role, || {
            // Only comes back when there is no such program.
            let _ = command.exec();
            127
        })?;
        // The other ends are closed with it.
        drop(command);
        Ok(Self {
            child,
            clock,
            input: Some(input.into()),
            output: output.into(),
            lines: Lines::default(),
            record: TargetRecord {
                source,
                ..TargetRecord::default()
            },
            asked: (0, Nanos::default()),
            best: None,
            exchanges: Vec::new(),
            came: 0,
            kept_each: 1,
            samples_functions: false,
        })
    }

    /// Return the CPUs that a target on this machine may run on; none if they are not known.
    pub(super) fn cpus(&self) -> Option<&[usize]> {
        let found = self.record.found.as_ref().filter(|_| self.record.is_here)?;
        Some(&*found.cpus).filter(|cpus| !cpus.is_empty())
    }

    /// Return what the target used in the last second; none once it has ended.
    pub(super) fn now(&self) -> Option<TargetNow> {
        self.input.as_ref()?;
        Some(TargetNow::of(&self.record.samples))
    }

    /// Take in what it wrote. Does not wait.
    pub(super) fn drain(&mut self) {
        let mut bytes = [0; 1 << 14];
        // A probe that writes without end must not hold up the run.
        for _ in 0..READS {
            if self.input.is_none() {
                return;
            }
            match self.output.read(&mut bytes) {
                Ok(length @ 1..) => {
                    for line in self.lines.take(&bytes[..length]) {
                        self.take(line);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => self.lose(),
            }
        }
    }

    fn take(&mut self, line: Line) {
        match line {
            Line::Found(mut found) => {
                found.names.truncate(NAMES);
                self.record.is_here = found.boot_id.is_some() && found.boot_id == boot_id();
                self.record.found = Some(found);
            }
            Line::Failed(why) => {
                self.record.ended = Some(why.chars().take(REASON).collect());
            }
            Line::Pong(pong) => self.answered(pong),
            Line::Profile(profile) => self.record.profile = Some(profile),
            Line::Sample(sample) => {
                let samples = &mut self.record.samples;
                self.came += 1;
                let is_later = samples.last().is_none_or(|last| last.at_ns < sample.at_ns);
                if is_later && self.came.is_multiple_of(self.kept_each) {
                    samples.push(sample);
                }
                if samples.len() == KEPT {
                    let mut nth = 0_usize;
                    samples.retain(|_| {
                        nth += 1;
                        nth % 2 == 1
                    });
                    self.kept_each *= 2;
                }
            }
        }
    }

    fn answered(&mut self, Pong { number, at_ns }: Pong) {
        let (asked, sent) = self.asked;
        if number != asked {
            return;
        }
        let round_trip = Duration::from_nanos(self.clock.now().since(sent));
        let middle = sent.plus(round_trip / 2);
        let exchange = Exchange {
            at: middle,
            ahead_ns: i128::from(at_ns) - i128::from(middle.0),
            round_trip,
        };
        if self.best.is_none_or(|best| round_trip < best.round_trip) {
            self.best = Some(exchange);
        }
    }

    /// Ask for its clock a few times, and keep the answer that took the least time.
    fn compare_clocks(&mut self) {
        let began = self.clock.now();
        for _ in 0..QUESTIONS {
            let left = EXCHANGE.saturating_sub(Duration::from_nanos(self.clock.now().since(began)));
            let number = self.asked.0 + 1;
            let Some(input) = self.input.as_mut().filter(|_| !left.is_zero()) else {
                break;
            };
            self.asked = (number, self.clock.now());
            if writeln!(input, "{number}").is_err() {
                self.lose();
            }
            let samples = self.came;
            // The sample of that moment, too.
            if !self.wait_until(left, |probe| probe.came > samples && probe.best.is_some()) {
                self.give_up(EXCHANGE);
            }
        }
        self.exchanges.extend(self.best.take());
    }

    /// Ask for the functions that it sampled; a probe of a command may sample none.
    fn ask_for_profile(&mut self) {
        let input = self.input.as_mut().filter(|_| self.samples_functions);
        let asked = input.map(|input| writeln!(input, "{ASK_FOR_PROFILE}"));
        let Some(Ok(())) = asked else { return };
        let samples = self.came;
        self.wait_until(NAMING, |probe| {
            probe.record.profile.is_some() || probe.came > samples + 1
        });
        if let (None, Some(found)) = (&self.record.profile, &mut self.record.found) {
            let reason = "the probe samples none: add --functions to its command";
            let unavailable = &mut found.unavailable;
            unavailable
                .entry("functions".to_owned())
                .or_insert_with(|| reason.to_owned());
        }
    }

    /// Wait for something of it, at most so long, or until it has ended; false if it did not come.
    fn wait_until(&mut self, most: Duration, is_there: impl Fn(&Self) -> bool) -> bool {
        let began = self.clock.now();
        loop {
            self.drain();
            let left = most.saturating_sub(Duration::from_nanos(self.clock.now().since(began)));
            if is_there(self) {
                return true;
            }
            if self.input.is_none() || left.is_zero() {
                return false;
            }
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            let mut files = [PollFd::new(self.output.as_fd(), PollFlags::POLLIN)];
            let _ = poll(&mut files, timeout);
        }
    }

    /// Note that it did not answer in time, unless it has ended for another reason.
    fn give_up(&mut self, waited: Duration) {
        let why = format!("no answer within {} s", waited.as_secs());
        self.record.ended.get_or_insert(why);
        self.input = None;
    }

    /// Note that it has closed its output.
    fn lose(&mut self) {
        self.input = None;
        let exit = self.child.end(GRACE);
        self.record.ended.get_or_insert_with(|| exit.to_string());
    }

    /// End it, and return what it wrote, on the clock of the run.
    pub(super) fn end(mut self) -> TargetRecord {
        self.drain();
        self.compare_clocks();
        self.ask_for_profile();
        let mut record = std::mem::take(&mut self.record);
        record.bad_lines = self.lines.bad();
        let (Some(first), Some(last)) = (self.exchanges.first(), self.exchanges.last()) else {
            record.samples.clear();
            record
                .ended
                .get_or_insert_with(|| "no answer about its clock".to_owned());
            return record;
        };
        for sample in &mut record.samples {
            sample.at_ns = on_clock_of_run(sample.at_ns, *first, *last);
        }
        record
    }
}

/// Return the time of the run's clock at which that of the probe read `at_ns`.
fn on_clock_of_run(at_ns: u64, first: Exchange, last: Exchange) -> u64 {
    let at = i128::from(at_ns) - first.ahead_ns;
    let between = i128::from(last.at.0) - i128::from(first.at.0);
    let drift = (last.ahead_ns - first.ahead_ns)
        .saturating_mul(at - i128::from(first.at.0))
        .checked_div(between);
    u64::try_from(at - drift.unwrap_or(0)).unwrap_or(0)
}

impl Drop for TargetProbe {
    fn drop(&mut self) {
        // With its input it ends by itself, however many shells or machines are in between.
        self.input = None;
        let clock = Clock::start();
        let mut has_ended = false;
        while !has_ended && clock.now() < Nanos::default().plus(GRACE) {
            let mut files = [PollFd::new(self.output.as_fd(), PollFlags::empty())];
            let _ = poll(&mut files, PollTimeout::from(2_u8));
            has_ended = self.child.has_ended();
        }
        // What it started and left behind, too.
        self.child.signal_group(Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_command_is_named_without_what_may_be_secret() {
        for (line, word) in [
            ("ssh -i key host crawlmark probe", "ssh"),
            ("TOKEN=abc  kubectl exec web", "kubectl"),
            ("TOKEN=abc", "command"),
            ("", "command"),
        ] {
            assert_eq!(first_word(line), word);
        }
    }

    proptest! {
        #[test]
        fn times_of_a_clock_that_drifts_are_mapped(
            ahead in 0_u64..1 << 60, drift in -1_000_000_i64..1_000_000, at in 0_u64..3_600,
        ) {
            let hour_ns = 3_600_000_000_000_i128;
            let of_probe = |ns: i128| ns + i128::from(ahead) + i128::from(drift) * ns / hour_ns;
            let exchange = |at_ns: i128| Exchange {
                at: Nanos(u64::try_from(at_ns).unwrap()),
                ahead_ns: of_probe(at_ns) - at_ns,
                round_trip: Duration::ZERO,
            };
            let at = i128::from(at) * 1_000_000_000;
            let read = u64::try_from(of_probe(at)).unwrap();
            let mapped = on_clock_of_run(read, exchange(0), exchange(hour_ns));
            prop_assert!((i128::from(mapped) - at).abs() < 1_000, "{mapped} {at}");
        }
    }
}
