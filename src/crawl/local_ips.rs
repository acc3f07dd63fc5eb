//! Source addresses of `--local-ips`, parsed: `127.0.1.1-127.0.1.250`, `127.1.0.0/16`, `fd00::/80`.
//!
//! It must not ask the system about them, and it does not store them one by one: a /80 has 2^48.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

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

    fn add(&mut self, first: u128, last: u128) -> Result<(), Problem> {
        if self
            .0
            .iter()
            .any(|span| first <= span.last && span.first <= last)
        {
            return Err(Problem::Twice);
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
        let at = move |i: u64| {
            let k = u128::from(i) * u128::from(used - 1) / u128::from((taken - 1).max(1));
            u64::try_from(k).unwrap_or(u64::MAX)
        };
        (0..taken).filter_map(move |i| self.nth(family, at(i)))
    }

    /// Return the number of address `k` of a family in counts by address: from 0 in the order of
    /// the list, both families in turn.
    #[must_use]
    pub(super) fn number(&self, family: Family, k: u64) -> u32 {
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
    pub(super) fn numbers(&self) -> u32 {
        let longest = self.v4.count().max(self.v6.count());
        u32::try_from(longest.saturating_mul(self.families())).unwrap_or(u32::MAX)
    }

    /// Return true if address `k` of a family is in its first round through the list.
    #[must_use]
    pub(super) fn is_first_round(&self, family: Family, k: u64) -> bool {
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
            let refuse = |problem| LocalIpsError {
                item: item.trim().to_owned(),
                problem,
            };
            let (family, first, last) = span(item.trim()).map_err(refuse)?;
            let addresses = match family {
                Family::V4 => &mut all.v4,
                Family::V6 => &mut all.v6,
            };
            addresses.add(first, last).map_err(refuse)?;
        }
        Ok(all)
    }
}

/// The first and the last address of one item of a list.
fn span(item: &str) -> Result<(Family, u128, u128), Problem> {
    let (first, last) = if let Some((network, length)) = item.split_once('/') {
        prefix(address(network)?, length)?
    } else if let Some((first, last)) = item.split_once('-') {
        (address(first)?, address(last)?)
    } else {
        let one = address(item)?;
        (one, one)
    };
    let family = Family::of(first);
    if family != Family::of(last) || bits(first) > bits(last) {
        return Err(Problem::Range);
    }
    // 0.0.0.0/0 and the like have such an address at one of their ends.
    if [first, last]
        .iter()
        .any(|end| end.is_unspecified() || end.is_multicast() || *end == Ipv4Addr::BROADCAST)
    {
        return Err(Problem::NoSource);
    }
    Ok((family, bits(first), bits(last)))
}

fn address(text: &str) -> Result<IpAddr, Problem> {
    text.trim().parse().map_err(|_| Problem::NoAddress)
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
fn prefix(network: IpAddr, length: &str) -> Result<(IpAddr, IpAddr), Problem> {
    let family = Family::of(network);
    let width: u32 = if family == Family::V4 { 32 } else { 128 };
    let length: u32 = length.parse().map_err(|_| Problem::NoAddress)?;
    let behind = width.checked_sub(length).ok_or(Problem::NoAddress)?;
    let span = 1_u128
        .checked_shl(behind)
        .map_or(u128::MAX, |size| size - 1);
    if bits(network) & span != 0 {
        return Err(Problem::HostBits);
    }
    let (skipped_first, skipped_last) = match (behind > 1, family) {
        (false, _) => (0, 0),
        (true, Family::V4) => (1, 1),
        (true, Family::V6) => (1, 0),
    };
    let first = bits(network);
    Ok((
        family.address(first + skipped_first),
        family.address(first + span - skipped_last),
    ))
}

/// Text that lists no addresses to go out from.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{item}` {problem}")]
pub struct LocalIpsError {
    item: String,
    problem: Problem,
}

/// Reason why an item of the list is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum Problem {
    #[error(
        "is not a valid address: write addresses, ranges as in 127.0.1.1-127.0.1.250 and prefixes as in 127.1.0.0/16 or fd00::/80, with commas"
    )]
    NoAddress,
    #[error(
        "is not a valid range: write the lower address first, and two addresses of one family, as in 127.0.1.1-127.0.1.250"
    )]
    Range,
    #[error("has bits set after its prefix: write the network's own address, as in 127.1.0.0/16")]
    HostBits,
    #[error(
        "holds an address that nothing can be sent from: leave out 0.0.0.0, ::, broadcast and multicast addresses"
    )]
    NoSource,
    #[error(
        "holds an address that was listed before: list each once, or it would be used more often than others"
    )]
    Twice,
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
        assert_eq!(
            ips("fd00::/80").nth(Family::V6, (1 << 48) - 1),
            ips("fd00::/80").nth(Family::V6, 0)
        );
        assert_eq!(
            ips("fd00::/80")
                .nth(Family::V6, (1 << 48) - 2)
                .unwrap()
                .to_string(),
            "fd00::ffff:ffff:ffff"
        );
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
            ("", Problem::NoAddress),
            ("127.0.0.1,", Problem::NoAddress),
            ("localhost", Problem::NoAddress),
            ("127.0.0.1/33", Problem::NoAddress),
            ("::/129", Problem::NoAddress),
            ("127.0.0.0/-1", Problem::NoAddress),
            ("127.0.0.9-127.0.0.1", Problem::Range),
            ("127.0.0.9-::1", Problem::Range),
            ("127.1.2.0/16", Problem::HostBits),
            ("0.0.0.0", Problem::NoSource),
            ("::", Problem::NoSource),
            ("224.0.0.1-224.0.0.9", Problem::NoSource),
            ("127.0.0.1-127.0.0.9,127.0.0.5", Problem::Twice),
            ("127.1.0.0/16,127.0.0.0/8", Problem::Twice),
        ] {
            assert_eq!(
                text.parse::<LocalIps>().unwrap_err().problem,
                problem,
                "{text}"
            );
        }
        let error = "127.0.0.1,nowhere"
            .parse::<LocalIps>()
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("`nowhere` is not a valid address: write"),
            "{error}"
        );
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
