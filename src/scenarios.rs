//! `crawlmark ladder` and `crawlmark patterns`: run the scenarios of a list one after the other, each
//! with flags of `run`, and show them side by side.
//!
//! It runs rounds and shows progress; `crawlmark_results::studies::scenarios` has the lists, and
//! finds what limited each.

use std::mem;
use std::path::PathBuf;
use std::time::Duration;

use crawlmark_harness::process::{raise_descriptor_limit, usable_cpus};
use crawlmark_results::run::report::Environment;
use crawlmark_results::show::text;
use crawlmark_results::studies::Header;
use crawlmark_results::studies::scenarios::{
    Scenario, ScenarioList, ScenarioReadings, ScenarioReport, Scenarios,
};

use crate::cli::{LadderArgs, PatternsArgs, arg, given_in_rounds};
use crate::crawl::redact;
use crate::error::Error;
use crate::run;
use crate::study::{self, ROUNDS, Rounds, Setup, Study, minutes, round_flags, understood, usage};

/// Source of the flags, as errors name it.
const WHOSE: &str = "the flags after --";

/// Connections for each core of the scenario that goes as far as it can: 65,000/s at the 63 ms of the
/// target, more than a core does.
const PER_CORE: u64 = 4_096;

/// One for each source address, of which the first and the last of a /16 are none.
const ADDRESSES: u32 = (1 << 16) - 2;

/// Descriptors of a process that are no connections.
const OTHERS: u64 = 64;

/// Time that a round takes beyond its duration: to start, to connect, and to end.
const BESIDE: Duration = Duration::from_millis(500);

/// Divisor of a scenario's time that gives its warm-up where connections are kept: the handshakes of
/// its beginning are no part of how fast kept connections are.
const WARM_UP: u32 = 4;

/// Behaviour of the bundled target beneath the patterns: waits that differ, and a limit above the
/// rate and below what the connections could do.
const PATTERNS_TARGET: [&str; 4] = [
    "--target-latency",
    "lognormal:60ms,0.5",
    "--target-limit",
    "250/s:burst=50:key=everyone",
];

/// Climb the ladder, and return the exit code.
pub(crate) fn ladder(args: &LadderArgs) -> Result<u8, Error> {
    if understood(WHOSE, &args.run).is_ok_and(|typed| !typed.is_bundled()) {
        return usage(
            "the ladder climbs the bundled target only: remove the URL after --, or measure it with `crawlmark run`"
                .to_owned());
    }
    let mut study = ScenarioStudy::new(ScenarioList::Ladder, args.duration, args.seed);
    study.run.clone_from(&args.run);
    if !args.rungs.is_empty() {
        study.scenarios.retain(|of| args.rungs.contains(&of.number));
    }
    study.check()?;
    study::conduct(study, &args.keep, "ladder")
}

/// Run the patterns, and return the exit code.
pub(crate) fn patterns(args: &PatternsArgs) -> Result<u8, Error> {
    let mut run = Vec::from_iter(args.url.clone());
    run.extend(args.run.iter().cloned());
    // Its latency and limit belong together: a command line that sets one sets both.
    let given = given_in_rounds(&run);
    let has_target = given.iter().any(|flag| flag.starts_with("target_"));
    if understood(WHOSE, &run)?.is_bundled() && !has_target {
        run.extend(PATTERNS_TARGET.map(str::to_owned));
    }
    let mut study = ScenarioStudy::new(ScenarioList::Patterns, args.duration, args.seed);
    study.run = run;
    study.values = vec![
        ("{c}", args.connections),
        ("{4c}", args.connections.saturating_mul(4)),
        ("{rate}", args.rate),
        // Two at least, if there are connections for them: one would be the semaphore once more.
        ("{processes}", study.cores.max(2).min(args.connections)),
    ];
    study.check()?;
    study::conduct(study, &args.keep, "patterns")
}

