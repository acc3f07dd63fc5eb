//! `Arena`: rank servers, with ties. Judges rounds that ran at all of them in turn.
//!
//! Called by `arena` with the rounds so far, to know whether more are needed, and at the end. Pure: it
//! runs nothing and reads no clock.
//!
//! | file | holds |
//! |---|---|
//! | `standing` | the test over all pairs, groups and ranks |
//! | `entry` | an entry: its check, its times at a fixed rate and over rates |
//! | `chart` | rates with intervals and groups, latency over rates, CPU beside latency |
//!
//! # Method
//!
//! A *round* is one run of each entry in a closed loop, each with a server of its own, in an order
//! drawn at random ([`order`]); every second round has the order of the one before turned round, so
//! that of two entries each goes first once. For each pair of entries and round, the change is
//! `ln(other / one)` of good responses per second, or of those that met the objectives.
//!
//! 1. **p**: exact signed-rank test as in a [comparison](super::compare), two-sided, corrected over
//!    all pairs (Holm). A round that the machine treated unequally is left out of that pair.
//! 2. Two entries **differ** if the corrected p is at most the look's alpha and the estimate is at
//!    least 2 %; they are **alike** if the interval is within 4 % either way.
//! 3. **Looks** after 16, 28 and 44 rounds ([`LOOKS`]), whose alphas add up to 1 %. The first at which
//!    each pair is one or the other ends the rounds.
//! 4. **Groups**: the largest sets of which no two differ, a letter each. **Rank**: one more than the
//!    entries that were shown to be faster.

mod chart;
mod entry;
mod standing;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub use self::entry::*;
pub use self::standing::*;
use super::compare::{FinalLook, MachineState};
use super::{
    Conclusion, Header, Picture, RoundRun, StudyFinding, StudyResult, figure, in_rounds,
    objectives_in_words, or_dash, rate, shell_line,
};
use crate::run::report::{Environment, Report};
use crate::show::doc::{Column, Doc, Figure, Table};
use crate::show::text::{bytes_f64, counted, decimal, micros};
use crawlmark_harness::plan::RequestObjective;
use crawlmark_harness::stats::Series;
use crawlmark_harness::units::percent;

/// Part of the time of its connections that an entry may be without a request: more, and its rate is
/// not that of its responses. Above 1, the counts contradict the times.
const BUSY: std::ops::RangeInclusive<f64> = 0.8..=1.05;

/// Rate at which an entry keeps up with the one that was offered.
const KEPT_UP: f64 = 0.98;

/// An arena, as it is saved in `arena.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Arena {
    /// Settings and machine.
    #[serde(flatten)]
    pub context: ArenaContext,
    /// The look that was taken last; null before the first.
    pub look: Option<FinalLook>,
    /// True if more rounds might settle more pairs.
    pub wants_rounds: bool,
    /// Entries by rank, and then those without one.
    pub entries: Vec<ArenaEntry>,
    /// See [`Standings::pairs`].
    pub pairs: Vec<PairResult>,
    /// Runs in a closed loop, in the order in which they ran. The rates of entries that were added
    /// are those of the time of the others.
    pub rounds: Vec<ArenaRound>,
    /// Entries that were added.
    pub added: Vec<Added>,
}

/// Entries that were measured later, beside two of those before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Added {
    /// Their names.
    pub entries: Vec<String>,
    /// The two.
    pub anchors: [String; 2],
    /// Rates of the two then, over those before: geometric means.
    pub ratios: [f64; 2],
}

/// Settings and machine of an arena.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArenaContext {
    /// Fields of every study.
    #[serde(flatten)]
    pub header: Header,
    /// Command line that repeats it, without secrets.
    pub command: Vec<String>,
    /// Time that each run measures, s.
    pub measured_s: f64,
    /// Warm-up of each run, s.
    pub warmup_s: f64,
    /// Requests per second at which times are compared; null before that is known.
    pub rate_per_s: Option<f64>,
    /// Objectives of each request (`--objective`); those that miss one are not good.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objectives: Vec<RequestObjective>,
    /// Seed of the order of the entries.
    pub seed: u64,
    /// The machine.
    pub environment: Environment,
}

/// An entry with its place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArenaEntry {
    /// What was measured.
    #[serde(flatten)]
    pub entry: Entry,
    /// Its place.
    #[serde(flatten)]
    pub standing: Standing,
}

