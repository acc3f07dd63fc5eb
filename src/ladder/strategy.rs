//! Flags of `run` for each rung.

use std::time::Duration;

/// The target that the published crawl had, as far as it is known: `crawlmark serve --help` says
/// what it does.
const PROFILE: &str = "article";

/// Source addresses of connections. That target allows 20 requests a second from each address, as
/// the published one did, and the published crawl had the addresses of a /80 of IPv6.
///
/// - A kept connection makes one request in 63 ms, 16 a second, so one address for each of them is
///   enough, and each of them needs its own: the address of a connection is kept for as long as it
///   is.
/// - Where each request has a new connection, it has the next address. Two hundred of those a
///   second would take five minutes to come round to the first.
/// - As many as the target's limiter has words for: none of them has to make room for another.
const ADDRESSES: &str = "127.64.0.0/16";

/// The most connections: one for each address, of which the first and the last of a network are
/// none.
pub(super) const MOST_CONNECTIONS: u32 = (1 << 16) - 2;

/// Divisor of a rung's time that gives its warm-up where connections are kept: the handshakes of
/// its beginning are no part of how fast kept connections are.
const WARM_UP: u32 = 4;

/// Rate of the last rung, requests per second: in the middle of the 1,000 to 2,000 that were
/// published.
const BY_CHOICE: u32 = 1_500;

/// Reuse of connections, and their source addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Connections {
    /// Each request has a new one, from this machine's usual address.
    New,
    /// Each request has a new one, from the next address.
    NewFromEach,
    /// They are kept, each from an address of its own.
    Kept,
}

/// Settings of a rung.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Strategy {
    shards: u32,
    in_flight: u32,
    connections: Connections,
    rate: Option<u32>,
}

impl Strategy {
    /// Strategy of rung `rung` on `cores` cores. `bearable` is the number of connections that the
    /// CPU can serve, found beforehand.
    pub(super) fn of(rung: u8, cores: u32, bearable: u32) -> Self {
        let plain = |shards, in_flight, connections| Self {
            shards,
            in_flight,
            connections,
            rate: None,
        };
        match rung {
            // One address is enough for six requests a second.
            1 => plain(1, 1, Connections::New),
            // Threads that block are processes with one request at a time: both wait in the kernel,
            // and share nothing.
            2 => plain(20, 20, Connections::NewFromEach),
            3 => plain(1, 20, Connections::NewFromEach),
            4 => plain(1, 20, Connections::Kept),
            5 => plain(1, 80, Connections::Kept),
            6 => plain(10, 800, Connections::Kept),
            7 => plain(cores, bearable.max(cores), Connections::Kept),
            // Twice what the rate needs by Little's law: what holds it back is to be its own
            // choice.
            _ => Self {
                rate: Some(BY_CHOICE),
                ..plain(cores.min(160), 160, Connections::Kept)
            },
        }
    }

    /// The flags of `run`, for a run of this length.
    pub(super) fn words(&self, duration: Duration, seed: u64) -> Vec<String> {
        let mut words = vec!["--target-profile".to_owned(), PROFILE.to_owned()];
        let mut flag = |name: &str, value: String| words.extend([name.to_owned(), value]);
        flag("-s", self.shards.to_string());
        flag("-c", self.in_flight.to_string());
        flag("-d", millis(duration));
        match self.connections {
            Connections::New => {}
            Connections::NewFromEach | Connections::Kept => {
                flag("--local-ips", ADDRESSES.to_owned());
            }
        }
        if self.connections == Connections::Kept {
            flag("--warmup", millis(duration / WARM_UP));
        }
        if let Some(rate) = self.rate {
            flag("--rate", rate.to_string());
        }
        flag("--seed", seed.to_string());
        if matches!(
            self.connections,
            Connections::New | Connections::NewFromEach
        ) {
            words.push("--disable-keepalive".to_owned());
        }
        words
    }
}

fn millis(time: Duration) -> String {
    humantime::format_duration(time).to_string()
}

#[cfg(test)]
mod tests {
    use crawlmark_results::studies::ladder::RUNGS;

    use super::*;
    use crate::study::understood;

    fn words(rung: u8) -> String {
        Strategy::of(rung, 2, 8_192)
            .words(Duration::from_secs(4), 1)
            .join(" ")
    }

    #[test]
    fn every_rung_is_flags_of_run() {
        for rung in &RUNGS {
            let words = Strategy::of(rung.number, 2, 8_192).words(Duration::from_secs(4), 1);
            let typed = understood("a rung", &words).unwrap();
            assert!(
                typed.url.is_none() && typed.duration == Some(Duration::from_secs(4)),
                "{words:?}"
            );
        }
    }

    #[test]
    fn a_rung_does_what_its_name_says() {
        assert_eq!(
            words(1),
            "--target-profile article -s 1 -c 1 -d 4s --seed 1 --disable-keepalive"
        );
        let kept = "-d 4s --local-ips 127.64.0.0/16 --warmup 1s";
        assert_eq!(
            words(4),
            format!("--target-profile article -s 1 -c 20 {kept} --seed 1")
        );
        assert_eq!(
            words(7),
            format!("--target-profile article -s 2 -c 8192 {kept} --seed 1")
        );
        assert_eq!(
            words(8),
            format!("--target-profile article -s 2 -c 160 {kept} --rate 1500 --seed 1")
        );
    }
}
