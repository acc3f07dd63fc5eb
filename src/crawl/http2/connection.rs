//! State of a connection: its streams, windows and settings, and the frames to send (RFC 9113).
//!
//! It is given the bytes that the target sent, any bytes, and wakes the requests that they concern.
//! It reads and writes nothing itself.

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::os::fd::RawFd;
use std::rc::Rc;
use std::task::Waker;

use bytes::Bytes;
use crawlmark_harness::clock::Nanos;
use crawlmark_harness::sample::{ClosedBy, ErrorKind};
use foldhash::fast::FixedState;

use super::failure;
use super::hpack::{Decoder, Fields, KEPT_BYTES, NO_TABLE, Undecodable};
use super::request::Output;
use crate::crawl::connect::failure::Failure;
use crate::crawl::response::exchange::was_not_begun;
use crate::crawl::response::fields::MOST_HEAD_BYTES;

/// Content that a target may send on a stream before this client has read it: more than most items
/// have, so that the window never delays one.
const STREAM_WINDOW: u32 = 2 << 20;

/// Most content that a target may send on all streams of a connection before this client has read
/// it. It is read at once.
const MOST_WINDOW: u32 = 64 << 20;

/// Window of a connection at its start, and of a stream without settings (RFC 9113, 6.9.2).
const FIRST_WINDOW: u32 = 65_535;

/// Largest window (RFC 9113, 6.9.1).
const LARGEST_WINDOW: i64 = (1 << 31) - 1;

/// Largest frame: the default, which this client's settings leave as it is, and which every target
/// takes (RFC 9113, 4.2).
const FRAME_BYTES: usize = 16 << 10;

/// Bytes of a frame's header (RFC 9113, 4.1).
const FRAME_HEAD_BYTES: usize = 9;

/// Longest block that is compared with the next one.
const MOST_REPEATED: usize = 1 << 10;

/// Frames to send beyond which no content of a request is added to them.
pub(super) const MOST_QUEUED: usize = 64 << 10;

/// Start of an answer of HTTP/1. No frame begins with it: it would be too long.
const HTTP_1: &[u8] = b"HTTP/1";

/// The start of a client's connection (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

// Types of frames (RFC 9113, 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

// Flags of frames.
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 32;

// Settings (RFC 9113, 6.5.2).
const ENABLE_PUSH: u16 = 2;
const MAX_CONCURRENT_STREAMS: u16 = 3;
const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_HEADER_LIST_SIZE: u16 = 6;

// Error codes (RFC 9113, 7).
const NO_ERROR: u32 = 0;
const PROTOCOL_ERROR: u32 = 1;
const FLOW_CONTROL_ERROR: u32 = 3;
const FRAME_SIZE_ERROR: u32 = 6;
const CANCEL: u32 = 8;
const COMPRESSION_ERROR: u32 = 9;

/// Rule that a target broke, with the error code of the connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fault {
    code: u32,
    rule: &'static str,
}

/// A fault with the code for what has none of its own.
const fn fault(rule: &'static str) -> Fault {
    let code = PROTOCOL_ERROR;
    Fault { code, rule }
}

const WRONG_LENGTH: Fault = Fault {
    code: FRAME_SIZE_ERROR,
    rule: "a frame has a wrong length",
};

/// A frame without its payload.
#[derive(Debug, Clone, Copy)]
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
}

