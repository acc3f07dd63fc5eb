//! Which entries differ: the test of a comparison over all pairs, groups of those that do not, and
//! ranks.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{ArenaEntry, ArenaRound};
use crate::judge::Finding;
use crate::metrics::{Metric, Reading, Readings, THROUGHPUT, log_change, run_metrics};
use crate::run::report::Verdict;
use crate::studies::compare::{
    Centre, Disturbance, Evidence, FinalLook, Interval, Look, holm, two_sided,
};
use crawlmark_harness::stats::median;

/// Looks at the rounds so far. A comparison has four metrics, and its looks spend 0.97 % on them
/// ([`compare::LOOKS`](crate::studies::compare::LOOKS)); pairs of entries may be hundreds, for which
/// Holm's bound is nearly reached. The alphas here add up to 1 %, so that equal entries are told
/// apart in at most 1 % of arenas, however many they are and whichever look ends it.
///
/// The exact test of 16 rounds has no p value below 2 / 2^16, which is enough for 28 pairs: more than
/// 8 entries are told apart from the second look on.
pub const LOOKS: [Look; 3] = [
    Look::new(16, 0.001_25),
    Look::new(28, 0.002_5),
    Look::new(44, 0.006_25),
];

/// Place of an entry among the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// One more than the entries that were shown to be faster, those without a rank included; null of
    /// an entry without a rank, and before the first look.
    pub rank: Option<usize>,
    /// A letter for each group that it is in: entries that share one were not shown to differ.
    pub groups: String,
    /// Reason why it has no rank.
    pub state: StandingState,
    /// Good responses per second in a closed loop, those that met the objectives if there are any;
    /// null without a round that counts.
    pub per_s: Option<f64>,
    /// Interval of at least 95 %; null of fewer than 6 rounds.
    pub per_s_interval: Option<Interval>,
    /// Rounds that were looked at.
    pub rounds: usize,
    /// Rounds in which the client set the pace.
    pub client_limited: usize,
    /// Rounds whose figures do not describe normal responses.
    pub not_valid: usize,
    /// Little's law: responses per second times their mean service time, over the requests that may
    /// be in flight. Near 1 in a closed loop; the rest is time without a request on a connection.
    pub busy_share: Option<f64>,
}

/// Whether an entry is ranked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StandingState {
    /// Nothing keeps it from a rank.
    Ranked,
    /// The client set the pace in most rounds: the entry may be faster.
    ClientLimited,
    /// More than a quarter of the rounds do not describe normal responses.
    NotValid,
}

/// Two entries, of which the second is ranked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PairResult {
    /// Their names, the faster one first.
    pub entries: [String; 2],
    /// The second over the first. The p value is two-sided, and adjusted for all pairs.
    #[serde(flatten)]
    pub evidence: Evidence,
    /// Outcome.
    pub relation: Relation,
    /// The smallest difference, as a fraction, that so many rounds of this noise would have shown in
    /// 95 of 100 arenas; null of one round.
    pub smallest_found: Option<f64>,
}

/// Outcome for two entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// Shown to differ, by at least 2 %.
    Differ,
    /// Shown to be within 4 % of each other.
    Alike,
    /// Neither.
    Unsettled,
}

/// Places of all entries.
#[derive(Debug, Clone, PartialEq)]
pub struct Standings {
    /// Of each entry, in the order of their names.
    pub each: Vec<Standing>,
    /// Pairs of ranked entries, and those of a ranked entry and one that was shown to be faster though
    /// the client was its limit.
    pub pairs: Vec<PairResult>,
    /// The look that was taken last; none before the first.
    pub look: Option<FinalLook>,
    /// Rounds until the next look; 0 if the groups are settled, or no look is left.
    pub rounds_wanted: usize,
}

/// What decides: good responses per second, or goodput, which varies as they do.
pub(super) fn metric() -> Metric {
    run_metrics()
        .into_iter()
        .find(|metric| metric.name == THROUGHPUT)
        .unwrap_or_else(|| unreachable!("a metric of every run"))
}

