//! Laws of a saved crawl on a disk that fails anywhere: nothing that was committed is lost, nothing
//! is doubled, every record is whole, and an item that ended has all of its records.

use std::collections::{BTreeMap, BTreeSet};

use crawlmark_harness::sample::{ErrorKind, Outcome};
use crawlmark_harness::units::IdRange;
use proptest::prelude::*;

use super::*;
use crate::dataset::batch::{Place, ReceivedBody};
use crate::dataset::disk::tests::{Random, Simulated};
use crate::dataset::manifest::Bodies;
use crate::dataset::recover::{Recovered, Retry, records_of, recover};
use crate::dataset::segment::Frames;
use crate::dataset::segment::tests::header;

/// Items of the crawl.
const IDS: IdRange = IdRange { start: 3, end: 43 };

/// Shards of a session.
const SHARDS: u32 = 2;

/// Sessions with failures, before one without.
const SESSIONS: u32 = 3;

const STEPS: Steps = Steps {
    frame: 250,
    commit: 500,
    every: Duration::from_secs(1),
};

/// Outcomes of items.
const MIXED: [Outcome; 5] = [
    Outcome::Ok,
    Outcome::NotFound,
    Outcome::Throttled,
    Outcome::Rejected,
    Outcome::Error(ErrorKind::Reset),
];

/// A crawl that is saved to a disk that fails.
struct Crawl {
    disk: Simulated,
    random: Random,
    saved: Saved,
    now: Nanos,
    /// Items whose commit returned.
    told: BTreeSet<u64>,
    /// Outcomes of items before the last session.
    outcomes: &'static [Outcome],
    /// Draws of outcomes.
    draws: Random,
}

/// A shard of a session.
struct Shard {
    name: SegmentName,
    /// Items to crawl, in the order in which they end.
    left: Vec<u64>,
    /// Saved responses of the next one of them.
    page: u32,
    log: Option<SegmentLog<Simulated>>,
}

impl Crawl {
    fn new(seed: u64, durability: Durability, outcomes: &'static [Outcome]) -> Self {
        let saved = Saved {
            fields: "attempts,body,outcome,at".parse().unwrap(),
            bodies: Bodies::All,
            max_body: 100,
            durability,
            mode: crawlmark_harness::files::PRIVATE,
        };
        let (disk, random) = (Simulated::new(seed), Random::new(!seed));
        let draws = Random::new(seed.rotate_left(17));
        Self {
            disk,
            random,
            saved,
            now: Nanos(0),
            told: BTreeSet::new(),
            outcomes,
            draws,
        }
    }

    /// Crawl for a session. Operations fail and the power is cut as the random numbers say, unless
    /// it is the last one.
    fn session(&mut self, is_last: bool) {
        let recovered = self.recovered(!is_last);
        if is_last {
            self.outcomes = &[Outcome::Ok];
        }
        let items: Vec<u64> = recovered
            .finished
            .gaps(IDS)
            .into_iter()
            .flat_map(|gap| gap.start..gap.end)
            .collect();
        let mut shards: Vec<Shard> = (0..SHARDS)
            .map(|shard| {
                let (mut left, name) = (
                    Vec::new(),
                    SegmentName {
                        session: recovered.sessions.keys().max().unwrap_or(&0) + 1,
                        shard,
                        life: 0,
                    },
                );
                for item in items
                    .iter()
                    .filter(|item| *item % u64::from(SHARDS) == u64::from(shard))
                {
                    left.insert(self.random.below(left.len() + 1), *item);
                }
                Shard {
                    name,
                    left,
                    page: 0,
                    log: None,
                }
            })
            .collect();
        // Between one and all items end, unless it is the last session.
        for _ in 0..if is_last {
            1_000
        } else {
            self.random.below(60)
        } {
            self.fail_sometimes(!is_last, 12);
            let shard = &mut shards[self.random.below(SHARDS as usize)];
            if let Err(error) = self.step(shard) {
                assert!(self.disk.take_failure(), "{error}");
                if self.random.below(2) == 0 {
                    return self.cut_power();
                }
                self.replace(shard);
            }
        }
        self.disk.fail_after(None);
        for shard in shards
            .iter_mut()
            .filter(|shard| is_last || shard.left.is_empty())
        {
            if let Some(log) = shard.log.take() {
                let finished = log.items.clone();
                log.close().unwrap();
                self.told
                    .extend(finished.ranges().flat_map(|range| range.start..range.end));
            }
        }
        if !is_last && self.random.below(2) == 0 {
            self.cut_power();
        }
    }

    fn fail_sometimes(&mut self, may_fail: bool, within: usize) {
        let after = (may_fail && self.random.below(4) == 0).then(|| self.random.below(within));
        self.disk.fail_after(after);
    }

    fn cut_power(&mut self) {
        self.disk.cut_power();
        if self.saved.durability == Durability::Process {
            self.told.clear();
        }
    }

    /// Save a response of an item of a shard.
    fn step(&mut self, shard: &mut Shard) -> Result<(), LogError> {
        let log = match &mut shard.log {
            Some(log) => log,
            none => {
                let header = Header {
                    name: shard.name,
                    fields: self.saved.fields,
                    ..header()
                };
                none.insert(SegmentLog::create(
                    self.disk.clone(),
                    &header,
                    &self.saved,
                    STEPS,
                )?)
            }
        };
        if let Some(item) = shard.left.last().copied() {
            let body = content(item);
            shard.page += 1;
            let page = shard.page;
            let outcome = if page < pages(item) {
                Outcome::Stepped
            } else {
                shard.left.pop();
                shard.page = 0;
                self.outcomes[self.draws.below(self.outcomes.len())]
            };
            let body = ReceivedBody {
                bytes: body.as_bytes(),
                whole: body.len() as u64,
            };
            log.push(&Item {
                place: Some(Place {
                    page,
                    ..Place::FIRST
                }),
                outcome: Some(outcome),
                at_us: item,
                latency_us: Some(item),
                body: Some(body),
                ..Item::good(item)
            })?;
        }
        self.now = self
            .now
            .plus(Duration::from_millis(self.random.below(400) as u64));
        log.commit_if_due(self.now)?;
        if log.lines.is_empty() && log.uncommitted == 0 {
            let items = log.items.ranges();
            self.told
                .extend(items.flat_map(|range| range.start..range.end));
        }
        Ok(())
    }

