//! From what was typed to what will be done: one plan, checked as a whole before anything is started.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use crawlmark_harness::plan::{LOCAL_IPS, Pacing, PerHost, Pinning, PlanError, REQUESTS_PER_CONNECTION, RunPlan};
use crawlmark_harness::process::usable_cpus;
use crawlmark_harness::stats::Series;
use crawlmark_harness::units::{IdRange, Rate, RateShape};
use crawlmark_mock_server::Config;
use crawlmark_results::run::gates::{Breach, Condition, Objective};
use crawlmark_results::run::report::{Labels, Placement};
use nix::ifaddrs::getifaddrs;

use super::{Strictness, urls};
use crate::behaviour::{Typed, check_processes};
use crate::cli::{Auto, RunArgs};
use crate::crawl::{
    CrawlSpec, Expectations, Family, Held, Host, IdUse, LocalIps, RequestShape, Reuse, Targets, Template, TemplateError,
};
use crate::error::Error;
use crate::target::Target;

/// Duration of a run that neither its IDs nor its time bound.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

/// Default ID range; larger than any default run uses.
const DEFAULT_IDS: IdRange = IdRange { start: 0, end: 100_000_000 };

/// No body is longer: each shard keeps it, and what has no end must not be read to it.
const LONGEST_BODY: u64 = 64 << 20;

/// The path of the bundled target's items.
const BUNDLED_PATH: &str = "/items/{id}";

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
    /// Handling of an invalid measurement.
    pub(super) strictness: Strictness,
    /// Objectives of the run.
    pub(super) objectives: Vec<Objective>,
    /// The target to start, when none was named.
    pub(super) bundled: Option<BundledTarget>,
    /// Hosts without an address, by their number. There is another one that has some.
    pub(super) unresolved: Vec<(usize, Error)>,
}

/// The bundled target of a run.
#[derive(Debug)]
pub(super) struct BundledTarget {
    processes: NonZeroUsize,
    config: Config,
    template: Template,
}

impl BundledTarget {
    /// Starts it on a free port.
    pub(super) fn start(&self) -> Result<Target, Error> {
        Target::start(SocketAddr::from(([127, 0, 0, 1], 0)), self.processes, &self.config)
    }
}

impl Resolved {
    /// Return the run, aimed at the bundled target at `address`; unchanged when it has another target.
    pub(super) fn aimed_at(mut self, address: Option<SocketAddr>) -> Result<Self, Error> {
        if let (Some(bundled), Some(address)) = (&self.bundled, address) {
            let template = bundled.template_at(address)?;
            self.plan.target = template.to_string();
            self.spec.targets = Arc::new(Targets::one(&template).map_err(usage)?);
            self.spec.addresses = vec![vec![address]];
        }
        Ok(self)
    }
}

impl BundledTarget {
    fn template_at(&self, address: SocketAddr) -> Result<Template, Error> {
        let (before, after) = self.template.path();
        let after = after.unwrap_or_default();
        format!("http://{address}{before}{{id}}{after}").parse().map_err(usage)
    }
}

