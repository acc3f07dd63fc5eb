//! The bundled target's limits over real processes and connections, against a client that shares no
//! code with it: what the client counts, what the counts say and what the algorithm allows are one
//! and the same, however many processes serve and however fast they are asked.
//!
//! Where time matters, the period is so long that nothing comes back during a test.

use std::collections::BTreeMap;

use serde_json::json;

use crate::client::Client;
use crate::report::holds;
use crate::target::Target;

/// Asks over eight connections at once, `each` times on each, and counts the answers by status.
fn statuses(target: &Target, each: u64) -> BTreeMap<u16, u64> {
    let ask = || {
        let mut client = Client::connect(target);
        (0..each)
            .map(|id| client.get(&format!("/items/{id}"), "").status)
            .collect::<Vec<_>>()
    };
    let mut counts = BTreeMap::new();
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        for status in clients
            .into_iter()
            .flat_map(|client| client.join().unwrap())
        {
            *counts.entry(status).or_default() += 1;
        }
    });
    counts
}

#[test]
fn any_number_of_processes_admits_exactly_what_the_algorithm_allows() {
    // 8 connections, 50 requests each.
    for (limit, name, admitted) in [
        ("50/h:burst=50", "gcra", 50),
        ("bucket:70/24h", "bucket", 70),
        ("fixed:90/24h", "fixed", 90),
        ("sliding:110/24h", "sliding", 110),
        ("leaky:1/24h:burst=129:nodelay:status=503", "leaky", 130),
    ] {
        for processes in [1, 2, 4] {
            let target = Target::start(&format!("--processes {processes} --limit {limit}"));
            let (status, rejected) = (if name == "leaky" { 503 } else { 429 }, 400 - admitted);
            let expected = [(200, admitted), (status, rejected)].into();
            assert_eq!(statuses(&target, 50), expected, "{limit} of {processes}");
            holds(
                &target.ledger(),
                &json!({
                    format!("/by_limit/{name}"):
                        {"admitted": admitted, "rejected": rejected, "delayed": 0},
                    "/requests": 400, "/rejected": rejected, "/limiter_overflows": 0,
                    "/by_status": {"200": admitted, status.to_string(): rejected},
                }),
            );
        }
    }
}
