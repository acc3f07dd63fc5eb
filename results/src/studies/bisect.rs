//! Which commit made a metric worse: the result of a search among commits, and what is said of it.
//!
//! | file | holds |
//! |---|---|
//! | [`search`] | what to measure next, and when the answer is known |
//! | `chart` | each commit that was measured, and where the step may be |

mod chart;
pub mod search;

use crawlmark_harness::units::percent;
use serde::{Deserialize, Serialize};

use self::search::{Answer, Block, Change, Range, Search};
use super::compare::{Interval, Metric, change, change_in_two};
use super::findings::MOST_SURE;
use super::{Conclusion, Header, Picture, StudyFinding, StudyResult, figure, or_dash};
use crate::run::report::Environment;
use crate::show::doc::{Column, Doc, Figure, Table};
use crate::show::text::counted;

/// Characters of a commit that are shown.
const SHOWN: usize = 10;

/// Characters of a subject that are shown in a table.
const SUBJECT: usize = 48;

/// Commits on each side of the step that the terminal shows.
const BESIDE: usize = 3;

/// Columns of a terminal that has room for more than a commit and its change.
const NARROW: usize = 64;

/// The probability from which on a commit has a row of its own, although it was not measured.
const LIKELY: f64 = 0.01;

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// Its full name.
    pub commit: String,
    /// Author.
    pub author: String,
    /// Author date, RFC 3339 with its own offset.
    pub date: String,
    /// First line of its message.
    pub subject: String,
}

impl Commit {
    /// Its name as it is shown.
    pub fn short(&self) -> &str {
        self.commit.get(..SHOWN).unwrap_or(&self.commit)
    }
}

/// A commit of the search, and what is known of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommitReport {
    /// The commit.
    #[serde(flatten)]
    pub commit: Commit,
    /// False if it could not be built or measured; null if that was not tried.
    pub builds: Option<bool>,
    /// Probability that it is the first that is worse, in `0..=1`; null of the good end.
    pub probability: Option<f64>,
    /// Change from the good end; null if it was not measured.
    pub change: Option<ChangeReport>,
}

/// A change with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ChangeReport {
    /// Ratio of the readings: Hodges and Lehmann's estimate.
    pub ratio: f64,
    /// Its exact interval of at least 95 %; null for fewer than 6 blocks.
    pub interval: Option<Interval>,
    /// Blocks in which both were measured.
    pub blocks: usize,
}

impl ChangeReport {
    /// A change of a metric: `search` has logarithms that are greater if worse.
    fn of(metric: &Metric, change: Change) -> Self {
        let ratio = |log: f64| metric.toward_worse(log).exp();
        let interval = change.interval.map(|Interval { low, high }| {
            let ends = [ratio(low), ratio(high)];
            Interval {
                low: ends[0].min(ends[1]),
                high: ends[0].max(ends[1]),
            }
        });
        Self {
            ratio: ratio(change.log),
            interval,
            blocks: change.blocks,
        }
    }

    /// `+3.1 % (+2.9 .. +3.4)`.
    pub(super) fn text(&self) -> String {
        change(self.ratio, self.interval)
    }

    fn figure(self, name: &'static str) -> Option<Figure> {
        let [value, interval] = change_in_two(self.ratio, self.interval);
        figure(name, Some(value), interval)
    }
}

/// Outcome of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BisectOutcome {
    /// One commit is the first that is worse.
    Found,
    /// One of several commits is, of which all but the last do not build or run.
    FoundRange,
    /// The loss came in several steps.
    SeveralSteps,
    /// The bad end is not worse.
    NoLoss,
    /// No answer: the search was cut, or needed too many looks.
    Unsettled,
}

/// What was searched, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BisectQuestion {
    /// Revisions of the good and the bad end, as typed.
    pub revisions: [String; 2],
    /// Command that builds a commit, without secrets.
    pub build: String,
    /// What is measured: a command, or a target's command and a URL; without secrets.
    pub subject: String,
    /// The metric.
    #[serde(flatten)]
    pub metric: Metric,
    /// Command line of the `ab` that checks the answer, with `{base}` and `{candidate}` in the place
    /// of the directories of both builds.
    pub check: String,
}

/// Readings of a block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BlockReport {
    /// Readings in the order in which they ran: the place of the commit in `commits`, and the value in
    /// the unit of the metric.
    pub readings: Vec<(usize, f64)>,
}

