//! The crawl of a run: watched by its log, its thresholds, its part and the view of its progress.

use std::time::Duration;

use crawlmark_harness::clock::{Clock, Nanos, wall_time};
use crawlmark_harness::plan::{HostRateSource, ProxySource, RunPlan};
use crawlmark_harness::stats::SecondCounts;
use crawlmark_harness::supervisor::{Interval, Live, Observer, Stopped};
use crawlmark_results::judge::SoFar;
use crawlmark_results::run::gates::LiveThresholds;
use crawlmark_results::run::report::{
    Environment, Report, RobotsReport, RunFacts, Seconds, Source,
};
use crawlmark_results::run::result_dir::{IntervalLog, ResultDir, ResultError};
use crawlmark_results::run::words;
use crawlmark_results::show::text::write_row;

use super::part::{PartOutcome, PartSeconds, PartSlot};
use super::resolve::{BundledTarget, Resolved, group_names};
use super::target_probe::{ProbeChoice, TargetProbe};
use crate::bundled_target::Target;
use crate::cli::arg;
use crate::error::Error;
use crate::live_page::LivePage;
use crate::measure::{self, Machine};
use crate::terminal::{self, Progress, Voice};

/// A run that is over.
pub(super) struct Crawled {
    pub(super) report: Report,
    /// Reason why the log of histograms is not whole; none when it is.
    pub(super) log: Option<ResultError>,
    /// End of the part that the run is; none if it is none.
    pub(super) part: Option<Result<PartOutcome, Error>>,
    /// Thresholds, which are to be closed once nothing can change the report any more.
    pub(super) thresholds: LiveThresholds,
    /// Process of the live page, which is to show the report; none without one.
    pub(super) page: Option<LivePage>,
}

/// Start the target if it is the bundled one, run the plan, and merge what happened.
///
/// # Errors
/// When what is left of a saved crawl, or the rate that robots.txt requires, makes no valid plan;
/// when the target, the log or the crawl fails.
pub(super) fn crawl(
    mut resolved: Resolved,
    directory: &ResultDir,
    robots: Option<RobotsReport>,
    part: Option<PartSlot<'_>>,
    voice: Voice,
    clock: Clock,
) -> Result<Crawled, Error> {
    resolved.plan = valid(resolved.plan)?;
    let bundled = resolved.bundled.as_ref();
    let target = bundled.map(BundledTarget::start).transpose()?;
    let resolved = resolved.aimed_at(target.as_ref().map(Target::address))?;
    let page = LivePage::of_run(resolved.served_at, || so_far(&resolved))?;
    announce(&resolved, part.as_ref(), voice);
    let mut file = directory.log()?;
    let probe = probe(&resolved, clock, voice)?;
    let taken = probe
        .as_ref()
        .and_then(TargetProbe::cpus)
        .map(<[usize]>::to_vec);
    let mut recorder = Recorder {
        probe,
        seconds: Seconds::default(),
        page,
        log: file.begin(wall_time())?,
        thresholds: LiveThresholds::new(&resolved.objectives, &resolved.plan),
        part: part
            .map(|slot| PartSeconds::begin(slot, resolved.plan.items()))
            .transpose()?,
        progress: if voice.has_progress {
            Progress::fitting(&resolved.plan)
        } else {
            Progress::Silent
        },
        stretch: ThrottledStretch::of(&resolved),
    };
    let machine = Machine {
        placement: resolved.placement,
        taken: taken.as_deref(),
    };
    let (plan, spec) = (&resolved.plan, &resolved.spec);
    let record = measure::crawl(plan, spec, machine, clock, &mut recorder)?;
    let Recorder {
        probe,
        seconds,
        page,
        log,
        thresholds,
        part,
        progress: _,
        stretch,
    } = recorder;
    let part = part.map(|seconds| seconds.end(&record, clock.now()));
    let log = log.end().and(file.close()).err();
    let is_throttled =
        record.stopped == Stopped::ByObserver && stretch.is_over() && !thresholds.has_enough();
    let mut report = Report::new(Source {
        plan,
        labels: &resolved.labels,
        record: &record,
        target: probe.map(TargetProbe::end),
        intervals: seconds,
        environment: Environment::read(resolved.placement),
        facts: RunFacts {
            names: group_names(spec),
            robots,
            only_throttled: is_throttled.then(|| stretch.throttled()),
        },
    });
    if let Some(target) = target {
        measure::compare_with_ledger(&mut report, target);
    }
    Ok(Crawled {
        report,
        log,
        part,
        thresholds,
        page,
    })
}

