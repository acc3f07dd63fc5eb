//! What the program reports equals what the target counted, request by request.

use serde_json::json;

use crate::report::holds;
use crate::target::{Target, confirmed};

#[test]
fn a_plain_crawl_asks_for_every_id_once() {
    let target = Target::start("--processes 2");
    let (report, _) = confirmed(&target, "--ids 0..20k --shards 2 -c 64 --expect items:1");
    report.assert_states(&[("ok", 20_000)]);
    report.holds(&json!({"/totals/connections_opened": 64, "/totals/peak_in_flight": 64}));
    let ledger = target.ledger();
    holds(
        &ledger,
        &json!({"/requests": 20_000, "/unique_ids": 20_000}),
    );
    // The counts printed at the end are those read before.
    assert_eq!(target.stop(), ledger);
    for (flags, ok) in [
        // More shards than IDs leave some with nothing to do.
        ("--ids 7..10 --shards 5 -c 5", 3),
        ("--ids 42..=42 --shards 2 -c 64", 1),
        (
            "--ids 18446744073709551610..18446744073709551615 --shards 2 -c 4",
            5,
        ),
        ("--ids 100..1k -n 250 --shards 2 -c 8", 250),
        (
            "--ids 5..2_005 --rate 4000 --arrivals poisson -s 7 -c 70",
            2_000,
        ),
    ] {
        let (report, _) = confirmed(&Target::start("--processes 1"), flags);
        report.assert_states(&[("ok", ok)]);
    }
    // Time ends a crawl between items: nothing is cut off.
    let target = Target::start("--processes 1");
    let (report, _) = confirmed(&target, "--ids 0..100m -d 300ms --shards 2 -c 4");
    let ok = report.items("ok");
    assert!(ok > 0);
    report.assert_states(&[("ok", ok), ("not_attempted", 100_000_000 - ok)]);
}
