//! One stub: a request pattern and its response (`stubbing/StubMapping.java`).
//!
//! It must not know of other stubs.

use super::node::{Node, Problem, Problems};
use super::reply::sanitised;
use super::request_pattern::RequestPattern;
use super::scenario::{ScenarioNames, ScenarioStep};
use crate::limit::{Algorithm, Limit};
use crate::setting::SettingError;
use hyper::header::HeaderValue;
use serde_json::Value;
use uuid::Uuid;

/// A stub whose answer is an `R`.
#[derive(Clone, Debug)]
pub(crate) struct Stub<R> {
    /// Its id, unique within a set.
    pub(crate) id: Uuid,
    /// Priority: of all stubs that fit a request, the one with the lowest number answers.
    pub(crate) priority: i32,
    /// Requests that it answers.
    pub(crate) request: RequestPattern,
    /// Its part in a scenario.
    pub(crate) scenario: Option<ScenarioStep>,
    /// Its answer.
    pub(crate) reply: R,
    /// Number of requests it answers: `x-ratelimit` in its metadata, a place that WireMock leaves
    /// to others.
    pub(crate) limit: Option<Limit>,
    /// `Matched-Stub-Id` of its answers.
    pub(crate) id_header: HeaderValue,
    /// `Matched-Stub-Name` of its answers, if it has a name.
    pub(crate) name_header: Option<HeaderValue>,
    /// The stub as it was written, `id` and `uuid` filled in: what the admin API shows.
    pub(crate) json: Value,
}

/// The priority of a stub that names none (`StubMapping.DEFAULT_PRIORITY`).
pub(crate) const DEFAULT_PRIORITY: i32 = 5;

/// `insertionIndex` is what WireMock itself writes when it saves stubs, and ignores when it reads
/// them.
const KNOWN: &str = "\
    id uuid name priority request response scenarioName requiredScenarioState newScenarioState metadata \
    persistent postServeActions serveEventListeners insertionIndex $schema";

/// Place of a stub, which decides what else its object may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StubPlace {
    /// The whole document: it may have the `meta` of a collection, and `"mappings": null`.
    Document,
    /// One of several.
    Element,
}

