//! The admin routes to the journal.

use super::{Desk, Order, Said, done, refused, unknown};
use crate::config::Journal;
use crate::server::journal;
use crate::stubs::{Node, RequestPattern};
use serde_json::{Value, json};

/// How many requests are listed unless a limit is given: an answer should not be a journal of hundreds of megabytes.
const LISTED: usize = 1000;

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
            let found: Vec<Value> = found.map(|logged| logged.to_json()).collect();
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
    let mut all: Vec<Value> =
        journal::find(desk.shared, None).map(|logged| json!({"request": logged.to_json()})).collect();
    let total = all.len();
    all.reverse();
    let (limit, offset) = (order.number("limit").unwrap_or(LISTED), order.number("offset").unwrap_or(0));
    let shown: Vec<Value> = all.into_iter().skip(offset).take(limit).collect();
    json!({
        "requests": shown,
        "meta": {"total": total},
        "requestJournalDisabled": desk.journal == Journal::Off,
    })
}

fn pattern(order: &Order<'_>) -> Result<RequestPattern, Said> {
    let json = order.json()?;
    RequestPattern::read(&Node::root(&json)).map_err(|problems| refused(&problems))
}
