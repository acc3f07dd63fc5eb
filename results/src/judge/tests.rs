//! Each gate has the test that trips it, and the same case just below its threshold, which does
//! not.

mod fired;

use std::collections::BTreeSet;
use std::num::NonZeroU64;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::run::report::{
    Audit, BindingReport, ConnectionsReport, Environment, IntervalRow, Latency, Ledger, Limit,
    MergedReport, ShardCourse, ShardReport, TargetReport, Totals, UsageReport, WindowReport,
};
use crawlmark_harness::fixtures::plan;
use crawlmark_harness::plan::RunPlan;
use crawlmark_harness::plan::{Arrivals, BundledSettings, OnThrottle, Pacing};
use crawlmark_harness::process::ShardExit;
use crawlmark_harness::sample::ErrorKind;
use crawlmark_harness::stats::{
    Bounds, ConnectionCounts, Counters, FailureCause, ItemCounts, RequestCounts, Series,
    ShardStats, TcpCounts,
};
use crawlmark_harness::supervisor::{Interval, ShardFault};
use crawlmark_harness::units::{IdRange, Rate};
use crawlmark_harness::wire::{Scheduled, SecondFigures};

/// A run that can be spoilt.
#[derive(Clone)]
struct Run {
    plan: RunPlan,
    environment: Environment,
    shards: Vec<ShardReport>,
    counters: Counters,
    tcp: TcpCounts,
    closed: ConnectionCounts,
    ledger: Ledger,
    intervals: Vec<IntervalRow>,
}

impl Run {
    /// Two shards, ten seconds, a thousand attempts at 100 a second, to a target elsewhere.
    fn quiet() -> Self {
        let mut plan = plan();
        plan.rate = Some(Rate {
            permits: 100,
            period_ns: 1_000_000_000,
        });
        let items = ItemCounts {
            ok: 1_000,
            ..ItemCounts::default()
        };
        let ledger = Ledger {
            planned: 1_000,
            items,
            ..Ledger::default()
        };
        Self {
            plan,
            environment: Environment {
                cpu_model: None,
                cores: 4,
                cpus: Vec::new(),
                machine_cpus: None,
                kernel: None,
                cpu_governor: None,
                memory_bytes: None,
                nofile: Some(64),
                local_ports: Some([1_001, 2_000]),
                colocated: false,
                git_revision: None,
            },
            shards: vec![shard(0), shard(1)],
            counters: Counters {
                items,
                requests: RequestCounts {
                    attempts: 1_000,
                    connections_opened: 8,
                    ..RequestCounts::default()
                },
                ..Counters::default()
            },
            tcp: TcpCounts::default(),
            closed: ConnectionCounts::default(),
            ledger,
            intervals: Vec::new(),
        }
    }

    fn judge(&self) -> Report {
        self.judge_after(10.0)
    }

    fn judge_after(&self, duration_s: f64) -> Report {
        let example = include_str!("../../example/result.json");
        let mut report: Report = serde_json::from_str(example).unwrap();
        report.plan.run = self.plan.clone();
        report.environment = self.environment.clone();
        report.target = Some(TargetReport::default());
        report.shards = self.shards.clone();
        report.totals = Totals::new(&self.counters, duration_s, 8);
        report.ledger = self.ledger;
        report.intervals = self.intervals.clone();
        report.tcp.counts = self.tcp;
        let service = report.latency.get_mut(Series::ServiceOk.name());
        service.unwrap().count = self.counters.items.ok;
        report.connections = ConnectionsReport::from(&self.closed);
        report.binding = BindingReport::default();
        (report.budget, report.schedule, report.warmup) = (None, None, None);
        report.judge();
        report
    }

    fn usage(&mut self) -> &mut UsageReport {
        &mut self.shards[1].usage
    }

    fn times(&mut self, series: Series) -> &mut Latency {
        self.shards[1]
            .latency
            .entry(series.name().to_owned())
            .or_insert_with(|| times(0.0))
    }

    fn reject(&mut self, status: u16, attempts: u64) {
        self.counters
            .requests
            .attempts_by_status
            .insert(status, attempts);
        self.counters
            .requests
            .rejected_by_status
            .insert(status, attempts);
        self.counters.items.ok -= attempts;
        self.ledger.ok -= attempts;
        self.ledger.failed += attempts;
    }

    fn fail(&mut self, kind: ErrorKind, attempts: u64) {
        self.counters.requests.errors_by_kind.insert(kind, attempts);
        self.counters.items.ok -= attempts;
        self.ledger.ok -= attempts;
        self.ledger.failed += attempts;
    }
}

fn shard(number: u32) -> ShardReport {
    let latency = [
        (Series::SchedLag, 50.0),
        (Series::ServiceOk, 10_000.0),
        (Series::LoopLag, 900.0),
        (Series::ReceiveDelay, 30.0),
    ];
    ShardReport {
        shard: number,
        pid: 1,
        cpu: Some(number as usize),
        id_range: IdRange { start: 0, end: 500 },
        held: Vec::new(),
        connections: 4,
        exit: ShardExit::Clean,
        died: Vec::new(),
        fault: None,
        binding: BindingReport::default(),
        ledger: Ledger {
            planned: 500,
            items: ItemCounts {
                ok: 500,
                ..ItemCounts::default()
            },
            ..Ledger::default()
        },
        scheduled: None,
        postponed: None,
        dropped_by: None,
        longest_linger_us: None,
        totals: Totals::new(&Counters::default(), 10.0, 4),
        course: ShardCourse::default(),
        latency: latency
            .into_iter()
            .map(|(series, us)| (series.name().to_owned(), times(us)))
            .collect(),
        usage: UsageReport {
            cpu_share: Some(0.3),
            run_delay_share: Some(0.001),
            measured_s: Some(10.0),
            steal_share: Some(0.0),
            speed_before_us: Some(1_500.0),
            speed_after_us: Some(1_510.0),
            ..UsageReport::default()
        },
    }
}

