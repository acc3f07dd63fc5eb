//! Laws that hold for any bytes whatever as a segment or as the records of an index: files outlive
//! what wrote them. Fuzzing calls them, and so do tests.

use std::io::{ErrorKind, Read};

use super::manifest::{Fields, LastingSettings};
use super::records::Records;
use super::segment::{FORMAT, Frames, Header, SegmentEncoder, SegmentName};

/// Source that yields few bytes at a time.
struct Drops<'a>(&'a [u8]);

impl Read for Drops<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let few = buffer.len().min(7);
        self.0.read(&mut buffer[..few])
    }
}

/// Check the laws on bytes as a segment, and as what follows the start of one.
///
/// # Panics
/// If one does not hold.
pub fn check_segment(bytes: &[u8]) {
    check_one(bytes);
    let header = Header {
        format: FORMAT.to_owned(),
        tool: "crawlmark".to_owned(),
        plan: "plan".to_owned(),
        name: SegmentName {
            session: 1,
            shard: 0,
            life: 0,
        },
        fields: Fields::default(),
    };
    let mut start = Vec::new();
    assert!(SegmentEncoder::begin(&header, &mut start).is_ok());
    check_one(&[&start[..], bytes].concat());
}

/// Check the laws on bytes as the records of an index, which a checksum would hide otherwise.
///
/// # Panics
/// If one does not hold.
pub fn check_records(bytes: &[u8]) {
    let Ok(records) = postcard::from_bytes::<Records>(bytes) else {
        return;
    };
    let again =
        postcard::to_stdvec(&records).and_then(|bytes| postcard::from_bytes::<Records>(&bytes));
    assert!(
        again.as_ref() == Ok(&records),
        "{records:?} is encoded as {again:?}"
    );
}

fn check_one(bytes: &[u8]) {
    let (lines, end) = read(bytes);
    assert!(
        (lines.clone(), end) == read(Drops(bytes)),
        "the pieces of {bytes:?} matter"
    );
    if end.is_none() {
        let all = zstd::decode_all(bytes);
        assert!(
            all.is_ok_and(|all| all == lines),
            "zstd reads something else in {bytes:?}"
        );
    }
}

