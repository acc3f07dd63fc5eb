//! The admin routes: the ledger, and WireMock's own routes to the stubs and the journal. `answer`
//! hands over every request below `/__admin`.
//!
//! Its requests must not be counted, limited, delayed or made to fail: they would change the counts
//! that they read.

use super::journal::{self, Logged};
use super::served_stubs::ServedStubs;
use crate::config::Journal;
use crate::ledger::Ledger;
use crate::shared::Shared;
use crate::stubs::{
    ChangeError, Node, OnTaken, Others, RequestPattern, STARTED, Stub, StubChange, Stubs,
    derived_id, parse_json, with_digits,
};
use bytes::Bytes;
use hyper::{Method, StatusCode};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use std::sync::Arc;
use uuid::Uuid;

/// Everything below this is for the operator; `/__adminx` is an item.
const PREFIX: &str = "/__admin";

/// Most entries of a list at once: the process answers no other client while it writes them.
const MOST: usize = 1000;

/// True if a path belongs to the operator.
pub(super) fn is_admin(path: &str) -> bool {
    path.strip_prefix(PREFIX)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Admin request, with the state that it reads and changes.
#[derive(Clone, Copy)]
pub(super) struct AdminRequest<'r> {
    pub(super) method: &'r Method,
    /// Path and query.
    pub(super) target: &'r str,
    pub(super) body: &'r [u8],
    pub(super) shared: &'r Shared,
    pub(super) stubs: &'r ServedStubs,
    pub(super) journal: Journal,
}

/// A status, and JSON.
type AdminResponse = (StatusCode, Value);

/// The part of a list that is asked for.
struct Page {
    limit: usize,
    offset: usize,
}

