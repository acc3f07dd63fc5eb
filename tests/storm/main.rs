//! Fail the n-th system call: each command runs once for each call that can fail, each plausible
//! error and each n, until a run is left untouched. `strace` does it, without a change to the program.
//!
//! A run draws [`CASES`] cases of each command by a seed; `CRAWLMARK_STORM` sets another number, or
//! `all`; `CRAWLMARK_STORM_SEED` another seed; `CRAWLMARK_STORM_ONLY` a part of a case's name, as a
//! failure prints it. `CRAWLMARK_STORM=0` leaves the test out.
#![expect(clippy::unwrap_used, reason = "a test is over at its first surprise")]

mod calls;
mod case;
mod processes;
mod scene;
mod target;
mod torment;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::calls::has_strace;
use crate::case::{Case, Verdict};
use crate::scene::{SCENES, Stage};

/// Cases of each command in one run of the test.
const CASES: usize = 15;

/// Runs at a time.
const AT_A_TIME: usize = 2;

/// Draws by a seed (splitmix64).
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Draw so many of `all`, or all of them.
    fn some<T>(&mut self, mut all: Vec<T>, wanted: usize) -> Vec<T> {
        while all.len() > wanted {
            let index = self.next() % all.len() as u64;
            all.swap_remove(usize::try_from(index).unwrap());
        }
        all
    }
}

fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[test]
fn each_command_survives_the_failure_of_any_call() {
    let wanted = match setting("CRAWLMARK_STORM").as_deref() {
        Some("all") => usize::MAX,
        Some(number) => number.parse().unwrap(),
        None => CASES,
    };
    if wanted == 0 || !has_strace() {
        println!("skipped: there is no strace, or CRAWLMARK_STORM=0");
        return;
    }
    let seed = setting("CRAWLMARK_STORM_SEED").map_or(41, |seed| seed.parse().unwrap());
    let only = setting("CRAWLMARK_STORM_ONLY").unwrap_or_default();
    let mut draw = Draw(seed);
    let stage = Stage::set();
    let mut cases = Vec::new();
    for scene in SCENES {
        let mut all = Case::all_of(scene, &stage);
        all.retain(|case| case.name().contains(&only));
        let drawn = draw.some(all, wanted);
        cases.extend(drawn);
    }
    println!("{} cases", cases.len());
    let next = AtomicUsize::new(0);
    let verdicts: Mutex<Vec<(Case, Verdict)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let verdict = case.run(&stage);
                    if !verdict.wrong.is_empty() {
                        println!("{}: {}", case.name(), verdict.wrong.join("\n  "));
                    }
                    verdicts.lock().unwrap().push((case.clone(), verdict));
                }
            });
        }
    });
    let verdicts = verdicts.into_inner().unwrap();
    let mut table: BTreeMap<(&str, &str), [usize; 4]> = BTreeMap::new();
    for (case, verdict) in &verdicts {
        let row = table.entry((case.scene.name, case.call.name)).or_default();
        row[0] += 1;
        row[1] += usize::from(verdict.is_hit);
        row[2] += usize::from(verdict.is_hit && verdict.code == Some(case.scene.code));
        row[3] += usize::from(!verdict.wrong.is_empty());
    }
    println!("command call: runs, faults injected, of which done all the same, wrong");
    for ((scene, call), row) in &table {
        println!("{scene} {call}: {row:?}");
    }
    let wrong = table.values().map(|row| row[3]).sum::<usize>();
    assert_eq!(wrong, 0, "of {} runs with seed {seed}", verdicts.len());
}
