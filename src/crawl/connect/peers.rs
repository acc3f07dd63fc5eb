//! Addresses of the hosts and proxies that connections are opened to: their turns, and looking
//! their names up again (`--dns-ttl`).
//!
//! Called when a connection is opened, never for a request. It must not connect, and it blocks
//! nothing: lookups have threads of their own.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crawlmark_harness::clock::Nanos;

use super::local_ips::{Family, LocalIps};

/// Time for which an address is tried after all others of its name, once another one answered
/// before it. Long enough to spare nearly all connections the wait for a dead address, short enough
/// for one that was restarted.
const REST: Duration = Duration::from_secs(10);

/// Settings of lookups during the run.
#[derive(Debug, Clone)]
pub struct Lookups {
    /// Age at which addresses are looked up again.
    pub ttl: Duration,
    /// Name and port of each host, then of each proxy; none of what has no name or is not looked
    /// up.
    pub names: Vec<Option<(String, u16)>>,
    /// Look up the addresses of a name. Blocks.
    pub resolve: fn(&str, u16) -> io::Result<Vec<SocketAddr>>,
    /// Return true if an address that was not known before the run may be connected to.
    pub may_use: fn(IpAddr) -> bool,
}

/// Addresses of a host or proxy.
#[derive(Debug)]
pub(crate) struct HostAddresses {
    addresses: Vec<Address>,
    /// Family that answered last.
    family: Option<Family>,
    turn: usize,
    looked_up: Nanos,
    /// Result of the lookup under way, once there is one.
    lookup: Option<Arc<OnceLock<io::Result<Vec<SocketAddr>>>>>,
}

#[derive(Debug)]
struct Address {
    at: SocketAddr,
    rests_until: Nanos,
}

impl Address {
    fn new(at: &SocketAddr) -> Self {
        Self {
            at: *at,
            rests_until: Nanos::default(),
        }
    }

    const fn family(&self) -> Family {
        Family::of(self.at.ip())
    }
}

/// End of a lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LookedUp {
    /// New connections use the addresses that it found.
    Renewed,
    /// No address that it found may be used: the old ones are kept.
    Failed,
}

impl HostAddresses {
    /// Start with addresses that were looked up at `now`. New connections use them in turn, from
    /// number `turn` on.
    pub(crate) fn new(addresses: &[SocketAddr], turn: usize, now: Nanos) -> Self {
        Self {
            addresses: addresses.iter().map(Address::new).collect(),
            family: None,
            turn,
            looked_up: now,
            lookup: None,
        }
    }

    /// Take a turn: return all addresses in the order in which a new connection tries them.
    /// Addresses of the family that answered last take turns; second is one of the other family
    /// (RFC 8305, 4).
    pub(crate) fn order(&mut self, now: Nanos) -> Vec<SocketAddr> {
        let Some(first) = self.addresses.first() else {
            return Vec::new();
        };
        let family = self.family.unwrap_or(Family::of(first.at.ip()));
        let mut order: Vec<&Address> = self.addresses.iter().collect();
        order.sort_by_key(|address| (address.rests_until > now, address.family() != family));
        let equals = order
            .iter()
            .take_while(|address| address.rests_until <= now && address.family() == family)
            .count();
        order[..equals].rotate_left(self.turn.checked_rem(equals).unwrap_or(0));
        let family = order[0].family();
        if let Some(other) = order.iter().position(|address| address.family() != family) {
            order[1..=other].rotate_right(1);
        }
        self.turn = self.turn.wrapping_add(1);
        order.into_iter().map(|address| address.at).collect()
    }

    /// Note that number `answered` of `order` answered first.
    pub(crate) fn answered(&mut self, order: &[SocketAddr], answered: usize, now: Nanos) {
        self.family = order.get(answered).map(|at| Family::of(at.ip()));
        order
            .iter()
            .take(answered)
            .for_each(|at| self.rest(*at, now));
    }

    /// Try an address after all others for a while.
    pub(crate) fn rest(&mut self, at: SocketAddr, now: Nanos) {
        if let Some(address) = self.addresses.iter_mut().find(|address| address.at == at) {
            address.rests_until = now.plus(REST);
        }
    }

