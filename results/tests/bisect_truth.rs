//! Whole searches in simulated histories of commits: how often the answer is right.
//!
//! Seeded, so a row holds or it does not. Each seed is the first that was tried.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::f64::consts::TAU;

use crawlmark_results::run::report::Environment;
use crawlmark_results::studies::bisect::search::{Answer, Block, Range, Search, Step};
use crawlmark_results::studies::bisect::{Bisect, BisectQuestion, BlockReport, Commit};
use crawlmark_results::studies::compare::{CPU_TIME, command_metrics};
use crawlmark_results::studies::{Header, StudyResult};

use crate::ended;

/// Commits of a history, without the good end.
const COMMITS: usize = 64;

/// The loss, as a logarithm.
const LOSS: f64 = 0.03;

/// A history of commits whose readings are known but for their noise.
struct History {
    /// The logarithm of each commit's true reading, the good end first.
    levels: Vec<f64>,
    /// Commits that do not build.
    broken: Vec<usize>,
    /// Standard deviation of a round after its block.
    noise: f64,
    draw: fastrand::Rng,
}

/// How a search ended.
struct Ended {
    answer: Answer,
    looks: usize,
    search: Search,
}

impl History {
    /// A history in which each of these commits makes the reading worse by so much.
    fn new(seed: u64, steps: &[(usize, f64)], noise: f64) -> Self {
        let level = |commit| {
            let so_far = steps.iter().filter(|(at, _)| *at <= commit);
            so_far.map(|(_, loss)| loss).sum()
        };
        Self {
            levels: (0..=COMMITS).map(level).collect(),
            broken: Vec::new(),
            noise,
            draw: fastrand::Rng::with_seed(seed),
        }
    }

    fn gaussian(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.draw.f64()).ln()).sqrt();
        radius * (TAU * self.draw.f64()).cos()
    }

    /// Readings of commits, with a level of the block that all share.
    fn block(&mut self, commits: &[usize]) -> Block {
        let level = self.gaussian();
        let read = commits.iter().map(|commit| {
            let reading = level + self.levels[*commit] + self.noise * self.gaussian();
            (*commit, reading)
        });
        Block {
            readings: read.collect(),
        }
    }

    fn search(mut self) -> Ended {
        let mut search = Search::new(COMMITS, 0.01, 256);
        loop {
            let step = search.next_step();
            if let Step::Done(answer) = step {
                let looks = search.looks();
                return Ended {
                    answer,
                    looks,
                    search,
                };
            }
            if let Step::Look(commit) = step
                && self.broken.contains(&commit)
            {
                search.leave_out(commit);
                continue;
            }
            let (commits, blocks) = search.commits_of(step);
            for _ in 0..blocks {
                search.note(self.block(&commits));
            }
        }
    }
}

const fn only(commit: usize) -> Answer {
    Answer::Step(Range {
        first: commit,
        last: commit,
    })
}

/// Part of 400 searches that find the commit, each another one, and the median of their looks.
fn found(noise: f64) -> (f64, usize) {
    let mut draw = fastrand::Rng::with_seed(63);
    let (mut right, mut looks) = (0, Vec::new());
    for seed in 0..400 {
        let commit = draw.usize(1..=COMMITS);
        let ended = History::new(seed, &[(commit, LOSS)], LOSS * noise).search();
        right += u32::from(ended.answer == only(commit));
        looks.push(ended.looks);
    }
    looks.sort_unstable();
    (f64::from(right) / 400.0, looks[looks.len() / 2])
}

#[test]
fn the_commit_is_found_at_a_noise_of_up_to_twice_the_loss() {
    for noise in [0.1, 0.5, 1.0, 2.0] {
        let (right, looks) = found(noise);
        assert!(
            right >= 0.98 && looks <= 12,
            "{noise}: {right}, {looks} looks"
        );
    }
}

/// Part of `count` searches with this answer, in histories with these steps.
fn share(count: u32, steps: &[(usize, f64)], noise: f64, is_so: impl Fn(Answer) -> bool) -> f64 {
    let so = (0..count).filter(|seed| {
        is_so(
            History::new((*seed).into(), steps, LOSS * noise)
                .search()
                .answer,
        )
    });
    f64::from(u32::try_from(so.count()).unwrap_or(0)) / f64::from(count)
}