/// A run of an entry in a closed loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArenaRound {
    /// Number of the round, from 1.
    pub round: usize,
    /// Name of the entry.
    pub entry: String,
    /// Its run.
    #[serde(flatten)]
    pub run: RoundRun,
    /// Good responses per second; those that met the objectives, if there are any.
    pub per_s: f64,
    /// See [`Standing::busy_share`].
    pub busy_share: Option<f64>,
    /// State of the machine.
    #[serde(flatten)]
    pub state: MachineState,
}

impl ArenaRound {
    /// The run of `entry` with this report, saved in `result`.
    pub fn new(report: &Report, round: usize, entry: &str, result: String) -> Self {
        let service = report.latency(Series::ServiceOk);
        let mean_s = service.and_then(|of| of.mean_us).map(|us| us / 1e6);
        let in_flight = f64::from(report.plan.run.in_flight());
        // The first response of each connection may have begun before the measured time, by its own
        // time at most.
        let measured_s = report.measured_s();
        Self {
            round,
            entry: entry.to_owned(),
            run: RoundRun::of(report, result),
            per_s: report
                .goodput
                .map_or(report.totals.ok_per_s, |goodput| goodput.per_s),
            busy_share: mean_s.map(|mean_s| {
                let most = in_flight * (1.0 + mean_s / measured_s);
                report.totals.ok_per_s * mean_s / most
            }),
            state: MachineState::of_run(report),
        }
    }
}

/// The order of `entries` entries in round `round`, from 1: a random permutation in every odd round,
/// and that one turned round in the next. The same seed gives the same orders.
pub fn order(seed: u64, entries: usize, round: usize) -> Vec<usize> {
    let block = round.saturating_sub(1) / 2;
    let mut order = super::scale::order(seed, entries, block + 1)
        .pop()
        .unwrap_or_default();
    if round.is_multiple_of(2) {
        order.reverse();
    }
    order
}

impl Arena {
    /// Judge these rounds of these entries.
    pub fn new(context: ArenaContext, entries: Vec<Entry>, rounds: Vec<ArenaRound>) -> Self {
        let names: Vec<&str> = entries.iter().map(|entry| &*entry.name).collect();
        let standings = Standings::of(&names, &rounds);
        Self::with_standings(context, entries, rounds, standings)
    }

    fn with_standings(
        context: ArenaContext,
        entries: Vec<Entry>,
        rounds: Vec<ArenaRound>,
        standings: Standings,
    ) -> Self {
        let mut entries: Vec<ArenaEntry> = entries
            .into_iter()
            .zip(standings.each)
            .map(|(entry, standing)| ArenaEntry { entry, standing })
            .collect();
        let faster = entries
            .iter()
            .filter(|of| of.standing.state != StandingState::Ranked)
            .map(|of| of.entry.name.clone())
            .filter(|name| standings.pairs.iter().any(|pair| pair.entries[0] == *name))
            .collect();
        standing::in_order(&mut entries, &faster);
        Self {
            context,
            look: standings.look,
            wants_rounds: standings.look.is_none() || standings.rounds_wanted > 0,
            entries,
            pairs: standings.pairs,
            rounds,
            added: Vec::new(),
        }
    }

    /// The two entries beside which others are added: the fastest and the slowest that are ranked.
    pub fn anchors(&self) -> Option<[String; 2]> {
        let mut ranked = self.ranked().map(|of| of.entry.name.clone());
        Some([ranked.next()?, ranked.last()?])
    }

    /// Number of the last round of all entries.
    pub fn last_round(&self) -> usize {
        let last = self.rounds.iter().map(|of| of.round).max();
        self.look.map_or(last.unwrap_or(0), |look| look.look.pairs)
    }

