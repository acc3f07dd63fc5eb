//! The addresses that requests come from, the first 64 by name. `Books` looks up each connection's address once and
//! counts under its index from then on.
//!
//! It must not count, and it never forgets an address: open connections hold indices into it.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

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

/// The table of addresses.
#[repr(C)]
pub(crate) struct Sources {
    names: [Name; SOURCES],
}

#[repr(C)]
struct Name {
    state: AtomicU32,
    /// The address as IPv6, an IPv4 address mapped into it; its upper and its lower half.
    halves: [AtomicU64; 2],
}

const FREE: u32 = 0;
/// A process is writing the address. If it is killed in the middle the slot stays so, and is lost to all.
const CLAIMED: u32 = 1;
const WRITTEN: u32 = 2;

impl Sources {
    /// The index of `address`, which gets a free slot if it has none.
    ///
    /// Nobody waits: a slot that another process is writing right now is passed over. One address may so get two slots,
    /// and whoever reads must add up the counts of equal names.
    pub(crate) fn find(&self, address: IpAddr) -> SourceIndex {
        let halves = halves(address);
        for (index, name) in self.names.iter().enumerate() {
            if name.state.load(Ordering::Acquire) == FREE
                && name.state.compare_exchange(FREE, CLAIMED, Ordering::Acquire, Ordering::Acquire).is_ok()
            {
                for (place, half) in name.halves.iter().zip(halves) {
                    place.store(half, Ordering::Relaxed);
                }
                // Release: whoever sees WRITTEN sees the address.
                name.state.store(WRITTEN, Ordering::Release);
                return SourceIndex(index);
            }
            if name.halves() == Some(halves) {
                return SourceIndex(index);
            }
        }
        SourceIndex::OTHER
    }

    /// The address behind each index, if there is one.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = (SourceIndex, IpAddr)> {
        self.names.iter().enumerate().filter_map(|(index, name)| {
            let [upper, lower] = name.halves()?;
            let address = Ipv6Addr::from(u128::from(upper) << 64 | u128::from(lower));
            Some((SourceIndex(index), IpAddr::V6(address).to_canonical()))
        })
    }
}

impl Name {
    fn halves(&self) -> Option<[u64; 2]> {
        (self.state.load(Ordering::Acquire) == WRITTEN)
            .then(|| [self.halves[0].load(Ordering::Relaxed), self.halves[1].load(Ordering::Relaxed)])
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

    #[test]
    fn a_slot_lost_to_a_killed_process_is_passed_over() {
        let shared = Shared::new().unwrap();
        let sources = &shared.region().sources;
        sources.names[0].state.store(CLAIMED, Ordering::Relaxed);
        assert_eq!(sources.find(address(1)).get(), 1);
        assert_eq!(sources.find(address(1)).get(), 1);
    }
}
