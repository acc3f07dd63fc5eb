//! Settings that the probes of a search share: checks of the flags after `--`, and the flags of
//! each probe.

use std::time::Duration;

use crawlmark_harness::plan::{Arrivals, RequestObjective};
use crawlmark_harness::stats::Series;
use crawlmark_harness::units::grouped;
use crawlmark_results::run::gates::{Breach, Condition, Objective, Unit};
use crawlmark_results::run::report::Placement;
use crawlmark_results::studies::capacity::search::{Bounds, Pace, ProbeKind};
use crawlmark_results::studies::capacity::{Question, times_s};

use crate::cli::{Auto, CapacityArgs, arg, given_in_rounds};
use crate::crawl::redact;
use crate::error::Error;
use crate::run::{self, stranger};
use crate::study::{PORT, round_flags, understood, usage};

/// The greatest rate, unless one is given, of a target on this machine or in a private network, per
/// second.
const GREATEST: f64 = 100_000.0;

/// Default objectives. The first is for those who give none.
const OBJECTIVES: [&str; 3] = [
    "response_p99 < 500ms",
    "error_rate < 1%",
    "throttled_rate < 1%",
];

/// Flags of every probe. It is stopped at once where going on would show nothing more; throttling is
/// counted, because pauses and retries within a probe would change its rate.
const OWN: &str = "--on-throttle count --retries 0 --name probe --stop-unless error_rate<50% --stop-unless throttled_rate<50%";

/// Time for which a scout measures, and the most that it warms up.
const SCOUT: Duration = Duration::from_secs(1);
const SCOUT_WARMUP: Duration = Duration::from_millis(300);

/// Connections of a probe, unless the user says: what it may need, within these.
const FEWEST: u32 = 64;
const MOST: u32 = 4_096;

/// The longest of any of its times.
const LONGEST: Duration = Duration::from_hours(24);

/// Time for which requests may be in flight when no objective bounds it.
const UNBOUNDED: Duration = Duration::from_secs(1);

/// Source of the flags, as errors name it.
const WHOSE: &str = "the URL and the flags after --";

/// Arguments that a probe sets itself, or that would change its rate.
const TAKEN: [&str; 12] = [
    arg!(rate),
    arg!(duration),
    arg!(requests),
    arg!(warmup),
    arg!(arrivals),
    arg!(seed),
    arg!(burst),
    arg!(throttling.adaptive),
    arg!(per_host.per_host_rate),
    arg!(name),
    arg!(throttling.on_throttle),
    arg!(throttling.retries),
];

/// The last of them, which the probes of another study's search set for themselves.
const RETRYING: usize = 2;

/// The probes of a search.
#[derive(Debug)]
pub(super) struct Probing {
    words: Vec<String>,
    pub(super) question: Question,
    warmup: Duration,
    /// The user's, when the user says.
    connections: Option<u32>,
    /// Requests at a time on each of them.
    streams: u32,
    /// As many as there are shards, which need one each.
    fewest: u32,
    /// Requests that the user lets be under way at all hosts together.
    per_host: Option<u32>,
    has_grace: bool,
    /// The longest time that a request may be under way while the objectives hold.
    longest: Duration,
    pub(super) placement: Placement,
    /// True if each probe has a target of its own, without a memory of the last one.
    pub(super) starts_its_target: bool,
}

