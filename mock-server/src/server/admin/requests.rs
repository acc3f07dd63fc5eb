//! The admin routes to the journal.

use super::{AdminRequest, AdminResponse, AdminState, done, refused, unknown};
use crate::config::Journal;
use crate::server::journal::{self, Logged};
use crate::stubs::{Node, RequestPattern};
use serde_json::{Value, json};

/// Most requests listed unless a limit is given.
const LISTED: usize = 1000;

/// Most bytes of requests listed, whatever the limit: the process answers no other client while it writes them.
const LARGE: usize = 16 << 20;

pub(super) fn routed(
    route: (&str, Option<&str>),
    request: &AdminRequest<'_>,
    state: &AdminState<'_>,
) -> Result<AdminResponse, AdminResponse> {
    let is_off = state.journal == Journal::Off;
    match route {
        ("GET", None) => Ok(done(list(request, state))),
        ("GET", Some("unmatched")) => {
            let unmatched = journal::find(state.shared, None).filter(|logged| !logged.is_matched()).take(LISTED);
            let shown: Vec<Value> = light(unmatched).map(|logged| logged.to_json()).collect();
            Ok(done(json!({"requests": shown, "requestJournalDisabled": is_off})))
        }
        ("DELETE", None) | ("POST", Some("reset")) => {
            forget(state);
            Ok(done(json!({})))
        }
        ("POST", Some("count")) => {
            let count = journal::find(state.shared, Some(&pattern(request)?)).count();
            Ok(done(json!({"count": count, "requestJournalDisabled": is_off})))
        }
        ("POST", Some("find")) => {
            let pattern = pattern(request)?;
            let found = journal::find(state.shared, Some(&pattern)).take(request.number("limit").unwrap_or(LISTED));
            let found: Vec<Value> = light(found).map(|logged| logged.to_json()).collect();
            Ok(done(json!({"requests": found, "requestJournalDisabled": is_off})))
        }
        _ => Err(unknown()),
    }
}

/// Empties the journal.
pub(super) fn forget(state: &AdminState<'_>) {
    state.shared.forget_journal();
}

/// The newest come first, as WireMock lists them.
fn list(request: &AdminRequest<'_>, state: &AdminState<'_>) -> Value {
    let (limit, offset) = (request.number("limit").unwrap_or(LISTED), request.number("offset").unwrap_or(0));
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
        weight += request.weight();
        is_first || weight <= LARGE
    })
}

fn pattern(request: &AdminRequest<'_>) -> Result<RequestPattern, AdminResponse> {
    let json = request.json()?;
    RequestPattern::read(&Node::root(&json)).map_err(|problems| refused(&problems))
}
