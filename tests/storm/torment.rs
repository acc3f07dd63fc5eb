//! Torment real processes: crawls drawn by a seed run while their shards, their supervisors and the
//! target are killed, stopped and interrupted, while limits and a full disk are in their way, clocks
//! are stepped, and files of a saved crawl are damaged between its sessions. Laws judge from outside, by the
//! target's counts, by the JSON and by `verify` and `export`.
//!
//! A run of the test takes [`KEPT`]. `CRAWLMARK_TORMENT=600` begins seeds for 600 s, from
//! `CRAWLMARK_TORMENT_SEED` on; that variable alone repeats one seed, as a failure prints it.

mod laws;
mod means;
mod room;
mod session;
mod trial;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use crawlmark_harness::clock::{Clock, duration_ns};

use self::means::Means;
use self::room::{Room, Tally};
use self::trial::Trial;
use crate::setting;

/// Seeds at a time: most of them wait.
const AT_A_TIME: usize = 4;

/// Seeds that found something, and some of each kind.
const KEPT: &[u64] = &[1, 2, 3, 4, 5, 6, 7, 8, 1_059, 2_722, 3_093];

type Seeds = Box<dyn Iterator<Item = u64> + Send>;

/// Command that repeats a seed.
const REPEAT: &str = "cargo test -p crawlmark --test storm torment -- --nocapture";

/// What seeds found, and how much they did.
#[derive(Debug, Default)]
struct Found {
    tally: BTreeMap<&'static str, Tally>,
    wrong: Vec<u64>,
}

#[test]
fn torment() {
    let seed = setting("CRAWLMARK_TORMENT_SEED").map(|seed| seed.parse::<u64>().unwrap());
    let time = setting("CRAWLMARK_TORMENT").map(|time| time.parse().map(Duration::from_secs));
    let clock = Clock::start();
    let seeds: Seeds = match (time, seed) {
        (None, Some(seed)) => Box::new(std::iter::once(seed)),
        (None, None) => Box::new(KEPT.iter().copied()),
        (Some(time), seed) => {
            let end_ns = duration_ns(time.unwrap());
            Box::new((seed.unwrap_or(1)..).take_while(move |_| clock.now().0 < end_ns))
        }
    };
    let next = Mutex::new(seeds);
    let found: Mutex<Found> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| work(&next, &found));
        }
    });
    let Found { tally, wrong } = found.into_inner().unwrap();
    let seconds = clock.now().0 / 1_000_000_000;
    println!("{:?}", Means::get());
    println!("in {seconds} s, by kind:");
    for (kind, tally) in &tally {
        println!("{kind}: {tally:?}");
    }
    assert_eq!(wrong, [0; 0], "seeds that found something");
}

/// Take seeds until there is none.
#[expect(clippy::print_stdout, reason = "a test prints what it finds")]
fn work(next: &Mutex<Seeds>, found: &Mutex<Found>) {
    loop {
        let Some(seed) = next.lock().unwrap().next() else {
            return;
        };
        let trial = Trial::of(seed);
        let (wrong, tally) = Room::new(&trial).torment();
        let mut found = found.lock().unwrap();
        found.tally.entry(trial.kind.name()).or_default().add(tally);
        if !wrong.is_empty() {
            println!("CRAWLMARK_TORMENT_SEED={seed} {REPEAT}\n  {trial:?}");
            println!("  {}", wrong.join("\n  "));
            found.wrong.push(seed);
        }
    }
}
