//! Laws that hold for any bytes whatever as a segment, a header or a checkpoint: files outlive what
//! wrote them. Fuzzing calls them, and so do tests.

use std::io::Read;

use super::checkpoint::Checkpoint;
use super::manifest::Fields;
use super::segment::{FrameError, Frames, Header, SegmentEncoder, SegmentName};

/// End of a reading: the place, and the error.
type FrameEnd = (u64, Option<String>);

/// Source that yields few bytes at a time.
struct Drops<'a>(&'a [u8]);

impl Read for Drops<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let few = buffer.len().min(7);
        self.0.read(&mut buffer[..few])
    }
}

/// Start of a segment whose header is this JSON.
fn with_header(json: &[u8]) -> Vec<u8> {
    let mut segment = Vec::new();
    let begun =
        SegmentEncoder::new(3).and_then(|mut encoder| encoder.begin_with(json, &mut segment));
    assert!(begun.is_ok(), "{begun:?}");
    segment
}

/// Check the laws on bytes as a segment, and as what follows the start of one.
///
/// # Panics
/// If one does not hold.
pub fn check_segment(bytes: &[u8]) {
    check_one(bytes);
    let name = SegmentName {
        session: 1,
        shard: 0,
        life: 0,
    };
    let header = serde_json::to_vec(&Header::new(name, "crawlmark", "plan", Fields::default()))
        .unwrap_or_default();
    check_one(&[&with_header(&header)[..], bytes].concat());
}

/// Check the laws on bytes as the header of a segment.
///
/// # Panics
/// If one does not hold.
pub fn check_header(bytes: &[u8]) {
    let segment = with_header(bytes);
    let Ok(frames) = Frames::open(&segment[..]) else {
        return;
    };
    let mut again = Vec::new();
    let begun =
        SegmentEncoder::new(3).and_then(|mut encoder| encoder.begin(frames.header(), &mut again));
    assert!(begun.is_ok(), "{:?}", frames.header());
    let header = Frames::open(&again[..]).map(|frames| frames.header().clone());
    assert!(
        header.is_ok_and(|header| header == *frames.header()),
        "{:?}",
        frames.header()
    );
}

/// Check the laws on bytes as a checkpoint, and as the payload of one, which a checksum would hide
/// otherwise.
///
/// # Panics
/// If one does not hold.
pub fn check_checkpoint(bytes: &[u8]) {
    for checkpoint in [
        Checkpoint::decode(bytes),
        Checkpoint::seal(bytes).and_then(|bytes| Checkpoint::decode(&bytes)),
    ] {
        let Ok(checkpoint) = checkpoint else { continue };
        let again = checkpoint
            .encode()
            .and_then(|bytes| Checkpoint::decode(&bytes));
        assert!(
            again.as_ref() == Ok(&checkpoint),
            "{checkpoint:?} is encoded as {again:?}"
        );
    }
}

fn check_one(bytes: &[u8]) {
    let (lines, end) = read(bytes);
    assert!(
        (lines.clone(), end.clone()) == read(Drops(bytes)),
        "the pieces of {bytes:?} matter"
    );
    if let (_, None) = end {
        let all = zstd::decode_all(bytes);
        assert!(
            all.is_ok_and(|all| all == lines),
            "zstd reads something else in {bytes:?}"
        );
    }
}

/// Read lines until the end or an error.
fn read(input: impl Read) -> (Vec<u8>, FrameEnd) {
    let mut frames = match Frames::open(input) {
        Ok(frames) => frames,
        Err(error) => return (Vec::new(), (0, Some(said(&error)))),
    };
    let mut lines = Vec::new();
    loop {
        let at = frames.at();
        match frames.next_frame() {
            Ok(Some(frame)) => {
                assert!(
                    frame.bytes.start == at && frame.bytes.end > at,
                    "a frame at {:?}, not {at}",
                    frame.bytes
                );
                assert!(
                    frame.lines.ends_with(b"\n"),
                    "the frame at {at} does not hold whole lines"
                );
                lines.extend_from_slice(frame.lines);
            }
            Ok(None) => return (lines, (at, None)),
            Err(error) => {
                let error = said(&error);
                let again = frames.next_frame().err().map(|error| said(&error));
                assert!(again.as_ref() == Some(&error), "{error}, then {again:?}");
                return (lines, (at, Some(error)));
            }
        }
    }
}

