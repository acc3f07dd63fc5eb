//! `crawlmark ab`: pairs of rounds of two sides in random order, until it is known whether the
//! candidate is worse.
//!
//! It runs rounds and shows progress; `crawlmark_results::studies::compare` judges them.

mod side;

use std::iter;
use std::mem;
use std::path::PathBuf;
use std::time::Duration;

use crawlmark_harness::clock::{Clock, wall_time};
use crawlmark_harness::plan::RunPlan;
use crawlmark_harness::profile::{Profile, Profiler};
use crawlmark_results::run::report::{Report, rfc3339};
use crawlmark_results::show::text::counted;
use crawlmark_results::studies::Header;
use crawlmark_results::studies::compare::{
    self, Arm, Comparison, Contest, ContestContext, Disturbance, Execution, LOOKS, MachineState,
    Metric, OrderSchedule, Per, RoundProfile, RoundReport, contest_estimate, judge_rounds,
    round_folder, run_metrics,
};
use crawlmark_results::studies::differences::{
    Difference, Incomparable, comparable, comparable_plans, differences,
};

use self::side::Side;
use crate::cli::{AbArgs, Cli, Command, arg, flags_of, name_of};
use crate::error::Error;
use crate::study::{
    self, AROUND, CommandRound, CommandSetup, ROUNDS, Rounds, Setup, Study, minutes, usage,
};
use crate::subject::{Subject, command_metrics_of, fitting_executions};

/// The folder of the rounds of the base against itself.
const EQUALS: &str = "aa";

/// Assumed duration of a pair before one was run, if its rounds have none.
const FIRST_GUESS: Duration = Duration::from_secs(5);

/// Compare, and return the exit code.
pub(crate) fn ab(args: &AbArgs) -> Result<u8, Error> {
    let has_words = !args.base.trim().is_empty() || !args.cand.trim().is_empty();
    let crawls = has_words
        || !args.run.is_empty()
        || args.base_target.is_some()
        || args.cand_target.is_some();
    let commands = args.base_command.is_some();
    // Not told to the parser, which would no longer require --base-command beside the others.
    if crawls && commands {
        return usage(
            "--base-command and --cand-command compare commands: remove the flags of crawls",
        );
    }
    if !crawls && !commands && args.aa.is_none() {
        return usage(
            "there is nothing to compare: give each side flags of its own, as in --base '-c 64' --cand '-c 128'",
        );
    }
    let pairs = Pairs::new(args, ROUNDS.to_owned())?;
    if let [Some(base), Some(candidate)] =
        pairs.sides.each_ref().map(|side| Some(&side.crawl()?.plan))
    {
        comparable_plans(base, candidate)
            .map_err(|error| incomparable(error, [base, candidate]))?;
    }
    let study = AbStudy {
        args,
        pairs,
        noise_floor: None,
    };
    study::conduct(study, &args.keep, "ab")
}

/// The refusal of two sides that are not of the same thing, which names the flag that makes them
/// differ.
pub(crate) fn incomparable(mut error: Incomparable, plans: [&RunPlan; 2]) -> Error {
    let flags = flags_of(&error.difference, plans);
    if flags.iter().any(|flag| flag.id == arg!(rate)) {
        let rates = plans
            .map(RunPlan::shaped_rate)
            .map(|rate| rate.map_or("not set".to_owned(), |rate| rate.to_string()));
        [error.difference.base, error.difference.candidate] = rates;
    }
    let names: Vec<String> = flags.iter().filter_map(|flag| name_of(flag.id)).collect();
    if !names.is_empty() {
        error.difference.what = names.join(", ");
    }
    Error::Usage(error.to_string())
}

/// Run the pairs of an `ab` with these arguments, whose rounds go to `folder`, and judge them.
pub(crate) fn compare_pairs(
    rounds: &mut Rounds<'_>,
    line: &str,
    folder: String,
) -> Result<Comparison, Error> {
    let words = shlex::split(line).unwrap_or_default();
    let own = ["crawlmark", "ab"].map(str::to_owned);
    let Ok(Cli {
        command: Command::Ab(args),
        ..
    }) = Cli::of(own.into_iter().chain(words))
    else {
        return usage(format!("{line}: not arguments of `crawlmark ab`"));
    };
    let mut pairs = Pairs::new(&args, folder)?;
    pairs.run(rounds)?;
    Ok(judge_rounds(&pairs.metrics, &pairs.ran)?)
}