impl<R> Stub<R> {
    /// Reads a stub, with all of its problems if there are any.
    ///
    /// `default_id` is its id unless it names one. `names` learns the names of its scenario.
    /// `read_reply` reads what is under `response`, or makes an answer when that is absent.
    pub(crate) fn read(
        (node, place): (&Node<'_>, StubPlace),
        default_id: Uuid,
        names: &mut ScenarioNames,
        read_reply: impl FnOnce(Option<&Node<'_>>) -> Result<R, Problem>,
    ) -> Result<Self, Vec<Problem>> {
        let mut problems = Problems::default();
        check_fields(node, place, &mut problems);
        let id = problems.take(id(node)).flatten().unwrap_or(default_id);
        let name = problems
            .take(
                node.get("name")
                    .map(|name| name.text().map(str::to_owned))
                    .transpose(),
            )
            .flatten();
        let priority = problems.take(priority(node)).unwrap_or(DEFAULT_PRIORITY);
        let request = node.get("request").map_or_else(
            || Ok(RequestPattern::default()),
            |node| RequestPattern::read(&node),
        );
        let request = problems.take_all(request);
        let limit = problems.take(limit(node)).flatten();
        let reply = problems.take(read_reply(node.get("response").as_ref()));
        // Last, and only for a stub that is otherwise right: one that is refused leaves no names
        // behind.
        let (request, reply) = problems.or(request.zip(reply))?;
        let scenario = names.read(node).map_err(|problem| vec![problem])?;
        let json = with_id(node.value(), id);
        let name_header = name.as_deref().map(sanitised);
        Ok(Self {
            id,
            id_header: sanitised(&id.to_string()),
            name_header,
            limit,
            priority,
            request,
            scenario,
            reply,
            json,
        })
    }
}

fn check_fields(node: &Node<'_>, place: StubPlace, problems: &mut Problems) {
    let unknown = problems
        .take(node.unknown_fields(KNOWN))
        .into_iter()
        .flatten();
    let is_of_document = |problem: &Problem| match place {
        StubPlace::Document => matches!(problem.pointer.as_str(), "/meta" | "/mappings"),
        StubPlace::Element => false,
    };
    for problem in unknown.filter(|problem| !is_of_document(problem)) {
        problems.take::<()>(Err(problem));
    }
    problems.take(node.is_set("persistent"));
    if let Some(metadata) = node.get("metadata") {
        problems.take(metadata.fields().map(|_| ()));
    }
    for key in ["postServeActions", "serveEventListeners"] {
        let Some(field) = node.get(key) else { continue };
        if !field.is_empty() {
            problems.take::<()>(Err(field.unsupported(format!("`{key}`"))));
        }
    }
}

/// `id`, or `uuid`, which is another name for it.
fn id(node: &Node<'_>) -> Result<Option<Uuid>, Problem> {
    let read = |field: Node<'_>| {
        let text = field.text()?;
        // The only form that Java's UUIDs have; the parser takes others, too.
        let id = Uuid::try_parse(text).ok().filter(|_| text.len() == 36);
        id.ok_or_else(|| {
            field.malformed("expected a UUID such as 6d3d5c8e-3a0f-4f9e-9d6e-0c2b8c1f7a55")
        })
    };
    match (
        node.get("id").map(read).transpose()?,
        node.get("uuid").map(read).transpose()?,
    ) {
        (Some(id), Some(uuid)) if id != uuid => {
            Err(node.malformed("`id` and `uuid` differ; they mean the same"))
        }
        (id, uuid) => Ok(id.or(uuid)),
    }
}

/// A limit as `--limit` takes it.
fn limit(node: &Node<'_>) -> Result<Option<Limit>, Problem> {
    let Some(field) = node
        .get("metadata")
        .and_then(|metadata| metadata.get("x-ratelimit"))
    else {
        return Ok(None);
    };
    let limit: Limit = field
        .text()?
        .parse()
        .map_err(|error: SettingError| field.malformed(error.to_string()))?;
    if matches!(limit.algorithm, Algorithm::Connections(..)) {
        return Err(
            field.malformed("a limit on connections cannot belong to one stub: use --limit for it")
        );
    }
    Ok(Some(limit))
}

/// A number, or the text of one: a sample of WireMock's own has `"priority": "10"`.
fn priority(node: &Node<'_>) -> Result<i32, Problem> {
    let Some(field) = node.get("priority") else {
        return Ok(DEFAULT_PRIORITY);
    };
    let number = field
        .value()
        .as_str()
        .and_then(|text| text.trim().parse().ok());
    i32::try_from(number.map_or_else(|| field.integer(), Ok)?)
        .map_err(|_| field.malformed("expected a number of 32 bits"))
}

fn with_id(stub: &Value, id: Uuid) -> Value {
    let mut stub = stub.clone();
    if let Value::Object(fields) = &mut stub {
        for key in ["id", "uuid"] {
            fields.insert(key.to_owned(), Value::String(id.to_string()));
        }
        // Of the document that held the stub.
        fields.retain(|key, _| !["meta", "mappings", "$schema"].contains(&key.as_str()));
    }
    stub
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const ID: Uuid = Uuid::from_u128(7);

    fn read(stub: &Value, place: StubPlace) -> Result<Stub<Option<Value>>, Vec<String>> {
        let reply = |node: Option<&Node<'_>>| Ok(node.map(|node| node.value().clone()));
        Stub::read(
            (&Node::root(stub), place),
            ID,
            &mut ScenarioNames::default(),
            reply,
        )
        .map_err(|problems| problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn everything_may_be_left_out() {
        let stub = read(&json!({}), StubPlace::Element).unwrap();
        assert_eq!(
            read(&json!({"priority": " 10"}), StubPlace::Element)
                .unwrap()
                .priority,
            10
        );
        assert_eq!(
            (
                stub.id,
                stub.name_header,
                stub.priority,
                stub.scenario,
                stub.reply
            ),
            (ID, None, 5, None, None)
        );
        assert_eq!(
            stub.json,
            json!({"id": ID.to_string(), "uuid": ID.to_string()})
        );
    }

    #[test]
    fn what_wiremock_writes_itself_is_read() {
        let id = "6d3d5c8e-3a0f-4f9e-9d6e-0c2b8c1f7a55";
        let stub = json!({
            "id": id, "uuid": id, "name": "n", "priority": -1, "persistent": true, "insertionIndex": 3,
            "request": {"url": "/a", "method": "GET"}, "response": {"status": 200},
            "metadata": {"x-team": {"any": ["thing"]}}, "postServeActions": [], "serveEventListeners": [],
        });
        let read = read(&stub, StubPlace::Element).unwrap();
        assert_eq!(
            (read.id.to_string().as_str(), read.priority, &read.json),
            (id, -1, &stub)
        );
        assert_eq!(
            (read.name_header, read.reply),
            (
                Some(HeaderValue::from_static("n")),
                Some(json!({"status": 200}))
            )
        );
    }

    #[test]
    fn a_stub_that_is_a_document_may_have_what_documents_have() {
        let stub = json!({"meta": {"total": 1}, "mappings": null, "$schema": "x"});
        assert_eq!(
            read(&stub, StubPlace::Document)
                .unwrap()
                .json
                .as_object()
                .unwrap()
                .len(),
            2
        );
        assert_eq!(read(&stub, StubPlace::Element).unwrap_err().len(), 2);
    }

    #[test]
    fn all_problems_are_named_at_once() {
        let stub = json!({
            "id": "7", "name": 1, "priority": 1e3, "prority": 1, "persistent": "yes", "metadata": [],
            "postServeActions": [{"name": "webhook"}],
            "request": {"urlPth": "/", "method": 3, "port": 80, "headers": {"a b": {"absent": true}, "c": {}}},
        });
        let problems = read(&stub, StubPlace::Element).unwrap_err();
        let pointers: Vec<_> = problems
            .iter()
            .map(|problem| problem.split(": ").next().unwrap())
            .collect();
        let expected = [
            "/prority",
            "/persistent",
            "/metadata",
            "/postServeActions",
            "/id",
            "/name",
            "/priority",
            "/request/urlPth",
            "/request/port",
            "/request/method",
            "/request/headers/a b",
            "/request/headers/c",
        ];
        assert_eq!(pointers, expected, "{problems:#?}");
        let two = json!({"id": "6d3d5c8e-3a0f-4f9e-9d6e-0c2b8c1f7a55", "uuid": ID.to_string()});
        assert!(read(&two, StubPlace::Element).unwrap_err()[0].contains("differ"));
    }
}