/// Resolves `args`. Looks up the host's name; starts and writes nothing.
pub(super) fn resolve(args: RunArgs) -> Result<Resolved, Error> {
    let cores = usable_cpus().len().max(1);
    let body = read_body(&args.body)?;
    // As curl does: a body is meant to be posted.
    let method = args.method.clone().unwrap_or_else(|| if args.body.is_empty() { "GET" } else { "POST" }.to_owned());
    let request = RequestShape::new(&method, &args.headers, body.clone()).map_err(usage)?;
    let (targets, bundled_template) = choose_targets(args.urls.as_deref(), args.url.as_deref())?;
    let expect = match &bundled_template {
        // What answers HEAD has no body to compare, and another method's answer is not an item.
        Some(_) if args.expect.is_empty() && method == "GET" => Expectations::items(args.seed),
        _ => Expectations::new(args.expect.clone()).map_err(|error| usage(format!("--expect: {error}")))?,
    };
    let mut workload = BTreeMap::from([
        ("method".to_owned(), method),
        ("headers".to_owned(), request.header_names().join(", ")),
        ("body_bytes".to_owned(), body.len().to_string()),
        ("expect".to_owned(), expect.to_string()),
        ("connect_timeout_us".to_owned(), args.connect_timeout.as_micros().to_string()),
    ]);
    note_what_is_rare(&args, &targets, &mut workload);
    let ((mut addresses, unresolved), bundled) = match bundled_template {
        None => (find_all(targets.hosts())?, None),
        Some(template) => (Default::default(), Some(bundle(&args, template, &mut workload)?)),
    };
    keep_reachable(args.local_ips.as_ref(), &targets, &mut addresses)?;
    if args.connect_timeout.is_zero() {
        return Err(Error::Usage("--connect-timeout must be longer than nothing".to_owned()));
    }
    let rate = args.rate.map(|rate| rate.peak);
    addresses.iter().try_for_each(|addresses| refuse_unlimited_strangers(addresses, rate))?;
    let is_list = args.urls.is_some() && targets.asks_ids() == IdUse::No;
    let all = if is_list && args.duration.is_none() {
        IdRange { start: 0, end: targets.lines() as u64 }
    } else {
        DEFAULT_IDS
    };
    let ids = choose_ids(args.ids, args.requests, all);
    let bounded = args.ids.is_some() || args.requests.is_some() || args.duration.is_some() || is_list;
    let per_host = args.per_host.resolve(u32::try_from(targets.hosts().len()).unwrap_or(u32::MAX));
    let shards = match args.shards {
        Auto::Auto => fitting_shards(cores, args.connections, per_host, args.burst),
        Auto::Exactly(shards) => shards,
    };
    check_spinning(args.pacing, shards, cores)?;
    // What the requests of an open loop may do at once is up to its timetable.
    let budget = rate.filter(|_| args.arrivals.gaps().is_none());
    let at_start = budget.map_or(0, |_| args.burst.unwrap_or(u64::from(shards)));
    let burst = args.burst.or(budget.map(|rate| RunPlan::default_burst(&rate, shards))).unwrap_or(0);
    if let (Some(rate), None) = (args.rate.filter(|rate| matches!(rate.shape, RateShape::Ramp { .. })), args.duration) {
        return Err(usage(PlanError::RampTime(rate.to_string())));
    }
    let plan = RunPlan {
        target: targets.to_string(),
        workload,
        ids,
        shards,
        connections: args.connections,
        rate,
        shape: args.rate.map_or(RateShape::Constant, |rate| rate.shape),
        burst,
        at_start,
        arrivals: args.arrivals,
        pacing: args.pacing,
        throttling: args.throttling.resolve(),
        per_host,
        duration: args.duration.or((!bounded).then_some(DEFAULT_DURATION)),
        warmup: args.warmup.unwrap_or_default(),
        grace: args.grace.unwrap_or(args.timeout),
        timeout: args.timeout,
        shard_deadline: args.shard_deadline,
        seed: args.seed,
        pinning: if args.no_pin { Pinning::None } else { Pinning::PerCpu },
    };
    let placement = if bundled.is_some() || addresses.iter().flatten().any(is_own) {
        Placement::Colocated
    } else {
        Placement::Apart
    };
    let plan = plan.validate().map_err(usage)?;
    let objectives = objectives(&args, &plan)?;
    Ok(Resolved {
        plan,
        spec: CrawlSpec {
            addresses,
            targets: Arc::new(targets),
            request,
            expect,
            timeout: args.timeout,
            connect_timeout: args.connect_timeout,
            reuse: reuse(&args),
            local_ips: args.local_ips,
            held: Held::Unasked,
        },
        labels: Labels { name: args.name, tags: args.tags.into_iter().collect() },
        out: args.out,
        placement,
        strictness: if args.strict { Strictness::Strict } else { Strictness::Lenient },
        objectives,
        bundled,
        unresolved,
    })
}

/// The body of every request: the text, or the content of a file named after `@`, as curl has it.
fn read_body(text: &str) -> Result<Bytes, Error> {
    match text.strip_prefix('@') {
        None => Ok(Bytes::copy_from_slice(text.as_bytes())),
        Some(literal) if literal.starts_with('@') => Ok(Bytes::copy_from_slice(literal.as_bytes())),
        Some(path) => {
            let refused = |why: String| {
                // A text that begins with @ by mistake may be a secret, and so may a path.
                Error::Usage(format!(
                    "--body @FILE: the file {why}. If the body is a text that begins with @, write @@"
                ))
            };
            let file = File::open(path).map_err(|error| refused(format!("cannot be read: {error}")))?;
            let mut body = Vec::new();
            let read = file.take(LONGEST_BODY + 1).read_to_end(&mut body);
            read.map_err(|error| refused(format!("cannot be read: {error}")))?;
            if body.len() as u64 > LONGEST_BODY {
                return Err(refused(format!("is longer than {} MiB", LONGEST_BODY >> 20)));
            }
            Ok(body.into())
        }
    }
}

