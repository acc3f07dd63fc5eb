//! One HTTP/1.1 connection: hyper's two halves of it, polled together by whoever awaits the answer. The hot path.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use crawlmark_harness::clock::{Clock, Nanos};
use crawlmark_harness::sample::ErrorKind;
use crawlmark_harness::workload::{Flight, InFlight};
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::time::Sleep;

use super::CrawlSpec;
use super::answer::Answer;
use super::dial::{Dial, Route, Stream};
use super::expect::Expected;
use super::metered::{Meter, Metered};
use super::reuse::{After, Left};
use super::source_addresses::ConnectionSlot;

/// Rest, in ns, after which a connection is checked before it is used. After less than 100 µs there is rarely anything new to
/// see: the runtime receives events only once a turn. The check costs 4 % of a request's instructions.
const CHECKED_REST_NS: u64 = 100_000;

type Driver<S> = http1::Connection<TokioIo<Metered<S>>, Full<Bytes>>;

/// A connection that is open.
#[derive(Debug)]
pub(super) struct Connection<S: Stream> {
    sender: http1::SendRequest<Full<Bytes>>,
    drive: Drive<S>,
    meter: Rc<Meter>,
    /// Fires at the deadline of some exchange, this one or an earlier one; re-armed only when it does. Timeouts so cost
    /// a timer operation per timeout instead of two per request.
    alarm: Pin<Box<Sleep>>,
    /// The header map of the last answer, whose memory the next request uses.
    headers: HeaderMap,
    left: Left,
    /// End of the last answer; none before it.
    at_rest_since: Option<Nanos>,
    /// Its place among all connections, where that decides which address it goes out from.
    _seat: Option<ConnectionSlot>,
}

/// The half of a connection that reads and writes.
#[derive(Debug)]
enum Drive<S: Stream> {
    /// At work, or at rest.
    On(Pin<Box<Driver<S>>>),
    /// Ended, and how. The driver is dropped then, which gives back a request that it had not taken.
    Ended(Result<(), hyper::Error>),
}

impl<S: Stream> Drive<S> {
    /// Moves the connection on.
    fn poll(&mut self, cx: &mut Context<'_>) {
        if let Self::On(driver) = self
            && let Poll::Ready(result) = driver.as_mut().poll(cx)
        {
            *self = Self::Ended(result);
        }
    }
}

/// The times of an exchange.
#[derive(Debug, Clone, Copy)]
pub(super) struct Watch<'a> {
    pub(super) clock: Clock,
    /// When it began.
    pub(super) sent: Nanos,
    /// When it has to be over.
    pub(super) deadline: Nanos,
    /// Progress, for when it is cut off.
    pub(super) flight: &'a Flight,
}

/// Reason why there is no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// The connection was closed before any of the request was written.
    NotSent,
    /// The request went out, and no whole answer came back.
    Broken(Broken),
}

/// An answer that broke off.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) kind: ErrorKind,
    /// The status, when the answer had begun.
    pub(super) status: Option<u16>,
}

impl<S: Stream> Connection<S> {
    /// Opens a connection.
    pub(super) async fn open<D>(dial: &D, route: Route, spec: &CrawlSpec, clock: Clock) -> Result<Self, ErrorKind>
    where
        D: Dial<Stream = S>,
    {
        let timeout = spec.connect_timeout;
        let connected = tokio::time::timeout(timeout, dial.dial(route)).await;
        let stream = connected.map_err(|_| ErrorKind::ConnectTimeout)?.map_err(|error| connect_error(&error))?;
        let (stream, meter) = Metered::new(stream, clock);
        // One flat buffer per request: a vectored write costs more than copying a hundred bytes.
        let shaken = http1::Builder::new().writev(false).handshake(TokioIo::new(stream)).await;
        let (sender, driver) = shaken.map_err(|_| ErrorKind::ConnectFailed)?;
        Ok(Self {
            sender,
            drive: Drive::On(Box::pin(driver)),
            meter,
            alarm: Box::pin(tokio::time::sleep(timeout)),
            headers: HeaderMap::new(),
            left: spec.reuse.begin(),
            at_rest_since: None,
            _seat: None,
        })
    }

