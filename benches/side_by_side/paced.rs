//! Paced clients among each other: how late they send, what latency they report where the target is the same, and what a
//! request costs them, at 1,000, 10,000 and 50,000 requests a second.
//!
//! All clients run on one CPU, one after the other in shuffled order, and the target on another. A peer that is not
//! installed is left out, and that is said. It prints numbers and judges nothing.

mod contestant;
mod report;

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::arguments::PacedArguments;
use crate::clients::Over;
use crate::crawlmark;
use crate::error::Error;
use crate::place::{Places, in_path};
use crate::process::{Signals, run};
use crate::record::save;
use crate::rounds::{Random, unreadable};
use crate::target::Target;
use crate::{Coverage, print, say};
use contestant::{Contestant, Load, Timed};
use report::{PacedRecord, render};

/// Requests a second of every client, each in turn.
const RATES: [u32; 3] = [1_000, 10_000, 50_000];

/// One client at one rate in one round.
#[derive(Debug, Clone, Serialize)]
struct PacedRun {
    /// From 1.
    round: u32,
    /// Requests a second, asked for.
    rate: u32,
    client: &'static str,
    requests: u64,
    cpu_us_per_request: f64,
    #[serde(flatten)]
    times: contestant::Times,
}

/// Runs the whole comparison.
pub(crate) fn compare(arguments: &PacedArguments) -> Result<Coverage, Error> {
    let signals = Signals::watch()?;
    let places = Places::find();
    let target = Target::start(&places, &signals, Over::Plain)?;
    let mut notes = Vec::new();
    let mut clients = found(&mut notes);
    let contest = PacedContest { arguments, places: &places, signals: &signals, target: &target };
    contest.warm_up(&mut clients, &mut notes)?;
    let runs = contest.rounds(&clients)?;
    let record = PacedRecord::new(arguments, &places, &runs, &notes);
    let saved = arguments.json.as_deref().map_or(Ok(()), |path| save(&record, path));
    print(&render(&record, &target.description(&places)))?;
    // The table comes first: see `compare_clients`.
    saved?;
    Ok(Coverage::Complete)
}

/// Return the contestants that are there, with the program to run.
fn found(notes: &mut Vec<String>) -> Vec<(&'static Contestant, PathBuf)> {
    let mut clients = Vec::new();
    for contestant in &contestant::ALL {
        match contestant.program.map_or_else(|| Some(PathBuf::from(crawlmark::PROGRAM)), in_path) {
            Some(program) => clients.push((contestant, program)),
            None => notes.push(format!("{}: not found in PATH: skipped", contestant.name)),
        }
    }
    clients
}

struct PacedContest<'a> {
    arguments: &'a PacedArguments,
    places: &'a Places,
    signals: &'a Signals,
    target: &'a Target,
}

impl PacedContest<'_> {
    /// One short run each that is not counted. A peer that cannot run, or is another program of the same name, is left out.
    fn warm_up(&self, clients: &mut Vec<(&'static Contestant, PathBuf)>, notes: &mut Vec<String>) -> Result<(), Error> {
        for (contestant, program) in clients.clone() {
            say(&format!("warm-up: {}", contestant.name));
            match self.one((contestant, &program), 0, (RATES[0], 1)) {
                Ok(_) => {}
                Err(error) if error.is_the_programs() && contestant.program.is_some() => {
                    notes.push(format!("{}: could not run: skipped: {error}", contestant.name));
                    clients.retain(|(other, _)| other.name != contestant.name);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn rounds(&self, clients: &[(&'static Contestant, PathBuf)]) -> Result<Vec<PacedRun>, Error> {
        let PacedArguments { rounds, seconds, seed, .. } = *self.arguments;
        let mut random = Random(seed);
        let mut runs = Vec::new();
        for round in 1..=rounds {
            for rate in RATES {
                let mut order: Vec<_> = clients.iter().collect();
                random.shuffle(&mut order);
                for (contestant, program) in order {
                    say(&format!("round {round} of {rounds}, {rate}/s: {}", contestant.name));
                    runs.push(self.one((contestant, program), round, (rate, seconds))?);
                }
            }
        }
        Ok(runs)
    }

    fn one(
        &self,
        (contestant, program): (&'static Contestant, &PathBuf),
        round: u32,
        (rate, seconds): (u32, u32),
    ) -> Result<PacedRun, Error> {
        // A result goes where it is forgotten: removed when this ends, however it ends.
        let folder = tempfile::tempdir()?;
        let load = Load {
            template: self.target.template().to_owned(),
            url: self.target.url(),
            connections: self.arguments.connections,
            seconds,
            rate,
            out: folder.path().join("result").display().to_string(),
        };
        let mut command = self.places.command(program, self.places.client_cpu);
        command.args((contestant.arguments)(&load));
        let finished = run(self.signals, contestant.name, &mut command, Duration::from_secs(seconds.into()))?;
        let timed = (contestant.read)(&finished.stdout).filter(|timed| timed.requests > 0);
        let Timed { requests, times } = timed.ok_or_else(|| unreadable(contestant.name, &finished))?;
        let cpu_us_per_request = (finished.cpu.user_us + finished.cpu.system_us) / requests as f64;
        Ok(PacedRun { round, rate, client: contestant.name, requests, cpu_us_per_request, times })
    }
}
