//! Rounds: a target if the setup has one, and `crawlmark run` in a process of its own, with a
//! result of its own. Called by the studies.

use std::fs::{self, File};
use std::io::{Read, Seek, Write as _};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crawlmark_harness::clock::{Clock, Nanos};
use crawlmark_harness::files::Root;
use crawlmark_harness::machine::Proc;
use crawlmark_harness::process::{Role, ShardExit, ended_children_cpu, fork};
use crawlmark_harness::profile::{HardwareCounters, Profiler, READ_EVERY};
use crawlmark_harness::supervisor::{HeldSignals, HeldSuspension};
use crawlmark_harness::units::grouped;
use crawlmark_results::run::report::{Report, Verdict};
use crawlmark_results::run::result_dir::{self, RESULT, ReadError};
use crawlmark_results::show::text;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::Signal;

use super::service::Service;
use super::{PORT, minutes};
use crate::error::Error;
use crate::live_page::LivePage;
use crate::terminal::Stages;

/// Between two looks at the terminal.
const LOOK: Duration = Duration::from_millis(200);

/// Time limit for a run to end after a signal: for its requests in flight, and its report.
const GRACE: Duration = Duration::from_secs(30);

/// The longest wait of a target for which the next round or experiment is put off: those take
/// seconds, and one that asks for more wants no load now.
pub(crate) const LONGEST_REST: Duration = Duration::from_mins(5);

/// Send nothing for `wait`, which the target asked for; return the signal that asks for a stop
/// before that is over.
///
/// # Errors
/// When signals cannot be read.
pub(crate) fn rest(held: &HeldSignals, wait: Duration) -> Result<Option<i32>, Error> {
    let (clock, end) = (Clock::start(), Nanos::default().plus(wait));
    loop {
        let left = Duration::from_nanos(end.since(clock.now()));
        if left.is_zero() {
            return Ok(None);
        }
        // It returns early when a child ends.
        if let Some(signal) = held.asks_to_stop(left).map_err(Error::Signal)? {
            return Ok(Some(signal));
        }
    }
}

/// State that rounds share.
pub(crate) struct Rounds<'a> {
    held: &'a HeldSignals,
    clock: Clock,
    /// End of the waits that the target asked for in earlier rounds.
    resume: Nanos,
    /// Signal that arrived together with the end of a round that counts.
    stopped_by: Option<i32>,
    /// Display of the stages.
    pub(crate) stages: &'a mut Stages,
    ready: Duration,
    place: &'a Path,
    /// The page that shows each round; none without one.
    pub(crate) page: Option<LivePage>,
    /// Samples the functions of commands; none unless that is wanted.
    pub(crate) profiler: Option<Profiler>,
    /// Reason why it samples no more.
    pub(crate) not_profiled: Option<String>,
    /// Counts what commands do; none before the first.
    pub(super) counters: Option<HardwareCounters>,
}

/// Program, arguments and target of a round.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    /// Owner of the round, as an error names it: `the base`.
    pub(crate) label: String,
    /// The crawlmark that crawls.
    pub(crate) program: PathBuf,
    /// Arguments after `run`, except where to save. [`PORT`] stands for the port of `target`.
    pub(crate) words: Vec<String>,
    /// The command that is its target.
    pub(crate) target: Option<String>,
    /// Directory in which the target runs; that of this program without one.
    pub(crate) directory: Option<PathBuf>,
    /// Variables with tokens of any side, which the target does not get.
    pub(crate) tokens: Vec<String>,
}

impl Setup {
    /// A round of this program, with these flags of `run`.
    ///
    /// # Errors
    /// When the system does not say which program this is.
    pub(crate) fn of_this_program(label: String, words: Vec<String>) -> Result<Self, Error> {
        let program = std::env::current_exe().map_err(Error::Program)?;
        Ok(Self {
            label,
            program,
            words,
            target: None,
            directory: None,
            tokens: Vec::new(),
        })
    }
}

