//! `crawlmark arena`: rounds of all entries in random order, until their ranks are settled.
//!
//! It runs rounds and shows progress; `crawlmark_results::studies::arena` judges them.

use std::collections::BTreeSet;
use std::fs;
use std::mem;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crawlmark_harness::plan::{RequestObjective, RequestTime};
use crawlmark_results::run::report::{Environment, Report};
use crawlmark_results::show::text::{decimal, micros};
use crawlmark_results::studies::arena::{
    Answer, Arena, ArenaContext, ArenaRound, CurvePoint, Entry, EntryCapacity, EntryCheck, LOOKS,
    Standings, order,
};
use crawlmark_results::studies::{Header, read_study};

use crate::capacity::{capacity_args, search};
use crate::cli::{ArenaArgs, CapacityArgs, LONGEST, SHORTEST, arg, bearer_variable, parse_entry};
use crate::crawl::redact;
use crate::dataset::export::export;
use crate::dataset::line::ItemState;
use crate::dataset::manifest::Manifest;
use crate::dataset::record::{SavedBody, SavedRecord};
use crate::dataset::saved::SavedCrawl;
use crate::error::Error;
use crate::study::{
    self, AROUND, PORT, ROUNDS, Rounds, Setup, Study, minutes, printed_within, round_flags, usage,
};
use crate::subject::Crawl;

/// Source of the flags, as errors name it.
const WHOSE: &str = "the flags after --";

/// Flags that a run sets itself, or that would change its rate.
const TAKEN: [&str; 8] = [
    arg!(rate),
    arg!(requests),
    arg!(duration),
    arg!(warmup),
    arg!(arrivals),
    arg!(throttling.adaptive),
    arg!(per_host.per_host_rate),
    arg!(name),
];

/// The most entries: as many letters as there are.
const MOST: usize = 26;

/// Requests of a check.
const REQUESTS: &str = "6";

/// Part of the slowest entry's rate at which times are compared.
const HALF: f64 = 0.5;

/// The part of a run's time that is sending.
const RUNS: u32 = 2;

/// Rank, and return the exit code.
pub(crate) fn arena(args: &ArenaArgs) -> Result<u8, Error> {
    let Some(place) = &args.add else {
        return conduct(args, None);
    };
    let saved: Arena = read_study(place)?;
    conduct(&as_before(&saved, args)?, Some(saved))
}

/// The arguments that measure as a saved arena did. Of what stands in its file, which may be from
/// anybody, numbers are taken, and no command, URL or flag.
fn as_before(saved: &Arena, args: &ArenaArgs) -> Result<ArenaArgs, Error> {
    let of = &saved.context;
    let [duration, warmup] =
        [of.measured_s, of.warmup_s].map(|s| Duration::try_from_secs_f64(s).unwrap_or_default());
    if !(SHORTEST..=LONGEST).contains(&duration) || warmup > LONGEST {
        return usage(format!(
            "--add: the arena measured {} s after a warm-up of {} s: measure it again",
            of.measured_s, of.warmup_s
        ));
    }
    let rounds = saved.last_round().min(args.rounds);
    Ok(ArenaArgs {
        duration,
        warmup,
        rounds,
        seed: of.seed,
        ..args.clone()
    })
}

/// Refuse entries that cannot be measured beside two of a saved arena: these are typed again.
fn check_added(saved: &Arena, entries: &[Competitor]) -> Result<(), Error> {
    let Some(anchors) = saved.anchors() else {
        return usage("--add: the arena has fewer than two ranked entries: measure it again");
    };
    let names: Vec<&String> = entries.iter().map(|of| &of.entry.name).collect();
    if let Some(missing) = anchors.iter().find(|name| !names.contains(name)) {
        return usage(format!(
            "--add: give {} and {} again, beside which others are measured, as --entry '{missing}=...': no command of a file is executed",
            anchors[0], anchors[1]
        ));
    }
    let known: Vec<&String> = saved.entries.iter().map(|of| &of.entry.name).collect();
    if let Some(name) = names
        .iter()
        .find(|name| known.contains(name) && !anchors.contains(name))
    {
        return usage(format!(
            "--entry {name}: the arena has an entry with this name"
        ));
    }
    if names.len() == anchors.len() {
        return usage("--add: give an entry that the arena does not have (--entry NAME=...)");
    }
    Ok(())
}