impl Frame {
    const fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// A head of which not all frames have arrived.
#[derive(Debug)]
struct OpenHead {
    frame: Frame,
    block: Vec<u8>,
}

/// A stream: the present request of a slot and its response, as far as they have come.
#[derive(Debug, Default)]
pub(super) struct StreamState {
    /// Its number; another one for each request.
    id: u32,
    pub(super) waker: Option<Waker>,
    /// Final head of the response, once there is a status.
    pub(super) fields: Rc<Fields>,
    pub(super) status: Option<u16>,
    /// Trailers of the response.
    pub(super) trailers: Option<Rc<Fields>>,
    /// Content that was not taken yet.
    pub(super) content: Vec<u8>,
    /// Length of the content so far.
    pub(super) content_bytes: u64,
    /// Time of the read that brought the head, and of the last one.
    pub(super) head_at: Nanos,
    pub(super) read_at: Nanos,
    /// The end of the response, once it is there.
    pub(super) end: Option<Result<(), Failure>>,
    /// Content by which the target's window has shrunk.
    unconfirmed: u32,
    /// True if the response has no content, whatever its head says.
    is_head: bool,
    /// Content of the request that is not queued yet, and the window for it.
    body: Bytes,
    window: i64,
    /// Bytes of the connection before its request.
    begins_at: u64,
    /// Head of a request that waits for the target to allow one more.
    block: Vec<u8>,
}

/// A connection of HTTP/2.
#[derive(Debug)]
pub(crate) struct Connection {
    /// Frames to send, of which some bytes are written.
    pub(super) output: Vec<u8>,
    written: usize,
    /// Bytes written and read.
    pub(super) passed: [u64; 2],
    /// Wakes the task that reads and writes.
    pub(super) driver: Option<Waker>,
    /// The socket while it is open.
    pub(super) socket: Option<RawFd>,
    decoder: Decoder,
    /// Block of the last head, if it may be repeated; that of most responses is.
    block: Vec<u8>,
    /// Fields of the last head, and memory for those of the next.
    fields: Rc<Fields>,
    spare: Option<Rc<Fields>>,
    open_head: Option<OpenHead>,
    pub(super) streams: Vec<StreamState>,
    /// Positions of the streams that are open, by number.
    open: HashMap<u32, usize, FixedState>,
    /// Positions of the streams whose requests wait for the target to allow one more.
    waiting: VecDeque<usize>,
    /// Positions of the streams whose requests have content left.
    sending: Vec<usize>,
    next_id: u32,
    /// Requests that it was given, without those that the target did not begin.
    pub(super) requests: Rc<Cell<u64>>,
    pub(super) has_settings: bool,
    /// Streams that the target allows at once.
    pub(super) allowed: u32,
    first_window: i64,
    window: i64,
    /// Content that the target may send, and by how much that has shrunk.
    own_window: u32,
    unconfirmed: u32,
    /// Content that the target may still send on streams that this client has reset.
    late_window: u64,
    is_goaway: bool,
    /// Reason of its end.
    pub(super) end: Option<Failure>,
}

impl Connection {
    /// Begin a connection of so many streams.
    pub(super) fn new(streams: u32, socket: Option<RawFd>) -> Self {
        let own_window = STREAM_WINDOW.saturating_mul(streams).min(MOST_WINDOW);
        let mut connection = Self {
            output: PREFACE.to_vec(),
            written: 0,
            passed: [0; 2],
            driver: None,
            socket,
            decoder: Decoder::new(),
            block: Vec::new(),
            fields: Rc::default(),
            spare: None,
            open_head: None,
            streams: (0..streams).map(|_| StreamState::default()).collect(),
            open: HashMap::default(),
            waiting: VecDeque::new(),
            sending: Vec::new(),
            next_id: 1,
            requests: Rc::default(),
            has_settings: false,
            allowed: u32::MAX,
            first_window: FIRST_WINDOW.into(),
            window: FIRST_WINDOW.into(),
            own_window,
            unconfirmed: 0,
            late_window: 0,
            is_goaway: false,
            end: None,
        };
        let most_head = u32::try_from(MOST_HEAD_BYTES).unwrap_or(u32::MAX);
        let mut settings = Vec::new();
        for (name, value) in [
            (ENABLE_PUSH, 0),
            (INITIAL_WINDOW_SIZE, STREAM_WINDOW),
            (MAX_HEADER_LIST_SIZE, most_head),
        ] {
            settings.extend_from_slice(&name.to_be_bytes());
            settings.extend_from_slice(&value.to_be_bytes());
        }
        connection.put(SETTINGS, 0, 0, &settings);
        let more = own_window - FIRST_WINDOW;
        connection.put(WINDOW_UPDATE, 0, 0, &more.to_be_bytes());
        connection
    }

