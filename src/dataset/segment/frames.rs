//! Reads a segment frame by frame, from any source: it may be cut anywhere, damaged or made up.
//!
//! No number in it makes this take more memory than the bytes that are there can decompress to, and
//! never more than [`MOST_LINE_BYTES`] and as much again for the frame.

use std::io::{self, Read};
use std::ops::Range;

use zstd::zstd_safe::zstd_sys::ZSTD_ErrorCode;
use zstd::zstd_safe::{
    DCtx, compress_bound, find_frame_compressed_size, get_error_name, get_frame_content_size,
};

use super::{
    FORMAT, HEADER_MAGIC, Header, MOST_LINE_BYTES, SEEK_TABLE_MAGIC, SKIPPABLE_HEAD, Sizes,
    VERSION, seek_table, sized,
};

/// Bytes that are read at a time.
const CHUNK: u64 = 256 << 10;

/// The error of a frame that is not whole yet, as zstd returns it.
const SHORT: usize = (ZSTD_ErrorCode::ZSTD_error_srcSize_wrong as usize).wrapping_neg();

/// Most bytes that a block decompresses to, and fewest that it takes: a header and one byte (RFC
/// 8878, 3.1.1.2).
const BLOCK: (usize, usize) = (128 << 10, 4);

/// Reason why a frame cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The source cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The bytes end within a frame: its writer was stopped, or part of the file is lost.
    #[error("ends within the frame at byte {at}")]
    Cut {
        /// First byte of the frame.
        at: u64,
    },
    /// The bytes are not those that were written.
    #[error("the frame at byte {at} is damaged: {why}")]
    Damaged {
        /// First byte of the frame.
        at: u64,
        /// Details.
        why: String,
    },
}

/// A frame of lines.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Bytes of the segment that it takes.
    pub bytes: Range<u64>,
    /// Whole lines, each with its line feed; at least one.
    pub lines: &'a [u8],
}

/// Reader of a segment.
pub struct Frames<R> {
    input: R,
    /// Bytes that were read and are not decoded, from `start` on.
    buffer: Vec<u8>,
    start: usize,
    /// Place of `start` in the segment.
    at: u64,
    context: DCtx<'static>,
    lines: Vec<u8>,
    header: Header,
    sizes: Vec<Sizes>,
    is_closed: bool,
}

impl<R: Read> Frames<R> {
    /// Read the start of a segment.
    ///
    /// # Errors
    /// When the source cannot be read, or does not begin as a segment of this version.
    pub fn open(input: R) -> Result<Self, FrameError> {
        let name = super::SegmentName {
            session: 0,
            shard: 0,
            life: 0,
        };
        let [format, tool, plan] = [const { String::new() }; 3];
        let mut frames = Self {
            input,
            buffer: Vec::new(),
            start: 0,
            at: 0,
            context: DCtx::try_create()
                .ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?,
            lines: Vec::new(),
            header: Header {
                format,
                version: 0,
                tool,
                plan,
                name,
                fields: Vec::new(),
            },
            sizes: Vec::new(),
            is_closed: false,
        };
        let length = frames.whole_frame()?.ok_or(FrameError::Cut { at: 0 })?;
        frames.decompress(length)?;
        if !frames.lines.is_empty() {
            return Err(frames.damaged("it is not the empty frame of a segment"));
        }
        frames.pass(length)?;
        let length = frames
            .whole_frame()?
            .ok_or(FrameError::Cut { at: frames.at })?;
        frames.header = frames
            .read_header(length)
            .map_err(|why| frames.damaged(why))?;
        frames.pass(length)?;
        Ok(frames)
    }

    /// Return the header.
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// True once the seek table was read, which is there after a clean end.
    pub const fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Return the number of bytes of the frames that were read: where the next one begins.
    pub const fn at(&self) -> u64 {
        self.at
    }

