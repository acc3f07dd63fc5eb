//! Rounds of commands: executions of two sides in turn, each in a session of its own, and what they
//! used of the machine.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use crawlmark_harness::clock::Clock;
use crawlmark_harness::process::{ProcessUse, ShardExit};
use crawlmark_harness::profile::{HardwareCounters, Profile};
use crawlmark_harness::supervisor::HeldSuspension;
use crawlmark_results::studies::compare::Execution;
use nix::sys::signal::Signal;

use super::rounds::{Rounds, memory, read_back, telling_line};
use super::session::{LOOK, Session};
use crate::cli::PrintedValue;
use crate::error::Error;

/// A command that is compared, and what goes with each of its executions.
#[derive(Debug, Clone)]
pub(crate) struct CommandSetup {
    /// Owner of the command, as an error names it: `the base`.
    pub(crate) label: String,
    /// Program and arguments.
    pub(crate) words: Vec<String>,
    /// Program and arguments of what runs before each execution, outside its time.
    pub(crate) prepare: Option<Vec<String>>,
    /// The same, after it.
    pub(crate) cleanup: Option<Vec<String>>,
    /// True if an exit code other than 0 is no failure.
    pub(crate) ignores_failure: bool,
    /// Numbers that it prints.
    pub(crate) values: Vec<PrintedValue>,
    /// Directory in which it runs; that of this program without one.
    pub(crate) directory: Option<PathBuf>,
}

/// A round of a command.
#[derive(Debug, Default)]
pub(crate) struct CommandRound {
    pub(crate) executions: Vec<Execution>,
    /// The longest time for which an execution was suspended.
    pub(crate) suspended: Duration,
    /// Functions that used the CPU; none unless they are sampled.
    pub(crate) profile: Option<Profile>,
}

/// A process that has ended.
struct Ended {
    exit: ShardExit,
    used: ProcessUse,
    wall: Duration,
    suspended: Duration,
    output: File,
    errors: File,
}

/// Return what a shell command prints, errors included; none if it fails, or takes longer than this.
///
/// # Errors
/// When it cannot be started.
pub(crate) fn printed_within(limit: Duration, line: &str) -> Result<Option<String>, Error> {
    let mut output = memory()?;
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).stdin(Stdio::null());
    shell.stdout(output.try_clone().map_err(Error::Output)?);
    shell.stderr(output.try_clone().map_err(Error::Output)?);
    let session = Session::start("crawlmark-command", shell)?;
    let clock = Clock::start();
    while !session.has_ended() && Duration::from_nanos(clock.now().0) < limit {
        std::thread::sleep(LOOK);
    }
    let has_ended = session.has_ended();
    let (exit, _) = session.end();
    Ok((has_ended && exit == ShardExit::Clean).then(|| read_back(&mut output)))
}

/// Why a round of several commands could not be run.
pub(crate) struct RoundError {
    /// Number of the command that was run.
    pub(crate) number: usize,
    /// What happened.
    pub(crate) error: Error,
}

impl From<RoundError> for Error {
    fn from(failed: RoundError) -> Self {
        failed.error
    }
}

