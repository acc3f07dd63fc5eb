//! Resolution of the arguments of `run` into one plan, checked as a whole before anything is
//! started. Nobody looks at the arguments after it.
//!
//! | room | for |
//! |---|---|
//! | `request`, `targets`, `proxies` | read what the flags name |
//! | `rules` | refuse flags that do not fit together |
//! | `addresses` | look up names |
//! | `plan`, `bundled` | the plan, the settings of the crawl, the bundled target |
//! | `record` | settings that the plan records |

mod addresses;
mod bundled;
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
use crawlmark_results::run::gates::Objective;
use crawlmark_results::run::report::{Labels, Placement};

pub(super) use self::addresses::is_own;
use self::addresses::{Found, LookupTimes};
pub(crate) use self::addresses::{find, is_private};
pub(super) use self::bundled::BundledTarget;
pub(crate) use self::plan::objectives;
use self::targets::Chosen;
use super::target_probe::ProbeChoice;
use crate::cli::{Auto, PartArgs, RunArgs, SaveArgs, Typed};
use crate::crawl::proxy::Proxies;
use crate::crawl::{CrawlSpec, RequestShape, Targets};
use crate::error::Error;
use crate::live_page::ServedAt;

/// What the flags name, read and looked up.
struct Inputs {
    request: RequestShape,
    chosen: Chosen,
    proxies: Option<Proxies>,
    found: Found,
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
    if args.list().is_some() {
        // Standard input may take its time.
        let inputs = Inputs {
            request: request.clone(),
            chosen: targets::stand_in()?,
            proxies: None,
            found: Found::default(),
        };
        plan::resolve(args, inputs)?;
    }
    let chosen = targets::choose_targets(args, &request)?;
    let (mut proxies, proxy_from) = proxies::choose_proxies(args, &chosen.targets)?.unzip();
    rules::check(args, &request, &chosen, proxies.as_ref())?;
    let found = addresses::find_all(args, chosen.targets.hosts(), proxies.as_mut())?;
    if let (Some((_, why)), None) = (found.strangers.first(), args.rate)
        && args.arrivals() != Arrivals::Replay
    {
        return Err(Error::Usage(format!(
            "{why}: say how fast you may crawl it, for example --rate 10/s"
        )));
    }
    let inputs = Inputs {
        request: request.withholding(proxies.iter().flat_map(Proxies::secrets)),
        chosen,
        proxies,
        found,
    };
    let mut resolved = plan::resolve(args, inputs)?;
    resolved.spec.options.shared_retries = resolved.plan.throttling.retries;
    resolved.spec.options.shared_backoff = resolved.plan.throttling.backoff;
    resolved.plan.workload = record::workload(args, &resolved, proxy_from);
    Ok(resolved)
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