/// A thousand values that are all the same.
fn times(us: f64) -> Latency {
    Latency {
        count: 1_000,
        min_us: Some(us),
        mean_us: Some(us),
        mean_at_least_us: None,
        p50_us: Some(us),
        p90_us: Some(us),
        p99_us: Some(us),
        p999_us: None,
        max_us: Some(us),
        ended_max_us: None,
        at_least: Vec::new(),
        overflow: 0,
        censored: 0,
        hdr: None,
    }
}

/// A quiet run, spoilt so, comes to `verdict` by one finding, of this kind.
#[track_caller]
fn trips(verdict: Verdict, kind: FindingKind, spoil: impl FnOnce(&mut Run)) {
    let mut run = Run::quiet();
    spoil(&mut run);
    let judged = run.judge();
    let effects = judged
        .findings
        .iter()
        .filter(|finding| finding.effect().is_some());
    let kinds: Vec<FindingKind> = effects.map(Finding::kind).collect();
    assert_eq!((judged.validity.verdict, kinds), (verdict, vec![kind]));
}

/// A quiet run, changed so, is valid.
#[track_caller]
fn passes(change: impl FnOnce(&mut Run)) {
    let mut run = Run::quiet();
    change(&mut run);
    let judged = run.judge();
    assert_eq!(
        judged.validity.verdict,
        Verdict::Valid,
        "{:?}",
        judged.findings
    );
}

/// Number of checks of a run.
const CHECKS: usize = checks::OF_RUN.len() + checks::OF_MACHINE.len();

#[test]
fn g_nothing_is_found_in_a_quiet_run_and_every_check_is_made() {
    let judged = Run::quiet().judge();
    assert_eq!(
        (judged.validity.verdict, judged.validity.checked.len()),
        (Verdict::Valid, CHECKS)
    );
    assert_eq!(judged.findings, []);
}

#[test]
fn the_kernel_is_suspected_only_where_a_process_was_not_ended_by_its_run() {
    fn remedy(fault: ShardFault) -> Option<String> {
        let mut run = Run::quiet();
        (run.shards[1].fault, run.shards[1].exit) = (Some(fault), ShardExit::Signal(9));
        run.judge().findings[0].remedy()
    }
    let by_itself = remedy(ShardFault::Died);
    assert!(by_itself.is_some());
    for fault in [
        ShardFault::Silent(std::time::Duration::from_secs(10)),
        ShardFault::Junk(String::new()),
        ShardFault::Overdue,
    ] {
        assert_ne!(remedy(fault), by_itself);
    }
}

#[test]
fn the_guide_has_the_limits() {
    use super::thresholds::*;

    let guide = include_str!("../../../docs/src/reference/verdicts.md");
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    for phrase in [
        format!("more than {} of a CPU", percent(CPU_USE)),
        format!(
            "without a CPU, for more than {} of its time",
            percent(RUN_DELAY)
        ),
        format!("with `--rate`: p99 over {} ms", SCHED_LAG_US / 1e3),
        format!(
            "p99 over {} ms and over a tenth of the median",
            RECEIVE_DELAY_US / 1e3
        ),
        format!("a single timer more than {} ms late", FREEZE_US / 1e3),
        format!("more than {} of a shard's CPU", percent(STEAL)),
        format!("took {} longer", percent(SPEED)),
        format!(
            "one in {},000 responses, and at least {LEAST_LATE}",
            1e-3 / RETRANSMITS
        ),
        format!("the same number of requests: {KEEP_ALIVE} at most"),
        format!(
            "more than {} of the requests that were due",
            percent(DROPPED)
        ),
        format!("p99 of `pool_wait` over {} ms", WAIT_US / 1e3),
        format!("Runs below {SHORTEST_S} s"),
        format!("from {}: `errors`", percent(FAILED)),
        format!("for the last {LEAST_DEAD_S} s"),
    ] {
        assert!(guide.contains(&phrase), "verdicts.md lacks: {phrase}");
    }
}

#[test]
fn of_two_findings_the_verdict_is_the_one_to_know_first_and_the_guide_has_the_order() {
    let order = Verdict::ALL
        .map(|verdict| format!("`{}`", verdict.name()))
        .join(", ");
    let guide = include_str!("../../../docs/src/reference/verdicts.md")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert!(guide.contains(&order), "verdicts.md lacks: {order}");
    for (i, graver) in Verdict::ALL.into_iter().enumerate().skip(1) {
        for lesser in Verdict::ALL.into_iter().take(i).skip(1) {
            for both in [[lesser, graver], [graver, lesser]] {
                let mut report = Run::quiet().judge();
                for verdict in both {
                    let found = Finding::PartsJudged {
                        verdict,
                        parts: vec![1],
                        of: 2,
                        reason: String::new(),
                    };
                    report.note("it", Some(found));
                }
                let validity = &report.validity;
                assert_eq!(
                    (validity.verdict, &validity.verdicts[..]),
                    (graver, &[lesser, graver][..])
                );
                assert_eq!(report.findings.len(), 2, "every finding is told");
            }
        }
    }
}

#[test]
fn covering_is_a_strict_order_from_graver_kinds_to_lesser_ones() {
    for a in Finding::samples() {
        for b in Finding::samples() {
            let covers = |by: FindingKind, kind| by.covers().contains(&kind);
            if !covers(a.kind(), b.kind()) {
                continue;
            }
            // Of some kinds the numbers decide whether they are a warning.
            let most = b.severity().max(Severity::Warning);
            let is_graver = a.severity() > most || a.severity() == most && a.kind() < b.kind();
            assert!(is_graver, "{:?} {:?}", a.kind(), b.kind());
            for c in b.kind().covers() {
                assert!(covers(a.kind(), *c), "{:?} {:?} {c:?}", a.kind(), b.kind());
            }
        }
    }
}

