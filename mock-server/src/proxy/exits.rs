//! From which addresses the proxy goes out: a session's label has one address of its own, the same for as long as the
//! seed is the same; what has no label has a fresh one each time.
//!
//! It must not remember anything: an exit is a pure function of the seed and the label, or of the seed and the turn.

use crate::draw::{Draws, Stream, mix};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// The prefixes that exits are drawn from. The default is 127.1.0.0/16: every address of 127.0.0.0/8 can be bound on
/// Linux's loopback interface, and a target on it sees as many clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exits {
    prefixes: Vec<Prefix>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Prefix {
    network: IpAddr,
    /// In bits.
    length: u8,
}

/// Who goes out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Whom<'a> {
    /// The session of this label.
    Session(&'a str),
    /// Nobody in particular, for the n-th time.
    Turn(u64),
}

impl Exits {
    /// The address to go out from to `destination`. None means that no prefix is of its family: the kernel picks one.
    pub(crate) fn toward(&self, destination: &SocketAddr, seed: u64, whom: Whom<'_>) -> Option<IpAddr> {
        let mut draws = match whom {
            Whom::Session(label) => Draws::new(Stream::Exit, seed, hash(label)),
            Whom::Turn(turn) => Draws::new(Stream::Turn, seed, turn),
        };
        let fitting = || self.prefixes.iter().filter(|prefix| prefix.network.is_ipv4() == destination.is_ipv4());
        let count = fitting().count() as u64;
        let position = draws.word().checked_rem(count)?;
        let prefix = fitting().nth(usize::try_from(position).ok()?)?;
        Some(prefix.host(u128::from(draws.word()) << 64 | u128::from(draws.word())))
    }
}

impl Prefix {
    /// The host of this number, wrapped around. The first and the last address of an IPv4 network are passed over:
    /// they are the network's own and its broadcast address.
    #[expect(clippy::cast_possible_truncation, reason = "below the number of hosts, which is at most 2^32 for IPv4")]
    fn host(&self, number: u128) -> IpAddr {
        match self.network {
            IpAddr::V4(network) => {
                let hosts = 1_u64 << (32 - self.length);
                let host = if hosts > 2 { 1 + number % u128::from(hosts - 2) } else { number % u128::from(hosts) };
                IpAddr::V4(Ipv4Addr::from_bits(network.to_bits() | host as u32))
            }
            IpAddr::V6(network) => {
                let host = number & host_bits(self.length, 128);
                IpAddr::V6(Ipv6Addr::from_bits(network.to_bits() | host))
            }
        }
    }
}

/// The bits behind a prefix of `length`, in an address of `width` bits.
fn host_bits(length: u8, width: u8) -> u128 {
    1_u128.checked_shl(u32::from(width - length)).map_or(u128::MAX, |span| span - 1)
}

/// A label as a number: FNV-1a over its bytes, then mixed.
fn hash(label: &str) -> u64 {
    // Offset basis and prime of 64-bit FNV-1a; source: draft-eastlake-fnv.
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    mix(label.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, fold))
}

impl Default for Exits {
    fn default() -> Self {
        let network = IpAddr::V4(Ipv4Addr::new(127, 1, 0, 0));
        Self { prefixes: vec![Prefix { network, length: 16 }] }
    }
}

impl fmt::Display for Exits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, Prefix { network, length }) in self.prefixes.iter().enumerate() {
            let comma = if position == 0 { "" } else { "," };
            write!(f, "{comma}{network}/{length}")?;
        }
        Ok(())
    }
}

impl FromStr for Exits {
    type Err = ExitsError;

    fn from_str(text: &str) -> Result<Self, ExitsError> {
        let prefixes = text.split(',').map(Prefix::from_str).collect::<Result<_, _>>()?;
        Ok(Self { prefixes })
    }
}

impl FromStr for Prefix {
    type Err = ExitsError;

    fn from_str(text: &str) -> Result<Self, ExitsError> {
        let malformed = || ExitsError::Malformed(text.to_owned());
        let (network, length) = match text.split_once('/') {
            Some((network, length)) => (network, Some(length)),
            None => (text, None),
        };
        let network: IpAddr = network.parse().map_err(|_| malformed())?;
        let (bits, width) = match network {
            IpAddr::V4(network) => (u128::from(network.to_bits()), 32),
            IpAddr::V6(network) => (network.to_bits(), 128),
        };
        let length = length.map_or(Ok(width), |length| length.parse().map_err(|_| malformed()))?;
        if length > width {
            return Err(malformed());
        }
        if bits & host_bits(length, width) != 0 {
            return Err(ExitsError::HostBits(text.to_owned()));
        }
        Ok(Self { network, length })
    }
}

