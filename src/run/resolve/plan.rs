//! Plan of a run and settings of its crawl, from its flags and from what was read and looked up.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use crawlmark_harness::plan::{
    Arrivals, LINGER, OnThrottle, Pacing, PerHost, Pinning, Recorded, RunPlan, WorkloadSettings,
    default_burst, most_shards,
};
use crawlmark_harness::process::usable_cpus;
use crawlmark_harness::stats::Series;
use crawlmark_harness::units::{IdRange, Rate, RateShape};
use crawlmark_results::run::gates::{Breach, Condition, Objective};
use crawlmark_results::run::report::{Labels, Placement};

use super::addresses::{Found, is_own};
use super::bundled::BundledTarget;
use super::targets::Chosen;
use super::{Inputs, Resolved};
use crate::cli::{Auto, RobotsUse, RunArgs};
use crate::crawl::proxy::Session;
use crate::crawl::tls::{Settings, Tls};
use crate::crawl::{
    Content, Cookies, CrawlOptions, CrawlSpec, EventStream, Expect, Expectations, HoldHeader,
    HttpSettings, HttpVersion, IdUse, Reuse, Scheme, Shuffle, Targets, dealt,
};
use crate::error::Error;
use crate::live_page::ServedAt;
use crate::run::target_probe::ProbeChoice;
use crate::target::{share_of_client, share_of_target};

/// Duration of a run that neither its IDs nor its time bound.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

/// Default ID range; larger than any default run uses.
const DEFAULT_IDS: IdRange = IdRange {
    start: 0,
    end: 100_000_000,
};

