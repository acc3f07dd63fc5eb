//! Each fault of the bundled target as the crawl meets it: it sees what it is, and the target has
//! counted it. The bytes on the wire are tested in the crate of the target.

use std::collections::BTreeMap;

use crawlmark_mock_server::Faults;
use serde_json::json;

use crate::report::Report;
use crate::run::{crawl, crawl_once};
use crate::target::assert_agree;

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
    let good = ["drip", "close", "huge_headers", "nagle"];
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
         huge-body:0.002:1m,short-length:0.02,long-length:0.002,nagle:0.01";
    let faults = picked(&MIX.parse().unwrap(), SEED, IDS);
    assert_eq!(faults.len(), 16, "every kind is in it: {faults:?}");
    let report = crawl_once(&format!(
        "--ids 0..{IDS} --seed {SEED} --shards 2 -c 64 --timeout 2s --target-processes 2 \
         --target-fault {MIX}"
    ));
    assert_accounted_for(&report, &faults, IDS);
    assert_agree(&report, report.at("/witness/ledger"));
    report.holds(&json!({"/witness/agrees": true, "/witness/ledger/faults": faults}));
}

#[test]
fn requests_that_met_a_silent_close_are_no_difference() {
    let report = crawl("-n 20k --shards 2 -c 8 --target-processes 2 --target-keep-alive 5:silent");
    report.holds(&json!({"/witness/agrees": true}));
    let connections = report.count("/totals/connections_opened");
    assert!(connections >= 4_000, "{connections}");
}