/// Results of a round.
pub(crate) struct RoundResults {
    pub(crate) report: Report,
    /// CPU time of the run and of the bundled target: a round is the only child that ends meanwhile.
    pub(crate) cpu: Option<Duration>,
    /// CPU time of the whole machine.
    pub(crate) machine_cpu: Option<Duration>,
}

impl RoundResults {
    /// Refuses a round that ended before its time because its items were done: its figures are of
    /// less than was asked for.
    ///
    /// # Errors
    /// When nothing was left to crawl.
    pub(crate) fn by_the_clock(self, label: &str) -> Result<Self, Error> {
        let ledger = &self.report.ledger;
        if ledger.has_more() || self.report.interrupted_by.is_some() {
            return Ok(self);
        }
        Err(Error::Round(format!(
            "fill a round of {label}: its {} items were done after {}. Add items (--ids) or shorten the round (-d)",
            grouped(ledger.planned),
            text::micros(self.report.totals.duration_s * 1e6)
        )))
    }
}

impl<'a> Rounds<'a> {
    /// Rounds in the directory `place`, whose targets have `ready` to accept connections; a signal
    /// ends them.
    pub(crate) fn new(
        held: &'a HeldSignals,
        stages: &'a mut Stages,
        ready: Duration,
        place: &'a Path,
    ) -> Self {
        Self {
            held,
            clock: Clock::start(),
            resume: Nanos::default(),
            stopped_by: None,
            stages,
            ready,
            place,
            page: None,
            profiler: None,
            not_profiled: None,
            counters: None,
        }
    }

    /// Directory of the study.
    pub(crate) const fn place(&self) -> &Path {
        self.place
    }

    /// Say on the page which round is next.
    pub(crate) fn step(&mut self, name: &str, does: &str) {
        if let Some(page) = &mut self.page {
            let does = Some(does).filter(|does| !does.is_empty());
            page.step(does.map_or_else(|| name.to_owned(), |does| format!("{name}: {does}")));
        }
    }

    /// Show what is being done, where that is drawn: elsewhere a line says what came of it.
    pub(crate) fn begin(&mut self, name: &str, does: &str, takes: Duration) {
        self.step(name, does);
        if self.stages.is_drawn() {
            self.stages.begin(name, does, takes);
        }
    }

    /// Return the signal that asks for a stop; wait for one for `most`.
    ///
    /// # Errors
    /// When signals cannot be read.
    pub(crate) fn asks_to_stop(&self, most: Duration) -> Result<Option<i32>, Error> {
        self.stopped_by.map_or_else(
            || self.held.asks_to_stop(most).map_err(Error::Signal),
            |signal| Ok(Some(signal)),
        )
    }