/// Set each number, text and absent value below `place` to one that was drawn, where the finding
/// allows it.
#[expect(clippy::cast_possible_truncation, reason = "any number will do")]
fn draw(all: &mut Value, place: &str, numbers: &mut impl Iterator<Item = u64>, text: &str) {
    let keys: Vec<String> = match all.pointer(place) {
        Some(Value::Object(fields)) => fields.keys().cloned().collect(),
        Some(Value::Array(rows)) => (0..rows.len()).map(|n| n.to_string()).collect(),
        _ => Vec::new(),
    };
    for key in &keys {
        draw(all, &format!("{place}/{key}"), numbers, text);
    }
    if !keys.is_empty() || place == "/kind" {
        return;
    }
    let bits = numbers.next().unwrap_or(0);
    let (small, signed) = (bits as u32, bits as i32);
    let float = f64::from_bits(bits).abs();
    for value in [
        json!(float),
        json!(f64::from(small)),
        json!(bits),
        json!(small),
        json!(signed),
        json!(text),
    ] {
        let mut other = all.clone();
        *other.pointer_mut(place).unwrap() = value;
        // JSON has no number that is none, or endless.
        if other.pointer(place) != Some(&Value::Null)
            && serde_json::from_value::<Finding>(other.clone()).is_ok()
        {
            *all = other;
            return;
        }
    }
}

proptest! {
    #[test]
    fn a_headline_fits_a_line_whatever_its_numbers_are(
        bits in prop::collection::vec(any::<u64>(), 16), text in ".{0,60}", shift in 0..64_u32,
    ) {
        for finding in Finding::samples() {
            let mut json = serde_json::to_value(&finding).unwrap();
            draw(&mut json, "", &mut bits.iter().map(|bits| bits >> shift), &text);
            for finding in [finding, serde_json::from_value(json).unwrap()] {
                let headline = finding.headline();
                let length = headline.chars().count();
                prop_assert!((1..=48).contains(&length), "{headline:?} has {length}");
                prop_assert!(!headline.ends_with('.'), "{headline:?}");
            }
        }
    }

    #[test]
    fn what_is_shown_depends_on_what_was_found_and_covers_all_of_it(
        found in prop::sample::subsequence(Finding::samples(), 1..12).prop_shuffle(),
    ) {
        let mut shown = Vec::new();
        for finding in found.clone() {
            add_uncovered(&mut shown, finding);
        }
        let covers = |by: &Finding, kind: FindingKind| by.kind().covers().contains(&kind);
        for finding in &found {
            let is_covered = shown.iter().any(|by| covers(by, finding.kind()));
            prop_assert_eq!(shown.contains(finding), !is_covered);
        }
        let verdict = found.iter().filter_map(Finding::effect).max();
        let is_told = shown.iter().any(|one| one.effect() == verdict);
        prop_assert!(is_told || verdict.is_none(), "{verdict:?} has a reason");
        let mut ordered = found;
        ordered.sort_by_key(Finding::rank);
        prop_assert_eq!(&shown[0], &ordered[0], "the gravest is shown first");
        ordered.retain(|finding| shown.contains(finding));
        prop_assert_eq!(shown, ordered);
    }
}

#[test]
fn limits_of_parts_held_while_these_ran_and_the_rest_of_the_time_went_without_one() {
    let mut report = Run::quiet().judge();
    report.binding = BindingReport {
        rate: 1.0,
        ..BindingReport::default()
    };
    assert_eq!(Limit::of(&report)[0], (1.0, Limit::Rate));
    report.merged = Some(MergedReport {
        slots_used: 0.25,
        ..MergedReport::default()
    });
    let limits = [(0.75, Limit::Slots), (0.25, Limit::Rate)];
    assert_eq!(Limit::of(&report)[..2], limits);
    report.judge();
    let limit = report.findings.iter().find_map(|finding| match finding {
        Finding::LimitedBy { limit, .. } => Some(*limit),
        _ => None,
    });
    assert_eq!(limit, Some(Limit::Slots));
}

#[test]
fn what_concerns_most_of_the_run_comes_before_what_concerns_little_of_it() {
    let shown = |waited, unsent| {
        let mut shown = Vec::new();
        let (share, limit, count, by_deadline) = (unsent, Limit::Connections, 1, false);
        add_uncovered(
            &mut shown,
            Finding::NeverSent {
                share,
                count,
                limit,
                by_deadline,
            },
        );
        let (share, is_disturbed) = (waited, false);
        add_uncovered(
            &mut shown,
            Finding::CpuWait {
                share,
                is_disturbed,
            },
        );
        shown.iter().map(Finding::kind).collect::<Vec<_>>()
    };
    let by_table = [FindingKind::CpuWait, FindingKind::NeverSent];
    assert_eq!(shown(0.06, 0.2), by_table);
    assert_eq!(shown(0.8, 0.8), by_table);
    let turned = [FindingKind::NeverSent, FindingKind::CpuWait];
    assert_eq!(shown(0.06, 0.8), turned);
}

/// The ways in which attempts can fail that are the target's.
const FAILURES: [fn(&mut Run, u64); 4] = [
    |run, count| run.fail(ErrorKind::ConnectRefused, count),
    |run, count| run.fail(ErrorKind::WrongBody, count),
    |run, count| run.reject(500, count),
    |run, count| {
        run.reject(200, count);
        run.counters.requests.rejected_by_status.clear();
        run.counters.requests.soft_blocked = count;
    },
];