impl Probing {
    /// As typed, for a target that the command `starts` is started for each probe.
    ///
    /// # Errors
    /// When flags are none of `run`, or none that a probe can have; when a stranger's rate is not
    /// bounded.
    pub(super) fn new(args: &CapacityArgs, starts: Option<&str>) -> Result<Self, Error> {
        let mut words = args.run.clone();
        words.extend(args.url.clone());
        let retrying = if args.is_part { RETRYING } else { 0 };
        let taken = &TAKEN[..TAKEN.len() - retrying];
        let run = round_flags("capacity", WHOSE, &with_a_port(&words), taken)?;
        if !matches!(args.arrivals, Arrivals::Constant | Arrivals::Poisson) {
            return usage(format!(
                "--arrivals {} has no rate that can be searched: use constant or poisson",
                args.arrivals
            ));
        }
        if args.probe < SCOUT {
            return usage("--probe must be 1s or longer: shares are judged by the second");
        }
        if [args.probe, args.warmup, args.rest, args.budget]
            .iter()
            .any(|time| *time > LONGEST)
        {
            return usage("--probe, --warmup, --rest and --budget must be a day or less");
        }
        let (objectives, by_default) = objectives(args)?;
        let bounds = bounds(args, stranger(&run)?)?;
        let longest = longest(&objectives, &run.objective);
        let has_connections = given_in_rounds(&words).contains(&arg!(connections).to_owned());
        let mut probing = Self {
            question: Question {
                what: redact::words(&words).join(" "),
                objectives,
                by_default,
                arrivals: args.arrivals,
                bounds,
                warmup_s: args.warmup.as_secs_f64(),
                probe_s: args.probe.as_secs_f64(),
                seed: args.seed,
            },
            warmup: args.warmup,
            connections: has_connections.then_some(run.connections),
            streams: run.streams.unwrap_or(1),
            fewest: match run.shards {
                Auto::Auto => FEWEST,
                Auto::Exactly(shards) => FEWEST.max(shards),
            },
            per_host: None,
            has_grace: run.grace.is_some(),
            longest,
            placement: Placement::Apart,
            starts_its_target: starts.is_some() || run.is_bundled(),
            words,
        };
        probing.check()?;
        Ok(probing)
    }

    /// Refuses what `run` would refuse of a probe, and rates that there are too few items for;
    /// learns where its target is.
    fn check(&mut self) -> Result<(), Error> {
        let bounds = self.question.bounds;
        let words = self.words(1, bounds.least, ProbeKind::Full);
        let (plan, placement) = run::check(&understood("a probe", &with_a_port(&words))?)?;
        for condition in &self.question.objectives {
            let why = match condition.holds_at_rest() {
                _ if condition.group.is_some() => {
                    "objectives of a capacity are of all requests: leave out the group"
                }
                None => {
                    "it follows the rate of the probe, whatever the target does: name a share, as in `goodput_share > 99%`"
                }
                Some(false) => {
                    "it fails where the load is low: name what holds there, as in `error_rate < 1%`"
                }
                Some(true) => "",
            };
            if !why.is_empty() {
                return usage(format!("--threshold {condition}: {why}"));
            }
            let objective = Objective {
                condition: condition.clone(),
                breach: Breach::Fails,
            };
            let checked = objective.check(&plan);
            checked.map_err(|error| Error::Usage(error.to_string()))?;
        }
        self.placement = placement;
        let per_host = plan.per_host;
        self.per_host = per_host
            .connections
            .map(|each| each.saturating_mul(per_host.hosts));
        let items = plan.ids.len();
        let takes = self.takes(bounds.greatest, ProbeKind::Full).as_secs_f64();
        let bearable = Pace::within(items as f64 / takes);
        if bearable.is_some_and(|bearable| bearable >= bounds.greatest) {
            return Ok(());
        }
        let instead = bearable
            .filter(|bearable| *bearable >= bounds.least)
            .map_or_else(
                || "lower rates".to_owned(),
                |bearable| format!("--max-rate {bearable}"),
            );
        usage(format!(
            "{} items are too few for a probe of {takes} s at --max-rate {}, which requests each item once: add items (--ids), or use {instead}",
            grouped(items),
            bounds.greatest
        ))
    }

    /// Return the arguments of a probe: the user's flags, and its own.
    pub(super) fn words(&self, number: usize, pace: Pace, kind: ProbeKind) -> Vec<String> {
        let (warmup, measured) = self.times(pace, kind);
        let seed = u64::from(self.question.seed) + number as u64 - 1;
        let arrivals = match kind {
            ProbeKind::Random => Arrivals::Poisson,
            _ => self.question.arrivals,
        };
        let own = format!(
            "{OWN} --rate {pace} --arrivals {arrivals} --warmup {}ms --duration {}ms --seed {seed}",
            warmup.as_millis(),
            (warmup + measured).as_millis()
        );
        let connections = self.connections.map_or_else(
            || format!("--connections {}", self.fitting(pace)),
            |_| String::new(),
        );
        let grace = if self.has_grace {
            String::new()
        } else {
            let time = self.longest * 2 + Duration::from_secs(1);
            format!("--grace {}ms", time.as_millis())
        };
        let added = [own, connections, grace].join(" ");
        self.words
            .iter()
            .map(String::as_str)
            .chain(added.split_whitespace())
            .map(str::to_owned)
            .collect()
    }

