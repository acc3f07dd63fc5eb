//! Proxies of a crawl: which one each connection goes through, with which session.
//!
//! Built once by `run`, before the fork, and shared by all shards. It must not open a socket;
//! credentials must not appear in any text or debug output.

mod tunnel;
mod url;

use std::net::SocketAddr;

use self::tunnel::Handshake;
pub(crate) use self::tunnel::Secret;
pub use self::url::{Protocol, ProxyUrl, ProxyUrlError, Session};
use crate::crawl::requests::host::{Host, Scheme};

/// A proxy with its addresses.
#[derive(Debug, Clone)]
pub struct Proxy {
    /// Its URL.
    pub url: ProxyUrl,
    /// Addresses of its host; used in turn.
    pub addresses: Vec<SocketAddr>,
}

/// Proxies of a crawl.
#[derive(Debug, Clone, Default)]
pub struct Proxies {
    /// All proxies.
    pub all: Vec<Proxy>,
    /// Lists of proxies to use in turn, by their numbers, each as often as its weight.
    pub lists: Vec<Vec<usize>>,
    /// List of each host, by its number; none of a host that is connected to directly.
    pub of_host: Vec<Option<usize>>,
    /// Connections that share a session.
    pub session: Session,
    /// Seed of the session labels.
    pub seed: u64,
}

impl Proxies {
    /// True if connections to a host go through a proxy.
    #[must_use]
    pub fn serves(&self, host: usize) -> bool {
        self.of_host.get(host).copied().flatten().is_some()
    }

    /// Parts of user names and passwords, which nothing that is saved or shown may repeat.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        self.all.iter().flat_map(|proxy| proxy.url.secrets())
    }

    /// True if one of the proxies of a host looks up its name.
    #[must_use]
    pub fn looks_up(&self, host: usize) -> bool {
        self.of(host).any(ProxyUrl::resolves_names)
    }

    /// True if a connection to a host needs its address: without a proxy, or through one that does
    /// not look up names.
    #[must_use]
    pub fn needs_address(&self, host: usize) -> bool {
        !self.serves(host) || self.of(host).any(|url| !url.resolves_names())
    }

    /// True if one of the proxies of a host would forward its http:// requests.
    #[must_use]
    pub fn forwards(&self, host: usize) -> bool {
        self.of(host).any(|url| url.protocol == Protocol::Http)
    }

    /// Connect to a host directly: its address is unknown, and no proxy is to look it up.
    pub fn exclude(&mut self, host: usize) {
        if let Some(list) = self.of_host.get_mut(host) {
            *list = None;
        }
    }

    /// Return the proxies of a host; none of a host that is connected to directly.
    fn of(&self, host: usize) -> impl Iterator<Item = &ProxyUrl> {
        let list = self
            .of_host
            .get(host)
            .copied()
            .flatten()
            .map(|list| &self.lists[list]);
        list.into_iter()
            .flatten()
            .map(|proxy| &self.all[*proxy].url)
    }

    /// Return the way of connection number `turn` of the run, to host number `number`, which is
    /// `host` and has the address `address` if it was looked up; none of a host that is connected to
    /// directly.
    pub(crate) fn hop(
        &self,
        number: usize,
        host: &Host,
        turn: u64,
        address: Option<SocketAddr>,
    ) -> Option<Hop> {
        let list = &self.lists[(*self.of_host.get(number)?)?];
        let session = self.session.number(turn);
        let proxy = list[usize::try_from(session % list.len() as u64).unwrap_or(0)];
        let url = &self.all[proxy].url;
        let credentials = url.credentials(self.seed, session);
        let way = match (url.protocol, host.scheme) {
            (Protocol::Http, Scheme::Http) => Way::Absolute(Absolute {
                proxy: url.to_string(),
                origin: [Scheme::Http.prefix().as_bytes(), host.header().as_bytes()].concat(),
                header: Secret(tunnel::authorization(credentials.as_ref())),
            }),
            (Protocol::Http, Scheme::Https) => {
                Way::Tunnel(Handshake::connect(host, credentials.as_ref()))
            }
            (Protocol::Socks5, _) => {
                Way::Tunnel(Handshake::socks(host, address, credentials.as_ref()))
            }
            (Protocol::Socks5h, _) => {
                Way::Tunnel(Handshake::socks(host, None, credentials.as_ref()))
            }
        };
        Some(Hop {
            proxy,
            name: url.to_string(),
            session: url.has_session().then_some(session),
            address,
            way,
        })
    }
}

/// Return the numbers of proxies of these weights in the order of their turns: each as often as its
/// weight, and spread evenly.
#[must_use]
pub fn turns(weights: &[u32]) -> Vec<usize> {
    // Turn n of a proxy of weight w is in the middle of the n-th of w equal parts of the round.
    let mut turns: Vec<(f64, usize)> = weights
        .iter()
        .enumerate()
        .flat_map(|(proxy, weight)| {
            (0..*weight).map(move |n| (f64::from(2 * n + 1) / f64::from(*weight), proxy))
        })
        .collect();
    turns.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
    turns.into_iter().map(|(_, proxy)| proxy).collect()
}

/// The way of a connection through a proxy.
#[derive(Debug)]
pub struct Hop {
    /// Number of the proxy.
    pub(crate) proxy: usize,
    /// URL of the proxy, without credentials.
    pub(crate) name: String,
    /// Number of its session, if it has one.
    pub(crate) session: Option<u64>,
    /// Address of the target, if it was looked up.
    pub(crate) address: Option<SocketAddr>,
    pub(crate) way: Way,
}

/// Form of the requests through a proxy.
#[derive(Debug)]
pub(crate) enum Way {
    /// The proxy forwards each request.
    Absolute(Absolute),
    /// The proxy connects to the target first.
    Tunnel(Handshake),
}

/// Parts of a request to a proxy that forwards it (RFC 9112, 3.2.2).
#[derive(Debug, Clone)]
pub(crate) struct Absolute {
    /// URL of the proxy, without credentials.
    pub(crate) proxy: String,
    /// Start of the URL, before its path.
    pub(crate) origin: Vec<u8>,
    /// `Proxy-Authorization`, after the end of another line; empty without credentials.
    pub(crate) header: Secret,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn turns_follow_the_weights_and_are_spread(weights in prop::collection::vec(1..9_u32, 1..6)) {
            let (turns, all) = (turns(&weights), weights.iter().sum::<u32>() as usize);
            prop_assert_eq!(turns.len(), all);
            for (at, weight) in weights.iter().enumerate() {
                let mut given = 0;
                for (turn, proxy) in turns.iter().enumerate() {
                    given += usize::from(*proxy == at);
                    let fair = (turn + 1) * *weight as usize;
                    prop_assert!((given * all).abs_diff(fair) < all * weights.len());
                }
                prop_assert_eq!(given, *weight as usize);
            }
        }
    }
}
