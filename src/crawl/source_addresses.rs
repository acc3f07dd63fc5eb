//! Source address of each connection of a shard.
//!
//! Asked by the crawl when it opens a connection. It must not open anything.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;

use super::local_ips::{Family, LocalIps};
use super::reuse::Reuse;

/// Position of a shard's connections among those of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionSlots {
    /// The number of its first connection among those of all shards.
    pub first: u64,
    /// The number of the shard.
    pub shard: u32,
    /// Number of shards.
    pub shards: u32,
}

impl Default for ConnectionSlots {
    /// The only shard.
    fn default() -> Self {
        Self {
            first: 0,
            shard: 0,
            shards: 1,
        }
    }
}

/// Gives each connection its address.
#[derive(Debug)]
pub(super) struct SourceAddresses {
    ips: LocalIps,
    order: AddressOrder,
}

/// In which order addresses are given.
#[derive(Debug)]
enum AddressOrder {
    /// Connection `first + k` of the run goes from its address each time that it is opened, to each
    /// host.
    Kept {
        first: u64,
        of_host: Vec<Rc<RefCell<FreeSlots>>>,
    },
    /// Each connection goes from the next address; shards take turns.
    Rotating { next: Cell<u64>, stride: u64 },
}

/// The numbers of connections to one host that are not open.
#[derive(Debug, Default)]
struct FreeSlots {
    /// Given back: the last one first, so that a connection that broke is opened again from where
    /// it was.
    free: Vec<u64>,
    /// The first that was never taken.
    next: u64,
}

impl SourceAddresses {
    /// For connections to so many hosts. Where connections are closed on purpose, each new one goes
    /// from the next address.
    pub(super) fn new(ips: LocalIps, reuse: Reuse, slots: ConnectionSlots, hosts: usize) -> Self {
        let order = match reuse {
            Reuse::Unbounded => AddressOrder::Kept {
                first: slots.first,
                of_host: (0..hosts).map(|_| Rc::default()).collect(),
            },
            Reuse::Requests(_) => AddressOrder::Rotating {
                next: Cell::new(u64::from(slots.shard)),
                stride: u64::from(slots.shards.max(1)),
            },
        };
        Self { ips, order }
    }

    /// The place of a connection to `host` that is to be opened.
    pub(super) fn take(&self, host: usize) -> ConnectionSlot {
        match &self.order {
            AddressOrder::Kept { first, of_host } => {
                let free_slots = &of_host[host];
                let mut all = free_slots.borrow_mut();
                let (number, is_new) = all.free.pop().map_or_else(
                    || {
                        all.next += 1;
                        (all.next - 1, true)
                    },
                    |number| (number, false),
                );
                ConnectionSlot {
                    place: first + number,
                    number,
                    is_new,
                    of: Some(Rc::clone(free_slots)),
                }
            }
            AddressOrder::Rotating { next, stride } => {
                let place = next.get();
                next.set(place.wrapping_add(*stride));
                ConnectionSlot {
                    place,
                    number: 0,
                    is_new: true,
                    of: None,
                }
            }
        }
    }

    /// The address of a place, for a target of that family. None when there is no address of it.
    pub(super) fn address(&self, slot: &ConnectionSlot, family: Family) -> Option<IpAddr> {
        self.ips.nth(family, slot.place)
    }

    /// Return the source of a connection to an address of that family.
    pub(super) fn counted(&self, slot: &ConnectionSlot, family: Family) -> CountedSource {
        let is_new = slot.is_new && self.ips.is_first_round(family, slot.place);
        CountedSource {
            number: self.ips.number(family, slot.place),
            is_new: Cell::new(is_new),
        }
    }

    /// Return the number of source addresses that are counted.
    pub(super) fn numbers(&self) -> u32 {
        self.ips.numbers()
    }
}

/// Source address of a connection, as it is counted.
#[derive(Debug, Default)]
pub(super) struct CountedSource {
    /// Its number.
    pub(super) number: u32,
    /// True until its first request is sent.
    pub(super) is_new: Cell<bool>,
}

/// The place of one connection among all of the run's; given back when it is dropped.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    place: u64,
    number: u64,
    /// True if it was never open before.
    is_new: bool,
    of: Option<Rc<RefCell<FreeSlots>>>,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        if let Some(free_slots) = &self.of {
            free_slots.borrow_mut().free.push(self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;

    fn addresses(reuse: Reuse, slots: ConnectionSlots) -> SourceAddresses {
        SourceAddresses::new(
            "127.0.0.1-127.0.0.5,fd00::/80".parse().unwrap(),
            reuse,
            slots,
            2,
        )
    }

    fn last(addresses: &SourceAddresses, slot: &ConnectionSlot) -> u32 {
        match addresses.address(slot, Family::V4) {
            Some(IpAddr::V4(address)) => u32::from(address.octets()[3]),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_connection_keeps_its_address_when_it_is_opened_again() {
        let addresses = addresses(
            Reuse::Unbounded,
            ConnectionSlots {
                first: 3,
                shard: 1,
                shards: 2,
            },
        );
        let mut open: Vec<ConnectionSlot> = (0..4).map(|_| addresses.take(0)).collect();
        assert_eq!(
            open.iter()
                .map(|slot| last(&addresses, slot))
                .collect::<Vec<_>>(),
            [4, 5, 1, 2]
        );
        assert_eq!(
            addresses.address(&open[0], Family::V6).unwrap().to_string(),
            "fd00::4"
        );
        // Another host has connections of its own.
        assert_eq!(last(&addresses, &addresses.take(1)), 4);
        drop(open.remove(1));
        let again = addresses.take(0);
        assert_eq!(last(&addresses, &again), 5);
        assert_eq!(last(&addresses, &addresses.take(0)), 3);
    }

    #[test]
    fn connections_that_are_closed_on_purpose_take_turns_over_all_shards() {
        let reuse = Reuse::Requests(NonZeroU64::MIN);
        let mut given = Vec::new();
        for shard in 0..3 {
            let addresses = addresses(
                reuse,
                ConnectionSlots {
                    first: u64::from(shard) * 7,
                    shard,
                    shards: 3,
                },
            );
            given.extend((0..10).map(|_| last(&addresses, &addresses.take(0))));
        }
        for address in 1..=5 {
            assert_eq!(
                given.iter().filter(|given| **given == address).count(),
                6,
                "{given:?}"
            );
        }
    }
}