    /// Run a round, whose result goes to `folder` in the directory of the study.
    ///
    /// # Errors
    /// When it has no result, or one that is not whole; when a signal asks for a stop.
    pub(crate) fn run(&mut self, setup: &Setup, folder: &Path) -> Result<RoundResults, Error> {
        let place = &self.place.join(folder);
        // One that came between two rounds.
        if let Some(signal) = self.asks_to_stop(Duration::ZERO)? {
            return Err(Error::Stopped(signal));
        }
        self.rest(setup)?;
        if let Some(parent) = place.parent() {
            let made = Root::new(self.place).directory(parent);
            made.map_err(Error::unwritable(parent))?;
        }
        let target_log = place.with_extension("target.log");
        let service = Service::start(setup, &target_log, self.ready, self.held)?;
        let before = CpuTimes::read();
        let mut errors = memory()?;
        let exit = self.crawl(setup, service.as_ref(), place, &errors)?;
        let after = CpuTimes::read();
        let ended = service.as_ref().and_then(Service::ended);
        drop(service);
        let failed = |why: String| Error::Round(format!("run a round of {}: {why}", setup.label));
        if let Some(ended) = ended {
            return Err(failed(ended));
        }
        let report = match result_dir::read(place) {
            Ok(report) => report,
            Err(ReadError::Missing(_) | ReadError::NoResult(_)) => {
                let errors = read_back(&mut errors);
                let log = place.with_extension("log");
                let _ = Root::new(self.place).replace(log, |file| file.write_all(errors.as_ref()));
                let why = telling_line(&errors).unwrap_or(
                    "it saved no result and printed nothing: check that the program is a build of crawlmark",
                );
                return Err(failed(format!("{exit}: {why}")));
            }
            Err(error) => return Err(failed(error.to_string())),
        };
        // It was sent to all processes at once, or to that one: what it cut is no round.
        if let Some(signal) = report.interrupted_by {
            return Err(Error::Stopped(signal));
        }
        if report.validity.verdict == Verdict::Incomplete {
            // A remedy ends with a full stop, and more follows.
            return Err(failed(
                report.reasons().join("; ").trim_end_matches('.').to_owned(),
            ));
        }
        // A target of the round alone is gone, and what it asked for with it.
        let is_own = report.plan.run.workload.bundled.is_some();
        if setup.target.is_none() && !is_own {
            let until = self.clock.now().plus(report.throttling.wait_left());
            self.resume = self.resume.max(until);
        }
        keep_result(place);
        let _ = fs::remove_file(target_log);
        let used =
            |of: fn(&CpuTimes) -> Option<Duration>| Some(of(&after)?.saturating_sub(of(&before)?));
        Ok(RoundResults {
            report,
            cpu: used(|of| of.children),
            machine_cpu: used(|of| of.machine),
        })
    }

    /// Wait until what the target asked for in an earlier round is over.
    fn rest(&mut self, setup: &Setup) -> Result<(), Error> {
        let wait = Duration::from_nanos(self.resume.since(self.clock.now()));
        if wait.is_zero() {
            return Ok(());
        }
        if wait > LONGEST_REST {
            return Err(Error::Round(format!(
                "run a round of {}: the target asks to wait for {}, and a round is put off by {} at most. Run it again later",
                setup.label,
                minutes(wait),
                minutes(LONGEST_REST)
            )));
        }
        self.begin("waiting", "as the target asked", wait);
        match rest(self.held, wait)? {
            Some(signal) => Err(Error::Stopped(signal)),
            None => Ok(()),
        }
    }

    /// Crawls in another process, and says how that ended. It is ended when there is nothing left
    /// to crawl.
    fn crawl(
        &mut self,
        setup: &Setup,
        service: Option<&Service>,
        place: &Path,
        errors: &File,
    ) -> Result<ShardExit, Error> {
        let port = service.map_or_else(|| PORT.to_owned(), |service| service.port().to_string());
        let words: Vec<String> = setup
            .words
            .iter()
            .map(|word| word.replace(PORT, &port))
            .map(|word| text::shell_word(&word))
            .collect();
        let mut run = Command::new(&setup.program);
        // By memory: other users can read a command line.
        let mut flags = memory()?;
        flags
            .write_all(words.join(" ").as_bytes())
            .map_err(Error::Output)?;
        run.args(["run", "--config", "/dev/stdin", "--quiet"]);
        run.arg("--out").arg(place);
        let errors = errors.try_clone().map_err(Error::Output)?;
        run.stdin(flags).stdout(Stdio::null()).stderr(errors);
        let channel = self
            .page
            .as_ref()
            .map(|page| page.told_by_round(&mut run))
            .transpose()
            .map_err(Error::Output)?;
        // The round is no part of this process group, so that Ctrl-Z has to be passed on.
        let suspension = HeldSuspension::hold().map_err(Error::Signal)?;
        let child = fork("crawlmark-round", Role::Program, move || {
            let _ = run.exec();
            127
        })?;
        drop(channel);
        let has_ended = || child.has_ended() || service.is_some_and(Service::has_ended);
        let pass_on = |signal| child.signal(signal);
        let (stopped, _) = self.watch(&suspension, Signal::SIGTSTP, &pass_on, &has_ended)?;
        let Some(signal) = stopped else {
            return Ok(if child.has_ended() {
                child.wait()
            } else {
                child.end(GRACE)
            });
        };
        let exit = child.end(GRACE);
        match result_dir::read(place) {
            // It was over when the signal came: it counts, and no other begins.
            Ok(report) if report.interrupted_by.is_none() => {
                self.stopped_by = Some(signal);
                return Ok(exit);
            }
            // Stopped before its first request: there is nothing in it.
            Ok(report) if report.totals.attempts == 0 => drop(fs::remove_dir_all(place)),
            _ => {}
        }
        Err(Error::Stopped(signal))
    }

