//! `--robots`: robots.txt of the hosts of a run (RFC 9309), fetched before the run by plain requests
//! under its limits.
//!
//! Which paths a robots.txt allows is the business of the crate `robotxt`; the shards skip the
//! items whose paths it forbids.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use crawlmark_harness::clock::{Clock, Nanos};
use crawlmark_harness::plan::{HostRateSource, RunPlan, ThrottlingPolicy, default_burst};
use crawlmark_harness::sample::{ErrorKind, Outcome, Repeat};
use crawlmark_harness::units::Rate;
use crawlmark_results::run::report::{RobotsHost, RobotsOutcome, RobotsReport};
use robotxt::{AccessResult, Agent, BYTE_LIMIT, Robots};
use tokio::sync::Mutex;

use super::part::{Watch, interval};
use super::reach::together;
use super::resolve::Resolved;
use crate::crawl::{Content, Crawl, CrawlOptions, CrawlSpec, Expectations, Targets, Template};
use crate::error::Error;
use crate::terminal::Voice;

/// Redirects of a robots.txt that are followed (RFC 9309, 2.3.1.2).
const REDIRECTS: u32 = 5;

/// Requests at the same time.
const AT_ONCE: u32 = 128;

/// Hosts that the report names.
const NAMED_HOSTS: usize = 100;

/// Fetch robots.txt of the hosts whose rules apply, and make the run obey: its shards skip what is
/// forbidden, and the largest crawl-delay limits the rate of each host, which the slots of a plan
/// share. None if no host's rules apply.
///
/// # Errors
/// When the fetch cannot be started, or is stopped; when nothing may be crawled because no
/// robots.txt can be fetched, or one of a crawl that is saved; or when a part loses its slot.
pub(super) fn obey(
    resolved: &mut Resolved,
    mut watch: Watch<'_, '_>,
    voice: Voice,
) -> Result<Option<RobotsReport>, Error> {
    if resolved.robots.is_empty() {
        return Ok(None);
    }
    voice.say("fetching robots.txt\n");
    let slots = watch.slot.as_ref().map_or(1, |slot| slot.share().of);
    let files = fetch(resolved, &mut watch)?;
    let hosts: Vec<RobotsHost> = files.iter().map(|file| file.host.clone()).collect();
    let [unreachable, with_rules] = [RobotsOutcome::Unreachable, RobotsOutcome::Rules]
        .map(|outcome| hosts.iter().filter(|host| host.outcome == outcome).count())
        .map(|count| u32::try_from(count).unwrap_or(u32::MAX));
    // Records are final: what may be allowed tomorrow must not be saved as skipped.
    let is_nothing_left = unreachable as usize == resolved.spec.targets.hosts().len();
    let is_refused = is_nothing_left || resolved.spec.options.session.is_some();
    let mut lost = hosts.iter();
    if let Some(RobotsHost { host, status, .. }) = lost
        .find(|host| host.outcome == RobotsOutcome::Unreachable)
        .filter(|_| is_refused)
    {
        return Err(Error::Robots {
            host: host.clone(),
            status: *status,
        });
    }
    let delays = hosts.iter().filter_map(|host| host.crawl_delay_s);
    let report = RobotsReport {
        requests: files.iter().map(|file| file.requests).sum(),
        crawl_delay_s: Some(delays.fold(0.0, f64::max)).filter(|delay| *delay > 0.0),
        unreachable,
        with_rules,
        hosts: hosts.into_iter().take(NAMED_HOSTS).collect(),
    };
    let mut rules = vec![None; resolved.spec.targets.hosts().len()];
    for file in files {
        rules[file.number] = Some(file.rules);
    }
    resolved.spec.options.robots = Some(Arc::new(rules));
    if let Some(delay) = report.crawl_delay_s {
        delay_hosts(&mut resolved.plan, delay, slots);
    }
    // The fetch may have used the burst a moment ago, and the run begins with another one.
    let plan = &resolved.plan;
    let burst = plan.rate.map_or(0, |rate| {
        let burst = default_burst(&rate, 1).max(1);
        u32::try_from(report.requests.min(burst)).unwrap_or(u32::MAX)
    });
    let rest = interval(plan.rate).saturating_mul(burst);
    watch.wait(rest.max(interval(plan.per_host.rate)))?;
    Ok(Some(report))
}

/// Limit the rate of each host by a crawl-delay, s.
fn delay_hosts(plan: &mut RunPlan, delay: f64, slots: u32) {
    let period = Duration::from_secs_f64(delay).saturating_mul(slots.max(1));
    let delayed = Rate {
        permits: 1,
        period_ns: u64::try_from(period.as_nanos()).unwrap_or(u64::MAX),
    };
    let rate = plan.per_host.rate;
    if rate.is_none_or(|rate| rate.per_second() > delayed.per_second()) {
        (plan.per_host.rate, plan.per_host.burst) = (Some(delayed), None);
        // Each shard may send one request at its start, and a slot is announced as one.
        if slots > 1 {
            plan.shards = 1;
        }
        plan.workload.per_host_rate_from = Some(HostRateSource::CrawlDelay);
    }
}