    /// The arena with `entries`, which were measured `later`, in as many rounds, beside its
    /// [`anchors`](Self::anchors). In each round, their rates are multiplied by those of the anchors
    /// before over those then.
    #[must_use]
    pub fn with(mut self, header: Header, entries: Vec<Entry>, later: &[ArenaRound]) -> Self {
        let Some(anchors) = self.anchors() else {
            return self;
        };
        let complete = self.last_round();
        let metric = standing::metric();
        let mut changes = [Vec::new(), Vec::new()];
        let mut rounds = self.rounds.clone();
        for of in &mut rounds {
            // Their directories are those of the arena before.
            of.run.result = None;
        }
        let added: Vec<&String> = entries.iter().map(|entry| &entry.name).collect();
        for of in later.iter().filter(|of| added.contains(&&of.entry)) {
            let [first, second] = anchors.each_ref().map(|name| {
                let before = run_of(name, of.round, &self.rounds)?;
                let then = run_of(name, of.round, later)?;
                // Only where the machine treated the entry as it did the anchor.
                standing::change([then, of], &metric)?;
                let counts = before.counts() && then.counts();
                counts.then(|| (before, (then.per_s / before.per_s).ln()))
            });
            let (Some((before, first)), Some((_, second))) = (first, second) else {
                continue;
            };
            changes[0].push(first);
            changes[1].push(second);
            rounds.push(ArenaRound {
                per_s: of.per_s * (-f64::midpoint(first, second)).exp(),
                state: before.state,
                ..of.clone()
            });
        }
        self.added.push(Added {
            entries: entries.iter().map(|entry| entry.name.clone()).collect(),
            ratios: changes
                .each_ref()
                .map(|logs| (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp()),
            anchors,
        });
        for entry in &entries {
            let words = [
                "--entry".to_owned(),
                format!("{}={}", entry.name, entry.what),
            ];
            // Behind the program and its command, if the file has them.
            let at = self.context.command.len().min(2);
            self.context.command.splice(at..at, words);
        }
        let mut all: Vec<Entry> = self.entries.into_iter().map(|of| of.entry).collect();
        all.extend(entries);
        let context = ArenaContext {
            header,
            ..self.context
        };
        let names: Vec<&str> = all.iter().map(|entry| &*entry.name).collect();
        let standings = Standings::after(complete, &names, &rounds);
        Self {
            added: self.added,
            ..Self::with_standings(context, all, rounds, standings)
        }
    }

    fn ranked(&self) -> impl Iterator<Item = &ArenaEntry> {
        self.entries.iter().filter(|of| of.standing.rank.is_some())
    }

    fn pairs_of(&self, relation: Relation) -> impl Iterator<Item = &PairResult> {
        self.pairs
            .iter()
            .filter(move |pair| pair.relation == relation)
    }

    /// The smallest difference that every pair which was not shown to differ would have shown.
    fn smallest_found(&self) -> Option<f64> {
        self.pairs
            .iter()
            .filter(|pair| pair.relation != Relation::Differ)
            .filter_map(|pair| pair.smallest_found)
            .reduce(f64::max)
    }

    /// The answer.
    fn answer(&self) -> StudyFinding {
        let Some(look) = self.look else {
            let complete = self.entries.iter().map(|of| of.standing.rounds).min();
            return StudyFinding::TooFewRounds {
                rounds: complete.unwrap_or(0),
                needed: LOOKS[0].pairs,
            };
        };
        let ranked: Vec<&ArenaEntry> = self.ranked().collect();
        let Some(first) = ranked.first().filter(|_| ranked.len() > 1) else {
            return StudyFinding::NothingToRank {
                entries: self.entries.len(),
            };
        };
        let first_names = ranked
            .iter()
            .filter(|of| of.standing.rank == first.standing.rank)
            .map(|of| of.entry.name.clone())
            .collect();
        let groups: BTreeSet<char> = ranked
            .iter()
            .flat_map(|of| of.standing.groups.chars())
            .collect();
        StudyFinding::Ranked {
            first: first_names,
            limited: self
                .entries
                .iter()
                .filter(|of| of.standing.state == StandingState::ClientLimited)
                .map(|of| of.entry.name.clone())
                .collect(),
            per_s: first.standing.per_s.unwrap_or(0.0),
            entries: ranked.len(),
            groups: groups.len(),
            rounds: look.look.pairs,
            smallest_found: self.smallest_found(),
        }
    }

    /// The findings about an entry.
    fn findings_of(&self, of: &ArenaEntry) -> Vec<StudyFinding> {
        let ArenaEntry { entry, standing } = of;
        let name = entry.name.clone();
        let mut found = Vec::new();
        if standing.state == StandingState::ClientLimited {
            found.push(StudyFinding::AtLeast {
                name: name.clone(),
                per_s: standing.per_s.unwrap_or(0.0),
                limited: standing.client_limited,
                rounds: standing.rounds,
            });
        }
        if standing.state == StandingState::NotValid {
            let is_none_met = self
                .rounds
                .iter()
                .all(|of| of.entry != name || of.per_s == 0.0);
            let objectives = objectives_in_words(&self.context.objectives).filter(|_| is_none_met);
            found.push(match objectives {
                Some(objectives) => StudyFinding::NoneMet {
                    name: name.clone(),
                    objectives,
                },
                None => StudyFinding::NotRanked {
                    name: name.clone(),
                    not_valid: standing.not_valid,
                    rounds: standing.rounds,
                },
            });
        }
        found.extend(self.entry_differences(entry));
        let busy = standing.busy_share.filter(|busy| !BUSY.contains(busy));
        found.extend(busy.map(|share| StudyFinding::LittlesLaw {
            name: name.clone(),
            share,
        }));
        let behind = entry.fixed.as_ref().and_then(|fixed| fixed.rate_ratio);
        if let Some(ratio) = behind.filter(|ratio| *ratio < KEPT_UP) {
            found.push(StudyFinding::RateNotKept { name, ratio });
        }
        found
    }

    /// What an entry answers differently from most of the others.
    fn entry_differences(&self, entry: &Entry) -> Vec<StudyFinding> {
        let Some(check) = &entry.check else {
            return Vec::new();
        };
        let others: Vec<&Answer> = self
            .entries
            .iter()
            .filter(|of| of.entry.name != entry.name)
            .filter_map(|of| of.entry.check.as_ref()?.answer.as_ref())
            .collect();
        check.differences(&entry.name, &others)
    }

    /// A finding of rounds with the names of the entries that have it, unless all have it.
    fn with_names(&self, mut found: StudyFinding) -> StudyFinding {
        if let StudyFinding::InRounds { finding, side, .. } = &mut found {
            let kind = finding.kind();
            let names: BTreeSet<&str> = self
                .rounds
                .iter()
                .filter(|of| of.run.findings.iter().any(|it| it.kind() == kind))
                .map(|of| &*of.entry)
                .collect();
            if names.len() < self.entries.len() {
                *side = format!(" ({})", Vec::from_iter(names).join(", ")).into();
            }
        }
        found
    }

    fn table(&self) -> Table {
        let at = self
            .context
            .rate_per_s
            .map_or_else(String::new, |per_s| format!(" at {}", rate(per_s)));
        let columns = vec![
            Column::numbers("rank"),
            Column::words("entry"),
            Column::words("group").leaving(7),
            Column::numbers(if self.context.objectives.is_empty() {
                "responses/s"
            } else {
                "goodput/s"
            }),
            Column::numbers("interval").leaving(2),
            Column::numbers(format!("p50{at}")).leaving(5),
            Column::numbers(format!("p99{at}")).leaving(6),
            Column::numbers("CPU per request").leaving(4),
            Column::numbers("peak memory").leaving(3),
            Column::numbers("capacity").leaving(8),
            Column::words("note").leaving(1),
        ];
        Table {
            columns,
            rows: self.entries.iter().map(|of| self.row(of)).collect(),
            ..Table::default()
        }
    }

    fn row(&self, ArenaEntry { entry, standing }: &ArenaEntry) -> Vec<String> {
        let at_least = match standing.state {
            StandingState::ClientLimited => "\u{2265} ",
            _ => "",
        };
        let fixed = entry.fixed.as_ref();
        let memory = fixed.and_then(|of| of.peak_memory);
        let differences = self.entry_differences(entry);
        let notes: Vec<String> = differences.iter().map(StudyFinding::headline).collect();
        vec![
            standing
                .rank
                .map_or_else(|| "-".to_owned(), |rank| rank.to_string()),
            entry.name.clone(),
            standing.groups.clone(),
            or_dash(standing.per_s, |per_s| {
                format!("{at_least}{}", decimal(per_s))
            }),
            standing.per_s_interval.map_or_else(String::new, |of| {
                format!("{} to {}", decimal(of.low), decimal(of.high))
            }),
            time(fixed.and_then(|of| of.p50_us)),
            time(fixed.and_then(|of| of.p99_us)),
            time(fixed.and_then(|of| of.cpu_us_per_request)),
            or_dash(memory.map(|bytes| bytes as f64), bytes_f64),
            entry
                .capacity
                .as_ref()
                .map_or_else(String::new, EntryCapacity::words),
            notes.join(", "),
        ]
    }

    fn pairs_table(&self) -> Table {
        Table {
            caption: "Pairs".to_owned(),
            columns: vec![
                Column::words("entry"),
                Column::words("other"),
                Column::numbers("difference"),
                Column::numbers("p, corrected"),
                Column::words("result"),
                Column::numbers("smallest found"),
            ],
            rows: self.pairs.iter().map(pair_row).collect(),
            ..Table::default()
        }
    }

    fn facts(&self) -> Vec<(String, String)> {
        let of = &self.context;
        let mut facts: Vec<(String, String)> = self
            .entries
            .iter()
            .map(|of| (of.entry.name.clone(), of.entry.words()))
            .collect();
        let most = self.entries.iter().map(|of| of.standing.rounds).max();
        let rounds = counted(most.unwrap_or(0) as u64, "round");
        facts.push((
            "rounds".to_owned(),
            format!(
                "{rounds} of all entries in random order (seed {}), {} s each after {} s of warm-up",
                of.seed, of.measured_s, of.warmup_s
            ),
        ));
        let objectives = objectives_in_words(&of.objectives);
        facts.extend(objectives.map(|all| ("objectives".to_owned(), all)));
        facts
    }
}

/// The run of this entry in this round.
fn run_of<'a>(entry: &str, round: usize, rounds: &'a [ArenaRound]) -> Option<&'a ArenaRound> {
    rounds
        .iter()
        .find(|of| of.round == round && of.entry == entry)
}