    /// Attach a connection slot, which is taken for as long as the connection is open.
    pub(super) fn seated(self, seat: Option<ConnectionSlot>) -> Self {
        Self { _seat: seat, ..self }
    }

    /// An empty header map, with memory where an earlier answer left some.
    pub(super) fn spare_headers(&mut self) -> HeaderMap {
        let mut headers = std::mem::take(&mut self.headers);
        headers.clear();
        headers
    }

    /// The headers of the last answer, until the next request takes their place.
    pub(super) const fn last_headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Bytes and times since the last exchange began.
    pub(super) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Counts a request that is to be sent on it, and says what becomes of it after that.
    pub(super) const fn count_request(&mut self) -> After {
        self.left.take()
    }

    /// True unless the target is known to have closed it while it was at rest. A rest of under [`CHECKED_REST_NS`] is not
    /// checked: a close in it shows when the request is sent, as [`Failure::NotSent`].
    pub(super) async fn is_open(&mut self, clock: Clock) -> bool {
        if self.at_rest_since.is_some_and(|since| clock.now().since(since) < CHECKED_REST_NS) {
            return self.is_reusable();
        }
        poll_fn(|cx| {
            self.meter.begin_turn();
            self.drive.poll(cx);
            Poll::Ready(self.is_reusable())
        })
        .await
    }

    /// True if another request may be sent on it.
    pub(super) fn is_reusable(&self) -> bool {
        !self.left.is_none() && matches!(self.drive, Drive::On(_)) && !self.sender.is_closed()
    }

    /// Sends `request` and reads the whole answer, for as long as `watch` allows.
    pub(super) async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
        expected: Expected<'_>,
        watch: Watch<'_>,
    ) -> Result<Answer, Failure> {
        let broken = |kind| Failure::Broken(Broken { kind, status: None });
        self.meter.begin();
        self.settle().await?;
        self.arm(watch);
        let response = {
            let Self { sender, drive, meter, alarm, .. } = self;
            let mut response = pin!(sender.try_send_request(request));
            let mut alarm = Alarm { timer: alarm, meter, watch };
            poll_fn(|cx| {
                meter.begin_turn();
                drive.poll(cx);
                match response.as_mut().poll(&mut quiet()) {
                    Poll::Ready(Ok(response)) => Poll::Ready(Ok(response)),
                    // hyper gives the request back when none of it was written.
                    Poll::Ready(Err(mut error)) => Poll::Ready(Err(match error.take_message() {
                        Some(_) => Failure::NotSent,
                        None => broken(kind_of(drive, &error.into_error())),
                    })),
                    Poll::Pending => alarm.poll(cx).map(|()| Err(broken(ErrorKind::Timeout))),
                }
            })
            .await?
        };
        self.meter.end_head();
        self.read(response, expected, watch).await
    }

    /// Makes sure that the alarm fires by `deadline`. It is already set for an earlier exchange's, save on a connection
    /// that is new or was lent to a slower exchange.
    fn arm(&mut self, Watch { clock, deadline, .. }: Watch<'_>) {
        let deadline = clock.instant(deadline);
        if self.alarm.deadline() > deadline {
            self.alarm.as_mut().reset(deadline);
        }
    }

    /// Lets hyper notice what has happened to a connection at rest. One that is not at rest, because its last request was
    /// answered before all of it was read, is as good as closed: waiting for that has no bound.
    async fn settle(&mut self) -> Result<(), Failure> {
        if self.sender.is_ready() {
            return Ok(());
        }
        let Self { sender, drive, meter, .. } = self;
        let is_ready = poll_fn(|cx| {
            meter.begin_turn();
            drive.poll(cx);
            Poll::Ready(matches!(sender.poll_ready(cx), Poll::Ready(Ok(()))))
        });
        if is_ready.await { Ok(()) } else { Err(Failure::NotSent) }
    }

    async fn read(
        &mut self,
        response: Response<Incoming>,
        mut expected: Expected<'_>,
        watch: Watch<'_>,
    ) -> Result<Answer, Failure> {
        let (head, body) = response.into_parts();
        let (mut body, mut content) = (pin!(body), 0);
        let Self { drive, meter, alarm, .. } = self;
        let mut alarm = Alarm { timer: alarm, meter, watch };
        let status = Some(head.status.as_u16());
        let broken = |kind| Failure::Broken(Broken { kind, status });
        poll_fn(|cx| {
            meter.begin_turn();
            loop {
                // A small body came with the head and is there already: ask for it before driving the connection again.
                let mut frame = body.as_mut().poll_frame(&mut quiet());
                if frame.is_pending() {
                    drive.poll(cx);
                    frame = body.as_mut().poll_frame(&mut quiet());
                }
                match frame {
                    Poll::Ready(None) => return Poll::Ready(Ok(())),
                    Poll::Ready(Some(Ok(frame))) => {
                        if let Some(data) = frame.data_ref() {
                            content += data.len() as u64;
                            expected.take(data);
                        }
                        if meter.ends_turn(cx) {
                            return alarm.poll(cx).map(|()| Err(broken(ErrorKind::Timeout)));
                        }
                    }
                    Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(broken(body_kind(drive, &error)))),
                    Poll::Pending if meter.is_padded(content) => {
                        return Poll::Ready(Err(broken(ErrorKind::Malformed)));
                    }
                    Poll::Pending => return alarm.poll(cx).map(|()| Err(broken(ErrorKind::Timeout))),
                }
            }
        })
        .await?;
        let answer = Answer::new(&head, expected.verdict(&head));
        self.headers = head.headers;
        let done = watch.clock.now();
        self.at_rest_since = Some(done);
        Ok(answer.done_at(done))
    }
}

