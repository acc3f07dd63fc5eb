//! What the slowest responses have in common: `traits` in `result.json`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::{Group, GroupNames, IntervalRow, share};
use crate::judge::thresholds::{EXPLAINS, FALSE_TRAITS, MOST_SLOW, RECURS, TIMES_ITS_SHARE};
use crate::show::text::bytes;
use crawlmark_harness::stats::{CoarseTimes, Groups, MOST_GROUPS, Traits};
use crawlmark_harness::supervisor::RunRecord;

/// Kind of a trait. Of several that are as telling, the first is named first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TraitKind {
    /// A response header.
    Header,
    /// The URL template.
    Template,
    /// The host.
    Host,
    /// The source address.
    Source,
    /// The place on its connection.
    Nth,
    /// The length of the body.
    Size,
    /// The status.
    Status,
    /// A retransmission, by the kernel.
    Retransmission,
    /// The shard.
    Shard,
    /// The second of the minute, UTC.
    Second,
}

/// A value of a trait that the slowest responses have far more often than the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TraitRow {
    /// Kind of the trait.
    pub kind: TraitKind,
    /// Name of the trait; of a header, its own.
    pub name: String,
    /// The value.
    pub value: String,
    /// Its group, until that is named.
    #[serde(skip)]
    pub group: Option<Group>,
    /// Part of the responses that are the slowest here, 0 to 1.
    pub slowest: f64,
    /// Slowest responses.
    pub of_slow: u64,
    /// Those with the value.
    pub slow: u64,
    /// Part of the slowest responses with the value.
    pub slow_share: f64,
    /// Other responses of which the trait is known.
    pub of_others: u64,
    /// Those with the value.
    pub others: u64,
    /// Part of these with the value.
    pub others_share: f64,
    /// Upper bound of the probability of as many among the slowest by chance.
    pub p_value: f64,
}

/// Values of a trait, with the times of the responses that have each.
struct Values {
    kind: TraitKind,
    name: String,
    rows: Vec<(String, Option<Group>, CoarseTimes)>,
}

impl Values {
    fn new(
        kind: TraitKind,
        name: &str,
        rows: impl IntoIterator<Item = (String, CoarseTimes)>,
    ) -> Self {
        Self {
            kind,
            name: name.to_owned(),
            rows: rows
                .into_iter()
                .map(|(value, times)| (value, None, times))
                .collect(),
        }
    }

    /// A trait of which each value has a number, from 0.
    fn numbered(
        kind: TraitKind,
        name: &str,
        rows: impl IntoIterator<Item = CoarseTimes>,
        value: fn(usize) -> String,
    ) -> Self {
        Self::new(kind, name, (0..).map(value).zip(rows))
    }

    fn of_groups(
        kind: TraitKind,
        name: &str,
        groups: &Groups,
        group: fn(Option<u32>) -> Group,
    ) -> Self {
        let rows = (0..)
            .zip(groups.as_slice())
            .take(MOST_GROUPS)
            .map(|(number, counts)| {
                let group = Some(group(Some(number)));
                (number.to_string(), group, counts.times.clone())
            })
            .collect();
        let name = name.to_owned();
        Self { kind, name, rows }
    }

    /// All traits of a run.
    fn all(record: &RunRecord, traits: Traits) -> Vec<Self> {
        let [mut hosts, mut templates, mut sources] = [(); 3].map(|()| Groups::default());
        for shard in &record.shards {
            hosts.merge(&shard.hosts);
            templates.merge(&shard.templates);
            sources.merge(&shard.sources);
        }
        let shards = record.shards.iter().map(|shard| shard.traits.all());
        let mut all: Vec<Self> = traits
            .headers
            .into_iter()
            .map(|(name, values)| Self::new(TraitKind::Header, &name, values))
            .collect();
        all.extend([
            Self::of_groups(
                TraitKind::Template,
                "URL template",
                &templates,
                Group::Template,
            ),
            Self::of_groups(TraitKind::Host, "host", &hosts, Group::Host),
            Self::of_groups(TraitKind::Source, "source address", &sources, Group::Source),
            Self::numbered(TraitKind::Nth, "place on the connection", traits.nth, place),
            Self::numbered(TraitKind::Size, "body", traits.size, size),
            Self::numbered(TraitKind::Status, "status", traits.status, |status| {
                status.to_string()
            }),
            Self::numbered(
                TraitKind::Retransmission,
                "retransmission",
                traits.retransmitted,
                |waited| if waited == 0 { "no" } else { "yes" }.to_owned(),
            ),
            Self::numbered(TraitKind::Shard, "shard", shards, |shard| shard.to_string()),
            Self::numbered(
                TraitKind::Second,
                "second of the minute",
                traits.second,
                |second| format!("{second:02}"),
            ),
        ]);
        all
    }
}

fn place(nth: usize) -> String {
    let places = [
        "1st",
        "1st, after a TLS handshake",
        "2nd to 10th",
        "11th or later",
    ];
    places.get(nth).copied().unwrap_or_default().to_owned()
}

/// Lengths of a class of four binary digits.
fn size(class: usize) -> String {
    let [from, to] = [class, class + 1].map(|class| bytes(1_u64 << (4 * class).min(63)));
    if class == 0 {
        format!("below {to}")
    } else {
        format!("{from} to {to}")
    }
}