#[test]
fn g_answers_and_failed_requests() {
    for fail in FAILURES {
        let failed = |count: u64, verdict| {
            trips(verdict, FindingKind::RequestsFailed, |run| fail(run, count));
        };
        passes(|run| fail(run, 9));
        failed(10, Verdict::Errors);
        failed(499, Verdict::Errors);
        failed(500, Verdict::TargetLimited);
        let open = |run: &mut Run, count| {
            run.plan.arrivals = Arrivals::Constant;
            fail(run, count);
        };
        passes(|run| open(run, 9));
        trips(Verdict::TargetLimited, FindingKind::RequestsFailed, |run| {
            open(run, 10);
        });
    }
    let both = |run: &mut Run| {
        run.reject(401, 30);
        run.reject(302, 40);
        run.fail(ErrorKind::ConnectRefused, 20);
        // What is not there has not failed, and what was throttled or cut off has not, either.
        run.ledger.not_found += 100;
        run.ledger.ok -= 100;
        run.counters.requests.attempts_by_status.insert(404, 100);
    };
    trips(Verdict::Errors, FindingKind::RequestsFailed, both);
    for spared in [
        |run: &mut Run| {
            (
                run.counters.requests.throttled,
                run.ledger.ok,
                run.ledger.gave_up,
            ) = (200, 800, 200);
        },
        |run: &mut Run| (run.ledger.not_found, run.ledger.ok) = (200, 800),
    ] {
        passes(spared);
    }
}

#[test]
fn g_items_that_are_not_there() {
    let missing = |run: &mut Run, count: u64| {
        (run.ledger.not_found, run.ledger.ok) = (count, 1_000 - count);
        run.plan.workload.bundled = None;
    };
    passes(|run| missing(run, 500));
    trips(Verdict::Errors, FindingKind::NotFound, |run| {
        missing(run, 501);
    });
    // The bundled target has the items that its settings say.
    passes(|run| {
        missing(run, 950);
        run.plan.workload.bundled = Some(BundledSettings::default());
    });
}

#[test]
fn g_requests_cut_off() {
    let cut =
        |run: &mut Run, count: u64| (run.ledger.aborted, run.ledger.ok) = (count, 1_000 - count);
    let open = |run: &mut Run, count| {
        run.plan.arrivals = Arrivals::Constant;
        cut(run, count);
    };
    passes(|run| cut(run, 99));
    trips(Verdict::Errors, FindingKind::CutOff, |run| cut(run, 100));
    trips(Verdict::TargetLimited, FindingKind::CutOff, |run| {
        cut(run, 500);
    });
    passes(|run| open(run, 9));
    trips(Verdict::TargetLimited, FindingKind::CutOff, |run| {
        open(run, 10);
    });
}

/// When a request was due and when it ended, ms since the start, and whether its answer was good.
type TimedRequest = (u64, u64, bool);

/// The seconds of a run of ten with these requests.
fn seconds(requests: &[TimedRequest]) -> Vec<IntervalRow> {
    let row = |start_s: u64| {
        let count = |is: &dyn Fn(&TimedRequest) -> bool| {
            requests.iter().filter(|request| is(request)).count() as u64
        };
        let [due_good, due_failed] =
            [true, false].map(|good| count(&|(due, _, is)| due / 1_000 == start_s && *is == good));
        let [ok, failed] = [true, false]
            .map(|good| count(&|(_, ended, is)| ended / 1_000 == start_s && *is == good));
        let mut merged = ShardStats::new(Bounds::for_timeout(std::time::Duration::from_secs(1)));
        let Counters {
            items, requests, ..
        } = &mut merged.counters;
        (items.ok, items.failed, requests.attempts) = (ok, failed, ok + failed);
        IntervalRow::new(&Interval {
            figures: SecondFigures {
                index: start_s,
                scheduled: Scheduled {
                    requests: due_good + due_failed,
                    good: due_good,
                    failed: due_failed,
                },
                ..SecondFigures::default()
            },
            merged,
            shards: Vec::new(),
            seconds: Vec::new(),
        })
    };
    (0..10).map(row).collect()
}

/// Requests that end at once: for each second, its good ones and its failures.
fn at_once(counts: &[(u64, u64)]) -> Vec<IntervalRow> {
    let of = |(start_s, (good, failed)): (u64, &(u64, u64))| {
        let request = move |is_good| (start_s * 1_000, start_s * 1_000, is_good);
        (0..*good)
            .map(|_| true)
            .chain((0..*failed).map(|_| false))
            .map(request)
    };
    seconds(&(0..).zip(counts).flat_map(of).collect::<Vec<_>>())
}

/// Time without a good answer that a run has, s.
fn dead_s(report: &Report) -> f64 {
    let dead = |finding: &Finding| match *finding {
        Finding::NoGoodResponse { dead_s, .. } => Some(dead_s),
        _ => None,
    };
    report.findings.iter().find_map(dead).unwrap_or_default()
}

