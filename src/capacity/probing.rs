//! Settings that the probes of a search share: checks of the flags after `--`, and the flags of
//! each probe.

use std::time::Duration;

use crawlmark_harness::plan::Arrivals;
use crawlmark_harness::stats::Series;
use crawlmark_harness::units::grouped;
use crawlmark_results::run::gates::{Breach, Condition, Objective, Unit};
use crawlmark_results::run::report::Placement;
use crawlmark_results::studies::capacity::search::{Bounds, Pace, ProbeKind};
use crawlmark_results::studies::capacity::{Question, offered, times_s};

use crate::cli::{Auto, CapacityArgs, given_in_rounds};
use crate::crawl::redact;
use crate::error::Error;
use crate::run::{self, stranger};
use crate::study::{round_flags, understood, usage};

/// The greatest rate, unless one is given, of a target on this machine or in a private network, per
/// second.
const GREATEST: f64 = 100_000.0;

/// Default objectives.
const OBJECTIVES: [&str; 3] = [
    "response_p99 < 500ms",
    "error_rate < 1%",
    "throttled_rate < 1%",
];

/// Conditions that stop a probe at once: going on would show nothing more.
const GUARDS: [&str; 2] = ["error_rate < 50%", "throttled_rate < 50%"];

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

/// Arguments that a probe sets itself, each with the reason why it is not allowed after `--`.
const TAKEN: [(&str, &str); 12] = [
    (
        "rate",
        "--rate is set by the search (see --from and --max-rate)",
    ),
    ("duration", "-d is set by --probe and --warmup"),
    ("requests", "-n would end a probe early (see --probe)"),
    ("warmup", "-w goes before --"),
    ("arrivals", "--arrivals goes before --"),
    ("seed", "--seed goes before --"),
    ("burst", "an open loop has no --burst"),
    (
        "on_throttle",
        "--on-throttle is always count, because a pause within a probe would change the rate (the search pauses between probes)",
    ),
    (
        "retries",
        "--retries is always 0, because retries would change the rate",
    ),
    ("adaptive", "--adaptive would change the rate"),
    (
        "per_host_rate",
        "--per-host-rate would limit the rate (see --max-rate)",
    ),
    ("name", "--name goes before --"),
];

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
    pub(super) placement: Placement,
    /// True if each probe has a target of its own, without a memory of the last one.
    pub(super) starts_its_target: bool,
}

impl Probing {
    /// As typed.
    ///
    /// # Errors
    /// When flags are none of `run`, or none that a probe can have; when a stranger's rate is not
    /// bounded.
    pub(super) fn new(args: &CapacityArgs) -> Result<Self, Error> {
        let mut words = args.run.clone();
        words.extend(args.url.clone());
        let run = round_flags(WHOSE, &words, &TAKEN)?;
        let given = given_in_rounds(&words);
        if !matches!(args.arrivals, Arrivals::Constant | Arrivals::Poisson) {
            let why = if args.arrivals.gaps().is_none() {
                "is a closed loop, which waits for its target"
            } else {
                "has times of its own"
            };
            return usage(format!(
                "--arrivals {} {why}: use constant or poisson",
                args.arrivals
            ));
        }
        if args.probe < SCOUT {
            return usage(
                "--probe must be 1s or longer: shares are judged by the second".to_owned(),
            );
        }
        for (flag, time) in [
            ("--probe", args.probe),
            ("--warmup", args.warmup),
            ("--rest", args.rest),
            ("--budget", args.budget),
        ] {
            if time > LONGEST {
                return usage(format!("{flag} must be a day or less"));
            }
        }
        let (objectives, by_default) = objectives(args)?;
        let bounds = bounds(args, stranger(&run)?)?;
        let fewest = match run.shards {
            Auto::Auto => FEWEST,
            Auto::Exactly(shards) => FEWEST.max(shards),
        };
        let what = redact::words(&words).join(" ");
        let mut probing = Self {
            question: Question {
                what,
                objectives,
                by_default,
                arrivals: args.arrivals,
                bounds,
                warmup_s: args.warmup.as_secs_f64(),
                probe_s: args.probe.as_secs_f64(),
                seed: args.seed,
            },
            warmup: args.warmup,
            connections: given
                .iter()
                .any(|given| given == "connections")
                .then_some(run.connections),
            streams: run.streams.unwrap_or(1),
            fewest,
            per_host: None,
            has_grace: run.grace.is_some(),
            placement: Placement::Apart,
            starts_its_target: run.is_bundled(),
            words,
        };
        probing.check(args.max_rate.is_some())?;
        Ok(probing)
    }

