//! Exchanges over connections in memory, in virtual time, with targets that do as the test says.

use std::rc::Rc;
use std::time::Duration;

use crawlmark_harness::clock::Clock;
use crawlmark_harness::fixtures::virtual_time;
use crawlmark_harness::workload::Flight;
use proptest::prelude::*;
use tokio::io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex,
};
use tokio::task::spawn_local;

use super::*;
use crate::crawl::connect::pool::Reuse;
use crate::crawl::response::expect::{Checker, Expectations};
use crate::crawl::response::head::HeadUse;
use crate::crawl::response::header_values::HeaderValues;

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
        let terms = Terms {
            left: Reuse::default().begin(),
            lease: Lease::default(),
            hop: None,
            jar: None,
            tcp: TcpReadings::default(),
        };
        let connection = Connection::new(near, terms);
        Self {
            connection,
            far,
            clock: Clock::start(),
            flight: Flight::default(),
        }
    }

    /// Send a request with `body`, within a second.
    async fn exchange(&mut self, body: &[u8]) -> Result<Attempt, ExchangeFailure> {
        let checker = Rc::new(Checker::new(
            Expectations::default(),
            HeadUse::default(),
            HeaderValues::default(),
        ));
        let sent = self.clock.now();
        let deadline = sent.plus(Duration::from_secs(1));
        let watch = Watch {
            clock: self.clock,
            sent,
            deadline,
            flight: &self.flight,
            is_stamped: true,
        };
        self.connection.output.bytes = REQUEST.to_vec();
        let mut attempt = Attempt::unsent(ErrorKind::Io, sent);
        let (written, mut expected) = (Written { body, jar: None }, Expected::new(&checker));
        self.connection
            .exchange(&written, &mut expected, &watch, &mut attempt)
            .await
            .map(|()| attempt)
    }

    /// True if the connection may carry another request.
    fn is_open(&mut self) -> bool {
        self.connection.is_reusable(&self.flight)
            && self.connection.unusable(&self.flight).is_none()
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

/// A stream in memory that discards what it is asked to, and counts that.
#[derive(Debug)]
struct Discarding {
    stream: DuplexStream,
    discarded: usize,
}

impl Stream for Discarding {
    fn poll_discard(
        &mut self,
        cx: &mut Context<'_>,
        most: u64,
        _: bool,
    ) -> Option<Poll<io::Result<Arrived>>> {
        let mut nowhere = vec![0; usize::try_from(most.min(1 << 15)).unwrap()];
        let mut part = ReadBuf::new(&mut nowhere);
        let polled = Pin::new(&mut self.stream).poll_read(cx, &mut part);
        self.discarded += part.filled().len();
        Some(polled.map_ok(|()| (part.filled().len(), None)))
    }
}

impl AsyncRead for Discarding {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        part: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, part)
    }
}

impl AsyncWrite for Discarding {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
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

/// A response with a body of `length` bytes, framed in the `way` of this number.
fn framed(way: u8, status: u16, length: usize) -> Vec<u8> {
    let body = vec![b'x'; length];
    let head = |field: &str| format!("HTTP/1.1 {status} Any\r\n{field}\r\n").into_bytes();
    match way {
        0 => [head(&format!("content-length: {length}\r\n")), body].concat(),
        1 => [head(""), body].concat(),
        _ => {
            let mut all = head("transfer-encoding: chunked\r\n");
            for chunk in body.chunks(30_000) {
                all.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
                all.extend([chunk, b"\r\n"].concat());
            }
            [all, b"0\r\n\r\n".to_vec()].concat()
        }
    }
}

/// Send a request that is answered with these parts, after which the target closes the connection
/// if it `closes`. Return all that is known of it afterwards.
async fn answered<S: Stream>(
    pair: &mut Pair<S>,
    parts: Vec<Vec<u8>>,
    closes: bool,
) -> (Result<Attempt, ExchangeFailure>, u64, String, (bool, u64)) {
    let (_, mut far) = duplex(1);
    std::mem::swap(&mut pair.far, &mut far);
    let target = spawn_local(async move {
        assert!(far.read(&mut [0; 4_096]).await.unwrap() > 0);
        for part in parts {
            far.write_all(&part).await.unwrap();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        if closes {
            far.shutdown().await.unwrap();
        }
        far
    });
    let answer = pair.exchange(b"").await;
    let received = pair.connection.traffic.received;
    pair.far = target.await.unwrap();
    let is_open = pair.is_open();
    let unsolicited = pair.flight.take_asides().unsolicited;
    let explained = format!("{:?}", pair.flight.take_explanation());
    (answer, received, explained, (is_open, unsolicited))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn a_body_that_is_discarded_counts_as_one_that_is_read(
        way in 0..3_u8, status in prop::sample::select(vec![200_u16, 200, 404]), length in 0..200_000_usize,
        cut in prop::option::of(0..200_000_usize), surplus in prop::sample::select(vec![0_usize, 0, 1, 9]),
        first in 1..20_000_usize, step in 1_000..90_000_usize, closes: bool, skims: bool,
    ) {
        let mut answer = framed(way, status, length);
        let is_cut = cut.is_some_and(|cut| cut < answer.len());
        answer.truncate(cut.unwrap_or(usize::MAX));
        // Nothing is too much of a body that ends with its connection.
        let surplus = if is_cut || way == 1 { 0 } else { surplus };
        answer.extend(vec![b'y'; surplus]);
        let (head, rest) = answer.split_at(first.min(answer.len()));
        let parts: Vec<Vec<u8>> = std::iter::once(head).chain(rest.chunks(step)).map(<[u8]>::to_vec).collect();
        let closes = closes || is_cut || way == 1;
        run(async {
            let (near, far) = duplex(1 << 16);
            let mut pair = Pair::over(near, far);
            let read = answered(&mut pair, parts.clone(), closes).await;
            let (stream, far) = duplex(1 << 16);
            let mut pair = Pair::over(Discarding { stream, discarded: 0 }, far);
            pair.connection.skims = skims;
            let discarded = answered(&mut pair, parts, closes).await;
            let received = if surplus > 0 { [0; 2] } else { [read.1, discarded.1] };
            let has_discarded = pair.connection.stream.discarded > 0;
            assert!(discarded.0.is_err() || pair.connection.skims == has_discarded);
            assert_eq!(received[0], received[1]);
            assert_eq!((read.0, read.2, read.3), (discarded.0, discarded.2, discarded.3));
            let is_long = rest.len() > 60_000 && status == 200;
            assert!(!is_long || pair.connection.stream.discarded > 0);
            assert!(status == 200 || pair.connection.stream.discarded == 0);
        });
    }
}
