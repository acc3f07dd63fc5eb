//! Resolution of the arguments of `run` into one plan, checked as a whole before anything is
//! started.

mod addresses;
mod bundled;
mod proxies;
mod record;
mod request;
mod rules;
mod targets;

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crawlmark_harness::plan::{
    Arrivals, Pacing, PerHost, Pinning, Recorded, RunPlan, default_burst, most_shards,
};
use crawlmark_harness::process::usable_cpus;
use crawlmark_harness::stats::Series;
use crawlmark_harness::units::{IdRange, RateShape};
use crawlmark_results::run::gates::{Breach, Condition, Objective};
use crawlmark_results::run::report::{Labels, Placement};

pub(super) use self::addresses::is_own;
use self::addresses::{Found, LookupTimes, Peers, find_all, keep_reachable, on_this_machine};
pub(crate) use self::addresses::{find, is_private};
pub(super) use self::bundled::BundledTarget;
use self::record::Resolution;
use self::targets::{Chosen, mean_rate, methods};
use super::target_probe::ProbeChoice;
use crate::cli::{Auto, RunArgs};
use crate::crawl::proxy::{Proxies, Session};
use crate::crawl::tls::{Settings, Tls};
use crate::crawl::{
    CrawlOptions, CrawlSpec, EventStream, Expect, Expectations, HoldHeader, HttpSettings,
    HttpVersion, IdUse, Reuse, Scheme, Targets,
};
use crate::error::Error;

/// Duration of a run that neither its IDs nor its time bound.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

/// Default ID range; larger than any default run uses.
const DEFAULT_IDS: IdRange = IdRange {
    start: 0,
    end: 100_000_000,
};

/// A run that can be started.
#[derive(Debug)]
pub(super) struct Resolved {
    /// Plan of the run.
    pub(super) plan: RunPlan,
    /// Settings of the crawl.
    pub(super) spec: CrawlSpec,
    /// Labels that the user gave.
    pub(super) labels: Labels,
    /// Directory of the result, if the user gave one.
    pub(super) out: Option<PathBuf>,
    /// True if client and target share a machine.
    pub(super) placement: Placement,
    /// True if any invalid measurement fails the run.
    pub(super) is_strict: bool,
    /// Objectives of the run.
    pub(super) objectives: Vec<Objective>,
    /// The target to start, when none was named.
    pub(super) bundled: Option<BundledTarget>,
    /// Hosts without an address, by their number. There is another one that has some.
    pub(super) unresolved: Vec<(usize, Error)>,
    /// The target's probe.
    pub(super) probe: ProbeChoice,
    /// Times of looking up names; none without one.
    pub(super) lookup: Option<LookupTimes>,
    /// Numbers of the hosts whose robots.txt is obeyed.
    pub(super) robots: Vec<usize>,
    /// Note on what is left out of the file of requests.
    pub(super) note: Option<String>,
}

impl Resolved {
    /// Return the run, aimed at the bundled target at `address`; unchanged when it has another
    /// target.
    pub(super) fn aimed_at(mut self, address: Option<SocketAddr>) -> Result<Self, Error> {
        if let (Some(bundled), Some(address)) = (&self.bundled, address) {
            let template = bundled.at(address)?;
            self.plan.target = template.to_string();
            self.spec.targets = Arc::new(Targets::one(&template).map_err(Error::usage)?);
            self.spec.addresses = vec![vec![address]];
        }
        Ok(self)
    }
}

