//! Resolution of the arguments of `run` into one plan, checked as a whole before anything is
//! started. Nobody looks at the arguments after it.
//!
//! | room | for |
//! |---|---|
//! | `request`, `targets`, `proxies` | read what the flags name |
//! | `rules` | refuse flags that do not fit together |
//! | `plan`, `load` | the plan: what the flags say, and then what the targets decide |
//! | `addresses` | look up names |
//! | `crawl`, `bundled` | the settings of the crawl, the bundled target |
//! | `record` | settings that the plan records |

mod addresses;
mod bundled;
mod crawl;
mod load;
mod plan;
mod proxies;
mod record;
mod request;
mod rules;
mod targets;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use crawlmark_harness::plan::{Arrivals, RunPlan};
use crawlmark_harness::process::usable_cpus;
use crawlmark_results::run::gates::Objective;
use crawlmark_results::run::report::{Labels, Placement};

pub(super) use self::addresses::is_own;
use self::addresses::{Found, LookupTimes};
pub(crate) use self::addresses::{find, is_private};
pub(super) use self::bundled::BundledTarget;
pub(super) use self::plan::group_names;
pub(crate) use self::plan::objectives;
use self::targets::Chosen;
use super::target_probe::ProbeChoice;
use crate::bundled_target::{share_of_client, share_of_target};
use crate::cli::{Auto, PartArgs, RobotsUse, RunArgs, SaveArgs, Typed};
use crate::crawl::proxy::Proxies;
use crate::crawl::{CrawlSpec, Expectations, Lookups, RequestShape, Targets};
use crate::error::Error;
use crate::live_page::ServedAt;

/// What the flags of a crawl name, read and looked up.
struct Inputs {
    request: RequestShape,
    expect: Expectations,
    targets: Targets,
    proxies: Option<Proxies>,
    addresses: Vec<Vec<SocketAddr>>,
    lookups: Option<Lookups>,
}

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
    /// Place of the target: on the client's machine, or on another one.
    pub(super) placement: Placement,
    /// Where it is served while it goes on.
    pub(super) served_at: ServedAt,
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
    /// True if the probe is to sample the target's functions.
    pub(super) samples_functions: bool,
    /// Times of looking up names; none without one.
    pub(super) lookup: Option<LookupTimes>,
    /// Numbers of the hosts whose robots.txt is obeyed.
    pub(super) robots: Vec<usize>,
    /// Methods of all requests.
    methods: String,
    /// What may spoil the result.
    pub(super) notes: Vec<String>,
    /// Saving of what is crawled, and the part that the run is, as typed.
    pub(super) save: SaveArgs,
    pub(super) part: PartArgs,
    /// Burst and shards as typed, which the plan of a part has shares of.
    pub(super) burst: Option<u64>,
    pub(super) shards: Auto<u32>,
    /// The command line.
    pub(super) typed: Typed,
    /// True if experiments follow the run.
    pub(super) diagnoses: bool,
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
pub(super) fn resolve(args: &RunArgs) -> Result<Resolved, Error> {
    let request = request::choose_request(args)?;
    rules::check_flags(args, &request)?;
    let expect = crawl::choose_expectations(args, request.method().as_str())?;
    let draft = plan::draft(args)?;
    let mut chosen = targets::choose_targets(args, &request)?;
    let (mut proxies, proxy_from) = proxies::choose_proxies(args, &chosen.targets)?.unzip();
    rules::check(args, &request, &chosen, proxies.as_ref())?;
    rules::check_expectations(args, &expect, &chosen.methods)?;
    let found = addresses::find_all(args, chosen.targets.hosts(), proxies.as_mut())?;
    rules::check_strangers(args, &found.strangers)?;
    let Found {
        addresses,
        unresolved,
        lookup,
        lookups,
        strangers,
    } = found;
    let cpus = usable_cpus().len().max(1);
    let bundled = chosen
        .bundled
        .take()
        .map(|template| BundledTarget::new(args, template, cpus))
        .transpose()?;
    let is_here = bundled.is_some() || addresses.iter().flatten().any(is_own);
    // Beside a target on this machine, a shard more would wait for a CPU.
    let cores = match &bundled {
        Some(bundled) => share_of_client(cpus, bundled.processes),
        None if is_here => share_of_client(cpus, share_of_target(cpus)),
        None => cpus,
    };
    let mut plan = plan::complete(draft, args, &chosen, request.has_id(), cores);
    let Chosen {
        mut targets,
        times,
        note,
        methods,
        ..
    } = chosen;
    if plan.arrivals == Arrivals::Replay {
        (targets, plan.recorded) = load::deal(targets, &times, plan.shards);
    }
    let plan = plan.validate().map_err(Error::usage)?;
    let robots = match args.throttling.robots {
        RobotsUse::Ignore => Vec::new(),
        RobotsUse::Honor => (0..addresses.len()).collect(),
        RobotsUse::Auto => strangers.iter().map(|(number, _)| *number).collect(),
    };
    let inputs = Inputs {
        request: request.withholding(proxies.iter().flat_map(Proxies::secrets)),
        expect,
        targets,
        proxies,
        addresses,
        lookups,
    };
    let spec = crawl::crawl(args, &plan, inputs, bundled.as_ref())?;
    let objectives = plan::objectives(args, &plan)?;
    plan::check_groups(&objectives, &spec, &plan)?;
    let mut resolved = Resolved {
        objectives,
        placement: placement(&spec, bundled.is_some(), is_here),
        served_at: ServedAt::of(args),
        labels: Labels {
            name: args.name.clone(),
            tags: args.tags.iter().cloned().collect(),
        },
        probe: ProbeChoice::of(args, spec.options.unix_socket.as_deref()),
        samples_functions: args.probe.target_functions,
        spec,
        out: args.out.clone(),
        is_strict: args.strict,
        bundled,
        unresolved,
        lookup,
        robots,
        methods,
        notes: note.into_iter().chain(plan::warmup_note(&plan)).collect(),
        save: args.save.clone(),
        part: args.part.clone(),
        burst: args.burst,
        shards: args.shards,
        typed: args.typed.clone(),
        diagnoses: args.diagnose,
        plan,
    };
    resolved.plan.workload = record::workload(args, &resolved, proxy_from);
    Ok(resolved)
}

/// Return where the peers of the crawl are: its proxies, or else its targets.
fn placement(spec: &CrawlSpec, is_bundled: bool, is_target_here: bool) -> Placement {
    let is_here = match spec.proxies {
        None => is_target_here,
        Some(_) => is_bundled || spec.peers().into_iter().flatten().any(is_own),
    };
    if is_here {
        Placement::Colocated
    } else {
        Placement::Apart
    }
}

/// Say why the target may be public; none if it is on this machine or in a private network. Looks
/// up its host's name.
///
/// # Errors
/// When there is no such target, or no host has an address.
pub(crate) fn stranger(args: &RunArgs) -> Result<Option<String>, Error> {
    let chosen = targets::choose_targets(args, &request::choose_request(args)?)?;
    let (mut proxies, _) = proxies::choose_proxies(args, &chosen.targets)?.unzip();
    let found = addresses::find_all(args, chosen.targets.hosts(), proxies.as_mut())?;
    Ok(found.strangers.into_iter().next().map(|(_, why)| why))
}
