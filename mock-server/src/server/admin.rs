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
    ChangeError, Node, OnTaken, Others, Problem, RequestPattern, STARTED, Stub, StubChange, Stubs,
    ValuePattern, derived_id, nearest, parse_json, with_digits,
};
use bytes::Bytes;
use hyper::{Method, StatusCode};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::UNIX_EPOCH;
use uuid::Uuid;

/// Everything below this is for the operator; `/__adminx` is an item.
const PREFIX: &str = "/__admin";

/// Most entries of a list at once: the process answers no other client while it writes them.
const MOST: usize = 1000;

/// Most comparisons of a request with a stub in one answer, for the same reason: a second's work.
const COMPARISONS: usize = 100_000;

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
    /// Milliseconds since 1970 before which nothing is listed.
    since: Option<u128>,
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
            ("POST", ["mappings"]) => return Ok((StatusCode::CREATED, self.put(None)?)),
            ("POST", ["reset"]) => self.on_mappings("POST", &["reset"])?,
            (method, ["mappings", rest @ ..]) => self.on_mappings(method, rest)?,
            (method, ["requests", rest @ ..]) => self.on_requests(method, rest)?,
            ("POST", ["near-misses", "request"]) => {
                let logged = Logged(json!({"request": self.json()?}));
                let near = near_misses(&logged, &self.stubs.current());
                let Some(near) = near else {
                    return Err(failure(StatusCode::UNPROCESSABLE_ENTITY, &"not a request"));
                };
                json!({"nearMisses": near})
            }
            ("POST", ["near-misses", "request-pattern"]) => self.near_pattern()?,
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
            _ => return Err(unknown()),
        };
        Ok((StatusCode::OK, done))
    }

    /// Routes to the stubs.
    fn on_mappings(&self, method: &str, parts: &[&str]) -> Result<Value, AdminResponse> {
        match (method, parts) {
            ("GET", []) => {
                let current = self.stubs.current();
                self.mappings(current.iter())
            }
            ("DELETE", []) => self.changed(|_| StubChange::Add {
                stubs: Vec::new(),
                on_taken: OnTaken::Refuse,
                others: Others::Remove,
            }),
            ("POST", ["reset"]) => {
                self.shared.forget_journal();
                self.stubs.reset_scenarios();
                self.changed(|stubs| StubChange::Reset(stubs.settings.json.clone()))
            }
            ("POST", ["import"]) => self.import(),
            ("POST", ["save"]) => {
                // As WireMock answers: without a word.
                self.stubs.save().map_err(|error| refusal(&error))?;
                Ok(json!({}))
            }
            ("POST", ["find-by-metadata"]) => {
                let (current, pattern) = (self.stubs.current(), self.value_pattern()?);
                let found: Vec<&Stub> = current.with_metadata(&pattern).collect();
                self.mappings(found.into_iter())
            }
            ("POST", ["remove-by-metadata"]) => {
                let pattern = self.value_pattern()?;
                self.changed(|stubs| {
                    let found = stubs.with_metadata(&pattern);
                    StubChange::Remove(found.map(|stub| stub.id).collect())
                })
            }
            ("GET", [id]) => shown(self.stubs.current().get(uuid(id)?)),
            ("PUT", [id]) => self.put(Some(uuid(id)?)),
            ("DELETE", [id]) => {
                let id = uuid(id)?;
                self.changed(|_| StubChange::Remove(vec![id]))
            }
            _ => Err(unknown()),
        }
    }

    /// Routes to the journal.
    fn on_requests(&self, method: &str, parts: &[&str]) -> Result<Value, AdminResponse> {
        match (method, parts) {
            ("GET", []) => self.requests(),
            ("DELETE", []) | ("POST", ["reset"]) => {
                self.shared.forget_journal();
                Ok(json!({}))
            }
            ("GET", ["unmatched"]) => self.listed(self.unmatched()),
            ("GET", ["unmatched", "near-misses"]) => {
                let stubs = self.stubs.current();
                // The newest, and no more than can be compared while others wait.
                let most = (COMPARISONS / stubs.len().max(1)).clamp(1, MOST);
                let mut unmatched: Vec<_> = self.unmatched().collect();
                unmatched.drain(..unmatched.len().saturating_sub(most));
                let near = unmatched
                    .iter()
                    .rev()
                    .filter_map(|logged| near_misses(logged, &stubs));
                Ok(json!({"nearMisses": near.flatten().collect::<Vec<_>>()}))
            }
            ("POST", ["count"]) => {
                let count = journal::find(self.shared, Some(&self.pattern()?)).count();
                let is_off = self.journal == Journal::Off;
                Ok(json!({"count": count, "requestJournalDisabled": is_off}))
            }
            ("POST", ["find"]) => self.listed(journal::find(self.shared, Some(&self.pattern()?))),
            ("GET", [id]) => {
                let id = json!(uuid(id)?);
                let mut all = journal::find(self.shared, None);
                let found = all.find(|logged| logged.0["id"] == id);
                found
                    .map(|logged| logged.0)
                    .ok_or_else(|| failure(StatusCode::NOT_FOUND, &"Request not found"))
            }
            _ => Err(unknown()),
        }
    }

    fn unmatched(&self) -> impl Iterator<Item = Logged> {
        journal::find(self.shared, None).filter(|logged| !logged.is_matched())
    }

    /// The requests that come nearest to a pattern, the newest first.
    fn near_pattern(&self) -> Result<Value, AdminResponse> {
        let (pattern, json) = (self.pattern()?, self.json()?);
        let distances = journal::places(self.shared)
            .into_iter()
            .rev()
            .filter_map(|place| {
                let logged = journal::at(self.shared, place)?;
                logged.see(|asked| (pattern.distance_from(asked), place))
            });
        let shown = nearest(distances)
            .into_iter()
            .filter_map(|(distance, place)| {
                let request = journal::at(self.shared, place)?.0["request"].take();
                let result = json!({"distance": distance});
                Some(json!({"request": request, "requestPattern": json, "matchResult": result}))
            });
        Ok(json!({"nearMisses": shown.collect::<Vec<_>>()}))
    }

    /// The part of a list that is asked for. Any other parameter is refused, for what it would leave
    /// out is listed.
    fn page(&self) -> Result<Page, AdminResponse> {
        let mut page = Page {
            limit: MOST,
            offset: 0,
            since: None,
        };
        let query = self.target.split_once('?').map_or("", |(_, query)| query);
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let time = humantime::parse_rfc3339(&value);
            match (&*name, value.parse(), time) {
                ("limit", Ok(limit), _) => page.limit = MOST.min(limit),
                ("offset", Ok(offset), _) => page.offset = offset,
                ("since", _, Ok(time)) => {
                    let since = time.duration_since(UNIX_EPOCH);
                    page.since = Some(since.unwrap_or_default().as_millis());
                }
                _ => {
                    let what = format!(
                        "`{name}={value}` is not supported: use limit, offset, or since=2030-01-31T12:00:00Z"
                    );
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
        self.read(RequestPattern::read)
    }

    fn value_pattern(&self) -> Result<ValuePattern, AdminResponse> {
        self.read(ValuePattern::read)
    }

    fn read<T>(
        &self,
        read: impl FnOnce(&Node<'_>) -> Result<T, Problem>,
    ) -> Result<T, AdminResponse> {
        read(&Node::root(&self.json()?))
            .map_err(|problem| failure(StatusCode::UNPROCESSABLE_ENTITY, &problem))
    }

    /// Adds several stubs at once.
    fn import(&self) -> Result<Value, AdminResponse> {
        let (mut imported, options) = (self.json()?, self.read(import_options)?);
        let stubs: Vec<Value> = match imported["mappings"].take() {
            Value::Array(stubs) => stubs.into_iter().map(|stub| self.with_id(stub)).collect(),
            _ => Vec::new(),
        };
        self.changed(|_| StubChange::Add {
            stubs: stubs.clone(),
            on_taken: options.0,
            others: options.1,
        })
    }

    fn mappings<'s>(
        &self,
        stubs: impl ExactSizeIterator<Item = &'s Stub>,
    ) -> Result<Value, AdminResponse> {
        let Page { limit, offset, .. } = self.page()?;
        let total = stubs.len();
        let shown = stubs.skip(offset).take(limit).map(|stub| &stub.json);
        Ok(json!({"mappings": shown.collect::<Vec<_>>(), "meta": {"total": total}}))
    }

    /// Makes a change that has no answer of its own.
    fn changed(&self, plan: impl Fn(&Stubs) -> StubChange) -> Result<Value, AdminResponse> {
        self.change(plan).map(|_| json!({}))
    }

    /// Makes the change that `plan` has for the current stubs, and returns those after it.
    fn change(&self, plan: impl Fn(&Stubs) -> StubChange) -> Result<Arc<Stubs>, AdminResponse> {
        let changed = self.stubs.change(|stubs| Ok(plan(stubs)));
        changed.map_err(|error| refusal(&error))
    }

    /// Adds one stub, or puts it in the place of the one of an id, which it takes over.
    fn put(&self, place: Option<Uuid>) -> Result<Value, AdminResponse> {
        let mut stub = self.json()?;
        if !stub["mappings"].is_null() {
            let what = "several stubs at once: use /__admin/mappings/import";
            return Err(failure(StatusCode::UNPROCESSABLE_ENTITY, &what));
        }
        if let (Some(id), Value::Object(fields)) = (place, &mut stub) {
            fields.insert("id".to_owned(), json!(id));
            fields.insert("uuid".to_owned(), json!(id));
        }
        let stubs = vec![self.with_id(stub)];
        let on_taken = place.map_or(OnTaken::Refuse, |_| OnTaken::Replace);
        let after = self.change(|_| StubChange::Add {
            stubs: stubs.clone(),
            on_taken,
            others: Others::Keep,
        })?;
        shown(place.map_or(after.last_added(), |id| after.get(id)))
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
                let state = [STARTED]
                    .into_iter()
                    .chain(states.iter().copied())
                    .find(|state| self.stubs.is_in(name, state));
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
        let page = self.page()?;
        let places = journal::places(self.shared);
        let shown: Vec<Value> = places
            .iter()
            .rev()
            .skip(page.offset)
            .filter_map(|place| journal::at(self.shared, *place))
            .filter(|logged| page.since.is_none_or(|since| logged.is_after(since)))
            .take(page.limit)
            .map(|logged| logged.0)
            .collect();
        Ok(self.list(&shown, places.len()))
    }

    /// Requests, and how many there are in all.
    fn listed(&self, found: impl Iterator<Item = Logged>) -> Result<Value, AdminResponse> {
        let Page { limit, offset, .. } = self.page()?;
        let mut total = 0;
        let mut rest = found.inspect(|_| total += 1).skip(offset);
        let shown: Vec<Value> = rest
            .by_ref()
            .take(limit)
            .map(|mut logged| logged.0["request"].take())
            .collect();
        rest.for_each(drop);
        Ok(self.list(&shown, total))
    }

    fn list(&self, requests: &[Value], total: usize) -> Value {
        let is_off = self.journal == Journal::Off;
        json!({"requests": requests, "meta": {"total": total}, "requestJournalDisabled": is_off})
    }
}

/// The stubs that a request comes nearest to; none if it is no request.
fn near_misses(logged: &Logged, stubs: &Stubs) -> Option<Vec<Value>> {
    let nearest = logged.see(|asked| stubs.nearest(asked))?;
    let shown = nearest.into_iter().map(|(distance, stub)| {
        let result = json!({"distance": distance});
        json!({"request": logged.0["request"], "stubMapping": stub.json, "matchResult": result})
    });
    Some(shown.collect())
}

/// Read the options of an import, whose stubs are read later.
fn import_options(root: &Node<'_>) -> Result<(OnTaken, Others), Problem> {
    root.only("mappings importOptions meta $schema", &[])?;
    root.need("mappings", |stubs| stubs.list(|_| Ok(())))?;
    let Some(options) = root.get("importOptions") else {
        return Ok((OnTaken::Overwrite, Others::Keep));
    };
    options.only("duplicatePolicy deleteAllNotInImport", &[])?;
    let policy = options.read("duplicatePolicy", |policy| {
        policy.choice(
            "policy",
            &[
                ("OVERWRITE", OnTaken::Overwrite),
                ("IGNORE", OnTaken::Ignore),
            ],
        )
    })?;
    let others = if options.is_set("deleteAllNotInImport")? {
        Others::Remove
    } else {
        Others::Keep
    };
    Ok((policy.unwrap_or(OnTaken::Overwrite), others))
}

fn unknown() -> AdminResponse {
    (
        StatusCode::NOT_FOUND,
        json!({"error": "no such admin route"}),
    )
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
        ChangeError::Refused(_)
        | ChangeError::Taken(_)
        | ChangeError::TooDeep
        | ChangeError::Unwritable { .. } => StatusCode::UNPROCESSABLE_ENTITY,
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
