//! Tests of the limiter, in its ledger.

use super::*;
use crate::draw::mix;
use crate::ledger::Ledger;
use crate::limit::Limits;
use crate::shared::Shared;
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

fn config(texts: &[&str]) -> Config {
    let limits = Limits::new(texts.iter().map(|text| text.parse().unwrap()).collect()).unwrap();
    Config {
        limits,
        ..Config::default()
    }
}

fn ledger(shared: &Shared, config: &Config) -> Rc<LedgerWriter> {
    let ledger = LedgerWriter::open(shared);
    ledger.name_limits(&config.limits);
    Rc::new(ledger)
}

fn visitor(config: &Config, ledger: &Rc<LedgerWriter>) -> Visitor {
    Visitor::new(config, ledger, [127, 0, 0, 1].into()).unwrap()
}

fn asking<'a>(config: &'a Config, ledger: &'a Rc<LedgerWriter>, now_ns: u64) -> Asking<'a> {
    let about = About::Own;
    Asking {
        now_ns,
        keys: Vec::new(),
        about,
        turns: Turns::InTurn,
        config,
        ledger,
    }
}

/// Number of more the limit would let through.
fn left(visitor: &Visitor, asking: &Asking<'_>, index: usize) -> u64 {
    let held = visitor.hold(asking);
    let held = held.iter().find(|held| held.index == index).unwrap();
    match held.decision {
        // The state is the one after it.
        LimitDecision::Admitted { next, .. } => {
            held.limit.algorithm.left(next, asking.now_ns).remaining + 1
        }
        LimitDecision::Rejected { .. } => 0,
    }
}

fn is_rejected_by(verdict: &AdmissionVerdict, index: usize) -> bool {
    matches!(verdict, AdmissionVerdict::Rejected(Rejection { limit, .. }) if *limit == index)
}

#[test]
fn who_is_turned_away_by_one_takes_from_none_and_hears_the_longest_wait() {
    let shared = Shared::new().unwrap();
    let config = config(&["1/min:burst=5", "1/h:burst=3", "1/s:burst=3"]);
    let ledger = ledger(&shared, &config);
    let visitor = visitor(&config, &ledger);
    let asking = asking(&config, &ledger, 0);
    for _ in 0..3 {
        assert!(matches!(
            visitor.ask(&asking),
            AdmissionVerdict::Admitted(_)
        ));
    }
    for _ in 0..9 {
        assert!(is_rejected_by(&visitor.ask(&asking), 1));
    }
    let ledger = Ledger::read(&shared);
    assert_eq!((ledger.rejected, ledger.max_admitted_in_1s), (9, 3));
    // All but the first of those turned away had been told on the same connection.
    assert_eq!((ledger.early_retries, ledger.crossed_promises), (8, 0));
    let of = |name: &str| {
        (
            ledger.by_limit[name].admitted,
            ledger.by_limit[name].rejected,
        )
    };
    assert_eq!(
        (of("gcra"), of("gcra-2"), of("gcra-3")),
        ((3, 0), (3, 9), (3, 0))
    );
    assert_eq!(left(&visitor, &asking, 0), 2);
}

#[test]
fn threads_that_fight_for_two_limits_get_exactly_the_stricter_and_leave_the_rest_of_the_other() {
    let shared = Shared::new().unwrap();
    let config = config(&["fixed:9000/24h", "1/h:burst=5000", "1/h:burst=8000"]);
    let admitted = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let ledger = ledger(&shared, &config);
                let visitor = visitor(&config, &ledger);
                for _ in 0..2_000 {
                    let verdict = visitor.ask(&asking(&config, &ledger, 0));
                    if matches!(verdict, AdmissionVerdict::Admitted(_)) {
                        admitted.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(admitted.into_inner(), 5_000);
    let ledger = ledger(&shared, &config);
    let visitor = visitor(&config, &ledger);
    let asking = asking(&config, &ledger, 0);
    assert_eq!(
        [0, 2].map(|index| left(&visitor, &asking, index)),
        [4_000, 3_000]
    );
}

#[test]
fn requests_in_flight_are_counted_until_they_end() {
    let shared = Shared::new().unwrap();
    let config = config(&["concurrency:2:headers=ietf"]);
    let ledger = ledger(&shared, &config);
    let (one, other) = (visitor(&config, &ledger), visitor(&config, &ledger));
    let asking = asking(&config, &ledger, 0);
    let first = one.ask(&asking);
    let second = other.ask(&asking);
    let remaining = |verdict: &AdmissionVerdict| match verdict {
        AdmissionVerdict::Admitted(admission) => Some(admission.remaining[0].1.remaining),
        _ => None,
    };
    assert_eq!((remaining(&first), remaining(&second)), (Some(1), Some(0)));
    assert!(is_rejected_by(&one.ask(&asking), 0));
    drop(first);
    assert_eq!(remaining(&one.ask(&asking)), Some(0));
}

#[test]
fn connections_are_counted_until_they_end_and_those_above_are_refused() {
    let shared = Shared::new().unwrap();
    let config = config(&["connections:3", "connections:2:key=everyone:over=503"]);
    let ledger = ledger(&shared, &config);
    let first = visitor(&config, &ledger);
    let second = visitor(&config, &ledger);
    let asking = asking(&config, &ledger, 0);
    let third = visitor(&config, &ledger);
    assert!(matches!(third.ask(&asking), AdmissionVerdict::Unwelcome));
    assert!(matches!(second.ask(&asking), AdmissionVerdict::Admitted(_)));
    drop(first);
    let fourth = visitor(&config, &ledger);
    assert!(matches!(fourth.ask(&asking), AdmissionVerdict::Admitted(_)));
    let ledger = Ledger::read(&shared);
    assert_eq!((ledger.connections_refused, ledger.rejected), (1, 1));
    let of = |name: &str| {
        (
            ledger.by_limit[name].admitted,
            ledger.by_limit[name].rejected,
        )
    };
    assert_eq!((of("connections"), of("connections-2")), ((3, 0), (3, 1)));
}

#[test]
fn a_promise_is_kept_in_books_and_never_ends_before_the_limit_relents() {
    for (retry, promised) in [("seconds", true), ("date", true), ("none", false)] {
        let shared = Shared::new().unwrap();
        let config = config(&[&format!("10/15s:retry={retry}")]);
        let ledger = ledger(&shared, &config);
        let visitor = visitor(&config, &ledger);
        let ask = |now_ns| visitor.ask(&asking(&config, &ledger, now_ns));
        assert!(matches!(ask(0), AdmissionVerdict::Admitted(_)));
        let AdmissionVerdict::Rejected(rejection) = ask(1) else {
            panic!("{retry}")
        };
        assert_eq!(rejection.retry_after_ns, 1_499_999_999);
        // The wait was 1.5 s: told are 2 s, or the next full second after it.
        let told_ns = match rejection.told {
            Told::Seconds(seconds) => seconds * NS_PER_S,
            Told::Date { now_s, wall_s } => (wall_s - now_s) * NS_PER_S,
            Told::Nothing => 0,
        };
        assert_eq!(told_ns >= 1_500_000_000, promised, "{told_ns}");
        assert!(told_ns <= 3 * NS_PER_S);
        // A client that waits as told is not early, and is not refused again.
        assert!(matches!(
            ask(1 + told_ns.max(1_500_000_000)),
            AdmissionVerdict::Admitted(_)
        ));
        assert_eq!(Ledger::read(&shared).early_retries, 0);
        ask(10 * NS_PER_S);
        ask(10 * NS_PER_S + 1);
        ask(10 * NS_PER_S + 2);
        let ledger = Ledger::read(&shared);
        assert_eq!(
            (ledger.early_retries, ledger.crossed_promises),
            (u64::from(promised), 0)
        );
    }
}

/// A visitor's request for `key` under the first limit, whose key is that of a header.
fn of_key<'a>(key: u64, asking: &Asking<'a>) -> Asking<'a> {
    Asking {
        keys: vec![Some(KeyHash(mix(key)))],
        ..*asking
    }
}

