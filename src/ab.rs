//! `crawlmark ab`: pairs of rounds of two sides in random order, until it is known whether the candidate is worse.
//!
//! It runs rounds and shows how far it is; what the rounds mean is said by `crawlmark_results::studies::compare`.

mod side;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crawlmark_harness::clock::Clock;
use crawlmark_harness::supervisor::HeldSignals;
use crawlmark_results::export;
use crawlmark_results::run::report::Report;
use crawlmark_results::show::plot;
use crawlmark_results::show::text;
use crawlmark_results::studies::compare::{
    self, Arm, Circumstances, Comparison, Contest, Difference, Disturbance, FILE, Order, OrderSchedule, Overall,
    RoundReport, Rule, comparable, differences, judge_rounds,
};

use self::side::Side;
use crate::cli::{AbArgs, FormArgs, KeepArgs};
use crate::error::{DONE, Error, GATE, INCONCLUSIVE, signalled};
use crate::rounds::{self, Rounds, Taken};

/// The folder of the rounds.
const ROUNDS: &str = "rounds";

/// The folder of the rounds of the base against itself.
const EQUALS: &str = "aa";

/// How long a pair is thought to take before one was run.
const FIRST_GUESS: Duration = Duration::from_secs(5);

/// Compares, and returns the exit code.
pub(crate) fn ab(args: &AbArgs) -> Result<u8, Error> {
    if is_of_nothing(args) {
        return Err(Error::Usage(
            "there is nothing to compare: give each side what makes it different, as in --base '-c 64' --cand '-c 128'"
                .to_owned(),
        ));
    }
    let sides = [Side::new(Arm::Base, args)?, Side::new(Arm::Candidate, args)?];
    let name = args.keep.name_or("ab");
    let directory = rounds::directory(&args.keep, &name)?;
    let held = HeldSignals::hold().map_err(Error::Signal)?;
    let mut stages = rounds::stages(&args.keep);
    announce(&args.keep, &sides, args.pairs);
    let mut bench =
        Bench { rounds: Rounds::new(&held, &mut stages, args.ready), seed: args.seed, place: directory.place() };
    let Outcome { series, noise_floor, interrupted_by, failed } = bench.compare(args, &sides);
    // Neither what was measured nor the exit code may be lost to an impatient second Ctrl-C.
    std::mem::forget(held);
    if series.ran.len() < 2 {
        return match failed {
            Some(error) => Err(error.keeping(directory)),
            None => Ok(rounds::stopped("a pair of rounds was complete", directory, interrupted_by)),
        };
    }
    let contest = Contest::new(
        series.ran,
        Circumstances {
            name,
            sides: sides.map(|side| compare::Side { name: side.arm.to_string(), what: side.what }),
            differences: series.differences,
            interrupted: interrupted_by.is_some() || failed.is_some(),
            noise_floor,
        },
    );
    let contest = match contest {
        Ok(contest) => contest,
        Err(error) => return Err(Error::from(error).keeping(directory)),
    };
    rounds::conclude(&args.keep, directory, &files(&contest)?, || print(&contest, args.keep.form))?;
    match failed {
        Some(error) => Err(error),
        None => Ok(interrupted_by.map_or_else(|| exit_code(contest.verdict), signalled)),
    }
}

/// What is saved of a contest beside its rounds.
pub(crate) fn files(contest: &Contest) -> Result<Vec<(&'static str, String)>, Error> {
    Ok(vec![
        (FILE, serde_json::to_string_pretty(contest)? + "\n"),
        ("summary.md", text::contest_markdown(contest)),
        ("junit.xml", export::contest_junit(contest)),
        ("plots/pairs.svg", plot::pairs(contest).svg),
    ])
}

/// A comparison that has found nothing is no failure of the candidate's, and no success either.
pub(crate) const fn exit_code(verdict: Overall) -> u8 {
    match verdict {
        Overall::Pass => DONE,
        Overall::Regression => GATE,
        Overall::Inconclusive | Overall::Incomparable => INCONCLUSIVE,
    }
}

/// Prints a contest: as JSON, as Markdown, or for people.
pub(crate) fn print(contest: &Contest, form: FormArgs) -> Result<(), Error> {
    rounds::print(contest, form, text::contest_markdown, text::contest_text)
}

/// True if no flag says what is compared.
fn is_of_nothing(args: &AbArgs) -> bool {
    let AbArgs { base, cand, base_target, cand_target, base_bin, cand_bin, aa, run, .. } = args;
    let has_words = !base.trim().is_empty() || !cand.trim().is_empty() || !run.is_empty();
    let has_programs = [base_target, cand_target].iter().any(|target| target.is_some())
        || [base_bin, cand_bin].iter().any(|program| program.is_some());
    !has_words && !has_programs && aa.is_none()
}

fn announce(keep: &KeepArgs, [base, candidate]: &[Side; 2], most: u64) {
    let rule = Rule::standard();
    let looks = rule.looks().iter().filter(|look| look.pairs as u64 <= most);
    let looks: Vec<String> = looks.map(|look| look.pairs.to_string()).collect();
    let until = match looks.split_last() {
        None => format!("{most} at most: too few for a verdict"),
        Some((last, [])) => format!("until it is known: after {last} pairs, or not"),
        Some((last, before)) => format!("until it is known: after {} or {last} pairs", before.join(", ")),
    };
    let what = format!("comparing the base ({}) with the candidate ({})", base.what, candidate.what);
    rounds::announce(keep, &what, &[("rounds", format!("in pairs, in random order, {until}"))]);
}

