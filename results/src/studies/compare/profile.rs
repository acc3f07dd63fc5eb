//! Functions of both sides: which of them use more CPU time.
//!
//! Each round has the CPU time of its functions per request, or per execution of a command: their
//! part of the samples, times the CPU time that the kernel counted. For each function with at least
//! [`LEAST_SHARE`] of the time on either side, the differences of the pairs are tested as a metric's
//! are, two-sided, and corrected over the functions (Holm). They are differences of times and not
//! ratios, so that those of all functions add up to that of the whole.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crawlmark_harness::profile::{KERNEL, Profile, is_even};
use serde::{Deserialize, Serialize};

use super::judgement::LOOKS;
use super::statistics::{Centre, Interval, holm, two_sided};

/// Least part of the CPU time, in the mean of a side, for a function to be tested.
const LEAST_SHARE: f64 = 0.005;

/// Least part for it to be kept of a round.
const KEPT_SHARE: f64 = 0.000_2;

/// A greater part of the change is that of a function with another name on the other side.
const MOST_SHARE: f64 = 1.2;

/// Level at which a function is named. It is tested once, when the pairs are over.
const ALPHA: f64 = 0.01;

/// What a CPU time is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Per {
    /// A request of a crawl.
    Request,
    /// An execution of a command.
    Execution,
}

impl fmt::Display for Per {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Request => "request",
            Self::Execution => "execution",
        })
    }
}

/// CPU time of a round by function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoundProfile {
    /// Samples that it stands on.
    pub samples: u64,
    /// Samples that got lost.
    pub lost: u64,
    /// Threads and processes that began meanwhile.
    #[serde(default)]
    pub started: u64,
    /// What the times are of.
    pub per: Per,
    /// CPU time of each function, µs.
    pub functions: BTreeMap<String, f64>,
}

impl RoundProfile {
    /// The times of a profile of processes that used `all_us` of CPU time, `each_us` per request or
    /// execution. Where the kernel was not sampled, what was not seen in user space is its.
    pub fn new(profile: &Profile, all_us: f64, each_us: f64, per: Per) -> Self {
        let in_user = profile.in_user(all_us);
        let mut functions = BTreeMap::<String, f64>::new();
        for function in &profile.functions {
            let share = function.samples as f64 / profile.samples as f64 * in_user;
            // Builds lie in two directories, and a line that was added moves all below it.
            let name = if function.object.is_empty() {
                without_place(&function.name)
            } else {
                function.name.clone()
            };
            *functions.entry(name).or_default() += share * each_us;
        }
        if in_user < 1.0 {
            *functions.entry(KERNEL.to_owned()).or_default() += (1.0 - in_user) * each_us;
        }
        functions.retain(|_, us| *us >= KEPT_SHARE * each_us);
        Self {
            samples: profile.samples,
            lost: profile.lost,
            started: profile.started,
            per,
            functions,
        }
    }
}

/// The name of a function that was compiled at run time without its directory, line, and level of
/// optimization: `JS:*parse /a/b.js:2:18` is `JS:parse b.js`, and `py::parse:/a/b.py` is
/// `py::parse:b.py`. Only a place tells functions without a name apart.
fn without_place(name: &str) -> String {
    let bare = match name.strip_prefix("JS:") {
        Some(rest) => format!("JS:{}", rest.trim_start_matches(['*', '^', '~', '+'])),
        None => name.to_owned(),
    };
    // An absolute path follows a blank or a colon.
    let start = bare
        .match_indices('/')
        .map(|(at, _)| at)
        .find(|at| bare[..*at].ends_with([' ', ':']));
    let (function, path) = bare.split_at(start.unwrap_or(bare.len()));
    let file = path.rsplit('/').next().unwrap_or(path);
    let mut named = format!("{function}{file}");
    if bare.starts_with("JS: ") {
        return named;
    }
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    while let Some((head, line)) = named.rsplit_once(':')
        && is_number(line)
    {
        named = head.to_owned();
    }
    named
}

/// CPU time of a function on both sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FunctionResult {
    /// The function.
    pub function: String,
    /// CPU time of the base, µs: mean of the counted rounds.
    pub base_us: f64,
    /// That of the candidate.
    pub candidate_us: f64,
    /// Difference in a pair, µs: Hodges and Lehmann's estimate.
    pub change_us: f64,
    /// Its exact interval of at least [`super::LEVEL`]; null for fewer than 6 pairs.
    pub interval_us: Option<Interval>,
    /// Two-sided p value, adjusted for the other functions.
    pub p_adjusted: f64,
    /// True if it differs, at the level of 1 % over all functions. Never before 16 counted pairs.
    pub differs: bool,
    /// Its part of the change of the whole CPU time; null of one that does not differ, and where the
    /// whole does not.
    pub share_of_change: Option<f64>,
}

