//! Resolution of the arguments of `scale` into rounds, checked as a whole before anything is
//! started.

use std::collections::BTreeSet;
use std::time::Duration;

use crawlmark_harness::plan::MAX_CONNECTIONS;
use crawlmark_harness::process::usable_cpus;
use crawlmark_results::studies::scale::{FixedQuantity, Size};

use crate::cli::{Auto, RunArgs, ScaleArgs, given_in_rounds};
use crate::crawl::redact;
use crate::error::Error;
use crate::run;
use crate::study::{round_flags, understood, usage};

/// Default time for which a round sends.
const ROUND: Duration = Duration::from_secs(3);

/// The longest round: a longer one says no more, and there are many.
const LONGEST: Duration = Duration::from_hours(1);

/// Connections for each shard unless told otherwise.
const EACH: u32 = 32;

/// Default connections for each shard where waiting is the limit: few enough that 16 shards leave
/// the CPUs of a small machine idle.
const EACH_LATENCY_BOUND: u32 = 8;

/// The shards that are tried where CPU is not the limit.
const SHARDS_LATENCY_BOUND: [u32; 5] = [1, 2, 4, 8, 16];

/// Source of the flags, as errors name it.
const WHOSE: &str = "the flags after --";

/// Flags that a round may not have, by the names of their fields, and why.
const TAKEN: [(&str, &str); 6] = [
    (
        "rate",
        "--rate caps throughput, and scale asks how throughput grows",
    ),
    (
        "per_host_rate",
        "--per-host-rate caps throughput, and scale asks how throughput grows",
    ),
    (
        "adaptive",
        "--adaptive chooses the number of connections, which is set by each size",
    ),
    (
        "requests",
        "-n ends a run after a number of items, but rounds last a fixed time (-d)",
    ),
    (
        "shards",
        "`scale` varies --shards, which goes before --, as in --shards 1,2,4",
    ),
    (
        "connections",
        "`scale` varies --connections, which goes before --, as in --connections 8,16",
    ),
];

/// Prefix of every flag of the bundled target.
const TARGET: &str = "--target-";

/// Rounds that can be run.
#[derive(Debug)]
pub(super) struct ScaleSettings {
    /// Arguments of a round, except its size.
    pub(super) words: Vec<String>,
    /// Quantity that each curve holds fixed.
    pub(super) held: Vec<FixedQuantity>,
    /// Every size, each once.
    pub(super) sizes: Vec<Size>,
    /// Time for which a round sends.
    pub(super) round: Duration,
    /// Description of the target.
    pub(super) target: String,
    /// Processes of the bundled target; none of another one.
    pub(super) target_processes: Option<u32>,
}

impl ScaleSettings {
    /// Rounds as typed.
    ///
    /// # Errors
    /// When the flags do not fit together, or with rounds of this kind.
    pub(super) fn of(args: &ScaleArgs) -> Result<Self, Error> {
        let typed = round_flags(WHOSE, &args.run, &TAKEN)?;
        if typed.arrivals.gaps().is_some() {
            return usage(format!(
                "--arrivals sends at a rate of its own, and scale asks how throughput grows: remove it from {WHOSE}"
            ));
        }
        if args.latency_bound.is_some() && is_foreign(&typed) {
            return usage(
                "--latency-bound only works with the bundled target: remove the URL, or --latency-bound",
            );
        }
        let given = given_in_rounds(&args.run);
        let is_given = |name: &str| given.iter().any(|given| given == name);
        if args.duration.is_some() && is_given("duration") {
            return usage("-d is given twice: before -- and after it");
        }
        if args.latency_bound.is_some() && is_given("target_latency") {
            return usage("--latency-bound is --target-latency by another name: give one of them");
        }
        let cores = u32::try_from(usable_cpus().len())
            .unwrap_or(u32::MAX)
            .max(1);
        let (held, sizes) = sizes(args, cores)?;
        let mut words = args.run.clone();
        words.splice(0..0, args.url.iter().cloned());
        let typed = understood("the URL and the flags after --", &words)?;
        let round = typed.duration.or(args.duration).unwrap_or(ROUND);
        if round > LONGEST {
            return usage(format!(
                "-d {} is too long for a round: {} at most",
                time(round),
                time(LONGEST)
            ));
        }
        if typed.duration.is_none() {
            words.extend(["-d".to_owned(), time(round)]);
        }
        if let Some(hold) = args.latency_bound {
            words.extend([format!("{TARGET}latency"), time(hold)]);
        }
        // What makes the target other than one that answers at once.
        let kind: Vec<String> = kind(&words);
        let target_processes = (!is_foreign(&typed)).then(|| match typed.target_processes {
            Auto::Auto => (cores / 2).max(1),
            Auto::Exactly(processes) => u32::try_from(processes.get()).unwrap_or(u32::MAX),
        });
        let name = "target_processes".to_owned();
        if let Some(processes) =
            target_processes.filter(|_| !given_in_rounds(&words).contains(&name))
        {
            words.extend(["--target-processes".to_owned(), processes.to_string()]);
        }
        let asked = Self {
            target: target(&typed, &kind, target_processes),
            words,
            held,
            sizes,
            round,
            target_processes,
        };
        asked.check()?;
        Ok(asked)
    }

