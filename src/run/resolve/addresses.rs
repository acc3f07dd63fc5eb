//! Addresses of the hosts of a run: look them up, keep those that can be reached, and refuse public ones without a rate.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};

use crawlmark_harness::units::Rate;
use nix::ifaddrs::getifaddrs;

use crate::crawl::{ConnectTo, Family, Host, LocalIps, Targets};
use crate::error::Error;

/// Look up the addresses of each host; return them, and the hosts that have none.
///
/// # Errors
/// When no host has any.
#[expect(clippy::type_complexity, reason = "two lists about the same hosts")]
pub(super) fn find_all(
    hosts: &[Host],
    connect_to: &[ConnectTo],
) -> Result<(Vec<Vec<SocketAddr>>, Vec<(usize, Error)>), Error> {
    let mut unresolved = Vec::new();
    let mut found = |(number, host)| {
        find(host, connect_to).unwrap_or_else(|error| {
            unresolved.push((number, error));
            Vec::new()
        })
    };
    let addresses: Vec<_> = hosts.iter().enumerate().map(&mut found).collect();
    if unresolved.len() == hosts.len() {
        return Err(Error::no_host(unresolved.into_iter().map(|(_, error)| error).collect()));
    }
    Ok((addresses, unresolved))
}

fn find(host: &Host, connect_to: &[ConnectTo]) -> Result<Vec<SocketAddr>, Error> {
    let rule = connect_to.iter().find(|rule| rule.is_for(host));
    let (name, port) = rule.map_or((host.name(), host.port()), |rule| rule.destination(host));
    let resolve = |error| Error::Resolve { host: name.to_owned(), error };
    let found: Vec<_> = (name, port).to_socket_addrs().map_err(resolve)?.collect();
    if found.is_empty() {
        return Err(resolve(std::io::ErrorKind::NotFound.into()));
    }
    Ok(found)
}

/// Keep the addresses of each host that can be reached from `ips`. The bundled target has none yet, and will have IPv4.
pub(super) fn keep_reachable(
    ips: Option<&LocalIps>,
    targets: &Targets,
    addresses: &mut [Vec<SocketAddr>],
) -> Result<(), Error> {
    let Some(ips) = ips else { return Ok(()) };
    let lacks = |family: Family, who: &str| {
        Error::Usage(format!(
            "--local-ips {ips} has no {family} address, and {who} has no other: add one of this machine's, as in {}",
            if family == Family::V4 { "127.1.0.0/16 for a target on this machine" } else { "fd00::1" }
        ))
    };
    if addresses.is_empty() && !ips.has(Family::V4) {
        return Err(lacks(Family::V4, "the bundled target"));
    }
    for (host, addresses) in targets.hosts().iter().zip(addresses) {
        let Some(first) = addresses.first().map(|address| Family::of(address.ip())) else { continue };
        addresses.retain(|address| ips.has(Family::of(address.ip())));
        if addresses.is_empty() {
            return Err(lacks(first, host.name()));
        }
    }
    Ok(())
}

/// Reject public targets without `--rate`.
pub(super) fn refuse_unlimited_strangers(addresses: &[SocketAddr], rate: Option<Rate>) -> Result<(), Error> {
    match addresses.iter().find(|address| rate.is_none() && !is_private(address.ip())) {
        None => Ok(()),
        Some(stranger) => Err(Error::Usage(format!(
            "the URL's host has the address {}, which is neither this machine nor a private network: say how fast you \
             may crawl it, for example --rate 10/s",
            stranger.ip()
        ))),
    }
}

pub(super) fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_private() || v4.is_link_local() || v4.is_unspecified(),
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
pub(super) fn is_own(address: &SocketAddr) -> bool {
    let same = |own: &nix::sys::socket::SockaddrStorage| match address.ip() {
        IpAddr::V4(v4) => own.as_sockaddr_in().is_some_and(|own| own.ip() == v4),
        IpAddr::V6(v6) => own.as_sockaddr_in6().is_some_and(|own| own.ip() == v6),
    };
    address.ip().is_loopback()
        || getifaddrs().is_ok_and(|mut all| all.any(|interface| interface.address.as_ref().is_some_and(same)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_need_a_rate() {
        let rate = Some(Rate { permits: 1, period_ns: 1 });
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
            let addresses = [address.parse().unwrap()];
            assert_eq!(refuse_unlimited_strangers(&addresses, None).is_ok(), private, "{address}");
            assert!(refuse_unlimited_strangers(&addresses, rate).is_ok(), "{address}");
        }
        let mixed = ["127.0.0.1:80".parse().unwrap(), "192.0.2.1:80".parse().unwrap()];
        assert!(refuse_unlimited_strangers(&mixed, None).is_err(), "one stranger is enough");
    }
}
