//! Addresses of the hosts of a run: look them up, keep those that can be reached, and refuse public
//! ones without a rate.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs};
use std::time::Duration;

use crawlmark_harness::clock::Clock;
use crawlmark_harness::units::Rate;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::if_nametoindex;

use crate::cli::{RobotsUse, RunArgs};
use crate::crawl::proxy::Proxies;
use crate::crawl::{ConnectTo, Family, Host, LocalIps, Lookups, Targets};
use crate::error::Error;

/// Addresses of the hosts of a run.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Addresses of each host; none of one that its proxy looks up.
    pub(super) addresses: Vec<Vec<SocketAddr>>,
    /// Hosts without an address, by their number.
    pub(super) unresolved: Vec<(usize, Error)>,
    /// Times of looking them up; none where there was no name.
    pub(super) lookup: Option<LookupTimes>,
}

/// Times of looking up names.
#[derive(Debug, Clone, Copy)]
pub(in crate::run) struct LookupTimes {
    pub(in crate::run) all: Duration,
    pub(in crate::run) slowest: Duration,
}

/// Look up the addresses of each host, unless its proxy does. No proxy is asked to look up those
/// that have none.
///
/// # Errors
/// When no host has any.
pub(super) fn find_all(
    hosts: &[Host],
    connect_to: &[ConnectTo],
    proxies: Option<&mut Proxies>,
) -> Result<Found, Error> {
    let mut all = Found::default();
    let clock = Clock::start();
    let (mut began, mut slowest) = (clock.now(), None);
    for (number, host) in hosts.iter().enumerate() {
        let is_needed = proxies
            .as_ref()
            .is_none_or(|proxies| proxies.needs_address(number));
        let mut addresses = Vec::new();
        if is_needed {
            let (name, port) = destination(host, connect_to);
            let is_name = looked_up(name, port).is_some();
            match find(name, port) {
                Ok(found) => addresses = found,
                Err(error) => all.unresolved.push((number, error)),
            }
            let ended = clock.now();
            slowest = slowest.max(is_name.then(|| ended.since(began)));
            began = ended;
        }
        all.addresses.push(addresses);
    }
    all.lookup = slowest.map(|slowest_ns| LookupTimes {
        all: Duration::from_nanos(began.0),
        slowest: Duration::from_nanos(slowest_ns),
    });
    if all.unresolved.len() == hosts.len() {
        let errors = all.unresolved.into_iter().map(|(_, error)| error);
        return Err(Error::no_host(errors.collect()));
    }
    if let Some(proxies) = proxies {
        for (number, _) in &all.unresolved {
            proxies.exclude(*number);
        }
    }
    Ok(all)
}

/// Return the name or address, and the port, that connections to a host go to.
fn destination<'a>(host: &'a Host, connect_to: &'a [ConnectTo]) -> (&'a str, u16) {
    let rule = connect_to.iter().find(|rule| rule.is_for(host));
    rule.map_or((host.local_name(), host.port()), |rule| {
        rule.destination(host)
    })
}

/// Return the settings of lookups during the run; none without `--dns-ttl`. Without `--rate`, no public address may be found later, either.
///
/// # Errors
/// When there is nothing to look up.
pub(super) fn lookups(
    args: &RunArgs,
    hosts: &[Host],
    proxies: Option<&Proxies>,
) -> Result<Option<Lookups>, Error> {
    let Some(ttl) = args.connection.dns_ttl else {
        return Ok(None);
    };
    let is_looked_up = !args.is_bundled() && args.connection.unix_socket.is_none();
    let mut names = Vec::new();
    for (number, host) in hosts.iter().enumerate() {
        let needs = proxies.is_none_or(|proxies| proxies.needs_address(number));
        let (to, port) = destination(host, &args.connect_to);
        names.push(looked_up(to, port).filter(|_| needs && is_looked_up));
    }
    let of_proxies = proxies.into_iter().flat_map(|proxies| &proxies.all);
    names.extend(of_proxies.map(|proxy| looked_up(proxy.url.host(), proxy.url.port())));
    if names.iter().all(Option::is_none) {
        return Err(Error::Usage(
            "--dns-ttl: there is no name to look up during the run: remove it".to_owned(),
        ));
    }
    Ok(Some(Lookups {
        ttl,
        names,
        resolve: |name, port| (name, port).to_socket_addrs().map(Iterator::collect),
        may_use: if args.rate.is_some() {
            |_| true
        } else {
            is_private
        },
    }))
}

/// Return a name that is looked up, and its port; none of an address.
fn looked_up(name: &str, port: u16) -> Option<(String, u16)> {
    let address = name.split('%').next().unwrap_or_default();
    let is_name = address.parse::<IpAddr>().is_err();
    is_name.then(|| (name.to_owned(), port))
}

