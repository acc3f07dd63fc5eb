//! The body of an answer: whole at once, piece by piece over a time, filled up to any length, or
//! passed on as it arrives.
//!
//! It must not decide what is in it.

use super::gateway::PassedBody;
use crate::timer::Timer;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::task::yield_now;

/// Body of an answer.
pub(super) enum AnswerBody {
    /// All of it at once; none when there is nothing, or nothing more.
    Whole(Option<Bytes>),
    /// In pieces.
    Dribble(Dribble),
    /// Bytes, and then this many blanks.
    Filled(Bytes, u64),
    /// Each piece of another one as a message of gRPC, and its status behind them; none once that is
    /// sent.
    Call(Option<Box<Self>>),
    /// As another service sends it.
    Passed(Box<PassedBody>),
}

/// Trailer with the outcome of a call of gRPC.
pub(super) const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// The nothing that a body is filled with: blanks, which JSON allows behind a value.
static BLANKS: [u8; 64 << 10] = [b' '; 64 << 10];

/// A body that comes in pieces, each at its instant.
pub(super) struct Dribble {
    timer: Rc<Timer>,
    /// Pieces still to come: when each is due, on the common clock, and its bytes.
    pieces: VecDeque<(u64, Bytes)>,
    /// True if the length of all is sent before them.
    is_announced: bool,
    /// The wait for the first of them, once it has begun.
    waiting: Option<Pin<Box<dyn Future<Output = u64>>>>,
}

impl AnswerBody {
    /// A body that is there.
    pub(super) fn whole(bytes: Bytes) -> Self {
        Self::Whole((!bytes.is_empty()).then_some(bytes))
    }

    /// A body that begins with `bytes`, and is filled up to, or cut to, `length` bytes.
    pub(super) fn filled(mut bytes: Bytes, length: u64) -> Self {
        bytes.truncate(usize::try_from(length).unwrap_or(usize::MAX));
        let blanks = length - bytes.len() as u64;
        Self::Filled(bytes, blanks)
    }

    /// A body in `pieces`, at most one a byte: the first after `first`, each other one an `interval`
    /// after the one before.
    pub(super) fn dribble(
        timer: &Rc<Timer>,
        body: &Bytes,
        pieces: usize,
        first: Duration,
        interval: Duration,
    ) -> Self {
        let mut due = Duration::from_nanos(timer.now_ns()) + first;
        let mut all = VecDeque::with_capacity(pieces);
        for piece in 0..pieces {
            let range = body.len() * piece / pieces..body.len() * (piece + 1) / pieces;
            let due_ns = u64::try_from(due.as_nanos()).unwrap_or(u64::MAX);
            all.push_back((due_ns, body.slice(range)));
            due += interval;
        }
        Self::Dribble(Dribble {
            timer: Rc::clone(timer),
            pieces: all,
            is_announced: true,
            waiting: None,
        })
    }

    /// A body of events, of which each ends with a blank line and comes `gap` after the one before.
    pub(super) fn events(timer: &Rc<Timer>, body: &Bytes, gap: Duration) -> Self {
        let mut due = Duration::from_nanos(timer.now_ns());
        let (mut pieces, mut start) = (VecDeque::new(), 0);
        for end in body
            .windows(2)
            .enumerate()
            .filter_map(|(at, two)| (two == b"\n\n").then_some(at + 2))
        {
            let due_ns = u64::try_from(due.as_nanos()).unwrap_or(u64::MAX);
            pieces.push_back((due_ns, body.slice(start..end)));
            (start, due) = (end, due + gap);
        }
        Self::Dribble(Dribble {
            timer: Rc::clone(timer),
            pieces,
            is_announced: false,
            waiting: None,
        })
    }

    /// A body that is not there yet when its head is: they are written apart.
    pub(super) fn apart(timer: &Rc<Timer>, body: Bytes) -> Self {
        Self::Dribble(Dribble {
            timer: Rc::clone(timer),
            pieces: VecDeque::from([(0, body)]),
            is_announced: true,
            waiting: Some(Box::pin(async {
                yield_now().await;
                0
            })),
        })
    }
}

impl Dribble {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let Some(&(due_ns, _)) = self.pieces.front() else {
            return Poll::Ready(None);
        };
        let waiting = self.waiting.get_or_insert_with(|| {
            let timer = Rc::clone(&self.timer);
            Box::pin(async move { timer.until(due_ns).await })
        });
        if waiting.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.waiting = None;
        Poll::Ready(self.pieces.pop_front().map(|(_, piece)| piece))
    }
}

/// Return what there is first, then blanks, whose memory all bodies have in common.
fn next_filled(bytes: &mut Bytes, blanks: &mut u64) -> Option<Bytes> {
    if !bytes.is_empty() {
        return Some(std::mem::take(bytes));
    }
    let count = usize::try_from(*blanks).map_or(BLANKS.len(), |blanks| blanks.min(BLANKS.len()));
    *blanks -= count as u64;
    (count > 0).then(|| Bytes::from_static(&BLANKS[..count]))
}

/// Return the next frame of a call.
fn poll_call(
    call: &mut Option<Box<AnswerBody>>,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
    let Some(body) = call else {
        return Poll::Ready(None);
    };
    Poll::Ready(Some(Ok(match ready!(Pin::new(body).poll_frame(cx)) {
        Some(Err(error)) => return Poll::Ready(Some(Err(error))),
        Some(Ok(piece)) => Frame::data(message(&piece.into_data().unwrap_or_default())),
        None => {
            *call = None;
            let ok = (GRPC_STATUS, HeaderValue::from_static("0"));
            Frame::trailers(HeaderMap::from_iter([ok]))
        }
    })))
}

/// A message of gRPC that is not compressed.
fn message(piece: &[u8]) -> Bytes {
    let length = u32::try_from(piece.len()).unwrap_or(u32::MAX);
    [&[0], &length.to_be_bytes()[..], piece].concat().into()
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let piece = match self.get_mut() {
            Self::Call(call) => return poll_call(call, cx),
            Self::Whole(bytes) => Poll::Ready(bytes.take()),
            Self::Dribble(dribble) => dribble.poll_piece(cx),
            Self::Filled(bytes, blanks) => Poll::Ready(next_filled(bytes, blanks)),
            Self::Passed(body) => return body.poll_frame(cx),
        };
        piece.map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_none(),
            Self::Dribble(dribble) => dribble.pieces.is_empty(),
            Self::Filled(bytes, blanks) => bytes.is_empty() && *blanks == 0,
            Self::Call(call) => call.is_none(),
            Self::Passed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        let length = match self {
            Self::Whole(bytes) => bytes.as_ref().map_or(0, Bytes::len) as u64,
            Self::Dribble(dribble) if !dribble.is_announced => return SizeHint::default(),
            Self::Call(_) => return SizeHint::default(),
            Self::Dribble(dribble) => dribble
                .pieces
                .iter()
                .map(|(_, piece)| piece.len() as u64)
                .sum(),
            Self::Filled(bytes, blanks) => bytes.len() as u64 + blanks,
            Self::Passed(body) => return body.size_hint(),
        };
        SizeHint::with_exact(length)
    }
}
