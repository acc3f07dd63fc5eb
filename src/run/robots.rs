//! `--robots`: robots.txt of the hosts of a run (RFC 9309), fetched before the run by the crawl
//! itself: one request per host, under the run's limits, from a process of its own.
//!
//! Which paths a robots.txt allows is the business of the crate `robotxt`; the shards skip the
//! items whose paths it forbids.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use bytes::Bytes;
use crawlmark_harness::clock::{Clock, Nanos};
use crawlmark_harness::plan::{Arrivals, Pinning, RunPlan, default_burst};
use crawlmark_harness::process::usable_cpus;
use crawlmark_harness::supervisor::{HeldSignals, Interval, Live, Observer};
use crawlmark_harness::units::{IdRange, Rate, RateShape};
use crawlmark_results::run::report::{
    CRAWL_DELAY, PER_HOST_RATE_FROM, RobotsHost, RobotsOutcome, RobotsReport,
};
use robotxt::{AccessResult, Agent, BYTE_LIMIT, Robots};

use super::part::PartSlot;
use super::resolve::Resolved;
use crate::crawl::{Content, CrawlOptions, CrawlSpec, Expectations, Targets, Template};
use crate::dataset::manifest::{Bodies, Durability, Fields, Saved};
use crate::dataset::record::SavedRecord;
use crate::dataset::segment::{Frames, SegmentName};
use crate::dataset::session::Session;
use crate::error::Error;
use crate::measure;

/// Redirects of a robots.txt that are followed (RFC 9309, 2.3.1.2).
const REDIRECTS: u32 = 5;

/// Interval at which a signal is looked for while nothing may be sent.
const LOOK: Duration = Duration::from_millis(100);

/// Hosts that the report names.
const NAMED_HOSTS: usize = 100;

/// Directory of the files that were fetched, removed when it is dropped.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Slot of a part, whose lease is renewed while robots.txt is fetched; none of a run of its own.
struct Lease<'a, 'b>(Option<&'a mut PartSlot<'b>>);

impl Observer for Lease<'_, '_> {
    fn progress(&mut self, _: &Live) {}

    fn interval(&mut self, _: &Interval) {}

    fn lease(&mut self, now: Nanos) -> Option<Nanos> {
        self.0.as_mut().map(|slot| slot.renew(now))
    }

    fn has_enough(&self) -> bool {
        self.is_lost()
    }
}

impl Lease<'_, '_> {
    fn is_lost(&self) -> bool {
        self.0.as_ref().is_some_and(|slot| slot.is_lost())
    }

    /// Check that the slot is still held.
    ///
    /// # Errors
    /// When the part cannot go on.
    fn check(&self) -> Result<(), Error> {
        self.0.as_ref().map_or(Ok(()), |slot| slot.check())
    }
}

/// Fetch robots.txt of the hosts whose rules apply, and make the run obey: its shards skip what is
/// forbidden, and the largest crawl-delay limits the rate of each host, which the slots of a plan
/// share. None if no host's rules apply.
///
/// # Errors
/// When the fetch cannot be started, or is stopped; when nothing may be crawled because no
/// robots.txt can be fetched, or one of a crawl that is saved; or when a part loses its slot.
pub(super) fn obey(
    resolved: &mut Resolved,
    clock: Clock,
    held: &HeldSignals,
    slot: Option<&mut PartSlot<'_>>,
    place: &Path,
) -> Result<Option<RobotsReport>, Error> {
    if resolved.robots.is_empty() {
        return Ok(None);
    }
    let slots = slot.as_ref().map_or(1, |slot| slot.share().of);
    let mut lease = Lease(slot);
    let Fetched {
        rules,
        hosts,
        requests,
    } = fetch(resolved, clock, place, &mut lease)?;
    // Records are final: what may be allowed tomorrow must not be saved as skipped.
    let is_nothing_left = hosts.len() == rules.len()
        && hosts
            .iter()
            .all(|host| host.outcome == RobotsOutcome::Unreachable);
    let is_refused = is_nothing_left || resolved.spec.options.session.is_some();
    if let Some(RobotsHost { host, status, .. }) = hosts
        .iter()
        .find(|host| is_refused && host.outcome == RobotsOutcome::Unreachable)
    {
        return Err(Error::Robots {
            host: host.clone(),
            status: *status,
        });
    }
    let delay = hosts
        .iter()
        .filter_map(|host| host.crawl_delay_s)
        .fold(0.0, f64::max);
    let report = RobotsReport {
        requests,
        crawl_delay_s: Some(delay).filter(|delay| *delay > 0.0),
        unreachable: count(&hosts, RobotsOutcome::Unreachable),
        with_rules: count(&hosts, RobotsOutcome::Rules),
        hosts: hosts.into_iter().take(NAMED_HOSTS).collect(),
    };
    resolved.spec.options.robots = Some(Arc::new(rules));
    if let Some(delay) = report.crawl_delay_s {
        let period = Duration::from_secs_f64(delay).saturating_mul(slots.max(1));
        let delayed = Rate {
            permits: 1,
            period_ns: u64::try_from(period.as_nanos()).unwrap_or(u64::MAX),
        };
        let per_host = &mut resolved.plan.per_host;
        if per_host
            .rate
            .is_none_or(|rate| rate.per_second() > delayed.per_second())
        {
            (per_host.rate, per_host.burst) = (Some(delayed), None);
            // Each shard may send one request at its start, and a slot is announced as one.
            if slots > 1 {
                resolved.plan.shards = 1;
            }
            resolved
                .plan
                .workload
                .insert(PER_HOST_RATE_FROM.to_owned(), CRAWL_DELAY.to_owned());
        }
        resolved.plan = resolved.plan.clone().validate().map_err(|error| {
            Error::Usage(format!("robots.txt requires {delay} s between requests, and {error}. Or use --robots ignore"))
        })?;
    }
    if let Some(rate) = resolved.plan.rate {
        // The fetch may have used its burst a moment ago, and the run begins with another one.
        let burst = requests.min(default_burst(&rate, 1).max(1));
        let interval = Duration::from_nanos(rate.period_ns / rate.permits.max(1));
        let rest = interval.saturating_mul(u32::try_from(burst).unwrap_or(u32::MAX));
        wait(rest, clock, held, &mut lease);
        lease.check()?;
    }
    Ok(Some(report))
}