    /// Wait until a process has ended, or a signal asks for a stop, which is returned. Ctrl-Z is
    /// passed on as `stop`; the time for which the process was suspended is returned as well.
    pub(super) fn watch(
        &mut self,
        suspension: &HeldSuspension,
        stop: Signal,
        pass_on: &dyn Fn(Signal),
        has_ended: &dyn Fn() -> bool,
    ) -> Result<(Option<i32>, Duration), Error> {
        let (clock, mut suspended) = (Clock::start(), Duration::ZERO);
        while !has_ended() {
            if suspension.came().map_err(Error::Signal)? {
                let at = clock.now();
                pass_on(stop);
                suspension.suspend();
                pass_on(Signal::SIGCONT);
                suspended += Duration::from_nanos(clock.now().0 - at.0);
            }
            let look = self.profiler.as_ref().map_or(LOOK, |_| READ_EVERY);
            if let Some(signal) = self.asks_to_stop(look)? {
                return Ok((Some(signal), suspended));
            }
            if let Some(profiler) = &mut self.profiler {
                profiler.read();
            }
            self.stages.show();
        }
        Ok((None, suspended))
    }
}

/// CPU times so far; none that the machine does not tell.
struct CpuTimes {
    children: Option<Duration>,
    machine: Option<Duration>,
}

impl CpuTimes {
    fn read() -> Self {
        Self {
            children: ended_children_cpu(),
            machine: Proc::default().busy(),
        }
    }
}

/// A file in memory for what a process prints: where a disk is full, a file on it would not hold why
/// nothing could be saved.
pub(super) fn memory() -> Result<File, Error> {
    let file = memfd_create(c"crawlmark-output", MFdFlags::MFD_CLOEXEC);
    Ok(File::from(
        file.map_err(|error| Error::Output(error.into()))?,
    ))
}

/// Bytes of an output that are read: a process that is started later begins as a copy of this one,
/// and would be measured with all of it.
const MOST_READ: u64 = 16 << 20;

/// Output of a round that is over.
pub(super) fn read_back(output: &mut File) -> String {
    let mut read = Vec::new();
    let start = output.rewind();
    let _ = start.and_then(|()| output.take(MOST_READ).read_to_end(&mut read));
    String::from_utf8_lossy(&read).into_owned()
}

/// Return the line of a program's output that tells best why it ended: the first that begins with
/// `error`, without that word, or else the last.
pub(super) fn telling_line(output: &str) -> Option<&str> {
    let lines: Vec<&str> = output
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    lines
        .iter()
        .find_map(|line| error(line))
        .or_else(|| lines.last().copied())
}

/// What follows the word `error` at the beginning of a line.
fn error(line: &str) -> Option<&str> {
    let (word, rest) = line.split_at_checked("error".len())?;
    let is_error = word.eq_ignore_ascii_case("error") && !rest.starts_with(char::is_alphanumeric);
    is_error.then(|| rest.trim_start_matches([':', ' ']))
}

/// Leaves `result.json` of a round and nothing else: of eighty rounds, pictures and logs would be
/// all there is.
fn keep_result(place: &Path) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        if entry.file_name() == RESULT {
            continue;
        }
        // What cannot be removed does no harm.
        let path = entry.path();
        let _ = if path.is_dir() {
            fs::remove_dir_all(&path)
        } else {
            fs::remove_file(&path)
        };
    }
}
