//! Search for the number of connections from which the CPU is the limit: doubled until the rate
//! hardly grows.
//!
//! By Little's law, the number is the rate times the latency, but the rate that the CPU can do is
//! unknown. More connections than that do not help, and cost memory, caches and timers. A run with
//! too few shows only what they can do, so the search goes upward.

use std::time::Duration;

use crawlmark_results::studies::scenarios::SearchProbe;

/// The most connections: one for each source address, of which the first and the last of a /16 are
/// none.
const MOST_CONNECTIONS: u32 = (1 << 16) - 2;

/// Connections of the first run, for each core: 16,000/s at 63 ms.
const FIRST: u32 = 1 << 10;

/// Gain that doubling must bring for another doubling. Runs this short differ by a few parts in a
/// hundred.
const WORTH: f64 = 1.05;

/// Gain that doubling must bring once the CPU is the limit: more than about twice the connections
/// that the CPU can serve do not help.
const WORTH_OF_CPU: f64 = 1.5;

/// A run must be as long as this: half of it is its own warm-up, in which all connections are
/// opened.
const SHORTEST: Duration = Duration::from_secs(1);

/// Runs that a search usually takes.
const USUALLY: u32 = 4;

/// Descriptors of a process that are no connections.
const OTHERS: u64 = 64;

/// A search.
#[derive(Debug)]
pub(super) struct Search {
    next: Option<u32>,
    most: u32,
    best: SearchProbe,
}

impl Search {
    /// A search on so many cores, where a process may have so many descriptors.
    pub(super) fn new(cores: u32, descriptors: Option<u64>) -> Self {
        let most = most(cores, descriptors);
        let first = FIRST.saturating_mul(cores).min(most);
        Self {
            next: Some(first),
            most,
            best: SearchProbe {
                connections: first,
                ok_per_s: 0.0,
            },
        }
    }

    /// Return the duration of a run of the search, for rungs of duration `rung`.
    pub(super) fn probe_time(rung: Duration) -> Duration {
        (rung / 2).max(SHORTEST)
    }

    /// Return the usual duration of a whole search.
    pub(super) fn takes(rung: Duration) -> Duration {
        Self::probe_time(rung) * USUALLY
    }

    /// Return the connections of the next run; none when there is nothing more to find.
    pub(super) const fn next(&self) -> Option<u32> {
        self.next
    }

    /// Record the result of a run, and whether the CPU limited it.
    pub(super) fn record(&mut self, probe: SearchProbe, by_cpu: bool) {
        let worth = if by_cpu { WORTH_OF_CPU } else { WORTH };
        let was_worth_it = probe.ok_per_s > self.best.ok_per_s * worth;
        if probe.ok_per_s > self.best.ok_per_s * WORTH {
            self.best = probe;
        }
        self.next = (was_worth_it && probe.connections < self.most)
            .then(|| probe.connections.saturating_mul(2).min(self.most));
    }

    /// The connections with which most came back; the fewest of those with which about as much did,
    /// for more only wait for each other.
    pub(super) const fn best(&self) -> u32 {
        self.best.connections
    }
}

/// As many as there are descriptors for, in the processes of the crawl and in as many of the
/// target, over which the kernel spreads them by chance: a process of those may get a fifth more
/// than its share.
fn most(cores: u32, descriptors: Option<u64>) -> u32 {
    let each = descriptors.unwrap_or(u64::MAX).saturating_sub(OTHERS) / 5 * 4;
    let all = each.saturating_mul(u64::from(cores)).max(u64::from(cores));
    u32::try_from(all).unwrap_or(u32::MAX).min(MOST_CONNECTIONS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Search on a machine whose CPU allows `bearable` requests per second, each of 63 ms, and
    /// return the connections tried and the best.
    fn found(cores: u32, descriptors: u64, bearable: f64) -> (Vec<u32>, u32) {
        let (mut search, mut tried) = (Search::new(cores, Some(descriptors)), Vec::new());
        while let Some(connections) = search.next() {
            tried.push(connections);
            let waiting = f64::from(connections) / 0.063;
            let ok_per_s = waiting.min(bearable) * (1.0 - f64::from(connections) * 1e-7);
            let probe = SearchProbe {
                connections,
                ok_per_s,
            };
            search.record(probe, waiting > bearable);
        }
        (tried, search.best())
    }

    #[test]
    fn it_doubles_until_hardly_more_comes_back_and_takes_the_fewest() {
        for (bearable, tried, best) in [
            (180_000.0, 4, 16_384),
            (100_000.0, 4, 8_192),
            (20_000.0, 2, 2_048),
            (0.0, 1, 2_048),
        ] {
            let all = [2_048, 4_096, 8_192, 16_384];
            assert_eq!(found(2, 20_000, bearable), (all[..tried].to_vec(), best));
        }
    }

    #[test]
    fn it_stays_within_what_a_process_may_open_and_the_addresses_there_are() {
        assert_eq!(found(2, 1_064, 1e9).0, [1_600]);
        assert_eq!(found(64, 1 << 20, 1e9).0, [65_534]);
        // One for each process, whatever comes of it.
        assert_eq!(found(2, 10, 1e9).0, [2]);
    }
}