/// Resolve `args`. Looks up the host's name; starts and writes nothing.
pub(super) fn resolve(args: RunArgs) -> Result<Resolved, Error> {
    rules::check_flags(&args)?;
    let cores = usable_cpus().len().max(1);
    let request = request::choose(&args)?;
    let Chosen {
        targets,
        bundled,
        times,
        note,
    } = targets::choose(&args, &request)?;
    let all_methods = methods(&request, &targets);
    if args.diagnose
        && ["POST", "PATCH"]
            .iter()
            .any(|method| all_methods.contains(method))
    {
        return Err(Error::usage(format!(
            "--diagnose sends requests again, which may change something with {all_methods}: leave it out"
        )));
    }
    let expect = choose_expectations(&args, &all_methods)?;
    let (mut proxies, proxy_from) = proxies::choose(&args, &targets)?.unzip();
    rules::check_targets(&args, &request, &targets, proxies.as_ref())?;
    let request = request.withholding(proxies.iter().flat_map(Proxies::secrets));
    let Found {
        mut addresses,
        unresolved,
        lookup,
    } = match &args.connection.unix_socket {
        _ if bundled.is_some() => Found::default(),
        Some(_) => Found {
            addresses: on_this_machine(targets.hosts()),
            ..Found::default()
        },
        None => find_all(targets.hosts(), &args.connect_to, proxies.as_mut())?,
    };
    let bundled = bundled
        .map(|template| BundledTarget::new(&args, template))
        .transpose()?;
    let ips = args.local_ips.as_ref();
    keep_reachable(ips, &targets, &mut addresses, proxies.as_ref())?;
    let is_replay = args.arrivals == Arrivals::Replay;
    let rate = match args.rate {
        _ if is_replay => Some(mean_rate(&times)),
        rate => rate.map(|rate| rate.peak),
    };
    let peers = Peers {
        hosts: targets.hosts(),
        addresses: &addresses,
        proxies: proxies.as_ref(),
    };
    peers.check_rate(rate)?;
    let robots = peers.obeyed(args.throttling.robots);
    let lookups = addresses::lookups(&args, targets.hosts(), proxies.as_ref())?;
    let (ids, bounded) = choose_ids(&args, &targets, request.has_id())?;
    let hosts = u32::try_from(targets.hosts().len()).unwrap_or(u32::MAX);
    let per_host = args.per_host.resolve(hosts);
    let own_burst = args.burst.or(window(&args));
    let shards = match args.shards {
        Auto::Auto if args.arrivals == Arrivals::Waves => 1,
        Auto::Auto => {
            let is_even = args.arrivals.gaps().is_none() && window(&args).is_none();
            let budget = rate.filter(|_| is_even);
            fitting_shards(cores, args.connections, per_host, own_burst)
                .min(budget.as_ref().map_or(u32::MAX, most_shards))
        }
        Auto::Exactly(shards) => shards,
    };
    check_spinning(args.pacing, shards, cores)?;
    let (targets, recorded) = if is_replay {
        targets::deal(targets, &times, shards)
    } else {
        (targets, Recorded::default())
    };
    let spec = CrawlSpec {
        addresses,
        request,
        expect,
        timeout: args.timeout,
        connect_timeout: args.connect_timeout,
        reuse: reuse(&args),
        local_ips: args.local_ips.clone(),
        held: HoldHeader::Ignored,
        tls: tls(&args, &targets, bundled.as_ref())?,
        proxies: proxies.map(Arc::new),
        http: HttpSettings {
            version: args.http,
            streams: args.streams.unwrap_or(1),
        },
        options: CrawlOptions {
            lookups,
            ..request::options(&args, ids)
        },
        targets: Arc::new(targets),
    };
    let resolution = Resolution {
        shuffled: request::shuffled(&args, ids),
        proxy_from,
        bundled: bundled.as_ref(),
        obeys_robots: !robots.is_empty(),
    };
    let workload = record::workload(&args, &spec, resolution);
    // What the requests of an open loop may do at once is up to its timetable.
    let budget = rate.filter(|_| args.arrivals.gaps().is_none());
    let plan = RunPlan {
        target: spec.targets.to_string(),
        workload,
        ids,
        finished: Vec::new(),
        shards,
        connections: args.connections,
        streams: spec.http.streams,
        rate,
        shape: args.rate.map_or(RateShape::Constant, |rate| rate.shape),
        burst: own_burst
            .or_else(|| budget.map(|rate| default_burst(&rate, shards)))
            .unwrap_or(0),
        at_start: budget.map_or(0, |_| own_burst.unwrap_or(u64::from(shards))),
        arrivals: args.arrivals,
        queue: args.queue,
        recorded,
        pacing: args.pacing,
        throttling: args.throttling.resolve(args.arrivals),
        per_host,
        duration: args.duration.or((!bounded).then_some(DEFAULT_DURATION)),
        warmup: args.warmup.unwrap_or_default(),
        grace: args.grace.unwrap_or(args.timeout),
        timeout: args.timeout,
        shard_deadline: args.shard_deadline,
        seed: args.seed,
        pinning: if args.no_pin {
            Pinning::None
        } else {
            Pinning::PerCpu
        },
    };
    let plan = plan.validate().map_err(Error::usage)?;
    Ok(Resolved {
        objectives: objectives(&args, &plan)?,
        plan,
        placement: placement(&spec, bundled.is_some()),
        spec,
        labels: Labels {
            name: args.name,
            tags: args.tags.into_iter().collect(),
        },
        probe: ProbeChoice::of(&args.probe, args.connection.unix_socket.as_deref()),
        out: args.out,
        is_strict: args.strict,
        bundled,
        unresolved,
        lookup,
        robots,
        note,
    })
}

