//! The rounds: each server is driven by wrk in turn, and weighed in the meantime.

use std::path::Path;
use std::time::Duration;

use super::Note;
use super::contestant::Contestant;
use super::proc::Usage;
use crate::arguments::ServerArguments;
use crate::clients::{Counted, Load, Over, PEERS, YARDSTICK};
use crate::crawlmark;
use crate::error::Error;
use crate::place::Places;
use crate::process::{Signals, run};
use crate::rounds::{OwnFigures, Random, Run, Who, unreadable};
use crate::say;

/// Connections of wrk.
pub(super) const CONNECTIONS: u32 = 64;

/// Everything that stays the same from round to round.
#[derive(Debug)]
pub(super) struct Contest<'a> {
    pub(super) arguments: &'a ServerArguments,
    pub(super) places: &'a Places,
    pub(super) signals: &'a Signals,
    pub(super) wrk: &'a Path,
    pub(super) contestants: Vec<Contestant>,
}

impl Contest<'_> {
    /// One run each that is not counted. Who does not get through it is left out, and `notes` tell.
    pub(super) fn warm_up(&mut self, notes: &mut Vec<Note>) -> Result<(), Error> {
        let mut ready = Vec::new();
        for contestant in std::mem::take(&mut self.contestants) {
            say(&format!("warm-up: {}", contestant.name));
            match self.one(&contestant, 0, contestant.warm_up_s) {
                Ok(_) => ready.push(contestant),
                Err(error) if error.is_the_programs() && contestant.name != crawlmark::NAME => {
                    let note = format!("{}: skipped: {error}", contestant.name);
                    say(&note);
                    notes.push(note);
                }
                Err(error) => return Err(error),
            }
        }
        self.contestants = ready;
        Ok(())
    }

    /// All rounds.
    pub(super) fn rounds(&self) -> Result<Vec<Run>, Error> {
        let ServerArguments { rounds, seconds, seed, .. } = *self.arguments;
        let mut random = Random(seed);
        let mut runs = Vec::new();
        for round in 1..=rounds {
            let mut order: Vec<&Contestant> = self.contestants.iter().collect();
            random.shuffle(&mut order);
            for contestant in order {
                say(&format!("round {round} of {rounds}: {}", contestant.name));
                runs.push(self.one(contestant, round, seconds)?);
            }
        }
        Ok(runs)
    }

    fn one(&self, contestant: &Contestant, round: u32, seconds: u32) -> Result<Run, Error> {
        let load = Load { url: contestant.url.clone(), connections: CONNECTIONS, seconds, over: Over::Plain };
        let before = Usage::of(contestant.pid())?;
        let Counted { requests, per_s, failed } = drive(self.wrk, (self.places, self.signals), &load)?;
        let after = Usage::of(contestant.pid())?;
        let per_request = |us: f64| us / requests as f64;
        let (user_us, system_us) = (after.user_us - before.user_us, after.system_us - before.system_us);
        Ok(Run {
            round,
            who: Who::Server(contestant.name),
            requests,
            requests_per_s: per_s,
            failed,
            cpu_us_per_request: per_request(user_us + system_us),
            cpu_user_us_per_request: per_request(user_us),
            own: OwnFigures::default(),
        })
    }
}

/// Runs wrk, and reads what it did; never nothing.
pub(super) fn drive(wrk: &Path, (places, signals): (&Places, &Signals), load: &Load) -> Result<Counted, Error> {
    let nobody = || Error::Server { name: YARDSTICK, why: "this comparison does not know how to run it".to_owned() };
    let peer = PEERS.iter().find(|peer| peer.name == YARDSTICK).ok_or_else(nobody)?;
    let mut command = places.command(wrk, places.client_cpu);
    command.args((peer.arguments)(load));
    let finished = run(signals, peer.name, &mut command, Duration::from_secs(load.seconds.into()))?;
    let counted = (peer.read)(&finished.stdout).filter(|counted| counted.requests > 0);
    counted.ok_or_else(|| unreadable(peer.name, &finished))
}
