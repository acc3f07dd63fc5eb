//! Segments of a saved crawl: JSON lines in independent zstd frames, each behind an index of its
//! records.
//!
//! ```text
//! 1. an empty zstd frame: Polars recognises the compression by the first four bytes, and refuses a file that begins with 2.
//! 2. a skippable frame: the header, JSON
//! 3. any number of: a skippable frame, the index (postcard), and a zstd frame of whole JSON lines
//! 4. at a clean end, a skippable frame: the number of indexes
//! ```
//!
//! Each skippable frame ends with a CRC-32 of all of it before, and an index has the length and the
//! CRC-32 of its frame: no byte can change unnoticed, and a file that was cut anywhere holds its
//! whole frames. [`SegmentEncoder`] makes the bytes, [`Frames`] reads them for recovery, `verify`
//! and `export`. It must not know what a line holds, nor write files.

mod name;

use std::io::{self, Error, ErrorKind, Read, Seek, SeekFrom};

use serde::{Deserialize, Serialize};
use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::{CParameter, compress_bound};

pub use self::name::SegmentName;
use super::manifest::Fields;
use super::records::Records;

/// Value of [`Header::format`].
pub const FORMAT: &str = "crawlmark items/5";

/// Most bytes of lines in a frame: the 1 MiB at which one is closed, and the longest line. A body
/// of 16 MiB, the longest that the crawl keeps, takes six times as much as a string of control
/// characters.
pub const MOST_LINE_BYTES: usize = 128 << 20;

/// Level of zstd.
const LEVEL: i32 = 3;

/// An empty zstd frame.
const EMPTY: [u8; 9] = [0x28, 0xb5, 0x2f, 0xfd, 0x20, 0, 1, 0, 0];

/// Magic numbers of the skippable frames.
const HEADER: u32 = 0x184D_2A50;
const INDEX: u32 = 0x184D_2A51;
const END: u32 = 0x184D_2A52;

/// Magic number and length of a skippable frame, and the CRC-32 at its end.
const HEAD: usize = 8;
const TAIL: usize = 4;

/// First record of a segment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// [`FORMAT`].
    pub format: String,
    /// Program that wrote the segment, with its version.
    pub tool: String,
    /// Hash of the plan of its session; as `plan.config_hash` of a result.
    pub plan: String,
    /// Writer.
    #[serde(flatten)]
    pub name: SegmentName,
    /// Keys of the fields that a record may have, in their order.
    pub fields: Fields,
}

/// Index of a frame.
#[derive(Debug, Serialize, Deserialize)]
struct Index {
    /// Length of the frame, bytes.
    length: u32,
    /// Its CRC-32.
    crc32: u32,
    /// Its records.
    records: Records,
}

/// Encoder of one segment.
pub struct SegmentEncoder {
    compressor: Compressor<'static>,
    frames: u32,
}

impl SegmentEncoder {
    /// Append the start of a segment to `output`, and return its encoder.
    ///
    /// # Errors
    /// When zstd gets no memory.
    pub fn begin(header: &Header, output: &mut Vec<u8>) -> io::Result<Self> {
        let mut compressor = Compressor::new(LEVEL)?;
        compressor.set_parameter(CParameter::ChecksumFlag(true))?;
        output.extend_from_slice(&EMPTY);
        skippable(HEADER, &serde_json::to_vec(header)?, output)?;
        Ok(Self {
            compressor,
            frames: 0,
        })
    }

    /// Append a frame of whole lines, at most [`MOST_LINE_BYTES`], and its index.
    ///
    /// # Errors
    /// When the lines are longer, or zstd gets no memory.
    pub fn frame(
        &mut self,
        lines: &[u8],
        records: Records,
        output: &mut Vec<u8>,
    ) -> io::Result<()> {
        if lines.len() > MOST_LINE_BYTES {
            let length = lines.len();
            return Err(Error::other(format!(
                "{length} bytes of lines are more than a frame may hold"
            )));
        }
        let frame = self.compressor.compress(lines)?;
        let (length, crc32) = (sized(frame.len())?, crc32fast::hash(&frame));
        let records = Records {
            line_bytes: lines.len() as u64,
            ..records
        };
        let index = postcard::to_stdvec(&Index {
            length,
            crc32,
            records,
        })
        .map_err(Error::other)?;
        skippable(INDEX, &index, output)?;
        output.extend_from_slice(&frame);
        self.frames += 1;
        Ok(())
    }

    /// Append the end.
    ///
    /// # Errors
    /// None: the length of the last frame is known.
    pub fn end(&self, output: &mut Vec<u8>) -> io::Result<()> {
        end(self.frames, output)
    }
}