fn conduct(args: &ArenaArgs, saved: Option<Arena>) -> Result<u8, Error> {
    let competitors = competitors(args)?;
    let objectives = objectives(args)?;
    if let Some(saved) = &saved {
        check_added(saved, &competitors)?;
        if saved.context.objectives != objectives {
            return usage("--add: give the objectives of the arena (--objective), after --");
        }
    }
    let of_saved = saved.as_ref().and_then(|saved| saved.context.rate_per_s);
    let study = ArenaStudy {
        competitors,
        rate_per_s: of_saved
            .filter(|per_s| *per_s > 0.0)
            .or(args.rate.map(|rate| rate.per_second())),
        saved,
        objectives,
        rounds: Vec::new(),
        environment: None,
        args,
    };
    study::conduct(study, &args.keep, "arena")
}

/// The objectives of each request. A closed loop ranks, which has no response times.
fn objectives(args: &ArenaArgs) -> Result<Vec<RequestObjective>, Error> {
    let objectives = round_flags("arena", WHOSE, &args.run, &TAKEN)?.objective;
    let is_response = |it: &&RequestObjective| it.time == RequestTime::Response;
    match objectives.iter().find(is_response) {
        Some(of) => usage(format!(
            "--objective '{of}': servers are ranked in a closed loop, which has no response times; bound service or ttfb"
        )),
        None => Ok(objectives),
    }
}

/// The entries as typed.
fn competitors(args: &ArenaArgs) -> Result<Vec<Competitor>, Error> {
    let mut all = args.entry.clone();
    if let Some(file) = &args.entries {
        let text = fs::read_to_string(file)
            .map_err(|error| Error::Usage(format!("--entries {}: {error}", file.display())))?;
        for line in text.trim_start_matches('\u{feff}').lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let entry = parse_entry(line)
                .map_err(|why| Error::Usage(format!("--entries {}: {why}", file.display())))?;
            all.push(entry);
        }
    }
    let names: BTreeSet<&String> = all.iter().map(|(name, _)| name).collect();
    if !(2..=MOST).contains(&all.len()) || names.len() < all.len() {
        return usage(format!(
            "{} entries with {} names: give 2 to {MOST} entries, each with a name of its own (--entry NAME=...)",
            all.len(),
            names.len()
        ));
    }
    if let Some((name, _)) = args
        .version_of
        .iter()
        .find(|(name, _)| !names.contains(name))
    {
        return usage(format!("--version-of {name}: no entry has this name"));
    }
    all.iter()
        .map(|(name, what)| Competitor::new(name, what, args))
        .collect()
}

/// An entry, and how it is run.
struct Competitor {
    entry: Entry,
    crawl: Crawl,
    /// Search of its capacity.
    capacity: Option<CapacityArgs>,
}

impl Competitor {
    fn new(name: &str, what: &str, args: &ArenaArgs) -> Result<Self, Error> {
        let is_url = what.starts_with("http://") || what.starts_with("https://");
        let url = if is_url {
            what.to_owned()
        } else {
            format!(
                "http://127.0.0.1:{PORT}/{}",
                args.path.trim_start_matches('/')
            )
        };
        let target = Some(what).filter(|_| !is_url);
        let mut capacity = None;
        if let Some(flags) = &args.capacity {
            let Some(flags) = shlex::split(flags) else {
                return usage(format!("--capacity={flags}: a quote is open"));
            };
            let words = [flags, vec![url.clone(), "--".to_owned()], args.run.clone()];
            capacity = Some(capacity_args(words.concat(), target)?);
        }
        let mut words = vec![url];
        words.extend(args.run.iter().cloned());
        let lasts = args.warmup + args.duration;
        words.extend([
            format!("--warmup={:?}", args.warmup),
            format!("--duration={lasts:?}"),
        ]);
        let whose = format!("--entry {name} and {WHOSE}, together");
        let mut crawl = Crawl::new(
            name.to_owned(),
            "arena",
            &whose,
            words,
            [Some("--entry"), target],
        )?;
        crawl.setup.tokens.extend(bearer_variable(&args.run));
        let version = args.version_of.iter().find(|(of, _)| of == name);
        Ok(Self {
            entry: Entry {
                name: name.to_owned(),
                what: if is_url {
                    redact::url(what)
                } else {
                    redact::line(what)
                },
                version: version
                    .map(|(_, command)| first_line(command))
                    .transpose()?,
                ..Entry::default()
            },
            crawl,
            capacity,
        })
    }