    /// Queue a frame.
    fn put(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        self.output.extend_from_slice(&length.to_be_bytes()[1..]);
        self.output.extend_from_slice(&[kind, flags]);
        self.output.extend_from_slice(&stream.to_be_bytes());
        self.output.extend_from_slice(payload);
    }

    /// Bytes to write.
    pub(super) fn queued(&self) -> &[u8] {
        &self.output[self.written..]
    }

    /// Note that so many of them were written.
    pub(super) fn wrote(&mut self, bytes: usize) {
        self.written += bytes;
        self.passed[0] += bytes as u64;
        // Half of it or more: a target that reads slowly never leaves more than is queued, and a byte
        // moves once at most for each one that was written.
        if self.written >= self.queued().len() {
            self.output.drain(..self.written);
            self.output.shrink_to(2 * MOST_QUEUED);
            self.written = 0;
        }
    }

    /// Return the side that closes it, if no further request may begin on it.
    pub(super) fn closing(&self) -> Option<ClosedBy> {
        if self.is_goaway {
            Some(ClosedBy::Announced)
        } else if self.end.is_some() {
            Some(ClosedBy::Target)
        } else if i64::from(self.next_id) > LARGEST_WINDOW {
            // There are no numbers left.
            Some(ClosedBy::Client)
        } else {
            None
        }
    }

    fn wake_driver(&mut self) {
        if let Some(driver) = self.driver.take() {
            driver.wake();
        }
    }

    /// Take a request on the stream at a position, which has none. The target may have come to
    /// allow fewer streams than there are: then it waits for one.
    pub(super) fn begin(&mut self, at: usize, output: &mut Output) {
        let stream = &mut self.streams[at];
        (stream.id, stream.begins_at, stream.is_head) = (0, u64::MAX, output.is_head);
        (stream.status, stream.trailers, stream.end) = (None, None, None);
        (stream.content_bytes, stream.unconfirmed) = (0, 0);
        stream.body = std::mem::take(&mut output.body);
        if self.open.len() < self.allowed as usize {
            self.open_stream(at, &mut output.block);
        } else {
            std::mem::swap(&mut stream.block, &mut output.block);
            self.waiting.push_back(at);
        }
    }

    /// Begin requests that wait, as far as the target allows.
    fn open_waiting(&mut self) {
        while self.open.len() < self.allowed as usize
            && let Some(at) = self.waiting.pop_front()
        {
            let mut block = std::mem::take(&mut self.streams[at].block);
            self.open_stream(at, &mut block);
        }
    }

    /// Queue the head of a request.
    fn open_stream(&mut self, at: usize, block: &mut Vec<u8>) {
        let id = self.next_id;
        self.next_id += 2;
        let begins_at = self.passed[0] + self.queued().len() as u64;
        if id == 1 {
            block.insert(0, NO_TABLE);
        }
        let is_whole = self.streams[at].body.is_empty();
        let mut flags = if is_whole { END_STREAM } else { 0 };
        let (mut kind, mut parts) = (HEADERS, block.chunks(FRAME_BYTES).peekable());
        while let Some(part) = parts.next() {
            flags |= if parts.peek().is_none() {
                END_HEADERS
            } else {
                0
            };
            self.put(kind, flags, id, part);
            (kind, flags) = (CONTINUATION, 0);
        }
        let stream = &mut self.streams[at];
        (stream.id, stream.begins_at) = (id, begins_at);
        stream.window = self.first_window;
        self.open.insert(id, at);
        if !is_whole {
            self.sending.push(at);
        }
        self.wake_driver();
    }