/// Text that names no exits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExitsError {
    /// Not an address with a length.
    #[error("`{0}` is no prefix; give ADDRESS/LENGTH, as in 127.1.0.0/16 or fd00::/64, several with commas")]
    Malformed(String),
    /// An address within a network, where the network is wanted.
    #[error("`{0}` has bits behind its prefix; give the network's own address, as in 127.1.0.0/16")]
    HostBits(String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const IP4: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 80);
    const IP6: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), 80);

    fn exits(text: &str) -> Exits {
        text.parse().unwrap()
    }

    #[test]
    fn prefixes_read_as_they_are_written() {
        for text in ["127.1.0.0/16", "127.0.0.1/32", "fd00::/64", "127.1.0.0/16,fd00::/64,0.0.0.0/0,::/0"] {
            assert_eq!(exits(text).to_string(), text);
        }
        assert_eq!(exits("127.0.0.9").to_string(), "127.0.0.9/32");
        assert_eq!(Exits::default().to_string(), "127.1.0.0/16");
        for (text, error) in [
            ("", ExitsError::Malformed(String::new())),
            ("127.1.0.0/33", ExitsError::Malformed("127.1.0.0/33".to_owned())),
            ("::/129", ExitsError::Malformed("::/129".to_owned())),
            ("127.1.0.0/", ExitsError::Malformed("127.1.0.0/".to_owned())),
            ("127.1.0.0/16,", ExitsError::Malformed(String::new())),
            ("localhost/8", ExitsError::Malformed("localhost/8".to_owned())),
            ("127.1.2.0/16", ExitsError::HostBits("127.1.2.0/16".to_owned())),
        ] {
            assert_eq!(text.parse::<Exits>(), Err(error));
        }
    }

    #[test]
    fn a_destination_gets_an_exit_of_its_family() {
        let both = exits("127.1.0.0/16,fd00::/64");
        let turns = || (0..50).map(Whom::Turn);
        assert!(turns().all(|turn| both.toward(&IP4, 1, turn).is_some_and(|exit| exit.is_ipv4())));
        assert!(turns().all(|turn| both.toward(&IP6, 1, turn).is_some_and(|exit| exit.is_ipv6())));
        assert_eq!(Exits::default().toward(&IP6, 1, Whom::Session("a")), None);
    }

    #[test]
    fn narrow_prefixes_have_few_exits_and_wide_ones_many() {
        for (text, fewest, most) in [
            ("127.0.0.9/32", 1, 1),
            ("127.0.0.8/31", 2, 2),
            ("127.0.0.8/30", 2, 2),
            ("127.0.0.8/29", 6, 6),
            ("127.0.0.9,127.0.0.11", 2, 2),
            // Of 65534, 2000 draws meet about 30 twice.
            ("127.1.0.0/16", 1900, 2000),
            ("0.0.0.0/0", 1999, 2000),
        ] {
            let exits = exits(text);
            let met: BTreeSet<_> = (0..2000).map(|turn| exits.toward(&IP4, 3, Whom::Turn(turn))).collect();
            assert!((fewest..=most).contains(&met.len()), "{text}: {}", met.len());
        }
    }

    #[test]
    fn labels_keep_their_exits_from_release_to_release() {
        let exit = |label| Exits::default().toward(&IP4, 1, Whom::Session(label)).map(|exit| exit.to_string());
        assert_eq!([exit("a"), exit("b")].map(Option::unwrap), ["127.1.105.33", "127.1.22.57"]);
    }

    proptest! {
        #[test]
        fn an_exit_is_pure_and_within_its_prefix(seed: u64, label in ".{1,40}", bits: u32, length in 0_u8..=32) {
            let network = Ipv4Addr::from_bits(bits & !u32::try_from(host_bits(length, 32)).unwrap());
            let exits = exits(&format!("{network}/{length}"));
            let exit = exits.toward(&IP4, seed, Whom::Session(&label));
            prop_assert_eq!(exit, exits.clone().toward(&IP4, seed, Whom::Session(&label)));
            let Some(IpAddr::V4(exit)) = exit else { panic!("an exit of another family") };
            let host = u128::from(exit.to_bits() ^ network.to_bits());
            prop_assert!(host <= host_bits(length, 32));
            prop_assert!(length > 30 || (host != 0 && host != host_bits(length, 32)));
        }

        #[test]
        fn seeds_and_labels_lead_to_different_exits(seed: u64, label in "[a-z0-9]{1,20}") {
            let exits = exits("::/0");
            let exit = |seed, label: &str| exits.toward(&IP6, seed, Whom::Session(label));
            prop_assert_ne!(exit(seed, &label), exit(seed.wrapping_add(1), &label));
            prop_assert_ne!(exit(seed, &label), exit(seed, &(label.clone() + "x")));
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}") {
            drop(text.parse::<Exits>());
        }
    }
}