/// Wait, unless a signal comes: the run, which is stopped at once, says so.
fn wait(time: Duration, clock: Clock, held: &HeldSignals, lease: &mut Lease<'_, '_>) {
    let end = clock.now().plus(time);
    while clock.now() < end && !lease.is_lost() && !held.is_asked_to_stop().unwrap_or(false) {
        lease.lease(clock.now());
        sleep(LOOK.min(Duration::from_nanos(end.since(clock.now()))));
    }
}

fn count(hosts: &[RobotsHost], outcome: RobotsOutcome) -> u32 {
    u32::try_from(hosts.iter().filter(|host| host.outcome == outcome).count()).unwrap_or(u32::MAX)
}

/// Rules of the hosts of a run.
struct Fetched {
    /// By the host's number; none of a host whose rules do not apply.
    rules: Vec<Option<Robots>>,
    /// Hosts whose rules apply.
    hosts: Vec<RobotsHost>,
    /// Requests that were sent.
    requests: u64,
}

/// Crawl robots.txt of each host whose rules apply. A host's number is that of its item.
fn fetch(
    resolved: &Resolved,
    clock: Clock,
    place: &Path,
    lease: &mut Lease<'_, '_>,
) -> Result<Fetched, Error> {
    let (scratch, spec) = (scratch(place)?, &resolved.spec);
    let hosts = spec.targets.hosts();
    let lines = hosts
        .iter()
        .map(|host| format!("{}/robots.txt", host.origin()).parse::<Template>());
    let targets = Targets::collect(lines).map_err(|error| Error::Usage(error.to_string()))?;
    let saved = Saved {
        fields: "id,status,outcome,body"
            .parse::<Fields>()
            .map_err(Error::Usage)?,
        bodies: Bodies::All,
        max_body: BYTE_LIMIT as u64 + 1,
        durability: Durability::Process,
    };
    let session = Session {
        place: scratch.0.clone(),
        number: 1,
        plan: String::new(),
        saved,
        cpus: usable_cpus(),
    };
    let request = spec.request.own(Some("GET"), &[], Some(Bytes::new()));
    let fetching = CrawlSpec {
        targets: Arc::new(targets),
        request: request.map_err(|error| Error::Usage(error.to_string()))?,
        expect: Expectations::new(Vec::new()).map_err(|error| Error::Usage(error.to_string()))?,
        // Some servers compress it unasked. One that cannot be decoded is unreachable.
        options: CrawlOptions {
            content: Content::Decoded,
            follow: REDIRECTS,
            shuffle: None,
            session: Some(session),
            keeps_throttled: false,
            ..spec.options.clone()
        },
        ..spec.clone()
    };
    let plan = plan(&resolved.plan, hosts.len(), &resolved.robots)?;
    let record = measure::crawl(&plan, &fetching, clock, lease)?;
    if let Some(signal) = record.interrupted {
        return Err(Error::StoppedBeforeRun(signal));
    }
    // What it has not fetched then says nothing about its hosts.
    lease.check()?;
    let agent = spec.request.product();
    let mut fetched = Fetched {
        rules: vec![None; hosts.len()],
        hosts: Vec::new(),
        requests: 0,
    };
    for number in &resolved.robots {
        // Without a record, as of a fetch that could not be made: no URL may be crawled.
        fetched.rules[*number] = Some(Robots::disallow_all());
    }
    fetched.requests = record
        .shards
        .iter()
        .map(|shard| shard.stats.counters.requests.attempts_sent)
        .sum();
    let mut found = vec![None; hosts.len()];
    read(&scratch.0, |record| {
        let Some(number) = usize::try_from(record.id)
            .ok()
            .filter(|number| *number < hosts.len())
        else {
            return;
        };
        let body = record.body().ok().flatten();
        let is_good = record.outcome.0 == "ok";
        let access = match (record.status, &body) {
            (Some(200..=299), Some(body)) if is_good => AccessResult::Successful(body.bytes()),
            (Some(200..=299), None) if is_good => AccessResult::Successful(b""),
            (Some(400..=499), _) if record.status != Some(429) => AccessResult::Unavailable,
            _ if record.outcome.0 == "too_many_redirects" => AccessResult::TooManyRedirects,
            _ => AccessResult::Unreachable,
        };
        let outcome = match access {
            AccessResult::Successful(_) => RobotsOutcome::Rules,
            AccessResult::Unavailable | AccessResult::TooManyRedirects => RobotsOutcome::None,
            AccessResult::Unreachable => RobotsOutcome::Unreachable,
        };
        fetched.rules[number] = Some(Robots::from_access(access, Agent::Exact(agent)));
        found[number] = Some((record.status, outcome));
    })?;
    fetched.hosts.extend(resolved.robots.iter().map(|number| {
        let (status, outcome) = found[*number].unwrap_or((None, RobotsOutcome::Unreachable));
        let rules = fetched.rules[*number].as_ref();
        RobotsHost {
            host: hosts[*number].origin().to_owned(),
            status,
            outcome,
            crawl_delay_s: rules
                .and_then(Robots::crawl_delay)
                .map(|delay| delay.as_secs_f64()),
        }
    }));
    Ok(fetched)
}