/// What came of running rounds.
struct Outcome {
    series: Series,
    noise_floor: Option<Comparison>,
    interrupted_by: Option<i32>,
    /// Error, in a round or around it.
    failed: Option<Error>,
}

/// Rounds that ran, and what differs between the arms.
#[derive(Default)]
struct Series {
    ran: Vec<RoundReport>,
    differences: Vec<Difference>,
}

/// Where pairs are run.
struct Bench<'a> {
    rounds: Rounds<'a>,
    seed: u64,
    place: &'a Path,
}

impl Bench<'_> {
    /// Runs the base against itself if that is wanted, then both sides. A signal ends it, and so does whatever fails; what was
    /// run stays.
    fn compare(&mut self, args: &AbArgs, sides: &[Side; 2]) -> Outcome {
        let mut outcome = Outcome { series: Series::default(), noise_floor: None, interrupted_by: None, failed: None };
        match self.both(args, sides, &mut outcome) {
            Ok(()) => {}
            Err(Error::Stopped(signal)) => outcome.interrupted_by = Some(signal),
            Err(error) => outcome.failed = Some(error),
        }
        // A round without its partner says nothing.
        outcome.series.ran.truncate(outcome.series.ran.len() / 2 * 2);
        outcome
    }

    fn both(&mut self, args: &AbArgs, sides: &[Side; 2], outcome: &mut Outcome) -> Result<(), Error> {
        if let Some(pairs) = args.aa {
            let equals = [sides[0].clone(), sides[0].playing(Arm::Candidate)];
            let mut series = Series::default();
            self.pairs(&equals, (EQUALS, pairs), &mut series)?;
            outcome.noise_floor = Some(judge_rounds(&series.ran)?);
        }
        self.pairs(sides, (ROUNDS, args.pairs), &mut outcome.series)
    }

    /// Runs pairs until the comparison is over, or there are `most` undisturbed ones. A disturbed one is run again in its
    /// own order.
    fn pairs(&mut self, sides: &[Side; 2], (folder, most): (&str, u64), series: &mut Series) -> Result<(), Error> {
        let mut orders = OrderSchedule::new(self.seed);
        let (mut order, mut undisturbed, mut takes) = (orders.next(), 0, FIRST_GUESS);
        let mut standing = String::new();
        while let Some(now) = order.filter(|_| undisturbed < most) {
            let (clock, name) = (Clock::start(), format!("{} {}", label(folder), series.ran.len() / 2 + 1));
            if self.rounds.stages.is_drawn() {
                self.rounds.stages.begin(&name, &standing, takes);
            }
            let disturbance = self.pair(sides, (folder, now), series)?;
            takes = Duration::from_nanos(clock.now().0);
            let comparison = judge_rounds(&series.ran)?;
            standing = text::contest_standing(&comparison);
            let of_pair = text::pair_line(&series.ran[series.ran.len().saturating_sub(2)..]);
            if disturbance == Disturbance::None {
                self.rounds.stages.end(&name, &of_pair);
                // One pair is its own estimate.
                if undisturbed > 0 {
                    self.rounds.stages.end("so far", &standing);
                }
                undisturbed += 1;
                order = orders.next();
            } else {
                self.rounds.stages.end(&name, &format!("disturbed, run again; {of_pair}"));
            }
            if comparison.is_over() {
                break;
            }
        }
        Ok(())
    }

    /// Runs a pair, and says whether the machine was itself meanwhile.
    fn pair(
        &mut self,
        sides: &[Side; 2],
        (folder, order): (&str, Order),
        series: &mut Series,
    ) -> Result<Disturbance, Error> {
        let [base, candidate] = sides;
        let in_turn = match order {
            Order::BaseFirst => [base, candidate],
            Order::CandidateFirst => [candidate, base],
        };
        let number = series.ran.len() / 2 + 1;
        let (first, second) = (self.round(in_turn[0], (folder, number))?, self.round(in_turn[1], (folder, number))?);
        let disturbance = Disturbance::of_pair([&first.0.report, &second.0.report]);
        if series.ran.is_empty() {
            let (of_base, of_candidate) = match order {
                Order::BaseFirst => (&first.0.report, &second.0.report),
                Order::CandidateFirst => (&second.0.report, &first.0.report),
            };
            series.differences = told_apart(sides, of_base, of_candidate);
            comparable(&series.differences).map_err(|error| Error::Usage(error.to_string()))?;
        }
        for ((taken, place), side) in [first, second].iter().zip(in_turn) {
            let place = (number, side.arm, place.display().to_string());
            let round = RoundReport::new(&taken.report, place, taken.target_cpu);
            series.ran.push(RoundReport { disturbance, ..round });
        }
        Ok(disturbance)
    }

    /// Runs a round, and says where its result lies in the comparison's directory.
    fn round(&mut self, side: &Side, (folder, number): (&str, usize)) -> Result<(Taken, PathBuf), Error> {
        let place = PathBuf::from(folder).join(format!("{number:03}-{}", side.arm));
        Ok((self.rounds.run(&side.setup, &self.place.join(&place))?, place))
    }
}

/// What a pair is called while it runs.
fn label(folder: &str) -> &'static str {
    if folder == EQUALS { "a/a" } else { "pair" }
}

/// What differs between the sides. The ports of targets that each round starts anew are no difference.
fn told_apart(sides: &[Side; 2], base: &Report, candidate: &Report) -> Vec<Difference> {
    let mut found = differences(base, candidate);
    if sides.iter().all(Side::starts_its_target) {
        found.retain(|difference| difference.what != "plan.target");
    }
    found
}