    /// Refuses what `run` would refuse of a round.
    fn check(&self) -> Result<(), Error> {
        let at = |size: Size, more: &[&str]| {
            let words = super::sized(&self.words, size)
                .into_iter()
                .chain(more.iter().map(|word| (*word).to_owned()));
            run::check(understood(WHOSE, &words.collect::<Vec<_>>())?).map(drop)
        };
        for size in &self.sizes {
            let Err(error) = at(*size, &[]) else { continue };
            // That a rate would help is the one thing that cannot be said here.
            return match at(*size, &["--rate", "1M/s"]) {
                Ok(()) => usage(
                    "the target is neither on this machine nor in a private network, and scale sends requests as fast as it can: use \
                     a target of your own, or the bundled one (no URL)"
                        .to_owned(),
                ),
                Err(_) => Err(error),
            };
        }
        Ok(())
    }
}

/// A time as flags have it, in the largest unit that it is whole in: `3s`, `50ms`.
pub(super) fn time(time: Duration) -> String {
    match time.as_micros() {
        us if us.is_multiple_of(1_000_000) => format!("{}s", us / 1_000_000),
        us if us.is_multiple_of(1_000) => format!("{}ms", us / 1_000),
        us => format!("{us}us"),
    }
}

/// True if it is not the bundled target that is crawled.
const fn is_foreign(typed: &RunArgs) -> bool {
    !typed.is_bundled()
}

/// Return the quantity that each curve holds fixed, and all sizes.
fn sizes(args: &ScaleArgs, cores: u32) -> Result<(Vec<FixedQuantity>, Vec<Size>), Error> {
    let shards = list("--shards", &args.shards)?;
    let connections = list("--connections", &args.connections)?;
    let shards = match (&*shards, connections.len()) {
        ([], 2..) => vec![(cores / 2).max(1)],
        ([], _) if args.latency_bound.is_some() => SHARDS_LATENCY_BOUND.to_vec(),
        ([], _) => up_to(cores),
        _ => shards,
    };
    let each = if args.latency_bound.is_some() {
        EACH_LATENCY_BOUND
    } else {
        EACH
    };
    let each = args.connections_per_shard.unwrap_or(each);
    let held = match (&*shards, &*connections) {
        (_, []) => vec![FixedQuantity::ConnectionsPerShard(each)],
        ([one], [_, _, ..]) => vec![FixedQuantity::Shards(*one)],
        (_, all) => all
            .iter()
            .copied()
            .map(FixedQuantity::Connections)
            .collect(),
    };
    let mut sizes = Vec::new();
    for shards in shards {
        let all = match &*connections {
            [] => vec![u64::from(shards) * u64::from(each)],
            given => given.iter().copied().map(u64::from).collect(),
        };
        for connections in all {
            let fitting = u32::try_from(connections).ok();
            let Some(connections) = fitting.filter(|all| *all <= MAX_CONNECTIONS) else {
                return usage(format!(
                    "{connections} connections are too many with --shards {shards}: {MAX_CONNECTIONS} at most in all"
                ));
            };
            if connections < shards {
                return usage(format!(
                    "--connections {connections} is too few for --shards {shards}: each shard needs one"
                ));
            }
            sizes.push(Size {
                shards,
                connections,
            });
        }
    }
    if sizes.len() < 2 {
        return usage(
            "one size has nothing to be compared with: give --shards or --connections as a list, as in 1,2,4"
                .to_owned(),
        );
    }
    Ok((held, sizes))
}

/// A list, the least first.
fn list(flag: &str, given: &[u32]) -> Result<Vec<u32>, Error> {
    let mut seen = BTreeSet::new();
    match given.iter().find(|number| !seen.insert(**number)) {
        Some(twice) => usage(format!(
            "{flag} has {twice} twice: a size is tried once per repeat, see --repeats"
        )),
        None => Ok(seen.into_iter().collect()),
    }
}

/// 1, 2, 4 and so on, and as many as there are; at least 1 and 2.
fn up_to(cores: u32) -> Vec<u32> {
    let doubled =
        std::iter::successors(Some(1_u32), |n| n.checked_mul(2)).take_while(|n| *n < cores.max(2));
    doubled.chain([cores.max(2)]).collect()
}

/// The flags that say what kind of target the bundled one is, each with its value.
fn kind(words: &[String]) -> Vec<String> {
    let mut kind = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word.starts_with(TARGET) {
            let value = if word.contains('=') {
                None
            } else {
                words.next()
            };
            if !word.starts_with("--target-processes") {
                kind.extend(std::iter::once(word).chain(value).cloned());
            }
        }
    }
    kind
}

/// Describe the target without secrets.
fn target(typed: &RunArgs, kind: &[String], processes: Option<u32>) -> String {
    match (&typed.url, typed.list()) {
        (_, Some((_, file))) => format!("the URLs in {}", file.display()),
        (Some(url), None) => redact::url(url),
        (None, None) => {
            let processes = processes.unwrap_or(1);
            let plural = if processes == 1 {
                "process"
            } else {
                "processes"
            };
            let kind = if kind.is_empty() {
                "as fast as it goes".to_owned()
            } else {
                kind.join(" ")
            };
            format!("the bundled target ({kind}; {processes} {plural})")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_double_up_to_the_cpus() {
        assert_eq!(up_to(1), [1, 2]);
        assert_eq!(up_to(2), [1, 2]);
        assert_eq!(up_to(6), [1, 2, 4, 6]);
        assert_eq!(up_to(16), [1, 2, 4, 8, 16]);
    }
}