impl AdminRequest<'_> {
    /// Does what is asked for, and says what to answer.
    pub(super) fn answer(&self) -> (StatusCode, Bytes) {
        match self.routed().unwrap_or_else(|refusal| refusal) {
            (status, Value::Null) => (status, Bytes::new()),
            (status, json) => (status, with_digits(&format!("{json:#}")).into()),
        }
    }

    /// Route the request; an `Err` is the answer to one that cannot be carried out.
    fn routed(&self) -> Result<AdminResponse, AdminResponse> {
        let path = self.target.split('?').next().unwrap_or_default();
        let route = path.strip_prefix(PREFIX).unwrap_or_default();
        let parts: Vec<&str> = route.trim_start_matches('/').split('/').collect();
        let method = match self.method.as_str() {
            "HEAD" => "GET",
            method => method,
        };
        let done = match (method, parts.as_slice()) {
            ("GET", ["health"]) => json!({"status": "healthy"}),
            ("GET", ["version"]) => json!({"version": env!("CARGO_PKG_VERSION")}),
            ("GET", ["ledger"]) => json!(Ledger::read(self.shared)),
            ("POST", ["ledger", "reset"]) => {
                Ledger::reset(self.shared);
                return Ok((StatusCode::NO_CONTENT, Value::Null));
            }
            ("POST", ["reset"] | ["mappings", "reset"]) => {
                self.shared.forget_journal();
                self.stubs.reset_scenarios();
                self.change(|stubs| StubChange::Reset(stubs.settings.json.clone()))?;
                json!({})
            }
            ("GET", ["mappings"]) => self.mappings()?,
            ("POST", ["mappings"]) => {
                return Ok((StatusCode::CREATED, self.added()?));
            }
            ("DELETE", ["mappings"]) => {
                self.change(|_| StubChange::Clear)?;
                json!({})
            }
            ("GET", ["mappings", id]) => shown(self.stubs.current().get(uuid(id)?))?,
            ("PUT", ["mappings", id]) => {
                let (id, stub) = (uuid(id)?, self.json()?);
                let after = self.change(|_| StubChange::Replace(id, stub.clone()))?;
                shown(after.get(id))?
            }
            ("DELETE", ["mappings", id]) => {
                let id = uuid(id)?;
                self.change(|_| StubChange::Remove(vec![id]))?;
                json!({})
            }
            ("GET", ["scenarios"]) => self.scenarios(),
            ("POST", ["scenarios", "reset"]) => {
                self.stubs.reset_scenarios();
                json!({})
            }
            ("PUT", ["scenarios", name, "state"]) => {
                self.set_state(&percent_decode_str(name).decode_utf8_lossy())?
            }
            ("GET", ["settings"]) => json!({"settings": self.stubs.current().settings.json}),
            ("POST" | "PUT", ["settings"]) => {
                // As they are posted, or as they are read.
                let settings = match self.json()? {
                    Value::Object(mut read) if read.contains_key("settings") => {
                        read["settings"].take()
                    }
                    posted => posted,
                };
                self.change(|_| StubChange::Settings(settings.clone()))?;
                json!({})
            }
            ("GET", ["requests"]) => self.requests()?,
            ("GET", ["requests", "unmatched"]) => {
                let unmatched = journal::find(self.shared, None);
                self.listed(unmatched.filter(|logged| !logged.is_matched()))?
            }
            ("DELETE", ["requests"]) | ("POST", ["requests", "reset"]) => {
                self.shared.forget_journal();
                json!({})
            }
            ("POST", ["requests", "count"]) => {
                let count = journal::find(self.shared, Some(&self.pattern()?)).count();
                json!({"count": count, "requestJournalDisabled": self.journal == Journal::Off})
            }
            ("POST", ["requests", "find"]) => {
                self.listed(journal::find(self.shared, Some(&self.pattern()?)))?
            }
            _ => {
                let unknown = json!({"error": "no such admin route"});
                return Err((StatusCode::NOT_FOUND, unknown));
            }
        };
        Ok((StatusCode::OK, done))
    }

    /// The part of a list that is asked for. Any other parameter is refused, for what it would leave
    /// out is listed.
    fn page(&self) -> Result<Page, AdminResponse> {
        let mut page = Page {
            limit: MOST,
            offset: 0,
        };
        let query = self.target.split_once('?').map_or("", |(_, query)| query);
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match (&*name, value.parse()) {
                ("limit", Ok(limit)) => page.limit = MOST.min(limit),
                ("offset", Ok(offset)) => page.offset = offset,
                _ => {
                    let what = format!("`{name}={value}` is not supported: use limit and offset");
                    return Err(failure(StatusCode::UNPROCESSABLE_ENTITY, &what));
                }
            }
        }
        Ok(page)
    }

    /// The body as JSON, with the liberties of mapping files.
    fn json(&self) -> Result<Value, AdminResponse> {
        parse_json(self.body).map_err(|error| failure(StatusCode::UNPROCESSABLE_ENTITY, &error))
    }

    fn pattern(&self) -> Result<RequestPattern, AdminResponse> {
        RequestPattern::read(&Node::root(&self.json()?))
            .map_err(|problem| failure(StatusCode::UNPROCESSABLE_ENTITY, &problem))
    }

    fn mappings(&self) -> Result<Value, AdminResponse> {
        let Page { limit, offset } = self.page()?;
        let current = self.stubs.current();
        let stubs = current.iter().skip(offset).take(limit);
        let shown: Vec<&Value> = stubs.map(|stub| &stub.json).collect();
        Ok(json!({"mappings": shown, "meta": {"total": current.len()}}))
    }

    /// Makes the change that `plan` has for the current stubs, and returns those after it.
    fn change(&self, plan: impl Fn(&Stubs) -> StubChange) -> Result<Arc<Stubs>, AdminResponse> {
        let changed = self.stubs.change(|stubs| Ok(plan(stubs)));
        changed.map_err(|error| refusal(&error))
    }

    /// Adds one stub.
    fn added(&self) -> Result<Value, AdminResponse> {
        let stub = self.json()?;
        if !stub["mappings"].is_null() {
            let what = "several stubs at once: use /__admin/mappings/import";
            return Err(failure(StatusCode::UNPROCESSABLE_ENTITY, &what));
        }
        let stubs = vec![self.with_id(stub)];
        let after = self.change(|_| StubChange::Add {
            stubs: stubs.clone(),
            on_taken: OnTaken::Refuse,
            others: Others::Keep,
        })?;
        shown(after.last_added())
    }

    /// Give a stub an id, unless it has one.
    fn with_id(&self, mut stub: Value) -> Value {
        if stub["id"].is_null()
            && stub["uuid"].is_null()
            && let Value::Object(fields) = &mut stub
        {
            let id = derived_id(&format!("added {}", self.stubs.ordinal()));
            fields.insert("id".to_owned(), json!(id));
        }
        stub
    }

    fn scenarios(&self) -> Value {
        let current = self.stubs.current();
        let all: Vec<Value> = current
            .scenarios()
            .into_iter()
            .map(|name| {
                let states = current.possible_states(name);
                let mut known = [STARTED].into_iter().chain(states.iter().copied());
                let state = known.find(|state| self.stubs.is_in(name, state));
                json!({"id": name, "name": name, "state": state, "possibleStates": states})
            })
            .collect();
        json!({"scenarios": all})
    }

    fn set_state(&self, name: &str) -> Result<Value, AdminResponse> {
        let current = self.stubs.current();
        if !current.scenarios().contains(name) {
            let title = format!("Scenario {name} does not exist");
            return Err(failure(StatusCode::NOT_FOUND, &title));
        }
        let wanted = match self.body {
            [] => Value::Null,
            _ => self.json()?,
        };
        let state = wanted["state"].as_str().unwrap_or(STARTED);
        if state != STARTED && !current.possible_states(name).contains(state) {
            let title = format!("Scenario {name} does not support state {state}");
            return Err(failure(StatusCode::UNPROCESSABLE_ENTITY, &title));
        }
        self.stubs.set_state(name, state);
        Ok(json!({}))
    }

    /// The newest come first, as WireMock lists them. Only what is listed is read.
    fn requests(&self) -> Result<Value, AdminResponse> {
        let Page { limit, offset } = self.page()?;
        let places = journal::places(self.shared);
        let newest = places.iter().rev().skip(offset).take(limit);
        let shown = newest.filter_map(|place| journal::at(self.shared, *place));
        let shown: Vec<Value> = shown.map(|logged| logged.0).collect();
        Ok(self.list(&shown, places.len()))
    }

    /// Requests, and how many there are in all.
    fn listed(&self, found: impl Iterator<Item = Logged>) -> Result<Value, AdminResponse> {
        let Page { limit, offset } = self.page()?;
        let mut total = 0;
        let counted = found.inspect(|_| total += 1);
        let mut rest = counted.skip(offset);
        let shown = rest.by_ref().take(limit);
        let shown: Vec<Value> = shown.map(|mut logged| logged.0["request"].take()).collect();
        rest.for_each(drop);
        Ok(self.list(&shown, total))
    }

    fn list(&self, requests: &[Value], total: usize) -> Value {
        let is_off = self.journal == Journal::Off;
        json!({"requests": requests, "meta": {"total": total}, "requestJournalDisabled": is_off})
    }
}

fn shown(stub: Option<&Stub>) -> Result<Value, AdminResponse> {
    stub.map(|stub| stub.json.clone())
        .ok_or_else(|| failure(StatusCode::NOT_FOUND, &"Stub mapping not found"))
}

fn uuid(id: &str) -> Result<Uuid, AdminResponse> {
    Uuid::try_parse(id).map_err(|_| {
        let title = format!("{id} is not a valid UUID");
        failure(StatusCode::BAD_REQUEST, &title)
    })
}

fn refusal(error: &ChangeError) -> AdminResponse {
    let status = match error {
        ChangeError::Missing(_) => StatusCode::NOT_FOUND,
        ChangeError::Full => StatusCode::INSUFFICIENT_STORAGE,
        ChangeError::Refused(_) | ChangeError::Taken(_) | ChangeError::TooDeep => {
            StatusCode::UNPROCESSABLE_ENTITY
        }
    };
    failure(status, error)
}

/// Format a request that is wrong in the shape that WireMock's clients read.
fn failure(status: StatusCode, what: &dyn ToString) -> AdminResponse {
    let error = json!({"code": status.as_u16(), "title": what.to_string()});
    (status, json!({"errors": [error]}))
}

#[cfg(test)]
mod tests;
