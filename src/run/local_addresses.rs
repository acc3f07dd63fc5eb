//! Check that connections can go out from the addresses of `--local-ips`, before anything is
//! started.
//!
//! It must not find others for them: what cannot be used is refused, with the flag, the address and
//! the remedy.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;

use super::resolve::Resolved;
use crate::crawl::{Family, LocalIps, Reuse, go_from};
use crate::error::Error;

/// Addresses that are tried at most, of those that a run uses: some milliseconds' worth.
const MOST_TRIED: u64 = 512;

/// Refuses addresses that are none of this machine's, of those that the run will use: all of them,
/// or as many, evenly spread, as can be tried without delaying the run.
///
/// # Errors
/// When there is one.
pub(super) fn check_addresses(resolved: &Resolved) -> Result<(), Error> {
    let spec = &resolved.spec;
    let Some(ips) = &spec.local_ips else {
        return Ok(());
    };
    let used = match spec.reuse {
        Reuse::Unbounded => u64::from(resolved.plan.connections),
        Reuse::Requests(_) => u64::MAX,
    };
    // The bundled target, which has no address yet, has an IPv4 one.
    let peers = spec.peers();
    let is_bundled = peers.is_empty();
    for family in [Family::V4, Family::V6] {
        let is_wanted = peers
            .iter()
            .copied()
            .flatten()
            .any(|address| Family::of(address.ip()) == family);
        if is_wanted || (is_bundled && family == Family::V4) {
            ips.sample(family, used, MOST_TRIED)
                .try_for_each(check_address)?;
        }
    }
    Ok(())
}

/// Check that a socket can have the address. One of IPv6 that is only routed to this machine shows
/// when connecting.
fn check_address(from: IpAddr) -> Result<(), Error> {
    let tried = open(from)
        .map_err(usage(from))
        .and_then(|socket| go_from(&socket, from).map_err(usage(from)));
    tried.map(drop)
}

fn usage(from: IpAddr) -> impl Fn(Errno) -> Error {
    move |error| match error {
        Errno::EADDRNOTAVAIL => not_of_this_machine(from),
        error => Error::Usage(format!(
            "--local-ips: nothing can be sent from {from}: {}",
            io::Error::from(error)
        )),
    }
}

fn not_of_this_machine(from: IpAddr) -> Error {
    let (length, six) = if from.is_ipv4() {
        (32, "")
    } else {
        (128, " -6")
    };
    Error::Usage(format!(
        "--local-ips: {from} is not an address of this machine: add it (ip{six} addr add {from}/{length} dev lo) or its whole prefix \
         (ip{six} route add local PREFIX dev lo), or use 127.0.0.0/8, which works on Linux as it is, for a target on this machine"
    ))
}

/// Opens a connection to a host from the first of `ips` that has its family, and closes it. Returns
/// true if there was one.
///
/// # Errors
/// When none of its addresses can be connected to.
pub(super) fn check_host(
    addresses: &[SocketAddr],
    ips: &LocalIps,
    timeout: Duration,
) -> Result<bool, Error> {
    let mut refused = None;
    for address in addresses {
        let Some(from) = ips.nth(Family::of(address.ip()), 0) else {
            continue;
        };
        match connect_from(from, *address, timeout) {
            Ok(()) => return Ok(true),
            Err(error) => refused = Some(explain(from, *address, error)),
        }
    }
    refused.map_or(Ok(false), Err)
}

fn connect_from(from: IpAddr, to: SocketAddr, timeout: Duration) -> Result<(), Errno> {
    let socket = open(from)?;
    go_from(&socket, from)?;
    // Connecting is given up after it, too, and then says that it is still under way (socket(7)).
    let seconds = i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX);
    setsockopt(
        &socket,
        sockopt::SendTimeout,
        &TimeVal::new(seconds, i64::from(timeout.subsec_micros()).max(1)),
    )?;
    connect(socket.as_raw_fd(), &SockaddrStorage::from(to)).map_err(|error| match error {
        Errno::EINPROGRESS => Errno::ETIMEDOUT,
        error => error,
    })
}

fn explain(from: IpAddr, address: SocketAddr, error: Errno) -> Error {
    match error {
        // Linux sends nothing from 127.0.0.0/8 to other machines.
        Errno::EINVAL if from.is_loopback() && !address.ip().is_loopback() => {
            Error::Usage(format!(
                "--local-ips: from {from} only this machine can be reached, and the target is at {address}: use addresses that \
             the target's network knows (ip addr add)"
            ))
        }
        Errno::ETIMEDOUT if !is_own(from) => Error::Usage(format!(
            "--local-ips: {address} did not answer to {from}, which is on no interface of this machine: route its prefix to it \
             (ip -6 route add local PREFIX dev lo), and have the network do so, too"
        )),
        error => Error::Unreachable {
            address,
            error: error.into(),
        },
    }
}

/// True if an interface has the address: it can be bound without further ado.
fn is_own(address: IpAddr) -> bool {
    open(address)
        .and_then(|socket| {
            bind(
                socket.as_raw_fd(),
                &SockaddrStorage::from(SocketAddr::new(address, 0)),
            )
        })
        .is_ok()
}

fn open(address: IpAddr) -> Result<std::os::fd::OwnedFd, Errno> {
    let family = if address.is_ipv4() {
        AddressFamily::Inet
    } else {
        AddressFamily::Inet6
    };
    socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn message(result: Result<(), Error>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn an_address_of_another_machine_is_refused_with_what_would_help() {
        assert!(check_address("127.9.8.7".parse().unwrap()).is_ok());
        // RFC 5737 reserves it for documentation.
        let error = message(check_address("192.0.2.7".parse().unwrap()));
        assert!(
            error.starts_with("--local-ips: 192.0.2.7 is not an address of this machine"),
            "{error}"
        );
        assert!(
            error.contains("ip addr add 192.0.2.7/32 dev lo") && error.contains("127.0.0.0/8"),
            "{error}"
        );
    }

    #[test]
    fn a_host_is_asked_from_the_address_that_was_given() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, ips) = (listener.local_addr().unwrap(), "127.9.8.7".parse().unwrap());
        check_host(&[address], &ips, Duration::from_secs(30)).unwrap();
        assert_eq!(listener.accept().unwrap().1.ip().to_string(), "127.9.8.7");
        drop(listener);
        let error = check_host(&[address], &ips, Duration::from_secs(30)).unwrap_err();
        assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    }

    #[test]
    fn loopback_reaches_no_other_machine() {
        let error = explain(
            "127.0.0.2".parse().unwrap(),
            "192.0.2.1:80".parse().unwrap(),
            Errno::EINVAL,
        );
        assert!(
            error
                .to_string()
                .contains("only this machine can be reached"),
            "{error}"
        );
    }
}