/// For what only [`Drive::poll`] moves on: it is polled right after, and needs to wake nobody.
fn quiet() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// The timer of a connection, as one exchange uses it.
struct Alarm<'a> {
    timer: &'a mut Pin<Box<Sleep>>,
    meter: &'a Meter,
    watch: Watch<'a>,
}

impl Alarm<'_> {
    /// Ready once the deadline has passed; otherwise the task is woken then at the latest. Call before the task waits.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Watch { clock, sent, deadline, flight } = self.watch;
        if self.meter.sent() > 0 {
            flight.note(InFlight {
                sent,
                first_byte: self.meter.first_byte(),
                bytes_sent: self.meter.sent(),
                bytes_received: self.meter.received(),
            });
        }
        // Where there is always more to read, the runtime looks at its timers late.
        if self.meter.is_spent() && clock.now() >= deadline {
            return Poll::Ready(());
        }
        while self.timer.as_mut().poll(cx).is_ready() {
            if clock.now() >= deadline {
                return Poll::Ready(());
            }
            self.timer.as_mut().reset(clock.instant(deadline));
        }
        Poll::Pending
    }
}

fn connect_error(error: &io::Error) -> ErrorKind {
    // Linux's numbers for "too many open files", here and in the system; the standard library has no names for them.
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    match error.kind() {
        io::ErrorKind::ConnectionRefused => ErrorKind::ConnectRefused,
        io::ErrorKind::TimedOut => ErrorKind::ConnectTimeout,
        io::ErrorKind::AddrNotAvailable | io::ErrorKind::AddrInUse => ErrorKind::AddressUnavailable,
        _ if matches!(error.raw_os_error(), Some(ENFILE | EMFILE)) => ErrorKind::TooManyFiles,
        _ => ErrorKind::ConnectFailed,
    }
}