/// Pairs of rounds, and those that ran.
struct Pairs {
    sides: [Side; 2],
    metrics: Vec<Metric>,
    /// Executions in a round of a command.
    executions: u64,
    /// The folder of the rounds in that of the study.
    folder: String,
    /// The most undisturbed pairs.
    most: u64,
    seed: u64,
    ran: Vec<RoundReport>,
    differences: Vec<Difference>,
    /// Reason why functions cannot be sampled.
    not_profiled: Option<String>,
}

/// Both sides in turn, this one first.
fn turns(first: Arm) -> Vec<usize> {
    first.and_other().map(|arm| arm as usize).to_vec()
}

/// A round that ran.
struct RoundRan {
    round: RoundReport,
    state: MachineState,
    /// The report of a crawl.
    report: Option<Report>,
}

/// The study.
struct AbStudy<'a> {
    args: &'a AbArgs,
    pairs: Pairs,
    noise_floor: Option<Comparison>,
}

impl AbStudy<'_> {
    /// Reason why functions were not sampled although they were to be.
    fn not_profiled(&self, ran: &[RoundReport]) -> Option<String> {
        let known = self.pairs.not_profiled.clone();
        let is_missing = self.args.profile && ran.iter().all(|round| round.profile.is_none());
        known.or_else(|| is_missing.then(|| NOT_SAMPLED.to_owned()))
    }
}

/// Reason for no samples where nothing else is known.
const NOT_SAMPLED: &str =
    "no process of a target was found on this machine, or it used no CPU time";

/// The CPU time by function of these executions.
fn of_executions(profile: &Profile, executions: &[Execution]) -> RoundProfile {
    let all_us: f64 = executions.iter().map(|one| one.cpu_us).sum();
    let each_us = all_us / executions.len().max(1) as f64;
    RoundProfile::new(profile, all_us, each_us, Per::Execution)
}

impl Study for AbStudy<'_> {
    type Result = Contest;

    const NEEDS: &'static str = "a pair of rounds was complete";

    fn ready(&self) -> Duration {
        self.args.ready
    }

    fn announcement(&self) -> String {
        let [base, candidate] = &self.pairs.sides;
        let most = self.args.pairs;
        let looks: Vec<u64> = LOOKS
            .iter()
            .map(|look| look.pairs as u64)
            .filter(|pairs| *pairs <= most)
            .collect();
        let first = looks.first().copied().unwrap_or(most) + self.args.aa.unwrap_or(0);
        let until = if looks.is_empty() {
            format!("{most} at most, too few for a verdict")
        } else {
            let counts: Vec<String> = looks.iter().map(ToString::to_string).collect();
            format!(
                "with a look at the verdict after {} pairs",
                counts.join(", ")
            )
        };
        let takes = self.pairs.takes().map_or_else(String::new, |takes| {
            let takes = minutes(takes.mul_f64(first as f64));
            format!("; about {takes} for {}", counted(first, "pair"))
        });
        let notes: String = self
            .pairs
            .sides
            .iter()
            .filter_map(Side::port_note)
            .collect();
        format!(
            "comparing the base ({}) with the candidate ({}) in pairs of rounds in random order, {until}{takes}{notes}",
            base.what, candidate.what
        )
    }

    /// Run the base against itself if that is wanted, then both sides.
    fn run(&mut self, rounds: &mut Rounds<'_>) -> Result<(), Error> {
        if self.args.profile && self.pairs.commands().is_some() {
            match Profiler::of_children() {
                Ok(profiler) => rounds.profiler = Some(profiler),
                Err(why) => rounds.not_profiled = Some(why.to_string()),
            }
        }
        self.pairs.warm_up(rounds, self.args)?;
        if let Some(most) = self.args.aa {
            let base = &self.pairs.sides[0];
            let mut equals = Pairs {
                sides: [base.clone(), base.playing(Arm::Candidate)],
                most,
                executions: self.pairs.executions,
                ..Pairs::new(self.args, EQUALS.to_owned())?
            };
            equals.run(rounds)?;
            self.noise_floor = Some(judge_rounds(&equals.metrics, &equals.ran)?);
        }
        let ran = self.pairs.run(rounds);
        if let Some(why) = rounds.not_profiled.take() {
            self.pairs.not_profiled = Some(why);
        }
        ran
    }

    fn result(&mut self, header: Header) -> Result<Option<Contest>, Error> {
        let mut ran = mem::take(&mut self.pairs.ran);
        // A round without its partner says nothing.
        ran.truncate(ran.len() / 2 * 2);
        if ran.is_empty() {
            return Ok(None);
        }
        let [base, candidate] = self.pairs.sides.each_ref().map(|side| compare::Side {
            name: side.arm.to_string(),
            what: side.what.clone(),
        });
        let not_profiled = self.not_profiled(&ran);
        let context = ContestContext {
            header,
            base,
            candidate,
            differences: mem::take(&mut self.pairs.differences),
            noise_floor: self.noise_floor.take(),
            not_profiled,
        };
        Ok(Some(Contest::new(&self.pairs.metrics, ran, context)?))
    }
}