impl Standings {
    /// Judge the rounds of entries with these names, each in the order of its rounds.
    pub fn of(names: &[&str], rounds: &[ArenaRound]) -> Self {
        let complete = names
            .iter()
            .map(|name| {
                rounds
                    .iter()
                    .filter(|of| of.entry == *name)
                    .map(|of| of.round)
                    .max()
                    .unwrap_or(0)
            })
            .min();
        Self::after(complete.unwrap_or(0), names, rounds)
    }

    /// Judge so many rounds, of which an entry may lack some.
    pub(super) fn after(complete: usize, names: &[&str], rounds: &[ArenaRound]) -> Self {
        let of_entry: Vec<Vec<&ArenaRound>> = names
            .iter()
            .map(|name| rounds.iter().filter(|of| of.entry == *name).collect())
            .collect();
        let taken = LOOKS.iter().rposition(|look| look.pairs <= complete);
        let look = LOOKS[taken.unwrap_or(0)];
        let most = complete.min(look.pairs);
        let seen: Vec<&[&ArenaRound]> = of_entry
            .iter()
            .map(|of| &of[..of.partition_point(|of| of.round <= most)])
            .collect();
        let mut each: Vec<Standing> = seen.iter().map(|of| Standing::of(of, most)).collect();
        // The fastest first. The rate of a client that was the limit is a lower bound.
        let mut order: Vec<usize> = (0..names.len())
            .filter(|at| each[*at].state != StandingState::NotValid)
            .collect();
        order.sort_by(|one, other| {
            let per_s = [one, other].map(|at| each[*at].per_s.unwrap_or(0.0));
            per_s[1].total_cmp(&per_s[0])
        });
        let ranked: Vec<usize> = order
            .iter()
            .copied()
            .filter(|at| each[*at].state == StandingState::Ranked)
            .collect();
        let (places, pairs) = pairs(&order, &ranked, &seen, names, look, taken.is_some());
        let differing: Vec<[usize; 2]> = places
            .into_iter()
            .zip(&pairs)
            .filter(|(_, pair)| pair.relation == Relation::Differ)
            .map(|([one, other], pair)| {
                if pair.evidence.log_ratio < 0.0 {
                    [one, other]
                } else {
                    [other, one]
                }
            })
            .collect();
        let apart: Vec<[usize; 2]> = differing
            .iter()
            .filter_map(|pair| {
                let [one, other] = pair.map(|at| ranked.iter().position(|of| *of == at));
                Some([one?, other?])
            })
            .collect();
        let groups = groups(ranked.len(), &apart);
        // Before the first look, there are none.
        let shown = ranked.iter().take(taken.map_or(0, |_| ranked.len()));
        for (place, at) in shown.enumerate() {
            let faster = differing.iter().filter(|[_, slower]| slower == at).count();
            each[*at].rank = Some(1 + faster);
            each[*at].groups = groups
                .iter()
                .zip('a'..)
                .filter(|(group, _)| group.contains(&place))
                .map(|(_, letter)| letter)
                .collect();
        }
        let is_settled = pairs
            .iter()
            .all(|pair| pair.relation != Relation::Unsettled);
        let next = LOOKS
            .iter()
            .map(|look| look.pairs)
            .find(|at| *at > complete);
        Self {
            each,
            pairs,
            look: taken.map(|at| FinalLook {
                number: at + 1,
                look,
            }),
            rounds_wanted: match taken {
                Some(_) if is_settled => 0,
                _ => next.map_or(0, |next| next - complete),
            },
        }
    }
}

impl Standing {
    /// The figures of an entry with these of `all` rounds, which has no rank yet.
    fn of(rounds: &[&ArenaRound], all: usize) -> Self {
        let counting: Vec<&&ArenaRound> = rounds.iter().filter(|round| round.counts()).collect();
        let logs: Vec<f64> = counting.iter().map(|round| round.per_s.ln()).collect();
        let centre = Centre::of(&logs);
        let client_limited = rounds
            .iter()
            .filter(|round| round.is_client_limited())
            .count();
        let not_valid = all.saturating_sub(logs.len());
        Self {
            rank: None,
            groups: String::new(),
            state: if logs.is_empty() || not_valid * 4 > all {
                StandingState::NotValid
            } else if client_limited * 2 > rounds.len() {
                StandingState::ClientLimited
            } else {
                StandingState::Ranked
            },
            per_s: centre.map(|centre| centre.estimate.exp()),
            per_s_interval: centre.and_then(|centre| Some(centre.interval?.map(f64::exp))),
            rounds: all,
            client_limited,
            not_valid,
            busy_share: median(
                &mut counting
                    .iter()
                    .filter_map(|of| of.busy_share)
                    .collect::<Vec<_>>(),
            ),
        }
    }
}

