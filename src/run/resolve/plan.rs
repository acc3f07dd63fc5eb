//! Plan of a run: first what the flags say, then what the targets decide.

use std::time::Duration;

use crawlmark_harness::plan::{
    Arrivals, LEAST_LINGERING, LINGER, Pinning, Recorded, RunPlan, WorkloadSettings,
};
use crawlmark_harness::process::usable_cpus;
use crawlmark_harness::stats::{MOST_GROUPS, Series};
use crawlmark_harness::units::{IdRange, RateShape, nearest};
use crawlmark_results::run::gates::{Breach, Condition, Objective};
use crawlmark_results::run::report::{Group, GroupNames, stage_name};

use super::load::{choose_shards, mean_rate, set_burst};
use super::targets::Chosen;
use crate::cli::{Auto, RunArgs};
use crate::crawl::{CrawlSpec, IdUse};
use crate::error::Error;

/// Duration of a run that neither its IDs nor its time bound.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

/// Default ID range; larger than any default run uses.
const DEFAULT_IDS: IdRange = IdRange {
    start: 0,
    end: 100_000_000,
};

/// IDs of a recording that is not read yet.
const ONE_ID: IdRange = IdRange { start: 0, end: 1 };

/// Return the plan that the flags alone say, before any list is read: standard input may take its
/// time. It is for a URL, a range of IDs and a recording of one request, on all cores.
///
/// # Errors
/// When the flags are no valid plan, whatever the targets are.
pub(super) fn draft(args: &RunArgs) -> Result<RunPlan, Error> {
    let arrivals = args.arrivals();
    let is_replay = arrivals == Arrivals::Replay;
    let recorded: &[u64] = if is_replay { &[0] } else { &[] };
    let is_bounded = args.list().is_some() || args.ids.is_some() || args.requests.is_some();
    let mut plan = RunPlan {
        target: String::new(),
        workload: WorkloadSettings::default(),
        ids: if is_replay {
            ONE_ID
        } else {
            chosen_ids(args).unwrap_or(DEFAULT_IDS)
        },
        finished: Vec::new(),
        shards: 1,
        connections: args.connections,
        streams: args.streams.unwrap_or(1),
        rate: if is_replay {
            Some(mean_rate(recorded))
        } else {
            args.rate.as_ref().map(|rate| rate.peak)
        },
        shape: args
            .rate
            .as_ref()
            .map_or(RateShape::Constant, |rate| rate.shape.clone()),
        burst: 0,
        at_start: 0,
        arrivals,
        queue: args.queue,
        deadline: args.deadline,
        objectives: args.objective.clone(),
        recorded: Recorded(recorded.into()),
        pacing: args.pacing,
        linger: Duration::ZERO,
        throttling: args.throttling.resolve(arrivals),
        per_host: args.per_host.resolve(1),
        duration: chosen_duration(args).or((!is_bounded).then_some(DEFAULT_DURATION)),
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
    plan.shards = choose_shards(args, &plan, usable_cpus().len().max(1));
    plan.linger = chosen_linger(args, &plan);
    set_burst(args, &mut plan);
    let plan = plan.validate().map_err(Error::usage)?;
    objectives(args, &plan)?;
    Ok(plan)
}

/// Return the duration that the flags say, or the time of the stages of the rate, if all have one.
fn chosen_duration(args: &RunArgs) -> Option<Duration> {
    args.duration.or_else(|| {
        let (length, has_end) = args.rate.as_ref()?.shape.length();
        has_end.then_some(length)
    })
}

/// Complete a draft for the targets of the run. `cores` are those of this machine that the
/// target leaves to the shards.
pub(super) fn complete(
    draft: RunPlan,
    args: &RunArgs,
    chosen: &Chosen,
    has_id_in_body: bool,
    cores: usize,
) -> RunPlan {
    let targets = &chosen.targets;
    let mut plan = RunPlan {
        target: targets.to_string(),
        per_host: args
            .per_host
            .resolve(u32::try_from(targets.hosts().len()).unwrap_or(u32::MAX)),
        ..draft
    };
    let asks_ids = has_id_in_body || targets.asks_ids() == IdUse::Yes;
    let lines = IdRange {
        start: 0,
        end: targets.lines() as u64,
    };
    let has_bound =
        args.ids.is_some() || args.requests.is_some() || chosen_duration(args).is_some();
    if plan.arrivals == Arrivals::Replay {
        // Each request is one item; those beyond `-n` are not among them.
        (plan.ids, plan.rate) = (lines, Some(mean_rate(&chosen.times)));
    } else if args.list().is_some() && !has_bound {
        if asks_ids || targets.is_drawn() {
            plan.duration = Some(DEFAULT_DURATION);
        } else {
            // Each line once.
            plan.ids = lines;
        }
    }
    plan.shards = choose_shards(args, &plan, cores);
    plan.linger = chosen_linger(args, &plan);
    set_burst(args, &mut plan);
    plan
}

/// Return the time that the shards of a plan linger. Requests that have their times do not wait for
/// others.
fn chosen_linger(args: &RunArgs, plan: &RunPlan) -> Duration {
    let in_flight = plan.in_flight() / plan.shards.max(1);
    match args.linger {
        Auto::Exactly(time) => time,
        Auto::Auto if in_flight >= LEAST_LINGERING && !plan.is_paced() => LINGER,
        Auto::Auto => Duration::ZERO,
    }
}

/// Return the IDs that the flags say: a range, or the first so many of it; none without.
fn chosen_ids(args: &RunArgs) -> Option<IdRange> {
    let any = IdRange {
        start: 0,
        end: u64::MAX,
    };
    match args.requests {
        Some(count) => Some(args.ids.unwrap_or(any).first(count)),
        None => args.ids,
    }
}

/// Return the note on a warm-up that is most of the run.
pub(super) fn warmup_note(plan: &RunPlan) -> Option<String> {
    let (warmup, all) = (plan.warmup, plan.duration?);
    (warmup > all / 2).then(|| {
        format!("--warmup {warmup:?} is most of the run of {all:?}: shorten it, or run longer")
    })
}

/// Return the objectives of a run of `plan`, those of the short flags included.
pub(crate) fn objectives(args: &RunArgs, plan: &RunPlan) -> Result<Vec<Objective>, Error> {
    let slo_p99 = args
        .slo_p99
        .map(|most| Condition::p99_at_most(Series::waited(plan.arrivals), most));
    let fails = args
        .threshold
        .iter()
        .cloned()
        .chain(slo_p99)
        .chain(args.max_error_rate.clone())
        .map(|condition| (condition, Breach::Fails));
    let stops = args.stop_unless.iter();
    fails
        .chain(stops.map(|condition| (condition.clone(), Breach::Stops)))
        .map(|(condition, breach)| Objective { condition, breach })
        .map(|objective| objective.check(plan).map(|()| objective))
        .collect::<Result<_, _>>()
        .map_err(Error::usage)
}

/// Return the names of the groups of a crawl that are counted apart.
pub(in crate::run) fn group_names(spec: &CrawlSpec) -> GroupNames {
    let [hosts, templates] = host_and_template_names(spec);
    let mut names = GroupNames::new();
    for number in 0..MOST_GROUPS {
        let at = u32::try_from(number).ok();
        let ips = spec.local_ips.as_ref();
        let source = at.and_then(|at| Some(ips?.numbered(at)?.to_string()));
        names.extend(
            hosts
                .get(number)
                .map(|name| (Group::Host(at), name.clone())),
        );
        names.extend(
            templates
                .get(number)
                .map(|name| (Group::Template(at), name.clone())),
        );
        names.extend(source.map(|name| (Group::Source(at), name)));
    }
    names
}

/// Return the names of the hosts and of the URL templates of a crawl, by their numbers.
fn host_and_template_names(spec: &CrawlSpec) -> [Vec<String>; 2] {
    let hosts = spec.targets.hosts().iter();
    [
        hosts
            .map(|host| format!("{}:{}", host.local_name(), host.port))
            .collect(),
        spec.targets.templates(spec.request.method()),
    ]
}

/// Refuse an objective of a group that the crawl does not have. Source addresses are known when they
/// are used.
pub(super) fn check_groups(
    objectives: &[Objective],
    spec: &CrawlSpec,
    plan: &RunPlan,
) -> Result<(), Error> {
    let groups = objectives
        .iter()
        .filter_map(|it| it.condition.group.as_ref());
    let [hosts, templates] = host_and_template_names(spec);
    let stages = (1..=plan.shape.stages().len()).map(stage_name).collect();
    let all = [hosts, templates, stages];
    // One host, or one template, is no group.
    let is_group = |names: &&Vec<String>| names.len() > 1;
    let names: Vec<String> = all.iter().filter(is_group).flatten().cloned().collect();
    let alone: Vec<&String> = all.iter().filter(|it| !is_group(it)).flatten().collect();
    for group in groups.filter(|_| spec.local_ips.is_none()) {
        if names.contains(group) {
            continue;
        }
        // A method is in the names only where there are several.
        let path = group.split_once(' ').map_or(&**group, |(_, path)| path);
        let why = match nearest(group, names.iter().cloned()) {
            _ if alone.iter().any(|it| **it == *group || **it == *path) => {
                "all requests are of it: leave out the group".to_owned()
            }
            _ if names.is_empty() => {
                "all requests are of one URL template, one host and one stage: leave out the group"
                    .to_owned()
            }
            _ if names.iter().any(|it| it == path) => format!("write {{{path}}}"),
            Some(meant) => format!("did you mean {{{meant}}}?"),
            None => format!("the groups are {}", names.join(", ")),
        };
        let why =
            format!("--threshold with {{{group}}}: no group of this run has this name; {why}");
        return Err(Error::Usage(why));
    }
    Ok(())
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
}