impl Pairs {
    /// The pairs of an `ab` with these arguments, whose rounds go to `folder`.
    fn new(args: &AbArgs, folder: String) -> Result<Self, Error> {
        Ok(Self {
            sides: [
                Side::new(Arm::Base, args)?,
                Side::new(Arm::Candidate, args)?,
            ],
            metrics: if args.base_command.is_some() {
                command_metrics_of(&args.commands)?
            } else {
                run_metrics().to_vec()
            },
            executions: 1,
            folder,
            most: args.pairs,
            seed: args.seed,
            ran: Vec::new(),
            differences: Vec::new(),
            not_profiled: None,
        })
    }

    /// Return the expected duration of a pair; none if its rounds end when their items are done.
    fn takes(&self) -> Option<Duration> {
        let [base, candidate] = self.sides.each_ref().map(|side| side.crawl()?.round);
        Some(base? + candidate? + 2 * AROUND)
    }

    /// Execute the commands as often as is wanted before the first round, and find out how many
    /// executions a round has.
    fn warm_up(&mut self, rounds: &mut Rounds<'_>, args: &AbArgs) -> Result<(), Error> {
        if let Some(setups) = self.commands() {
            rounds.begin("warm-up", "", FIRST_GUESS);
            let orders = (0..args.commands.warmup).map(|_| turns(Arm::Base));
            let fitting = fitting_executions(&rounds.execute(&setups, orders)?);
            self.executions = args.commands.executions.unwrap_or(fitting);
        }
        Ok(())
    }

    /// Run pairs until the comparison is over, or there are enough undisturbed ones. A disturbed
    /// one is run again in its own order.
    fn run(&mut self, rounds: &mut Rounds<'_>) -> Result<(), Error> {
        let mut orders = OrderSchedule::new(self.seed);
        let (mut order, mut undisturbed) = (orders.next(), 0);
        let (mut takes, mut estimate) = (self.takes().unwrap_or(FIRST_GUESS), String::new());
        let label = if self.folder == EQUALS { "a/a" } else { "pair" };
        while let Some(now) = order.filter(|_| undisturbed < self.most) {
            let (clock, name) = (
                Clock::start(),
                format!("{label} {}", self.ran.len() / 2 + 1),
            );
            rounds.begin(&name, &estimate, takes);
            let disturbance = self.run_pair(rounds, now)?;
            takes = Duration::from_nanos(clock.now().0);
            let comparison = judge_rounds(&self.metrics, &self.ran)?;
            estimate = contest_estimate(&comparison);
            if disturbance == Disturbance::None {
                rounds.stages.end(&name, &estimate);
                undisturbed += 1;
                order = orders.next();
            } else {
                let line = format!("left out, run again: {}", disturbance.words());
                rounds.stages.end(&name, &line);
            }
            if comparison.is_over() {
                break;
            }
        }
        Ok(())
    }

