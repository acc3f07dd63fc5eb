//! Whole runs in virtual time whose plan, target, disk and incidents are drawn from one seed: the
//! failures that nobody thought of.
//!
//! `CRAWLMARK_SEEDS=N` runs N seeds, `CRAWLMARK_SEEDS=S..T` those from S on. A seed that fails is
//! printed with the command that runs it again and with the fewest incidents that fail as well. Mend
//! the cause, and keep the seed in [`KEPT`].
#![expect(
    clippy::unwrap_used,
    reason = "a test whose rehearsal cannot run is over"
)]

mod check;
mod world;

use std::env;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use self::check::check;
use self::world::World;

/// Seeds that are run unless told otherwise.
const SEEDS: u64 = 2_000;

/// Seeds that failed once.
const KEPT: [u64; 9] = [45, 88, 499, 504, 706, 20_165, 41_005, 81_690, 95_996];

/// First law that a run of `world` breaks, or the panic that ended it.
fn broken(world: &World) -> Option<String> {
    let run = || world.run().map_or(Ok(()), |ran| check(world, &ran));
    let checked = catch_unwind(AssertUnwindSafe(run));
    checked
        .unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            Err(format!("panicked: {}", text.unwrap_or_default()))
        })
        .err()
}

/// The world with as few incidents as still fail.
fn shrink(mut world: World) -> World {
    let mut at = 0;
    while at < world.incidents.len() {
        let mut smaller = world.clone();
        smaller.incidents.remove(at);
        if broken(&smaller).is_some() {
            world = smaller;
        } else {
            at += 1;
        }
    }
    world
}

/// What is wrong with a seed, and how to see it again.
fn failure(seed: u64) -> Option<String> {
    let world = World::draw(seed);
    let law = broken(&world)?;
    let smallest = shrink(world);
    let shrunk = broken(&smallest).unwrap_or_default();
    Some(format!(
        "seed {seed}: {law}\nshrunk: {shrunk}\n{smallest:#?}\nCRAWLMARK_SEEDS={seed}..{} cargo \
         test -p crawlmark-harness --test seeds every_seed\n",
        seed + 1
    ))
}

/// The seeds to run: `CRAWLMARK_SEEDS`, a number or a range of them.
fn seeds() -> Range<u64> {
    let Ok(text) = env::var("CRAWLMARK_SEEDS") else {
        return 0..SEEDS;
    };
    match text.split_once("..") {
        Some((start, end)) => start.parse().unwrap()..end.parse().unwrap(),
        None => 0..text.parse().unwrap(),
    }
}

#[test]
fn every_seed_keeps_the_laws_of_a_run() {
    let seeds = seeds();
    let (next, failed) = (AtomicU64::new(seeds.start), AtomicU64::new(u64::MAX));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end || seed > failed.load(Ordering::Relaxed) {
                return;
            }
            if broken(&World::draw(seed)).is_some() {
                failed.fetch_min(seed, Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().unwrap().get() {
            scope.spawn(work);
        }
    });
    let failed = failed.into_inner();
    assert!(
        failed == u64::MAX,
        "{}",
        failure(failed).unwrap_or_default()
    );
}

#[test]
fn seeds_that_failed_once_keep_the_laws_of_a_run() {
    let failed: Vec<String> = KEPT.into_iter().filter_map(failure).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn the_same_seed_makes_the_same_record_byte_for_byte() {
    for seed in 0..40 {
        let world = World::draw(seed);
        let record = || format!("{:?}", world.run().map(|ran| ran.rehearsal));
        let [one, other] = [record(), record()];
        if one != other {
            let at = one.bytes().zip(other.bytes()).position(|(a, b)| a != b);
            let at = at.unwrap_or(one.len().min(other.len())).saturating_sub(200);
            let part = |record: &str| record.chars().skip(at).take(400).collect::<String>();
            panic!("seed {seed}: {}\n{}\n{world:#?}", part(&one), part(&other));
        }
    }
}