/// CPU time by function, compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProfileResult {
    /// What the times are of.
    pub per: Per,
    /// Samples of both sides, in the counted rounds.
    pub samples: u64,
    /// Samples of them that got lost.
    pub lost: u64,
    /// Threads and processes that began meanwhile.
    #[serde(default)]
    pub started: u64,
    /// Functions: those that differ first, by the size of the change; then the others, by their
    /// time.
    pub functions: Vec<FunctionResult>,
}

/// Differences of pairs, and the means of both sides.
struct Differences {
    pairs: Vec<f64>,
    means: [f64; 2],
}

impl Differences {
    fn of(pairs: &[[&RoundProfile; 2]], us: impl Fn(&RoundProfile) -> f64) -> Self {
        let both: Vec<[f64; 2]> = pairs.iter().map(|pair| pair.map(&us)).collect();
        let mean = |side: usize| both.iter().map(|it| it[side]).sum::<f64>() / both.len() as f64;
        Self {
            means: [mean(0), mean(1)],
            pairs: both
                .iter()
                .map(|[base, candidate]| candidate - base)
                .collect(),
        }
    }
}

/// Compare the functions of counted pairs; none of none.
pub(super) fn compare_functions(pairs: &[[&RoundProfile; 2]]) -> Option<ProfileResult> {
    let per = pairs.first()?[0].per;
    let sum =
        |of: fn(&RoundProfile) -> u64| -> u64 { pairs.iter().flatten().map(|it| of(it)).sum() };
    let is_even = is_even(sum(|it| it.samples), sum(|it| it.started));
    let whole = Differences::of(pairs, |it| it.functions.values().sum());
    let total = Centre::of(&whole.pairs)?;
    let has_changed = total
        .interval
        .is_some_and(|interval| !interval.contains(0.0));
    let names: BTreeSet<&String> = pairs
        .iter()
        .flatten()
        .flat_map(|it| it.functions.keys())
        .collect();
    let mut tested: Vec<(&String, Differences)> = names
        .into_iter()
        .map(|name| {
            let us = |it: &RoundProfile| it.functions.get(name).copied().unwrap_or(0.0);
            (name, Differences::of(pairs, us))
        })
        .collect();
    tested.retain(|(_, of)| (0..2).any(|side| of.means[side] >= LEAST_SHARE * whole.means[side]));
    let raw: Vec<f64> = tested.iter().map(|(_, of)| two_sided(&of.pairs)).collect();
    let mut functions: Vec<FunctionResult> = tested
        .iter()
        .zip(holm(&raw))
        .filter_map(|((name, of), p_adjusted)| {
            let centre = Centre::of(&of.pairs)?;
            let differs = is_even && p_adjusted <= ALPHA && pairs.len() >= LOOKS[0].pairs;
            let share = centre.estimate / total.estimate;
            Some(FunctionResult {
                function: (*name).clone(),
                base_us: of.means[0],
                candidate_us: of.means[1],
                change_us: centre.estimate,
                interval_us: centre.interval,
                p_adjusted,
                differs,
                share_of_change: Some(share)
                    .filter(|share| differs && has_changed && (0.0..=MOST_SHARE).contains(share)),
            })
        })
        .collect();
    functions.sort_by(|one, other| {
        let key = |of: &FunctionResult| {
            let size = if of.differs {
                of.change_us.abs()
            } else {
                of.base_us.max(of.candidate_us)
            };
            (of.differs, size)
        };
        let (one, other) = (key(one), key(other));
        other.0.cmp(&one.0).then(other.1.total_cmp(&one.1))
    });
    Some(ProfileResult {
        per,
        samples: sum(|it| it.samples),
        started: sum(|it| it.started),
        lost: sum(|it| it.lost),
        functions,
    })
}

