//! May the result be believed? A verdict with reasons; each check that was made is named.

use serde::{Deserialize, Serialize};

use super::ShardReport;

/// A shard that uses more of its CPU than this has no room left: what it measures is partly its own queueing.
const BUSY_SHARD: f64 = 0.85;

/// A run shorter than this is too short to say how busy its shards were.
const SHORTEST_JUDGED_S: f64 = 0.2;

/// What the checks come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No check that was made found anything.
    Valid,
    /// The client, not the target, set the pace.
    ClientLimited,
    /// A shard's part is missing.
    Incomplete,
}

impl Verdict {
    /// The name used in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::ClientLimited => "client_limited",
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
    /// Judges a run by its shards.
    #[must_use]
    pub fn judge(shards: &[ShardReport]) -> Self {
        let mut verdict = Verdict::Valid;
        let mut reasons = Vec::new();
        for shard in shards {
            if let Some(reason) = busy(shard) {
                verdict = Verdict::ClientLimited;
                reasons.push(reason);
            }
        }
        for shard in shards {
            if let Some(fault) = &shard.fault {
                verdict = Verdict::Incomplete;
                let lost = shard.ledger.lost;
                reasons.push(format!(
                    "shard {} {fault} (its process {}): {lost} of its items are lost, its times are left out",
                    shard.shard,
                    shard.exits.join(", ")
                ));
            }
        }
        let checked = ["every shard's final frame", "CPU use of each shard"].map(str::to_owned).to_vec();
        Self { verdict, reasons, checked }
    }
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
