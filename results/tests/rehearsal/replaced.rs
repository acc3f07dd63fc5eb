//! Runs in virtual time whose shards die and are replaced, from what a workload had stored until
//! then.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use crawlmark_harness::stats::ItemCounts;
use crawlmark_harness::supervisor::{Left, ShardFault};
use crawlmark_harness::units::RateShape;
use crawlmark_results::run::report::{SavedReport, SavedSession, Verdict};

use super::*;

/// Results that are committed together.
const BATCH: usize = 50;

/// What outlives a process: the committed items, and how often each was committed.
#[derive(Clone, Default)]
struct Committed {
    times: Rc<RefCell<BTreeMap<u64, u32>>>,
    /// When any request was sent.
    sent: Rc<RefCell<Vec<u64>>>,
}

impl Committed {
    /// What is left of `held`, which is what the process of a dead shard had.
    fn left(&self, held: &[IdRange]) -> Left {
        let times = self.times.borrow();
        let mut held = held.to_vec();
        held.sort_unstable_by_key(|range| range.start);
        let (mut ids, mut items) = (Vec::new(), ItemCounts::default());
        for IdRange { mut start, end } in held {
            for id in times.range(start..end).map(|(id, _)| *id) {
                ids.push(IdRange { start, end: id });
                (start, items.ok) = (id + 1, items.ok + 1);
            }
            ids.push(IdRange { start, end });
        }
        ids.retain(|range| !range.is_empty());
        Left { ids, items }
    }
}

/// A target that answers after a millisecond, and a process that commits what it has in batches.
struct Storing {
    target: Target,
    committed: Committed,
    uncommitted: RefCell<Vec<u64>>,
}

impl Storing {
    fn commit(&self) {
        for id in self.uncommitted.take() {
            *self.committed.times.borrow_mut().entry(id).or_insert(0) += 1;
        }
    }
}

impl Workload for Storing {
    async fn perform(
        &self,
        id: u64,
        flight: &Flight,
        clearance: &impl Clearance,
        ended: &mut Attempt,
    ) -> Option<()> {
        let noted = async || {
            let sent = clearance.wait().await?;
            self.committed.sent.borrow_mut().push(sent.0);
            Some(sent)
        };
        self.target.perform(id, flight, &noted, ended).await
    }

    fn booked(&self, sample: &Sample) {
        self.uncommitted.borrow_mut().push(sample.permit.id);
        if self.uncommitted.borrow().len() == BATCH {
            self.commit();
        }
    }

    async fn finish(&self) -> Result<(), String> {
        self.commit();
        Ok(())
    }
}

/// Report of a run, with what was committed in it, as the program saves and reads it.
fn saved_report(rehearsal: &Rehearsal, plan: &RunPlan, committed: &Committed) -> Report {
    let items = committed.times.borrow().len() as u64;
    let (from, to, sent, p50_us, p99_us) = Default::default();
    let session = SavedSession {
        session: 1,
        from,
        to,
        active_s: 0.0,
        items,
        requests: items,
        sent,
        bytes: 0,
        p50_us,
        p99_us,
    };
    let (directory, durability) = ("items".to_owned(), "process".to_owned());
    let saved = SavedReport {
        directory,
        items: plan.ids.len(),
        saved: items,
        resume: "crawlmark run --resume items".to_owned(),
        durability,
        sessions: vec![session],
    };
    read_back(Report {
        saved: Some(saved),
        ..rehearsal.as_it_is(plan)
    })
}

fn deaths(deaths: &[(Duration, u32)]) -> Vec<Incident> {
    deaths
        .iter()
        .map(|(at, shard)| Incident::Death {
            at: *at,
            shard: *shard,
        })
        .collect()
}

/// Runs `plan` while shards die, and replaces them.
fn run_dying(plan: &RunPlan, deaths: &[(Duration, u32)], committed: &Committed) -> Rehearsal {
    run_dying_against(plan, &self::deaths(deaths), committed, |_, _| GOOD)
}

