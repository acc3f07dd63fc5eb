//! The addresses that requests come from, the first 64 by name. `Books` looks up each connection's address once and
//! counts under its index from then on.
//!
//! It must not count, and it never forgets an address: open connections hold indices into it.

use super::roll::Roll;
use std::net::{IpAddr, Ipv6Addr};

/// How many addresses have a name of their own. A crawl from more is counted under `other` for the rest.
pub(crate) const SOURCES: usize = 64;

/// Where a source's counter is: below [`SOURCES`] a named one, [`SOURCES`] itself all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourceIndex(usize);

impl SourceIndex {
    pub(crate) const OTHER: Self = Self(SOURCES);

    pub(crate) const fn get(self) -> usize {
        self.0
    }
}

/// The addresses: each as IPv6, an IPv4 address mapped into it, its upper and its lower half.
#[repr(C)]
pub(crate) struct Sources {
    roll: Roll<SOURCES, 2>,
}

impl Sources {
    /// The index of `address`. One address may have two; see [`Roll::find`].
    pub(crate) fn find(&self, address: IpAddr) -> SourceIndex {
        self.roll.find(halves(address)).map_or(SourceIndex::OTHER, SourceIndex)
    }

    /// The address behind each index, if there is one.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = (SourceIndex, IpAddr)> {
        self.roll.names().map(|(index, [upper, lower])| {
            let address = Ipv6Addr::from(u128::from(upper) << 64 | u128::from(lower));
            (SourceIndex(index), IpAddr::V6(address).to_canonical())
        })
    }
}

/// An address as two words, so that an IPv4 address and the IPv6 address it is mapped to are one.
#[expect(clippy::cast_possible_truncation, reason = "the two halves are taken apart")]
pub(super) fn halves(address: IpAddr) -> [u64; 2] {
    let bits = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    };
    [(bits >> 64) as u64, bits as u64]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::Shared;
    use std::net::Ipv4Addr;

    fn address(number: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from_bits(0x7f00_0000 + number))
    }

    #[test]
    fn addresses_keep_their_slots_until_there_are_none_left() {
        let shared = Shared::new().unwrap();
        let sources = &shared.region().sources;
        for round in 0..2 {
            for number in 0..64 {
                assert_eq!(sources.find(address(number)).get(), number as usize, "round {round}");
            }
            assert_eq!(sources.find(address(64)), SourceIndex::OTHER);
        }
        let named: Vec<IpAddr> = sources.addresses().map(|(_, address)| address).collect();
        assert_eq!(named, (0..64).map(address).collect::<Vec<_>>());
    }

    #[test]
    fn a_mapped_address_is_the_address() {
        let shared = Shared::new().unwrap();
        let sources = &shared.region().sources;
        let mapped: IpAddr = "::ffff:127.0.0.1".parse().unwrap();
        assert_eq!(sources.find(mapped), sources.find(address(1)));
        let ip6: IpAddr = "2001:db8::1".parse().unwrap();
        assert_ne!(sources.find(ip6), sources.find(mapped));
        assert_eq!(sources.addresses().map(|(_, address)| address).collect::<Vec<_>>(), [address(1), ip6]);
    }
}
