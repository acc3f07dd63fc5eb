//! Segments of a saved crawl: JSON lines in independent zstd frames.
//!
//! ```text
//! 1. an empty zstd frame: Polars recognises the compression by the first four bytes, and refuses a file that begins with 2.
//! 2. a skippable frame: the header, JSON
//! 3. zstd frames with content size and checksum: whole JSON lines each
//! 4. at a clean end, a skippable frame: the seek table of the zstd seekable format
//! ```
//!
//! [`SegmentEncoder`] makes the bytes, [`Frames`] reads them. Called by the writer, by recovery,
//! `verify` and `export`. It must not know what a line holds, nor write files.

mod frames;
mod name;

use std::io;

use serde::{Deserialize, Serialize};
use zstd::bulk::Compressor;
use zstd::zstd_safe::{CParameter, compress_bound};

pub use self::frames::{Frame, FrameError, Frames};
pub use self::name::SegmentName;
use super::manifest::Fields;

/// Value of [`Header::format`].
pub const FORMAT: &str = "crawlmark items";

/// Version of the format; higher with each change that an older program cannot read.
pub const VERSION: u32 = 1;

/// Most bytes of lines in a frame: the 1 MiB at which one is closed, and the longest line. A body
/// of 16 MiB, the longest that the crawl keeps, takes six times as much as a string of control
/// characters.
pub const MOST_LINE_BYTES: usize = 128 << 20;

/// Magic number of the skippable frame that holds the header.
const HEADER_MAGIC: u32 = 0x184D_2A50;
/// Magic number of the skippable frame that holds the seek table (zstd's `contrib/seekable_format`,
/// 0.1.0).
const SEEK_TABLE_MAGIC: u32 = 0x184D_2A5E;
/// Last four bytes of a seek table.
const SEEK_TABLE_END: u32 = 0x8F92_EAB1;
/// Magic number and length of a skippable frame.
const SKIPPABLE_HEAD: usize = 8;

/// First record of a segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// Program that wrote the segment, with its version.
    pub tool: String,
    /// Hash of the plan of its session; as `plan.config_hash` of a result.
    pub plan: String,
    /// Writer.
    #[serde(flatten)]
    pub name: SegmentName,
    /// Keys of the fields that a record may have, in their order.
    pub fields: Vec<String>,
}

impl Header {
    /// Create the header of a segment of this writer, from the program with its version, the hash
    /// of the plan and the fields of a record.
    #[must_use]
    pub fn new(name: SegmentName, tool: &str, plan: &str, fields: Fields) -> Self {
        let (tool, plan) = (tool.to_owned(), plan.to_owned());
        let fields = fields.keys().map(str::to_owned).collect();
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            tool,
            plan,
            name,
            fields,
        }
    }
}

/// Sizes of a frame, bytes: in the file, and of its lines.
type Sizes = (u32, u32);

/// Encoder of one segment. It keeps eight bytes per frame for the seek table.
pub struct SegmentEncoder {
    compressor: Compressor<'static>,
    sizes: Vec<Sizes>,
}

impl SegmentEncoder {
    /// Create the encoder of a new segment.
    ///
    /// # Errors
    /// When zstd has no such level or gets no memory.
    pub fn new(level: i32) -> io::Result<Self> {
        let mut compressor = Compressor::new(level)?;
        compressor.set_parameter(CParameter::ChecksumFlag(true))?;
        Ok(Self {
            compressor,
            sizes: Vec::new(),
        })
    }

    /// Append the start of the segment to `output`.
    ///
    /// # Errors
    /// When zstd gets no memory.
    pub fn begin(&mut self, header: &Header, output: &mut Vec<u8>) -> io::Result<()> {
        self.begin_with(&serde_json::to_vec(header)?, output)
    }

    /// Append the start of a segment whose header is this JSON.
    pub(super) fn begin_with(&mut self, json: &[u8], output: &mut Vec<u8>) -> io::Result<()> {
        self.frame(b"", output)?;
        self.sizes.push((sized(SKIPPABLE_HEAD + json.len())?, 0));
        skippable(HEADER_MAGIC, json.len(), output)?;
        output.extend_from_slice(json);
        Ok(())
    }

    /// Append a frame of whole lines, at most [`MOST_LINE_BYTES`].
    ///
    /// # Errors
    /// When the lines are longer, or zstd gets no memory.
    pub fn frame(&mut self, lines: &[u8], output: &mut Vec<u8>) -> io::Result<()> {
        if lines.len() > MOST_LINE_BYTES {
            return Err(io::Error::other(format!(
                "{} bytes of lines are more than a frame may hold",
                lines.len()
            )));
        }
        output.reserve(compress_bound(lines.len()));
        let mut frame = io::Cursor::new(output);
        frame.set_position(frame.get_ref().len() as u64);
        let length = self.compressor.compress_to_buffer(lines, &mut frame)?;
        self.sizes.push((sized(length)?, sized(lines.len())?));
        Ok(())
    }

    /// Append the seek table, the last frame.
    ///
    /// # Errors
    /// When it would be too long, which takes 2^29 frames.
    pub fn end(&mut self, output: &mut Vec<u8>) -> io::Result<()> {
        seek_table(&self.sizes, output)
    }
}

