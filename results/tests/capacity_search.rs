//! Whole searches on targets whose capacity is known, by the chance that a probe passes: seeded, so
//! that they say the same each time.

use crawlmark_results::studies::capacity::SearchOutcome;
use crawlmark_results::studies::capacity::search::{
    self, Bounds, Pace, ProbeKind, ProbeResult, Search, SearchStep,
};

/// Searches of each kind.
const TRIALS: u64 = 1_000;

/// Limit on the searches of each kind that may be more than 2 % off, or have an interval without
/// the capacity: one in a hundred.
const WRONG: usize = 10;

/// Probes after which a search is given up by a test.
const MOST: usize = 2_000;

fn bounds(least: f64, greatest: f64) -> Bounds {
    Bounds {
        least: Pace::nearest(least),
        greatest: Pace::nearest(greatest),
        precision: 0.02,
    }
}

/// End of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Ending {
    outcome: SearchOutcome,
    pass: Option<Pace>,
    fail: Option<Pace>,
}

impl Ending {
    fn pass(&self, outcome: SearchOutcome) -> f64 {
        assert_eq!(self.outcome, outcome);
        self.pass.map_or(f64::NAN, Pace::per_s)
    }
}

/// A search to its end, and how many probes it took.
fn run(
    bounds: Bounds,
    mut probe: impl FnMut(f64, ProbeKind) -> ProbeResult,
) -> (Ending, Vec<(Pace, ProbeKind, ProbeResult)>) {
    let (mut search, mut probes) = (Search::new(bounds), Vec::new());
    loop {
        match search.next() {
            SearchStep::Done(outcome) => {
                let (pass, fail) = search.settled();
                let ending = Ending {
                    outcome,
                    pass,
                    fail,
                };
                return (ending, probes);
            }
            SearchStep::Probe(pace, kind) => {
                assert!(probes.len() < MOST, "no end: {:?}", &probes[MOST - 20..]);
                let highest = search
                    .rates()
                    .filter(|(_, tally)| tally.state() != search::RateState::Fails)
                    .map(|(pace, _)| pace);
                let passed = probes
                    .iter()
                    .filter(|(_, _, seen)| *seen == ProbeResult::Pass)
                    .map(|(pace, ..)| *pace)
                    .max();
                let most = passed
                    .map_or(bounds.least, Pace::doubled)
                    .max(highest.min().unwrap_or(bounds.least));
                assert!(
                    pace <= most && pace <= bounds.greatest && pace >= bounds.least,
                    "{pace} after {probes:?}"
                );
                let seen = probe(pace.per_s(), kind);
                search.note(pace, kind, seen);
                probes.push((pace, kind, seen));
            }
        }
    }
}

/// Searches of many targets: the chance that a probe passes falls over `width` of the rate's
/// logarithm, and a part of the probes misleads.
#[test]
fn a_capacity_is_found_within_two_percent() {
    for (width, misleads, most_probes) in [(1e-9, 0.0, 25), (1e-9, 0.05, 35), (0.003, 0.0, 35)] {
        let (mut off, mut wrong, mut counts) = (0, 0, Vec::new());
        for seed in 0..TRIALS {
            let mut draw = fastrand::Rng::with_seed(seed);
            let capacity = 120.0 * (50_000.0_f64 / 120.0).powf(draw.f64());
            let passes = |rate: f64| {
                let below = 1.0 / (1.0 + ((rate / capacity).ln() / width).exp());
                misleads + (1.0 - 2.0 * misleads) * below
            };
            let (ending, probes) = run(bounds(50.0, 1e6), |rate, kind| {
                // A scout is short: what a target holds in reserve hides a third more from it.
                let rate = if kind == ProbeKind::Scout {
                    rate / 1.3
                } else {
                    rate
                };
                match draw.f64() {
                    x if x < 0.02 => ProbeResult::Void,
                    _ if draw.f64() < passes(rate) => ProbeResult::Pass,
                    _ if rate > 2.0 * capacity => ProbeResult::Collapse,
                    _ => ProbeResult::Fail,
                }
            });
            counts.push(probes.len());
            let (SearchOutcome::Found, Some(pass), Some(fail)) =
                (ending.outcome, ending.pass, ending.fail)
            else {
                off += 1;
                continue;
            };
            off += usize::from((pass.per_s() / capacity - 1.0).abs() > 0.02);
            let is_wrong = passes(pass.per_s()) <= 0.1 + 1e-9 || passes(fail.per_s()) >= 0.9 - 1e-9;
            wrong += usize::from(is_wrong);
        }
        counts.sort_unstable();
        let middle = counts[counts.len() / 2];
        assert!(
            off <= WRONG && wrong <= WRONG && middle <= most_probes,
            "{width} {misleads}: off {off}, wrong {wrong}, {middle} probes"
        );
    }
}

