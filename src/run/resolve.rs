//! Resolution of the arguments of `run` into one plan, checked as a whole before anything is
//! started.

mod addresses;
mod http;
mod proxies;
mod request;
mod targets;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crawlmark_harness::plan::{
    Arrivals, LOCAL_IPS, Pacing, PerHost, Pinning, PlanError, REQUESTS_PER_CONNECTION, Recorded,
    RunPlan, SAME_REQUEST,
};
use crawlmark_harness::process::usable_cpus;
use crawlmark_harness::stats::Series;
use crawlmark_harness::units::{IdRange, RateShape};
use crawlmark_mock_server::{self as target, Config};
use crawlmark_results::run::gates::{Breach, Condition, Objective};
use crawlmark_results::run::report::{Labels, Placement, TLS_TRUST, UNVERIFIED};

use self::addresses::{
    find_all, is_own, keep_reachable, on_this_machine, refuse_unlimited_strangers,
};
pub(super) use self::request::read as read_body;
use self::targets::{Chosen, check_replay, mean_rate, methods};
use super::Strictness;
use crate::behaviour::{Typed, check_processes};
use crate::cli::{Auto, RunArgs, UseOfTls};
use crate::crawl::proxy::{Proxies, Session};
use crate::crawl::tls::{Resume, Settings, Tls, Trust};
use crate::crawl::{
    ConnectTo, CrawlOptions, CrawlSpec, Expectations, HoldHeader, IdUse, RequestShape, Reuse,
    Scheme, Targets, Template,
};
use crate::error::Error;
use crate::target::Target;

/// Duration of a run that neither its IDs nor its time bound.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

/// Default ID range; larger than any default run uses.
const DEFAULT_IDS: IdRange = IdRange {
    start: 0,
    end: 100_000_000,
};

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
    /// Numbers of the hosts whose robots.txt is obeyed.
    pub(super) robots: Vec<usize>,
    /// Note on what is left out of the file of requests.
    pub(super) note: Option<String>,
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
        Target::start(
            SocketAddr::from(([127, 0, 0, 1], 0)),
            self.processes,
            &self.config,
        )
    }
}

impl Resolved {
    /// Return the run, aimed at the bundled target at `address`; unchanged when it has another
    /// target.
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
        format!("{}{address}{BUNDLED_PATH}", self.template.scheme().prefix())
            .parse()
            .map_err(usage)
    }
}

/// Refuse two tags with one key.
fn check_tags(tags: &[(String, String)]) -> Result<(), Error> {
    let mut keys = BTreeSet::new();
    match tags.iter().find(|(key, _)| !keys.insert(key)) {
        None => Ok(()),
        Some((key, _)) => Err(usage(format!(
            "--tag {key} is given twice: keep one of them"
        ))),
    }
}