    /// Look up a name once its addresses are too old, and use the result of the last lookup. Return
    /// how that ended; none if none has.
    pub(crate) fn renew(
        &mut self,
        number: usize,
        lookups: &Lookups,
        ips: Option<&LocalIps>,
        now: Nanos,
    ) -> Option<LookedUp> {
        let (name, port) = lookups.names.get(number)?.as_ref()?;
        if let Some(result) = self.lookup.take_if(|lookup| lookup.get().is_some()) {
            let addresses: Vec<Address> = result
                .get()
                .into_iter()
                .flatten()
                .flatten()
                .filter(|at| {
                    (lookups.may_use)(at.ip()) && ips.is_none_or(|ips| ips.has(Family::of(at.ip())))
                })
                .map(Address::new)
                .collect();
            if addresses.is_empty() {
                return Some(LookedUp::Failed);
            }
            self.addresses = addresses;
            return Some(LookedUp::Renewed);
        }
        if self.lookup.is_none() && u128::from(now.since(self.looked_up)) >= lookups.ttl.as_nanos()
        {
            self.looked_up = now;
            let result = Arc::new(OnceLock::new());
            self.lookup = Some(Arc::clone(&result));
            let (name, port, resolve) = (name.clone(), *port, lookups.resolve);
            // Its end is seen by the next connection.
            drop(tokio::task::spawn_blocking(move || {
                result.set(resolve(&name, port))
            }));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn addresses(text: &str) -> Vec<SocketAddr> {
        text.split(' ')
            .filter(|text| !text.is_empty())
            .map(|text| text.parse().unwrap())
            .collect()
    }

    fn at(seconds: u64) -> Nanos {
        Nanos::default().plus(Duration::from_secs(seconds))
    }

    #[test]
    fn addresses_of_one_family_take_turns_and_the_other_family_is_second() {
        let all = addresses("[::1]:1 127.0.0.1:1 [::2]:1 [::3]:1 127.0.0.2:1");
        let mut peer = HostAddresses::new(&all, 1, at(0));
        let firsts = |peer: &mut HostAddresses, times: usize| -> Vec<String> {
            let orders = (0..times).map(|_| peer.order(at(1)));
            orders
                .map(|order| format!("{} {}", order[0].ip(), order[1].ip()))
                .collect()
        };
        assert_eq!(
            firsts(&mut peer, 4),
            [
                "::2 127.0.0.1",
                "::3 127.0.0.1",
                "::1 127.0.0.1",
                "::2 127.0.0.1"
            ]
        );
        // The first family was silent: the other one is used.
        let order = peer.order(at(1));
        peer.answered(&order, 1, at(1));
        let of_other = firsts(&mut peer, 4);
        assert!(
            of_other
                .iter()
                .all(|pair| pair.starts_with("127.0.0.") && pair.contains(" ::")),
            "{of_other:?}"
        );
        assert_eq!(
            of_other
                .iter()
                .filter(|pair| pair.starts_with("127.0.0.1"))
                .count(),
            2
        );
        // Each order has all addresses once.
        let mut order = peer.order(at(1));
        order.sort_unstable();
        let mut sorted = all.clone();
        sorted.sort_unstable();
        assert_eq!(order, sorted);
        assert_eq!(HostAddresses::new(&[], 0, at(0)).order(at(0)), []);
    }

    #[test]
    fn an_address_that_did_not_answer_comes_last_for_ten_seconds() {
        let all = addresses("127.0.0.1:1 127.0.0.2:1 127.0.0.3:1");
        let mut peer = HostAddresses::new(&all, 0, at(0));
        peer.answered(&all, 1, at(5));
        for time in [5, 14] {
            for _ in 0..3 {
                let order = peer.order(at(time));
                assert_eq!((order.len(), order[2]), (3, all[0]), "{time}");
            }
        }
        let firsts: Vec<SocketAddr> = (0..3).map(|_| peer.order(at(15))[0]).collect();
        assert!(firsts.contains(&all[0]), "{firsts:?}");
        // When all rest, all are tried.
        for address in &all {
            peer.rest(*address, at(15));
        }
        assert_eq!(peer.order(at(15)).len(), 3);
    }

    /// Answers of the resolver of these tests, the last one first.
    static ANSWERS: Mutex<Vec<Option<&str>>> = Mutex::new(Vec::new());

    fn resolve(name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        assert_eq!((name, port), ("a.test", 1));
        let answer = ANSWERS
            .lock()
            .unwrap()
            .pop()
            .expect("no more lookups than the test expects");
        answer
            .map(addresses)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    #[tokio::test]
    async fn names_are_looked_up_when_their_addresses_are_too_old_and_failures_keep_these() {
        let lookups = Lookups {
            ttl: Duration::from_secs(30),
            names: vec![None, Some(("a.test".to_owned(), 1))],
            resolve,
            may_use: |ip| ip.is_loopback(),
        };
        let ips: LocalIps = "127.0.0.9".parse().unwrap();
        let mut peer = HostAddresses::new(&addresses("127.0.0.1:1"), 0, at(0));
        assert_eq!(peer.renew(0, &lookups, Some(&ips), at(99)), None, "no name");
        assert_eq!(peer.renew(1, &lookups, Some(&ips), at(29)), None);
        assert!(peer.lookup.is_none(), "too early");
        let (renewed, failed) = (LookedUp::Renewed, LookedUp::Failed);
        for (time, answer, ended, expected) in [
            (
                30,
                Some("127.0.0.2:1 127.0.0.3:1"),
                renewed,
                "127.0.0.2:1 127.0.0.3:1",
            ),
            (60, None, failed, "127.0.0.2:1 127.0.0.3:1"),
            // Without --rate no public address, and none that no source address reaches.
            (
                90,
                Some("192.0.2.1:1 [::1]:1"),
                failed,
                "127.0.0.2:1 127.0.0.3:1",
            ),
            (120, Some("192.0.2.1:1 127.0.0.4:1"), renewed, "127.0.0.4:1"),
        ] {
            *ANSWERS.lock().unwrap() = vec![answer];
            assert_eq!(
                peer.renew(1, &lookups, Some(&ips), at(time)),
                None,
                "{time}: it is under way"
            );
            assert_eq!(
                peer.addresses.len(),
                if time == 30 { 1 } else { 2 },
                "{time}: old addresses serve"
            );
            let mut ended_as = None;
            while ended_as.is_none() {
                tokio::task::yield_now().await;
                ended_as = peer.renew(1, &lookups, Some(&ips), at(time + 29));
            }
            assert_eq!(ended_as, Some(ended), "{time}");
            let mut order = peer.order(at(time));
            order.sort_unstable();
            assert_eq!(order, addresses(expected), "{time}");
        }
    }
}