/// Text of an error, which must not be one of the source.
fn said(error: &FrameError) -> String {
    assert!(!matches!(error, FrameError::Io(_)), "{error}");
    error.to_string()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs::File;
    use std::io::Write;
    use std::path::Path;

    use clap::ValueEnum;
    use crawlmark_harness::sample::{ErrorKind, Outcome};
    use crawlmark_harness::units::IdRange;
    use crawlmark_results::run::report::CommandLine;
    use proptest::prelude::*;

    use super::*;
    use crate::cli::CrawlFormat;
    use crate::dataset::batch::Item;
    use crate::dataset::disk::Directory;
    use crate::dataset::export::CrawlExport;
    use crate::dataset::line::outcome_name;
    use crate::dataset::log::{SegmentLog, Steps};
    use crate::dataset::manifest::{self, Bodies, Durability, Manifest, Saved, ShuffledRange};
    use crate::dataset::record::SavedRecord;
    use crate::dataset::recover::{Retry, recover};
    use crate::dataset::saved::SavedCrawl;
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

    fn frames() -> Vec<u8> {
        let (mut bytes, mut encoder) = (Vec::new(), SegmentEncoder::new(3).unwrap());
        for lines in ["{\"id\":1}\n", "{\"id\":2}\n{\"id\":3}\n"] {
            encoder.frame(lines.as_bytes(), &mut bytes).unwrap();
        }
        bytes
    }

    fn header() -> Vec<u8> {
        let name = SegmentName {
            session: 1,
            shard: 2,
            life: 3,
        };
        serde_json::to_vec(&Header::new(name, "crawlmark", "plan", Fields::default())).unwrap()
    }

    fn payload() -> Vec<u8> {
        let mut checkpoint = Checkpoint::default();
        for item in [1, 2, 5] {
            checkpoint.finished.insert(item).unwrap();
            checkpoint
                .tally
                .record("ok", 1, Some(item), Some(item * 3_000));
        }
        let bytes = checkpoint.encode().unwrap();
        bytes[12..bytes.len() - 4].to_vec()
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
            version: manifest::VERSION,
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
            },
            workload: BTreeMap::new(),
            command: CommandLine::default(),
        }
    }

    /// Crawl a session: the items that are asked for end with these outcomes, or not at all. Bytes
    /// that are not committed follow.
    fn session(place: &Path, asked: &[u64], ends: &[Option<usize>], number: u32) {
        let (manifest, disk) = (manifest(), Directory::new(place));
        let name = SegmentName {
            session: number,
            shard: 0,
            life: 0,
        };
        let header = Header::new(name, "crawlmark", "plan", manifest.saved.fields);
        let mut log = SegmentLog::create(disk, &header, &manifest.saved, Steps::default()).unwrap();
        for item in asked {
            let Some(end) = ends[usize::try_from(item - ITEMS.start).unwrap()] else {
                continue;
            };
            let id = manifest.shuffle().unwrap().id(*item);
            let (url, status, latency_us, content_type, body) = (None, None, None, None, None);
            let (number, outcome, attempts, at_us) = (*item, OUTCOMES[end], 1, 1);
            log.push(&Item {
                number,
                id,
                url,
                status,
                outcome,
                attempts,
                at_us,
                latency_us,
                content_type,
                body,
            })
            .unwrap();
        }
        log.close().unwrap();
        let mut file = File::options()
            .append(true)
            .open(place.join(name.segment()))
            .unwrap();
        file.write_all(&frames()[..number as usize]).unwrap();
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

        #[test]
        fn an_item_is_asked_for_until_it_is_finished_and_read_once(
            sessions in prop::collection::vec(
                (prop::collection::vec(prop::option::of(0..OUTCOMES.len()), 8), prop::sample::select(Retry::value_variants())), 1..5),
        ) {
            let place = tempfile::tempdir().unwrap();
            manifest().write(place.path()).unwrap();
            let mut last = BTreeMap::<u64, Option<Outcome>>::new();
            let is_finished = |outcome: &Option<Outcome>| matches!(outcome, None | Some(Outcome::Ok | Outcome::NotFound));
            let shuffle = manifest().shuffle().unwrap();
            for (number, (ends, retry)) in (1..).zip(&sessions) {
                let recovered = recover(&Directory::new(place.path()), |id| Ok(shuffle.item(id)), *retry).unwrap();
                let asked: Vec<u64> = recovered.finished.gaps(ITEMS).into_iter().flat_map(|gap| gap.start..gap.end).collect();
                let expected = (ITEMS.start..ITEMS.end).filter(|item| match last.get(item) {
                    None => true,
                    Some(outcome) if is_finished(outcome) => false,
                    Some(Some(Outcome::Throttled)) => matches!(retry, Retry::All | Retry::Abandoned),
                    Some(_) => matches!(retry, Retry::All | Retry::Failed),
                });
                prop_assert_eq!(&asked, &expected.collect::<Vec<_>>());
                session(place.path(), &asked, ends, number);
                last.extend(asked.iter().filter_map(|item| Some((*item, OUTCOMES[ends[usize::try_from(*item - ITEMS.start).unwrap()]?]))));
            }
            recover(&Directory::new(place.path()), |id| Ok(shuffle.item(id)), Retry::All).unwrap();
            let crawl = SavedCrawl::open(place.path(), Manifest::read(place.path()).unwrap()).unwrap();
            let audit = verify(&crawl, |_| {}).unwrap();
            prop_assert_eq!(audit.violations_found, 0, "{:?}", audit.violations);
            let finished = last.values().filter(|outcome| is_finished(outcome)).count() as u64;
            prop_assert_eq!((audit.recorded, audit.finished), (last.len() as u64, finished));
            prop_assert_eq!(audit.complete, finished == ITEMS.len());
            let path = place.path().join("export");
            let mut export = CrawlExport::begin(&crawl.manifest, CrawlFormat::Jsonl, File::create(&path).unwrap()).unwrap();
            export.add(&crawl, |_| {}).unwrap();
            prop_assert_eq!(export.finish().unwrap().written, last.len() as u64);
            for line in std::fs::read_to_string(&path).unwrap().lines() {
                let record = SavedRecord::parse(line).unwrap();
                let outcome = last.remove(&shuffle.item(record.id)).expect("one row for each ID");
                prop_assert_eq!(&*record.outcome.0, outcome_name(outcome));
            }
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
        fn they_hold_for_segments(bytes in damaged(frames())) {
            check_segment(&bytes);
        }

        #[test]
        fn they_hold_for_headers(bytes in damaged(header())) {
            check_header(&bytes);
        }

        #[test]
        fn they_hold_for_checkpoints(bytes in damaged(payload())) {
            check_checkpoint(&bytes);
        }
    }
}
