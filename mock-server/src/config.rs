//! Behaviour of a target: the one description that every serving process is given.
//!
//! It must not hold state: everything that changes while serving lives in `shared`.

use crate::connections::{Accept, Bandwidth, KeepAlive};
use crate::events::Events;
use crate::fault::Faults;
use crate::latency::Latency;
use crate::limit::Limits;
use crate::slowdown::{AddedDelay, Stall, Work, Workers};
use crate::stubs::Mappings;
use crate::tls::{Http, Tls};
use std::time::Duration;

/// Fate of a request that no stub answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unmatched {
    /// Serve an item.
    #[default]
    Item,
    /// Answer 404, as WireMock does.
    NotFound,
}

/// Setting that keeps requests for `/__admin/requests`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Journal {
    /// They are counted, not kept.
    #[default]
    Off,
    /// They are kept in memory, the first 256 MiB of them, so that `/__admin/requests` can tell of
    /// them.
    On,
}

/// Behaviour of a target. The default is the null target: every item at once, no limit, no faults.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Seed of all draws: two targets with one seed serve the same items, delays and faults.
    pub seed: u64,
    /// Delay before each answer.
    pub latency: Latency,
    /// Delay added for every other request in flight, in all processes of the target.
    pub latency_per_in_flight: AddedDelay,
    /// Delay added to the first answer of each connection.
    pub handshake: AddedDelay,
    /// CPU work of an item's answer, once its hold is over.
    pub work: Work,
    /// Recurring stalls; none means never.
    pub stall: Option<Stall>,
    /// Requests served at the same time; none means all.
    pub workers: Option<Workers>,
    /// Requests of a connection; none means any number.
    pub keep_alive: Option<KeepAlive>,
    /// Bandwidth of a connection in each direction; none means any.
    pub bandwidth: Option<Bandwidth>,
    /// Connections open in a process; none means any number.
    pub accept: Option<Accept>,
    /// Limits on requests and connections; none lets all through.
    pub limits: Limits,
    /// Faults of answers.
    pub faults: Faults,
    /// Stream of events in place of an item; none serves items.
    pub events: Option<Events>,
    /// The stubs to begin with; the admin routes may change them.
    pub stubs: Option<Mappings>,
    /// Fate of a request that no stub answers.
    pub unmatched: Unmatched,
    /// Setting that keeps requests for `/__admin/requests`.
    pub journal: Journal,
    /// Versions of HTTP that connections may speak.
    pub http: Http,
    /// Certificate for TLS; none means that connections are not encrypted.
    pub tls: Option<Tls>,
}

impl Config {
    /// The instant at which an answer is due that is begun at `begun_ns` and whose own hold is
    /// `own`.
    ///
    /// One that is begun in a stall begins its own hold when the stall ends, and an answer that
    /// would be due in a stall is due when that ends: no answer is due in a stall.
    pub(crate) fn due_ns(&self, begun_ns: u64, own: Duration) -> u64 {
        let own_ns = u64::try_from(own.as_nanos()).unwrap_or(u64::MAX);
        self.answerable_ns(self.answerable_ns(begun_ns).saturating_add(own_ns))
    }

    /// The first instant from `now_ns` on at which anything is answered: that, or the end of the
    /// stall that it is in.
    pub(crate) fn answerable_ns(&self, now_ns: u64) -> u64 {
        self.stall
            .as_ref()
            .and_then(|stall| stall.until_ns(now_ns))
            .unwrap_or(now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_answer_is_due_in_a_stall() {
        // Stalled from 90 to 100 us of every 100 us.
        let stall = "100us,10us".parse().ok();
        let config = Config {
            stall,
            ..Config::default()
        };
        for (begun_ns, own_us, due_ns) in [
            (0, 0, 0),
            (0, 50, 50_000),
            (0, 89, 89_000),
            // Due in a stall: at its end.
            (0, 90, 100_000),
            (89_999, 0, 89_999),
            // In a stall: until its end, then its own hold.
            (90_000, 0, 100_000),
            (99_999, 0, 100_000),
            (95_000, 20, 120_000),
            // Out of one stall and into the next.
            (95_000, 95, 200_000),
            (100_000, 0, 100_000),
        ] {
            let own = Duration::from_micros(own_us);
            assert_eq!(
                config.due_ns(begun_ns, own),
                due_ns,
                "{begun_ns} ns, {own_us} us"
            );
            let at_once = Config::default().due_ns(begun_ns, own);
            assert_eq!(at_once, begun_ns + own_us * 1000);
        }
    }
}