/// Append the end of a segment of so many frames.
pub(super) fn end(frames: u32, output: &mut Vec<u8>) -> io::Result<()> {
    skippable(END, &frames.to_le_bytes(), output)
}

/// Append a skippable frame.
fn skippable(magic: u32, body: &[u8], output: &mut Vec<u8>) -> io::Result<()> {
    let start = output.len();
    output.extend_from_slice(&magic.to_le_bytes());
    output.extend_from_slice(&sized(body.len() + TAIL)?.to_le_bytes());
    output.extend_from_slice(body);
    let sum = crc32fast::hash(&output[start..]);
    output.extend_from_slice(&sum.to_le_bytes());
    Ok(())
}

fn sized(length: usize) -> io::Result<u32> {
    u32::try_from(length).map_err(Error::other)
}

/// Reader of a segment, which may be cut anywhere, damaged or made up.
///
/// Its errors are those of the source, [`ErrorKind::UnexpectedEof`] where the bytes end within a
/// frame (its writer was stopped, or part of the file is lost), and [`ErrorKind::InvalidData`]
/// where they are not those that were written. No number in it makes this take more memory than
/// the bytes that are there, and [`MOST_LINE_BYTES`].
pub struct Frames<R> {
    input: R,
    header: Header,
    /// The last skippable frame, and the frame behind it.
    block: Vec<u8>,
    frame: Vec<u8>,
    /// Bytes of the start and of the whole frames before this one, and with this one.
    start: u64,
    at: u64,
    /// Length of the frame's lines; none of a frame that is damaged.
    line_bytes: Option<usize>,
    decompressor: Decompressor<'static>,
    lines: Vec<u8>,
    count: u32,
    is_closed: bool,
}

impl<R: Read> Frames<R> {
    /// Read the start of a segment.
    ///
    /// # Errors
    /// See [`Frames`].
    pub fn open(input: R) -> io::Result<Self> {
        let mut frames = Self {
            input,
            header: Header::default(),
            block: Vec::new(),
            frame: Vec::new(),
            start: 0,
            at: 0,
            line_bytes: None,
            decompressor: Decompressor::new()?,
            lines: Vec::new(),
            count: 0,
            is_closed: false,
        };
        read(&mut frames.input, EMPTY.len(), &mut frames.block)?;
        if frames.block.len() < EMPTY.len() {
            return Err(frames.cut());
        }
        if frames.block != EMPTY {
            return Err(frames.damaged("it is not the start of a segment"));
        }
        match frames.skippable()? {
            Some(HEADER) => {}
            Some(_) => return Err(frames.damaged("it is not the header of a segment")),
            None => return Err(frames.cut()),
        }
        let header = serde_json::from_slice(frames.body());
        frames.header = header.map_err(|error| frames.damaged(&error.to_string()))?;
        if frames.header.format != FORMAT {
            let why = format!(
                "its format is `{}`, and this program reads `{FORMAT}`",
                frames.header.format
            );
            return Err(frames.damaged(&why));
        }
        frames.at += (EMPTY.len() + frames.block.len()) as u64;
        Ok(frames)
    }

    /// Return the header.
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// True once the end was read, which is there after a clean end.
    pub const fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Return the place of the frame that was read last.
    pub const fn start(&self) -> u64 {
        self.start
    }

    /// Return the number of bytes that were read: where the next frame begins.
    pub const fn at(&self) -> u64 {
        self.at
    }

    /// Read the next frame, and return its records; none at the end. Later ones can be read even if
    /// this one is [damaged](Self::is_whole).
    ///
    /// # Errors
    /// See [`Frames`].
    pub fn next_frame(&mut self) -> io::Result<Option<Records>> {
        let Some(Index {
            length,
            crc32,
            records,
        }) = self.next_index()?
        else {
            return Ok(None);
        };
        read(&mut self.input, length as usize, &mut self.frame)?;
        if self.frame.len() < length as usize {
            return Err(self.cut());
        }
        self.line_bytes = usize::try_from(records.line_bytes)
            .ok()
            .filter(|most| *most <= MOST_LINE_BYTES && crc32fast::hash(&self.frame) == crc32);
        self.pass(length);
        Ok(Some(records))
    }

    /// True if the bytes of the last frame are those that were written.
    pub const fn is_whole(&self) -> bool {
        self.line_bytes.is_some()
    }