/// Make the plan of a run, whose settings are yet to be recorded in it, and all else that it takes.
///
/// # Errors
/// When it would be no valid plan.
pub(super) fn resolve(args: &RunArgs, inputs: Inputs) -> Result<Resolved, Error> {
    let Inputs {
        request,
        chosen,
        proxies,
        found,
    } = inputs;
    let Chosen {
        targets,
        bundled,
        times,
        note,
        methods,
    } = chosen;
    let Found {
        addresses,
        unresolved,
        lookup,
        lookups,
        strangers,
    } = found;
    let cpus = usable_cpus().len().max(1);
    let bundled = bundled
        .map(|template| BundledTarget::new(args, template, cpus))
        .transpose()?;
    let arrivals = args.arrivals();
    let is_replay = arrivals == Arrivals::Replay;
    let rate = match args.rate {
        _ if is_replay => Some(mean_rate(&times)),
        rate => rate.map(|rate| rate.peak),
    };
    let robots = match args.throttling.robots {
        RobotsUse::Ignore => Vec::new(),
        RobotsUse::Honor => (0..addresses.len()).collect(),
        RobotsUse::Auto => strangers.iter().map(|(number, _)| *number).collect(),
    };
    let (ids, bounded) = choose_ids(args, &targets, request.has_id())?;
    let per_host = args
        .per_host
        .resolve(u32::try_from(targets.hosts().len()).unwrap_or(u32::MAX));
    let is_open = arrivals.gaps().is_some();
    let window = window(args);
    let own_burst = args.burst.or(window);
    // Beside a target on this machine, a shard more would wait for a CPU.
    let is_here = bundled.is_some() || addresses.iter().flatten().any(is_own);
    let processes = bundled.as_ref().map(|bundled| bundled.processes);
    let beside = is_here.then(|| processes.unwrap_or_else(|| share_of_target(cpus)));
    let cores = beside.map_or(cpus, |target| share_of_client(cpus, target));
    let shards = match args.shards {
        Auto::Auto if arrivals == Arrivals::Waves => 1,
        Auto::Auto => {
            let budget = rate.filter(|_| !is_open && window.is_none());
            fitting_shards(cores, args.connections, per_host, own_burst)
                .min(budget.as_ref().map_or(u32::MAX, most_shards))
        }
        Auto::Exactly(shards) => shards,
    };
    if args.pacing == Pacing::Spin && shards as usize > cpus {
        return Err(Error::Usage(format!(
            "--pacing spin uses a whole core for each shard: --shards {shards} is more than the {cpus} cores of this machine. Use --shards \
             {cpus}, or --pacing sleep"
        )));
    }
    let (targets, recorded) = if is_replay {
        deal(targets, &times, shards)
    } else {
        (targets, Recorded::default())
    };
    let (flags, connection) = (&args.request, args.connection.clone());
    let spec = CrawlSpec {
        addresses,
        expect: choose_expectations(args, &methods)?,
        request,
        timeout: args.timeout,
        connect_timeout: args.connect_timeout,
        reuse: reuse(args),
        local_ips: args.local_ips.clone(),
        held: HoldHeader::Ignored,
        tls: tls(args, &targets, bundled.as_ref())?,
        proxies: proxies.map(Arc::new),
        http: HttpSettings {
            version: args.http,
            streams: args.streams.unwrap_or(1),
        },
        options: CrawlOptions {
            shuffle: flags
                .shuffle
                .then(|| Shuffle::new(args.ids.unwrap_or(ids), args.seed)),
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
            keeps_throttled: !is_open
                && args.throttling.on_throttle == OnThrottle::Honor
                && args.throttling.retries != Some(0),
            connect_rate: connection.connect_rate,
            receive_stamps: connection.receive_stamps,
            lookups,
            ..CrawlOptions::default()
        },
        targets: Arc::new(targets),
    };
    let mut peers = spec.peers().into_iter().flatten();
    let is_reached_here = if spec.proxies.is_none() {
        is_here
    } else {
        peers.any(is_own)
    };
    let placement = if bundled.is_some() || is_reached_here {
        Placement::Colocated
    } else {
        Placement::Apart
    };
    // What the requests of an open loop may do at once is up to its timetable.
    let budget = rate.filter(|_| !is_open);
    let mut plan = RunPlan {
        target: spec.targets.to_string(),
        workload: WorkloadSettings::default(),
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
        arrivals,
        queue: args.queue,
        recorded,
        pacing: args.pacing,
        linger: Duration::ZERO,
        throttling: args.throttling.resolve(arrivals),
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
    plan.linger = match args.linger {
        Auto::Exactly(time) => time,
        Auto::Auto if plan.streams > 1 && !plan.is_paced() => LINGER,
        Auto::Auto => Duration::ZERO,
    };
    let plan = plan.validate().map_err(Error::usage)?;
    let short = plan
        .duration
        .filter(|all| plan.warmup > *all / 2)
        .map(|all| {
            let warmup = plan.warmup;
            format!("--warmup {warmup:?} is most of the run of {all:?}: shorten it, or run longer")
        });
    Ok(Resolved {
        objectives: objectives(args, &plan)?,
        plan,
        placement,
        served_at: ServedAt::of(args),
        labels: Labels {
            name: args.name.clone(),
            tags: args.tags.iter().cloned().collect(),
        },
        probe: ProbeChoice::of(args, spec.options.unix_socket.as_deref()),
        spec,
        out: args.out.clone(),
        is_strict: args.strict,
        bundled,
        unresolved,
        lookup,
        robots,
        methods,
        notes: note.into_iter().chain(short).collect(),
        save: args.save.clone(),
        part: args.part.clone(),
        burst: args.burst,
        shards: args.shards,
        typed: args.typed.clone(),
        diagnoses: args.diagnose,
    })
}

/// Return the requests of a window, which may have all of them at once, and saves nothing for the
/// next one; none of a rate without windows, or of an open loop, whose requests have times.
fn window(args: &RunArgs) -> Option<u64> {
    let rate = args.rate.filter(|_| args.arrivals().gaps().is_none())?;
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

/// Return the objectives of a run of `plan`, those of the short flags included.
pub(crate) fn objectives(args: &RunArgs, plan: &RunPlan) -> Result<Vec<Objective>, Error> {
    let slo_p99 = args
        .slo_p99
        .map(|most| Condition::p99_at_most(Series::waited(plan.arrivals), most));
    let fails = args
        .threshold
        .iter()
        .copied()
        .chain(slo_p99)
        .chain(args.max_error_rate)
        .map(|condition| (condition, Breach::Fails));
    let stops = args.stop_unless.iter();
    fails
        .chain(stops.map(|condition| (*condition, Breach::Stops)))
        .map(|(condition, breach)| Objective { condition, breach })
        .map(|objective| objective.check(plan).map(|()| objective))
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
    if args.arrivals() == Arrivals::Replay {
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

/// Have `shards` shards take turns with the lines of a recording, which are sent at `times`.
fn deal(targets: Targets, times: &[u64], shards: u32) -> (Targets, Recorded) {
    let count = times.len() as u64;
    (
        targets.dealt(shards),
        Recorded(
            (0..count)
                .filter_map(|id| {
                    usize::try_from(dealt(id, count, shards))
                        .ok()
                        .and_then(|line| times.get(line).copied())
                })
                .collect(),
        ),
    )
}

/// Return the mean rate of a recording with these times.
fn mean_rate(times: &[u64]) -> Rate {
    const MS: u64 = 1_000_000;
    let span = times.last().copied().unwrap_or(0);
    Rate {
        permits: times.len().max(1) as u64,
        period_ns: span.max(1).next_multiple_of(MS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::resolve::resolve;
    use crate::study::understood;

    #[test]
    fn a_warm_up_of_most_of_the_run_is_noted() {
        for (line, notes) in [("-d 10s -w 5s", 0), ("-d 10s -w 6s", 1), ("-n 5 -w 6s", 0)] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let args = understood("a test", &words).unwrap();
            assert_eq!(resolve(&args).unwrap().notes.len(), notes, "{line}");
        }
    }

    #[test]
    fn a_gate_on_times_at_a_rate_is_an_open_loop_unless_something_else_is_typed() {
        for (line, arrivals) in [
            ("--rate 50 --slo-p99 1s", Arrivals::Constant),
            ("--rate 50 --threshold service_max<1s", Arrivals::Constant),
            ("--rate 50 --threshold response_mean<1s", Arrivals::Constant),
            ("--rate 50 --stop-unless service_p50<1s", Arrivals::Constant),
            ("--rate 50:90 -d 9s --slo-p99 1s", Arrivals::Constant),
            (
                "--rate 50 --slo-p99 1s --arrivals poisson",
                Arrivals::Poisson,
            ),
            ("--rate 50 --slo-p99 1s --arrivals asap", Arrivals::Asap),
            (
                "--rate 50 --slo-p99 1s -s 1 --arrivals waves",
                Arrivals::Waves,
            ),
            ("--slo-p99 1s", Arrivals::Asap),
            ("--rate 50", Arrivals::Asap),
            ("--rate 50 --max-error-rate 1%", Arrivals::Asap),
            ("--rate 50 --threshold loop_lag_p99<1s", Arrivals::Asap),
            // The rate is a limit.
            ("--rate 50 --slo-p99 1s --burst 50", Arrivals::Asap),
            ("--rate 50 --slo-p99 1s --adaptive", Arrivals::Asap),
            ("--rate 50 --slo-p99 1s --per-host-rate 9", Arrivals::Asap),
            (
                "--rate 50 --slo-p99 1s --per-host-connections 9",
                Arrivals::Asap,
            ),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let args = understood("a test", &words).unwrap();
            let resolved = resolve(&args).unwrap();
            assert_eq!(resolved.plan.arrivals, arrivals, "{line}");
            // What is recorded of it repeats it.
            let again = resolved.typed.command(Some(&resolved.plan)).arguments;
            let again = understood("a test", &again[2..]).unwrap();
            assert_eq!(again.arrivals(), arrivals, "{line}");
        }
        let words = ["--rate", "9 per 1s", "--slo-p99", "1s"].map(str::to_owned);
        let args = understood("a test", &words).unwrap();
        assert_eq!(args.arrivals(), Arrivals::Asap);
    }

    #[test]
    fn the_rate_of_a_recording_is_its_mean_whatever_its_length() {
        for (count, span_ms) in [(100, 2_400), (7, 999), (30_000, 3_601_001)] {
            let times: Vec<u64> = (1..=count)
                .map(|at| at * span_ms * 1_000_000 / count)
                .collect();
            let per_s = count as f64 * 1_000.0 / span_ms as f64;
            assert!((mean_rate(&times).per_second() / per_s - 1.0).abs() < 0.001);
        }
    }
}
