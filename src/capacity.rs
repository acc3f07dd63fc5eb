//! `crawlmark capacity`: the highest rate that meets the objectives, by open-loop probes.
//!
//! It runs probes, lets the target rest between them and saves each as it ends;
//! `crawlmark_results::studies::capacity` chooses the next rate and judges the probes.

mod journal;
mod probing;

use std::ffi::OsString;
use std::mem;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crawlmark_harness::clock::{Clock, wall_time};
use crawlmark_harness::process::signal_in_words;
use crawlmark_results::run::report::Environment;
use crawlmark_results::run::result_dir;
use crawlmark_results::show::text::{rate_in_words, shell_word};
use crawlmark_results::studies::Header;
use crawlmark_results::studies::capacity::search::{Bounds, ProbeKind, ProbeResult, SearchStep};
use crawlmark_results::studies::capacity::{
    self, Capacity, Pace, ProbePlan, ProbeReport, SENT, SearchHead, in_hindsight, next_step,
    offered, probe_correction, probe_line, sees_growth,
};

use self::journal::Journal;
use self::probing::Probing;
use crate::cli::CapacityArgs;
use crate::crawl::redact;
use crate::error::Error;
use crate::study::{self, Study};
use crate::study::{Rounds, Setup};
use crate::terminal::Stages;

/// The folder of the probes.
const ROUNDS: &str = "rounds";

/// A rest that is worth a word.
const LONG_REST: Duration = Duration::from_secs(5);

/// Factor by which the rest of a target is longer after a probe that it failed.
const AFTER_FAILURE: u32 = 3;

/// Search, and return the exit code.
pub(crate) fn capacity(args: &CapacityArgs) -> Result<u8, Error> {
    let probing = Probing::new(args)?;
    let begun = SearchHead::here(
        probing.question.clone(),
        Environment::read(probing.placement),
        probing.fingerprint()?,
    );
    let before = args
        .resume
        .as_deref()
        .map(|place| {
            journal::read(place, (&begun, &probing.unsaved()?), &|place, probe| {
                probing.check_saved(place, probe)
            })
        })
        .transpose()?;
    let left = before.as_ref().and_then(journal::SavedProbes::left);
    let clock = Clock::start();
    let bench = CapacityStudy {
        args,
        probing,
        begun,
        before,
        left,
        clock,
        taken: 0,
        probes: Vec::new(),
        end: capacity::SearchEnd::Interrupted,
    };
    study::conduct(bench, &args.keep, "capacity")
}

/// A path as a shell takes it.
fn shown(path: &Path) -> String {
    shell_word(&path.display().to_string())
}

/// Return the command that resumes the search saved in `place`, which these words began; its
/// secrets are redacted.
fn resume_command(typed: impl Iterator<Item = OsString>, place: &Path) -> String {
    const REPLACED: [&str; 2] = ["--out", "--resume"];
    let typed: Vec<String> = typed
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let redacted = redact::words(&typed);
    let (own, run) = redacted.split_at(
        redacted
            .iter()
            .position(|word| word == "--")
            .unwrap_or(redacted.len()),
    );
    let (mut words, mut own) = (vec!["crawlmark".to_owned()], own.iter());
    while let Some(word) = own.next() {
        match word.split_once('=').map_or(&**word, |(flag, _)| flag) {
            flag if !REPLACED.contains(&flag) => words.push(shell_word(word)),
            flag if flag == word => drop(own.next()),
            _ => {}
        }
    }
    words.extend(["--resume".to_owned(), shown(place)]);
    words.extend(run.iter().map(|word| shell_word(word)));
    let secrets = if redacted == typed {
        ""
    } else {
        "\n(with the secrets in place of ...)"
    };
    format!("{}{secrets}", words.join(" "))
}

/// A time as the announcement says it.
fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}

/// Return the time since `time` (RFC 3339); zero if it is not a time or lies in the future.
fn since(time: &str) -> Duration {
    let then = humantime::parse_rfc3339(time).ok();
    then.and_then(|then| wall_time().duration_since(then).ok())
        .unwrap_or_default()
}

/// The number in the name of a probe's directory.
fn round_number(probe: &ProbeReport) -> Option<usize> {
    Path::new(&probe.result)
        .file_name()?
        .to_str()?
        .split('-')
        .next()?
        .parse()
        .ok()
}

