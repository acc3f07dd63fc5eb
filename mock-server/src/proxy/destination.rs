//! Destinations that the proxy may connect to: this machine and, with `--proxy-allow-private`,
//! private networks. It is a tool for tests on one machine, and must never give access to another
//! one.
//!
//! It must not ask a name server: the only name is `localhost`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Destinations that the proxy connects to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// To this machine: 127.0.0.0/8 and `::1`.
    #[default]
    Loopback,
    /// Also to private networks: 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16 (RFC 1918) and
    /// `fc00::/7` (RFC 4193).
    Private,
}

impl Reach {
    fn covers(self, address: IpAddr) -> bool {
        // An IPv4 address in IPv6's clothes is what is inside them.
        let address = address.to_canonical();
        let is_private = match address {
            IpAddr::V4(address) => address.is_private(),
            IpAddr::V6(address) => address.is_unique_local(),
        };
        address.is_loopback() || (self == Self::Private && is_private)
    }
}

/// Reason why a destination is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// A name other than `localhost`.
    #[error("this proxy resolves no names: use localhost or an IP address")]
    Name,
    /// An address out of reach.
    #[error(
        "this proxy forwards to loopback addresses only, and to private ones with --proxy-allow-private"
    )]
    Address,
}

/// The addresses to try, in order, for `host` as it stands in a request: a literal address, one of
/// IPv6 in brackets, or `localhost`.
pub(crate) fn candidates(host: &str, port: u16, reach: Reach) -> Result<Vec<SocketAddr>, Refusal> {
    let loopback = [
        IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::LOCALHOST),
    ];
    let addresses = match literal(host) {
        Some(address) => vec![address.to_canonical()],
        None if host.eq_ignore_ascii_case("localhost") => loopback.to_vec(),
        None => return Err(Refusal::Name),
    };
    if addresses.iter().all(|address| reach.covers(*address)) {
        Ok(addresses
            .into_iter()
            .map(|address| SocketAddr::new(address, port))
            .collect())
    } else {
        Err(Refusal::Address)
    }
}

fn literal(host: &str) -> Option<IpAddr> {
    match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?.parse().ok().map(IpAddr::V6),
        None => host.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_what_is_in_reach_has_candidates() {
        use Refusal::{Address, Name};
        for (host, loopback, private) in [
            ("127.0.0.1", Ok(()), Ok(())),
            ("127.255.1.2", Ok(()), Ok(())),
            ("[::1]", Ok(()), Ok(())),
            ("localhost", Ok(()), Ok(())),
            ("LocalHost", Ok(()), Ok(())),
            ("[::ffff:127.0.0.1]", Ok(()), Ok(())),
            ("10.0.0.1", Err(Address), Ok(())),
            ("172.31.255.255", Err(Address), Ok(())),
            ("192.168.0.1", Err(Address), Ok(())),
            ("[fd00::1]", Err(Address), Ok(())),
            ("[::ffff:10.0.0.1]", Err(Address), Ok(())),
            ("172.32.0.1", Err(Address), Err(Address)),
            ("192.0.2.1", Err(Address), Err(Address)),
            ("169.254.169.254", Err(Address), Err(Address)),
            ("[fe80::1]", Err(Address), Err(Address)),
            ("[2001:db8::1]", Err(Address), Err(Address)),
            ("[::ffff:192.0.2.1]", Err(Address), Err(Address)),
            // The kernel would take both for this machine; what they mean elsewhere is not known.
            ("0.0.0.0", Err(Address), Err(Address)),
            ("[::]", Err(Address), Err(Address)),
            ("example.invalid", Err(Name), Err(Name)),
            ("localhost.example.invalid", Err(Name), Err(Name)),
            ("localhost.", Err(Name), Err(Name)),
            // Forms that only some resolvers take for addresses.
            ("127.1", Err(Name), Err(Name)),
            ("2130706433", Err(Name), Err(Name)),
            ("0x7f.0.0.1", Err(Name), Err(Name)),
            ("0177.0.0.1", Err(Name), Err(Name)),
            ("[127.0.0.1]", Err(Name), Err(Name)),
            ("", Err(Name), Err(Name)),
        ] {
            for (reach, expected) in [(Reach::Loopback, loopback), (Reach::Private, private)] {
                assert_eq!(
                    candidates(host, 80, reach).map(|_| ()),
                    expected,
                    "{host} {reach:?}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn no_address_outside_loopback_gets_through(bits in any::<u32>(), wide in any::<u128>()) {
            let (ip4, ip6) = (Ipv4Addr::from_bits(bits), Ipv6Addr::from_bits(wide));
            let is_in = candidates(&ip4.to_string(), 80, Reach::Loopback).is_ok();
            prop_assert_eq!(is_in, bits >> 24 == 127);
            let mapped = format!("[{}]", ip4.to_ipv6_mapped());
            prop_assert_eq!(candidates(&mapped, 80, Reach::Loopback).is_ok(), is_in);
            // One in 2^128 is loopback, one in 2^96 mapped.
            let ip6 = format!("[{ip6}]");
            prop_assert!(candidates(&ip6, 80, Reach::Loopback).is_err());
        }
    }
}