#[test]
fn g_time_without_a_good_answer() {
    const GOOD: (u64, u64) = (100, 0);
    const NONE: (u64, u64) = (0, 0);
    const FAILED: (u64, u64) = (0, 1);
    let dead = |verdict, seconds: u32, rows: Vec<IntervalRow>| {
        let mut run = Run::quiet();
        run.intervals = rows;
        let judged = run.judge();
        assert_eq!(judged.validity.verdict, verdict, "{:?}", judged.findings);
        let found = dead_s(&judged);
        assert!((found - f64::from(seconds)).abs() < 0.5, "{found}");
    };
    let [graver, lighter] = [Verdict::TargetLimited, Verdict::Errors];
    // One failure, and nothing was sent until it had timed out.
    let pause = |length: usize| {
        [
            vec![GOOD, GOOD, FAILED],
            vec![NONE; length - 1],
            vec![GOOD; 8 - length],
        ]
        .concat()
    };
    dead(graver, 4, at_once(&pause(4)));
    dead(lighter, 3, at_once(&pause(3)));
    dead(lighter, 1, at_once(&pause(1)));
    // It was still dead at the end.
    let ends = |length: usize| [vec![GOOD; 10 - length], vec![FAILED; length]].concat();
    dead(graver, 2, at_once(&ends(2)));
    dead(lighter, 1, at_once(&ends(1)));
    // It died in a short run, beside a client that had no CPU left.
    let mut short = Run::quiet();
    short.intervals = at_once(&[GOOD, GOOD, FAILED]);
    short.intervals.truncate(3);
    short.usage().cpu_share = Some(0.99);
    let judged = short.judge_after(2.99);
    assert_eq!(judged.validity.verdict, graver);
    assert_eq!(judged.findings[0].kind(), FindingKind::NoGoodResponse);
    // It ended with its warm-up: nothing was due in the second after it.
    short.plan.warmup = std::time::Duration::from_secs(2);
    short.plan.duration = Some(short.plan.warmup);
    let judged = short.judge_after(2.0);
    let is_dead = |finding: &Finding| finding.kind() == FindingKind::NoGoodResponse;
    assert!(!judged.findings.iter().any(is_dead));
    // It failed late in a second that had begun well, and was seen three seconds later.
    let hung = |until: u64| {
        let good = (0..=1_900)
            .chain(until..10_000)
            .step_by(100)
            .map(|at| (at, at, true));
        good.chain([(1_950, until - 50, false)])
            .collect::<Vec<TimedRequest>>()
    };
    dead(graver, 6, seconds(&hung(8_000)));
    dead(lighter, 3, seconds(&hung(5_000)));
    // A slow target: nothing is due while all connections wait for answers, which are good but for
    // one.
    passes(|run| {
        run.intervals = seconds(&[
            (0, 5_000, true),
            (0, 5_000, false),
            (5_000, 9_999, true),
            (5_000, 9_999, false),
        ]);
    });
    passes(|run| {
        run.intervals = at_once(&[GOOD, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE]);
    });
    // Nothing was due any more, and the last answer was missing for long.
    passes(|run| {
        run.plan.duration = Some(std::time::Duration::from_secs(4));
        run.intervals = at_once(&[GOOD, GOOD, GOOD, GOOD, FAILED]);
    });
    // The target had asked for the pause.
    passes(|run| {
        run.intervals = at_once(&[GOOD, (1, 1), NONE, NONE, NONE, NONE, GOOD, GOOD, GOOD, GOOD]);
        run.intervals[2..6]
            .iter_mut()
            .for_each(|row| row.binding.pause = 1.0);
    });
}

proptest! {
    #[test]
    fn g_seconds_without_a_good_answer_are_those_in_which_none_came_or_was_under_way(
        requests in prop::collection::vec((0..10_000_u64, 0..4_000_u64, prop::bool::weighted(0.3)), 0..25),
    ) {
        let requests: Vec<TimedRequest> =
            requests.into_iter().map(|(due, took, is_good)| (due, (due + took).min(9_999), is_good)).collect();
        let has = |good, second: u64| requests.iter().any(|(due, ended, is)| *is == good && (due / 1_000..=ended / 1_000).contains(&second));
        // A second that the good requests of it and of earlier ones do not outlast, and in which
        // only others were due.
        let is_dying = |second: u64| {
            let due = |good| requests.iter().any(|(due, _, is)| *is == good && due / 1_000 == second);
            let lasts = requests.iter().any(|(due, ended, is)| *is && due / 1_000 <= second && ended / 1_000 > second);
            second < 9 && due(false) && !due(true) && !lasts && !has(true, second + 1)
        };
        let (mut is_dead, mut dead, mut at_end) = (false, 0_u32, 0);
        for second in 0..10 {
            is_dead = (!has(true, second) || is_dying(second)) && (is_dead || has(false, second));
            dead += u32::from(is_dead);
            at_end = if is_dead { at_end + 1 } else { 0 };
        }
        let mut run = Run::quiet();
        run.intervals = seconds(&requests);
        let judged = run.judge();
        let expected = match dead {
            0 => Verdict::Valid,
            1..=3 if at_end < 2 => Verdict::Errors,
            _ => Verdict::TargetLimited,
        };
        prop_assert_eq!(judged.validity.verdict, expected, "{:?}", judged.findings);
        let is_found = judged.validity.verdict != Verdict::Valid;
        prop_assert!(!is_found || (dead_s(&judged) - f64::from(dead)).abs() < 1e-6, "{dead}: {:?}", judged.findings);
    }
}

#[test]
fn g_budgets() {
    let exceeded = |kept| {
        let mut report = Run::quiet().judge();
        report.host_budget = Some(Audit {
            rate: "5/s".to_owned(),
            rate_per_s: 5.0,
            burst: 1,
            kept,
            unaudited_shards: 0,
            worst_window: Some(WindowReport {
                shard: Some(1),
                host: Some(2),
                width_ms: 20.0,
                admitted: 3,
                allowed: 2,
            }),
            busiest: Vec::new(),
        });
        report.judge();
        report.findings
    };
    assert_eq!(exceeded(true), []);
    assert!(matches!(
        exceeded(false)[..],
        [Finding::BudgetExceeded {
            sent: 3,
            allowed: 2,
            host: Some(2),
            ..
        }]
    ));
}

#[test]
fn g_throttling() {
    let throttled = |run: &mut Run, attempts: u64, how: OnThrottle| {
        run.plan.throttling.on_throttle = how;
        run.counters.requests.throttled = attempts;
        run.ledger.ok -= attempts;
        run.ledger.gave_up += attempts;
    };
    for how in [OnThrottle::Count, OnThrottle::Ignore] {
        trips(Verdict::TargetLimited, FindingKind::Throttled, |run| {
            throttled(run, 501, how);
        });
        passes(|run| throttled(run, 500, how));
    }
    // Who waits as told may be refused more often than not, as long as something comes of it.
    passes(|run| throttled(run, 900, OnThrottle::Honor));
    trips(Verdict::TargetLimited, FindingKind::Throttled, |run| {
        throttled(run, 901, OnThrottle::Honor);
    });
}

#[test]
fn g_cpu_use() {
    trips(Verdict::ClientLimited, FindingKind::CpuFull, |run| {
        run.usage().cpu_share = Some(0.86);
    });
    passes(|run| run.usage().cpu_share = Some(0.85));
    passes(|run| (run.usage().cpu_share, run.usage().measured_s) = (Some(0.99), Some(0.19)));
    trips(Verdict::ClientLimited, FindingKind::CpuFull, |run| {
        (run.environment.colocated, run.environment.cores) = (true, 2);
        run.usage().cpu_share = Some(0.9);
    });
    trips(Verdict::ClientLimited, FindingKind::CpuFull, |run| {
        run.environment.cores = 1;
        run.shards[0].usage.cpu_share = Some(0.88);
        run.usage().cpu_share = Some(0.9);
    });
    passes(|run| {
        run.plan.pacing = Pacing::Spin;
        run.usage().cpu_share = Some(1.0);
    });
}

