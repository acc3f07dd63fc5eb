//! `crawlmark scale`: rounds at several sizes in random order, and how throughput grows with the
//! shards or the connections.
//!
//! It runs rounds and shows progress; `crawlmark_results::studies::scale` judges them.

mod settings;

use std::mem;
use std::path::Path;
use std::time::Duration;

use crawlmark_harness::clock::Clock;
use crawlmark_results::run::report::Environment;
use crawlmark_results::show::text;
use crawlmark_results::studies::Header;
use crawlmark_results::studies::scale::{Round, ScaleContext, Scaling, Size, order};

use self::settings::ScaleSettings;
use crate::cli::ScaleArgs;
use crate::error::Error;
use crate::study::{self, AROUND, ROUNDS, Rounds, Setup, Study, minutes};

/// Measure, and return the exit code.
pub(crate) fn scale(args: &ScaleArgs) -> Result<u8, Error> {
    let asked = ScaleSettings::of(args)?;
    let study = ScaleStudy {
        takes: asked.round + AROUND,
        asked,
        seed: args.seed,
        repeats: usize::try_from(args.repeats).unwrap_or(usize::MAX),
        rounds: Vec::new(),
        environment: None,
    };
    study::conduct(study, &args.keep, "scale")
}

/// The rounds.
struct ScaleStudy {
    asked: ScaleSettings,
    seed: u64,
    repeats: usize,
    /// Expected duration of a round.
    takes: Duration,
    /// Rounds so far.
    rounds: Vec<Round>,
    environment: Option<Environment>,
}

impl Study for ScaleStudy {
    type Result = Scaling;

    const NEEDS: &'static str = "a round was complete";

    fn announcement(&self) -> String {
        let asked = &self.asked;
        let sizes: Vec<String> = asked
            .sizes
            .iter()
            .map(|size| format!("{}/{}", size.shards, size.connections))
            .collect();
        let held: Vec<String> = asked.held.iter().map(ToString::to_string).collect();
        let rounds = self.repeats.saturating_mul(sizes.len());
        format!(
            "measuring how {} scales, with {}: {} (shards/connections), {rounds} rounds of {:?} in all, about {}",
            asked.target,
            held.join(" and "),
            sizes.join(", "),
            asked.round,
            minutes(self.takes.mul_f64(rounds as f64))
        )
    }

    fn run(&mut self, rounds: &mut Rounds<'_>) -> Result<(), Error> {
        let sizes = self.asked.sizes.clone();
        let all = self.repeats * sizes.len();
        for (replicate, order) in (1..).zip(order(self.seed, sizes.len(), self.repeats)) {
            for place in order {
                let size = sizes[place];
                let name = format!("{}/{all}", self.rounds.len() + 1);
                rounds.begin(&name, &size.to_string(), self.takes);
                let round = self.round(rounds, replicate, size)?;
                let rate = text::decimal(round.items_per_s);
                let why = match round.left_out_by() {
                    Some(finding) => format!(", left out: {}", finding.text()),
                    None => String::new(),
                };
                rounds
                    .stages
                    .end(&name, &format!("{size}: {rate} items/s{why}"));
                self.rounds.push(round);
            }
        }
        Ok(())
    }

    fn result(&mut self, header: Header) -> Result<Option<Scaling>, Error> {
        let rounds = mem::take(&mut self.rounds);
        let asked = &self.asked;
        Ok(self.environment.take().map(|environment| {
            let foreign = u32::from(environment.colocated);
            let circumstances = ScaleContext {
                header,
                target: asked.target.clone(),
                round_s: asked.round.as_secs_f64(),
                repeats: self.repeats,
                seed: self.seed,
                target_processes: asked.target_processes.unwrap_or(foreign),
                environment,
            };
            Scaling::new(rounds, &asked.held, circumstances)
        }))
    }
}

impl ScaleStudy {
    fn round(
        &mut self,
        rounds: &mut Rounds<'_>,
        replicate: usize,
        size: Size,
    ) -> Result<Round, Error> {
        let Size {
            shards,
            connections,
        } = size;
        let number = self.rounds.len() + 1;
        let result = format!("{ROUNDS}/{number:03}-s{shards}-c{connections}");
        let setup = Setup::of_this_program(size.to_string(), self.asked.words(size))?;
        let clock = Clock::start();
        let results = rounds
            .run(&setup, Path::new(&result))?
            .by_the_clock(&setup.label)?;
        self.takes = Duration::from_nanos(clock.now().0);
        // That of a target that this program did not start is only known as a part of the machine's.
        let cpu = if self.asked.target_processes.is_some() {
            results.cpu
        } else {
            results.machine_cpu
        };
        let round = Round::new(&results.report, replicate, size, result, cpu);
        self.environment.get_or_insert(results.report.environment);
        Ok(round)
    }
}