    /// Run a pair, and say whether the machine was undisturbed during it.
    fn run_pair(&mut self, rounds: &mut Rounds<'_>, first: Arm) -> Result<Disturbance, Error> {
        let number = self.ran.len() / 2 + 1;
        let ran = if let Some(setups) = self.commands() {
            self.execute_pair(rounds, setups, number, first)?
        } else {
            let mut ran = Vec::new();
            for arm in first.and_other() {
                let crawl = self.sides[arm as usize].crawl();
                if let Some(setup) = crawl.map(|crawl| crawl.setup.clone()) {
                    ran.push(self.crawl(rounds, &setup, number, arm)?);
                }
            }
            ran
        };
        let disturbance = match &ran[..] {
            [one, other] => Disturbance::of_pair(
                [one.state, other.state],
                [&one.round.round.readings, &other.round.round.readings],
                &self.metrics,
            ),
            _ => Disturbance::None,
        };
        let reports = [Arm::Base, Arm::Candidate].map(|arm| {
            ran.iter()
                .find(|one| one.round.round.arm == arm)?
                .report
                .as_ref()
        });
        if let (true, [Some(base), Some(candidate)]) = (self.ran.is_empty(), reports) {
            self.differences = differences(base, candidate);
            // The port of a target that each round starts itself is no difference.
            let mut crawls = self.sides.iter().filter_map(Side::crawl);
            if crawls.all(|crawl| crawl.starts_its_target) {
                self.differences.retain(|one| !one.is_of_targets());
            }
            self.differences.extend(Side::commands_apart(&self.sides));
            let plans = [&base.plan.run, &candidate.plan.run];
            comparable(base, candidate).map_err(|error| incomparable(error, plans))?;
        }
        for RoundRan { mut round, .. } in ran {
            round.round.disturbance = disturbance;
            self.ran.push(round);
        }
        Ok(disturbance)
    }

    /// The commands of both sides; none of crawls.
    fn commands(&self) -> Option<[&CommandSetup; 2]> {
        match self.sides.each_ref().map(|side| &side.subject) {
            [Subject::Command(base), Subject::Command(candidate)] => Some([base, candidate]),
            _ => None,
        }
    }

    /// Run a pair of crawls' round of `arm`.
    fn crawl(
        &mut self,
        rounds: &mut Rounds<'_>,
        setup: &Setup,
        pair: usize,
        arm: Arm,
    ) -> Result<RoundRan, Error> {
        let place = PathBuf::from(&self.folder).join(round_folder(pair, arm));
        let report = rounds.run(setup, &place)?.report;
        let target = report.target.as_ref();
        if let Some(why) = target.and_then(|target| target.unavailable.get("functions")) {
            self.not_profiled = Some(why.clone());
        }
        let result = place.display().to_string();
        Ok(RoundRan {
            round: RoundReport::new(&report, pair, arm, result),
            state: MachineState::of_run(&report),
            report: Some(report),
        })
    }

    /// Run both rounds of a pair of commands. The sides take turns: what changes on the machine
    /// within the pair is in both.
    fn execute_pair(
        &self,
        rounds: &mut Rounds<'_>,
        setups: [&CommandSetup; 2],
        pair: usize,
        first: Arm,
    ) -> Result<Vec<RoundRan>, Error> {
        let draw = OrderSchedule::new(self.seed.wrapping_add(pair as u64));
        let orders = iter::once(first)
            .chain(draw)
            .take(usize::try_from(self.executions).unwrap_or(usize::MAX))
            .map(turns);
        let started_at = rfc3339(wall_time());
        let mut both = rounds.execute(&setups, orders)?;
        let times = [started_at, rfc3339(wall_time())];
        let ran = first.and_other().map(|arm| {
            let CommandRound {
                executions,
                suspended,
                profile,
            } = mem::take(&mut both[arm as usize]);
            let profile = profile.map(|profile| of_executions(&profile, &executions));
            RoundRan {
                round: RoundReport {
                    profile,
                    ..RoundReport::of_command(executions, pair, arm, times.clone())
                },
                state: MachineState {
                    frozen_us: suspended.as_secs_f64() * 1e6,
                    ..MachineState::default()
                },
                report: None,
            }
        });
        Ok(ran.into())
    }
}
