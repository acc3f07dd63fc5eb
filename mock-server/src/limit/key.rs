//! Keys of a limit, each with a count of its own: everyone, an address, a prefix, a header's value,
//! a session. The server derives a request's key here, from its connection and its headers.
//!
//! It must not look anything up.

use crate::draw::mix;
use crate::text::from_text;
use hyper::header::{HeaderMap, HeaderName};
use ipnet::IpNet;
use std::net::IpAddr;

/// Header of the label.
const SESSION_HEADER: HeaderName = HeaderName::from_static("x-session");

/// Requests that are counted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyBy {
    /// Clients that are counted as one.
    pub(crate) clients: Clients,
    /// True if each path has a count of its own; the query is no part of it.
    by_path: bool,
    /// Beginning of the paths of requests that are counted at all.
    pub(crate) below: Option<String>,
}

/// Clients that are counted as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Clients {
    /// All clients.
    Everyone,
    /// Those that share an address. An IPv4 address mapped to IPv6 is the IPv4 address.
    Address,
    /// Those whose addresses begin with the same bits.
    Prefix(Prefix),
    /// Those that send the same value of a header; all that send none are one.
    Header(HeaderName),
    /// Those with the same value of `x-session`; all that have none are one.
    Session,
}

/// Bits of an address that are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefix {
    v4_bits: u8,
    v6_bits: u8,
}

impl Prefix {
    /// Look at `v4_bits` of IPv4 addresses, also of those mapped to IPv6, and at `v6_bits` of all
    /// others. None if an address has fewer bits.
    fn new(v4_bits: u8, v6_bits: u8) -> Option<Self> {
        (v4_bits <= 32 && v6_bits <= 128).then_some(Self { v4_bits, v6_bits })
    }

    fn of(self, address: IpAddr) -> IpAddr {
        let address = address.to_canonical();
        let bits = if address.is_ipv4() {
            self.v4_bits
        } else {
            self.v6_bits
        };
        IpNet::new(address, bits).map_or(address, |prefix| prefix.network())
    }
}

/// 64 bits that stand for a key. A key of one limit never meets one of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyHash(pub(crate) u64);

impl KeyBy {
    /// One key per address.
    pub(crate) const ADDRESS: Self = Self {
        clients: Clients::Address,
        by_path: false,
        below: None,
    };

    /// The key of all requests of a connection, if they have one in common.
    pub(crate) fn of_connection(&self, address: IpAddr) -> Option<KeyHash> {
        let is_by_request = self.by_path
            || self.below.is_some()
            || matches!(self.clients, Clients::Header(_) | Clients::Session);
        if is_by_request {
            return None;
        }
        self.of_request(address, &HeaderMap::new(), "")
    }

    /// The key of one request; none if it is not counted.
    pub(crate) fn of_request(
        &self,
        address: IpAddr,
        headers: &HeaderMap,
        path: &str,
    ) -> Option<KeyHash> {
        let mut below = self.below.iter();
        if !below.all(|below| path.starts_with(below.as_str())) {
            return None;
        }
        let path = if self.by_path { path.as_bytes() } else { &[] };
        Some(match &self.clients {
            Clients::Everyone | Clients::Address | Clients::Prefix(_) => {
                hash(&[&self.of_address(address), path])
            }
            Clients::Header(name) => hash(&[
                headers.get(name).map_or(&[], |value| value.as_bytes()),
                path,
            ]),
            Clients::Session => hash(&[
                headers
                    .get(SESSION_HEADER)
                    .map_or(&[], |value| value.as_bytes()),
                path,
            ]),
        })
    }

    fn of_address(&self, address: IpAddr) -> [u8; 16] {
        let address = match &self.clients {
            Clients::Address => address,
            Clients::Prefix(prefix) => prefix.of(address),
            Clients::Everyone | Clients::Header(_) | Clients::Session => return [0; 16],
        };
        match address.to_canonical() {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => address.octets(),
        }
    }
}

/// A hash of parts; where one ends and the next begins counts.
fn hash(parts: &[&[u8]]) -> KeyHash {
    let mut hash = 0;
    for part in parts {
        hash = mix(hash ^ part.len() as u64);
        for chunk in part.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            hash = mix(hash ^ u64::from_le_bytes(word));
        }
    }
    KeyHash(hash)
}

from_text!(
    KeyBy,
    "key",
    "everyone, address, /64, /24,/48, header=NAME or session, with +path or not"
);

