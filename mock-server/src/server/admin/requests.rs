//! The admin routes to the journal.

use super::{Desk, Order, Said, done, refused, unknown};
use crate::config::Journal;
use crate::server::journal::{self, Logged};
use crate::stubs::{Node, RequestPattern};
use serde_json::{Value, json};

/// How many requests are listed unless a limit is given.
const LISTED: usize = 1000;

/// How many bytes of requests are listed, whatever the limit: the process answers nobody else while it writes them.
const LARGE: usize = 16 << 20;

pub(super) fn routed(route: (&str, Option<&str>), order: &Order<'_>, desk: &Desk<'_>) -> Result<Said, Said> {
    let is_off = desk.journal == Journal::Off;
    match route {
        ("GET", None) => Ok(done(list(order, desk))),
        ("DELETE", None) | ("POST", Some("reset")) => {
            forget(desk);
            Ok(done(json!({})))
        }
        ("POST", Some("count")) => {
            let count = journal::find(desk.shared, Some(&pattern(order)?)).count();
            Ok(done(json!({"count": count, "requestJournalDisabled": is_off})))
        }
        ("POST", Some("find")) => {
            let pattern = pattern(order)?;
            let found = journal::find(desk.shared, Some(&pattern)).take(order.number("limit").unwrap_or(LISTED));
            let found: Vec<Value> = light(found).map(|logged| logged.to_json()).collect();
            Ok(done(json!({"requests": found, "requestJournalDisabled": is_off})))
        }
        _ => Err(unknown()),
    }
}

/// Empties the journal.
pub(super) fn forget(desk: &Desk<'_>) {
    desk.shared.forget_journal();
}

/// The newest come first, as WireMock lists them.
fn list(order: &Order<'_>, desk: &Desk<'_>) -> Value {
    let (limit, offset) = (order.number("limit").unwrap_or(LISTED), order.number("offset").unwrap_or(0));
    let places = journal::places(desk.shared);
    let newest = places.iter().rev().skip(offset).take(limit);
    let shown = light(newest.filter_map(|place| journal::at(desk.shared, *place)));
    let shown: Vec<Value> = shown.map(|logged| json!({"request": logged.to_json()})).collect();
    json!({
        "requests": shown,
        "meta": {"total": places.len()},
        "requestJournalDisabled": desk.journal == Journal::Off,
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

fn pattern(order: &Order<'_>) -> Result<RequestPattern, Said> {
    let json = order.json()?;
    RequestPattern::read(&Node::root(&json)).map_err(|problems| refused(&problems))
}
