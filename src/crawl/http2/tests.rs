//! The crate `h2` as the other side, and any bytes.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use crawlmark_harness::clock::{Clock, Nanos};
use crawlmark_harness::sample::ErrorKind;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use proptest::prelude::*;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::task::{LocalSet, spawn_local, yield_now};

use super::connection::{Connection, MOST_QUEUED};
use super::hpack::{write_field, write_integer};
use super::request::Output;
use super::{Driver, Input, TURN_BYTES, laws};
use crate::crawl::connect::{failure::Failure, stream::Stream};

/// Names that are in the static table, and others.
const NAMES: [&str; 8] = [
    "content-type",
    "etag",
    "server",
    "x-a",
    "set-cookie",
    "a-name-that-is-longer-than-most-others",
    "www-authenticate",
    "date",
];

/// A request with the response that it gets.
#[derive(Debug, Clone)]
struct Exchanged {
    status: u16,
    fields: Vec<(usize, Vec<u8>)>,
    content: Vec<Vec<u8>>,
    has_trailers: bool,
    body: Vec<u8>,
    asked: Vec<(usize, Vec<u8>)>,
    path: String,
}

fn fields() -> impl Strategy<Value = Vec<(usize, Vec<u8>)>> {
    let value = prop_oneof![
        "[ -~]{0,40}".prop_map(String::into_bytes),
        "[a-z0-9]{1,3}".prop_map(String::into_bytes),
        prop::collection::vec(128..=255_u8, 0..30),
        prop::collection::vec(b'a'..=b'z', 900..1_500),
    ];
    // As they are sent: without white space around them.
    let value = value.prop_map(|value| value.trim_ascii().to_vec());
    prop::collection::vec((0..NAMES.len(), value), 0..12)
}

fn exchanged() -> impl Strategy<Value = Exchanged> {
    let content = prop::collection::vec(
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            (0..300_000_usize).prop_map(|length| vec![7; length]),
        ],
        0..3,
    );
    let body = prop_oneof![Just(0), 1..300_usize, 60_000..200_000_usize];
    let text = (200..600_u16, fields(), content, any::<bool>());
    (text, body, fields(), "/[a-z0-9/]{0,200}").prop_map(
        |((status, fields, content, has_trailers), body, asked, path)| Exchanged {
            status,
            fields,
            content,
            has_trailers,
            body: vec![9; body],
            asked,
            path,
        },
    )
}

fn map(fields: &[(usize, Vec<u8>)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in fields {
        let name = HeaderName::from_static(NAMES[*name]);
        map.append(name, HeaderValue::from_bytes(value).unwrap());
    }
    map
}

/// Serve what is expected for each path, and check what is asked.
async fn serve(stream: DuplexStream, all: HashMap<String, Exchanged>, window: u32) {
    let mut server = h2::server::Builder::new();
    server.initial_window_size(window);
    let mut connection = server.handshake(stream).await.unwrap();
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let exchanged = all[request.uri().path()].clone();
        spawn_local(async move {
            check_request(request, &exchanged).await;
            let mut response = Response::new(());
            *response.status_mut() = exchanged.status.try_into().unwrap();
            *response.headers_mut() = map(&exchanged.fields);
            let mut sending = respond.send_response(response, false).unwrap();
            for part in exchanged.content {
                sending.send_data(part.into(), false).unwrap();
            }
            if exchanged.has_trailers {
                sending.send_trailers(map(&exchanged.fields)).unwrap();
            } else {
                sending.send_data(Bytes::new(), true).unwrap();
            }
            // Dropped, it would cut off what is not sent.
            poll_fn(|cx| sending.poll_reset(cx)).await.ok();
        });
    }
}

