//! Each fault of the bundled target as its clients meet it: curl and the crawl. Each sees what it is, and the target has counted it.
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test whose client fails is over; one without is told"
)]

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use crawlmark_mock_server::Faults;
use serde_json::json;

use crate::report::{Report, counts};
use crate::run::crawl_once;
use crate::target::{Target, assert_agree};

/// The items of each crawl.
const IDS: u64 = 12;

/// One fault, and what comes of it. The lists hold what different versions of a client say.
struct Case {
    fault: &'static str,
    /// The status that the target sends, if it sends one.
    status: Option<u16>,
    /// What curl exits with.
    curl: &'static [i32],
    crawl: Seen,
}

/// What the crawl makes of it.
#[derive(Clone, Copy, PartialEq)]
enum Seen {
    /// Good answers, on as many connections as there are.
    Ok,
    /// Good answers, each the last on its connection.
    OkAndGone,
    /// Answers that are no item, on as many connections as there are.
    Rejected,
    /// The same, told from a rejection.
    SoftBlocked,
    /// An error of this kind, on as many connections as there are.
    Wrong(&'static str),
    /// An error of this kind, each the last on its connection.
    Broken(&'static str),
}

const SILENT: [&str; 2] = ["silence:1", "long-length:1"];

const CASES: [Case; 18] = [
    Case {
        fault: "error:1",
        status: Some(500),
        curl: &[0],
        crawl: Seen::Rejected,
    },
    Case {
        fault: "drop:1",
        status: None,
        curl: &[52],
        crawl: Seen::Broken("closed"),
    },
    Case {
        fault: "reset:1",
        status: None,
        curl: &[56],
        crawl: Seen::Broken("reset"),
    },
    Case {
        fault: "malformed-chunk:1",
        status: Some(200),
        curl: &[56],
        crawl: Seen::Broken("malformed"),
    },
    Case {
        // To curl it is HTTP/0.9, which it does not speak unless told.
        fault: "garbage:1",
        status: None,
        curl: &[1],
        crawl: Seen::Broken("malformed"),
    },
    Case {
        fault: "truncated:1",
        status: Some(200),
        curl: &[18],
        crawl: Seen::Broken("incomplete"),
    },
    Case {
        fault: "drip:1:50ms",
        status: Some(200),
        curl: &[0],
        crawl: Seen::Ok,
    },
    Case {
        fault: "silence:1",
        status: None,
        curl: &[28],
        crawl: Seen::Broken("timeout"),
    },
    Case {
        fault: "redirect:1",
        status: Some(302),
        curl: &[0],
        crawl: Seen::Rejected,
    },
    Case {
        fault: "close:1",
        status: Some(200),
        curl: &[0],
        crawl: Seen::OkAndGone,
    },
    Case {
        fault: "challenge:1:200",
        status: Some(200),
        curl: &[0],
        crawl: Seen::SoftBlocked,
    },
    Case {
        fault: "challenge:1",
        status: Some(403),
        curl: &[0],
        crawl: Seen::SoftBlocked,
    },
    Case {
        fault: "challenge:1:429",
        status: Some(429),
        curl: &[0],
        crawl: Seen::SoftBlocked,
    },
    // Less than hyper and curl read.
    Case {
        fault: "huge-headers:1",
        status: Some(200),
        curl: &[0],
        crawl: Seen::Ok,
    },
    Case {
        fault: "huge-headers:1:512k",
        status: Some(200),
        curl: &[27, 56, 100],
        crawl: Seen::Broken("malformed"),
    },
    Case {
        fault: "huge-body:1:1m",
        status: Some(200),
        curl: &[0],
        crawl: Seen::Wrong("wrong_body"),
    },
    Case {
        fault: "short-length:1",
        status: Some(200),
        curl: &[0],
        crawl: Seen::Broken("wrong_body"),
    },
    Case {
        fault: "long-length:1",
        status: Some(200),
        curl: &[28],
        crawl: Seen::Broken("timeout"),
    },
];

impl Case {
    fn target(&self) -> Target {
        Target::start(&format!("--processes 1 --fault {}", self.fault))
    }

    fn name(&self) -> String {
        self.fault.split(':').next().unwrap().replace('-', "_")
    }

    /// How long a client waits, in seconds: hardly, where there is nothing to wait for.
    fn patience(&self) -> &'static str {
        if SILENT.contains(&self.fault) {
            "0.3"
        } else {
            "60"
        }
    }

    fn statuses(&self, requests: u64) -> BTreeMap<String, u64> {
        self.status
            .into_iter()
            .map(|status| (status.to_string(), requests))
            .collect()
    }

    /// The target has counted as many requests, each with this fault.
    #[track_caller]
    fn check_books(&self, target: &Target, requests: u64) {
        let books = target.books();
        assert_eq!(books["requests"], json!(requests), "{}", self.fault);
        assert_eq!(
            books["faults"],
            json!({ self.name(): requests }),
            "{}",
            self.fault
        );
        assert_eq!(
            counts(&books["by_status"]),
            self.statuses(requests),
            "{}",
            self.fault
        );
    }
}

/// Whether this machine has a program.
fn has(program: &str) -> bool {
    let found = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok();
    if !found {
        eprintln!("skipped: there is no {program} here");
    }
    found
}

#[test]
fn curl_meets_each_fault() {
    if !has("curl") {
        return;
    }
    for case in &CASES {
        let target = case.target();
        let curl = Command::new("curl")
            .args([
                "-q",
                "--silent",
                "--noproxy",
                "*",
                "--output",
                "/dev/null",
                "--max-time",
                case.patience(),
            ])
            .arg(format!("http://{}/items/42", target.address()))
            .status()
            .unwrap();
        assert!(
            curl.code().is_some_and(|code| case.curl.contains(&code)),
            "{}: {curl}",
            case.fault
        );
        case.check_books(&target, 1);
    }
}

#[test]
fn the_crawl_meets_each_fault() {
    for case in &CASES {
        let target = case.target();
        let patience = case.patience();
        let flags = format!("-n {IDS} --shards 2 -c 4 --expect items:1 --timeout {patience}s");
        let flags = flags.replace("0.3s", "300ms");
        let report = crawl_once(&format!("{} {flags}", target.url()));
        let state = match case.crawl {
            Seen::Ok | Seen::OkAndGone => "ok",
            _ => "failed",
        };
        report.assert_states(&[(state, IDS)]);
        let (errors, connections) = match case.crawl {
            Seen::Ok | Seen::Rejected | Seen::SoftBlocked => (BTreeMap::new(), 4),
            Seen::OkAndGone => (BTreeMap::new(), IDS),
            Seen::Wrong(kind) => ([(kind.to_owned(), IDS)].into(), 4),
            Seen::Broken(kind) => ([(kind.to_owned(), IDS)].into(), IDS),
        };
        assert_eq!(report.errors(), errors, "{}", case.fault);
        assert_eq!(
            report.count("/totals/connections_opened"),
            connections,
            "{}",
            case.fault
        );
        let soft_blocked = if case.crawl == Seen::SoftBlocked {
            IDS
        } else {
            0
        };
        assert_eq!(
            report.count("/totals/soft_blocked"),
            soft_blocked,
            "{}",
            case.fault
        );
        assert_eq!(report.count("/totals/throttled"), 0, "{}", case.fault);
        // A head that is too long to be read has no status here.
        let statuses = if case.fault == "huge-headers:1:512k" {
            BTreeMap::new()
        } else {
            case.statuses(IDS)
        };
        assert_eq!(report.statuses(), statuses, "{}", case.fault);
        case.check_books(&target, IDS);
    }
}

#[test]
fn a_drip_is_late_by_its_time_and_too_late_beyond_the_timeout() {
    let target = Target::start("--processes 1 --fault drip:1:200ms");
    let report = crawl_once(&format!(
        "{} --ids 0..8 --shards 1 -c 8 --expect items:1",
        target.url()
    ));
    report.assert_states(&[("ok", 8)]);
    assert!(report.number("/latency/service/min_us") >= 200_000.0);
    let target = Target::start("--processes 1 --fault drip:1:1h");
    let report = crawl_once(&format!(
        "{} --ids 0..8 --shards 1 -c 8 --expect items:1 --timeout 200ms",
        target.url()
    ));
    report.assert_states(&[("failed", 8)]);
    assert_eq!(report.errors(), [("timeout".to_owned(), 8)].into());
    assert_eq!(report.statuses(), [("200".to_owned(), 8)].into());
}

#[test]
fn a_surplus_of_bytes_does_not_poison_the_next_answer() {
    // Nothing is expected, so that half an item is as good as a whole one: only the connections
    // tell. What is behind it must not be taken for an answer, nor may anything be asked on its
    // connection again.
    let target = Target::start("--processes 1 --fault short-length:1");
    let report = crawl_once(&format!(
        "{} --ids 0..100 --shards 2 -c 4 --expect whole",
        target.url()
    ));
    report.assert_states(&[("ok", 100)]);
    assert_eq!(report.count("/totals/connections_opened"), 100);
    let target = Target::start("--processes 1 --fault short-length:0.3");
    let report = crawl_once(&format!(
        "{} --ids 0..300 --shards 2 -c 4 --expect items:1",
        target.url()
    ));
    assert_agree(&report, &target.books());
    let short = counts(&target.books()["faults"])["short_length"];
    report.assert_states(&[("ok", 300 - short), ("failed", short)]);
}

/// Of every kind, as many as were picked.
fn picked(faults: &Faults, seed: u64, ids: u64) -> BTreeMap<String, u64> {
    let mut picked = BTreeMap::new();
    for fault in (0..ids).filter_map(|id| faults.pick(seed, id, 0)) {
        *picked.entry(fault.name().to_owned()).or_default() += 1;
    }
    picked
}

/// What a crawl with the right expectation has seen is what was committed, to the last item.
fn assert_accounted_for(report: &Report, faults: &BTreeMap<String, u64>, ids: u64) {
    let sum = |names: &[&str]| {
        names
            .iter()
            .filter_map(|name| faults.get(*name))
            .sum::<u64>()
    };
    let good = ["drip", "close", "huge_headers"];
    let failed = faults.values().sum::<u64>() - sum(&good);
    report.assert_states(&[("ok", ids - failed), ("failed", failed)]);
    let errors = [
        ("closed", sum(&["drop"])),
        ("reset", sum(&["reset"])),
        ("malformed", sum(&["malformed_chunk", "garbage"])),
        ("incomplete", sum(&["truncated"])),
        ("timeout", sum(&["silence", "long_length"])),
        ("wrong_body", sum(&["huge_body", "short_length"])),
    ];
    assert_eq!(
        report.errors(),
        errors
            .into_iter()
            .map(|(kind, count)| (kind.to_owned(), count))
            .collect()
    );
    assert_eq!(report.count("/totals/soft_blocked"), sum(&["challenge"]));
    let other = sum(&[
        "error",
        "redirect",
        "challenge",
        "drop",
        "reset",
        "garbage",
        "silence",
    ]);
    let statuses = [
        ("200", ids - other),
        ("302", sum(&["redirect"])),
        ("403", sum(&["challenge"])),
        ("503", sum(&["error"])),
    ];
    assert_eq!(
        report.statuses(),
        statuses
            .into_iter()
            .map(|(status, count)| (status.to_owned(), count))
            .collect()
    );
}

#[test]
fn a_mix_of_faults_is_found_counted_and_confirmed_to_the_last() {
    const SEED: u64 = 7;
    const IDS: u64 = 5_000;
    const MIX: &str = "error:0.02:503,drop:0.02,reset:0.02,malformed-chunk:0.02,garbage:0.02,truncated:0.02,\
                       drip:0.01:20ms,silence:0.002,redirect:0.02,close:0.02,challenge:0.02,huge-headers:0.01,\
                       huge-body:0.002:1m,short-length:0.02,long-length:0.002";
    let faults = picked(&MIX.parse().unwrap(), SEED, IDS);
    assert_eq!(faults.len(), 15, "every kind is in it: {faults:?}");
    let report = crawl_once(&format!(
        "--ids 0..{IDS} --seed {SEED} --shards 2 -c 64 --timeout 2s --target-processes 2 --target-fault {MIX}"
    ));
    assert_accounted_for(&report, &faults, IDS);
    assert_eq!(
        *report.at("/witness/agrees"),
        json!(true),
        "{}",
        report.at("/witness/differences")
    );
    assert_eq!(report.counts("/witness/ledger/faults"), faults);
    assert_agree(&report, report.at("/witness/ledger"));
    assert_eq!(
        *report.at("/plan/workload/target_faults"),
        json!(MIX.parse::<Faults>().unwrap().to_string())
    );
}

#[test]
fn a_head_too_long_to_read_is_no_difference_to_the_books() {
    let report =
        crawl_once("--ids 0..200 --shards 2 -c 8 --target-fault huge-headers:0.2:512k,error:0.1");
    assert_eq!(
        *report.at("/witness/agrees"),
        json!(true),
        "{}",
        report.at("/witness/differences")
    );
    let unread = report.count("/witness/ledger/faults/huge_headers");
    assert!(unread > 0);
    assert_eq!(report.errors(), [("malformed".to_owned(), unread)].into());
}

#[test]
fn holds_that_grow_and_stalls_are_to_be_had_for_a_run() {
    let report = crawl_once(
        "--ids 0..200 --shards 2 -c 8 --target-latency-per-in-flight 1us --target-stall 100ms,10ms --target-latency 1ms",
    );
    report.assert_states(&[("ok", 200)]);
    assert_eq!(
        report.text("/plan/workload/target_latency_per_in_flight"),
        "1us"
    );
    assert_eq!(report.text("/plan/workload/target_stall"), "100ms,10ms");
    assert_eq!(report.count("/witness/ledger/held_us/count"), 200);
    assert!(report.count("/witness/ledger/held_us/max_us") > 1000);
}
