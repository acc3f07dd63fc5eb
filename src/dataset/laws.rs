//! Laws that hold for any bytes whatever as a segment, a header or a checkpoint: files outlive what wrote them. Fuzzing calls them, and so
//! do tests.

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
    let begun = SegmentEncoder::new(3).and_then(|mut encoder| encoder.begin_with(json, &mut segment));
    assert!(begun.is_ok(), "{begun:?}");
    segment
}

/// Check the laws on bytes as a segment, and as what follows the start of one.
///
/// # Panics
/// If one does not hold.
pub fn check_segment(bytes: &[u8]) {
    check_one(bytes);
    let name = SegmentName { session: 1, shard: 0, life: 0 };
    let header = serde_json::to_vec(&Header::new(name, "crawlmark", "plan", Fields::default())).unwrap_or_default();
    check_one(&[&with_header(&header)[..], bytes].concat());
}

/// Check the laws on bytes as the header of a segment.
///
/// # Panics
/// If one does not hold.
pub fn check_header(bytes: &[u8]) {
    let segment = with_header(bytes);
    let Ok(frames) = Frames::open(&segment[..]) else { return };
    let mut again = Vec::new();
    let begun = SegmentEncoder::new(3).and_then(|mut encoder| encoder.begin(frames.header(), &mut again));
    assert!(begun.is_ok(), "{:?}", frames.header());
    let header = Frames::open(&again[..]).map(|frames| frames.header().clone());
    assert!(header.is_ok_and(|header| header == *frames.header()), "{:?}", frames.header());
}

/// Check the laws on bytes as a checkpoint, and as the payload of one, which a checksum would hide otherwise.
///
/// # Panics
/// If one does not hold.
pub fn check_checkpoint(bytes: &[u8]) {
    for checkpoint in [Checkpoint::decode(bytes), Checkpoint::seal(bytes).and_then(|bytes| Checkpoint::decode(&bytes))]
    {
        let Ok(checkpoint) = checkpoint else { continue };
        let again = checkpoint.encode().and_then(|bytes| Checkpoint::decode(&bytes));
        assert!(again.as_ref() == Ok(&checkpoint), "{checkpoint:?} is encoded as {again:?}");
    }
}

fn check_one(bytes: &[u8]) {
    let (lines, end) = read(bytes);
    assert!((lines.clone(), end.clone()) == read(Drops(bytes)), "the pieces of {bytes:?} matter");
    if let (_, None) = end {
        let all = zstd::decode_all(bytes);
        assert!(all.is_ok_and(|all| all == lines), "zstd reads something else in {bytes:?}");
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
                assert!(frame.bytes.start == at && frame.bytes.end > at, "a frame at {:?}, not {at}", frame.bytes);
                assert!(frame.lines.ends_with(b"\n"), "the frame at {at} does not hold whole lines");
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
    use proptest::prelude::*;

    use super::*;

    /// Bytes of a file in which some were changed, or random ones.
    fn damaged(whole: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
        let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
        let near = (changes, any::<prop::sample::Index>(), any::<bool>()).prop_map(move |(changes, cut, is_cut)| {
            let mut bytes = whole.clone();
            for (at, byte) in changes {
                *at.get_mut(&mut bytes) = byte;
            }
            bytes.truncate(if is_cut { cut.index(bytes.len()) } else { bytes.len() });
            bytes
        });
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
        let name = SegmentName { session: 1, shard: 2, life: 3 };
        serde_json::to_vec(&Header::new(name, "crawlmark", "plan", Fields::default())).unwrap()
    }

    fn payload() -> Vec<u8> {
        let mut checkpoint = Checkpoint::default();
        for item in [1, 2, 5] {
            checkpoint.finished.insert(item).unwrap();
            checkpoint.tally.record("ok", 1, Some(item), Some(item * 3_000));
        }
        let bytes = checkpoint.encode().unwrap();
        bytes[12..bytes.len() - 4].to_vec()
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
