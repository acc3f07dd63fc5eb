//! Parts of a crawl, each rehearsed by itself: merged, they are the run of one machine.

use std::io;

use crawlmark_harness::plan::split_point;
use crawlmark_harness::supervisor::RunRecord;
use crawlmark_harness::supervisor::parts::{PartError, PartStart, PartWriter, merge};

use super::*;

/// Length of the pattern of times and answers; the IDs of each part begin with a whole one, so that
/// all parts end together and no shard of the run of one machine helps another.
const PATTERN: usize = 6;

/// A target whose times and answers are those of the ID.
struct Patterned {
    clock: Clock,
    pattern: Vec<(u64, u8)>,
}

impl Workload for Patterned {
    async fn perform(
        &self,
        id: u64,
        flight: &Flight,
        clearance: &impl Clearance,
        ended: &mut Attempt,
    ) -> Option<()> {
        let sent = clearance.wait().await?;
        flight.note(in_flight(sent, 10, 0));
        let (ms, answer) = self.pattern[usize::try_from(id).unwrap() % PATTERN];
        tokio::time::sleep(MS * u32::try_from(ms).unwrap()).await;
        let (outcome, status) = match answer {
            0 => (Outcome::NotFound, 404),
            1 => (Outcome::Rejected, 500),
            2 => (Outcome::Error(ErrorKind::WrongBody), 200),
            _ => (Outcome::Ok, 200),
        };
        *ended = Attempt {
            bytes_sent: 10,
            bytes_received: 100 + id % 7,
            status: Some(status),
            ..attempt_of(sent, self.clock.now(), outcome)
        };
        Some(())
    }
}

/// Rehearse a run over these IDs, and return it with its frames.
fn part(pattern: &[(u64, u8)], plan: &RunPlan) -> (Rehearsal, Vec<u8>) {
    let target = |_: &ShardPlan, clock| Patterned {
        clock,
        pattern: pattern.to_vec(),
    };
    let rehearsal = rehearse(plan, &[], target).unwrap();
    let frames = frames(&rehearsal.intervals, &rehearsal.record);
    (rehearsal, frames)
}

fn frames(intervals: &[Interval], record: &RunRecord) -> Vec<u8> {
    let mut writer = PartWriter::new(Vec::new());
    for interval in intervals {
        writer.second(interval).unwrap();
    }
    writer.end(record).unwrap()
}

#[derive(Default)]
struct Seconds(Vec<Interval>);

impl Observer for Seconds {
    fn progress(&mut self, _: &Live) {}
    fn interval(&mut self, interval: &Interval) {
        self.0.push(interval.clone());
    }
}

/// Merge streams that start so many seconds after the common start.
fn merged(
    plan: &RunPlan,
    parts: &[(u64, &[u8])],
) -> Result<(RunRecord, Vec<Interval>), (u32, PartError)> {
    let starts: Vec<PartStart> = (0..)
        .zip(parts)
        .map(|(part, (s, _))| PartStart {
            part,
            offset: Duration::from_secs(*s),
        })
        .collect();
    let mut seconds = Seconds::default();
    let record = merge(
        plan,
        &starts,
        |part| Ok::<_, io::Error>(parts[part as usize].1),
        &mut seconds,
    )?;
    Ok((record, seconds.0))
}

/// The report of a record, without what belongs to processes and the calendar.
fn figures(plan: &RunPlan, record: RunRecord, intervals: Vec<Interval>) -> Report {
    let report = Rehearsal {
        record,
        intervals,
        samples: Vec::new(),
    }
    .report(plan);
    let mut bare = Report {
        run_id: String::new(),
        started_at: String::new(),
        finished_at: String::new(),
        ..report
    };
    for shard in &mut bare.shards {
        (shard.pid, shard.exit, shard.connections) = (0, ShardExit::Unknown, 0);
    }
    bare.supervisor.cpu_share = 0.0;
    bare
}