/// The probes.
struct CapacityStudy<'a> {
    args: &'a CapacityArgs,
    probing: Probing,
    begun: SearchHead,
    /// Probes of the search that this one goes on from.
    before: Option<journal::SavedProbes>,
    /// Its unfinished directory.
    left: Option<PathBuf>,
    clock: Clock,
    /// Rounds that were begun, which number their directories.
    taken: usize,
    probes: Vec<ProbeReport>,
    end: capacity::SearchEnd,
}

impl Study for CapacityStudy<'_> {
    type Result = Capacity;

    const NEEDS: &'static str = "a probe was complete";

    fn announcement(&self, place: &Path) -> (String, Vec<(&'static str, String)>) {
        let question = &self.probing.question;
        let Bounds {
            least,
            greatest,
            precision,
        } = question.bounds;
        let by_default = if question.by_default {
            " (defaults; change them with --threshold)"
        } else {
            ""
        };
        let what = if question.what.is_empty() {
            "the bundled target"
        } else {
            &question.what
        };
        let wanted = question.objectives.join(", ");
        let (sent, precision) = (SENT * 100.0, precision * 100.0);
        let [shortest, longest] =
            [greatest, least].map(|pace| seconds(self.probing.takes(pace, ProbeKind::Full)));
        let takes = if shortest == longest {
            shortest
        } else {
            format!("{shortest} to {longest} (longer at lower rates)")
        };
        let (arrivals, budget) = (&question.arrivals, seconds(self.args.budget));
        let grows = if sees_growth(f64::INFINITY, question) {
            "times do not grow throughout a probe"
        } else {
            "probes are too short to see whether times grow"
        };
        let mut rows = vec![
            (
                "objectives",
                format!("{wanted}{by_default}; {sent:.0} % of requests sent, on time; {grows}"),
            ),
            (
                "rates",
                format!(
                    "{} to {}, never more than twice one that passed, to within {precision:.1} %",
                    rate_in_words(&least.to_string()),
                    rate_in_words(&greatest.to_string())
                ),
            ),
            (
                "probes",
                format!("{takes} each, {arrivals} arrivals; none starts after {budget}"),
            ),
            (
                "saved",
                format!(
                    "as they end; after a crash, add --resume {} to this command",
                    shown(place)
                ),
            ),
        ];
        if let Some(saved) = self
            .before
            .as_ref()
            .map(journal::SavedProbes::len)
            .filter(|saved| *saved > 0)
        {
            rows.push(("resumed", format!("from {saved} probes")));
        }
        (
            format!("searching for the highest rate that this target sustains: {what}"),
            rows,
        )
    }

    fn run(&mut self, rounds: &mut Rounds<'_>) -> Result<(), Error> {
        let (mut log, probes) = Journal::begin(rounds.place(), &self.begun, self.before.take())?;
        self.taken = probes.iter().filter_map(round_number).max().unwrap_or(0);
        self.probes = probes;
        self.end = self.search(rounds, &mut log)?;
        Ok(())
    }

    fn result(&mut self, header: Header) -> Result<Option<Capacity>, Error> {
        let probes = mem::take(&mut self.probes);
        Ok((!probes.is_empty())
            .then(|| Capacity::new(header.name, self.begun.clone(), probes, self.end)))
    }

    fn resumed(&self) -> Option<&Path> {
        self.left.as_deref()
    }

    fn saved(&mut self) {
        journal::discard(self.left.take());
    }

    fn next_command(&self, capacity: &Capacity, saved: &Path) -> Option<String> {
        (capacity.interrupted || capacity.out_of_time)
            .then(|| resume_command(std::env::args_os(), saved))
    }
}

