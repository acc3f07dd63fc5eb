//! Proxies of a crawl: which one each connection goes through, with which session.
//!
//! Built once by `run`, before the fork, and shared by all shards. It must not open a socket;
//! credentials must not appear in any text or debug output.

mod retirement;
mod session;
mod tunnel;
mod url;

use std::cmp::Ordering;
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;

pub use self::retirement::RetireAfter;
pub(super) use self::retirement::{SessionUse, Sessions};
pub use self::session::Session;
use self::session::gcd;
pub(super) use self::tunnel::open;
pub use self::url::{Protocol, ProxyUrl, ProxyUrlError};
use super::host::{Host, Scheme};

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
    /// Events after which a session is retired.
    pub retire: Vec<RetireAfter>,
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
        self.of(host).any(|url| url.protocol() == Protocol::Http)
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

    /// Return the way of a connection with a session to host number `number`, which is `host` and
    /// has the address `address` if it was looked up; none of a host that is connected to directly.
    pub(super) fn hop(
        &self,
        number: usize,
        host: &Host,
        session: impl FnOnce(Session, &[RetireAfter]) -> Rc<SessionUse>,
        address: Option<SocketAddr>,
    ) -> Option<Hop> {
        let list = &self.lists[(*self.of_host.get(number)?)?];
        let used = session(self.session, &self.retire);
        let session = used.number();
        let proxy = list[usize::try_from(session % list.len() as u64).unwrap_or(0)];
        let url = &self.all[proxy].url;
        let credentials = url.credentials(self.seed, session);
        let way = match (url.protocol(), host.scheme()) {
            (Protocol::Http, Scheme::Http) => Way::Absolute(Absolute {
                proxy: url.to_string(),
                origin: [Scheme::Http.prefix().as_bytes(), host.header().as_bytes()].concat(),
                header: tunnel::authorization(credentials.as_ref()),
            }),
            (Protocol::Http, Scheme::Https) => {
                Way::Tunnel(tunnel::connect(host, credentials.as_ref()))
            }
            (Protocol::Socks5, _) => Way::Tunnel(tunnel::socks(host, address, credentials)),
            (Protocol::Socks5h, _) => Way::Tunnel(tunnel::socks(host, None, credentials)),
        };
        let session = url.has_session().then_some(used);
        Some(Hop {
            proxy,
            name: url.to_string(),
            session,
            address,
            way,
        })
    }
}

/// Most turns of all proxies together: the sum of their weights, once common factors are taken out.
const MOST_TURNS: u64 = 100_000;

/// Return the numbers of proxies of these weights in the order of their turns: each as often as its
/// weight, without common factors, and spread evenly.
///
/// # Errors
/// With the sum of the weights, if that is too large.
pub fn turns(weights: &[u32]) -> Result<Vec<usize>, TooManyTurns> {
    let common = weights
        .iter()
        .fold(0, |common, weight| gcd(common, u64::from(*weight)))
        .max(1);
    let weights: Vec<u64> = weights
        .iter()
        .map(|weight| u64::from(*weight) / common)
        .collect();
    let all: u64 = weights.iter().sum();
    if all > MOST_TURNS {
        return Err(TooManyTurns(all));
    }
    // Turn n of a proxy of weight w is in the middle of the n-th of w equal parts of the round, at
    // (2n + 1)/2w.
    let mut turns: Vec<(u64, usize)> = weights
        .iter()
        .enumerate()
        .flat_map(|(proxy, weight)| (0..*weight).map(move |n| (2 * n + 1, proxy)))
        .collect();
    turns.sort_by_key(|(at, proxy)| {
        (
            Middle {
                at: *at,
                of: weights[*proxy],
            },
            *proxy,
        )
    });
    Ok(turns.into_iter().map(|(_, proxy)| proxy).collect())
}

/// Weights that add up to too many turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the weights add up to {0} turns, more than {MOST_TURNS}: use smaller weights, or multiples of one number"
)]
pub struct TooManyTurns(u64);

/// Middle of a turn: the fraction `at / (2 * of)`, compared without rounding.
#[derive(Debug, Clone, Copy)]
struct Middle {
    at: u64,
    of: u64,
}

impl Ord for Middle {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at * other.of).cmp(&(other.at * self.of))
    }
}

impl PartialOrd for Middle {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Middle {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Middle {}

/// The way of a connection through a proxy.
#[derive(Debug)]
pub struct Hop {
    /// Number of the proxy.
    pub(super) proxy: usize,
    /// URL of the proxy, without credentials.
    pub(super) name: String,
    /// Its session, if it has one.
    pub(super) session: Option<Rc<SessionUse>>,
    /// Address of the target, if it was looked up.
    pub(super) address: Option<SocketAddr>,
    pub(super) way: Way,
}

/// Form of the requests through a proxy.
#[derive(Debug)]
pub(super) enum Way {
    /// The proxy forwards each request.
    Absolute(Absolute),
    /// The proxy connects to the target first.
    Tunnel(tunnel::Handshake),
}

/// Parts of a request to a proxy that forwards it (RFC 9112, 3.2.2).
#[derive(Clone)]
pub(super) struct Absolute {
    /// URL of the proxy, without credentials.
    pub(super) proxy: String,
    /// Start of the URL, before its path.
    pub(super) origin: Vec<u8>,
    /// `Proxy-Authorization`, after the end of another line; empty without credentials.
    pub(super) header: Vec<u8>,
}

impl fmt::Debug for Absolute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Absolute")
            .field("origin", &String::from_utf8_lossy(&self.origin))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn turns_follow_the_weights_and_are_spread(weights in prop::collection::vec(1..9_u32, 1..6)) {
            let turns = turns(&weights).unwrap();
            let common = weights.iter().fold(0, |common, weight| gcd(common, u64::from(*weight)));
            let common = usize::try_from(common).unwrap();
            let weights: Vec<usize> = weights.iter().map(|weight| *weight as usize / common).collect();
            let all: usize = weights.iter().sum();
            prop_assert_eq!(turns.len(), all);
            for (at, weight) in weights.iter().enumerate() {
                let mut given = 0;
                for (turn, proxy) in turns.iter().enumerate() {
                    given += usize::from(*proxy == at);
                    prop_assert!((given * all).abs_diff((turn + 1) * weight) < all * weights.len());
                }
                prop_assert_eq!(given, *weight);
            }
        }
    }

    #[test]
    fn common_factors_make_no_turns_and_too_many_are_refused() {
        assert_eq!(turns(&[1000; 1000]).unwrap(), (0..1000).collect::<Vec<_>>());
        assert_eq!(turns(&[6, 2]).unwrap(), [0, 0, 1, 0]);
        let uneven: Vec<u32> = (1..=1000).collect();
        assert_eq!(turns(&uneven), Err(TooManyTurns(500_500)));
    }
}
