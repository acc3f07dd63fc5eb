//! Local ports in `TIME_WAIT`, from the kernel's lists of sockets, `net/tcp` and `net/tcp6`.
//!
//! The side that closes a connection first keeps its socket for a minute. If that was this client,
//! the local port cannot be used again until then between the same source and target addresses. A
//! socket that a server on this machine closed first has the server's port, and takes none from the
//! client. It must not judge what it counts.

use std::collections::{HashMap, HashSet};

/// The states of a socket that count here, as the kernel's `tcp_states.h` numbers them.
const TIME_WAIT: &str = "06";
const LISTEN: &str = "0A";

/// Time that a connection is kept after its end, in the kernel's ticks of a hundredth of a second
/// (`TCP_TIMEWAIT_LEN`).
const KEPT: u64 = 6_000;

/// After this time a port may be taken again where that is allowed, in the same ticks. Source:
/// `tcp_twsk_unique`.
const YOUNG: u64 = 100;

/// Connections in `TIME_WAIT` of which a new one may take the port, once they are a second old
/// (`tcp_tw_reuse`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Retaken {
    /// None.
    None,
    /// Those over loopback, which is what kernels do since 4.19 unless told otherwise.
    Loopback,
    /// All.
    All,
}

impl Retaken {
    /// Parse `sys/net/ipv4/tcp_tw_reuse`; a missing or unknown value counts as [`Retaken::None`].
    pub(super) fn of(text: Option<&str>) -> Self {
        match text.map(str::trim) {
            Some("1") => Self::All,
            Some("2") => Self::Loopback,
            _ => Self::None,
        }
    }
}

/// The most local ports that closed connections hold back toward one address from one address.
/// `tables` are the texts of `net/tcp` and `net/tcp6`.
pub(super) fn held_back(tables: &[&str], retaken: Retaken) -> u64 {
    let sockets = tables
        .iter()
        .flat_map(|table| table.lines().filter_map(Socket::read));
    let served: HashSet<&str> = sockets
        .clone()
        .filter(|socket| socket.state == LISTEN)
        .map(|socket| socket.port)
        .collect();
    let mut held: HashMap<(&str, &str), u64> = HashMap::new();
    for socket in sockets.filter(|socket| socket.state == TIME_WAIT) {
        if !served.contains(socket.port) && !socket.may_be_retaken(retaken) {
            *held.entry((socket.from, socket.to)).or_default() += 1;
        }
    }
    held.into_values().max().unwrap_or(0)
}

/// A line of a table.
struct Socket<'a> {
    /// Its own address, and its port.
    from: &'a str,
    port: &'a str,
    /// The other side's address and port.
    to: &'a str,
    state: &'a str,
    /// When its timer goes off, in ticks.
    expires: u64,
}

impl<'a> Socket<'a> {
    /// `0: 0100007F:9C40 0100007F:1F90 06 00000000:00000000 03:00001770 ...`; none of a heading.
    fn read(line: &'a str) -> Option<Self> {
        let mut fields = line.split_whitespace().skip(1);
        let (from, port) = fields.next()?.split_once(':')?;
        let (to, state, timer) = (fields.next()?, fields.next()?, fields.nth(1)?);
        let expires = timer
            .split_once(':')
            .and_then(|(_, ticks)| u64::from_str_radix(ticks, 16).ok())?;
        Some(Self {
            from,
            port,
            to,
            state,
            expires,
        })
    }

    fn may_be_retaken(&self, retaken: Retaken) -> bool {
        let is_allowed = match retaken {
            Retaken::None => false,
            Retaken::Loopback => {
                is_loopback(self.from) || self.to.split(':').next().is_some_and(is_loopback)
            }
            Retaken::All => true,
        };
        is_allowed && self.expires + YOUNG <= KEPT
    }
}

