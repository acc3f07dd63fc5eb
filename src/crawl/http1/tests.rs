//! Exchanges over connections in memory, in virtual time, with targets that do as the test says.

use std::rc::Rc;
use std::time::Duration;

use crawlmark_harness::clock::Clock;
use crawlmark_harness::fixtures::virtual_time;
use crawlmark_harness::workload::Flight;
use tokio::io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex,
};
use tokio::task::spawn_local;

use super::*;
use crate::crawl::connect::pool::Reuse;
use crate::crawl::response::expect::{Checker, Expectations};
use crate::crawl::response::head::HeadUse;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// Head of every request of these tests.
const REQUEST: &[u8] = b"GET /1 HTTP/1.1\r\n\r\n";

/// A connection, and the target's end of it.
struct Pair<S: Stream = DuplexStream> {
    connection: Connection<S>,
    far: DuplexStream,
    clock: Clock,
    flight: Flight,
}

impl<S: Stream> Pair<S> {
    fn over(near: S, far: DuplexStream) -> Self {
        let lease = Lease::default();
        let connection = Connection::new(near, Reuse::default().begin(), None, lease, None);
        Self {
            connection,
            far,
            clock: Clock::start(),
            flight: Flight::default(),
        }
    }

    /// Send a request with `body`, within a second.
    async fn exchange(&mut self, body: &[u8]) -> Result<Attempt, ExchangeFailure> {
        let checker = Rc::new(Checker::new(Expectations::default(), HeadUse::default()));
        let sent = self.clock.now();
        let deadline = sent.plus(Duration::from_secs(1));
        let watch = Watch {
            clock: self.clock,
            sent,
            deadline,
            flight: &self.flight,
            is_stamped: true,
        };
        self.connection.output = REQUEST.to_vec();
        let mut attempt = Attempt::unsent(ErrorKind::Io, sent);
        self.connection
            .exchange(
                body,
                None,
                &mut Expected::new(&checker),
                &watch,
                &mut attempt,
            )
            .await
            .map(|()| attempt)
    }

    /// True if the connection may carry another request.
    fn is_open(&mut self) -> bool {
        self.connection.is_reusable() && self.connection.unusable(&self.flight).is_none()
    }
}

impl Pair {
    fn open(stream_bytes: usize) -> Self {
        let (near, far) = duplex(stream_bytes);
        Self::over(near, far)
    }

    /// Send a request that is answered with `answer` at once.
    async fn exchange_for(&mut self, answer: &'static [u8]) -> Result<Attempt, ExchangeFailure> {
        let (_, mut other) = duplex(1);
        std::mem::swap(&mut self.far, &mut other);
        let far = spawn_local(async move {
            assert!(other.read(&mut [0; 4_096]).await.unwrap() > 0);
            other.write_all(answer).await.unwrap();
            other
        });
        let answer = self.exchange(b"").await;
        self.far = far.await.unwrap();
        answer
    }
}

/// A stream in memory whose target answers once it has received `after` bytes of the request, and
/// accepts no more before that: `first` bytes of the answer, and the rest when it is read again.
#[derive(Debug)]
struct Split {
    after: usize,
    request: usize,
    received: usize,
    answer: &'static [u8],
    first: usize,
    sent: usize,
}

impl Stream for Split {}