    /// Read the next frame of lines; none at the end.
    ///
    /// # Errors
    /// When the source cannot be read, or is cut or damaged here. The same error comes again.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, FrameError> {
        let Some(length) = self.whole_frame()? else {
            return Ok(None);
        };
        if self.is_closed {
            return Err(self.damaged("it follows the seek table"));
        }
        if word(&self.buffer[self.start..]) == Some(SEEK_TABLE_MAGIC) {
            let mut table = Vec::new();
            seek_table(&self.sizes, &mut table)?;
            if self.buffer[self.start..][..length] != table {
                return Err(self.damaged("it is not the seek table of the frames before it"));
            }
            self.pass(length)?;
            self.is_closed = true;
            // Nothing may follow.
            return self.next_frame();
        }
        self.decompress(length)?;
        if self.lines.last() != Some(&b'\n') {
            return Err(self.damaged("it does not hold whole lines"));
        }
        let at = self.at;
        self.pass(length)?;
        Ok(Some(Frame {
            bytes: at..self.at,
            lines: &self.lines,
        }))
    }

    /// Read until the next frame is in the buffer, and return its length; none at the end.
    fn whole_frame(&mut self) -> Result<Option<usize>, FrameError> {
        loop {
            let rest = &self.buffer[self.start..];
            let most = compress_bound(MOST_LINE_BYTES);
            let is_too_long = rest.len() > most
                || word(rest).is_some_and(|magic| magic & !0xF == HEADER_MAGIC)
                    && word(rest.get(4..).unwrap_or_default())
                        .is_some_and(|length| length as usize > most);
            match find_frame_compressed_size(rest) {
                _ if rest.is_empty() => {}
                _ if is_too_long => return Err(self.damaged("it is longer than any frame")),
                Ok(length) => return Ok(Some(length)),
                Err(SHORT) => {}
                Err(code) => return Err(self.damaged(get_error_name(code))),
            }
            self.buffer.drain(..self.start);
            self.start = 0;
            if (&mut self.input)
                .take(CHUNK)
                .read_to_end(&mut self.buffer)?
                == 0
            {
                return if self.buffer.is_empty() {
                    Ok(None)
                } else {
                    Err(FrameError::Cut { at: self.at })
                };
            }
        }
    }

    /// Decompress the frame of this length to `lines`.
    fn decompress(&mut self, length: usize) -> Result<(), FrameError> {
        const CHECKSUM_FLAG: u8 = 4;
        let frame = &self.buffer[self.start..][..length];
        let (most, fewest) = BLOCK;
        let claimed = get_frame_content_size(frame)
            .ok()
            .flatten()
            .and_then(|size| usize::try_from(size).ok());
        let most = (length / fewest).saturating_mul(most).min(MOST_LINE_BYTES);
        let Some(size) = claimed.filter(|size| *size <= most) else {
            return Err(self.damaged("its length of lines is not known or too large"));
        };
        if word(frame).is_some_and(|magic| magic & !0xF == HEADER_MAGIC)
            || frame[4] & CHECKSUM_FLAG == 0
        {
            return Err(self.damaged("it has no checksum"));
        }
        self.lines.clear();
        self.lines.reserve(size);
        match self.context.decompress(&mut self.lines, frame) {
            Ok(read) if read == size => Ok(()),
            Ok(_) => Err(self.damaged("its length of lines is wrong")),
            Err(code) => Err(self.damaged(get_error_name(code))),
        }
    }

    fn read_header(&self, length: usize) -> Result<Header, String> {
        let frame = &self.buffer[self.start..][..length];
        if word(frame) != Some(HEADER_MAGIC) {
            return Err("it is not the header of a segment".to_owned());
        }
        let header: Header =
            serde_json::from_slice(&frame[SKIPPABLE_HEAD..]).map_err(|error| error.to_string())?;
        match header {
            Header { ref format, .. } if format != FORMAT => {
                Err(format!("it is of format `{format}`, not `{FORMAT}`"))
            }
            Header { version, .. } if version != VERSION => Err(format!(
                "it has version {version}, this program reads version {VERSION}"
            )),
            header => Ok(header),
        }
    }

    /// Go on behind a frame of this length, which `lines` holds unless it is a skippable one.
    fn pass(&mut self, length: usize) -> Result<(), FrameError> {
        self.sizes.push((sized(length)?, sized(self.lines.len())?));
        self.start += length;
        self.at += length as u64;
        Ok(())
    }

    fn damaged(&self, why: impl Into<String>) -> FrameError {
        FrameError::Damaged {
            at: self.at,
            why: why.into(),
        }
    }
}

/// Return the first four bytes as a number; none of fewer.
fn word(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}