#[test]
fn g_sched_lag() {
    trips(Verdict::ClientLimited, FindingKind::SentLate, |run| {
        run.times(Series::SchedLag).p99_us = Some(2_100.0);
    });
    passes(|run| run.times(Series::SchedLag).p99_us = Some(2_000.0));
    // Beside a target that takes its time, it matters less.
    let slow = |run: &mut Run, lag| {
        run.times(Series::ServiceOk).p50_us = Some(100_000.0);
        run.times(Series::SchedLag).p99_us = Some(lag);
    };
    passes(|run| slow(run, 10_000.0));
    trips(Verdict::ClientLimited, FindingKind::SentLate, |run| {
        slow(run, 10_100.0);
    });
    // Of few requests there is no 99th percentile.
    let few = |run: &mut Run, lag| {
        let times = run.times(Series::SchedLag);
        (times.p99_us, times.p90_us) = (None, Some(lag));
    };
    trips(Verdict::ClientLimited, FindingKind::SentLate, |run| {
        few(run, 2_100.0);
    });
    passes(|run| few(run, 2_000.0));
    passes(|run| {
        run.plan.rate = None;
        run.times(Series::SchedLag).p99_us = Some(2_100.0);
    });
}

#[test]
fn g_receive_delay() {
    trips(Verdict::ClientLimited, FindingKind::ReadLate, |run| {
        run.times(Series::ReceiveDelay).p99_us = Some(2_100.0);
    });
    passes(|run| run.times(Series::ReceiveDelay).p99_us = Some(2_000.0));
    // Beside slow responses, a longer delay does no harm.
    passes(|run| {
        run.times(Series::ReceiveDelay).p99_us = Some(5_000.0);
        run.times(Series::ServiceOk).p50_us = Some(50_000.0);
    });
    unavailable(&["receive delay"], |run| {
        run.shards
            .iter_mut()
            .for_each(|shard| drop(shard.latency.remove(Series::ReceiveDelay.name())));
    });
    // Other findings name the measured delay in the place of a guess.
    let starved = |run: &mut Run| run.usage().run_delay_share = Some(0.36);
    trips(Verdict::ClientLimited, FindingKind::CpuWait, |run| {
        starved(run);
        run.times(Series::ReceiveDelay).p99_us = Some(1_900.0);
    });
    trips(Verdict::ClientLimited, FindingKind::CpuWait, |run| {
        starved(run);
        run.times(Series::ReceiveDelay).p99_us = None;
        run.times(Series::ReceiveDelay).p90_us = None;
    });
}

#[test]
fn a_failure_of_settings_that_do_not_fit_says_which() {
    let details = "to b.test, which is no host of the URLs";
    for (kind, is_said) in [
        (ErrorKind::RedirectRefused, true),
        (ErrorKind::TlsBadCertificate, true),
        (ErrorKind::Reset, false),
    ] {
        let mut run = Run::quiet();
        run.fail(kind, 400);
        let mut report = run.judge();
        let failure = json!({"first_s": 0.0, "last_s": 0.0, "status": null, "excerpt": null, "details": details});
        let key = FailureCause::Error(kind).key();
        let failure = serde_json::from_value(failure).unwrap();
        report.failures.insert(key, failure);
        report.judge();
        assert_eq!(causes(&report)[0].details.is_some(), is_said);
        let first = report.findings[0].text();
        assert_eq!(first.contains(details), is_said, "{first}");
    }
}

/// Have the client's quota stop it in so many of these periods, for so long in all.
fn throttle(report: &mut Report, stopped: u64, periods: u64, us: u64) {
    let counters = [
        ("quota_periods", periods),
        ("quota_throttled_periods", stopped),
        ("quota_throttled_us", us),
    ];
    report.host = counters
        .map(|(name, count)| (name.to_owned(), count))
        .into();
}

proptest! {
    #[test]
    fn a_client_that_its_quota_stops_is_limited_by_it_and_by_nothing_else_that_follows(
        periods in 1_u64..1_000, stopped in prop_oneof![0_u64..4, 0..1_000_u64], each_us in 0_u64..100_000, waited: bool, paused: bool,
    ) {
        let stopped = stopped.min(periods);
        let us = stopped * each_us;
        let mut run = Run::quiet();
        run.shards.iter_mut().for_each(|shard| shard.usage.cpu_share = Some(0.1));
        if waited {
            run.usage().run_delay_share = Some(0.8);
            run.times(Series::ReceiveDelay).p99_us = Some(8e4);
            run.times(Series::SchedLag).p99_us = Some(8e4);
        }
        if paused {
            run.times(Series::LoopLag).max_us = Some(2e5);
        }
        let mut report = run.judge();
        throttle(&mut report, stopped, periods, us);
        report.judge();
        let kinds: Vec<FindingKind> = report.findings.iter().map(Finding::kind).collect();
        // One percentile in a hundred is late in one period of a hundred, a pause in any.
        let is_much = stopped * 100 >= periods;
        let is_late = is_much && (stopped >= 2 || waited && us >= 40_000);
        if is_late || paused && us >= 100_000 {
            prop_assert_eq!((report.validity.verdict, kinds), (Verdict::ClientLimited, vec![FindingKind::ClientThrottled]));
        } else {
            prop_assert_eq!(report.validity.verdict, match (waited, paused) {
                (true, _) => Verdict::Disturbed,
                (false, true) => Verdict::ClientLimited,
                (false, false) => Verdict::Valid,
            });
        }
    }
}