impl BlockReport {
    /// The block of the search.
    pub fn block(&self, metric: &Metric) -> Block {
        let readings = self.readings.iter();
        Block {
            readings: readings
                .map(|(commit, value)| (*commit, metric.toward_worse(value.ln())))
                .collect(),
        }
    }
}

/// The order in which the commits of a block run: drawn by its number, and the same again with the
/// same seed.
pub fn block_order(seed: u64, block: usize, commits: &[usize]) -> Vec<usize> {
    let mut order = commits.to_vec();
    let seed = seed
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .wrapping_add(block as u64);
    fastrand::Rng::with_seed(seed).shuffle(&mut order);
    order
}

/// Result of a search among commits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bisect {
    /// Fields of every study.
    #[serde(flatten)]
    pub header: Header,
    /// The machine.
    pub environment: Environment,
    /// What was searched.
    #[serde(flatten)]
    pub question: BisectQuestion,
    /// The outcome.
    pub outcome: BisectOutcome,
    /// Places in `commits` of the first and the last commit that may be the first that is worse, in
    /// the likeliest case; null without a loss.
    pub step: Option<(usize, usize)>,
    /// Probability of that, in `0..=1`.
    pub probability: Option<f64>,
    /// Change from the commit before the step to the last of it; null if they were not measured
    /// together.
    pub effect: Option<ChangeReport>,
    /// Change from the good end to the bad end.
    pub loss: ChangeReport,
    /// Place in `commits` of one that lies off both ends; null if none is known.
    pub off: Option<usize>,
    /// The smallest loss, as a fraction of the good end, that would have been found in 95 of 100
    /// searches, if none was found.
    pub smallest_found: Option<f64>,
    /// Looks at commits between the ends.
    pub looks: usize,
    /// The commits, the good end first.
    pub commits: Vec<CommitReport>,
    /// Blocks of readings, in order.
    pub blocks: Vec<BlockReport>,
}

impl Bisect {
    /// The result of a search that ended with an answer, or was cut; none before the ends were
    /// measured twice.
    pub fn new(
        header: Header,
        environment: Environment,
        question: BisectQuestion,
        commits: Vec<(Commit, Option<bool>)>,
        blocks: Vec<BlockReport>,
        search: &Search,
        answer: Option<Answer>,
    ) -> Option<Self> {
        let bad = commits.len() - 1;
        let metric = &question.metric;
        let from_good = |commit| Some(ChangeReport::of(metric, search.change(commit, 0)?));
        let loss = from_good(bad)?;
        let (likeliest, probability) = search.likeliest_range();
        let outcome = match answer {
            Some(Answer::Step(Range { first, last })) if first == last => BisectOutcome::Found,
            Some(Answer::Step(_)) => BisectOutcome::FoundRange,
            Some(Answer::SeveralSteps(_)) => BisectOutcome::SeveralSteps,
            Some(Answer::NoLoss) => BisectOutcome::NoLoss,
            Some(Answer::Unsettled) | None => BisectOutcome::Unsettled,
        };
        let step = match answer {
            Some(Answer::NoLoss | Answer::SeveralSteps(_)) => None,
            _ => Some(likeliest),
        };
        let off = match answer {
            Some(Answer::SeveralSteps(off)) => Some(off),
            _ => None,
        };
        let smallest_found = search.smallest_found().map(|loss| metric.fraction(loss));
        let probabilities = search.probabilities();
        let commits = commits
            .into_iter()
            .enumerate()
            .map(|(at, (commit, builds))| CommitReport {
                commit,
                builds,
                probability: at.checked_sub(1).map(|at| probabilities[at]),
                change: from_good(at).filter(|_| at > 0),
            })
            .collect();
        Some(Self {
            outcome,
            step: step.map(|step| (step.first, step.last)),
            probability: step.map(|_| probability),
            effect: step.and_then(|step| Some(ChangeReport::of(metric, search.effect(step)?))),
            loss,
            off,
            smallest_found: smallest_found.filter(|_| outcome == BisectOutcome::NoLoss),
            looks: search.looks(),
            commits,
            blocks,
            header,
            environment,
            question,
        })
    }

    fn commit(&self, at: usize) -> &Commit {
        &self.commits[at].commit
    }

