//! Check that the run can work at all, before anything is forked: enough descriptors, source
//! addresses of this machine, and a target that listens.
//!
//! What cannot be used is refused, with the flag and the remedy, and never replaced.

use std::fmt::Write;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::thread::sleep;
use std::time::Duration;

use crawlmark_harness::clock::Clock;
use crawlmark_harness::plan::RunPlan;
use crawlmark_harness::process::raise_descriptor_limit;
use crawlmark_harness::supervisor::HeldSignals;
use crawlmark_results::run::report::PROXY_FROM;
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::resolve::{Resolved, is_own};
use crate::crawl::{CrawlSpec, End, Family, Host, OPEN_PER_LANE, Reuse, connect_to, go_from};
use crate::error::Error;

/// Descriptors of a process beside its connections or its shards: poller, standard streams, files,
/// and some to spare.
const OVERHEAD: u64 = 32;

/// Descriptors of a process beside its connections or its shards, with nothing to spare: with
/// fewer, nothing runs.
const BARE: u64 = 16;

/// Pipes that the supervisor holds for each shard.
const PIPES: u64 = 2;

/// Source addresses that are tried at most, of those that a run uses: some milliseconds' worth.
const MOST_TRIED: u64 = 512;

/// Hosts that are tried at the same time before the run.
const AT_ONCE: usize = 128;

/// Hosts that are named when they cannot be reached; a list may have thousands.
const MOST_NAMED: usize = 3;

/// Interval at which a signal is looked for while hosts are tried.
const LOOK: Duration = Duration::from_millis(100);

/// Time that hosts which all refuse connections have to begin to listen: a script starts its target
/// right before a run.
const STARTING: Duration = Duration::from_secs(1);

/// Interval at which hosts are tried again in that time.
const AGAIN: Duration = Duration::from_millis(10);

/// Raise the limit on descriptors and compare it with what a shard and the supervisor need. Returns
/// a warning about a run that can work, though not all of its connections can be open at once;
/// those for which there can be no descriptor are taken out of the plan.
///
/// # Errors
/// When not every shard can have a connection.
pub(super) fn check_descriptors(plan: &mut RunPlan) -> Result<Option<String>, Error> {
    let in_flight = u64::from(plan.connections.div_ceil(plan.shards.max(1)));
    // There are no more connections to one host than requests in flight.
    let open_each = u64::from(plan.per_host.hosts).min(OPEN_PER_LANE as u64);
    let shard = in_flight * open_each + OVERHEAD;
    let supervisor = u64::from(plan.shards) * PIPES + BARE;
    let limit = raise_descriptor_limit().unwrap_or(u64::MAX);
    let lacks = |what: &str, needs: u64| {
        format!(
            "{what} needs {needs} descriptors, and a process here may have {limit}: raise the limit (ulimit -Hn)"
        )
    };
    if limit < supervisor {
        let what = format!("--shards {}", plan.shards);
        return Err(Error::Usage(lacks(&what, supervisor)));
    }
    if limit <= BARE {
        return Err(Error::Usage(lacks(
            "a shard with a single connection",
            BARE + 1,
        )));
    }
    if limit >= shard {
        return Ok(None);
    }
    let what = format!(
        "--connections {} over --shards {}",
        plan.connections, plan.shards
    );
    let mut said = lacks(&what, shard);
    // With few descriptors, half of what is left is spare.
    let left = limit - BARE;
    let fitting = left - left.div_ceil(2).min(OVERHEAD - BARE);
    let possible = u64::from(plan.shards).saturating_mul(fitting.max(1));
    let possible = u32::try_from(possible).unwrap_or(u32::MAX);
    let is_cut = plan.connections > possible;
    if is_cut {
        plan.connections = possible;
        let _ = write!(said, "; {possible} connections are used");
    }
    // Connections to several hosts may still be too many.
    if !is_cut || open_each > 1 {
        said += "; requests that find none left fail (too_many_files), and the result is not valid then";
    }
    Ok(Some(said))
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
    let (family, length, six) = match from {
        IpAddr::V4(_) => (AddressFamily::Inet, 32, ""),
        IpAddr::V6(_) => (AddressFamily::Inet6, 128, " -6"),
    };
    let opened = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None);
    let why = match opened.and_then(|socket| go_from(&socket, from)) {
        Ok(()) => return Ok(()),
        Err(Errno::EADDRNOTAVAIL) => format!(
            "{from} is not an address of this machine: add it (ip{six} addr add {from}/{length} dev lo) or its whole prefix \
             (ip{six} route add local PREFIX dev lo), or use 127.0.0.0/8, which works on Linux as it is, for a target on this machine"
        ),
        Err(error) => format!(
            "nothing can be sent from {from}: {}",
            io::Error::from(error)
        ),
    };
    Err(Error::Usage(format!("--local-ips: {why}")))
}

