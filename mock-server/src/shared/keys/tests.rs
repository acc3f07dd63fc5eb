//! Tests of the table of keys.

use super::*;
use crate::draw::mix;
use crate::limit::Limit;
use crate::shared::Shared;
use std::sync::atomic::{AtomicU64, Ordering};

const MS: u64 = 1_000_000;

fn algorithm(text: &str) -> Algorithm {
    text.parse::<Limit>().unwrap().algorithm
}

fn any(number: u64) -> KeyHash {
    KeyHash(mix(number + 1))
}

/// A key of bucket 0.
fn crowded(number: u64) -> KeyHash {
    KeyHash(mix(number + 1) & !(BUCKETS as u64 - 1))
}

fn keys(shared: &Shared) -> &Keys {
    &shared.region().keys[0]
}

fn query<'a>(
    algorithm: &'a Algorithm,
    key: KeyHash,
    now_ns: u64,
    place: &'a Cell<SlotIndex>,
) -> KeyQuery<'a> {
    KeyQuery {
        algorithm,
        key,
        now_ns,
        place,
    }
}

/// Decide about one request, and take what it takes.
fn take(keys: &Keys, query: &KeyQuery<'_>) -> bool {
    let held = keys.hold(query);
    let LimitDecision::Admitted { next, .. } = held.decide(query) else {
        return false;
    };
    held.set(next);
    true
}

/// The first request of a client.
fn is_admitted(keys: &Keys, algorithm: &Algorithm, key: KeyHash, now_ns: u64) -> bool {
    let place = Cell::new(SlotIndex::UNKNOWN);
    take(keys, &query(algorithm, key, now_ns, &place))
}

fn place_of(keys: &Keys, algorithm: &Algorithm, key: KeyHash) -> SlotIndex {
    let place = Cell::new(SlotIndex::UNKNOWN);
    let query = query(algorithm, key, 0, &place);
    keys.hold(&query).place
}

#[test]
fn many_times_more_keys_than_slots_pass_and_each_is_limited_exactly() {
    // Millions take the same code; without optimisation they take ten seconds.
    const KEYS_IN_ALL: u64 = 300_000;
    let shared = Shared::new().unwrap();
    // Busy for two seconds; a new key every 100 us: 20,000 at a time.
    let (keys, limit) = (keys(&shared), algorithm("1/s:burst=2"));
    let regular = Cell::new(SlotIndex::UNKNOWN);
    let mut regular_admitted = 0;
    for number in 0..KEYS_IN_ALL {
        let (now_ns, place) = (number * MS / 10, Cell::new(SlotIndex::UNKNOWN));
        let asked = query(&limit, any(number), now_ns, &place);
        let admitted = (0..3).filter(|_| take(keys, &asked)).count();
        assert_eq!((admitted, place.get().is_crowd()), (2, false), "{number}");
        // It comes all the time, and rests for three seconds now and then, so that its place may be
        // lost.
        if number % 100 == 0 && number / 30_000 % 2 == 0 {
            let asked = query(&limit, any(u64::MAX - 1), now_ns, &regular);
            regular_admitted += u64::from(take(keys, &asked));
        }
    }
    // In each spell of 3 s: the burst, and one at 1 s and one at 2 s.
    assert_eq!(regular_admitted, KEYS_IN_ALL / 60_000 * 4);
}

#[test]
fn who_rests_loses_the_place_and_notices() {
    let shared = Shared::new().unwrap();
    let (keys, limit) = (keys(&shared), algorithm("fixed:2/1ms"));
    let place = Cell::new(SlotIndex::UNKNOWN);
    let ask = |now_ns| {
        let asked = query(&limit, crowded(0), now_ns, &place);
        take(keys, &asked)
    };
    assert!(ask(0) && ask(0) && !ask(0));
    let first = place.get();
    for number in 1..=WAYS as u64 {
        assert!(is_admitted(keys, &limit, crowded(number), MS));
        assert!(
            number < WAYS as u64
                || !is_admitted(keys, &limit, crowded(0), MS)
                || !place.get().is_crowd()
        );
    }
    // All 64 are busy now, its old place among them: it is one of the crowd, and not a guest at its
    // old place.
    assert_ne!(keys.buckets[0].slots[first.way].key.get(), crowded(0).0);
    let asked = query(&limit, crowded(0), MS, &place);
    take(keys, &asked);
    assert!(place.get().is_crowd());
    assert!(ask(2 * MS) && ask(2 * MS) && !ask(2 * MS));
    assert!(!place.get().is_crowd());
}

