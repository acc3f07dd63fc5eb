//! The admin routes to the stubs, their scenarios and their settings.

use super::{AdminRequest, AdminResponse, AdminState, done, failure, refused, unknown};
use crate::server::live_stubs::{LiveStubs, Refusal, StubChange};
use crate::stubs::{ChangeError, Reply, ScenarioIndex, StateIndex, Stubs};
use hyper::StatusCode;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use std::rc::Rc;
use uuid::Uuid;

pub(super) fn mappings(
    route: (&str, Option<&str>),
    request: &AdminRequest<'_>,
    state: &AdminState<'_>,
) -> Result<AdminResponse, AdminResponse> {
    match route {
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
fn add(stub: Value, stubs: &LiveStubs) -> Result<AdminResponse, AdminResponse> {
    let after = change(stubs, &StubChange::Add(stubs.posted(stub)))?;
    let added = after.last_added().map(|stub| stub.json.clone());
    added
        .map(|json| (StatusCode::CREATED, json))
        .ok_or_else(|| refusal(&Refusal::Stuck))
}

fn list(request: &AdminRequest<'_>, stubs: &LiveStubs) -> Value {
    let current = stubs.current();
    let (limit, offset) = (
        request.number("limit").unwrap_or(usize::MAX),
        request.number("offset").unwrap_or(0),
    );
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
        "GET" => Ok(done(json!({"settings": state.stubs.settings().to_json()}))),
        "POST" | "PUT" => changed(state.stubs, &StubChange::Settings(request.json()?)),
        _ => Err(unknown()),
    }
}

pub(super) fn scenarios(
    route: (&str, Option<&str>, Option<&str>),
    request: &AdminRequest<'_>,
    state: &AdminState<'_>,
) -> Result<AdminResponse, AdminResponse> {
    match route {
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
    let names = current.names();
    let shown = |scenario: ScenarioIndex| {
        let states = current.possible_states(scenario);
        let states: Vec<_> = states
            .into_iter()
            .filter_map(|state| names.state(scenario, state))
            .collect();
        let name = names.scenario(scenario);
        let state = names.state(scenario, StateIndex::kept(stubs.state(scenario)));
        json!({"id": name, "name": name, "state": state, "possibleStates": states})
    };
    let all: Vec<Value> = current.scenarios().into_iter().map(shown).collect();
    json!({"scenarios": all})
}

/// Without a state in the body, the scenario starts over.
fn set_state(
    name: &str,
    request: &AdminRequest<'_>,
    stubs: &LiveStubs,
) -> Result<AdminResponse, AdminResponse> {
    let current = stubs.current();
    let names = current.names();
    let scenario = names
        .find_scenario(name)
        .filter(|scenario| current.scenarios().contains(scenario));
    let missing = || {
        (
            StatusCode::NOT_FOUND,
            failure(404, &format!("Scenario {name} does not exist")),
        )
    };
    let scenario = scenario.ok_or_else(missing)?;
    let wanted = if request.body.is_empty() {
        Value::Null
    } else {
        request.json()?
    };
    let state = match wanted.get("state").and_then(Value::as_str) {
        None => StateIndex::STARTED,
        Some(wanted) => names.find_state(scenario, wanted).ok_or_else(|| {
            let title = format!("Scenario {name} does not support state {wanted}");
            (StatusCode::UNPROCESSABLE_ENTITY, failure(11, &title))
        })?,
    };
    stubs.set_state(scenario, state);
    Ok(done(json!({})))
}

fn change(stubs: &LiveStubs, change: &StubChange) -> Result<Rc<Stubs<Reply>>, AdminResponse> {
    stubs.change(change).map_err(|error| refusal(&error))
}

fn changed(stubs: &LiveStubs, what: &StubChange) -> Result<AdminResponse, AdminResponse> {
    change(stubs, what).map(|_| done(json!({})))
}

fn refusal(error: &Refusal) -> AdminResponse {
    let what = error.to_string();
    match error {
        Refusal::Change(ChangeError::Missing(_)) => (StatusCode::NOT_FOUND, failure(404, &what)),
        Refusal::Change(ChangeError::Refused(problems)) => refused(problems),
        Refusal::Change(ChangeError::Taken(_)) => {
            let error = json!({"code": 109, "title": "Duplicate stub mapping ID", "detail": what});
            (StatusCode::UNPROCESSABLE_ENTITY, json!({"errors": [error]}))
        }
        Refusal::Settings(problem) => refused(std::slice::from_ref(problem)),
        Refusal::Limit { .. } => (StatusCode::UNPROCESSABLE_ENTITY, failure(10, &what)),
        Refusal::Stuck => (StatusCode::INTERNAL_SERVER_ERROR, failure(50, &what)),
        Refusal::Full => (StatusCode::INSUFFICIENT_STORAGE, failure(50, &what)),
    }
}
