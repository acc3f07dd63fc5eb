//! `crawlmark scale`: rounds at several sizes in random order, and how throughput grows with the
//! shards or the connections.
//!
//! It runs rounds and shows progress; `crawlmark_results::studies::scale` judges them.

mod settings;

use std::mem;
use std::path::Path;
use std::time::Duration;

use crawlmark_harness::clock::Clock;
use crawlmark_results::judge::Finding;
use crawlmark_results::run::report::Environment;
use crawlmark_results::show::text;
use crawlmark_results::studies::Header;
use crawlmark_results::studies::scale::{Round, ScaleContext, Scaling, Size, order};

use self::settings::ScaleSettings;
use crate::cli::ScaleArgs;
use crate::error::Error;
use crate::study::{self, AROUND, Announcement, ROUNDS, Rounds, Setup, Study, minutes};

/// Measure, and return the exit code.
pub(crate) fn scale(args: &ScaleArgs) -> Result<u8, Error> {
    let asked = ScaleSettings::of(args)?;
    let takes = asked.round + AROUND;
    study::conduct(
        ScaleStudy {
            args,
            asked,
            seen: Measurements::default(),
            takes,
        },
        &args.keep,
        "scale",
    )
}

fn repeats(args: &ScaleArgs) -> usize {
    usize::try_from(args.repeats).unwrap_or(usize::MAX)
}

/// Measurements so far.
#[derive(Default)]
struct Measurements {
    rounds: Vec<Round>,
    environment: Option<Environment>,
}

/// The rounds.
struct ScaleStudy<'a> {
    args: &'a ScaleArgs,
    asked: ScaleSettings,
    seen: Measurements,
    /// Expected duration of a round.
    takes: Duration,
}

impl Study for ScaleStudy<'_> {
    type Result = Scaling;

    const NEEDS: &'static str = "a round was complete";

    fn announcement(&self, _: &Path) -> Announcement {
        let (args, asked) = (self.args, &self.asked);
        let sizes: Vec<String> = asked
            .sizes
            .iter()
            .map(|size| format!("{}/{}", size.shards, size.connections))
            .collect();
        let held: Vec<String> = asked.held.iter().map(ToString::to_string).collect();
        let rounds = args.repeats.saturating_mul(asked.sizes.len() as u64);
        let takes = (asked.round + AROUND).as_secs_f64() * rounds as f64;
        let takes = minutes(Duration::from_secs_f64(takes));
        let (repeats, round) = (args.repeats, settings::time(asked.round));
        let rounds =
            format!("{repeats} of each size, {rounds} rounds of {round} in all: about {takes}");
        let sentence = format!(
            "measuring how {} scales, with {}",
            asked.target,
            held.join(" and ")
        );
        let rows = vec![
            (
                "sizes",
                format!("{} (shards/connections)", sizes.join(", ")),
            ),
            ("rounds", rounds),
        ];
        (sentence, rows)
    }

    fn run(&mut self, rounds: &mut Rounds<'_>) -> Result<(), Error> {
        let sizes = self.asked.sizes.clone();
        let repeats = repeats(self.args);
        for (replicate, order) in (1..).zip(order(self.args.seed, sizes.len(), repeats)) {
            for place in order {
                let size = sizes[place];
                let name = format!("{}/{}", self.seen.rounds.len() + 1, repeats * sizes.len());
                rounds.begin(&name, &size.to_string(), self.takes);
                let round = self.round(rounds, replicate, size)?;
                let rate = text::decimal(round.items_per_s);
                let why = round.left_out_by().map(Finding::title);
                let came = match why {
                    Some(why) => format!("{size}: {rate} items/s, left out: {why}"),
                    None => format!("{size}: {rate} items/s"),
                };
                rounds.stages.end(&name, &came);
                self.seen.rounds.push(round);
            }
        }
        Ok(())
    }

    fn result(&mut self, header: Header) -> Result<Option<Scaling>, Error> {
        let Measurements {
            rounds,
            environment,
        } = mem::take(&mut self.seen);
        let Some(environment) = environment else {
            return Ok(None);
        };
        let circumstances = ScaleContext {
            header,
            target: self.asked.target.clone(),
            round_s: self.asked.round.as_secs_f64(),
            repeats: repeats(self.args),
            seed: self.args.seed,
            target_processes: self
                .asked
                .target_processes
                .unwrap_or(u32::from(environment.colocated)),
            environment,
        };
        Ok(Some(Scaling::new(rounds, &self.asked.held, circumstances)))
    }
}

impl ScaleStudy<'_> {
    fn round(
        &mut self,
        rounds: &mut Rounds<'_>,
        replicate: usize,
        size: Size,
    ) -> Result<Round, Error> {
        let number = self.seen.rounds.len() + 1;
        let result = format!(
            "{ROUNDS}/{number:03}-s{}-c{}",
            size.shards, size.connections
        );
        let setup = Setup::of_this_program(size.to_string(), sized(&self.asked.words, size))?;
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
        let report = results.report;
        let round = Round::new(&report, replicate, size, result, cpu);
        self.seen.environment.get_or_insert(report.environment);
        Ok(round)
    }
}

/// The words of a round at this size.
fn sized(words: &[String], size: Size) -> Vec<String> {
    let size = [
        "-s".to_owned(),
        size.shards.to_string(),
        "-c".to_owned(),
        size.connections.to_string(),
    ];
    words.iter().cloned().chain(size).collect()
}