async fn check_request(request: Request<h2::RecvStream>, exchanged: &Exchanged) {
    assert_eq!(*request.headers(), map(&exchanged.asked));
    assert_eq!(request.method(), "POST");
    assert_eq!(request.uri(), &*format!("http://h:81{}", exchanged.path));
    let mut content = request.into_body();
    let mut received = Vec::new();
    while let Some(part) = content.data().await {
        let part = part.unwrap();
        content.flow_control().release_capacity(part.len()).unwrap();
        received.extend(part);
    }
    assert!(received == exchanged.body, "{}", received.len());
}

/// Request of an exchange, as it is sent.
fn output(exchanged: &Exchanged) -> Output {
    let mut output = Output::default();
    let block = &mut output.block;
    for (name, value) in [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "h:81"),
    ] {
        write_field(name, value.as_bytes(), block);
    }
    block.push(4);
    write_integer(0, 7, exchanged.path.len(), block);
    block.extend_from_slice(exchanged.path.as_bytes());
    for (name, value) in &exchanged.asked {
        write_field(NAMES[*name], value, block);
    }
    output.body = exchanged.body.clone().into();
    output
}

/// Exchange on the stream at a position, and check the response.
async fn exchange(connection: Rc<RefCell<Connection>>, at: usize, exchanged: &Exchanged) {
    connection.borrow_mut().begin(at, &mut output(exchanged));
    let mut content = Vec::new();
    let end: Result<(), Failure> = poll_fn(|cx| {
        let connection = &mut *connection.borrow_mut();
        let stream = &mut connection.streams[at];
        content.append(&mut stream.content);
        stream.waker = Some(cx.waker().clone());
        if let Some(end) = stream.end.take() {
            return Poll::Ready(end);
        }
        connection.confirm(at);
        Poll::Pending
    })
    .await;
    assert_eq!(end, Ok(()));
    assert!(content == exchanged.content.concat(), "{}", content.len());
    let connection = &mut *connection.borrow_mut();
    let stream = &connection.streams[at];
    assert_eq!(stream.status, Some(exchanged.status));
    let mut fields = HeaderMap::new();
    for (name, value) in stream.fields.iter() {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        fields.append(name, HeaderValue::from_bytes(value).unwrap());
    }
    assert_eq!(fields, map(&exchanged.fields));
    let trailers = stream.trailers.as_ref().map(|fields| fields.iter().len());
    let expected = exchanged.has_trailers.then_some(exchanged.fields.len());
    assert_eq!(trailers, expected);
    connection.release(at);
}

/// Exchange all of them, on so many streams at once.
fn exchange_all(all: Vec<Exchanged>, streams: usize, pipe: usize, window: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let test = async move {
        let (here, there) = tokio::io::duplex(pipe);
        let by_path = all
            .iter()
            .map(|exchanged| (exchanged.path.clone(), exchanged.clone()));
        spawn_local(serve(there, by_path.collect(), window));
        let connection = Connection::new(u32::try_from(streams).unwrap(), None);
        let connection = Rc::new(RefCell::new(connection));
        let mut driver = Driver {
            stream: here,
            input: Input::new(),
            connection: Rc::clone(&connection),
            clock: Clock::start(),
        };
        spawn_local(async move { poll_fn(|cx| driver.poll(cx)).await });
        while !connection.borrow().has_settings {
            yield_now().await;
        }
        for round in all.chunks(streams) {
            let round = round.iter().cloned().enumerate();
            let tasks: Vec<_> = round
                .map(|(at, exchanged)| {
                    let connection = Rc::clone(&connection);
                    spawn_local(async move { exchange(connection, at, &exchanged).await })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        }
        assert_eq!(connection.borrow().end, None);
    };
    LocalSet::new().block_on(&runtime, test);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn a_server_of_another_library_gets_what_is_sent_and_is_understood(
        all in prop::collection::vec(exchanged(), 1..5), streams in 1..5_usize,
        pipe in prop_oneof![Just(60), Just(70_000)], window in prop_oneof![Just(100_u32), Just(65_535)],
    ) {
        // The heads of the second and third time are repeated, by number or as they are.
        let mut all = [&all[..], &all, &all].concat();
        for (number, exchanged) in all.iter_mut().enumerate() {
            exchanged.path = format!("{}/{number}", exchanged.path);
            // As a server has them that may say so.
            if matches!(exchanged.status, 204 | 304) {
                exchanged.content.clear();
            }
            if pipe == 60 {
                exchanged.body.truncate(5_000);
                exchanged.content.iter_mut().for_each(|part| part.truncate(5_000));
            }
        }
        exchange_all(all, streams, pipe, window);
    }
}

/// Frames that are more or less valid, one after the other.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let payload = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..12),
        Just(vec![0x88]),
        Just([&[0x88, 0x5c, 1][..], b"2"].concat()),
        Just(vec![0, 0, 0, 7]),
        Just(vec![0x88, 0x40, 1, b'a', 0x82, 0x1c, 0x64, 0xbe]),
        Just(vec![0, 4, 0, 1, 0, 0]),
    ];
    let frame = (0..11_u8, any::<u8>(), 0..8_u8, payload);
    let flags = [0, 1, 4, 5, 8, 12, 13, 32];
    let frame = frame.prop_map(move |(kind, flag, stream, payload)| {
        let flag = flags[usize::from(flag) % flags.len()];
        let length = u8::try_from(payload.len()).unwrap();
        let head = [0, 0, length, kind, flag, 0, 0, 0, stream];
        [&head[..], &payload].concat()
    });
    prop::collection::vec(frame, 0..30).prop_map(|frames| frames.concat())
}