#[test]
fn without_a_loss_none_is_found_also_where_one_was_taken_back() {
    let is_none = |answer| answer == Answer::NoLoss;
    let none = share(1_000, &[], 1.0, is_none);
    let taken_back = share(300, &[(20, LOSS), (40, -LOSS)], 0.5, is_none);
    let better = share(300, &[(20, -LOSS)], 0.5, is_none);
    assert!(
        none >= 0.99 && taken_back >= 0.98 && better >= 0.99,
        "{none} {taken_back} {better}"
    );
}

#[test]
fn a_loss_in_several_steps_is_called_so() {
    let is_several = |answer| matches!(answer, Answer::SeveralSteps(_));
    for (steps, noise, least) in [
        // Two halves.
        (vec![(20, LOSS / 2.0), (45, LOSS / 2.0)], 0.1, 0.99),
        (vec![(20, LOSS / 2.0), (45, LOSS / 2.0)], 0.5, 0.9),
        // A middle that is worse than both ends.
        (vec![(10, 2.0 * LOSS), (40, -LOSS)], 0.1, 0.99),
        (vec![(10, 2.0 * LOSS), (40, -LOSS)], 0.5, 0.98),
    ] {
        let several = share(200, &steps, noise, is_several);
        assert!(several >= least, "{steps:?} at {noise}: {several}");
    }
}

#[test]
fn commits_that_do_not_build_leave_a_range() {
    let around: Vec<usize> = (27..=33).collect();
    let range = Answer::Step(Range {
        first: 27,
        last: 34,
    });
    // Those that do not build elsewhere change nothing.
    for (broken, answer) in [(around, range), (vec![32, 16, 28], only(30))] {
        let is_right = |seed: &u64| {
            let mut history = History::new(*seed, &[(30, LOSS)], LOSS * 0.2);
            history.broken.clone_from(&broken);
            history.search().answer == answer
        };
        let right = (0..100).filter(is_right).count();
        assert!(right >= 98, "{broken:?}: {right} of 100");
    }
}

/// Results of searches with each outcome, and of one that was cut.
pub(crate) fn with_findings() -> Vec<Bisect> {
    let mut broken = History::new(1, &[(30, LOSS)], LOSS * 0.2);
    broken.broken = (27..=33).collect();
    let plain = |steps: &[(usize, f64)]| History::new(1, steps, LOSS * 0.1);
    let several = plain(&[(20, LOSS / 2.0), (45, LOSS / 2.0)]);
    let histories = [broken, plain(&[(30, LOSS)]), several, plain(&[])];
    let mut results: Vec<Bisect> = histories
        .into_iter()
        .map(|one| result(&one.search()))
        .collect();
    let mut cut = History::new(1, &[(30, LOSS)], LOSS).search();
    cut.answer = Answer::Unsettled;
    results.push(result(&cut));
    results
}

/// The result of a search, of which nothing was built but what was measured.
fn result(ended: &Ended) -> Bisect {
    let search = &ended.search;
    let commit = |number: usize| Commit {
        commit: format!("{number:040x}"),
        author: "Ann".to_owned(),
        date: "2026-01-01T00:00:00+01:00".to_owned(),
        subject: format!(
            "Change {number} of the parser, and of all that it calls when it is asked to"
        ),
    };
    let commits = (0..=COMMITS).map(|at| (commit(at), search.is_left_out(at).then_some(false)));
    let mut metrics = command_metrics().into_iter();
    let question = BisectQuestion {
        revisions: ["v1", "main"].map(str::to_owned),
        build: "make".to_owned(),
        subject: "./tool".to_owned(),
        metric: metrics.find(|metric| metric.name == CPU_TIME).unwrap(),
        check: "crawlmark ab".to_owned(),
    };
    let blocks = search.blocks().iter().map(|block| BlockReport {
        readings: block
            .readings
            .iter()
            .map(|(at, y)| (*at, y.exp()))
            .collect(),
    });
    let header = Header::new::<Bisect>("bisect", ["2026-01-01T00:00:00.000Z"; 2]);
    let machine = Environment::default();
    let blocks = blocks.collect();
    Bisect::new(
        header,
        machine,
        question,
        commits.collect(),
        blocks,
        search,
        Some(ended.answer),
    )
    .unwrap()
}

#[test]
fn each_outcome_is_shown_and_read_back() {
    let results = with_findings();
    let all: Vec<String> = results.iter().map(ended).collect();
    crate::golden("bisect.txt", &all.join("\n\n"));
    for result in results {
        let read: Bisect = serde_json::from_str(&result.json().unwrap()).unwrap();
        assert_eq!(read, result);
        assert!(!result.plots()[0].is_empty);
    }
}
