//! Source addresses of `--local-ips`, parsed: `127.0.1.1-127.0.1.250`, `127.1.0.0/16`, `fd00::/80`; and
//! that of each connection of a shard.
//!
//! It must not ask the system about them, and it does not store them one by one: a /80 has 2^48.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;
use std::str::FromStr;

use ipnet::IpNet;

/// Addresses in the order in which they were typed, for each family its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalIps {
    v4: Addresses,
    v6: Addresses,
    /// As typed.
    text: String,
}

/// A version of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Return the family of an address.
    #[must_use]
    pub const fn of(address: IpAddr) -> Self {
        if address.is_ipv4() {
            Self::V4
        } else {
            Self::V6
        }
    }

    fn address(self, bits: u128) -> IpAddr {
        match self {
            Self::V4 => IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(bits).unwrap_or(u32::MAX))),
            Self::V6 => IpAddr::V6(Ipv6Addr::from_bits(bits)),
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

/// Spans of addresses, none of which is in two of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Addresses(Vec<AddressSpan>);

/// Addresses that follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AddressSpan {
    first: u128,
    last: u128,
    /// Number of addresses in the spans before it.
    before: u128,
}

impl Addresses {
    /// Return the number of addresses; one too few if they are all of IPv6.
    fn count(&self) -> u128 {
        self.0.last().map_or(0, |span| {
            span.before
                .saturating_add(span.last - span.first)
                .saturating_add(1)
        })
    }

    /// Number `k`, counted round and round.
    fn nth(&self, k: u64) -> Option<u128> {
        let k = u128::from(k).checked_rem(self.count())?;
        let span = self.0.get(
            self.0
                .partition_point(|span| span.before <= k)
                .checked_sub(1)?,
        )?;
        Some(span.first + (k - span.before))
    }

    fn add(&mut self, first: u128, last: u128) -> Result<(), &'static str> {
        if self
            .0
            .iter()
            .any(|span| first <= span.last && span.first <= last)
        {
            return Err(TWICE);
        }
        self.0.push(AddressSpan {
            first,
            last,
            before: self.count(),
        });
        Ok(())
    }
}

impl LocalIps {
    /// True if there is an address of that family.
    #[must_use]
    pub fn has(&self, family: Family) -> bool {
        !self.of(family).0.is_empty()
    }

    /// Address number `k` of a family, counted round and round; none when there is no address of
    /// that family.
    #[must_use]
    pub fn nth(&self, family: Family, k: u64) -> Option<IpAddr> {
        self.of(family).nth(k).map(|bits| family.address(bits))
    }

    /// At most `most` of the first `used` addresses of a family, all of them if they are no more,
    /// evenly spread with the first and the last otherwise. `most` is 2 at least.
    pub fn sample(&self, family: Family, used: u64, most: u64) -> impl Iterator<Item = IpAddr> {
        let used = u64::try_from(self.of(family).count())
            .unwrap_or(u64::MAX)
            .min(used);
        let taken = used.min(most);
        (0..taken).filter_map(move |i| {
            let k = u128::from(i) * u128::from(used - 1) / u128::from((taken - 1).max(1));
            self.nth(family, u64::try_from(k).unwrap_or(u64::MAX))
        })
    }

    /// Return the number of address `k` of a family in counts by address: from 0 in the order of
    /// the list, both families in turn.
    #[must_use]
    pub(crate) fn number(&self, family: Family, k: u64) -> u32 {
        let (of_family, families) = (
            u128::from(k).checked_rem(self.of(family).count()),
            self.families(),
        );
        let number = of_family.unwrap_or(u128::MAX).saturating_mul(families);
        let is_second = families == 2 && family == Family::V6;
        u32::try_from(number.saturating_add(is_second.into())).unwrap_or(u32::MAX)
    }

    /// Return the address with this number in counts by address.
    #[must_use]
    pub fn numbered(&self, number: u32) -> Option<IpAddr> {
        let (k, is_second) = (
            u128::from(number) / self.families(),
            u128::from(number) % self.families() == 1,
        );
        let family = if is_second || !self.has(Family::V4) {
            Family::V6
        } else {
            Family::V4
        };
        (k < self.of(family).count()).then(|| self.nth(family, u64::try_from(k).ok()?))?
    }

    /// Return one more than the highest number in counts by address, or the most that a number can
    /// be.
    #[must_use]
    pub(crate) fn numbers(&self) -> u32 {
        let longest = self.v4.count().max(self.v6.count());
        u32::try_from(longest.saturating_mul(self.families())).unwrap_or(u32::MAX)
    }

    /// Return true if address `k` of a family is in its first round through the list.
    #[must_use]
    pub(crate) fn is_first_round(&self, family: Family, k: u64) -> bool {
        u128::from(k) < self.of(family).count()
    }

    fn families(&self) -> u128 {
        u128::from(self.has(Family::V4)) + u128::from(self.has(Family::V6))
    }

