//! The admin routes to the stubs, their scenarios and their settings.

use super::{AdminRequest, AdminResponse, AdminState, done, failure, refused, unknown};
use crate::server::live_stubs::{LiveStubs, Refusal, StubChange};
use crate::stubs::{ChangeError, Document, STARTED, Stubs};
use hyper::StatusCode;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use std::rc::Rc;
use uuid::Uuid;

pub(super) fn mappings(
    method: &str,
    part: Option<&str>,
    request: &AdminRequest<'_>,
    state: &AdminState<'_>,
) -> Result<AdminResponse, AdminResponse> {
    match (method, part) {
        ("GET", None) => Ok(done(list(request, state.stubs))),
        ("POST", None) => add(request.json()?, state.stubs),
        ("DELETE", None) => changed(state.stubs, &StubChange::Clear),
        ("POST", Some("reset")) => {
            state.stubs.reset_scenarios();
            changed(state.stubs, &StubChange::Reset)
        }
        (method @ ("GET" | "PUT" | "DELETE"), Some(id)) => {
            let invalid = |_| {
                (
                    StatusCode::BAD_REQUEST,
                    failure(10, &format!("{id} is not a valid UUID")),
                )
            };
            let id = Uuid::try_parse(id).map_err(invalid)?;
            one(method, id, request, state.stubs)
        }
        _ => Err(unknown()),
    }
}

/// Everything that belongs to the stubs as it was at the start.
pub(super) fn reset(state: &AdminState<'_>) -> Result<AdminResponse, AdminResponse> {
    state.stubs.reset_scenarios();
    change(state.stubs, &StubChange::Settings(json!({})))?;
    changed(state.stubs, &StubChange::Reset)
}

fn one(
    method: &str,
    id: Uuid,
    request: &AdminRequest<'_>,
    stubs: &LiveStubs,
) -> Result<AdminResponse, AdminResponse> {
    let shown = || {
        let current = stubs.current();
        let json = current.get(id).map(|stub| stub.json.clone());
        json.ok_or_else(|| refusal(&ChangeError::Missing(id).into()))
    };
    match method {
        "GET" => shown().map(done),
        "PUT" => {
            let after = change(
                stubs,
                &StubChange::Replace(id, stubs.posted(request.json()?)),
            )?;
            let json = after.get(id).map(|stub| stub.json.clone());
            json.map(done)
                .ok_or_else(|| refusal(&ChangeError::Missing(id).into()))
        }
        "DELETE" => changed(stubs, &StubChange::Remove(id)),
        _ => Err(unknown()),
    }
}

/// A stub without an id gets it where it comes in the order of all changes, which only the log
/// knows.
fn add(stub: Document, stubs: &LiveStubs) -> Result<AdminResponse, AdminResponse> {
    let after = change(stubs, &StubChange::Add(stubs.posted(stub)))?;
    let added = after.last_added().map(|stub| stub.json.clone());
    added
        .map(|json| (StatusCode::CREATED, json))
        .ok_or_else(|| refusal(&Refusal::Stuck))
}

fn list(request: &AdminRequest<'_>, stubs: &LiveStubs) -> Value {
    let current = stubs.current();
    let (limit, offset) = request.page();
    let shown: Vec<&Value> = current
        .iter()
        .map(|stub| &stub.json)
        .skip(offset)
        .take(limit)
        .collect();
    json!({"mappings": shown, "meta": {"total": current.len()}})
}

pub(super) fn settings(
    method: &str,
    request: &AdminRequest<'_>,
    state: &AdminState<'_>,
) -> Result<AdminResponse, AdminResponse> {
    match method {
        "GET" => Ok(done(json!({"settings": state.stubs.settings().json}))),
        "POST" | "PUT" => changed(state.stubs, &StubChange::Settings(request.json()?.value)),
        _ => Err(unknown()),
    }
}

pub(super) fn scenarios(
    method: &str,
    name: Option<&str>,
    part: Option<&str>,
    request: &AdminRequest<'_>,
    state: &AdminState<'_>,
) -> Result<AdminResponse, AdminResponse> {
    match (method, name, part) {
        ("GET", None, None) => Ok(done(list_scenarios(state.stubs))),
        ("POST", Some("reset"), None) => {
            state.stubs.reset_scenarios();
            Ok(done(json!({})))
        }
        ("PUT", Some(name), Some("state")) => {
            let name = percent_decode_str(name).decode_utf8_lossy();
            set_state(&name, request, state.stubs)
        }
        _ => Err(unknown()),
    }
}

fn list_scenarios(stubs: &LiveStubs) -> Value {
    let current = stubs.current();
    let shown = |name: &str| {
        let states = current.possible_states(name);
        let known = [STARTED].into_iter().chain(states.iter().copied());
        let state = known.into_iter().find(|state| stubs.is_in(name, state));
        json!({"id": name, "name": name, "state": state, "possibleStates": states})
    };
    let all: Vec<Value> = current.scenarios().into_iter().map(shown).collect();
    json!({"scenarios": all})
}

fn set_state(
    name: &str,
    request: &AdminRequest<'_>,
    stubs: &LiveStubs,
) -> Result<AdminResponse, AdminResponse> {
    let current = stubs.current();
    if !current.scenarios().contains(name) {
        let title = format!("Scenario {name} does not exist");
        return Err((StatusCode::NOT_FOUND, failure(404, &title)));
    }
    let wanted = if request.body.is_empty() {
        Value::Null
    } else {
        request.json()?.value
    };
    let state = wanted.get("state").and_then(Value::as_str);
    let state = state.unwrap_or(STARTED);
    if state != STARTED && !current.possible_states(name).contains(state) {
        let title = format!("Scenario {name} does not support state {state}");
        return Err((StatusCode::UNPROCESSABLE_ENTITY, failure(11, &title)));
    }
    stubs.set_state(name, state);
    Ok(done(json!({})))
}

fn change(stubs: &LiveStubs, change: &StubChange) -> Result<Rc<Stubs>, AdminResponse> {
    stubs.change(change).map_err(|error| refusal(&error))
}

fn changed(stubs: &LiveStubs, what: &StubChange) -> Result<AdminResponse, AdminResponse> {
    change(stubs, what).map(|_| done(json!({})))
}

fn refusal(error: &Refusal) -> AdminResponse {
    let what = error.to_string();
    match error {
        Refusal::Change(ChangeError::Missing(_)) => (StatusCode::NOT_FOUND, failure(404, &what)),
        Refusal::Change(ChangeError::Refused(problem)) | Refusal::Settings(problem) => {
            refused(problem)
        }
        Refusal::Change(ChangeError::Taken(_)) => {
            let error = json!({"code": 109, "title": "Duplicate stub mapping ID", "detail": what});
            (StatusCode::UNPROCESSABLE_ENTITY, json!({"errors": [error]}))
        }
        Refusal::Limit { .. } => (StatusCode::UNPROCESSABLE_ENTITY, failure(10, &what)),
        Refusal::Stuck => (StatusCode::INTERNAL_SERVER_ERROR, failure(50, &what)),
        Refusal::Full => (StatusCode::INSUFFICIENT_STORAGE, failure(50, &what)),
    }
}