fn pattern() -> impl Strategy<Value = Vec<(u64, u8)>> {
    prop::collection::vec((1..700_u64, 0..6_u8), PATTERN)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn merged_parts_equal_the_run_of_one_machine(
        pattern in pattern(), parts in 1..5_u32, lanes in 1..4_u32, periods in 1..5_u64, start in 0..1_000_u64,
    ) {
        let len = u64::from(parts) * periods * PATTERN as u64;
        let start = start * PATTERN as u64;
        let whole = RunPlan {
            shards: parts,
            connections: parts * lanes,
            ids: IdRange { start, end: start + len },
            warmup: S,
            duration: Some(S * 60),
            ..plan()
        };
        let streams: Vec<Vec<u8>> = (0..parts).map(|i| {
            let point = |i: u32| start + split_point(len, parts.into(), i.into());
            let ids = IdRange { start: point(i), end: point(i + 1) };
            part(&pattern, &RunPlan { shards: 1, connections: lanes, ids, ..whole.clone() }).1
        }).collect();
        let streams: Vec<(u64, &[u8])> = streams.iter().map(|stream| (0, &**stream)).collect();
        let (record, seconds) = merged(&whole, &streams).unwrap();
        let (one, _) = part(&pattern, &whole);
        prop_assert_eq!(figures(&whole, record, seconds), figures(&whole, one.record, one.intervals));
    }

    #[test]
    fn parts_may_be_merged_in_groups_and_in_any_order(
        patterns in [pattern(), pattern(), pattern()], starts in [0..20_u64, 0..20, 0..20], swap: bool,
    ) {
        let [a, b, c] = [0, 1, 2].map(|i: u32| {
            let ids = IdRange { start: u64::from(i) * 30, end: u64::from(i + 1) * 30 };
            part(&patterns[i as usize], &RunPlan { shards: 1, connections: 4, ids, ..plan() }).1
        });
        let of = |parts: u32| RunPlan { shards: parts, connections: parts * 4, ids: IdRange { start: 0, end: u64::from(parts) * 30 }, ..plan() };
        let shown = |plan: &RunPlan, parts: &[(u64, &[u8])]| {
            let (record, seconds) = merged(plan, parts).unwrap();
            let Report { totals, ledger, latency, intervals, failures, .. } = figures(plan, record, seconds);
            (totals, ledger, latency, intervals, failures)
        };
        let all = [(starts[0], &*a), (starts[1], &*b), (starts[2], &*c)];
        let (pair, seconds) = merged(&of(2), &all[..2]).unwrap();
        let pair = frames(&seconds, &pair);
        let grouped = if swap { [(starts[2], &*c), (0, &*pair)] } else { [(0, &*pair), (starts[2], &*c)] };
        // Each part of a group has its own peak of requests in flight, and so has the group.
        let flat = shown(&of(3), &all);
        let mut grouped = shown(&RunPlan { shards: 2, ..of(3) }, &grouped);
        grouped.0.peak_in_flight = flat.0.peak_in_flight;
        prop_assert_eq!(grouped, flat);
    }

    #[test]
    fn seconds_are_merged_in_whatever_order_they_were_written_even_if_one_is_missing(
        pattern in pattern(), slow_s in 1..9_u64, keys in prop::collection::vec(any::<u64>(), 40), gap: prop::sample::Index,
    ) {
        let mut pattern = pattern;
        pattern[0].0 = slow_s * 1_000;
        let plan = RunPlan { shards: 2, connections: 8, ids: IdRange { start: 0, end: 60 }, ..plan() };
        let whole = RunPlan { shards: 1, ..plan.clone() };
        let (run, written) = part(&pattern, &plan);
        let mut intervals = run.intervals;
        let attempts = |intervals: &[Interval]| intervals.iter().map(|one| one.merged.counters.requests.attempts).sum::<u64>();
        let check = |stream: &[u8], expected: u64| {
            let (record, mut seconds) = merged(&whole, &[(0, stream)]).unwrap();
            assert_eq!(attempts(&seconds), expected);
            assert!(seconds.iter().map(|one| one.index).eq(0..seconds.len() as u64));
            // The last second may be the one that is missing.
            seconds.retain(|one| one.merged.counters.requests.attempts > 0 || one.scheduled.requests > 0);
            figures(&whole, record, seconds)
        };
        let all = attempts(&intervals);
        prop_assert_eq!(all, run.record.shards.iter().map(|shard| shard.stats.counters.requests.attempts).sum::<u64>());
        let as_written = check(&written, all);
        intervals.sort_by_key(|one| keys[usize::try_from(one.index).unwrap() % keys.len()]);
        prop_assert_eq!(check(&frames(&intervals, &run.record), all), as_written);
        let missing = intervals.remove(gap.index(intervals.len()));
        check(&frames(&intervals, &run.record), all - attempts(&[missing]));
    }

    #[test]
    fn a_cut_or_changed_stream_is_an_error(pattern in pattern(), at: prop::sample::Index, flip in 0..=255_u8) {
        let plan = RunPlan { shards: 1, connections: 2, ids: IdRange { start: 0, end: 30 }, ..plan() };
        let (_, mut stream) = part(&pattern, &plan);
        let at = at.index(stream.len());
        prop_assert!(merged(&plan, &[(0, &stream[..at])]).is_err());
        prop_assert!(merged(&plan, &[(0, &[&*stream, &*stream].concat())]).is_err());
        stream[at] ^= flip;
        prop_assert_eq!(merged(&plan, &[(0, &stream)]).is_err(), flip != 0);
    }
}

#[test]
fn a_missing_part_has_all_of_its_items_not_attempted() {
    let plan = RunPlan {
        shards: 2,
        connections: 4,
        ids: IdRange { start: 0, end: 60 },
        ..plan()
    };
    let (_, stream) = part(
        &[(10, 5); PATTERN],
        &RunPlan {
            shards: 1,
            connections: 2,
            ids: IdRange { start: 0, end: 30 },
            ..plan.clone()
        },
    );
    let (record, seconds) = merged(&plan, &[(0, &stream)]).unwrap();
    let report = figures(&plan, record, seconds);
    assert_eq!(
        (
            report.ledger.planned,
            report.ledger.ok,
            report.ledger.not_attempted
        ),
        (60, 30, 30)
    );
    assert_eq!(report.validity.verdict, Verdict::Incomplete);
}