    /// Warm-up and measured time.
    fn times(&self, pace: Pace, kind: ProbeKind) -> (Duration, Duration) {
        if kind == ProbeKind::Scout {
            return (self.warmup.min(SCOUT_WARMUP), SCOUT);
        }
        let (warmup, measured) = times_s(pace.per_s(), &self.question);
        let time = Duration::from_secs_f64;
        (time(warmup), time(measured))
    }

    /// About how long a probe takes.
    pub(super) fn takes(&self, pace: Pace, kind: ProbeKind) -> Duration {
        let (warmup, measured) = self.times(pace, kind);
        warmup + measured
    }

    /// Little's law: as many are under way as come in the time that each takes.
    fn under_way(&self, pace: Pace) -> f64 {
        pace.per_s() * self.longest.as_secs_f64()
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to what a u32 holds"
    )]
    fn fitting(&self, pace: Pace) -> u32 {
        let fitting = (self.under_way(pace) / f64::from(self.streams)).ceil();
        fitting.clamp(self.fewest.into(), MOST.max(self.fewest).into()) as u32
    }

    /// True if a probe of this rate has as many connections as requests can be under way while the
    /// objectives hold.
    pub(super) fn has_connections(&self, pace: Pace) -> bool {
        let open = self
            .connections
            .unwrap_or_else(|| self.fitting(pace))
            .saturating_mul(self.streams);
        f64::from(open.min(self.per_host.unwrap_or(u32::MAX))) >= self.under_way(pace)
    }
}

/// The words with a port for that which a target will have.
fn with_a_port(words: &[String]) -> Vec<String> {
    words.iter().map(|word| word.replace(PORT, "1")).collect()
}

/// Return the objectives, and true if they are all defaults. Throttled responses and errors are
/// bounded unless the user bounds them: times are those of good responses, and a target that
/// refuses half of the requests has the best of them.
fn objectives(args: &CapacityArgs) -> Result<(Vec<Condition>, bool), Error> {
    let slo = args.slo_p99;
    let mut all = args.threshold.clone();
    all.extend(slo.map(|most| Condition::p99_at_most(Series::ResponseOk, most)));
    all.extend(args.max_error_rate.clone());
    if let Some(windowed) = all.iter().find(|objective| objective.window.is_some()) {
        return usage(format!(
            "--threshold {windowed}: a probe is judged as a whole; leave the window out"
        ));
    }
    let by_default = all.is_empty();
    for default in &OBJECTIVES[usize::from(!by_default)..] {
        let default: Condition = default
            .parse()
            .map_err(|error| Error::Usage(format!("{default}: {error:?}")))?;
        if all.iter().all(|given| given.metric != default.metric) {
            all.push(default);
        }
    }
    Ok((all, by_default))
}

/// The longest time that these objectives, of all requests and of each, let a request be under way.
fn longest(of_all: &[Condition], of_each: &[RequestObjective]) -> Duration {
    let times = of_all
        .iter()
        .filter(|objective| objective.metric.unit() == Unit::Us)
        .map(|objective| Duration::from_secs_f64(objective.limit / 1e6));
    let of_each = of_each.iter().map(|it| Duration::from_nanos(it.below_ns));
    let most = times.chain(of_each).max().unwrap_or_default();
    if most.is_zero() { UNBOUNDED } else { most }
}