/// Read lines until the end or an error.
fn read(input: impl Read) -> (Vec<u8>, Option<ErrorKind>) {
    let mut all = Vec::new();
    let end = Frames::open(input).and_then(|mut frames| {
        loop {
            let at = frames.at();
            if frames.next_frame()?.is_none() {
                return Ok(());
            }
            assert!(frames.start() == at && frames.at() > at, "a frame at {at}");
            let lines = frames.lines()?;
            assert!(
                lines.ends_with('\n'),
                "the frame at {at} does not hold whole lines"
            );
            all.extend_from_slice(lines.as_bytes());
        }
    });
    let kind = end.err().map(|error| error.kind());
    assert!(
        matches!(
            kind,
            None | Some(ErrorKind::InvalidData | ErrorKind::UnexpectedEof)
        ),
        "{kind:?}"
    );
    (all, kind)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs::File;
    use std::path::Path;

    use clap::ValueEnum;
    use crawlmark_harness::sample::{ErrorKind, Outcome};
    use crawlmark_harness::units::IdRange;
    use crawlmark_results::run::report::CommandLine;
    use proptest::prelude::*;

    use super::*;
    use crate::dataset::batch::{Item, Place};
    use crate::dataset::disk::Directory;
    use crate::dataset::export::export;
    use crate::dataset::line::outcome_name;
    use crate::dataset::log::{SegmentLog, Steps};
    use crate::dataset::manifest::{self, Bodies, Durability, Manifest, Saved, ShuffledRange};
    use crate::dataset::record::SavedRecord;
    use crate::dataset::records::tests::any_records;
    use crate::dataset::recover::{Recovered, Retry, recover};
    use crate::dataset::saved::SavedCrawl;
    use crate::dataset::segment::tests::{any_frames, header, segment};
    use crate::dataset::verify::verify;

    /// Bytes of a file in which some were changed, or random ones.
    fn damaged(whole: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
        let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
        let near = (changes, any::<prop::sample::Index>(), any::<bool>()).prop_map(
            move |(changes, cut, is_cut)| {
                let mut bytes = whole.clone();
                for (at, byte) in changes {
                    *at.get_mut(&mut bytes) = byte;
                }
                bytes.truncate(if is_cut {
                    cut.index(bytes.len())
                } else {
                    bytes.len()
                });
                bytes
            },
        );
        prop_oneof![4 => near, 1 => prop::collection::vec(any::<u8>(), 0..200)]
    }

    const OUTCOMES: [Option<Outcome>; 5] = [
        Some(Outcome::Ok),
        Some(Outcome::NotFound),
        Some(Outcome::Throttled),
        Some(Outcome::Error(ErrorKind::Reset)),
        None,
    ];

    /// Items of a generated crawl.
    const ITEMS: IdRange = IdRange { start: 5, end: 13 };

    fn manifest() -> Manifest {
        let durability = Durability::Process;
        Manifest {
            format: manifest::FORMAT.to_owned(),
            tool: String::new(),
            created: String::new(),
            plan: String::new(),
            target: String::new(),
            ids: ITEMS,
            shuffle: Some(ShuffledRange {
                range: ITEMS,
                seed: 3,
            }),
            saved: Saved {
                fields: "body".parse().unwrap(),
                bodies: Bodies::Good,
                max_body: 1,
                durability,
                mode: crawlmark_harness::files::PRIVATE,
            },
            workload: LastingSettings::default(),
            command: CommandLine::default(),
            refreshes: Vec::new(),
        }
    }

    /// Records of an item.
    fn pages(item: u64) -> u32 {
        u32::try_from(item % 4).unwrap() + 1
    }

    /// Crawl a session: the items that are asked for end with these outcomes, or not at all. Good
    /// ones whose earlier response `holds` are not modified.
    fn session(
        place: &Path,
        asked: &[u64],
        ends: &[Option<usize>],
        holds: impl Fn(u64) -> bool,
        number: u32,
    ) {
        let (manifest, disk) = (manifest(), Directory::new(place));
        let name = SegmentName {
            session: number,
            shard: 0,
            life: 0,
        };
        let header = Header {
            name,
            fields: manifest.saved.fields,
            ..header()
        };
        let mut log = SegmentLog::create(disk, &header, &manifest.saved, STEPS).unwrap();
        for item in asked {
            let end = ends[usize::try_from(item - ITEMS.start).unwrap()];
            let id = manifest.shuffle().unwrap().id(*item);
            for page in 1..=pages(*item) {
                let outcome = match end {
                    _ if page < pages(*item) => Some(Outcome::Stepped),
                    Some(end) if OUTCOMES[end] == Some(Outcome::Ok) && holds(*item) => {
                        Some(Outcome::NotModified)
                    }
                    Some(end) => OUTCOMES[end],
                    None => break,
                };
                log.push(&Item {
                    id,
                    place: Some(Place {
                        page,
                        ..Place::FIRST
                    }),
                    outcome,
                    ..Item::good(*item)
                })
                .unwrap();
            }
        }
        log.close().unwrap();
        // Every other one died within its end.
        let file = File::options()
            .write(true)
            .open(place.join(name.segment()))
            .unwrap();
        let length = file.metadata().unwrap().len();
        file.set_len(length - u64::from(number % 2)).unwrap();
    }

    /// Frames of a few records.
    const STEPS: Steps = Steps {
        frame: 100,
        commit: 200,
        every: std::time::Duration::from_secs(1),
    };

    /// Outcome of each item of an export, which has all of its records in their order.
    fn exported(crawl: &SavedCrawl) -> BTreeMap<u64, String> {
        let (mut exported, mut ended) = (Vec::new(), BTreeMap::new());
        export(crawl, &mut exported).unwrap();
        let (mut under_way, shuffle) = (BTreeMap::<u64, u32>::new(), manifest().shuffle().unwrap());
        for line in String::from_utf8(exported).unwrap().lines() {
            let record = SavedRecord::parse(line).unwrap();
            let item = shuffle.item(record.id);
            let page = under_way.entry(item).or_default();
            *page += 1;
            assert_eq!(record.page, Some(*page), "{item}");
            if *page == pages(item) {
                let before = ended.insert(item, record.outcome.to_string());
                assert!(before.is_none(), "{item} is doubled");
            }
        }
        assert_eq!(under_way.len(), ended.len(), "items are not whole");
        ended
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

        #[test]
        fn an_item_is_asked_for_until_it_is_finished_and_read_once(
            sessions in prop::collection::vec(
                (prop::collection::vec(prop::option::of(0..OUTCOMES.len()), 8), prop::sample::select(Retry::value_variants()), any::<bool>()), 1..6),
        ) {
            let place = tempfile::tempdir().unwrap();
            let mut described = manifest();
            // Since the last refresh; and of the records that count, with those of all time.
            let (mut last, mut counts) = (BTreeMap::<u64, Option<Outcome>>::new(), BTreeMap::<u64, Option<Outcome>>::new());
            let is_answered = |outcome: &Option<Outcome>| matches!(outcome, Some(Outcome::Ok | Outcome::NotFound));
            let is_finished = |outcome: &Option<Outcome>| outcome.is_none() || is_answered(outcome);
            for (number, (ends, retry, is_refresh)) in (1..).zip(&sessions) {
                if *is_refresh {
                    described.refreshes.push(number);
                    last.clear();
                }
                described.write(place.path()).unwrap();
                let recovered = recover(&Directory::new(place.path()), described.since(), *retry).unwrap();
                let asked: Vec<u64> = recovered.finished.gaps(ITEMS).into_iter().flat_map(|gap| gap.start..gap.end).collect();
                let expected = (ITEMS.start..ITEMS.end).filter(|item| match last.get(item) {
                    None => true,
                    Some(outcome) if is_finished(outcome) => false,
                    Some(Some(Outcome::Throttled)) => matches!(retry, Retry::All | Retry::Abandoned),
                    Some(_) => matches!(retry, Retry::All | Retry::Failed),
                });
                prop_assert_eq!(&asked, &expected.collect::<Vec<_>>());
                let holds = |item| pages(item) == 1 && counts.get(&item) == Some(&Some(Outcome::Ok));
                session(place.path(), &asked, ends, holds, number);
                for item in asked {
                    let Some(end) = ends[usize::try_from(item - ITEMS.start).unwrap()] else { continue };
                    last.insert(item, OUTCOMES[end]);
                    if is_answered(&OUTCOMES[end]) || !counts.get(&item).is_some_and(is_answered) {
                        counts.insert(item, OUTCOMES[end]);
                    }
                }
            }
            recover(&Directory::new(place.path()), 1, Retry::All).unwrap();
            let mut crawl = SavedCrawl::open(place.path(), Manifest::read(place.path()).unwrap()).unwrap();
            let audit = verify(&crawl, |_| {}).unwrap();
            prop_assert_eq!(audit.violations_found, 0, "{:?}", audit.violations);
            let finished = last.values().filter(|outcome| is_finished(outcome)).count() as u64;
            prop_assert_eq!((audit.recorded, audit.finished), (last.len() as u64, finished));
            prop_assert_eq!(audit.complete, finished == ITEMS.len());
            described.refreshes.push(u32::try_from(sessions.len()).unwrap() + 1);
            crawl.manifest = described;
            let audit = verify(&crawl, |_| {}).unwrap();
            prop_assert_eq!((audit.recorded, audit.finished, audit.complete), (0, 0, false));
            let named = counts.into_iter().map(|(item, outcome)| (item, outcome_name(outcome).to_owned()));
            prop_assert_eq!(exported(&crawl), named.collect());
        }

        #[test]
        fn an_item_whose_record_is_lost_after_a_refresh_is_asked_for_again(kept in prop::bool::ANY) {
            let place = tempfile::tempdir().unwrap();
            let asked = |recovered: &Recovered| -> Vec<u64> { recovered.finished.gaps(ITEMS).into_iter().flat_map(|gap| gap.start..gap.end).collect() };
            let (all, ends) = ((ITEMS.start..ITEMS.end).collect::<Vec<_>>(), vec![OUTCOMES.iter().position(|it| *it == Some(Outcome::Ok)); 8]);
            let refreshed = Manifest { refreshes: vec![2], ..manifest() };
            refreshed.write(place.path()).unwrap();
            session(place.path(), &all, &ends, |_| false, 1);
            session(place.path(), &all, &ends, |item| pages(item) == 1, 2);
            if !kept {
                std::fs::remove_file(place.path().join("0001-s00.jsonl.zst")).unwrap();
            }
            let audit = || verify(&SavedCrawl::open(place.path(), refreshed.clone()).unwrap(), |_| {}).unwrap();
            let held: Vec<u64> = all.iter().copied().filter(|item| pages(*item) == 1).collect();
            prop_assert_eq!(audit().violations_found, if kept { 0 } else { held.len() as u64 });
            let recovered = recover(&Directory::new(place.path()), refreshed.since(), Retry::All).unwrap();
            prop_assert_eq!(asked(&recovered), if kept { Vec::new() } else { held });
            session(place.path(), &asked(&recovered), &ends, |_| false, 3);
            recover(&Directory::new(place.path()), refreshed.since(), Retry::All).unwrap();
            let audit = audit();
            prop_assert_eq!((audit.violations_found, audit.complete), (0, true), "{:?}", audit.violations);
        }

        #[test]
        fn an_item_of_several_records_is_whole_or_asked_for_whatever_byte_changes(
            ends in prop::collection::vec(0..OUTCOMES.len(), 8), at in any::<prop::sample::Index>(), flip in 1..=255_u8,
        ) {
            let place = tempfile::tempdir().unwrap();
            manifest().write(place.path()).unwrap();
            let ends: Vec<_> = ends.into_iter().map(Some).collect();
            session(place.path(), &(ITEMS.start..ITEMS.end).collect::<Vec<_>>(), &ends, |_| false, 1);
            let path = place.path().join("0001-s00.jsonl.zst");
            let mut bytes = std::fs::read(&path).unwrap();
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            std::fs::write(&path, bytes).unwrap();
            // The start of a segment is for its user to restore.
            let Ok(recovered) = recover(&Directory::new(place.path()), 1, Retry::None) else {
                return Ok(());
            };
            let crawl = SavedCrawl::open(place.path(), manifest()).unwrap();
            let audit = verify(&crawl, |_| {}).unwrap();
            prop_assert_eq!(audit.violations_found, 0, "{:?}", audit.violations);
            let kept = exported(&crawl);
            prop_assert!(kept.keys().all(|item| recovered.finished.has(*item)));
            prop_assert_eq!(kept.len() as u64, recovered.finished.len());
        }

        #[test]
        fn no_bit_of_a_description_can_change(at in any::<prop::sample::Index>()) {
            let place = tempfile::tempdir().unwrap();
            manifest().write(place.path()).unwrap();
            prop_assert_eq!(Manifest::read(place.path()).unwrap(), manifest());
            let path = place.path().join(manifest::MANIFEST);
            let mut bytes = std::fs::read(&path).unwrap();
            let bit = at.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, bytes).unwrap();
            prop_assert!(Manifest::read(place.path()).is_err());
        }
    }

    proptest! {
        #[test]
        fn they_hold_for_segments(bytes in any_frames().prop_flat_map(|frames| damaged(segment(&frames).0))) {
            check_segment(&bytes);
        }

        #[test]
        fn they_hold_for_records(bytes in any_records().prop_flat_map(|records| damaged(postcard::to_stdvec(&records).unwrap()))) {
            check_records(&bytes);
        }
    }
}
