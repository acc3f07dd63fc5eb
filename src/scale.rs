//! `crawlmark scale`: rounds at several sizes in random order, and how throughput grows with the
//! shards or the connections.
//!
//! It runs rounds and shows progress; `crawlmark_results::studies::scale` judges them.

mod settings;

use std::mem;
use std::path::Path;
use std::time::Duration;

use crawlmark_harness::clock::Clock;
use crawlmark_harness::machine::Proc;
use crawlmark_harness::process::ended_children_cpu;
use crawlmark_results::run::report::{Environment, Verdict};
use crawlmark_results::show::text;
use crawlmark_results::studies::Header;
use crawlmark_results::studies::scale::{Ceiling, Round, ScaleContext, Scaling, Size, order};

use self::settings::ScaleSettings;
use crate::cli::ScaleArgs;
use crate::error::Error;
use crate::study::{
    self, AROUND, Announcement, ROUNDS, RoundResults, Rounds, Setup, Study, minutes,
};

/// Folder of the round that measures the ceiling of this client.
const CEILING: &str = "ceiling";

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
    ceiling: Option<Ceiling>,
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
        let all = rounds + u64::from(asked.ceiling.is_some());
        let takes = Duration::from_secs_f64((asked.round + AROUND).as_secs_f64() * all as f64);
        let takes = minutes(takes);
        let ceiling = match &asked.ceiling {
            Some(_) => "first: this client against a target that responds at once",
            None if args.no_ceiling => "none",
            None => "none, because this target responds at once itself",
        };
        let (repeats, round) = (args.repeats, settings::time(asked.round));
        let rows = vec![
            (
                "sizes",
                format!("{} (shards/connections)", sizes.join(", ")),
            ),
            (
                "rounds",
                format!("{repeats} of each size, {rounds} rounds of {round} in all: about {takes}"),
            ),
            ("ceiling", ceiling.to_owned()),
        ];
        (
            format!(
                "measuring how {} scales, with {}",
                asked.target,
                held.join(" and ")
            ),
            rows,
        )
    }

    fn run(&mut self, rounds: &mut Rounds<'_>) -> Result<(), Error> {
        self.ceiling(rounds)?;
        let sizes = self.asked.sizes.clone();
        let repeats = repeats(self.args);
        for (replicate, order) in (1..).zip(order(self.args.seed, sizes.len(), repeats)) {
            for place in order {
                let size = sizes[place];
                let name = format!("{}/{}", self.seen.rounds.len() + 1, repeats * sizes.len());
                self.begin(rounds, &name, size);
                let round = self.round(rounds, (replicate, size))?;
                let came = match round.why_left_out() {
                    Some(why) => format!(": left out: {why}"),
                    None if round.validity == Verdict::Valid => String::new(),
                    None => format!(" {}", round.validity.name()),
                };
                let came = format!(
                    "{}: {} items/s{came}",
                    in_words(size),
                    text::decimal(round.items_per_s)
                );
                rounds.stages.end(&name, &came);
                self.seen.rounds.push(round);
            }
        }
        Ok(())
    }

    fn result(&mut self, header: Header) -> Result<Option<Scaling>, Error> {
        let Measurements {
            ceiling,
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
        Ok(Some(Scaling::new(
            rounds,
            &self.asked.held,
            ceiling,
            circumstances,
        )))
    }
}

impl ScaleStudy<'_> {
    /// Shows what is being done, where that is drawn: elsewhere a line says what came of it.
    fn begin(&self, rounds: &mut Rounds<'_>, name: &str, size: Size) {
        if rounds.stages.is_drawn() {
            rounds.stages.begin(name, &in_words(size), self.takes);
        }
    }

    /// Measure the rate that this client could reach at the largest size.
    fn ceiling(&mut self, rounds: &mut Rounds<'_>) -> Result<(), Error> {
        let (Some(words), Some(size)) = (&self.asked.ceiling, self.asked.largest()) else {
            return Ok(());
        };
        self.begin(rounds, CEILING, size);
        let setup = Setup::of_this_program("the ceiling".to_owned(), sized(words, size))?;
        let RoundResults { report, .. } = rounds.run(&setup, Path::new(CEILING))?;
        let round = Round::new(&report, (0, size, CEILING.to_owned()), None);
        let ceiling = Ceiling {
            size,
            items_per_s: round.items_per_s,
            validity: round.validity,
            result: round.result,
        };
        let none = if ceiling.per_s().is_none() {
            ": no ceiling"
        } else {
            ""
        };
        let came = format!(
            "{}: {} items/s{none}",
            in_words(size),
            text::decimal(ceiling.items_per_s)
        );
        rounds.stages.end(CEILING, &came);
        self.seen.ceiling = Some(ceiling);
        Ok(())
    }

    fn round(
        &mut self,
        rounds: &mut Rounds<'_>,
        (replicate, size): (usize, Size),
    ) -> Result<Round, Error> {
        let number = self.seen.rounds.len() + 1;
        let result = format!(
            "{ROUNDS}/{number:03}-s{}-c{}",
            size.shards, size.connections
        );
        let setup = Setup::of_this_program(in_words(size), sized(&self.asked.words, size))?;
        // The CPU time of a target that this program did not start is only known as a part of the
        // whole machine's.
        let is_own = self.asked.target_processes.is_some();
        let used = || {
            if is_own {
                ended_children_cpu()
            } else {
                Proc::default().busy()
            }
        };
        let (clock, before) = (Clock::start(), used());
        let RoundResults { report, .. } = rounds
            .run(&setup, Path::new(&result))?
            .by_the_clock(&setup.label)?;
        self.takes = Duration::from_nanos(clock.now().0);
        let cpu = before
            .zip(used())
            .map(|(before, after)| after.saturating_sub(before));
        let round = Round::new(&report, (replicate, size, result), cpu);
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

fn in_words(
    Size {
        shards,
        connections,
    }: Size,
) -> String {
    let plural = |n: u32| if n == 1 { "" } else { "s" };
    format!(
        "{shards} shard{}, {connections} connection{}",
        plural(shards),
        plural(connections)
    )
}
