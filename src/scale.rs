//! `crawlmark scale`: rounds at several sizes in random order, and how throughput grows with the shards or the connections.
//!
//! It runs rounds and shows how far it is; what the rounds mean is said by `crawlmark_results::studies::scale`.

mod asked;

use std::path::Path;
use std::time::Duration;

use crawlmark_harness::clock::Clock;
use crawlmark_harness::machine::Proc;
use crawlmark_harness::process::ended_children_cpu;
use crawlmark_harness::supervisor::HeldSignals;
use crawlmark_results::run::report::{Environment, Verdict};
use crawlmark_results::show::plot;
use crawlmark_results::show::text;
use crawlmark_results::studies::scale::{Ceiling, Circumstances, FILE, Round, Scaling, Size, order};

use self::asked::Asked;
use crate::cli::ScaleArgs;
use crate::error::{DONE, Error, INCONCLUSIVE, signalled};
use crate::rounds::{self, Rounds, Setup, Taken};

/// The folder of the rounds.
const ROUNDS: &str = "rounds";

/// The folder of the round that shows what this side could do.
const CEILING: &str = "ceiling";

/// What a round takes beside the time that it sends: its processes start and end, and what was measured is saved.
const AROUND: Duration = Duration::from_millis(500);

/// Targets that are commands: there are none here.
const READY: Duration = Duration::ZERO;

/// Measures, and returns the exit code.
pub(crate) fn scale(args: &ScaleArgs) -> Result<u8, Error> {
    let asked = Asked::of(args)?;
    let name = args.keep.name_or("scale");
    let directory = rounds::directory(&args.keep, &name)?;
    let held = HeldSignals::hold().map_err(Error::Signal)?;
    let mut stages = rounds::stages(&args.keep);
    announce(&asked, args);
    let mut bench = Bench {
        rounds: Rounds::new(&held, &mut stages, READY),
        asked: &asked,
        place: directory.place(),
        seen: Seen::default(),
        takes: asked.round + AROUND,
    };
    let Ended { interrupted_by, failed } = bench.measure(args);
    let seen = bench.seen;
    // Neither what was measured nor the exit code may be lost to an impatient second Ctrl-C.
    std::mem::forget(held);
    let Some(environment) = seen.environment.filter(|_| seen.rounds.len() >= 2) else {
        return match failed {
            Some(error) => Err(error.keeping(directory)),
            None => Ok(rounds::stopped("there were two rounds to compare", directory, interrupted_by)),
        };
    };
    let circumstances = Circumstances {
        name,
        interrupted: interrupted_by.is_some() || failed.is_some(),
        target: asked.target.clone(),
        round_s: asked.round.as_secs_f64(),
        repeats: repeats(args),
        seed: args.seed,
        target_processes: asked.target_processes.unwrap_or(u32::from(environment.colocated)),
        environment,
    };
    let scaling = Scaling::new(seen.rounds, &asked.held, seen.ceiling, circumstances);
    let files = [
        (FILE, serde_json::to_string_pretty(&scaling)? + "\n"),
        ("summary.md", text::scaling_markdown(&scaling)),
        ("plots/scaling.svg", plot::scaling(&scaling).svg),
    ];
    rounds::conclude(&args.keep, directory, &files, || {
        rounds::print(&scaling, args.keep.form, text::scaling_markdown, text::scaling_text)
    })?;
    match failed {
        Some(error) => Err(error),
        None => Ok(match interrupted_by {
            Some(signal) => signalled(signal),
            None if scaling.says_something() => DONE,
            None => INCONCLUSIVE,
        }),
    }
}

fn repeats(args: &ScaleArgs) -> usize {
    usize::try_from(args.repeats).unwrap_or(usize::MAX)
}

/// Says what is going to be done, and how long that takes.
fn announce(asked: &Asked, args: &ScaleArgs) {
    let sizes: Vec<String> = asked.sizes.iter().map(|size| format!("{}/{}", size.shards, size.connections)).collect();
    let held: Vec<String> = asked.held.iter().map(ToString::to_string).collect();
    let rounds = args.repeats.saturating_mul(asked.sizes.len() as u64);
    let all = rounds + u64::from(asked.ceiling.is_some());
    let takes = Duration::from_secs_f64((asked.round + AROUND).as_secs_f64() * all as f64);
    let takes = minutes(takes.as_secs().max(1));
    let ceiling = match &asked.ceiling {
        Some(_) => "first: what this client could do of a target that answers at once",
        None if args.no_ceiling => "none",
        None => "none, for this target answers at once itself",
    };
    let (repeats, round) = (args.repeats, asked::time(asked.round));
    let rows = [
        ("sizes", format!("{} (shards/connections)", sizes.join(", "))),
        ("rounds", format!("{repeats} replicates of each, {rounds} rounds of {round} in all: about {takes}")),
        ("ceiling", ceiling.to_owned()),
    ];
    rounds::announce(&args.keep, &format!("measuring how {} scales, with {}", asked.target, held.join(" and ")), &rows);
}