    /// Its run with more flags.
    fn setup(&self, more: &[String]) -> Setup {
        let mut setup = self.crawl.setup.clone();
        setup.words.extend(more.iter().cloned());
        setup
    }
}

/// Time limit for a command that prints a version.
const VERSION_WITHIN: Duration = Duration::from_secs(10);

/// Return the first line that a command prints.
fn first_line(command: &str) -> Result<String, Error> {
    let printed = printed_within(VERSION_WITHIN, command)?.unwrap_or_default();
    let line = printed.lines().map(str::trim).find(|line| !line.is_empty());
    match line {
        Some(line) => Ok(redact::line(line).chars().take(100).collect()),
        None => usage(format!(
            "--version-of: `{}` has to print a line and end with exit code 0 within {} s",
            redact::line(command),
            VERSION_WITHIN.as_secs()
        )),
    }
}

/// The rounds.
struct ArenaStudy<'a> {
    args: &'a ArenaArgs,
    competitors: Vec<Competitor>,
    /// Arena to which they are added.
    saved: Option<Arena>,
    /// Objectives of each request.
    objectives: Vec<RequestObjective>,
    /// Rate at which times are compared; none before it is known.
    rate_per_s: Option<f64>,
    rounds: Vec<ArenaRound>,
    environment: Option<Environment>,
}

impl Study for ArenaStudy<'_> {
    type Result = Arena;

    const NEEDS: &'static str = "a round was complete";

    fn ready(&self) -> Duration {
        self.args.ready
    }

    fn announcement(&self) -> String {
        let names: Vec<&str> = self.competitors.iter().map(|of| &*of.entry.name).collect();
        let least = LOOKS[0].pairs.min(self.args.rounds);
        format!(
            "ranking {} in rounds in random order, {} at most; about {} for {least}",
            names.join(", "),
            self.args.rounds,
            minutes(self.takes().mul_f64(least as f64))
        )
    }

    fn run(&mut self, rounds: &mut Rounds<'_>) -> Result<(), Error> {
        for at in 0..self.competitors.len() {
            self.check(rounds, at)?;
        }
        for round in 1..=last_of(self.args.rounds) {
            let name = format!("round {round}");
            rounds.begin(&name, "", self.takes());
            let order = order(self.args.seed, self.competitors.len(), round);
            for at in &order {
                self.closed(rounds, round, *at)?;
            }
            let standings = self.standings();
            self.rate_per_s = self.rate_per_s.or_else(|| shared_rate(&standings));
            if let Some(per_s) = self.rate_per_s {
                for at in &order {
                    let folder = format!("{round:03}-{}-rate", self.competitors[*at].entry.name);
                    let report = self.offered(rounds, *at, &folder, per_s)?;
                    let entry = &mut self.competitors[*at].entry;
                    entry.fixed.get_or_insert_default().add(&report);
                }
            }
            rounds.stages.end(&name, &self.line(&standings));
            if standings.rounds_wanted == 0 && self.saved.is_none() {
                break;
            }
        }
        self.curves(rounds)?;
        self.capacities(rounds)
    }

    fn result(&mut self, header: Header) -> Result<Option<Arena>, Error> {
        let rounds = mem::take(&mut self.rounds);
        let command = self.command();
        let mut competitors = mem::take(&mut self.competitors);
        if let Some(saved) = self.saved.take() {
            competitors.retain(|of| {
                saved
                    .entries
                    .iter()
                    .all(|it| it.entry.name != of.entry.name)
            });
            let entries = competitors.into_iter().map(|of| of.entry);
            return Ok(Some(saved.with(header, entries.collect(), &rounds)));
        }
        Ok(self.environment.take().map(|environment| {
            let context = ArenaContext {
                header,
                command,
                measured_s: self.args.duration.as_secs_f64(),
                warmup_s: self.args.warmup.as_secs_f64(),
                rate_per_s: self.rate_per_s,
                objectives: mem::take(&mut self.objectives),
                seed: self.args.seed,
                environment,
            };
            let entries = competitors.into_iter().map(|of| of.entry);
            Arena::new(context, entries.collect(), rounds)
        }))
    }
}