/// Upper bound of the probability of `n` or more of `of` by chance, each with this probability
/// (Chernoff 1952, by relative entropy): of few as well, where a normal distribution is none.
fn chance(n: u64, of: u64, probability: f64) -> f64 {
    let part = share(n as f64, of as f64);
    let entropy: f64 = [(part, probability), (1.0 - part, 1.0 - probability)]
        .into_iter()
        .filter(|(part, _)| *part > 0.0)
        .map(|(part, other)| part * (part / other).ln())
        .sum();
    (-entropy * of as f64).exp()
}

impl TraitRow {
    /// What the slowest hundredth, or tenth, of a run have in common, the most telling first.
    pub(super) fn all(record: &RunRecord, intervals: &[IntervalRow]) -> Vec<Self> {
        let mut traits = Traits::default();
        for shard in &record.shards {
            traits.merge(&shard.traits);
        }
        let times = traits.all();
        let values = Values::all(record, traits);
        let (mut found, mut tested) = (Vec::new(), 0);
        for q in [0.99, 0.9] {
            let Some(cell) = times.percentile_cell(q) else {
                continue;
            };
            let of_slow = times.count_from(cell);
            let slowest = share(of_slow as f64, times.count() as f64);
            if slowest > MOST_SLOW {
                continue;
            }
            for one in &values {
                tested += one.rows.len();
                let rows = Self::of(one, cell, of_slow, slowest);
                let from_us = times.percentile_us(q).unwrap_or(0);
                found.extend(rows.into_iter().filter(|row| {
                    row.kind != TraitKind::Second
                        || recurs(row, intervals, record.started_at, from_us as f64)
                }));
            }
        }
        Self::significant(found, tested)
    }

    /// Values of a trait that the slowest responses, `of_slow` in this cell and above, have far more
    /// often than the others.
    fn of(values: &Values, cell: usize, of_slow: u64, slowest: f64) -> Vec<Self> {
        let of_others: u64 = values
            .rows
            .iter()
            .map(|(_, _, times)| times.count() - times.count_from(cell))
            .sum();
        values
            .rows
            .iter()
            .map(|(value, group, times)| {
                let slow = times.count_from(cell);
                let others = times.count() - slow;
                // Of few others, it is not known how rare the value is; one that is counted counts
                // for 16 of them.
                let expected = (others + 16) as f64 / (of_others + 32) as f64;
                Self {
                    kind: values.kind,
                    name: values.name.clone(),
                    value: value.clone(),
                    group: *group,
                    slowest,
                    of_slow,
                    slow,
                    slow_share: share(slow as f64, of_slow as f64),
                    of_others,
                    others,
                    others_share: share(others as f64, of_others as f64),
                    p_value: chance(slow, of_slow, expected),
                }
            })
            .filter(|row| {
                row.slow_share >= EXPLAINS && row.slow_share >= row.others_share * TIMES_ITS_SHARE
            })
            .collect()
    }

    /// Those that are not by chance, of so many that were tested (Benjamini and Hochberg 1995), each
    /// value once.
    fn significant(mut rows: Vec<Self>, tested: usize) -> Vec<Self> {
        let mut p_values: Vec<f64> = rows.iter().map(|row| row.p_value).collect();
        p_values.sort_unstable_by(f64::total_cmp);
        let last = p_values
            .iter()
            .enumerate()
            .rposition(|(at, p)| *p <= FALSE_TRAITS * (at + 1) as f64 / tested as f64);
        rows.retain(|row| last.is_some_and(|at| row.p_value <= p_values[at]));
        rows.sort_by(|a, b| {
            let [gap, other] = [a, b].map(|row| row.slow_share - row.others_share);
            other.total_cmp(&gap).then(a.order().cmp(&b.order()))
        });
        let mut seen = BTreeSet::new();
        rows.retain(|row| seen.insert((row.order(), row.name.clone(), row.value.clone())));
        rows
    }

    /// Its name and value.
    pub(crate) fn in_words(&self) -> String {
        let value = if self.value.is_empty() {
            "none"
        } else {
            &self.value
        };
        format!("{}: {value}", self.name)
    }

    const fn order(&self) -> usize {
        self.kind as usize
    }

    /// Name its group, if it is one.
    pub(super) fn name_group(&mut self, names: &GroupNames) {
        if let Some(name) = self.group.and_then(|group| names.get(&group)) {
            self.value.clone_from(name);
        }
    }
}

/// True if the second of a minute was slow in most minutes: a single stall has a second as well.
fn recurs(row: &TraitRow, rows: &[IntervalRow], started_at: SystemTime, from_us: f64) -> bool {
    let started = started_at.duration_since(SystemTime::UNIX_EPOCH);
    let start_s = started.map_or(0, |since| since.as_secs());
    let second: u64 = row.value.parse().unwrap_or(0);
    let mut minutes = BTreeMap::<u64, bool>::new();
    for row in rows {
        // A second of the run is of two of the calendar.
        for at_s in [start_s + row.start_s, start_s + row.start_s + 1] {
            if at_s % 60 == second {
                let p90_us = row.response_p90_us.or(row.p90_us);
                *minutes.entry(at_s / 60).or_default() |= p90_us.is_some_and(|us| us >= from_us);
            }
        }
    }
    let slow = minutes.values().filter(|is_slow| **is_slow).count();
    slow >= RECURS && slow * 2 >= minutes.len()
}

#[cfg(test)]
mod tests;
