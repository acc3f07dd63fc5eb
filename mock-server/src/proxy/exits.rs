//! Source addresses of the proxy: each session label has one, the same as long as the seed is the
//! same; each request or tunnel without a label gets the next one.
//!
//! It must not remember anything: an address is a pure function of the seed and the label, or of
//! the seed and the turn.

use crate::draw::{Draws, Stream, fnv_1a, mix};
use crate::text::from_text;
use ipnet::{IpNet, Ipv4Net};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The prefixes that exits are drawn from. The default is 127.1.0.0/16: every address of
/// 127.0.0.0/8 can be bound on Linux's loopback interface, and a target on it sees as many clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exits {
    prefixes: Vec<IpNet>,
}

/// Sender that an exit is drawn for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sender<'a> {
    /// The session of this label.
    Session(&'a str),
    /// No session, for the n-th time.
    Turn(u64),
}

impl Exits {
    /// The address to go out from to `destination`. None means that no prefix is of its family: the
    /// kernel picks one.
    pub(crate) fn toward(
        &self,
        destination: &SocketAddr,
        seed: u64,
        sender: Sender<'_>,
    ) -> Option<IpAddr> {
        let mut draws = match sender {
            Sender::Session(label) => Draws::new(Stream::Exit, seed, mix(fnv_1a(label))),
            Sender::Turn(turn) => Draws::new(Stream::Turn, seed, turn),
        };
        let fitting: Vec<&IpNet> = self
            .prefixes
            .iter()
            .filter(|prefix| prefix.addr().is_ipv4() == destination.is_ipv4())
            .collect();
        let position = draws.word().checked_rem(fitting.len() as u64)?;
        let prefix = fitting.get(usize::try_from(position).ok()?)?;
        Some(host(
            prefix,
            u128::from(draws.word()) << 64 | u128::from(draws.word()),
        ))
    }
}

/// Return the host of this number in a prefix, wrapped around. The first and the last address of an
/// IPv4 network are passed over: they are the network's own and its broadcast address.
#[expect(
    clippy::cast_possible_truncation,
    reason = "below the number of hosts, which is at most 2^32 for IPv4"
)]
fn host(prefix: &IpNet, number: u128) -> IpAddr {
    match prefix {
        IpNet::V4(prefix) => {
            let hosts = 1_u64 << (32 - prefix.prefix_len());
            let host = if hosts > 2 {
                1 + number % u128::from(hosts - 2)
            } else {
                number % u128::from(hosts)
            };
            IpAddr::V4((prefix.addr().to_bits() | host as u32).into())
        }
        IpNet::V6(prefix) => {
            IpAddr::V6((prefix.addr().to_bits() | number & prefix.hostmask().to_bits()).into())
        }
    }
}

impl Default for Exits {
    fn default() -> Self {
        Self {
            prefixes: vec![Ipv4Net::new_assert(Ipv4Addr::new(127, 1, 0, 0), 16).into()],
        }
    }
}

impl fmt::Display for Exits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            &self
                .prefixes
                .iter()
                .map(IpNet::to_string)
                .collect::<Vec<_>>()
                .join(","),
        )
    }
}

from_text!(
    Exits,
    "list of prefixes",
    "ADDRESS/LENGTH with no bits behind the length, as in 127.1.0.0/16 or fd00::/64, several with commas"
);

impl Exits {
    fn read(text: &str) -> Option<Self> {
        let prefixes = text.split(',').map(prefix);
        Some(Self {
            prefixes: prefixes.collect::<Option<_>>()?,
        })
    }
}

/// Read a prefix, or an address on its own.
fn prefix(text: &str) -> Option<IpNet> {
    let prefix: IpNet = match text.parse::<IpAddr>() {
        Ok(address) => address.into(),
        Err(_) => text.parse().ok()?,
    };
    Some(prefix).filter(|prefix| *prefix == prefix.trunc())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::Ipv6Addr;

    const IP4: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 80);
    const IP6: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), 80);

    fn exits(text: &str) -> Exits {
        text.parse().unwrap()
    }

    #[test]
    fn prefixes_read_as_they_are_written() {
        for text in [
            "127.1.0.0/16",
            "127.0.0.1/32",
            "fd00::/64",
            "127.1.0.0/16,fd00::/64,0.0.0.0/0,::/0",
        ] {
            assert_eq!(exits(text).to_string(), text);
        }
        assert_eq!(exits("127.0.0.9").to_string(), "127.0.0.9/32");
        assert_eq!(Exits::default().to_string(), "127.1.0.0/16");
        for text in [
            "",
            "127.1.0.0/33",
            "::/129",
            "127.1.0.0/",
            "127.1.0.0/16,",
            "localhost/8",
            "127.1.2.0/16",
        ] {
            assert!(text.parse::<Exits>().is_err(), "{text}");
        }
    }

    #[test]
    fn labels_keep_their_exits_from_release_to_release() {
        let exit = |label| {
            Exits::default()
                .toward(&IP4, 1, Sender::Session(label))
                .map(|exit| exit.to_string())
        };
        assert_eq!(
            [exit("a"), exit("b")].map(Option::unwrap),
            ["127.1.105.33", "127.1.22.57"]
        );
    }

    proptest! {
        #[test]
        fn an_exit_is_pure_and_within_its_prefix(seed: u64, label in ".{1,40}", bits: u32, length in 0_u8..=32) {
            let prefix = Ipv4Net::new(Ipv4Addr::from_bits(bits), length).unwrap().trunc();
            let exits = exits(&prefix.to_string());
            let exit = exits.toward(&IP4, seed, Sender::Session(&label));
            prop_assert_eq!(exit, exits.clone().toward(&IP4, seed, Sender::Session(&label)));
            let Some(IpAddr::V4(exit)) = exit else { panic!("an exit of another family") };
            prop_assert!(prefix.contains(&exit));
            prop_assert!(length > 30 || (exit != prefix.network() && exit != prefix.broadcast()));
        }

        #[test]
        fn seeds_and_labels_lead_to_different_exits(seed: u64, label in "[a-z0-9]{1,20}") {
            let exits = exits("::/0");
            let exit = |seed, label: &str| exits.toward(&IP6, seed, Sender::Session(label));
            prop_assert_ne!(exit(seed, &label), exit(seed.wrapping_add(1), &label));
            prop_assert_ne!(exit(seed, &label), exit(seed, &(label.clone() + "x")));
        }

    }
}
