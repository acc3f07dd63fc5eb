//! An arena: how often its groups are right, in simulated rounds of a drifting machine; and from
//! rounds to what is said and drawn of them.
//!
//! The golden files are in `tests/golden`;
//! `INSTA_UPDATE=always cargo test -p crawlmark-results --test all arena` writes them again when a
//! change is meant.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeMap;

use crawlmark_results::judge::Finding;
use crawlmark_results::run::report::{GoodputReport, Report, Verdict};
use crawlmark_results::studies::arena::{
    Answer, Arena, ArenaContext, ArenaRound, CurvePoint, Entry, EntryCheck, FixedLoad, LOOKS,
    Relation, StandingState, Standings, order,
};
use crawlmark_results::studies::compare::MachineState;
use crawlmark_results::studies::{Conclusion, Header, RoundRun, StudyFinding, StudyResult};
use proptest::prelude::*;

use crate::truth_s::noise::{Machine, Noise};
use crate::{ended, golden, saved};

const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

/// The rounds of entries with these times of a response, ms, in the order in which `arena` runs them.
fn rounds(machine: &mut Machine, seed: u64, times: &[f64]) -> Vec<ArenaRound> {
    let most = LOOKS.last().unwrap().pairs;
    let mut worse = machine.course(most * times.len()).into_iter();
    let mut rounds = Vec::new();
    for round in 1..=most {
        for at in order(seed, times.len(), round) {
            rounds.push(ArenaRound {
                round,
                entry: NAMES[at].to_owned(),
                run: RoundRun {
                    result: Some(format!("rounds/{round:03}-{}", NAMES[at])),
                    started_at: "2026-01-01T00:00:00.000Z".to_owned(),
                    finished_at: "2026-01-01T00:00:01.000Z".to_owned(),
                    validity: Verdict::Valid,
                    findings: Vec::new(),
                },
                per_s: 8_000.0 / times[at] * (-worse.next().unwrap()).exp(),
                busy_share: Some(0.97),
                state: MachineState::default(),
            });
        }
    }
    rounds
}

/// As many of these rounds as an arena runs.
fn needed(names: &[&str], mut rounds: Vec<ArenaRound>) -> Vec<ArenaRound> {
    for look in LOOKS {
        let so_far: Vec<ArenaRound> = rounds
            .iter()
            .filter(|of| of.round <= look.pairs)
            .cloned()
            .collect();
        if Standings::of(names, &so_far).rounds_wanted == 0 {
            rounds = so_far;
            break;
        }
    }
    rounds
}

fn groups(names: &[&str], rounds: &[ArenaRound]) -> BTreeMap<String, (Option<usize>, String)> {
    let standings = Standings::of(names, rounds);
    let each = standings.each.into_iter().map(|of| (of.rank, of.groups));
    names
        .iter()
        .map(|name| (*name).to_owned())
        .zip(each)
        .collect()
}

/// The number of `arenas` of 8 equal entries in which any two are told apart.
fn told_apart(noise: Noise, arenas: u64) -> usize {
    let mut machine = Machine::new(21, noise);
    let mut differ = 0;
    for seed in 0..arenas {
        let rounds = needed(&NAMES, rounds(&mut machine, seed, &[20.0; 8]));
        let standings = Standings::of(&NAMES, &rounds);
        let mut pairs = standings.pairs.iter();
        differ += usize::from(pairs.any(|pair| pair.relation == Relation::Differ));
    }
    differ
}

/// In 1,000 arenas of equal entries, at most 1 % show a difference, on a machine that drifts, whose
/// mood lasts, and where every second run is slower by 2 %. The noise is so great that whatever is
/// significant is a difference of more than 2 %, too.
#[test]
fn equal_entries_are_told_apart_in_at_most_1_percent_of_arenas() {
    let differ = told_apart(Noise::Drifting(0.10), 1_000);
    assert!(differ <= 10, "{differ}");
}