impl CapacityStudy<'_> {
    /// Probes until it is known. What was probed stays, whatever ends it.
    fn search(
        &mut self,
        rounds: &mut Rounds<'_>,
        log: &mut Journal,
    ) -> Result<capacity::SearchEnd, Error> {
        loop {
            let (pace, kind) = match next_step(&self.probing.question, &self.probes) {
                SearchStep::Done(ending) => return Ok(capacity::SearchEnd::Known(ending)),
                SearchStep::Probe(pace, kind) => (pace, kind),
            };
            let rest = self.wanted_rest();
            if self.elapsed().saturating_add(rest) > self.args.budget {
                return Ok(capacity::SearchEnd::OutOfTime);
            }
            self.wait(rounds, rest)?;
            let name = format!("probe {}", self.probes.len() + 1);
            let does = offered(pace);
            if rounds.stages.is_drawn() {
                rounds
                    .stages
                    .begin(&name, &does, self.probing.takes(pace, kind));
            }
            let (probe, ended) = self.probe(rounds, pace, kind)?;
            let is_lost_again = probe.seen == ProbeResult::Lost
                && self
                    .probes
                    .last()
                    .is_some_and(|last| last.seen == ProbeResult::Lost);
            // What is not saved cannot be resumed from.
            let appended = rounds.check_saved().and_then(|()| log.append(&probe));
            let before = self.read();
            self.probes.push(probe);
            self.show_result(rounds.stages, &before);
            appended?;
            match ended {
                Some(error @ Error::Round(_)) if is_lost_again => return Err(error),
                None | Some(Error::Round(_)) => {}
                Some(error) => return Err(error),
            }
        }
    }

    /// The probes as all of them together say they went, which is what the result will say.
    fn read(&self) -> Vec<ProbeReport> {
        in_hindsight(&self.probing.question, self.probes.clone())
    }

    /// Shows what the last probe came to, and which of those before it have to be read otherwise
    /// because of it.
    fn show_result(&self, stages: &mut Stages, before: &[ProbeReport]) {
        let read = self.read();
        if let Some(last) = read.last() {
            stages.end(&format!("probe {}", last.number), &probe_line(last));
        }
        for (_, probe) in before
            .iter()
            .zip(&read)
            .filter(|(before, now)| before.seen != now.seen)
        {
            stages.end(&format!("probe {}", probe.number), &probe_correction(probe));
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
        let rest = match last.seen {
            ProbeResult::Pass | ProbeResult::Void => self.args.rest,
            ProbeResult::Fail | ProbeResult::Collapse => {
                self.args.rest.saturating_mul(AFTER_FAILURE)
            }
            // A target that was just overloaded may not accept a connection yet.
            ProbeResult::Lost => self
                .args
                .rest
                .max(Duration::from_secs(1))
                .saturating_mul(AFTER_FAILURE),
        };
        // What was asked for in a search that is gone on with may be over long since.
        let promise = Duration::try_from_secs_f64(last.longest_promise_s).unwrap_or(Duration::MAX);
        rest.max(promise.saturating_sub(since(&last.finished_at)))
    }

    /// Waits, unless a signal asks for a stop.
    fn wait(&self, rounds: &mut Rounds<'_>, rest: Duration) -> Result<(), Error> {
        if rest.is_zero() {
            return Ok(());
        }
        if rest >= LONG_REST {
            rounds
                .stages
                .end("rest", &format!("no requests for {}", seconds(rest)));
        }
        // Other signals end a wait early: it goes on until the time is over.
        let until = self.elapsed().saturating_add(rest);
        while let Some(left) = until
            .checked_sub(self.elapsed())
            .filter(|left| !left.is_zero())
        {
            if let Some(signal) = rounds.asks_to_stop(left)? {
                return Err(Error::Stopped(signal));
            }
        }
        Ok(())
    }

    /// Run a probe, and return it and, when it did not end by itself, why. It is an error when no
    /// probe ran before and this one left no result: then there is nothing to say of it.
    fn probe(
        &mut self,
        rounds: &mut Rounds<'_>,
        pace: Pace,
        kind: ProbeKind,
    ) -> Result<(ProbeReport, Option<Error>), Error> {
        self.taken += 1;
        let number = self.probes.len() + 1;
        let words = self.probing.words((number, pace, kind));
        let setup = Setup::of_this_program(format!("{pace}"), words)?;
        let folder = PathBuf::from(ROUNDS).join(format!(
            "{:03}-{}",
            self.taken,
            pace.to_string().replace('/', "-per-")
        ));
        let saved = rounds.place().join(&folder);
        let connections = self.probing.connections(pace);
        let plan = ProbePlan {
            number,
            pace,
            kind,
            connections,
            result: folder.display().to_string(),
        };
        let begun = wall_time();
        let error = match rounds.run(&setup, &folder) {
            Ok(taken) => {
                return Ok((
                    ProbeReport::new(plan, &taken.report, self.probing.wanted()),
                    None,
                ));
            }
            Err(error) => error,
        };
        let why = match &error {
            Error::Round(why) => why.clone(),
            // One that came between two probes ended none.
            Error::Stopped(signal) if rounds.has_begun => {
                format!("stopped by {}", signal_in_words(*signal))
            }
            _ => return Err(error),
        };
        if self.probes.is_empty()
            && (matches!(error, Error::Stopped(_)) || result_dir::read(&saved).is_err())
        {
            return Err(error);
        }
        let times =
            [begun, wall_time()].map(|time| humantime::format_rfc3339_millis(time).to_string());
        Ok((
            ProbeReport::lost(plan, times, self.probing.open(pace), why),
            Some(error),
        ))
    }
}