/// The scenarios to run, and those that were run.
struct ScenarioStudy {
    list: ScenarioList,
    scenarios: Vec<&'static Scenario>,
    /// Values of the placeholders that are the command's own.
    values: Vec<(&'static str, u32)>,
    /// Flags of `run` for each, beyond its own.
    run: Vec<String>,
    duration: Duration,
    seed: u64,
    cores: u32,
    /// Connections of the scenario that goes as far as it can.
    most: u32,
    done: Vec<ScenarioReport>,
    environment: Option<Environment>,
}

impl Study for ScenarioStudy {
    type Result = Scenarios;

    const NEEDS: &'static str = "the first of them was run";

    fn announcement(&self) -> String {
        let (count, [_, noun]) = (self.scenarios.len(), self.list.words());
        let place = match self.list {
            ScenarioList::Ladder => ", against the bundled target; nothing leaves this machine",
            ScenarioList::Patterns => "",
        };
        format!(
            "{} of {:?} each, about {} in all{place}",
            text::counted(count as u64, noun),
            self.duration,
            minutes((self.duration + BESIDE).mul_f64(count as f64))
        )
    }

    fn run(&mut self, rounds: &mut Rounds<'_>) -> Result<(), Error> {
        for scenario in self.scenarios.clone() {
            self.scenario(rounds, scenario)?;
        }
        Ok(())
    }

    fn result(&mut self, header: Header) -> Result<Option<Scenarios>, Error> {
        let done = mem::take(&mut self.done);
        Ok(self
            .environment
            .take()
            .map(|environment| Scenarios::new(header, self.list, environment, done)))
    }
}

impl ScenarioStudy {
    fn new(list: ScenarioList, duration: Duration, seed: u64) -> Self {
        let cores = u32::try_from(usable_cpus().len().max(1)).unwrap_or(1);
        Self {
            list,
            scenarios: list.scenarios().iter().collect(),
            values: Vec::new(),
            run: Vec::new(),
            duration,
            seed,
            cores,
            most: most_connections(cores, raise_descriptor_limit()),
            done: Vec::new(),
            environment: None,
        }
    }

    /// The flags of `run` that a scenario is, for a run of this length.
    fn words(&self, scenario: &Scenario) -> Vec<String> {
        let mut words = self.own_words(scenario);
        words.extend(self.run.iter().cloned());
        words
    }

    /// The flags that a scenario sets.
    fn own_words(&self, scenario: &Scenario) -> Vec<String> {
        let values = [
            ("{d}", humantime::format_duration(self.duration).to_string()),
            (
                "{warmup}",
                humantime::format_duration(self.duration / WARM_UP).to_string(),
            ),
            ("{seed}", self.seed.to_string()),
            ("{cores}", self.cores.to_string()),
            ("{most}", self.most.to_string()),
        ];
        let own = self
            .values
            .iter()
            .map(|(name, value)| (*name, value.to_string()));
        let values: Vec<_> = values.into_iter().chain(own).collect();
        let line = [scenario.flags, self.list.flags()].join(" ");
        let words = shlex::split(&line).unwrap_or_default();
        words
            .into_iter()
            .map(|word| {
                values
                    .iter()
                    .fold(word, |word, (name, value)| word.replace(name, value))
            })
            .collect()
    }

    /// Check that the flags after -- go together with those of each scenario, before anything is
    /// run.
    fn check(&self) -> Result<(), Error> {
        let [command, noun] = self.list.words();
        for scenario in &self.scenarios {
            let own = given_in_rounds(&self.own_words(scenario));
            let mut taken: Vec<&str> = own.iter().map(String::as_str).collect();
            taken.extend([arg!(requests), arg!(throttling.adaptive)]);
            round_flags(command, WHOSE, &self.run, &taken)?;
            let whose = format!("{noun} {} and {WHOSE}, together", scenario.number);
            run::check(&understood(&whose, &self.words(scenario))?)?;
        }
        Ok(())
    }