/// Return an address for each host that stands for a Unix socket: nothing is connected to it.
pub(super) fn on_this_machine(hosts: &[Host]) -> Vec<Vec<SocketAddr>> {
    hosts
        .iter()
        .map(|host| vec![SocketAddr::from(([127, 0, 0, 1], host.port()))])
        .collect()
}

/// Look up the addresses of a name.
pub(crate) fn find(name: &str, port: u16) -> Result<Vec<SocketAddr>, Error> {
    let resolve = |error| Error::Resolve {
        host: name.to_owned(),
        error,
    };
    if let Some((address, zone)) = name.split_once('%')
        && let Ok(address) = address.parse()
    {
        // The system's lookup reads zones of link-local addresses alone.
        let scope = if_nametoindex(zone)
            .or_else(|error| zone.parse().map_err(|_| resolve(error.into())))?;
        return Ok(vec![SocketAddrV6::new(address, port, 0, scope).into()]);
    }
    let found: Vec<_> = (name, port).to_socket_addrs().map_err(resolve)?.collect();
    if found.is_empty() {
        return Err(resolve(std::io::ErrorKind::NotFound.into()));
    }
    Ok(found)
}

/// Keep the addresses of each host that is connected to directly that can be reached from `ips`.
/// The bundled target has none yet, and will have IPv4.
pub(super) fn keep_reachable(
    ips: Option<&LocalIps>,
    targets: &Targets,
    addresses: &mut [Vec<SocketAddr>],
    proxies: Option<&Proxies>,
) -> Result<(), Error> {
    let Some(ips) = ips else { return Ok(()) };
    if addresses.is_empty() && proxies.is_none() && !ips.has(Family::V4) {
        return Err(lacks(ips, Family::V4, "the bundled target"));
    }
    for (number, (host, addresses)) in targets.hosts().iter().zip(addresses).enumerate() {
        if proxies.is_none_or(|proxies| !proxies.serves(number)) {
            keep_families(ips, host.name(), addresses)?;
        }
    }
    Ok(())
}

/// Keep the addresses of a peer that can be reached from `ips`.
pub(super) fn keep_families(
    ips: &LocalIps,
    who: &str,
    addresses: &mut Vec<SocketAddr>,
) -> Result<(), Error> {
    let Some(first) = addresses.first().map(|address| Family::of(address.ip())) else {
        return Ok(());
    };
    addresses.retain(|address| ips.has(Family::of(address.ip())));
    if addresses.is_empty() {
        Err(lacks(ips, first, who))
    } else {
        Ok(())
    }
}

fn lacks(ips: &LocalIps, family: Family, who: &str) -> Error {
    Error::Usage(format!(
        "--local-ips {ips} has no {family} address, and {who} has no other: add one of this machine's, as in {}",
        if family == Family::V4 {
            "127.1.0.0/16 for a target on this machine"
        } else {
            "fd00::1"
        }
    ))
}

/// Hosts of a run, with the ways to them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peers<'a> {
    pub(super) hosts: &'a [Host],
    /// Addresses of each host; none of the bundled target.
    pub(super) addresses: &'a [Vec<SocketAddr>],
    pub(super) proxies: Option<&'a Proxies>,
}

impl Peers<'_> {
    /// Reject targets that may be public without a rate.
    pub(super) fn check_rate(self, rate: Option<Rate>) -> Result<(), Error> {
        match self.stranger().filter(|_| rate.is_none()) {
            None => Ok(()),
            Some(why) => Err(Error::Usage(format!(
                "{why}: say how fast you may crawl it, for example --rate 10/s"
            ))),
        }
    }

    /// Say why one of these hosts may be public; none if all are on this machine or in a private
    /// network.
    pub(super) fn stranger(self) -> Option<String> {
        (0..self.hosts.len().min(self.addresses.len())).find_map(|number| self.why_strange(number))
    }

    /// Say why this host may be public; none if it is on this machine or in a private network.
    fn why_strange(self, number: usize) -> Option<String> {
        let name = self.hosts[number].name();
        let is_unknown = self.proxies.is_some_and(|proxies| proxies.looks_up(number));
        let literal: Option<IpAddr> = name.parse().ok().filter(|_| is_unknown);
        let known = self.addresses[number].iter().map(SocketAddr::ip);
        if let Some(ip) = known.chain(literal).find(|ip| !is_private(*ip)) {
            return Some(format!(
                "the URL's host has the address {ip}, which is neither this machine nor a private network"
            ));
        }
        let is_hidden = is_unknown && literal.is_none() && !name.eq_ignore_ascii_case("localhost");
        is_hidden.then(|| {
            format!("the proxy looks up the address of the URL's host {name}, which may be public")
        })
    }

    /// Return the numbers of the hosts whose robots.txt is obeyed.
    pub(super) fn obeyed(self, robots: RobotsUse) -> Vec<usize> {
        // The bundled target has neither an address nor a robots.txt.
        let known = 0..self.hosts.len().min(self.addresses.len());
        match robots {
            RobotsUse::Ignore => Vec::new(),
            RobotsUse::Honor => known.collect(),
            RobotsUse::Auto => known
                .filter(|number| self.why_strange(*number).is_some())
                .collect(),
        }
    }
}