fn time(us: Option<f64>) -> String {
    or_dash(us, micros)
}

fn pair_row(pair: &PairResult) -> Vec<String> {
    let [one, other] = pair.entries.clone();
    vec![
        one,
        other,
        pair.evidence.change(),
        or_dash(pair.evidence.p_adjusted, |p| format!("{p:.2e}")),
        super::name_of(&pair.relation),
        or_dash(pair.smallest_found, percent),
    ]
}

impl StudyResult for Arena {
    const SCHEMA: &'static str = "crawlmark.arena/1";

    const FILE: &'static str = "arena.json";

    fn chart(&self) -> [&'static str; 2] {
        ["arena", "Ranks, latency and CPU"]
    }

    fn header(&self) -> &Header {
        &self.context.header
    }

    fn environment(&self) -> Option<&Environment> {
        Some(&self.context.environment)
    }

    fn findings(&self) -> Vec<StudyFinding> {
        let mut found = vec![self.answer()];
        let unsettled = self.pairs_of(Relation::Unsettled).count();
        if self.look.is_some() && unsettled > 0 {
            found.push(StudyFinding::PairsUnsettled {
                pairs: unsettled,
                of: self.pairs.len(),
            });
        }
        found.extend(self.added.iter().map(|of| StudyFinding::AddedLater {
            entries: of.entries.clone(),
            anchors: of.anchors.clone(),
            ratios: of.ratios,
        }));
        found.extend(self.entries.iter().flat_map(|of| self.findings_of(of)));
        let runs: Vec<&RoundRun> = self.rounds.iter().map(|round| &round.run).collect();
        found.extend(
            in_rounds("", &runs)
                .into_iter()
                .map(|it| self.with_names(it)),
        );
        found
    }