#[test]
fn the_crowd_gets_together_what_one_should_and_takes_its_debts_along() {
    let shared = Shared::new().unwrap();
    let (keys, limit) = (keys(&shared), algorithm("1/s:burst=3"));
    for number in 0..WAYS as u64 {
        assert!((0..3).all(|_| is_admitted(keys, &limit, crowded(number), number * MS)));
    }
    let now_ns = WAYS as u64 * MS;
    let admitted = (100..110)
        .filter(|number| is_admitted(keys, &limit, crowded(*number), now_ns))
        .count();
    assert_eq!(admitted, 3);
    // At 3 s one slot is idle. Its new key has one token by then, as the crowd has, and not three.
    let later_ns = 3000 * MS;
    let admitted = (0..5)
        .filter(|_| is_admitted(keys, &limit, crowded(100), later_ns))
        .count();
    assert_eq!(
        (place_of(keys, &limit, crowded(100)).is_crowd(), admitted),
        (false, 2)
    );
}

#[test]
fn what_is_open_is_never_counted_in_a_crowd() {
    let shared = Shared::new().unwrap();
    let (keys, limit) = (keys(&shared), algorithm("concurrency:2"));
    let open: Vec<_> = (0..WAYS as u64)
        .map(|number| {
            let place = Cell::new(SlotIndex::UNKNOWN);
            let query = query(&limit, crowded(number), 0, &place);
            take(keys, &query);
            place.get()
        })
        .collect();
    assert!(!is_admitted(keys, &limit, crowded(100), 0));
    keys.release(open[7]);
    assert!(is_admitted(keys, &limit, crowded(100), 0));
    assert!(is_admitted(keys, &limit, crowded(100), 0));
    assert!(!is_admitted(keys, &limit, crowded(100), 0));
}

#[test]
fn a_promise_keeps_its_place() {
    let shared = Shared::new().unwrap();
    let (keys, limit) = (keys(&shared), algorithm("fixed:1/1ms"));
    assert!(is_admitted(keys, &limit, crowded(0), 0));
    let place = Cell::new(SlotIndex::UNKNOWN);
    let query = |key, now_ns| query(&limit, key, now_ns, &place);
    keys.hold(&query(crowded(0), MS)).promise(Telling {
        asked_ns: MS,
        answered_ns: 2 * MS,
        until_ns: 10 * MS,
    });
    for number in 1..=WAYS as u64 {
        is_admitted(keys, &limit, crowded(number), 5 * MS);
    }
    let made_ns = |key, now_ns| keys.hold(&query(key, now_ns)).promise_made_ns(now_ns);
    assert_eq!(made_ns(crowded(0), 10 * MS - 1), Some(2 * MS));
    assert_eq!(made_ns(crowded(0), 10 * MS), None);
    assert!(place_of(keys, &limit, crowded(WAYS as u64)).is_crowd());
    assert!(is_admitted(keys, &limit, crowded(200), 10 * MS));
    // A slot that changes hands keeps no promise.
    assert_eq!(made_ns(crowded(200), 0), None);
}

#[test]
fn threads_never_have_more_open_than_the_cap_while_keys_come_and_go() {
    const KEYS_IN_ALL: u64 = 90;
    let shared = Shared::new().unwrap();
    let (keys, limit) = (keys(&shared), algorithm("concurrency:2"));
    let open: Vec<AtomicU64> = (0..KEYS_IN_ALL).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (open, limit) = (&open, &limit);
            scope.spawn(move || {
                let mut draws = thread;
                for _ in 0..20_000 {
                    draws = mix(draws + 1);
                    let number = draws % KEYS_IN_ALL;
                    let place = Cell::new(SlotIndex::UNKNOWN);
                    let asked = query(limit, crowded(number), 0, &place);
                    if take(keys, &asked) {
                        let open = &open[usize::try_from(number).unwrap()];
                        assert!(open.fetch_add(1, Ordering::SeqCst) < 2);
                        open.fetch_sub(1, Ordering::SeqCst);
                        keys.release(place.get());
                    }
                }
            });
        }
    });
    assert!(
        keys.buckets[0]
            .slots
            .iter()
            .all(|slot| slot.state.get() == 0)
    );
}
