//! The admin routes: the ledger, and WireMock's own routes to the stubs and the journal. `answer`
//! hands over every request below `/__admin`.
//!
//! Its requests must not be counted, limited, delayed or made to fail: they would change the counts
//! that they read.

mod requests;
mod stubs;

use super::live_stubs::LiveStubs;
use crate::ledger::Ledger;
use crate::shared::Shared;
use crate::stubs::{Document, Problem, parse_json};
use bytes::Bytes;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use std::borrow::Cow;

/// Everything below this is for the operator; `/__adminx` is an item.
const PREFIX: &str = "/__admin";

/// Routes, for answers to unknown ones.
const ROUTES: &str = "\
    GET /__admin/health, GET /__admin/version, GET /__admin/ledger, POST /__admin/ledger/reset, \
    POST /__admin/reset, GET /__admin/mappings, POST /__admin/mappings, DELETE /__admin/mappings, \
    POST /__admin/mappings/reset, GET /__admin/mappings/{id}, PUT /__admin/mappings/{id}, \
    DELETE /__admin/mappings/{id}, GET /__admin/requests, GET /__admin/requests/unmatched, DELETE /__admin/requests, \
    POST /__admin/requests/count, POST /__admin/requests/find, GET /__admin/scenarios, \
    POST /__admin/scenarios/reset, PUT /__admin/scenarios/{name}/state, GET /__admin/settings, \
    POST /__admin/settings";

/// True if a path belongs to the operator.
pub(super) fn is_admin(path: &str) -> bool {
    path.strip_prefix(PREFIX)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Admin request.
#[derive(Clone, Copy, Debug)]
pub(super) struct AdminRequest<'r> {
    pub(super) method: &'r Method,
    /// Path and query.
    pub(super) target: &'r str,
    pub(super) body: &'r [u8],
}

/// State that admin requests read and change.
#[derive(Clone, Copy)]
pub(super) struct AdminState<'d> {
    pub(super) shared: &'d Shared,
    pub(super) stubs: &'d LiveStubs,
    pub(super) journal: crate::config::Journal,
}

/// A status, and JSON.
pub(super) type AdminResponse = (StatusCode, Value);

impl<'r> AdminRequest<'r> {
    /// The path below the prefix.
    fn route(&self) -> &'r str {
        let path = self
            .target
            .split_once('?')
            .map_or(self.target, |(path, _)| path);
        path.strip_prefix(PREFIX).unwrap_or_default()
    }

    /// The part of a list that is asked for: its greatest length, and how many come before it.
    fn page(&self) -> (usize, usize) {
        let number = |key| self.query().find(|(name, _)| name == key)?.1.parse().ok();
        let (limit, offset): (Option<usize>, Option<usize>) = (number("limit"), number("offset"));
        (limit.unwrap_or(usize::MAX), offset.unwrap_or(0))
    }

    /// Names in the query.
    fn parameters(&self) -> impl Iterator<Item = Cow<'_, str>> {
        self.query().map(|(name, _)| name)
    }

    fn query(&self) -> form_urlencoded::Parse<'_> {
        let query = self.target.split_once('?').map_or("", |(_, query)| query);
        form_urlencoded::parse(query.as_bytes())
    }

    /// The body as JSON, with the liberties of mapping files.
    fn json(&self) -> Result<Document, AdminResponse> {
        parse_json(self.body).map_err(|error| {
            let error = json!({"code": 10, "source": {}, "title": NOT_AS_ASKED, "detail": error.to_string()});
            (StatusCode::UNPROCESSABLE_ENTITY, json!({"errors": [error]}))
        })
    }
}

/// Does what an admin request asks for, and says what to answer.
pub(super) fn answer(request: &AdminRequest<'_>, state: &AdminState<'_>) -> (StatusCode, Bytes) {
    match routed(request, state).unwrap_or_else(|refusal| refusal) {
        (status, Value::Null) => (status, Bytes::new()),
        (status, json) => (status, format!("{json:#}").into()),
    }
}

/// Route a request; an `Err` is the answer to one that cannot be carried out.
fn routed(
    request: &AdminRequest<'_>,
    state: &AdminState<'_>,
) -> Result<AdminResponse, AdminResponse> {
    let method = if request.method == Method::HEAD {
        &Method::GET
    } else {
        request.method
    };
    let mut parts = request.route().trim_start_matches('/').split('/');
    let (first, second, third, more) = (parts.next(), parts.next(), parts.next(), parts.next());
    if more.is_some() {
        return Err(unknown());
    }
    match (method.as_str(), first.unwrap_or_default(), second, third) {
        ("GET", "health", None, None) => Ok(done(json!({"status": "healthy"}))),
        ("GET", "version", None, None) => Ok(done(json!({"version": env!("CARGO_PKG_VERSION")}))),
        ("GET", "ledger", None, None) => ledger(state.shared),
        ("POST", "ledger", Some("reset"), None) => {
            Ledger::reset(state.shared);
            Ok((StatusCode::NO_CONTENT, Value::Null))
        }
        ("POST", "reset", None, None) => {
            requests::forget(state);
            stubs::reset(state)
        }
        (method, "mappings", second, None) => stubs::mappings(method, second, request, state),
        (method, "scenarios", second, third) => {
            stubs::scenarios(method, second, third, request, state)
        }
        (method, "settings", None, None) => stubs::settings(method, request, state),
        (method, "requests", second, None) => requests::routed(method, second, request, state),
        _ => Err(unknown()),
    }
}

fn ledger(shared: &Shared) -> Result<AdminResponse, AdminResponse> {
    let json = serde_json::to_value(Ledger::read(shared));
    json.map(done).map_err(|error| {
        let title = format!("failed to write the ledger as JSON: {error}");
        (StatusCode::INTERNAL_SERVER_ERROR, json!({"error": title}))
    })
}

fn done(json: Value) -> AdminResponse {
    (StatusCode::OK, json)
}

fn unknown() -> AdminResponse {
    (
        StatusCode::NOT_FOUND,
        json!({"error": "no such admin route", "routes": ROUTES.split(", ").collect::<Vec<_>>()}),
    )
}

/// WireMock's title for every malformed request.
const NOT_AS_ASKED: &str = "Error parsing JSON";

/// Format a request that is wrong, in the shape that WireMock's clients read: each problem with its
/// place.
fn refused(problem: &Problem) -> AdminResponse {
    let source = json!({"pointer": problem.pointer});
    let error =
        json!({"code": 10, "source": source, "title": NOT_AS_ASKED, "detail": problem.to_string()});
    (StatusCode::UNPROCESSABLE_ENTITY, json!({"errors": [error]}))
}

/// Format an error without a place.
fn failure(code: u16, title: &str) -> Value {
    json!({"errors": [{"code": code, "title": title}]})
}

#[cfg(test)]
mod tests;