/// Result of a check of all hosts.
#[derive(Debug, Default)]
pub(super) struct Checked {
    /// Warnings about hosts that cannot be reached.
    pub(super) unreached: Vec<String>,
    /// Connections that were opened for it, and closed.
    pub(super) connections: u64,
}

/// Open one connection to each host and close it; return a warning about each host that cannot be
/// reached: its items will fail. The bundled target, which is not started yet, has no address and
/// needs no check.
///
/// # Errors
/// When no host can be reached: a run would only count refusals.
pub(super) fn check_hosts(
    resolved: &mut Resolved,
    clock: Clock,
    held: &HeldSignals,
) -> Result<Checked, Error> {
    // Hosts that were not looked at are not called dead: the run, which is stopped at once, reports
    // the signal.
    let stop = || held.is_asked_to_stop().unwrap_or(false);
    let mut dead = std::mem::take(&mut resolved.unresolved);
    let spec = &resolved.spec;
    if let Some(path) = &spec.options.unix_socket {
        let refused = |error| Error::UnixSocket {
            path: path.clone(),
            error,
        };
        UnixStream::connect(path).map_err(refused)?;
        return Ok(Checked {
            connections: 1,
            ..Checked::default()
        });
    }
    let Tried { failed, opened } = try_peers(&ends(spec), spec.connect_timeout, clock, &stop);
    let (hosts, count) = (spec.targets.hosts(), spec.addresses.len());
    let mut dead_proxies = Vec::new();
    for (number, end, error) in failed {
        match spec
            .proxies
            .as_ref()
            .and_then(|proxies| proxies.all.get(number.checked_sub(count)?))
        {
            Some(proxy) => dead_proxies.push(Error::Proxy {
                proxy: proxy.url.to_string(),
                from: proxy_from(&resolved.plan),
                error,
            }),
            None => dead.push((number, unreachable(end, error)?)),
        }
    }
    let lost = spec
        .proxies
        .as_ref()
        .filter(|proxies| dead_proxies.len() == proxies.all.len());
    let lost = lost.map_or(0, |proxies| {
        (0..hosts.len())
            .filter(|host| proxies.serves(*host))
            .count()
    });
    if dead.len() + lost >= hosts.len() && !(dead.is_empty() && dead_proxies.is_empty()) {
        // Errors are counted as hosts: one stands for all that need a proxy.
        let errors = dead.into_iter().map(|(_, error)| error);
        return Err(Error::no_host(
            errors.chain(dead_proxies.into_iter().take(1)).collect(),
        ));
    }
    dead.sort_by_key(|(number, _)| *number);
    let mut unreached = unreached(hosts, &dead);
    let proxies = dead_proxies.iter();
    unreached.extend(proxies.map(|error| format!("failed to {error}: requests that need it fail")));
    Ok(Checked {
        unreached,
        connections: opened,
    })
}

/// Flag or variables that name the proxies, and the way to ignore variables.
fn proxy_from(plan: &RunPlan) -> String {
    match plan.workload.get(PROXY_FROM) {
        Some(variables) if variables != "--proxy" => {
            format!("{variables}, or ignore it with --proxy none")
        }
        _ => "--proxy".to_owned(),
    }
}

/// Name the first hosts that cannot be reached, and count the others.
fn unreached(hosts: &[Host], dead: &[(usize, Error)]) -> Vec<String> {
    let one = |(number, error): &(usize, Error)| {
        let (name, port, cause) = (hosts[*number].name(), hosts[*number].port(), error.cause());
        format!(
            "{name}:{port} cannot be reached ({cause}): its items fail. Start it, or remove it from --urls"
        )
    };
    let more = dead.len().saturating_sub(MOST_NAMED);
    let of_all = || {
        format!(
            "{more} more of the {} hosts of --urls cannot be reached: their items fail",
            hosts.len()
        )
    };
    let named = dead.iter().take(MOST_NAMED).map(one);
    named.chain((more > 0).then(of_all)).collect()
}

