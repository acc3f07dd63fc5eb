//! From an accepted socket to a stream that speaks a known version of HTTP: the TLS handshake where
//! there is one, and the choice of the version. `connection` takes it from there.
//!
//! It must not read further than it takes to choose.

use super::wire::Wire;
use crate::config::Config;
use crate::http::Http;
use crate::ledger::LedgerWriter;
use std::rc::Rc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// Time limit of a handshake. Two round trips fit in many times over, and a client that sends half
/// of one does not keep its connection for ever.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// Protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

/// Handshakes and protocol detection; one for all connections of a process.
pub(super) struct Entrance {
    tls: Option<TlsAcceptor>,
    http: Http,
    books: Rc<LedgerWriter>,
}

impl Entrance {
    pub(super) fn new(config: &Config, books: &Rc<LedgerWriter>) -> Self {
        let tls = config
            .tls
            .as_ref()
            .map(|tls| TlsAcceptor::from(tls.server(config.http)));
        Self {
            tls,
            http: config.http,
            books: Rc::clone(books),
        }
    }

    /// Takes a connection in; none if its handshake came to nothing. A client that says nothing is
    /// waited for without a limit once the handshake, if there is one, is done: an idle connection
    /// is no offence.
    pub(super) async fn admit(&self, stream: TcpStream) -> Option<(Wire, Protocol)> {
        // Without it the kernel would hold small answers back; where it cannot be set, answers are
        // late but right.
        drop(stream.set_nodelay(true));
        let (mut wire, agreed) = match &self.tls {
            None => (Wire::plain(stream), None),
            Some(acceptor) => Box::pin(self.shake_hands(acceptor, stream)).await?,
        };
        let protocol = match (agreed, self.http) {
            (Some(protocol), _) => protocol,
            (None, Http::Http2) => Protocol::Http2,
            (None, Http::Auto) if wire.begins_http2().await => Protocol::Http2,
            (None, Http::Auto | Http::Http1) => Protocol::Http1,
        };
        if protocol == Protocol::Http2 {
            self.books.counters().http2_connections.increment();
        }
        Some((wire, protocol))
    }

    async fn shake_hands(
        &self,
        acceptor: &TlsAcceptor,
        stream: TcpStream,
    ) -> Option<(Wire, Option<Protocol>)> {
        let Ok(Ok(stream)) = timeout(HANDSHAKE_LIMIT, acceptor.accept(stream)).await else {
            self.books.counters().tls_handshake_failures.increment();
            return None;
        };
        self.books.counters().tls_connections.increment();
        let agreed = stream.get_ref().1.alpn_protocol().map(|name| match name {
            b"h2" => Protocol::Http2,
            _ => Protocol::Http1,
        });
        Some((Wire::tls(stream), agreed))
    }
}