/// The last round that is looked at, of so many.
fn last_of(rounds: usize) -> usize {
    LOOKS
        .iter()
        .map(|look| look.pairs)
        .rfind(|at| *at <= rounds)
        .unwrap_or(rounds)
}

/// Half of what the slowest entry answers, in two digits; none if none answers.
fn shared_rate(standings: &Standings) -> Option<f64> {
    let slowest = standings
        .each
        .iter()
        .filter_map(|of| of.per_s)
        .reduce(f64::min)?;
    let half = slowest * HALF;
    let digit = 10_f64.powf(half.log10().floor() - 1.0);
    Some(((half / digit).floor() * digit).max(1.0))
}

impl ArenaStudy<'_> {
    /// Expected duration of a round.
    fn takes(&self) -> Duration {
        let runs = RUNS * u32::try_from(self.competitors.len()).unwrap_or(u32::MAX);
        (self.args.warmup + self.args.duration + AROUND) * runs
    }

    fn standings(&self) -> Standings {
        let names: Vec<&str> = self.competitors.iter().map(|of| &*of.entry.name).collect();
        Standings::of(&names, &self.rounds)
    }

    /// The rates so far, the fastest first.
    fn line(&self, standings: &Standings) -> String {
        let mut rates: Vec<(f64, &str, &str)> = self
            .competitors
            .iter()
            .zip(&standings.each)
            .map(|(of, own)| (own.per_s.unwrap_or(0.0), &*of.entry.name, &*own.groups))
            .collect();
        rates.sort_by(|one, other| other.0.total_cmp(&one.0));
        let shown: Vec<String> = rates
            .into_iter()
            .map(|(per_s, name, groups)| {
                let groups = if standings.look.is_some() { groups } else { "" };
                format!("{name} {}/s {groups}", decimal(per_s))
                    .trim_end()
                    .to_owned()
            })
            .collect();
        shown.join(", ")
    }

    /// Look once at what an entry answers.
    fn check(&mut self, rounds: &mut Rounds<'_>, at: usize) -> Result<(), Error> {
        let of = &self.competitors[at];
        rounds.begin("check", &of.entry.name, AROUND);
        let folder = PathBuf::from("checks").join(&of.entry.name);
        let saved = rounds.place().join(&folder).with_extension("saved");
        let saved_to = format!("--save={}", saved.display());
        let words = [
            "--items",
            REQUESTS,
            "--warmup=0s",
            "-s",
            "1",
            "-c",
            "1",
            &saved_to,
        ];
        let report = rounds
            .run(&of.setup(&words.map(str::to_owned)), &folder)?
            .report;
        let check = EntryCheck::of(&report, answer(&saved));
        // What cannot be removed does no harm.
        let _ = fs::remove_dir_all(&saved);
        self.competitors[at].entry.check = Some(check);
        Ok(())
    }

    fn closed(&mut self, rounds: &mut Rounds<'_>, round: usize, at: usize) -> Result<(), Error> {
        let of = &self.competitors[at];
        let name = &of.entry.name;
        let result = format!("{ROUNDS}/{round:03}-{name}");
        let report = rounds
            .run(&of.setup(&[]), Path::new(&result))?
            .by_the_clock(name)?
            .report;
        self.rounds
            .push(ArenaRound::new(&report, round, name, result));
        self.environment.get_or_insert(report.environment);
        Ok(())
    }

    /// Run an entry in an open loop.
    fn offered(
        &self,
        rounds: &mut Rounds<'_>,
        at: usize,
        folder: &str,
        per_s: f64,
    ) -> Result<Report, Error> {
        let words = [
            format!("--rate={}/min", (per_s * 60.0).round()),
            "--arrivals=constant".to_owned(),
        ];
        let setup = self.competitors[at].setup(&words);
        Ok(rounds
            .run(&setup, &PathBuf::from(ROUNDS).join(folder))?
            .report)
    }

    /// Measure times at rates up to each entry's own.
    fn curves(&mut self, rounds: &mut Rounds<'_>) -> Result<(), Error> {
        let standings = self.standings();
        for step in 1..=self.args.curve {
            let name = format!("curve {step}/{}", self.args.curve);
            rounds.begin(&name, "latency at several rates", self.takes() / RUNS);
            for at in order(self.args.seed, self.competitors.len(), step) {
                let Some(own) = standings.each[at].per_s else {
                    continue;
                };
                let per_s = own * step as f64 / self.args.curve as f64;
                let folder = format!("curve-{step}-{}", self.competitors[at].entry.name);
                let report = self.offered(rounds, at, &folder, per_s)?;
                let point = CurvePoint::new(&report, per_s);
                self.competitors[at].entry.curve.push(point);
            }
            let times: Vec<String> = self
                .competitors
                .iter()
                .filter_map(|of| {
                    let p50_us = of.entry.curve.last()?.p50_us?;
                    Some(format!("{} p50 {}", of.entry.name, micros(p50_us)))
                })
                .collect();
            rounds.stages.end(&name, &times.join(", "));
        }
        Ok(())
    }

    /// Search the capacity of each entry, if that is wanted.
    fn capacities(&mut self, rounds: &mut Rounds<'_>) -> Result<(), Error> {
        for of in &mut self.competitors {
            let Some(args) = &of.capacity else { continue };
            let name = &of.entry.name;
            let folder = format!("{ROUNDS}/capacity-{name}");
            let target = of.crawl.setup.target.as_deref();
            let found = search(rounds, args, target, &folder)?;
            of.entry.capacity = found.map(|found| EntryCapacity {
                per_s: found.capacity_per_s,
                outcome: found.outcome,
            });
        }
        Ok(())
    }

    /// The command line that repeats it, without secrets.
    fn command(&self) -> Vec<String> {
        let args = self.args;
        let mut words = vec!["crawlmark".to_owned(), "arena".to_owned()];
        let mut add = |flag: &str, value: String| words.extend([flag.to_owned(), value]);
        for of in &self.competitors {
            add("--entry", format!("{}={}", of.entry.name, of.entry.what));
        }
        for (name, command) in &args.version_of {
            add("--version-of", format!("{name}={}", redact::line(command)));
        }
        add("--path", args.path.clone());
        add("-d", format!("{:?}", args.duration));
        add("-w", format!("{:?}", args.warmup));
        add("--seed", args.seed.to_string());
        add("--rounds", args.rounds.to_string());
        add("--curve", args.curve.to_string());
        add("--ready", format!("{:?}", args.ready));
        if let Some(rate) = &args.rate {
            add("--rate", rate.to_string());
        }
        if let Some(flags) = &args.capacity {
            words.push(format!("--capacity={}", redact::line(flags)));
        }
        words.push("--".to_owned());
        words.extend(redact::words(&args.run));
        words
    }
}

/// Return the first good response of a crawl that was saved; none without one.
fn answer(saved: &Path) -> Option<Answer> {
    let crawl = SavedCrawl::open(saved, Manifest::read(saved).ok()?).ok()?;
    let mut lines = Vec::new();
    export(&crawl, &mut lines).ok()?;
    let text = String::from_utf8(lines).ok()?;
    let record = text
        .lines()
        .filter_map(|line| SavedRecord::parse(line).ok())
        .find(|record| record.state() == ItemState::Good)?;
    let body = record.body().ok().flatten();
    Some(Answer {
        content_type: record
            .content_type
            .as_deref()
            .unwrap_or_default()
            .to_owned(),
        body_bytes: match body {
            None => 0,
            Some(SavedBody::Json(text)) => text.len() as u64,
            Some(SavedBody::Text(text)) => text.len() as u64,
            Some(SavedBody::Binary(bytes)) => bytes.len() as u64,
        },
    })
}
