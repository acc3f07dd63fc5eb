//! The body of an answer: whole at once, or piece by piece over a time.
//!
//! It must not decide what is in it.

use crate::timer::Timer;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// What follows the headers.
pub(super) enum AnswerBody {
    /// All of it at once; none when there is nothing, or nothing more.
    Whole(Option<Bytes>),
    /// In pieces.
    Dribble(Dribble),
}

/// A body that comes in pieces, each at its instant.
pub(super) struct Dribble {
    timer: Rc<Timer>,
    /// What is still to come: when it is due, on the common clock, and what it is.
    pieces: VecDeque<(u64, Bytes)>,
    /// The wait for the first of them, once it has begun.
    waiting: Option<Pin<Box<dyn Future<Output = u64>>>>,
}

impl AnswerBody {
    /// A body that is there.
    pub(super) fn whole(bytes: Bytes) -> Self {
        Self::Whole((!bytes.is_empty()).then_some(bytes))
    }

    /// A body of `pieces`, each with the nanosecond of the common clock at which it is due, in order.
    pub(super) fn dribble(timer: &Rc<Timer>, pieces: VecDeque<(u64, Bytes)>) -> Self {
        Self::Dribble(Dribble { timer: Rc::clone(timer), pieces, waiting: None })
    }
}

impl Dribble {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let Some(&(due_ns, _)) = self.pieces.front() else { return Poll::Ready(None) };
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

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take()),
            Self::Dribble(dribble) => dribble.poll_piece(cx),
        };
        piece.map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_none(),
            Self::Dribble(dribble) => dribble.pieces.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        let length = match self {
            Self::Whole(bytes) => bytes.as_ref().map_or(0, Bytes::len),
            Self::Dribble(dribble) => dribble.pieces.iter().map(|(_, piece)| piece.len()).sum(),
        };
        SizeHint::with_exact(length as u64)
    }
}