    /// Queue as much content of requests as the windows allow.
    pub(super) fn queue_content(&mut self) {
        let mut sending = std::mem::take(&mut self.sending);
        for &at in &sending {
            loop {
                let stream = &mut self.streams[at];
                let window = stream.window.min(self.window).max(0);
                let most = usize::try_from(window)
                    .unwrap_or(usize::MAX)
                    .min(FRAME_BYTES)
                    .min(stream.body.len());
                if most == 0 || self.output.len() - self.written > MOST_QUEUED {
                    break;
                }
                let part = stream.body.split_to(most);
                let used = i64::try_from(most).unwrap_or(i64::MAX);
                stream.window -= used;
                self.window -= used;
                let (id, is_last) = (stream.id, stream.body.is_empty());
                self.put(DATA, if is_last { END_STREAM } else { 0 }, id, &part);
            }
        }
        sending.retain(|at| !self.streams[*at].body.is_empty());
        self.sending = sending;
    }

    /// True if some of the present request of a stream was written.
    pub(super) fn is_sent(&self, at: usize) -> bool {
        self.passed[0] > self.streams[at].begins_at
    }

    /// End the exchange of a stream: what remains of it is not sent, and not read.
    pub(super) fn release(&mut self, at: usize) {
        let (id, stream) = (self.streams[at].id, &mut self.streams[at]);
        let has_rest = !std::mem::take(&mut stream.body).is_empty();
        stream.trailers = None;
        if stream.fields.bytes > KEPT_BYTES {
            stream.fields = Rc::default();
        }
        stream.content.clear();
        stream.content.shrink_to(MOST_QUEUED);
        let is_cut = self.open.remove(&id).is_some();
        if id == 0 {
            self.waiting.retain(|other| *other != at);
        } else if (is_cut || has_rest) && self.end.is_none() {
            self.reset(id, if is_cut { CANCEL } else { NO_ERROR });
            self.open_waiting();
            self.wake_driver();
        }
    }

    /// Let the target send more, once half of what it may send was taken.
    pub(super) fn confirm(&mut self, at: usize) {
        let stream = &mut self.streams[at];
        if stream.unconfirmed >= STREAM_WINDOW / 2 && stream.end.is_none() {
            let (id, more) = (stream.id, std::mem::take(&mut stream.unconfirmed));
            self.put(WINDOW_UPDATE, 0, id, &more.to_be_bytes());
            self.wake_driver();
        }
    }

    /// Take what was read now, and return the length of the frames that were complete.
    pub(super) fn receive(&mut self, bytes: &[u8], now: Nanos) -> Result<usize, Failure> {
        if !self.has_settings && bytes.starts_with(&HTTP_1[..HTTP_1.len().min(bytes.len())]) {
            let details = "the target answered with HTTP/1";
            return Err(Failure::new(ErrorKind::Http2NotOffered, details));
        }
        self.frames(bytes, now).map_err(|Fault { code, rule }| {
            let payload = [[0; 4], code.to_be_bytes()].concat();
            self.put(GOAWAY, 0, 0, &payload);
            Failure::new(ErrorKind::Http2Protocol, rule)
        })
    }

    fn frames(&mut self, bytes: &[u8], now: Nanos) -> Result<usize, Fault> {
        let mut used = 0;
        while let Some((head, rest)) = bytes[used..].split_first_chunk::<FRAME_HEAD_BYTES>() {
            let [a, b, c, kind, flags, stream @ ..] = *head;
            let length = u32::from_be_bytes([0, a, b, c]) as usize;
            if length > FRAME_BYTES {
                return Err(Fault {
                    code: FRAME_SIZE_ERROR,
                    rule: "a frame is longer than 16,384 bytes",
                });
            }
            let Some(payload) = rest.get(..length) else {
                break;
            };
            let stream = u32::from_be_bytes(stream) & (u32::MAX >> 1);
            let frame = Frame {
                kind,
                flags,
                stream,
            };
            self.frame(frame, payload, now)?;
            used += FRAME_HEAD_BYTES + length;
        }
        Ok(used)
    }

