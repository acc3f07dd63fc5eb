//! Check that the run can work at all, before anything is forked: enough descriptors, and a target
//! that listens.

use std::fmt::Write;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread::sleep;
use std::time::Duration;

use crawlmark_harness::clock::{Clock, Nanos};
use crawlmark_harness::plan::RunPlan;
use crawlmark_harness::process::raise_descriptor_limit;
use crawlmark_harness::supervisor::HeldSignals;
use crawlmark_results::run::report::PROXY_FROM;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, connect, getsockopt, socket, sockopt,
};

use super::local_addresses;
use super::resolve::Resolved;
use crate::crawl::proxy::Proxy;
use crate::crawl::{Host, OPEN_PER_LANE};
use crate::error::Error;

/// Descriptors of a process beside its connections or its shards: poller, standard streams, files,
/// and some to spare.
const OVERHEAD: u64 = 32;

/// Descriptors of a process beside its connections or its shards, with nothing to spare: with
/// fewer, nothing runs.
const BARE: u64 = 16;

/// Connections per shard that fit in a limit on descriptors. With few, half of what is left is
/// spare.
fn fitting(limit: u64) -> u64 {
    let left = limit.saturating_sub(BARE);
    left - left.div_ceil(2).min(OVERHEAD - BARE)
}

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

/// Pipes that the supervisor holds for each shard.
const PIPES: u64 = 2;

