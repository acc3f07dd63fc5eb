//! Check that the run can work at all, before anything is forked: enough descriptors, source
//! addresses of this machine, and a target that listens.
//!
//! What cannot be used is refused, with the flag and the remedy, and never replaced.

use std::io;
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crawlmark_harness::clock::Clock;
use crawlmark_harness::plan::RunPlan;
use crawlmark_harness::process::raise_descriptor_limit;
use crawlmark_harness::supervisor::HeldSignals;
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{sleep, timeout};

use super::resolve::Resolved;
use crate::crawl::{
    CrawlSpec, End, Family, HttpVersion, OPEN_PER_LANE, Reuse, connect_to, go_from,
};
use crate::error::Error;

/// Descriptors of a process beside its connections or its shards: poller, standard streams, files,
/// and some to spare.
const OVERHEAD: u64 = 32;

/// Pipes that the supervisor holds for each shard.
const PIPES: u64 = 2;

/// Source addresses that are tried at most, of those that a run uses: some milliseconds' worth.
const MOST_TRIED: u64 = 512;

/// Hosts that are tried at the same time before the run.
const AT_ONCE: usize = 128;

/// Interval at which a signal is looked for while hosts are tried.
const LOOK: Duration = Duration::from_millis(100);

/// Time that hosts which refuse connections have to begin to listen: a script starts its target
/// right before a run.
const STARTING: Duration = Duration::from_secs(1);

/// Interval at which hosts are tried again in that time.
const AGAIN: Duration = Duration::from_millis(10);

/// Raise the limit on descriptors.
///
/// # Errors
/// When not all connections of a shard can be open at once.
pub(super) fn check_descriptors(plan: &RunPlan) -> Result<(), Error> {
    let lanes = u64::from(plan.connections.div_ceil(plan.shards.max(1)));
    // There are no more connections to one host than requests in flight.
    let open_each = u64::from(plan.per_host.hosts).clamp(1, OPEN_PER_LANE as u64);
    let needs = (lanes * open_each).max(u64::from(plan.shards) * PIPES) + OVERHEAD;
    let limit = raise_descriptor_limit().unwrap_or(u64::MAX);
    if needs <= limit {
        return Ok(());
    }
    Err(Error::usage(format!(
        "--connections {} over --shards {} needs {needs} descriptors, and a process here may have {limit}: raise the limit (ulimit -Hn), or \
         use fewer connections",
        plan.connections, plan.shards
    )))
}

/// Refuse addresses of `--local-ips` that are none of this machine's, of those that the run will
/// use: all of them, or as many, evenly spread, as can be tried without delaying the run.
///
/// # Errors
/// When there is one.
pub(super) fn check_local_ips(resolved: &Resolved) -> Result<(), Error> {
    let spec = &resolved.spec;
    let Some(ips) = &spec.local_ips else {
        return Ok(());
    };
    let used = match spec.reuse {
        Reuse::Unbounded => u64::from(resolved.plan.connections),
        Reuse::Requests(_) => u64::MAX,
    };
    let peers = spec.peers();
    for family in [Family::V4, Family::V6] {
        let mut addresses = peers.iter().copied().flatten();
        // The bundled target, which has no address yet, has an IPv4 one.
        let is_wanted = (peers.is_empty() && family == Family::V4)
            || addresses.any(|address| Family::of(address.ip()) == family);
        if is_wanted {
            ips.sample(family, used, MOST_TRIED)
                .try_for_each(check_local_ip)?;
        }
    }
    Ok(())
}

/// Check that a socket can have the address. One of IPv6 that is only routed to this machine shows
/// when connecting.
fn check_local_ip(from: IpAddr) -> Result<(), Error> {
    let family = match from {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    };
    let opened = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None);
    opened
        .and_then(|socket| go_from(&socket, from))
        .map_err(|error| {
            Error::Usage(format!(
                "--local-ips: nothing can be sent from {from}: {}. Add it to this machine (ip addr add), or route its prefix here (ip route add \
                 local PREFIX dev lo); 127.0.0.0/8 works for a target on this machine",
                io::Error::from(error)
            ))
        })
}

/// Result of a check of all hosts.
#[derive(Debug, Default)]
pub(super) struct Checked {
    /// Warning about the hosts and proxies that cannot be reached; none if there are none.
    pub(super) unreached: Option<String>,
    /// Connections that were opened for it, and closed.
    pub(super) connections: u64,
}