    fn frame(&mut self, frame: Frame, payload: &[u8], now: Nanos) -> Result<(), Fault> {
        if !self.has_settings && frame.kind != SETTINGS {
            return Err(fault("the target did not begin with its HTTP/2 settings"));
        }
        if let Some(head) = &self.open_head
            && (frame.kind, frame.stream) != (CONTINUATION, head.frame.stream)
        {
            return Err(fault("another frame interrupts the frames of a head"));
        }
        match frame.kind {
            DATA => self.data(frame, payload, now),
            HEADERS => {
                let mut block = unpadded(frame, payload)?;
                if frame.has(PRIORITY) {
                    block = block.get(5..).ok_or(WRONG_LENGTH)?;
                }
                self.head_part(frame, block, now)
            }
            CONTINUATION => self.head_part(frame, payload, now),
            RST_STREAM => {
                let code = word(payload)?;
                if let Some(at) = self.position(frame.stream)? {
                    self.end_stream(at, Err(failure::of_reset(code)));
                }
                Ok(())
            }
            SETTINGS => self.settings(frame, payload),
            PING if payload.len() != 8 => Err(WRONG_LENGTH),
            PING if !frame.has(ACK) => {
                self.put(PING, ACK, 0, payload);
                Ok(())
            }
            GOAWAY => self.goaway(payload),
            WINDOW_UPDATE => self.window_update(frame.stream, word(payload)?),
            PUSH_PROMISE => Err(fault("the target pushes, which it may not")),
            _ => Ok(()),
        }
    }

    /// Return the position of a stream; none if it is closed.
    fn position(&self, stream: u32) -> Result<Option<usize>, Fault> {
        if stream.is_multiple_of(2) || stream >= self.next_id {
            return Err(fault("a frame belongs to a stream that was not opened"));
        }
        Ok(self.open.get(&stream).copied())
    }

    fn data(&mut self, frame: Frame, payload: &[u8], now: Nanos) -> Result<(), Fault> {
        let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        self.unconfirmed += length;
        if self.unconfirmed >= self.own_window / 2 {
            let more = std::mem::take(&mut self.unconfirmed);
            self.put(WINDOW_UPDATE, 0, 0, &more.to_be_bytes());
        }
        let content = unpadded(frame, payload)?;
        let Some(at) = self.position(frame.stream)? else {
            // What it sent before the reset came to it, and no more.
            self.late_window = self
                .late_window
                .checked_sub(length.into())
                .ok_or(BEYOND_WINDOW)?;
            return Ok(());
        };
        let stream = &mut self.streams[at];
        stream.unconfirmed += length;
        if stream.status.is_none() {
            self.refuse(at, "the response has content before its head");
            return Ok(());
        }
        if stream.unconfirmed > STREAM_WINDOW {
            return Err(BEYOND_WINDOW);
        }
        stream.content.extend_from_slice(content);
        stream.content_bytes += content.len() as u64;
        stream.read_at = now;
        let is_beyond = stream
            .fields
            .declared
            .is_some_and(|declared| stream.content_bytes > declared && !stream.is_head);
        if frame.has(END_STREAM) || is_beyond {
            self.complete(at);
        } else if let Some(waker) = &stream.waker {
            waker.wake_by_ref();
        }
        Ok(())
    }

    fn head_part(&mut self, frame: Frame, part: &[u8], now: Nanos) -> Result<(), Fault> {
        match self.open_head.take() {
            None if frame.kind == CONTINUATION => Err(fault("a head has no beginning")),
            None if frame.has(END_HEADERS) => self.head(frame, part, now),
            None => {
                let block = part.to_vec();
                self.open_head = Some(OpenHead { frame, block });
                Ok(())
            }
            Some(mut head) => {
                head.block.extend_from_slice(part);
                if head.block.len() > MOST_HEAD_BYTES {
                    return Err(fault("the head of a response is too long"));
                }
                if frame.has(END_HEADERS) {
                    return self.head(head.frame, &head.block, now);
                }
                self.open_head = Some(head);
                Ok(())
            }
        }
    }