/// Refuses shards that would spin for one and the same core.
fn check_spinning(pacing: Pacing, shards: u32, cores: usize) -> Result<(), Error> {
    if pacing == Pacing::Spin && shards as usize > cores {
        return Err(Error::Usage(format!(
            "--pacing spin keeps a core busy for each shard: {shards} shards need as many, and there are {cores}"
        )));
    }
    Ok(())
}

/// Notes what most crawls do not ask for.
fn note_what_is_rare(args: &RunArgs, targets: &Targets, workload: &mut BTreeMap<String, String>) {
    let mut note = |name: &str, value: String| drop(workload.insert(name.to_owned(), value));
    if let Some(file) = &args.urls {
        note("urls", file.display().to_string());
        note("lines", targets.lines().to_string());
    }
    let reuse = reuse(args);
    if reuse != Reuse::default() {
        note(REQUESTS_PER_CONNECTION, reuse.to_string());
    }
    if let Some(ips) = &args.local_ips {
        note(LOCAL_IPS, ips.to_string());
    }
}

/// Return the limit on the requests of a connection. A number is at least 1, or it was refused when it was parsed.
fn reuse(args: &RunArgs) -> Reuse {
    let most = if args.disable_keepalive { Some(1) } else { args.max_requests_per_connection };
    most.and_then(NonZeroU64::new).map_or(Reuse::Unbounded, Reuse::Requests)
}

