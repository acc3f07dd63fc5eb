//! Addresses of the hosts of a run: look them up, keep those that can be reached, and refuse public
//! ones without a rate.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs};
use std::time::Duration;

use crawlmark_harness::clock::Clock;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::if_nametoindex;

use crate::cli::RunArgs;
use crate::crawl::proxy::{Proxies, Proxy};
use crate::crawl::{ConnectTo, Family, Host, LocalIps, Lookups};
use crate::error::Error;

/// Addresses of the hosts of a run.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Addresses of each host; none of one that its proxy looks up, and of the bundled target.
    pub(super) addresses: Vec<Vec<SocketAddr>>,
    /// Hosts without an address, by their number.
    pub(super) unresolved: Vec<(usize, Error)>,
    /// Times of looking them up; none where there was no name.
    pub(super) lookup: Option<LookupTimes>,
    /// Settings of lookups during the run; none without `--dns-ttl`.
    pub(super) lookups: Option<Lookups>,
    /// Numbers of the hosts that may be public, each with the reason.
    pub(super) strangers: Vec<(usize, String)>,
}

/// Times of looking up names.
#[derive(Debug, Clone, Copy)]
pub(in crate::run) struct LookupTimes {
    pub(in crate::run) all: Duration,
    pub(in crate::run) slowest: Duration,
}

/// Look up the addresses of the proxies, and of each host unless its proxy does, and keep those that
/// can be reached from the source addresses. No proxy is asked to look up a host that has none.
///
/// # Errors
/// When no host has any, or a proxy; when `--dns-ttl` has nothing to look up.
pub(super) fn find_all(
    args: &RunArgs,
    hosts: &[Host],
    mut proxies: Option<&mut Proxies>,
) -> Result<Found, Error> {
    if let Some(proxies) = &mut proxies {
        find_proxies(args, proxies)?;
    }
    let ips = args.local_ips.as_ref();
    // The bundled target has no address yet, and will have IPv4.
    if let Some(ips) = ips.filter(|ips| args.is_bundled() && !ips.has(Family::V4)) {
        return Err(lacks(ips, Family::V4, "the bundled target"));
    }
    let mut all = Found::default();
    let mut names = Vec::new();
    let clock = Clock::start();
    let (mut began, mut slowest) = (clock.now(), None);
    let hosts = if args.is_bundled() { &[] } else { hosts };
    for (number, host) in hosts.iter().enumerate() {
        let proxies = proxies.as_deref();
        let (name, port) = destination(host, &args.connect_to);
        let is_on_socket = args.connection.unix_socket.is_some();
        let is_needed = proxies.is_none_or(|proxies| proxies.needs_address(number));
        let to_look_up = looked_up(name, port).filter(|_| is_needed && !is_on_socket);
        let mut addresses = Vec::new();
        if is_on_socket {
            // It stands for the socket: nothing is connected to it.
            addresses.push(SocketAddr::from(([127, 0, 0, 1], host.port)));
        } else if is_needed {
            match find(name, port) {
                Ok(found) => addresses = found,
                Err(error) => all.unresolved.push((number, error)),
            }
        }
        let ended = clock.now();
        slowest = slowest.max(to_look_up.as_ref().map(|_| ended.since(began)));
        began = ended;
        if let Some(ips) = ips
            && proxies.is_none_or(|proxies| !proxies.serves(number))
        {
            keep_families(ips, host.name(), &mut addresses)?;
        }
        let why = why_strange(number, host.name(), &addresses, proxies);
        all.strangers.extend(why.map(|why| (number, why)));
        all.addresses.push(addresses);
        names.push(to_look_up);
    }
    all.lookup = slowest.map(|slowest_ns| LookupTimes {
        all: Duration::from_nanos(began.0),
        slowest: Duration::from_nanos(slowest_ns),
    });
    if all.unresolved.len() == hosts.len() && !hosts.is_empty() {
        let errors = all.unresolved.into_iter().map(|(_, error)| error);
        return Err(Error::no_host(errors.collect()));
    }
    if let Some(proxies) = proxies {
        for (number, _) in &all.unresolved {
            proxies.exclude(*number);
        }
        let urls = proxies.all.iter().map(|proxy| &proxy.url);
        names.extend(urls.map(|url| looked_up(&url.host, url.port)));
    }
    all.lookups = lookups(args, names)?;
    Ok(all)
}

/// Settings of looking up these names during the run; none without `--dns-ttl`.
fn lookups(args: &RunArgs, names: Vec<Option<(String, u16)>>) -> Result<Option<Lookups>, Error> {
    let Some(ttl) = args.connection.dns_ttl else {
        return Ok(None);
    };
    if names.iter().all(Option::is_none) {
        return Err(Error::usage(
            "--dns-ttl: there is no name to look up during the run: remove it",
        ));
    }
    Ok(Some(Lookups {
        ttl,
        names,
        resolve: |name, port| (name, port).to_socket_addrs().map(Iterator::collect),
        // Without a rate, no public address may be found later, either.
        may_use: if args.rate.is_some() {
            |_| true
        } else {
            is_private
        },
    }))
}

