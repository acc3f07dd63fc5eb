//! One stub: a request pattern and its response (`stubbing/StubMapping.java`), and its part in a
//! scenario.
//!
//! It must not know of other stubs.

use super::node::{Node, Problem};
use super::reply::{Files, Reply, latency_of, sanitised};
use super::request_pattern::RequestPattern;
use crate::draw::fnv_1a;
use crate::latency::Latency;
use hyper::header::HeaderValue;
use serde_json::Value;
use uuid::Uuid;

/// A stub.
#[derive(Clone, Debug)]
pub(crate) struct Stub {
    /// Its id, unique within a set.
    pub(crate) id: Uuid,
    /// Priority: of all stubs that fit a request, the one with the lowest number answers.
    pub(crate) priority: i32,
    /// Requests that it answers.
    pub(crate) request: RequestPattern,
    /// Its part in a scenario.
    pub(crate) scenario: Option<ScenarioStep>,
    /// Its answer.
    pub(crate) reply: Reply,
    /// `Matched-Stub-Id` of its answers.
    pub(crate) id_header: HeaderValue,
    /// `Matched-Stub-Name` of its answers, if it has a name.
    pub(crate) name_header: Option<HeaderValue>,
    /// The file below `mappings` that is the stub's own; none where others are in it.
    pub(crate) file: Option<String>,
    /// The stub as it was written, `id` and `uuid` filled in: what the admin API shows.
    pub(crate) json: Value,
}

/// A stub's part in a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScenarioStep {
    pub(crate) scenario: String,
    /// State in which the stub answers; any if none.
    pub(crate) required: Option<String>,
    /// State in which its answer leaves the scenario.
    pub(crate) next: Option<String>,
}

/// State in which every scenario begins.
pub(crate) const STARTED: &str = "Started";

/// 64 bits that stand for the state of a scenario: 0 for the first.
pub(crate) fn state_hash(state: &str) -> u64 {
    if state == STARTED {
        0
    } else {
        fnv_1a(state).max(1)
    }
}

/// The priority of a stub that names none (`StubMapping.DEFAULT_PRIORITY`).
pub(crate) const DEFAULT_PRIORITY: i32 = 5;

/// `insertionIndex` is what WireMock itself writes when it saves stubs, and ignores when it reads
/// them.
const KNOWN: &str = "\
    id uuid name priority request response scenarioName requiredScenarioState newScenarioState metadata \
    persistent insertionIndex $schema";

/// A stub that is a whole document may have the `meta` of a collection, and `"mappings": null`.
const OF_DOCUMENT: &str = " meta mappings";

impl Stub {
    /// Reads a stub. `default_id` is its id unless it names one.
    pub(crate) fn read(node: &Node<'_>, default_id: Uuid, files: &Files) -> Result<Self, Problem> {
        let of_document = if node.pointer().is_empty() {
            OF_DOCUMENT
        } else {
            ""
        };
        node.only(
            &[KNOWN, of_document].concat(),
            &["postServeActions", "serveEventListeners"],
        )?;
        node.is_set("persistent")?;
        let latency = node.read("metadata", own_latency)?.flatten();
        let mut reply = Reply::read(node.get("response").as_ref(), files)?;
        if let Some(latency) = latency {
            reply.delays.follow(latency);
        }
        let id = id(node)?.unwrap_or(default_id);
        let name = node.read("name", Node::text)?;
        Ok(Self {
            id,
            priority: node.read("priority", Node::to)?.unwrap_or(DEFAULT_PRIORITY),
            request: node
                .read("request", RequestPattern::read)?
                .unwrap_or_default(),
            scenario: scenario(node)?,
            reply,
            id_header: sanitised(&id.to_string()),
            name_header: name.map(sanitised),
            file: Some(file_name(name.unwrap_or_default(), id)),
            json: with_id(node.value(), id),
        })
    }
}

/// The name of a file for a stub: letters, digits, dashes and dots of its own name, and its id.
fn file_name(name: &str, id: Uuid) -> String {
    /// So that the name of the file has at most 255 bytes.
    const MAX: usize = 200;
    let mut file: String = name
        .chars()
        .map(|char| if char == ' ' { '-' } else { char })
        .filter(|char| char.is_ascii_alphanumeric() || "-_".contains(*char))
        .take(MAX)
        .collect::<String>()
        .to_ascii_lowercase();
    if !file.is_empty() {
        file.push('-');
    }
    file + &format!("{id}.json")
}

