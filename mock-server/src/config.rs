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
use hyper::Uri;
use hyper::header::{HOST, HeaderMap, ORIGIN};
use hyper::http::uri::Authority;
use std::io;
use std::net::IpAddr;
use std::path::Path;
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

/// Writes a file below a directory, by its path in there, and nothing outside it.
pub type WriteFile = fn(&Path, &str, &[u8]) -> io::Result<()>;

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
    /// How `/__admin/mappings/save` writes a file; without it nothing is written.
    pub write_stub: Option<WriteFile>,
    /// Fate of a request that no stub answers.
    pub unmatched: Unmatched,
    /// Setting that keeps requests for `/__admin/requests`.
    pub journal: Journal,
    /// Versions of HTTP that connections may speak.
    pub http: Http,
    /// Certificate for TLS; none means that connections are not encrypted.
    pub tls: Option<Tls>,
    /// Names beside addresses and `localhost` that requests may have in `Host` and `Origin`; none
    /// allows all. Without them, a page of any site that a browser shows could reach a target on
    /// loopback: under a name of its own that leads there, or by requests to another site.
    pub hosts: Option<Vec<String>>,
}

/// Top-level names that nobody can register, so that no page of another site has one (RFC 6761).
const UNREGISTERED: [&str; 2] = ["localhost", "test"];

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

    /// True if the `Host` and the `Origin` of a request are allowed, as far as it has them.
    pub(crate) fn allows(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let Some(names) = &self.hosts else {
            return true;
        };
        let [given, page] =
            [HOST, ORIGIN].map(|name| Some(headers.get(name)?.to_str().unwrap_or_default()));
        let host = uri.authority().map(Authority::as_str).or(given);
        // That of a page without a site of its own is `null`.
        let origin = page.map(|it| it.split_once("://").map_or("", |(_, host)| host));
        let is_own = |authority: &str, is_address_own: fn(&IpAddr) -> bool| {
            let (name, port) = authority.rsplit_once(':').unwrap_or((authority, ""));
            let has_port = port.bytes().all(|byte| byte.is_ascii_digit());
            let name = if has_port { name } else { authority };
            let address = name.trim_start_matches('[').trim_end_matches(']');
            let top = name.rsplit('.').next().unwrap_or_default();
            UNREGISTERED.iter().any(|own| own.eq_ignore_ascii_case(top))
                || address
                    .parse()
                    .is_ok_and(|address| is_address_own(&address))
                || names.iter().any(|own| own.eq_ignore_ascii_case(name))
        };
        // A name may lead here that is another's, an address does not; a page may be on any address.
        host.is_none_or(|host| is_own(host, |_| true))
            && origin.is_none_or(|origin| is_own(origin, IpAddr::is_loopback))
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
    fn a_page_of_another_site_is_not_answered() {
        let config = Config {
            hosts: Some(vec!["mock.internal".to_owned()]),
            ..Config::default()
        };
        let allowed = |uri: &str, host: &str, origin: &str| {
            let mut headers = HeaderMap::new();
            for (name, value) in [(HOST, host), (ORIGIN, origin)] {
                let value = (!value.is_empty()).then(|| value.parse().unwrap());
                headers.extend(value.map(|value| (name, value)));
            }
            config.allows(&uri.parse().unwrap(), &headers)
        };
        let own = [
            "127.0.0.1",
            "127.0.0.1:80",
            "[::1]",
            "[::1]:80",
            "LocalHost:80",
            "mock.internal",
            "app.localhost:3000",
            "app.test",
        ];
        let others = [
            "evil.com",
            "evil.com:80",
            "127.0.0.1.evil.com",
            "localhost.evil.com:80",
            "test.com",
            "evil.com@127.0.0.1",
            "x:127.0.0.1",
            "",
            ":80",
        ];
        assert!(allowed("/", "", ""));
        assert!(allowed("/", "10.0.0.7:8080", ""));
        assert!(!allowed("/", "10.0.0.7:8080", "http://10.0.0.7:8080"));
        for host in own {
            assert!(allowed("/", host, ""), "{host}");
            assert!(
                allowed(&format!("http://{host}/"), "evil.com", ""),
                "{host}"
            );
            assert!(
                allowed("/", "127.0.0.1", &format!("http://{host}")),
                "{host}"
            );
        }
        for host in others.into_iter().filter(|host| !host.is_empty()) {
            assert!(!allowed("/", host, ""), "{host}");
            assert!(
                !allowed("/", "127.0.0.1", &format!("https://{host}")),
                "{host}"
            );
        }
        assert!(!allowed("/", "127.0.0.1", "null"));
        assert!(!allowed("http://evil.com/", "127.0.0.1", ""));
        assert!(Config::default().allows(
            &"/".parse().unwrap(),
            &HeaderMap::from_iter([(HOST, "evil.com".parse().unwrap())])
        ));
    }

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
