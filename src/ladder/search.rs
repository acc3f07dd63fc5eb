//! Search for the number of connections from which the CPU is the limit: doubled until the rate
//! hardly grows.
//!
//! By Little's law, the number is the rate times the latency, but the rate that the CPU can do is
//! unknown. More connections than that do not help, and cost memory, caches and timers. A run with
//! too few shows only what they can do, so the search goes upward.

use std::time::Duration;

use crawlmark_results::studies::ladder::{LimitedBy, Probe};

use super::strategy::MOST_CONNECTIONS;

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
    best: Probe,
}

impl Search {
    /// A search on so many cores, where a process may have so many descriptors.
    pub(super) fn new(cores: u32, descriptors: Option<u64>) -> Self {
        let most = most(cores, descriptors);
        let first = FIRST.saturating_mul(cores).min(most);
        Self {
            next: Some(first),
            most,
            best: Probe {
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

    /// Record the result of a run, and what limited it.
    pub(super) fn record(&mut self, probe: Probe, limited_by: LimitedBy) {
        let worth = if limited_by == LimitedBy::Cpu {
            WORTH_OF_CPU
        } else {
            WORTH
        };
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
    /// return the connections tried.
    fn found(search: &mut Search, bearable: f64) -> Vec<u32> {
        let mut tried = Vec::new();
        while let Some(connections) = search.next() {
            tried.push(connections);
            let ok_per_s = (f64::from(connections) / 0.063).min(bearable)
                * (1.0 - f64::from(connections) * 1e-7);
            let limited_by = if f64::from(connections) / 0.063 > bearable {
                LimitedBy::Cpu
            } else {
                LimitedBy::Waiting
            };
            search.record(
                Probe {
                    connections,
                    ok_per_s,
                },
                limited_by,
            );
        }
        tried
    }

    #[test]
    fn it_doubles_until_hardly_more_comes_back() {
        let mut search = Search::new(2, Some(20_000));
        assert_eq!(found(&mut search, 180_000.0), [2_048, 4_096, 8_192, 16_384]);
        assert_eq!(
            search.best(),
            16_384,
            "four tenths more came of it, and hardly more can"
        );
        let mut usual = Search::new(2, Some(20_000));
        assert_eq!(found(&mut usual, 100_000.0), [2_048, 4_096, 8_192, 16_384]);
        assert_eq!(usual.best(), 8_192);
        let mut slow = Search::new(2, Some(20_000));
        assert_eq!(found(&mut slow, 20_000.0), [2_048, 4_096]);
        assert_eq!(slow.best(), 2_048);
    }

    #[test]
    fn it_stays_within_what_a_process_may_open_and_the_addresses_there_are() {
        let mut poor = Search::new(2, Some(1_064));
        assert_eq!(found(&mut poor, 1e9), [1_600]);
        let mut rich = Search::new(64, Some(1 << 20));
        assert_eq!(found(&mut rich, 1e9), [65_534]);
        let mut bare = Search::new(2, Some(10));
        assert_eq!(
            found(&mut bare, 1e9),
            [2],
            "one for each process, whatever comes of it"
        );
    }

    #[test]
    fn more_that_only_wait_for_each_other_are_not_taken() {
        let mut search = Search::new(2, Some(20_000));
        for (connections, ok_per_s) in [(2_048, 29_787.0), (4_096, 57_384.0), (8_192, 57_638.0)] {
            assert_eq!(search.next(), Some(connections));
            search.record(
                Probe {
                    connections,
                    ok_per_s,
                },
                LimitedBy::Cpu,
            );
        }
        assert_eq!((search.next(), search.best()), (None, 4_096));
    }

    #[test]
    fn nothing_at_all_ends_it() {
        let mut search = Search::new(2, None);
        search.record(
            Probe {
                connections: 2_048,
                ok_per_s: 0.0,
            },
            LimitedBy::Refusals,
        );
        assert_eq!((search.next(), search.best()), (None, 2_048));
    }
}