/// Raises the limit on descriptors and compares it with what a shard and the supervisor need. Some
/// is what to say before a run that can work, though not all of its connections can be open at
/// once. Those for which there can be no descriptor are taken out of the plan.
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
    let lacks = |what: String, needs: u64| {
        format!(
            "{what} needs {needs} descriptors, and a process here may have {limit}: raise the limit (ulimit -Hn)"
        )
    };
    if limit < supervisor {
        return Err(Error::Usage(lacks(
            format!("--shards {}", plan.shards),
            supervisor,
        )));
    }
    if limit <= BARE {
        return Err(Error::Usage(lacks(
            "a shard with a single connection".to_owned(),
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
    let possible = u32::try_from(u64::from(plan.shards).saturating_mul(fitting(limit).max(1)))
        .unwrap_or(u32::MAX);
    let is_cut = plan.connections > possible;
    plan.connections = plan.connections.min(possible);
    let mut said = lacks(what, shard);
    if is_cut {
        let _ = write!(said, "; {possible} connections are used");
    }
    // Connections to several hosts may still be too many.
    if !is_cut || open_each > 1 {
        said += "; requests that find none left fail (too_many_files), and the result is not valid then";
    }
    Ok(Some(said))
}

/// Result of a check of all hosts.
#[derive(Debug)]
pub(super) struct Checked {
    /// Warnings about hosts that cannot be reached.
    pub(super) unreached: Vec<String>,
    /// Connections that were opened for it, and closed.
    pub(super) connections: u64,
}

/// Opens one connection to each host and closes it, and returns what is to be said of each host
/// that cannot be reached: its items will fail. The bundled target, which is not started yet, has
/// no address and needs no check.
///
/// # Errors
/// When no host can be reached: a run would only count refusals.
pub(super) fn check_hosts(
    resolved: &mut Resolved,
    clock: Clock,
    held: &HeldSignals,
) -> Result<Checked, Error> {
    // Hosts that were not looked at are not said to be dead: the run, which is stopped at once,
    // tells.
    let stop = || held.is_asked_to_stop().unwrap_or(false);
    let mut dead = std::mem::take(&mut resolved.unresolved);
    let spec = &resolved.spec;
    if let Some(path) = &spec.options.unix_socket {
        let opened = UnixStream::connect(path);
        let refused = |error| Error::UnixSocket {
            path: path.clone(),
            error,
        };
        return opened
            .map(|_| Checked {
                unreached: Vec::new(),
                connections: 1,
            })
            .map_err(refused);
    }
    let (hosts, peers) = (spec.targets.hosts(), spec.peers());
    let mut connections = 0;
    if let Some(ips) = &spec.local_ips {
        for (number, addresses) in peers.iter().enumerate().take_while(|_| !stop()) {
            match local_addresses::check_host(addresses, ips, spec.connect_timeout) {
                Err(error @ Error::Unreachable { .. }) => dead.push((number, error)),
                checked => connections += u64::from(checked?),
            }
        }
    } else {
        let (unreachable, opened) = never_reachable(&peers, spec.connect_timeout, clock, &stop);
        dead.extend(unreachable);
        connections += opened;
    }
    let proxies: &[Proxy] = spec.proxies.as_ref().map_or(&[], |proxies| &proxies.all);
    let of_proxies = dead.extract_if(.., |(number, _)| *number >= spec.addresses.len());
    let of_proxies: Vec<Error> = of_proxies
        .map(|(number, error)| match error {
            Error::Unreachable { error, .. } => {
                let proxy = proxies[number - spec.addresses.len()].url.to_string();
                Error::Proxy {
                    proxy,
                    from: proxy_from(&resolved.plan),
                    error,
                }
            }
            error => error,
        })
        .collect();
    let is_proxied = |host: &usize| {
        spec.proxies
            .as_ref()
            .is_some_and(|proxies| proxies.serves(*host))
    };
    let lost = if of_proxies.len() == proxies.len() {
        (0..hosts.len()).filter(is_proxied).count()
    } else {
        0
    };
    let reached = hosts.len().saturating_sub(dead.len() + lost);
    if reached == 0 && !(dead.is_empty() && of_proxies.is_empty()) {
        // Errors are counted as hosts: one stands for all that need a proxy.
        let of_proxies = of_proxies.into_iter().take(1);
        return Err(Error::no_host(
            dead.into_iter()
                .map(|(_, error)| error)
                .chain(of_proxies)
                .collect(),
        ));
    }
    dead.sort_by_key(|(number, _)| *number);
    let mut unreached = unreached_of(hosts, &dead);
    unreached.extend(
        of_proxies
            .iter()
            .map(|error| format!("failed to {error}: requests that need it fail")),
    );
    Ok(Checked {
        unreached,
        connections,
    })
}

/// Flag or variables that name the proxies, and the way to ignore variables.
fn proxy_from(plan: &RunPlan) -> String {
    match plan
        .workload
        .get(PROXY_FROM)
        .map_or("--proxy", String::as_str)
    {
        "--proxy" => "--proxy".to_owned(),
        variables => format!("{variables}, or ignore it with --proxy none"),
    }
}

/// Names the first hosts that cannot be reached, and counts the others.
fn unreached_of(hosts: &[Host], dead: &[(usize, Error)]) -> Vec<String> {
    let mut said: Vec<String> = dead
        .iter()
        .take(MOST_NAMED)
        .map(|(number, error)| unreached(&hosts[*number], error))
        .collect();
    if dead.len() > MOST_NAMED {
        let (more, all) = (dead.len() - MOST_NAMED, hosts.len());
        said.push(format!(
            "{more} more of the {all} hosts of --urls cannot be reached: their items fail"
        ));
    }
    said
}

fn unreached(host: &Host, error: &Error) -> String {
    let (name, port) = (host.name(), host.port());
    let cause = error.cause();
    format!(
        "{name}:{port} cannot be reached ({cause}): its items fail. Start it, or remove it from --urls"
    )
}

/// The hosts that are unreachable. As long as all of them refuse connections, they are tried again,
/// for [`STARTING`] at most.
fn never_reachable(
    hosts: &[&[SocketAddr]],
    timeout: Duration,
    clock: Clock,
    stop: &impl Fn() -> bool,
) -> (Vec<(usize, Error)>, u64) {
    let is_refused = |(_, error): &(usize, Error)| matches!(error, Error::Unreachable { error, .. } if error.kind() == ErrorKind::ConnectionRefused);
    let end = clock.now().plus(STARTING);
    loop {
        let (dead, opened) = unreachable(hosts, timeout, clock, stop);
        let may_start =
            !dead.is_empty() && dead.len() == hosts.len() && dead.iter().all(is_refused);
        if !may_start || clock.now() >= end || stop() {
            return (dead, opened);
        }
        sleep(AGAIN);
    }
}

/// The hosts of which no address can be connected to, by their number, and how many connections
/// were opened. Many are tried at once: a list may have many that never answer. Ends early when
/// `stop` says so.
fn unreachable(
    hosts: &[&[SocketAddr]],
    timeout: Duration,
    clock: Clock,
    stop: &impl Fn() -> bool,
) -> (Vec<(usize, Error)>, u64) {
    let (mut dead, mut opened) = (Vec::new(), 0);
    for (chunk, hosts) in hosts.chunks(AT_ONCE).enumerate().take_while(|_| !stop()) {
        // All addresses at the same time: one that is silent must not hold up the others.
        let (numbers, addresses): (Vec<_>, Vec<_>) = (hosts.iter().enumerate())
            .flat_map(|(host, all)| all.iter().map(move |address| (host, *address)))
            .unzip();
        let mut reached = vec![false; hosts.len()];
        let deadline = clock.now().plus(timeout);
        let (connected, connections) = connect_each(
            (&numbers, &addresses),
            &mut reached,
            deadline,
            (clock, stop),
        );
        opened += connections;
        let mut failed: Vec<Option<Error>> = hosts.iter().map(|_| None).collect();
        for ((host, address), connected) in numbers.into_iter().zip(addresses).zip(connected) {
            let error = connected.err().filter(|_| !reached[host]);
            failed[host] = error.map(|error| Error::Unreachable {
                address,
                error: error.into(),
            });
        }
        let numbered = failed.into_iter().enumerate();
        dead.extend(numbered.filter_map(|(host, error)| Some((chunk * AT_ONCE + host, error?))));
    }
    (dead, opened)
}

/// Open connections to `addresses` of the hosts of these numbers at the same time until each host
/// has one, or until `deadline`, and close them; return how many were opened. Hosts that have one
/// are noted in `reached`, and those that this machine has no descriptors or ports for.
fn connect_each(
    (numbers, addresses): (&[usize], &[SocketAddr]),
    reached: &mut [bool],
    deadline: Nanos,
    (clock, stop): (Clock, &impl Fn() -> bool),
) -> (Vec<Result<(), Errno>>, u64) {
    let (mut results, mut pending, mut opened) = (Vec::new(), Vec::new(), 0);
    for (at, address) in addresses.iter().enumerate() {
        let socket = begin_to_connect(*address);
        results.push(begun(&socket));
        reached[numbers[at]] |= results[at].is_ok();
        pending.extend(socket.ok().map(|socket| (at, socket)));
    }
    loop {
        pending.retain(|(at, _)| !reached[numbers[*at]]);
        if pending.is_empty() || clock.now() >= deadline {
            break;
        }
        if stop() {
            for (at, _) in &pending {
                reached[numbers[*at]] = true;
            }
            break;
        }
        let left = (Duration::from_nanos(deadline.since(clock.now())) + Duration::from_millis(1))
            .min(LOOK);
        let mut polled: Vec<_> = pending
            .iter()
            .map(|(_, socket)| PollFd::new(socket.as_fd(), PollFlags::POLLOUT))
            .collect();
        // Interrupted or not, what is ready is looked at, and the time.
        let _ = poll(
            &mut polled,
            PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX),
        );
        let ready: Vec<bool> = polled
            .iter()
            .map(|polled| polled.any() == Some(true))
            .collect();
        let mut ready = ready.into_iter();
        pending.retain(|(at, socket)| {
            let is_ready = ready.next() == Some(true);
            if is_ready {
                results[*at] =
                    getsockopt(socket, sockopt::SocketError).and_then(|error| match error {
                        0 => Ok(()),
                        error => Err(Errno::from_raw(error)),
                    });
                opened += u64::from(results[*at].is_ok());
                reached[numbers[*at]] |= results[*at].is_ok();
            }
            !is_ready
        });
    }
    (results, opened)
}

/// The result of an attempt to connect, as long as nothing more comes of it.
const fn begun(socket: &Result<OwnedFd, Errno>) -> Result<(), Errno> {
    match socket {
        Ok(_) => Err(Errno::ETIMEDOUT),
        Err(Errno::EMFILE | Errno::ENFILE | Errno::EADDRNOTAVAIL | Errno::ENOBUFS) => Ok(()),
        Err(error) => Err(*error),
    }
}

fn begin_to_connect(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() {
        AddressFamily::Inet
    } else {
        AddressFamily::Inet6
    };
    let socket = socket(
        family,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
        None,
    )?;
    match connect(socket.as_raw_fd(), &SockaddrStorage::from(address)) {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(socket),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::crawl::{Targets, Template, silent};

    #[test]
    fn hosts_are_tried_together_and_each_by_all_of_its_addresses() {
        let clock = Clock::start();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let alive = listener.local_addr().unwrap();
        let refused = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        // Full queues: the kernel leaves what comes beyond them without an answer.
        let listeners: Vec<_> = (0..300).map(|_| silent()).collect();
        let mut hosts: Vec<Vec<SocketAddr>> = listeners
            .iter()
            .map(|(_, address)| vec![*address])
            .collect();
        hosts.extend([
            vec![alive],
            vec![refused, alive],
            vec![],
            vec![refused, refused],
            vec![listeners[0].1, alive],
        ]);
        let timeout = Duration::from_millis(200);
        let began = clock.now();
        let dead: Vec<usize> = unreachable(&slices(&hosts), timeout, clock, &|| false)
            .0
            .into_iter()
            .map(|(host, _)| host)
            .collect();
        assert_eq!(dead, (0..300).chain([303]).collect::<Vec<_>>());
        let took = Duration::from_nanos(clock.now().since(began));
        assert!(took < timeout * 100, "{took:?} for three times {timeout:?}");
    }

    #[test]
    fn a_target_that_begins_to_listen_within_a_second_is_reached() {
        let clock = Clock::start();
        let refused = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let (late, looks) = (std::cell::OnceCell::new(), std::cell::Cell::new(0));
        let stop = || {
            looks.set(looks.get() + 1);
            if looks.get() == 5 {
                late.set(TcpListener::bind(refused).unwrap()).unwrap();
            }
            false
        };
        let (dead, opened) = never_reachable(&[&[refused]], Duration::from_mins(1), clock, &stop);
        assert!(
            dead.is_empty() && opened == 1 && looks.get() >= 5,
            "{dead:?} {opened}"
        );
        // Who is asked to stop does not wait.
        drop(late);
        assert_eq!(
            never_reachable(&[&[refused]], Duration::from_mins(1), clock, &|| true).1,
            0
        );
    }

    #[test]
    fn a_stop_ends_the_look_at_once_and_calls_nobody_dead() {
        let clock = Clock::start();
        let listeners: Vec<_> = (0..200).map(|_| silent()).collect();
        let hosts: Vec<Vec<SocketAddr>> = listeners
            .iter()
            .map(|(_, address)| vec![*address])
            .collect();
        // A signal before the first of 2 lots, and one while the first is waited for. The time of a
        // lot would be an hour.
        for looks in [0, 2] {
            let left = std::cell::Cell::new(looks);
            let stop = || left.replace(left.get() - 1) == 0 || left.get() < 0;
            let (dead, _) = unreachable(&slices(&hosts), Duration::from_hours(1), clock, &stop);
            assert!(
                dead.is_empty(),
                "{looks}: {} of {}",
                dead.len(),
                hosts.len()
            );
        }
    }

    #[test]
    fn a_lack_of_this_machine_is_no_dead_host() {
        for lack in [
            Errno::EMFILE,
            Errno::ENFILE,
            Errno::EADDRNOTAVAIL,
            Errno::ENOBUFS,
        ] {
            assert_eq!(begun(&Err(lack)), Ok(()), "{lack}");
        }
        assert_eq!(begun(&Err(Errno::ECONNREFUSED)), Err(Errno::ECONNREFUSED));
    }

    #[test]
    fn the_first_hosts_that_are_dead_are_named_and_the_others_counted() {
        let urls: Vec<String> = (1..=9).map(|n| format!("http://127.0.0.{n}:81/")).collect();
        let templates = urls.iter().map(|url| url.parse::<Template>());
        let targets = Targets::collect(templates).unwrap();
        for (count, lines) in [(0, 0), (1, 1), (3, 3), (4, 4), (8, 4)] {
            let address = SocketAddr::from(([127, 0, 0, 1], 81));
            let error = || Error::Unreachable {
                address,
                error: Errno::ECONNREFUSED.into(),
            };
            let dead: Vec<(usize, Error)> = (0..count).map(|number| (number, error())).collect();
            let said = unreached_of(targets.hosts(), &dead);
            assert_eq!(said.len(), lines, "{count}: {said:?}");
            let more = format!(
                "{} more of the 9 hosts of --urls cannot be reached",
                count.saturating_sub(3)
            );
            assert_eq!(
                said.get(3).is_some_and(|line| line.starts_with(&more)),
                count > 3,
                "{said:?}"
            );
            assert!(
                said.iter()
                    .zip(targets.hosts())
                    .take(3)
                    .all(|(line, host)| line.starts_with(host.name())),
                "{said:?}"
            );
        }
    }

    fn slices(hosts: &[Vec<SocketAddr>]) -> Vec<&[SocketAddr]> {
        hosts.iter().map(|addresses| &**addresses).collect()
    }
}
