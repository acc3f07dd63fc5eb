//! crawlmark as one client among others: what it is told, and what is read from its report.

use std::path::Path;

use serde::Deserialize;

use crate::clients::{Counted, Over, STREAMS};

/// The program that cargo built for this bench, with the profile that inherits from dist.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_crawlmark");

/// Name in every table.
pub(crate) const NAME: &str = "crawlmark";

/// Its arguments: one shard, as its peers get one thread.
pub(crate) fn arguments(template: &str, over: Over, [connections, seconds]: [u32; 2], out: &Path) -> Vec<String> {
    let mut arguments = vec!["run".to_owned(), template.to_owned()];
    let protocol: &[&str] = match over {
        Over::Plain => &[],
        Over::Tls => &["--insecure"],
        Over::Http2 => &["--insecure", "--http", "2", "--streams", STREAMS],
        Over::TlsHandshakes => &["--insecure", "--disable-keepalive"],
    };
    arguments.extend(protocol.iter().map(|&word| word.to_owned()));
    arguments.extend(["-s", "1", "--quiet", "--json", "-c"].map(str::to_owned));
    arguments.extend([connections.to_string(), "-d".to_owned(), format!("{seconds}s")]);
    arguments.extend(["--out".to_owned(), out.display().to_string()]);
    arguments
}

/// Fields of its report that are needed here; the rest is skipped.
#[derive(Debug, Deserialize)]
pub(crate) struct Report {
    ledger: LedgerJson,
    totals: Totals,
    shards: Vec<Shard>,
    supervisor: Supervisor,
}

#[derive(Debug, Deserialize)]
struct LedgerJson {
    ok: u64,
    aborted: u64,
}

#[derive(Debug, Deserialize)]
struct Totals {
    attempts: u64,
    attempts_per_s: f64,
}

#[derive(Debug, Deserialize)]
struct Shard {
    max_rss_bytes: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Supervisor {
    cpu_share: f64,
}

impl Report {
    /// From what it printed.
    pub(crate) fn read(stdout: &str) -> Option<Self> {
        serde_json::from_str(stdout).ok()
    }

    /// Return the counts that a peer would have printed.
    pub(crate) fn counted(&self) -> Counted {
        let Totals { attempts, attempts_per_s } = self.totals;
        let failed = attempts.saturating_sub(self.ledger.ok + self.ledger.aborted);
        Counted { requests: attempts, per_s: attempts_per_s, failed }
    }

    /// Return its figures beside CPU time.
    pub(crate) fn own(&self) -> Own {
        let resident = self.shards.iter().filter_map(|shard| shard.max_rss_bytes);
        Own { shard_max_rss_bytes: resident.max(), supervisor_cpu_share: self.supervisor.cpu_share }
    }
}

/// Figures that only crawlmark reports about itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Own {
    /// Largest resident set of a shard.
    pub(crate) shard_max_rss_bytes: Option<u64>,
    /// CPU of the supervisor over the run's duration.
    pub(crate) supervisor_cpu_share: f64,
}