/// The plan, if it is one: what is left of a saved crawl, or a rate that robots.txt requires, may
/// make it another than the one that was checked.
fn valid(plan: RunPlan) -> Result<RunPlan, Error> {
    let is_delayed = plan.workload.per_host_rate_from == Some(HostRateSource::CrawlDelay);
    plan.validate().map_err(|error| {
        Error::Usage(if is_delayed {
            format!("{error}. The rate per host is that of robots.txt: or use --robots ignore")
        } else {
            error.to_string()
        })
    })
}

/// The run that begins now, for who watches it.
fn so_far(resolved: &Resolved) -> SoFar {
    let environment = Environment::read(resolved.placement);
    SoFar::new(&resolved.plan, &resolved.labels, environment, wall_time())
}

/// Say what is going to be done, and what may not come of it.
fn announce(resolved: &Resolved, part: Option<&PartSlot<'_>>, voice: Voice) {
    let columns = terminal::columns_beside();
    if voice.is_verbose {
        let slot = part.map(PartSlot::share);
        voice.say(
            &(words::announcement(&resolved.plan, slot, columns)
                + &words::must_hold(&resolved.objectives, columns)),
        );
    }
    voice.say(&not_typed(resolved, columns));
    // Items of several requests make more samples than the plan says.
    let is_bounded = !resolved.spec.targets.has_flows();
    let objectives = resolved.objectives.iter().filter(|_| is_bounded);
    for shortage in objectives.filter_map(|objective| objective.shortage(&resolved.plan)) {
        voice.warn(&shortage.to_string());
    }
}

/// Start the target's probe; say why it measures nothing, if that was asked for.
fn probe(resolved: &Resolved, clock: Clock, voice: Voice) -> Result<Option<TargetProbe>, Error> {
    let functions = resolved.samples_functions;
    let probe = TargetProbe::start(&resolved.probe, functions, &resolved.spec, clock)?;
    if functions {
        let found = probe.as_ref().and_then(|probe| probe.record.found.as_ref());
        let why = match found {
            None => Some(
                "no process of the target is known on this machine. Name one (--target-pid), or start a probe beside it (--target-probe)",
            ),
            Some(found) => found.unavailable.get("functions").map(String::as_str),
        };
        if let Some(why) = why {
            voice.warn(&format!("the target's functions are not sampled: {why}"));
        }
    }
    let is_asked = resolved.probe != ProbeChoice::Ports;
    if let Some(record) = probe
        .as_ref()
        .filter(|_| is_asked)
        .map(|probe| &probe.record)
        && let Some(why) = &record.ended
    {
        voice.warn(&format!(
            "the target's side is not measured: {}: {why}",
            record.source
        ));
    }
    Ok(probe)
}

/// Say what a run does that nobody typed: that it is an open loop, or goes through a proxy.
fn not_typed(resolved: &Resolved, columns: usize) -> String {
    let mut out = String::new();
    let typed = &resolved.typed.values;
    if resolved.plan.arrivals.gaps().is_some() && !typed.contains_key(arg!(arrivals)) {
        let why =
            "because a threshold is about times at a --rate; --arrivals asap for a closed loop";
        write_row(&mut out, "open loop", why, columns);
    }
    let (length, has_end) = resolved.plan.shape.length();
    let is_open = !has_end && !length.is_zero() && !typed.contains_key(arg!(duration));
    if let Some(all) = resolved.plan.duration.filter(|_| is_open) {
        let rest = all.saturating_sub(length);
        let why = format!("{all:?}, of which the last stage of --rate has {rest:?}; -d sets it");
        write_row(&mut out, "time", &why, columns);
    }
    let settings = &resolved.plan.workload;
    let from = settings.proxy_from.as_ref();
    let variables = from.and_then(ProxySource::variables);
    if let Some((proxy, from)) = settings.proxy.as_ref().zip(variables) {
        write_row(&mut out, "proxy", &format!("{proxy}, from {from}"), columns);
    }
    out
}