fn run_dying_against(
    plan: &RunPlan,
    incidents: &[Incident],
    committed: &Committed,
    answer: fn(u32, Nanos) -> (Outcome, Advice),
) -> Rehearsal {
    let left = |held: &[IdRange]| Some(committed.left(held));
    run_with(plan, incidents, committed, answer, left)
}

fn run_with(
    plan: &RunPlan,
    incidents: &[Incident],
    committed: &Committed,
    answer: fn(u32, Nanos) -> (Outcome, Advice),
    left: impl Fn(&[IdRange]) -> Option<Left>,
) -> Rehearsal {
    let storing = |shard: &ShardPlan, clock| Storing {
        target: Target {
            clock,
            shard: shard.shard,
            takes: |_, _| MS,
            answer,
        },
        committed: committed.clone(),
        uncommitted: RefCell::default(),
    };
    rehearse_replacing(plan, incidents, storing, |_, held| left(held), &mut Nobody).unwrap()
}

#[test]
fn a_replacement_earns_no_budget_for_the_time_before_it() {
    // A burst of 40 each could be sent at once by a shard that had been there all the time.
    let rate = per_s(1_000);
    let mut plan = run_of(2, 40, 6_000);
    (plan.rate, plan.burst, plan.at_start) = (Some(rate), 80, 2);
    for death in [300, 1_000, 2_345] {
        let committed = Committed::default();
        let rehearsal = run_dying(&plan, &[(death * MS, 0)], &committed);
        assert_eq!(committed.times.take().len(), 6_000);
        let mut sent = committed.sent.take();
        sent.sort_unstable();
        assert!(conforms(&sent, rate, 80), "a death at {death} ms");
        // It is back after a tenth of a second and not at once, or when the others have given its
        // share back.
        let back = rehearsal
            .samples
            .iter()
            .filter(|sample| sample.permit.admitted.0 > u64::from(death) * 1_000_000);
        let first = back
            .filter(|sample| sample.permit.id < 3_000)
            .map(|sample| sample.permit.admitted.0)
            .min()
            .unwrap();
        assert!(
            (u64::from(death) + 100..u64::from(death) + 1_000).contains(&(first / 1_000_000)),
            "{death}: {first}"
        );
        assert!(
            most_in(&sent, 1_000_000) <= 4,
            "no burst: {}",
            most_in(&sent, 1_000_000)
        );
        let report = rehearsal.report(&plan);
        assert_eq!(report.validity.verdict, Verdict::Disturbed);
        assert_eq!(report.shards[0].died.len(), 1);
        assert!(report.budget.unwrap().kept);
    }
}

#[test]
fn a_replacement_has_its_share_of_a_window_that_shards_cannot_share_equally() {
    let rate = Rate {
        permits: 10,
        period_ns: 100_000_000,
    };
    let mut plan = run_of(3, 24, 300);
    plan.shape = RateShape::Windows {
        every_ns: rate.period_ns,
    };
    (plan.rate, plan.burst, plan.at_start) = (Some(rate), 10, 10);
    for shard in 0..3 {
        let committed = Committed::default();
        let rehearsal = run_dying(&plan, &[(800 * MS, shard)], &committed);
        assert_eq!(committed.times.take().len(), 300);
        let mut sent = committed.sent.take();
        sent.sort_unstable();
        assert!(most_in(&sent, plan.shape.apart_ns().unwrap()) <= 10);
        assert!(rehearsal.report(&plan).budget.unwrap().kept);
    }
}

