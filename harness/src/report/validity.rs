//! May the result be believed? A verdict with reasons; each check that was made is named.

use serde::{Deserialize, Serialize};

use super::{Ledger, ShardReport, Totals};
use crate::process::ShardExit;

/// A shard that uses more of its CPU than this has no room left: what it measures is partly its own queueing.
const BUSY_SHARD: f64 = 0.85;

/// A run shorter than this is too short to say how busy its shards were.
const SHORTEST_JUDGED_S: f64 = 0.2;

/// When more of the attempts than this had no valid answer, the run measured how fast it failed.
const MOST_ERRORS: f64 = 0.5;

/// What the checks come to, the gravest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No check that was made found anything.
    Valid,
    /// The client, not the target, set the pace.
    ClientLimited,
    /// The target gave hardly any valid answers.
    TargetLimited,
    /// Something happened that a measurement should not see.
    Disturbed,
    /// A part is missing, or the parts do not add up.
    Incomplete,
}

impl Verdict {
    /// The name used in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::ClientLimited => "client_limited",
            Self::TargetLimited => "target_limited",
            Self::Disturbed => "disturbed",
            Self::Incomplete => "incomplete",
        }
    }
}

/// The verdict, why, and what was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Validity {
    /// The gravest finding.
    pub verdict: Verdict,
    /// Every finding.
    pub reasons: Vec<String>,
    /// The checks that were made, whatever they found.
    pub checked: Vec<String>,
}

impl Validity {
    /// Judges a run by its shards and what they counted together.
    #[must_use]
    pub fn judge(shards: &[ShardReport], totals: &Totals) -> Self {
        let mut validity = Self { verdict: Verdict::Valid, reasons: Vec::new(), checked: Vec::new() };
        validity.check("every shard's end", shards.iter().filter_map(unclean), Verdict::Incomplete);
        validity.check("the sums", shards.iter().filter_map(out_of_sum), Verdict::Incomplete);
        validity.check("answers", unanswered(totals), Verdict::TargetLimited);
        validity.check("CPU use of each shard", shards.iter().filter_map(busy), Verdict::ClientLimited);
        validity
    }

    /// Notes a check and what it found, which is at least as grave as `verdict` says.
    pub fn check(&mut self, name: &str, found: impl IntoIterator<Item = String>, verdict: Verdict) {
        self.checked.push(name.to_owned());
        for reason in found {
            self.reasons.push(reason);
            self.verdict = self.verdict.max(verdict);
        }
    }
}

/// A shard that did not tell everything, or that failed after it had.
fn unclean(shard: &ShardReport) -> Option<String> {
    let (number, exits, lost) = (shard.shard, shard.exits.join(", "), shard.ledger.lost);
    if let Some(fault) = &shard.fault {
        return Some(format!(
            "shard {number} {fault} (its process {exits}): {lost} of its items are lost, its times are left out"
        ));
    }
    let clean = shard.exits.iter().all(|exit| *exit == ShardExit::Clean.to_string());
    (!clean).then(|| format!("shard {number} told everything, and then its process {exits}"))
}

fn out_of_sum(shard: &ShardReport) -> Option<String> {
    let Ledger { planned, not_attempted, lost, .. } = shard.ledger;
    (!shard.ledger.adds_up()).then(|| {
        let ended = shard.ledger.ended();
        format!(
            "shard {} planned {planned} items, of which {ended} ended, {not_attempted} were not attempted and {lost} lost: \
             that does not add up",
            shard.shard
        )
    })
}

fn unanswered(totals: &Totals) -> Option<String> {
    let errors: u64 = totals.errors_by_kind.values().sum();
    // A challenge page is an answer to another question.
    let part = (errors + totals.soft_blocked) as f64 / totals.attempts.max(1) as f64;
    (part > MOST_ERRORS)
        .then(|| format!("{:.0} % of the attempts had no valid answer: the rate is how fast they failed", part * 100.0))
}

fn busy(shard: &ShardReport) -> Option<String> {
    let used = shard.usage.cpu_share.filter(|_| shard.totals.duration_s >= SHORTEST_JUDGED_S)?;
    (used > BUSY_SHARD).then(|| {
        format!(
            "shard {} used {:.0} % of a CPU: the rate is the client's ceiling, and times include its own queueing",
            shard.shard,
            used * 100.0
        )
    })
}