    fn scenario(&mut self, rounds: &mut Rounds<'_>, scenario: &Scenario) -> Result<(), Error> {
        let flags = self.words(scenario);
        let name = format!("{} {}", self.list.words()[1], scenario.number);
        let folder = PathBuf::from(ROUNDS).join(scenario.number.to_string());
        rounds.step(&name, scenario.name);
        rounds
            .stages
            .begin(&name, scenario.name, self.duration + BESIDE);
        let setup = Setup::of_this_program(name.clone(), flags.clone())?;
        let results = rounds.run(&setup, &folder);
        let ran = results.and_then(|results| {
            let results = results.by_the_clock(&name)?;
            let (report, flags) = (results.report, redact::words(&flags));
            let readings = ScenarioReadings::of(&report, results.cpu);
            let result = folder.display().to_string();
            let done = ScenarioReport::new(scenario, flags, result, &report, readings);
            Ok((done, report.environment))
        });
        let line = ran
            .as_ref()
            .map_or_else(|_| "stopped".to_owned(), |(done, _)| done.line());
        rounds.stages.end(&name, &line);
        let (done, environment) = ran?;
        self.environment.get_or_insert(environment);
        self.done.push(done);
        Ok(())
    }
}

/// The connections of the scenario that goes as far as it can: enough to use up its CPUs, and no more
/// than there are descriptors for, in the processes of the crawl and in as many of the target, over
/// which the kernel spreads them by chance. A process of those may get a fifth more than its share.
fn most_connections(cores: u32, descriptors: Option<u64>) -> u32 {
    let each = descriptors.unwrap_or(u64::MAX).saturating_sub(OTHERS) / 5 * 4;
    let cores = u64::from(cores);
    let most = each.min(PER_CORE).saturating_mul(cores).max(cores);
    u32::try_from(most).unwrap_or(u32::MAX).min(ADDRESSES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn study(list: ScenarioList, more: &[&str]) -> ScenarioStudy {
        ScenarioStudy {
            values: vec![
                ("{c}", 20),
                ("{4c}", 80),
                ("{rate}", 200),
                ("{processes}", 2),
            ],
            run: more.iter().map(|word| (*word).to_owned()).collect(),
            cores: 2,
            most: most_connections(2, Some(20_000)),
            ..ScenarioStudy::new(list, Duration::from_secs(4), 1)
        }
    }

    #[test]
    fn every_scenario_is_flags_of_run() {
        for list in [ScenarioList::Ladder, ScenarioList::Patterns] {
            let study = study(list, &["--target-latency", "5ms"]);
            study.check().unwrap();
            // No placeholder is left, and none of its flags may be chosen for all.
            for scenario in &study.scenarios {
                let words = study.words(scenario).join(" ");
                assert!(!words.contains('{'), "{words}");
            }
        }
        let words = |list: ScenarioList, number: usize| {
            let study = study(list, &[]);
            study.words(study.scenarios[number - 1]).join(" ")
        };
        assert_eq!(
            words(ScenarioList::Ladder, 1),
            "-s 1 -c 1 --disable-keepalive --target-profile article -d 4s --seed 1"
        );
        assert_eq!(
            words(ScenarioList::Ladder, 7),
            "-s 2 -c 8192 --local-ips 127.64.0.0/16 --warmup 1s --target-profile article -d 4s --seed 1"
        );
        assert_eq!(
            words(ScenarioList::Patterns, 4),
            "-s 1 -c 20 --rate 200 --arrivals constant --queue 200 -d 4s --seed 1"
        );
    }

    #[test]
    fn connections_stay_within_what_a_process_may_open_and_the_addresses_there_are() {
        assert_eq!(most_connections(2, Some(1_064)), 1_600);
        assert_eq!(most_connections(64, None), 65_534);
        // One for each process, whatever comes of it.
        assert_eq!(most_connections(2, Some(10)), 2);
    }

    #[test]
    fn what_a_scenario_cannot_have_is_refused_before_anything_is_run() {
        for (more, why) in [
            (&["--warmup", "2s"][..], "warmup"),
            (&["--adaptive"], "--adaptive"),
            (&["-n", "5"], "--requests"),
            (&["--out", "x"], "--out is for single runs"),
        ] {
            let refusal = study(ScenarioList::Ladder, more)
                .check()
                .unwrap_err()
                .message();
            assert!(refusal.contains(why), "{more:?}: {refusal}");
        }
    }
}