    /// Refuses what `run` would refuse of a probe, and rates that there are too few items for;
    /// learns where its target is.
    fn check(&mut self, has_max_rate: bool) -> Result<(), Error> {
        let Bounds {
            least, greatest, ..
        } = self.question.bounds;
        let words = self.words(1, least, ProbeKind::Full);
        let (plan, placement) = run::check(understood("a probe", &words)?)?;
        for condition in &self.question.objectives {
            let objective = Objective {
                condition: *condition,
                breach: Breach::Fails,
            };
            objective
                .check(&plan)
                .map_err(|error| Error::Usage(error.to_string()))?;
        }
        self.placement = placement;
        self.per_host = plan
            .per_host
            .connections
            .map(|each| each.saturating_mul(plan.per_host.hosts));
        let items = plan.ids.len();
        let takes = self.takes(greatest, ProbeKind::Full).as_secs_f64();
        let bearable = Pace::within(items as f64 / takes);
        if bearable.is_some_and(|bearable| bearable >= greatest) {
            return Ok(());
        }
        let instead = bearable.filter(|bearable| *bearable >= least);
        let instead = instead.map_or_else(
            || "lower rates".to_owned(),
            |bearable| format!("--max-rate {bearable}"),
        );
        let default = if has_max_rate {
            ""
        } else {
            " (the default of --max-rate)"
        };
        Err(Error::Usage(format!(
            "{} items are too few for a probe of {takes} s at {}{default}, which requests each item once: add items (--ids), or use {instead}",
            grouped(items),
            offered(greatest)
        )))
    }

    /// Return the arguments of a probe: the user's flags, and its own.
    pub(super) fn words(&self, number: usize, pace: Pace, kind: ProbeKind) -> Vec<String> {
        let (warmup, measured) = self.times(pace, kind);
        let ms = |time: Duration| format!("{}ms", time.as_millis());
        let seed = u64::from(self.question.seed) + number as u64 - 1;
        let own = [
            ("--rate", pace.to_string()),
            ("--arrivals", self.question.arrivals.name().to_owned()),
            ("--warmup", ms(warmup)),
            ("--duration", ms(warmup + measured)),
            ("--on-throttle", "count".to_owned()),
            ("--retries", "0".to_owned()),
            ("--seed", seed.to_string()),
            ("--name", "probe".to_owned()),
        ];
        let mut words = self.words.clone();
        words.extend(
            own.into_iter()
                .flat_map(|(flag, value)| [flag.to_owned(), value]),
        );
        words.extend(
            GUARDS
                .iter()
                .flat_map(|guard| ["--stop-if".to_owned(), (*guard).to_owned()]),
        );
        if self.connections.is_none() {
            words.extend(["--connections".to_owned(), self.fitting(pace).to_string()]);
        }
        if !self.has_grace {
            words.extend([
                "--grace".to_owned(),
                ms(self.longest() * 2 + Duration::from_secs(1)),
            ]);
        }
        words
    }

    /// Warm-up and measured time.
    fn times(&self, pace: Pace, kind: ProbeKind) -> (Duration, Duration) {
        match kind {
            ProbeKind::Full => {
                let (warmup, measured) = times_s(pace.per_s(), &self.question);
                (
                    Duration::from_secs_f64(warmup),
                    Duration::from_secs_f64(measured),
                )
            }
            ProbeKind::Scout => (self.warmup.min(SCOUT_WARMUP), SCOUT),
        }
    }

