//! HTTP/3: connections of QUIC on the UDP socket beside the listener, and their streams.
//!
//! It must not decide what an answer is (`answer` does).

use super::answer::{Answers, MAX_BODY_BYTES, ServerState};
use super::body::AnswerBody;
use super::connection::{HANDSHAKE_LIMIT, MAX_STREAMS, without_body};
use super::tasks::Tasks;
use super::{ServeError, Stop};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use h3::error::{Code, StreamError};
use h3::server::{RequestResolver, RequestStream};
use h3_quinn::BidiStream;
use http_body_util::{BodyExt, Full};
use hyper::body::Body;
use hyper::header::{CONNECTION, CONTENT_LENGTH, HeaderValue};
use hyper::{Method, Response};
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{
    Endpoint, EndpointConfig, Incoming, ServerConfig, TokioRuntime, TransportConfig, VarInt,
};
use std::net::UdpSocket;
use std::rc::Rc;
use std::sync::Arc;
use tokio::select;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Code of a connection that ends without an error (RFC 9114, 8.1).
const NO_ERROR: VarInt = VarInt::from_u32(0x100);

/// Content of all requests of a connection that may wait for its reader.
const WINDOW: u32 = 64 << 20;

/// Streams without answers that a client may open: control, and two of QPACK, twice over for those
/// of extensions.
const CLIENT_STREAMS: u32 = 6;

/// Accepts connections, as a task, until it is dropped.
pub(super) struct Listener {
    endpoint: Endpoint,
    accepting: JoinSet<()>,
}

impl Listener {
    pub(super) fn new(
        socket: UdpSocket,
        state: &Rc<ServerState>,
        stop: &Rc<Stop>,
    ) -> Result<Self, ServeError> {
        let tls = state
            .config
            .tls
            .as_ref()
            .ok_or_else(|| ServeError::Http3("it needs TLS".to_owned()))?;
        let crypto = QuicServerConfig::try_from(tls.quic())
            .map_err(|error| ServeError::Http3(error.to_string()))?;
        let mut transport = TransportConfig::default();
        transport
            .max_concurrent_bidi_streams(VarInt::from_u32(MAX_STREAMS))
            .max_concurrent_uni_streams(VarInt::from_u32(CLIENT_STREAMS))
            .receive_window(VarInt::from_u32(WINDOW));
        let mut config = ServerConfig::with_crypto(Arc::new(crypto));
        config
            .migration(false)
            .transport_config(Arc::new(transport));
        let (own, runtime) = (EndpointConfig::default(), Arc::new(TokioRuntime));
        let endpoint =
            Endpoint::new(own, Some(config), socket, runtime).map_err(ServeError::Listener)?;
        let mut accepting = JoinSet::new();
        accepting.spawn_local(accept(endpoint.clone(), Rc::clone(state), Rc::clone(stop)));
        Ok(Self {
            endpoint,
            accepting,
        })
    }

    /// Wait until all connections have ended, once serving is to stop.
    pub(super) async fn end(mut self) {
        while self.accepting.join_next().await.is_some() {}
        self.endpoint.close(NO_ERROR, b"");
        self.endpoint.wait_idle().await;
    }
}

async fn accept(endpoint: Endpoint, state: Rc<ServerState>, stop: Rc<Stop>) {
    let most = state
        .config
        .accept
        .map_or(usize::MAX, |accept| accept.open.get() as usize);
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let incoming = select! {
            biased;
            () = stop.wait() => break,
            incoming = endpoint.accept() => incoming,
        };
        let Some(incoming) = incoming else {
            return;
        };
        match Answers::new(&state, incoming.remote_address().ip()) {
            Ok(answers) if connections.len() < most => {
                let (state, stop) = (Rc::clone(&state), Rc::clone(&stop));
                connections.spawn_local(serve(incoming, answers, state, stop));
            }
            _ => incoming.refuse(),
        }
    }
    while connections.join_next().await.is_some() {}
}

/// Serve a connection until either side ends it, or serving stops and its requests are answered.
async fn serve(incoming: Incoming, answers: Answers, state: Rc<ServerState>, stop: Rc<Stop>) {
    let counters = state.ledger.counters();
    let Some(Ok(quic)) = stop.unless(timeout(HANDSHAKE_LIMIT, incoming)).await else {
        return counters.tls_handshake_failures.increment();
    };
    let Ok(quic) = quic else {
        return counters.tls_handshake_failures.increment();
    };
    counters.tls_connections.increment();
    let Ok(mut connection) = h3::server::Connection::new(h3_quinn::Connection::new(quic)).await
    else {
        return;
    };
    let (answers, streams) = (Rc::new(answers), Tasks::default());
    let mut is_told = false;
    loop {
        let accepted = select! {
            biased;
            () = stop.wait(), if !is_told => {
                is_told = true;
                drop(connection.shutdown(0).await);
                if streams.have_ended() {
                    return;
                }
                continue;
            }
            accepted = connection.accept() => accepted,
        };
        let Ok(Some(request)) = accepted else {
            return;
        };
        let answers = Rc::clone(&answers);
        // An error is a client that left, or sent what is no HTTP.
        streams.spawn(async move { drop(respond(request, &answers).await) });
    }
}

type Stream = RequestStream<BidiStream<Bytes>, Bytes>;

async fn respond(
    request: RequestResolver<h3_quinn::Connection, Bytes>,
    answers: &Answers,
) -> Result<(), StreamError> {
    let (request, mut stream) = request.resolve_request().await?;
    let is_head = *request.method() == Method::HEAD;
    let body = read(&mut stream).await?;
    match answers.answer(request.map(|()| Full::new(body))).await {
        Ok(answer) if is_head => send(without_body(answer), &mut stream).await,
        Ok(answer) => send(answer, &mut stream).await,
        Err(_) => {
            stream.stop_stream(Code::H3_INTERNAL_ERROR);
            Ok(())
        }
    }
}

/// Read the body of a request, up to a byte more than is taken.
async fn read(stream: &mut Stream) -> Result<Bytes, StreamError> {
    let mut body = BytesMut::new();
    while body.len() <= MAX_BODY_BYTES
        && let Some(part) = stream.recv_data().await?
    {
        let most = part.remaining().min(MAX_BODY_BYTES + 1 - body.len());
        body.put(part.take(most));
    }
    Ok(body.freeze())
}

async fn send(answer: Response<AnswerBody>, stream: &mut Stream) -> Result<(), StreamError> {
    let (mut parts, mut body) = answer.into_parts();
    // As the HTTP library does for the other versions.
    parts.headers.remove(CONNECTION);
    if let Some(length) = body.size_hint().exact().filter(|length| *length > 0) {
        let length = HeaderValue::from(length);
        parts.headers.entry(CONTENT_LENGTH).or_insert(length);
    }
    stream
        .send_response(Response::from_parts(parts, ()))
        .await?;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else {
            stream.stop_stream(Code::H3_INTERNAL_ERROR);
            return Ok(());
        };
        match frame.into_data() {
            Ok(data) => stream.send_data(data).await?,
            Err(frame) => {
                let trailers = frame.into_trailers().unwrap_or_default();
                stream.send_trailers(trailers).await?;
            }
        }
    }
    stream.finish().await
}
