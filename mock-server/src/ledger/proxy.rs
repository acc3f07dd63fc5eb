//! The proxy's part of the ledger: its requests and tunnels, their outcomes, and their sessions.
//!
//! It must not know how anything is forwarded.

use super::{LedgerWriter, add, add_to, with_other};
use crate::shared::{Counters, ProxyCounters, Shared};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// Counts of the target as a forward proxy; all zeros if it is none. None of it counts among the
/// target's own requests, statuses or sources, unless the proxy was asked for the target it is
/// itself.
///
/// At rest `requests + tunnels = auth_failures + sessionless + sum of by_session`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProxyLedger {
    /// Requests to be forwarded, whatever became of them.
    pub requests: u64,
    /// Requests for a tunnel (CONNECT), whatever became of them.
    pub tunnels: u64,
    /// Requests and tunnels with status 407: credentials were missing, unreadable or wrong.
    pub auth_failures: u64,
    /// Requests and tunnels with valid credentials that were refused: 403, the destination is not
    /// permitted; 400, it is invalid.
    pub refused: u64,
    /// Requests and tunnels without a response of the destination: 502, it refused or broke the
    /// connection; 504, it took too long.
    pub upstream_failures: u64,
    /// Requests and tunnels without a session label.
    pub sessionless: u64,
    /// Requests and tunnels by session label; beyond 64 labels, and for labels of more than 40
    /// bytes, under `other`.
    pub by_session: BTreeMap<String, u64>,
    /// Bytes carried from clients to destinations: all bytes of tunnels, and the bodies of
    /// forwarded requests.
    pub bytes_up: u64,
    /// Bytes carried from destinations to clients: all bytes of tunnels, and the bodies of
    /// forwarded answers.
    pub bytes_down: u64,
}

impl ProxyLedger {
    /// Adds what one process counted.
    pub(super) fn add(&mut self, counters: &Counters, shared: &Shared) {
        let counters = &counters.proxy;
        add!(self, counters, requests tunnels auth_failures refused upstream_failures sessionless bytes_up bytes_down);
        for (index, label) in with_other(shared.region().sessions.all(), counters.by_session.len())
        {
            add_to(
                &mut self.by_session,
                label,
                counters.by_session[index].get(),
            );
        }
    }
}

impl LedgerWriter {
    /// Return this process's counters as a proxy.
    pub(crate) fn proxy(&self) -> &ProxyCounters {
        &self.counters().proxy
    }

    /// Something to forward was let in, with this label or none.
    pub(crate) fn let_in(&self, label: Option<&str>) {
        match label {
            None => self.proxy().sessionless.increment(),
            Some(label) => {
                self.proxy().by_session[self.shared.region().sessions.find(label)].increment();
            }
        }
    }

    /// Takes a turn among all processes: for what has no label.
    pub(crate) fn next_turn(&self) -> u64 {
        self.shared.region().turns.fetch_add(1, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Ledger;

    #[test]
    fn everything_counted_is_in_the_ledger_and_gone_after_a_reset() {
        let shared = Shared::new().unwrap();
        let (one, two) = (LedgerWriter::open(&shared), LedgerWriter::open(&shared));
        for books in [&one, &two] {
            let proxy = books.proxy();
            proxy.requests.increment();
            proxy.tunnels.add(2);
            proxy.auth_failures.add(3);
            proxy.refused.add(4);
            proxy.upstream_failures.add(5);
            proxy.bytes_up.add(6);
            proxy.bytes_down.add(7);
            for label in [None, Some("a"), Some("b"), Some("a")] {
                books.let_in(label);
            }
        }
        one.let_in(Some(&"x".repeat(41)));
        let expected = ProxyLedger {
            requests: 2,
            tunnels: 4,
            auth_failures: 6,
            refused: 8,
            upstream_failures: 10,
            sessionless: 2,
            by_session: [("a", 4), ("b", 2), ("other", 1)]
                .map(|(label, count)| (label.to_owned(), count))
                .into(),
            bytes_up: 12,
            bytes_down: 14,
        };
        assert_eq!(Ledger::read(&shared).proxy, expected);
        Ledger::reset(&shared);
        assert_eq!(Ledger::read(&shared).proxy, ProxyLedger::default());
    }

    #[test]
    fn all_fields_are_there_from_the_start() {
        let json = serde_json::to_value(ProxyLedger::default()).unwrap();
        assert_eq!(json.as_object().unwrap().len(), 9);
    }
}