    /// Decode the block of a head into `fields`, unless it is that of the last one.
    fn decode(&mut self, block: &[u8]) -> Result<(), Undecodable> {
        if !self.block.is_empty() && self.block == block {
            return Ok(());
        }
        let mut next = self.spare.take().unwrap_or_default();
        if Rc::get_mut(&mut next).is_none() {
            next = Rc::default();
        }
        self.block.clear();
        if let Some(fields) = Rc::get_mut(&mut next) {
            fields.number = self.fields.number + 1;
            if self.decoder.decode(block, fields)? && block.len() <= MOST_REPEATED {
                self.block.extend_from_slice(block);
            }
        }
        let last = std::mem::replace(&mut self.fields, next);
        self.spare = (last.bytes <= KEPT_BYTES).then_some(last);
        Ok(())
    }

    fn head(&mut self, frame: Frame, block: &[u8], now: Nanos) -> Result<(), Fault> {
        let at = self.position(frame.stream)?;
        // For the table, also where nobody reads it.
        if self.decode(block).is_err() {
            return Err(Fault {
                code: COMPRESSION_ERROR,
                rule: "the head of a response cannot be decoded",
            });
        }
        let Some(at) = at else {
            return Ok(());
        };
        let (stream, fields) = (&mut self.streams[at], &self.fields);
        let is_last = frame.has(END_STREAM);
        if let Some(flaw) = fields.flaw.clone() {
            self.refuse(at, &flaw);
            return Ok(());
        }
        match (stream.status, fields.status) {
            (None, Some(100..=199)) if !is_last => return Ok(()),
            (None, Some(200..)) => {
                stream.status = fields.status;
                let last = std::mem::replace(&mut stream.fields, Rc::clone(fields));
                if Rc::strong_count(&last) == 1 {
                    self.spare = Some(last);
                }
                (stream.head_at, stream.read_at) = (now, now);
            }
            (Some(_), None) if is_last => {
                stream.trailers = Some(Rc::clone(fields));
                stream.read_at = now;
            }
            _ => {
                self.refuse(at, "the response has a head that is out of place");
                return Ok(());
            }
        }
        if is_last {
            self.complete(at);
        } else if let Some(waker) = &stream.waker {
            waker.wake_by_ref();
        }
        Ok(())
    }

    /// End a response that is whole, or longer than it says.
    fn complete(&mut self, at: usize) {
        let stream = &self.streams[at];
        let has_content = !stream.is_head && !matches!(stream.status, Some(204 | 304));
        match stream.fields.declared {
            Some(declared) if declared != stream.content_bytes && has_content => {
                let details = format!(
                    "at least {} bytes of content, of a content-length of {declared}",
                    stream.content_bytes
                );
                self.refuse(at, &details);
            }
            _ => self.end_stream(at, Ok(())),
        }
    }

    /// Queue the reset of a stream. The target may have used its window before that comes.
    fn reset(&mut self, stream: u32, code: u32) {
        self.put(RST_STREAM, 0, stream, &code.to_be_bytes());
        self.late_window += u64::from(STREAM_WINDOW);
    }

    /// Reset a stream whose response breaks a rule.
    fn refuse(&mut self, at: usize, rule: &str) {
        let id = self.streams[at].id;
        self.reset(id, PROTOCOL_ERROR);
        let failure = Failure::new(ErrorKind::Http2Protocol, rule);
        self.end_stream(at, Err(failure));
    }

    fn end_stream(&mut self, at: usize, end: Result<(), Failure>) {
        let is_sent = self.is_sent(at);
        let stream = &mut self.streams[at];
        if let Err(failure) = &end {
            stream.body.clear();
            if was_not_begun(failure.kind) || !is_sent {
                self.requests.set(self.requests.get().saturating_sub(1));
            }
        }
        stream.end = Some(end);
        self.open.remove(&stream.id);
        if let Some(waker) = &stream.waker {
            waker.wake_by_ref();
        }
        self.open_waiting();
    }