proptest! {
    #[test]
    fn the_laws_that_fuzzing_relies_on_hold(bytes in prop_oneof![frames(), prop::collection::vec(any::<u8>(), 0..200)]) {
        laws::check(&bytes);
    }
}

#[test]
fn a_block_that_changes_the_table_is_decoded_each_time() {
    let mut connection = Connection::new(3, None);
    (0..3).for_each(|at| connection.begin(at, &mut Output::default()));
    let head = |stream, block: &[u8]| {
        let length = u8::try_from(block.len()).unwrap();
        [&[0, 0, length, 1, 5, 0, 0, 0, stream], block].concat()
    };
    // `a: b` twice, and the older one of them by its number.
    let kept = [0x88, 0x40, 1, b'a', 1, b'b'];
    let settings = vec![0, 0, 0, 4, 0, 0, 0, 0, 0];
    let frames = [
        settings,
        head(1, &kept),
        head(3, &kept),
        head(5, &[0x88, 0xbf]),
    ]
    .concat();
    assert_eq!(connection.receive(&frames, Nanos(1)), Ok(frames.len()));
    for stream in &connection.streams {
        let fields: Vec<_> = stream.fields.iter().collect();
        assert_eq!(fields, [("a", &b"b"[..])]);
    }
}

#[test]
fn content_on_streams_that_were_reset_is_bounded_by_their_windows() {
    const RESET: usize = 2;
    let mut connection = Connection::new(1, None);
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    connection.receive(&settings, Nanos(1)).unwrap();
    for _ in 0..RESET {
        connection.begin(0, &mut Output::default());
        connection.release(0);
    }
    let content = vec![0; 1 << 14];
    let frame = [&[0, 0x40, 0, 0, 0, 0, 0, 0, 1][..], &content].concat();
    for _ in 0..RESET * (2 << 20) / content.len() {
        assert_eq!(connection.receive(&frame, Nanos(1)), Ok(frame.len()));
    }
    let beyond = connection.receive(&frame, Nanos(1)).unwrap_err();
    assert_eq!(beyond.kind, ErrorKind::Http2Protocol);
}

