//! Settings of the crawl: what is requested, over which connections, and what is a good response.

use std::num::NonZeroU64;
use std::sync::Arc;

use crawlmark_harness::plan::{OnThrottle, RunPlan};

use super::Inputs;
use super::bundled::BundledTarget;
use crate::cli::RunArgs;
use crate::crawl::proxy::Session;
use crate::crawl::tls::{Settings, Tls};
use crate::crawl::{
    Content, Cookies, CrawlOptions, CrawlSpec, EventStream, Expect, Expectations, HoldHeader,
    HttpSettings, Reuse, Scheme, Shuffle, Targets,
};
use crate::error::Error;

/// Set up the crawl of a run of this plan.
///
/// # Errors
/// When certificates cannot be used.
pub(super) fn crawl(
    args: &RunArgs,
    plan: &RunPlan,
    inputs: Inputs,
    bundled: Option<&BundledTarget>,
) -> Result<CrawlSpec, Error> {
    let Inputs {
        request,
        expect,
        targets,
        proxies,
        addresses,
        lookups,
    } = inputs;
    let (flags, connection) = (&args.request, args.connection.clone());
    Ok(CrawlSpec {
        addresses,
        expect,
        request,
        timeout: args.timeout,
        connect_timeout: args.connect_timeout,
        reuse: reuse(args),
        local_ips: args.local_ips.clone(),
        held: HoldHeader::Ignored,
        tls: tls(args, &targets, bundled)?,
        proxies: proxies.map(Arc::new),
        http: HttpSettings {
            version: args.http,
            streams: plan.streams,
        },
        options: CrawlOptions {
            shuffle: flags
                .shuffle
                .then(|| Shuffle::new(args.ids.unwrap_or(plan.ids), args.seed)),
            content: if flags.compressed {
                Content::Decoded
            } else {
                Content::AsSent
            },
            follow: flags.follow,
            cookies: if flags.cookies {
                Cookies::Kept
            } else {
                Cookies::Ignored
            },
            unix_socket: connection.unix_socket,
            idle_timeout: connection.idle_timeout,
            retry_on: args.retry_on.clone(),
            // An open loop has a time for each request, not for an item.
            keeps_throttled: plan.arrivals.gaps().is_none()
                && args.throttling.on_throttle == OnThrottle::Honor
                && args.throttling.retries != Some(0),
            connect_rate: connection.connect_rate,
            receive_stamps: connection.receive_stamps,
            traits: args.traits.clone(),
            lookups,
            shared_retries: plan.throttling.retries,
            shared_backoff: plan.throttling.backoff,
            ..CrawlOptions::default()
        },
        targets: Arc::new(targets),
    })
}

/// Return the conditions for a good response; of the bundled target, the items that it serves.
/// `method` is that of requests that have none of their own.
pub(super) fn choose_expectations(args: &RunArgs, method: &str) -> Result<Expectations, Error> {
    // What answers HEAD has no body to compare, and another method's answer is not an item.
    let is_of_target = args.is_bundled() && args.expect.is_empty() && method == "GET";
    if is_of_target && args.target.target_events.is_none() {
        return Ok(Expectations::items(args.seed));
    }
    let served = is_of_target.then(|| Expect::Events(EventStream::of_target()));
    let list = args.expect.iter().cloned().chain(served);
    Expectations::new(list).map_err(|error| Error::usage(format!("--expect: {error}")))
}

/// Set up the client's TLS; none without an https:// URL.
fn tls(
    args: &RunArgs,
    targets: &Targets,
    bundled: Option<&BundledTarget>,
) -> Result<Option<Tls>, Error> {
    let hosts = targets.hosts();
    if hosts.iter().all(|host| host.scheme == Scheme::Http) {
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