#[test]
fn a_cpu_that_slowed_down_under_a_client_that_used_all_of_it_is_the_clients_limit() {
    let mut run = Run::quiet();
    run.usage().speed_after_us = Some(2_500.0);
    assert_eq!(run.judge().validity.verdict, Verdict::Disturbed);
    run.usage().cpu_share = Some(0.99);
    let judged = run.judge();
    assert_eq!(
        (judged.validity.verdict, judged.validity.verdicts),
        (Verdict::ClientLimited, vec![Verdict::ClientLimited])
    );
}

#[test]
fn g_retransmits() {
    let waited = |run: &mut Run, responses: u64, first: u64| {
        (run.tcp.slow_with_retransmit, run.tcp.first_with_retransmit) = (responses, first);
    };
    // Of a thousand responses, ten are one in a hundred.
    trips(Verdict::Disturbed, FindingKind::PacketLoss, |run| {
        waited(run, 10, 0);
    });
    finds(Some(FindingKind::PacketLoss), |run| waited(run, 3, 0));
    finds(None, |run| waited(run, 2, 0));
    // Where each request has a connection, the first one is as good as any.
    finds(Some(FindingKind::PacketLoss), |run| {
        waited(run, 3, 3);
        run.counters.requests.connections_opened = 1_000;
        run.closed.opened_after_retransmit = 3;
    });
}

#[test]
fn g_listen_queue() {
    trips(
        Verdict::TargetLimited,
        FindingKind::ListenQueueFull,
        |run| run.closed.opened_after_retransmit = 3,
    );
    passes(|run| run.closed.opened_after_retransmit = 2);
    // Requests that were sent before the queue had room are no loss on the way.
    trips(
        Verdict::TargetLimited,
        FindingKind::ListenQueueFull,
        |run| {
            run.closed.opened_after_retransmit = 3;
            (run.tcp.slow_with_retransmit, run.tcp.first_with_retransmit) = (5, 5);
        },
    );
    // Connections that the target's kernel did not take, though they opened here.
    for (first, found) in [(3, true), (2, false)] {
        let mut run = Run::quiet();
        run.tcp.first_unacknowledged = first;
        run.tcp.timeouts_unacknowledged = 3;
        let queue = |it: &Finding| it.kind() == FindingKind::ListenQueueFull;
        assert_eq!(run.judge().findings.iter().any(queue), found);
    }
    // Under loss, as many requests time out.
    finds(Some(FindingKind::NeverReceived), |run| {
        run.closed.opened_after_retransmit = 3;
        run.tcp.timeouts_unacknowledged = 150;
    });
    // As many connections are late as requests.
    trips(Verdict::Disturbed, FindingKind::PacketLoss, |run| {
        run.closed.opened_after_retransmit = 3;
        run.tcp.slow_with_retransmit = 100;
    });
}

#[test]
fn g_keep_alive_limit() {
    let closed = |run: &mut Run, requests: &[(u64, u64)], unannounced: u64| {
        run.closed.requests = requests.iter().copied().collect();
        let all: u64 = run.closed.requests.values().sum();
        (run.closed.target, run.closed.announced) = (unannounced, all - unannounced);
    };
    let limit = Some(FindingKind::KeepAliveLimit);
    finds(limit, |run| closed(run, &[(3, 1), (100, 9)], 0));
    finds(limit, |run| closed(run, &[(1_000, 5)], 5));
    // After each, as a proxy may do.
    finds(limit, |run| closed(run, &[(1, 50)], 50));
    // Too few, at random, at a number that costs nothing, and after each request as announced.
    finds(None, |run| closed(run, &[(100, 4)], 0));
    finds(None, |run| closed(run, &[(3, 9), (40, 9), (100, 9)], 27));
    finds(None, |run| closed(run, &[(1_000, 50)], 0));
    finds(None, |run| closed(run, &[(1, 50)], 0));
}

#[test]
fn cpus_are_shared_where_the_target_may_run_on_no_others() {
    // The shards are on CPUs 0 and 1 of a machine of two, as far as the address of the target says.
    for (is_here, cpus, is_pinned, shared) in [
        (true, vec![0, 1], true, Some(2)),
        (true, vec![0, 1], false, Some(2)),
        (true, vec![1], true, Some(1)),
        (true, vec![2, 3], true, None),
        (true, vec![0, 1, 2], true, None),
        (true, Vec::new(), true, Some(2)),
        (false, vec![2], true, Some(2)),
    ] {
        let mut run = Run::quiet();
        (run.environment.colocated, run.environment.cores) = (true, 2);
        let mut report = run.judge();
        for shard in report.shards.iter_mut().filter(|_| !is_pinned) {
            shard.cpu = None;
        }
        report.target = Some(TargetReport {
            is_here,
            cpus: cpus.clone(),
            ..TargetReport::default()
        });
        report.judge();
        let found = report.findings.iter().find_map(|finding| match finding {
            Finding::CpusShared { cpus } => Some(*cpus),
            _ => None,
        });
        assert_eq!(found, shared, "{is_here} {cpus:?} {is_pinned}");
    }
}

proptest! {
    #[test]
    fn no_cpu_is_shared_that_the_client_may_not_use(
        usable in prop::collection::btree_set(0_usize..6, 1..6), target in prop::collection::btree_set(0_usize..6, 0..6), has_probe: bool,
    ) {
        let mut run = Run::quiet();
        run.environment.colocated = true;
        run.environment.cores = usable.len();
        run.environment.cpus = usable.iter().copied().collect();
        run.environment.machine_cpus = Some(6).filter(|all| *all > usable.len());
        let mut report = run.judge();
        // As many shards as there are CPUs, on none of their own.
        let shard = ShardReport { cpu: None, ..report.shards[0].clone() };
        report.shards = vec![shard; usable.len()];
        let cpus: Vec<usize> = target.iter().copied().filter(|_| has_probe).collect();
        report.target = Some(TargetReport { is_here: true, cpus: cpus.clone(), ..TargetReport::default() });
        report.judge();
        let is_shared = report.findings.iter().any(|it| it.kind() == FindingKind::CpusShared);
        let all: BTreeSet<usize> = if cpus.is_empty() { (0..6).collect() } else { target };
        prop_assert_eq!(is_shared, all.is_subset(&usable));
    }
}

