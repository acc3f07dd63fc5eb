//! `crawlmark ladder`: climbs from one request at a time to the limit of the CPU, a run of its own
//! for each rung, and compares each rate with the published one.
//!
//! It runs rounds and shows progress; `crawlmark_results::studies::ladder` finds what limited a
//! rung.

mod search;
mod strategy;

use std::mem;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crawlmark_harness::process::{ended_children_cpu, raise_descriptor_limit, usable_cpus};
use crawlmark_results::run::report::{Environment, Placement, Report};
use crawlmark_results::show::text;
use crawlmark_results::studies::Header;
use crawlmark_results::studies::ladder::{
    ClimbContext, Climbed, Ladder, Probe, RUNGS, Rung, RungLimit, RungReadings, ladder_standing,
};

use self::search::Search;
use self::strategy::Strategy;
use crate::cli::LadderArgs;
use crate::crawl::redact;
use crate::error::Error;
use crate::run;
use crate::study::{self, ROUNDS, Rounds, Setup, Study, refuse, understood};

/// The rung whose connections have to be found first.
const HIGHEST: u8 = 7;

/// Time that a round takes beyond its duration: to start, to connect, and to end.
const BESIDE: Duration = Duration::from_millis(500);

/// Climb, and return the exit code.
pub(crate) fn ladder(args: &LadderArgs) -> Result<u8, Error> {
    let rungs = rungs(args);
    let cores = u32::try_from(usable_cpus().len().max(1)).unwrap_or(1);
    rungs.iter().try_for_each(|rung| check(rung, args, cores))?;
    let climb = Climb {
        args,
        rungs,
        cores,
        climbed: Vec::new(),
        search: Vec::new(),
        environment: None,
    };
    study::conduct(climb, &args.keep, "ladder")
}

/// The rungs to climb, from the lowest, each once.
fn rungs(args: &LadderArgs) -> Vec<Rung> {
    let is_wanted =
        |rung: &Rung| args.rungs.is_empty() || args.rungs.iter().any(|wanted| wanted.is(rung));
    RUNGS.into_iter().filter(is_wanted).collect()
}

/// Check that the flags after -- go together with those of a rung, before anything is run.
fn check(rung: &Rung, args: &LadderArgs, cores: u32) -> Result<(), Error> {
    let alone = understood("the flags after --", &args.run);
    if alone.is_ok_and(|typed| !typed.is_bundled()) {
        return Err(Error::Usage(
            "the ladder climbs the bundled target only: remove the URL after --, or measure it with `crawlmark run`"
                .to_owned(),
        ));
    }
    let words = words(Strategy::of(rung.number, cores, cores), args, args.duration);
    let typed = understood(
        &format!("rung {} and the flags after --, together", rung.number),
        &words,
    )?;
    refuse(
        &words,
        "the flags after --. Only the climb as a whole is saved and shown",
    )?;
    let refused = [
        (
            typed.throttling.adaptive.is_some(),
            "--adaptive chooses the number of connections, which is set by each rung",
        ),
        (
            typed.requests.is_some(),
            "-n ends a run after a number of items, but rungs last a fixed time (-d)",
        ),
    ];
    if let Some((_, why)) = refused.into_iter().find(|(is_given, _)| *is_given) {
        return Err(Error::Usage(format!(
            "{why}: remove it from the flags after --"
        )));
    }
    run::check(typed).map(drop)
}

/// The flags of `run` that a strategy is, and those of all rungs.
fn words(strategy: Strategy, args: &LadderArgs, duration: Duration) -> Vec<String> {
    let mut words = strategy.words(duration, args.seed);
    words.extend(args.run.iter().cloned());
    words
}

fn announcement(args: &LadderArgs, rungs: &[Rung]) -> String {
    let count = if rungs.len() == 1 {
        "1 rung".to_owned()
    } else {
        format!("{} rungs", rungs.len())
    };
    let searched = rungs.iter().any(|rung| rung.number == HIGHEST);
    let whole = (args.duration + BESIDE) * u32::try_from(rungs.len()).unwrap_or(u32::MAX)
        + if searched {
            Search::takes(args.duration) + 4 * BESIDE
        } else {
            Duration::ZERO
        };
    format!(
        "climbing the ladder: {count} of {:?} each, about {} s in all, against the bundled target; nothing leaves this machine",
        args.duration,
        whole.as_secs() + 1
    )
}

/// The climb.
struct Climb<'a> {
    args: &'a LadderArgs,
    rungs: Vec<Rung>,
    cores: u32,
    climbed: Vec<Climbed>,
    search: Vec<Probe>,
    environment: Option<Environment>,
}

impl Study for Climb<'_> {
    type Result = Ladder;

    const NEEDS: &'static str = "a rung was climbed";

    fn announcement(&self, _: &Path) -> (String, Vec<(&'static str, String)>) {
        (announcement(self.args, &self.rungs), Vec::new())
    }

    fn run(&mut self, rounds: &mut Rounds<'_>) -> Result<(), Error> {
        let rungs = self.rungs.clone();
        rungs.iter().try_for_each(|rung| self.rung(rounds, rung))
    }

    fn result(&mut self, header: Header) -> Result<Option<Ladder>, Error> {
        if self.climbed.is_empty() {
            return Ok(None);
        }
        let environment = self
            .environment
            .take()
            .unwrap_or_else(|| Environment::read(Placement::Colocated));
        let (climbed, search) = (mem::take(&mut self.climbed), mem::take(&mut self.search));
        Ok(Some(Ladder::new(
            climbed,
            ClimbContext {
                name: header.name,
                environment,
                interrupted: header.interrupted,
                search,
            },
        )))
    }
}