/// `45 s`, `2 min 5 s`.
fn minutes(seconds: u64) -> String {
    if seconds < 60 { format!("{seconds} s") } else { format!("{} min {} s", seconds / 60, seconds % 60) }
}

/// How it ended.
struct Ended {
    interrupted_by: Option<i32>,
    /// What went wrong, in a round or around it.
    failed: Option<Error>,
}

/// What was measured.
#[derive(Default)]
struct Seen {
    ceiling: Option<Ceiling>,
    rounds: Vec<Round>,
    environment: Option<Environment>,
}

/// Where rounds are run.
struct Bench<'a> {
    rounds: Rounds<'a>,
    asked: &'a Asked,
    place: &'a Path,
    seen: Seen,
    /// How long a round is thought to take.
    takes: Duration,
}

impl Bench<'_> {
    /// Runs all rounds. A signal ends it, and so does whatever fails; what was run stays.
    fn measure(&mut self, args: &ScaleArgs) -> Ended {
        match self.all(args) {
            Ok(()) => Ended { interrupted_by: None, failed: None },
            Err(Error::Stopped(signal)) => Ended { interrupted_by: Some(signal), failed: None },
            Err(error) => Ended { interrupted_by: None, failed: Some(error) },
        }
    }

    fn all(&mut self, args: &ScaleArgs) -> Result<(), Error> {
        self.ceiling()?;
        let sizes = &self.asked.sizes;
        let all = repeats(args) * sizes.len();
        for (replicate, order) in (1..).zip(order(args.seed, sizes.len(), repeats(args))) {
            for place in order {
                let size = sizes[place];
                let name = format!("{}/{all}", self.seen.rounds.len() + 1);
                self.begin(&name, &in_words(size));
                let round = self.round(replicate, size)?;
                let verdict = if round.validity == Verdict::Valid { "" } else { round.validity.name() };
                let left_out = if round.counts() { "" } else { ": left out" };
                let rate = text::decimal(round.items_per_s);
                let came = format!("{}: {rate} items/s {verdict}{left_out}", in_words(size));
                self.rounds.stages.end(&name, came.trim_end());
                self.seen.rounds.push(round);
            }
        }
        Ok(())
    }

    /// Shows what is being done, where that is drawn: elsewhere a line says what came of it.
    fn begin(&mut self, name: &str, does: &str) {
        if self.rounds.stages.is_drawn() {
            self.rounds.stages.begin(name, does, self.takes);
        }
    }

    /// What this client could do at the largest size.
    fn ceiling(&mut self) -> Result<(), Error> {
        let (Some(words), Some(size)) = (&self.asked.ceiling, self.asked.largest()) else { return Ok(()) };
        self.begin(CEILING, &in_words(size));
        let setup = Setup::of_this_program("the ceiling".to_owned(), sized(words, size))?;
        let Taken { report, .. } = self.rounds.run(&setup, &self.place.join(CEILING))?;
        let round = Round::new(&report, (0, size, CEILING.to_owned()), None);
        let ceiling = Ceiling { size, items_per_s: round.items_per_s, validity: round.validity, result: round.result };
        let none = if ceiling.per_s().is_none() { ": no ceiling" } else { "" };
        let came = format!("{}: {} items/s{none}", in_words(size), text::decimal(ceiling.items_per_s));
        self.rounds.stages.end(CEILING, &came);
        self.seen.ceiling = Some(ceiling);
        Ok(())
    }

    fn round(&mut self, replicate: usize, size: Size) -> Result<Round, Error> {
        let number = self.seen.rounds.len() + 1;
        let result = format!("{ROUNDS}/{number:03}-s{}-c{}", size.shards, size.connections);
        let setup = Setup::of_this_program(in_words(size), sized(&self.asked.words, size))?;
        // What a target uses that somebody else started is only known as a part of what the whole machine uses.
        let is_own = self.asked.target_processes.is_some();
        let used = || if is_own { ended_children_cpu() } else { Proc::default().busy() };
        let (clock, before) = (Clock::start(), used());
        let Taken { report, .. } = self.rounds.run(&setup, &self.place.join(&result))?.by_the_clock(&setup.label)?;
        self.takes = Duration::from_nanos(clock.now().0);
        let cpu = before.zip(used()).map(|(before, after)| after.saturating_sub(before));
        let round = Round::new(&report, (replicate, size, result), cpu);
        self.seen.environment.get_or_insert(report.environment);
        Ok(round)
    }
}

/// The words of a round at this size.
fn sized(words: &[String], size: Size) -> Vec<String> {
    let size = ["-s".to_owned(), size.shards.to_string(), "-c".to_owned(), size.connections.to_string()];
    words.iter().cloned().chain(size).collect()
}

fn in_words(Size { shards, connections }: Size) -> String {
    let plural = |n: u32| if n == 1 { "" } else { "s" };
    format!("{shards} shard{}, {connections} connection{}", plural(shards), plural(connections))
}