    const fn of(&self, family: Family) -> &Addresses {
        match family {
            Family::V4 => &self.v4,
            Family::V6 => &self.v6,
        }
    }
}

impl fmt::Display for LocalIps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for LocalIps {
    type Err = LocalIpsError;

    fn from_str(text: &str) -> Result<Self, LocalIpsError> {
        let mut all = Self {
            v4: Addresses::default(),
            v6: Addresses::default(),
            text: text.to_owned(),
        };
        for item in text.split(',') {
            span(item.trim())
                .and_then(|(family, first, last)| match family {
                    Family::V4 => all.v4.add(first, last),
                    Family::V6 => all.v6.add(first, last),
                })
                .map_err(|problem| LocalIpsError {
                    item: item.trim().to_owned(),
                    problem,
                })?;
        }
        Ok(all)
    }
}

/// The first and the last address of one item of a list.
fn span(item: &str) -> Result<(Family, u128, u128), &'static str> {
    let (first, last) = if item.contains('/') {
        prefix(item.parse().map_err(|_| NO_ADDRESS)?)?
    } else {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        (address(first)?, address(last)?)
    };
    let family = Family::of(first);
    if family != Family::of(last) || bits(first) > bits(last) {
        return Err(RANGE);
    }
    // 0.0.0.0/0 and the like have such an address at one of their ends.
    if [first, last]
        .iter()
        .any(|end| end.is_unspecified() || end.is_multicast() || *end == Ipv4Addr::BROADCAST)
    {
        return Err(NO_SOURCE);
    }
    Ok((family, bits(first), bits(last)))
}

fn address(text: &str) -> Result<IpAddr, &'static str> {
    text.trim().parse().map_err(|_| NO_ADDRESS)
}

const fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits() as u128,
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The hosts of a prefix. Its first address is the network's own (IPv4), or that of its routers
/// (RFC 4291, 2.6.1), and the last one of IPv4 is for broadcasts: they are left out where there are
/// more than two.
fn prefix(network: IpNet) -> Result<(IpAddr, IpAddr), &'static str> {
    if network.trunc() != network {
        return Err(HOST_BITS);
    }
    let (first, last) = (network.network(), network.broadcast());
    let (family, skipped) = (Family::of(first), u128::from(bits(last) - bits(first) > 1));
    let skipped_last = if family == Family::V4 { skipped } else { 0 };
    Ok((
        family.address(bits(first) + skipped),
        family.address(bits(last) - skipped_last),
    ))
}

/// Text that lists no addresses to go out from.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{item}` {problem}")]
pub struct LocalIpsError {
    item: String,
    problem: &'static str,
}

const NO_ADDRESS: &str = "is not a valid address: write addresses, ranges as in 127.0.1.1-127.0.1.250 and prefixes as in 127.1.0.0/16 or fd00::/80, with commas";
const RANGE: &str = "is not a valid range: write the lower address first, and two addresses of one family, as in 127.0.1.1-127.0.1.250";
const HOST_BITS: &str =
    "has bits set after its prefix: write the network's own address, as in 127.1.0.0/16";
const NO_SOURCE: &str = "holds an address that nothing can be sent from: leave out 0.0.0.0, ::, broadcast and multicast addresses";
const TWICE: &str = "holds an address that was listed before: list each once, or it would be used more often than others";

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
pub(crate) struct SourceAddresses {
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
    pub(crate) fn new(ips: LocalIps, rotates: bool, slots: ConnectionSlots, hosts: usize) -> Self {
        let order = if rotates {
            AddressOrder::Rotating {
                next: Cell::new(u64::from(slots.shard)),
                stride: u64::from(slots.shards.max(1)),
            }
        } else {
            AddressOrder::Kept {
                first: slots.first,
                of_host: (0..hosts).map(|_| Rc::default()).collect(),
            }
        };
        Self { ips, order }
    }

    /// The place of a connection to `host` that is to be opened.
    pub(crate) fn take(&self, host: usize) -> ConnectionSlot {
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
    pub(crate) fn address(&self, slot: &ConnectionSlot, family: Family) -> Option<IpAddr> {
        self.ips.nth(family, slot.place)
    }

    /// Return the source of a connection to an address of that family.
    pub(crate) fn counted(&self, slot: &ConnectionSlot, family: Family) -> CountedSource {
        let is_new = slot.is_new && self.ips.is_first_round(family, slot.place);
        CountedSource {
            number: self.ips.number(family, slot.place),
            is_new: Cell::new(is_new),
        }
    }

    /// Return the number of source addresses that are counted.
    pub(crate) fn numbers(&self) -> u32 {
        self.ips.numbers()
    }
}

/// Source address of a connection, as it is counted.
#[derive(Debug, Default)]
pub(crate) struct CountedSource {
    /// Its number.
    pub(crate) number: u32,
    /// True until its first request is sent.
    pub(crate) is_new: Cell<bool>,
}

/// The place of one connection among all of the run's; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
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
    use proptest::prelude::*;

    use super::*;