/// Open one connection to each host and proxy and close it. Items of a host that cannot be reached
/// will fail. The bundled target, which is not started yet, has no address and needs no check.
///
/// # Errors
/// When no host can be reached: a run would only count refusals.
pub(super) fn check_hosts(
    resolved: &mut Resolved,
    clock: Clock,
    held: &HeldSignals,
) -> Result<Checked, Error> {
    let mut dead = std::mem::take(&mut resolved.unresolved);
    let spec = &resolved.spec;
    if let Some(path) = &spec.options.unix_socket {
        UnixStream::connect(path).map_err(|error| Error::Connect {
            to: format!("the target at {}", path.display()),
            error,
            check: "--unix-socket".to_owned(),
        })?;
        return Ok(Checked {
            connections: 1,
            ..Checked::default()
        });
    }
    // Hosts that were not looked at are not called dead: the run, which is stopped at once, reports
    // the signal.
    let peers = match spec.http.version {
        // Over UDP, nobody is there until a handshake has an answer.
        HttpVersion::Http3 => Vec::new(),
        _ => ends(spec),
    };
    let tried = try_peers(&peers, spec.connect_timeout, clock, &|| {
        held.is_asked_to_stop().unwrap_or(false)
    });
    let (hosts, targets) = (spec.targets.hosts().len(), spec.addresses.len());
    let mut dead_proxies = Vec::new();
    for (number, end, error) in tried.failed {
        if let (Some(proxies), Some(proxy)) = (&spec.proxies, number.checked_sub(targets)) {
            dead_proxies.push(Error::Connect {
                to: format!("the proxy {}", proxies.all[proxy].url),
                error,
                check: resolved
                    .plan
                    .workload
                    .proxy_from
                    .as_ref()
                    .map_or_else(String::new, ToString::to_string),
            });
            continue;
        }
        let from = end.from.map(|from| format!(" from {from}"));
        let unreached = Error::Connect {
            to: format!("the target at {}{}", end.to, from.unwrap_or_default()),
            error,
            check: "the host and port of the URL".to_owned(),
        };
        dead.push((number, unreached));
    }
    dead.sort_by_key(|(number, _)| *number);
    let mut errors: Vec<Error> = dead.into_iter().map(|(_, error)| error).collect();
    let lost = spec.proxies.as_ref().map_or(0, |proxies| {
        let are_all_dead = dead_proxies.len() == proxies.all.len();
        (0..hosts)
            .filter(|host| are_all_dead && proxies.serves(*host))
            .count()
    });
    if errors.len() + lost >= hosts && !(errors.is_empty() && dead_proxies.is_empty()) {
        // Errors are counted as hosts: one stands for all that need a proxy.
        errors.extend(dead_proxies.into_iter().take(1));
        return Err(Error::no_host(errors));
    }
    errors.extend(dead_proxies);
    let is_any = !errors.is_empty();
    Ok(Checked {
        unreached: is_any.then(|| format!("requests to these fail: {}", Error::causes(&errors))),
        connections: tried.opened,
    })
}

/// Ends of the connections that are tried to each host and proxy, by its number.
fn ends(spec: &CrawlSpec) -> Vec<Vec<End>> {
    let ips = spec.local_ips.as_ref();
    let peers = spec.peers();
    peers
        .iter()
        .map(|addresses| {
            addresses
                .iter()
                .map(|to| End {
                    to: *to,
                    from: ips.and_then(|ips| ips.nth(Family::of(to.ip()), 0)),
                })
                .collect()
        })
        .collect()
}

/// Peers that were tried.
#[derive(Debug, Default)]
struct Tried {
    /// Those that cannot be reached: number, the last end that failed, and its error.
    failed: Vec<(usize, End, io::Error)>,
    /// Connections that were opened.
    opened: u64,
}

/// Try many peers at once: a list may have many that never answer. Ends early when `stop` says so.
fn try_peers(peers: &[Vec<End>], limit: Duration, clock: Clock, stop: &impl Fn() -> bool) -> Tried {
    let starting = clock.now().plus(STARTING);
    let tasks = peers
        .iter()
        .cloned()
        .enumerate()
        .map(|(number, ends)| async move {
            let tried = reach_peer(&ends, limit, || clock.now() < starting).await;
            (number, tried)
        });
    let mut all = Tried::default();
    for (number, tried) in together(AT_ONCE, tasks, || !stop()).unwrap_or_default() {
        match tried {
            Ok(opened) => all.opened += opened,
            Err((end, error)) => all.failed.push((number, end, error)),
        }
    }
    all
}

/// Run tasks, at most so many at the same time, and return what they made, in the order in which
/// they ended; ends early when `goes_on` says so, which is asked ten times a second. The runtime has
/// no thread, and is gone before anything is forked.
pub(super) fn together<T: 'static>(
    most: usize,
    mut tasks: impl Iterator<Item = impl Future<Output = T> + 'static>,
    mut goes_on: impl FnMut() -> bool,
) -> io::Result<Vec<T>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    LocalSet::new().block_on(&runtime, async {
        let (mut all, mut done) = (JoinSet::new(), Vec::new());
        while goes_on() {
            for task in tasks.by_ref().take(most - all.len()) {
                all.spawn_local(task);
            }
            match timeout(LOOK, all.join_next()).await {
                Ok(None) => break,
                Ok(Some(Ok(made))) => done.push(made),
                Ok(Some(Err(_))) | Err(_) => {}
            }
        }
        Ok(done)
    })
}

