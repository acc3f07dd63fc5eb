//! `crawlmark ab`: pairs of rounds of two sides in random order, until it is known whether the
//! candidate is worse.
//!
//! It runs rounds and shows progress; `crawlmark_results::studies::compare` judges them.

mod side;

use std::mem;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crawlmark_harness::clock::Clock;
use crawlmark_harness::plan::RunPlan;
use crawlmark_results::run::report::Report;
use crawlmark_results::show::text::counted;
use crawlmark_results::studies::Header;
use crawlmark_results::studies::compare::{
    self, Arm, Comparison, Contest, ContestContext, Difference, Disturbance, Incomparable, Order,
    OrderSchedule, RoundReport, Rule, comparable, contest_standing, differences, judge_rounds,
    pair_line, plan_differences, round_folder,
};

use self::side::Side;
use crate::cli::{AbArgs, Cli, Command};
use crate::error::Error;
use crate::run::in_flags;
use crate::study::{self, AROUND, Announcement, ROUNDS, RoundResults, Rounds, Study, minutes};

/// The folder of the rounds of the base against itself.
const EQUALS: &str = "aa";

/// Assumed duration of a pair before one was run, if its rounds have none.
const FIRST_GUESS: Duration = Duration::from_secs(5);

/// Return the expected duration of a pair; none if its rounds end when their items are done.
fn pair(sides: &[Side; 2]) -> Option<Duration> {
    let [base, candidate] = sides;
    Some(base.round? + candidate.round? + 2 * AROUND)
}

/// Compare, and return the exit code.
pub(crate) fn ab(args: &AbArgs) -> Result<u8, Error> {
    if is_of_nothing(args) {
        return Err(Error::Usage(
            "there is nothing to compare: give each side flags of its own, as in --base '-c 64' --cand '-c 128'"
                .to_owned(),
        ));
    }
    let sides = [
        Side::new(Arm::Base, args)?,
        Side::new(Arm::Candidate, args)?,
    ];
    if let [
        Side {
            plan: Some(base), ..
        },
        Side {
            plan: Some(candidate),
            ..
        },
    ] = &sides
    {
        comparable(&plan_differences(base, candidate))
            .map_err(|error| incomparable(error, [base, candidate]))?;
    }
    study::conduct(
        AbStudy {
            args,
            sides,
            series: AbRounds::default(),
            noise_floor: None,
        },
        &args.keep,
        "ab",
    )
}

/// The refusal of two sides that are not of the same thing, which names the flag that makes them
/// differ.
pub(crate) fn incomparable(error: Incomparable, plans: [&RunPlan; 2]) -> Error {
    let error = match in_flags(error.key(), plans) {
        Some((flag, values)) => error.by_flag(flag, values),
        None => error,
    };
    Error::Usage(error.to_string())
}

/// Run the pairs of an `ab` with these arguments, whose rounds go to `folder`, and judge them.
pub(crate) fn compare_pairs(
    rounds: &mut Rounds<'_>,
    line: &str,
    folder: &str,
) -> Result<Comparison, Error> {
    let words = shlex::split(line).unwrap_or_default();
    let own = ["crawlmark", "ab"].map(str::to_owned);
    let Ok((Cli { command, .. }, _)) = Cli::of(own.into_iter().chain(words)) else {
        return Err(Error::Usage(format!(
            "{line}: not arguments of `crawlmark ab`"
        )));
    };
    let Command::Ab(args) = command else {
        return Err(Error::Usage(format!("{line}: another command")));
    };
    let sides = [
        Side::new(Arm::Base, &args)?,
        Side::new(Arm::Candidate, &args)?,
    ];
    let mut series = AbRounds::default();
    run_pairs(rounds, &sides, (folder, args.pairs, args.seed), &mut series)?;
    Ok(judge_rounds(&series.ran)?)
}

/// True if no flag says what is compared.
fn is_of_nothing(args: &AbArgs) -> bool {
    let AbArgs {
        base,
        cand,
        base_target,
        cand_target,
        base_bin,
        cand_bin,
        aa,
        run,
        ..
    } = args;
    let has_words = !base.trim().is_empty() || !cand.trim().is_empty() || !run.is_empty();
    let has_programs = [base_target, cand_target]
        .iter()
        .any(|target| target.is_some())
        || [base_bin, cand_bin].iter().any(|program| program.is_some());
    !has_words && !has_programs && aa.is_none()
}