/// Reason why no answer began: as the connection says, or, when that has told the request alone, as the request does.
fn kind_of<S: Stream>(drive: &Drive<S>, error: &hyper::Error) -> ErrorKind {
    match drive {
        Drive::Ended(Err(cause)) => classify(cause),
        Drive::Ended(Ok(())) | Drive::On(_) => classify(error),
    }
}

/// Reason why an answer that had begun did not end.
fn body_kind<S: Stream>(drive: &Drive<S>, error: &hyper::Error) -> ErrorKind {
    match kind_of(drive, error) {
        ErrorKind::Closed => ErrorKind::Incomplete,
        kind => kind,
    }
}

fn classify(error: &hyper::Error) -> ErrorKind {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>());
    match source.map(io::Error::kind) {
        Some(io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionAborted) => {
            ErrorKind::Reset
        }
        Some(io::ErrorKind::UnexpectedEof) => ErrorKind::Closed,
        Some(io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput) => ErrorKind::Malformed,
        Some(_) => ErrorKind::Io,
        None if error.is_parse() => ErrorKind::Malformed,
        None if error.is_incomplete_message() || error.is_closed() || error.is_canceled() => ErrorKind::Closed,
        None => ErrorKind::Malformed,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::net::SocketAddr;
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::runtime::{Builder, LocalOptions};
    use tokio::task::spawn_local;

    use super::super::expect::Checker;
    use super::super::{Expectations, Held, RequestShape, Reuse, Targets, Template};
    use super::*;

    /// A target that answers one request, and leaves its end of the connection here.
    #[derive(Debug, Default)]
    struct Closing(Rc<RefCell<Option<DuplexStream>>>);

    impl Dial for Closing {
        type Stream = DuplexStream;

        async fn dial(&self, _: Route) -> io::Result<DuplexStream> {
            let (near, mut far) = duplex(4_096);
            let left = Rc::clone(&self.0);
            spawn_local(async move {
                // The request comes in one piece.
                assert!(far.read(&mut [0; 4_096]).await.unwrap() > 0);
                far.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
                left.replace(Some(far));
            });
            Ok(near)
        }
    }

    fn spec() -> CrawlSpec {
        let template: Template = "http://192.0.2.1/{id}".parse().unwrap();
        CrawlSpec {
            addresses: Vec::new(),
            targets: Arc::new(Targets::one(&template).unwrap()),
            request: RequestShape::new("GET", &[], Bytes::new()).unwrap(),
            expect: Expectations::default(),
            timeout: Duration::from_secs(1),
            connect_timeout: Duration::from_secs(1),
            reuse: Reuse::default(),
            local_ips: None,
            held: Held::Unasked,
        }
    }

    #[test]
    fn a_connection_is_checked_after_a_rest_of_100_us_and_not_before() {
        let mut builder = Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build_local(LocalOptions::default()).unwrap();
        runtime.block_on(async {
            let (clock, spec, flight) = (Clock::start(), spec(), Flight::default());
            let target = Closing::default();
            let route = Route { to: SocketAddr::from(([192, 0, 2, 1], 80)), from: None };
            let mut connection = Connection::open(&target, route, &spec, clock).await.unwrap();
            let now = clock.now();
            let watch = Watch { clock, sent: now, deadline: now.plus(spec.timeout), flight: &flight };
            let checker = Checker::new(spec.expect.clone());
            let request = Request::get("/1").header("host", "192.0.2.1").body(Full::default()).unwrap();
            connection.exchange(request, checker.for_item(1), watch).await.unwrap();
            drop(target.0.take().unwrap());
            tokio::time::advance(Duration::from_nanos(CHECKED_REST_NS - 1)).await;
            assert!(connection.is_open(clock).await, "a short rest is not checked");
            tokio::time::advance(Duration::from_nanos(1)).await;
            assert!(!connection.is_open(clock).await, "a long one is");
        });
    }
}