/// A quiet run, changed so, has a finding of this kind and no other of those of its connections.
#[track_caller]
fn finds(kind: Option<FindingKind>, change: impl FnOnce(&mut Run)) {
    let mut run = Run::quiet();
    change(&mut run);
    let of_connections = [
        FindingKind::PacketLoss,
        FindingKind::ListenQueueFull,
        FindingKind::NeverReceived,
        FindingKind::NotAnswered,
        FindingKind::KeepAliveLimit,
        FindingKind::FewStreams,
    ];
    let mut kinds: Vec<FindingKind> = run.judge().findings.iter().map(Finding::kind).collect();
    kinds.retain(|kind| of_connections.contains(kind));
    assert_eq!(kinds, Vec::from_iter(kind));
}

/// A quiet run of which a machine does not say this is valid, and says so.
#[track_caller]
fn unavailable(names: &[&str], hide: impl FnOnce(&mut Run)) {
    let mut run = Run::quiet();
    hide(&mut run);
    let judged = run.judge();
    assert_eq!(
        (
            judged.validity.verdict,
            judged
                .validity
                .unavailable
                .into_keys()
                .collect::<Vec<String>>()
        ),
        (
            Verdict::Valid,
            names.iter().map(|name| (*name).to_owned()).collect()
        )
    );
    assert_eq!(judged.validity.checked.len() + names.len(), CHECKS);
}

#[test]
fn g_a_measured_time() {
    let warmed = |run: &mut Run, measured: u64| {
        run.plan.warmup = std::time::Duration::from_secs(5);
        for shard in &mut run.shards {
            shard
                .latency
                .get_mut(Series::SchedLag.name())
                .unwrap()
                .count = measured;
        }
    };
    trips(Verdict::NothingMeasured, FindingKind::WithinWarmUp, |run| {
        warmed(run, 0);
    });
    passes(|run| warmed(run, 1));
    let forbidden = |run: &mut Run| {
        run.counters = Counters::default();
        run.ledger.items = ItemCounts {
            skipped: 1_000,
            ..ItemCounts::default()
        };
    };
    trips(Verdict::NothingMeasured, FindingKind::AllSkipped, forbidden);
}

#[test]
fn g_requests_that_were_due() {
    let dropped = |run: &mut Run, dropped: u64| {
        run.shards[1].totals.dropped = dropped;
        run.shards[1].scheduled = Some(1_000);
        run.shards[1].totals.attempts = 1_000 - dropped;
    };
    trips(Verdict::ConcurrencyLimited, FindingKind::NeverSent, |run| {
        dropped(run, 11);
    });
    passes(|run| dropped(run, 10));
    trips(Verdict::ConcurrencyLimited, FindingKind::NeverSent, |run| {
        dropped(run, 900);
        (
            run.shards[0].totals.dropped,
            run.shards[0].scheduled,
            run.shards[0].totals.attempts,
        ) = (500, Some(1_000), 500);
    });
    trips(Verdict::Incomplete, FindingKind::SumsDiffer, |run| {
        dropped(run, 0);
        run.shards[1].scheduled = Some(1_001);
    });
}

#[test]
fn g_waits_for_a_connection_or_a_limit() {
    let waited = |run: &mut Run, series: Series, us: f64, response_us: f64| {
        run.times(series).p99_us = Some(us);
        run.times(Series::ResponseOk).p99_us = Some(response_us);
    };
    trips(Verdict::ConcurrencyLimited, FindingKind::Waited, |run| {
        waited(run, Series::PoolWait, 10_100.0, 100_000.0);
    });
    passes(|run| waited(run, Series::PoolWait, 10_000.0, 100_000.0));
    passes(|run| waited(run, Series::PoolWait, 2_000.0, 2_100.0));
    // Where connections are opened all the time, that is no wait for one that was in use.
    let opening = |run: &mut Run, us: f64| {
        run.plan.workload.requests_per_connection = Some(NonZeroU64::MIN);
        run.times(Series::Connect).p99_us = Some(us);
        waited(run, Series::PoolWait, 60_100.0, 100_000.0);
    };
    passes(|run| opening(run, 50_100.0));
    trips(Verdict::ConcurrencyLimited, FindingKind::Waited, |run| {
        opening(run, 50_000.0);
    });
    trips(Verdict::BudgetLimited, FindingKind::Waited, |run| {
        waited(run, Series::BudgetWait, 10_100.0, 100_000.0);
    });
    passes(|run| waited(run, Series::BudgetWait, 10_000.0, 100_000.0));
    // Of less than a thousand, both figures are the 90th percentile; and no part is greater than
    // the whole.
    let few = |run: &mut Run, us: f64| {
        waited(run, Series::PoolWait, 0.0, 0.0);
        for (series, us) in [(Series::PoolWait, us), (Series::ResponseOk, 100_000.0)] {
            (run.times(series).p99_us, run.times(series).p90_us) = (None, Some(us));
        }
    };
    trips(Verdict::ConcurrencyLimited, FindingKind::Waited, |run| {
        few(run, 10_100.0);
    });
    trips(Verdict::ConcurrencyLimited, FindingKind::Waited, |run| {
        few(run, 100_100.0);
    });
    // Connections that were never all in use were not waited for, but opened: only another limit is
    // waited for.
    let free = |run: &mut Run, series: Series| {
        (run.shards[1].connections, run.plan.per_host.connections) = (5, Some(1));
        waited(run, series, 10_100.0, 100_000.0);
    };
    passes(|run| free(run, Series::PoolWait));
    trips(Verdict::BudgetLimited, FindingKind::Waited, |run| {
        free(run, Series::BudgetWait);
    });
    // A closed loop waits for its connections by its nature.
    passes(|run| run.times(Series::PoolWait).p99_us = Some(1e6));
}
