//! The admin routes to the journal.

use super::{AdminRequest, AdminResponse, AdminState, NOT_AS_ASKED, done, refused, unknown};
use crate::config::Journal;
use crate::server::journal::{self, Logged};
use crate::stubs::{Node, RequestPattern};
use hyper::StatusCode;
use serde_json::{Value, json};

/// Parameters of these routes; any other one is refused, for what it would leave out is listed.
const PARAMETERS: [&str; 2] = ["limit", "offset"];

/// Most bytes of requests listed, whatever the limit: the process answers no other client while it
/// writes them.
const LARGE: usize = 16 << 20;

pub(super) fn routed(
    method: &str,
    part: Option<&str>,
    request: &AdminRequest<'_>,
    state: &AdminState<'_>,
) -> Result<AdminResponse, AdminResponse> {
    if let Some(other) = request
        .parameters()
        .find(|name| !PARAMETERS.contains(&&**name))
    {
        let detail = format!(
            "the parameter `{other}` is not supported: use {}",
            PARAMETERS.join(" and ")
        );
        let error = json!({"code": 10, "source": {}, "title": NOT_AS_ASKED, "detail": detail});
        return Err((StatusCode::UNPROCESSABLE_ENTITY, json!({"errors": [error]})));
    }
    let is_off = state.journal == Journal::Off;
    match (method, part) {
        ("GET", None) => Ok(done(list(request, state))),
        ("GET", Some("unmatched")) => {
            let unmatched =
                || journal::find(state.shared, None).filter(|logged| !logged.is_matched());
            Ok(done(shown(request, unmatched, is_off)))
        }
        ("DELETE", None) | ("POST", Some("reset")) => {
            forget(state);
            Ok(done(json!({})))
        }
        ("POST", Some("count")) => {
            let count = journal::find(state.shared, Some(&pattern(request)?)).count();
            Ok(done(
                json!({"count": count, "requestJournalDisabled": is_off}),
            ))
        }
        ("POST", Some("find")) => {
            let pattern = pattern(request)?;
            let found = || journal::find(state.shared, Some(&pattern));
            Ok(done(shown(request, found, is_off)))
        }
        _ => Err(unknown()),
    }
}

/// Requests as WireMock lists them, and how many there are in all: beyond the limit, or what is
/// [light], some are left out.
fn shown<Found: Iterator<Item = Logged>>(
    request: &AdminRequest<'_>,
    found: impl Fn() -> Found,
    is_off: bool,
) -> Value {
    let (limit, offset) = request.page();
    let total = found().count();
    let shown: Vec<Value> = light(found().skip(offset).take(limit))
        .map(|logged| logged.to_json())
        .collect();
    json!({"requests": shown, "meta": {"total": total}, "requestJournalDisabled": is_off})
}

/// Empties the journal.
pub(super) fn forget(state: &AdminState<'_>) {
    state.shared.forget_journal();
}

/// The newest come first, as WireMock lists them.
fn list(request: &AdminRequest<'_>, state: &AdminState<'_>) -> Value {
    let (limit, offset) = request.page();
    let places = journal::places(state.shared);
    let newest = places.iter().rev().skip(offset).take(limit);
    let shown = light(newest.filter_map(|place| journal::at(state.shared, *place)));
    let shown: Vec<Value> = shown.map(|logged| logged.to_event()).collect();
    json!({
        "requests": shown,
        "meta": {"total": places.len()},
        "requestJournalDisabled": state.journal == Journal::Off,
    })
}

/// As many of `requests`, but at least one, as are not too large together.
fn light(requests: impl Iterator<Item = Logged>) -> impl Iterator<Item = Logged> {
    let mut weight = 0;
    requests.take_while(move |request| {
        let is_first = weight == 0;
        weight += request.size;
        is_first || weight <= LARGE
    })
}

fn pattern(request: &AdminRequest<'_>) -> Result<RequestPattern, AdminResponse> {
    let json = request.json()?;
    RequestPattern::read(&Node::of(&json)).map_err(|problem| refused(&problem))
}