impl ArenaRound {
    /// True if its rate is that of good responses: a disturbance is looked for in each pair, and a
    /// full listen queue is the entry's own.
    pub fn counts(&self) -> bool {
        self.per_s > 0.0 && self.run.findings.iter().all(leaves_rate)
    }

    fn is_client_limited(&self) -> bool {
        self.run
            .findings
            .iter()
            .any(|finding| finding.effect() == Some(Verdict::ClientLimited))
    }
}

/// True if the rate is that of good responses in spite of it.
fn leaves_rate(found: &Finding) -> bool {
    match found.effect() {
        Some(Verdict::Errors | Verdict::NothingMeasured | Verdict::Incomplete) => false,
        Some(Verdict::TargetLimited) => matches!(
            found,
            Finding::ListenDrops { .. } | Finding::ListenQueueFull { .. }
        ),
        _ => true,
    }
}

/// The change from one entry's run to that of another in the same round; none where either does not
/// count, or the machine treated them unequally.
pub(super) fn change(runs: [&ArenaRound; 2], metric: &Metric) -> Option<f64> {
    let counts = runs.iter().all(|of| of.counts());
    let is_even = counts && (runs[0].state == runs[1].state || !is_disturbed(runs, metric));
    is_even.then(|| log_change(runs.map(|of| of.per_s)))
}

fn is_disturbed(runs: [&ArenaRound; 2], metric: &Metric) -> bool {
    let readings = runs.map(|of| Readings::from_iter([(THROUGHPUT, Reading::Gating(of.per_s))]));
    let states = runs.map(|of| of.state);
    let metrics = std::slice::from_ref(metric);
    Disturbance::of_pair(states, readings.each_ref(), metrics) != Disturbance::None
}

/// Judge the pairs of entries in this order, the fastest first, whose slower one is ranked. Where the
/// client was the limit of the faster one, only that it is shown to be faster is kept: its rate is a
/// lower bound.
fn pairs(
    order: &[usize],
    ranked: &[usize],
    seen: &[&[&ArenaRound]],
    names: &[&str],
    look: Look,
    is_taken: bool,
) -> (Vec<[usize; 2]>, Vec<PairResult>) {
    let metric = metric();
    let mut found = Vec::new();
    for second in ranked {
        for first in order.iter().take_while(|first| *first != second) {
            let changes: Vec<f64> = seen[*first]
                .iter()
                .filter_map(|one| {
                    let other = seen[*second]
                        .iter()
                        .find(|other| other.round == one.round)?;
                    change([one, other], &metric)
                })
                .collect();
            if let Some(evidence) = Evidence::of(&metric, &changes) {
                let pair = PairResult {
                    entries: [first, second].map(|at| names[*at].to_owned()),
                    evidence: Evidence {
                        p_value: two_sided(&changes),
                        ..evidence
                    },
                    relation: Relation::Unsettled,
                    smallest_found: None,
                };
                found.push(([*first, *second], pair));
            }
        }
    }
    let raw: Vec<f64> = found.iter().map(|of| of.1.evidence.p_value).collect();
    for ((_, pair), adjusted) in found.iter_mut().zip(holm(&raw)) {
        pair.evidence.p_adjusted = Some(adjusted);
        pair.judge(&metric, look, raw.len(), is_taken);
    }
    found.retain(|([first, _], pair)| {
        let is_slower = pair.relation == Relation::Differ && pair.evidence.log_ratio < 0.0;
        ranked.contains(first) || is_slower
    });
    found.into_iter().unzip()
}

