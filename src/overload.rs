//! `crawlmark overload`: 0.7 times the capacity, 1.5 times, and 0.7 times again.
//!
//! It searches the capacity and runs the stages; `crawlmark_results::studies::overload` judges the
//! seconds.

use std::path::PathBuf;
use std::time::Duration;

use crawlmark_harness::plan::MAX_RETRIES;
use crawlmark_results::run::report::Report;
use crawlmark_results::run::result_dir;
use crawlmark_results::studies::overload::{LOADS, Overload, OverloadQuestion};
use crawlmark_results::studies::{Header, StudyResult};

use crate::capacity::{capacity_args, search};
use crate::cli::{CapacityArgs, OverloadArgs, arg, bearer_variable, given_in_rounds};
use crate::crawl::redact;
use crate::error::Error;
use crate::study::{self, AROUND, ROUNDS, Rounds, Study, minutes, round_flags, usage};
use crate::subject::Crawl;

/// Source of the flags, as errors name it.
const WHOSE: &str = "the URL and the flags after --";

/// Flags that the run sets itself, or that would change its rate.
const TAKEN: [&str; 8] = [
    arg!(rate),
    arg!(requests),
    arg!(duration),
    arg!(warmup),
    arg!(burst),
    arg!(throttling.adaptive),
    arg!(per_host.per_host_rate),
    arg!(name),
];

/// Connections, unless the user says: twice as many as requests may be in flight, so that none waits
/// for one if the clients are late, within these.
const CONNECTIONS: [f64; 2] = [64.0, 4_096.0];

/// Requests of a stage, at least.
const FEWEST: f64 = 10.0;

/// Overload a target, and return the exit code.
pub(crate) fn overload(args: &OverloadArgs) -> Result<u8, Error> {
    let mut words: Vec<String> = args.url.iter().cloned().collect();
    words.extend(args.run.iter().cloned());
    let typed = round_flags("overload", WHOSE, &words, &TAKEN)?;
    let given = given_in_rounds(&args.run);
    for (name, word) in [
        (arg!(arrivals), "--arrivals=constant"),
        (arg!(throttling.on_throttle), "--on-throttle=ignore"),
    ] {
        if !given.iter().any(|of| of == name) {
            words.push(word.to_owned());
        }
    }
    words.extend(["--retries-on-top", "--warmup=0s"].map(str::to_owned));
    let mut capacity = None;
    if args.capacity.is_none() {
        let Some(mut flags) = shlex::split(&args.search) else {
            return usage(format!("--search {}: a quote is open", args.search));
        };
        flags.extend(args.url.iter().cloned());
        flags.push("--".to_owned());
        flags.extend(args.run.iter().cloned());
        capacity = Some(capacity_args(flags, None)?);
    }
    let within = args.within.unwrap_or(args.during).max(2);
    if args.after < within {
        return usage(format!(
            "--after {}s is too short: give at least {within}s, or a shorter --within (by default --during)",
            args.after
        ));
    }
    let attempts = 1 + typed.throttling.retries.unwrap_or(MAX_RETRIES);
    let study = OverloadStudy {
        capacity,
        in_flight_s: typed.timeout.as_secs_f64() * f64::from(attempts),
        connections: given
            .iter()
            .any(|of| of == arg!(connections))
            .then_some(typed.connections),
        words,
        ran: None,
        args,
    };
    // Before anything is searched, at the lowest capacity that may be found.
    let least = study.capacity.as_ref().map(|search| search.from);
    let least_per_s = args
        .capacity
        .or(least)
        .map_or(0.0, |rate| rate.per_second());
    study.check_lengths(least_per_s)?;
    study.crawl(least_per_s)?;
    study::conduct(study, &args.keep, "overload")
}

/// The search and the run.
struct OverloadStudy<'a> {
    args: &'a OverloadArgs,
    /// Search of the capacity; none if it was given.
    capacity: Option<CapacityArgs>,
    /// Flags of the run without its rate.
    words: Vec<String>,
    /// Time for which a request and its retries may be in flight together.
    in_flight_s: f64,
    /// The user's, when the user says.
    connections: Option<u32>,
    ran: Option<(OverloadQuestion, Report, String)>,
}