impl Rounds<'_> {
    /// Run a round of each of several commands, in turns: in each of `orders` are the numbers of the
    /// commands, in the order in which they are executed.
    ///
    /// # Errors
    /// When one fails, or prints none of the numbers wanted; when a signal asks for a stop.
    pub(crate) fn execute(
        &mut self,
        setups: &[&CommandSetup],
        orders: impl Iterator<Item = Vec<usize>>,
    ) -> Result<Vec<CommandRound>, RoundError> {
        let mut ran: Vec<CommandRound> = setups.iter().map(|_| CommandRound::default()).collect();
        for number in orders.flatten() {
            self.execute_once(number, setups[number], &mut ran[number])
                .map_err(|error| RoundError { number, error })?;
        }
        if let Some(profiler) = &mut self.profiler {
            for (number, round) in ran.iter_mut().enumerate() {
                round.profile = Some(profiler.take_profile(number)).filter(|it| it.samples > 0);
            }
        }
        Ok(ran)
    }

    /// Execute the command of this number, and add that to its round.
    fn execute_once(
        &mut self,
        number: usize,
        setup: &CommandSetup,
        round: &mut CommandRound,
    ) -> Result<(), Error> {
        self.beside(setup, "--prepare", setup.prepare.as_deref())?;
        self.count_for(Some(number));
        let before = self.hardware_counts();
        let ended = self.wait_for(&setup.words, setup)?;
        let after = self.hardware_counts();
        self.count_for(None);
        round.suspended = round.suspended.max(ended.suspended);
        let mut execution = setup.execution(ended)?;
        let counts = after.iter().filter_map(|(name, count)| {
            Some(((*name).to_owned(), count.checked_sub(*before.get(name)?)?))
        });
        execution.counted.extend(counts);
        round.executions.push(execution);
        self.beside(setup, "--cleanup", setup.cleanup.as_deref())
    }

    fn hardware_counts(&mut self) -> BTreeMap<&'static str, u64> {
        let counters = &mut self.counters;
        counters
            .get_or_insert_with(HardwareCounters::of_children)
            .read()
    }

    /// Count the functions of what runs next for a command, or for none.
    fn count_for(&mut self, command: Option<usize>) {
        let counted = self.profiler.as_mut().map(|it| it.count_for(command));
        if let Some(Err(why)) = counted {
            self.profiler = None;
            self.not_profiled = Some(why.to_string());
        }
    }

    /// Run a command once. Return why it failed, if it did.
    ///
    /// # Errors
    /// When it cannot be run; when a signal asks for a stop.
    pub(crate) fn try_once(&mut self, setup: &CommandSetup) -> Result<Option<String>, Error> {
        let mut ended = self.wait_for(&setup.words, setup)?;
        Ok(match ended.exit {
            ShardExit::Clean => None,
            _ => Some(ended.why()),
        })
    }

    /// Run what goes before or after an execution; it has to succeed.
    fn beside(
        &mut self,
        setup: &CommandSetup,
        flag: &str,
        words: Option<&[String]>,
    ) -> Result<(), Error> {
        let Some(words) = words else {
            return Ok(());
        };
        let mut ended = self.wait_for(words, setup)?;
        match ended.exit {
            ShardExit::Clean => Ok(()),
            _ => Err(ended.failed(&format!("{flag} of {}", setup.label))),
        }
    }

    /// Run a program to its end.
    fn wait_for(&mut self, words: &[String], setup: &CommandSetup) -> Result<Ended, Error> {
        if let Some(signal) = self.asks_to_stop(Duration::ZERO)? {
            return Err(Error::Stopped(signal));
        }
        let [output, errors] = [memory()?, memory()?];
        let Some((program, arguments)) = words.split_first() else {
            return Err(Error::Usage(format!("{}: no command", setup.label)));
        };
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null());
        if let Some(directory) = &setup.directory {
            command.current_dir(directory);
        }
        // What nobody reads costs neither side anything.
        if setup.values.is_empty() {
            command.stdout(Stdio::null());
        } else {
            command.stdout(output.try_clone().map_err(Error::Output)?);
        }
        command.stderr(errors.try_clone().map_err(Error::Output)?);
        let suspension = HeldSuspension::hold().map_err(Error::Signal)?;
        let clock = Clock::start();
        let session = Session::start("crawlmark-command", command)?;
        let pass_on = |signal| _ = session.signal(signal);
        let has_ended = || session.has_ended();
        let (stopped, suspended) =
            self.watch(&suspension, Signal::SIGSTOP, &pass_on, &has_ended)?;
        if let Some(signal) = stopped {
            return Err(Error::Stopped(signal));
        }
        let wall = Duration::from_nanos(clock.now().0);
        let (exit, used) = session.end();
        Ok(Ended {
            exit,
            used,
            wall,
            suspended,
            output,
            errors,
        })
    }
}

impl CommandSetup {
    /// Check an execution, and read the numbers that it printed.
    fn execution(&self, mut ended: Ended) -> Result<Execution, Error> {
        let exit_code = match ended.exit {
            ShardExit::Clean => Some(0),
            ShardExit::Code(code) => Some(code),
            ShardExit::Signal(_) | ShardExit::Unknown => None,
        };
        // 127 of a shell, and of a program that could not be executed.
        let is_found = exit_code != Some(127);
        if exit_code != Some(0) && !(self.ignores_failure && is_found) {
            return Err(ended.failed(&self.label));
        }
        let mut values = BTreeMap::new();
        if !self.values.is_empty() {
            let output = read_back(&mut ended.output);
            let errors = read_back(&mut ended.errors);
            for value in &self.values {
                let read = value.read(&output, &errors);
                let number = read.map_err(|why| {
                    Error::Round(format!("read the output of {}: {why}", self.label))
                })?;
                values.insert(value.name.clone(), number);
            }
        }
        Ok(Execution {
            wall_us: ended.wall.as_secs_f64() * 1e6,
            cpu_us: ended.used.cpu.as_secs_f64() * 1e6,
            peak_memory: ended.used.peak_memory,
            exit_code,
            values,
            counted: [
                ("context_switches", ended.used.context_switches),
                ("page_faults", ended.used.page_faults),
            ]
            .map(|(name, count)| (name.to_owned(), count))
            .into(),
        })
    }
}

impl Ended {
    fn failed(&mut self, what: &str) -> Error {
        Error::Round(format!("run {what}: {}", self.why()))
    }

    /// How it failed, and the line of its output that tells most.
    fn why(&mut self) -> String {
        let printed = [read_back(&mut self.errors), read_back(&mut self.output)];
        match printed.iter().find_map(|text| telling_line(text)) {
            Some(line) => format!("it {}; it printed: {line}", self.exit),
            None => format!("it {}", self.exit),
        }
    }
}