impl AsyncRead for Split {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.received < self.after || self.sent == self.answer.len() {
            return Poll::Pending;
        }
        let end = if self.sent < self.first {
            self.first
        } else {
            self.answer.len()
        };
        buffer.put_slice(&self.answer[self.sent..end]);
        self.sent = end;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Split {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let room = (self.after - self.received).min(bytes.len());
        self.received += room;
        if room == 0 {
            Poll::Pending
        } else {
            Poll::Ready(Ok(room))
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.received == self.request {
            Poll::Ready(Ok(()))
        } else {
            Poll::Pending
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Run `test` in virtual time.
fn run(test: impl Future<Output = ()>) {
    virtual_time().block_on(test);
}

fn broken(kind: ErrorKind, status: Option<u16>) -> ExchangeFailure {
    let progress = Progress::Sent(status);
    ExchangeFailure { kind, progress }
}

#[test]
fn a_connection_that_ended_or_spoke_at_rest_is_not_used_again() {
    run(async {
        for unasked in [&b"HTTP/1.1 500 \r\n\r\n"[..], b""] {
            let mut pair = Pair::open(4_096);
            for _ in 0..3 {
                pair.exchange_for(OK).await.unwrap();
                assert!(pair.is_open());
            }
            if unasked.is_empty() {
                pair.far.shutdown().await.unwrap();
            } else {
                pair.far.write_all(unasked).await.unwrap();
            }
            let spoke = u64::from(!unasked.is_empty());
            let why = if unasked.is_empty() {
                ErrorKind::Closed
            } else {
                ErrorKind::Malformed
            };
            pair.connection.recheck();
            assert_eq!(pair.exchange(b"").await.unwrap_err(), not_sent(why));
            assert_eq!(
                (
                    pair.flight.take_asides().unsolicited,
                    pair.connection.traffic.sent,
                    pair.is_open()
                ),
                (spoke, 0, false)
            );
        }
    });
}

#[test]
fn an_answer_counts_from_the_first_byte_of_its_request_on_however_both_are_split() {
    const BODY: &[u8] = b"a body";
    run(async {
        let request = REQUEST.len() + BODY.len();
        for (after, first) in
            (0..=request).flat_map(|after| (1..=OK.len()).map(move |first| (after, first)))
        {
            let near = Split {
                after,
                request,
                received: 0,
                answer: OK,
                first,
                sent: 0,
            };
            let mut pair = Pair::over(near, duplex(1).1);
            let answer = pair.exchange(BODY).await.map(|attempt| attempt.status);
            let expected = if after == 0 {
                Err(not_sent(ErrorKind::Malformed))
            } else {
                Ok(Some(200))
            };
            assert_eq!(
                answer,
                expected,
                "{after} of {request} bytes, {first} of {}",
                OK.len()
            );
            assert_eq!(pair.flight.take_asides().unsolicited, u64::from(after == 0));
            assert_eq!(
                (pair.connection.traffic.sent, pair.is_open()),
                (after as u64, after == request)
            );
        }
    });
}

#[test]
fn an_answer_too_many_ends_its_connection_and_is_counted_once_however_it_is_split() {
    run(async {
        for at in 0..=OK.len() {
            let mut pair = Pair::open(4_096);
            let both = [OK, &OK[..at]].concat();
            pair.exchange_for(Box::leak(both.into_boxed_slice()))
                .await
                .unwrap();
            pair.far.write_all(&OK[at..]).await.unwrap();
            assert!(!pair.is_open(), "{at}");
            assert_eq!(pair.flight.take_asides().unsolicited, 1, "{at}");
        }
    });
}

#[test]
fn a_long_body_meets_an_early_answer_without_waiting_for_each_other() {
    run(async {
        // Neither side can write all it has before the other one reads.
        let mut pair = Pair::open(64);
        let (_, mut far) = duplex(1);
        std::mem::swap(&mut pair.far, &mut far);
        let answer = [
            &b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n"[..],
            &[b'x'; 5_000],
        ]
        .concat();
        let server = spawn_local(async move {
            far.read_exact(&mut [0; 10]).await.unwrap();
            far.write_all(&answer).await.unwrap();
            let mut rest = Vec::new();
            far.read_to_end(&mut rest).await.unwrap();
            rest.len()
        });
        pair.exchange(&vec![b'y'; 50_000]).await.unwrap();
        assert!(!pair.is_open(), "the rest of the request was not sent");
        let sent = usize::try_from(pair.connection.traffic.sent).unwrap();
        assert!(sent < 50_000, "{sent}");
        drop(pair);
        assert_eq!(server.await.unwrap() + 10, sent);
    });
}

#[test]
fn a_request_that_cannot_be_written_whole_may_have_an_answer_all_the_same() {
    run(async {
        for (answer, expected) in [
            (
                &b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n"[..],
                None,
            ),
            (
                b"HTTP/1.1 413 Too Large\r\ncontent-length: 9\r\n\r\n",
                Some(broken(ErrorKind::Incomplete, Some(413))),
            ),
            (b"HTTP/1.1 413 Too", Some(broken(ErrorKind::Reset, None))),
        ] {
            let mut pair = Pair::open(64);
            let (_, mut far) = duplex(1);
            std::mem::swap(&mut pair.far, &mut far);
            let server = spawn_local(async move {
                far.read_exact(&mut [0; 10]).await.unwrap();
                far.write_all(answer).await.unwrap();
            });
            let failure = pair.exchange(&vec![b'y'; 50_000]).await.err();
            assert_eq!(failure, expected, "{}", String::from_utf8_lossy(answer));
            assert!(!pair.is_open());
            server.await.unwrap();
        }
    });
}

#[test]
fn an_answer_that_never_ends_is_a_timeout_however_much_of_it_there_is() {
    run(async {
        for part in [&b""[..], &[b'x'; 8_192]] {
            let mut pair = Pair::open(8_192);
            let (_, mut far) = duplex(1);
            std::mem::swap(&mut pair.far, &mut far);
            spawn_local(async move {
                assert!(far.read(&mut [0; 4_096]).await.unwrap() > 0);
                far.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                // Time passes only while every task waits.
                while far.write_all(part).await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            });
            let began = pair.clock.now();
            assert_eq!(
                pair.exchange(b"").await.unwrap_err(),
                broken(ErrorKind::Timeout, Some(200))
            );
            assert!(
                pair.flight
                    .take_explanation()
                    .unwrap()
                    .1
                    .ends_with("bytes of an undeclared length")
            );
            let took = Duration::from_nanos(pair.clock.now().since(began));
            assert!(
                took >= Duration::from_secs(1) && took < Duration::from_millis(1_020),
                "{took:?}"
            );
        }
    });
}

#[test]
fn each_exchange_of_a_connection_has_its_own_deadline() {
    run(async {
        // The alarm was set for the first one, to a second after it.
        for rests in [[0, 0], [900, 0], [600, 600], [999, 1], [1_500, 0]] {
            let mut pair = Pair::open(4_096);
            for rest in rests {
                pair.exchange_for(OK).await.unwrap();
                tokio::time::sleep(Duration::from_millis(rest)).await;
            }
            let began = pair.clock.now();
            let ended = tokio::time::timeout(Duration::from_secs(5), pair.exchange(b""))
                .await
                .expect("it has a deadline");
            assert_eq!(ended.unwrap_err(), broken(ErrorKind::Timeout, None));
            let took = Duration::from_nanos(pair.clock.now().since(began));
            assert!(
                took >= Duration::from_secs(1) && took < Duration::from_millis(1_003),
                "{took:?} after {rests:?}"
            );
        }
    });
}
