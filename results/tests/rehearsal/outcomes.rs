//! Twelve situations, and six more: the first finding of each, and the end of the run at the
//! terminal.
//!
//! The golden files are `tests/golden/ends-*.txt.snap`.

use std::fmt::Write;

use crawlmark_harness::plan::AdaptiveKind;
use crawlmark_harness::process::ShardExit;
use crawlmark_harness::sample::Quota;
use crawlmark_harness::stats::{Bounds, ShardStats};
use crawlmark_harness::supervisor::ShardFault;
use crawlmark_harness::wire::EncodedStats;
use crawlmark_results::run::report::MergedReport;
use crawlmark_results::show::line::Display;

use crawlmark_results::show::page;

use super::*;

/// A run and what the report has of it.
struct Situation {
    name: &'static str,
    /// Kind of the finding to know first.
    first: FindingKind,
    report: Report,
}

/// The result of a run that conditions judge in the end.
pub(super) fn judged(mut report: Report, plan: &RunPlan, conditions: &[&str]) -> Report {
    let objective = |text: &&str| Objective {
        condition: text.parse().unwrap(),
        breach: Breach::Fails,
    };
    LiveThresholds::new(&conditions.iter().map(objective).collect::<Vec<_>>(), plan)
        .close(&mut report);
    report
}

const REJECTED: (Outcome, Advice) = (Outcome::Rejected, GOOD.1);
const REFUSED: (Outcome, Advice) = (Outcome::Error(ErrorKind::ConnectRefused), GOOD.1);

fn takes_20_ms(_: u32, _: Nanos) -> Duration {
    20 * MS
}

/// Times about 20 ms, as services have them: seldom more than twice that.
fn varies(_: u32, sent: Nanos) -> Duration {
    let drawn = (sent.0 / 1_000).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let part = |shift: usize| f64::from(drawn.to_le_bytes()[shift]) / 255.0;
    let spread = (0..4).map(|n| part(2 + n)).sum::<f64>() / 2.0 - 1.0;
    Duration::from_secs_f64(0.02 * (1.2 * spread).exp())
}

/// Two stalls, at 4 s and at 9 s: what is sent in them waits for their end.
fn stalls(_: u32, sent: Nanos) -> Duration {
    let stall = [4, 9]
        .map(|s| Nanos::default().plus(s * S))
        .into_iter()
        .find(|from| {
            let end = from.plus(800 * MS);
            (*from..end).contains(&sent)
        });
    stall.map_or(20 * MS, |from| {
        Duration::from_nanos(from.plus(820 * MS).since(sent))
    })
}

fn dies_after<const SECONDS: u64>(_: u32, sent: Nanos) -> (Outcome, Advice) {
    if sent < Nanos::default().plus(Duration::from_secs(SECONDS)) {
        GOOD
    } else {
        REFUSED
    }
}

/// One of ten milliseconds rejects.
fn rejects_some(_: u32, sent: Nanos) -> (Outcome, Advice) {
    if sent.0 / 1_000_000 % 100 < 10 {
        REJECTED
    } else {
        GOOD
    }
}

/// A quota of 50 requests in each second.
fn by_quota(_: u32, sent: Nanos) -> (Outcome, Advice) {
    let (second, into) = (sent.0 / 1_000_000_000, sent.0 % 1_000_000_000);
    let resets_in = Duration::from_nanos((second + 1) * 1_000_000_000 - sent.0);
    let wait = Some(resets_in);
    let quota = Some(Box::new(Quota {
        remaining: 0,
        limit: Some(50),
        resets_in: wait,
    }));
    let asks = Advice {
        repeat: Repeat::MayHelp,
        wait,
        quota,
        held_ns: None,
    };
    if into < 100_000_000 {
        GOOD
    } else {
        (Outcome::Throttled, asks)
    }
}

/// A quota of 50 requests in each second, and one rejected millisecond of each hundred.
fn by_quota_with_failures(shard: u32, sent: Nanos) -> (Outcome, Advice) {
    if (sent.0 / 1_000_000).is_multiple_of(100) {
        REJECTED
    } else {
        by_quota(shard, sent)
    }
}