#[test]
fn six_entries_have_the_groups_that_they_are_in_20_of_20_arenas() {
    let names = &NAMES[..6];
    let mut machine = Machine::new(22, Noise::Gaussian(0.01));
    for seed in 0..20 {
        let all = rounds(&mut machine, seed, &[20.0, 20.0, 20.0, 21.0, 22.0, 25.0]);
        let found = groups(names, &needed(names, all));
        let found: Vec<(Option<usize>, &str)> = found
            .values()
            .map(|(rank, groups)| (*rank, &**groups))
            .collect();
        let first = (Some(1), "a");
        let others = [(Some(4), "b"), (Some(5), "c"), (Some(6), "d")];
        assert_eq!(found, [&[first; 3][..], &others].concat(), "{seed}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_order_of_the_entries_changes_no_group(
        seed in any::<u64>(), times in prop::collection::vec(20.0..23.0_f64, 6),
        permuted in Just(NAMES[..6].to_vec()).prop_shuffle(),
    ) {
        let mut machine = Machine::new(seed, Noise::Gaussian(0.03));
        let rounds = needed(&NAMES[..6], rounds(&mut machine, seed, &times));
        prop_assert_eq!(groups(&NAMES[..6], &rounds), groups(&permuted, &rounds));
    }

    #[test]
    fn of_two_entries_each_goes_first_once_in_two_rounds(
        seed in any::<u64>(), entries in 2..9_usize, block in 0..20_usize,
    ) {
        let [one, other] = [1, 2].map(|round| order(seed, entries, 2 * block + round));
        let place = |order: &[usize], of| order.iter().position(|at| *at == of);
        for second in 1..entries {
            for first in 0..second {
                let is_first = |order: &[usize]| place(order, first) < place(order, second);
                prop_assert!(is_first(&one) != is_first(&other));
            }
        }
    }
}

#[test]
fn what_the_client_limited_has_no_rank_and_is_before_those_that_are_slower_than_it_is_at_least() {
    let names = &NAMES[..4];
    let mut machine = Machine::new(23, Noise::Gaussian(0.01));
    let mut all = Vec::new();
    // Ranks that it takes from the second, the first and the third: at 22 ms it may be the fastest.
    for (limited_ms, worse) in [(35.0, [0, 0, 0]), (22.0, [1, 0, 1]), (10.0, [1, 1, 1])] {
        all = rounds(&mut machine, 1, &[25.0, 20.0, 30.0, limited_ms]);
        all.retain(|of| of.round <= LOOKS[0].pairs);
        let before = groups(&names[..3], &all);
        for of in all.iter_mut().filter(|of| of.entry == names[3]) {
            of.run.validity = Verdict::ClientLimited;
            of.run.findings = vec![Finding::CpuFull { share: 0.99 }];
        }
        let standings = Standings::of(names, &all);
        assert_eq!(standings.each[3].state, StandingState::ClientLimited);
        assert_eq!(standings.rounds_wanted, 0);
        let after = groups(names, &all);
        assert_eq!(after[names[3]], (None, String::new()));
        for (name, worse) in names.iter().zip(worse) {
            let (rank, letters) = before[*name].clone();
            assert_eq!(after[*name], (rank.map(|rank| rank + worse), letters));
        }
    }
    // One that does not answer some of its requests is not valid, however fast; a full listen queue
    // is its own limit.
    let full = Finding::ListenDrops { drops: 9, limit: 5 };
    let failing = Finding::RequestsFailed {
        share: 0.33,
        causes: Vec::new(),
        is_open_loop: false,
        events: Vec::new(),
    };
    for (found, state) in [
        (full, StandingState::Ranked),
        (failing, StandingState::NotValid),
    ] {
        for of in all.iter_mut().filter(|of| of.entry == names[3]) {
            of.run.findings = vec![found.clone()];
        }
        let standings = Standings::of(names, &all);
        assert_eq!(standings.each[3].state, state);
        let is_ranked = state == StandingState::Ranked;
        assert_eq!(standings.each[3].rank.is_some(), is_ranked);
    }
}

#[test]
fn a_round_that_the_machine_treated_unequally_counts_for_no_pair_of_it() {
    let names = &NAMES[..3];
    let mut machine = Machine::new(24, Noise::Gaussian(0.01));
    let mut all = rounds(&mut machine, 1, &[20.0, 20.0, 20.0]);
    all.retain(|of| of.round <= LOOKS[0].pairs);
    for of in &mut all {
        let slow = of.round == 3 && of.entry == names[0];
        of.state.work_us = if slow { 1_500.0 } else { 1_000.0 };
    }
    let standings = Standings::of(names, &all);
    for pair in &standings.pairs {
        let is_with = pair.entries.contains(&names[0].to_owned());
        assert_eq!(pair.evidence.pairs, if is_with { 15 } else { 16 });
    }
}

/// An entry that is added has the rank and the groups that it has in a whole new arena, in 10 of 10,
/// although the machine is slower by 8 % then.
#[test]
fn an_added_entry_is_placed_as_in_a_whole_new_arena() {
    let names = &NAMES[..6];
    let times = [20.0, 20.0, 20.0, 21.0, 22.0, 25.0];
    let mut machine = Machine::new(26, Noise::Gaussian(0.007));
    for seed in 0..10 {
        for new in 1..5 {
            let whole = needed(names, rounds(&mut machine, seed, &times));
            let place = groups(names, &whole)[names[new]].clone();
            let mut before = needed(names, rounds(&mut machine, seed, &times));
            before.retain(|of| of.entry != names[new]);
            let mut entries: Vec<Entry> = (0..6).map(entry).collect();
            let added = entries.remove(new);
            let saved = arena(entries, before);
            let mut later = rounds(&mut machine, seed + 100, &times);
            later.retain(|of| of.round <= saved.last_round());
            for of in &mut later {
                of.per_s *= 0.92;
                of.state.work_us = 1_080.0;
            }
            let header = saved.context.header.clone();
            let with = saved.with(header, vec![added], &later);
            let found = with
                .entries
                .iter()
                .find(|of| of.entry.name == names[new])
                .unwrap();
            let found = (found.standing.rank, found.standing.groups.clone());
            assert_eq!(found, place, "{seed}, {}", names[new]);
        }
    }
}

/// Rounds that an anchor lacks take no rank from the others, and an entry with too few has none.
#[test]
fn rounds_that_were_not_added_leave_the_ranks_before() {
    let mut machine = Machine::new(27, Noise::Gaussian(0.01));
    let mut before = rounds(&mut machine, 1, &[20.0, 25.0, 30.0]);
    before.retain(|of| of.round <= LOOKS[0].pairs);
    let saved = arena((0..3).map(entry).collect(), before);
    for added in [15, 3, 0] {
        let mut later = rounds(&mut machine, 2, &[20.0, 25.0, 30.0, 35.0]);
        later.retain(|of| of.round <= added);
        let header = saved.context.header.clone();
        let with = saved.clone().with(header, vec![entry(3)], &later);
        let ranks: Vec<(&str, Option<usize>)> = with
            .entries
            .iter()
            .map(|of| (&*of.entry.name, of.standing.rank))
            .collect();
        let last = (added == 15).then_some(4);
        let expected = [("a", Some(1)), ("b", Some(2)), ("c", Some(3)), ("d", last)];
        assert_eq!(ranks, expected, "{added}");
    }
}

fn entry(at: usize) -> Entry {
    let mut report = saved();
    report.rate_ratio = Some(1.0);
    let mut fixed = FixedLoad::default();
    fixed.add(&report);
    fixed.cpu_us_per_request = Some(20.0 + at as f64);
    fixed.p50_us = Some(20_000.0 + at as f64 * 700.0);
    fixed.peak_memory = Some(30 << 20);
    let point = |step: usize| CurvePoint {
        offered_per_s: 60.0 * step as f64,
        rate_ratio: Some(1.0),
        p50_us: Some(20_000.0),
        p90_us: Some(20_100.0 + step as f64 * 400.0),
        p99_us: None,
        validity: Verdict::Valid,
    };
    Entry {
        name: NAMES[at].to_owned(),
        what: format!("serve --latency {at}ms | <b>"),
        version: (at == 0).then(|| "serve 1.2".to_owned()),
        check: Some(EntryCheck {
            requests: 6,
            good: 6,
            connections: 1,
            answer: Some(Answer {
                content_type: "application/json".to_owned(),
                body_bytes: 120,
            }),
        }),
        fixed: Some(fixed),
        curve: (1..=6).map(point).collect(),
        capacity: None,
    }
}

fn arena(entries: Vec<Entry>, rounds: Vec<ArenaRound>) -> Arena {
    let context = ArenaContext {
        header: Header::new::<Arena>("arena", ["2026-01-01T00:00:00.000Z"; 2]),
        command: ["crawlmark", "arena", "--entry", "a=serve --latency 1ms"]
            .map(str::to_owned)
            .to_vec(),
        measured_s: 1.0,
        warmup_s: 0.25,
        objectives: Vec::new(),
        rate_per_s: Some(160.0),
        seed: 1,
        environment: saved().environment,
    };
    Arena::new(context, entries, rounds)
}

/// Three equal entries, two slower ones, and one that the client limits.
fn six() -> Arena {
    let mut machine = Machine::new(25, Noise::Gaussian(0.01));
    let mut all = rounds(&mut machine, 1, &[20.0, 20.0, 21.0, 20.0, 25.0, 10.0]);
    for of in all.iter_mut().filter(|of| of.entry == "f") {
        of.run.findings = vec![Finding::CpuFull { share: 0.99 }];
        of.run.validity = Verdict::ClientLimited;
    }
    let mut entries: Vec<Entry> = (0..6).map(entry).collect();
    if let Some(check) = &mut entries[2].check {
        check.connections = 6;
        check.answer = Some(Answer {
            content_type: "text/html".to_owned(),
            body_bytes: 1_200,
        });
    }
    let names: Vec<&str> = NAMES[..6].to_vec();
    arena(entries, needed(&names, all))
}

#[test]
fn an_arena_is_told_drawn_and_read_back() {
    let arena = six();
    assert_eq!(arena.conclusion(), Conclusion::Done);
    let back: Arena = serde_json::from_str(&arena.json().unwrap()).unwrap();
    let again = Arena::new(
        back.context.clone(),
        back.entries.iter().map(|of| of.entry.clone()).collect(),
        back.rounds.clone(),
    );
    assert_eq!(again, back, "the rounds have the same ranks again");
    let plots = arena.plots();
    assert!(!plots[0].is_empty);
    golden("arena.txt", &ended(&arena));
    golden("arena.md", &arena.doc().markdown());
    golden("arena.svg", &plots[0].svg);
    let names: Vec<(&str, Option<usize>)> = arena
        .entries
        .iter()
        .map(|of| (&*of.entry.name, of.standing.rank))
        .collect();
    // The one without a rank was shown to be faster than all others.
    assert_eq!(names[0], ("f", None));
    let mut first: Vec<&str> = names[1..4].iter().map(|(name, _)| *name).collect();
    first.sort_unstable();
    assert_eq!(first, ["a", "b", "d"]);
    assert_eq!(names[4..], [("c", Some(5)), ("e", Some(6))]);
}

/// Arenas that have every finding.
pub(crate) fn with_findings() -> Vec<Arena> {
    let six = six();
    let early = Arena {
        look: None,
        ..six.clone()
    };
    let mut one = six.clone();
    one.entries.truncate(1);
    let mut noisy = six.clone();
    noisy.pairs[0].relation = Relation::Unsettled;
    let worse = &mut noisy.entries[0];
    worse.standing.busy_share = Some(0.4);
    worse.standing.state = StandingState::NotValid;
    if let (Some(fixed), Some(check)) = (&mut worse.entry.fixed, &mut worse.entry.check) {
        fixed.rate_ratio = Some(0.7);
        check.good = 3;
    }
    let later: Vec<ArenaRound> = six
        .rounds
        .iter()
        .map(|of| ArenaRound {
            entry: if of.entry == "c" {
                "new".to_owned()
            } else {
                of.entry.clone()
            },
            ..of.clone()
        })
        .collect();
    let new = Entry {
        name: "new".to_owned(),
        ..entry(2)
    };
    let header = six.context.header.clone();
    let added = six.clone().with(header, vec![new], &later);
    let mut none_met = six.clone();
    none_met.context.objectives = vec!["service < 5ms".parse().unwrap()];
    for of in none_met.rounds.iter_mut().filter(|of| of.entry == "e") {
        of.per_s = 0.0;
    }
    let entries = none_met.entries.into_iter().map(|of| of.entry).collect();
    let none_met = Arena::new(none_met.context, entries, none_met.rounds);
    vec![six, early, one, noisy, added, none_met]
}

#[test]
fn the_rate_of_an_arena_with_objectives_is_that_of_responses_that_meet_them() {
    let mut report = saved();
    let per_s = |report: &Report| ArenaRound::new(report, 1, "a", String::new()).per_s;
    assert!(per_s(&report) > 10.0);
    report.goodput = Some(GoodputReport {
        per_s: 7.0,
        share: 0.5,
    });
    assert!((per_s(&report) - 7.0).abs() < f64::EPSILON);
    let none_met = with_findings().pop().unwrap();
    let text = none_met.doc().markdown();
    assert!(
        text.contains("goodput/s") && text.contains("none of its responses met"),
        "{text}"
    );
    let of_e = none_met.entries.iter().find(|of| of.entry.name == "e");
    assert_eq!(of_e.and_then(|of| of.standing.rank), None);
}

#[test]
fn too_few_rounds_are_no_ranks() {
    let arenas = with_findings();
    let answers: Vec<_> = arenas[..3]
        .iter()
        .map(|of| of.findings()[0].kind())
        .collect();
    assert_eq!(answers, ["Ranked", "TooFewRounds", "NothingToRank"]);
    assert_eq!(arenas[1].conclusion(), Conclusion::Inconclusive);
    let of_differences: Vec<_> = arenas[0]
        .findings()
        .iter()
        .filter(|found| matches!(found, StudyFinding::NoKeepAlive { name, .. } if name == "c"))
        .map(StudyFinding::kind)
        .collect();
    assert_eq!(of_differences, ["NoKeepAlive"]);
}
