//! Words that findings share: which shard, and what can be done.

use super::Evidence;
use crate::run::report::ShardReport;
use crate::show::text::capital;

/// The shard with the greatest reading beyond a limit, and how many others are beyond it, too.
pub(super) struct Worst<'a> {
    pub(super) shard: &'a ShardReport,
    pub(super) reading: f64,
    others: usize,
}

impl<'a> Worst<'a> {
    /// Find the greatest of readings, none of which is NaN; none without a reading.
    pub(super) fn of(beyond: impl Iterator<Item = (&'a ShardReport, f64)>) -> Option<Self> {
        let beyond: Vec<_> = beyond.collect();
        let (shard, reading) = *beyond.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(Self {
            shard,
            reading,
            others: beyond.len() - 1,
        })
    }

    /// Say that other shards come near to its figure; nothing if there are none.
    pub(super) fn and_others(&self) -> String {
        match self.others {
            0 => String::new(),
            1 => ", and 1 other shard up to as much".to_owned(),
            others => format!(", and {others} other shards up to as much"),
        }
    }

    /// `shard 3`, or `shard 3 (and 2 others)`.
    pub(super) fn who(&self) -> String {
        let number = self.shard.shard;
        match self.others {
            0 => format!("shard {number}"),
            1 => format!("shard {number} (and 1 other)"),
            others => format!("shard {number} (and {others} others)"),
        }
    }
}

/// Advice on how to give a shard a CPU to itself, in sentences.
pub(super) fn more_room(evidence: &Evidence<'_>) -> String {
    let (cores, shards) = (evidence.environment.cores, evidence.shards.len());
    let remedy = capital(&remedy(evidence));
    match (evidence.environment.colocated, shards > cores) {
        (_, true) => format!("{shards} shards share {cores} CPUs. {remedy}"),
        (true, false) if shards == cores => {
            format!("Client and target share {cores} CPUs. {remedy}")
        }
        (true, false) => format!("The target runs on this machine, too. {remedy}"),
        (false, false) => remedy,
    }
}

/// Means to give a shard a CPU to itself, as a clause.
pub(super) fn remedy(evidence: &Evidence<'_>) -> String {
    let pace = evidence.plan.pace_flag().map_or_else(
        || "set a --rate".to_owned(),
        |flag| format!("use a lower {flag}"),
    );
    let (cores, shards) = (evidence.environment.cores, evidence.shards.len());
    match (evidence.environment.colocated, shards > cores) {
        (_, true) => format!("use --shards {cores} or fewer"),
        (true, false) if shards == cores => {
            format!("move the target to another machine, use fewer shards (--shards), or {pace}")
        }
        (true, false) => format!("move the target to another machine, or {pace}"),
        (false, false) => format!("end other programs on this machine, or {pace}"),
    }
}