/// The result of a run whose second shard died after as many good answers.
fn killed(plan: &RunPlan, good: u64) -> Report {
    let mut killed = run(plan, &[], takes_20_ms);
    let dead = &mut killed.record.shards[1];
    (dead.fault, dead.exit) = (Some(ShardFault::Died), ShardExit::Signal(9));
    // What it reported until then are counts alone: its times were to come with its final frame.
    let mut told = ShardStats::new(Bounds::for_timeout(plan.timeout));
    told.counters = dead.stats.counters.clone();
    (told.counters.requests.attempts, told.counters.items.ok) = (good, good);
    dead.stats = EncodedStats::of(&told).unwrap();
    killed.as_it_is(plan)
}

/// The report as one of three parts on two machines, of which one has no result.
fn merged(mut report: Report) -> Report {
    report.merged = Some(MergedReport {
        parts: 3,
        missing: vec![2],
        missing_parts: 1,
        slots: 3,
        slots_used: 1.0,
        machines: 2,
        ..MergedReport::default()
    });
    report.shards[1].fault = Some(ShardFault::Missing);
    report.judge();
    report
}

fn situations() -> Vec<Situation> {
    let open = timed(1_000, 500, 12 * S);
    let closed = RunPlan {
        rate: None,
        arrivals: Arrivals::Asap,
        duration: Some(10 * S),
        ..run_of(2, 64, 1 << 40)
    };
    let budgeted = RunPlan {
        rate: Some(per_s(500)),
        ..closed.clone()
    };
    let few = RunPlan {
        connections: 8,
        ..open.clone()
    };
    let mut adaptive = budgeted.clone();
    (adaptive.rate, adaptive.throttling.adaptive) = (None, Some(AdaptiveKind::Aimd));
    let healthy = || run(&budgeted, &[], varies).report(&budgeted);
    let against = |plan: &RunPlan, answer| run_against(plan, &[], takes_20_ms, answer).report(plan);
    let twelve_thousand = RunPlan {
        duration: None,
        ..run_of(2, 64, 12_000)
    };
    let of = |name, first, report| Situation {
        name,
        first,
        report,
    };
    vec![
        of("healthy", FindingKind::LimitedBy, healthy()),
        of(
            "stalled",
            FindingKind::Stalled,
            run(&open, &[], stalls).report(&open),
        ),
        of(
            "all 503",
            FindingKind::AllFailed,
            against(&twelve_thousand, |_, _| REJECTED),
        ),
        of(
            "10 % 503",
            FindingKind::RequestsFailed,
            against(&budgeted, rejects_some),
        ),
        of(
            "target died",
            FindingKind::NoGoodResponse,
            against(&budgeted, dies_after::<7>),
        ),
        of(
            "throttled by a quota",
            FindingKind::Throttled,
            against(&budgeted, by_quota),
        ),
        of(
            "rate missed",
            FindingKind::NeverSent,
            run(&few, &[], takes_20_ms).report(&few),
        ),
        of("merged parts", FindingKind::PartMissing, merged(healthy())),
        of(
            "adaptive",
            FindingKind::Throttled,
            against(&adaptive, by_quota),
        ),
        of(
            "healthy, an open loop",
            FindingKind::LimitedBy,
            run(&open, &[], varies).report(&open),
        ),
        of(
            "threshold failed",
            FindingKind::ThresholdFailed,
            judged(
                healthy(),
                &budgeted,
                &["service_p90 < 5ms", "rate > 400", "errors < 1"],
            ),
        ),
        of(
            "stopped by a threshold",
            FindingKind::ThresholdFailed,
            stopped_by_answers("error_rate[1s] < 1%", &budgeted, takes_20_ms, rejects_some),
        ),
        of(
            "interrupted",
            FindingKind::Interrupted,
            run(
                &budgeted,
                &[Incident::Signal {
                    at: 4 * S,
                    number: 2,
                }],
                takes_20_ms,
            )
            .report(&budgeted),
        ),
        of(
            "client too slow",
            FindingKind::ShardPaused,
            run(
                &budgeted,
                &[Incident::Block {
                    at: 3 * S,
                    lasts: 300 * MS,
                }],
                takes_20_ms,
            )
            .report(&budgeted),
        ),
        of(
            "shard killed",
            FindingKind::ShardDied,
            killed(&twelve_thousand, 5_500),
        ),
        of(
            "nothing listens",
            FindingKind::AllFailed,
            against(&budgeted, |_, _| REFUSED),
        ),
        of(
            "throttled by a quota, some 503",
            FindingKind::Throttled,
            against(&budgeted, by_quota_with_failures),
        ),
        of(
            "threshold undecided",
            FindingKind::ThresholdUndecided,
            judged(healthy(), &budgeted, &["service_p99 < 50ms", "rate > 400"]),
        ),
        of(
            "shard killed before its first report",
            FindingKind::ShardDied,
            killed(&twelve_thousand, 0),
        ),
    ]
}

