//! Everything that a shard needs to crawl: its settings, resolved.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crawlmark_harness::plan::Backoff;
use crawlmark_harness::process::FileCounters;
use crawlmark_harness::units::Rate;
use robotxt::Robots;

use super::connect::{
    local_ips::LocalIps, peers::Lookups, pool::Reuse, proxy::Proxies,
    receive_stamps::ReceiveStamps, tls::Tls,
};
use super::requests::{host::HttpSettings, shape::RequestShape, targets::Targets};
use super::response::{
    compressed::Content,
    cookies::Cookies,
    expect::{Expectations, Statuses},
    head::HoldHeader,
};
use crate::dataset::session::Session;
use crate::ids::Shuffle;

/// Everything a shard needs to crawl.
#[derive(Debug, Clone)]
pub struct CrawlSpec {
    /// Addresses of each host, by its number; used in turn. None of a host whose proxy looks them
    /// up.
    pub addresses: Vec<Vec<SocketAddr>>,
    /// Hosts and paths of the requests.
    pub targets: Arc<Targets>,
    /// Parts that all requests share.
    pub request: RequestShape,
    /// Conditions for a good response.
    pub expect: Expectations,
    /// The longest an attempt may take once a connection is in hand.
    pub timeout: Duration,
    /// The longest that opening a connection may take.
    pub connect_timeout: Duration,
    /// Limit on the number of requests of a connection.
    pub reuse: Reuse,
    /// Source addresses of connections; none leaves the choice to the kernel. Every address of a
    /// host is of a family that they cover.
    pub local_ips: Option<LocalIps>,
    /// Use of the target's header about how long it held an answer.
    pub held: HoldHeader,
    /// TLS settings; none without an https:// host.
    pub tls: Option<Tls>,
    /// Proxies; none if every host is connected to directly.
    pub proxies: Option<Arc<Proxies>>,
    /// Versions of HTTP, and streams of a connection.
    pub http: HttpSettings,
    /// Settings that most crawls leave at their defaults.
    pub options: CrawlOptions,
}

/// Settings of a crawl that most crawls leave at their defaults.
#[derive(Debug, Clone, Default)]
pub struct CrawlOptions {
    /// Order of the IDs; none leaves it as it is.
    pub shuffle: Option<Shuffle>,
    /// Treatment of compressed content.
    pub content: Content,
    /// Treatment of cookies.
    pub cookies: Cookies,
    /// Redirects of an item that are followed at most.
    pub follow: u32,
    /// Unix socket to connect to in the place of any address.
    pub unix_socket: Option<PathBuf>,
    /// Longest time for which a connection may be idle; none leaves it to the target.
    pub idle_timeout: Option<Duration>,
    /// Connections that all shards together may open; none opens them when they are needed.
    pub connect_rate: Option<Rate>,
    /// Lookups during the run; none keeps the addresses that were found before it.
    pub lookups: Option<Lookups>,
    /// Answers whose receive time stamps are read.
    pub receive_stamps: ReceiveStamps,
    /// Response headers whose values are counted, lower case.
    pub traits: Vec<String>,
    /// True if the kernel acknowledges what arrives on plain connections at once, and not up to 40 ms
    /// later (`TCP_QUICKACK`).
    pub acks_at_once: bool,
    /// Rules of robots.txt by host, none of a host whose rules do not apply; none if no rules do.
    pub robots: Option<Arc<Vec<Option<Robots>>>>,
    /// Session of a saved crawl; none without `--save`.
    pub session: Option<Session>,
    /// Statuses that are retried beside those that are temporary anyway.
    pub retry_on: Option<Statuses>,
    /// True if a throttled item is tried until the run ends, as in a crawl that is saved.
    pub keeps_throttled: bool,
    /// Failures in turn, less one, after which a request that is sent once for a shard has failed
    /// for good.
    pub shared_retries: u32,
    /// Backoff before it is sent again.
    pub shared_backoff: Backoff,
    /// Counters of the attempts of which a request was sent, by shard, that outlive the shards'
    /// processes; none if they are not recorded.
    pub sent: Option<Rc<FileCounters>>,
}

impl CrawlSpec {
    /// Return the addresses that connections are opened to: those of each host, none of a host
    /// behind a proxy, then those of each proxy.
    #[must_use]
    pub fn peers(&self) -> Vec<&[SocketAddr]> {
        let proxies = self
            .proxies
            .iter()
            .flat_map(|proxies| &proxies.all)
            .map(|proxy| &*proxy.addresses);
        self.direct().into_iter().chain(proxies).collect()
    }

    /// Return the addresses of each host; of one that is reached through a proxy, none.
    #[must_use]
    pub fn direct(&self) -> Vec<&[SocketAddr]> {
        let proxies = self.proxies.as_ref();
        self.addresses
            .iter()
            .enumerate()
            .map(|(host, addresses)| match proxies {
                Some(proxies) if proxies.serves(host) => &[],
                _ => &**addresses,
            })
            .collect()
    }
}