    /// About how long a probe takes.
    pub(super) fn takes(&self, pace: Pace, kind: ProbeKind) -> Duration {
        let (warmup, measured) = self.times(pace, kind);
        warmup + measured
    }

    /// The longest time that a request may be under way while the objectives hold.
    fn longest(&self) -> Duration {
        let times = self
            .question
            .objectives
            .iter()
            .filter(|objective| objective.metric.unit() == Unit::Us);
        let most = times.map(|objective| objective.limit).fold(0.0, f64::max);
        if most > 0.0 {
            Duration::from_secs_f64(most / 1e6)
        } else {
            UNBOUNDED
        }
    }

    /// Little's law: as many are under way as come in the time that each takes.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to what a u32 holds"
    )]
    fn fitting(&self, pace: Pace) -> u32 {
        (pace.per_s() * self.longest().as_secs_f64() / f64::from(self.streams))
            .ceil()
            .clamp(f64::from(self.fewest), f64::from(MOST.max(self.fewest))) as u32
    }

    /// True if a probe of this rate has as many connections as requests can be under way while the
    /// objectives hold.
    pub(super) fn has_connections(&self, pace: Pace) -> bool {
        let open = self.connections.unwrap_or_else(|| self.fitting(pace));
        let open = open.saturating_mul(self.streams);
        let at_hand = f64::from(self.per_host.map_or(open, |most| open.min(most)));
        at_hand >= pace.per_s() * self.longest().as_secs_f64()
    }
}

/// Return the objectives, and true if they are all defaults. Throttled responses and errors are
/// bounded unless the user bounds them: times are those of good responses, and a target that
/// refuses half of the requests has the best of them.
fn objectives(args: &CapacityArgs) -> Result<(Vec<Condition>, bool), Error> {
    let slo = args
        .slo_p99
        .map(|most| Condition::p99_at_most(Series::ResponseOk, most));
    let typed: Vec<Condition> = args
        .threshold
        .iter()
        .copied()
        .chain(slo)
        .chain(args.max_error_rate)
        .collect();
    if let Some(windowed) = typed.iter().find(|objective| objective.window.is_some()) {
        return usage(format!(
            "--threshold {windowed}: a probe is judged as a whole; leave the window out"
        ));
    }
    let parsed = OBJECTIVES.iter().map(|text| {
        text.parse()
            .map_err(|error| Error::Usage(format!("{text}: {error:?}")))
    });
    let defaults: Vec<Condition> = parsed.collect::<Result<_, _>>()?;
    if typed.is_empty() {
        return Ok((defaults, true));
    }
    let missing: Vec<Condition> = defaults
        .into_iter()
        .filter(|default| {
            default.metric.unit() == Unit::Share
                && typed.iter().all(|typed| typed.metric != default.metric)
        })
        .collect();
    Ok((typed.into_iter().chain(missing).collect(), false))
}

fn bounds(args: &CapacityArgs, stranger: Option<String>) -> Result<Bounds, Error> {
    let greatest = match (args.max_rate, stranger) {
        (Some(rate), _) => Pace::within(rate.per_second()).ok_or_else(|| {
            Error::Usage(
                "--max-rate must be 1/min or more: rates are whole numbers per minute".to_owned(),
            )
        })?,
        (None, None) => Pace::nearest(GREATEST),
        (None, Some(why)) => {
            return usage(format!(
                "{why}: say how far you may push it, for example --max-rate 100/s"
            ));
        }
    };
    let least = Pace::nearest(args.from.per_second());
    if least > greatest {
        let most = if args.max_rate.is_some() {
            "--max-rate"
        } else {
            "the greatest rate unless --max-rate is given,"
        };
        return usage(format!(
            "--from {least} is above {most} {greatest}: begin below it"
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
        Probing::new(&args)
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
    fn what_is_saved_of_the_flags_holds_no_secret() {
        let probing = probing(&["http://127.0.0.1/?key=hush", "--", "-H", "cookie: hush"]).unwrap();
        assert!(
            !probing.question.what.contains("hush"),
            "{}",
            probing.question.what
        );
    }
}