impl KeyBy {
    fn read(given: &str) -> Option<Self> {
        let (clients, by_path) = match given.strip_suffix("+path") {
            Some(clients) => (clients, true),
            None => (given, false),
        };
        let clients = match clients {
            "everyone" => Clients::Everyone,
            "address" => Clients::Address,
            "session" => Clients::Session,
            other => match other.strip_prefix("header=") {
                Some(name) => Clients::Header(name.parse().ok()?),
                None => Clients::Prefix(prefix(other)?),
            },
        };
        Some(Self {
            clients,
            by_path,
            below: None,
        })
    }
}

/// Read `/64`, which leaves IPv4 addresses whole, or `/24,/48`.
fn prefix(given: &str) -> Option<Prefix> {
    let (v4, v6) = given.split_once(',').unwrap_or(("/32", given));
    let [v4, v6] = [v4, v6].map(|part| part.trim().strip_prefix('/')?.parse().ok());
    Prefix::new(v4?, v6?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(text: &str) -> KeyBy {
        text.parse().unwrap()
    }

    fn headers(entries: &[(&'static str, &str)]) -> HeaderMap {
        entries
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .collect()
    }

    fn are_one(by: &str, one: &str, other: &str) -> bool {
        let of = |address: &str| key(by).of_connection(address.parse().unwrap()).unwrap();
        of(one) == of(other)
    }

    #[test]
    fn addresses_are_one_as_far_as_they_are_looked_at() {
        for (by, one, other, expected) in [
            ("everyone", "127.0.0.1", "2001:db8::1", true),
            ("address", "127.0.0.1", "127.0.0.2", false),
            ("address", "127.0.0.1", "::ffff:127.0.0.1", true),
            ("address", "2001:db8::1", "2001:db8::2", false),
            ("/0", "2001:db8::1", "::1", true),
            // IPv4 stays whole, mapped or not.
            ("/64", "127.0.0.1", "127.0.0.2", false),
            ("/64", "::ffff:127.0.0.1", "::ffff:127.0.0.2", false),
            ("/24,/64", "127.0.0.1", "::ffff:127.0.0.2", true),
            ("/24,/64", "127.0.0.1", "127.0.1.1", false),
            ("/0,/0", "127.0.0.1", "10.0.0.1", true),
            ("/0,/0", "127.0.0.1", "2001:db8::1", false),
        ] {
            assert_eq!(are_one(by, one, other), expected, "{by}: {one} and {other}");
        }
    }

    #[test]
    fn requests_are_told_apart_by_what_the_key_names() {
        let address: IpAddr = "127.0.0.1".parse().unwrap();
        let of = |by: &str, value: &str, path: &str| {
            key(by).of_request(address, &headers(&[("x-api-key", value)]), path)
        };
        assert_ne!(
            of("header=X-Api-Key", "a", "/1"),
            of("header=x-api-key", "b", "/1")
        );
        assert_eq!(
            of("header=x-api-key", "a", "/1"),
            of("header=x-api-key", "a", "/2")
        );
        assert_ne!(
            of("header=x-api-key+path", "a", "/1"),
            of("header=x-api-key+path", "a", "/2")
        );
        assert_ne!(
            of("header=x-api-key+path", "a/", "1"),
            of("header=x-api-key+path", "a", "/1")
        );
        assert_eq!(of("address", "a", "/1"), of("address", "b", "/2"));
        assert_eq!(
            of("header=x-other", "a", "/1"),
            key("header=x-other").of_request(address, &HeaderMap::new(), "/")
        );
        assert_eq!(key("address+path").of_connection(address), None);
        assert_eq!(key("session").of_connection(address), None);
        let mut below = key("address");
        below.below = Some("/a".to_owned());
        assert_eq!(below.of_connection(address), None);
        let of = |path| below.of_request(address, &HeaderMap::new(), path);
        assert_eq!((of("/a/1") == of("/ab"), of("/b")), (true, None));
    }

    #[test]
    fn what_is_no_key_is_not_read() {
        for given in [
            "ip",
            "header=",
            "header=a b",
            "/129",
            "/33,/64",
            "/64,",
            "/x",
            "",
        ] {
            assert_eq!(given.parse::<KeyBy>().ok(), None, "{given}");
        }
    }

    proptest! {
        #[test]
        fn prefixes_compare_the_bits_they_name(one: u128, flipped in 0_u8..128, bits in 0_u8..=128) {
            // Not a mapped address, whatever the bits.
            let one = one | 1 << 127;
            prop_assume!(flipped != 0);
            let other = one ^ 1 << (127 - flipped);
            let prefix = Prefix::new(32, bits).unwrap();
            let of = |bits: u128| prefix.of(IpAddr::V6(bits.into()));
            prop_assert_eq!(of(one) == of(other), flipped >= bits);
        }
    }
}