    /// Author, day and subject of a commit.
    fn about(&self, at: usize) -> String {
        let Commit {
            author,
            date,
            subject,
            ..
        } = self.commit(at);
        format!("{author}, {}: {subject}", date.get(..10).unwrap_or(date))
    }

    fn short(&self, at: usize) -> String {
        self.commit(at).short().to_owned()
    }

    /// The command that searches between two commits.
    fn between(&self, good: usize, bad: usize) -> String {
        let [good, bad] = [good, bad].map(|at| self.commit(at).short());
        format!("--good {good} --bad {bad}")
    }

    fn answer(&self) -> StudyFinding {
        let metric = self.question.metric.title.to_string();
        let loss = self.loss.text();
        let effect = self.effect.map_or_else(String::new, |effect| effect.text());
        let step = self.step.unwrap_or((1, 1));
        match self.outcome {
            BisectOutcome::NoLoss => StudyFinding::NoLoss {
                metric,
                blocks: self.blocks.len(),
                change: loss,
                smallest_found: self.smallest_found,
            },
            BisectOutcome::SeveralSteps => {
                let off = self.off.unwrap_or(step.1);
                StudyFinding::SeveralSteps {
                    metric,
                    loss,
                    commit: self.short(off),
                    change: self.commits[off]
                        .change
                        .map_or_else(String::new, |change| change.text()),
                    parts: [
                        self.between(0, off),
                        self.between(off, self.commits.len() - 1),
                    ],
                }
            }
            BisectOutcome::Found => StudyFinding::CommitFound {
                metric,
                commit: self.short(step.1),
                about: self.about(step.1),
                effect,
                probability: self.probability.unwrap_or(0.0),
            },
            BisectOutcome::FoundRange => StudyFinding::CommitsFound {
                metric,
                commits: step.1 - step.0 + 1,
                first: self.short(step.0),
                last: self.short(step.1),
                about: self.about(step.1),
                effect,
            },
            BisectOutcome::Unsettled => StudyFinding::CommitUnsettled {
                metric,
                loss,
                commit: self.short(step.1),
                probability: self.probability.unwrap_or(0.0),
            },
        }
    }

    /// The table of commits; of those that were not measured, only the likely ones.
    fn table(&self, is_shown: impl Fn(usize) -> bool) -> Table {
        let rows = self.commits.iter().enumerate().filter(|(at, of)| {
            let is_end = *at == 0 || at + 1 == self.commits.len();
            let likely = of.probability.is_some_and(|p| p >= LIKELY);
            (is_end || of.change.is_some() || likely || of.builds == Some(false)) && is_shown(*at)
        });
        Table {
            columns: vec![
                Column::words("commit"),
                Column::words("date").leaving(2),
                Column::numbers("from good (95 %)"),
                Column::numbers("blocks").leaving(3),
                Column::numbers("first worse"),
                Column::details("subject").leaving(1),
            ],
            rows: rows.map(|(at, of)| self.row(at, of)).collect(),
            ..Table::default()
        }
    }

    fn row(&self, at: usize, of: &CommitReport) -> Vec<String> {
        let Commit { date, subject, .. } = &of.commit;
        let blocks = match of.change {
            Some(change) => change.blocks.to_string(),
            None if at == 0 => self.blocks.len().to_string(),
            None => String::new(),
        };
        let change = match (of.builds, of.change) {
            (Some(false), _) => "left out".to_owned(),
            (_, Some(change)) => change.text(),
            _ if at == 0 => "good".to_owned(),
            _ => "-".to_owned(),
        };
        let probability = of
            .probability
            .filter(|_| self.outcome != BisectOutcome::NoLoss);
        vec![
            of.commit.short().to_owned(),
            date.get(..10).unwrap_or(date).to_owned(),
            change,
            blocks,
            or_dash(probability.map(|p| p.min(MOST_SURE)), percent),
            subject.chars().take(SUBJECT).collect(),
        ]
    }
}

impl StudyResult for Bisect {
    const SCHEMA: &'static str = "crawlmark.bisect/1";

    const FILE: &'static str = "bisect.json";

    fn header(&self) -> &Header {
        &self.header
    }

    fn environment(&self) -> Option<&Environment> {
        Some(&self.environment)
    }