    /// Return the lines of the last frame.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn lines(&mut self) -> io::Result<&str> {
        let Some(length) = self.line_bytes else {
            return Err(damaged(self.start, "its bytes have another checksum"));
        };
        self.lines.clear();
        self.lines.reserve(length);
        let read = self
            .decompressor
            .decompress_to_buffer(&self.frame, &mut self.lines);
        if read.is_err() || self.lines.len() != length || self.lines.last() != Some(&b'\n') {
            return Err(damaged(
                self.start,
                "it does not hold the lines that its index says",
            ));
        }
        str::from_utf8(&self.lines).map_err(|error| damaged(self.start, &error.to_string()))
    }

    /// Return the bytes of the last frame and its index, for a copy.
    pub(super) fn bytes(&self) -> [&[u8]; 2] {
        [&self.block, &self.frame]
    }

    /// Read the index of the next frame; none at the end.
    fn next_index(&mut self) -> io::Result<Option<Index>> {
        let index = match self.skippable()? {
            None => return Ok(None),
            Some(INDEX) if !self.is_closed => postcard::from_bytes(self.body()).ok(),
            Some(END) if self.body() == self.count.to_le_bytes() && !self.is_closed => {
                self.at += self.block.len() as u64;
                self.is_closed = true;
                return match read(&mut self.input, 1, &mut self.block) {
                    Ok(()) if !self.block.is_empty() => Err(self.damaged("it follows the end")),
                    ended => ended.map(|()| None),
                };
            }
            Some(_) => None,
        };
        match index {
            Some(Index { length, .. }) if length as usize > compress_bound(MOST_LINE_BYTES) => {
                Err(self.damaged("it is longer than any frame"))
            }
            Some(index) => Ok(Some(index)),
            None => Err(self.damaged("it is neither an index nor the end")),
        }
    }

    /// Return what the last skippable frame holds.
    fn body(&self) -> &[u8] {
        &self.block[HEAD..self.block.len() - TAIL]
    }

    /// Read a skippable frame, and return its magic number; none at the end.
    fn skippable(&mut self) -> io::Result<Option<u32>> {
        read(&mut self.input, HEAD, &mut self.block)?;
        if self.block.is_empty() {
            return Ok(None);
        }
        let ([magic, length], []) = self.block.as_chunks() else {
            return Err(self.cut());
        };
        let [magic, length] = [magic, length].map(|word| u32::from_le_bytes(*word));
        if !matches!(magic, HEADER | INDEX | END) {
            return Err(self.damaged("it is not one of a segment"));
        }
        if magic == END && length as usize != 2 * TAIL {
            return Err(self.damaged("it is not an end"));
        }
        let mut rest = Vec::new();
        read(&mut self.input, length as usize, &mut rest)?;
        self.block.extend_from_slice(&rest);
        if rest.len() < length as usize {
            return Err(self.cut());
        }
        match self.block.split_last_chunk::<TAIL>() {
            Some((before, sum))
                if before.len() >= HEAD && crc32fast::hash(before).to_le_bytes() == *sum =>
            {
                Ok(Some(magic))
            }
            _ => Err(self.damaged("its checksum does not match its bytes")),
        }
    }

    /// Go on behind a frame of this length.
    fn pass(&mut self, length: u32) {
        self.start = self.at;
        self.at += self.block.len() as u64 + u64::from(length);
        self.count += 1;
    }

    fn cut(&self) -> Error {
        Error::new(
            ErrorKind::UnexpectedEof,
            format!("it ends within the frame at byte {}", self.at),
        )
    }

    fn damaged(&self, why: &str) -> Error {
        damaged(self.at, why)
    }
}

impl<R: Read + Seek> Frames<R> {
    /// Read the index of the next frame without the frame, and return its records; none at the end.
    ///
    /// # Errors
    /// See [`Frames`].
    pub fn skip_frame(&mut self) -> io::Result<Option<Records>> {
        let Some(Index {
            length, records, ..
        }) = self.next_index()?
        else {
            return Ok(None);
        };
        self.input.seek(SeekFrom::Current(i64::from(length) - 1))?;
        read(&mut self.input, 1, &mut self.frame)?;
        if self.frame.is_empty() {
            return Err(self.cut());
        }
        self.line_bytes = None;
        self.pass(length);
        Ok(Some(records))
    }
}

/// Read so many bytes, or those before the end.
fn read(input: &mut impl Read, length: usize, bytes: &mut Vec<u8>) -> io::Result<()> {
    bytes.clear();
    input.take(length as u64).read_to_end(bytes)?;
    Ok(())
}

