//! `crawlmark capacity`: the highest rate that meets the objectives, by open-loop probes.
//!
//! It runs probes and lets the target rest between them;
//! `crawlmark_results::studies::capacity` chooses the next rate and judges the probes.

mod probing;

use std::mem;
use std::path::PathBuf;
use std::time::Duration;

use crawlmark_harness::clock::{Clock, wall_time};
use crawlmark_results::run::report::{Environment, rfc3339};
use crawlmark_results::show::text::rate_in_words;
use crawlmark_results::studies::Header;
use crawlmark_results::studies::capacity::search::{Pace, ProbeKind, SearchStep};
use crawlmark_results::studies::capacity::{
    Capacity, ProbePlan, ProbeReport, SearchOutcome, next_step, probe_line, read_together,
};

use self::probing::Probing;
use crate::cli::{CapacityArgs, Cli, Command};
use crate::error::Error;
use crate::study::{self, ROUNDS, Rounds, Setup, Study, usage};

/// A rest that is worth a word.
const LONG_REST: Duration = Duration::from_secs(5);

/// Factor by which the rest of a target is longer after a probe that it failed.
const AFTER_FAILURE: u32 = 3;

/// Search, and return the exit code.
pub(crate) fn capacity(args: &CapacityArgs) -> Result<u8, Error> {
    let search = CapacityStudy::new(args, None, ROUNDS)?;
    study::conduct(search, &args.keep, "capacity")
}

/// Parse these words after `capacity`, and check them for a target that `starts` is the command of.
///
/// # Errors
/// When they are no arguments of `capacity`, or do not fit together.
pub(crate) fn capacity_args(
    words: Vec<String>,
    starts: Option<&str>,
) -> Result<CapacityArgs, Error> {
    let own = ["crawlmark", "capacity"].map(str::to_owned);
    match Cli::of(own.into_iter().chain(words)).map(|cli| cli.command) {
        Ok(Command::Capacity(mut args)) => {
            args.is_part = true;
            Probing::new(&args, starts)?;
            Ok(*args)
        }
        Ok(_) => usage("not flags of `crawlmark capacity`"),
        Err(error) => {
            let text = error.to_string();
            // The parser begins with `error: `.
            usage(
                text.split_once(' ')
                    .map_or(&*text, |(_, why)| why)
                    .trim_end(),
            )
        }
    }
}

/// Search the capacity of a target that the command `starts`, if it has one, with probes in
/// `folder`; none without a probe.
///
/// # Errors
/// When a probe fails or a signal asks for a stop.
pub(crate) fn search(
    rounds: &mut Rounds<'_>,
    args: &CapacityArgs,
    starts: Option<&str>,
    folder: &str,
) -> Result<Option<Capacity>, Error> {
    let mut search = CapacityStudy::new(args, starts, folder)?;
    search.run(rounds)?;
    let now = rfc3339(wall_time());
    search.result(Header::new::<Capacity>("capacity", [&now, &now]))
}

/// A time as the announcement says it.
fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}

/// The probes.
struct CapacityStudy<'a> {
    args: &'a CapacityArgs,
    probing: Probing,
    /// Command that is the target of each probe.
    starts: Option<&'a str>,
    /// Directory of the probes in that of the study.
    folder: &'a str,
    clock: Clock,
    /// Rounds that were begun, which number their directories.
    begun: usize,
    probes: Vec<ProbeReport>,
    outcome: Option<SearchOutcome>,
}

impl Study for CapacityStudy<'_> {
    type Result = Capacity;

    const NEEDS: &'static str = "a probe was complete";

    fn announcement(&self) -> String {
        let question = &self.probing.question;
        let bounds = question.bounds;
        let takes = self.probing.takes(bounds.greatest, ProbeKind::Full);
        let [least, greatest] =
            [bounds.least, bounds.greatest].map(|pace| rate_in_words(&pace.to_string()));
        format!(
            "searching {least} to {greatest} for the highest rate that {} sustains with {}{}, in probes of {} or more, \
             of which none starts after {}",
            question.target(),
            question.objectives_in_words(),
            if question.by_default {
                " (defaults; see --threshold)"
            } else {
                ""
            },
            seconds(takes),
            seconds(self.args.budget)
        )
    }

    fn run(&mut self, rounds: &mut Rounds<'_>) -> Result<(), Error> {
        self.outcome = loop {
            let (pace, kind) = match next_step(&self.probing.question, &self.probes) {
                SearchStep::Done(outcome) => break Some(outcome),
                SearchStep::Probe(pace, kind) => (pace, kind),
            };
            let rest = self.wanted_rest();
            if self.elapsed().saturating_add(rest) > self.args.budget {
                break None;
            }
            self.wait(rounds, rest)?;
            let probe = match self.probe(rounds, pace, kind) {
                // A target that was just overloaded may not accept a connection yet.
                Err(Error::Round(why)) if !self.probes.is_empty() => {
                    let text = format!("did not end, and is repeated: {why}");
                    rounds.stages.end(&self.name(), &text);
                    self.wait(rounds, rest.max(Duration::from_secs(1)) * AFTER_FAILURE)?;
                    self.probe(rounds, pace, kind)?
                }
                probe => probe?,
            };
            self.show(rounds, probe);
        };
        Ok(())
    }

    fn result(&mut self, header: Header) -> Result<Option<Capacity>, Error> {
        let probes = mem::take(&mut self.probes);
        let question = self.probing.question.clone();
        let machine = Environment::read(self.probing.placement);
        Ok((!probes.is_empty())
            .then(|| Capacity::new(header, question, machine, probes, self.outcome)))
    }
}