    fn ips(text: &str) -> LocalIps {
        text.parse().unwrap()
    }

    fn first(text: &str, family: Family, count: u64) -> Vec<String> {
        (0..count)
            .map(|k| ips(text).nth(family, k).unwrap().to_string())
            .collect()
    }

    #[test]
    fn addresses_ranges_and_prefixes_are_counted_through_and_begin_again() {
        assert_eq!(
            first("127.0.0.9, 127.0.1.254-127.0.2.1", Family::V4, 6),
            [
                "127.0.0.9",
                "127.0.1.254",
                "127.0.1.255",
                "127.0.2.0",
                "127.0.2.1",
                "127.0.0.9"
            ]
        );
        assert_eq!(
            first("127.1.0.0/30", Family::V4, 3),
            ["127.1.0.1", "127.1.0.2", "127.1.0.1"]
        );
        assert_eq!(
            first("127.1.0.2/31", Family::V4, 3),
            ["127.1.0.2", "127.1.0.3", "127.1.0.2"]
        );
        assert_eq!(first("fd00::/80", Family::V6, 2), ["fd00::1", "fd00::2"]);
        // No multiple of 8 bits.
        assert_eq!(
            ips("127.8.0.0/13")
                .nth(Family::V4, (1 << 19) - 3)
                .unwrap()
                .to_string(),
            "127.15.255.254"
        );
        assert_eq!(
            ips("127.8.0.0/13").nth(Family::V4, (1 << 19) - 2),
            ips("127.8.0.0/13").nth(Family::V4, 0)
        );
        let last = ips("2001:db8:0:20::/59").nth(Family::V6, u64::MAX).unwrap();
        assert_eq!(last.to_string(), "2001:db8:0:21::");
        let both = "127.0.0.1,fd00::1";
        assert_eq!(
            (first(both, Family::V4, 1), first(both, Family::V6, 1)),
            (vec!["127.0.0.1".to_owned()], vec!["fd00::1".to_owned()])
        );
        assert!(!ips("127.0.0.1").has(Family::V6) && ips("127.0.0.1").nth(Family::V6, 0).is_none());
        assert_eq!(ips(both).to_string(), both);
    }

    #[test]
    fn what_is_no_list_says_what_is_wrong() {
        for (text, problem) in [
            ("", NO_ADDRESS),
            ("127.0.0.1,", NO_ADDRESS),
            ("localhost", NO_ADDRESS),
            ("127.0.0.1/33", NO_ADDRESS),
            ("::/129", NO_ADDRESS),
            ("127.0.0.0/-1", NO_ADDRESS),
            ("127.0.0.9-127.0.0.1", RANGE),
            ("127.0.0.9-::1", RANGE),
            ("127.1.2.0/16", HOST_BITS),
            ("0.0.0.0", NO_SOURCE),
            ("::", NO_SOURCE),
            ("224.0.0.1-224.0.0.9", NO_SOURCE),
            ("127.0.0.1-127.0.0.9,127.0.0.5", TWICE),
            ("127.1.0.0/16,127.0.0.0/8", TWICE),
        ] {
            assert_eq!(
                text.parse::<LocalIps>().unwrap_err().problem,
                problem,
                "{text}"
            );
        }
    }

    #[test]
    fn a_sample_has_the_first_and_the_last_that_are_used() {
        let sample = |text, used, most| -> Vec<String> {
            ips(text)
                .sample(Family::V4, used, most)
                .map(|address| address.to_string())
                .collect()
        };
        assert_eq!(sample("127.1.0.0/16", 2, 9), ["127.1.0.1", "127.1.0.2"]);
        assert_eq!(
            sample("127.1.0.0/16", u64::MAX, 2),
            ["127.1.0.1", "127.1.255.254"]
        );
        assert_eq!(sample("127.1.0.7", 99, 9), ["127.1.0.7"]);
        assert_eq!(
            sample("127.0.0.1-127.0.0.5", u64::MAX, 3),
            ["127.0.0.1", "127.0.0.3", "127.0.0.5"]
        );
        assert_eq!(sample("fd00::/80", 5, 9), Vec::<String>::new());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[0-9a-f:./,-]{0,40}") {
            if let Ok(ips) = text.parse::<LocalIps>() {
                prop_assert!(ips.has(Family::V4) || ips.has(Family::V6));
                for family in [Family::V4, Family::V6] {
                    let addresses = (0..3).filter_map(|k| ips.nth(family, k * 0x1234_5678));
                    prop_assert!(addresses.into_iter().all(|address| Family::of(address) == family));
                }
            }
        }
    }
}

#[cfg(test)]
mod source_addresses_tests {
    use super::*;

    fn addresses(rotates: bool, slots: ConnectionSlots) -> SourceAddresses {
        SourceAddresses::new(
            "127.0.0.1-127.0.0.5,fd00::/80".parse().unwrap(),
            rotates,
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
            false,
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
        let mut given = Vec::new();
        for shard in 0..3 {
            let addresses = addresses(
                true,
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
