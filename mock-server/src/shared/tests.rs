//! Every order in which processes take their steps on the shared memory, and every step at which one
//! of them dies.

use std::cell::Cell;
use std::sync::Mutex;

use super::atomics::orders::Search;
use super::*;
use crate::limit::{Algorithm, KeyHash, Limit, LimitDecision};

/// Memory, and what processes noted about their own work.
struct Memory<T> {
    shared: Shared,
    noted: Mutex<Vec<T>>,
}

impl<T> Memory<T> {
    fn new() -> Self {
        Self {
            shared: Shared::new().unwrap(),
            noted: Mutex::default(),
        }
    }

    fn note(&self, value: T) {
        self.noted.lock().unwrap().push(value);
    }
}

impl<T: Ord + Clone> Memory<T> {
    fn notes(&self) -> Vec<T> {
        let mut notes = self.noted.lock().unwrap().clone();
        notes.sort();
        notes
    }
}

const THREE: Search = Search {
    processes: 3,
    preemptions: 2,
};

/// Where steps are many, or each may be the last.
const FEW: Search = Search {
    processes: 3,
    preemptions: 1,
};

const TWO: Search = Search {
    processes: 2,
    preemptions: 1,
};

fn algorithm(text: &str) -> Algorithm {
    text.parse::<Limit>().unwrap().algorithm
}

/// Take what one request takes; its place if it is admitted.
fn take(keys: &Keys, algorithm: &Algorithm) -> Option<SlotIndex> {
    let place = Cell::new(SlotIndex::UNKNOWN);
    let query = KeyQuery {
        algorithm,
        key: KeyHash(7),
        now_ns: 0,
        place: &place,
    };
    let held = keys.hold(&query);
    let LimitDecision::Admitted { next, .. } = held.decide(&query) else {
        return None;
    };
    held.set(next);
    Some(held.place)
}

fn take_once(memory: &Memory<usize>, number: usize, algorithm: &Algorithm) {
    if take(&memory.shared.region().keys[0], algorithm).is_some() {
        memory.note(number);
    }
}

#[test]
fn a_limit_admits_as_many_as_it_says_in_every_order() {
    for text in ["1/s:burst=2", "concurrency:2", "fixed:2/1ms"] {
        let limit = algorithm(text);
        let orders = FEW.every_order(
            Memory::new,
            |memory, number| take_once(memory, number, &limit),
            |memory| assert_eq!(memory.notes().len(), 2, "{text}"),
        );
        println!("{text}: {orders} orders");
    }
}

#[test]
fn who_dies_at_any_step_stops_nobody_and_takes_one_at_most() {
    for text in ["1/s:burst=2", "concurrency:2"] {
        let limit = algorithm(text);
        let orders = TWO.every_death(
            Memory::new,
            |memory, number| take_once(memory, number, &limit),
            |memory| {
                let keys = &memory.shared.region().keys[0];
                let noted = memory.notes();
                let left = (0..3).filter(|_| take(keys, &limit).is_some()).count();
                let taken = noted.len() + left;
                assert!(
                    noted.len() <= 2 && (1..=2).contains(&taken),
                    "{text}: {noted:?}, {left}"
                );
            },
        );
        println!("{text}: {orders} orders with a death");
    }
}

/// Take and give back.
fn open_and_close(memory: &Memory<usize>, limit: &Algorithm) {
    let keys = &memory.shared.region().keys[0];
    if let Some(place) = take(keys, limit) {
        keys.release(place);
    }
}

#[test]
fn what_was_closed_can_be_opened_again() {
    let limit = algorithm("concurrency:1");
    TWO.every_order(
        Memory::new,
        |memory, _| open_and_close(memory, &limit),
        |memory| assert!(take(&memory.shared.region().keys[0], &limit).is_some()),
    );
}

/// Count in each way that takes no lock.
fn count(memory: &Memory<(usize, u64)>, _: usize) {
    let region = memory.shared.region();
    let counters = memory.shared.counters(0);
    counters.requests.increment();
    counters.holds.record(5);
    region.window.come(3_000_000);
    memory.note((0, region.seen.mark(9).unwrap().into()));
    memory.note((1, region.scenarios.advance(4, 0, 1).into()));
    drop(region.in_flight.enter());
}