/// Crossed promises and early retries, without the rest of the ledger, which takes milliseconds.
fn hasty(shared: &Shared) -> (u64, u64) {
    let counts = shared.all_counters().iter();
    counts.fold((0, 0), |(crossed, early), counters| {
        (
            crossed + counters.crossed_promises.get(),
            early + counters.early_retries.get(),
        )
    })
}

const MS: u64 = 1_000_000;

#[test]
fn a_promise_that_waits_for_the_end_of_a_stall_is_made_then() {
    let shared = Shared::new().unwrap();
    let stall = Some("1s,200ms".parse().unwrap());
    let config = Config {
        stall,
        ..config(&["fixed:1/1h"])
    };
    let ledger = ledger(&shared, &config);
    let ask = |visitor: &Visitor, ms, about| {
        drop(visitor.ask(&Asking {
            about,
            ..asking(&config, &ledger, ms * MS)
        }));
    };
    let [one, two, three] = [(); 3].map(|()| visitor(&config, &ledger));
    let own = About::Own;
    // Stalled from 0.8 s to 1 s: all that come before 1.05 s may have crossed it, but for the
    // connection that had it.
    for (visitor, ms) in [
        (&one, 0),
        (&one, 801),
        (&two, 999),
        (&three, 1_050),
        (&one, 1_000),
        (&three, 1_051),
    ] {
        ask(visitor, ms, own);
    }
    assert_eq!(hasty(&shared), (2, 2));
}

proptest! {
    /// Any requests of three keys on four connections, in two processes' counts, against the
    /// definition.
    #[test]
    fn haste_is_what_its_definition_says(
        requests in proptest::collection::vec((0_u64..80, 0_usize..4, 0_u64..3), 1..120),
    ) {
        let shared = Shared::new().unwrap();
        let config = config(&["fixed:2/1s:key=header=k"]);
        let pens = [ledger(&shared, &config), ledger(&shared, &config)];
        let visitors: Vec<_> = (0..4).map(|number| visitor(&config, &pens[number % 2])).collect();
        // By key: the running promise's first making and its end; by connection and key: when it
        // was told last.
        let (mut promises, mut told) = (HashMap::new(), HashMap::new());
        let (mut expected, mut now_ns) = ((0, 0), 0);
        for (step_ms, connection, key) in requests {
            now_ns += step_ms * MS;
            let running = promises.get(&key).copied().filter(|(_, until_ns)| now_ns < *until_ns);
            if let Some((made_ns, _)) = running {
                let knows = told.get(&(connection, key)).is_some_and(|told_ns| *told_ns >= made_ns);
                if knows || now_ns - made_ns > 50 * MS { expected.1 += 1 } else { expected.0 += 1 }
            }
            let pen = &pens[connection % 2];
            let verdict = visitors[connection].ask(&of_key(key, &asking(&config, pen, now_ns)));
            if let AdmissionVerdict::Rejected(Rejection { told: Told::Seconds(seconds), .. }) = verdict {
                let until_ns = now_ns + seconds * NS_PER_S;
                let (made_ns, so_far_ns) = running.unwrap_or((now_ns, 0));
                promises.insert(key, (made_ns, until_ns.max(so_far_ns)));
                told.insert((connection, key), now_ns);
            }
            prop_assert_eq!(hasty(&shared), expected);
        }
    }
}