/// Return the requests of a window, which may have all of them at once, and saves nothing for the
/// next one; none of a rate without windows, or of an open loop, whose requests have times.
fn window(args: &RunArgs) -> Option<u64> {
    let rate = args.rate.filter(|_| args.arrivals.gaps().is_none())?;
    matches!(rate.shape, RateShape::Windows { .. }).then_some(rate.peak.permits)
}

/// Return the conditions for a good response; of the bundled target, the items that it serves.
fn choose_expectations(args: &RunArgs, method: &str) -> Result<Expectations, Error> {
    // What answers HEAD has no body to compare, and another method's answer is not an item.
    let is_of_target = args.is_bundled() && args.expect.is_empty() && method == "GET";
    if is_of_target && args.target.target_events.is_none() {
        return Ok(Expectations::items(args.seed));
    }
    let served = is_of_target.then(|| Expect::Events(EventStream::of_target()));
    let list = args.expect.iter().cloned().chain(served);
    let expected =
        Expectations::new(list).map_err(|error| Error::usage(format!("--expect: {error}")))?;
    let is_call = expected.are_calls();
    let flaw = if args.request.compressed && expected.events().is_some() {
        "sse, ndjson and grpc read a stream as it arrives, and --compressed decodes it at its end: leave one of them out"
    } else if is_call && !matches!(args.http, HttpVersion::Http2 | HttpVersion::Http3) {
        "grpc needs HTTP/2 or HTTP/3: add --http 2"
    } else if is_call && method != "POST" {
        "grpc needs requests of the method POST: remove the others"
    } else {
        return Ok(expected);
    };
    Err(Error::usage(format!("--expect {flaw}")))
}

/// Colocated if the bundled target, another target or a proxy is on this machine.
fn placement(spec: &CrawlSpec, is_bundled: bool) -> Placement {
    let is_colocated = is_bundled || spec.peers().into_iter().flatten().any(is_own);
    if is_colocated {
        Placement::Colocated
    } else {
        Placement::Apart
    }
}

/// Return the CPUs of `own` to pin shards to: beside a target on this machine, which may run on the
/// CPUs `taken`, those where it never runs if they are enough, otherwise none. A shard that may not
/// leave the target's CPU waits for it while another CPU is idle.
fn beside(mut own: Vec<usize>, taken: &[usize], shards: u32) -> Vec<usize> {
    own.retain(|cpu| !taken.contains(cpu));
    if own.len() < shards as usize {
        own.clear();
    }
    own
}

/// Return the CPUs to pin shards to, with a target that may run on those of `found`.
pub(super) fn cpus(shards: u32, placement: Placement, found: Option<&[usize]>) -> Vec<usize> {
    let own = usable_cpus();
    match (placement, found) {
        (Placement::Apart, _) => own,
        (Placement::Colocated, Some(taken)) => beside(own, taken, shards),
        (Placement::Colocated, None) => Vec::new(),
    }
}

/// Refuses shards that would spin for one and the same core.
fn check_spinning(pacing: Pacing, shards: u32, cores: usize) -> Result<(), Error> {
    if pacing == Pacing::Spin && shards as usize > cores {
        return Err(Error::Usage(format!(
            "--pacing spin uses a whole core for each shard: --shards {shards} is more than the {cores} cores of this machine. Use --shards \
             {cores}, or --pacing sleep"
        )));
    }
    Ok(())
}

/// Set up the client's TLS; none without an https:// URL.
fn tls(
    args: &RunArgs,
    targets: &Targets,
    bundled: Option<&BundledTarget>,
) -> Result<Option<Tls>, Error> {
    let hosts = targets.hosts();
    if hosts.iter().all(|host| host.scheme() == Scheme::Http) {
        return Ok(None);
    }
    let own = bundled.and_then(|target| target.config.tls.as_ref());
    let settings = Settings {
        http: args.http,
        ..args
            .tls
            .resolve(own.map(|tls| tls.certificate_pem().to_owned()))
    };
    Tls::new(&settings, hosts).map(Some).map_err(Error::usage)
}

/// Return the limit on the requests of a connection. A number is at least 1, or it was refused when
/// it was parsed.
fn reuse(args: &RunArgs) -> Reuse {
    let is_once = args.disable_keepalive || args.proxy.session == Some(Session::PerRequest);
    let most = if is_once {
        Some(1)
    } else {
        args.max_requests_per_connection
    };
    most.and_then(NonZeroU64::new)
        .map_or(Reuse::Unbounded, Reuse::Requests)
}