#[test]
fn a_replacement_keeps_the_pause_and_the_distance_that_the_others_were_told() {
    // Everything is throttled for 3 s from the first second on; shard 0 dies in between.
    let refused = |_, sent: Nanos| {
        let wait = Duration::from_nanos(4_000_000_000_u64.saturating_sub(sent.0));
        if (1_000_000_000..4_000_000_000).contains(&sent.0) {
            throttled(Some(wait))
        } else {
            GOOD
        }
    };
    let mut paused = RunPlan {
        duration: Some(6 * S),
        ..run_of(2, 8, 1 << 40)
    };
    let committed = Committed::default();
    run_dying_against(&paused, &deaths(&[(1_500 * MS, 0)]), &committed, refused);
    let sent = committed.sent.take();
    let in_pause = sent
        .iter()
        .filter(|at| (1_010_000_000..4_000_000_000).contains(*at))
        .count();
    assert_eq!(in_pause, 0);
    assert!(sent.iter().filter(|at| **at >= 4_000_000_000).count() > 1_000);
    // Two requests a second, kept half a second apart.
    paused.shards = 1;
    (paused.rate, paused.burst, paused.at_start) = (Some(per_s(2)), 1, 1);
    paused.duration = Some(30 * S);
    for death in [3_000, 3_100, 3_600] {
        let committed = Committed::default();
        run_dying(&paused, &[(death * MS, 0), (2 * death * MS, 0)], &committed);
        let mut sent = committed.sent.take();
        sent.sort_unstable();
        assert!(
            sent.windows(2).all(|two| two[1] - two[0] >= 500_000_000),
            "{death}: {sent:?}"
        );
        assert!(sent.len() > 45, "{}", sent.len());
    }
}

#[test]
fn a_shard_that_keeps_dying_is_replaced_three_times_and_then_gone_without() {
    let plan = run_of(2, 4, 40_000);
    let deaths: Vec<_> = (1..=6).map(|n| (n * S, 0)).collect();
    let committed = Committed::default();
    let rehearsal = run_dying(&plan, &deaths, &committed);
    let shard = &rehearsal.record.shards[0];
    assert_eq!(
        (shard.past.len(), &shard.fault),
        (3, &Some(ShardFault::Died))
    );
    let report = saved_report(&rehearsal, &plan, &committed);
    assert_eq!(report.validity.verdict, Verdict::Incomplete);
    assert_eq!(
        (report.ledger.planned, report.ledger.ok),
        (40_000, report.saved.unwrap().saved)
    );
    assert!(report.ledger.lost > 0 && report.ledger.lost + report.ledger.not_attempted < 20_000);
}