impl<'a> CapacityStudy<'a> {
    fn new(
        args: &'a CapacityArgs,
        starts: Option<&'a str>,
        folder: &'a str,
    ) -> Result<Self, Error> {
        Ok(Self {
            args,
            probing: Probing::new(args, starts)?,
            starts,
            folder,
            clock: Clock::start(),
            begun: 0,
            probes: Vec::new(),
            outcome: None,
        })
    }

    /// Name of the next probe.
    fn name(&self) -> String {
        format!("probe {}", self.probes.len() + 1)
    }

    /// Add a probe, and show its result and that of every earlier one which it changes.
    fn show(&mut self, rounds: &mut Rounds<'_>, probe: ProbeReport) {
        let question = &self.probing.question;
        let before = read_together(question, self.probes.clone());
        self.probes.push(probe);
        let after = read_together(question, self.probes.clone());
        for (place, probe) in after.into_iter().enumerate() {
            let seen = before.get(place).map(|probe| probe.seen);
            if seen != Some(probe.seen) {
                let after_all = seen.map_or("", |_| ", corrected");
                let name = format!("probe {}{after_all}", probe.plan.number);
                rounds.stages.end(&name, &probe_line(&probe));
            }
        }
    }

    fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.clock.now().0)
    }

    /// Return the rest that the target needs after the last probe. A target that is started for
    /// each probe needs none.
    fn wanted_rest(&self) -> Duration {
        let Some(last) = self
            .probes
            .last()
            .filter(|_| !self.probing.starts_its_target)
        else {
            return Duration::ZERO;
        };
        let rest = if last.seen.fails() {
            self.args.rest.saturating_mul(AFTER_FAILURE)
        } else {
            self.args.rest
        };
        let asked = Duration::try_from_secs_f64(last.longest_promise_s).unwrap_or(Duration::MAX);
        let finished = humantime::parse_rfc3339(&last.run.finished_at).ok();
        let since = finished.and_then(|then| wall_time().duration_since(then).ok());
        rest.max(asked.saturating_sub(since.unwrap_or_default()))
    }

    /// Wait, unless a signal asks for a stop.
    fn wait(&self, rounds: &mut Rounds<'_>, rest: Duration) -> Result<(), Error> {
        if rest >= LONG_REST {
            let text = format!("no requests for {}", seconds(rest));
            rounds.stages.end("rest", &text);
        }
        // Other signals end a wait early: it goes on until the time is over.
        let until = self.elapsed().saturating_add(rest);
        loop {
            let left = until.saturating_sub(self.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            if let Some(signal) = rounds.asks_to_stop(left)? {
                return Err(Error::Stopped(signal));
            }
        }
    }

    fn probe(
        &mut self,
        rounds: &mut Rounds<'_>,
        pace: Pace,
        kind: ProbeKind,
    ) -> Result<ProbeReport, Error> {
        self.begun += 1;
        let number = self.probes.len() + 1;
        let takes = self.probing.takes(pace, kind);
        rounds.begin(&self.name(), &rate_in_words(&pace.to_string()), takes);
        let rate = pace.to_string().replace('/', "-per-");
        let folder = PathBuf::from(self.folder).join(format!("{:03}-{rate}", self.begun));
        let words = self.probing.words(number, pace, kind);
        let setup = Setup {
            target: self.starts.map(str::to_owned),
            ..Setup::of_this_program(pace.to_string(), words)?
        };
        let report = rounds.run(&setup, &folder)?.report;
        let plan = ProbePlan::new(number, pace, kind, self.probing.has_connections(pace));
        let result = folder.display().to_string();
        Ok(ProbeReport::new(
            plan,
            &report,
            result,
            &self.probing.question,
        ))
    }
}