impl PairResult {
    fn judge(&mut self, metric: &Metric, look: Look, family: usize, is_taken: bool) {
        let evidence = &self.evidence;
        let smallest = metric.loss(metric.smallest_effect);
        let found = evidence.log_ratio_sd.and_then(|sd| {
            let one_sided = Look::new(look.pairs, look.alpha / 2.0);
            one_sided.minimum_detectable(evidence.pairs, sd, family, smallest)
        });
        self.smallest_found = found.map(|loss| metric.fraction(loss));
        let is_shown = evidence.p_adjusted.is_some_and(|p| p <= look.alpha);
        let within = metric.loss(metric.passes_below);
        let is_alike = evidence
            .log_ratio_interval
            .is_some_and(|of| of.low > -within && of.high < within);
        // As many as a comparison may leave out.
        let has_enough = evidence.pairs * 4 >= look.pairs * 3;
        self.relation = if !is_taken || !has_enough {
            Relation::Unsettled
        } else if is_shown && evidence.log_ratio.abs() >= smallest {
            Relation::Differ
        } else if is_alike {
            Relation::Alike
        } else {
            Relation::Unsettled
        };
    }
}

/// The largest sets of entries of which no two differ, by their first members: the compact letter
/// display of Piepho, H.-P. (2004), *An algorithm for a letter-based representation of all-pairwise
/// comparisons*, Journal of Computational and Graphical Statistics 13.
pub(super) fn groups(entries: usize, differing: &[[usize; 2]]) -> Vec<BTreeSet<usize>> {
    let mut groups = vec![(0..entries).collect::<BTreeSet<usize>>()];
    for pair in differing {
        let mut parted = Vec::new();
        for group in groups {
            if !pair.iter().all(|of| group.contains(of)) {
                parted.push(group);
                continue;
            }
            for of in pair {
                let mut part = group.clone();
                part.remove(of);
                parted.push(part);
            }
        }
        parted.sort_by_key(|group| std::cmp::Reverse(group.len()));
        groups = Vec::new();
        for part in parted {
            if groups.iter().all(|kept| !part.is_subset(kept)) {
                groups.push(part);
            }
        }
    }
    groups.retain(|group| !group.is_empty());
    groups.sort();
    groups
}

/// In the order of a table: by rank and rate, and then those without a rank; but before all others
/// those that were shown to be faster though the client was their limit.
pub(super) fn in_order(entries: &mut [ArenaEntry], faster: &BTreeSet<String>) {
    entries.sort_by(|one, other| {
        let is_faster = [one, other].map(|of| faster.contains(&of.entry.name));
        let [one, other] = [one, other].map(|of| &of.standing);
        let ranks = [(one, is_faster[0]), (other, is_faster[1])].map(|(of, is_faster)| {
            let least = if is_faster { 0 } else { usize::MAX };
            of.rank.unwrap_or(least)
        });
        let rates = [one, other].map(|of| of.per_s.unwrap_or(0.0));
        ranks[0].cmp(&ranks[1]).then(rates[1].total_cmp(&rates[0]))
    });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn two_entries_share_a_group_unless_they_differ_and_no_group_could_be_larger(
            differ in prop::collection::vec(any::<bool>(), 21),
        ) {
            let pairs = (0..7).flat_map(|other| (0..other).map(move |one| [one, other]));
            let differing: Vec<[usize; 2]> = pairs
                .clone()
                .zip(differ)
                .filter(|(_, differs)| *differs)
                .map(|(pair, _)| pair)
                .collect();
            let groups = groups(7, &differing);
            for pair in pairs {
                let share = groups.iter().any(|group| pair.iter().all(|of| group.contains(of)));
                prop_assert_eq!(share, !differing.contains(&pair), "{:?}", pair);
            }
            for group in &groups {
                let fits = |other: &usize| {
                    !group.contains(other) && group.iter().all(|of| {
                        let pair = [*of.min(other), *of.max(other)];
                        !differing.contains(&pair)
                    })
                };
                prop_assert!(!(0..7).any(|other| fits(&other)), "{group:?}");
            }
        }
    }

    #[test]
    fn the_alphas_of_the_looks_add_up_to_1_percent() {
        let spent: f64 = LOOKS.iter().map(|look| look.alpha).sum();
        assert!((spent - 0.01).abs() < 1e-12, "{spent}");
        // Eight entries can be told apart at the first look.
        let least = 2.0 * 0.5_f64.powi(i32::try_from(LOOKS[0].pairs).unwrap());
        assert!(28.0 * least <= LOOKS[0].alpha);
    }
}