#[test]
fn a_field_that_may_not_be_is_named() {
    let mut connection = Connection::new(1, None);
    connection.begin(0, &mut Output::default());
    let head = [0x88, 0, 3, b'x', b'-', b'a', 1, 7];
    let frame = [&[0, 0, 8, 1, 5, 0, 0, 0, 1][..], &head].concat();
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    connection.receive(&settings, Nanos(1)).unwrap();
    connection.receive(&frame, Nanos(1)).unwrap();
    let failure = connection.streams[0].end.clone().unwrap().unwrap_err();
    assert_eq!(failure.kind, ErrorKind::Http2Protocol);
    assert!(failure.details.contains("x-a"), "{}", failure.details);
}

/// Heads among the frames that a connection has queued from its start.
fn heads(connection: &Connection) -> usize {
    let mut rest = &connection.queued()[24..];
    let mut heads = 0;
    while let [a, b, c, kind, ..] = *rest {
        heads += usize::from(kind == 1);
        rest = &rest[9 + u32::from_be_bytes([0, a, b, c]) as usize..];
    }
    heads
}

#[test]
fn requests_beyond_the_streams_that_a_target_has_come_to_allow_wait() {
    let now = Clock::start().now();
    let allow = |streams| [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, streams];
    let mut connection = Connection::new(3, None);
    connection.receive(&allow(3), now).unwrap();
    connection.receive(&allow(1), now).unwrap();
    let begin = |connection: &mut Connection, at| {
        let mut output = Output::default();
        output.block.push(0x82);
        connection.begin(at, &mut output);
    };
    (0..3).for_each(|at| begin(&mut connection, at));
    assert_eq!(heads(&connection), 1);
    // The first is answered, the third is given up.
    let answer = [0, 0, 1, 1, 5, 0, 0, 0, 1, 0x88];
    connection.receive(&answer, now).unwrap();
    assert_eq!(heads(&connection), 2);
    connection.release(2);
    connection.receive(&allow(9), now).unwrap();
    assert_eq!(heads(&connection), 2);
    begin(&mut connection, 2);
    assert_eq!(heads(&connection), 3);
}

/// A target that sends a frame again and again, and takes so many bytes each time that it is written to.
#[derive(Debug)]
struct Flood {
    frame: Vec<u8>,
    sent: usize,
    takes: Vec<usize>,
    writes: usize,
}

impl AsyncRead for Flood {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let flood = self.get_mut();
        while buf.remaining() > 0 {
            let part = &flood.frame[flood.sent % flood.frame.len()..];
            let part = &part[..part.len().min(buf.remaining())];
            buf.put_slice(part);
            flood.sent += part.len();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Flood {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let flood = self.get_mut();
        // Each second time it has no room.
        flood.writes += 1;
        match flood.takes[flood.writes / 2 % flood.takes.len()].min(bytes.len()) {
            taken @ 1.. if flood.writes.is_multiple_of(2) => Poll::Ready(Ok(taken)),
            _ => Poll::Pending,
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Stream for Flood {}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn frames_to_send_take_bounded_memory_however_slowly_a_target_reads(
        frame in prop::sample::select(vec![
            vec![0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8],
            vec![0, 0, 0, 4, 0, 0, 0, 0, 0],
        ]),
        takes in prop::collection::vec(0..9_000_usize, 1..20),
    ) {
        let mut connection = Connection::new(1, None);
        connection.receive(&[0, 0, 0, 4, 0, 0, 0, 0, 0], Nanos(1)).unwrap();
        let connection = Rc::new(RefCell::new(connection));
        let mut driver = Driver {
            stream: Flood { frame, sent: 0, takes, writes: 0 },
            input: Input::new(),
            connection: Rc::clone(&connection),
            clock: Clock::start(),
        };
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..2_000 {
            prop_assert!(driver.poll(&mut cx).is_pending());
            // As much as may wait, and what one turn reads; as much that is written; and as much again of room.
            let capacity = connection.borrow().output.capacity();
            prop_assert!(capacity <= 4 * (MOST_QUEUED + TURN_BYTES), "{}", capacity);
        }
    }
}