impl Study for OverloadStudy<'_> {
    type Result = Overload;

    const NEEDS: &'static str = "the overload sent a request";

    fn announcement(&self) -> String {
        let after = if self.capacity.is_some() {
            ", once its capacity is found"
        } else {
            ""
        };
        format!(
            "overloading {} for {} s of {}{after}",
            self.args
                .url
                .as_deref()
                .map_or_else(|| "the bundled target".to_owned(), redact::url),
            self.args.during,
            minutes(self.takes())
        )
    }

    fn run(&mut self, rounds: &mut Rounds<'_>) -> Result<(), Error> {
        let capacity_per_s = match &self.capacity {
            None => self.args.capacity.map_or(0.0, |rate| rate.per_second()),
            Some(args) => {
                let found = search(rounds, args, None, ROUNDS)?;
                let per_s = found.as_ref().and_then(|found| found.capacity_per_s);
                per_s.ok_or_else(|| {
                    let why = found.and_then(|found| found.notices().into_iter().next());
                    let why = why.map_or("No probe was complete".to_owned(), |it| it.sentence());
                    Error::Round(format!(
                        "find the capacity: {why} Flags of the search go into --search; or give the --capacity"
                    ))
                })?
            }
        };
        rounds.begin(
            "overload",
            "0.7, 1.5 and 0.7 times the capacity",
            self.takes(),
        );
        let crawl = self.crawl(capacity_per_s)?;
        let result = format!("{ROUNDS}/overload");
        let (report, stopped) = match rounds.run(&crawl.setup, &PathBuf::from(&result)) {
            Ok(round) => (round.by_the_clock("the overload")?.report, None),
            Err(Error::Stopped(signal)) => {
                // What is known of it, if it sent anything.
                let Ok(report) = result_dir::read(&rounds.place().join(&result)) else {
                    return Err(Error::Stopped(signal));
                };
                (report, Some(signal))
            }
            Err(error) => return Err(error),
        };
        let question = OverloadQuestion {
            command: self.command(capacity_per_s),
            capacity_per_s,
            searched: self.capacity.is_some(),
            offered_per_s: LOADS.map(|load| load * capacity_per_s),
            stages_s: self.stages_s(),
            within_s: self.args.within.unwrap_or(self.args.during),
            connections: report.plan.run.in_flight(),
            objectives: report.plan.run.objectives.clone(),
        };
        self.ran = Some((question, report, result));
        stopped.map_or(Ok(()), |signal| Err(Error::Stopped(signal)))
    }

    fn result(&mut self, header: Header) -> Result<Option<Overload>, Error> {
        Ok(self
            .ran
            .take()
            .map(|(question, report, result)| Overload::new(header, question, &report, result)))
    }
}

impl OverloadStudy<'_> {
    const fn stages_s(&self) -> [u64; 3] {
        [self.args.before, self.args.during, self.args.after]
    }

    fn takes(&self) -> Duration {
        Duration::from_secs(self.stages_s().iter().sum()) + AROUND
    }

    /// Refuse stages that would have too few requests at this capacity.
    fn check_lengths(&self, capacity_per_s: f64) -> Result<(), Error> {
        let [before_s, during_s, after_s] = self.stages_s().map(|s| s as f64);
        let shortest_s = (LOADS[0] * before_s.min(after_s)).min(LOADS[1] * during_s);
        if capacity_per_s * shortest_s >= FEWEST {
            return Ok(());
        }
        let flag = match self.capacity {
            Some(_) => "a --search with --from",
            None => "a --capacity of",
        };
        usage(format!(
            "a stage would have fewer than {FEWEST} requests at a capacity of {capacity_per_s:.2}/s: give longer stages, or {flag} {}/s or more",
            (FEWEST / shortest_s).ceil()
        ))
    }

    /// The run at this capacity.
    fn crawl(&self, capacity_per_s: f64) -> Result<Crawl, Error> {
        let stages: Vec<String> = LOADS
            .iter()
            .zip(self.stages_s())
            .map(|(load, s)| {
                format!(
                    "{}/min@{s}s",
                    (load * capacity_per_s * 60.0).round().max(1.0)
                )
            })
            .collect();
        let mut words = self.words.clone();
        words.push(format!("--rate={}", stages.join(", ")));
        words.push(format!(
            "--duration={}s",
            self.stages_s().iter().sum::<u64>()
        ));
        if self.connections.is_none() {
            let [fewest, most] = CONNECTIONS;
            let fitting = 2.0 * LOADS[1] * capacity_per_s * self.in_flight_s;
            words.push(format!(
                "--connections={}",
                fitting.ceil().clamp(fewest, most)
            ));
        }
        let mut crawl = Crawl::new(
            "the overload".to_owned(),
            "overload",
            WHOSE,
            words,
            [None; 2],
        )?;
        crawl.setup.tokens.extend(bearer_variable(&self.args.run));
        Ok(crawl)
    }

    /// The command line that repeats it, without secrets.
    fn command(&self, capacity_per_s: f64) -> Vec<String> {
        let mut words = vec!["crawlmark".to_owned(), "overload".to_owned()];
        words.extend(self.args.url.as_deref().map(redact::url));
        let [before, during, after] = self.stages_s();
        words.extend([
            format!("--capacity={}/min", (capacity_per_s * 60.0).round()),
            format!("--before={before}s"),
            format!("--during={during}s"),
            format!("--after={after}s"),
        ]);
        words.extend(self.args.within.map(|s| format!("--within={s}s")));
        words.push("--".to_owned());
        words.extend(redact::words(&self.args.run));
        words
    }
}