/// Rounds that ran, and what differs between the arms.
#[derive(Default)]
struct AbRounds {
    ran: Vec<RoundReport>,
    differences: Vec<Difference>,
}

/// The pairs.
struct AbStudy<'a> {
    args: &'a AbArgs,
    sides: [Side; 2],
    series: AbRounds,
    noise_floor: Option<Comparison>,
}

impl Study for AbStudy<'_> {
    type Result = Contest;

    const NEEDS: &'static str = "a pair of rounds was complete";

    fn ready(&self) -> Duration {
        self.args.ready
    }

    fn announcement(&self, _: &Path) -> Announcement {
        let rule = Rule::standard();
        let most = self.args.pairs;
        let looks = rule.looks().iter().filter(|look| look.pairs as u64 <= most);
        let looks: Vec<u64> = looks.map(|look| look.pairs as u64).collect();
        let until = match looks.split_last() {
            None => format!("{most} at most: too few for a verdict"),
            Some((last, [])) => format!(
                "with a look at the verdict after {}",
                counted(*last, "pair")
            ),
            Some((last, before)) => {
                let before: Vec<String> = before.iter().map(ToString::to_string).collect();
                format!(
                    "until a verdict is reached, after {} or {last} pairs",
                    before.join(", ")
                )
            }
        };
        let [base, candidate] = &self.sides;
        let sentence = format!(
            "comparing the base ({}) with the candidate ({})",
            base.what, candidate.what
        );
        let mut rows = vec![("rounds", format!("in pairs, in random order, {until}"))];
        rows.extend(pair(&self.sides).map(|pair| ("time", self.time(pair, (&looks, most)))));
        rows.extend(
            self.sides
                .iter()
                .filter_map(Side::port_note)
                .map(|note| ("note", note)),
        );
        (sentence, rows)
    }

    /// Run the base against itself if that is wanted, then both sides.
    fn run(&mut self, rounds: &mut Rounds<'_>) -> Result<(), Error> {
        let sides = &self.sides;
        if let Some(pairs) = self.args.aa {
            let equals = [sides[0].clone(), sides[0].playing(Arm::Candidate)];
            let mut series = AbRounds::default();
            run_pairs(
                rounds,
                &equals,
                (EQUALS, pairs, self.args.seed),
                &mut series,
            )?;
            self.noise_floor = Some(judge_rounds(&series.ran)?);
        }
        run_pairs(
            rounds,
            &self.sides,
            (ROUNDS, self.args.pairs, self.args.seed),
            &mut self.series,
        )
    }

    fn result(&mut self, header: Header) -> Result<Option<Contest>, Error> {
        let AbRounds {
            mut ran,
            differences,
        } = mem::take(&mut self.series);
        // A round without its partner says nothing.
        ran.truncate(ran.len() / 2 * 2);
        if ran.is_empty() {
            return Ok(None);
        }
        let [base, candidate] = self.sides.clone().map(|side| compare::Side {
            name: side.arm.to_string(),
            what: side.what,
        });
        let context = ContestContext {
            header,
            base,
            candidate,
            differences,
            noise_floor: self.noise_floor.take(),
        };
        Ok(Some(Contest::new(ran, context)?))
    }
}

impl AbStudy<'_> {
    /// Return the expected time until the first and the last look, of pairs that take `pair` each.
    fn time(&self, pair: Duration, (looks, most): (&[u64], u64)) -> String {
        let first = self.args.aa.unwrap_or(0);
        let until = |pairs: u64| {
            minutes(pair.saturating_mul(u32::try_from(first + pairs).unwrap_or(u32::MAX)))
        };
        let (soonest, last) = (
            looks.first().copied().unwrap_or(most),
            looks.last().copied().unwrap_or(most),
        );
        let longest = if last > soonest {
            format!(", {} for {last}", until(last))
        } else {
            String::new()
        };
        let equals = if first > 0 {
            format!(
                ", with {} of the base against itself",
                counted(first, "pair")
            )
        } else {
            String::new()
        };
        format!(
            "about {} for {}{longest}{equals}; a disturbed pair is run again",
            until(soonest),
            counted(soonest, "pair")
        )
    }
}