/// Look up the addresses of the proxies.
fn find_proxies(args: &RunArgs, proxies: &mut Proxies) -> Result<(), Error> {
    for Proxy { url, addresses } in &mut proxies.all {
        *addresses = find(&url.host, url.port)?;
        if args.is_bundled() && !addresses.iter().any(is_own) {
            return Err(Error::usage(
                "--proxy: the bundled target listens on this machine alone, where a proxy elsewhere cannot connect to it: use a proxy on \
                 this machine, or crawl a URL",
            ));
        }
        if let Some(ips) = &args.local_ips {
            keep_families(ips, &url.host, addresses)?;
        }
    }
    Ok(())
}

/// Return the name or address, and the port, that connections to a host go to.
fn destination<'a>(host: &'a Host, connect_to: &'a [ConnectTo]) -> (&'a str, u16) {
    let rule = connect_to.iter().find(|rule| rule.is_for(host));
    rule.map_or((host.local_name(), host.port), |rule| {
        rule.destination(host)
    })
}

/// Return a name that is looked up, and its port; none of an address.
fn looked_up(name: &str, port: u16) -> Option<(String, u16)> {
    let address = name.split('%').next().unwrap_or_default();
    let is_name = address.parse::<IpAddr>().is_err();
    is_name.then(|| (name.to_owned(), port))
}

/// Look up the addresses of a name.
pub(crate) fn find(name: &str, port: u16) -> Result<Vec<SocketAddr>, Error> {
    let resolve = |error| Error::Resolve {
        host: name.to_owned(),
        error,
    };
    let found = match zoned(name, port) {
        Some(address) => vec![address],
        None => (name, port).to_socket_addrs().map_err(resolve)?.collect(),
    };
    if found.is_empty() {
        return Err(resolve(std::io::ErrorKind::NotFound.into()));
    }
    Ok(found)
}

/// Return an IPv6 address with its zone, the name or number of an interface; none of anything else.
/// Resolvers read names of zones for link-local addresses alone.
fn zoned(name: &str, port: u16) -> Option<SocketAddr> {
    let (address, zone) = name.split_once('%')?;
    let scope = zone.parse().or_else(|_| if_nametoindex(zone)).ok()?;
    Some(SocketAddrV6::new(address.parse().ok()?, port, 0, scope).into())
}

/// Keep the addresses of a peer that can be reached from `ips`.
fn keep_families(ips: &LocalIps, who: &str, addresses: &mut Vec<SocketAddr>) -> Result<(), Error> {
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

/// Say why a host may be public; none if it is on this machine or in a private network.
fn why_strange(
    number: usize,
    name: &str,
    addresses: &[SocketAddr],
    proxies: Option<&Proxies>,
) -> Option<String> {
    let is_unknown = proxies.is_some_and(|proxies| proxies.looks_up(number));
    let literal: Option<IpAddr> = name.parse().ok().filter(|_| is_unknown);
    let known = addresses.iter().map(SocketAddr::ip);
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
    let mut own = getifaddrs()
        .into_iter()
        .flatten()
        .filter_map(|interface| interface.address);
    address.ip().is_loopback()
        || own.any(|own| match address.ip() {
            IpAddr::V4(v4) => own.as_sockaddr_in().is_some_and(|own| own.ip() == v4),
            IpAddr::V6(v6) => own.as_sockaddr_in6().is_some_and(|own| own.ip() == v6),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_the_index_of_an_interface() {
        let scope = |name: &str| match find(name, 80).map(|found| found[0]) {
            Ok(SocketAddr::V6(address)) => Some((address.ip().to_string(), address.scope_id())),
            _ => None,
        };
        let loopback = if_nametoindex("lo").unwrap();
        for address in ["fe80::1", "::1", "fd00::1", "2001:db8::1"] {
            let zoned = Some((address.to_owned(), loopback));
            assert_eq!(scope(&format!("{address}%lo")), zoned);
        }
        assert_eq!(scope("::1"), Some(("::1".to_owned(), 0)));
        assert_eq!(scope("fe80::1%4711"), Some(("fe80::1".to_owned(), 4711)));
        assert_eq!(scope("fe80::1%no-such-interface"), None);
    }

    #[test]
    fn addresses_beyond_private_networks_are_of_strangers() {
        let is_private = |addresses: &[&str]| {
            let addresses: Vec<_> = addresses.iter().map(|one| one.parse().unwrap()).collect();
            why_strange(0, "a.example", &addresses, None).is_none()
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
        for (name, private) in [
            ("10.1.2.3", true),
            ("localhost", true),
            ("192.0.2.1", false),
            ("a.example", false),
        ] {
            let why = why_strange(0, name, &[], Some(&proxies));
            assert_eq!(why.is_none(), private, "{name}");
        }
    }
}