/// Return the objectives of a run of `plan`, those of the short flags included.
pub(crate) fn objectives(args: &RunArgs, plan: &RunPlan) -> Result<Vec<Objective>, Error> {
    let series = if args.arrivals.gaps().is_some() {
        Series::ResponseOk
    } else {
        Series::ServiceOk
    };
    let slo_p99 = args
        .slo_p99
        .map(|most| Condition::p99_at_most(series, most));
    let fails = args
        .threshold
        .iter()
        .copied()
        .chain(slo_p99)
        .chain(args.max_error_rate);
    let with = |breach| move |condition| Objective { condition, breach };
    let all = fails
        .map(with(Breach::Fails))
        .chain(args.stop_if.iter().copied().map(with(Breach::Stops)));
    all.map(|objective| objective.check(plan).map(|()| objective))
        .collect::<Result<_, _>>()
        .map_err(Error::usage)
}

/// Choose the IDs, and say if they or a flag bound the run: a range, the first so many, each line
/// of a list once, or more than any run crawls.
///
/// # Errors
/// When the range has fewer IDs than there are to be items.
fn choose_ids(
    args: &RunArgs,
    targets: &Targets,
    has_id_in_body: bool,
) -> Result<(IdRange, bool), Error> {
    let lines = IdRange {
        start: 0,
        end: targets.lines() as u64,
    };
    if args.arrivals == Arrivals::Replay {
        // Each request is one item; those beyond `-n` are not among them.
        return Ok((lines, true));
    }
    let asks_ids = has_id_in_body || targets.asks_ids() == IdUse::Yes;
    let is_list = args.list().is_some() && !asks_ids && !targets.is_drawn();
    let ids = match (args.ids, args.requests) {
        (Some(ids), Some(count)) if count > ids.len() => {
            return Err(Error::usage(format!(
                "--items {count} is more than the {} IDs of --ids {ids}",
                ids.len()
            )));
        }
        (ids, Some(count)) => {
            let (start, end) = (0, u64::MAX);
            ids.unwrap_or(IdRange { start, end }).first(count)
        }
        (Some(ids), None) => ids,
        (None, None) if is_list && args.duration.is_none() => lines,
        (None, None) => DEFAULT_IDS,
    };
    let is_bounded =
        is_list || args.ids.is_some() || args.requests.is_some() || args.duration.is_some();
    Ok((ids, is_bounded))
}

/// Each shard needs a connection, one to each host, a burst, and a share of each host's rate that
/// is worth having; one more than there are cores only waits for the others.
fn fitting_shards(cores: usize, connections: u32, per_host: PerHost, burst: Option<u64>) -> u32 {
    let burst = burst.map_or(u32::MAX, |burst| u32::try_from(burst).unwrap_or(u32::MAX));
    let of_host = per_host.connections.unwrap_or(u32::MAX).max(1);
    u32::try_from(cores)
        .unwrap_or(u32::MAX)
        .min(connections.max(1))
        .min(of_host)
        .min(burst)
        .min(per_host.rate.as_ref().map_or(u32::MAX, most_shards))
}

/// Say why the target may be public; none if it is on this machine or in a private network. Looks
/// up its host's name.
///
/// # Errors
/// When there is no such target, or no host has an address.
pub(crate) fn stranger(args: &RunArgs) -> Result<Option<String>, Error> {
    let targets = targets::choose(args, &request::choose(args)?)?.targets;
    if args.is_bundled() || args.connection.unix_socket.is_some() {
        return Ok(None);
    }
    let mut proxies = proxies::choose(args, &targets)?.map(|(proxies, _)| proxies);
    let found = find_all(targets.hosts(), &args.connect_to, proxies.as_mut())?;
    let peers = Peers {
        hosts: targets.hosts(),
        addresses: &found.addresses,
        proxies: proxies.as_ref(),
    };
    Ok(peers.stranger())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn shards_beside_a_target_have_a_cpu_each_where_it_never_runs_or_are_not_pinned(
            own in prop::collection::btree_set(0_usize..8, 0..8),
            taken in prop::collection::btree_set(0_usize..8, 0..8),
            shards in 1_u32..6,
        ) {
            let (own, taken): (Vec<_>, Vec<_>) = (own.into_iter().collect(), taken.into_iter().collect());
            let cpus = beside(own.clone(), &taken, shards);
            let free = own.iter().filter(|cpu| !taken.contains(cpu)).count();
            prop_assert!(cpus.iter().all(|cpu| own.contains(cpu) && !taken.contains(cpu)));
            prop_assert_eq!(cpus.len(), if free < shards as usize { 0 } else { free });
        }
    }
}