impl ProfileResult {
    /// True if threads and processes lived long enough to be sampled evenly.
    pub(super) const fn is_even(&self) -> bool {
        is_even(self.samples, self.started)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::studies::compare::Arm;
    use crawlmark_harness::profile::{FunctionSamples, UNKNOWN};

    fn function(name: &str, samples: u64) -> FunctionSamples {
        FunctionSamples {
            name: name.to_owned(),
            object: "lib.so".to_owned(),
            samples,
            caller: None,
        }
    }

    #[test]
    fn times_are_parts_of_the_cpu_time_and_the_kernels_is_the_rest() {
        let mut profile = Profile {
            samples: 100,
            functions: vec![function("a", 75), function(UNKNOWN, 25)],
            has_kernel: true,
            ..Profile::default()
        };
        let of = |profile: &Profile| {
            RoundProfile::new(profile, 100.0 * 2_993.0 * 2.0, 40.0, Per::Request).functions
        };
        let unknown = UNKNOWN;
        let expected = BTreeMap::from([("a".to_owned(), 30.0), (unknown.to_owned(), 10.0)]);
        assert_eq!(of(&profile), expected);
        profile.has_kernel = false;
        let times = of(&profile);
        for (name, us) in [("a", 15.0), (unknown, 5.0), (KERNEL, 20.0)] {
            assert!((times[name] - us).abs() < 1e-9, "{times:?}");
        }
    }

    #[test]
    fn names_of_two_directories_are_one() {
        for (name, expected) in [
            ("JS:*parse /v2/a/c.js:2:18", "JS:parse c.js"),
            ("JS:^parse /v1/c.js:1:18", "JS:parse c.js"),
            ("JS:* /v1/c.js:3:19", "JS: c.js:3:19"),
            (
                "JS:*next node:internal/streams:744:21",
                "JS:next node:internal/streams",
            ),
            ("py::parse:/v2/c d.py", "py::parse:c d.py"),
            ("main2", "main2"),
        ] {
            assert_eq!(without_place(name), expected);
        }
    }

    #[test]
    fn threads_that_are_too_short_name_no_function() {
        let mut pairs = made(16, |arm| {
            vec![("a".to_owned(), if arm == Arm::Base { 1.0 } else { 9.0 })]
        });
        assert!(compared(&pairs)[0].differs);
        for round in pairs.iter_mut().flatten() {
            round.started = 300;
        }
        assert!(!compared(&pairs)[0].differs);
    }

    /// Pairs of two sides with these times of functions in each round.
    fn made(pairs: usize, mut us: impl FnMut(Arm) -> Vec<(String, f64)>) -> Vec<[RoundProfile; 2]> {
        let mut round = |arm| RoundProfile {
            samples: 1_000,
            lost: 0,
            started: 0,
            per: Per::Request,
            functions: us(arm).into_iter().collect(),
        };
        (0..pairs)
            .map(|_| [round(Arm::Base), round(Arm::Candidate)])
            .collect()
    }

    fn compared(pairs: &[[RoundProfile; 2]]) -> Vec<FunctionResult> {
        let pairs: Vec<[&RoundProfile; 2]> = pairs.iter().map(<[_; 2]>::each_ref).collect();
        compare_functions(&pairs).unwrap().functions
    }

    /// Noise of a reading: a sampled share of 2,000 samples.
    fn noise(random: &mut fastrand::Rng, us: f64) -> f64 {
        let sum: f64 = (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
        us + sum * (us * 50.0 / 2_000.0).sqrt()
    }

    #[test]
    fn the_function_that_got_slower_is_named_first_with_its_part() {
        for seed in 0..50 {
            let mut random = fastrand::Rng::with_seed(seed);
            let pairs = made(16, |arm| {
                let mut all: Vec<(String, f64)> = (0..30)
                    .map(|at| (format!("f{at}"), noise(&mut random, 1.6)))
                    .collect();
                if arm == Arm::Candidate {
                    all[7].1 += 3.0;
                }
                all
            });
            let first = &compared(&pairs)[0];
            assert!(first.function == "f7" && first.differs, "{seed}: {first:?}");
            assert!((first.change_us - 3.0).abs() < 0.6, "{first:?}");
            let part = first.share_of_change.unwrap_or(1.0);
            assert!((part - 1.0).abs() < 0.6, "{part}");
        }
    }

    #[test]
    fn equal_sides_name_no_function_but_once_in_a_hundred() {
        let mut named = 0;
        for seed in 0..1_000 {
            let mut random = fastrand::Rng::with_seed(seed);
            let pairs = made(16, |_| {
                let us = (0..40).map(|at| 0.3 + 0.1 * f64::from(at));
                us.enumerate()
                    .map(|(at, us)| (format!("f{at}"), noise(&mut random, us)))
                    .collect()
            });
            named += usize::from(compared(&pairs).iter().any(|it| it.differs));
        }
        assert!(named <= 18, "{named} of 1,000: 10 are allowed, and chance");
    }

    proptest! {
        #[test]
        fn the_sides_turned_round_turn_the_changes_round(seed in 0_u64..1_000, count in 1_usize..20) {
            let mut random = fastrand::Rng::with_seed(seed);
            let pairs = made(count, |_| {
                let us = [("a", 2.0), ("b", 5.0)];
                us.map(|(name, us)| (name.to_owned(), noise(&mut random, us))).into()
            });
            let turned: Vec<[RoundProfile; 2]> =
                pairs.iter().cloned().map(|[base, candidate]| [candidate, base]).collect();
            let other = compared(&turned);
            for one in compared(&pairs) {
                let turned = other.iter().find(|it| it.function == one.function).unwrap();
                prop_assert!((one.change_us + turned.change_us).abs() < 1e-9);
                prop_assert!((one.p_adjusted - turned.p_adjusted).abs() < 1e-9);
            }
        }
    }
}