/// True if an address is one of loopback, `127.0.0.0/8` or `::1`, as the kernel writes them: words
/// in the machine's own order of bytes.
fn is_loopback(address: &str) -> bool {
    let word = |at: usize| {
        u32::from_str_radix(address.get(at * 8..at * 8 + 8)?, 16)
            .ok()
            .map(u32::to_ne_bytes)
    };
    let first_of_v4 = |at| word(at).is_some_and(|bytes| bytes[0] == 127);
    match address.len() {
        8 => first_of_v4(0),
        32 => match [word(0), word(1), word(2), word(3)].map(|word| word.map(u32::from_be_bytes)) {
            [Some(0), Some(0), Some(0), Some(1)] => true,
            [Some(0), Some(0), Some(0xffff), Some(_)] => first_of_v4(3),
            _ => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::closed_connections;

    const HEADING: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";

    /// A line of `net/tcp`: a state, both ends, and the age of a closed connection in ticks.
    fn line(state: &str, from: &str, to: &str, age: u64) -> String {
        format!(
            "   0: {from} {to} {state} 00000000:00000000 03:{:08X} 00000000     0        0 0 3 ffff\n",
            KEPT - age
        )
    }

    fn native(address: [u8; 4]) -> u32 {
        u32::from_ne_bytes(address)
    }

    fn remote(address: [u8; 4]) -> String {
        format!("{:08X}:1F90", native(address))
    }

    #[test]
    fn what_this_side_closed_is_counted_by_both_addresses() {
        let local = |last: u8, port: u64| format!("{:08X}:{port:04X}", native([10, 0, 0, last]));
        let mut tcp = HEADING.to_owned();
        for port in 0..7 {
            tcp += &line(TIME_WAIT, &local(1, port), &remote([192, 0, 2, 1]), 50);
        }
        for port in 0..5 {
            tcp += &line(TIME_WAIT, &local(2, port), &remote([192, 0, 2, 1]), 50);
            tcp += &line(TIME_WAIT, &local(1, port), &remote([192, 0, 2, 2]), 50);
            // Open.
            tcp += &line("01", &local(1, 100 + port), &remote([192, 0, 2, 1]), 0);
        }
        assert_eq!(held_back(&[&tcp], Retaken::None), 7);
        assert_eq!(held_back(&[&tcp, &tcp], Retaken::Loopback), 14);
        assert_eq!(
            held_back(&["", HEADING, "junk\n 0: 1 2 06\n"], Retaken::None),
            0
        );
        assert_eq!(held_back(&[&closed_connections(40)], Retaken::Loopback), 40);
    }

    #[test]
    fn what_a_server_here_closed_holds_no_port_back() {
        let mut tcp = line(LISTEN, "00000000:1F90", "00000000:0000", 0);
        for port in 0..9 {
            tcp += &line(
                TIME_WAIT,
                &remote([127, 0, 0, 1]),
                &format!("{:08X}:{port:04X}", native([127, 0, 0, 1])),
                50,
            );
        }
        assert_eq!(held_back(&[&tcp], Retaken::None), 0);
        tcp += &line(
            TIME_WAIT,
            &format!("{:08X}:9C40", native([127, 0, 0, 1])),
            &remote([127, 0, 0, 1]),
            50,
        );
        assert_eq!(held_back(&[&tcp], Retaken::None), 1);
    }

    #[test]
    fn a_port_that_may_be_taken_again_is_held_for_a_second() {
        let v4 = |address| format!("{:08X}:9C40", native(address));
        let v6 = |words: [[u8; 4]; 4]| {
            format!(
                "{}:9C40",
                words.map(|word| format!("{:08X}", native(word))).concat()
            )
        };
        let nil = [0; 4];
        for (from, is_loopback) in [
            (v4([127, 1, 2, 3]), true),
            (v4([10, 0, 0, 1]), false),
            (v6([nil, nil, nil, [0, 0, 0, 1]]), true),
            (v6([nil, nil, [0, 0, 255, 255], [127, 0, 0, 1]]), true),
            (v6([nil, nil, [0, 0, 255, 255], [10, 0, 0, 1]]), false),
            (v6([[253, 0, 0, 0], nil, nil, [0, 0, 0, 1]]), false),
        ] {
            for (age, is_old) in [(0, false), (99, false), (100, true), (5_999, true)] {
                let tcp = line(TIME_WAIT, &from, &remote([192, 0, 2, 1]), age);
                let held = [Retaken::None, Retaken::Loopback, Retaken::All]
                    .map(|retaken| held_back(&[&tcp], retaken));
                let expected = [1, u64::from(!(is_old && is_loopback)), u64::from(!is_old)];
                assert_eq!(held, expected, "{from} at {age}");
            }
        }
        assert_eq!(
            [Some("0\n"), Some("1\n"), Some("2\n"), Some("x"), None].map(Retaken::of),
            [
                Retaken::None,
                Retaken::All,
                Retaken::Loopback,
                Retaken::None,
                Retaken::None
            ]
        );
    }
}