/// robots.txt of a host.
struct RobotsFile {
    /// Number of the host.
    number: usize,
    host: RobotsHost,
    rules: Robots,
    /// Requests that were sent for it.
    requests: u64,
}

/// Fetch robots.txt of each host whose rules apply, by plain requests.
fn fetch(resolved: &Resolved, watch: &mut Watch<'_, '_>) -> Result<Vec<RobotsFile>, Error> {
    let (spec, plan) = (&resolved.spec, &resolved.plan);
    let hosts = spec.targets.hosts();
    let lines = hosts
        .iter()
        .map(|host| format!("{}/robots.txt", host.origin()).parse::<Template>());
    let request = spec.request.own(Some("GET"), &[], Some(Bytes::new()));
    let fetching = CrawlSpec {
        targets: Arc::new(Targets::collect(lines).map_err(Error::usage)?),
        request: request.map_err(Error::usage)?,
        expect: Expectations::new(Vec::new()).map_err(Error::usage)?,
        // Some servers compress it unasked. One that cannot be decoded is unreachable.
        options: CrawlOptions {
            content: Content::Decoded,
            follow: REDIRECTS,
            unix_socket: spec.options.unix_socket.clone(),
            ..CrawlOptions::default()
        },
        ..spec.clone()
    };
    let most = plan.connections.clamp(1, AT_ONCE);
    let fetcher = Rc::new(Fetcher {
        crawl: Crawl::new(fetching, most, watch.clock).keeping_bodies(BYTE_LIMIT as u64 + 1),
        interval: interval(plan.rate),
        per_host: interval(plan.per_host.rate),
        policy: plan.throttling,
        next: Mutex::new(Nanos::default()),
        clock: watch.clock,
        agent: spec.request.product().to_owned(),
    });
    let tasks = resolved.robots.iter().map(|number| {
        let (fetcher, number) = (Rc::clone(&fetcher), *number);
        let (origin, sent) = (hosts[number].origin().to_owned(), spec.options.sent.clone());
        async move {
            let file = fetcher.fetch(number, origin).await;
            if let Some(sent) = sent {
                (0..file.requests).for_each(|_| sent.add(0));
            }
            file
        }
    });
    let mut looked = Ok(());
    let files = together(most as usize, tasks, || {
        looked = watch.wait(Duration::ZERO);
        looked.is_ok()
    });
    looked?;
    let mut files = files.map_err(|error| Error::usage(format!("--robots: {error}")))?;
    files.sort_by_key(|file| file.number);
    Ok(files)
}

/// Sends the requests, at the intervals of the run's limits.
struct Fetcher {
    crawl: Crawl,
    interval: Duration,
    per_host: Duration,
    policy: ThrottlingPolicy,
    /// Time of the next request.
    next: Mutex<Nanos>,
    clock: Clock,
    /// Name that the rules may have for this client.
    agent: String,
}

impl Fetcher {
    /// Wait for the turn of a request to a host, and return when it came.
    async fn wait(&self, next_of_host: &Mutex<Nanos>) -> Nanos {
        let mut of_host = next_of_host.lock().await;
        let mut next = self.next.lock().await;
        let left = (*next).max(*of_host).since(self.clock.now());
        tokio::time::sleep(Duration::from_nanos(left)).await;
        let now = self.clock.now();
        (*next, *of_host) = (now.plus(self.interval), now.plus(self.per_host));
        now
    }

    /// Fetch robots.txt of a host, again after temporary failures, and read its rules.
    async fn fetch(&self, number: usize, host: String) -> RobotsFile {
        let (mut requests, mut backoff) = (0, self.policy.backoff.base);
        let next_of_host = Mutex::new(Nanos::default());

        let mut retries = self.policy.retries;
        let fetched = loop {
            let fetched = self
                .crawl
                .fetch(number as u64, &async || {
                    Some(self.wait(&next_of_host).await)
                })
                .await;
            requests += fetched.requests;
            let may_help = fetched.last.advice.repeat == Repeat::MayHelp
                && fetched.last.outcome != Outcome::Throttled;
            if !may_help || retries == 0 {
                break fetched;
            }
            tokio::time::sleep(backoff).await;
            (retries, backoff) = (retries - 1, backoff * 2);
        };
        let body = fetched.body.unwrap_or_default();
        let (access, outcome) = match (fetched.last.status, fetched.last.outcome) {
            (Some(200..=299), Outcome::Ok) => {
                (AccessResult::Successful(&body), RobotsOutcome::Rules)
            }
            (Some(status @ 400..=499), _) if status != 429 => {
                (AccessResult::Unavailable, RobotsOutcome::None)
            }
            (_, Outcome::Error(ErrorKind::TooManyRedirects)) => {
                (AccessResult::TooManyRedirects, RobotsOutcome::None)
            }
            _ => (AccessResult::Unreachable, RobotsOutcome::Unreachable),
        };
        let rules = Robots::from_access(access, Agent::Exact(&self.agent));
        let crawl_delay_s = rules.crawl_delay().map(|delay| delay.as_secs_f64());
        let host = RobotsHost {
            host,
            status: fetched.last.status,
            outcome,
            crawl_delay_s,
        };
        RobotsFile {
            number,
            host,
            rules,
            requests,
        }
    }
}