/// Run pairs until the comparison is over, or there are `most` undisturbed ones. A disturbed one is
/// run again in its own order.
fn run_pairs(
    rounds: &mut Rounds<'_>,
    sides: &[Side; 2],
    (folder, most, seed): (&str, u64, u64),
    series: &mut AbRounds,
) -> Result<(), Error> {
    let mut orders = OrderSchedule::new(seed);
    let (mut order, mut undisturbed, mut takes) =
        (orders.next(), 0, pair(sides).unwrap_or(FIRST_GUESS));
    let mut standing = String::new();
    while let Some(now) = order.filter(|_| undisturbed < most) {
        let (clock, name) = (
            Clock::start(),
            format!("{} {}", label(folder), series.ran.len() / 2 + 1),
        );
        if rounds.stages.is_drawn() {
            rounds.stages.begin(&name, &standing, takes);
        }
        let disturbance = run_pair(rounds, sides, (folder, now), series)?;
        takes = Duration::from_nanos(clock.now().0);
        let comparison = judge_rounds(&series.ran)?;
        standing = contest_standing(&comparison);
        let of_pair = pair_line(&series.ran[series.ran.len().saturating_sub(2)..]);
        if disturbance == Disturbance::None {
            rounds.stages.end(&name, &of_pair);
            // One pair is its own estimate.
            if undisturbed > 0 {
                rounds.stages.end("so far", &standing);
            }
            undisturbed += 1;
            order = orders.next();
        } else {
            rounds.stages.end(
                &name,
                &format!("left out, run again: {}; {of_pair}", disturbance.words()),
            );
        }
        if comparison.is_over() {
            break;
        }
    }
    Ok(())
}

/// Run a pair, and say whether the machine was undisturbed during it.
fn run_pair(
    rounds: &mut Rounds<'_>,
    sides: &[Side; 2],
    (folder, order): (&str, Order),
    series: &mut AbRounds,
) -> Result<Disturbance, Error> {
    let [base, candidate] = sides;
    let in_turn = match order {
        Order::BaseFirst => [base, candidate],
        Order::CandidateFirst => [candidate, base],
    };
    let number = series.ran.len() / 2 + 1;
    // A round, and where its result lies in the comparison's directory.
    let mut round = |side: &Side| -> Result<(RoundResults, PathBuf), Error> {
        let place = PathBuf::from(folder).join(round_folder(number, side.arm));
        Ok((rounds.run(&side.setup, &place)?, place))
    };
    let (first, second) = (round(in_turn[0])?, round(in_turn[1])?);
    let disturbance = Disturbance::of_pair([&first.0.report, &second.0.report]);
    if series.ran.is_empty() {
        let (of_base, of_candidate) = match order {
            Order::BaseFirst => (&first.0.report, &second.0.report),
            Order::CandidateFirst => (&second.0.report, &first.0.report),
        };
        series.differences = told_apart(sides, of_base, of_candidate);
        let plans = [&of_base.plan.run, &of_candidate.plan.run];
        comparable(&series.differences).map_err(|error| incomparable(error, plans))?;
    }
    for ((taken, place), side) in [first, second].iter().zip(in_turn) {
        let place = (number, side.arm, place.display().to_string());
        let round = RoundReport::new(&taken.report, place, taken.target_cpu);
        series.ran.push(RoundReport {
            disturbance,
            ..round
        });
    }
    Ok(disturbance)
}

/// Return the label of a pair while it runs: `a/a` for the base against itself, `pair` otherwise.
fn label(folder: &str) -> &'static str {
    if folder == EQUALS { "a/a" } else { "pair" }
}

/// Return the differences between the sides. The ports of targets that each round starts itself do
/// not count as one.
fn told_apart(sides: &[Side; 2], base: &Report, candidate: &Report) -> Vec<Difference> {
    let mut found = differences(base, candidate);
    if sides.iter().all(Side::starts_its_target) {
        found.retain(|difference| difference.what != "plan.target");
    }
    let [base, candidate] = sides;
    found.extend(base.commands_apart(candidate));
    found
}