/// Resolves `args`. Looks up the host's name; starts and writes nothing.
pub(super) fn resolve(args: RunArgs) -> Result<Resolved, Error> {
    check_alone(&args)?;
    let cores = usable_cpus().len().max(1);
    let (method, request) = request::choose(&args)?;
    let Chosen {
        targets,
        bundled: bundled_template,
        times,
        note,
    } = targets::choose(&args, &request)?;
    let method = methods(method, &targets);
    let expect = choose_expectations(&args, bundled_template.is_some(), &method)?;
    let mut workload = workload(&args, (method, &request), &expect);
    note_what_is_rare(&args, &targets, &mut workload);
    if targets.lines() == 1 && targets.asks_ids() == IdUse::No && !request.has_id() {
        workload.insert(SAME_REQUEST.to_owned(), "true".to_owned());
    }
    let mut proxies = proxies::choose(&args, &targets, bundled_template.is_some(), &mut workload)?;
    let request = request.withholding(proxies.iter().flat_map(Proxies::secrets));
    let ((mut addresses, unresolved), bundled) = match bundled_template {
        None if args.connection.unix_socket.is_some() => {
            ((on_this_machine(targets.hosts()), Vec::new()), None)
        }
        None => (
            find_all(targets.hosts(), &args.connect_to, proxies.as_mut())?,
            None,
        ),
        Some(template) => (
            Default::default(),
            Some(bundle(&args, template, &mut workload)?),
        ),
    };
    check_connect_to(&args.connect_to, &targets, bundled.as_ref())?;
    let http = http::choose(&args, &targets, proxies.as_ref(), &mut workload)?;
    let tls = tls(&args, &targets, bundled.as_ref(), &mut workload)?;
    keep_reachable(
        args.local_ips.as_ref(),
        &targets,
        (&mut addresses, proxies.as_ref()),
    )?;
    let is_replay = args.arrivals == Arrivals::Replay;
    let rate = if is_replay {
        Some(mean_rate(&times))
    } else {
        args.rate.map(|rate| rate.peak)
    };
    refuse_unlimited_strangers(targets.hosts(), (&addresses, proxies.as_ref()), rate)?;
    let robots = addresses::obeyed(
        &args,
        targets.hosts(),
        (&addresses, proxies.as_ref()),
        &mut workload,
    )?;
    let (ids, bounded) = choose_ids(&args, &targets, request.has_id());
    let lookups = addresses::lookups(&args, targets.hosts(), proxies.as_ref(), &mut workload)?;
    let options = request::options(&args, (ids, targets.hosts().len()), &mut workload)?;
    let per_host = args
        .per_host
        .resolve(u32::try_from(targets.hosts().len()).unwrap_or(u32::MAX));
    // A window may have all of its requests at once, and nothing is saved for the next one.
    let window = window(&args)?;
    let shards = match args.shards {
        Auto::Auto if args.arrivals == Arrivals::Waves => 1,
        Auto::Auto => fitting_shards(cores, args.connections, per_host, args.burst.or(window)),
        Auto::Exactly(shards) => shards,
    };
    check_spinning(args.pacing, shards, cores)?;
    let (targets, recorded) = if is_replay {
        targets::deal(targets, &times, shards)
    } else {
        (targets, Recorded::default())
    };
    // What the requests of an open loop may do at once is up to its timetable.
    let budget = rate.filter(|_| args.arrivals.gaps().is_none());
    let own_burst = args.burst.or(window);
    let at_start = budget.map_or(0, |_| own_burst.unwrap_or(u64::from(shards)));
    let burst = own_burst
        .or(budget.map(|rate| RunPlan::default_burst(&rate, shards)))
        .unwrap_or(0);
    let plan = RunPlan {
        target: targets.to_string(),
        workload,
        ids,
        finished: Vec::new(),
        shards,
        connections: args.connections,
        streams: http.streams,
        rate,
        shape: args.rate.map_or(RateShape::Constant, |rate| rate.shape),
        burst,
        at_start,
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
    let spec = CrawlSpec {
        addresses,
        targets: Arc::new(targets),
        request,
        expect,
        timeout: args.timeout,
        connect_timeout: args.connect_timeout,
        reuse: reuse(&args),
        local_ips: args.local_ips.clone(),
        held: HoldHeader::Ignored,
        tls,
        proxies: proxies.map(Arc::new),
        http,
        options: CrawlOptions { lookups, ..options },
    };
    let plan = plan.validate().map_err(usage)?;
    Ok(Resolved {
        objectives: objectives(&args, &plan)?,
        plan,
        placement: placement(&spec, bundled.is_some()),
        spec,
        labels: Labels {
            name: args.name,
            tags: args.tags.into_iter().collect(),
        },
        out: args.out,
        strictness: if args.strict {
            Strictness::Strict
        } else {
            Strictness::Lenient
        },
        bundled,
        unresolved,
        robots,
        note,
    })
}

/// Return the requests of a window; none of a rate without windows, or of an open loop, whose
/// requests have times.
fn window(args: &RunArgs) -> Result<Option<u64>, Error> {
    let is_closed = args.arrivals.gaps().is_none();
    match args
        .rate
        .filter(|rate| is_closed && matches!(rate.shape, RateShape::Windows { .. }))
    {
        Some(_) if args.burst.is_some() => Err(usage(
            "--burst does not work with a --rate in windows, which has one of its own: remove --burst",
        )),
        rate => Ok(rate.map(|rate| rate.peak.permits)),
    }
}

/// Return the conditions for a good response; of the bundled target, the items that it serves.
fn choose_expectations(
    args: &RunArgs,
    is_bundled: bool,
    method: &str,
) -> Result<Expectations, Error> {
    // What answers HEAD has no body to compare, and another method's answer is not an item.
    if is_bundled && args.expect.is_empty() && method == "GET" {
        return Ok(Expectations::items(args.seed));
    }
    Expectations::new(args.expect.clone()).map_err(|error| usage(format!("--expect: {error}")))
}

/// Check flags that depend on no other.
fn check_alone(args: &RunArgs) -> Result<(), Error> {
    check_tags(&args.tags)?;
    check_replay(args)?;
    if let (Some(burst), None) = (args.burst, args.rate) {
        return Err(usage(format!(
            "--burst {burst} is for a rate budget: add --rate, or remove --burst"
        )));
    }
    if let (Some(rate), None) = (
        args.rate
            .filter(|rate| matches!(rate.shape, RateShape::Ramp { .. })),
        args.duration,
    ) {
        return Err(usage(PlanError::RampTime(rate.to_string())));
    }
    if args.connect_timeout.is_zero() {
        Err(usage("--connect-timeout must be longer than 0"))
    } else {
        Ok(())
    }
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

/// Return the settings that every crawl has.
fn workload(
    args: &RunArgs,
    (method, request): (String, &RequestShape),
    expect: &Expectations,
) -> BTreeMap<String, String> {
    BTreeMap::from([
        ("method".to_owned(), method),
        ("headers".to_owned(), request.header_names().join(", ")),
        ("body_bytes".to_owned(), request.body_bytes().to_string()),
        ("expect".to_owned(), expect.to_string()),
        (
            "connect_timeout_us".to_owned(),
            args.connect_timeout.as_micros().to_string(),
        ),
    ])
}

/// Record settings that most crawls leave at their defaults.
fn note_what_is_rare(args: &RunArgs, targets: &Targets, workload: &mut BTreeMap<String, String>) {
    let mut note = |name: &str, value: String| drop(workload.insert(name.to_owned(), value));
    if let Some((flag, file)) = args.list() {
        note(&flag[2..].replace('-', "_"), file.display().to_string());
        note("lines", targets.lines().to_string());
    }
    if targets.is_drawn() {
        note("order", "by weight".to_owned());
    }
    if let Some(speed) = args.speed {
        note("speed", speed.to_string());
    }
    let reuse = reuse(args);
    if reuse != Reuse::default() {
        note(REQUESTS_PER_CONNECTION, reuse.to_string());
    }
    if let Some(ips) = &args.local_ips {
        note(LOCAL_IPS, ips.to_string());
    }
    if !args.connect_to.is_empty() {
        let all: Vec<String> = args.connect_to.iter().map(ToString::to_string).collect();
        note("connect_to", all.join(", "));
    }
}

/// Reject rules of `--connect-to` that match no host.
fn check_connect_to(
    all: &[ConnectTo],
    targets: &Targets,
    bundled: Option<&BundledTarget>,
) -> Result<(), Error> {
    let is_unused = |rule: &&ConnectTo| {
        bundled.is_some() || !targets.hosts().iter().any(|host| rule.is_for(host))
    };
    match all.iter().find(is_unused) {
        None => Ok(()),
        Some(rule) => Err(Error::Usage(format!(
            "--connect-to {rule} matches no host of the URLs: begin it with the host and port of one"
        ))),
    }
}

/// Set up the client's TLS and record it in `workload`; none without an https:// URL.
fn tls(
    args: &RunArgs,
    targets: &Targets,
    bundled: Option<&BundledTarget>,
    workload: &mut BTreeMap<String, String>,
) -> Result<Option<Tls>, Error> {
    let is_plain = targets
        .hosts()
        .iter()
        .all(|host| host.scheme() == Scheme::Http);
    let use_of_tls = match (bundled.is_some(), is_plain) {
        (false, true) => UseOfTls::PlainUrls,
        (false, false) => UseOfTls::Urls,
        (true, true) => UseOfTls::PlainBundled,
        (true, false) => UseOfTls::Bundled,
    };
    if let Some((flag, why)) = args.tls.misplaced(use_of_tls) {
        return Err(Error::Usage(format!("{flag} {why}")));
    }
    if is_plain {
        return Ok(None);
    }
    let own = bundled
        .and_then(|target| target.config.tls.as_ref())
        .map(|tls| tls.certificate_pem().to_owned());
    let settings = Settings {
        http: args.http,
        ..args.tls.resolve(own)
    };
    let mut note = |name: &str, value: String| drop(workload.insert(name.to_owned(), value));
    note(
        TLS_TRUST,
        match &settings.trust {
            Trust::System => "the system's authorities".to_owned(),
            Trust::File(file) => format!("--cacert {}", file.display()),
            Trust::Pem(_) => "the bundled target's authority".to_owned(),
            Trust::Anyone => UNVERIFIED.to_owned(),
        },
    );
    if let Some((cert, _)) = &settings.identity {
        note("tls_client_certificate", cert.display().to_string());
    }
    if let Resume::Sessions = settings.resume {
        note("tls_resume", "sessions".to_owned());
    }
    for (name, version) in [("tls_min", settings.min), ("tls_max", settings.max)] {
        if let Some(version) = version {
            note(name, version.to_string());
        }
    }
    Tls::new(&settings, targets.hosts())
        .map(Some)
        .map_err(usage)
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
        .map_err(usage)
}

/// Choose the IDs, and say if they or a flag bound the run: a range, the first so many, each line
/// of a list once, or more than any run crawls.
fn choose_ids(args: &RunArgs, targets: &Targets, has_id_in_body: bool) -> (IdRange, bool) {
    let lines = IdRange {
        start: 0,
        end: targets.lines() as u64,
    };
    if args.arrivals == Arrivals::Replay {
        // Each request is one item; those beyond `-n` are not among them.
        return (lines, true);
    }
    let asks_ids = has_id_in_body || targets.asks_ids() == IdUse::Yes;
    let is_list = args.list().is_some() && !asks_ids && !targets.is_drawn();
    let ids = match (args.ids, args.requests) {
        (ids, Some(count)) => ids
            .unwrap_or(IdRange {
                start: 0,
                end: u64::MAX,
            })
            .first(count),
        (Some(ids), None) => ids,
        (None, None) if is_list && args.duration.is_none() => lines,
        (None, None) => DEFAULT_IDS,
    };
    (
        ids,
        is_list || args.ids.is_some() || args.requests.is_some() || args.duration.is_some(),
    )
}

/// Each shard needs a connection, one to each host, and a burst; one more than there are cores only
/// waits for the others.
fn fitting_shards(cores: usize, connections: u32, per_host: PerHost, burst: Option<u64>) -> u32 {
    let burst = burst.map_or(u32::MAX, |burst| u32::try_from(burst).unwrap_or(u32::MAX));
    let of_host = per_host.connections.unwrap_or(u32::MAX).max(1);
    u32::try_from(cores)
        .unwrap_or(u32::MAX)
        .min(connections.max(1))
        .min(of_host)
        .min(burst)
}

/// The bundled target as it was asked for, with a note of what it does.
fn bundle(
    args: &RunArgs,
    template: Template,
    workload: &mut BTreeMap<String, String>,
) -> Result<BundledTarget, Error> {
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
    let tls = args
        .target_tls
        .then(|| target::Tls::generate(&[]))
        .transpose()?;
    let config = Config { tls, ..config };
    workload.insert("target_profile".to_owned(), args.target_profile.to_string());
    workload.insert("target_processes".to_owned(), processes.to_string());
    describe(&config, workload);
    Ok(BundledTarget {
        processes,
        config,
        template,
    })
}

/// Record the behaviour of the bundled target in `workload`.
fn describe(config: &Config, workload: &mut BTreeMap<String, String>) {
    let per_in_flight = config.latency_per_in_flight.to_string();
    let stall = config
        .stall
        .map_or("none".to_owned(), |stall| stall.to_string());
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

/// Say why the target may be public; none if it is on this machine or in a private network. Looks
/// up its host's name.
///
/// # Errors
/// When there is no such target, or no host has an address.
pub(crate) fn stranger(args: &RunArgs) -> Result<Option<String>, Error> {
    let (_, request) = request::choose(args)?;
    let Chosen {
        targets, bundled, ..
    } = targets::choose(args, &request)?;
    if bundled.is_some() || args.connection.unix_socket.is_some() {
        return Ok(None);
    }
    let mut proxies = proxies::choose(args, &targets, false, &mut BTreeMap::new())?;
    let (addresses, _) = find_all(targets.hosts(), &args.connect_to, proxies.as_mut())?;
    Ok(addresses::stranger(
        targets.hosts(),
        &addresses,
        proxies.as_ref(),
    ))
}
