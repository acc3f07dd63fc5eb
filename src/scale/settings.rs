//! Resolution of the arguments of `scale` into rounds, checked as a whole before anything is
//! started.

use std::collections::BTreeSet;
use std::time::Duration;

use crawlmark_harness::plan::MAX_CONNECTIONS;
use crawlmark_harness::process::usable_cpus;
use crawlmark_results::show::text::counted;
use crawlmark_results::studies::scale::{FixedQuantity, Size};

use crate::bundled_target::share_of_target;
use crate::cli::{ScaleArgs, arg, given_in_rounds};
use crate::crawl::redact;
use crate::error::Error;
use crate::run::{self, stranger};
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
const WHOSE: &str = "the URL and the flags after --";

/// Flags that a round may not have, by the names of their fields: those of its size and its length,
/// and those that cap throughput.
const TAKEN: [&str; 7] = [
    arg!(rate),
    arg!(per_host.per_host_rate),
    arg!(throttling.adaptive),
    arg!(requests),
    arg!(duration),
    arg!(shards),
    arg!(connections),
];

/// Rounds that can be run.
#[derive(Debug)]
pub(super) struct ScaleSettings {
    /// Arguments of a round, except its size.
    words: Vec<String>,
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
        let mut words = args.run.clone();
        words.splice(0..0, args.url.iter().cloned());
        let typed = round_flags("scale", WHOSE, &words, &TAKEN)?;
        if typed.arrivals().gaps().is_some() {
            return usage(format!(
                "--arrivals sends at a rate of its own, and scale asks how throughput grows: remove it from {WHOSE}"
            ));
        }
        let given = given_in_rounds(&words);
        let [has_latency, has_processes] = ["target_latency", "target_processes"]
            .map(|name| given.iter().any(|given| given == name));
        if args.latency_bound.is_some() && (!typed.is_bundled() || has_latency) {
            return usage(
                "--latency-bound is --target-latency of the bundled target: remove it, or the URL or the flag after --",
            );
        }
        if let Some(why) = stranger(&typed)? {
            return usage(format!(
                "{why}, and scale sends requests as fast as it can: use a target of your own, or the bundled one (no URL)"
            ));
        }
        let cores = u32::try_from(usable_cpus().len())
            .unwrap_or(u32::MAX)
            .max(1);
        let (held, sizes) = sizes(args, cores)?;
        let round = args.duration.unwrap_or(ROUND);
        if round > LONGEST {
            return usage(format!(
                "-d {round:?} is too long for a round: {LONGEST:?} at most"
            ));
        }
        let target_processes = typed.is_bundled().then(|| {
            let processes = typed.target_processes.or(share_of_target(cores as usize));
            u32::try_from(processes.get()).unwrap_or(u32::MAX)
        });
        let target = match (&typed.url, typed.list(), target_processes) {
            (_, Some((_, file)), _) => format!("the URLs in {}", file.display()),
            (Some(url), ..) => redact::url(url),
            (None, None, processes) => {
                let flags = redact::words(&args.run).join(" ");
                let processes = counted(processes.unwrap_or(1).into(), "process");
                format!("the bundled target ({processes}) {flags}")
                    .trim_end()
                    .to_owned()
            }
        };
        let mut own = vec!["-d".to_owned(), format!("{round:?}")];
        if let Some(hold) = args.latency_bound {
            own.extend(["--target-latency".to_owned(), format!("{hold:?}")]);
        }
        if let Some(processes) = target_processes.filter(|_| !has_processes) {
            own.extend(["--target-processes".to_owned(), processes.to_string()]);
        }
        words.extend(own);
        let asked = Self {
            words,
            held,
            sizes,
            round,
            target,
            target_processes,
        };
        for size in &asked.sizes {
            run::check(&understood(WHOSE, &asked.words(*size))?)?;
        }
        Ok(asked)
    }

    /// The arguments of a round at this size.
    pub(super) fn words(&self, size: Size) -> Vec<String> {
        let mut words = self.words.clone();
        let Size {
            shards,
            connections,
        } = size;
        words.extend([
            format!("--shards={shards}"),
            format!("--connections={connections}"),
        ]);
        words
    }
}

/// Return the quantity that each curve holds fixed, and all sizes.
fn sizes(args: &ScaleArgs, cores: u32) -> Result<(Vec<FixedQuantity>, Vec<Size>), Error> {
    let [shards, connections] = [&args.shards, &args.connections].map(|given| {
        let sorted: BTreeSet<u32> = given.iter().copied().collect();
        Vec::from_iter(sorted)
    });
    let is_latency_bound = args.latency_bound.is_some();
    let shards = match (&*shards, connections.len()) {
        ([], 2..) => vec![(cores / 2).max(1)],
        ([], _) if is_latency_bound => SHARDS_LATENCY_BOUND.to_vec(),
        ([], _) => up_to(cores),
        _ => shards,
    };
    let each = if is_latency_bound {
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
            [] => vec![shards.saturating_mul(each)],
            given => given.to_vec(),
        };
        for connections in all {
            if connections > MAX_CONNECTIONS || connections < shards {
                return usage(format!(
                    "{connections} connections do not fit --shards {shards}: one for each shard at least, {MAX_CONNECTIONS} in all at most"
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
            "one size has nothing to be compared with: give --shards or --connections as a list, as in 1,2,4",
        );
    }
    Ok((held, sizes))
}

/// 1, 2, 4 and so on, and as many as there are; at least 1 and 2.
fn up_to(cores: u32) -> Vec<u32> {
    let doubled =
        std::iter::successors(Some(1_u32), |n| n.checked_mul(2)).take_while(|n| *n < cores.max(2));
    doubled.chain([cores.max(2)]).collect()
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