    /// End the requests that wait, and the streams of a higher number than `last`.
    fn end_streams(&mut self, last: u32, failure: &Failure) {
        let ended = self.open.iter().filter(|(id, _)| **id > last);
        let waiting = self.waiting.drain(..);
        let ended: Vec<usize> = ended.map(|(_, at)| *at).chain(waiting).collect();
        for at in ended {
            self.end_stream(at, Err(failure.clone()));
        }
    }

    /// End the connection.
    pub(super) fn fail(&mut self, failure: Failure) {
        self.end_streams(0, &failure);
        self.end = Some(failure);
    }

    fn settings(&mut self, frame: Frame, payload: &[u8]) -> Result<(), Fault> {
        if frame.has(ACK) {
            return Ok(());
        }
        let (settings, rest) = payload.as_chunks::<6>();
        if !rest.is_empty() {
            return Err(WRONG_LENGTH);
        }
        for &[a, b, value @ ..] in settings {
            let value = u32::from_be_bytes(value);
            match u16::from_be_bytes([a, b]) {
                MAX_CONCURRENT_STREAMS => self.allowed = value,
                INITIAL_WINDOW_SIZE => {
                    let more = i64::from(value) - self.first_window;
                    self.first_window = value.into();
                    let mut open = self.open.values();
                    if i64::from(value) > LARGEST_WINDOW
                        || !open.all(|at| widen(&mut self.streams[*at].window, more))
                    {
                        return Err(TOO_WIDE);
                    }
                }
                _ => {}
            }
        }
        self.has_settings = true;
        self.open_waiting();
        self.put(SETTINGS, ACK, 0, &[]);
        Ok(())
    }

    fn goaway(&mut self, payload: &[u8]) -> Result<(), Fault> {
        let (last, rest) = payload.split_at_checked(4).ok_or(WRONG_LENGTH)?;
        let code = word(rest.get(..4).unwrap_or_default())?;
        self.is_goaway = true;
        self.end_streams(word(last)? & (u32::MAX >> 1), &failure::of_goaway(code));
        Ok(())
    }

    fn window_update(&mut self, stream: u32, more: u32) -> Result<(), Fault> {
        let more = i64::from(more & (u32::MAX >> 1));
        let window = if stream == 0 {
            &mut self.window
        } else {
            match self.position(stream)? {
                Some(at) => &mut self.streams[at].window,
                None => return Ok(()),
            }
        };
        if more == 0 || !widen(window, more) {
            return Err(TOO_WIDE);
        }
        Ok(())
    }
}

const BEYOND_WINDOW: Fault = Fault {
    code: FLOW_CONTROL_ERROR,
    rule: "the target sent more than the window allows",
};

const TOO_WIDE: Fault = Fault {
    code: FLOW_CONTROL_ERROR,
    rule: "the target set a window that is not valid",
};

/// Change a window; false if it becomes larger than a window may be.
fn widen(window: &mut i64, more: i64) -> bool {
    *window += more;
    *window <= LARGEST_WINDOW
}

fn word(payload: &[u8]) -> Result<u32, Fault> {
    let word = payload.try_into().map_err(|_| WRONG_LENGTH)?;
    Ok(u32::from_be_bytes(word))
}

/// Return a payload without its padding.
fn unpadded(frame: Frame, payload: &[u8]) -> Result<&[u8], Fault> {
    if !frame.has(PADDED) {
        return Ok(payload);
    }
    let (&padding, rest) = payload.split_first().ok_or(WRONG_LENGTH)?;
    let length = rest
        .len()
        .checked_sub(padding.into())
        .ok_or(fault("a frame has more padding than it is long"))?;
    Ok(&rest[..length])
}