#[test]
fn a_client_that_cannot_send_more_says_what_it_could() {
    let (ending, probes) = run(bounds(50.0, 1e6), |rate, _| {
        if rate > 3_000.0 {
            ProbeResult::Void
        } else {
            ProbeResult::Pass
        }
    });
    let pass = ending.pass(SearchOutcome::ClientLimited);
    assert!((2_400.0..=3_000.0).contains(&pass), "{pass}");
    assert!(probes.len() < 25, "{probes:?}");
    let (ending, _) = run(bounds(50.0, 1e6), |_, _| ProbeResult::Void);
    assert_eq!(
        (ending.outcome, ending.pass),
        (SearchOutcome::ClientLimited, None)
    );
    // What fails only above what it can send is beyond it as well.
    let (ending, _) = run(bounds(50.0, 1e6), |rate, _| match rate {
        r if r > 3_500.0 => ProbeResult::Collapse,
        r if r > 3_000.0 => ProbeResult::Void,
        _ => ProbeResult::Pass,
    });
    assert!(
        matches!(
            ending.outcome,
            SearchOutcome::ClientLimited | SearchOutcome::Found
        ),
        "{ending:?}"
    );
}

#[test]
fn what_a_client_can_send_only_now_and_then_is_not_the_end_of_what_is_known() {
    for seed in 0..200 {
        let mut draw = fastrand::Rng::with_seed(seed);
        // From 3,000/s on, ever more of the probes are void, until at 6,000/s all are; a scout asks
        // for less.
        let (ending, _) = run(bounds(50.0, 1e6), |rate, kind| {
            let rate = if kind == ProbeKind::Scout {
                rate / 2.0
            } else {
                rate
            };
            if draw.f64() < (rate - 3_000.0) / 3_000.0 {
                ProbeResult::Void
            } else {
                ProbeResult::Pass
            }
        });
        let pass = ending.pass(SearchOutcome::ClientLimited);
        assert!((1_500.0..6_000.0).contains(&pass), "{seed}: {pass}");
    }
}

#[test]
fn a_target_that_surely_fails_below_what_it_surely_passes_is_unsteady() {
    let [low, high] = [200.0, 400.0].map(Pace::nearest);
    let mut search = Search::new(bounds(100.0, 400.0));
    for _ in 0..search::MARGIN {
        search.note(low, ProbeKind::Full, ProbeResult::Fail);
        search.note(high, ProbeKind::Full, ProbeResult::Pass);
    }
    assert_eq!(search.next(), SearchStep::Done(SearchOutcome::Unsteady));
    // One that is less sure of it is asked again first.
    let mut search = Search::new(bounds(100.0, 400.0));
    search.note(low, ProbeKind::Full, ProbeResult::Fail);
    search.note(high, ProbeKind::Scout, ProbeResult::Pass);
    assert_eq!(search.next(), SearchStep::Probe(high, ProbeKind::Full));
}

#[test]
fn whatever_probes_say_a_search_ends() {
    for seed in 0..2_000 {
        let mut draw = fastrand::Rng::with_seed(seed);
        let (ending, _) = run(bounds(50.0, 5_000.0), |_, _| {
            [
                ProbeResult::Pass,
                ProbeResult::Fail,
                ProbeResult::Collapse,
                ProbeResult::Void,
            ][draw.usize(..4)]
        });
        assert!(
            ending.pass.is_none() || ending.fail.is_none() || ending.pass < ending.fail,
            "{ending:?}"
        );
    }
}

#[test]
fn a_client_that_sent_more_than_a_void_rate_is_not_its_limit() {
    // From 900/s to 1,500/s every probe is void; above that the target fails.
    let (ending, probes) = run(bounds(50.0, 1e6), |rate, _| match rate {
        r if r > 3_000.0 => ProbeResult::Collapse,
        r if r > 1_500.0 => ProbeResult::Fail,
        r if r > 900.0 => ProbeResult::Void,
        _ => ProbeResult::Pass,
    });
    let pass = ending.pass(SearchOutcome::Found);
    assert!(
        pass <= 900.0 && pass > 850.0 && ending.fail > Some(Pace::nearest(1_500.0)),
        "{ending:?} after {probes:?}"
    );
    // Nothing passes, and what is not void fails.
    let (ending, _) = run(bounds(50.0, 1e6), |rate, _| {
        if rate > 60.0 {
            ProbeResult::Fail
        } else {
            ProbeResult::Void
        }
    });
    assert_eq!(
        (ending.outcome, ending.pass),
        (SearchOutcome::ClientLimited, None),
        "nothing higher was sent"
    );
}