/// `x-latency`, which WireMock does not read: a model of `--latency`.
fn own_latency(metadata: &Node<'_>) -> Result<Option<Latency>, Problem> {
    if let Some(limit) = metadata.get("x-ratelimit") {
        return Err(limit.malformed("a stub has no limit of its own: use --limit ..:path=/.."));
    }
    metadata.read("x-latency", |latency| latency_of(latency, latency.text()?))
}

/// `id`, or `uuid`, which is its older name; WireMock writes both.
fn id(node: &Node<'_>) -> Result<Option<Uuid>, Problem> {
    match (node.read("id", uuid)?, node.read("uuid", uuid)?) {
        (Some(id), Some(uuid)) if id != uuid => {
            Err(node.malformed("`id` and `uuid` differ; they mean the same"))
        }
        (id, uuid) => Ok(id.or(uuid)),
    }
}

fn uuid(field: &Node<'_>) -> Result<Uuid, Problem> {
    let text = field.text()?;
    Uuid::try_parse(text)
        .ok()
        .filter(|_| text.len() == 36)
        .ok_or_else(|| {
            field.malformed("expected a UUID such as 6d3d5c8e-3a0f-4f9e-9d6e-0c2b8c1f7a55")
        })
}

/// A state without a scenario means nothing.
fn scenario(node: &Node<'_>) -> Result<Option<ScenarioStep>, Problem> {
    let Some(scenario) = node.read("scenarioName", Node::to)? else {
        return Ok(None);
    };
    Ok(Some(ScenarioStep {
        scenario,
        required: node.read("requiredScenarioState", Node::to)?,
        next: node.read("newScenarioState", Node::to)?,
    }))
}

fn with_id(stub: &Value, id: Uuid) -> Value {
    let mut stub = stub.clone();
    if let Value::Object(fields) = &mut stub {
        for key in ["id", "uuid"] {
            fields.insert(key.to_owned(), Value::String(id.to_string()));
        }
        fields.retain(|key, _| !["meta", "mappings", "$schema"].contains(&key.as_str()));
    }
    stub
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const ID: Uuid = Uuid::from_u128(7);

    fn read(stub: &Value) -> Result<Stub, Problem> {
        Stub::read(&Node::root(stub), ID, &Files::None)
    }

    #[test]
    fn what_wiremock_writes_itself_is_read() {
        let id = "6d3d5c8e-3a0f-4f9e-9d6e-0c2b8c1f7a55";
        let stub = json!({
            "id": id, "uuid": id, "name": "n", "priority": -1, "persistent": true, "insertionIndex": 3,
            "request": {"url": "/a", "method": "GET"}, "response": {"status": 200},
            "metadata": {"x-team": {"any": ["thing"]}}, "postServeActions": [], "serveEventListeners": [],
            "scenarioName": "s", "newScenarioState": "x",
        });
        let read = read(&stub).unwrap();
        assert_eq!(
            (read.id.to_string().as_str(), read.priority, &read.json),
            (id, -1, &stub)
        );
        assert_eq!(read.name_header, Some(HeaderValue::from_static("n")));
        let step = read.scenario.unwrap();
        assert_eq!(
            (&*step.scenario, step.required, step.next.as_deref()),
            ("s", None, Some("x"))
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (stub, pointer) in [
            (json!({"prority": 1}), "/prority"),
            (json!({"persistent": "yes"}), "/persistent"),
            (
                json!({"metadata": {"x-ratelimit": "5/s"}}),
                "/metadata/x-ratelimit",
            ),
            (
                json!({"postServeActions": [{"name": "webhook"}]}),
                "/postServeActions",
            ),
            (json!({"id": "7"}), "/id"),
            (json!({"name": 1}), "/name"),
            (json!({"priority": 1e3}), "/priority"),
            (
                json!({"request": {"headers": {"a b": {"absent": true}}}}),
                "/request/headers/a b",
            ),
            (json!({"response": {"status": "x"}}), "/response/status"),
            (
                json!({"scenarioName": "c", "newScenarioState": 1}),
                "/newScenarioState",
            ),
            (
                json!({"id": "6d3d5c8e-3a0f-4f9e-9d6e-0c2b8c1f7a55", "uuid": ID.to_string()}),
                "",
            ),
        ] {
            assert_eq!(read(&stub).unwrap_err().pointer, pointer, "{stub}");
        }
    }
}