/// Append the seek table of frames with these sizes.
fn seek_table(sizes: &[Sizes], output: &mut Vec<u8>) -> io::Result<()> {
    skippable(SEEK_TABLE_MAGIC, sizes.len() * 8 + 9, output)?;
    for (compressed, lines) in sizes {
        output.extend_from_slice(&compressed.to_le_bytes());
        output.extend_from_slice(&lines.to_le_bytes());
    }
    output.extend_from_slice(&sized(sizes.len())?.to_le_bytes());
    // No checksums in the table: each frame has its own.
    output.push(0);
    output.extend_from_slice(&SEEK_TABLE_END.to_le_bytes());
    Ok(())
}

/// Append the head of a skippable frame of so many bytes.
fn skippable(magic: u32, length: usize, output: &mut Vec<u8>) -> io::Result<()> {
    output.extend_from_slice(&magic.to_le_bytes());
    output.extend_from_slice(&sized(length)?.to_le_bytes());
    Ok(())
}

fn sized(length: usize) -> io::Result<u32> {
    u32::try_from(length).map_err(io::Error::other)
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Header of a segment.
    pub(in crate::dataset) fn header() -> Header {
        let name = SegmentName {
            session: 1,
            shard: 0,
            life: 0,
        };
        Header::new(
            name,
            "crawlmark 0.1.0",
            "0123456789abcdef",
            Fields::default(),
        )
    }

    /// Segment of these frames, with the offsets at which its frames end.
    fn segment(frames: &[Vec<u8>]) -> (Vec<u8>, Vec<usize>) {
        let (mut bytes, mut encoder) = (Vec::new(), SegmentEncoder::new(3).unwrap());
        encoder.begin(&header(), &mut bytes).unwrap();
        let mut ends = vec![bytes.len()];
        for lines in frames {
            encoder.frame(lines, &mut bytes).unwrap();
            ends.push(bytes.len());
        }
        encoder.end(&mut bytes).unwrap();
        (bytes, ends)
    }

    /// Frames that can be read, the place behind them, and the error that ends them.
    fn read(bytes: &[u8]) -> (Vec<Vec<u8>>, u64, Option<FrameError>) {
        let mut frames = match Frames::open(bytes) {
            Ok(frames) => frames,
            Err(error) => return (Vec::new(), 0, Some(error)),
        };
        assert_eq!(frames.header(), &header());
        let mut found = Vec::new();
        loop {
            let at = frames.at();
            match frames.next_frame() {
                Ok(Some(frame)) => {
                    assert_eq!(frame.bytes.start, at);
                    found.push(frame.lines.to_vec());
                }
                Ok(None) => return (found, frames.at(), None),
                Err(error) => return (found, frames.at(), Some(error)),
            }
        }
    }

    fn any_frames() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let lines = (prop::collection::vec(any::<u8>(), 0..60), 0..100_usize);
        prop::collection::vec(
            lines.prop_map(|(line, times)| [line.repeat(times), b"\n".to_vec()].concat()),
            0..5,
        )
    }

    proptest! {
        #[test]
        fn frames_are_read_as_they_were_written_and_a_cut_is_told_from_damage(
            frames in any_frames(), cut: prop::sample::Index, flip in 1..=255_u8,
        ) {
            let (bytes, ends) = segment(&frames);
            let (found, end, error) = read(&bytes);
            prop_assert!(error.is_none());
            prop_assert_eq!((&found, end), (&frames, bytes.len() as u64));
            prop_assert_eq!(zstd::decode_all(&bytes[..]).unwrap(), frames.concat());

            let cut = cut.index(bytes.len());
            let whole = ends.iter().take_while(|end| **end <= cut).count();
            let (found, end, error) = read(&bytes[..cut]);
            prop_assert_eq!(&found[..], &frames[..whole.saturating_sub(1)]);
            match error {
                None => prop_assert!(ends.contains(&cut) && end == cut as u64),
                Some(FrameError::Cut { at }) => prop_assert!(!ends.contains(&cut) && (at == end || whole == 0)),
                Some(error) => prop_assert!(false, "{error}"),
            }

            // The header has no checksum of its own: the checkpoint has its digest.
            if cut >= ends[0] {
                let mut bytes = bytes;
                bytes[cut] ^= flip;
                let (found, _, error) = read(&bytes);
                // Some bits of a frame mean nothing.
                let whole = if error.is_some() { whole - 1 } else { frames.len() };
                prop_assert_eq!(&found[..], &frames[..whole]);
            }
        }
    }

    #[test]
    fn a_length_that_lies_takes_no_memory() {
        let (bytes, ends) = segment(&[]);
        let start = &bytes[..ends[0]];
        // A skippable frame of 4 GiB; a frame of one byte that claims to hold 100 MiB: 0xA0 is a
        // length of four bytes in a single segment.
        let skippable = [&SEEK_TABLE_MAGIC.to_le_bytes()[..], &[0xff; 4]].concat();
        let liar = [
            &[0x28, 0xb5, 0x2f, 0xfd, 0xa4][..],
            &(100_u32 << 20).to_le_bytes(),
            &[3, 0, 0, 7, 0, 0, 0, 0],
        ]
        .concat();
        for lie in [skippable, liar] {
            let (_, end, error) = read(&[start, &lie].concat());
            assert!(
                matches!(error, Some(FrameError::Damaged { at, .. }) if at == end),
                "{error:?}"
            );
        }
    }
}