/// True if `address` is of this machine or a private network.
pub(crate) fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            v4.is_loopback() || v4.is_private() || v4.is_link_local() || v4.is_unspecified()
        }
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => is_private(IpAddr::V4(v4)),
            None => v6.is_loopback() || v6.is_unspecified() || is_local_v6(v6),
        },
    }
}

/// `fc00::/7` (RFC 4193) and `fe80::/10` (RFC 4291).
const fn is_local_v6(v6: Ipv6Addr) -> bool {
    v6.is_unique_local() || v6.is_unicast_link_local()
}

/// True if `address` belongs to this machine.
pub(in crate::run) fn is_own(address: &SocketAddr) -> bool {
    let own = getifaddrs().into_iter().flatten();
    let mut own = own.filter_map(|interface| interface.address);
    address.ip().is_loopback()
        || own.any(|own| match address.ip() {
            IpAddr::V4(v4) => own.as_sockaddr_in().is_some_and(|own| own.ip() == v4),
            IpAddr::V6(v6) => own.as_sockaddr_in6().is_some_and(|own| own.ip() == v6),
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crawl::Template;
    use crate::crawl::proxy::Proxy;

    #[test]
    fn a_zone_is_the_index_of_an_interface() {
        let scope = |name: &str| match find(name, 80).map(|found| found[0]) {
            Ok(SocketAddr::V6(address)) => Some((address.ip().to_string(), address.scope_id())),
            _ => None,
        };
        let loopback = if_nametoindex("lo").unwrap();
        assert_eq!(scope("::1%lo"), Some(("::1".to_owned(), loopback)));
        assert_eq!(scope("fe80::1%lo"), Some(("fe80::1".to_owned(), loopback)));
        assert_eq!(scope("fe80::1%4711"), Some(("fe80::1".to_owned(), 4711)));
        assert_eq!(scope("fe80::1%no-such-interface"), None);
    }

    #[test]
    fn strangers_need_a_rate() {
        let hosts = |url: &str| {
            Targets::one(&url.parse::<Template>().unwrap())
                .unwrap()
                .hosts()
                .to_vec()
        };
        let is_private = |addresses: &[&str]| {
            let addresses = vec![
                addresses
                    .iter()
                    .map(|address| address.parse().unwrap())
                    .collect(),
            ];
            let peers = Peers {
                hosts: &hosts("http://a.example/"),
                addresses: &addresses,
                proxies: None,
            };
            peers.stranger().is_none()
        };
        for (address, private) in [
            ("127.0.0.1:80", true),
            ("10.1.2.3:80", true),
            ("192.168.0.9:80", true),
            ("[::1]:80", true),
            ("[fd00::1]:80", true),
            ("[fe80::1]:80", true),
            ("[::ffff:10.0.0.1]:80", true),
            ("[::ffff:192.0.2.1]:80", false),
            ("192.0.2.1:80", false),
            ("172.32.0.1:80", false),
            ("[2001:db8::1]:80", false),
        ] {
            assert_eq!(is_private(&[address]), private, "{address}");
        }
        assert!(
            !is_private(&["127.0.0.1:80", "192.0.2.1:80"]),
            "one stranger is enough"
        );
        let url = "socks5h://127.0.0.1:1".parse().unwrap();
        let all = vec![Proxy {
            url,
            addresses: Vec::new(),
        }];
        let proxies = Proxies {
            all,
            lists: vec![vec![0]],
            of_host: vec![Some(0)],
            ..Proxies::default()
        };
        for (url, private) in [
            ("http://10.1.2.3/", true),
            ("http://localhost/", true),
            ("http://192.0.2.1/", false),
            ("http://a.example/", false),
        ] {
            let peers = Peers {
                hosts: &hosts(url),
                addresses: &[Vec::new()],
                proxies: Some(&proxies),
            };
            assert_eq!(peers.stranger().is_none(), private, "{url}");
        }
    }
}