    fn impossible(&self) -> Option<&'static str> {
        let commits = self.commits.len();
        let read = self.blocks.iter().flat_map(|block| &block.readings);
        let laws = [
            (commits > 1, "`commits` holds no range"),
            (
                (self.step)
                    .is_none_or(|(first, last)| 0 < first && first <= last && last < commits),
                "`step` is not in `commits`",
            ),
            (
                self.off.is_none_or(|off| off < commits),
                "`off` is not in `commits`",
            ),
            (
                read.map(|(commit, _)| *commit).all(|at| at < commits),
                "`readings` has a commit that is not in `commits`",
            ),
        ];
        let broken = laws.into_iter().find(|(holds, _)| !holds);
        broken.map(|(_, wrong)| wrong)
    }

    fn outcome(&self) -> String {
        match (self.outcome, self.step) {
            (BisectOutcome::Found, Some((_, last))) => self.short(last),
            (outcome, _) => super::name_of(&outcome),
        }
    }

    fn findings(&self) -> Vec<StudyFinding> {
        let mut found = vec![self.answer()];
        let has_check = matches!(
            self.outcome,
            BisectOutcome::Found | BisectOutcome::FoundRange
        );
        if has_check && let Some((first, last)) = self.step {
            found.push(StudyFinding::CheckByPairs {
                good: self.short(first - 1),
                bad: self.short(last),
                command: self.question.check.clone(),
            });
        }
        let failed = self
            .commits
            .iter()
            .filter(|of| of.builds == Some(false))
            .count();
        found.extend((failed > 0).then_some(StudyFinding::NotBuilt {
            failed,
            of: self.commits.len() - 1,
        }));
        found
    }

    fn main_figures(&self) -> Vec<Figure> {
        let commits = (self.commits.len() - 1) as u64;
        let blocks = counted(self.blocks.len() as u64, "block");
        [
            self.effect
                .filter(|_| self.step.is_some())
                .and_then(|effect| effect.figure("The commit")),
            self.loss.figure("Good to bad"),
            figure(
                "Looks",
                Some(self.looks.to_string()),
                format!("at {}, {blocks}", counted(commits, "commit")),
            ),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn fill(&self, doc: Doc) -> Doc {
        let question = &self.question;
        let [good, bad] = &question.revisions;
        doc.facts(vec![
            (
                "commits",
                format!("{} after {good}, up to {bad}", self.commits.len() - 1),
            ),
            ("build", question.build.clone()),
            ("measures", question.subject.clone()),
            ("metric", question.metric.title.to_string()),
        ])
        .table(self.table(|_| true))
        .text(LEGEND)
    }

    fn short_table(&self, columns: usize) -> Option<Table> {
        let last = self.commits.len() - 1;
        let (from, to) = self.step.unwrap_or((1, last));
        let near = from.saturating_sub(BESIDE)..=to + BESIDE;
        let mut table = self.table(|at| at == 0 || at == last || near.contains(&at));
        if table.rows.len() > 2 * BESIDE + 2 {
            table = self.table(|at| at == 0 || at == last || at + 1 == from || at == to);
        }
        if columns < NARROW {
            // Rows that do not fit would be written one below the other.
            for row in &mut table.rows {
                row.truncate(3);
                row.remove(1);
            }
            table.columns.truncate(3);
            table.columns.remove(1);
        }
        Some(table)
    }

    fn chart(&self) -> [&'static str; 2] {
        ["bisect", "Commits and their readings"]
    }

    fn picture(&self) -> Option<Picture> {
        let blocks = counted(self.blocks.len() as u64, "block");
        let commits = counted((self.commits.len() - 1) as u64, "commit");
        Some(Picture {
            subtitle: format!(
                "{} against the good end, in percent · {commits}, {blocks} · bars are 95 % intervals",
                self.question.metric.title
            ),
            command: "bisect",
            of: vec![self.question.subject.clone()],
            panels: chart::panels(self),
        })
    }

    fn conclusion(&self) -> Conclusion {
        match self.outcome {
            BisectOutcome::Found | BisectOutcome::FoundRange => Conclusion::Done,
            _ => Conclusion::Inconclusive,
        }
    }
}

/// Explanation of the table.
const LEGEND: &str = "A block is a round of each commit that it measures, and of both ends, in random order. \"First worse\" is \
                      the probability that the commit is the first that is worse. Commits that were neither measured nor likely \
                      are left out.";