/// Return the plan of the fetch: an item for each host, under the limits of the run.
fn plan(run: &RunPlan, hosts: usize, wanted: &[usize]) -> Result<RunPlan, Error> {
    let ids = IdRange {
        start: 0,
        end: hosts as u64,
    };
    let others =
        (ids.start..ids.end).filter(|number| !wanted.iter().any(|host| *host as u64 == *number));
    let plan = RunPlan {
        ids,
        finished: others
            .map(|number| IdRange {
                start: number,
                end: number + 1,
            })
            .collect(),
        shards: 1,
        connections: run
            .connections
            .min(u32::try_from(wanted.len()).unwrap_or(u32::MAX))
            .max(1),
        streams: 1,
        shape: RateShape::Constant,
        burst: run.rate.map_or(0, |rate| default_burst(&rate, 1)),
        at_start: u64::from(run.rate.is_some()),
        arrivals: Arrivals::Asap,
        queue: None,
        duration: None,
        warmup: Duration::ZERO,
        pinning: Pinning::None,
        ..run.clone()
    };
    plan.validate()
        .map_err(|error| Error::Usage(format!("--robots: {error}")))
}

/// Read the records that were fetched.
fn read(place: &Path, mut each: impl FnMut(&SavedRecord<'_>)) -> Result<(), Error> {
    let failed = |why: String| Error::unwritable(place)(std::io::Error::other(why));
    for entry in fs::read_dir(place).map_err(Error::unwritable(place))? {
        let path = entry.map_err(Error::unwritable(place))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if SegmentName::of_segment(&name).is_none() {
            continue;
        }
        let file = File::open(&path).map_err(Error::unwritable(&path))?;
        let mut frames = Frames::open(file).map_err(|error| failed(error.to_string()))?;
        while frames
            .next_frame()
            .map_err(|error| failed(error.to_string()))?
            .is_some()
        {
            let lines = frames.lines().map_err(|error| failed(error.to_string()))?;
            for line in lines.lines() {
                each(&SavedRecord::parse(line).map_err(|error| failed(error.to_string()))?);
            }
        }
    }
    Ok(())
}

/// Make a directory for what is fetched, in that of the result.
fn scratch(place: &Path) -> Result<Scratch, Error> {
    let path = place.join("robots");
    fs::create_dir(&path).map_err(Error::unwritable(&path))?;
    Ok(Scratch(path))
}