    /// Replace a shard that died, as the supervisor does: what its segment does not hold is crawled
    /// again.
    fn replace(&mut self, shard: &mut Shard) {
        self.disk.fail_after(None);
        let dead = shard.log.take().map(|log| log.items).unwrap_or_default();
        let mut kept = ItemSet::default();
        for range in records_of(&self.disk, shard.name).unwrap().items() {
            kept.add(range).unwrap();
        }
        shard.left.extend(
            dead.ranges()
                .flat_map(|range| kept.gaps(range))
                .flat_map(|gap| gap.start..gap.end),
        );
        shard.name.life += 1;
        shard.page = 0;
    }

    /// Recover until that succeeds, and check the laws.
    fn recovered(&mut self, may_fail: bool) -> Recovered {
        for turn in 0..20 {
            self.fail_sometimes(may_fail && turn < 10, 8);
            let result = recover(&self.disk, 1, Retry::All);
            self.disk.fail_after(None);
            match result {
                Ok(recovered) => {
                    self.check(&recovered);
                    self.told.extend(
                        recovered
                            .finished
                            .ranges()
                            .flat_map(|range| range.start..range.end),
                    );
                    return recovered;
                }
                Err(_) if self.disk.take_failure() => {
                    if self.random.below(2) == 0 {
                        self.cut_power();
                    }
                }
                Err(error) => panic!("{error}"),
            }
        }
        panic!("recovery has no end");
    }

    /// Check that the records on the disk are those that were recovered, whole and once each in a
    /// session, that an item is finished by its last record or asked for again, and that none is
    /// lost.
    fn check(&self, recovered: &Recovered) {
        let mut records: BTreeMap<u64, (u32, bool)> = BTreeMap::new();
        let (mut all, mut ended_all) = (0, 0);
        for file in self.disk.list().unwrap() {
            assert!(!file.ends_with(SegmentName::NEW), "{file} is left");
            let Some(name) = SegmentName::of_segment(&file) else {
                continue;
            };
            let mut frames = Frames::open(self.disk.open(&file).unwrap()).unwrap();
            assert_eq!(frames.header().name, name);
            let mut under_way = BTreeMap::<u64, u32>::new();
            while frames.next_frame().unwrap().is_some() {
                for line in frames.lines().unwrap().lines() {
                    let record: serde_json::Value = serde_json::from_str(line).unwrap();
                    let item = record["id"].as_u64().unwrap();
                    assert_eq!(record["body"], content(item));
                    all += 1;
                    let page = under_way.entry(item).or_default();
                    *page += 1;
                    assert_eq!(record["page"], *page, "{item}");
                    let outcome = record["outcome"].as_str().unwrap();
                    if outcome == "stepped" {
                        continue;
                    }
                    assert_eq!(*page, pages(item), "{item} is not whole");
                    let is_finished = ["ok", "not_found"].contains(&outcome);
                    let before = records.insert(item, (name.session, is_finished));
                    let may_follow = |(session, is_finished): (u32, bool)| {
                        session < name.session && !is_finished
                    };
                    assert!(before.is_none_or(may_follow), "{item} is doubled");
                    ended_all += 1;
                }
            }
            assert!(frames.is_closed());
        }
        let finished = recovered
            .finished
            .ranges()
            .flat_map(|range| range.start..range.end);
        let ended = records
            .iter()
            .filter(|(_, (_, is_finished))| *is_finished)
            .map(|(item, _)| *item);
        assert!(finished.eq(ended), "{recovered:?} {records:?}");
        let counts = recovered.sessions.values();
        let [records_of_all, attempts] = counts.fold([0, 0], |[records, attempts], session| {
            [
                records + session.records.count(),
                attempts + session.records.attempts,
            ]
        });
        assert_eq!((records_of_all, attempts), (all, ended_all));
        let lost: Vec<&u64> = self
            .told
            .iter()
            .filter(|item| !records.contains_key(item))
            .collect();
        assert!(lost.is_empty(), "{lost:?} are lost");
    }
}

/// Records of an item.
fn pages(item: u64) -> u32 {
    u32::try_from(item % 3).unwrap() + 1
}

/// Body of an item.
fn content(item: u64) -> String {
    "x".repeat((item * 7 % 40) as usize) + &item.to_string()
}

/// Crawl in sessions that fail, and in one that does not.
fn crawl(seed: u64, durability: Durability, outcomes: &'static [Outcome]) {
    let mut crawl = Crawl::new(seed, durability, outcomes);
    for _ in 0..SESSIONS {
        crawl.session(false);
    }
    crawl.session(true);
    assert_eq!(crawl.recovered(false).finished.gaps(IDS), vec![]);
}

proptest! {
    // Each has about twenty failures.
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_committed_survives_failures_and_power_cuts_and_nothing_is_doubled(seed: u64) {
        crawl(seed, Durability::Power, &MIXED);
    }

    #[test]
    fn without_syncs_it_survives_failures_and_a_power_cut_doubles_nothing(seed: u64) {
        crawl(seed, Durability::Process, &MIXED);
    }
}