/// Explain why nothing answers at `end`.
///
/// # Errors
/// When no target can be reached from the source address: the run is refused, whatever other hosts
/// say.
fn unreachable(end: End, error: io::Error) -> Result<Error, Error> {
    let End { to, from } = end;
    let why = match (from, error.raw_os_error().map(Errno::from_raw)) {
        // Linux sends nothing from 127.0.0.0/8 to other machines.
        (Some(from), Some(Errno::EINVAL)) if from.is_loopback() && !to.ip().is_loopback() => {
            format!(
                "from {from} only this machine can be reached, and the target is at {to}: use addresses that the target's network knows \
             (ip addr add)"
            )
        }
        (Some(from), Some(Errno::ETIMEDOUT)) if !is_own(&SocketAddr::new(from, 0)) => format!(
            "{to} did not answer to {from}, which is on no interface of this machine: route its prefix to it (ip -6 route add local \
             PREFIX dev lo), and have the network do so, too"
        ),
        _ => return Ok(Error::Unreachable { address: to, error }),
    };
    Err(Error::Usage(format!("--local-ips: {why}")))
}

/// Ends of the connections that are tried to each host and proxy, by its number.
fn ends(spec: &CrawlSpec) -> Vec<Vec<End>> {
    let ips = spec.local_ips.as_ref();
    let end = |to: &SocketAddr| End {
        to: *to,
        from: ips.and_then(|ips| ips.nth(Family::of(to.ip()), 0)),
    };
    let peers = spec.peers();
    peers
        .iter()
        .map(|addresses| addresses.iter().map(end).collect())
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

/// Try all peers. As long as all of them refuse connections, they are tried again, for [`STARTING`]
/// at most.
fn try_peers(peers: &[Vec<End>], limit: Duration, clock: Clock, stop: &impl Fn() -> bool) -> Tried {
    let end = clock.now().plus(STARTING);
    loop {
        let tried = try_once(peers, limit, stop);
        let is_refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        let may_start = !tried.failed.is_empty()
            && tried.failed.len() == peers.len()
            && tried.failed.iter().all(|(.., error)| is_refused(error));
        if !may_start || clock.now() >= end || stop() {
            return tried;
        }
        sleep(AGAIN);
    }
}

/// Try many peers at once: a list may have many that never answer. Ends early when `stop` says so.
/// The runtime has no thread, and is gone before anything is forked.
fn try_once(peers: &[Vec<End>], limit: Duration, stop: &impl Fn() -> bool) -> Tried {
    let mut tried = Tried::default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let Ok(runtime) = runtime else {
        return tried;
    };
    runtime.block_on(async {
        let (mut all, mut rest) = (JoinSet::new(), peers.iter().enumerate());
        while !stop() {
            let more = rest.by_ref().take(AT_ONCE - all.len());
            for (number, ends) in more {
                let ends = ends.clone();
                all.spawn(async move { (number, try_peer(ends, limit).await) });
            }
            match timeout(LOOK, all.join_next()).await {
                Ok(None) => return,
                Ok(Some(Ok((_, Ok(opened))))) => tried.opened += opened,
                Ok(Some(Ok((number, Err((end, error)))))) => {
                    tried.failed.push((number, end, error));
                }
                Ok(Some(Err(_))) | Err(_) => {}
            }
        }
    });
    tried
}

/// Connect to all ends of a peer at the same time, as one that is silent must not hold up the
/// others, until one answers; return the number of connections. What this machine lacks is no fault
/// of the peer.
async fn try_peer(ends: Vec<End>, limit: Duration) -> Result<u64, (End, io::Error)> {
    let mut tries = JoinSet::new();
    for end in ends {
        tries.spawn(async move {
            let connected = timeout(limit, connect_to(end)).await;
            (
                end,
                connected
                    .unwrap_or_else(|_| Err(Errno::ETIMEDOUT.into()))
                    .map(drop),
            )
        });
    }
    let mut failed = None;
    while let Some(Ok((end, connected))) = tries.join_next().await {
        match connected {
            Ok(()) => return Ok(1),
            Err(error) if is_lack(&error) => return Ok(0),
            Err(error) => failed = Some((end, error)),
        }
    }
    failed.map_or(Ok(0), Err)
}

/// True if this machine has no descriptors, ports or memory for a connection.
fn is_lack(error: &io::Error) -> bool {
    const LACKS: [Errno; 4] = [
        Errno::EMFILE,
        Errno::ENFILE,
        Errno::EADDRNOTAVAIL,
        Errno::ENOBUFS,
    ];
    let error = error.raw_os_error().map(Errno::from_raw);
    error.is_some_and(|error| LACKS.contains(&error))
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, OnceCell};
    use std::net::TcpListener;

    use super::*;
    use crate::crawl::{Targets, Template, silent};

    /// An address to which connections are refused.
    fn refused() -> SocketAddr {
        TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
    }

    fn peer(addresses: &[SocketAddr]) -> Vec<End> {
        addresses
            .iter()
            .map(|to| End {
                to: *to,
                from: None,
            })
            .collect()
    }

    fn numbers(tried: &Tried) -> Vec<usize> {
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
        let tried = try_once(&hosts, limit, &|| false);
        assert_eq!(numbers(&tried), (0..300).chain([303]).collect::<Vec<_>>());
        assert_eq!(tried.opened, 3);
        let took = Duration::from_nanos(clock.now().since(began));
        assert!(took < limit * 100, "{took:?} for three times {limit:?}");
    }

    #[test]
    fn a_target_that_begins_to_listen_within_a_second_is_reached() {
        let (clock, refused) = (Clock::start(), refused());
        let (late, looks) = (OnceCell::new(), Cell::new(0));
        let stop = || {
            looks.set(looks.get() + 1);
            if looks.get() == 7 {
                late.set(TcpListener::bind(refused).unwrap()).unwrap();
            }
            false
        };
        let peers = [peer(&[refused])];
        let tried = try_peers(&peers, Duration::from_mins(1), clock, &stop);
        assert!(tried.failed.is_empty() && tried.opened == 1, "{tried:?}");
        // Who is asked to stop does not wait.
        drop(late);
        let tried = try_peers(&peers, Duration::from_mins(1), clock, &|| true);
        assert_eq!(tried.opened, 0);
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
            let tried = try_once(&hosts, Duration::from_hours(1), &stop);
            assert!(tried.failed.is_empty(), "{looks}: {tried:?}");
        }
    }

    #[test]
    fn the_first_hosts_that_are_dead_are_named_and_the_others_counted() {
        let urls: Vec<String> = (1..=9).map(|n| format!("http://127.0.0.{n}:81/")).collect();
        let templates = urls.iter().map(|url| url.parse::<Template>());
        let targets = Targets::collect(templates).unwrap();
        for (count, lines) in [(0, 0), (3, 3), (4, 4), (8, 4)] {
            let error = || unreachable(peer(&[refused()])[0], Errno::ECONNREFUSED.into()).unwrap();
            let dead: Vec<(usize, Error)> = (0..count).map(|number| (number, error())).collect();
            let said = unreached(targets.hosts(), &dead);
            assert_eq!(said.len(), lines, "{count}: {said:?}");
        }
    }

    #[test]
    fn an_address_of_another_machine_is_refused() {
        assert!(check_local_ip("127.9.8.7".parse().unwrap()).is_ok());
        // RFC 5737 reserves it for documentation.
        let error = check_local_ip("192.0.2.7".parse().unwrap()).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("ip addr add 192.0.2.7/32 dev lo"),
            "{error}"
        );
        let end = End {
            to: "192.0.2.1:80".parse().unwrap(),
            from: Some("127.0.0.2".parse().unwrap()),
        };
        assert!(unreachable(end, Errno::EINVAL.into()).is_err());
    }

    #[test]
    fn a_host_is_tried_from_the_address_that_was_given() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let end = End {
            to: listener.local_addr().unwrap(),
            from: Some("127.9.8.7".parse().unwrap()),
        };
        try_once(&[vec![end]], Duration::from_secs(30), &|| false);
        assert_eq!(listener.accept().unwrap().1.ip().to_string(), "127.9.8.7");
    }
}