/// Try a peer, again and again while it refuses connections and may be starting; return the number
/// of connections.
async fn reach_peer(
    ends: &[End],
    limit: Duration,
    is_starting: impl Fn() -> bool,
) -> Result<u64, (End, io::Error)> {
    loop {
        match try_peer(ends, limit).await {
            Err((_, error))
                if error.kind() == io::ErrorKind::ConnectionRefused && is_starting() =>
            {
                sleep(AGAIN).await;
            }
            tried => return tried,
        }
    }
}

/// Connect to all ends of a peer at the same time, as one that is silent must not hold up the
/// others, until one answers. What this machine lacks is no fault of the peer.
async fn try_peer(ends: &[End], limit: Duration) -> Result<u64, (End, io::Error)> {
    const LACKS: [i32; 4] = [
        Errno::EMFILE as i32,
        Errno::ENFILE as i32,
        Errno::EADDRNOTAVAIL as i32,
        Errno::ENOBUFS as i32,
    ];
    let mut tries = JoinSet::new();
    for end in ends.iter().copied() {
        tries.spawn(async move {
            let connected = timeout(limit, connect_to(end))
                .await
                .unwrap_or_else(|_| Err(Errno::ETIMEDOUT.into()));
            (end, connected.map(drop))
        });
    }
    let mut failed = None;
    while let Some(Ok((end, connected))) = tries.join_next().await {
        match connected {
            Ok(()) => return Ok(1),
            Err(error) if error.raw_os_error().is_some_and(|of| LACKS.contains(&of)) => {
                return Ok(0);
            }
            Err(error) => failed = Some((end, error)),
        }
    }
    failed.map_or(Ok(0), Err)
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, OnceCell};
    use std::net::{SocketAddr, TcpListener};

    use super::*;
    use crate::crawl::silent;

    /// An address to which connections are refused.
    fn refused() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    }

    fn peer(addresses: &[SocketAddr]) -> Vec<End> {
        let end = |to: &SocketAddr| End {
            to: *to,
            from: None,
        };
        addresses.iter().map(end).collect()
    }

    /// Numbers of the peers that cannot be reached.
    fn failed(peers: &[Vec<End>], limit: Duration) -> Vec<usize> {
        let tried = try_peers(peers, limit, Clock::start(), &|| false);
        let mut numbers: Vec<usize> = tried.failed.iter().map(|(number, ..)| *number).collect();
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn hosts_are_tried_together_and_each_by_all_of_its_addresses() {
        let (clock, refused) = (Clock::start(), refused());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let alive = listener.local_addr().unwrap();
        // Full queues: the kernel leaves what comes beyond them without an answer.
        let listeners: Vec<_> = (0..300).map(|_| silent()).collect();
        let mut hosts: Vec<_> = listeners
            .iter()
            .map(|(_, address)| peer(&[*address]))
            .collect();
        hosts.extend([
            peer(&[alive]),
            peer(&[refused, alive]),
            peer(&[]),
            peer(&[refused, refused]),
            peer(&[listeners[0].1, alive]),
        ]);
        let (limit, began) = (Duration::from_millis(200), clock.now());
        let numbers = failed(&hosts, limit);
        assert_eq!(numbers, (0..300).chain([303]).collect::<Vec<_>>());
        let took = Duration::from_nanos(clock.now().since(began));
        assert!(took < limit * 100, "{took:?} for three times {limit:?}");
    }

    #[test]
    fn a_target_that_begins_to_listen_within_a_second_is_reached() {
        let (refused, late, looks) = (refused(), OnceCell::new(), Cell::new(0));
        let stop = || {
            looks.set(looks.get() + 1);
            if looks.get() == 3 {
                late.set(TcpListener::bind(refused).unwrap()).unwrap();
            }
            false
        };
        let limit = Duration::from_mins(1);
        let tried = try_peers(&[peer(&[refused])], limit, Clock::start(), &stop);
        assert!(tried.failed.is_empty() && tried.opened == 1, "{tried:?}");
    }

    #[test]
    fn a_stop_ends_the_look_at_once_and_calls_nobody_dead() {
        let listeners: Vec<_> = (0..200).map(|_| silent()).collect();
        let hosts: Vec<_> = listeners
            .iter()
            .map(|(_, address)| peer(&[*address]))
            .collect();
        // A signal before the first try, and one while the first ones are waited for.
        for looks in [0, 2] {
            let left = Cell::new(looks);
            let stop = || left.replace(left.get() - 1) <= 0;
            let tried = try_peers(&hosts, Duration::from_hours(1), Clock::start(), &stop);
            assert!(tried.failed.is_empty(), "{looks}: {tried:?}");
        }
    }

    #[test]
    fn an_address_of_another_machine_is_refused() {
        assert!(check_local_ip("127.9.8.7".parse().unwrap()).is_ok());
        // RFC 5737 reserves it for documentation.
        assert!(check_local_ip("192.0.2.7".parse().unwrap()).is_err());
    }
}
