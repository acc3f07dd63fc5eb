//! Failures of the proxy, and the answers to them: a status, and a body that says what was wrong
//! and what would be right.
//!
//! It must not repeat credentials.

use super::super::body::AnswerBody;
use crate::proxy::{Denied, Refusal};
use crate::shared::ProxyCounters;
use hyper::header::{CONTENT_TYPE, HeaderValue, PROXY_AUTHENTICATE};
use hyper::{Response, StatusCode};
use std::io;
use std::time::Duration;

const CHALLENGE: HeaderValue =
    HeaderValue::from_static(r#"Basic realm="crawlmark", charset="UTF-8""#);
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Reason why nothing was forwarded.
#[derive(Debug, thiserror::Error)]
pub(super) enum GatewayFailure {
    /// Not let in.
    #[error(transparent)]
    Denied(Denied),
    /// No destination.
    #[error("{0}")]
    Malformed(&'static str),
    /// Out of reach.
    #[error(transparent)]
    Refused(Refusal),
    /// No connection.
    #[error("the destination cannot be connected to: {0}")]
    Unreachable(io::Error),
    /// No answer.
    #[error("the destination sent no response: {0}")]
    Broken(hyper::Error),
    /// Too late.
    #[error("the destination took longer than {}", humantime::format_duration(*.0))]
    TimedOut(Duration),
}

impl GatewayFailure {
    pub(super) fn count(&self, counters: &ProxyCounters) {
        match self {
            Self::Denied(_) => &counters.auth_failures,
            Self::Malformed(_) | Self::Refused(_) => &counters.refused,
            Self::Unreachable(_) | Self::Broken(_) | Self::TimedOut(_) => {
                &counters.upstream_failures
            }
        }
        .increment();
    }

    pub(super) fn response(&self) -> Response<AnswerBody> {
        let body = serde_json::json!({ "error": self.to_string() }).to_string();
        let mut response = Response::new(AnswerBody::whole(body.into()));
        *response.status_mut() = self.status();
        response.headers_mut().insert(CONTENT_TYPE, JSON);
        if matches!(self, Self::Denied(_)) {
            response.headers_mut().insert(PROXY_AUTHENTICATE, CHALLENGE);
        }
        response
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::Denied(_) => StatusCode::PROXY_AUTHENTICATION_REQUIRED,
            Self::Malformed(_) => StatusCode::BAD_REQUEST,
            Self::Refused(_) => StatusCode::FORBIDDEN,
            Self::Unreachable(_) | Self::Broken(_) => StatusCode::BAD_GATEWAY,
            Self::TimedOut(_) => StatusCode::GATEWAY_TIMEOUT,
        }
    }
}