fn damaged(at: u64, why: &str) -> Error {
    Error::new(
        ErrorKind::InvalidData,
        format!("the frame at byte {at} is damaged: {why}"),
    )
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::dataset::records::tests::any_records;

    /// Header of a segment.
    pub(in crate::dataset) fn header() -> Header {
        Header {
            format: FORMAT.to_owned(),
            tool: "crawlmark 0.1.0".to_owned(),
            plan: "0123456789abcdef".to_owned(),
            name: SegmentName {
                session: 1,
                shard: 0,
                life: 0,
            },
            fields: Fields::default(),
        }
    }

    /// Segment of these frames, with the offsets at which its start and its frames end.
    pub(in crate::dataset) fn segment(frames: &[(Vec<u8>, Records)]) -> (Vec<u8>, Vec<usize>) {
        let mut bytes = Vec::new();
        let mut encoder = SegmentEncoder::begin(&header(), &mut bytes).unwrap();
        let mut ends = vec![bytes.len()];
        for (lines, records) in frames {
            encoder.frame(lines, records.clone(), &mut bytes).unwrap();
            ends.push(bytes.len());
        }
        encoder.end(&mut bytes).unwrap();
        (bytes, ends)
    }

    /// Lines and records of each frame.
    type AllFrames = Vec<(Vec<u8>, Records)>;

    /// Frames that can be read, the place behind them, and the error that ends them.
    fn read(bytes: &[u8]) -> (AllFrames, u64, Option<ErrorKind>) {
        let mut found = Vec::new();
        let mut frames = match Frames::open(bytes) {
            Ok(frames) => frames,
            Err(error) => return (found, 0, Some(error.kind())),
        };
        loop {
            let records = match frames.next_frame() {
                Ok(Some(records)) => Records {
                    line_bytes: 0,
                    ..records
                },
                Ok(None) => return (found, frames.at(), None),
                Err(error) => return (found, frames.at(), Some(error.kind())),
            };
            match frames.lines() {
                Ok(lines) => found.push((lines.as_bytes().to_vec(), records)),
                Err(error) => return (found, frames.start(), Some(error.kind())),
            }
        }
    }

    pub(in crate::dataset) fn any_frames() -> impl Strategy<Value = Vec<(Vec<u8>, Records)>> {
        let lines = ("[ -~]{0,60}", 0..100_usize)
            .prop_map(|(line, times)| (line.repeat(times) + "\n").into_bytes());
        prop::collection::vec((lines, any_records()), 0..5)
    }

    proptest! {
        #[test]
        fn frames_are_read_as_they_were_written_and_neither_a_cut_nor_a_flip_is_missed(
            frames in any_frames(), cut: prop::sample::Index, flip in 1..=255_u8,
        ) {
            let (bytes, ends) = segment(&frames);
            prop_assert_eq!(read(&bytes), (frames.clone(), bytes.len() as u64, None));
            let lines: Vec<u8> = frames.iter().flat_map(|(lines, _)| lines.clone()).collect();
            prop_assert_eq!(zstd::decode_all(&bytes[..]).unwrap(), lines);
            let mut skipped = Frames::open(io::Cursor::new(&bytes)).unwrap();
            while skipped.skip_frame().unwrap().is_some() {}
            prop_assert!(skipped.is_closed() && skipped.at() == bytes.len() as u64);

            let cut = cut.index(bytes.len());
            let whole = ends.iter().filter(|end| **end <= cut).count();
            let (found, end, error) = read(&bytes[..cut]);
            prop_assert_eq!(&found[..], &frames[..whole.saturating_sub(1)]);
            prop_assert_eq!(end, whole.checked_sub(1).map_or(0, |last| ends[last] as u64));
            prop_assert_eq!(error, (!ends.contains(&cut)).then_some(ErrorKind::UnexpectedEof));

            let mut flipped = bytes;
            flipped[cut] ^= flip;
            let (found, _, error) = read(&flipped);
            prop_assert!(error.is_some());
            prop_assert_eq!(&found[..], &frames[..whole.saturating_sub(1)]);
        }
    }

    #[test]
    fn a_length_that_lies_takes_no_memory() {
        let (bytes, ends) = segment(&[]);
        let liar = postcard::to_stdvec(&Index {
            length: u32::MAX,
            crc32: 0,
            records: Records::default(),
        })
        .unwrap();
        let mut index = bytes[..ends[0]].to_vec();
        skippable(INDEX, &liar, &mut index).unwrap();
        let head = [&bytes[..ends[0]], &INDEX.to_le_bytes(), &[0xff; 4]].concat();
        for (lie, kind) in [
            (index, ErrorKind::InvalidData),
            (head, ErrorKind::UnexpectedEof),
        ] {
            assert_eq!(read(&lie), (Vec::new(), ends[0] as u64, Some(kind)));
        }
    }
}