fn bounds(args: &CapacityArgs, stranger: Option<String>) -> Result<Bounds, Error> {
    let greatest = match (args.max_rate, stranger) {
        (Some(rate), _) => Pace::within(rate.per_second()),
        (None, None) => Some(Pace::nearest(GREATEST)),
        (None, Some(why)) => {
            return usage(format!(
                "{why}: say how far you may push it, for example --max-rate 100/s"
            ));
        }
    };
    let Some(greatest) = greatest else {
        return usage("--max-rate must be 1/min or more: rates are whole numbers per minute");
    };
    let least = Pace::nearest(args.from.per_second());
    if least > greatest {
        return usage(format!(
            "--from {least} is above --max-rate {greatest}: begin below it"
        ));
    }
    Ok(Bounds {
        least,
        greatest,
        precision: args.precision,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn probing(line: &[&str]) -> Result<Probing, Error> {
        let line = ["crawlmark", "capacity"]
            .into_iter()
            .chain(line.iter().copied());
        let Command::Capacity(args) = Cli::try_parse_from(line).unwrap().command else {
            panic!("not capacity")
        };
        Probing::new(&args, None)
    }

    #[test]
    fn a_probe_is_a_run_that_does_not_change_its_rate() {
        let probing = probing(&[
            "--slo-p99",
            "100ms",
            "--",
            "-s",
            "1",
            "--target-limit",
            "50/s",
        ])
        .unwrap();
        assert_eq!(
            probing.question.objectives.len(),
            3,
            "refusals and errors are bounded, too"
        );
        let pace = Pace::nearest(2_000.0);
        let run = understood("a probe", &probing.words(3, pace, ProbeKind::Full)).unwrap();
        assert_eq!(
            run.rate.map(|rate| rate.to_string()),
            Some("2000/s".to_owned())
        );
        assert_eq!(
            (run.duration, run.warmup),
            (Some(Duration::from_secs(5)), Some(Duration::from_secs(1)))
        );
        assert_eq!(
            (run.throttling.retries, run.seed, run.connections),
            (Some(0), 3, 200)
        );
        assert_eq!(run.throttling.on_throttle.name(), "count");
        assert!(probing.has_connections(pace));
        assert!(!probing.has_connections(Pace::nearest(90_000.0)));
    }

    #[test]
    fn what_the_user_bounds_is_this_sides_doing() {
        let pace = Pace::nearest(2_000.0);
        let bounded =
            probing(&["--slo-p99", "100ms", "--", "--per-host-connections", "50"]).unwrap();
        assert!(!bounded.has_connections(pace));
        let many = probing(&["--slo-p99", "100ms", "--", "-s", "128"]).unwrap();
        assert_eq!(
            many.fitting(Pace::nearest(1.0)),
            128,
            "each shard needs one"
        );
        assert!(probing(&["--max-rate", "200", "--", "--ids", "0..1000"]).is_ok());
    }

    #[test]
    fn an_objective_holds_where_the_load_is_low_and_breaks_where_it_is_high() {
        let is_taken = |text: &str| {
            let flags = ["--threshold", text, "--", "--objective", "response < 1s"];
            probing(&flags).is_ok()
        };
        for text in [
            "service_p99 < 1s",
            "error_rate <= 100%",
            "errors == 0",
            "goodput_share > 99%",
            "ok_rate >= 95%",
            "rate_ratio > 0.99",
            "cpu_us_per_attempt < 1ms",
            "valid == true",
        ] {
            assert!(is_taken(text), "{text}");
        }
        for text in [
            "rate > 95/s",
            "rate < 95/s",
            "attempts_rate > 95/s",
            "goodput > 95/s",
            "ok >= 500",
            "attempts > 500",
            "not_attempted < 500",
            "service_p99 > 1s",
            "error_rate >= 1%",
            "errors > 0",
            "goodput_share < 99%",
            "ok_rate <= 95%",
            "valid == false",
        ] {
            assert!(!is_taken(text), "{text}");
        }
    }

    #[test]
    fn what_is_saved_of_the_flags_holds_no_secret() {
        let probing = probing(&["http://127.0.0.1/?key=hush", "--", "-H", "cookie: hush"]).unwrap();
        assert!(
            !probing.question.what.contains("hush"),
            "{}",
            probing.question.what
        );
    }
}