    fn main_figures(&self) -> Vec<Figure> {
        let first = self.ranked().next();
        let name = first.map_or("", |of| &*of.entry.name);
        let per_s = first.and_then(|of| of.standing.per_s);
        let found = self.smallest_found();
        [
            figure("First ranked", per_s.map(rate), name.to_owned()),
            figure(
                "Smallest difference",
                found.map(percent),
                "that would have been found".to_owned(),
            ),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn fill(&self, doc: Doc) -> Doc {
        doc.section("ranks", "Ranks", self.table(), LEGEND)
            .in_files()
            .facts(self.facts())
            .table(self.pairs_table())
            .commands("Run it again:", &[shell_line(&self.context.command)])
    }

    fn short_table(&self, _columns: usize) -> Option<Table> {
        Some(self.table())
    }

    fn picture(&self) -> Option<Picture> {
        let good = objectives_in_words(&self.context.objectives).map_or_else(
            || "good responses".to_owned(),
            |all| format!("responses with {all}"),
        );
        Some(Picture {
            subtitle: format!(
                "{} entries · {good} per second in a closed loop, with intervals of 95 % · entries under one line were not shown to differ",
                self.entries.len()
            ),
            command: "arena",
            of: Vec::new(),
            panels: chart::panels(self),
        })
    }

    fn conclusion(&self) -> Conclusion {
        match self.answer() {
            StudyFinding::Ranked { .. } => Conclusion::Done,
            _ => Conclusion::Inconclusive,
        }
    }
}

/// Explanation of the table.
const LEGEND: &str = "Entries that share a letter were not shown to differ; a rank is one more than the entries that were shown to be faster, those without a rank included. \
    Responses per second are those of a closed loop; times, CPU and memory are those at the rate that all entries get.";