/// Everything that watches the run.
struct Recorder<'a> {
    probe: Option<TargetProbe>,
    seconds: Seconds,
    page: Option<LivePage>,
    log: IntervalLog<'a>,
    thresholds: LiveThresholds,
    part: Option<PartSeconds<'a>>,
    progress: Progress,
    stretch: ThrottledStretch,
}

/// Seconds in which the target did nothing but throttle, up to now.
#[derive(Debug, Default)]
struct ThrottledStretch {
    seconds: u64,
    /// None unless throttled items are retried until the run ends, and it has no time limit.
    most: Option<Duration>,
}

impl ThrottledStretch {
    fn of(resolved: &Resolved) -> Self {
        let plan = &resolved.plan;
        let has_retries = resolved.spec.options.keeps_throttled;
        let most = plan.throttling.longest_wait();
        Self {
            seconds: 0,
            most: most.filter(|_| has_retries && plan.duration.is_none()),
        }
    }

    /// Add a second. One in which a request waits for its answer is none of throttling, and no end
    /// of it either.
    fn add(&mut self, counts: &SecondCounts, in_flight: u32) {
        if counts.attempts != counts.throttled {
            self.seconds = 0;
            return;
        }
        let is_paused = self.seconds > 0 && in_flight == 0;
        self.seconds += u64::from(counts.throttled > 0 || is_paused);
    }

    fn throttled(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    fn is_over(&self) -> bool {
        self.most.is_some_and(|most| self.throttled() > most)
    }
}

impl Observer for Recorder<'_> {
    fn progress(&mut self, live: &Live) {
        if let Some(probe) = &mut self.probe {
            probe.drain();
        }
        let target = self.probe.as_ref().and_then(TargetProbe::now);
        self.progress.show(live, &self.seconds.rows, target);
    }

    fn interval(&mut self, interval: &Interval) {
        if let Some(page) = &mut self.page {
            page.second(interval);
        }
        let row = self.seconds.add(interval);
        if let Some(part) = &mut self.part {
            part.second(interval, row);
        }
        self.stretch.add(&row.counts, row.in_flight);
        self.log.append(interval);
        self.thresholds.add(interval);
    }

    fn lease(&mut self, now: Nanos) -> Option<Nanos> {
        self.part.as_mut().map(|part| part.lease(now))
    }

    fn has_enough(&self) -> bool {
        self.thresholds.has_enough()
            || self.stretch.is_over()
            || self.part.as_ref().is_some_and(PartSeconds::is_over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of (attempts that ended, of those throttled, under way at the end).
    #[test]
    fn only_throttled_seconds_and_pauses_count_and_a_target_that_hangs_ends_them() {
        const THROTTLED: (u64, u64, u32) = (3, 3, 0);
        const PAUSED: (u64, u64, u32) = (0, 0, 0);
        const WAITING: (u64, u64, u32) = (0, 0, 2);
        for (seconds, stretch) in [
            (&[PAUSED, PAUSED][..], 0),
            (&[THROTTLED, PAUSED, PAUSED, THROTTLED], 4),
            (&[THROTTLED, (4, 3, 0), PAUSED], 0),
            (&[THROTTLED, WAITING, WAITING, WAITING], 1),
            (&[WAITING, THROTTLED, WAITING, (1, 1, 2)], 2),
            (&[THROTTLED, WAITING, (2, 0, 0), PAUSED], 0),
        ] {
            let mut all = ThrottledStretch::default();
            for &(attempts, throttled, in_flight) in seconds {
                let counts = SecondCounts {
                    attempts,
                    throttled,
                    ..SecondCounts::default()
                };
                all.add(&counts, in_flight);
            }
            assert_eq!(all.seconds, stretch, "{seconds:?}");
        }
    }
}