#[test]
fn counters_lose_nothing_in_any_order() {
    let orders = FEW.every_order(Memory::new, count, |memory| {
        let region = memory.shared.region();
        let counters = memory.shared.counters(0);
        assert_eq!(
            (counters.requests.get(), counters.holds.count.get()),
            (3, 3)
        );
        assert_eq!(counters.holds.sum_us.get(), 15);
        assert_eq!(region.window.busiest([10])[0].requests, 3);
        assert_eq!(region.in_flight.enter().others, 0);
        let once = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 0), (1, 1)];
        assert_eq!(memory.notes(), once);
    });
    println!("{orders} orders");
}

const RECORDS: [&[u8]; 3] = [b"the first record", b"another", b"a third"];

fn append(memory: &Memory<usize>, number: usize) {
    memory
        .shared
        .region()
        .journal
        .append(RECORDS[number])
        .unwrap();
    memory.note(number);
}

fn is_whole_log(memory: &Memory<usize>) {
    let log = &memory.shared.region().journal;
    log.append(b"the end").unwrap();
    let mut cursor = Cursor::default();
    let read: Vec<Vec<u8>> = std::iter::from_fn(|| log.next(&mut cursor)).collect();
    for number in memory.notes() {
        let times = read.iter().filter(|record| **record == RECORDS[number]);
        assert_eq!(times.count(), 1, "{read:?}");
    }
    let is_known = |record: &Vec<u8>| *record == b"the end" || RECORDS.contains(&&record[..]);
    assert!(read.iter().all(is_known) && read.len() <= 4, "{read:?}");
    assert_eq!(read.last().map(Vec::as_slice), Some(&b"the end"[..]));
}

#[test]
fn a_log_holds_each_record_whole_whoever_dies() {
    let orders = THREE.every_order(Memory::new, append, is_whole_log);
    let deaths = FEW.every_death(Memory::new, append, is_whole_log);
    println!("{orders} orders, {deaths} with a death");
}

fn use_a_worker(memory: &Memory<u64>, _: usize) {
    let pool = &memory.shared.region().pool;
    let due_ns = pool.take("2".parse().unwrap(), 0, |begun_ns| begun_ns + 10);
    memory.note(due_ns.unwrap());
}

#[test]
fn a_worker_serves_one_at_a_time() {
    let judge = |memory: &Memory<u64>| assert_eq!(memory.notes(), [10, 10, 20]);
    THREE.every_order(Memory::new, use_a_worker, judge);
}

#[test]
fn more_processes_than_counters_share_them() {
    let shared = Shared::new().unwrap();
    let indices: Vec<usize> = (0..=PROCESSES).map(|_| shared.claim_counters()).collect();
    assert_eq!(indices[PROCESSES], indices[0]);
    assert_eq!(shared.all_counters().len(), PROCESSES);
}

#[test]
fn forgetting_zeroes_both_parts_and_nothing_else() {
    let shared = Shared::new().unwrap();
    let Region { seen, window, .. } = shared.region();
    for id in [0, 1, 1 << 20, seen::TRACKED_IDS - 1] {
        assert_eq!(seen.mark(id), Some(0));
        window.come(id * 1000);
        window.admit(id * 1000);
    }
    shared.claim_counters();
    shared.forget(0);
    assert_eq!(window.busiest([1000]), [Peaks::default()]);
    for id in [0, 1, 1 << 20, seen::TRACKED_IDS - 1] {
        assert_eq!(seen.mark(id), Some(0));
    }
    assert_eq!(shared.all_counters().len(), 1);
}

#[test]
fn pages_can_be_discarded_here() {
    // Without this the test above would pass by the slow way.
    let shared = Shared::new().unwrap();
    assert_eq!(discard(&shared.region().seen), Ok(()));
    assert_eq!(discard(shared.region().window.per_ms()), Ok(()));
}
