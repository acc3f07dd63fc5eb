//! Forwarding one request: sent in origin form from the session's source address, its response
//! passed back as it arrives.
//!
//! It must not read a body ahead of its receiver.

use super::upstream::{self, Route};
use super::{Gateway, GatewayFailure, Way};
use crate::ledger::LedgerWriter;
use crate::server::body::{AnswerBody, Carried};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue,
    PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRANSFER_ENCODING, UPGRADE, VIA,
};
use hyper::http::uri::{Authority, PathAndQuery, Uri};
use hyper::{Request, Response, Version};
use hyper_util::rt::TokioIo;
use std::rc::Rc;

/// A request as it goes out.
pub(super) fn outgoing(
    request: Request<Incoming>,
    books: &Rc<LedgerWriter>,
) -> Result<Request<Carried>, GatewayFailure> {
    let (mut parts, body) = request.into_parts();
    pass_on(&mut parts.headers);
    let authority = parts
        .uri
        .authority()
        .map(Authority::as_str)
        .unwrap_or_default();
    // Whatever the client said in `Host`, the request line decides (RFC 9112, 3.2.2). A name before
    // an @ stays here.
    let host = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    let host = HeaderValue::from_str(host)
        .map_err(|_| GatewayFailure::Malformed("the request names no host"))?;
    parts.headers.insert(HOST, host);
    let path = parts
        .uri
        .path_and_query()
        .cloned()
        .unwrap_or_else(|| PathAndQuery::from_static("/"));
    parts.uri = Uri::from(path);
    parts.version = Version::HTTP_11;
    Ok(Request::from_parts(
        parts,
        Carried {
            body,
            books: Rc::clone(books),
            counter: |counters| &counters.bytes_up,
        },
    ))
}

/// An answer as it comes back.
pub(super) fn incoming(
    response: Response<Incoming>,
    books: &Rc<LedgerWriter>,
) -> Response<AnswerBody> {
    let (mut parts, body) = response.into_parts();
    pass_on(&mut parts.headers);
    parts.version = Version::HTTP_11;
    let body = Carried {
        body,
        books: Rc::clone(books),
        counter: |counters| &counters.bytes_down,
    };
    Response::from_parts(parts, AnswerBody::Carried(body))
}

impl Gateway {
    /// Sends `request` and waits for the beginning of its answer.
    pub(super) async fn exchange(
        &self,
        request: Request<Carried>,
        way: &Way,
    ) -> Result<Response<Incoming>, GatewayFailure> {
        let mut unsent = request;
        // A connection that its other end has closed in the meantime gives the request back; the
        // next one is tried. Each is taken out of the pool for good, so this ends.
        while way.is_session
            && let Some((route, mut sender)) = self.pool.take(&way.routes)
        {
            match sender.try_send_request(unsent).await {
                Ok(response) => {
                    self.pool.keep(route, sender);
                    return Ok(response);
                }
                Err(mut error) => match error.take_message() {
                    Some(request) => unsent = request,
                    None => return Err(GatewayFailure::Broken(error.into_error())),
                },
            }
        }
        let (route, mut sender) = self.open(way).await?;
        let response = sender
            .send_request(unsent)
            .await
            .map_err(GatewayFailure::Broken)?;
        if way.is_session {
            self.pool.keep(route, sender);
        }
        Ok(response)
    }

    async fn open(&self, way: &Way) -> Result<(Route, SendRequest<Carried>), GatewayFailure> {
        let (route, stream) = upstream::connect_any(&way.routes).await?;
        let (sender, connection) = handshake(TokioIo::new(stream))
            .await
            .map_err(GatewayFailure::Broken)?;
        self.tasks.spawn(async move { drop(connection.await) });
        Ok((route, sender))
    }
}

/// Name of the proxy in `Via`.
const PSEUDONYM: HeaderValue = HeaderValue::from_static("1.1 crawlmark");

/// Concern one hop only, whether `Connection` names them or not.
const HOP_BY_HOP: [HeaderName; 8] = [
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    // Met by the HTTP library as soon as the body is read.
    EXPECT,
];

/// Takes out what concerns the last hop only, and says who passed the message on.
fn pass_on(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|names| names.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    if headers.contains_key(TRANSFER_ENCODING) {
        // It overrules a length (RFC 9112, 6.3), and goes away itself: the next hop gets a framing
        // of its own.
        headers.remove(CONTENT_LENGTH);
    }
    headers.remove(CONNECTION);
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
    headers.append(VIA, PSEUDONYM);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(headers: &[(&str, &str)]) -> Vec<(String, String)> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        pass_on(&mut map);
        let text = |(name, value): (&HeaderName, &HeaderValue)| {
            (name.to_string(), value.to_str().unwrap().to_owned())
        };
        map.iter().map(text).collect()
    }

    fn pairs(headers: &[(&str, &str)]) -> Vec<(String, String)> {
        headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn what_concerns_one_hop_is_taken_out() {
        let given = [
            ("connection", "keep-alive, X-Mine"),
            ("connection", " x-other ,, close, b@d"),
            ("x-mine", "1"),
            ("x-other", "1"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("proxy-authorization", "Basic eDp5"),
            ("proxy-authenticate", "Basic"),
            ("te", "trailers"),
            ("upgrade", "h2c"),
            ("expect", "100-continue"),
            ("authorization", "Bearer z"),
            ("content-length", "5"),
            ("cookie", "a=b"),
        ];
        let kept = [
            ("authorization", "Bearer z"),
            ("content-length", "5"),
            ("cookie", "a=b"),
            ("via", "1.1 crawlmark"),
        ];
        let mut passed = passed(&given);
        passed.sort();
        assert_eq!(passed, pairs(&kept));
    }
}