/// Leaves each host the addresses that can be reached from `ips`. The bundled target has none yet, and will have IPv4.
fn keep_reachable(ips: Option<&LocalIps>, targets: &Targets, addresses: &mut [Vec<SocketAddr>]) -> Result<(), Error> {
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

/// Return the objectives of a run of `plan`, those of the short flags included.
fn objectives(args: &RunArgs, plan: &RunPlan) -> Result<Vec<Objective>, Error> {
    let series = if args.arrivals.gaps().is_some() { Series::ResponseOk } else { Series::ServiceOk };
    let slo_p99 = args.slo_p99.map(|most| Condition::p99_at_most(series, most));
    let fails = args.fail_if.iter().copied().chain(slo_p99).chain(args.max_error_rate);
    let with = |breach| move |condition| Objective { condition, breach };
    let all = fails.map(with(Breach::Fails)).chain(args.stop_if.iter().copied().map(with(Breach::Stops)));
    all.map(|objective| objective.check(plan).map(|()| objective)).collect::<Result<_, _>>().map_err(usage)
}

/// Return the targets of the crawl, with the template of the bundled target when that is crawled.
fn choose_targets(urls: Option<&Path>, url: Option<&str>) -> Result<(Targets, Option<Template>), Error> {
    let bundled = match (urls, url) {
        (Some(file), _) => return Ok((read_urls(file)?, None)),
        (None, Some(url)) => {
            return Ok((Targets::one(&url.parse().map_err(|error| no_url(&error))?).map_err(usage)?, None));
        }
        (None, None) => format!("http://127.0.0.1{BUNDLED_PATH}").parse().map_err(usage)?,
    };
    Ok((Targets::one(&bundled).map_err(usage)?, Some(bundled)))
}

/// Explain why an argument is not a URL: perhaps it is the value of a flag that takes none.
fn no_url(error: &TemplateError) -> Error {
    let hint = match error {
        TemplateError::NoUrl(_) => "; the value of a flag that may stand alone follows =, as in --adaptive=aimd",
        _ => "",
    };
    usage(format!("{error}{hint}"))
}

/// The IDs that were asked for: those of a range, the first so many, or `all`.
fn choose_ids(ids: Option<IdRange>, requests: Option<u64>, all: IdRange) -> IdRange {
    match (ids, requests) {
        (ids, Some(count)) => ids.unwrap_or(IdRange { start: 0, end: u64::MAX }).first(count),
        (Some(ids), None) => ids,
        (None, None) => all,
    }
}

/// Each shard needs a connection, one to each host, and a burst; one more than there are cores only waits for the others.
fn fitting_shards(cores: usize, connections: u32, per_host: PerHost, burst: Option<u64>) -> u32 {
    let burst = burst.map_or(u32::MAX, |burst| u32::try_from(burst).unwrap_or(u32::MAX));
    let of_host = per_host.connections.unwrap_or(u32::MAX).max(1);
    u32::try_from(cores).unwrap_or(u32::MAX).min(connections.max(1)).min(of_host).min(burst)
}

/// The bundled target as it was asked for, with a note of what it does.
fn bundle(args: &RunArgs, template: Template, workload: &mut BTreeMap<String, String>) -> Result<BundledTarget, Error> {
    let processes = args.target_processes.or_cores(usable_cpus().len().max(1));
    check_processes("--target-processes", processes)?;
    let config = Typed {
        prefix: "--target-",
        seed: args.seed,
        profile: args.target_profile,
        latency: args.target_latency.as_ref(),
        latency_per_in_flight: args.target_latency_per_in_flight,
        handshake: args.target_handshake,
        work: args.target_work,
        stall: args.target_stall,
        limits: &args.target_limits,
        faults: &args.target_faults,
    }
    .config()?;
    workload.insert("target_profile".to_owned(), args.target_profile.to_string());
    workload.insert("target_processes".to_owned(), processes.to_string());
    describe(&config, workload);
    Ok(BundledTarget { processes, config, template })
}

/// Record the behaviour of the bundled target in `workload`.
fn describe(config: &Config, workload: &mut BTreeMap<String, String>) {
    let per_in_flight = config.latency_per_in_flight.to_string();
    let stall = config.stall.map_or("none".to_owned(), |stall| stall.to_string());
    for (name, value) in [
        ("target_latency", config.latency.to_string()),
        ("target_latency_per_in_flight", per_in_flight),
        ("target_handshake", config.handshake.to_string()),
        ("target_work", config.work.to_string()),
        ("target_stall", stall),
        ("target_limit", config.limits.to_string()),
        ("target_faults", config.faults.to_string()),
    ] {
        workload.insert(name.to_owned(), value);
    }
}

fn usage(error: impl std::fmt::Display) -> Error {
    Error::Usage(error.to_string())
}

fn read_urls(file: &Path) -> Result<Targets, Error> {
    urls::read(file).map_err(|error| usage(format!("--urls {}: {error}", file.display())))
}

/// The addresses of each host, and the hosts that have none.
///
/// # Errors
/// When no host has any.
#[expect(clippy::type_complexity, reason = "two lists about the same hosts")]
fn find_all(hosts: &[Host]) -> Result<(Vec<Vec<SocketAddr>>, Vec<(usize, Error)>), Error> {
    let mut unresolved = Vec::new();
    let mut found = |(number, host)| {
        find(host).unwrap_or_else(|error| {
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

fn find(host: &Host) -> Result<Vec<SocketAddr>, Error> {
    let resolve = |error| Error::Resolve { host: host.name().to_owned(), error };
    let found: Vec<_> = (host.name(), host.port()).to_socket_addrs().map_err(resolve)?.collect();
    if found.is_empty() {
        return Err(resolve(std::io::ErrorKind::NotFound.into()));
    }
    Ok(found)
}

/// The address of a target that is neither this machine nor in a private network; none of any other. Looks up its host's name.
///
/// # Errors
/// When there is no such target, or no host has an address.
pub(crate) fn stranger(args: &RunArgs) -> Result<Option<IpAddr>, Error> {
    let (targets, bundled) = choose_targets(args.urls.as_deref(), args.url.as_deref())?;
    if bundled.is_some() {
        return Ok(None);
    }
    let (addresses, _) = find_all(targets.hosts())?;
    Ok(addresses.into_iter().flatten().map(|address| address.ip()).find(|ip| !is_private(*ip)))
}

/// Reject public targets without `--rate`.
fn refuse_unlimited_strangers(addresses: &[SocketAddr], rate: Option<Rate>) -> Result<(), Error> {
    match addresses.iter().find(|address| rate.is_none() && !is_private(address.ip())) {
        None => Ok(()),
        Some(stranger) => Err(Error::Usage(format!(
            "the URL's host has the address {}, which is neither this machine nor a private network: say how fast you \
             may crawl it, for example --rate 10/s",
            stranger.ip()
        ))),
    }
}

fn is_private(address: IpAddr) -> bool {
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
fn is_own(address: &SocketAddr) -> bool {
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