#[test]
fn a_shard_is_not_replaced_by_an_answer_that_does_not_fit_or_in_an_open_loop() {
    let death = [Incident::Death {
        at: 500 * MS,
        shard: 0,
    }];
    let plan = run_of(2, 4, 12_000);
    let asked = Cell::new(0);
    let wrong: [fn(&[IdRange]) -> Left; 3] = [
        // IDs of the other shard; too many finished items; one ID twice.
        |_| Left {
            ids: vec![IdRange {
                start: 5_999,
                end: 6_001,
            }],
            items: ItemCounts {
                ok: 5_999,
                ..ItemCounts::default()
            },
        },
        |_| Left {
            ids: Vec::new(),
            items: ItemCounts {
                ok: 6_001,
                ..ItemCounts::default()
            },
        },
        |_| Left {
            ids: vec![IdRange { start: 5, end: 10 }, IdRange { start: 9, end: 11 }],
            items: ItemCounts {
                ok: 5_994,
                ..ItemCounts::default()
            },
        },
    ];
    let target = |shard: &ShardPlan, clock| Target {
        clock,
        shard: shard.shard,
        takes: |_, _| MS,
        answer: |_, _| GOOD,
    };
    for wrong in wrong {
        let left = |_: &ShardPlan, held: &[IdRange]| {
            asked.set(asked.get() + 1);
            Some(wrong(held))
        };
        let rehearsal = rehearse_replacing(&plan, &death, target, left, &mut Nobody).unwrap();
        assert_eq!(
            (
                rehearsal.record.shards[0].past.len(),
                rehearsal.record.shards[0].fault.is_some()
            ),
            (0, true)
        );
    }
    assert_eq!(asked.take(), 3, "nobody is asked twice");
    let open = timed(4, 100, 2 * S);
    let committed = Committed::default();
    let rehearsal = run_dying_against(&open, &death, &committed, |_, _| GOOD);
    assert_eq!(
        (
            rehearsal.record.shards[0].past.len(),
            rehearsal.record.shards[0].fault.is_some()
        ),
        (0, true)
    );
    assert_eq!(
        saved_report(&rehearsal, &open, &committed).ledger.ok,
        committed.times.take().len() as u64
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Shards die at any times, paced or not, and some are slow: nothing is lost, nothing is
    /// committed twice, and the report adds up.
    #[test]
    fn whoever_dies_when_every_item_is_committed_once(
        shards in 1..4_u32, deaths in prop::collection::vec((1..4_000_u32, 0..4_u32), 0..4),
        rate in prop::option::of(500..4_000_u64), finished in prop::collection::vec((0..400_u64, 0..400_u64), 0..8),
    ) {
        let mut plan = run_of(shards, 2 * shards, 4_000);
        (plan.rate, plan.burst, plan.at_start) =
            (rate.map(per_s), rate.map_or(0, |_| 8 * u64::from(shards)), rate.map_or(0, |_| u64::from(shards)));
        let mut at = 0;
        for (gap, len) in finished {
            plan.finished.push(IdRange { start: at + gap, end: at + gap + len + 1 });
            at += gap + len + 1;
        }
        plan.finished.retain(|range| range.end < 4_000);
        let deaths: Vec<(Duration, u32)> = deaths.into_iter().map(|(at, shard)| (at * MS, shard % shards)).collect();
        let committed = Committed::default();
        let report = saved_report(&run_dying(&plan, &deaths, &committed), &plan, &committed);
        let is_left = |id: &u64| plan.finished.iter().all(|range| *id < range.start || *id >= range.end);
        let expected: BTreeSet<u64> = (0..4_000).filter(is_left).collect();
        let times = committed.times.take();
        prop_assert!(times.values().all(|times| *times == 1));
        prop_assert_eq!(times.into_keys().collect::<BTreeSet<_>>(), expected);
        prop_assert_eq!((report.ledger.ok, report.ledger.planned), (plan.items(), plan.items()));
        if let Some(rate) = rate {
            let mut sent = committed.sent.take();
            sent.sort_unstable();
            prop_assert!(conforms(&sent, per_s(rate), plan.burst));
        }
    }

    /// Shards that are gone for good leave their share of the budget to the others, also to one that
    /// is replaced later, and no window holds more than it may. A shard is let be late by an interval:
    /// alarms ring in whole ms.
    #[test]
    fn the_budget_of_lost_shards_is_used_by_the_others_and_never_exceeded(
        shards in 2..6_u32, deaths in prop::collection::btree_map(0..6_u32, 200..3_000_u32, 1..5),
        permits in 8..40_u64, every_ms in prop::option::of(50..400_u64), bursts in 2..5_u64,
        replaced in prop::option::of(0..6_u32),
    ) {
        let rate = Rate { permits, period_ns: every_ms.unwrap_or(100) * 1_000_000 };
        let mut plan = run_of(shards, 8 * shards, 1 << 40);
        (plan.rate, plan.burst, plan.at_start) = (Some(rate), bursts * u64::from(shards), u64::from(shards));
        plan.duration = Some(6 * S);
        if every_ms.is_some() {
            plan.shape = RateShape::Windows { every_ns: rate.period_ns };
            (plan.burst, plan.at_start) = (permits, permits);
        }
        let mut dying: Vec<(Duration, u32)> = deaths.iter().map(|(shard, at)| (*at * MS, shard % shards)).collect();
        let lost: BTreeSet<u32> = dying.iter().map(|(_, shard)| *shard).collect();
        let replaced = replaced.map(|shard| shard % shards).filter(|shard| !lost.contains(shard));
        dying.extend(replaced.map(|shard| (3_200 * MS, shard)));
        let lost = lost.len() as u64;
        prop_assume!(lost < u64::from(shards));
        let committed = Committed::default();
        // In windows, parts of the IDs are as large as the shares of the budget.
        let own = plan.split(&[]);
        let own = replaced.map(|shard| own[shard as usize].ids.clone());
        let returns = |held: &[IdRange]| own.as_deref().is_some_and(|own| held[0].start == own[0].start);
        let left = |held: &[IdRange]| returns(held).then(|| committed.left(held));
        let rehearsal = run_with(&plan, &self::deaths(&dying), &committed, |_, _| GOOD, left);
        let mut sent = committed.sent.take();
        sent.sort_unstable();
        match plan.shape.apart_ns() {
            Some(apart_ns) => prop_assert!(most_in(&sent, apart_ns) <= permits),
            None => prop_assert!(conforms(&sent, rate, plan.burst)),
        }
        prop_assert!(rehearsal.report(&plan).budget.unwrap().kept);
        // Long after the last death: all of it but what is lost to rounding, one a shard and window.
        let late = sent.iter().filter(|at| (4_000_000_000..6_000_000_000).contains(*at)).count() as u64;
        let left = u64::from(shards) - lost;
        let windows = every_ms.map_or(0, |every| 2_000 / every + 1);
        let rounding = windows * left * 2 + permits + 1;
        let all = rate.permits_in(2_000_000_000);
        prop_assert!(late + rounding >= all * 98 / 100, "{late} of {all} by {left} of {shards}");
    }

    /// A run is stopped while shards die, live again, wait for their turn to, or are gone for good:
    /// its items are those that are committed.
    #[test]
    fn whenever_a_run_is_stopped_its_ledger_counts_what_is_committed(
        stop in 1..3_000_u32, is_signal: bool, deaths in prop::collection::vec((1..600_u32, 0..2_u32), 1..9),
    ) {
        let mut plan = run_of(2, 4, 1 << 40);
        plan.duration = (!is_signal).then_some(stop * MS);
        // One soon after the other, the last ones perhaps within a backoff that the stop cuts off.
        let deaths: Vec<(Duration, u32)> = deaths.iter().scan(stop.saturating_sub(1_500), |at, (gap, shard)| {
            *at += gap;
            Some((*at * MS, *shard))
        }).collect();
        let mut incidents = self::deaths(&deaths);
        incidents.extend(is_signal.then_some(Incident::Signal { at: stop * MS, number: 2 }));
        let committed = Committed::default();
        let rehearsal = run_dying_against(&plan, &incidents, &committed, |_, _| GOOD);
        let report = saved_report(&rehearsal, &plan, &committed);
        prop_assert_eq!(report.ledger.ok, committed.times.take().len() as u64);
        prop_assert!(report.ledger.adds_up());
    }
}

#[test]
fn whenever_shards_die_there_is_a_record_and_its_seconds_add_up() {
    // Two of eight die, in a closed loop and a paced one, replaced or not, within each of the
    // frames that a shard sends: progress every tenth of a second, seconds, the end.
    for (rate, replaced) in [(None, true), (Some(5_000), true), (Some(5_000), false)] {
        for ms in (1..1_400).step_by(61) {
            let mut plan = run_of(8, 16, 5_000);
            plan.rate = rate.map(|permits| Rate {
                permits,
                period_ns: 1_000_000_000,
            });
            plan.burst = if rate.is_some() { 16 } else { 0 };
            plan.at_start = plan.burst.min(8);
            let committed = Committed::default();
            let dying = deaths(&[(ms * MS, 0), ((ms + 3) * MS, 3)]);
            let rehearsal = if replaced {
                run_dying_against(&plan, &dying, &committed, |_, _| GOOD)
            } else {
                rehearse(&plan, &dying, |shard, clock| Target {
                    clock,
                    shard: shard.shard,
                    takes: |_, _| MS,
                    answer: |_, _| GOOD,
                })
                .unwrap()
            };
            let report = rehearsal.report(&plan);
            let of_seconds: u64 = report.intervals.iter().map(|row| row.attempts).sum();
            let case = format!("{rate:?}, replaced {replaced}, at {ms} ms");
            assert_eq!(of_seconds, report.totals.attempts, "{case}");
            let seconds = rehearsal
                .intervals
                .iter()
                .map(|second| second.figures.index);
            assert!(
                seconds.is_sorted_by(|a, b| a < b),
                "{case}: seconds in order"
            );
            if replaced {
                assert_eq!(report.ledger.ok, 5_000, "{case}");
            }
        }
    }
}