/// Results of a round.
struct RungRound {
    report: Report,
    reading: RungReadings,
}

impl Climb<'_> {
    /// Climb a rung.
    fn rung(&mut self, rounds: &mut Rounds<'_>, rung: &Rung) -> Result<(), Error> {
        let bearable = if rung.number == HIGHEST {
            self.most_connections(rounds)?
        } else {
            0
        };
        let strategy = Strategy::of(rung.number, self.cores, bearable);
        let flags = words(strategy, self.args, self.args.duration);
        let (name, folder) = (
            format!("rung {}", rung.number),
            PathBuf::from(ROUNDS).join(rung.number.to_string()),
        );
        rounds
            .stages
            .begin(&name, rung.name, self.args.duration + BESIDE);
        let round = round(rounds, &name, flags.clone(), &folder);
        let came = round.as_ref().map_or_else(
            |_| "stopped".to_owned(),
            |round| {
                ladder_standing(
                    &round.reading,
                    RungLimit::of(&round.reading).by,
                    rung.published,
                )
            },
        );
        rounds.stages.end(&name, &came);
        let RungRound { report, reading } = round?;
        self.environment
            .get_or_insert_with(|| report.environment.clone());
        self.climbed.push(Climbed {
            rung: *rung,
            flags: redact::words(&flags),
            result: folder.display().to_string(),
            started_at: report.started_at,
            finished_at: report.finished_at,
            validity: report.validity.verdict,
            reading,
        });
        Ok(())
    }

    /// Looks for the number of connections at which most comes back.
    fn most_connections(&mut self, rounds: &mut Rounds<'_>) -> Result<u32, Error> {
        let mut search = Search::new(self.cores, raise_descriptor_limit());
        let time = Search::probe_time(self.args.duration);
        while let Some(connections) = search.next() {
            let flags = words(
                Strategy::of(HIGHEST, self.cores, connections),
                self.args,
                time,
            );
            let folder = PathBuf::from(ROUNDS).join(format!("{HIGHEST}-search-{connections}"));
            rounds.stages.begin(
                "search",
                &format!("{connections} connections"),
                time + BESIDE,
            );
            let round = round(
                rounds,
                &format!("{connections} connections"),
                flags,
                &folder,
            );
            let came = round.as_ref().map_or_else(
                |_| "stopped".to_owned(),
                |round| {
                    format!(
                        "{} connections: {}/s",
                        connections,
                        text::decimal(round.reading.ok_per_s)
                    )
                },
            );
            rounds.stages.end("search", &came);
            let reading = round?.reading;
            let probe = Probe {
                connections,
                ok_per_s: reading.ok_per_s,
            };
            self.search.push(probe);
            search.record(probe, RungLimit::of(&reading).by);
        }
        Ok(search.best())
    }
}

/// Run a round, and read it.
fn round(
    rounds: &mut Rounds<'_>,
    label: &str,
    words: Vec<String>,
    folder: &Path,
) -> Result<RungRound, Error> {
    let setup = Setup::of_this_program(label.to_owned(), words)?;
    let before = ended_children_cpu();
    let taken = rounds.run(&setup, folder)?.by_the_clock(label)?;
    // A round is the only child that ends in the meantime, and it has waited for those of its own.
    let used = ended_children_cpu()
        .zip(before)
        .map(|(after, before)| after.saturating_sub(before));
    let reading = RungReadings::of(&taken.report, used);
    Ok(RungRound {
        report: taken.report,
        reading,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn words(more: &[&str]) -> Vec<String> {
        more.iter().map(|word| (*word).to_owned()).collect()
    }

    /// Check the first rung with these flags after `--`, and return the error message.
    fn checked(more: &[&str]) -> Result<(), String> {
        let line = ["crawlmark", "ladder", "-d", "1s", "--"].iter().chain(more);
        let Ok(Command::Ladder(args)) = Cli::try_parse_from(line).map(|cli| cli.command) else {
            panic!("{more:?}")
        };
        check(&RUNGS[0], &args, 2).map_err(|error| error.message())
    }

    #[test]
    fn what_is_saved_of_a_rung_holds_no_secret() {
        let flags = [
            "-c",
            "2",
            "-H",
            "authorization: Bearer hush",
            "--body",
            "hush hush",
            "-Hx-key: hush",
            "-m",
            "PUT",
        ];
        let told = redact::words(&words(&flags));
        assert_eq!(
            told,
            [
                "-c",
                "2",
                "-H",
                "authorization: ...",
                "--body",
                "...",
                "-Hx-key: ...",
                "-m",
                "PUT"
            ]
        );
    }

    #[test]
    fn what_a_rung_cannot_have_is_refused_before_anything_is_run() {
        assert_eq!(checked(&["--target-latency", "5ms"]), Ok(()));
        for (more, why) in [
            (&["--warmup", "2s"][..], "warmup"),
            (&["--adaptive"], "--adaptive chooses"),
            (&["-n", "5"], "rungs last a fixed time"),
            (&["--out", "x"], "--out is for single runs"),
        ] {
            let refusal = checked(more).unwrap_err();
            assert!(refusal.contains(why), "{more:?}: {refusal}");
        }
    }
}