#[test]
fn the_first_finding_is_the_one_to_know_and_is_on_the_page() {
    for Situation {
        name,
        first,
        report,
    } in situations()
    {
        assert_eq!(
            kinds(&report).first(),
            Some(&first),
            "{name}: {:?}",
            report.findings
        );
        let doc = words::doc(&report, &[]);
        let (page, markdown) = (page::run(&report, &doc, &[]), doc.markdown());
        let title = report.findings[0].text();
        let escaped = title.replace('<', "&lt;").replace('>', "&gt;");
        assert!(page.contains(&*escaped), "{name}: {title}");
        assert!(
            markdown.contains(title.split(['<', '>', '|', '[', '(', '-']).next().unwrap()),
            "{name}"
        );
        let has_failed =
            report.gates.iter().any(|gate| gate.ok == Some(false)) || report.ledger.ok == 0;
        assert!(
            !has_failed || !page.contains("hero t-ok"),
            "{name}: a failure under a green box"
        );
    }
}

#[test]
fn the_end_of_a_run_reads_as_it_did() {
    let situations = situations();
    for (name, columns, has_unicode) in [
        ("120", 120, true),
        ("100", 100, true),
        ("80", 80, true),
        ("44", 44, true),
        ("ascii", 80, false),
    ] {
        let display = Display {
            columns,
            has_unicode,
        };
        let mut out = String::new();
        for Situation { name, report, .. } in &situations {
            let mut report = report.clone();
            // What the machine of the test does not tell is no part of the words.
            report.validity.checked = vec![String::new(); 37];
            report.validity.unavailable.clear();
            let page = Some("results/runs/2026-11-28T19-27-59Z-checkout/report.html");
            let lines = words::end(&report, page, display, true);
            assert!(lines.len() <= words::MOST, "{name}, {columns}");
            let _ = writeln!(out, "# {name}\n");
            for line in lines {
                let _ = writeln!(out, "{}", line.text());
            }
            out.push('\n');
        }
        crate::golden(&format!("ends-{name}.txt"), &out);
    }
}

#[test]
fn what_a_dead_shard_left_of_its_range_is_lost_only_where_the_time_would_not_have_left_it() {
    let counted = RunPlan {
        duration: None,
        ..run_of(2, 64, 12_000)
    };
    let timed = RunPlan {
        duration: Some(4 * S),
        ..run_of(2, 64, 1 << 40)
    };
    let lost = |plan: &RunPlan| match killed(plan, 5_500).findings.swap_remove(0) {
        Finding::ShardDied {
            lost,
            not_attempted,
            ..
        } => (lost, not_attempted),
        other => unreachable!("{other:?}"),
    };
    assert_eq!(lost(&counted), (Some(500), 0));
    assert_eq!(lost(&timed).1, 0);
    let got = killed(&timed, 5_500).got;
    assert!(got.ok < got.of, "lost items were tried: {got:?}");
}
